//! Which tables TRUNCATE empties.

use std::sync::Arc;

use sqlparser::ast;
use types::{Error, Result, SqlState};

use crate::schema::catalog::{Catalog, Table};
use crate::syntax::names::object_name;

impl Catalog {
    /// The tables that are named, and with CASCADE those that refer to them.
    pub(crate) fn truncated(
        &self,
        names: &[ast::ObjectName],
        cascade: bool,
    ) -> Result<Vec<Arc<Table>>> {
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for name in names {
            let table = self.table(&object_name(name)?)?;
            if table.materialized.is_some() {
                let what = format!("\"{}\" is not a table", table.name());
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what));
            }
            tables.push(table.clone());
        }
        let mut next = 0;
        while let Some(table) = tables.get(next).cloned() {
            next += 1;
            for reference in &table.referenced_by {
                if tables.iter().any(|t| t.id() == reference.child) {
                    continue;
                }
                let Some(child) = self.table_by_id(reference.child) else {
                    continue;
                };
                if !cascade {
                    return Err(Error::new(
                        SqlState::FEATURE_NOT_SUPPORTED,
                        "cannot truncate a table referenced in a foreign key constraint",
                    )
                    .with_detail(format!(
                        "Table \"{}\" references \"{}\".",
                        child.name(),
                        table.name()
                    ))
                    .with_hint(format!(
                        "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                        child.name()
                    )));
                }
                tables.push(child.clone());
            }
        }
        tables.sort_unstable_by_key(|table| table.id());
        tables.dedup_by_key(|table| table.id());
        Ok(tables)
    }
}

/// In parts that can be emptied one after the other, those that refer to others first: a part of
/// several tables is a cycle, with whatever refers to it.
pub(crate) fn children_first(mut tables: Vec<Arc<Table>>) -> Vec<Vec<Arc<Table>>> {
    let mut parts = Vec::new();
    while !tables.is_empty() {
        let is_free = |table: &Arc<Table>| {
            let mut others = tables.iter().filter(|other| other.id() != table.id());
            !others.any(|other| other.foreign_keys.iter().any(|key| key.parent == table.id()))
        };
        match tables.iter().position(is_free) {
            Some(place) => parts.push(vec![tables.remove(place)]),
            None => parts.push(std::mem::take(&mut tables)),
        }
    }
    parts
}
