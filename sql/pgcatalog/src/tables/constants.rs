//! Rows that are the same everywhere: types, languages, access methods and what belongs to them,
//! with PostgreSQL's own numbers, in the form that its COPY writes.

use std::collections::HashMap;
use std::sync::LazyLock;

use types::{DataType, SystemType, Value};

use super::facts::Rows;
use crate::relation;
use crate::world::Names;

const TABLES: &[(&str, &str)] = &[
    ("pg_am", include_str!("../constants/pg_am.tsv")),
    ("pg_language", include_str!("../constants/pg_language.tsv")),
    ("pg_opclass", include_str!("../constants/pg_opclass.tsv")),
    ("pg_opfamily", include_str!("../constants/pg_opfamily.tsv")),
    ("pg_proc", PG_PROC),
    ("pg_tablespace", include_str!("../constants/pg_tablespace.tsv")),
    ("pg_type", PG_TYPE),
];
const PG_PROC: &str = include_str!("../constants/pg_proc.tsv");
const PG_TYPE: &str = include_str!("../constants/pg_type.tsv");

/// Built-in routines by name.
static ROUTINES: LazyLock<HashMap<&str, i64>> = LazyLock::new(|| {
    let named = |line: &'static str| {
        let mut fields = line.split('\t');
        let number = fields.next()?.parse().ok()?;
        Some((fields.next()?, number))
    };
    PG_PROC.lines().filter_map(named).collect()
});

pub fn fill(name: &str, rows: &mut Rows<'_>) {
    let Some((_, text)) = TABLES.iter().find(|(table, _)| *table == name) else {
        return;
    };
    for line in text.lines() {
        let fields = line.split('\t').zip(&rows.relation.columns);
        rows.rows.push(fields.map(|(field, column)| value(field, &column.data_type)).collect());
    }
}

/// A field of COPY's text format; routines are written by name.
fn value(field: &str, data_type: &DataType) -> Value {
    match (field, data_type) {
        ("\\N", _) => Value::Null,
        ("-", DataType::System(SystemType::Regproc)) => Value::Int(0),
        (name, DataType::System(SystemType::Regproc)) => {
            Value::Int(ROUTINES.get(name).copied().unwrap_or(0))
        }
        (text, data_type) => Value::read_text(data_type, text).unwrap_or_default(),
    }
}

pub fn names(names: &mut Names) {
    let numbered = |text: &'static str| {
        text.lines().filter_map(|line| {
            let mut fields = line.split('\t');
            Some((fields.next()?.parse::<u32>().ok()?, fields.next()?.to_owned()))
        })
    };
    names.routines.extend(numbered(PG_PROC));
    names.types.extend(numbered(PG_TYPE));
}

/// The functions by which values of a type are written, as text and in binary.
pub fn output_functions(data_type: u32) -> [u32; 2] {
    let relation = relation::place("pg_catalog", "pg_type").map(|place| &relation::all()[place]);
    let line = PG_TYPE
        .lines()
        .find(|line| line.split('\t').next().and_then(|oid| oid.parse().ok()) == Some(data_type));
    let fields: Vec<&str> = line.map(|line| line.split('\t').collect()).unwrap_or_default();
    ["typoutput", "typsend"].map(|column| {
        let place = relation.and_then(|relation| relation.column(column));
        let name = place.and_then(|place| fields.get(place));
        let number = name.and_then(|name| ROUTINES.get(name));
        number.map_or(0, |number| *number as u32)
    })
}

/// The element of each array type.
pub static ELEMENTS: LazyLock<HashMap<u32, u32>> = LazyLock::new(|| {
    let array = relation::place("pg_catalog", "pg_type");
    let place = array.and_then(|place| relation::all()[place].column("typarray")).unwrap_or(0);
    let pair = |line: &'static str| {
        let fields: Vec<&str> = line.split('\t').collect();
        Some((fields.get(place)?.parse().ok()?, fields.first()?.parse().ok()?))
    };
    PG_TYPE.lines().filter_map(pair).filter(|(array, _)| *array != 0).collect()
});
