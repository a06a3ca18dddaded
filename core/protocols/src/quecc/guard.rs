//! Guards: the conditions of branches and `require` steps under which a fragment's operation takes
//! effect. They read registers that other fragments have published.

use procedure::analysis::visit;
use procedure::{Expr, Meter, Reg};
use types::{Error, Value};

/// Whether arguments let a fragment happen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Happens {
    Always,
    Never,
    ByTurn,
}

/// What an operation may spend on its guards. How many nodes they have is known, but not how long
/// the values are that they compare.
pub const GUARD_UNITS: u64 = 256;
pub const GUARD_NODES_MAX: u64 = 192;

/// What guards look at.
#[derive(Clone, Copy)]
pub struct Sight<'a> {
    pub registers: &'a [Value],
    pub now_us: i64,
    pub meter: &'a Meter,
}

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
    fn holds(&self, sight: Sight<'_>) -> Result<bool, Error> {
        match self {
            Guard::Branch { condition, truth } => {
                let Sight { registers, now_us, meter } = sight;
                let found = condition.eval_truth_metered(registers, &[], now_us, meter)?;
                Ok((found == Some(true)) == *truth)
            }
            Guard::Unless(guards) => Ok(!Guard::hold(guards, sight)?),
        }
    }

    fn hold(guards: &[Guard], sight: Sight<'_>) -> Result<bool, Error> {
        for guard in guards {
            if !guard.holds(sight)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub fn all_hold(guards: &[Guard], sight: Sight<'_>) -> Result<bool, Error> {
        sight.meter.refill();
        Guard::hold(guards, sight)
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
