//! Hyperledger Fabric (1.2): simulate, order, validate.
//!
//! *Idea.* A transaction is simulated before it has a place in any block; what it read goes along
//! with versions, what it would write as values. A block is validated in order: a transaction is
//! valid if everything that it read still has the version that it read, and then its writes are
//! installed. Otherwise it has no effect, and its client may try again.
//!
//! *Timeline.*
//!
//! ```text
//!   prepare  endorse T0 T1 T2 …    parallel by transaction, on the snapshot of block H-1-lag;
//!                                  those that others have simulated: written on that of H-1
//!   finish   T0 check, install     one after another, against the newest state: it holds the
//!            T1 check, install     blocks since the snapshot and the block's earlier valid
//!            T2 check ✗ 40001      transactions
//! ```
//!
//! Arrival order makes avoidable aborts: one writer of a hot row ahead of a hundred readers spoils
//! all of them. That is what Fabric++ (`fabric_pp`) was made for.
//!
//! *Invariants.* The serial order claimed is the block order of the valid transactions, then the
//! others. A valid transaction saw just what it would have seen at its place, errors included: one
//! that ends in an error is validated like a reader. Nothing waits, so nothing can deadlock;
//! everything can starve.
//!
//! *Departures from Fabric.*
//! - Endorsement policies, signatures and channels are not concurrency control: those are judged
//!   before a block is prepared. What endorsers have simulated (or a session, whose COMMIT is the
//!   same with one endorser) is validated by the versions that they have read; what was ordered as
//!   a call is simulated here, once on each replica.
//! - Reads are of rows: versions are stamps (block, position). Whether a row is there is read
//!   apart from its value, so a blind write (Fabric's `PutState` without `GetState`) conflicts with
//!   no other blind write.
//! - Fabric locks the whole state, shared by simulations and exclusive in validation, so that a
//!   simulation that takes long holds up blocks, and a block holds up simulations. Here a snapshot
//!   is a height, and none waits. `lock=state` is the paper's baseline: what endorsers simulate for
//!   clients of a node holds the lock meanwhile, and so does `finish`. It reaches no outcome but by
//!   how old what was read is by then.
//! - `lag`: in a network an endorsement is some blocks old when its block is cut. Here it is as
//!   many as the option says; `spread` makes the transactions of one block lag differently. What
//!   others have simulated has its own age, and none is added.
//!
//! *Cost.* Per read one look at a record's stamp, in the cache since its simulation; per range a
//! scan again. Validation has one worker, as in Fabric.

mod mutant;

use std::sync::Arc;

use concurrency::endorsement::{EarlyAbort, Endorsed, Endorsers, VersionCheck, endorse, stale};
use concurrency::install::Installer;
use concurrency::{
    Block, BlockOutcome, BlockReport, Carried, Isolation, OptionValues, Options, Outcome, Prepared,
    Protocol, ProtocolInfo, ProtocolOption, SimulationRules, Snapshots, WorkerPool, own,
};
use storage::{BlockWrites, Store};
use types::{Height, Position, Stamp, Stop};

use mutant::Mutant;

pub const ENTRY: crate::Entry = crate::Entry {
    info: &INFO,
    make: |options| Arc::new(Fabric::new(options)),
    mutants: Mutant::NAMES,
};

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "fabric",
    paper: "Androulaki et al.: Hyperledger Fabric: A Distributed Operating System for Permissioned \
            Blockchains, EuroSys 2018",
    isolation: Isolation::Serializable,
    deterministic: true,
    may_retry: true,
    options: &[
        ProtocolOption {
            name: "lag",
            values: OptionValues::Integer { min: 0, max: 64, default: 0 },
            what: "blocks between a transaction's simulation and its own",
        },
        ProtocolOption {
            name: "spread",
            values: OptionValues::Integer { min: 0, max: 7, default: 0 },
            what: "further blocks of lag, dealt out in turn to a block's transactions",
        },
        ProtocolOption {
            name: "lock",
            values: OptionValues::OneOf(&["versions", "state"]),
            what: "whether endorsers and validation lock the whole state against each other",
        },
    ],
};

pub struct Fabric {
    endorsers: Endorsers,
    locks_state: bool,
    mutant: Option<Mutant>,
}

impl Fabric {
    fn new(options: &Options) -> Fabric {
        let number = |name| options.number(&INFO, name);
        Fabric {
            endorsers: Endorsers::new(number("lag"), number("spread")),
            locks_state: options.is(&INFO, "lock", "state"),
            mutant: options.mutant.and_then(Mutant::by_name),
        }
    }
}

impl Protocol for Fabric {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn history(&self) -> Height {
        self.endorsers.history()
    }

    /// Vanilla: what is stale is found out in its block.
    fn simulation(&self) -> SimulationRules {
        SimulationRules { locks_state: self.locks_state, early_abort: false }
    }

    fn prepare(
        &self,
        block: &Arc<Block>,
        store: &Arc<Store>,
        snapshots: Snapshots,
        pool: &WorkerPool,
    ) -> Result<Prepared, String> {
        let snapshots = self.endorsers.snapshots(block, store, snapshots)?;
        let mut endorsed = endorse(block, store, &snapshots, pool, EarlyAbort::OfOthers);
        if let Some(mutant) = self.mutant {
            endorsed.iter_mut().for_each(|endorsed| mutant.spoil(endorsed));
        }
        Ok(Box::new(endorsed))
    }

    fn finish(
        &self,
        prepared: Prepared,
        block: &Arc<Block>,
        store: &Arc<Store>,
        writes: &mut BlockWrites,
        _: &Carried,
        _: &WorkerPool,
    ) -> Result<BlockOutcome, String> {
        let endorsed: Vec<Endorsed> = own(prepared, &INFO)?;
        let _exclusive = self.locks_state.then(|| store.lock_exclusive());
        let mut check = VersionCheck::new(store.catalog(), block.budget);
        let mut installer = Installer::new(store.catalog());
        let undo = writes.arena(0);
        let mut outcomes = Vec::with_capacity(endorsed.len());
        let (mut valid, mut invalid) = (Vec::with_capacity(endorsed.len()), Vec::new());
        let mut overtaken = 0;
        for (position, endorsed) in (0..).zip(endorsed) {
            if !check.holds(&endorsed.reads) {
                outcomes.push(Outcome::Retry(stale().cut()));
                invalid.push(position);
                continue;
            }
            overtaken += u32::from(matches!(endorsed.run, Err(Stop::Retry(_))));
            let now_us = block.transactions[position as usize].now_us(block.time_us);
            let stamp = Stamp::new(block.height, position);
            let run = endorsed.run.and_then(|result| {
                installer.install(&endorsed.writes, now_us, stamp, undo)?;
                Ok(result)
            });
            outcomes.push(Outcome::from_run(run)?);
            valid.push(position);
        }
        let stale = overtaken + invalid.len() as u32;
        let report = BlockReport { stale, ..BlockReport::default() };
        let serial_order: Vec<Position> = valid.into_iter().chain(invalid).collect();
        Ok(BlockOutcome { outcomes, serial_order, report, ..BlockOutcome::default() })
    }
}
