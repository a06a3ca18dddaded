//! Subqueries that are run for each row of the query around them.

use std::cell::Cell;
use std::ops::ControlFlow;

use smallvec::SmallVec;
use types::{Error, SqlState, Stop, Value};

use super::{Flow, Run, Sink, padded};
use crate::access::Access;
use crate::meter::PAIR_UNITS;
use crate::query::{Query, Yields};

impl Run<'_> {
    pub(super) fn apply<A: Access>(
        &self,
        access: &mut A,
        query: &Query,
        outer_row: &[Value],
        sink: Sink<'_>,
    ) -> Flow {
        let Query::Apply { outer, inner, given, guard, yields } = query else {
            return Ok(ControlFlow::Continue(()));
        };
        let rows = self.gather(access, outer, outer_row)?;
        let weight = self.registers.iter().map(Value::weight).sum();
        self.meter.spend_bytes(weight)?;
        self.hold_bytes(weight)?;
        let mut registers = self.registers.to_vec();
        for row in rows {
            self.meter.spend(PAIR_UNITS)?;
            let is_run = self.passes(guard.as_ref(), &row)?;
            if is_run {
                for (register, value) in given {
                    registers[usize::from(register.0)] = self.eval(value, &row)?;
                }
            }
            // What one run gathers is given back before the next.
            let within = Run {
                registers: &registers,
                now_us: self.now_us,
                meter: self.meter,
                held: Cell::new(0),
                came: self.came,
            };
            let inner = is_run.then_some(&**inner);
            let flow = match yields {
                Yields::Rows { .. } => within.rows_behind(access, inner, &row, yields, sink)?,
                Yields::Value => {
                    let value = within.value(access, inner)?;
                    sink(&behind(&row, value))?
                }
                Yields::Exists => {
                    let exists = within.exists(access, inner)?;
                    sink(&behind(&row, Value::Bool(exists)))?
                }
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn rows_behind<A: Access>(
        &self,
        access: &mut A,
        inner: Option<&Query>,
        row: &[Value],
        yields: &Yields,
        sink: Sink<'_>,
    ) -> Flow {
        let (Yields::Rows { condition, left, inner_width }, Some(inner)) = (yields, inner) else {
            return Ok(ControlFlow::Continue(()));
        };
        let mut is_alone = true;
        let mut joined: SmallVec<[Value; 16]> = SmallVec::new();
        let flow = self.query(access, inner, &[], &mut |inner_row| {
            self.meter.spend(PAIR_UNITS)?;
            joined.clear();
            joined.extend(row.iter().chain(inner_row).cloned());
            if !self.passes(condition.as_ref(), &joined)? {
                return Ok(ControlFlow::Continue(()));
            }
            is_alone = false;
            sink(&joined)
        })?;
        match *left && is_alone && flow.is_continue() {
            true => sink(&padded(row, *inner_width)),
            false => Ok(flow),
        }
    }

    fn value<A: Access>(&self, access: &mut A, inner: Option<&Query>) -> Result<Value, Stop> {
        let Some(inner) = inner else { return Ok(Value::Null) };
        let mut found = None;
        self.query(access, inner, &[], &mut |row| {
            if found.is_some() {
                let what = "more than one row returned by a subquery used as an expression";
                return Err(Error::new(SqlState::CARDINALITY_VIOLATION, what).into());
            }
            found = Some(row.first().cloned().unwrap_or_default());
            Ok(ControlFlow::Continue(()))
        })
        .map(drop)?;
        Ok(found.unwrap_or_default())
    }

    fn exists<A: Access>(&self, access: &mut A, inner: Option<&Query>) -> Result<bool, Stop> {
        let Some(inner) = inner else { return Ok(false) };
        let mut exists = false;
        self.query(access, inner, &[], &mut |_| {
            exists = true;
            Ok(ControlFlow::Break(()))
        })
        .map(drop)?;
        Ok(exists)
    }
}

fn behind(row: &[Value], value: Value) -> SmallVec<[Value; 16]> {
    row.iter().cloned().chain([value]).collect()
}
