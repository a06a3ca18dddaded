//! What this node has signed last: on the disk before a vote leaves, so that no restart signs
//! another result for the same height.
//!
//! ```text
//! votes/last     slot 0 at 0, slot 1 at 4096; written in turns, each time synced
//!                copies of both at 8192 and 12288, written with them
//!
//! offset  bytes  slot
//!      0      8  "TALLYVOT"
//!      8      8  sequence     from 1; slot sequence mod 2 and its copy
//!     16      8  height
//!     24     32  result_hash
//!     56     32  electors_hash
//!     88      4  CRC-32 of bytes 0 to 87
//! ```
//!
//! A write that a crash has torn leaves the other slot, and the vote that it was for has never
//! been sent. A page that rots later leaves the copy, or the vote that was sent last would be
//! taken for a torn one. Where both slots hold bytes and no copy can be read, it is not known what
//! was signed, and the node must not vote.

use std::io;
use std::sync::Arc;

use kit::mutant::mutated;
use types::Height;

use super::kept::NAME as CERTIFICATES;
use super::{FOLDER, Said};
use crate::files::{Files, StorageFile};

const PATH: &str = "votes/last";
const NAME: &str = "last";
const MAGIC: &[u8; 8] = b"TALLYVOT";
const SLOT_BYTES: usize = 92;
const APART: u64 = 4096;
const SLOTS: u64 = 2;
const COPIES: u64 = 2;

// A torn write loses one slot of one copy.
const _: () = assert!(SLOT_BYTES as u64 <= APART);

pub struct LastVote {
    file: Box<dyn StorageFile>,
    sequence: u64,
    said: Option<Said>,
    failed: bool,
}

impl LastVote {
    /// # Errors
    ///
    /// Also where certificates are there, which are kept from the first vote on, and this file is
    /// not: what was signed is not known then.
    pub fn open(files: &Arc<dyn Files>) -> io::Result<LastVote> {
        let there = files.list(FOLDER)?;
        if !there.iter().any(|name| name == NAME) && there.iter().any(|name| name == CERTIFICATES) {
            let what = format!(
                "{PATH} is missing, so it is not known what this node has signed; put it back, or \
                 make a new member of the cluster instead of this one"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let file = super::open_or_create(&**files, NAME)?;
        if file.size()? < COPIES * SLOTS * APART {
            file.set_size(COPIES * SLOTS * APART)?;
            file.sync()?;
        }
        files.sync_folder(FOLDER)?;
        let mut newest = None;
        let mut is_written = [false; SLOTS as usize];
        for page in 0..COPIES * SLOTS {
            let mut bytes = [0; SLOT_BYTES];
            file.read_at(&mut bytes, page * APART)?;
            is_written[(page % SLOTS) as usize] |= bytes != [0; SLOT_BYTES];
            let found = read(&bytes);
            newest = newest.into_iter().chain(found).max_by_key(|(sequence, _)| *sequence);
        }
        if newest.is_none() && is_written == [true; SLOTS as usize] {
            let what = format!(
                "{PATH}: no copy can be read, so it is not known what this node has signed; \
                 make a new member of the cluster instead of it"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let (sequence, said) = newest.map_or((0, None), |(sequence, said)| (sequence, Some(said)));
        Ok(LastVote { file, sequence, said, failed: false })
    }

    pub fn said(&self) -> Option<Said> {
        self.said
    }

    /// Whether a height is above all that was signed.
    pub fn may_sign(&self, height: Height) -> bool {
        let is_above = self.said.is_none_or(|last| last.height < height);
        !self.failed && (is_above || mutated("votes_signed_twice"))
    }

    /// Keeps what is going to be signed; durable when this returns. An error for a height that
    /// [may not be signed](LastVote::may_sign), and for all after an error of the disk.
    pub fn put(&mut self, said: Said) -> io::Result<()> {
        if !self.may_sign(said.height) {
            return Err(io::Error::other("this height may not be signed any more"));
        }
        let sequence = self.sequence + 1;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&sequence.to_be_bytes());
        bytes.extend_from_slice(&said.height.to_be_bytes());
        bytes.extend_from_slice(&said.result_hash);
        bytes.extend_from_slice(&said.electors);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        let mut write = |copy| {
            let page = copy * SLOTS + sequence % SLOTS;
            self.file.write_at(&bytes, page * APART)
        };
        let written = (0..COPIES).try_for_each(&mut write).and_then(|()| self.file.sync());
        self.failed = written.is_err();
        written?;
        (self.sequence, self.said) = (sequence, Some(said));
        Ok(())
    }
}

fn read(bytes: &[u8; SLOT_BYTES]) -> Option<(u64, Said)> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    if crc32fast::hash(body) != u32::from_be_bytes(*crc) {
        return None;
    }
    let body = body.strip_prefix(MAGIC)?;
    let (sequence, body) = body.split_first_chunk::<8>()?;
    let (height, body) = body.split_first_chunk::<8>()?;
    let (result_hash, electors) = body.split_first_chunk::<32>()?;
    let said = Said {
        height: u64::from_be_bytes(*height),
        result_hash: *result_hash,
        electors: electors.try_into().ok()?,
    };
    Some((u64::from_be_bytes(*sequence), said))
}

#[cfg(test)]
mod tests {
    use kit::random::Random;

    use super::*;
    use crate::memory_files::MemoryFiles;

    fn said(height: u64) -> Said {
        Said { height, result_hash: [height as u8; 32], electors: [height as u8 + 1; 32] }
    }

    #[test]
    fn heights_ascend_over_restarts() {
        let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
        for height in [3, 4, 9] {
            let mut last = LastVote::open(&files).unwrap();
            assert!(last.said().is_none_or(|last| last.height < height));
            last.put(said(height)).unwrap();
            for not_above in [0, height - 1, height] {
                let other = Said { height: not_above, ..said(1) };
                assert!(last.put(other).is_err());
            }
        }
        assert_eq!(LastVote::open(&files).unwrap().said(), Some(said(9)));
    }

    /// At any moment of a crash all votes that were sent are known, so none is contradicted.
    #[test]
    fn a_crash_forgets_no_vote_that_was_sent() {
        let files = MemoryFiles::new();
        let mut random = Random::new(5);
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        let mut last = LastVote::open(&shared).unwrap();
        files.remember();
        let mut sent = Vec::new();
        for height in 1..8 {
            last.put(said(height)).unwrap();
            // What came before was sent at these moments; this one only after them.
            sent.resize(files.moments().len(), height - 1);
        }
        assert!(!sent.is_empty());
        for (moment, sent) in files.moments().iter().zip(sent) {
            for _ in 0..16 {
                let left: Arc<dyn Files> = Arc::new(moment.crash(&mut random));
                let found = LastVote::open(&left).unwrap().said().map_or(0, |said| said.height);
                assert!(found >= sent, "{sent} was sent, and {found} is known");
            }
        }
    }

    #[test]
    fn a_file_that_is_gone_is_not_taken_for_a_start() {
        let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
        LastVote::open(&files).unwrap().put(said(1)).unwrap();
        drop(super::super::open_or_create(&*files, CERTIFICATES).unwrap());
        assert_eq!(LastVote::open(&files).unwrap().said(), Some(said(1)));
        files.remove(PATH).unwrap();
        let refused = LastVote::open(&files).err().unwrap();
        assert!(refused.to_string().contains("votes/last is missing"), "{refused}");
        assert!(files.open(PATH).is_err(), "none is made");
    }

    #[test]
    fn damage_is_not_taken_for_a_start() {
        let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
        let mut last = LastVote::open(&files).unwrap();
        last.put(said(1)).unwrap();
        last.put(said(2)).unwrap();
        let file = files.open(PATH).unwrap();
        let rot = |page: u64| file.write_at(&[9], 30 + page * APART).unwrap();
        // The one that was sent last, whichever of its pages rots.
        rot(0);
        assert_eq!(LastVote::open(&files).unwrap().said(), Some(said(2)));
        rot(1);
        assert_eq!(LastVote::open(&files).unwrap().said(), Some(said(2)));
        rot(2);
        assert_eq!(LastVote::open(&files).unwrap().said(), Some(said(1)));
        rot(3);
        assert!(LastVote::open(&files).is_err());
    }
}
