//! Order, execute, seal: from requests to durable, verifiable blocks.
//!
//! What a block becomes is said by [`replica`], a value; here are the threads, the disk, the clock
//! and the clients around it.
//!
//! * [`live`] and [`queue`]: the pipeline on a running node; [`epoch_entry`]: where calls enter a
//!   block that is open;
//! * [`journal`]: where orders go before results are released, and results afterwards;
//! * [`recovery`]: the same core fed from a ledger, which is recovery and verification at once;
//! * [`checkpoint`]: its state on disk, so that recovery need not begin at genesis;
//! * [`retention`]: which blocks of the past can be read, within which memory;
//! * [`locks`]: what open transactions lock under `2pl`;
//! * [`watchdog`]: which block a process died in;
//! * [`proving`]: proofs of rows as they are now.
//!
//! Absence: no SQL (see [`Language`]), no wire format, no knowledge of what a protocol does.

pub mod checkpoint;
mod client;
mod clock;
mod epoch_entry;
pub mod journal;
pub mod live;
pub mod locks;
pub mod observer;
mod open_epoch;
pub mod proving;
pub mod queue;
pub mod recovery;
mod remote_orders;
mod rest;
pub mod retention;
mod stopped;
mod tamper;
pub mod watchdog;

pub use self::recovery::{
    Fault, FromCheckpoint, Mismatch, Progress, Recovery, ReplayBy, ReplayCounts, Replayed,
    RowFolders, Trust, recover, recover_by, replay, replay_behind, replay_watched, resume_writing,
};
pub use checkpoint::PassedOver;
pub use client::{Executed, Member, Replica, Request, Waiting};
pub use clock::{Clock, ClockBound, SteadyClock};
pub use journal::Journal;
pub use live::{Checkpoints, Draft, Engine, EngineOptions, Submitted, Submitter, Withdrawal};
pub use observer::{BlockEvent, NoObserver, Observer};
pub use order::{Seed, Status as KeyStatus};
pub use queue::BlockLimits;
pub use remote_orders::RemoteOrderer;
pub use replica::{
    Action, AskedChange, Body, Boundary, ChangedRow, Compiled, Completion, EXECUTOR, Effects, Halt,
    Head, KeyId, KeyStanding, Language, Migrated, Numbering, ObjectChange, ParameterTypes, Party,
    Repeat, SCHEMA_TABLE, SchemaChange, Skipped, Transaction, Wanted, check_first_order,
    check_protocol, describe, is_barrier, is_of_another, limits, members, recorded_name, skip,
    transaction,
};
pub use retention::{Retention, RetentionSettings};
pub use stopped::Stopped;
pub use watchdog::{Failing, Watchdog, WatchdogSettings};
