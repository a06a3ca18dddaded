//! Functions that give a row for each element or member of JSON.

use std::ops::ControlFlow;

use types::json::raw::{Kind, Raw};
use types::{DataType, Result, Stop, Value};

use super::kinds::JsonRows;
use super::{given, invalid, whole};
use crate::meter::Meter;

/// As of a query.
type Flow = Result<ControlFlow<()>, Stop>;

/// Pushes the rows of a call.
pub(crate) fn rows(
    of: JsonRows,
    value: &Value,
    meter: &Meter,
    sink: &mut dyn FnMut(&[Value]) -> Flow,
) -> Flow {
    let is_jsonb = matches!(value, Value::Jsonb(_));
    let whole = whole(value);
    meter.spend_bytes(whole.text().len())?;
    let wanted = if of.is_of_object() { Kind::Object } else { Kind::Array };
    if whole.kind() != wanted {
        return Err(invalid(misfit(of, whole.kind(), is_jsonb)).into());
    }
    let result = match of {
        JsonRows::ElementTexts | JsonRows::MemberTexts => DataType::Text,
        _ if is_jsonb => DataType::Jsonb,
        _ => DataType::Json,
    };
    let part = |part: Raw<'_>| -> Result<Value> {
        meter.spend(1)?;
        meter.spend_bytes(part.text().len())?;
        given(Some(part), &result)
    };
    if of == JsonRows::Record {
        return sink(&[part(whole)?]);
    }
    for element in whole.elements() {
        if of == JsonRows::Records && element.kind() != Kind::Object {
            let prefix = if is_jsonb { "jsonb" } else { "json" };
            let what = format!("argument of {prefix}_to_recordset must be an array of objects");
            return Err(invalid(what).into());
        }
        if sink(&[part(element)?])?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    for (key, member) in whole.members() {
        let key = Value::text(key.said()?);
        let flow = match of {
            JsonRows::Keys => {
                meter.spend(1)?;
                sink(&[key])?
            }
            _ => sink(&[key, part(member)?])?,
        };
        if flow.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// PostgreSQL's words, which differ between the two types.
fn misfit(of: JsonRows, kind: Kind, is_jsonb: bool) -> String {
    let prefix = if is_jsonb { "jsonb" } else { "json" };
    match (of, kind) {
        (JsonRows::Keys, Kind::Array) => format!("cannot call {prefix}_object_keys on an array"),
        (JsonRows::Keys, _) => format!("cannot call {prefix}_object_keys on a scalar"),
        (JsonRows::Record, Kind::Array) => "cannot call populate_composite on an array".to_owned(),
        (JsonRows::Record, _) => "cannot call populate_composite on a scalar".to_owned(),
        (JsonRows::Records, _) if is_jsonb => {
            "cannot call jsonb_to_recordset on a non-array".to_owned()
        }
        (JsonRows::Records, Kind::Object) => {
            "cannot call json_to_recordset on an object".to_owned()
        }
        (JsonRows::Records, _) => "cannot call json_to_recordset on a scalar".to_owned(),
        (JsonRows::Members, _) if is_jsonb => "cannot call jsonb_each on a non-object".to_owned(),
        (JsonRows::MemberTexts, _) if is_jsonb => {
            "cannot call jsonb_each_text on a non-object".to_owned()
        }
        (JsonRows::Members | JsonRows::MemberTexts, Kind::Array) => {
            "cannot deconstruct an array as an object".to_owned()
        }
        (JsonRows::Members | JsonRows::MemberTexts, _) => "cannot deconstruct a scalar".to_owned(),
        (_, Kind::Object) if is_jsonb => "cannot extract elements from an object".to_owned(),
        (_, _) if is_jsonb => "cannot extract elements from a scalar".to_owned(),
        (of, kind) => {
            let text = if of == JsonRows::ElementTexts { "_text" } else { "" };
            let what = if kind == Kind::Object { "non-array" } else { "scalar" };
            format!("cannot call json_array_elements{text} on a {what}")
        }
    }
}
