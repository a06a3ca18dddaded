//! Writing a table anew under another schema: other columns, another primary key.
//!
//! The new table takes the old one's place in the catalog; snapshots of older heights keep the old
//! one. Rows keep their stamps: no transaction changed them.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use types::key::encode_key;
use types::{ColumnId, Error, Key, Result, SqlState, Stamp, TableId, TableSchema, Value};

use crate::LATEST;
use crate::store::Store;
use crate::table::Table;

impl Store {
    /// Rewrites the table with `schema`'s id: each current row, in key order, becomes what
    /// `convert` makes of it. Two rows with one new key are 23505, and nothing is changed.
    pub fn rebuild(
        &self,
        schema: Arc<TableSchema>,
        convert: &mut dyn FnMut(&[Value]) -> Vec<Value>,
    ) -> Result<Arc<Table>> {
        let old = self.existing(schema.id)?;
        let new = self.empty_table(schema);
        let columns: Vec<ColumnId> = (0..old.schema().columns.len() as ColumnId).collect();
        let mut failure = None;
        let mut copy =
            |_: &[u8], stamp: Stamp, values: &[Value]| match add(&new, convert(values), stamp) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            };
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        old.scan(0, low, high, false, LATEST, &columns, &mut copy);
        if let Some(error) = failure {
            return Err(error);
        }
        self.replace(new.clone());
        Ok(new)
    }

    /// Puts a row into a table that was made in this block.
    pub fn add_to_new(&self, table: TableId, row: Vec<Value>, stamp: Stamp) -> Result<()> {
        add(&*self.existing(table)?, row, stamp)
    }
}

fn add(table: &Table, row: Vec<Value>, stamp: Stamp) -> Result<()> {
    let schema = table.schema();
    let columns = schema.primary_key.iter().map(|&id| {
        let column = &schema.columns[usize::from(id)];
        (&column.data_type, column.nullable, &row[usize::from(id)])
    });
    let mut key = Key::default();
    encode_key(columns, &mut key)?;
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
    use types::{ColumnSchema, DataType};

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
