//! Fabric++ (Sharma, Schuhknecht, Agrawal, Dittrich, SIGMOD 2019): Fabric with fewer aborts.
//!
//! *Idea.* Fabric validates a block in the order of arrival, so a writer ahead of a hundred readers
//! of its key makes a hundred aborts, where the other way round there would be none. The orderer
//! has the read and write sets in hand: it can put readers before writers. Where that is impossible
//! (a cycle) a transaction has to go, and it is known already which.
//!
//! *Timeline.*
//!
//! ```text
//!   prepare  endorse T0 T1 T2 …       parallel; on a snapshot some blocks old, if `lag` says so;
//!                                     one that meets a row that changed since ends at once (B3);
//!                                     so does one of others who have read what is no more
//!   finish   cut into batches         by transactions and by unique keys (B2)
//!   for each drop stale readers       of older versions than others of the batch read (B4)
//!   batch    reorder                  conflict graph, cycles, victims, schedule (B1): `reorder`
//!            check versions           against the newest state: the blocks since the snapshot,
//!                                     and the batches before
//!            install                  in the order of the schedule
//! ```
//!
//! A block of this ledger is one batch unless it is too large. Fabric++ cuts batches where blocks
//! are formed; here it is not known yet then what transactions will access, so a block falls into
//! batches when they have been simulated. A batch takes its predecessors for what they are: blocks
//! since the snapshot.
//!
//! *Invariants.* The serial order claimed is the schedules of the batches one after another, then
//! those that were turned away. Within a schedule each transaction reads before another writes what
//! it read, so no conflict within a batch is left to be found; the version check has to look at the
//! batch's beginning only. (Ranges conflict where a write *may* touch them, so there may be an edge
//! too many.)
//!
//! *Departures from the paper*, beside those of `fabric`:
//! - The number of cycles is bounded by a budget, and large components are taken apart by degree
//!   ([`reorder`]); the report says how many were.
//! - The conflict graph comes from an inverted index, not from comparing all pairs ([`graph`]).
//! - `early_abort=off` and `reordering=off` are the ablations. Without reordering transactions are
//!   validated one by one, as Fabric does.
//! - B4 has something to find only if transactions of one block were endorsed on different
//!   snapshots: `spread`. Of those that endorsers have simulated, or sessions, a replica drops each
//!   that was overtaken by the state before the block, whether another of the batch has read the
//!   newer version or not: the paper's orderer has no state. So one that claims to have read what
//!   there never was takes no other along.
//!
//! *Cost.* Per batch one pass over its accesses, the graph, and the budget. YCSB (half reads, half
//! blind writes), blocks of 1,000, two workers: at theta 0 a transaction costs 0.7 microseconds
//! more than under `fabric`, and none is turned away; at 0.99 3.4 more, for the dense graph and the
//! peeling of one large component, and 39 % are valid, under `fabric` 18 %.

mod batch;
mod cycles;
mod graph;
mod mutant;
mod reorder;

use std::sync::Arc;

use concurrency::endorsement::{EarlyAbort, Endorsed, Endorsers, VersionCheck, endorse, stale};
use concurrency::install::Installer;
use concurrency::{
    Block, BlockOutcome, BlockReport, Carried, ExecutionPath, Isolation, OptionValues, Options,
    Outcome, Prepared, Protocol, ProtocolInfo, ProtocolOption, SimulationRules, Snapshots, Work,
    WorkerPool, own,
};
use storage::{BlockWrites, Catalog, Store, UndoArena};
use types::{Error, Height, Position, Stamp, Stop};

pub use batch::{Limits, cut};
pub use reorder::{Schedule, reorder, valid_in_order};

use batch::KeySets;
use mutant::Mutant;

pub const ENTRY: crate::Entry = crate::Entry {
    info: &INFO,
    make: |options| Arc::new(FabricPp::new(options)),
    mutants: Mutant::NAMES,
};

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "fabric_pp",
    paper: "Sharma, Schuhknecht, Agrawal, Dittrich: Blurring the Lines between Blockchains and \
            Database Systems: the Case of Hyperledger Fabric, SIGMOD 2019",
    isolation: Isolation::Serializable,
    deterministic: true,
    may_retry: true,
    options: &[
        ProtocolOption {
            name: "reordering",
            values: OptionValues::OneOf(&["on", "off"]),
            what: "whether a batch is reordered",
        },
        ProtocolOption {
            name: "early_abort",
            values: OptionValues::OneOf(&["on", "off"]),
            what: "whether stale transactions end in simulation, or before they are reordered",
        },
        ProtocolOption {
            name: "transactions",
            values: OptionValues::Integer { min: 1, max: 8192, default: 1024 },
            what: "transactions of a batch",
        },
        ProtocolOption {
            name: "unique_keys",
            values: OptionValues::Integer { min: 1, max: 1 << 20, default: 16384 },
            what: "distinct records that a batch may access",
        },
        ProtocolOption {
            name: "budget",
            values: OptionValues::Integer { min: 0, max: 1 << 20, default: 128 },
            what: "steps for each transaction, to count the cycles it is on",
        },
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
    ],
};

pub struct FabricPp {
    endorsers: Endorsers,
    reordering: bool,
    early_abort: bool,
    limits: Limits,
    budget: u64,
    mutant: Option<Mutant>,
}

impl FabricPp {
    fn new(options: &Options) -> FabricPp {
        let number = |name| options.number(&INFO, name);
        FabricPp {
            endorsers: Endorsers::new(number("lag"), number("spread")),
            reordering: options.is(&INFO, "reordering", "on"),
            early_abort: options.is(&INFO, "early_abort", "on"),
            limits: Limits {
                transactions: number("transactions") as usize,
                unique_keys: number("unique_keys") as usize,
            },
            budget: number("budget"),
            mutant: options.mutant.and_then(Mutant::by_name),
        }
    }
}

/// A block between `prepare` and `finish`.
struct Simulations {
    endorsed: Vec<Endorsed>,
    /// All were simulated on the state that the block meets.
    are_current: bool,
}

impl Protocol for FabricPp {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn history(&self) -> Height {
        self.endorsers.history()
    }

    fn simulation(&self) -> SimulationRules {
        SimulationRules { early_abort: self.early_abort, ..SimulationRules::default() }
    }

    fn prepare(
        &self,
        block: &Arc<Block>,
        store: &Arc<Store>,
        snapshots: Snapshots,
        pool: &WorkerPool,
    ) -> Result<Prepared, String> {
        let snapshots = self.endorsers.snapshots(block, store, snapshots)?;
        let early_abort = match self.early_abort {
            false => EarlyAbort::Off,
            true if self.endorsers.lag_behind() => EarlyAbort::On,
            true => EarlyAbort::OfOthers,
        };
        let endorsed = endorse(block, store, &snapshots, pool, early_abort);
        let are_current = snapshots.iter().all(|&snapshot| snapshot + 1 == block.height);
        Ok(Box::new(Simulations { endorsed, are_current }))
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
        let Simulations { endorsed, are_current } = own(prepared, &INFO)?;
        let batches = batch::cut_block(&endorsed, self.limits);
        let catalog = store.catalog();
        let mut finishing = Finishing {
            protocol: self,
            block,
            outcomes: vec![None; endorsed.len()],
            endorsed,
            check: VersionCheck::new(Arc::clone(&catalog), block.budget),
            installer: Installer::new(Arc::clone(&catalog)),
            catalog,
            undo: writes.arena(0),
            order: Vec::new(),
            report: BlockReport::default(),
        };
        if self.early_abort && self.endorsers.lag_behind() {
            finishing.report.paths.add(ExecutionPath::EarlyAbortOffered, block.transactions.len());
        }
        for (number, batch) in batches.into_iter().enumerate() {
            let is_current = are_current && number == 0;
            let batch = (batch.start as Position..batch.end as Position).collect();
            finishing.batch(batch, is_current)?;
        }
        Ok(finishing.outcome())
    }
}

/// A block on its way through `finish`.
struct Finishing<'a> {
    protocol: &'a FabricPp,
    block: &'a Block,
    endorsed: Vec<Endorsed>,
    check: VersionCheck,
    installer: Installer,
    catalog: Arc<Catalog>,
    undo: &'a mut UndoArena,
    outcomes: Vec<Option<Outcome>>,
    /// Of those that were installed.
    order: Vec<Position>,
    report: BlockReport,
}

impl Finishing<'_> {
    fn batch(&mut self, mut batch: Vec<Position>, is_current: bool) -> Result<(), String> {
        let all = batch.len();
        self.drop_stale(&mut batch, |this, &position| {
            matches!(this.endorsed[position as usize].run, Err(Stop::Retry(_)))
        });
        if self.protocol.early_abort && self.protocol.endorsers.lag_behind() {
            let endorsed = batch.iter().map(|&position| &self.endorsed[position as usize]);
            let mut doomed: Vec<bool> = batch::readers_of_older_versions(endorsed).collect();
            doomed.reverse();
            self.drop_stale(&mut batch, |_, _| doomed.pop().unwrap_or(false));
            self.report.paths.add(ExecutionPath::AbortedEarly, all - batch.len());
        }
        if !self.protocol.reordering {
            return batch.into_iter().try_for_each(|position| {
                if self.holds(position) {
                    return self.install(position);
                }
                self.drop_one(position);
                Ok(())
            });
        }
        let mut schedule = self.reorder(&batch);
        if self.protocol.mutant != Some(Mutant::NoVersionCheck) {
            let unchecked = !self.protocol.early_abort
                && self.protocol.mutant != Some(Mutant::OthersTakenForCurrent);
            self.drop_stale(&mut schedule, |this, &position| {
                let is_checked = !is_current || unchecked && this.is_of_others(position);
                is_checked && !this.holds(position)
            });
        }
        schedule.into_iter().try_for_each(|position| self.install(position))
    }

    fn drop_stale(
        &mut self,
        positions: &mut Vec<Position>,
        mut is_stale: impl FnMut(&mut Self, &Position) -> bool,
    ) {
        positions.retain(|position| {
            let stale = is_stale(self, position);
            if stale {
                self.drop_one(*position);
            }
            !stale
        });
    }

    fn drop_one(&mut self, position: Position) {
        self.outcomes[position as usize] = Some(Outcome::Retry(stale().cut()));
        self.report.stale += 1;
    }

    /// Simulated by others, on what state soever.
    fn is_of_others(&self, position: Position) -> bool {
        matches!(*self.block.transactions[position as usize], Work::Interactive(_))
    }

    fn holds(&mut self, position: Position) -> bool {
        self.check.holds(&self.endorsed[position as usize].reads)
    }

    /// Drop the victims of a batch; the others in the order of the schedule.
    fn reorder(&mut self, batch: &[Position]) -> Vec<Position> {
        let mutant = self.protocol.mutant;
        let endorsed: Vec<&Endorsed> =
            batch.iter().map(|&position| &self.endorsed[position as usize]).collect();
        let sets = KeySets::of(&endorsed, &self.catalog, mutant);
        let mut schedule = reorder(&sets.reads, &sets.writes, self.protocol.budget);
        match mutant {
            Some(Mutant::NotReversed) => schedule.order.reverse(),
            Some(Mutant::VictimsStay) => schedule.order.append(&mut schedule.victims),
            _ => {}
        }
        for &victim in &schedule.victims {
            let position = batch[victim as usize] as usize;
            self.outcomes[position] = Some(Outcome::Retry(in_a_cycle().cut()));
        }
        self.report.cycle_victims += schedule.victims.len() as u32;
        self.report.uncounted_components += schedule.uncounted_components;
        schedule.order.iter().map(|&at| batch[at as usize]).collect()
    }

    fn install(&mut self, position: Position) -> Result<(), String> {
        let Endorsed { run, writes, .. } = &mut self.endorsed[position as usize];
        let now_us = self.block.transactions[position as usize].now_us(self.block.time_us);
        let stamp = Stamp::new(self.block.height, position);
        let run = std::mem::replace(run, Ok(Default::default())).and_then(|result| {
            self.installer.install(writes, now_us, stamp, self.undo)?;
            Ok(result)
        });
        self.outcomes[position as usize] = Some(Outcome::from_run(run)?);
        self.order.push(position);
        Ok(())
    }

    fn outcome(self) -> BlockOutcome {
        let mut serial_order = self.order;
        let turned_away = |outcome: &Option<Outcome>| matches!(outcome, Some(Outcome::Retry(_)));
        let others = (0..).zip(&self.outcomes).filter(|(_, outcome)| turned_away(outcome));
        serial_order.extend(others.map(|(position, _)| position));
        BlockOutcome {
            outcomes: self.outcomes.into_iter().flatten().collect(),
            serial_order,
            report: self.report,
            ..BlockOutcome::default()
        }
    }
}

/// What a transaction is told that had to go, so that others could stay.
fn in_a_cycle() -> Error {
    Error::serialization("The transaction was in a cycle of conflicts with others of its block.")
}
