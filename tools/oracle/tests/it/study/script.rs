//! Transactions step by step, in an order that is told: single-threaded, so every run is repeated.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use concurrency::{Moment, Outcome};
use multiversion::session::Attempt;
use multiversion::{CommitSequenceNumber, Database, Rule, Session, TableSpec};
use procedure::access::{Access, Command, CommandCode, Range};
use procedure::{BinaryOp, Budget, Expr, ProgramResult, Reg};
use smallvec::smallvec;
use types::{
    ColumnSchema, DataType, Error, IndexSchema, Key, SqlState, Stop, TableId, TableSchema, Value,
};

pub const TABLE: TableId = TableId(1);

/// `t (id bigint primary key, v bigint)` with an index on `v`.
pub fn schema() -> Arc<TableSchema> {
    let column = |name: &str| ColumnSchema {
        name: name.into(),
        data_type: DataType::Int8,
        nullable: false,
        dropped: false,
    };
    let by_value =
        IndexSchema { name: "t_v".into(), columns: vec![1], unique: false, dropped: false };
    Arc::new(TableSchema {
        id: TABLE,
        name: "t".into(),
        columns: vec![column("id"), column("v")],
        primary_key: vec![0],
        indexes: vec![by_value],
        hidden_row_id: false,
    })
}

/// One step of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    Read(i64),
    /// `v = n`, unread.
    Set(i64, i64),
    /// `v = v + n`.
    Add(i64, i64),
    /// The row gets what was read last, and `n` more.
    SetLast(i64, i64),
    Insert(i64, i64),
    Delete(i64),
    /// Keys between two, both included, with their values.
    Keys(i64, i64),
    /// Rows whose value lies between two.
    Values(i64, i64),
}

/// What a step answered.
pub type Answer = Vec<(i64, i64)>;

/// The state, as plain as it can be.
pub type Model = BTreeMap<i64, i64>;

/// Runs a step on the model.
pub fn step_model(model: &mut Model, act: Act, last: &mut i64) -> Answer {
    let present = |yes: bool| if yes { vec![(1, 1)] } else { Vec::new() };
    match act {
        Act::Read(key) => {
            let found: Answer = model.get(&key).map(|v| (key, *v)).into_iter().collect();
            *last = found.first().map_or(*last, |(_, v)| *v);
            found
        }
        Act::Set(key, v) => present(model.get_mut(&key).map(|old| *old = v).is_some()),
        Act::Add(key, n) => present(model.get_mut(&key).map(|old| *old += n).is_some()),
        Act::SetLast(key, n) => present(model.get_mut(&key).map(|old| *old = *last + n).is_some()),
        Act::Insert(key, v) => {
            let free = !model.contains_key(&key);
            model.entry(key).or_insert(v);
            present(free)
        }
        Act::Delete(key) => present(model.remove(&key).is_some()),
        Act::Keys(low, high) => model.range(low..=high).map(|(k, v)| (*k, *v)).collect(),
        Act::Values(low, high) => {
            let rows = model.iter().map(|(k, v)| (*k, *v));
            let mut rows: Answer = rows.filter(|(_, v)| (low..=high).contains(v)).collect();
            rows.sort_by_key(|(k, v)| (*v, *k));
            rows
        }
    }
}

fn set_to(expression: Expr, input: i64) -> Command {
    let code = CommandCode::new(Box::new([(1, expression)]), Box::default());
    let (inputs, allowance) = (smallvec![Value::Int(input)], Budget::default());
    Command { code: Arc::new(code), inputs, allowance }
}

fn plus_input() -> Expr {
    let (left, right) = (Box::new(Expr::Column(1)), Box::new(Expr::Reg(Reg(0))));
    Expr::Binary { op: BinaryOp::Add, left, right, result: DataType::Int8 }
}

fn ints(values: &[Value]) -> (i64, i64) {
    (values[0].as_int().unwrap(), values[1].as_int().unwrap())
}

/// Runs a step of a transaction.
pub fn step<A: Access>(access: &mut A, act: Act, last: &mut i64) -> Result<Answer, Stop> {
    let present = |yes: bool| if yes { vec![(1, 1)] } else { Vec::new() };
    let scan = |access: &mut A, index, low, high| {
        let bound = |n| Bound::Included(Key::from_int(n));
        let (low, high) = (bound(low), bound(high));
        let range = Range { table: TABLE, index, low, high, reverse: false };
        let mut rows = Vec::new();
        access.scan(&range, &[0, 1], |_, _, values| {
            rows.push(ints(values));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok::<_, Stop>(rows)
    };
    match act {
        Act::Read(key) => {
            let mut out = [Value::Null, Value::Null];
            let found = access.read(TABLE, &Key::from_int(key), &[0, 1], &mut out)?;
            let found: Answer = found.map(|_| ints(&out)).into_iter().collect();
            *last = found.first().map_or(*last, |(_, v)| *v);
            Ok(found)
        }
        Act::Set(key, v) => {
            let command = set_to(Expr::Reg(Reg(0)), v);
            access.update(TABLE, &Key::from_int(key), command).map(present)
        }
        Act::Add(key, n) => {
            access.update(TABLE, &Key::from_int(key), set_to(plus_input(), n)).map(present)
        }
        Act::SetLast(key, n) => {
            let command = set_to(Expr::Reg(Reg(0)), *last + n);
            access.update(TABLE, &Key::from_int(key), command).map(present)
        }
        Act::Insert(key, v) => {
            let row = Box::new([Value::Int(key), Value::Int(v)]);
            access.insert(TABLE, Key::from_int(key), row).map(present)
        }
        Act::Delete(key) => access.delete(TABLE, &Key::from_int(key)).map(present),
        Act::Keys(low, high) => scan(access, 0, low, high),
        Act::Values(low, high) => scan(access, 1, low, high),
    }
}

/// A transaction of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    pub acts: Vec<Act>,
    /// Ends in an error of its own.
    pub fails: bool,
    pub read_only: bool,
}

impl From<&[Act]> for Program {
    fn from(acts: &[Act]) -> Program {
        Program { acts: acts.to_vec(), fails: false, read_only: false }
    }
}

/// How a transaction of a script went.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    pub answers: Vec<Answer>,
    /// `None`: a conflict.
    pub csn: Option<CommitSequenceNumber>,
    pub committed: bool,
}

/// Sessions on one table.
pub struct Stage<'d, R: Rule> {
    db: &'d Database,
    sessions: Vec<Session<'d, R>>,
    position: u32,
}

pub fn database<R: Rule>(spec: TableSpec, sessions: usize) -> Database {
    Database::new([schema()], |_| spec, sessions + 1, R::STRIPED)
}

/// A script: whose turn it is, step by step. A transaction begins with its first turn, runs a step
/// each turn, and ends with the turn after its last.
pub type Schedule = Vec<usize>;

impl<'d, R: Rule> Stage<'d, R> {
    pub fn new(db: &'d Database) -> Stage<'d, R> {
        let sessions = (0..db.clock.workers()).map(|worker| Session::open(db, worker)).collect();
        Stage { db, sessions, position: 0 }
    }

    fn moment(&mut self) -> Moment {
        self.position += 1;
        Moment { height: 1, position: self.position % 1_000_000, now_us: 0 }
    }

    /// The last session's own: what stands now.
    pub fn state(&mut self) -> Model {
        self.alone(&[Act::Keys(i64::MIN, i64::MAX)])[0].iter().copied().collect()
    }

    /// Runs a transaction while no other does, by the last session.
    pub fn alone(&mut self, acts: &[Act]) -> Vec<Answer> {
        let who = self.sessions.len() - 1;
        self.share_what_was_seen();
        loop {
            let moment = self.moment();
            let session = &mut self.sessions[who];
            session.begin(moment, false);
            let mut last = 0;
            let answers: Result<Vec<Answer>, Stop> =
                acts.iter().map(|act| step(session.transaction(), *act, &mut last)).collect();
            let run = answers.clone().map(|_| ProgramResult::default());
            if let Ok(Attempt::Ended(Outcome::Committed(_), _)) = session.end(run) {
                self.share_what_was_seen();
                return answers.unwrap();
            }
        }
    }

    /// Sessions tell each other: what comes next comes after it in every serial order.
    fn share_what_was_seen(&mut self) {
        let seen = self.sessions.iter().map(Session::seen).max().unwrap_or_default();
        self.sessions.iter_mut().for_each(|session| session.see(seen));
    }

    /// Makes the rows what they shall be.
    pub fn reset(&mut self, rows: &Model) {
        let now = self.state();
        let mut acts: Vec<Act> =
            now.keys().filter(|k| !rows.contains_key(k)).map(|k| Act::Delete(*k)).collect();
        acts.extend(rows.iter().map(|(&k, &v)| match now.contains_key(&k) {
            true => Act::Set(k, v),
            false => Act::Insert(k, v),
        }));
        self.alone(&acts);
    }

    pub fn play(&mut self, programs: &[Program], schedule: &[usize]) -> Vec<Run> {
        self.play_with(programs, schedule, usize::MAX)
    }

    /// The same, and the epoch turns before the turn of a number.
    pub fn play_with(
        &mut self,
        programs: &[Program],
        schedule: &[usize],
        epoch_turns_at: usize,
    ) -> Vec<Run> {
        let empty = Run { answers: Vec::new(), csn: None, committed: false };
        let mut runs = vec![empty; programs.len()];
        let mut next = vec![0usize; programs.len()];
        let mut last = vec![0i64; programs.len()];
        let mut over = vec![false; programs.len()];
        for (number, &who) in schedule.iter().enumerate() {
            if number == epoch_turns_at {
                self.turn();
            }
            if over[who] {
                continue;
            }
            let moment = self.moment();
            let (program, session) = (&programs[who], &mut self.sessions[who]);
            if next[who] == 0 {
                session.begin(moment, program.read_only);
            }
            let act = program.acts.get(next[who]);
            next[who] += 1;
            let end = match act {
                Some(act) => match step(session.transaction(), *act, &mut last[who]) {
                    Ok(answer) => {
                        runs[who].answers.push(answer);
                        continue;
                    }
                    Err(stop) => Err(stop),
                },
                None if program.fails => {
                    Err(Stop::Rejected(Error::new(SqlState::RAISE_EXCEPTION, "enough")))
                }
                None => Ok(ProgramResult::default()),
            };
            over[who] = true;
            if let Attempt::Ended(outcome, csn) = session.end(end).expect("no halt") {
                runs[who].csn = Some(csn);
                runs[who].committed = outcome.is_committed();
            }
        }
        runs
    }

    /// Runs a program by the first session, and something else before every step but its first.
    pub fn interrupted(
        &mut self,
        program: &Program,
        mut meanwhile: impl FnMut(&mut Self),
    ) -> Vec<Answer> {
        let moment = self.moment();
        let (mut answers, mut last) = (Vec::new(), 0);
        self.sessions[0].begin(moment, program.read_only);
        for (number, act) in program.acts.iter().enumerate() {
            if number > 0 {
                meanwhile(self);
            }
            let transaction = self.sessions[0].transaction();
            answers.push(step(transaction, *act, &mut last).expect("a reader meets no conflict"));
        }
        let end = self.sessions[0].end(Ok(ProgramResult::default()));
        assert!(matches!(end, Ok(Attempt::Ended(..))), "{end:?}");
        answers
    }

    pub fn turn(&self) {
        self.db.clock.turn();
    }
}

/// Replays in the order claimed; says what differs.
pub fn check(
    before: &Model,
    programs: &[Program],
    runs: &[Run],
    after: &Model,
) -> Result<(), String> {
    let mut order: Vec<usize> = (0..runs.len()).filter(|at| runs[*at].csn.is_some()).collect();
    order.sort_by_key(|at| runs[*at].csn);
    replay(before, programs, runs, after, &order)
}

pub fn replay(
    before: &Model,
    programs: &[Program],
    runs: &[Run],
    after: &Model,
    order: &[usize],
) -> Result<(), String> {
    let mut model = before.clone();
    for &who in order {
        let (mut state, mut last) = (model.clone(), 0);
        for (act, answer) in programs[who].acts.iter().zip(&runs[who].answers) {
            let expected = step_model(&mut state, *act, &mut last);
            if expected != *answer {
                return Err(format!("T{who} {act:?} answered {answer:?}, serially {expected:?}"));
            }
        }
        if runs[who].committed {
            model = state;
        }
    }
    if model != *after {
        return Err(format!("the state is {after:?}, serially {model:?}"));
    }
    Ok(())
}

/// Whether any serial order explains what was seen.
pub fn is_serializable(before: &Model, programs: &[Program], runs: &[Run], after: &Model) -> bool {
    let ended: Vec<usize> = (0..runs.len()).filter(|at| runs[*at].csn.is_some()).collect();
    permutations(&ended).iter().any(|o| replay(before, programs, runs, after, o).is_ok())
}

fn permutations(of: &[usize]) -> Vec<Vec<usize>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (at, first) in of.iter().enumerate() {
        let rest: Vec<usize> = [&of[..at], &of[at + 1..]].concat();
        for mut tail in permutations(&rest) {
            tail.insert(0, *first);
            all.push(tail);
        }
    }
    all
}

/// Every way to interleave so many turns.
pub fn interleavings(turns: &[usize]) -> Vec<Schedule> {
    let mut all = Vec::new();
    extend(&mut turns.to_vec(), &mut Vec::new(), &mut all);
    all
}

fn extend(left: &mut Vec<usize>, so_far: &mut Schedule, all: &mut Vec<Schedule>) {
    if left.iter().all(|turns| *turns == 0) {
        all.push(so_far.clone());
        return;
    }
    for who in 0..left.len() {
        if left[who] > 0 {
            left[who] -= 1;
            so_far.push(who);
            extend(left, so_far, all);
            so_far.pop();
            left[who] += 1;
        }
    }
}
