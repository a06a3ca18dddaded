//! The snapshots of the last blocks, kept readable for protocols that read older ones.
//!
//! Which snapshots a block reads follows from heights alone ([`Protocol::history`] and the last
//! barrier), so the code that runs blocks knows which to hold, and a protocol holds none:
//!
//! ```text
//!   floor      newest - 2   newest - 1   newest │ next block
//!     ├────────────┼────────────┼───────────┤   │ history 3: may read the last three,
//!     barrier      └─── held, as long as ───┘   │ and nothing below the barrier
//!                       the next block runs
//! ```
//!
//! *A replica that begins after a block* has these snapshots too: a checkpoint holds what they
//! differ in from the newest one, and shares their pins while it is written ([`Past`]).
//!
//! *Cost.* A pin for each block; none where a protocol reads the newest snapshot only, since that
//! is never collected under it.
//!
//! [`Protocol::history`]: crate::Protocol::history

use std::collections::VecDeque;
use std::sync::Arc;

use storage::{Pin, Store};
use types::Height;

use crate::protocol::Snapshots;

/// The snapshots before a block's that blocks after it may read, without a gap, oldest first. They
/// can be read as long as this lives.
#[derive(Clone, Debug, Default)]
pub struct Past(Vec<Arc<Pin>>);

impl Past {
    pub fn new(pins: impl IntoIterator<Item = Pin>) -> Past {
        Past(pins.into_iter().map(Arc::new).collect())
    }

    /// The oldest of them; `None`: there is none.
    pub fn from(&self) -> Option<Height> {
        self.0.first().map(|pin| pin.height())
    }

    fn heights(&self) -> impl Iterator<Item = Height> {
        self.0.iter().map(|pin| pin.height())
    }
}

impl PartialEq for Past {
    fn eq(&self, other: &Past) -> bool {
        self.heights().eq(other.heights())
    }
}

impl Eq for Past {}

/// Those of the last blocks, oldest first.
#[derive(Debug, Default)]
pub struct History {
    pins: VecDeque<Arc<Pin>>,
}

impl History {
    /// After a block with such snapshots before it.
    pub fn behind(past: Past) -> History {
        History { pins: past.0.into() }
    }

    /// What [`History::hold`] will hold for the next block but for the newest snapshot, which needs
    /// no pin until another one takes its place.
    pub fn past(&self, snapshots: Snapshots, blocks: Height) -> Past {
        let held = oldest(snapshots, blocks)..snapshots.newest;
        let pins = self.pins.iter().filter(|pin| held.contains(&pin.height()));
        let past = Past(pins.map(Arc::clone).collect());
        debug_assert!(past.heights().eq(held), "the snapshots {past:?} are not all there are");
        past
    }

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
        let newest = snapshots.newest;
        if blocks <= 1 {
            self.pins.clear();
            return Ok(());
        }
        let oldest = oldest(snapshots, blocks);
        self.pins.retain(|pin| (oldest..newest).contains(&pin.height()));
        let first = self.pins.back().map_or(oldest, |pin| pin.height() + 1);
        for height in first..=newest {
            let pin = store.pins().pin(height);
            self.pins.push_back(Arc::new(pin.ok_or_else(|| gone(height))?));
        }
        Ok(())
    }
}

/// The oldest snapshot that the next block may read, which reads so many blocks back.
fn oldest(Snapshots { newest, floor }: Snapshots, blocks: Height) -> Height {
    floor.max((newest + 1).saturating_sub(blocks.max(1)))
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
        history.pins.iter().map(|pin| pin.height()).collect()
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
    fn a_history_that_begins_behind_a_block_goes_on_as_the_one_before() {
        let (store, mut history) = (Store::new(), History::default());
        for newest in 0..=5 {
            history.hold(&store, Snapshots { newest, floor: 2 }, 4).unwrap();
            publish(&store, newest + 1);
        }
        let next = Snapshots { newest: 6, floor: 2 };
        let past = history.past(next, 4);
        assert_eq!(heights(&history), [2, 3, 4, 5]);
        assert!(past.heights().eq(3..6) && past.from() == Some(3));
        assert_eq!(history.past(Snapshots { newest: 6, floor: 5 }, 4).from(), Some(5));
        assert_eq!(history.past(Snapshots { newest: 6, floor: 6 }, 4).from(), None);
        assert_eq!(history.past(next, 1), Past::default());
        let mut again = History::behind(past);
        for history in [&mut history, &mut again] {
            history.hold(&store, next, 4).unwrap();
            assert_eq!(heights(history), [3, 4, 5, 6]);
        }
        drop(history);
        publish(&store, 7);
        assert!(is_readable(&store, 3));
        drop(again);
        assert!(!is_readable(&store, 3));
    }

    #[test]
    fn a_snapshot_that_was_not_held_in_time_is_an_error() {
        let (store, mut history) = (Store::new(), History::default());
        (1..=4).for_each(|height| publish(&store, height));
        assert!(history.hold(&store, Snapshots { newest: 4, floor: 0 }, 2).is_err());
        assert!(history.hold(&store, Snapshots { newest: 4, floor: 4 }, 2).is_ok());
    }
}
