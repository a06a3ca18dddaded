//! Recovery, from forged files to every schedule of its workers, in one binary.

mod adversary;
mod bed;
mod ends;
mod forged;
mod forger;
mod golden_ledgers;
mod graphs;
mod hostile;
mod journals;
mod ledgered;
mod ledgers;
mod replay;
mod row_logs;
mod several;
mod slices;
mod state_root;
mod turns;
mod unrecorded;
mod worlds;
