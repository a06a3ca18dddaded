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

use super::{Certificate, CertifiedAnchor, Electors, Succession};
use crate::genesis::Genesis;
use crate::hash::{Hash, from_hex, to_hex};
use crate::header::ResultHeader;
use crate::receipt::Receipt;

/// The member of the JSON form.
pub const CERTIFIED: &str = "certified";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertifiedReceipt {
    pub receipt: Receipt,
    /// What leads from its result header to the first block.
    pub anchor: CertifiedAnchor,
}

impl CertifiedReceipt {
    /// Checks everything against the hash of the first block's order header, which the caller
    /// trusts. Only then do the receipt's fields mean anything.
    pub fn verify(&self, first_block: &Hash) -> Result<Electors> {
        let result = &self.receipt.result;
        let electors = self.anchor.check(result, first_block).map_err(|it| it.cause)?;
        self.receipt.verify(&result.hash())?;
        Ok(electors)
    }

    pub fn to_json(&self) -> Value {
        let CertifiedAnchor { first_block, successions, links, certificate } = &self.anchor;
        let links = links.iter().map(|link| to_hex(&link.encode()));
        let successions = successions.iter().map(Succession::to_hex);
        let mut json = self.receipt.to_json();
        json[CERTIFIED] = json!({
            "first_block": to_hex(first_block),
            "successions": successions.collect::<Vec<String>>(),
            "links": links.collect::<Vec<String>>(),
            "certificate": to_hex(&certificate.encode()),
        });
        json
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
        let first_block = from_hex(text("first_block")?)?;
        Genesis::of_first_block(&first_block).map_err(|_| malformed("first_block"))?;
        let anchor = CertifiedAnchor {
            first_block,
            successions: successions.iter().map(succession).collect::<Result<_>>()?,
            links: links.iter().map(link).collect::<Result<_>>()?,
            certificate: Certificate::decode(&from_hex(text("certificate")?)?)?,
        };
        let read = CertifiedReceipt { receipt: Receipt::from_json(&bare)?, anchor };
        // Every field has one spelling, and there are no others, if the way back leads here.
        match read.to_json() == *value {
            true => Ok(Some(read)),
            false => Err(malformed(CERTIFIED)),
        }
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
            anchor: CertifiedAnchor {
                first_block: CertifiedAnchor::first_block(&genesis).unwrap(),
                successions: Vec::new(),
                links: [4, 5].map(|at: usize| blocks[at].result.header().clone()).to_vec(),
                certificate: certify(&blocks[5], &electors, &[1, 3, 4]),
            },
        }
    }

    /// Member 2 has gone after block 3, and 5 has come after block 5: the electors of blocks 4
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
            anchor: CertifiedAnchor {
                first_block: CertifiedAnchor::first_block(&genesis).unwrap(),
                successions: vec![
                    succession(&chain[4], &three, &[1, 3, 4]),
                    succession(&chain[6], &four, &[1, 3, 4]),
                ],
                links: [7, 8].map(|at: usize| chain[at].result.header().clone()).to_vec(),
                certificate: certify(&chain[8], &four, &[1, 3, 5]),
            },
        }
    }

    #[test]
    fn electors_who_came_later_are_followed_from_the_first_block() {
        let certified = certified_by_others();
        let trusted = first_block(&certified);
        let electors = certified.verify(&trusted).unwrap();
        assert_eq!((electors.keys.len(), electors.votes), (4, 3));
        let json = certified.to_json();
        assert_eq!(CertifiedReceipt::from_json(&json).unwrap(), Some(certified.clone()));
        // The founders that are left would have been enough to say who the newest are.
        let mut other = certified.clone();
        other.anchor.successions.remove(0);
        assert!(other.verify(&trusted).is_ok());
        other.anchor.successions.clear();
        assert!(other.verify(&trusted).is_err());
        // Founders' votes for a block that is for others, one of them removed.
        let (_, _, chain) = chain_by_others();
        other.anchor.certificate = certify(&chain[8], &electors, &[1, 2, 3]);
        assert!(other.verify(&trusted).is_err());
        let mut other = certified.clone();
        other.anchor.successions.swap(0, 1);
        assert!(other.verify(&trusted).is_err());
        // One that was removed.
        let mut other = certified.clone();
        other.anchor.certificate.votes[1] = (2, other.anchor.certificate.votes[1].1);
        assert!(other.verify(&trusted).is_err());
    }

    pub fn first_block(certified: &CertifiedReceipt) -> Hash {
        genesis_of(certified).to_batch().unwrap().hash()
    }

    fn genesis_of(certified: &CertifiedReceipt) -> Genesis {
        Genesis::of_first_block(&certified.anchor.first_block).unwrap()
    }

    #[test]
    fn it_holds_by_the_first_block_alone() {
        let certified = certified();
        let trusted = first_block(&certified);
        assert_eq!(certified.verify(&trusted).unwrap().votes, 3);
        assert!(certified.verify(&[0; 32]).is_err());
        let json = certified.to_json();
        assert_eq!(CertifiedReceipt::from_json(&json).unwrap(), Some(certified.clone()));
        assert!(Receipt::from_json(&json).is_err(), "not for a reader that ignores it");
        let bare = certified.receipt.to_json();
        assert_eq!(CertifiedReceipt::from_json(&bare).unwrap(), None);

        let changed = |change: &dyn Fn(&mut CertifiedReceipt)| {
            let mut other = certified.clone();
            change(&mut other);
            other.verify(&trusted).is_err()
        };
        assert!(changed(&|it| drop(it.anchor.links.pop())));
        assert!(changed(&|it| drop(it.anchor.links.remove(0))));
        assert!(changed(&|it| it.anchor.links[0].effects_root[0] ^= 1));
        assert!(changed(&|it| it.anchor.certificate.votes.truncate(2)));
        assert!(changed(&|it| it.receipt.outcome.push(0)));
        let by_one = Genesis { parameters: parameters(1, None), ..genesis_of(&certified) };
        let first_by_one = CertifiedAnchor::first_block(&by_one).unwrap();
        assert!(changed(&|it| it.anchor.first_block = first_by_one.clone()));
        // Members of one's own making, whose first block is another.
        let mut forged = certified.clone();
        let own = under(&by_one, &by_one.parameters);
        let said = Said { electors: own.hash(), ..certified.anchor.certificate.said };
        let vote = key(1).vote(own.ledger_id, 1, said);
        forged.anchor.certificate.said = said;
        forged.anchor.certificate.votes = vec![(1, vote.signature)];
        forged.anchor.first_block = first_by_one;
        assert!(forged.verify(&first_block(&forged)).is_ok());
        assert!(forged.verify(&trusted).is_err());
    }

    #[test]
    fn none_of_its_bytes_can_change() {
        let certified = certified();
        let trusted = first_block(&certified);
        let text = certified.to_json().to_string().into_bytes();
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
