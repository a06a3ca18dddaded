//! `has_table_privilege` and its kin: what the ledger's roles and grants say.

use identity::{Acl, Closure, Kind, Privileges, RoleId, Roles};
use sql::Commented;
use sql::names::DATABASES;
use types::{DataType, Error, Result, SqlState, SystemType, Value};

use super::around::Around;
use super::signature::{Function, Gives, Takes, function, oid_of, str_of, yes};
use crate::oid;

const CLASS: Takes = Takes::Reg(SystemType::Regclass);

/// By the number of arguments: without a user it is the current one.
pub static PRIVILEGES: &[Function] = &[
    function("has_table_privilege", 2, &[CLASS, Takes::Text], Gives::Bool, table),
    function("has_table_privilege", 3, &[Takes::Any, CLASS, Takes::Text], Gives::Bool, table),
    function("has_any_column_privilege", 2, &[CLASS, Takes::Text], Gives::Bool, any_column),
    function(
        "has_any_column_privilege",
        3,
        &[Takes::Any, CLASS, Takes::Text],
        Gives::Bool,
        any_column,
    ),
    function("has_column_privilege", 3, &[CLASS, Takes::Any, Takes::Text], Gives::Bool, column),
    function(
        "has_column_privilege",
        4,
        &[Takes::Any, CLASS, Takes::Any, Takes::Text],
        Gives::Bool,
        column,
    ),
    function("has_sequence_privilege", 2, &[CLASS, Takes::Text], Gives::Bool, sequence),
    function("has_sequence_privilege", 3, &[Takes::Any, CLASS, Takes::Text], Gives::Bool, sequence),
    function("has_schema_privilege", 2, &[Takes::Any, Takes::Text], Gives::Bool, schema),
    function(
        "has_schema_privilege",
        3,
        &[Takes::Any, Takes::Any, Takes::Text],
        Gives::Bool,
        schema,
    ),
    function("has_database_privilege", 2, &[Takes::Any, Takes::Text], Gives::Bool, database),
    function(
        "has_database_privilege",
        3,
        &[Takes::Any, Takes::Any, Takes::Text],
        Gives::Bool,
        database,
    ),
    function("has_function_privilege", 2, &[Takes::Any, Takes::Text], Gives::Bool, routine),
    function(
        "has_function_privilege",
        3,
        &[Takes::Any, Takes::Any, Takes::Text],
        Gives::Bool,
        routine,
    ),
    function("pg_has_role", 2, &[Takes::Any, Takes::Text], Gives::Bool, role),
    function("pg_has_role", 3, &[Takes::Any, Takes::Any, Takes::Text], Gives::Bool, role),
    function("has_language_privilege", 2, &[Takes::Any, Takes::Any, Takes::Any], Gives::Bool, yes),
    function(
        "has_tablespace_privilege",
        2,
        &[Takes::Any, Takes::Any, Takes::Any],
        Gives::Bool,
        yes,
    ),
    function("has_type_privilege", 2, &[Takes::Any, Takes::Any, Takes::Any], Gives::Bool, yes),
    function(
        "has_foreign_data_wrapper_privilege",
        2,
        &[Takes::Any, Takes::Any, Takes::Any],
        Gives::Bool,
        yes,
    ),
    function("has_server_privilege", 2, &[Takes::Any, Takes::Any, Takes::Any], Gives::Bool, yes),
];

fn roles<'r>(run: &'r Around) -> &'r Roles {
    run.world.catalog.roles()
}

/// A role by its name or its number; `None`: there is no such number.
fn role_of(roles: &Roles, value: &Value) -> Result<Option<RoleId>> {
    match value {
        Value::Text(_) => roles.named(str_of(value)).map(|role| Some(role.id)),
        number => Ok(roles.role(RoleId(oid_of(number))).map(|role| role.id)),
    }
}

/// Whose privileges are asked for, and the arguments after that.
fn asker<'a>(run: &Around, a: &'a [Value], others: usize) -> Result<(Closure, &'a [Value])> {
    let roles = roles(run);
    let (id, rest) = match a.len() > others {
        true => (role_of(roles, &a[0])?, &a[1..]),
        false => (roles.find(&run.session.role).map(|role| role.id), a),
    };
    // What is no role has what PUBLIC has.
    Ok((roles.closure(id.unwrap_or(RoleId(0))), rest))
}

/// One of several, each with the option to give it on or not.
fn wanted(text: &Value, kind: Kind) -> Result<Vec<(Privileges, bool)>> {
    let text = str_of(text);
    let one = |part: &str| {
        let given = part.trim();
        let part = given.to_ascii_uppercase();
        let (name, option) = match part.strip_suffix(" WITH GRANT OPTION") {
            Some(name) => (name.trim_end().to_owned(), true),
            None => (part, false),
        };
        let privilege = Privileges::named(&name).filter(|one| kind.all().contains(*one));
        privilege.map(|privilege| (privilege, option)).ok_or_else(|| {
            let what = format!("unrecognized privilege type: \"{given}\"");
            Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
        })
    };
    text.split(',').map(one).collect()
}

fn answer(run: &Around, closure: &Closure, object: &Commented, text: &Value) -> Result<Value> {
    let kind = object.kind().unwrap_or(Kind::Table);
    let catalog = &run.world.catalog;
    let has = catalog.privileges(closure, object);
    let may_give = catalog.grantable(closure, object);
    let any = wanted(text, kind)?;
    Ok(Value::Bool(any.into_iter().any(|(one, option)| match option {
        true => may_give.contains(one),
        false => has.contains(one),
    })))
}

/// The relation of a number; `None`: the system's, or none.
fn relation(run: &Around, value: &Value) -> Option<Commented> {
    let (catalog, number) = (&run.world.catalog, oid_of(value));
    let id = types::TableId(number.wrapping_sub(oid::FIRST_USER));
    if catalog.table_by_id(id).is_some() {
        return Some(Commented::Table(id));
    }
    if catalog.sequence_by_id(id).is_some() {
        return Some(Commented::Sequence(id));
    }
    let is_it = |view: &&crate::world::ViewColumns| view.numbers.relation == number;
    run.world.views().iter().find(is_it).map(|view| Commented::View(view.name.clone()))
}

/// What the system's tables allow: all may read them.
fn of_system(closure: &Closure, text: &Value) -> Result<Value> {
    let any = wanted(text, Kind::Table)?;
    let reads = any.iter().any(|(one, option)| *one == Privileges::SELECT && !option);
    Ok(Value::Bool(closure.is_superuser() || reads))
}

fn table(run: &Around, a: &[Value], _: &[DataType]) -> Result<Value> {
    let (closure, rest) = asker(run, a, 2)?;
    match relation(run, &rest[0]) {
        Some(Commented::Sequence(id)) => answer(run, &closure, &Commented::Sequence(id), &rest[1]),
        Some(object) => answer(run, &closure, &object, &rest[1]),
        None => of_system(&closure, &rest[1]),
    }
}

fn sequence(run: &Around, a: &[Value], _: &[DataType]) -> Result<Value> {
    let (closure, rest) = asker(run, a, 2)?;
    match relation(run, &rest[0]) {
        Some(object @ Commented::Sequence(_)) => answer(run, &closure, &object, &rest[1]),
        _ => Err(Error::new(SqlState::WRONG_OBJECT_TYPE, "it is not a sequence")),
    }
}

fn any_column(run: &Around, a: &[Value], _: &[DataType]) -> Result<Value> {
    let (closure, rest) = asker(run, a, 2)?;
    let catalog = &run.world.catalog;
    let id = match relation(run, &rest[0]) {
        Some(Commented::Table(id)) => id,
        Some(Commented::View(name)) => {
            let any = wanted(&rest[1], Kind::Column)?;
            let may = |(one, _): &(Privileges, bool)| {
                catalog.may_with_any_view_column(&closure, &name, *one)
            };
            return Ok(Value::Bool(any.iter().any(may)));
        }
        _ => return table(run, a, &[]),
    };
    let Some(known) = catalog.table_by_id(id) else { return Ok(Value::Null) };
    let any = wanted(&rest[1], Kind::Column)?;
    let may = |(one, _): &(Privileges, bool)| catalog.may_with_any_column(&closure, known, *one);
    Ok(Value::Bool(any.iter().any(may)))
}

fn column(run: &Around, a: &[Value], _: &[DataType]) -> Result<Value> {
    let (closure, rest) = asker(run, a, 3)?;
    let catalog = &run.world.catalog;
    let id = match relation(run, &rest[0]) {
        Some(Commented::Table(id)) => id,
        Some(Commented::View(name)) => return view_column(run, &closure, &name, &rest[1..]),
        _ => return of_system(&closure, &rest[2]),
    };
    let Some(known) = catalog.table_by_id(id) else { return Ok(Value::Null) };
    let place = match &rest[1] {
        name @ Value::Text(_) => known.schema.column(str_of(name)).ok_or_else(|| {
            let (column, table) = (str_of(name), known.name());
            let what = format!("column \"{column}\" of relation \"{table}\" does not exist");
            Error::new(SqlState::UNDEFINED_COLUMN, what)
        })?,
        number => match oid_of(number).checked_sub(1).and_then(|n| u16::try_from(n).ok()) {
            Some(place) => place,
            None => return Ok(Value::Null),
        },
    };
    let has = catalog.column_privileges(&closure, id, place);
    let any = wanted(&rest[2], Kind::Column)?;
    Ok(Value::Bool(any.iter().any(|(one, _)| has.contains(*one))))
}

fn view_column(run: &Around, closure: &Closure, view: &str, a: &[Value]) -> Result<Value> {
    let known = run.world.views().iter().find(|known| known.name == view);
    let Some(known) = known else { return Ok(Value::Null) };
    let mut names = known.columns.iter().map(|column| column.name.as_str());
    let name = match &a[0] {
        name @ Value::Text(_) => {
            let name = str_of(name);
            names.find(|known| *known == name).ok_or_else(|| {
                let (_, relation) = run.world.catalog.called(&Commented::View(view.to_owned()));
                let what = format!("column \"{name}\" of relation \"{relation}\" does not exist");
                Error::new(SqlState::UNDEFINED_COLUMN, what)
            })?
        }
        number => {
            let place = oid_of(number).checked_sub(1);
            match place.and_then(|place| names.nth(place as usize)) {
                Some(name) => name,
                None => return Ok(Value::Null),
            }
        }
    };
    let has = run.world.catalog.view_column_privileges(closure, view, name);
    let any = wanted(&a[1], Kind::Column)?;
    Ok(Value::Bool(any.iter().any(|(one, _)| has.contains(*one))))
}

fn schema(run: &Around, a: &[Value], _: &[DataType]) -> Result<Value> {
    let (closure, rest) = asker(run, a, 2)?;
    let name = match &rest[0] {
        name @ Value::Text(_) => str_of(name).to_owned(),
        number => {
            let all = run.world.namespaces();
            match all.iter().find(|(known, _)| *known == oid_of(number)) {
                Some((_, name)) => (*name).to_owned(),
                None => return Ok(Value::Null),
            }
        }
    };
    if run.world.catalog.has_namespace(&name) {
        return answer(run, &closure, &Commented::Schema(name), &rest[1]);
    }
    if !run.world.namespaces().iter().any(|(_, known)| *known == name) {
        return Err(sql::names::no_schema(&name));
    }
    // The system's.
    let any = wanted(&rest[1], Kind::Schema)?;
    let uses = any.iter().any(|(one, option)| *one == Privileges::USAGE && !option);
    Ok(Value::Bool(closure.is_superuser() || uses))
}

fn database(run: &Around, a: &[Value], _: &[DataType]) -> Result<Value> {
    let (closure, rest) = asker(run, a, 2)?;
    let session = &run.session;
    let made = (session.databases.0)();
    let asked = |name: &str, number: u32| match &rest[0] {
        text @ Value::Text(_) => str_of(text) == name,
        other => oid_of(other) == number,
    };
    if let Some(other) = made.iter().find(|it| asked(&it.name, it.number))
        && other.name != session.database
    {
        // What it grants itself is in another ledger.
        let owner = roles(run).find(&other.owner).map_or(identity::BOOTSTRAP, |role| role.id);
        let acl = Acl::of_new(owner, Kind::Database.all(), Kind::Database.of_public());
        let has = acl.privileges(&closure);
        let any = wanted(&rest[1], Kind::Database)?;
        let may = |(one, option): &(Privileges, bool)| {
            closure.is_superuser() || closure.has(owner) || has.contains(*one) && !option
        };
        return Ok(Value::Bool(any.iter().any(may)));
    }
    let own = |name: &str| asked(name, oid::own_database(name));
    if !asked(&session.database, session.database_number()) && !DATABASES.iter().any(|it| own(it)) {
        return match &rest[0] {
            text @ Value::Text(_) => {
                let what = format!("database \"{}\" does not exist", str_of(text));
                Err(Error::new(SqlState::INVALID_CATALOG_NAME, what))
            }
            _ => Ok(Value::Null),
        };
    }
    answer(run, &closure, &Commented::Database, &rest[1])
}

/// By name, be its arguments named or not; what is built in is for all.
fn routine(run: &Around, a: &[Value], _: &[DataType]) -> Result<Value> {
    let (closure, rest) = asker(run, a, 2)?;
    let catalog = &run.world.catalog;
    let name = match &rest[0] {
        name @ Value::Text(_) => {
            let name = str_of(name);
            name.split('(').next().unwrap_or(name).trim().to_owned()
        }
        number => {
            let is_it = |name: &&str| run.world.numbers.routine(name) == oid_of(number);
            let found = catalog.routines().map(|(name, _)| name).find(is_it);
            found.unwrap_or_default().to_owned()
        }
    };
    match catalog.routine(&name) {
        Some(_) => answer(run, &closure, &Commented::Routine(name), &rest[1]),
        None => wanted(&rest[1], Kind::Routine).map(|_| Value::Bool(true)),
    }
}

/// MEMBER: it may act as the role. USAGE: it has the role's privileges.
fn role(run: &Around, a: &[Value], _: &[DataType]) -> Result<Value> {
    let (closure, rest) = asker(run, a, 2)?;
    let roles = roles(run);
    let Some(wanted) = role_of(roles, &rest[0])? else { return Ok(Value::Null) };
    let text = str_of(&rest[1]).trim().to_ascii_uppercase();
    let own = closure.role();
    Ok(Value::Bool(match text.as_str() {
        "MEMBER" => roles.is_member(own, wanted),
        "USAGE" => closure.has(wanted),
        _ => roles.is_admin(own, wanted),
    }))
}
