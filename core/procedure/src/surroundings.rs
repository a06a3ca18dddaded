//! What a session's query may ask beside tables: rows and values that the session around it knows,
//! such as those of system catalogs.
//!
//! They are asked for by numbers that the one who bound the query has given out. Programs that can
//! reach the ledger have none of it: what they do has to follow from the ledger alone, so their
//! binder gives no number out, and a run of theirs has nothing around it.

use std::borrow::Cow;
use std::ops::ControlFlow;

use types::{DataType, Error, Result, SqlState, Stop, Value};

type Row = Box<[Value]>;

/// Whether more rows are wanted.
type Flow = Result<ControlFlow<()>, Stop>;

/// Where rows go.
type Sink<'s> = &'s mut dyn FnMut(&[Value]) -> Flow;

/// What is around a run.
pub trait Surroundings: Send + Sync {
    /// The value of a call.
    fn value(&self, call: u16, arguments: &[Cow<'_, Value>], result: &DataType) -> Result<Value>;

    /// The rows of a call.
    fn rows(&self, call: u16, arguments: &[Value]) -> Result<Vec<Row>>;

    /// The rows of a source: of its columns these, where one of all of its columns has this value.
    fn scan(
        &self,
        source: u16,
        columns: &[u16],
        key: Option<(u16, &Value)>,
        sink: Sink<'_>,
    ) -> Flow;
}

/// A run has nothing around it, and meets what was bound for one that has.
pub(crate) fn nothing_around() -> Error {
    Error::new(SqlState::INTERNAL_ERROR, "what only a session's query may ask, in another run")
}
