//! Time: timestamps, who is active, the epoch and its gate.
//!
//! ```text
//! 63 62                      34 33                      8 7          0
//! [0|        epoch: 29         |      sequence: 26       | worker: 8  ]   Timestamp
//! ```
//!
//! **Epochs are blocks.** A transaction installs its writes inside of the *gate*. [`Clock::turn`]
//! shuts it, waits until those inside have left, counts the epoch up and opens it again; so a block
//! is closed at one moment and holds whole transactions. A writer whose place in the serial order
//! would lie in a closed epoch is told so when it enters, and gets 40001.
//!
//! **Two ways to draw.** *Striped*: every worker counts for itself, above what it has met and above
//! the floor (Lamport, 1978); its number in the low bits makes the draw unique. MVTO needs no more,
//! and no word is written by two workers. *Central*: snapshot protocols must know that nothing at
//! or below their snapshot will be installed any more. Writers draw commit timestamps from one
//! counter, and announce in a word of their own that they are about to; a snapshot is the counter's
//! value, or one less than the lowest draw announced.
//!
//! **The horizon**: no version that ended at or before it can be seen by a transaction, now or
//! later. `floor` is raised first, so that what begins afterwards draws above it; then the active
//! timestamps are read. A transaction between the two has announced that it arrives, and then the
//! horizon stays where it was.
//!
//! ```text
//! worker      active := ARRIVING ── read floor ── draw above it ── active := T
//! collector                 floor := f ── read all active ── horizon := min(f, those - 1)
//! ```
//!
//! **Settled** is what all that may write are above, and none begins below: a snapshot for those
//! that declare that they only read, and the bound below which versions between two readers
//! can go ([`Sight`](crate::chains::Sight)). With central draws it is the floor itself.

use crossbeam_utils::CachePadded;
use kit::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use kit::sync::{self, Condvar, Mutex, MutexGuard, Spin};

/// A place in the serial order of a database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(pub u64);

const EPOCH_SHIFT: u32 = 34;
const WORKER_BITS: u32 = 8;
/// Most workers that a clock serves.
pub const WORKERS_MAX: usize = 1 << WORKER_BITS;

impl Timestamp {
    pub const ZERO: Timestamp = Timestamp(0);
    /// Above every timestamp.
    pub const INFINITY: Timestamp = Timestamp((1 << 62) - 1);

    /// The lowest of an epoch.
    pub const fn first_of(epoch: u64) -> Timestamp {
        Timestamp(epoch << EPOCH_SHIFT)
    }

    pub const fn epoch(self) -> u64 {
        self.0 >> EPOCH_SHIFT
    }
}

/// No transaction is active here.
const IDLE: u64 = u64::MAX;
/// About to draw a timestamp: which one is not known yet.
const ARRIVING: u64 = 0;

/// What one worker tells the others. Only it writes these words.
struct Desk {
    /// [`IDLE`], [`ARRIVING`], or the timestamp that the running transaction reads at.
    active: AtomicU64,
    /// Central draws: a bound that the draw under way is above; [`IDLE`] when there is none.
    announced: AtomicU64,
    /// What is active here writes nothing.
    reads_only: AtomicBool,
    inside: AtomicBool,
    /// The newest timestamp that it drew.
    newest: AtomicU64,
}

pub struct Clock {
    desks: Box<[CachePadded<Desk>]>,
    epoch: CachePadded<AtomicU64>,
    shut: AtomicBool,
    /// Last central draw.
    drawn: CachePadded<AtomicU64>,
    floor: CachePadded<AtomicU64>,
    settled: CachePadded<AtomicU64>,
    horizon: CachePadded<AtomicU64>,
    entry: Mutex<()>,
    opened: Condvar,
}

/// Leaves the gate when dropped.
pub struct Inside<'a> {
    desk: &'a Desk,
    pub epoch: u64,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.desk.inside.store(false, SeqCst);
    }
}

impl Clock {
    pub fn new(workers: usize) -> Clock {
        assert!(workers <= WORKERS_MAX);
        let desk = || {
            CachePadded::new(Desk {
                active: AtomicU64::new(IDLE),
                announced: AtomicU64::new(IDLE),
                reads_only: AtomicBool::new(false),
                inside: AtomicBool::new(false),
                newest: AtomicU64::new(0),
            })
        };
        let start = Timestamp::first_of(1).0;
        Clock {
            desks: (0..workers).map(|_| desk()).collect(),
            epoch: CachePadded::new(AtomicU64::new(1)),
            shut: AtomicBool::new(false),
            drawn: CachePadded::new(AtomicU64::new(start)),
            floor: CachePadded::new(AtomicU64::new(start)),
            settled: CachePadded::new(AtomicU64::new(start)),
            horizon: CachePadded::new(AtomicU64::new(start)),
            entry: Mutex::new(()),
            opened: Condvar::new(),
        }
    }

    pub fn workers(&self) -> usize {
        self.desks.len()
    }

    pub fn epoch(&self) -> u64 {
        self.epoch.load(SeqCst)
    }

    /// Begin by a striped draw, above `met`.
    pub fn begin_striped(&self, worker: usize, met: Timestamp) -> Timestamp {
        let desk = &self.desks[worker];
        desk.active.store(ARRIVING, SeqCst);
        desk.reads_only.store(false, SeqCst);
        let first = Timestamp::first_of(self.epoch.load(SeqCst));
        let above = met.0.max(self.floor.load(SeqCst)).max(first.0);
        let drawn = (((above >> WORKER_BITS) + 1) << WORKER_BITS) | worker as u64;
        desk.newest.store(drawn, SeqCst);
        desk.active.store(drawn, SeqCst);
        Timestamp(drawn)
    }

    /// Begin at a snapshot: every writer at or below it has been installed, and none will come.
    pub fn begin_snapshot(&self, worker: usize, must_see: Timestamp) -> Timestamp {
        let desk = &self.desks[worker];
        desk.active.store(ARRIVING, SeqCst);
        let mut spin = Spin::new();
        let snapshot = loop {
            let snapshot = self.installed_up_to().max(self.floor.load(SeqCst));
            if snapshot >= must_see.0 {
                break snapshot;
            }
            spin.wait();
        };
        desk.active.store(snapshot, SeqCst);
        Timestamp(snapshot)
    }

    /// Begin where all that may write are above; `None` when that is too old for a session that
    /// has seen more.
    pub fn begin_settled(&self, worker: usize, must_see: Timestamp) -> Option<Timestamp> {
        self.raise_horizon_striped();
        let desk = &self.desks[worker];
        desk.active.store(ARRIVING, SeqCst);
        desk.reads_only.store(true, SeqCst);
        let settled = self.settled.load(SeqCst);
        let late_enough = settled >= must_see.0;
        desk.active.store(if late_enough { settled } else { IDLE }, SeqCst);
        late_enough.then_some(Timestamp(settled))
    }

    pub fn end(&self, worker: usize) {
        self.desks[worker].active.store(IDLE, SeqCst);
    }

    /// Everything at or below is installed, and central draws are above.
    fn installed_up_to(&self) -> u64 {
        let drawn = self.drawn.load(SeqCst);
        self.desks.iter().fold(drawn, |low, desk| low.min(desk.announced.load(SeqCst)))
    }

    /// Draw a commit timestamp from the centre. Until [`Clock::installed`] no snapshot reaches it.
    pub fn draw(&self, worker: usize) -> Timestamp {
        let desk = &self.desks[worker];
        desk.announced.store(self.drawn.load(SeqCst), SeqCst);
        let drawn = self.drawn.fetch_add(1 << WORKER_BITS, SeqCst) + (1 << WORKER_BITS);
        desk.announced.store(drawn - 1, SeqCst);
        Timestamp(drawn)
    }

    pub fn installed(&self, worker: usize) {
        self.desks[worker].announced.store(IDLE, SeqCst);
    }

    /// Enter the gate; wait while it is shut.
    pub fn enter(&self, worker: usize) -> Inside<'_> {
        let desk = &self.desks[worker];
        loop {
            desk.inside.store(true, SeqCst);
            if !self.shut.load(SeqCst) {
                return Inside { desk, epoch: self.epoch.load(SeqCst) };
            }
            desk.inside.store(false, SeqCst);
            let mut entry = self.entry();
            while self.shut.load(SeqCst) {
                entry = sync::wait(&self.opened, &self.entry, entry);
            }
        }
    }

    /// Held to wait for the gate, or to shut it.
    fn entry(&self) -> MutexGuard<'_, ()> {
        sync::lock(&self.entry)
    }

    /// Close the epoch, once the gate is empty; gives its number.
    pub fn turn(&self) -> u64 {
        let entry = self.entry();
        self.shut.store(true, SeqCst);
        for desk in &self.desks {
            let mut spin = Spin::new();
            while desk.inside.load(SeqCst) {
                spin.wait();
            }
        }
        let closed = self.epoch.load(SeqCst);
        // None is inside, so none draws.
        self.drawn.fetch_max(Timestamp::first_of(closed + 1).0, SeqCst);
        self.epoch.store(closed + 1, SeqCst);
        self.shut.store(false, SeqCst);
        drop(entry);
        self.opened.notify_all();
        closed
    }

    /// No version that ended at or before it is seen by a transaction, as was found out last.
    pub fn horizon(&self) -> Timestamp {
        Timestamp(self.horizon.load(SeqCst))
    }

    /// Find out anew, where timestamps are drawn by stripes.
    pub fn raise_horizon_striped(&self) -> Timestamp {
        let newest = self.desks.iter().map(|desk| desk.newest.load(SeqCst)).max().unwrap_or(0);
        let floor = self.floor.fetch_max(newest, SeqCst).max(newest);
        self.raise(floor, |desk| !desk.reads_only.load(SeqCst))
    }

    /// The same, where commits are drawn from the centre.
    pub fn raise_horizon_central(&self) -> Timestamp {
        let floor = self.installed_up_to();
        let floor = self.floor.fetch_max(floor, SeqCst).max(floor);
        self.settled.fetch_max(floor, SeqCst);
        self.raise(floor, |_| false)
    }

    fn raise(&self, floor: u64, may_write: impl Fn(&Desk) -> bool) -> Timestamp {
        let (mut settled, mut horizon) = (floor, floor);
        for desk in &self.desks {
            match desk.active.load(SeqCst) {
                ARRIVING => return self.horizon(),
                IDLE => {}
                active => {
                    horizon = horizon.min(active - 1);
                    if may_write(desk) {
                        settled = settled.min(active - 1);
                    }
                }
            }
        }
        self.settled.fetch_max(settled, SeqCst);
        Timestamp(self.horizon.fetch_max(horizon, SeqCst).max(horizon))
    }

    /// No active transaction reads above it.
    pub fn newest(&self) -> Timestamp {
        let striped = self.desks.iter().map(|desk| desk.newest.load(SeqCst)).max().unwrap_or(0);
        Timestamp(striped.max(self.drawn.load(SeqCst)))
    }

    /// Every timestamp that is read at, ascending, and a bound below which no transaction begins
    /// any more. `None` while one arrives.
    pub fn readers(&self) -> Option<(Vec<Timestamp>, Timestamp)> {
        let settled = self.settled.load(SeqCst);
        let mut readers = Vec::new();
        for desk in &self.desks {
            match desk.active.load(SeqCst) {
                ARRIVING => return None,
                IDLE => {}
                active => readers.push(Timestamp(active)),
            }
        }
        readers.sort_unstable();
        Some((readers, Timestamp(settled)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Clock {
        /// Words that all workers share.
        fn shared(&self) -> [u64; 5] {
            [&self.epoch, &self.drawn, &self.floor, &self.settled, &self.horizon]
                .map(|word| word.load(SeqCst))
        }
    }

    #[test]
    fn a_striped_draw_writes_no_word_of_anybody_else() {
        let clock = Clock::new(2);
        let before = clock.shared();
        let mut drawn = Vec::new();
        for _ in 0..1000 {
            let met = drawn.last().copied().unwrap_or_default();
            drawn.push(clock.begin_striped(0, met));
            drop(clock.enter(0));
            clock.end(0);
        }
        assert!(drawn.is_sorted_by(|a, b| a < b));
        assert_eq!(clock.shared(), before);
        assert_eq!(clock.desks[1].newest.load(SeqCst), 0);
    }

    #[test]
    fn timestamps_of_two_workers_are_never_the_same() {
        let clock = Clock::new(2);
        // Both have met the same each time.
        let met = |n: u64| Timestamp(Timestamp::first_of(1).0 + (n << WORKER_BITS));
        let draw = |n| [0, 1].map(|worker| clock.begin_striped(worker, met(n)));
        let mut all: Vec<Timestamp> = (0..100).flat_map(draw).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 200);
    }
}
