//! The specification: tables as plain maps, and what each request does to them.
//!
//! Shares no line with the engine. A state is small, so the one after every block is kept: readers
//! of the past are compared with it.

use std::collections::BTreeMap;

use types::{SqlState, Value};

use crate::operation::{CAP, Call, Kind};

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct State {
    pub tables: BTreeMap<&'static str, Table>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    pub rows: BTreeMap<i64, i64>,
    pub indexed: bool,
}

/// What a transaction answers: rows, or an SQLSTATE.
pub type Answer = Result<Vec<Vec<Value>>, SqlState>;

impl State {
    pub fn call(&mut self, call: &Call) -> Answer {
        let table = self.tables.get_mut(call.table).ok_or(SqlState::UNDEFINED_OBJECT)?;
        table.call(call)
    }

    /// A schema change: `create table`, `drop table`, `create index`, `drop index` and a table.
    pub fn change(&mut self, text: &str) -> Result<(), SqlState> {
        let (what, name) = text.rsplit_once(' ').ok_or(SqlState::SYNTAX_ERROR)?;
        let known = crate::operation::TABLES.into_iter().find(|known| *known == name);
        let name = known.ok_or(SqlState::SYNTAX_ERROR)?;
        match (what, self.tables.get_mut(name)) {
            ("create table", None) => drop(self.tables.insert(name, Table::default())),
            ("create table", Some(_)) => return Err(SqlState::DUPLICATE_TABLE),
            (_, None) => return Err(SqlState::UNDEFINED_TABLE),
            ("drop table", Some(_)) => drop(self.tables.remove(name)),
            ("create index", Some(table)) if !table.indexed => table.indexed = true,
            ("drop index", Some(table)) if table.indexed => table.indexed = false,
            _ => return Err(SqlState::DUPLICATE_TABLE),
        }
        Ok(())
    }
}

fn found(found: bool) -> Answer {
    Ok(vec![vec![Value::Bool(found)]])
}

fn pair((a, b): (i64, i64)) -> Vec<Value> {
    vec![Value::Int(a), Value::Int(b)]
}

impl Table {
    fn call(&mut self, &Call { kind, x, y, .. }: &Call) -> Answer {
        let rows = &mut self.rows;
        match kind {
            Kind::Read => {
                let value = rows.get(&x).map_or(Value::Null, |v| Value::Int(*v));
                Ok(vec![vec![value, Value::Bool(rows.contains_key(&x))]])
            }
            Kind::Set => found(rows.get_mut(&x).map(|v| *v = y).is_some()),
            Kind::Add => found(rows.get_mut(&x).map(|v| *v += y).is_some()),
            Kind::Capped if rows.get(&x).is_some_and(|v| *v >= CAP) => {
                Err(SqlState::RAISE_EXCEPTION)
            }
            Kind::Capped => found(rows.get_mut(&x).map(|v| *v += y).is_some()),
            Kind::Insert if rows.contains_key(&x) => Err(SqlState::UNIQUE_VIOLATION),
            Kind::Insert => {
                rows.insert(x, y);
                Ok(Vec::new())
            }
            Kind::Delete => found(rows.remove(&x).is_some()),
            Kind::Range if x > y => Ok(Vec::new()),
            Kind::Range => Ok(rows.range(x..=y).map(|(id, v)| pair((*id, *v))).collect()),
            Kind::ByIndex => self.by_index(x, y),
            Kind::Chain => {
                let second = rows.get(&x).copied().unwrap_or(0);
                let third = rows.get(&second).copied().unwrap_or(0);
                let found = rows.get_mut(&third).map(|v| *v += 1).is_some();
                let mut row = pair((second, third));
                row.push(Value::Bool(found));
                Ok(vec![row])
            }
        }
    }

    fn by_index(&self, low: i64, high: i64) -> Answer {
        if !self.indexed {
            return Err(SqlState::UNDEFINED_OBJECT);
        }
        let mut entries: Vec<(i64, i64)> = self.rows.iter().map(|(id, v)| (*v, *id)).collect();
        entries.retain(|(v, _)| (low..=high).contains(v));
        entries.sort_unstable();
        Ok(entries.into_iter().map(pair).collect())
    }
}
