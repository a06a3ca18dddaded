//! What clients ask for: a handful of programs, and what each of them means, twice.
//!
//! | Name | Program | Why it is here |
//! |---|---|---|
//! | `read` | one row | sees its session's past |
//! | `set` | `v = x`, blind | conflicts with no other write by value |
//! | `add` | `v = v + x` by command | hot rows |
//! | `capped` | reads `v`, rejects from [`CAP`] on, else adds | a user's abort |
//! | `insert`, `delete` | a row comes or goes | existence, retries of deferred inserts |
//! | `range`, `by_index` | rows of a range | phantoms, an index that comes and goes |
//! | `chain` | three rows, each named by the one before | keys that are not known up front |
//!
//! Each has a [builder](build) for the engine and a [specification](crate::model) on plain maps.

use concurrency::Statement;
use engine::Body;
use procedure::Expr;
use procedure::build::{Builder, Tables, add, choose, int, less};
use procedure::step::{OnError, Procedure};
use std::ops::Bound;
use types::{DataType, Error, SqlState, Value};

/// `capped` adds only below it.
pub const CAP: i64 = 12;

/// Rows have the keys from 0 on.
pub const KEYS: u64 = 12;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Read,
    Set,
    Add,
    Capped,
    Insert,
    Delete,
    Range,
    ByIndex,
    Chain,
}

pub const KINDS: [Kind; 9] = [
    Kind::Read,
    Kind::Set,
    Kind::Add,
    Kind::Capped,
    Kind::Insert,
    Kind::Delete,
    Kind::Range,
    Kind::ByIndex,
    Kind::Chain,
];

/// `main` is always there once it was made; `side` is made and dropped now and then.
pub const TABLES: [&str; 2] = ["main", "side"];

/// The index of either table that comes and goes.
pub const INDEX: &str = "by_v";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    pub kind: Kind,
    pub table: &'static str,
    pub x: i64,
    pub y: i64,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Set => "set",
            Kind::Add => "add",
            Kind::Capped => "capped",
            Kind::Insert => "insert",
            Kind::Delete => "delete",
            Kind::Range => "range",
            Kind::ByIndex => "by_index",
            Kind::Chain => "chain",
        }
    }
}

impl Call {
    pub fn body(&self) -> Body {
        let procedure = format!("{}.{}", self.table, self.kind.name());
        Body::call(procedure, [Value::Int(self.x), Value::Int(self.y)])
    }

    /// `None`: no call of these.
    pub fn of(body: &Body) -> Option<Call> {
        let Body::Call(Statement { procedure, arguments }) = body else {
            return None;
        };
        let (table, name) = procedure.split_once('.')?;
        let table = TABLES.into_iter().find(|known| *known == table)?;
        let kind = KINDS.into_iter().find(|kind| kind.name() == name)?;
        let [Value::Int(x), Value::Int(y)] = arguments[..] else {
            return None;
        };
        Some(Call { kind, table, x, y })
    }
}

/// The program of a kind over a table. `Err`: something of it is not there.
pub fn build(tables: &Tables, table: &str, kind: Kind) -> Result<Procedure, Error> {
    let long = DataType::Int8;
    let parameters = [("x", long.clone()), ("y", long.clone())];
    let mut p = Builder::new(tables, kind.name(), &parameters);
    let [x, y] = p.arguments();
    match kind {
        Kind::Read => {
            p.returns(&[("v", long), ("found", DataType::Bool)]);
            let ([v], found) = p.read(table, &[x], ["v"]);
            p.emit(vec![v, found]);
        }
        Kind::Set => update(&mut p, table, x, y),
        Kind::Add => {
            let more = add(p.column(table, "v"), y, &long);
            update(&mut p, table, x, more);
        }
        Kind::Capped => {
            let ([v], found) = p.read(table, std::slice::from_ref(&x), ["v"]);
            let error = OnError::new(SqlState::RAISE_EXCEPTION, "it is enough");
            p.require(less(choose(found, v, int(0)), int(CAP)), error);
            let more = add(p.column(table, "v"), y, &long);
            update(&mut p, table, x, more);
        }
        Kind::Insert => p.insert(table, vec![("id", x), ("v", y)]),
        Kind::Delete => {
            p.returns(&[("found", DataType::Bool)]);
            let found = p.delete(table, &[x]);
            p.emit(vec![found]);
        }
        Kind::Range => {
            p.returns(&[("id", long.clone()), ("v", long)]);
            let query = p.range(table, None, between(x, y), &["id", "v"]);
            p.emit_query(query);
        }
        Kind::ByIndex => {
            p.returns(&[("v", long.clone()), ("id", long)]);
            let query = p.range(table, Some(INDEX), between(x, y), &["v", "id"]);
            p.emit_query(query);
        }
        Kind::Chain => chain(&mut p, table, x),
    }
    p.build()
}

fn update(p: &mut Builder<'_>, table: &str, key: Expr, value: Expr) {
    p.returns(&[("found", DataType::Bool)]);
    let found = p.update(table, &[key], vec![("v", value)]);
    p.emit(vec![found]);
}

fn between(low: Expr, high: Expr) -> [Bound<Box<[Expr]>>; 2] {
    [Bound::Included([low].into()), Bound::Included([high].into())]
}

fn chain(p: &mut Builder<'_>, table: &str, first: Expr) {
    let long = DataType::Int8;
    p.returns(&[("second", long.clone()), ("third", long.clone()), ("found", DataType::Bool)]);
    let ([v], found) = p.read(table, &[first], ["v"]);
    let second = p.assign(choose(found, v, int(0)));
    let ([v], found) = p.read(table, std::slice::from_ref(&second), ["v"]);
    let third = p.assign(choose(found, v, int(0)));
    let more = add(p.column(table, "v"), int(1), &long);
    let found = p.update(table, std::slice::from_ref(&third), vec![("v", more)]);
    p.emit(vec![second, third, found]);
}
