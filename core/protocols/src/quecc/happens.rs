//! Whether a fragment happens, as far as its arguments say, and what is read while planning.

use concurrency::Statement;
use types::Value;

use super::guard::{Guard, Happens, Sight};
use super::plan::Planner;
use super::program::{Operation, Template};

impl Planner<'_> {
    /// It does if one of its operations does. Which do is remembered, whatever the turn. `None`:
    /// one of them may fail.
    pub(super) fn happens(
        &mut self,
        template: &Template,
        statement: &Statement,
    ) -> Option<Happens> {
        let (mut happens, mut operations) = (Happens::Never, 0);
        for (place, operation) in template.operations.iter().enumerate() {
            if operation.foreseen_by_turn {
                happens = if happens == Happens::Never { Happens::ByTurn } else { happens };
            } else if self.is_foreseen(template, operation, None, statement).ok()? {
                happens = Happens::Always;
            } else {
                continue;
            }
            operations |= 1 << place;
            self.try_decided(template, operation, statement)?;
        }
        self.happening.push(operations);
        Some(happens)
    }

    pub(super) fn happens_in_turn(
        &mut self,
        template: &Template,
        value: Option<&Value>,
        statement: &Statement,
    ) -> Option<bool> {
        let mut happens = false;
        for operation in template.operations.iter().filter(|one| one.foreseen_by_turn) {
            happens |= self.is_foreseen(template, operation, value, statement).ok()?;
        }
        Some(happens)
    }

    /// Whether the guards hold that arguments decide.
    fn is_foreseen(
        &mut self,
        template: &Template,
        operation: &Operation,
        value: Option<&Value>,
        statement: &Statement,
    ) -> Result<bool, types::Error> {
        if operation.foreseen.is_empty() {
            return Ok(true);
        }
        let is_filled = value.is_some() || self.is_steady;
        if is_filled {
            self.fill_turn(template, value, statement);
        }
        let registers = if is_filled { &self.registers[..] } else { &statement.arguments };
        let sight = Sight { registers, now_us: self.block.time_us, meter: &self.meter };
        Guard::all_hold(&operation.foreseen, sight)
    }
}
