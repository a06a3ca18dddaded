//! What system tables hold: a file for each group of them.
//!
//! A filler says what a row's columns are, by name; the columns that it leaves out are NULL where
//! they may be, and otherwise what PostgreSQL has for "none": 0, false, the empty text.

mod cluster;
mod comments;
mod constants;
mod constraints;
mod relations;
mod routines;
mod sequences;
mod types;

pub use comments::comments;
pub use constants::ELEMENTS;

use ::identity::Acl;
use ::types::{DataType, Error, Result, SqlState, SystemType, Value};
use sql::Commented;

use crate::relation::{self, Attribute, Relation};
use crate::world::{Names, Row, Session, World};

/// Tables whose rows are not the same for every session.
pub const SESSION_TABLES: &[&str] = &[
    "pg_cursors",
    "pg_database",
    "pg_locks",
    "pg_settings",
    "pg_stat_activity",
    "pg_prepared_statements",
    "tally_cluster",
    "tally_memory",
    "tally_misbehaviour",
];

/// What rows are made of.
pub struct Facts<'a> {
    pub world: &'a World,
    pub session: &'a Session,
}

pub type Fill = fn(&Facts<'_>, &mut Rows<'_>);

/// The tables that have rows.
const FILLED: &[(&str, Fill)] = &[
    ("pg_attrdef", relations::pg_attrdef),
    ("pg_attribute", relations::pg_attribute),
    ("pg_auth_members", cluster::pg_auth_members),
    ("pg_authid", cluster::pg_authid),
    ("pg_class", relations::pg_class),
    ("pg_constraint", constraints::pg_constraint),
    ("pg_cursors", cluster::pg_cursors),
    ("pg_database", cluster::pg_database),
    ("pg_default_acl", cluster::pg_default_acl),
    ("pg_depend", sequences::pg_depend),
    ("pg_description", comments::pg_description),
    ("pg_index", relations::pg_index),
    ("pg_locks", cluster::pg_locks),
    ("pg_namespace", cluster::pg_namespace),
    ("pg_proc", routines::pg_proc),
    ("pg_rewrite", relations::pg_rewrite),
    ("pg_sequence", sequences::pg_sequence),
    ("pg_settings", cluster::pg_settings),
    ("pg_shdescription", comments::pg_shdescription),
    ("pg_stat_activity", cluster::pg_stat_activity),
    ("pg_type", types::pg_type),
    ("tally_cluster", cluster::tally_cluster),
    ("tally_keys", cluster::tally_keys),
    ("tally_memory", cluster::tally_memory),
    ("tally_misbehaviour", cluster::tally_misbehaviour),
    ("tally_organisations", cluster::tally_organisations),
];

pub fn fill(facts: &Facts<'_>, relation: &'static Relation) -> Result<Vec<Row>> {
    let mut rows = Rows { relation, rows: Vec::new(), error: None };
    constants::fill(relation.name, &mut rows);
    let filled = FILLED.iter().find(|(name, _)| *name == relation.name);
    if let Some((_, fill)) = filled.filter(|_| relation.schema == "pg_catalog") {
        fill(facts, &mut rows);
    }
    rows.error.map_or(Ok(rows.rows), Err)
}

/// A table on its way.
pub struct Rows<'a> {
    relation: &'a Relation,
    rows: Vec<Row>,
    error: Option<Error>,
}

impl Rows<'_> {
    /// Adds a row with these columns.
    pub fn row(&mut self, columns: &[(&str, Value)]) {
        let mut row: Row = self.relation.columns.iter().map(none).collect();
        for (name, value) in columns {
            match self.relation.column(name) {
                Some(place) => row[place] = value.clone(),
                None => {
                    let message = format!("{} has no column {name}", self.relation.name);
                    self.error = Some(Error::new(SqlState::INTERNAL_ERROR, message));
                }
            }
        }
        self.rows.push(row);
    }
}

/// What stands where there is nothing to say.
fn none(attribute: &Attribute) -> Value {
    if !attribute.not_null {
        return Value::Null;
    }
    match &attribute.data_type {
        DataType::Bool => Value::Bool(false),
        DataType::Array(_) | DataType::System(SystemType::Int2Vector | SystemType::OidVector) => {
            Value::array([])
        }
        DataType::Float8 | DataType::System(SystemType::Float4) => Value::Float(0.0),
        DataType::Int2 | DataType::Int4 | DataType::Int8 => Value::Int(0),
        DataType::System(system) if system.storage() == DataType::Int8 => Value::Int(0),
        _ => Value::text(""),
    }
}

/// What numbers of relations, routines and types are called.
pub fn names(world: &World) -> Names {
    let mut names = Names::default();
    for relation in relation::all() {
        let name = (relation.schema.to_owned(), relation.name.to_owned());
        names.relations.insert(relation.oid, name);
    }
    relations::names(world, &mut names);
    constants::names(&mut names);
    for (name, _) in world.catalog.routines() {
        names.routines.insert(world.numbers.routine(name), name.to_owned());
    }
    types::names(world, &mut names);
    names
}

/// The number of an object's owner.
fn owner(world: &World, object: &Commented) -> Value {
    oid(world.catalog.owner(object).0)
}

/// What was granted of an object; NULL where it has what a new one has.
fn granted(world: &World, object: &Commented) -> Value {
    world.catalog.granted(object).map_or(Value::Null, |acl| shown(world, acl))
}

fn shown(world: &World, acl: &Acl) -> Value {
    let name = |role| sql::names::quoted_if_needed(world.catalog.roles().name(role));
    Value::from(acl.texts(name).into_iter().map(Value::from).collect::<Vec<_>>())
}

/// A number of an object.
fn oid(number: u32) -> Value {
    Value::Int(number.into())
}

fn ints<T: Into<i64>>(numbers: impl IntoIterator<Item = T>) -> Value {
    Value::from(numbers.into_iter().map(|n| Value::Int(n.into())).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn every_filler_names_columns_that_there_are() {
        let world = World::new(Arc::new(sql::Catalog::genesis()));
        let session = Session::default();
        for relation in relation::all() {
            let rows = fill(&Facts { world: &world, session: &session }, relation);
            assert!(rows.is_ok(), "{}: {rows:?}", relation.name);
        }
        let is_there = |(name, _): &(&str, Fill)| relation::place("pg_catalog", name).is_some();
        assert!(FILLED.iter().all(is_there));
    }
}
