//! Which records each block touched, for those who keep copies of rows.
//!
//! ```text
//! blocks close:   7 ─► 8 ─► 9 ─► 10        records of 8, 9, 10 wait here
//!                 ╎                        until the one reader takes them
//!          complete_above = 7
//! ```
//!
//! A copy of rows as of block `a` becomes one as of block `b` by looking again at the records that
//! the blocks between touched; forwards and backwards alike. The writers of a block keep a list of
//! what they touched in any case, so a feed costs them one copy of it at the block's end, and
//! nothing while there is no listener.
//!
//! *Invariant.* The feed has told, or still holds, every record touched by a block above
//! `complete_above`. It may hold too many: writes that were taken back, tables that are gone. A
//! feed that is not read gives up its oldest blocks and raises `complete_above` over them; so it is
//! bounded, and a reader that comes late knows that it must look at all rows.

use std::collections::VecDeque;

use parking_lot::Mutex;
use types::{Height, TableId};

use crate::slot::Slot;
use crate::undo::Touched;

/// Records that wait for a reader who does not come: 16 MiB.
const RECORDS_MAX: usize = if cfg!(miri) { 2 << 10 } else { 2 << 20 };

/// A block itself takes as much room as so many.
const BLOCK_RECORDS: usize = 8;

/// What one block touched.
pub struct TouchedBlock {
    pub height: Height,
    /// In no order, some more than once.
    pub records: Vec<(TableId, Slot)>,
}

/// What closed since a reader asked last.
pub struct TouchedBlocks {
    /// In the order of their heights.
    pub blocks: Vec<TouchedBlock>,
    /// Every record that a block above this touched was in these blocks or in earlier ones.
    pub complete_above: Height,
}

/// The touched records of the blocks that closed since the feed was last read.
#[derive(Default)]
pub struct ChangeFeed(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    listening: bool,
    closed: Height,
    complete_above: Height,
    blocks: VecDeque<TouchedBlock>,
    records: usize,
}

impl ChangeFeed {
    /// From now on blocks are told, at the latest from the one that closes next.
    pub fn listen(&self) {
        let mut inner = self.0.lock();
        if !inner.listening {
            inner.listening = true;
            inner.complete_above = inner.closed;
        }
    }

    /// Ends listening: blocks are not kept, until a reader listens again.
    pub fn stop_listening(&self) {
        let mut inner = self.0.lock();
        let closed = inner.closed;
        *inner = Inner { closed, ..Inner::default() };
    }

    /// All that was not taken yet. There is one reader at a time.
    pub fn take(&self) -> TouchedBlocks {
        let mut inner = self.0.lock();
        inner.records = 0;
        let blocks = inner.blocks.drain(..).collect();
        TouchedBlocks { blocks, complete_above: inner.complete_above }
    }

    /// Before the block is published, so that a reader of its height finds what it touched.
    pub(crate) fn close(&self, height: Height, touched: &[Touched]) {
        let mut inner = self.0.lock();
        inner.closed = height;
        if !inner.listening || touched.is_empty() {
            return;
        }
        let records: Vec<_> = touched.iter().map(|one| (one.table, one.slot)).collect();
        inner.records += BLOCK_RECORDS + records.len();
        inner.blocks.push_back(TouchedBlock { height, records });
        while inner.records > RECORDS_MAX
            && let Some(oldest) = inner.blocks.pop_front()
        {
            inner.records -= BLOCK_RECORDS + oldest.records.len();
            inner.complete_above = oldest.height;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(count: u32) -> Vec<Touched> {
        (0..count).map(|slot| Touched { table: TableId(1), slot: Slot(slot), before: 0 }).collect()
    }

    fn heights(taken: &TouchedBlocks) -> Vec<Height> {
        taken.blocks.iter().map(|block| block.height).collect()
    }

    #[test]
    fn a_listener_is_told_of_every_block_that_closes_after_it_came() {
        let feed = ChangeFeed::default();
        feed.close(1, &touched(3));
        feed.listen();
        feed.close(2, &touched(2));
        feed.close(3, &touched(0));
        feed.close(4, &touched(1));
        let taken = feed.take();
        assert_eq!((heights(&taken), taken.complete_above), (vec![2, 4], 1));
        assert_eq!(taken.blocks[0].records, [(TableId(1), Slot(0)), (TableId(1), Slot(1))]);
        feed.listen();
        feed.close(5, &touched(1));
        let taken = feed.take();
        assert_eq!((heights(&taken), taken.complete_above), (vec![5], 1));
        feed.stop_listening();
        feed.close(6, &touched(1));
        feed.listen();
        let taken = feed.take();
        assert_eq!((heights(&taken), taken.complete_above), (vec![], 6));
    }

    #[test]
    fn a_feed_that_nobody_reads_forgets_its_oldest_blocks_and_says_so() {
        let feed = ChangeFeed::default();
        feed.listen();
        const OF_BLOCK: usize = RECORDS_MAX / 20;
        let blocks = 5 * 20;
        (1..=blocks).for_each(|height| feed.close(height, &touched(OF_BLOCK as u32)));
        let taken = feed.take();
        let kept: usize = taken.blocks.iter().map(|block| block.records.len()).sum();
        assert!(kept <= RECORDS_MAX && kept > RECORDS_MAX - 3 * OF_BLOCK);
        assert_eq!(taken.blocks[0].height, taken.complete_above + 1);
        assert_eq!(taken.blocks.last().map(|block| block.height), Some(blocks));
    }
}
