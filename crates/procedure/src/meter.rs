//! What a run may spend and hold, and who may end it.
//!
//! Everything that a program repeats is paid for, so that nothing, however it loops, scans or
//! joins, holds a block up for ever. One unit each for
//!
//! * a step that runs, and a turn of a loop;
//! * an operator, condition or function that an expression computes;
//! * a row that a scan shows (before any filter), and a row looked up by key within a query;
//! * a scan, and a row that it passes over because the transaction itself has written it;
//! * a row that VALUES, `unnest` or `generate_series` makes, and a pair that a hash join makes;
//! * a row that a sort moves, once for each merge beyond the first runs;
//! * [`BYTES_PER_UNIT`] bytes of texts, byte strings and arrays that are copied or compared whole,
//!   or [`CHARACTERS_PER_UNIT`] that a function looks at one by one, before it does where that is
//!   known; [`ELEMENTS_PER_UNIT`] elements that are compared.
//!
//! *Memory* is counted in [weights](Value::weight), which are the same on every machine. A row that
//! a query gathers counts until the query ends, or until what reads the rows is done with them; a
//! row of the result and a row that is written count until the transaction ends. No single value is
//! longer than `types::arithmetic::check_made_bytes` allows.
//!
//! *Deterministic.* All of these are functions of the program and of what it reads. What depends on
//! the protocol, the threads or the layout costs nothing: index entries of rows that are not
//! visible, restarts, validation. Running out is therefore a rejection that every replica comes to.
//!
//! *Where there is no frame.* Update commands run at any protocol's pleasure, once or many times,
//! so none of them may take long: the binder makes commands of what takes a time that its text
//! bounds, and has everything else computed by a step. An expression that is evaluated outside of a
//! run has [`EXPRESSION_UNITS_MAX`].
//!
//! *Interrupts.* Outside blocks a run may also be ended by its client or by a timeout. The meter is
//! where all loops pass, so it is where the interrupt is looked at, once in [`UNITS_PER_LOOK`].
//! Inside a block there is none.
//!
//! *Cost.* A subtraction and a branch a unit.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use smallvec::SmallVec;
use types::{Error, SqlState, TableId, Value};

/// What one transaction of a block may spend: about a second of work, or an UPDATE of a million
/// rows with its constraints.
pub const UNITS_MAX: u64 = 50_000_000;

/// What one transaction of a block may hold: rows that it gathers, answers and writes.
pub const BYTES_MAX: u64 = 1 << 30;

/// What an expression may spend that no run pays for.
pub const EXPRESSION_UNITS_MAX: u64 = 1 << 16;

const BYTES_PER_UNIT: usize = 32;
const CHARACTERS_PER_UNIT: usize = 4;
const ELEMENTS_PER_UNIT: usize = 4;

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
    memory: Cell<u64>,
    memory_left: Cell<u64>,
    /// The setting that says how much memory there is; in blocks it is the ledger's limit.
    setting: Option<&'static str>,
    /// Of how many values of each sequence the last was taken.
    taken: RefCell<SmallVec<[(TableId, u64); 1]>>,
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
        let meter = Meter {
            allowance,
            at_hand: Cell::new(0),
            reserve: Cell::new(0),
            interrupt,
            memory: Cell::new(BYTES_MAX),
            memory_left: Cell::new(BYTES_MAX),
            setting: None,
            taken: RefCell::default(),
        };
        meter.refill();
        meter
    }

    /// Another bound on memory, which `setting` gives.
    pub fn with_memory(self, bytes: u64, setting: &'static str) -> Meter {
        self.set_memory(bytes);
        Meter { setting: Some(setting), ..self }
    }

    /// As much memory as `bytes`, none of which is held.
    pub fn set_memory(&self, bytes: u64) {
        self.memory.set(bytes);
        self.memory_left.set(bytes);
    }

    /// To be given to [`Meter::release_to`] when what is held from now on is gone.
    pub fn memory_left(&self) -> u64 {
        self.memory_left.get()
    }

    pub fn release_to(&self, memory_left: u64) {
        self.memory_left.set(memory_left);
    }

    /// For one expression that no run pays for.
    pub fn of_expression() -> Meter {
        Meter::new(EXPRESSION_UNITS_MAX, None)
    }

    /// Another transaction begins.
    pub fn refill(&self) {
        self.divide(self.allowance);
        self.taken.borrow_mut().clear();
        self.memory_left.set(self.memory.get());
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

    /// A program has taken the value at this place of those it was given.
    pub(crate) fn take_value(&self, sequence: TableId, place: u64) {
        let mut taken = self.taken.borrow_mut();
        match taken.iter_mut().find(|(known, _)| *known == sequence) {
            Some((_, count)) => *count = (*count).max(place.saturating_add(1)),
            None => taken.push((sequence, place.saturating_add(1))),
        }
    }

    /// How far the values of sequences were taken since this was last asked.
    pub fn taken_values(&self) -> SmallVec<[(TableId, u64); 1]> {
        self.taken.take()
    }

    /// Pays for bytes that are looked at or made.
    #[inline]
    pub(crate) fn spend_bytes(&self, bytes: usize) -> Result<(), Error> {
        self.spend((bytes / BYTES_PER_UNIT) as u64)
    }

    /// Pays for bytes that are looked at one by one.
    #[inline]
    pub(crate) fn spend_characters(&self, bytes: usize) -> Result<(), Error> {
        self.spend((bytes / CHARACTERS_PER_UNIT) as u64)
    }

    /// Pays for elements that are compared with `value`.
    pub(crate) fn spend_elements(&self, elements: usize, value: &Value) -> Result<(), Error> {
        let each = value.weight() / (8 * BYTES_PER_UNIT);
        self.spend((elements / ELEMENTS_PER_UNIT + elements.saturating_mul(each)) as u64)
    }

    /// Counts memory, until it is [released](Meter::release) or the transaction ends.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), Error> {
        self.spend_bytes(bytes / 4)?;
        let left = self.memory_left.get().checked_sub(bytes as u64);
        self.memory_left.set(left.ok_or_else(|| self.out_of_memory())?);
        Ok(())
    }

    pub(crate) fn hold_row(&self, row: &[Value]) -> Result<usize, Error> {
        let weight = row.iter().map(Value::weight).sum();
        self.hold(weight)?;
        Ok(weight)
    }

    pub(crate) fn release(&self, bytes: usize) {
        let left = self.memory_left.get() + bytes as u64;
        self.memory_left.set(left.min(self.memory.get()));
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

    #[cold]
    fn exhausted(&self) -> Error {
        Error::new(
            SqlState::STATEMENT_TOO_COMPLEX,
            format!("the transaction takes more than {} units of work", self.allowance),
        )
        .with_detail(
            "A step, a row, an operator, and 4 bytes that a function works on are a unit each.",
        )
        .with_hint(
            "Look for a loop without an end or a join without an index, or split the work into \
             several transactions, by ranges of the key.",
        )
    }

    #[cold]
    fn out_of_memory(&self) -> Error {
        let what = format!("more than {} bytes are held in memory at once", self.memory.get());
        match self.setting {
            Some(setting) => Error::new(SqlState::OUT_OF_MEMORY, what)
                .with_detail(format!("The setting \"{setting}\" says how many there may be."))
                .with_hint("Ask for fewer rows or shorter values at once."),
            None => Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
                .with_detail("Rows that a transaction gathers, answers and writes count.")
                .with_hint("Split the work into several transactions, by ranges of the key."),
        }
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

    #[test]
    fn memory_is_counted_until_it_is_released_or_the_transaction_ends() {
        let meter = Meter::default();
        let half = BYTES_MAX as usize / 2;
        for _ in 0..2 {
            meter.hold(half).unwrap();
            meter.hold(half).unwrap();
            assert_eq!(meter.hold(1).unwrap_err().code(), SqlState::PROGRAM_LIMIT_EXCEEDED);
            meter.release(half);
            meter.hold(half).unwrap();
            meter.refill();
        }
        let meter = Meter::default().with_memory(1000, "query_memory");
        let error = meter.hold(1001).unwrap_err();
        assert_eq!(error.code(), SqlState::OUT_OF_MEMORY);
        assert!(error.fields().detail.as_deref().unwrap_or("").contains("query_memory"));
    }
}
