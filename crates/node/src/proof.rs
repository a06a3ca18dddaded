//! `tally proof`: checks what a node has proven, with nothing but a head or a key that the user
//! trusts, and shows the key of a node.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use ledger::note::origin;
use ledger::{Files, LogReader, Proof, RealFiles, Signer, Stream, Trust, Verifier};
use serde_json::json;
use types::printable::printable_json;

use crate::cli::{Exit, Output, ProofAction};
use crate::secrets;

pub fn run(action: &ProofAction, output: Output) -> Result<Exit> {
    match action {
        ProofAction::Verify { file, head, key } => {
            let trust = match (head, key) {
                (Some(head), _) => Trust::Head(*head),
                (None, Some(key)) => Trust::Key(Verifier::parse(key)?),
                (None, None) => bail!("--head or --key is needed"),
            };
            verify(file, &trust, output)
        }
        ProofAction::Key { data } => {
            println!("{}", key_of(data)?);
            Ok(Exit::Ok)
        }
    }
}

fn verify(file: &Path, trust: &Trust, output: Output) -> Result<Exit> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let proof = Proof::read_file(&bytes).map_err(types::Error::from)?;
    let proven = proof.verify(trust).map_err(types::Error::from)?;
    match output {
        Output::Text => println!("{proven}"),
        Output::Json => {
            let page = json!({ "proof": "holds", "proven": proven.to_string() });
            println!("{}", printable_json(&page.to_string()));
        }
    }
    Ok(Exit::Ok)
}

fn key_of(data: &Path) -> Result<Verifier> {
    let files: Arc<dyn Files> = Arc::new(RealFiles::beside(data)?);
    let mut reader = LogReader::open(files, Stream::Orders)?;
    let ledger_id = match reader.ledger_id() {
        Some(ledger_id) => ledger_id,
        None => reader.next_record()?.context("the folder holds no ledger")?.ledger_id(),
    };
    Ok(Signer::new(origin(&ledger_id), secrets::node_key(data)?).verifier())
}
