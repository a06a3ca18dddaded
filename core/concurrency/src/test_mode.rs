//! What tests switch on: chosen and shaken schedules, and bugs of the parts that all protocols
//! share.
//!
//! A [`TestMode`] holds for one thread while its guard lives; a pool hands its caller's test mode
//! to the workers for the time of a job. So tests in one process do not affect each other, and the
//! oracle's own replay can run without the bug that it is to find.
//!
//! At every access of a transaction, at the start of every job and wherever [`pause`] is called
//! another worker may come in between, for a processor of two cores shows few interleavings by
//! itself:
//!
//! * **Chosen**: the workers of a job [take turns](kit::turns), and the seed determines which runs
//!   next. The same seed gives the same interleaving on any machine: so bugs are looked for.
//! * **Shaken**: a worker gives up its processor now and then, or sleeps for some microseconds.
//!   That looks into what lies between two pauses, but no run comes back: a test may demand of it
//!   that nothing goes wrong, not that something happens.
//! * **Mutated**: the code asks [`mutated`] at the place of the bug.
//!
//! [`threshold`] makes small blocks run in parallel as well. Without the feature `mutants` all of
//! it is empty and costs nothing.

/// Bugs on purpose, one for each claim that the shared parts make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
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
    /// A fold lets a command take as long as it likes.
    CommandUnmetered,
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
    /// What others have read who simulated a transaction is no read of it.
    ReadsOfOthersForgotten,
    /// What they have read is taken to have the versions that are there now.
    VersionsOfNow,
}

impl Mutant {
    pub const ALL: [Mutant; 19] = [
        Mutant::OwnWritesUnseen,
        Mutant::ReadUnrecorded,
        Mutant::ExistenceUnrecorded,
        Mutant::RangeUnrecorded,
        Mutant::EvaluationUnrecorded,
        Mutant::FailedCommandVanishes,
        Mutant::OwnRowsTwice,
        Mutant::OwnRowsOutdated,
        Mutant::FoldLoadsAgain,
        Mutant::CommandUnmetered,
        Mutant::HalfInstalled,
        Mutant::RejectedReadsForgotten,
        Mutant::RejectedWritesKept,
        Mutant::UndoneReadsForgotten,
        Mutant::ReachIgnored,
        Mutant::DigestWithoutStamps,
        Mutant::AnswersNotCompared,
        Mutant::ReadsOfOthersForgotten,
        Mutant::VersionsOfNow,
    ];
}

/// Who of several workers gets on, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Interleaving {
    /// As it happens.
    #[default]
    Free,
    /// As it happens, disturbed at pauses by what a seed says.
    Shaken(u64),
    /// As a seed says.
    Chosen(u64),
}

/// What holds for a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TestMode {
    pub interleaving: Interleaving,
    pub mutant: Option<Mutant>,
}

impl TestMode {
    pub fn shaken(seed: u64) -> TestMode {
        TestMode { interleaving: Interleaving::Shaken(seed), mutant: None }
    }

    pub fn chosen(seed: u64) -> TestMode {
        TestMode { interleaving: Interleaving::Chosen(seed), mutant: None }
    }

    /// Chosen and shaken by turns.
    pub fn of_seed(seed: u64) -> TestMode {
        if seed.is_multiple_of(2) { TestMode::chosen(seed) } else { TestMode::shaken(seed) }
    }

    /// The same with another seed.
    pub fn map_seed(self, map: impl FnOnce(u64) -> u64) -> TestMode {
        let interleaving = match self.interleaving {
            Interleaving::Free => Interleaving::Free,
            Interleaving::Shaken(seed) => Interleaving::Shaken(map(seed)),
            Interleaving::Chosen(seed) => Interleaving::Chosen(map(seed)),
        };
        TestMode { interleaving, ..self }
    }
}

/// Ends a test mode when it is dropped, and takes up the one before.
#[must_use]
pub struct Guard {
    #[cfg(feature = "mutants")]
    before: TestMode,
    /// Of a worker in a job whose schedule is chosen.
    #[cfg(feature = "mutants")]
    _playing: Option<kit::turns::Guard>,
}

#[cfg(feature = "mutants")]
pub use switched_on::{Job, Pausing, enter, mutated, pause, threshold};

#[cfg(feature = "mutants")]
mod switched_on {
    use std::cell::{Cell, RefCell};
    use std::ops::ControlFlow;
    use std::sync::Arc;
    use std::time::Duration;

    use kit::random::Random;
    use kit::turns::{self, Turns};
    use procedure::access::{Access, Command, Range, Row};
    use types::{ColumnId, Key, Stamp, Stop, TableId, Value};

    use super::{Guard, Interleaving, Mutant, TestMode};

    thread_local! {
        static CURRENT: Cell<TestMode> = const {
            Cell::new(TestMode { interleaving: Interleaving::Free, mutant: None })
        };
        static RANDOM: RefCell<Random> = RefCell::new(Random::new(0));
    }

    pub fn enter(test_mode: TestMode) -> Guard {
        draw_from(test_mode);
        Guard { before: CURRENT.replace(test_mode), _playing: None }
    }

    fn draw_from(test_mode: TestMode) {
        if let Interleaving::Shaken(seed) | Interleaving::Chosen(seed) = test_mode.interleaving {
            RANDOM.set(Random::new(seed));
        }
    }

    /// The caller's test mode, for the workers of one job.
    pub struct Job {
        test_mode: TestMode,
        turns: Option<Arc<Turns>>,
    }

    impl Job {
        /// With a schedule of its own, where it is chosen.
        pub fn new(workers: usize) -> Job {
            let test_mode = CURRENT.get();
            let turns = match test_mode.interleaving {
                Interleaving::Chosen(_) => {
                    let seed = RANDOM.with_borrow_mut(Random::next_u64);
                    Some(Turns::new(seed, workers))
                }
                _ => None,
            };
            Job { test_mode, turns }
        }

        /// Whether its workers take turns, so that all of them must be at work.
        pub fn takes_turns(&self) -> bool {
            self.turns.is_some()
        }

        /// Each worker must.
        pub fn enter(&self, worker: usize) -> Guard {
            let test_mode = self.test_mode.map_seed(|seed| seed.wrapping_add(worker as u64));
            let playing = self.turns.as_ref().map(|turns| turns.enter(worker));
            // The first is the caller, which draws the schedules of its next jobs as well.
            if playing.is_none() || worker > 0 {
                draw_from(test_mode);
            }
            Guard { before: CURRENT.replace(test_mode), _playing: playing }
        }
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            CURRENT.set(self.before);
        }
    }

    pub fn mutated(mutant: Mutant) -> bool {
        CURRENT.get().mutant == Some(mutant)
    }

    /// A good moment for another worker to come in between.
    pub fn pause() {
        let shaken = matches!(CURRENT.get().interleaving, Interleaving::Shaken(_));
        if turns::pause() || !shaken {
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
        if CURRENT.get().interleaving == Interleaving::Free { items } else { 1 }
    }

    /// Pauses before every access.
    pub struct Pausing<'a, A>(pub &'a mut A);

    impl<A: Access> Access for Pausing<'_, A> {
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
    use super::{Guard, Mutant, TestMode};

    pub fn enter(_: TestMode) -> Guard {
        Guard {}
    }

    pub struct Job;

    impl Job {
        #[inline(always)]
        pub fn new(_: usize) -> Job {
            Job
        }

        #[inline(always)]
        pub fn takes_turns(&self) -> bool {
            false
        }

        #[inline(always)]
        pub fn enter(&self, _: usize) -> Guard {
            Guard {}
        }
    }

    #[inline(always)]
    pub fn mutated(_: Mutant) -> bool {
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
pub use switched_off::{Job, enter, mutated, pause, threshold};
