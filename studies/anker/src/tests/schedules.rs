//! Commits, snapshots and scans under every schedule that shuttle tries:
//! `RUSTFLAGS="--cfg shuttle" cargo test -p anker --lib schedules`.

use kit::sync::{Arc, Mutex, thread};

use crate::area::Area;
use crate::area::Frozen;
use crate::areas::{Physical, Slabs};
use crate::lock::lock;
use crate::mutant::{Mutant, Mutants};
use crate::tests::history::{Everything, History, State, Step, run};
use crate::{ColumnId, Configuration, Engine};

const SCHEDULES: usize = 5_000;
const ROWS: [usize; 2] = [3, 3];

/// Two writers of both columns, a query that comes back, in hybrid mode or in one engine.
fn history<A: Area>(configuration: Configuration, mutant: Option<Mutant>) {
    let engine: Arc<Engine<A>> =
        Arc::new(Engine::with_mutants(configuration, &ROWS, Mutants(mutant)).expect("an engine"));
    let history = Arc::new(Mutex::new(History::default()));
    let programs = [
        vec![
            vec![Step::Read(0, 0), Step::Write(0, 0, 1), Step::Write(1, 2, 2)],
            vec![Step::Find(1, 2..=9), Step::Write(0, 1, 5)],
        ],
        vec![
            vec![Step::Put(0, 2, 7), Step::Put(1, 0, 7)],
            vec![Step::Read(0, 2), Step::Read(1, 0)],
        ],
    ];
    let writers = programs.map(|programs| {
        let (engine, history) = (engine.clone(), history.clone());
        thread::spawn(move || {
            for program in &programs {
                let record = run(&engine, program);
                lock(&history).records.extend(record);
            }
        })
    });
    let everything = Everything::of(&ROWS);
    for _ in 0..2 {
        let answered = engine.query(&everything).expect("an answer");
        let state = Everything::state(&answered.words, &ROWS);
        lock(&history).states.push((answered.timestamp, state));
        if !configuration.is_hybrid() {
            engine.collect();
        }
    }
    for writer in writers {
        writer.join().expect("a writer ends");
    }
    let history = std::mem::take(&mut *lock(&history));
    let state: State = ROWS.iter().map(|&rows| vec![0; rows]).collect();
    history.check(state, configuration).unwrap_or_else(|fault| panic!("{fault}"));
}

#[test]
fn snapshots_are_prefixes_under_every_schedule() {
    shuttle::check_random(|| history::<Slabs>(Configuration::HeeAnker, None), SCHEDULES);
    shuttle::check_pct(|| history::<Physical>(Configuration::HeeAnker, None), SCHEDULES, 4);
}

#[test]
fn one_engine_is_serializable_under_every_schedule() {
    shuttle::check_random(|| history::<Slabs>(Configuration::SeeFs, None), SCHEDULES);
    shuttle::check_pct(|| history::<Physical>(Configuration::SeeFs, None), SCHEDULES, 4);
}

/// Chains go with the frozen column, and both go when its last reader does: two readers of two
/// states, a writer between them.
fn hand_over() {
    const C: ColumnId = ColumnId(0);
    let engine: Arc<Engine<Slabs>> =
        Arc::new(Engine::new(Configuration::HeeAnker, &[3]).expect("an engine"));
    let readers = [(); 2].map(|()| {
        let engine = engine.clone();
        thread::spawn(move || {
            let snapshot = engine.snapshot(&[C]);
            let frozen = snapshot.column(C).expect("frozen");
            let (values, at) = (frozen.values().zone(0).into_owned(), snapshot.timestamp());
            assert_eq!(values[0], at, "the commit of that timestamp");
            assert_eq!(frozen.read_at(0, at), Some(at));
            assert!(engine.column(C).frozen_alive() <= 3, "the newest, and one for each reader");
        })
    });
    for value in 1..=2 {
        let mut writer = engine.begin();
        writer.write(C, 0, value);
        assert_eq!(writer.commit(), Ok(value));
    }
    for reader in readers {
        reader.join().expect("a reader's checks hold");
    }
    assert!(engine.column(C).frozen_alive() <= 1, "no reader is left");
}

#[test]
fn chains_are_handed_over_and_reclaimed_with_the_last_reader() {
    shuttle::check_random(hand_over, SCHEDULES);
    shuttle::check_pct(hand_over, SCHEDULES, 4);
}

/// Both threads are first to store into the slab after a freeze.
#[test]
fn two_copies_of_a_slab_lose_no_store() {
    let race = || {
        let area = Arc::new(Slabs::new(3).expect("an area"));
        let frozen = area.freeze().expect("frozen");
        let writers = [0, 1].map(|row| {
            let area = area.clone();
            thread::spawn(move || area.store(row, 1))
        });
        for writer in writers {
            writer.join().expect("a writer ends");
        }
        assert_eq!([area.load(0), area.load(1)], [1, 1]);
        assert_eq!(*frozen.zone(0), [0, 0]);
    };
    shuttle::check_random(race, 10 * SCHEDULES);
}

fn is_caught(configuration: Configuration, mutant: Mutant) {
    let tried = std::panic::catch_unwind(|| {
        let run = move || history::<Physical>(configuration, Some(mutant));
        shuttle::check_random(run, 20 * SCHEDULES);
        shuttle::check_pct(run, 20 * SCHEDULES, 4);
    });
    assert!(tried.is_err(), "{mutant:?} was not caught");
}

#[test]
fn looking_for_requests_too_early_is_caught() {
    is_caught(Configuration::HeeAnker, Mutant::LooksForRequestsTooEarly);
}

/// Needs two queries: one asks while the column is frozen for the other.
#[test]
fn losing_the_flag_of_a_new_request_is_caught() {
    is_caught(Configuration::HeeAnker, Mutant::LosesTheFlagOfANewRequest);
}

#[test]
fn beginning_among_installs_is_caught() {
    is_caught(Configuration::SeeFs, Mutant::BeginsAmongInstalls);
}

#[test]
fn stamps_after_the_value_are_caught() {
    is_caught(Configuration::SeeFs, Mutant::StampsAfterTheValue);
}

#[test]
fn trusting_the_first_span_is_caught() {
    is_caught(Configuration::SeeFs, Mutant::TrustsTheFirstSpan);
}
