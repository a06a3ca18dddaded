//! Names without a schema: which object a session means, resolved once, before anything is bound.
//!
//! ```text
//!   SET search_path TO s, public;  SELECT … FROM t, u          what a client sends
//!        │                                                     s has a t, public has a u
//!        ▼
//!   [`SearchPath::resolve`]:       SELECT … FROM s.t, public.u  what is bound, planned, explained
//!   [`SearchPath::prefix`]:       SET search_path TO …; …      what the ledger records
//! ```
//!
//! The path is no state that replicas share: it is a session's. So a statement is given schemas in
//! its tree, and whatever comes after (binder, analytical engine, views) takes a name without one
//! for what is in public, or in a WITH. Where the path is the usual one, `public` alone, nothing is
//! done.
//!
//! A text that is recorded under another path begins with a SET of it: bodies of routines, names in
//! strings and in views are resolved by every replica in the same way, against the schema at that
//! place of the ledger. The path that is recorded names schemas that there are, and never `$user`.
//!
//! *Invariant.* Resolving twice is resolving once: a name that was found has a schema afterwards.
//!
//! *Temporary tables.* Where a session has some, their schema comes before all others, unless the
//! path says where `pg_temp` stands. What is recorded knows nothing of it: [`SearchPath::resolve`]
//! says whether a statement names one of them.
//!
//! Departures: routines of public are found by any path; a plan that was prepared keeps what its
//! names meant.
//!
//! *Cost.* One walk through the tree, of sessions that have set a path, once for each binding.

mod own;
mod statements;
mod tables;
mod type_names;

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::ControlFlow;

use sqlparser::ast::{self, Ident, ObjectName, VisitorMut};
use types::{Error, Result, SqlState};

use crate::schema::catalog::{Catalog, View};
use crate::syntax::names::{PUBLIC, bare, fold, key, object_name, quoted_if_needed};
use crate::syntax::parse::name_in;
use crate::syntax::parsed::{Body, Parsed};
use crate::syntax::path::SearchPath;
use crate::syntax::sequence::sequence_text;
use crate::syntax::walk::{self, Tree};

impl SearchPath {
    /// Those that there are, without the system's, which come first whatever the path says.
    pub fn schemas<'a>(&'a self, catalog: &'a Catalog) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().map(|name| catalog.real_schema(name));
        let own = catalog.temporary_schema().filter(|own| !named.clone().any(|name| name == *own));
        own.into_iter().chain(named.filter(|name| catalog.has_namespace(name)))
    }

    /// The same, but for that of the session's temporary tables.
    pub fn permanent<'a>(&'a self, catalog: &'a Catalog) -> impl Iterator<Item = &'a str> {
        self.schemas(catalog).filter(|schema| Some(*schema) != catalog.temporary_schema())
    }

    /// Whether a name without a schema means what is in public, unless it is a temporary table's.
    fn is_usual_beside(&self, catalog: &Catalog) -> bool {
        let mut schemas = self.permanent(catalog);
        (schemas.next(), schemas.next()) == (Some(PUBLIC), None)
    }

    /// Whether a name without a schema means what is in public.
    pub fn is_usual(&self, catalog: &Catalog) -> bool {
        catalog.temporary().is_none() && self.is_usual_beside(catalog)
    }

    /// Where what has no schema in its name is made.
    pub fn first<'a>(&'a self, catalog: &'a Catalog) -> Option<&'a str> {
        self.permanent(catalog).next()
    }

    /// What a recorded text begins with; nothing under the usual path.
    pub fn prefix(&self, catalog: &Catalog) -> String {
        if self.is_usual_beside(catalog) {
            return String::new();
        }
        let names: Vec<String> = self.permanent(catalog).map(quoted_if_needed).collect();
        match names.is_empty() {
            true => "SET search_path TO ''; ".to_owned(),
            false => format!("SET search_path TO {}; ", names.join(", ")),
        }
    }

    /// The path that a recorded text begins with.
    pub(crate) fn set_by(parsed: &Parsed) -> Option<SearchPath> {
        let Body::Statement(statement) = &parsed.body else { return None };
        let ast::Statement::Set(ast::Set::SingleAssignment { variable, values, .. }) = &**statement
        else {
            return None;
        };
        if variable.to_string() != "search_path" {
            return None;
        }
        let name = |value: &ast::Expr| match value {
            ast::Expr::Identifier(name) => fold(name),
            _ => String::new(),
        };
        let names = values.iter().map(name).filter(|name| !name.is_empty());
        Some(SearchPath(names.collect()))
    }

    /// The key of the relation that a text names; of public where there is none.
    ///
    /// # Errors
    /// It is no name.
    pub fn relation(&self, catalog: &Catalog, text: &str) -> Result<String> {
        let mut name = name_in(text)?;
        if !self.is_usual(catalog) {
            Resolver::new(self, catalog).relation(&mut name);
        }
        object_name(&name)
    }

    /// Gives schemas to the names of a statement.
    ///
    /// # Errors
    /// 3F000: something is to be made, and the path names no schema that there is. 42P01: a
    /// relation of public is named, which is not on the path.
    ///
    /// True: it names what is a session's own.
    pub(crate) fn resolve(&self, catalog: &Catalog, parsed: &mut Parsed) -> Result<bool> {
        if self.is_usual(catalog) {
            return Ok(false);
        }
        let mut resolver = Resolver::new(self, catalog);
        resolver.body(&mut parsed.body)?;
        Ok(resolver.met_temporary.get())
    }

    /// A view's query as it can be entered again where this path is set: names have a schema unless
    /// the path is the usual one, and columns the names that the view gives them.
    pub fn spelled(&self, catalog: &Catalog, view: &View) -> String {
        let catalog = catalog.ledger();
        let query = view.query_over(catalog);
        if self.is_usual(catalog) && view.columns.is_empty() && matches!(query, Cow::Borrowed(_)) {
            return view.text.clone();
        }
        let mut query = query.into_owned();
        if !self.is_usual(catalog) {
            // Within a view a name without a schema is one of public.
            let usual = SearchPath::default();
            let mut resolver = Resolver { spells: true, ..Resolver::new(&usual, catalog) };
            // What a view reads is there for as long as the view is.
            let _ = resolver.visit(&mut query);
        }
        match name_columns(&mut query, &view.columns) {
            true => query.to_string(),
            false => {
                let columns: Vec<String> =
                    view.columns.iter().map(|c| quoted_if_needed(c)).collect();
                let name = quoted_if_needed(bare(&view.name));
                format!("SELECT * FROM ({query}) AS {name} ({})", columns.join(", "))
            }
        }
    }

    /// The same for a type that a routine's body names.
    pub(crate) fn resolve_type(&self, catalog: &Catalog, data_type: &mut ast::DataType) {
        let catalog = catalog.ledger();
        if !self.is_usual(catalog) {
            Resolver::new(self, catalog).data_type(data_type);
        }
    }

    /// The same for a part of a routine's body.
    pub(crate) fn resolve_part(&self, catalog: &Catalog, part: &mut dyn Tree) -> Result<()> {
        let catalog = catalog.ledger();
        match self.is_usual(catalog) {
            true => Ok(()),
            false => Resolver::new(self, catalog).visit(part),
        }
    }
}

struct Resolver<'a> {
    catalog: &'a Catalog,
    schemas: Vec<&'a str>,
    /// Names of WITH in sight, query by query.
    common: Vec<Vec<String>>,
    /// WITH clauses that are put back behind their queries.
    taken: Vec<Option<ast::With>>,
    /// The next relation is a function's name.
    is_call: bool,
    /// Routines of public are given their schema, too.
    spells: bool,
    /// A name was that of a temporary table, or of what belongs to one.
    met_temporary: Cell<bool>,
    /// The name of what is made said no schema.
    is_alone: bool,
}

/// Gives the first columns of a query these names. Not where `*` stands among them or sets are put
/// together.
fn name_columns(query: &mut ast::Query, names: &[String]) -> bool {
    if names.is_empty() {
        return true;
    }
    let ast::SetExpr::Select(select) = &mut *query.body else { return false };
    let is_one = |item: &ast::SelectItem| {
        matches!(item, ast::SelectItem::UnnamedExpr(_) | ast::SelectItem::ExprWithAlias { .. })
    };
    // What sorts may name a column that is about to be called otherwise.
    if query.order_by.is_some() || names.len() > select.projection.len() {
        return false;
    }
    if !select.projection[..names.len()].iter().all(is_one) {
        return false;
    }
    for (item, name) in select.projection.iter_mut().zip(names) {
        if let ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } =
            item
        {
            let (expr, alias) = (expr.clone(), Ident::with_quote('"', name));
            *item = ast::SelectItem::ExprWithAlias { expr, alias };
        }
    }
    true
}

fn with_schema(name: &mut ObjectName, schema: &str) {
    let schema = Ident::with_quote('"', schema);
    name.0.insert(0, ast::ObjectNamePart::Identifier(schema));
}

/// A name without a schema.
fn alone(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [ast::ObjectNamePart::Identifier(name)] => Some(fold(name)),
        _ => None,
    }
}

impl<'a> Resolver<'a> {
    fn new(path: &'a SearchPath, catalog: &'a Catalog) -> Resolver<'a> {
        let schemas = path.schemas(catalog).collect();
        let (common, taken, met_temporary) = Default::default();
        let (is_call, spells, is_alone) = (false, false, false);
        Resolver { catalog, schemas, common, taken, is_call, spells, met_temporary, is_alone }
    }

    fn visit(&mut self, part: &mut dyn Tree) -> Result<()> {
        match walk::change(part, self) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }

    /// Whether it was found, has a schema already, or is nowhere: all but one that is in public
    /// alone, which is not on the path.
    fn relation(&self, name: &mut ObjectName) -> bool {
        let Some(bare) = alone(name) else {
            self.qualified(name);
            return true;
        };
        let has = |schema: &&&str| self.catalog.relation_exists(&key(schema, &bare));
        match self.schemas.iter().find(has) {
            Some(schema) => {
                self.meets(schema);
                with_schema(name, schema);
            }
            None => return bare.starts_with("pg_") || !self.catalog.relation_exists(&bare),
        }
        true
    }

    fn must_find(&self, name: &mut ObjectName) -> Result<()> {
        match self.relation(name) {
            true => Ok(()),
            false => Err(Error::new(
                SqlState::UNDEFINED_TABLE,
                format!("relation \"{name}\" does not exist"),
            )
            .with_hint("It is in the schema public, which is not on the search path.")),
        }
    }

    fn routine(&self, name: &mut ObjectName) {
        let Some(bare) = alone(name) else { return };
        let has = |schema: &&&str| self.catalog.routine(&key(schema, &bare)).is_some();
        let is_shown = |schema: &&&str| self.spells || **schema != PUBLIC;
        if let Some(schema) = self.schemas.iter().find(has).filter(is_shown) {
            with_schema(name, schema);
        }
    }

    /// The sequence that a call of `nextval` and the like names as a text: a column's default is
    /// read again under other paths.
    fn sequence(&self, call: &mut ast::Function) {
        let Some(text) = sequence_text(call) else { return };
        let Ok(mut name) = name_in(text) else { return };
        let is_alone = alone(&name).is_some();
        if self.relation(&mut name) && is_alone && alone(&name).is_none() {
            *text = name.to_string();
        }
    }

    fn made(&self, name: &mut ObjectName) -> Result<()> {
        if alone(name).is_none() {
            self.qualified(name);
            return Ok(());
        }
        let own = self.catalog.temporary_schema();
        let mut permanent = self.schemas.iter().filter(|schema| Some(**schema) != own);
        let Some(schema) = permanent.next() else {
            let what = "no schema has been selected to create in";
            return Err(Error::new(SqlState::INVALID_SCHEMA_NAME, what));
        };
        with_schema(name, schema);
        Ok(())
    }

    /// Names of what is dropped: of those that are nowhere, none is taken for one in public.
    fn dropped(&self, names: &mut Vec<ObjectName>, if_exists: bool) -> Result<()> {
        let mut missing = Ok(());
        names.retain_mut(|name| match self.must_find(name) {
            Ok(()) => true,
            Err(_) if if_exists => false,
            Err(error) => {
                missing = Err(error);
                true
            }
        });
        missing
    }
}

fn flow(result: Result<()>) -> ControlFlow<Error> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

impl VisitorMut for Resolver<'_> {
    type Break = Error;

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<Error> {
        flow(self.statement(statement))
    }

    /// The queries of WITH see the names before them, or all where it is RECURSIVE.
    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<Error> {
        let mut with = query.with.take();
        let names = self.common.last().cloned().unwrap_or_default();
        self.common.push(names);
        if let Some(with) = &mut with {
            let add = |resolver: &mut Self, table: &ast::Cte| {
                let name = fold(&table.alias.name);
                resolver.common.last_mut().into_iter().for_each(|names| names.push(name.clone()));
            };
            if with.recursive {
                with.cte_tables.iter().for_each(|table| add(self, table));
            }
            for table in &mut with.cte_tables {
                walk::change(&mut table.query, self)?;
                add(self, table);
            }
        }
        self.taken.push(with);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<Error> {
        query.with = self.taken.pop().flatten();
        self.common.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<Error> {
        match factor {
            ast::TableFactor::Table { name, args: Some(_), .. } => {
                self.routine(name);
                self.is_call = true;
            }
            ast::TableFactor::Function { name, .. } => self.routine(name),
            _ => {}
        }
        if let ast::TableFactor::Table { alias: Some(alias), .. }
        | ast::TableFactor::Function { alias: Some(alias), .. } = factor
        {
            let declared = alias.columns.iter_mut().filter_map(|column| column.data_type.as_mut());
            declared.for_each(|data_type| self.data_type(data_type));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<Error> {
        if std::mem::take(&mut self.is_call) {
            return ControlFlow::Continue(());
        }
        let is_common = |bare: String| self.common.last().is_some_and(|all| all.contains(&bare));
        match alone(name).is_some_and(is_common) {
            true => ControlFlow::Continue(()),
            false => flow(self.must_find(name)),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Error> {
        if let ast::Expr::Function(call) = expr {
            self.sequence(call);
            self.routine(&mut call.name);
        }
        match expr {
            ast::Expr::Cast { data_type, .. } => self.data_type(data_type),
            ast::Expr::TypedString(typed) => self.data_type(&mut typed.data_type),
            ast::Expr::Collate { collation, .. } => self.collation(collation),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Statement, bind, parse};

    fn catalog() -> Catalog {
        let mut catalog = Catalog::genesis();
        for text in [
            "CREATE SCHEMA a",
            "CREATE SCHEMA \"B.c\"",
            "CREATE TABLE t (x int PRIMARY KEY)",
            "CREATE TABLE a.t (x int PRIMARY KEY)",
            "CREATE TABLE u (x int PRIMARY KEY)",
            "CREATE TABLE \"B.c\".w (x int PRIMARY KEY)",
        ] {
            let parsed = parse(text).unwrap().remove(0);
            match bind(&catalog, &parsed, &[]).unwrap().statement {
                Statement::Ddl(ddl) => catalog = catalog.apply(&ddl).unwrap().0,
                other => panic!("{other:?}"),
            }
        }
        catalog
    }

    fn resolved(catalog: &Catalog, path: &str, text: &str) -> String {
        let path = SearchPath::of_setting(path, "tally");
        let mut parsed = parse(text).unwrap().remove(0);
        if let Err(error) = path.resolve(catalog, &mut parsed) {
            return error.code().as_str().to_owned();
        }
        let once = parsed.clone();
        path.resolve(catalog, &mut parsed).unwrap();
        assert_eq!(parsed, once, "resolved twice: {text}");
        match parsed.body {
            Body::Statement(statement) => statement.to_string().replace('"', ""),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_mean_what_the_path_finds_first() {
        let catalog = catalog();
        for (path, text, meant) in [
            ("$user, public", "SELECT * FROM t", "SELECT * FROM t"),
            ("a, public", "SELECT * FROM t, u", "SELECT * FROM a.t, public.u"),
            ("public, a", "SELECT * FROM t, u", "SELECT * FROM public.t, public.u"),
            ("a", "SELECT * FROM u", "42P01"),
            ("a", "SELECT * FROM nope", "SELECT * FROM nope"),
            ("\"B.c\"", "SELECT * FROM w", "SELECT * FROM B.c.w"),
            ("a", "DROP TABLE u", "42P01"),
            ("a", "SELECT nextval('t')", "SELECT nextval('a.t')"),
            ("a", "SELECT currval('t'::REGCLASS)", "SELECT currval('a.t'::REGCLASS)"),
            ("a", "SELECT setval('public.t', 1)", "SELECT setval('public.t', 1)"),
            ("a", "SELECT nextval('u'), lower('t')", "SELECT nextval('u'), lower('t')"),
            (
                "a",
                "CREATE TABLE n (x INT DEFAULT nextval('t'))",
                "CREATE TABLE a.n (x INT DEFAULT nextval('a.t'))",
            ),
            ("nope", "CREATE TABLE n (x int)", "3F000"),
            ("a", "CREATE TABLE n (x INT)", "CREATE TABLE a.n (x INT)"),
            ("public, a", "CREATE TABLE n (x INT)", "CREATE TABLE public.n (x INT)"),
            (
                "a",
                "WITH t AS (SELECT * FROM t) SELECT * FROM t WHERE x IN (SELECT x FROM t)",
                "WITH t AS (SELECT * FROM a.t) SELECT * FROM t WHERE x IN (SELECT x FROM t)",
            ),
            (
                "a",
                "WITH t AS (SELECT 1 AS x) INSERT INTO t SELECT x FROM t",
                "WITH t AS (SELECT 1 AS x) INSERT INTO a.t SELECT x FROM t",
            ),
            (
                "a",
                "WITH t AS (SELECT 1 AS x) UPDATE t SET x = 2 FROM t AS s WHERE t.x = s.x",
                "WITH t AS (SELECT 1 AS x) UPDATE a.t SET x = 2 FROM t AS s WHERE t.x = s.x",
            ),
            (
                "a",
                "WITH t AS (SELECT 1 AS x) DELETE FROM t USING t AS s WHERE t.x = s.x",
                "WITH t AS (SELECT 1 AS x) DELETE FROM a.t USING t AS s WHERE t.x = s.x",
            ),
            (
                "a",
                "WITH RECURSIVE t AS (SELECT * FROM t) SELECT * FROM t",
                "WITH RECURSIVE t AS (SELECT * FROM t) SELECT * FROM t",
            ),
            (
                "a, public",
                "INSERT INTO t SELECT * FROM u",
                "INSERT INTO a.t SELECT * FROM public.u",
            ),
            ("a", "DELETE FROM t", "DELETE FROM a.t"),
            ("a", "SELECT * FROM pg_class", "SELECT * FROM pg_class"),
        ] {
            assert_eq!(resolved(&catalog, path, text), meant, "{path}: {text}");
        }
    }

    #[test]
    fn a_recorded_path_is_read_again() {
        let catalog = catalog();
        for setting in ["a, public", "\"B.c\", a", "a", "", "nope"] {
            let path = SearchPath::of_setting(setting, "tally");
            let text = format!("{}SELECT 1", path.prefix(&catalog));
            let parsed = parse(&text).unwrap();
            assert_eq!(parsed.len(), 2, "{text}");
            let again = SearchPath::set_by(&parsed[0]).unwrap();
            let names = |path: &SearchPath| -> Vec<String> {
                path.schemas(&catalog).map(str::to_owned).collect()
            };
            assert_eq!(names(&again), names(&path), "{text}");
        }
        assert_eq!(SearchPath::default().prefix(&catalog), "");
        assert_eq!(SearchPath::of_setting("\"$user\", public", "tally").prefix(&catalog), "");
    }
}
