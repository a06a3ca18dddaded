//! The small file: this node's vote, Raft's own entries, and which records are being taken back.
//!
//! ```text
//! raft/00000007.log   [ length: u32 | CRC-32: u32 | JSON ] …      the first one: all so far
//! ```
//!
//! Each event is one write and one sync, when a leader changes, not when a batch comes. A start
//! writes what it has read to a new file and removes the old one: so nothing is built on bytes that
//! may be in the page cache alone, and a half-written end is left behind. A file whose first record
//! is not whole counts for nothing, as the one before is still there; an event that cannot be read
//! is taken for torn only if nothing readable follows, and is damage otherwise: a vote forgotten
//! could be given twice.
//!
//! **Taking back** spans two places, and is done again by the next start if a crash came between:
//! first `cut` is written here, then the records go, then `done` is written.

use std::io;
use std::sync::Arc;

use ledger::files::read_all;
use ledger::{Files, StorageFile};
use openraft::{EmptyNode, LogId, Membership, Vote};
use serde::{Deserialize, Serialize};
use types::Height;

use crate::SIDE_FOLDER;

/// What is longer is no event.
const EVENT_BYTES_MAX: usize = 16 << 20;

/// An entry of Raft's own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Own {
    pub id: LogId<u64>,
    pub what: What,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum What {
    /// A leader's first.
    Blank,
    Members(Membership<u64, EmptyNode>),
    /// A draft that came too late.
    Void,
}

/// All that the events come to.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    pub vote: Option<Vote<u64>>,
    /// Ascending.
    pub own: Vec<Own>,
    /// Records from this block on are being taken back.
    pub cutting: Option<Height>,
}

#[derive(Serialize, Deserialize)]
enum Event {
    All(State),
    Vote(Vote<u64>),
    Own(Own),
    /// Entries from this index on, which are the records from this block on and own entries.
    Cut {
        index: u64,
        height: Height,
    },
    Done,
}

impl State {
    fn follow(&mut self, event: Event) {
        match event {
            Event::All(state) => *self = state,
            Event::Vote(vote) => self.vote = Some(vote),
            Event::Own(own) => self.own.push(own),
            Event::Cut { index, height } => {
                self.own.retain(|own| own.id.index < index);
                self.cutting = Some(height);
            }
            Event::Done => self.cutting = None,
        }
    }
}

/// Makes the entries of Raft's own those that another node has up to the last order in this folder.
/// Votes that were given here stay.
pub fn begin_behind(files: &Arc<dyn Files>, own: &[u8]) -> io::Result<()> {
    let own: Vec<Own> = serde_json::from_slice(own).map_err(io::Error::other)?;
    let mut side = Side::open(files)?;
    let vote = side.state.vote;
    side.put(Event::All(State { vote, own, cutting: None }))
}

pub(crate) struct Side {
    file: Box<dyn StorageFile>,
    offset: u64,
    pub state: State,
    failed: bool,
}

impl Side {
    pub fn open(files: &Arc<dyn Files>) -> io::Result<Side> {
        files.create_folder(SIDE_FOLDER)?;
        files.sync_folder("")?;
        let numbers = numbers(&**files)?;
        let mut state = State::default();
        for number in numbers.iter().rev() {
            let bytes = read_all(&*files.open(&path(*number))?)?;
            if let Some(read) = read(&bytes, *number)? {
                state = read;
                break;
            }
        }
        let next = numbers.last().map_or(1, |last| last + 1);
        let file = files.create(&path(next))?;
        let mut side = Side { file, offset: 0, state: State::default(), failed: false };
        side.put(Event::All(state))?;
        files.sync_folder(SIDE_FOLDER)?;
        for number in numbers {
            files.remove(&path(number))?;
        }
        files.sync_folder(SIDE_FOLDER)?;
        Ok(side)
    }

    pub fn put_vote(&mut self, vote: Vote<u64>) -> io::Result<()> {
        self.put(Event::Vote(vote))
    }

    pub fn put_own(&mut self, own: Own) -> io::Result<()> {
        self.put(Event::Own(own))
    }

    pub fn put_cut(&mut self, index: u64, height: Height) -> io::Result<()> {
        self.put(Event::Cut { index, height })
    }

    pub fn put_done(&mut self) -> io::Result<()> {
        self.put(Event::Done)
    }

    /// Durable when this returns. After an error it is not known what is on disk, and nothing is
    /// taken any more.
    fn put(&mut self, event: Event) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("the file of votes was closed by an earlier error"));
        }
        let json = serde_json::to_vec(&event).map_err(io::Error::other)?;
        let mut bytes = (json.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(&crc32fast::hash(&json).to_be_bytes());
        bytes.extend_from_slice(&json);
        let written = self.file.write_at(&bytes, self.offset).and_then(|()| self.file.sync());
        self.failed = written.is_err();
        written?;
        self.offset += bytes.len() as u64;
        self.state.follow(event);
        Ok(())
    }
}

/// `None`: the file was never finished.
fn read(bytes: &[u8], number: u64) -> io::Result<Option<State>> {
    let mut state = None;
    let mut rest = bytes;
    while let Some((event, behind)) = event(rest) {
        let first = matches!(event, Event::All(_));
        match (&mut state, first) {
            (None, true) => state.insert(State::default()).follow(event),
            (Some(state), _) => state.follow(event),
            (None, false) => return Err(damaged(number, "it does not begin with all so far")),
        }
        rest = behind;
    }
    let more = (1..rest.len()).any(|from| event(&rest[from..]).is_some());
    if more {
        return Err(damaged(number, "an event cannot be read, and others follow it"));
    }
    Ok(state)
}

fn event(bytes: &[u8]) -> Option<(Event, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let length = u32::from_be_bytes(*length) as usize;
    if length == 0 || length > EVENT_BYTES_MAX {
        return None;
    }
    let (json, rest) = rest.split_at_checked(length)?;
    if crc32fast::hash(json) != u32::from_be_bytes(*crc) {
        return None;
    }
    Some((serde_json::from_slice(json).ok()?, rest))
}

fn damaged(number: u64, what: &str) -> io::Error {
    let what = format!("{}: {what}; restore the node's folder from another", path(number));
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn path(number: u64) -> String {
    format!("{SIDE_FOLDER}/{number:08}.log")
}

/// Ascending, as names sort.
fn numbers(files: &dyn Files) -> io::Result<Vec<u64>> {
    let names = files.list(SIDE_FOLDER)?;
    let number = |name: &String| name.strip_suffix(".log")?.parse().ok();
    Ok(names.iter().filter_map(number).collect())
}

#[cfg(test)]
mod tests {
    use kit::random::Random;
    use ledger::MemoryFiles;
    use openraft::CommittedLeaderId;

    use super::*;

    fn own(index: u64) -> Own {
        Own { id: LogId::new(CommittedLeaderId::new(index, 1), index), what: What::Blank }
    }

    fn write(side: &mut Side) -> io::Result<()> {
        for term in 1..6 {
            side.put_vote(Vote::new(term, 2))?;
            side.put_own(own(term))?;
        }
        side.put_cut(4, 9)?;
        side.put_done()
    }

    #[test]
    fn what_was_put_is_found() {
        let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
        let mut side = Side::open(&files).unwrap();
        write(&mut side).unwrap();
        assert_eq!(side.state.own, [own(1), own(2), own(3)]);
        for _ in 0..3 {
            let again = Side::open(&files).unwrap();
            assert_eq!(again.state, side.state);
            assert_eq!(files.list(SIDE_FOLDER).unwrap().len(), 1);
        }
    }

    /// A vote that was given is known after any crash.
    #[test]
    fn a_crash_forgets_no_vote() {
        let files = MemoryFiles::new();
        let mut random = Random::new(3);
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        let mut side = Side::open(&shared).unwrap();
        files.remember();
        let mut terms = Vec::new();
        for term in 1..6 {
            side.put_vote(Vote::new(term, 2)).unwrap();
            terms.resize(files.moments().len() + 1, term);
            side = Side::open(&shared).unwrap();
            terms.resize(files.moments().len() + 1, term);
        }
        for (moment, term) in files.moments().iter().zip(terms) {
            for _ in 0..8 {
                let left: Arc<dyn Files> = Arc::new(moment.crash(&mut random));
                let vote = Side::open(&left).unwrap().state.vote;
                let found = vote.map_or(0, |vote| vote.leader_id().get_term());
                assert!(found + 1 >= term, "term {term} became {found}");
            }
        }
    }

    #[test]
    fn damage_is_told_from_a_torn_end() {
        let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
        write(&mut Side::open(&files).unwrap()).unwrap();
        let file = files.open(&path(1)).unwrap();
        let bytes = read_all(&*file).unwrap();
        let ends = |bytes: &[u8]| read(bytes, 1);
        assert!(ends(&bytes[..bytes.len() - 1]).unwrap().is_some());
        assert!(ends(&bytes[..10]).unwrap().is_none());
        let mut changed = bytes.clone();
        changed[bytes.len() / 2] ^= 1;
        assert!(ends(&changed).is_err());
    }
}
