//! Functions that return sets.

use procedure::Column;
use types::compare::sort_cmp;
use types::{DataType, Error, Result, SqlState, SystemType, Value};

use super::around::Around;
use super::functions::bounds;
use super::signature::{EvalSet, Of, SetFunction, SystemOr, Takes};
use crate::world::Row;

use SystemOr::{Int4, System, Text};

fn none() -> &'static [(&'static str, DataType)] {
    &[]
}

fn expanded() -> &'static [(&'static str, DataType)] {
    &[("x", DataType::Int4), ("n", DataType::Int4)]
}

fn keywords() -> &'static [(&'static str, DataType)] {
    &[("word", DataType::Text), ("catcode", DataType::Text), ("catdesc", DataType::Text)]
}

fn options() -> &'static [(&'static str, DataType)] {
    &[("option_name", DataType::Text), ("option_value", DataType::Text)]
}

fn privileges() -> &'static [(&'static str, DataType)] {
    const OID: DataType = DataType::System(SystemType::Oid);
    &[
        ("grantor", OID),
        ("grantee", OID),
        ("privilege_type", DataType::Text),
        ("is_grantable", DataType::Bool),
    ]
}

pub fn find(name: &str) -> Option<&'static SetFunction> {
    SETS.iter().find(|set| set.name == name)
}

/// The columns of its rows for arguments of these types.
pub fn columns(function: &SetFunction, types: &[DataType]) -> Vec<Column> {
    let fields = (function.fields)();
    if !fields.is_empty() {
        let column = |(name, of): &(&str, DataType)| named(name, of.clone());
        return fields.iter().map(column).collect();
    }
    let first = types.first().cloned().unwrap_or(DataType::Text);
    let data_type = match (function.of, first) {
        (Of::Type(Text), _) => DataType::Text,
        (Of::Type(Int4), _) => DataType::Int4,
        (Of::Type(System(system)), _) => DataType::System(system),
        (Of::Element, DataType::Array(element)) => *element,
        (Of::Element, DataType::System(SystemType::Int2Vector)) => DataType::Int2,
        (Of::Element, DataType::System(SystemType::OidVector)) => DataType::System(SystemType::Oid),
        (_, first) => first,
    };
    vec![named(function.name, data_type)]
}

fn named(name: &str, data_type: DataType) -> Column {
    Column { name: name.to_owned(), data_type }
}

const fn set(name: &'static str, takes: &'static [Takes], of: Of, eval: EvalSet) -> SetFunction {
    SetFunction { name, takes, fields: none, of, eval }
}

fn one(value: Value) -> Row {
    [value].into()
}

fn empty(_: &Around, _: &[Value], _: &[DataType]) -> Result<Vec<Row>> {
    Ok(Vec::new())
}

fn elements(a: &[Value]) -> &[Value] {
    a.first().and_then(Value::as_array).unwrap_or(&[])
}

/// More rows than any catalog has are a mistake.
const SERIES_MAX: usize = 1_000_000;

/// How often a long series asks whether it should go on.
const VALUES_BETWEEN_CHECKS: usize = 1024;

fn series(run: &Around, a: &[Value], types: &[DataType]) -> Result<Vec<Row>> {
    if a.iter().any(Value::is_null) {
        return Ok(Vec::new());
    }
    let data_type = types.first().unwrap_or(&DataType::Int4);
    let zero = types::cast::cast(&Value::Int(0), data_type, true)?;
    let step = match a.get(2) {
        Some(step) => step.clone(),
        None => types::cast::cast(&Value::Int(1), data_type, true)?,
    };
    let direction = sort_cmp(&step, &zero);
    if direction.is_eq() {
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero"));
    }
    let mut series = Vec::new();
    let mut at = a[0].clone();
    while sort_cmp(&at, &a[1]) != direction {
        series.push(one(at.clone()));
        if series.len().is_multiple_of(VALUES_BETWEEN_CHECKS) {
            run.check()?;
        }
        if series.len() > SERIES_MAX {
            let message = "generate_series() over catalogs gives at most a million values";
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        // What is above the type's largest value is above the last one, too.
        match types::arithmetic::add(&at, &step, data_type) {
            Ok(next) => at = next,
            Err(_) => break,
        }
    }
    Ok(series)
}

fn subscripts(_: &Around, a: &[Value], types: &[DataType]) -> Result<Vec<Row>> {
    let bounds = bounds(a, types);
    Ok(bounds
        .map_or(Vec::new(), |(first, last)| (first..=last).map(|at| one(Value::Int(at))).collect()))
}

static SETS: &[SetFunction] = &[
    set("generate_series", &[Takes::Any], Of::First, series),
    set("generate_subscripts", &[Takes::Any, Takes::Int], Of::Type(Int4), subscripts),
    set("unnest", &[Takes::Any], Of::Element, |_, a, _| {
        Ok(elements(a).iter().cloned().map(one).collect())
    }),
    SetFunction {
        fields: expanded,
        ..set("_pg_expandarray", &[Takes::Any], Of::First, |_, a, _| {
            let numbered = (1..).zip(elements(a));
            Ok(numbered.map(|(n, x)| [x.clone(), Value::Int(n)].into()).collect())
        })
    },
    // Nothing is partitioned: a table is all that there is above and below it.
    set(
        "pg_partition_ancestors",
        &[Takes::Reg(SystemType::Regclass)],
        Of::Type(System(SystemType::Regclass)),
        empty,
    ),
    set(
        "pg_partition_tree",
        &[Takes::Reg(SystemType::Regclass)],
        Of::Type(System(SystemType::Regclass)),
        empty,
    ),
    SetFunction { fields: options, ..set("pg_options_to_table", &[Takes::Any], Of::First, empty) },
    SetFunction { fields: privileges, ..set("aclexplode", &[Takes::Any], Of::First, empty) },
    set("pg_listening_channels", &[], Of::Type(Text), empty),
    SetFunction {
        fields: keywords,
        ..set("pg_get_keywords", &[], Of::First, |_, _, _| {
            let words = super::KEYWORDS.split_whitespace();
            let row =
                |word: &str| [Value::text(word), Value::text("R"), Value::text("reserved")].into();
            Ok(words.map(row).collect())
        })
    },
];
