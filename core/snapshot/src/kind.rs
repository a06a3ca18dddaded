//! How column types are Arrow's.
//!
//! ```text
//! boolean               Boolean
//! int2, int4, int8      Int16, Int32, Int64
//! float8                Float64
//! numeric(p, s)         Decimal128(p, s); above 38 digits Decimal128(38, s): a longer value is
//!                       refused, or Utf8View
//! numeric               Decimal128(38, 10): a value with more digits after the point is refused;
//!                       or Utf8View, where all digits are asked for
//! text, varchar, char   Utf8View
//! json, jsonb           Utf8View
//! enum                  Int64, the position
//! array                 BinaryView, as the ledger encodes values (`types::codec`)
//! bytea, uuid           BinaryView, FixedSizeBinary(16)
//! date                  Date32                                     days since 1970-01-01
//! timestamp(tz)         Timestamp(Microsecond, none or "UTC")      since 1970-01-01
//! time                  Time64(Microsecond)
//! interval, timetz      FixedSizeBinary(16): their words, which no operator of Arrow's knows
//! ```

use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, Field, TimeUnit};
use types::numeric::Numeric;
use types::{ColumnSchema, DataType, Error, Result, SqlState};

/// Digits that Arrow's numbers have at most.
const DIGITS_MAX: u16 = 38;

/// Digits after the point of a number that was declared without any.
const FREE_SCALE: u8 = 10;

/// From 1970-01-01 to 2000-01-01.
pub(crate) const EPOCH_DAYS: i32 = 10_957;
pub(crate) const EPOCH_US: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Bool,
    Int16,
    Int32,
    Int64,
    Float,
    Decimal {
        precision: u8,
        scale: u8,
    },
    Text,
    /// Numbers with all their digits.
    NumericText,
    Bytes,
    Uuid,
    Date,
    Timestamp {
        utc: bool,
    },
    Time,
    /// An interval or a time with an offset, in two words as storage has them.
    Words,
}

impl Kind {
    pub(crate) fn of(data_type: &DataType) -> Kind {
        match data_type {
            DataType::Bool => Kind::Bool,
            DataType::Int2 => Kind::Int16,
            DataType::Int4 => Kind::Int32,
            DataType::Int8 | DataType::Enum(_) => Kind::Int64,
            DataType::Float4 | DataType::Float8 => Kind::Float,
            DataType::Numeric(Some((precision, scale))) if *precision.max(scale) <= DIGITS_MAX => {
                Kind::Decimal { precision: *precision.max(scale) as u8, scale: *scale as u8 }
            }
            DataType::Numeric(modifier) => {
                let scale = modifier.map(|(_, scale)| scale).filter(|scale| *scale <= DIGITS_MAX);
                let scale = scale.map_or(FREE_SCALE, |scale| scale as u8);
                Kind::Decimal { precision: DIGITS_MAX as u8, scale }
            }
            DataType::Bytea | DataType::Array(_) | DataType::Inet | DataType::Cidr => Kind::Bytes,
            DataType::Uuid => Kind::Uuid,
            DataType::Date => Kind::Date,
            DataType::Timestamp(_) => Kind::Timestamp { utc: false },
            DataType::Timestamptz(_) => Kind::Timestamp { utc: true },
            DataType::Time(_) => Kind::Time,
            DataType::Interval(_) | DataType::Timetz(_) => Kind::Words,
            // No stored column has one of the last four types.
            DataType::Text
            | DataType::Varchar(_)
            | DataType::Char(_)
            | DataType::Json
            | DataType::Jsonb
            | DataType::Record(_)
            | DataType::Unknown
            | DataType::Void
            | DataType::System(_) => Kind::Text,
        }
    }

    pub(crate) fn arrow(self) -> ArrowType {
        match self {
            Kind::Bool => ArrowType::Boolean,
            Kind::Int16 => ArrowType::Int16,
            Kind::Int32 => ArrowType::Int32,
            Kind::Int64 => ArrowType::Int64,
            Kind::Float => ArrowType::Float64,
            Kind::Decimal { precision, scale } => ArrowType::Decimal128(precision, scale as i8),
            Kind::Text | Kind::NumericText => ArrowType::Utf8View,
            Kind::Bytes => ArrowType::BinaryView,
            Kind::Uuid | Kind::Words => ArrowType::FixedSizeBinary(16),
            Kind::Time => ArrowType::Time64(TimeUnit::Microsecond),
            Kind::Date => ArrowType::Date32,
            Kind::Timestamp { utc } => {
                ArrowType::Timestamp(TimeUnit::Microsecond, utc.then(|| Arc::from("UTC")))
            }
        }
    }
}

/// Whether there are values of the type that Arrow's numbers are too short for.
pub(crate) fn may_be_too_long(data_type: &DataType) -> bool {
    match data_type {
        DataType::Numeric(Some((precision, scale))) => *precision.max(scale) > DIGITS_MAX,
        DataType::Numeric(None) => true,
        _ => false,
    }
}

/// The Arrow type of a column's values.
pub fn arrow_type(data_type: &DataType) -> ArrowType {
    Kind::of(data_type).arrow()
}

/// The field that a column is in a scan's batches.
pub fn arrow_field(column: &ColumnSchema) -> Field {
    field_of_kind(column, Kind::of(&column.data_type))
}

pub(crate) fn field_of_kind(column: &ColumnSchema, kind: Kind) -> Field {
    Field::new(&*column.name, kind.arrow(), column.nullable)
}

/// A number as so many units of `10^-scale`.
///
/// # Errors
/// 22003 if that would lose digits, which only a number of a column of more than 38 can, and for
/// `NaN` and the infinities.
pub fn units(value: &Numeric, scale: u8) -> Result<i128> {
    if !value.is_finite() {
        let message = format!("{value} has no digits for an analytical query to compute with");
        return Err(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    let lost = || {
        let message = format!("{value} does not fit numeric(38, {scale})");
        Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
            .with_detail("Analytical queries read a column of type numeric as numeric(38, 10).")
            .with_hint("Declare the column's precision and scale: numeric(p, s).")
    };
    let units = value.units_at(u32::from(scale)).ok_or_else(lost)?;
    // 38 digits are fewer than 128 bits.
    if units.unsigned_abs() < 10u128.pow(38) { Ok(units) } else { Err(lost()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_value_or_are_refused() {
        let number = |text: &str| text.parse::<Numeric>().expect("a number");
        assert_eq!(units(&number("12.50"), 2), Ok(1_250));
        assert_eq!(units(&number("-12.5"), 10), Ok(-125_000_000_000));
        assert_eq!(units(&number("1.500000000000"), 10), Ok(15_000_000_000));
        let refused = units(&number("0.00000000001"), 10).expect_err("eleven digits");
        assert_eq!(refused.code(), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        let large = number("9999999999999999999999999999");
        assert_eq!(units(&large, 10), Ok((10i128.pow(28) - 1) * 10i128.pow(10)));
        for text in ["10000000000000000000000000000", "1e29", "1e1000", "1e-1000", "NaN", "-inf"] {
            assert!(units(&number(text), 10).is_err(), "{text}");
        }
    }
}
