//! Votes: who of a cluster came to which result, and the certificates that enough of them make.
//!
//! ```text
//! member 1   result hash of block 103 ─► last (durable) ─► sign ─► vote ─┐
//! member 2   result hash of block 103 ─► last (durable) ─► sign ─► vote ─┼─► certificate
//! member 3   result hash of block 103 ─► last (durable) ─► sign ─► vote ─┘   of block 103
//!
//! offset  bytes  what is signed       (all numbers big-endian)
//!      0     16  "tally vote v1" 00 00 00
//!     16     16  ledger_id
//!     32      8  member               its number among the electors
//!     40      8  height
//!     48     32  result_hash          of the result header of that block
//!     80     32  electors_hash        of the electors in force for that block
//!    112
//!
//! offset  bytes  certificate
//!      0      1  version              1
//!      1     16  ledger_id
//!     17      8  height
//!     25     32  result_hash
//!     57     32  electors_hash
//!     89      2  number n of votes
//!            72  each: member (8), signature (64); members strictly ascending
//!     91 + 72 n
//! ```
//!
//! Signatures are Ed25519 (RFC 8032), and are checked by the rules of ZIP 215, under which all
//! implementations agree on what is valid.
//!
//! **A vote stands for all blocks below.** A result hash commits to the result before, so a member
//! need not sign each block, and a block is certified by the certificate at or above its height,
//! with the result headers between the two ([`certified`]).
//!
//! **Two results for one height are never signed.** A member signs ascending heights only, and
//! keeps the last one ([`last`]) before a vote leaves it.
//!
//! **The electors** of a block are the ledger's members, as the parameters in force for it name
//! them, with the number of votes that a certificate takes. A vote says which they are, so that a
//! certificate of those who came before or after proves nothing by itself. A checker knows those of
//! the first block; who follows them, when members come and go, they have certified
//! ([`succession`]). With n members of which f may lie, c votes are enough if
//! `2 c > n + f`: two sets of c then share more than f members, one of which is honest and signed
//! once. So there are no two certificates of one height.
//!
//! When a member signs, what becomes of the others' votes and in which bytes they travel says
//! [`counting`].
//!
//! *Absence*: sockets, threads, clocks; what a member does when its result differs.

pub mod anchor;
pub mod certificate;
pub mod certified;
pub mod counting;
pub mod electors;
pub mod kept;
pub mod last;
pub mod sets;
pub mod succession;
pub mod vouched;

use types::Height;

use crate::files::{Files, StorageFile};
use crate::hash::{Hash, TAG_VOTE};
use crate::header::LedgerId;
use crate::signatures::{Claim, SIGNATURE_BYTES, SecretKey};

pub use anchor::{AnchorFault, CertifiedAnchor, Unanchored};
pub use certificate::Certificate;
pub use certified::CertifiedReceipt;
pub use electors::Electors;
pub use kept::Certificates;
pub use last::LastVote;
pub use sets::{CertificateSets, KeptCertificates};
pub use succession::Succession;

/// The folder of a node's last vote and of certificates.
pub const FOLDER: &str = "votes";

/// A file of the folder, made with it where there is none; its name is durable once the folder is
/// synced.
fn open_or_create(files: &dyn Files, name: &str) -> std::io::Result<Box<dyn StorageFile>> {
    files.create_folder(FOLDER)?;
    files.sync_folder("")?;
    let path = format!("{FOLDER}/{name}");
    match files.list(FOLDER)?.iter().any(|known| known == name) {
        true => files.open(&path),
        false => files.create(&path),
    }
}

const SIGNED_BYTES: usize = 112;

/// The text of what was decided: height, result hash, and by whom it is to be decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Said {
    pub height: Height,
    pub result_hash: Hash,
    /// Of the electors in force for that block.
    pub electors: Hash,
}

/// One member's signature over one result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vote {
    pub member: u64,
    pub said: Said,
    pub signature: [u8; SIGNATURE_BYTES],
}

impl SecretKey {
    /// A member's word for a result.
    pub fn vote(&self, ledger_id: LedgerId, member: u64, said: Said) -> Vote {
        Vote { member, said, signature: self.sign(&signed_bytes(ledger_id, member, &said)) }
    }
}

/// Whether the signature is that of the holder of `key`.
pub fn holds(vote: &Vote, ledger_id: LedgerId, key: &[u8; 32]) -> bool {
    let message = &signed_bytes(ledger_id, vote.member, &vote.said);
    Claim { key, message, signature: &vote.signature }.holds()
}

/// What is signed.
pub fn signed_bytes(ledger_id: LedgerId, member: u64, said: &Said) -> [u8; SIGNED_BYTES] {
    crate::header::joined(&[
        TAG_VOTE,
        &ledger_id,
        &member.to_be_bytes(),
        &said.height.to_be_bytes(),
        &said.result_hash,
        &said.electors,
    ])
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::parameters::Parameters;

    use super::*;

    pub const LEDGER: LedgerId = *b"test ledger 0001";

    pub fn key(member: u64) -> SecretKey {
        SecretKey::of_seed([member as u8; 32])
    }

    /// As `tally cluster init` writes them.
    pub fn parameters(members: u64, votes: Option<usize>) -> Parameters {
        let mut parameters = Parameters::new("serial");
        let one = |id| format!("{id} {} host-{id}:5", crate::hash::to_hex(&key(id).public()));
        let all: Vec<String> = (1..=members).map(one).collect();
        parameters.others.insert(electors::ELECTORS.to_owned(), all.join(", "));
        parameters.others.insert(electors::MEMBERS.to_owned(), all.join(", "));
        if let Some(votes) = votes {
            parameters.others.insert(electors::VOTES.to_owned(), votes.to_string());
        }
        parameters
    }

    pub fn electors(members: u64) -> Electors {
        Electors::of(LEDGER, &parameters(members, None)).unwrap().unwrap()
    }

    /// These members, by the rule that is taken where none is named.
    pub fn electors_of(members: &[u64]) -> Electors {
        let keys = members.iter().map(|id| (*id, key(*id).public())).collect();
        let (votes, liars) = (electors::votes_of(members.len()), electors::liars_of(members.len()));
        Electors { ledger_id: LEDGER, keys, votes, liars, above: None }
    }

    /// Of four electors.
    pub fn said(height: Height, result: u8) -> Said {
        Said { height, result_hash: [result; 32], electors: electors(4).hash() }
    }

    pub fn vote(member: u64, height: Height, result: u8) -> Vote {
        key(member).vote(LEDGER, member, said(height, result))
    }

    #[test]
    fn a_vote_is_that_of_its_member_ledger_height_and_result() {
        let vote = vote(2, 9, 7);
        let holds_with = |vote: &Vote, ledger, member| holds(vote, ledger, &key(member).public());
        assert!(holds_with(&vote, LEDGER, 2));
        assert!(!holds_with(&vote, LEDGER, 1));
        assert!(!holds_with(&vote, *b"test ledger 0002", 2));
        let said = Said { height: 10, ..vote.said };
        assert!(!holds_with(&Vote { said, ..vote }, LEDGER, 2));
        let said = Said { result_hash: [8; 32], ..vote.said };
        assert!(!holds_with(&Vote { said, ..vote }, LEDGER, 2));
        let said = Said { electors: electors(5).hash(), ..vote.said };
        assert!(!holds_with(&Vote { said, ..vote }, LEDGER, 2));
        assert!(!holds_with(&Vote { member: 3, ..vote }, LEDGER, 2));
        let mut signature = vote.signature;
        signature[63] ^= 0x80;
        assert!(!holds_with(&Vote { signature, ..vote }, LEDGER, 2));
        let no_key = [2; 32];
        assert!(!holds(&vote, LEDGER, &no_key));
    }
}
