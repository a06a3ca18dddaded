//! The product's way, measured like the techniques: a snapshot is a pinned height, a scan reads
//! images that are patched from the rows that blocks have touched since.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use kit::random::Random;
use snapshot::Images;
use storage::{Snapshot, Store, Table};
use types::{ColumnId, ColumnSchema, DataType, Height, Key, Stamp, TableId, TableSchema, Value};

use super::{Cost, Sizes, shuffled};

const TABLE: TableId = TableId(1);

const PINS: u32 = 1_000;

/// Images never have to go.
const IMAGES_BYTES_MAX: u64 = 8 << 30;

/// A table of a key and so many other columns, all integers.
pub struct Rows {
    pub store: Arc<Store>,
    pub table: Arc<Table>,
    pub images: Arc<Images>,
    height: Height,
}

fn schema(columns: usize) -> Arc<TableSchema> {
    let column = |name: String| ColumnSchema::new(name, DataType::Int8);
    let columns = (0..=columns).map(|at| column(format!("c{at}"))).collect();
    Arc::new(TableSchema {
        id: TABLE,
        name: "t".to_owned(),
        columns,
        primary_key: vec![0],
        indexes: Vec::new(),
        hidden_row_id: false,
    })
}

impl Rows {
    pub fn filled(rows: usize, columns: usize) -> Rows {
        let store = Arc::new(Store::new());
        let table = store.create_table(schema(columns));
        let images = Arc::new(Images::new(store.clone(), IMAGES_BYTES_MAX));
        let mut filled = Rows { store, table, images, height: 0 };
        let mut row = vec![Value::Int(1); columns + 1];
        filled.block(|table, stamp, undo| {
            for key in 0..rows as i64 {
                row[0] = Value::Int(key);
                table.insert(Key::from_int(key).as_bytes(), &row, stamp, undo);
            }
        });
        filled
    }

    /// One block that is not read afterwards.
    pub fn block(&mut self, write: impl FnOnce(&Table, Stamp, &mut storage::UndoArena)) {
        self.height += 1;
        let mut block = self.store.begin_block(self.height, 1);
        write(&self.table, Stamp::new(self.height, 0), block.arena(0));
        self.store.finish_unread(block);
        self.store.publish(self.height);
    }

    /// Changes one column of each of these rows in one block; the time for each.
    fn update(&mut self, rows: &[usize]) -> Result<Duration> {
        let slots: Option<Vec<_>> =
            rows.iter().map(|&row| self.table.find(Key::from_int(row as i64).as_bytes())).collect();
        let slots = slots.context("a row that was inserted")?;
        let start = Instant::now();
        self.block(|table, stamp, undo| {
            for slot in slots {
                table.update(slot, &[(1, Value::Int(2))], stamp, undo);
            }
        });
        Ok(start.elapsed() / rows.len().max(1) as u32)
    }

    /// The sum of one column.
    pub fn scan(&self, snapshot: &Arc<Snapshot>, column: ColumnId) -> Result<i64> {
        let scan = self.images.scan(snapshot.clone(), TABLE).context("the table")?;
        let mut sum = 0i64;
        for group in 0..scan.groups() {
            let read = scan.read(group, &[column]).map_err(anyhow::Error::msg)?;
            let values = read.columns[0].as_primitive::<Int64Type>().values();
            sum = values.iter().fold(sum, |sum, value| sum.wrapping_add(*value));
        }
        Ok(sum)
    }

    fn timed_scan(&self, snapshot: &Arc<Snapshot>) -> Result<Duration> {
        let start = Instant::now();
        std::hint::black_box(self.scan(snapshot, 1)?);
        Ok(start.elapsed())
    }
}

/// As many rows are modified as the techniques modify pages.
pub fn measure(sizes: Sizes, modified: usize) -> Result<Cost> {
    let mut rows = Rows::filled(sizes.rows(), sizes.columns);
    let older = Arc::new(rows.store.snapshot());
    rows.scan(&older, 1)?;
    drop(older);
    let order = shuffled(sizes.rows(), &mut Random::new(7));
    rows.update(&order[..modified])?;
    let start = Instant::now();
    let pins: Vec<Snapshot> = (0..PINS).map(|_| rows.store.snapshot()).collect();
    let pinned = start.elapsed() / PINS;
    drop(pins);
    let snapshot = Arc::new(rows.store.snapshot());
    let first_store = rows.update(&order[..1_000.min(order.len())])?;
    let first_scan = rows.timed_scan(&snapshot)?;
    let later_scan = rows.timed_scan(&snapshot)?;
    Ok(Cost {
        technique: "pin + images",
        modified_pages: modified,
        freezes: vec![pinned],
        freezes_everything: true,
        first_store,
        first_scan,
        later_scan,
    })
}
