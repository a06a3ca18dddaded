//! Calvin (Thomson et al., SIGMOD 2012): locks are granted in the order of the sequence.
//!
//! *Idea.* Replicas that agree on the order of their input need not agree on anything else, if the
//! outcome is that of running it in this order. Locking gives that without validation: each
//! transaction asks for all of its locks before it begins, records grant theirs in the order of the
//! sequence, and none ever aborts for concurrency. How it is done is told in [`ordered_locks`],
//! which others use for what they could not place; here it is the whole block's way.
//!
//! ```text
//!   prepare  key plans, reconnaissance       parallel by transaction, reads the snapshot only
//!   finish   lay out the lock queues         parallel by record
//!            run what holds all its locks    parallel by transaction
//! ```
//!
//! *Invariants.* The claimed serial order is the block order. Nothing is ever retried but an
//! interactive transaction whose reads are stale.
//!
//! *Cost.* With one worker there is nothing to lock, and the block runs as under the serial
//! protocol. With more, each transaction pays for its plan, and each of its keys for a copy and a
//! look-up in a hash table of queues. Measured on YCSB (1,000,000 rows, ten operations, blocks of
//! 1,000), thousand transactions per CPU-second: 244 under the serial protocol, 185 here with two
//! workers at theta 0, so that a quarter of the time goes into planning and queues. A hot record
//! makes a chain; where the first transactions of a block tell that chains are long (theta 0.99),
//! one worker runs all of it, at 230.

mod mutant;

use std::sync::Arc;

use concurrency::accesses::Declared;
use concurrency::ordered_locks::{self, Settings};
use concurrency::schedule::Preference;
use concurrency::{
    Block, BlockOutcome, BlockReport, Carried, ExecutionPath, Isolation, Options, PathCounts,
    Prepared, Protocol, ProtocolInfo, Snapshots, WorkerPool, own,
};
use storage::{BlockWrites, Store};
use types::{Height, Position};

use mutant::Mutant;

pub const ENTRY: crate::Entry = crate::Entry {
    info: &INFO,
    make: |options| Arc::new(Calvin::new(options)),
    mutants: Mutant::NAMES,
};

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "calvin",
    paper: "Thomson, Diamond, Weng, Ren, Shao, Abadi: Calvin, SIGMOD 2012",
    isolation: Isolation::Serializable,
    deterministic: true,
    may_retry: false,
    options: &[],
};

pub struct Calvin {
    settings: Settings,
}

/// What `prepare` found out.
struct Plan {
    /// `Err`: why the block is not worth it.
    declared: Result<Vec<Declared>, ExecutionPath>,
    snapshot_height: Height,
}

impl Calvin {
    fn new(options: &Options) -> Calvin {
        let mut settings = Settings::default();
        if options.eager || options.mutant.is_some() {
            settings.preference = Preference::Latest;
        }
        if let Some(mutant) = options.mutant.and_then(Mutant::by_name) {
            mutant.apply(&mut settings);
        }
        Calvin { settings }
    }
}

impl Protocol for Calvin {
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
        let fresh = plan.snapshot_height + 1 == block.height;
        let catalog = store.catalog();
        let mut paths = PathCounts::default();
        let outcomes = match plan.declared {
            Ok(declared) => ordered_locks::run_declared(
                block,
                &serial_order,
                declared,
                fresh,
                self.settings,
                &catalog,
                writes,
                pool,
                &mut paths,
            )?,
            Err(why) => {
                let why = (why, &mut paths);
                ordered_locks::one_by_one(block, &serial_order, &catalog, writes, why)?
            }
        };
        let report = BlockReport { paths, ..BlockReport::default() };
        Ok(BlockOutcome { outcomes, serial_order, report, ..BlockOutcome::default() })
    }
}
