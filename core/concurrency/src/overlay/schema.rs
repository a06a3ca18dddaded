//! Schema changes of the transaction whose workspace this is: what becomes of its own writes.
//!
//! ```text
//!   below    catalogue ──────────── change ─────────► catalogue'    stored rows
//!   own      writes ── evaluate ── convert ─────────► writes'       at the keys of the new table
//! ```
//!
//! The rows below and the own writes go separate ways, so that what the transaction makes of a row
//! is installed, reported to readers of tables, and undone as one change however often its table
//! was altered in between. A table that keeps its rows keeps its own writes as they are; of one
//! that is dropped or emptied they are forgotten; one that is written anew has them converted as
//! the rows below are.
//!
//! *Another primary key.* The stored row and the transaction's version of it may then have
//! different new keys, and a row that it has deleted may have the same new key as another one. So
//! what it has written is left out of the new table below: it counts as new there, and what it had
//! deleted leaves no trace.
//!
//! After an error the workspace can only be rolled back to a savepoint's [`Mark`](super::Mark).

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use procedure::access::Range;
use storage::{Annotation, Catalog, CatalogChange, Store, Table, Toll};
use types::key::primary_key;
use types::{Error, Key, Result, SqlState, Stop, TableId, TableSchema, Value};

use super::Overlay;
use crate::footprint::{RangeDigest, Recorder};
use crate::pending::{PendingWrite, WriteState};

/// What becomes of a row.
pub type Convert<'c> = &'c mut dyn FnMut(&[Value]) -> Result<Vec<Value>>;

impl<R: Recorder> Overlay<R> {
    fn change<T>(
        &mut self,
        store: &Store,
        make: impl FnOnce(&mut CatalogChange<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut change = CatalogChange::new(store, Arc::clone(&self.catalog), self.at());
        let made = make(&mut change)?;
        self.catalog = change.finish();
        self.writes.own_rows.clear();
        Ok(made)
    }

    pub fn annotate(&mut self, store: &Store, annotation: Annotation) -> Result<()> {
        self.change(store, |change| {
            change.annotate(annotation);
            Ok(())
        })
    }

    /// A change by which a table comes, or keeps its rows.
    pub fn alter_table(
        &mut self,
        store: &Store,
        table: TableId,
        make: impl FnOnce(&mut CatalogChange<'_>) -> Result<()>,
    ) -> Result<()> {
        self.change(store, make)?;
        self.recorder.table_altered(table);
        Ok(())
    }

    /// A change by which a table goes, or loses its rows.
    pub fn empty_table(
        &mut self,
        store: &Store,
        table: TableId,
        make: impl FnOnce(&mut CatalogChange<'_>) -> Result<()>,
    ) -> Result<()> {
        self.alter_table(store, table, make)?;
        self.writes.take_of(table);
        Ok(())
    }

    /// Each row of the table with `schema`'s id becomes what `convert` makes of it: those below in
    /// key order, then the own writes in theirs. `whole`: what it makes of one rests on the others.
    pub fn rebuild_table(
        &mut self,
        store: &Store,
        schema: Arc<TableSchema>,
        (convert, whole): (Convert<'_>, bool),
        toll: Toll<'_>,
    ) -> Result<(), Stop> {
        let table = schema.id;
        let old = Arc::clone(table_of(&self.catalog, table)?.schema());
        // A hidden row id is the same in whatever column it stands.
        let key_columns = |schema: &TableSchema| match schema.hidden_row_id {
            true => Vec::new(),
            false => schema.primary_key.clone(),
        };
        let has_new_key = key_columns(&old) != key_columns(&schema);
        self.evaluate_all()?;
        let writes = self.writes.take_of(table);
        let written = writes.iter().filter(|write| has_new_key && write.existed);
        let written: BTreeSet<&[u8]> = written.map(|write| write.key.as_bytes()).collect();
        let mut convert_below = |key: &[u8], row: &[Value]| match written.contains(key) {
            true => Ok(None),
            false => convert(row).map(Some),
        };
        self.change(store, |change| change.rebuild(schema, &mut convert_below, toll))?;
        self.recorder.table_altered(table);
        if whole {
            let (low, high) = (Bound::Unbounded, Bound::Unbounded);
            let range = Range { table, index: 0, low, high, reverse: false };
            self.recorder.range_read(&range, RangeDigest::default());
        }
        for write in &writes {
            match &write.state {
                WriteState::Put(row) => {
                    let row = convert(row)?;
                    toll(row.iter().map(Value::weight).sum())?;
                    self.put_converted(write, has_new_key, row)?;
                }
                WriteState::Delete if has_new_key => {}
                WriteState::Delete => {
                    self.put_again(write, write.key.clone(), WriteState::Delete)?
                }
                WriteState::Commands(_) => {
                    return Err(Stop::Halt("an update command was not evaluated".to_owned()));
                }
            }
        }
        Ok(())
    }

    fn put_converted(
        &mut self,
        write: &PendingWrite,
        has_new_key: bool,
        row: Vec<Value>,
    ) -> Result<(), Stop> {
        let key = match has_new_key {
            true => primary_key(table_of(&self.catalog, write.table)?.schema(), &row)?,
            false => write.key.clone(),
        };
        self.put_again(write, key, WriteState::Put(row.into()))
    }

    fn put_again(&mut self, old: &PendingWrite, key: Key, state: WriteState) -> Result<(), Stop> {
        let place = self.locate(old.table, &key)?;
        let existed = place.stamp.is_some();
        let is_moved = old.key != key;
        if is_moved && (existed || self.writes.find(old.table, place.record, &key).is_some()) {
            let name = &table_of(&self.catalog, old.table)?.schema().name;
            let what = "could not create unique index: the key is duplicated";
            return Err(Error::new(SqlState::UNIQUE_VIOLATION, what)
                .with_table(name.clone())
                .into());
        }
        self.begin_write(old.table, key, place, existed, state);
        Ok(())
    }
}

#[inline(always)]
pub(super) fn table_of(catalog: &Catalog, id: TableId) -> Result<&Table, Stop> {
    match catalog.table(id) {
        Some(table) => Ok(table),
        None => Err(no_table(id)),
    }
}

#[cold]
fn no_table(id: TableId) -> Stop {
    Error::new(SqlState::UNDEFINED_TABLE, format!("table {} does not exist", id.0))
        .with_hint("The table was dropped while the statement was on its way.")
        .into()
}
