//! Runs blocks under a protocol through the product's own pipeline (`pipeline::Line` and its
//! schedule), and keeps what the oracle compares: outcomes, claimed order, net changes.

use std::sync::Arc;

use concurrency::{Block, BlockOutcome, Carried, Protocol, Snapshots, Work, WorkerPool};
use pipeline::{
    Batch, Cadence, Decided, Decision, Finished, Halves, Line, LineStart, Pipeline, Stepper, Task,
};
use procedure::Budget;
use storage::{Changes, Store};
use types::{Height, Position};

use crate::watchdog::Watch;

/// When a block is prepared, seen from the end of the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overlap {
    Before,
    During,
    After,
}

/// What goes from block to block.
pub struct Course<T = Arc<Work>> {
    line: Line<T>,
    /// The last barrier.
    floor: Height,
}

/// A block that ran and is published.
pub struct Ran<T = Arc<Work>> {
    /// As it is sealed, and so what was claimed of it.
    pub block: Arc<Block>,
    pub sealed: BlockOutcome,
    /// Where the transaction at each position stood when the block was cut; `None`: there.
    pub arrivals: Option<Vec<Position>>,
    pub changes: Changes,
    /// `None`: it runs in a later block.
    pub tasks: Vec<Option<T>>,
}

impl<T: Task + Send + 'static> Course<T> {
    /// Right after a barrier; what is deferred comes again so often at most.
    pub fn behind(
        floor: Height,
        store: &Arc<Store>,
        protocol: &Arc<dyn Protocol>,
        attempts_max: u32,
    ) -> Course<T> {
        let start = LineStart::new(Arc::clone(protocol));
        Course { line: Line::new(Arc::clone(store), start, attempts_max), floor }
    }

    pub fn line(&self) -> &Line<T> {
        &self.line
    }

    /// From the next block on.
    pub fn set_budget(&mut self, budget: Budget) {
        self.line.set_budget(budget);
    }

    /// Another value of the protocol goes on.
    pub fn go_on_by(&mut self, protocol: &Arc<dyn Protocol>, carried: Carried) {
        self.line.set_protocol(Arc::clone(protocol), carried);
    }

    /// Runs the next block on the state before it.
    pub fn run(&mut self, pool: &WorkerPool, tasks: Vec<T>) -> Result<Ran<T>, String> {
        let newest = self.line.store().newest();
        self.run_on(Snapshots { newest, floor: self.floor }, pool, tasks)
    }

    /// As far behind as the protocol allows.
    pub fn run_late(&mut self, pool: &WorkerPool, tasks: Vec<T>) -> Result<Ran<T>, String> {
        let height = self.line.store().newest() + 1;
        let newest = height.saturating_sub(self.line.rules().lag).max(self.floor);
        self.run_on(Snapshots { newest, floor: self.floor }, pool, tasks)
    }

    fn run_on(
        &mut self,
        snapshots: Snapshots,
        pool: &WorkerPool,
        tasks: Vec<T>,
    ) -> Result<Ran<T>, String> {
        let (name, count) = (self.line.protocol().info().name, tasks.len());
        let _watch =
            Watch::new(format!("{name}, {count} transactions, {} workers", pool.workers()));
        let height = self.line.store().newest() + 1;
        let planned = self.line.plan(height, height as i64, tasks, snapshots);
        let finished = self.line.finish(planned.prepare(pool)?, pool)?;
        self.line.store().publish(height);
        Ok(Ran::of(finished, &self.line))
    }

    /// Runs blocks in a row by the product's schedule, as far apart as the protocol lets them, up
    /// to one that halts: its height, and why.
    pub fn run_overlapping(
        self,
        pool: &WorkerPool,
        blocks: Vec<Vec<T>>,
        overlap: Overlap,
    ) -> Result<Vec<Ran<T>>, (Height, String)> {
        let newest = self.line.store().newest();
        let cadence = Cadence { collect_blocks: 1, ..Cadence::default() };
        let pipeline = Pipeline::new(newest, newest, self.line.rules(), cadence);
        let halves = match overlap {
            Overlap::Before => Halves::PrepareFirst,
            Overlap::During => Halves::Together,
            Overlap::After => Halves::FinishFirst,
        };
        let mut stepper = Stepper::new(self.line, pipeline);
        let (mut blocks, mut ran) = (blocks.into_iter(), Vec::new());
        loop {
            let height = stepper.line().store().newest() + 1;
            let wrong = |what| (height, what);
            while stepper.pipeline().may_order()
                && let Some(tasks) = blocks.next()
            {
                let time_us = stepper.pipeline().next_height() as i64;
                stepper.order(Batch { time_us, tasks }).map_err(wrong)?;
            }
            match stepper.release(pool, halves).map_err(wrong)? {
                Some(finished) => ran.push(Ran::of(finished, stepper.line())),
                None => return Ok(ran),
            }
        }
    }
}

impl<T: Task> Ran<T> {
    fn of(finished: Finished<T>, line: &Line<T>) -> Ran<T> {
        let Finished { block, decided, serial_order, deferred, inter_block_reorderings, .. } =
            finished;
        let ended = decided.into_iter().map(|Decided { outcome, decision, .. }| match decision {
            Decision::Now(task) => (outcome, Some(task)),
            Decision::Later => (outcome, None),
        });
        let (outcomes, tasks) = ended.unzip();
        let (carried, report) = (line.carried().clone(), finished.report);
        let sealed = BlockOutcome {
            outcomes,
            serial_order,
            deferred,
            inter_block_reorderings,
            carried,
            report,
        };
        let changes = finished.changes.expect("a line that gathers changes");
        Ran { block, sealed, arrivals: finished.arrivals, changes, tasks }
    }

    /// With the transactions in the order in which they came.
    pub fn outcome(&self) -> BlockOutcome {
        let mut outcome = self.sealed.clone();
        if let Some(arrivals) = &self.arrivals {
            for (ended, &arrival) in self.sealed.outcomes.iter().zip(arrivals) {
                outcome.outcomes[arrival as usize] = ended.clone();
            }
            outcome.serial_order.clone_from(arrivals);
        }
        outcome
    }
}

/// Runs one block right after a barrier, and publishes it.
pub fn run_block(
    protocol: &Arc<dyn Protocol>,
    pool: &WorkerPool,
    store: &Arc<Store>,
    block: &Block,
) -> Result<(BlockOutcome, Changes), String> {
    let newest = block.height - 1;
    let mut line = Line::new(Arc::clone(store), LineStart::new(Arc::clone(protocol)), 0);
    let snapshots = Snapshots { newest, floor: newest };
    let tasks = block.transactions.clone();
    let planned = line.plan(block.height, block.time_us, tasks, snapshots);
    let planned = planned.with_image_room(block.image_room_bytes);
    let finished = line.finish(planned.prepare(pool)?, pool)?;
    store.publish(block.height);
    let ran = Ran::of(finished, &line);
    Ok((ran.outcome(), ran.changes))
}
