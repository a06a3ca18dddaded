//! Random programs for the oracle: small, hostile, and complete in what they mix.
//!
//! A table with a secondary index and a handful of keys, one with hidden row ids, and programs of
//! up to six operations: value reads that feed later writes (chains), blind writes, commands with
//! and without checks, inserts, deletes and both in one program, unique checks, range scans over
//! both indexes that end early or in an error, existence reads, and user aborts. Every register is
//! emitted at the end, so what a transaction saw is part of its outcome; a *silent* program emits
//! none. Beside the programs there are loads of a few rows, which may fail in the middle.

use std::ops::Bound;
use std::sync::Arc;

use concurrency::{Load, Statement, Work};
use kit::random::Random;
use procedure::query::{Aggregate, AggregateFunction, Query};
use procedure::step::{Column, OnError, Output, Procedure, Step};
use procedure::{BinaryOp, Check, CommandCode, Expr, Reg, UnaryOp};
use types::{
    ColumnId, ColumnSchema, DataType, Error, IndexSchema, SqlState, TableId, TableSchema, Value,
};

pub const TABLE: TableId = TableId(1);
/// Has hidden row ids.
pub const LOG: TableId = TableId(2);
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

/// `log (v bigint)` without a primary key, with an index on `v`.
pub fn log_schema() -> Arc<TableSchema> {
    let column = |name: &str, data_type, nullable| ColumnSchema {
        name: name.into(),
        data_type,
        nullable,
        dropped: false,
    };
    Arc::new(TableSchema {
        id: LOG,
        name: "log".into(),
        columns: vec![column("v", DataType::Int8, true), column("row_id", DataType::Uuid, false)],
        primary_key: vec![1],
        indexes: vec![IndexSchema {
            name: "log_v".into(),
            columns: vec![0],
            unique: false,
            dropped: false,
        }],
        hidden_row_id: true,
    })
}

pub fn schemas() -> [Arc<TableSchema>; 2] {
    [schema(), log_schema()]
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
    /// `a = a`: a write that changes nothing.
    Touch,
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
    /// Sums the first two rows of a key range.
    FirstTwo,
    /// Fails in the middle of a scan where a row holds `a = n`.
    DivideRange,
    /// Inserts unless a row holds `a = n` already.
    InsertUnique,
    /// Deletes and inserts the same key.
    Replace,
    /// Inserts, deletes and inserts again.
    InsertDeleteInsert,
    /// Adds a row with a hidden id.
    Log,
    /// Logs what was read last.
    LogLast,
    CountLog,
    ListLog,
    /// Reads the row whose key was read last: like the next four, it has a key that nobody can
    /// tell from the arguments.
    Follow,
    FollowAdd,
    FollowInsert,
    FollowDelete,
    FollowRange,
}

/// Operations that do not write.
pub const QUERIES: [Operation; 9] = [
    Operation::Read,
    Operation::Exists,
    Operation::SumRange,
    Operation::CountIndexRange,
    Operation::FirstInRange,
    Operation::FirstTwo,
    Operation::DivideRange,
    Operation::CountLog,
    Operation::ListLog,
];

pub const OPERATIONS: [Operation; 23] = [
    Operation::Read,
    Operation::Exists,
    Operation::Add,
    Operation::CheckedAdd,
    Operation::Set,
    Operation::BlindSet,
    Operation::Touch,
    Operation::Insert,
    Operation::InsertIfAbsent,
    Operation::Delete,
    Operation::SumRange,
    Operation::CountIndexRange,
    Operation::FirstInRange,
    Operation::Require,
    Operation::FirstTwo,
    Operation::DivideRange,
    Operation::InsertUnique,
    Operation::Replace,
    Operation::InsertDeleteInsert,
    Operation::Log,
    Operation::LogLast,
    Operation::CountLog,
    Operation::ListLog,
];

/// Operations whose keys depend on what was read before.
pub const FOLLOWERS: [Operation; 5] = [
    Operation::Follow,
    Operation::FollowAdd,
    Operation::FollowInsert,
    Operation::FollowDelete,
    Operation::FollowRange,
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
    silent: bool,
}

impl Builder {
    pub fn push(&mut self, operation: Operation, key: i64, number: i64) {
        match operation {
            Operation::Read => self.read(at(key)),
            Operation::Exists => {
                let found = self.register();
                self.steps.push(Step::Exists { table: TABLE, key: at(key), found });
            }
            Operation::Add => self.update(at(key), number, A, add(A), Box::default()),
            Operation::CheckedAdd => self.update(at(key), number, B, add(B), within_limit(B)),
            Operation::BlindSet => {
                self.update(at(key), number, A, Expr::Reg(Reg(0)), Box::default());
            }
            Operation::Touch => self.update(at(key), number, A, Expr::Column(A), Box::default()),
            Operation::Set => {
                let code = CommandCode::new(Box::new([(A, Expr::Reg(Reg(0)))]), Box::default());
                let input = self.last.map_or(Expr::Const(Value::Int(number)), Expr::Reg);
                self.command(at(key), code, input);
            }
            Operation::Insert | Operation::InsertIfAbsent => {
                self.insert(operation, constant(key), number);
            }
            Operation::Delete => self.delete(at(key)),
            Operation::SumRange => {
                self.aggregate(scan(0, key, key + 3), AggregateFunction::Sum);
            }
            Operation::Follow
            | Operation::FollowAdd
            | Operation::FollowInsert
            | Operation::FollowDelete
            | Operation::FollowRange => self.follow(operation, key, number),
            Operation::CountIndexRange => {
                self.aggregate(scan(1, number, number + 5), AggregateFunction::Count);
            }
            Operation::FirstInRange => {
                self.fetch(scan(1, number - 3, number + 9));
            }
            Operation::FirstTwo => {
                let input = Box::new(scan(0, key, key + 6));
                let limit = Some(constant(2));
                let offset = None;
                let query = Query::Limit { input, limit, offset };
                self.aggregate(query, AggregateFunction::Sum);
            }
            Operation::DivideRange => {
                let difference = binary(BinaryOp::Subtract, Expr::Column(0), constant(number));
                let quotient = binary(BinaryOp::Divide, constant(100), difference);
                let condition = binary(BinaryOp::Less, quotient, constant(50));
                let input = Box::new(scan(0, key, key + 2));
                let query = Query::Filter { input, condition };
                self.aggregate(query, AggregateFunction::Count);
            }
            Operation::InsertUnique => {
                let found = self.fetch(scan(1, number, number));
                let error = OnError::new(SqlState::UNIQUE_VIOLATION, "duplicate value");
                let condition = Expr::Unary { op: UnaryOp::Not, input: Box::new(Expr::Reg(found)) };
                self.steps.push(Step::Require { condition, error });
                self.insert(Operation::InsertIfAbsent, constant(key), number);
            }
            Operation::Replace => {
                self.delete(at(key));
                self.insert(Operation::InsertIfAbsent, constant(key), number);
            }
            Operation::InsertDeleteInsert => {
                self.insert(Operation::InsertIfAbsent, constant(key), number);
                self.delete(at(key));
                self.insert(Operation::InsertIfAbsent, constant(key), number + 1);
            }
            Operation::Log => self.log(constant(number)),
            Operation::LogLast => {
                let value = self.last.map_or_else(|| constant(number), Expr::Reg);
                self.log(value);
            }
            Operation::CountLog => {
                self.aggregate(scan_log(1, number - 2, number + 4), AggregateFunction::Count);
            }
            Operation::ListLog => {
                let everything = Query::Scan {
                    table: LOG,
                    index: 0,
                    nullable: Box::new([false]),
                    low: Bound::Unbounded,
                    high: Bound::Unbounded,
                    reverse: number % 2 == 0,
                    columns: Box::new([0]),
                    filter: None,
                };
                let input = Box::new(everything);
                let (limit, offset) = (Some(constant(key % 4 + 1)), None);
                let query = Query::Limit { input, limit, offset };
                self.aggregate(query, AggregateFunction::ArrayAgg);
            }
            Operation::Require => {
                let Some(last) = self.last else { return };
                let small = binary(BinaryOp::Less, Expr::Reg(last), constant(LIMIT));
                let error = OnError::new(SqlState::RAISE_EXCEPTION, "too large");
                let unknown = Expr::IsNull { input: Box::new(Expr::Reg(last)), negated: false };
                let condition = Expr::Or(Box::new([unknown, small]));
                self.steps.push(Step::Require { condition, error });
            }
        }
    }

    /// A step made elsewhere; its output goes to register 0, which must be its program's only one.
    pub fn step(mut self, step: Step) -> Self {
        self.register();
        self.steps.push(step);
        self
    }

    /// Nothing of what it sees is emitted.
    pub fn silent(mut self) -> Self {
        self.silent = true;
        self
    }

    pub fn finish(self) -> Arc<Work> {
        Arc::new(Work::Statement(Statement {
            procedure: self.procedure(),
            arguments: Box::default(),
        }))
    }

    pub fn procedure(mut self) -> Arc<Procedure> {
        if self.silent {
            self.emitted.clear();
        }
        let values = self.emitted.iter().map(|&register| Expr::Reg(register)).collect();
        self.steps.push(Step::Emit { values });
        let column = |_| Column { name: "?".into(), data_type: DataType::Unknown };
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
        Arc::new(procedure)
    }

    fn follow(&mut self, operation: Operation, key: i64, number: i64) {
        let to = self.last.map_or_else(|| constant(key), Expr::Reg);
        match operation {
            Operation::FollowAdd => {
                self.update(Box::new([to]), number, A, add(A), Box::default());
            }
            Operation::FollowInsert => self.insert(Operation::InsertIfAbsent, to, number),
            Operation::FollowDelete => self.delete(Box::new([to])),
            Operation::FollowRange => {
                let range = scan_between(TABLE, 0, to, constant(number), A, key % 2 == 0);
                self.aggregate(range, AggregateFunction::Sum);
            }
            _ => self.read(Box::new([to])),
        }
    }

    fn read(&mut self, key: Box<[Expr]>) {
        let out = self.register();
        self.register();
        let found = self.register();
        let columns = Box::new([A, B]);
        self.steps.push(Step::Read { table: TABLE, key, columns, out, found });
        self.last = Some(out);
    }

    fn delete(&mut self, key: Box<[Expr]>) {
        let found = self.register();
        self.steps.push(Step::Delete { table: TABLE, key, found });
    }

    fn log(&mut self, value: Expr) {
        let inserted = self.register();
        self.steps.push(Step::Insert {
            table: LOG,
            key: Box::new([1]),
            hidden_row_id: true,
            values: Box::new([value]),
            inserted,
        });
    }

    fn register(&mut self) -> Reg {
        let register = Reg(self.registers);
        self.registers += 1;
        self.emitted.push(register);
        register
    }

    fn update(
        &mut self,
        key: Box<[Expr]>,
        number: i64,
        column: ColumnId,
        to: Expr,
        checks: Box<[Check]>,
    ) {
        let code = CommandCode::new(Box::new([(column, to)]), checks);
        self.command(key, code, constant(number));
    }

    fn command(&mut self, key: Box<[Expr]>, code: CommandCode, input: Expr) {
        let found = self.register();
        self.steps.push(Step::Update {
            table: TABLE,
            key,
            code: Arc::new(code),
            inputs: Box::new([input]),
            found,
        });
    }

    fn insert(&mut self, operation: Operation, key: Expr, number: i64) {
        let inserted = self.register();
        self.steps.push(Step::Insert {
            table: TABLE,
            key: Box::new([ID]),
            hidden_row_id: false,
            values: Box::new([key, constant(number), constant(number % 7)]),
            inserted,
        });
        if operation == Operation::Insert {
            let error = OnError::new(SqlState::UNIQUE_VIOLATION, "duplicate key");
            self.steps.push(Step::Require { condition: Expr::Reg(inserted), error });
        }
    }

    fn aggregate(&mut self, input: Query, function: AggregateFunction) {
        let result = match function {
            AggregateFunction::ArrayAgg => DataType::Array(Box::new(DataType::Int8)),
            _ => DataType::Int8,
        };
        let counts = result == DataType::Int8;
        let before = self.last;
        self.fetch(Query::Aggregate {
            input: Box::new(input),
            groups: Box::default(),
            aggregates: Box::new([Aggregate {
                function,
                input: Some(Expr::Column(0)),
                distinct: false,
                filter: None,
                result,
            }]),
        });
        if !counts {
            self.last = before;
        }
    }

    /// The first column of a query's first row; returns the register that says whether there is
    /// one.
    fn fetch(&mut self, query: Query) -> Reg {
        let (out, found) = (self.register(), self.register());
        self.steps.push(Step::Fetch { query, outputs: Box::new([out]), found, strict: false });
        self.last = Some(out);
        found
    }
}

fn scan(index: u16, low: i64, high: i64) -> Query {
    scan_of(TABLE, index, low, high, A)
}

fn scan_log(index: u16, low: i64, high: i64) -> Query {
    scan_of(LOG, index, low, high, 0)
}

fn scan_of(table: TableId, index: u16, low: i64, high: i64, column: ColumnId) -> Query {
    scan_between(table, index, constant(low), constant(high), column, low % 2 == 0)
}

fn scan_between(
    table: TableId,
    index: u16,
    low: Expr,
    high: Expr,
    column: ColumnId,
    reverse: bool,
) -> Query {
    Query::Scan {
        table,
        index,
        nullable: Box::new([index == 1]),
        low: Bound::Included(Box::new([low])),
        high: Bound::Included(Box::new([high])),
        reverse,
        columns: Box::new([column]),
        filter: None,
    }
}

fn constant(number: i64) -> Expr {
    Expr::Const(Value::Int(number))
}

fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    let result = if op.is_comparison() { DataType::Bool } else { DataType::Int8 };
    Expr::Binary { op, left: Box::new(left), right: Box::new(right), result }
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
    random_of(random, keys, operations_max, &[])
}

/// A random program some of whose keys may depend on what it reads.
pub fn random_follower(random: &mut Random, keys: u64, operations_max: u64) -> Arc<Work> {
    random_of(random, keys, operations_max, &FOLLOWERS)
}

fn random_of(random: &mut Random, keys: u64, operations_max: u64, more: &[Operation]) -> Arc<Work> {
    let choices: Vec<Operation> = OPERATIONS.iter().chain(more).copied().collect();
    let mut builder = Builder::default();
    for _ in 0..=random.below(operations_max) {
        let operation = choices[random.below(choices.len() as u64) as usize];
        // Keys lean towards the first, so that blocks have a hot record.
        let key = random.below(keys).min(random.below(keys)) as i64;
        let number = random.below(20) as i64 - 6;
        builder.push(operation, key, number);
    }
    builder.finish()
}

/// A program that only reads.
pub fn random_query(random: &mut Random, keys: u64, operations: u64) -> Arc<Work> {
    let mut builder = Builder::default();
    for _ in 0..operations {
        let operation = QUERIES[random.below(QUERIES.len() as u64) as usize];
        builder.push(operation, random.below(keys) as i64, random.below(20) as i64 - 6);
    }
    builder.finish()
}

/// A program of many operations, none of which gives up.
pub fn random_large(random: &mut Random, keys: u64, operations: u64) -> Arc<Work> {
    let gives_up = |operation: &Operation| {
        use Operation::{CheckedAdd, DivideRange, Insert, InsertUnique, Require};
        matches!(operation, CheckedAdd | DivideRange | Insert | InsertUnique | Require)
    };
    let mut builder = Builder::default();
    for _ in 0..operations {
        let operation = OPERATIONS[random.below(OPERATIONS.len() as u64) as usize];
        if !gives_up(&operation) {
            let number = random.below(20) as i64 - 6;
            builder.push(operation, random.below(keys) as i64, number);
        }
    }
    builder.finish()
}

/// A program, or now and then a load.
pub fn random_work(random: &mut Random, keys: u64, operations_max: u64) -> Arc<Work> {
    match random.below(8) {
        0 => Arc::new(Work::Load(random_load(random, keys))),
        _ => random_program(random, keys, operations_max),
    }
}

/// COPY of a few rows. Twice as many keys as programs use, so that some loads find all of theirs
/// free; the others are rejected as a whole.
pub fn random_load(random: &mut Random, keys: u64) -> Load {
    let into_log = random.chance(4);
    let row = |random: &mut Random| -> Box<[Value]> {
        let number = random.below(20) as i64 - 6;
        match into_log {
            true => [Value::Int(number)].into(),
            false => {
                let key = random.below(keys * 2) as i64;
                [Value::Int(key), Value::Int(number), Value::Null].into()
            }
        }
    };
    let rows = (0..=random.below(4)).map(|_| row(random)).collect();
    Load { procedure: if into_log { load_log() } else { load_table() }, rows }
}

/// Inserts one row of its parameters, as COPY does for each line.
fn load_table() -> Arc<Procedure> {
    let inserted = Reg(3);
    let error = OnError::new(SqlState::UNIQUE_VIOLATION, "duplicate key");
    let insert = Step::Insert {
        table: TABLE,
        key: Box::new([ID]),
        hidden_row_id: false,
        values: (0..3).map(|column| Expr::Reg(Reg(column))).collect(),
        inserted,
    };
    load_by(3, vec![insert, Step::Require { condition: Expr::Reg(inserted), error }])
}

fn load_log() -> Arc<Procedure> {
    let insert = Step::Insert {
        table: LOG,
        key: Box::new([1]),
        hidden_row_id: true,
        values: Box::new([Expr::Reg(Reg(0))]),
        inserted: Reg(1),
    };
    load_by(1, vec![insert])
}

fn load_by(parameters: u16, mut steps: Vec<Step>) -> Arc<Procedure> {
    steps.push(Step::CountRows { by: constant(1) });
    let column = |i| Column { name: format!("${}", i + 1), data_type: DataType::Int8 };
    Arc::new(Procedure {
        name: "load".into(),
        parameters: (0..parameters).map(column).collect(),
        registers: parameters + 1,
        body: steps.into(),
        output: Output::Tag,
        tag: "COPY".into(),
        read_only: false,
        register_names: Box::default(),
    })
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
