//! `tally proof`: checks what a node has proven, with nothing but a head, a key or a first block
//! that the user trusts; shows the key of a node; gives a proof the members' votes as its anchor.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use ledger::note::origin;
use ledger::{Anchor, Files, LogReader, Proof, RealFiles, Signer, Stream, Trust, Verifier};
use serde_json::json;
use types::printable::printable_json;

use crate::cli::{Exit, Output, ProofAction};
use crate::receipts;
use crate::{folders, secrets};

pub fn run(action: &ProofAction, output: Output) -> Result<Exit> {
    match action {
        ProofAction::Verify { file, head, key, first_block } => {
            let trust = match (head, key, first_block) {
                (Some(head), ..) => Trust::Head(*head),
                (None, Some(key), _) => Trust::Key(Verifier::parse(key)?),
                (None, None, Some(hash)) => Trust::FirstBlock(*hash),
                (None, None, None) => bail!("--head, --key or --first-block is needed"),
            };
            verify(file, &trust, output)
        }
        ProofAction::Certify { file, data } => {
            println!("{}", printable_json(&certified(file, data)?.to_json()?.to_string()));
            Ok(Exit::Ok)
        }
        ProofAction::Key { data } => {
            println!("{}", key_of(data)?);
            Ok(Exit::Ok)
        }
    }
}

fn read(file: &Path) -> Result<Proof> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(Proof::read_file(&bytes).map_err(types::Error::from)?)
}

/// A proof with the certificate of a folder as its anchor.
fn certified(file: &Path, data: &Path) -> Result<Proof> {
    let proof = read(file)?;
    let height = proof.header().context("signed heads are compared by the key that signed them")?;
    let height = height.height;
    let files = folders::open(data)?;
    let votes = receipts::anchor_of(&files, height)?;
    let votes = votes.with_context(|| {
        format!("{} has no certificate at or above block {height}", data.display())
    })?;
    let (anchor, first_block) = votes;
    let proof = Proof { anchor: Anchor::Certified(Box::new(anchor)), ..proof };
    let trust = Trust::FirstBlock(first_block);
    proof.verify(&trust).map_err(types::Error::from)?;
    Ok(proof)
}

fn verify(file: &Path, trust: &Trust, output: Output) -> Result<Exit> {
    let proof = read(file)?;
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
