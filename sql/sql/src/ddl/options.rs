//! Storage parameters: `WITH (…)` of CREATE TABLE, and `ALTER TABLE … SET (…)`.
//!
//! One has a meaning here: the layout. What PostgreSQL's own say, like `fillfactor`, has none, and
//! no effect on results; they are accepted and forgotten.

use sqlparser::ast;
use types::{Error, Layout, Result, SqlState, TableId};

/// What can be chosen of how multi-version protocols keep versions: a part of the ledger's
/// parameter, which can be changed later.
const VERSION_OPTIONS: [&str; 5] = ["storage", "gc", "index", "spaces", "strings"];

/// The layout, if the options say one.
pub(super) fn layout_of(options: &[ast::SqlOption]) -> Result<Option<Layout>> {
    let mut layout = None;
    for option in options {
        let ast::SqlOption::KeyValue { key, value } = option else { continue };
        let (name, value) = (key.value.to_ascii_lowercase(), value.to_string());
        let value = value.trim_matches(['\'', '"']);
        if VERSION_OPTIONS.contains(&&*name) {
            let what = format!("the storage parameter \"{name}\"");
            return Err(Error::unsupported(what).with_hint(format!(
                "Say it for a multi-version protocol: \
                 SET ledger.protocol = 'mvto:TABLE.{name}={value}'."
            )));
        }
        if name != "layout" {
            continue;
        }
        let said = match value.to_ascii_lowercase().as_str() {
            "row" => Layout::Row,
            "column" => Layout::Column,
            _ => {
                let message = format!("invalid value for parameter \"layout\": {value}");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
                    .with_hint("Valid values are \"row\" and \"column\"."));
            }
        };
        if layout.replace(said).is_some() {
            let message = "parameter \"layout\" specified more than once";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    }
    Ok(layout)
}

/// # Errors
/// 0A000: the ledger is asked for what is a session's alone; 42P16: ON COMMIT of another table.
pub(super) fn check_temporary(id: TableId, create: &ast::CreateTable) -> Result<()> {
    if create.temporary && !id.is_temporary() {
        return Err(Error::unsupported("a temporary table that the ledger makes")
            .with_hint("Sessions make their own, by a statement that a client sends."));
    }
    match create.on_commit {
        Some(_) if !id.is_temporary() => {
            let what = "ON COMMIT can only be used on temporary tables";
            Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, what))
        }
        _ => Ok(()),
    }
}
