//! A small log beside the order log: this node's vote, Raft's internal entries, and which order
//! records are being truncated.
//!
//! ```text
//! raft/00000007.log   [ length: u32 | CRC-32: u32 | JSON ] …      the first one: all so far
//! ```
//!
//! *Writing.* Each event is one write and one sync; events come when the leader changes, not with
//! each batch. A start writes the state that it has read to a new file and removes the old one. So
//! nothing is built on bytes that may be in the page cache only, and a torn end is left behind.
//!
//! *Reading.* A file whose first record is incomplete is ignored, as the file before it still
//! exists. An unreadable event is taken for a torn write only if nothing readable follows it, and
//! for damage otherwise: a node that forgets a vote could vote twice.
//!
//! **Truncation** changes two places, and the next start repeats it after a crash in between: first
//! `cut` is written here, then the records are removed, then `done` is written.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use ledger::files::{FirstFailure, read_all};
use ledger::{Files, Identity, StorageFile};
use openraft::{CommittedLeaderId, EmptyNode, LogId, Membership, Vote};
use serde::{Deserialize, Serialize};
use types::Height;

use crate::incarnations::{Incarnation, Incarnations};
use crate::recall::{Doubt, Recovered};

/// The folder of votes and Raft's own entries, in the ledger's.
pub const SIDE_FOLDER: &str = "raft";

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
    /// See [`crate::recall`].
    pub doubt: Option<Doubt>,
    /// This member's.
    #[serde(rename = "life")]
    pub incarnation: Incarnation,
    /// Salts of the others' incarnations, as they were when this node began, all of them new.
    pub met: BTreeMap<u64, u64>,
    /// Of the others, the newest that this member has heard of. See [`crate::incarnations`].
    #[serde(rename = "lives")]
    pub incarnations: Incarnations,
    /// No candidate gets this node's vote that has less.
    pub least: Option<LogId<u64>>,
    /// Of the file that this stands in.
    pub place: Option<Identity>,
}

#[derive(Serialize, Deserialize)]
enum Event {
    All(State),
    Vote(Vote<u64>),
    Own(Own),
    #[serde(rename = "Lives")]
    Incarnations(Incarnations),
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
            Event::Incarnations(incarnations) => self.incarnations = incarnations,
            Event::Cut { index, height } => {
                self.own.retain(|own| own.id.index < index);
                self.cutting = Some(height);
            }
            Event::Done => self.cutting = None,
        }
    }
}

/// What the folder held is gone, or will be: what it gave its word for is forgotten.
pub fn forget(files: &Arc<dyn Files>) -> io::Result<()> {
    let mut side = Side::open(files)?;
    let State { vote, least, incarnation, place, incarnations, .. } = side.state.clone();
    let (doubt, incarnation) = (Some(Doubt::Lost), incarnation.next(files.salt()));
    side.put(Event::All(State {
        vote,
        doubt,
        least,
        incarnation,
        place,
        incarnations,
        ..State::default()
    }))
}

/// Has this member go on alone, by its owner's word, after `last`, the last block in this folder:
/// it is the only voter, whatever others may have. A folder without votes begins a log of terms.
pub fn go_on_alone(files: &Arc<dyn Files>, member: u64, last: Height) -> io::Result<()> {
    let mut side = Side::open(files)?;
    let State { vote, mut own, incarnation, place, cutting, .. } = side.state.clone();
    // What was being taken back is none of it: the next start takes it back.
    let last = cutting.map_or(last, |cut| last.min(cut - 1));
    let voted = vote.map_or(0, |vote| vote.leader_id().get_term());
    let written = own.last().map_or(0, |own| own.id.leader_id.term);
    let term = voted.max(written) + 1;
    // After all that is there, unless nothing says which terms that is of.
    let index = if own.is_empty() { 0 } else { last + own.len() as u64 };
    let members = Membership::new(vec![BTreeSet::from([member])], None);
    let id = LogId::new(CommittedLeaderId::new(term, member), index);
    own.push(Own { id, what: What::Members(members) });
    let vote = Some(Vote::new(term, member));
    side.put(Event::All(State { vote, own, incarnation, place, cutting, ..State::default() }))
}

/// Makes the entries of Raft's own those that another node has up to the last order in this folder.
/// Votes that were given here stay, and so does what is in doubt.
pub fn begin_behind(files: &Arc<dyn Files>, own: &[u8]) -> io::Result<()> {
    let own: Vec<Own> = serde_json::from_slice(own).map_err(io::Error::other)?;
    let mut side = Side::open(files)?;
    let state = State { own, cutting: None, ..side.state.clone() };
    side.put(Event::All(state))
}

pub(crate) struct Side {
    file: Box<dyn StorageFile>,
    offset: u64,
    pub state: State,
    failed: Option<FirstFailure>,
}

impl Side {
    pub fn open(files: &Arc<dyn Files>) -> io::Result<Side> {
        files.create_folder(SIDE_FOLDER)?;
        files.sync_folder("")?;
        let numbers = numbers(&**files)?;
        let (doubt, salt) = (Some(Doubt::New), files.salt());
        let incarnation = Incarnation { number: 0, salt };
        let mut state = State { doubt, incarnation, ..State::default() };
        for number in numbers.iter().rev() {
            let file = files.open(&path(*number))?;
            if let Some(read) = read(&read_all(&*file)?, *number)? {
                state = read;
                if state.place != file.identity()? {
                    state.incarnation = match state.doubt {
                        Some(Doubt::New) => incarnation,
                        _ => state.incarnation.next(salt),
                    };
                    state.doubt.get_or_insert(Doubt::Copied);
                }
                break;
            }
        }
        let next = numbers.last().map_or(1, |last| last + 1);
        let file = files.create(&path(next))?;
        state.place = file.identity()?;
        let mut side = Side { file, offset: 0, state: State::default(), failed: None };
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

    /// What others have told of incarnations; what is new of it is kept.
    pub fn put_incarnations(&mut self, heard: &Incarnations) -> io::Result<()> {
        let mut incarnations = self.state.incarnations.clone();
        if incarnations.learn(heard) { self.put(Event::Incarnations(incarnations)) } else { Ok(()) }
    }

    /// Another incarnation begins, as this one's number was in use.
    pub fn put_incarnation(&mut self, incarnation: Incarnation) -> io::Result<()> {
        self.put(Event::All(State { incarnation, ..self.state.clone() }))
    }

    pub fn put_doubt(&mut self, incarnation: Incarnation) -> io::Result<()> {
        let doubt = Some(Doubt::Copied);
        self.put(Event::All(State { incarnation, doubt, ..self.state.clone() }))
    }

    pub fn put_recovered(&mut self, recovered: Recovered) -> io::Result<()> {
        let Recovered { vote, least, met, incarnations } = recovered;
        let met = match self.state.doubt {
            Some(Doubt::New) => met,
            _ => self.state.met.clone(),
        };
        let mut known = self.state.incarnations.clone();
        known.learn(&incarnations);
        let (least, incarnations) = (least.max(self.state.least), known);
        let state = State { vote, least, doubt: None, met, incarnations, ..self.state.clone() };
        self.put(Event::All(state))
    }

    pub fn put_done(&mut self) -> io::Result<()> {
        self.put(Event::Done)
    }

    /// Durable when this returns. After an error it is not known what is on disk, and nothing is
    /// taken any more.
    fn put(&mut self, event: Event) -> io::Result<()> {
        if let Some(first) = &self.failed {
            return Err(first.closed("the file of votes"));
        }
        let json = serde_json::to_vec(&event).map_err(io::Error::other)?;
        let mut bytes = (json.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(&crc32fast::hash(&json).to_be_bytes());
        bytes.extend_from_slice(&json);
        let written = self.file.write_at(&bytes, self.offset).and_then(|()| self.file.sync());
        self.failed = written.as_ref().err().map(FirstFailure::of);
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
    let what = format!("{}: {what}", path(number));
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
    use super::*;
    use kit::random::Random;
    use ledger::MemoryFiles;
    use ledger::memory_files::Failure;

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
            let there = State { place: again.state.place, ..side.state.clone() };
            assert_eq!(again.state, there);
            assert_eq!(files.list(SIDE_FOLDER).unwrap().len(), 1);
        }
    }

    #[test]
    fn what_has_closed_it_is_told_again() {
        let files = MemoryFiles::new();
        let mut side = Side::open(&(Arc::new(files.clone()) as _)).unwrap();
        files.fail_at(Some(Failure::Full(files.operations())));
        let first = side.put_vote(Vote::new(1, 2)).unwrap_err();
        files.fail_at(None);
        let again = side.put_done().unwrap_err();
        assert_eq!((first.kind(), again.kind()), [io::ErrorKind::StorageFull; 2].into());
        assert!(again.to_string().contains(&first.to_string()), "{again}");
    }

    /// Whatever else becomes of it: a file that was settled is in doubt again when it is a copy.
    #[test]
    fn a_copy_is_in_doubt() {
        let files = MemoryFiles::new();
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        assert_eq!(Side::open(&shared).unwrap().state.doubt, Some(Doubt::New));
        let mut side = Side::open(&shared).unwrap();
        assert_eq!(side.state.doubt, Some(Doubt::New), "until it is settled");
        side.put_recovered(Recovered::default()).unwrap();
        assert_eq!(Side::open(&shared).unwrap().state.doubt, None);
        let crashed = files.crash(&mut Random::new(1));
        assert_eq!(Side::open(&(Arc::new(crashed) as _)).unwrap().state.doubt, None);
        let copy: Arc<dyn Files> = Arc::new(files.copy());
        for _ in 0..2 {
            assert_eq!(Side::open(&copy).unwrap().state.doubt, Some(Doubt::Copied));
        }
        forget(&copy).unwrap();
        begin_behind(&copy, b"[]").unwrap();
        assert_eq!(Side::open(&copy).unwrap().state.doubt, Some(Doubt::Lost));
    }

    /// What it was copied from may have begun since, and others have met that one.
    #[test]
    fn a_copy_of_one_that_was_new_is_not_that_one() {
        let files = MemoryFiles::new();
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        let incarnation = Side::open(&shared).unwrap().state.incarnation;
        assert_eq!(Side::open(&shared).unwrap().state.incarnation, incarnation);
        let copy: Arc<dyn Files> = Arc::new(files.copy());
        let copied = Side::open(&copy).unwrap().state;
        assert_eq!(copied.doubt, Some(Doubt::New));
        assert_ne!(copied.incarnation.salt, incarnation.salt);
    }

    /// Nothing that it said before counts for the next one.
    #[test]
    fn a_member_that_may_have_forgotten_begins_another_incarnation() {
        let files = MemoryFiles::new();
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        let mut side = Side::open(&shared).unwrap();
        side.put_recovered(Recovered::default()).unwrap();
        let number = |files: &Arc<dyn Files>| Side::open(files).unwrap().state.incarnation.number;
        assert_eq!((number(&shared), number(&shared)), (0, 0));
        let copy: Arc<dyn Files> = Arc::new(files.copy());
        assert_eq!((number(&copy), number(&copy)), (1, 1), "one doubt, one incarnation");
        forget(&copy).unwrap();
        assert_eq!((number(&copy), number(&shared)), (2, 0));
        let heard = Incarnations::default().with(5, Incarnation { number: 4, salt: 1 });
        for _ in 0..2 {
            Side::open(&shared).unwrap().put_incarnations(&heard).unwrap();
            assert_eq!(Side::open(&shared).unwrap().state.incarnations, heard);
        }
    }

    #[test]
    fn what_was_recovered_once_stays_the_least() {
        let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
        let mut side = Side::open(&files).unwrap();
        let at = |index| Some(LogId::new(CommittedLeaderId::new(1, 1), index));
        for (least, then) in [(at(9), at(9)), (at(4), at(9)), (None, at(9)), (at(12), at(12))] {
            side.put_recovered(Recovered { least, ..Recovered::default() }).unwrap();
            assert_eq!(Side::open(&files).unwrap().state.least, then);
            side = Side::open(&files).unwrap();
        }
    }

    /// Blocks that a leader has overwritten are no part of what goes on.
    #[test]
    fn one_that_goes_on_alone_takes_back_what_it_was_taking_back() {
        let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
        let mut side = Side::open(&files).unwrap();
        side.put_own(own(0)).unwrap();
        side.put_own(own(1)).unwrap();
        side.put_own(own(8)).unwrap();
        // Blocks 1 to 6 are the entries 2 to 7; 5 and 6 go, and what is own after them.
        side.put_cut(6, 5).unwrap();
        go_on_alone(&files, 1, 6).unwrap();
        let state = Side::open(&files).unwrap().state;
        assert_eq!(state.cutting, Some(5));
        let indexes: Vec<u64> = state.own.iter().map(|own| own.id.index).collect();
        assert_eq!(indexes, [0, 1, 6]);
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
