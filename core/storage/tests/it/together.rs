//! Blocks that are written together, and what each of them changed.

use kit::random::Random;
use storage::{Changes, LATEST, Store, Table, UndoArena};
use types::{Height, Key, Stamp, TableId, Value};

use crate::common::{accounts, primary_key};

const BLOCKS: Height = 12;

/// What a block does to a row: its balance, or nothing left of it.
type Write = (Height, i64, Option<i64>);

fn apply((height, id, balance): Write, table: &Table, undo: &mut UndoArena) {
    let row = [Value::Int(id), Value::Int(balance.unwrap_or(0))];
    let (key, stamp) = (primary_key(table.schema(), &row), Stamp::new(height, id as u32));
    let slot = table.find(key.as_bytes());
    let live = slot.filter(|slot| table.stamp(*slot, LATEST).is_some());
    match (balance, live) {
        (Some(_), Some(slot)) => table.update_row(slot, &row, stamp, undo),
        (Some(_), None) => {
            table.insert(key.as_bytes(), &row, stamp, undo);
        }
        (None, Some(slot)) => table.delete(slot, stamp, undo),
        (None, None) => {}
    }
}

type Shown = (Key, Option<Stamp>, Vec<Value>, Option<Stamp>, Vec<Value>);

fn show(changes: &Changes) -> Vec<Shown> {
    let one = |change: &storage::Change| {
        let (mut was, mut is) = (Vec::new(), Vec::new());
        let (before, after) = (change.before(&mut was), change.after(&mut is));
        (change.key().clone(), before, was, after, is)
    };
    changes.touched().iter().map(one).collect()
}

/// Keys are written in any order among each other, each of them in the order of the blocks: the
/// changes of every block are those of writing one block after the other.
#[test]
fn each_of_several_blocks_is_told_what_it_would_have_changed_alone() {
    for seed in 0..if cfg!(miri) { 2 } else { 60 } {
        let mut random = Random::new(seed);
        let mut writes: Vec<Write> = Vec::new();
        for height in 1..=BLOCKS {
            for _ in 0..random.below(8) {
                let balance = (!random.chance(3)).then(|| random.below(3) as i64);
                writes.push((height, random.below(5) as i64, balance));
            }
        }
        let (alone, together) = (Store::new(), Store::new());
        let tables = [&alone, &together].map(|store| {
            store.create_table(accounts(1));
            store.publish(0);
            store.table(TableId(1)).unwrap()
        });
        let mut expected = Vec::new();
        for height in 1..=BLOCKS {
            let mut block = alone.begin_block(height, 1);
            let own = writes.iter().filter(|(of, ..)| *of == height);
            own.for_each(|write| apply(*write, &tables[0], block.arena(0)));
            let changes = alone.finish(block);
            if !changes.is_empty() {
                expected.push((height, show(&changes)));
            }
            drop(changes);
            alone.publish(height);
        }
        writes.sort_by_key(|(_, id, _)| *id);
        let mut blocks = together.begin_each_block(1, BLOCKS, 2);
        for write in &writes {
            apply(*write, &tables[1], blocks.arena(write.1 as usize % 2));
        }
        let reported = together.finish_each(blocks);
        let reported = reported.iter().filter(|changes| !changes.is_empty());
        let reported: Vec<_> = reported.map(|changes| (changes.height(), show(changes))).collect();
        assert_eq!(reported, expected, "seed {seed}");
    }
}
