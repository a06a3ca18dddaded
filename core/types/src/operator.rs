//! What the operators of arithmetic are called, and the error where there is none of a name.

use std::fmt;

use crate::datatype::DataType;
use crate::error::{Error, SqlState};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ArithmeticOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
}

impl fmt::Display for ArithmeticOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArithmeticOp::Add => "+",
            ArithmeticOp::Sub => "-",
            ArithmeticOp::Mul => "*",
            ArithmeticOp::Div => "/",
            ArithmeticOp::Mod => "%",
        })
    }
}

/// 42883, as PostgreSQL words it.
pub fn no_operator(left: &DataType, op: impl fmt::Display, right: &DataType) -> Error {
    Error::new(
        SqlState::UNDEFINED_FUNCTION,
        format!(
            "operator does not exist: {} {op} {}",
            left.without_modifier(),
            right.without_modifier()
        ),
    )
    .with_hint(
        "No operator matches the given name and argument types. You might need to add explicit \
         type casts.",
    )
}
