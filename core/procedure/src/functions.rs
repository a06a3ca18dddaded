//! Built-in scalar functions: deterministic ones only, with PostgreSQL's names and meanings.
//!
//! The binder has chosen the overload and cast the arguments; [`call`] meets values of the kinds
//! that it expects and answers NULL where an argument is NULL, the few functions excepted that take
//! NULLs (`concat`, `concat_ws`, `greatest`, `least`).
//!
//! Of transcendental functions there are those of floats of which IEEE 754 demands a correctly
//! rounded result (`sqrt`); `power` multiplies, and takes whole exponents only, because no two
//! mathematical libraries agree on the last bit of `pow`.

mod arguments;
mod arrays;
pub mod collation;
mod datetime;
mod digests;
mod enums;
pub(crate) mod function;
pub(crate) mod json;
mod moments;
mod strings;
mod to_char;

use std::borrow::Cow;

use types::arithmetic::{ArithmeticOp, abs, ceil, div, floor, modulo, mul, round, trunc};
use types::cast::cast;
use types::compare::compare;
use types::network::Network;
use types::numeric::{self, Numeric};
use types::{DataType, Error, Result, SqlState, Value};

use crate::meter::Meter;
use arguments::{as_i32, nth};

pub use datetime::DateField;
pub use function::{Function, RegexFunction};
pub use json::JsonFunction;
pub use json::kinds::JsonRows;
pub(crate) use strings::gathered;

/// Whole exponents that `power` of floats takes.
const POWER_EXPONENT_MAX: u32 = 1_000_000;

/// Calls a function whose arguments have the kinds that the binder has made sure of.
pub(crate) fn call(
    function: Function,
    arguments: &[Cow<'_, Value>],
    result: &DataType,
    meter: &Meter,
) -> Result<Value> {
    use Function::*;
    match function.is_brief() {
        true => meter.spend(function.units() + digits_units(function, arguments))?,
        false => meter.spend_characters(arguments.iter().map(|a| a.weight()).sum())?,
    }
    if !function.takes_nulls() && arguments.iter().any(|a| a.is_null()) {
        return Ok(Value::Null);
    }
    let first = arguments.first().map_or(&Value::Null, |a| &**a);
    let digits = || arguments.get(1).map_or(0, |d| as_i32(d));
    match function {
        Abs => abs(first, result),
        Ceil => ceil(first),
        Floor => floor(first),
        Round => round(first, digits()),
        Trunc => trunc(first, digits()),
        Mod => modulo(first, nth(arguments, 1), result),
        Div => match (first, nth(arguments, 1)) {
            (Value::Numeric(a), Value::Numeric(b)) => numeric::quotient(a, b).map(Value::Numeric),
            _ => Ok(Value::Null),
        },
        Power => power(first, nth(arguments, 1), result),
        Sqrt => sqrt(first),
        Exp | Ln | Log => logarithm(function, first, nth(arguments, 1)),
        Sign => Ok(sign(first)),
        Gcd | Lcm => divisor(function, first, nth(arguments, 1), result),
        Greatest => Ok(extreme(arguments, std::cmp::Ordering::is_gt)),
        Least => Ok(extreme(arguments, std::cmp::Ordering::is_lt)),
        ToChar => to_char::call(first, nth(arguments, 1), meter),
        Extract | DatePart | DateTrunc | MakeDate => datetime::call(function, arguments),
        CastByClocks | MoveByClocks => moments::by_clocks(function, arguments, result),
        MakeTime | MakeInterval | MakeTimestamp | ToTimestamp | Age | JustifyDays
        | JustifyHours | JustifyInterval | DateBin | AtTimeZone | Overlaps => {
            moments::call(function, arguments)
        }
        ArrayLength | ArrayUpper | ArrayLower | Cardinality | ArrayAppend | ArrayPrepend
        | ArrayCat | ArrayPosition | ArrayPositions | ArrayRemove | ArrayReplace
        | ArrayToString | StringToArray | ArraySlice | ArrayContains | ArrayOverlaps | ArraySet => {
            arrays::call(function, arguments, meter)
        }
        SortKey | SortedText => collation::call(function, arguments, meter),
        DomainFault => Err(domain_error(arguments)),
        EnumLabel | EnumRange => enums::call(function, arguments, meter),
        Md5 | Sha224 | Sha256 | Sha384 | Sha512 | Digest | Hmac => {
            digests::call(function, arguments, meter)
        }
        Json(function) => json::call(function, arguments, result, meter),
        Host | Family | Masklen => Ok(of_network(function, first)),
        Regex(function) => crate::regex::call(function, arguments, meter),
        NetworkText | NullsAlike | RealDigits | FailingRow | RowText => {
            shown(function, arguments, result, meter)
        }
        Random | GenRandomUuid | Uuidv7 => crate::chance::call(function, arguments),
        Nextval => crate::sequences::next(arguments, meter),
        Currval => crate::sequences::current(arguments),
        TakeValues => crate::sequences::take(arguments),
        Around(call) => meter.surroundings()?.value(call, arguments, result),
        _ => strings::call(function, arguments, meter),
    }
}

/// Values as they are shown, and one that is shown as itself.
fn shown(
    function: Function,
    arguments: &[Cow<'_, Value>],
    result: &DataType,
    meter: &Meter,
) -> Result<Value> {
    let first = nth(arguments, 0);
    match function {
        Function::NetworkText => {
            if matches!(first, Value::Array(_)) {
                meter.spend_characters(first.weight())?;
            }
            Ok(network_text(first, *nth(arguments, 1) == Value::Bool(true)))
        }
        Function::RealDigits => real_digits(nth(arguments, 0), result),
        Function::FailingRow => Ok(failing_row(arguments)),
        Function::RowText => row_text(arguments, meter),
        _ => Ok(nth(arguments, 0).clone()),
    }
}

fn of_network(function: Function, address: &Value) -> Value {
    let Some(network) = address.as_bytes().and_then(Network::of) else { return Value::Null };
    match function {
        Function::Host => Value::from(network.host()),
        Function::Family => Value::Int(if network.is_version_6 { 6 } else { 4 }),
        _ => Value::Int(network.bits.into()),
    }
}

/// An address as text, or each of an array; `shown`: as one of the type `inet` is written.
fn network_text(address: &Value, shown: bool) -> Value {
    if let Value::Array(addresses) = address {
        return addresses
            .iter()
            .map(|address| network_text(address, shown))
            .collect::<Vec<_>>()
            .into();
    }
    let Some(network) = address.as_bytes().and_then(Network::of) else { return Value::Null };
    Value::from(if shown { network.shown_text() } else { network.whole_text() })
}

/// A `real` as the text that it is shown as, or as the numeric of its six digits; and arrays.
fn real_digits(real: &Value, result: &DataType) -> Result<Value> {
    match (real, result) {
        (Value::Array(elements), DataType::Array(of)) => {
            let digits = elements.iter().map(|element| real_digits(element, of));
            Ok(Value::from(digits.collect::<Result<Vec<_>>>()?))
        }
        (Value::Array(_), _) => {
            let reals = DataType::Array(Box::new(DataType::Float4));
            Ok(Value::from(real.to_text(&reals)))
        }
        (Value::Float(x), DataType::Numeric(_)) => numeric::from_f32(*x as f32).map(Value::Numeric),
        (Value::Float(_), _) => Ok(Value::from(real.to_text(&DataType::Float4))),
        _ => Ok(Value::Null),
    }
}

fn row_text(texts: &[Cow<'_, Value>], meter: &Meter) -> Result<Value> {
    let texts: Vec<Value> = texts.iter().map(|text| Value::clone(text)).collect();
    let mut row = Vec::new();
    let field = |_: usize, text: &Value, out: &mut Vec<u8>| {
        out.extend_from_slice(text.as_text().unwrap_or_default().as_bytes());
        Ok(())
    };
    types::record::write_fields(&texts, field, &mut row)?;
    meter.spend_bytes(row.len())?;
    Ok(String::from_utf8(row).map_or(Value::Null, Value::from))
}

fn extreme(arguments: &[Cow<'_, Value>], better: fn(std::cmp::Ordering) -> bool) -> Value {
    let mut best = &Value::Null;
    for argument in arguments.iter().filter(|a| !a.is_null()) {
        if best.is_null() || compare(argument, best).is_some_and(better) {
            best = argument;
        }
    }
    best.clone()
}

fn sign(value: &Value) -> Value {
    match value {
        Value::Numeric(d) if d.is_nan() => value.clone(),
        Value::Numeric(d) if d.is_zero() => Value::Numeric(Numeric::ZERO),
        Value::Numeric(d) if d.is_negative() => Value::Numeric(numeric::neg(&Numeric::ONE)),
        Value::Numeric(_) => Value::Numeric(Numeric::ONE),
        Value::Float(x) if *x == 0.0 || x.is_nan() => Value::Float(*x),
        Value::Float(x) => Value::Float(x.signum()),
        other => other.clone(),
    }
}

/// The greatest common divisor, or the least common multiple.
fn divisor(function: Function, a: &Value, b: &Value, result: &DataType) -> Result<Value> {
    let (Some(a), Some(b)) = (a.as_int(), b.as_int()) else { return Ok(Value::Null) };
    let (a, b) = (i128::from(a).abs(), i128::from(b).abs());
    let (mut divisor, mut rest) = (a, b);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    let answer = match function {
        Function::Lcm if divisor == 0 => 0,
        Function::Lcm => a / divisor * b,
        _ => divisor,
    };
    let is_in_range = match result {
        DataType::Int8 => i64::try_from(answer).is_ok(),
        _ => i32::try_from(answer).is_ok(),
    };
    match i64::try_from(answer) {
        Ok(answer) if is_in_range => Ok(Value::Int(answer)),
        _ => {
            let what = format!("{result} out of range");
            Err(Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, what))
        }
    }
}

fn sqrt(value: &Value) -> Result<Value> {
    let negative =
        || Error::new(SqlState(*b"2201F"), "cannot take square root of a negative number");
    match value {
        Value::Float(x) if *x < 0.0 => Err(negative()),
        Value::Float(x) => Ok(Value::Float(x.sqrt())),
        Value::Numeric(d) => numeric::sqrt(d).map(Value::Numeric),
        _ => Ok(Value::Null),
    }
}

fn logarithm(function: Function, first: &Value, second: &Value) -> Result<Value> {
    let number = match (function, first, second) {
        (Function::Exp, Value::Numeric(x), _) => numeric::exp(x),
        (Function::Ln, Value::Numeric(x), _) => numeric::ln(x),
        (_, Value::Numeric(base), Value::Numeric(x)) => numeric::log(base, x),
        _ => return Ok(Value::Null),
    };
    number.map(Value::Numeric)
}

fn power(base: &Value, exponent: &Value, result: &DataType) -> Result<Value> {
    if let (Value::Numeric(base), Value::Numeric(exponent)) = (base, exponent) {
        return numeric::power_of(base, exponent).map(Value::Numeric);
    }
    let Some(exponent) = whole_exponent(exponent) else {
        return Err(Error::unsupported("power() with this exponent")
            .with_detail(format!(
                "Only whole exponents up to {POWER_EXPONENT_MAX} have one result on every machine."
            ))
            .with_hint("Powers of numeric have any exponent: power(x::numeric, y::numeric)."));
    };
    let base = cast(base, result, true)?;
    if exponent < 0 && base == Value::Float(0.0) {
        return Err(numeric::undefined());
    }
    let one = cast(&Value::Int(1), result, true)?;
    let (mut power, mut square, mut bits) = (one.clone(), base, exponent.unsigned_abs());
    while bits > 0 {
        if bits & 1 == 1 {
            power = mul(&power, &square, result)?;
        }
        bits >>= 1;
        if bits > 0 {
            square = mul(&square, &square, result)?;
        }
    }
    match exponent < 0 {
        true => div(&one, &power, result),
        false => Ok(power),
    }
}

fn whole_exponent(exponent: &Value) -> Option<i32> {
    let whole = match exponent {
        Value::Int(i) => *i,
        Value::Float(x) if x.fract() == 0.0 && x.abs() < 1e9 => *x as i64,
        _ => return None,
    };
    i32::try_from(whole).ok().filter(|whole| whole.unsigned_abs() <= POWER_EXPONENT_MAX)
}

/// What an operation on numerics of many digits costs beside its call.
fn digits_units(function: Function, arguments: &[Cow<'_, Value>]) -> u64 {
    use Function::*;
    let number = |n: usize| arguments.get(n).and_then(|argument| argument.as_numeric());
    let Some(first) = number(0) else { return 0 };
    match (function, number(1)) {
        (Ceil | Floor | Round | Trunc, _) => {
            let to = arguments.get(1).map_or(0, |digits| as_i32(digits));
            numeric::work::of_scale(first, to)
        }
        (Mod | Div, Some(second)) => numeric::work::of_operator(ArithmeticOp::Mod, first, second),
        (Sqrt, _) => numeric::work::of_root(first),
        (Power, Some(exponent)) => numeric::work::of_power_of(first, exponent),
        (Exp, _) => numeric::work::of_exp(first),
        (Ln, _) => numeric::work::of_ln(first),
        (Log, Some(second)) => numeric::work::of_log(first, second),
        (Greatest | Least, Some(_)) => {
            let others = arguments.iter().skip(1).filter_map(|argument| argument.as_numeric());
            others.map(|other| numeric::work::of_alignment(first, other)).sum()
        }
        _ => 0,
    }
}

/// A value breaks a rule of its domain; without a constraint it is NULL.
pub fn domain_fault(domain: &str, constraint: Option<&str>) -> Error {
    match constraint {
        None => {
            let what = format!("domain {domain} does not allow null values");
            Error::new(SqlState::NOT_NULL_VIOLATION, what)
        }
        Some(name) => {
            let what = format!("value for domain {domain} violates check constraint \"{name}\"");
            Error::new(SqlState::CHECK_VIOLATION, what).with_constraint(name)
        }
    }
}

fn domain_error(arguments: &[Cow<'_, Value>]) -> Error {
    let text = |n: usize| nth(arguments, n).as_text();
    domain_fault(text(0).unwrap_or_default(), text(1)).with_schema(text(2).unwrap_or_default())
}

/// PostgreSQL's `Failing row contains (…)`: values as text, cut at 64 bytes.
fn failing_row(arguments: &[Cow<'_, Value>]) -> Value {
    const VALUE_BYTES_MAX: usize = 64;
    let shown = arguments.iter().map(|argument| match &**argument {
        Value::Null => "null".to_owned(),
        value => {
            let mut text = value.to_string();
            if text.len() > VALUE_BYTES_MAX {
                text.truncate(text.floor_char_boundary(VALUE_BYTES_MAX));
                text.push_str("...");
            }
            text
        }
    });
    let list: Vec<String> = shown.collect();
    Value::text(format!("Failing row contains ({}).", list.join(", ")))
}
