//! The words that threads share without locks, under every schedule that shuttle tries:
//! `RUSTFLAGS="--cfg shuttle" cargo test -p multiversion --lib schedules`.
//!
//! * heads and versions: a writer installs and prunes at once, so that units are used again while a
//!   reader walks; the reader must see the row of its own time, whole;
//! * lock words, readers' marks, gaps: two transactions that would skew; what commits must be as
//!   the places claim;
//! * the gate: a transaction inside belongs to the epoch that it was told.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use concurrency::{Moment, Outcome};
use kit::sync::atomic::{AtomicU64, Ordering};
use kit::sync::thread;
use procedure::access::{Access, Command, CommandCode, Range};
use procedure::{Budget, Expr, ProgramResult, Reg};
use smallvec::smallvec;
use types::{ColumnSchema, DataType, Key, Stamp, TableId, TableSchema, Value};

use crate::chains::{NewVersion, Sight};
use crate::clock::{Clock, Timestamp};
use crate::database::Database;
use crate::layout::ColumnSet;
use crate::rules::Rule;
use crate::rules::{mv2pl::Mv2pl, mvocc::Mvocc, mvto::Mvto, ssi::Ssi, ssn::Ssn};
use crate::session::{Attempt, Session};
use crate::spec::{Collector, Storage, TableSpec};
use crate::table::Table;

const SCHEDULES: usize = 2_000;
const TABLE: TableId = TableId(0);

fn schema() -> Arc<TableSchema> {
    let column = |name: &str| ColumnSchema {
        name: name.to_owned(),
        data_type: DataType::Int8,
        nullable: false,
        dropped: false,
    };
    Arc::new(TableSchema {
        id: TABLE,
        name: "pair".to_owned(),
        columns: vec![column("id"), column("a"), column("b")],
        primary_key: vec![0],
        indexes: vec![],
        hidden_row_id: false,
    })
}

fn row(n: i64) -> [Value; 3] {
    [Value::Int(1), Value::Int(n), Value::Int(-n)]
}

/// Installs (n, -n) at 10 n.
fn install(table: &Table, tuple: u32, n: i64) {
    let (mut image, mut changed) = (vec![0; table.layout.words], ColumnSet::default());
    for (column, value) in (0..).zip(row(n)) {
        let cell = table.layout.encode(column, &value, 0).unwrap();
        table.layout.set(column, cell, &mut image);
    }
    [1, 2].into_iter().for_each(|column| changed.insert(column));
    let base = table.newest(tuple, &mut Vec::new()).unit;
    let at = Timestamp(10 * n as u64);
    let new = NewVersion {
        tuple,
        image: Some(&image),
        changed: &changed,
        base,
        at,
        order: at,
        stamp: Stamp::default(),
    };
    let prepared = table.prepare(&new, 0).unwrap();
    table.install(&new, prepared, 0).unwrap();
}

#[test]
fn a_reader_sees_the_row_of_its_time_while_versions_come_and_go() {
    for storage in Storage::ALL {
        let spec = TableSpec { storage: *storage, ..TableSpec::default() };
        shuttle::check_random(
            move || {
                let table = Arc::new(Table::new(schema(), spec));
                table.load(&Key::from_int(1), &row(0), Stamp::default()).unwrap();
                let tuple = table.find(&Key::from_int(1)).unwrap();
                install(&table, tuple, 1);
                // The reader stands at 15; whatever begins above and has ended is garbage.
                let readers = Some((vec![Timestamp(15)], Timestamp(u64::MAX)));
                let sight = Sight { horizon: Timestamp(10), readers };
                let writer = {
                    let table = Arc::clone(&table);
                    thread::spawn(move || {
                        for n in 2..5 {
                            install(&table, tuple, n);
                            table.prune(tuple, &sight, Timestamp(0));
                        }
                    })
                };
                let mut copy = Vec::new();
                for _ in 0..2 {
                    let seen = table.visible(tuple, None, Timestamp(15), &mut copy);
                    let values = [1, 2].map(|c| table.decode(c, seen.row, &copy).as_int());
                    assert_eq!(values, [Some(1), Some(-1)], "{storage:?}");
                }
                writer.join().unwrap();
            },
            SCHEDULES,
        );
    }
}

fn set(to: i64) -> Command {
    let code = CommandCode::new(Box::new([(1, Expr::Reg(Reg(0)))]), Box::default());
    Command {
        code: Arc::new(code),
        inputs: smallvec![Value::Int(to)],
        allowance: Budget::default(),
    }
}

/// Reads the row of one key and writes what it saw, and one more, to the other; gives its place.
fn skew<R: Rule>(
    db: &Database,
    worker: usize,
    from: i64,
    to: i64,
) -> Option<(crate::CommitSequenceNumber, i64)> {
    let mut session = Session::<R>::open(db, worker);
    session.begin(Moment { height: 1, position: worker as u32, now_us: 0 }, false);
    let mut seen = [Value::Null];
    let access = session.transaction();
    let run = access
        .read(TABLE, &Key::from_int(from), &[1], &mut seen)
        .and_then(|_| access.update(TABLE, &Key::from_int(to), set(100 + worker as i64)));
    match session.end(run.map(|_| ProgramResult::default())).unwrap() {
        Attempt::Ended(Outcome::Committed(_), csn) => Some((csn, seen[0].as_int()?)),
        _ => None,
    }
}

fn no_skew<R: Rule>() {
    shuttle::check_random(
        || {
            let spec = TableSpec { collector: Collector::None, ..TableSpec::default() };
            let db = Arc::new(Database::new([schema()], |_| spec, 2, R::STRIPED));
            for key in [1, 2] {
                let row = [Value::Int(key), Value::Int(0), Value::Int(0)];
                db.load(TABLE, &Key::from_int(key), &row, Stamp::default()).unwrap();
            }
            let other = {
                let db = Arc::clone(&db);
                thread::spawn(move || skew::<R>(&db, 1, 2, 1))
            };
            let first = skew::<R>(&db, 0, 1, 2);
            let second = other.join().unwrap();
            if let (Some((csn, seen)), Some((other_csn, other_seen))) = (first, second) {
                // The earlier saw nothing of the later, which saw the earlier's.
                let (early, late) =
                    if csn < other_csn { (seen, other_seen) } else { (other_seen, seen) };
                assert_eq!(early, 0, "{}", R::NAME);
                assert!(late >= 100, "{}: both saw nothing", R::NAME);
            }
        },
        SCHEDULES,
    );
}

#[test]
fn two_that_would_skew_do_not() {
    no_skew::<Mvto>();
    no_skew::<Mvocc>();
    no_skew::<Mv2pl>();
    no_skew::<Ssi>();
    no_skew::<Ssn>();
}

/// A scan of a range, and an insert into it: the later one knows of the earlier.
fn no_phantom<R: Rule>() {
    shuttle::check_random(
        || {
            let spec = TableSpec { collector: Collector::None, ..TableSpec::default() };
            let db = Arc::new(Database::new([schema()], |_| spec, 2, R::STRIPED));
            let row = [Value::Int(1), Value::Int(0), Value::Int(0)];
            db.load(TABLE, &Key::from_int(1), &row, Stamp::default()).unwrap();
            let inserter = {
                let db = Arc::clone(&db);
                thread::spawn(move || {
                    let mut session = Session::<R>::open(&db, 1);
                    session.begin(Moment { height: 1, position: 1, now_us: 0 }, false);
                    let row = Box::new([Value::Int(2), Value::Int(0), Value::Int(0)]);
                    let run = session.transaction().insert(TABLE, Key::from_int(2), row);
                    match session.end(run.map(|_| ProgramResult::default())).unwrap() {
                        Attempt::Ended(Outcome::Committed(_), csn) => Some(csn),
                        _ => None,
                    }
                })
            };
            let mut session = Session::<R>::open(&db, 0);
            session.begin(Moment { height: 1, position: 0, now_us: 0 }, false);
            let bound = |n| Bound::Included(Key::from_int(n));
            let (low, high) = (bound(0), bound(9));
            let range = Range { table: TABLE, index: 0, low, high, reverse: false };
            let (mut rows, access) = (0, session.transaction());
            let count = |_: &Key, _: Stamp, _: &[Value]| {
                rows += 1;
                Ok(ControlFlow::Continue(()))
            };
            // It writes as well, so that it has to stand at its commit.
            let run = access
                .scan(&range, &[0], count)
                .and_then(|()| access.update(TABLE, &Key::from_int(1), set(1)));
            let ended = session.end(run.map(|_| ProgramResult::default())).unwrap();
            let inserted = inserter.join().unwrap();
            if let (Attempt::Ended(Outcome::Committed(_), csn), Some(inserted)) = (ended, inserted)
            {
                let expected = if inserted < csn { 2 } else { 1 };
                assert_eq!(rows, expected, "{}", R::NAME);
            }
        },
        SCHEDULES,
    );
}

#[test]
fn a_range_and_an_insert_into_it_are_in_the_order_claimed() {
    no_phantom::<Mvto>();
    no_phantom::<Mvocc>();
    no_phantom::<Mv2pl>();
    no_phantom::<Ssi>();
    no_phantom::<Ssn>();
}

#[test]
fn whoever_is_inside_belongs_to_the_epoch_that_it_was_told() {
    shuttle::check_random(
        || {
            let clock = Arc::new(Clock::new(2));
            let closed = Arc::new(AtomicU64::new(0));
            let workers: Vec<_> = (0..2)
                .map(|worker| {
                    let (clock, closed) = (Arc::clone(&clock), Arc::clone(&closed));
                    thread::spawn(move || {
                        for _ in 0..2 {
                            let inside = clock.enter(worker);
                            assert!(closed.load(Ordering::SeqCst) < inside.epoch);
                            let drawn = clock.draw(worker);
                            assert_eq!(drawn.epoch(), inside.epoch);
                            clock.installed(worker);
                        }
                    })
                })
                .collect();
            for _ in 0..2 {
                let epoch = clock.turn();
                closed.store(epoch, Ordering::SeqCst);
            }
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        },
        SCHEDULES,
    );
}
