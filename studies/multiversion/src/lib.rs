//! The multi-version study: six protocols over four version storages, five collectors and three
//! kinds of index pointers, in tables of its own.
//!
//! After chapter 5 of Yingjun Wu's *Transaction Management in Multi-core Main-Memory Database
//! Systems* (NUS, 2017; Wu et al., VLDB 2017). It is a study: for users there is one default, and
//! everything else here is to be compared with it.
//!
//! ```text
//! session      run, retry                              one worker
//!  transaction `Access`, workspace, publish, gate      generic over a rule
//!   rules      mvto mvocc mv2pl si ssi ssn             what a read, a lock, a commit mean
//!    table     heads, indexes, gaps                    a match on the storage, once per access
//!     chains   newest first, oldest first, time travel, delta
//!      layout  rows as words, long strings shared      pool: memory in spaces
//! block        a rule as a protocol of the product
//! clock        timestamps, epochs and their gate, the horizon
//! collect      by transaction, cooperative, intervals; `Database::vacuum` in the background
//! ```
//!
//! Better than the thesis where it stops: ranges are protected against phantoms ([`gaps`]); memory
//! is freed while a reader of hours runs ([`spec::Collector::Interval`]); MVTO draws timestamps
//! without a central counter; epochs are blocks, and every rule but plain SI names the serial order
//! it took ([`rules::CommitSequenceNumber`]); no worker waits for readers to leave before memory is
//! used again ([`pool`]).
//!
//! Left out: speculative reads and eager updates (section 5.3.5), which the thesis does not plot.
//!
//! Absence: no SQL, no ledger, no disk; the product's own storage is in `storage`.

mod appending;
pub mod block;
pub mod chains;
pub mod clock;
pub mod collect;
pub mod database;
pub mod gaps;
pub mod layout;
pub mod mutant;
pub mod pool;
pub mod prefetching;
mod renumber;
pub mod rules;
mod scan;
#[cfg(all(test, shuttle))]
mod schedules;
pub mod session;
pub mod spec;
pub mod table;
pub mod transaction;
pub mod workspace;
mod write_back;

pub use block::register;
pub use clock::Timestamp;
pub use database::Database;
pub use rules::{CommitSequenceNumber, Rule};
pub use session::{Attempt, Ended, Session};
pub use spec::TableSpec;
