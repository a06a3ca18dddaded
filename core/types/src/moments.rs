//! Operators of dates, times and intervals: which there are, and what comes out.
//!
//! ```text
//! date ± integer      date             date - date            integer
//! date ± interval     timestamp        timestamp - timestamp  interval, whole days apart
//! date + time         timestamp        time - time            interval
//! timestamp ± interval                 interval ± interval    interval
//! time ± interval     time, around midnight
//! interval * number, / number          interval
//! ```
//!
//! A moment is moved by months first, to the month's last day where it has no such day, then by
//! days, then by microseconds. All in UTC: where the clocks of a session's place matter, which is
//! for a `timestamptz` and days or months, [`Zone::moved`](crate::Zone::moved) is what is meant.

use crate::clock::{ZonedTime, moved as moved_clock};
use crate::datatype::DataType;
use crate::datetime::{DAY_US, add_months, check_timestamp, date_to_timestamp_us};
use crate::error::{Error, Result, SqlState};
use crate::interval::{Interval, SECOND_US};
use crate::operator::{ArithmeticOp, no_operator};
use crate::value::Value;

/// The types that the sides of an operator are taken for, and that of its result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operator {
    pub left: DataType,
    pub right: DataType,
    pub result: DataType,
}

/// What an operator is where a side of it is a date, a time or an interval; `None` where none is.
///
/// # Errors
/// 42883 for one that there is not, 42725 where an untyped side could be of several types.
pub fn operator(op: ArithmeticOp, left: &DataType, right: &DataType) -> Option<Result<Operator>> {
    use DataType as T;
    let is_of_time =
        |t: &DataType| t.is_datetime() || matches!(t, T::Interval(_) | T::Time(_) | T::Timetz(_));
    if !is_of_time(left) && !is_of_time(right) {
        return None;
    }
    let (l, r) = (left.without_modifier(), right.without_modifier());
    let found = match op {
        ArithmeticOp::Add => sum(&l, &r).or_else(|| {
            let Operator { left, right, result } = sum(&r, &l)?;
            Some(Operator { left: right, right: left, result })
        }),
        ArithmeticOp::Sub => difference(&l, &r),
        ArithmeticOp::Mul | ArithmeticOp::Div => scaled(op, &l, &r),
        ArithmeticOp::Mod => None,
    };
    Some(found.ok_or_else(|| {
        match is_ambiguous(op, &l, &r) {
            true => Error::new(
                SqlState(*b"42725"),
                format!("operator is not unique: {l} {op} {r}"),
            )
            .with_hint(
                "Could not choose a best candidate operator. You might need to add explicit type \
                 casts.",
            ),
            false => no_operator(left, op, right),
        }
    }))
}

fn typed(left: &DataType, right: &DataType, result: &DataType) -> Option<Operator> {
    let [left, right, result] = [left, right, result].map(DataType::without_modifier);
    Some(Operator { left, right, result })
}

fn is_ambiguous(op: ArithmeticOp, left: &DataType, right: &DataType) -> bool {
    use DataType as T;
    let pairs = [(left, right), (right, left)];
    op == ArithmeticOp::Add
        && pairs.iter().any(|(known, other)| {
            **other == T::Unknown && matches!(known, T::Date | T::Time(_) | T::Timetz(_))
        })
}

fn sum(left: &DataType, right: &DataType) -> Option<Operator> {
    use DataType as T;
    let interval = &T::INTERVAL;
    match (left, right) {
        (T::Date, T::Int2 | T::Int4) => typed(left, right, left),
        (T::Date, T::Interval(_)) => typed(left, right, &T::Timestamp(None)),
        (T::Date, T::Time(_)) => typed(left, right, &T::Timestamp(None)),
        (T::Date, T::Timetz(_)) => typed(left, right, &T::Timestamptz(None)),
        // A time is an interval where that is what fits.
        (T::Timestamp(_) | T::Timestamptz(_), T::Interval(_) | T::Time(_) | T::Unknown) => {
            typed(left, interval, left)
        }
        (T::Time(_) | T::Timetz(_), T::Interval(_)) => typed(left, right, left),
        (T::Interval(_), T::Interval(_) | T::Unknown) => typed(left, interval, left),
        _ => None,
    }
}

fn difference(left: &DataType, right: &DataType) -> Option<Operator> {
    use DataType as T;
    let interval = &T::INTERVAL;
    match (left, right) {
        (T::Date, T::Int2 | T::Int4) => typed(left, right, left),
        (T::Date, T::Date | T::Unknown) | (T::Unknown, T::Date) => {
            typed(&T::Date, &T::Date, &T::Int4)
        }
        (T::Date, T::Interval(_) | T::Time(_)) => typed(left, interval, &T::Timestamp(None)),
        (T::Timestamp(_) | T::Timestamptz(_), T::Interval(_) | T::Time(_)) => {
            typed(left, interval, left)
        }
        (T::Time(_) | T::Timetz(_), T::Interval(_)) => typed(left, right, left),
        (T::Time(_), T::Time(_) | T::Unknown) | (T::Unknown, T::Time(_)) => {
            typed(&T::Time(None), &T::Time(None), interval)
        }
        (T::Interval(_), T::Interval(_) | T::Unknown | T::Time(_))
        | (T::Unknown, T::Interval(_)) => typed(interval, interval, interval),
        (T::Unknown, other) | (other, T::Unknown) if other.is_datetime() => {
            typed(other, other, interval)
        }
        (a, b) if a.is_datetime() && b.is_datetime() => {
            let moment = match (a, b) {
                (T::Timestamptz(_), _) | (_, T::Timestamptz(_)) => T::Timestamptz(None),
                _ => T::Timestamp(None),
            };
            typed(&moment, &moment, interval)
        }
        _ => None,
    }
}

fn scaled(op: ArithmeticOp, left: &DataType, right: &DataType) -> Option<Operator> {
    use DataType as T;
    let is_factor = |t: &DataType| t.is_number() || *t == T::Unknown;
    match (left, right) {
        (T::Interval(_), factor) if is_factor(factor) => typed(left, &T::Float8, left),
        (factor, T::Interval(_)) if is_factor(factor) && op == ArithmeticOp::Mul => {
            typed(&T::Float8, right, right)
        }
        _ => None,
    }
}

/// Evaluates an operator of which a side is a date, a time or an interval.
pub(crate) fn arithmetic(op: ArithmeticOp, a: &Value, b: &Value) -> Result<Value> {
    use ArithmeticOp::{Add, Div, Mul, Sub};
    use Value as V;
    Ok(match (a, op, b) {
        (V::Interval(a), Add, V::Interval(b)) => a.plus(*b)?.into(),
        (V::Interval(a), Sub, V::Interval(b)) => a.minus(*b)?.into(),
        (V::Interval(span), Mul, V::Float(x)) | (V::Float(x), Mul, V::Interval(span)) => {
            span.times(*x)?.into()
        }
        (V::Interval(span), Div, V::Float(x)) => span.divided_by(*x)?.into(),
        (moment, Add, V::Interval(span)) | (V::Interval(span), Add, moment) => {
            shifted(moment, *span).ok_or_else(|| missing(a, op, b))??
        }
        (moment, Sub, V::Interval(span)) => {
            shifted(moment, span.negated()?).ok_or_else(|| missing(a, op, b))??
        }
        (V::Date(day), Add, V::Time(us)) | (V::Time(us), Add, V::Date(day)) => {
            let moment = date_to_timestamp_us(*day).saturating_add(*us);
            V::Timestamp(check_timestamp(moment)?)
        }
        (V::Date(day), Add, V::Timetz(time)) | (V::Timetz(time), Add, V::Date(day)) => {
            let of_day = time.us + i64::from(time.west_s) * SECOND_US;
            let moment = date_to_timestamp_us(*day).saturating_add(of_day);
            V::Timestamptz(check_timestamp(moment)?)
        }
        (V::Time(a), Sub, V::Time(b)) => Interval::new(0, 0, a - b).into(),
        (V::Timestamp(a), Sub, V::Timestamp(b)) | (V::Timestamptz(a), Sub, V::Timestamptz(b)) => {
            between(*a, *b)?.into()
        }
        _ => return Err(missing(a, op, b)),
    })
}

fn missing(a: &Value, op: ArithmeticOp, b: &Value) -> Error {
    no_operator(&a.data_type_hint(), op, &b.data_type_hint())
}

/// From the second moment to the first, in days and less.
fn between(a: i64, b: i64) -> Result<Interval> {
    let us = a.checked_sub(b).ok_or_else(crate::interval::out_of_range)?;
    Interval::new(0, 0, us).justify_hours()
}

/// A moment or a time of day moved; `None` for what is neither.
fn shifted(moment: &Value, by: Interval) -> Option<Result<Value>> {
    Some(match moment {
        Value::Date(days) => moved(date_to_timestamp_us(*days), by).map(Value::Timestamp),
        Value::Timestamp(us) => moved(*us, by).map(Value::Timestamp),
        Value::Timestamptz(us) => moved(*us, by).map(Value::Timestamptz),
        Value::Time(us) => Ok(Value::Time(moved_clock(*us, by.us))),
        Value::Timetz(time) => {
            Ok(Value::Timetz(ZonedTime { us: moved_clock(time.us, by.us), ..*time }))
        }
        _ => return None,
    })
}

/// A moment moved as clocks of UTC show it.
///
/// # Errors
/// 22008 beyond the calendar.
pub fn moved(us: i64, by: Interval) -> Result<i64> {
    in_time(in_days(us, by)?, by)
}

/// Moved by the months and days alone.
pub(crate) fn in_days(us: i64, by: Interval) -> Result<i64> {
    let in_months = add_months(us, by.months)?;
    // 32 bits of days are some 10^14 microseconds.
    let sum = in_months.checked_add(i64::from(by.days).saturating_mul(DAY_US));
    check_timestamp(sum.ok_or_else(out_of_range)?)
}

/// Moved by the microseconds alone.
pub(crate) fn in_time(us: i64, by: Interval) -> Result<i64> {
    check_timestamp(us.checked_add(by.us).ok_or_else(out_of_range)?)
}

fn out_of_range() -> Error {
    Error::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(data_type: &DataType, text: &str) -> Value {
        Value::read_text(data_type, text).unwrap()
    }

    /// What PostgreSQL 15 answers.
    #[test]
    fn moments_are_moved_and_subtracted_as_postgresql_does() {
        use ArithmeticOp::{Add, Div, Mul, Sub};
        use DataType as T;
        let (interval, time) = (T::INTERVAL, T::Time(None));
        for (left, a, op, right, b, expected) in [
            (&T::Date, "2024-01-31", Add, &interval, "1 mon", "2024-02-29 00:00:00"),
            (&T::Date, "2024-03-01", Sub, &interval, "1 day 1 hour", "2024-02-28 23:00:00"),
            (
                &T::Timestamp(None),
                "2024-01-31 10:00",
                Add,
                &interval,
                "1 mon 1 day",
                "2024-03-01 10:00:00",
            ),
            (&interval, "-1 mon", Add, &T::Timestamp(None), "2024-03-31", "2024-02-29 00:00:00"),
            (
                &T::Timestamp(None),
                "2024-03-01 00:00",
                Sub,
                &T::Timestamp(None),
                "2024-02-28 12:00",
                "1 day 12:00:00",
            ),
            (&T::Timestamp(None), "2024-02-28", Sub, &T::Date, "2024-03-01", "-2 days"),
            (&T::Date, "2024-02-28", Sub, &T::Date, "2024-03-01", "-2"),
            (&T::Date, "2024-02-28", Add, &time, "03:04", "2024-02-28 03:04:00"),
            (&time, "23:00", Add, &interval, "1 day 2 hours", "01:00:00"),
            (&time, "01:00", Sub, &interval, "2 hours", "23:00:00"),
            (&time, "01:00", Sub, &time, "03:30", "-02:30:00"),
            (&interval, "1 day", Sub, &interval, "23 hours", "1 day -23:00:00"),
            (&interval, "1 hour", Mul, &T::Float8, "2.5", "02:30:00"),
            (&T::Float8, "0.5", Mul, &interval, "1 mon", "15 days"),
            (&interval, "1 hour", Div, &T::Float8, "1.5", "00:40:00"),
        ] {
            let chosen = operator(op, left, right).unwrap().unwrap();
            let cast = |value: Value, to: &T| crate::cast::cast(&value, to, true).unwrap();
            let (a, b) = (cast(read(left, a), &chosen.left), cast(read(right, b), &chosen.right));
            let answer = crate::arithmetic::arithmetic(op, &a, &b, &chosen.result).unwrap();
            assert_eq!(answer.to_text(&chosen.result), expected, "{a} {op} {b}");
        }
        let last = read(&T::Timestamp(None), "262142-12-31");
        let month = read(&interval, "1 mon");
        let beyond = arithmetic(Add, &last, &month).unwrap_err();
        assert_eq!(beyond.code(), SqlState::DATETIME_FIELD_OVERFLOW);
        let least = Value::Interval(Interval::new(i32::MIN, 0, 0));
        let beyond = arithmetic(Sub, &last, &least).unwrap_err();
        assert_eq!(beyond.code(), SqlState::DATETIME_FIELD_OVERFLOW);
    }

    #[test]
    fn what_there_is_not_is_refused_and_what_is_not_unique_too() {
        use ArithmeticOp::{Add, Div, Mod, Mul, Sub};
        use DataType as T;
        let code = |op, left: &T, right: &T| operator(op, left, right).unwrap().unwrap_err().code();
        let interval = T::INTERVAL;
        assert_eq!(code(Add, &T::Date, &T::Unknown), SqlState(*b"42725"));
        for (op, left, right) in [
            (Add, &T::Date, &T::Date),
            (Add, &T::Timestamp(None), &T::Timestamp(None)),
            (Sub, &interval, &T::Timestamp(None)),
            (Mul, &interval, &interval),
            (Div, &T::Int4, &interval),
            (Mod, &interval, &T::Int4),
            (Add, &T::Timestamp(None), &T::Int4),
        ] {
            assert_eq!(code(op, left, right), SqlState::UNDEFINED_FUNCTION, "{left} {op} {right}");
        }
        assert_eq!(operator(Add, &T::Int4, &T::Unknown), None);
        let unknown = operator(Sub, &T::Timestamp(None), &T::Unknown).unwrap().unwrap();
        assert_eq!((unknown.right, unknown.result), (T::Timestamp(None), interval.clone()));
        let added = operator(Add, &T::Unknown, &T::Timestamptz(None)).unwrap().unwrap();
        assert_eq!((added.left, added.result), (interval, T::Timestamptz(None)));
    }
}
