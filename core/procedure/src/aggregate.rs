//! Aggregate functions, one value at a time.
//!
//! Integer sums are exact in 128 bits and checked against the result's type at the end, so that
//! the order of rows cannot decide whether a sum overflows. Float sums go in row order, which is
//! deterministic because row order is.

use std::collections::BTreeSet;

use types::arithmetic::{ArithmeticOp, add, check_made_bytes};
use types::compare::{compare, sort_cmp};
use types::interval::out_of_range;
use types::numeric::{self, Numeric, work};
use types::{DataType, Error, Interval, Result, SqlState, Value};

use crate::meter::SEEN_UNITS;
use crate::query::{Aggregate, AggregateFunction};
use crate::run_query::SortRow;
use crate::variance::Moments;

/// The state of one aggregate over one group.
#[derive(Clone)]
pub(crate) struct Accumulator {
    seen: Option<BTreeSet<Ordered>>,
    /// Values with their separators that have to be sorted first, by what.
    waiting: Option<Vec<SortRow>>,
    count: i64,
    state: State,
}

#[derive(Clone)]
enum State {
    Nothing,
    Int(i128),
    Numeric(Numeric),
    Float(f64),
    /// Months, days and microseconds, each exact whatever the order.
    Interval([i128; 3]),
    Value(Value),
    Values(Vec<Value>),
    Text(String),
    Bytes(Vec<u8>),
    Moments(Moments),
}

/// A value in the order of ORDER BY, for DISTINCT.
#[derive(Clone, PartialEq, Eq)]
struct Ordered(Value);

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        sort_cmp(&self.0, &other.0)
    }
}

impl Accumulator {
    pub(crate) fn new(aggregate: &Aggregate) -> Accumulator {
        let is_sorted = !aggregate.order.is_empty();
        Accumulator {
            seen: (aggregate.distinct && !is_sorted).then(BTreeSet::new),
            waiting: is_sorted.then(Vec::new),
            count: 0,
            state: State::Nothing,
        }
    }

    /// Rows of a value and its separator that wait to be sorted. What takes them in when they are
    /// is [another](Accumulator::of_sorted).
    pub(crate) fn waiting(&mut self) -> Option<&mut Vec<SortRow>> {
        self.waiting.as_mut()
    }

    pub(crate) fn of_sorted() -> Accumulator {
        Accumulator { seen: None, waiting: None, count: 0, state: State::Nothing }
    }

    /// Units that it takes to take one value in, beside those of its row.
    #[inline]
    pub(crate) fn work(&self, value: &Value) -> u64 {
        let search = if self.seen.is_some() { SEEN_UNITS } else { 0 };
        let Value::Numeric(number) = value else { return search };
        let digits = if self.seen.is_some() { work::of_digits(number) } else { 0 };
        search
            + digits
            + match &self.state {
                State::Numeric(sum) => work::of_operator(ArithmeticOp::Add, sum, number),
                State::Value(Value::Numeric(kept)) => work::of_alignment(kept, number),
                State::Moments(moments) => moments.work(value),
                _ => 0,
            }
    }

    /// Takes one value in; returns the weight of what it keeps because of it.
    pub(crate) fn add(
        &mut self,
        value: &Value,
        separator: &Value,
        aggregate: &Aggregate,
    ) -> Result<usize> {
        if value.is_null() && !aggregate.function.keeps_nulls() {
            return Ok(0);
        }
        let mut kept = 0;
        if let Some(seen) = &mut self.seen {
            if !seen.insert(Ordered(value.clone())) {
                return Ok(0);
            }
            kept += value.weight();
        }
        self.count += 1;
        match aggregate.function {
            AggregateFunction::Count => {}
            AggregateFunction::Sum | AggregateFunction::Avg => {
                kept += self.add_number(value, &aggregate.result)?;
            }
            AggregateFunction::Min => kept += self.keep_if(value, std::cmp::Ordering::is_lt),
            AggregateFunction::Max => kept += self.keep_if(value, std::cmp::Ordering::is_gt),
            AggregateFunction::BoolAnd => self.combine(value, |a, b| a && b),
            AggregateFunction::BoolOr => self.combine(value, |a, b| a || b),
            AggregateFunction::ArrayAgg => {
                kept += value.weight();
                match &mut self.state {
                    State::Values(values) => values.push(value.clone()),
                    state => *state = State::Values(vec![value.clone()]),
                }
            }
            AggregateFunction::StringAgg => kept += self.join(value, separator)?,
            AggregateFunction::VarPop
            | AggregateFunction::VarSamp
            | AggregateFunction::StddevPop
            | AggregateFunction::StddevSamp => kept += self.add_moment(value)?,
            AggregateFunction::BitAnd => self.combine_bits(value, |a, b| a & b),
            AggregateFunction::BitOr => self.combine_bits(value, |a, b| a | b),
            AggregateFunction::BitXor => self.combine_bits(value, |a, b| a ^ b),
        }
        Ok(kept)
    }

    /// A NULL separates nothing.
    fn join(&mut self, value: &Value, separator: &Value) -> Result<usize> {
        let between = match separator {
            Value::Text(text) => text.as_bytes(),
            Value::Bytes(bytes) => bytes,
            _ => &[],
        };
        let made = |sofar: usize, more: usize| {
            let added = between.len() + more;
            check_made_bytes(sofar + added).map(|()| added)
        };
        match (&mut self.state, value) {
            (State::Text(all), Value::Text(more)) => {
                let added = made(all.len(), more.len())?;
                all.push_str(separator.as_text().unwrap_or_default());
                all.push_str(more);
                Ok(added)
            }
            (State::Bytes(all), Value::Bytes(more)) => {
                let added = made(all.len(), more.len())?;
                all.extend_from_slice(between);
                all.extend_from_slice(more);
                Ok(added)
            }
            (state @ State::Nothing, Value::Text(first)) => {
                *state = State::Text(first.to_string());
                Ok(first.len())
            }
            (state @ State::Nothing, Value::Bytes(first)) => {
                *state = State::Bytes(first.to_vec());
                Ok(first.len())
            }
            _ => Err(Error::new(SqlState::INTERNAL_ERROR, "texts and bytes joined")),
        }
    }

    /// What the sum weighs more than the one before.
    fn add_number(&mut self, value: &Value, result: &DataType) -> Result<usize> {
        let beside = |state: &State| match state {
            State::Numeric(sum) => sum.heap_bytes(),
            _ => 0,
        };
        let before = beside(&self.state);
        let out_of_range = || Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "sum out of range");
        self.state = match (&self.state, value) {
            (State::Nothing, Value::Int(i)) => State::Int(i128::from(*i)),
            (State::Nothing, Value::Numeric(d)) => State::Numeric(d.clone()),
            (State::Nothing, Value::Float(x)) => State::Float(*x),
            (State::Nothing, Value::Interval(span)) => State::Interval(added([0; 3], *span)),
            (State::Interval(sum), Value::Interval(span)) => State::Interval(added(*sum, *span)),
            (State::Int(sum), Value::Int(i)) => {
                State::Int(sum.checked_add(i128::from(*i)).ok_or_else(out_of_range)?)
            }
            (State::Numeric(sum), Value::Numeric(d)) => State::Numeric(numeric::add(sum, d)?),
            (State::Float(sum), Value::Float(_)) if *result == DataType::Float4 => {
                match add(&Value::Float(*sum), value, result)? {
                    Value::Float(sum) => State::Float(sum),
                    _ => State::Nothing,
                }
            }
            (State::Float(sum), Value::Float(x)) => State::Float(sum + x),
            _ => return Err(Error::new(SqlState::INTERNAL_ERROR, "sum over mixed types")),
        };
        Ok(beside(&self.state).saturating_sub(before))
    }

    /// What the value kept weighs more than the one before.
    fn keep_if(&mut self, value: &Value, better: fn(std::cmp::Ordering) -> bool) -> usize {
        let (replace, before) = match &self.state {
            State::Value(kept) => (compare(value, kept).is_some_and(better), kept.weight()),
            _ => (true, 0),
        };
        if !replace {
            return 0;
        }
        self.state = State::Value(value.clone());
        value.weight().saturating_sub(before)
    }

    fn combine(&mut self, value: &Value, combine: fn(bool, bool) -> bool) {
        let value = value.as_bool().unwrap_or(false);
        self.state = State::Value(Value::Bool(match &self.state {
            State::Value(Value::Bool(sofar)) => combine(*sofar, value),
            _ => value,
        }));
    }

    fn combine_bits(&mut self, value: &Value, combine: fn(i64, i64) -> i64) {
        let value = value.as_int().unwrap_or(0);
        self.state = State::Value(Value::Int(match &self.state {
            State::Value(Value::Int(sofar)) => combine(*sofar, value),
            _ => value,
        }));
    }

    /// What is kept that is more than before.
    fn add_moment(&mut self, value: &Value) -> Result<usize> {
        let (moments, before) = match &self.state {
            State::Moments(moments) => (moments.add(value, self.count)?, moments.heap_bytes()),
            _ => (Moments::first(value)?, 0),
        };
        let kept = moments.heap_bytes().saturating_sub(before);
        self.state = State::Moments(moments);
        Ok(kept)
    }

    /// Bytes that a copy of it is made of.
    pub(crate) fn copied_bytes(&self) -> usize {
        match &self.state {
            State::Values(values) => values.iter().map(Value::weight).sum(),
            State::Value(value) => value.weight(),
            State::Numeric(sum) => sum.heap_bytes(),
            State::Text(text) => text.len(),
            State::Bytes(bytes) => bytes.len(),
            State::Moments(moments) => moments.heap_bytes(),
            State::Nothing | State::Int(_) | State::Float(_) | State::Interval(_) => 0,
        }
    }

    pub(crate) fn finish(self, aggregate: &Aggregate) -> Result<Value> {
        if aggregate.function == AggregateFunction::Count {
            return Ok(Value::Int(self.count));
        }
        let average = aggregate.function == AggregateFunction::Avg;
        match self.state {
            State::Nothing => Ok(Value::Null),
            State::Value(value) => Ok(value),
            State::Values(values) => Ok(Value::array(values)),
            State::Moments(moments) => moments.finish(self.count, aggregate.function),
            State::Text(text) => Ok(Value::Text(text.into())),
            State::Bytes(bytes) => Ok(Value::Bytes(bytes.into())),
            State::Interval(sum) => {
                let sum = interval(sum)?;
                match average {
                    true => sum.divided_by(self.count as f64).map(Value::Interval),
                    false => Ok(Value::Interval(sum)),
                }
            }
            State::Float(sum) if average => Ok(Value::Float(sum / self.count as f64)),
            State::Float(sum) => Ok(Value::Float(sum)),
            State::Numeric(sum) if average => divide(&sum, self.count),
            State::Numeric(sum) => Ok(Value::Numeric(sum)),
            State::Int(sum) if average => divide(&Numeric::from(sum), self.count),
            State::Int(sum) => match &aggregate.result {
                DataType::Numeric(_) => Ok(Value::Numeric(Numeric::from(sum))),
                _ => i64::try_from(sum).map(Value::Int).map_err(|_| {
                    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range")
                }),
            },
        }
    }
}

fn added([months, days, us]: [i128; 3], span: Interval) -> [i128; 3] {
    [months + i128::from(span.months), days + i128::from(span.days), us + i128::from(span.us)]
}

/// # Errors
/// 22008 where a sum does not fit.
fn interval([months, days, us]: [i128; 3]) -> Result<Interval> {
    let sum = || {
        Some(Interval {
            months: i32::try_from(months).ok()?,
            days: i32::try_from(days).ok()?,
            us: i64::try_from(us).ok()?,
        })
    };
    sum().ok_or_else(out_of_range)
}

fn divide(sum: &Numeric, count: i64) -> Result<Value> {
    numeric::div(sum, &Numeric::from(count)).map(Value::Numeric)
}
