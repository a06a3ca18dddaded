//! The tree against `BTreeMap`, alone and under threads.

use std::collections::BTreeMap;
use std::ops::Bound;

use kit::random::Random;
use proptest::prelude::*;

use super::*;

type Model = BTreeMap<Vec<u8>, u32>;

/// Keys that share heads, differ in length and in zeros, and are at times too long for a node.
fn key(random: &mut Random, space: u64) -> Vec<u8> {
    let number = random.below(space);
    match number % 5 {
        0 => number.to_be_bytes().to_vec(),
        1 => [b"same head".as_slice(), &number.to_be_bytes()].concat(),
        2 => vec![0; number as usize % 30],
        3 => [vec![b'x'; 100 + number as usize % 60], number.to_string().into_bytes()].concat(),
        _ => number.to_string().into_bytes(),
    }
}

fn collect(
    index: &OrderedIndex,
    low: Bound<&[u8]>,
    high: Bound<&[u8]>,
    reverse: bool,
    limit: usize,
) -> Vec<(Vec<u8>, u32)> {
    let mut out = Vec::new();
    index.collect(low, high, reverse, limit, &mut out);
    out.into_iter().map(|(key, slot)| (key.0.to_vec(), slot.0)).collect()
}

fn check_whole(index: &OrderedIndex, model: &Model) {
    let mut all: Vec<_> = model.iter().map(|(k, v)| (k.clone(), *v)).collect();
    let none = Bound::Unbounded;
    assert_eq!(collect(index, none, none, false, usize::MAX >> 1), all);
    all.reverse();
    assert_eq!(collect(index, none, none, true, usize::MAX >> 1), all);
}

fn check_range(index: &OrderedIndex, model: &Model, random: &mut Random, space: u64) {
    let (a, b) = (key(random, space), key(random, space));
    let (a, b) = if a <= b { (a, b) } else { (b, a) };
    let bound = |random: &mut Random, key: Vec<u8>| match random.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Excluded(key),
        _ => Bound::Included(key),
    };
    let (low, high) = (bound(random, a), bound(random, b));
    let (low, high) = (low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice));
    if let (Bound::Excluded(l), Bound::Excluded(h)) = (low, high)
        && l == h
    {
        return;
    }
    let limit = random.below(40) as usize;
    let range = || model.range::<[u8], _>((low, high)).map(|(k, v)| (k.clone(), *v));
    let forward: Vec<_> = range().take(limit).collect();
    assert_eq!(collect(index, low, high, false, limit), forward);
    let backward: Vec<_> = range().rev().take(limit).collect();
    assert_eq!(collect(index, low, high, true, limit), backward);
}

fn churn(seed: u64, steps: u32, space: u64) {
    let mut random = Random::new(seed);
    let index = OrderedIndex::new();
    let mut model = Model::new();
    for step in 0..steps {
        // Grows for a while, then shrinks to nothing, and again.
        let growing = (step / (steps / 4).max(1)).is_multiple_of(2);
        let key = key(&mut random, space);
        if random.chance(4) != growing {
            index.insert(&key, Slot(step));
            model.insert(key, step);
        } else {
            index.remove(&key);
            model.remove(&key);
        }
        if step % 64 == 0 {
            check_range(&index, &model, &mut random, space);
        }
    }
    check_whole(&index, &model);
    for key in model.keys() {
        index.remove(key);
    }
    check_whole(&index, &Model::new());
    let numbers = index.numbers.lock();
    let left = numbers.next as usize - numbers.free.len();
    assert!(left <= 8, "{left} nodes are left of an empty tree");
}

const STEPS_MAX: u32 = if cfg!(miri) { 80 } else { 6000 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 24 }))]

    #[test]
    fn agrees_with_a_btree_map(seed: u64, steps in 1..STEPS_MAX, space in 1..3000u64) {
        churn(seed, steps, space);
    }
}

#[test]
#[cfg_attr(miri, ignore = "many keys, by one thread")]
fn keys_in_order_fill_their_nodes() {
    let index = OrderedIndex::new();
    let mut model = Model::new();
    for i in 0..20_000u32 {
        index.insert(&u64::from(i).to_be_bytes(), Slot(i));
        model.insert(u64::from(i).to_be_bytes().to_vec(), i);
    }
    check_whole(&index, &model);
    let nodes = index.numbers.lock().next;
    assert!(nodes < 20_000 / 110, "{nodes} nodes");
}

/// As order lines come: a few at a time, each district's behind its own and before the next one's.
#[test]
#[cfg_attr(miri, ignore = "many keys, by one thread")]
fn keys_in_order_for_each_of_many_prefixes_fill_their_nodes() {
    const DISTRICTS: u64 = 40;
    let index = OrderedIndex::new();
    let mut model = Model::new();
    let mut random = Random::new(1);
    let mut next = [0u64; DISTRICTS as usize];
    for slot in 0..20_000u32 {
        let district = random.below(DISTRICTS);
        for _ in 0..5 {
            let line = next[district as usize];
            next[district as usize] += 1;
            let key = [7, district, line].map(u64::to_be_bytes).concat();
            index.insert(&key, Slot(slot));
            model.insert(key, slot);
        }
    }
    check_whole(&index, &model);
    // An entry takes four words of 252, and 17 are kept free.
    let (nodes, full) = (index.numbers.lock().next, 100_000 / 58);
    assert!(nodes < full * 6 / 5, "{nodes} nodes for what fills {full}");
}

#[test]
fn agrees_with_btree_maps_under_threads() {
    const THREADS: u64 = 4;
    const STEPS: u32 = if cfg!(miri) { 60 } else { 8_000 };
    const SETTLED: u32 = if cfg!(miri) { 40 } else { 500 };
    const SCANS: u32 = if cfg!(miri) { 3 } else { 60 };
    let index = OrderedIndex::new();
    let settled: Vec<Vec<u8>> =
        (0..SETTLED).map(|i| format!("settled {i:05}").into_bytes()).collect();
    for (key, slot) in settled.iter().zip(0..) {
        index.insert(key, Slot(slot));
    }
    let models: Vec<Model> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let index = &index;
                scope.spawn(move || {
                    let mut random = Random::new(thread);
                    let mut model = Model::new();
                    for step in 0..STEPS {
                        // Each thread has its own keys, between those of the others.
                        let mut key = key(&mut random, 600);
                        key.push(thread as u8);
                        if random.chance(2) || step < STEPS / 8 {
                            index.insert(&key, Slot(step));
                            model.insert(key, step);
                        } else {
                            index.remove(&key);
                            model.remove(&key);
                        }
                    }
                    model
                })
            })
            .collect();
        for turn in 0..SCANS {
            let range =
                (Bound::Included(b"settled".as_slice()), Bound::Excluded(b"settlee".as_slice()));
            let met = collect(&index, range.0, range.1, turn % 2 == 1, usize::MAX >> 1);
            let keys = met.iter().map(|(key, _)| key).filter(|key| key.len() == 13);
            let expected: Vec<_> = if turn % 2 == 1 {
                settled.iter().rev().collect()
            } else {
                settled.iter().collect()
            };
            assert_eq!(keys.collect::<Vec<_>>(), expected);
        }
        workers.into_iter().map(|worker| worker.join().expect("no worker fails")).collect()
    });
    let mut model: Model = models.into_iter().flatten().collect();
    model.extend(settled.into_iter().zip(0..));
    check_whole(&index, &model);
}

/// Keys so much alike that separators are long too. They come and go in another order each time.
#[test]
fn long_keys_that_went_leave_their_places_to_others() {
    let (index, mut random) = (OrderedIndex::new(), Random::new(3));
    let key = |number: u64| format!("{}{number:08}", "k".repeat(150)).into_bytes();
    let count = if cfg!(miri) { 40 } else { 3000 };
    let mut reserved = Vec::new();
    for _ in 0..6 {
        for change in ["come", "go"] {
            let mut numbers: Vec<u64> = (0..count).collect();
            for end in (1..numbers.len()).rev() {
                numbers.swap(end, random.below(end as u64 + 1) as usize);
            }
            for number in numbers {
                match change {
                    "come" => index.insert(&key(number), Slot(number as u32)),
                    _ => index.remove(&key(number)),
                }
            }
        }
        let (all, free) = index.long_key_bytes();
        // Where a segment ends, a key begins the next one.
        assert!(all - free < 8 * 20 * 8, "{free} of {all} bytes are free");
        reserved.push(all);
    }
    assert!(reserved[5] <= reserved[1] * 11 / 10, "{reserved:?}");
}

/// Runs of keys that grow in turns, each by one of a few fingers or by none, as others come and go.
fn runs(seed: u64, steps: u32) {
    let mut random = Random::new(seed);
    let (index, other) = (OrderedIndex::new(), OrderedIndex::new());
    let (mut model, mut other_model) = (Model::new(), Model::new());
    let mut fingers: [Option<Finger>; 2] = [None, None];
    let mut ends = [0u64; 7];
    let (mut near, mut run) = (0, 0);
    for step in 0..steps {
        if random.below(6) == 0 {
            run = random.below(7) as usize;
        }
        ends[run] += 1 + random.below(2);
        let long = if run == 3 { vec![b'x'; 125] } else { Vec::new() };
        let key =
            [&(run as u64).to_be_bytes()[..], &long[..], &ends[run].to_be_bytes()[..]].concat();
        // A finger that points into another index is of no use there.
        let (index, model) = match random.below(20) {
            0 => (&other, &mut other_model),
            _ => (&index, &mut model),
        };
        match random.below(8) {
            0 => index.insert(&key, Slot(step)),
            n => {
                let finger = &mut fingers[usize::from(n == 1)];
                let before = finger.as_ref().map(|finger| format!("{finger:?}"));
                index.insert_near(finger, &key, Slot(step));
                near += u32::from(before != finger.as_ref().map(|finger| format!("{finger:?}")));
            }
        }
        model.insert(key, step);
        while random.below(4) == 0 && !model.is_empty() {
            let place = random.below(model.len() as u64) as usize;
            let key = model.keys().nth(place).expect("it is there").clone();
            index.remove(&key);
            model.remove(&key);
        }
        if step % 256 == 0 {
            check_whole(index, model);
        }
    }
    assert!(near > steps / 20, "{near} of {steps} by a finger");
    for (index, model) in [(&index, &model), (&other, &other_model)] {
        check_whole(index, model);
        // What lies in another leaf than a descent leads to is not found again.
        model.keys().for_each(|key| index.remove(key));
        check_whole(index, &Model::new());
    }
}

#[test]
#[cfg_attr(miri, ignore = "many keys, by one thread")]
fn fingers_lead_where_descents_lead() {
    (0..12).for_each(|seed| runs(seed, 4000));
}

#[test]
fn writers_with_fingers_share_leaves() {
    const RUNS: u64 = 4;
    let lines: u64 = if cfg!(miri) { 40 } else { 20_000 };
    let index = OrderedIndex::new();
    let key = |run: u64, line: u64| [run.to_be_bytes(), line.to_be_bytes()].concat();
    std::thread::scope(|scope| {
        for run in 0..RUNS {
            let index = &index;
            scope.spawn(move || {
                let mut finger = None;
                for line in 0..lines {
                    index.insert_near(
                        &mut finger,
                        &key(run, line),
                        Slot((line * RUNS + run) as u32),
                    );
                    // Most of a run goes again, so that its leaves are unlinked under it.
                    if line >= 8 && line % 64 != 0 {
                        index.remove(&key(run, line - 8));
                    }
                }
            });
        }
    });
    let mut model = Model::new();
    for run in 0..RUNS {
        for line in 0..lines {
            let went = (8..lines).contains(&(line + 8)) && !(line + 8).is_multiple_of(64);
            if !went {
                model.insert(key(run, line), (line * RUNS + run) as u32);
            }
        }
    }
    check_whole(&index, &model);
    model.keys().for_each(|key| index.remove(key));
    check_whole(&index, &Model::new());
}
