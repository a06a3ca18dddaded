//! Whole statements and routines: what a text says, checked against a catalog and compiled.
//!
//! Which language a routine is in decides here between the binder and PL/pgSQL, so neither knows
//! the other's entry, and a catalog's routines compile themselves by [`compile_routine`] without
//! the catalog knowing any language.

use std::sync::Arc;

use identity::RoleId;
use procedure::{Interrupt, Output, Procedure};
use sqlparser::ast;
use types::{DataType, Error, Result, SqlState};

use crate::bind::statement::{Bound, Command, Program, Statement};
use crate::bind::{Binder, compile_sql};
use crate::plpgsql;
use crate::schema::catalog::{Catalog, ForeignKey, Table};
use crate::schema::deferred::{constraint_key, not_deferrable};
use crate::settings::session_info::SessionInfo;
use crate::syntax::ddl::Ddl;
use crate::syntax::names::{key, object_name, simple_name};
use crate::syntax::parsed::{Body, Parsed};
use crate::syntax::path::SearchPath;
use crate::syntax::routine::{CreateFunction, RoutineKind};

/// Compiles a routine of any language, which knows nothing that is a session's own.
/// `role`: what it may not do is refused where it stands; `None`: the program of those who may do
/// everything.
pub fn compile_routine(
    catalog: &Catalog,
    function: &CreateFunction,
    role: Option<RoleId>,
) -> Result<Procedure> {
    let catalog = catalog.ledger();
    match function.language.as_str() {
        "plpgsql" => plpgsql::compile(catalog, function, role),
        _ => compile_sql(catalog, function, role),
    }
}

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
    binder.check_user(session.current_user());
    binder.source = parsed.source();
    binder.bound_by_text(parsed.text.len());
    binder.interrupt = interrupt;
    let (statement, output) = match &parsed.body {
        Body::Statement(statement) => binder.statement(statement, &parsed.text)?,
        Body::TableAs(definition) => {
            let columns = binder.query(&definition.query)?.columns;
            let made = definition.as_statements(&columns)?;
            (Statement::Command(Command::CreateTableAs(Arc::new(made))), Output::Tag)
        }
        Body::Refresh { name, concurrently, with_data } => {
            binder.refresh(name, (*concurrently, *with_data), &parsed.text)?
        }
        Body::Do { language, body } => {
            let function = CreateFunction::anonymous(language, body, &session.path)?;
            let role = binder.checked.as_ref().map(|checked| checked.role());
            let mut procedure = match function.language.as_str() {
                "plpgsql" => {
                    let (procedure, on) =
                        plpgsql::compile_in_session(catalog, session, &function, role)?;
                    binder.session_dependent |= on.session;
                    binder.zone_dependent |= on.zone;
                    binder.by_clocks |= on.clocks;
                    procedure
                }
                _ => compile_routine(catalog, &function, role)?,
            };
            (procedure.name, procedure.tag) = (parsed.text.clone(), "DO".into());
            (Statement::Program(Program::Procedure(Arc::new(procedure))), Output::Tag)
        }
        body => match definition_of(body, catalog, &session.path)? {
            Some(ddl) => (Statement::Ddl(ddl), Output::Tag),
            None => (Statement::Command(command_of(body, catalog)?), Output::Tag),
        },
    };
    binder.refuse_denied()?;
    Ok(Bound {
        statement,
        parameters: binder.parameter_types(),
        output,
        session_dependent: binder.session_dependent,
        zone_dependent: binder.zone_dependent,
        zoned: binder.zoned,
        by_clocks: binder.by_clocks,
    })
}

/// What has a grammar of its own and changes the schema.
fn definition_of(body: &Body, catalog: &Catalog, path: &SearchPath) -> Result<Option<Ddl>> {
    Ok(Some(match body {
        Body::CreateRoutine { procedure, definition } => Ddl::CreateRoutine {
            function: Box::new(CreateFunction::from_ast(definition, *procedure, path, &|named| {
                catalog.data_type(named)
            })?),
            or_replace: definition.or_replace,
        },
        Body::DropRoutine { procedure, definition } => Ddl::DropRoutines {
            kind: match procedure {
                true => RoutineKind::Procedure,
                false => RoutineKind::Function,
            },
            names: definition.func_desc.iter().map(|d| d.name.clone()).collect(),
            if_exists: definition.if_exists,
        },
        Body::Ddl(ddl) => (**ddl).clone(),
        _ => return Ok(None),
    }))
}

/// What has a grammar of its own and concerns the session.
fn command_of(body: &Body, catalog: &Catalog) -> Result<Command> {
    Ok(match body {
        Body::SetConstraints { names, deferred } => {
            let names = names.iter().map(|name| deferrable(catalog, name));
            let names = names.collect::<Result<Vec<_>>>()?.concat();
            Command::SetConstraints { names, deferred: *deferred }
        }
        Body::Nothing(tag) => Command::Nothing(tag),
        Body::Rollback => Command::Rollback,
        Body::Fetch { name, direction, moves } => {
            Command::Fetch { name: name.clone(), direction: *direction, moves: *moves }
        }
        Body::CloseCursor(name) => Command::CloseCursor(name.clone()),
        Body::Empty => Command::Empty,
        _ => return Err(Error::unsupported("DECLARE outside of a session")),
    })
}

/// The keys that SET CONSTRAINTS names, as they are called.
fn deferrable(catalog: &Catalog, name: &ast::ObjectName) -> Result<Vec<String>> {
    let said = object_name(name)?;
    let bare = simple_name(name)?;
    let is_it = |table: &Table, key: &ForeignKey| match name.0.len() {
        1 => key.name == bare,
        _ => constraint_key(table, key) == said,
    };
    let mut found = Vec::new();
    for table in catalog.tables() {
        for key in table.foreign_keys.iter().filter(|key| is_it(table, key)) {
            if key.deferrable.is_none() {
                return Err(not_deferrable(&key.name));
            }
            found.push(constraint_key(table, key));
        }
        for (id, index) in table.unique_constraints().filter(|(_, index)| index.name == bare) {
            let called = key(table.namespace(), &index.name);
            match table.deferrable.contains_key(&id) {
                _ if name.0.len() > 1 && called != said => {}
                true => found.push(called),
                false => return Err(not_deferrable(&index.name)),
            }
        }
    }
    match found.is_empty() {
        false => Ok(found),
        true => {
            let what = format!("constraint \"{bare}\" does not exist");
            Err(Error::new(SqlState::UNDEFINED_OBJECT, what))
        }
    }
}
