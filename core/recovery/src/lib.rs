//! Recovery: a log becomes a state again, as fast as the cores and the disk allow.
//!
//! The blocks of the ledger are a *command log*: what was asked, with its arguments. They cost
//! little to write and, replayed one after the other, as long to read as they took to run. PACMAN
//! (Wu, 2017) replays them in parallel, with no more than static analysis of the procedures and the
//! arguments that the log holds:
//!
//! * [`log`]: blocks, the order in which their transactions committed, and rows in the place of
//!   those that cannot be run again;
//! * [`analysis`]: procedures cut into slices, the global dependency graph over all of them;
//! * [`replay`]: the strategies, from one transaction after another to pipelined piece-sets;
//! * [`schemes`]: row logs, logical and physical, and the ways back from them;
//! * [`measure`]: what all of them cost;
//! * [`mutant`]: bugs on purpose, for tests of the tests.
//!
//! *How it stands to the protocols.* A deterministic protocol can replay its own blocks, and need
//! not be told the order. Replay by pieces needs the order, and that no transaction in it fails; it
//! rests on what the log says, and checks no outcome. What each block changed is
//! [handed](replay::Task::changes) to callers that have something to hold it against, as the engine
//! has.
//!
//! Absence: no SQL, no socket, no particular protocol.

pub mod analysis;
pub mod log;
pub mod measure;
pub mod mutant;
pub mod replay;
pub mod schemes;
