//! Comparisons of values and of rows, with three truth values.

use std::cmp::Ordering;

use types::Value;
use types::compare::{compare, sort_cmp};

use super::plan::CompareOp;

pub fn truth(truth: Option<bool>) -> Value {
    truth.map_or(Value::Null, Value::Bool)
}

pub fn compared(op: CompareOp, left: &Value, right: &Value) -> Option<bool> {
    match op {
        CompareOp::Distinct => return Some(sort_cmp(left, right) != Ordering::Equal),
        CompareOp::NotDistinct => return Some(sort_cmp(left, right) == Ordering::Equal),
        _ => {}
    }
    compare(left, right).map(|ordering| satisfies(op, ordering))
}

pub fn satisfies(op: CompareOp, ordering: Ordering) -> bool {
    match op {
        CompareOp::Equal | CompareOp::NotDistinct => ordering.is_eq(),
        CompareOp::NotEqual | CompareOp::Distinct => ordering.is_ne(),
        CompareOp::Less => ordering.is_lt(),
        CompareOp::LessOrEqual => ordering.is_le(),
        CompareOp::Greater => ordering.is_gt(),
        CompareOp::GreaterOrEqual => ordering.is_ge(),
    }
}

/// Whether a row is NULL, which is all of its fields; NOT NULL is that none is.
pub fn is_row_null(row: &Value, negated: bool) -> bool {
    match row.as_array() {
        Some(fields) => fields.iter().all(|field| field.is_null() != negated),
        None => row.is_null() != negated,
    }
}

/// Rows by their fields: the first that are not the same decide, or are unknown.
pub fn compared_rows(op: CompareOp, left: &Value, right: &Value) -> Option<bool> {
    let (left, right) = (left.as_array()?, right.as_array()?);
    if let CompareOp::Equal | CompareOp::NotEqual = op {
        // One pair that differs is enough, whatever the others are.
        let pairs = left.iter().zip(right);
        let equal = pairs.map(|(a, b)| compared(CompareOp::Equal, a, b));
        let mut all = Some(true);
        for equal in equal {
            match equal {
                Some(false) => return Some(op == CompareOp::NotEqual),
                None => all = None,
                Some(true) => {}
            }
        }
        return all.map(|all| all == (op == CompareOp::Equal));
    }
    let mut pairs = left.iter().zip(right).map(|(a, b)| compare(a, b));
    let decisive = pairs.find(|ordering| *ordering != Some(Ordering::Equal));
    let ordering = decisive.unwrap_or(Some(Ordering::Equal))?;
    Some(satisfies(op, ordering))
}
