//! CREATE VIEW and DROP VIEW; module `materialized` has those that keep their rows.
//!
//! A view is stored as its query's text and is bound anew each time it is used. Relations that it
//! reads are recorded by name. So while a view reads a table, the table cannot be renamed, and its
//! columns cannot be dropped, renamed or changed in type; dropping the table needs CASCADE.
//!
//! *Invariants.* No view reads itself, directly or through others. Views are nested at most
//! `LEVELS_MAX` deep, since each level that joins the one below with itself doubles the plan.
//!
//! *Determinism.* All replicas must accept the same views, whatever query engines they were built
//! with. So this module only checks that the relations exist. Whether the query is valid is checked
//! by the session that receives the statement, before the statement is ordered.
//!
//! *Columns that are added later* to a table are none of what a view over it reads: see
//! [`View::query_over`].

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use sqlparser::ast;
use types::{Error, Result, SqlState};

use super::apply::{Transition, relation_exists};
use crate::schema::catalog::{Catalog, View};
use crate::schema::widths;
use crate::syntax::names::{fold, object_name, schema_of};
use crate::syntax::walk;

impl Transition {
    pub(super) fn create_view(&mut self, create: &ast::CreateView) -> Result<()> {
        let name = object_name(&create.name)?;
        refuse_unsupported(create, self.catalog.temporary_schema() == Some(schema_of(&name)))?;
        match self.catalog.view(&name) {
            Some(_) if create.or_replace => {}
            Some(_) if create.if_not_exists => return Ok(()),
            None if !self.catalog.relation_exists(&name) => {}
            _ => return Err(relation_exists(&name)),
        }
        self.check_namespace(&name)?;
        self.check_no_type(&name)?;
        let reads = relations(&self.catalog, &create.query)?;
        let view = View {
            widths: widths(&self.catalog, &reads),
            reads,
            columns: create.columns.iter().map(|column| fold(&column.name)).collect(),
            text: create.query.to_string(),
            query: create.query.clone(),
            name: name.clone(),
        };
        check_levels(&self.catalog, &view)?;
        self.catalog.views.insert(name, Arc::new(view));
        Ok(())
    }

    pub(super) fn drop_views(
        &mut self,
        names: &[ast::ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        let mut dropped = Vec::with_capacity(names.len());
        for name in names {
            let name = object_name(name)?;
            if self.catalog.view(&name).is_some() {
                dropped.push(name);
            } else if self.catalog.find_table(&name).is_some() {
                let message = format!("\"{name}\" is not a view");
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .with_hint("Use DROP TABLE to remove a table."));
            } else if !if_exists {
                let message = format!("view \"{name}\" does not exist");
                return Err(Error::new(SqlState::UNDEFINED_TABLE, message));
            }
        }
        for name in &dropped {
            self.drop_views_on("view", name, &dropped, cascade)?;
        }
        for name in dropped {
            self.catalog.views.remove(&name);
        }
        Ok(())
    }

    /// The views that read a relation which is about to go, unless they go with it.
    pub(super) fn drop_views_on(
        &mut self,
        kind: &str,
        name: &str,
        dropped: &[String],
        cascade: bool,
    ) -> Result<()> {
        let on_it: Vec<String> =
            self.catalog.views_on(name).map(|view| view.name.clone()).collect();
        for view in on_it.into_iter().filter(|view| !dropped.contains(view)) {
            let kept = self.catalog.find_table(&view).cloned();
            let own_kind = kept.as_ref().map_or("view", |table| table.kind());
            if !cascade {
                let message =
                    format!("cannot drop {kind} {name} because other objects depend on it");
                return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                    .with_detail(format!("{own_kind} {view} depends on {kind} {name}"))
                    .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            self.drop_views_on(own_kind, &view, dropped, true)?;
            match kept {
                Some(table) => self.forget_table(&table, true)?,
                None => _ = self.catalog.views.remove(&view),
            }
        }
        Ok(())
    }

    /// A view knows what it reads by name.
    pub(super) fn refuse_if_viewed(
        &self,
        table: &str,
        operation: &ast::AlterTableOperation,
    ) -> Result<()> {
        use ast::AlterColumnOperation as C;
        use ast::AlterTableOperation as O;
        let harmless = match operation {
            O::AddColumn { .. }
            | O::AddConstraint { .. }
            | O::DropConstraint { .. }
            | O::RenameConstraint { .. }
            | O::ValidateConstraint { .. }
            | O::SetOptionsParens { .. } => true,
            O::AlterColumn { op, .. } => {
                matches!(
                    op,
                    C::SetNotNull
                        | C::DropNotNull
                        | C::SetDefault { .. }
                        | C::DropDefault
                        | C::AddGenerated { .. }
                )
            }
            _ => false,
        };
        match self.catalog.views_on(table).next() {
            Some(view) if !harmless => {
                let message =
                    format!("cannot alter table {table} because other objects depend on it");
                Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                    .with_detail(format!("view {} depends on table {table}", view.name))
                    .with_hint("Drop the view first, and create it again afterwards."))
            }
            _ => Ok(()),
        }
    }
}

/// Views on views. One that joins the view before it with itself doubles what is planned, with
/// every level.
const LEVELS_MAX: usize = 16;

/// A replaced view has others above it, which stand on what it stands on from now on.
fn check_levels(catalog: &Catalog, view: &View) -> Result<()> {
    let reads = view.reads.iter().map(String::as_str).collect();
    let below = levels(reads, |name| catalog.view(name).into_iter().flat_map(|view| &view.reads));
    // Only a replaced view can come to read itself.
    if below.names.contains(&*view.name) {
        let message = format!("infinite recursion detected in view \"{}\"", view.name);
        return Err(Error::new(SqlState::INVALID_OBJECT_DEFINITION, message));
    }
    let own = BTreeSet::from([view.name.as_str()]);
    let above = levels(own, |name| catalog.views_on(name).map(|view| &view.name));
    // The view itself is the lowest level of those above it.
    if below.count + above.count - 1 <= LEVELS_MAX {
        return Ok(());
    }
    let message = format!("view \"{}\" makes too many levels of views", view.name);
    Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, message)
        .with_detail(format!("There can be {LEVELS_MAX} at most, with those that stand on it.")))
}

struct Levels<'a> {
    /// At most one more than there can be.
    count: usize,
    /// On any of them.
    names: BTreeSet<&'a str>,
}

/// Goes level by level, over the names of each: there may be many more ways than views.
fn levels<'a, N: Iterator<Item = &'a String>>(
    first: BTreeSet<&'a str>,
    next: impl Fn(&'a str) -> N,
) -> Levels<'a> {
    let mut levels = Levels { count: 0, names: BTreeSet::new() };
    let mut level = first;
    while !level.is_empty() && levels.count <= LEVELS_MAX {
        levels.count += 1;
        levels.names.extend(&level);
        level = level.into_iter().flat_map(&next).map(String::as_str).collect();
    }
    levels
}

/// `is_own`: it is in the schema of the session's temporary tables.
fn refuse_unsupported(create: &ast::CreateView, is_own: bool) -> Result<()> {
    let refused = [
        (create.temporary && !is_own, "a temporary view that the ledger makes"),
        (!matches!(create.options, ast::CreateTableOptions::None), "a view with options"),
        (
            create.columns.iter().any(|column| column.options.is_some()),
            "options of a view's column",
        ),
    ];
    match refused.iter().find(|(present, _)| *present) {
        Some((_, what)) => Err(Error::unsupported(what)),
        None => Ok(()),
    }
}

/// Names of the catalog's relations that a query reads.
pub(super) fn relations(catalog: &Catalog, query: &ast::Query) -> Result<BTreeSet<String>> {
    let mut own = BTreeSet::new();
    common_tables(query, &mut own);
    let mut found = BTreeSet::new();
    let read = walk::relations(query, |name| {
        let system = |part: &ast::ObjectNamePart| {
            let name = part.to_string().to_ascii_lowercase();
            let is_own = catalog.temporary_schema() == Some(name.trim_matches('"'));
            matches!(name.as_str(), "pg_catalog" | "information_schema")
                || name.starts_with("pg_") && !is_own
        };
        if name.0.first().is_some_and(system) {
            return ControlFlow::Continue(());
        }
        match object_name(name) {
            Ok(name) if own.contains(&name) => {}
            Ok(name) if catalog.find_table(&name).is_some() || catalog.view(&name).is_some() => {
                found.insert(name);
            }
            Ok(name) => {
                let message = format!("relation \"{name}\" does not exist");
                return ControlFlow::Break(Error::new(SqlState::UNDEFINED_TABLE, message));
            }
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    });
    match read {
        ControlFlow::Continue(()) => Ok(found),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Names that WITH gives, wherever in the query.
fn common_tables(query: &ast::Query, names: &mut BTreeSet<String>) {
    struct Collector<'a>(&'a mut BTreeSet<String>);
    impl ast::Visitor for Collector<'_> {
        type Break = ();
        fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
            let tables = query.with.iter().flat_map(|with| &with.cte_tables);
            self.0.extend(tables.map(|table| fold(&table.alias.name)));
            ControlFlow::Continue(())
        }
    }
    let _ = walk::read(query, &mut Collector(names));
}

#[cfg(test)]
mod tests {
    use types::SqlState;

    use super::LEVELS_MAX;
    use crate::{Catalog, Statement, bind, parse};

    fn apply(catalog: &mut Catalog, text: &str) -> types::Result<()> {
        for parsed in parse(text)? {
            let Statement::Ddl(ddl) = bind(catalog, &parsed, &[])?.statement else {
                panic!("{text} is no schema change");
            };
            *catalog = catalog.apply(&ddl)?.0;
        }
        Ok(())
    }

    /// There are two ways down from each view, so 2^16 from the last ones.
    #[test]
    fn views_stand_on_so_many_levels_however_many_ways_lead_down() {
        let mut catalog = Catalog::genesis();
        let first = "CREATE TABLE a0 (x int PRIMARY KEY); CREATE TABLE b0 (x int PRIMARY KEY)";
        apply(&mut catalog, first).unwrap();
        let view = |name: &str, level: usize| {
            let below = level - 1;
            format!("CREATE VIEW {name}{level} AS SELECT a{below}.x FROM a{below}, b{below}")
        };
        for level in 1..=LEVELS_MAX {
            apply(&mut catalog, &view("a", level)).unwrap();
            apply(&mut catalog, &view("b", level)).unwrap();
        }
        let error = apply(&mut catalog, &view("a", LEVELS_MAX + 1)).unwrap_err();
        assert_eq!(error.code(), SqlState::STATEMENT_TOO_COMPLEX);
        // Views that stand on a replaced one rise with it.
        apply(&mut catalog, "CREATE VIEW low AS SELECT x FROM a0").unwrap();
        apply(&mut catalog, "CREATE VIEW high AS SELECT x FROM low").unwrap();
        let replace =
            |level: usize| format!("CREATE OR REPLACE VIEW low AS SELECT x FROM a{level}");
        apply(&mut catalog, &replace(LEVELS_MAX - 2)).unwrap();
        let error = apply(&mut catalog, &replace(LEVELS_MAX - 1)).unwrap_err();
        assert_eq!(error.code(), SqlState::STATEMENT_TOO_COMPLEX);
        let around = "CREATE OR REPLACE VIEW low AS SELECT x FROM high";
        let error = apply(&mut catalog, around).unwrap_err();
        assert_eq!(error.code(), SqlState::INVALID_OBJECT_DEFINITION);
        // A statement can use each many times, but not without an end.
        let wide = parse(&format!("SELECT x FROM a{LEVELS_MAX}")).unwrap().remove(0);
        let error = bind(&catalog, &wide, &[]).unwrap_err();
        assert_eq!(error.code(), SqlState::STATEMENT_TOO_COMPLEX);
        let around = "CREATE OR REPLACE VIEW a1 AS SELECT x FROM a3";
        let error = apply(&mut catalog, around).unwrap_err();
        assert_eq!(error.code(), SqlState::INVALID_OBJECT_DEFINITION);
    }
}
