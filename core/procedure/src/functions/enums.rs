//! Functions of enums: what positions are called, and which there are.
//!
//! A value is a position alone ([`types::enums`]), so a call brings its type's labels along as a
//! constant: the type's number, then position and label of each, in their order.

use std::borrow::Cow;

use types::arithmetic::check_made_bytes;
use types::{Result, Value};

use super::arguments::nth;
use super::function::Function;
use crate::meter::Meter;

pub(super) fn call(
    function: Function,
    arguments: &[Cow<'_, Value>],
    meter: &Meter,
) -> Result<Value> {
    let labels = arguments.last().and_then(|labels| labels.as_array()).unwrap_or(&[]);
    let (pairs, _) = labels.get(1..).unwrap_or(&[]).as_chunks::<2>();
    let (first, second) = (nth(arguments, 0), nth(arguments, 1));
    match (function, first) {
        (Function::EnumLabel, Value::Array(positions)) => {
            let shown = positions.iter().map(|position| label(position, pairs));
            let shown: Vec<Value> = shown.collect();
            let made = shown.iter().map(Value::weight).sum();
            check_made_bytes(made)?;
            meter.spend_bytes(made)?;
            Ok(Value::from(shown))
        }
        (Function::EnumLabel, position) => Ok(label(position, pairs)),
        _ => {
            let positions = pairs.iter().map(|[position, _]| position);
            let from = positions.skip_while(|p| !first.is_null() && p.as_int() < first.as_int());
            let within = from.take_while(|p| second.is_null() || p.as_int() <= second.as_int());
            let within: Vec<Value> = within.cloned().collect();
            meter.spend_bytes(pairs.len() * types::value::VALUE_WEIGHT)?;
            Ok(Value::from(within))
        }
    }
}

/// What is no label is shown as the number it is, as everywhere.
fn label(position: &Value, pairs: &[[Value; 2]]) -> Value {
    let Value::Int(number) = position else { return Value::Null };
    match pairs.binary_search_by_key(&Some(*number), |[position, _]| position.as_int()) {
        Ok(place) => pairs[place][1].clone(),
        Err(_) => Value::from(number.to_string()),
    }
}
