//! What the engine's operations cost on one core: CPU nanoseconds each, medians of repetitions.

use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use kit::random::Random;
use rustix::time::{ClockId, clock_gettime};
use storage::{LATEST, Store, Table};
use types::{ColumnSchema, DataType, IndexSchema, Key, Stamp, TableId, TableSchema, Value};

const ROWS: i64 = 1_000_000;
/// Rows whose records and index entries stay in the processor's caches.
const CACHED_ROWS: u64 = 4_000;
const OPS: u64 = 1_000_000;
const BLOCK_OPS: u64 = 1_000;
const REPETITIONS: usize = 5;

fn schema(id: u32, indexed: bool) -> Arc<TableSchema> {
    let column = |name: &str, data_type| ColumnSchema::new(name, data_type);
    let by_branch = IndexSchema {
        name: "by_branch".to_owned(),
        columns: vec![1],
        unique: false,
        dropped: false,
    };
    Arc::new(TableSchema {
        id: TableId(id),
        name: "accounts".to_owned(),
        columns: vec![
            column("id", DataType::Int8),
            column("branch", DataType::Int8),
            column("balance", DataType::Int8),
            column("filler", DataType::Text),
        ],
        primary_key: vec![0],
        indexes: if indexed { vec![by_branch] } else { vec![] },
        hidden_row_id: false,
    })
}

fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn report(name: &str, operations: u64, mut work: impl FnMut()) {
    let mut samples: Vec<f64> = (0..REPETITIONS)
        .map(|_| {
            let start_ns = cpu_ns();
            work();
            (cpu_ns() - start_ns) as f64 / operations as f64
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    println!("{name:<52}{:>9.1}", samples[samples.len() / 2]);
}

fn row(id: i64) -> [Value; 4] {
    [Value::Int(id), Value::Int(id % 1000), Value::Int(0), Value::text("filler")]
}

fn load(store: &Store, table: &Table, mut id_of: impl FnMut(i64) -> i64) {
    let height = store.newest() + 1;
    let mut block = store.begin_block(height, 1);
    for i in 0..ROWS {
        let id = id_of(i);
        let stamp = Stamp::new(height, i as u32);
        table.insert(Key::from_int(id).as_bytes(), &row(id), stamp, block.arena(0));
    }
    store.finish(block);
    store.publish(height);
    store.collect();
}

/// Random point operations in blocks of [`BLOCK_OPS`].
fn in_blocks(store: &Store, rows: u64, mut op: impl FnMut(i64, Stamp, &mut storage::UndoArena)) {
    let mut random = Random::new(store.newest());
    for _ in 0..OPS / BLOCK_OPS {
        let height = store.newest() + 1;
        let mut block = store.begin_block(height, 1);
        for position in 0..BLOCK_OPS {
            let id = random.below(rows) as i64;
            op(id, Stamp::new(height, position as u32), block.arena(0));
        }
        drop(store.finish(block));
        store.publish(height);
        store.collect();
    }
}

fn point_reads(table: &Table, rows: u64, columns: &[u16]) -> u64 {
    let mut random = Random::new(1);
    let mut out = vec![Value::Null; columns.len()];
    (0..OPS).fold(0u64, |sum, _| {
        let key = Key::from_int(random.below(rows) as i64);
        let slot = table.find(key.as_bytes()).expect("loaded");
        let stamp = table.read(slot, LATEST, columns, &mut out).expect("live");
        sum.wrapping_add(stamp.0)
    })
}

fn main() {
    println!("{:<52}{:>9}", "CPU ns per operation", "median");
    let store = Store::new();
    report("insert, 4 columns, keys in order", ROWS as u64, || {
        let table = store.create_table(schema(0, false));
        load(&store, &table, |i| i);
    });
    report("insert, 4 columns, keys at random", ROWS as u64, || {
        let table = store.create_table(schema(1, false));
        load(&store, &table, |i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64));
    });
    report("insert, 4 columns, secondary index", ROWS as u64, || {
        let table = store.create_table(schema(2, true));
        load(&store, &table, |i| i);
    });
    let plain = store.table(TableId(0)).expect("created above");
    let indexed = store.table(TableId(2)).expect("created above");
    for (place, rows) in [("cached", CACHED_ROWS), ("1,000,000 rows", ROWS as u64)] {
        report(&format!("find, {place}"), OPS, || {
            let mut random = Random::new(1);
            for _ in 0..OPS {
                black_box(plain.find(Key::from_int(random.below(rows) as i64).as_bytes()));
            }
        });
        report(&format!("find and read an integer, {place}"), OPS, || {
            black_box(point_reads(&plain, rows, &[2]));
        });
        report(&format!("find and read 4 columns, {place}"), OPS, || {
            black_box(point_reads(&plain, rows, &[0, 1, 2, 3]));
        });
        report(&format!("find and update an integer, {place}"), OPS, || {
            in_blocks(&store, rows, |id, stamp, undo| {
                let slot = plain.find(Key::from_int(id).as_bytes()).expect("loaded");
                plain.update(slot, &[(2, Value::Int(id))], stamp, undo);
            });
        });
    }
    let slots: Vec<_> =
        (0..CACHED_ROWS as i64).filter_map(|id| plain.find(Key::from_int(id).as_bytes())).collect();
    report("read an integer by slot, cached", OPS, || {
        let mut out = [Value::Null];
        for slot in slots.iter().cycle().take(OPS as usize) {
            black_box(plain.read(*slot, LATEST, &[2], &mut out));
        }
    });
    report("update the column of a secondary index", OPS, || {
        in_blocks(&store, ROWS as u64, |id, stamp, undo| {
            let slot = indexed.find(Key::from_int(id).as_bytes()).expect("loaded");
            let branch = Value::Int((id + i64::from(stamp.position())) % 1000);
            indexed.update(slot, &[(1, branch)], stamp, undo);
        });
    });
    report("scan, one column, per row", ROWS as u64, || {
        let mut sum = 0i64;
        let all = (Bound::Unbounded, Bound::Unbounded);
        plain.scan(0, all.0, all.1, false, LATEST, &[2], &mut |_, _, values| {
            sum = sum.wrapping_add(values[0].as_int().unwrap_or(0));
            ControlFlow::Continue(())
        });
        black_box(sum);
    });
    report("scan of 10 rows", OPS / 10, || {
        let mut random = Random::new(1);
        for _ in 0..OPS / 10 {
            let low = Key::from_int(random.below(ROWS as u64) as i64);
            let mut left = 10;
            let bounds = (Bound::Included(low.as_bytes()), Bound::Unbounded);
            plain.scan(0, bounds.0, bounds.1, false, LATEST, &[2], &mut |_, _, _| {
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
        }
    });
    report("snapshot taken and dropped", OPS, || {
        for _ in 0..OPS {
            black_box(store.snapshot());
        }
    });
    report("pin taken and dropped", OPS, || {
        for _ in 0..OPS {
            black_box(store.pins().pin_newest());
        }
    });
    let usage = plain.usage();
    println!(
        "bytes per row: {} in rows, {} in the hash index",
        usage.row_bytes / usage.records,
        usage.hash_bytes / usage.records
    );
}
