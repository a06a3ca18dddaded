//! All certificates that a node keeps: those of each set of electors, and how the sets followed.
//!
//! ```text
//! votes/certificates      of the first electors
//! votes/electors          [ length: u32 | CRC-32: u32 | a succession ] …
//! votes/certificates-1    of those whom the first succession names, and so on
//! ```
//!
//! A [succession](super::succession) is durable before the next electors' file is begun. It is the
//! word of one of the sets that are known, not always of the last one: two members may have gone
//! over different sets to the same. All are checked when the folder is opened. A torn end of the
//! file is cut off by the next start: another certificate makes a succession again, or another
//! member has it.

use std::io;
use std::sync::Arc;

use types::{Error, Height};

use super::succession::Succession;
use super::{Certificate, Certificates, Electors, FOLDER, Said, open_or_create};
use crate::files::{Files, StorageFile, read_all};

const PATH: &str = "votes/electors";
const NAME: &str = "electors";

/// See the module.
pub struct CertificateSets {
    sets: Vec<Set>,
}

struct Set {
    electors: Electors,
    kept: Certificates,
    /// By the word of which set; of the first one nothing is needed.
    by: Option<(usize, Succession)>,
}

/// The same, to be added to.
pub struct KeptCertificates {
    files: Arc<dyn Files>,
    all: CertificateSets,
    file: Box<dyn StorageFile>,
    end: u64,
}

impl CertificateSets {
    /// Those of a folder that is only read; `None` if it has none.
    pub fn read(files: &dyn Files, first: &Electors) -> io::Result<Option<CertificateSets>> {
        let Some(kept) = Certificates::read(files, first, 0)? else { return Ok(None) };
        let is_there = files.list(FOLDER)?.iter().any(|name| name == NAME);
        let bytes = if is_there { read_all(&*files.open(PATH)?)? } else { Vec::new() };
        let mut all = CertificateSets::begin(first, kept);
        for succession in successions(&bytes)?.0 {
            let by = all.author(&succession).map_err(damaged)?;
            // Begun, and nothing was kept yet.
            let number = all.sets.len() as u64;
            let Some(kept) = Certificates::read(files, &succession.next, number)? else { break };
            all.add(by, succession, kept);
        }
        Ok(Some(all))
    }

    fn begin(first: &Electors, kept: Certificates) -> CertificateSets {
        CertificateSets { sets: vec![Set { electors: first.clone(), kept, by: None }] }
    }

    fn add(&mut self, by: usize, succession: Succession, kept: Certificates) {
        assert!(by < self.sets.len(), "electors follow others that are known");
        let (electors, by) = (succession.next.clone(), Some((by, succession)));
        debug_assert!(self.electors().above < electors.above, "successions ascend");
        self.sets.push(Set { electors, kept, by });
    }

    /// Which set's word a succession is that leads on from the newest one.
    fn author(&self, succession: &Succession) -> Result<usize, Error> {
        let leads_on = self.electors().above.is_none_or(|above| above < succession.height())
            && self.electors().hash() != succession.certificate.said.electors;
        if !leads_on {
            let what = format!("block {} does not lead on to other electors", succession.height());
            return Err(crate::hash::refused(what));
        }
        let mut last = None;
        for (number, set) in self.sets.iter().enumerate().rev() {
            match succession.verify(&set.electors) {
                Ok(_) => return Ok(number),
                Err(error) => last = last.or(Some(error)),
            }
        }
        Err(last.unwrap_or_else(|| crate::hash::refused("there are no electors".to_owned())))
    }

    fn newest(&self) -> &Set {
        &self.sets[self.sets.len() - 1]
    }

    /// The newest ones.
    pub fn electors(&self) -> &Electors {
        &self.newest().electors
    }

    /// How often others have followed.
    pub fn followed(&self) -> usize {
        self.sets.len() - 1
    }

    /// The newest one that is known.
    pub fn succession(&self) -> Option<&Succession> {
        self.newest().by.as_ref().map(|(_, succession)| succession)
    }

    /// What leads from the first electors to those of a set.
    pub fn path(&self, set: usize) -> Vec<Succession> {
        let mut path = Vec::new();
        let mut at = self.sets.get(set);
        while let Some(Set { by: Some((by, succession)), .. }) = at {
            path.push(succession.clone());
            at = self.sets.get(*by);
        }
        path.reverse();
        debug_assert!(
            path.is_sorted_by_key(Succession::height),
            "each leads on from the one before"
        );
        path
    }

    pub fn count(&self) -> u64 {
        self.sets.iter().map(|set| set.kept.count()).sum()
    }

    /// What was certified last.
    pub fn last(&self) -> Option<Said> {
        self.sets.iter().rev().find_map(|set| set.kept.last())
    }

    /// One by its place among all, and the number of its set.
    pub fn at(&self, mut place: u64) -> io::Result<(usize, Certificate)> {
        for (number, set) in self.sets.iter().enumerate() {
            match place.checked_sub(set.kept.count()) {
                None => return Ok((number, set.kept.at(place)?)),
                Some(behind) => place = behind,
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    pub fn electors_of(&self, set: usize) -> &Electors {
        &self.sets[set].electors
    }

    /// The first one at or above a height, which certifies the block there, and its set's number.
    pub fn covering(&self, height: Height) -> io::Result<Option<(usize, Certificate)>> {
        for (number, set) in self.sets.iter().enumerate() {
            if let Some(certificate) = set.kept.covering(height)? {
                return Ok(Some((number, certificate)));
            }
        }
        Ok(None)
    }

    /// Those above a height, at most so many.
    pub fn after(&self, height: Height, most: u64) -> io::Result<Vec<Certificate>> {
        let mut found = Vec::new();
        for set in &self.sets {
            let room = most - found.len() as u64;
            found.extend(set.kept.after(height, room)?);
        }
        let heights = found.iter().map(|certificate| certificate.said.height);
        debug_assert!(heights.is_sorted(), "sets, and certificates in each, ascend");
        Ok(found)
    }
}

impl KeptCertificates {
    /// Goes on after what is there. Also: how many bytes of certificates at the end could not be
    /// read, and were cut off.
    pub fn open(files: &Arc<dyn Files>, first: &Electors) -> io::Result<(KeptCertificates, u64)> {
        let (kept, mut cut) = Certificates::open(files, first, 0)?;
        let file = open_or_create(&**files, NAME)?;
        files.sync_folder(FOLDER)?;
        let bytes = read_all(&*file)?;
        let (successions, end) = successions(&bytes)?;
        if end < bytes.len() as u64 {
            file.set_size(end)?;
            file.sync()?;
        }
        let mut all = CertificateSets::begin(first, kept);
        for succession in successions {
            let by = all.author(&succession).map_err(damaged)?;
            let number = all.sets.len() as u64;
            let (kept, torn) = Certificates::open(files, &succession.next, number)?;
            cut += torn;
            all.add(by, succession, kept);
        }
        Ok((KeptCertificates { files: Arc::clone(files), all, file, end }, cut))
    }

    pub fn all(&self) -> &CertificateSets {
        &self.all
    }

    /// Keeps one of the newest electors above all others, with as many votes as are needed.
    pub fn append(&mut self, certificate: &Certificate) -> io::Result<()> {
        let follows = self.all.last().is_none_or(|last| last.height < certificate.said.height);
        if !follows || certificate.said.electors != self.all.electors().hash() {
            return Err(io::Error::other("the certificate does not follow the last one"));
        }
        let newest = self.all.sets.len() - 1;
        self.all.sets[newest].kept.append(certificate)
    }

    pub fn sync(&self) -> io::Result<()> {
        self.all.newest().kept.sync()
    }

    /// Others follow from now on, by the word of electors that are known.
    pub fn succeed(&mut self, succession: Succession) -> io::Result<()> {
        let by = self.all.author(&succession).map_err(io::Error::other)?;
        if self.all.last().is_some_and(|last| last.height > succession.height()) {
            return Err(io::Error::other("newer blocks were certified by the electors before"));
        }
        self.sync()?;
        let record = succession.encode();
        let mut bytes = (record.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(&crc32fast::hash(&record).to_be_bytes());
        bytes.extend_from_slice(&record);
        self.file.write_at(&bytes, self.end)?;
        self.file.sync()?;
        self.end += bytes.len() as u64;
        let number = self.all.sets.len() as u64;
        let (kept, _) = Certificates::open(&self.files, &succession.next, number)?;
        self.all.add(by, succession, kept);
        Ok(())
    }
}

/// What a file holds, and where that ends.
fn successions(bytes: &[u8]) -> io::Result<(Vec<Succession>, u64)> {
    let (mut found, mut rest) = (Vec::new(), bytes);
    while let Some((succession, behind)) = record(rest) {
        found.push(Succession::decode(succession).map_err(damaged)?);
        rest = behind;
    }
    Ok((found, (bytes.len() - rest.len()) as u64))
}

fn record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let (record, behind) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let is_whole = !record.is_empty() && crc32fast::hash(record) == u32::from_be_bytes(*crc);
    is_whole.then_some((record, behind))
}

fn damaged(error: Error) -> io::Error {
    let detail = error.fields().detail.clone().unwrap_or_default();
    let what = format!(
        "{PATH}: {error}: {detail} Remove {PATH} and {FOLDER}/certificates-* while the node is \
         stopped, the other members have them."
    );
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::super::succession::tests::{certify, ledger, succession, under};
    use super::super::tests::parameters;
    use super::*;
    use crate::block::Block;
    use crate::memory_files::MemoryFiles;

    /// A chain that is for four members, from block 4 on for five.
    fn begin() -> (Arc<dyn Files>, Vec<Block>, Electors, Electors) {
        let (genesis, chain) = ledger(4, 4, &parameters(5, None), 9);
        let first = under(&genesis, &genesis.parameters);
        let five = under(&genesis, &parameters(5, None));
        (Arc::new(MemoryFiles::new()), chain, first, five)
    }

    #[test]
    fn certificates_of_all_electors_are_kept_in_a_row() {
        let (files, chain, first, five) = begin();
        let (mut kept, _) = KeptCertificates::open(&files, &first).unwrap();
        kept.append(&certify(&chain[2], &first, &[1, 2, 3])).unwrap();
        let next = succession(&chain[5], &five, &[1, 2, 3]);
        assert!(kept.append(&next.certificate).is_err(), "it is for others");
        kept.succeed(next.clone()).unwrap();
        assert!(kept.succeed(next.clone()).is_err(), "it was");
        assert!(kept.append(&certify(&chain[3], &first, &[1, 2, 3])).is_err(), "theirs is over");
        assert!(kept.append(&certify(&chain[6], &five, &[1, 2, 3])).is_err(), "too few of five");
        for at in [7, 9] {
            kept.append(&certify(&chain[at], &five, &[1, 2, 3, 5])).unwrap();
        }
        let same = |all: &CertificateSets| {
            assert_eq!((all.count(), all.last().unwrap().height), (3, 9));
            assert_eq!((all.electors().keys.len(), all.path(1)), (5, vec![next.clone()]));
            let covering = [0, 2, 3, 5, 6, 8, 9, 10].map(|height| {
                let found = all.covering(height).unwrap();
                found.map_or((9, 0), |(set, found)| (set, found.said.height))
            });
            let expected = [(0, 2), (0, 2), (1, 7), (1, 7), (1, 7), (1, 9), (1, 9), (9, 0)];
            assert_eq!(covering, expected);
            let heights = |above, most| -> Vec<u64> {
                all.after(above, most).unwrap().iter().map(|it| it.said.height).collect()
            };
            assert_eq!((heights(2, 9), heights(0, 2)), (vec![7, 9], vec![2, 7]));
            let places: Vec<_> = (0..3)
                .map(|place| all.at(place).map(|(set, it)| (set, it.said.height)).unwrap())
                .collect();
            assert_eq!(places, [(0, 2), (1, 7), (1, 9)]);
            assert!(all.at(3).is_err());
        };
        same(kept.all());
        let (again, cut) = KeptCertificates::open(&files, &first).unwrap();
        assert_eq!(cut, 0);
        same(again.all());
        same(&CertificateSets::read(&*files, &first).unwrap().unwrap());
        // Torn: those before go on, until another certificate says it again.
        let file = files.open(PATH).unwrap();
        file.set_size(file.size().unwrap() - 1).unwrap();
        let (mut torn, _) = KeptCertificates::open(&files, &first).unwrap();
        assert_eq!((torn.all().count(), torn.all().electors().keys.len()), (1, 4));
        assert_eq!(file.size().unwrap(), 0);
        torn.succeed(next.clone()).unwrap();
        same(torn.all());
        file.write_at(b"x", 30).unwrap();
        assert_eq!(CertificateSets::read(&*files, &first).unwrap().unwrap().count(), 1);
    }

    /// One member went from four to five to six electors, another one from four to six. The first
    /// goes on by the word of four, where five say nothing any more.
    #[test]
    fn a_set_that_another_member_passed_over_holds_up_nothing() {
        let (files, chain, first, five) = begin();
        let six = Electors::under(first.ledger_id, &parameters(6, None)).unwrap();
        let (mut kept, _) = KeptCertificates::open(&files, &first).unwrap();
        kept.succeed(succession(&chain[4], &five, &[1, 2, 3])).unwrap();
        let direct = succession(&chain[6], &six, &[1, 2, 4]);
        assert!(kept.succeed(succession(&chain[6], &six, &[1, 2])).is_err());
        kept.succeed(direct.clone()).unwrap();
        assert!(kept.succeed(succession(&chain[5], &five, &[1, 2, 3, 4])).is_err(), "leads back");
        kept.append(&certify(&chain[8], &six, &[1, 2, 3, 4, 5])).unwrap();
        let (again, _) = KeptCertificates::open(&files, &first).unwrap();
        for all in [kept.all(), again.all()] {
            let (set, certificate) = all.covering(7).unwrap().unwrap();
            let path = all.path(set);
            assert_eq!((set, path.clone()), (2, vec![direct.clone()]));
            let electors = super::super::succession::follow(first.clone(), &path).unwrap();
            certificate.verify(&electors).unwrap();
        }
    }
}
