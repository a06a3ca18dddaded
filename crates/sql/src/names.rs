//! Names: folding, and the one schema there is.

use sqlparser::ast;
use types::{Error, Result, SqlState};

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

/// The name of a table, index, procedure…; `public.` may stand before it.
pub fn object_name(name: &ast::ObjectName) -> Result<String> {
    let parts = parts(name)?;
    match parts.as_slice() {
        [name] => Ok(name.clone()),
        [schema, name] if schema == "public" => Ok(name.clone()),
        [database, schema, name] if schema == "public" && database == "tally" => Ok(name.clone()),
        [.., schema, name] if matches!(schema.as_str(), "pg_catalog" | "information_schema") => {
            Err(no_catalog(&format!("{schema}.{name}")))
        }
        [.., schema, _] => Err(Error::new(
            SqlState::INVALID_SCHEMA_NAME,
            format!("schema \"{schema}\" does not exist"),
        )
        .with_hint("Everything lives in the schema public.")),
        [] => Err(Error::new(SqlState::SYNTAX_ERROR, "empty name")),
    }
}

/// System catalogs are for an analyst to answer: what they show is no part of the ledger, and no
/// transaction may depend on it.
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
