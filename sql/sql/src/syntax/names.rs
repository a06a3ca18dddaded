//! Names: folding, and the schemas that objects live in.
//!
//! The catalog knows relations and routines by *keys*: one string that says schema and name as SQL
//! would, so that a key can be shown, ordered and compared without a second field.
//!
//! ```text
//!   public.t          t
//!   s.t               s.t
//!   s."a.b"           s."a.b"        a part with a dot in it, or that begins with a quote,
//!   public."a.b"      "a.b"          is quoted
//! ```
//!
//! *Invariant.* Two objects never share a key: outside of quotes a key has a dot if and only if its
//! schema is another than public. Ledgers from before there were schemas have keys of public alone.
//!
//! A name without a schema means public, in all that has been through
//! [`search_path`](crate::schema::search_path), which writes schemas into a statement's tree.

use std::borrow::Cow;

use sqlparser::ast;
use types::{DataType, Error, Result, SqlState};

/// The names that every ledger's one database has, beside that of the user who asks: clients and
/// tools connect to one of them where they were told none.
pub const DATABASES: [&str; 3] = ["tally", "postgres", "template1"];

/// The schema that is always meant where none is said.
pub const PUBLIC: &str = "public";

/// What a session calls the schema of its own tables.
pub const PG_TEMP: &str = "pg_temp";

/// Schemas that belong to the system.
pub const SYSTEM_SCHEMAS: [&str; 2] = ["pg_catalog", "information_schema"];

/// What the catalog knows an object by.
pub fn key(schema: &str, name: &str) -> String {
    match schema {
        PUBLIC => part(name).into_owned(),
        schema => format!("{}.{}", part(schema), part(name)),
    }
}

/// The key of another name in the schema of this one.
pub fn beside(other: &str, name: &str) -> String {
    key(schema_of(other), name)
}

fn part(name: &str) -> Cow<'_, str> {
    match name.contains('.') || name.starts_with('"') {
        true => Cow::Owned(format!("\"{}\"", name.replace('"', "\"\""))),
        false => Cow::Borrowed(name),
    }
}

/// Schema and name of a key.
pub fn split(key: &str) -> (&str, &str) {
    let end = match key.strip_prefix('"') {
        None => key.find('.').unwrap_or(key.len()),
        Some(rest) => (end_of_quoted(rest) + 2).min(key.len()),
    };
    match key.get(end + 1..) {
        None => (PUBLIC, unquoted(key)),
        Some(name) => (unquoted(&key[..end]), unquoted(name)),
    }
}

/// Where the quote is that ends a quoted part.
fn end_of_quoted(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 0;
    while at < bytes.len() && (bytes[at] != b'"' || bytes.get(at + 1) == Some(&b'"')) {
        at += if bytes[at] == b'"' { 2 } else { 1 };
    }
    at
}

fn unquoted(part: &str) -> &str {
    let inside = part.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.unwrap_or(part)
}

/// The name in a key.
pub fn bare(key: &str) -> &str {
    split(key).1
}

/// The schema in a key.
pub fn schema_of(key: &str) -> &str {
    split(key).0
}

/// A key as SQL text, in quotes.
pub(crate) fn as_sql(key: &str) -> String {
    match split(key) {
        (PUBLIC, name) => quoted(name),
        (schema, name) => format!("{}.{}", quoted(schema), quoted(name)),
    }
}

/// A name as SQL text, whatever is in it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// As an identifier is written that is read again: in quotes where it must be.
pub fn quoted_if_needed(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match name.starts_with(|c: char| !c.is_ascii_digit()) && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// A key as SQL is written that is read again, by whatever path.
pub(crate) fn written(key: &str) -> String {
    match split(key) {
        (PUBLIC, name) => quoted_if_needed(name),
        (schema, name) => format!("{}.{}", quoted_if_needed(schema), quoted_if_needed(name)),
    }
}

/// There is no such schema.
pub fn no_schema(schema: &str) -> Error {
    Error::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist"))
}

/// An identifier as the catalog knows it: unless quoted, its letters of ASCII are small ones.
pub fn fold(ident: &ast::Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    }
}

/// Whether a name that is no column's and no variable's is a function's call without parentheses.
/// The parser knows the others.
pub fn is_bare_call(ident: &ast::Ident) -> bool {
    ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("current_schema")
}

/// USING names a column that a side of the join has not.
pub fn not_in_side(name: &str, side: &str) -> Error {
    let what =
        format!("column \"{name}\" specified in USING clause does not exist in {side} table");
    Error::new(SqlState::UNDEFINED_COLUMN, what)
}

/// USING names a column that a side of the join has more than once.
pub fn twice_in_side(name: &str, side: &str) -> Error {
    let what = format!("common column name \"{name}\" appears more than once in {side} table");
    Error::new(SqlState::AMBIGUOUS_COLUMN, what)
}

/// The key of a table, index, procedure…; a name without a schema is of public.
pub fn object_name(name: &ast::ObjectName) -> Result<String> {
    let parts = parts(name)?;
    match parts.as_slice() {
        [name] => Ok(key(PUBLIC, name)),
        [.., schema, name] if SYSTEM_SCHEMAS.contains(&schema.as_str()) => {
            Err(no_catalog(&format!("{schema}.{name}")))
        }
        [schema, name] => Ok(key(schema, name)),
        [database, schema, name] if database == "tally" => Ok(key(schema, name)),
        [_, _, _, ..] => Err(Error::unsupported("a name in another database")),
        [] => Err(Error::new(SqlState::SYNTAX_ERROR, "empty name")),
    }
}

/// The name of what lives in no schema: a column, a constraint, a prepared statement.
pub fn simple_name(name: &ast::ObjectName) -> Result<String> {
    match parts(name)?.pop() {
        Some(name) => Ok(name),
        None => Err(Error::new(SqlState::SYNTAX_ERROR, "empty name")),
    }
}

/// System catalogs are for an analytical engine to answer: what they show is no part of the ledger,
/// and no transaction may depend on it.
pub(crate) fn no_catalog(name: &str) -> Error {
    Error::unsupported(format_args!("the system catalog {name}")).with_hint(
        "Only a query can read system catalogs, not a statement or a routine that may \
                    write: what it writes has to follow from the ledger alone.",
    )
}

/// Whether an error says no more than that there is a system catalog.
pub(crate) fn is_no_catalog(error: &Error) -> bool {
    error.message().starts_with("the system catalog ")
}

/// The name of a built-in or stored function; `pg_catalog.` may stand before it as well.
pub fn function_name(name: &ast::ObjectName) -> Result<String> {
    match parts(name)?.as_slice() {
        [schema, name] if schema == "pg_catalog" => Ok(name.clone()),
        _ => object_name(name),
    }
}

fn parts(name: &ast::ObjectName) -> Result<Vec<String>> {
    let part = |part: &ast::ObjectNamePart| match part {
        ast::ObjectNamePart::Identifier(ident) => Ok(fold(ident)),
        ast::ObjectNamePart::Function(_) => {
            Err(Error::unsupported(format_args!("the name {name}")))
        }
    };
    name.0.iter().map(part).collect()
}

/// The type that SQL text names.
pub fn data_type(ast: &ast::DataType) -> Result<DataType> {
    if let "trigger" | "event_trigger" = ast.to_string().to_ascii_lowercase().as_str() {
        return Err(Error::unsupported("triggers"));
    }
    DataType::from_sql_name(&ast.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_apart_as_they_were_put_together() {
        let names = ["t", "a.b", "\"q", ".", "a\"b", "T", "public"];
        let mut keys = std::collections::BTreeSet::new();
        for schema in names {
            for name in names {
                let key = key(schema, name);
                let doubled = |name: &str| match name.starts_with('"') {
                    true => name.replace('"', "\"\""),
                    false => name.to_owned(),
                };
                assert_eq!(split(&key), (&*doubled(schema), &*doubled(name)), "{key}");
                assert!(keys.insert(key));
            }
        }
        assert_eq!(split("t"), ("public", "t"));
        assert_eq!(beside("s.t", "u"), "s.u");
        assert_eq!(as_sql("s.t"), "\"s\".\"t\"");
    }
}
