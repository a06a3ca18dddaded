//! Order, execute, seal: from requests to durable, verifiable blocks.
//!
//! * [`replica`]: the deterministic core, a value without clock, files or sockets;
//! * [`queue`] and [`engine`]: the live node's sequencer around it;
//! * [`journal`]: where blocks go before their results are released;
//! * [`recovery`]: the same core fed from a ledger, which is recovery and verification at once;
//! * [`checkpoint`]: its state on disk, so that recovery need not begin at genesis;
//! * [`retention`]: which blocks of the past can be read, within which memory;
//! * [`transaction`]: what the ledger holds of a request; [`effects`]: what its block changed;
//!   [`describe`]: both in words; [`images`]: rows in the ledger, where no order explains them.
//!
//! Absence: no SQL (see [`language::Language`]), no wire format, no knowledge of what a protocol
//! does.

pub mod checkpoint;
pub mod describe;
pub mod effects;
pub mod engine;
mod images;
pub mod journal;
pub mod language;
pub mod parameter_types;
pub mod queue;
pub mod recovery;
pub mod replica;
pub mod retention;
pub mod transaction;
#[cfg(test)]
mod vectors;

pub use self::recovery::{
    Fault, FromCheckpoint, Mismatch, PassedOver, Progress, Recovery, ReplayBy, Replayed,
    RowFolders, Ways, recover, recover_by, replay, replay_behind, replay_watched,
};
pub use effects::{ChangedRow, Effects};
pub use engine::{
    Beside, BlockEvent, Checkpoints, Clock, DEFERRALS_MAX, Engine, NoObserver, Observer,
};
pub use journal::Journal;
pub use language::{Language, ObjectChange, SCHEMA_TABLE, SchemaChange};
pub use parameter_types::ParameterTypes;
pub use protocols::recorded_name;
pub use queue::{BlockLimits, Completion};
pub use replica::{Again, Boundary, Compiled, Executed, Halt, Head, Input, Replica};
pub use retention::{Retention, RetentionSettings};
pub use transaction::{Body, Transaction};
