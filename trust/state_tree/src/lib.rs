//! The state tree: all rows of a state under one hash, which changes with the blocks.
//!
//! A map over (table, key) → (hash of the row's image, height of its last change), whose root goes
//! into result headers. It is **ordered**, so that a row, an absence and a complete range can be
//! proven (`proofs` checks that and defines the hashes), and **independent of history**: equal
//! contents have equal roots, whatever came and went before, in blocks of any size, on any number
//! of threads. So a node that loads a checkpoint has the root of those that executed every block.
//!
//! ```text
//!                 branch 31                 a branch parts its rows at the first bit in which
//!                /         \                they differ; it knows its position and the hashes
//!        page: rows      branch 58          of its sides
//!                       /         \         a page has the rows of a whole subtree, as the bytes
//!                 page: rows   page: rows   that are hashed, as soon as they are at most 512
//! ```
//!
//! **Shape.** A binary trie over the bits of tree keys (`proofs::TreeKey`). No node has one side,
//! and a subtree is a page if and only if it has one row or its rows take at most
//! `proofs::PAGE_BYTES_MAX` bytes: this is the whole definition, and it names contents only. The
//! same in three lines: rows that fit a page are one; others part at the first difference of the
//! first and the last key; and so on for both parts.
//!
//! **Depth.** That of a trie: about log2 of the number of pages where keys are numbers or random.
//! A client that chooses keys which begin one another can make a path as long as the bits of its
//! keys, never longer than 1,152, to its own rows and to keys that begin with its own. No salt, no
//! draw: no keys can be prepared that disturb others.
//!
//! **Change.** [`StateTree::apply`] takes a block's changes in order and goes down once: at a
//! branch they part, at a page they are merged into its bytes, and each node on the way is hashed
//! once, when its sides are. Large blocks take several threads, which share no node.
//!
//! **Copies.** Nodes are counted and never changed while another tree has them: a clone of the
//! tree costs nothing, and is the state of that moment for proofs and comparisons, while the next
//! block changes the original at the price of new nodes on its paths.
//!
//! **Memory.** The page bytes, 54 for a row with a key of 9 bytes, and a sixth of a page's frame
//! and of a branch: about 90 bytes a row. `docs/state-tree.md` has the measurements, and what else
//! was tried.
//!
//! Absence: no storage, no images, no blocks, no I/O. Who calls knows what has changed.

mod apply;
mod compare;
mod node;
mod prove;
mod region;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;

pub use apply::{Change, Value};
pub use compare::{Compared, Contradiction, Difference, Peer};
pub use node::StateTree;
pub use region::{Region, Summary};
