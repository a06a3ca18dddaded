//! Readers at pinned heights beside two writers: the sum of all balances never changes, nor does
//! what a snapshot shows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kit::random::Random;
use storage::{LATEST, Store, Table};
use types::{Key, Stamp, TableId, TableSchema, Value};

use crate::common::{ALL, accounts, index, primary_key, scan};

const ACCOUNTS: u64 = if cfg!(miri) { 8 } else { 64 };
const TOTAL: i64 = ACCOUNTS as i64 * 100;
const BLOCKS: u64 = if cfg!(miri) { 4 } else { 400 };
const ID: TableId = TableId(0);

fn key(id: u64) -> Key {
    Key::from_int(id as i64)
}

/// Takes the money of some accounts, deletes those that are empty, and gives it to others.
fn transfer(
    table: &Table,
    random: &mut Random,
    part: u64,
    stamp: Stamp,
    undo: &mut storage::UndoArena,
) {
    let pick = |random: &mut Random| random.below(ACCOUNTS / 2) * 2 + part;
    let (from, to) = (pick(random), pick(random));
    if from == to {
        return;
    }
    let balance = |id: u64| {
        let slot = table.find(key(id).as_bytes())?;
        let mut out = [Value::Null];
        table.read(slot, LATEST, &[1], &mut out)?;
        out[0].as_int()
    };
    let Some(amount) = balance(from) else { return };
    let part = if random.chance(3) { amount } else { random.below(amount as u64 + 1) as i64 };
    let source = table.find(key(from).as_bytes()).expect("has a balance");
    if part == amount {
        table.delete(source, stamp, undo);
    } else {
        table.update(source, &[(1, Value::Int(amount - part))], stamp, undo);
    }
    match balance(to) {
        Some(old) => {
            let target = table.find(key(to).as_bytes()).expect("has a balance");
            table.update(target, &[(1, Value::Int(old + part))], stamp, undo);
        }
        None => {
            let row = [Value::Int(to as i64), Value::Int(part)];
            table.insert(key(to).as_bytes(), &row, stamp, undo);
        }
    }
}

fn write_blocks(store: &Store, table: &Table) {
    for height in 2..2 + BLOCKS {
        let mut block = store.begin_block(height, 2);
        std::thread::scope(|scope| {
            for (undo, part) in block.arenas().iter_mut().zip(0..) {
                scope.spawn(move || {
                    let mut random = Random::new(height * 2 + part);
                    for position in 0..20 {
                        let stamp = Stamp::new(height, position * 2 + part as u32);
                        transfer(table, &mut random, part, stamp, undo);
                    }
                });
            }
        });
        drop(store.finish(block));
        store.publish(height);
        store.collect();
    }
}

fn sum_by_scan(table: &Table, index: u16, at: u64, reverse: bool) -> i64 {
    let rows = scan(table, index, ALL, reverse, at, usize::MAX);
    rows.iter().map(|(_, _, row)| row[1].as_int().expect("not null")).sum()
}

fn sum_by_key(table: &Table, at: u64) -> i64 {
    let mut out = [Value::Null, Value::Null];
    let balances = (0..ACCOUNTS).filter_map(|id| {
        let slot = table.find(key(id).as_bytes())?;
        table.read(slot, at, &[0, 1], &mut out)?;
        assert_eq!(out[0], Value::Int(id as i64), "a slot of another key");
        out[1].as_int()
    });
    balances.sum()
}

#[test]
fn snapshots_are_whole_while_blocks_are_written() {
    let store = Store::new();
    let mut schema = TableSchema::clone(&accounts(ID.0));
    schema.indexes.push(index("by_balance", &[1]));
    let table = store.create_table(Arc::new(schema));
    let mut block = store.begin_block(1, 1);
    for id in 0..ACCOUNTS {
        let row = [Value::Int(id as i64), Value::Int(100)];
        let key = primary_key(table.schema(), &row);
        table.insert(key.as_bytes(), &row, Stamp::new(1, id as u32), block.arena(0));
    }
    drop(store.finish(block));
    store.publish(1);

    let done = AtomicBool::new(false);
    let reads = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for reader in 0..3u64 {
            let (store, table, done, reads) = (&store, &table, &done, &reads);
            scope.spawn(move || {
                let mut turn = reader;
                while !done.load(Ordering::Acquire) {
                    let snapshot = store.snapshot();
                    for _ in 0..3 {
                        let at = snapshot.height();
                        assert_eq!(sum_by_key(table, at), TOTAL, "by key at {at}");
                        let (index, reverse) = (turn as u16 % 2, turn % 4 < 2);
                        let sum = sum_by_scan(table, index, at, reverse);
                        assert_eq!(sum, TOTAL, "by index {index} at {at}");
                        turn += 1;
                    }
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        write_blocks(&store, &table);
        while reads.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(sum_by_key(&table, LATEST), TOTAL);
    store.collect();
    assert_eq!(store.usage().undo_bytes, 0);
}
