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

/// A path that a transaction can take through its block. One that takes several, as of QueCC's tail
/// which ordered locks run, is counted for each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ExecutionPath {
    /// QueCC: in fragments that run apart, each in its queue.
    Cut,
    /// QueCC: in one piece, by the last of its queues that comes to it.
    Whole,
    /// QueCC: in one piece though it can be cut, beside others that cannot, or for what that costs.
    Uncut,
    /// QueCC: on the state before the block, in no queue.
    SnapshotReader,
    /// QueCC: after the queues.
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
    /// One after another, since scans looked at too many of the rows that the block had written.
    SerialScans,
    /// One after another, since the next block must know what those read that run again.
    SerialNoted,
    /// In a block that was prepared before the one before it was finished.
    Overlapped,
    /// Looked at for an abort before it was ordered.
    EarlyAbortOffered,
    /// Ended by that.
    AbortedEarly,
}

impl ExecutionPath {
    pub const ALL: [ExecutionPath; 17] = [
        ExecutionPath::Cut,
        ExecutionPath::Whole,
        ExecutionPath::Uncut,
        ExecutionPath::SnapshotReader,
        ExecutionPath::Tail,
        ExecutionPath::Locked,
        ExecutionPath::Versioned,
        ExecutionPath::Staged,
        ExecutionPath::SerialOneWorker,
        ExecutionPath::SerialFew,
        ExecutionPath::SerialChained,
        ExecutionPath::SerialUnforeseen,
        ExecutionPath::SerialScans,
        ExecutionPath::SerialNoted,
        ExecutionPath::Overlapped,
        ExecutionPath::EarlyAbortOffered,
        ExecutionPath::AbortedEarly,
    ];

    /// As figures and reports have it.
    pub fn name(self) -> &'static str {
        match self {
            ExecutionPath::Cut => "cut",
            ExecutionPath::Whole => "whole",
            ExecutionPath::Uncut => "uncut",
            ExecutionPath::SnapshotReader => "snapshot_reader",
            ExecutionPath::Tail => "tail",
            ExecutionPath::Locked => "locked",
            ExecutionPath::Versioned => "versioned",
            ExecutionPath::Staged => "staged",
            ExecutionPath::SerialOneWorker => "serial_one_worker",
            ExecutionPath::SerialFew => "serial_few",
            ExecutionPath::SerialChained => "serial_chained",
            ExecutionPath::SerialUnforeseen => "serial_unforeseen",
            ExecutionPath::SerialScans => "serial_scans",
            ExecutionPath::SerialNoted => "serial_noted",
            ExecutionPath::Overlapped => "overlapped",
            ExecutionPath::EarlyAbortOffered => "early_abort_offered",
            ExecutionPath::AbortedEarly => "aborted_early",
        }
    }

    /// One after another on one worker, in place of what the protocol is named for.
    pub fn is_serial(self) -> bool {
        (ExecutionPath::SerialOneWorker..=ExecutionPath::SerialNoted).contains(&self)
    }
}

/// How many transactions took each way.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathCounts([u32; ExecutionPath::ALL.len()]);

impl PathCounts {
    pub fn add(&mut self, path: ExecutionPath, transactions: usize) {
        self.0[path as usize] += transactions as u32;
    }

    pub fn of(&self, path: ExecutionPath) -> u32 {
        self.0[path as usize]
    }

    /// Those that some took.
    pub fn taken(&self) -> impl Iterator<Item = (ExecutionPath, u32)> + '_ {
        ExecutionPath::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }
}

impl AddAssign for PathCounts {
    fn add_assign(&mut self, other: PathCounts) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }
}

/// Counts depend on the number of workers and must not make a difference, so all of them are equal.
impl PartialEq for PathCounts {
    fn eq(&self, _: &PathCounts) -> bool {
        true
    }
}

impl Eq for PathCounts {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_a_count_and_a_name_of_its_own() {
        for (at, path) in ExecutionPath::ALL.into_iter().enumerate() {
            assert_eq!(path as usize, at);
            assert!(ExecutionPath::ALL[..at].iter().all(|other| other.name() != path.name()));
            assert_eq!(path.is_serial(), path.name().starts_with("serial_"));
        }
        let mut paths = PathCounts::default();
        paths.add(ExecutionPath::Cut, 3);
        paths += paths;
        assert_eq!(paths.taken().collect::<Vec<_>>(), [(ExecutionPath::Cut, 6)]);
    }
}
