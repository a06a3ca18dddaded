//! Memory as the kernel gives it: mappings and memory files, owned and given back.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

use kit::sync::atomic::AtomicI64;
use types::{Error, Result, SqlState};

pub const PAGE_BYTES: usize = 4_096;
pub const PAGE_ROWS: usize = PAGE_BYTES / size_of::<i64>();

/// `configuration_limit_exceeded`.
const CONFIGURATION_LIMIT_EXCEEDED: SqlState = SqlState(*b"53400");

pub fn refused(what: &str) -> Error {
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENOMEM) {
        return too_many_mappings(what);
    }
    Error::new(SqlState::IO_ERROR, format!("{what}: {error}"))
}

pub fn too_many_mappings(what: &str) -> Error {
    Error::new(CONFIGURATION_LIMIT_EXCEEDED, format!("{what}: too many memory mappings"))
        .with_detail(format!("vm.max_map_count is {}.", super::mappings_max()))
        .with_hint("Raise vm.max_map_count, or use slabs, which need no mappings.")
}

/// A file that lives in memory and has no name.
pub struct MemoryFile(File);

impl MemoryFile {
    pub fn new(bytes: usize) -> Result<MemoryFile> {
        // SAFETY: a name that ends in zero, and flags; the call touches no memory of ours.
        let descriptor = unsafe { libc::memfd_create(c"anker".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(refused("cannot make a memory file"));
        }
        // SAFETY: a descriptor that was just opened and that has no other owner.
        let file = unsafe { File::from_raw_fd(descriptor) };
        file.set_len(bytes as u64).map_err(|_| refused("cannot size a memory file"))?;
        Ok(MemoryFile(file))
    }

    pub fn write_page_run(&self, words: &[i64], first_page: usize) -> Result<()> {
        // SAFETY: initialised integers, seen as their bytes.
        let bytes =
            unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(words)) };
        let written = self.0.write_all_at(bytes, (first_page * PAGE_BYTES) as u64);
        written.map_err(|_| refused("cannot write to a memory file"))
    }

    pub fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

#[derive(Clone, Copy)]
pub enum Access {
    Read,
    Write,
}

impl Access {
    pub fn flags(self) -> i32 {
        match self {
            Access::Read => libc::PROT_READ,
            Access::Write => libc::PROT_READ | libc::PROT_WRITE,
        }
    }
}

#[derive(Clone, Copy)]
pub enum Sharing {
    Shared,
    /// Stores go to copies that the kernel makes, page by page.
    Private,
}

/// Pages of the address space, from the start of a file.
pub struct Mapping {
    base: *mut u8,
    pages: usize,
}

// SAFETY: a mapping is memory, which any thread may use; how it may be used beside others is said
// at each method that gives access.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub fn of_file(
        file: &MemoryFile,
        pages: usize,
        sharing: Sharing,
        access: Access,
    ) -> Result<Mapping> {
        let kind = match sharing {
            Sharing::Shared => libc::MAP_SHARED,
            Sharing::Private => libc::MAP_PRIVATE | libc::MAP_NORESERVE,
        };
        Mapping::new(pages, access.flags(), kind, file.descriptor())
    }

    /// Addresses without memory.
    pub fn reserve(pages: usize) -> Result<Mapping> {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        Mapping::new(pages, libc::PROT_NONE, kind, -1)
    }

    fn new(pages: usize, protection: i32, kind: i32, descriptor: i32) -> Result<Mapping> {
        let pages = pages.max(1);
        // SAFETY: the kernel picks the place, so nothing that is mapped is touched.
        let base = unsafe {
            let nowhere = std::ptr::null_mut();
            libc::mmap(nowhere, pages * PAGE_BYTES, protection, kind, descriptor, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(refused("cannot map memory"));
        }
        Ok(Mapping { base: base.cast(), pages })
    }

    /// Lets `pages` pages from `at` on show the file's from `file_page` on. False: the kernel
    /// refused. A system call and nothing else, so a signal handler may use it. What is to be
    /// written is there at once; what is to be read, when it is read.
    pub fn rewire(
        &self,
        at: usize,
        pages: usize,
        descriptor: i32,
        file_page: usize,
        access: Access,
    ) -> bool {
        debug_assert!(at + pages <= self.pages);
        let populate = match access {
            Access::Read => 0,
            Access::Write => libc::MAP_POPULATE,
        };
        let kind = libc::MAP_SHARED | libc::MAP_FIXED | populate;
        let offset = (file_page * PAGE_BYTES) as libc::off_t;
        // SAFETY: only pages of this mapping are replaced. What reads them meanwhile waits in
        // the kernel and goes on with what the caller put into the file, which are the same words.
        let result = unsafe {
            let place = self.base.add(at * PAGE_BYTES).cast();
            libc::mmap(place, pages * PAGE_BYTES, access.flags(), kind, descriptor, offset)
        };
        result != libc::MAP_FAILED
    }

    /// A system call and nothing else.
    pub fn protect(&self, at: usize, pages: usize, access: Access) -> bool {
        debug_assert!(at + pages <= self.pages);
        // SAFETY: pages of this mapping; a store that is refused from now on is a signal, which
        // the one user of this has a handler for.
        unsafe {
            let place = self.base.add(at * PAGE_BYTES).cast();
            libc::mprotect(place, pages * PAGE_BYTES, access.flags()) == 0
        }
    }

    /// Gives pages of a private mapping memory of their own, as a store of what is there would.
    pub fn separate(&self, at: usize, pages: usize) -> Result<()> {
        self.advise(at, pages, libc::MADV_POPULATE_WRITE, "cannot separate pages")
    }

    /// Lets pages of a private mapping show the file again. The caller has written to the file
    /// what they hold, so that readers see no difference.
    pub fn forget(&self, at: usize, pages: usize) -> Result<()> {
        self.advise(at, pages, libc::MADV_DONTNEED, "cannot forget pages")
    }

    fn advise(&self, at: usize, pages: usize, advice: i32, what: &str) -> Result<()> {
        debug_assert!(at + pages <= self.pages);
        // SAFETY: pages of this mapping; neither advice changes what a reader of them sees, by the
        // promise of the callers of `forget`.
        let result = unsafe {
            let place = self.base.add(at * PAGE_BYTES).cast();
            libc::madvise(place, pages * PAGE_BYTES, advice)
        };
        if result == 0 { Ok(()) } else { Err(refused(what)) }
    }

    pub fn words(&self) -> &[AtomicI64] {
        // SAFETY: mapped as long as `self`, zeros or what was stored, and only stored to by atomic
        // operations or by the kernel.
        unsafe { std::slice::from_raw_parts(self.base.cast(), self.pages * PAGE_ROWS) }
    }

    /// # Safety
    ///
    /// Nothing that these pages show changes as long as `self` lives.
    pub unsafe fn frozen_words(&self) -> &[i64] {
        // SAFETY: mapped as long as `self`; not written, as the caller promises.
        unsafe { std::slice::from_raw_parts(self.base.cast(), self.pages * PAGE_ROWS) }
    }

    pub fn address(&self) -> usize {
        self.base as usize
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: there are no references into it any more, since they borrow from `self`.
        unsafe { libc::munmap(self.base.cast(), self.pages * PAGE_BYTES) };
    }
}
