//! Random histories of one table, block by block, against a map per height.

use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::prelude::*;
use storage::{BlockWrites, LATEST, Snapshot, Store, Table};
use types::{ColumnId, Height, Key, Stamp, TableId, Value};

use crate::common::{ALL, Scanned, encode, notes, primary_key, scan};

#[derive(Clone, Debug)]
enum Op {
    Put {
        key: u8,
        amount: i64,
        note: Option<u8>,
    },
    SetAmount {
        key: u8,
        amount: i64,
    },
    SetNote {
        key: u8,
        note: Option<u8>,
    },
    Delete {
        key: u8,
    },
    /// Done, and undone within the block.
    TakenBack(Box<Op>),
}

#[derive(Clone, Debug)]
struct Block {
    ops: Vec<Op>,
    pin: bool,
    unpin: Option<usize>,
    collect: bool,
}

/// Rows by key, with the stamp of their last change.
type State = BTreeMap<Key, (Stamp, Vec<Value>)>;

fn op() -> impl Strategy<Value = Op> {
    let key = 0..5u8;
    let note = proptest::option::of(0..2u8);
    let kept = prop_oneof![
        3 => (key.clone(), 0..3i64, note.clone())
            .prop_map(|(key, amount, note)| Op::Put { key, amount, note }),
        2 => (key.clone(), 0..3i64).prop_map(|(key, amount)| Op::SetAmount { key, amount }),
        2 => (key.clone(), note).prop_map(|(key, note)| Op::SetNote { key, note }),
        3 => key.prop_map(|key| Op::Delete { key }),
    ];
    let kept = kept.boxed();
    prop_oneof![
        3 => kept.clone(),
        1 => kept.prop_map(|op| Op::TakenBack(Box::new(op))),
    ]
}

fn block() -> impl Strategy<Value = Block> {
    (
        proptest::collection::vec(op(), 0..10),
        any::<bool>(),
        proptest::option::of(0..8usize),
        any::<bool>(),
    )
        .prop_map(|(ops, pin, unpin, collect)| Block { ops, pin, unpin, collect })
}

/// Short, inline, and long texts: the last keys and notes do not fit a view.
fn text(number: u8) -> Value {
    Value::text("0123456789abcdef".repeat(usize::from(number % 4)) + &number.to_string())
}

fn row(key: u8, amount: i64, note: Option<u8>) -> Vec<Value> {
    vec![text(key), Value::Int(amount), note.map_or(Value::Null, text)]
}

fn key_of(op: &Op, table: &Table) -> Key {
    match op {
        Op::Put { key, .. }
        | Op::SetAmount { key, .. }
        | Op::SetNote { key, .. }
        | Op::Delete { key } => primary_key(table.schema(), &row(*key, 0, None)),
        Op::TakenBack(op) => key_of(op, table),
    }
}

/// The table, as the model, is what it was; the record's image was taken by its owner.
fn take_back(op: &Op, stamp: Stamp, table: &Table, state: &State, block: &mut BlockWrites) {
    let key = key_of(op, table);
    let find = || table.find(key.as_bytes());
    let before = find();
    let mut image = Vec::new();
    before.iter().for_each(|slot| table.image(*slot, &mut image));
    let mut done = state.clone();
    apply(op, stamp, table, &mut done, block);
    let is_written = done != *state;
    let undo = block.arena(0);
    match (before, find()) {
        (Some(slot), _) if is_written => table.revert(slot, &image, undo),
        (None, Some(slot)) => table.delete(slot, stamp, undo),
        _ => {}
    }
}

/// Applies an operation to the table and the model alike, as a transaction would: look, then do.
fn apply(op: &Op, stamp: Stamp, table: &Table, state: &mut State, block: &mut BlockWrites) {
    if let Op::TakenBack(op) = op {
        return take_back(op, stamp, table, state, block);
    }
    let key = key_of(op, table);
    let slot = table.find(key.as_bytes());
    let live = slot.filter(|slot| table.stamp(*slot, LATEST).is_some());
    assert_eq!(live.is_some(), state.contains_key(&key));
    let undo = block.arena(stamp.position() as usize % 2);
    match (op, live) {
        (Op::Put { key: number, amount, note }, _) => {
            let row = row(*number, *amount, *note);
            match live {
                Some(slot) => table.update_row(slot, &row, stamp, undo),
                None => _ = table.insert(key.as_bytes(), &row, stamp, undo),
            }
            state.insert(key, (stamp, row));
        }
        (Op::SetAmount { amount, .. }, Some(slot)) => {
            set(table, state, (slot, &key), (1, Value::Int(*amount)), stamp, undo);
        }
        (Op::SetNote { note, .. }, Some(slot)) => {
            let note = note.map_or(Value::Null, text);
            set(table, state, (slot, &key), (2, note), stamp, undo);
        }
        (Op::Delete { .. }, Some(slot)) => {
            table.delete(slot, stamp, undo);
            state.remove(&key);
        }
        (Op::TakenBack(_), _) | (_, None) => {}
    }
}

fn set(
    table: &Table,
    state: &mut State,
    (slot, key): (storage::Slot, &Key),
    change: (ColumnId, Value),
    stamp: Stamp,
    undo: &mut storage::UndoArena,
) {
    table.update(slot, std::slice::from_ref(&change), stamp, undo);
    let entry = state.get_mut(key).expect("live in the model");
    entry.0 = stamp;
    entry.1[usize::from(change.0)] = change.1;
}

fn expected(table: &Table, state: &State, index: u16) -> Scanned {
    let mut rows: Vec<(Key, Scanned)> = state
        .iter()
        .map(|(key, (stamp, row))| {
            let mut entry = match index {
                0 => Key::default(),
                n => {
                    encode(table.schema(), &table.schema().indexes[usize::from(n) - 1].columns, row)
                }
            };
            entry.0.extend_from_slice(key.as_bytes());
            (entry, vec![(key.clone(), *stamp, row.clone())])
        })
        .collect();
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows.into_iter().flat_map(|(_, row)| row).collect()
}

fn check_state(table: &Table, at: Height, state: &State) {
    for number in 0..5 {
        let key = primary_key(table.schema(), &row(number, 0, None));
        let slot = table.find(key.as_bytes());
        let mut read = Vec::new();
        let stamp = slot.and_then(|slot| table.read_row(slot, at, &mut read));
        match state.get(&key) {
            None => assert_eq!(stamp, None, "key {number} at {at}"),
            Some((expected_stamp, expected_row)) => {
                assert_eq!(stamp, Some(*expected_stamp), "key {number} at {at}");
                assert_eq!(&read, expected_row);
                let mut some = [Value::Null, Value::Null];
                table.read(slot.expect("found"), at, &[2, 1], &mut some);
                assert_eq!(some, [expected_row[2].clone(), expected_row[1].clone()]);
                let mut one = [Value::Null];
                table.read(slot.expect("found"), at, &[2], &mut one);
                assert_eq!(one[0], expected_row[2]);
            }
        }
    }
    for index in 0..=2 {
        let mut rows = expected(table, state, index);
        assert_eq!(scan(table, index, ALL, false, at, usize::MAX), rows);
        rows.reverse();
        assert_eq!(scan(table, index, ALL, true, at, usize::MAX), rows);
        assert_eq!(scan(table, index, ALL, true, at, 2), rows[..rows.len().min(2)]);
    }
    let from = primary_key(table.schema(), &row(2, 0, None));
    let range = (Bound::Excluded(from.as_bytes()), Bound::Unbounded);
    let above: Vec<_> = expected(table, state, 0).into_iter().filter(|r| r.0 > from).collect();
    assert_eq!(scan(table, 0, range, false, at, usize::MAX), above);
}

/// The net changes between two states, as the block must report them: a row that was written with
/// the values it had has another stamp.
fn check_changes(changes: &storage::Changes, before: &State, after: &State) {
    let keys: std::collections::BTreeSet<&Key> = before.keys().chain(after.keys()).collect();
    let net: Vec<&Key> =
        keys.into_iter().filter(|key| before.get(*key) != after.get(*key)).collect();
    assert_eq!(changes.touched().iter().map(storage::Change::key).collect::<Vec<_>>(), net);
    for change in changes.touched() {
        let mut read = Vec::new();
        let stamp = change.before(&mut read);
        assert_eq!(stamp.map(|s| (s, read)), before.get(change.key()).cloned());
        let mut read = Vec::new();
        let stamp = change.after(&mut read);
        assert_eq!(stamp.map(|s| (s, read)), after.get(change.key()).cloned());
    }
}

fn run(history: &[Block]) {
    let store = Store::new();
    let table = store.create_table(notes(3));
    let mut state = State::new();
    let mut pinned: Vec<(Snapshot, State)> = Vec::new();
    // The changes of the block before, which are sealed while this one runs.
    let mut held: Option<(storage::Changes, State, State)> = None;
    for (block, height) in history.iter().zip(1..) {
        let before = state.clone();
        let mut writes = store.begin_block(height, 2);
        for (op, position) in block.ops.iter().zip(0..) {
            apply(op, Stamp::new(height, position), &table, &mut state, &mut writes);
        }
        check_state(&table, LATEST, &state);
        let changes = store.finish(writes);
        check_changes(&changes, &before, &state);
        store.publish(height);
        if block.pin {
            pinned.push((store.snapshot(), state.clone()));
        }
        if let Some(place) = block.unpin
            && place < pinned.len()
        {
            pinned.swap_remove(place);
        }
        if let Some((earlier, before, after)) = held.replace((changes, before, state.clone())) {
            check_changes(&earlier, &before, &after);
        }
        if block.collect {
            store.collect();
        }
        for (snapshot, state) in &pinned {
            let table = snapshot.table(TableId(3)).expect("created before every pin");
            check_state(table, snapshot.height(), state);
        }
        check_state(&table, height, &state);
    }
    pinned.clear();
    drop(held);
    store.collect();
    assert_eq!(store.usage().undo_bytes, 0);
    assert_eq!(table.usage().records, state.len() as u64);
    check_state(&table, store.newest(), &state);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 256 }))]

    #[test]
    fn every_pinned_height_reads_as_it_was(history in proptest::collection::vec(block(), 1..24)) {
        run(&history);
    }
}
