//! Queries over system tables: bound once, then run over catalog rows.
//!
//! ```text
//!            ┌─ sql::bind ─► program ─► interpreter, which asks what is `around` its run ─┐
//! a query ───┤                                                                            ├─► rows
//!            └─ bind ─► plan ─► execute: what the first does not know ────────────────────┘
//! ```
//!
//! Either way a join with a system table is a lookup by the equality that ties it to what is there
//! already. System tables have lookups by any column, made once for each version of the catalog, so
//! queries cost what their results do. Users' tables beside them are read by their indexes, or, by
//! the evaluator, whole, once for each run (`users`).

pub(crate) mod around;
mod bind;
mod binding;
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
mod program;
mod refused;
mod run;
mod scope;
mod select;
pub(crate) mod sets;
mod signature;
mod surrounded;
mod text_functions;
mod typed;
pub(crate) mod users;
mod values;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use kit::pool::{Lease, Pool};
use procedure::{Interrupt, Procedure};
use sql::bind::catalogs::bind_system_query;
use sql::{Catalog, SessionInfo};
use sqlparser::ast;
use storage::Snapshot;
use types::{DataType, Error, Result, SqlState, TableId, Value};

use crate::relation::Relation;
use crate::world::{Row, Session, World};
use around::Around;
use bind::Binder;
use binding::{Binding, Call};
use plan::Query;
use run::Run;

pub use keywords::KEYWORDS;
pub use typed::{Typed, matched, meeting_type};

/// Freezes rows of tables that no transaction has written.
pub(crate) const FROZEN_XID: i64 = 2;

/// A query over system tables, ready to run.
#[derive(Debug)]
pub struct Prepared {
    world: Arc<World>,
    plan: Plan,
    pub columns: Vec<procedure::Column>,
    /// Types of `$1`….
    pub parameters: Vec<DataType>,
    /// Users' tables that it reads.
    pub tables: Box<[TableId]>,
}

/// Who runs it.
#[derive(Debug)]
enum Plan {
    /// The interpreter of all programs, over catalog rows.
    Program { procedure: Box<Procedure>, calls: Arc<[Call]> },
    /// The evaluator of this module, which knows what the binder of programs does not.
    Own { query: Box<Query>, cached: usize },
}

impl Prepared {
    pub fn new(
        world: Arc<World>,
        info: &SessionInfo,
        statement: &ast::Query,
        types: &[Option<DataType>],
        interrupt: Option<&dyn Interrupt>,
    ) -> Result<Prepared> {
        let by_rows = Prepared::by_rows(&world, info, statement, types, interrupt);
        by_rows.or_else(|_| Prepared::by_evaluator(&world, statement, types, interrupt))
    }

    /// Bound and run as any query is.
    ///
    /// # Errors
    /// What is wrong with it, or what the binder does not know.
    pub fn by_rows(
        world: &Arc<World>,
        info: &SessionInfo,
        statement: &ast::Query,
        types: &[Option<DataType>],
        interrupt: Option<&dyn Interrupt>,
    ) -> Result<Prepared> {
        let binding = Binding::new(world);
        let around = (&*world.catalog, info);
        let (procedure, columns) =
            bind_system_query(around, statement, types, &binding, interrupt)?;
        let parameters = procedure.parameters.iter().map(|p| p.data_type.clone()).collect();
        let tables = program::tables(&procedure);
        let plan = Plan::Program { procedure: Box::new(procedure), calls: binding.into_calls() };
        Ok(Prepared { world: Arc::clone(world), plan, columns, parameters, tables })
    }

    pub fn by_evaluator(
        world: &Arc<World>,
        statement: &ast::Query,
        types: &[Option<DataType>],
        interrupt: Option<&dyn Interrupt>,
    ) -> Result<Prepared> {
        let mut binder = Binder::new(world, types);
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
        let plan = Plan::Own { query: Box::new(query), cached };
        Ok(Prepared { world: Arc::clone(world), plan, columns, parameters, tables })
    }

    /// All rows, those of users' tables as of the snapshot, and what covers them, with names where
    /// a client is shown names. `interrupt` is asked now and then.
    pub fn run(
        &self,
        session: Session,
        parameters: &[Value],
        snapshot: Option<&Snapshot>,
        memory: Option<&Arc<Pool>>,
        interrupt: Arc<dyn Interrupt>,
    ) -> Result<(Vec<Row>, Option<Lease>)> {
        let names = cast::Names { world: &self.world };
        let (mut rows, lease) = self.rows(session, parameters, snapshot, memory, interrupt)?;
        for row in &mut rows {
            for (value, column) in row.iter_mut().zip(&self.columns) {
                names.name_objects(value, &column.data_type)?;
            }
        }
        Ok((rows, lease))
    }

    fn rows(
        &self,
        session: Session,
        parameters: &[Value],
        snapshot: Option<&Snapshot>,
        memory: Option<&Arc<Pool>>,
        interrupt: Arc<dyn Interrupt>,
    ) -> Result<(Vec<Row>, Option<Lease>)> {
        let names = cast::Names { world: &self.world };
        let values = parameters.iter().zip(&self.parameters);
        // Objects may come by name.
        let values = values.map(|(value, to)| names.cast(value, to, to));
        let parameters = values.collect::<Result<Vec<_>>>()?;
        let around = Around::new(Arc::clone(&self.world), session, interrupt);
        match &self.plan {
            Plan::Program { procedure, calls } => {
                program::run(procedure, (around, calls), &parameters, snapshot, memory)
            }
            Plan::Own { query, cached } => {
                let mut run = Run::new(&around, &parameters, *cached);
                run.users.snapshot = snapshot;
                run.lease = RefCell::new(memory.map(Pool::lease));
                let rows = run.query(query, None)?;
                let lease = run.lease.take();
                Ok((rows, lease))
            }
        }
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
    world: &Arc<World>,
    session: &Session,
    text: &str,
    view: &Relation,
) -> Result<Vec<Row>> {
    let query = system_query(text)?;
    let query = query.ok_or_else(|| broken(view))?;
    let bound = Prepared::new(Arc::clone(world), &SessionInfo::default(), &query, &[], None)?;
    let order = view.columns.iter().map(|attribute| {
        let place = bound.columns.iter().position(|column| column.name == attribute.name);
        place.map(|place| (place, bound.columns[place].data_type.clone()))
    });
    let order: Vec<Option<(usize, DataType)>> = order.collect();
    let names = cast::Names { world };
    let in_order = |row: Row| {
        let values = order.iter().zip(&view.columns).map(|(from, attribute)| match from {
            Some((place, from)) => names.cast(&row[*place], from, &attribute.data_type),
            None => Ok(Value::Null),
        });
        values.collect::<Result<Row>>()
    };
    let rows = bound.rows(session.clone(), &[], None, None, Arc::new(around::Unhurried))?.0;
    rows.into_iter().map(in_order).collect()
}

fn broken(view: &Relation) -> Error {
    Error::new(SqlState::INTERNAL_ERROR, format!("the view {} is no query", view.name))
}
