//! `pg_catalog` and `information_schema`: a schema as PostgreSQL's tools expect to read it.
//!
//! ```text
//!   sql::Catalog ─► World: rows of each system table, made when first asked for ┐
//!   session (user, settings, …) ────────────────────────────────────────────────┼─► rows
//!   a client's own query ─► sql::bind ─► program ───────────────────────────────┘
//! ```
//!
//! The tables are real: all of PostgreSQL 15's, with its columns in its order, its numbers for what
//! is built in, and whatever SELECT a client has been written to send. Contents follow from the
//! catalog; what does not exist here (policies, publications, …) is an empty table. Nothing knows
//! the text of any client's query.
//!
//! *One binder.* A query is bound as every other is (`sql::bind::system`), to a program that the
//! interpreter of all programs runs: it reads catalog rows, and calls the functions of catalogs, as
//! what is [around](procedure::Surroundings) its run. A query costs a lookup where it asks for a
//! name or a number.
//!
//! *Invariants.* The same catalog gives the same rows and numbers on every replica ([`oid`]). A
//! query reads one catalog from its first row to its last, and users' tables beside it as of one
//! block of the same catalog.
//!
//! *Beside users' tables.* A program reads them by their indexes, as of one block. Where another
//! engine knows the query as well, it has the larger ones, and takes the rows of system tables from
//! here ([`CatalogEngine`]): a client cannot tell which of them answered.
//!
//! *Departures.* Arrays have one dimension.

mod agreement;
mod catalog_engine;
mod describe;
mod filling;
mod memory;
pub mod oid;
pub mod query;
mod relation;
mod tables;
mod views;
mod world;

pub use catalog_engine::CatalogEngine;
pub use memory::{Memory, OtherMemory};
pub use query::around::Unhurried;
pub use query::{Prepared, system_query};
pub use world::{
    Databases, Lock, Locked, Locks, Member, Members, Misbehaviour, Row, Session, Sessions, World,
};
