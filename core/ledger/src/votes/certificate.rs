//! A certificate: enough votes for one result.

use types::{Error, Result, SqlState};

use super::{Electors, SIGNATURE_BYTES, Said, Vote, holds};
use crate::header::LedgerId;
use crate::wire::Cursor;

pub const CERTIFICATE_VERSION: u8 = 1;

const FRONT_BYTES: usize = 91;
const VOTE_BYTES: usize = 8 + SIGNATURE_BYTES;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certificate {
    pub ledger_id: LedgerId,
    pub said: Said,
    /// Members, ascending, with their signatures.
    pub votes: Vec<(u64, [u8; SIGNATURE_BYTES])>,
}

impl Certificate {
    /// Bytes of a certificate with so many votes.
    pub const fn bytes_with(votes: usize) -> usize {
        FRONT_BYTES + VOTE_BYTES * votes
    }

    /// Whether the electors in force for its block have made it.
    pub fn verify(&self, electors: &Electors) -> Result<()> {
        if self.said.electors != electors.hash() {
            let why = format!("block {} is for other electors", self.said.height);
            return Err(refused(why));
        }
        self.verify_votes(electors)
    }

    /// Whether these electors have made it, also for a block that is for others: all of its votes
    /// are theirs, and there are enough.
    pub fn verify_votes(&self, electors: &Electors) -> Result<()> {
        if self.ledger_id != electors.ledger_id {
            return Err(refused("it is of another ledger".to_owned()));
        }
        if self.votes.len() < electors.votes {
            let (count, needed) = (self.votes.len(), electors.votes);
            return Err(refused(format!("it has {count} votes, and {needed} are needed")));
        }
        let mut last = None;
        for (member, signature) in &self.votes {
            if last.is_some_and(|last| last >= member) {
                return Err(refused("its votes are not in the order of members".to_owned()));
            }
            last = Some(member);
            let vote = Vote { member: *member, said: self.said, signature: *signature };
            let key = electors.keys.get(member);
            let key = key.ok_or_else(|| refused(format!("{member} is no elector")))?;
            if !holds(&vote, self.ledger_id, key) {
                return Err(refused(format!("the signature of member {member} is not its own")));
            }
        }
        Ok(())
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Certificate::bytes_with(self.votes.len()));
        bytes.push(CERTIFICATE_VERSION);
        bytes.extend_from_slice(&self.ledger_id);
        bytes.extend_from_slice(&self.said.height.to_be_bytes());
        bytes.extend_from_slice(&self.said.result_hash);
        bytes.extend_from_slice(&self.said.electors);
        // Members have been counted in less.
        bytes.extend_from_slice(&(self.votes.len() as u16).to_be_bytes());
        for (member, signature) in &self.votes {
            bytes.extend_from_slice(&member.to_be_bytes());
            bytes.extend_from_slice(signature);
        }
        debug_assert_eq!(bytes.len(), Certificate::bytes_with(self.votes.len()));
        bytes
    }

    /// Strict: one certificate has one spelling. Whether it holds, [`Certificate::verify`] says.
    pub fn decode(bytes: &[u8]) -> Result<Certificate> {
        let mut cursor = Cursor::new("certificate", bytes);
        let version = cursor.u8()?;
        if version != CERTIFICATE_VERSION {
            return Err(cursor.invalid(format!("version {version} is not known")));
        }
        let ledger_id = cursor.array()?;
        let (height, result_hash) = (cursor.u64()?, cursor.array()?);
        let said = Said { height, result_hash, electors: cursor.array()? };
        let count = u32::from(cursor.u16()?);
        let votes = (0..cursor.fits(count, VOTE_BYTES)?)
            .map(|_| Ok((cursor.u64()?, cursor.array()?)))
            .collect::<Result<Vec<_>>>()?;
        if !votes.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(cursor.invalid("its votes are not in the order of members"));
        }
        cursor.finish()?;
        Ok(Certificate { ledger_id, said, votes })
    }
}

fn refused(detail: String) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, "the certificate does not hold").with_detail(detail)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::tests::{LEDGER, electors, vote};
    use super::*;

    pub fn certificate(height: u64, result: u8, members: &[u64]) -> Certificate {
        let votes = members.iter().map(|member| (*member, vote(*member, height, result).signature));
        let said = vote(1, height, result).said;
        Certificate { ledger_id: LEDGER, said, votes: votes.collect() }
    }

    #[test]
    fn enough_members_make_one() {
        let electors = electors(4);
        for (members, holds) in
            [(&[1u64, 2, 4][..], true), (&[1, 2, 3, 4], true), (&[1, 4], false), (&[], false)]
        {
            assert_eq!(certificate(5, 9, members).verify(&electors).is_ok(), holds, "{members:?}");
        }
        let mut doubled = certificate(5, 9, &[1, 2, 2]);
        assert!(doubled.verify(&electors).is_err());
        assert!(Certificate::decode(&doubled.encode()).is_err());
        doubled.votes[2] = (5, vote(5, 5, 9).signature);
        assert!(doubled.verify(&electors).is_err(), "5 is no member");
        doubled.votes[2] = (3, vote(3, 5, 8).signature);
        assert!(doubled.verify(&electors).is_err(), "3 signed another result");
        doubled.votes[2] = (3, vote(4, 5, 9).signature);
        assert!(doubled.verify(&electors).is_err(), "4 signed");
        let mut others = electors.clone();
        others.votes = 4;
        let all = certificate(5, 9, &[1, 2, 3, 4]);
        assert!(all.verify_votes(&others).is_ok() && all.verify(&others).is_err());
    }

    #[test]
    fn none_of_its_bits_can_change() {
        let certificate = certificate(5, 9, &[1, 2, 4]);
        let bytes = certificate.encode();
        assert_eq!(bytes.len(), Certificate::bytes_with(3));
        assert_eq!(Certificate::decode(&bytes).unwrap(), certificate);
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            let read = Certificate::decode(&changed);
            assert!(read.and_then(|read| read.verify(&electors(4))).is_err(), "byte {place}");
            assert!(Certificate::decode(&bytes[..place]).is_err());
        }
    }
}
