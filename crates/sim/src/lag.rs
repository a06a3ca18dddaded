//! Blocks that overlap: each is prepared on the snapshot before last, while the one before it is
//! not finished.
//!
//! ```text
//!   block 5   a b c        its order, without those that overtake
//!   block 6   d e f        e overtakes c
//!   replay    a b e c d f
//! ```
//!
//! The stepper drives the product's pipeline and line; disks and clients are left to the other
//! world, since no ledger runs under such a protocol. The serial order is one sequence across
//! blocks. Readers come between blocks and see the newest [safe](pipeline::SafeSnapshot) state,
//! which must be what the specification has come to behind that block.

use std::cell::Cell;
use std::sync::Arc;

use concurrency::{Crew, Outcome, Work};
use engine::{Language, Transaction};
use kit::random::Random;
use pipeline::{
    Batch, Cadence, Decided, Finished, Halves, Line, LineStart, Origin, Pipeline, Rules, Settled,
    Stepper,
};
use storage::Store;
use types::{Height, Position};

use crate::client::{draw_call, draw_read};
use crate::language::Calls;
use crate::model::{Answer, State};
use crate::operation::Call;
use crate::reader::{read, read_tables};
use crate::{Options, Stats, Wrong, wrong};

/// Blocks of the schema are none, so that the first height is 1.
const SCHEMA: [&str; 2] = ["create table main", "create index main"];
const BLOCKS_MAX: u64 = 120;
const ATTEMPTS_MAX: u32 = 8;

/// A block that was released, with what it claims.
struct Done {
    calls: Vec<Call>,
    outcomes: Vec<Outcome>,
    /// Runs again in a later block.
    later: Vec<bool>,
    serial_order: Vec<Position>,
    overtakings: Vec<(Position, Position)>,
}

struct Reading {
    height: Height,
    call: Call,
    answer: Answer,
}

struct World<'a> {
    random: Random,
    step: &'a Cell<u64>,
    hot: bool,
    language: Calls,
    stepper: Stepper<Arc<Work>>,
    crew: Crew,
    /// By height, from 1 on: what was ordered.
    ordered: Vec<Vec<Call>>,
    done: Vec<Done>,
    readings: Vec<Reading>,
}

pub(crate) fn run(seed: u64, options: &Options, step: &Cell<u64>) -> Result<Stats, Wrong> {
    let mut world = World::new(seed, options, step)?;
    let blocks = 4 + options.steps.min(BLOCKS_MAX);
    let largest = 1 + options.clients as u64;
    for _ in 0..blocks {
        step.set(step.get() + 1);
        let count = world.random.below(largest + 1);
        world.block(count)?;
        (0..world.random.below(3)).try_for_each(|_| world.read())?;
    }
    world.drain()?;
    world.check()
}

impl World<'_> {
    fn new<'a>(seed: u64, options: &'a Options, step: &'a Cell<u64>) -> Result<World<'a>, Wrong> {
        let store = Arc::new(Store::new());
        let language = Calls::default();
        for text in SCHEMA {
            let applied = language.apply(text, &store, 0, 0);
            applied.map_err(|error| wrong("start", error))?;
        }
        store.finish_unread(store.begin_block(0, 1));
        store.publish(0);
        let protocol = protocols::by_name(&options.protocol);
        let protocol = protocol.map_err(|error| wrong("start", error))?;
        let cadence = Cadence { collect_blocks: 1, ..Cadence::default() };
        let pipeline = Pipeline::new(0, 0, Rules::of(&*protocol), cadence);
        let (carried, deferred) = Default::default();
        let start = LineStart { protocol, carried, deferred };
        let line = Line::new(store, start, ATTEMPTS_MAX);
        let stepper = Stepper::new(line, pipeline);
        let (ordered, done, readings) = Default::default();
        let random = Random::new(seed);
        let hot = options.hot;
        let crew = Crew::new(1);
        Ok(World { random, step, hot, language, stepper, crew, ordered, done, readings })
    }

    fn block(&mut self, count: u64) -> Result<(), Wrong> {
        let main = |call: Call| Call { table: "main", ..call };
        let calls: Vec<Call> =
            (0..count).map(|_| main(draw_call(self.hot, &mut self.random))).collect();
        let tasks = calls.iter().map(|call| self.work(call)).collect();
        let height = self.ordered.len() as i64 + 1;
        self.ordered.push(calls);
        // As many blocks are under way as may be.
        while !self.stepper.pipeline().may_order() {
            self.release()?;
        }
        self.stepper.order(Batch { time_us: height, tasks }).map_err(|why| wrong("halt", why))?;
        Ok(())
    }

    /// Works until a block is released, if one is under way.
    fn release(&mut self) -> Result<(), Wrong> {
        let halves = match self.random.chance(2) {
            true => Halves::PrepareFirst,
            false => Halves::FinishFirst,
        };
        let released =
            self.stepper.release(&self.crew, halves).map_err(|why| wrong("halt", why))?;
        released.into_iter().for_each(|finished| self.released(finished));
        Ok(())
    }

    fn work(&self, call: &Call) -> Arc<Work> {
        let transaction = Transaction {
            user: String::new(),
            settings: Vec::new(),
            seed: [0; 16],
            body: call.body(),
        };
        Arc::new(self.language.compile(&transaction).unwrap_or_else(Work::Void))
    }

    fn released(&mut self, finished: Finished<Arc<Work>>) {
        let Finished { settled, serial_order, overtakings, .. } = finished;
        let call =
            |Origin { height, index }: Origin| self.ordered[height as usize - 1][index as usize];
        let calls = settled.iter().map(|settled| call(settled.origin)).collect();
        let later = |settled: &Settled<_>| matches!(settled.decided, Decided::Later);
        let later = settled.iter().map(later).collect();
        let outcomes = settled.into_iter().map(|settled| settled.outcome).collect();
        self.done.push(Done { calls, outcomes, later, serial_order, overtakings });
    }

    /// A reader comes by.
    fn read(&mut self) -> Result<(), Wrong> {
        let call = Call { table: "main", ..draw_read(&mut self.random) };
        let snapshot = self.stepper.safe().snapshot();
        let answer = read(snapshot, &call)?;
        self.readings.push(Reading { height: snapshot.height(), call, answer });
        Ok(())
    }

    /// Until all blocks are released and nothing waits.
    fn drain(&mut self) -> Result<(), Wrong> {
        let most = self.ordered.len() + 20 * ATTEMPTS_MAX as usize;
        loop {
            while !self.stepper.pipeline().is_idle() {
                self.release()?;
            }
            if !self.stepper.line().has_deferred() {
                return Ok(());
            }
            if self.ordered.len() > most {
                return Err(wrong("progress", "transactions are put off for ever"));
            }
            self.block(0)?;
        }
    }

    fn check(self) -> Result<Stats, Wrong> {
        let states = replay(&self.done)?;
        for Reading { height, call, answer } in &self.readings {
            let specified = states[*height as usize].clone().call(call);
            if specified != *answer {
                let what = format!("{call:?} behind {height}: {answer:?}, not {specified:?}");
                return Err(wrong("own past", what));
            }
        }
        let found = read_tables(self.stepper.line().store(), None)?;
        let last = states.last().cloned().unwrap_or_default();
        if found != last {
            return Err(wrong("serial replay", format!("{found:?}, specified is {last:?}")));
        }
        Ok(Stats {
            steps: self.step.get(),
            blocks: self.done.len() as u64,
            transactions: self.ordered.iter().map(|calls| calls.len() as u64).sum(),
            deferred: self.done.iter().flat_map(|done| &done.later).filter(|later| **later).count()
                as u64,
            reads: self.readings.len() as u64,
            ..Stats::default()
        })
    }
}

/// The state behind each block, from 0 on, with what overtakes into it.
fn replay(done: &[Done]) -> Result<Vec<State>, Wrong> {
    let mut state = State::default();
    for text in SCHEMA {
        state.change(text).map_err(|code| wrong("start", code))?;
    }
    let mut states = vec![state.clone()];
    for (at, this) in done.iter().enumerate() {
        let next = done.get(at + 1);
        for &position in this.serial_order.iter().filter(|position| !this.overtakes(**position)) {
            for (next, overtaker) in next.iter().flat_map(|next| next.overtakers_of(position)) {
                next.specify(overtaker, at + 2, &mut state)?;
            }
            this.specify(position, at + 1, &mut state)?;
        }
        states.push(state.clone());
    }
    Ok(states)
}

impl Done {
    fn overtakes(&self, position: Position) -> bool {
        self.overtakings.iter().any(|(overtaker, _)| *overtaker == position)
    }

    /// In their own order.
    fn overtakers_of(&self, position: Position) -> impl Iterator<Item = (&Done, Position)> {
        let passes = move |overtaker: &Position| self.overtakings.contains(&(*overtaker, position));
        self.serial_order.iter().copied().filter(passes).map(move |overtaker| (self, overtaker))
    }

    fn specify(&self, position: Position, height: usize, state: &mut State) -> Result<(), Wrong> {
        let place = position as usize;
        let (call, outcome) = (&self.calls[place], &self.outcomes[place]);
        if self.later[place] || matches!(outcome, Outcome::Retry(_)) {
            return Ok(());
        }
        let specified = state.call(call);
        let agrees = match (&specified, outcome) {
            (Ok(rows), Outcome::Committed(result)) => {
                rows.len() == result.rows.len()
                    && rows.iter().zip(&result.rows).all(|(ours, theirs)| ours[..] == theirs[..])
            }
            (Err(code), Outcome::Rejected(error)) => *code == error.code(),
            _ => false,
        };
        match agrees {
            true => Ok(()),
            false => {
                let what = format!(
                    "{call:?} at {position} of block {height}: {outcome:?}, not {specified:?}"
                );
                Err(wrong("serial replay", what))
            }
        }
    }
}
