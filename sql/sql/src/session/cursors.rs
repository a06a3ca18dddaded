//! Cursors: the rows of a query, kept in the session and fetched as the client asks.
//!
//! ```text
//!   position   0    1    2   …   n   n + 1
//!            start row1 row2   row n  end     FETCH k returns the next k, and stands on the last
//! ```
//!
//! DECLARE runs the query. So a cursor shows the rows of that moment, whatever the transaction
//! writes later, and COMMIT validates the query's reads like any others. An error of the query is
//! reported by DECLARE, where PostgreSQL may report it at a FETCH. A query of the columnar engine,
//! which produces rows on demand, is not run ahead of the FETCHes, unless its rows have to outlive
//! the transaction (WITH HOLD).
//!
//! A forward-only cursor frees the rows that it has passed. A cursor declared with neither SCROLL
//! nor NO SCROLL can move backwards if all its rows are in memory anyway.
//!
//! *Lifetime.* A cursor is closed at the end of its transaction, or by ROLLBACK TO a savepoint that
//! is older than it. A cursor WITH HOLD whose transaction has committed is closed by neither.
//! ROLLBACK TO never moves a cursor back.
//!
//! *Cost.* The rows that cursors hold count against the memory budget of all sessions, and rows on
//! their way to the client count once more.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures::StreamExt;
use kit::pool::Lease;
use types::{Error, Result, SqlState};

use super::prepared::{Prepared, statement_bytes};
use crate::plan::analytical_engine::{Row, RowBatches, row_bytes};
use crate::settings::CursorSeen;
use crate::syntax::parsed::{ALL, Declaration, Direction};

/// Those that one session may have: each statement looks through them.
const CURSORS_MAX: usize = 10_000;

/// Those of one session.
pub(super) struct Cursors {
    pub(super) by_name: BTreeMap<String, Cursor>,
    /// What the next one is numbered.
    pub(super) next: u64,
    pub(super) lease: Lease,
}

/// The cursors that there were at a point of time.
#[derive(Clone, Copy)]
pub struct CursorMark(u64);

pub(super) struct Cursor {
    pub(super) declaration: Declaration,
    pub(super) text: String,
    pub(super) query: Arc<Prepared>,
    pub(super) created_us: i64,
    pub(super) number: u64,
    /// It outlives the open transaction.
    pub(super) stays: bool,
    pub(super) rows: Rows,
}

/// A query's rows, and a position among them.
pub(super) struct Rows {
    /// From row `passed + 1` on.
    pub(super) made: VecDeque<Row>,
    pub(super) passed: usize,
    /// `None`: there are no more than were made.
    pub(super) more: Option<RowBatches>,
    pub(super) position: usize,
    pub(super) only_forward: bool,
    /// After an error it goes nowhere.
    pub(super) failed: bool,
    /// Of those that were made and not passed.
    pub(super) bytes: u64,
    pub(super) bytes_max: u64,
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
        self.shrink_lease();
    }

    pub fn transaction_ended(&mut self, committed: bool) {
        if self.by_name.is_empty() {
            return;
        }
        for cursor in self.by_name.values_mut() {
            cursor.stays |= committed && cursor.declaration.hold;
        }
        self.by_name.retain(|_, cursor| cursor.stays);
        self.shrink_lease();
    }

    pub fn close_all(&mut self) {
        self.by_name.clear();
        self.shrink_lease();
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

    pub(super) fn bytes(&self) -> u64 {
        self.by_name.values().map(Cursor::bytes).sum()
    }

    pub(super) fn shrink_lease(&mut self) {
        self.lease.shrink(self.bytes());
    }

    /// Covers what cursors hold now.
    pub(super) fn cover(&mut self) -> Result<()> {
        let bytes = self.bytes();
        self.lease.cover(bytes)?;
        self.lease.shrink(bytes);
        Ok(())
    }

    pub(super) fn get(&mut self, name: &str) -> Result<&mut Cursor> {
        self.by_name.get_mut(name).ok_or_else(|| unknown(name))
    }

    pub(super) fn insert(&mut self, cursor: Cursor) -> Result<()> {
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
pub(super) struct Fetched {
    pub(super) rows: Vec<Row>,
    pub(super) bytes: u64,
    pub(super) lease: Lease,
}

impl Fetched {
    /// A row that the cursor keeps.
    pub(super) fn copy(&mut self, row: &Row) -> Result<()> {
        self.bytes += row_bytes(row) as u64;
        self.lease.cover(self.bytes)?;
        self.rows.push(row.clone());
        Ok(())
    }

    /// A row that the cursor lets go of, which is covered as one of it.
    pub(super) fn take(&mut self, row: Row) {
        self.bytes += row_bytes(&row) as u64;
        self.lease.cover_anyway(self.bytes);
        self.rows.push(row);
    }
}

impl Cursor {
    pub(super) fn bytes(&self) -> u64 {
        statement_bytes(self.text.len()) as u64 + self.rows.bytes
    }
}

impl Rows {
    /// Where rows end that have been made, as a position.
    pub(super) fn made_to(&self) -> usize {
        self.passed + self.made.len()
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.more.is_none() && self.position > self.made_to()
    }

    pub(super) fn is_on_row(&self) -> bool {
        self.position > 0 && !self.is_at_end()
    }

    /// Makes sure of the row at a position, if there is one.
    pub(super) async fn make(&mut self, position: usize) -> Result<()> {
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
    pub(super) async fn forward(
        &mut self,
        count: u64,
        mut out: Option<&mut Fetched>,
    ) -> Result<u64> {
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

    pub(super) fn check_backward(&self) -> Result<()> {
        match self.only_forward {
            false => Ok(()),
            true => Err(Error::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cursor can only scan forward",
            )
            .with_hint("Declare it with SCROLL option to enable backward scan.")),
        }
    }

    pub(super) fn backward(&mut self, count: u64, out: Option<&mut Fetched>) -> Result<u64> {
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

    pub(super) fn rewind(&mut self) -> Result<()> {
        if self.position > 0 {
            self.check_backward()?;
            self.position = 0;
        }
        Ok(())
    }

    /// The rows that a FETCH answers; how many they are.
    pub(super) async fn go(
        &mut self,
        direction: Direction,
        mut out: Option<&mut Fetched>,
    ) -> Result<u64> {
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

fn bytes_of(rows: &[Row]) -> u64 {
    rows.iter().map(|row| row_bytes(row) as u64).sum()
}

pub(super) fn unknown(name: &str) -> Error {
    let what = format!("cursor \"{name}\" does not exist");
    Error::new(SqlState::INVALID_CURSOR_NAME, what)
}

fn too_much(bytes_max: u64) -> Error {
    Error::new(SqlState::OUT_OF_MEMORY, "a cursor holds too much memory")
        .with_detail(format!("By the setting tally.query_memory it may hold {bytes_max} bytes."))
        .with_hint("Declare it with NO SCROLL, so that it lets go of the rows that it has passed.")
}
