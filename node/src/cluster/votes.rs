//! A member votes: a thread that signs and counts, a task for each other member that sends.
//!
//! ```text
//! sequencer ─ block ─► inbox ─┐                        ┌─► outbox ─► a task for each member
//! members ─── votes ─► inbox ─┼─► the thread: Signer, ─┼─► votes/certificates
//! tasks ── certificates ► …  ─┘   Tally                └─► engine: halt, if it has diverged
//! ```
//!
//! The sequencer leaves a height and a hash, and waits for nothing. All that others leave is
//! bounded: of a member so many votes and certificates as one message holds, of blocks so many as
//! the tally keeps.
//!
//! **Who votes** follows from the ledger's members. A certificate of a block that is for others, by
//! those who voted before, is kept as the [succession](ledger::votes::succession) that says so, and
//! the others' votes count from there on. A node that lacks it asks for it.
//!
//! **A node that was away** asks for the certificates behind its own before it adds newer ones, so
//! that its file has no gap where another member's has none. Who cannot be reached is not waited
//! for.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::votes::{Counts, Divergence, Found, Signer, Tally, wire};
use cluster::{Answer, Peers, Seldom};
use engine::checkpoint::Taken;
use engine::retention::Memory;
use engine::{BlockEvent, Engine, Observer};
use ledger::hash::to_hex;
use ledger::votes::{KeptCertificates, Said, Succession, Vote, VoteKey};
use ledger::{Certificate, Electors, Files, Hash, Parameters, ZERO_HASH};
use order_raft::Network;
use tokio::sync::watch;
use tracing::{error, info, warn};
use types::{Error, Height};

use super::heard::{Heard, Standing};
use super::voters::Voters;
use crate::metrics::Metrics;

/// The newest block is voted on when nothing has come for so long.
const QUIET: Duration = Duration::from_millis(15);

/// How often a member hears of this one at least.
const HEARD_EVERY: Duration = Duration::from_secs(1);

const PATIENCE: Duration = Duration::from_secs(2);

/// When no certificate was added for so long, others may have some that this node lacks.
const STALE: Duration = Duration::from_secs(2);

/// Certificates are synced as often.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// Of another member's successions of electors no more are asked for.
const FOLLOWED_MAX: u64 = 1 << 16;

/// Blocks whose results wait for the thread.
const BLOCKS_MAX: usize = 1 << 16;

/// A block that this node has executed.
pub struct Block {
    pub height: Height,
    pub result_hash: Hash,
    pub time_us: i64,
    /// Of those in force for it.
    pub parameters_hash: Hash,
    /// In force for the next one.
    pub next_parameters: Arc<Parameters>,
}

#[derive(Default)]
struct Inbox {
    blocks: VecDeque<Block>,
    votes: BTreeMap<u64, VecDeque<Vote>>,
    certificates: BTreeMap<u64, VecDeque<Certificate>>,
    successions: VecDeque<Succession>,
    /// What is certified at other members.
    elsewhere: BTreeMap<u64, Height>,
    /// Members that were asked for certificates since they were wanted, and had no more.
    asked: Vec<u64>,
    ends: bool,
}

/// Shared by the sequencer, the thread and the tasks.
pub struct Votes {
    me: u64,
    inbox: Mutex<Inbox>,
    arrived: Condvar,
    /// This node's own, the newest few.
    sent: watch::Sender<Arc<VecDeque<Vote>>>,
    kept: Mutex<KeptCertificates>,
    standing: Mutex<Standing>,
    /// Height of the newest certificate.
    certified_height: watch::Sender<Height>,
    engine: OnceLock<Arc<Engine>>,
    /// Why this node stops, if its result was not the others'.
    cause: OnceLock<Error>,
}

/// The thread.
struct Voter {
    votes: Arc<Votes>,
    signer: Signer,
    tally: Tally,
    /// When a certificate was kept last.
    kept_at: Option<Instant>,
    /// Not kept yet, as older ones may come first.
    held: Option<(Certificate, Instant)>,
    /// When a block came last.
    block_at: Instant,
    synced_at: Instant,
    seldom: Seldom,
    is_synced: bool,
    own_key: Hash,
    voters: Voters,
    /// For electors that no block has named here yet.
    early: Option<Certificate>,
    /// It does not know what it may sign, or its results are not the others'.
    is_mute: bool,
}

impl Votes {
    pub fn start(
        files: &Arc<dyn Files>,
        electors: Electors,
        me: u64,
        key: VoteKey,
        parameters: &Arc<Parameters>,
    ) -> io::Result<(Arc<Votes>, JoinHandle<()>)> {
        let own_key = key.public();
        let mut voters = Voters::new(electors.ledger_id);
        voters.follow(parameters);
        let signer = Signer::open(files, electors.ledger_id, me, key)?;
        let (kept, cut) = KeptCertificates::open(files, &electors)?;
        if cut > 0 {
            info!(bytes = cut, "the end of votes/certificates could not be read and was cut off");
        }
        let mut tally = Tally::new(kept.all().electors().clone(), kept.all().last());
        voters.newest().into_iter().for_each(|next| tally.expect(next.clone()));
        let again: VecDeque<Vote> = signer.again().into_iter().collect();
        let found: Vec<Found> = again.iter().flat_map(|vote| tally.count(*vote)).collect();
        let votes = Arc::new(Votes {
            me,
            inbox: Mutex::default(),
            arrived: Condvar::new(),
            sent: watch::Sender::new(Arc::new(again)),
            kept: Mutex::new(kept),
            standing: Mutex::default(),
            certified_height: watch::Sender::new(0),
            engine: OnceLock::new(),
            cause: OnceLock::new(),
        });
        let mut voter = Voter {
            votes: Arc::clone(&votes),
            signer,
            tally,
            kept_at: None,
            held: None,
            block_at: Instant::now(),
            synced_at: Instant::now(),
            seldom: Seldom::default(),
            is_synced: true,
            own_key,
            voters,
            early: None,
            is_mute: false,
        };
        voter.found(found);
        voter.tell();
        let thread = std::thread::Builder::new().name("votes".into()).spawn(move || voter.run())?;
        Ok((votes, thread))
    }

    /// A block was released. Called on the sequencer's thread.
    pub fn block(&self, event: &BlockEvent) {
        self.executed(Block {
            height: event.height,
            result_hash: event.result_hash,
            time_us: event.time_us,
            parameters_hash: event.parameters_hash,
            next_parameters: Arc::clone(&event.next_parameters),
        });
    }

    pub fn executed(&self, block: Block) {
        let mut inbox = lock(&self.inbox);
        inbox.blocks.push_back(block);
        if inbox.blocks.len() > BLOCKS_MAX {
            inbox.blocks.pop_front();
        }
        drop(inbox);
        self.arrived.notify_one();
    }

    /// The engine that stops if it has diverged, and whose head is voted on.
    pub fn watch(&self, engine: &Arc<Engine>) {
        let _ = self.engine.set(Arc::clone(engine));
        self.stop();
    }

    /// Stops the engine, when it is there and there is a reason.
    fn stop(&self) {
        if let (Some(engine), Some(cause)) = (self.engine.get(), self.cause.get()) {
            engine.halt(cause.clone());
        }
    }

    /// Tells the height of the newest certificate.
    pub fn certified_height(&self) -> watch::Receiver<Height> {
        self.certified_height.subscribe()
    }

    /// This node's number.
    pub fn member(&self) -> u64 {
        self.me
    }

    pub fn standing(&self) -> Standing {
        lock(&self.standing).clone()
    }

    /// Whether a request is about votes.
    pub fn is_for(request: &[u8]) -> bool {
        matches!(request.first(), Some(&(wire::VOTES | wire::CERTIFICATES | wire::SUCCESSIONS)))
    }

    /// The answer to a member's request.
    pub fn answer(&self, from: u64, request: Bytes) -> Answer {
        match request[0] {
            wire::VOTES => {
                let (certified, votes) = wire::read_votes(from, request.slice(1..))?;
                self.take(from, certified, votes);
                Ok(wire::certified(self.certified()))
            }
            wire::SUCCESSIONS => {
                let known = wire::read_certified(&request[1..])?;
                let kept = lock(&self.kept);
                Ok(wire::successions(&kept.all().path(kept.all().followed()), known))
            }
            _ => {
                let above = wire::read_certified(&request[1..])?;
                let found = lock(&self.kept).all().after(above, wire::CERTIFICATES_MAX)?;
                Ok(wire::certificates(&found))
            }
        }
    }

    fn certified(&self) -> Height {
        lock(&self.kept).all().last().map_or(0, |said| said.height)
    }

    fn take(&self, from: u64, certified: Height, votes: Vec<Vote>) {
        let mut inbox = lock(&self.inbox);
        let waiting = inbox.votes.entry(from).or_default();
        waiting.extend(votes);
        // The newest count.
        let superfluous = waiting.len().saturating_sub(wire::VOTES_MAX);
        waiting.drain(..superfluous);
        inbox.elsewhere.insert(from, certified);
        drop(inbox);
        self.arrived.notify_one();
    }

    /// Tells the other members what this one signs, for ever.
    pub async fn send_to_all(self: Arc<Self>, peers: Arc<Peers>) {
        let mut reported: BTreeMap<u64, tokio::task::JoinHandle<()>> = BTreeMap::new();
        loop {
            reported.retain(|_, task| !task.is_finished());
            for member in peers.members().now().0.into_keys().filter(|id| *id != self.me) {
                let send = || tokio::spawn(Arc::clone(&self).send_to(member, Arc::clone(&peers)));
                reported.entry(member).or_insert_with(send);
            }
            tokio::time::sleep(HEARD_EVERY).await;
        }
    }

    /// Until it is no member any more.
    async fn send_to(self: Arc<Self>, member: u64, peers: Arc<Peers>) {
        let mut sent = self.sent.subscribe();
        let mut reported: Option<Height> = None;
        while peers.members().now().0.contains_key(&member) {
            let all = Arc::clone(&sent.borrow_and_update());
            let new: Vec<Vote> =
                all.iter().filter(|vote| Some(vote.said.height) > reported).copied().collect();
            let message = wire::votes(self.certified(), &new);
            let answer = tokio::time::timeout(PATIENCE, peers.call(member, message)).await;
            let answer = answer.map_err(io::Error::other).flatten();
            match answer.and_then(|answer| wire::read_certified(&answer)) {
                Ok(certified) => {
                    reported = new.last().map(|vote| vote.said.height).or(reported);
                    self.take(member, certified, Vec::new());
                    self.fetch(member, certified, &peers).await;
                }
                Err(_) => {
                    // It may have lost what it was told.
                    reported = None;
                    tokio::time::sleep(HEARD_EVERY / 4).await;
                }
            }
            let _ = tokio::time::timeout(HEARD_EVERY, sent.changed()).await;
        }
    }

    /// Gets the certificates that another member has, and this one lacks, and how electors followed
    /// where those that it knows have not made them.
    async fn fetch(&self, member: u64, certified: Height, peers: &Peers) {
        self.fetch_certificates(member, certified, peers).await;
        if self.certified() < certified {
            let known = lock(&self.kept).all().followed() as u64;
            if !self.fetch_electors(member, known, certified, peers).await {
                // It may have gone over others.
                self.fetch_electors(member, 0, certified, peers).await;
            }
        }
        lock(&self.inbox).asked.push(member);
        self.arrived.notify_one();
    }

    /// Those behind so many, each with its certificates. Whether any has followed.
    async fn fetch_electors(
        &self,
        member: u64,
        mut known: u64,
        certified: Height,
        peers: &Peers,
    ) -> bool {
        let before = lock(&self.kept).all().followed();
        loop {
            let wanted = peers.call(member, wire::successions_wanted(known));
            let answer = tokio::time::timeout(PATIENCE, wanted).await;
            let answer = answer.map_err(io::Error::other).flatten();
            let Ok(found) = answer.and_then(wire::read_successions) else { break };
            if found.is_empty() || known > FOLLOWED_MAX {
                break;
            }
            known += found.len() as u64;
            for next in found {
                let followed = lock(&self.kept).all().followed();
                lock(&self.inbox).successions.push_back(next);
                self.arrived.notify_one();
                while !lock(&self.inbox).successions.is_empty() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                if lock(&self.kept).all().followed() > followed {
                    self.fetch_certificates(member, certified, peers).await;
                }
            }
        }
        lock(&self.kept).all().followed() > before
    }

    async fn fetch_certificates(&self, member: u64, certified: Height, peers: &Peers) {
        let mut above = self.certified();
        while above < certified {
            let wanted = peers.call(member, wire::wanted(above));
            let answer = tokio::time::timeout(PATIENCE, wanted).await;
            let answer = answer.map_err(io::Error::other).flatten();
            let Ok(found) = answer.and_then(wire::read_certificates) else { break };
            let Some(last) = found.last().map(|it| it.said.height) else { break };
            if last <= above {
                break;
            }
            above = last;
            lock(&self.inbox).certificates.entry(member).or_default().extend(found);
            self.arrived.notify_one();
            // Until they have been checked.
            while lock(&self.inbox).certificates.get(&member).is_some_and(|it| !it.is_empty()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    pub fn end(&self) {
        lock(&self.inbox).ends = true;
        self.arrived.notify_one();
    }
}

impl Voter {
    fn run(mut self) {
        loop {
            let taken = self.wait();
            if !taken.blocks.is_empty() {
                self.block_at = Instant::now();
            }
            for block in taken.blocks {
                self.executed(&block);
            }
            for certificate in taken.certificates.into_values().flatten() {
                match self.tally.believe(&certificate) {
                    Ok(found) => self.fetched(found),
                    // Of electors whose succession is not here yet, or a lie.
                    Err(error) => {
                        if let Some(before) = self.seldom.is_due(&error.to_string()) {
                            let what = "a member sent a certificate that does not hold here";
                            warn!(%error, before, "{what}");
                        }
                    }
                }
            }
            for succession in taken.successions {
                self.succeed(succession);
            }
            for vote in taken.votes.into_values().flatten() {
                let found = self.tally.count(vote);
                self.found(found);
            }
            self.sign(self.block_at.elapsed() >= QUIET);
            self.keep_held(&taken.asked);
            self.sync(taken.ends);
            self.tell();
            if taken.ends {
                return;
            }
        }
    }

    /// Until something has come, or the newest block is to be voted on.
    fn wait(&self) -> Inbox {
        let pending = self.signs() && self.signer.lacks_newest() || self.held.is_some();
        let quiet_in = QUIET.saturating_sub(self.block_at.elapsed()) + Duration::from_millis(1);
        let most = if pending { quiet_in } else { SYNC_EVERY };
        let inbox = lock(&self.votes.inbox);
        let is_idle = |it: &mut Inbox| {
            let empty = it.blocks.is_empty() && it.votes.values().all(VecDeque::is_empty);
            let fetched = !it.certificates.is_empty() || !it.successions.is_empty();
            empty && !fetched && it.asked.is_empty() && !it.ends
        };
        let waited = self.votes.arrived.wait_timeout_while(inbox, most, is_idle);
        let (mut inbox, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let elsewhere = inbox.elsewhere.clone();
        let (ends, rest) = (inbox.ends, Inbox { elsewhere, ..Inbox::default() });
        let mut taken = std::mem::replace(&mut *inbox, rest);
        inbox.ends = ends;
        taken.asked.sort_unstable();
        taken
    }

    /// An elector signs, and a member that will be one: those before do until they are followed.
    fn signs(&self) -> bool {
        let is_in = |electors: &Electors| electors.keys.get(&self.votes.me) == Some(&self.own_key);
        let is_next = self.voters.newest().is_some_and(is_in);
        !self.is_mute && (is_next || is_in(lock(&self.votes.kept).all().electors()))
    }

    fn executed(&mut self, block: &Block) {
        let Block { height, result_hash, time_us, .. } = *block;
        let electors = self.voters.of(&block.parameters_hash);
        let said = Said { height, result_hash, electors: electors.unwrap_or(ZERO_HASH) };
        // Where it is not known who they are, the next block is signed.
        if electors.is_some() && self.signs() {
            self.signer.executed(said, time_us);
        }
        let found = self.tally.executed(said);
        self.found(found);
        if !self.voters.follow(&block.next_parameters) {
            return;
        }
        if let Some(next) = self.voters.newest() {
            self.tally.expect(next.clone());
        }
        if let Some(certificate) = self.early.take() {
            self.hand_over(certificate);
        }
    }

    /// Others follow the electors, who have certified a block that is for those.
    fn hand_over(&mut self, certificate: Certificate) {
        match self.voters.named(&certificate.said.electors) {
            Some(next) => self.succeed(Succession::new(next.clone(), certificate)),
            None => drop(self.early.get_or_insert(certificate)),
        }
    }

    fn succeed(&mut self, succession: Succession) {
        // One that was found here, and was asked for, too.
        let above = lock(&self.votes.kept).all().electors().above;
        if above >= Some(succession.height()) {
            return;
        }
        if let Some((held, _)) = self.held.take()
            && self.is_theirs(&held)
        {
            self.keep(&held);
        }
        let above = succession.height();
        let succeeded = {
            let mut kept = lock(&self.votes.kept);
            let succeeded = kept.succeed(succession);
            succeeded.map(|()| (kept.all().electors().clone(), kept.all().last()))
        };
        match succeeded {
            Ok((electors, last)) => {
                let members: Vec<u64> = electors.keys.keys().copied().collect();
                info!(above, ?members, votes = electors.votes, "these members vote from now on");
                let found = self.tally.follow(electors, last);
                self.found(found);
            }
            Err(error) => {
                if let Some(before) = self.seldom.is_due(&error.to_string()) {
                    warn!(%error, before, "other electors do not follow those before");
                }
            }
        }
    }

    fn sign(&mut self, quiet: bool) {
        if !self.signs() {
            return;
        }
        let signed = match self.signer.sign(quiet) {
            Ok(signed) => signed,
            Err(error) => {
                self.is_mute = true;
                error!(%error, "this node votes no more: what it signs cannot be made durable");
                return;
            }
        };
        if signed.is_empty() {
            return;
        }
        for vote in &signed {
            let found = self.tally.count(*vote);
            self.found(found);
        }
        self.votes.sent.send_modify(|sent| {
            let mut all: VecDeque<Vote> = sent.iter().copied().chain(signed).collect();
            all.drain(..all.len().saturating_sub(wire::VOTES_MAX));
            *sent = Arc::new(all);
        });
    }

    fn found(&mut self, found: Vec<Found>) {
        for found in found {
            match found {
                Found::Certificate(certificate) => self.certified(certificate),
                Found::Divergence(divergence) => self.diverged(&divergence),
            }
        }
    }

    /// Older certificates than the newest are kept too.
    fn fetched(&mut self, found: Vec<Found>) {
        for found in found {
            match found {
                Found::Certificate(certificate) => self.keep(&certificate),
                Found::Divergence(divergence) => self.diverged(&divergence),
            }
        }
    }

    /// Keeps a certificate, or holds the newest back while older ones may be had.
    fn certified(&mut self, certificate: Certificate) {
        let is_fresh = self.kept_at.is_some_and(|at| at.elapsed() < STALE);
        if self.held.is_some() || !is_fresh && self.others_have_more(certificate.said.height) {
            let since = self.held.take().map_or_else(Instant::now, |(_, since)| since);
            self.held = Some((certificate, since));
            return;
        }
        self.settle(certificate);
    }

    /// Whether the electors have certified a block that is for them.
    fn is_theirs(&self, certificate: &Certificate) -> bool {
        certificate.said.electors == lock(&self.votes.kept).all().electors().hash()
    }

    fn settle(&mut self, certificate: Certificate) {
        match self.is_theirs(&certificate) {
            true => self.keep(&certificate),
            false => self.hand_over(certificate),
        }
    }

    /// Whether another member has certificates below a height that this one lacks.
    fn others_have_more(&self, height: Height) -> bool {
        let last = lock(&self.votes.kept).all().last().map_or(0, |said| said.height);
        // Others have added this very one meanwhile; at a start nothing is known of those before.
        let end = if self.kept_at.is_some() { height } else { height.saturating_add(1) };
        lock(&self.votes.inbox).elsewhere.values().any(|there| (last + 1..end).contains(there))
    }

    fn keep_held(&mut self, asked: &[u64]) {
        let Some((certificate, since)) = &self.held else { return };
        if !asked.is_empty() || since.elapsed() > PATIENCE {
            let certificate = certificate.clone();
            self.held = None;
            self.settle(certificate);
        }
    }

    fn keep(&mut self, certificate: &Certificate) {
        let mut kept = lock(&self.votes.kept);
        if kept.all().last().is_some_and(|last| last.height >= certificate.said.height) {
            return;
        }
        if let Err(error) = kept.append(certificate)
            && let Some(before) = self.seldom.is_due(&error.to_string())
        {
            error!(%error, before, "a certificate cannot be kept");
        }
        self.is_synced = false;
        self.kept_at = Some(Instant::now());
    }

    fn sync(&mut self, ends: bool) {
        if self.is_synced || !ends && self.synced_at.elapsed() < SYNC_EVERY {
            return;
        }
        if let Err(error) = lock(&self.votes.kept).sync() {
            warn!(%error, "votes/certificates cannot be synced");
        }
        (self.is_synced, self.synced_at) = (true, Instant::now());
    }

    fn diverged(&mut self, divergence: &Divergence) {
        // It signs nothing that it knows to be wrong.
        self.is_mute = true;
        let cause = divergence.cause();
        let why = describe(&cause);
        if self.votes.cause.set(cause).is_err() {
            return;
        }
        error!(height = divergence.height, "{why}");
        self.votes.stop();
    }

    /// What others may see.
    fn tell(&self) {
        let said = |said: Said| (said.height, to_hex(&said.result_hash));
        let heard = |id: &u64| {
            let Counts { counted, refused, contradicting } = self.tally.counts_of(*id);
            let signed = self.tally.newest_of(*id).map(|said| said.height);
            let deviates = self.tally.deviates(*id);
            (*id, Heard { signed, counted, refused, contradicting, deviates })
        };
        let (last, count, electors) = {
            let kept = lock(&self.votes.kept);
            let all = kept.all();
            (all.last(), all.count(), all.electors().clone())
        };
        self.votes.certified_height.send_if_modified(|reported| {
            let height = last.map_or(0, |last| last.height);
            std::mem::replace(reported, height) != height
        });
        let others = electors.keys.keys().filter(|id| **id != self.votes.me);
        let mut standing = lock(&self.votes.standing);
        *standing = Standing {
            signed: self.signer.last().map(said),
            certified: last.map(said),
            certificates: count,
            members: others.map(heard).collect(),
            electors: electors.keys.keys().copied().collect(),
            needed: electors.votes,
            diverged: self.votes.cause.get().map(describe),
        };
    }
}

fn describe(cause: &Error) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (detail, hint) = (text(&cause.fields().detail), text(&cause.fields().hint));
    format!("{}: {detail} {hint}", cause.message())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an engine tells, for the metrics and for the votes.
pub struct Telling {
    pub metrics: Arc<Metrics>,
    pub votes: Option<Arc<Votes>>,
}

impl Observer for Telling {
    fn block(&self, event: &BlockEvent) {
        self.metrics.block(event);
        if let Some(votes) = &self.votes {
            votes.block(event);
        }
    }

    fn answered(&self, latency: Duration) {
        self.metrics.answered(latency);
    }

    fn collected(&self, left: &Memory) {
        self.metrics.collected(left);
    }

    fn checkpoint(&self, taken: &Taken, took: Duration) {
        self.metrics.checkpoint(taken, took);
    }

    fn checkpoint_failed(&self, error: &Error) {
        self.metrics.checkpoint_failed(error);
    }

    fn halted(&self, cause: &Error) {
        self.metrics.halted(cause);
    }
}
