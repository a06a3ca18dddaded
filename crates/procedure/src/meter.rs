//! What a run may spend, and who may end it.
//!
//! Everything that a program repeats is paid for, so that nothing, however it loops, scans or
//! joins, holds a block up for ever. One unit each for
//!
//! * a step that runs, and a turn of a loop;
//! * a row that a scan shows (before any filter), and a row looked up by key within a query;
//! * a scan, and a row that it passes over because the transaction itself has written it;
//! * a row that VALUES, `unnest` or `generate_series` makes, and a pair that a hash join makes;
//! * a row that a sort moves, once for each merge beyond the first runs.
//!
//! *Deterministic.* All of these are functions of the program and of what it reads. What depends on
//! the protocol, the threads or the layout costs nothing: index entries of rows that are not
//! visible, restarts, validation. Running out is therefore a rejection that every replica comes to.
//!
//! *Interrupts.* Outside blocks a run may also be ended by its client or by a timeout. The meter is
//! where all loops pass, so it is where the interrupt is looked at, once in [`UNITS_PER_LOOK`].
//! Inside a block there is none.
//!
//! *Cost.* A subtraction and a branch a unit.

use std::cell::Cell;
use std::sync::Arc;

use types::{Error, SqlState};

/// What one transaction of a block may spend: enough for an UPDATE of ten million rows with its
/// constraints, and some ten seconds of work.
pub const UNITS_MAX: u64 = 250_000_000;

/// How often an interrupt is looked at: every tenth of a millisecond or so.
const UNITS_PER_LOOK: u64 = 1024;

/// Ends runs from outside.
pub trait Interrupt: Send + Sync {
    /// `Err`: why the run has to end.
    fn check(&self) -> Result<(), Error>;
}

pub struct Meter {
    allowance: u64,
    /// To be spent before anybody looks again.
    at_hand: Cell<u64>,
    reserve: Cell<u64>,
    interrupt: Option<Arc<dyn Interrupt>>,
}

impl Default for Meter {
    fn default() -> Self {
        Meter::new(UNITS_MAX, None)
    }
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Meter({} of {})", self.left(), self.allowance)
    }
}

impl Meter {
    pub fn new(allowance: u64, interrupt: Option<Arc<dyn Interrupt>>) -> Meter {
        let meter = Meter { allowance, at_hand: Cell::new(0), reserve: Cell::new(0), interrupt };
        meter.refill();
        meter
    }

    /// Another transaction begins.
    pub fn refill(&self) {
        self.divide(self.allowance);
    }

    #[inline]
    pub fn spend(&self, units: u64) -> Result<(), Error> {
        match self.at_hand.get().checked_sub(units) {
            Some(left) => {
                self.at_hand.set(left);
                Ok(())
            }
            None => self.look(units),
        }
    }

    #[cold]
    fn look(&self, units: u64) -> Result<(), Error> {
        if let Some(interrupt) = &self.interrupt {
            interrupt.check()?;
        }
        let left = self.left().checked_sub(units).ok_or_else(|| self.exhausted())?;
        self.divide(left);
        Ok(())
    }

    /// What was spent since this much was left is not counted: it was undone.
    pub fn return_to(&self, left: u64) {
        self.divide(left);
    }

    /// What is left to spend.
    pub fn left(&self) -> u64 {
        self.at_hand.get() + self.reserve.get()
    }

    fn divide(&self, units: u64) {
        let at_hand = match self.interrupt {
            Some(_) => units.min(UNITS_PER_LOOK),
            None => units,
        };
        self.at_hand.set(at_hand);
        self.reserve.set(units - at_hand);
    }

    fn exhausted(&self) -> Error {
        Error::new(
            SqlState::STATEMENT_TOO_COMPLEX,
            format!("the transaction takes more than {} steps and rows", self.allowance),
        )
        .with_hint(
            "Look for a loop without an end or a join without an index, or split the work into several transactions.",
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    struct Flag(AtomicBool);

    impl Interrupt for Flag {
        fn check(&self) -> Result<(), Error> {
            match self.0.load(Ordering::Relaxed) {
                true => Err(Error::new(SqlState::QUERY_CANCELED, "enough")),
                false => Ok(()),
            }
        }
    }

    #[test]
    fn exactly_the_allowance_can_be_spent_with_and_without_an_interrupt() {
        let interrupts: [Option<Arc<dyn Interrupt>>; 2] =
            [None, Some(Arc::new(Flag(AtomicBool::new(false))))];
        for interrupt in interrupts {
            for part in [1, 7, 1023, 1024, 1025, 5000] {
                let meter = Meter::new(5000, interrupt.clone());
                for _ in 0..2 {
                    for _ in 0..5000 / part {
                        meter.spend(part).unwrap();
                    }
                    meter.spend(5000 % part).unwrap();
                    let error = meter.spend(1).unwrap_err();
                    assert_eq!(error.code(), SqlState::STATEMENT_TOO_COMPLEX);
                    meter.refill();
                }
            }
        }
    }

    #[test]
    fn an_interrupt_is_noticed_soon() {
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        let meter = Meter::new(u64::MAX, Some(flag.clone()));
        meter.spend(1).unwrap();
        flag.0.store(true, Ordering::Relaxed);
        let noticed = (0..2 * UNITS_PER_LOOK).find_map(|_| meter.spend(1).err());
        assert_eq!(noticed.unwrap().code(), SqlState::QUERY_CANCELED);
    }
}
