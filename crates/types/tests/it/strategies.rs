//! Values of every type, with the awkward ones made likely.

use proptest::prelude::*;
use rust_decimal::Decimal;
use types::datetime::{DATE_MAX, DATE_MIN, DAY_US};
use types::{ColumnSchema, DataType, Value};

pub fn ints() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), -1000..1000i64, Just(i64::MIN), Just(i64::MAX),]
}

pub fn floats() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        (-1000..1000i32).prop_map(|i| f64::from(i) / 8.0),
        Just(0.0),
        Just(-0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::MIN_POSITIVE / 4.0),
    ]
}

/// Any mantissa of 96 bits and any scale; small, round and nearby numbers are frequent.
pub fn decimals() -> impl Strategy<Value = Decimal> {
    const MANTISSA_MAX: i128 = (1 << 96) - 1;
    let any_size = (any::<u128>(), 0..96u32, any::<bool>(), 0..=28u32).prop_map(
        |(bits, shift, negative, scale)| {
            let mantissa = ((bits >> 32) >> shift) as i128;
            Decimal::from_i128_with_scale(if negative { -mantissa } else { mantissa }, scale)
        },
    );
    let round = (-20..20i64, 0..12u32, 0..6u32).prop_map(|(mantissa, zeros, scale)| {
        Decimal::from_i128_with_scale(i128::from(mantissa) * 10i128.pow(zeros), scale)
    });
    prop_oneof![
        4 => any_size,
        3 => round,
        1 => (0..=28u32).prop_map(|scale| Decimal::from_i128_with_scale(MANTISSA_MAX, scale)),
        1 => (0..=28u32).prop_map(|scale| Decimal::from_i128_with_scale(-MANTISSA_MAX, scale)),
    ]
}

/// Short strings over few characters, so that prefixes and equal strings are frequent.
pub fn strings() -> impl Strategy<Value = String> {
    prop_oneof!["[ab\u{1} {}\"\\\\,é]{0,4}", "\\PC{0,40}", Just("NULL".to_owned())]
}

pub fn byte_strings() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(0xFE), Just(0xFF), any::<u8>()];
    prop::collection::vec(byte, 0..6)
}

pub fn dates() -> impl Strategy<Value = i32> {
    prop_oneof![DATE_MIN..=DATE_MAX, -40_000..40_000i32, Just(DATE_MIN), Just(DATE_MAX)]
}

pub fn timestamps() -> impl Strategy<Value = i64> {
    (dates(), 0..DAY_US).prop_map(|(days, us)| i64::from(days) * DAY_US + us)
}

/// Every type that a column can have.
pub fn column_types() -> Vec<DataType> {
    vec![
        DataType::Bool,
        DataType::Int2,
        DataType::Int4,
        DataType::Int8,
        DataType::Numeric(None),
        DataType::Numeric(Some((20, 4))),
        DataType::Float8,
        DataType::Text,
        DataType::Varchar(Some(50)),
        DataType::Char(45),
        DataType::Bytea,
        DataType::Uuid,
        DataType::Date,
        DataType::Timestamp,
        DataType::Timestamptz,
    ]
}

/// A value of the given type, as a column of it would hold it.
pub fn value_of(data_type: &DataType) -> BoxedStrategy<Value> {
    match data_type.clone() {
        DataType::Bool => any::<bool>().prop_map(Value::from).boxed(),
        DataType::Int2 => any::<i16>().prop_map(Value::from).boxed(),
        DataType::Int4 => any::<i32>().prop_map(Value::from).boxed(),
        DataType::Int8 => ints().prop_map(Value::from).boxed(),
        DataType::Numeric(None) => decimals().prop_map(Value::from).boxed(),
        DataType::Numeric(Some((precision, scale))) => {
            let bound = 10i128.pow(u32::from(precision)) - 1;
            (-bound..=bound)
                .prop_map(move |mantissa| {
                    Value::from(Decimal::from_i128_with_scale(mantissa, u32::from(scale)))
                })
                .boxed()
        }
        DataType::Float8 => floats().prop_map(Value::from).boxed(),
        DataType::Text | DataType::Varchar(_) => strings().prop_map(Value::from).boxed(),
        DataType::Char(_) => strings().prop_map(|s| Value::from(s.trim_end_matches(' '))).boxed(),
        DataType::Bytea => byte_strings().prop_map(Value::from).boxed(),
        DataType::Uuid => any::<[u8; 16]>().prop_map(Value::from).boxed(),
        DataType::Date => dates().prop_map(Value::Date).boxed(),
        DataType::Timestamp => timestamps().prop_map(Value::Timestamp).boxed(),
        DataType::Timestamptz => timestamps().prop_map(Value::Timestamptz).boxed(),
        DataType::Array(element) => {
            prop::collection::vec(nullable(&element), 0..5).prop_map(Value::from).boxed()
        }
        DataType::Unknown | DataType::Void | DataType::System(_) => Just(Value::Null).boxed(),
    }
}

pub fn nullable(data_type: &DataType) -> BoxedStrategy<Value> {
    prop_oneof![1 => Just(Value::Null), 5 => value_of(data_type)].boxed()
}

pub fn any_column_type() -> impl Strategy<Value = DataType> {
    prop::sample::select(column_types())
}

/// A type that a parameter can have: a column's, or an array of one.
pub fn any_type() -> impl Strategy<Value = DataType> {
    prop_oneof![
        4 => any_column_type(),
        1 => any_column_type().prop_map(|element| DataType::Array(Box::new(element))),
    ]
}

pub fn typed_value() -> impl Strategy<Value = (DataType, Value)> {
    any_type().prop_flat_map(|data_type| {
        let value = value_of(&data_type);
        (Just(data_type), value)
    })
}

pub fn column(data_type: DataType, nullable: bool) -> ColumnSchema {
    ColumnSchema::new("c", data_type).nullable(nullable)
}
