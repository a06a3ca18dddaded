//! Which rows of a row group later blocks have touched, by height: what a scan has to patch in an
//! image.

use std::collections::VecDeque;

use arrow_buffer::{BooleanBuffer, Buffer};
use storage::GROUP_ROWS;
use storage::parts::prefetch;
use types::Height;

const ROW_BITS: u32 = GROUP_ROWS.trailing_zeros();
const ROW_MASK: u64 = GROUP_ROWS as u64 - 1;

/// The list may take as much room as an image of integers.
const ENTRIES_MAX: usize = GROUP_ROWS;

/// A set of rows of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RowSet([u64; GROUP_ROWS / 64]);

impl RowSet {
    pub(crate) const EMPTY: RowSet = RowSet([0; GROUP_ROWS / 64]);
    pub(crate) const ALL: RowSet = RowSet([u64::MAX; GROUP_ROWS / 64]);

    pub(crate) fn insert(&mut self, row: usize) {
        self.0[row / 64] |= 1 << (row % 64);
    }

    pub(crate) fn put(&mut self, row: usize, is_in: bool) {
        let (word, bit) = (&mut self.0[row / 64], 1 << (row % 64));
        *word = if is_in { *word | bit } else { *word & !bit };
    }

    pub(crate) fn contains(&self, row: usize) -> bool {
        self.0[row / 64] & 1 << (row % 64) != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == RowSet::EMPTY
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Length of the run of rows from the first on that are all in.
    pub(crate) fn prefix(&self) -> usize {
        let first_gap = self.0.iter().position(|&word| word != u64::MAX);
        first_gap.map_or(GROUP_ROWS, |at| at * 64 + self.0[at].trailing_ones() as usize)
    }

    pub(crate) fn to_buffer(&self) -> BooleanBuffer {
        BooleanBuffer::new(Buffer::from_slice_ref(self.0), 0, GROUP_ROWS)
    }

    /// Of an array of a group's rows.
    pub(crate) fn of_buffer(bits: &BooleanBuffer) -> RowSet {
        let mut rows = RowSet::EMPTY;
        rows.0.iter_mut().zip(bits.bit_chunks().iter()).for_each(|(word, bits)| *word = bits);
        rows
    }

    /// In ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        self.0.iter().enumerate().flat_map(|(at, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(at * 64 + bit)
            })
        })
    }
}

/// The touched rows, oldest first.
///
/// ```text
/// 63                 51 50                     11 10           0
/// [          0         |        height: 40       |   row: 11    ]
/// ```
#[derive(Default)]
pub(crate) struct DirtyRows {
    entries: VecDeque<u64>,
    /// What blocks up to this touched is not in the list, or not all of it.
    complete_above: Height,
}

impl DirtyRows {
    pub(crate) fn new(complete_above: Height) -> Self {
        DirtyRows { entries: VecDeque::new(), complete_above }
    }

    /// Heights come in ascending order. Before the list takes more memory it gives up what lies at
    /// or below the height that none will ask from, which is asked for with a test of whether
    /// the list reaches back to a height.
    pub(crate) fn push(
        &mut self,
        height: Height,
        row: usize,
        unwanted: impl FnOnce(&dyn Fn(Height) -> bool) -> Height,
    ) {
        debug_assert!(self.entries.back().is_none_or(|&last| last >> ROW_BITS <= height));
        if self.entries.len() == self.entries.capacity() {
            let unwanted = unwanted(&|height| self.reaches_back_to(height));
            self.forget(unwanted);
        }
        if self.entries.len() == ENTRIES_MAX
            && let Some(&middle) = self.entries.get(ENTRIES_MAX / 2)
        {
            self.forget(middle >> ROW_BITS);
        }
        // What one block alone fills the list with is forgotten with the rest of that block.
        if height > self.complete_above {
            self.entries.push_back(height << ROW_BITS | row as u64);
        }
    }

    /// What the list takes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<u64>()
    }

    /// There are no questions for a while.
    pub(crate) fn give_up(&mut self) {
        let newest = self.entries.back().map_or(0, |&last| last >> ROW_BITS);
        *self = DirtyRows::new(self.complete_above.max(newest));
    }

    /// No query will ask from a height below.
    pub(crate) fn forget(&mut self, height: Height) {
        // The oldest entry is in no cache: not to be looked at without need.
        if height <= self.complete_above {
            return;
        }
        self.complete_above = height;
        while self.entries.pop_front_if(|entry| *entry >> ROW_BITS <= height).is_some() {}
    }

    /// The rows touched above the lower and up to the higher of two heights; `None` if the list
    /// does not reach back so far.
    pub(crate) fn between(&self, a: Height, b: Height) -> Option<RowSet> {
        let (low, high) = (a.min(b), a.max(b));
        if low == high {
            return Some(RowSet::EMPTY);
        }
        if !self.reaches_back_to(low) {
            return None;
        }
        let mut rows = RowSet::EMPTY;
        self.above(low, high).for_each(|row| rows.insert(row));
        Some(rows)
    }

    /// Fetches what is looked at first.
    pub(crate) fn prefetch(&self) {
        self.entries.back().inspect(|newest| prefetch(*newest));
    }

    /// Whether the list has every row that was touched above a height.
    pub(crate) fn reaches_back_to(&self, height: Height) -> bool {
        height >= self.complete_above
    }

    /// Whether a row was touched above a height, as far as the list reaches back.
    pub(crate) fn is_touched_above(&self, height: Height) -> bool {
        self.entries.back().is_some_and(|entry| entry >> ROW_BITS > height)
    }

    /// The rows touched above one height and up to another, as far as the list reaches back,
    /// newest first. Who asks for the newest ones does not look at the others, which are many and
    /// in no cache.
    pub(crate) fn above(&self, low: Height, high: Height) -> impl Iterator<Item = usize> {
        let newest_first = self.entries.iter().rev().copied();
        let up_to = newest_first.skip_while(move |entry| entry >> ROW_BITS > high);
        let between = up_to.take_while(move |entry| entry >> ROW_BITS > low);
        between.map(|entry| (entry & ROW_MASK) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(dirty: &DirtyRows, a: Height, b: Height) -> Option<Vec<usize>> {
        dirty.between(a, b).map(|rows| rows.iter().collect())
    }

    #[test]
    fn rows_lie_between_heights_in_either_direction() {
        let mut dirty = DirtyRows::new(4);
        for (height, row) in [(5, 7), (5, 2_047), (6, 0), (9, 7)] {
            dirty.push(height, row, |_| 0);
        }
        assert_eq!(rows(&dirty, 4, 5), Some(vec![7, 2_047]));
        assert_eq!(rows(&dirty, 9, 5), Some(vec![0, 7]));
        assert_eq!(rows(&dirty, 6, 8), Some(vec![]));
        assert_eq!(rows(&dirty, 3, 5), None);
        assert_eq!(rows(&dirty, 3, 3), Some(vec![]));
        assert_eq!([8, 9].map(|height| dirty.is_touched_above(height)), [true, false]);
        dirty.forget(6);
        assert_eq!(rows(&dirty, 5, 9), None);
        assert_eq!(rows(&dirty, 6, 9), Some(vec![7]));
    }

    #[test]
    fn a_long_list_gives_up_its_oldest_heights_and_stays_complete_above_them() {
        let mut dirty = DirtyRows::new(0);
        for height in 1..=3 * ENTRIES_MAX as Height {
            dirty.push(height, height as usize % GROUP_ROWS, |_| 0);
            assert!(dirty.entries.len() <= ENTRIES_MAX);
        }
        let newest = 3 * ENTRIES_MAX as Height;
        assert_eq!(rows(&dirty, newest - 1, newest), Some(vec![newest as usize % GROUP_ROWS]));
        let kept = dirty.between(dirty.complete_above, newest).expect("complete above it");
        assert_eq!(kept.len() as Height, newest - dirty.complete_above);
        assert!(kept.len() >= ENTRIES_MAX / 2 - 1);
        assert_eq!(rows(&dirty, dirty.complete_above - 1, newest), None);
    }
}
