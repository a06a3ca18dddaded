//! Versions of a column's rows, and where in it there are any.
//!
//! ```text
//!   zone (1,024 rows)
//!     span    first versioned row | last versioned row        one word
//!     heads   [ 0  0  7  0  3 ... ]                           made with the first version
//!                     │
//!   versions          └─► 7: value, timestamp, next ─► 2: value, timestamp, next 0
//! ```
//!
//! Newest first; a version holds a value and the timestamp of the commit that had written it. All
//! versions of a column between two snapshots live in one arena, so handing the chains over is
//! handing over one pointer, and dropping a snapshot drops them all at once: no collector.
//!
//! # The span, for scans (HyPer's technique)
//!
//! A scan reads a zone in one tight loop if it has no versions, and checks only the rows of the
//! span otherwise. It looks at the span before and after: a commit widens the span before it
//! touches a value, so a scan that saw a new value sees the wider span too, and reads again.
//!
//! # Collection
//!
//! In the configurations without snapshots a collector cuts chains below what the oldest active
//! transaction can see, while no commit installs. Readers need no protection: one that began at
//! `b` stops at the first version not newer than `b`, and what is cut lies after one that is not
//! newer than the oldest `b`.

use std::sync::OnceLock;

use kit::sync::Mutex;
use kit::sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering};

use crate::Timestamp;
use crate::area::{ZONE_ROWS, zone_rows, zones};
use crate::lock::lock;

pub struct Chains {
    zones: Box<[Zone]>,
    rows: usize,
    arena: Arena,
}

struct Zone {
    span: AtomicU32,
    heads: OnceLock<Box<[AtomicU32]>>,
}

/// First and last versioned row of a zone, as one word: `last << 16 | first`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span(u32);

impl Span {
    const NONE: Span = Span(0xFFFF);

    pub fn is_empty(self) -> bool {
        self == Span::NONE
    }

    /// Rows within the zone.
    pub fn rows(self) -> std::ops::Range<usize> {
        match self.is_empty() {
            true => 0..0,
            false => (self.0 & 0xFFFF) as usize..(self.0 >> 16) as usize + 1,
        }
    }

    fn with(self, row: usize) -> Span {
        let row = row as u32;
        match self.is_empty() {
            true => Span(row << 16 | row),
            false => Span((self.0 >> 16).max(row) << 16 | (self.0 & 0xFFFF).min(row)),
        }
    }
}

impl Chains {
    pub fn new(rows: usize) -> Chains {
        let zone = |_| Zone { span: AtomicU32::new(Span::NONE.0), heads: OnceLock::new() };
        Chains { zones: (0..zones(rows)).map(zone).collect(), rows, arena: Arena::new() }
    }

    pub fn span(&self, zone: usize) -> Span {
        Span(self.zones[zone].span.load(Ordering::Acquire))
    }

    /// Before anything of the row changes in place. One writer for each row at a time.
    pub fn push(&self, row: usize, value: i64, timestamp: Timestamp) {
        let zone = &self.zones[row / ZONE_ROWS];
        let at = row % ZONE_ROWS;
        let widen = |span| Some(Span(span).with(at).0).filter(|wider| *wider != span);
        // An error says that the span is wide enough.
        let _ = zone.span.fetch_update(Ordering::AcqRel, Ordering::Acquire, widen);
        let rows = zone_rows(row / ZONE_ROWS, self.rows).len();
        let heads = zone.heads.get_or_init(|| (0..rows).map(|_| AtomicU32::new(0)).collect());
        let mut next = heads[at].load(Ordering::Acquire);
        let version = self.arena.add(value, timestamp, next);
        let (done, missed) = (Ordering::AcqRel, Ordering::Acquire);
        while let Err(newer) = heads[at].compare_exchange(next, version, done, missed) {
            next = newer;
            self.arena.version(version).next.store(next, Ordering::Relaxed);
        }
    }

    /// The newest version that is not newer than `at`.
    pub fn read(&self, row: usize, at: Timestamp) -> Option<i64> {
        self.walk(row).find(|version| version.timestamp() <= at).map(Version::value)
    }

    fn walk(&self, row: usize) -> impl Iterator<Item = &Version> {
        let heads = self.zones[row / ZONE_ROWS].heads.get();
        let mut next = heads.map_or(0, |heads| heads[row % ZONE_ROWS].load(Ordering::Acquire));
        std::iter::from_fn(move || {
            let version = (next != 0).then(|| self.arena.version(next))?;
            next = version.next.load(Ordering::Acquire);
            Some(version)
        })
    }

    /// Cuts a zone's chains after what a reader at `oldest` needs, and narrows its span. No
    /// commit installs meanwhile. `newest` is the timestamp of the value in place.
    pub fn collect(&self, zone: usize, oldest: Timestamp, newest: impl Fn(usize) -> Timestamp) {
        let Some(heads) = self.zones[zone].heads.get() else {
            return;
        };
        let mut span = Span::NONE;
        for at in self.span(zone).rows() {
            let row = zone * ZONE_ROWS + at;
            if newest(row) <= oldest {
                self.arena.free(heads[at].swap(0, Ordering::AcqRel));
            } else if let Some(last) = self.walk(row).find(|v| v.timestamp() <= oldest) {
                self.arena.free(last.next.swap(0, Ordering::AcqRel));
            }
            if heads[at].load(Ordering::Relaxed) != 0 {
                span = span.with(at);
            }
        }
        self.zones[zone].span.store(span.0, Ordering::Release);
    }

    /// Versions that are held.
    pub fn versions(&self) -> usize {
        self.arena.used()
    }
}

struct Version {
    value: AtomicI64,
    timestamp: AtomicI64,
    next: AtomicU32,
}

impl Version {
    fn value(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }

    fn timestamp(&self) -> Timestamp {
        self.timestamp.load(Ordering::Relaxed)
    }
}

const FIRST_SEGMENT_LOG2: u32 = 8;
const SEGMENTS: usize = 24;

/// Versions by number, from 1 on, in segments that double.
struct Arena {
    segments: [OnceLock<Box<[Version]>>; SEGMENTS],
    made: AtomicU32,
    free: Mutex<Vec<u32>>,
    free_count: AtomicUsize,
}

impl Arena {
    fn new() -> Arena {
        Arena {
            segments: [const { OnceLock::new() }; SEGMENTS],
            made: AtomicU32::new(0),
            free: Mutex::new(Vec::new()),
            free_count: AtomicUsize::new(0),
        }
    }

    /// The segment of a number, and the place in it.
    fn place(number: u32) -> (usize, usize) {
        let shifted = number - 1 + (1 << FIRST_SEGMENT_LOG2);
        let log2 = shifted.ilog2();
        ((log2 - FIRST_SEGMENT_LOG2) as usize, (shifted - (1 << log2)) as usize)
    }

    fn version(&self, number: u32) -> &Version {
        let (segment, place) = Arena::place(number);
        &self.segment(segment)[place]
    }

    fn segment(&self, segment: usize) -> &[Version] {
        let version = |_| Version {
            value: AtomicI64::new(0),
            timestamp: AtomicI64::new(0),
            next: AtomicU32::new(0),
        };
        let length = 1usize << (FIRST_SEGMENT_LOG2 as usize + segment);
        self.segments[segment].get_or_init(|| (0..length).map(version).collect())
    }

    fn add(&self, value: i64, timestamp: Timestamp, next: u32) -> u32 {
        let reused = match self.free_count.load(Ordering::Relaxed) {
            0 => None,
            _ => lock(&self.free).pop(),
        };
        let number = match reused {
            Some(number) => {
                self.free_count.fetch_sub(1, Ordering::Relaxed);
                number
            }
            None => self.made.fetch_add(1, Ordering::Relaxed) + 1,
        };
        let version = self.version(number);
        version.value.store(value, Ordering::Relaxed);
        version.timestamp.store(timestamp, Ordering::Relaxed);
        version.next.store(next, Ordering::Relaxed);
        number
    }

    /// A chain from its newest on; it is not found any more.
    fn free(&self, mut number: u32) {
        while number != 0 {
            let next = self.version(number).next.load(Ordering::Acquire);
            lock(&self.free).push(number);
            self.free_count.fetch_add(1, Ordering::Relaxed);
            number = next;
        }
    }

    fn used(&self) -> usize {
        self.made.load(Ordering::Relaxed) as usize - self.free_count.load(Ordering::Relaxed)
    }
}
