//! One node: openraft with its store, the outbox, and the pump between them.
//!
//! ```text
//! pump   this node leads    outbox ─┐
//!                           inbox ──┴─► cut ─► client_write     at most AHEAD_MAX not executed
//!        another one does   outbox ─► forward ─► its inbox      one message at a time
//! ```
//!
//! A new leader or a new term makes the outbox be sent again and empties the inbox, as all whose
//! envelopes were in it do the same.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use bytes::{BufMut, Bytes};
use futures::FutureExt;
use ledger::ZERO_HASH;
use openraft::error::{
    InitializeError, InstallSnapshotError, NetworkError, RPCError, RaftError, Unreachable,
};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{
    EmptyNode, EntryPayload, LogId, Raft, RaftNetwork, RaftNetworkFactory, SnapshotPolicy,
    StoredMembership,
};
use order::{
    Certificate, CertificateKind, Delivery, Filling, Orderer, Proposal, Refused, Released, Tell,
};
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use types::{Error, Height, Result, SqlState};

use crate::confirm::Asking;
use crate::draft::Draft;
use crate::machine::{Machine, no_snapshots};
use crate::store::{PARTED, Store};
use crate::wire::{Request, json, of_json};
use crate::{Config, Network, Types};

/// Blocks that a leader has drafted and not released: one is executed while another is ordered, and
/// what comes meanwhile gathers for the next.
const AHEAD_MAX: u64 = 2;
/// How long the pump sleeps at most.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const FORWARD_BYTES_MAX: usize = 1 << 20;
/// What is said of a node that lacks what the others have pruned.
const TOO_FAR: &str =
    "the others have pruned blocks that this node lacks: restart it, and it takes the ledger anew";

/// See [`crate::recall`].
const LACKS_LEAST: &str = "a leader needs what this node may have helped to commit";
/// The same, for people.
const LACKS: &str = "this node has lost orders that it may have helped to acknowledge, and elects \
                     none that lacks them: start the members that are down; if those have lost \
                     them too, tally cluster recover";

type RaftResult<T, E> = std::result::Result<T, RPCError<u64, EmptyNode, RaftError<u64, E>>>;

/// A handle; clones are the same node.
#[derive(Clone)]
pub struct Node(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub config: Config,
    pub store: Store,
    raft: OnceLock<Raft<Types>>,
    /// Entries that are committed, as this node knows.
    committed: Arc<Committed>,
    state: Mutex<State>,
    /// For the pump.
    pump: Notify,
    /// That this node was started in.
    runtime: Handle,
    pub network: Arc<dyn Network>,
    pub asking: Asking,
    /// The others have pruned what this node lacks.
    too_far: AtomicBool,
    /// Why it takes no part yet.
    pub waits: Mutex<Option<String>>,
    pub stopped: AtomicBool,
    /// Whether it may be elected: see [`crate::recall`].
    stands: AtomicBool,
}

impl Shared {
    pub fn committed_count(&self) -> u64 {
        self.committed.count.load(Ordering::Acquire)
    }
}

#[derive(Default)]
pub(crate) struct Committed {
    /// One more than the index of the last.
    pub count: AtomicU64,
    pub last: Mutex<(Option<LogId<u64>>, StoredMembership<u64, EmptyNode>)>,
    wake: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
}

impl Committed {
    pub fn wake(&self) {
        let wake = lock(&self.wake).clone();
        if let Some(wake) = wake {
            wake();
        }
    }
}

struct Waiting {
    envelope: Bytes,
    /// When it was sent last.
    sent: Option<Instant>,
}

struct State {
    outbox: VecDeque<Waiting>,
    outbox_bytes: usize,
    /// How often the outbox holds an envelope.
    held: HashMap<Bytes, usize>,
    /// What a leader is to order.
    inbox: VecDeque<Bytes>,
    nudged: bool,
    closed: Option<Error>,
    released: Released,
    /// Nothing is drafted before this block was released.
    barrier: Height,
    drafts: usize,
    /// The term that the outbox was sent in, and to whom.
    regime: (u64, Option<u64>),
    /// Index of the next entry to be delivered.
    next: u64,
}

impl State {
    /// What was delivered is not sent any more; of copies, one.
    fn acknowledge(&mut self, envelope: &Bytes) {
        let Some(count) = self.held.get_mut(envelope) else { return };
        *count -= 1;
        if *count == 0 {
            self.held.remove(envelope);
        }
        let place = self.outbox.iter().position(|waiting| waiting.envelope == *envelope);
        if let Some(waiting) = place.and_then(|place| self.outbox.remove(place)) {
            self.outbox_bytes -= waiting.envelope.len();
        }
    }
}

/// How a node stands, for people.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Standing {
    pub id: u64,
    pub term: u64,
    pub leader: Option<u64>,
    /// Entries of its log, and those of them that it knows to be committed.
    pub entries: u64,
    pub committed: u64,
    /// Why it takes no part any more.
    pub stopped: Option<String>,
    /// Why it takes no part yet.
    pub waits: Option<String>,
}

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
        settings(&config)?;
        let committed = Arc::new(Committed {
            count: AtomicU64::new(after),
            last: Mutex::new(last),
            wake: Mutex::default(),
        });
        let released = Released {
            height: 0,
            result_hash: ZERO_HASH,
            parameters_hash: ZERO_HASH,
            names_seen: false,
            carried: 0,
        };
        let state = State {
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            held: HashMap::new(),
            inbox: VecDeque::new(),
            nudged: false,
            closed: None,
            released,
            barrier: Height::MAX,
            drafts: 0,
            regime: (0, None),
            next: after,
        };
        let node = Node(Arc::new(Shared {
            config,
            store,
            raft: OnceLock::new(),
            committed,
            state: Mutex::new(state),
            pump: Notify::new(),
            runtime: Handle::current(),
            network,
            asking: Asking::default(),
            too_far: AtomicBool::new(false),
            waits: Mutex::default(),
            stopped: AtomicBool::new(false),
            stands: AtomicBool::new(false),
        }));
        match node.0.store.is_in_doubt() {
            true => drop(tokio::spawn(node.clone().recall())),
            false => node.begin().await?,
        }
        Ok(node)
    }

    /// From now on it has a Raft.
    pub(crate) async fn begin(&self) -> io::Result<()> {
        let Shared { config, store, committed, network, .. } = &*self.0;
        let machine = Machine { committed: Arc::clone(committed), store: store.clone() };
        let peers = Peers { network: Arc::clone(network), store: store.clone() };
        let settings = Arc::new(settings(config)?);
        let raft = Raft::new(config.id, settings, peers, store.clone(), machine);
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
        let _ = self.0.raft.set(raft);
        tokio::spawn(pump(self.clone(), Arc::clone(network)));
        if self.0.stopped.load(Ordering::Acquire) {
            self.stop().await;
        }
        Ok(())
    }

    pub(crate) fn raft(&self) -> io::Result<&Raft<Types>> {
        self.0.raft.get().ok_or_else(|| io::Error::other("the node is starting"))
    }

    /// The answer to another node's request.
    pub async fn answer(&self, request: Bytes) -> io::Result<Bytes> {
        let request = Request::decode(&request).map_err(io::Error::other)?;
        if let Request::Recall(asking) = request {
            let recalled = json(&self.recalled_for(asking).await);
            return Ok(recalled.map_err(io::Error::other)?.into());
        }
        let raft = self.raft()?;
        // Asked all the same, it would log an error each time.
        if raft.metrics().borrow().running_state.is_err() {
            return Err(io::Error::other("this node takes no part any more"));
        }
        let answer = match request {
            Request::Append(append) => json(&raft.append_entries(append).await),
            Request::Vote(vote) if !self.0.store.may_vote_for(vote.last_log_id) => {
                return Err(io::Error::other(LACKS_LEAST));
            }
            Request::Vote(vote) => json(&raft.vote(vote).await),
            Request::Recall(_) => return Err(io::Error::other("it was answered")),
            Request::Forward(envelopes) => json(&self.take_forwarded(envelopes)),
            Request::Nudge => {
                self.state().nudged = true;
                self.0.pump.notify_one();
                json(&0)
            }
            Request::Pruned(last) => {
                let committed = self.0.committed.count.load(Ordering::Acquire) > last.index;
                let has = committed && self.0.store.has(&last);
                self.0.too_far.store(!has, Ordering::Release);
                json(&has)
            }
            Request::Confirm => json(&self.confirm_as_leader().await?),
        };
        Ok(answer.map_err(io::Error::other)?.into())
    }

    /// How many of them there is room for. A node that does not lead takes none.
    fn take_forwarded(&self, envelopes: Vec<Bytes>) -> usize {
        let limits = &self.0.config.limits;
        let most = limits.queued_max.saturating_mul(self.0.config.members.len());
        let bytes_max = limits.queued_bytes_max.saturating_mul(self.0.config.members.len());
        let mut state = self.state();
        if state.regime.1 != Some(self.0.config.id) {
            return 0;
        }
        let mut bytes: usize = state.inbox.iter().map(Bytes::len).sum();
        let mut taken = 0;
        for envelope in envelopes {
            bytes = bytes.saturating_add(envelope.len());
            let room = state.inbox.len() < most && (bytes <= bytes_max || state.inbox.is_empty());
            if !room || envelope.len() > limits.room_bytes() {
                break;
            }
            state.inbox.push_back(envelope);
            taken += 1;
        }
        drop(state);
        self.0.pump.notify_one();
        taken
    }

    pub fn standing(&self) -> Standing {
        let Ok(raft) = self.raft() else {
            let (id, term, leader, stopped) = (self.0.config.id, 0, None, None);
            let waits = lock(&self.0.waits).clone();
            let (entries, committed) = (self.0.store.entries(), self.0.committed_count());
            return Standing { id, term, leader, entries, committed, stopped, waits };
        };
        let metrics = raft.metrics().borrow().clone();
        Standing {
            id: metrics.id,
            term: metrics.current_term,
            leader: metrics.current_leader,
            entries: metrics.last_log_index.map_or(0, |last| last + 1),
            committed: self.0.committed.count.load(Ordering::Acquire),
            stopped: match metrics.running_state {
                Err(why) => Some(in_plain_words(why.to_string())),
                Ok(()) => self.is_too_far().then(|| TOO_FAR.to_owned()),
            },
            waits: (metrics.current_leader.is_none() && !self.0.store.may_stand())
                .then(|| LACKS.to_owned()),
        }
    }

    /// Whether this node lacks blocks that the others have pruned.
    pub fn is_too_far(&self) -> bool {
        self.0.too_far.load(Ordering::Acquire)
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

    /// Takes no part any more.
    pub async fn stop(&self) {
        self.0.stopped.store(true, Ordering::Release);
        if let Some(raft) = self.0.raft.get() {
            let _ = raft.shutdown().await;
        }
    }

    pub fn store(&self) -> &Store {
        &self.0.store
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
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

    /// A draft of what waits, if this node may make one.
    fn cut(&self, term: u64) -> Option<Draft> {
        let Shared { config, .. } = &*self.0;
        let mut state = self.state();
        let ahead = self.0.store.height().saturating_sub(state.released.height);
        if ahead.max(state.drafts as u64) >= AHEAD_MAX || state.released.height < state.barrier {
            return None;
        }
        let put_off = state.released.carried > 0 && state.released.height >= self.0.store.height();
        let waits = !state.inbox.is_empty() || put_off;
        if !waits && !state.nudged {
            return None;
        }
        state.nudged = false;
        let mut filling = Filling::beside(state.released.carried, &config.limits);
        let mut envelopes = Vec::new();
        let mut stops = false;
        while let Some(envelope) =
            state.inbox.pop_front_if(|envelope| filling.takes(envelope.len(), &config.limits))
        {
            stops |= (config.is_barrier)(&envelope);
            envelopes.push(envelope);
        }
        let Released { height, parameters_hash, names_seen, .. } = state.released;
        let proposer = config.members.get(&config.id).copied().unwrap_or([0; 32]);
        let seen_height = if names_seen { height } else { 0 };
        let proposal = Proposal { time_us: (config.clock)(), proposer, seen_height, envelopes };
        state.drafts += 1;
        if stops {
            // Of the block that this will be, or a later one: until the draft has its height,
            // nothing follows it.
            state.barrier = Height::MAX;
        }
        Some(Draft::new(term, parameters_hash, proposal))
    }

    /// What lies in the outbox and was not sent in this regime, as much as a message takes.
    fn unsent(&self) -> Vec<Bytes> {
        let patience = self.0.config.timing.patience;
        let mut state = self.state();
        let mut bytes = 0;
        let mut unsent = Vec::new();
        for waiting in &mut state.outbox {
            let is_due = waiting.sent.is_none_or(|sent| sent.elapsed() >= patience);
            if !is_due {
                continue;
            }
            bytes += waiting.envelope.len();
            if bytes > FORWARD_BYTES_MAX && !unsent.is_empty() {
                break;
            }
            waiting.sent = Some(Instant::now());
            unsent.push(waiting.envelope.clone());
        }
        unsent
    }

    /// Those that were not taken are sent again.
    fn not_taken(&self, envelopes: &[Bytes]) {
        let mut state = self.state();
        for waiting in &mut state.outbox {
            if envelopes.contains(&waiting.envelope) {
                waiting.sent = None;
            }
        }
    }

    /// Everything is sent again if another leader is to order it.
    fn enter(&self, regime: (u64, Option<u64>)) {
        let mut state = self.state();
        if state.regime == regime {
            return;
        }
        state.regime = regime;
        state.inbox.clear();
        state.barrier = Height::MAX;
        state.outbox.iter_mut().for_each(|waiting| waiting.sent = None);
    }

    /// All that this node's log holds may change what later blocks are executed under.
    fn set_barrier(&self) {
        let mut state = self.state();
        if state.barrier == Height::MAX && state.drafts == 0 {
            state.barrier = self.0.store.height();
        }
    }

    /// Does what there is to do; whether there may be more at once.
    async fn turn(&self, network: &Arc<dyn Network>) -> io::Result<bool> {
        let raft = self.raft()?;
        let (term, leader, applied) = {
            let metrics = raft.metrics().borrow().clone();
            (metrics.current_term, metrics.current_leader, metrics.last_applied)
        };
        if !self.0.stands.load(Ordering::Acquire) && self.0.store.may_stand() {
            raft.runtime_config().elect(true);
            self.0.stands.store(true, Ordering::Release);
        }
        self.enter((term, leader));
        let id = self.0.config.id;
        match leader {
            // Its own entry in the term is committed, and all before it.
            Some(leader) if leader == id => {
                if applied.is_none_or(|applied| applied.leader_id.term < term) {
                    return Ok(false);
                }
                let unsent = self.unsent();
                self.state().inbox.extend(unsent);
                self.set_barrier();
                let Some(draft) = self.cut(term) else { return Ok(false) };
                let written = raft.client_write_ff(draft).await;
                let node = self.clone();
                tokio::spawn(async move {
                    if let Ok(written) = written {
                        let _ = written.await;
                    }
                    node.state().drafts -= 1;
                    node.0.pump.notify_one();
                });
                Ok(true)
            }
            Some(leader) => self.forward(leader, network).await,
            None => Ok(false),
        }
    }

    async fn forward(&self, leader: u64, network: &Arc<dyn Network>) -> io::Result<bool> {
        let limit = self.0.config.timing.election_max;
        if std::mem::take(&mut self.state().nudged) {
            let nudge = Request::Nudge.encode().map_err(io::Error::other)?;
            let _ = timeout(limit, network.call(leader, nudge)).await;
        }
        let unsent = self.unsent();
        if unsent.is_empty() {
            return Ok(false);
        }
        let request = Request::Forward(unsent.clone()).encode().map_err(io::Error::other)?;
        let answer = timeout(limit, network.call(leader, request)).await;
        let taken = match answer {
            Ok(Ok(answer)) => of_json::<usize>(&answer).unwrap_or(0),
            _ => 0,
        };
        let left = unsent.get(taken..).unwrap_or_default();
        self.not_taken(left);
        Ok(left.is_empty())
    }
}

async fn pump(node: Node, network: Arc<dyn Network>) {
    let Ok(raft) = node.raft() else { return };
    let mut metrics = raft.metrics();
    loop {
        match node.turn(&network).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(_) => return,
        }
        let changed = metrics.changed().map(|changed| changed.is_err());
        let ended = tokio::select! {
            ended = changed => ended,
            () = node.0.pump.notified() => false,
            () = sleep(LOOK_AGAIN) => false,
        };
        if ended || metrics.borrow().running_state.is_err() {
            return;
        }
    }
}

impl Orderer for Node {
    fn submit(&mut self, envelope: Bytes) -> Result<(), Refused> {
        let mut state = self.state();
        if let Some(why) = &state.closed {
            return Err(Refused::Closed(why.clone()));
        }
        let (count, bytes) = (state.outbox.len(), state.outbox_bytes);
        self.0.config.limits.admit(envelope.len(), count, bytes)?;
        state.outbox_bytes += envelope.len();
        *state.held.entry(envelope.clone()).or_default() += 1;
        state.outbox.push_back(Waiting { envelope, sent: None });
        drop(state);
        self.0.pump.notify_one();
        Ok(())
    }

    fn nudge(&mut self) {
        self.state().nudged = true;
        self.0.pump.notify_one();
    }

    /// A log that cannot be read delivers nothing; Raft finds the same and stops.
    fn poll(&mut self, _now_us: i64) -> Option<Delivery> {
        let next = self.state().next;
        if next >= self.0.committed.count.load(Ordering::Acquire) {
            return None;
        }
        let delivery = self.read(next).ok()??;
        let mut state = self.state();
        state.next = next + 1;
        let envelopes = delivery.content.iter().flat_map(|content| &content.envelopes);
        for envelope in envelopes {
            if state.outbox.is_empty() {
                break;
            }
            state.acknowledge(envelope);
        }
        Some(delivery)
    }

    fn resume(&mut self, after: u64, _time_us: i64) -> Result<()> {
        let entries = self.0.store.entry(after.saturating_sub(1));
        if after > 0 && !entries.is_ok_and(|entry| entry.is_some()) {
            let what = format!("delivery {after} is not in the log");
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
        }
        self.state().next = after;
        Ok(())
    }

    fn close(&mut self, why: Error) {
        self.state().closed.get_or_insert(why);
    }

    fn released(&mut self, released: Released) {
        self.state().released = released;
        self.0.pump.notify_one();
    }

    fn recorded(&self, height: Height) -> Option<[u8; 32]> {
        self.0.store.hash_of(height).ok()
    }

    fn confirm(&mut self, tell: Tell) -> bool {
        if self.0.asking.joins(tell) {
            self.0.runtime.spawn(self.clone().ask());
        }
        true
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

/// Without what Raft puts around it.
fn in_plain_words(why: String) -> String {
    if why.contains(PARTED) { PARTED.to_owned() } else { why }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

struct Peers {
    network: Arc<dyn Network>,
    store: Store,
}

struct Peer {
    network: Arc<dyn Network>,
    store: Store,
    to: u64,
}

impl RaftNetworkFactory<Types> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, to: u64, _node: &EmptyNode) -> Peer {
        Peer { network: Arc::clone(&self.network), store: self.store.clone(), to }
    }
}

impl Peer {
    async fn ask<T: DeserializeOwned>(
        &self,
        request: Request,
        option: &RPCOption,
    ) -> Result<T, NetworkError> {
        let request = request.encode().map_err(|error| NetworkError::new(&error))?;
        let call = timeout(option.hard_ttl(), self.network.call(self.to, request));
        let answer = call.await.map_err(|error| NetworkError::new(&error))?;
        let answer = answer.map_err(|error| NetworkError::new(&error))?;
        of_json(&answer).map_err(|error| NetworkError::new(&error))
    }
}

impl RaftNetwork<Types> for Peer {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> RaftResult<AppendEntriesResponse<u64>, openraft::error::Infallible> {
        let answer: Result<_, RaftError<u64>> = self.ask(Request::Append(rpc), &option).await?;
        answer.map_err(|error| RPCError::Network(NetworkError::new(&error)))
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<u64>,
        option: RPCOption,
    ) -> RaftResult<VoteResponse<u64>, openraft::error::Infallible> {
        if !self.store.may_vote_for(rpc.last_log_id) {
            let lacks = io::Error::other(LACKS_LEAST);
            return Err(RPCError::Unreachable(Unreachable::new(&lacks)));
        }
        let answer: Result<_, RaftError<u64>> = self.ask(Request::Vote(rpc), &option).await?;
        answer.map_err(|error| RPCError::Network(NetworkError::new(&error)))
    }

    async fn install_snapshot(
        &mut self,
        rpc: InstallSnapshotRequest<Types>,
        option: RPCOption,
    ) -> RaftResult<InstallSnapshotResponse<u64>, InstallSnapshotError> {
        let last = rpc.meta.last_log_id;
        let has = match last {
            Some(last) => self.ask::<bool>(Request::Pruned(last), &option).await?,
            None => false,
        };
        if has {
            return Ok(InstallSnapshotResponse { vote: rpc.vote });
        }
        Err(RPCError::Unreachable(Unreachable::new(&no_snapshots())))
    }
}
