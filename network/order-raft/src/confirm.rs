//! What the cluster has ordered by now, as more than half of it says.
//!
//! ```text
//!   a session ─ confirm ─┐                     leader: its commit index is c
//!   another one ─────────┼─ one question ────► are you led by me still? ───► the others
//!   a third ─────────────┘ ◄──── height of c ─────────── more than half: yes
//! ```
//!
//! The answer is at least as new as all that was acknowledged anywhere when the question was put:
//! what was acknowledged before stands in the leader's log below its commit index, or under the
//! entry that begins its term; and that it leads is said by more than half of the nodes *after*
//! the question. A session that waits until its own node has executed so far misses nothing that
//! was acknowledged before (a linearizable read).
//!
//! **Cost.** Two round trips, without a sync, from a follower; one from the leader. One question is
//! under way at a time, and who asks meanwhile joins the next: joining the one under way would be
//! too early.

use std::io;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use types::Height;

use crate::shared::Node;
use crate::wire::{Request, of_json};

/// Before it is asked again, as no leader was found.
const PAUSE: Duration = Duration::from_millis(50);

impl Node {
    /// Until all were told, or dropped.
    pub(crate) async fn ask(self) {
        let limit = self.0.config.timing.election_max;
        loop {
            let telling = self.0.asking.next();
            if telling.is_empty() {
                return;
            }
            match timeout(limit, self.confirmed()).await {
                Ok(Ok(height)) => telling.into_iter().for_each(|tell| tell(height)),
                _ => {
                    // Their askers ask again, those that have not given up.
                    drop(telling);
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn confirmed(&self) -> io::Result<Height> {
        let leader = self.raft()?.metrics().borrow().current_leader;
        match leader {
            Some(leader) if leader == self.0.config.id => self.confirm_as_leader().await,
            Some(leader) => {
                let request = Request::Confirm.encode().map_err(io::Error::other)?;
                let answer = self.0.network.call(leader, request).await?;
                of_json(&answer).map_err(io::Error::other)
            }
            None => Err(io::Error::other("no node leads")),
        }
    }

    /// Fails on a node that does not lead any more. One that leaves the lead to another, as its
    /// clock is off, does not ask: each question would have the others hear of their leader.
    pub(crate) async fn confirm_as_leader(&self) -> io::Result<Height> {
        if let Some(why) = self.clock_is_off() {
            return Err(io::Error::other(why));
        }
        let raft = self.raft()?;
        let (read, _) = raft.get_read_log_id().await.map_err(io::Error::other)?;
        Ok(read.map_or(0, |read| self.0.store.height_at(read.index)))
    }
}
