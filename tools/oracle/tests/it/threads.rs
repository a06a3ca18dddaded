//! Threads are invisible: the same blocks give the same bytes on any number of workers, whatever
//! their timing. Where the info says otherwise, each run must be equal to its own replay.

use concurrency::WorkerPool;
use concurrency::test_mode::TestMode;
use kit::random::Random;
use oracle::families::{FAMILIES, Family, WIDE};
use oracle::shrink::Failure;
use oracle::subjects::{Subject, defaults, variants};

use crate::seeds;

fn same_on_any_number_of_workers(subject: &Subject, count: u64) {
    let pools = [1, 2, 8].map(WorkerPool::new);
    for seed in 0..count {
        let other = &FAMILIES[seed as usize % FAMILIES.len()];
        for Family { name, world } in [&WIDE, other] {
            let world = world(&mut Random::new(seed));
            let runs = pools.iter().map(|pool| {
                let test_mode = match pool.workers() {
                    1 => TestMode::default(),
                    workers => TestMode::of_seed(seed + workers as u64 / 8),
                };
                world.run(&subject.protocol, pool, test_mode).unwrap_or_else(|divergence| {
                    let found = (world.clone(), divergence);
                    panic!("{}", Failure::smallest(subject, (name, seed), pool, test_mode, found))
                })
            });
            let traces: Vec<_> = runs.collect();
            let is_deterministic = subject.protocol.info().deterministic;
            let same = !is_deterministic || traces.windows(2).all(|pair| pair[0] == pair[1]);
            assert!(same, "{}, \"{name}\", seed {seed}: workers differ\n{world}", subject.name);
        }
    }
}

#[test]
fn the_number_of_workers_is_invisible() {
    for subject in defaults() {
        same_on_any_number_of_workers(&subject, seeds(10));
    }
}

#[test]
fn with_any_option_the_number_of_workers_is_invisible() {
    for subject in variants() {
        same_on_any_number_of_workers(&subject, seeds(2));
    }
}
