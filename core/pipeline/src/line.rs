//! The one loop around a protocol: tasks become a block, the block runs, what the protocol defers
//! joins a later block.
//!
//! ```text
//!   plan      tasks of H, before them what was deferred to H   ─► Planned
//!   prepare   the protocol's first half, on snapshot H - lag   ─► Ready      (any thread)
//!   finish    the protocol's second half, in block order       ─► Finished
//!               begin ─► run (any thread) ─► end
//! ```
//!
//! *Deferred transactions.* A protocol may decide that a transaction runs in a later block. It
//! joins the block `carry_lag` heights later, the first that is certain to be prepared afterwards,
//! ahead of that block's own tasks and in the order in which they were ordered. So what joins what
//! follows from the order and the parameters alone. A task is deferred `attempts_max` times at
//! most; then its outcome, a retry, is final.
//!
//! *The tail.* What stands after a schema change in its block means something under the new schema
//! only. The line runs the tasks before it by the protocol; its caller then alternates between
//! changes and [`Line::run_serially`], and ends with [`Line::close`].
//!
//! *What is carried* is a value: the deferred tasks here, and the protocol's own
//! [`Carried`](concurrency::Carried). A line that is made with both, on a store that can still be
//! read as far back ([`Past`]), goes on as the one before would have.

use std::collections::BTreeMap;
use std::sync::Arc;

use concurrency::install::Installer;
use concurrency::sealed::in_order;
use concurrency::{
    Block, BlockOutcome, BlockReport, Carried, History, Outcome, Past, PendingWrite, Prepared,
    Protocol, Runner, Sealed, Snapshots, Work, WorkerPool,
};
use kit::mutant::mutated;
use procedure::Budget;
use storage::{BlockWrites, Changes, Store};
use types::{Height, Origin, Position, Stamp};

use crate::schedule::Rules;

/// Anything that has a program.
pub trait Task {
    fn work(&self) -> &Arc<Work>;
}

impl Task for Arc<Work> {
    fn work(&self) -> &Arc<Work> {
        self
    }
}

/// A transaction that runs in a later block than it was ordered in.
#[derive(Clone, PartialEq, Debug)]
pub struct Deferred<T> {
    pub task: T,
    pub origin: Origin,
    /// How often it was deferred.
    pub attempts: u32,
}

/// A block before its protocol has seen it.
pub struct Planned<T> {
    protocol: Arc<dyn Protocol>,
    store: Arc<Store>,
    /// Those before the tail.
    block: Arc<Block>,
    /// Deferred to this block, then its own before the tail.
    members: Vec<Deferred<T>>,
    carried_in: usize,
    snapshots: Snapshots,
}

/// A block whose first half is done.
pub struct Ready<T> {
    planned: Planned<T>,
    prepared: Prepared,
}

/// A block whose second half can run.
pub struct Finishing<T> {
    ready: Ready<T>,
    carried: Carried,
    gathers_changes: bool,
}

/// A block whose second half has run.
pub struct Ran<T> {
    planned: Planned<T>,
    outcome: BlockOutcome,
    changes: Option<Changes>,
}

/// How one transaction of a block ended.
pub struct Decided<T> {
    pub origin: Origin,
    pub outcome: Outcome,
    pub decision: Decision<T>,
}

pub enum Decision<T> {
    Now(T),
    /// It runs again in a later block.
    Later,
}

/// A block that has run.
pub struct Finished<T> {
    pub block: Arc<Block>,
    /// In block order: those deferred to this block, then its own.
    pub decided: Vec<Decided<T>>,
    /// How many were deferred to this block.
    pub carried_in: usize,
    /// A permutation of the block's positions.
    pub serial_order: Vec<Position>,
    /// What the protocol deferred, in ascending order: those that ended for want of attempts
    /// among them.
    pub deferred: Vec<Position>,
    /// (t, u): t of this block comes, in the serial order, right before u of the block before.
    pub inter_block_reorderings: Vec<(Position, Position)>,
    pub report: BlockReport,
    /// Net changes; `None` where the line does not gather them.
    pub changes: Option<Changes>,
    /// Which tasks its own were when the block was planned, where the protocol chose their order.
    pub arrivals: Option<Vec<Position>>,
}

/// Where a line goes on.
pub struct LineStart<T> {
    pub protocol: Arc<dyn Protocol>,
    pub carried: Carried,
    /// With the height that each joins.
    pub deferred: BTreeMap<Height, Vec<Deferred<T>>>,
    /// The snapshots that its blocks may read before the newest.
    pub past: Past,
}

impl<T> LineStart<T> {
    /// After a block that left nothing.
    pub fn new(protocol: Arc<dyn Protocol>) -> LineStart<T> {
        let (carried, deferred, past) = Default::default();
        LineStart { protocol, carried, deferred, past }
    }
}

pub struct Line<T> {
    store: Arc<Store>,
    protocol: Arc<dyn Protocol>,
    carried: Carried,
    deferred: BTreeMap<Height, Vec<Deferred<T>>>,
    attempts_max: u32,
    /// Of each transaction.
    budget: Budget,
    gathers_changes: bool,
    /// Keeps the states readable that blocks are prepared on.
    history: History,
}

impl<T: Task> Line<T> {
    pub fn new(store: Arc<Store>, start: LineStart<T>, attempts_max: u32) -> Line<T> {
        let LineStart { protocol, carried, deferred, past } = start;
        let (gathers_changes, history) = (true, History::behind(past));
        let budget = Budget::default();
        Line { store, protocol, carried, deferred, attempts_max, budget, gathers_changes, history }
    }

    /// Net changes are not told: for measurements of protocols alone.
    pub fn without_changes(self) -> Line<T> {
        Line { gathers_changes: false, ..self }
    }

    pub fn protocol(&self) -> &Arc<dyn Protocol> {
        &self.protocol
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub fn carried(&self) -> &Carried {
        &self.carried
    }

    /// The snapshots before the newest that the next block may read.
    pub fn past(&self, snapshots: Snapshots) -> Past {
        self.history.past(snapshots, self.protocol.history())
    }

    /// Deferred tasks by the height that they join.
    pub fn deferred(&self) -> &BTreeMap<Height, Vec<Deferred<T>>> {
        &self.deferred
    }

    /// The same, for giving them programs of another schema.
    pub fn deferred_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.deferred.values_mut().flatten().map(|deferred| &mut deferred.task)
    }

    /// Whether tasks wait for a later block.
    pub fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// How many tasks join the block of this height.
    pub fn joining(&self, height: Height) -> usize {
        self.deferred.range(..=height).map(|(_, tasks)| tasks.len()).sum()
    }

    pub fn rules(&self) -> Rules {
        Rules::of(&*self.protocol)
    }

    /// From the next block on another protocol runs, after what was carried to it: nothing, where
    /// it is not the same one once more.
    pub fn set_protocol(&mut self, protocol: Arc<dyn Protocol>, carried: Carried) {
        self.protocol = protocol;
        self.carried = carried;
    }

    /// The next block reads no snapshot before the newest.
    pub fn forget_past(&mut self) {
        self.history = History::default();
    }

    /// Holds from the next block on.
    /// What transactions of the blocks from now on may spend and hold.
    pub fn set_budget(&mut self, budget: Budget) {
        self.budget = budget;
    }

    pub fn set_attempts_max(&mut self, attempts_max: u32) {
        self.attempts_max = attempts_max;
    }

    /// Makes a block of tasks, after those that were deferred to it.
    pub fn plan(
        &mut self,
        height: Height,
        time_us: i64,
        tasks: impl IntoIterator<Item = T>,
        snapshots: Snapshots,
    ) -> Planned<T> {
        let mut members = self.join(height);
        let carried_in = members.len();
        let own = (0..).zip(tasks).map(|(index, task)| {
            let origin = Origin { height, index };
            Deferred { task, origin, attempts: 0 }
        });
        members.extend(own);
        let works = members.iter().map(|member| Arc::clone(member.task.work())).collect();
        let block = Block { budget: self.budget, ..Block::new(height, time_us, works) };
        let block = Arc::new(block);
        let (protocol, store) = (Arc::clone(&self.protocol), Arc::clone(&self.store));
        Planned { protocol, store, block, members, carried_in, snapshots }
    }

    /// What was deferred to this height, or to one that was passed over.
    fn join(&mut self, height: Height) -> Vec<Deferred<T>> {
        let later = self.deferred.split_off(&(height + 1));
        let joining = std::mem::replace(&mut self.deferred, later);
        let mut joining: Vec<_> = joining.into_values().flatten().collect();
        joining.sort_by_key(|deferred| deferred.origin);
        joining
    }

    /// What was deferred to a block that is not run.
    pub fn give_up(&mut self, height: Height) -> Vec<Deferred<T>> {
        self.join(height)
    }

    /// The second half. Its writes are in the store, closed and not published. `Err`: halt.
    pub fn finish(&mut self, ready: Ready<T>, pool: &WorkerPool) -> Result<Finished<T>, String> {
        let ran = self.begin_finish(ready)?.run(pool)?;
        self.end_finish(ran)
    }

    /// What the second half takes, so that it can run where the line is not. Blocks after it may
    /// be planned and prepared meanwhile.
    pub fn begin_finish(&mut self, ready: Ready<T>) -> Result<Finishing<T>, String> {
        let Planned { block, snapshots, .. } = &ready.planned;
        // This block takes the place of the newest state, which later ones may read: the next one
        // is prepared already, or will be at some time before it is finished.
        let held = Snapshots { newest: block.height - 1, ..*snapshots };
        self.history.hold(&self.store, held, self.protocol.history())?;
        let (carried, gathers_changes) = (self.carried.clone(), self.gathers_changes);
        Ok(Finishing { ready, carried, gathers_changes })
    }

    /// What the block leaves to later ones.
    pub fn end_finish(&mut self, ran: Ran<T>) -> Result<Finished<T>, String> {
        let Ran { planned, outcome, changes } = ran;
        let Planned { protocol, block, members, carried_in, .. } = planned;
        self.carried = outcome.carried.clone();
        let (deferred, inter_block_reorderings) =
            (outcome.deferred.clone(), outcome.inter_block_reorderings.clone());
        let Sealed { block, outcome, arrivals } = Sealed::of(&*protocol, &block, outcome);
        let members = match &arrivals {
            Some(arrivals) => reindexed(in_order(members, arrivals)),
            None => members,
        };
        let decided = self.decide(block.height, members, outcome.outcomes, &deferred)?;
        let (serial_order, report) = (outcome.serial_order, outcome.report);
        Ok(Finished {
            block,
            decided,
            carried_in,
            serial_order,
            deferred,
            inter_block_reorderings,
            report,
            changes,
            arrivals,
        })
    }

    fn decide(
        &mut self,
        height: Height,
        members: Vec<Deferred<T>>,
        outcomes: Vec<Outcome>,
        deferred: &[Position],
    ) -> Result<Vec<Decided<T>>, String> {
        let joins = height + self.rules().carry_lag();
        let mut deferred = deferred.iter().peekable();
        let mut later = Vec::new();
        let decided = (0..).zip(members.into_iter().zip(outcomes));
        let decided = decided.map(|(position, (member, outcome))| {
            let Deferred { task, origin, attempts } = member;
            let defers = deferred.next_if_eq(&&position).is_some();
            debug_assert!(
                !defers || matches!(outcome, Outcome::Retry(_)),
                "a deferred transaction is to be tried again"
            );
            let again = defers && attempts < self.attempts_max;
            let decision = match again {
                true => {
                    later.push(Deferred { task, origin, attempts: attempts + 1 });
                    Decision::Later
                }
                false => Decision::Now(task),
            };
            Decided { origin, outcome, decision }
        });
        let decided = decided.collect();
        if let Some(position) = deferred.next() {
            return Err(format!("transaction {position} is deferred and not in its place"));
        }
        if !later.is_empty() {
            // After a change of protocol, what an earlier block deferred may join the same one.
            let joining = self.deferred.entry(joins).or_default();
            joining.append(&mut later);
            joining.sort_by_key(|deferred| deferred.origin);
        }
        Ok(decided)
    }

    /// Runs transactions of a block one after the other on the newest state, after what the block
    /// has done already. Returns their outcomes and what they changed. `Err`: halt.
    pub fn run_serially(
        &mut self,
        block: &Block,
        positions: std::ops::Range<Position>,
    ) -> Result<(Vec<Outcome>, Option<Changes>), String> {
        let first = Stamp::new(block.height, positions.start);
        let mut writes = self.store.begin_step(first, 1);
        let mut runner = Runner::new(self.store.catalog());
        let run = |position| runner.run_one(block, position, writes.arena(0));
        let outcomes = positions.map(run).collect::<Result<Vec<_>, _>>();
        let changes = close(&self.store, writes, self.gathers_changes);
        Ok((outcomes?, changes))
    }

    /// Installs what a transaction of a block has written, after what the block has done already.
    /// `Err`: halt.
    pub fn install(
        &mut self,
        writes: &[PendingWrite],
        stamp: Stamp,
        now_us: i64,
    ) -> Result<Option<Changes>, String> {
        let mut block = self.store.begin_step(stamp, 1);
        let mut installer = Installer::new(self.store.catalog());
        let installed = installer.install(writes, now_us, stamp, block.arena(0));
        let changes = close(&self.store, block, self.gathers_changes);
        match installed {
            Ok(()) => Ok(changes),
            Err(stop) => {
                Err(format!("what a transaction has written cannot be installed: {stop:?}"))
            }
        }
    }
}

fn close(store: &Store, writes: BlockWrites, gathers_changes: bool) -> Option<Changes> {
    if gathers_changes {
        return Some(store.finish(writes));
    }
    store.finish_unread(writes);
    None
}

/// The protocol chose their order, which is the block's from now on.
fn reindexed<T>(mut members: Vec<Deferred<T>>) -> Vec<Deferred<T>> {
    for (index, member) in (0..).zip(&mut members) {
        member.origin.index = index;
    }
    members
}

impl<T> Planned<T> {
    pub fn height(&self) -> Height {
        self.block.height
    }

    /// What the sealed block may hold beside its transactions.
    pub fn with_image_room(mut self, image_room_bytes: usize) -> Planned<T> {
        let block = Arc::get_mut(&mut self.block).expect("a block that was just planned");
        block.image_room_bytes = image_room_bytes;
        self
    }

    pub fn snapshots(&self) -> Snapshots {
        self.snapshots
    }

    /// The first half, which may run beside the second half of the block before. `Err`: halt.
    pub fn prepare(self, pool: &WorkerPool) -> Result<Ready<T>, String> {
        let Planned { protocol, store, block, snapshots, .. } = &self;
        let prepared = protocol.prepare(block, store, *snapshots, pool)?;
        Ok(Ready { planned: self, prepared })
    }
}

impl<T> Ready<T> {
    pub fn height(&self) -> Height {
        self.planned.height()
    }

    pub fn snapshots(&self) -> Snapshots {
        self.planned.snapshots
    }

    /// Those of a block that is given up.
    pub fn into_tasks(self) -> impl Iterator<Item = T> {
        self.planned.members.into_iter().map(|member| member.task)
    }
}

impl<T> Finishing<T> {
    pub fn height(&self) -> Height {
        self.ready.height()
    }

    /// The protocol's second half and the closing of its writes. `Err`: halt.
    pub fn run(self, pool: &WorkerPool) -> Result<Ran<T>, String> {
        let Finishing { ready: Ready { planned, prepared }, carried, gathers_changes } = self;
        let Planned { protocol, store, block, .. } = &planned;
        let mut writes = store.begin_block(block.height, pool.workers());
        let outcome = protocol.finish(prepared, block, store, &mut writes, &carried, pool)?;
        let changes = close(store, writes, gathers_changes);
        Ok(Ran { planned, outcome, changes })
    }
}

impl<T> Ran<T> {
    pub fn height(&self) -> Height {
        self.planned.height()
    }

    pub fn snapshots(&self) -> Snapshots {
        self.planned.snapshots
    }

    /// Transactions come before some of the block before.
    pub fn reorders_previous(&self) -> bool {
        !self.outcome.inter_block_reorderings.is_empty() && !mutated("unsafe_height_read")
    }

    /// Those of a block that is given up.
    pub fn into_tasks(self) -> impl Iterator<Item = T> {
        self.planned.members.into_iter().map(|member| member.task)
    }
}

#[cfg(test)]
mod tests;
