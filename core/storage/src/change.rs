//! A catalogue on its way to the next one: tables that come, go, and are written anew.
//!
//! ```text
//!   catalogue ─► CatalogChange ─► create, drop, alter, rebuild … ─► catalogue ─┬► Store::install
//!                     at: a height, or LATEST                                  └► its maker alone
//! ```
//!
//! Nothing of it is seen before [`Store::install`]: a transaction that has changed the schema reads
//! what it made of its snapshot's catalogue, a block makes the store's next one. The tables that
//! were there stay as they are, for readers of older heights and for a writer that gives the change
//! up: what it made is gone when the last catalogue with it is.
//!
//! A table that is altered shares its rows with the one before, and one whose columns or primary
//! key change is written anew. Rows keep their stamps: no transaction changed them.
//!
//! *Cost*: that of the indexes that are built, and of the rows that are written, of which a
//! [`Toll`] is told one by one. A schema change that goes its own way pays none; a transaction has
//! so much to spend.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use types::key::primary_key;
use types::{
    ColumnId, Error, Height, Layout, Result, SqlState, Stamp, TableId, TableSchema, Value,
};

use crate::slot::LATEST;
use crate::store::{Annotation, Catalog, Store};
use crate::table::Table;

/// Is told the weight of each row and of each index entry before it is made, and may refuse it.
/// Weights are the same on every machine.
pub type Toll<'t> = &'t mut dyn FnMut(usize) -> Result<()>;

/// What becomes of a row, which comes with its key; `None`: it stays behind.
pub type Convert<'c> = &'c mut dyn FnMut(&[u8], &[Value]) -> Result<Option<Vec<Value>>>;

pub struct CatalogChange<'s> {
    store: &'s Store,
    catalog: Catalog,
    at: Height,
}

impl<'s> CatalogChange<'s> {
    /// Rows are taken as they are at a height, which the caller keeps readable. What is made of
    /// another than [`LATEST`] is for its maker alone.
    pub fn new(store: &'s Store, catalog: Arc<Catalog>, at: Height) -> CatalogChange<'s> {
        CatalogChange { store, catalog: Arc::unwrap_or_clone(catalog), at }
    }

    pub fn finish(self) -> Arc<Catalog> {
        Arc::new(self.catalog)
    }

    fn existing(&self, id: TableId) -> Result<Arc<Table>> {
        self.catalog.table(id).cloned().ok_or_else(|| {
            Error::new(SqlState::UNDEFINED_TABLE, format!("table number {} does not exist", id.0))
        })
    }

    fn empty_table(&self, schema: Arc<TableSchema>) -> Arc<Table> {
        // A session's transaction goes on to write to what it has made of the session's tables.
        match self.at == LATEST || schema.id.is_temporary() {
            true => self.store.empty_table(schema),
            false => self.store.unwritten_table(schema),
        }
    }

    fn put(&mut self, table: Arc<Table>) -> Arc<Table> {
        self.catalog.set(table.id(), Some(Arc::clone(&table)));
        table
    }

    pub fn annotate(&mut self, annotation: Annotation) {
        self.catalog.annotate(annotation);
    }

    /// Takes the place of a table with the same id, if there is one.
    pub fn create_table(&mut self, schema: Arc<TableSchema>) -> Arc<Table> {
        self.put(self.empty_table(schema))
    }

    pub fn drop_table(&mut self, id: TableId) {
        self.set_layout(id, Layout::Row);
        self.catalog.set(id, None);
    }

    /// It stays with the id when the table is rewritten.
    pub fn set_layout(&mut self, id: TableId, layout: Layout) {
        self.catalog.set_layout(id, layout);
    }

    pub fn truncate(&mut self, id: TableId) -> Result<Arc<Table>> {
        Ok(self.create_table(self.existing(id)?.schema().clone()))
    }

    /// Puts a table under a new schema whose columns are stored as before: other names, columns
    /// marked as dropped, nullability, indexes dropped or added. Added indexes are built.
    pub fn alter_table(&mut self, schema: Arc<TableSchema>, toll: Toll<'_>) -> Result<Arc<Table>> {
        let old = self.existing(schema.id)?;
        if !old.stores_as(&schema) {
            let message = format!("table \"{}\" needs to be rewritten", schema.name);
            return Err(Error::new(SqlState::INTERNAL_ERROR, message));
        }
        let table = old.with_schema(schema, self.at, toll)?;
        Ok(self.put(Arc::new(table)))
    }

    /// Rewrites the table with `schema`'s id: each row, in key order, becomes what `convert` makes
    /// of it. Two rows with one new key are 23505; after an error nothing is changed.
    pub fn rebuild(
        &mut self,
        schema: Arc<TableSchema>,
        convert: Convert<'_>,
        toll: Toll<'_>,
    ) -> Result<Arc<Table>> {
        let old = self.existing(schema.id)?;
        let new = self.empty_table(schema);
        let columns: Vec<ColumnId> = (0..old.schema().columns.len() as ColumnId).collect();
        let mut failure = None;
        let mut copy = |key: &[u8], stamp: Stamp, values: &[Value]| {
            let made = convert(key, values).and_then(|row| {
                let Some(row) = row else { return Ok(()) };
                toll(row.iter().map(Value::weight).sum())?;
                add(&new, row, stamp)
            });
            match made {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        };
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        old.scan(0, low, high, false, self.at, &columns, &mut copy);
        match failure {
            Some(error) => Err(error),
            None => Ok(self.put(new)),
        }
    }

    /// Puts a row into a table that this change has made.
    pub fn add_to_new(&self, table: TableId, row: Vec<Value>, stamp: Stamp) -> Result<()> {
        add(&*self.existing(table)?, row, stamp)
    }
}

fn add(table: &Table, row: Vec<Value>, stamp: Stamp) -> Result<()> {
    let schema = table.schema();
    let key = primary_key(schema, &row)?;
    if table.find(key.as_bytes()).is_some() {
        return Err(Error::new(
            SqlState::UNIQUE_VIOLATION,
            "could not create unique index: the key is duplicated",
        )
        .with_table(schema.name.clone()));
    }
    table.restore(key.as_bytes(), &row, stamp);
    Ok(())
}

#[cfg(test)]
mod tests {
    use types::{ColumnSchema, DataType, Key};

    use super::*;

    fn schema(primary_key: ColumnId) -> Arc<TableSchema> {
        let column = |name: &str| ColumnSchema::new(name, DataType::Int8);
        Arc::new(TableSchema {
            id: TableId(1),
            name: "t".into(),
            columns: vec![column("a"), column("b")],
            primary_key: vec![primary_key],
            indexes: Vec::new(),
            hidden_row_id: false,
        })
    }

    fn filled(rows: &[(i64, i64)]) -> Store {
        let store = Store::new();
        let table = store.create_table(schema(0));
        let mut block = store.begin_block(1, 1);
        for (position, (a, b)) in rows.iter().enumerate() {
            let stamp = Stamp::new(1, position as u32);
            let row = [Value::Int(*a), Value::Int(*b)];
            table.insert(Key::from_int(*a).as_bytes(), &row, stamp, block.arena(0));
        }
        store.finish(block);
        store.publish(1);
        store
    }

    #[test]
    fn rows_move_under_a_new_key_and_older_snapshots_keep_theirs() {
        let store = filled(&[(1, 20), (2, 10)]);
        let before = store.snapshot();
        let new = store.rebuild(schema(1), &mut |row| row.to_vec()).unwrap();
        let slot = new.find(Key::from_int(10).as_bytes()).unwrap();
        let mut row = Vec::new();
        assert_eq!(new.read_row(slot, LATEST, &mut row), Some(Stamp::new(1, 1)));
        assert_eq!(row, [Value::Int(2), Value::Int(10)]);
        let old = before.table(TableId(1)).unwrap();
        assert!(old.find(Key::from_int(2).as_bytes()).is_some());
    }

    #[test]
    fn a_duplicated_key_changes_nothing() {
        let store = filled(&[(1, 10), (2, 10)]);
        let error = store.rebuild(schema(1), &mut |row| row.to_vec()).err().unwrap();
        assert_eq!(error.code(), SqlState::UNIQUE_VIOLATION);
        assert_eq!(store.table(TableId(1)).unwrap().schema().primary_key, [0]);
    }
}
