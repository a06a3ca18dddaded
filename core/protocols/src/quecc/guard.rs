//! What a fragment's happening depends on beside its own record.

use procedure::analysis::visit;
use procedure::{Expr, Reg};
use types::{Error, Value};

/// Something that must hold for a fragment to happen. Several are looked at in program order, up to
/// the first that does not hold, as a run from start to end would look at them.
#[derive(Clone)]
pub enum Guard {
    /// It stands in the branch that is taken where the condition is true, or where it is not.
    Branch { condition: Expr, truth: bool },
    /// The call has not ended: these did not all hold.
    Unless(Box<[Guard]>),
}

impl Guard {
    pub fn holds(&self, registers: &[Value], now_us: i64) -> Result<bool, Error> {
        match self {
            Guard::Branch { condition, truth } => {
                Ok((condition.eval_truth(registers, &[], now_us)? == Some(true)) == *truth)
            }
            Guard::Unless(guards) => Ok(!Guard::all_hold(guards, registers, now_us)?),
        }
    }

    pub fn all_hold(guards: &[Guard], registers: &[Value], now_us: i64) -> Result<bool, Error> {
        for guard in guards {
            if !guard.holds(registers, now_us)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub fn each_expr<'g>(&'g self, visit: &mut dyn FnMut(&'g Expr)) {
        match self {
            Guard::Branch { condition, .. } => visit(condition),
            Guard::Unless(guards) => guards.iter().for_each(|guard| guard.each_expr(visit)),
        }
    }

    pub fn each_register(&self, visit: &mut dyn FnMut(Reg)) {
        self.each_expr(&mut |expr| visit::each_register(expr, visit));
    }
}
