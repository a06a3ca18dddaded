//! A pool of bytes that many holders draw on by leases.
//!
//! ```text
//!   pool: bytes_max ┬ lease: what one holder has, rounded up ─ what it holds
//!                   ├ lease: …
//!                   └ free
//! ```
//!
//! A holder of much says how much by [`Lease::cover`], as often as it likes: a lease grows
//! by a grain at a time, and by half of what it is where that is more, up to [`GRAIN_BYTES_MAX`].
//! So the pool, which all share, is asked once for many rows. Little is not counted at all: a
//! holder of at most [`SMALL_BYTES`] needs no lease, and most never need one.
//!
//! *Invariant.* The sum of all leases is what the pool says is leased, and no more than its bound,
//! but for what was covered [regardless](Lease::cover_anyway). A lease that is dropped goes back.
//!
//! *Cost.* A comparison where the lease is large enough, else an add to one shared word.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Holders of no more are not counted.
pub const SMALL_BYTES: u64 = 32 << 10;

/// What a lease grows by, at least and at most.
const GRAIN_BYTES: u64 = 64 << 10;
const GRAIN_BYTES_MAX: u64 = 1 << 20;

/// The bytes that all holders may have together.
#[derive(Debug)]
pub struct Pool {
    bytes_max: u64,
    leased: AtomicU64,
    refused: AtomicU64,
}

/// The pool has no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exhausted {
    pub wanted_bytes: u64,
    pub leased_bytes: u64,
    pub bytes_max: u64,
}

impl Pool {
    pub fn new(bytes_max: u64) -> Arc<Pool> {
        let (leased, refused) = Default::default();
        Arc::new(Pool { bytes_max, leased, refused })
    }

    /// One that never refuses.
    pub fn unbounded() -> Arc<Pool> {
        Pool::new(u64::MAX)
    }

    pub fn lease(self: &Arc<Self>) -> Lease {
        Lease { pool: Arc::clone(self), bytes: 0 }
    }

    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    pub fn leased_bytes(&self) -> u64 {
        self.leased.load(Relaxed)
    }

    /// How often a lease was refused what it wanted.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// # Errors
    /// There is nothing left.
    pub fn check(&self) -> Result<(), Exhausted> {
        match self.leased_bytes() < self.bytes_max {
            true => Ok(()),
            false => Err(self.exhausted(0)),
        }
    }

    fn take(&self, bytes: u64) -> bool {
        let taken = self.leased.fetch_update(Relaxed, Relaxed, |leased| {
            leased.checked_add(bytes).filter(|leased| *leased <= self.bytes_max)
        });
        taken.is_ok()
    }

    #[cold]
    fn exhausted(&self, wanted_bytes: u64) -> Exhausted {
        self.refused.fetch_add(1, Relaxed);
        let (leased_bytes, bytes_max) = (self.leased_bytes(), self.bytes_max);
        Exhausted { wanted_bytes, leased_bytes, bytes_max }
    }
}

/// What one holder has of a pool, until it is dropped.
#[derive(Debug)]
pub struct Lease {
    pool: Arc<Pool>,
    bytes: u64,
}

impl Lease {
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes sure of `bytes`, counted together with what was covered before.
    ///
    /// # Errors
    /// The pool does not have them; the lease stays as it was.
    #[inline]
    pub fn cover(&mut self, bytes: u64) -> Result<(), Exhausted> {
        match bytes <= self.bytes.max(SMALL_BYTES) {
            true => Ok(()),
            false => self.grow(bytes),
        }
    }

    #[cold]
    fn grow(&mut self, bytes: u64) -> Result<(), Exhausted> {
        let missing = bytes - self.bytes;
        let grain = (self.bytes / 2).clamp(GRAIN_BYTES, GRAIN_BYTES_MAX);
        // A pool that is nearly empty is used to its last byte.
        let more = [missing.max(grain), missing].into_iter().find(|more| self.pool.take(*more));
        self.bytes += more.ok_or_else(|| self.pool.exhausted(missing))?;
        Ok(())
    }

    /// The same for what is there already and cannot be refused: the pool may have less than none
    /// from then on, and refuses others until it has more.
    pub fn cover_anyway(&mut self, bytes: u64) {
        if bytes > SMALL_BYTES && bytes > self.bytes {
            self.pool.leased.fetch_add(bytes - self.bytes, Relaxed);
            self.bytes = bytes;
        }
    }

    /// Gives back what is beyond `bytes`, if that is much.
    pub fn shrink(&mut self, bytes: u64) {
        let wanted = if bytes <= SMALL_BYTES { 0 } else { bytes };
        if wanted == 0 || self.bytes > wanted.saturating_add(GRAIN_BYTES_MAX) {
            let excess = self.bytes.saturating_sub(wanted);
            self.bytes -= excess;
            self.pool.leased.fetch_sub(excess, Relaxed);
        }
    }

    /// The part of it that covers `bytes`, as a lease of its own: they go to another holder.
    pub fn split(&mut self, bytes: u64) -> Lease {
        let bytes = if bytes <= SMALL_BYTES { 0 } else { bytes.min(self.bytes) };
        self.bytes -= bytes;
        Lease { pool: Arc::clone(&self.pool), bytes }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.leased.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn little_is_not_counted_and_much_is_leased_in_grains() {
        let pool = Pool::new(10 << 20);
        let mut lease = pool.lease();
        lease.cover(SMALL_BYTES).unwrap();
        assert_eq!(pool.leased_bytes(), 0);
        let mut growths = 0;
        for bytes in (0..4 << 20).step_by(100) {
            let before = pool.leased_bytes();
            lease.cover(bytes).unwrap();
            growths += u64::from(pool.leased_bytes() != before);
            assert!(bytes <= SMALL_BYTES || pool.leased_bytes() >= bytes);
            assert!(pool.leased_bytes() <= bytes + GRAIN_BYTES_MAX);
        }
        assert!(growths < 20, "{growths}");
        lease.shrink(0);
        assert_eq!(pool.leased_bytes(), 0);
    }

    #[test]
    fn a_pool_gives_its_last_byte_and_then_refuses() {
        let pool = Pool::new(300_000);
        let (mut one, mut other) = (pool.lease(), pool.lease());
        one.cover(200_000).unwrap();
        other.cover(100_000).unwrap();
        assert!(pool.check().is_err());
        let error = other.cover(100_001).unwrap_err();
        assert_eq!((error.wanted_bytes, error.bytes_max), (1, 300_000));
        assert_eq!(pool.refused(), 2);
        drop(one);
        other.cover(300_000).unwrap();
        let mut late = pool.lease();
        late.cover_anyway(50_000);
        assert_eq!(pool.leased_bytes(), 350_000);
        assert!(other.cover(300_001).is_err());
    }

    /// Whatever holders do, the pool counts the sum of their leases, and each has what it covers.
    #[test]
    fn the_pool_is_the_sum_of_its_leases() {
        let mut random = Random::new(7);
        let pool = Pool::new(20 << 20);
        let mut leases: Vec<(Lease, u64)> = Vec::new();
        for _ in 0..20_000 {
            let bytes = random.below(3 << 20) as u64;
            match random.below(6) {
                0 => leases.push((pool.lease(), 0)),
                kind if !leases.is_empty() => {
                    let at = random.below(leases.len() as u64) as usize;
                    let (lease, held) = &mut leases[at];
                    match kind {
                        1 | 2 => *held = lease.cover(bytes).map_or(*held, |()| (*held).max(bytes)),
                        3 => {
                            *held = (*held).min(bytes);
                            lease.shrink(*held);
                        }
                        4 => {
                            let part = (*held).min(bytes);
                            let whole = *held;
                            let split = lease.split(part);
                            *held = whole - part;
                            // The rest may be too little to be counted.
                            lease.cover_anyway(*held);
                            leases.push((split, part));
                        }
                        _ => drop(leases.swap_remove(at)),
                    }
                }
                _ => {}
            }
            let sum = leases.iter().map(|(lease, _)| lease.bytes()).sum::<u64>();
            assert_eq!(pool.leased_bytes(), sum);
            for (lease, held) in &leases {
                assert!(*held <= SMALL_BYTES || lease.bytes() >= *held);
            }
        }
        drop(leases);
        assert_eq!(pool.leased_bytes(), 0);
    }
}
