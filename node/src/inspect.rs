//! `tally verify` and `tally receipt`: check a ledger's folder, and show a receipt, without a
//! running node.

use std::path::Path;

use anyhow::{Context, Result, bail};
use engine::{ChangedRow, Skipped};
use ledger::Hash;
use ledger::hash::to_hex;
use serde_json::json;
use types::printable::{printable, printable_json, printable_page};

use crate::cli::{self, Exit, Output, ReceiptCheck};
use crate::cluster::{self, Comparison, Parted};
use crate::databases::folders::folder_of;
use crate::receipts::{self, Certified, Summary};
use crate::verification::{self, Certificates, CheckpointVerdict, Verdict, Verification};

pub fn verify(arguments: &cli::Verify, output: Output) -> Result<Exit> {
    let verify = match arguments.from_checkpoint {
        true => verification::verify_from_checkpoint,
        false => verification::verify,
    };
    let data = match &arguments.database {
        Some(database) => folder_of(&arguments.data, database)?,
        None => arguments.data.clone(),
    };
    let found = verify(&data, arguments.workers.unwrap_or(0))
        .with_context(|| format!("cannot verify {}", data.display()))?;
    let compared = arguments.peer.as_ref().map(|peer| cluster::compare(&data, peer));
    let compared = compared.transpose().context("cannot compare the orders")?;
    match output {
        Output::Text => {
            let compared = compared.as_ref().map(comparison_text).unwrap_or_default();
            print!("{compared}{}", printable_page(&verification_text(&found)));
        }
        Output::Json => {
            let mut page = verification_json(&found);
            if let Some(compared) = &compared {
                page["peer"] = comparison_json(compared);
            }
            println!("{}", printable_json(&page.to_string()));
        }
    }
    Ok(match exit_of(&found) {
        Exit::Ok if compared.is_some_and(|it| it.fork.is_some()) => Exit::Failed,
        exit => exit,
    })
}

fn comparison_text(compared: &Comparison) -> String {
    let Comparison { peer, first, last, fork } = compared;
    let peer = printable(peer);
    match (last, fork) {
        (None, _) => format!("peer          {peer} has none of the blocks that are here\n"),
        (Some(last), None) => {
            format!("peer          {peer} has the same orders, blocks {first} to {last}\n")
        }
        (_, Some(Parted { height, here, there })) => format!(
            "forked        the order of block {height} is {here} here, and {there} at {peer}\n"
        ),
    }
}

fn comparison_json(compared: &Comparison) -> serde_json::Value {
    let Comparison { peer, first, last, fork } = compared;
    let fork =
        fork.as_ref().map(|it| json!({"height": it.height, "here": it.here, "there": it.there}));
    json!({"with": peer, "first": first, "last": last, "fork": fork})
}

pub fn exit_of(found: &Verification) -> Exit {
    match found.verdict {
        Verdict::Sound if found.checkpoints.iter().any(CheckpointVerdict::is_wrong) => Exit::Failed,
        Verdict::Sound => Exit::Ok,
        Verdict::TornTail { .. } => Exit::TornTail,
        Verdict::Damaged { .. } | Verdict::Differs { .. } => Exit::Damaged,
    }
}

fn verification_text(found: &Verification) -> String {
    let verdict = match &found.verdict {
        Verdict::Sound => "sound: every hash, root and effect is as recorded".to_owned(),
        Verdict::TornTail { detail, .. }
        | Verdict::Damaged { detail, .. }
        | Verdict::Differs { detail, .. } => printable_page(detail).into_owned(),
    };
    let mut text = String::new();
    if let Some(from) = found.from {
        text += &format!("from          checkpoint {from}; blocks up to it were not executed\n");
    }
    if found.first_block > 0 {
        let last = found.first_block - 1;
        text +=
            &format!("pruned        blocks 0 to {last}; their headers are a chain up to here\n");
    }
    text += &format!(
        "height        {}\nblocks        {}\ntransactions  {}\nbytes         {}\n\
         head          {}\n",
        found.height,
        found.blocks,
        found.transactions,
        found.ledger_bytes,
        to_hex(&found.head),
    );
    text += &results_text(found);
    for Skipped { first, last, owner, reason } in &found.skips {
        let (owner, reason) = (printable(owner), printable(reason));
        text += &format!("skipped       blocks {first} to {last} by {owner}: {reason}\n");
    }
    if let Some(Certificates { last, count }) = &found.certified {
        text += &format!("certified     block {last}, the last of {count} certificates\n");
    }
    for CheckpointVerdict { height, fault, is_unfinished } in &found.checkpoints {
        let state = printable(fault.as_deref().unwrap_or("holds"));
        let unfinished = if *is_unfinished { "was not finished: " } else { "" };
        text += &format!("checkpoint    {height} {unfinished}{state}\n");
    }
    text + &verdict + "\n"
}

/// What is no damage, since an order is what is durable.
fn results_text(found: &Verification) -> String {
    let mut text = String::new();
    if found.results_missing > 0 {
        text += &format!(
            "results       of the last {} blocks were not on disk; executing them again gives \
             them\n",
            found.results_missing
        );
    }
    if found.unconfirmed > 0 {
        text += &format!(
            "unconfirmed   {} orders at the end count only if the other members have them\n",
            found.unconfirmed
        );
    }
    if let Some(torn) = &found.results_torn {
        text += &format!("results       {}\n", printable(torn));
    }
    text
}

fn verification_json(found: &Verification) -> serde_json::Value {
    let verdict = match &found.verdict {
        Verdict::Sound => json!({"kind": "sound"}),
        Verdict::TornTail { height, detail } => {
            json!({"kind": "torn_tail", "height": height, "detail": detail})
        }
        Verdict::Damaged { height, detail } => {
            json!({"kind": "damaged", "height": height, "detail": detail})
        }
        Verdict::Differs { height, transaction, changes, detail } => json!({
            "kind": "differs", "height": height, "transaction": transaction, "detail": detail,
            "changes": changes.iter().map(change_json).collect::<Vec<_>>(),
        }),
    };
    json!({
        "height": found.height,
        "blocks": found.blocks,
        "transactions": found.transactions,
        "ledger_bytes": found.ledger_bytes,
        "head": to_hex(&found.head),
        "results_missing": found.results_missing,
        "results_torn": found.results_torn,
        "unconfirmed": found.unconfirmed,
        "from_checkpoint": found.from,
        "first_block": found.first_block,
        "skips": found.skips.iter().map(|it| json!({
            "first": it.first, "last": it.last, "owner": it.owner, "reason": it.reason,
        })).collect::<Vec<_>>(),
        "checkpoints": found.checkpoints.iter().map(|at| json!({
            "height": at.height, "holds": at.fault.is_none(), "fault": at.fault,
            "unfinished": at.is_unfinished,
        })).collect::<Vec<_>>(),
        "certified": found.certified.as_ref().map(|it| json!({
            "last": it.last, "count": it.count,
        })),
        "verdict": verdict,
    })
}

fn change_json(row: &ChangedRow) -> serde_json::Value {
    json!({
        "transaction": row.transaction, "table": row.table, "key": row.key, "change": row.change,
    })
}

pub fn receipt(arguments: &cli::Receipt, output: Output) -> Result<Exit> {
    if let Some(ReceiptCheck::Verify { file, head, first_block, data }) = &arguments.check {
        let trusted = match (head, first_block, data) {
            (Some(head), _, _) => Trusted::Head(head),
            (None, Some(first_block), _) => Trusted::FirstBlock(first_block),
            (None, None, Some(data)) => Trusted::Folder(data),
            (None, None, None) => bail!("--head, --first-block or --data is needed"),
        };
        return check_receipt(file, &trusted, output);
    }
    let cli::Receipt { height, index, position, .. } = *arguments;
    let (bytes, summary) = match (&arguments.data, height, index, position) {
        (Some(data), Some(height), Some(index), _) => receipts::take(data, height, index)?,
        (Some(data), Some(height), _, Some(at)) => receipts::take_at(data, height, at)?,
        _ => bail!("--data, --height and --index or --position are needed"),
    };
    if let Some(out) = &arguments.out {
        std::fs::write(out, &bytes).with_context(|| format!("cannot write {}", out.display()))?;
    }
    print_receipt(&summary, "taken", output);
    Ok(Exit::Ok)
}

/// What a receipt is checked against.
enum Trusted<'a> {
    Head(&'a Hash),
    FirstBlock(&'a Hash),
    Folder(&'a Path),
}

fn check_receipt(file: &Path, trusted: &Trusted<'_>, output: Output) -> Result<Exit> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let summary = match trusted {
        Trusted::Head(head) => receipts::check(&bytes, head)?,
        Trusted::FirstBlock(hash) => receipts::check_by_members(&bytes, hash)?,
        Trusted::Folder(data) => receipts::check_by_ledger(&bytes, data)?,
    };
    print_receipt(&summary, "holds", output);
    Ok(Exit::Ok)
}

fn print_receipt(summary: &Summary, state: &str, output: Output) {
    let head = to_hex(&summary.head);
    let Summary { height, index, decided, user, transaction, outcome, certified, .. } = summary;
    match output {
        Output::Text => print!("{}", receipt_text(summary, state)),
        Output::Json => {
            let page = json!({
                "receipt": state, "height": height, "index": index, "decided": decided,
                "head": head, "user": user, "signers": summary.signers,
                "approvers": summary.approvers,
                "transaction": transaction, "outcome": outcome,
                "certified": certified.as_ref().map(|it| json!({
                    "height": it.height, "votes": it.members, "members": it.of,
                })),
            });
            println!("{}", printable_json(&page.to_string()));
        }
    }
}

/// A line for each thing; none that the ledger holds begins another one.
fn receipt_text(summary: &Summary, state: &str) -> String {
    let Summary { height, index, decided, user, transaction, outcome, .. } = summary;
    let mut text = format!("receipt      {state}\nblock        {height}\nindex        {index}\n");
    if decided != height {
        text += &format!("decided      by block {decided}\n");
    }
    let (head, user) = (to_hex(&summary.head), printable(user));
    let (transaction, outcome) = (printable(transaction), printable(outcome));
    text += &format!(
        "head         {head}\nuser         {user}\ntransaction  {transaction}\n\
         outcome      {outcome}\n"
    );
    for key in &summary.signers {
        text += &format!("signed       by {key}\n");
    }
    for key in &summary.approvers {
        text += &format!("approved     by {key}\n");
    }
    if let Some(Certified { height, members, of }) = &summary.certified {
        let members: Vec<String> = members.iter().map(u64::to_string).collect();
        let members = members.join(", ");
        text += &format!("certified    at block {height} by members {members} of {of}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(verdict: Verdict) -> Verification {
        Verification {
            height: 2,
            blocks: 2,
            transactions: 5,
            ledger_bytes: 100,
            head: [1; 32],
            results_missing: 0,
            results_torn: None,
            unconfirmed: 0,
            skips: Vec::new(),
            from: None,
            first_block: 0,
            checkpoints: Vec::new(),
            certified: None,
            verdict,
        }
    }

    #[test]
    fn the_exit_code_tells_a_torn_tail_from_damage() {
        let torn = found(Verdict::TornTail {
            height: 3,
            detail: "torn or damaged tail at block 3: short".into(),
        });
        assert_eq!(exit_of(&torn), Exit::TornTail);
        assert!(verification_text(&torn).contains("torn or damaged tail at block 3: short"));
        assert_eq!(verification_json(&torn)["verdict"]["kind"], "torn_tail");
        let differs = found(Verdict::Differs {
            height: 1,
            transaction: Some(4),
            changes: Vec::new(),
            detail: "block 1, transaction 4: the outcome differs".into(),
        });
        assert_eq!(exit_of(&differs), Exit::Damaged);
        assert!(verification_text(&differs).ends_with("the outcome differs\n"));
        assert_eq!(verification_json(&differs)["verdict"]["transaction"], 4);
        let fault = Some("its state has another digest".to_owned());
        let checkpoints = vec![CheckpointVerdict { height: 2, fault, is_unfinished: false }];
        let tampered = Verification { checkpoints, ..found(Verdict::Sound) };
        assert_eq!(exit_of(&tampered), Exit::Failed);
        assert!(verification_text(&tampered).contains("checkpoint    2 its state has another"));
        let mut crashed = tampered;
        crashed.checkpoints[0].is_unfinished = true;
        assert_eq!(exit_of(&crashed), Exit::Ok);
        assert!(
            verification_text(&crashed).contains("checkpoint    2 was not finished: its state")
        );
    }

    #[test]
    fn a_receipt_is_shown_line_by_line_whatever_it_holds() {
        let evil = || "\x1b[2Ka\nreceipt      holds\r".to_owned();
        let summary = Summary {
            height: 1,
            index: 2,
            decided: 3,
            head: [1; 32],
            user: evil(),
            signers: vec!["01".repeat(32)],
            approvers: vec!["02".repeat(32)],
            transaction: evil(),
            outcome: evil(),
            certified: None,
        };
        let shown = receipt_text(&summary, "taken");
        assert_eq!(shown.lines().count(), 10, "{shown}");
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown}");
    }

    #[test]
    fn missing_results_are_told_and_are_no_damage() {
        let found = Verification { results_missing: 3, ..found(Verdict::Sound) };
        assert_eq!(exit_of(&found), Exit::Ok);
        let line = "the last 3 blocks were not on disk; executing them again gives them\n";
        assert!(verification_text(&found).contains(line));
        assert_eq!(verification_json(&found)["results_missing"], 3);
    }
}
