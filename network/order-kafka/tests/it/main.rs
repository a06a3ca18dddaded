//! The orderer over a log that a seed disturbs.

mod conformance;
mod cutting;
mod faults;
mod topic;
