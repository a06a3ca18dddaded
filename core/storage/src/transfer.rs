//! Whole tables out of a store and into another one: what checkpoints are made of.
//!
//! *Out.* [`Table::each_row`] walks the rows visible at a pinned height without reading them: key,
//! slot and stamp, which is all that is needed to see what has changed since an earlier height.
//! Their images are appended by slot, with no second look-up: a slot whose row is visible at a pin
//! stays that key's slot while the pin is held.
//!
//! *In.* [`Table::restore_image`] puts a row back with the stamp that it had, into a table that has
//! no reader yet; any number of threads may do so at once. Older images may be laid beneath the
//! rows then ([`past`](crate::past)). At last [`Store::resume_at`](crate::Store::resume_at) makes
//! the height of the rows the first one that a reader can ask for.

use std::ops::{Bound, ControlFlow};

use types::key::primary_key;
use types::row::decode_row;
use types::{Error, Height, Key, Result, SqlState, Stamp, Value};

use crate::scan::each_entry;
use crate::slot::Slot;
use crate::table::Table;

/// What [`Table::each_row`] calls per row: primary key, slot, stamp.
pub type VisitSlot<'a> = dyn FnMut(&[u8], Slot, Stamp) -> ControlFlow<()> + 'a;

impl Table {
    /// Calls `visit` for every row visible at `at`, in key order, until it breaks.
    pub fn each_row(&self, at: Height, visit: &mut VisitSlot<'_>) {
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        each_entry(self.primary(), low, high, false, &mut |key, slot| match self.stamp(slot, at) {
            Some(stamp) => visit(key, slot, stamp),
            None => ControlFlow::Continue(()),
        });
    }

    /// Appends the image of the row visible at `at`, encoded as the ledger hashes it. `None`: no
    /// row is, and nothing was appended.
    pub fn append_image(&self, slot: Slot, at: Height, out: &mut Vec<u8>) -> Result<Option<Stamp>> {
        let start = out.len();
        let mut encoded = Ok(());
        let stamp = self.records.read(slot, at, |payload| {
            out.truncate(start);
            encoded = self.encode_image(payload, out);
        });
        if stamp.is_none() {
            out.truncate(start);
        }
        encoded.map(|()| stamp)
    }

    /// Puts a row back by its image, and returns its key. The table must be in no published
    /// catalogue, and have no row under the key.
    pub fn restore_image(&self, stamp: Stamp, image: &[u8]) -> Result<Key> {
        let (key, row) = self.decode_image(image)?;
        if stamp.height() > crate::HEIGHT_MAX {
            let name = &self.schema().name;
            let message = format!("a row of table \"{name}\" has an impossible stamp");
            return Err(Error::new(SqlState::DATA_CORRUPTED, message));
        }
        self.restore(key.as_bytes(), &row, stamp);
        Ok(key)
    }

    /// The row of an image, and its key.
    pub(crate) fn decode_image(&self, image: &[u8]) -> Result<(Key, Vec<Value>)> {
        let schema = self.schema();
        let row = decode_row(&schema.columns, image)?;
        Ok((primary_key(schema, &row)?, row))
    }

    /// Tells apart the tables that have this id one after the other: a rewrite or a truncation
    /// makes another one.
    pub fn incarnation(&self) -> u64 {
        self.records.incarnation
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use types::{ColumnSchema, DataType, TableId, TableSchema};

    use super::*;
    use crate::Store;

    fn schema() -> Arc<TableSchema> {
        let column =
            |name: &str, data_type, nullable| ColumnSchema::new(name, data_type).nullable(nullable);
        Arc::new(TableSchema {
            id: TableId(1),
            name: "t".into(),
            columns: vec![
                column("a", DataType::Int8, false),
                column("b", DataType::Text, true),
                column("c", DataType::Numeric(None), true),
            ],
            primary_key: vec![0],
            indexes: Vec::new(),
            hidden_row_id: false,
        })
    }

    fn row(key: i64, text: Value) -> [Value; 3] {
        [Value::Int(key), text, Value::Numeric("-1.50".parse().expect("a number"))]
    }

    fn rows(store: &Store, at: Height) -> Vec<(Vec<u8>, Stamp, Vec<u8>)> {
        let table = store.table(TableId(1)).expect("it was made");
        let mut found = Vec::new();
        table.each_row(at, &mut |key, slot, stamp| {
            let mut image = Vec::new();
            assert_eq!(table.append_image(slot, at, &mut image), Ok(Some(stamp)));
            found.push((key.to_vec(), stamp, image));
            ControlFlow::Continue(())
        });
        found
    }

    #[test]
    fn what_goes_out_at_a_height_comes_in_again_and_nothing_below_it_can_be_read() {
        let store = Store::new();
        let table = store.create_table(schema());
        let mut block = store.begin_block(1, 1);
        for key in 0..300 {
            let long = Value::text("long enough to lie in the heap".repeat(key as usize % 3));
            let stamp = Stamp::new(1, key as u32);
            table.insert(Key::from_int(key).as_bytes(), &row(key, long), stamp, block.arena(0));
        }
        store.finish_unread(block);
        store.publish(1);
        let snapshot = store.snapshot();
        let before = rows(&store, 1);
        let mut block = store.begin_block(2, 1);
        for key in (0..300).step_by(7) {
            let slot = table.find(Key::from_int(key).as_bytes()).expect("it is there");
            match key % 2 {
                0 => table.delete(slot, Stamp::new(2, 0), block.arena(0)),
                _ => {
                    table.update_row(slot, &row(key, Value::Null), Stamp::new(2, 1), block.arena(0))
                }
            }
        }
        store.finish_unread(block);
        store.publish(2);
        assert_eq!(rows(&store, snapshot.height()), before, "a snapshot does not change");

        for height in [1, 2] {
            let expected = rows(&store, height);
            let copy = Store::new();
            let table = copy.create_table(schema());
            for (key, stamp, image) in &expected {
                let restored = table.restore_image(*stamp, image).expect("an image");
                assert_eq!(restored.as_bytes(), key);
            }
            assert!(copy.resume_at(height, height).is_empty());
            assert_eq!(rows(&copy, height), expected);
            assert!(copy.snapshot_at(height - 1).is_none());
            assert_eq!(copy.snapshot().height(), height);
        }
    }

    #[test]
    fn a_damaged_image_is_refused() {
        let table = Store::new().create_table(schema());
        let mut image = Vec::new();
        let row = row(1, Value::text("x"));
        types::row::encode_row(&schema().columns, &row, &mut image).expect("a row");
        assert!(table.restore_image(Stamp::new(1, 0), &image[1..]).is_err());
        assert!(table.restore_image(Stamp(u64::MAX), &image).is_err());
        assert!(table.restore_image(Stamp::new(1, 0), &image).is_ok());
    }
}
