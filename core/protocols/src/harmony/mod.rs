//! Harmony (Lai, Liu, Lo, SIGMOD 2023): optimistic, deterministic, and hot records do not abort.
//!
//! *Idea.* Every transaction of a block is simulated on the snapshot before the block, in
//! parallel. Its reads are recorded and its updates kept as *commands*. Write `Ti <-rw- Tj` when
//! Tj read the before-image of something that Ti writes, so that Tj must come first in the serial
//! order. Two numbers sum up a transaction's edges, and one comparison decides:
//!
//! ```text
//!   min_out(j) = min { i | Ti <-rw- Tj, i < j }   or j + 1
//!   max_in(j)  = max { k | Tj <-rw- Tk }          or -1
//!   Rule 1: reject Tj iff min_out(j) < j and min_out(j) <= max_in(j)
//!   Rule 2: apply the commands of the survivors, record by record, in the order (min_out, TID)
//! ```
//!
//! No write-write conflict rejects a transaction: the commands of a hot record are folded one after
//! another in memory and the record is written once (coalescence).
//!
//! *Timeline.*
//!
//! ```text
//!   prepare  simulate T0 T1 T2 …           parallel by transaction, reads the snapshot only
//!   finish   who touches which record      parallel by record           edges
//!            min_out, max_in               parallel by transaction      edges
//!            rules 1 and 3, serial order   passes over two arrays       rules, previous
//!            fold what may fail            parallel by record           commit
//!            install                       parallel by record           commit
//!            run the rejected again        by ordered locks, in TID order, after the survivors
//! ```
//!
//! *Options.* Each part can be switched off, to see what it is worth.
//! - `reordering=off`: commands are applied in block order, so that all must be rejected that read
//!   what an earlier transaction writes (an empty `max_in` saves none).
//! - `coalescence=off`: each survivor's write is installed for itself, one after another.
//! - `inter_block=on`: a block may be prepared on the snapshot before last, while the one before it
//!   is being finished; [`previous`] has Rule 3 and why it suffices. Blocks that are prepared on
//!   their own snapshot are decided as without it.
//! - `fallback=defer`: the paper's retry. The rejected end in 40001 and are deferred to the next
//!   block. At high skew that feeds on itself.
//!
//! *Invariants.* The serial order claimed is: survivors by (min_out, TID), then the rejected by
//! TID. A record is written by one worker only. The result does not depend on the number of
//! workers: shards divide the records, and every sum over a shard is a minimum, a maximum or a
//! sort.
//!
//! *Departures from the paper.*
//! - Two kinds of read. An update, insert or delete reports whether the row was there, which is a
//!   read of its *existence* only; it conflicts with inserts and deletes, not with other commands.
//! - A command may fail on the value it meets (overflow, CHECK). The paper leaves that open. All
//!   folds are computed before anything is installed; when one fails, every transaction with a
//!   command on that record joins the rejected and the folds are computed again. Taking a node out
//!   of an acyclic order leaves it acyclic, and each round removes a transaction, so this ends.
//!   But a command that is removed may be what has kept another from failing, and commands on texts
//!   may take long: from the ninth round on, every transaction with a command that would have to
//!   be folded joins the rejected.
//! - A command that looks at no column of its row is evaluated when it is simulated. If it fails,
//!   it would anywhere, and its transaction alone is rejected.
//! - What is rejected runs again in the same block, after the survivors and in TID order (see
//!   [`ordered_locks`]), so a call never fails for concurrency and nothing starves.
//! - A transaction that ends in a deterministic error is a read-only transaction for Rule 1: its
//!   error is a fact about the snapshot, and it takes its place in the order.
//! - Rule 3 numbers the block before by its serial order, not by TID.
//!
//! *Cost.* YCSB, 1,000,000 rows, ten operations, blocks of 1,000, one core of an EPYC: 6.2
//! microseconds to simulate a transaction and 0.9 for all that comes after it; before accesses had
//! numbers it was 2.6. Of the simulation, waiting for index entries and records is a third
//! (look-ups, prefetching, the first touch of a row), decoding ten columns for each read another;
//! the protocol's own part, numbers and arrays, is a fifteenth. Of the 0.9, installing takes six
//! tenths, nearly all of it the copy of the row's old version. The arrays of a block of 1,000 (40
//! bytes for a record, 12 for an access) stay in the second-level cache. Two workers did 1.84 times
//! the work of one. What is rejected costs a second run and, with several workers, planning its
//! locks; where half of the rejected write one record, as at high skew, one worker runs them all.

mod commit;
mod edges;
mod encoding;
mod footmark;
mod mutant;
mod previous;
mod rules;
mod simulation;

use std::sync::{Arc, Mutex};

use concurrency::{
    Block, BlockOutcome, BlockReport, Carried, ExecutionPath, Isolation, OptionValues, Outcome,
    PathCounts, Prepared, Protocol, ProtocolInfo, ProtocolOption, Runner, Snapshots, WorkerPool,
    ordered_locks, own,
};
use storage::{BlockWrites, Store};
use types::{Error, Height, Position};

use commit::Commit;
use edges::{Extremes, Shard, Touched};
use mutant::Mutant;
use previous::{Previous, Rank};
use rules::Verdict;
use simulation::{Lane, Reads, Simulation};

pub const ENTRY: crate::Entry = crate::Entry {
    info: &INFO,
    make: |options| {
        Arc::new(Harmony {
            reordering: options.is(&INFO, "reordering", "on"),
            coalescence: options.is(&INFO, "coalescence", "on"),
            inter_block: options.is(&INFO, "inter_block", "on"),
            defers: options.is(&INFO, "fallback", "defer"),
            mutant: options.mutant.and_then(Mutant::by_name),
            spare: Mutex::default(),
        })
    },
    mutants: Mutant::NAMES,
};

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "harmony",
    paper: "Lai, Liu, Lo: When Private Blockchain Meets Deterministic Database, SIGMOD 2023",
    isolation: Isolation::Serializable,
    deterministic: true,
    may_retry: false,
    options: &[
        ProtocolOption {
            name: "reordering",
            values: OptionValues::OneOf(&["on", "off"]),
            what: "apply commands in the order of the rw edges, not of the block",
        },
        ProtocolOption {
            name: "coalescence",
            values: OptionValues::OneOf(&["on", "off"]),
            what: "fold the commands of a record and write it once",
        },
        ProtocolOption {
            name: "inter_block",
            values: OptionValues::OneOf(&["off", "on"]),
            what: "simulate a block while the one before is being installed",
        },
        ProtocolOption {
            name: "fallback",
            values: OptionValues::OneOf(&["rerun", "defer"]),
            what: "run rejected transactions again in the block, or put them off to the next",
        },
    ],
};

/// Rounds of folds in which commands may fail.
const ROUNDS_MAX: u32 = 8;

pub struct Harmony {
    reordering: bool,
    coalescence: bool,
    inter_block: bool,
    defers: bool,
    mutant: Option<Mutant>,
    spare: Mutex<Spare>,
}

/// Arrays of finished blocks, empty, for the next one.
#[derive(Default)]
struct Spare {
    lanes: Vec<Lane>,
    shards: Vec<Shard>,
}

impl Protocol for Harmony {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn snapshot_lag(&self) -> Height {
        if self.inter_block { 2 } else { 1 }
    }

    fn prepare(
        &self,
        block: &Arc<Block>,
        store: &Arc<Store>,
        snapshots: Snapshots,
        pool: &WorkerPool,
    ) -> Result<Prepared, String> {
        let lanes = std::mem::take(&mut self.spare().lanes);
        let keyed = self.inter_block;
        Ok(Box::new(simulation::simulate(block, store, snapshots.newest, pool, lanes, keyed)))
    }

    fn finish(
        &self,
        prepared: Prepared,
        block: &Arc<Block>,
        store: &Arc<Store>,
        writes: &mut BlockWrites,
        carried: &Carried,
        pool: &WorkerPool,
    ) -> Result<BlockOutcome, String> {
        let simulation = own(prepared, &INFO)?;
        let shards = std::mem::take(&mut self.spare().shards);
        let touched =
            Arc::new(edges::sum_up(simulation, store.catalog(), pool, shards, self.mutant));
        let extremes = edges::extremes(&touched, pool, self.mutant);
        let before = carried.get::<Previous>();
        let decided = self.look_back(&touched, before, &extremes, block.height)?;
        let mut verdict = Verdict::new(extremes.into_inner(), self.reordering, self.mutant);
        decided.into_iter().for_each(|tid| verdict.reject(tid));
        for (tid, simulated) in (0..).zip(&touched.simulation.transactions) {
            if simulated.fails && self.mutant != Some(Mutant::NoDemotion) {
                verdict.fail(tid);
            }
        }
        let order = self.commit(&mut verdict, &touched, block, writes, pool)?;
        let touched = Arc::into_inner(touched).ok_or("a worker kept a finished block")?;
        let rejected = verdict.rejected();
        let is_deferred = |tid: Position| self.defers && !verdict.fails(tid);
        let reruns: Vec<Position> =
            rejected.iter().copied().filter(|&tid| !is_deferred(tid)).collect();
        let (mut inter_block_reorderings, mut carried) = (Vec::new(), Carried::default());
        let mut paths = PathCounts::default();
        if touched.simulation.snapshot_height + 1 < block.height {
            paths.add(ExecutionPath::Overlapped, block.transactions.len());
        }
        let reran = if self.inter_block {
            inter_block_reorderings = inter_block_reorderings_of(&order, &verdict, before);
            let (reran, previous) = remember(&touched, &verdict, (&order, &reruns), block, writes)?;
            carried = Carried::new(previous);
            paths.add(ExecutionPath::SerialNoted, reruns.len());
            reran
        } else if touched.longest_queue(|tid| verdict.is_rejected(tid)) * 2 > reruns.len() {
            let why = (ExecutionPath::SerialChained, &mut paths);
            ordered_locks::one_by_one(block, &reruns, &touched.catalog, writes, why)?
        } else {
            ordered_locks::run(block, &reruns, store, writes, pool, &mut paths)?
        };
        let deferred = rejected.iter().copied().filter(|&tid| is_deferred(tid)).collect();
        let outcome = self.finish(touched, order, (reruns, reran), deferred)?;
        let report = BlockReport { paths, ..outcome.report };
        Ok(BlockOutcome { inter_block_reorderings, carried, report, ..outcome })
    }

    fn decode_carried(&self, bytes: &[u8]) -> Result<Carried, String> {
        match bytes {
            [] => Ok(Carried::default()),
            _ if !self.inter_block => {
                Err("harmony carries nothing over where its blocks do not overlap".to_owned())
            }
            _ => Previous::decode(bytes).map(Carried::new).map_err(|error| error.to_string()),
        }
    }
}

impl Harmony {
    fn spare(&self) -> std::sync::MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Install the survivors; one with a command that fails is rejected first. Returns their
    /// order.
    fn commit(
        &self,
        verdict: &mut Verdict,
        touched: &Arc<Touched>,
        block: &Arc<Block>,
        writes: &mut BlockWrites,
        pool: &WorkerPool,
    ) -> Result<Vec<Position>, String> {
        for round in 1.. {
            let order = verdict.serial_order();
            let commit = Arc::new(Commit {
                gives_up: round > ROUNDS_MAX,
                block: Arc::clone(block),
                touched: Arc::clone(touched),
                ranks: Commit::ranks(&order, block.transactions.len()),
                coalescence: self.coalescence,
                mutant: self.mutant,
            });
            let folds = commit.fold(pool)?;
            if folds.failed.is_empty() || self.mutant == Some(Mutant::NoDemotion) {
                commit.install(folds, writes, pool)?;
                return Ok(order);
            }
            folds.failed.into_iter().for_each(|tid| verdict.fail(tid));
        }
        Err("the folds of a block came to no end".to_owned())
    }

    /// Rule 3, for a block on the snapshot before last. Returns the transactions that it rejects
    /// outright.
    fn look_back(
        &self,
        touched: &Touched,
        previous: Option<&Previous>,
        extremes: &Extremes,
        height: Height,
    ) -> Result<Vec<Position>, String> {
        let simulation = &touched.simulation;
        match (height - simulation.snapshot_height, previous) {
            (1, _) => Ok(Vec::new()),
            (2, Some(previous)) if previous.height + 1 == height => match self.mutant {
                Some(Mutant::NoRule3) => Ok(Vec::new()),
                mutant => Ok(previous.add_edges(simulation, &touched.catalog, extremes, mutant)),
            },
            (2, _) => Err(format!(
                "block {height} was simulated two behind, and what block {} carries over is not \
                 there",
                height - 1
            )),
            (lag, _) => Err(format!("block {height} was simulated {lag} blocks behind")),
        }
    }

    /// Collect all outcomes.
    fn finish(
        &self,
        touched: Touched,
        mut order: Vec<Position>,
        (reruns, reran): (Vec<Position>, Vec<Outcome>),
        deferred: Vec<Position>,
    ) -> Result<BlockOutcome, String> {
        let Touched { simulation: Simulation { transactions, mut lanes, .. }, mut shards, .. } =
            touched;
        let mut again = reruns.iter().zip(reran).peekable();
        let mut off = deferred.iter().peekable();
        let outcomes = transactions.into_iter().zip(0..).map(|(simulated, tid)| {
            if off.next_if_eq(&&tid).is_some() {
                return Ok(Outcome::Retry(deferral()));
            }
            match again.next_if(|(rerun, _)| **rerun == tid) {
                Some((_, outcome)) => Ok(outcome),
                None => Outcome::from_run(simulated.run),
            }
        });
        let outcomes = outcomes.collect::<Result<Vec<_>, _>>()?;
        debug_assert!(reruns.is_sorted() && deferred.is_sorted(), "what is rejected, by TID");
        order.extend(&reruns);
        order.extend(&deferred);
        debug_assert_eq!(order.len(), outcomes.len(), "each survives, runs again or is deferred");
        let rerun = reruns.len() as u32;
        lanes.iter_mut().for_each(Lane::clear);
        shards.iter_mut().for_each(Shard::clear);
        *self.spare() = Spare { lanes, shards };
        let report = BlockReport { rerun, ..BlockReport::default() };
        Ok(BlockOutcome {
            outcomes,
            serial_order: order,
            deferred,
            report,
            ..BlockOutcome::default()
        })
    }
}

/// Which survivors come before one of the block before, in block order.
fn inter_block_reorderings_of(
    order: &[Position],
    verdict: &Verdict,
    before: Option<&Previous>,
) -> Vec<(Position, Position)> {
    let late = order.iter().filter(|&&tid| verdict.min_out(tid) < 0);
    let before = before
        .into_iter()
        .flat_map(|before| late.clone().map(|&tid| (tid, before.at(verdict.min_out(tid)))));
    before.collect()
}

/// Reruns the transactions that need it, and notes what the next block must know of this one: what
/// those read counts as well.
fn remember(
    touched: &Touched,
    verdict: &Verdict,
    (order, reruns): (&[Position], &[Position]),
    block: &Block,
    writes: &mut BlockWrites,
) -> Result<(Vec<Outcome>, Previous), String> {
    let survivors = order.iter().map(|&tid| (tid, verdict.min_out(tid) < 0));
    let placed = survivors.chain(reruns.iter().map(|&tid| (tid, false)));
    let mut previous = Previous::new(block.height, placed.collect());
    previous.reserve(&touched.simulation);
    for (rank, &tid) in (0..).zip(order) {
        previous.survivor(rank, tid, &touched.simulation, &touched.catalog);
    }
    let mut reran = Vec::with_capacity(reruns.len());
    let mut runner = Runner::recording(Arc::clone(&touched.catalog), Reads::keyed());
    for (rank, &tid) in (order.len() as Rank..).zip(reruns) {
        reran.push(runner.run_and_show(block, tid, writes.arena(0), |reads, written| {
            previous.rerun(rank, reads, written, &touched.catalog);
        })?);
    }
    Ok((reran, previous))
}

fn deferral() -> Error {
    Error::serialization("The transaction is deferred to a later block.")
}
