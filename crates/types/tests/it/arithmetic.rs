//! Arithmetic against wider integers, and numerics against PostgreSQL's results.

use proptest::prelude::*;
use rust_decimal::Decimal;
use types::arithmetic::{
    ArithmeticOp, BitOp, abs, add, arithmetic, bit_op, concat, div, modulo, mul, neg, result_type,
    round, sub,
};
use types::{DataType, SqlState, Value, numeric};

use crate::strategies::*;

fn decimal(text: &str) -> Decimal {
    numeric::parse(text).unwrap().unwrap()
}

fn code<T: std::fmt::Debug>(result: types::Result<T>) -> SqlState {
    result.unwrap_err().code()
}

fn integer_type() -> impl Strategy<Value = DataType> {
    prop::sample::select(vec![DataType::Int2, DataType::Int4, DataType::Int8])
}

fn any_op() -> impl Strategy<Value = ArithmeticOp> {
    use ArithmeticOp::{Add, Div, Mod, Mul, Sub};
    prop::sample::select(vec![Add, Sub, Mul, Div, Mod])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn integers_against_128_bits(a in ints(), b in ints(), op in any_op(), t in integer_type()) {
        let (min, max) = t.integer_range().unwrap();
        let (a, b) = (a.clamp(min, max), b.clamp(min, max));
        let (wide_a, wide_b) = (i128::from(a), i128::from(b));
        let result = arithmetic(op, &Value::Int(a), &Value::Int(b), &t);
        let exact = match op {
            ArithmeticOp::Add => wide_a + wide_b,
            ArithmeticOp::Sub => wide_a - wide_b,
            ArithmeticOp::Mul => wide_a * wide_b,
            ArithmeticOp::Div | ArithmeticOp::Mod if b == 0 => {
                prop_assert_eq!(code(result), SqlState::DIVISION_BY_ZERO);
                return Ok(());
            }
            ArithmeticOp::Div => wide_a / wide_b,
            ArithmeticOp::Mod => wide_a % wide_b,
        };
        if (i128::from(min)..=i128::from(max)).contains(&exact) {
            prop_assert_eq!(result.unwrap(), Value::Int(exact as i64));
        } else {
            prop_assert_eq!(code(result), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        }
    }

    /// Where the exact result has few enough digits it is exact, with PostgreSQL's scale.
    #[test]
    fn small_numerics_are_exact(
        a in -10i128.pow(13)..10i128.pow(13), b in -10i128.pow(13)..10i128.pow(13),
        a_scale in 0..=13u32, b_scale in 0..=13u32,
    ) {
        let x = Decimal::from_i128_with_scale(a, a_scale);
        let y = Decimal::from_i128_with_scale(b, b_scale);
        let product = numeric::mul(x, y).unwrap();
        prop_assert_eq!((product.mantissa(), product.scale()), (a * b, a_scale + b_scale));
        let scale = a_scale.max(b_scale);
        let at = |mantissa: i128, from: u32| mantissa * 10i128.pow(scale - from);
        let sum = numeric::add(x, y).unwrap();
        prop_assert_eq!((sum.mantissa(), sum.scale()), (at(a, a_scale) + at(b, b_scale), scale));
        if b != 0 {
            let rest = numeric::rem(x, y).unwrap();
            let exact = at(a, a_scale) % at(b, b_scale);
            prop_assert_eq!((rest.mantissa(), rest.scale()), (exact, scale));
        }
    }

    /// Any operands: no panic, and the result is as near as its last digit.
    #[test]
    fn numerics_are_near_floats(a in decimals(), b in decimals(), op in any_op()) {
        let result = arithmetic(op, &a.into(), &b.into(), &DataType::Numeric(None));
        let (x, y) = (numeric::to_f64(a), numeric::to_f64(b));
        let expected = match op {
            ArithmeticOp::Add => x + y,
            ArithmeticOp::Sub => x - y,
            ArithmeticOp::Mul => x * y,
            ArithmeticOp::Div => x / y,
            ArithmeticOp::Mod => return Ok(()),
        };
        match result {
            Ok(value) => {
                let d = value.as_numeric().unwrap();
                let last_digit = 10f64.powi(-(d.scale() as i32));
                let size = x.abs().max(y.abs()).max(expected.abs());
                let tolerance = last_digit + if matches!(op, ArithmeticOp::Add | ArithmeticOp::Sub) {
                    size * 1e-15
                } else {
                    expected.abs() * 1e-15
                };
                prop_assert!((numeric::to_f64(d) - expected).abs() <= tolerance, "{d} {expected}");
            }
            Err(e) if e.code() == SqlState::DIVISION_BY_ZERO => prop_assert!(b.is_zero()),
            Err(e) => {
                prop_assert_eq!(e.code(), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
                prop_assert!(expected.abs() > 7.9e28, "{}", expected);
            }
        }
    }

    /// `a = trunc(a / b) * b + a % b`, whatever the digits.
    #[test]
    fn remainders_are_small(a in decimals(), b in decimals()) {
        prop_assume!(!b.is_zero());
        let rest = numeric::rem(a, b).unwrap();
        prop_assert!(rest.abs() < b.abs());
        prop_assert!(rest.is_zero() || rest.is_sign_negative() == a.is_sign_negative());
    }

    #[test]
    fn sums_that_round_agree_with_the_library(a in decimals(), b in decimals()) {
        if let (Ok(sum), Some(other)) = (numeric::add(a, b), a.checked_add(b)) {
            let unit = Decimal::from_i128_with_scale(1, sum.scale().min(other.scale()));
            prop_assert!((sum - other).abs() <= unit, "{} {}", sum, other);
        }
    }

    #[test]
    fn nearest_float(d in decimals()) {
        let nearest: f64 = d.to_string().parse().unwrap();
        prop_assert_eq!(numeric::to_f64(d), nearest);
    }

    #[test]
    fn rounding(d in decimals(), scale in -30..30i32) {
        let Ok(rounded) = numeric::round(d, scale) else { return Ok(()) };
        let cut = numeric::trunc(d, scale).unwrap();
        prop_assert!(cut.abs() <= d.abs());
        prop_assert!(cut.abs() <= rounded.abs());
        if (0..=28).contains(&scale) {
            let half = Decimal::from_i128_with_scale(5, (scale as u32 + 1).min(28));
            prop_assert!((rounded - d).abs() <= half);
        }
        prop_assert!(numeric::floor(d).unwrap() <= d);
        if let Ok(ceil) = numeric::ceil(d) {
            prop_assert!(ceil >= d);
        }
    }

    #[test]
    fn bit_operators(a in any::<i32>(), b in any::<i32>()) {
        let of = |op| bit_op(op, &a.into(), &b.into(), &DataType::Int4).unwrap();
        prop_assert_eq!(of(BitOp::And), Value::from(a & b));
        prop_assert_eq!(of(BitOp::Or), Value::from(a | b));
        prop_assert_eq!(of(BitOp::Xor), Value::from(a ^ b));
        prop_assert_eq!(of(BitOp::ShiftLeft), Value::from(a.wrapping_shl(b as u32)));
        prop_assert_eq!(of(BitOp::ShiftRight), Value::from(a.wrapping_shr(b as u32)));
    }
}

#[test]
fn numeric_results_are_postgresqls() {
    type Op = fn(Decimal, Decimal) -> types::Result<Decimal>;
    let cases: &[(&str, Op, &str, &str)] = &[
        ("1", numeric::div, "3", "0.33333333333333333333"),
        ("2", numeric::div, "3", "0.66666666666666666667"),
        ("10", numeric::div, "4", "2.5000000000000000"),
        ("100", numeric::div, "7", "14.2857142857142857"),
        ("1", numeric::div, "10000", "0.000100000000000000000000"),
        ("123456789", numeric::div, "1000", "123456.789000000000"),
        ("-7", numeric::div, "2", "-3.5000000000000000"),
        ("0", numeric::div, "5", "0.00000000000000000000"),
        ("99999", numeric::div, "0.01", "9999900.000000000000"),
        ("1.5", numeric::mul, "2.25", "3.375"),
        ("1.10", numeric::add, "2.2", "3.30"),
        ("1.10", numeric::sub, "1.1", "0.00"),
        ("7.5", numeric::rem, "-2", "1.5"),
        ("-7.5", numeric::rem, "2", "-1.5"),
    ];
    for (a, op, b, expected) in cases {
        let result = op(decimal(a), decimal(b)).unwrap();
        assert_eq!(result.to_string(), *expected, "{a} {b}");
    }
}

#[test]
fn numerics_round_and_overflow() {
    let max = decimal("79228162514264337593543950335");
    assert_eq!(code(numeric::add(max, Decimal::ONE)), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
    assert_eq!(numeric::add(max, decimal("0.4")).unwrap(), max);
    assert!(numeric::add(max, decimal("0.5")).is_err());
    assert_eq!(numeric::sub(max, max).unwrap(), Decimal::ZERO);
    assert!(numeric::mul(max, max).is_err());
    assert_eq!(
        numeric::mul(max, decimal("0.1")).unwrap().to_string(),
        "7922816251426433759354395033.5"
    );
    assert_eq!(numeric::mul(decimal("1e-20"), decimal("5e-9")).unwrap(), decimal("1e-28"));
    let round = |text, scale| numeric::round(decimal(text), scale).unwrap().to_string();
    assert_eq!(round("2.5", 0), "3");
    assert_eq!(round("-2.5", 0), "-3");
    assert_eq!(round("1.5", 3), "1.500");
    assert_eq!(round("1250", -2), "1300");
    assert_eq!(round("-0.4", 0), "0");
    assert_eq!(numeric::ceil(decimal("-1.5")).unwrap().to_string(), "-1");
    assert_eq!(numeric::floor(decimal("-1.5")).unwrap().to_string(), "-2");
}

#[test]
fn errors_are_postgresqls() {
    let message = |r: types::Result<Value>| r.unwrap_err().message().to_owned();
    let (one, zero) = (Value::Int(1), Value::Int(0));
    assert_eq!(message(add(&i32::MAX.into(), &one, &DataType::Int4)), "integer out of range");
    assert_eq!(
        message(mul(&i64::MAX.into(), &2i64.into(), &DataType::Int8)),
        "bigint out of range"
    );
    assert_eq!(message(neg(&i16::MIN.into(), &DataType::Int2)), "smallint out of range");
    assert_eq!(message(div(&one, &zero, &DataType::Int4)), "division by zero");
    assert_eq!(message(abs(&i64::MIN.into(), &DataType::Int8)), "bigint out of range");
    let minus_one = Value::Int(-1);
    assert_eq!(modulo(&i64::MIN.into(), &minus_one, &DataType::Int8).unwrap(), zero);
    let float = DataType::Float8;
    let huge = Value::Float(1e308);
    assert_eq!(message(mul(&huge, &huge, &float)), "value out of range: overflow");
    let tiny = Value::Float(1e-300);
    assert_eq!(message(mul(&tiny, &tiny, &float)), "value out of range: underflow");
    assert_eq!(code(div(&huge, &Value::Float(0.0), &float)), SqlState::DIVISION_BY_ZERO);
}

#[test]
fn nulls_and_mixed_types() {
    let numeric = DataType::Numeric(None);
    assert!(add(&Value::Null, &1i64.into(), &DataType::Int8).unwrap().is_null());
    let sum = add(&1i64.into(), &decimal("0.50").into(), &numeric).unwrap();
    assert_eq!(sum.to_text(&numeric), "1.50");
    let sum = add(&1i64.into(), &Value::Float(0.5), &DataType::Float8).unwrap();
    assert_eq!(sum, Value::Float(1.5));
    assert_eq!(concat(&"a".into(), &Value::Bool(true)).unwrap(), "atrue".into());
    let long = Value::text("x".repeat(40 << 20));
    assert_eq!(code(concat(&long, &long)), SqlState::PROGRAM_LIMIT_EXCEEDED);
    let long = Value::array(vec![Value::Int(1); 2 << 20]);
    assert_eq!(code(concat(&long, &long)), SqlState::PROGRAM_LIMIT_EXCEEDED);
    assert_eq!(round(&Value::Float(2.5), 0).unwrap(), Value::Float(2.0));
}

#[test]
fn dates() {
    let (day, days) = (Value::Date(10), Value::Int(3));
    let date = DataType::Date;
    assert_eq!(add(&day, &days, &date).unwrap(), Value::Date(13));
    assert_eq!(add(&days, &day, &date).unwrap(), Value::Date(13));
    assert_eq!(sub(&day, &days, &date).unwrap(), Value::Date(7));
    assert_eq!(sub(&day, &Value::Date(13), &DataType::Int4).unwrap(), Value::Int(-3));
    assert_eq!(code(add(&day, &i64::MAX.into(), &date)), SqlState::DATETIME_FIELD_OVERFLOW);
}

#[test]
fn result_types_are_postgresqls() {
    use ArithmeticOp::{Add, Mod, Sub};
    use DataType as T;
    let of = |op, a: &DataType, b: &DataType| result_type(op, a, b);
    assert_eq!(of(Add, &T::Int2, &T::Int4).unwrap(), T::Int4);
    assert_eq!(of(Add, &T::Int2, &T::Int2).unwrap(), T::Int2);
    assert_eq!(of(Add, &T::Int8, &T::Numeric(Some((5, 2)))).unwrap(), T::Numeric(None));
    assert_eq!(of(Add, &T::Numeric(None), &T::Float8).unwrap(), T::Float8);
    assert_eq!(of(Add, &T::Unknown, &T::Int8).unwrap(), T::Int8);
    assert_eq!(of(Add, &T::Date, &T::Int4).unwrap(), T::Date);
    assert_eq!(of(Sub, &T::Date, &T::Date).unwrap(), T::Int4);
    let refused = of(Add, &T::Text, &T::Int4).unwrap_err();
    assert_eq!(refused.code(), SqlState::UNDEFINED_FUNCTION);
    assert_eq!(refused.message(), "operator does not exist: text + integer");
    assert_eq!(code(of(Mod, &T::Float8, &T::Float8)), SqlState::UNDEFINED_FUNCTION);
    assert_eq!(code(of(Sub, &T::Timestamp, &T::Timestamp)), SqlState::FEATURE_NOT_SUPPORTED);
}
