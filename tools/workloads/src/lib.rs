//! Standard workloads: their tables, procedures, data, calls and load scripts.
//!
//! A workload is what a PostgreSQL client would send: schema and procedures are SQL and PL/pgSQL
//! files, loads are rows for COPY, and so the same one runs on this database and on PostgreSQL,
//! there by pgbench scripts. Generators are seeded; a run is repeated by its seed. Measurements of
//! the engine alone take the calls themselves from [`Workload::calls`].
//!
//! Adding one: a folder, and a line in [`ALL`]. Workloads that only ask are in [`analytical`].
//!
//! Absence: nothing here knows an engine, a protocol or a socket.

pub mod analytical;
pub mod custom;
pub mod settings;
pub mod skew;
pub mod smallbank;
mod text;
pub mod tpcb;
pub mod tpcc;
mod workload;
pub mod ycsb;

pub use settings::{Setting, Settings};
pub use workload::{Call, Entry, Fill, Row, State, Workload};

/// Every workload.
pub static ALL: &[Entry] =
    &[smallbank::ENTRY, tpcb::ENTRY, ycsb::ENTRY, tpcc::ENTRY, custom::ENTRY];

pub fn by_name(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

/// A file for pgbench's `-f NAME@WEIGHT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgbenchScript {
    pub name: &'static str,
    pub weight: u32,
    pub text: String,
}
