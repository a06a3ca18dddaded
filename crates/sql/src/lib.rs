//! SQL: text in, programs out.
//!
//! [`parse`] cuts a text into statements, [`bind`] checks one against a [`Catalog`] and compiles it
//! to the procedure IR, [`Catalog::apply`] makes the catalog that a DDL statement asks for.
//! Everything here is a deterministic function of (catalog, text, types), since the ledger records
//! text and every replica compiles it for itself.
//!
//! Constraints are no concept of the layers below: foreign keys, UNIQUE, CHECK and NOT NULL become
//! steps of the programs that write (`bind::constraints`), so protocols treat them as any other
//! read.
//!
//! Absence: no wire protocol, no sockets. Nothing but `session` runs a program.

pub mod analyst;
pub mod as_of;
pub mod bind;
pub mod catalog;
mod clauses;
pub mod copy;
mod cursor_syntax;
pub mod ddl;
mod depth;
mod dialect;
pub mod explain;
mod merge_syntax;
pub mod names;
pub mod normalise;
mod origins;
pub mod parse;
mod place;
pub mod plpgsql;
mod precedence;
pub mod proofs;
mod rewrites;
pub mod router;
pub mod search_path;
pub mod sequence;
mod sequence_syntax;
pub mod session;
mod size;
pub mod statement;
mod table_as;
mod tokens;
pub mod zones;

pub use bind::{bind, bind_in_session};
pub use catalog::{Catalog, Routine, Table};
pub use ddl::{ColumnSource, Commented, Ddl, StoreChange, Validation};
pub use depth::too_deep;
pub use normalise::{Literal, Normalised, normalise};
pub use origins::Origin;
pub use parse::{Parsed, parse};
pub use statement::{Bound, Isolation, OWNER, SessionInfo, Statement, TransactionModes};
pub use table_as::TableAs;
