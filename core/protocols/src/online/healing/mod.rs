//! Transaction healing: what was read and is no more so is corrected at commit, not run again.
//!
//! Wu, Chan and Tan, *Transaction healing: scaling optimistic concurrency control on multicores*,
//! SIGMOD 2016; Wu's thesis, NUS 2017, chapter 3.
//!
//! *Idea.* An optimistic transaction that finds at its commit that one row has changed since it
//! read it loses all its work, though most of it was right. Here it keeps a record of its steps,
//! and while it holds the rows that it will write it runs again the step that read the row, and
//! what depends on that: [`procedure::healing`] has the record, the dependency graph and the walk.
//!
//! ```text
//!   run       steps over the newest rows, recorded
//!   commit    lock what is written ─► resolve ─► enter gaps ─► draw ─► is what was read still so?
//!               ▲                                                        │ no          │ yes
//!               └── lock what has come to be written ◄─ heal ◄───────────┘             ▼
//!                   (behind: wait; before: try, or let go of all and lock in order)  install
//! ```
//!
//! *A position is a place in a serial order.* The thesis's commit timestamps respect what a
//! transaction read and overwrote, but not who overwrites later what it read: its order within an
//! epoch is not a serial one, and a block that is replayed in it would differ. Here the place is
//! drawn while all that will be written is locked and *before* what was read is looked at for the
//! last time, as in [silo](super::silo); after each healing it is drawn again, since the rows then
//! read may be of a transaction that drew in between. One that overwrites them later locks later,
//! and draws later.
//!
//! *False alarms.* A row's stamp moves when any of its columns does. The step that read it runs
//! again; where it finds what it had found, in the columns that are used, nothing follows.
//!
//! *Membership.* A step that runs again under another key takes back its old write. What it writes
//! now is locked at once when it comes after all that is held, and tried when it comes before: a
//! transaction that waits there could wait in a cycle. [Tables are ordered](graphs) so that this
//! is rare. Where all writes stayed in their places, as those of *independent* transactions do,
//! whose keys follow from their arguments, membership is not looked at again.
//!
//! *Ranges and absence.* A scan is noted with the [gap](super::gaps) that it watches, a key that
//! was looked for in vain with its own; when one has moved, the step is run again like any other.
//!
//! *What is healed from its start.* Interactive transactions and loads (the thesis: ad-hoc ones,
//! run as OCC), transactions that looked at their own writes, and those that a step which runs
//! again would reject: their whole program runs again, with the locks held. What an interactive
//! transaction requires then fails, or holds.
//!
//! *Invariants.* At the last look everything that was read is as it is in the store and locked by
//! no other transaction, while all that is written is locked: the outcome is silo's. No transaction
//! waits for a lock out of order.
//!
//! *Departures from the thesis.*
//!
//! * Rows that are only read are not locked, so readers of a hot row do not wait for each other. A
//!   round that found a row in other hands for too long gives back all locks; the next one takes
//!   them in order and holds what was read as well, with other readers, as every round after
//!   [`READS_UNLOCKED`] does. So does a transaction that was healed
//!   [`HEALINGS_IN_A_ROW`] times.
//! * A lock that is not to be had out of order ends a round and not the transaction, whose record
//!   is kept. So no-wait aborts no transaction but one that [`ROUNDS_MAX`] rounds did not bring to
//!   an end.
//! * Writes are not applied row by row as validation goes on, for a row that is healed later may
//!   feed them: independent transactions are only spared the look at their membership.
//! * Copies of what was read are not kept beside the record: the registers of the program are
//!   copies, and what is not used of them need not be compared.
//! * Leaves of an index have no versions; gaps stand for ranges and for absent keys alike, so there
//!   are no dummy tuples either. Timestamps are the block's positions.
//! * Branches and loops are part of the graph. One that is taken another way is undone and run
//!   anew, unless it leaves a loop or adds to the result.
//!
//! *Cost.* Silo's, and the record.

mod access;
pub mod graphs;
mod old_notes;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use concurrency::{Isolation, Options, Protocol, ProtocolInfo, Work, test_mode};
use kit::sync::{self, Spin};
use procedure::healing::{AccessCache, DependencyGraph, correct, record};
use procedure::step::Procedure;
use procedure::{Frame, Meter, ProgramResult};
use rustc_hash::FxHashMap;
use storage::UndoArena;
use types::Stop;

use self::access::{Healer, Validity};
use self::graphs::Graphs;
use super::driver::Arriving;
use super::gaps::Gaps;
use super::mutant::Mutant;
use super::order::{CommitSequenceNumber, Draw};
use super::seam::{Conflict, Ended, Epoch, Healing as Counts, Online, Session, Start};
use super::workspace::Workspace;

pub const ENTRY: crate::Entry = crate::Entry { info: &INFO, make, mutants: Mutant::HEALING };

pub static INFO: ProtocolInfo = ProtocolInfo {
    name: "healing",
    paper: "Wu, Chan and Tan, SIGMOD 2016; Wu, NUS 2017",
    isolation: Isolation::Serializable,
    deterministic: false,
    may_retry: false,
    options: &[],
};

/// Rounds of validation after which a transaction begins again.
const ROUNDS_MAX: u32 = 64;

/// For how long, times the square of how often it has given way already, a transaction sleeps: the
/// one in the way may have lost its processor.
const NAP: Duration = Duration::from_micros(20);

/// After so many, naps are as long as the last: five milliseconds.
const NAPS_GROW_MAX: u32 = 16;

/// Healings after which a transaction gives way, and its locks back: another that stays in a gap
/// makes what was read there stale again and again.
const HEALINGS_IN_A_ROW: u32 = 4;

/// Rounds in which what is only read is not locked.
const READS_UNLOCKED: u32 = 4;

/// Looks at a row that another transaction is about to change.
const LOOKS_MAX: u32 = 12;

/// Commits for which a worker expects to find something stale, after it has.
const WARY_COMMITS: u32 = 8;

fn make(options: &Options) -> Arc<dyn Protocol> {
    Arriving::made(options, |mutant| Healing {
        gaps: Arc::default(),
        graphs: Arc::default(),
        mutant,
    })
}

pub struct Healing {
    gaps: Arc<Gaps>,
    graphs: Arc<Graphs>,
    mutant: Option<Mutant>,
}

impl Online for Healing {
    type Session = HealingSession;

    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }

    fn session(&self, epoch: &Arc<Epoch>) -> HealingSession {
        let ranks = self.graphs.ranks(epoch.height);
        let workspace = Workspace::new(epoch, &self.gaps, self.mutant).in_order(&ranks);
        let mut cache = AccessCache::default();
        cache.forgets_dependents = self.mutant == Some(Mutant::DependentsForgotten);
        HealingSession {
            healer: Healer::new(workspace, self.mutant),
            frame: Frame::metered(Meter::of(epoch.budget)),
            cache,
            graphs: Arc::clone(&self.graphs),
            known: FxHashMap::default(),
            running: None,
            wary: 0,
            counts: Counts::default(),
            csn_kept: None,
            mutant: self.mutant,
        }
    }
}

pub struct HealingSession {
    healer: Healer,
    frame: Frame,
    cache: AccessCache,
    graphs: Arc<Graphs>,
    /// By the procedure's address, which stays in place as long as its call.
    known: FxHashMap<*const Procedure, Graph>,
    running: Option<Running>,
    /// Commits that will look for something stale before they enter gaps and draw.
    wary: u32,
    counts: Counts,
    /// Tests of the tests: what was drawn before a healing.
    csn_kept: Option<(CommitSequenceNumber, Option<Draw>)>,
    mutant: Option<Mutant>,
}

/// Counted for this worker alone: a count that all of them share would go from one to another with
/// every transaction.
type Graph = Rc<Arc<DependencyGraph>>;

/// The transaction at hand.
struct Running {
    start: Start,
    /// Of a run with a record.
    graph: Option<Graph>,
}

/// What a round of validation came to.
enum Round {
    Ended(Ended),
    /// Something was stale, and has been healed.
    Healed,
    /// Another transaction was about to change what was read, and has done so.
    Waited,
    /// Another transaction is in the way: all locks are to be given back.
    Relock,
}

impl Session for HealingSession {
    type Access = Healer;

    fn begin(&mut self, start: Start, _: &Work) -> &mut Healer {
        self.healer.workspace.begin(start);
        &mut self.healer
    }

    fn run(&mut self, start: Start, work: &Work, _: &mut Frame) -> Result<ProgramResult, Stop> {
        let graph = match work {
            Work::Statement(statement) => self.graph(&statement.procedure),
            _ => None,
        };
        self.running = Some(Running { start, graph });
        self.run_from_start(work)
    }

    fn commit(
        &mut self,
        work: &Work,
        run: Result<ProgramResult, Stop>,
        undo: &mut UndoArena,
    ) -> Result<Ended, Conflict> {
        let mut run = run;
        self.csn_kept = None;
        let mut locks_reads = false;
        let (mut healed, mut relocked) = (0, 0);
        for round in 0..ROUNDS_MAX {
            locks_reads |= round >= READS_UNLOCKED;
            let gives_way = match self.round(work, &mut run, locks_reads, undo) {
                Round::Ended(ended) => {
                    self.counts.healed += u32::from(healed > 0);
                    self.counts.relocked += relocked;
                    return Ok(ended);
                }
                Round::Healed => {
                    healed += 1;
                    healed % HEALINGS_IN_A_ROW == 0
                }
                Round::Waited => false,
                Round::Relock => true,
            };
            if gives_way {
                self.healer.workspace.release(false);
                relocked += 1;
                locks_reads = true;
                match relocked {
                    1 => sync::yield_now(),
                    _ => sync::nap(NAP * relocked.min(NAPS_GROW_MAX).pow(2)),
                }
            }
        }
        Err(Conflict)
    }

    fn abort(&mut self) {
        self.healer.workspace.release(false);
    }

    fn healing(&self) -> Counts {
        self.counts
    }
}

impl HealingSession {
    fn graph(&mut self, procedure: &Arc<Procedure>) -> Option<Graph> {
        if let Some(graph) = self.known.get(&Arc::as_ptr(procedure)) {
            return Some(Rc::clone(graph));
        }
        let graph = Rc::new(self.graphs.of(procedure)?);
        self.known.insert(Arc::as_ptr(procedure), Rc::clone(&graph));
        Some(graph)
    }

    fn run_from_start(&mut self, work: &Work) -> Result<ProgramResult, Stop> {
        let HealingSession { healer, frame, cache, running, .. } = self;
        let Some(Running { start, graph }) = running else {
            return Err(Stop::Halt("a transaction ran before it had begun".to_owned()));
        };
        healer.workspace.begin(*start);
        match (work, graph) {
            (Work::Statement(statement), Some(graph)) => {
                record(&statement.procedure, graph, &statement.arguments, frame, healer, cache)
            }
            (work, _) => work.run(frame, healer),
        }
    }

    fn round(
        &mut self,
        work: &Work,
        run: &mut Result<ProgramResult, Stop>,
        locks_reads: bool,
        undo: &mut UndoArena,
    ) -> Round {
        let workspace = &mut self.healer.workspace;
        match run {
            Ok(_) => workspace.remember_writes(),
            Err(_) => workspace.forget_writes(),
        }
        if !self.lock(locks_reads) {
            return Round::Relock;
        }
        let stands = self.healer.workspace.rows_stand();
        if self.wary > 0 || !stands {
            self.wary = self.wary.saturating_sub(1);
            match self.healer.validate(CommitSequenceNumber::END, false) {
                Validity::Stale => return self.heal(work, run),
                Validity::InOtherHands => return self.wait_or_relock(),
                // A row that is gone and that was not read: it comes again, or was not there.
                Validity::Valid if !stands => return Round::Relock,
                Validity::Valid => {}
            }
        }
        self.finish(work, run, undo)
    }

    /// Everything written is locked, and its rows are there.
    fn finish(
        &mut self,
        work: &Work,
        run: &mut Result<ProgramResult, Stop>,
        undo: &mut UndoArena,
    ) -> Round {
        let workspace = &mut self.healer.workspace;
        let evaluated = if run.is_ok() { workspace.resolve() } else { Ok(()) };
        if workspace.enter_gaps(|_| false).is_err() {
            return Round::Relock;
        }
        let late = self.mutant == Some(Mutant::DrawsLate);
        let drawn = match self.csn_kept.take() {
            Some(kept) => Some(kept),
            None => (!late).then(|| self.healer.workspace.draw()),
        };
        if self.mutant == Some(Mutant::PlaceKept) {
            self.csn_kept = drawn;
        }
        let rejected = run.is_err() || evaluated.is_err();
        let unvalidated = rejected && self.mutant == Some(Mutant::RejectionsUnvalidated);
        let csn = drawn.map_or(CommitSequenceNumber::END, |(csn, _)| csn);
        match self.healer.validate(csn, true) {
            _ if unvalidated => {}
            Validity::Valid => {}
            Validity::Stale => {
                self.healer.workspace.leave_gaps();
                return self.heal(work, run);
            }
            Validity::InOtherHands => {
                self.healer.workspace.leave_gaps();
                return self.wait_or_relock();
            }
        }
        let workspace = &mut self.healer.workspace;
        let (csn, draw) = drawn.unwrap_or_else(|| workspace.draw());
        let installed = workspace.install(draw, undo);
        workspace.release(draw.is_some());
        let run = std::mem::replace(run, Ok(ProgramResult::default()));
        let run = run.and_then(|result| evaluated.and(installed).map(|()| result));
        Round::Ended(Ended { csn, draw, run })
    }

    /// All that is written; false: a lock was not to be had.
    fn lock(&mut self, locks_reads: bool) -> bool {
        let workspace = &mut self.healer.workspace;
        match workspace.holds_locks() {
            false => workspace.lock(locks_reads).is_ok(),
            true if !self.cache.writes_moved && !locks_reads => true,
            true if self.mutant == Some(Mutant::MembersUnlocked) => true,
            true => self.healer.workspace.lock_added(locks_reads).is_ok(),
        }
    }

    /// Another transaction is about to change a row that was read: it will not be long, unless it
    /// waits for this one.
    fn wait_or_relock(&mut self) -> Round {
        let mut spin = Spin::new();
        for _ in 0..LOOKS_MAX {
            if self.healer.validate(CommitSequenceNumber::END, false) != Validity::InOtherHands {
                return Round::Waited;
            }
            spin.wait();
        }
        Round::Relock
    }

    fn heal(&mut self, work: &Work, run: &mut Result<ProgramResult, Stop>) -> Round {
        self.wary = WARY_COMMITS;
        test_mode::pause();
        if !self.is_corrected(work, run) {
            self.counts.whole += 1;
            *run = self.run_from_start(work);
            self.cache.writes_moved = true;
        }
        Round::Healed
    }

    /// Correct the run by its record, if it can be.
    fn is_corrected(&mut self, work: &Work, run: &mut Result<ProgramResult, Stop>) -> bool {
        let HealingSession { healer, frame, cache, running, .. } = self;
        if let Some(Running { graph: Some(graph), .. }) = running
            && let Work::Statement(statement) = work
            && let Ok(result) = run
            && !healer.is_torn()
            && !cache.is_tangled(&*healer)
        {
            healer.begin_correction();
            return correct(&statement.procedure, graph, frame, healer, cache, result).is_ok();
        }
        false
    }
}
