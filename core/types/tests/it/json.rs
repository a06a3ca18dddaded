//! JSON beside what PostgreSQL 15 said.

use proptest::prelude::*;
use types::json::DEPTH_MAX;
use types::json::raw::{Kind, Raw};
use types::{DataType, Jsonb, Key, SqlState, Value, key};

use crate::strategies::jsons;

#[test]
fn the_canonical_form_is_postgresqls() {
    for (given, canonical) in [
        (" [ 1 , 2 ] ", "[1, 2]"),
        ("{\"bb\": 1, \"a\": {}, \"c\": []}", "{\"a\": {}, \"c\": [], \"bb\": 1}"),
        ("{\"a\": 1, \"b\": 0, \"a\": 2}", "{\"a\": 2, \"b\": 0}"),
        ("[1.10, 1e2, -0, 1E-3, 0.00]", "[1.10, 100, 0, 0.001, 0.00]"),
        ("\"\\u0041\\u00e9\\ud83d\\ude00\\/\\n\\u001f\"", "\"Aé😀/\\n\\u001f\""),
        ("\"\u{7f}\\b\\f\\r\\t\\\\\\\"\"", "\"\u{7f}\\b\\f\\r\\t\\\\\\\"\""),
        (
            "{\"é\": 1, \"zz\": 2, \"aaa\": 3, \"\": 4}",
            "{\"\": 4, \"zz\": 2, \"é\": 1, \"aaa\": 3}",
        ),
        ("null", "null"),
        ("\t\n\r true", "true"),
    ] {
        let read = Jsonb::read(given).unwrap();
        assert_eq!(read.as_str(), canonical);
        assert_eq!(Jsonb::read_canonical(canonical).unwrap().as_str(), canonical);
        assert!(given == canonical || Jsonb::read_canonical(given).is_none());
        // A json stays as it is.
        assert_eq!(Value::read_text(&DataType::Json, given), Ok(Value::text(given)));
    }
}

#[test]
fn what_is_no_json_is_refused_in_postgresqls_words() {
    for (given, detail) in [
        ("", "The input string ended unexpectedly."),
        ("  ", "The input string ended unexpectedly."),
        ("{", "The input string ended unexpectedly."),
        ("nul", "Token \"nul\" is invalid."),
        ("'a'", "Token \"'\" is invalid."),
        ("\"abc", "Token \"\"abc\" is invalid."),
        ("[1,]", "Expected JSON value, but found \"]\"."),
        ("[1 2]", "Expected \",\" or \"]\", but found \"2\"."),
        ("[1}", "Expected \",\" or \"]\", but found \"}\"."),
        ("{1:2}", "Expected string or \"}\", but found \"1\"."),
        ("{\"a\":1,}", "Expected string, but found \"}\"."),
        ("{\"a\" 1}", "Expected \":\", but found \"1\"."),
        ("{\"a\":}", "Expected JSON value, but found \"}\"."),
        ("{\"a\":1 \"b\"}", "Expected \",\" or \"}\", but found \"\"b\"\"."),
        ("1 2", "Expected end of input, but found \"2\"."),
        ("[]]", "Expected end of input, but found \"]\"."),
        ("01", "Token \"01\" is invalid."),
        ("-", "Token \"-\" is invalid."),
        ("1.", "Token \"1.\" is invalid."),
        ("1e+", "Token \"1e+\" is invalid."),
        ("+1", "Token \"+\" is invalid."),
        ("12ab-", "Token \"12ab\" is invalid."),
        ("NaN", "Token \"NaN\" is invalid."),
        ("é!", "Token \"é\" is invalid."),
        ("\"\n\"", "Character with value 0x0a must be escaped."),
        ("\"\\x\"", "Escape sequence \"\\x\" is invalid."),
        ("\"\\é\"", "Escape sequence \"\\é\" is invalid."),
        ("\"\\u12g\"", "\"\\u\" must be followed by four hexadecimal digits."),
    ] {
        for data_type in [DataType::Json, DataType::Jsonb] {
            let error = Value::read_text(&data_type, given).unwrap_err();
            assert_eq!(error.code(), SqlState::INVALID_TEXT_REPRESENTATION);
            assert_eq!(error.message(), "invalid input syntax for type json");
            assert_eq!(error.fields().detail.as_deref(), Some(detail), "{given}");
        }
    }
}

#[test]
fn what_no_text_can_say_is_a_json_but_no_jsonb() {
    let invalid = SqlState::INVALID_TEXT_REPRESENTATION;
    for (given, code, detail) in [
        ("\"\\u0000\"", SqlState::UNTRANSLATABLE_CHARACTER, "\\u0000 cannot be converted to text."),
        ("\"\\ud800\"", invalid, "Unicode low surrogate must follow a high surrogate."),
        ("\"\\ud800x\"", invalid, "Unicode low surrogate must follow a high surrogate."),
        ("\"\\udc00\"", invalid, "Unicode low surrogate must follow a high surrogate."),
        ("\"\\ud800\\ud800\"", invalid, "Unicode high surrogate must not follow a high surrogate."),
    ] {
        assert!(Value::read_text(&DataType::Json, given).is_ok());
        let error = Jsonb::read(given).unwrap_err();
        assert_eq!(error.code(), code, "{given}");
        assert_eq!(error.fields().detail.as_deref(), Some(detail), "{given}");
    }
    assert_eq!(Jsonb::read("1e999999").unwrap_err().code(), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
}

#[test]
fn depth_and_length_are_bounded() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    for data_type in [DataType::Json, DataType::Jsonb] {
        let read = |text: &str| Value::read_text(&data_type, text);
        assert!(read(&nested(DEPTH_MAX)).is_ok());
        for text in [nested(DEPTH_MAX + 1), "[".repeat(1 << 20), "{\"a\":".repeat(1 << 18)] {
            assert_eq!(read(&text).unwrap_err().code(), SqlState::STATEMENT_TOO_COMPLEX);
        }
    }
    let long = format!("[{}0]", "1e100000,".repeat(1_000));
    assert_eq!(Jsonb::read(&long).unwrap_err().code(), SqlState::PROGRAM_LIMIT_EXCEEDED);
}

/// As PostgreSQL sorts them.
const ASCENDING: &[&str] = &[
    "[]",
    "null",
    "\"\"",
    "\"a\"",
    "\"ab\"",
    "\"b\"",
    "-1e20",
    "-2",
    "-1.5",
    "0",
    "1",
    "1.01",
    "10",
    "1e40",
    "false",
    "true",
    "[null]",
    "[\"a\"]",
    "[1]",
    "[1.5]",
    "[false]",
    "[[]]",
    "[{}]",
    "[1, 1]",
    "[1, \"a\", 1]",
    "[1, 2, 3]",
    "{}",
    "{\"a\": null}",
    "{\"a\": 1}",
    "{\"a\": {}}",
    "{\"bb\": 0}",
    "{\"c\": 0}",
    "{\"a\": 0, \"b\": 0}",
];

fn key_of(json: &Jsonb) -> Key {
    let mut key = Key::default();
    let column = (&DataType::Jsonb, false, &Value::from(json.clone()));
    key::encode_key([column], &mut key).unwrap();
    key
}

#[test]
fn the_order_is_postgresqls() {
    let all: Vec<Jsonb> = ASCENDING.iter().map(|text| Jsonb::read(text).unwrap()).collect();
    for (place, one) in all.iter().enumerate() {
        for (other_place, other) in all.iter().enumerate() {
            let (texts, order) = ((one.as_str(), other.as_str()), place.cmp(&other_place));
            assert_eq!(one.cmp(other), order, "{texts:?}");
            assert_eq!(key_of(one).cmp(&key_of(other)), order, "{texts:?}");
        }
    }
    let same = |a: &str, b: &str| Jsonb::read(a).unwrap() == Jsonb::read(b).unwrap();
    assert!(same("{\"a\": 1.0}", "{\"a\": 1.00}"));
    assert!(!same("1", "\"1\""));
}

proptest! {
    #[test]
    fn keys_read_back(json in jsons()) {
        let key = key_of(&json);
        let read = key::decode_key([(&DataType::Jsonb, false)], key.as_bytes()).unwrap();
        prop_assert_eq!(read, [Value::from(json)]);
    }

    #[test]
    fn what_lies_in_a_value_is_canonical(json in jsons()) {
        let raw = json.raw();
        let members = raw.members().flat_map(|(key, value)| [key, value]);
        let parts: Vec<Raw<'_>> = raw.elements().chain(members).collect();
        let count = parts.len();
        for part in parts {
            prop_assert!(Jsonb::read_canonical(part.text()).is_some(), "{}", part.text());
        }
        prop_assert!(count == 0 || !raw.kind().is_scalar());
        prop_assert!(count > 0 || raw.kind().is_scalar() || raw.text().len() == 2);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[\\[\\]{}:,\"\\\\u0ad8 1.e+-tn]{0,12}") {
        let plain = Value::read_text(&DataType::Json, &text);
        if let Ok(json) = Jsonb::read(&text) {
            prop_assert_eq!(plain, Ok(Value::text(&text)));
            prop_assert_eq!(Jsonb::read_canonical(json.as_str()), Some(json.clone()));
            prop_assert_eq!(Raw::of_valid(&text).kind(), json.raw().kind());
        }
    }
}

#[test]
fn a_look_into_text_skips_what_it_should() {
    let raw = Raw::of_valid(" {\"a\" : [1, {\"x\": \"]}\\\"\"}] , \"b\":\"c\\u0041\"} ");
    assert_eq!(raw.kind(), Kind::Object);
    let a = raw.member("a").unwrap().unwrap();
    assert_eq!(a.text(), "[1, {\"x\": \"]}\\\"\"}]");
    assert_eq!(a.element(-2).unwrap().text(), "1");
    assert_eq!(a.element(2), None);
    assert_eq!(a.element(-3), None);
    assert_eq!(raw.member("b").unwrap().unwrap().said().unwrap(), "cA");
    assert_eq!(raw.member("c"), Ok(None));
}
