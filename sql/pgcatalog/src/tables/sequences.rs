//! Sequences, and the columns that they go with.

use sql::Commented;
use sql::names::split;
use sql::schema::sequence::Sequence;
use types::Value;

use super::facts::{Facts, Rows, granted, oid, owner};
use super::relations::attribute_number;
use super::relations::persistence;
use crate::describe::next_value;
use crate::oid as number;
use crate::world::World;

/// `pg_class` itself, as `pg_depend` names it.
const PG_CLASS: u32 = 1259;
const PG_ATTRDEF: u32 = 2604;
const PG_REWRITE: u32 = 2618;

pub fn class(world: &World, sequence: &Sequence, rows: &mut Rows<'_>) {
    let (schema, name) = split(&sequence.name);
    let id = number::table(sequence.id);
    rows.row(&[
        ("oid", oid(id)),
        ("relname", Value::text(name)),
        ("relnamespace", oid(world.numbers.namespace(schema))),
        ("relowner", owner(world, &Commented::Sequence(sequence.id))),
        ("relacl", granted(world, &Commented::Sequence(sequence.id))),
        ("relfilenode", oid(id)),
        ("reltuples", Value::Float(1.0)),
        ("relpersistence", persistence(sequence.id)),
        ("relkind", Value::text("S")),
        ("relnatts", Value::Int(3)),
        ("relispopulated", Value::Bool(true)),
        ("relreplident", Value::text("n")),
    ]);
}

pub fn pg_sequence(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    for sequence in facts.world.catalog.sequences() {
        rows.row(&[
            ("seqrelid", oid(number::table(sequence.id))),
            ("seqtypid", oid(sequence.data_type.oid())),
            ("seqstart", Value::Int(sequence.start)),
            ("seqincrement", Value::Int(sequence.steps.increment)),
            ("seqmax", Value::Int(sequence.steps.max)),
            ("seqmin", Value::Int(sequence.steps.min)),
            ("seqcache", Value::Int(sequence.cache as i64)),
            ("seqcycle", Value::Bool(sequence.steps.cycles)),
        ]);
    }
}

/// Which columns own sequences, what defaults rest on and what views read; no other dependency is
/// told.
pub fn pg_depend(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    views(facts.world, rows);
    for sequence in facts.world.catalog.sequences() {
        let Some(owner) = sequence.owner else { continue };
        let kind = if owner.identity.is_some() { "i" } else { "a" };
        rows.row(&[
            ("classid", oid(PG_CLASS)),
            ("objid", oid(number::table(sequence.id))),
            ("refclassid", oid(PG_CLASS)),
            ("refobjid", oid(number::table(owner.table))),
            ("refobjsubid", Value::Int(attribute_number(owner.column))),
            ("deptype", Value::text(kind)),
        ]);
    }
    for table in facts.world.catalog.tables() {
        for (column, default) in (0..).zip(&table.defaults) {
            let Some(default) = default else { continue };
            let this = number::default(table.id(), column);
            let relation = (number::table(table.id()), attribute_number(column));
            let sequence = next_value(default).map(|id| (number::table(id), 0));
            let on = [(Some(relation), "a"), (sequence, "n")];
            for (on, kind) in on {
                let Some((referenced, part)) = on else { continue };
                rows.row(&[
                    ("classid", oid(PG_ATTRDEF)),
                    ("objid", oid(this)),
                    ("refclassid", oid(PG_CLASS)),
                    ("refobjid", oid(referenced)),
                    ("refobjsubid", Value::Int(part)),
                    ("deptype", Value::text(kind)),
                ]);
            }
        }
    }
}

/// A view's rule is a part of it, and reads other relations: dumps put those before it.
fn views(world: &World, rows: &mut Rows<'_>) {
    let views = world.catalog.views().filter_map(|view| {
        let numbers = world.numbers.view(&view.name)?;
        Some((view, numbers.rule, numbers.relation))
    });
    let kept = world.catalog.tables().filter_map(|table| {
        Some((table.view()?, number::rule(table.id()), number::table(table.id())))
    });
    for (view, rule, relation) in views.chain(kept) {
        let read = view.reads.iter().filter_map(|name| {
            let (schema, name) = split(name);
            Some((world.relation_oid(Some(schema), name)?, "n"))
        });
        for (on, kind) in [(relation, "i")].into_iter().chain(read) {
            rows.row(&[
                ("classid", oid(PG_REWRITE)),
                ("objid", oid(rule)),
                ("refclassid", oid(PG_CLASS)),
                ("refobjid", oid(on)),
                ("deptype", Value::text(kind)),
            ]);
        }
    }
}
