//! Raft's messages to the other members, as openraft sends them.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kit::sync::lock;
use openraft::error::{InstallSnapshotError, NetworkError, RPCError, RaftError, Unreachable};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{EmptyNode, LeaderId, RaftNetwork, RaftNetworkFactory, Vote};
use order::Network;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use types::{Error, Result};

use crate::commits::{Asked, Known, LATER, Verdict};
use crate::incarnations::{Incarnations, Lead};
use crate::large::{Appended, LARGE_TIME, UnderWay, heartbeat_of, is_large};
use crate::machine::no_snapshots;
use crate::raft_types::Types;
use crate::shared::{Committed, LACKS_LEAST};
use crate::sparing::{Acknowledged, MANY, SPARED_FOR, Sparing};
use crate::store::Store;
use crate::wire::{Counted, Request, of_json};

/// Before the log is sent again to a member that could not be reached.
const BACKOFF: Duration = Duration::from_millis(150);

/// See [`crate::incarnations`].
const OUTDATED: &str = "a member has begun another incarnation than this lead counts for";

type RaftResult<T, E> = std::result::Result<T, RPCError<u64, EmptyNode, RaftError<u64, E>>>;

#[derive(Clone)]
pub(crate) struct Peers {
    pub id: u64,
    pub network: Arc<dyn Network>,
    pub store: Store,
    pub lead: Arc<Lead>,
    pub asked: Arc<Asked>,
    pub committed: Arc<Committed>,
    pub sparing: Arc<Sparing>,
}

#[derive(Clone)]
pub(crate) struct Peer {
    peers: Peers,
    to: u64,
    known: Known,
    /// An append that takes longer than others.
    under_way: Arc<Mutex<Option<UnderWay>>>,
}

impl RaftNetworkFactory<Types> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, to: u64, _node: &EmptyNode) -> Peer {
        let (known, under_way) = Default::default();
        Peer { peers: self.clone(), to, known, under_way }
    }
}

impl Peer {
    /// A member that cannot be reached is not sent the log for a while: openraft goes on at once
    /// after any other error. One that is slow has cost its time already.
    async fn ask<T: DeserializeOwned, E: std::error::Error>(
        &self,
        request: Request,
        option: &RPCOption,
    ) -> std::result::Result<T, RPCError<u64, EmptyNode, E>> {
        let network = |error: &Error| RPCError::Network(NetworkError::new(error));
        let request = request.encode().map_err(|error| network(&error))?;
        let call = timeout(option.hard_ttl(), self.peers.network.call(self.to, request));
        let answer = call.await.map_err(|error| RPCError::Network(NetworkError::new(&error)))?;
        let answer = answer.map_err(|error| RPCError::Unreachable(Unreachable::new(&error)))?;
        of_json(&answer).map_err(|error| network(&error))
    }

    /// The same for a lead, or a campaign for one. What it counts for is told, and learned from.
    async fn ask_for<T: DeserializeOwned, E: std::error::Error>(
        &self,
        lead: LeaderId<u64>,
        request: impl FnOnce(Incarnations) -> Request,
        option: &RPCOption,
    ) -> std::result::Result<T, RPCError<u64, EmptyNode, E>> {
        let Peers { id, store, lead: counted, .. } = &self.peers;
        let unreachable = |error: &io::Error| RPCError::Unreachable(Unreachable::new(error));
        let known = store.incarnations().with(*id, store.incarnation());
        let Some(incarnations) = counted.by(lead, &known) else {
            return Err(unreachable(&io::Error::other("this lead is over")));
        };
        match self.ask(request(incarnations), option).await? {
            Counted::Answer(answer) => Ok(answer),
            Counted::Outdated(mut incarnations) => {
                incarnations.0.remove(id);
                store.learn(&incarnations).map_err(|error| unreachable(&error))?;
                Err(unreachable(&io::Error::other(OUTDATED)))
            }
        }
    }
}

impl Peer {
    async fn append(&self, rpc: AppendEntriesRequest<Types>, option: &RPCOption) -> Appended {
        let (lead, committed) = (rpc.vote, rpc.leader_commit);
        let request = |incarnations| Request::Append(rpc, incarnations);
        let answer = self.ask_for(lead.leader_id, request, option).await;
        self.known.answered(lead, committed, answer.is_ok());
        let answer: Result<_, RaftError<u64>> = answer?;
        answer.map_err(|error| RPCError::Unreachable(Unreachable::new(&error)))
    }

    /// One with much in it: see [`large`](crate::large).
    async fn append_large(&self, rpc: AppendEntriesRequest<Types>, option: &RPCOption) -> Appended {
        let heartbeat = heartbeat_of(&rpc);
        let earlier = lock(&self.under_way).take().filter(|earlier| earlier.brings(&rpc));
        let mut under_way = earlier.unwrap_or_else(|| {
            let (peer, append) = (self.clone(), rpc.clone());
            let sent = async move { peer.append(append, &RPCOption::new(LARGE_TIME)).await };
            UnderWay::of(&rpc, tokio::spawn(sent))
        });
        // Most have come through before the next heartbeat is due.
        let patience = option.hard_ttl() * 2 / 3;
        match timeout(patience, &mut under_way.ended).await {
            Ok(Ok(Ok(AppendEntriesResponse::Success))) => return Ok(under_way.answers(&rpc)),
            Ok(Ok(other)) => return other,
            Ok(Err(error)) => {
                let error = io::Error::other(error);
                return Err(RPCError::Unreachable(Unreachable::new(&error)));
            }
            Err(_) => *lock(&self.under_way) = Some(under_way),
        }
        let answer = self.append(heartbeat, option).await?;
        Ok(match answer {
            AppendEntriesResponse::Success => {
                AppendEntriesResponse::PartialSuccess(rpc.prev_log_id)
            }
            other => other,
        })
    }

    /// Whether this member's acknowledgement up to an entry is [kept back](crate::sparing), and
    /// after how long it is looked what waits for it. All are sent everything while members change.
    fn is_spared(&self, lead: Vote<u64>, last: u64, took: Duration) -> Option<Duration> {
        let Peers { asked, committed, sparing, .. } = &self.peers;
        let (_, members) = &*lock(&committed.last);
        let [voters] = &members.membership().get_joint_config()[..] else { return None };
        let acknowledged = Acknowledged { member: self.to, last, took };
        let look = voters.contains(&self.to).then(|| {
            let look = sparing.acknowledged(lead, voters, acknowledged);
            look.filter(|_| !asked.lately())
        });
        look.flatten()
    }

    /// Until then, or something waits for this member.
    async fn keep_back(&self, until: Instant, look: Duration) {
        let Peers { asked, committed, store, .. } = &self.peers;
        loop {
            let there = store.entries();
            let looks = (Instant::now() + look).min(until);
            tokio::select! {
                () = sleep_until(looks) => {}
                () = asked.anew() => return,
            }
            let waits = committed.count.load(Ordering::Acquire) < there;
            if waits || looks == until || asked.lately() {
                return;
            }
        }
    }

    /// What was deferred, until nothing is any more. A refusal is found out by the next heartbeat.
    async fn tell_later(self, option: RPCOption) {
        sleep(LATER).await;
        while let Some(due) = self.known.due() {
            match due {
                Ok(append) => drop(self.append(append, &option).await),
                Err(until) => sleep_until(until).await,
            }
        }
    }
}

impl RaftNetwork<Types> for Peer {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Appended {
        // Nothing is said to be committed before this member has it, too, if it was counted.
        if let Some(committed) = rpc.leader_commit {
            let synced = self.peers.store.sync_up_to(committed.index);
            synced.map_err(|error| RPCError::Unreachable(Unreachable::new(&error)))?;
        }
        match self.known.judge(&rpc, &self.peers.asked) {
            Verdict::Now if is_large(&rpc) => self.append_large(rpc, &option).await,
            Verdict::Now => {
                let last = rpc.entries.last().map(|entry| entry.log_id.index);
                let last = last.filter(|_| rpc.entries.len() < MANY);
                let (lead, sent) = (rpc.vote, Instant::now());
                let answer = self.append(rpc, &option).await;
                if let (Some(last), Ok(AppendEntriesResponse::Success)) = (last, &answer)
                    && let Some(look) = self.is_spared(lead, last, sent.elapsed())
                {
                    self.keep_back(sent + SPARED_FOR, look).await;
                }
                answer
            }
            Verdict::Later { awaited } => {
                if !awaited {
                    tokio::spawn(self.clone().tell_later(option));
                }
                Ok(AppendEntriesResponse::Success)
            }
        }
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<u64>,
        option: RPCOption,
    ) -> RaftResult<VoteResponse<u64>, openraft::error::Infallible> {
        if !self.peers.store.may_vote_for(rpc.last_log_id) {
            let lacks = io::Error::other(LACKS_LEAST);
            return Err(RPCError::Unreachable(Unreachable::new(&lacks)));
        }
        let synced = self.peers.store.sync();
        synced.map_err(|error| RPCError::Unreachable(Unreachable::new(&error)))?;
        let lead = rpc.vote.leader_id;
        let request = |incarnations| Request::Vote(rpc, incarnations);
        let answer: Result<_, RaftError<u64>> = self.ask_for(lead, request, &option).await?;
        answer.map_err(|error| RPCError::Network(NetworkError::new(&error)))
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(BACKOFF))
    }

    async fn install_snapshot(
        &mut self,
        rpc: InstallSnapshotRequest<Types>,
        option: RPCOption,
    ) -> RaftResult<InstallSnapshotResponse<u64>, InstallSnapshotError> {
        let last = rpc.meta.last_log_id;
        let has = match last {
            Some(last) => self.ask::<bool, _>(Request::Pruned(last), &option).await?,
            None => false,
        };
        if has {
            return Ok(InstallSnapshotResponse { vote: rpc.vote });
        }
        Err(RPCError::Unreachable(Unreachable::new(&no_snapshots())))
    }
}
