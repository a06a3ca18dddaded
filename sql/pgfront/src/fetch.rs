//! A statement's rows on their way to the client: whole, or as they are made.
//!
//! The next rows of a stream are asked for when the ones before are in the output buffer, and that
//! is sent whenever it is large: a slow client slows what makes the rows, and a result takes the
//! memory of some batches, whatever its size. A client that hangs up while rows are made ends their
//! making there and then.

use std::vec;

use futures::{FutureExt, Stream, StreamExt};
use kit::pool::Lease;
use types::{Result, Zone};

use crate::backend::{ColumnDescription, Row, RowStream};
use crate::cancel::Cancel;
use crate::failure::{Failure, aside};
use crate::message::Formats;
use crate::reply;
use crate::wire::{Closed, Wire};

/// Longer values take a while to be written.
const LONG_VALUE_BYTES: usize = 256 << 10;

/// More rows that no client fetches take a while to be given back.
const MANY_ROWS: usize = 1000;

/// Rows that have not been sent yet.
pub struct Fetch {
    made: vec::IntoIter<Row>,
    /// `None`: there are no more than were made.
    more: Option<RowStream>,
    /// Covers those that came at once; a stream has its own.
    _lease: Option<Lease>,
}

/// How rows are written.
pub struct Shape<'a> {
    pub columns: &'a [ColumnDescription],
    pub formats: &'a Formats,
    pub zone: &'a Zone,
}

impl Fetch {
    pub fn whole(rows: Vec<Row>, lease: Option<Lease>) -> Fetch {
        Fetch { made: rows.into_iter(), more: None, _lease: lease }
    }

    pub fn stream(rows: RowStream) -> Fetch {
        Fetch { made: Vec::new().into_iter(), more: Some(rows), _lease: None }
    }

    /// Encodes at most `max_rows` rows, sending as the buffer fills. Returns how many.
    pub async fn send(
        &mut self,
        wire: &mut Wire,
        cancel: &Cancel,
        shape: &Shape<'_>,
        max_rows: Option<usize>,
    ) -> Result<u64, Failure> {
        let mut left = max_rows.unwrap_or(usize::MAX);
        let mut sent = 0;
        while left > 0 && self.fill(wire, cancel).await? {
            for row in self.made.by_ref().take(left) {
                cancel.check()?;
                let is_long = row.iter().any(|value| value.is_longer_than(LONG_VALUE_BYTES));
                let (output, encoding) = (&mut wire.output, wire.encoding);
                let mut put = |row: Row| reply::data_row(output, &row, shape, encoding);
                match is_long {
                    true => aside(|| put(row))?,
                    false => put(row)?,
                }
                sent += 1;
                left -= 1;
                wire.flush_if_large().await?;
            }
        }
        Ok(sent)
    }

    /// Whether a further fetch could find any.
    pub fn may_have_more(&self) -> bool {
        self.made.len() > 0 || self.more.is_some()
    }

    /// Waits for rows if none are at hand, with what was encoded on its way meanwhile. Returns
    /// whether there are any.
    async fn fill(&mut self, wire: &mut Wire, cancel: &Cancel) -> Result<bool, Failure> {
        while self.made.len() == 0 {
            let Some(rows) = &mut self.more else {
                return Ok(false);
            };
            cancel.check()?;
            match next(rows, wire).await? {
                Some(batch) => self.made = batch?.into_iter(),
                None => self.more = None,
            }
        }
        Ok(true)
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        let made = std::mem::take(&mut self.made);
        if made.len() > MANY_ROWS {
            aside(|| drop(made));
        }
    }
}

/// What a stream makes next, with what is in the output buffer on its way meanwhile.
pub async fn next<M>(made: &mut M, wire: &mut Wire) -> Result<Option<M::Item>, Closed>
where
    M: Stream + Unpin,
{
    if let Some(next) = made.next().now_or_never() {
        return Ok(next);
    }
    wire.flush().await?;
    tokio::select! {
        biased;
        next = made.next() => Ok(next),
        closed = wire.hung_up() => Err(closed),
    }
}
