//! What every technique promises, and what each costs beyond it.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use kit::random::Random;

use super::on_every_area;
use crate::area::{Area, Frozen, ZONE_ROWS, zone_rows, zones};
use crate::areas::fork::{self, Inherited};
use crate::areas::{Physical, Rewired, SLAB_ROWS, Slabs};

const ROWS: usize = 5 * ZONE_ROWS + 100;

fn contents(frozen: &impl Frozen, rows: usize) -> Vec<i64> {
    (0..zones(rows)).flat_map(|zone| frozen.zone(zone).into_owned()).collect()
}

fn current<A: Area>(area: &A) -> Vec<i64> {
    let zone = |zone| area.with_zone(zone, |words| words.iter().map(read).collect::<Vec<_>>());
    (0..zones(area.rows())).flat_map(zone).collect()
}

fn read(word: &std::sync::atomic::AtomicI64) -> i64 {
    word.load(Ordering::Relaxed)
}

/// More freezes than any technique can have views at once; up to five views alive.
fn frozen_states_stay<A: Area>() {
    let mut random = Random::new(7);
    let area = A::new(ROWS).expect("an area");
    let mut model = vec![0i64; ROWS];
    let mut views: Vec<(A::Frozen, Vec<i64>)> = Vec::new();
    for round in 0..60 {
        for _ in 0..random.below(300) {
            let (row, value) = (random.below(ROWS as u64) as usize, random.next_u64() as i64);
            area.store(row, value);
            model[row] = value;
            assert_eq!(area.load(row), value);
        }
        views.push((area.freeze().expect("a frozen view"), model.clone()));
        if views.len() > 5 {
            views.remove(random.below(5) as usize);
        }
        for (view, expected) in &views {
            assert!(contents(view, ROWS) == *expected, "round {round}");
        }
        assert!(current(&area) == model, "round {round}");
    }
    drop(area);
    for (view, expected) in &views {
        assert!(contents(view, ROWS) == *expected, "after the area is gone");
    }
}

on_every_area!(nothing_that_is_stored_reaches_a_frozen_state, frozen_states_stay);

/// Values only grow, so a reader that sees one shrink has seen a word that was lost.
fn readers_are_undisturbed<A: Area>() {
    let area = A::new(ROWS).expect("an area");
    let (done, ready) = (AtomicBool::new(false), Barrier::new(3));
    thread::scope(|scope| {
        for offset in [3, 700] {
            let (area, done, ready) = (&area, &done, &ready);
            scope.spawn(move || {
                let mut newest = vec![0; ROWS];
                ready.wait();
                while !done.load(Ordering::Relaxed) {
                    for row in (offset..ROWS).step_by(97) {
                        let value = area.load(row);
                        assert!(value >= newest[row], "row {row}");
                        newest[row] = value;
                    }
                }
            });
        }
        ready.wait();
        let mut views = Vec::new();
        for round in 1..=40 {
            for row in (0..ROWS).step_by(3) {
                area.store(row, round);
            }
            views.push(area.freeze().expect("a frozen view"));
            if views.len() > 3 {
                views.remove(0);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

on_every_area!(readers_run_beside_stores_and_freezes, readers_are_undisturbed);

/// All threads meet at each page's first store after a freeze.
fn no_store_is_lost<A: Area>() {
    const THREADS: usize = 3;
    let area = A::new(ROWS).expect("an area");
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (area, barrier) = (&area, &barrier);
            scope.spawn(move || {
                for round in 1..=20 {
                    let mut view = None;
                    if barrier.wait().is_leader() {
                        view = Some(area.freeze().expect("a frozen view"));
                    }
                    barrier.wait();
                    for row in (thread..ROWS).step_by(THREADS) {
                        area.store(row, round);
                    }
                    barrier.wait();
                    assert!(current(area).iter().all(|value| *value == round));
                    if let Some(view) = view {
                        assert!(contents(&view, ROWS).iter().all(|value| *value == round - 1));
                    }
                }
            });
        }
    });
}

on_every_area!(no_store_is_lost_when_several_are_first, no_store_is_lost);

#[test]
fn a_slab_that_nobody_wrote_is_shared_by_snapshots() {
    let area = Slabs::new(3 * SLAB_ROWS).expect("an area");
    let first = area.freeze().expect("frozen");
    area.store(SLAB_ROWS + 1, 1);
    let second = area.freeze().expect("frozen");
    let address = |view: &<Slabs as Area>::Frozen, slab: usize| {
        view.zone(slab * SLAB_ROWS / ZONE_ROWS).as_ptr()
    };
    assert_eq!(address(&first, 0), address(&second, 0));
    assert_ne!(address(&first, 1), address(&second, 1));
    assert_eq!(address(&first, 2), address(&second, 2));
}

#[test]
fn rewired_pages_split_mappings_and_one_protection_joins_them() {
    const PAGE_ROWS: usize = 512;
    let area = Rewired::new(100 * PAGE_ROWS).expect("an area");
    assert_eq!(area.mappings(), 1);
    let view = area.freeze().expect("frozen");
    for page in (0..100).step_by(10) {
        area.store(page * PAGE_ROWS, 1);
        area.store(page * PAGE_ROWS + 1, 1);
    }
    assert_eq!(area.mappings(), 1 + 2 * 10, "two for each page, whatever is stored to it");
    drop(view);
    let _view = area.freeze().expect("frozen");
    // Page 0 has no neighbour before it.
    assert_eq!(area.mappings(), 20, "runs of neighbours in the file");
}

#[test]
fn too_many_living_views_are_a_clear_error() {
    let area = Rewired::new(ROWS).expect("an area");
    let mut views = Vec::new();
    let error = loop {
        (0..ROWS).for_each(|row| area.store(row, 1));
        match area.freeze() {
            Ok(view) => views.push(view),
            Err(error) => break error,
        }
        assert!(views.len() < 20);
    };
    assert_eq!(error.code().as_str(), "54000");
    views.clear();
    assert!(area.freeze().is_ok(), "their pages are free again");
}

#[test]
fn a_child_sees_the_moment_of_the_fork() {
    let area = Physical::new(ROWS).expect("an area");
    (0..ROWS).for_each(|row| area.store(row, row as i64));
    let fold = |columns: &[&[i64]], answer: &mut [i64]| {
        answer[0] = columns[0].iter().sum();
        answer[1] = columns[0].len() as i64;
    };
    let mut answer = vec![0; 2];
    let columns = [Inherited(area.inherited().expect("one piece"))];
    let child = fork::start(&columns, &mut [&[]], &mut answer, &fold).expect("a child");
    (0..ROWS).for_each(|row| area.store(row, -1));
    let rows = ROWS as i64;
    assert_eq!(child.answer(), Ok(vec![rows * (rows - 1) / 2, rows]));
}

#[test]
fn a_child_that_dies_is_a_clear_error() {
    let area = Physical::new(1).expect("an area");
    let columns = [Inherited(area.inherited().expect("one piece"))];
    // Ends the child the way a crash would.
    let fold = |_: &[&[i64]], _: &mut [i64]| std::process::abort();
    let child = fork::start(&columns, &mut [&[]], &mut [0], &fold).expect("a child");
    let error = child.answer().expect_err("no answer");
    assert_eq!(error.code().as_str(), "XX000");
    assert!(error.fields().hint.is_some());
    // Unwinds the way a panic would, without a message that takes a lock.
    let fold = |_: &[&[i64]], _: &mut [i64]| std::panic::resume_unwind(Box::new(()));
    let child = fork::start(&columns, &mut [&[]], &mut [0], &fold).expect("a child");
    assert!(child.answer().is_err(), "the child does not go on as a second parent");
}

#[test]
fn the_last_zone_is_short() {
    assert_eq!(zone_rows(5, ROWS).len(), 100);
    let area = Slabs::new(ROWS).expect("an area");
    assert_eq!(area.freeze().expect("frozen").zone(5).len(), 100);
}
