//! Random histories with readers far apart, against a map per height and a count by brute force of
//! the versions that are seen.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use kit::random::Random;
use types::{ColumnSchema, DataType, Height, Key, Stamp, TableId, TableSchema, Value};

use crate::block::Changes;
use crate::store::{Snapshot, Store};
use crate::table::Table;
use crate::undo::{CHUNK_WORDS, UndoSpace, VERSION_HEADER_WORDS};

const KEYS: u64 = if cfg!(miri) { 6 } else { 24 };
const BLOCKS: Height = if cfg!(miri) { 30 } else { 160 };

fn table(store: &Store) -> Arc<Table> {
    let column = |name: &str| ColumnSchema::new(name, DataType::Int8);
    store.create_table(Arc::new(TableSchema {
        id: TableId(0),
        name: "t".into(),
        columns: vec![column("id"), column("value")],
        primary_key: vec![0],
        indexes: Vec::new(),
        hidden_row_id: false,
    }))
}

type State = BTreeMap<u64, (Stamp, i64)>;

/// What happened, by height: the rows, and of each key the heights at which its record changed.
#[derive(Default)]
struct Model {
    states: BTreeMap<Height, State>,
    changes: BTreeMap<u64, Vec<Height>>,
}

impl Model {
    /// Versions that a reader at one of the heights would come to.
    fn seen(&self, read: &BTreeSet<Height>) -> usize {
        let of_key = |changes: &Vec<Height>| {
            let seen = |pair: &&[Height]| read.range(pair[0]..pair[1]).next().is_some();
            changes.windows(2).filter(seen).count()
        };
        self.changes.values().map(of_key).sum()
    }
}

fn key(number: u64) -> Key {
    Key::from_int(number as i64)
}

/// One block: some rows put, some deleted, some written and taken back.
fn write(
    store: &Store,
    table: &Table,
    random: &mut Random,
    height: Height,
    model: &mut Model,
) -> Changes {
    let mut state = model.states.values().next_back().cloned().unwrap_or_default();
    let mut block = store.begin_block(height, 1);
    let mut touched = BTreeSet::new();
    for position in 0..random.below(12) {
        let number = random.below(KEYS).min(random.below(KEYS));
        if !touched.insert(number) {
            continue;
        }
        let (key, stamp) = (key(number), Stamp::new(height, position as u32));
        let value = random.below(1000) as i64;
        let row = [Value::Int(number as i64), Value::Int(value)];
        let slot = table.find(key.as_bytes());
        let undo = block.arena(0);
        match (slot.filter(|_| state.contains_key(&number)), random.below(8)) {
            (Some(slot), 0) => {
                table.delete(slot, stamp, undo);
                state.remove(&number);
            }
            (Some(slot), 1 | 2) => {
                let mut image = Vec::new();
                table.image(slot, &mut image);
                table.update(slot, &[(1, Value::Int(value))], stamp, undo);
                table.revert(slot, &image, undo);
                continue;
            }
            _ => {
                table.insert(key.as_bytes(), &row, stamp, undo);
                state.insert(number, (stamp, value));
            }
        }
        model.changes.entry(number).or_default().push(height);
    }
    model.states.insert(height, state);
    let changes = store.finish(block);
    store.publish(height);
    changes
}

/// What a block changed is told from its before-images, which may be held while others sweep.
fn check_changes(changes: &Changes, model: &Model) {
    let height = changes.height();
    let after = &model.states[&height];
    let nothing = State::new();
    let before = model.states.get(&(height - 1)).unwrap_or(&nothing);
    for change in changes.touched() {
        let mut row = Vec::new();
        let stamp = change.before(&mut row).or_else(|| change.after(&mut row));
        assert!(stamp.is_some(), "a change of nothing");
        let Some(number) = row[0].as_int().map(|id| id as u64) else { panic!("{row:?}") };
        let found = |stamp, row: &[Value]| Some((stamp, row[1].as_int()?));
        let was = change.before(&mut row).and_then(|stamp| found(stamp, &row));
        assert_eq!(was, before.get(&number).copied());
        let is = change.after(&mut row).and_then(|stamp| found(stamp, &row));
        assert_eq!(is, after.get(&number).copied());
    }
    let keys: BTreeSet<&u64> = before.keys().chain(after.keys()).collect();
    let net = keys.into_iter().filter(|key| before.get(key) != after.get(key)).count();
    assert_eq!(changes.len(), net);
}

fn check(table: &Table, at: Height, state: &State) {
    for number in 0..KEYS {
        let mut out = [Value::Null];
        let slot = table.find(key(number).as_bytes());
        let read = slot.and_then(|slot| table.read(slot, at, &[1], &mut out));
        let found = read.and_then(|stamp| Some((stamp, out[0].as_int()?)));
        assert_eq!(found, state.get(&number).copied(), "key {number} at {at}");
    }
}

fn run(seed: u64) {
    let store = Store::new();
    let table = table(&store);
    let mut random = Random::new(seed);
    let mut model = Model::default();
    let mut readers: Vec<Snapshot> = Vec::new();
    let mut unreported: VecDeque<Changes> = VecDeque::new();
    for height in 1..=BLOCKS {
        unreported.push_back(write(&store, &table, &mut random, height, &mut model));
        if random.chance(12) {
            readers.push(store.snapshot());
        }
        if random.chance(20) {
            assert!(store.retain(height));
        }
        if random.chance(10) && !readers.is_empty() {
            readers.swap_remove(random.below(readers.len() as u64) as usize);
        }
        let retained = store.retained();
        if retained.len() > 3 {
            store.release(retained[random.below(3) as usize]);
        }
        if random.chance(3) {
            store.collect();
        }
        while let Some(changes) = unreported.pop_front_if(|_| random.chance(2)) {
            check_changes(&changes, &model);
        }
        let retained = store.retained().into_iter().filter_map(|at| store.lease_at(at));
        for snapshot in readers.iter().chain(&retained.collect::<Vec<_>>()) {
            check(&table, snapshot.height(), &model.states[&snapshot.height()]);
            assert!(snapshot.check().is_ok());
        }
        check(&table, height, &model.states[&height]);
    }
    unreported.drain(..).for_each(|changes| check_changes(&changes, &model));
    for _ in 0..8 {
        store.collect();
    }
    bounded(&store, &table, &model, &readers);
    readers.clear();
    store.retained().into_iter().for_each(|height| store.release(height));
    store.collect();
    assert_eq!(store.usage().undo_bytes, 0);
    assert_eq!(table.usage().records, model.states[&BLOCKS].len() as u64);
}

/// No more than twice what is seen stays, but for a chunk of each reader and of each reader's
/// height, which may lie across what blocks wrote before and after it, and the one being filled.
fn bounded(store: &Store, table: &Table, model: &Model, readers: &[Snapshot]) {
    let heights = readers.iter().map(Snapshot::height).chain(store.retained());
    let read: BTreeSet<Height> = heights.collect();
    let version_words = VERSION_HEADER_WORDS + table.records.layout.payload_words;
    let per_chunk = CHUNK_WORDS / version_words;
    let seen_chunks = (2 * model.seen(&read)).div_ceil(per_chunk);
    let chunks = (store.usage().undo_bytes / UndoSpace::chunk_bytes()) as usize;
    assert!(chunks <= seen_chunks + 2 * read.len() + 1, "{chunks} for {seen_chunks}: {read:?}");
}

#[test]
fn between_two_readers_only_what_they_see_is_kept() {
    (0..if cfg!(miri) { 1 } else { 60 }).for_each(run);
}

#[test]
fn one_old_reader_costs_one_version_of_each_row() {
    let store = Store::new();
    let table = table(&store);
    let write = |height: Height| {
        let mut block = store.begin_block(height, 1);
        for number in 0..KEYS {
            let row = [Value::Int(number as i64), Value::Int(height as i64)];
            let stamp = Stamp::new(height, number as u32);
            table.insert(key(number).as_bytes(), &row, stamp, block.arena(0));
        }
        store.finish_unread(block);
        store.publish(height);
        store.collect();
    };
    write(1);
    let old = store.snapshot();
    (2..20).for_each(write);
    let after_twenty = store.usage().undo_bytes;
    (20..400).for_each(write);
    assert!(store.usage().undo_bytes <= after_twenty, "{:?}", store.usage());
    let state = (0..KEYS).map(|number| (number, (Stamp::new(1, number as u32), 1))).collect();
    check(&table, old.height(), &state);
}

#[test]
fn rows_that_came_and_went_between_two_readers_leave_nothing() {
    let store = Store::new();
    let table = table(&store);
    store.publish(1);
    let old = store.snapshot();
    for height in 2..200 {
        let mut block = store.begin_block(height, 1);
        let undo = block.arena(0);
        let row = [Value::Int(height as i64), Value::Int(0)];
        table.insert(key(height).as_bytes(), &row, Stamp::new(height, 0), undo);
        if height > 2 {
            let last = table.find(key(height - 1).as_bytes()).expect("of the block before");
            table.delete(last, Stamp::new(height, 1), undo);
        }
        store.finish_unread(block);
        store.publish(height);
        store.collect();
    }
    assert!(table.usage().records < 5, "{:?}", table.usage());
    check(&table, old.height(), &State::new());
}

#[test]
fn an_ended_lease_says_so_and_its_versions_go() {
    let store = Store::new();
    let table = table(&store);
    let mut random = Random::new(7);
    let mut model = Model::default();
    drop(write(&store, &table, &mut random, 1, &mut model));
    let (lease, kept) = (store.lease(), store.snapshot());
    drop(write(&store, &table, &mut random, 2, &mut model));
    assert!(store.retain(2));
    let shared = store.lease_at(2).expect("retained");
    (3..40).for_each(|height| drop(write(&store, &table, &mut random, height, &mut model)));
    store.collect();
    assert_eq!(store.end_oldest_leases(1), None);
    assert_eq!(store.end_oldest_leases(30), Some(1));
    assert!(lease.check().is_err() && shared.check().is_ok() && kept.check().is_ok());
    assert_eq!(store.end_oldest_leases(30), Some(2));
    assert!(shared.check().is_err() && store.retained().is_empty());
    assert_eq!(store.end_oldest_leases(30), None, "others are not leases");
    assert!(store.lease_at(2).is_none() && store.lease_at(5).is_none());
    store.collect();
    check(&table, 1, &model.states[&1]);
    drop(kept);
    store.collect();
    assert_eq!(store.usage().undo_bytes, 0);
    assert_eq!(store.usage().snapshots, 0);
}
