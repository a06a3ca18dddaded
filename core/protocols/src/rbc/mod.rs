//! RBC: serializable snapshot isolation with commits in block order, as in Nathan, Govindarajan,
//! Saraf, Sethi, Jayachandran: Blockchain Meets Database, PVLDB 12(11), 2019.
//!
//! The baseline of Lai, Liu, Lo (SIGMOD 2023), built from what they and PostgreSQL say of it.
//!
//! *Idea.* Every transaction of a block runs on the snapshot before the block, so all of a block
//! are concurrent. They commit one after another in block order. Snapshot isolation alone would
//! turn away a transaction that writes a row which a concurrent one has written: *the first
//! committer wins*. It is made serializable by one more rule. In any cycle of a serialization graph
//! there are two consecutive edges `T1 -rw-> T2 -rw-> T3` (T1 read the before-image of something
//! that T2 writes, T2 of something that T3 writes) of which T3 commits first; so when a T3 commits,
//! the *pivot* T2 is turned away if it and a T1 are still to commit:
//!
//! ```text
//!   T3 commits:   every other writer of its rows loses
//!                 every T2 still open that read what T3 writes loses,
//!                     if a T1 still open, or T3 itself, read what T2 writes
//! ```
//!
//! *Timeline.*
//!
//! ```text
//!   prepare  simulate T0 T1 T2 …            parallel by transaction, reads the snapshot only
//!   finish   lists of readers and writers   one worker
//!            commits in block order         one worker: that is what the protocol is
//!            install                        parallel by transaction: no two write one record
//! ```
//!
//! *Serial order.* Let min_out(j) be the smallest i < j with `Tj -rw-> Ti`, or j + 1. Who commits
//! is ordered by (min_out, TID), as under Harmony's Rule 2. Let `Ta -rw-> Tb`, both committed.
//!
//! ```text
//!   a > b:  min_out(a) <= b. Had b an edge to some c < b, then a, b were both open when c
//!           committed, and b had lost. So min_out(b) = b + 1 > min_out(a).
//!   a < b:  min_out(a) <= a + 1. Without such a c, min_out(b) = b + 1 > a + 1. With one, a was not
//!           open when c committed, nor c itself: a < c, so min_out(a) <= c, and TIDs decide a tie.
//! ```
//!
//! *Invariants.* A transaction that has lost makes no other lose. The first of a block commits.
//!
//! *Departures from the paper.*
//! - Ours is decided before anything is installed, so that installing is parallel; the paper's
//!   commits install one by one.
//! - "Still open" counts: an edge from a transaction that has committed before T3 is harmless. The
//!   papers leave open whether their implementation knows; PostgreSQL's does.
//! - An update command reads its row for the rule of writers only: another writer of that row loses
//!   or wins by that rule already. Two kinds of read, ranges and failing commands: as under Aria.
//! - Losers end in 40001 and are the client's to repeat, as in the paper.
//!
//! *Cost.* Per written record a hash-table entry and two short lists; per read one look-up among
//! the written records. A commit looks at the readers of its rows, each at those of its own rows.

mod edges;
mod mutant;

use std::sync::Arc;

use concurrency::{
    Block, BlockOutcome, Carried, Isolation, Outcome, Prepared, Protocol, ProtocolInfo, Simulated,
    Snapshots, WorkerPool, disjoint, own, simulation,
};
use storage::{BlockWrites, Store};
use types::{Error, Position};

use edges::Edges;
use mutant::Mutant;

pub const ENTRY: crate::Entry = crate::Entry {
    info: &INFO,
    make: |options| Arc::new(Rbc { mutant: options.mutant.and_then(Mutant::by_name) }),
    mutants: Mutant::NAMES,
};

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "rbc",
    paper: "Nathan et al.: Blockchain Meets Database, PVLDB 12(11), 2019",
    isolation: Isolation::Serializable,
    deterministic: true,
    may_retry: true,
    options: &[],
};

pub struct Rbc {
    mutant: Option<Mutant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Open,
    Committed,
    /// A row that it writes was written by an earlier one.
    Second,
    /// It is the middle of a dangerous structure.
    Pivot,
}

/// Commits in block order.
struct Validation {
    edges: Edges,
    fates: Vec<Fate>,
    min_out: Vec<Position>,
    mutant: Option<Mutant>,
}

impl Validation {
    fn new(edges: Edges, count: usize, mutant: Option<Mutant>) -> Validation {
        let min_out = (1..=count as Position).collect();
        Validation { edges, fates: vec![Fate::Open; count], min_out, mutant }
    }

    fn is_open(&self, tid: Position) -> bool {
        self.fates[tid as usize] == Fate::Open
    }

    fn run(&mut self) {
        let mut near = Vec::new();
        for tid in 0..self.fates.len() as Position {
            if !self.is_open(tid) {
                continue;
            }
            self.fates[tid as usize] = Fate::Committed;
            if self.mutant != Some(Mutant::NoFirstCommitterWins) {
                for rival in self.edges.rivals(tid) {
                    let fate = &mut self.fates[rival as usize];
                    if *fate == Fate::Open {
                        *fate = Fate::Second;
                    }
                }
            }
            near.clear();
            near.extend(self.edges.readers(tid, tid).filter(|&reader| self.is_open(reader)));
            near.sort_unstable();
            near.dedup();
            for &reader in &near {
                if self.is_pivot(reader, tid) {
                    self.fates[reader as usize] = Fate::Pivot;
                }
                let min_out = &mut self.min_out[reader as usize];
                *min_out = tid.min(*min_out);
            }
        }
    }

    /// Whether a transaction that read what `first` writes, which commits now, is read below by one
    /// that has not committed before `first`.
    fn is_pivot(&self, tid: Position, first: Position) -> bool {
        self.edges.readers(tid, first).any(|reader| match self.mutant {
            Some(Mutant::ThreeTransactionsOnly) => self.is_open(reader),
            Some(Mutant::CommittedReadersOnly) => reader == first,
            _ => reader == first || self.is_open(reader),
        })
    }

    /// Who commits, in serial order.
    fn serial_order(&self) -> Vec<Position> {
        let committed = |tid: &Position| self.fates[*tid as usize] == Fate::Committed;
        let all = 0..self.fates.len() as Position;
        let mut order: Vec<Position> = all.filter(committed).collect();
        if self.mutant != Some(Mutant::BlockOrder) {
            order.sort_by_key(|&tid| (self.min_out[tid as usize], tid));
        }
        order
    }
}

impl Protocol for Rbc {
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
            return Err("rbc reads the state right before its block".to_owned());
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
        let simulated: Vec<Simulated> = own(prepared, &INFO)?;
        let edges = Edges::of(&simulated, &store.catalog(), self.mutant);
        let mut validation = Validation::new(edges, simulated.len(), self.mutant);
        validation.run();
        let mut order = validation.serial_order();
        let installed = disjoint::install(block, simulated, &order, store, writes, pool)?;
        let mut outcomes = Vec::with_capacity(installed.len());
        for (tid, (outcome, fate)) in (0..).zip(installed.into_iter().zip(validation.fates)) {
            outcomes.push(outcome.unwrap_or_else(|| {
                order.push(tid);
                turned_away(fate)
            }));
        }
        Ok(BlockOutcome { outcomes, serial_order: order, ..BlockOutcome::default() })
    }
}

fn turned_away(fate: Fate) -> Outcome {
    Outcome::Retry(Error::serialization(match fate {
        Fate::Pivot => "The transaction is the pivot of a dangerous structure in its block.",
        _ => "A row that the transaction writes was written by an earlier one of its block.",
    }))
}
