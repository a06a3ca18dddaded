//! A database of one `BTreeMap` per table: the simplest `Access` there can be, against which
//! programs are tested and other data paths compared.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use types::key::encode_column;
use types::{ColumnId, ColumnSchema, Error, Key, Stamp, Stop, TableId, TableSchema, Value};

use crate::access::{Access, Command, Range, Row};

#[derive(Clone, Debug)]
struct Table {
    schema: Arc<TableSchema>,
    rows: BTreeMap<Key, (Stamp, Row)>,
}

/// A whole database in memory, seen by one transaction at a time.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    tables: BTreeMap<TableId, Table>,
    /// What changes from now on are stamped with.
    pub stamp: Stamp,
    pub now_us: i64,
    row_ids: u32,
}

impl Memory {
    pub fn new(schemas: impl IntoIterator<Item = Arc<TableSchema>>) -> Self {
        let mut memory = Memory::default();
        for schema in schemas {
            memory.create_table(schema);
        }
        memory
    }

    pub fn create_table(&mut self, schema: Arc<TableSchema>) {
        let rows = BTreeMap::new();
        self.tables.insert(schema.id, Table { schema, rows });
    }

    /// Put a row in place, whatever was there.
    pub fn put(&mut self, table: TableId, row: Vec<Value>) -> Result<(), Error> {
        let stamp = self.stamp;
        let table = self.table_mut(table)?;
        let key = key_of(&row, &table.schema, &table.schema.primary_key)?;
        table.rows.insert(key, (stamp, row.into()));
        Ok(())
    }

    /// All rows of a table in primary-key order.
    pub fn rows(&self, table: TableId) -> Vec<Vec<Value>> {
        self.tables
            .get(&table)
            .into_iter()
            .flat_map(|table| table.rows.values())
            .map(|(_, row)| row.to_vec())
            .collect()
    }

    /// The same with keys and stamps.
    pub fn stamped_rows(&self, table: TableId) -> Vec<(Key, Stamp, Vec<Value>)> {
        let rows = self.tables.get(&table).into_iter().flat_map(|table| &table.rows);
        rows.map(|(key, (stamp, row))| (key.clone(), *stamp, row.to_vec())).collect()
    }

    fn table(&self, id: TableId) -> Result<&Table, Error> {
        self.tables.get(&id).ok_or_else(|| unknown(id))
    }

    fn table_mut(&mut self, id: TableId) -> Result<&mut Table, Error> {
        self.tables.get_mut(&id).ok_or_else(|| unknown(id))
    }
}

fn unknown(id: TableId) -> Error {
    Error::new(types::SqlState::UNDEFINED_TABLE, format!("there is no table {}", id.0))
}

fn key_of(row: &[Value], schema: &TableSchema, columns: &[ColumnId]) -> Result<Key, Error> {
    let mut key = Key::default();
    for column in columns {
        let column = usize::from(*column);
        let ColumnSchema { data_type, nullable, .. } = &schema.columns[column];
        encode_column(data_type, *nullable, &row[column], &mut key)?;
    }
    Ok(key)
}

impl Access for Memory {
    fn read(
        &mut self,
        table: TableId,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        let Some((stamp, row)) = self.table(table)?.rows.get(key) else {
            return Ok(None);
        };
        for (column, out) in columns.iter().zip(out) {
            *out = row[usize::from(*column)].clone();
        }
        Ok(Some(*stamp))
    }

    fn exists(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        Ok(self.table(table)?.rows.contains_key(key))
    }

    fn update(&mut self, table: TableId, key: &Key, command: Command) -> Result<bool, Stop> {
        let (now_us, now_stamp) = (self.now_us, self.stamp);
        let Some((stamp, row)) = self.table_mut(table)?.rows.get_mut(key) else {
            return Ok(false);
        };
        let mut after = row.clone();
        command.apply(&mut after, now_us)?;
        *row = after;
        *stamp = now_stamp;
        Ok(true)
    }

    fn insert(&mut self, table: TableId, key: Key, row: Row) -> Result<bool, Stop> {
        let stamp = self.stamp;
        let table = self.table_mut(table)?;
        if table.rows.contains_key(&key) {
            return Ok(false);
        }
        table.rows.insert(key, (stamp, row));
        Ok(true)
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        Ok(self.table_mut(table)?.rows.remove(key).is_some())
    }

    fn scan<V>(&mut self, range: &Range, columns: &[ColumnId], mut visit: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        let table = self.table(range.table)?;
        let mut entries = Vec::new();
        for (key, (stamp, row)) in &table.rows {
            let mut entry = Key::default();
            if let Some(index) = range.index.checked_sub(1) {
                let columns = &table.schema.indexes[usize::from(index)].columns;
                entry = key_of(row, &table.schema, columns)?;
            }
            entry.0.extend_from_slice(key.as_bytes());
            if in_range(entry.as_bytes(), range) {
                entries.push((entry, key, *stamp, row));
            }
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        if range.reverse {
            entries.reverse();
        }
        for (_, key, stamp, row) in entries {
            let shown = columns.iter().map(|c| row[usize::from(*c)].clone());
            let shown: Vec<Value> = shown.collect();
            if visit(key, stamp, &shown)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn next_row_id(&mut self) -> [u8; 16] {
        let id = self.stamp.row_id(self.row_ids);
        self.row_ids += 1;
        id
    }

    fn now_us(&self) -> i64 {
        self.now_us
    }
}

fn in_range(entry: &[u8], range: &Range) -> bool {
    let above = match &range.low {
        Bound::Included(low) => entry >= low.as_bytes(),
        Bound::Excluded(low) => entry >= low.as_bytes() && !entry.starts_with(low.as_bytes()),
        Bound::Unbounded => true,
    };
    let below = match &range.high {
        Bound::Included(high) => entry <= high.as_bytes() || entry.starts_with(high.as_bytes()),
        Bound::Excluded(high) => entry < high.as_bytes(),
        Bound::Unbounded => true,
    };
    above && below
}
