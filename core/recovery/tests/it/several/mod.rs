//! Programs over several tables: values that pass from one to another, guards on what was read,
//! loops with early ends, ranges, keys that only data tell, hidden row ids in two tables. Each of
//! the tests uses some of it.
#![allow(dead_code)]

use std::ops::Bound;
use std::sync::Arc;

use concurrency::{Statement, Work};
use kit::random::Random;
use procedure::build::{Builder, Tables, add, int, less};
use procedure::query::Query;
use procedure::step::Procedure;
use procedure::{BinaryOp, Expr};
use types::{ColumnSchema, DataType, IndexSchema, TableId, TableSchema, Value};

pub const INT: DataType = DataType::Int8;
const TABLES: [&str; 4] = ["a", "b", "c", "d"];
const LOGS: [&str; 2] = ["log_a", "log_b"];
pub const KEYS: i64 = 6;

/// Four tables of a key of two columns, two values and an index; two with hidden row ids.
pub fn schemas() -> Vec<Arc<TableSchema>> {
    let column = |name: &str, data_type| ColumnSchema::new(name, data_type);
    let keyed = TABLES.iter().zip(1..).map(|(name, id)| TableSchema {
        id: TableId(id),
        name: (*name).into(),
        columns: ["k", "l", "v", "w"].map(|name| column(name, INT)).into(),
        primary_key: vec![0, 1],
        indexes: vec![IndexSchema {
            name: "by_w".into(),
            columns: vec![3],
            unique: false,
            dropped: false,
        }],
        hidden_row_id: false,
    });
    let logs = LOGS.iter().zip(10..).map(|(name, id)| TableSchema {
        id: TableId(id),
        name: (*name).into(),
        columns: vec![column("v", INT), column("row_id", DataType::Uuid)],
        primary_key: vec![1],
        indexes: Vec::new(),
        hidden_row_id: true,
    });
    keyed.chain(logs).map(Arc::new).collect()
}

pub fn modulo(left: Expr, right: i64) -> Expr {
    let (left, right) = (Box::new(left), Box::new(int(right)));
    Expr::Binary { op: BinaryOp::Modulo, left, right, result: INT }
}

/// What the programs of a world never do.
#[derive(Clone, Copy)]
struct Spared {
    /// By table: it gets and loses no rows.
    rows: [bool; 4],
    /// The indexed column is not updated.
    indexed: bool,
}

/// A program in the making, and the values it has so far.
struct Making<'r, 't> {
    spared: Spared,
    random: &'r mut Random,
    p: &'r mut Builder<'t>,
    values: Vec<Expr>,
}

impl Making<'_, '_> {
    fn number(&mut self) -> Expr {
        int(self.random.below(KEYS as u64) as i64)
    }

    /// A value read before, an argument or a number.
    fn value(&mut self) -> Expr {
        match self.random.below(4) {
            0 => self.number(),
            _ => {
                let at = self.random.below(self.values.len() as u64) as usize;
                self.values[at].clone()
            }
        }
    }

    /// A key whose columns may be known or not.
    fn key(&mut self) -> [Expr; 2] {
        [(); 2].map(|()| match self.random.below(3) {
            0 => self.number(),
            1 => self.values[self.random.below(2) as usize].clone(),
            _ => {
                let value = self.value();
                modulo(value, KEYS)
            }
        })
    }

    fn is_spared(&self, table: &str) -> bool {
        TABLES.iter().zip(self.spared.rows).any(|(name, spared)| *name == table && spared)
    }

    fn table(&mut self) -> &'static str {
        TABLES[self.random.below(TABLES.len() as u64) as usize]
    }

    fn steps(&mut self, count: u64, depth: u64) {
        for _ in 0..count {
            self.step(depth);
        }
    }

    fn step(&mut self, depth: u64) {
        let (table, key) = (self.table(), self.key());
        match self.random.below(if depth == 0 { 9 } else { 12 }) {
            0..=2 => {
                let ([v, w], _) = self.p.read(table, &key, ["v", "w"]);
                self.values.extend([v, w].map(|e| Expr::Coalesce([e, int(1)].into())));
            }
            3..=4 => {
                let value = self.value();
                let indexed = self.random.chance(4) && !self.spared.indexed;
                let column = if indexed { "w" } else { "v" };
                let sum = add(self.p.column(table, column), value, &INT);
                let sum = modulo(sum, 1_000);
                self.p.update(table, &key, vec![(column, sum)]);
            }
            5 if !self.is_spared(table) => self.insert_or_delete(table, key),
            5..=6 => {
                let log = LOGS[self.random.below(2) as usize];
                let value = self.value();
                self.p.insert(log, vec![("v", value)]);
            }
            7 => {
                let query = self.range(table, &key);
                let query = Query::Limit { input: query.into(), limit: Some(int(1)), offset: None };
                let ([v], _) = self.p.fetch(query);
                self.values.push(Expr::Coalesce([v, int(2)].into()));
            }
            8 => {
                let value = self.value();
                let query = self.by_index(table, value);
                let ([w], _) = self.p.fetch(query);
                self.values.push(Expr::Coalesce([w, int(3)].into()));
            }
            9 => self.branch(depth),
            10 => self.counted(depth),
            _ => self.over_rows(table, key, depth),
        }
    }

    fn by_index(&mut self, table: &str, value: Expr) -> Query {
        let input = self.p.scan(table, Some("by_w"), &[value], &["v"]);
        Query::Limit { input: Box::new(input), limit: Some(int(1)), offset: None }
    }

    fn range(&mut self, table: &str, key: &[Expr; 2]) -> Query {
        match self.random.below(4) {
            0 => {
                let low = Bound::Included(key.to_vec().into());
                self.p.range(table, None, [low, Bound::Unbounded], &["v"])
            }
            _ => self.p.scan(table, None, &key[..1], &["v"]),
        }
    }

    fn insert_or_delete(&mut self, table: &str, key: [Expr; 2]) {
        let gone = self.p.delete(table, &key);
        self.values
            .push(Expr::Case { whens: [(gone, int(4))].into(), otherwise: Box::new(int(5)) });
        if self.random.chance(3) {
            return;
        }
        let [k, l] = key;
        let (v, w) = (self.value(), self.number());
        self.p.insert(table, vec![("k", k), ("l", l), ("v", v), ("w", w)]);
    }

    fn branch(&mut self, depth: u64) {
        let (left, right) = (self.value(), self.value());
        let before = self.values.len();
        let Making { spared, random, p, values } = self;
        let spared = *spared;
        let inner = |random: &mut Random, p: &mut Builder<'_>, values: &[Expr]| {
            let mut making = Making { spared, random, p, values: values.to_vec() };
            let count = 1 + making.random.below(3);
            making.steps(count, depth - 1);
            if making.random.chance(8) {
                making.p.end();
            }
        };
        p.when(less(left, right), |p| inner(random, p, values));
        self.values.truncate(before);
    }

    fn counted(&mut self, depth: u64) {
        let turns = 1 + self.random.below(3) as i64;
        let Making { spared, random, p, values } = self;
        let spared = *spared;
        let start = values[values.len() - 1].clone();
        let sum = p.for_range_carrying([int(1), int(turns)], start, |p, n, sum| {
            let mut making = Making { spared, random, p, values: values.clone() };
            making.values.extend([n, sum.clone()]);
            making.leave_turn(&sum);
            let count = 1 + making.random.below(2);
            making.steps(count, depth - 1);
            let value = making.value();
            add(sum, modulo(value, 50), &INT)
        });
        self.values.push(sum);
    }

    /// Now and then a turn ends early, by what was read.
    fn leave_turn(&mut self, sum: &Expr) {
        if self.random.chance(3) {
            let value = self.value();
            self.p.when(less(value, int(3)), |p| p.next_turn(Some(sum.clone())));
        }
    }

    fn over_rows(&mut self, table: &str, key: [Expr; 2], depth: u64) {
        let rows = self.p.scan(table, None, &key[..1], &["l", "v"]);
        let Making { spared, random, p, values } = self;
        let spared = *spared;
        p.for_rows(rows, |p, [l, v]: [Expr; 2]| {
            let mut making = Making { spared, random, p, values: values.clone() };
            making.values.extend([l, v]);
            let count = 1 + making.random.below(2);
            making.steps(count, depth - 1);
        });
    }
}

fn program(random: &mut Random, spared: Spared, tables: &Tables) -> Arc<Procedure> {
    let mut p = Builder::new(tables, "random", &[("x", INT), ("y", INT)]);
    let [x, y] = p.arguments();
    let count = 2 + random.below(5);
    let mut making = Making { spared, random, p: &mut p, values: vec![x, y] };
    making.steps(count, 2);
    Arc::new(p.build().unwrap())
}

pub fn fill(tables: &Tables) -> Vec<Arc<Work>> {
    let mut p = Builder::new(tables, "fill", &[]);
    for (table, k) in TABLES.iter().flat_map(|table| (0..KEYS).map(move |k| (table, k))) {
        for l in 0..KEYS / 2 {
            let row = [("k", k), ("l", l), ("v", k + l), ("w", k * l % KEYS)];
            p.insert(table, row.map(|(column, number)| (column, int(number))).into());
        }
    }
    vec![work(&Arc::new(p.build().unwrap()), Box::default())]
}

pub fn work(procedure: &Arc<Procedure>, arguments: Box<[Value]>) -> Arc<Work> {
    let procedure = Arc::clone(procedure);
    Arc::new(Work::Statement(Statement { procedure, arguments }))
}

/// One program, by no means a sensible one.
pub fn any_program(random: &mut Random) -> Arc<Procedure> {
    let spared = Spared { rows: [false; 4], indexed: false };
    program(random, spared, &schemas().into_iter().collect())
}

/// A block that fills the tables, then a few programs, called with random arguments in a few
/// blocks.
pub fn blocks(random: &mut Random) -> Vec<Vec<Arc<Work>>> {
    let tables: Tables = schemas().into_iter().collect();
    let count = 1 + random.below(5);
    let rows = [(); 4].map(|()| random.chance(2));
    let spared = Spared { rows, indexed: random.chance(2) };
    let programs: Vec<_> = (0..count).map(|_| program(random, spared, &tables)).collect();
    let call = |random: &mut Random| {
        let arguments = [(); 2].map(|()| Value::Int(random.below(KEYS as u64) as i64));
        let at = random.below(programs.len() as u64) as usize;
        work(&programs[at], arguments.into())
    };
    let blocks = (0..6).map(|_| (0..1 + random.below(8)).map(|_| call(random)).collect());
    [fill(&tables)].into_iter().chain(blocks.collect::<Vec<_>>()).collect()
}
