//! Merkle trees as in RFC 9162, section 2.1, with SHA-256: the shape that Certificate
//! Transparency made common, so that any implementation of it can check our proofs.
//!
//! ```text
//! root of nothing       SHA-256("")
//! leaf d                SHA-256(0x00 ‖ d)
//! node over l and r     SHA-256(0x01 ‖ l ‖ r)
//! n leaves              the left subtree has 2^k leaves, the largest 2^k below n
//! ```
//!
//! **Streaming.** [`MerkleBuilder`] keeps one perfect subtree for each set bit of the number of
//! leaves so far, as a binary counter: adding a leaf carries, closing folds from the right. That is
//! the RFC's split, as the set bits from the top are exactly the left subtrees. At most 64 hashes
//! of state, nothing allocated.
//!
//! **Proofs.** The same tree seen by levels: neighbours pair up, and an odd last node rises
//! unchanged. The proof of a leaf holds the neighbour at each level where there is one.
//!
//! **Cost.** One leaf hash and one node hash per leaf. A node is always 65 bytes, that is two
//! compressions; `cargo run --release -p ledger --example ledger_cost` measures both.

use sha2::{Digest, Sha256};

use crate::hash::Hash;

const LEAF: u8 = 0;
const NODE: u8 = 1;

pub fn leaf_hash(leaf: &[u8]) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update([LEAF]);
    hasher.update(leaf);
    hasher.finalize().into()
}

pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    let mut message = [NODE; 65];
    message[1..33].copy_from_slice(left);
    message[33..].copy_from_slice(right);
    Sha256::digest(message).into()
}

/// The root of a sequence of leaves, computed as they come.
#[derive(Clone)]
pub struct MerkleBuilder {
    leaves: u64,
    /// Slot `k` is meaningful where bit `k` of `leaves` is set: the root of 2^k leaves.
    perfect: [Hash; 64],
}

impl Default for MerkleBuilder {
    fn default() -> Self {
        MerkleBuilder { leaves: 0, perfect: [[0; 32]; 64] }
    }
}

impl MerkleBuilder {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&mut self, leaf: &[u8]) {
        self.push_hash(leaf_hash(leaf));
    }

    pub fn push_hash(&mut self, leaf: Hash) {
        let carries = self.leaves.trailing_ones() as usize;
        let mut node = leaf;
        for left in &self.perfect[..carries] {
            node = node_hash(left, &node);
        }
        self.perfect[carries] = node;
        self.leaves += 1;
    }

    pub fn leaves(&self) -> u64 {
        self.leaves
    }

    pub fn root(&self) -> Hash {
        let mut subtrees = (0..64).filter(|k| self.leaves >> k & 1 == 1);
        let Some(smallest) = subtrees.next() else {
            return Sha256::digest([]).into();
        };
        subtrees.fold(self.perfect[smallest], |right, k| node_hash(&self.perfect[k], &right))
    }
}

/// The root of a list of leaves.
pub fn root<L: AsRef<[u8]>>(leaves: impl IntoIterator<Item = L>) -> Hash {
    let mut builder = MerkleBuilder::new();
    for leaf in leaves {
        builder.push(leaf.as_ref());
    }
    builder.root()
}

/// The inclusion proof of one leaf: sibling hashes from the leaf up. `None` if there is no such
/// leaf.
pub fn inclusion_proof(leaf_hashes: &[Hash], index: usize) -> Option<Vec<Hash>> {
    if index >= leaf_hashes.len() {
        return None;
    }
    let mut proof = Vec::new();
    let mut level = leaf_hashes.to_vec();
    let mut position = index;
    while level.len() > 1 {
        proof.extend(level.get(position ^ 1));
        level = level_above(&level);
        position /= 2;
    }
    debug_assert_eq!(
        root_from_proof(leaf_hashes[index], index as u64, leaf_hashes.len() as u64, &proof),
        level.first().copied(),
        "a proof leads to the root"
    );
    Some(proof)
}

/// The root, and the inclusion proofs of all leaves: each level is computed once.
pub fn inclusion_proofs(leaf_hashes: Vec<Hash>) -> (Hash, Vec<Vec<Hash>>) {
    let mut proofs = vec![Vec::new(); leaf_hashes.len()];
    let (mut level, mut height) = (leaf_hashes, 0);
    while level.len() > 1 {
        for (leaf, proof) in proofs.iter_mut().enumerate() {
            proof.extend(level.get(leaf >> height ^ 1));
        }
        (level, height) = (level_above(&level), height + 1);
    }
    let root = level.first().copied().unwrap_or_else(|| MerkleBuilder::new().root());
    (root, proofs)
}

fn level_above(level: &[Hash]) -> Vec<Hash> {
    let (pairs, odd) = level.as_chunks::<2>();
    let mut above: Vec<Hash> = pairs.iter().map(|[l, r]| node_hash(l, r)).collect();
    above.extend(odd);
    above
}

/// The root that a proof leads to, or `None` if the proof has not the one length that fits.
/// (RFC 9162, section 2.1.3.2.)
pub fn root_from_proof(leaf: Hash, index: u64, leaves: u64, proof: &[Hash]) -> Option<Hash> {
    if index >= leaves {
        return None;
    }
    let (mut position, mut last) = (index, leaves - 1);
    let mut node = leaf;
    let mut siblings = proof.iter();
    while last > 0 {
        if position & 1 == 1 {
            node = node_hash(siblings.next()?, &node);
        } else if position < last {
            node = node_hash(&node, siblings.next()?);
        }
        position >>= 1;
        last >>= 1;
    }
    siblings.next().is_none().then_some(node)
}

pub fn verify_inclusion(leaf: Hash, index: u64, leaves: u64, proof: &[Hash], root: &Hash) -> bool {
    root_from_proof(leaf, index, leaves, proof).as_ref() == Some(root)
}

#[cfg(test)]
#[path = "merkle_tests.rs"]
mod tests;
