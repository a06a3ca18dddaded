//! What names mean: the tables in sight, innermost query first.

use sqlparser::ast;
use types::{Error, Result, SqlState};

use super::Typed;
use super::plan::{Aggregate, Column, Expr, SetCall, Window};

/// The names of one SELECT, and the calls met in it that are not functions of one row.
#[derive(Debug, Default)]
pub struct Scope {
    pub tables: Vec<ScopeTable>,
    /// What names without a table's mean, and `*` is, in its order.
    pub columns: Vec<Visible>,
    /// Columns of a row so far.
    pub width: usize,
    pub aggregates: Vec<Aggregate>,
    pub windows: Vec<Window>,
    pub sets: Vec<SetCall>,
    /// Literals of the result wait for a type: a set operation has another side to ask.
    pub unsettled: bool,
    /// Where the row says that a table's row is there, by the place of the table's first column.
    pub presence: Vec<(usize, usize)>,
}

#[derive(Clone, Debug)]
pub struct ScopeTable {
    pub schema: Option<String>,
    pub name: String,
    pub offset: usize,
    pub columns: Vec<ScopeColumn>,
    /// Places in the row whose values are no other row's of the table; none of what has no key.
    pub key: Vec<usize>,
    pub is_function: bool,
}

#[derive(Clone, Debug)]
pub struct ScopeColumn {
    pub column: Column,
    /// Not in `*`: what every table of PostgreSQL's has besides.
    pub hidden: bool,
}

/// A column of a table, or what USING has made of two of them.
#[derive(Clone, Debug)]
pub struct Visible {
    pub name: String,
    pub typed: Typed,
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

fn ambiguous(name: &str) -> Error {
    let message = format!("column reference \"{name}\" is ambiguous");
    Error::new(SqlState::AMBIGUOUS_COLUMN, message)
}

impl Scope {
    /// Another place in the row, for what a call gives.
    pub fn place(&mut self) -> usize {
        self.width += 1;
        self.width - 1
    }

    /// Where the row says that the table at `offset` has a row in it.
    pub fn presence_of(&mut self, offset: usize) -> usize {
        if let Some((_, place)) = self.presence.iter().find(|(of, _)| *of == offset) {
            return *place;
        }
        let place = self.place();
        self.presence.push((offset, place));
        place
    }

    /// What a column's name means; an error if there are two.
    pub fn find(&self, qualifier: &[String], name: &str) -> Result<Option<Typed>> {
        if qualifier.is_empty() {
            let mut found = self.columns.iter().filter(|column| column.name == name);
            return match (found.next(), found.next()) {
                (_, Some(_)) => Err(ambiguous(name)),
                (found, None) => Ok(found.map(|column| column.typed.clone())),
            };
        }
        let mut found = None;
        for table in self.tables.iter().filter(|table| table.is_called(qualifier)) {
            for (place, column) in (table.offset..).zip(&table.columns) {
                if column.column.name == name && found.replace((place, column)).is_some() {
                    return Err(ambiguous(name));
                }
            }
        }
        Ok(found.map(|(place, found)| found.column.typed(Expr::Column { level: 0, place })))
    }

    pub fn table(&self, qualifier: &[String]) -> Option<&ScopeTable> {
        self.tables.iter().find(|table| table.is_called(qualifier))
    }

    /// The columns of `*`, or of `table.*`.
    pub fn star(&self, qualifier: Option<&[String]>) -> Vec<(Expr, Column)> {
        let Some(qualifier) = qualifier else {
            let shown = self.columns.iter().filter(|column| !column.hidden);
            return shown.map(Visible::output).collect();
        };
        let mut columns = Vec::new();
        for table in self.tables.iter().filter(|table| table.is_called(qualifier)) {
            for (place, column) in (table.offset..).zip(&table.columns) {
                if !column.hidden {
                    columns.push((Expr::Column { level: 0, place }, column.column.clone()));
                }
            }
        }
        columns
    }
}

impl Visible {
    fn output(&self) -> (Expr, Column) {
        let Typed { expr, data_type, fields, .. } = self.typed.clone();
        (expr, Column { name: self.name.clone(), data_type, fields })
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
        if let Some(typed) = scope.find(qualifier, name)? {
            let typed = Typed { expr: seen_from(typed.expr, level), ..typed };
            return Ok(Some((typed, scopes.len() - 1 - level)));
        }
    }
    Ok(None)
}

/// A column, or what USING has made of columns, as a query so many levels further in sees it.
fn seen_from(expr: Expr, level: usize) -> Expr {
    match expr {
        Expr::Column { place, .. } => Expr::Column { level, place },
        Expr::Cast { input, from, to } => {
            Expr::Cast { input: Box::new(seen_from(*input, level)), from, to }
        }
        Expr::Coalesce(list) => {
            Expr::Coalesce(list.into_iter().map(|expr| seen_from(expr, level)).collect())
        }
        other => other,
    }
}
