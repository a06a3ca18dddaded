//! What the sessions of a node do, as `pg_stat_activity` shows it.
//!
//! Each session writes a cell of its own, before a statement and after it, under a lock that no
//! other session takes but to read the view. It leaves the statement itself there, whose text is
//! made when it is read, so a statement costs two counts and two looks at the clock. Of a long one
//! its beginning is copied instead, since the statement would be held longer than its session needs
//! it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use types::Value;

use crate::session::prepared::{Literals, Prepared};

/// What of a statement's text is shown: PostgreSQL's `track_activity_query_size`.
const TEXT_BYTES_MAX: usize = 1024;

/// From 1970 to 2000.
const EPOCH_US: i64 = 946_684_800_000_000;

/// Of all sessions, by their number.
#[derive(Default)]
pub struct Activities(Mutex<BTreeMap<i32, Arc<Activity>>>);

/// Of one session.
pub struct Activity(Mutex<Cell>);

struct Cell {
    shown: Shown,
    statement: Executed,
}

/// What was executed last.
#[derive(Clone)]
enum Executed {
    Nothing,
    /// And the literals that stood in its text.
    Statement(Arc<Prepared>, Option<Literals>),
    Beginning(String),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    pub process: i32,
    pub user: String,
    pub database: String,
    pub application: String,
    /// `None`: a process of this machine, by the socket's file.
    pub client: Option<SocketAddr>,
    pub state: State,
    /// Of the statement that runs, or ran last.
    pub text: String,
    /// Times are microseconds since 2000-01-01.
    pub began_us: i64,
    pub transaction_us: Option<i64>,
    pub statement_us: Option<i64>,
    pub changed_us: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Active,
    Idle,
    InTransaction,
    Failed,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::Active => "active",
            State::Idle => "idle",
            State::InTransaction => "idle in transaction",
            State::Failed => "idle in transaction (aborted)",
        }
    }
}

impl Activities {
    pub(super) fn enter(&self, shown: Shown) -> Arc<Activity> {
        let process = shown.process;
        let activity = Arc::new(Activity(Mutex::new(Cell { shown, statement: Executed::Nothing })));
        self.0.lock().insert(process, Arc::clone(&activity));
        activity
    }

    pub(super) fn leave(&self, process: i32) {
        self.0.lock().remove(&process);
    }

    pub(super) fn processes(&self) -> Vec<i32> {
        self.0.lock().keys().copied().collect()
    }

    pub(super) fn user(&self, process: i32) -> Option<String> {
        let activity = self.0.lock().get(&process).cloned()?;
        let user = activity.0.lock().shown.user.clone();
        Some(user)
    }

    pub fn shown(&self) -> Vec<Shown> {
        let all: Vec<_> = self.0.lock().values().cloned().collect();
        all.iter().map(|activity| activity.shown()).collect()
    }
}

impl Activity {
    fn shown(&self) -> Shown {
        let (shown, statement) = {
            let cell = self.0.lock();
            (cell.shown.clone(), cell.statement.clone())
        };
        let text = match statement {
            Executed::Nothing => String::new(),
            Executed::Statement(prepared, literals) => {
                written(&prepared.parsed.text, literals.as_deref().unwrap_or_default())
            }
            Executed::Beginning(text) => text,
        };
        Shown { text, ..shown }
    }

    pub(in crate::session) fn is_from(&self, client: Option<SocketAddr>) {
        self.0.lock().shown.client = client;
    }

    pub(in crate::session) fn calls_itself(&self, application: String) {
        self.0.lock().shown.application = application;
    }

    /// A statement begins.
    pub(in crate::session) fn begin(&self, prepared: &Arc<Prepared>, literals: Option<Literals>) {
        let text = &prepared.parsed.text;
        let literals_bytes: usize = literals.iter().flat_map(|it| &**it).map(Value::weight).sum();
        let statement = match text.len() + literals_bytes <= TEXT_BYTES_MAX {
            true => Executed::Statement(Arc::clone(prepared), literals),
            false => Executed::Beginning(text[..text.floor_char_boundary(TEXT_BYTES_MAX)].into()),
        };
        let now_us = now_us();
        let mut cell = self.0.lock();
        let before = std::mem::replace(&mut cell.statement, statement);
        let shown = &mut cell.shown;
        shown.state = State::Active;
        shown.transaction_us.get_or_insert(now_us);
        (shown.statement_us, shown.changed_us) = (Some(now_us), now_us);
        drop(cell);
        drop(before);
    }

    /// It has ended, in one way or the other.
    pub(in crate::session) fn end(&self, state: State) {
        let now_us = now_us();
        let shown = &mut self.0.lock().shown;
        if state == State::Idle {
            shown.transaction_us = None;
        }
        (shown.state, shown.changed_us) = (state, now_us);
    }
}

/// By the clock of the machine: what is shown of a session is no part of what its node orders.
pub(in crate::session) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX).saturating_sub(EPOCH_US)
}

/// The text with its literals in the places of its parameters, cut at the length that is shown.
fn written(text: &str, literals: &[Value]) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$').filter(|_| out.len() < TEXT_BYTES_MAX) {
        let behind = &rest[at + 1..];
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        let number = behind[..digits].parse::<usize>().ok();
        let literal = number.and_then(|number| literals.get(number.checked_sub(1)?));
        match literal {
            Some(literal) => {
                out.push_str(&rest[..at]);
                out.push_str(&as_literal(literal));
                rest = &behind[digits..];
            }
            None => {
                out.push_str(&rest[..=at]);
                rest = behind;
            }
        }
    }
    out.push_str(rest);
    out.truncate(out.floor_char_boundary(TEXT_BYTES_MAX));
    out
}

fn as_literal(value: &Value) -> String {
    let text = || value.to_text(&value.data_type_hint());
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Int(_) | Value::Float(_) | Value::Numeric(_) => text(),
        _ => format!("'{}'", text().replace('\'', "''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_stand_where_the_client_wrote_them() {
        let literals = [Value::Int(60), Value::text("it's")];
        assert_eq!(written("SELECT f($1, $2), $3, $", &literals), "SELECT f(60, 'it''s'), $3, $");
        assert_eq!(written("SELECT $10 + $1", &literals), "SELECT $10 + 60");
        assert_eq!(written(&"ü".repeat(600), &[]).len(), TEXT_BYTES_MAX);
    }
}
