//! A modelled orderer for simulations: several nodes, a network that a seed disturbs, one log.
//!
//! ```text
//! node 0  submit ─► outbox ─┐  messages: delayed, lost, doubled,   ┌─► early ─► poll  node 0
//! node 1  submit ─► outbox ─┼──────► sequencer: log 1, 2, 3, … ────┼─► early ─► poll  node 1
//! node 2  submit ─► outbox ─┘        overtaking one another        └─► early ─► poll  node 2
//! ```
//!
//! The sequencer stands for what Raft's, Kafka's or CometBFT's cluster is to its clients: one log
//! that outlives every node. It is trusted, and what a message does on its way is not. A node keeps
//! an envelope until a delivery holds it, and sends it again when it hears nothing for a while; so
//! a slow message may bring a second copy. What comes early waits for what lies before it.
//!
//! [`Model::pass`] is one tick of the network. Everything follows from the seed and the calls.
//!
//! **Invariants.** A node that stops loses its outbox and its place, never the log. Outboxes and
//! what comes early are bounded; the sequencer drops what exceeds all outboxes together, which is
//! a message lost. Without [`Faults`] a message takes one tick, and nothing is sent twice.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use kit::random::Random;
use types::{Error, Result, SqlState};

use crate::orderer::{Limits, Orderer, Refused};
use crate::outbox::Outbox;
use crate::proposal::{Certificate, CertificateKind, Delivery, Proposal};

/// Deliveries that a node may hold ahead of the one that is missing.
const EARLY_MAX: u64 = 32;
/// Ticks after which an envelope is sent again, beyond the longest way there and back.
const PATIENCE: u64 = 4;

/// What the network may do to each message.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Ticks that a message may take beyond its one.
    pub delay_max: u64,
    /// One in so many messages is lost; 0: none.
    pub lost_one_in: u64,
    /// One in so many messages arrives twice; 0: none.
    pub doubled_one_in: u64,
    /// In one of so many ticks the log gets an entry without a batch; 0: never.
    pub empty_one_in: u64,
}

impl Faults {
    pub const NONE: Faults =
        Faults { delay_max: 0, lost_one_in: 0, doubled_one_in: 0, empty_one_in: 0 };
    pub const MANY: Faults =
        Faults { delay_max: 12, lost_one_in: 5, doubled_one_in: 10, empty_one_in: 20 };
}

#[derive(Clone)]
struct Submitted {
    node: usize,
    /// `None`: a nudge.
    envelope: Option<Bytes>,
    /// The sender's clock.
    clock_us: i64,
}

#[derive(Clone)]
enum Message {
    Submit(Submitted),
    Deliver { to: usize, delivery: Delivery },
}

/// See the module.
pub struct Model {
    random: Random,
    faults: Faults,
    tick: u64,
    nodes: Vec<Node>,
    /// By arrival, then by the order of sending.
    flying: BTreeMap<(u64, u64), Message>,
    sent: u64,
    sequencer: Sequencer,
}

struct Sequencer {
    limits: Limits,
    arrived: VecDeque<Submitted>,
    log: Vec<Delivery>,
    time_us: i64,
}

/// One node's view of the order.
pub struct Node {
    limits: Limits,
    node: usize,
    /// Unknown until the first poll: nothing is sent before.
    clock_us: Option<i64>,
    skew_us: i64,
    /// Marked with the tick in which it is sent again.
    outbox: Outbox<u64>,
    nudged: bool,
    closed: Option<Error>,
    early: BTreeMap<u64, Delivery>,
    next_sequence: u64,
}

impl Model {
    /// `skew_us_max` is how far a node's clock may be off.
    pub fn new(seed: u64, nodes: usize, limits: Limits, skew_us_max: u64) -> Self {
        let mut random = Random::new(seed);
        let mut skew = || random.below(2 * skew_us_max + 1) as i64 - skew_us_max as i64;
        let nodes = (0..nodes).map(|node| Node::new(node, limits, skew())).collect();
        Model {
            random,
            faults: Faults::NONE,
            tick: 0,
            nodes,
            flying: BTreeMap::new(),
            sent: 0,
            sequencer: Sequencer {
                limits,
                arrived: VecDeque::new(),
                log: Vec::new(),
                time_us: i64::MIN,
            },
        }
    }

    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    pub fn node(&mut self, node: usize) -> &mut Node {
        &mut self.nodes[node]
    }

    /// The node stops and starts: it knows nothing until it resumes.
    pub fn restart(&mut self, node: usize) {
        let Node { limits, skew_us, .. } = self.nodes[node];
        self.nodes[node] = Node::new(node, limits, skew_us);
    }

    /// The log gets an entry without a batch.
    pub fn empty_entry(&mut self) {
        self.sequencer.append(None);
    }

    /// One tick: messages arrive, the sequencer cuts, messages leave.
    pub fn pass(&mut self) {
        self.tick += 1;
        while let Some(message) = self.arriving() {
            match message {
                Message::Submit(submitted) => self.sequencer.arrive(submitted, self.nodes.len()),
                Message::Deliver { to, delivery } => self.nodes[to].receive(delivery),
            }
        }
        if self.faults.empty_one_in > 0 && self.random.chance(self.faults.empty_one_in) {
            self.empty_entry();
        }
        self.sequencer.cut();
        self.send_submissions();
        self.send_deliveries();
    }

    fn arriving(&mut self) -> Option<Message> {
        let first = self.flying.first_entry()?;
        (first.key().0 <= self.tick).then(|| first.remove())
    }

    fn send_submissions(&mut self) {
        let again = self.tick + PATIENCE + 2 * (2 + self.faults.delay_max);
        for node in 0..self.nodes.len() {
            for submitted in self.nodes[node].outgoing(self.tick, again) {
                self.send(Message::Submit(submitted));
            }
        }
    }

    fn send_deliveries(&mut self) {
        for to in 0..self.nodes.len() {
            let next = self.nodes[to].next_sequence;
            for sequence in next..next + EARLY_MAX {
                let Some(delivery) = self.sequencer.log.get(sequence as usize - 1) else {
                    break;
                };
                if !self.nodes[to].early.contains_key(&sequence) {
                    self.send(Message::Deliver { to, delivery: delivery.clone() });
                }
            }
        }
    }

    fn send(&mut self, message: Message) {
        let Faults { delay_max, lost_one_in, doubled_one_in, .. } = self.faults;
        if lost_one_in > 0 && self.random.chance(lost_one_in) {
            return;
        }
        let doubled = doubled_one_in > 0 && self.random.chance(doubled_one_in);
        for _ in 0..1 + usize::from(doubled) {
            self.sent += 1;
            let arrival = self.tick + 1 + self.random.below(delay_max + 1);
            self.flying.insert((arrival, self.sent), message.clone());
        }
    }
}

impl Sequencer {
    fn arrive(&mut self, submitted: Submitted, nodes: usize) {
        if self.arrived.len() < self.limits.queued_max.saturating_mul(nodes) {
            self.arrived.push_back(submitted);
        }
    }

    /// Everything that arrived, in batches. The first sender of a batch is its proposer.
    fn cut(&mut self) {
        while let Some(first) = self.arrived.front() {
            let (time_us, proposer) = (first.clock_us, [first.node as u8 + 1; 32]);
            let sizes = self.arrived.iter().map(|s| s.envelope.as_ref().map_or(0, Bytes::len));
            let count = self.limits.fit(0, sizes).max(1);
            let batch: Vec<Submitted> = self.arrived.drain(..count).collect();
            let envelopes = batch.into_iter().filter_map(|submitted| submitted.envelope).collect();
            self.time_us = self.time_us.max(time_us);
            let proposal = Proposal { time_us: self.time_us, proposer, seen_height: 0, envelopes };
            self.append(Some(proposal));
        }
    }

    fn append(&mut self, content: Option<Proposal>) {
        let sequence = self.log.len() as u64 + 1;
        let evidence = Bytes::copy_from_slice(&sequence.to_be_bytes());
        let certificate = Certificate { kind: CertificateKind::Model, evidence };
        self.log.push(Delivery { sequence, content, certificate });
    }
}

impl Node {
    fn new(node: usize, limits: Limits, skew_us: i64) -> Self {
        Node {
            limits,
            node,
            clock_us: None,
            skew_us,
            outbox: Outbox::default(),
            nudged: false,
            closed: None,
            early: BTreeMap::new(),
            next_sequence: 1,
        }
    }

    fn outgoing(&mut self, tick: u64, again: u64) -> Vec<Submitted> {
        let Node { node, clock_us: Some(clock_us), .. } = *self else {
            return Vec::new();
        };
        let nudge = std::mem::take(&mut self.nudged).then_some(None);
        self.outbox.resend(|due| *due <= tick);
        let envelopes = self.outbox.take(again, |_| true).envelopes;
        let envelopes = nudge.into_iter().chain(envelopes.into_iter().map(Some));
        envelopes.map(|envelope| Submitted { node, envelope, clock_us }).collect()
    }

    fn receive(&mut self, delivery: Delivery) {
        let sequence = delivery.sequence;
        if (self.next_sequence..self.next_sequence + EARLY_MAX).contains(&sequence) {
            self.early.insert(sequence, delivery);
        }
    }
}

impl Orderer for Node {
    fn submit(&mut self, envelope: Bytes) -> Result<(), Refused> {
        if let Some(why) = &self.closed {
            return Err(Refused::Closed(why.clone()));
        }
        self.outbox.admit(envelope, &self.limits)
    }

    /// A nudge may be lost: what was deferred waits for the next one, or for the next envelope.
    fn nudge(&mut self) {
        self.nudged = true;
    }

    fn poll(&mut self, now_us: i64) -> Option<Delivery> {
        self.clock_us = Some(now_us.saturating_add(self.skew_us));
        let delivery = self.early.remove(&self.next_sequence)?;
        self.next_sequence += 1;
        self.outbox.delivered(&delivery);
        Some(delivery)
    }

    /// The log knows the times.
    fn resume(&mut self, after: u64, _time_us: i64) -> Result<()> {
        let next_sequence = after.checked_add(1).ok_or_else(|| {
            Error::new(SqlState::INVALID_PARAMETER_VALUE, "no delivery follows the last number")
        })?;
        self.next_sequence = next_sequence;
        Ok(())
    }

    fn close(&mut self, why: Error) {
        self.closed.get_or_insert(why);
    }
}
