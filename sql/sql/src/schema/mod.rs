//! The catalog as a value (tables, views, types, routines, sequences, roles, policies), and how
//! names are resolved in it under a search path. Temporary objects of a session are laid over it.

pub mod access;
pub mod catalog;
pub mod collations;
pub mod databases;
pub mod deferred;
pub mod domains;
mod named;
pub mod policies;
pub mod search_path;
pub mod sequence;
pub mod temporary;
pub mod user_types;
mod views;

pub(crate) use views::widths;
