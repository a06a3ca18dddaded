//! The stamp word of a record and of an undo version.
//!
//! ```text
//! 63                          26 25                  2 1     0
//! [         height: 38          |    position: 24     | state ]
//!
//! state   0 Free       no key has this slot (what untouched memory is)
//!         1 Live       the words are the row as of the stamp
//!         2 Tombstone  the stamp deleted the row; the words are its last image
//!         3 Writing    the block `height` is changing the words
//! ```
//!
//! [`Stamp`] has 40 bits of height; two of them pay for the state here. At a thousand blocks a
//! second 2^38 heights last for eight years of uninterrupted load, and [`Stamp::HEIGHT_MAX`] is
//! never reached in practice; [`StampWord::new`] asserts the bound. Words compare as stamps do.

use types::{Height, Position, Stamp};

/// The highest block that storage can hold.
pub const HEIGHT_MAX: Height = (1 << 38) - 1;

const STATE_BITS: u32 = 2;
const HEIGHT_SHIFT: u32 = STATE_BITS + Stamp::POSITION_BITS;
const _: () = assert!(HEIGHT_SHIFT == 26 && 64 - HEIGHT_SHIFT == HEIGHT_MAX.count_ones());

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Free,
    Live,
    Tombstone,
    Writing,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StampWord(pub(crate) u64);

impl StampWord {
    #[inline]
    pub(crate) fn new(stamp: Stamp, state: State) -> Self {
        assert!(stamp.height() <= HEIGHT_MAX, "block height beyond 38 bits");
        StampWord(stamp.0 << STATE_BITS | state as u64)
    }

    #[inline]
    pub(crate) fn height(self) -> Height {
        self.0 >> HEIGHT_SHIFT
    }

    #[inline]
    pub(crate) fn stamp(self) -> Stamp {
        Stamp::new(self.height(), (self.0 >> STATE_BITS) as Position & Stamp::POSITIONS_MAX)
    }

    #[inline]
    pub(crate) fn state(self) -> State {
        match self.0 & 3 {
            0 => State::Free,
            1 => State::Live,
            2 => State::Tombstone,
            _ => State::Writing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_comes_back() {
        for height in [0, 1, 77, HEIGHT_MAX] {
            for position in [0, 1, Stamp::POSITIONS_MAX] {
                for state in [State::Free, State::Live, State::Tombstone, State::Writing] {
                    let word = StampWord::new(Stamp::new(height, position), state);
                    assert_eq!(word.height(), height);
                    assert_eq!(word.stamp(), Stamp::new(height, position));
                    assert_eq!(word.state(), state);
                }
            }
        }
        assert_eq!(StampWord(0).state(), State::Free);
    }
}
