//! No dependency cycle, whatever order is claimed.

use concurrency::WorkerPool;
use concurrency::test_mode::{Mutant, TestMode};
use kit::random::Random;
use oracle::history::History;
use oracle::subjects::{Subject, defaults, variants};

use crate::seeds;

fn no_cycle(subject: &Subject, count: u64) {
    let pool = WorkerPool::new(3);
    let mut dependencies = 0;
    for seed in 0..count {
        let history = History::random(&mut Random::new(seed));
        let test_mode = TestMode::of_seed(seed);
        let fails = |history: &History| history.check(&subject.protocol, &pool, test_mode).err();
        match history.check(&subject.protocol, &pool, test_mode) {
            Ok(count) => dependencies += count as u64,
            Err(anomaly) => {
                let (history, anomaly) = history.smallest(anomaly, fails);
                panic!("{}, seed {seed}: {anomaly}\n{history}", subject.name);
            }
        }
    }
    // Of what was endorsed many blocks ago nothing may get through.
    let is_default = !subject.name.contains(':');
    assert!(dependencies > count || !is_default, "{}: {dependencies}", subject.name);
}

#[test]
fn histories_have_no_dependency_cycle() {
    for subject in defaults() {
        no_cycle(&subject, seeds(60));
    }
}

#[test]
fn with_any_option_histories_have_no_dependency_cycle() {
    for subject in variants() {
        no_cycle(&subject, seeds(15));
    }
}

/// Which seed shows a bug where no order is told.
fn found_by_cycles(subject: &Subject, mutant: Option<Mutant>) -> Option<u64> {
    let pool = WorkerPool::new(1);
    (0..300).find(|&seed| {
        let history = History::random(&mut Random::new(seed));
        history.check(&subject.protocol, &pool, TestMode { mutant, ..TestMode::default() }).is_err()
    })
}

/// Bugs that make a wrong order are seen in the dependencies alone.
#[test]
fn seeded_bugs_make_cycles() {
    for mutant in ["strict_rule_1", "no_range_edges", "no_existence_edges"] {
        let protocol = protocols::mutant("harmony", mutant).unwrap();
        let subject = Subject { name: mutant.into(), protocol };
        assert!(found_by_cycles(&subject, None).is_some(), "{mutant}");
    }
    let harmony = Subject::named("harmony");
    for mutant in [Mutant::ReadUnrecorded, Mutant::ExistenceUnrecorded, Mutant::RangeUnrecorded] {
        assert!(found_by_cycles(&harmony, Some(mutant)).is_some(), "{mutant:?}");
    }
}
