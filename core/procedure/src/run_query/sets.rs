//! INTERSECT and EXCEPT.

use std::ops::ControlFlow;

use types::Value;

use super::{Flow, RowMap, Run, Sink};
use crate::access::Access;
use crate::query::{Query, SetOp};

impl Run<'_> {
    /// With ALL, a row that is m times in the first and n times in the second is min(m, n) times in
    /// the one and m - n times in the other.
    pub(super) fn sets<A: Access>(
        &self,
        access: &mut A,
        (op, all): (SetOp, bool),
        [left, right]: &[Query; 2],
        outer: &[Value],
        sink: Sink<'_>,
    ) -> Flow {
        let mut counts = RowMap::<u64>::default();
        self.query(access, right, outer, &mut |row| {
            self.meter.spend_on_hash(row)?;
            let count = counts.entry(row);
            *count += 1;
            if *count == 1 {
                self.hold(row)?;
            }
            Ok(ControlFlow::Continue(()))
        })
        .map(drop)?;
        self.query(access, left, outer, &mut |row| {
            self.meter.spend_on_hash(row)?;
            let count = counts.get_mut(row).filter(|count| **count > 0);
            let is_wanted = match (op, count) {
                (SetOp::Intersect, None) => false,
                (SetOp::Intersect, Some(count)) => {
                    *count = if all { *count - 1 } else { 0 };
                    true
                }
                (SetOp::Except, Some(count)) => {
                    *count -= u64::from(all);
                    false
                }
                (SetOp::Except, None) if all => true,
                (SetOp::Except, None) => {
                    // Its like is not wanted again.
                    *counts.entry(row) = 1;
                    self.hold(row)?;
                    true
                }
            };
            match is_wanted {
                true => sink(row),
                false => Ok(ControlFlow::Continue(())),
            }
        })
    }
}
