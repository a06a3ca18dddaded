//! The check of a proof against a state root: what a verifier that trusts a head runs, and no more.
//!
//! A **state root** commits to all rows of a state. The rows, ordered by their tree keys, are the
//! leaves of a binary trie whose shape follows from the keys alone; `docs/state-tree.md` defines
//! it, byte by byte. A **proof** is that trie with the subtrees that do not matter replaced by
//! their hashes. It shows every row of a range of keys, so it proves a row (a range of one key),
//! an absence (such a range without a row) and a complete range alike:
//!
//! ```text
//!            branch 17                 what is shown:  the pages that the range meets
//!           /         \                what is hidden: subtrees, as their hashes
//!      (hash)      branch 40
//!                 /         \          the verifier computes the root again, and sees from the
//!            page: rows    (hash)      keys that are shown that nothing hidden is in the range
//! ```
//!
//! **Why nothing can be hidden.** All keys under a branch agree in the bits before its position.
//! Every branch of a proof has a key that is shown below it, so the verifier knows these bits, and
//! with the side on which a hidden subtree hangs it knows an interval that holds all its keys. It
//! refuses the proof unless that interval lies outside of the range.
//!
//! **Cost.** One hash for each branch and page of the proof. No allocation, no recursion, no
//! dependency but SHA-256: a proof is read once, front to back, with a stack of what is still
//! open, of one entry for a row. `no_std`. A verifier in another language can copy
//! the structure: `key`, `page`, `hash` and `verify`, about 300 lines.
//!
//! Absence: no tree, no storage, no schema. A row is its key and what the root commits to, the
//! hash of its image and the height of its last change.

#![no_std]

mod hash;
mod key;
mod page;
mod verify;

pub use hash::{Hash, branch_hash, page_hash};
pub use key::{BITS_PER_BYTE, Range, TREE_KEY_BYTES_MAX, TreeKey, bit, first_difference};
pub use page::{PAGE_BYTES_MAX, Row, Rows, VALUE_BYTES, put_row};
pub use verify::{BOTH, Entry, LEFT, PAGE, Proven, RIGHT, Refused, VERSION, verify};

#[cfg(test)]
extern crate std;
