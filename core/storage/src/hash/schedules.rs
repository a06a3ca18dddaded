//! The hash index under every schedule that shuttle tries: a look-up meets tables that change.

use kit::sync::{Arc, thread};

use super::*;

const SCHEDULES: usize = 300;
const SETTLED: u32 = 2;
/// Together with those that are settled, enough for the shards of tables that grow and shrink.
const KEYS: u32 = 120;

fn history() {
    let index = Arc::new(HashIndex { seed: 7, ..HashIndex::new() });
    // Without top bits, so that all keys share a shard.
    let hash = |index: &HashIndex, n: u32| KeyHash(index.hash(&n.to_be_bytes()).0 >> SHARD_BITS);
    (0..SETTLED).for_each(|n| index.insert(hash(&index, n), Slot(n)));
    let writer = {
        let index = index.clone();
        thread::spawn(move || {
            for _ in 0..2 {
                (SETTLED..KEYS).for_each(|n| index.insert(hash(&index, n), Slot(n)));
                (SETTLED..KEYS).for_each(|n| index.remove(hash(&index, n), Slot(n)));
            }
        })
    };
    for n in (0..SETTLED).cycle().take(6) {
        assert_eq!(index.find(hash(&index, n), |slot| slot.0 == n), Some(Slot(n)));
        assert_eq!(index.find(hash(&index, KEYS + n), |slot| slot.0 == KEYS + n), None);
    }
    writer.join().expect("the writer ends");
    for n in 0..KEYS {
        let expected = (n < SETTLED).then_some(Slot(n));
        assert_eq!(index.find(hash(&index, n), |slot| slot.0 == n), expected);
    }
}

#[test]
fn settled_keys_are_found_at_random() {
    shuttle::check_random(history, SCHEDULES);
}

#[test]
fn settled_keys_are_found_after_long_waits() {
    shuttle::check_pct(history, SCHEDULES, 4);
}
