//! Rows and keys as text that SQL of either system computes: what hashes are over.
//!
//! ```text
//! row     the fields of all columns, in the order of their names
//! key     the fields of the key's columns, in that order
//! field   N                           NULL
//!         length ":" text             bytes of the text in UTF-8, decimal
//!
//! int     -7                          numeric(12,2)   -0.50
//! text    as it is                    bytes           00ff
//! boolean t, f                        date            days since 2000-01-01
//! uuid    lower case, with hyphens    timestamp       microseconds since 2000-01-01 00:00
//! ```
//!
//! A value that a kind does not have (the number 7 in a boolean of MariaDB, its date 0000-00-00)
//! is a text that begins with `!`, which no other system computes: it deviates, and is named.

use types::{Error, Result, SqlState};

use crate::schema::{Column, Table};

/// Appends a field.
pub fn put(text: Option<&str>, out: &mut String) {
    match text {
        None => out.push('N'),
        Some(text) => {
            out.push_str(&text.len().to_string());
            out.push(':');
            out.push_str(text);
        }
    }
}

/// The fields of a row or of a key. Strict: one row has one text.
pub fn fields(mut text: &str) -> Result<Vec<Option<&str>>> {
    let whole = text;
    let bad = || {
        Error::new(SqlState::DATA_CORRUPTED, "a row's canonical text cannot be read")
            .with_detail(format!("It is {whole:?}."))
    };
    let mut fields = Vec::new();
    while !text.is_empty() {
        if let Some(rest) = text.strip_prefix('N') {
            fields.push(None);
            text = rest;
            continue;
        }
        let (length, rest) = text.split_once(':').ok_or_else(bad)?;
        let bytes: usize = length.parse().map_err(|_| bad())?;
        if bytes.to_string() != length {
            return Err(bad());
        }
        let (field, rest) = rest.split_at_checked(bytes).ok_or_else(bad)?;
        fields.push(Some(field));
        text = rest;
    }
    Ok(fields)
}

/// `accounts (id = 42)`, for people.
pub fn row_name(table: &Table, key: &str) -> String {
    let named = |(column, field): (&Column, &Option<&str>)| {
        format!("{} = {}", column.name, field.unwrap_or("NULL"))
    };
    match fields(key) {
        Ok(fields) => {
            let columns: Vec<String> = table.key().zip(&fields).map(named).collect();
            format!("{} ({})", table.name, columns.join(", "))
        }
        Err(_) => format!("{} ({key:?})", table.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_one_text() {
        let mut text = String::new();
        let row = [None, Some(""), Some("ä:N"), None, Some("4:abcd")];
        row.iter().for_each(|field| put(*field, &mut text));
        assert_eq!(text, "N0:4:ä:NN6:4:abcd");
        assert_eq!(fields(&text).unwrap(), row);
        for bad in ["4:abc", "x", "01:a", "+1:a", "1:", "1:ä"] {
            assert!(fields(bad).is_err(), "{bad:?}");
        }
    }
}
