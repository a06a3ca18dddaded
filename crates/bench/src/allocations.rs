//! Counting heap allocations.
//!
//! A program that wants them counted makes [`Counting`] its global allocator, around the one it
//! would have. The count is off but during a run that is made for it, so that otherwise an
//! allocation costs one load of a flag that never changes more.

// An allocator is unsafe by its signature; this one only counts and passes on.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static ENABLED: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);

pub struct Counting<A>(pub A);

impl<A> Counting<A> {
    #[inline]
    fn count() {
        if ENABLED.load(Ordering::Relaxed) {
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// SAFETY: every call goes to the inner allocator with the arguments it came with.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count();
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::count();
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { self.0.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::count();
        unsafe { self.0.realloc(at, layout, size) }
    }
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
