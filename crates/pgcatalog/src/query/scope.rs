//! What names mean: the tables in sight, innermost query first.

use sqlparser::ast;
use types::{Error, Result, SqlState};

use super::Typed;
use super::plan::{Aggregate, Column, Expr, SetCall, Window};

/// The names of one SELECT, and the calls met in it that are not functions of one row.
#[derive(Debug, Default)]
pub struct Scope {
    pub tables: Vec<ScopeTable>,
    /// Columns of a row so far.
    pub width: usize,
    pub aggregates: Vec<Aggregate>,
    pub windows: Vec<Window>,
    pub sets: Vec<SetCall>,
}

#[derive(Clone, Debug)]
pub struct ScopeTable {
    pub schema: Option<String>,
    pub name: String,
    pub offset: usize,
    pub columns: Vec<ScopeColumn>,
    /// Places in the row whose values are no other row's of the table; none of what has no key.
    pub key: Vec<usize>,
}

#[derive(Clone, Debug)]
pub struct ScopeColumn {
    pub column: Column,
    /// Merged with another one by USING: found by the table's name only.
    pub merged: bool,
    /// Not in `*`: what every table of PostgreSQL's has besides.
    pub hidden: bool,
}

impl ScopeTable {
    fn is_called(&self, qualifier: &[String]) -> bool {
        match qualifier {
            [name] => *name == self.name,
            [schema, name] | [_, schema, name] => {
                *name == self.name && self.schema.as_ref().is_none_or(|s| s == schema)
            }
            _ => false,
        }
    }
}

impl Scope {
    /// Another place in the row, for what a call gives.
    pub fn place(&mut self) -> usize {
        self.width += 1;
        self.width - 1
    }

    /// The place of a column and what it is; an error if there are two.
    pub fn find(&self, qualifier: &[String], name: &str) -> Result<Option<(usize, &Column)>> {
        let mut found = None;
        for table in &self.tables {
            if !qualifier.is_empty() && !table.is_called(qualifier) {
                continue;
            }
            for (place, candidate) in table.columns.iter().enumerate() {
                let shadowed = candidate.merged && qualifier.is_empty();
                if candidate.column.name != name || shadowed {
                    continue;
                }
                if found.is_some() && qualifier.is_empty() {
                    return Err(Error::new(
                        SqlState::AMBIGUOUS_COLUMN,
                        format!("column reference \"{name}\" is ambiguous"),
                    ));
                }
                found = found.or(Some((table.offset + place, &candidate.column)));
            }
        }
        Ok(found)
    }

    pub fn table(&self, qualifier: &[String]) -> Option<&ScopeTable> {
        self.tables.iter().find(|table| table.is_called(qualifier))
    }

    /// The columns of `*`, or of `table.*`.
    pub fn star(&self, qualifier: Option<&[String]>) -> Vec<(usize, Column)> {
        let mut columns = Vec::new();
        for table in &self.tables {
            if qualifier.is_some_and(|qualifier| !table.is_called(qualifier)) {
                continue;
            }
            for (place, column) in table.columns.iter().enumerate() {
                if !column.hidden && (qualifier.is_some() || !column.merged) {
                    columns.push((table.offset + place, column.column.clone()));
                }
            }
        }
        columns
    }
}

/// The parts of a name, as catalogs spell them.
pub fn parts(name: &ast::ObjectName) -> Vec<String> {
    let part = |part: &ast::ObjectNamePart| match part {
        ast::ObjectNamePart::Identifier(ident) => sql::names::fold(ident),
        other => other.to_string(),
    };
    name.0.iter().map(part).collect()
}

/// The columns of the scopes, from the innermost outwards.
pub fn resolve(
    scopes: &[Scope],
    qualifier: &[String],
    name: &str,
) -> Result<Option<(Typed, usize)>> {
    for (level, scope) in scopes.iter().rev().enumerate() {
        if let Some((place, column)) = scope.find(qualifier, name)? {
            let typed = Typed {
                expr: Expr::Column { level, place },
                data_type: column.data_type.clone(),
                fields: column.fields,
            };
            return Ok(Some((typed, scopes.len() - 1 - level)));
        }
    }
    Ok(None)
}
