//! Cursors: queries whose rows stay in the session, and are fetched as the client asks.
//!
//! ```text
//!   position   0    1    2   …   n   n + 1
//!            start row1 row2   row n  end     FETCH k answers the next k, and stands on the last
//! ```
//!
//! DECLARE runs its query, so a cursor has the rows of that moment whatever the transaction writes
//! later, and what the query read is required at COMMIT as every read is. An error of the query is
//! DECLARE's, where PostgreSQL may find it in a FETCH. Rows that an analyst makes as they are asked
//! for are not made before that, unless they have to outlive the transaction (WITH HOLD).
//!
//! A cursor that goes forward only lets go of the rows that it has passed. One that does not say
//! SCROLL or NO SCROLL can go back where all its rows are at hand anyway.
//!
//! *Life.* It ends with the transaction, or with a ROLLBACK TO a savepoint from before it. WITH
//! HOLD it ends with neither once its transaction has committed. Where it stands is never taken
//! back.
//!
//! *Cost.* The memory of all sessions covers what cursors hold, and once more what is being sent.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures::StreamExt;
use kit::pool::Lease;
use procedure::Output;
use types::{Error, Result, SqlState, Value};

use super::answer::{Answer, Tag, plain};
use super::prepared::{Prepared, statement_bytes};
use super::{Session, View};
use crate::plan::analyst::{Row, RowBatches, row_bytes};
use crate::settings::CursorSeen;
use crate::syntax::parsed::{ALL, Declaration, Direction};

/// Those that one session may have: each statement looks through them.
const CURSORS_MAX: usize = 10_000;

/// Those of one session.
pub(super) struct Cursors {
    by_name: BTreeMap<String, Cursor>,
    /// What the next one is numbered.
    next: u64,
    lease: Lease,
}

/// The cursors that there were at a point of time.
#[derive(Clone, Copy)]
pub struct CursorMark(u64);

struct Cursor {
    declaration: Declaration,
    text: String,
    query: Arc<Prepared>,
    created_us: i64,
    number: u64,
    /// It outlives the open transaction.
    stays: bool,
    rows: Rows,
}

/// A query's rows, and a position among them.
struct Rows {
    /// From row `passed + 1` on.
    made: VecDeque<Row>,
    passed: usize,
    /// `None`: there are no more than were made.
    more: Option<RowBatches>,
    position: usize,
    only_forward: bool,
    /// After an error it goes nowhere.
    failed: bool,
    /// Of those that were made and not passed.
    bytes: u64,
    bytes_max: u64,
}

impl Cursors {
    pub fn new(lease: Lease) -> Cursors {
        Cursors { by_name: BTreeMap::new(), next: 0, lease }
    }

    /// The query of a cursor.
    pub fn query(&self, name: &str) -> Option<&Arc<Prepared>> {
        self.by_name.get(name).map(|cursor| &cursor.query)
    }

    pub fn mark(&self) -> CursorMark {
        CursorMark(self.next)
    }

    /// Closes those of after the mark.
    pub fn return_to(&mut self, CursorMark(next): CursorMark) {
        self.by_name.retain(|_, cursor| cursor.stays || cursor.number < next);
        self.settle();
    }

    pub fn transaction_ended(&mut self, committed: bool) {
        if self.by_name.is_empty() {
            return;
        }
        for cursor in self.by_name.values_mut() {
            cursor.stays |= committed && cursor.declaration.hold;
        }
        self.by_name.retain(|_, cursor| cursor.stays);
        self.settle();
    }

    pub fn close_all(&mut self) {
        self.by_name.clear();
        self.settle();
    }

    pub fn seen(&self) -> Vec<CursorSeen> {
        let seen = self.by_name.values().map(|cursor| CursorSeen {
            name: cursor.declaration.name.clone(),
            text: cursor.text.clone(),
            hold: cursor.declaration.hold,
            binary: cursor.declaration.binary,
            scroll: !cursor.rows.only_forward,
            created_us: cursor.created_us,
        });
        seen.collect()
    }

    fn bytes(&self) -> u64 {
        self.by_name.values().map(Cursor::bytes).sum()
    }

    fn settle(&mut self) {
        self.lease.shrink(self.bytes());
    }

    /// Covers what cursors hold now.
    fn cover(&mut self) -> Result<()> {
        let bytes = self.bytes();
        self.lease.cover(bytes)?;
        self.lease.shrink(bytes);
        Ok(())
    }

    fn get(&mut self, name: &str) -> Result<&mut Cursor> {
        self.by_name.get_mut(name).ok_or_else(|| unknown(name))
    }

    fn insert(&mut self, cursor: Cursor) -> Result<()> {
        if self.by_name.len() >= CURSORS_MAX {
            let what = format!("a session can have at most {CURSORS_MAX} cursors");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
                .with_hint("Close those that are no longer needed."));
        }
        self.lease.cover(self.bytes() + cursor.bytes())?;
        self.next += 1;
        self.by_name.insert(cursor.declaration.name.clone(), cursor);
        Ok(())
    }
}

/// Rows on their way to the client, and what covers them.
struct Fetched {
    rows: Vec<Row>,
    bytes: u64,
    lease: Lease,
}

impl Fetched {
    /// A row that the cursor keeps.
    fn copy(&mut self, row: &Row) -> Result<()> {
        self.bytes += row_bytes(row) as u64;
        self.lease.cover(self.bytes)?;
        self.rows.push(row.clone());
        Ok(())
    }

    /// A row that the cursor lets go of, which is covered as one of it.
    fn take(&mut self, row: Row) {
        self.bytes += row_bytes(&row) as u64;
        self.lease.cover_anyway(self.bytes);
        self.rows.push(row);
    }
}

impl Cursor {
    fn bytes(&self) -> u64 {
        statement_bytes(self.text.len()) as u64 + self.rows.bytes
    }
}

impl Rows {
    /// Where rows end that have been made, as a position.
    fn made_to(&self) -> usize {
        self.passed + self.made.len()
    }

    fn is_at_end(&self) -> bool {
        self.more.is_none() && self.position > self.made_to()
    }

    fn is_on_row(&self) -> bool {
        self.position > 0 && !self.is_at_end()
    }

    /// Makes sure of the row at a position, if there is one.
    async fn make(&mut self, position: usize) -> Result<()> {
        while self.made_to() < position
            && let Some(more) = &mut self.more
        {
            match more.next().await {
                None => self.more = None,
                Some(Ok(rows)) => {
                    self.bytes += bytes_of(&rows);
                    self.made.extend(rows);
                    if self.bytes > self.bytes_max {
                        return Err(too_much(self.bytes_max));
                    }
                }
                Some(Err(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Goes on by `count` rows, some at a time so that what is passed is let go of. The rows go to
    /// `out`, if they are wanted; how many there were.
    async fn forward(&mut self, count: u64, mut out: Option<&mut Fetched>) -> Result<u64> {
        let mut gone = 0;
        while gone < count && !self.is_at_end() {
            self.make(self.position + 1).await?;
            let there = self.made_to().saturating_sub(self.position) as u64;
            let take = there.min(count - gone) as usize;
            if take == 0 {
                self.position += 1;
                break;
            }
            if self.only_forward {
                self.passed += take;
                for row in self.made.drain(..take) {
                    self.bytes -= row_bytes(&row) as u64;
                    if let Some(out) = &mut out {
                        out.take(row);
                    }
                }
            } else if let Some(out) = &mut out {
                let first = self.position - self.passed;
                self.made.range(first..first + take).try_for_each(|row| out.copy(row))?;
            }
            self.position += take;
            gone += take as u64;
        }
        Ok(gone)
    }

    fn check_backward(&self) -> Result<()> {
        match self.only_forward {
            false => Ok(()),
            true => Err(Error::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cursor can only scan forward",
            )
            .with_hint("Declare it with SCROLL option to enable backward scan.")),
        }
    }

    fn backward(&mut self, count: u64, out: Option<&mut Fetched>) -> Result<u64> {
        self.check_backward()?;
        let there = self.position.saturating_sub(1) as u64;
        let take = there.min(count) as usize;
        if let Some(out) = out {
            let last = self.position.saturating_sub(1);
            self.made.range(last - take..last).rev().try_for_each(|row| out.copy(row))?;
        }
        self.position = if (take as u64) < count { 0 } else { self.position - take };
        Ok(take as u64)
    }

    fn rewind(&mut self) -> Result<()> {
        if self.position > 0 {
            self.check_backward()?;
            self.position = 0;
        }
        Ok(())
    }

    /// The rows that a FETCH answers; how many they are.
    async fn go(&mut self, direction: Direction, mut out: Option<&mut Fetched>) -> Result<u64> {
        match direction {
            Direction::Forward(0) | Direction::Backward(0) => match (self.is_on_row(), out) {
                (false, _) => Ok(0),
                (true, None) => Ok(1),
                (true, out) => {
                    self.backward(1, None)?;
                    self.forward(1, out).await
                }
            },
            Direction::Forward(count) => self.forward(count, out).await,
            // It is a rewind, which a cursor that has not moved can do.
            Direction::Backward(ALL) if out.is_none() => {
                let rows = self.position.saturating_sub(1) as u64;
                self.rewind().map(|()| rows)
            }
            Direction::Backward(count) => self.backward(count, out),
            Direction::Absolute(0) => self.rewind().map(|()| 0),
            Direction::Absolute(row) if row > 0 => {
                let before = usize::try_from(row - 1).unwrap_or(usize::MAX);
                if before >= self.position {
                    self.forward((before - self.position) as u64, None).await?;
                } else {
                    self.check_backward()?;
                    self.position = before;
                }
                self.forward(1, out).await
            }
            Direction::Absolute(row) => {
                self.forward(ALL, None).await?;
                self.backward(row.unsigned_abs() - 1, None)?;
                self.backward(1, out)
            }
            Direction::Relative(rows) if rows > 0 => {
                self.forward(rows.unsigned_abs() - 1, None).await?;
                self.forward(1, out.take()).await
            }
            Direction::Relative(rows) => {
                self.backward(rows.unsigned_abs() - 1, None)?;
                self.backward(1, out)
            }
        }
    }
}

impl Session {
    /// Runs a query for those who fetch its rows later.
    pub(super) async fn declare(
        &mut self,
        (declaration, text): (&Declaration, &str),
        query: &Arc<Prepared>,
        parameters: &[Value],
        view: View,
    ) -> Result<Answer> {
        if !declaration.hold {
            self.open_transaction("DECLARE CURSOR")?;
        }
        if self.cursors.query(&declaration.name).is_some() {
            let what = format!("cursor \"{}\" already exists", declaration.name);
            return Err(Error::new(SqlState::DUPLICATE_CURSOR, what));
        }
        let bytes_max = self.guard.memory();
        let (made, more) = match Box::pin(self.run(query, parameters, view)).await? {
            Answer::Rows { rows, .. } => (VecDeque::from(rows), None),
            Answer::Stream { rows, .. } => (VecDeque::new(), Some(rows)),
            _ => return Err(Error::unsupported("a cursor over this statement")),
        };
        let only_forward = match declaration.scroll {
            Some(scroll) => !scroll,
            None => more.is_some() && !declaration.hold,
        };
        let bytes = made.iter().map(|row| row_bytes(row) as u64).sum();
        let (passed, position, failed) = (0, 0, false);
        let mut rows =
            Rows { made, passed, more, position, only_forward, failed, bytes, bytes_max };
        if declaration.hold {
            rows.make(usize::MAX).await?;
        }
        self.cursors.insert(Cursor {
            declaration: declaration.clone(),
            text: text.to_owned(),
            query: Arc::clone(query),
            created_us: self.now_us(),
            number: self.cursors.next,
            stays: self.transaction.is_none(),
            rows,
        })?;
        Ok(plain("DECLARE CURSOR"))
    }

    /// FETCH, or MOVE; `told`: the columns that the client expects.
    pub(super) async fn fetch_rows(
        &mut self,
        name: &str,
        direction: Direction,
        moves: bool,
        told: &Output,
    ) -> Result<Answer> {
        let bytes_max = self.guard.memory();
        let cursor = self.cursors.get(name)?;
        if cursor.rows.failed {
            let what = format!("portal \"{name}\" cannot be run");
            return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what));
        }
        if !moves && cursor.query.bound.output != *told {
            return Err(Error::changed_result_type(
                "The cursor was declared anew since: prepare the statement again.",
            ));
        }
        cursor.rows.bytes_max = bytes_max;
        let mut fetched = Fetched { rows: Vec::new(), bytes: 0, lease: self.guard.lease() };
        let out = (!moves).then_some(&mut fetched);
        let gone = cursor.rows.go(direction, out).await;
        let covered = self.cursors.cover();
        let count = match gone.and_then(|count| covered.map(|()| count)) {
            Ok(count) => count,
            Err(error) => {
                self.cursors.get(name)?.rows.failed = true;
                return Err(error);
            }
        };
        let Fetched { rows, lease, .. } = fetched;
        let tag = |verb: &str| Tag::Counted(verb.to_owned(), count);
        Ok(match moves {
            true => Answer::Tag(tag("MOVE")),
            false => Answer::Rows { rows, tag: tag("FETCH"), lease: Some(lease) },
        })
    }

    /// `None`: all of them.
    pub(super) fn close_cursors(&mut self, name: Option<&str>) -> Result<Answer> {
        let Some(name) = name else {
            self.cursors.close_all();
            return Ok(plain("CLOSE CURSOR ALL"));
        };
        match self.close_cursor(name) {
            true => Ok(plain("CLOSE CURSOR")),
            false => Err(unknown(name)),
        }
    }

    /// Whether there was one.
    pub fn close_cursor(&mut self, name: &str) -> bool {
        let was_there = self.cursors.by_name.remove(name).is_some();
        self.cursors.settle();
        was_there
    }

    /// The query of a cursor, and whether its rows are for binary readers.
    pub fn cursor(&self, name: &str) -> Option<(&Arc<Prepared>, bool)> {
        let cursor = self.cursors.by_name.get(name)?;
        Some((&cursor.query, cursor.declaration.binary))
    }
}

fn bytes_of(rows: &[Row]) -> u64 {
    rows.iter().map(|row| row_bytes(row) as u64).sum()
}

fn unknown(name: &str) -> Error {
    let what = format!("cursor \"{name}\" does not exist");
    Error::new(SqlState::INVALID_CURSOR_NAME, what)
}

fn too_much(bytes_max: u64) -> Error {
    Error::new(SqlState::OUT_OF_MEMORY, "a cursor holds too much memory")
        .with_detail(format!("By the setting tally.query_memory it may hold {bytes_max} bytes."))
        .with_hint("Declare it with NO SCROLL, so that it lets go of the rows that it has passed.")
}
