//! GROUPING SETS: the same rows, grouped several times.

use std::ops::ControlFlow;

use smallvec::{SmallVec, smallvec};
use types::Value;
use types::value::VALUE_WEIGHT;

use super::{Flow, RowMap, Run, Sink};
use crate::access::Access;
use crate::aggregate::Accumulator;
use crate::meter::GROUP_UNITS;
use crate::query::Query;

impl Run<'_> {
    /// Set by set, each in the order in which its groups first appear.
    pub(super) fn grouping_sets<A: Access>(
        &self,
        access: &mut A,
        query: &Query,
        outer: &[Value],
        sink: Sink<'_>,
    ) -> Flow {
        let Query::Aggregate { input, groups, sets, aggregates } = query else {
            return Ok(ControlFlow::Continue(()));
        };
        let start = || -> Vec<Accumulator> { aggregates.iter().map(Accumulator::new).collect() };
        let mut grouped: Vec<RowMap<Option<Vec<Accumulator>>>> = Vec::with_capacity(sets.len());
        for set in sets {
            let mut states = RowMap::default();
            if set.is_empty() {
                // There is one group, also of no rows.
                *states.entry(&[]) = Some(start());
                self.hold_bytes(aggregates.len() * VALUE_WEIGHT)?;
            }
            grouped.push(states);
        }
        let (mut of_row, mut group): (SmallVec<[Value; 8]>, SmallVec<[Value; 4]>) =
            (smallvec![], smallvec![]);
        self.query(access, input, outer, &mut |row| {
            of_row.clear();
            for expression in groups {
                of_row.push(self.eval(expression, row)?);
            }
            for (set, states) in sets.iter().zip(&mut grouped) {
                self.meter.spend(1)?;
                group.clear();
                group.extend(set.iter().map(|place| of_row[usize::from(*place)].clone()));
                self.meter.spend_on_hash(&group)?;
                let entry = states.entry(&group);
                if entry.is_none() {
                    self.meter.spend(GROUP_UNITS)?;
                    self.hold(&group)?;
                    self.hold_bytes(aggregates.len() * VALUE_WEIGHT)?;
                }
                self.take_in(entry.get_or_insert_with(start), aggregates, row)?;
            }
            Ok(ControlFlow::Continue(()))
        })
        .map(drop)?;
        for (number, (set, states)) in sets.iter().zip(grouped).enumerate() {
            for (group, states) in states.into_entries() {
                self.meter.spend(1)?;
                let mut row = vec![Value::Null; groups.len()];
                for (place, value) in set.iter().zip(group) {
                    row[usize::from(*place)] = value;
                }
                for (state, aggregate) in states.unwrap_or_default().into_iter().zip(aggregates) {
                    row.push(self.finish(state, aggregate)?);
                }
                row.push(Value::Int(number as i64 + 1));
                if sink(&row)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
