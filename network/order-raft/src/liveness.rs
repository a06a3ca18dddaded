//! Whether, as far as this node knows, transactions can be ordered now, and if not, why.
//!
//! A leader that is partitioned from the others is not told so by Raft: it remains leader until it
//! hears of another one. So a leader judges by when a majority last answered it, and a follower by
//! when it last heard from its leader.
//!
//! *Full disk.* It stops openraft. When there is space again, the node starts openraft anew from
//! what is on disk, as a restart would. *Shutdown of a leader.* It asks a follower that has its
//! whole log to stand for election, and votes for it at once. With three nodes these two votes are
//! a majority.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use openraft::raft::AppendEntriesRequest;
use openraft::{EntryPayload, Raft};
use order::Network;
use tokio::time::{Instant, sleep, timeout};

use crate::clocks::{Watch, micros};
use crate::config::{Clock, Config};
use crate::draft::Draft;
use crate::raft_types::Types;
use crate::shared::{LACKS, Node, TOO_FAR, lock};
use crate::wire::{Request, json, of_json};

/// A cluster that has not been able to order for so long is hindered.
const HINDERED_AFTER: Duration = Duration::from_secs(2);
/// How often room is looked for on a full disk.
pub(crate) const MEND_EVERY: Duration = Duration::from_secs(1);
/// How long a leader that stops waits until another one leads, and how often it asks for that.
const HAND_OVER_TIME: Duration = Duration::from_secs(1);
const HAND_OVER_AGAIN: Duration = Duration::from_millis(20);
/// So many times the longest wait for a leader. Those who are not behind have stood by then.
const OTHERS_FIRST: u32 = 3;
/// What a node says of itself that the ledger has named, and does not name.
pub const REMOVED: &str =
    "the ledger does not name this node any more: it was removed, and is to be stopped";
const CLOCKS_UNKNOWN: &str = "this node leads, and does not know by most members what time it is";

impl Node {
    /// Why nothing can be ordered, for some time now. An election is no reason: it is over before a
    /// client gives up.
    pub fn hindered(&self) -> Option<String> {
        if self.0.removed.load(Ordering::Acquire) {
            return Some(REMOVED.to_owned());
        }
        let why = self.cannot_order()?;
        (self.state().fine.elapsed() > HINDERED_AFTER).then_some(why)
    }

    /// Why it takes no part yet, or not all of it.
    pub(crate) fn waits(&self) -> Option<String> {
        let Ok(raft) = self.raft() else { return lock(&self.0.waits).clone() };
        let led = raft.metrics().borrow().current_leader.is_some();
        (!led && !self.0.store.may_stand()).then(|| LACKS.to_owned())
    }

    /// Whether the ledger has named this node, and does not any more. It may still have a vote,
    /// until the others' log is that far, and gives it.
    pub fn note_removed(&self, removed: bool) {
        self.0.removed.store(removed, Ordering::Release);
    }

    /// Remembers when it could order last.
    pub(crate) fn look(&self) {
        if self.cannot_order().is_none() {
            self.state().fine = Instant::now();
        }
    }

    /// Why nothing can be ordered now.
    pub(crate) fn cannot_order(&self) -> Option<String> {
        let raft = match self.raft() {
            Ok(raft) => raft,
            Err(error) => return Some(self.waits().unwrap_or_else(|| error.to_string())),
        };
        let metrics = raft.metrics();
        let metrics = metrics.borrow();
        if let Some(full) = self.0.store.fullness() {
            return Some(format!("the disk is full, and room is waited for: {full}"));
        }
        if let Err(why) = &metrics.running_state {
            let why = self.why_stopped(why.to_string());
            return Some(format!("this node takes no part any more: {why}"));
        }
        if self.is_too_far() {
            return Some(TOO_FAR.to_owned());
        }
        let (id, patience) = (self.0.config.id, self.0.config.timing.election_max);
        let silent = |quiet: Duration| quiet > 2 * patience;
        let voters = metrics.membership_config.membership().voter_ids().count();
        if let Some(why) = self.clock_is_off() {
            return Some(why);
        }
        let refused = self.state().refused.clone().filter(|(at, _)| !silent(at.elapsed()));
        if let Some((_, why)) = refused {
            return Some(why);
        }
        match metrics.current_leader {
            None if !self.0.store.may_stand() => Some(LACKS.to_owned()),
            None => Some("no member leads: fewer than half of them reach one another".to_owned()),
            Some(leader) if leader == id => {
                let acknowledged = metrics.millis_since_quorum_ack.map(Duration::from_millis);
                let lost = voters > 1 && acknowledged.is_none_or(silent);
                let lost = lost.then_some("this node leads, and too few of the others answer it");
                let unknown = || (!self.knows_clocks(voters)).then_some(CLOCKS_UNKNOWN);
                lost.or_else(unknown).map(str::to_owned)
            }
            Some(leader) => {
                let quiet = self.state().heard.elapsed();
                let seconds = quiet.as_secs();
                let why = || format!("member {leader} leads, and was heard of {seconds} s ago");
                silent(quiet).then(why)
            }
        }
    }

    /// This node's clock is far from those of most members.
    pub fn clock_is_off(&self) -> Option<String> {
        let Config { ahead_max, clock, .. } = &self.0.config;
        self.0.clocks.among(clock()).trouble((*ahead_max)?)
    }

    /// How far each member's clock is ahead of most, as far as they are known: microseconds.
    pub fn clocks(&self) -> BTreeMap<u64, i64> {
        let Config { id, clock, .. } = &self.0.config;
        self.0.clocks.all(*id, clock())
    }

    /// What most members' clocks say.
    pub(crate) fn time_us(&self) -> i64 {
        let own_us = (self.0.config.clock)();
        self.0.clocks.among(own_us).time_us(own_us)
    }

    pub(crate) fn knows_clocks(&self, voters: usize) -> bool {
        let Config { ahead_max, clock, .. } = &self.0.config;
        ahead_max.is_none() || 2 * self.0.clocks.among(clock()).known > voters
    }

    /// Whether a leader's log differs in what is committed here, which Raft takes to be impossible:
    /// a member that went on alone leads its own entries, and may know this one.
    pub(crate) fn contradicts(&self, append: &AppendEntriesRequest<Types>) -> Option<String> {
        let committed = self.0.committed_count();
        let entries = append.entries.iter().map(|entry| entry.log_id);
        let known = append.prev_log_id.into_iter().chain(entries);
        let mut known = known.filter(|id| id.index < committed);
        let other = known.find(|id| self.0.store.differs(id))?;
        let (leader, index) = (append.vote.leader_id.node_id, other.index);
        Some(format!("member {leader} leads another history: entry {index} differs"))
    }

    /// Whether a leader has drafted what bears a time ahead of most clocks. What is committed is
    /// taken as it is.
    pub(crate) fn is_early(&self, append: &AppendEntriesRequest<Types>) -> Option<String> {
        let now_us = self.time_us();
        let most_us = now_us.saturating_add(micros(self.0.config.ahead_max?));
        let committed = append.leader_commit.map(|last| last.index);
        let new = append.entries.iter().filter(|entry| Some(entry.log_id.index) > committed);
        let times = new.filter_map(|entry| match &entry.payload {
            EntryPayload::Normal(Draft(Some(content))) => Some(content.proposal.time_us),
            _ => None,
        });
        let time_us = times.max().filter(|time_us| *time_us > most_us)?;
        let seconds = time_us.saturating_sub(now_us) / 1_000_000;
        let leader = append.vote.leader_id.node_id;
        Some(format!("member {leader} leads, and orders {seconds} s ahead of most clocks"))
    }

    /// A node whose clock is off is no leader, and lets others elect one. Nor is one that lacks
    /// what it may have helped to commit. One that was [spared](crate::sparing) lets others stand
    /// before it does.
    pub(crate) fn stand_aside(&self, raft: &Raft<Types>) -> bool {
        let is_off = self.clock_is_off().is_some();
        raft.runtime_config().heartbeat(!is_off);
        let stands = self.0.store.may_stand() && !self.0.leaving.load(Ordering::Acquire);
        let patience = OTHERS_FIRST * self.0.config.timing.election_max;
        let state = self.state();
        let others_first = state.is_behind && state.heard.elapsed() < patience;
        drop(state);
        raft.runtime_config().elect(!is_off && stands && !others_first);
        is_off
    }

    /// After the end of Raft: where a full disk was the reason, waits for room and begins again,
    /// as a restart would. False: the node takes no part any more.
    pub(crate) async fn mend(&self) -> bool {
        while !self.0.leaving.load(Ordering::Acquire) && self.0.store.fullness().is_some() {
            sleep(MEND_EVERY).await;
            if let Ok(raft) = self.raft() {
                let _ = raft.shutdown().await;
            }
            if self.0.store.reopen().is_ok()
                && let Ok(raft) = self.begin().await
            {
                // It may have been told to stop meanwhile, when this one was not there.
                if self.0.leaving.load(Ordering::Acquire) {
                    let _ = raft.shutdown().await;
                    return false;
                }
                return true;
            }
        }
        false
    }

    /// Has the follower that has most of the log stand for election, until another node leads.
    pub(crate) async fn hand_over(&self) {
        let began = Instant::now();
        while began.elapsed() < HAND_OVER_TIME {
            let Ok(raft) = self.raft() else { return };
            let Some(to) = self.follower_to_lead(&raft) else { return };
            if let Some(to) = to
                && let Ok(request) = Request::Lead.encode()
            {
                let limit = self.0.config.timing.election_max;
                let _ = timeout(limit, self.0.network.call(to, request)).await;
            }
            sleep(HAND_OVER_AGAIN).await;
        }
    }

    /// The voter that has all of this leader's log, once there is one. `None`: this node does not
    /// lead, or there are no others.
    fn follower_to_lead(&self, raft: &Raft<Types>) -> Option<Option<u64>> {
        let id = self.0.config.id;
        let metrics = raft.metrics();
        let metrics = metrics.borrow();
        if metrics.running_state.is_err() || metrics.current_leader != Some(id) {
            return None;
        }
        let membership = metrics.membership_config.membership();
        let others: BTreeSet<u64> = membership.voter_ids().filter(|voter| *voter != id).collect();
        others.first()?;
        let has = metrics.replication.iter().flatten();
        let has = has.filter(|(voter, _)| others.contains(voter));
        let all = has.filter(|(_, matched)| matched.map(|it| it.index) >= metrics.last_log_index);
        Some(all.map(|(voter, _)| *voter).next())
    }

    /// The leader stops, and has asked for it.
    pub(crate) async fn stand_for_election(&self, raft: &Raft<Types>) -> io::Result<bool> {
        let stands = self.0.store.may_stand() && !self.0.leaving.load(Ordering::Acquire);
        if !stands || self.clock_is_off().is_some() {
            return Ok(false);
        }
        raft.trigger().elect().await.map(|()| true).map_err(io::Error::other)
    }
}

/// Asks the others for their time, until this node takes no part any more.
pub(crate) async fn watch_clocks(node: Node, network: Arc<dyn Network>) {
    let Config { id, members, clock, timing, ahead_max, .. } = &node.0.config;
    if ahead_max.is_none() {
        return;
    }
    let (clocks, clock) = (Arc::clone(&node.0.clocks), Arc::clone(clock));
    let watch = Watch { clocks, clock: move || clock(), patience: timing.election_max };
    while !node.0.leaving.load(Ordering::Acquire) {
        // What an observer's clock says is not asked.
        let mut others = node.raft_voters();
        if others.is_empty() {
            others.extend(members.keys());
        }
        others.remove(id);
        let ask = |other| ask_clock(Arc::clone(&network), other);
        watch.round(&others, ask).await;
    }
}

/// Another member's clock.
pub fn ask_clock(network: Arc<dyn Network>, of: u64) -> BoxFuture<'static, io::Result<i64>> {
    let ask = async move {
        let request = Request::Clock.encode().map_err(io::Error::other)?;
        let answer = network.call(of, request).await?;
        of_json(&answer).map_err(io::Error::other)
    };
    ask.boxed()
}

/// The answer to another member's question for the time; `None`: it asks for something else.
pub fn answer_clock(request: &Bytes, clock: &Clock) -> Option<Bytes> {
    match Request::decode(request) {
        Ok(Request::Clock) => json(&clock()).ok().map(Bytes::from),
        _ => None,
    }
}
