//! Appends that take longer than a heartbeat.
//!
//! ```text
//!  openraft  append(5..9) ─┬─ 100 ms ─┐ heartbeat   append(5..9) ─┬─────┐
//!                          │          ▼                           │     ▼
//!  here      set off ──────┘     "matches up to 4"                └─ "matches up to 9"
//!                     └────────────────── on its way ───────────────────┘
//! ```
//!
//! *Why.* Openraft gives an append the time of a heartbeat, and sends a follower nothing else
//! meanwhile. Some megabytes on a slow line would never come through: the follower hears nothing,
//! stands for election, and the next leader does the same. So an append with much in it goes its
//! own way, once, on a connection of its own. What openraft asks in between is answered by
//! heartbeats.
//!
//! *Invariants.* An append is answered with success only where the member has it. Raft bears that
//! messages come late, twice, and in another order. One at a time is on its way to a member.

use std::time::Duration;

use openraft::error::{Infallible, RPCError, RaftError};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use openraft::{EmptyNode, LogId};
use tokio::task::JoinHandle;

use crate::raft_types::Types;
use crate::store::bytes_of;

/// What becomes of an append.
pub(crate) type Appended =
    Result<AppendEntriesResponse<u64>, RPCError<u64, EmptyNode, RaftError<u64, Infallible>>>;

/// What a line of 20 Mbit/s carries in a heartbeat's time.
const LARGE_BYTES: usize = 256 << 10;

/// For one that is on its way.
pub(crate) const LARGE_TIME: Duration = Duration::from_secs(10);

/// What a message takes on a slow line, 20 Mbit/s.
pub(crate) fn sending_time(bytes: usize) -> Duration {
    Duration::from_micros(bytes as u64 * 8 / 20)
}

/// An append that goes its own way.
pub(crate) struct UnderWay {
    vote: openraft::Vote<u64>,
    previous: Option<LogId<u64>>,
    last: Option<LogId<u64>>,
    pub ended: JoinHandle<Appended>,
}

pub(crate) fn is_large(append: &AppendEntriesRequest<Types>) -> bool {
    append.entries.iter().map(bytes_of).sum::<usize>() > LARGE_BYTES
}

/// What says no more than that the leader is there, and what is committed.
pub(crate) fn heartbeat_of(append: &AppendEntriesRequest<Types>) -> AppendEntriesRequest<Types> {
    AppendEntriesRequest {
        vote: append.vote,
        prev_log_id: append.prev_log_id,
        entries: Vec::new(),
        leader_commit: append.leader_commit,
    }
}

impl UnderWay {
    pub fn of(append: &AppendEntriesRequest<Types>, ended: JoinHandle<Appended>) -> UnderWay {
        let last = append.entries.last().map(|entry| entry.log_id);
        UnderWay { vote: append.vote, previous: append.prev_log_id, last, ended }
    }

    /// Whether it brings what this one begins with.
    pub fn brings(&self, append: &AppendEntriesRequest<Types>) -> bool {
        self.vote == append.vote && self.previous == append.prev_log_id
    }

    /// The answer to a later append, which may end elsewhere, when this one has come through.
    pub fn answers(&self, append: &AppendEntriesRequest<Types>) -> AppendEntriesResponse<u64> {
        let last = append.entries.last().map(|entry| entry.log_id);
        match self.last < last {
            true => AppendEntriesResponse::PartialSuccess(self.last),
            false => AppendEntriesResponse::Success,
        }
    }
}
