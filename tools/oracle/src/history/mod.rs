//! Dependency cycles, found without asking for an order.
//!
//! *Idea.* The [twins](crate::Twin) believe the order that a protocol claims. Here no protocol is
//! asked: transactions are made so that what they answer tells from which ones they read and which
//! ones they overwrote, and the history is serializable if the graph of these dependencies has no
//! cycle (Adya, 1999). Histories that can be read this way are those of Elle (Kingsbury, Alvaro,
//! VLDB 2020): every row holds a list, a write appends one element that no other write appends, and
//! a reader gets the whole list.
//!
//! ```text
//!   row 3, as T read it            3.5.0 , 3.2.1 , 3.8.0       key . transaction . step
//!                                    └ww──►└ww────►
//!   T9 read 3.5.0 , 3.2.1          T2 ─wr─► T9 ─rw─► T8
//! ```
//!
//! Lists come and go: a row is inserted with its first element, and what deletes a row reads it
//! first, so that each list's last state is known. What saw that a row is absent, by its key or
//! because a range lacked it, comes after the one that deleted it and before the one that inserted
//! it. Where a row went and came more than once in one block it is not known which absence was
//! meant; there, and only there, edges are left out.
//!
//! Some faults show without a graph: an element of a transaction that did not commit, an element
//! that is gone, a list that is no beginning of the list that stayed.

mod graph;
mod lists;

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use concurrency::test_mode::{self, TestMode};
use concurrency::{Outcome, Protocol, Statement, Work, WorkerPool};
use kit::random::Random;
use procedure::query::{Aggregate, AggregateFunction, Query};
use procedure::step::{Column, OnError, Output, Procedure, Step};
use procedure::{BinaryOp, CommandCode, Expr, Reg};
use storage::Store;
use types::{ColumnSchema, DataType, Height, SqlState, TableId, TableSchema, Value};

use crate::course::Course;
use crate::recipe::without_one;
use crate::shrink::shrink;
pub use graph::{Cycle, Dependency, Graph};
use lists::Lists;

const TABLE: TableId = TableId(1);

/// What a transaction does to a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    Read(i64),
    /// By command: nothing is read but that the row is there.
    Append(i64),
    /// Unless the row is there.
    Insert(i64),
    /// Reads the list, then deletes the row.
    Delete(i64),
    Exists(i64),
    /// All lists of keys between two, both included.
    Range(i64, i64),
    /// Rejects the transaction unless the row is there.
    Need(i64),
}

/// What a transaction saw, in the order in which it looked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    /// A list's text.
    List(i64, String),
    Present(i64),
    Absent(i64),
    /// The transaction's own doing.
    Appended(i64, String),
    Inserted(i64, String),
    Deleted(i64),
}

/// What went wrong, in words.
pub type Anomaly = String;

/// Blocks of transactions on lists.
#[derive(Clone, Debug)]
pub struct History {
    pub keys: i64,
    pub blocks: Vec<Vec<Vec<Act>>>,
}

impl History {
    pub fn random(random: &mut Random) -> History {
        let keys = 2 + random.below(4) as i64;
        let act = |random: &mut Random| {
            let key = random.below(keys as u64).min(random.below(keys as u64)) as i64;
            match random.below(12) {
                0..=2 => Act::Read(key),
                3..=5 => Act::Append(key),
                6 => Act::Insert(key),
                7 => Act::Delete(key),
                8 => Act::Exists(key),
                9 | 10 => Act::Range(key, key + 1 + random.below(3) as i64),
                _ => Act::Need(key),
            }
        };
        let transaction = |random: &mut Random| -> Vec<Act> {
            (0..1 + random.below(4)).map(|_| act(random)).collect()
        };
        let block =
            |random: &mut Random| (0..2 + random.below(12)).map(|_| transaction(random)).collect();
        History { keys, blocks: (0..4).map(|_| block(random)).collect() }
    }

    /// Run the blocks and look for cycles in each; `Ok`: the number of dependencies that were
    /// looked at.
    pub fn check(
        &self,
        protocol: &Arc<dyn Protocol>,
        pool: &WorkerPool,
        test_mode: TestMode,
    ) -> Result<usize, Anomaly> {
        let store = Arc::new(Store::new());
        store.create_table(schema());
        let (mut dependencies, mut course) = (0, Course::behind(0, &store, protocol, 0));
        let first: Vec<Vec<Act>> = (0..self.keys / 2 + 1).map(|k| vec![Act::Insert(k)]).collect();
        for (block, height) in std::iter::once(&first).chain(&self.blocks).zip(1..) {
            let graph = check_block(block, height, &mut course, (pool, test_mode))?;
            dependencies += graph.count();
            if let Some(cycle) = graph.cycle() {
                return Err(format!("block {height} has a cycle: {cycle}"));
            }
        }
        Ok(dependencies)
    }
}

impl History {
    /// The smallest history that goes wrong as well, and how.
    pub fn smallest(
        self,
        anomaly: Anomaly,
        fails: impl Fn(&History) -> Option<Anomaly>,
    ) -> (History, Anomaly) {
        shrink(self, anomaly, candidates, fails)
    }
}

/// Without a block, a transaction or an act.
fn candidates(history: &History) -> Box<dyn Iterator<Item = History> + '_> {
    let with_blocks = |blocks| History { blocks, ..history.clone() };
    let with_block = move |at: usize, block| {
        let mut blocks = history.blocks.clone();
        blocks[at] = block;
        with_blocks(blocks)
    };
    let csns = (0..history.blocks.len()).rev();
    let fewer_blocks = without_one(&history.blocks).map(with_blocks);
    let fewer_transactions = csns.clone().flat_map(move |at| {
        without_one(&history.blocks[at]).map(move |block| with_block(at, block))
    });
    let fewer_acts = csns.flat_map(move |at| {
        let block = &history.blocks[at];
        block.iter().enumerate().flat_map(move |(csn, acts)| {
            without_one(acts).map(move |acts| {
                let mut block = block.clone();
                block[csn] = acts;
                with_block(at, block)
            })
        })
    });
    Box::new(fewer_blocks.chain(fewer_transactions).chain(fewer_acts))
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  block 1: the lists 0..={} are inserted", self.keys / 2)?;
        for (number, block) in self.blocks.iter().enumerate() {
            writeln!(f, "  block {}", number + 2)?;
            for (at, acts) in block.iter().enumerate() {
                writeln!(f, "    T{at:<3} {acts:?}")?;
            }
        }
        Ok(())
    }
}

fn check_block(
    block: &[Vec<Act>],
    height: Height,
    course: &mut Course,
    (pool, test_mode): (&WorkerPool, TestMode),
) -> Result<Graph, Anomaly> {
    let before = state(course.line().store());
    let works = block.iter().enumerate().map(|(at, acts)| work(acts, height, at));
    let works = works.collect();
    let outcome = {
        let _on = test_mode::enter(test_mode);
        course.run(pool, works)?.outcome()
    };
    let seen: Vec<Option<Vec<Seen>>> = block
        .iter()
        .enumerate()
        .map(|(at, acts)| match &outcome.outcomes[at] {
            Outcome::Committed(result) => Some(seen_by(acts, &result.rows[0], height, at)),
            _ => None,
        })
        .collect();
    Lists { height, seen: &seen, before: &before, after: &state(course.line().store()) }.graph()
}

/// The list of each key that is there.
fn state(store: &Store) -> Vec<(i64, String)> {
    let rows = crate::rows(store, TABLE).into_iter();
    let lists = rows.filter_map(|(_, _, row)| Some((row[0].as_int()?, row[1].as_text()?.into())));
    lists.collect()
}

/// An element, which its writer alone writes.
fn element(key: i64, height: Height, transaction: usize, step: usize) -> String {
    format!("{key}.{height}.{transaction}.{step}")
}

/// `lists (id bigint primary key, list text)`.
fn schema() -> Arc<TableSchema> {
    let column =
        |name: &str, data_type, nullable| ColumnSchema::new(name, data_type).nullable(nullable);
    let columns = vec![column("id", DataType::Int8, false), column("list", DataType::Text, true)];
    Arc::new(TableSchema {
        id: TABLE,
        name: "lists".into(),
        columns,
        primary_key: vec![0],
        indexes: Vec::new(),
        hidden_row_id: false,
    })
}

/// Makes the program of a transaction; all its registers are emitted, in their order.
#[derive(Default)]
struct Compiler {
    steps: Vec<Step>,
    registers: u16,
}

fn work(acts: &[Act], height: Height, transaction: usize) -> Arc<Work> {
    let mut compiler = Compiler::default();
    for (step, &act) in acts.iter().enumerate() {
        let element = |key| Value::text(element(key, height, transaction, step));
        compiler.act(act, element);
    }
    let Compiler { mut steps, registers } = compiler;
    steps.push(Step::Emit { values: (0..registers).map(|r| Expr::Reg(Reg(r))).collect() });
    let column = |_| Column { name: "?".into(), data_type: DataType::Unknown };
    let procedure = Arc::new(Procedure {
        name: "lists".into(),
        parameters: Vec::new(),
        registers,
        body: steps.into(),
        output: Output::Rows((0..registers).map(column).collect()),
        tag: "CALL".into(),
        read_only: false,
        draws: false,
        sequences: Box::default(),
        register_names: Box::default(),
    });
    Arc::new(Work::Statement(Statement { procedure, arguments: Box::default() }))
}

impl Compiler {
    fn act(&mut self, act: Act, element: impl Fn(i64) -> Value) {
        let at = |key| -> Box<[Expr]> { Box::new([Expr::Const(Value::Int(key))]) };
        match act {
            Act::Read(key) => self.read(key),
            Act::Append(key) => {
                let found = self.register();
                let comma = Expr::Const(Value::text(","));
                let longer = concat(concat(Expr::Column(1), comma), Expr::Reg(Reg(0)));
                let code = Arc::new(CommandCode::new(Box::new([(1, longer)]), Box::default()));
                let inputs = Box::new([Expr::Const(element(key))]);
                self.steps.push(Step::Update { table: TABLE, key: at(key), code, inputs, found });
            }
            Act::Insert(key) => {
                let inserted = self.register();
                let values = [Value::Int(key), element(key)].map(Expr::Const);
                self.steps.push(Step::Insert {
                    table: TABLE,
                    key: Box::new([0]),
                    hidden_row_id: false,
                    values: Box::new(values),
                    inserted,
                });
            }
            Act::Delete(key) => {
                self.read(key);
                let found = self.register();
                self.steps.push(Step::Delete {
                    table: TABLE,
                    key: at(key),
                    long: Box::default(),
                    found,
                });
            }
            Act::Exists(key) | Act::Need(key) => {
                let found = self.register();
                self.steps.push(Step::Exists { table: TABLE, key: at(key), found });
                if let Act::Need(_) = act {
                    let error = OnError::new(SqlState::RAISE_EXCEPTION, "no such list");
                    self.steps.push(Step::Require { condition: Expr::Reg(found), error });
                }
            }
            Act::Range(low, high) => self.range(at(low), at(high)),
        }
    }

    fn register(&mut self) -> Reg {
        self.registers += 1;
        Reg(self.registers - 1)
    }

    fn read(&mut self, key: i64) {
        let (out, found) = (self.register(), self.register());
        let key = Box::new([Expr::Const(Value::Int(key))]);
        self.steps.push(Step::Read { table: TABLE, key, columns: Box::new([1]), out, found });
    }

    /// One array of all lists: each says its key itself.
    fn range(&mut self, low: Box<[Expr]>, high: Box<[Expr]>) {
        let (out, found) = (self.register(), self.register());
        let scan = Query::Scan {
            table: TABLE,
            index: 0,
            nullable: Box::new([false]),
            low: Bound::Included(low),
            high: Bound::Included(high),
            reverse: false,
            columns: Box::new([1]),
            filter: None,
        };
        let all = Aggregate {
            function: AggregateFunction::ArrayAgg,
            input: Some(Expr::Column(0)),
            distinct: false,
            filter: None,
            separator: None,
            order: Box::default(),
            result: DataType::Array(Box::new(DataType::Text)),
        };
        let (input, groups) = (Box::new(scan), Box::default());
        let query =
            Query::Aggregate { input, groups, sets: Box::default(), aggregates: Box::new([all]) };
        self.steps.push(Step::Fetch { query, outputs: Box::new([out]), found, strict: false });
    }
}

fn concat(left: Expr, right: Expr) -> Expr {
    let (left, right) = (Box::new(left), Box::new(right));
    Expr::Binary { op: BinaryOp::Concat, left, right, result: DataType::Text }
}

/// Read a committed transaction's answer.
fn seen_by(acts: &[Act], answer: &[Value], height: Height, transaction: usize) -> Vec<Seen> {
    let mut answer = answer.iter();
    let mut next = || answer.next().expect("an answer for each act");
    let mut seen = Vec::new();
    for (step, &act) in acts.iter().enumerate() {
        let element = |key| element(key, height, transaction, step);
        let is = |value: &Value| *value == Value::Bool(true);
        match act {
            Act::Read(key) | Act::Delete(key) => {
                let (list, _found) = (next(), next());
                seen.push(match list.as_text() {
                    Some(list) => Seen::List(key, list.into()),
                    None => Seen::Absent(key),
                });
                if let Act::Delete(_) = act
                    && is(next())
                {
                    seen.push(Seen::Deleted(key));
                }
            }
            Act::Append(key) if is(next()) => seen.push(Seen::Appended(key, element(key))),
            Act::Insert(key) if is(next()) => {
                seen.extend([Seen::Absent(key), Seen::Inserted(key, element(key))]);
            }
            Act::Append(key) => seen.push(Seen::Absent(key)),
            Act::Insert(key) => seen.push(Seen::Present(key)),
            Act::Exists(key) | Act::Need(key) => seen.push(match is(next()) {
                true => Seen::Present(key),
                false => Seen::Absent(key),
            }),
            Act::Range(low, high) => {
                let (lists, _found) = (next(), next());
                let texts = lists.as_array().unwrap_or_default().iter();
                let texts: Vec<&str> = texts.filter_map(Value::as_text).collect();
                for key in low..=high {
                    let prefix = format!("{key}.");
                    seen.push(match texts.iter().find(|text| text.starts_with(&prefix)) {
                        Some(text) => Seen::List(key, (*text).into()),
                        None => Seen::Absent(key),
                    });
                }
            }
        }
    }
    seen
}
