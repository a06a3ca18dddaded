//! Batches of columns as rows of values.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, BooleanArray, Date32Array,
    Decimal128Array, Decimal256Array, FixedSizeBinaryArray, Float64Array, Int64Array,
    IntervalMonthDayNanoArray, ListArray, PrimitiveArray, RecordBatch, StringArray,
    StringViewArray,
};
use datafusion::arrow::array::{FixedSizeBinaryBuilder, new_empty_array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Field, IntervalMonthDayNano, IntervalUnit, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, i256,
};
use datafusion::common::ScalarValue;
use sql::analytical_engine::Row;
use types::numeric::Numeric;
use types::{DataType, Error, Interval, Jsonb, Result, SqlState, Value};

use crate::faults::in_sql;
use crate::sql_types::{EPOCH_DAYS, EPOCH_US, scalar_as, us_of};
use crate::variable_scale::{BYTES, VARIABLE_SCALE, decode, encode};

/// Rows in one piece on the way to a client.
const ROWS_PER_PIECE: usize = 1_024;

/// How many digits after the point a decimal column's numbers show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Digits {
    /// As many as the column has.
    All,
    /// Of a column without a scale: zeros at the end say nothing.
    Needed,
}

/// A column, as its client knows it.
pub(crate) struct Shown {
    pub(crate) data_type: DataType,
    pub(crate) digits: Digits,
}

impl Shown {
    pub(crate) fn new(field: &Field, data_type: DataType) -> Shown {
        let free = DataType::Numeric(None);
        let is_free = data_type == free && *field.data_type() == snapshot::arrow_type(&free);
        let digits = if is_free { Digits::Needed } else { Digits::All };
        Shown { data_type, digits }
    }
}

/// The rows of a batch, some at a time.
pub(crate) fn pieces<'a>(
    batch: &'a RecordBatch,
    columns: &'a [Shown],
) -> Result<impl Iterator<Item = Result<Vec<Row>>> + 'a> {
    let columns = batch.columns().iter().zip(columns);
    let columns = columns.map(|(array, shown)| Cells::new(array, &shown.data_type, shown.digits));
    let columns: Vec<Cells> = columns.collect::<Result<_>>()?;
    let count = batch.num_rows();
    Ok((0..count).step_by(ROWS_PER_PIECE).map(move |from| {
        let rows = from..count.min(from + ROWS_PER_PIECE);
        rows.map(|row| columns.iter().map(|cells| cells.value(row)).collect()).collect()
    }))
}

/// A column, by how its values are read.
pub(crate) enum Cells {
    Null,
    Bool(BooleanArray),
    Int(Int64Array),
    Float(Float64Array),
    Decimal {
        units: Decimal128Array,
        scale: u8,
        digits: Digits,
    },
    /// Numerics of [variable scale](crate::variable_scale).
    Free(FixedSizeBinaryArray),
    Wide {
        units: Decimal256Array,
        scale: u8,
    },
    Text(StringArray),
    TextView(StringViewArray),
    /// Texts of `jsonb`.
    Jsonb(StringViewArray),
    Bytes(BinaryArray),
    BytesView(BinaryViewArray),
    Uuid(FixedSizeBinaryArray),
    Date(Date32Array),
    /// Microseconds since 1970; `utc`: of the type that names instants.
    Time {
        us: Vec<Option<i64>>,
        utc: bool,
    },
    Interval(IntervalMonthDayNanoArray),
    List {
        lists: ListArray,
        element: DataType,
    },
}

impl Cells {
    pub(crate) fn new(array: &ArrayRef, data_type: &DataType, digits: Digits) -> Result<Cells> {
        Ok(match array.data_type() {
            ArrowType::Null => Cells::Null,
            ArrowType::Boolean => Cells::Bool(array.as_boolean().clone()),
            ArrowType::Int64 => Cells::Int(array.as_primitive().clone()),
            ArrowType::Int8
            | ArrowType::Int16
            | ArrowType::Int32
            | ArrowType::UInt8
            | ArrowType::UInt16
            | ArrowType::UInt32
            | ArrowType::UInt64 => {
                Cells::Int(converted(array, &ArrowType::Int64)?.as_primitive().clone())
            }
            ArrowType::Float64 => Cells::Float(array.as_primitive().clone()),
            ArrowType::Float16 | ArrowType::Float32 => {
                Cells::Float(converted(array, &ArrowType::Float64)?.as_primitive().clone())
            }
            ArrowType::Decimal128(_, scale) => Cells::Decimal {
                units: array.as_primitive().clone(),
                scale: scale.unsigned_abs(),
                digits,
            },
            ArrowType::Decimal256(_, scale) => {
                Cells::Wide { units: array.as_primitive().clone(), scale: scale.unsigned_abs() }
            }
            ArrowType::Utf8 => Cells::Text(array.as_string().clone()),
            ArrowType::Utf8View if *data_type == DataType::Jsonb => {
                Cells::Jsonb(array.as_string_view().clone())
            }
            ArrowType::Utf8View => Cells::TextView(array.as_string_view().clone()),
            ArrowType::LargeUtf8 => {
                Cells::TextView(converted(array, &ArrowType::Utf8View)?.as_string_view().clone())
            }
            ArrowType::Binary => Cells::Bytes(array.as_binary().clone()),
            ArrowType::BinaryView => Cells::BytesView(array.as_binary_view().clone()),
            ArrowType::LargeBinary => {
                Cells::BytesView(converted(array, &ArrowType::BinaryView)?.as_binary_view().clone())
            }
            free if *free == VARIABLE_SCALE => Cells::Free(array.as_fixed_size_binary().clone()),
            ArrowType::FixedSizeBinary(16) => Cells::Uuid(array.as_fixed_size_binary().clone()),
            ArrowType::Date32 => Cells::Date(array.as_primitive().clone()),
            ArrowType::Timestamp(unit, zone) => Cells::Time {
                us: match unit {
                    TimeUnit::Second => times::<TimestampSecondType>(array, *unit)?,
                    TimeUnit::Millisecond => times::<TimestampMillisecondType>(array, *unit)?,
                    TimeUnit::Microsecond => times::<TimestampMicrosecondType>(array, *unit)?,
                    TimeUnit::Nanosecond => times::<TimestampNanosecondType>(array, *unit)?,
                },
                utc: zone.is_some(),
            },
            ArrowType::Interval(IntervalUnit::MonthDayNano) => {
                Cells::Interval(array.as_primitive().clone())
            }
            ArrowType::List(_) => {
                let DataType::Array(element) = data_type else { return Err(unreadable(array)) };
                Cells::List { lists: array.as_list().clone(), element: (**element).clone() }
            }
            _ => return Err(unreadable(array)),
        })
    }

    fn array(&self) -> Option<&dyn Array> {
        Some(match self {
            Cells::Null | Cells::Time { .. } => return None,
            Cells::Bool(array) => array,
            Cells::Int(array) => array,
            Cells::Float(array) => array,
            Cells::Decimal { units, .. } => units,
            Cells::Free(array) => array,
            Cells::Wide { units, .. } => units,
            Cells::Text(array) => array,
            Cells::TextView(array) | Cells::Jsonb(array) => array,
            Cells::Bytes(array) => array,
            Cells::BytesView(array) => array,
            Cells::Uuid(array) => array,
            Cells::Date(array) => array,
            Cells::Interval(array) => array,
            Cells::List { lists, .. } => lists,
        })
    }

    pub(crate) fn value(&self, row: usize) -> Result<Value> {
        if self.array().is_some_and(|array| array.is_null(row)) {
            return Ok(Value::Null);
        }
        Ok(match self {
            Cells::Null => Value::Null,
            Cells::Bool(array) => Value::Bool(array.value(row)),
            Cells::Int(array) => Value::Int(array.value(row)),
            Cells::Float(array) => Value::Float(array.value(row)),
            Cells::Decimal { units, scale, digits } => {
                let number = Numeric::from_units(units.value(row), *scale);
                Value::Numeric(match digits {
                    Digits::All => number,
                    Digits::Needed => number.normalize(),
                })
            }
            Cells::Free(array) => Value::Numeric(decode(array.value(row))?),
            Cells::Wide { units, scale } => {
                let units: i256 = units.value(row);
                let units = units.to_i128().ok_or_else(overflow)?;
                Value::Numeric(Numeric::from_units(units, *scale))
            }
            Cells::Text(array) => Value::text(array.value(row)),
            Cells::TextView(array) => Value::text(array.value(row)),
            Cells::Jsonb(array) => Value::Jsonb(Jsonb::stored(array.value(row).into())),
            Cells::Bytes(array) => Value::bytes(array.value(row)),
            Cells::BytesView(array) => Value::bytes(array.value(row)),
            Cells::Uuid(array) => match array.value(row).try_into() {
                Ok(uuid) => Value::Uuid(uuid),
                Err(_) => return Err(unreadable(array)),
            },
            Cells::Date(array) => {
                Value::Date(array.value(row).checked_sub(EPOCH_DAYS).ok_or_else(time_overflow)?)
            }
            Cells::Time { us, utc } => match us[row] {
                None => Value::Null,
                Some(us) => {
                    let us = us.checked_sub(EPOCH_US).ok_or_else(time_overflow)?;
                    if *utc { Value::Timestamptz(us) } else { Value::Timestamp(us) }
                }
            },
            Cells::Interval(array) => Value::Interval(interval(array.value(row))),
            Cells::List { lists, element } => {
                let cells = Cells::new(&lists.value(row), element, Digits::All)?;
                let count = lists.value_length(row) as usize;
                let values: Vec<Value> =
                    (0..count).map(|place| cells.value(place)).collect::<Result<_>>()?;
                Value::array(values)
            }
        })
    }
}

fn converted(array: &ArrayRef, to: &ArrowType) -> Result<ArrayRef> {
    cast(array, to).map_err(|error| in_sql(error.into()))
}

/// Values of a type, as a column of one of Arrow's.
pub(crate) fn column(values: &[Value], data_type: &DataType, to: &ArrowType) -> Result<ArrayRef> {
    Ok(match to {
        ArrowType::Boolean => Arc::new(values.iter().map(Value::as_bool).collect::<BooleanArray>()),
        ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64 => {
            let ints: ArrayRef = Arc::new(values.iter().map(Value::as_int).collect::<Int64Array>());
            converted(&ints, to)?
        }
        ArrowType::Utf8View => {
            Arc::new(values.iter().map(Value::as_text).collect::<StringViewArray>())
        }
        free if *free == VARIABLE_SCALE => {
            let mut numbers = FixedSizeBinaryBuilder::with_capacity(values.len(), BYTES as i32);
            for value in values {
                match value {
                    Value::Numeric(number) => {
                        let added = numbers.append_value(encode(number)?);
                        added.map_err(|error| in_sql(error.into()))?;
                    }
                    _ => numbers.append_null(),
                }
            }
            Arc::new(numbers.finish())
        }
        _ if values.is_empty() => new_empty_array(to),
        _ => {
            let scalars = values.iter().map(|value| scalar_as(value, data_type, to));
            let scalars = scalars.collect::<Result<Vec<ScalarValue>>>()?;
            ScalarValue::iter_to_array(scalars).map_err(in_sql)?
        }
    })
}

fn times<T>(array: &ArrayRef, unit: TimeUnit) -> Result<Vec<Option<i64>>>
where
    T: ArrowPrimitiveType<Native = i64>,
{
    let array: &PrimitiveArray<T> = array.as_primitive();
    let us = |count: Option<i64>| match count {
        None => Ok(None),
        Some(count) => us_of(unit, count).map(Some).ok_or_else(time_overflow),
    };
    array.iter().map(us).collect()
}

fn overflow() -> Error {
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow")
        .with_detail("Analytical queries compute with 38 digits.")
}

fn time_overflow() -> Error {
    Error::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}

fn unreadable(array: &dyn Array) -> Error {
    Error::unsupported(format_args!("a result of type {}", array.data_type()))
        .with_hint("Cast it to text.")
}

/// Nanoseconds are cut off.
fn interval(value: IntervalMonthDayNano) -> Interval {
    Interval::new(value.months, value.days, value.nanoseconds / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS_PER_S: i64 = 1_000_000_000;

    #[test]
    fn intervals_keep_their_parts() {
        let of = |months, days, ns| interval(IntervalMonthDayNano::new(months, days, ns));
        let four_hours = 4 * 3_600 * NS_PER_S;
        assert!(of(14, -3, four_hours).is_same(&Interval::new(14, -3, 14_400_000_000)));
        assert!(of(0, 1, -1_500_000_999).is_same(&Interval::new(0, 1, -1_500_000)));
    }
}
