//! Measurements that are small enough for tests, in one binary.

mod cells;
mod durability;
mod every_workload;
mod recorded_answers;
