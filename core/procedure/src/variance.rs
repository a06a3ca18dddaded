//! Variances and standard deviations, one value at a time.
//!
//! Of numerics the sums are exact, so that the order of rows decides nothing; of floats there is
//! the update of Youngs and Cramer, as PostgreSQL has it, in row order.

use types::arithmetic::ArithmeticOp;
use types::numeric::{self, Numeric, work};
use types::{Error, Result, SqlState, Value};

use crate::query::AggregateFunction;

/// What is known of the values so far.
#[derive(Clone)]
pub(crate) enum Moments {
    Numeric { sum: Numeric, squares: Numeric },
    Float { sum: f64, squared_differences: f64 },
}

impl Moments {
    pub(crate) fn first(value: &Value) -> Result<Moments> {
        match value {
            Value::Numeric(x) => {
                Ok(Moments::Numeric { sum: x.clone(), squares: numeric::mul(x, x)? })
            }
            Value::Float(x) => {
                // What is infinite or no number is no distance from itself either.
                let squared_differences = if x.is_finite() { 0.0 } else { f64::NAN };
                Ok(Moments::Float { sum: *x, squared_differences })
            }
            _ => Err(mixed()),
        }
    }

    /// The `count`th value.
    pub(crate) fn add(&self, value: &Value, count: i64) -> Result<Moments> {
        match (self, value) {
            (Moments::Numeric { sum, squares }, Value::Numeric(x)) => {
                let squares = numeric::add(squares, &numeric::mul(x, x)?)?;
                Ok(Moments::Numeric { sum: numeric::add(sum, x)?, squares })
            }
            (Moments::Float { sum, squared_differences }, Value::Float(x)) => {
                let count = count as f64;
                let total = sum + x;
                let distance = x * count - total;
                let squared = squared_differences + distance * distance / (count * (count - 1.0));
                if !total.is_infinite() && !squared.is_infinite() {
                    let (sum, squared_differences) = (total, squared);
                    return Ok(Moments::Float { sum, squared_differences });
                }
                if sum.is_finite() && x.is_finite() {
                    let what = "value out of range: overflow";
                    return Err(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, what));
                }
                Ok(Moments::Float { sum: total, squared_differences: f64::NAN })
            }
            _ => Err(mixed()),
        }
    }

    /// Units that another value takes.
    pub(crate) fn work(&self, value: &Value) -> u64 {
        match (self, value) {
            (Moments::Numeric { sum, squares }, Value::Numeric(x)) => {
                work::of_operator(ArithmeticOp::Mul, x, x)
                    + work::of_operator(ArithmeticOp::Add, sum, x)
                    + work::of_operator(ArithmeticOp::Add, squares, squares)
            }
            _ => 0,
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Moments::Numeric { sum, squares } => sum.heap_bytes() + squares.heap_bytes(),
            Moments::Float { .. } => 0,
        }
    }

    pub(crate) fn finish(&self, count: i64, function: AggregateFunction) -> Result<Value> {
        use AggregateFunction::{StddevPop, StddevSamp, VarSamp};
        let is_sample = matches!(function, VarSamp | StddevSamp);
        let is_root = matches!(function, StddevPop | StddevSamp);
        if is_sample && count < 2 {
            return Ok(Value::Null);
        }
        let divisor = if is_sample { count - 1 } else { count };
        match self {
            Moments::Float { squared_differences, .. } => {
                let variance = squared_differences / divisor as f64;
                Ok(Value::Float(if is_root { variance.sqrt() } else { variance }))
            }
            Moments::Numeric { sum, squares } => {
                let n = Numeric::from(count);
                let all = numeric::mul(&n, squares)?;
                let difference = numeric::sub(&all, &numeric::mul(sum, sum)?)?;
                if difference.is_zero() || difference.is_negative() {
                    return Ok(Value::Numeric(Numeric::ZERO));
                }
                let divisor = numeric::mul(&n, &Numeric::from(divisor))?;
                let variance = numeric::div(&difference, &divisor)?;
                match is_root && variance.is_finite() {
                    true => {
                        let scale = variance.scale();
                        numeric::sqrt_at(&variance, scale).map(Value::Numeric)
                    }
                    false => Ok(Value::Numeric(variance)),
                }
            }
        }
    }
}

fn mixed() -> Error {
    Error::new(SqlState::INTERNAL_ERROR, "a variance over mixed types")
}
