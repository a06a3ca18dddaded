//! Programs for the oracle: small, hostile, and complete in what they mix.
//!
//! A table with a secondary index and a handful of keys, one with hidden row ids, and programs of
//! a few operations: value reads that feed later writes (chains), blind writes, commands with and
//! without checks, inserts, deletes and both in one program, unique checks, range scans over both
//! indexes that end early or in an error, existence reads, user aborts, keys that come from what
//! was read, branches on it, and loops over the rows of a range. Every register is emitted at the
//! end, so what a transaction saw is part of its outcome; a *silent* program emits none. Beside the
//! programs there are loads of a few rows, which may fail in the middle.

use std::ops::Bound;
use std::sync::Arc;

use concurrency::{Load, Statement, Work};
use procedure::query::{Aggregate, AggregateFunction, Query};
use procedure::step::{Column, OnError, Output, Procedure, Step};
use procedure::{BinaryOp, Check, CommandCode, Expr, Reg, UnaryOp};
use types::{
    ColumnId, ColumnSchema, DataType, Error, IndexSchema, SqlState, TableId, TableSchema, Value,
};

mod random;

pub use random::{
    LASTING, random_calls, random_follower, random_large, random_load, random_program,
    random_query, random_rows, random_work,
};

pub const TABLE: TableId = TableId(1);
/// Has hidden row ids.
pub const LOG: TableId = TableId(2);
const ID: ColumnId = 0;
const A: ColumnId = 1;
const B: ColumnId = 2;

/// `t (id bigint primary key, a bigint, b bigint)` with an index on `a`.
pub fn schema() -> Arc<TableSchema> {
    let column = |name: &str, nullable| ColumnSchema::new(name, DataType::Int8).nullable(nullable);
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
    let column =
        |name: &str, data_type, nullable| ColumnSchema::new(name, data_type).nullable(nullable);
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
    /// Reads the row whose key was read last: like the next four, it has a key that cannot
    /// be told from the arguments.
    Follow,
    FollowAdd,
    FollowInsert,
    FollowDelete,
    FollowRange,
    /// Adds to what was read to be positive, overwrites anything else.
    AddOrSet,
    /// Adds to every row of a key range.
    AddToRange,
    /// Deletes what an index range holds.
    DeleteRange,
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

pub const OPERATIONS: [Operation; 31] = [
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
    Operation::Follow,
    Operation::FollowAdd,
    Operation::FollowInsert,
    Operation::FollowDelete,
    Operation::FollowRange,
    Operation::AddOrSet,
    Operation::AddToRange,
    Operation::DeleteRange,
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
            Operation::Follow => self.read(self.at_last(number)),
            Operation::FollowAdd => {
                let code = CommandCode::new(Box::new([(A, add(A))]), Box::default());
                self.command(self.at_last(key), code, constant(number));
            }
            Operation::FollowInsert => {
                let [key] = *self.at_last(key);
                self.insert_row(key, number);
            }
            Operation::FollowDelete => self.delete(self.at_last(key)),
            Operation::FollowRange => {
                let [low] = *self.at_last(key);
                let range = scan_between(TABLE, 0, low, constant(number), A, key % 2 == 0);
                self.aggregate(range, AggregateFunction::Sum);
            }
            Operation::AddOrSet => self.add_or_set(key, number),
            Operation::Exists => {
                let found = self.register();
                self.steps.push(Step::Exists { table: TABLE, key: at(key), found });
            }
            Operation::Add => self.update(key, number, A, add(A), Box::default()),
            Operation::CheckedAdd => self.update(key, number, B, add(B), within_limit(B)),
            Operation::BlindSet => self.update(key, number, A, Expr::Reg(Reg(0)), Box::default()),
            Operation::Touch => self.update(key, number, A, Expr::Column(A), Box::default()),
            Operation::Set => {
                let code = CommandCode::new(Box::new([(A, Expr::Reg(Reg(0)))]), Box::default());
                let input = self.last.map_or(Expr::Const(Value::Int(number)), Expr::Reg);
                self.command(at(key), code, input);
            }
            Operation::Insert | Operation::InsertIfAbsent => self.insert(operation, key, number),
            Operation::Delete => self.delete(at(key)),
            Operation::InsertUnique => {
                let found = self.fetch(scan(1, number, number));
                let error = OnError::new(SqlState::UNIQUE_VIOLATION, "duplicate value");
                let condition = Expr::Unary { op: UnaryOp::Not, input: Box::new(Expr::Reg(found)) };
                self.steps.push(Step::Require { condition, error });
                self.insert(Operation::InsertIfAbsent, key, number);
            }
            Operation::Replace => {
                self.delete(at(key));
                self.insert(Operation::InsertIfAbsent, key, number);
            }
            Operation::InsertDeleteInsert => {
                self.insert(Operation::InsertIfAbsent, key, number);
                self.delete(at(key));
                self.insert(Operation::InsertIfAbsent, key, number + 1);
            }
            Operation::Log => self.log(constant(number)),
            Operation::LogLast => {
                let value = self.last.map_or_else(|| constant(number), Expr::Reg);
                self.log(value);
            }
            Operation::Require => {
                let Some(last) = self.last else { return };
                let small = binary(BinaryOp::Less, Expr::Reg(last), constant(LIMIT));
                let error = OnError::new(SqlState::RAISE_EXCEPTION, "too large");
                let unknown = Expr::IsNull { input: Box::new(Expr::Reg(last)), negated: false };
                let condition = Expr::Or(Box::new([unknown, small]));
                self.steps.push(Step::Require { condition, error });
            }
            _ => self.push_over_ranges(operation, key, number),
        }
    }

    /// Those that touch the rows of a range.
    fn push_over_ranges(&mut self, operation: Operation, key: i64, number: i64) {
        match operation {
            Operation::AddToRange => {
                let code = CommandCode::new(Box::new([(A, add(A))]), Box::default());
                let (code, inputs) = (Arc::new(code), Box::new([constant(number)]));
                self.for_keys(scan(0, key, key + 3), |key, found| Step::Update {
                    table: TABLE,
                    key,
                    code,
                    inputs,
                    found,
                });
            }
            Operation::DeleteRange => {
                self.for_keys(scan(1, number, number + 2), delete);
            }
            Operation::SumRange => {
                self.aggregate(scan(0, key, key + 3), AggregateFunction::Sum);
            }
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
            _ => unreachable!("{operation:?} touches single rows"),
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
            draws: false,
            sequences: Box::default(),
            register_names: Box::default(),
        };
        Arc::new(procedure)
    }

    fn read(&mut self, key: Box<[Expr; 1]>) {
        let out = self.register();
        self.register();
        let found = self.register();
        let columns = Box::new([A, B]);
        self.steps.push(Step::Read { table: TABLE, key, columns, out, found });
        self.last = Some(out);
    }

    fn delete(&mut self, key: Box<[Expr; 1]>) {
        let found = self.register();
        self.steps.push(delete(key, found));
    }

    /// A key that only the data tell: what was read last, or `otherwise`.
    fn at_last(&self, otherwise: i64) -> Box<[Expr; 1]> {
        let read = self.last.into_iter().map(Expr::Reg);
        let known = Expr::Coalesce(read.chain([constant(otherwise)]).collect());
        Box::new([binary(BinaryOp::Modulo, known, constant(8))])
    }

    fn add_or_set(&mut self, key: i64, number: i64) {
        let last = self.last.map_or_else(|| constant(number), Expr::Reg);
        let mut update = |to| -> Box<[Step]> {
            let code = Arc::new(CommandCode::new(Box::new([(A, to)]), Box::default()));
            let (inputs, found) = (Box::new([constant(number)]), self.hidden_register());
            Box::new([Step::Update { table: TABLE, key: at(key), code, inputs, found }])
        };
        let (then, otherwise) = (update(add(A)), update(Expr::Reg(Reg(0))));
        let condition = binary(BinaryOp::Greater, last, constant(0));
        self.steps.push(Step::If { condition, then, otherwise, phis: Box::default() });
    }

    /// A step for the key of each row of a query.
    fn for_keys(&mut self, of: Query, step: impl FnOnce(Box<[Expr]>, Reg) -> Step) {
        let Query::Scan { table, index, nullable, low, high, reverse, filter, .. } = of else {
            return;
        };
        let columns = Box::new([ID]);
        let query = Query::Scan { table, index, nullable, low, high, reverse, columns, filter };
        let (row, found) = (self.hidden_register(), self.hidden_register());
        let body = Box::new([step(Box::new([Expr::Reg(row)]), found)]);
        let carried = Box::default();
        self.steps.push(Step::ForRows { query, row: Box::new([row]), body, carried });
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
        let register = self.hidden_register();
        self.emitted.push(register);
        register
    }

    /// One that a path may leave unset, so that it cannot be emitted.
    fn hidden_register(&mut self) -> Reg {
        let register = Reg(self.registers);
        self.registers += 1;
        register
    }

    fn update(&mut self, key: i64, number: i64, column: ColumnId, to: Expr, checks: Box<[Check]>) {
        let code = CommandCode::new(Box::new([(column, to)]), checks);
        self.command(at(key), code, constant(number));
    }

    fn command(&mut self, key: Box<[Expr; 1]>, code: CommandCode, input: Expr) {
        let found = self.register();
        self.steps.push(Step::Update {
            table: TABLE,
            key,
            code: Arc::new(code),
            inputs: Box::new([input]),
            found,
        });
    }

    fn insert_row(&mut self, key: Expr, number: i64) -> Reg {
        let inserted = self.register();
        self.steps.push(Step::Insert {
            table: TABLE,
            key: Box::new([ID]),
            hidden_row_id: false,
            values: Box::new([key, constant(number), constant(number % 7)]),
            inserted,
        });
        inserted
    }

    fn insert(&mut self, operation: Operation, key: i64, number: i64) {
        let inserted = self.insert_row(constant(key), number);
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
            sets: Box::default(),
            aggregates: Box::new([Aggregate {
                function,
                input: Some(Expr::Column(0)),
                distinct: false,
                filter: None,
                separator: None,
                order: Box::default(),
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

fn delete(key: Box<[Expr]>, found: Reg) -> Step {
    Step::Delete { table: TABLE, key, long: Box::default(), found }
}

fn constant(number: i64) -> Expr {
    Expr::Const(Value::Int(number))
}

fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    let result = if op.is_comparison() { DataType::Bool } else { DataType::Int8 };
    Expr::Binary { op, left: Box::new(left), right: Box::new(right), result }
}

fn at(key: i64) -> Box<[Expr; 1]> {
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

/// A load of (key, number) rows, or of the numbers alone into the log.
pub fn load_of(into_log: bool, rows: &[(i64, i64)]) -> Load {
    let row = |&(key, number): &(i64, i64)| -> Box<[Value]> {
        match into_log {
            true => [Value::Int(number)].into(),
            false => [Value::Int(key), Value::Int(number), Value::Null].into(),
        }
    };
    let answers = rows.len() % 4 == 1;
    let procedure = if into_log { load_log() } else { load_table(answers) };
    let at_end = (!into_log && rows.len() % 2 == 1).then(look_at_number);
    Load { procedure, at_end, rows: rows.iter().map(row).collect() }
}

/// A large number needs a row that has it as key, as a foreign key does.
fn look_at_number() -> Arc<Procedure> {
    let (number, found) = (Expr::Reg(Reg(1)), Reg(2));
    let key = Box::new([number.clone()]);
    let is_small = binary(BinaryOp::Less, number, constant(4));
    let condition = Expr::Or([Expr::Reg(found), is_small].into());
    let error = OnError::new(SqlState::FOREIGN_KEY_VIOLATION, "no such row");
    load_by(2, vec![Step::Exists { table: TABLE, key, found }, Step::Require { condition, error }])
}

/// Inserts one row of its parameters, as COPY does for each line. `answers`: and answers with what
/// is looked at in the end.
fn load_table(answers: bool) -> Arc<Procedure> {
    let inserted = Reg(3);
    let error = OnError::new(SqlState::UNIQUE_VIOLATION, "duplicate key");
    let insert = Step::Insert {
        table: TABLE,
        key: Box::new([ID]),
        hidden_row_id: false,
        values: (0..3).map(|column| Expr::Reg(Reg(column))).collect(),
        inserted,
    };
    let is_new = Step::Require { condition: Expr::Reg(inserted), error };
    let mut steps = vec![insert, is_new, Step::CountRows { by: constant(1) }];
    if answers {
        steps.push(Step::Emit { values: (0..2).map(|column| Expr::Reg(Reg(column))).collect() });
    }
    let mut procedure = load_by(3, steps);
    if let Some(procedure) = Arc::get_mut(&mut procedure).filter(|_| answers) {
        let column = |name: &str| Column { name: name.into(), data_type: DataType::Int8 };
        procedure.output = Output::Rows(vec![column("key"), column("number")]);
    }
    procedure
}

fn load_log() -> Arc<Procedure> {
    let insert = Step::Insert {
        table: LOG,
        key: Box::new([1]),
        hidden_row_id: true,
        values: Box::new([Expr::Reg(Reg(0))]),
        inserted: Reg(1),
    };
    load_by(1, vec![insert, Step::CountRows { by: constant(1) }])
}

pub(crate) fn load_by(parameters: u16, steps: Vec<Step>) -> Arc<Procedure> {
    let column = |i| Column { name: format!("${}", i + 1), data_type: DataType::Int8 };
    Arc::new(Procedure {
        name: "load".into(),
        parameters: (0..parameters).map(column).collect(),
        registers: parameters + 1,
        body: steps.into(),
        output: Output::Tag,
        tag: "COPY".into(),
        read_only: false,
        draws: false,
        sequences: Box::default(),
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
