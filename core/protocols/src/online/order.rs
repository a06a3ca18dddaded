//! The serial order that transactions take while they commit.
//!
//! A writer *draws* a number from one counter; it stands in the writer's stamps until the block has
//! ended. A transaction that only read (or was rejected, which rests on what it read) does not draw
//! but *looks*: it stands before the next number to be drawn, and the counter's line stays where it
//! is.
//!
//! ```text
//!   place   0   1   2   3   4   5   6        time: 32 | 2 · number, + 1 who drew it
//!           ┊   W0  ┊   W1  ┊   ✗   ┊        W: drew and committed, ✗: drew and met a conflict
//!           r       r r             r        r: looked
//!   order   r   W0  r r W1          r        positions 0 1 2 3 4 5
//! ```
//!
//! When the block has run, the places are sorted and counted through: positions are dense whatever
//! was drawn in vain. Protocols with a clock of their own (TicToc) put it above the number.
//!
//! *Order of memory.* A draw is a read-modify-write that acquires and releases: a transaction that
//! draws or looks later sees what was done before every draw that is smaller. That is the fence
//! between locking and validating that Silo's serial order rests on.

use crossbeam_utils::CachePadded;
use kit::sync::atomic::{AtomicU32, Ordering};
use types::{Position, Stamp};

/// Stands in hidden row ids and stamps of a transaction that has not drawn yet: after all others.
pub const PROVISIONAL: Position = Stamp::POSITIONS_MAX;

/// Below the time in a [`CommitSequenceNumber`].
const _: () = assert!(PROVISIONAL < 1 << 31);

/// A writer's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Draw(pub Position);

/// Where a transaction stands in the serial order of its block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CommitSequenceNumber(u64);

impl CommitSequenceNumber {
    /// After every transaction that has drawn or will.
    pub const END: CommitSequenceNumber = CommitSequenceNumber::of_writer(Draw(PROVISIONAL));

    pub const fn of_writer(Draw(number): Draw) -> CommitSequenceNumber {
        CommitSequenceNumber((number as u64) << 1 | 1)
    }

    /// At a time of the protocol's own clock; among those of one time numbers decide.
    pub fn at_time(self, time: u32) -> CommitSequenceNumber {
        debug_assert!(self.0 >> 32 == 0, "a commit sequence number has one time");
        CommitSequenceNumber(u64::from(time) << 32 | self.0)
    }
}

#[derive(Default)]
pub struct Draws(CachePadded<AtomicU32>);

impl Draws {
    pub fn draw(&self) -> Draw {
        let number = self.0.fetch_add(1, Ordering::AcqRel);
        assert!(number < PROVISIONAL, "a block in which all numbers are drawn");
        Draw(number)
    }

    /// Where a transaction stands that has nothing to write.
    pub fn look(&self) -> CommitSequenceNumber {
        CommitSequenceNumber(u64::from(self.0.load(Ordering::Acquire)) << 1)
    }

    /// All numbers are below.
    pub fn end(&self) -> Position {
        self.0.load(Ordering::Acquire)
    }
}
