//! Whole clusters in one thread: time is the runtime's and stands still while anything runs, the
//! network does what a seed says, disks are in memory.

mod backlog;
mod cluster;
mod conformance;
mod faults;
mod liveness;
mod losses;
mod sparing;
