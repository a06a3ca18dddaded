//! Checkpoints: the state after one block, on disk, so that a start need not execute every block
//! since genesis.
//!
//! # Idea
//!
//! A block boundary is the one moment at which nothing is half done, so a checkpoint is a set of
//! rows with a block's headers, and with what its block hands on to the next ones. Rows are cut
//! into *groups* by their keys alone, and a group's bytes depend on its rows alone: the same state
//! gives the same groups on every replica, whatever its history and its memory look like. Groups
//! are named by their hashes; a checkpoint writes those that have changed and refers to the others
//! where older checkpoints have put them.
//!
//! ```text
//! checkpoints/
//!   …0100.pack      │A│B│C│D│E│F│                 groups, one after the other
//!   …0100.manifest  headers, schema, A B C D E F
//!   …0200.pack      │C'│F'│                       what blocks 101 to 200 changed
//!   …0200.manifest  headers, schema, A B C' D E F'    (A, B, D, E lie in …0100.pack)
//! ```
//!
//! # Where a group begins
//!
//! At each row whose key has a CRC-32 that is a multiple of [`GROUP_ROWS_MEAN`], and after
//! [`GROUP_ROWS_MAX`] rows, whatever the keys ([`begins_group`]). A row that comes or goes changes
//! its own group, and at most splits it or joins it with its neighbour; groups of a fixed number of
//! rows would all change after it.
//!
//! # The past
//!
//! Some protocols read states some blocks back. Under one of them a checkpoint has, for each row
//! that differs in one of these states, the images that it had there, in groups that are cut in the
//! same way; each checkpoint writes its own. Under the others it has not a byte more.
//!
//! # Digest of the state
//!
//! ```text
//! group   u64 stamp ‖ string image, for each row in key order       leaf of its table's tree
//! table   Merkle root over its groups
//! state   SHA-256("tally state v2" ‖ parameters ‖ schema ‖ carried ‖ (table, rows, root) …
//!                 [‖ from ‖ (table, rows, root) … of the past])
//! ```
//!
//! It is a function of the rows, their stamps and the schema changes since genesis, so replicas can
//! compare it and a re-execution of the ledger must come to it. A party that can write the files
//! can make a checkpoint with another state and the right digest *of that*: what shows it is the
//! re-execution (`verify`), not the checkpoint.
//!
//! # Order of writes
//!
//! First goes what is in the way: files of the same height, and manifests above it, which are of
//! another past. Then pack, sync; folder, sync; manifest, sync; folder, sync; only then are files
//! removed that no kept manifest names, manifests before packs. A manifest ends with a hash of
//! itself, so one that a crash tore is none, and a whole one has all its groups on disk. Until the
//! last step the checkpoints before are untouched, whether or not they can be read.
//! `docs/checkpoint-format.md` has every byte.

mod folder;
mod manifest;
mod pack;
#[cfg(test)]
mod tests;

pub use folder::{
    CHECKPOINT_FOLDER, clear, copy, height_of, heights, manifest_path, pack_bytes, pack_path,
    read_manifest, retain, write_manifest,
};
pub use manifest::{Group, Manifest, Past, Place, StateParts, TableGroups, TableRoot, reseal};
pub use pack::{PackReader, PackWriter, check};

/// Rows in a group, on average: the bits of a checksum decide.
pub const GROUP_ROWS_MEAN: u32 = 512;
pub const GROUP_ROWS_MAX: u32 = 8 * GROUP_ROWS_MEAN;

/// Whether a row begins a new group after one that has `rows_before`.
pub fn begins_group(key: &[u8], rows_before: u32) -> bool {
    rows_before >= GROUP_ROWS_MAX || crc32fast::hash(key).is_multiple_of(GROUP_ROWS_MEAN)
}
