//! How followers learn the commit index: with the next entries, or a moment later.
//!
//! ```text
//! leader      entry 7 ─► has it ─► entry 8, 7 is committed ─► has it ─►      … nothing comes
//!                                                                       └ LATER ┘ 8 is committed
//! ```
//!
//! *Why.* Openraft sends each follower a message of its own for each advance of the commit index.
//! Where more entries follow soon it is superfluous, as they carry the index too: of two messages
//! an entry one is left. The follower itself rarely waits for the index: its clients' envelopes are
//! forwarded to the leader, and its readers ask the leader what is committed. A follower that has
//! done either within the last [`PROMPT_FOR`] is told at once.
//!
//! *Invariants.* To openraft a postponed message counts as answered. That is safe: it follows an
//! entry that a majority has just acknowledged, so the leader knows no less of which members
//! answer. Heartbeats without a new commit index are sent as ever.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kit::sync::lock;
use openraft::raft::AppendEntriesRequest;
use openraft::{LogId, Vote};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::raft_types::Types;

/// For what is not told by the next entries.
pub(crate) const LATER: Duration = Duration::from_millis(2);
/// Who has asked the leader for something is told of commits at once for so long.
const PROMPT_FOR: Duration = Duration::from_secs(1);

type Append = AppendEntriesRequest<Types>;

/// When something was asked for last: of a leader by another member, that envelopes are ordered or
/// what is committed; of a member by its sessions, the same.
#[derive(Default)]
pub(crate) struct Asked {
    at: Mutex<Option<Instant>>,
    /// It was, and had not been lately.
    anew: Notify,
}

impl Asked {
    pub fn note(&self) {
        let before = lock(&self.at).replace(Instant::now());
        if before.is_none_or(|at| at.elapsed() >= PROMPT_FOR) {
            self.anew.notify_waiters();
        }
    }

    pub fn lately(&self) -> bool {
        lock(&self.at).is_some_and(|at| at.elapsed() < PROMPT_FOR)
    }

    /// Until something is asked for that was not lately.
    pub async fn anew(&self) {
        self.anew.notified().await;
    }
}

/// What one member knows of a lead.
#[derive(Clone, Default)]
pub(crate) struct Known(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The lead that has reached it, and the last commit that it was told of or is to be.
    reached: Option<(Vote<u64>, Option<LogId<u64>>)>,
    put_off: Option<(Instant, Append)>,
    /// A task is about that tells it what was deferred.
    is_awaited: bool,
}

/// What becomes of a message.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It is sent.
    Now,
    /// It says no more than that something is committed.
    Later { awaited: bool },
}

impl Known {
    pub fn judge(&self, append: &Append, asked: &Asked) -> Verdict {
        let mut state = lock(&self.0);
        let news = match &state.reached {
            Some((lead, reported)) => *lead == append.vote && append.leader_commit > *reported,
            None => false,
        };
        if !append.entries.is_empty() || !news || asked.lately() {
            state.put_off = None;
            return Verdict::Now;
        }
        let commit = append.leader_commit;
        state.reached = Some((append.vote, commit));
        let since = state.put_off.take().map_or_else(Instant::now, |(since, _)| since);
        state.put_off = Some((since, append.clone()));
        Verdict::Later { awaited: std::mem::replace(&mut state.is_awaited, true) }
    }

    /// It has answered what was sent, or not.
    pub fn answered(&self, lead: Vote<u64>, commit: Option<LogId<u64>>, is_reached: bool) {
        lock(&self.0).reached = is_reached.then_some((lead, commit));
    }

    /// What was deferred long enough, `None` if nothing is, for a task that ends then.
    pub fn due(&self) -> Option<Result<Append, Instant>> {
        let mut state = lock(&self.0);
        match state.put_off.take() {
            None => {
                state.is_awaited = false;
                None
            }
            Some((since, append)) if since.elapsed() < LATER => {
                state.put_off = Some((since, append));
                Some(Err(since + LATER))
            }
            Some((_, append)) => Some(Ok(append)),
        }
    }
}

#[cfg(test)]
mod tests {
    use openraft::{CommittedLeaderId, Entry, EntryPayload};

    use super::*;

    fn at(index: u64) -> LogId<u64> {
        LogId::new(CommittedLeaderId::new(1, 1), index)
    }

    fn append(committed: u64, entry: Option<u64>) -> Append {
        let blank = |index| Entry { log_id: at(index), payload: EntryPayload::Blank };
        AppendEntriesRequest {
            vote: Vote::new_committed(1, 1),
            prev_log_id: None,
            entries: entry.map(blank).into_iter().collect(),
            leader_commit: Some(at(committed)),
        }
    }

    fn reported(known: &Known, append: &Append) {
        known.answered(append.vote, append.leader_commit, true);
    }

    #[tokio::test(start_paused = true)]
    async fn a_commit_is_told_by_the_next_entry_or_a_moment_later() {
        let (known, asked) = (Known::default(), Asked::default());
        assert_eq!(known.judge(&append(3, None), &asked), Verdict::Now, "it was never reached");
        let entry = append(3, Some(4));
        assert_eq!(known.judge(&entry, &asked), Verdict::Now);
        reported(&known, &entry);
        assert_eq!(known.judge(&append(4, None), &asked), Verdict::Later { awaited: false });
        assert!(matches!(known.due(), Some(Err(_))), "too early");
        let entry = append(4, Some(5));
        assert_eq!(known.judge(&entry, &asked), Verdict::Now);
        reported(&known, &entry);
        assert!(known.due().is_none(), "the entry has told it");
        assert_eq!(known.judge(&append(5, None), &asked), Verdict::Later { awaited: false });
        assert_eq!(known.judge(&append(6, None), &asked), Verdict::Later { awaited: true });
        tokio::time::sleep(LATER).await;
        assert_eq!(known.due().unwrap().unwrap().leader_commit, Some(at(6)));
        assert_eq!(known.judge(&append(6, None), &asked), Verdict::Now, "a heartbeat");
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_or_was_not_reached_is_told_at_once() {
        let (known, asked) = (Known::default(), Asked::default());
        reported(&known, &append(3, Some(4)));
        asked.note();
        assert_eq!(known.judge(&append(4, None), &asked), Verdict::Now);
        tokio::time::sleep(PROMPT_FOR).await;
        assert_eq!(known.judge(&append(4, None), &asked), Verdict::Later { awaited: false });
        known.answered(append(4, None).vote, None, false);
        assert_eq!(known.judge(&append(5, None), &asked), Verdict::Now);
        reported(&known, &append(5, None));
        let other = AppendEntriesRequest { vote: Vote::new_committed(2, 1), ..append(6, None) };
        assert_eq!(known.judge(&other, &asked), Verdict::Now, "another lead");
    }
}
