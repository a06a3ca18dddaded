//! Which states between blocks are states of the serial order.
//!
//! ```text
//!   block H     a b c
//!   block H+1   d e        e overtakes c: the serial order is  a b e c d
//!   behind H: a b c        no prefix of it, so no reader may see it
//! ```
//!
//! With a snapshot lag of 1 nothing overtakes, and every height is safe as soon as it is published.
//! Above, height H is safe when block H + 1 is published and none of its transactions overtakes one
//! of H: a transaction can pass the block before its own only. Whether it is safe is not known
//! before, so readers outside of blocks are one block behind at least. The newest safe state is
//! pinned, since blocks that overtake may follow one another for long.

use storage::{Snapshot, Store};
use types::Height;

/// The newest safe state.
pub struct SafeSnapshot {
    safe: Snapshot,
    /// Published, and not known to be safe.
    newest: Option<Snapshot>,
}

impl SafeSnapshot {
    /// Nothing will overtake what the store has come to.
    pub fn new(store: &Store) -> SafeSnapshot {
        SafeSnapshot { safe: store.snapshot(), newest: None }
    }

    /// A block was published that has been prepared `lag` behind itself. `overtakes`: one of its
    /// transactions comes, in the serial order, before one of the block before.
    pub fn published(&mut self, store: &Store, lag: Height, overtakes: bool) {
        if lag <= 1 {
            *self = SafeSnapshot::new(store);
            return;
        }
        let before = self.newest.replace(store.snapshot());
        if let Some(before) = before.filter(|_| !overtakes) {
            self.safe = before;
        }
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.safe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(safe: &mut SafeSnapshot, store: &Store, height: Height, overtakes: bool) -> Height {
        store.finish_unread(store.begin_block(height, 1));
        store.publish(height);
        safe.published(store, 2, overtakes);
        safe.snapshot().height()
    }

    #[test]
    fn a_height_is_safe_when_the_block_behind_it_does_not_overtake() {
        let store = Store::new();
        store.publish(0);
        let mut safe = SafeSnapshot::new(&store);
        let overtakes = [false, false, true, true, false];
        let heights: Vec<Height> = (1..)
            .zip(overtakes)
            .map(|(height, overtakes)| publish(&mut safe, &store, height, overtakes))
            .collect();
        assert_eq!(heights, [0, 1, 1, 1, 4]);
    }
}
