//! Several workers in one block: inserts, deletes and inserts into the freed slots.

use std::sync::Arc;

use storage::{LATEST, Store, Table, UndoArena};
use types::{Stamp, TableId, TableSchema, Value};

use crate::common::{ALL, accounts, index, primary_key, scan};

const WORKERS: usize = 4;
const ROWS: i64 = if cfg!(miri) { 40 } else { 8_000 };

fn row(id: i64, balance: i64) -> Vec<Value> {
    vec![Value::Int(id), Value::Int(balance)]
}

/// Runs `work` for every id, each on one of the workers; returns how many rows changed.
fn block(
    store: &Store,
    height: u64,
    ids: impl Iterator<Item = i64> + Clone + Send,
    work: impl Fn(i64, Stamp, &mut UndoArena) + Sync,
) -> usize {
    let mut writes = store.begin_block(height, WORKERS);
    std::thread::scope(|scope| {
        for (undo, worker) in writes.arenas().iter_mut().zip(0..) {
            let (ids, work) = (ids.clone(), &work);
            scope.spawn(move || {
                for id in ids.filter(|id| *id as usize % WORKERS == worker) {
                    work(id, Stamp::new(height, id as u32), undo);
                }
            });
        }
    });
    let changes = store.finish(writes);
    assert!(changes.touched().is_sorted_by(|a, b| a.key() < b.key()));
    store.publish(height);
    let count = changes.len();
    drop(changes);
    store.collect();
    count
}

fn ids(table: &Table, index: u16) -> Vec<i64> {
    let rows = scan(table, index, ALL, false, LATEST, usize::MAX);
    rows.into_iter().filter_map(|(_, _, row)| row[0].as_int()).collect()
}

#[test]
fn workers_share_tables_indexes_and_free_slots() {
    let store = Store::new();
    let mut schema = TableSchema::clone(&accounts(0));
    schema.indexes.push(index("by_balance", &[1]));
    let table = store.create_table(Arc::new(schema));
    let insert = |id: i64, balance: i64, stamp: Stamp, undo: &mut UndoArena| {
        let row = row(id, balance);
        table.insert(primary_key(table.schema(), &row).as_bytes(), &row, stamp, undo);
    };
    let delete = |id: i64, stamp: Stamp, undo: &mut UndoArena| {
        let key = primary_key(table.schema(), &row(id, 0));
        table.delete(table.find(key.as_bytes()).expect("inserted"), stamp, undo);
    };
    let all: Vec<i64> = (0..ROWS).collect();
    assert_eq!(block(&store, 1, 0..ROWS, |id, s, u| insert(id, -id, s, u)), all.len());
    assert_eq!(ids(&table, 0), all);
    assert_eq!(ids(&table, 1), all.iter().rev().copied().collect::<Vec<_>>());

    assert_eq!(block(&store, 2, 0..ROWS / 2, delete), all.len() / 2);
    assert_eq!(ids(&table, 0), all[all.len() / 2..]);
    assert_eq!(table.usage().records, all.len() as u64 / 2);

    // Other keys in the slots just freed, beside deletes of keys that the block itself inserted.
    let (others, passing) = (ROWS..ROWS + ROWS / 2, 2 * ROWS);
    let changed = block(&store, 3, others.clone().chain(passing..passing + 8), |id, s, u| {
        insert(id, id, s, u);
        if id >= passing {
            delete(id, s, u);
        }
    });
    assert_eq!(changed, all.len() / 2);
    let expected: Vec<i64> = (ROWS / 2..ROWS).chain(others).collect();
    assert_eq!(ids(&table, 0), expected);
    assert_eq!(table.usage().records, expected.len() as u64);

    // Rows that move back and forth, and then all go: nothing stays behind in any index.
    let update = |id: i64, balance: i64, stamp: Stamp, undo: &mut UndoArena| {
        let key = primary_key(table.schema(), &row(id, 0));
        let slot = table.find(key.as_bytes()).expect("inserted");
        table.update(slot, &[(1, Value::Int(balance))], stamp, undo);
    };
    let left = expected.into_iter();
    block(&store, 4, left.clone(), |id, s, u| update(id, -7, s, u));
    block(&store, 5, left.clone(), |id, s, u| {
        [id, -7, 1, id].into_iter().for_each(|balance| update(id, balance, s, u));
    });
    block(&store, 6, left, |id, s, u| {
        update(id, 3, s, u);
        delete(id, s, u);
    });
    let usage = table.usage();
    assert_eq!(usage.records, 0);
    assert!(usage.ordered_bytes <= 16 << 10, "{usage:?}");
    assert_eq!(store.table(TableId(0)).map(|t| t.usage()), Some(usage));
}

/// A write over a deleted row is taken back, and the garbage of the delete is collected before that
/// of the write: the entry which the write left must not lead to the slot's next row.
#[test]
fn a_write_in_vain_leaves_no_entry_in_a_freed_slot() {
    let store = Store::new();
    let mut schema = TableSchema::clone(&accounts(0));
    schema.indexes.push(index("by_balance", &[1]));
    let table = store.create_table(Arc::new(schema));
    let key = |id| primary_key(table.schema(), &row(id, 0));
    let insert = |id, balance, height, undo: &mut UndoArena| {
        let row = row(id, balance);
        table.insert(key(id).as_bytes(), &row, Stamp::new(height, 0), undo)
    };
    let in_block = |height, write: &dyn Fn(&mut UndoArena)| {
        let mut writes = store.begin_block(height, 1);
        write(writes.arena(0));
        store.finish_unread(writes);
        store.publish(height);
    };
    in_block(1, &|undo| _ = insert(5, 9, 1, undo));
    in_block(2, &|undo| {
        table.delete(table.find(key(5).as_bytes()).expect("inserted"), Stamp::new(2, 0), undo);
    });
    let pin = store.snapshot();
    in_block(3, &|undo| {
        let slot = table.find(key(5).as_bytes()).expect("not collected yet");
        let mut image = Vec::new();
        table.image(slot, &mut image);
        assert_eq!(insert(5, 1, 3, undo), slot);
        table.revert(slot, &image, undo);
    });
    assert_eq!(store.collect().horizon, 2);
    in_block(4, &|undo| _ = insert(2, 1, 4, undo));
    assert_eq!((ids(&table, 0), ids(&table, 1)), (vec![2], vec![2]));
    drop(pin);
    store.collect();
    assert_eq!((table.usage().records, ids(&table, 1)), (1, vec![2]));
}
