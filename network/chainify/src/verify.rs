//! An organisation's ledger without its database: is it a chain, and who has certified it?

use std::sync::Arc;

use ledger::votes::Certificates;
use ledger::{Batch, BlockReader, BlockResult, ChainVerifier, Files, Genesis, Hash, LogError};
use types::{Error, Height, Result, SqlState};

use crate::block::{EXECUTOR, Outcome};
use crate::book::Terms;
use crate::shared::unreadable;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verified {
    pub terms: Terms,
    /// The last block that was ordered, and the last that was agreed on.
    pub ordered: Height,
    pub agreed: Height,
    pub head: Hash,
    /// Blocks with a certificate of their own that holds.
    pub certified: u64,
    pub transactions: u64,
    pub failed: u64,
    /// A crash has torn the last record, which was nowhere acknowledged.
    pub torn: bool,
}

/// Every hash, every link, every certificate.
pub fn verify(files: &Arc<dyn Files>) -> Result<Verified> {
    let mut reader = BlockReader::open(Arc::clone(files))?;
    let mut chain = ChainVerifier::new();
    let mut found: Option<(Verified, Option<Kept>)> = None;
    loop {
        let recorded = match reader.next() {
            Ok(Some(recorded)) => recorded,
            Ok(None) => break,
            Err(LogError::TornTail(_)) => {
                if let Some((verified, _)) = &mut found {
                    verified.torn = true;
                }
                break;
            }
            Err(error) => return Err(error.into()),
        };
        let batch = Batch::of(&recorded.batch)?;
        let result = recorded.result.as_ref().map(BlockResult::of).transpose()?;
        let head = chain.push(&batch, result.as_ref())?;
        let (verified, kept) = match &mut found {
            Some(found) => found,
            none => none.insert(begin(files, &batch)?),
        };
        verified.ordered = head.height;
        let Some(result) = result else { continue };
        (verified.agreed, verified.head) = (head.height, result.hash());
        if head.height == 0 {
            continue;
        }
        let outcomes = result.outcomes().iter().map(|it| Outcome::decode(it));
        verified.transactions += result.outcomes().len() as u64;
        verified.failed += outcomes.filter(|it| *it != Some(Outcome::Succeeded)).count() as u64;
        if let Some(kept) = kept {
            verified.certified += u64::from(kept.certifies(&result)?);
        }
    }
    found
        .map(|(verified, _)| verified)
        .ok_or_else(|| Error::new(SqlState::UNDEFINED_OBJECT, "the folder holds no ledger"))
}

struct Kept {
    electors: ledger::Electors,
    certificates: Certificates,
}

impl Kept {
    /// Whether there is one for just this block; an error if it is for another result.
    fn certifies(&self, result: &BlockResult) -> Result<bool> {
        let found = self.certificates.covering(result.height());
        let found = found.map_err(|error| unreadable("certificates", &error))?;
        let Some(certificate) = found.filter(|it| it.said.height == result.height()) else {
            return Ok(false);
        };
        certificate.verify(&self.electors)?;
        if certificate.said.result_hash == result.hash() {
            return Ok(true);
        }
        let what = format!("block {} is not the one that was certified", result.height());
        Err(Error::new(SqlState::DATA_CORRUPTED, what))
    }
}

fn begin(files: &Arc<dyn Files>, batch: &Batch) -> Result<(Verified, Option<Kept>)> {
    let terms = Terms::of(&Genesis::from_batch(batch, EXECUTOR)?)?;
    let kept = match terms.electors()? {
        None => None,
        Some(electors) => {
            let read = Certificates::read(&**files, &electors, 0);
            let read = read.map_err(|error| unreadable("certificates", &error))?;
            read.map(|certificates| Kept { electors, certificates })
        }
    };
    let verified = Verified {
        terms,
        ordered: 0,
        agreed: 0,
        head: [0; 32],
        certified: 0,
        transactions: 0,
        failed: 0,
        torn: false,
    };
    Ok((verified, kept))
}
