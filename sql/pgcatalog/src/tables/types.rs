//! Types: the built-in ones are constants; each table has a row type and that one's array.

use sql::Commented;
use sql::domains::Domain;
use sql::names::{bare, split};
use types::enums::LABEL_STEP;
use types::{DataType, EnumType, TableId, Value};

use super::facts::{Facts, Rows, oid, owner};
use super::relations::{alignment, storage};
use super::{collations, constants};
use crate::oid as number;
use crate::world::{Names, World};

/// Input, output, receive and send functions: drivers know arrays by them.
const RECORD_FUNCTIONS: [u32; 4] = [2290, 2291, 2402, 2403];
const ARRAY_FUNCTIONS: [u32; 4] = [750, 751, 2400, 2401];
const ENUM_FUNCTIONS: [u32; 4] = [3504, 3505, 3532, 3533];
/// Input and receive functions; the others are those of what a domain is over.
const DOMAIN_FUNCTIONS: [u32; 2] = [2597, 2598];
const ARRAY_SUBSCRIPT: u32 = 6179;

fn functions(numbers: &[u32; 4]) -> impl Iterator<Item = (&'static str, Value)> {
    let columns = ["typinput", "typoutput", "typreceive", "typsend"];
    columns.into_iter().zip(numbers.map(oid))
}

pub fn pg_type(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    for table in facts.world.catalog.tables() {
        let (row, array) = (number::row_type(table.id()), number::array_of_row_type(table.id()));
        let relation = number::table(table.id());
        row_type(facts.world, table.key(), relation, [row, array], rows);
    }
    for (id, of) in facts.world.catalog.enums() {
        enum_type(facts.world, id, of, rows);
    }
    for domain in facts.world.catalog.domains() {
        domain_type(facts.world, domain, rows);
    }
    for view in facts.world.views() {
        let of = view.numbers;
        let types = [of.row_type, of.array_of_row_type];
        row_type(facts.world, &view.name, of.relation, types, rows);
    }
}

/// An enum type, and that of arrays of it.
fn enum_type(world: &World, id: TableId, of: &EnumType, rows: &mut Rows<'_>) {
    let (schema, name) = split(&of.name);
    let shared = |this: u32, name: &str, kind: &str, category: &str| {
        vec![
            ("oid", oid(this)),
            ("typname", Value::text(name)),
            ("typnamespace", oid(world.numbers.namespace(schema))),
            ("typowner", owner(world, &Commented::Type(id))),
            ("typtype", Value::text(kind)),
            ("typcategory", Value::text(category)),
            ("typisdefined", Value::Bool(true)),
            ("typdelim", Value::text(",")),
            ("typalign", Value::text("i")),
            ("typtypmod", Value::Int(-1)),
        ]
    };
    let mut columns = shared(of.oid, name, "e", "E");
    columns.extend([
        ("typlen", Value::Int(4)),
        ("typbyval", Value::Bool(true)),
        ("typstorage", Value::text("p")),
        ("typarray", oid(of.array_oid())),
    ]);
    columns.extend(functions(&ENUM_FUNCTIONS));
    rows.row(&columns);
    let mut columns = shared(of.array_oid(), &format!("_{name}"), "b", "A");
    columns.extend([
        ("typlen", Value::Int(-1)),
        ("typstorage", Value::text("x")),
        ("typelem", oid(of.oid)),
        ("typsubscript", oid(ARRAY_SUBSCRIPT)),
    ]);
    columns.extend(functions(&ARRAY_FUNCTIONS));
    rows.row(&columns);
}

/// A domain, and the type of arrays of it.
fn domain_type(world: &World, domain: &Domain, rows: &mut Rows<'_>) {
    let (schema, name) = split(&domain.name);
    let shared = |this: u32, name: &str, kind: &str, category: &str| {
        vec![
            ("oid", oid(this)),
            ("typname", Value::text(name)),
            ("typnamespace", oid(world.numbers.namespace(schema))),
            ("typowner", owner(world, &Commented::Type(domain.id))),
            ("typtype", Value::text(kind)),
            ("typcategory", Value::text(category)),
            ("typisdefined", Value::Bool(true)),
            ("typdelim", Value::text(",")),
        ]
    };
    let collation = match &domain.collation {
        Some(collation) => collation.oid,
        None => collations::of_type(&domain.base),
    };
    let (of, typmod) = match domain.of {
        Some(of) => (number::table(of), -1),
        None => (domain.base.oid(), domain.base.typmod()),
    };
    let default = domain.default.as_ref().map(|default| default.text.as_str());
    let default = default.map_or(Value::Null, Value::text);
    let length = domain.base.type_len();
    let mut columns = shared(domain.oid(), name, "d", category(&domain.base));
    columns.extend([
        ("typlen", Value::Int(length.into())),
        ("typbyval", Value::Bool(matches!(length, 1 | 2 | 4 | 8))),
        ("typalign", Value::text(alignment(&domain.base))),
        ("typstorage", Value::text(storage(&domain.base))),
        ("typarray", oid(domain.array_oid())),
        ("typnotnull", Value::Bool(domain.not_null)),
        ("typbasetype", oid(of)),
        ("typtypmod", Value::Int(typmod.into())),
        ("typcollation", oid(collation)),
        ("typdefaultbin", default.clone()),
        ("typdefault", default),
    ]);
    let [input, receive] = DOMAIN_FUNCTIONS;
    let [output, send] = match &domain.base {
        DataType::Enum(_) => [ENUM_FUNCTIONS[1], ENUM_FUNCTIONS[3]],
        base => constants::output_functions(base.oid()),
    };
    columns.extend(functions(&[input, output, receive, send]));
    rows.row(&columns);
    let mut columns = shared(domain.array_oid(), &format!("_{name}"), "b", "A");
    columns.extend([
        ("typlen", Value::Int(-1)),
        ("typalign", Value::text("i")),
        ("typstorage", Value::text("x")),
        ("typelem", oid(domain.oid())),
        ("typtypmod", Value::Int(-1)),
        ("typsubscript", oid(ARRAY_SUBSCRIPT)),
    ]);
    columns.extend(functions(&ARRAY_FUNCTIONS));
    rows.row(&columns);
}

/// `typcategory` of a type.
fn category(of: &DataType) -> &'static str {
    match of {
        DataType::Bool => "B",
        DataType::Enum(_) => "E",
        DataType::Array(_) => "A",
        DataType::Date
        | DataType::Timestamp(_)
        | DataType::Timestamptz(_)
        | DataType::Time(_)
        | DataType::Timetz(_) => "D",
        DataType::Interval(_) => "T",
        DataType::Inet | DataType::Cidr => "I",
        other if other.is_string() => "S",
        other if other.is_number() => "N",
        _ => "U",
    }
}

/// Labels with their places: what PostgreSQL's numbers are, too.
pub fn pg_enum(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    for (id, of) in facts.world.catalog.enums() {
        for label in of.labels() {
            rows.row(&[
                ("oid", oid(number::label(id, label.number))),
                ("enumtypid", oid(of.oid)),
                ("enumsortorder", Value::Float(label.position as f64 / LABEL_STEP as f64)),
                ("enumlabel", Value::text(&label.label)),
            ]);
        }
    }
}

/// The type of a relation's rows, and that of arrays of them.
fn row_type(world: &World, key: &str, relation: u32, [row, array]: [u32; 2], rows: &mut Rows<'_>) {
    let (schema, name) = split(key);
    let schema = world.numbers.namespace(schema);
    let shared = |this: u32, name: String, kind: &str, category: &str| {
        vec![
            ("oid", oid(this)),
            ("typname", Value::text(name)),
            ("typnamespace", oid(schema)),
            ("typowner", oid(number::OWNER)),
            ("typlen", Value::Int(-1)),
            ("typtype", Value::text(kind)),
            ("typcategory", Value::text(category)),
            ("typisdefined", Value::Bool(true)),
            ("typdelim", Value::text(",")),
            ("typalign", Value::text("d")),
            ("typstorage", Value::text("x")),
            ("typtypmod", Value::Int(-1)),
        ]
    };
    let mut columns = shared(row, name.to_owned(), "c", "C");
    columns.push(("typrelid", oid(relation)));
    columns.extend(functions(&RECORD_FUNCTIONS));
    columns.push(("typarray", oid(array)));
    rows.row(&columns);
    let mut columns = shared(array, format!("_{name}"), "b", "A");
    columns.push(("typelem", oid(row)));
    columns.extend(functions(&ARRAY_FUNCTIONS));
    rows.row(&columns);
}

pub fn names(world: &World, names: &mut Names) {
    for table in world.catalog.tables() {
        let name = table.name();
        names.types.insert(number::row_type(table.id()), name.to_owned());
        names.types.insert(number::array_of_row_type(table.id()), format!("_{name}"));
    }
    for (_, of) in world.catalog.enums() {
        let name = bare(&of.name);
        names.types.insert(of.oid, name.to_owned());
        names.types.insert(of.array_oid(), format!("_{name}"));
    }
    for domain in world.catalog.domains() {
        let name = bare(&domain.name);
        names.types.insert(domain.oid(), name.to_owned());
        names.types.insert(domain.array_oid(), format!("_{name}"));
    }
    for view in world.catalog.views() {
        if let Some(numbers) = world.numbers.view(&view.name) {
            let name = bare(&view.name);
            names.types.insert(numbers.row_type, name.to_owned());
            names.types.insert(numbers.array_of_row_type, format!("_{name}"));
        }
    }
}
