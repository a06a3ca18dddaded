//! Arguments of functions, whose kinds the binder has made sure of.

use std::borrow::Cow;

use types::{Error, SqlState, Value};

pub(super) fn nth<'a>(arguments: &'a [Cow<'_, Value>], n: usize) -> &'a Value {
    arguments.get(n).map_or(&Value::Null, |a| &**a)
}

/// An integer argument, cut to 32 bits at the ends.
pub(super) fn as_i32(value: &Value) -> i32 {
    let wide = value.as_int().unwrap_or(0);
    wide.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
