//! What a YCSB transaction costs a rule of the study: two threads, no disk, no sealing.
//!
//! `cargo run --release -p multiversion --example multiversion_cost -- RULE TABLES THREADS THETA
//! ROWS COUNT`, `TABLES` as in `storage=delta:gc=interval`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use concurrency::{Moment, Statement, Work};
use multiversion::prefetching::GROUP;
use multiversion::rules::{mv2pl::Mv2pl, mvocc::Mvocc, mvto::Mvto, si::Si, ssi::Ssi, ssn::Ssn};
use multiversion::{Database, Rule, Session, TableSpec};
use procedure::build::Tables;
use types::schema::{ColumnSchema, TableSchema};
use types::{DataType, Key, Stamp, TableId, Value};
use workloads::{Settings, ycsb};

const TABLE: TableId = TableId(1);
const EPOCH: Duration = Duration::from_millis(10);

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let text = |at: usize, default: &'static str| -> String {
        args.get(at).map_or(default.to_owned(), Clone::clone)
    };
    let number = |at: usize, default: f64| -> f64 {
        args.get(at).map_or(default, |text| text.parse().expect("a number"))
    };
    let (rule, tables) = (text(1, "mvto"), text(2, ""));
    let spec = TableSpec::parse(&tables).expect("options of a table");
    let (threads, theta) = (number(3, 2.0) as usize, number(4, 0.0));
    let (rows, count) = (number(5, 1e6) as u64, number(6, 400_000.0) as usize);
    let job = Job { spec, threads, theta, rows, count };
    match &*rule {
        "mvto" => job.run::<Mvto>(),
        "mvocc" => job.run::<Mvocc>(),
        "mv2pl" => job.run::<Mv2pl>(),
        "si" => job.run::<Si>(),
        "ssi" => job.run::<Ssi>(),
        "ssn" => job.run::<Ssn>(),
        other => panic!("no rule {other}"),
    }
}

struct Job {
    spec: TableSpec,
    threads: usize,
    theta: f64,
    rows: u64,
    count: usize,
}

fn schema() -> TableSchema {
    let column =
        |name: String, data_type| ColumnSchema { name, data_type, nullable: false, dropped: false };
    let fields = (0..10).map(|i| column(format!("field{i}"), DataType::Text));
    TableSchema {
        id: TABLE,
        name: "usertable".into(),
        columns: std::iter::once(column("ycsb_key".into(), DataType::Int8)).chain(fields).collect(),
        primary_key: vec![0],
        indexes: Vec::new(),
        hidden_row_id: false,
    }
}

impl Job {
    fn run<R: Rule>(&self) {
        let mut db = Database::new([schema().into()], |_| self.spec, self.threads, R::STRIPED);
        db.mutant = None;
        for n in 1..=self.rows as i64 {
            let mut row = vec![Value::text("0123456789"); 11];
            row[0] = Value::Int(n);
            db.load(TABLE, &Key::from_int(n), &row, Stamp::default()).expect("room for the rows");
        }
        let works = self.works();
        let stop = AtomicBool::new(false);
        let (began, cpu) = (Instant::now(), cpu_time());
        let conflicts: u32 = std::thread::scope(|scope| {
            let (db, stop, works) = (&db, &stop, &works);
            let workers: Vec<_> = (0..self.threads)
                .map(|worker| {
                    scope.spawn(move || {
                        let mut session = Session::<R>::open(db, worker);
                        let mut conflicts = 0;
                        for (at, work) in works[worker].iter().enumerate() {
                            if at.is_multiple_of(GROUP) {
                                session.foresee(works[worker][at..].iter().take(GROUP));
                            }
                            let moment = Moment { height: 2, position: at as u32, now_us: 0 };
                            let ended = session.run(work, moment, false).expect("no halt");
                            assert!(ended.outcome.is_committed(), "{:?}", ended.outcome);
                            conflicts += ended.conflicts;
                        }
                        conflicts
                    })
                })
                .collect();
            let turner = scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::park_timeout(EPOCH);
                    db.clock.turn();
                    db.vacuum(false);
                }
            });
            let conflicts = workers.into_iter().map(|worker| worker.join().expect("no panic"));
            let conflicts = conflicts.sum();
            stop.store(true, Ordering::Relaxed);
            turner.thread().unpark();
            conflicts
        });
        let (wall, cpu) = (began.elapsed(), cpu_time() - cpu);
        println!(
            "{} {} threads {} theta {}: {:.0}/s, {:.0} per CPU-second, {:.2} % conflicts, \
             {} versions",
            R::NAME,
            self.spec,
            self.threads,
            self.theta,
            self.count as f64 / wall.as_secs_f64(),
            self.count as f64 / cpu.as_secs_f64(),
            100.0 * f64::from(conflicts) / self.count as f64,
            db.versions(),
        );
    }

    /// A share of the transactions for each thread.
    fn works(&self) -> Vec<Vec<Work>> {
        let tables: Tables = [Arc::new(schema())].into_iter().collect();
        let procedures: Vec<_> = ycsb::built(&tables, 10)
            .expect("the workload's procedures")
            .into_iter()
            .map(Arc::new)
            .collect();
        let settings = Settings::default().with("rows", self.rows).with("theta", self.theta);
        let workload = ycsb::ENTRY.make(&settings).expect("settings that go");
        let share = |worker: usize| {
            let calls = workload.calls(worker as u64 + 1).take(self.count / self.threads);
            let work = |call: workloads::Call| {
                let procedure = Arc::clone(&procedures[call.procedure]);
                Work::Statement(Statement { procedure, arguments: call.arguments })
            };
            calls.map(work).collect()
        };
        (0..self.threads).map(share).collect()
    }
}

/// Of all threads, those that have ended too; in hundredths of a second.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks: u64 = fields.skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}
