//! Random programs by several threads, queries and the collector beside them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use kit::random::Random;

use super::on_every_area;
use crate::area::{Area, ZONE_ROWS};
use crate::areas::Physical;
use crate::mutant::{Mutant, Mutants};
use crate::query::Query;
use crate::tests::history::{Everything, History, State, Step, run};
use crate::{Configuration, Engine};

const ROWS: [usize; 3] = [2 * ZONE_ROWS + 10, 600, 40];
const WRITERS: usize = 3;

/// Half of the accesses go to a few rows.
fn place(random: &mut Random) -> (u16, u32) {
    let column = random.below(ROWS.len() as u64);
    let rows = ROWS[column as usize] as u64;
    let row = if random.chance(2) { random.below(6) * rows / 6 } else { random.below(rows) };
    (column as u16, row as u32)
}

fn program(random: &mut Random, writes_max: u64) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..1 + random.below(5) {
        let (column, row) = place(random);
        steps.push(match random.below(8) {
            0 => {
                let low = random.below(1_000_000) as i64;
                Step::Find(column, low..=low + 20_000)
            }
            _ => Step::Read(column, row),
        });
    }
    if !random.chance(4) {
        for constant in 0..1 + random.below(writes_max) {
            let (column, row) = place(random);
            steps.push(Step::Write(column, row, constant as i64 + 1));
        }
    }
    steps
}

/// The fault that a history of threads shows, if any; how many transactions it has.
pub fn histories<A: Area>(
    configuration: Configuration,
    mutant: Option<Mutant>,
    seed: u64,
    writes_max: u64,
) -> Result<usize, String> {
    const PROGRAMS: usize = 250;
    let engine: Engine<A> = Engine::with_mutants(configuration, &ROWS, Mutants(mutant))
        .map_err(|error| error.to_string())?;
    let history = Mutex::new(History::default());
    let (left, everything) = (AtomicUsize::new(WRITERS), Everything::of(&ROWS));
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (engine, history, left) = (&engine, &history, &left);
            scope.spawn(move || {
                let mut random = Random::new(seed * 100 + writer as u64);
                let programs = (0..PROGRAMS).map(|_| program(&mut random, writes_max));
                let records: Vec<_> =
                    programs.filter_map(|program| run(engine, &program)).collect();
                history.lock().expect("no thread panics").records.extend(records);
                left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        let mut states = Vec::new();
        while left.load(Ordering::SeqCst) > 0 && states.len() < 200 {
            let answered = engine.query(&everything).expect("an answer");
            states.push((answered.timestamp, Everything::state(&answered.words, &ROWS)));
            if !configuration.is_hybrid() {
                engine.collect();
            }
        }
        history.lock().expect("no thread panics").states.extend(states);
    });
    let history = history.into_inner().expect("no thread panics");
    let committed = history.records.len();
    let state: State = ROWS.iter().map(|&rows| vec![0; rows]).collect();
    history.check(state, configuration)?;
    Ok(committed)
}

fn check<A: Area>(configuration: Configuration) {
    for seed in 0..3 {
        let found = histories::<A>(configuration, None, seed, 6);
        let committed = found.unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        assert!(committed > 100, "{committed} committed");
    }
}

fn hybrid<A: Area>() {
    check::<A>(Configuration::HeeAnker);
}

fn serializable<A: Area>() {
    check::<A>(Configuration::SeeFs);
}

on_every_area!(snapshots_equal_a_serial_replay_up_to_their_timestamp, hybrid);
on_every_area!(full_serializability_in_one_engine, serializable);

#[test]
fn snapshot_isolation_in_one_engine() {
    check::<Physical>(Configuration::SeeSi);
}

#[test]
fn a_forked_child_sees_whole_commits_alone() {
    check::<Physical>(Configuration::HeeFork);
}

#[test]
fn a_query_answers_with_every_row() {
    let everything = Everything::of(&ROWS);
    assert_eq!(everything.start().len(), 1 + ROWS.iter().sum::<usize>());
}
