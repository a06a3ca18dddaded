//! The protocol of records, undo versions and pins under every schedule that shuttle tries:
//! `RUSTFLAGS="--cfg shuttle" cargo test -p storage --lib schedules`. Shuttle's memory is
//! sequentially consistent; Miri's is not, where a load may give any value that the orderings
//! allow. It runs the same histories, fewer of them: `scripts/weak-memory`.
//!
//! A writer changes both columns of a row to `(height, -height)` block after block, publishes, and
//! collects at once, so that undo chunks are reused while readers come and go. A reader must see
//! the row of its own height: whole, and the same twice.

use std::sync::Arc;

use kit::sync::thread;
use types::{ColumnSchema, DataType, Value};

use super::*;
use crate::pins::Pins;

const SCHEDULES: usize = if cfg!(miri) { 2 } else { 4_000 };
const BLOCKS: Height = 3;

/// Under many schedules, of which some change between threads at a few chosen points.
fn check_random(history: fn(), schedules: usize) {
    #[cfg(shuttle)]
    shuttle::check_random(history, schedules);
    #[cfg(miri)]
    (0..schedules).for_each(|_| history());
}

fn check_pct(history: fn(), schedules: usize) {
    #[cfg(shuttle)]
    shuttle::check_pct(history, schedules, 5);
    // Miri changes between threads as its seed says, and knows no such points.
    #[cfg(miri)]
    let _ = (history, schedules);
}

struct Shared {
    records: Arc<Records>,
    undo: Arc<UndoSpace>,
    pins: Pins,
}

fn schema() -> TableSchema {
    let column = |name: &str| ColumnSchema::new(name, DataType::Int8);
    TableSchema {
        id: TableId(0),
        name: "pair".to_owned(),
        columns: vec![column("id"), column("a"), column("b")],
        primary_key: vec![0],
        indexes: vec![],
        hidden_row_id: false,
    }
}

const ID: i64 = 7;

fn payload(records: &Records, height: Height) -> Vec<u64> {
    payload_of(records, ID, height)
}

fn payload_of(records: &Records, id: i64, height: Height) -> Vec<u64> {
    let height = height as i64;
    let mut payload = vec![0; records.layout.payload_words];
    let row = [Value::Int(id), Value::Int(height), Value::Int(-height)];
    records.layout.encode_row(&row, &records.heap, &mut payload);
    payload
}

fn read(shared: &Shared, slot: Slot, at: Height) -> Option<(Stamp, i64, i64)> {
    let mut words = [0i64; 2];
    let stamp = shared.records.read(slot, at, |payload| {
        let [a, b] = &payload[payload.len() - 2..] else {
            return;
        };
        words = [a, b].map(|word| word.load(Ordering::Relaxed) as i64);
    })?;
    Some((stamp, words[0], words[1]))
}

fn check(shared: &Shared, slot: Slot) {
    let pin = shared.pins.pin_newest();
    let at = pin.height();
    for _ in 0..2 {
        let seen = read(shared, slot, at);
        let value = at as i64;
        let expected = match at {
            0 => None,
            // Deleted by the last block.
            _ if at == BLOCKS + 1 => None,
            _ => Some((Stamp::new(at, 0), value, -value)),
        };
        assert_eq!(seen, expected, "at {at}");
    }
}

fn write(shared: &Shared, slot: Slot) {
    for height in 2..=BLOCKS + 1 {
        let mut arena = UndoArena::new(shared.undo.clone(), Stamp::new(height, 0), height);
        let state = if height <= BLOCKS { State::Live } else { State::Tombstone };
        let new = payload(&shared.records, height);
        shared.records.write(slot, Stamp::new(height, 0), state, &mut arena, |words, _| {
            if state == State::Live {
                store_words(words, &new);
            }
        });
        arena.close();
        shared.pins.publish(height);
        shared.undo.collect(&shared.pins.readable([]), Height::MAX);
    }
    // The deleted record's slot serves another key once no reader is below the delete.
    if shared.pins.readable([]).horizon() == BLOCKS + 1 {
        shared.records.free(slot);
        let mut arena = UndoArena::new(shared.undo.clone(), Stamp::new(BLOCKS + 2, 0), BLOCKS + 2);
        let reused = shared.records.create(
            Key::from_int(ID + 1).as_bytes(),
            Stamp::new(BLOCKS + 2, 0),
            &payload_of(&shared.records, ID + 1, 99),
            &mut arena,
        );
        assert_eq!(reused, slot);
    }
}

fn history() {
    let undo = Arc::new(UndoSpace::new());
    let records = Records::register(&schema(), 1, undo.clone(), 0);
    let mut arena = UndoArena::new(undo.clone(), Stamp::new(1, 0), 1);
    let row = payload(&records, 1);
    let slot = records.create(Key::from_int(ID).as_bytes(), Stamp::new(1, 0), &row, &mut arena);
    let shared = kit::sync::Arc::new(Shared { records, undo, pins: Pins::new() });
    shared.pins.publish(1);
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let shared = shared.clone();
            thread::spawn(move || (0..2).for_each(|_| check(&shared, slot)))
        })
        .collect();
    write(&shared, slot);
    for reader in readers {
        reader.join().expect("a reader's checks hold");
    }
}

#[test]
fn readers_see_whole_rows_of_their_height() {
    check_random(history, SCHEDULES);
}

/// Few switches at chosen points: a reader that sleeps through whole blocks.
#[test]
fn readers_see_whole_rows_after_long_waits() {
    check_pct(history, 5 * SCHEDULES);
}

/// Readers and a writer who do nothing else, so that most reads are beside a write.
fn crowded_history() {
    const LAST: Height = 6;
    let undo = Arc::new(UndoSpace::new());
    let records = Records::register(&schema(), 1, undo.clone(), 0);
    let rows: Vec<_> = (0..=LAST).map(|height| payload(&records, height)).collect();
    let mut arena = UndoArena::new(undo.clone(), Stamp::new(1, 0), 1);
    let key = Key::from_int(ID);
    let slot = records.create(key.as_bytes(), Stamp::new(1, 0), &rows[1], &mut arena);
    arena.close();
    let shared = kit::sync::Arc::new(Shared { records, undo, pins: Pins::new() });
    shared.pins.publish(1);
    let readers = [0, 1].map(|_| {
        let shared = shared.clone();
        thread::spawn(move || {
            for _ in 0..4 {
                let pin = shared.pins.pin_newest();
                for _ in 0..4 {
                    let (at, value) = (pin.height(), pin.height() as i64);
                    let seen = read(&shared, slot, at);
                    assert_eq!(seen, Some((Stamp::new(at, 0), value, -value)), "at {at}");
                }
            }
        })
    });
    for height in 2..=LAST {
        let mut arena = UndoArena::new(shared.undo.clone(), Stamp::new(height, 0), height);
        let (stamp, row) = (Stamp::new(height, 0), &rows[height as usize]);
        let fill = |words: &[AtomicU64], _: &mut UndoArena| store_words(words, row);
        shared.records.write(slot, stamp, State::Live, &mut arena, fill);
        arena.close();
        shared.pins.publish(height);
    }
    for reader in readers {
        reader.join().expect("a reader's checks hold");
    }
}

#[test]
fn readers_see_whole_rows_beside_a_writer_who_does_nothing_else() {
    check_random(crowded_history, 4 * SCHEDULES);
    check_pct(crowded_history, SCHEDULES);
}

/// Blocks of the sweep's history: enough that chunks fill, are emptied and are used again.
const SWEPT_BLOCKS: Height = 10;

/// A reader who stays at the first block, and those who come and go, while the versions between
/// are unlinked and moved and their chunks written anew; some blocks take their write back.
fn swept_history() {
    let undo = Arc::new(UndoSpace::new());
    let records = Records::register(&schema(), 1, undo.clone(), 0);
    let mut arena = UndoArena::new(undo.clone(), Stamp::new(1, 0), 1);
    let row = payload(&records, 1);
    let slot = records.create(Key::from_int(ID).as_bytes(), Stamp::new(1, 0), &row, &mut arena);
    arena.close();
    let shared = kit::sync::Arc::new(Shared { records, undo, pins: Pins::new() });
    shared.pins.publish(1);
    let first = shared.pins.pin_newest();
    let readers = [Some(first), None].map(|stays| {
        let shared = shared.clone();
        thread::spawn(move || {
            for _ in 0..3 {
                let come = stays.is_none().then(|| shared.pins.pin_newest());
                let at = come.as_ref().or(stays.as_ref()).map_or(0, |pin| pin.height());
                let (stamp, a, b) = read(&shared, slot, at).expect("it is never deleted");
                assert!(stamp.height() == at - u64::from(at % 4 == 0), "{stamp:?} at {at}");
                assert_eq!((a, b), (stamp.height() as i64, -(stamp.height() as i64)));
            }
        })
    });
    for height in 2..=SWEPT_BLOCKS {
        let mut arena = UndoArena::new(shared.undo.clone(), Stamp::new(height, 0), height);
        let record = shared.records.record(slot).expect("it was made");
        let before = shared.records.stamp_word(slot);
        let mut image = Vec::new();
        load_words(&record[shared.records.layout.payload..], &mut image);
        let new = payload(&shared.records, height);
        let stamp = Stamp::new(height, 0);
        shared
            .records
            .write(slot, stamp, State::Live, &mut arena, |words, _| store_words(words, &new));
        if height % 4 == 0 {
            shared.records.revert(slot, before, &image, &arena);
        }
        arena.close();
        shared.pins.publish(height);
        shared.undo.collect(&shared.pins.readable([]), Height::MAX);
    }
    for reader in readers {
        reader.join().expect("a reader's checks hold");
    }
    shared.undo.collect(&shared.pins.readable([]), Height::MAX);
    assert_eq!(shared.undo.chunks_in_use(), 0);
}

#[test]
fn readers_find_their_version_while_chains_are_swept() {
    check_random(swept_history, SCHEDULES);
}

#[test]
fn readers_find_their_version_after_long_waits_beside_a_sweep() {
    check_pct(swept_history, 2 * SCHEDULES);
}

fn leased_history() {
    let undo = Arc::new(UndoSpace::new());
    let records = Records::register(&schema(), 1, undo.clone(), 0);
    let mut arena = UndoArena::new(undo.clone(), Stamp::new(1, 0), 1);
    let row = payload(&records, 1);
    let slot = records.create(Key::from_int(ID).as_bytes(), Stamp::new(1, 0), &row, &mut arena);
    arena.close();
    let shared = kit::sync::Arc::new(Shared { records, undo, pins: Pins::new() });
    shared.pins.publish(1);
    let lease = shared.pins.lease_newest();
    let reader = {
        let shared = shared.clone();
        thread::spawn(move || {
            for _ in 0..3 {
                let seen = read(&shared, slot, 1);
                if !lease.is_ended() {
                    assert_eq!(seen, Some((Stamp::new(1, 0), 1, -1)));
                }
            }
        })
    };
    for height in 2..=SWEPT_BLOCKS {
        let mut arena = UndoArena::new(shared.undo.clone(), Stamp::new(height, 0), height);
        let new = payload(&shared.records, height);
        let stamp = Stamp::new(height, 0);
        let fill = |words: &[AtomicU64], _: &mut UndoArena| store_words(words, &new);
        shared.records.write(slot, stamp, State::Live, &mut arena, fill);
        arena.close();
        shared.pins.publish(height);
        if height == 5 {
            shared.pins.end_oldest_leases(height);
        }
        shared.undo.collect(&shared.pins.readable([]), Height::MAX);
    }
    reader.join().expect("a reader's checks hold");
}

/// A reader that goes on after its lease was ended may read anything, but it finds out.
#[test]
fn whoever_is_not_told_of_an_ended_lease_has_read_what_was_there() {
    check_random(leased_history, SCHEDULES);
    check_pct(leased_history, 2 * SCHEDULES);
}
