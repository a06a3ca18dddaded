//! Aria (Lu, Yu, Cao, Madden, PVLDB 13(12), 2020): deterministic without knowing keys in advance.
//!
//! *Idea.* Every transaction of a block runs on the snapshot before the block and keeps its writes
//! to itself. Each reserves the records it read and those it writes; the smallest TID holds the
//! reservation. A transaction looks at the reservations of its records and decides alone:
//!
//! ```text
//!   for i < j:       WAW(j) both write x    RAW(j) j read x, i writes it    WAR(j) the reverse
//!
//!   reordering=off   commit Tj unless WAW(j) or RAW(j)
//!   reordering=on    commit Tj unless WAW(j) or (RAW(j) and WAR(j))
//! ```
//!
//! *Timeline.*
//!
//! ```text
//!   prepare  simulate T0 T1 T2 …            parallel by transaction, reads the snapshot only
//!   finish   reserve, then compare          parallel by transaction, a barrier between
//!            decide, serial order           a pass over one byte for each transaction
//!            install                        parallel by transaction: no two write one record
//!            fallback=off: deferred         the conflicting stand first in the next block
//!            fallback=on:  run again        by ordered locks, in TID order, after the others
//! ```
//!
//! *Serial order.* Who commits read the snapshot and no two write one record, so all that orders
//! them is: a reader of x comes before the writer of x. Take them by TID. A transaction without RAW
//! has no such debt to a smaller TID and is appended; one with RAW has no WAR, so no smaller TID
//! must precede it, and it goes to the front:
//!
//! ```text
//!   those with RAW by descending TID, then those without by ascending TID
//! ```
//!
//! *Invariants.* The first transaction of a block has no smaller TID, so it commits; what was
//! deferred comes first in the next block, so nothing starves. With reordering, who writes nothing
//! commits. The outcome does not depend on the number of workers: reservations are minima.
//!
//! *Departures from the paper.*
//! - Aria knows values only. An update command is a write, evaluated on the snapshot's row when its
//!   transaction commits, be it blind (`a = 1`) or not (`a = a + 1`). That the latter also reads
//!   the row needs no reservation: any other writer of the row is in WAW conflict with it already.
//!   So a hot counter lets one transaction a block through; that is what Harmony improves on.
//! - Two kinds of read, see [`reservations`]: an update, insert or delete reports whether the row
//!   was there, which conflicts with inserts and deletes only.
//! - Ranges that were read are reserved as such and compared with the rows that others write,
//!   before and after (see [`phantoms`](concurrency::phantoms)).
//! - A transaction that ends in a deterministic error has no writes and reserves none; its error
//!   is a fact about the snapshot, and it takes its place in the order. So does a commit whose
//!   command fails on the row it meets, but it keeps the reservations it made.
//! - The fallback plans its locks anew from arguments (see [`ordered_locks`]) instead of reusing
//!   the keys of the simulation: a rerun may touch others.
//!
//! *Cost.* Per access a number, found in the record's header, and an atomic minimum of one of four
//! words; then a comparison with one to three of them.

mod mutant;
mod reservations;

use std::sync::Arc;

use concurrency::{
    Block, BlockOutcome, BlockReport, Carried, Isolation, OptionValues, Options, Outcome,
    PathCounts, Prepared, Protocol, ProtocolInfo, ProtocolOption, Simulated, Snapshots, WorkerPool,
    disjoint, ordered_locks, own, simulation,
};
use storage::{BlockWrites, Store};
use types::{Error, Position};

use mutant::Mutant;
use reservations::{Conflicts, conflicts};

pub const ENTRY: crate::Entry = crate::Entry {
    info: &INFO,
    make: |options| Arc::new(Aria::new(options)),
    mutants: Mutant::NAMES,
};

/// `may_retry` is said of blocks: a transaction that is deferred ends its block in a retry, and
/// comes again in the next block.
pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "aria",
    paper: "Lu, Yu, Cao, Madden: Aria, PVLDB 13(12), 2020",
    isolation: Isolation::Serializable,
    deterministic: true,
    may_retry: true,
    options: &[
        ProtocolOption {
            name: "reordering",
            values: OptionValues::OneOf(&["on", "off"]),
            what: "let readers of a written record commit before its writer",
        },
        ProtocolOption {
            name: "fallback",
            values: OptionValues::OneOf(&["off", "on"]),
            what: "run conflicting transactions again in the same block instead of the next",
        },
    ],
};

pub struct Aria {
    reordering: bool,
    fallback: bool,
    mutant: Option<Mutant>,
}

impl Aria {
    fn new(options: &Options) -> Aria {
        Aria {
            reordering: options.is(&INFO, "reordering", "on"),
            fallback: options.is(&INFO, "fallback", "on"),
            mutant: options.mutant.and_then(Mutant::by_name),
        }
    }

    fn commits(&self, found: Conflicts) -> bool {
        let waw = found.has(Conflicts::WAW) && self.mutant != Some(Mutant::NoWaw);
        let raw = found.has(Conflicts::RAW) && self.mutant != Some(Mutant::NoRaw);
        let war = found.has(Conflicts::WAR) && self.mutant != Some(Mutant::NoWar);
        !waw && !(raw && (war || !self.reordering))
    }

    /// Who commits, in serial order, and who does not, by TID.
    fn decide(&self, conflicts: &[Conflicts]) -> (Vec<Position>, Vec<Position>) {
        let mut conflicting = Vec::new();
        let (mut early, mut late) = (Vec::new(), Vec::new());
        for (tid, &found) in (0..).zip(conflicts) {
            if !self.commits(found) {
                conflicting.push(tid);
            } else if found.has(Conflicts::RAW) && self.mutant != Some(Mutant::BlockOrder) {
                early.push(tid);
            } else {
                late.push(tid);
            }
        }
        early.reverse();
        early.append(&mut late);
        debug_assert_eq!(early.len() + conflicting.len(), conflicts.len(), "each once");
        debug_assert!(conflicting.is_sorted(), "by TID");
        (early, conflicting)
    }
}

impl Protocol for Aria {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn prepare(
        &self,
        block: &Arc<Block>,
        store: &Arc<Store>,
        snapshots: Snapshots,
        pool: &WorkerPool,
    ) -> Result<Prepared, String> {
        if snapshots.newest + 1 != block.height {
            return Err("aria reads the state right before its block".to_owned());
        }
        Ok(Box::new(simulation::simulate(block, store, snapshots.newest, pool)))
    }

    fn finish(
        &self,
        prepared: Prepared,
        block: &Arc<Block>,
        store: &Arc<Store>,
        writes: &mut BlockWrites,
        _: &Carried,
        pool: &WorkerPool,
    ) -> Result<BlockOutcome, String> {
        let simulated = Arc::new(own::<Vec<Simulated>>(prepared, &INFO)?);
        let conflicts = conflicts(block.height, &simulated, &store.catalog(), pool, self.mutant);
        let (mut order, conflicting) = self.decide(&conflicts);
        let simulated = Arc::into_inner(simulated).ok_or("a worker kept a finished block")?;
        let mut outcomes = disjoint::install(block, simulated, &order, store, writes, pool)?;
        let mut paths = PathCounts::default();
        let again = match self.fallback {
            true => ordered_locks::run(block, &conflicting, store, writes, pool, &mut paths)?,
            false => vec![deferral(); conflicting.len()],
        };
        for (&position, outcome) in conflicting.iter().zip(again) {
            outcomes[position as usize] = Some(outcome);
        }
        order.extend(&conflicting);
        let rerun = if self.fallback { conflicting.len() as u32 } else { 0 };
        Ok(BlockOutcome {
            outcomes: outcomes.into_iter().flatten().collect(),
            serial_order: order,
            deferred: if self.fallback { Vec::new() } else { conflicting },
            report: BlockReport { rerun, paths, ..BlockReport::default() },
            ..BlockOutcome::default()
        })
    }
}

fn deferral() -> Outcome {
    Outcome::Retry(Error::serialization(
        "The transaction conflicts with an earlier one of its block and was deferred.",
    ))
}
