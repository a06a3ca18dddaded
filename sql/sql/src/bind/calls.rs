//! Calls and operators by the types of their operands alone.
//!
//! Another engine that wants this one's answer plans for itself, and has each call computed by the
//! expression that this one would have bound: its operands are columns 0, 1, … of the row at hand.

use std::sync::LazyLock;

use procedure::{BinaryOp, Expr};
use types::arithmetic::ArithmeticOp;
use types::{DataType, Error, Result};

use super::binder::{Binder, Typed};
use crate::schema::catalog::Catalog;
use crate::settings::session_info::SessionInfo;

/// Built-in functions of plain arguments that depend on nothing else, by which other engines call
/// the row executor's.
pub const SHARED_FUNCTIONS: &[&str] = &[
    "abs",
    "ascii",
    "bit_length",
    "btrim",
    "ceil",
    "ceiling",
    "char_length",
    "character_length",
    "chr",
    "decode",
    "digest",
    "encode",
    "exp",
    "family",
    "floor",
    "gcd",
    "get_byte",
    "hmac",
    "host",
    "initcap",
    "lcm",
    "left",
    "length",
    "ln",
    "log",
    "log10",
    "lower",
    "lpad",
    "ltrim",
    "make_date",
    "masklen",
    "md5",
    "mod",
    "octet_length",
    "overlay",
    "pow",
    "power",
    "repeat",
    "replace",
    "reverse",
    "right",
    "round",
    "rpad",
    "rtrim",
    "set_byte",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "sign",
    "split_part",
    "sqrt",
    "starts_with",
    "strpos",
    "substr",
    "substring",
    "to_hex",
    "translate",
    "trunc",
    "upper",
];

/// A call of a built-in function with operands of these types.
///
/// # Errors
/// 42883 where there is none for them.
pub fn call_of(name: &str, operands: &[DataType]) -> Result<Typed> {
    let operands = operands.iter().enumerate().map(operand).collect::<Result<_>>()?;
    binding(|binder| binder.call_by_name(name, operands))
}

/// An operator between operands of these types.
///
/// # Errors
/// 42883 where there is none for them.
pub fn operator_of(op: BinaryOp, left: &DataType, right: &DataType) -> Result<Typed> {
    let (left, right) = (operand((0, left))?, operand((1, right))?);
    let arithmetic = match op {
        BinaryOp::Add => ArithmeticOp::Add,
        BinaryOp::Subtract => ArithmeticOp::Sub,
        BinaryOp::Multiply => ArithmeticOp::Mul,
        BinaryOp::Divide => ArithmeticOp::Div,
        BinaryOp::Modulo => ArithmeticOp::Mod,
        op if op.is_comparison() => return binding(|binder| binder.comparison(op, left, right)),
        _ => return Err(Error::unsupported("this operator")),
    };
    binding(|binder| binder.arithmetic(op, arithmetic, left, right))
}

fn binding(bind: impl FnOnce(&mut Binder<'_>) -> Result<Typed>) -> Result<Typed> {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::genesis);
    let session = SessionInfo::default();
    bind(&mut Binder::new(&CATALOG, &session, Vec::new()))
}

/// What has no type is NULL.
fn operand((place, data_type): (usize, &DataType)) -> Result<Typed> {
    let column = u16::try_from(place);
    let column = column.map_err(|_| Error::unsupported("a call of so many arguments"))?;
    Ok(match data_type {
        DataType::Unknown => Typed::null(),
        known => Typed::new(Expr::Column(column), known.clone()),
    })
}
