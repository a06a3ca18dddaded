//! What system tables hold: a file for each group of them.
//!
//! A filler says what a row's columns are, by name; the columns that it leaves out are NULL where
//! they may be, and otherwise what PostgreSQL has for "none": 0, false, the empty text.

mod cluster;
pub mod collations;
mod comments;
mod constants;
mod constraints;
mod databases;
mod facts;
mod relations;
mod routines;
mod sequences;
mod types;

pub use comments::comments;
pub use constants::ELEMENTS;
pub use facts::Facts;
pub(crate) use facts::shown as shown_privileges;
pub use relations::Index;

use ::types::Result;

use crate::relation::{self, Relation};
use crate::world::{Names, Row, World};
use facts::{Fill, Rows};

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

/// The tables that have rows.
const FILLED: &[(&str, Fill)] = &[
    ("pg_attrdef", relations::pg_attrdef),
    ("pg_attribute", relations::pg_attribute),
    ("pg_auth_members", cluster::pg_auth_members),
    ("pg_authid", cluster::pg_authid),
    ("pg_class", relations::pg_class),
    ("pg_constraint", constraints::pg_constraint),
    ("pg_collation", collations::pg_collation),
    ("pg_cursors", cluster::pg_cursors),
    ("pg_database", databases::pg_database),
    ("pg_default_acl", cluster::pg_default_acl),
    ("pg_depend", sequences::pg_depend),
    ("pg_description", comments::pg_description),
    ("pg_enum", types::pg_enum),
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
    ("tally_databases", databases::tally_databases),
    ("tally_keys", cluster::tally_keys),
    ("tally_memory", cluster::tally_memory),
    ("tally_misbehaviour", cluster::tally_misbehaviour),
    ("tally_organisations", cluster::tally_organisations),
    ("tally_policies", cluster::tally_policies),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::world::Session;

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
