//! Names of pinned blocks on disk, so that a restart knows what was promised to whom.
//!
//! ```text
//! pins/<number>:  height: varint | hash: 32 | time: zigzag varint | owner, name: length, UTF-8
//! ```
//!
//! A file is written once and removed once; its number is never used again. One that a crash has
//! cut short was never acknowledged, and is passed over.

use std::fmt;
use std::io;
use std::sync::Arc;

use ledger::Files;
use ledger::files::{sqlstate_of, write_new};
use replica::Head;
use types::codec::{
    decode_bytes, decode_i64, decode_str, decode_u64, encode_bytes, encode_i64, encode_str,
    encode_u64,
};
use types::{Error, Result, SqlState};

const FOLDER: &str = "pins";

/// Where names are kept, and those that were found there.
#[derive(Clone)]
pub struct PinFolder {
    files: Arc<dyn Files>,
    next: u64,
    pub(super) found: Vec<Found>,
}

/// A name as it was kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) file: u64,
    pub(super) head: Head,
    pub(super) owner: String,
    pub(super) name: String,
}

impl fmt::Debug for PinFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinFolder").field("found", &self.found).finish_non_exhaustive()
    }
}

fn path(number: u64) -> String {
    format!("{FOLDER}/{number:08}")
}

impl PinFolder {
    pub fn open(files: Arc<dyn Files>) -> io::Result<PinFolder> {
        let mut folder = PinFolder { files, next: 0, found: Vec::new() };
        for name in folder.files.list(FOLDER)? {
            let Ok(number) = name.parse::<u64>() else { continue };
            folder.next = folder.next.max(number + 1);
            let file = folder.files.open(&path(number))?;
            let mut bytes = vec![0; usize::try_from(file.size()?).unwrap_or_default()];
            file.read_at(&mut bytes, 0)?;
            match decode(number, &bytes) {
                Ok(found) => folder.found.push(found),
                Err(error) => tracing::warn!(name, %error, "a pin's file is damaged"),
            }
        }
        Ok(folder)
    }

    /// The blocks that have names.
    pub fn heads(&self) -> Vec<Head> {
        self.found.iter().map(|found| found.head).collect()
    }

    /// Durable when it returns; the file's number.
    pub(super) fn keep(&mut self, head: Head, owner: &str, name: &str) -> Result<u64> {
        let number = self.next;
        self.next += 1;
        if let Err(error) =
            write_new(&*self.files, FOLDER, &path(number), &encode(head, owner, name))
        {
            // Else it would rise again at the next start.
            let _ = self.files.remove(&path(number));
            return Err(cannot_write(error));
        }
        Ok(number)
    }

    pub(super) fn forget(&self, number: u64) -> Result<()> {
        let removed = match self.files.remove(&path(number)) {
            // By an attempt that came no further.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        };
        removed.and_then(|()| self.files.sync_folder(FOLDER)).map_err(cannot_write)
    }
}

fn cannot_write(error: io::Error) -> Error {
    Error::new(sqlstate_of(&error), "cannot write down the names of pinned blocks")
        .with_detail(error.to_string())
}

fn encode(head: Head, owner: &str, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_u64(head.height, &mut bytes);
    encode_bytes(&head.hash, &mut bytes);
    encode_i64(head.time_us, &mut bytes);
    encode_str(owner, &mut bytes);
    encode_str(name, &mut bytes);
    bytes
}

fn decode(file: u64, mut bytes: &[u8]) -> Result<Found> {
    let damaged = || Error::new(SqlState::DATA_CORRUPTED, "it holds something else");
    let input = &mut bytes;
    let height = decode_u64(input)?;
    let hash = decode_bytes(input)?.try_into().map_err(|_| damaged())?;
    let head = Head { height, hash, time_us: decode_i64(input)? };
    let owner = decode_str(input)?.to_owned();
    let name = decode_str(input)?.to_owned();
    match input.is_empty() {
        true => Ok(Found { file, head, owner, name }),
        false => Err(damaged()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use ledger::{Intercepted, Interceptor, MemoryFiles};

    use super::*;

    /// Folders cannot be synced while it is so.
    struct Stuck(AtomicBool);

    impl Interceptor for Stuck {
        fn sync_folder(&self, files: &dyn Files, folder: &str) -> io::Result<()> {
            match self.0.load(Ordering::Relaxed) && folder == FOLDER {
                true => Err(io::Error::other("stuck")),
                false => files.sync_folder(folder),
            }
        }
    }

    #[test]
    fn a_name_that_was_refused_does_not_rise_again() {
        let stuck = Arc::new(Stuck(AtomicBool::new(true)));
        let files = Intercepted::new(Arc::new(MemoryFiles::new()), Arc::clone(&stuck));
        let files = Arc::new(files);
        let head = Head { height: 7, hash: [9; 32], time_us: -5 };
        let mut folder = PinFolder::open(files.clone()).unwrap();
        let refused = folder.keep(head, "ada", "audit").unwrap_err();
        assert_eq!(refused.code(), SqlState::IO_ERROR);
        assert_eq!(PinFolder::open(files.clone()).unwrap().found, []);
        stuck.0.store(false, Ordering::Relaxed);
        let kept = folder.keep(head, "ada", "audit").unwrap();
        assert_eq!(PinFolder::open(files).unwrap().found.len(), 1);
        folder.forget(kept).unwrap();
        folder.forget(kept).expect("an attempt that came no further is not a failure");
    }

    #[test]
    fn what_was_kept_is_found_and_what_was_cut_is_not() {
        let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
        let head = Head { height: 7, hash: [9; 32], time_us: -5 };
        let mut folder = PinFolder::open(files.clone()).unwrap();
        let audit = folder.keep(head, "ada", "audit").unwrap();
        let gone = folder.keep(head, "ada", "gone").unwrap();
        folder.forget(gone).unwrap();
        let bytes = encode(head, "ada", "cut");
        for length in 0..bytes.len() {
            assert!(decode(0, &bytes[..length]).is_err());
        }
        write_new(&*folder.files, FOLDER, &path(17), &bytes[..bytes.len() - 1]).unwrap();
        let mut again = PinFolder::open(files).unwrap();
        let expected = Found { file: audit, head, owner: "ada".into(), name: "audit".into() };
        assert_eq!(again.found, [expected]);
        assert_eq!(again.keep(head, "ada", "next").unwrap(), 18, "a number is used once");
    }
}
