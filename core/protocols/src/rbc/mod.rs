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
//! the written records. A commit looks at the readers of its rows, each at those of its own rows;
//! both are rows of [bits](edges). As fewer and fewer are open, a look at the second row goes on
//! where the last one ended: all of them together look once at each word.

mod edges;
mod mutant;

use std::sync::Arc;

use concurrency::{
    Block, BlockOutcome, Carried, Isolation, Outcome, Prepared, Protocol, ProtocolInfo, Simulated,
    Snapshots, WorkerPool, disjoint, own, simulation,
};
use storage::{BlockWrites, Store};
use types::{Error, Position};

use edges::{Bits, Edges};
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
    /// Those whose fate is open.
    open: Bits,
    /// How many words of each transaction's readers have no open one any more.
    passed: Vec<usize>,
    min_out: Vec<Position>,
    mutant: Option<Mutant>,
}

impl Validation {
    fn new(edges: Edges, count: usize, mutant: Option<Mutant>) -> Validation {
        let min_out = (1..=count as Position).collect();
        let mut open = Bits::none(count);
        (0..count as Position).for_each(|tid| open.insert(tid));
        let (fates, passed) = (vec![Fate::Open; count], vec![0; count]);
        Validation { edges, fates, open, passed, min_out, mutant }
    }

    fn decide(&mut self, tid: Position, fate: Fate) {
        if self.open.contains(tid) {
            self.open.remove(tid);
            self.fates[tid as usize] = fate;
        }
    }

    fn run(&mut self) {
        let mut near = Vec::new();
        for tid in 0..self.fates.len() as Position {
            if !self.open.contains(tid) {
                continue;
            }
            self.decide(tid, Fate::Committed);
            if self.mutant != Some(Mutant::NoFirstCommitterWins) {
                near.clear();
                near.extend(self.edges.rivals(tid));
                near.iter().for_each(|rival| self.decide(*rival, Fate::Second));
            }
            near.clear();
            near.extend(self.edges.readers(tid).both(&self.open, tid));
            for &reader in &near {
                if self.is_pivot(reader, tid) {
                    self.decide(reader, Fate::Pivot);
                }
                let min_out = &mut self.min_out[reader as usize];
                *min_out = tid.min(*min_out);
            }
        }
    }

    /// Whether a transaction that read what `first` writes, which commits now, is read below by one
    /// that has not committed before `first`.
    fn is_pivot(&mut self, tid: Position, first: Position) -> bool {
        let is_read_by_first = self.edges.readers(tid).contains(first);
        match self.mutant {
            Some(Mutant::ThreeTransactionsOnly) => self.is_read_by_open(tid),
            Some(Mutant::CommittedReadersOnly) => is_read_by_first,
            _ => is_read_by_first || self.is_read_by_open(tid),
        }
    }

    fn is_read_by_open(&mut self, tid: Position) -> bool {
        let passed = &mut self.passed[tid as usize];
        let next = self.edges.readers(tid).common_word(&self.open, *passed);
        *passed = next.unwrap_or(usize::MAX);
        next.is_some()
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

#[cfg(test)]
mod tests {
    use super::edges::tests::{edges_of, words_looked_at};
    use super::*;

    /// The first reads what the last third writes, which reads what the second writes.
    #[test]
    fn words_without_open_readers_are_passed_once() {
        const EACH: Position = 640;
        let count = 2 * EACH as usize + 1;
        let (mut of_second, mut of_last) = (Bits::none(count), Bits::none(count));
        (EACH + 1..=2 * EACH).for_each(|tid| of_second.insert(tid));
        of_last.insert(0);
        let of = |tid| match tid {
            0 => Bits::default(),
            1..=EACH => of_second.clone(),
            _ => of_last.clone(),
        };
        let mut validation = Validation::new(edges_of((0..count as Position).map(of)), count, None);
        words_looked_at();
        validation.run();
        assert_eq!(words_looked_at(), EACH as usize * count.div_ceil(64));
        assert!(validation.fates.iter().all(|fate| *fate == Fate::Committed));
        let order = validation.serial_order();
        assert_eq!((order[0], order[1], order[EACH as usize + 1]), (0, EACH + 1, 1));
    }
}
