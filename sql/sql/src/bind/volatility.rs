//! What is not immutable: it depends on more than its arguments, in PostgreSQL if not here.
//!
//! An index holds what an expression came to when a row was written, and a generated column does;
//! so both may hold only what stays what it is. A label of an enum is renamed, a date is shown by
//! the session's `DateStyle`, and so are arrays and rows that may have one in them. PostgreSQL has
//! marked such conversions stable, and refuses them there. Here settings do not reach an index, but
//! a dump of the one is a dump of the other, and labels change here too.

use types::DataType;

/// Whether a value is another text in another session, or later.
fn is_shown_by_more(of: &DataType) -> bool {
    match of {
        DataType::Interval(_) | DataType::Enum(_) | DataType::Array(_) | DataType::Record(_) => {
            true
        }
        other => other.is_datetime(),
    }
}

/// Whether a text is another value in another session, or later.
fn is_read_by_more(of: &DataType) -> bool {
    is_shown_by_more(of) || matches!(of, DataType::Time(_) | DataType::Timetz(_))
}

/// Whether a conversion goes through a text that is not always the same.
pub(super) fn converts_stably(from: &DataType, to: &DataType) -> bool {
    match (from.is_string(), to.is_string()) {
        (false, true) => is_shown_by_more(from),
        (true, false) => is_read_by_more(to),
        _ => match (from, to) {
            // What is in them is converted.
            (DataType::Array(from), DataType::Array(to)) => converts_stably(from, to),
            _ => false,
        },
    }
}

/// Functions that are stable whatever they are given.
pub(super) fn is_stable(function: &str) -> bool {
    const STABLE: [&str; 22] = [
        "array_to_json",
        "array_to_string",
        "concat",
        "concat_ws",
        "enum_first",
        "enum_last",
        "enum_range",
        "format",
        "json_build_array",
        "json_build_object",
        "json_populate_record",
        "json_to_record",
        "jsonb_build_array",
        "jsonb_build_object",
        "jsonb_populate_record",
        "jsonb_to_record",
        "row_to_json",
        "to_char",
        "to_date",
        "to_json",
        "to_jsonb",
        "to_number",
    ];
    debug_assert!(STABLE.is_sorted());
    STABLE.binary_search(&function).is_ok()
}
