//! What a view reads once its tables have got more columns than it was made over.
//!
//! A view keeps the query that it was given, and `*`, NATURAL and USING mean what the tables have
//! when it is read. Columns of a table that a view reads cannot go or be renamed, so all that can
//! come in between are more of them, at the end. A view knows how many there were, and of a table
//! that has more by now it reads a subquery with those:
//!
//! ```text
//!   CREATE VIEW v AS SELECT * FROM t         t has a, b
//!   ALTER TABLE t ADD COLUMN c int
//!   SELECT * FROM v     reads     SELECT * FROM (SELECT "a", "b" FROM t) AS "t"
//! ```
//!
//! *Departure.* A view over a view shows the columns that the inner one is given by CREATE OR
//! REPLACE.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use sqlparser::ast;
use types::ColumnId;

use super::catalog::{Catalog, Table, View};
use crate::syntax::names::{bare, object_name, quoted};
use crate::syntax::parse::parse_query;
use crate::syntax::walk;

/// How many columns each table has that a view is about to read.
pub(crate) fn widths(catalog: &Catalog, reads: &BTreeSet<String>) -> BTreeMap<String, ColumnId> {
    let tables = reads.iter().filter_map(|name| Some((name, catalog.find_table(name)?)));
    tables.map(|(name, table)| (name.clone(), width(table))).collect()
}

fn width(table: &Table) -> ColumnId {
    let schema = &table.schema;
    (schema.columns.len() - usize::from(schema.hidden_row_id)) as ColumnId
}

impl View {
    /// Its query over the tables as they are now.
    pub fn query_over(&self, catalog: &Catalog) -> Cow<'_, ast::Query> {
        let wider = self.widths.iter().filter_map(|(name, before)| {
            let table = catalog.find_table(name)?;
            (width(table) > *before).then_some((name.as_str(), (&**table, *before)))
        });
        let mut narrowing = Narrowing(wider.collect());
        if narrowing.0.is_empty() {
            return Cow::Borrowed(&self.query);
        }
        let mut query = (*self.query).clone();
        let ControlFlow::Continue(()) = walk::change(&mut query, &mut narrowing);
        Cow::Owned(query)
    }
}

/// Tables that have more columns by now, with how many there were.
struct Narrowing<'c>(BTreeMap<&'c str, (&'c Table, ColumnId)>);

impl Narrowing<'_> {
    /// What is read in place of a table. A name that a WITH gives is none of a table that a view
    /// reads.
    fn narrowed(&self, factor: &ast::TableFactor) -> Option<ast::TableFactor> {
        let ast::TableFactor::Table { name, alias, args: None, .. } = factor else { return None };
        let key = object_name(name).ok()?;
        let (table, before) = self.0.get(key.as_str())?;
        let columns = table.schema.visible_columns().filter(|(column, _)| column < before);
        let columns: Vec<String> = columns.map(|(_, column)| quoted(&column.name)).collect();
        let subquery = parse_query(&format!("SELECT {} FROM {name}", columns.join(", ")));
        let alias = alias.clone().unwrap_or_else(|| ast::TableAlias {
            explicit: true,
            name: ast::Ident::with_quote('"', bare(&key)),
            columns: Vec::new(),
            at: None,
        });
        Some(ast::TableFactor::Derived {
            lateral: false,
            subquery: subquery.ok()??,
            alias: Some(alias),
            sample: None,
        })
    }
}

impl ast::VisitorMut for Narrowing<'_> {
    type Break = std::convert::Infallible;

    /// After its parts, so that what is put in is not visited again.
    fn post_visit_table_factor(
        &mut self,
        factor: &mut ast::TableFactor,
    ) -> ControlFlow<Self::Break> {
        if let Some(narrowed) = self.narrowed(factor) {
            *factor = narrowed;
        }
        ControlFlow::Continue(())
    }
}
