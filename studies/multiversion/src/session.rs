//! One worker's session: runs transactions one after another, and retries those that end in a
//! conflict.

use std::time::Duration;

use concurrency::{Moment, Outcome, Work};
use kit::sync;
use procedure::{Budget, Frame};
use types::{Error, Stop};

use crate::clock::Timestamp;
use crate::database::Database;
use crate::mutant;
use crate::prefetching::Prefetching;
use crate::rules::{CommitSequenceNumber, Context, Rule};
use crate::transaction::{Log, Transaction};

/// How a transaction ended, and where it stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Ended {
    pub outcome: Outcome,
    pub csn: CommitSequenceNumber,
    /// Attempts that ended in a conflict.
    pub conflicts: u32,
}

/// How one attempt ended.
#[derive(Clone, PartialEq, Debug)]
pub enum Attempt {
    Ended(Outcome, CommitSequenceNumber),
    Conflict(Error),
}

pub struct Session<'d, R: Rule> {
    db: &'d Database,
    transaction: Transaction<'d, R>,
    frame: Frame,
    prefetching: Prefetching,
    /// The newest that it was told of.
    seen: Timestamp,
}

/// Conflicts before a session rests between attempts.
const RESTLESS: u32 = 4;
const REST_US: u64 = 20;
const RESTS_MAX: u32 = 3;

impl<'d, R: Rule> Session<'d, R> {
    /// A worker has one session at a time.
    pub fn open(db: &'d Database, worker: usize) -> Session<'d, R> {
        mutant::enter(db.mutant);
        let (at, notes, copy) = (Timestamp::ZERO, R::Notes::default(), Vec::new());
        let cx = Context { db, worker, at, read_only: false, notes, copy };
        let transaction = Transaction::new(cx);
        let (frame, prefetching) = (Frame::default(), Prefetching::default());
        Session { db, transaction, frame, prefetching, seen: Timestamp::ZERO }
    }

    /// What each transaction may take from now on.
    pub fn set_budget(&mut self, budget: Budget) {
        self.frame.meter().set_budget(budget);
    }

    /// These will run next: up to [`GROUP`](crate::prefetching::GROUP) of them.
    pub fn foresee<'w>(&mut self, group: impl IntoIterator<Item = &'w Work>) {
        self.prefetching.fetch(self.db, group);
    }

    /// Runs a transaction until it ends without a conflict. `Err`: the database is sick.
    pub fn run(&mut self, work: &Work, moment: Moment, read_only: bool) -> Result<Ended, String> {
        let mut conflicts = 0;
        loop {
            match self.attempt(work, moment, read_only)? {
                Attempt::Ended(outcome, csn) => return Ok(Ended { outcome, csn, conflicts }),
                Attempt::Conflict(_) => {
                    conflicts += 1;
                    self.rest(conflicts);
                }
            }
        }
    }

    /// Runs a transaction once.
    pub fn attempt(
        &mut self,
        work: &Work,
        moment: Moment,
        read_only: bool,
    ) -> Result<Attempt, String> {
        self.begin(moment, read_only);
        let run = work.run(&mut self.frame, &mut self.transaction);
        let run = match run {
            Ok(result) => self.transaction.commit().map(|csn| (Outcome::Committed(result), csn)),
            Err(stop) => Err(stop),
        };
        match run {
            Ok((outcome, csn)) => Ok(self.ended(outcome, csn)),
            Err(stop) => self.stopped(stop),
        }
    }

    fn ended(&mut self, outcome: Outcome, csn: CommitSequenceNumber) -> Attempt {
        self.seen = self.seen.max(self.transaction.committed_at).max(self.transaction.cx.at);
        Attempt::Ended(outcome, csn)
    }

    /// A conflict, or an answer of the program's own: then what it rests on must hold.
    fn stopped(&mut self, stop: Stop) -> Result<Attempt, String> {
        let outcome = match stop {
            Stop::Halt(why) => {
                self.transaction.abort();
                return Err(why);
            }
            Stop::Retry(error) if self.transaction.conflicted => {
                return Ok(self.conflict(error));
            }
            stop => Outcome::from_run(Err(stop))?,
        };
        match self.transaction.finish_reads(true) {
            Ok(csn) => Ok(self.ended(outcome, csn)),
            Err(Stop::Retry(error)) => Ok(self.conflict(error)),
            Err(_) => Err("a transaction that only reads was rejected".into()),
        }
    }

    fn conflict(&mut self, error: Error) -> Attempt {
        self.transaction.abort();
        // The next attempt shall not be late again.
        self.see(self.transaction.cx.at);
        if R::STRIPED {
            self.see(self.db.clock.newest());
        }
        Attempt::Conflict(error)
    }

    // Step by step, for schedules that are told.

    pub fn begin(&mut self, moment: Moment, read_only: bool) {
        self.transaction.begin(moment, self.seen, read_only);
    }

    /// The newest that the session's user knows of.
    pub fn seen(&self) -> Timestamp {
        self.seen
    }

    /// The session's user has been told of this elsewhere: it sees its own past.
    pub fn see(&mut self, seen: Timestamp) {
        self.seen = self.seen.max(seen);
    }

    pub fn transaction(&mut self) -> &mut Transaction<'d, R> {
        &mut self.transaction
    }

    /// Ends a transaction whose steps were run one by one, with the result of the last.
    pub fn end(&mut self, run: Result<procedure::ProgramResult, Stop>) -> Result<Attempt, String> {
        let run = run.and_then(|result| Ok((result, self.transaction.commit()?)));
        match run {
            Ok((result, csn)) => Ok(self.ended(Outcome::Committed(result), csn)),
            Err(stop) => self.stopped(stop),
        }
    }

    /// Before another attempt, the `conflicts`-th: bounded, and not on the processor, which the
    /// other one may need.
    pub fn rest(&self, conflicts: u32) {
        match conflicts.checked_sub(RESTLESS) {
            None => sync::yield_now(),
            Some(rests) => sync::nap(Duration::from_micros(REST_US << rests.min(RESTS_MAX))),
        }
    }

    /// From now on it is written down what a block must know to be sealed.
    pub(crate) fn log_changes(&mut self) {
        self.transaction.log = Some(Log::default());
    }

    pub(crate) fn take_log(&mut self) -> Log {
        self.transaction.log.take().unwrap_or_default()
    }

    /// Collects what can be collected now.
    pub fn collect(&mut self) {
        self.transaction.retired.collect(self.db);
    }
}

impl<R: Rule> Drop for Session<'_, R> {
    fn drop(&mut self) {
        self.transaction.retired.hand_over(self.db);
    }
}
