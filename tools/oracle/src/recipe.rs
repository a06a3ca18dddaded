//! Transactions as data: what can be printed, made smaller, and made into [`Work`].

use std::fmt;
use std::sync::Arc;

use concurrency::{Load, Work};
use types::{Error, SqlState};

use crate::programs::{Builder, Operation, load_of};
use crate::session::Action;

/// One operation of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    pub operation: Operation,
    pub key: i64,
    pub number: i64,
}

/// The rows of a COPY: (key, number).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rows {
    pub into_log: bool,
    pub rows: Vec<(i64, i64)>,
}

/// A transaction of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Recipe {
    Program(Vec<Call>),
    Load(Rows),
    /// Did not compile.
    Void,
    /// The COMMIT of a conversation that was held this many blocks before, on the block's snapshot.
    Session {
        blocks_ago: usize,
        script: Vec<Line>,
    },
    /// A program that was simulated this many blocks before, on the block's snapshot: its reads
    /// and writes.
    Endorsed {
        blocks_ago: usize,
        calls: Vec<Call>,
    },
}

/// A step of a conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    Query(Vec<Call>),
    /// Answers nothing but that it was done.
    Write(Vec<Call>),
    /// Answers what it saw, as RETURNING does.
    Returning(Vec<Call>),
    Load(Rows),
    Savepoint,
    RollBack,
}

impl Recipe {
    /// The work of any but a session, whose COMMIT depends on what it was told, and what was
    /// endorsed.
    pub fn work(&self) -> Option<Arc<Work>> {
        Some(match self {
            Recipe::Program(calls) => builder(calls).finish(),
            Recipe::Load(rows) => Arc::new(Work::Load(rows.load())),
            Recipe::Void => {
                let error = Error::new(SqlState::SYNTAX_ERROR, "it did not compile");
                Arc::new(Work::Void(error))
            }
            Recipe::Session { .. } | Recipe::Endorsed { .. } => return None,
        })
    }

    /// Recipes with one part less.
    pub fn smaller(&self) -> Vec<Recipe> {
        match self {
            Recipe::Program(calls) => without_one(calls).map(Recipe::Program).collect(),
            Recipe::Load(rows) => rows.smaller().map(Recipe::Load).collect(),
            Recipe::Void => Vec::new(),
            Recipe::Session { blocks_ago, script } => {
                let blocks_ago = *blocks_ago;
                let mut scripts: Vec<Vec<Line>> = without_one(script).collect();
                for (at, line) in script.iter().enumerate() {
                    scripts.extend(line.smaller().into_iter().map(|line| {
                        let mut script = script.clone();
                        script[at] = line;
                        script
                    }));
                }
                let session = |script| Recipe::Session { blocks_ago, script };
                scripts.into_iter().map(session).collect()
            }
            Recipe::Endorsed { blocks_ago, calls } => {
                let blocks_ago = *blocks_ago;
                let endorsed = |calls| Recipe::Endorsed { blocks_ago, calls };
                without_one(calls).map(endorsed).collect()
            }
        }
    }
}

impl Rows {
    pub fn load(&self) -> Load {
        load_of(self.into_log, &self.rows)
    }

    fn smaller(&self) -> impl Iterator<Item = Rows> {
        let into_log = self.into_log;
        without_one(&self.rows).map(move |rows| Rows { into_log, rows })
    }
}

impl Line {
    pub fn action(&self) -> Action {
        match self {
            Line::Query(calls) => Action::Query(builder(calls).procedure()),
            Line::Write(calls) => Action::Write(builder(calls).silent().procedure()),
            Line::Returning(calls) => Action::Write(builder(calls).procedure()),
            Line::Load(rows) => Action::Load(rows.load()),
            Line::Savepoint => Action::Savepoint,
            Line::RollBack => Action::RollBack,
        }
    }

    fn smaller(&self) -> Vec<Line> {
        match self {
            Line::Query(calls) => without_one(calls).map(Line::Query).collect(),
            Line::Write(calls) => without_one(calls).map(Line::Write).collect(),
            Line::Returning(calls) => without_one(calls).map(Line::Returning).collect(),
            Line::Load(rows) => rows.smaller().map(Line::Load).collect(),
            Line::Savepoint | Line::RollBack => Vec::new(),
        }
    }
}

pub fn builder(calls: &[Call]) -> Builder {
    let mut builder = Builder::default();
    for call in calls {
        builder.push(call.operation, call.key, call.number);
    }
    builder
}

/// The same list without one of its items, for each of them.
pub fn without_one<T: Clone>(items: &[T]) -> impl Iterator<Item = Vec<T>> {
    (0..items.len()).map(|out| {
        let mut rest = items.to_vec();
        rest.remove(out);
        rest
    })
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({}, {})", self.operation, self.key, self.number)
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = if self.into_log { "log" } else { "t" };
        write!(f, "COPY {table} {:?}", self.rows)
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Recipe::Program(calls) => join(f, "", calls),
            Recipe::Load(rows) => rows.fmt(f),
            Recipe::Void => f.write_str("did not compile"),
            Recipe::Session { blocks_ago, script } => {
                write!(f, "COMMIT of a session that ran {blocks_ago} blocks before:")?;
                script.iter().try_for_each(|line| write!(f, "\n         {line}"))
            }
            Recipe::Endorsed { blocks_ago, calls } => {
                write!(f, "endorsed {blocks_ago} blocks before: ")?;
                join(f, "", calls)
            }
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Query(calls) => join(f, "query: ", calls),
            Line::Write(calls) => join(f, "write: ", calls),
            Line::Returning(calls) => join(f, "write and return: ", calls),
            Line::Load(rows) => rows.fmt(f),
            Line::Savepoint => f.write_str("savepoint"),
            Line::RollBack => f.write_str("roll back"),
        }
    }
}

fn join(f: &mut fmt::Formatter<'_>, what: &str, calls: &[Call]) -> fmt::Result {
    let texts: Vec<_> = calls.iter().map(ToString::to_string).collect();
    write!(f, "{what}{}", texts.join(" · "))
}
