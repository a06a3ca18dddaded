//! What values have in common that are equal for PostgreSQL, though Arrow's kernels tell them
//! apart: they are compared and sorted by that.
//!
//! | | equal | by |
//! |---|---|---|
//! | double precision | 0 and -0 | 0 |
//! | interval | 1 month and 30 days | nanoseconds, of months of 30 days |
//! | a numeric of [variable scale](crate::variable_scale) | 1.0 and 1.00 | its value |

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, FixedSizeBinaryArray, FixedSizeBinaryBuilder,
    Float64Array,
};
use datafusion::arrow::datatypes::{
    DataType as ArrowType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit,
};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::variable_scale::{VALUE_BYTES, VARIABLE_SCALE};

const INTERVAL: ArrowType = ArrowType::Interval(IntervalUnit::MonthDayNano);
const SPAN: ArrowType = ArrowType::Decimal128(38, 0);
const DAYS_PER_MONTH: i128 = 30;
const NS_PER_DAY: i128 = 86_400_000_000_000;

#[derive(PartialEq, Eq, Hash, Debug)]
struct Comparable {
    signature: Signature,
}

/// What an expression of a type is compared by: itself, for most types.
pub(crate) fn of(expr: Expr, data_type: &ArrowType) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Comparable { signature }))
    });
    match common_type(data_type) {
        Some(_) => FUNCTION.call(vec![expr]),
        None => expr,
    }
}

fn common_type(data_type: &ArrowType) -> Option<ArrowType> {
    match data_type {
        ArrowType::Float64 => Some(ArrowType::Float64),
        interval if *interval == INTERVAL => Some(SPAN),
        free if *free == VARIABLE_SCALE => Some(ArrowType::FixedSizeBinary(VALUE_BYTES as i32)),
        _ => None,
    }
}

fn span(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * DAYS_PER_MONTH + i128::from(interval.days);
    days * NS_PER_DAY + i128::from(interval.nanoseconds)
}

/// With one NaN, and if `one_zero` with one zero.
pub(crate) fn canonical(floats: &Float64Array, one_zero: bool) -> Float64Array {
    let zero = if one_zero { 0.0 } else { -0.0 };
    floats.unary(|float| if float.is_nan() { f64::NAN } else { float + zero })
}

fn common(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        ArrowType::Float64 => {
            let floats = array.as_primitive::<Float64Type>();
            Arc::new(canonical(floats, true))
        }
        interval if *interval == INTERVAL => {
            let intervals = array.as_primitive::<IntervalMonthDayNanoType>();
            let spans: Decimal128Array = intervals.unary(span);
            Arc::new(spans.with_data_type(SPAN))
        }
        free if *free == VARIABLE_SCALE => {
            let numbers: &FixedSizeBinaryArray = array.as_fixed_size_binary();
            let mut values =
                FixedSizeBinaryBuilder::with_capacity(numbers.len(), VALUE_BYTES as i32);
            for number in numbers {
                match number {
                    Some(bytes) => values.append_value(&bytes[..VALUE_BYTES])?,
                    None => values.append_null(),
                }
            }
            Arc::new(values.finish())
        }
        other => return exec_err!("{other} compares as it is"),
    })
}

impl ScalarUDFImpl for Comparable {
    fn name(&self) -> &str {
        "comparable"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[ArrowType]) -> Result<ArrowType> {
        match types.first().and_then(common_type) {
            Some(common) => Ok(common),
            None => exec_err!("{types:?} compare as they are"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Array(array) => ColumnarValue::Array(common(array)?),
            ColumnarValue::Scalar(scalar) => {
                let common = common(&scalar.to_array()?)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&common, 0)?)
            }
        })
    }
}
