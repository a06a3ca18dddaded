//! Private mappings of a memory file: the kernel copies, and no mapping is ever split.
//!
//! # Idea
//!
//! The file holds the words as of the last freeze. The area's window is a private mapping of it,
//! so a store goes to a copy of its page that the kernel makes, once. A frozen view is another
//! private mapping, of the file as a whole: one system call.
//!
//! ```text
//!   window   [ a  b' c  d' ]   private; b and d were written since
//!   file     [ a  b  c  d  ]
//!   view 1   [ a  b  c  d  ]   private; shows the file
//!
//!   freeze:  1. view 1 gets its own b and d (MADV_POPULATE_WRITE)
//!            2. b' and d' are written to the file, the window forgets its copies
//!            3. view 2 is mapped
//!
//!   window   [ a  b' c  d' ]   shows the file
//!   file     [ a  b' c  d' ]
//!   view 1   [ a  b  c  d  ]   b and d are its own
//!   view 2   [ a  b' c  d' ]   shows the file
//! ```
//!
//! # How writes go
//!
//! In place, into the window; a bit says which pages were written since the last freeze, because
//! the kernel does not tell cheaply. The first store to a page is a page fault in which the kernel
//! copies it; no signal, no protection, no bookkeeping of pages.
//!
//! # Cost
//!
//! Freezing copies each page written since the last freeze once for the file and once for each
//! view that is still read, in two or three system calls for each run of such pages. What
//! `vm_snapshot` pays in page-table entries of the whole column, this pays in pages that changed.

#![allow(unsafe_code)]

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use kit::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use types::Result;

use super::mapping::{Access, Mapping, MemoryFile, PAGE_ROWS, Sharing};
use crate::area::{Area, Frozen, zone_rows};

pub struct Private {
    file: MemoryFile,
    window: Mapping,
    pages: usize,
    rows: usize,
    /// A bit for each page that was written since the last freeze.
    written: Box<[AtomicU64]>,
    views: Mutex<Vec<Weak<Mapping>>>,
}

pub struct View {
    pages: Arc<Mapping>,
    rows: usize,
}

impl Private {
    fn is_written(&self, page: usize) -> bool {
        self.written[page / 64].load(Ordering::Relaxed) >> (page % 64) & 1 == 1
    }

    /// Maximal runs of pages written since the last freeze: the first and how many.
    fn runs(&self) -> Vec<(usize, usize)> {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for page in (0..self.pages).filter(|&page| self.is_written(page)) {
            match runs.last_mut() {
                Some((first, pages)) if *first + *pages == page => *pages += 1,
                _ => runs.push((page, 1)),
            }
        }
        runs
    }

    /// Writes a run to the file; only the window reads these pages of the file.
    fn fold(&self, first: usize, pages: usize) -> Result<()> {
        let words = &self.window.words()[first * PAGE_ROWS..(first + pages) * PAGE_ROWS];
        // SAFETY: `AtomicI64` has the representation of `i64`, and no store runs beside a freeze.
        let words = unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len()) };
        self.file.write_page_run(words, first)?;
        self.window.forget(first, pages)
    }
}

impl Area for Private {
    type Frozen = View;

    const TECHNIQUE: &'static str = "private";

    fn new(rows: usize) -> Result<Self> {
        let pages = rows.div_ceil(PAGE_ROWS);
        let file = MemoryFile::new(pages * super::mapping::PAGE_BYTES)?;
        let window = Mapping::of_file(&file, pages, Sharing::Private, Access::Write)?;
        let written = (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Private { file, window, pages, rows, written, views: Mutex::default() })
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn load(&self, row: usize) -> i64 {
        self.window.words()[row].load(Ordering::Acquire)
    }

    fn store(&self, row: usize, value: i64) {
        let page = row / PAGE_ROWS;
        if !self.is_written(page) {
            self.written[page / 64].fetch_or(1 << (page % 64), Ordering::Relaxed);
        }
        self.window.words()[row].store(value, Ordering::Release);
    }

    fn with_zone<R>(&self, zone: usize, read: impl FnOnce(&[AtomicI64]) -> R) -> R {
        read(&self.window.words()[zone_rows(zone, self.rows)])
    }

    fn freeze(&self) -> Result<View> {
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        views.retain(|view| view.strong_count() > 0);
        for (first, pages) in self.runs() {
            for view in views.iter().filter_map(Weak::upgrade) {
                view.separate(first, pages)?;
            }
            self.fold(first, pages)?;
        }
        self.written.iter().for_each(|bits| bits.store(0, Ordering::Relaxed));
        // Writable, though there are no stores: to be separated means to be written.
        let pages = Mapping::of_file(&self.file, self.pages, Sharing::Private, Access::Write)?;
        let pages = Arc::new(pages);
        views.push(Arc::downgrade(&pages));
        Ok(View { pages, rows: self.rows })
    }
}

impl Frozen for View {
    fn zone(&self, zone: usize) -> Cow<'_, [i64]> {
        // SAFETY: the file changes only in `fold`, after every living view has pages of its own in
        // the places that change. A view that dies meanwhile has no readers.
        let words = unsafe { self.pages.frozen_words() };
        Cow::Borrowed(&words[zone_rows(zone, self.rows)])
    }
}
