//! From text to syntax trees: what can be said of a statement without a catalog.
//!
//! ```text
//! text ─ size ─► tokens ─ rewrites ─► sqlparser ─ precedence ─► tree ─ depth ─► [`parse::Parsed`]
//!                └ cursor, sequence, merge, as_of, table_as: grammar that sqlparser has not
//! ```
//!
//! Everything here is a function of the text alone. Absence: no catalog, no session, no types of
//! columns.

pub mod as_of;
pub(crate) mod assigned;
pub(crate) mod changes;
pub(crate) mod clauses;
pub mod collations;
pub(crate) mod cursor;
pub mod databases;
pub mod ddl;
pub(crate) mod depth;
pub(crate) mod dialect;
pub mod domains;
pub(crate) mod errors;
pub mod explain;
pub(crate) mod exprs;
pub mod grants;
pub(crate) mod locks;
pub(crate) mod materialized;
pub(crate) mod merge;
pub mod names;
pub mod normalise;
pub mod organisations;
pub(crate) mod own_database;
pub(crate) mod owned;
pub mod parse;
pub mod parsed;
pub mod path;
pub(crate) mod place;
pub mod policies;
pub(crate) mod precedence;
pub(crate) mod recursion;
pub(crate) mod renamed;
pub(crate) mod rewrites;
pub mod roles;
pub mod routine;
pub(crate) mod sequence;
mod sets;
pub(crate) mod size;
pub(crate) mod table_as;
pub(crate) mod tokens;
pub(crate) mod user_types;
pub mod walk;
pub(crate) mod words;
