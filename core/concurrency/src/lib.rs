//! The seam between what a block asks for and how a protocol does it.
//!
//! * [`Protocol`]: one strategy; virtual per block, never per access.
//! * [`ProtocolInfo`]: what it says of itself, read by the CLI, the docs, the bench and the tests.
//! * [`Epoch`]: a block in which calls run as they arrive.
//! * [`Work`]: what one transaction of a block runs; every kind runs through the same `Access`.
//! * [`Overlay`]: a transaction's own writes over a block snapshot, the workspace that serial
//!   execution, simulation and interactive sessions share.
//! * [`Claim`]: what a statement of a session has to lock; [`sparing`]: how it passes over rows
//!   that others have locked.
//! * [`Runner`]: a serial order, carried out; [`ordered_locks`] does so in parallel.
//! * [`simulation`]: every transaction on one snapshot, with what it read and would write;
//!   [`phantoms`]: who wrote into a range that another read.
//! * [`RecordNumbers`]: the records that a block touches, numbered for flat arrays.
//! * [`disjoint`]: those that write different records, installed in parallel.
//! * [`endorsement`]: the same with versions, and the check whether they are still the newest.
//! * [`Ways`]: which way the transactions of a block took.
//! * [`Carried`]: what a block leaves to the next one; [`History`]: the snapshots it may read.
//! * [`Sealed`]: a block as the ledger has it.
//! * [`WorkerPool`]: the workers.
//! * [`studies`]: protocols beside the product's, in programs that have them.
//! * [`trial`]: what tests switch on to see whether they would notice.
//!
//! Absence: no concrete protocol, no SQL, no ledger bytes.

pub mod accesses;
pub mod arenas;
pub mod below;
pub mod carried;
pub mod claims;
pub mod disjoint;
pub mod endorsement;
pub mod epoch;
pub mod footprint;
pub mod guarded;
pub mod history;
pub mod install;
pub mod ordered_locks;
pub mod overlay;
pub mod own_rows;
mod pending;
pub mod phantoms;
pub mod pool;
pub mod prefetching;
pub mod protocol;
mod reach;
pub mod reconnaissance;
pub mod record_numbers;
pub mod runner;
pub mod schedule;
pub mod sealed;
pub mod simulation;
pub mod sparing;
pub mod studies;
pub mod trial;
pub mod ways;
pub mod work;

pub use below::{Below, Stored};
pub use carried::{Carried, CarriedState};
pub use claims::{Claim, FootprintMark, Place};
pub use epoch::{Call, Epoch, EpochWorker};
pub use footprint::{Footprint, NoRecord, RangeDigest, RangeSeal, Recorder, RowRead, seal_range};
pub use history::{History, Past};
pub use overlay::{Moment, Overlay};
pub use pending::{PendingWrite, RecordId, WriteSet, WriteState};
pub use pool::WorkerPool;
pub use prefetching::{Plans, Prefetching};
pub use protocol::{
    Block, BlockOutcome, BlockReport, Isolation, OptionValues, Options, Outcome, Prepared,
    Protocol, ProtocolInfo, ProtocolOption, Snapshots, Span, Timing, Watch, own,
};
pub use record_numbers::RecordNumbers;
pub use runner::Runner;
pub use sealed::Sealed;
pub use simulation::{ReadMark, Reads, Simulated};
pub use ways::{Way, Ways};
pub use work::{Expectation, Interactive, Load, RangeRequirement, RowRequirement, Statement, Work};
