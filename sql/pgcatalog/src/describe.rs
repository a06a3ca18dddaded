//! Objects as SQL text: what `\d` prints of types, indexes, constraints and routines.

use procedure::{Expr, Function};
use sql::catalog::{ForeignKey, KeyPart, ReferenceAction};
use sql::names;
use sql::syntax::routine::{ParameterMode, Returns, RoutineKind};
use sql::{Routine, Table};
use types::{ColumnId, DataType, IndexId, TableId, Value};

use crate::oid;
use crate::query::KEYWORDS;
use crate::relation;
use crate::tables::{Index, collations};
use crate::views;
use crate::world::World;

/// A name, in quotes where it needs them.
pub fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let is_keyword = KEYWORDS.split_whitespace().any(|word| word == name);
    match starts_well && name.chars().all(plain) && !is_keyword {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// A relation of users' by its key, with its schema where its name alone means another or none.
pub fn spelled(world: &World, key: &str) -> String {
    let (schema, name) = names::split(key);
    let meant = world.relation_oid(None, name);
    match meant.is_some() && meant == world.relation_oid(Some(schema), name) {
        true => quoted(name),
        false => format!("{}.{}", quoted(schema), quoted(name)),
    }
}

fn quoted_list(table: &Table, columns: &[ColumnId]) -> String {
    let names: Vec<String> = columns.iter().map(|c| quoted(table.column_name(*c))).collect();
    names.join(", ")
}

/// A type's name as SQL spells it, with its modifier.
pub fn format_type(world: &World, oid: u32, modifier: i32) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    if let Some(data_type) = scalar(oid) {
        if let Some(of_time) = data_type.with_time_typmod(modifier) {
            return of_time.name();
        }
        return format!("{}{}", data_type.base_name(), modifiers(&data_type, modifier));
    }
    let made = |oid: u32| {
        let number = oid.checked_sub(oid::FIRST_USER)?;
        world.catalog.made_type(TableId(number)).map(|key| spelled_type(world, key))
    };
    if let Some(name) = made(oid).or_else(|| made(oid - 1).map(|name| name + "[]")) {
        return name;
    }
    let arrays = &*crate::tables::ELEMENTS;
    match arrays.get(&oid) {
        Some(element) => format!("{}[]", format_type(world, *element, modifier)),
        None => match world.names().types.get(&oid) {
            Some(name) => quoted(name),
            None => "???".to_owned(),
        },
    }
}

/// A user's type, with its schema where its name alone means another or none.
fn spelled_type(world: &World, key: &str) -> String {
    let (schema, name) = names::split(key);
    let catalog = &world.catalog;
    let found = world.schemas().find_map(|it| catalog.find_made_type(&names::key(it, name)));
    match found.is_some() && found == catalog.find_made_type(key) {
        true => quoted(name),
        false => format!("{}.{}", quoted(schema), quoted(name)),
    }
}

/// A type that has a spelling of its own; other names are as in `pg_type`.
fn scalar(oid: u32) -> Option<DataType> {
    match oid {
        1042 => Some(DataType::Char(0)),
        2278 => Some(DataType::Void),
        705 => None,
        oid => DataType::from_oid(oid)
            .filter(|data_type| !matches!(data_type, DataType::Array(_)))
            .or_else(|| types::SystemType::from_oid(oid).map(DataType::System)),
    }
}

fn modifiers(data_type: &DataType, modifier: i32) -> String {
    let length = modifier - 4;
    match data_type {
        _ if modifier < 4 => String::new(),
        DataType::Varchar(_) | DataType::Char(_) => format!("({length})"),
        DataType::Numeric(_) => format!("({},{})", length >> 16, length & 0xffff),
        _ => String::new(),
    }
}

/// A column's default.
pub fn default_text(world: &World, expr: &Expr, data_type: &DataType) -> String {
    if let Some(sequence) = next_value(expr).and_then(|id| world.catalog.sequence_by_id(id)) {
        let name = spelled(world, &sequence.name).replace('\'', "''");
        return format!("nextval('{name}'::regclass)");
    }
    match expr {
        Expr::Const(Value::Null) => format!("NULL::{}", type_name(world, data_type)),
        Expr::Const(value) => literal(world, value, data_type),
        Expr::Now => "now()".to_owned(),
        Expr::Cast { input, to, .. } => {
            format!("({})::{to}", default_text(world, input, to))
        }
        other => procedure::explain::expression(other),
    }
}

/// The sequence whose value an expression is; it becomes one of its column's type without a word.
pub fn next_value(expr: &Expr) -> Option<TableId> {
    let (function, arguments) = match expr {
        Expr::Cast { input, explicit: false, .. } => return next_value(input),
        Expr::Call { function, arguments, .. } => (function, arguments),
        _ => return None,
    };
    let (Function::Nextval, Some(Expr::Const(Value::Int(id)))) = (function, arguments.first())
    else {
        return None;
    };
    u32::try_from(*id).ok().map(TableId)
}

/// A type's name where it stands after a value.
fn type_name(world: &World, data_type: &DataType) -> String {
    match (data_type, data_type.enum_type()) {
        (DataType::Array(_), Some(of)) => format!("{}[]", spelled_type(world, &of.name)),
        (_, Some(of)) => spelled_type(world, &of.name),
        (DataType::Array(_), None) => data_type.without_modifier().name(),
        _ => data_type.base_name().to_owned(),
    }
}

/// PostgreSQL shows the type of what is no plain number.
fn literal(world: &World, value: &Value, data_type: &DataType) -> String {
    let text = value.to_text(&data_type.without_modifier());
    match value {
        Value::Bool(truth) => truth.to_string(),
        _ if data_type.enum_type().is_some() => {
            format!("'{}'::{}", text.replace('\'', "''"), type_name(world, data_type))
        }
        Value::Int(_) | Value::Numeric(_) | Value::Float(_)
            if text.starts_with(|first: char| first.is_ascii_digit()) =>
        {
            text
        }
        Value::Int(_) | Value::Numeric(_) | Value::Float(_) => {
            format!("'{text}'::{}", type_name(world, data_type))
        }
        _ => {
            let (text, name) = match data_type {
                DataType::Char(_) => (text.trim_end_matches(' '), "bpchar"),
                DataType::Array(_) => {
                    let name = data_type.without_modifier().name();
                    return format!("'{}'::{name}", text.replace('\'', "''"));
                }
                other => (&*text, other.base_name()),
            };
            format!("'{}'::{name}", text.replace('\'', "''"))
        }
    }
}

/// The table and index that have this number.
fn find_index(world: &World, number: u32) -> Option<(&Table, IndexId)> {
    world.catalog.tables().find_map(|table| {
        let primary = (!table.schema.hidden_row_id).then_some(0);
        let secondary = (1..).zip(&table.schema.indexes);
        let secondary = secondary.filter(|(_, index)| !index.dropped).map(|(id, _)| id);
        let mut ids = primary.into_iter().chain(secondary);
        let id = ids.find(|id| oid::index(table.id(), *id) == number)?;
        Some((&**table, id))
    })
}

/// CREATE INDEX, or one of its columns. `pretty` leaves out a schema that is on the path.
pub fn index_definition(world: &World, number: u32, column: i64, pretty: bool) -> Option<String> {
    let (table, id) = find_index(world, number)?;
    let columns = table.index_columns(id);
    let declared = table.declared.get(&id);
    if column > 0 {
        let place = usize::try_from(column).ok()? - 1;
        if let Some(part) = declared.and_then(|declared| declared.parts.get(place)) {
            return Some(key_part(table, part));
        }
        let column = columns.get(place);
        return Some(column.map(|c| quoted(table.column_name(*c))).unwrap_or_default());
    }
    let (name, unique) = match id {
        0 => (&table.primary_key_name, true),
        id => {
            let index = &table.schema.indexes[usize::from(id) - 1];
            (&index.name, index.unique)
        }
    };
    let key = match declared {
        None => quoted_list(table, columns),
        Some(declared) => {
            let parts = declared.parts.iter().map(|part| {
                let order = match part.options {
                    1 => " DESC NULLS LAST",
                    2 => " NULLS FIRST",
                    3 => " DESC",
                    _ => "",
                };
                format!("{}{order}", key_part(table, part))
            });
            parts.collect::<Vec<_>>().join(", ")
        }
    };
    let condition = declared.and_then(|declared| declared.predicate.as_ref());
    let condition = condition.map_or(String::new(), |text| format!(" WHERE ({text})"));
    let alike = if table.nulls_alike.contains(&id) { " NULLS NOT DISTINCT" } else { "" };
    Some(format!(
        "CREATE {}INDEX {} ON {} USING btree ({key}){alike}{condition}",
        if unique { "UNIQUE " } else { "" },
        quoted(name),
        match pretty {
            true => spelled(world, table.key()),
            false => format!("{}.{}", quoted(table.namespace()), quoted(table.name())),
        }
    ))
}

/// A column, a call, or an expression in parentheses.
fn key_part(table: &Table, part: &KeyPart) -> String {
    let is_call = |text: &str| {
        let name = text.split('(').next().unwrap_or_default();
        let depth = |(at, depth): (usize, i32), (place, c): (usize, char)| match c {
            '(' => (at, depth + 1),
            ')' if depth == 1 => (if at == 0 { place + 1 } else { at }, 0),
            ')' => (at, depth - 1),
            _ => (at, depth),
        };
        let (end, _) = text.char_indices().fold((0, 0), depth);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty() && name.chars().all(is_name) && end == text.len()
    };
    let mut shown = match part.column {
        Some(column) => quoted(table.column_name(column)),
        None if is_call(&part.text) => part.text.clone(),
        // PostgreSQL puts operators in parentheses of their own.
        None => format!("(({}))", part.text),
    };
    let own = part.column.map_or(0, |column| collations::of_column(table, column));
    if let Some(collation) = part.collation.as_ref().filter(|collation| collation.oid != own) {
        shown.push_str(" COLLATE ");
        shown.push_str(&collation.shown());
    }
    shown
}

/// What an index's column is called.
pub fn part_name(table: &Table, index: &Index<'_>, at: i64) -> String {
    let at = usize::try_from(at).unwrap_or_default();
    match index.declared.and_then(|declared| declared.parts.get(at)) {
        Some(KeyPart { column: None, text, .. }) => match text.split_once('(') {
            Some((name, _)) if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
                name.to_owned()
            }
            _ => "expr".to_owned(),
        },
        Some(KeyPart { column: Some(column), .. }) => table.column_name(*column).to_owned(),
        None => index.columns.get(at).map_or("", |c| table.column_name(*c)).to_owned(),
    }
}

/// The rule of a constraint.
pub fn constraint_definition(world: &World, number: u32, pretty: bool) -> Option<String> {
    let of_domain = world.catalog.domains().find_map(|domain| {
        let is_it = |name: &str| world.numbers.constraint(domain.id, name) == number;
        let check = domain.checks.iter().find(|check| is_it(&check.name))?;
        let not_valid = if check.validated { "" } else { " NOT VALID" };
        Some(match pretty {
            true => format!("CHECK ({}){not_valid}", check.text),
            false => format!("CHECK (({})){not_valid}", check.text),
        })
    });
    of_domain.or_else(|| table_constraint(world, number, pretty))
}

fn table_constraint(world: &World, number: u32, pretty: bool) -> Option<String> {
    world.catalog.tables().find_map(|table| {
        let is_it = |name: &str| world.numbers.constraint(table.id(), name) == number;
        if !table.schema.hidden_row_id && is_it(&table.primary_key_name) {
            return Some(format!(
                "PRIMARY KEY ({})",
                quoted_list(table, &table.schema.primary_key)
            ));
        }
        if let Some(check) = table.checks.iter().find(|check| is_it(&check.name)) {
            return Some(match pretty {
                true => format!("CHECK ({})", check.text),
                false => format!("CHECK (({}))", check.text),
            });
        }
        if let Some(key) = table.foreign_keys.iter().find(|key| is_it(&key.name)) {
            return foreign_key(world, table, key);
        }
        let index = table.unique_constraints().find(|(_, index)| is_it(&index.name));
        index.map(|(id, index)| {
            let waits = deferral(table.deferrable.get(&id).copied());
            let alike = if table.nulls_alike.contains(&id) { " NULLS NOT DISTINCT" } else { "" };
            format!("UNIQUE{alike} ({}){waits}", quoted_list(table, &index.columns))
        })
    })
}

/// Whether a constraint can wait, and does.
fn deferral(deferrable: Option<bool>) -> &'static str {
    match deferrable {
        None => "",
        Some(false) => " DEFERRABLE",
        Some(true) => " DEFERRABLE INITIALLY DEFERRED",
    }
}

fn foreign_key(world: &World, table: &Table, key: &ForeignKey) -> Option<String> {
    let parent = world.catalog.table_by_id(key.parent)?;
    let shown = |clause: &str, action| match action {
        ReferenceAction::NoAction => String::new(),
        ReferenceAction::Restrict => format!(" {clause} RESTRICT"),
        ReferenceAction::Cascade => format!(" {clause} CASCADE"),
        ReferenceAction::SetNull => format!(" {clause} SET NULL"),
        ReferenceAction::SetDefault => format!(" {clause} SET DEFAULT"),
    };
    let actions = shown("ON UPDATE", key.on_update) + &shown("ON DELETE", key.on_delete);
    let deferrable = deferral(key.deferrable);
    let validity = if key.validated { "" } else { " NOT VALID" };
    Some(format!(
        "FOREIGN KEY ({}) REFERENCES {}({}){actions}{deferrable}{validity}",
        quoted_list(table, &key.columns),
        spelled(world, parent.key()),
        quoted_list(parent, &key.parent_columns)
    ))
}

pub fn view_definition(world: &World, number: u32) -> Option<String> {
    let (schema, name) = world.names().relations.get(&number)?;
    let (key, catalog) = (names::key(schema, name), &world.catalog);
    let kept = || catalog.find_table(&key).and_then(|table| table.view());
    if let Some(view) = catalog.view(&key).or_else(kept) {
        return Some(format!(" {};", world.path.spelled(&world.catalog, view)));
    }
    let relation = &relation::all()[relation::place(schema, name)?];
    views::definition(relation).map(|text| format!(" {};", text.trim()))
}

fn find_routine(world: &World, number: u32) -> Option<(&str, &Routine)> {
    let mut routines = world.catalog.routines();
    let (name, routine) = routines.find(|(name, _)| world.numbers.routine(name) == number)?;
    Some((name, routine))
}

/// What a call gives, and what it takes.
pub fn routine_arguments(world: &World, number: u32, with_defaults: bool) -> Option<String> {
    let (_, routine) = find_routine(world, number)?;
    let is_procedure = routine.definition.kind == RoutineKind::Procedure;
    let mut input = 0;
    let mut texts = Vec::new();
    for parameter in &routine.definition.parameters {
        let mode = match parameter.mode {
            ParameterMode::In if is_procedure => "IN ",
            ParameterMode::In => "",
            ParameterMode::Out => "OUT ",
            ParameterMode::InOut => "INOUT ",
        };
        let mut text = String::from(mode);
        if !parameter.name.is_empty() {
            text += &format!("{} ", quoted(&parameter.name));
        }
        text += &parameter.data_type.without_modifier().name();
        if parameter.mode != ParameterMode::Out {
            let default = routine.defaults.get(input).and_then(Option::as_ref);
            if let Some(default) = default.filter(|_| with_defaults) {
                text += &format!(" DEFAULT {}", default_text(world, default, &parameter.data_type));
            }
            input += 1;
        }
        texts.push(text);
    }
    Some(texts.join(", "))
}

pub fn argument_default(world: &World, number: u32, place: i64) -> Option<String> {
    let (_, routine) = find_routine(world, number)?;
    let place = usize::try_from(place).ok()?.checked_sub(1)?;
    let default = routine.defaults.get(place)?.as_ref()?;
    let data_type = routine.definition.input_types().nth(place)?;
    Some(default_text(world, default, data_type))
}

pub fn routine_result(world: &World, number: u32) -> Option<String> {
    let (_, routine) = find_routine(world, number)?;
    let definition = &routine.definition;
    if definition.kind == RoutineKind::Procedure {
        return None;
    }
    Some(match &definition.returns {
        Returns::Void => "void".to_owned(),
        Returns::Scalar(data_type) => data_type.without_modifier().name(),
        Returns::Set(data_type) => format!("SETOF {}", data_type.without_modifier()),
        Returns::Table(columns) => {
            let column = |c: &procedure::Column| format!("{} {}", quoted(&c.name), c.data_type);
            format!("TABLE({})", columns.iter().map(column).collect::<Vec<_>>().join(", "))
        }
    })
}

/// CREATE FUNCTION or PROCEDURE, as it could be entered again.
pub fn routine_definition(world: &World, number: u32) -> Option<String> {
    let (name, routine) = find_routine(world, number)?;
    let kind = match routine.definition.kind {
        RoutineKind::Function => "FUNCTION",
        RoutineKind::Procedure => "PROCEDURE",
    };
    let arguments = routine_arguments(world, number, true)?;
    let (schema, name) = names::split(name);
    let (schema, name) = (quoted(schema), quoted(name));
    let mut text = format!("CREATE OR REPLACE {kind} {schema}.{name}({arguments})\n");
    if let Some(result) = routine_result(world, number) {
        text += &format!(" RETURNS {result}\n");
    }
    let (language, body) = (&routine.definition.language, &routine.definition.body);
    let tag = kind.to_lowercase();
    Some(text + &format!(" LANGUAGE {language}\nAS ${tag}${body}${tag}$\n"))
}

/// The types of a routine's arguments, as `regprocedure` shows them.
pub fn types(world: &World, name: &str) -> String {
    let routine = world.catalog.routine(name);
    let types = routine.map(|routine| {
        let types = routine.definition.input_types();
        types.map(|t| t.without_modifier().name()).collect::<Vec<_>>().join(",")
    });
    types.unwrap_or_default()
}
