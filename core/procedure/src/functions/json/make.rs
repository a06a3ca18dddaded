//! Functions that make JSON of other values.

use std::borrow::Cow;

use types::arithmetic::check_made_bytes;
use types::json::raw::Raw;
use types::json::write::push_string;
use types::to_json::push_value;
use types::{DataType, Error, Result, SqlState, Value};

use super::{JsonFunction, invalid, made, whole};
use crate::functions::arguments::nth;
use crate::meter::Meter;

pub(super) fn call(
    function: JsonFunction,
    arguments: &[Cow<'_, Value>],
    result: &DataType,
    meter: &Meter,
) -> Result<Value> {
    use JsonFunction as F;
    let first = nth(arguments, 0);
    let mut out = Made { out: String::new(), meter };
    match function {
        F::Of | F::OfJsons => {
            if let (F::Of, Value::Jsonb(_), DataType::Jsonb) = (function, first, result) {
                return Ok(first.clone());
            }
            push_value(first, function == F::OfJsons, &mut out.out);
        }
        F::OfLines => out.lines(whole(first), ('[', ']'))?,
        F::BuildArray => {
            out.list('[', ", ", ']', arguments.iter().map(|value| whole(value).text()))?;
        }
        F::BuildObject => build_object(arguments, result, &mut out)?,
        F::OfRow | F::OfRowLines => {
            let comma = if function == F::OfRow { "," } else { ",\n " };
            out.out.push('{');
            for (place, pair) in arguments.chunks(2).enumerate() {
                out.push(if place > 0 { comma } else { "" })?;
                push_string(nth(pair, 0).as_text().unwrap_or_default(), &mut out.out);
                out.push(":")?;
                out.push(whole(nth(pair, 1)).text())?;
            }
            out.push("}")?;
        }
        F::Object => object(arguments, &mut out)?,
        F::Member => {
            let Some(key) = first.as_text() else {
                return Err(invalid("field name must not be null"));
            };
            push_string(key, &mut out.out);
            out.push(" : ")?;
            out.push(whole(nth(arguments, 1)).text())?;
            return Ok(Value::from(out.out));
        }
        F::Gather | F::GatherJsons | F::GatherLines | F::GatherMembers => {
            let (open, comma, close) = match function {
                F::Gather | F::GatherJsons => ("[", ", ", "]"),
                F::GatherLines => ("[", ", \n ", "]"),
                _ => ("{ ", ", ", " }"),
            };
            out.push(open)?;
            let parts = first.as_array().unwrap_or_default();
            for (place, part) in parts.iter().enumerate() {
                out.push(match part {
                    _ if place == 0 => "",
                    // Nothing that would take a line of its own.
                    Value::Null => ", ",
                    _ => comma,
                })?;
                meter.spend_bytes(part.weight())?;
                push_value(part, function != F::Gather, &mut out.out);
                check_made_bytes(out.out.len())?;
            }
            out.push(close)?;
        }
        _ => return Ok(Value::Null),
    }
    made(out.out, result)
}

/// A text that is paid for as it grows.
struct Made<'m> {
    out: String,
    meter: &'m Meter,
}

impl Made<'_> {
    fn push(&mut self, text: &str) -> Result<()> {
        self.meter.spend_bytes(text.len())?;
        check_made_bytes(self.out.len() + text.len())?;
        self.out.push_str(text);
        Ok(())
    }

    fn list<'t>(
        &mut self,
        open: char,
        comma: &str,
        close: char,
        parts: impl Iterator<Item = &'t str>,
    ) -> Result<()> {
        self.out.push(open);
        for (place, part) in parts.enumerate() {
            self.push(if place > 0 { comma } else { "" })?;
            self.push(part)?;
        }
        self.out.push(close);
        Ok(())
    }

    fn lines(&mut self, array: Raw<'_>, (open, close): (char, char)) -> Result<()> {
        self.list(open, ",\n ", close, array.elements().map(Raw::text))
    }
}

/// Keys are texts, values JSON.
fn build_object(arguments: &[Cow<'_, Value>], result: &DataType, out: &mut Made<'_>) -> Result<()> {
    out.out.push('{');
    for (place, pair) in arguments.chunks(2).enumerate() {
        let Some(key) = nth(pair, 0).as_text() else {
            let number = 2 * place + 1;
            return Err(match result {
                DataType::Jsonb => invalid(format!("argument {number}: key must not be null")),
                _ => invalid(format!("argument {number} cannot be null"))
                    .with_hint("Object keys should be text."),
            });
        };
        out.push(if place > 0 { ", " } else { "" })?;
        push_string(key, &mut out.out);
        out.push(" : ")?;
        out.push(whole(nth(pair, 1)).text())?;
    }
    out.push("}")
}

/// Of an array in which keys and values alternate, or which has pairs; or of one of each.
fn object(arguments: &[Cow<'_, Value>], out: &mut Made<'_>) -> Result<()> {
    let subscripts = |what: &str| Error::new(SqlState::ARRAY_SUBSCRIPT_ERROR, what);
    let all = |value: &Value| value.as_array().unwrap_or_default().to_vec();
    let pairs: Vec<(Value, Value)> = match arguments {
        [both] => {
            let mut flat = Vec::new();
            for element in all(both) {
                match &element {
                    Value::Array(pair) if pair.len() == 2 => flat.extend_from_slice(pair),
                    Value::Array(_) => {
                        return Err(subscripts("array must have two columns"));
                    }
                    _ => flat.push(element),
                }
            }
            if flat.len() % 2 == 1 {
                return Err(subscripts("array must have even number of elements"));
            }
            flat.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
        }
        [keys, values] => {
            let (keys, values) = (all(keys), all(values));
            if keys.len() != values.len() {
                return Err(subscripts("mismatched array dimensions"));
            }
            keys.into_iter().zip(values).collect()
        }
        _ => Vec::new(),
    };
    out.out.push('{');
    for (place, (key, value)) in pairs.iter().enumerate() {
        let Some(key) = key.as_text() else {
            let message = "null value not allowed for object key";
            return Err(Error::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        };
        out.push(if place > 0 { ", " } else { "" })?;
        out.meter.spend_bytes(key.len())?;
        push_string(key, &mut out.out);
        out.push(" : ")?;
        push_value(value, false, &mut out.out);
    }
    out.push("}")
}
