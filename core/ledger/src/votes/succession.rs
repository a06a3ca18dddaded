//! Succession of elector sets: each new set of voters is certified by the one before it.
//!
//! ```text
//! bytes        succession
//! 6 + 40 m     the next electors        `electors`
//! 91 + 72 n    certificate              by the previous ones, of a block for which the next ones
//!                                       are in force: it has their hash
//! ```
//!
//! A block's electors follow from its order header, which names the parameters in force by hash,
//! and these name the electors. A vote contains their hash too. A certificate of any block under
//! other electors therefore tells who they are to a reader that knows only the previous ones.
//! Starting from the first block alone, a reader can go from one set of electors to the next.
//!
//! *The height from which the new set votes* is fixed by the ledger. A certificate that the old set
//! signs for a block of the new one proves nothing but who the new electors are. Which block the
//! old set certifies for this is not agreed, and need not be: it can be the first one or a later
//! one, and one set can be passed over. Members that are away or have left therefore delay nothing,
//! as long as enough of the old set remain. Heights ascend from one succession to the next, so an
//! old certificate cannot lead back to an earlier set.

use types::{Height, Result};

use super::{Certificate, Electors};
use crate::hash::{from_hex, refused, to_hex};
use crate::header::LedgerId;
use crate::wire::Cursor;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Succession {
    /// The electors that follow.
    pub next: Electors,
    /// By those before.
    pub certificate: Certificate,
}

impl Succession {
    pub fn new(next: Electors, certificate: Certificate) -> Succession {
        let above = Some(certificate.said.height);
        Succession { next: Electors { above, ..next }, certificate }
    }

    /// Of the block that says who follows.
    pub fn height(&self) -> Height {
        self.certificate.said.height
    }

    /// Those who follow, if the ones before have certified it.
    pub fn verify(&self, before: &Electors) -> Result<&Electors> {
        let Succession { next, certificate } = self;
        let named = next.hash();
        if certificate.said.electors != named {
            return Err(refused("the electors are not those that are certified".to_owned()));
        }
        if named == before.hash() {
            return Err(refused("the electors would follow themselves".to_owned()));
        }
        if before.above.is_some_and(|above| self.height() <= above) {
            let why = format!("block {} does not lead on to other electors", self.height());
            return Err(refused(why));
        }
        super::electors::check(next.keys.len(), next.votes, next.liars)?;
        certificate.verify_votes(before)?;
        Ok(next)
    }

    pub fn encode(&self) -> Vec<u8> {
        [self.next.encode(), self.certificate.encode()].concat()
    }

    /// Strict. Whether it holds, [`Succession::verify`] says.
    pub fn decode(bytes: &[u8]) -> Result<Succession> {
        let mut cursor = Cursor::new("succession of electors", bytes);
        // The certificate says of which ledger.
        let next = Electors::read(LedgerId::default(), &mut cursor)?;
        let certificate = Certificate::decode(cursor.take(cursor.remaining())?)?;
        let next = Electors { ledger_id: certificate.ledger_id, ..next };
        Ok(Succession::new(next, certificate))
    }

    pub fn to_hex(&self) -> String {
        to_hex(&self.encode())
    }

    pub fn from_hex(text: &str) -> Result<Succession> {
        Succession::decode(&from_hex(text)?)
    }
}

/// The electors after some successions of the first ones.
pub fn follow(first: Electors, successions: &[Succession]) -> Result<Electors> {
    successions.iter().try_fold(first, |electors, succession| succession.verify(&electors).cloned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::Said;
    use super::super::tests::{key, parameters};
    use super::*;
    use crate::block::Block;
    use crate::genesis::Genesis;
    use crate::parameters::Parameters;
    use crate::signatures::SecretKey;
    use crate::testing::{chain_of, chain_on, genesis};

    /// A ledger whose blocks are for the members `first`, and from `change` on for others.
    pub fn ledger(
        first: u64,
        change: u64,
        then: &Parameters,
        blocks: u64,
    ) -> (Genesis, Vec<Block>) {
        let genesis = Genesis { parameters: parameters(first, None), ..genesis() };
        let chain = chain_of(&genesis, change - 1, 3);
        let chain = chain_on(chain, then.hash().unwrap(), blocks + 1 - change, 3);
        (genesis, chain)
    }

    pub fn under(genesis: &Genesis, parameters: &Parameters) -> Electors {
        Electors::under(genesis.ledger_id, parameters).unwrap()
    }

    /// A block that is for some electors, by some members.
    pub fn certify(block: &Block, electors: &Electors, members: &[u64]) -> Certificate {
        certify_with(block, electors, members, key)
    }

    pub fn certify_with(
        block: &Block,
        electors: &Electors,
        members: &[u64],
        key: impl Fn(u64) -> SecretKey,
    ) -> Certificate {
        let header = block.result.header();
        let electors = electors.hash();
        let said = Said { height: header.height, result_hash: block.hash(), electors };
        let ledger_id = header.ledger_id;
        let sign = |id: &u64| (*id, key(*id).vote(ledger_id, *id, said).signature);
        Certificate { ledger_id, said, votes: members.iter().map(sign).collect() }
    }

    pub fn succession(block: &Block, next: &Electors, members: &[u64]) -> Succession {
        Succession::new(next.clone(), certify(block, next, members))
    }

    #[test]
    fn electors_follow_the_members_by_the_word_of_those_before() {
        let (genesis, chain) = ledger(4, 4, &parameters(5, None), 6);
        let first = under(&genesis, &genesis.parameters);
        let five = under(&genesis, &parameters(5, None));
        let good = succession(&chain[4], &five, &[1, 2, 4]);
        let next = good.verify(&first).unwrap();
        assert_eq!((next.keys.len(), next.votes, next.above), (5, 4, Some(4)));
        assert_eq!(Succession::from_hex(&good.to_hex()).unwrap(), good);
        // From the block on that is theirs their votes count, and none for the ones before.
        let by_five = |block: &Block, named| certify(block, named, &[1, 2, 3, 5]);
        assert!(by_five(&chain[5], &five).verify(next).is_ok());
        assert!(by_five(&chain[4], &five).verify(next).is_ok());
        assert!(by_five(&chain[3], &first).verify(next).is_err(), "it was for others");
        assert!(certify(&chain[5], &five, &[1, 2, 3]).verify(next).is_err(), "too few of five");
        assert!(certify(&chain[5], &five, &[1, 2, 3, 4]).verify(&first).is_err(), "not theirs");

        let refused = |it: Succession, before: &Electors| it.verify(before).is_err();
        assert!(refused(succession(&chain[4], &five, &[1, 2]), &first), "too few of four");
        assert!(refused(succession(&chain[4], &five, &[1, 2, 5]), &first), "its own word");
        assert!(refused(succession(&chain[4], &first, &[1, 2, 3]), &first), "no others");
        // An old certificate, of a block that was for the first ones, does not lead back to them.
        assert!(refused(succession(&chain[3], &first, &[1, 2, 3, 4]), next));
        assert!(refused(succession(&chain[4], &first, &[1, 2, 3, 4]), next));
        let of = |next: Electors| Succession { next, ..good.clone() };
        let without_rule = Electors { votes: 2, ..five.clone() };
        let forged = succession(&chain[4], &without_rule, &[1, 2, 4]);
        assert!(refused(forged, &first), "a rule under which two results could be certified");
        assert!(refused(of(without_rule), &first), "not what was certified");
        assert!(refused(of(first.clone()), &first));
        let certificate = certify(&chain[4], &first, &[1, 2, 4]);
        assert!(refused(Succession { certificate, ..good.clone() }, &first));
    }

    #[test]
    fn none_of_its_bytes_can_change() {
        let (genesis, chain) = ledger(4, 4, &parameters(5, None), 4);
        let first = under(&genesis, &genesis.parameters);
        let five = under(&genesis, &parameters(5, None));
        let bytes = succession(&chain[4], &five, &[1, 2, 4]).encode();
        let holds =
            |bytes: &[u8]| Succession::decode(bytes).is_ok_and(|read| read.verify(&first).is_ok());
        assert!(holds(&bytes));
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            assert!(!holds(&changed), "byte {place}");
            assert!(!holds(&bytes[..place]), "cut at {place}");
        }
        assert!(!holds(&[&bytes[..], &[0]].concat()));
    }
}
