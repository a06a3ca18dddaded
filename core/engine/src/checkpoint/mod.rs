//! Checkpoints of a replica: taken in the background, loaded by all cores.
//!
//! *Taking one* stops nothing. A block boundary is a snapshot that costs a pin: its rows are read
//! through the undo versions while later blocks are executed, and writers copy nothing that they
//! would not copy for any other reader. What it does cost is memory: undo versions stay as long as
//! the pin does.
//!
//! ```text
//!   blocks      … ─ H ─ H+1 ─ H+2 ─ H+3 ─ H+4 ─ …
//!   checkpoint      └ pin, walk, hash, write ┘ sync, manifest     ([`Service`], one thread)
//!   start       load H, execute H+1 …                             ([`load()`], then `recovery`)
//! ```
//!
//! *Incremental.* The walk over keys and stamps (some 30 nanoseconds a row) tells which groups of
//! rows have changed; only these are read, hashed and written. A group is unchanged if its first
//! key, its last key and the number of its rows are those of a group of the checkpoint before, and
//! no row has a stamp above that checkpoint: then all its rows were there, between the same keys,
//! and none is missing. Rewriting a table (ALTER TABLE) changes rows and not their stamps, which
//! prove nothing then: all its groups are written again.
//!
//! A *pack* is the file of the groups that one checkpoint wrote. Where the newest checkpoint uses
//! less than half of a pack, the next writes those groups again and the pack is dropped, so the
//! folder holds at most about twice the state for each checkpoint kept.
//!
//! *What belongs to a state*: every table's rows with their stamps, the schema, the parameters,
//! both headers of the block, and what the block hands on: what keys came to, deferred
//! transactions, the protocol's own value, and the [`past`].
//!
//! *The past.* Under a protocol that reads snapshots before the last one, the checkpoint also holds
//! the older versions of rows that those snapshots show, so that a replica started from it reads
//! the same as the one that took it.

mod groups;
mod load;
mod passed_over;
mod past;
mod service;
mod take;
pub mod vouched;

pub use groups::digest;
pub use load::{Loaded, check, load};
pub use passed_over::PassedOver;
pub use service::{Service, ServiceSettings, Standing};
pub use take::{Base, Checkpointer, Extent, State, Taken};
