//! Values of sequences on their way into statements.
//!
//! ```text
//!   INSERT, nextval ── count ──► cache of this node ──► runs, an argument ──► block or snapshot
//!                                  ▲ too few
//!                                  └── SELECT tally_take_values('s', n), ordered and durable
//! ```
//!
//! A node takes values out of a sequence many at a time and hands them to its sessions, so a
//! statement waits for the ledger once in as many values: [`COUNT_FIRST`] at first, twice as many
//! each further time, [`COUNT_MAX`] at most unless a statement needs more; where the sequence says
//! CACHE n, n each time. What is
//! left when a node stops is a gap, no larger than what was used before.
//!
//! *How many* values a statement takes its text says mostly. Otherwise it is rehearsed on a
//! snapshot, which counts; where it takes more in its block than it brought, it ends in 40001 and
//! the session tries again.
//!
//! *Transactions.* Values are no part of a footprint and nothing undoes them; taking them is a
//! transaction of its own. So no two transactions meet on a sequence, and neither ROLLBACK nor a
//! failure gives a value back. `setval` is ordered by itself as well, and this node forgets what
//! it had cached. Another node that had taken values before goes on with them, as a session of
//! PostgreSQL does whose sequence has a CACHE.
//!
//! *A sequence that the open transaction has made or altered* is as it is for that transaction
//! alone. So it takes the values itself, by writes of its own that COMMIT runs again: as many as it
//! needs and no more, and ROLLBACK takes them back with the sequence.
//!
//! *Cost.* While the node has values cached: two short locks and an array. Otherwise the
//! statement, and others that need the sequence, wait for one ordered transaction.

use std::collections::VecDeque;
use std::sync::Arc;

use concurrency::{Moment, NoRecord, Outcome, Overlay, Statement as Call, Work};
use engine::Party;
use engine::transaction::Asked;
use engine::{ParameterTypes, Submitter};
use procedure::draws::Draws;
use procedure::sequences::{Run, argument, current_argument, too_few, value_at};
use procedure::{Expr, Function, Interrupt, Procedure, ProgramResult, SequenceNeed};
use types::{Error, Result, SqlState, Stamp, TableId, Value};

use super::answer::{Answer, Tag};
use super::chance::{NO_SEED, new_seed};
use super::decided;
use super::guard::aside;
use super::lock_clauses::Locking;
use super::{Session, View};
use crate::schema::catalog::Catalog;
use crate::schema::sequence::{SET_VALUE, Sequence, TAKE_VALUES};
use crate::syntax::names::written;

/// Values that a node takes when it needs the first.
const COUNT_FIRST: u64 = 32;
/// And when it needs many.
const COUNT_MAX: u64 = 4096;

/// Times that a statement is tried which takes more values than it brought.
pub(super) const ATTEMPTS_MAX: usize = 5;
/// Values that one statement may take.
const STATEMENT_MAX: u64 = 1 << 24;

/// What a statement brings along, beside its parameters.
pub(super) struct Brought {
    pub(super) arguments: Vec<Value>,
    pub(super) rehearsed: bool,
}

impl Session {
    /// The parameters, and what the program needs of sequences.
    pub(super) async fn bring(
        &mut self,
        procedure: &Arc<Procedure>,
        parameters: &[Value],
        view: &View,
    ) -> Result<Brought> {
        let takes = |used: &&procedure::SequenceUse| used.need != SequenceNeed::Current;
        for used in procedure.sequences.iter().filter(takes) {
            self.check_may_take(used.sequence)?;
        }
        let catalog = Arc::clone(&view.versioned.catalog);
        let (mut counts, mut rehearsed) = (Vec::new(), false);
        for used in &procedure.sequences {
            counts.push(match used.need {
                SequenceNeed::Values { most, .. } => {
                    rehearsed |= most.is_none();
                    most.unwrap_or(COUNT_FIRST)
                }
                SequenceNeed::Current => 0,
            });
        }
        let mut runs = Vec::new();
        for (used, count) in procedure.sequences.iter().zip(&counts) {
            runs.push(self.take_values(&catalog, used.sequence, *count).await?);
        }
        if rehearsed {
            let rehearsal = (procedure, parameters, view);
            self.rehearse_until_enough(rehearsal, &mut counts, &mut runs).await?;
        }
        let arguments = self.with_runs(procedure, parameters, &runs)?;
        for (place, used) in procedure.sequences.iter().enumerate() {
            if let SequenceNeed::Values { most, takes_all } = used.need
                && counts[place] > 0
            {
                let last = value_at(&arguments[parameters.len() + place], counts[place] - 1);
                // What was rehearsed in a transaction is what it answers.
                let is_known = match most {
                    Some(_) => takes_all,
                    None => self.transaction.is_some() || procedure.read_only,
                };
                self.drawn.note(used.sequence, last.filter(|_| is_known));
            }
        }
        Ok(Brought { arguments, rehearsed })
    }

    /// Runs the program without effect until it takes no more values than it has been given, and
    /// gives back what it leaves.
    async fn rehearse_until_enough(
        &mut self,
        (procedure, parameters, view): (&Arc<Procedure>, &[Value], &View),
        counts: &mut [u64],
        runs: &mut [Vec<Run>],
    ) -> Result<()> {
        let catalog = Arc::clone(&view.versioned.catalog);
        loop {
            let arguments = self.with_runs(procedure, parameters, runs)?;
            let taken = self.rehearse(procedure, &arguments, view)?;
            let mut is_enough = true;
            for (place, used) in procedure.sequences.iter().enumerate() {
                if !matches!(used.need, SequenceNeed::Values { most: None, .. }) {
                    continue;
                }
                let taken = taken.iter().find(|(sequence, _)| *sequence == used.sequence);
                let count = taken.map_or(0, |(_, count)| *count);
                if count <= counts[place] {
                    counts[place] = count;
                    continue;
                }
                // It stopped there.
                let further = counts[place] * 3;
                if counts[place] + further > STATEMENT_MAX {
                    return Err(too_many());
                }
                let got = self.take_values(&catalog, used.sequence, further).await?;
                runs[place].extend(got);
                counts[place] += further;
                is_enough = false;
            }
            if is_enough {
                break;
            }
        }
        for (place, used) in procedure.sequences.iter().enumerate() {
            self.give_back(&catalog, used.sequence, (&mut runs[place], counts[place])).await?;
        }
        Ok(())
    }

    fn with_runs(
        &self,
        procedure: &Procedure,
        parameters: &[Value],
        runs: &[Vec<Run>],
    ) -> Result<Vec<Value>> {
        let mut arguments = parameters.to_vec();
        for (used, runs) in procedure.sequences.iter().zip(runs) {
            arguments.push(match used.need {
                SequenceNeed::Values { .. } => argument(used.sequence, runs),
                SequenceNeed::Current => self.current(used.sequence)?,
            });
        }
        Ok(arguments)
    }

    fn current(&self, sequence: TableId) -> Result<Value> {
        self.drawn.current(sequence).map(|value| current_argument(sequence, &value))
    }

    /// An argument of a call, with the values of sequences that it takes.
    pub(super) async fn with_values(&mut self, expr: &Expr, catalog: &Catalog) -> Result<Expr> {
        if !expr.draws() {
            return Ok(expr.clone());
        }
        let mut wanted = Vec::new();
        expr.walk(&mut |part| {
            if let Expr::Call { function, arguments, .. } = part
                && let (Function::Nextval | Function::Currval, Some(Expr::Const(Value::Int(id)))) =
                    (*function, arguments.first())
            {
                wanted.push((*function, TableId(*id as u32)));
            }
        });
        let mut values = VecDeque::with_capacity(wanted.len());
        for (function, sequence) in wanted {
            values.push_back(match function {
                Function::Nextval => {
                    self.check_may_take(sequence)?;
                    let runs = self.take_values(catalog, sequence, 1).await?;
                    let value = runs.first().and_then(|run| run.value(0));
                    self.drawn.note(sequence, value);
                    value.map_or(Value::Null, Value::Int)
                }
                _ => self.current(sequence)?,
            });
        }
        let mut filled = expr.clone();
        // In the order of the walk, a call before its arguments.
        filled.rewrite(&mut |part| match part {
            Expr::Call { function: Function::Nextval, .. } => {
                *part = Expr::Const(values.pop_front().unwrap_or_default());
                true
            }
            Expr::Call { function: Function::Currval, arguments, .. } => {
                let mut given = std::mem::take(arguments).into_vec();
                given.truncate(2);
                given.push(Expr::Const(values.pop_front().unwrap_or_default()));
                given.push(Expr::Const(Value::Int(0)));
                *arguments = given.into();
                true
            }
            _ => false,
        });
        Ok(filled)
    }

    /// Those that a transaction had made, of which nothing has become.
    pub(super) fn forget_unknown_sequences(&mut self) {
        if !self.drawn.is_empty() {
            let versioned = self.view().versioned;
            self.drawn.keep_known(&versioned.catalog);
        }
    }

    /// From what is the session's own it may always.
    fn check_may_take(&self, sequence: TableId) -> Result<()> {
        let read_only = match &self.transaction {
            Some(transaction) => transaction.is_read_only(),
            None => self.settings.read_only(),
        };
        match read_only && !sequence.is_temporary() {
            false => Ok(()),
            true => Err(Error::new(
                SqlState::READ_ONLY_SQL_TRANSACTION,
                "cannot execute nextval() in a read-only transaction",
            )),
        }
    }

    /// How many values a run takes on what the session sees, all of it or up to where it has no
    /// more. How it ends otherwise is told by the run that counts.
    fn rehearse(
        &mut self,
        procedure: &Arc<Procedure>,
        given: &[Value],
        view: &View,
    ) -> Result<Vec<(TableId, u64)>> {
        let mut draws = match &self.transaction {
            Some(transaction) => transaction.draws(),
            None => Draws::new(new_seed()?),
        };
        let arguments = draws.arguments(procedure, given)?;
        let work = Work::Statement(Call { procedure: Arc::clone(procedure), arguments });
        if let Some(transaction) = &mut self.transaction {
            return transaction.rehearse(&work);
        }
        let Some(snapshot) = &view.snapshot else {
            return Err(Error::new(SqlState::INTERNAL_ERROR, "a rehearsal without a snapshot"));
        };
        let head = self.head_of(snapshot)?;
        let height = head.height + 1;
        let moment = Moment { height, position: Stamp::POSITIONS_MAX, now_us: head.time_us };
        let catalog = self.with_own_tables(snapshot.catalog());
        let mut overlay = Overlay::new(catalog, head.height, moment, NoRecord);
        let frame = &mut self.running.frame;
        frame.meter().set_memory(self.guard.memory());
        frame.meter().taken_values();
        let run = aside(work.is_short(), || work.run(frame, &mut overlay));
        let taken = frame.meter().taken_values();
        drop(frame.meter().hand_over(self.guard.memory()));
        snapshot.check()?;
        self.guard.check()?;
        drop(run);
        Ok(taken.into_vec())
    }

    /// What is after the first `count`.
    async fn give_back(
        &mut self,
        catalog: &Catalog,
        sequence: TableId,
        (runs, count): (&mut Vec<Run>, u64),
    ) -> Result<()> {
        let mut left = count;
        let kept = runs.iter_mut().map(|run| {
            let kept = run.split_off_front(left);
            left -= kept.count;
            kept
        });
        let kept: Vec<Run> = kept.filter(|run| run.count > 0).collect();
        let rest = std::mem::replace(runs, kept).into_iter().filter(|rest| rest.count > 0);
        if let Some(own) = self.own_sequence(catalog, sequence) {
            if let Some(next) = rest.into_iter().next() {
                self.write_in_transaction(&set_value_text(&own, next.first, false)).await?;
            }
            return Ok(());
        }
        let cache = self.database.schema.sequence_caches.of(sequence);
        let mut cached = cache.cached.lock();
        rest.rev().for_each(|rest| cached.runs.push_front(rest));
        Ok(())
    }

    /// One that the open transaction has made or altered.
    fn own_sequence(&self, catalog: &Catalog, sequence: TableId) -> Option<Arc<Sequence>> {
        let transaction = self.transaction.as_ref()?;
        let sequence = catalog.sequence_by_id(sequence)?;
        transaction.has_own_sequence(sequence).then(|| Arc::clone(sequence))
    }

    async fn take_own_values(&mut self, sequence: &Sequence, mut count: u64) -> Result<Vec<Run>> {
        let mut runs = Vec::with_capacity(1);
        while count > 0 {
            let text = take_values_text(sequence, count);
            let (run, _) = taken_run(&self.write_in_transaction(&text).await?)?;
            count = count.saturating_sub(run.count);
            runs.push(run);
        }
        Ok(runs)
    }

    async fn take_values(
        &mut self,
        catalog: &Catalog,
        sequence: TableId,
        count: u64,
    ) -> Result<Vec<Run>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let Some(sequence) = catalog.sequence_by_id(sequence).cloned() else {
            return Err(Error::new(SqlState::UNDEFINED_TABLE, "the sequence does not exist"));
        };
        if self.transaction.as_ref().is_some_and(|open| open.has_own_sequence(&sequence)) {
            return self.take_own_values(&sequence, count).await;
        }
        let cache = self.database.schema.sequence_caches.of(sequence.id);
        let at_once = || {
            let mut cached = cache.cached.lock();
            cached.outdate(sequence.version);
            cached.take(count).ok_or_else(|| (cached.count(), cached.fetched))
        };
        if let Ok(runs) = at_once() {
            return Ok(runs);
        }
        let _turn = cache.turn.lock().await;
        loop {
            let (has, fetched) = match at_once() {
                Ok(runs) => return Ok(runs),
                Err(few) => few,
            };
            let next = match sequence.cache {
                1 => (fetched * 2).clamp(COUNT_FIRST, COUNT_MAX),
                cache => cache,
            };
            let (run, version) = self.fetch(&sequence, next.max(count - has)).await?;
            let mut cached = cache.cached.lock();
            cached.put(run, version);
            cached.fetched = next;
        }
    }

    /// Takes values out of the ledger.
    async fn fetch(&mut self, sequence: &Sequence, count: u64) -> Result<(Run, i64)> {
        taken_run(&self.order_alone(&take_values_text(sequence, count)).await?)
    }

    /// A transaction of its own, whatever is open, and under no key that the client named.
    async fn order_alone(&mut self, text: &str) -> Result<ProgramResult> {
        let asked = Asked::statement(text, &ParameterTypes::default(), &[]);
        for _ in 0..ATTEMPTS_MAX {
            let Party { principal, role } = self.info.party();
            let submitter = Submitter { principal, role, key: None, seed: NO_SEED };
            let engine = Arc::clone(&self.database.engine);
            let submitted = engine.submit_revocably(submitter, &asked, None)?;
            let (guard, limit) = (Arc::clone(&self.guard), self.settings.commit_timeout());
            // Values that are taken and given to none are a gap, as sequences may have.
            let ended = decided::ended(&engine, &guard, limit, submitted, None).await;
            match ended.answer?.outcome {
                Outcome::Committed(result) => return Ok(result),
                Outcome::Rejected(error) => return Err(error),
                Outcome::Retry(_) => {}
            }
        }
        Err(Error::serialization("Others took values of the sequence each time."))
    }

    /// `SELECT setval(…)`: reads as the session does, and sets at once.
    pub(super) async fn set_values(
        &mut self,
        sequences: &[Arc<Sequence>],
        query: &Arc<Procedure>,
        parameters: &[Value],
        (view, locking): (View, Locking),
    ) -> Result<Answer> {
        sequences.iter().try_for_each(|sequence| self.check_may_take(sequence.id))?;
        let ask = |_: &[Value]| Asked::statement("", &ParameterTypes::default(), &[]);
        let found = self.run_procedure(query, parameters, &ask, (view, locking)).await?;
        let mut rows = Vec::with_capacity(found.rows.len());
        for row in &found.rows {
            let mut shown = Vec::with_capacity(sequences.len());
            for (sequence, pair) in sequences.iter().zip(row.chunks_exact(2)) {
                shown.push(match pair {
                    [Value::Int(value), Value::Bool(called)] => {
                        self.set_value(sequence, *value, *called).await?;
                        Value::Int(*value)
                    }
                    _ => Value::Null,
                });
            }
            rows.push(shown.into());
        }
        Ok(Answer::Rows { rows, tag: Tag::Select, lease: self.running.answered.take() })
    }

    async fn set_value(&mut self, sequence: &Sequence, value: i64, called: bool) -> Result<()> {
        let text = set_value_text(sequence, value, called);
        if self.transaction.as_ref().is_some_and(|open| open.has_own_sequence(sequence)) {
            self.write_in_transaction(&text).await?;
        } else {
            let cache = self.database.schema.sequence_caches.of(sequence.id);
            let _turn = cache.turn.lock().await;
            self.order_alone(&text).await?;
            cache.cached.lock().runs.clear();
        }
        if called {
            // As in PostgreSQL currval() tells it, and lastval() does not.
            self.drawn.values.insert(sequence.id, Some(value));
        }
        Ok(())
    }

    /// What each of so many runs of a program needs: COPY's rows.
    pub(super) async fn bring_for_rows(
        &mut self,
        procedure: &Procedure,
        rows: usize,
    ) -> Result<Vec<Vec<Value>>> {
        for used in &procedure.sequences {
            self.check_may_take(used.sequence)?;
        }
        let catalog = Arc::clone(&self.view().versioned.catalog);
        let mut brought = vec![Vec::with_capacity(procedure.sequences.len()); rows];
        for used in &procedure.sequences {
            let most = match used.need {
                SequenceNeed::Current => {
                    let current = self.current(used.sequence)?;
                    brought.iter_mut().for_each(|row| row.push(current.clone()));
                    continue;
                }
                SequenceNeed::Values { most, .. } => most.ok_or_else(too_few)?,
            };
            let all = most.saturating_mul(rows as u64);
            if all > STATEMENT_MAX {
                return Err(too_many());
            }
            let mut runs: VecDeque<Run> =
                self.take_values(&catalog, used.sequence, all).await?.into();
            let mut last = None;
            for row in &mut brought {
                let (mut own, mut left) = (Vec::with_capacity(1), most);
                while let Some(run) = runs.front_mut().filter(|_| left > 0) {
                    let part = run.split_off_front(left);
                    left -= part.count;
                    last = part.count.checked_sub(1).and_then(|place| part.value(place)).or(last);
                    own.push(part);
                    if run.count == 0 {
                        runs.pop_front();
                    }
                }
                row.push(argument(used.sequence, &own));
            }
            if last.is_some() {
                self.drawn.note(used.sequence, last);
            }
        }
        Ok(brought)
    }
}

fn take_values_text(sequence: &Sequence, count: u64) -> String {
    let name = written(&sequence.name).replace('\'', "''");
    format!("SELECT {TAKE_VALUES}('{name}', {count})")
}

fn set_value_text(sequence: &Sequence, value: i64, called: bool) -> String {
    let name = written(&sequence.name).replace('\'', "''");
    format!("SELECT {SET_VALUE}('{name}', {value}, {called})")
}

/// And the version of the definition that it was taken under.
fn taken_run(result: &ProgramResult) -> Result<(Run, i64)> {
    match result.rows.first().map(|row| &row[..]) {
        Some([Value::Int(first), Value::Int(step), Value::Int(count), Value::Int(version)]) => {
            Ok((Run { first: *first, step: *step, count: *count as u64 }, *version))
        }
        _ => Err(Error::new(SqlState::INTERNAL_ERROR, "a sequence gave no values")),
    }
}

pub(super) fn is_too_few(error: &Error) -> bool {
    let expected = too_few();
    error.code() == expected.code() && error.fields().detail == expected.fields().detail
}

fn too_many() -> Error {
    Error::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!("a statement takes more than {STATEMENT_MAX} values of a sequence"),
    )
    .with_hint("Split the work into several statements.")
}
