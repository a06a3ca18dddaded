//! Worlds of texts: update commands whose work only the row decides.
//!
//! A few hot rows of a text without a declared length, one of a declared length and a number. Texts
//! are appended to, doubled, turned and set short again by commands, several of a transaction among
//! them, so that some meet a row that is too long for their share: in the middle of a chain of
//! commands that succeed before and after them. Other transactions read lengths and write by them,
//! abort, or issue more metered commands than can be deferred.

use std::sync::Arc;

use concurrency::test_mode::TestMode;
use concurrency::{Outcome, Protocol, Statement, Work, WorkerPool};
use kit::random::Random;
use procedure::step::{Column, OnError, Output, Procedure, Step};
use procedure::{BinaryOp, Budget, Check, CommandCode, Expr, Function, Reg};
use types::{ColumnId, ColumnSchema, DataType, Error, SqlState, TableId, TableSchema, Value};

use crate::subjects::Subject;
use crate::{Divergence, Twin};

pub const NOTES: TableId = TableId(1);
const LONG: ColumnId = 1;
const SHORT: ColumnId = 2;
const COUNT: ColumnId = 3;

/// Of `short`.
const SHORT_LENGTH: i64 = 24;

/// `CHECK (count <= …)`.
const COUNT_MAX: i64 = 60;

/// Smaller than a ledger's parameters can say, so that texts need not be long to be too long.
pub const BUDGET: Budget = Budget { units_max: 25_000, bytes_max: 1 << 17 };

/// `notes (id bigint primary key, long text, short varchar(24), count bigint)`.
pub fn schema() -> Arc<TableSchema> {
    let column = |name: &str, data_type| ColumnSchema::new(name, data_type);
    Arc::new(TableSchema {
        id: NOTES,
        name: "notes".into(),
        columns: vec![
            column("id", DataType::Int8),
            column("long", DataType::Text),
            column("short", DataType::Varchar(Some(SHORT_LENGTH as u32))),
            column("count", DataType::Int8),
        ],
        primary_key: vec![0],
        indexes: Vec::new(),
        hidden_row_id: false,
    })
}

/// How the transactions of some worlds have ended.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ends {
    pub committed: u64,
    /// By a command that its row was too long for.
    pub too_long: u64,
    pub rejected_otherwise: u64,
    pub retried: u64,
}

impl Ends {
    pub fn add(&mut self, other: Ends) {
        self.committed += other.committed;
        self.too_long += other.too_long;
        self.rejected_otherwise += other.rejected_otherwise;
        self.retried += other.retried;
    }

    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Committed(_) => self.committed += 1,
            Outcome::Retry(_) => self.retried += 1,
            Outcome::Rejected(error) if is_too_long(error) => self.too_long += 1,
            Outcome::Rejected(_) => self.rejected_otherwise += 1,
        }
    }
}

/// Whether a command could not pay.
pub fn is_too_long(error: &Error) -> bool {
    error.message().contains("an UPDATE by key takes more than")
}

/// Some blocks under the protocol, each compared with its serial replay.
pub fn check(
    protocol: &Arc<dyn Protocol>,
    pool: &WorkerPool,
    seed: u64,
    test_mode: TestMode,
) -> Result<Ends, Divergence> {
    let mut random = Random::new(seed);
    let keys = 1 + random.below(3) as i64;
    let mut twin = Twin::new(&[schema()]);
    (twin.budget, twin.test_mode) = (BUDGET, test_mode);
    twin.run(protocol, pool, (0..keys).map(row).collect())?;
    let mut ends = Ends::default();
    for _ in 0..4 {
        let count = 4 + random.below(20);
        let block = (0..count).map(|_| transaction(&mut random, keys)).collect();
        let outcome = twin.run(protocol, pool, block)?;
        outcome.outcomes.iter().for_each(|outcome| ends.count(outcome));
    }
    Ok(ends)
}

/// So many transactions append a letter to one row: how they end, and how many ran again.
///
/// # Panics
/// If the block differs from its serial replay.
pub fn appended(protocol: &str, pool: &WorkerPool, count: usize) -> (Vec<Outcome>, u32) {
    let protocol = Subject::named(protocol).protocol;
    let mut twin = Twin::new(&[schema()]);
    let run = |twin: &mut Twin, block| match twin.run(&protocol, pool, block) {
        Ok(outcome) => outcome,
        Err(divergence) => panic!("{divergence}"),
    };
    run(&mut twin, vec![row(0)]);
    let append = |_| {
        let mut program = Program::default();
        program.command(0, LONG, concat(Expr::Column(LONG), input()), text("x"));
        program.finish()
    };
    let outcome = run(&mut twin, (0..count).map(append).collect());
    (outcome.outcomes, outcome.report.rerun)
}

/// A block under Harmony in which each command that fails, so that its transaction is put after
/// the others, makes another one fail, so many times; and one transaction that has nothing to do
/// with them. Tells how many transactions there were, and how many ran again.
///
/// # Panics
/// If the block differs from its serial replay.
pub fn felled(pool: &WorkerPool, times: i64) -> (u32, u32) {
    let protocol = Subject::named("harmony").protocol;
    let mut twin = Twin::new(&[schema()]);
    let run = |twin: &mut Twin, block| match twin.run(&protocol, pool, block) {
        Ok(outcome) => outcome,
        Err(divergence) => panic!("{divergence}"),
    };
    run(&mut twin, (0..=times).map(row).collect());
    let program = |changes: &[(i64, i64)]| {
        let mut program = Program::default();
        changes.iter().for_each(|(key, by)| program.count(*key, *by));
        program.finish()
    };
    // The former save the latter of the next row, and go where the latter of their own row fail.
    let saving = (0..times - 1).map(|key| program(&[(key, 0), (key + 1, -COUNT_MAX)]));
    let saved = (0..times).map(|key| program(&[(key, COUNT_MAX + 1)]));
    let block: Vec<_> = saving.chain(saved).chain([program(&[(times, 1)])]).collect();
    let count = block.len() as u32;
    (count, run(&mut twin, block).report.rerun)
}

/// Inserts an empty row.
fn row(key: i64) -> Arc<Work> {
    let mut program = Program::default();
    let inserted = program.register();
    program.steps.push(Step::Insert {
        table: NOTES,
        key: Box::new([0]),
        hidden_row_id: false,
        values: Box::new([constant(key), text(""), text(""), constant(0)]),
        inserted,
    });
    program.finish()
}

fn transaction(random: &mut Random, keys: i64) -> Arc<Work> {
    let mut program = Program::default();
    for _ in 0..1 + random.below(5) {
        let key = random.below(keys as u64) as i64;
        let letter = char::from(b'a' + random.below(26) as u8);
        let mut letters = |most: u64| letter.to_string().repeat(random.below(most) as usize);
        let (long, short) = (letters(2500), letters(30));
        match random.below(20) {
            0..4 => program.command(key, LONG, concat(Expr::Column(LONG), input()), text(&long)),
            4..7 => {
                program.command(key, LONG, concat(Expr::Column(LONG), Expr::Column(LONG)), text(""))
            }
            7..9 => program.command(key, LONG, turned(), text("")),
            9 => program.command(key, LONG, call(Function::Upper, [Expr::Column(LONG)]), text("")),
            10..13 => program.command(key, SHORT, shortened(), text(&short)),
            13..15 => program.command(key, LONG, input(), text(&short)),
            15..17 => program.read_length(key, (key + 1) % keys),
            17 => program.count(key, 7),
            18 => program.many(key, &short),
            _ => program.abort_if_long(key),
        }
    }
    program.finish()
}

#[derive(Default)]
struct Program {
    steps: Vec<Step>,
    registers: u16,
    emitted: Vec<Expr>,
}

impl Program {
    fn register(&mut self) -> Reg {
        self.registers += 1;
        Reg(self.registers - 1)
    }

    /// `UPDATE notes SET column = to WHERE id = key`, where `to` sees `input`.
    fn command(&mut self, key: i64, column: ColumnId, to: Expr, input: Expr) {
        self.checked_command(constant(key), (column, to), input, Box::default());
    }

    fn checked_command(
        &mut self,
        key: Expr,
        assignment: (ColumnId, Expr),
        input: Expr,
        checks: Box<[Check]>,
    ) {
        let found = self.register();
        self.emitted.push(Expr::Reg(found));
        let step = update(key, assignment, input, checks, found);
        self.steps.push(step);
    }

    fn count(&mut self, key: i64, by: i64) {
        let (sum, limit) = (Expr::Column(COUNT), constant(COUNT_MAX));
        let condition = binary(BinaryOp::LessOrEqual, sum.clone(), limit, DataType::Bool);
        let error = Error::new(SqlState::CHECK_VIOLATION, "counted too far");
        let to = binary(BinaryOp::Add, sum, input(), DataType::Int8);
        let checks = Box::new([Check { condition, error }]);
        self.checked_command(constant(key), (COUNT, to), constant(by), checks);
    }

    /// More metered commands than can be deferred, one after the other.
    fn many(&mut self, key: i64, letters: &str) {
        let (turn, found) = (self.register(), self.register());
        let last = i64::from(procedure::meter::COMMANDS_MAX) + 3;
        let to = concat(Expr::Column(LONG), input());
        self.steps.push(Step::ForRange {
            register: turn,
            first: constant(1),
            last: constant(last),
            step: constant(1),
            reverse: false,
            body: Box::new([update(
                constant(key),
                (LONG, to),
                text(letters),
                Box::default(),
                found,
            )]),
            carried: Box::default(),
        });
    }

    /// The register of a text's length; 0 without a row.
    fn length(&mut self, key: i64) -> Expr {
        let (out, found, length) = (self.register(), self.register(), self.register());
        let (key, columns) = (Box::new([constant(key)]), Box::new([LONG]));
        self.steps.push(Step::Read { table: NOTES, key, columns, out, found });
        let value = call(Function::OctetLength, [Expr::Reg(out)]);
        self.steps.push(Step::Let { out: length, value });
        Expr::Reg(length)
    }

    /// Reads a length and appends it to another row's text.
    fn read_length(&mut self, from: i64, to: i64) {
        let length = self.length(from);
        self.emitted.push(length.clone());
        let shown = Expr::Cast { input: Box::new(length), to: DataType::Text, explicit: true };
        self.command(to, LONG, concat(Expr::Column(LONG), input()), shown);
    }

    fn abort_if_long(&mut self, key: i64) {
        let length = self.length(key);
        let condition = binary(BinaryOp::Less, length, constant(2000), DataType::Bool);
        let error = OnError::new(SqlState::RAISE_EXCEPTION, "long enough");
        self.steps.push(Step::Require { condition, error });
    }

    fn finish(mut self) -> Arc<Work> {
        let output =
            self.emitted.iter().map(|_| Column { name: "?".into(), data_type: DataType::Unknown });
        let output = Output::Rows(output.collect());
        self.steps.push(Step::Emit { values: self.emitted.into() });
        let procedure = Procedure {
            name: "texts".into(),
            parameters: Vec::new(),
            registers: self.registers,
            body: self.steps.into(),
            output,
            tag: "CALL".into(),
            read_only: false,
            draws: false,
            sequences: Box::default(),
            register_names: Box::default(),
        };
        let procedure = Arc::new(procedure);
        Arc::new(Work::Statement(Statement { procedure, arguments: Box::default() }))
    }
}

fn update(
    key: Expr,
    assignment: (ColumnId, Expr),
    input: Expr,
    checks: Box<[Check]>,
    found: Reg,
) -> Step {
    let code = CommandCode::on(&schema().columns, Box::new([assignment]), checks);
    let (key, inputs) = (Box::new([key]), Box::new([input]));
    Step::Update { table: NOTES, key, code: Arc::new(code), inputs, found }
}

/// What a command was issued with.
fn input() -> Expr {
    Expr::Reg(Reg(0))
}

fn constant(number: i64) -> Expr {
    Expr::Const(Value::Int(number))
}

fn text(text: &str) -> Expr {
    Expr::Const(Value::from(text.to_owned()))
}

fn binary(op: BinaryOp, left: Expr, right: Expr, result: DataType) -> Expr {
    Expr::Binary { op, left: Box::new(left), right: Box::new(right), result }
}

fn concat(left: Expr, right: Expr) -> Expr {
    binary(BinaryOp::Concat, left, right, DataType::Text)
}

fn call<const N: usize>(function: Function, arguments: [Expr; N]) -> Expr {
    let result = match function {
        Function::OctetLength => DataType::Int8,
        _ => DataType::Text,
    };
    Expr::Call { function, arguments: arguments.into(), result }
}

/// The first letter after the others.
fn turned() -> Expr {
    let long = || Expr::Column(LONG);
    let rest = call(Function::Substring, [long(), constant(2)]);
    concat(rest, call(Function::Left, [long(), constant(1)]))
}

/// The end of the short text and what is appended to it: no longer than declared.
fn shortened() -> Expr {
    call(Function::Right, [concat(Expr::Column(SHORT), input()), constant(SHORT_LENGTH)])
}
