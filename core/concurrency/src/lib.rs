//! The interface between a block's transactions and the concurrency-control protocol that runs it.
//!
//! * [`Protocol`]: a protocol; dispatched dynamically for each block, never for each access.
//! * [`ProtocolInfo`]: its description, read by the CLI, the docs, the benchmarks and the tests.
//! * [`Epoch`]: a block in which calls run as they arrive.
//! * [`Work`]: what one transaction of a block runs; all kinds run through the same `Access`.
//! * [`Overlay`]: a transaction's own writes over a block snapshot, the workspace shared by serial
//!   execution, simulation and interactive sessions.
//! * [`Claim`]: what a statement of a session has to lock; [`skip_locked`]: how it passes over rows
//!   locked by others.
//! * [`Runner`]: runs transactions in a given serial order; [`ordered_locks`] does so in parallel.
//! * [`simulation`]: runs all transactions on one snapshot and records their reads and writes;
//!   [`phantoms`]: finds the writes into a range that another transaction read.
//! * [`RecordNumbers`]: numbers the records that a block touches, as indexes of flat arrays.
//! * [`disjoint`]: installs transactions that write different records, in parallel.
//! * [`endorsement`]: simulation with versions, and the check whether these are still the newest.
//! * [`PathCounts`]: which execution path each transaction of a block took.
//! * [`Carried`]: what a block passes on to the next; [`History`]: the snapshots it may read.
//! * [`Sealed`]: a block in the form in which the ledger records it.
//! * [`WorkerPool`]: the worker threads.
//! * [`studies`]: protocols outside the product, in programs that register them.
//! * [`test_mode`]: fault injection and schedules, which check that the tests find such faults.
//!
//! Not here: concrete protocols, SQL, ledger bytes.

pub mod accesses;
pub mod arenas;
pub mod below;
pub mod carried;
pub mod claims;
pub mod disjoint;
pub mod endorsement;
pub mod epoch;
pub mod execution_path;
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
pub mod skip_locked;
pub mod studies;
pub mod test_mode;
pub mod work;

pub use below::{Below, Stored};
pub use carried::{Carried, CarriedState};
pub use claims::{Claim, FootprintMark, Place};
pub use epoch::{Call, Epoch, EpochWorker};
pub use execution_path::{ExecutionPath, PathCounts};
pub use footprint::{Footprint, NoRecord, RangeDigest, RangeSeal, Recorder, RowRead, seal_range};
pub use history::{History, Past};
pub use overlay::{Moment, Overlay};
pub use pending::{PendingWrite, RecordId, WriteSet, WriteState};
pub use pool::WorkerPool;
pub use prefetching::{Plans, Prefetching};
pub use protocol::{
    Block, BlockOutcome, BlockReport, Isolation, OptionValues, Options, Outcome, Prepared,
    Protocol, ProtocolInfo, ProtocolOption, SimulationRules, Snapshots, Span, Timing, Watch, own,
};
pub use record_numbers::RecordNumbers;
pub use runner::Runner;
pub use sealed::Sealed;
pub use simulation::{ReadMark, Reads, Simulated};
pub use work::{Expectation, Interactive, Load, RangeRequirement, RowRequirement, Statement, Work};
