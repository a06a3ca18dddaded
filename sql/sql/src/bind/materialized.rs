//! REFRESH MATERIALIZED VIEW: all rows go, and those that the query finds now are put in.
//!
//! Both in one program, so that it runs in a block as any other write does, and rows that a reader
//! sees are those of one query. The query is read with the privileges of the view's owner, who
//! alone may ask, beside superusers.
//!
//! *Departures.* CONCURRENTLY changes nothing, since no reader waits for a block. A view that was
//! not populated is so after a change of the schema, which empties it.

use std::sync::Arc;

use procedure::{Expr, Output, Step};
use sqlparser::ast;
use types::{Error, Result, SqlState, Value};

use super::binder::Binder;
use crate::bind::statement::Statement;
use crate::schema::catalog::{Commented, Materialized, Table};
use crate::syntax::ddl::Ddl;
use crate::syntax::names::{as_sql, bare, object_name};
use crate::syntax::parse::parse;
use crate::syntax::parsed::Body;

impl Binder<'_> {
    pub(crate) fn refresh(
        &mut self,
        name: &ast::ObjectName,
        (concurrently, with_data): (bool, bool),
        text: &str,
    ) -> Result<(Statement, Output)> {
        if concurrently && !with_data {
            let what = "CONCURRENTLY and WITH NO DATA options cannot be used together";
            return Err(Error::new(SqlState::SYNTAX_ERROR, what));
        }
        let key = object_name(name)?;
        if self.catalog.view(&key).is_some() {
            return Err(not_materialized(bare(&key)));
        }
        let table = self.table(name)?;
        let Some(kept) = table.materialized.clone() else {
            return Err(not_materialized(table.name()));
        };
        let owner = Commented::Table(table.id());
        if let Some(closure) = &self.checked
            && !closure.has(self.catalog.owner(&owner))
        {
            let what = format!("must be owner of materialized view {}", table.name());
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what));
        }
        if concurrently {
            check_concurrently(&table, &kept)?;
        }
        if !with_data || !kept.populated {
            let ddl = Ddl::Refresh { name: name.clone(), with_data };
            return Ok((Statement::Ddl(ddl), Output::Tag));
        }
        let asked = self.checked.take();
        self.check_role(self.catalog.owner(&owner));
        self.refreshing = Some(table.id());
        let written = self.write_anew(&table, &kept);
        self.refreshing = None;
        // What the owner may not read is told; the rows are the view's own.
        self.checked = asked;
        let count = written?;
        self.steps.push(Step::CountRows { by: count });
        self.program(text, Output::Tag, "REFRESH MATERIALIZED VIEW")
    }

    /// How many rows were put in.
    fn write_anew(&mut self, table: &Arc<Table>, kept: &Materialized) -> Result<Expr> {
        let mut count = Expr::Const(Value::Int(0));
        let name = as_sql(table.key());
        self.add_text(kept.view.text.len());
        for text in [format!("DELETE FROM {name}"), format!("INSERT INTO {name} VALUES (1)")] {
            let mut parsed = parse(&text)?.remove(0);
            let Body::Statement(statement) = &mut parsed.body else {
                return Err(Error::new(SqlState::INTERNAL_ERROR, "a refresh is no change of rows"));
            };
            if let ast::Statement::Insert(insert) = &mut **statement {
                insert.source = Some(kept.view.query.clone());
            }
            count = self.dml(statement, false)?.count;
        }
        Ok(count)
    }
}

fn check_concurrently(table: &Table, kept: &Materialized) -> Result<()> {
    if !kept.populated {
        let what = "CONCURRENTLY cannot be used when the materialized view is not populated";
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
    }
    match table.live_indexes().any(|(_, index)| index.unique) {
        true => Ok(()),
        false => {
            let shown = format!("{}.{}", table.namespace(), table.name());
            let what = format!("cannot refresh materialized view \"{shown}\" concurrently");
            Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what).with_hint(
                "Create a unique index with no WHERE clause on one or more columns of the \
                 materialized view.",
            ))
        }
    }
}

fn not_materialized(name: &str) -> Error {
    let what = format!("\"{name}\" is not a materialized view");
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, what)
}
