//! `tally verify` and `tally receipt`: what can be said of a ledger without a node.

use std::path::Path;

use anyhow::{Context, Result, bail};
use engine::ChangedRow;
use ledger::Hash;
use ledger::hash::to_hex;
use serde_json::json;

use crate::cli::{self, Exit, Output, ReceiptCheck};
use crate::receipts::{self, Summary};
use crate::verification::{self, CheckpointVerdict, Verdict, Verification};

pub fn verify(arguments: &cli::Verify, output: Output) -> Result<Exit> {
    let verify = match arguments.from_checkpoint {
        true => verification::verify_from_checkpoint,
        false => verification::verify,
    };
    let found = verify(&arguments.data, arguments.workers.unwrap_or(0))
        .with_context(|| format!("cannot verify {}", arguments.data.display()))?;
    match output {
        Output::Text => print!("{}", verification_text(&found)),
        Output::Json => println!("{}", verification_json(&found)),
    }
    Ok(exit_of(&found))
}

pub fn exit_of(found: &Verification) -> Exit {
    match found.verdict {
        Verdict::Sound if found.checkpoints.iter().any(|at| at.fault.is_some()) => Exit::Failed,
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
        | Verdict::Differs { detail, .. } => detail.clone(),
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
         block hash    {}\n",
        found.height,
        found.blocks,
        found.transactions,
        found.ledger_bytes,
        to_hex(&found.block_hash),
    );
    for CheckpointVerdict { height, fault } in &found.checkpoints {
        let state = fault.as_deref().unwrap_or("holds");
        text += &format!("checkpoint    {height} {state}\n");
    }
    text + &verdict + "\n"
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
        "block_hash": to_hex(&found.block_hash),
        "from_checkpoint": found.from,
        "first_block": found.first_block,
        "checkpoints": found.checkpoints.iter().map(|at| json!({
            "height": at.height, "holds": at.fault.is_none(), "fault": at.fault,
        })).collect::<Vec<_>>(),
        "verdict": verdict,
    })
}

fn change_json(row: &ChangedRow) -> serde_json::Value {
    json!({
        "transaction": row.transaction, "table": row.table, "key": row.key, "change": row.change,
    })
}

pub fn receipt(arguments: &cli::Receipt, output: Output) -> Result<Exit> {
    if let Some(ReceiptCheck::Verify { file, block_hash, data }) = &arguments.check {
        return check_receipt(file, block_hash.as_ref(), data.as_deref(), output);
    }
    let (Some(data), Some(height), Some(index)) =
        (&arguments.data, arguments.height, arguments.index)
    else {
        bail!("--data, --height and --index are needed");
    };
    let (bytes, summary) = receipts::take(data, height, index)?;
    if let Some(out) = &arguments.out {
        std::fs::write(out, &bytes).with_context(|| format!("cannot write {}", out.display()))?;
    }
    print_receipt(&summary, "taken", output);
    Ok(Exit::Ok)
}

fn check_receipt(
    file: &Path,
    block_hash: Option<&Hash>,
    data: Option<&Path>,
    output: Output,
) -> Result<Exit> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let summary = match (block_hash, data) {
        (Some(block_hash), _) => receipts::check(&bytes, block_hash)?,
        (None, Some(data)) => receipts::check_by_ledger(&bytes, data)?,
        (None, None) => bail!("--block-hash or --data is needed"),
    };
    print_receipt(&summary, "holds", output);
    Ok(Exit::Ok)
}

fn print_receipt(summary: &Summary, state: &str, output: Output) {
    let block_hash = to_hex(&summary.block_hash);
    match output {
        Output::Text => println!(
            "receipt      {state}\nblock        {}\nposition     {}\nblock hash   {block_hash}\n\
             user         {}\ntransaction  {}\noutcome      {}",
            summary.height, summary.index, summary.user, summary.transaction, summary.outcome,
        ),
        Output::Json => println!(
            "{}",
            json!({
                "receipt": state, "height": summary.height, "index": summary.index,
                "block_hash": block_hash, "user": summary.user, "transaction": summary.transaction,
                "outcome": summary.outcome,
            })
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_tells_a_torn_tail_from_damage() {
        let found = |verdict| Verification {
            height: 2,
            blocks: 2,
            transactions: 5,
            ledger_bytes: 100,
            block_hash: [1; 32],
            from: None,
            first_block: 0,
            checkpoints: Vec::new(),
            verdict,
        };
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
        let checkpoints = vec![CheckpointVerdict { height: 2, fault }];
        let tampered = Verification { checkpoints, ..found(Verdict::Sound) };
        assert_eq!(exit_of(&tampered), Exit::Failed);
        assert!(verification_text(&tampered).contains("checkpoint    2 its state has another"));
    }
}
