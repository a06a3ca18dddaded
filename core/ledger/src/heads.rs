//! The tree of heads: a Merkle tree over the result hashes of all blocks, of which a signed head
//! names the root ([`crate::note`]), and proofs in it of logarithmic size.
//!
//! A head commits to everything before it, but by a chain: to get from a head to a block 10 million
//! below it takes as many headers. In the tree, whose leaf *i* is the head of block *i*, it takes
//! 24 hashes. Two kinds of proofs (RFC 9162, 2.1.3 and 2.1.4):
//!
//! ```text
//! inclusion     block i has this head in the ledger of n blocks that was signed
//! consistency   the ledger of n blocks begins with the m blocks that were signed before
//! ```
//!
//! **Kept as** one file of 32-byte slots, which is only appended to: the roots of all perfect
//! subtrees, each after the last leaf below it. Leaf *e* comes after `2e - ones(e)` slots, so a
//! node's place follows from what it is, and nothing is ever moved:
//!
//! ```text
//!              6                leaves 0 1 3 4 7 …; slot 2 is over 0 and 1, 5 over 3 and 4, 6 over
//!          2       5            2 and 5. A ledger of n blocks has 2n - ones(n) slots, its root is
//!        0   1   3   4   7      folded from the perfect subtrees that n's bits name.
//! ```
//!
//! **Nothing waits for it.** The file follows from the results, is brought up to date when it is
//! asked for, and may be lost: it is then made again. What makes a proof checks it before giving
//! it away, so damage is found there; a slot that a crash tore is at the end, where the next
//! [`HeadTree::open`] compares the last leaf with the ledger's.
//!
//! **Cost.** Two hashes and 64 bytes a block; a proof reads at most some 2·log2(n)² / 2 slots, 300
//! of 10 million blocks.
//!
//! Departure: the tree is not in the header, so a bare head has no part in it; a signature does the
//! binding. Its gain is that headers stay as they are, and that a node which makes no proofs pays
//! nothing.

use std::io;

use crate::files::{Files, StorageFile};
use crate::hash::Hash;
use crate::merkle::{leaf_hash, node_hash};

/// The file, in a ledger's folder.
pub const HEADS_FILE: &str = "head-tree";

const SLOT_BYTES: u64 = 32;

/// The tree as far as it was brought.
pub struct HeadTree {
    slots: Box<dyn StorageFile>,
    leaves: u64,
}

impl HeadTree {
    /// That of a folder; a new one where there is none. `head_of` says what the ledger has at a
    /// height: a tree whose last leaf is another is dropped.
    pub fn open(
        files: &dyn Files,
        head_of: &mut dyn FnMut(u64) -> io::Result<Option<Hash>>,
    ) -> io::Result<HeadTree> {
        let known = files.list("")?.iter().any(|name| name == HEADS_FILE);
        let slots = if known { files.open(HEADS_FILE)? } else { files.create(HEADS_FILE)? };
        let mut tree = HeadTree { leaves: leaves_of(slots.size()? / SLOT_BYTES), slots };
        if let Some(last) = tree.leaves.checked_sub(1)
            && head_of(last)?.map(|head| leaf_hash(&head)) != Some(tree.node(0, last)?)
        {
            tree.leaves = 0;
        }
        tree.slots.set_size(slots_of(tree.leaves) * SLOT_BYTES)?;
        Ok(tree)
    }

    /// Blocks that are in it.
    pub fn leaves(&self) -> u64 {
        self.leaves
    }

    /// Adds the head of the next block.
    pub fn push(&mut self, head: &Hash) -> io::Result<()> {
        let mut node = leaf_hash(head);
        let mut bytes = node.to_vec();
        for level in 0..self.leaves.trailing_ones() {
            let left = self.node(level, (self.leaves >> level) - 1)?;
            node = node_hash(&left, &node);
            bytes.extend_from_slice(&node);
        }
        let place = slots_of(self.leaves) * SLOT_BYTES;
        self.slots.write_at(&bytes, place)?;
        self.leaves += 1;
        debug_assert_eq!(
            place + bytes.len() as u64,
            slots_of(self.leaves) * SLOT_BYTES,
            "slots follow one another without gaps"
        );
        Ok(())
    }

    /// The root over the first `size` blocks.
    pub fn root(&self, size: u64) -> io::Result<Hash> {
        self.over(0, self.checked(size)?)
    }

    /// That block `height` is among the first `size`.
    pub fn inclusion(&self, height: u64, size: u64) -> io::Result<Vec<Hash>> {
        let (mut from, mut to) = (0, self.checked(size)?);
        if height >= size {
            return Err(missing(height));
        }
        let mut proof = Vec::new();
        while to - from > 1 {
            let middle = from + split(to - from);
            if height < middle {
                proof.push(self.over(middle, to)?);
                to = middle;
            } else {
                proof.push(self.over(from, middle)?);
                from = middle;
            }
        }
        debug_assert_eq!((from, to), (height, height + 1), "what is left is the block itself");
        proof.reverse();
        Ok(proof)
    }

    /// That the first `old` blocks are those that the first `new` begin with.
    pub fn consistency(&self, old: u64, new: u64) -> io::Result<Vec<Hash>> {
        let (mut from, mut to) = (0, self.checked(new)?);
        if old == 0 || old > new {
            return Err(missing(old));
        }
        let mut proof = Vec::new();
        // The subtree that ends with the old ledger; the old root itself is known.
        while to > old {
            let middle = from + split(to - from);
            if old <= middle {
                proof.push(self.over(middle, to)?);
                to = middle;
            } else {
                proof.push(self.over(from, middle)?);
                from = middle;
            }
        }
        debug_assert_eq!(to, old, "the old ledger ends with a whole subtree of the new one");
        if from > 0 {
            proof.push(self.over(from, to)?);
        }
        proof.reverse();
        Ok(proof)
    }

    fn checked(&self, size: u64) -> io::Result<u64> {
        if size == 0 || size > self.leaves { Err(missing(size)) } else { Ok(size) }
    }

    /// The root over some leaves, of which the first is where such a subtree can begin.
    fn over(&self, from: u64, to: u64) -> io::Result<Hash> {
        let mut peaks = Vec::new();
        let mut at = from;
        while at < to {
            let level = (to - at).ilog2();
            debug_assert_eq!(at % (1 << level), 0, "no perfect subtree begins there");
            peaks.push(self.node(level, at >> level)?);
            at += 1 << level;
        }
        let last = peaks.pop().ok_or_else(|| missing(to))?;
        Ok(peaks.into_iter().rfold(last, |right, left| node_hash(&left, &right)))
    }

    /// The root of the perfect subtree over 2^level leaves, the `index`-th of these.
    fn node(&self, level: u32, index: u64) -> io::Result<Hash> {
        let last = ((index + 1) << level) - 1;
        let mut node = [0; 32];
        self.slots.read_at(&mut node, (slots_of(last) + u64::from(level)) * SLOT_BYTES)?;
        Ok(node)
    }
}

/// The root of an older ledger and of a newer one, if a proof leads to both (RFC 9162, 2.1.4.2).
pub fn consistent(old: (u64, &Hash), new: (u64, &Hash), proof: &[Hash]) -> bool {
    let ((old_size, old_root), (new_size, new_root)) = (old, new);
    if old_size == 0 || old_size > new_size {
        return false;
    }
    if old_size == new_size {
        return proof.is_empty() && old_root == new_root;
    }
    let (mut place, mut last) = (old_size - 1, new_size - 1);
    let mut rest = proof.iter();
    let shared = place.trailing_ones();
    (place, last) = (place >> shared, last >> shared);
    let first = if old_size.is_power_of_two() { Some(old_root) } else { rest.next() };
    let Some(first) = first else { return false };
    let (mut was, mut is) = (*first, *first);
    for hash in rest {
        if last == 0 {
            return false;
        }
        if place & 1 == 1 || place == last {
            (was, is) = (node_hash(hash, &was), node_hash(hash, &is));
            while place & 1 == 0 && place != 0 {
                (place, last) = (place >> 1, last >> 1);
            }
        } else {
            is = node_hash(&is, hash);
        }
        (place, last) = (place >> 1, last >> 1);
    }
    last == 0 && was == *old_root && is == *new_root
}

/// Leaves left of the middle: the largest power of two below `leaves`, of which there are two.
fn split(leaves: u64) -> u64 {
    1 << (leaves - 1).ilog2()
}

fn slots_of(leaves: u64) -> u64 {
    2 * leaves - u64::from(leaves.count_ones())
}

/// The most leaves whose slots are all there.
fn leaves_of(slots: u64) -> u64 {
    let mut leaves = slots / 2;
    while slots_of(leaves + 1) <= slots {
        leaves += 1;
    }
    debug_assert!(slots_of(leaves) <= slots, "a leaf without its slots");
    leaves
}

fn missing(block: u64) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("the tree of heads has no place {block}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_files::MemoryFiles;
    use crate::merkle::{MerkleBuilder, inclusion_proof, verify_inclusion};

    fn head(height: u64) -> Hash {
        let mut head = [7; 32];
        head[..8].copy_from_slice(&height.to_be_bytes());
        head
    }

    fn open(files: &MemoryFiles) -> HeadTree {
        HeadTree::open(files, &mut |height| Ok(Some(head(height)))).unwrap()
    }

    fn roots(leaves: u64) -> Vec<Hash> {
        let mut builder = MerkleBuilder::new();
        let push = |height| {
            builder.push(&head(height));
            builder.root()
        };
        (0..leaves).map(push).collect()
    }

    #[test]
    fn roots_and_inclusion_proofs_are_those_of_the_tree_in_memory() {
        let mut tree = open(&MemoryFiles::new());
        let leaves: Vec<Hash> = (0..70).map(|height| leaf_hash(&head(height))).collect();
        for (height, root) in (0..70).zip(roots(70)) {
            tree.push(&head(height)).unwrap();
            let size = height + 1;
            assert_eq!(tree.root(size).unwrap(), root);
            for i in 0..size {
                let proof = tree.inclusion(i, size).unwrap();
                let known = inclusion_proof(&leaves[..size as usize], i as usize).unwrap();
                assert_eq!(proof, known);
                assert!(verify_inclusion(leaves[i as usize], i, size, &proof, &root));
            }
            assert!(tree.inclusion(size, size).is_err());
            assert!(tree.root(size + 1).is_err());
        }
    }

    #[test]
    fn every_pair_of_sizes_is_consistent_and_no_other_root_is() {
        let mut tree = open(&MemoryFiles::new());
        let roots = roots(40);
        (0..40).for_each(|height| tree.push(&head(height)).unwrap());
        let root = |size: u64| &roots[size as usize - 1];
        for new in 1..=40 {
            for old in 1..=new {
                let proof = tree.consistency(old, new).unwrap();
                assert!(proof.len() <= 2 * 6);
                assert!(consistent((old, root(old)), (new, root(new)), &proof), "{old} {new}");
                assert!(!consistent((old, &[0; 32]), (new, root(new)), &proof));
                assert!(!consistent((old, root(old)), (new, &[0; 32]), &proof));
                assert!(!consistent((new, root(new)), (old, root(old)), &proof) || old == new);
                for at in 0..proof.len() {
                    let mut forged = proof.clone();
                    forged[at][3] ^= 1;
                    assert!(!consistent((old, root(old)), (new, root(new)), &forged));
                    forged.remove(at);
                    assert!(!consistent((old, root(old)), (new, root(new)), &forged));
                }
                let longer = [&proof[..], &[[1; 32]]].concat();
                assert!(!consistent((old, root(old)), (new, root(new)), &longer));
                // Another size passes only for one whose tree has the same shape up to there.
                if old < new && new < 40 {
                    assert!(!consistent((old, root(old)), (new, root(new + 1)), &proof));
                }
            }
            assert!(tree.consistency(0, new).is_err());
            assert!(tree.consistency(new + 1, new).is_err());
        }
    }

    #[test]
    fn a_torn_end_is_cut_and_another_ledgers_tree_is_dropped() {
        for slots in 0..64 {
            let files = MemoryFiles::new();
            let mut tree = open(&files);
            (0..40).for_each(|height| tree.push(&head(height)).unwrap());
            drop(tree);
            let bytes = files.contents(HEADS_FILE).unwrap();
            files.plant(HEADS_FILE, bytes[..slots * 32 + 5].to_vec());
            let mut tree = open(&files);
            assert!(tree.leaves() <= 40 && slots_of(tree.leaves()) as usize <= slots);
            assert!(slots_of(tree.leaves() + 1) as usize > slots);
            (tree.leaves()..40).for_each(|height| tree.push(&head(height)).unwrap());
            assert_eq!(files.contents(HEADS_FILE).unwrap(), bytes);
            drop(tree);
            let other = HeadTree::open(&files, &mut |_| Ok(Some([9; 32]))).unwrap();
            assert_eq!(other.leaves(), 0);
        }
    }
}
