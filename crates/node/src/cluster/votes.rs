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
use ledger::votes::{Certificates, Said, Vote, VoteKey};
use ledger::{Certificate, Electors, Files};
use order_raft::Network;
use tokio::sync::watch;
use tracing::{error, info, warn};
use types::{Error, Height};

use super::heard::{Heard, Standing};
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

/// Blocks whose results wait for the thread.
const BLOCKS_MAX: usize = 1 << 16;

#[derive(Default)]
struct Inbox {
    blocks: VecDeque<(Said, i64)>,
    votes: BTreeMap<u64, VecDeque<Vote>>,
    certificates: BTreeMap<u64, VecDeque<Certificate>>,
    /// What is certified at other members.
    elsewhere: BTreeMap<u64, Height>,
    /// Members that were asked for certificates since they were wanted, and had no more.
    asked: Vec<u64>,
    ends: bool,
}

/// Shared by the sequencer, the thread and the tasks.
pub struct Votes {
    electors: Electors,
    me: u64,
    inbox: Mutex<Inbox>,
    arrived: Condvar,
    /// This node's own, the newest few.
    sent: watch::Sender<Arc<VecDeque<Vote>>>,
    kept: Mutex<Certificates>,
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
    signs: bool,
}

impl Votes {
    pub fn start(
        files: &Arc<dyn Files>,
        electors: Electors,
        me: u64,
        key: VoteKey,
    ) -> io::Result<(Arc<Votes>, JoinHandle<()>)> {
        let signer = Signer::open(files, electors.ledger_id, me, key)?;
        let (kept, cut) = Certificates::open(files, &electors)?;
        if cut > 0 {
            info!(bytes = cut, "the end of votes/certificates could not be read and was cut off");
        }
        let mut tally = Tally::new(electors.clone(), kept.last());
        let again = signer.again().filter(|_| electors.keys.contains_key(&me));
        let again: VecDeque<Vote> = again.into_iter().collect();
        let found: Vec<Found> = again.iter().flat_map(|vote| tally.count(*vote)).collect();
        let votes = Arc::new(Votes {
            electors,
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
        let signs = votes.electors.keys.contains_key(&me);
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
            signs,
        };
        voter.found(found);
        voter.tell();
        let thread = std::thread::Builder::new().name("votes".into()).spawn(move || voter.run())?;
        Ok((votes, thread))
    }

    /// A block was released. Called on the sequencer's thread.
    pub fn block(&self, event: &BlockEvent) {
        let said = Said { height: event.height, result_hash: event.result_hash };
        self.executed(said, event.time_us);
    }

    pub fn executed(&self, said: Said, time_us: i64) {
        let mut inbox = lock(&self.inbox);
        inbox.blocks.push_back((said, time_us));
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
        matches!(request.first(), Some(&wire::VOTES | &wire::CERTIFICATES))
    }

    /// The answer to a member's request.
    pub fn answer(&self, from: u64, request: Bytes) -> Answer {
        match request[0] {
            wire::VOTES => {
                let (certified, votes) = wire::read_votes(from, request.slice(1..))?;
                self.take(from, certified, votes);
                Ok(wire::certified(self.certified()))
            }
            _ => {
                let above = wire::read_certified(&request[1..])?;
                let found = lock(&self.kept).after(above, wire::CERTIFICATES_MAX)?;
                Ok(wire::certificates(&found))
            }
        }
    }

    fn certified(&self) -> Height {
        lock(&self.kept).last().map_or(0, |said| said.height)
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

    /// Tells another member what this one signs, for ever.
    pub async fn send_to(self: Arc<Self>, member: u64, peers: Arc<Peers>) {
        let mut sent = self.sent.subscribe();
        let mut told: Option<Height> = None;
        loop {
            let all = Arc::clone(&sent.borrow_and_update());
            let new: Vec<Vote> =
                all.iter().filter(|vote| Some(vote.said.height) > told).copied().collect();
            let message = wire::votes(self.certified(), &new);
            let answer = tokio::time::timeout(PATIENCE, peers.call(member, message)).await;
            let answer = answer.map_err(io::Error::other).flatten();
            match answer.and_then(|answer| wire::read_certified(&answer)) {
                Ok(certified) => {
                    told = new.last().map(|vote| vote.said.height).or(told);
                    self.take(member, certified, Vec::new());
                    self.fetch(member, certified, &peers).await;
                }
                Err(_) => {
                    // It may have lost what it was told.
                    told = None;
                    tokio::time::sleep(HEARD_EVERY / 4).await;
                }
            }
            let _ = tokio::time::timeout(HEARD_EVERY, sent.changed()).await;
        }
    }

    /// Gets the certificates that another member has, and this one lacks.
    async fn fetch(&self, member: u64, certified: Height, peers: &Peers) {
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
        lock(&self.inbox).asked.push(member);
        self.arrived.notify_one();
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
            for (said, time_us) in taken.blocks {
                self.signer.executed(said, time_us);
                let found = self.tally.executed(said);
                self.found(found);
            }
            for certificate in taken.certificates.into_values().flatten() {
                match self.tally.believe(&certificate) {
                    Ok(found) => self.fetched(found),
                    Err(error) => warn!(%error, "a member sent a certificate that does not hold"),
                }
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
        let inbox = lock(&self.votes.inbox);
        let pending = self.signs && self.signer.lacks_newest() || self.held.is_some();
        let quiet_in = QUIET.saturating_sub(self.block_at.elapsed()) + Duration::from_millis(1);
        let most = if pending { quiet_in } else { SYNC_EVERY };
        let is_idle = |it: &mut Inbox| {
            let empty = it.blocks.is_empty() && it.votes.values().all(VecDeque::is_empty);
            empty && it.certificates.is_empty() && it.asked.is_empty() && !it.ends
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

    fn sign(&mut self, quiet: bool) {
        if !self.signs {
            return;
        }
        let signed = match self.signer.sign(quiet) {
            Ok(signed) => signed,
            Err(error) => {
                self.signs = false;
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
        self.keep(&certificate);
    }

    /// Whether another member has certificates below a height that this one lacks.
    fn others_have_more(&self, height: Height) -> bool {
        let last = lock(&self.votes.kept).last().map_or(0, |said| said.height);
        // Others have added this very one meanwhile; at a start nothing is known of those before.
        let end = if self.kept_at.is_some() { height } else { height.saturating_add(1) };
        lock(&self.votes.inbox).elsewhere.values().any(|there| (last + 1..end).contains(there))
    }

    fn keep_held(&mut self, asked: &[u64]) {
        let Some((certificate, since)) = &self.held else { return };
        if !asked.is_empty() || since.elapsed() > PATIENCE {
            let certificate = certificate.clone();
            self.held = None;
            self.keep(&certificate);
        }
    }

    fn keep(&mut self, certificate: &Certificate) {
        let mut kept = lock(&self.votes.kept);
        if kept.last().is_some_and(|last| last.height >= certificate.said.height) {
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
        self.signs = false;
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
        let others = self.votes.electors.keys.keys().filter(|id| **id != self.votes.me);
        let heard = |id: &u64| {
            let Counts { counted, refused, contradicting } = self.tally.counts_of(*id);
            let signed = self.tally.newest_of(*id).map(|said| said.height);
            let deviates = self.tally.deviates(*id);
            (*id, Heard { signed, counted, refused, contradicting, deviates })
        };
        let (last, count) = {
            let kept = lock(&self.votes.kept);
            (kept.last(), kept.count())
        };
        self.votes.certified_height.send_if_modified(|told| {
            let height = last.map_or(0, |last| last.height);
            std::mem::replace(told, height) != height
        });
        let mut standing = lock(&self.votes.standing);
        *standing = Standing {
            signed: self.signer.last().map(said),
            certified: last.map(said),
            certificates: count,
            electors: self.votes.electors.keys.keys().copied().collect(),
            needed: self.votes.electors.votes,
            members: others.map(heard).collect(),
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
