//! The state machine that openraft drives: it only tracks how far entries are committed. There are
//! no snapshots, since the ledger is the log.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use openraft::storage::RaftStateMachine;
use openraft::{
    EmptyNode, Entry, EntryPayload, ErrorVerb, LogId, OptionalSend, RaftSnapshotBuilder, Snapshot,
    SnapshotMeta, StorageError, StoredMembership,
};
use types::Result;

use crate::raft_types::Types;
use crate::shared::{Committed, lock};
use crate::store::{Store, failed};

/// What Raft takes for a state machine: it knows how far entries are committed.
pub struct Machine {
    pub committed: Arc<Committed>,
    pub store: Store,
}

impl Machine {
    /// Stands for the blocks that were pruned. It is never sent: a member is asked whether it has
    /// the last of them, and if it lacks it is told to take the ledger from another one.
    fn stand_in(&self) -> Option<Snapshot<Types>> {
        let purged = self.store.purged()?;
        let (last_log_id, last_membership) = self.store.standing_at(Some(purged.index));
        let snapshot_id = format!("{}", last_log_id.map_or(0, |last| last.index));
        let meta = SnapshotMeta { last_log_id, last_membership, snapshot_id };
        Some(Snapshot { meta, snapshot: Box::default() })
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = NoSnapshots;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId<u64>>, StoredMembership<u64, EmptyNode>), StorageError<u64>> {
        Ok(lock(&self.committed.last).clone())
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<()>, StorageError<u64>>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry<Types>> = entries.into_iter().collect();
        if let Some(last) = entries.last() {
            let synced = self.store.sync_up_to(last.log_id.index);
            synced.map_err(|error| failed(ErrorVerb::Write, error))?;
        }
        let mut applied = Vec::new();
        for entry in entries {
            let mut last = lock(&self.committed.last);
            let next = last.0.map_or(0, |last| last.index + 1);
            assert!(
                entry.log_id.index == next && last.0 < Some(entry.log_id),
                "{} is committed behind {:?}: entries are, one by one, and their terms go up",
                entry.log_id,
                last.0
            );
            last.0 = Some(entry.log_id);
            // The pump of a leader waits for its own.
            if !matches!(entry.payload, EntryPayload::Normal(_)) {
                self.committed.pump.notify_one();
            }
            if let EntryPayload::Membership(members) = entry.payload {
                last.1 = StoredMembership::new(Some(entry.log_id), members);
            }
            drop(last);
            self.committed.count.store(entry.log_id.index + 1, Ordering::Release);
            applied.push(());
        }
        self.committed.wake_soon(self.store.is_of_own_lead());
        Ok(applied)
    }

    async fn get_snapshot_builder(&mut self) -> NoSnapshots {
        NoSnapshots
    }

    async fn begin_receiving_snapshot(
        &mut self,
    ) -> Result<Box<io::Cursor<Vec<u8>>>, StorageError<u64>> {
        Err(no_snapshots())
    }

    async fn install_snapshot(
        &mut self,
        _meta: &SnapshotMeta<u64, EmptyNode>,
        _snapshot: Box<io::Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError<u64>> {
        Err(no_snapshots())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<Types>>, StorageError<u64>> {
        Ok(self.stand_in())
    }
}

/// None is ever built: see [`Machine::stand_in`].
pub struct NoSnapshots;

impl RaftSnapshotBuilder<Types> for NoSnapshots {
    async fn build_snapshot(&mut self) -> Result<Snapshot<Types>, StorageError<u64>> {
        Err(no_snapshots())
    }
}

pub fn no_snapshots() -> StorageError<u64> {
    failed(ErrorVerb::Read, io::Error::other("the ledger is the log, and has no snapshots"))
}
