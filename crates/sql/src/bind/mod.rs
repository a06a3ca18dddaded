//! Binding: from a syntax tree to a program.
//!
//! ```text
//! ast ─ from ─ expression ─ aggregates ─► bound expressions ─ plan ─► Query
//!        └ scope                            │
//!                 insert · update ──────────┴─ dml · constraints ───► Steps
//! ```
//!
//! A statement becomes steps over registers; `$n` is register n-1. Bound expressions name columns
//! by their number in the whole FROM clause until [`plan`] has placed them. The same [`Binder`]
//! serves single statements, LANGUAGE sql and PL/pgSQL bodies; the difference is in its variables.

mod aggregates;
mod binder;
mod calls;
mod constraints;
mod dml;
mod expression;
mod from;
mod functions;
mod insert;
mod intervals;
mod merge;
mod operators;
pub mod origins;
mod output_names;
mod past;
mod plan;
mod proofs;
mod refused;
mod routine;
mod row_functions;
mod rows;
mod scope;
mod select;
mod sequences;
mod session;
mod session_calls;
mod settle;
pub mod statement;
mod subquery;
mod update;
mod with;

use std::sync::Arc;

use procedure::{Interrupt, Output, Procedure, Query, Step, draws};
use sqlparser::ast;
use types::cast::{CastContext, cast_context};
use types::{DataType, Error, Result, SqlState};

pub use binder::{Binder, Typed, fold};
pub use calls::{SHARED_FUNCTIONS, call_of, operator_of};
pub use dml::Dml;
pub use output_names::output_name;
pub use past::PastQuery;
pub use proofs::{ProofQuery, WhichRows, no_value};
pub use refused::machine_dependent;
pub(crate) use refused::would_differ;
pub use routine::compile_routine;
pub(crate) use routine::{is_missing, parameter_defaults};
pub use scope::{Relation, Scope, ScopeColumn, Variable};
pub use select::BoundQuery;
pub use session_calls::{Level, SessionCall, SessionFunction};

use crate::bind::statement::{Bound, Statement};
use crate::schema::catalog::Catalog;
use crate::settings::session_info::SessionInfo;
use crate::syntax::changes::{modifying, names_changes};
use crate::syntax::ddl::Ddl;
use crate::syntax::parsed::{Body, Parsed};
use crate::syntax::routine::{CreateFunction, RoutineKind};

/// Checks a statement against a catalog and compiles it. `parameters` are the types that the client
/// gave; those it did not give are inferred.
pub fn bind(catalog: &Catalog, parsed: &Parsed, parameters: &[Option<DataType>]) -> Result<Bound> {
    bind_in_session(catalog, &SessionInfo::default(), parsed, parameters)
}

/// [`bind`], where `current_user` and its kin are a session's.
pub fn bind_in_session(
    catalog: &Catalog,
    session: &SessionInfo,
    parsed: &Parsed,
    parameters: &[Option<DataType>],
) -> Result<Bound> {
    bind_interruptibly(catalog, session, parsed, parameters, None)
}

/// [`bind_in_session`], until its client gives it up.
pub(crate) fn bind_interruptibly(
    catalog: &Catalog,
    session: &SessionInfo,
    parsed: &Parsed,
    parameters: &[Option<DataType>],
    interrupt: Option<&dyn Interrupt>,
) -> Result<Bound> {
    let mut types = parameters.to_vec();
    types.resize(types.len().max(parsed.placeholders), None);
    let known = |t: Option<DataType>| t.filter(|t| *t != DataType::Unknown);
    let types = types.into_iter().map(known).collect();
    let mut binder = Binder::new(catalog, session, types);
    binder.source = parsed.source();
    binder.bound_by_text(parsed.text.len());
    binder.interrupt = interrupt;
    let (statement, output) = match &parsed.body {
        Body::Statement(statement) => binder.statement(statement, &parsed.text)?,
        Body::CreateRoutine { procedure, definition } => {
            let ddl = Ddl::CreateRoutine {
                function: Box::new(CreateFunction::from_ast(
                    definition,
                    *procedure,
                    &session.path,
                )?),
                or_replace: definition.or_replace,
            };
            (Statement::Ddl(ddl), Output::Tag)
        }
        Body::DropRoutine { procedure, definition } => {
            let ddl = Ddl::DropRoutines {
                kind: match procedure {
                    true => RoutineKind::Procedure,
                    false => RoutineKind::Function,
                },
                names: definition.func_desc.iter().map(|d| d.name.clone()).collect(),
                if_exists: definition.if_exists,
            };
            (Statement::Ddl(ddl), Output::Tag)
        }
        Body::Ddl(ddl) => (Statement::Ddl((**ddl).clone()), Output::Tag),
        Body::TableAs(definition) => {
            let columns = binder.query(&definition.query)?.columns;
            let made = definition.as_statements(&columns)?;
            (Statement::CreateTableAs(Arc::new(made)), Output::Tag)
        }
        Body::Do { language, body } => {
            let function = CreateFunction::anonymous(language, body, &session.path)?;
            let mut procedure = compile_routine(catalog, &function)?;
            (procedure.name, procedure.tag) = (parsed.text.clone(), "DO".into());
            (Statement::Procedure(Arc::new(procedure)), Output::Tag)
        }
        Body::SetConstraints { names, deferred } => {
            names.iter().try_for_each(|name| check_deferrable(catalog, name))?;
            if *deferred {
                return Err(Error::unsupported("SET CONSTRAINTS … DEFERRED").with_hint(
                    "Foreign keys are checked at the end of each statement: insert parents first, \
                     or both in one statement.",
                ));
            }
            (Statement::Nothing("SET CONSTRAINTS"), Output::Tag)
        }
        Body::Nothing(tag) => (Statement::Nothing(tag), Output::Tag),
        Body::Rollback => (Statement::Rollback, Output::Tag),
        Body::Declare { .. } => return Err(Error::unsupported("DECLARE outside of a session")),
        Body::Fetch { name, direction, moves } => {
            let (name, direction, moves) = (name.clone(), *direction, *moves);
            (Statement::Fetch { name, direction, moves }, Output::Tag)
        }
        Body::CloseCursor(name) => (Statement::CloseCursor(name.clone()), Output::Tag),
        Body::Empty => (Statement::Empty, Output::Tag),
    };
    Ok(Bound {
        statement,
        parameters: binder.parameter_types(),
        output,
        session_dependent: binder.session_dependent,
        zone_dependent: binder.zone_dependent,
    })
}

impl Binder<'_> {
    fn statement(&mut self, statement: &ast::Statement, text: &str) -> Result<(Statement, Output)> {
        use ast::Statement as S;
        match statement {
            S::Query(query) if modifying(query).is_none() && names_changes(query) => {
                self.select_with_changes(query, text)
            }
            S::Query(query) if let Some(changes) = modifying(query) => {
                let tag = match changes {
                    S::Insert(_) => "INSERT 0",
                    S::Update(_) => "UPDATE",
                    S::Delete(_) => "DELETE",
                    _ => "MERGE",
                };
                self.dml_statement(statement, text, tag)
            }
            S::Query(query) => match self.lone_select(query)? {
                Some(call) => Ok(call),
                None => {
                    if let Some(bound) = self.sequence_statement(query, text)? {
                        return Ok(bound);
                    }
                    let bound = self.query(query)?;
                    self.steps.push(Step::EmitQuery { query: bound.query });
                    self.program(text, Output::Rows(bound.columns), "SELECT")
                }
            },
            S::Insert(_) => self.dml_statement(statement, text, "INSERT 0"),
            S::Update(_) => self.dml_statement(statement, text, "UPDATE"),
            S::Delete(_) => self.dml_statement(statement, text, "DELETE"),
            S::Merge(_) => self.dml_statement(statement, text, "MERGE"),
            S::Call(call) => self.call_statement(call),
            S::Copy { source, to, options, legacy_options, .. } => {
                self.copy(source, *to, (options, legacy_options), text)
            }
            _ => match Ddl::of_statement(statement)? {
                Some(ddl) => Ok((Statement::Ddl(ddl), Output::Tag)),
                None => self.session_statement(statement, text),
            },
        }
    }

    /// A query that calls what stands alone.
    fn lone_select(&mut self, query: &ast::Query) -> Result<Option<(Statement, Output)>> {
        match self.session_select(query)? {
            Some(calls) => Ok(Some(calls)),
            None => self.select_call(query),
        }
    }

    fn dml_statement(
        &mut self,
        statement: &ast::Statement,
        text: &str,
        tag: &str,
    ) -> Result<(Statement, Output)> {
        let dml = self.dml(statement, true)?;
        self.steps.push(Step::CountRows { by: dml.count });
        let output = dml.columns.map_or(Output::Tag, Output::Rows);
        self.program(text, output, tag)
    }

    /// The steps so far as a program over the parameters.
    fn program(&mut self, text: &str, output: Output, tag: &str) -> Result<(Statement, Output)> {
        let procedure = self.procedure(text, output.clone(), tag)?;
        Ok((Statement::Procedure(Arc::new(procedure)), output))
    }

    pub(crate) fn procedure(&mut self, name: &str, output: Output, tag: &str) -> Result<Procedure> {
        let steps = std::mem::take(&mut self.steps);
        let parameters = self.parameter_types().into_iter().enumerate();
        let mut procedure = Procedure {
            name: name.to_owned(),
            parameters: parameters
                .map(|(i, data_type)| procedure::Column { name: format!("${}", i + 1), data_type })
                .collect(),
            registers: self.next_register,
            register_names: Box::default(),
            read_only: is_read_only(&steps),
            body: steps.into(),
            output,
            tag: tag.to_owned(),
            draws: false,
            sequences: Box::default(),
        };
        draws::place(&mut procedure)?;
        Ok(procedure)
    }
}

/// What SET CONSTRAINTS names: there are no constraints that it could.
fn check_deferrable(catalog: &Catalog, name: &ast::ObjectName) -> Result<()> {
    let name = crate::syntax::names::simple_name(name)?;
    let mut keys = catalog.tables().flat_map(|table| &table.foreign_keys);
    match keys.find(|key| key.name == name) {
        Some(_) => {
            let what = format!("constraint \"{name}\" is not deferrable");
            Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what))
        }
        None => {
            let what = format!("constraint \"{name}\" does not exist");
            Err(Error::new(SqlState::UNDEFINED_OBJECT, what))
        }
    }
}

/// Whether a value of one type may be an argument of another.
fn supports(from: &DataType, to: &DataType) -> bool {
    cast_context(from, to).is_some_and(|context| context == CastContext::Implicit)
}

/// Whether no step writes.
pub fn is_read_only(steps: &[Step]) -> bool {
    steps.iter().all(|step| match step {
        Step::Update { .. } | Step::Insert { .. } | Step::Delete { .. } => false,
        Step::ForRows { body, .. }
        | Step::ForRange { body, .. }
        | Step::ForEach { body, .. }
        | Step::While { body, .. } => is_read_only(body),
        Step::If { then, otherwise, .. } => is_read_only(then) && is_read_only(otherwise),
        _ => true,
    })
}

/// A query as a program of its own.
pub(crate) fn query_program(
    text: &str,
    binder: &mut Binder<'_>,
    query: Query,
    output: Output,
) -> Result<Procedure> {
    binder.steps.push(Step::EmitQuery { query });
    binder.procedure(text, output, "SELECT")
}
