//! Approvals of transactions: of one alone, or of many by one signature.
//!
//! ```text
//! alone    signature: 64                                            over  "tally approval 1" ‖ id
//! of many  signature: 64 | leaves: 2 | index: 2 | path: 32 each     over  "tally approvals1" ‖ leaves: 2 ‖ root: 32
//! ```
//!
//! A node that endorses hundreds of proposals at a time signs the root of a Merkle tree over them,
//! and each bears the path from its own leaf. The tree is the one of RFC 9162 ([`crate::merkle`]);
//! a leaf is what an approval of that transaction alone would be over. So one signature is made,
//! and checked, for all of them, and none needs to know the others.
//!
//! **What keeps apart.** A leaf is hashed behind a byte of its own, an inner node behind another,
//! and what is signed begins with a tag of its own: no leaf passes for a node, no root for a
//! transaction's id, no approval for a signature. A root counts with the number of its leaves
//! alone, which is signed with it: a path has one length that fits, and one reading.
//!
//! **Bounds.** [`LEAVES_MAX`] leaves; of one leaf there is no tree, and of none neither. A path has
//! ten hashes at most.

use types::{Error, Result, SqlState};

use crate::hash::{Hash, Tag};
use crate::merkle::{inclusion_proofs, leaf_hash, root_from_proof};
use crate::signatures::{Claim, PublicKey, SIGNATURE_BYTES, SecretKey, TAG_APPROVAL};

/// What an approval of many transactions is over, in front of their number and root.
pub const TAG_APPROVALS: &Tag = b"tally approvals1";

/// Transactions that one signature approves.
pub const LEAVES_MAX: usize = 1024;
const LEAVES_MIN: usize = 2;

/// In front of the path: leaves and index.
const SHAPE_BYTES: usize = 4;
const HASH_BYTES: usize = 32;

const ALONE_BYTES: usize = 16 + HASH_BYTES;
const OF_MANY_BYTES: usize = 16 + 2 + HASH_BYTES;

/// What an approval's signature is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Approved {
    One([u8; ALONE_BYTES]),
    Many([u8; OF_MANY_BYTES]),
}

impl Approved {
    /// A transaction of that id.
    pub fn one(id: &Hash) -> Approved {
        let mut message = [0; ALONE_BYTES];
        message[..16].copy_from_slice(TAG_APPROVAL);
        message[16..].copy_from_slice(id);
        Approved::One(message)
    }

    pub(crate) fn many(leaves: u16, root: &Hash) -> Approved {
        let mut message = [0; OF_MANY_BYTES];
        message[..16].copy_from_slice(TAG_APPROVALS);
        message[16..18].copy_from_slice(&leaves.to_be_bytes());
        message[18..].copy_from_slice(root);
        Approved::Many(message)
    }

    /// What an approval is over that stands after a transaction of that id, and its signature;
    /// `None`: it is of no form.
    pub fn of<'a>(id: &Hash, approval: &'a [u8]) -> Option<(Approved, &'a [u8])> {
        let (signature, rest) = approval.split_at_checked(SIGNATURE_BYTES)?;
        if rest.is_empty() {
            return Some((Approved::one(id), signature));
        }
        let ([l0, l1, i0, i1], path) = rest.split_first_chunk::<SHAPE_BYTES>()?;
        let [leaves, index] = [[*l0, *l1], [*i0, *i1]].map(u16::from_be_bytes);
        let (path, rest) = path.as_chunks::<HASH_BYTES>();
        let is_tree = (LEAVES_MIN..=LEAVES_MAX).contains(&usize::from(leaves));
        if !is_tree || !rest.is_empty() {
            return None;
        }
        let leaf = leaf_hash(Approved::one(id).message());
        let root = root_from_proof(leaf, index.into(), leaves.into(), path)?;
        Some((Approved::many(leaves, &root), signature))
    }

    pub fn message(&self) -> &[u8] {
        match self {
            Approved::One(message) => message,
            Approved::Many(message) => message,
        }
    }
}

/// Whether an approval that stands after a transaction of that id is right.
pub fn is_approved(id: &Hash, key: &PublicKey, approval: &[u8]) -> bool {
    Approved::of(id, approval).is_some_and(|(approved, signature)| {
        Claim { key, message: approved.message(), signature }.holds()
    })
}

/// The approvals of these transactions by a key, in their order.
///
/// # Errors
/// 54000: they are more than one signature can approve.
pub fn approve(key: &SecretKey, ids: &[Hash]) -> Result<Vec<Vec<u8>>> {
    let count = ids.len();
    if count > LEAVES_MAX {
        let what = format!("one signature approves {LEAVES_MAX} transactions at most");
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
    }
    if count < LEAVES_MIN {
        let alone = |id| key.sign(Approved::one(id).message()).to_vec();
        return Ok(ids.iter().map(alone).collect());
    }
    let leaves: Vec<Hash> = ids.iter().map(|id| leaf_hash(Approved::one(id).message())).collect();
    let (root, paths) = inclusion_proofs(leaves);
    let leaves = count as u16;
    let signature = key.sign(Approved::many(leaves, &root).message());
    let of_many = |(index, path): (u16, Vec<Hash>)| {
        let mut approval = Vec::with_capacity(SIGNATURE_BYTES + SHAPE_BYTES + 32 * path.len());
        approval.extend_from_slice(&signature);
        approval.extend_from_slice(&leaves.to_be_bytes());
        approval.extend_from_slice(&index.to_be_bytes());
        path.iter().for_each(|hash| approval.extend_from_slice(hash));
        approval
    };
    Ok((0..).zip(paths).map(of_many).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> SecretKey {
        SecretKey::of_seed([7; 32])
    }

    fn ids(count: usize) -> Vec<Hash> {
        (0..count).map(|n| leaf_hash(&n.to_be_bytes())).collect()
    }

    fn holds(id: &Hash, approval: &[u8]) -> bool {
        is_approved(id, &key().public(), approval)
    }

    #[test]
    fn each_of_them_is_approved_and_no_other_transaction() {
        for count in [0, 1, 2, 3, 5, 8, 33, LEAVES_MAX] {
            let (ids, step) = (ids(count + 1), count / 7 + 1);
            let approvals = approve(&key(), &ids[..count]).unwrap();
            assert_eq!(approvals.len(), count);
            for (at, approval) in approvals.iter().enumerate().step_by(step) {
                assert!(holds(&ids[at], approval), "{at} of {count}");
                assert!(approval.len() <= 64 + 4 + 10 * 32);
                assert!(!is_approved(&ids[at], &SecretKey::of_seed([8; 32]).public(), approval));
                // A swapped leaf: one beside it, and one that is in no tree.
                for other in [(at + 1) % count, count].into_iter().filter(|other| *other != at) {
                    assert!(!holds(&ids[other], approval), "{other} by that of {at} of {count}");
                }
            }
        }
        assert!(approve(&key(), &ids(LEAVES_MAX + 1)).is_err());
    }

    #[test]
    fn every_bit_of_an_approval_counts_but_for_none() {
        let ids = ids(5);
        for approval in approve(&key(), &ids).unwrap() {
            let id = ids.iter().find(|id| holds(id, &approval)).unwrap();
            for at in 0..approval.len() {
                for bit in 0..8 {
                    let mut changed = approval.clone();
                    changed[at] ^= 1 << bit;
                    assert!(!holds(id, &changed), "bit {bit} of byte {at}");
                }
            }
            for length in 0..approval.len() {
                assert!(!holds(id, &approval[..length]), "its first {length} bytes");
            }
        }
    }

    /// The path of one tree under the signature of another, both by the same key.
    #[test]
    fn a_path_leads_to_its_own_root_alone() {
        let (first, second) = (ids(4), ids(8)[4..].to_vec());
        let [of_first, of_second] = [&first, &second].map(|ids| approve(&key(), ids).unwrap());
        for (one, other) in of_first.iter().zip(&of_second) {
            let crossed = [&one[..SIGNATURE_BYTES], &other[SIGNATURE_BYTES..]].concat();
            assert!(first.iter().chain(&second).all(|id| !holds(id, &crossed)));
        }
    }

    fn of(signature: &[u8], leaves: u16, index: u16, path: &[Hash]) -> Vec<u8> {
        let shape = [leaves.to_be_bytes(), index.to_be_bytes()].concat();
        [signature, &shape, &path.concat()].concat()
    }

    #[test]
    fn trees_of_none_of_one_and_of_too_many_are_none() {
        let [id, ..] = ids(1)[..] else { unreachable!() };
        let leaf = leaf_hash(Approved::one(&id).message());
        // Each signed as it claims to be, so that nothing but its shape is wrong.
        let signed = |leaves: u16, root: &Hash| key().sign(Approved::many(leaves, root).message());
        let empty = signed(0, &crate::merkle::root(std::iter::empty::<&[u8]>()));
        assert!(!holds(&id, &of(&empty, 0, 0, &[])));
        assert!(!holds(&id, &of(&signed(1, &leaf), 1, 0, &[])));
        let path = [[5; 32]; 11];
        let climbed = |leaves: u16, path: &[Hash]| {
            root_from_proof(leaf, 0, leaves.into(), path).expect("it fits its number of leaves")
        };
        let right = of(&signed(1024, &climbed(1024, &path[..10])), 1024, 0, &path[..10]);
        assert!(holds(&id, &right));
        let larger = of(&signed(1025, &climbed(1025, &path)), 1025, 0, &path);
        assert!(!holds(&id, &larger), "a leaf more");
        // A longer path and a shorter one than its number of leaves has; another number of them.
        for path in [&path[..], &path[..9], &path[..0]] {
            assert!(!holds(&id, &of(&right[..64], 1024, 0, path)));
        }
        let fewer = of(&right[..64], 1023, 0, &path[..10]);
        assert!(Approved::of(&id, &fewer).is_some() && !holds(&id, &fewer));
        assert!(!holds(&id, &of(&right[..64], 1024, 1024, &path[..10])), "behind the last leaf");
    }

    /// What one of them signs is never what another kind of signature signs.
    #[test]
    fn a_node_is_no_leaf_and_a_root_no_transaction() {
        let ids = ids(4);
        let approvals = approve(&key(), &ids).unwrap();
        let leaves: Vec<Hash> =
            ids.iter().map(|id| leaf_hash(Approved::one(id).message())).collect();
        let (root, _) = inclusion_proofs(leaves.clone());
        // An inner node in a transaction's place, with the rest of the path, in a tree of two that
        // is signed as one: a leaf is hashed in another way.
        let [inner, other] = [[0, 1], [2, 3]]
            .map(|[l, r]: [usize; 2]| crate::merkle::node_hash(&leaves[l], &leaves[r]));
        assert_eq!(crate::merkle::node_hash(&inner, &other), root);
        let of_two = key().sign(Approved::many(2, &root).message());
        assert!(!holds(&inner, &of(&of_two, 2, 0, &[other])));
        // The root as if it were approved alone.
        assert!(!holds(&root, &approvals[0][..64]));
        // An approval of one in a tree's place.
        let alone = key().sign(Approved::one(&ids[0]).message());
        assert!(!holds(&ids[0], &of(&alone, 2, 0, &[leaves[1]])));
    }
}
