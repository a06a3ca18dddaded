//! What exists, and what names mean in it: a catalog as a value, sequences, approval policies, the
//! search path, what views read, what a session has beside the ledger.

pub mod access;
pub mod catalog;
pub mod databases;
pub mod deferred;
pub mod policies;
pub mod search_path;
pub mod sequence;
pub mod temporary;
pub mod user_types;
mod views;

pub(crate) use views::widths;
