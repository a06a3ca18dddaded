//! The first rows of one engine, held back until another need not be asked.
//!
//! What two engines compute in another order may be an error for one alone, and then the other's
//! word counts. So no row goes to a client before so many are there that taking them back would
//! cost more than it is worth; most answers are shorter than that, and are known whole.

use std::collections::VecDeque;

use futures::stream::{self, StreamExt};
use types::Error;

use super::may_differ;
use crate::plan::analyst::{RowBatches, row_bytes};

/// Rows that are held back until it is known that none of them is an error.
const HELD_ROWS_MAX: usize = 10_000;
const HELD_BYTES_MAX: usize = 4 << 20;

/// The same rows, from the first.
///
/// # Errors
/// One that another engine [may not have](may_differ), before any of the rows was shown.
pub async fn settled(rows: RowBatches) -> Result<RowBatches, Error> {
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
