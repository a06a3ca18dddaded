//! What a run may spend and hold, and who may end it.
//!
//! Everything that a program repeats is paid for, so that nothing, however it loops, scans or
//! joins, holds a block up for ever. One unit each for
//!
//! * a step that runs, and a turn of a loop;
//! * an operator, condition or function that an expression computes;
//! * a row that a scan shows (before any filter), and a row looked up by key within a query;
//! * a scan, and a row that it passes over because the transaction itself has written it;
//! * a row that VALUES, `unnest` or `generate_series` makes;
//! * a row that a sort moves, once for each merge beyond the first runs;
//! * [`BYTES_PER_UNIT`] bytes of texts, byte strings and arrays that are copied or compared whole,
//!   or [`CHARACTERS_PER_UNIT`] that a function looks at one by one, before it does where that is
//!   known; [`ELEMENTS_PER_UNIT`] elements that are compared.
//!
//! What takes longer is paid for by what it takes: a unit stands for some 40 ns of one core.
//!
//! * [`INSERT_UNITS`], [`UPDATE_UNITS`] and [`DELETE_UNITS`] for a row that is written, which is
//!   stored, indexed, hashed and logged, and a unit for [`WRITTEN_BYTES_PER_UNIT`] bytes of its
//!   texts. Texts that stay as they are in a row that is updated or deleted are hashed and copied,
//!   too: a unit for as many bytes of each image, where more than [`UNWEIGHED_MAX`] rows of such
//!   tables are changed;
//! * [`PAIR_UNITS`] for a pair of rows that a join makes;
//! * [`HELD_ROW_UNITS`] for a row that a query gathers, [`HASH_UNITS`] for one that is looked up
//!   among those that it has gathered, [`GROUP_UNITS`] where it begins a group, and [`SEEN_UNITS`]
//!   for a value of a DISTINCT aggregate.
//!
//! *Reads* by a key, and ranges, leave [notes] of a limited length.
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
//! *The sessions' pool.* Outside blocks what a run holds is also covered by a [`Lease`] of the
//! memory that all sessions share, and so are the long values that it makes on its way, of which it
//! has a few at a time. When rows leave for the client, their part of the lease goes with them.
//!
//! *Where there is no frame.* Update commands run at any protocol's pleasure, once or many times.
//! The transaction pays for one when it issues it, by a bound that knows nothing of the row, and
//! each application has a meter of its own: see [`bound`](crate::bound). An expression that is
//! evaluated outside of a run has [`EXPRESSION_UNITS_MAX`].
//!
//! *Interrupts.* Outside blocks a run may also be ended by its client or by a timeout. The meter is
//! where all loops pass, so it is where the interrupt is looked at, once in [`UNITS_PER_LOOK`].
//! What is paid for at once and takes long, a function of a text of many bytes, looks by itself now
//! and then ([`Meter::pace`]). Inside a block there is no interrupt.
//!
//! *Cost.* A subtraction and a branch a unit.

use std::cell::{Cell, RefCell, RefMut};
use std::sync::Arc;

use kit::pool::{Lease, SMALL_BYTES};
use smallvec::SmallVec;
use types::numeric::work;
use types::value::VALUE_WEIGHT;
use types::{Error, TableId, Value};

use crate::regex::Patterns;
use crate::surroundings::{Surroundings, nothing_around};

/// What one transaction of a block may spend where the ledger does not say: some 1.6 seconds, in
/// which no other transaction commits. Less would refuse the million rows that `pgbench -i -s 10`
/// writes at once, which is the first that many a user does.
pub const UNITS_MAX: u64 = 40_000_000;

/// What one transaction of a block may hold where the ledger does not say.
pub const BYTES_MAX: u64 = 1 << 30;

/// What one transaction of a block may do, by the ledger's parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Units of work.
    pub units_max: u64,
    /// Rows that it gathers, answers and writes.
    pub bytes_max: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { units_max: UNITS_MAX, bytes_max: BYTES_MAX }
    }
}

impl Budget {
    /// For what has committed within one, and is repeated.
    pub const UNBOUNDED: Budget = Budget { units_max: u64::MAX / 2, bytes_max: u64::MAX / 2 };

    /// What a metered update command may do after so many others of its transaction.
    pub fn of_command(self, before: u32) -> Budget {
        let (units, bytes) = match before < FIRST_COMMANDS {
            true => (FIRST_UNIT_SHARES, FIRST_BYTE_SHARES),
            false => (SHARES, SHARES),
        };
        Budget { units_max: self.units_max / units, bytes_max: self.bytes_max / bytes }
    }

    /// What any metered update command may do at the least.
    pub fn of_any_command(self) -> Budget {
        self.of_command(FIRST_COMMANDS)
    }
}

/// Most transactions have few such commands, and what these may do should not depend on how many
/// there could be: by default a first one may make a value as long as values may be.
const FIRST_COMMANDS: u32 = 4;
const FIRST_UNIT_SHARES: u64 = 16;
const FIRST_BYTE_SHARES: u64 = 8;

/// By default, texts of some megabytes can be joined by each command after them.
const SHARES: u64 = 256;

/// Metered commands that a transaction may defer. Those after them read their rows, so that
/// something of what a transaction may do is left for what else it does.
pub const COMMANDS_MAX: u32 = 64;

/// Rows that a transaction may change by their keys without a look at them, in tables whose texts
/// have no declared length: commands of a hot row stay commands. Of those after them it pays for
/// what they hold, by a read: else a loop over a table of documents would cost what one over
/// numbers does, and take a thousand times as long.
pub const UNWEIGHED_MAX: u32 = 16;

/// What an expression may spend that no run pays for.
pub const EXPRESSION_UNITS_MAX: u64 = 1 << 16;

/// What a row weighs beside its values.
pub const ROW_WEIGHT: usize = 32;

/// Longer values are covered by a lease while they are made, so many of them at a time.
const LONG_BYTES: usize = 256 << 10;
const LONG_VALUES: u64 = 3;

/// Characters that are looked at between two looks at the interrupt.
const CHARACTERS_PER_LOOK: usize = 64 << 10;

/// Measured from an INSERT … SELECT to the answer, less what its steps cost: 2.4 µs a row, 1.8
/// where it goes, and 4.5 ns for each byte of a long text.
pub const INSERT_UNITS: u64 = 32;
pub const UPDATE_UNITS: u64 = 32;
pub const DELETE_UNITS: u64 = 24;
pub const WRITTEN_BYTES_PER_UNIT: usize = 8;
/// Measured as aggregates, windows and sorts over `generate_series`, less what the series costs.
pub(crate) const HELD_ROW_UNITS: u64 = 3;
pub(crate) const HASH_UNITS: u64 = 3;
/// Beside what is held of it.
pub(crate) const GROUP_UNITS: u64 = 4;
/// A search in a tree of all the values before.
pub(crate) const SEEN_UNITS: u64 = 12;
/// Beside what its rows and its condition cost.
pub const PAIR_UNITS: u64 = 2;

const BYTES_PER_UNIT: usize = 32;
const CHARACTERS_PER_UNIT: usize = 4;
const ELEMENTS_PER_UNIT: usize = 4;

/// Of the bytes that are held, those that are paid for as if they were made.
const HELD_PER_BYTE: usize = 4;

/// How often an interrupt is looked at: every tenth of a millisecond or so.
const UNITS_PER_LOOK: u64 = 1024;

const SPLIT: &str = "Split the work into several transactions by ranges of the key: UPDATE … WHERE \
    id >= 0 AND id < 100000, then from 100000 on. Look for a loop without an end or a join without \
    an index, too. The ledger's owner can SET ledger.transaction_units_max and \
    ledger.transaction_bytes_max.";

/// What holding a row weighs, and the units of its bytes as they are written.
#[inline]
fn weigh_written(values: &[Value]) -> (usize, u64) {
    let beside: usize = values.iter().map(Value::weight_beside).sum();
    let weight = ROW_WEIGHT + values.len() * VALUE_WEIGHT + beside;
    (weight, (beside / WRITTEN_BYTES_PER_UNIT) as u64)
}

#[inline]
fn units_of_held(bytes: usize) -> u64 {
    (bytes / HELD_PER_BYTE / BYTES_PER_UNIT) as u64
}

/// Ends runs from outside.
pub trait Interrupt: Send + Sync {
    /// `Err`: why the run has to end.
    fn check(&self) -> Result<(), Error>;

    /// What the run may ask beside tables.
    fn surroundings(&self) -> Option<&dyn Surroundings> {
        None
    }
}

pub struct Meter {
    allowance: Cell<u64>,
    /// To be spent before the meter is looked at again.
    at_hand: Cell<u64>,
    reserve: Cell<u64>,
    interrupt: Option<Arc<dyn Interrupt>>,
    memory: Cell<u64>,
    memory_left: Cell<u64>,
    /// What is said where there is no more memory; in blocks it is the ledger's limit.
    too_much: Option<fn(u64) -> Error>,
    /// Of the sessions' memory; in blocks there is none.
    lease: RefCell<Option<Lease>>,
    /// With less memory left the lease has to grow.
    covered_to: Cell<u64>,
    /// The longest value that was made since the lease was new.
    longest: Cell<u64>,
    /// Regular expressions that the transaction has compiled.
    patterns: RefCell<Patterns>,
    /// Bytes of what is kept until the transaction ends, whatever is released.
    kept: Cell<u64>,
    /// Bytes that reads may still leave.
    notes_left: Cell<u64>,
    /// Of how many values of each sequence the last was taken.
    taken: RefCell<SmallVec<[(TableId, u64); 1]>>,
    /// Metered commands that the transaction may still defer.
    commands_left: Cell<u32>,
    /// Rows that the transaction may still change without a look at how long they are.
    unweighed_left: Cell<u32>,
    /// Of an update command alone.
    is_command: bool,
}

impl Default for Meter {
    fn default() -> Self {
        Meter::new(UNITS_MAX, None)
    }
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Meter({} of {})", self.left(), self.allowance.get())
    }
}

impl Meter {
    pub fn new(allowance: u64, interrupt: Option<Arc<dyn Interrupt>>) -> Meter {
        let meter = Meter { interrupt, ..Meter::uninterrupted(allowance) };
        meter.refill();
        meter
    }

    /// Made for each command that meets a row, so nothing is done here but to write the fields.
    #[inline]
    fn uninterrupted(allowance: u64) -> Meter {
        Meter {
            allowance: Cell::new(allowance),
            at_hand: Cell::new(allowance),
            reserve: Cell::new(0),
            interrupt: None,
            memory: Cell::new(BYTES_MAX),
            memory_left: Cell::new(BYTES_MAX),
            too_much: None,
            lease: RefCell::new(None),
            covered_to: Cell::new(0),
            longest: Cell::new(0),
            patterns: RefCell::default(),
            kept: Cell::new(0),
            notes_left: Cell::new(u64::MAX),
            taken: RefCell::default(),
            commands_left: Cell::new(COMMANDS_MAX),
            unweighed_left: Cell::new(UNWEIGHED_MAX),
            is_command: false,
        }
    }

    /// For transactions of blocks.
    pub fn of(budget: Budget) -> Meter {
        let meter = Meter::default();
        meter.set_budget(budget);
        meter
    }

    /// For one application of an update command.
    pub(crate) fn of_command(allowance: Budget) -> Meter {
        let Budget { units_max, bytes_max } = allowance;
        let (memory, memory_left) = (Cell::new(bytes_max), Cell::new(bytes_max));
        Meter { is_command: true, memory, memory_left, ..Meter::uninterrupted(units_max) }
    }

    /// What the transaction may do, all in all.
    pub(crate) fn budget(&self) -> Budget {
        Budget { units_max: self.allowance.get(), bytes_max: self.memory.get() }
    }

    /// Pays what a metered command may do at most, and tells it. `None`: it must not be deferred.
    /// Outside blocks none is, for the answer is waited for.
    pub(crate) fn set_aside(&self) -> Option<Budget> {
        let budget = self.budget();
        if budget == Budget::UNBOUNDED {
            return Some(budget.of_command(0));
        }
        let left = self.commands_left.get().checked_sub(1)?;
        let share = budget.of_command(COMMANDS_MAX - 1 - left);
        let units = self.left().checked_sub(share.units_max)?;
        let bytes = self.memory_left.get().checked_sub(share.bytes_max)?;
        self.commands_left.set(left);
        self.divide(units);
        self.memory_left.set(bytes);
        Some(share)
    }

    /// Whether the next row that is updated or deleted by its key is to be looked at first, since
    /// its texts may be long: after so many that were not.
    pub(crate) fn weighs(&self) -> bool {
        let left = self.unweighed_left.get();
        if left == 0 {
            return self.budget() != Budget::UNBOUNDED;
        }
        self.unweighed_left.set(if left == u32::MAX { left } else { left - 1 });
        false
    }

    /// From the next transaction on, which [begins](Meter::refill) by itself.
    pub fn set_budget(&self, budget: Budget) {
        if self.budget() != budget {
            self.allowance.set(budget.units_max);
            self.memory.set(budget.bytes_max);
            self.refill();
        }
    }

    /// Another bound on memory, and what is said beyond it.
    pub fn with_memory(self, bytes: u64, too_much: fn(u64) -> Error) -> Meter {
        self.set_memory(bytes);
        Meter { too_much: Some(too_much), ..self }
    }

    /// What is held is covered by a lease, too.
    pub fn with_lease(self, lease: Lease) -> Meter {
        let meter = Meter { lease: RefCell::new(Some(lease)), ..self };
        meter.shrink_lease();
        meter
    }

    /// As much memory as `bytes`, none of which is held.
    pub fn set_memory(&self, bytes: u64) {
        self.memory.set(bytes);
        self.memory_left.set(bytes);
        self.shrink_lease();
    }

    /// To be given to [`Meter::release_to`] when what is held from now on is gone.
    pub fn memory_left(&self) -> u64 {
        self.memory_left.get()
    }

    pub fn release_to(&self, memory_left: u64) {
        self.memory_left.set(memory_left);
        self.shrink_lease();
    }

    /// Like [`Meter::release_to`], where what is held goes to another holder, and with it what
    /// covers it.
    pub fn hand_over(&self, memory_left: u64) -> Option<Lease> {
        let bytes = memory_left.saturating_sub(self.memory_left.get());
        let lease = self.lease.borrow_mut().as_mut().map(|lease| lease.split(bytes));
        self.release_to(memory_left);
        lease
    }

    /// What is held now.
    pub fn held(&self) -> u64 {
        self.memory.get() - self.memory_left.get() + self.kept.get()
    }

    /// Gives back what the lease has beyond what is held.
    fn shrink_lease(&self) {
        match self.lease.borrow_mut().as_mut() {
            Some(lease) => {
                self.longest.set(0);
                lease.shrink(self.held());
                self.covered(lease);
            }
            None => self.covered_to.set(self.kept.get()),
        }
    }

    fn covered(&self, lease: &Lease) {
        let covered = lease.bytes().max(SMALL_BYTES);
        let spare = LONG_VALUES * self.longest.get();
        let covered = covered.saturating_sub(spare);
        self.covered_to.set((self.memory.get() + self.kept.get()).saturating_sub(covered));
    }

    /// Before so much more is held.
    #[cold]
    fn cover(&self, bytes: u64) -> Result<(), Error> {
        match self.lease.borrow_mut().as_mut() {
            Some(lease) => {
                lease.cover(self.held() + bytes + LONG_VALUES * self.longest.get())?;
                self.covered(lease);
            }
            None => self.covered_to.set(self.kept.get()),
        }
        Ok(())
    }

    /// Counts memory until it is [let go](Meter::let_go) or the transaction ends.
    pub(crate) fn keep(&self, bytes: u64) -> Result<(), Error> {
        let before = self.kept.get();
        if self.memory_left.get() < before + bytes {
            return Err(self.out_of_memory());
        }
        self.kept.set(before + bytes);
        self.cover(0).inspect_err(|_| self.kept.set(before))
    }

    pub(crate) fn let_go(&self, bytes: u64) {
        self.kept.set(self.kept.get().saturating_sub(bytes));
        self.shrink_lease();
    }

    /// Before a long value is made.
    #[cold]
    fn cover_long(&self, bytes: usize) -> Result<(), Error> {
        if bytes as u64 > self.longest.get() && self.lease.borrow().is_some() {
            let before = self.longest.replace(bytes as u64);
            self.cover(0).inspect_err(|_| self.longest.set(before))?;
        }
        Ok(())
    }

    /// For one expression that no run pays for.
    pub fn of_expression() -> Meter {
        Meter::uninterrupted(EXPRESSION_UNITS_MAX)
    }

    /// Another transaction begins.
    pub fn refill(&self) {
        self.divide(self.allowance.get());
        let (commands, unweighed, notes) = match self.interrupt {
            None => (COMMANDS_MAX, UNWEIGHED_MAX, self.memory.get()),
            // What is written outside of blocks is paid for in one, and what is read is remembered
            // there.
            Some(_) => (0, u32::MAX, u64::MAX),
        };
        self.notes_left.set(notes);
        self.commands_left.set(commands);
        self.unweighed_left.set(unweighed);
        self.taken.borrow_mut().clear();
        self.patterns.take();
        self.kept.set(0);
        self.memory_left.set(self.memory.get());
        self.shrink_lease();
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
        if bytes > LONG_BYTES {
            self.cover_long(bytes)?;
        }
        self.spend((bytes / BYTES_PER_UNIT) as u64)
    }

    /// Pays for bytes that are looked at one by one.
    #[inline]
    pub(crate) fn spend_characters(&self, bytes: usize) -> Result<(), Error> {
        if bytes > LONG_BYTES {
            self.cover_long(bytes)?;
        }
        self.spend((bytes / CHARACTERS_PER_UNIT) as u64)
    }

    /// Pays for the hash of a row. Equal numbers have one whatever their scale, which takes
    /// divisions of long ones.
    #[inline]
    pub(crate) fn spend_on_hash(&self, row: &[Value]) -> Result<(), Error> {
        let numbers = row.iter().filter_map(Value::as_numeric);
        self.spend(HASH_UNITS + numbers.map(work::of_digits).sum::<u64>())
    }

    pub(crate) fn patterns(&self) -> RefMut<'_, Patterns> {
        self.patterns.borrow_mut()
    }

    /// # Errors
    /// There is nothing around the run.
    pub(crate) fn surroundings(&self) -> Result<&dyn Surroundings, Error> {
        let around = self.interrupt.as_deref().and_then(|interrupt| interrupt.surroundings());
        around.ok_or_else(nothing_around)
    }

    /// Looks at the interrupt, and at nothing else.
    pub fn check(&self) -> Result<(), Error> {
        self.interrupt.as_ref().map_or(Ok(()), |interrupt| interrupt.check())
    }

    /// Goes over `items`, which are paid for, and ends early with why the run has to end.
    pub(crate) fn pace<T>(
        &self,
        items: impl Iterator<Item = T>,
        mut each: impl FnMut(T),
    ) -> Result<(), Error> {
        self.pace_while(items, |item| {
            each(item);
            true
        })
    }

    /// The same as long as `each` says so.
    pub(crate) fn pace_while<T>(
        &self,
        items: impl Iterator<Item = T>,
        mut each: impl FnMut(T) -> bool,
    ) -> Result<(), Error> {
        let mut until_look = CHARACTERS_PER_LOOK;
        for item in items {
            if !each(item) {
                break;
            }
            until_look -= 1;
            if until_look == 0 {
                self.check()?;
                until_look = CHARACTERS_PER_LOOK;
            }
        }
        Ok(())
    }

    /// Pays for elements that are compared with `value`.
    pub(crate) fn spend_elements(&self, elements: usize, value: &Value) -> Result<(), Error> {
        let each = value.weight() / (8 * BYTES_PER_UNIT);
        self.spend((elements / ELEMENTS_PER_UNIT + elements.saturating_mul(each)) as u64)
    }

    /// Counts memory, until it is [released](Meter::release) or the transaction ends.
    pub fn hold(&self, bytes: usize) -> Result<(), Error> {
        self.spend_bytes(bytes / HELD_PER_BYTE)?;
        let left = self.memory_left.get().checked_sub(bytes as u64);
        let left = left.filter(|left| *left >= self.kept.get());
        let left = left.ok_or_else(|| self.out_of_memory())?;
        if left < self.covered_to.get() {
            self.cover(bytes as u64)?;
        }
        self.memory_left.set(left);
        Ok(())
    }

    /// Pays for a row, or the part of one, that is written.
    pub(crate) fn spend_write(&self, units: u64, values: &[Value]) -> Result<(), Error> {
        let bytes: usize = values.iter().map(Value::weight_beside).sum();
        self.spend(units + (bytes / WRITTEN_BYTES_PER_UNIT) as u64)
    }

    /// Pays for an update command and holds it, by one look at what is left: `units`, what the
    /// command costs beside its texts, of which `text_bytes` are constants.
    #[inline]
    pub(crate) fn pay_update(
        &self,
        units: u64,
        text_bytes: usize,
        inputs: &[Value],
    ) -> Result<(), Error> {
        let (weight, written) = weigh_written(inputs);
        let units_of_all = units + UPDATE_UNITS + written + units_of_held(text_bytes);
        let is_paid = text_bytes <= LONG_BYTES && self.pay(units_of_all, text_bytes, weight);
        if is_paid { Ok(()) } else { self.pay_update_in_parts(units, text_bytes, inputs) }
    }

    /// Pays for a row that is inserted, and holds it, by one look at what is left.
    #[inline]
    pub(crate) fn pay_insert(&self, row: &[Value]) -> Result<(), Error> {
        let (weight, written) = weigh_written(row);
        let is_paid = self.pay(INSERT_UNITS + written, 0, weight);
        if is_paid { Ok(()) } else { self.pay_insert_in_parts(row) }
    }

    /// Takes `units`, and holds `weight` and `beside` bytes, if there is enough at hand.
    #[inline]
    fn pay(&self, units: u64, beside: usize, weight: usize) -> bool {
        let units_left = self.at_hand.get().checked_sub(units + units_of_held(weight));
        let memory_left = self.memory_left.get().checked_sub((beside + weight) as u64);
        match (units_left, memory_left) {
            (Some(units_left), Some(memory_left))
                if weight <= LONG_BYTES && memory_left >= self.covered_to.get() =>
            {
                self.at_hand.set(units_left);
                self.memory_left.set(memory_left);
                true
            }
            _ => false,
        }
    }

    #[cold]
    fn pay_insert_in_parts(&self, row: &[Value]) -> Result<(), Error> {
        self.hold_row(row)?;
        self.spend_write(INSERT_UNITS, row)
    }

    /// The same where something runs out, or has to be covered.
    #[cold]
    fn pay_update_in_parts(
        &self,
        units: u64,
        text_bytes: usize,
        inputs: &[Value],
    ) -> Result<(), Error> {
        self.spend(units)?;
        self.spend_write(UPDATE_UNITS, inputs)?;
        self.hold(text_bytes)?;
        self.hold_row(inputs)?;
        Ok(())
    }

    pub(crate) fn hold_row(&self, row: &[Value]) -> Result<usize, Error> {
        let weight = ROW_WEIGHT + row.iter().map(Value::weight).sum::<usize>();
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
}

mod notes;
mod refused;
#[cfg(test)]
mod tests;
