//! Model checking of what the online protocols share without locks (latches, gaps, commit sequence
//! numbers): each test runs under thousands of thread schedules that shuttle chooses.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p protocols --lib schedules
//! ```

use kit::sync::atomic::{AtomicU64, Ordering};
use kit::sync::{Arc, thread};
use types::TableId;

use super::gaps::Gaps;
use super::latch::{Held, Latch};
use super::order::{CommitSequenceNumber, Draws};

const HEIGHT: u64 = 7;
const SCHEDULES: usize = 10_000;

#[derive(Default)]
struct Row {
    word: AtomicU64,
    value: AtomicU64,
}

impl Row {
    fn latch(&self) -> Latch<'_> {
        Latch::new(&self.word, HEIGHT)
    }
}

/// Two transactions, each copying the other's row plus one: by silo's steps, what commits is equal
/// to the order of the draws.
#[test]
fn draws_are_a_serial_order_of_what_was_read_and_overwritten() {
    shuttle::check_random(
        || {
            let rows = Arc::new([Row::default(), Row::default()]);
            let draws = Arc::new(Draws::default());
            let copy = |from: usize| {
                let (rows, draws) = (Arc::clone(&rows), Arc::clone(&draws));
                thread::spawn(move || {
                    let (from, to) = (&rows[from], &rows[1 - from]);
                    let seen = from.value.load(Ordering::Acquire);
                    if !to.latch().try_exclusive(false) {
                        return None;
                    }
                    let csn = CommitSequenceNumber::of_writer(draws.draw());
                    let holds = from.latch().held() == Held::Free
                        && from.value.load(Ordering::Acquire) == seen;
                    if holds {
                        to.value.store(seen + 1, Ordering::Release);
                    }
                    to.latch().release_exclusive();
                    holds.then_some(csn)
                })
            };
            let ends = [copy(0), copy(1)].map(|t| t.join().expect("no check fails"));
            let mut expected = [0, 0];
            let mut order: Vec<_> = (0..2).filter_map(|t| Some((ends[t]?, t))).collect();
            order.sort();
            for (_, from) in order {
                expected[1 - from] = expected[from] + 1;
            }
            let found = [0, 1].map(|row: usize| rows[row].value.load(Ordering::Acquire));
            assert_eq!(found, expected);
        },
        SCHEDULES,
    );
}

/// Two transactions fill a gap that both found empty: one at most commits. With a third that only
/// looks, and stands where it looked.
#[test]
fn of_two_who_found_a_gap_empty_one_fills_it() {
    shuttle::check_random(
        || {
            let gaps = Arc::new(Gaps::default());
            let draws = Arc::new(Draws::default());
            let filled = Arc::new(AtomicU64::new(0));
            let gap = Gaps::of_key(TableId(1), b"k");
            let fill = || {
                let (gaps, draws) = (Arc::clone(&gaps), Arc::clone(&draws));
                let filled = Arc::clone(&filled);
                thread::spawn(move || {
                    let seen = gaps.look(gap);
                    let is_empty = filled.load(Ordering::Acquire) == 0;
                    if !is_empty || !gaps.enter(gap, true, false) {
                        return None;
                    }
                    let csn = CommitSequenceNumber::of_writer(draws.draw());
                    let holds = gaps.holds(gap, seen, true);
                    if holds {
                        filled.fetch_add(1, Ordering::AcqRel);
                    }
                    gaps.leave(gap, holds);
                    holds.then_some(csn)
                })
            };
            let fillers = [fill(), fill()];
            let looker = {
                let (gaps, draws) = (Arc::clone(&gaps), Arc::clone(&draws));
                let filled = Arc::clone(&filled);
                thread::spawn(move || {
                    let seen = gaps.look(gap);
                    let count = filled.load(Ordering::Acquire);
                    let csn = draws.look();
                    gaps.holds(gap, seen, false).then_some((csn, count))
                })
            };
            let csns = fillers.map(|t| t.join().expect("no check fails"));
            assert!(csns.iter().flatten().count() <= 1);
            assert_eq!(filled.load(Ordering::Acquire), csns.iter().flatten().count() as u64);
            if let Some((csn, count)) = looker.join().expect("no check fails") {
                let before = csns.iter().flatten().filter(|filler| **filler < csn).count();
                assert_eq!(count, before as u64, "whoever looked stands where he looked");
            }
        },
        SCHEDULES,
    );
}

/// Readers share, a writer is alone, and the last of the readers may become the writer.
#[test]
fn a_latch_has_one_writer_or_some_readers() {
    shuttle::check_random(
        || {
            let row = Arc::new(Row::default());
            let writers: Vec<_> = (0..3u32)
                .map(|age| {
                    let row = Arc::clone(&row);
                    thread::spawn(move || {
                        let latch = row.latch();
                        if !latch.try_shared(age) {
                            return 0;
                        }
                        let seen = row.value.load(Ordering::Acquire);
                        if !latch.try_exclusive_as(age, true) {
                            assert_eq!(row.value.load(Ordering::Acquire), seen);
                            latch.release_shared();
                            return 0;
                        }
                        row.value.store(seen + 1, Ordering::Release);
                        latch.release_exclusive();
                        1
                    })
                })
                .collect();
            let written: u64 = writers.into_iter().map(|t| t.join().expect("no check fails")).sum();
            assert_eq!(row.value.load(Ordering::Acquire), written);
            assert!(row.latch().try_exclusive(false), "nobody holds it any more");
        },
        SCHEDULES,
    );
}

/// TicToc: a version that was extended to a time is not replaced before it.
#[test]
fn what_is_extended_to_a_time_is_not_replaced_before() {
    shuttle::check_random(
        || {
            let row = Arc::new(Row::default());
            let reader = {
                let row = Arc::clone(&row);
                thread::spawn(move || {
                    let seen = row.value.load(Ordering::Acquire);
                    let same = || row.value.load(Ordering::Acquire) == seen;
                    (row.latch().extend(5, same)).then_some(seen)
                })
            };
            let writer = {
                let row = Arc::clone(&row);
                thread::spawn(move || {
                    if !row.latch().try_exclusive_timed(false) {
                        return None;
                    }
                    let time = row.latch().last_read() + 1;
                    row.value.store(1, Ordering::Release);
                    row.latch().release_timed(Some(time));
                    Some(time)
                })
            };
            let (read, written) = (reader.join().unwrap(), writer.join().unwrap());
            if let (Some(0), Some(time)) = (read, written) {
                assert!(time > 5, "replaced at {time}");
            }
        },
        SCHEDULES,
    );
}
