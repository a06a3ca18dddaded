//! Conversions: what they give, what they refuse, and which exist.

use proptest::prelude::*;
use types::cast::{CastContext, assign, assign_to, cast, cast_context, common_type};
use types::{DataType, SqlState, Value};

use crate::strategies::*;

fn numeric(text: &str) -> Value {
    Value::read_text(&DataType::Numeric(None), text).unwrap()
}

/// The text of an explicit cast's result.
fn explicit(value: &Value, target: DataType) -> String {
    cast(value, &target, true).unwrap().to_text(&target)
}

fn refusal(value: &Value, target: &DataType, is_explicit: bool) -> types::Error {
    cast(value, target, is_explicit).unwrap_err()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Storing a value of the column's own type changes nothing.
    #[test]
    fn assignment_is_the_identity_on_own_type((data_type, value) in typed_value()) {
        let stored = assign(value.clone(), &column(data_type, false)).unwrap();
        prop_assert_eq!(stored, value);
    }

    #[test]
    fn through_text_and_back((data_type, value) in typed_value()) {
        // Of an enum a cast shows the label, which the value does not know.
        prop_assume!(data_type.enum_type().is_none());
        let text = cast(&value, &DataType::Text, true).unwrap();
        prop_assert_eq!(cast(&text, &data_type, true).unwrap(), value);
    }

    /// Any value into any type: a value of that type or an error, never a panic.
    #[test]
    fn any_cast_is_total((_, value) in typed_value(), target in any_type(), is_explicit in any::<bool>()) {
        if let Ok(converted) = cast(&value, &target, is_explicit) {
            let mut bytes = Vec::new();
            converted.write_binary(&target, &mut bytes).unwrap();
            prop_assert_eq!(assign_to(converted.clone(), &target).unwrap(), converted);
        }
    }

    /// `common_type` does not depend on the order of its operands, and both convert to it.
    #[test]
    fn common_types_are_symmetric(a in any_type(), b in any_type()) {
        let common = common_type(&a, &b);
        prop_assert_eq!(&common, &common_type(&b, &a));
        if let Some(common) = common {
            prop_assert_eq!(cast_context(&a, &common), Some(CastContext::Implicit));
            prop_assert_eq!(cast_context(&b, &common), Some(CastContext::Implicit));
        }
    }
}

#[test]
fn numbers_round() {
    assert_eq!(explicit(&numeric("2.5"), DataType::Int4), "3");
    assert_eq!(explicit(&numeric("-2.5"), DataType::Int4), "-3");
    assert_eq!(explicit(&Value::Float(2.5), DataType::Int4), "2");
    assert_eq!(explicit(&Value::Float(3.5), DataType::Int4), "4");
    assert_eq!(explicit(&Value::Float(0.1), DataType::Numeric(None)), "0.1");
    assert_eq!(explicit(&Value::Float(1.0 / 3.0), DataType::Numeric(None)), "0.333333333333333");
    assert_eq!(explicit(&Value::Float(1e20), DataType::Numeric(None)), "100000000000000000000");
    assert_eq!(explicit(&numeric("1.005"), DataType::Numeric(Some((5, 2)))), "1.01");
    assert_eq!(explicit(&Value::Int(7), DataType::Numeric(Some((5, 2)))), "7.00");
}

#[test]
fn numbers_out_of_range() {
    let message = |value: &Value, target: &DataType| {
        let refused = refusal(value, target, true);
        assert_eq!(refused.code(), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        refused.message().to_owned()
    };
    assert_eq!(message(&Value::Int(32_768), &DataType::Int2), "smallint out of range");
    assert_eq!(message(&numeric("2147483647.5"), &DataType::Int4), "integer out of range");
    for x in [9.3e18, -9.3e18, 9_223_372_036_854_775_807.0, f64::NAN, f64::INFINITY] {
        assert_eq!(message(&Value::Float(x), &DataType::Int8), "bigint out of range");
    }
    assert_eq!(
        explicit(&Value::Float(-9_223_372_036_854_775_808.0), DataType::Int8),
        "-9223372036854775808"
    );
    let refused = refusal(&numeric("999.995"), &DataType::Numeric(Some((5, 2))), true);
    assert_eq!(refused.message(), "numeric field overflow");
    assert_eq!(
        refused.fields().detail.as_deref(),
        Some("A field with precision 5, scale 2 must round to an absolute value less than 10^3.")
    );
    assert_eq!(explicit(&numeric("999.994"), DataType::Numeric(Some((5, 2)))), "999.99");
    let refused = refusal(&Value::Int(1), &DataType::Numeric(Some((2, 2))), true);
    assert!(refused.fields().detail.as_ref().unwrap().ends_with("less than 1."));
}

#[test]
fn strings_are_cut_or_refused() {
    let varchar = DataType::Varchar(Some(3));
    let text = |s: &str| Value::text(s);
    assert_eq!(explicit(&text("abcd"), varchar.clone()), "abc");
    assert_eq!(explicit(&text("äöüß"), varchar.clone()), "äöü");
    let refused = refusal(&text("abcd"), &varchar, false);
    assert_eq!(refused.code(), SqlState::STRING_DATA_RIGHT_TRUNCATION);
    assert_eq!(refused.message(), "value too long for type character varying(3)");
    let stored = |s: &str, t: &DataType| assign_to(text(s), t).unwrap();
    assert_eq!(stored("abc  ", &varchar), text("abc"));
    assert_eq!(stored("ab ", &varchar), text("ab "));

    let char3 = DataType::Char(3);
    assert_eq!(stored("a  ", &char3), text("a"));
    assert_eq!(stored("a", &char3).to_text(&char3), "a  ");
    assert_eq!(stored("ab    ", &char3), text("ab"));
    assert_eq!(
        assign_to(text("abcd"), &char3).unwrap_err().message(),
        "value too long for type character(3)"
    );
    assert_eq!(explicit(&text("abcd"), char3), "abc");
}

#[test]
fn texts_are_read_and_written() {
    assert_eq!(explicit(&Value::Bool(true), DataType::Text), "true");
    assert_eq!(explicit(&Value::text(" 12 "), DataType::Int4), "12");
    assert_eq!(
        refusal(&Value::text("x"), &DataType::Int4, true).message(),
        "invalid input syntax for type integer: \"x\""
    );
    assert_eq!(explicit(&Value::Int(0), DataType::Bool), "f");
    assert_eq!(explicit(&Value::Bool(true), DataType::Int4), "1");
    let array = DataType::Array(Box::new(DataType::Int8));
    assert_eq!(explicit(&Value::text("{1,2}"), array), "{1,2}");
    assert_eq!(
        refusal(&Value::Uuid([0; 16]), &DataType::Int8, true).code(),
        SqlState::CANNOT_COERCE
    );
}

#[test]
fn times_convert() {
    let at = |us| Value::Timestamp(us);
    assert_eq!(cast(&at(-1), &DataType::Date, false).unwrap(), Value::Date(-1));
    assert_eq!(
        cast(&Value::Date(1), &DataType::Timestamptz(None), false).unwrap(),
        Value::Timestamptz(86_400_000_000)
    );
}

#[test]
fn contexts_are_postgresqls() {
    use CastContext::{Assignment, Explicit, Implicit};
    use DataType as T;
    let varchar = T::Varchar(Some(3));
    for (from, to, expected) in [
        (T::Int4, T::Int8, Some(Implicit)),
        (T::Int8, T::Int4, Some(Assignment)),
        (T::Float8, T::Numeric(None), Some(Assignment)),
        (T::Int4, T::Bool, Some(Explicit)),
        (T::Int8, T::Bool, None),
        (T::Int4, T::Text, Some(Assignment)),
        (T::Text, T::Int4, Some(Explicit)),
        (T::Text, varchar, Some(Implicit)),
        (T::Unknown, T::Uuid, Some(Implicit)),
        (T::Timestamptz(None), T::Date, Some(Assignment)),
        (T::Date, T::Timestamp(None), Some(Implicit)),
        (T::Uuid, T::Bytea, None),
        (T::Bool, T::Date, None),
    ] {
        assert_eq!(cast_context(&from, &to), expected, "{from} -> {to}");
    }
}

#[test]
fn common_types_are_postgresqls() {
    use DataType as T;
    for (a, b, expected) in [
        (T::Int2, T::Int8, Some(T::Int8)),
        (T::Int8, T::Numeric(Some((5, 2))), Some(T::Numeric(None))),
        (T::Numeric(None), T::Float8, Some(T::Float8)),
        (T::Unknown, T::Date, Some(T::Date)),
        (T::Unknown, T::Varchar(Some(3)), Some(T::Varchar(None))),
        (T::Numeric(Some((5, 2))), T::Unknown, Some(T::Numeric(None))),
        (T::Varchar(Some(3)), T::Varchar(Some(3)), Some(T::Varchar(Some(3)))),
        (T::Varchar(Some(3)), T::Varchar(Some(5)), Some(T::Varchar(None))),
        (T::Varchar(Some(3)), T::Text, Some(T::Text)),
        (T::Date, T::Timestamptz(None), Some(T::Timestamptz(None))),
        (T::Timestamp(None), T::Timestamptz(None), Some(T::Timestamptz(None))),
        (T::Int4, T::Text, None),
        (T::Bool, T::Int4, None),
        (T::Uuid, T::Bytea, None),
    ] {
        assert_eq!(common_type(&a, &b), expected, "{a} {b}");
    }
}
