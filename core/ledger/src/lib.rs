//! The ledger: blocks, what they commit to, the chains that they form, the files that keep them,
//! and the proofs that leave the house.
//!
//! ```text
//! envelopes ──► Merkle root ──► order header ──► order hash ──► Batch ──► Record ──► orders/
//!                                                    │                  (durable)
//! outcomes ───┐                                      ▼
//! net effects ┴► Merkle roots ─► result header ──► head ──► BlockResult ─► Record ─► results/
//!                                    │             │                  (computed again if lost)
//!                                    └── Receipt ──┘        state ──► Manifest ──► checkpoints/
//!                                       pruned blocks ──► HeaderPiece ──► order-headers/ …
//! ```
//!
//! Envelopes, outcomes and row images are opaque bytes. The canonical bytes of everything here
//! are documented in `docs/ledger-format.md`, `docs/checkpoint-format.md`,
//! `docs/backup-format.md`, `docs/votes.md` and `docs/proofs.md`, completely enough to check a
//! chain without this code; `clients/check_chain.py` does.
//!
//! Absence: no SQL, no execution, no storage, no clock. Nothing in a block depends on how it was
//! stored; only [`files`] touches a disk.

pub mod approvals;
pub mod backup;
pub mod batch;
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
pub mod heads;
mod intercepted;
pub mod log;
pub mod memory_files;
pub mod merkle;
pub mod note;
pub mod parameters;
pub mod proof;
pub mod prune;
pub mod receipt;
pub mod record;
pub mod result;
pub mod row_receipt;
pub mod segment;
pub mod signatures;
pub mod stream;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod vectors;
pub mod votes;
mod wire;

pub use batch::{Batch, OrderSeal};
pub use block::Block;
pub use chain::{ChainFault, ChainVerifier};
pub use effects::{Effect, EffectsBuilder, EffectsDigest, effects_digest, row_image_hash};
pub use files::{Files, Identity, RealFiles, StorageFile};
pub use genesis::Genesis;
pub use hash::{Hash, ZERO_HASH};
pub use header::{Header, LedgerId, OrderHeader, ResultHeader};
pub use headers::{HeaderPiece, Link};
pub use heads::HeadTree;
pub use intercepted::{Intercepted, Interceptor};
pub use log::{
    BlockReader, BlockWriter, Damage, LogError, LogOptions, LogReader, LogWriter, Lookup,
    QUARANTINE_FOLDER, Recorded, TornTail, first_block, first_record, read_block, read_record,
};
pub use memory_files::MemoryFiles;
pub use note::{SignedHead, Signer, Verifier};
pub use parameters::Parameters;
pub use proof::{Anchor, Body, KeyRange, Proof, Trust};
pub use receipt::Receipt;
pub use record::Record;
pub use result::{BlockResult, CarriedOutcome, ResultSeal};
pub use row_receipt::RowReceipt;
pub use stream::Stream;
pub use votes::{Certificate, CertifiedReceipt, Electors, Said, Vote};
