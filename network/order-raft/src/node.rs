//! A Raft member: runs openraft over this node's [`Store`] and moves envelopes (transactions to be
//! ordered) between the [queues](crate::mailbox), the other members and Raft.
//!
//! The queues decide what happens to each envelope and use no threads, clock or Raft. The *pump*,
//! one task, tells them the time, the term and the leader, and carries out what they decide:
//!
//! ```text
//! leader     outbox ─ take_own ─► inbox ─ cut ─► draft of a batch ─► Raft (client_write)
//! follower   outbox ─ unsent ─► message to the leader ─► its inbox       one message in flight
//! ```
//!
//! What the leader does not accept goes back to the outbox and is sent again.
//!
//! *A leader proposes nothing* until an entry of its own term is applied, so that all entries
//! before are known to be committed; nor while it is shutting down, or does not know the clocks of
//! most members.
//!
//! *A member that may have lost data* runs no Raft, so neither votes nor acknowledges, until the
//! others have told it what it may have forgotten ([`crate::recall`]).
//!
//! *A full disk* ends openraft; the pump starts it again from the store once there is room.
//!
//! Beside the pump, one task syncs the leader's own entries in the background ([`Store`] says why
//! that is safe), and one measures the clocks of the others.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{BufMut, Bytes};
use futures::FutureExt;
use openraft::error::{InitializeError, RaftError};
use openraft::raft::AppendEntriesRequest;
use openraft::{EmptyNode, EntryPayload, Raft, SnapshotPolicy};
use order::{
    Certificate, CertificateKind, Delivery, Network, Orderer, Recorded, Refused, Released, Tell,
};
use tokio::runtime::Handle;
use tokio::sync::RwLock;
use tokio::time::{Instant, sleep, timeout};
use types::{Error, Height, Result, SqlState};

use crate::asking::Asking;
use crate::config::Config;
use crate::draft::Draft;
use crate::large::{LARGE_TIME, sending_time};
use crate::liveness::watch_clocks;
use crate::machine::Machine;
use crate::mailbox::{Mailbox, Rules};
use crate::peers::Peers;
use crate::raft_types::Types;
use crate::shared::{
    Committed, LACKS_LEAST, LOOK_AGAIN, Node, Shared, Standing, State, TOO_FAR, lock,
};
use crate::sparing::is_behind;
use crate::store::{PARTED, Store};
use crate::wire::{Counted, Request, json, of_json};

impl Node {
    /// Takes part from now on. `after`: the sequence of the last delivery that was made durable by
    /// having been executed, and is therefore known to be committed. Runs in the current runtime.
    ///
    /// # Errors
    ///
    /// Also if the folder's log is shorter than that.
    pub async fn start(
        config: Config,
        store: Store,
        network: Arc<dyn Network>,
        after: u64,
    ) -> io::Result<Node> {
        let last = store.standing_at(after.checked_sub(1));
        if after > 0 && last.0.is_none() {
            let what = format!("delivery {after} is not in the log");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let settings = Arc::new(settings(&config)?);
        let committed = Arc::new(Committed::up_to(after, last));
        let rules = Rules {
            id: config.id,
            proposer: config.members.get(&config.id).copied().unwrap_or([0; 32]),
            members: config.members.len(),
            limits: config.limits,
            patience_ms: config.timing.patience.as_millis() as u64,
            fill_ms: config.timing.fill.as_millis() as u64,
            is_barrier: config.is_barrier,
        };
        let state = State {
            mailbox: Mailbox::new(rules, after),
            heard: Instant::now(),
            fine: Instant::now(),
            is_behind: false,
            refused: None,
        };
        let node = Node(Arc::new(Shared {
            config,
            began: Instant::now(),
            store,
            raft: Mutex::default(),
            settings,
            leaving: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            pump: Arc::clone(&committed.pump),
            committed,
            state: Mutex::new(state),
            runtime: Handle::current(),
            network: Arc::clone(&network),
            asking: Asking::default(),
            clocks: Arc::default(),
            too_far: AtomicBool::new(false),
            waits: Mutex::default(),
            lead: Arc::default(),
            asked: Arc::default(),
            answering: RwLock::default(),
        }));
        match node.0.store.is_in_doubt() {
            true => drop(tokio::spawn(node.clone().recall())),
            false => node.take_part().await?,
        }
        tokio::spawn(watch_clocks(node.clone(), network));
        Ok(node)
    }

    /// From now on it has a Raft.
    pub(crate) async fn take_part(&self) -> io::Result<()> {
        self.begin().await?;
        tokio::spawn(pump(self.clone(), Arc::clone(&self.0.network)));
        tokio::spawn(sync_behind(self.clone()));
        if self.0.leaving.load(Ordering::Acquire) {
            self.halt().await;
        }
        Ok(())
    }

    /// Openraft, from what the store holds.
    pub(crate) async fn begin(&self) -> io::Result<Raft<Types>> {
        let Shared { config, store, network, settings, committed, lead, asked, .. } = &*self.0;
        store.is_of(config.id);
        let machine = Machine { committed: Arc::clone(committed), store: store.clone() };
        let (network, lead, asked) = (Arc::clone(network), Arc::clone(lead), Arc::clone(asked));
        let peers = Peers {
            id: config.id,
            network,
            store: store.clone(),
            lead,
            asked,
            committed: Arc::clone(committed),
            sparing: Arc::default(),
        };
        let raft = Raft::new(config.id, Arc::clone(settings), peers, store.clone(), machine);
        let raft = raft.await.map_err(io::Error::other)?;
        raft.runtime_config().elect(store.may_stand());
        if store.is_new() {
            let members: BTreeSet<u64> = config.members.keys().copied().collect();
            match raft.initialize(members).await {
                // Others have begun, and this node has heard of it.
                Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {}
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        *lock(&self.0.raft) = Some(raft.clone());
        Ok(raft)
    }

    /// The answer to another node's request. What is rare has a box of its own, so that the future
    /// of what comes with each batch is small: it is moved several times.
    pub async fn answer(&self, request: Bytes) -> io::Result<Bytes> {
        let request = Request::decode(&request).map_err(io::Error::other)?;
        // Also of a node that has no Raft yet.
        let known = match &request {
            Request::Recall(asking, incarnation) => {
                Some(json(&self.recalled_for(*asking, *incarnation).boxed().await?))
            }
            Request::Clock => Some(json(&(self.0.config.clock)())),
            _ => None,
        };
        if let Some(known) = known {
            return Ok(known.map_err(io::Error::other)?.into());
        }
        let raft = self.raft()?;
        // Asked all the same, it would log an error each time.
        if raft.metrics().borrow().running_state.is_err() {
            return Err(io::Error::other("this node takes no part any more"));
        }
        let answer = match request {
            Request::Append(append, incarnations) => {
                let _answering = self.0.answering.read().await;
                if let Some(newer) = self.outdates(&incarnations)? {
                    return Ok(newer);
                }
                self.check(&append)?;
                let answer = raft.append_entries(append).await;
                // What it has of its own lead, which is over, is acknowledged too.
                self.0.store.sync()?;
                json(&Counted::Answer(answer))
            }
            Request::Vote(vote, _) if !self.0.store.may_vote_for(vote.last_log_id) => {
                return Err(io::Error::other(LACKS_LEAST));
            }
            Request::Vote(vote, incarnations) => {
                let _answering = self.0.answering.read().await;
                self.0.store.sync()?;
                match self.outdates(&incarnations)? {
                    Some(newer) => return Ok(newer),
                    None => json(&Counted::Answer(raft.vote(vote).boxed().await)),
                }
            }
            Request::Recall(..) | Request::Clock => {
                return Err(io::Error::other("it was answered"));
            }
            Request::Forward(envelopes) => {
                self.0.asked.note();
                json(&self.take_forwarded(envelopes))
            }
            Request::Nudge => {
                self.0.asked.note();
                self.state().mailbox.nudge();
                self.0.pump.notify_one();
                json(&0)
            }
            Request::Pruned(last) => {
                let committed = self.0.committed.count.load(Ordering::Acquire) > last.index;
                let has = committed && self.0.store.has(&last);
                self.0.too_far.store(!has, Ordering::Release);
                json(&has)
            }
            Request::Confirm => {
                self.0.asked.note();
                json(&self.confirm_as_leader().boxed().await?)
            }
            Request::Lead => json(&self.stand_for_election(&raft).boxed().await?),
        };
        Ok(answer.map_err(io::Error::other)?.into())
    }

    /// What Raft is not given of a leader.
    fn check(&self, append: &AppendEntriesRequest<Types>) -> io::Result<()> {
        if let Some(why) = self.contradicts(append) {
            return Err(io::Error::other(why));
        }
        let mut state = self.state();
        state.heard = Instant::now();
        state.is_behind = is_behind(append).unwrap_or(state.is_behind);
        drop(state);
        match self.is_early(append) {
            Some(why) => {
                self.state().refused = Some((Instant::now(), why.clone()));
                Err(io::Error::other(why))
            }
            None => Ok(()),
        }
    }

    fn take_forwarded(&self, envelopes: Vec<Bytes>) -> usize {
        let mut state = self.state();
        let taken = state.mailbox.take_forwarded(envelopes);
        let wakes = state.mailbox.has_come();
        drop(state);
        if wakes {
            self.0.pump.notify_one();
        }
        taken
    }

    pub fn standing(&self) -> Standing {
        let Ok(raft) = self.raft() else {
            let (id, term, leader, stopped) = (self.0.config.id, 0, None, None);
            let (waits, hindered) = (self.waits(), self.hindered());
            let (entries, committed) = (self.0.store.entries(), self.0.committed_count());
            return Standing { id, term, leader, entries, committed, stopped, waits, hindered };
        };
        let metrics = raft.metrics().borrow().clone();
        let runs = metrics.running_state.is_ok();
        Standing {
            id: metrics.id,
            term: metrics.current_term,
            // One that has ended leads nothing, whatever it knew last.
            leader: metrics.current_leader.filter(|it| *it != metrics.id || runs),
            entries: metrics.last_log_index.map_or(0, |last| last + 1),
            committed: self.0.committed.count.load(Ordering::Acquire),
            stopped: match metrics.running_state {
                Err(_) if self.0.store.fullness().is_some() => None,
                Err(why) => Some(self.why_stopped(why.to_string())),
                Ok(()) => self.is_too_far().then(|| TOO_FAR.to_owned()),
            },
            waits: self.waits(),
            hindered: self.hindered(),
        }
    }

    pub fn leads(&self) -> bool {
        self.standing().leader == Some(self.0.config.id)
    }

    /// Has other members from now on: first they are sent the log, then they vote. Fails on a node
    /// that does not lead.
    pub async fn change_members(&self, members: BTreeSet<u64>) -> io::Result<()> {
        let raft = self.raft()?;
        for member in &members {
            raft.add_learner(*member, EmptyNode {}, true).await.map_err(io::Error::other)?;
        }
        raft.change_membership(members, false).await.map(drop).map_err(io::Error::other)
    }

    /// Takes no part any more. A leader has another one lead first.
    pub async fn stop(&self) {
        self.0.leaving.store(true, Ordering::Release);
        self.hand_over().await;
        self.halt().await;
    }

    /// Takes no part any more, at once.
    pub async fn halt(&self) {
        self.0.leaving.store(true, Ordering::Release);
        if let Ok(raft) = self.raft() {
            let _ = raft.shutdown().await;
        }
    }

    fn read(&self, index: u64) -> io::Result<Option<Delivery>> {
        let Some(entry) = self.0.store.entry(index)? else { return Ok(None) };
        let mut evidence = Vec::with_capacity(24);
        evidence.put_u64(entry.log_id.leader_id.term);
        evidence.put_u64(entry.log_id.leader_id.node_id);
        evidence.put_u64(index);
        let certificate = Certificate { kind: CertificateKind::Raft, evidence: evidence.into() };
        let content = match entry.payload {
            EntryPayload::Normal(Draft(Some(content))) => Some(content.proposal.clone()),
            _ => None,
        };
        Ok(Some(Delivery { sequence: index + 1, content, certificate }))
    }

    fn now_ms(&self) -> u64 {
        self.now_us() / 1_000
    }

    fn now_us(&self) -> u64 {
        self.0.began.elapsed().as_micros() as u64
    }

    /// A draft of what waits, if this node may make one. What its sessions hand in meanwhile has
    /// the pump turn again: it is taken in under the lock that the draft is made under.
    fn cut(&self, term: u64, may: bool) -> Option<Draft> {
        let mut state = self.state();
        state.mailbox.take_own(self.now_ms());
        if !may {
            return None;
        }
        let height = self.0.store.height();
        // All that its log holds may change what later blocks are executed under.
        state.mailbox.set_barrier(height);
        state.mailbox.cut(term, height, self.now_us(), || self.time_us())
    }

    /// Does what there is to do; whether there may be more at once.
    async fn turn(&self, network: &Arc<dyn Network>) -> io::Result<bool> {
        let raft = self.raft()?;
        let (term, leader, voters) = {
            let metrics = raft.server_metrics();
            let metrics = metrics.borrow();
            let voters = metrics.membership_config.membership().voter_ids().count();
            (metrics.vote.leader_id.term, metrics.current_leader, voters)
        };
        let applied = lock(&self.0.committed.last).0;
        self.state().mailbox.enter((term, leader));
        let aside = self.stand_aside(&raft);
        let id = self.0.config.id;
        if leader == Some(id) && self.gives_up_lead(&raft).await? {
            return Ok(false);
        }
        match leader {
            // Its own entry in the term is committed, and all before it.
            Some(leader) if leader == id => {
                if applied.is_none_or(|applied| applied.leader_id.term < term) {
                    return Ok(false);
                }
                let leaving = self.0.leaving.load(Ordering::Acquire);
                let may = !aside && !leaving && self.knows_clocks(voters);
                let Some(draft) = self.cut(term, may) else { return Ok(false) };
                let written = raft.client_write_ff(draft).await;
                let node = self.clone();
                tokio::spawn(async move {
                    if let Ok(written) = written {
                        let _ = written.await;
                    }
                    let wakes = node.state().mailbox.drafted();
                    if wakes {
                        node.0.pump.notify_one();
                    }
                });
                Ok(true)
            }
            Some(leader) => self.forward(leader, network).await,
            None => Ok(false),
        }
    }

    async fn forward(&self, leader: u64, network: &Arc<dyn Network>) -> io::Result<bool> {
        let limit = self.0.config.timing.election_max;
        if self.state().mailbox.takes_nudge() {
            let nudge = Request::Nudge.encode().map_err(io::Error::other)?;
            let _ = timeout(limit, network.call(leader, nudge)).await;
        }
        let unsent = self.state().mailbox.unsent(self.now_ms());
        if unsent.is_empty() {
            return Ok(false);
        }
        let request = Request::Forward(unsent.clone()).encode().map_err(io::Error::other)?;
        let limit = (limit + sending_time(request.len())).min(LARGE_TIME);
        let answer = timeout(limit, network.call(leader, request)).await;
        let taken = match answer {
            Ok(Ok(answer)) => of_json::<usize>(&answer).unwrap_or(0),
            _ => 0,
        };
        let left = unsent.get(taken..).unwrap_or_default();
        self.state().mailbox.refused(left);
        Ok(left.is_empty())
    }
}

/// Syncs a leader's entries when they are on their way to the others. Who needs them synced and
/// comes earlier does it itself. What stands in the way ends the lead at once: whether the others
/// answer, on whose behalf it would be found out, is not known.
async fn sync_behind(node: Node) {
    loop {
        node.0.store.written().await;
        if node.0.store.sync().is_err()
            && let Ok(raft) = node.raft()
        {
            let _ = raft.shutdown().await;
        }
    }
}

/// Until the node stops, or Raft does for another reason than a full disk.
async fn pump(node: Node, network: Arc<dyn Network>) {
    loop {
        pump_once(&node, &network).await;
        if !node.mend().await {
            return;
        }
    }
}

/// Until Raft ends.
async fn pump_once(node: &Node, network: &Arc<dyn Network>) {
    let Ok(raft) = node.raft() else { return };
    // Those that say who leads: the others change with each entry.
    let mut metrics = raft.server_metrics();
    let mut looked: Option<Instant> = None;
    loop {
        if looked.is_none_or(|at| at.elapsed() >= LOOK_AGAIN) {
            node.look();
            looked = Some(Instant::now());
        }
        match node.turn(network).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(_) => return,
        }
        let changed = metrics.changed().map(|changed| changed.is_err());
        let looks_at_us = node.state().mailbox.takes_look();
        let looks_in =
            looks_at_us.map(|at| Duration::from_micros(at.saturating_sub(node.now_us())));
        let ended = tokio::select! {
            ended = changed => ended,
            () = node.0.pump.notified() => false,
            () = sleep(looks_in.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN)) => false,
        };
        if ended || raft.metrics().borrow().running_state.is_err() {
            return;
        }
    }
}

impl Orderer for Node {
    fn submit(&mut self, envelope: Bytes) -> Result<(), Refused> {
        self.0.committed.awaited.note();
        let wakes = self.state().mailbox.submit(envelope)?;
        if wakes {
            self.0.pump.notify_one();
        }
        Ok(())
    }

    fn withdraw(&mut self, envelope: &Bytes) -> bool {
        self.state().mailbox.withdraw(envelope)
    }

    fn hindrance(&self) -> Option<String> {
        self.hindered()
    }

    fn nudge(&mut self) {
        self.state().mailbox.nudge();
        self.0.pump.notify_one();
    }

    /// A log that cannot be read delivers nothing; Raft finds the same and stops.
    fn poll(&mut self, _now_us: i64) -> Option<Delivery> {
        let next = self.state().mailbox.next();
        if next >= self.0.committed.count.load(Ordering::Acquire) {
            return None;
        }
        let delivery = self.read(next).ok()??;
        self.state().mailbox.delivered(&delivery);
        Some(delivery)
    }

    fn resume(&mut self, after: u64, _time_us: i64) -> Result<()> {
        let entries = self.0.store.entry(after.saturating_sub(1));
        if after > 0 && !entries.is_ok_and(|entry| entry.is_some()) {
            let what = format!("delivery {after} is not in the log");
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
        }
        self.state().mailbox.resume(after);
        Ok(())
    }

    fn close(&mut self, why: Error) {
        self.state().mailbox.close(why);
    }

    fn released(&mut self, released: Released) {
        let now_us = self.now_us();
        let wakes = self.state().mailbox.released(released, now_us);
        if wakes {
            self.0.pump.notify_one();
        }
    }

    fn recorded(&self, height: Height) -> Option<Recorded> {
        self.0.store.recorded(height).ok()
    }

    fn confirm(&mut self, tell: Tell) -> bool {
        self.0.committed.note_awaited();
        if self.0.asking.joins(tell) {
            self.0.runtime.spawn(self.clone().ask());
        }
        true
    }

    fn awaited(&mut self) {
        self.0.committed.note_awaited();
    }

    fn leave(&mut self) {
        let node = self.clone();
        self.0.runtime.spawn(async move { node.stop().await });
    }

    fn wake_by(&mut self, wake: Arc<dyn Fn() + Send + Sync>) {
        *lock(&self.0.committed.wake) = Some(wake);
        self.0.committed.wake();
    }
}

fn settings(config: &Config) -> io::Result<openraft::Config> {
    let millis = |duration: Duration| duration.as_millis() as u64;
    let settings = openraft::Config {
        heartbeat_interval: millis(config.timing.heartbeat),
        election_timeout_min: millis(config.timing.election_min),
        election_timeout_max: millis(config.timing.election_max),
        max_payload_entries: 64,
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        ..openraft::Config::default()
    };
    settings.validate().map_err(io::Error::other)
}

impl Node {
    /// Why Raft has ended, without what it puts around that: what closed its log comes before.
    pub(crate) fn why_stopped(&self, why: String) -> String {
        let failure = self.0.store.failure();
        failure.unwrap_or_else(|| if why.contains(PARTED) { PARTED.to_owned() } else { why })
    }
}
