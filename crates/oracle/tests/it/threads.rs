//! Threads are invisible: the same blocks give the same bytes on any number of workers, whatever
//! their timing. Where the card says otherwise, each run must be equal to its own replay.

use concurrency::Crew;
use concurrency::trial::Trial;
use kit::random::Random;
use oracle::families::{FAMILIES, Family, WIDE};
use oracle::shrink::Failure;
use oracle::subjects::{Subject, defaults, variants};

use crate::seeds;

fn same_on_any_number_of_workers(subject: &Subject, count: u64) {
    let crews = [1, 2, 8].map(Crew::new);
    for seed in 0..count {
        let other = &FAMILIES[seed as usize % FAMILIES.len()];
        for Family { name, world } in [&WIDE, other] {
            let world = world(&mut Random::new(seed));
            let runs = crews.iter().map(|crew| {
                let trial = match crew.workers() {
                    1 => Trial::default(),
                    workers => Trial::of_seed(seed + workers as u64 / 8),
                };
                world.run(&subject.protocol, crew, trial).unwrap_or_else(|divergence| {
                    let found = (world.clone(), divergence);
                    panic!("{}", Failure::smallest(subject, (name, seed), crew, trial, found))
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
