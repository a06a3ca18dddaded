//! Update commands on texts: metered ones fail alike under every protocol, and those that fit all
//! survive.

use concurrency::test_mode::{Mutant, TestMode};
use concurrency::{Outcome, WorkerPool};
use oracle::subjects::{Subject, defaults, variants};
use oracle::texts::{Ends, check};

use crate::seeds;

fn worlds(
    subject: &Subject,
    pool: &WorkerPool,
    count: u64,
    test_mode: impl Fn(u64) -> TestMode,
) -> Ends {
    let mut ends = Ends::default();
    for seed in 0..count {
        match check(&subject.protocol, pool, seed, test_mode(seed)) {
            Ok(more) => ends.add(more),
            Err(divergence) => panic!("{}, seed {seed}: {divergence}", subject.name),
        }
    }
    ends
}

/// Some commands are too long for their row wherever they stand in a chain, and most are not.
#[test]
fn commands_that_cannot_pay_are_rejected_as_serially_under_every_protocol() {
    let pool = WorkerPool::new(2);
    for subject in defaults() {
        let ends = worlds(&subject, &pool, seeds(40), |_| TestMode::default());
        let ended = ends.committed + ends.too_long + ends.rejected_otherwise;
        assert!(ends.committed * 5 > ended, "{}: {ends:?}", subject.name);
        assert!(ends.too_long > 10, "{}: {ends:?}", subject.name);
    }
}

#[test]
fn the_same_with_every_option() {
    let pool = WorkerPool::new(4);
    for subject in variants() {
        worlds(&subject, &pool, seeds(8), TestMode::of_seed);
    }
}

/// The number of workers and their interleaving decide nothing.
#[test]
fn how_they_end_is_the_same_on_any_number_of_workers() {
    for subject in defaults().iter().filter(|s| s.protocol.info().deterministic) {
        let of = |workers| worlds(subject, &WorkerPool::new(workers), seeds(6), TestMode::chosen);
        assert_eq!(of(1), of(8), "{}", subject.name);
    }
}

/// A command that should have been rejected in the middle of a chain is not.
#[test]
fn a_forgotten_rejection_is_noticed() {
    let pool = WorkerPool::new(1);
    let found = |subject: &Subject, mutant| {
        let test_mode = TestMode { mutant, ..TestMode::default() };
        (0..40).any(|seed| {
            let run = || check(&subject.protocol, &pool, seed, test_mode);
            let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            !matches!(run, Ok(Ok(_)))
        })
    };
    let unmetered = Some(Mutant::CommandUnmetered);
    for name in ["harmony", "serial", "aria", "calvin"] {
        assert!(found(&Subject::named(name), unmetered), "{name}");
    }
    let protocol = protocols::mutant("harmony", "no_demotion").unwrap();
    let mutant = Subject { name: "harmony: no_demotion".into(), protocol };
    assert!(found(&mutant, None));
}

/// So that folds of long texts are not computed as often as there are transactions.
#[test]
fn commands_that_fail_one_another_without_end_are_given_up() {
    let pool = WorkerPool::new(2);
    for times in 1..20 {
        let (all, rerun) = oracle::texts::felled(&pool, times);
        assert_eq!(rerun, if times >= 8 { all } else { all - 1 }, "{times}");
    }
}

/// A hot row's metered commands conflict with nothing: Lai 2023, 3.3.
#[test]
fn metered_commands_on_a_hot_row_all_survive() {
    let pool = WorkerPool::new(2);
    for name in ["harmony", "harmony:coalescence=off", "harmony:inter_block=on"] {
        let (outcomes, rerun) = oracle::texts::appended(name, &pool, 200);
        assert!(outcomes.iter().all(Outcome::is_committed), "{name}");
        assert_eq!(rerun, 0, "{name}");
    }
}
