//! Recovery: rebuilds the database state from a log, using all cores and the full disk bandwidth.
//!
//! *Idea.* The ledger's blocks are a *command log*: they record calls and their arguments, not the
//! rows that changed. Such a log is cheap to write, but replaying it one transaction after another
//! takes about as long as the original execution. PACMAN (Wu, 2017) replays it in parallel, from a
//! static analysis of the procedures and the logged arguments alone:
//!
//! * [`log`]: the input: blocks, their commit order, and row images in place of transactions that
//!   cannot be executed again;
//! * [`analysis`]: cuts procedures into slices and builds one dependency graph over all of them;
//! * [`replay`]: the strategies, from serial to pipelined;
//! * [`schemes`]: logical and physical row logging, and recovery from them, for comparison;
//! * [`measure`]: what each costs to write and to recover from;
//! * [`mutant`]: seeded bugs that the tests must find.
//!
//! *Relation to the concurrency protocols.* A deterministic protocol can replay its own blocks and
//! need not know the commit order. Replay here needs that order and needs every logged transaction
//! to commit: one that fails stops the replay. It trusts the log and does not compare outcomes. A
//! caller that can check the result (the engine, against the hashes in the ledger) asks for
//! [the rows that each block changed](replay::Task::changes).
//!
//! *Must not know:* SQL text, sockets, any particular protocol.

pub mod analysis;
pub mod log;
pub mod measure;
pub mod mutant;
pub mod replay;
pub mod schemes;
