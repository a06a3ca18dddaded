//! SQL: text in, programs out.
//!
//! [`parse()`] cuts a text into statements, [`bind()`] checks one against a [`Catalog`] and
//! compiles it to the procedure IR, [`Catalog::apply`] makes the catalog that a DDL statement asks
//! for. Everything here is a deterministic function of (catalog, text, types), since the ledger
//! records text and every replica compiles it for itself.
//!
//! Constraints are no concept of the layers below: foreign keys, UNIQUE, CHECK and NOT NULL become
//! steps of the programs that write (`bind::constraints`), so protocols treat them as any other
//! read.
//!
//! ```text
//! session ─► ddl ─► compile ─► plpgsql ─► bind ─► plan ─► schema ─► settings ─► syntax ─► copy
//! ```
//!
//! A folder needs those to its right alone (`cargo xtask floors`).
//!
//! Absence: no wire protocol, no sockets. Nothing but `session` runs a program.

pub mod bind;
mod compile;
pub mod copy;
pub mod ddl;
pub mod plan;
pub mod plpgsql;
pub mod schema;
pub mod session;
pub mod settings;
pub mod syntax;

pub use bind::origins::Origin;
pub use bind::statement::{Bound, Command, Isolation, Program, Statement, TransactionModes};
pub use compile::{bind, bind_in_session};
pub use ddl::{ColumnSource, StoreChange, Validation};
pub use identity::{Roles, check_name as check_role_name};
pub use plan::{analytical_engine, router};
pub use schema::access::GrantedColumn;
pub use schema::catalog;
pub use schema::catalog::{Catalog, Commented, Routine, Table};
pub use schema::collations;
pub use schema::databases;
pub use schema::domains;
pub use settings::session_info::{OWNER, SessionInfo};
pub use syntax::ddl::Ddl;
pub use syntax::depth::too_deep;
pub use syntax::names;
pub use syntax::normalise::{Literal, Normalised, normalise};
pub use syntax::parse::parse;
pub use syntax::parsed::Parsed;
pub use syntax::table_as::TableAs;
pub use syntax::walk;
