//! Taking a receipt from a ledger's folder, and checking one with nothing but a head.
//!
//! A transaction is asked for by where it was ordered. Mostly its block decides it. Where that
//! block deferred it, the block that decided is looked for among those after it, and the receipt
//! holds the order headers that lead from the one to the other.
//!
//! A receipt's file is JSON (`docs/ledger-format.md`); the packed form is accepted as well. Where
//! the folder has a certificate at or above the block, the receipt carries it, with the result
//! headers between the two and the first block that names the members: [`ledger::votes`].

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use engine::Transaction;
use engine::describe::describe_outcome;
use engine::transaction::outcome::Reported;
use ledger::hash::to_hex;
use ledger::signatures::{PublicKey, Signers, signers_of};
use ledger::votes::{CertificateSets, CertifiedAnchor};
use ledger::{
    Batch, Block, BlockReader, BlockResult, CertifiedReceipt, Electors, Files, Genesis, Hash,
    LogError, OrderHeader, Receipt, Recorded, ResultHeader, Stream, ZERO_HASH, first_record,
    read_record,
};
use order::Envelope;
use types::Error;

use crate::folders;

/// What a receipt says, for people.
#[derive(Debug)]
pub struct Summary {
    /// Where the transaction was ordered.
    pub height: u64,
    pub index: u32,
    /// The block that decided it, whose head the receipt is checked against.
    pub decided: u64,
    pub head: Hash,
    pub user: String,
    /// Keys whose signatures over it are right, in hexadecimal digits.
    pub signers: Vec<String>,
    /// Keys whose approvals of it are right.
    pub approvers: Vec<String>,
    pub transaction: String,
    pub outcome: String,
    /// By whom, where the receipt has a certificate that was checked.
    pub certified: Option<Certified>,
}

/// The certificate at or above a receipt's block.
#[derive(Debug)]
pub struct Certified {
    pub height: u64,
    /// Those whose votes it holds.
    pub members: Vec<u64>,
    /// Of so many.
    pub of: usize,
}

/// The receipt of one transaction, by where it was ordered. No node may be using the folder.
pub fn take(data: &Path, height: u64, index: u32) -> Result<(Vec<u8>, Summary)> {
    let files = folders::open(data)?;
    let block = block_at(&files, data, height)?;
    of_ordered(&files, block, index)
}

/// The same, by its position among all that ran in a block: those that earlier blocks deferred come
/// first.
pub fn take_at(data: &Path, height: u64, position: u32) -> Result<(Vec<u8>, Summary)> {
    let files = folders::open(data)?;
    let block = block_at(&files, data, height)?;
    match block.result.carried().get(position as usize) {
        Some(carried) => {
            let origin = block_at(&files, data, carried.height)?;
            of_ordered(&files, origin, carried.index)
        }
        None => {
            let carried = block.result.header().carried_count;
            of_ordered(&files, block, position - carried)
        }
    }
}

fn block_at(files: &Arc<dyn Files>, data: &Path, height: u64) -> Result<Block> {
    let first = ledger::first_block(&**files)?;
    if height < first {
        return Err(pruned(data, height, first).into());
    }
    let Some(recorded) = ledger::read_block(&**files, height)? else {
        bail!("the ledger in {} has no block {height}", data.display());
    };
    whole(recorded)
}

/// The receipt of a transaction, by where it was ordered, from a folder that its node may be using.
pub fn receipt_of(files: &Arc<dyn Files>, height: u64, index: u32) -> Result<Receipt> {
    let data = Path::new("this node");
    receipt_in(files, &block_at(files, data, height)?, index)
}

fn of_ordered(files: &Arc<dyn Files>, block: Block, index: u32) -> Result<(Vec<u8>, Summary)> {
    let receipt = receipt_in(files, &block, index)?;
    let (json, certified) = match certified(files, &receipt)? {
        Some((whole, electors)) => (whole.to_json(), Some(of_certificate(&whole, &electors))),
        None => (receipt.to_json(), None),
    };
    let text = serde_json::to_string_pretty(&json)? + "\n";
    Ok((text.into_bytes(), Summary { certified, ..summary(&receipt) }))
}

fn receipt_in(files: &Arc<dyn Files>, block: &Block, index: u32) -> Result<Receipt> {
    let height = block.height();
    let Some(own) = Receipt::of(block, index) else {
        let count = block.batch.envelopes().len();
        bail!("block {height} has no transaction {index}; it has {count}");
    };
    match Reported::decode(&own.outcome) {
        Ok(Reported::Deferred) => of_deferred(files, &block.batch, index),
        _ => Ok(own),
    }
}

/// The receipt with a certificate, if the folder has one at or above its block.
fn certified(
    files: &Arc<dyn Files>,
    receipt: &Receipt,
) -> Result<Option<(CertifiedReceipt, Electors)>> {
    let Some((anchor, first_block)) = anchor_of(files, receipt.height())? else {
        return Ok(None);
    };
    let whole = CertifiedReceipt { receipt: receipt.clone(), anchor };
    let electors = whole.verify(&first_block);
    let electors = electors.context("the certificate does not fit the ledger")?;
    Ok(Some((whole, electors)))
}

/// What leads from a block to the first one, and the hash of that one. `None`: the folder has no
/// certificate at or above the block.
pub fn anchor_of(files: &Arc<dyn Files>, height: u64) -> Result<Option<(CertifiedAnchor, Hash)>> {
    let Some(genesis) = genesis(files)? else { return Ok(None) };
    let electors = Electors::of(genesis.ledger_id, &genesis.parameters)?;
    let Some(electors) = electors else { return Ok(None) };
    let Some(kept) = CertificateSets::read(&**files, &electors)? else { return Ok(None) };
    let Some((set, certificate)) = kept.covering(height)? else { return Ok(None) };
    let mut links = Vec::new();
    for height in height + 1..=certificate.said.height {
        let result = read_record(&**files, Stream::Results, height)?;
        let result = result.map(|result| BlockResult::of(&result)).transpose()?;
        // Not executed here yet.
        let Some(result) = result else { return Ok(None) };
        links.push(result.header().clone());
    }
    let anchor = CertifiedAnchor::new(&genesis, kept.path(set), links, certificate)?;
    Ok(Some((anchor, genesis.to_batch()?.hash())))
}

/// `None`: the first block was pruned.
pub fn genesis(files: &Arc<dyn Files>) -> Result<Option<Genesis>> {
    if ledger::first_block(&**files)? > 0 {
        return Ok(None);
    }
    let first = read_record(&**files, Stream::Orders, 0)?;
    let first = first.map(|record| Batch::of(&record)).transpose()?;
    // An order does not say by which executor its result was made.
    Ok(first.map(|batch| Genesis::from_batch(&batch, 1)).transpose()?)
}

fn of_certificate(whole: &CertifiedReceipt, electors: &Electors) -> Certified {
    let certificate = &whole.anchor.certificate;
    Certified {
        height: certificate.said.height,
        members: certificate.votes.iter().map(|(member, _)| *member).collect(),
        of: electors.keys.len(),
    }
}

/// What a receipt with a certificate proves under a first block whose hash the caller trusts.
pub fn check_by_members(receipt: &[u8], first_block: &Hash) -> Result<Summary> {
    let Some(whole) = decode_certified(receipt)? else {
        let what = "the receipt has no certificate".to_owned();
        let hint = "Check it against a head that you trust (--head), or against a ledger's folder \
                    (--data).";
        return Err(folders::refused(what).with_hint(hint).into());
    };
    let electors = whole.verify(first_block).context("the receipt does not hold")?;
    let certified = Some(of_certificate(&whole, &electors));
    Ok(Summary { certified, ..summary(&whole.receipt) })
}

fn decode_certified(receipt: &[u8]) -> Result<Option<CertifiedReceipt>> {
    if !receipt.starts_with(b"{") {
        return Ok(None);
    }
    let json = serde_json::from_slice(receipt).context("the receipt is not JSON")?;
    Ok(CertifiedReceipt::from_json(&json)?)
}

/// The block that decided a transaction is behind the one that deferred it.
fn of_deferred(files: &Arc<dyn Files>, origin: &Batch, index: u32) -> Result<Receipt> {
    let mut reader = BlockReader::open_at(files.clone(), origin.height() + 1)?;
    let mut between: Vec<OrderHeader> = Vec::new();
    loop {
        let recorded = match reader.next() {
            Ok(Some(recorded)) => recorded,
            Ok(None) | Err(LogError::TornTail(_)) => break,
            Err(error) => return Err(error.into()),
        };
        let block = whole(recorded)?;
        if decides(&block.result, origin.height(), index) {
            between.reverse();
            let receipt = Receipt::of_carried(origin, index, &between, &block);
            return receipt.context("the blocks do not form a chain");
        }
        between.push(block.batch.header().clone());
    }
    let height = origin.height();
    let what = format!("transaction {index} of block {height} is not decided yet");
    Err(folders::refused(what).with_hint("A later block decides it, once there is one.").into())
}

/// Whether a block says how a deferred transaction ended.
fn decides(result: &BlockResult, height: u64, index: u32) -> bool {
    let of_it =
        |carried: &&ledger::CarriedOutcome| (carried.height, carried.index) == (height, index);
    let carried = result.carried().iter().find(of_it);
    carried.is_some_and(|carried| {
        !matches!(Reported::decode(&carried.outcome), Ok(Reported::Deferred))
    })
}

fn whole(recorded: Recorded) -> Result<Block> {
    let Recorded { batch, result } = recorded;
    let Some(result) = result else {
        let what = format!("the result of block {} is not on disk", batch.height());
        let hint = "Executing the block again gives it: tally checkpoint --data LEDGER.";
        return Err(folders::refused(what).with_hint(hint).into());
    };
    Ok(Block { batch: Batch::of(&batch)?, result: BlockResult::of(&result)? })
}

fn pruned(data: &Path, height: u64, first: u64) -> Error {
    let what = format!("block {height} was pruned: {} begins with block {first}", data.display());
    folders::refused(what).with_hint(
        "Take the receipt from the archive or from a backup: tally receipt --data ARCHIVE. One \
         that was taken before still holds: tally receipt verify FILE --data LEDGER.",
    )
}

/// What the receipt proves under the head that a ledger's folder has for its block. Of a block that
/// was pruned that is the hash of the kept result header, and all headers after it must lead to
/// the results that are there.
pub fn check_by_ledger(receipt: &[u8], data: &Path) -> Result<Summary> {
    let files = folders::open(data)?;
    if let (Some(whole), Some(genesis)) = (decode_certified(receipt)?, genesis(&files)?) {
        let electors = whole.verify(&genesis.to_batch()?.hash());
        let electors = electors.context("the receipt does not hold")?;
        let certified = Some(of_certificate(&whole, &electors));
        return Ok(Summary { certified, ..summary(&whole.receipt) });
    }
    let height = decode(receipt)?.height();
    let head = head_at(&files, height)?;
    let head = head.with_context(|| {
        format!("the ledger in {} has no result of block {height}", data.display())
    })?;
    check(receipt, &head)
}

/// The hash of a block's result, also of a block that was pruned.
pub fn head_at(files: &Arc<dyn Files>, height: u64) -> Result<Option<Hash>> {
    let first = first_record(&**files, Stream::Results)?;
    if height >= first {
        return Ok(read_record(&**files, Stream::Results, height)?.map(|result| result.hash()));
    }
    let previous_hash = match read_record(&**files, Stream::Results, first)? {
        Some(oldest) => oldest.previous_hash(),
        // A newest segment without results tells nothing of the one before.
        None => {
            let reader = BlockReader::open(files.clone())?;
            reader.pruned().map_or(ZERO_HASH, |last| last.result.hash())
        }
    };
    let header =
        ledger::headers::kept_header::<ResultHeader>(&**files, height, first, &previous_hash)?;
    Ok(header.map(|header| header.hash()))
}

/// What the receipt proves under the head that the caller trusts; an error if it does not.
pub fn check(receipt: &[u8], head: &Hash) -> Result<Summary> {
    let receipt = decode(receipt)?;
    receipt.verify(head).context("the receipt does not hold")?;
    Ok(summary(&receipt))
}

fn decode(receipt: &[u8]) -> Result<Receipt> {
    if !receipt.starts_with(b"{") {
        return Ok(Receipt::decode(receipt)?);
    }
    let json = serde_json::from_slice(receipt).context("the receipt is not JSON")?;
    match CertifiedReceipt::from_json(&json)? {
        Some(whole) => Ok(whole.receipt),
        None => Ok(Receipt::from_json(&json)?),
    }
}

fn summary(receipt: &Receipt) -> Summary {
    let Signers { signed, approved } = signers_of(&receipt.envelope);
    let shown = |keys: Vec<PublicKey>| keys.iter().map(|key| to_hex(key)).collect();
    let envelope = Envelope::decode(&receipt.envelope.clone().into());
    let (user, transaction) = match envelope.and_then(|envelope| Transaction::of(&envelope)) {
        Ok(transaction) => (transaction.user, transaction.body.describe()),
        // Genesis, or what is no envelope: what is proven is proven all the same.
        Err(_) => (String::new(), format!("{} bytes", receipt.envelope.len())),
    };
    let outcome = match receipt.outcome.as_slice() {
        [] => "none".to_owned(),
        bytes => describe_outcome(bytes),
    };
    Summary {
        height: receipt.ordered_at().unwrap_or_default(),
        index: receipt.index,
        decided: receipt.height(),
        head: receipt.result.hash(),
        user,
        signers: shown(signed),
        approvers: shown(approved),
        transaction,
        outcome,
        certified: None,
    }
}

#[cfg(test)]
mod tests {
    use engine::EXECUTOR;
    use ledger::{BlockWriter, Genesis, LogOptions, Parameters, RealFiles};

    use super::*;

    /// A ledger with its genesis block alone.
    fn genesis_in(folder: &Path) -> Hash {
        let files = Arc::new(RealFiles::open(folder).unwrap());
        let parameters = Parameters::new("serial");
        let genesis = Genesis { ledger_id: [7; 16], time_us: 1, parameters, executor: EXECUTOR };
        let log = BlockWriter::begin(files, &genesis, LogOptions::default()).unwrap();
        log.head_hash()
    }

    #[test]
    fn a_receipt_holds_and_none_of_its_bits_can_change() {
        let folder = tempfile::tempdir().unwrap();
        let hash = genesis_in(folder.path());
        let (receipt, summary) = take(folder.path(), 0, 0).unwrap();
        assert_eq!((summary.height, summary.decided, summary.head), (0, 0, hash));
        assert_eq!(check(&receipt, &hash).unwrap().index, 0);
        assert_eq!(check_by_ledger(&receipt, folder.path()).unwrap().head, hash);
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
