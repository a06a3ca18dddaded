//! Interactive transactions: a conversation on a snapshot, and its lowering to a COMMIT.
//!
//! What makes the COMMIT right is not that it does the same under every protocol but that the
//! client was told nothing else than it would have been told at the transaction's place in the
//! serial order.

use std::sync::Arc;

use concurrency::{
    Expectation, Footprint, Interactive, Load, Moment, Overlay, RangeRequirement, RowRequirement,
    Statement, Work,
};
use kit::random::Random;
use procedure::step::Procedure;
use procedure::{Frame, ProgramResult};
use storage::{Catalog, LATEST, Store};
use types::{Error, Height, Stamp, Stop};

use crate::endorsed::{Endorsed, differing_writes, endorse, sealed};
use crate::programs::{OPERATIONS, Operation, QUERIES, random_calls, random_rows};
use crate::recipe::Line;

#[derive(Clone, Debug)]
pub enum Action {
    Query(Arc<Procedure>),
    Write(Arc<Procedure>),
    /// COPY.
    Load(Load),
    Savepoint,
    /// To the last savepoint; a no-op without one.
    RollBack,
}

pub type Answer = Result<ProgramResult, Error>;

/// A conversation that was held, and what the client was told.
#[derive(Debug)]
pub struct Session {
    pub script: Vec<Action>,
    pub answers: Vec<Answer>,
    height: Height,
    /// Its one program was simulated; what is ordered are its reads and writes.
    is_endorsed: bool,
}

struct Played {
    answers: Vec<Answer>,
    writes: Vec<(Work, Expectation)>,
    rows: Vec<RowRequirement>,
    ranges: Vec<RangeRequirement>,
}

impl Session {
    /// Hold the conversation on the newest snapshot. The work is its COMMIT.
    pub fn hold(store: &Store, script: Vec<Action>) -> (Session, Arc<Work>) {
        let snapshot = store.snapshot();
        let catalog = Arc::clone(snapshot.catalog());
        let played = play(&script, catalog, snapshot.height(), snapshot.height());
        // Some rest on ranges as endorsed transactions do.
        let seals = script.len().is_multiple_of(4);
        let ranges = if seals { sealed(&snapshot, played.ranges) } else { played.ranges };
        let work = Work::Interactive(Interactive {
            now_us: snapshot.height() as i64,
            rows: played.rows,
            ranges,
            writes: played.writes,
        });
        let (height, is_endorsed) = (snapshot.height(), false);
        let session = Session { script, answers: played.answers, height, is_endorsed };
        (session, Arc::new(work))
    }

    /// A program that is simulated on the newest snapshot, and what is ordered in its place.
    /// `None`: it fails there, so that nothing is ordered.
    pub fn endorse(store: &Store, procedure: &Arc<Procedure>) -> Option<(Session, Arc<Work>)> {
        let Endorsed { result, height, work } = endorse(store, procedure)?;
        let (script, answers) = (vec![Action::Write(Arc::clone(procedure))], vec![Ok(result)]);
        Some((Session { script, answers, height, is_endorsed: true }, work))
    }

    /// In which way what is ordered does something else than its program would on the newest state
    /// of another store.
    pub(crate) fn differs(&self, ordered: &Work, catalog: &Arc<Catalog>) -> Option<String> {
        match self.script.as_slice() {
            [Action::Write(procedure)] if self.is_endorsed => {
                differing_writes(procedure, ordered, catalog, self.height)
            }
            _ => None,
        }
    }

    /// The answers that the client would get on the newest state of another store.
    pub(crate) fn again(&self, catalog: Arc<Catalog>) -> Vec<Answer> {
        play(&self.script, catalog, LATEST, self.height).answers
    }
}

fn play(script: &[Action], catalog: Arc<Catalog>, at: Height, height: Height) -> Played {
    let moment =
        Moment { height: height + 1_000, position: Stamp::POSITIONS_MAX, now_us: height as i64 };
    let mut overlay = Overlay::new(catalog, at, moment, Footprint::default());
    let mut frame = Frame::default();
    let (mut answers, mut writes) = (Vec::new(), Vec::new());
    let mut savepoint = (overlay.mark(), 0);
    for action in script {
        let (work, reads_only) = match action {
            Action::Query(procedure) => (statement(procedure), true),
            Action::Write(procedure) => (statement(procedure), false),
            Action::Load(load) => (Work::Load(load.clone()), false),
            Action::Savepoint => {
                savepoint = (overlay.mark(), writes.len());
                continue;
            }
            Action::RollBack => {
                overlay.return_to(savepoint.0.clone());
                overlay.recorder.require_all();
                writes.truncate(savepoint.1);
                continue;
            }
        };
        let before = overlay.mark();
        overlay.recorder.enabled = reads_only;
        let answer = work.run(&mut frame, &mut overlay);
        let answer = answer.and_then(|answer| overlay.evaluate_all().map(|()| answer));
        overlay.recorder.enabled = false;
        let answer = answer.map_err(|stop| match stop {
            Stop::Rejected(error) | Stop::Retry(error) => error,
            Stop::Halt(why) => panic!("halted: {why}"),
        });
        match &answer {
            Ok(ProgramResult { rows, count, .. }) if !reads_only => {
                let (rows, count) = (rows.clone(), *count);
                overlay.recorder.wrote(&work);
                writes.push((work, Expectation { count, rows }));
            }
            Ok(_) => {}
            // As a client does that set a savepoint before each statement.
            Err(_) => {
                overlay.return_to(before);
                overlay.recorder.require_all();
            }
        }
        answers.push(answer);
    }
    overlay.recorder.compact();
    let Footprint { rows, ranges, .. } = std::mem::take(&mut overlay.recorder);
    Played { answers, writes, rows, ranges }
}

fn statement(procedure: &Arc<Procedure>) -> Work {
    Work::Statement(Statement { procedure: Arc::clone(procedure), arguments: Box::default() })
}

/// A random conversation over `keys` keys.
pub fn random_script(random: &mut Random, keys: u64) -> Vec<Action> {
    random_lines(random, keys).iter().map(Line::action).collect()
}

pub fn random_lines(random: &mut Random, keys: u64) -> Vec<Line> {
    let count = 2 + random.below(4);
    let calls = |random: &mut Random, among: &[Operation]| {
        let count = 1 + random.below(3);
        random_calls(random, among, keys, count)
    };
    let line = |_| match random.below(9) {
        0 => Line::Savepoint,
        1 => Line::RollBack,
        8 => Line::Load(random_rows(random, keys)),
        2..=3 => Line::Query(calls(random, &QUERIES)),
        4 => Line::Returning(calls(random, &OPERATIONS)),
        _ => Line::Write(calls(random, &OPERATIONS)),
    };
    (0..count).map(line).collect()
}
