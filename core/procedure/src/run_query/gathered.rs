//! GROUP BY and aggregates: rows are gathered into groups by hash; aggregates may have several
//! arguments and an ORDER BY of their own.

use std::ops::ControlFlow;

use smallvec::{SmallVec, smallvec};
use types::value::VALUE_WEIGHT;
use types::{Error, Value};

use super::{COMPARISONS_PER_ROW, Flow, RowMap, Run, Sink, SortRow, compare_sort_keys};
use crate::access::Access;
use crate::aggregate::Accumulator;
use crate::expr::Expr;
use crate::meter::{GROUP_UNITS, ROW_WEIGHT};
use crate::query::{Aggregate, Query};

impl Run<'_> {
    pub(super) fn aggregate<A: Access>(
        &self,
        access: &mut A,
        input: &Query,
        groups: &[Expr],
        aggregates: &[Aggregate],
        outer: &[Value],
        sink: Sink<'_>,
    ) -> Flow {
        let start = || -> Vec<Accumulator> { aggregates.iter().map(Accumulator::new).collect() };
        let mut states = RowMap::<Option<Vec<Accumulator>>>::default();
        if groups.is_empty() {
            *states.entry(&[]) = Some(start());
        }
        let mut group: SmallVec<[Value; 4]> = smallvec![];
        self.query(access, input, outer, &mut |row| {
            group.clear();
            for expression in groups {
                group.push(self.eval(expression, row)?);
            }
            self.meter.spend_on_hash(&group)?;
            let entry = states.entry(&group);
            if entry.is_none() {
                self.meter.spend(GROUP_UNITS)?;
                self.hold(&group)?;
                self.hold_bytes(aggregates.len() * VALUE_WEIGHT)?;
            }
            self.take_in(entry.get_or_insert_with(start), aggregates, row)?;
            Ok(ControlFlow::Continue(()))
        })
        .map(drop)?;
        for (group, states) in states.into_entries() {
            let mut row = Vec::from(group);
            for (state, aggregate) in states.unwrap_or_default().into_iter().zip(aggregates) {
                row.push(self.finish(state, aggregate)?);
            }
            if sink(&row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(super) fn take_in(
        &self,
        states: &mut [Accumulator],
        aggregates: &[Aggregate],
        row: &[Value],
    ) -> Result<(), Error> {
        for (state, aggregate) in states.iter_mut().zip(aggregates) {
            if !self.passes(aggregate.filter.as_ref(), row)? {
                continue;
            }
            let gathered = match &aggregate.input {
                Some(_) if aggregate.separator.is_some() || !aggregate.order.is_empty() => {
                    self.take_in_sorted(state, aggregate, row)?
                }
                Some(input) => {
                    let value = self.look(input, row)?;
                    self.meter.spend(state.work(&value))?;
                    state.add(&value, &Value::Null, aggregate)?
                }
                None => state.add(&Value::Bool(true), &Value::Null, aggregate)?,
            };
            self.hold_bytes(gathered)?;
        }
        Ok(())
    }

    /// What it keeps of a row, which is held for it already where that has to be sorted first.
    pub(super) fn take_in_sorted(
        &self,
        state: &mut Accumulator,
        aggregate: &Aggregate,
        row: &[Value],
    ) -> Result<usize, Error> {
        let value = match &aggregate.input {
            Some(input) => self.eval(input, row)?,
            None => Value::Null,
        };
        let separator = match &aggregate.separator {
            Some(separator) => self.eval(separator, row)?,
            None => Value::Null,
        };
        let is_left_out = value.is_null() && !aggregate.function.keeps_nulls();
        let Some(waiting) = state.waiting() else {
            self.meter.spend_bytes(value.weight() + separator.weight())?;
            return state.add(&value, &separator, aggregate);
        };
        let mut keys: SmallVec<[Value; 2]> = SmallVec::with_capacity(aggregate.order.len());
        for key in &aggregate.order {
            keys.push(self.eval(&key.expr, row)?);
        }
        if is_left_out {
            return Ok(0);
        }
        let long = self.hold(&keys)? - VALUE_WEIGHT * keys.len() - ROW_WEIGHT;
        self.meter.spend_bytes(long / 4 * COMPARISONS_PER_ROW)?;
        let kept = [value, separator];
        self.hold(&kept)?;
        waiting.push((keys, kept.into()));
        Ok(0)
    }

    /// The value of an aggregate over all that it has taken in.
    pub(super) fn finish(
        &self,
        mut state: Accumulator,
        aggregate: &Aggregate,
    ) -> Result<Value, Error> {
        let Some(waiting) = state.waiting() else { return state.finish(aggregate) };
        let mut rows = std::mem::take(waiting);
        self.sort_rows(&mut rows, &aggregate.order)?;
        let mut state = Accumulator::of_sorted();
        let mut before: Option<&SortRow> = None;
        for row in &rows {
            let is_like =
                |before: &SortRow| compare_sort_keys(&aggregate.order, &before.0, &row.0).is_eq();
            if aggregate.distinct && before.is_some_and(is_like) {
                continue;
            }
            let [value, separator] = &*row.1 else { continue };
            self.meter.spend(1 + state.work(value))?;
            self.meter.spend_bytes(value.weight() + separator.weight())?;
            let kept = state.add(value, separator, aggregate)?;
            self.hold_bytes(kept)?;
            before = Some(row);
        }
        state.finish(aggregate)
    }
}
