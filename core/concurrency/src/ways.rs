//! Counts by which execution path the transactions of a block ran.
//!
//! *Why.* Most protocols have a fallback, serial execution, for blocks where their own algorithm
//! would not pay: few transactions, long dependency chains on one record, a single worker. The
//! outcome is the same and the cost is not. With these counts a benchmark can refuse to report a
//! protocol whose algorithm did not in fact run.
//!
//! The counts depend on the number of workers. They are no part of a block's outcome, and any two
//! compare as equal.

use std::ops::AddAssign;

/// A way that a transaction can take through its block. One that takes several, as of QueCC's tail
/// which ordered locks run, is counted for each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// QueCC: in fragments that run apart, each in its queue.
    Cut,
    /// QueCC: in one piece, by the last of its queues that comes to it.
    Whole,
    /// QueCC: in one piece though it can be cut, beside others that cannot.
    Uncut,
    /// QueCC: on the state before the block, in no queue.
    SnapshotReader,
    /// QueCC: behind the queues.
    Tail,
    /// Under ordered locks, with all workers.
    Locked,
    /// BOHM: on versions that have places before anything runs.
    Versioned,
    /// The graph of conflicts: in stages.
    Staged,
    /// One after another, since only one worker is there.
    SerialOneWorker,
    /// One after another, since they are few.
    SerialFew,
    /// One after another, since most of them wait for one another.
    SerialChained,
    /// One after another, since what they touch is not known before they run.
    SerialUnforeseen,
    /// One after another, since the next block must know what those read that run again.
    SerialNoted,
    /// In a block that was prepared before the one before it was finished.
    Overlapped,
    /// Looked at for an abort before it was ordered.
    EarlyAbortOffered,
}

impl Way {
    pub const ALL: [Way; 15] = [
        Way::Cut,
        Way::Whole,
        Way::Uncut,
        Way::SnapshotReader,
        Way::Tail,
        Way::Locked,
        Way::Versioned,
        Way::Staged,
        Way::SerialOneWorker,
        Way::SerialFew,
        Way::SerialChained,
        Way::SerialUnforeseen,
        Way::SerialNoted,
        Way::Overlapped,
        Way::EarlyAbortOffered,
    ];

    /// As figures and reports have it.
    pub fn name(self) -> &'static str {
        match self {
            Way::Cut => "cut",
            Way::Whole => "whole",
            Way::Uncut => "uncut",
            Way::SnapshotReader => "snapshot_reader",
            Way::Tail => "tail",
            Way::Locked => "locked",
            Way::Versioned => "versioned",
            Way::Staged => "staged",
            Way::SerialOneWorker => "serial_one_worker",
            Way::SerialFew => "serial_few",
            Way::SerialChained => "serial_chained",
            Way::SerialUnforeseen => "serial_unforeseen",
            Way::SerialNoted => "serial_noted",
            Way::Overlapped => "overlapped",
            Way::EarlyAbortOffered => "early_abort_offered",
        }
    }

    /// One after another on one worker, in place of what the protocol is named for.
    pub fn is_serial(self) -> bool {
        (Way::SerialOneWorker..=Way::SerialNoted).contains(&self)
    }
}

/// How many transactions took each way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ways([u32; Way::ALL.len()]);

impl Ways {
    pub fn add(&mut self, way: Way, transactions: usize) {
        self.0[way as usize] += transactions as u32;
    }

    pub fn of(&self, way: Way) -> u32 {
        self.0[way as usize]
    }

    /// Those that some took.
    pub fn taken(&self) -> impl Iterator<Item = (Way, u32)> + '_ {
        Way::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }
}

impl AddAssign for Ways {
    fn add_assign(&mut self, other: Ways) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }
}

/// Ways depend on the number of workers and must not make a difference, so all of them are equal.
impl PartialEq for Ways {
    fn eq(&self, _: &Ways) -> bool {
        true
    }
}

impl Eq for Ways {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_a_count_and_a_name_of_its_own() {
        for (at, way) in Way::ALL.into_iter().enumerate() {
            assert_eq!(way as usize, at);
            assert!(Way::ALL[..at].iter().all(|other| other.name() != way.name()));
            assert_eq!(way.is_serial(), way.name().starts_with("serial_"));
        }
        let mut ways = Ways::default();
        ways.add(Way::Cut, 3);
        ways += ways;
        assert_eq!(ways.taken().collect::<Vec<_>>(), [(Way::Cut, 6)]);
    }
}
