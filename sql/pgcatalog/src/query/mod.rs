//! Queries over system tables: bound once, then run over catalog rows.
//!
//! ```text
//! a query ── sql::bind, which asks `binding` ──► program ── interpreter ──► rows
//!                                                               │
//!                      rows of relations, functions: what is `around` its run
//! ```
//!
//! A join with a system table is a lookup by the equality that ties it to what is there already.
//! System tables have lookups by any column, made once for each version of the catalog, so queries
//! cost what their results do. Users' tables beside them are read by their indexes.

mod about;
pub(crate) mod around;
mod binding;
pub mod cast;
mod format;
pub(crate) mod functions;
mod keywords;
mod made;
mod privileges;
mod program;
pub(crate) mod sets;
mod signature;
mod surrounded;
mod text_functions;

use std::sync::Arc;

use kit::pool::{Lease, Pool};
use procedure::{Interrupt, Procedure};
use sql::SessionInfo;
use sql::bind::catalogs::bind_system_query;
use sqlparser::ast;
use storage::Snapshot;
use types::{DataType, Error, Result, SqlState, TableId, Value};

use crate::relation::Relation;
use crate::world::{Row, Session, World};
use around::Around;
use binding::{Binding, Call};

pub use about::{About, about, system_query};
pub use keywords::KEYWORDS;

/// Freezes rows of tables that no transaction has written.
pub(crate) const FROZEN_XID: i64 = 2;

/// A query over system tables, ready to run.
#[derive(Debug)]
pub struct Prepared {
    world: Arc<World>,
    procedure: Box<Procedure>,
    /// What the program's numbers stand for.
    calls: Arc<[Call]>,
    pub columns: Vec<procedure::Column>,
    /// Types of `$1`….
    pub parameters: Vec<DataType>,
    /// Users' tables that it reads.
    pub tables: Box<[TableId]>,
}

impl Prepared {
    /// # Errors
    /// What is wrong with it, or what the binder does not know.
    pub fn new(
        world: Arc<World>,
        info: &SessionInfo,
        statement: &ast::Query,
        types: &[Option<DataType>],
        interrupt: Option<&dyn Interrupt>,
    ) -> Result<Prepared> {
        let binding = Binding::new(&world);
        let around = (&*world.catalog, info);
        let (procedure, columns) =
            bind_system_query(around, statement, types, &binding, interrupt)?;
        let parameters = procedure.parameters.iter().map(|p| p.data_type.clone()).collect();
        let tables = program::tables(&procedure);
        let (procedure, calls) = (Box::new(procedure), binding.into_calls());
        Ok(Prepared { world, procedure, calls, columns, parameters, tables })
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
        program::run(&self.procedure, (around, &self.calls), &parameters, snapshot, memory)
    }
}

/// The columns of a user's view.
pub fn columns_of_view(world: &World, view: &sql::catalog::View) -> Result<Vec<procedure::Column>> {
    let info = SessionInfo::default();
    let around = (&*world.catalog, &info);
    let (_, mut columns) = bind_system_query(around, &view.query, &[], &Binding::new(world), None)?;
    for (column, name) in columns.iter_mut().zip(&view.columns) {
        column.name.clone_from(name);
    }
    Ok(columns)
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
