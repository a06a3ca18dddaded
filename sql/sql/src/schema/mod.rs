//! What exists, and what names mean in it: a catalog as a value, sequences, the search path.

pub mod access;
pub mod catalog;
pub mod search_path;
pub mod sequence;
