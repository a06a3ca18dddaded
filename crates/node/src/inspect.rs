//! `tally verify` and `tally receipt`: what can be said of a ledger without a node.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::cli::{self, Exit, Output, ReceiptCheck};
use crate::database::{self, ReceiptSummary, Verdict, Verification};

pub fn verify(arguments: &cli::Verify, output: Output) -> Result<Exit> {
    let found = database::verify(&arguments.data, arguments.workers.unwrap_or(0))?;
    match output {
        Output::Text => print!("{}", verification_text(&found)),
        Output::Json => println!("{}", verification_json(&found)),
    }
    Ok(exit_of(&found.verdict))
}

fn exit_of(verdict: &Verdict) -> Exit {
    match verdict {
        Verdict::Sound => Exit::Ok,
        Verdict::TornTail { .. } => Exit::TornTail,
        Verdict::Damaged { .. } | Verdict::Differs { .. } => Exit::Damaged,
    }
}

fn verification_text(found: &Verification) -> String {
    let verdict = match &found.verdict {
        Verdict::Sound => "sound: every hash, root and effect is as recorded".to_owned(),
        Verdict::TornTail { height, detail } => {
            format!("torn or damaged tail at block {height}: {detail}")
        }
        Verdict::Damaged { height, detail } => format!("damaged at block {height}: {detail}"),
        Verdict::Differs {
            height,
            transaction,
            table,
            key,
            detail,
        } => {
            let mut place = format!("differs at block {height}");
            let transaction = transaction.map(|index| index.to_string());
            for (what, name) in [
                ("transaction", &transaction),
                ("table", table),
                ("key", key),
            ] {
                if let Some(name) = name {
                    place += &format!(", {what} {name}");
                }
            }
            format!("{place}: {detail}")
        }
    };
    format!(
        "height        {}\nblocks        {}\ntransactions  {}\nbytes         {}\nblock hash    {}\n{verdict}\n",
        found.height,
        found.blocks,
        found.transactions,
        found.ledger_bytes,
        hex(&found.block_hash),
    )
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
        Verdict::Differs {
            height,
            transaction,
            table,
            key,
            detail,
        } => json!({
            "kind": "differs", "height": height, "transaction": transaction,
            "table": table, "key": key, "detail": detail,
        }),
    };
    json!({
        "height": found.height,
        "blocks": found.blocks,
        "transactions": found.transactions,
        "ledger_bytes": found.ledger_bytes,
        "block_hash": hex(&found.block_hash),
        "verdict": verdict,
    })
}

pub fn receipt(arguments: &cli::Receipt, output: Output) -> Result<Exit> {
    if let Some(ReceiptCheck::Verify { file, block_hash }) = &arguments.check {
        return check_receipt(file, block_hash, output);
    }
    let (Some(data), Some(height), Some(index)) =
        (&arguments.data, arguments.height, arguments.index)
    else {
        bail!("--data, --height and --index are needed");
    };
    let (bytes, summary) = database::take_receipt(data, height, index)?;
    if let Some(out) = &arguments.out {
        std::fs::write(out, &bytes).with_context(|| format!("cannot write {}", out.display()))?;
    }
    print_receipt(&summary, "taken", output);
    Ok(Exit::Ok)
}

fn check_receipt(file: &Path, block_hash: &str, output: Output) -> Result<Exit> {
    let hash = parse_hash(block_hash)?;
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let summary = database::check_receipt(&bytes, &hash)?;
    print_receipt(&summary, "holds", output);
    Ok(Exit::Ok)
}

fn print_receipt(summary: &ReceiptSummary, state: &str, output: Output) {
    let block_hash = hex(&summary.block_hash);
    match output {
        Output::Text => println!(
            "receipt      {state}\nblock        {}\nposition     {}\nblock hash   {block_hash}\n\
             transaction  {}\noutcome      {}",
            summary.height, summary.index, summary.transaction, summary.outcome,
        ),
        Output::Json => println!(
            "{}",
            json!({
                "receipt": state, "height": summary.height, "index": summary.index,
                "block_hash": block_hash, "transaction": summary.transaction,
                "outcome": summary.outcome,
            })
        ),
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_hash(text: &str) -> Result<[u8; 32]> {
    let mut hash = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        bail!("a block hash is 64 hexadecimal digits");
    }
    for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(pair)?;
        *byte = u8::from_str_radix(digits, 16).context("a block hash is 64 hexadecimal digits")?;
    }
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_round_trip_and_nonsense_is_refused() {
        let hash: [u8; 32] = std::array::from_fn(|i| (i * 7) as u8);
        assert_eq!(parse_hash(&hex(&hash)).unwrap(), hash);
        for text in ["", "00", &"zz".repeat(32), &"é".repeat(32)] {
            assert!(parse_hash(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_exit_code_tells_a_torn_tail_from_damage() {
        let found = |verdict| Verification {
            height: 2,
            blocks: 2,
            transactions: 5,
            ledger_bytes: 100,
            block_hash: [1; 32],
            verdict,
        };
        let torn = found(Verdict::TornTail {
            height: 3,
            detail: "short".into(),
        });
        assert_eq!(exit_of(&torn.verdict), Exit::TornTail);
        assert!(verification_text(&torn).contains("torn or damaged tail at block 3: short"));
        assert_eq!(verification_json(&torn)["verdict"]["kind"], "torn_tail");
        let differs = found(Verdict::Differs {
            height: 1,
            transaction: Some(4),
            table: Some("savings".into()),
            key: None,
            detail: "effects root".into(),
        });
        assert_eq!(exit_of(&differs.verdict), Exit::Damaged);
        let text = verification_text(&differs);
        assert!(text.contains("differs at block 1, transaction 4, table savings: effects root"));
    }
}
