//! What pins, first scans, clean scans and scans beside writers cost.
//!
//! ```text
//! cargo run --release -p analytics --example image_cost [-- ROWS]
//! ```
//!
//! One table of eight `bigint` columns; a scan sums one of them by SQL on one thread. Milliseconds
//! are the best of several, on the wall.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use analytics::{Analytics, AnalyticsOptions, Query};
use kit::random::Random;
use storage::{Store, Table};
use types::{ColumnSchema, DataType, Key, Stamp, TableId, TableSchema, Value};

const COLUMNS: u16 = 8;
const TABLE: TableId = TableId(1);

fn schema() -> Arc<TableSchema> {
    let columns = (0..COLUMNS).map(|place| ColumnSchema {
        name: format!("c{place}"),
        data_type: DataType::Int8,
        nullable: false,
        dropped: false,
    });
    Arc::new(TableSchema {
        id: TABLE,
        name: "t".into(),
        columns: columns.collect(),
        primary_key: vec![0],
        indexes: Vec::new(),
        hidden_row_id: false,
    })
}

fn load(store: &Store, rows: u64) -> Arc<Table> {
    let table = store.create_table(schema());
    let mut block = store.begin_block(1, 1);
    for key in 0..rows {
        let row: Vec<Value> =
            (0..COLUMNS).map(|c| Value::Int((key + u64::from(c)) as i64)).collect();
        let stamp = Stamp::new(1, 0);
        table.insert(Key::from_int(key as i64).as_bytes(), &row, stamp, block.arena(0));
    }
    store.finish_unread(block);
    store.publish(1);
    table
}

/// Updates of one column of random rows, `count` a block.
struct Writer {
    store: Arc<Store>,
    table: Arc<Table>,
    random: Random,
    rows: u64,
    height: u64,
}

impl Writer {
    fn block(&mut self, count: usize) {
        self.height += 1;
        let mut block = self.store.begin_block(self.height, 1);
        for place in 0..count {
            let key = self.random.below(self.rows) as i64;
            let slot = self.table.find(Key::from_int(key).as_bytes()).expect("a row");
            let stamp = Stamp::new(self.height, place as u32);
            self.table.update(slot, &[(3, Value::Int(key))], stamp, block.arena(0));
        }
        self.store.finish_unread(block);
        self.store.publish(self.height);
        self.store.collect();
    }
}

fn best_ms(times: usize, mut run: impl FnMut()) -> f64 {
    let one = |_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64() * 1e3
    };
    (0..times).map(one).fold(f64::INFINITY, f64::min)
}

fn main() {
    let rows: u64 = std::env::args().nth(1).map_or(1_000_000, |rows| rows.parse().expect("rows"));
    let store = Arc::new(Store::new());
    let table = load(&store, rows);
    let options = AnalyticsOptions {
        threads: 1,
        image_bytes_max: 4 << 30,
        query_bytes_max: 1 << 30,
        spill_folder: None,
    };
    let analytics = Analytics::new(store.clone(), &options).expect("analytics");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let tables = [("t".to_owned(), TABLE)];
    let sum = || {
        let snapshot = Arc::new(store.snapshot());
        let query = Query { snapshot, tables: &tables, text: "SELECT sum(c3) FROM t" };
        runtime.block_on(analytics.run(&query)).expect("a sum");
    };
    let pin_us = best_ms(1_000, || drop(store.snapshot())) * 1e3;
    let first = best_ms(1, sum);
    let clean = best_ms(20, sum);
    println!("rows {rows}: pin {pin_us:.2} us, first scan {first:.2} ms, clean scan {clean:.3} ms");

    let mut writer =
        Writer { store: store.clone(), table, random: Random::new(7), rows, height: 1 };
    for touched in [100, 1_000, 10_000, 100_000] {
        let mut scan = f64::INFINITY;
        for _ in 0..5 {
            writer.block(touched);
            scan = scan.min(best_ms(1, sum));
        }
        println!("after {touched} updates: {scan:.3} ms");
    }
    beside_writers(&mut writer, &sum);
}

/// Scans one after the other while updates come at a rate, and as fast as they can.
fn beside_writers(writer: &mut Writer, sum: &dyn Fn()) {
    for rate in [Some(10_000u64), None] {
        let alone = updates_a_second(writer, rate, None);
        let (done, scans) = (AtomicBool::new(false), AtomicU64::new(0));
        let start = Instant::now();
        let together = std::thread::scope(|scope| {
            let writing = scope.spawn(|| updates_a_second(writer, rate, Some(&done)));
            while start.elapsed() < Duration::from_secs(2) {
                sum();
                scans.fetch_add(1, Ordering::Relaxed);
            }
            done.store(true, Ordering::Relaxed);
            writing.join().expect("the writer")
        });
        let each_ms = start.elapsed().as_secs_f64() * 1e3 / scans.into_inner() as f64;
        let rate = rate.map_or("no limit".to_owned(), |rate| format!("{rate} a second"));
        println!(
            "updates, {rate}: {alone:.0}/s alone, {together:.0}/s beside scans of {each_ms:.3} ms"
        );
    }
}

/// Until `done`, or for a second.
fn updates_a_second(writer: &mut Writer, rate: Option<u64>, done: Option<&AtomicBool>) -> f64 {
    const BLOCK: usize = 1_000;
    let start = Instant::now();
    let mut count = 0u64;
    loop {
        let over = match done {
            Some(done) => done.load(Ordering::Relaxed),
            None => start.elapsed() > Duration::from_secs(1),
        };
        if over {
            return count as f64 / start.elapsed().as_secs_f64();
        }
        let block = if rate.is_some() { BLOCK / 10 } else { BLOCK };
        writer.block(block);
        count += block as u64;
        if let Some(rate) = rate {
            let due = Duration::from_secs_f64(count as f64 / rate as f64);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
    }
}
