//! Arithmetic against wider integers, and numerics against PostgreSQL's results.

use proptest::prelude::*;
use types::arithmetic::{
    ArithmeticOp, BitOp, abs, add, arithmetic, bit_op, concat, div, modulo, mul, neg, result_type,
    round, sub,
};
use types::cast::cast;
use types::numeric::{self, Numeric, work};
use types::{DataType, SqlState, Value};

use crate::strategies::*;

fn decimal(text: &str) -> Numeric {
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

    /// Sums, products and remainders are exact, with PostgreSQL's scale.
    #[test]
    fn small_numerics_are_exact(
        a in -10i128.pow(13)..10i128.pow(13), b in -10i128.pow(13)..10i128.pow(13),
        a_scale in 0..=13u8, b_scale in 0..=13u8,
    ) {
        let x = Numeric::from_units(a, a_scale);
        let y = Numeric::from_units(b, b_scale);
        let parts = |d: Numeric| (d.units().unwrap(), d.scale());
        let product = numeric::mul(&x, &y).unwrap();
        prop_assert_eq!(parts(product), (a * b, u32::from(a_scale + b_scale)));
        let scale = a_scale.max(b_scale);
        let at = |units: i128, from: u8| units * 10i128.pow(u32::from(scale - from));
        let sum = numeric::add(&x, &y).unwrap();
        prop_assert_eq!(parts(sum), (at(a, a_scale) + at(b, b_scale), scale.into()));
        if b != 0 {
            let rest = numeric::rem(&x, &y).unwrap();
            let exact = at(a, a_scale) % at(b, b_scale);
            prop_assert_eq!(parts(rest), (exact, scale.into()));
        }
    }

    /// What is added can be taken away again, whatever the digits.
    #[test]
    fn sums_lose_nothing(a in numerics(), b in numerics()) {
        let sum = numeric::add(&a, &b).unwrap();
        prop_assert_eq!(&numeric::sub(&sum, &b).unwrap(), &a);
        prop_assert_eq!(numeric::add(&b, &a).unwrap(), sum.clone());
        prop_assert_eq!(sum.cmp(&a), b.cmp(&Numeric::ZERO));
    }

    /// `(a + b) * (a - b) = a * a - b * b`.
    #[test]
    fn products_lose_nothing(a in numerics(), b in numerics()) {
        let (sum, difference) = (numeric::add(&a, &b).unwrap(), numeric::sub(&a, &b).unwrap());
        let products = numeric::mul(&sum, &difference)
            .and_then(|left| Ok((left, numeric::mul(&a, &a)?, numeric::mul(&b, &b)?)));
        if let Ok((left, a_square, b_square)) = products {
            prop_assert_eq!(left, numeric::sub(&a_square, &b_square).unwrap());
        }
    }

    /// A quotient is off by half of its last digit at most.
    #[test]
    fn quotients_are_near(a in numerics(), b in numerics()) {
        let quotient = match numeric::div(&a, &b) {
            Ok(quotient) => quotient,
            Err(e) if e.code() == SqlState::DIVISION_BY_ZERO => {
                prop_assert!(b.is_zero());
                return Ok(());
            }
            Err(_) => return Ok(()),
        };
        let half = decimal(&format!("5e-{}", quotient.scale() + 1));
        // Products may have more digits after the point than there can be.
        let products = numeric::mul(&quotient, &b).and_then(|again| {
            Ok((numeric::sub(&again, &a)?, numeric::mul(&half, &b)?))
        });
        let Ok((off, bound)) = products else { return Ok(()) };
        prop_assert!(numeric::abs(&off) <= numeric::abs(&bound), "{quotient}");
    }

    /// `a = trunc(a / b) * b + a % b`, whatever the digits.
    #[test]
    fn remainders_are_what_is_left(a in numerics(), b in numerics()) {
        prop_assume!(!b.is_zero());
        let rest = numeric::rem(&a, &b).unwrap();
        prop_assert!(numeric::abs(&rest) < numeric::abs(&b));
        prop_assert!(rest.is_zero() || rest.is_negative() == a.is_negative());
        if let Ok(whole) = numeric::quotient(&a, &b) {
            let product = numeric::mul(&whole, &b).unwrap();
            prop_assert_eq!(numeric::add(&product, &rest).unwrap(), a);
        }
    }

    /// `r² ≤ a < (r + unit)²`, but for the rounded digit.
    #[test]
    fn roots_are_near(a in numerics()) {
        let root = numeric::sqrt(&numeric::abs(&a)).unwrap();
        let unit = decimal(&format!("1e-{}", root.scale()));
        let square = |d: &Numeric| numeric::mul(d, d).unwrap();
        let (below, above) = (numeric::sub(&root, &unit).unwrap(), numeric::add(&root, &unit).unwrap());
        prop_assert!(below.is_negative() || square(&below) <= numeric::abs(&a));
        prop_assert!(square(&above) >= numeric::abs(&a));
    }

    #[test]
    fn nearest_float(d in all_numerics()) {
        let nearest: f64 = d.to_string().parse().unwrap();
        prop_assert!(numeric::to_f64(&d) == nearest || (d.is_nan() && nearest.is_nan()));
    }

    #[test]
    fn storage_bytes_read_back(d in all_numerics()) {
        let again = numeric::put_bytes(&d, numeric::from_bytes);
        prop_assert!(again.is_identical(&d), "{again} {d}");
    }

    /// Readers that check what they read only afterwards see any bytes.
    #[test]
    fn any_storage_bytes_are_a_number(bytes in prop::collection::vec(any::<u8>(), 0..30)) {
        let d = numeric::from_bytes(&bytes);
        prop_assert!(d.scale() <= numeric::SCALE_MAX);
        prop_assert!(numeric::put_bytes(&d, numeric::from_bytes).is_identical(&d));
        prop_assert!(d.to_string().parse::<Numeric>().unwrap().is_identical(&d));
    }

    /// One form per number and scale.
    #[test]
    fn storage_bytes_are_canonical(a in all_numerics(), b in all_numerics()) {
        for b in [&b, &numeric::round(&a, a.scale() as i32).unwrap(), &a.normalize()] {
            let are_equal = numeric::put_bytes(&a, |x| numeric::put_bytes(b, |y| x == y));
            prop_assert_eq!(are_equal, a.is_identical(b));
        }
    }

    #[test]
    fn rounding(d in numerics(), scale in -60..60i32) {
        let abs = numeric::abs;
        let rounded = numeric::round(&d, scale).unwrap();
        let cut = numeric::trunc(&d, scale).unwrap();
        prop_assert_eq!(rounded.scale(), scale.max(0) as u32);
        prop_assert!(abs(&cut) <= abs(&d) && abs(&cut) <= abs(&rounded));
        let half = decimal(&format!("5e{}", -scale - 1));
        prop_assert!(abs(&numeric::sub(&rounded, &d).unwrap()) <= half);
        let unit = numeric::add(&half, &half).unwrap();
        prop_assert!(abs(&numeric::sub(&cut, &d).unwrap()) < unit);
        let (floor, ceil) = (numeric::floor(&d).unwrap(), numeric::ceil(&d).unwrap());
        prop_assert!(floor <= d && d <= ceil);
        prop_assert!(numeric::sub(&ceil, &floor).unwrap() <= Numeric::ONE);
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
    type Op = fn(&Numeric, &Numeric) -> types::Result<Numeric>;
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
        let result = op(&decimal(a), &decimal(b)).unwrap();
        assert_eq!(result.to_string(), *expected, "{a} {b}");
    }
}

/// What PostgreSQL 15 answered to random operands: operator, operands, answer or `!` and SQLSTATE.
#[test]
fn numerics_are_postgresqls() {
    let cases = include_str!("numerics.tsv");
    let mut wrong = Vec::new();
    for line in cases.lines() {
        let [op, a, b, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let answer = answer(op, a, b).unwrap_or_else(|error| format!("!{}", error.code()));
        // The shortest text of a float is not always PostgreSQL's.
        let float = |text: &str| text.parse::<f64>().ok().filter(|_| op == "float");
        let is_same_float = float(expected).is_some() && float(&answer) == float(expected);
        if answer != expected && !is_same_float {
            wrong.push(format!("{op} {a} {b}\n  gives {answer}\n  and not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(9)].join("\n"));
}

pub(crate) fn answer(op: &str, a: &str, b: &str) -> types::Result<String> {
    let x: Numeric = a.parse()?;
    let y = || b.parse::<Numeric>();
    let digits = || b.parse::<i32>().expect("a number of digits");
    let number = match op {
        "add" => numeric::add(&x, &y()?),
        "sub" => numeric::sub(&x, &y()?),
        "mul" => numeric::mul(&x, &y()?),
        "div" => numeric::div(&x, &y()?),
        "rem" => numeric::rem(&x, &y()?),
        "quot" => numeric::quotient(&x, &y()?),
        "round" => numeric::round(&x, digits()),
        "trunc" => numeric::trunc(&x, digits()),
        "ceil" => numeric::ceil(&x),
        "floor" => numeric::floor(&x),
        "sqrt" => numeric::sqrt(&x),
        "power" => numeric::power(&x, digits()),
        "pow" => numeric::power_of(&x, &y()?),
        "exp" => numeric::exp(&x),
        "ln" => numeric::ln(&x),
        "log" => numeric::log(&x, &y()?),
        "cmp" => {
            let ordering = x.cmp(&y()?);
            return Ok(["<", "=", ">"][(ordering as i8 + 1) as usize].to_owned());
        }
        "float" | "int" => {
            let to = if op == "int" { DataType::Int8 } else { DataType::Float8 };
            return Ok(cast(&Value::from(x), &to, true)?.to_text(&to));
        }
        _ => panic!("{op}"),
    };
    number.map(|number| number.to_string())
}

/// What PostgreSQL 15 rounds the other way, since it computes 8 digits more than it shows: results
/// just beside the middle between two numbers.
#[test]
fn powers_and_logarithms_are_rounded_by_what_they_are() {
    for (op, a, b, expected) in [
        ("pow", "0.99999999999999999999999999721", "1.5", "0.99999999999999999999999999582"),
        ("pow", "1.0000000000000085", "2.5", "1.0000000000000213"),
        ("pow", "1.000000000000000000003", "2.5", "1.000000000000000000008"),
        ("pow", "0.99999999999999999999999999999999", "0.5", "0.99999999999999999999999999999999"),
        ("pow", "0.25", "0.5", "0.5000000000000000"),
        ("pow", "1000", "0.3333333333333333", "9.9999999999999977"),
        (
            "log",
            "1.000000000000002",
            "1.000000000000000000000000000001239",
            "0.000000000000000619500000000000619",
        ),
    ] {
        assert_eq!(answer(op, a, b).as_deref(), Ok(expected), "{op} {a} {b}");
    }
}

/// Not by chance: nothing that a client sends makes an operator or its price panic.
#[test]
fn what_has_no_digits_costs_nothing_and_meets_every_operator() {
    let long = decimal(&format!("1.{}", "7".repeat(16_000)));
    let others = [&long, &decimal("1e131000"), &decimal("0"), &decimal("-2.5")];
    for special in [Numeric::NAN, Numeric::INFINITY, Numeric::NEG_INFINITY] {
        assert_eq!(special.heap_bytes(), 0);
        assert_eq!((special.units(), special.units_at(2)), (None, None));
        assert!(work::of_root(&special) + work::of_exp(&special) + work::of_ln(&special) < 10_000);
        for other in others.into_iter().chain([&special]) {
            for (a, b) in [(&special, other), (other, &special)] {
                work::of_power_of(a, b);
                work::of_log(a, b);
                work::of_alignment(a, b);
                let results = [numeric::add(a, b), numeric::sub(a, b), numeric::mul(a, b)];
                assert!(results.into_iter().all(|it| it.is_ok_and(|it| !it.is_finite())));
                let _ = (numeric::div(a, b), numeric::rem(a, b), numeric::quotient(a, b));
                let _ = (numeric::power_of(a, b), numeric::log(a, b));
                assert_eq!(a.cmp(b), b.cmp(a).reverse());
            }
        }
    }
}

/// Whatever they are given, they are paid for before, and the price is not out of proportion.
#[test]
fn the_work_of_powers_and_logarithms_is_known_before() {
    let near_one = |zeros: usize| decimal(&format!("1.{}1", "0".repeat(zeros)));
    let (long, huge) = (decimal(&format!("1.{}", "7".repeat(16_000))), decimal("1e131000"));
    let small = decimal("2.5");
    let few = 10_000;
    assert!(work::of_exp(&small) < few && work::of_ln(&small) < few);
    assert!(work::of_log(&small, &small) < few && work::of_power_of(&small, &small) < few);
    let units = [
        work::of_exp(&long),
        work::of_exp(&decimal("5999.5")),
        work::of_ln(&long),
        work::of_ln(&huge),
        work::of_ln(&near_one(16_000)),
        work::of_log(&near_one(1_000), &small),
        work::of_power_of(&near_one(900), &small),
        work::of_power_of(&small, &long),
        work::of_power_of(&huge, &decimal("0.01")),
        work::of_power_of(&decimal("2"), &decimal("8000.5")),
    ];
    assert!(units.iter().all(|units| (50_000..50_000_000).contains(units)), "{units:?}");
    assert!(work::of_log(&near_one(16_000), &small) > 50_000_000);
    for huge in [&huge, &decimal("-1e131000"), &decimal("1e-16383")] {
        assert!(work::of_exp(huge) < u64::from(u32::MAX));
        assert!(work::of_power_of(&decimal("1.1"), huge) < u64::from(u32::MAX));
        assert!(work::of_power_of(&decimal("0"), huge) < u64::from(u32::MAX));
    }
}

#[test]
fn numerics_have_postgresqls_size() {
    let out_of_range =
        |text: &str| code(numeric::parse(text)) == SqlState::NUMERIC_VALUE_OUT_OF_RANGE;
    for text in ["1e131071", "9.99e131071", "1e-16383", "0e99999999"] {
        assert!(numeric::parse(text).is_ok(), "{text}");
    }
    for text in ["1e131072", "10e131071", "1e-16384", "1.0e-16383", "0e-16384", "1e999999999999"] {
        assert!(out_of_range(text), "{text}");
    }
    let (largest, smallest) = (decimal("1e131071"), decimal("1e-16383"));
    let refused = |result| code(result) == SqlState::NUMERIC_VALUE_OUT_OF_RANGE;
    assert!(refused(numeric::mul(&largest, &decimal("10"))));
    // PostgreSQL rounds this to 0.
    assert!(refused(numeric::mul(&smallest, &decimal("0.1"))));
    assert_eq!(numeric::mul(&smallest, &decimal("10.0")).unwrap(), decimal("1e-16382"));
    assert!(refused(numeric::power(&decimal("10"), 131_072)));
    assert_eq!(numeric::sub(&largest, &largest).unwrap(), Numeric::ZERO);
    let all = numeric::add(&largest, &smallest).unwrap();
    assert_eq!(all.to_string().len(), 131_072 + 1 + 16_383);
    assert_eq!(numeric::sub(&all, &largest).unwrap(), smallest);
    assert!(all > largest);
}

#[test]
fn numerics_keep_every_digit() {
    let mul = |a: &str, b: &str| numeric::mul(&decimal(a), &decimal(b)).unwrap().to_string();
    let long = "1234567890.1234567890";
    assert_eq!(mul(long, long), "1524157875323883675.01905199875019052100");
    let sum = numeric::add(&decimal("123456789012345678.000000000000"), &decimal("1e-12")).unwrap();
    assert_eq!(sum.to_string(), "123456789012345678.000000000001");
    assert!(decimal("1e-29") > Numeric::ZERO);
    let round = |text, scale| numeric::round(&decimal(text), scale).unwrap().to_string();
    assert_eq!(round("2.5", 0), "3");
    assert_eq!(round("-2.5", 0), "-3");
    assert_eq!(round("1.5", 30), "1.500000000000000000000000000000");
    assert_eq!(round("1250", -2), "1300");
    assert_eq!(round("-0.4", 0), "0");
    let typed = |text: &str| Value::read_text(&DataType::Numeric(Some((38, 2))), text);
    let widest = "999999999999999999999999999999999999.99";
    assert_eq!(typed(widest).unwrap().to_string(), widest);
    let refused = typed("1e36").unwrap_err();
    assert_eq!(refused.code(), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
    assert_eq!(
        refused.fields().detail.as_deref(),
        Some("A field with precision 38, scale 2 must round to an absolute value less than 10^36.")
    );
    let small = Value::read_text(&DataType::Numeric(Some((2, 5))), "0.00099").unwrap();
    assert_eq!(small.to_string(), "0.00099");
    assert!(Value::read_text(&DataType::Numeric(Some((2, 5))), "0.001").is_err());
}

/// Zeros between the point and the digits are paid for as digits.
#[test]
fn work_is_of_all_digits() {
    use numeric::work;
    let far = decimal("1e-16383");
    let near = decimal("1.5");
    for op in [ArithmeticOp::Add, ArithmeticOp::Sub, ArithmeticOp::Div, ArithmeticOp::Mod] {
        assert!(work::of_operator(op, &far, &near) > 100, "{op:?}");
        assert_eq!(work::of_operator(op, &near, &near), 0, "{op:?}");
    }
    assert!(work::of_digits(&far) > 100);
    assert!(work::of_alignment(&far, &near) > 100);
    assert!(work::of_scale(&near, 16_383) > 100);
    // Interest of a century of days, and numbers of 30,103 and 105,361 digits.
    assert!(work::of_power(&decimal("1.0001"), 36_500) < 2_000);
    assert!(work::of_power(&decimal("2"), 100_000) > 300_000);
    assert!(work::of_power(&decimal("1.1234567891e16"), 6_500) > 3_000_000);
    assert!(work::of_power(&decimal("1e100"), 1_000_000) < 10);
    assert_eq!(numeric::round(&near, -131_072).unwrap(), Numeric::ZERO);
    assert_eq!(decimal("0e-100").units_at(2), Some(0));
}

#[test]
fn floats_beyond_their_range_are_refused() {
    let float = |text: &str| cast(&Value::from(decimal(text)), &DataType::Float8, true);
    assert_eq!(float("1e-300").unwrap(), Value::Float(1e-300));
    assert_eq!(float("1e300").unwrap(), Value::Float(1e300));
    for text in ["1e309", "1e-400"] {
        assert_eq!(code(float(text)), SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "{text}");
    }
    let numeric = |x: f64| cast(&Value::Float(x), &DataType::Numeric(None), true).unwrap();
    assert_eq!(numeric(1e300), Value::from(decimal("1e300")));
    assert_eq!(numeric(0.1), Value::from(decimal("0.1")));
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
    assert_eq!(of(Sub, &T::Timestamp(None), &T::Timestamp(None)).unwrap(), T::INTERVAL);
    assert_eq!(of(Add, &T::Date, &T::INTERVAL).unwrap(), T::Timestamp(None));
}
