//! Taking a receipt from a ledger's folder, and checking one with nothing but a block hash.
//!
//! A receipt's file is JSON (`docs/ledger-format.md`); the packed form is accepted as well.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use engine::Transaction;
use engine::describe::describe_outcome;
use ledger::{Files, Hash, LogReader, Receipt, ZERO_HASH};
use types::Error;

use crate::folders;

/// What a receipt says, for people.
#[derive(Debug)]
pub struct Summary {
    pub height: u64,
    pub index: u32,
    pub block_hash: Hash,
    pub user: String,
    pub transaction: String,
    pub outcome: String,
}

/// The receipt of one transaction. The folder must not be in use by a node.
pub fn take(data: &Path, height: u64, index: u32) -> Result<(Vec<u8>, Summary)> {
    let files = folders::open(data)?;
    let first = ledger::first_block(&*files)?;
    if height < first {
        return Err(pruned(data, height, first).into());
    }
    let Some(encoded) = ledger::read_block(&*files, height)? else {
        bail!("the ledger in {} has no block {height}", data.display());
    };
    let block = encoded.decode()?;
    let Some(receipt) = Receipt::of(&block, index) else {
        bail!("block {height} has no transaction {index}; it has {}", block.transactions.len());
    };
    let text = serde_json::to_string_pretty(&receipt.to_json())? + "\n";
    Ok((text.into_bytes(), summary(&receipt)))
}

fn pruned(data: &Path, height: u64, first: u64) -> Error {
    let what = format!("block {height} was pruned: {} begins with block {first}", data.display());
    folders::refused(what).with_hint(
        "Take the receipt from the archive or from a backup: tally receipt --data ARCHIVE. One that \
         was taken before still holds: tally receipt verify FILE --data LEDGER.",
    )
}

/// What the receipt proves under the hash that a ledger's folder has for its block. Of a block that
/// was pruned that is the hash of the kept header, and all headers behind it must lead to the
/// blocks that are there.
pub fn check_by_ledger(receipt: &[u8], data: &Path) -> Result<Summary> {
    let files = folders::open(data)?;
    let height = decode(receipt)?.header.height;
    let block_hash = block_hash(&files, height)?;
    let block_hash = block_hash
        .with_context(|| format!("the ledger in {} has no block {height}", data.display()))?;
    check(receipt, &block_hash)
}

fn block_hash(files: &Arc<dyn Files>, height: u64) -> Result<Option<Hash>> {
    let mut reader = LogReader::open(files.clone())?;
    let first = reader.first_height();
    if height >= first {
        return Ok(ledger::read_block(&**files, height)?.map(|block| block.hash()));
    }
    // A newest segment without blocks tells nothing of the block before.
    let kept = reader.pruned().map_or(ZERO_HASH, |last| last.hash());
    let previous_hash = reader.next_block()?.map_or(kept, |block| block.previous_hash());
    let header = ledger::headers::kept_header(&**files, height, first, &previous_hash)?;
    Ok(header.map(|header| header.hash()))
}

/// What the receipt proves under the block hash that the caller trusts; an error if it does not.
pub fn check(receipt: &[u8], block_hash: &Hash) -> Result<Summary> {
    let receipt = decode(receipt)?;
    receipt.verify(block_hash).context("the receipt does not hold")?;
    Ok(summary(&receipt))
}

fn decode(receipt: &[u8]) -> Result<Receipt> {
    if !receipt.starts_with(b"{") {
        return Ok(Receipt::decode(receipt)?);
    }
    let json = serde_json::from_slice(receipt).context("the receipt is not JSON")?;
    Ok(Receipt::from_json(&json)?)
}

fn summary(receipt: &Receipt) -> Summary {
    let (user, transaction) = match Transaction::decode(&receipt.transaction) {
        Ok(transaction) => (transaction.user, transaction.body.describe()),
        // Genesis, or a later version's transaction: what is proven is proven all the same.
        Err(_) => (String::new(), format!("{} bytes", receipt.transaction.len())),
    };
    let outcome = match receipt.outcome.as_slice() {
        [] => "none".to_owned(),
        bytes => describe_outcome(bytes),
    };
    Summary {
        height: receipt.header.height,
        index: receipt.index,
        block_hash: receipt.header.hash(),
        user,
        transaction,
        outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::{Genesis, LogOptions, LogWriter, Parameters, RealFiles};

    /// A ledger with its genesis block alone.
    fn genesis_in(folder: &Path) -> Hash {
        let files = Arc::new(RealFiles::open(folder).unwrap());
        let mut reader = LogReader::open(files).unwrap();
        assert!(reader.next_block().unwrap().is_none());
        let mut log = LogWriter::resume(reader, LogOptions::default()).unwrap();
        let genesis =
            Genesis { ledger_id: [7; 16], time_us: 1, parameters: Parameters::new("serial") };
        let block = genesis.to_block().unwrap();
        log.append(&[block.encode().unwrap()]).unwrap();
        block.header.hash()
    }

    #[test]
    fn a_receipt_holds_and_none_of_its_bits_can_change() {
        let folder = tempfile::tempdir().unwrap();
        let hash = genesis_in(folder.path());
        let (receipt, summary) = take(folder.path(), 0, 0).unwrap();
        assert_eq!((summary.height, summary.block_hash), (0, hash));
        assert_eq!(check(&receipt, &hash).unwrap().index, 0);
        assert!(check(&receipt, &[0; 32]).is_err());
        for place in 0..receipt.len() {
            let mut forged = receipt.clone();
            forged[place] ^= 1;
            assert!(check(&forged, &hash).is_err(), "byte {place}");
        }
        assert!(take(folder.path(), 1, 0).is_err());
        assert!(take(folder.path(), 0, 1).is_err());
    }
}
