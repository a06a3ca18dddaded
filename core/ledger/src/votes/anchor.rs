//! What leads from a result header to the ledger's first block: the votes that certify it.
//!
//! ```text
//! bytes    anchor
//! 4 + n    first block              string: order header (174) ‖ envelope
//!     4    number of successions
//!          each: 4 + n              string, `succession`
//!     4    number of links
//!          each: 250                result headers, from the block after up to the certified one
//! 4 + n    certificate              string
//! ```

use types::{Error, Result};

use super::succession::{Succession, follow};
use super::{Certificate, Electors};
use crate::genesis::Genesis;
use crate::hash::{Hash, TAG_ORDER, expect_hash, refused};
use crate::header::{
    ORDER_HEADER_BYTES, OrderHeader, RESULT_HEADER_BYTES, ResultHeader, hash_of_encoded,
};
use crate::wire::{Cursor, put_prefixed};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertifiedAnchor {
    /// Order header and envelope.
    pub first_block: Vec<u8>,
    /// From the first electors to those who have certified.
    pub successions: Vec<Succession>,
    /// From the block after the one in question up to the certified one.
    pub links: Vec<ResultHeader>,
    pub certificate: Certificate,
}

/// Which part of it leads nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnchorFault {
    /// To another first block.
    First,
    /// The ones before have not named the electors.
    Electors,
    /// They have not certified.
    Votes,
    Links,
    /// Something else is certified.
    Head,
}

/// Why it leads nowhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unanchored {
    pub fault: AnchorFault,
    pub cause: Error,
}

impl AnchorFault {
    fn by(self, cause: Error) -> Unanchored {
        Unanchored { fault: self, cause }
    }
}

impl CertifiedAnchor {
    /// `certificate`: of the last of `links`, or of the block in question.
    pub fn new(
        genesis: &Genesis,
        successions: Vec<Succession>,
        links: Vec<ResultHeader>,
        certificate: Certificate,
    ) -> Result<CertifiedAnchor> {
        let first_block = CertifiedAnchor::first_block(genesis)?;
        Ok(CertifiedAnchor { first_block, successions, links, certificate })
    }

    /// The first block as it stands in one.
    pub fn first_block(genesis: &Genesis) -> Result<Vec<u8>> {
        let batch = genesis.to_batch()?;
        let mut first_block = batch.header().encode().to_vec();
        batch.envelopes().iter().for_each(|envelope| first_block.extend_from_slice(envelope));
        Ok(first_block)
    }

    /// Checks that a header is that of a block of the ledger whose first order header has this
    /// hash, which the caller trusts. Gives those whose votes say so.
    pub fn check(&self, header: &ResultHeader, first_block: &Hash) -> Result<Electors, Unanchored> {
        use AnchorFault::{Electors as Succeeding, First, Head, Links, Votes};
        let electors = self.first(first_block).map_err(|it| First.by(it))?;
        let electors = follow(electors, &self.successions).map_err(|it| Succeeding.by(it))?;
        self.certificate.verify(&electors).map_err(|it| Votes.by(it))?;
        let last = last_of(header, &self.links).map_err(|it| Links.by(it))?;
        self.check_head(last, &electors).map_err(|it| Head.by(it))?;
        Ok(electors)
    }

    /// The electors of the first block.
    fn first(&self, trusted: &Hash) -> Result<Electors> {
        let header = self.first_block.get(..ORDER_HEADER_BYTES).unwrap_or_default();
        expect_hash("first block", trusted, &hash_of_encoded(TAG_ORDER, header))?;
        let genesis = Genesis::of_first_block(&self.first_block)?;
        let electors = Electors::of(genesis.ledger_id, &genesis.parameters)?;
        electors.ok_or_else(|| refused("the ledger has no members".to_owned()))
    }

    fn check_head(&self, last: &ResultHeader, electors: &Electors) -> Result<()> {
        let said = self.certificate.said;
        if last.ledger_id != electors.ledger_id {
            return Err(refused("it is of another ledger".to_owned()));
        }
        if last.height != said.height {
            let (at, certified) = (last.height, said.height);
            let what = format!("it leads to block {at}, and block {certified} is certified");
            return Err(refused(what));
        }
        expect_hash("certified result", &said.result_hash, &last.hash())
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) -> Result<()> {
        put_prefixed(out, &self.first_block)?;
        // Fewer than members can change, and than blocks can be.
        out.extend_from_slice(&(self.successions.len() as u32).to_be_bytes());
        self.successions.iter().try_for_each(|it| put_prefixed(out, &it.encode()))?;
        out.extend_from_slice(&(self.links.len() as u32).to_be_bytes());
        self.links.iter().for_each(|link| out.extend_from_slice(&link.encode()));
        put_prefixed(out, &self.certificate.encode())
    }

    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<CertifiedAnchor> {
        let first_block = cursor.prefixed()?.to_vec();
        let header = first_block.get(..ORDER_HEADER_BYTES);
        OrderHeader::decode(header.unwrap_or_default())?;
        let count = cursor.count(4)?;
        let successions = (0..count).map(|_| Succession::decode(cursor.prefixed()?));
        let successions = successions.collect::<Result<_>>()?;
        let count = cursor.count(RESULT_HEADER_BYTES)?;
        let links = (0..count).map(|_| ResultHeader::decode(cursor.take(RESULT_HEADER_BYTES)?));
        let links = links.collect::<Result<_>>()?;
        let certificate = Certificate::decode(cursor.prefixed()?)?;
        Ok(CertifiedAnchor { first_block, successions, links, certificate })
    }
}

/// The last of some headers, if each follows the one before.
pub(crate) fn last_of<'a>(
    header: &'a ResultHeader,
    behind: &'a [ResultHeader],
) -> Result<&'a ResultHeader> {
    behind.iter().try_fold(header, |last, next| {
        if Some(next.height) != last.height.checked_add(1) || next.ledger_id != last.ledger_id {
            return Err(refused("its result headers do not follow one another".to_owned()));
        }
        expect_hash("previous result hash", &next.previous_result_hash, &last.hash())?;
        Ok(next)
    })
}
