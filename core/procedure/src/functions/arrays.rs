//! Functions of arrays of one dimension. Places count from 1.

use std::borrow::Cow;

use types::arithmetic::{check_made_bytes, joined};
use types::compare::{compare, equal};
use types::value::VALUE_WEIGHT;
use types::{Error, Result, SqlState, Value};

use super::arguments::nth;
use super::function::Function;
use crate::meter::Meter;

/// The arguments are paid for; what may become longer is paid for here.
pub(super) fn call(
    function: Function,
    arguments: &[Cow<'_, Value>],
    meter: &Meter,
) -> Result<Value> {
    let (first, second) = (nth(arguments, 0), nth(arguments, 1));
    let length = |value: &Value| value.as_array().map_or(0, <[Value]>::len) as i64;
    let in_only_dimension = matches!(second, Value::Int(1)) && length(first) > 0;
    Ok(match function {
        Function::Cardinality => Value::Int(count_of_all(first)),
        Function::ArrayLength | Function::ArrayUpper if in_only_dimension => {
            Value::Int(length(first))
        }
        Function::ArrayLower if in_only_dimension => Value::Int(1),
        Function::ArrayAppend => {
            joined(first.as_array().unwrap_or(&[]), std::slice::from_ref(second))?
        }
        Function::ArrayPrepend => {
            joined(std::slice::from_ref(first), second.as_array().unwrap_or(&[]))?
        }
        Function::ArrayCat if first.is_null() => second.clone(),
        Function::ArrayCat if second.is_null() => first.clone(),
        Function::ArrayCat => {
            joined(first.as_array().unwrap_or(&[]), second.as_array().unwrap_or(&[]))?
        }
        Function::ArrayPosition => {
            let mut elements = first.as_array().unwrap_or(&[]).iter();
            let place = elements.position(|element| is_same(element, second));
            place.map_or(Value::Null, |place| Value::Int(place as i64 + 1))
        }
        Function::ArrayPositions => match first.as_array() {
            None => Value::Null,
            Some(elements) => {
                let places = (1..).zip(elements).filter(|(_, element)| is_same(element, second));
                Value::from(places.map(|(place, _)| Value::Int(place)).collect::<Vec<_>>())
            }
        },
        Function::ArrayRemove => match first.as_array() {
            None => Value::Null,
            Some(elements) => {
                let kept = elements.iter().filter(|element| !is_same(element, second));
                Value::from(kept.cloned().collect::<Vec<_>>())
            }
        },
        Function::ArrayReplace => match first.as_array() {
            None => Value::Null,
            Some(elements) => replaced(elements, (second, nth(arguments, 2)), meter)?,
        },
        Function::ArrayToString => match (first.as_array(), second.as_text()) {
            (Some(elements), Some(separator)) => {
                let null = nth(arguments, 2).as_text();
                Value::from(listed(elements, separator, null, meter)?)
            }
            _ => Value::Null,
        },
        Function::StringToArray => match first.as_text() {
            None => Value::Null,
            Some(text) => {
                let null = nth(arguments, 2).as_text();
                Value::from(parts(text, second.as_text(), null, meter)?)
            }
        },
        Function::ArrayContains => Value::Bool(contains(first, second, meter)?),
        Function::ArrayOverlaps => Value::Bool(overlaps(first, second, meter)?),
        Function::ArraySlice => slice(first, &arguments[1..])?,
        Function::ArraySet => set(first, second, nth(arguments, 2))?,
        _ => Value::Null,
    })
}

/// NULL equals nothing here, so an array that has one is in none.
fn contains(whole: &Value, part: &Value, meter: &Meter) -> Result<bool> {
    let (whole, part) = (whole.as_array().unwrap_or(&[]), part.as_array().unwrap_or(&[]));
    meter.spend_bytes(whole.len().saturating_mul(part.len()))?;
    let is_in = |element: &Value| whole.iter().any(|other| equal(other, element) == Some(true));
    Ok(part.iter().all(is_in))
}

fn overlaps(one: &Value, other: &Value, meter: &Meter) -> Result<bool> {
    let (one, other) = (one.as_array().unwrap_or(&[]), other.as_array().unwrap_or(&[]));
    meter.spend_bytes(one.len().saturating_mul(other.len()))?;
    Ok(one.iter().any(|a| other.iter().any(|b| equal(a, b) == Some(true))))
}

/// `a[lower:upper]`; what was left out is the array's own bound. The bounds are followed by whether
/// each was given: one that was and is NULL makes all NULL.
fn slice(array: &Value, bounds: &[Cow<'_, Value>]) -> Result<Value> {
    let (Some(elements), [lower, upper, has_lower, has_upper]) = (array.as_array(), bounds) else {
        return Ok(Value::Null);
    };
    let bound = |value: &Value, is_given: &Value, own: i64| match is_given.as_bool() {
        Some(true) => value.as_int(),
        _ => Some(own),
    };
    let length = elements.len() as i64;
    let (Some(lower), Some(upper)) = (bound(lower, has_lower, 1), bound(upper, has_upper, length))
    else {
        return Ok(Value::Null);
    };
    let (from, to) = (lower.max(1), upper.min(length));
    Ok(match from <= to {
        true => Value::from(elements[from as usize - 1..to as usize].to_vec()),
        false => Value::array([]),
    })
}

/// Places between the end and a new one are NULL.
fn set(array: &Value, place: &Value, value: &Value) -> Result<Value> {
    let mut elements = array.as_array().unwrap_or(&[]).to_vec();
    let Some(place) = place.as_int() else {
        let what = "array subscript in assignment must not be null";
        return Err(Error::new(SqlState(*b"22004"), what));
    };
    if place < 1 || (elements.is_empty() && place > 1) {
        return Err(Error::unsupported("an array whose first element is not its number 1"));
    }
    let at = usize::try_from(place - 1).unwrap_or(usize::MAX);
    check_made_bytes(at.saturating_add(1).saturating_mul(VALUE_WEIGHT))?;
    if at >= elements.len() {
        elements.resize(at + 1, Value::Null);
    }
    elements[at] = value.clone();
    Ok(Value::from(elements))
}

/// Elements of an array, and of those inside it.
fn count_of_all(value: &Value) -> i64 {
    match value.as_array() {
        Some(elements) if matches!(elements.first(), Some(Value::Array(_))) => {
            elements.iter().map(count_of_all).sum()
        }
        Some(elements) => elements.len() as i64,
        None => 0,
    }
}

/// As IS NOT DISTINCT FROM has it.
fn is_same(element: &Value, wanted: &Value) -> bool {
    match compare(element, wanted) {
        Some(ordering) => ordering.is_eq(),
        None => element.is_null() && wanted.is_null(),
    }
}

fn replaced(elements: &[Value], (from, to): (&Value, &Value), meter: &Meter) -> Result<Value> {
    let times = elements.iter().filter(|element| is_same(element, from)).count();
    let made = times.saturating_mul(to.weight());
    check_made_bytes(made)?;
    meter.spend_bytes(made)?;
    let all = elements.iter().map(|it| if is_same(it, from) { to } else { it });
    Ok(Value::from(all.cloned().collect::<Vec<_>>()))
}

/// Elements in their output form. NULLs are left out unless there is a text for them.
fn listed(
    elements: &[Value],
    separator: &str,
    null: Option<&str>,
    meter: &Meter,
) -> Result<String> {
    let mut out = None;
    list(elements, separator, null, meter, &mut out)?;
    Ok(out.unwrap_or_default())
}

/// `out`: nothing before the first.
fn list(
    elements: &[Value],
    separator: &str,
    null: Option<&str>,
    meter: &Meter,
    out: &mut Option<String>,
) -> Result<()> {
    for element in elements {
        let text = match (element, null) {
            (Value::Null, None) => continue,
            (Value::Null, Some(null)) => Cow::Borrowed(null),
            (Value::Text(text), _) => Cow::Borrowed(text.as_str()),
            (Value::Bool(truth), _) => Cow::Borrowed(if *truth { "t" } else { "f" }),
            (Value::Array(inside), _) => {
                list(inside, separator, null, meter, out)?;
                continue;
            }
            (other, _) => Cow::Owned(other.to_text(&other.data_type_hint())),
        };
        let separator = if out.is_none() { "" } else { separator };
        meter.spend_bytes(separator.len() + text.len())?;
        let out = out.get_or_insert_default();
        out.push_str(separator);
        out.push_str(&text);
        check_made_bytes(out.len())?;
    }
    Ok(())
}

/// Without a separator each character is an element; an empty one is in no text.
fn parts(
    text: &str,
    separator: Option<&str>,
    null: Option<&str>,
    meter: &Meter,
) -> Result<Vec<Value>> {
    let value = |part: &str| match Some(part) == null {
        true => Value::Null,
        false => Value::text(part),
    };
    let mut out = Vec::new();
    let mut take = |part: &str| -> Result<()> {
        let value = value(part);
        meter.spend_bytes(value.weight())?;
        out.push(value);
        Ok(())
    };
    match separator {
        _ if text.is_empty() => {}
        None => {
            let mut room = [0; 4];
            text.chars().try_for_each(|c| take(c.encode_utf8(&mut room)))?;
        }
        Some("") => take(text)?,
        Some(separator) => text.split(separator).try_for_each(take)?,
    }
    check_made_bytes(out.iter().map(Value::weight).sum())?;
    Ok(out)
}
