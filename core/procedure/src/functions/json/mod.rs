//! Functions and operators of JSON.
//!
//! The type that a call gives says which of a pair of functions it is: `json_…` and `->` of a
//! `json` give [`DataType::Json`], `jsonb_…` [`DataType::Jsonb`], `->>` and its like text. A `json`
//! among the arguments is a text, and so is whatever the binder has made JSON of by
//! [`JsonFunction::Of`]: here texts that stand for values are JSON, and those that stand for keys
//! and paths are not.
//!
//! *Cost.* The arguments are paid for once by the call; what goes over them again, by each level
//! that it goes down, pays for itself.

mod contain;
mod edit;
mod keys;
pub(crate) mod kinds;
mod make;
pub(crate) mod rows;

use std::borrow::Cow;

use types::json::Jsonb;
use types::json::raw::{Kind, Raw};
use types::{DataType, Error, Result, SqlState, Value};

use super::arguments::nth;
use crate::meter::Meter;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JsonFunction {
    /// `->` and `->>`: by a key or a place.
    Get,
    /// `#>` and `#>>`: by a path.
    GetPath,
    Contains,
    HasKey,
    HasAnyKey,
    HasAllKeys,
    Concat,
    /// `-`, of a key, a place or several keys.
    Delete,
    DeletePath,
    Set,
    Insert,
    StripNulls,
    Pretty,
    Typeof,
    ArrayLength,
    /// `to_json`; also what other functions take their arguments as.
    Of,
    /// The same of an array of `json`.
    OfJsons,
    /// `array_to_json` and `row_to_json` with a line for each element or member.
    OfLines,
    BuildObject,
    BuildArray,
    /// An object of a row's columns: keys and values alternate.
    OfRow,
    /// The same with a line for each column.
    OfRowLines,
    /// `json_object`: of texts.
    Object,
    /// A key and its value, for [`JsonFunction::GatherMembers`].
    Member,
    /// What `json_agg` has gathered: values.
    Gather,
    /// The same of values that are JSON.
    GatherJsons,
    /// The same with a line for each.
    GatherLines,
    /// What `json_object_agg` has gathered.
    GatherMembers,
}

impl JsonFunction {
    /// Its operator, if it has one.
    pub(crate) fn sign(self, result: &DataType) -> Option<&'static str> {
        let is_text = *result == DataType::Text;
        Some(match self {
            JsonFunction::Get if is_text => "->>",
            JsonFunction::Get => "->",
            JsonFunction::GetPath if is_text => "#>>",
            JsonFunction::GetPath => "#>",
            JsonFunction::Contains => "@>",
            JsonFunction::HasKey => "?",
            JsonFunction::HasAnyKey => "?|",
            JsonFunction::HasAllKeys => "?&",
            JsonFunction::Concat => "||",
            JsonFunction::Delete => "-",
            JsonFunction::DeletePath => "#-",
            _ => return None,
        })
    }

    /// As PostgreSQL calls it, or what is nearest.
    pub(crate) fn name(self, result: &DataType) -> String {
        use JsonFunction::*;
        let prefix = if *result == DataType::Json { "json" } else { "jsonb" };
        match self {
            Of | OfJsons => return format!("to_{prefix}"),
            OfLines => return "array_to_json".to_owned(),
            OfRow | OfRowLines => return "row_to_json".to_owned(),
            _ => {}
        }
        let name = match self {
            Set => "set",
            Insert => "insert",
            StripNulls => "strip_nulls",
            Pretty => "pretty",
            Typeof => "typeof",
            ArrayLength => "array_length",
            BuildObject => "build_object",
            BuildArray => "build_array",
            Object => "object",
            Member => "member",
            Gather | GatherJsons | GatherLines => "agg",
            GatherMembers => "object_agg",
            _ => "",
        };
        format!("{prefix}_{name}")
    }

    pub(super) fn takes_nulls(self) -> bool {
        use JsonFunction::*;
        matches!(self, BuildObject | BuildArray | OfRow | OfRowLines | Member)
    }
}

pub(super) fn call(
    function: JsonFunction,
    arguments: &[Cow<'_, Value>],
    result: &DataType,
    meter: &Meter,
) -> Result<Value> {
    use JsonFunction as F;
    let (first, second) = (nth(arguments, 0), nth(arguments, 1));
    match function {
        F::Get => {
            let found = match second {
                Value::Int(place) => element(first, *place),
                key => whole(first).member(key.as_text().unwrap_or_default())?,
            };
            given(found, result)
        }
        F::GetPath => given(at_path(first, second.as_array().unwrap_or_default(), meter)?, result),
        F::Contains => contain::contains(whole(first), whole(second), meter).map(Value::Bool),
        F::HasKey | F::HasAnyKey | F::HasAllKeys => {
            keys::has_keys(function, whole(first), second, meter)
        }
        F::Concat | F::Delete | F::DeletePath | F::Set | F::Insert | F::StripNulls => {
            edit::call(function, arguments, result, meter)
        }
        F::Pretty => {
            let mut out = String::new();
            let room = whole(first).text().len();
            // Each of its lines is moved in by its depth.
            meter.spend_bytes(room)?;
            types::json::write::push_pretty(whole(first), &mut out)?;
            meter.spend_bytes(out.len())?;
            Ok(Value::from(out))
        }
        F::Typeof => Ok(Value::text(whole(first).kind().name())),
        F::ArrayLength => {
            let of = match whole(first).kind() {
                Kind::Array => return Ok(Value::Int(whole(first).elements().count() as i64)),
                Kind::Object => "non-array",
                _ => "scalar",
            };
            Err(invalid(format!("cannot get array length of a {of}")))
        }
        _ => make::call(function, arguments, result, meter),
    }
}

/// A value of one of the types.
pub(crate) fn whole(value: &Value) -> Raw<'_> {
    match value {
        Value::Jsonb(json) => json.raw(),
        Value::Text(text) => Raw::of_valid(text),
        _ => Raw::of_valid("null"),
    }
}

/// A part of a value, as a value of the type asked for.
pub(crate) fn given(found: Option<Raw<'_>>, result: &DataType) -> Result<Value> {
    let Some(found) = found else { return Ok(Value::Null) };
    Ok(match result {
        DataType::Jsonb => Value::Jsonb(Jsonb::stored(found.text().into())),
        DataType::Json => Value::text(found.text()),
        _ if found.kind() == Kind::Null => Value::Null,
        _ => Value::text(found.said()?),
    })
}

/// JSON that was made, as a value of the type asked for.
fn made(text: String, result: &DataType) -> Result<Value> {
    match result {
        DataType::Jsonb => Value::read_text(&DataType::Jsonb, &text),
        _ => {
            Raw::of_valid(&text).check_depth()?;
            Ok(Value::from(text))
        }
    }
}

/// As PostgreSQL has it, a scalar `jsonb` is an array of itself where places are asked for.
fn element(value: &Value, place: i64) -> Option<Raw<'_>> {
    let whole = whole(value);
    match value {
        Value::Jsonb(_) if whole.kind().is_scalar() => matches!(place, 0 | -1).then_some(whole),
        _ => whole.element(place),
    }
}

fn at_path<'a>(value: &'a Value, path: &[Value], meter: &Meter) -> Result<Option<Raw<'a>>> {
    let mut at = whole(value);
    for name in path {
        let Some(name) = name.as_text() else { return Ok(None) };
        meter.spend_bytes(at.text().len())?;
        let found = match at.kind() {
            Kind::Object => at.member(name)?,
            Kind::Array => place_of(name).and_then(|place| at.element(place)),
            _ => None,
        };
        match found {
            Some(found) => at = found,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

/// A number of 32 bits in a path, as C reads it.
fn place_of(name: &str) -> Option<i64> {
    let digits = name.trim_start_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}']);
    digits.parse::<i32>().ok().map(i64::from)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
