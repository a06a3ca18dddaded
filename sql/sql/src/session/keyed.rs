//! A query rewritten to return the primary keys of its rows after its own columns: SELECT … FOR
//! UPDATE locks these keys.

use std::ops::Range;
use std::sync::Arc;

use concurrency::Claim;
use concurrency::claims::Place;
use concurrency::skip_locked::SkippedRows;
use engine::locks::LockOwner;
use procedure::Procedure;
use sqlparser::ast;
use types::key::encode_column;
use types::{DataType, Key, Result, TableId, Value};

use super::lock_clauses::Locking;
use crate::bind::scope::ROW_ID_NAME;
use crate::schema::catalog::{Catalog, Table};
use crate::syntax::names::{bare, fold, object_name};
use crate::syntax::parsed::{Body, Parsed};

/// A query that answers its rows' keys, too.
#[derive(Debug)]
pub(super) struct Keyed {
    pub procedure: Arc<Procedure>,
    /// Columns that the client gets; those after them are keys.
    pub shown: usize,
    pub tables: Vec<KeyedTable>,
}

#[derive(Debug)]
pub(super) struct KeyedTable {
    id: TableId,
    exclusive: bool,
    /// Of the row that is answered.
    places: Range<usize>,
    columns: Vec<(DataType, bool)>,
}

impl KeyedTable {
    /// `None`: an outer join found no row.
    fn key_of(&self, row: &[Value]) -> Result<Option<Key>> {
        let mut key = Key::default();
        for ((data_type, nullable), value) in self.columns.iter().zip(&row[self.places.clone()]) {
            if value.is_null() && !nullable {
                return Ok(None);
            }
            encode_column(data_type, *nullable, value, &mut key)?;
        }
        Ok(Some(key))
    }
}

impl Keyed {
    pub fn keys(&self, rows: &[Box<[Value]>]) -> Result<Vec<(TableId, Key)>> {
        let of_row = |row| {
            let keys =
                self.tables.iter().map(move |it| Ok(it.key_of(row)?.map(|key| (it.id, key))));
            keys.filter_map(Result::transpose)
        };
        rows.iter().flat_map(|row| of_row(row)).collect()
    }

    fn is_exclusive(&self, table: TableId) -> bool {
        self.tables.iter().any(|it| it.id == table && it.exclusive)
    }

    /// In one order for all, so that two statements do not each hold what the other needs.
    pub fn claims(&self, keys: &[(TableId, Key)]) -> Vec<Claim> {
        let mut keys: Vec<_> = keys.to_vec();
        keys.sort_unstable();
        keys.dedup();
        let claim = |(table, key)| Claim {
            table,
            index: 0,
            exclusive: self.is_exclusive(table),
            place: Place::Key(key),
        };
        keys.into_iter().map(claim).collect()
    }

    pub fn skipped(&self, owner: &LockOwner) -> SkippedRows {
        let taken = |it: &KeyedTable| (it.id, owner.taken_from(it.id, self.is_exclusive(it.id)));
        self.tables.iter().map(taken).collect()
    }
}

/// The same query with its rows' keys after its columns, and which those are. `None`: it answers
/// no rows of tables.
pub(super) fn with_keys(
    parsed: &Parsed,
    locking: Locking,
    catalog: &Catalog,
    shown: usize,
) -> Option<(Parsed, Vec<KeyedTable>)> {
    let mut parsed = parsed.clone();
    let Body::Statement(statement) = &mut parsed.body else { return None };
    let ast::Statement::Query(query) = &mut **statement else { return None };
    let with = query.with.iter().flat_map(|with| &with.cte_tables);
    let common: Vec<String> = with.map(|table| fold(&table.alias.name)).collect();
    let ast::SetExpr::Select(select) = &mut *query.body else { return None };
    let (mut tables, mut places) = (Vec::new(), shown);
    let relations: Vec<_> = select.from.iter().flat_map(relations_of).collect();
    for (name, relation) in relations {
        let named = object_name(relation).ok()?;
        let table = match relation.0.len() == 1 && common.contains(&named) {
            true => None,
            // What is the session's own no other one can lock.
            false => catalog.find_table(&named).filter(|table| !table.id().is_temporary()),
        };
        let Some(table) = table else { continue };
        let exclusive = locking.exclusive.concerns(table.id());
        if !exclusive && !locking.shared.concerns(table.id()) {
            continue;
        }
        let keys = key_columns(table);
        let columns = keys.iter().map(|(_, data_type, nullable)| (data_type.clone(), *nullable));
        let columns: Vec<_> = columns.collect();
        let at = places..places + keys.len();
        places = at.end;
        tables.push(KeyedTable { id: table.id(), exclusive, places: at, columns });
        let ident = |text: &str| ast::Ident::with_quote('"', text);
        select.projection.extend(keys.iter().map(|(column, ..)| {
            let path = vec![ident(&name), ident(column)];
            ast::SelectItem::UnnamedExpr(ast::Expr::CompoundIdentifier(path))
        }));
    }
    (!tables.is_empty()).then_some((parsed, tables))
}

/// Tables of a FROM that it names, by what they are called in the statement. Those whose columns
/// have other names there are left out.
fn relations_of(from: &ast::TableWithJoins) -> Vec<(String, &ast::ObjectName)> {
    let joined = from.joins.iter().map(|join| &join.relation);
    let mut found = Vec::new();
    for factor in std::iter::once(&from.relation).chain(joined) {
        match factor {
            ast::TableFactor::Table { name, alias, args: None, .. } => {
                let shown = match alias {
                    Some(alias) if !alias.columns.is_empty() => continue,
                    Some(alias) => fold(&alias.name),
                    None => match object_name(name) {
                        Ok(name) => bare(&name).to_owned(),
                        Err(_) => continue,
                    },
                };
                found.push((shown, name));
            }
            ast::TableFactor::NestedJoin { table_with_joins, alias: None } => {
                found.extend(relations_of(table_with_joins));
            }
            _ => {}
        }
    }
    found
}

/// Of each column of the primary key: its name, its type, whether it may be NULL.
fn key_columns(table: &Table) -> Vec<(String, DataType, bool)> {
    let schema = &table.schema;
    let columns = schema.primary_key.iter().map(|id| &schema.columns[usize::from(*id)]);
    let name = |column: &types::ColumnSchema| match schema.hidden_row_id {
        true => ROW_ID_NAME.to_owned(),
        false => column.name.clone(),
    };
    columns.map(|column| (name(column), column.data_type.clone(), column.nullable)).collect()
}
