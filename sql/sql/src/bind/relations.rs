//! The relations of a FROM clause as they come to be bound, with the names that they are known by.

use std::sync::Arc;

use procedure::{Expr, Query};
use sqlparser::ast;
use types::{DataType, Error, Result, SqlState, Value};

use super::collated::Collated;
use super::items::{Item, Source};
use super::scope::{Scope, ScopeColumn};
use super::state::Gives;
use crate::schema::catalog::Table;
use crate::syntax::names::fold;

/// A bound FROM clause: names, relations, and the conditions of its inner joins.
#[derive(Default)]
pub(super) struct From {
    pub scope: Scope,
    pub items: Vec<Item>,
    pub conditions: Vec<Expr>,
    /// Relations in front that the clause itself does not see: the target of UPDATE or DELETE.
    pub hidden: usize,
}

impl From {
    pub fn add_table(&mut self, table: &Arc<Table>, name: &str) {
        let offset = self.scope.width();
        let width = table.schema.columns.len() as u16;
        self.scope.add_table(table, name);
        self.items.push(Item::new(Source::Table(table.clone()), offset, width));
    }

    /// What a condition or a function in the clause may refer to.
    pub fn in_sight(&self) -> Scope {
        self.in_sight_from(self.hidden)
    }

    /// A join's condition sees the relations of that join.
    pub fn in_sight_from(&self, first: usize) -> Scope {
        let relations = self.scope.relations.iter().skip(first).cloned().collect();
        Scope { relations, order: Vec::new() }
    }

    /// The relation that was added last may be left out by an outer join: where it has no column
    /// that tells, it is given one.
    pub fn mark_presence(&mut self, relations_before: usize) {
        let [relation] = &mut self.scope.relations[relations_before..] else { return };
        let Some(item) = self.items.last_mut() else { return };
        let query = match &mut item.source {
            _ if relation.presence.is_some() => return,
            Source::Query(query) => query,
            Source::Applied(applied) if applied.gives == Gives::Rows => &mut applied.query,
            _ => return,
        };
        let width = relation.columns.len() as u16;
        let (given, is_there) = (std::mem::replace(query, Query::Values(Box::default())), || {
            Expr::Const(Value::Bool(true))
        });
        *query = match given {
            Query::Project { input, expressions } => {
                let expressions = expressions.into_iter().chain([is_there()]).collect();
                Query::Project { input, expressions }
            }
            given => {
                let columns = (0..width).map(Expr::Column);
                let expressions = columns.chain([is_there()]).collect();
                Query::Project { input: Box::new(given), expressions }
            }
        };
        item.width += 1;
        let column = ScopeColumn::new(String::new(), DataType::Bool);
        relation.columns.push(ScopeColumn { hidden: true, ..column });
        relation.presence = Some(width);
    }
}

pub(super) fn check_alias(from: &From, name: &str) -> Result<()> {
    match from.scope.relation(name) {
        None => Ok(()),
        Some(_) => Err(Error::new(
            SqlState(*b"42712"),
            format!("table name \"{name}\" specified more than once"),
        )),
    }
}

pub(super) fn add_derived(
    from: &mut From,
    name: &str,
    columns: Vec<(String, DataType)>,
    alias: Option<&ast::TableAlias>,
    query: Query,
) -> Result<()> {
    check_alias(from, name)?;
    let offset = from.scope.width();
    let mut columns: Vec<ScopeColumn> =
        columns.into_iter().map(|(name, data_type)| ScopeColumn::new(name, data_type)).collect();
    if let Some(alias) = alias {
        rename(&mut columns, alias)?;
    }
    let width = columns.len() as u16;
    from.scope.add(name, columns, None);
    from.items.push(Item::new(Source::Query(query), offset, width));
    Ok(())
}

impl From {
    /// Gives the columns of the relation that was added last their collations.
    pub fn collate(&mut self, collated: Vec<Collated>) {
        if let Some(relation) = self.scope.relations.last_mut() {
            for (column, collated) in relation.columns.iter_mut().zip(collated) {
                column.collated = collated;
            }
        }
    }
}

/// `AS t(a, b)`.
pub(super) fn rename(columns: &mut [ScopeColumn], alias: &ast::TableAlias) -> Result<()> {
    let mut visible = columns.iter_mut().filter(|c| c.is_shown());
    for column in &alias.columns {
        match visible.next() {
            Some(renamed) => renamed.name = fold(&column.name),
            None => {
                return Err(Error::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    format!("table \"{}\" has fewer columns than its alias names", alias.name),
                ));
            }
        }
    }
    Ok(())
}
