//! The plain one: words in one allocation, copied to be frozen.
//!
//! Also what [`super::fork`] needs: private memory that a child has for its own.

use std::borrow::Cow;

use kit::sync::atomic::{AtomicI64, Ordering};
use types::Result;

use crate::area::{Area, Frozen, zone_rows};

pub struct Physical {
    words: Box<[AtomicI64]>,
}

pub struct Copied(Box<[i64]>);

impl Area for Physical {
    type Frozen = Copied;

    const TECHNIQUE: &'static str = "physical";

    fn new(rows: usize) -> Result<Self> {
        Ok(Physical { words: (0..rows).map(|_| AtomicI64::new(0)).collect() })
    }

    fn rows(&self) -> usize {
        self.words.len()
    }

    fn load(&self, row: usize) -> i64 {
        self.words[row].load(Ordering::Acquire)
    }

    fn store(&self, row: usize, value: i64) {
        self.words[row].store(value, Ordering::Release);
    }

    fn with_zone<R>(&self, zone: usize, read: impl FnOnce(&[AtomicI64]) -> R) -> R {
        read(&self.words[zone_rows(zone, self.words.len())])
    }

    fn freeze(&self) -> Result<Copied> {
        Ok(Copied(self.words.iter().map(|word| word.load(Ordering::Relaxed)).collect()))
    }

    fn inherited(&self) -> Option<&[AtomicI64]> {
        Some(&self.words)
    }
}

impl Frozen for Copied {
    fn zone(&self, zone: usize) -> Cow<'_, [i64]> {
        Cow::Borrowed(&self.0[zone_rows(zone, self.0.len())])
    }
}
