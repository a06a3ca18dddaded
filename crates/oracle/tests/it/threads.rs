//! Threads are invisible: the same blocks give the same bytes on any number of workers, whatever
//! their timing.

use concurrency::Crew;
use concurrency::trial::Trial;
use kit::random::Random;
use oracle::families::FAMILIES;
use oracle::programs::{OPERATIONS, random_calls, random_rows};
use oracle::recipe::Recipe;
use oracle::shrink::Failure;
use oracle::subjects::{Subject, defaults, variants};
use oracle::world::World;

use crate::seeds;

/// Blocks that are large enough to be shared out among workers.
fn wide(seed: u64) -> World {
    let mut random = Random::new(seed);
    let keys = [6, 30, 200][random.below(3) as usize];
    let recipe = |random: &mut Random| match random.below(20) {
        0 => Recipe::Load(random_rows(random, keys)),
        _ => {
            let count = 1 + random.below(4);
            Recipe::Program(random_calls(random, &OPERATIONS, keys, count))
        }
    };
    let block = |random: &mut Random| (0..100).map(|_| recipe(random)).collect();
    let blocks = (0..2).map(|_| block(&mut random)).collect();
    World { filled: keys / 2, blocks, collects: random.chance(2) }
}

fn same_on_any_number_of_workers(subject: &Subject, count: u64) {
    let crews = [1, 2, 8].map(Crew::new);
    for seed in 0..count {
        let family = &FAMILIES[seed as usize % (FAMILIES.len() - 1)];
        for (name, world) in [("wide", wide(seed)), (family.name, family.world(seed))] {
            let runs = crews.iter().map(|crew| {
                let shake = (crew.workers() > 1).then_some(seed << 16);
                let trial = Trial { shake, flaw: None };
                world.run(&*subject.protocol, crew, trial).unwrap_or_else(|divergence| {
                    let found = (world.clone(), divergence);
                    panic!("{}", Failure::smallest(subject, (name, seed), crew, trial, found))
                })
            });
            let traces: Vec<_> = runs.collect();
            let same = traces.windows(2).all(|pair| pair[0] == pair[1]);
            assert!(same, "{}, \"{name}\", seed {seed}: workers differ\n{world}", subject.name);
        }
    }
}

#[test]
fn the_number_of_workers_is_invisible() {
    for subject in defaults() {
        same_on_any_number_of_workers(&subject, seeds(20));
    }
}

#[test]
fn with_any_option_the_number_of_workers_is_invisible() {
    for subject in variants() {
        same_on_any_number_of_workers(&subject, seeds(3));
    }
}
