//! Materialized views: tables whose rows are what a query has found.
//!
//! One is a table without a key, of the query's columns, that knows its view
//! ([`Materialized`](crate::schema::catalog::Materialized)); only REFRESH writes to it. So it is
//! read, indexed, sealed, proven and backed up as tables are.
//!
//! CREATE and a REFRESH of one that holds nothing are a schema change and a REFRESH that writes
//! the rows, in one transaction (`session::materialized`): either both stand in a block, or
//! neither. The schema alone leaves it empty, and that it can be read is a part of the schema.
//!
//! *Departures.* None is temporary, and none has options. What ALTER does is to rename it or one of
//! its columns, which ALTER TABLE does as well.

use std::sync::Arc;

use sqlparser::ast;
use types::{DataType, Error, Result, SqlState};

use super::StoreChange;
use super::apply::{Transition, relation_exists};
use super::table::Draft;
use super::view::relations;
use crate::bind::Binder;
use crate::schema::catalog::{Materialized, View};
use crate::schema::widths;
use crate::settings::session_info::SessionInfo;
use crate::syntax::ddl::Ddl;
use crate::syntax::names::{as_sql, bare, fold, object_name, quoted};
use crate::syntax::parse::parse;
use crate::syntax::parsed::Body;

impl Transition {
    pub(super) fn create_materialized(
        &mut self,
        create: &ast::CreateView,
        with_data: bool,
    ) -> Result<()> {
        let name = object_name(&create.name)?;
        if !matches!(create.options, ast::CreateTableOptions::None) {
            return Err(Error::unsupported("a materialized view with options"));
        }
        if self.catalog.relation_exists(&name) {
            return match create.if_not_exists {
                true => Ok(()),
                false => Err(relation_exists(&name)),
            };
        }
        let reads = relations(&self.catalog, &create.query)?;
        let view = View {
            widths: widths(&self.catalog, &reads),
            reads,
            columns: create.columns.iter().map(|column| fold(&column.name)).collect(),
            text: create.query.to_string(),
            query: create.query.clone(),
            name: name.clone(),
        };
        let columns = self.columns_of(&view)?.join(", ");
        let text = format!("CREATE TABLE {} ({columns})", as_sql(&name));
        let Body::Statement(table) = parse(&text)?.remove(0).body else {
            return Err(Error::new(SqlState::INTERNAL_ERROR, "a table is no statement"));
        };
        let ast::Statement::CreateTable(table) = *table else {
            return Err(Error::new(SqlState::INTERNAL_ERROR, "a table is another statement"));
        };
        self.create_table(&table)?;
        let Some(id) = self.catalog.table_names.get(&name).copied() else { return Ok(()) };
        let kept = Materialized { view: Arc::new(view), populated: with_data };
        self.edit(id, |table| table.materialized = Some(kept));
        Ok(())
    }

    /// Each with its name and type.
    fn columns_of(&self, view: &View) -> Result<Vec<String>> {
        let session = SessionInfo::default();
        let mut binder = Binder::new(&self.catalog, &session, Vec::new());
        binder.bound_by_text(view.text.len());
        let found = binder.query(&view.query)?.columns;
        if !binder.parameters.is_empty() {
            let what = "materialized views may not be defined using bound parameters";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        if view.columns.len() > found.len() {
            let what = "too many column names were specified";
            return Err(Error::new(SqlState::SYNTAX_ERROR, what));
        }
        let given = view.columns.iter().map(Some).chain(std::iter::repeat(None));
        let typed = found.iter().zip(given).map(|(column, given)| {
            let data_type = match &column.data_type {
                DataType::Unknown => DataType::Text,
                known => known.clone(),
            };
            format!("{} {data_type}", quoted(given.unwrap_or(&column.name)))
        });
        Ok(typed.collect())
    }

    /// It holds no rows from now on; whether it can be read.
    pub(super) fn populate(&mut self, name: &ast::ObjectName, with_data: bool) -> Result<()> {
        let name = object_name(name)?;
        let table = self.catalog.table(&name)?.clone();
        let Some(kept) = table.materialized.clone() else {
            let what = format!("\"{}\" is not a materialized view", table.name());
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what));
        };
        self.store.push(StoreChange::Truncate(table.id()));
        let kept = Materialized { populated: with_data, ..kept };
        self.edit(table.id(), |table| table.materialized = Some(kept));
        Ok(())
    }

    fn drop_materialized(
        &mut self,
        names: &[ast::ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        for name in names {
            let key = object_name(name)?;
            let table = self.catalog.find_table(&key);
            let other = match table {
                Some(table) if table.materialized.is_none() => "table",
                None if self.catalog.view(&key).is_some() => "view",
                None if !if_exists && !self.catalog.relation_exists(&key) => {
                    let what = format!("materialized view \"{}\" does not exist", bare(&key));
                    return Err(Error::new(SqlState::UNDEFINED_TABLE, what));
                }
                _ => continue,
            };
            let what = format!("\"{}\" is not a materialized view", bare(&key));
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what).with_hint(match other {
                "view" => "Use DROP VIEW to remove a view.",
                _ => "Use DROP TABLE to remove a table.",
            }));
        }
        self.drop_tables(names, if_exists, cascade)
    }

    /// Of the kind that the statement names.
    pub(super) fn drop_relations(&mut self, ddl: &Ddl) -> Result<()> {
        match ddl {
            Ddl::DropTables { names, if_exists, cascade } => {
                self.refuse_materialized(names, "table")?;
                self.drop_tables(names, *if_exists, *cascade)
            }
            Ddl::DropViews { names, if_exists, cascade } => {
                self.refuse_materialized(names, "view")?;
                self.drop_views(names, *if_exists, *cascade)
            }
            Ddl::DropMaterialized { names, if_exists, cascade } => {
                self.drop_materialized(names, *if_exists, *cascade)
            }
            _ => Ok(()),
        }
    }

    /// DROP TABLE and DROP VIEW leave materialized views alone.
    fn refuse_materialized(&self, names: &[ast::ObjectName], kind: &str) -> Result<()> {
        for name in names {
            let key = object_name(name)?;
            if self.catalog.find_table(&key).is_some_and(|table| table.materialized.is_some()) {
                let what = format!("\"{}\" is not a {kind}", bare(&key));
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what)
                    .with_hint("Use DROP MATERIALIZED VIEW to remove a materialized view."));
            }
        }
        Ok(())
    }
}

impl Draft {
    pub(super) fn rename_view(&mut self, new: &str) {
        if let Some(kept) = &mut self.table.materialized {
            let view = View { name: new.to_owned(), ..(*kept.view).clone() };
            kept.view = Arc::new(view);
        }
    }

    /// # Errors
    /// 42809: it is a materialized view, and this is for tables.
    pub(super) fn check_alters_view(&self, operation: &ast::AlterTableOperation) -> Result<()> {
        use ast::AlterTableOperation as O;
        let is_for_all =
            matches!(operation, O::RenameTable { .. } | O::RenameColumn { .. } | O::OwnerTo { .. });
        if self.table.materialized.is_none() || is_for_all {
            return Ok(());
        }
        let action = match operation {
            O::AlterColumn { op, .. } => format!("ALTER COLUMN ... {}", verbs(&op.to_string())),
            other => verbs(&other.to_string()),
        };
        let what = format!(
            "ALTER action {action} cannot be performed on relation \"{}\"",
            self.table.name()
        );
        Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what)
            .with_detail("This operation is not supported for materialized views."))
    }
}

/// What an action is called: its words before any name.
fn verbs(shown: &str) -> String {
    let words = shown.split(' ').take_while(|word| word.chars().all(|c| c.is_ascii_uppercase()));
    words.collect::<Vec<_>>().join(" ")
}
