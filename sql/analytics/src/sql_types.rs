//! The types of SQL and of Arrow, and values between them.
//!
//! Where several SQL types are one Arrow type (`text` and `varchar(3)`, `numeric` and
//! `numeric(38,10)`), a field says which in its metadata. That goes where a column goes and no
//! further: what is computed from it has the type that Arrow tells.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType as ArrowType, Field, IntervalUnit, TimeUnit};
use datafusion::common::ScalarValue;
use snapshot::{arrow_type, units};
use types::{DataType, Error, Result, SystemType, Value};

use crate::variable_scale::{BYTES, VARIABLE_SCALE, encode};

/// The key of the metadata that names a SQL type.
const SQL_TYPE: &str = "sql_type";

/// Days and microseconds from 1970-01-01 to 2000-01-01.
pub(crate) const EPOCH_DAYS: i32 = 10_957;
pub(crate) const EPOCH_US: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// What stands for values that no operator here reads as PostgreSQL does: arrays, some of which
/// count from 0 in system tables, positions of enums' labels, and numbers that show themselves as
/// names.
pub(crate) const OPAQUE: ArrowType = ArrowType::Interval(IntervalUnit::YearMonth);

/// The Arrow type of a SQL type's values, system tables' own types included.
pub(crate) fn stored_as(data_type: &DataType) -> ArrowType {
    match data_type {
        DataType::System(system) if system.is_object() => OPAQUE,
        DataType::System(system) => stored_as(&system.storage()),
        DataType::Array(_) | DataType::Enum(_) => OPAQUE,
        other => arrow_type(other),
    }
}

/// Whether no operator here reads a type's values as PostgreSQL does: an image has them, for those
/// who take them as they are.
pub(crate) fn is_opaque(data_type: &DataType) -> bool {
    match data_type {
        DataType::Interval(_) | DataType::Time(_) | DataType::Timetz(_) => true,
        // Its sums and casts go by fewer digits than those of the doubles that hold it.
        DataType::Float4 => true,
        other => stored_as(other) == OPAQUE,
    }
}

/// The field that a column of a SQL type is.
pub(crate) fn field(name: &str, data_type: &DataType, nullable: bool) -> Field {
    let field = Field::new(name, stored_as(data_type), nullable);
    match inferred(field.data_type()) {
        Some(inferred) if inferred == *data_type => field,
        _ => field.with_metadata(HashMap::from([(SQL_TYPE.to_owned(), data_type.to_string())])),
    }
}

/// The SQL type of a field.
///
/// # Errors
/// 0A000 for a type of Arrow's that SQL has none for.
pub(crate) fn sql_type(field: &Field) -> Result<DataType> {
    let declared = field.metadata().get(SQL_TYPE);
    let declared = declared.and_then(|name| named(name));
    // A cast keeps the metadata of what it casts.
    if let Some(declared) = declared.filter(|declared| stored_as(declared) == *field.data_type()) {
        return Ok(declared);
    }
    inferred(field.data_type()).ok_or_else(|| {
        Error::unsupported(format_args!("a result of type {}", field.data_type()))
            .with_hint("Cast it to text.")
    })
}

fn named(name: &str) -> Option<DataType> {
    let system = || SystemType::from_name(name).map(DataType::System);
    DataType::from_sql_name(name).ok().or_else(system)
}

fn inferred(arrow: &ArrowType) -> Option<DataType> {
    Some(match arrow {
        ArrowType::Null => DataType::Text,
        ArrowType::Boolean => DataType::Bool,
        ArrowType::Int8 | ArrowType::UInt8 | ArrowType::Int16 => DataType::Int2,
        ArrowType::UInt16 | ArrowType::Int32 => DataType::Int4,
        ArrowType::UInt32 | ArrowType::Int64 | ArrowType::UInt64 => DataType::Int8,
        ArrowType::Float16 | ArrowType::Float32 | ArrowType::Float64 => DataType::Float8,
        ArrowType::Decimal128(_, _) | ArrowType::Decimal256(_, _) => DataType::Numeric(None),
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => DataType::Text,
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => DataType::Bytea,
        ArrowType::FixedSizeBinary(16) => DataType::Uuid,
        free if *free == VARIABLE_SCALE => DataType::Numeric(None),
        ArrowType::Date32 => DataType::Date,
        ArrowType::Timestamp(_, None) => DataType::Timestamp(None),
        ArrowType::Timestamp(_, Some(_)) => DataType::Timestamptz(None),
        ArrowType::Interval(IntervalUnit::MonthDayNano) => DataType::INTERVAL,
        ArrowType::List(element) => DataType::Array(Box::new(inferred(element.data_type())?)),
        _ => return None,
    })
}

/// A parameter's value in its type.
///
/// # Errors
/// A number that has no place in the type that its columns are read as.
pub(crate) fn scalar(value: &Value, data_type: &DataType) -> Result<ScalarValue> {
    scalar_as(value, data_type, &stored_as(data_type))
}

/// A value of a type, as one of Arrow's.
pub(crate) fn scalar_as(
    value: &Value,
    data_type: &DataType,
    arrow: &ArrowType,
) -> Result<ScalarValue> {
    let unfit = || Error::unsupported(format_args!("a parameter of type {data_type}"));
    Ok(match (value, arrow) {
        (Value::Null, _) => ScalarValue::try_from(arrow).map_err(|_| unfit())?,
        (Value::Bool(bool), _) => ScalarValue::Boolean(Some(*bool)),
        (Value::Int(int), ArrowType::Int16) => ScalarValue::Int16(i16::try_from(*int).ok()),
        (Value::Int(int), ArrowType::Int32) => ScalarValue::Int32(i32::try_from(*int).ok()),
        (Value::Int(int), _) => ScalarValue::Int64(Some(*int)),
        (Value::Float(float), _) => ScalarValue::Float64(Some(*float)),
        (Value::Numeric(number), ArrowType::Decimal128(precision, scale)) => {
            let units = units(number, scale.unsigned_abs())?;
            ScalarValue::Decimal128(Some(units), *precision, *scale)
        }
        (Value::Numeric(number), free) if *free == VARIABLE_SCALE => {
            ScalarValue::FixedSizeBinary(BYTES as i32, Some(encode(number)?.into()))
        }
        (Value::Text(text), _) => ScalarValue::Utf8View(Some(text.to_string())),
        (Value::Jsonb(json), _) => ScalarValue::Utf8View(Some(json.as_str().to_owned())),
        (Value::Bytes(bytes), _) => ScalarValue::BinaryView(Some(bytes.to_vec())),
        (Value::Uuid(uuid), _) => ScalarValue::FixedSizeBinary(16, Some(uuid.to_vec())),
        (Value::Date(days), _) => ScalarValue::Date32(days.checked_add(EPOCH_DAYS)),
        (Value::Timestamp(us) | Value::Timestamptz(us), ArrowType::Timestamp(_, zone)) => {
            ScalarValue::TimestampMicrosecond(us.checked_add(EPOCH_US), zone.clone())
        }
        _ => return Err(unfit()),
    })
}

/// The type of `now()`.
pub(crate) fn now(now_us: i64) -> ScalarValue {
    ScalarValue::TimestampMicrosecond(now_us.checked_add(EPOCH_US), Some(Arc::from("UTC")))
}

/// Whether Arrow counts in units of SQL's: a microsecond.
pub(crate) fn us_of(unit: TimeUnit, count: i64) -> Option<i64> {
    match unit {
        TimeUnit::Second => count.checked_mul(1_000_000),
        TimeUnit::Millisecond => count.checked_mul(1_000),
        TimeUnit::Microsecond => Some(count),
        TimeUnit::Nanosecond => Some(count.div_euclid(1_000)),
    }
}
