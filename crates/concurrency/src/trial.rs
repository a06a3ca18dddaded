//! What tests switch on: shaken schedules, and bugs of the parts that all protocols share.
//!
//! A [`Trial`] holds for one thread while its guard lives; a crew hands its caller's trial to the
//! workers for the time of a job. So two tests of one process do not disturb each other, and the
//! oracle's own replay can run without the bug that it is to find.
//!
//! * **Shaken**: at every access of a transaction, at the start of every job and wherever
//!   [`pause`] is called, a thread gives up its processor now and then, or sleeps for some
//!   microseconds, as a seed says. A processor of two cores shows few interleavings by itself.
//!   [`threshold`] makes small blocks run in parallel as well.
//! * **Flawed**: the code asks [`flawed`] at the place of the bug.
//!
//! Without the feature `mutants` all of it is empty and costs nothing.

/// Bugs on purpose, one for each claim that the shared parts make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// A read finds the stored row although the transaction has changed it.
    OwnWritesUnseen,
    /// A value read is not recorded.
    ReadUnrecorded,
    /// A look whether a row is there is not recorded.
    ExistenceUnrecorded,
    /// A scan is not recorded.
    RangeUnrecorded,
    /// Commands are evaluated on a row without recording that it was read.
    EvaluationUnrecorded,
    /// A command that would have failed is forgotten when its row is deleted.
    FailedCommandVanishes,
    /// A scan shows the stored row beside the transaction's own image of it.
    OwnRowsTwice,
    /// The map of own rows is made once and never brought up to date.
    OwnRowsOutdated,
    /// A fold loads a column again that a command before has assigned.
    FoldLoadsAgain,
    /// A transaction's writes are installed one by one, until one of them fails.
    HalfInstalled,
    /// What a rejected transaction read is forgotten.
    RejectedReadsForgotten,
    /// What a rejected transaction wrote is kept.
    RejectedWritesKept,
    /// What was read for a statement that was undone need not hold at COMMIT.
    UndoneReadsForgotten,
    /// A query need not mind what the statements before it may write at COMMIT and did not before.
    ReachIgnored,
    /// The digest of a range knows its rows but not when they were changed.
    DigestWithoutStamps,
    /// Statements need not answer at COMMIT what they answered the client.
    AnswersNotCompared,
}

impl Flaw {
    pub const ALL: [Flaw; 16] = [
        Flaw::OwnWritesUnseen,
        Flaw::ReadUnrecorded,
        Flaw::ExistenceUnrecorded,
        Flaw::RangeUnrecorded,
        Flaw::EvaluationUnrecorded,
        Flaw::FailedCommandVanishes,
        Flaw::OwnRowsTwice,
        Flaw::OwnRowsOutdated,
        Flaw::FoldLoadsAgain,
        Flaw::HalfInstalled,
        Flaw::RejectedReadsForgotten,
        Flaw::RejectedWritesKept,
        Flaw::UndoneReadsForgotten,
        Flaw::ReachIgnored,
        Flaw::DigestWithoutStamps,
        Flaw::AnswersNotCompared,
    ];
}

/// What holds for a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trial {
    /// The seed of a shaken schedule.
    pub shake: Option<u64>,
    pub flaw: Option<Flaw>,
}

/// Ends a trial when it is dropped, and takes up the one before.
#[must_use]
pub struct Guard {
    #[cfg(feature = "mutants")]
    before: Trial,
}

#[cfg(feature = "mutants")]
pub use switched_on::{Watched, current, enter, flawed, pause, threshold};

#[cfg(feature = "mutants")]
mod switched_on {
    use std::cell::{Cell, RefCell};
    use std::ops::ControlFlow;
    use std::time::Duration;

    use kit::random::Random;
    use procedure::access::{Access, Command, Range, Row};
    use types::{ColumnId, Key, Stamp, Stop, TableId, Value};

    use super::{Flaw, Guard, Trial};

    thread_local! {
        static CURRENT: Cell<Trial> = const { Cell::new(Trial { shake: None, flaw: None }) };
        static RANDOM: RefCell<Random> = RefCell::new(Random::new(0));
    }

    pub fn enter(trial: Trial) -> Guard {
        if let Some(seed) = trial.shake {
            RANDOM.set(Random::new(seed));
        }
        Guard { before: CURRENT.replace(trial) }
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            CURRENT.set(self.before);
        }
    }

    pub fn current() -> Trial {
        CURRENT.get()
    }

    pub fn flawed(flaw: Flaw) -> bool {
        CURRENT.get().flaw == Some(flaw)
    }

    /// A good moment for another thread to come in between.
    pub fn pause() {
        if CURRENT.get().shake.is_none() {
            return;
        }
        match RANDOM.with_borrow_mut(|random| random.below(64)) {
            0 => std::thread::sleep(Duration::from_micros(20)),
            1..16 => std::thread::yield_now(),
            _ => {}
        }
    }

    /// The size from which something runs in parallel.
    pub fn threshold(items: usize) -> usize {
        if CURRENT.get().shake.is_some() { 1 } else { items }
    }

    /// Pauses before every access.
    pub struct Watched<'a, A>(pub &'a mut A);

    impl<A: Access> Access for Watched<'_, A> {
        fn read(
            &mut self,
            table: TableId,
            key: &Key,
            columns: &[ColumnId],
            out: &mut [Value],
        ) -> Result<Option<Stamp>, Stop> {
            pause();
            self.0.read(table, key, columns, out)
        }

        fn exists(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
            pause();
            self.0.exists(table, key)
        }

        fn update(&mut self, table: TableId, key: &Key, command: Command) -> Result<bool, Stop> {
            pause();
            self.0.update(table, key, command)
        }

        fn insert(&mut self, table: TableId, key: Key, row: Row) -> Result<bool, Stop> {
            pause();
            self.0.insert(table, key, row)
        }

        fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
            pause();
            self.0.delete(table, key)
        }

        fn scan<V>(&mut self, range: &Range, columns: &[ColumnId], visit: V) -> Result<(), Stop>
        where
            V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
        {
            pause();
            self.0.scan(range, columns, visit)
        }

        fn take_passed_over(&mut self) -> u64 {
            self.0.take_passed_over()
        }

        fn next_row_id(&mut self) -> [u8; 16] {
            self.0.next_row_id()
        }

        fn now_us(&self) -> i64 {
            self.0.now_us()
        }

        fn prefetch(&mut self, table: TableId, key: &Key) {
            self.0.prefetch(table, key);
        }
    }
}

#[cfg(not(feature = "mutants"))]
mod switched_off {
    use super::{Flaw, Guard, Trial};

    pub fn enter(_: Trial) -> Guard {
        Guard {}
    }

    pub fn current() -> Trial {
        Trial::default()
    }

    #[inline(always)]
    pub fn flawed(_: Flaw) -> bool {
        false
    }

    #[inline(always)]
    pub fn pause() {}

    #[inline(always)]
    pub fn threshold(items: usize) -> usize {
        items
    }
}

#[cfg(not(feature = "mutants"))]
pub use switched_off::{current, enter, flawed, pause, threshold};
