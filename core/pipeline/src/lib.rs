//! Blocks on their way from an order to a result: what may happen when, and the one loop around a
//! protocol.
//!
//! ```text
//!              ordered ──► append ──────────────► durable ─┐
//!   block H       └──────► prepare ──► finish ─────────────┴─► publish ─► answer ─► record
//!                             │          └ after H - 1 is published
//!                             └ reads snapshot H - lag, or what the block has seen
//!   block H+1                      ordered ─► append … prepare (beside finish of H) …
//! ```
//!
//! * [`Pipeline`] is the schedule: a value that is told what has happened and says what to do next.
//!   It knows heights and nothing else: no threads, clocks, files, transactions.
//! * [`Line`] does the two steps that take processors: it hands blocks to a protocol, keeps what
//!   the protocol carries from block to block, and joins deferred transactions to later blocks.
//! * [`Stepper`] drives both on one thread (or two), for benchmarks, tests and simulation; the live
//!   engine drives them with threads of its own.
//! * [`SafeSnapshot`] says which state readers between blocks may see.
//!
//! Absence: no ledger bytes, no requests, no answers: a [`Task`] is anything that has a program.

mod line;
mod safe;
mod schedule;
mod stepper;

pub use line::{
    Decided, Decision, Deferred, Finished, Finishing, Line, LineStart, Planned, Ran, Ready, Task,
};
pub use safe::SafeSnapshot;
pub use schedule::{Action, Actions, Barrier, Cadence, Event, Pipeline, Rules, SAFE_BLOCKS};
pub use stepper::{Batch, Halves, Stepper};
