//! Stand-ins for evaluation and key encoding, until the real ones are merged.

use std::ops::{Bound, ControlFlow};

use types::{Error, SqlState, Stop, Value};

use crate::access::{Access, Range, Row};
use crate::expr::{BinaryOp, Expr, UnaryOp};
use crate::query::Query;

pub fn eval(expr: &Expr, registers: &[Value], row: &[Value], now_us: i64) -> Result<Value, Error> {
    let eval = |expr: &Expr| eval(expr, registers, row, now_us);
    Ok(match expr {
        Expr::Const(value) => value.clone(),
        Expr::Reg(reg) => registers[usize::from(reg.0)].clone(),
        Expr::Column(column) => row[usize::from(*column)].clone(),
        Expr::Now => Value::Timestamptz(now_us),
        Expr::Unary { op, input } => match (op, eval(input)?) {
            (_, Value::Null) => Value::Null,
            (UnaryOp::Negate, Value::Int(v)) => Value::Int(-v),
            (UnaryOp::Not, Value::Bool(v)) => Value::Bool(!v),
            _ => return Err(Error::unsupported("operator")),
        },
        Expr::Binary {
            op, left, right, ..
        } => binary(*op, &eval(left)?, &eval(right)?)?,
        Expr::And(list) => {
            for e in list {
                if eval(e)? != Value::Bool(true) {
                    return Ok(Value::Bool(false));
                }
            }
            Value::Bool(true)
        }
        Expr::IsNull { input, negated } => Value::Bool((eval(input)? == Value::Null) != *negated),
        Expr::Cast { input, .. } => eval(input)?,
        Expr::Array(items) => Value::Array(
            items
                .iter()
                .map(eval)
                .collect::<Result<Vec<_>, _>>()?
                .into(),
        ),
        Expr::Element { array, index } => match (eval(array)?, eval(index)?) {
            (Value::Array(items), Value::Int(i)) => usize::try_from(i - 1)
                .ok()
                .and_then(|i| items.get(i).cloned())
                .unwrap_or_default(),
            _ => Value::Null,
        },
        other => return Err(Error::unsupported(format!("{other:?}"))),
    })
}

fn binary(op: BinaryOp, left: &Value, right: &Value) -> Result<Value, Error> {
    let (Value::Int(l), Value::Int(r)) = (left, right) else {
        return Ok(Value::Null);
    };
    let overflow = || Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range");
    Ok(match op {
        BinaryOp::Add => Value::Int(l.checked_add(*r).ok_or_else(overflow)?),
        BinaryOp::Subtract => Value::Int(l.checked_sub(*r).ok_or_else(overflow)?),
        BinaryOp::Multiply => Value::Int(l.checked_mul(*r).ok_or_else(overflow)?),
        BinaryOp::Modulo => Value::Int(l.checked_rem(*r).ok_or_else(overflow)?),
        BinaryOp::Equal => Value::Bool(l == r),
        BinaryOp::NotEqual => Value::Bool(l != r),
        BinaryOp::Less => Value::Bool(l < r),
        BinaryOp::LessOrEqual => Value::Bool(l <= r),
        BinaryOp::Greater => Value::Bool(l > r),
        BinaryOp::GreaterOrEqual => Value::Bool(l >= r),
        _ => return Err(Error::unsupported("operator")),
    })
}

pub fn rows_of<A: Access>(
    query: &Query,
    wanted: usize,
    registers: &[Value],
    now_us: i64,
    access: &mut A,
) -> Result<Vec<Row>, Stop> {
    let mut rows: Vec<Row> = match query {
        Query::Values(rows) => {
            let mut out = Vec::new();
            for row in rows {
                let row = row.iter().map(|e| eval(e, registers, &[], now_us));
                out.push(row.collect::<Result<Row, _>>()?);
            }
            out
        }
        Query::Scan {
            table,
            index,
            columns,
            reverse,
            ..
        } => {
            let range = Range {
                table: *table,
                index: *index,
                low: Bound::Unbounded,
                high: Bound::Unbounded,
                reverse: *reverse,
            };
            let mut out = Vec::new();
            access.scan(&range, columns, |_, _, row| {
                out.push(row.into());
                Ok(ControlFlow::Continue(()))
            })?;
            out
        }
        other => return Err(Error::unsupported(format!("{other:?}")).into()),
    };
    rows.truncate(wanted);
    Ok(rows)
}

pub fn apply(command: &crate::access::Command, row: &Row, now_us: i64) -> Result<Row, Error> {
    let mut new = row.clone();
    for (column, expr) in &command.code.assignments {
        new[usize::from(*column)] = eval(expr, &command.inputs, row, now_us)?;
    }
    for check in &command.code.checks {
        if eval(&check.condition, &command.inputs, &new, now_us)? == Value::Bool(false) {
            return Err(check.error.clone());
        }
    }
    Ok(new)
}
