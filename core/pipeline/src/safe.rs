//! Which states between blocks are states of the serial order.
//!
//! ```text
//!   block H     a b c
//!   block H+1   d e        e comes before c: the serial order is  a b e c d
//!   behind H: a b c        no prefix of it, so no reader may see it
//! ```
//!
//! With a snapshot lag of 1 no block reorders another, and every height is safe as soon as it is
//! published. Above, a transaction can pass the block before its own only, and only one that was
//! prepared before that block was there. So height H is safe
//!
//! 1. when block H + 1 is cut after H was published, by the node that published it: it has
//!    [seen](crate::Event::Ordered) H, and is prepared on it;
//! 2. when block H + 1 is under way already, and none of its transactions is found to precede one
//!    of H when it is finished. Until then H is in doubt.
//!
//! A reader that must see H and meets it in doubt waits for block H + 1 to be finished, and where
//! that reorders H, for the next batch to be cut behind all that is under way: a few blocks at
//! most. One that need not takes the newest safe state. It is pinned, since blocks that reorder the
//! one before may follow one another, until the next that is prepared on the block before it
//! ([`SAFE_BLOCKS`](crate::SAFE_BLOCKS)).

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

    /// The block behind the newest published one is finished, or known to have seen that one.
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
