//! A store whose blocks are drawn at random, and its rows read the slow way.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType as ArrowType;
use kit::random::Random;
use snapshot::{Images, TableScan};
use storage::{Snapshot, Store, Table};
use types::numeric::Numeric;
use types::{ColumnSchema, DataType, Height, Key, Layout, Stamp, TableId, TableSchema, Value};

pub const TABLE: TableId = TableId(1);
pub const OTHER: TableId = TableId(2);

/// Sorted by what the first column is, which is the key.
pub type Rows = Vec<Vec<Value>>;

pub struct World {
    pub store: Arc<Store>,
    random: Random,
    height: Height,
    keys: u64,
}

fn schema(id: TableId) -> Arc<TableSchema> {
    let columns = [
        ("id", DataType::Int8),
        ("balance", DataType::Int8),
        ("flag", DataType::Bool),
        ("small", DataType::Int2),
        ("middle", DataType::Int4),
        ("price", DataType::Numeric(Some((12, 2)))),
        ("any", DataType::Numeric(None)),
        ("ratio", DataType::Float8),
        ("note", DataType::Text),
        ("bytes", DataType::Bytea),
        ("day", DataType::Date),
        ("at", DataType::Timestamptz(None)),
    ];
    let columns = columns
        .into_iter()
        .enumerate()
        .map(|(place, (name, data_type))| ColumnSchema::new(name, data_type).nullable(place > 1));
    Arc::new(TableSchema {
        id,
        name: "t".into(),
        columns: columns.collect(),
        primary_key: vec![0],
        indexes: Vec::new(),
        hidden_row_id: false,
    })
}

fn text(random: &mut Random) -> String {
    let length = [0, 3, 12, 13, 40][random.below(5) as usize];
    (0..length).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
}

fn row(random: &mut Random, key: u64) -> Vec<Value> {
    let number = |random: &mut Random, scale| {
        Value::Numeric(Numeric::from_units(i128::from(random.below(1_000_000)) - 500_000, scale))
    };
    let mut row = vec![
        Value::Int(key as i64),
        Value::Int(100),
        Value::Bool(random.chance(2)),
        Value::Int(random.below(100) as i64 - 50),
        Value::Int(random.below(1 << 30) as i64),
        number(random, 2),
        number(random, 7),
        Value::Float(random.unit()),
        Value::text(text(random)),
        Value::bytes(text(random).into_bytes()),
        Value::Date(random.below(20_000) as i32 - 10_000),
        Value::Timestamptz(random.next_u64() as i64 >> 12),
    ];
    for value in &mut row[2..] {
        if random.chance(8) {
            *value = Value::Null;
        }
    }
    row
}

impl World {
    /// With so many rows in it.
    pub fn new(seed: u64, rows: u64) -> World {
        let store = Arc::new(Store::new());
        let table = store.create_table(schema(TABLE));
        store.create_table(schema(OTHER));
        let mut world = World { store, random: Random::new(seed ^ 0x5eed), height: 0, keys: rows };
        world.block(|world, stamp, undo| {
            for key in 0..rows {
                let row = row(&mut world.random, key);
                table.insert(Key::from_int(key as i64).as_bytes(), &row, stamp, undo);
            }
        });
        world
    }

    fn block(&mut self, write: impl FnOnce(&mut World, Stamp, &mut storage::UndoArena)) {
        self.height += 1;
        let mut block = self.store.begin_block(self.height, 1);
        write(self, Stamp::new(self.height, 0), block.arena(0));
        self.store.finish_unread(block);
        self.store.publish(self.height);
    }

    pub fn table(&self) -> Arc<Table> {
        self.store.table(TABLE).expect("it was made")
    }

    pub fn set_layout(&self, layout: Layout) {
        self.store.set_layout(TABLE, layout);
    }

    pub fn run_empty_block(&mut self) {
        self.block(|_, _, _| ());
    }

    pub fn collect(&self) {
        self.store.collect();
    }

    pub fn drop_table(&self) {
        self.store.drop_table(TABLE);
    }

    /// Changes the row of a key a little.
    pub fn touch(&mut self, key: u64) {
        let table = self.table();
        self.block(|_, stamp, undo| {
            let slot = table.find(Key::from_int(key as i64).as_bytes()).expect("a row");
            table.update(slot, &[(4, Value::Int(-1))], stamp, undo);
        });
    }

    /// The same of the first so many keys, in one block.
    pub fn touch_all(&mut self, keys: u64) {
        let table = self.table();
        self.block(|_, stamp, undo| {
            for key in 0..keys {
                let slot = table.find(Key::from_int(key as i64).as_bytes()).expect("a row");
                table.update(slot, &[(4, Value::Int(-2))], stamp, undo);
            }
        });
    }

    /// Gives the row of a key another note.
    pub fn annotate(&mut self, key: u64, note: &str) {
        let table = self.table();
        self.block(|_, stamp, undo| {
            let slot = table.find(Key::from_int(key as i64).as_bytes()).expect("a row");
            table.update(slot, &[(8, Value::text(note))], stamp, undo);
        });
    }

    /// A few rows or many; inserts, deletes, whole rows and single columns, some rows twice.
    pub fn run_block(&mut self) {
        let table = self.table();
        let count = [1, 5, 60, 1_500][self.random.below(4) as usize];
        self.block(|world, stamp, undo| {
            for _ in 0..count {
                world.write(&table, stamp, undo);
            }
        });
    }

    fn write(&mut self, table: &Table, stamp: Stamp, undo: &mut storage::UndoArena) {
        let random = &mut self.random;
        let key = match random.below(10) {
            0 => {
                self.keys += 1;
                self.keys - 1
            }
            _ => random.below(self.keys),
        };
        let encoded = Key::from_int(key as i64);
        let slot = table.find(encoded.as_bytes());
        let live = slot.filter(|&slot| table.stamp(slot, storage::LATEST).is_some());
        match live {
            None => _ = table.insert(encoded.as_bytes(), &row(random, key), stamp, undo),
            Some(slot) if random.chance(5) => table.delete(slot, stamp, undo),
            Some(slot) if random.chance(3) => {
                table.update_row(slot, &row(random, key), stamp, undo);
            }
            Some(slot) => {
                let column = 2 + random.below(10) as u16;
                let value = row(random, key).swap_remove(usize::from(column));
                table.update(slot, &[(column, value)], stamp, undo);
            }
        }
    }

    /// From one row to another, so many times, in one block.
    pub fn move_money(&mut self, count: usize) {
        let table = self.table();
        self.block(|world, stamp, undo| {
            for _ in 0..count {
                let mut step = |by: i64| {
                    let key = world.random.below(world.keys) as i64;
                    let slot = table.find(Key::from_int(key).as_bytes()).expect("a row");
                    let mut balance = [Value::Null];
                    table.read(slot, storage::LATEST, &[1], &mut balance);
                    let balance = balance[0].as_int().expect("money") + by;
                    table.update(slot, &[(1, Value::Int(balance))], stamp, undo);
                };
                step(-7);
                step(7);
            }
        });
    }
}

/// What point reads find at the snapshot's height.
pub fn rows_of(snapshot: &Snapshot) -> Rows {
    let table = snapshot.table(TABLE).expect("the table");
    let mut rows = Rows::new();
    table.each_row(snapshot.height(), &mut |_, slot, _| {
        let mut row = Vec::new();
        table.read_row(slot, snapshot.height(), &mut row).expect("the row that it told of");
        rows.push(row);
        ControlFlow::Continue(())
    });
    rows
}

pub fn project(rows: &Rows, columns: &[u16]) -> Rows {
    // Arrow's decimals have one scale, so trailing zeros say nothing.
    let plain = |value: &Value| match value {
        Value::Numeric(number) => Value::Numeric(number.normalize()),
        other => other.clone(),
    };
    let pick = |row: &Vec<Value>| columns.iter().map(|&id| plain(&row[usize::from(id)])).collect();
    let mut projected: Rows = rows.iter().map(pick).collect();
    projected.sort_by_cached_key(|row| format!("{row:?}"));
    projected
}

/// What images show, in no order of their own.
pub fn scanned(images: &Arc<Images>, snapshot: &Arc<Snapshot>, columns: &[u16]) -> Rows {
    let scan = images.scan(snapshot.clone(), TABLE).expect("the table");
    let mut rows = Rows::new();
    (0..scan.groups()).for_each(|group| rows.extend(scanned_group(&scan, group, columns)));
    sorted(&rows)
}

/// The same of one group, in the order of its rows.
pub fn scanned_group(scan: &TableScan, group: usize, columns: &[u16]) -> Rows {
    let read = scan.read(group, columns).expect("values that Arrow has");
    rows_of_batch(&read.into_batch(scan.schema(columns)).expect("columns of one length"))
}

pub fn rows_of_batch(batch: &RecordBatch) -> Rows {
    let row = |place| batch.columns().iter().map(|column| value(column, place)).collect();
    (0..batch.num_rows()).map(row).collect()
}

/// Rows of all columns, in the order of [`project`].
pub fn sorted(rows: &Rows) -> Rows {
    let columns = rows.first().map_or(0, Vec::len) as u16;
    project(rows, &(0..columns).collect::<Vec<_>>())
}

pub fn total_of(images: &Arc<Images>, snapshot: &Arc<Snapshot>) -> i64 {
    let scan = images.scan(snapshot.clone(), TABLE).expect("the table");
    let totals = (0..scan.groups()).map(|group| {
        let read = scan.read(group, &[1]).expect("integers");
        let batch = read.into_batch(scan.schema(&[1])).expect("one column");
        batch.column(0).as_primitive::<Int64Type>().values().iter().sum::<i64>()
    });
    totals.sum()
}

/// Back from Arrow, by the types that Arrow says.
fn value(column: &ArrayRef, row: usize) -> Value {
    const EPOCH_DAYS: i32 = 10_957;
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        ArrowType::Boolean => Value::Bool(column.as_boolean().value(row)),
        ArrowType::Int16 => Value::Int(column.as_primitive::<Int16Type>().value(row).into()),
        ArrowType::Int32 => Value::Int(column.as_primitive::<Int32Type>().value(row).into()),
        ArrowType::Int64 => Value::Int(column.as_primitive::<Int64Type>().value(row)),
        ArrowType::Float64 => Value::Float(column.as_primitive::<Float64Type>().value(row)),
        ArrowType::Decimal128(_, scale) => {
            let units = column.as_primitive::<Decimal128Type>().value(row);
            Value::Numeric(Numeric::from_units(units, *scale as u8).normalize())
        }
        ArrowType::Utf8View => Value::text(column.as_string_view().value(row)),
        ArrowType::BinaryView => Value::bytes(column.as_binary_view().value(row).to_vec()),
        ArrowType::Date32 => {
            Value::Date(column.as_primitive::<Date32Type>().value(row) - EPOCH_DAYS)
        }
        ArrowType::Timestamp(..) => {
            let us = column.as_primitive::<TimestampMicrosecondType>().value(row);
            Value::Timestamptz(us - i64::from(EPOCH_DAYS) * 86_400_000_000)
        }
        other => panic!("a column of type {other}"),
    }
}
