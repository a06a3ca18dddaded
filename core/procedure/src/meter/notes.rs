//! What may have to be remembered of reads.
//!
//! Most protocols remember, until their block is over, what a transaction has read: which rows, and
//! which ranges. A read costs a unit, and leaves more than a unit's worth of memory; so what reads
//! leave is counted like what is held, beside it and with the same limit. It is counted under
//! every protocol, whether it remembers or not, since the limit decides outcomes.

use std::ops::Bound;

use types::{Error, Key, SqlState};

use super::{Meter, SPLIT};
use crate::access::Range;

/// Of a row beside its key: its table, its record, its stamp, and what they stand in.
const ROW_BYTES: u64 = 48;

/// Of a range beside its bounds: two of them, its index, a digest, and what they stand in.
const RANGE_BYTES: u64 = 160;

impl Meter {
    /// Before a row is looked for by its key.
    #[inline]
    pub fn note_row(&self, key: &Key) -> Result<(), Error> {
        self.note(ROW_BYTES + key.as_bytes().len() as u64)
    }

    /// Before a range is read.
    #[inline]
    pub fn note_range(&self, range: &Range) -> Result<(), Error> {
        let bytes = |bound: &Bound<Key>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.as_bytes().len() as u64,
            Bound::Unbounded => 0,
        };
        self.note(RANGE_BYTES + bytes(&range.low) + bytes(&range.high))
    }

    #[inline]
    fn note(&self, bytes: u64) -> Result<(), Error> {
        let left = self.notes_left.get().checked_sub(bytes).ok_or_else(|| self.out_of_notes())?;
        self.notes_left.set(left);
        Ok(())
    }

    #[cold]
    fn out_of_notes(&self) -> Error {
        let what = format!(
            "the rows and ranges that the transaction reads by their keys are more than {} bytes",
            self.memory.get()
        );
        Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
            .with_detail(
                "They are remembered until the block is over. The ledger's parameter \
                 transaction_bytes_max says how many there may be; a row counts as 48 bytes, a \
                 range as 160, and their keys.",
            )
            .with_hint(SPLIT)
    }
}
