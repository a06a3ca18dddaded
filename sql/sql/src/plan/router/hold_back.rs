//! Holds the first rows of one engine back until the other one need no longer be asked.
//!
//! Two engines evaluate expressions in different orders, so a query may fail in one and succeed in
//! the other; then the other engine's answer counts. So no row is sent before so many are there
//! that discarding them would waste too much work. Most answers are shorter than that, and so are
//! complete before their first row is sent.

use std::collections::VecDeque;

use futures::stream::{self, StreamExt};
use types::Error;

use super::may_differ;
use crate::plan::analytical_engine::{RowBatches, row_bytes};

/// Rows that are held back until it is known that none of them is an error.
const HELD_ROWS_MAX: usize = 10_000;
const HELD_BYTES_MAX: usize = 4 << 20;

/// The same rows, from the first.
///
/// # Errors
/// One that another engine [may not have](may_differ), before any of the rows was shown.
pub async fn hold_back(rows: RowBatches) -> Result<RowBatches, Error> {
    let mut rows = rows.fuse();
    let (mut held, mut count, mut bytes) = (VecDeque::new(), 0, 0);
    while count < HELD_ROWS_MAX
        && bytes < HELD_BYTES_MAX
        && let Some(batch) = rows.next().await
    {
        match &batch {
            Err(error) if may_differ(error) => return Err(error.clone()),
            Err(_) => count = HELD_ROWS_MAX,
            Ok(batch) => {
                count += batch.len();
                bytes += batch.iter().map(|row| row_bytes(row)).sum::<usize>();
            }
        }
        held.push_back(batch);
    }
    // As many stay held, so that the run sees how its client fetches.
    let rows = stream::unfold((held, rows), |(mut held, mut rows)| async move {
        held.extend(rows.next().await);
        let batch = held.pop_front()?;
        Some((batch, (held, rows)))
    });
    Ok(rows.boxed())
}
