//! How functions are declared: what they take and give, and how they are called.

use types::{DataType, Result, SystemType, Value};

use super::around::Around;
use crate::world::Row;

/// What an argument is converted to before the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
    Any,
    Text,
    Int,
    Bool,
    Oid,
    Reg(SystemType),
}

/// The type of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gives {
    Text,
    Name,
    Names,
    Texts,
    Bool,
    Int4,
    Int8,
    Ints,
    Oid,
    Timestamptz,
    Date,
    Inet,
    Json,
    Reg(SystemType),
    /// Of the first argument.
    First,
}

pub type Eval = fn(&Around, &[Value], &[DataType]) -> Result<Value>;

#[derive(Debug)]
pub struct Function {
    pub name: &'static str,
    pub least: usize,
    /// The last one may be repeated if this says so.
    pub takes: &'static [Takes],
    pub variadic: bool,
    pub gives: Gives,
    /// NULL for a NULL argument.
    pub strict: bool,
    pub eval: Eval,
}

pub type EvalSet = fn(&Around, &[Value], &[DataType]) -> Result<Vec<Row>>;

#[derive(Debug)]
pub struct SetFunction {
    pub name: &'static str,
    pub takes: &'static [Takes],
    /// Of its rows; none: one column, of the type that `of` says.
    pub fields: fn() -> &'static [(&'static str, DataType)],
    pub of: Of,
    pub eval: EvalSet,
}

/// The type of the only column.
#[derive(Clone, Copy, Debug)]
pub enum Of {
    Type(SystemOr),
    First,
    Element,
}

#[derive(Clone, Copy, Debug)]
pub enum SystemOr {
    Text,
    Int4,
    System(SystemType),
}

pub const fn function(
    name: &'static str,
    least: usize,
    takes: &'static [Takes],
    gives: Gives,
    eval: Eval,
) -> Function {
    Function { name, least, takes, variadic: false, gives, strict: true, eval }
}

/// A function that looks at NULLs itself, and may take any number of its last argument.
pub const fn lax(
    name: &'static str,
    least: usize,
    takes: &'static [Takes],
    gives: Gives,
    eval: Eval,
) -> Function {
    Function { name, least, takes, variadic: true, gives, strict: false, eval }
}

pub(super) fn oid_of(value: &Value) -> u32 {
    value.as_int().and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

pub(super) fn str_of(value: &Value) -> &str {
    value.as_text().unwrap_or_default()
}

pub(super) fn yes(_: &Around, _: &[Value], _: &[DataType]) -> Result<Value> {
    Ok(Value::Bool(true))
}
