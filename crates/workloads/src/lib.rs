//! Standard workloads: their tables, procedures, data and load scripts.
//!
//! Everything is text that a PostgreSQL client sends, so the same workload runs on this database
//! and on PostgreSQL: schema and procedures are SQL and PL/pgSQL files, loads are rows for COPY,
//! and the mix is a set of pgbench scripts. Generators are seeded; a run is repeated by its seed.
//!
//! Absence: nothing here knows an engine, a protocol or a socket.

pub mod skew;
pub mod smallbank;
pub mod tpcb;
pub mod ycsb;

/// A file for pgbench's `-f NAME@WEIGHT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgbenchScript {
    pub name: &'static str,
    pub weight: u32,
    pub text: String,
}
