//! The schedule of a node's blocks, as a value: `step(event) -> actions`.
//!
//! *Invariants.*
//! - Each step of a block happens once: ordered, prepared, finished, published, answered, recorded;
//!   blocks are finished and published in the order of their heights.
//! - **Durable, then released**: a block is published, and its clients are answered, only when its
//!   order is on stable storage *and* it is finished.
//! - Block H is prepared on the snapshot `max(H - lag, floor, seen)`, H - 1 at most, where the
//!   floor is the last barrier before it: a function of the order alone, so that every replica
//!   prepares alike. The snapshot's block has been published by then, unless preparing reads no
//!   rows.
//! - Every [`SAFE_BLOCKS`]th block is prepared as with a lag of 1.
//! - A barrier (a block with a schema change or a change of parameters) is prepared on the block
//!   before it, and no later block is prepared before it is published.
//! - After a failure nothing is released any more.
//!
//! *A session sees its own past.* A block has *seen* what the entry nodes of its transactions had
//! released when these were made, and what its proposer had released when it was cut. Its snapshot
//! is no older, so nothing in it is put before what its clients know to have happened, and what is
//! read of a block that has no successor yet stays a state of the serial order. A batch that is
//! cut under load, while the block before is under way, has seen the block before that one: the
//! two overlap. A lone request has seen the newest block and is prepared on it, as with a lag of 1.
//! Nothing has to run late, after the others.
//!
//! *Safe states come often.* Under load and with some conflicts each block reorders the one before
//! it, and no height would be a state of the serial order for as long as the load lasts. Readers
//! would hold the last one that was, and with it every version since. Nothing reorders what lies
//! before a block that is prepared on the newest state, so every few blocks one is. One pool does
//! both halves, so that it loses little by doing them one after the other.
//!
//! *Order first or run first.* Under a deterministic protocol a block's order is written while the
//! block is executed. Where transactions run as they arrive, their order is known afterwards: such
//! a block is finished first, then appended.
//!
//! *Cost.* A few comparisons and no allocation for each event.

use std::collections::VecDeque;

use concurrency::Snapshots;
use types::Height;

/// Of so many blocks one is prepared on the block before it, whatever the lag.
pub const SAFE_BLOCKS: Height = 8;

/// Why a block separates those before it from those after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Barrier {
    None,
    /// It may change the schema: nothing after it is prepared before it is there.
    Schema,
    /// It may change parameters: nothing after it is ordered before it is there, since order
    /// headers name the parameters.
    Parameters,
}

/// What the parameters of a ledger say about its pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// How far behind a block its snapshot is, at least 1.
    pub lag: Height,
    /// Preparing reads no rows, so that it needs no snapshot.
    pub plans_ahead: bool,
    /// A block's order is known only when it has run.
    pub runs_first: bool,
}

impl Rules {
    pub fn of(protocol: &dyn concurrency::Protocol) -> Rules {
        Rules {
            lag: protocol.snapshot_lag(),
            plans_ahead: protocol.plans_ahead(),
            runs_first: !protocol.info().deterministic,
        }
    }

    /// Blocks from one that defers a transaction, or decides it, to the first that is certain to be
    /// prepared afterwards.
    pub fn carry_lag(&self) -> Height {
        if self.plans_ahead { self.lag.max(2) } else { self.lag }
    }

    /// Whether a block may be ordered before the one before it is finished.
    pub fn overlap(&self) -> bool {
        self.depth() > 1
    }

    /// What a block is prepared on. `floor`: the last barrier before it; `seen`: the newest block
    /// that its proposer had seen, or one of its clients.
    pub fn snapshots(
        &self,
        height: Height,
        barrier: Barrier,
        floor: Height,
        seen: Height,
    ) -> Snapshots {
        let lag = match barrier {
            Barrier::None if !height.is_multiple_of(SAFE_BLOCKS) => self.lag,
            Barrier::None | Barrier::Schema | Barrier::Parameters => 1,
        };
        let newest = height.saturating_sub(lag).max(floor).max(seen);
        Snapshots { newest: newest.min(height.saturating_sub(1)), floor }
    }

    /// Blocks that may be ordered and not yet finished.
    fn depth(&self) -> usize {
        if self.runs_first { 1 } else { self.carry_lag() as usize }
    }
}

/// How often what is due now and then is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cadence {
    /// Versions that no snapshot needs are freed after so many blocks.
    pub collect_blocks: Height,
    /// A checkpoint is due after so many blocks, and after so many bytes of them; 0: never.
    pub checkpoint_blocks: u64,
    pub checkpoint_bytes: u64,
}

impl Default for Cadence {
    fn default() -> Self {
        Cadence { collect_blocks: 8, checkpoint_blocks: 0, checkpoint_bytes: 0 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The next height has a batch, of so many bytes, which has seen so many blocks.
    Ordered {
        height: Height,
        barrier: Barrier,
        seen: Height,
        bytes: u64,
    },
    Prepared(Height),
    /// Its writes are in the store; the rules that hold after it.
    Finished {
        height: Height,
        rules: Rules,
    },
    /// Its order is on stable storage.
    Durable(Height),
    /// Something could not be done; nothing will be released any more.
    Failed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Write the order and wait for stable storage.
    Append(Height),
    Prepare {
        height: Height,
        snapshots: Snapshots,
    },
    Finish(Height),
    /// Let readers see the block.
    Publish(Height),
    Answer(Height),
    /// Write the result; it can be computed again, so nothing waits for it.
    Record(Height),
    /// Free what no snapshot needs.
    Collect,
    /// A checkpoint after this block is due.
    Checkpoint(Height),
    /// Stop: reads only from now on.
    Halt,
}

/// A few actions, to be done in this order.
pub type Actions = smallvec::SmallVec<[Action; 8]>;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    Ordered,
    Preparing,
    Prepared,
    Finishing,
    Finished,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    barrier: Barrier,
    snapshots: Snapshots,
    bytes: u64,
    stage: Stage,
    durable: bool,
}

#[derive(Clone, Debug)]
pub struct Pipeline {
    rules: Rules,
    cadence: Cadence,
    /// Ordered and not yet published, from `published + 1` on.
    slots: VecDeque<Slot>,
    published: Height,
    /// The last barrier that was ordered, or where the pipeline began.
    barrier: Height,
    blocks_since: u64,
    bytes_since: u64,
    halted: bool,
    #[cfg(test)]
    mutant: Option<&'static str>,
}

impl Pipeline {
    /// Goes on after `published`. `floor`: no snapshot below it can be read.
    pub fn new(published: Height, floor: Height, rules: Rules, cadence: Cadence) -> Pipeline {
        Pipeline {
            rules,
            cadence,
            slots: VecDeque::new(),
            published,
            barrier: floor,
            blocks_since: 0,
            bytes_since: 0,
            halted: false,
            #[cfg(test)]
            mutant: None,
        }
    }

    /// What came since the last checkpoint, of which a start has executed some.
    pub fn count_since_checkpoint(&mut self, blocks: u64, bytes: u64) {
        self.blocks_since += blocks;
        self.bytes_since += bytes;
    }

    /// Bugs that a simulation must find.
    #[cfg(test)]
    pub const MUTANTS: [&str; 2] = ["released_before_durable", "lag_off_by_one"];

    #[cfg(test)]
    pub fn with_mutant(self, mutant: &'static str) -> Pipeline {
        assert!(Self::MUTANTS.contains(&mutant), "no mutant {mutant}");
        Pipeline { mutant: Some(mutant), ..self }
    }

    fn mutated(&self, mutant: &'static str) -> bool {
        #[cfg(test)]
        if self.mutant == Some(mutant) {
            return true;
        }
        kit::mutant::mutated(mutant)
    }

    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// The height that the next batch has.
    pub fn next_height(&self) -> Height {
        self.published + self.slots.len() as Height + 1
    }

    pub fn published(&self) -> Height {
        self.published
    }

    /// Whether a batch may be ordered now: there is room, the order log is idle, and the parameters
    /// that its header names are known.
    pub fn may_order(&self) -> bool {
        let unfinished = self.slots.iter().filter(|slot| slot.stage < Stage::Finished).count();
        let appending = self.slots.iter().any(|slot| !slot.durable);
        let changing = self.slots.iter().any(|slot| slot.barrier == Barrier::Parameters);
        !(self.halted || unfinished >= self.rules.depth() || appending || changing)
    }

    /// Whether no block under way may reorder the newest published one: what readers see of it is
    /// a state of the serial order.
    pub fn newest_is_safe(&self) -> bool {
        self.slots.front().is_none_or(|slot| slot.snapshots.newest >= self.published)
    }

    /// Whether a block waits to be prepared, or is.
    pub fn is_preparing(&self) -> bool {
        self.slots.iter().any(|slot| slot.stage <= Stage::Preparing)
    }

    /// Whether no block is under way.
    pub fn is_idle(&self) -> bool {
        self.slots.is_empty()
    }

    pub fn step(&mut self, event: Event) -> Actions {
        let mut actions = Actions::new();
        if self.halted {
            return actions;
        }
        match event {
            Event::Ordered { height, barrier, seen, bytes } => {
                assert_eq!(height, self.next_height(), "batches come in the order of heights");
                self.ordered(barrier, seen, bytes);
                if !self.rules.runs_first {
                    actions.push(Action::Append(height));
                }
            }
            Event::Prepared(height) => self.advance(height, Stage::Preparing, Stage::Prepared),
            Event::Finished { height, rules } => self.finished(height, rules, &mut actions),
            Event::Durable(height) => self.slot(height).durable = true,
            Event::Failed => {
                self.halted = true;
                actions.push(Action::Halt);
                return actions;
            }
        }
        self.release(&mut actions);
        self.dispatch(&mut actions);
        actions
    }

    fn ordered(&mut self, barrier: Barrier, seen: Height, bytes: u64) {
        let height = self.next_height();
        let late = Height::from(self.mutated("lag_off_by_one"));
        let rules = Rules { lag: self.rules.lag + late, ..self.rules };
        let snapshots = rules.snapshots(height, barrier, self.barrier, seen);
        let stage = Stage::Ordered;
        self.slots.push_back(Slot { barrier, snapshots, bytes, stage, durable: false });
        if barrier != Barrier::None {
            self.barrier = height;
        }
    }

    fn finished(&mut self, height: Height, rules: Rules, actions: &mut Actions) {
        self.advance(height, Stage::Finishing, Stage::Finished);
        if self.rules.runs_first {
            actions.push(Action::Append(height));
        }
        if rules != self.rules {
            let barrier = self.slot(height).barrier;
            assert_eq!(barrier, Barrier::Parameters, "rules change by a change of parameters");
            assert_eq!(self.slots.len(), 1, "nothing is ordered behind a change of parameters");
            self.rules = rules;
        }
    }

    fn advance(&mut self, height: Height, from: Stage, to: Stage) {
        let slot = self.slot(height);
        assert_eq!(slot.stage, from, "block {height} was not {from:?}");
        slot.stage = to;
    }

    fn slot(&mut self, height: Height) -> &mut Slot {
        let index = height.checked_sub(self.published + 1);
        let slot = index.and_then(|index| self.slots.get_mut(index as usize));
        slot.unwrap_or_else(|| panic!("block {height} is not under way"))
    }

    /// Publishes and answers blocks that are finished and durable.
    fn release(&mut self, actions: &mut Actions) {
        while let Some(slot) = self.slots.front().copied() {
            let durable = slot.durable || self.mutated("released_before_durable");
            if slot.stage != Stage::Finished || !durable {
                return;
            }
            self.slots.pop_front();
            self.published += 1;
            let height = self.published;
            actions.extend([
                Action::Publish(height),
                Action::Answer(height),
                Action::Record(height),
            ]);
            self.due(height, slot.bytes, actions);
        }
    }

    fn due(&mut self, height: Height, bytes: u64, actions: &mut Actions) {
        let Cadence { collect_blocks, checkpoint_blocks, checkpoint_bytes } = self.cadence;
        self.count_since_checkpoint(1, bytes);
        let over = |since: u64, limit: u64| limit > 0 && since >= limit;
        if over(self.blocks_since, checkpoint_blocks) || over(self.bytes_since, checkpoint_bytes) {
            (self.blocks_since, self.bytes_since) = (0, 0);
            actions.push(Action::Checkpoint(height));
        }
        if height.is_multiple_of(collect_blocks.max(1)) {
            actions.push(Action::Collect);
        }
    }

    /// Begins whatever can begin.
    fn dispatch(&mut self, actions: &mut Actions) {
        self.dispatch_finish(actions);
        self.dispatch_prepare(actions);
    }

    fn dispatch_finish(&mut self, actions: &mut Actions) {
        let height = self.published + 1;
        if let Some(first) = self.slots.front_mut()
            && first.stage == Stage::Prepared
        {
            first.stage = Stage::Finishing;
            actions.push(Action::Finish(height));
        }
    }

    /// Blocks are prepared in the order of their heights.
    fn dispatch_prepare(&mut self, actions: &mut Actions) {
        let Some(index) = self.slots.iter().position(|slot| slot.stage == Stage::Ordered) else {
            return;
        };
        let height = self.published + 1 + index as Height;
        let busy = self.slots.range(..index).any(|slot| slot.stage == Stage::Preparing);
        let snapshots = self.slots[index].snapshots;
        let blind = self.rules.plans_ahead && snapshots.floor <= self.published;
        if !busy && (blind || snapshots.newest <= self.published) {
            self.slots[index].stage = Stage::Preparing;
            actions.push(Action::Prepare { height, snapshots });
        }
    }
}

#[cfg(test)]
mod tests;
