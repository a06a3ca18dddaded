//! The driver: workers, retries, and the order that came of it.
//!
//! ```text
//!   worker 0   T0 T1 T2 ✗T3 T4 ·T3 …      ✗ conflict: put aside; · again, after the next one
//!   worker 1   T8 T9 ✗T10 T11 ·✗T10 …
//!                                 │ too many conflicts
//!   afterwards                    └► T10, alone ──► sort the places ──► renumber the stamps
//! ```
//!
//! *Back-off is other work.* Who meets a conflict is put aside while its worker runs the next
//! transaction; with none left the worker gives up its processor before it tries again, then
//! sleeps. Who has met [`CONFLICTS_MAX`] conflicts waits for the end of the block, when nobody else
//! runs: so every transaction ends, nobody is told to try again because of others, and nobody
//! waits for long.
//!
//! *Invariants.* Each transaction ends once and has one place. Alone, nobody meets a conflict.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use concurrency::{
    Block, BlockOutcome, BlockReport, Carried, Crew, Foresight, OptionValues, Options, Outcome,
    Prepared, Protocol, ProtocolInfo, ProtocolOption, Snapshots, Span, Timing, Watch, foresight,
    trial,
};
use kit::sync;
use procedure::{Frame, ProgramResult};
use storage::{BlockWrites, Store, UndoArena};
use types::{Position, Stop};

use super::flaw::Flaw;
use super::order::{Draw, Draws, Place};
use super::seam::{Conflict, Ended, Epoch, Healing, Online, Session};

/// Conflicts after which a transaction waits for the end of the block.
const CONFLICTS_MAX: u32 = 16;

/// Conflicts of one transaction after which its worker sleeps and does not only yield.
const YIELDS: u32 = 4;

const NAP: Duration = Duration::from_micros(50);

/// Fewer transactions are done before other workers are awake.
const TRANSACTIONS_MIN: usize = 16;

/// For measurements: so many transactions of each worker are under way at once, each committing
/// when all others have run behind it. Each stands for a processor of its own: after a conflict it
/// begins again at once, while the others are where they are.
pub const INTERLEAVED: ProtocolOption = ProtocolOption {
    name: "interleaved",
    values: OptionValues::Integer { min: 1, max: 64, default: 1 },
    what: "transactions that each worker has under way at once, to measure contention",
};

/// Any protocol of the family, as the rest of the system sees it.
pub struct Arriving<P> {
    protocol: Arc<P>,
    /// Transactions that a worker has under way at once.
    interleaved: usize,
    watch: Option<Arc<Watch>>,
    /// Tests of the tests: stamps keep the numbers that were drawn.
    keeps_draws: bool,
}

impl<P: Online + 'static> Arriving<P> {
    /// What the options ask for, of a protocol that `build` makes with the flaw in them.
    pub fn made(options: &Options, build: impl FnOnce(Option<Flaw>) -> P) -> Arc<dyn Protocol> {
        let flaw = options.flaw.and_then(Flaw::by_name);
        let protocol = build(flaw);
        let info = protocol.info();
        Arc::new(Arriving {
            // A protocol without the option says 0.
            interleaved: options.number(info, INTERLEAVED.name).max(1) as usize,
            protocol: Arc::new(protocol),
            watch: options.watch.clone(),
            keeps_draws: flaw == Some(Flaw::StampsKeepDraws),
        })
    }
}

impl<P: Online> Protocol for Arriving<P> {
    fn info(&self) -> &'static ProtocolInfo {
        self.protocol.info()
    }

    /// As the block is sealed.
    fn keeps_block_order(&self) -> bool {
        true
    }

    fn prepare(
        &self,
        _: &Arc<Block>,
        _: &Arc<Store>,
        _: Snapshots,
        _: &Crew,
    ) -> Result<Prepared, String> {
        Ok(Box::new(()) as Box<dyn Any + Send>)
    }

    fn finish(
        &self,
        _: Prepared,
        block: &Arc<Block>,
        store: &Arc<Store>,
        writes: &mut BlockWrites,
        _: &Carried,
        crew: &Crew,
    ) -> Result<BlockOutcome, String> {
        let catalog = store.catalog();
        let epoch = Epoch { block: Arc::clone(block), catalog, draws: Draws::default() };
        let running = Arc::new(Running {
            protocol: Arc::clone(&self.protocol),
            interleaved: self.interleaved,
            watch: self.watch.clone(),
            epoch: Arc::new(epoch),
            next: AtomicUsize::new(0),
            ended: Mutex::default(),
            healing: Mutex::default(),
            left: Mutex::default(),
            halted: OnceLock::new(),
        });
        run_all(&running, writes, crew);
        let running = Arc::into_inner(running).expect("the crew has let go of a finished job");
        if let Some(why) = running.halted.into_inner() {
            return Err(why);
        }
        let ended = running.ended.into_inner().unwrap_or_else(|e| e.into_inner());
        let healing = running.healing.into_inner().unwrap_or_else(|e| e.into_inner());
        let (mut outcome, positions) = in_order(ended, running.epoch.draws.end());
        outcome.report.healed = Timing(healing.healed);
        outcome.report.healed_whole = Timing(healing.whole);
        outcome.report.relocked = Timing(healing.relocked);
        if let Some(positions) = positions
            && !self.keeps_draws
        {
            writes.renumber(&running.epoch.catalog, &positions);
        }
        Ok(outcome)
    }
}

/// What the workers share.
struct Running<P> {
    protocol: Arc<P>,
    interleaved: usize,
    watch: Option<Arc<Watch>>,
    epoch: Arc<Epoch>,
    /// First transaction that nobody has taken.
    next: AtomicUsize,
    ended: Mutex<Vec<Done>>,
    healing: Mutex<Healing>,
    /// To be run when nobody else does.
    left: Mutex<Vec<Aside>>,
    /// Why the replica must stop.
    halted: OnceLock<String>,
}

/// A transaction that is over.
struct Done {
    place: Place,
    arrival: Position,
    draw: Option<Draw>,
    conflicts: u32,
    outcome: Outcome,
}

/// One that has met conflicts, or is new.
#[derive(Clone, Copy)]
struct Aside {
    arrival: Position,
    conflicts: u32,
    /// On attempts that came to nothing, where somebody watches.
    lost_ns: u64,
}

impl Aside {
    fn fresh(arrival: Position) -> Aside {
        Aside { arrival, conflicts: 0, lost_ns: 0 }
    }
}

fn run_all<P: Online>(running: &Arc<Running<P>>, writes: &mut BlockWrites, crew: &Crew) {
    let arenas: Arc<Vec<_>> = Arc::new(writes.take().into_iter().map(Mutex::new).collect());
    let job = (Arc::clone(running), Arc::clone(&arenas));
    let work = move |worker: usize| {
        let (running, arenas) = &job;
        Worker::new(running, running.interleaved).work(&mut lock(&arenas[worker]));
    };
    if running.epoch.block.transactions.len() >= trial::threshold(TRANSACTIONS_MIN) {
        crew.run(work);
    } else {
        work(0);
        drop(work);
    }
    let left = std::mem::take(&mut *lock(&running.left));
    if !left.is_empty() && running.halted.get().is_none() {
        Worker::new(running, 1).run_alone(left, &mut lock(&arenas[0]));
    }
    let arenas = Arc::into_inner(arenas).expect("the crew has let go of a finished job");
    for arena in arenas {
        writes.give(arena.into_inner().unwrap_or_else(|e| e.into_inner()));
    }
}

impl<P> Running<P> {
    /// Of no account where nobody watches.
    fn now_ns(&self) -> u64 {
        self.watch.as_ref().map_or(0, |watch| (watch.now_ns)())
    }
}

struct Worker<'r, P: Online> {
    running: &'r Running<P>,
    /// One for each transaction under way; the next to begin is at `turn`.
    lanes: Vec<Lane<P::Session>>,
    turn: usize,
    aside: VecDeque<Aside>,
    done: Vec<Done>,
    spans: Vec<Span>,
}

/// What one transaction at a time is run with.
struct Lane<S> {
    session: S,
    frame: Frame,
    /// It has run, and is to commit.
    under_way: Option<(Aside, Result<ProgramResult, Stop>)>,
    spent_ns: u64,
}

impl<'r, P: Online> Worker<'r, P> {
    fn new(running: &'r Running<P>, lanes: usize) -> Self {
        let lane = |_| Lane {
            session: running.protocol.session(&running.epoch),
            frame: Frame::default(),
            under_way: None,
            spent_ns: 0,
        };
        let lanes = (0..lanes).map(lane).collect();
        Worker {
            running,
            lanes,
            turn: 0,
            aside: VecDeque::new(),
            done: Vec::new(),
            spans: Vec::new(),
        }
    }

    fn work(mut self, undo: &mut UndoArena) {
        let running = self.running;
        let transactions = &running.epoch.block.transactions;
        let mut foresight = Foresight::new(Arc::clone(&running.epoch.catalog), transactions.len());
        let group = trial::threshold(foresight::GROUP);
        loop {
            let first = running.next.fetch_add(group, Ordering::Relaxed);
            let end = transactions.len().min(first + group);
            if first >= end || running.halted.get().is_some() {
                break;
            }
            foresight.fetch(transactions[first..end].iter().map(|work| &**work));
            for arrival in first..end {
                self.attempt(Aside::fresh(arrival as Position), undo);
                self.try_again(undo);
            }
        }
        self.run_down(undo);
        while let Some(aside) = self.aside.pop_front() {
            if aside.conflicts <= YIELDS {
                sync::yield_now()
            } else {
                sync::nap(NAP)
            }
            self.attempt(aside, undo);
            self.commit_all(undo);
        }
        self.hand_in();
    }

    /// The others are done.
    fn run_alone(mut self, left: Vec<Aside>, undo: &mut UndoArena) {
        for aside in left {
            self.run(aside);
            if self.commit(undo).is_err() {
                let what = "a transaction that ran alone met a conflict";
                let _ = self.running.halted.set(what.to_owned());
            }
        }
        self.hand_in();
    }

    fn hand_in(self) {
        if let Some(watch) = &self.running.watch {
            lock(&watch.spans).extend(&self.spans);
        }
        let mut healing = lock(&self.running.healing);
        for counts in self.lanes.iter().map(|lane| lane.session.healing()) {
            healing.healed += counts.healed;
            healing.whole += counts.whole;
            healing.relocked += counts.relocked;
        }
        drop(healing);
        let mut ended = lock(&self.running.ended);
        match ended.is_empty() {
            true => *ended = self.done,
            false => ended.extend(self.done),
        }
    }

    /// Run a transaction in the free lane, and commit the one that is then the oldest.
    fn attempt(&mut self, aside: Aside, undo: &mut UndoArena) {
        if self.running.halted.get().is_some() {
            return;
        }
        self.run(aside);
        if matches!(self.lanes[self.turn].under_way, Some((_, Err(_)))) {
            // Who has failed may hold what others need.
            self.settle(undo);
        }
        self.settle_oldest(undo);
    }

    fn settle_oldest(&mut self, undo: &mut UndoArena) {
        self.turn = (self.turn + 1) % self.lanes.len();
        self.settle(undo);
    }

    /// One who has met a conflict; where lanes stand for processors, all of them at once.
    fn try_again(&mut self, undo: &mut UndoArena) {
        while let Some(aside) = self.aside.pop_front() {
            self.attempt(aside, undo);
            if self.lanes.len() == 1 {
                break;
            }
        }
    }

    /// There is nothing new: whoever meets a conflict tries again beside what is under way.
    fn run_down(&mut self, undo: &mut UndoArena) {
        while self.lanes.len() > 1 && self.lanes.iter().any(|lane| lane.under_way.is_some()) {
            match self.aside.pop_front() {
                Some(aside) => self.attempt(aside, undo),
                None => self.settle_oldest(undo),
            }
        }
    }

    /// Commit all that is under way, the oldest first.
    fn commit_all(&mut self, undo: &mut UndoArena) {
        for _ in 0..self.lanes.len() {
            self.settle_oldest(undo);
        }
    }

    /// Commit what is in the lane, if there is something, or put it aside.
    fn settle(&mut self, undo: &mut UndoArena) {
        let Err(aside) = self.commit(undo) else { return };
        let aside = Aside { conflicts: aside.conflicts + 1, ..aside };
        match aside.conflicts < CONFLICTS_MAX {
            true => self.aside.push_back(aside),
            false => lock(&self.running.left).push(aside),
        }
    }

    fn run(&mut self, aside: Aside) {
        let epoch = &self.running.epoch;
        let work = epoch.work(aside.arrival);
        let began_ns = self.running.now_ns();
        let Lane { session, frame, under_way, spent_ns } = &mut self.lanes[self.turn];
        let run = session.run(epoch.start(aside.arrival, aside.conflicts), work, frame);
        *under_way = Some((aside, run));
        *spent_ns = self.running.now_ns() - began_ns;
        trial::pause();
    }

    fn commit(&mut self, undo: &mut UndoArena) -> Result<(), Aside> {
        let began_ns = self.running.now_ns();
        let Lane { session, under_way, spent_ns, .. } = &mut self.lanes[self.turn];
        let Some((aside, run)) = under_way.take() else { return Ok(()) };
        let committed = session.commit(run, undo).inspect_err(|Conflict| session.abort());
        let spent_ns = *spent_ns + self.running.now_ns() - began_ns;
        let Aside { arrival, conflicts, lost_ns } = aside;
        let Ended { place, draw, run } =
            committed.map_err(|Conflict| Aside { lost_ns: lost_ns + spent_ns, ..aside })?;
        if self.running.watch.is_some() {
            let height = self.running.epoch.block.height;
            let spent_ns = lost_ns + spent_ns;
            self.spans.push(Span { height, arrival, spent_ns, lost_ns });
        }
        match Outcome::from_run(run) {
            Ok(outcome) => self.done.push(Done { place, arrival, draw, conflicts, outcome }),
            Err(why) => drop(self.running.halted.set(why)),
        }
        Ok(())
    }
}

/// The block's outcome, and the position of each number that was drawn; `None`: numbers are
/// positions already.
fn in_order(ended: Vec<Done>, numbers: Position) -> (BlockOutcome, Option<Vec<Position>>) {
    let mut places: Vec<(Place, Position, Option<Draw>)> =
        ended.iter().map(|done| (done.place, done.arrival, done.draw)).collect();
    places.sort_unstable();
    let mut positions = vec![0; numbers as usize];
    let mut moved = false;
    for (position, (_, _, draw)) in (0..).zip(&places) {
        if let Some(Draw(number)) = *draw {
            positions[number as usize] = position;
            moved |= number != position;
        }
    }
    let rerun = ended.iter().filter(|done| done.conflicts > 0).count() as u32;
    let conflicts = ended.iter().map(|done| done.conflicts).sum();
    let report = BlockReport { rerun, executed_again: Timing(conflicts), ..BlockReport::default() };
    let mut outcomes: Vec<Option<Outcome>> = Vec::new();
    outcomes.resize_with(ended.len(), || None);
    for done in ended {
        outcomes[done.arrival as usize] = Some(done.outcome);
    }
    let outcome = BlockOutcome {
        outcomes: outcomes.into_iter().flatten().collect(),
        serial_order: places.into_iter().map(|(_, arrival, _)| arrival).collect(),
        report,
        ..BlockOutcome::default()
    };
    (outcome, moved.then_some(positions))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
