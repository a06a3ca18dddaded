//! Reads that are done while planning: of what no transaction of the block changes.
//!
//! They fill registers, which the keys and the guards of the call's fragments are computed from,
//! and cells, which its fragments and its answer take as those of any other fragment. A call that
//! is turned down here, or of which something fails, runs after the queues.
//!
//! *Why not in the queues.* Whatever waits for such a read could wait for it there: but the queue
//! of a record that is known by a read alone is not known, and what runs before a rejection is
//! known has to be undone with all that met it.

use std::sync::Arc;

use concurrency::{Block, Moment, NoRecord, Overlay, Statement};
use procedure::interpret::run;
use procedure::step::Procedure;
use storage::LATEST;
use types::{ColumnId, Value};

use super::action::Action;
use super::plan::{Output, Planner};
use super::program::{Publish, Template};

impl Planner<'_> {
    /// Read what the block does not change, or find out whether the call is turned down.
    pub(super) fn look(
        &mut self,
        template: &Template,
        first_cell: u32,
        value: Option<&Value>,
        statement: &Statement,
    ) -> Option<()> {
        debug_assert!(template.is_steady, "the block may change it");
        let [operation] = &*template.operations else { return None };
        let out = usize::from(operation.out.0);
        let found = match &operation.action {
            Action::Require(condition) => {
                self.fill_turn(template, value, statement);
                let Block { time_us, .. } = *self.block;
                self.meter.refill();
                let truth =
                    condition.eval_truth_metered(&self.registers, &[], time_us, &self.meter);
                return (truth.ok()? == Some(true)).then_some(());
            }
            Action::Query(asking) => self.ask(asking, &statement.arguments, out)?,
            action => {
                let key = self.key(template, &template.key, value, statement)?;
                self.fill_turn(template, value, statement);
                let table = self.catalog.table(template.table)?;
                let slot = table.find(key.as_bytes());
                let none: &[ColumnId] = &[];
                let columns = if let Action::Read { columns } = action { columns } else { none };
                let registers = &mut self.registers[out..out + columns.len()];
                registers.iter_mut().for_each(|register| register.set(Value::Null));
                slot.and_then(|slot| table.read(slot, LATEST, columns, registers)).is_some()
            }
        };
        self.registers[usize::from(operation.found.0)].set(Value::Bool(found));
        if let Publish::Cell { cell, columns, .. } = &operation.publish {
            let column = |place: &u16| self.registers[out + usize::from(*place)].copied();
            let columns = columns.iter().filter(|_| found).map(column).collect();
            let output = Output { found, columns, ..Output::default() };
            self.published.push((first_cell + u32::from(*cell), output));
        }
        Some(())
    }

    /// The first row of a query to the registers from `out` on.
    fn ask(&mut self, asking: &Procedure, arguments: &[Value], out: usize) -> Option<bool> {
        let Block { height, time_us: now_us, .. } = *self.block;
        let moment = Moment { height, position: 0, now_us };
        let mut overlay = Overlay::new(Arc::clone(self.catalog), height - 1, moment, NoRecord);
        let answer = run(asking, arguments, &mut self.frame, &mut overlay).ok()?;
        let meter = self.frame.meter();
        self.spent = self.spent.saturating_add(self.units_max.saturating_sub(meter.left()));
        let mut values = answer.rows.into_iter().next()?.into_iter();
        let Value::Bool(found) = values.next_back()? else { return None };
        let registers = usize::from(asking.registers).max(self.registers.len());
        self.registers.resize_with(registers, Value::default);
        for (register, value) in self.registers[out..].iter_mut().zip(values) {
            register.set(value);
        }
        Some(found)
    }
}
