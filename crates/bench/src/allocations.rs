//! Counting heap allocations.
//!
//! A program that wants them counted makes [`Counting`] its global allocator, around the one it
//! would have. The count is off but during a run that is made for it, so that otherwise an
//! allocation costs one load of a flag that never changes more. [`largest_during`] watches one
//! thread: whether hostile bytes make a decoder ask for more memory than they have bytes.

// An allocator is unsafe by its signature; this one only counts and passes on.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static ENABLED: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);
/// Threads that watch their own.
static WATCHED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Bytes of the largest allocation since it was set to 0.
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

pub struct Counting<A>(pub A);

impl<A> Counting<A> {
    #[inline]
    fn count(bytes: usize) {
        if ENABLED.load(Ordering::Relaxed) {
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
        if WATCHED.load(Ordering::Relaxed) > 0 {
            // A thread that ends has no such cell any more, and nobody watches it.
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
        unsafe { self.0.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::count(size);
        unsafe { self.0.realloc(at, layout, size) }
    }
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
pub(crate) fn during<T>(work: impl FnOnce() -> T) -> (T, Option<u64>) {
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
