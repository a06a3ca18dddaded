//! ChainifyDB's external concurrency control (Sharma 2020, 4.6.3): a conflict graph, in stages.
//!
//! *Idea.* A layer that hands a block to a database which schedules as it pleases must see to it
//! that no two of what it hands over at once conflict. Each transaction tells its reads and writes
//! as intervals on keys (`pk = 100` is [100, 100]); in block order, each gets an edge from every
//! earlier one that it overlaps with, unless both only read. The graph is acyclic, and its
//! topological stages are handed over one after another:
//!
//! ```text
//!   T0 r[1,1] w[2,2]                    stage 0   T0 T1 T4
//!   T1 w[7,7]           T0 ─► T2        stage 1   T2
//!   T2 w[1,1] r[7,7]    T1 ─► T2        stage 2   T3
//!   T3 r[0,5]           T2 ─► T3
//!   T4 w[9,9]                           inside a stage workers pull in parallel
//! ```
//!
//! *Invariants.* Members of a stage do not conflict; the claimed serial order is the block order.
//! Nothing is ever retried but an interactive transaction whose reads are stale.
//!
//! *Not PWV.* PWV (Faleiro, Abadi, Hellerstein, VLDB 2017) builds a dependency graph over a batch
//! as well, but divides transactions into pieces and shows a piece's writes as soon as nothing
//! before it can abort; this shows none before the stage is over. It is slower than PWV on long
//! transactions and hot records, so no figure takes it for PWV.
//!
//! *Departures.* Intervals are on keys of indexes, not on any column of a predicate: two predicates
//! on different indexes meet at the records that a transaction writes, as [`ordered_locks::points`]
//! tells. Where the thesis calls for a barrier (statements that cannot be parsed, a `LIMIT`),
//! reconnaissance may do: a prediction that no transaction before writes into is as good as a plan.
//! A suspect has a stage of its own.
//!
//! *Cost.* The graph is calvin's. What stages add is that all workers wait for the slowest at each
//! stage's end; a hot record makes as many stages as it has writers, so a graph with many stages is
//! run by one worker. YCSB (1,000,000 rows, blocks of 1,000), two workers, thousand transactions
//! per CPU-second: 174 at theta 0, where calvin does 185; 250 at theta 0.99, by one worker.

mod mutant;
mod stages;

use std::sync::{Arc, OnceLock};

use concurrency::accesses::Declared;
use concurrency::arenas::Arenas;
use concurrency::ordered_locks::queues::{Queues, Requests};
use concurrency::ordered_locks::{self, Settings};
use concurrency::schedule::{Graph, Preference};
use concurrency::{
    Block, BlockOutcome, BlockReport, Carried, ExecutionPath, Isolation, Options, Outcome,
    PathCounts, Prefetching, Prepared, Protocol, ProtocolInfo, Runner, Snapshots, WorkerPool, own,
};
use storage::{BlockWrites, Catalog, Store, UndoArena};
use types::{Height, Position};

use mutant::Mutant;
use stages::{Pull, Stages};

pub const ENTRY: crate::Entry = crate::Entry {
    info: &INFO,
    make: |options| Arc::new(ConflictGraph::new(options)),
    mutants: Mutant::NAMES,
};

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "conflict_graph",
    paper: "Sharma: Snapshot: Friend or Foe of Data Management?, 2020, 4.6.3 (ChainifyDB)",
    isolation: Isolation::Serializable,
    deterministic: true,
    may_retry: false,
    options: &[],
};

/// Transactions that a stage must have on average, to be worth more than one worker.
const MEMBERS_MIN: usize = 8;

pub struct ConflictGraph {
    settings: Settings,
    mutant: Option<Mutant>,
}

/// What `prepare` found out.
struct Plan {
    /// `Err`: why the block is not worth it.
    declared: Result<Vec<Declared>, ExecutionPath>,
    snapshot_height: Height,
}

impl ConflictGraph {
    fn new(options: &Options) -> ConflictGraph {
        let mutant = options.mutant.and_then(Mutant::by_name);
        let mut settings = Settings {
            shared_locks: mutant != Some(Mutant::NoReadEdges),
            range_locks: mutant != Some(Mutant::NoIntervals),
            fences: mutant != Some(Mutant::StalePredictions),
            ..Settings::default()
        };
        if options.eager || mutant.is_some() {
            settings.preference = Preference::Latest;
        }
        ConflictGraph { settings, mutant }
    }

    /// `None`: better one by one.
    fn stages(
        &self,
        requests: &Arc<Requests>,
        block: &Arc<Block>,
        pool: &WorkerPool,
    ) -> Option<Stages> {
        let Queues { edges, mut fenced } = Queues::of(requests, &block.transactions, pool);
        if self.mutant == Some(Mutant::StalePredictions) {
            fenced.fill(false);
        }
        let graph = Graph::new(block.transactions.len(), &edges);
        let last_only = self.mutant == Some(Mutant::StageOfLastOnly);
        let stages = Stages::of(&graph, &fenced, last_only);
        match self.settings.preference {
            Preference::Latest => Some(stages.backwards()),
            Preference::Earliest => {
                let is_wide = stages.len() * MEMBERS_MIN <= block.transactions.len();
                is_wide.then_some(stages)
            }
        }
    }
}

impl Protocol for ConflictGraph {
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
        let staged = plan.declared.and_then(|declared| {
            let fresh = plan.snapshot_height + 1 == block.height;
            let works = &block.transactions;
            let requests = Requests::of(declared, works, &catalog, self.settings, fresh)?;
            let stages = self.stages(&requests, block, pool).ok_or(ExecutionPath::SerialChained)?;
            Ok((requests, stages))
        });
        let outcomes = match staged {
            Ok((requests, stages)) => {
                paths.add(ExecutionPath::Staged, serial_order.len());
                let block = Arc::clone(block);
                Running::new(block, requests, stages).run(&catalog, writes, pool)?
            }
            Err(why) => {
                let why = (why, &mut paths);
                ordered_locks::one_by_one(block, &serial_order, &catalog, writes, why)?
            }
        };
        let report = BlockReport { paths, ..BlockReport::default() };
        Ok(BlockOutcome { outcomes, serial_order, report, ..BlockOutcome::default() })
    }
}

/// What the workers share.
struct Running {
    block: Arc<Block>,
    requests: Arc<Requests>,
    pull: Pull,
    outcomes: Vec<OnceLock<Outcome>>,
}

impl Running {
    fn new(block: Arc<Block>, requests: Arc<Requests>, stages: Stages) -> Arc<Running> {
        let outcomes = block.transactions.iter().map(|_| OnceLock::new()).collect();
        Arc::new(Running { block, requests, pull: Pull::new(stages), outcomes })
    }

    fn run(
        self: Arc<Self>,
        catalog: &Arc<Catalog>,
        writes: &mut BlockWrites,
        pool: &WorkerPool,
    ) -> Result<Vec<Outcome>, String> {
        let arenas = Arenas::of(writes);
        let job = (Arc::clone(&self), Arc::clone(&arenas), Arc::clone(catalog));
        pool.run(move |worker| {
            let (running, arenas, catalog) = &job;
            let mut undo = arenas.lock(worker);
            running.work(catalog, &mut undo);
        });
        arenas.give_back(writes);
        let running = Arc::into_inner(self).expect("the pool has let go of a finished job");
        if let Some(why) = running.pull.stopped() {
            return Err(why);
        }
        let outcomes = running.outcomes.into_iter();
        Ok(outcomes.map(|one| one.into_inner().expect("every transaction is run")).collect())
    }

    fn work(&self, catalog: &Arc<Catalog>, undo: &mut UndoArena) {
        let mut runner = Runner::new(Arc::clone(catalog));
        let mut prefetching = Prefetching::new(Arc::clone(catalog), self.outcomes.len());
        let declared = &self.requests.declared;
        let foresee = |group: &[u32]| {
            let accesses = group.iter().filter_map(|&at| declared[at as usize].accesses());
            prefetching.fetch_keys(accesses.flat_map(|accesses| &accesses.keys));
        };
        self.pull.work(foresee, |at| {
            let outcome = runner.run_one(&self.block, at, undo)?;
            self.outcomes[at as usize].set(outcome).expect("a transaction runs once");
            Ok(())
        });
    }
}
