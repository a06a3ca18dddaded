//! BOHM (Faleiro, Abadi, VLDB 2015): versions are in their places before they are written.
//!
//! *Idea.* Since the order and the write sets are known, concurrency control can be done before
//! execution: for every write, in the order of the block, a *placeholder* is put into its record's
//! list of versions. Then the version that a transaction reads follows from its position alone: the
//! last before it. No timestamp counter, no validation, and readers never hold up writers.
//!
//! ```text
//!   T1 w(x)   T2 r(x) w(y)   T3 w(x)   T4 r(x) r(y)
//!
//!   x   stored ◄─ T1 ◄─ T3          T2 reads T1's x, T4 reads T3's
//!   y   stored ◄─ T2                T3 need not wait for T2, which reads an older x
//! ```
//!
//! *Timeline.*
//!
//! ```text
//!   prepare  key plans, reconnaissance         parallel by transaction, reads the snapshot only
//!   finish   placeholders, edges               parallel by record
//!            run, each after the writers of    parallel by transaction
//!            what it reads
//!            store the last versions           parallel by record
//! ```
//!
//! *Invariants.* The claimed serial order is the block order. A placeholder is filled once, by its
//! writer; when a transaction begins, all versions before it on the records that it may touch are
//! filled. A transaction that ends in an error, or does not come to a planned write, leaves its
//! placeholder without effect, and readers pass on to the version before. Nothing is stored before
//! the segment has ended, so the store is the version before all.
//!
//! *Versions* are patches of the stored row as long as no transaction inserts it or puts it whole:
//! an update of one column of ten copies one. Rows under hidden ids are one version for each
//! transaction. *Scans* merge stored rows with the versions that the scanner sees in the range.
//!
//! *Departures from the paper.*
//! - A worker that comes to an empty placeholder evaluates its writer first, on its own stack. Here
//!   it does not come to one: who waits for whom is counted beforehand ([`concurrency::schedule`]),
//!   so depth is bounded and no worker waits within a transaction.
//! - Every write here also tells whether the row was there, so writers of a record follow each
//!   other; blind writes of the paper do not.
//! - Versions live for the block, in lists of this protocol's own; the last of each record is
//!   stored at the end, and older blocks are read through the store's undo versions.
//! - Write sets need not be known: *suspects* (see [`concurrency::ordered_locks`]) end a segment
//!   and run alone between two.
//!
//! *Cost.* Each declared write takes a placeholder of some 100 bytes and is touched three times:
//! laid, filled, stored; the third meets a record that has long left the cache, so records are
//! fetched ahead again. A transaction none of whose records has a version looks nothing up, which
//! is most of them without skew: together with edges taken from the placeholders, that made 142
//! thousand YCSB transactions per CPU-second (1,000,000 rows, theta 0, two workers) of 101. A hot
//! record's readers run at once, its writers one after another; where those chains are long (theta
//! 0.99) one worker runs the block as the serial protocol does.

mod execute;
mod install;
mod mutant;
mod sight;
mod versions;

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use concurrency::accesses::Declared;
use concurrency::arenas::Arenas;
use concurrency::ordered_locks::queues::{Queues, Requests};
use concurrency::ordered_locks::{self, Settings, one_by_one};
use concurrency::schedule::{Graph, Preference, Ran, Schedule};
use concurrency::{
    Block, BlockOutcome, BlockReport, Carried, ExecutionPath, Isolation, Options, Outcome,
    PathCounts, Prefetching, Prepared, Protocol, ProtocolInfo, Snapshots, WorkerPool, own,
};
use storage::{BlockWrites, Catalog, Store};
use types::{Height, Position, Stop};

use execute::Executor;
use mutant::Mutant;
use versions::{Shard, Versions};

pub const ENTRY: crate::Entry = crate::Entry {
    info: &INFO,
    make: |options| Arc::new(Bohm::new(options)),
    mutants: Mutant::NAMES,
};

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "bohm",
    paper: "Faleiro, Abadi: Rethinking Serializable Multiversion Concurrency Control, VLDB 2015",
    isolation: Isolation::Serializable,
    deterministic: true,
    may_retry: false,
    options: &[],
};

/// Segments of fewer are run one by one.
const TRANSACTIONS_MIN: usize = 32;

pub struct Bohm {
    settings: Settings,
    mutant: Option<Mutant>,
}

/// What `prepare` found out.
struct Plan {
    /// `Err`: why the block is not worth it.
    declared: Result<Vec<Declared>, ExecutionPath>,
    snapshot_height: Height,
}

impl Bohm {
    fn new(options: &Options) -> Bohm {
        let mutant = options.mutant.and_then(Mutant::by_name);
        let mut settings = Settings {
            writers_wait_for_readers: false,
            fences: mutant != Some(Mutant::StalePredictions),
            ..Settings::default()
        };
        if options.eager || mutant.is_some() {
            settings.preference = Preference::Latest;
        }
        Bohm { settings, mutant }
    }
}

impl Protocol for Bohm {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn keeps_block_order(&self) -> bool {
        true
    }

    fn prepare(
        &self,
        block: &Arc<Block>,
        store: &Arc<Store>,
        snapshots: Snapshots,
        pool: &WorkerPool,
    ) -> Result<Prepared, String> {
        let snapshot_height = snapshots.newest;
        let all: Vec<_> = (0..block.transactions.len() as Position).collect();
        let (catalog, settings) = (store.catalog(), self.settings);
        let declared =
            ordered_locks::declare_if_wide(block, &all, &catalog, snapshot_height, settings, pool);
        Ok(Box::new(Plan { declared, snapshot_height }))
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
        let plan: Plan = own(prepared, &INFO)?;
        let serial_order: Vec<_> = (0..block.transactions.len() as Position).collect();
        let catalog = store.catalog();
        let mut paths = PathCounts::default();
        let requests = plan.declared.and_then(|declared| {
            let fresh = plan.snapshot_height + 1 == block.height;
            Requests::of(declared, &block.transactions, &catalog, self.settings, fresh)
        });
        let outcomes = match requests {
            Ok(requests) => {
                self.run_segments(requests, block, &catalog, writes, pool, &mut paths)?
            }
            Err(why) => {
                let why = (why, &mut paths);
                one_by_one(block, &serial_order, &catalog, writes, why)?
            }
        };
        let report = BlockReport { paths, ..BlockReport::default() };
        Ok(BlockOutcome { outcomes, serial_order, report, ..BlockOutcome::default() })
    }
}

impl Bohm {
    fn run_segments(
        &self,
        requests: Arc<Requests>,
        block: &Arc<Block>,
        catalog: &Arc<Catalog>,
        writes: &mut BlockWrites,
        pool: &WorkerPool,
        paths: &mut PathCounts,
    ) -> Result<Vec<Outcome>, String> {
        let fenced = self.fenced(&requests, block, pool);
        let mut outcomes = Vec::with_capacity(fenced.len());
        while outcomes.len() < fenced.len() {
            let first = outcomes.len() as u32;
            let left = &fenced[first as usize..];
            let length = left.iter().position(|&fenced| fenced).unwrap_or(left.len()) as u32;
            let segment = first..first + length;
            match self.segment(&requests, block, segment.clone(), pool) {
                Ok(laid) => {
                    paths.add(ExecutionPath::Versioned, segment.len());
                    outcomes.extend(laid.run(catalog, writes, pool)?);
                }
                Err(why) => {
                    let positions: Vec<Position> = segment.clone().collect();
                    let run = one_by_one(block, &positions, catalog, writes, (why, &mut *paths));
                    outcomes.extend(run?);
                }
            }
            if (segment.end as usize) < fenced.len() {
                let why = (ExecutionPath::SerialUnforeseen, &mut *paths);
                outcomes.extend(one_by_one(block, &[segment.end], catalog, writes, why)?);
            }
        }
        Ok(outcomes)
    }

    /// Who cannot be trusted to touch what was foretold.
    fn fenced(&self, requests: &Arc<Requests>, block: &Arc<Block>, pool: &WorkerPool) -> Vec<bool> {
        let all_planned = requests.declared.iter().all(|d| matches!(d, Declared::Planned(_)));
        if all_planned || self.mutant == Some(Mutant::StalePredictions) {
            return vec![false; block.transactions.len()];
        }
        Queues::of(requests, &block.transactions, pool).fenced
    }

    /// The placeholders of a segment. `Err`: why it is better run one by one.
    fn segment(
        &self,
        requests: &Arc<Requests>,
        block: &Arc<Block>,
        segment: Range<u32>,
        pool: &WorkerPool,
    ) -> Result<Segment, ExecutionPath> {
        let is_eager = self.settings.preference == Preference::Latest;
        if segment.len() < TRANSACTIONS_MIN && !is_eager {
            return Err(ExecutionPath::SerialFew);
        }
        let versions = lay(requests, segment, pool);
        let graph = Graph::new(versions.segment.len(), &versions.edges());
        if !is_eager && !graph.is_wide() {
            return Err(ExecutionPath::SerialChained);
        }
        Ok(Segment {
            block: Arc::clone(block),
            schedule: Schedule::new(graph, self.settings.preference, false),
            outcomes: versions.segment.clone().map(|_| OnceLock::new()).collect(),
            versions: Arc::new(versions),
            mutant: self.mutant,
        })
    }
}

/// Placeholders, each worker those of its share of the records.
fn lay(requests: &Arc<Requests>, segment: Range<u32>, pool: &WorkerPool) -> Versions {
    let shards = pool.workers();
    let laid: Arc<Vec<OnceLock<Shard>>> = Arc::new((0..shards).map(|_| OnceLock::new()).collect());
    let job = (Arc::clone(requests), Arc::clone(&laid), segment.clone());
    pool.run(move |worker| {
        let (requests, laid, segment) = &job;
        let shard = Shard::lay(requests, segment.clone(), worker, shards);
        laid[worker].set(shard).expect("a worker lays its shard once");
    });
    let laid = Arc::into_inner(laid).expect("the pool has let go of a finished job");
    let shards = laid.into_iter().map(|shard| shard.into_inner().unwrap_or_default());
    Versions { requests: Arc::clone(requests), shards: shards.collect(), segment }
}

/// Transactions that run together.
struct Segment {
    block: Arc<Block>,
    versions: Arc<Versions>,
    schedule: Schedule,
    outcomes: Vec<OnceLock<Outcome>>,
    mutant: Option<Mutant>,
}

impl Segment {
    fn run(
        self,
        catalog: &Arc<Catalog>,
        writes: &mut BlockWrites,
        pool: &WorkerPool,
    ) -> Result<Vec<Outcome>, String> {
        let segment = Arc::new(self);
        let job = (Arc::clone(&segment), Arc::clone(catalog));
        pool.run(move |_| job.0.work(&job.1));
        let segment = Arc::into_inner(segment).expect("the pool has let go of a finished job");
        if let Some(why) = segment.schedule.stopped() {
            return Err(why);
        }
        store(&segment.versions, segment.block.height, catalog, writes, pool, segment.mutant)?;
        let outcomes = segment.outcomes.into_iter();
        Ok(outcomes.map(|one| one.into_inner().expect("every transaction is run")).collect())
    }

    fn work(&self, catalog: &Arc<Catalog>) {
        let versions = &self.versions;
        let mut executor =
            Executor::new(Arc::clone(catalog), Arc::clone(versions), &self.block, self.mutant);
        let mut prefetching = Prefetching::new(Arc::clone(catalog), self.outcomes.len());
        let first = versions.segment.start;
        let declared = &versions.requests.declared;
        let foresee = |group: &[u32]| {
            let accesses =
                group.iter().filter_map(|&at| declared[(first + at) as usize].accesses());
            prefetching.fetch_keys(accesses.flat_map(|accesses| &accesses.keys));
        };
        self.schedule.work(foresee, |turn| {
            let outcome = executor.run(&self.block, first + turn.at)?;
            self.outcomes[turn.at as usize].set(outcome).expect("a transaction runs once");
            Ok(Ran::Done)
        });
    }
}

/// Store the last version of every record, each worker those of its shard.
fn store(
    versions: &Arc<Versions>,
    height: Height,
    catalog: &Arc<Catalog>,
    writes: &mut BlockWrites,
    pool: &WorkerPool,
    mutant: Option<Mutant>,
) -> Result<(), String> {
    let arenas = Arenas::of(writes);
    let halts: Arc<Mutex<Vec<String>>> = Arc::default();
    let job = (Arc::clone(versions), Arc::clone(catalog), Arc::clone(&arenas), Arc::clone(&halts));
    pool.run(move |worker| {
        let (versions, catalog, arenas, halts) = &job;
        let mut undo = arenas.lock(worker);
        let shard = &versions.shards[worker];
        if let Err(stop) = install::install(versions, shard, height, catalog, &mut undo, mutant) {
            let why = match stop {
                Stop::Halt(why) => why,
                Stop::Rejected(error) | Stop::Retry(error) => error.message().to_owned(),
            };
            halts.lock().unwrap_or_else(|e| e.into_inner()).push(why);
        }
    });
    arenas.give_back(writes);
    let halt = halts.lock().unwrap_or_else(|e| e.into_inner()).pop();
    halt.map_or(Ok(()), Err)
}
