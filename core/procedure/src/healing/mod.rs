//! Runs that can be corrected: an access cache, and a dependency graph that says what to run again.
//!
//! Wu, Chan and Tan, *Transaction healing: scaling optimistic concurrency control on multicores*,
//! SIGMOD 2016 (Wu's thesis, NUS 2017, chapter 3).
//!
//! *Idea.* Much of what a transaction did is right even if one row that it read has changed since.
//! So the run is [recorded](record): each access with what it touched and wrote, each turn of a
//! loop with its registers, each branch with the way that it took. To [heal](correct) it, the
//! record is walked along the program: what met a change runs again, and so does what depends on
//! it; all else is taken over as it is.
//!
//! ```text
//!   program                       record                        x was 3 and is 5
//!   r1 := read x                  access  x                     again    r1 5 ≠ 3, changed
//!   r2 := read y                  access  y                     kept
//!   FOR i IN 1..2 LOOP            loop, 2 turns                 body uses r1: walked
//!     r3 := read stock[i]           turn 1  [r3, i]  access       registers in, kept
//!     insert line (r1, i, r3)                        access       again, under the new key
//!   END LOOP                        turn 2  …                   …
//!   IF r2 > 0 …                   branch  then                  r2 did not change: taken over
//! ```
//!
//! *Dependencies.* The [graph](graph) is made once for each procedure. Registers are
//! single-assignment, so a step depends on another by the registers that it uses, be it for a
//! *key*, a *value* or a *decision*; what is affected is found in one walk forward, since the
//! record is in program order. A step that runs again and finds what it had found passes nothing
//! on: that is also what ends a *false* alarm, of a row that changed in columns that are not used.
//!
//! *Invariant.* When [`correct`] has succeeded, registers, result, record and writes are those of a
//! run in which every access that was kept saw what it saw and every other one saw what is there
//! now. Where that cannot be told from the record (the transaction looked at its own writes or
//! wrote a row twice, a branch that leaves a loop is taken the other way, a step fails) it says so,
//! and the caller runs the procedure again from its start.
//!
//! *Cost.* Of recording: some nanoseconds for each access, branch and turn. Of correcting: the
//! walk, which passes over subtrees that nothing touches, and the steps that run again.

mod cache;
mod correct;
mod graph;
mod record;

pub use cache::AccessCache;
pub use correct::{Unhealed, correct};
pub use graph::DependencyGraph;
pub use record::record;

use types::{Key, TableId};

use crate::access::{Access, Command, Row};

/// How many entries an access has made in the lists of rows, of gaps and of writes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Notes {
    pub rows: u32,
    pub gaps: u32,
    pub writes: u32,
}

/// An `Access` that keeps notes of what it reads, and writes that can be taken up one by one.
///
/// While a run is corrected there are old notes and writes, and new ones. The walk goes through the
/// old ones in order and says of each access whether they are kept or made anew, so that an access
/// that runs again sees the writes of the accesses before it and none of those after it.
pub trait Restorable: Access {
    fn noted(&self) -> Notes;

    /// An access was answered by the transaction's own writes, or would have been.
    fn looked_at_own(&self) -> bool;

    /// Whether some of the next old notes no longer hold.
    fn is_stale(&self, notes: Notes) -> bool;

    /// The next old notes and writes become new ones.
    fn keep(&mut self, notes: Notes);

    /// The next old notes and writes are of no account any more.
    fn skip(&mut self, notes: Notes);

    /// Of the next old write.
    fn next_key(&self) -> Option<&Key>;

    /// Another row under the same key, instead of the one that the next old write puts there.
    fn replace_row(&mut self, row: Row);

    fn replace_command(&mut self, command: Command);

    /// Whether an access whose old notes are still to come should have seen one of the new writes
    /// from `first` on. `queried`: tables that queries look at.
    fn is_noted_later(&self, first: u32, queried: &[TableId]) -> bool;
}
