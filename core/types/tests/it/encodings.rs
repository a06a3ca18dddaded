//! Text, binary, row and ledger encodings are inverses of themselves, and refuse what is not one.

use proptest::prelude::*;
use types::codec::{
    DEPTH_MAX, decode_i64, decode_str, decode_u64, decode_value, encode_i64, encode_str,
    encode_u64, encode_value,
};
use types::row::{decode_row, encode_row};
use types::{DataType, Value};

use crate::strategies::*;

/// Equality that also sees a numeric's scale and a zero's sign.
fn identical(a: &Value, b: &Value) -> bool {
    format!("{a:?}") == format!("{b:?}")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn text_reads_back((data_type, value) in typed_value()) {
        let text = value.to_text(&data_type);
        let read = Value::read_text(&data_type, &text).unwrap();
        prop_assert!(identical(&read, &value), "{text:?}: {read:?} {value:?}");
    }

    #[test]
    fn binary_reads_back((data_type, value) in typed_value()) {
        let mut bytes = Vec::new();
        value.write_binary(&data_type, &mut bytes).unwrap();
        let read = Value::read_binary(&data_type, &bytes).unwrap();
        prop_assert!(identical(&read, &value), "{bytes:?}: {read:?} {value:?}");
    }

    #[test]
    fn codec_reads_back((_, value) in typed_value()) {
        let mut bytes = Vec::new();
        encode_value(&value, &mut bytes);
        bytes.push(0xAA);
        let mut input = &bytes[..];
        let read = decode_value(&mut input).unwrap();
        prop_assert!(identical(&read, &value));
        prop_assert_eq!(input, [0xAA]);
    }

    /// Whatever decodes is what encoding would have written.
    #[test]
    fn codec_is_canonical(bytes in prop::collection::vec(prop_oneof![0..13u8, any::<u8>()], 0..24)) {
        let mut input = &bytes[..];
        if let Ok(value) = decode_value(&mut input) {
            let consumed = &bytes[..bytes.len() - input.len()];
            let mut again = Vec::new();
            encode_value(&value, &mut again);
            prop_assert_eq!(&again[..], consumed, "{:?}", value);
        }
    }

    #[test]
    fn varints_read_back(unsigned in any::<u64>(), shift in 0..64u32, signed in ints(), text in strings()) {
        let unsigned = unsigned >> shift;
        let mut bytes = Vec::new();
        encode_u64(unsigned, &mut bytes);
        encode_i64(signed, &mut bytes);
        encode_str(&text, &mut bytes);
        let mut input = &bytes[..];
        prop_assert_eq!(decode_u64(&mut input).unwrap(), unsigned);
        prop_assert_eq!(decode_i64(&mut input).unwrap(), signed);
        prop_assert_eq!(decode_str(&mut input).unwrap(), text);
        prop_assert!(input.is_empty());
    }

    #[test]
    fn rows_read_back(
        row in prop::collection::vec(
            (any_column_type(), any::<bool>()).prop_flat_map(|(t, dropped)| {
                let value = if dropped { Just(Value::Null).boxed() } else { nullable(&t) };
                (Just(t), Just(dropped), value)
            }),
            0..6,
        ),
    ) {
        let mut columns = Vec::new();
        let mut values = Vec::new();
        for (data_type, dropped, value) in row {
            let mut column = column(data_type, true);
            column.dropped = dropped;
            columns.push(column);
            values.push(value);
        }
        let mut bytes = Vec::new();
        encode_row(&columns, &values, &mut bytes).unwrap();
        prop_assert_eq!(decode_row(&columns, &bytes).unwrap(), values);
        bytes.push(0);
        prop_assert!(decode_row(&columns, &bytes).is_err());
    }

    #[test]
    fn random_bytes_never_panic(
        data_type in any_type(),
        bytes in prop::collection::vec(prop_oneof![0..3u8, any::<u8>()], 0..60),
    ) {
        let _ = Value::read_binary(&data_type, &bytes);
        let _ = decode_row(&[column(data_type.clone(), true)], &bytes);
        let _ = Value::read_text(&data_type, &String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn random_texts_never_panic(
        data_type in any_type(),
        text in prop_oneof!["[-+0-9.eE:TZ /{}\",\\\\xNULa]{0,30}", "\\PC{0,20}"],
    ) {
        let _ = Value::read_text(&data_type, &text);
        let _ = DataType::from_sql_name(&text);
    }
}

#[test]
fn binary_forms_are_postgresqls() {
    let binary = |data_type: DataType, text: &str| {
        let value = Value::read_text(&data_type, text).unwrap();
        let mut bytes = Vec::new();
        value.write_binary(&data_type, &mut bytes).unwrap();
        bytes.iter().map(|b| format!("{b:02x}")).collect::<String>()
    };
    let numeric = || DataType::Numeric(None);
    // What `numeric_send` and its sisters gave in PostgreSQL 15.
    assert_eq!(binary(numeric(), "0"), "0000000000000000");
    assert_eq!(binary(numeric(), "0.00"), "0000000000000002");
    assert_eq!(binary(numeric(), "12345.678"), "0003000100000003000109291a7c");
    assert_eq!(binary(numeric(), "-0.00012"), "0002ffff40000005000107d0");
    assert_eq!(binary(numeric(), "10000"), "00010001000000000001");
    assert_eq!(binary(numeric(), "NaN"), "00000000c0000000");
    assert_eq!(binary(numeric(), "Infinity"), "00000000d0000020");
    assert_eq!(binary(numeric(), "-Infinity"), "00000000f0000020");
    assert_eq!(binary(numeric(), "10000.0"), "00010001000000010001");
    assert_eq!(binary(DataType::Int2, "-2"), "fffe");
    assert_eq!(binary(DataType::Int4, "7"), "00000007");
    assert_eq!(binary(DataType::Int8, "-1"), "ffffffffffffffff");
    assert_eq!(binary(DataType::Float8, "1.5"), "3ff8000000000000");
    assert_eq!(binary(DataType::Float8, "NaN"), "7ff8000000000000");
    assert_eq!(binary(DataType::Bool, "yes"), "01");
    assert_eq!(binary(DataType::Date, "2000-01-02"), "00000001");
    assert_eq!(binary(DataType::Timestamp(None), "2000-01-01 00:00:01"), "00000000000f4240");
    assert_eq!(binary(DataType::Char(4), "ab"), "61622020");
    assert_eq!(
        binary(DataType::Array(Box::new(DataType::Int4)), "{1,NULL}"),
        "000000010000000100000017000000020000000100000004\
         00000001ffffffff"
    );
    assert_eq!(binary(DataType::Array(Box::new(DataType::Int4)), "{}"), "000000000000000000000017");
}

#[test]
fn values_of_another_type_are_refused() {
    let mut out = Vec::new();
    for (value, data_type) in [
        (Value::Int(40_000), DataType::Int2),
        (Value::Int(1 << 40), DataType::Int4),
        (Value::Int(1), DataType::Text),
        (Value::text("1"), DataType::Int4),
        (Value::Timestamp(0), DataType::Timestamptz(None)),
    ] {
        assert!(value.write_binary(&data_type, &mut out).is_err());
    }
}

#[test]
fn the_codec_refuses_other_forms() {
    let refused = |bytes: &[u8]| decode_value(&mut &*bytes).is_err();
    assert!(refused(&[]));
    assert!(refused(&[3, 0x80, 0x00]), "an overlong varint");
    assert!(refused(&[3, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2]));
    assert!(!refused(&[3, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1]));
    assert!(refused(&[4, 0xFF, 0xF8, 0, 0, 0, 0, 0, 0]), "a second NaN");
    assert!(refused(&[5, 1, 0]), "a negative zero");
    assert!(!refused(&[5, 0xFE, 0xFF, 1, 1]), "16,383 digits");
    assert!(!refused(&[5, 0x82, 0x80, 2]), "NaN");
    assert!(refused(&[5, 0x83, 0x80, 2, 1]), "a scale too large");
    let long = |last: u8| [&[5, 0][..], &[0x80; 30], &[last]].concat();
    assert!(!refused(&long(1)), "211 bits");
    assert!(refused(&long(0)), "an overlong varint");
    let digits = |sevens: usize| [&[5, 0][..], &vec![0x80; sevens], &[1]].concat();
    assert!(!refused(&digits(62_201)), "2^435407 has 131,071 digits");
    assert!(refused(&digits(62_202)), "too many digits before the point");
    assert!(refused(&[6, 2, 0xFF, 0xFF]), "not UTF-8");
    assert!(refused(&[6, 2, b'a']), "cut short");
    assert!(refused(&[12, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]), "a false count");
    assert!(refused(&[99]));
}

#[test]
fn the_codec_bounds_its_depth() {
    let nested = |depth: u32| {
        let mut bytes = [12, 1].repeat(depth as usize);
        bytes.push(0);
        bytes
    };
    assert!(decode_value(&mut &nested(DEPTH_MAX)[..]).is_ok());
    assert!(decode_value(&mut &nested(DEPTH_MAX + 1)[..]).is_err());
    assert!(decode_value(&mut &nested(100_000)[..]).is_err());
}

#[test]
fn binary_numerics_keep_their_digits() {
    // 1/3 with 40 digits, as PostgreSQL sends it.
    let mut bytes = vec![0, 10, 0xFF, 0xFF, 0, 0, 0, 40];
    bytes.extend([0x0D, 0x05].repeat(10));
    let read = Value::read_binary(&DataType::Numeric(None), &bytes).unwrap();
    assert_eq!(read.to_string(), format!("0.{}", "3".repeat(40)));
    // A scale that shows fewer digits than there are.
    bytes[7] = 38;
    let refused = Value::read_binary(&DataType::Numeric(None), &bytes).unwrap_err();
    assert_eq!(refused.code(), types::SqlState::INVALID_BINARY_REPRESENTATION);
    assert_eq!(refused.message(), "invalid scale in external \"numeric\" value");
    // The largest and the smallest number.
    for text in ["9e131071", "-1e-16383"] {
        let value = Value::read_text(&DataType::Numeric(None), text).unwrap();
        let mut bytes = Vec::new();
        value.write_binary(&DataType::Numeric(None), &mut bytes).unwrap();
        let read = Value::read_binary(&DataType::Numeric(None), &bytes).unwrap();
        assert!(identical(&read, &value), "{text}");
    }
    // Weights that no number has.
    for weight in [0x7FFF_u16, 0x8000] {
        let [high, low] = weight.to_be_bytes();
        let read =
            Value::read_binary(&DataType::Numeric(None), &[0, 1, high, low, 0, 0, 0, 0, 0, 1]);
        assert_eq!(read.is_ok(), weight == 0x7FFF);
    }
}

#[test]
fn row_layout() {
    let columns =
        [column(DataType::Int4, false), column(DataType::Text, true), column(DataType::Text, true)];
    let mut bytes = Vec::new();
    let row = [Value::Int(1), Value::Null, Value::text("ab")];
    encode_row(&columns, &row, &mut bytes).unwrap();
    assert_eq!(
        bytes,
        [&[0, 0, 0, 4, 0, 0, 0, 1][..], &[0xFF; 4], &[0, 0, 0, 2, b'a', b'b']].concat()
    );
    assert!(encode_row(&columns, &row[1..], &mut bytes).is_err());
}
