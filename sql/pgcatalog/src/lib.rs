//! `pg_catalog` and `information_schema`: a schema as PostgreSQL's tools expect to read it.
//!
//! ```text
//!   sql::Catalog ─► World: rows of each system table, made when first asked for ┐
//!   session (user, settings, …) ────────────────────────────────────────────────┼─► rows
//!   a client's own query ─► bind ─► plan ───────────────────────────────────────┘
//! ```
//!
//! The tables are real: all of PostgreSQL 15's, with its columns in its order, its numbers for what
//! is built in, and whatever SELECT a client has been written to send. Contents follow from the
//! catalog; what does not exist here (policies, publications, …) is an empty table. Nothing knows
//! the text of any client's query.
//!
//! *Why an evaluator of its own.* Planners of joins over columns refuse what these queries are made
//! of (see [`query`]): correlated subqueries with LIMIT, functions in FROM that use their
//! neighbours, sets in select lists, composite values. Packages that put catalogs before such a
//! planner keep a list of queries that they answer by heart. And the queries that drivers send at
//! each connect would cost a plan of milliseconds; here they cost a lookup.
//!
//! *Invariants.* The same catalog gives the same rows and numbers on every replica ([`oid`]). A
//! query reads one catalog from its first row to its last, and users' tables beside it as of one
//! block of the same catalog.
//!
//! *Beside users' tables.* The evaluator reads small ones into memory ([`query`]), and larger ones
//! up to a bound. Where another engine knows the query as well, it has the larger ones, and takes
//! the rows of system tables from here ([`SystemAnalyst`]): a client cannot tell who answered.
//!
//! *Departures.* Names are resolved as in PostgreSQL, types with less ceremony: what PostgreSQL
//! refuses for want of a cast may pass. Ungrouped columns beside aggregates are those of the
//! group's first row. Regular expressions are of the `regex` crate: no back references.

mod agreement;
mod analyst;
mod describe;
mod filling;
mod memory;
pub mod oid;
pub mod query;
mod relation;
mod tables;
mod views;
mod world;

pub use analyst::SystemAnalyst;
pub use memory::{Memory, OtherMemory};
pub use query::{Prepared, system_query};
pub use world::{
    Databases, Lock, Locked, Locks, Member, Members, Misbehaviour, Row, Session, Sessions, World,
};
