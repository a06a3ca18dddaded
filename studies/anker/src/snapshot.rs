//! Snapshots: requested at once, frozen column by column when a thread comes by.
//!
//! A request is a timestamp and a list of columns. A column is frozen for it by the thread that
//! touches it next: the query that reads it, or the commit that is about to change it. A column
//! that no commit changes is frozen once and shared by all snapshots (module `column`); a snapshot
//! that is dropped before a thread came by costs nothing.

use std::sync::OnceLock;

use kit::sync::{Arc, Weak};
use types::{Error, Result, SqlState};

use crate::area::Area;
use crate::column::FrozenColumn;
use crate::engine::Engine;
use crate::{ColumnId, Timestamp};

/// A request, and which of its columns waits.
pub(crate) type Waiting<A> = (Weak<Request<A>>, usize);

pub(crate) struct Request<A: Area> {
    timestamp: Timestamp,
    columns: Vec<ColumnId>,
    frozen: Vec<OnceLock<Result<Arc<FrozenColumn<A>>>>>,
}

impl<A: Area> Request<A> {
    pub fn fill(&self, at: usize, frozen: Result<Arc<FrozenColumn<A>>>) {
        // Filled once: a request waits for a column once.
        let _ = self.frozen[at].set(frozen);
    }
}

/// Columns as of one timestamp.
pub struct Snapshot<'e, A: Area> {
    engine: &'e Engine<A>,
    request: Arc<Request<A>>,
}

impl<'e, A: Area> Snapshot<'e, A> {
    /// `columns` without repetition.
    pub(crate) fn request(engine: &'e Engine<A>, columns: &[ColumnId]) -> Self {
        let request = engine.sequencer.request(|timestamp| {
            let frozen = columns.iter().map(|_| OnceLock::new()).collect();
            let request = Arc::new(Request { timestamp, columns: columns.to_vec(), frozen });
            for (at, &column) in columns.iter().enumerate() {
                engine.column(column).wait_for_freeze((Arc::downgrade(&request), at));
            }
            request
        });
        Snapshot { engine, request }
    }

    pub fn timestamp(&self) -> Timestamp {
        self.request.timestamp
    }

    /// One of the columns that were asked for.
    pub fn column(&self, id: ColumnId) -> Result<&Arc<FrozenColumn<A>>> {
        let at = self.request.columns.iter().position(|&column| column == id).ok_or_else(|| {
            let message = format!("column {} is not part of the snapshot", id.0);
            Error::new(SqlState::INVALID_COLUMN_REFERENCE, message)
                .with_hint("Name all columns when the snapshot is requested.")
        })?;
        let place = &self.request.frozen[at];
        if place.get().is_none() {
            self.engine.column(id).materialise();
        }
        match place.get() {
            Some(Ok(frozen)) => Ok(frozen),
            Some(Err(error)) => Err(error.clone()),
            None => Err(Error::new(SqlState::INTERNAL_ERROR, "a column was not frozen")),
        }
    }
}
