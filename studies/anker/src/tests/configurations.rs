//! What distinguishes the five configurations, claim by claim.

use crate::areas::{Physical, Slabs};
use crate::query::SumAndCount;
use crate::{ColumnId, Configuration, Engine, Row};

const C: ColumnId = ColumnId(0);
const D: ColumnId = ColumnId(1);
const ROWS: usize = 4;

fn engine(configuration: Configuration) -> Engine<Slabs> {
    Engine::new(configuration, &[ROWS, ROWS]).expect("an engine")
}

fn put(engine: &Engine<Slabs>, column: ColumnId, row: Row, value: i64) {
    let mut transaction = engine.begin();
    transaction.write(column, row, value);
    transaction.commit().expect("nobody else writes");
}

#[test]
fn hybrid_reads_give_up_at_once_on_a_value_that_is_too_new() {
    for configuration in [Configuration::SeeFs, Configuration::SeeSi, Configuration::HeeAnker] {
        let engine = engine(configuration);
        let mut old = engine.begin();
        put(&engine, C, 0, 1);
        let read = old.read(C, 0);
        if configuration.is_hybrid() {
            assert_eq!(read.expect_err("too new").code().as_str(), "40001");
        } else {
            assert_eq!(read, Ok(0), "from the chain");
        }
    }
}

#[test]
fn read_uncommitted_makes_no_versions() {
    let engine = engine(Configuration::SeeRu);
    let mut old = engine.begin();
    put(&engine, C, 0, 1);
    assert_eq!(old.read(C, 0), Ok(1), "what is there, whoever wrote it");
    assert_eq!(engine.column(C).versions(), 0);
}

#[test]
fn the_collector_keeps_what_the_oldest_transaction_sees() {
    let engine = engine(Configuration::SeeSi);
    put(&engine, C, 0, 1);
    let mut old = engine.begin();
    (2..10).for_each(|value| put(&engine, C, 0, value));
    assert_eq!(engine.column(C).versions(), 9);
    engine.collect();
    assert_eq!(engine.column(C).versions(), 8, "the loaded value alone is nobody's");
    assert_eq!(old.read(C, 0), Ok(1));
    drop(old);
    engine.collect();
    assert_eq!(engine.column(C).versions(), 0);
    put(&engine, C, 0, 10);
    assert_eq!(engine.column(C).versions(), 1, "numbers are used again");
}

#[test]
fn columns_that_nobody_changes_are_frozen_once() {
    let engine = engine(Configuration::HeeAnker);
    for value in 1..=5 {
        put(&engine, C, 0, value);
        let snapshot = engine.snapshot(&[C, D]);
        snapshot.column(C).expect("frozen");
        snapshot.column(D).expect("frozen");
    }
    let (first, second) = (engine.snapshot(&[D]), engine.snapshot(&[D]));
    let addresses = [&first, &second].map(|s| std::ptr::from_ref(&**s.column(D).expect("frozen")));
    assert_eq!(addresses[0], addresses[1]);
    assert_eq!(engine.column(D).frozen_alive(), 1);
}

#[test]
fn a_snapshot_is_frozen_by_the_commit_that_would_change_it() {
    let engine = engine(Configuration::HeeAnker);
    let snapshot = engine.snapshot(&[C, D]);
    assert_eq!(engine.column(C).frozen_alive(), 0, "asked for, not frozen");
    put(&engine, C, 0, 1);
    assert_eq!(engine.column(C).frozen_alive(), 1);
    assert_eq!(engine.column(D).frozen_alive(), 0, "nobody touched it");
    let frozen = snapshot.column(C).expect("frozen");
    assert_eq!(frozen.read_at(0, snapshot.timestamp()), Some(0));
}

#[test]
fn a_snapshot_that_nobody_wants_any_more_is_not_frozen() {
    let engine = engine(Configuration::HeeAnker);
    drop(engine.snapshot(&[C]));
    put(&engine, C, 0, 1);
    assert_eq!(engine.column(C).frozen_alive(), 0);
}

#[test]
fn a_column_that_was_not_asked_for_is_an_error() {
    let engine = engine(Configuration::HeeAnker);
    let snapshot = engine.snapshot(&[C]);
    assert_eq!(
        snapshot.column(D).err().map(|error| error.code().as_str().to_owned()),
        Some("42P10".into())
    );
}

#[test]
fn fork_needs_memory_that_a_child_inherits() {
    let refused = Engine::<Slabs>::new(Configuration::HeeFork, &[ROWS]).err();
    assert!(refused.is_some_and(|error| error.fields().hint.is_some()));
    assert!(Engine::<Physical>::new(Configuration::HeeFork, &[ROWS]).is_ok());
}

#[test]
fn all_configurations_answer_the_same_when_nothing_runs() {
    for configuration in Configuration::ALL {
        let engine: Engine<Physical> = Engine::new(configuration, &[3_000]).expect("an engine");
        (0..3_000).for_each(|row| engine.load(C, row, i64::from(row)));
        let answered = engine.query(&SumAndCount::new(C)).expect("an answer");
        assert_eq!(answered.words, [2_999 * 3_000 / 2, 3_000], "{}", configuration.name());
    }
}
