//! Random histories taken out at every height and put in again: the copy answers every read at
//! every height as the store does, and goes on as it does.

use std::collections::VecDeque;
use std::sync::Arc;

use kit::random::Random;
use types::{ColumnSchema, DataType, IndexSchema, TableId, TableSchema, Value};

use super::*;

const KEYS: u64 = 12;
const BLOCKS: Height = if cfg!(miri) { 6 } else { 40 };

fn schema() -> Arc<TableSchema> {
    let column =
        |name: &str, data_type, nullable| ColumnSchema::new(name, data_type).nullable(nullable);
    Arc::new(TableSchema {
        id: TableId(0),
        name: "t".into(),
        columns: vec![
            column("id", DataType::Int8, false),
            column("class", DataType::Int8, true),
            column("note", DataType::Text, true),
        ],
        primary_key: vec![0],
        indexes: vec![IndexSchema {
            name: "by_class".into(),
            columns: vec![1],
            unique: false,
            dropped: false,
        }],
        hidden_row_id: false,
    })
}

/// A write of a block: a row put, or deleted; those that are taken back come in the block as well.
#[derive(Clone, Copy)]
enum Write {
    Put(i64, i64),
    Delete(i64),
}

fn writes(random: &mut Random) -> Vec<Write> {
    let write = |random: &mut Random| {
        let key = random.below(KEYS) as i64;
        match random.below(3) {
            0 => Write::Delete(key),
            _ => Write::Put(key, random.below(4) as i64),
        }
    };
    (0..random.below(6)).map(|_| write(random)).collect()
}

fn apply(store: &Store, height: Height, writes: &[Write]) {
    let table = store.table(TableId(0)).unwrap();
    let mut block = store.begin_block(height, 1);
    for (position, write) in (0..).zip(writes) {
        let (stamp, undo) = (Stamp::new(height, position), block.arena(0));
        match *write {
            Write::Put(id, class) => {
                let note = Value::text(format!("a note beyond what lies inline: {height}, {id}"));
                let class = if class == 0 { Value::Null } else { Value::Int(class) };
                table.insert(
                    Key::from_int(id).as_bytes(),
                    &[Value::Int(id), class, note],
                    stamp,
                    undo,
                );
            }
            Write::Delete(id) => {
                let slot = table.find(Key::from_int(id).as_bytes());
                if let Some(slot) = slot.filter(|slot| table.stamp(*slot, crate::LATEST).is_some())
                {
                    table.delete(slot, stamp, undo);
                }
            }
        }
    }
    store.finish_unread(block);
    store.publish(height);
}

type Row = (Vec<u8>, Stamp, Vec<Value>);

/// Every index from both ends, then every key.
fn seen(store: &Store, at: Height) -> Vec<Row> {
    let table = store.table(TableId(0)).unwrap();
    let mut rows = Vec::new();
    for (index, reverse) in [(0, false), (0, true), (1, false), (1, true)] {
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        table.scan(index, low, high, reverse, at, &[0, 1, 2], &mut |key, stamp, values| {
            rows.push((key.to_vec(), stamp, values.to_vec()));
            ControlFlow::Continue(())
        });
    }
    for id in 0..KEYS as i64 {
        let key = Key::from_int(id);
        let mut row = Vec::new();
        let found = table.find(key.as_bytes()).and_then(|slot| table.read_row(slot, at, &mut row));
        rows.extend(found.map(|stamp| (key.as_bytes().to_vec(), stamp, row)));
    }
    rows
}

type Past = Vec<(Vec<u8>, Vec<PastImage>)>;

fn past_of(store: &Store, from: Height, at: Height) -> Past {
    let mut past = Vec::new();
    let table = store.table(TableId(0)).unwrap();
    table
        .each_past(from, at, &mut |key, images| {
            past.push((key.to_vec(), images.to_vec()));
            Ok(())
        })
        .unwrap();
    past
}

/// A store with the state at `at` and what was below.
fn copy_of(store: &Store, from: Height, at: Height, past: &Past) -> (Store, VecDeque<Pin>) {
    let copy = Store::new();
    let (table, new) = (store.table(TableId(0)).unwrap(), copy.create_table(schema()));
    table.each_row(at, &mut |_, slot, stamp| {
        let mut image = Vec::new();
        table.append_image(slot, at, &mut image).unwrap();
        new.restore_image(stamp, &image).unwrap();
        ControlFlow::Continue(())
    });
    if from < at {
        let mut block = copy.begin_blocks(from + 1, at, 1);
        for (key, images) in past {
            let restored = new.restore_past(images, block.arena(0)).unwrap();
            assert_eq!(restored.as_bytes(), &key[..]);
        }
        copy.finish_unread(block);
    }
    let pins = copy.resume_at(from, at);
    (copy, pins.into())
}

#[test]
fn a_copy_answers_below_its_height_as_the_store_does_and_goes_on_as_it_does() {
    let mut images = 0;
    for seed in 0..if cfg!(miri) { 2 } else { 12 } {
        let mut random = Random::new(seed);
        let store = Store::new();
        store.create_table(schema());
        let blocks: Vec<Vec<Write>> = (0..BLOCKS + 4).map(|_| writes(&mut random)).collect();
        store.publish(0);
        let mut pins = VecDeque::from([store.pins().pin_newest()]);
        for height in 1..=BLOCKS {
            apply(&store, height, &blocks[height as usize - 1]);
            let from = height.saturating_sub(random.below(8));
            while pins.front().is_some_and(|pin| pin.height() + 8 < height) {
                pins.pop_front();
            }
            store.collect();
            pins.push_back(store.pins().pin_newest());
            let past = past_of(&store, from, height);
            images += past.len();
            let (copy, mut held) = copy_of(&store, from, height, &past);
            assert_eq!(past_of(&copy, from, height), past, "seed {seed}, {from} to {height}");
            let expected: Vec<_> = (from..=height).map(|at| seen(&store, at)).collect();
            let compare = |when: &str, held: usize| {
                for at in (from..=height).skip(held) {
                    let found = seen(&copy, at);
                    assert_eq!(found, expected[(at - from) as usize], "{seed}, {when}: {at}");
                }
            };
            compare("at once", 0);
            let own = copy.pins().pin_newest();
            for (more, writes) in (height + 1..).zip(&blocks[height as usize..]).take(4) {
                apply(&copy, more, writes);
                held.pop_front();
                copy.collect();
                compare("blocks later", (height - from) as usize - held.len());
            }
            drop((held, own));
            // Nothing that it was given stays behind.
            copy.collect();
            copy.collect();
            let table = copy.table(TableId(0)).unwrap();
            let rows = seen(&copy, copy.newest()).len() / 5;
            assert_eq!(table.usage().records, rows as u64, "seed {seed}, {from} to {height}");
            assert_eq!(copy.usage().undo_bytes, 0);
            let mut entries = Vec::new();
            let (low, high) = (Bound::Unbounded, Bound::Unbounded);
            table.secondary(1).unwrap().entries.collect(low, high, false, 1000, &mut entries);
            assert_eq!(entries.len(), rows, "entries that rows have left");
        }
    }
    assert!(images > 100, "{images}");
}

#[test]
fn an_impossible_past_is_refused() {
    let image = |id: i64| {
        let mut image = Vec::new();
        let row = [Value::Int(id), Value::Int(1), Value::Null];
        types::row::encode_row(&schema().columns, &row, &mut image).unwrap();
        Some(image)
    };
    let restored = |images: &[(Height, Option<Vec<u8>>)]| {
        let store = Store::new();
        let table = store.create_table(schema());
        table.restore_image(Stamp::new(6, 0), &image(1).unwrap()).unwrap();
        let mut block = store.begin_blocks(4, 8, 1);
        let images: Vec<PastImage> = images
            .iter()
            .map(|(height, image)| PastImage {
                stamp: Stamp::new(*height, 1),
                image: image.clone(),
            })
            .collect();
        let twice = [0; 2].map(|_| table.restore_past(&images, block.arena(0)).is_ok());
        assert!(!twice[1], "a row has one past");
        store.finish_unread(block);
        twice[0]
    };
    assert!(restored(&[(5, image(1))]) && restored(&[(2, image(1))]));
    assert!(restored(&[(5, None), (4, image(1))]), "it was inserted again");
    assert!(restored(&[(7, None), (3, image(2))]), "it is gone");
    assert!(!restored(&[]), "none");
    assert!(!restored(&[(6, image(1))]), "not below the state's");
    assert!(!restored(&[(5, None)]) && !restored(&[(5, image(1)), (4, None)]), "nothing before");
    assert!(!restored(&[(4, image(1)), (4, image(1))]), "two of one block");
    assert!(!restored(&[(3, image(1)), (2, image(1))]), "nobody reads the older one");
    assert!(!restored(&[(5, image(1)), (4, image(2))]), "two rows");
    assert!(!restored(&[(7, image(2))]), "the state has no such row");
    assert!(!restored(&[(9, None), (3, image(2))]), "a block that is not there yet");
    assert!(!restored(&[(5, None), (4, None), (3, image(1))]), "deleted twice");
    assert!(!restored(&[(5, Some(vec![1, 2, 3]))]), "no image");
}
