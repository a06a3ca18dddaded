//! Order, execute, seal: from requests to durable, verifiable blocks.
//!
//! * [`replica`]: the deterministic core, a value without clock, files or sockets;
//! * [`live`] and [`queue`]: the pipeline with threads, a clock and clients, on a running node;
//!   [`gate`]: where calls enter a block that is open;
//! * [`journal`]: where orders go before results are released, and results afterwards;
//! * [`recovery`]: the same core fed from a ledger, which is recovery and verification at once;
//! * [`checkpoint`]: its state on disk, so that recovery need not begin at genesis;
//! * [`retention`]: which blocks of the past can be read, within which memory;
//! * [`locks`]: what open transactions lock under `2pl`;
//! * [`watchdog`]: which block a process died in; [`skip`]: what becomes of such a block;
//! * [`request`]: an envelope on its way; [`transaction`]: what it asks for, and how the ledger
//! says
//!   that it ended; [`effects`]: what its block changed; [`describe`]: all three in words;
//!   [`images`]: rows in the ledger, where no order explains them; [`limits`]: parameters that
//!   bound what a block may hold.
//!
//! Absence: no SQL (see [`language::Language`]), no wire format, no knowledge of what a protocol
//! does.

mod beyond;
pub mod checkpoint;
mod client;
mod clock;
pub mod describe;
pub mod effects;
mod gate;
mod images;
pub mod journal;
pub mod language;
pub mod limits;
pub mod live;
pub mod locks;
pub mod members;
pub mod observer;
mod open_epoch;
pub mod parameter_types;
pub mod proving;
pub mod queue;
pub mod recovery;
pub mod replica;
pub mod request;
mod rest;
pub mod retention;
pub mod skip;
mod state_rows;
mod stopped;
mod tamper;
pub mod transaction;
#[cfg(test)]
mod vectors;
pub mod watchdog;

pub use self::recovery::{
    Fault, FromCheckpoint, Mismatch, Progress, Recovery, ReplayBy, Replayed, RowFolders, Trust,
    Ways, recover, recover_by, replay, replay_behind, replay_watched, resume_writing,
};
pub use beyond::Elsewhere;
pub use checkpoint::PassedOver;
pub use client::{Executed, Member, Replica, Request, Waiting};
pub use clock::{Clock, ClockBound, SteadyClock};
pub use effects::{ChangedRow, Effects};
pub use journal::Journal;
pub use language::{Language, Migrated, ObjectChange, SCHEMA_TABLE, SchemaChange};
pub use limits::EXECUTOR;
pub use live::{Beside, Checkpoints, Engine, Submitted, Submitter, Withdrawal};
pub use observer::{BlockEvent, NoObserver, Observer};
pub use order::{Seed, Status as KeyStatus};
pub use parameter_types::ParameterTypes;
pub use protocols::recorded_name;
pub use queue::BlockLimits;
pub use replica::{Again, Boundary, Halt, Head, KeyStanding, check_first_order, check_protocol};
pub use request::{Compiled, Completion, Numbering, is_barrier};
pub use retention::{Retention, RetentionSettings};
pub use skip::Skipped;
pub use stopped::Stopped;
pub use transaction::{Body, Transaction};
pub use watchdog::{Failing, Watchdog, WatchdogSettings};
