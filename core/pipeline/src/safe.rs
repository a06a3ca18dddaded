//! Decides which block boundaries are states of the serial order ("safe" for readers).
//!
//! ```text
//!   block H     a b c
//!   block H+1   d e        e precedes c: the serial order is  a b e c d
//!   after H: a b c         is no prefix of it, so no reader may see this state
//! ```
//!
//! With a snapshot lag of 1 no block reorders another, so every height is safe once published. With
//! a larger lag, a transaction can precede transactions of the directly previous block only, and
//! only if it was prepared before that block was published. So height H is safe
//!
//! 1. if block H + 1 is cut after H was published, by the node that published it: it has
//!    [seen](crate::Event::Ordered) H, and is prepared on it;
//! 2. if block H + 1 is already in progress, and turns out, when it is finished, to hold no
//!    transaction that precedes one of H. Until then H is in doubt.
//!
//! A reader that needs H while it is in doubt waits until block H + 1 is finished. If that reorders
//! H, the reader also waits until the next batch is cut after all blocks in progress: a few blocks
//! at most. Other readers take the newest safe state. Since consecutive blocks may each reorder the
//! one before, that state stays pinned until a newer one is safe, at the latest after the next
//! block that is prepared on its direct predecessor ([`SAFE_BLOCKS`](crate::SAFE_BLOCKS)).

use storage::{Snapshot, Store};
use types::Height;

/// The newest safe state.
pub struct SafeSnapshot {
    /// `None`: none is known yet.
    safe: Option<Snapshot>,
    /// Published, and in doubt.
    newest: Option<Snapshot>,
}

impl SafeSnapshot {
    /// No block will reorder what the store has come to.
    pub fn new(store: &Store) -> SafeSnapshot {
        SafeSnapshot { safe: Some(store.snapshot()), newest: None }
    }

    /// Others may have cut the next batch already.
    pub fn in_doubt(store: &Store) -> SafeSnapshot {
        SafeSnapshot { safe: None, newest: Some(store.snapshot()) }
    }

    /// A block was published. `safe`: none under way was prepared on an older state.
    pub fn published(&mut self, store: &Store, safe: bool) {
        match safe {
            true => *self = SafeSnapshot::new(store),
            false => self.newest = Some(store.snapshot()),
        }
    }

    /// The block after the newest published one is finished, or known to have seen that one.
    /// `reorders_previous`: one of its transactions comes, in the serial order, before one of the
    /// block before.
    pub fn finished(&mut self, reorders_previous: bool) {
        if let Some(newest) = self.newest.take_if(|_| !reorders_previous) {
            self.safe = Some(newest);
        }
    }

    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.safe.as_ref()
    }

    pub fn height(&self) -> Option<Height> {
        self.safe.as_ref().map(Snapshot::height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(safe: &mut SafeSnapshot, store: &Store, height: Height, is_safe: bool) -> Height {
        store.finish_unread(store.begin_block(height, 1));
        store.publish(height);
        safe.published(store, is_safe);
        safe.height().unwrap()
    }

    #[test]
    fn a_height_in_doubt_is_safe_when_the_block_behind_it_does_not_overtake() {
        let store = Store::new();
        store.publish(0);
        let mut safe = SafeSnapshot::new(&store);
        assert_eq!(publish(&mut safe, &store, 1, true), 1);
        assert_eq!(publish(&mut safe, &store, 2, false), 1);
        safe.finished(false);
        assert_eq!(safe.height(), Some(2));
        assert_eq!(publish(&mut safe, &store, 3, false), 2);
        safe.finished(true);
        assert_eq!(publish(&mut safe, &store, 4, false), 2);
        assert_eq!(publish(&mut safe, &store, 5, true), 5);
    }
}
