//! Text forms against what PostgreSQL 15 accepted, printed and refused.

use chrono::{NaiveDate, NaiveDateTime};
use proptest::prelude::*;
use types::datetime::{DATE_MAX, DATE_MIN};
use types::{DataType, SqlState, Value};

use crate::strategies::*;

fn array(element: DataType) -> DataType {
    DataType::Array(Box::new(element))
}

/// Reads and writes again.
fn through(data_type: &DataType, text: &str) -> String {
    Value::read_text(data_type, text)
        .unwrap_or_else(|e| panic!("{data_type} {text:?}: {e}"))
        .to_text(data_type)
}

#[track_caller]
fn assert_printed(data_type: DataType, cases: &[(&str, &str)]) {
    for (input, output) in cases {
        assert_eq!(through(&data_type, input), *output, "{data_type} {input:?}");
    }
}

#[track_caller]
fn assert_refused(data_type: DataType, code: SqlState, inputs: &[&str]) {
    for input in inputs {
        match Value::read_text(&data_type, input) {
            Ok(value) => panic!("{data_type} {input:?} gave {value:?}"),
            Err(e) => assert_eq!(e.code(), code, "{data_type} {input:?}: {e}"),
        }
    }
}

proptest! {
    #[test]
    fn integers_print_as_rusts(i in ints()) {
        prop_assert_eq!(Value::Int(i).to_text(&DataType::Int8), i.to_string());
    }

    #[test]
    fn numerics_print_what_was_read(text in "-?(0|[1-9][0-9]{0,70})(\\.[0-9]{1,70})?") {
        let read = Value::read_text(&DataType::Numeric(None), &text).unwrap();
        let is_zero = text.bytes().all(|b| matches!(b, b'0' | b'.' | b'-'));
        let shown = if is_zero { text.trim_start_matches('-') } else { &text };
        prop_assert_eq!(read.to_text(&DataType::Numeric(None)), shown);
    }

    #[test]
    fn dates_print_as_the_calendars(days in 0..DATE_MAX) {
        let epoch = NaiveDate::from_ymd_opt(2000, 1, 1).unwrap();
        let date = epoch + chrono::Days::new(days as u64);
        // The calendar puts a plus sign before years of five digits.
        let expected = date.to_string();
        prop_assert_eq!(
            Value::Date(days).to_text(&DataType::Date),
            expected.trim_start_matches('+')
        );
    }

    #[test]
    fn timestamps_read_as_the_calendars(
        s in 0..4_000_000_000i64, us in 0..1_000_000u32,
    ) {
        let at = chrono::DateTime::from_timestamp(s, us * 1000).unwrap().naive_utc();
        let text = at.format("%Y-%m-%d %H:%M:%S%.6f").to_string();
        let epoch: NaiveDateTime = NaiveDate::from_ymd_opt(2000, 1, 1).unwrap().into();
        let expected = at.signed_duration_since(epoch).num_microseconds().unwrap();
        prop_assert_eq!(
            Value::read_text(&DataType::Timestamp(None), &text).unwrap(),
            Value::Timestamp(expected)
        );
    }
}

#[test]
fn small_integers_print() {
    for i in -12_000..12_000i64 {
        assert_eq!(Value::Int(i).to_text(&DataType::Int8), i.to_string());
    }
}

#[test]
fn the_calendars_ends() {
    assert_eq!(Value::Date(DATE_MIN).to_text(&DataType::Date), "4714-11-24 BC");
    assert_eq!(Value::Date(DATE_MAX).to_text(&DataType::Date), "262142-12-31");
    assert_refused(
        DataType::Date,
        SqlState::DATETIME_FIELD_OVERFLOW,
        &["4714-11-23 BC", "262143-01-01", "0000-01-01"],
    );
}

#[test]
fn integers() {
    assert_printed(DataType::Int4, &[(" 42 ", "42"), ("-0", "0"), ("+7", "7")]);
    assert_refused(
        DataType::Int4,
        SqlState::INVALID_TEXT_REPRESENTATION,
        &["", " ", "x", "1.0", "1 2", "+-1", "--1", "1e3"],
    );
    assert_refused(
        DataType::Int2,
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        &["32768", "-32769", "99999999999999999999"],
    );
    let refused = Value::read_text(&DataType::Int4, "99999999999").unwrap_err();
    assert_eq!(refused.message(), "value \"99999999999\" is out of range for type integer");
}

#[test]
fn booleans() {
    assert_printed(
        DataType::Bool,
        &[
            ("t", "t"),
            ("TRUE", "t"),
            (" yes ", "t"),
            ("on", "t"),
            ("1", "t"),
            ("tr", "t"),
            ("f", "f"),
            ("of", "f"),
            ("n", "f"),
            ("0", "f"),
        ],
    );
    assert_refused(
        DataType::Bool,
        SqlState::INVALID_TEXT_REPRESENTATION,
        &["", "o", "2", "truely", "ja"],
    );
}

#[test]
fn floats() {
    assert_printed(
        DataType::Float8,
        &[
            ("0", "0"),
            ("-0", "-0"),
            ("1", "1"),
            ("0.1", "0.1"),
            ("1e14", "100000000000000"),
            ("1e15", "1e+15"),
            ("1e20", "1e+20"),
            ("123456789012345678", "1.2345678901234568e+17"),
            ("123456789012345", "123456789012345"),
            ("12345.678", "12345.678"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("1.5e-7", "1.5e-07"),
            ("1e-300", "1e-300"),
            ("-2.5e300", "-2.5e+300"),
            ("nan", "NaN"),
            ("inf", "Infinity"),
            ("-Infinity", "-Infinity"),
            ("5e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ],
    );
    assert_refused(
        DataType::Float8,
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        &["1e400", "-1e400", "1e-400"],
    );
    assert_refused(
        DataType::Float8,
        SqlState::INVALID_TEXT_REPRESENTATION,
        &["", "x", "1.2.3", "1e"],
    );
}

#[test]
fn numerics() {
    assert_printed(
        DataType::Numeric(None),
        &[
            ("1.50", "1.50"),
            (" -0.0 ", "0.0"),
            (".5", "0.5"),
            ("5.", "5"),
            ("1e3", "1000"),
            ("1.5e1", "15"),
            ("1.50e1", "15.0"),
            ("1e-3", "0.001"),
            ("0e-3", "0.000"),
            ("000123", "123"),
            ("79228162514264337593543950335", "79228162514264337593543950335"),
        ],
    );
    assert_refused(
        DataType::Numeric(None),
        SqlState::INVALID_TEXT_REPRESENTATION,
        &["", ".", "x", "1e", "1e+", "1,5", "- 1", "1e1e1"],
    );
    assert_printed(
        DataType::Numeric(None),
        &[
            ("NaN", "NaN"),
            (" nan ", "NaN"),
            ("inf", "Infinity"),
            ("+INF", "Infinity"),
            ("Infinity", "Infinity"),
            ("  -infinity  ", "-Infinity"),
        ],
    );
    assert_refused(
        DataType::Numeric(None),
        SqlState::INVALID_TEXT_REPRESENTATION,
        &["+NaN", "-NaN", "NaN1", "infinit", "Infinity2", "- inf", "--inf"],
    );
    assert_printed(DataType::Numeric(Some((5, 2))), &[("NaN", "NaN")]);
    assert_refused(
        DataType::Numeric(Some((5, 2))),
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        &["Infinity", "-Infinity"],
    );
    assert_refused(
        DataType::Numeric(None),
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        &["1e131072", "1e999999999999999999999", "1e-16384", ".11e-99999999999999999999"],
    );
    assert_printed(
        DataType::Numeric(None),
        &[
            ("0.33333333333333333333333333335", "0.33333333333333333333333333335"),
            ("1e-29", "0.00000000000000000000000000001"),
            ("79228162514264337593543950336", "79228162514264337593543950336"),
            ("0e99999999999999999999", "0"),
        ],
    );
    assert_printed(
        DataType::Numeric(Some((5, 2))),
        &[("1.005", "1.01"), ("-999.994", "-999.99"), ("7", "7.00")],
    );
}

#[test]
fn byte_strings_and_uuids() {
    assert_printed(
        DataType::Bytea,
        &[
            ("", "\\x"),
            ("\\x", "\\x"),
            ("\\xDEad BEef ", "\\xdeadbeef"),
            ("a\\\\b", "\\x615c62"),
            ("\\001\\377", "\\x01ff"),
        ],
    );
    assert_refused(
        DataType::Bytea,
        SqlState::INVALID_TEXT_REPRESENTATION,
        &["\\", "\\4", "\\400", "\\18"],
    );
    assert_refused(
        DataType::Bytea,
        SqlState::INVALID_PARAMETER_VALUE,
        &["\\x1", "\\xzz", "\\x1 2"],
    );
    let canonical = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    assert_printed(
        DataType::Uuid,
        &[
            (canonical, canonical),
            ("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", canonical),
            ("{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}", canonical),
            ("a0eebc999c0b4ef8bb6d6bb9bd380a11", canonical),
            ("a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11", canonical),
        ],
    );
    assert_refused(
        DataType::Uuid,
        SqlState::INVALID_TEXT_REPRESENTATION,
        &[
            "",
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0eebc999c0b4ef8bb6d6bb9bd380a1",
            "a0-eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11-",
        ],
    );
}

#[test]
fn dates_and_times() {
    assert_printed(
        DataType::Date,
        &[
            ("2024-02-29", "2024-02-29"),
            ("20240229", "2024-02-29"),
            ("2024/2/9", "2024-02-09"),
            ("2024-02-29 12:30:00", "2024-02-29"),
            ("0044-03-15 BC", "0044-03-15 BC"),
            ("epoch", "1970-01-01"),
            ("12024-01-01", "12024-01-01"),
        ],
    );
    assert_printed(
        DataType::Timestamp(None),
        &[
            ("2024-02-29", "2024-02-29 00:00:00"),
            ("2024-02-29T01:02:03.120", "2024-02-29 01:02:03.12"),
            ("2024-02-29 01:02", "2024-02-29 01:02:00"),
            ("2024-02-29 01:02:03+05", "2024-02-29 01:02:03"),
            ("2024-02-29 24:00:00", "2024-03-01 00:00:00"),
            ("2024-02-29 23:59:60", "2024-03-01 00:00:00"),
            ("2024-02-29 23:59:59.9999999", "2024-03-01 00:00:00"),
            ("1969-12-31 23:59:59.5", "1969-12-31 23:59:59.5"),
            ("0044-03-15 01:02:03.5 BC", "0044-03-15 01:02:03.5 BC"),
        ],
    );
    assert_printed(
        DataType::Timestamptz(None),
        &[
            ("2024-02-29 01:02:03", "2024-02-29 01:02:03+00"),
            ("2024-02-29 01:02:03+05:30", "2024-02-28 19:32:03+00"),
            ("2024-02-29 01:02:03-0130", "2024-02-29 02:32:03+00"),
            ("2024-02-29T01:02:03.5Z", "2024-02-29 01:02:03.5+00"),
            ("2024-02-29 01:02:03 UTC", "2024-02-29 01:02:03+00"),
            ("0044-03-15 01:02:03+00 BC", "0044-03-15 01:02:03+00 BC"),
        ],
    );
    assert_refused(
        DataType::Date,
        SqlState::INVALID_DATETIME_FORMAT,
        &["", "x", "2024-02-29x", "2024-02", "2024-02-29 BCE"],
    );
    assert_refused(
        DataType::Timestamp(None),
        SqlState::DATETIME_FIELD_OVERFLOW,
        &[
            "2023-02-29",
            "2024-13-01",
            "2024-01-01 25:00",
            "2024-01-01 24:00:01",
            "2024-01-01 12:60",
        ],
    );
    assert_refused(
        DataType::Timestamptz(None),
        SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE,
        &["2024-01-01 12:00+16", "2024-01-01 12:00-01:60"],
    );
    assert_refused(
        DataType::Timestamptz(None),
        SqlState::FEATURE_NOT_SUPPORTED,
        &["infinity", "-infinity", "now"],
    );
    let refused = Value::read_text(&DataType::Timestamp(None), "gestern").unwrap_err();
    assert_eq!(
        refused.message(),
        "invalid input syntax for type timestamp without time zone: \"gestern\""
    );
}

#[test]
fn arrays() {
    assert_printed(
        array(DataType::Text),
        &[
            ("{}", "{}"),
            (
                " { a , b c , \"d,e\" , NULL , \"NULL\" , \"\" } ",
                "{a,\"b c\",\"d,e\",NULL,\"NULL\",\"\"}",
            ),
            ("{\"a\\\"b\",c\\\\d}", "{\"a\\\"b\",\"c\\\\d\"}"),
        ],
    );
    assert_printed(array(DataType::Bytea), &[("{\"\\\\x01\"}", "{\"\\\\x01\"}")]);
    assert_printed(
        array(DataType::Timestamp(None)),
        &[("{2024-01-01}", "{\"2024-01-01 00:00:00\"}")],
    );
    assert_refused(
        array(DataType::Int4),
        SqlState::INVALID_TEXT_REPRESENTATION,
        &["", "1", "{1", "{1,}", "{,1}", "{1}x", "{1 2}", "{\"1}", "{x}"],
    );
    assert_refused(array(DataType::Int4), SqlState::FEATURE_NOT_SUPPORTED, &["{{1},{2}}"]);
}

#[test]
fn text_holds_no_nul() {
    assert_refused(DataType::Text, SqlState::CHARACTER_NOT_IN_REPERTOIRE, &["a\0b"]);
    assert!(Value::read_binary(&DataType::Text, b"a\0b").is_err());
}
