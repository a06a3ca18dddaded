//! Rewired memory files: copying on write by hand, in user space.
//!
//! # Idea
//!
//! The words live in pages of a memory file, and a table says which virtual page shows which page
//! of the file. To freeze is to map the same pages a second time, run by run, and to take the right
//! to write from the window. A store that is refused is a signal; its handler copies the page to a
//! page of the file that no view shows, maps that one in its place, and the store is tried again.
//!
//! ```text
//!   window   [ 0  1  7  3 ]     a store to the third page went to page 7 of the file
//!   file     0 1 2 3 4 5 6 7    owners 2 2 1 2 0 0 0 1
//!   frozen   [ 0  1  2  3 ]     one mapping; had it been made after the store: three
//! ```
//!
//! # Invariants
//!
//! 1. A page of the file has as many *owners* as there are windows and frozen views that show it.
//!    It is written only while the window is its one owner, and free at zero.
//! 2. Owners, the free list and the table of the window change under one lock that a signal handler
//!    can take: a flag, never held across anything that can fault or allocate.
//! 3. Before a store, `admit` has seen room for the mappings that its signal may add; the handler
//!    itself has no caller to report to.
//!
//! # Cost
//!
//! Two mappings more for each page that is copied out of order, one system call for each mapping
//! to freeze, and the kernel's limit on mappings of a process (`vm.max_map_count`, 65,530 unless
//! raised) ends it: fifty columns with every page modified would need a hundred thousands.
//!
//! # Departure
//!
//! The thesis protects the new view; here both sides are protected, since both would otherwise be
//! written through.

#![allow(unsafe_code)]

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use kit::sync::atomic::AtomicI64;
use types::{Error, Result, SqlState};

use super::mapping::{
    Access, Mapping, MemoryFile, PAGE_BYTES, PAGE_ROWS, Sharing, refused, too_many_mappings,
};
use crate::area::{Area, Frozen, zone_rows};

/// Pages of the file for each page of the area: so many wholly different views can be alive.
const VIEWS_MAX: usize = 8;

/// Mappings left to the rest of the process while several threads store at once.
const MAPPINGS_SPARE: usize = 4_096;

/// What a store may add: its page becomes a mapping between two others.
const MAPPINGS_PER_STORE: usize = 2;

/// Of all areas of this kind, with what the process had when the first one was made.
static MAPPINGS: AtomicUsize = AtomicUsize::new(0);

/// The kernel's limit on mappings of one process.
pub fn mappings_max() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
        text.trim().parse().unwrap_or(65_530)
    })
}

fn has_room(mappings: usize) -> bool {
    MAPPINGS.load(Ordering::Relaxed) + mappings + MAPPINGS_SPARE <= mappings_max()
}

/// What the signal handler works on: nothing here is allocated, moved or freed while it may run.
struct Window {
    file: MemoryFile,
    memory: Mapping,
    lock: AtomicBool,
    /// The page of the file that each page of the window shows.
    shows: Box<[AtomicU32]>,
    writable: Box<[AtomicBool]>,
    /// Owners of each page of the file.
    owners: Box<[AtomicU32]>,
    /// A stack of free pages of the file.
    free: Box<[AtomicU32]>,
    free_pages: AtomicUsize,
    /// Upper bound of the window's mappings, counted in `MAPPINGS`.
    mappings: AtomicUsize,
}

struct Held<'a>(&'a Window);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.lock.store(false, Ordering::Release);
    }
}

impl Window {
    fn new(pages: usize) -> Result<Window> {
        let file_pages = pages * VIEWS_MAX;
        let file = MemoryFile::new(file_pages * PAGE_BYTES)?;
        let memory = Mapping::of_file(&file, pages, Sharing::Shared, Access::Write)?;
        let shown = pages as u32;
        MAPPINGS.fetch_add(1, Ordering::Relaxed);
        Ok(Window {
            file,
            memory,
            lock: AtomicBool::new(false),
            shows: (0..shown).map(AtomicU32::new).collect(),
            writable: (0..pages).map(|_| AtomicBool::new(true)).collect(),
            owners: (0..file_pages).map(|page| AtomicU32::new((page < pages).into())).collect(),
            free: (shown..file_pages as u32)
                .rev()
                .map(AtomicU32::new)
                .chain((0..shown).map(|_| AtomicU32::new(0)))
                .collect(),
            free_pages: AtomicUsize::new(file_pages - pages),
            mappings: AtomicUsize::new(1),
        })
    }

    /// A system call is all that waiting does, since a signal handler may wait here.
    fn hold(&self) -> Held<'_> {
        while self.lock.swap(true, Ordering::Acquire) {
            // SAFETY: takes nothing and touches no memory.
            unsafe { libc::sched_yield() };
        }
        Held(self)
    }

    fn take_free(&self) -> Option<usize> {
        let left = self.free_pages.load(Ordering::Relaxed).checked_sub(1)?;
        self.free_pages.store(left, Ordering::Relaxed);
        Some(self.free[left].load(Ordering::Relaxed) as usize)
    }

    fn disown(&self, file_page: usize) {
        let owners = self.owners[file_page].load(Ordering::Relaxed) - 1;
        self.owners[file_page].store(owners, Ordering::Relaxed);
        if owners == 0 {
            let free = self.free_pages.load(Ordering::Relaxed);
            self.free[free].store(file_page as u32, Ordering::Relaxed);
            self.free_pages.store(free + 1, Ordering::Relaxed);
        }
    }

    /// Makes a page writable, with memory of its own; runs in the signal handler. False: the
    /// kernel refused, or no page is left.
    fn separate(&self, page: usize) -> bool {
        let _held = self.hold();
        if self.writable[page].load(Ordering::Relaxed) {
            return true;
        }
        let old = self.shows[page].load(Ordering::Relaxed) as usize;
        let done = if self.owners[old].load(Ordering::Relaxed) == 1 {
            self.memory.protect(page, 1, Access::Write)
        } else {
            self.copy(page, old)
        };
        if done {
            self.writable[page].store(true, Ordering::Relaxed);
            self.mappings.fetch_add(MAPPINGS_PER_STORE, Ordering::Relaxed);
            MAPPINGS.fetch_add(MAPPINGS_PER_STORE, Ordering::Relaxed);
        }
        done
    }

    fn copy(&self, page: usize, old: usize) -> bool {
        let Some(fresh) = self.take_free() else {
            return false;
        };
        let descriptor = self.file.descriptor();
        let offset = (fresh * PAGE_BYTES) as libc::off_t;
        // SAFETY: one page of the window, mapped and readable; the kernel reads it.
        let copied = unsafe {
            let source = (self.memory.address() + page * PAGE_BYTES) as *const libc::c_void;
            libc::pwrite(descriptor, source, PAGE_BYTES, offset)
        };
        if copied != PAGE_BYTES as isize
            || !self.memory.rewire(page, 1, descriptor, fresh, Access::Write)
        {
            return false;
        }
        self.owners[fresh].store(1, Ordering::Relaxed);
        self.shows[page].store(fresh as u32, Ordering::Relaxed);
        self.disown(old);
        true
    }

    /// The window's pages as runs of neighbours in the file: where, how many, from which page.
    fn runs(&self) -> Vec<(usize, usize, usize)> {
        let mut runs: Vec<(usize, usize, usize)> = Vec::new();
        for (page, shown) in self.shows.iter().enumerate() {
            let shown = shown.load(Ordering::Relaxed) as usize;
            match runs.last_mut() {
                Some((_, pages, first)) if *first + *pages == shown => *pages += 1,
                _ => runs.push((page, 1, shown)),
            }
        }
        runs
    }

    fn count_mappings(&self, mappings: usize) {
        let before = self.mappings.swap(mappings, Ordering::Relaxed);
        MAPPINGS.fetch_add(mappings, Ordering::Relaxed);
        MAPPINGS.fetch_sub(before, Ordering::Relaxed);
    }
}

pub struct Rewired {
    window: Arc<Window>,
    place: usize,
    rows: usize,
}

pub struct FrozenPages {
    window: Arc<Window>,
    memory: Mapping,
    shows: Box<[u32]>,
    mappings: usize,
    rows: usize,
}

impl Rewired {
    /// Mappings that the area has, at most.
    pub fn mappings(&self) -> usize {
        self.window.mappings.load(Ordering::Relaxed)
    }
}

impl Area for Rewired {
    type Frozen = FrozenPages;

    const TECHNIQUE: &'static str = "rewired";

    fn new(rows: usize) -> Result<Self> {
        handler::install()?;
        let window = Arc::new(Window::new(rows.div_ceil(PAGE_ROWS))?);
        let place = handler::register(&window)?;
        Ok(Rewired { window, place, rows })
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn load(&self, row: usize) -> i64 {
        self.window.memory.words()[row].load(Ordering::Acquire)
    }

    fn store(&self, row: usize, value: i64) {
        self.window.memory.words()[row].store(value, Ordering::Release);
    }

    fn admit(&self, rows: usize) -> Result<()> {
        if !has_room(MAPPINGS_PER_STORE * rows) {
            return Err(too_many_mappings("cannot store into a rewired column"));
        }
        Ok(())
    }

    fn with_zone<R>(&self, zone: usize, read: impl FnOnce(&[AtomicI64]) -> R) -> R {
        read(&self.window.memory.words()[zone_rows(zone, self.rows)])
    }

    fn freeze(&self) -> Result<FrozenPages> {
        let window = &self.window;
        let (pages, runs) = (window.shows.len(), window.runs());
        if !has_room(runs.len()) {
            return Err(too_many_mappings("cannot freeze a rewired column"));
        }
        if window.free_pages.load(Ordering::Relaxed) < pages {
            let message = "cannot freeze a rewired column: too many frozen views are alive";
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                .with_hint("End the queries that read the older ones."));
        }
        let memory = Mapping::reserve(pages)?;
        for &(at, pages, shown) in &runs {
            if !memory.rewire(at, pages, window.file.descriptor(), shown, Access::Read) {
                return Err(refused("cannot freeze a rewired column"));
            }
        }
        if !window.memory.protect(0, pages, Access::Read) {
            return Err(refused("cannot protect a rewired column"));
        }
        let shows = window.shows.iter().map(|page| page.load(Ordering::Relaxed)).collect();
        let _held = window.hold();
        for &(_, pages, shown) in &runs {
            for owners in &window.owners[shown..shown + pages] {
                owners.store(owners.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
        }
        window.writable.iter().for_each(|page| page.store(false, Ordering::Relaxed));
        // With one protection, mappings of neighbours are one again.
        window.count_mappings(runs.len());
        let mappings = runs.len();
        MAPPINGS.fetch_add(mappings, Ordering::Relaxed);
        Ok(FrozenPages { window: window.clone(), memory, shows, mappings, rows: self.rows })
    }
}

impl Drop for Rewired {
    fn drop(&mut self) {
        handler::forget(self.place);
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.count_mappings(0);
    }
}

impl Drop for FrozenPages {
    fn drop(&mut self) {
        let _held = self.window.hold();
        self.shows.iter().for_each(|&page| self.window.disown(page as usize));
        MAPPINGS.fetch_sub(self.mappings, Ordering::Relaxed);
    }
}

impl Frozen for FrozenPages {
    fn zone(&self, zone: usize) -> Cow<'_, [i64]> {
        // SAFETY: this view owns its pages of the file, so by invariant 1 no thread writes them.
        let words = unsafe { self.memory.frozen_words() };
        Cow::Borrowed(&words[zone_rows(zone, self.rows)])
    }
}

/// The signal handler, and how it finds the window that an address belongs to.
mod handler {
    use super::*;

    const WINDOWS_MAX: usize = 1_024;

    static WINDOWS: [AtomicPtr<Window>; WINDOWS_MAX] =
        [const { AtomicPtr::new(std::ptr::null_mut()) }; WINDOWS_MAX];

    /// Handlers that are at work: a window is let go only when none is.
    static AT_WORK: AtomicUsize = AtomicUsize::new(0);

    /// What handled the signal before, for faults that are not ours.
    static mut BEFORE: std::mem::MaybeUninit<libc::sigaction> = std::mem::MaybeUninit::uninit();

    pub(super) fn install() -> Result<()> {
        static INSTALLED: OnceLock<bool> = OnceLock::new();
        let installed = *INSTALLED.get_or_init(|| {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
            MAPPINGS.fetch_add(maps.lines().count(), Ordering::Relaxed);
            // SAFETY: a zeroed `sigaction` is a valid one without flags and mask; `handle` has the
            // signature that SA_SIGINFO asks for; `BEFORE` is written here alone, before any
            // window exists whose fault could make `handle` read it.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handle as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                let before = (&raw mut BEFORE).cast();
                libc::sigaction(libc::SIGSEGV, &action, before) == 0
            }
        });
        if installed { Ok(()) } else { Err(refused("cannot handle refused stores")) }
    }

    pub(super) fn register(window: &Arc<Window>) -> Result<usize> {
        let (pointer, vacant) = (Arc::as_ptr(window).cast_mut(), std::ptr::null_mut());
        let claim = |place: &AtomicPtr<Window>| {
            place.compare_exchange(vacant, pointer, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        };
        WINDOWS.iter().position(claim).ok_or_else(|| {
            let message = format!("more than {WINDOWS_MAX} rewired columns");
            Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                .with_hint("Use slabs, which have no such limit.")
        })
    }

    /// The caller stores no more; but handlers of other windows may be looking at this one.
    pub(super) fn forget(at: usize) {
        WINDOWS[at].store(std::ptr::null_mut(), Ordering::SeqCst);
        while AT_WORK.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
    }

    fn separate(address: usize) -> bool {
        for place in &WINDOWS {
            // SAFETY: registered by its owner, who lets it go only after it is no longer here and
            // no handler is at work; this one was at work before it looked.
            let Some(window) = (unsafe { place.load(Ordering::SeqCst).as_ref() }) else {
                continue;
            };
            let offset = address.wrapping_sub(window.memory.address());
            if offset < window.shows.len() * PAGE_BYTES {
                return window.separate(offset / PAGE_BYTES);
            }
        }
        false
    }

    /// Only system calls and atomic operations on memory that was allocated long ago.
    extern "C" fn handle(
        signal: libc::c_int,
        info: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) {
        // SAFETY: the kernel passes a valid `siginfo_t`, which for this signal has an address; the
        // thread's error number is given back as it was found.
        unsafe {
            let error_number = *libc::__errno_location();
            AT_WORK.fetch_add(1, Ordering::SeqCst);
            let ours = separate((*info).si_addr() as usize);
            AT_WORK.fetch_sub(1, Ordering::SeqCst);
            *libc::__errno_location() = error_number;
            if !ours {
                pass_on(signal, info, context);
            }
        }
    }

    /// To the handler of the signal before; by default that is the end of the process, when the
    /// faulting instruction is tried again.
    unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: written by `install` before this handler could run; a handler other than the
        // two that are numbers has one of the two signatures, as its flags say.
        unsafe {
            let before = &*(&raw const BEFORE).cast::<libc::sigaction>();
            match before.sa_sigaction {
                libc::SIG_DFL | libc::SIG_IGN => {
                    libc::signal(signal, libc::SIG_DFL);
                }
                handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
                    type Handler =
                        extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
                    std::mem::transmute::<usize, Handler>(handler)(signal, info, context);
                }
                handler => {
                    std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(handler)(signal);
                }
            }
        }
    }
}
