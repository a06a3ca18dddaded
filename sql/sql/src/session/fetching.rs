//! DECLARE, FETCH, MOVE and CLOSE in a session.

use std::collections::VecDeque;
use std::sync::Arc;

use procedure::Output;
use types::{Error, Result, SqlState, Value};

use super::answer::{Answer, Tag, plain};
use super::cursors::{Cursor, Fetched, Rows, unknown};
use super::prepared::Prepared;
use super::{Session, View};
use crate::plan::analytical_engine::row_bytes;
use crate::syntax::parsed::{Declaration, Direction};

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

    /// FETCH, or MOVE; `described`: the columns that the client expects.
    pub(super) async fn fetch_rows(
        &mut self,
        name: &str,
        direction: Direction,
        moves: bool,
        described: &Output,
    ) -> Result<Answer> {
        let bytes_max = self.guard.memory();
        let cursor = self.cursors.get(name)?;
        if cursor.rows.failed {
            let what = format!("portal \"{name}\" cannot be run");
            return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what));
        }
        if !moves && cursor.query.bound.output != *described {
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
        self.cursors.shrink_lease();
        was_there
    }

    /// The query of a cursor, and whether its rows are for binary readers.
    pub fn cursor(&self, name: &str) -> Option<(&Arc<Prepared>, bool)> {
        let cursor = self.cursors.by_name.get(name)?;
        Some((&cursor.query, cursor.declaration.binary))
    }
}
