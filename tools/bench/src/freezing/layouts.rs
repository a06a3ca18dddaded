//! Two layouts under the same transactions and scans, without an interpreter, an index or a
//! protocol: what the memory itself costs.
//!
//! ```text
//!   rows and images     records updated in place, undo versions; scans of patched images
//!   columns and slabs   values and stamps in place, chains; scans of frozen slabs
//! ```
//!
//! A transaction is ten operations on rows drawn at random, five reads and five updates, each of
//! two columns. A thousand of them are a block. Everything runs on one thread; times are the
//! processor's.

use std::sync::Arc;
use std::time::Duration;

use anker::area::Area;
use anker::areas::{Physical, Slabs};
use anker::{ColumnId, Configuration, Engine, SumAndCount};
use anyhow::{Context, Result};
use kit::random::Random;
use storage::Slot;
use types::{Key, Value};

use super::product::Rows;
use crate::run::{collect, cpu_time};

const COLUMNS: usize = 8;
const BLOCK_TRANSACTIONS: usize = 1_000;
const OPERATIONS: usize = 10;

/// Blocks between two scans, where there are scans.
const SCAN_BLOCKS: usize = 10;

/// What happens besides transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConcurrentWork {
    Nothing,
    /// A snapshot of the changed columns after every block, that is not read.
    Snapshots,
    /// A scan of one changed column after every tenth block.
    Scans,
}

impl ConcurrentWork {
    pub const ALL: [ConcurrentWork; 3] =
        [ConcurrentWork::Nothing, ConcurrentWork::Snapshots, ConcurrentWork::Scans];
}

#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub rows: usize,
    pub blocks: usize,
}

#[derive(Clone, Copy, Default, Debug)]
pub struct Layout {
    /// What scans themselves cost is not in it.
    pub transactions_per_cpu_second: f64,
    /// Of one column, after ten blocks have changed it.
    pub changed_scan: Duration,
    /// Of the same column, again.
    pub quiet_scan: Duration,
}

/// A layout that can be driven.
trait Memory {
    fn block(&mut self, random: &mut Random) -> Result<()>;
    fn snapshot(&mut self) -> Result<()>;
    fn scan(&mut self) -> Result<i64>;
}

struct RowMajor {
    rows: Rows,
    slots: Vec<Slot>,
    height: u64,
}

impl RowMajor {
    fn new(size: Size) -> Result<RowMajor> {
        let rows = Rows::filled(size.rows, COLUMNS);
        let slot = |row: i64| rows.table.find(Key::from_int(row).as_bytes());
        let slots: Option<Vec<Slot>> = (0..size.rows as i64).map(slot).collect();
        Ok(RowMajor { slots: slots.context("every row was inserted")?, rows, height: 1 })
    }
}

impl Memory for RowMajor {
    fn block(&mut self, random: &mut Random) -> Result<()> {
        let (slots, height) = (&self.slots, self.height);
        let mut out = [Value::Null, Value::Null];
        self.rows.block(|table, stamp, undo| {
            for at in 0..BLOCK_TRANSACTIONS * OPERATIONS {
                let slot = slots[random.below(slots.len() as u64) as usize];
                if at % 2 == 0 {
                    table.read(slot, height, &[1, 2], &mut out);
                    std::hint::black_box(&out);
                } else {
                    let value = Value::Int(at as i64);
                    table.update(slot, &[(1, value.clone()), (2, value)], stamp, undo);
                }
            }
        });
        self.height += 1;
        collect(&self.rows.store, self.height);
        Ok(())
    }

    fn snapshot(&mut self) -> Result<()> {
        std::hint::black_box(self.rows.store.snapshot());
        Ok(())
    }

    fn scan(&mut self) -> Result<i64> {
        self.rows.scan(&Arc::new(self.rows.store.snapshot()), 1)
    }
}

struct Columnar<A: Area> {
    engine: Engine<A>,
    size: Size,
    blocks: u64,
}

impl<A: Area> Columnar<A> {
    fn new(size: Size) -> Result<Self> {
        let engine = Engine::new(Configuration::HeeAnker, &[size.rows; COLUMNS])?;
        Ok(Columnar { engine, size, blocks: 0 })
    }
}

/// No transaction reads old versions here, so all have the first timestamp and any collection frees
/// them.
const TIMESTAMP: anker::Timestamp = 0;

impl<A: Area> Memory for Columnar<A> {
    fn block(&mut self, random: &mut Random) -> Result<()> {
        let columns = [ColumnId(1), ColumnId(2)].map(|id| self.engine.column(id));
        for at in 0..BLOCK_TRANSACTIONS * OPERATIONS {
            let row = random.below(self.size.rows as u64) as usize;
            for column in columns {
                if at % 2 == 0 {
                    std::hint::black_box(column.read(row));
                } else {
                    column.install(row, at as i64, TIMESTAMP);
                }
            }
        }
        self.blocks += 1;
        if self.blocks.is_multiple_of(8) {
            self.engine.collect();
        }
        Ok(())
    }

    fn snapshot(&mut self) -> Result<()> {
        let columns = [ColumnId(1), ColumnId(2)];
        let snapshot = self.engine.snapshot(&columns);
        columns.iter().try_for_each(|&column| snapshot.column(column).map(drop))?;
        Ok(())
    }

    fn scan(&mut self) -> Result<i64> {
        Ok(self.engine.query(&SumAndCount::new(ColumnId(1)))?.words[0])
    }
}

fn drive(memory: &mut impl Memory, size: Size, work: ConcurrentWork) -> Result<Layout> {
    let mut random = Random::new(11);
    memory.block(&mut random)?;
    memory.scan()?;
    let mut layout = Layout::default();
    let (mut writing, mut scans) = (Duration::ZERO, 0u32);
    for block in 1..=size.blocks {
        let start = cpu_time();
        memory.block(&mut random)?;
        if work == ConcurrentWork::Snapshots {
            memory.snapshot()?;
        }
        writing += cpu_time() - start;
        if work == ConcurrentWork::Scans && block.is_multiple_of(SCAN_BLOCKS) {
            let start = cpu_time();
            std::hint::black_box(memory.scan()?);
            let between = cpu_time();
            std::hint::black_box(memory.scan()?);
            layout.changed_scan += between - start;
            layout.quiet_scan += cpu_time() - between;
            scans += 1;
        }
    }
    layout.changed_scan /= scans.max(1);
    layout.quiet_scan /= scans.max(1);
    let transactions = (size.blocks * BLOCK_TRANSACTIONS) as f64;
    layout.transactions_per_cpu_second = transactions / writing.as_secs_f64();
    Ok(layout)
}

pub const NAMES: [&str; 3] = ["rows and images", "columns and slabs", "columns, copied whole"];

/// One of the layouts, by its place in [`NAMES`].
pub fn measure(layout: usize, size: Size, work: ConcurrentWork) -> Result<Layout> {
    match layout {
        0 => drive(&mut RowMajor::new(size)?, size, work),
        1 => drive(&mut Columnar::<Slabs>::new(size)?, size, work),
        _ => drive(&mut Columnar::<Physical>::new(size)?, size, work),
    }
}
