//! Every small world, under every protocol.

use std::time::Instant;

use concurrency::WorkerPool;
use kit::parallel;
use oracle::small::{BATCH, CORE, FULL, Initial, SmallWorld, SmallWorlds, check};
use oracle::subjects::{Subject, defaults, variants};

/// Worlds at a stride (1: all), with a stride that shares no factor with the number of programs,
/// so that all combinations are met.
fn sweep(subject: &Subject, worlds: &SmallWorlds, stride: usize, offset: usize) -> usize {
    assert!(stride == 1 || !worlds.count().is_multiple_of(stride), "{stride} leaves out some");
    let pool = WorkerPool::new(1);
    let mut count = 0;
    let mut batch: Vec<SmallWorld> = Vec::with_capacity(BATCH);
    let mut flush = |batch: &mut Vec<SmallWorld>| {
        count += batch.len();
        if let Err(failure) = check(&subject.protocol, &pool, batch) {
            panic!("{}: {failure}", subject.name);
        }
        batch.clear();
    };
    for number in (offset..worlds.count()).step_by(stride) {
        batch.extend(worlds.world(number));
        if batch.len() == BATCH {
            flush(&mut batch);
        }
    }
    if !batch.is_empty() {
        flush(&mut batch);
    }
    count
}

/// `TALLY_ORACLE_SMALL=all`: both alphabets without gaps.
fn all_of_them() -> bool {
    std::env::var("TALLY_ORACLE_SMALL").is_ok_and(|value| value == "all")
}

/// From a state in which one record is there and one is not; from the others by the sample below.
/// Each protocol begins at another world, so that together they see them all.
#[test]
fn every_small_world_over_the_core_alphabet() {
    let worlds = SmallWorlds::over(&CORE, &[Initial::First]);
    let stride = if all_of_them() { 1 } else { 7 };
    parallel::for_each(defaults().into_iter().enumerate(), |(number, subject)| {
        let start = Instant::now();
        let count = sweep(&subject, &worlds, stride, number % stride);
        println!("{}: {count} worlds in {:?}", subject.name, start.elapsed());
    });
}

#[test]
fn small_worlds_over_the_full_alphabet() {
    let worlds = SmallWorlds::over(&FULL, &Initial::ALL);
    let stride = if all_of_them() { 1 } else { 2_003 };
    for subject in defaults() {
        let start = Instant::now();
        let count = sweep(&subject, &worlds, stride, 0);
        println!("{}: {count} worlds in {:?}", subject.name, start.elapsed());
    }
}

#[test]
fn small_worlds_with_any_option() {
    let worlds = SmallWorlds::over(&FULL, &Initial::ALL);
    let stride = if all_of_them() { 5_003 } else { 12_007 };
    parallel::for_each(variants().into_iter().enumerate(), |(offset, subject)| {
        sweep(&subject, &worlds, stride, offset);
    });
}
