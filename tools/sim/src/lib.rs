//! Whole nodes in one thread, from one seed.
//!
//! ```text
//!   clients ◄──► network ◄──► node: orderer ─► pipeline ─► replica     (Solo, or the model's log)
//!     │           loses,         │      append · prepare · finish,     under nodes that share it)
//!     │           doubles,       │      drawn one by one
//!     │           reorders       └──► disk in memory: faults, kills, power cuts
//!     └─ read their past                     │
//!                                            └──► recovery ─► node
//!                every block released ──► witness: specification, at most once, one ledger
//! ```
//!
//! The parts are the product's own values: [`order`], [`pipeline::Pipeline`], [`engine::Replica`],
//! [`engine::Journal`], [`engine::recover`], checkpoints. No thread, no clock, no sockets: a [seed]
//! (kit::random) draws what comes next, so a failure comes back by its seed and can be made
//! [smaller](shrink()).
//!
//! *Invariants.*
//!
//! | Name | What must hold |
//! |---|---|
//! | `acknowledged` | an answer is what the ledger says, and stays in it after every crash |
//! | `one ledger` | no node has other blocks than another, or than it had before |
//! | `serial replay` | answers and rows are those of plain maps, in the claimed serial order |
//! | `replay` | another replica computes the same headers from the orders alone |
//! | `at most once` | nothing runs twice; after a retry, a key may be used again |
//! | `outcome of a key` | what a node says of a key is what the ledger says |
//! | `carried over` | what was deferred is decided once |
//! | `own past` | the released height never runs back; readers see no state that is overtaken |
//! | `recovery` | every disk that a crash leaves becomes a node again |
//! | `progress` | without faults, all that was asked is answered, and nothing waits |
//!
//! Where blocks overlap, the serial order is one sequence across blocks, and the witness replays it
//! as such.
//!
//! *Cost.* A step is some microseconds to a millisecond, most of it hashing: about ten thousand a
//! second with optimisation, a tenth of that without.

mod client;
pub mod language;
#[cfg(test)]
mod live;
mod model;
mod node;
pub mod operation;
mod options;
mod reader;
mod shrink;
mod witness;
mod world;

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use options::{Options, PROTOCOLS};
pub use shrink::shrink;

/// A rule that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wrong {
    pub invariant: &'static str,
    pub what: String,
}

pub(crate) fn wrong(invariant: &'static str, what: impl fmt::Display) -> Wrong {
    Wrong { invariant, what: what.to_string() }
}

/// A broken rule, with all it takes to see it again.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    pub options: Options,
    /// The step in which it was seen.
    pub step: u64,
    pub invariant: &'static str,
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, options, step, invariant, what } = self;
        write!(f, "seed {seed}, step {step}: {invariant}: {what}\n{options}")
    }
}

impl std::error::Error for Failure {}

/// What a world came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    pub steps: u64,
    pub blocks: u64,
    pub transactions: u64,
    /// Put off to a later block, each time.
    pub deferred: u64,
    pub answers: u64,
    pub reads: u64,
    /// Lookups of keys that were compared.
    pub lookups: u64,
    pub checkpoints: u64,
    pub kills: u64,
    pub power_cuts: u64,
    /// Nodes that their disk stopped.
    pub halts: u64,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Stats) {
        self.steps += other.steps;
        self.blocks += other.blocks;
        self.transactions += other.transactions;
        self.deferred += other.deferred;
        self.answers += other.answers;
        self.reads += other.reads;
        self.lookups += other.lookups;
        self.checkpoints += other.checkpoints;
        self.kills += other.kills;
        self.power_cuts += other.power_cuts;
        self.halts += other.halts;
    }
}

/// Runs one world to its end.
pub fn run(seed: u64, options: &Options) -> Result<Stats, Failure> {
    multiversion::register();
    let step = Cell::new(0);
    let _mutant = kit::mutant::enter(options.mutant);
    let run = || world::run(seed, options, &step);
    let ended = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(wrong("panic", text.unwrap_or("?")))
    });
    ended.map_err(|Wrong { invariant, what }| Failure {
        seed,
        options: options.clone(),
        step: step.get(),
        invariant,
        what,
    })
}
