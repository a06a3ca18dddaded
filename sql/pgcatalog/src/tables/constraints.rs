//! Primary and foreign keys, UNIQUE and CHECK.

use sql::Table;
use sql::catalog::{ForeignKey, ReferenceAction};
use sql::names::schema_of;
use types::{ColumnId, Value};

use super::facts::{Facts, Rows, ints, oid};
use super::relations::{attribute_number, indexes};
use crate::oid as number;

/// The operator `=` of integers, which stands for that of the columns' types.
const EQUAL: u32 = 96;

fn columns(columns: &[ColumnId]) -> Value {
    ints(columns.iter().map(|column| attribute_number(*column)))
}

pub fn pg_constraint(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    for table in facts.world.catalog.tables() {
        keys(facts, table, rows);
        for check in &table.checks {
            let mut used = Vec::new();
            mentioned(&check.condition, &mut used);
            constraint(
                facts,
                table,
                &check.name,
                "c",
                rows,
                &[("conkey", columns(&used)), ("conbin", Value::text(&check.text))],
            );
        }
        for key in &table.foreign_keys {
            foreign_key(facts, table, key, rows);
        }
    }
    of_domains(facts, rows);
}

/// The rules of domains.
fn of_domains(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    let nothing = || Value::text(" ");
    for domain in facts.world.catalog.domains() {
        for check in &domain.checks {
            rows.row(&[
                ("oid", oid(facts.world.numbers.constraint(domain.id, &check.name))),
                ("conname", Value::text(&check.name)),
                ("connamespace", oid(facts.world.numbers.namespace(schema_of(&domain.name)))),
                ("contype", Value::text("c")),
                ("convalidated", Value::Bool(check.validated)),
                ("contypid", oid(domain.oid())),
                ("confupdtype", nothing()),
                ("confdeltype", nothing()),
                ("confmatchtype", nothing()),
                ("conislocal", Value::Bool(true)),
                ("conbin", Value::text(&check.text)),
            ]);
        }
    }
}

/// The columns that a condition is about, in the table's order.
fn mentioned(condition: &procedure::Expr, used: &mut Vec<ColumnId>) {
    if let procedure::Expr::Column(column) = condition {
        used.push(*column);
    }
    condition.children().iter().for_each(|child| mentioned(child, used));
    used.sort_unstable();
    used.dedup();
}

fn keys(facts: &Facts<'_>, table: &Table, rows: &mut Rows<'_>) {
    for index in indexes(table).filter(|index| index.is_constraint) {
        let kind = if index.id == 0 { "p" } else { "u" };
        constraint(
            facts,
            table,
            index.name,
            kind,
            rows,
            &[
                ("conkey", columns(index.columns)),
                ("conindid", oid(number::index(table.id(), index.id))),
                ("connoinherit", Value::Bool(true)),
                ("condeferrable", Value::Bool(table.deferrable.contains_key(&index.id))),
                ("condeferred", Value::Bool(table.deferrable.get(&index.id) == Some(&true))),
            ],
        );
    }
}

fn foreign_key(facts: &Facts<'_>, table: &Table, key: &ForeignKey, rows: &mut Rows<'_>) {
    let letter = |action| match action {
        ReferenceAction::NoAction => "a",
        ReferenceAction::Restrict => "r",
        ReferenceAction::Cascade => "c",
        ReferenceAction::SetNull => "n",
        ReferenceAction::SetDefault => "d",
    };
    let operators = ints(key.columns.iter().map(|_| EQUAL));
    constraint(
        facts,
        table,
        &key.name,
        "f",
        rows,
        &[
            ("conindid", oid(number::index(key.parent, key.parent_index))),
            ("confrelid", oid(number::table(key.parent))),
            ("convalidated", Value::Bool(key.validated)),
            ("condeferrable", Value::Bool(key.deferrable.is_some())),
            ("condeferred", Value::Bool(key.deferrable == Some(true))),
            ("confupdtype", Value::text(letter(key.on_update))),
            ("confdeltype", Value::text(letter(key.on_delete))),
            ("confmatchtype", Value::text("s")),
            ("connoinherit", Value::Bool(true)),
            ("conkey", columns(&key.columns)),
            ("confkey", columns(&key.parent_columns)),
            ("conpfeqop", operators.clone()),
            ("conppeqop", operators.clone()),
            ("conffeqop", operators),
        ],
    );
}

fn constraint(
    facts: &Facts<'_>,
    table: &Table,
    name: &str,
    kind: &str,
    rows: &mut Rows<'_>,
    more: &[(&str, Value)],
) {
    let nothing = Value::text(" ");
    let mut all = vec![
        ("oid", oid(facts.world.numbers.constraint(table.id(), name))),
        ("conname", Value::text(name)),
        ("connamespace", oid(facts.world.numbers.namespace(table.namespace()))),
        ("contype", Value::text(kind)),
        ("convalidated", Value::Bool(true)),
        ("conrelid", oid(number::table(table.id()))),
        ("confupdtype", nothing.clone()),
        ("confdeltype", nothing.clone()),
        ("confmatchtype", nothing),
        ("conislocal", Value::Bool(true)),
    ];
    all.extend_from_slice(more);
    rows.row(&all);
}
