//! Collectors take everything that no transaction sees, and nothing else.

use multiversion::rules::mvto::Mvto;
use multiversion::spec::{Collector, Storage};
use multiversion::{Rule, Session, TableSpec};

use crate::study::script::{Act, Model, Program, Stage, database, schema};
use crate::study::{SERIALIZABLE, with_rule};

/// Versions that are left when every row has just the newest.
fn least(spec: TableSpec, rows: usize) -> usize {
    match spec.storage {
        Storage::NewestFirst | Storage::OldestFirst => rows,
        Storage::TimeTravel | Storage::Delta => 0,
    }
}

fn churn<R: Rule>(stage: &mut Stage<'_, R>, rounds: i64) {
    for round in 0..rounds {
        for key in 0..8 {
            stage.alone(&[Act::Add(key, 1), Act::Read((key + 1) % 8)]);
        }
        stage.alone(&[Act::Delete(round % 8)]);
        stage.alone(&[Act::Insert(round % 8, round)]);
    }
}

fn rows() -> Model {
    (0..8).map(|key| (key, 10 * key)).collect()
}

fn leaves_least<R: Rule>(spec: TableSpec) -> (usize, usize) {
    let db = database::<R>(spec, 1);
    {
        let mut stage = Stage::<R>::new(&db);
        stage.reset(&rows());
        churn(&mut stage, 40);
    }
    // Sessions have ended; what they left to others is collected, then nothing is left.
    for _ in 0..3 {
        db.vacuum(true);
    }
    (db.versions(), least(spec, 8))
}

#[test]
fn every_collector_takes_everything_that_nobody_sees() {
    for spec in TableSpec::all() {
        for name in SERIALIZABLE {
            let (left, least) = with_rule!(name, R => leaves_least::<R>(spec));
            match spec.collector {
                Collector::None => assert!(left > 300, "{name} {spec}: {left}"),
                _ => assert_eq!(left, least, "{name} {spec}"),
            }
        }
    }
}

/// Without a pass in the background: what a collector does by itself while work goes on.
#[test]
fn collectors_in_the_foreground_keep_up() {
    for storage in Storage::ALL {
        for collector in [Collector::Transaction, Collector::Interval, Collector::Cooperative] {
            let spec = TableSpec { storage: *storage, collector, ..TableSpec::default() };
            if spec.check().is_err() {
                continue;
            }
            let db = database::<Mvto>(spec, 1);
            let mut stage = Stage::<Mvto>::new(&db);
            stage.reset(&rows());
            let mut most = 0;
            for _ in 0..30 {
                churn(&mut stage, 4);
                most = most.max(db.versions());
            }
            assert!(most < 200, "{spec}: {most} versions at once");
        }
    }
}

#[test]
fn what_an_old_reader_sees_stays() {
    for spec in TableSpec::all() {
        for name in SERIALIZABLE {
            with_rule!(name, R => {
                let db = database::<R>(spec, 1);
                let mut stage = Stage::<R>::new(&db);
                stage.reset(&rows());
                let everything = Act::Keys(0, 99);
                let by_value = Act::Values(0, 999);
                let reader = Program {
                    acts: vec![everything, everything, by_value],
                    fails: false,
                    read_only: true,
                };
                let mut churned = 0;
                let answers = stage.interrupted(&reader, |stage| {
                    churned += 1;
                    churn(stage, 12);
                    db.vacuum(true);
                });
                assert!(churned > 0);
                assert_eq!(answers[0], answers[1], "{name} {spec}");
                let mut sorted = answers[2].clone();
                sorted.sort_unstable();
                assert_eq!(answers[0], sorted, "{name} {spec}");
            });
        }
    }
}

/// The thesis's future work: a reader of hours keeps one version of a row, not all that came since.
#[test]
fn intervals_are_collected_while_an_old_reader_runs() {
    for storage in Storage::ALL {
        let left = |collector| {
            let spec = TableSpec { storage: *storage, collector, ..TableSpec::default() };
            let db = database::<Mvto>(spec, 1);
            let mut stage = Stage::<Mvto>::new(&db);
            stage.reset(&rows());
            let reader = Program { acts: vec![Act::Keys(0, 99); 2], fails: false, read_only: true };
            let mut left = 0;
            stage.interrupted(&reader, |stage| {
                (0..400).for_each(|round| drop(stage.alone(&[Act::Add(round % 8, 1)])));
                db.vacuum(true);
                left = left.max(db.versions());
            });
            left
        };
        let (by_horizon, by_interval) = (left(Collector::Transaction), left(Collector::Interval));
        // All 400 old ones, against one of each row and what has come since the last look.
        assert!(by_horizon >= 400, "{}: {by_horizon}", storage.name());
        assert!(by_interval <= 8 + 8, "{}: {by_interval}", storage.name());
    }
}

/// Long strings are shared by versions and freed by the last.
#[test]
fn a_long_string_goes_with_the_last_version_that_has_it() {
    use concurrency::Moment;
    use procedure::ProgramResult;
    use procedure::access::{Access, Command, CommandCode};
    use procedure::{Budget, Expr, Reg};
    use smallvec::smallvec;
    use types::{DataType, Key, TableSchema, Value};

    for storage in Storage::ALL {
        for shared_strings in [true, false] {
            let mut columns = schema().columns.clone();
            columns.extend((0..4).map(|n| types::ColumnSchema {
                name: format!("s{n}"),
                data_type: DataType::Text,
                nullable: false,
                dropped: false,
            }));
            let wide = TableSchema { columns, indexes: Vec::new(), ..(*schema()).clone() };
            let spec = TableSpec { storage: *storage, shared_strings, ..TableSpec::default() };
            let db = multiversion::Database::new([wide.into()], |_| spec, 2, true);
            let long = |n: usize| Value::text(format!("{n:0>100}"));
            let row: Vec<Value> =
                [Value::Int(1), Value::Int(0)].into_iter().chain((0..4).map(long)).collect();
            let key = Key::from_int(1);
            db.load(crate::study::script::TABLE, &key, &row, types::Stamp::default()).unwrap();
            let table = db.tables().next().unwrap();
            let strings = || table.layout.strings.units_in_use();
            assert_eq!(strings(), 4);
            let mut session = Session::<Mvto>::open(&db, 0);
            for n in 0..50usize {
                let column = 2 + (n % 4) as u16;
                let code =
                    CommandCode::new(Box::new([(column, Expr::Reg(Reg(0)))]), Box::default());
                let (inputs, allowance) = (smallvec![long(n + 10)], Budget::default());
                let command = Command { code: code.into(), inputs, allowance };
                session.begin(Moment { height: 1, position: n as u32, now_us: 0 }, false);
                let found =
                    session.transaction().update(crate::study::script::TABLE, &key, command);
                assert_eq!(found, Ok(true));
                session.end(Ok(ProgramResult::default())).unwrap();
            }
            session.collect();
            session.begin(Moment { height: 1, position: 99, now_us: 0 }, false);
            let mut out = vec![Value::Null; 4];
            let read = session.transaction().read(
                crate::study::script::TABLE,
                &key,
                &[2, 3, 4, 5],
                &mut out,
            );
            assert!(read.unwrap().is_some());
            assert_eq!(out, [58, 59, 56, 57].map(long), "{}", storage.name());
            session.end(Ok(ProgramResult::default())).unwrap();
            session.collect();
            assert_eq!(strings(), 4, "{}, shared: {shared_strings}", storage.name());
        }
    }
}
