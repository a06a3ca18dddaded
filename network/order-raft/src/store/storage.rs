//! The store as openraft asks for it.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};

use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{
    Entry, ErrorSubject, ErrorVerb, LogId, OptionalSend, RaftLogReader, StorageError, Vote,
};

use super::{MESSAGE_BYTES_MAX, Result, Store, bytes_of, failed};
use crate::raft_types::Types;

impl RaftLogReader<Types> for Store {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry<Types>>> {
        let from = match range.start_bound() {
            Bound::Included(from) => *from,
            Bound::Excluded(from) => from + 1,
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(to) => to + 1,
            Bound::Excluded(to) => *to,
            Bound::Unbounded => u64::MAX,
        };
        let mut kept = self.kept();
        let entries = (from..to).map_while(|index| kept.entry(index).transpose());
        entries.collect::<io::Result<_>>().map_err(|error| failed(ErrorVerb::Read, error))
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry<Types>>> {
        let mut kept = self.kept();
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for index in start..end {
            let entry = kept.entry(index).map_err(|error| failed(ErrorVerb::Read, error))?;
            let Some(entry) = entry else { break };
            bytes += bytes_of(&entry);
            if bytes > MESSAGE_BYTES_MAX && !entries.is_empty() {
                break;
            }
            entries.push(entry);
        }
        Ok(entries)
    }
}

impl RaftLogStorage<Types> for Store {
    type LogReader = Store;

    async fn get_log_state(&mut self) -> Result<LogState<Types>> {
        let kept = self.kept();
        Ok(LogState { last_purged_log_id: kept.purged, last_log_id: kept.last })
    }

    async fn get_log_reader(&mut self) -> Store {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Result<()> {
        let put = self.kept().side.put_vote(*vote);
        let put = self.noted(put);
        put.map_err(|error| {
            StorageError::from_io_error(ErrorSubject::Vote, ErrorVerb::Write, error)
        })
    }

    /// Raft begins with it, and leads no more if it did: a crash may have taken what it had sent.
    /// A follower's lead is another one's, and stands.
    async fn read_vote(&mut self) -> Result<Option<Vote<u64>>> {
        let vote = self.kept().side.state.vote;
        let is_own = |vote: &Vote<u64>| Some(vote.leader_id.node_id) == self.id.get().copied();
        Ok(vote.map(|vote| Vote { committed: vote.committed && !is_own(&vote), ..vote }))
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<Types>) -> Result<()>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let appended = {
            let mut kept = self.kept();
            kept.append(entries.into_iter()).and_then(|()| match self.leads(&kept) {
                true => Ok(self.written.notify_one()),
                false => kept.sync(),
            })
        };
        let appended = self.noted(appended);
        appended.map_err(|error| failed(ErrorVerb::Write, error))?;
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId<u64>) -> Result<()> {
        let cut = self.kept().truncate(log_id.index);
        let cut = self.noted(cut);
        cut.map_err(|error| failed(ErrorVerb::Delete, error))
    }

    /// The log is the ledger: what goes of it is pruned while no node runs on it.
    async fn purge(&mut self, _log_id: LogId<u64>) -> Result<()> {
        Ok(())
    }
}
