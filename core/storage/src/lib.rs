//! The records: tables in memory, updated in place, readable at every pinned block.
//!
//! Modules from the ground up: `words` (memory that never moves), `heap` (strings), `header` and
//! `layout` (what a record looks like), `undo` (what it looked like before), `record` (how one
//! writer and many readers share it), `hash` and `ordered` (how it is found), `table`, `scan`,
//! `renumber` (for positions known late), `exclusive` (for workers who share no record), `pins`
//! (who still reads what), `block` and `store` (blocks in, snapshots out), `transfer` (whole tables
//! out and in), `feed` and `gather` (what copies of columns are made from and kept up to date by).
//!
//! The parts that threads share are checked under a model of their schedules by
//! `RUSTFLAGS="--cfg shuttle" cargo test -p storage --lib schedules`, and of their memory by
//! `scripts/weak-memory`. The only unsafe code is in `words::raw` (a zeroed allocation and a
//! prefetch) and in `heap::ascii` (a text known to be one), which Miri runs too: `make miri`.
//!
//! Left out so far: undo chunks, nodes, slots and strings' places are reused by their own table or
//! store, not returned to the system, and a hash table that has grown keeps its smaller halves; a
//! block once begun cannot be undone.
//!
//! Absence: no transactions, no conflicts, no constraints, no SQL, no disk. Storage is told what to
//! write by a concurrency-control protocol, which guarantees that within a block each record
//! has one writer at a time.

mod block;
mod change;
mod entry;
mod exclusive;
mod feed;
mod gather;
mod hash;
mod header;
mod heap;
mod image;
mod layout;
mod ordered;
mod past;
mod pins;
mod record;
mod renumber;
mod scan;
mod slot;
mod store;
mod superfluous;
mod sweep;
mod table;
mod transfer;
mod undo;
mod words;

/// What tables are made of, for tables of another kind: the multi-version study's.
pub mod parts {
    pub use crate::hash::HashIndex;
    pub use crate::ordered::OrderedIndex;
    pub use crate::words::{Words, prefetch};
}

pub use block::{BlockWrites, Change, Changes};
pub use change::{CatalogChange, Convert, Toll};
pub use feed::{ChangeFeed, TouchedBlock, TouchedBlocks};
pub use gather::{GROUP_ROWS, Gathered};
pub use hash::KeyHash;
pub use header::HEIGHT_MAX;
pub use layout::PROTOCOL_WORDS_MAX;
pub use past::{PastImage, VisitPast};
pub use pins::{Pin, Pins};
pub use record::GROUP_ROWS_LOG2;
pub use scan::{Visit, VisitRecord};
pub use slot::{LATEST, Slot};
pub use store::{Annotation, Catalog, Collected, Copies, Snapshot, Store, StoreUsage};
pub use table::{Place, Table, TableUsage};
pub use transfer::VisitSlot;
pub use undo::UndoArena;
