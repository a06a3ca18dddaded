//! A receipt with a certificate: proof for a checker that knows who founded the ledger, and no
//! head.
//!
//! ```text
//! first block ─► founding members ─┐ signatures
//!   hash: trusted                  ▼
//!                             certificate of H ─► result header H ─► … ─► result header h
//!                                                   previous_result_hash       │ the receipt's
//!                                                                           receipt
//! ```
//!
//! What is trusted is the hash of the ledger's first order header, which never changes: it names
//! the members, their keys and how many of them must agree. A certificate may stand above the
//! receipt's block; the result headers between the two lead down to it. Where members have come or
//! gone, [successions](super::succession) lead from the founders to the electors who made it.
//!
//! The form is JSON: that of the [receipt](crate::receipt) with one more member, `certified`,
//! which has `first_block` (order header ‖ envelope), `successions`, `links` (result headers,
//! ascending) and `certificate`, all in lower-case hexadecimal. It is as strict as the receipt's.

use serde_json::{Value, json};
use types::{Error, Result, SqlState};

use super::succession::{self, Succession};
use super::{Certificate, CertifiedAnchor, Electors};
use crate::batch::Batch;
use crate::genesis::Genesis;
use crate::hash::{Hash, TAG_GENESIS, expect_hash, from_hex, refused, to_hex};
use crate::header::{ORDER_HEADER_BYTES, OrderHeader, ResultHeader};
use crate::parameters::Parameters;
use crate::receipt::Receipt;

/// The member of the JSON form.
pub const CERTIFIED: &str = "certified";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertifiedReceipt {
    pub receipt: Receipt,
    pub genesis: Genesis,
    /// From the founders to the electors whose votes certify.
    pub successions: Vec<Succession>,
    /// From the block behind the receipt's up to the certified one.
    pub links: Vec<ResultHeader>,
    pub certificate: Certificate,
}

impl CertifiedReceipt {
    /// Checks everything against the hash of the first block's order header, which the caller
    /// trusts. Only then do the receipt's fields mean anything.
    pub fn verify(&self, first_block: &Hash) -> Result<Electors> {
        let batch = self.genesis.to_batch()?;
        expect_hash("first block", first_block, &batch.hash())?;
        self.verify_by(&self.genesis)
    }

    /// The same, by a first block that the caller trusts.
    pub fn verify_by(&self, genesis: &Genesis) -> Result<Electors> {
        let electors = Electors::of(genesis.ledger_id, &genesis.parameters)?;
        let electors = electors.ok_or_else(|| refused("the ledger has no members".to_owned()))?;
        let electors = succession::follow(electors, &self.successions)?;
        if self.receipt.result.ledger_id != electors.ledger_id {
            return Err(refused("it is of another ledger".to_owned()));
        }
        check_links(&self.receipt.result, &self.links, &self.certificate)?;
        self.certificate.verify(&electors)?;
        self.receipt.verify(&self.receipt.result.hash())?;
        Ok(electors)
    }

    pub fn to_json(&self) -> Result<Value> {
        let first_block = CertifiedAnchor::first_block(&self.genesis)?;
        let links = self.links.iter().map(|link| to_hex(&link.encode()));
        let successions = self.successions.iter().map(Succession::to_hex);
        let mut json = self.receipt.to_json();
        json[CERTIFIED] = json!({
            "first_block": to_hex(&first_block),
            "successions": successions.collect::<Vec<String>>(),
            "links": links.collect::<Vec<String>>(),
            "certificate": to_hex(&self.certificate.encode()),
        });
        Ok(json)
    }

    /// `None`: it is a receipt without a certificate, or none at all.
    pub fn from_json(value: &Value) -> Result<Option<CertifiedReceipt>> {
        let mut bare = value.clone();
        let Some(certified) = bare.as_object_mut().and_then(|it| it.remove(CERTIFIED)) else {
            return Ok(None);
        };
        let text = |name: &str| certified[name].as_str().ok_or_else(|| malformed(name));
        let links = certified["links"].as_array().ok_or_else(|| malformed("links"))?;
        let link = |link: &Value| {
            let text = link.as_str().ok_or_else(|| malformed("links"))?;
            ResultHeader::decode(&from_hex(text)?)
        };
        let successions =
            certified["successions"].as_array().ok_or_else(|| malformed("successions"))?;
        let succession = |text: &Value| {
            Succession::from_hex(text.as_str().ok_or_else(|| malformed("successions"))?)
        };
        let read = CertifiedReceipt {
            receipt: Receipt::from_json(&bare)?,
            genesis: genesis_of(&from_hex(text("first_block")?)?)?,
            successions: successions.iter().map(succession).collect::<Result<_>>()?,
            links: links.iter().map(link).collect::<Result<_>>()?,
            certificate: Certificate::decode(&from_hex(text("certificate")?)?)?,
        };
        // Every field has one spelling, and there are no others, if the way back leads here.
        match read.to_json()? == *value {
            true => Ok(Some(read)),
            false => Err(malformed(CERTIFIED)),
        }
    }
}

/// Whether a certificate stands for a result, by the headers in between.
pub fn check_links(
    result: &ResultHeader,
    links: &[ResultHeader],
    certificate: &Certificate,
) -> Result<()> {
    let mut below = result;
    for link in links {
        if Some(link.height) != below.height.checked_add(1) || link.ledger_id != below.ledger_id {
            return Err(refused("its result headers do not follow one another".to_owned()));
        }
        expect_hash("previous result hash", &link.previous_result_hash, &below.hash())?;
        below = link;
    }
    if below.height != certificate.said.height {
        let (at, certified) = (below.height, certificate.said.height);
        return Err(refused(format!("it leads to block {at}, and block {certified} is certified")));
    }
    expect_hash("certified result", &certificate.said.result_hash, &below.hash())
}

pub(super) fn genesis_of(bytes: &[u8]) -> Result<Genesis> {
    let (header, envelope) =
        bytes.split_at_checked(ORDER_HEADER_BYTES).ok_or_else(|| malformed("first_block"))?;
    let header = OrderHeader::decode(header)?;
    let parameters = envelope.strip_prefix(TAG_GENESIS).ok_or_else(|| malformed("first_block"))?;
    let parameters = Parameters::decode(parameters)?;
    let (ledger_id, time_us) = (header.ledger_id, header.time_us);
    // An order header does not say by which executor its result was made.
    let genesis = Genesis { ledger_id, time_us, parameters, executor: 1 };
    let batch: Batch = genesis.to_batch()?;
    match *batch.header() == header {
        true => Ok(genesis),
        false => Err(malformed("first_block")),
    }
}

fn malformed(what: &str) -> Error {
    Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "this is not a receipt")
        .with_detail(format!("It is wrong in {what}."))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::Said;
    use super::super::electors::MEMBERS;
    use super::super::succession::tests::{certify, ledger, succession, under};
    use super::super::tests::{key, parameters};
    use super::*;
    use crate::block::Block;
    use crate::testing::{chain_of, chain_on, genesis};

    /// Of a transaction of block 3, certified by block 5.
    pub fn certified() -> CertifiedReceipt {
        let genesis = Genesis { parameters: parameters(4, Some(3)), ..genesis() };
        let blocks = chain_of(&genesis, 5, 3);
        let electors = under(&genesis, &genesis.parameters);
        CertifiedReceipt {
            receipt: Receipt::of(&blocks[3], 1).unwrap(),
            links: [4, 5].map(|at: usize| blocks[at].result.header().clone()).to_vec(),
            certificate: certify(&blocks[5], &electors, &[1, 3, 4]),
            genesis,
            successions: Vec::new(),
        }
    }

    /// Member 2 has gone behind block 3, and 5 has come behind block 5: the electors of blocks 4
    /// and 5, and of those above.
    fn chain_by_others() -> (Genesis, [Electors; 2], Vec<Block>) {
        let members = |ids: &[u64]| {
            let mut parameters = parameters(5, None);
            let all = parameters.others[MEMBERS].clone();
            let id_of = |member: &str| member.split(' ').next().unwrap().parse().unwrap();
            let is_in = |member: &&str| ids.contains(&id_of(member));
            let some: Vec<&str> = all.split(", ").filter(is_in).collect();
            parameters.others.insert(MEMBERS.to_owned(), some.join(", "));
            parameters
        };
        let (three, four) = (members(&[1, 3, 4]), members(&[1, 3, 4, 5]));
        let (genesis, chain) = ledger(4, 4, &three, 5);
        let chain = chain_on(chain, four.hash().unwrap(), 3, 3);
        let electors = [&three, &four].map(|parameters| under(&genesis, parameters));
        (genesis, electors, chain)
    }

    /// Of block 6, certified by block 8.
    pub fn certified_by_others() -> CertifiedReceipt {
        let (genesis, [three, four], chain) = chain_by_others();
        CertifiedReceipt {
            receipt: Receipt::of(&chain[6], 1).unwrap(),
            successions: vec![
                succession(&chain[4], &three, &[1, 3, 4]),
                succession(&chain[6], &four, &[1, 3, 4]),
            ],
            links: [7, 8].map(|at: usize| chain[at].result.header().clone()).to_vec(),
            certificate: certify(&chain[8], &four, &[1, 3, 5]),
            genesis,
        }
    }

    #[test]
    fn electors_who_came_later_are_followed_from_the_first_block() {
        let certified = certified_by_others();
        let trusted = first_block(&certified);
        let electors = certified.verify(&trusted).unwrap();
        assert_eq!((electors.keys.len(), electors.votes), (4, 3));
        let json = certified.to_json().unwrap();
        assert_eq!(CertifiedReceipt::from_json(&json).unwrap(), Some(certified.clone()));
        // The founders that are left would have been enough to say who the newest are.
        let mut other = certified.clone();
        other.successions.remove(0);
        assert!(other.verify(&trusted).is_ok());
        other.successions.clear();
        assert!(other.verify(&trusted).is_err());
        // Founders' votes for a block that is for others, one of them removed.
        let (_, _, chain) = chain_by_others();
        other.certificate = certify(&chain[8], &electors, &[1, 2, 3]);
        assert!(other.verify(&trusted).is_err());
        let mut other = certified.clone();
        other.successions.swap(0, 1);
        assert!(other.verify(&trusted).is_err());
        // One that was removed.
        let mut other = certified.clone();
        other.certificate.votes[1] = (2, other.certificate.votes[1].1);
        assert!(other.verify(&trusted).is_err());
    }

    fn first_block(certified: &CertifiedReceipt) -> Hash {
        certified.genesis.to_batch().unwrap().hash()
    }

    #[test]
    fn it_holds_by_the_first_block_alone() {
        let certified = certified();
        let trusted = first_block(&certified);
        assert_eq!(certified.verify(&trusted).unwrap().votes, 3);
        assert!(certified.verify(&[0; 32]).is_err());
        let json = certified.to_json().unwrap();
        assert_eq!(CertifiedReceipt::from_json(&json).unwrap(), Some(certified.clone()));
        assert!(Receipt::from_json(&json).is_err(), "not for a reader that ignores it");
        let bare = certified.receipt.to_json();
        assert_eq!(CertifiedReceipt::from_json(&bare).unwrap(), None);

        let changed = |change: &dyn Fn(&mut CertifiedReceipt)| {
            let mut other = certified.clone();
            change(&mut other);
            other.verify(&trusted).is_err()
        };
        assert!(changed(&|it| drop(it.links.pop())));
        assert!(changed(&|it| drop(it.links.remove(0))));
        assert!(changed(&|it| it.links[0].effects_root[0] ^= 1));
        assert!(changed(&|it| it.certificate.votes.truncate(2)));
        assert!(changed(&|it| it.receipt.outcome.push(0)));
        assert!(changed(&|it| it.genesis.parameters = parameters(1, None)));
        // Members of one's own making, whose first block is another.
        let mut forged = certified.clone();
        forged.genesis.parameters = parameters(1, None);
        let own = under(&forged.genesis, &forged.genesis.parameters);
        let said = Said { electors: own.hash(), ..forged.certificate.said };
        let vote = key(1).sign(own.ledger_id, 1, said);
        forged.certificate.said = said;
        forged.certificate.votes = vec![(1, vote.signature)];
        assert!(forged.verify_by(&forged.genesis).is_ok());
        assert!(forged.verify(&trusted).is_err());
    }

    #[test]
    fn none_of_its_bytes_can_change() {
        let certified = certified();
        let trusted = first_block(&certified);
        let text = certified.to_json().unwrap().to_string().into_bytes();
        for place in (0..text.len()).step_by(7) {
            let mut changed = text.clone();
            changed[place] ^= 1;
            let read = serde_json::from_slice(&changed).map_err(|_| malformed("JSON"));
            let read = read.and_then(|json| CertifiedReceipt::from_json(&json));
            let holds = matches!(&read, Ok(Some(it)) if it.verify(&trusted).is_ok());
            assert!(!holds, "byte {place}");
        }
    }
}
