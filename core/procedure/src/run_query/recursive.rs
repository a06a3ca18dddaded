//! WITH RECURSIVE: rows that lead to further rows.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

use types::{Stop, Value};

use super::{Flow, RowSet, Run, Sink};
use crate::access::{Access, Row};
use crate::query::Query;

/// The rows that came last to each recursion that is under way, the innermost after the others.
#[derive(Default)]
pub(super) struct CameLast(RefCell<Vec<(u16, Rc<[Row]>)>>);

/// What comes to a recursion.
#[derive(Default)]
struct Coming {
    /// None comes again, where each comes once.
    seen: Option<RowSet>,
    rows: Vec<Row>,
    weight: usize,
}

impl Run<'_> {
    pub(super) fn recursive<A: Access>(
        &self,
        access: &mut A,
        query: &Query,
        outer: &[Value],
        sink: Sink<'_>,
    ) -> Flow {
        let Query::Recursive { number, all, start, step } = query else {
            return Ok(ControlFlow::Continue(()));
        };
        let mut coming = Coming { seen: (!all).then(RowSet::default), ..Coming::default() };
        let mut flow =
            self.query(access, start, outer, &mut |row| self.come(&mut coming, row, sink))?;
        while flow.is_continue() && !coming.rows.is_empty() {
            self.meter.spend(1)?;
            let (rows, weight) = (std::mem::take(&mut coming.rows), coming.weight);
            coming.weight = 0;
            self.came.0.borrow_mut().push((*number, rows.into()));
            let stepped =
                self.query(access, step, outer, &mut |row| self.come(&mut coming, row, sink));
            self.came.0.borrow_mut().pop();
            // Nothing reads the rows before these any more.
            self.held.set(self.held.get() - weight);
            self.meter.release(weight);
            flow = stepped?;
        }
        Ok(flow)
    }

    fn come(
        &self,
        coming: &mut Coming,
        row: &[Value],
        sink: Sink<'_>,
    ) -> Result<ControlFlow<()>, Stop> {
        if let Some(seen) = &mut coming.seen {
            self.meter.spend_on_hash(row)?;
            if !seen.insert(row) {
                return Ok(ControlFlow::Continue(()));
            }
            self.hold(row)?;
        }
        coming.weight += self.hold(row)?;
        coming.rows.push(row.into());
        sink(row)
    }

    pub(super) fn came_last(&self, number: u16, sink: Sink<'_>) -> Flow {
        let came = self.came.0.borrow();
        let rows = came.iter().rfind(|(of, _)| *of == number).map(|(_, rows)| Rc::clone(rows));
        drop(came);
        for row in rows.iter().flat_map(|rows| rows.iter()) {
            self.meter.spend(1)?;
            if sink(row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
