//! What a query reads: system tables, users', or nothing.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sql::Catalog;
use sqlparser::ast;
use types::Result;

use super::{functions, sets};
use crate::relation;

/// A statement's query if it asks for nothing but system tables and functions; `None` otherwise.
pub fn system_query(text: &str) -> Result<Option<Box<ast::Query>>> {
    let statements = sql::parse(text)?;
    let query = match statements.as_slice() {
        [statement] => statement.query(),
        _ => None,
    };
    let genesis = Catalog::genesis();
    let is_system = |query: &&ast::Query| !about(query, &genesis).tables;
    Ok(query.filter(is_system).map(|query| Box::new(query.clone())))
}

/// What a statement names in FROM.
#[derive(Default)]
struct Named {
    ctes: Vec<String>,
    relations: Vec<Vec<String>>,
    /// Those with parentheses.
    functions: Vec<Vec<String>>,
}

impl ast::Visitor for Named {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.ctes.extend(ctes.map(|cte| sql::names::fold(&cte.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<()> {
        if let ast::TableFactor::Table { name, args: Some(_), .. }
        | ast::TableFactor::Function { name, .. } = factor
        {
            self.functions.push(parts(name));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ast::ObjectName) -> ControlFlow<()> {
        self.relations.push(parts(relation));
        ControlFlow::Continue(())
    }
}

/// What a query reads, besides functions and its own subqueries.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct About {
    /// System tables, by itself or by a view.
    pub system: bool,
    /// Users' tables, or unknown names.
    pub tables: bool,
}

/// Of a query that is no deeper than [`sql::parse`] lets through.
pub fn about(query: &ast::Query, catalog: &Catalog) -> About {
    let (mut about, mut seen) = (About::default(), BTreeSet::new());
    look(query, catalog, &mut seen, &mut about);
    about
}

/// Views are looked into once each.
fn look<'a>(
    query: &'a ast::Query,
    catalog: &'a Catalog,
    seen: &mut BTreeSet<&'a str>,
    about: &mut About,
) {
    let mut named = Named::default();
    let _ = sql::walk::read(query, &mut named);
    for parts in &named.relations {
        let is_cte = matches!(parts.as_slice(), [name] if named.ctes.contains(name));
        let is_called = named.functions.contains(parts);
        if is_cte || is_called && parts.last().is_some_and(|name| is_function(name)) {
            continue;
        }
        let view = users_name(parts).and_then(|name| catalog.view(&name));
        match (is_system_relation(parts), view) {
            (true, _) => about.system = true,
            (false, Some(view)) if seen.insert(&view.name) => {
                let mut within = About::default();
                look(&view.query, catalog, seen, &mut within);
                about.system |= within.system;
                // A view of nothing is a relation of users, too.
                about.tables |= within.tables || !within.system;
            }
            (false, Some(_)) => {}
            (false, None) => about.tables = true,
        }
    }
}

fn is_function(name: &str) -> bool {
    sets::find(name).is_some() || functions::is_known(name)
}

/// The parts of a name, as catalogs spell them.
fn parts(name: &ast::ObjectName) -> Vec<String> {
    let part = |part: &ast::ObjectNamePart| match part {
        ast::ObjectNamePart::Identifier(ident) => sql::names::fold(ident),
        other => other.to_string(),
    };
    name.0.iter().map(part).collect()
}

/// Whether a name in FROM means a system table or view.
fn is_system_relation(parts: &[String]) -> bool {
    let place = match parts {
        [name] => relation::place("pg_catalog", name),
        [schema, name] | [_, schema, name] => relation::place(schema, name),
        _ => None,
    };
    place.is_some()
}

/// What the catalog knows a user's table or view by.
fn users_name(parts: &[String]) -> Option<String> {
    match parts {
        [name] => Some(sql::names::key(sql::names::PUBLIC, name)),
        [schema, name] | [_, schema, name] => Some(sql::names::key(schema, name)),
        _ => None,
    }
}
