//! Functions that give rows, in an order of their own.
//!
//! Nothing is gathered: a row is made when the one before it has been taken, so a LIMIT ends the
//! longest series. Each row is paid for, and a text that is cut into parts by its length.

use std::ops::ControlFlow;

use types::{Error, Interval, SqlState, Value, moments};

use crate::functions::{JsonRows, json};
use crate::meter::Meter;
use crate::query::RowFunction;
use crate::run_query::{Flow, Sink};

/// Push the rows of a call.
pub(crate) fn call(function: RowFunction, inputs: &[Value], meter: &Meter, sink: Sink<'_>) -> Flow {
    if let RowFunction::Around { call, .. } = function {
        return around(call, inputs, meter, sink);
    }
    if let (RowFunction::Json(of), [value]) = (function, inputs) {
        return match value {
            // A record without any member.
            Value::Null if of == JsonRows::Record => sink(&[Value::Null]),
            Value::Null => Ok(ControlFlow::Continue(())),
            value => json::rows::rows(of, value, meter, sink),
        };
    }
    let paid = &mut |value: &Value| {
        meter.spend(1)?;
        sink(std::slice::from_ref(value))
    };
    match (function, inputs) {
        (RowFunction::Elements, [Value::Array(elements)]) => each(elements.iter(), paid),
        (RowFunction::Integers, [Value::Int(first), Value::Int(last), Value::Int(step)]) => {
            integers(*first, *last, *step, paid)
        }
        (
            RowFunction::Moments,
            [Value::Timestamp(first), Value::Timestamp(last), Value::Interval(step)],
        ) => moments(*first, *last, *step, |us| paid(&Value::Timestamp(us))),
        (
            RowFunction::Moments,
            [Value::Timestamptz(first), Value::Timestamptz(last), Value::Interval(step)],
        ) => moments(*first, *last, *step, |us| paid(&Value::Timestamptz(us))),
        (RowFunction::Parts, [Value::Text(text), separator, null]) => {
            meter.spend_characters(text.len())?;
            parts(text, separator.as_text(), |part| match null.as_text() == Some(part) {
                true => paid(&Value::Null),
                false => paid(&Value::text(part)),
            })
        }
        (RowFunction::Matches, [Value::Text(_), Value::Text(_), Value::Text(_)]) => {
            let mut flow = Ok(ControlFlow::Continue(()));
            crate::regex::every_match(inputs, meter, |groups| {
                flow = paid(&groups);
                Ok(matches!(flow, Ok(ControlFlow::Continue(()))))
            })?;
            flow
        }
        _ => Ok(ControlFlow::Continue(())),
    }
}

fn around(call: u16, inputs: &[Value], meter: &Meter, sink: Sink<'_>) -> Flow {
    for row in meter.surroundings()?.rows(call, inputs)? {
        meter.spend(1)?;
        if sink(&row)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn each<T>(items: impl Iterator<Item = T>, mut sink: impl FnMut(T) -> Flow) -> Flow {
    for item in items {
        if sink(item)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn no_step() -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero")
}

fn integers(first: i64, last: i64, step: i64, sink: &mut dyn FnMut(&Value) -> Flow) -> Flow {
    if step == 0 {
        return Err(no_step().into());
    }
    let within = |i: &i64| if step > 0 { *i <= last } else { *i >= last };
    let next = |i: &i64| i.checked_add(step).filter(within);
    each(std::iter::successors(Some(first).filter(within), next), |i| sink(&Value::Int(i)))
}

/// Each is the one before and a step, so that months which end a month early stay so.
fn moments(first: i64, last: i64, step: Interval, mut sink: impl FnMut(i64) -> Flow) -> Flow {
    let length = step.span_us();
    if length == 0 {
        return Err(no_step().into());
    }
    let mut at = first;
    while if length > 0 { at <= last } else { at >= last } {
        if sink(at)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        at = moments::moved(at, step)?;
    }
    Ok(ControlFlow::Continue(()))
}

fn parts(text: &str, separator: Option<&str>, mut sink: impl FnMut(&str) -> Flow) -> Flow {
    match separator {
        _ if text.is_empty() => Ok(ControlFlow::Continue(())),
        None => each(text.chars(), |c| sink(c.encode_utf8(&mut [0; 4]))),
        Some("") => sink(text),
        Some(separator) => each(text.split(separator), sink),
    }
}
