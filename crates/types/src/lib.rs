//! Values, rows, keys, schemas and errors: the nouns that every other crate shares.
//!
//! Absence: no storage, no threads, no clock. Everything here is deterministic: the same input
//! gives the same bytes on every machine.

pub mod error;
pub mod key;
pub mod schema;
pub mod stamp;
pub mod value;

pub use error::{Error, Result, SqlState, Stop};
pub use key::Key;
pub use schema::{ColumnId, ColumnSchema, IndexId, IndexSchema, TableId, TableSchema};
pub use stamp::{Height, Position, Stamp};
pub use value::{DataType, Value};
