//! Functions and procedures.

use sql::names::{bare, schema_of};
use sql::syntax::routine::{ParameterMode, Returns, RoutineKind};
use sql::{Commented, Routine};
use types::{DataType, SystemType, Value};

use super::facts::{Facts, Rows, granted, ints, oid, owner};
use crate::describe;
use crate::world::World;

pub fn pg_proc(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    for (name, routine) in facts.world.catalog.routines() {
        routine_row(facts.world, name, routine, rows);
    }
}

fn language(name: &str) -> u32 {
    match name {
        "sql" => 14,
        _ => 13563,
    }
}

/// What a call gives: its type, and whether there may be many.
fn result(returns: &Returns) -> (DataType, bool) {
    match returns {
        Returns::Void => (DataType::Void, false),
        Returns::Scalar(data_type) => (data_type.clone(), false),
        Returns::Set(data_type) => (data_type.clone(), true),
        Returns::Table(columns) => match columns.as_slice() {
            [only] => (only.data_type.clone(), true),
            _ => (DataType::System(SystemType::Record), true),
        },
    }
}

/// Names, modes and types of all arguments and of the columns of the result.
fn arguments(routine: &Routine) -> (Vec<String>, Vec<&'static str>, Vec<u32>) {
    let definition = &routine.definition;
    let (mut names, mut modes, mut types) = (Vec::new(), Vec::new(), Vec::new());
    for parameter in &definition.parameters {
        names.push(parameter.name.clone());
        types.push(parameter.data_type.oid());
        modes.push(match parameter.mode {
            ParameterMode::In => "i",
            ParameterMode::Out => "o",
            ParameterMode::InOut => "b",
        });
    }
    if let Returns::Table(columns) = &definition.returns {
        for column in columns {
            names.push(column.name.clone());
            types.push(column.data_type.oid());
            modes.push("t");
        }
    }
    (names, modes, types)
}

fn texts<T: AsRef<str>>(texts: &[T]) -> Value {
    Value::from(texts.iter().map(Value::text).collect::<Vec<_>>())
}

fn routine_row(world: &World, name: &str, routine: &Routine, rows: &mut Rows<'_>) {
    let this = world.numbers.routine(name);
    let object = Commented::Routine(name.to_owned());
    let definition = &routine.definition;
    let (result, is_set) = result(&definition.returns);
    let inputs: Vec<u32> = definition.input_types().map(DataType::oid).collect();
    let (names, modes, types) = arguments(routine);
    let is_plain = modes.iter().all(|mode| *mode == "i");
    let some = |value: Value, there: bool| if there { value } else { Value::Null };
    let defaults = routine.defaults.iter().flatten().count();
    let default_texts = routine.defaults.iter().zip(definition.input_types());
    let default_texts = default_texts.filter_map(|(default, data_type)| {
        default.as_ref().map(|default| describe::default_text(world, default, data_type))
    });
    let default_texts = default_texts.collect::<Vec<_>>().join(", ");
    let kind = match definition.kind {
        RoutineKind::Function => "f",
        RoutineKind::Procedure => "p",
    };
    rows.row(&[
        ("oid", oid(this)),
        ("proname", Value::text(bare(name))),
        ("pronamespace", oid(world.numbers.namespace(schema_of(name)))),
        ("proowner", owner(world, &object)),
        ("proacl", granted(world, &object)),
        ("prosecdef", Value::Bool(definition.security_definer)),
        ("prolang", oid(language(&definition.language))),
        ("procost", Value::Float(100.0)),
        ("prorows", Value::Float(if is_set { 1000.0 } else { 0.0 })),
        ("prokind", Value::text(kind)),
        ("proretset", Value::Bool(is_set)),
        ("provolatile", Value::text("v")),
        ("proparallel", Value::text("u")),
        ("pronargs", Value::Int(inputs.len() as i64)),
        ("pronargdefaults", Value::Int(defaults as i64)),
        ("prorettype", oid(result.oid())),
        ("proargtypes", ints(inputs)),
        ("proallargtypes", some(ints(types), !is_plain)),
        ("proargmodes", some(texts(&modes), !is_plain)),
        ("proargnames", some(texts(&names), names.iter().any(|name| !name.is_empty()))),
        ("proargdefaults", some(Value::text(default_texts), defaults > 0)),
        ("prosrc", Value::text(&definition.body)),
    ]);
}
