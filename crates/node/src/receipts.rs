//! Taking a receipt from a ledger's folder, and checking one with nothing but a block hash.
//!
//! A receipt's file is JSON (`docs/ledger-format.md`); the packed form is accepted as well.

use std::path::Path;

use anyhow::{Context, Result, bail};
use engine::Transaction;
use engine::describe::describe_outcome;
use ledger::{Hash, RealFiles, Receipt};

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
    let files = RealFiles::read_only(data)?;
    let Some(encoded) = ledger::read_block(&files, height)? else {
        bail!("the ledger in {} has no block {height}", data.display());
    };
    let block = encoded.decode()?;
    let Some(receipt) = Receipt::of(&block, index) else {
        bail!("block {height} has no transaction {index}; it has {}", block.transactions.len());
    };
    let text = serde_json::to_string_pretty(&receipt.to_json())? + "\n";
    Ok((text.into_bytes(), summary(&receipt)))
}

/// What the receipt proves under the block hash that the caller trusts; an error if it does not.
pub fn check(receipt: &[u8], block_hash: &Hash) -> Result<Summary> {
    let receipt = if receipt.starts_with(b"{") {
        let json = serde_json::from_slice(receipt).context("the receipt is not JSON")?;
        Receipt::from_json(&json)?
    } else {
        Receipt::decode(receipt)?
    };
    receipt.verify(block_hash).context("the receipt does not hold")?;
    Ok(summary(&receipt))
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
    use ledger::{Genesis, LogOptions, LogReader, LogWriter, Parameters};
    use std::sync::Arc;

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
