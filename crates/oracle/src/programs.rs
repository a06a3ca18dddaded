//! Random programs for the oracle: small, hostile, and complete in what they mix.
//!
//! One table with a secondary index and a handful of keys, and programs of up to six operations: value
//! reads that feed later writes (chains), blind writes, commands with and without checks,
//! inserts, deletes, range scans over both indexes, existence reads, and user aborts. Every register
//! is emitted at the end, so what a transaction saw is part of its outcome.

use std::ops::Bound;
use std::sync::Arc;

use concurrency::{Statement, Work};
use kit::random::Random;
use procedure::query::{Aggregate, AggregateFunction, Query};
use procedure::step::{Column, OnError, Output, Procedure, Step};
use procedure::{BinaryOp, Check, CommandCode, Expr, Reg};
use types::{
    ColumnId, ColumnSchema, DataType, Error, IndexSchema, SqlState, TableId, TableSchema, Value,
};

pub const TABLE: TableId = TableId(1);
const ID: ColumnId = 0;
const A: ColumnId = 1;
const B: ColumnId = 2;

/// `t (id bigint primary key, a bigint, b bigint)` with an index on `a`.
pub fn schema() -> Arc<TableSchema> {
    let column = |name: &str, nullable| ColumnSchema {
        name: name.into(),
        data_type: DataType::Int8,
        nullable,
        dropped: false,
    };
    Arc::new(TableSchema {
        id: TABLE,
        name: "t".into(),
        columns: vec![column("id", false), column("a", true), column("b", true)],
        primary_key: vec![ID],
        indexes: vec![IndexSchema {
            name: "t_a".into(),
            columns: vec![A],
            unique: false,
            dropped: false,
        }],
        hidden_row_id: false,
    })
}

/// One operation. Keys and values may come from what was read before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Read,
    Exists,
    Add,
    /// `b = b + n` that must stay within 0..=LIMIT.
    CheckedAdd,
    /// `a = value read before`.
    Set,
    /// `a = n`: blind.
    BlindSet,
    /// Rejects the transaction when the key is taken.
    Insert,
    /// Does nothing when the key is taken.
    InsertIfAbsent,
    Delete,
    SumRange,
    CountIndexRange,
    /// The first row of an index range, in index order: an early end of a scan.
    FirstInRange,
    /// Rejects the transaction unless what was read last is small.
    Require,
}

pub const OPERATIONS: [Operation; 13] = [
    Operation::Read,
    Operation::Exists,
    Operation::Add,
    Operation::CheckedAdd,
    Operation::Set,
    Operation::BlindSet,
    Operation::Insert,
    Operation::InsertIfAbsent,
    Operation::Delete,
    Operation::SumRange,
    Operation::CountIndexRange,
    Operation::FirstInRange,
    Operation::Require,
];

/// Values that `CheckedAdd` may reach.
pub const LIMIT: i64 = 40;

/// Builds one program operation by operation.
#[derive(Default)]
pub struct Builder {
    steps: Vec<Step>,
    registers: u16,
    /// Holds what was read last.
    last: Option<Reg>,
    emitted: Vec<Reg>,
}

impl Builder {
    pub fn push(&mut self, operation: Operation, key: i64, number: i64) {
        match operation {
            Operation::Read => {
                let out = self.register();
                self.register();
                let found = self.register();
                let columns = Box::new([A, B]);
                self.steps.push(Step::Read {
                    table: TABLE,
                    key: at(key),
                    columns,
                    out,
                    found,
                });
                self.last = Some(out);
            }
            Operation::Exists => {
                let found = self.register();
                self.steps.push(Step::Exists {
                    table: TABLE,
                    key: at(key),
                    found,
                });
            }
            Operation::Add => self.update(key, number, A, add(A), Box::default()),
            Operation::CheckedAdd => self.update(key, number, B, add(B), within_limit(B)),
            Operation::BlindSet => self.update(key, number, A, Expr::Reg(Reg(0)), Box::default()),
            Operation::Set => {
                let code = CommandCode::new(Box::new([(A, Expr::Reg(Reg(0)))]), Box::default());
                let input = self.last.map_or(Expr::Const(Value::Int(number)), Expr::Reg);
                self.command(key, code, input);
            }
            Operation::Insert | Operation::InsertIfAbsent => self.insert(operation, key, number),
            Operation::Delete => {
                let found = self.register();
                self.steps.push(Step::Delete {
                    table: TABLE,
                    key: at(key),
                    found,
                });
            }
            Operation::SumRange => self.aggregate(0, key, key + 3, AggregateFunction::Sum),
            Operation::CountIndexRange => {
                self.aggregate(1, number, number + 5, AggregateFunction::Count)
            }
            Operation::FirstInRange => {
                let (out, found) = (self.register(), self.register());
                let query = scan(1, number - 3, number + 9);
                self.steps.push(Step::Fetch {
                    query,
                    outputs: Box::new([out]),
                    found,
                    strict: false,
                });
                self.last = Some(out);
            }
            Operation::Require => {
                let Some(last) = self.last else { return };
                let small = binary(BinaryOp::Less, Expr::Reg(last), constant(LIMIT));
                let error = OnError::new(SqlState::RAISE_EXCEPTION, "too large");
                let unknown = Expr::IsNull {
                    input: Box::new(Expr::Reg(last)),
                    negated: false,
                };
                let condition = Expr::Or(Box::new([unknown, small]));
                self.steps.push(Step::Require { condition, error });
            }
        }
    }

    pub fn finish(mut self) -> Arc<Work> {
        let values = self
            .emitted
            .iter()
            .map(|&register| Expr::Reg(register))
            .collect();
        self.steps.push(Step::Emit { values });
        let column = |_| Column {
            name: "?".into(),
            data_type: DataType::Unknown,
        };
        let procedure = Procedure {
            name: "random".into(),
            parameters: Vec::new(),
            registers: self.registers,
            body: self.steps.into(),
            output: Output::Rows(self.emitted.iter().map(column).collect()),
            tag: "CALL".into(),
            read_only: false,
            register_names: Box::default(),
        };
        let procedure = Arc::new(procedure);
        Arc::new(Work::Statement(Statement {
            procedure,
            arguments: Box::default(),
        }))
    }

    fn register(&mut self) -> Reg {
        let register = Reg(self.registers);
        self.registers += 1;
        self.emitted.push(register);
        register
    }

    fn update(&mut self, key: i64, number: i64, column: ColumnId, to: Expr, checks: Box<[Check]>) {
        let code = CommandCode::new(Box::new([(column, to)]), checks);
        self.command(key, code, constant(number));
    }

    fn command(&mut self, key: i64, code: CommandCode, input: Expr) {
        let found = self.register();
        self.steps.push(Step::Update {
            table: TABLE,
            key: at(key),
            code: Arc::new(code),
            inputs: Box::new([input]),
            found,
        });
    }

    fn insert(&mut self, operation: Operation, key: i64, number: i64) {
        let inserted = self.register();
        self.steps.push(Step::Insert {
            table: TABLE,
            key: Box::new([ID]),
            hidden_row_id: false,
            values: Box::new([constant(key), constant(number), constant(number % 7)]),
            inserted,
        });
        if operation == Operation::Insert {
            let error = OnError::new(SqlState::UNIQUE_VIOLATION, "duplicate key");
            self.steps.push(Step::Require {
                condition: Expr::Reg(inserted),
                error,
            });
        }
    }

    fn aggregate(&mut self, index: u16, low: i64, high: i64, function: AggregateFunction) {
        let out = self.register();
        let found = self.register();
        let query = Query::Aggregate {
            input: Box::new(scan(index, low, high)),
            groups: Box::default(),
            aggregates: Box::new([Aggregate {
                function,
                input: Some(Expr::Column(0)),
                distinct: false,
                filter: None,
                result: DataType::Int8,
            }]),
        };
        self.steps.push(Step::Fetch {
            query,
            outputs: Box::new([out]),
            found,
            strict: false,
        });
        self.last = Some(out);
    }
}

fn scan(index: u16, low: i64, high: i64) -> Query {
    Query::Scan {
        table: TABLE,
        index,
        nullable: Box::new([index == 1]),
        low: Bound::Included(Box::new([constant(low)])),
        high: Bound::Included(Box::new([constant(high)])),
        reverse: low % 2 == 0,
        columns: Box::new([A]),
        filter: None,
    }
}

fn constant(number: i64) -> Expr {
    Expr::Const(Value::Int(number))
}

fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    let result = if op.is_comparison() {
        DataType::Bool
    } else {
        DataType::Int8
    };
    Expr::Binary {
        op,
        left: Box::new(left),
        right: Box::new(right),
        result,
    }
}

fn at(key: i64) -> Box<[Expr]> {
    Box::new([constant(key)])
}

fn add(column: ColumnId) -> Expr {
    binary(BinaryOp::Add, Expr::Column(column), Expr::Reg(Reg(0)))
}

fn within_limit(column: ColumnId) -> Box<[Check]> {
    let at_least = binary(BinaryOp::GreaterOrEqual, Expr::Column(column), constant(0));
    let at_most = binary(BinaryOp::LessOrEqual, Expr::Column(column), constant(LIMIT));
    Box::new([Check {
        condition: Expr::And(Box::new([at_least, at_most])),
        error: Error::new(SqlState::CHECK_VIOLATION, "out of limits"),
    }])
}

/// A random program over `keys` keys.
pub fn random_program(random: &mut Random, keys: u64, operations_max: u64) -> Arc<Work> {
    let mut builder = Builder::default();
    for _ in 0..=random.below(operations_max) {
        let operation = OPERATIONS[random.below(OPERATIONS.len() as u64) as usize];
        // Keys lean towards the first, so that blocks have a hot record.
        let key = random.below(keys).min(random.below(keys)) as i64;
        let number = random.below(20) as i64 - 6;
        builder.push(operation, key, number);
    }
    builder.finish()
}

/// Programs that fill the table.
pub fn fill(keys: u64) -> Vec<Arc<Work>> {
    (0..keys as i64)
        .map(|key| {
            let mut builder = Builder::default();
            builder.push(Operation::Insert, key, key + 3);
            builder.finish()
        })
        .collect()
}
