//! Snapshots by `fork`: a child process has all memory as it was, and answers one query from it.
//!
//! ```text
//!   parent   ── commits stop ── fork ── commits go on ───── reads the pipe ── waits for the child
//!   child                        └── folds the columns, writes the answer ── _exit
//! ```
//!
//! # Rules for the child
//!
//! Only the forking thread lives on in it, and any lock that another thread held is held for ever.
//! So the child takes none: it allocates nothing (the allocator has locks), prints nothing, does
//! not panic on purpose, and leaves by `_exit`, which runs no destructor. It reads memory that was
//! there before, writes into an answer that the parent allocated, writes that to the pipe and is
//! gone. What it folds with must keep to the same rules; a panic in it ends the child without an
//! answer, which the parent reports.
//!
//! # Cost
//!
//! The kernel copies the page tables of the whole process, whatever is read, and writers pay a
//! page fault with a copy for each page they touch as long as the child lives.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

use kit::sync::atomic::AtomicI64;
use types::{Error, Result, SqlState};

/// The words of a column as a child sees them.
pub struct Inherited<'a>(pub &'a [AtomicI64]);

impl Inherited<'_> {
    /// # Safety
    ///
    /// Only in the child: no other thread is there to store.
    unsafe fn frozen_words(&self) -> &[i64] {
        // SAFETY: the representation is that of `i64`, and there are no stores, by the caller's
        // promise.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len()) }
    }
}

/// What a child does with its columns and its answer.
pub type Fold<'a> = dyn Fn(&[&[i64]], &mut [i64]) + 'a;

/// A child at work.
pub struct Child {
    process: libc::pid_t,
    pipe: File,
    answer_words: usize,
}

fn failed(what: &str) -> Error {
    let error = io::Error::last_os_error();
    Error::new(SqlState::IO_ERROR, format!("{what}: {error}"))
}

fn pipe() -> Result<[libc::c_int; 2]> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    match unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } {
        0 => Ok(ends),
        _ => Err(failed("cannot make a pipe")),
    }
}

/// Lets a child fold `columns` into `answer`, by `fold`, which keeps to the rules above. The
/// caller excludes stores until this returns; from then on the child sees the state of that moment.
pub fn start(
    columns: &[Inherited<'_>],
    slices: &mut [&[i64]],
    answer: &mut [i64],
    fold: &Fold<'_>,
) -> Result<Child> {
    let [from, to] = pipe()?;
    // SAFETY: the child keeps to the rules of this module.
    let process = unsafe { libc::fork() };
    if process == 0 {
        let _leave = Leave;
        answer_and_exit(columns, slices, answer, fold, to);
    }
    // SAFETY: both ends are ours; the writing one is closed here once, so that reading ends when
    // the child does, and the reading one gets its owner.
    let pipe = unsafe {
        libc::close(to);
        File::from_raw_fd(from)
    };
    match process {
        -1 => Err(failed("cannot fork")),
        process => Ok(Child { process, pipe, answer_words: answer.len() }),
    }
}

/// Lets no panic of the child go on into what the parent was about to do.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        // SAFETY: ends the child at once, without an answer.
        unsafe { libc::_exit(1) }
    }
}

fn answer_and_exit(
    columns: &[Inherited<'_>],
    slices: &mut [&[i64]],
    answer: &mut [i64],
    fold: &Fold<'_>,
    to: libc::c_int,
) -> ! {
    for (slice, column) in slices.iter_mut().zip(columns) {
        // SAFETY: this is the child. Its memory lives until `_exit`, so the life that the caller's
        // slices have is long enough.
        *slice = unsafe { &*std::ptr::from_ref(column.frozen_words()) };
    }
    fold(slices, answer);
    let mut bytes = answer.as_ptr().cast::<u8>();
    let mut left = size_of_val(answer);
    while left > 0 {
        // SAFETY: the rest of the answer.
        let written = unsafe { libc::write(to, bytes.cast(), left) };
        let Ok(written) = usize::try_from(written) else { break };
        // SAFETY: no more than was left.
        bytes = unsafe { bytes.add(written) };
        left -= written;
    }
    // SAFETY: ends the child at once; nothing of the parent's is torn down twice.
    unsafe { libc::_exit((left > 0).into()) }
}

impl Child {
    /// Its answer, when it is done.
    pub fn answer(mut self) -> Result<Vec<i64>> {
        let mut bytes = Vec::with_capacity(self.answer_words * size_of::<i64>());
        let read = self.pipe.read_to_end(&mut bytes);
        read.map_err(|error| Error::new(SqlState::IO_ERROR, format!("reading a child: {error}")))?;
        if bytes.len() != self.answer_words * size_of::<i64>() {
            let message = "the child that ran the query ended without an answer";
            return Err(Error::new(SqlState::INTERNAL_ERROR, message)
                .with_hint("Look for a signal in the system's log; run the query again."));
        }
        let words = bytes.chunks_exact(size_of::<i64>());
        Ok(words.map(|word| i64::from_ne_bytes(word.try_into().unwrap_or_default())).collect())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: our child, waited for once; a status is not asked for.
        unsafe { libc::waitpid(self.process, std::ptr::null_mut(), 0) };
    }
}
