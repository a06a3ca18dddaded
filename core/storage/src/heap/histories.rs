//! Random histories of rows with long strings, keys and index entries, read at heights far apart:
//! against a map per height; and when all rows and readers have gone, nothing is left.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use kit::random::Random;
use types::key::encode_key;
use types::{ColumnSchema, DataType, Height, IndexSchema, Key, Stamp, TableId, TableSchema, Value};

use crate::block::BlockWrites;
use crate::store::{Snapshot, Store};
use crate::table::Table;

const KEYS: u64 = 40;
const BLOCKS: Height = 400;
/// Where a segment of a heap ends, a string begins the next one.
const ENDS_MAX: u64 = 8 * 40 * 6;

/// Keys of up to 200 bytes, a text with an index and one without.
fn table(store: &Store) -> Arc<Table> {
    let column = |name: &str| ColumnSchema::new(name, DataType::Text);
    store.create_table(Arc::new(TableSchema {
        id: TableId(0),
        name: "t".into(),
        columns: vec![column("id"), column("named").nullable(true), column("said").nullable(true)],
        primary_key: vec![0],
        indexes: vec![IndexSchema {
            name: "named".into(),
            columns: vec![1],
            unique: false,
            dropped: false,
        }],
        hidden_row_id: false,
    }))
}

type Row = [Value; 3];
type State = BTreeMap<u64, Row>;

fn text(number: u64, length_max: u64, random: &mut Random) -> Value {
    let length = random.below(length_max) as usize;
    Value::text(format!("{number:05}{}", "x".repeat(length)))
}

fn id(number: u64) -> Value {
    Value::text(format!("{number:05}{}", "k".repeat((number * 37 % 200) as usize)))
}

fn key(number: u64) -> Key {
    let mut key = Key::default();
    encode_key([(&DataType::Text, false, &id(number))], &mut key).expect("a key");
    key
}

fn row(number: u64, random: &mut Random) -> Row {
    let said = if random.below(5) == 0 { Value::Null } else { text(number, 300, random) };
    [id(number), text(number % 3, 180, random), said]
}

/// One transaction on a row.
fn write(
    table: &Table,
    block: &mut BlockWrites,
    random: &mut Random,
    stamp: Stamp,
    state: &mut State,
) {
    let number = random.below(KEYS).min(random.below(KEYS));
    let (encoded, new) = (key(number), row(number, random));
    let undo = block.arena(random.below(2) as usize);
    let Some(slot) = table.find(encoded.as_bytes()) else {
        table.insert(encoded.as_bytes(), &new, stamp, undo);
        state.insert(number, new);
        return;
    };
    let mut image = Vec::new();
    table.image(slot, &mut image);
    match random.below(6) {
        0 if state.contains_key(&number) => {
            table.delete(slot, stamp, undo);
            state.remove(&number);
        }
        1 | 2 if state.contains_key(&number) => {
            let columns = [(2, new[2].clone()), (1, new[1].clone())];
            let changed = &columns[..1 + random.below(2) as usize];
            table.update(slot, changed, stamp, undo);
            let row = state.get_mut(&number).expect("it is there");
            changed.iter().for_each(|(id, value)| row[usize::from(*id)] = value.clone());
        }
        // Written, perhaps twice, and taken back.
        3 => {
            table.insert(encoded.as_bytes(), &new, stamp, undo);
            if random.below(2) == 0 {
                table.update(slot, &[(2, Value::Null)], stamp, undo);
            }
            table.revert(slot, &image, undo);
        }
        _ => {
            table.insert(encoded.as_bytes(), &new, stamp, undo);
            state.insert(number, new);
        }
    }
}

fn check(store: &Store, snapshot: &Snapshot, expected: &State) {
    let table = store.table(TableId(0)).expect("it was made");
    let mut found = State::new();
    table.each_row(snapshot.height(), &mut |key, slot, _| {
        let mut row = Vec::new();
        table.read_row(slot, snapshot.height(), &mut row).expect("a row");
        let number: u64 = match &row[0] {
            Value::Text(id) => id[..5].parse().expect("a number"),
            other => panic!("{other:?} under {key:?}"),
        };
        found.insert(number, row.try_into().expect("three columns"));
        ControlFlow::Continue(())
    });
    assert_eq!(&found, expected, "at height {}", snapshot.height());
}

#[test]
#[cfg_attr(miri, ignore = "many bytes, by one thread")]
fn strings_are_given_up_when_no_reader_is_left_that_sees_them() {
    for seed in 0..6 {
        history(seed);
    }
}

fn history(seed: u64) {
    let (store, mut random) = (Store::new(), Random::new(seed));
    let table = table(&store);
    let mut state = State::new();
    let mut readers: VecDeque<(Snapshot, State)> = VecDeque::new();
    for height in 1..=BLOCKS {
        let mut block = store.begin_block(height, 2);
        for position in 0..random.below(10) {
            let stamp = Stamp::new(height, position as u32);
            write(&table, &mut block, &mut random, stamp, &mut state);
        }
        let changes = store.finish(block);
        store.publish(height);
        if random.below(3) > 0 {
            drop(changes);
            store.collect();
        }
        if random.below(4) == 0 {
            readers.push_back((store.snapshot(), state.clone()));
        }
        while readers.len() > 6 {
            let place = random.below(readers.len() as u64) as usize;
            readers.remove(place);
        }
        readers.iter().for_each(|(snapshot, expected)| check(&store, snapshot, expected));
    }
    readers.clear();
    collect_all(&store);
    check(&store, &store.snapshot(), &state);
    let mut block = store.begin_block(BLOCKS + 1, 1);
    for number in state.keys() {
        let slot = table.find(key(*number).as_bytes()).expect("it is there");
        table.delete(slot, Stamp::new(BLOCKS + 1, 0), block.arena(0));
    }
    store.finish_unread(block);
    store.publish(BLOCKS + 1);
    collect_all(&store);
    let heap = &table.records.heap;
    let (_, named) = table.secondary_indexes().next().expect("an index");
    for (of, reserved, free) in [
        ("rows", heap.reserved_bytes(), heap.free_bytes()),
        ("keys", table.primary().long_key_bytes().0, table.primary().long_key_bytes().1),
        ("entries", named.entries.long_key_bytes().0, named.entries.long_key_bytes().1),
    ] {
        assert!(free > 0, "no {of} have come and gone");
        assert!(reserved - free <= ENDS_MAX, "{free} of {reserved} bytes of {of} are free");
    }
}

fn collect_all(store: &Store) {
    while store.usage().garbage_blocks > 0 {
        store.collect();
    }
    store.collect();
}
