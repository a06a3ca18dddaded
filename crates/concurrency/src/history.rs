//! The snapshots of the last blocks, kept readable for protocols that read older ones.
//!
//! Which snapshots a block reads follows from heights alone ([`Protocol::history`] and the last
//! barrier), so whoever runs blocks knows which to hold, and a protocol holds none:
//!
//! ```text
//!   floor      newest - 2   newest - 1   newest │ next block
//!     ├────────────┼────────────┼───────────┤   │ history 3: may read the last three,
//!     barrier      └─── held, as long as ───┘   │ and nothing below the barrier
//!                       the next block runs
//! ```
//!
//! *Cost.* A pin for each block; none where a protocol reads the newest snapshot only, since that
//! is never collected under it.
//!
//! [`Protocol::history`]: crate::Protocol::history

use std::collections::VecDeque;

use storage::{Pin, Store};
use types::Height;

use crate::protocol::Snapshots;

/// Those of the last blocks, oldest first.
#[derive(Debug, Default)]
pub struct History {
    pins: VecDeque<Pin>,
}

impl History {
    /// Before the next block is prepared, whose predecessor is `snapshots.newest`: hold that
    /// snapshot, and of those before it as many as make `blocks`. Called for each block in turn.
    ///
    /// # Errors
    /// A block after the barrier was left out, so that its snapshot may have been collected.
    pub fn hold(
        &mut self,
        store: &Store,
        snapshots: Snapshots,
        blocks: Height,
    ) -> Result<(), String> {
        let Snapshots { newest, floor } = snapshots;
        if blocks <= 1 {
            self.pins.clear();
            return Ok(());
        }
        let oldest = floor.max((newest + 1).saturating_sub(blocks));
        self.pins.retain(|pin| (oldest..newest).contains(&pin.height()));
        let first = self.pins.back().map_or(oldest, |pin| pin.height() + 1);
        for height in first..=newest {
            let pin = store.pins().pin(height);
            self.pins.push_back(pin.ok_or_else(|| gone(height))?);
        }
        Ok(())
    }
}

fn gone(height: Height) -> String {
    format!("the snapshot of block {height} was collected, and the next block may read it")
}

/// Whether what a reader at `height` sees is still there.
pub(crate) fn is_readable(store: &Store, height: Height) -> bool {
    store.pins().pin(height).is_some() || store.pins().heights().contains(&height)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heights(history: &History) -> Vec<Height> {
        history.pins.iter().map(Pin::height).collect()
    }

    fn publish(store: &Store, height: Height) {
        store.finish_unread(store.begin_block(height, 1));
        store.publish(height);
        store.collect();
    }

    #[test]
    fn the_last_blocks_are_held_down_to_the_barrier() {
        let (store, mut history) = (Store::new(), History::default());
        let mut hold = |newest, floor| {
            history.hold(&store, Snapshots { newest, floor }, 3).unwrap();
            publish(&store, newest + 1);
            heights(&history)
        };
        assert_eq!(hold(0, 0), [0]);
        assert_eq!(hold(1, 0), [0, 1]);
        assert_eq!(hold(2, 0), [0, 1, 2]);
        assert_eq!(hold(3, 0), [1, 2, 3]);
        assert_eq!(hold(4, 4), [4]);
        assert_eq!(hold(5, 4), [4, 5]);
        assert!(is_readable(&store, 4) && is_readable(&store, 6) && !is_readable(&store, 3));
        history.hold(&store, Snapshots { newest: 6, floor: 0 }, 1).unwrap();
        assert!(heights(&history).is_empty() && !is_readable(&store, 4));
    }

    #[test]
    fn a_snapshot_that_was_not_held_in_time_is_an_error() {
        let (store, mut history) = (Store::new(), History::default());
        (1..=4).for_each(|height| publish(&store, height));
        assert!(history.hold(&store, Snapshots { newest: 4, floor: 0 }, 2).is_err());
        assert!(history.hold(&store, Snapshots { newest: 4, floor: 4 }, 2).is_ok());
    }
}
