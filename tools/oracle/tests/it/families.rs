//! Each family of worlds, under every protocol.

use concurrency::WorkerPool;
use concurrency::test_mode::TestMode;
use oracle::families::{FAMILIES, Family, Stage, WIDE, check};
use oracle::subjects::{Subject, defaults, variants};
use oracle::world::Counts;

use crate::seeds;

fn family(name: &str) -> &'static Family {
    FAMILIES.iter().chain([&WIDE]).find(|family| family.name == name).expect("a family")
}

fn run(subject: &Subject, name: &str, count: u64) -> Counts {
    let stage = Stage { pool: &WorkerPool::new(2), test_mode: TestMode::default() };
    let counts = check(subject, family(name), 0..count, &stage);
    counts.unwrap_or_else(|failure| panic!("{failure}"))
}

/// Under every protocol; enough of it must commit for the family to say anything.
fn everywhere(name: &str) {
    for subject in defaults() {
        let counts = run(&subject, name, seeds(80));
        let total = counts.committed + counts.rejected + counts.retried;
        assert!(counts.committed * 5 > total, "{}, {name}: {counts:?}", subject.name);
        let is_among_calls = !name.starts_with("sessions");
        assert!(!is_among_calls || counts.standstills == 0, "{}: {counts:?}", subject.name);
        let never_defers = !subject.protocol.info().may_retry;
        assert!(!never_defers || counts.deferred == 0, "{}: {counts:?}", subject.name);
    }
}

#[test]
fn mixed_programs() {
    everywhere("mixed");
}

#[test]
fn blind_writes() {
    everywhere("blind writes");
}

#[test]
fn reads_without_writes() {
    everywhere("reads without writes");
}

#[test]
fn chains_three_deep() {
    everywhere("chains three deep");
}

#[test]
fn inserts_and_deletes() {
    everywhere("inserts and deletes");
}

#[test]
fn ranges() {
    everywhere("ranges");
}

#[test]
fn hot_keys() {
    everywhere("hot keys");
}

#[test]
fn user_aborts() {
    everywhere("user aborts");
}

#[test]
fn numbers_that_overflow() {
    everywhere("numbers that overflow");
}

#[test]
fn keys_unknown_in_advance() {
    everywhere("keys unknown in advance");
}

/// What commits was told what it would have been told at its place in the serial order.
#[test]
fn sessions_loads_and_calls_in_one_block() {
    everywhere("sessions, loads and calls");
}

/// Nor does a statement that runs again at COMMIT come to what a query of the session had seen
/// untouched.
#[test]
fn sessions_that_look_again_behind_silent_statements() {
    everywhere("sessions that look again");
}

#[test]
fn large_transactions() {
    let name = "large transactions";
    for subject in defaults() {
        run(&subject, name, seeds(6));
    }
}

#[test]
fn wide_blocks() {
    for subject in defaults() {
        run(&subject, WIDE.name, seeds(10));
    }
}

/// Every value of every option is as right as the default.
#[test]
fn options_keep_every_promise() {
    for subject in variants() {
        for family in FAMILIES.iter().filter(|family| family.name != "large transactions") {
            run(&subject, family.name, seeds(6));
        }
    }
}

/// What a failing test prints: two transactions are enough for the bug, and more are not shown.
#[test]
fn a_failure_prints_the_smallest_world() {
    let protocol = protocols::mutant("harmony", "strict_rule_1").unwrap();
    let mutant = Subject { name: "harmony with a bug".into(), protocol };
    let stage = Stage { pool: &WorkerPool::new(1), test_mode: TestMode::default() };
    let failure = check(&mutant, family("blind writes"), 0..40, &stage).unwrap_err();
    assert_eq!(failure.world.transactions(), 2, "{failure}");
    assert!(failure.to_string().contains("claimed order"), "{failure}");
}
