//! Counting heap allocations.
//!
//! A program that wants them counted makes [`Counting`] its global allocator, around the one it
//! would have. The count is off but during a run that is made for it: otherwise an allocation costs
//! two loads of flags that no thread writes, and an addition to a counter of its own thread.
//! [`largest_during`] watches one thread: whether hostile bytes make a decoder ask for more memory
//! than they have bytes.
//!
//! How many bytes are given out ([`live_bytes`]) is counted all the time: what a process holds
//! beyond them is the allocator's, and not a leak. Each thread counts locally and adds to the
//! global counter every [`FLUSHED_BYTES`], so that allocating touches no line that others write.

// An allocator is unsafe by its signature; this one only counts and passes on.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

static ENABLED: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);
/// Threads that watch their own.
static WATCHED: AtomicU64 = AtomicU64::new(0);

/// Bytes that were given out and not taken back, as far as threads have added theirs.
static LIVE: AtomicI64 = AtomicI64::new(0);

/// What a thread keeps to itself at most.
const FLUSHED_BYTES: i64 = 64 << 10;

/// What a thread has not added yet; it does when it ends.
struct Unreported(Cell<i64>);

impl Drop for Unreported {
    fn drop(&mut self) {
        LIVE.fetch_add(self.0.get(), Ordering::Relaxed);
    }
}

thread_local! {
    static UNREPORTED: Unreported = const { Unreported(Cell::new(0)) };
    /// Bytes of the largest allocation since it was set to 0.
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

pub struct Counting<A>(pub A);

#[inline]
fn change(bytes: i64) {
    let noted = UNREPORTED.try_with(|Unreported(unreported)| {
        let now = unreported.get() + bytes;
        let is_little = now.abs() < FLUSHED_BYTES;
        unreported.set(if is_little { now } else { 0 });
        if !is_little {
            LIVE.fetch_add(now, Ordering::Relaxed);
        }
    });
    if noted.is_err() {
        LIVE.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl<A> Counting<A> {
    #[inline]
    fn count(bytes: usize) {
        change(bytes as i64);
        if ENABLED.load(Ordering::Relaxed) {
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
        if WATCHED.load(Ordering::Relaxed) > 0 {
            // A thread that ends has no such cell any more, and is not watched.
            let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(bytes)));
        }
    }
}

// SAFETY: every call goes to the inner allocator with the arguments it came with.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count(layout.size());
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::count(layout.size());
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        change(-(layout.size() as i64));
        unsafe { self.0.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::count(size);
        change(-(layout.size() as i64));
        unsafe { self.0.realloc(at, layout, size) }
    }
}

/// Bytes that the allocator has given out, but for [`FLUSHED_BYTES`] of each thread; 0 where the
/// global allocator is not a [`Counting`] one.
pub fn live_bytes() -> u64 {
    u64::try_from(LIVE.load(Ordering::Relaxed)).unwrap_or(0)
}

/// The largest allocation that this thread makes during `work`, in bytes; 0 where the global
/// allocator is not a [`Counting`] one.
pub fn largest_during<T>(work: impl FnOnce() -> T) -> (T, usize) {
    LARGEST.with(|largest| largest.set(0));
    WATCHED.fetch_add(1, Ordering::Relaxed);
    let result = work();
    WATCHED.fetch_sub(1, Ordering::Relaxed);
    (result, LARGEST.with(Cell::get))
}

/// Allocations of the whole process during `work`; `None` where the global allocator is not a
/// [`Counting`] one.
pub fn during<T>(work: impl FnOnce() -> T) -> (T, Option<u64>) {
    let before = COUNT.load(Ordering::Relaxed);
    ENABLED.store(true, Ordering::Relaxed);
    let probe = std::hint::black_box(Box::new(0u8));
    let installed = COUNT.load(Ordering::Relaxed) > before;
    drop(probe);
    let start = COUNT.load(Ordering::Relaxed);
    let result = work();
    ENABLED.store(false, Ordering::Relaxed);
    (result, installed.then(|| COUNT.load(Ordering::Relaxed) - start))
}
