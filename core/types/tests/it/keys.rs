//! Keys order as values do, and read back.

use std::cmp::Ordering;

use proptest::prelude::*;
use types::compare::{sort_cmp, sort_cmp_rows};
use types::key::{decode_key, encode_int_key, encode_key, upper_bound_of_prefix};
use types::numeric::{self, Numeric};
use types::{DataType, Key, Value};

use crate::strategies::*;

type KeyColumn = (DataType, bool);

fn encode(columns: &[KeyColumn], values: &[Value]) -> Key {
    let mut key = Key::default();
    let columns = columns
        .iter()
        .zip(values)
        .map(|((data_type, nullable), value)| (data_type, *nullable, value));
    encode_key(columns, &mut key).unwrap();
    key
}

fn decode(columns: &[KeyColumn], key: &[u8]) -> types::Result<Vec<Value>> {
    decode_key(columns.iter().map(|(t, nullable)| (t, *nullable)), key)
}

/// One to three columns and two rows of them that often agree in their first columns.
fn two_rows() -> impl Strategy<Value = (Vec<KeyColumn>, Vec<Value>, Vec<Value>)> {
    let columns = prop::collection::vec((any_column_type(), any::<bool>()), 1..4);
    columns.prop_flat_map(|columns| {
        let row = |columns: &[KeyColumn]| -> Vec<BoxedStrategy<Value>> {
            columns
                .iter()
                .map(|(t, is_nullable)| if *is_nullable { nullable(t) } else { value_of(t) })
                .collect()
        };
        let shared = 0..=columns.len();
        let rows = (row(&columns), row(&columns), shared);
        (Just(columns), rows).prop_map(|(columns, (a, mut b, shared))| {
            b[..shared].clone_from_slice(&a[..shared]);
            (columns, a, b)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn compound_keys_order_as_rows((columns, a, b) in two_rows()) {
        let (key_a, key_b) = (encode(&columns, &a), encode(&columns, &b));
        prop_assert_eq!(key_a.cmp(&key_b), sort_cmp_rows(&a, &b), "{:?} {:?}", key_a, key_b);
    }

    #[test]
    fn keys_read_back((columns, row, _) in two_rows()) {
        prop_assert_eq!(decode(&columns, encode(&columns, &row).as_bytes()).unwrap(), row);
    }

    /// No key is a proper prefix of another one of the same columns, or ranges would leak.
    #[test]
    fn keys_are_prefix_free((columns, a, b) in two_rows()) {
        let (key_a, key_b) = (encode(&columns, &a), encode(&columns, &b));
        prop_assert!(key_a == key_b || !key_a.as_bytes().starts_with(key_b.as_bytes()));
    }

    #[test]
    fn numerics_order_as_decimals(a in all_numerics(), b in all_numerics()) {
        let columns = [(DataType::Numeric(None), false)];
        let key = |d: &Numeric| encode(&columns, &[Value::from(d.clone())]);
        prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
        prop_assert_eq!(key(&a), key(&a.normalize()));
    }

    #[test]
    fn neighbouring_numerics_order(
        a in numerics(), step in -200..200i128, more in 0..40u8,
    ) {
        let step = Numeric::from_units(step, a.scale().min(60) as u8 + more);
        let b = numeric::add(&a, &step).unwrap();
        let columns = [(DataType::Numeric(None), false)];
        let key = |d: &Numeric| encode(&columns, &[Value::from(d.clone())]);
        prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
    }

    #[test]
    fn integers_are_eight_bytes(i in ints()) {
        let columns = [(DataType::Int8, false)];
        let key = encode(&columns, &[Value::Int(i)]);
        prop_assert_eq!(key.as_bytes(), &encode_int_key(i)[..]);
        prop_assert_eq!(key, Key::from_int(i));
    }

    #[test]
    fn upper_bounds_bound(prefix in byte_strings(), key in byte_strings()) {
        let starts = key.starts_with(&prefix);
        match upper_bound_of_prefix(&prefix) {
            Some(bound) => {
                let inside = key[..] >= prefix[..] && key[..] < *bound.as_bytes();
                prop_assert_eq!(inside, starts);
            }
            None => prop_assert_eq!(key[..] >= prefix[..], starts),
        }
    }

    #[test]
    fn random_bytes_never_panic(
        columns in prop::collection::vec((any_column_type(), any::<bool>()), 1..4),
        bytes in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let _ = decode(&columns, &bytes);
    }

    /// A number has one key, and every other one is refused.
    #[test]
    fn keys_of_numerics_are_canonical(
        d in all_numerics(), at in any::<usize>(), to in any::<u8>(),
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0..12u8, 243..=255u8], 1..8),
    ) {
        let columns = [(DataType::Numeric(None), false)];
        let mut damaged = encode(&columns, &[Value::from(d)]);
        let at = at % damaged.0.len();
        damaged.0[at] = to;
        for key in [damaged.as_bytes(), &bytes] {
            if let Ok(values) = decode(&columns, key) {
                let again = encode(&columns, &values);
                prop_assert_eq!(again.as_bytes(), key);
            }
        }
    }

    #[test]
    fn damaged_keys_never_panic((columns, row, _) in two_rows(), at in any::<usize>(), to in any::<u8>()) {
        let mut key = encode(&columns, &row);
        let at = at % key.0.len();
        key.0[at] = to;
        let _ = decode(&columns, key.as_bytes());
        let _ = decode(&columns, &key.as_bytes()[..at]);
    }
}

#[test]
fn every_short_byte_string_is_in_order() {
    let alphabet = [0u8, 1, 2, 0xFE, 0xFF];
    let mut strings: Vec<Vec<u8>> = vec![vec![]];
    for length in 0..3 {
        let longer: Vec<Vec<u8>> = strings
            .iter()
            .filter(|s| s.len() == length)
            .flat_map(|s| alphabet.map(|b| [&s[..], &[b]].concat()))
            .collect();
        strings.extend(longer);
    }
    let columns = [(DataType::Bytea, true), (DataType::Bool, false)];
    let mut keys: Vec<(Vec<u8>, bool, Key)> = Vec::new();
    for s in &strings {
        for b in [false, true] {
            let row = [Value::from(&s[..]), Value::Bool(b)];
            keys.push((s.clone(), b, encode(&columns, &row)));
        }
    }
    for (a, a_flag, a_key) in &keys {
        for (b, b_flag, b_key) in &keys {
            assert_eq!(a_key.cmp(b_key), (a, a_flag).cmp(&(b, b_flag)));
        }
    }
}

#[test]
fn nulls_are_last_and_not_null_has_no_prefix() {
    let nullable = [(DataType::Int8, true)];
    let top = encode(&nullable, &[Value::Int(i64::MAX)]);
    let null = encode(&nullable, &[Value::Null]);
    assert_eq!(top.cmp(&null), Ordering::Less);
    assert_eq!(null.as_bytes(), [2]);
    assert_eq!(top.as_bytes().len(), 9);

    let mut key = Key::default();
    let refused = encode_key([(&DataType::Int8, false, &Value::Null)], &mut key);
    assert!(refused.is_err());
    let wrong_type = encode_key([(&DataType::Int8, false, &Value::text("1"))], &mut key);
    assert!(wrong_type.is_err());
}

#[test]
fn the_layout_is_what_the_module_says() {
    let numeric = [(DataType::Numeric(None), false)];
    let bytes = |text: &str| {
        let value = Value::read_text(&DataType::Numeric(None), text).unwrap();
        encode(&numeric, &[value]).as_bytes().to_vec()
    };
    assert_eq!(bytes("0.00"), [0x80]);
    assert_eq!(bytes("1"), [0x80 + 32, 11, 0]);
    assert_eq!(bytes("123.40"), [0x80 + 34, 13, 35, 0]);
    assert_eq!(bytes("-123.4"), [0x7F - 34, !13, !35, 0xFF]);
    assert_eq!(bytes("1e93"), [0xFD, 11, 0]);
    assert_eq!(bytes("1e94"), [0xFE, 0, 0, 95, 11, 0]);
    assert_eq!(bytes("1e131071"), [0xFE, 2, 0, 0, 11, 0]);
    assert_eq!(bytes("1e-30"), [0x82, 11, 0]);
    assert_eq!(bytes("-1e-31"), [0x7E, 255, !0x3F, !0xE2, !11, 0xFF]);
    assert_eq!(bytes("1e-16383"), [0x81, 0, 0, 2, 11, 0]);
    assert_eq!(bytes("-Infinity"), [0x00]);
    assert_eq!(bytes("Infinity"), [0xFF, 0]);
    assert_eq!(bytes("NaN"), [0xFF, 1]);
    let text = [(DataType::Text, false)];
    let key = encode(&text, &[Value::text("ab")]);
    assert_eq!(key.as_bytes(), b"ab\0\0");
    let bytea = [(DataType::Bytea, false)];
    let key = encode(&bytea, &[Value::from(&b"a\0b"[..])]);
    assert_eq!(key.as_bytes(), b"a\0\xFFb\0\0");
    let float = [(DataType::Float8, false)];
    let float = |x| encode(&float, &[Value::Float(x)]).as_bytes().to_vec();
    assert_eq!(float(-0.0), [0x80, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(float(1.0), [0xBF, 0xF0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(float(-1.0), [0x40, 0x0F, 255, 255, 255, 255, 255, 255]);
    assert_eq!(encode_int_key(0), [0x80, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(encode_int_key(-1), [0x7F, 255, 255, 255, 255, 255, 255, 255]);
}

#[test]
fn sorting_is_total() {
    let mut values: Vec<Value> = vec![
        Value::Null,
        Value::Float(f64::NAN),
        Value::text("a"),
        Value::Int(1),
        Value::Bool(true),
    ];
    values.sort_by(sort_cmp);
    assert_eq!(
        values,
        [Value::Bool(true), Value::Int(1), Value::Float(f64::NAN), Value::text("a"), Value::Null]
    );
}
