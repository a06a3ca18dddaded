//! Queries over system tables: bound once, then evaluated row by row.
//!
//! What clients ask of catalogs is not large, but uses more of SQL than anything that people write:
//! correlated subqueries in select lists, sets within them, `LATERAL` without the word, arrays that
//! count from 0, names that are numbers. An evaluator that keeps PostgreSQL's own model (a query
//! is evaluated for each row around it) has all of that for free; a planner of joins over columns
//! would have to be talked out of its model for each.
//!
//! ```text
//! text ─ sqlparser ─ bind (names, types) ─► plan ─ execute ─► rows
//!                                                     │
//!                              joins: by lookup, else by hash, else by loop
//! ```
//!
//! Joins are ordered greedily: next comes a table that an equality ties to what is there already.
//! System tables have lookups by any column, made once for each version of the catalog, so queries
//! cost what their results do. Users' tables beside them are read whole, once for each run
//! (`users`), and computed with as the fast path does (`fast`).

mod bind;
mod calls;
pub mod cast;
mod compare;
mod eval;
mod execute;
mod expression;
mod fast;
mod format;
mod from;
pub(crate) mod functions;
mod group;
mod join;
mod keywords;
mod plan;
mod privileges;
mod refused;
mod run;
mod scope;
mod select;
pub(crate) mod sets;
mod signature;
mod text_functions;
mod typed;
pub(crate) mod users;
mod values;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use kit::pool::{Lease, Pool};
use procedure::Interrupt;
use sql::Catalog;
use sqlparser::ast;
use storage::Snapshot;
use types::{DataType, Error, Result, SqlState, TableId, Value};

use crate::relation::Relation;
use crate::world::{Row, Session, World};
use bind::Binder;
use plan::Query;
use run::Run;

pub use keywords::KEYWORDS;
pub use typed::{Typed, matched, meeting_type};

/// A query over system tables, ready to run.
#[derive(Debug)]
pub struct Prepared {
    world: Arc<World>,
    query: Query,
    cached: usize,
    pub columns: Vec<procedure::Column>,
    /// Types of `$1`….
    pub parameters: Vec<DataType>,
    /// Users' tables that it reads.
    pub tables: Box<[TableId]>,
}

impl Prepared {
    pub fn new(
        world: Arc<World>,
        statement: &ast::Query,
        types: &[Option<DataType>],
        interrupt: Option<&dyn Interrupt>,
    ) -> Result<Prepared> {
        let mut binder = Binder::new(&world, types);
        binder.interrupt = interrupt;
        let query = binder.query(statement)?;
        let (cached, parameters) = (binder.cached, std::mem::take(&mut binder.parameters));
        let columns = query.columns.iter().map(|column| procedure::Column {
            name: column.name.clone(),
            data_type: column.data_type.clone(),
        });
        let columns = columns.collect();
        let parameters = parameters.into_iter().map(|t| t.unwrap_or(DataType::Text)).collect();
        let tables = binder.tables.iter().copied().collect();
        Ok(Prepared { world, query, cached, columns, parameters, tables })
    }

    /// All rows, those of users' tables as of the snapshot, and what covers them. `interrupted` is
    /// asked now and then.
    pub fn run(
        &self,
        session: &Session,
        parameters: &[Value],
        snapshot: Option<&Snapshot>,
        memory: Option<&Arc<Pool>>,
        interrupted: &dyn Fn() -> Result<()>,
    ) -> Result<(Vec<Row>, Option<Lease>)> {
        let names = cast::Names { world: &self.world };
        let values = parameters.iter().zip(&self.parameters);
        // Objects may come by name.
        let values = values.map(|(value, to)| names.cast(value, to, to));
        let parameters = values.collect::<Result<Vec<_>>>()?;
        let mut run = Run::new(&self.world, session, &parameters, self.cached, interrupted);
        run.users.snapshot = snapshot;
        run.lease = RefCell::new(memory.map(Pool::lease));
        let mut rows = run.query(&self.query, None)?;
        for row in &mut rows {
            for (value, column) in row.iter_mut().zip(&self.columns) {
                names.name_objects(value, &column.data_type)?;
            }
        }
        let lease = run.lease.take();
        Ok((rows, lease))
    }
}

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
            self.functions.push(scope::parts(name));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ast::ObjectName) -> ControlFlow<()> {
        self.relations.push(scope::parts(relation));
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
    let _ = ast::Visit::visit(query, &mut named);
    for parts in &named.relations {
        let is_cte = matches!(parts.as_slice(), [name] if named.ctes.contains(name));
        let is_called = named.functions.contains(parts);
        if is_cte || is_called && parts.last().is_some_and(|name| is_function(name)) {
            continue;
        }
        let view = from::users_name(parts).and_then(|name| catalog.view(&name));
        match (from::system_relation(parts), view) {
            (Some(_), _) => about.system = true,
            (None, Some(view)) if seen.insert(&view.name) => {
                let mut within = About::default();
                look(&view.query, catalog, seen, &mut within);
                about.system |= within.system;
                // A view of nothing is a relation of users, too.
                about.tables |= within.tables || !within.system;
            }
            (None, Some(_)) => {}
            (None, None) => about.tables = true,
        }
    }
}

fn is_function(name: &str) -> bool {
    sets::find(name).is_some() || functions::is_known(name)
}

/// The columns of a user's view.
pub fn columns_of_view(world: &World, view: &sql::catalog::View) -> Result<Vec<procedure::Column>> {
    let query = Binder::new(world, &[]).view(view)?;
    let columns = query.columns.into_iter();
    Ok(columns.map(|c| procedure::Column { name: c.name, data_type: c.data_type }).collect())
}

/// The rows of a view, by its definition.
pub fn view_rows(
    world: &World,
    session: &Session,
    text: &str,
    view: &Relation,
) -> Result<Vec<Row>> {
    let query = system_query(text)?;
    let query = query.ok_or_else(|| broken(view))?;
    let mut binder = Binder::new(world, &[]);
    let bound = binder.query(&query)?;
    let order = view.columns.iter().map(|attribute| {
        let place = bound.columns.iter().position(|column| column.name == attribute.name);
        place.map(|place| (place, bound.columns[place].data_type.clone()))
    });
    let order: Vec<Option<(usize, DataType)>> = order.collect();
    let run = Run::new(world, session, &[], binder.cached, &|| Ok(()));
    let names = cast::Names { world };
    let in_order = |row: Row| {
        let values = order.iter().zip(&view.columns).map(|(from, attribute)| match from {
            Some((place, from)) => names.cast(&row[*place], from, &attribute.data_type),
            None => Ok(Value::Null),
        });
        values.collect::<Result<Row>>()
    };
    run.query(&bound, None)?.into_iter().map(in_order).collect()
}

fn broken(view: &Relation) -> Error {
    Error::new(SqlState::INTERNAL_ERROR, format!("the view {} is no query", view.name))
}
