//! The certificates that a node keeps: one file, ascending, each of the same length.
//!
//! ```text
//! votes/certificates      of the first electors; votes/certificates-1 of those who follow, …
//!
//! offset  bytes  header
//!      0      8  "TALLYCRT"
//!      8      4  version           1
//!     12     16  ledger_id
//!     28      4  votes n of each certificate
//!     32     32  electors_hash
//!     64      4  CRC-32 of bytes 0 to 63
//!     68         records: certificate (91 + 72 n), CRC-32 of it (4); heights strictly ascending
//! ```
//!
//! Records have one length, so that the one at or above a height is found by halving. More votes
//! than are needed are not kept. Nothing waits for a sync: what a crash takes, the other members
//! have. A start cuts off what cannot be read at the end; what cannot be read before it is damage,
//! which is told when it is come upon, and by `tally verify`.

use std::io;
use std::sync::Arc;

use types::Height;

use super::{Certificate, Electors, FOLDER, Said};
use crate::files::{Files, StorageFile};

pub(super) const NAME: &str = "certificates";
const MAGIC: &[u8; 8] = b"TALLYCRT";
const HEADER_BYTES: u64 = 68;

pub struct Certificates {
    file: Box<dyn StorageFile>,
    set: u64,
    votes: usize,
    count: u64,
    last: Option<Said>,
}

impl Certificates {
    /// Goes on after what is there. Also: how many bytes at the end could not be read, and were
    /// cut off.
    pub fn open(
        files: &Arc<dyn Files>,
        electors: &Electors,
        set: u64,
    ) -> io::Result<(Certificates, u64)> {
        let file = super::open_or_create(&**files, &name(set))?;
        let header = header(electors);
        // A file that never came to hold its header holds nothing else.
        if file.size()? < HEADER_BYTES {
            file.set_size(0)?;
            file.write_at(&header, 0)?;
            file.sync()?;
        }
        files.sync_folder(FOLDER)?;
        let mut kept = Certificates::of(file, electors, set)?;
        let size = kept.file.size()?;
        let end = HEADER_BYTES + kept.count * kept.record_bytes();
        if end < size {
            kept.file.set_size(end)?;
            kept.file.sync()?;
        }
        kept.last = kept.newest()?;
        Ok((kept, size - end))
    }

    /// Those of a folder that is only read; `None` if it has none. What is torn at the end does not
    /// count.
    pub fn read(
        files: &dyn Files,
        electors: &Electors,
        set: u64,
    ) -> io::Result<Option<Certificates>> {
        let name = name(set);
        if !files.list(FOLDER)?.iter().any(|known| *known == name) {
            return Ok(None);
        }
        let file = files.open(&format!("{FOLDER}/{name}"))?;
        let size = file.size()?;
        if size < HEADER_BYTES {
            return Ok(None);
        }
        let mut kept = Certificates::of(file, electors, set)?;
        kept.last = kept.newest()?;
        Ok(Some(kept))
    }

    /// What a file holds up to the last certificate that can be read.
    fn of(file: Box<dyn StorageFile>, electors: &Electors, set: u64) -> io::Result<Certificates> {
        let mut found = [0; HEADER_BYTES as usize];
        file.read_at(&mut found, 0)?;
        if found != header(electors) {
            return Err(damaged(
                &name(set),
                "its header is not the one of this ledger and its members",
            ));
        }
        let size = file.size()?;
        let mut kept = Certificates { file, set, votes: electors.votes, count: 0, last: None };
        kept.count = (size - HEADER_BYTES) / kept.record_bytes();
        while kept.count > 0 && kept.at(kept.count - 1).is_err() {
            kept.count -= 1;
        }
        Ok(kept)
    }

    fn newest(&self) -> io::Result<Option<Said>> {
        let last = self.count.checked_sub(1).map(|last| self.at(last)).transpose()?;
        Ok(last.map(|it| it.said))
    }

    fn record_bytes(&self) -> u64 {
        Certificate::bytes_with(self.votes) as u64 + 4
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// What was certified last.
    pub fn last(&self) -> Option<Said> {
        self.last
    }

    /// Keeps one above all others, with as many votes as are needed.
    pub fn append(&mut self, certificate: &Certificate) -> io::Result<()> {
        let mut certificate = certificate.clone();
        certificate.votes.truncate(self.votes);
        let said = certificate.said;
        if self.last.is_some_and(|last| last.height >= said.height)
            || certificate.votes.len() < self.votes
        {
            return Err(io::Error::other("the certificate does not follow the last one"));
        }
        let mut bytes = certificate.encode();
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        debug_assert_eq!(bytes.len() as u64, self.record_bytes(), "places are counted by it");
        self.file.write_at(&bytes, HEADER_BYTES + self.count * self.record_bytes())?;
        self.count += 1;
        self.last = Some(said);
        Ok(())
    }

    pub fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// One by its place.
    pub fn at(&self, place: u64) -> io::Result<Certificate> {
        let mut bytes = vec![0; self.record_bytes() as usize];
        self.file.read_at(&mut bytes, HEADER_BYTES + place * self.record_bytes())?;
        let whole = bytes.split_last_chunk::<4>();
        let whole = whole.filter(|(body, crc)| crc32fast::hash(body) == u32::from_be_bytes(**crc));
        let read = whole.and_then(|(body, _)| Certificate::decode(body).ok());
        read.ok_or_else(|| damaged(&name(self.set), &format!("certificate {place} cannot be read")))
    }

    /// The place of the first one at or above a height.
    pub fn place_of(&self, height: Height) -> io::Result<u64> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.at(middle)?.said.height < height {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        debug_assert!(low <= self.count && low == high, "a place, or the one behind all");
        Ok(low)
    }

    /// The first one at or above a height, which certifies the block there.
    pub fn covering(&self, height: Height) -> io::Result<Option<Certificate>> {
        let place = self.place_of(height)?;
        (place < self.count).then(|| self.at(place)).transpose()
    }

    /// Those above a height, at most so many.
    pub fn after(&self, height: Height, most: u64) -> io::Result<Vec<Certificate>> {
        let first = self.place_of(height.saturating_add(1))?;
        (first..self.count.min(first.saturating_add(most))).map(|place| self.at(place)).collect()
    }
}

/// Of the electors' file, by how many sets were before them.
fn name(set: u64) -> String {
    if set == 0 { NAME.to_owned() } else { format!("{NAME}-{set}") }
}

fn header(electors: &Electors) -> [u8; HEADER_BYTES as usize] {
    let votes = (electors.votes as u32).to_be_bytes();
    let (version, hash) = (1u32.to_be_bytes(), electors.hash());
    let body: [u8; 64] =
        crate::header::joined(&[MAGIC, &version, &electors.ledger_id, &votes, &hash]);
    crate::header::joined(&[&body, &crc32fast::hash(&body).to_be_bytes()])
}

fn damaged(name: &str, what: &str) -> io::Error {
    let what = format!(
        "{FOLDER}/{name}: {what}; remove the file while the node is stopped, the other members \
         have the certificates"
    );
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::super::certificate::tests::certificate;
    use super::super::tests::electors;
    use super::*;
    use crate::memory_files::MemoryFiles;

    fn kept(heights: &[u64]) -> (Arc<dyn Files>, Certificates) {
        let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
        let (mut kept, _) = Certificates::open(&files, &electors(4), 0).unwrap();
        for height in heights {
            kept.append(&certificate(*height, 1, &[1, 2, 3, 4])).unwrap();
        }
        (files, kept)
    }

    #[test]
    fn a_block_is_covered_by_the_first_at_or_above() {
        let heights = [3, 4, 9, 20];
        let (files, mut kept) = kept(&heights);
        assert!(kept.append(&certificate(20, 1, &[1, 2, 3])).is_err(), "not above");
        assert!(kept.append(&certificate(21, 1, &[1, 2])).is_err(), "too few");
        let (again, cut) = Certificates::open(&files, &electors(4), 0).unwrap();
        let read = Certificates::read(&*files, &electors(4), 0).unwrap().unwrap();
        assert_eq!((again.last().unwrap().height, cut), (20, 0));
        for height in 0..25 {
            let first = heights.iter().copied().find(|at| *at >= height);
            let found = again.covering(height).unwrap();
            assert_eq!(found.as_ref().map(|found| found.said.height), first);
            assert_eq!(read.covering(height).unwrap(), found);
            let above: Vec<u64> =
                heights.iter().copied().filter(|at| *at > height).take(2).collect();
            let after = again.after(height, 2).unwrap();
            assert_eq!(after.iter().map(|it| it.said.height).collect::<Vec<_>>(), above);
        }
        assert!(Certificates::open(&files, &electors(7), 0).is_err(), "other members");
        let mut of_another_rule = electors(4);
        of_another_rule.liars = 0;
        assert!(Certificates::open(&files, &of_another_rule, 0).is_err());
    }

    #[test]
    fn a_torn_end_is_cut_and_damage_is_told() {
        let (files, kept) = kept(&[3, 4, 9]);
        let record = kept.record_bytes();
        let file = files.open("votes/certificates").unwrap();
        let size = file.size().unwrap();
        file.set_size(size - 1).unwrap();
        let read = Certificates::read(&*files, &electors(4), 0).unwrap().unwrap();
        assert_eq!(read.count(), 2);
        let (mut kept, cut) = Certificates::open(&files, &electors(4), 0).unwrap();
        assert_eq!((kept.count(), cut), (2, record - 1));
        kept.append(&certificate(5, 1, &[1, 2, 4])).unwrap();
        let place = HEADER_BYTES + record + 30;
        file.write_at(&[0xee], place).unwrap();
        let (kept, cut) = Certificates::open(&files, &electors(4), 0).unwrap();
        assert_eq!((kept.count(), cut), (3, 0));
        assert!(kept.at(1).is_err() && kept.covering(4).is_err());
        file.write_at(&[0xee], 2).unwrap();
        assert!(Certificates::open(&files, &electors(4), 0).is_err());
    }
}
