//! Tables that change their shape while older snapshots are read.

use std::sync::Arc;

use storage::{Store, Table};
use types::{DataType, Stamp, TableId, TableSchema, Value};

use crate::common::{ALL, accounts, column, index, primary_key, scan};

const ID: TableId = TableId(1);

fn row(id: i64, balance: i64) -> Vec<Value> {
    vec![Value::Int(id), Value::Int(balance)]
}

fn filled(rows: i64) -> (Store, Arc<Table>) {
    let store = Store::new();
    let table = store.create_table(accounts(ID.0));
    let mut block = store.begin_block(1, 1);
    for id in 0..rows {
        let row = row(id, id * 10);
        let key = primary_key(table.schema(), &row);
        table.insert(key.as_bytes(), &row, Stamp::new(1, id as u32), block.arena(0));
    }
    drop(store.finish(block));
    store.publish(1);
    (store, table)
}

/// A DDL block at `height`.
fn in_block<R>(store: &Store, height: u64, ddl: impl FnOnce() -> R) -> R {
    let block = store.begin_block(height, 1);
    let result = ddl();
    drop(store.finish(block));
    store.publish(height);
    result
}

#[test]
fn a_new_column_has_its_default_and_old_snapshots_do_not_see_it() {
    let (store, old) = filled(5);
    let before = store.snapshot();
    let mut schema = TableSchema::clone(old.schema());
    schema.columns.push(column("note", DataType::Text, true));
    let default = Value::text("a default longer than twelve bytes");
    let mut widen = |row: &[Value]| [row, std::slice::from_ref(&default)].concat();
    let new = in_block(&store, 2, || store.rebuild(Arc::new(schema), &mut widen))
        .expect("the table exists");
    for (key, stamp, values) in scan(&new, 0, ALL, false, 2, usize::MAX) {
        assert_eq!(stamp.height(), 1);
        assert_eq!(values[2], default);
        assert!(new.find(key.as_bytes()).is_some());
    }
    let shown = before.table(ID).expect("pinned with it");
    assert_eq!(shown.schema().columns.len(), 2);
    assert_eq!(scan(shown, 0, ALL, false, before.height(), usize::MAX).len(), 5);
    assert_eq!(store.snapshot().table(ID).expect("there").schema().columns.len(), 3);
    assert_eq!(
        store.snapshot_at(1).expect("pinned").table(ID).expect("there").schema().columns.len(),
        2
    );
}

#[test]
fn a_dropped_table_counts_as_long_as_a_snapshot_shows_it() {
    let (store, table) = filled(5000);
    let rows = table.usage().row_bytes;
    drop(table);
    let before = (store.used_bytes(), store.usage());
    assert_eq!(before.1.gone_bytes, 0);
    let reader = store.snapshot();
    in_block(&store, 2, || store.drop_table(ID));
    store.collect();
    assert!(store.usage().gone_bytes >= rows / 2, "{} of {rows}", store.usage().gone_bytes);
    assert!(store.used_bytes() >= before.0, "{} after {}", store.used_bytes(), before.0);
    assert_eq!(scan(reader.table(ID).expect("shown"), 0, ALL, false, 1, usize::MAX).len(), 5000);
    drop(reader);
    in_block(&store, 3, || ());
    store.collect();
    assert_eq!((store.usage().gone_bytes, store.used_bytes()), (0, 0));
}

#[test]
fn a_table_that_only_changed_its_description_has_not_gone() {
    let (store, old) = filled(100);
    let reader = store.snapshot();
    let mut schema = TableSchema::clone(old.schema());
    schema.indexes.push(index("by_balance", &[1]));
    in_block(&store, 2, || store.alter_table(Arc::new(schema))).expect("exists");
    assert_eq!(store.usage().gone_bytes, 0);
    in_block(&store, 3, || store.truncate(ID)).expect("exists");
    assert!(store.usage().gone_bytes > 0);
    drop(reader);
}

/// Numbers are given once, so a ledger in which tables come and go has few among many.
#[test]
fn tables_are_found_by_their_numbers_whatever_was_dropped_between() {
    let store = Store::new();
    let mut random = kit::random::Random::new(3);
    let mut there = std::collections::BTreeSet::new();
    for id in 1..400 {
        store.create_table(accounts(id));
        there.insert(id);
        let drops = random.below(3) as usize;
        let dropped: Vec<u32> =
            (0..drops).map(|_| random.below(u64::from(id) + 1) as u32).collect();
        for gone in dropped {
            store.drop_table(TableId(gone));
            there.remove(&gone);
        }
        if id % 20 == 0 {
            let ids: Vec<u32> = store.tables().iter().map(|table| table.id().0).collect();
            assert!(ids.iter().eq(&there), "{ids:?}");
            for id in 0..id + 3 {
                let found = store.table(TableId(id)).map(|table| table.id().0);
                assert_eq!(found, there.get(&id).copied());
            }
        }
    }
    assert!(there.len() < 399 && !there.is_empty());
    let one = *there.first().expect("one");
    assert!(Arc::ptr_eq(
        &store.create_table(accounts(one)),
        &store.table(TableId(one)).expect("it")
    ));
}

#[test]
fn a_new_index_holds_the_rows_and_follows_them() {
    let (store, old) = filled(5);
    let mut schema = TableSchema::clone(old.schema());
    schema.indexes.push(index("by_balance", &[1]));
    let table = in_block(&store, 2, || store.alter_table(Arc::new(schema))).expect("exists");
    let order = |at| -> Vec<Value> {
        scan(&table, 1, ALL, true, at, 9).into_iter().map(|r| r.2[0].clone()).collect()
    };
    assert_eq!(order(2), [4, 3, 2, 1, 0].map(Value::Int));
    let mut block = store.begin_block(3, 1);
    let key = primary_key(table.schema(), &row(0, 0));
    let slot = table.find(key.as_bytes()).expect("inserted");
    table.update(slot, &[(1, Value::Int(35))], Stamp::new(3, 0), block.arena(0));
    drop(store.finish(block));
    store.publish(3);
    assert_eq!(order(3), [4, 0, 3, 2, 1].map(Value::Int));
    assert_eq!(order(2), [4, 3, 2, 1, 0].map(Value::Int));

    let mut schema = TableSchema::clone(table.schema());
    schema.indexes[0].dropped = true;
    let without = in_block(&store, 4, || store.alter_table(Arc::new(schema))).expect("exists");
    assert!(scan(&without, 1, ALL, false, 4, 9).is_empty());
    assert_eq!(scan(&without, 0, ALL, false, 4, 9).len(), 5);
}

#[test]
fn truncated_and_dropped_tables_stay_for_their_snapshots() {
    let (store, table) = filled(5);
    let before = store.snapshot();
    in_block(&store, 2, || store.truncate(ID)).expect("exists");
    let empty = store.snapshot();
    in_block(&store, 3, || store.drop_table(ID));
    assert!(store.table(ID).is_none());
    assert!(store.truncate(ID).is_err());
    store.collect();
    let rows = |snapshot: &storage::Snapshot| {
        scan(snapshot.table(ID).expect("pinned"), 0, ALL, false, snapshot.height(), 9).len()
    };
    assert_eq!((rows(&before), rows(&empty)), (5, 0));
    assert!(store.snapshot().table(ID).is_none());
    drop((before, empty, table));
    store.collect();
    assert!(store.snapshot_at(1).is_none());
}

#[test]
fn an_index_is_rebuilt_when_its_column_becomes_nullable() {
    let (store, old) = filled(3);
    let mut schema = TableSchema::clone(old.schema());
    schema.indexes.push(index("by_balance", &[1]));
    in_block(&store, 2, || store.alter_table(Arc::new(schema.clone()))).expect("exists");
    schema.columns[1].nullable = true;
    let table = in_block(&store, 3, || store.alter_table(Arc::new(schema))).expect("exists");
    let mut block = store.begin_block(4, 1);
    let key = primary_key(table.schema(), &row(1, 0));
    let slot = table.find(key.as_bytes()).expect("inserted");
    table.update(slot, &[(1, Value::Null)], Stamp::new(4, 0), block.arena(0));
    drop(store.finish(block));
    store.publish(4);
    let ids: Vec<Value> =
        scan(&table, 1, ALL, false, 4, 9).into_iter().map(|r| r.2[0].clone()).collect();
    assert_eq!(ids, [0, 2, 1].map(Value::Int), "NULLs last");
}

#[test]
fn a_table_is_rewritten_where_its_rows_would_be_other_words() {
    let (store, old) = filled(3);
    let mut schema = TableSchema::clone(old.schema());
    schema.columns[1].data_type = DataType::Text;
    let schema = Arc::new(schema);
    assert!(store.alter_table(schema.clone()).is_err());
    let mut text =
        |row: &[Value]| vec![row[0].clone(), Value::text(format!("{:?}", row[1].as_int()))];
    let table = in_block(&store, 2, || store.rebuild(schema, &mut text)).expect("exists");
    let rows = scan(&table, 0, ALL, true, 2, 1);
    assert_eq!(rows[0].2, [Value::Int(2), Value::text("Some(20)")]);
    assert_eq!(rows[0].1, Stamp::new(1, 2));
}
