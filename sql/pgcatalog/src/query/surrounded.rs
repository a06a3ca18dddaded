//! What a program over system catalogs asks while it runs: rows of relations, and calls by the
//! numbers that its binding has given out.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use procedure::{Flow, Interrupt, Sink, Surroundings};
use types::compare::equal;
use types::{DataType, Result, Value};

use super::around::Around;
use super::binding::Call;
use super::made::internal;
use crate::relation;
use crate::world::{Contents, Row};

pub struct Surrounded {
    pub around: Around,
    /// What the program's numbers stand for.
    pub calls: Arc<[Call]>,
}

impl Surrounded {
    fn call(&self, number: u16) -> Result<&Call> {
        let call = self.calls.get(usize::from(number));
        call.ok_or_else(|| internal("a call that the plan has not"))
    }
}

impl Interrupt for Surrounded {
    fn check(&self) -> Result<()> {
        self.around.check()
    }

    fn surroundings(&self) -> Option<&dyn Surroundings> {
        Some(self)
    }
}

impl Surroundings for Surrounded {
    fn value(&self, call: u16, arguments: &[Cow<'_, Value>], _: &DataType) -> Result<Value> {
        match self.call(call)? {
            Call::Conversion { from, to } => match arguments {
                [value] => self.around.names().cast(value, from, to),
                _ => Err(internal("a conversion of several values")),
            },
            Call::Value { function, types } => {
                if function.strict && arguments.iter().any(|value| value.is_null()) {
                    return Ok(Value::Null);
                }
                let values: Vec<Value> =
                    arguments.iter().map(|value| Value::clone(value)).collect();
                (function.eval)(&self.around, &values, types)
            }
            Call::Rows { .. } => Err(internal("rows as a value")),
        }
    }

    fn rows(&self, call: u16, arguments: &[Value]) -> Result<Vec<Row>> {
        let Call::Rows { function, types, as_record } = self.call(call)? else {
            return Err(internal("a value as rows"));
        };
        let rows = (function.eval)(&self.around, arguments, types)?;
        let record = |row: Row| [Value::array(row)].into();
        Ok(match as_record {
            true => rows.into_iter().map(record).collect(),
            false => rows,
        })
    }

    fn scan(
        &self,
        source: u16,
        columns: &[u16],
        key: Option<(u16, &Value)>,
        sink: Sink<'_>,
    ) -> Flow {
        let place = usize::from(source);
        let contents = self.around.contents(place)?;
        let oid = relation::all()[place].oid;
        let mut shown: Vec<Value> = Vec::with_capacity(columns.len());
        let mut push = |row: &Row| {
            shown.clear();
            let value = |column: &u16| value_of(row, usize::from(*column), oid);
            shown.extend(columns.iter().map(value));
            sink(&shown)
        };
        let found = key.map(|(column, value)| places(&contents, place, column.into(), value));
        match found {
            None => each(contents.rows.iter(), &mut push),
            Some(places) => each(places.iter().map(|at| &contents.rows[*at]), &mut push),
        }
    }
}

/// Values of these types are equal exactly if they are the same.
fn is_hashed(data_type: &DataType) -> bool {
    !matches!(data_type, DataType::Numeric(_) | DataType::Float8 | DataType::Timestamp(_))
}

fn each<'r>(rows: impl Iterator<Item = &'r Row>, push: &mut impl FnMut(&Row) -> Flow) -> Flow {
    for row in rows {
        if push(row)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The rows of the relation at `place` that have a value, by their places.
fn places(contents: &Contents, place: usize, column: usize, value: &Value) -> Vec<usize> {
    let relation = &relation::all()[place];
    let is_looked_up =
        relation.columns.get(column).is_some_and(|column| is_hashed(&column.data_type));
    if is_looked_up {
        return contents.lookup(column).get(value).cloned().unwrap_or_default();
    }
    let is_it = |row: &Row| equal(&value_of(row, column, relation.oid), value) == Some(true);
    let rows = contents.rows.iter().enumerate();
    rows.filter(|(_, row)| is_it(row)).map(|(place, _)| place).collect()
}

/// A column's value; after a relation's own are those that every table has.
fn value_of(row: &Row, column: usize, relation: u32) -> Value {
    match row.get(column) {
        Some(value) => value.clone(),
        None if column == row.len() => Value::Int(relation.into()),
        None => Value::Int(super::FROZEN_XID),
    }
}
