//! Values as JSON.

use crate::datatype::DataType;
use crate::json::write::push_string;
use crate::value::Value;

/// A value as `to_json` has it. A text is a string, or JSON where `texts_are_json`.
pub fn push_value(value: &Value, texts_are_json: bool, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Text(text) if texts_are_json => out.push_str(text),
        Value::Text(text) => push_string(text, out),
        Value::Jsonb(json) => out.push_str(json.as_str()),
        Value::Array(elements) => {
            out.push('[');
            for (place, element) in elements.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                push_value(element, texts_are_json, out);
            }
            out.push(']');
        }
        Value::Int(_) | Value::Float(_) | Value::Numeric(_) => {
            let text = value.to_text(&value.data_type_hint());
            // NaN and the infinities are no numbers of JSON.
            match text.bytes().any(|byte| byte.is_ascii_alphabetic() && byte != b'e') {
                true => push_string(&text, out),
                false => out.push_str(&text),
            }
        }
        Value::Timestamp(_) => {
            push_string(&value.to_text(&DataType::Timestamp(None)).replacen(' ', "T", 1), out);
        }
        Value::Timestamptz(_) => {
            let text = value.to_text(&DataType::Timestamptz(None)).replacen(' ', "T", 1);
            push_string(&text.replacen("+00", "+00:00", 1), out);
        }
        other => push_string(&other.to_text(&other.data_type_hint()), out),
    }
}
