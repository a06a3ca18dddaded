//! Values, rows, keys, schemas and errors: the nouns that every other crate shares.
//!
//! A [`Value`] does not know its exact type (`integer` and `bigint` are both `Int`), so whatever
//! depends on it takes the [`DataType`] beside the value: ranges in [`arithmetic`], widths in
//! [`binary`], blanks in [`text`]. Four encodings, each with one purpose:
//!
//! | Encoding | Purpose |
//! |---|---|
//! | [`text`], [`binary`] | what PostgreSQL's clients read and write |
//! | [`row`] | what is hashed of a row; computable in PostgreSQL |
//! | [`zone`] | what the clocks of sessions' places show |
//! | [`codec`] | what the ledger keeps of a transaction's arguments |
//! | [`key`] | what storage orders rows by |
//!
//! Absence: no storage, no threads, no clock. Everything here is deterministic: the same input
//! gives the same bytes on every machine.

pub mod arithmetic;
pub mod binary;
pub mod cast;
pub mod clock;
pub mod codec;
pub mod compare;
pub mod datatype;
pub mod datetime;
mod digits;
pub mod enums;
pub mod error;
pub mod interval;
pub mod json;
pub mod key;
mod key_parts;
mod made;
pub mod moments;
pub mod network;
pub mod numeric;
mod operator;
pub mod printable;
pub mod record;
pub mod row;
pub mod rules;
pub mod schema;
pub mod stamp;
pub mod system;
pub mod text;
pub mod to_json;
pub mod unicode;
pub mod value;
pub mod version;
pub mod zone;

pub use clock::ZonedTime;
pub use datatype::{DataType, Field};
pub use enums::EnumType;
pub use error::{Error, Result, SqlState, Stop};
pub use interval::Interval;
pub use json::Jsonb;
pub use key::Key;
pub use schema::{ColumnId, ColumnSchema, IndexId, IndexSchema, Layout, TableId, TableSchema};
pub use stamp::{Height, Origin, Position, Stamp};
pub use system::SystemType;
pub use value::Value;
pub use zone::Zone;
