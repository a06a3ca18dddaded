//! The schema version at which each table, and everything without rows, was last changed. It tells
//! whether a transaction that began before a schema change may still commit after it.
//!
//! *Writing statements* need no check: COMMIT runs them again under the new schema and compares
//! their answers. *Queries* do: what they read is recorded as keys and ranges of tables. These mean
//! the same as long as the tables have the same columns and indexes, and as long as the views and
//! routines that the queries named are the same.
//!
//! ```text
//!   what was changed                                 which open transactions it aborts
//!   another table or its indexes, a new view         none
//!   columns, keys, indexes, TRUNCATE of a table      those that have read the table
//!   a view that existed before, any routine          all
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use types::codec::{decode_u64, encode_u64};
use types::{Error, Result, SqlState, TableId};

use crate::schema::catalog::Catalog;
use crate::syntax::routine::CreateFunction;

/// What a transaction is told that means something else, or nothing, under the newest schema.
pub(super) fn schema_changed() -> Error {
    Error::serialization("The schema was changed since.")
}

/// By numbers of schema changes: that of the last change of each table, and of what has no rows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LastChanges {
    tables: BTreeMap<TableId, u64>,
    rest: u64,
}

impl LastChanges {
    /// After the change of number `version`, which has made one catalog of another.
    pub fn behind(
        &self,
        (before, after): (&Catalog, &Catalog),
        emptied: impl Iterator<Item = TableId>,
        version: u64,
    ) -> LastChanges {
        let mut last = self.clone();
        let is_there = |table: &TableId| {
            after.table_by_id(*table).is_some() || after.sequence_by_id(*table).is_some()
        };
        last.tables.retain(|table, _| is_there(table));
        let changed = after.tables().filter(|table| {
            before.table_by_id(table.id()).is_none_or(|old| {
                !Arc::ptr_eq(&old.schema, &table.schema) && old.schema != table.schema
            })
        });
        let sequences = after.sequences().filter(|sequence| {
            before.sequence_by_id(sequence.id).is_none_or(|old| old != *sequence)
        });
        let sequences = sequences.map(|sequence| sequence.id);
        for table in changed.map(|table| table.id()).chain(sequences).chain(emptied) {
            last.tables.insert(table, version);
        }
        if views_differ(before, after) || routines_differ(before, after) {
            last.rest = version;
        }
        last
    }

    /// Whether what was read of tables before a change of number `since`, or right after it, still
    /// means the same.
    pub fn admits(&self, since: u64, mut tables: impl Iterator<Item = TableId>) -> bool {
        let is_as_it_was = |table| self.tables.get(&table).is_some_and(|last| *last <= since);
        self.rest <= since && tables.all(is_as_it_was)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_u64(self.rest, out);
        encode_u64(self.tables.len() as u64, out);
        for (table, version) in &self.tables {
            encode_u64(u64::from(table.0), out);
            encode_u64(*version, out);
        }
    }

    pub fn decode(input: &mut &[u8]) -> Result<LastChanges> {
        let (rest, count) = (decode_u64(input)?, decode_u64(input)?);
        let mut tables = BTreeMap::new();
        for _ in 0..count {
            let table = u32::try_from(decode_u64(input)?).map(TableId).map_err(|_| {
                Error::new(SqlState::DATA_CORRUPTED, "the schema names no table by its number")
            })?;
            tables.insert(table, decode_u64(input)?);
        }
        Ok(LastChanges { tables, rest })
    }
}

/// One that is new names what had no name.
fn views_differ(before: &Catalog, after: &Catalog) -> bool {
    !before
        .views()
        .all(|old| after.view(&old.name).is_some_and(|new| Arc::ptr_eq(old, new) || old == new))
}

/// One that is new may hide another function.
fn routines_differ(before: &Catalog, after: &Catalog) -> bool {
    !definitions(before).eq(definitions(after))
}

fn definitions(catalog: &Catalog) -> impl Iterator<Item = (&str, &CreateFunction)> {
    catalog.routines().map(|(name, routine)| (name, &routine.definition))
}
