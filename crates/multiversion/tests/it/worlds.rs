//! Worlds, histories and small worlds of the product's oracle, under every rule and every way to
//! keep tables.

use concurrency::Crew;
use concurrency::trial::Trial;
use kit::random::Random;
use multiversion::block;
use oracle::families::{FAMILIES, WIDE};
use oracle::history::History;
use oracle::shrink::Failure;
use oracle::small::{self, CORE, Initial, SmallWorlds};
use oracle::subjects::Subject;

use crate::{SERIALIZABLE, seeds};

pub fn subject(name: &str) -> Subject {
    let protocol = block::by_name(name).expect("a rule of the study").expect("options that go");
    Subject { name: name.to_owned(), protocol }
}

fn run_families(subject: &Subject, seeds: std::ops::Range<u64>, crew: &Crew) {
    for seed in seeds {
        for family in FAMILIES.iter().chain([&WIDE]) {
            let shake = (crew.workers() > 1).then_some(seed);
            let trial = Trial { shake, flaw: None };
            let world = family.world(seed);
            if let Err(divergence) = world.run(&*subject.protocol, crew, trial) {
                let found = (world, divergence);
                panic!("{}", Failure::smallest(subject, (family.name, seed), crew, trial, found));
            }
        }
    }
}

#[test]
fn every_rule_runs_every_family_of_worlds_alone() {
    for rule in SERIALIZABLE {
        run_families(&subject(rule), 0..seeds(4), &Crew::new(1));
    }
}

#[test]
fn every_rule_runs_every_family_of_worlds_on_shaken_threads() {
    for workers in [2, 4] {
        let crew = Crew::new(workers);
        for rule in SERIALIZABLE {
            run_families(&subject(rule), 0..seeds(4), &crew);
        }
    }
}

#[test]
fn every_rule_goes_with_every_storage_collector_and_pointer_scheme() {
    let crew = Crew::new(3);
    for (seed, name) in (0..).zip(block::all_names()) {
        run_families(&subject(&name), seed..seed + seeds(1), &crew);
    }
}

#[test]
fn histories_of_lists_have_no_cycle() {
    for rule in SERIALIZABLE {
        let subject = subject(rule);
        let crew = Crew::new(4);
        let mut dependencies = 0;
        for seed in 0..seeds(12) {
            let trial = Trial { shake: Some(seed), flaw: None };
            let history = History::random(&mut Random::new(seed));
            match history.check(&*subject.protocol, &crew, trial) {
                Ok(count) => dependencies += count,
                Err(anomaly) => panic!("{rule}, seed {seed}: {anomaly}\n{history}"),
            }
        }
        assert!(dependencies > 100, "{rule}: only {dependencies} dependencies");
    }
}

#[test]
fn three_transactions_on_two_records() {
    let all = SmallWorlds::over(&CORE, &Initial::ALL);
    let crew = Crew::new(2);
    for rule in SERIALIZABLE {
        let every = 40;
        let worlds: Vec<_> =
            (0..all.count()).step_by(every).filter_map(|number| all.world(number)).collect();
        if let Err(failure) = small::check(&*subject(rule).protocol, &crew, &worlds) {
            panic!("{rule}: {failure}");
        }
    }
}
