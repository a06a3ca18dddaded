//! A pipeline and a line driven without clocks, logs or clients: an order is durable as soon as it
//! is appended. Benchmarks, oracles and simulations drive the product's schedule by it.
//!
//! ```text
//!   lag 1   prepare 1 on 0 │ finish 1 │ prepare 2 on 1 │ finish 2 │ …
//!   lag 2   prepare 1 on 0 │ finish 1       │ finish 2       │ …
//!                          │ prepare 2 on 0 │ prepare 3 on 1 │ …
//! ```
//!
//! One block is finished and the next one prepared in one turn: at the same time by one pool, or
//! one after the other, in either order ([`Halves`]). None of it shows in the results, nor does how
//! far ahead blocks are prepared: the caller orders as many as may be ordered, or fewer.

use std::collections::{BTreeMap, VecDeque};

use concurrency::WorkerPool;
use kit::mutant::mutated;
use types::Height;

use crate::line::{Finished, Line, Planned, Ready, Task};
use crate::safe::SafeSnapshot;
use crate::schedule::{Action, Barrier, Event, Pipeline};

/// What one block is made of; it has seen no other.
pub struct Batch<T> {
    pub time_us: i64,
    pub tasks: Vec<T>,
}

/// How one turn does its two halves.
#[derive(Clone, Copy)]
pub enum Halves {
    PrepareFirst,
    FinishFirst,
    /// As the live engine does: at the same time, as far as workers are free.
    Together,
}

pub struct Stepper<T> {
    line: Line<T>,
    pipeline: Pipeline,
    ordered: BTreeMap<Height, Batch<T>>,
    ready: BTreeMap<Height, Ready<T>>,
    /// What the schedule says is to be done next.
    to_prepare: Option<Planned<T>>,
    to_finish: Option<Ready<T>>,
    finished: VecDeque<Finished<T>>,
    released: VecDeque<Finished<T>>,
    safe: SafeSnapshot,
}

impl<T: Task + Send + 'static> Stepper<T> {
    pub fn new(line: Line<T>, pipeline: Pipeline) -> Stepper<T> {
        let (ordered, ready, to_prepare, to_finish) = Default::default();
        let (finished, released) = Default::default();
        let safe = SafeSnapshot::new(line.store());
        Stepper { line, pipeline, ordered, ready, to_prepare, to_finish, finished, released, safe }
    }

    pub fn line(&self) -> &Line<T> {
        &self.line
    }

    /// What readers between blocks may see.
    pub fn safe(&self) -> &SafeSnapshot {
        &self.safe
    }

    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Gives the next height to a batch, if the pipeline [may order](Pipeline::may_order) one.
    /// Nothing is executed here. `Err`: halt.
    pub fn order(&mut self, batch: Batch<T>) -> Result<Height, String> {
        let height = self.pipeline.next_height();
        self.ordered.insert(height, batch);
        self.step(Event::Ordered { height, barrier: Barrier::None, seen: 0, bytes: 0 })?;
        Ok(height)
    }

    /// Works until a block is released. `None`: no block is under way. `Err`: halt.
    pub fn release(
        &mut self,
        pool: &WorkerPool,
        halves: Halves,
    ) -> Result<Option<Finished<T>>, String> {
        while self.released.is_empty() && !self.pipeline.is_idle() {
            self.turn(pool, halves)?;
        }
        Ok(self.released.pop_front())
    }

    fn release_one(&mut self) {
        if let Some(finished) = self.finished.pop_front() {
            // The batch after it has seen nothing, whether or not it is cut already.
            let safe = self.pipeline.rules().lag == 1;
            self.safe.published(self.line.store(), safe);
            self.released.push_back(finished);
        }
    }

    fn step(&mut self, event: Event) -> Result<(), String> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for action in self.pipeline.step(event) {
                events.extend(self.act(action)?);
            }
        }
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<Option<Event>, String> {
        match action {
            Action::Append(height) => return Ok(Some(Event::Durable(height))),
            Action::Prepare { height, snapshots } => {
                let not_ordered = || format!("block {height} was not ordered");
                let Batch { time_us, tasks } =
                    self.ordered.remove(&height).ok_or_else(not_ordered)?;
                self.to_prepare = Some(self.line.plan(height, time_us, tasks, snapshots));
            }
            Action::Finish(height) => self.to_finish = self.ready.remove(&height),
            Action::Publish(height) => self.line.store().publish(height),
            Action::Answer(_) => self.release_one(),
            Action::Collect => drop(self.line.store().collect()),
            // Nothing is written, so that there is nothing to stop either.
            Action::Record(_) | Action::Checkpoint(_) | Action::Halt => {}
        }
        Ok(None)
    }

    /// Finishes one block and prepares another.
    fn turn(&mut self, pool: &WorkerPool, halves: Halves) -> Result<(), String> {
        let (finish, prepare) = (self.to_finish.take(), self.to_prepare.take());
        if finish.is_none() && prepare.is_none() {
            return Err("the schedule has nothing to do".to_owned());
        }
        let line = &mut self.line;
        let finish = || finish.map(|ready| line.finish(ready, pool)).transpose();
        let prepare = |pool: &WorkerPool| prepare.map(|planned| planned.prepare(pool)).transpose();
        let (finished, ready) = match halves {
            Halves::PrepareFirst => {
                let ready = prepare(pool)?;
                (finish()?, ready)
            }
            Halves::FinishFirst => (finish()?, prepare(pool)?),
            Halves::Together => {
                let (finished, ready) = pool.join(finish, prepare);
                (finished?, ready?)
            }
        };
        if let Some(finished) = finished {
            let (height, rules) = (finished.block.height, self.pipeline.rules());
            self.safe.finished(
                !finished.inter_block_reorderings.is_empty() && !mutated("unsafe_height_read"),
            );
            self.finished.push_back(finished);
            self.step(Event::Finished { height, rules })?;
        }
        if let Some(ready) = ready {
            let height = ready.height();
            self.ready.insert(height, ready);
            self.step(Event::Prepared(height))?;
        }
        Ok(())
    }
}
