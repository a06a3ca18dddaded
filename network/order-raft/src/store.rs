//! The Raft log on disk.
//!
//! *Idea.* A batch is stored once: a log entry with content is written as the ledger's order record
//! of the next block. Entries without a block (membership changes, the blank entry that begins a
//! term, void drafts), called *own*, go to the [side file](crate::side), which also has the vote.
//! The block and the term of an entry follow from the own entries before it:
//!
//! ```text
//! index    0    1    2    3    4    5       M: members, B: blank entry at the start of a term
//! own      M    B              B            block = 1 + index - (own entries before it)
//! block              1    2         3       term  = that of the last own entry before it
//! ```
//!
//! *Invariant.* Before a write goes to one of the two files, everything written to the other is
//! synced. So after a crash the log has no gap.
//!
//! *The leader writes and syncs in parallel with the followers.* openraft is told that entries are
//! appended as soon as they are in memory, and replicates them at once; [`Store::sync`] follows in
//! the background, and writes them first: a direct write waits for the disk like a sync, so it does
//! not stand before the messages either. The store is synced before anything that relies on this
//! node's copy: before a commit index that counts it is applied or sent ([`Store::sync_up_to`]),
//! before it answers another leader or a candidate, and before it stands for election.
//!
//! *A disk that fails* closes the log with the first error. From then on nothing is appended, and
//! nothing is said to be synced, also where a later sync would succeed: the kernel may have dropped
//! what it could not write. A leader whose sync in the background has failed leads no more.
//!
//! *Why that is safe.* A crash may lose entries that this node has sent as a leader. It must then
//! not continue as leader of the same term, since it would give their indexes and term to other
//! entries. So at a start its own vote is read back as not granted by a majority ([`storage`]): it
//! has to be elected in a new term.
//!
//! *Reads.* The newest entries are cached, bounded in bytes. Older ones are read from the segments
//! at [their offsets](Lookup), since several followers may be behind by different amounts.

mod known;
mod storage;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use kit::sync::lock;
use ledger::files::{FirstFailure, is_full};
use ledger::{
    Batch, Files, Hash, LedgerId, LogWriter, Lookup, OrderSeal, Record, Stream, read_record,
};
use openraft::{
    Entry, EntryPayload, ErrorSubject, ErrorVerb, LogId, StorageError, StoredMembership,
};
use order::Recorded;
use tokio::sync::Notify;
use types::Height;

use crate::draft::Draft;
use crate::incarnations::{Incarnation, Incarnations};
use crate::raft_types::Types;
use crate::side::{Own, Side, What};

/// Bytes of entries that are kept in memory.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// Orders of which it is kept in memory what they are.
const NEWEST_MAX: usize = 10_000;
/// Of entries that one message carries, unless there is but one.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// What is said of a leader's entries that follow none of this node's.
pub(crate) const PARTED: &str = "the leader sends orders that do not follow those that this node \
                                has: their ledgers have parted, or this one lacks some; tally \
                                cluster status tells the first block that differs";

type Result<T, E = StorageError<u64>> = std::result::Result<T, E>;

/// What there must be room for before a store that was full is used again: more than a segment
/// grows by at a time.
const ROOM_BYTES: usize = 4 << 20;
const ROOM_PATH: &str = "raft/room";

/// The one owner of a node's orders. Clones are the same store.
#[derive(Clone)]
pub struct Store {
    kept: Arc<Mutex<Kept>>,
    /// Why the disk is full, since a write failed for it.
    full: Arc<Mutex<Option<String>>>,
    /// The own incarnation and those of the others, as they are on the disk: asked for with each
    /// message, also while that writes.
    incarnations: Arc<Mutex<(Incarnation, Arc<Incarnations>)>>,
    /// Something was written that is to be synced.
    written: Arc<Notify>,
    /// This member's number, once its Raft has begun.
    id: Arc<OnceLock<u64>>,
}

struct Kept {
    files: Arc<dyn Files>,
    orders: LogWriter,
    side: Side,
    ledger_id: LedgerId,
    /// Of the last order.
    time_us: i64,
    last: Option<LogId<u64>>,
    /// So many entries are on stable storage.
    durable: u64,
    /// The newest orders of a leader, which are written before the next sync.
    unwritten: Vec<Record>,
    /// What has closed the log: from then on nothing is taken in, and nothing is said to be synced.
    failed: Option<FirstFailure>,
    /// The last entry that was pruned before this start.
    purged: Option<LogId<u64>>,
    recent: BTreeMap<u64, Entry<Types>>,
    recent_bytes: usize,
    /// The newest orders.
    newest: BTreeMap<Height, Recorded>,
    lookup: Lookup,
}

impl Store {
    /// Goes on in a ledger of which at least genesis is there. What was being taken back is gone
    /// when this returns.
    ///
    /// # Errors
    ///
    /// Also where the two places do not fit each other.
    pub fn open(files: Arc<dyn Files>, orders: LogWriter) -> io::Result<Store> {
        let kept = Arc::new(Mutex::new(Kept::open(files, orders)?));
        let (full, incarnations, written, id) = Default::default();
        let store = Store { kept, full, incarnations, written, id };
        store.show_incarnations(&store.kept());
        Ok(store)
    }

    /// Goes on, where a full disk has ended the writing, from what a new start would find. What
    /// stands in the way is told from then on.
    pub(crate) fn reopen(&self) -> io::Result<()> {
        let mut kept = self.kept();
        let opened = kept.again();
        self.show_incarnations(&kept);
        *lock(&self.full) = opened.as_ref().err().map(ToString::to_string);
        opened
    }

    /// What has closed the log.
    pub(crate) fn failure(&self) -> Option<String> {
        self.kept().failed.as_ref().map(|first| first.again().to_string())
    }

    /// Why nothing can be written at present, if the disk is full.
    pub(crate) fn fullness(&self) -> Option<String> {
        lock(&self.full).clone()
    }

    /// Remembers whether a write failed because the disk is full.
    fn noted<T>(&self, written: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &written
            && is_full(error)
        {
            *lock(&self.full) = Some(error.to_string());
        }
        written
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }

    /// The last order's, be it committed or not.
    pub fn height(&self) -> Height {
        self.kept().next_height() - 1
    }

    /// The number of entries up to a block: its sequence; 0 for genesis, whose block is no entry.
    pub fn sequence_of(&self, height: Height) -> u64 {
        let kept = self.kept();
        (height > 0).then(|| kept.index_of(height) + 1).unwrap_or(0)
    }

    /// Raft's own entries that come before a block, for [`crate::begin_behind`].
    pub fn own_up_to(&self, height: Height) -> io::Result<Vec<u8>> {
        let kept = self.kept();
        let before = if height == 0 { 0 } else { kept.own_before(kept.index_of(height)) };
        serde_json::to_vec(&kept.side.state.own[..before]).map_err(io::Error::other)
    }

    /// Whether a candidate whose last entry this is has what this node may have forgotten.
    pub(crate) fn may_vote_for(&self, last: Option<LogId<u64>>) -> bool {
        last >= self.kept().side.state.least
    }

    pub(crate) fn last(&self) -> Option<LogId<u64>> {
        self.kept().last
    }

    /// Whether this node has it all.
    pub(crate) fn may_stand(&self) -> bool {
        let last = self.kept().last;
        self.may_vote_for(last)
    }

    pub(crate) fn has(&self, id: &LogId<u64>) -> bool {
        let kept = self.kept();
        kept.last.is_some_and(|last| last.index >= id.index) && kept.id_of(id.index) == Some(*id)
    }

    /// Whether another entry is known at this index than this one.
    pub(crate) fn differs(&self, id: &LogId<u64>) -> bool {
        let kept = self.kept();
        let is_within = kept.last.is_some_and(|last| last.index >= id.index);
        is_within && kept.id_of(id.index).is_some_and(|known| known != *id)
    }

    /// The last entry of which the order is not in the folder any more.
    pub(crate) fn purged(&self) -> Option<LogId<u64>> {
        self.kept().purged
    }

    /// The oldest block that was not pruned before this start.
    pub fn first_height(&self) -> Height {
        self.purged().map_or(0, |last| self.height_at(last.index) + 1)
    }

    /// The last block up to an entry.
    pub fn height_at(&self, index: u64) -> Height {
        let kept = self.kept();
        index + 1 - kept.own_before(index + 1) as u64
    }

    /// Whose entries need not be synced at once where it leads.
    pub(crate) fn is_of(&self, id: u64) {
        let _ = self.id.set(id);
    }

    /// Whether the newest entry is of this member's own lead.
    fn leads(&self, kept: &Kept) -> bool {
        let vote = kept.side.state.vote.filter(|vote| vote.committed);
        let lead = vote.map(|vote| vote.leader_id).filter(|it| Some(&it.node_id) == self.id.get());
        let last = kept.last.map(|last| last.leader_id);
        lead.zip(last)
            .is_some_and(|(lead, last)| last.term == lead.term && last.node_id == lead.node_id)
    }

    /// Whether this member has written its newest entry as a leader.
    pub(crate) fn is_of_own_lead(&self) -> bool {
        self.leads(&self.kept())
    }

    /// Waits until all entries are on stable storage.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let synced = self.kept().sync();
        self.noted(synced)
    }

    /// The same up to an entry.
    pub(crate) fn sync_up_to(&self, index: u64) -> io::Result<()> {
        let mut kept = self.kept();
        let synced = if kept.durable > index { Ok(()) } else { kept.sync() };
        drop(kept);
        self.noted(synced)
    }

    /// Until there is something to sync, and what is ready has been sent.
    pub(crate) async fn written(&self) {
        self.written.notified().await;
        tokio::task::yield_now().await;
    }

    /// How many its log has.
    pub(crate) fn entries(&self) -> u64 {
        self.kept().last.map_or(0, |last| last.index + 1)
    }

    /// Whether a cluster has begun in this folder.
    pub(crate) fn is_new(&self) -> bool {
        self.kept().last.is_none()
    }

    pub(crate) fn entry(&self, index: u64) -> io::Result<Option<Entry<Types>>> {
        self.kept().entry(index)
    }

    /// The hash of a block's order.
    pub fn hash_of(&self, height: Height) -> io::Result<Hash> {
        Ok(self.recorded(height)?.hash)
    }

    /// The order of a block, with its header where this process has sealed it.
    pub(crate) fn recorded(&self, height: Height) -> io::Result<Recorded> {
        let mut kept = self.kept();
        match kept.newest.get(&height) {
            Some(recorded) => Ok(recorded.clone()),
            None => Ok(Recorded { hash: kept.read(height)?.hash(), sealed: None }),
        }
    }

    /// The order records of the store are in order on disk, and a mark says so.
    pub fn rest(&self) -> io::Result<()> {
        let mut kept = self.kept();
        kept.sync()?;
        kept.orders.rest()
    }

    /// The entry of an index and the members that were in force there.
    pub(crate) fn standing_at(
        &self,
        index: Option<u64>,
    ) -> (Option<LogId<u64>>, StoredMembership<u64, openraft::EmptyNode>) {
        let kept = self.kept();
        let Some(index) = index else { return Default::default() };
        let own = kept.side.state.own.iter().rev().filter(|own| own.id.index <= index);
        let members = own.into_iter().find_map(|own| match &own.what {
            What::Members(members) => Some(StoredMembership::new(Some(own.id), members.clone())),
            _ => None,
        });
        (kept.id_of(index), members.unwrap_or_default())
    }
}

impl Kept {
    fn open(files: Arc<dyn Files>, mut orders: LogWriter) -> io::Result<Kept> {
        let mut side = Side::open(&files)?;
        if let Some(height) = side.state.cutting {
            orders.cut(height)?;
            side.put_done()?;
        }
        let head = orders.next_height().checked_sub(1);
        let head = head.ok_or_else(|| invalid("the folder holds no ledger".to_owned()))?;
        let head = read_order(&*files, head)?;
        let (ledger_id, time_us) = (head.header().ledger_id, head.header().time_us);
        let first = ledger::first_block(&*files)?;
        let (last, purged, recent) = (None, None, BTreeMap::new());
        let durable = 0;
        let lookup = Lookup::new(Stream::Orders);
        let (recent_bytes, newest) = (0, BTreeMap::new());
        let mut kept = Kept {
            files,
            orders,
            side,
            ledger_id,
            time_us,
            last,
            durable,
            unwritten: Vec::new(),
            failed: None,
            purged,
            recent,
            recent_bytes,
            newest,
            lookup,
        };
        kept.last = kept.find_last()?;
        kept.is_synced();
        if first > 1 {
            let purged = kept.index_of(first).checked_sub(1);
            kept.purged = purged.and_then(|index| kept.id_of(index));
        }
        Ok(kept)
    }

    fn again(&mut self) -> io::Result<()> {
        let files = Arc::clone(&self.files);
        try_room(&*files)?;
        *self = Kept::open(files, self.orders.reopened()?)?;
        Ok(())
    }

    /// How many own entries come before an index.
    fn own_before(&self, index: u64) -> usize {
        self.side.state.own.partition_point(|own| own.id.index < index)
    }

    fn own_at(&self, index: u64) -> Option<&Own> {
        self.side.state.own.get(self.own_before(index)).filter(|own| own.id.index == index)
    }

    /// The block of an index that is not own.
    fn height_of(&self, index: u64) -> Height {
        1 + index - self.own_before(index) as u64
    }

    fn index_of(&self, height: Height) -> u64 {
        let own = &self.side.state.own;
        let before = (0..).zip(own).take_while(|(place, own)| own.id.index - place < height);
        height - 1 + before.count() as u64
    }

    fn id_of(&self, index: u64) -> Option<LogId<u64>> {
        if let Some(own) = self.own_at(index) {
            return Some(own.id);
        }
        let before = self.side.state.own.get(self.own_before(index).checked_sub(1)?)?;
        Some(LogId::new(before.id.leader_id, index))
    }

    fn find_last(&self) -> io::Result<Option<LogId<u64>>> {
        let own = &self.side.state.own;
        let batches = self.orders.next_height() - 1;
        let fits = (0..).zip(own).all(|(place, own): (u64, &Own)| {
            own.id.index.checked_sub(place).is_some_and(|before| before <= batches)
        });
        if !fits || (own.is_empty() && batches > 0) {
            let what = "the folders orders and raft do not fit each other: one of them is \
                        missing or older than the other";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        match (batches + own.len() as u64).checked_sub(1) {
            Some(last) => Ok(self.id_of(last)),
            None => Ok(None),
        }
    }

    fn append(&mut self, entries: impl Iterator<Item = Entry<Types>>) -> io::Result<()> {
        self.check_open()?;
        let mut head = (self.next_height(), self.head_hash(), self.time_us);
        for entry in entries {
            let next = self.last.map_or(0, |last| last.index + 1);
            if entry.log_id.index != next {
                let what = format!("entry {} follows entry {next}", entry.log_id.index);
                return Err(invalid(what));
            }
            let own = match &entry.payload {
                EntryPayload::Blank => What::Blank,
                EntryPayload::Membership(members) => What::Members(members.clone()),
                EntryPayload::Normal(Draft(Some(content)))
                    if content.term == entry.log_id.leader_id.get_term() =>
                {
                    self.check_term(&entry.log_id)?;
                    let (height, previous_order_hash, time_us) = head;
                    let seal = OrderSeal {
                        ledger_id: self.ledger_id,
                        height,
                        previous_order_hash,
                        time_us: content.proposal.time_us.max(time_us),
                        proposer: content.proposal.proposer,
                        parameters_hash: content.parameters_hash,
                        seen_height: content.proposal.seen_height.min(height - 1),
                    };
                    let batch = Batch::seal(seal, content.proposal.envelopes.clone());
                    let batch = batch.map_err(io::Error::other)?;
                    head = (height + 1, batch.hash(), batch.header().time_us);
                    self.unwritten.push(batch.encode().map_err(io::Error::other)?);
                    let sealed = Some(batch.header().clone());
                    self.newest.insert(height, Recorded { hash: batch.hash(), sealed });
                    self.keep(entry.log_id, Draft::of_batch(content.term, &batch));
                    continue;
                }
                EntryPayload::Normal(_) => What::Void,
            };
            self.sync()?;
            assert!(self.last < Some(entry.log_id), "terms and sequences go up along the log");
            self.side.put_own(Own { id: entry.log_id, what: own })?;
            self.last = Some(entry.log_id);
            self.is_synced();
        }
        assert!(head.2 >= self.time_us, "time does not go back from block to block");
        self.time_us = head.2;
        self.assert_sound();
        Ok(())
    }

    /// The log's two parts make one without a gap, and what is kept of it in memory is of it.
    fn assert_sound(&self) {
        let (batches, own) = (self.next_height() - 1, self.side.state.own.len() as u64);
        assert_eq!(self.count(), batches + own, "an entry is a batch or Raft's own");
        assert!(self.durable <= self.count(), "what is durable was written");
        debug_assert!(self.newest.keys().next_back().is_none_or(|height| *height <= batches));
        debug_assert!(self.recent.keys().next_back().is_none_or(|it| *it < self.count()));
        debug_assert!(
            self.recent.len() > 64
                || self.recent_bytes == self.recent.values().map(bytes_of).sum::<usize>()
        );
        debug_assert!(self.side.state.own.is_sorted_by(|a, b| a.id.index < b.id.index));
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.durable < self.count() {
            self.write()?;
            let synced = self.orders.sync();
            self.or_fail(synced)?;
            self.is_synced();
        }
        Ok(())
    }

    fn check_open(&self) -> io::Result<()> {
        self.failed.as_ref().map_or(Ok(()), |first| Err(first.again()))
    }

    fn or_fail<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &done {
            self.failed.get_or_insert_with(|| FirstFailure::of(error));
        }
        done
    }

    fn next_height(&self) -> Height {
        self.orders.next_height() + self.unwritten.len() as u64
    }

    fn head_hash(&self) -> Hash {
        self.unwritten.last().map_or_else(|| self.orders.head_hash(), Record::hash)
    }

    fn is_synced(&mut self) {
        self.durable = self.count();
    }

    /// Entries of the log.
    fn count(&self) -> u64 {
        self.last.map_or(0, |last| last.index + 1)
    }

    /// The entries of a term follow its leader's own.
    fn check_term(&self, id: &LogId<u64>) -> io::Result<()> {
        let before = self.side.state.own.last();
        match before.is_some_and(|own| own.id.leader_id == id.leader_id) {
            true => Ok(()),
            false => Err(invalid(PARTED.to_owned())),
        }
    }

    fn write(&mut self) -> io::Result<()> {
        self.check_open()?;
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let before = self.orders.next_height();
        let written = self.orders.append_all_unsynced(&self.unwritten);
        // Where that failed, perhaps some of them.
        self.unwritten.drain(..(self.orders.next_height() - before) as usize);
        self.or_fail(written)
    }

    fn keep(&mut self, id: LogId<u64>, draft: Draft) {
        assert!(self.last < Some(id), "terms and sequences go up along the log");
        self.last = Some(id);
        self.recent_bytes += draft.bytes();
        self.recent.insert(id.index, Entry { log_id: id, payload: EntryPayload::Normal(draft) });
        while self.newest.len() > NEWEST_MAX {
            self.newest.pop_first();
        }
        while self.recent_bytes > KEPT_BYTES_MAX && self.recent.len() > 1 {
            let oldest = self.recent.pop_first();
            self.recent_bytes -= oldest.map_or(0, |(_, entry)| bytes_of(&entry));
        }
    }

    fn truncate(&mut self, index: u64) -> io::Result<()> {
        self.sync()?;
        assert!(index <= self.count(), "what is cut off lies within the log or right behind it");
        // Of the first batch at the index or after it.
        let height = self.height_of(index).min(self.orders.next_height());
        self.lookup.forget();
        drop(self.newest.split_off(&height));
        let gone = self.recent.split_off(&index);
        self.recent_bytes -= gone.values().map(bytes_of).sum::<usize>();
        self.side.put_cut(index, height)?;
        self.orders.cut(height)?;
        self.side.put_done()?;
        self.last = index.checked_sub(1).and_then(|last| self.id_of(last));
        self.is_synced();
        self.assert_sound();
        self.time_us = read_order(&*self.files, height - 1)?.header().time_us;
        Ok(())
    }

    fn entry(&mut self, index: u64) -> io::Result<Option<Entry<Types>>> {
        if self.last.is_none_or(|last| last.index < index) {
            return Ok(None);
        }
        if let Some(own) = self.own_at(index) {
            let payload = match &own.what {
                What::Blank => EntryPayload::Blank,
                What::Members(members) => EntryPayload::Membership(members.clone()),
                What::Void => EntryPayload::Normal(Draft::void()),
            };
            return Ok(Some(Entry { log_id: own.id, payload }));
        }
        if let Some(entry) = self.recent.get(&index) {
            return Ok(Some(entry.clone()));
        }
        let Some(log_id) = self.id_of(index) else { return Ok(None) };
        let batch = self.read(self.height_of(index))?;
        let draft = Draft::of_batch(log_id.leader_id.get_term(), &batch);
        Ok(Some(Entry { log_id, payload: EntryPayload::Normal(draft) }))
    }

    /// An order from its segment. Its hash is asked for when its block is executed, soon.
    fn read(&mut self, height: Height) -> io::Result<Batch> {
        if height >= self.orders.next_height() {
            self.write()?;
        }
        let record = self.lookup.record(&*self.files, height)?;
        let record = record.ok_or_else(|| missing(height))?;
        let batch = Batch::of(&record).map_err(io::Error::other)?;
        self.newest.insert(height, Recorded { hash: record.hash(), sealed: None });
        while self.newest.len() > NEWEST_MAX {
            let is_newest = self.newest.last_key_value().is_some_and(|(it, _)| *it == height);
            let _ = if is_newest { self.newest.pop_first() } else { self.newest.pop_last() };
        }
        Ok(batch)
    }
}

/// Whether the disk has room for some more.
fn try_room(files: &dyn Files) -> io::Result<()> {
    let _ = files.remove(ROOM_PATH);
    let tried = files.create(ROOM_PATH).and_then(|file| {
        file.write_at(&vec![1; ROOM_BYTES], 0)?;
        file.sync()
    });
    files.remove(ROOM_PATH)?;
    tried
}

pub(crate) fn bytes_of(entry: &Entry<Types>) -> usize {
    match &entry.payload {
        EntryPayload::Normal(draft) => draft.bytes(),
        _ => 0,
    }
}

fn read_order(files: &dyn Files, height: Height) -> io::Result<Batch> {
    let record = read_record(files, Stream::Orders, height)?;
    let record = record.ok_or_else(|| missing(height))?;
    Batch::of(&record).map_err(io::Error::other)
}

fn missing(height: Height) -> io::Error {
    io::Error::other(format!("block {height} is missing"))
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

pub(crate) fn failed(verb: ErrorVerb, error: io::Error) -> StorageError<u64> {
    StorageError::from_io_error(ErrorSubject::Logs, verb, error)
}
