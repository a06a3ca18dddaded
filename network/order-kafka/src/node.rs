//! A node whose transactions are ordered by a Kafka topic: the tasks between the topic and the
//! [queues](crate::mailbox).
//!
//! The queues decide what is appended, cut into batches and delivered; they use no threads, clock
//! or network. This module gives them these, and retries what fails.
//!
//! ```text
//! reader   check the topic ─► fetch ─► mailbox: cut into batches ─► poll (by the engine)
//!               ▲                 │
//!               └─── on error ────┘    wait, then check again
//! sender   mailbox ─ next ─► append, with the same bytes until a broker acknowledges or rejects it
//! asker    read up to the end of the topic, for linearizable reads (crate::confirm)
//! ```
//!
//! *Why the topic is checked* at the start and after each error: one that was truncated, recreated
//! or belongs to another ledger has other records at the same offsets, and the node would execute
//! transactions that the others do not. A mismatch stops the node for good; an unreachable broker
//! is retried for ever.
//!
//! *Why the same bytes.* An append whose acknowledgement was lost may have succeeded. Every reader
//! recognises the copy by its content and skips it. Only one append is in flight, so the order of
//! this node's envelopes is kept.
//!
//! *After a restart* reading begins at a saved position. Batches that the ledger already has are
//! compared with it instead of delivered. *Back-pressure:* the reader stops fetching while the
//! queue of undelivered batches is full.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use kit::sync::lock;
use ledger::{Files, LogReader};
use order::{Delivery, Orderer, Refused, Released, Tell};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use types::{Error, Height, Result, SqlState};

use crate::confirm::Asking;
use crate::cutter::Position;
use crate::mailbox::{Mailbox, Next, Rules};
use crate::positions::{EVERY, Positions};
use crate::{Config, Log, LogError};

/// How long the tasks sleep at most.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A handle; clones are the same node.
#[derive(Clone)]
pub struct Node(Arc<Shared>);

struct Shared {
    config: Config,
    began: Instant,
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
    pub mailbox: Mailbox,
    pub positions: Positions,
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
    Retry(String),
    /// There is nothing to go on with.
    Stop(Error),
}

impl From<LogError> for Trouble {
    fn from(error: LogError) -> Trouble {
        Trouble::Retry(error.to_string())
    }
}

impl Node {
    /// Takes part from now on, after the delivery `after`, the last block of the ledger in
    /// `files`. Runs in the current runtime.
    pub fn start(
        config: Config,
        log: Arc<dyn Log>,
        files: Arc<dyn Files>,
        after: u64,
    ) -> io::Result<Node> {
        let positions = Positions::open(&files)?;
        let millis = |duration: Duration| duration.as_millis() as u64;
        let rules = Rules {
            incarnation: config.incarnation,
            proposer: config.proposer,
            limits: config.limits,
            topic: config.topic.clone(),
            cut_ms: millis(config.timing.cut),
            away_ms: millis(config.timing.away),
            lost_ms: millis(config.timing.lost),
        };
        let mailbox = Mailbox::new(rules, after, positions.up_to(after).cloned());
        let state = State { mailbox, positions };
        let node = Node(Arc::new(Shared {
            config,
            began: Instant::now(),
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
        let offset = state.mailbox.offset().unwrap_or(0);
        let sequence = state.mailbox.sequence();
        let away = state.mailbox.trouble().map(str::to_owned);
        let stopped = self.0.stopped.borrow().as_ref().map(ToString::to_string);
        Standing { offset, sequence, away, stopped }
    }

    /// The position to begin at after a block, for [`crate::begin_behind`].
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

    pub(crate) fn now_ms(&self) -> u64 {
        self.0.began.elapsed().as_millis() as u64
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
                Ok(()) => self.state().mailbox.can_read(),
                Err(Trouble::Retry(why)) => {
                    is_sure = false;
                    self.is_away(why);
                    sleep(self.0.config.timing.retry).await;
                }
                Err(Trouble::Stop(cause)) => {
                    self.state().mailbox.end(&cause);
                    self.0.stopped.send_replace(Some(cause));
                    self.wake();
                    return;
                }
            }
        }
    }

    fn is_away(&self, why: String) {
        if self.state().mailbox.cannot_read(&why, self.now_ms()) {
            tracing::warn!(topic = self.0.config.topic, why, "the topic cannot be read; waiting");
        }
    }

    async fn follow_on(
        &self,
        is_sure: &mut bool,
        compared: &mut Option<LogReader>,
    ) -> Result<(), Trouble> {
        if !*is_sure {
            self.check_topic().await?;
            *is_sure = true;
            self.0.pump.notify_one();
        }
        while self.state().mailbox.is_full() {
            let _ = timeout(LOOK_AGAIN, self.0.polled.notified()).await;
        }
        let Some(from) = self.state().mailbox.offset() else {
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

    /// Cuts what was read; whether there is something to poll.
    fn take(
        &self,
        records: Vec<(u64, Bytes)>,
        compared: &mut Option<LogReader>,
    ) -> Result<bool, Trouble> {
        let mut state = self.state();
        let State { mailbox, positions } = &mut *state;
        for (offset, bytes) in records {
            let read = mailbox.read(offset, &bytes);
            let Some(stepped) = read.map_err(|error| self.lost(error.message()))? else { continue };
            if let Some(why) = stepped.void {
                tracing::warn!(offset, why, "a record of the topic is passed over");
            }
            for (delivery, position) in stepped.cut {
                if delivery.sequence.is_multiple_of(EVERY) {
                    keep(positions, &position);
                }
                match delivery.sequence <= mailbox.recorded() {
                    true => self.compare(&delivery, compared)?,
                    false => mailbox.deliver(delivery),
                }
            }
        }
        let Some(offset) = mailbox.offset() else { return Ok(false) };
        mailbox.look_at_open(self.now_ms());
        let any = mailbox.has_ready();
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
            let next = self.state().mailbox.next(self.now_ms(), || (self.0.config.clock)());
            let limit = match next {
                Next::Append(record) => {
                    self.append(record).await;
                    continue;
                }
                Next::Wait => LOOK_AGAIN,
                Next::WaitMs(limit) => Duration::from_millis(limit),
            };
            let _ = timeout(limit, self.0.pump.notified()).await;
        }
    }

    async fn append(&self, record: Bytes) {
        loop {
            match self.0.log.append(record.clone()).await {
                Ok(()) => {
                    self.state().mailbox.can_append();
                    return;
                }
                Err(LogError::TooLarge) => {
                    self.state().mailbox.too_large(&record);
                    return;
                }
                Err(error) => {
                    let Trouble::Retry(why) = Trouble::from(error) else { return };
                    self.state().mailbox.cannot_append(why, self.now_ms());
                    sleep(self.0.config.timing.retry).await;
                }
            }
        }
    }
}

impl Orderer for Node {
    fn submit(&mut self, envelope: Bytes) -> Result<(), Refused> {
        self.state().mailbox.submit(envelope, self.now_ms())?;
        self.0.pump.notify_one();
        Ok(())
    }

    fn nudge(&mut self) {
        self.state().mailbox.nudge();
        self.0.pump.notify_one();
    }

    fn poll(&mut self, _now_us: i64) -> Option<Delivery> {
        let delivery = self.state().mailbox.poll()?;
        self.0.polled.notify_one();
        Some(delivery)
    }

    fn given_up(&mut self) -> Vec<(Bytes, Error)> {
        self.state().mailbox.given_up(self.now_ms())
    }

    fn withdraw(&mut self, envelope: &Bytes) -> bool {
        self.state().mailbox.withdraw(envelope)
    }

    fn hindrance(&self) -> Option<String> {
        if let Some(why) = &*self.0.stopped.borrow() {
            return Some(why.to_string());
        }
        let topic = &self.0.config.topic;
        let state = self.state();
        let why = state.mailbox.away(self.now_ms())?;
        Some(format!("the brokers of topic {topic:?} cannot be reached: {why}"))
    }

    fn resume(&mut self, after: u64, _time_us: i64) -> Result<()> {
        let mut state = self.state();
        let position = state.positions.up_to(after).cloned();
        state.mailbox.resume(after, position);
        Ok(())
    }

    fn close(&mut self, why: Error) {
        self.state().mailbox.close(why);
    }

    fn released(&mut self, released: Released) {
        self.state().mailbox.released(released);
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
