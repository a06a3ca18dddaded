//! SQL's comparisons: the three-valued `=`, `<`, `>` and the total order of ORDER BY.
//!
//! Numbers compare across types as PostgreSQL's do: two integers or numerics exactly, anything
//! with a float as floats. Text compares by bytes (collation "C"). `char(n)` values are kept
//! without trailing blanks, so their byte order is PostgreSQL's. Dates and timestamps compare as
//! timestamps, in UTC; intervals by months of 30 days of 24 hours.

use std::cmp::Ordering;

use crate::datetime::date_to_timestamp_us;
use crate::numeric::{self, Numeric};
use crate::value::{Value, float_cmp};

/// SQL's comparison: `None` is *unknown*, because an operand is NULL. Values of types that have no
/// common order are unknown too; the planner refuses such comparisons before they run.
pub fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    let ordering = match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Numeric(a), Value::Numeric(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => float_cmp(*a, *b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Uuid(a), Value::Uuid(b)) => a.cmp(b),
        (Value::Date(a), Value::Date(b)) => a.cmp(b),
        (Value::Jsonb(a), Value::Jsonb(b)) => a.cmp(b),
        (Value::Interval(a), Value::Interval(b)) => a.cmp(b),
        (Value::Time(a), Value::Time(b)) => a.cmp(b),
        (Value::Timetz(a), Value::Timetz(b)) => a.compare(*b),
        (Value::Array(a), Value::Array(b)) => compare_arrays(a, b)?,
        (Value::Int(a), Value::Numeric(b)) => Numeric::from(*a).cmp(b),
        (Value::Numeric(a), Value::Int(b)) => a.cmp(&Numeric::from(*b)),
        _ => match (as_timestamp_us(a), as_timestamp_us(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => float_cmp(as_comparable_float(a)?, as_comparable_float(b)?),
        },
    };
    Some(ordering)
}

/// SQL's `=`.
pub fn equal(a: &Value, b: &Value) -> Option<bool> {
    compare(a, b).map(Ordering::is_eq)
}

/// The order of ORDER BY … ASC: NULLs last. Total over the values of a column, which have one
/// type; types without a common order are ordered by type.
pub fn sort_cmp(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Greater,
        (_, Value::Null) => Ordering::Less,
        _ => family(a).cmp(&family(b)).then_with(|| compare(a, b).unwrap_or(Ordering::Equal)),
    }
}

/// ORDER BY over several columns, all ascending with NULLs last.
pub fn sort_cmp_rows(a: &[Value], b: &[Value]) -> Ordering {
    compare_elements(a, b)
}

/// PostgreSQL's array order: element by element, where a NULL element is above every other and
/// equals another NULL; a prefix is below the longer array.
fn compare_arrays(a: &[Value], b: &[Value]) -> Option<Ordering> {
    Some(compare_elements(a, b))
}

fn compare_elements(a: &[Value], b: &[Value]) -> Ordering {
    a.iter()
        .zip(b)
        .map(|(a, b)| sort_cmp(a, b))
        .find(|ordering| ordering.is_ne())
        .unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn as_timestamp_us(value: &Value) -> Option<i64> {
    match value {
        Value::Timestamp(us) | Value::Timestamptz(us) => Some(*us),
        Value::Date(days) => Some(date_to_timestamp_us(*days)),
        _ => None,
    }
}

fn as_comparable_float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(x) => Some(*x),
        Value::Int(i) => Some(*i as f64),
        Value::Numeric(d) => Some(numeric::to_f64(d)),
        _ => None,
    }
}

/// Types within a family have an order; families are ordered by their number.
fn family(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Int(_) | Value::Numeric(_) | Value::Float(_) => 2,
        Value::Text(_) => 3,
        Value::Bytes(_) => 4,
        Value::Uuid(_) => 5,
        Value::Date(_) | Value::Timestamp(_) | Value::Timestamptz(_) => 6,
        Value::Array(_) => 7,
        Value::Jsonb(_) => 8,
        Value::Interval(_) => 9,
        Value::Time(_) => 10,
        Value::Timetz(_) => 11,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_unknown_and_last() {
        assert_eq!(compare(&Value::Null, &Value::Int(1)), None);
        assert_eq!(equal(&Value::Null, &Value::Null), None);
        assert_eq!(sort_cmp(&Value::Null, &Value::Int(1)), Ordering::Greater);
        assert_eq!(sort_cmp(&Value::Null, &Value::Null), Ordering::Equal);
    }

    #[test]
    fn numbers_cross_types() {
        let tenth = Value::Numeric(Numeric::from_units(1, 1));
        assert_eq!(compare(&Value::Int(0), &tenth), Some(Ordering::Less));
        assert_eq!(equal(&Value::Float(0.1), &tenth), Some(true));
        assert_eq!(equal(&Value::Int(2), &Value::Float(2.0)), Some(true));
        let nan = Value::Float(f64::NAN);
        assert_eq!(compare(&nan, &Value::Int(1)), Some(Ordering::Greater));
        assert_eq!(equal(&nan, &nan), Some(true));
    }

    #[test]
    fn families_do_not_mix() {
        assert_eq!(compare(&Value::Int(1), &Value::text("1")), None);
        assert_eq!(sort_cmp(&Value::Int(1), &Value::text("1")), Ordering::Less);
        let day = 86_400_000_000;
        assert_eq!(equal(&Value::Date(1), &Value::Timestamp(day)), Some(true));
    }

    #[test]
    fn arrays_compare_like_postgresqls() {
        let array = |v: Vec<Value>| Value::from(v);
        let short = array(vec![1.into(), 2.into()]);
        let long = array(vec![1.into(), 2.into(), 0.into()]);
        let null = array(vec![1.into(), Value::Null]);
        assert_eq!(compare(&short, &long), Some(Ordering::Less));
        assert_eq!(compare(&null, &long), Some(Ordering::Greater));
        assert_eq!(compare(&null, &null), Some(Ordering::Equal));
    }
}
