//! The tree under every schedule that shuttle tries: a split, an unlinking and scans meet.

use kit::sync::{Arc, thread};

use super::*;

const SCHEDULES: usize = 300;
/// Even numbers from 0 on. The first leaf is left with 117 entries, one below a full one, and the
/// second with the others.
const KEYS: u32 = 120;
const SETTLED: u32 = 117;

fn key(number: u32) -> [u8; 8] {
    u64::from(number).to_be_bytes()
}

fn scan(index: &OrderedIndex, reverse: bool) -> Vec<u32> {
    let mut out = Vec::new();
    index.collect(Bound::Unbounded, Bound::Unbounded, reverse, 1000, &mut out);
    let mut slots: Vec<u32> = out.into_iter().map(|(_, slot)| slot.0).collect();
    if reverse {
        slots.reverse();
    }
    slots
}

fn is_settled(slot: &u32) -> bool {
    slot.is_multiple_of(2) && *slot < 2 * SETTLED
}

fn history() {
    let index = Arc::new(OrderedIndex::new());
    for number in (0..2 * KEYS).step_by(2) {
        index.insert(&key(number), Slot(number));
    }
    let settled: Vec<u32> = scan(&index, false).into_iter().filter(is_settled).collect();
    let work: [fn(&OrderedIndex); 2] = [
        |index| {
            index.insert(&key(7), Slot(7));
            index.insert(&key(9), Slot(9));
        },
        |index| {
            (SETTLED..KEYS).for_each(|number| index.remove(&key(2 * number)));
            index.insert(&key(2 * KEYS + 1), Slot(2 * KEYS + 1));
        },
    ];
    let writers = work.map(|work| {
        let index = index.clone();
        thread::spawn(move || work(&index))
    });
    for reverse in [false, true] {
        let met: Vec<u32> = scan(&index, reverse);
        assert!(met.is_sorted_by(|a, b| a < b), "{met:?}");
        assert_eq!(met.into_iter().filter(is_settled).collect::<Vec<_>>(), settled);
    }
    for writer in writers {
        writer.join().expect("a writer ends");
    }
    let mut expected = settled;
    expected.extend([7, 9, 2 * KEYS + 1]);
    expected.sort_unstable();
    assert_eq!(scan(&index, false), expected);
    assert_eq!(scan(&index, true), expected);
}

/// Two that add by fingers, one of them to a leaf that splits, and a scan.
fn fingers() {
    let index = Arc::new(OrderedIndex::new());
    let settled: Vec<u32> = (0..SETTLED).map(|number| 16 * number).collect();
    settled.iter().for_each(|number| index.insert(&key(*number), Slot(*number)));
    let added = |run: u32| (1..5).map(move |line| 16 * run + line);
    let writers = [5, SETTLED - 1].map(|run| {
        let index = index.clone();
        thread::spawn(move || {
            let mut finger = None;
            for number in added(run) {
                index.insert_near(&mut finger, &key(number), Slot(number));
            }
        })
    });
    let met: Vec<u32> = scan(&index, false);
    assert!(met.is_sorted_by(|a, b| a < b), "{met:?}");
    assert_eq!(met.into_iter().filter(|slot| slot % 16 == 0).collect::<Vec<_>>(), settled);
    for writer in writers {
        writer.join().expect("a writer ends");
    }
    let mut expected: Vec<u32> =
        settled.into_iter().chain(added(5)).chain(added(SETTLED - 1)).collect();
    expected.sort_unstable();
    assert_eq!(scan(&index, false), expected);
    expected.iter().for_each(|number| index.remove(&key(*number)));
    assert_eq!(scan(&index, true), Vec::<u32>::new(), "each was where a descent leads");
}

#[test]
fn fingers_at_random() {
    shuttle::check_random(fingers, SCHEDULES);
}

#[test]
fn fingers_after_long_waits() {
    shuttle::check_pct(fingers, SCHEDULES, 4);
}

#[test]
fn scans_meet_settled_keys_at_random() {
    shuttle::check_random(history, SCHEDULES);
}

#[test]
fn scans_meet_settled_keys_after_long_waits() {
    shuttle::check_pct(history, SCHEDULES, 4);
}
