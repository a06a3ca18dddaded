//! Aggregate functions, one value at a time.
//!
//! Integer sums are exact in 128 bits and checked against the result's type at the end, so that
//! the order of rows cannot decide whether a sum overflows. Float sums go in row order, which is
//! deterministic because row order is.

use std::collections::BTreeSet;

use types::arithmetic::ArithmeticOp;
use types::compare::{compare, sort_cmp};
use types::numeric::{self, Numeric, work};
use types::{DataType, Error, Result, SqlState, Value};

use crate::query::{Aggregate, AggregateFunction};

/// The state of one aggregate over one group.
#[derive(Clone)]
pub(crate) struct Accumulator {
    seen: Option<BTreeSet<Ordered>>,
    count: i64,
    state: State,
}

#[derive(Clone)]
enum State {
    Nothing,
    Int(i128),
    Numeric(Numeric),
    Float(f64),
    Value(Value),
    Values(Vec<Value>),
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
        Accumulator {
            seen: aggregate.distinct.then(BTreeSet::new),
            count: 0,
            state: State::Nothing,
        }
    }

    /// Units that it takes to take one value in, beside those of its row.
    #[inline]
    pub(crate) fn work(&self, value: &Value) -> u64 {
        let Value::Numeric(number) = value else { return 0 };
        let search = if self.seen.is_some() { work::of_digits(number) } else { 0 };
        search
            + match &self.state {
                State::Numeric(sum) => work::of_operator(ArithmeticOp::Add, sum, number),
                State::Value(Value::Numeric(kept)) => work::of_alignment(kept, number),
                _ => 0,
            }
    }

    /// Takes one value in; returns the weight of what it keeps because of it.
    pub(crate) fn add(&mut self, value: &Value, aggregate: &Aggregate) -> Result<usize> {
        let keeps_nulls = aggregate.function == AggregateFunction::ArrayAgg;
        if value.is_null() && !keeps_nulls {
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
            AggregateFunction::Sum | AggregateFunction::Avg => kept += self.add_number(value)?,
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
        }
        Ok(kept)
    }

    /// What the sum weighs more than the one before.
    fn add_number(&mut self, value: &Value) -> Result<usize> {
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
            (State::Int(sum), Value::Int(i)) => {
                State::Int(sum.checked_add(i128::from(*i)).ok_or_else(out_of_range)?)
            }
            (State::Numeric(sum), Value::Numeric(d)) => State::Numeric(numeric::add(sum, d)?),
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

    /// Bytes that a copy of it is made of.
    pub(crate) fn copied_bytes(&self) -> usize {
        match &self.state {
            State::Values(values) => values.iter().map(Value::weight).sum(),
            State::Value(value) => value.weight(),
            State::Numeric(sum) => sum.heap_bytes(),
            State::Nothing | State::Int(_) | State::Float(_) => 0,
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

fn divide(sum: &Numeric, count: i64) -> Result<Value> {
    numeric::div(sum, &Numeric::from(count)).map(Value::Numeric)
}
