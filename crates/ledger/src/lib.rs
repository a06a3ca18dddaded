//! The ledger: blocks, what they commit to, the chain that they form, the files that keep them, and
//! the proofs that leave the house.
//!
//! ```text
//! transactions ─┐
//! outcomes ─────┼─► Merkle roots ─► header ─► block hash ─► previous_hash of the next header
//! net effects ──┘        │             │
//!                        └─ Receipt ───┘      Block ─► EncodedBlock ─► LogWriter ─► segments/
//!                                                state after a block ─► Manifest ─► checkpoints/
//!                                              pruned blocks ─► HeaderPiece ─► headers/
//! ```
//!
//! Transactions, outcomes and row images are opaque bytes. The canonical bytes of everything here
//! are documented in `docs/ledger-format.md`, `docs/checkpoint-format.md` and
//! `docs/backup-format.md`, completely enough to check a chain without this code;
//! `clients/check_chain.py` does.
//!
//! Absence: no SQL, no execution, no storage, no clock. Nothing in a block depends on how it was
//! stored; only [`files`] touches a disk.

pub mod backup;
pub mod block;
pub mod chain;
pub mod checkpoint;
#[cfg(test)]
mod client_tests;
pub mod effects;
pub mod files;
pub mod genesis;
pub mod hash;
pub mod header;
pub mod headers;
pub mod log;
pub mod memory_files;
pub mod merkle;
pub mod parameters;
pub mod prune;
pub mod receipt;
pub mod row_receipt;
pub mod segment;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod vectors;
mod wire;

pub use block::{Block, BlockSeal, EncodedBlock};
pub use chain::{ChainFault, ChainVerifier};
pub use effects::{Effect, EffectsBuilder, effects_root, row_image_hash};
pub use files::{Files, RealFiles, StorageFile};
pub use genesis::Genesis;
pub use hash::{Hash, ZERO_HASH};
pub use header::{BlockHeader, LedgerId};
pub use headers::HeaderPiece;
pub use log::{
    Damage, LogError, LogOptions, LogReader, LogWriter, TornTail, first_block, read_block,
};
pub use memory_files::MemoryFiles;
pub use parameters::Parameters;
pub use receipt::Receipt;
pub use row_receipt::RowReceipt;
