//! Which published heights are states of the serial order, where blocks overlap.
//!
//! ```text
//!   published H ──► safe                       the next batch is cut after it
//!           └─────► in doubt ──► safe          the next block runs, and precedes none of it
//!                       └──────► reordered     one does: H is no state between transactions
//! ```
//!
//! See [`pipeline::SafeSnapshot`] for why. Only the newest block can be in doubt: block H + 1 is
//! executed before it is published, and that decides H. A reader that must see the newest block
//! waits while that is in doubt; if it was reordered, the reader requests a *pause* (`want_rest`):
//! the sequencer starts no further batch until every running one is published, and the last of them
//! is a height that is safe.

use std::collections::BTreeSet;

use types::Height;

#[derive(Debug, Default)]
pub(super) struct States {
    in_doubt: Option<Height>,
    /// Among the blocks whose times are known.
    reordered: BTreeSet<Height>,
    /// A reader waits for a height that is safe.
    rest_wanted: bool,
    /// Nothing that is in doubt will be decided any more.
    ended: bool,
}

impl States {
    pub fn published(&mut self, height: Height, safe: bool) {
        self.in_doubt = (!safe).then_some(height);
        self.rest_wanted &= !safe;
    }

    /// The block after the newest one is finished.
    pub fn finished(&mut self, reorders_previous: bool) {
        let newest = self.in_doubt.take();
        self.reordered.extend(newest.filter(|_| reorders_previous));
    }

    /// Older blocks cannot be read.
    pub fn forget_below(&mut self, height: Height) {
        while self.reordered.first().is_some_and(|oldest| *oldest < height) {
            self.reordered.pop_first();
        }
    }

    pub fn is_in_doubt(&self, height: Height) -> bool {
        self.in_doubt == Some(height)
    }

    pub fn is_safe(&self, height: Height) -> bool {
        !self.is_in_doubt(height) && !self.reordered.contains(&height)
    }

    pub fn want_rest(&mut self) {
        self.rest_wanted = true;
    }

    pub fn is_rest_wanted(&self) -> bool {
        self.rest_wanted
    }

    pub fn end(&mut self) {
        self.ended = true;
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_block_is_in_doubt_until_the_next_one_is_finished() {
        let mut states = States::default();
        states.published(1, true);
        states.published(2, false);
        assert!(states.is_safe(1) && states.is_in_doubt(2) && !states.is_safe(2));
        states.finished(false);
        assert!(states.is_safe(2));
        states.published(3, false);
        states.want_rest();
        states.finished(true);
        assert!(!states.is_safe(3) && !states.is_in_doubt(3) && states.is_rest_wanted());
        states.published(4, true);
        assert!(states.is_safe(4) && !states.is_rest_wanted() && !states.is_safe(3));
        states.forget_below(4);
        assert!(states.reordered.is_empty());
    }
}
