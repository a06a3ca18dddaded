//! Comments, as `pg_description` and its kin have them.

use sql::Commented;
use types::Value;

use super::facts::{Facts, Rows, oid};
use crate::oid as number;
use crate::relation;
use crate::world::{Comments, World};

/// The number of the catalog that objects of a kind are in.
fn class(catalog: &str) -> u32 {
    relation::place("pg_catalog", catalog).map_or(0, |place| relation::all()[place].oid)
}

pub fn comments(world: &World) -> Comments {
    let [relations, routines, constraints] = ["pg_class", "pg_proc", "pg_constraint"].map(class);
    let [schemas, databases, types] = ["pg_namespace", "pg_database", "pg_type"].map(class);
    let numbers = &world.numbers;
    let numbered = world.catalog.comments().map(|(object, text)| {
        let at = match object {
            Commented::Table(id) => (relations, number::table(*id), 0),
            Commented::Column(id, column) => {
                (relations, number::table(*id), i32::from(*column) + 1)
            }
            Commented::Index(id, index) => (relations, number::index(*id, *index), 0),
            Commented::Constraint(table, name) => {
                (constraints, numbers.constraint(*table, name), 0)
            }
            Commented::Sequence(id) => (relations, number::table(*id), 0),
            Commented::View(name) => {
                (relations, numbers.view(name).map_or(0, |view| view.relation), 0)
            }
            Commented::Routine(name) => (routines, numbers.routine(name), 0),
            Commented::Schema(name) => (schemas, numbers.namespace(name), 0),
            Commented::Type(id) => (types, number::table(*id), 0),
            Commented::Collation(id) => (class("pg_collation"), number::table(*id), 0),
            Commented::Database => (databases, number::DATABASE, 0),
        };
        (at, text.to_owned())
    });
    numbered.collect()
}

pub fn pg_description(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    let databases = class("pg_database");
    for (&(class, object, column), text) in facts.world.comments() {
        if class != databases {
            rows.row(&[
                ("objoid", oid(object)),
                ("classoid", oid(class)),
                ("objsubid", Value::Int(column.into())),
                ("description", Value::text(text)),
            ]);
        }
    }
}

/// Of what all databases of a server have in common.
pub fn pg_shdescription(facts: &Facts<'_>, rows: &mut Rows<'_>) {
    let databases = class("pg_database");
    for (&(class, object, _), text) in facts.world.comments() {
        if class == databases {
            let object = match object {
                number::DATABASE => facts.session.database_number(),
                object => object,
            };
            let (object, class) = (("objoid", oid(object)), ("classoid", oid(class)));
            rows.row(&[object, class, ("description", Value::text(text))]);
        }
    }
}
