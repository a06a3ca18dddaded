//! Two threads that skew as fast as they can, the epoch turning under them; what was seen is
//! replayed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use concurrency::test_mode::{self, TestMode};
use concurrency::{Moment, Outcome};
use kit::sync;
use multiversion::chains::NewVersion;
use multiversion::layout::ColumnSet;
use multiversion::mutant::{self, Mutant};
use multiversion::session::Attempt;
use multiversion::table::Table;
use multiversion::{CommitSequenceNumber, Rule, Session, TableSpec, Timestamp};
use procedure::ProgramResult;
use types::{ColumnSchema, DataType, Key, Stamp, TableSchema, Value};

use crate::study::script::{Act, Model, Stage, database, schema, step};
use crate::study::{SERIALIZABLE, with_rule};

/// What a transaction saw in one row, and what it left in the other.
struct Skewed {
    csn: CommitSequenceNumber,
    seen: (i64, i64),
    left: (i64, i64),
}

fn skew<R: Rule>(session: &mut Session<'_, R>, thread: i64, round: i64) -> Option<Skewed> {
    let (from, to, new) = (thread, 1 - thread, 10 * round + thread);
    let mut last = 0;
    session.begin(Moment { height: 1, position: round as u32, now_us: 0 }, false);
    let access = session.transaction();
    test_mode::pause();
    let read = step(access, Act::Read(from), &mut last);
    test_mode::pause();
    let run = read.and_then(|_| step(access, Act::Set(to, new), &mut last));
    test_mode::pause();
    match session.end(run.map(|_| ProgramResult::default())).expect("no halt") {
        Attempt::Ended(Outcome::Committed(_), csn) => {
            Some(Skewed { csn, seen: (from, last), left: (to, new) })
        }
        _ => None,
    }
}

pub fn hammer<R: Rule>(
    spec: TableSpec,
    mutant: Option<Mutant>,
    rounds: i64,
    test_mode: TestMode,
) -> Result<(), String> {
    let mut db = database::<R>(spec, 2);
    db.mutant = mutant;
    let db = db;
    Stage::<R>::new(&db).reset(&Model::from([(0, 1), (1, 2)]));
    let (stop, known) = (AtomicBool::new(false), db.clock.newest());
    let _on = test_mode::enter(test_mode);
    let job = test_mode::Job::new(3);
    let mut done: Vec<Skewed> = std::thread::scope(|scope| {
        let threads = [0, 1].map(|thread| {
            let (db, job) = (&db, &job);
            scope.spawn(move || {
                let _on = job.enter(thread as usize);
                let mut session = Session::<R>::open(db, thread as usize);
                session.see(known);
                let rounds = 1..=rounds;
                rounds.filter_map(|n| skew(&mut session, thread, n)).collect::<Vec<_>>()
            })
        });
        let turner = scope.spawn(|| {
            let _on = job.enter(2);
            while !stop.load(Ordering::Relaxed) {
                sync::nap(Duration::from_millis(1));
                db.clock.turn();
                db.vacuum(false);
            }
        });
        let done = threads.into_iter().flat_map(|t| t.join().expect("no panic")).collect();
        stop.store(true, Ordering::Relaxed);
        turner.join().expect("no panic");
        done
    });
    mutant::enter(None);
    done.sort_by_key(|skewed| skewed.csn);
    let mut rows = [1, 2];
    for Skewed { seen: (from, seen), left: (to, left), csn } in &done {
        if rows[*from as usize] != *seen {
            return Err(format!("{csn:?} saw {seen}, serially {}", rows[*from as usize]));
        }
        rows[*to as usize] = *left;
    }
    Ok(())
}

#[test]
fn two_threads_that_skew_are_as_they_claim() {
    for name in SERIALIZABLE {
        for (rounds, test_mode) in [(3_000, TestMode::shaken(1)), (500, TestMode::chosen(1))] {
            let spec = TableSpec::default();
            let hammered = with_rule!(name, R => hammer::<R>(spec, None, rounds, test_mode));
            assert_eq!(hammered, Ok(()), "{name}, {test_mode:?}");
        }
    }
}

/// A row that is overwritten in place, all columns telling when, while another thread reads it.
pub fn reads_whole_rows(
    spec: TableSpec,
    mutant: Option<Mutant>,
    rounds: i64,
    test_mode: TestMode,
) -> bool {
    const COLUMNS: u16 = 40;
    let column = |n| ColumnSchema {
        name: format!("c{n}"),
        data_type: DataType::Int8,
        nullable: false,
        dropped: false,
    };
    let columns = (0..=COLUMNS).map(column).collect();
    let wide = TableSchema { columns, indexes: Vec::new(), ..(*schema()).clone() };
    let table = Table::new(wide.into(), spec);
    let row = |n: i64| vec![Value::Int(n); usize::from(COLUMNS) + 1];
    table.load(&Key::from_int(0), &row(0), Stamp::default()).expect("room");
    let tuple = table.find(&Key::from_int(0)).expect("loaded");
    let stop = AtomicBool::new(false);
    let _on = test_mode::enter(test_mode);
    let job = test_mode::Job::new(2);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            mutant::enter(mutant);
            let _on = job.enter(1);
            let mut copy = Vec::new();
            let newest = Timestamp(Timestamp::INFINITY.0 - 1);
            let mut whole = true;
            while !stop.load(Ordering::Relaxed) && whole {
                let seen = table.visible(tuple, None, newest, &mut copy);
                let first = table.decode(1, seen.row, &copy);
                whole = first == Value::Int(seen.mark.begin().0 as i64)
                    && (2..=COLUMNS).all(|c| table.decode(c, seen.row, &copy) == first);
            }
            mutant::enter(None);
            whole
        });
        let mut changed = ColumnSet::default();
        (1..=COLUMNS).for_each(|c| changed.insert(c));
        let writing = job.enter(0);
        for n in 1..rounds {
            if reader.is_finished() {
                break;
            }
            let mut image = vec![0; table.layout.words];
            for (column, value) in (0..).zip(row(n)) {
                let cell = table.layout.encode(column, &value, 0).expect("room");
                table.layout.set(column, cell, &mut image);
            }
            let at = Timestamp(n as u64);
            let (stamp, image) = (Stamp::default(), Some(&image[..]));
            let new =
                NewVersion { tuple, image, changed: &changed, base: None, at, order: at, stamp };
            table.install(&new, None, 0).expect("room");
            let sight = multiversion::chains::Sight { horizon: at, readers: None };
            table.prune(tuple, &sight, at);
            test_mode::pause();
        }
        drop(writing);
        stop.store(true, Ordering::Relaxed);
        reader.join().expect("no panic")
    })
}

#[test]
fn rows_in_place_are_read_whole() {
    for storage in [multiversion::spec::Storage::Delta, multiversion::spec::Storage::TimeTravel] {
        let spec = TableSpec { storage, ..TableSpec::default() };
        for (rounds, test_mode) in [(100_000, TestMode::shaken(1)), (1_000, TestMode::chosen(1))] {
            assert!(reads_whole_rows(spec, None, rounds, test_mode), "{storage:?}, {test_mode:?}");
        }
    }
}
