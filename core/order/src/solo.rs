//! The embedded orderer: one node, in order of arrival.
//!
//! *Idle means at once, load means batches.* A cut takes whatever waits, so a lone envelope is a
//! batch of its own and meets no timer; while a block is executed and synced, envelopes gather and
//! make the next batch. How long a cut may wait for more of them is the caller's business, who has
//! the clock: [`Solo::waiting`] says how many there are.
//!
//! A batch holds envelopes up to a count and a number of bytes, and takes one of any size that a
//! block has room for. Schema changes stand where they arrived, like anything else. A batch always
//! fits its block: each envelope is counted with the longest outcome that it can have, beside those
//! of transactions that earlier blocks deferred.
//!
//! A value can go along with each envelope (a compiled program, a reply's channel), so that its
//! node need not look it up when the batch comes back.
//!
//! Solo keeps nothing: what it delivered is durable where its consumer wrote it down, and after a
//! restart it counts on from there.
//!
//! **Cost.** A push and a pop. Around it a live node puts one mutex and one condition variable.

use std::collections::VecDeque;

use bytes::Bytes;
use types::{Error, Height, Result};

use crate::orderer::{Limits, Orderer, Refused};
use crate::proposal::{Certificate, Delivery, Proposal, Proposer};

/// See the module.
pub struct Solo<T = ()> {
    limits: Limits,
    proposer: Proposer,
    seen_height: Height,
    waiting: VecDeque<(Bytes, T)>,
    waiting_bytes: usize,
    nudged: bool,
    closed: Option<Error>,
    /// Of the last batch.
    time_us: i64,
    /// Of the last delivery.
    sequence: u64,
}

impl<T> Solo<T> {
    pub fn new(limits: Limits, proposer: Proposer) -> Self {
        Solo {
            limits,
            proposer,
            seen_height: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            nudged: false,
            closed: None,
            time_us: i64::MIN,
            sequence: 0,
        }
    }

    pub fn submit(&mut self, envelope: Bytes, attached: T) -> Result<(), Refused> {
        if let Some(why) = &self.closed {
            return Err(Refused::Closed(why.clone()));
        }
        self.limits.admit(envelope.len(), self.waiting.len(), self.waiting_bytes)?;
        self.waiting_bytes += envelope.len();
        self.waiting.push_back((envelope, attached));
        debug_assert!(self.waiting.len() <= self.limits.queued_max, "so many may wait");
        Ok(())
    }

    /// The next batch and what goes along with its envelopes, in the same order; `None` if nothing
    /// waits. The batch bears `now_us`, or the time of the one before where the clock was set back.
    pub fn cut(&mut self, now_us: i64) -> Option<(Proposal, Vec<T>)> {
        self.cut_beside(now_us, 0)
    }

    /// The same for a block that also runs `carried` transactions which earlier ones deferred: it
    /// leaves room for them, and is wanted for them alone if nothing waits.
    pub fn cut_beside(&mut self, now_us: i64, carried: usize) -> Option<(Proposal, Vec<T>)> {
        self.cut_at_most(now_us, carried, usize::MAX)
    }

    /// The same, of so many envelopes at most: others are to make the batch after it.
    pub fn cut_at_most(
        &mut self,
        now_us: i64,
        carried: usize,
        most: usize,
    ) -> Option<(Proposal, Vec<T>)> {
        if self.waiting.is_empty() && carried == 0 && !self.nudged {
            return None;
        }
        self.nudged = false;
        let sizes = self.waiting.iter().map(|(envelope, _)| envelope.len());
        let count = self.limits.fit(carried, sizes.take(most));
        let (envelopes, attached): (Vec<Bytes>, Vec<T>) = self.waiting.drain(..count).unzip();
        self.leave(envelopes.iter().map(Bytes::len).sum());
        self.time_us = self.time_us.max(now_us);
        self.sequence += 1;
        let Solo { time_us, proposer, seen_height, .. } = *self;
        let proposal = Proposal { time_us, proposer, seen_height, envelopes };
        Some((proposal, attached))
    }

    /// Opens a batch that its consumer fills by [`take`](Self::take), within the limits: the time
    /// that it bears, and who proposes it.
    pub fn open(&mut self, now_us: i64) -> (i64, Proposer) {
        self.nudged = false;
        self.time_us = self.time_us.max(now_us);
        self.sequence += 1;
        (self.time_us, self.proposer)
    }

    /// The envelope that has waited longest.
    pub fn first(&self) -> Option<&(Bytes, T)> {
        self.waiting.front()
    }

    /// Takes that one.
    pub fn take(&mut self) -> Option<(Bytes, T)> {
        let first = self.waiting.pop_front()?;
        self.leave(first.0.len());
        Some(first)
    }

    /// Takes one back that is in no batch yet, the last that `is_it` is said of.
    pub fn withdraw(&mut self, is_it: impl Fn(&T) -> bool) -> Option<(Bytes, T)> {
        let place = self.waiting.iter().rposition(|(_, attached)| is_it(attached))?;
        let withdrawn = self.waiting.remove(place)?;
        self.leave(withdrawn.0.len());
        Some(withdrawn)
    }

    /// Envelopes of so many bytes have been taken off those that wait.
    fn leave(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.waiting_bytes, "what leaves had been counted");
        self.waiting_bytes -= bytes;
        debug_assert!(!self.waiting.is_empty() || self.waiting_bytes == 0, "no bytes of none");
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Envelopes that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The sequence of the last batch.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Why nothing is taken any more.
    pub fn closed(&self) -> Option<&Error> {
        self.closed.as_ref()
    }

    /// Its node has released this block: later batches have seen it.
    pub fn released(&mut self, height: Height) {
        self.seen_height = height;
    }

    pub fn nudge(&mut self) {
        self.nudged = true;
    }

    /// Counts on from here. What waits goes on waiting.
    pub fn resume(&mut self, after: u64, time_us: i64) {
        self.sequence = after;
        self.time_us = time_us;
    }

    /// The first cause counts.
    pub fn close(&mut self, why: Error) {
        self.closed.get_or_insert(why);
    }
}

impl Orderer for Solo {
    fn submit(&mut self, envelope: Bytes) -> Result<(), Refused> {
        Solo::submit(self, envelope, ())
    }

    fn nudge(&mut self) {
        Solo::nudge(self);
    }

    fn poll(&mut self, now_us: i64) -> Option<Delivery> {
        let (proposal, _) = self.cut(now_us)?;
        Some(Delivery {
            sequence: self.sequence,
            content: Some(proposal),
            certificate: Certificate::solo(),
        })
    }

    fn resume(&mut self, after: u64, time_us: i64) -> Result<()> {
        Solo::resume(self, after, time_us);
        Ok(())
    }

    fn close(&mut self, why: Error) {
        Solo::close(self, why);
    }
}
