//! One node: a task that reads the topic, one that appends to it, and the queues of both.
//!
//! ```text
//! reader   make sure that it is the same topic ─► read ─► cutter ─► ready ─► poll
//!               ▲                                  │
//!               └────────── after any error ───────┘
//! sender   outbox ─► one bundle ─► append, the same bytes again and again until it is answered
//! ```

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ledger::{Files, LogReader};
use order::{Delivery, Filling, Orderer, Outbox, Proposal, Refused, Released, Tell};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use types::{Error, Height, Result, SqlState};

use crate::confirm::Asking;
use crate::cutter::{Cutter, Position};
use crate::positions::{EVERY, Positions};
use crate::record::{Bundle, OVERHEAD_BYTES, Record};
use crate::{Config, Log, LogError};

/// Batches that a node asks for beyond what it has executed: one is executed while another is
/// ordered, and what comes meanwhile gathers for the next.
const AHEAD_MAX: u64 = 2;
/// Of one record, which brokers take by default.
const RECORD_BYTES_MAX: usize = 1_000_000;
/// What may be cut and not polled before reading pauses.
const READY_MAX: usize = 64;
const READY_BYTES_MAX: usize = 64 << 20;
/// How long the tasks sleep at most.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A handle; clones are the same node.
#[derive(Clone)]
pub struct Node(Arc<Shared>);

struct Shared {
    config: Config,
    log: Arc<dyn Log>,
    files: Arc<dyn Files>,
    state: Mutex<State>,
    /// For the sender.
    pump: Notify,
    /// For the reader, when something was polled.
    polled: Notify,
    /// Offset that was read up to.
    read: watch::Sender<u64>,
    /// Why this node orders no more.
    stopped: watch::Sender<Option<Error>>,
    wake: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
    asking: Asking,
    tasks: Mutex<Vec<AbortHandle>>,
}

pub(crate) struct State {
    /// Marked with when it was sent last.
    outbox: Outbox<Instant>,
    given_up: Vec<(Bytes, Error)>,
    nudged: bool,
    closed: Option<Error>,
    released: Released,
    /// `None`: the topic's first record is not known yet.
    pub cutter: Option<Cutter>,
    pub positions: Positions,
    /// What is in the ledger already: it is compared, and not delivered.
    pub recorded: u64,
    ready: VecDeque<Delivery>,
    ready_bytes: usize,
    /// Of this life's last record.
    number: u64,
    /// The last batch whose end this node has asked for.
    asked: u64,
    /// The open batch, and since when it is.
    opened: Option<(u64, Instant)>,
    record_bytes_max: usize,
    /// Since when the topic cannot be read, or appended to, and why.
    pub unread: Option<(Instant, String)>,
    unsent: Option<(Instant, String)>,
}

/// How a node stands, for people.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Standing {
    /// Of the next record of the topic.
    pub offset: u64,
    /// The last batch that was cut, in which the ledger's blocks are counted too.
    pub sequence: u64,
    /// Why brokers cannot be reached, if they cannot.
    pub away: Option<String>,
    /// Why it takes no part any more.
    pub stopped: Option<String>,
}

/// Why the reader cannot go on.
pub(crate) enum Trouble {
    Again(String),
    /// There is nothing to go on with.
    Stop(Error),
}

impl From<LogError> for Trouble {
    fn from(error: LogError) -> Trouble {
        Trouble::Again(error.to_string())
    }
}

enum Next {
    Append(Bytes),
    Wait(Duration),
}

impl Node {
    /// Takes part from now on, behind the delivery `after`, the last block of the ledger in
    /// `files`. Runs in the current runtime.
    pub fn start(
        config: Config,
        log: Arc<dyn Log>,
        files: Arc<dyn Files>,
        after: u64,
    ) -> io::Result<Node> {
        let positions = Positions::open(&files)?;
        let (parameters_hash, names_seen, carried) = ([0; 32], false, 0);
        let state = State {
            outbox: Outbox::default(),
            given_up: Vec::new(),
            nudged: false,
            closed: None,
            released: Released {
                height: after,
                result_hash: [0; 32],
                parameters_hash,
                names_seen,
                carried,
            },
            cutter: positions.up_to(after).cloned().map(Cutter::at),
            positions,
            recorded: after,
            ready: VecDeque::new(),
            ready_bytes: 0,
            number: 0,
            asked: 0,
            opened: None,
            record_bytes_max: RECORD_BYTES_MAX,
            unread: None,
            unsent: None,
        };
        let node = Node(Arc::new(Shared {
            config,
            log,
            files,
            state: Mutex::new(state),
            pump: Notify::new(),
            polled: Notify::new(),
            read: watch::Sender::new(0),
            stopped: watch::Sender::new(None),
            wake: Mutex::default(),
            asking: Asking::default(),
            tasks: Mutex::default(),
        }));
        let runtime = Handle::current();
        let tasks = [
            runtime.spawn(node.clone().follow()).abort_handle(),
            runtime.spawn(node.clone().send()).abort_handle(),
            runtime.spawn(node.clone().ask()).abort_handle(),
        ];
        lock(&node.0.tasks).extend(tasks);
        Ok(node)
    }

    /// Takes no part any more.
    pub fn stop(&self) {
        lock(&self.0.tasks).drain(..).for_each(|task| task.abort());
    }

    /// Completes when this node can go on no more, with the cause.
    pub async fn stopped(&self) -> Error {
        let mut stopped = self.0.stopped.subscribe();
        let cause = stopped.wait_for(Option::is_some).await.map(|cause| cause.clone());
        let ended = || Error::new(SqlState::INTERNAL_ERROR, "the orderer has ended");
        cause.ok().flatten().unwrap_or_else(ended)
    }

    pub fn standing(&self) -> Standing {
        let state = self.state();
        let (offset, sequence) = match &state.cutter {
            Some(cutter) => (cutter.offset(), cutter.sequence()),
            None => (0, state.recorded),
        };
        let away = state.unread.as_ref().or(state.unsent.as_ref()).map(|(_, why)| why.clone());
        let stopped = self.0.stopped.borrow().as_ref().map(ToString::to_string);
        Standing { offset, sequence: sequence.max(state.recorded), away, stopped }
    }

    /// The position to begin at behind a block, for [`crate::begin_behind`].
    pub fn position_up_to(&self, height: Height) -> Vec<u8> {
        self.state().positions.up_to(height).map(Position::encode).unwrap_or_default()
    }

    pub(crate) fn asking(&self) -> &Asking {
        &self.0.asking
    }

    pub(crate) fn config(&self) -> &Config {
        &self.0.config
    }

    pub(crate) fn log(&self) -> &Arc<dyn Log> {
        &self.0.log
    }

    pub(crate) fn files(&self) -> &Arc<dyn Files> {
        &self.0.files
    }

    pub(crate) fn read_up_to(&self) -> watch::Receiver<u64> {
        self.0.read.subscribe()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    fn wake(&self) {
        let wake = lock(&self.0.wake).clone();
        if let Some(wake) = wake {
            wake();
        }
    }

    /// The reader.
    async fn follow(self) {
        let (mut is_sure, mut compared) = (false, None);
        loop {
            match self.follow_on(&mut is_sure, &mut compared).await {
                Ok(()) => self.state().unread = None,
                Err(Trouble::Again(why)) => {
                    is_sure = false;
                    self.is_away(why);
                    sleep(self.0.config.timing.again).await;
                }
                Err(Trouble::Stop(cause)) => {
                    self.state().end(&self.0.config.topic, &cause);
                    self.0.stopped.send_replace(Some(cause));
                    self.wake();
                    return;
                }
            }
        }
    }

    fn is_away(&self, why: String) {
        let mut state = self.state();
        if state.unread.is_none() {
            tracing::warn!(topic = self.0.config.topic, why, "the topic cannot be read; waiting");
            state.unread = Some((Instant::now(), why));
        }
    }

    async fn follow_on(
        &self,
        is_sure: &mut bool,
        compared: &mut Option<LogReader>,
    ) -> Result<(), Trouble> {
        if !*is_sure {
            self.make_sure().await?;
            *is_sure = true;
            self.0.pump.notify_one();
        }
        while self.is_full() {
            let _ = timeout(LOOK_AGAIN, self.0.polled.notified()).await;
        }
        let Some(from) = self.state().cutter.as_ref().map(Cutter::offset) else {
            *is_sure = false;
            return Ok(());
        };
        let records = self.0.log.read(from).await?;
        if self.take(records, compared)? {
            self.wake();
        }
        self.0.pump.notify_one();
        Ok(())
    }

    fn is_full(&self) -> bool {
        let state = self.state();
        state.ready.len() >= READY_MAX || state.ready_bytes >= READY_BYTES_MAX
    }

    /// Cuts what was read; whether there is something to poll.
    fn take(
        &self,
        records: Vec<(u64, Bytes)>,
        compared: &mut Option<LogReader>,
    ) -> Result<bool, Trouble> {
        let mut state = self.state();
        let State { cutter: Some(cutter), positions, ready, ready_bytes, recorded, .. } =
            &mut *state
        else {
            return Ok(false);
        };
        for (offset, bytes) in records {
            if offset < cutter.offset() {
                continue;
            }
            let stepped = cutter.step(offset, &bytes);
            let stepped = stepped.map_err(|error| self.lost(error.message()))?;
            if let Some(why) = stepped.void {
                tracing::warn!(offset, why, "a record of the topic is passed over");
            }
            for (delivery, position) in stepped.cut {
                if delivery.sequence.is_multiple_of(EVERY) {
                    keep(positions, &position);
                }
                if delivery.sequence <= *recorded {
                    self.compare(&delivery, compared)?;
                } else {
                    *ready_bytes += bytes_of(&delivery);
                    ready.push_back(delivery);
                }
            }
        }
        let (open, offset) = (cutter.sequence() + 1, cutter.offset());
        let is_open = cutter.open(&self.0.config.life).0;
        state.opened = match state.opened {
            _ if !is_open => None,
            Some((number, since)) if number == open => Some((number, since)),
            _ => Some((open, Instant::now())),
        };
        let any = !state.ready.is_empty();
        drop(state);
        self.0.read.send_replace(offset);
        Ok(any)
    }

    /// The sender.
    async fn send(self) {
        loop {
            if self.0.stopped.borrow().is_some() {
                return;
            }
            match self.next() {
                Next::Append(record) => self.append(record).await,
                Next::Wait(limit) => {
                    let _ = timeout(limit, self.0.pump.notified()).await;
                }
            }
        }
    }

    async fn append(&self, record: Bytes) {
        loop {
            match self.0.log.append(record.clone()).await {
                Ok(()) => {
                    self.state().unsent = None;
                    return;
                }
                Err(LogError::TooLarge) => {
                    self.too_large(&record);
                    return;
                }
                Err(error) => {
                    let Trouble::Again(why) = Trouble::from(error) else { return };
                    self.state().unsent.get_or_insert((Instant::now(), why));
                    sleep(self.0.config.timing.again).await;
                }
            }
        }
    }

    /// Smaller records from now on; an envelope that alone is too large is given up.
    fn too_large(&self, record: &Bytes) {
        let Ok(Record::Bundle(bundle)) = Record::decode(record) else { return };
        let mut state = self.state();
        state.record_bytes_max = (record.len() / 2).max(OVERHEAD_BYTES);
        match &bundle.proposal.envelopes[..] {
            [envelope] => state.give_up(envelope, too_large(envelope.len())),
            envelopes => state.outbox.refused(envelopes),
        }
    }

    /// What there is to append.
    fn next(&self) -> Next {
        let Config { life, timing, clock, proposer, .. } = &self.0.config;
        let mut state = self.state();
        let Some(cutter) = &state.cutter else { return Next::Wait(LOOK_AGAIN) };
        let (log, limits) = (cutter.log(), *cutter.limits());
        let (last, (is_open, is_own)) = (cutter.sequence(), cutter.open(life));
        let is_idle = last.saturating_sub(state.released.height) < AHEAD_MAX;
        let envelopes = state.unsent(&limits, timing.lost);
        let forced = std::mem::take(&mut state.nudged);
        if envelopes.is_empty() && !forced {
            if !is_open || !is_idle || state.asked > last {
                return Next::Wait(LOOK_AGAIN);
            }
            let since = state.opened.map_or(Duration::ZERO, |(_, since)| since.elapsed());
            if !is_own && since < timing.cut {
                return Next::Wait(timing.cut - since);
            }
        }
        let cut = if is_idle || forced { last + 1 } else { 0 };
        state.asked = state.asked.max(cut);
        state.number += 1;
        let Released { height, names_seen, carried, .. } = state.released;
        let (number, carried) = (state.number, carried as u64);
        drop(state);
        let seen_height = if names_seen { height } else { 0 };
        let (time_us, proposer) = (clock(), *proposer);
        let proposal = Proposal { time_us, proposer, seen_height, envelopes };
        let bundle = Bundle { log, life: *life, number, cut, forced, carried, proposal };
        Next::Append(bundle.encode())
    }
}

impl State {
    /// Envelopes for one record.
    fn unsent(&mut self, limits: &order::Limits, lost: Duration) -> Vec<Bytes> {
        let is_away = self.unread.is_some() || !self.ready.is_empty();
        self.outbox.resend(|sent| !is_away && sent.elapsed() >= lost);
        // What no record takes, in front of what one does.
        loop {
            let (mut filling, mut bytes) = (Filling::default(), OVERHEAD_BYTES);
            let most = self.record_bytes_max;
            let taken = self.outbox.take(Instant::now(), |envelope| {
                let is_first = bytes == OVERHEAD_BYTES;
                bytes += envelope.len() + 8;
                (bytes <= most || is_first) && filling.takes(envelope.len(), limits)
            });
            match self.outbox.next().filter(|_| taken.envelopes.is_empty()).cloned() {
                Some(misfit) => self.give_up(&misfit, too_large(misfit.len())),
                None => {
                    taken.envelopes.iter().for_each(|envelope| self.outbox.tries(envelope));
                    return taken.envelopes;
                }
            }
        }
    }

    fn give_up(&mut self, envelope: &Bytes, why: Error) {
        if self.outbox.remove(envelope) {
            self.given_up.push((envelope.clone(), why));
        }
    }

    /// Waits for nothing any more, and takes nothing.
    fn end(&mut self, topic: &str, cause: &Error) {
        self.closed.get_or_insert_with(|| cause.clone());
        self.give_all_up(|| cause.clone(), || not_known(topic, cause.message()));
    }

    fn give_all_up(&mut self, not_sent: impl Fn() -> Error, not_known: impl Fn() -> Error) {
        let with_cause = |(envelope, sent): (Bytes, Option<Instant>)| match sent {
            None => (envelope, not_sent()),
            Some(_) => (envelope, not_known()),
        };
        self.given_up.extend(self.outbox.give_up().map(with_cause));
    }

    /// Why brokers cannot be reached, if that lasts for so long.
    fn away(&self, limit: Duration) -> Option<&str> {
        let both = [&self.unread, &self.unsent];
        let mut since = both.into_iter().flatten().filter(|(since, _)| since.elapsed() >= limit);
        since.next().map(|(_, why)| why.as_str())
    }
}

impl Orderer for Node {
    fn submit(&mut self, envelope: Bytes) -> Result<(), Refused> {
        let Config { limits, timing, topic, .. } = &self.0.config;
        let mut state = self.state();
        if let Some(why) = &state.closed {
            return Err(Refused::Closed(why.clone()));
        }
        if envelope.len() + OVERHEAD_BYTES > RECORD_BYTES_MAX {
            let bytes_max = RECORD_BYTES_MAX - OVERHEAD_BYTES;
            return Err(Refused::TooLarge { bytes: envelope.len(), bytes_max });
        }
        if let Some(why) = state.away(timing.away) {
            return Err(Refused::Closed(not_sent(topic, why)));
        }
        state.outbox.admit(envelope, limits)?;
        drop(state);
        self.0.pump.notify_one();
        Ok(())
    }

    fn nudge(&mut self) {
        self.state().nudged = true;
        self.0.pump.notify_one();
    }

    fn poll(&mut self, _now_us: i64) -> Option<Delivery> {
        let mut state = self.state();
        let delivery = state.ready.pop_front()?;
        state.ready_bytes -= bytes_of(&delivery);
        state.recorded = delivery.sequence;
        state.outbox.delivered(&delivery);
        drop(state);
        self.0.polled.notify_one();
        Some(delivery)
    }

    fn given_up(&mut self) -> Vec<(Bytes, Error)> {
        let Config { timing, topic, .. } = &self.0.config;
        let mut state = self.state();
        if let Some(why) = state.away(timing.away).map(str::to_owned) {
            state.give_all_up(|| not_sent(topic, &why), || not_known(topic, &why));
        }
        std::mem::take(&mut state.given_up)
    }

    fn withdraw(&mut self, envelope: &Bytes) -> bool {
        self.state().outbox.withdraw(envelope)
    }

    fn hindrance(&self) -> Option<String> {
        if let Some(why) = &*self.0.stopped.borrow() {
            return Some(why.to_string());
        }
        let Config { timing, topic, .. } = &self.0.config;
        let state = self.state();
        let why = state.away(timing.away)?;
        Some(format!("the brokers of topic {topic:?} cannot be reached: {why}"))
    }

    fn resume(&mut self, after: u64, _time_us: i64) -> Result<()> {
        let mut state = self.state();
        state.cutter = state.positions.up_to(after).cloned().map(Cutter::at);
        (state.recorded, state.ready_bytes, state.opened) = (after, 0, None);
        state.ready.clear();
        Ok(())
    }

    fn close(&mut self, why: Error) {
        self.state().closed.get_or_insert(why);
    }

    fn released(&mut self, released: Released) {
        self.state().released = released;
        self.0.pump.notify_one();
    }

    fn confirm(&mut self, tell: Tell) -> bool {
        self.0.asking.join(tell);
        true
    }

    fn leave(&mut self) {
        self.stop();
    }

    fn wake_by(&mut self, wake: Arc<dyn Fn() + Send + Sync>) {
        *lock(&self.0.wake) = Some(wake);
        self.wake();
    }
}

pub(crate) fn keep(positions: &mut Positions, position: &Position) {
    if let Err(error) = positions.put(position) {
        tracing::warn!(%error, "the position in the topic cannot be kept: a start reads more");
    }
}

fn bytes_of(delivery: &Delivery) -> usize {
    let envelopes = delivery.content.iter().flat_map(|content| &content.envelopes);
    envelopes.map(Bytes::len).sum()
}

fn too_large(bytes: usize) -> Error {
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "the transaction is too large for the topic")
        .with_detail(format!("It has {bytes} bytes."))
        .with_hint("Split it into several transactions, or raise max.message.bytes of the topic.")
}

fn not_sent(topic: &str, why: &str) -> Error {
    let what = "the brokers that order transactions cannot be reached";
    Error::new(SqlState::CANNOT_CONNECT_NOW, what)
        .with_detail(format!("The transaction is in no block. Topic {topic:?}: {why}."))
        .with_hint("Try again when they are back; reads are answered meanwhile.")
}

fn not_known(topic: &str, why: &str) -> Error {
    let what = "whether the transaction is in the ledger is not known";
    Error::new(SqlState::TRANSACTION_RESOLUTION_UNKNOWN, what)
        .with_detail(format!("The brokers have not answered. Topic {topic:?}: {why}."))
        .with_hint("With an idempotency key it can be sent again.")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
