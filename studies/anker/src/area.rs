//! What a snapshot technique is: an area of 64-bit words that can be frozen.
//!
//! ```text
//!   Area (current, written in place)  ── freeze ──►  Frozen (the words as they were, for ever)
//! ```
//!
//! In the thesis the old memory goes to the snapshot and its duplicate becomes current; whether an
//! area moves, or its duplicate does, is each technique's own business here. What all promise:
//!
//! 1. `load` and `with_zone` may run at any time, beside stores and beside `freeze`.
//! 2. Stores to different rows may run beside each other, never beside `freeze`: callers exclude
//!    that (column lock, module `lock`).
//! 3. Acquire loads and release stores: a thread that sees a value sees all that its writer did
//!    before.
//! 4. Nothing that is stored after `freeze` returns reaches what it returned.

use std::borrow::Cow;

use kit::sync::atomic::AtomicI64;
use types::Result;

/// Rows that a scan looks at in one go, and that share one note of their versions.
pub const ZONE_ROWS: usize = if cfg!(shuttle) { 2 } else { 1_024 };

pub trait Area: Send + Sync + Sized + 'static {
    type Frozen: Frozen;

    /// The technique's name, as figures print it.
    const TECHNIQUE: &'static str;

    /// Zeros.
    fn new(rows: usize) -> Result<Self>;

    fn rows(&self) -> usize;

    fn load(&self, row: usize) -> i64;

    fn store(&self, row: usize, value: i64);

    /// Whether so many more rows can be stored now; a technique that may run into a limit of the
    /// operating system says so here, where a transaction can still be refused.
    fn admit(&self, _rows: usize) -> Result<()> {
        Ok(())
    }

    /// The words of one zone; the last one may be shorter.
    fn with_zone<R>(&self, zone: usize, read: impl FnOnce(&[AtomicI64]) -> R) -> R;

    fn freeze(&self) -> Result<Self::Frozen>;

    /// All words in one piece of memory that a forked child inherits as its own, if that is so.
    fn inherited(&self) -> Option<&[AtomicI64]> {
        None
    }
}

/// Words that do not change any more.
pub trait Frozen: Send + Sync + 'static {
    /// Borrowed, unless the words are a model checker's.
    fn zone(&self, zone: usize) -> Cow<'_, [i64]>;
}

pub fn zones(rows: usize) -> usize {
    rows.div_ceil(ZONE_ROWS)
}

/// The rows of a zone.
pub fn zone_rows(zone: usize, rows: usize) -> std::ops::Range<usize> {
    let first = (zone * ZONE_ROWS).min(rows);
    first..(first + ZONE_ROWS).min(rows)
}
