//! SQL values and their types.

use std::sync::Arc;

use compact_str::CompactString;
use rust_decimal::Decimal;

/// A SQL type, with its modifier where it has one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum DataType {
    Bool,
    Int2,
    Int4,
    Int8,
    /// `numeric` (no bound but the 28 digits of the implementation) or `numeric(p,s)`.
    Numeric(Option<(u8, u8)>),
    Float8,
    Text,
    /// `varchar(n)`; `varchar` without a length is `Text` with another name, `None` here.
    Varchar(Option<u32>),
    /// `char(n)`, blank-padded.
    Char(u32),
    Bytea,
    Uuid,
    Date,
    Timestamp,
    Timestamptz,
    /// One-dimensional; in parameters and variables only, not in stored columns.
    Array(Box<DataType>),
    /// The type of a bare NULL or of a parameter nobody has typed yet.
    Unknown,
    /// What a procedure without a result returns.
    Void,
}

/// One SQL value. Integers of every width are `Int`; the column's type bounds them.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Numeric(Decimal),
    Text(CompactString),
    Bytes(Arc<[u8]>),
    Uuid([u8; 16]),
    /// Days since 2000-01-01, PostgreSQL's epoch.
    Date(i32),
    /// Microseconds since 2000-01-01 00:00:00.
    Timestamp(i64),
    /// Microseconds since 2000-01-01 00:00:00 UTC.
    Timestamptz(i64),
    Array(Arc<[Value]>),
}

const _: () = assert!(size_of::<Value>() <= 32);
