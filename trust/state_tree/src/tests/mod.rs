//! The oracle: a map, and the root as the definition says it, written a second time.

mod comparing;
mod histories;
mod mutants;
mod proving;

use std::collections::BTreeMap;

use kit::random::Random;
use proofs::{Hash, TreeKey};
use sha2::{Digest, Sha256};

use crate::{Change, StateTree, Value};

type Model = BTreeMap<TreeKey, Value>;

/// The root of rows in order, from `docs/state-tree.md` in the simplest words.
fn root_of(rows: &[(TreeKey, Value)]) -> Hash {
    let row = |(key, value): &(TreeKey, Value)| {
        let (key, height) = (key.as_bytes(), value.height.to_be_bytes());
        (bits(key), [&[key.len() as u8][..], key, &value.image, &height].concat())
    };
    root_of_rows(&rows.iter().map(row).collect::<Vec<_>>())
}

/// Of the bits of keys, and the bytes of rows.
fn root_of_rows(rows: &[(Vec<bool>, Vec<u8>)]) -> Hash {
    if rows.len() <= 1 || rows.iter().map(|(_, row)| row.len()).sum::<usize>() <= 512 {
        let page: Vec<u8> = rows.iter().flat_map(|(_, row)| row.clone()).collect();
        return Sha256::digest([&b"tally page v1\0\0\0"[..], &page].concat()).into();
    }
    let (first, last) = (&rows[0].0, &rows[rows.len() - 1].0);
    let position = first.iter().zip(last).position(|(a, b)| a != b).unwrap();
    let (left, right) = rows.split_at(rows.iter().filter(|(bits, _)| !bits[position]).count());
    let (left, right) = (root_of_rows(left), root_of_rows(right));
    let position = (position as u16).to_be_bytes();
    let message = [&b"tally branch v1\0"[..], &position, &left, &right].concat();
    Sha256::digest(message).into()
}

fn bits(key: &[u8]) -> Vec<bool> {
    let byte = |byte: &u8| {
        let byte = *byte;
        [true].into_iter().chain((0..8).map(move |bit| byte << bit & 0x80 != 0))
    };
    key.iter().flat_map(byte).chain([false]).collect()
}

fn model_root(model: &Model) -> Hash {
    root_of(&model.iter().map(|(key, value)| (*key, *value)).collect::<Vec<_>>())
}

fn value(random: &mut Random, height: u64) -> Value {
    Value { image: [random.below(3) as u8; 32], height }
}

/// Keys as tables have them, and as an adversary chooses them for long paths.
fn key(random: &mut Random, spread: u64) -> TreeKey {
    let number = random.below(spread);
    match random.below(6) {
        0 => TreeKey::new(7, &number.to_be_bytes()),
        1 => TreeKey::new(8, &number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()),
        2 => TreeKey::new(9, &vec![b'a'; number as usize % 200]),
        3 => {
            let mut nested = vec![0xff; number as usize % 100];
            nested.push(1 << random.below(8));
            TreeKey::new(9, &nested)
        }
        4 => TreeKey::new(10, format!("customer/{}/{number}", number % 10).as_bytes()),
        _ => TreeKey::new(number as u32 % 300, b""),
    }
}

/// What a block does: to rows that are there, and to others.
fn block(
    random: &mut Random,
    model: &Model,
    height: u64,
    changes: u64,
    spread: u64,
) -> Vec<Change> {
    let mut changed = BTreeMap::new();
    for _ in 0..changes {
        let key = key(random, spread);
        let there = model.range(key..).next().map(|(key, value)| (*key, *value));
        let (key, value) = match there {
            Some((key, _)) if random.chance(3) => (key, None),
            // Written with the values that it had.
            Some((key, old)) if random.chance(4) => (key, Some(Value { height, ..old })),
            Some((key, _)) if random.chance(2) => (key, Some(value(random, height))),
            _ => (key, (!random.chance(4)).then(|| value(random, height))),
        };
        changed.insert(key, value);
    }
    changed.into_iter().map(|(key, value)| Change { key, value }).collect()
}

fn change_model(model: &mut Model, changes: &[Change]) {
    for change in changes {
        match change.value {
            Some(value) => model.insert(change.key, value),
            None => model.remove(&change.key),
        };
    }
}

/// A tree and its model after some blocks.
fn grown(random: &mut Random, blocks: u64, changes: u64, spread: u64) -> (StateTree, Model) {
    let (mut tree, mut model) = (StateTree::new(), Model::new());
    for height in 1..=blocks {
        let changes = block(random, &model, height, changes, spread);
        tree.apply(&changes, 1);
        change_model(&mut model, &changes);
    }
    (tree, model)
}
