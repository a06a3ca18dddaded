//! Tables and transactions for the figures: the thesis's variant of YCSB, and TPC-C with a scan.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use concurrency::{Statement, Work};
use kit::random::Random;
use procedure::build::{Builder, Tables};
use procedure::query::{Aggregate, AggregateFunction, Query};
use procedure::{Expr, Procedure};
use std::ops::{Bound, ControlFlow};
use types::{ColumnSchema, DataType, IndexSchema, Key, TableId, TableSchema, Value};
use workloads::skew::Skew;

use crate::Workload;
use crate::bed::Source;
use crate::versions::{Data, Group};

const TABLE: TableId = TableId(1);
const DRAWN: usize = 2_000;

/// One table of independent operations: a 64-bit key, then attributes of 64 bits, or of 100 bytes.
#[derive(Clone, Copy)]
pub struct Ycsb {
    pub rows: u64,
    pub attributes: usize,
    pub long: bool,
    pub operations: usize,
    pub update_percent: u32,
    /// Attributes that an update writes, and a read reads.
    pub written: usize,
    pub read: usize,
    pub theta: f64,
    pub indexes: usize,
}

impl Ycsb {
    fn attribute_type(&self) -> DataType {
        if self.long { DataType::Text } else { DataType::Int8 }
    }

    fn value(&self, random: &mut Random) -> Value {
        let number = random.below(1 << 40);
        if self.long { Value::text(format!("{number:0>100}")) } else { Value::Int(number as i64) }
    }

    fn schema(&self) -> Arc<TableSchema> {
        let column =
            |name, data_type| ColumnSchema { name, data_type, nullable: false, dropped: false };
        let attributes =
            (0..self.attributes).map(|n| column(format!("a{n}"), self.attribute_type()));
        let index = |n: usize| IndexSchema {
            name: format!("by_a{n}"),
            // The attribute that updates write is in none of them.
            columns: vec![2 + (n % (self.attributes - 1)) as u16],
            unique: false,
            dropped: false,
        };
        Arc::new(TableSchema {
            id: TABLE,
            name: "t".into(),
            columns: [column("id".into(), DataType::Int8)].into_iter().chain(attributes).collect(),
            primary_key: vec![0],
            indexes: (0..self.indexes).map(index).collect(),
            hidden_row_id: false,
        })
    }

    pub fn data(&self) -> Data {
        let mut random = Random::new(7);
        let row = |n: u64| {
            let attributes = (0..self.attributes).map(|_| self.value(&mut random));
            let row = [Value::Int(n as i64)].into_iter().chain(attributes).collect();
            (TABLE, Key::from_int(n as i64), row)
        };
        Data { schemas: vec![self.schema()], rows: (1..=self.rows).map(row).collect() }
    }

    /// Reads of some keys, then updates of others.
    fn program(&self) -> Result<Arc<Procedure>> {
        let tables: Tables = [self.schema()].into_iter().collect();
        let keys = || DataType::Array(Box::new(DataType::Int8));
        let parameters =
            [("reads", keys()), ("updates", keys()), ("content", self.attribute_type())];
        let mut p = Builder::new(&tables, "operations", &parameters);
        let [reads, updates, content] = p.arguments();
        let names: Vec<String> = (0..self.attributes).map(|n| format!("a{n}")).collect();
        p.for_each(reads, |p, key| {
            let names: Vec<&str> = names.iter().take(self.read).map(String::as_str).collect();
            p.read_columns("t", &[key], &names);
        });
        p.for_each(updates, |p, key| {
            let names = names.iter().take(self.written);
            p.update("t", &[key], names.map(|name| (name.as_str(), content.clone())).collect());
        });
        Ok(Arc::new(p.build()?))
    }

    pub fn group(&self, threads: usize, read_only: bool) -> Result<Group> {
        let procedure = self.program()?;
        let skew = Skew::zipf(self.rows, self.theta);
        let work = |random: &mut Random| {
            let keys = skew.distinct_keys(self.operations, random);
            let updates =
                (0..keys.len()).filter(|_| random.below(100) < u64::from(self.update_percent));
            let (read, updated) = keys.split_at(keys.len() - updates.count());
            let array = |keys: &[u64]| {
                Value::array(keys.iter().map(|k| Value::Int(*k as i64)).collect::<Vec<_>>())
            };
            let arguments = [array(read), array(updated), self.value(random)].into();
            Work::Statement(Statement { procedure: Arc::clone(&procedure), arguments })
        };
        let drawn = (DRAWN / self.operations).max(50);
        let share = |thread: usize| {
            let mut random = Random::new(1 + thread as u64);
            (0..drawn).map(|_| work(&mut random)).collect()
        };
        let works = (0..threads).map(share).collect();
        Ok(Group { threads, read_only, works: Arc::new(works) })
    }
}

/// TPC-C's tables, and transactions on them.
pub struct Tpcc {
    pub data: Data,
    tables: Tables,
    workload: Workload,
}

/// Places of NewOrder and of both kinds of Payment.
pub const NEW_ORDER: [usize; 1] = [0];
pub const PAYMENT: [usize; 2] = [1, 2];

impl Tpcc {
    pub fn load(workload: Workload) -> Result<Tpcc> {
        let source = Source::load(&workload)?;
        let mut rows = Vec::new();
        let stored = source.tables();
        for table in &stored {
            let columns: Vec<_> = (0..table.schema().columns.len() as u16).collect();
            let mut keep = |key: &[u8], _, row: &[Value]| {
                rows.push((table.id(), Key::from(key), row.to_vec()));
                ControlFlow::Continue(())
            };
            let all = Bound::Unbounded;
            table.scan(0, all, all, false, storage::LATEST, &columns, &mut keep);
        }
        let schemas: Vec<_> = stored.iter().map(|table| Arc::clone(table.schema())).collect();
        let tables = schemas.iter().cloned().collect();
        Ok(Tpcc { data: Data { schemas, rows }, tables, workload })
    }

    /// The standard mix, or of it only the procedures at some places.
    pub fn group(&self, threads: usize, only: &[usize]) -> Result<Group> {
        let made = self.workload.make(None)?;
        let programs: Vec<Arc<Procedure>> =
            made.programs(&self.tables)?.into_iter().map(Arc::new).collect();
        let wanted = |place: &usize| only.is_empty() || only.contains(place);
        let share = |thread: usize| {
            let calls = made.calls(1 + thread as u64).filter(|call| wanted(&call.procedure));
            let work = |call: workloads::Call| {
                let procedure = Arc::clone(&programs[call.procedure]);
                Work::Statement(Statement { procedure, arguments: call.arguments })
            };
            calls.take(DRAWN).map(work).collect()
        };
        let works = (0..threads).map(share).collect();
        Ok(Group { threads, read_only: false, works: Arc::new(works) })
    }

    /// `StockScan`: all of the stock, counted.
    pub fn scan(&self) -> Result<Group> {
        let mut p = Builder::new(&self.tables, "stock_scan", &[]);
        let input = Box::new(p.scan("stock", None, &[], &["s_quantity"]));
        let sum = Aggregate {
            function: AggregateFunction::Count,
            input: Some(Expr::Column(0)),
            distinct: false,
            filter: None,
            separator: None,
            order: Box::default(),
            result: DataType::Int8,
        };
        let (groups, aggregates) = (Box::default(), [sum].into());
        p.fetch::<1>(Query::Aggregate { input, groups, sets: Box::default(), aggregates });
        let procedure = Arc::new(p.build().map_err(|error| anyhow!("{error}"))?);
        let work = Work::Statement(Statement { procedure, arguments: Box::default() });
        Ok(Group { threads: 1, read_only: true, works: Arc::new(vec![vec![work]]) })
    }
}
