//! Version storage (sections 5.4.1 to 5.4.3): where the versions of a tuple lie, and in which
//! order.
//!
//! Every tuple has a *head* at a fixed place, which indexes lead to and which holds what protocols
//! need. (The thesis keeps lock and read timestamp in each version; only the newest version's are
//! ever used.)
//!
//! ```text
//! head      0 lock | 1 readers | 2 chain, bit 63 latch | 3 begin | 4 first | 5 stamp | key … | row
//! version   0 begin | 1 end | 2 next | 3 tuple | 4 ender | 5 stamp | row, or the cells of a delta
//!
//! begin     [ timestamp: 63 | deleted: 1 ]   of the newest committed version, in the head
//!           or FREE, PENDING, BUSY, DEAD
//! ender     where the one who ended the version stands in the serial order: at `end`, as a rule
//! first     the same of the one who made the first version; bit 63: not where that begins
//! stamp     its writer's place in the ledger
//!
//! append, newest first   chain ─► v3 ─► v2 ─► v1                  rows in versions only
//! append, oldest first   chain ─► v1 ─► v2 ─► v3
//! time travel            head holds v3;  chain ─► v2 ─► v1        whole rows
//! delta                  head holds v3;  chain ─► Δ2 ─► Δ1        what columns held before
//! ```
//!
//! **One writer, many readers.** Installing and pruning exclude each other by the latch; readers
//! take none. A version is *visible* at t if begin ≤ t < end. What is visible to an active
//! transaction is never freed, so once found it can be read at leisure. On the way there a reader
//! may stand on a version that is unlinked, freed and used again: every step reads `begin` before
//! and after the other words, checks whose version it is, and begins again if that changed
//! (`begin` is never the same twice in one unit: its timestamp names one writer).
//!
//! In place, `begin` is a sequence lock: BUSY while the row is written.

pub mod append;
pub mod delta;
pub mod time_travel;

use kit::sync::Spin;
use kit::sync::atomic::{AtomicU64, Ordering, fence};
use types::Stamp;

use crate::clock::Timestamp;
use crate::layout::{ColumnSet, Layout};
use crate::pool::{Full, Unit};

pub const LOCK: usize = 0;
pub const READERS: usize = 1;
const CHAIN: usize = 2;
pub const BEGIN: usize = 3;
const FIRST: usize = 4;
const STAMP: usize = 5;
pub const KEY: usize = 6;

const LATCH: u64 = 1 << 63;
const NOT_AT_BEGIN: u64 = 1 << 63;

// Words of a version.
const V_BEGIN: usize = 0;
const V_END: usize = 1;
const V_NEXT: usize = 2;
const V_TUPLE: usize = 3;
const V_ENDER: usize = 4;
const V_STAMP: usize = 5;
const V_ROW: usize = 6;

/// When a version began, and whether it is a deletion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark(pub u64);

impl Mark {
    /// No row was ever here.
    pub const ABSENT: Mark = Mark(1);
    const DEAD: Mark = Mark(u64::MAX);
    const BUSY: Mark = Mark(u64::MAX - 1);
    const FREE: Mark = Mark(u64::MAX - 2);
    const PENDING: Mark = Mark(u64::MAX - 3);

    pub fn new(begin: Timestamp, deleted: bool) -> Mark {
        Mark(begin.0 << 1 | u64::from(deleted))
    }

    pub fn begin(self) -> Timestamp {
        Timestamp(self.0 >> 1)
    }

    pub fn deleted(self) -> bool {
        self.0 & 1 == 1
    }

    /// The tuple is gone for good; a transaction that wants its key looks it up again.
    pub fn is_dead(self) -> bool {
        self == Mark::DEAD
    }
}

/// The row of a version.
#[derive(Clone, Copy, Debug)]
pub enum RowAt<'a> {
    Version(&'a [AtomicU64]),
    /// In the buffer that was handed in.
    Copied,
    Nowhere,
}

/// A version as one transaction sees it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub mark: Mark,
    /// [`Timestamp::INFINITY`]: the newest.
    pub end: Timestamp,
    /// Where the one who ended it stands in the serial order.
    pub end_order: Timestamp,
    pub stamp: Stamp,
    pub unit: Option<Unit>,
    pub row: RowAt<'a>,
    /// Versions that were passed on the way.
    pub passed: u32,
}

impl Seen<'_> {
    pub fn is_newest(&self) -> bool {
        self.end == Timestamp::INFINITY
    }

    pub fn exists(&self) -> bool {
        !self.mark.deleted()
    }

    /// The tuple is dead.
    fn dead(mark: Mark) -> Seen<'static> {
        let (end, stamp) = (Timestamp::INFINITY, Stamp::default());
        Seen { mark, end, end_order: end, stamp, unit: None, row: RowAt::Nowhere, passed: 0 }
    }

    /// No version is as old as that; the oldest begins at `end`.
    fn absent(head: Head<'_>, end: Timestamp) -> Seen<'static> {
        let mut seen = Seen { end, ..Seen::dead(Mark::ABSENT) };
        if end != Timestamp::INFINITY {
            let first = head.0[FIRST].load(Ordering::Acquire);
            seen.end_order = Timestamp(first & !NOT_AT_BEGIN);
            if first & NOT_AT_BEGIN == 0 {
                // The very first may have been collected.
                seen.end = seen.end_order;
            }
        }
        seen
    }

    /// The transaction that ended it stands elsewhere in the serial order than at its end.
    pub fn ended_early(&self) -> bool {
        self.end_order != self.end
    }
}

/// A tuple's head.
#[derive(Clone, Copy)]
pub struct Head<'a>(pub &'a [AtomicU64]);

impl<'a> Head<'a> {
    pub fn lock_word(self) -> &'a AtomicU64 {
        &self.0[LOCK]
    }

    pub fn readers(self) -> &'a AtomicU64 {
        &self.0[READERS]
    }

    /// The newest committed version's.
    #[inline]
    pub fn newest(self) -> Mark {
        let mut spin = Spin::new();
        loop {
            let mark = Mark(self.0[BEGIN].load(Ordering::SeqCst));
            if mark != Mark::BUSY {
                return mark;
            }
            spin.wait();
        }
    }

    fn chain(self) -> u64 {
        self.0[CHAIN].load(Ordering::Acquire) & !LATCH
    }

    /// Excludes all others that would change the chain.
    pub fn latch(self) -> Latched<'a> {
        let mut spin = Spin::new();
        loop {
            let chain = self.0[CHAIN].load(Ordering::Relaxed);
            let (free, taken) = (chain & !LATCH, chain | LATCH);
            let order = (Ordering::Acquire, Ordering::Relaxed);
            if self.0[CHAIN].compare_exchange_weak(free, taken, order.0, order.1).is_ok() {
                return Latched(self);
            }
            spin.wait();
        }
    }

    /// A tuple that no index names yet.
    pub fn reset(self, lock: u64) {
        for (at, word) in [(LOCK, lock), (READERS, 0), (CHAIN, 0), (FIRST, 0), (STAMP, 0)] {
            self.0[at].store(word, Ordering::Relaxed);
        }
        self.0[BEGIN].store(Mark::ABSENT.0, Ordering::Release);
    }

    /// Who made the first version.
    fn set_first(self, new: &NewVersion<'_>) {
        let elsewhere = if new.order == new.at { 0 } else { NOT_AT_BEGIN };
        self.0[FIRST].store(new.order.0 | elsewhere, Ordering::Release);
    }

    pub fn kill(self) {
        self.0[BEGIN].store(Mark::DEAD.0, Ordering::SeqCst);
    }
}

/// A head whose chain this thread alone changes, until dropped.
pub struct Latched<'a>(pub Head<'a>);

impl Latched<'_> {
    fn set_chain(&self, link: u64) {
        self.0.0[CHAIN].store(link | LATCH, Ordering::Release);
    }
}

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        let chain = self.0.chain();
        self.0.0[CHAIN].store(chain, Ordering::Release);
    }
}

/// What a transaction makes of a tuple.
#[derive(Clone, Copy)]
pub struct NewVersion<'a> {
    pub tuple: u32,
    /// `None`: a deletion.
    pub image: Option<&'a [u64]>,
    /// Columns whose words are new in the image; the others are those of the version before.
    pub changed: &'a ColumnSet,
    /// The version before.
    pub base: Option<Unit>,
    pub at: Timestamp,
    pub order: Timestamp,
    pub stamp: Stamp,
}

impl NewVersion<'_> {
    fn mark(&self) -> Mark {
        Mark::new(self.at, self.image.is_none())
    }
}

/// Who may still look at old versions.
#[derive(Clone, Debug)]
pub struct Sight {
    pub horizon: Timestamp,
    /// For interval collection: all that read now, ascending, and what no transaction begins below.
    pub readers: Option<(Vec<Timestamp>, Timestamp)>,
}

impl Sight {
    /// Whether no transaction sees what was there from `begin` until `end`.
    pub fn is_garbage(&self, begin: Timestamp, end: Timestamp) -> bool {
        if end <= self.horizon {
            return true;
        }
        let Some((readers, floor)) = &self.readers else { return false };
        let next = readers.partition_point(|reader| *reader < begin);
        end <= *floor && readers.get(next).is_none_or(|reader| *reader >= end)
    }
}

/// Is shown versions with their rows.
pub type Show<'s> = dyn FnMut(Option<Unit>, Mark, &[u64]) + 's;

/// A way to store versions. Installing and pruning happen under the tuple's latch.
pub trait Chains: Send + Sync {
    /// Words of a row in the head.
    fn row_words_in_head(layout: &Layout) -> usize;

    /// The version that is there at a time.
    fn visible<'a>(
        &'a self,
        layout: &Layout,
        head: Head<'a>,
        tuple: u32,
        at: Timestamp,
        copy: &mut Vec<u64>,
    ) -> Seen<'a>;

    /// Fetches the version that a chain begins with, where rows do not lie in the head.
    fn prefetch(&self, head: Head<'_>) {
        let _ = head;
    }

    /// Writes a version that nothing leads to yet, where versions have a place of their own.
    fn prepare(
        &self,
        layout: &Layout,
        new: &NewVersion<'_>,
        worker: usize,
    ) -> Result<Option<Unit>, Full>;

    /// Takes back what was prepared, strings that are new in it included.
    fn unprepare(&self, layout: &Layout, unit: Unit);

    fn install(
        &self,
        layout: &Layout,
        latched: &Latched<'_>,
        new: &NewVersion<'_>,
        prepared: Option<Unit>,
        worker: usize,
    ) -> Result<(), Full>;

    /// Frees what no transaction sees; gives how many versions that were.
    fn prune(&self, layout: &Layout, latched: &Latched<'_>, tuple: u32, sight: &Sight) -> usize;

    /// Whether there are versions beside the newest.
    fn has_older(&self, latched: &Latched<'_>) -> bool;

    /// Shows every version with its row, the deleted ones without.
    fn each(&self, layout: &Layout, latched: &Latched<'_>, tuple: u32, show: &mut Show<'_>);

    /// Gives the newest version another stamp. Not while transactions run.
    fn restamp(&self, latched: &Latched<'_>, tuple: u32, stamp: Stamp);

    /// The tuple is dead: what its newest version holds goes too.
    fn bury(&self, layout: &Layout, latched: &Latched<'_>);

    /// Old versions, and for append-only storage the newest ones as well.
    fn versions(&self) -> usize;

    fn bytes(&self) -> usize;

    /// Whether there is little room left.
    fn is_crowded(&self) -> bool;
}

/// The words of a version, consistent with each other.
struct Version {
    mark: Mark,
    end: Timestamp,
    next: u64,
    ender: Timestamp,
    stamp: Stamp,
}

/// Reads a version's words; `None` if it is not (or no longer) the tuple's.
#[inline]
fn read_version(words: &[AtomicU64], tuple: u32) -> Option<Version> {
    let header = words.first_chunk::<V_ROW>()?;
    let begin = header[V_BEGIN].load(Ordering::Acquire);
    let load = |at: usize| header[at].load(Ordering::Relaxed);
    let version = Version {
        mark: Mark(begin),
        end: Timestamp(load(V_END)),
        next: load(V_NEXT),
        ender: Timestamp(load(V_ENDER)),
        stamp: Stamp(load(V_STAMP)),
    };
    let is_tuples = load(V_TUPLE) == u64::from(tuple);
    fence(Ordering::Acquire);
    let settled = begin < Mark::PENDING.0 && load(V_BEGIN) == begin;
    (settled && is_tuples).then_some(version)
}

fn copy_row(from: &[AtomicU64], to: &mut Vec<u64>) {
    to.clear();
    to.extend(from.iter().map(|word| word.load(Ordering::Relaxed)));
}

fn store_row(from: &[u64], to: &[AtomicU64]) {
    for (to, from) in to.iter().zip(from) {
        to.store(*from, Ordering::Relaxed);
    }
}

fn store_header(words: &[AtomicU64], header: [u64; V_ROW]) {
    for (word, value) in words.iter().zip(header).skip(1) {
        word.store(value, Ordering::Relaxed);
    }
    words[V_BEGIN].store(header[V_BEGIN], Ordering::Release);
}
