//! What a node of a topic makes of envelopes and records, as one value.
//!
//! ```text
//!  submit ─► outbox ─ next ─► a bundle, to be appended        taken in, or refused
//!  records of the topic ─► cutter ─► ready ─ poll ─► the outbox waits for them no more
//! ```
//!
//! No threads, clocks or sockets: [`crate::Node`] gives it those. Times are milliseconds by any
//! steady clock, but that of a bundle.
//!
//! **Invariants.** What waits is bounded in count and bytes. A batch's end is asked for once by a
//! node, unless it is nudged. An envelope counts as tried before it leaves in a bundle. What is in
//! the ledger already is not delivered. Deliveries count up without a gap.

use std::collections::VecDeque;

use bytes::Bytes;
use order::{Delivery, Filling, Limits, Outbox, Proposal, Proposer, Refused, Released};
use types::{Error, Result, SqlState};

use crate::cutter::{Cutter, Position, Stepped};
use crate::record::{Bundle, Drawn, OVERHEAD_BYTES, Record};

/// Batches that a node asks for beyond what it has executed: one is executed while another is
/// ordered, and what comes meanwhile gathers for the next.
const AHEAD_MAX: u64 = 2;
/// Of one record, which brokers take by default.
const RECORD_BYTES_MAX: usize = 1_000_000;
/// What may be cut and not polled before reading pauses.
const READY_MAX: usize = 64;
const READY_BYTES_MAX: usize = 64 << 20;

/// What does not change while a node runs.
#[derive(Clone)]
pub(crate) struct Rules {
    pub incarnation: Drawn,
    pub proposer: Proposer,
    pub limits: Limits,
    /// For people.
    pub topic: String,
    /// For others to end a batch that holds nothing of its own.
    pub cut_ms: u64,
    /// With brokers away, before clients are told.
    pub away_ms: u64,
    /// For what was appended to be delivered, before it is sent again.
    pub lost_ms: u64,
}

/// What a node does next.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Next {
    Append(Bytes),
    /// Nothing for so long, unless something comes.
    WaitMs(u64),
    Wait,
}

/// See the module.
pub(crate) struct Mailbox {
    rules: Rules,
    /// Marked with when it was sent last.
    outbox: Outbox<u64>,
    given_up: Vec<(Bytes, Error)>,
    nudged: bool,
    closed: Option<Error>,
    released: Released,
    /// `None`: the topic's first record is not known yet.
    cutter: Option<Cutter>,
    /// What is in the ledger already.
    recorded: u64,
    ready: VecDeque<Delivery>,
    ready_bytes: usize,
    /// Of this incarnation's last record.
    number: u64,
    /// The last batch whose end this node has asked for.
    asked: u64,
    /// The open batch, and since when it is.
    opened: Option<(u64, u64)>,
    record_bytes_max: usize,
    /// Since when the topic cannot be read, or appended to, and why.
    unread: Option<(u64, String)>,
    unsent: Option<(u64, String)>,
}

impl Mailbox {
    /// Goes on after the delivery `after`, from there in the topic.
    pub fn new(rules: Rules, after: u64, position: Option<Position>) -> Mailbox {
        Mailbox {
            rules,
            outbox: Outbox::default(),
            given_up: Vec::new(),
            nudged: false,
            closed: None,
            released: Released {
                height: after,
                result_hash: [0; 32],
                parameters_hash: [0; 32],
                names_seen: false,
                carried: 0,
            },
            cutter: position.map(Cutter::at),
            recorded: after,
            ready: VecDeque::new(),
            ready_bytes: 0,
            number: 0,
            asked: 0,
            opened: None,
            record_bytes_max: RECORD_BYTES_MAX,
            unread: None,
            unsent: None,
        }
    }

    pub fn resume(&mut self, after: u64, position: Option<Position>) {
        self.cutter = position.map(Cutter::at);
        (self.recorded, self.ready_bytes, self.opened) = (after, 0, None);
        self.ready.clear();
    }

    /// The topic's first record is known.
    pub fn begin(&mut self, position: Position) {
        self.cutter = Some(Cutter::at(position));
    }

    pub fn submit(&mut self, envelope: Bytes, now_ms: u64) -> Result<(), Refused> {
        if let Some(why) = &self.closed {
            return Err(Refused::Closed(why.clone()));
        }
        if envelope.len() + OVERHEAD_BYTES > RECORD_BYTES_MAX {
            let bytes_max = RECORD_BYTES_MAX - OVERHEAD_BYTES;
            return Err(Refused::TooLarge { bytes: envelope.len(), bytes_max });
        }
        if let Some(why) = self.away(now_ms) {
            return Err(Refused::Closed(not_sent(&self.rules.topic, why)));
        }
        self.outbox.admit(envelope, &self.rules.limits)
    }

    pub fn withdraw(&mut self, envelope: &Bytes) -> bool {
        self.outbox.withdraw(envelope)
    }

    pub fn nudge(&mut self) {
        self.nudged = true;
    }

    pub fn close(&mut self, why: Error) {
        self.closed.get_or_insert(why);
    }

    pub fn released(&mut self, released: Released) {
        self.released = released;
    }

    /// See [`order::Orderer::given_up`].
    pub fn given_up(&mut self, now_ms: u64) -> Vec<(Bytes, Error)> {
        if let Some(why) = self.away(now_ms).map(str::to_owned) {
            let topic = self.rules.topic.clone();
            self.give_all_up(|| not_sent(&topic, &why), || not_known(&topic, &why));
        }
        std::mem::take(&mut self.given_up)
    }

    /// Waits for nothing any more, and takes nothing.
    pub fn end(&mut self, cause: &Error) {
        self.closed.get_or_insert_with(|| cause.clone());
        let topic = self.rules.topic.clone();
        self.give_all_up(|| cause.clone(), || not_known(&topic, cause.message()));
    }

    pub fn poll(&mut self) -> Option<Delivery> {
        let delivery = self.ready.pop_front()?;
        self.ready_bytes -= bytes_of(&delivery);
        debug_assert!(!self.ready.is_empty() || self.ready_bytes == 0);
        assert_eq!(delivery.sequence, self.recorded + 1, "deliveries count up without a gap");
        self.recorded = delivery.sequence;
        self.outbox.delivered(&delivery);
        Some(delivery)
    }

    /// Whether so much was cut that reading pauses.
    pub fn is_full(&self) -> bool {
        self.ready.len() >= READY_MAX || self.ready_bytes >= READY_BYTES_MAX
    }

    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The last block that is in the ledger, or was handed over to be.
    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// Offset of the next record.
    pub fn offset(&self) -> Option<u64> {
        self.cutter.as_ref().map(Cutter::offset)
    }

    /// The same with the checksum of the record before it.
    pub fn place(&self) -> Option<(u64, u32)> {
        self.cutter.as_ref().map(|cutter| (cutter.offset(), cutter.last_crc()))
    }

    /// The last batch that was cut, in which the ledger's blocks are counted too.
    pub fn sequence(&self) -> u64 {
        self.cutter.as_ref().map_or(0, Cutter::sequence).max(self.recorded)
    }

    /// A record of the topic. `None`: it was read before. Fails if it is not the next one.
    pub fn read(&mut self, offset: u64, bytes: &Bytes) -> Result<Option<Stepped>> {
        let cutter = self.cutter.as_mut();
        let cutter = cutter.filter(|cutter| offset >= cutter.offset());
        cutter.map(|cutter| cutter.step(offset, bytes)).transpose()
    }

    /// A batch that a record has ended and that is not in the ledger.
    pub fn deliver(&mut self, delivery: Delivery) {
        assert!(delivery.sequence > self.recorded, "what is in the ledger is not delivered");
        let newest = self.ready.back().map(|newest| newest.sequence);
        debug_assert!(newest.is_none_or(|newest| newest + 1 == delivery.sequence), "no gap");
        self.ready_bytes += bytes_of(&delivery);
        self.ready.push_back(delivery);
    }

    /// After some records: whether a batch is open, and since when.
    pub fn look_at_open(&mut self, now_ms: u64) {
        let Some(cutter) = &self.cutter else { return };
        let open = cutter.sequence() + 1;
        let (is_open, _) = cutter.open(&self.rules.incarnation);
        self.opened = match self.opened {
            _ if !is_open => None,
            Some((number, since)) if number == open => Some((number, since)),
            _ => Some((open, now_ms)),
        };
    }

    /// The topic cannot be read; whether that is new.
    pub fn cannot_read(&mut self, why: &str, now_ms: u64) -> bool {
        let is_new = self.unread.is_none();
        self.unread.get_or_insert_with(|| (now_ms, why.to_owned()));
        is_new
    }

    pub fn can_read(&mut self) {
        self.unread = None;
    }

    pub fn cannot_append(&mut self, why: String, now_ms: u64) {
        self.unsent.get_or_insert((now_ms, why));
    }

    pub fn can_append(&mut self) {
        self.unsent = None;
    }

    /// Why brokers cannot be reached, if they cannot.
    pub fn trouble(&self) -> Option<&str> {
        self.unread.as_ref().or(self.unsent.as_ref()).map(|(_, why)| why.as_str())
    }

    /// The same, if that lasts for so long that clients are told.
    pub fn away(&self, now_ms: u64) -> Option<&str> {
        let both = [&self.unread, &self.unsent];
        let mut since =
            both.into_iter().flatten().filter(|(since, _)| self.is_long(*since, now_ms));
        since.next().map(|(_, why)| why.as_str())
    }

    pub fn is_unread_for_long(&self, now_ms: u64) -> bool {
        self.unread.as_ref().is_some_and(|(since, _)| self.is_long(*since, now_ms))
    }

    fn is_long(&self, since_ms: u64, now_ms: u64) -> bool {
        now_ms.saturating_sub(since_ms) >= self.rules.away_ms
    }

    /// The topic takes no record of this size: smaller ones from now on, and an envelope that alone
    /// is too large is given up.
    pub fn too_large(&mut self, record: &Bytes) {
        let Ok(Record::Bundle(bundle)) = Record::decode(record) else { return };
        self.record_bytes_max = (record.len() / 2).max(OVERHEAD_BYTES);
        match &bundle.proposal.envelopes[..] {
            [envelope] => self.give_up(envelope, too_large(envelope.len())),
            envelopes => self.outbox.refused(envelopes),
        }
    }

    /// What there is to append. The time of a bundle is asked for when there is one.
    pub fn next(&mut self, now_ms: u64, clock: impl FnOnce() -> i64) -> Next {
        let Some(cutter) = &self.cutter else { return Next::Wait };
        let (log, limits) = (cutter.log(), *cutter.limits());
        let (last, (is_open, is_own)) = (cutter.sequence(), cutter.open(&self.rules.incarnation));
        let is_idle = last.saturating_sub(self.released.height) < AHEAD_MAX;
        let envelopes = self.take(&limits, now_ms);
        let forced = std::mem::take(&mut self.nudged);
        if envelopes.is_empty() && !forced {
            if !is_open || !is_idle || self.asked > last {
                return Next::Wait;
            }
            let since_ms = self.opened.map_or(0, |(_, since)| now_ms.saturating_sub(since));
            if !is_own && since_ms < self.rules.cut_ms {
                return Next::WaitMs(self.rules.cut_ms - since_ms);
            }
        }
        let cut = if is_idle || forced { last + 1 } else { 0 };
        debug_assert!(cut == 0 || cut == last + 1, "only the open batch is asked to end");
        self.asked = self.asked.max(cut);
        self.number += 1;
        let Released { height, names_seen, carried, .. } = self.released;
        let (number, carried) = (self.number, carried as u64);
        let seen_height = if names_seen { height } else { 0 };
        let Rules { incarnation, proposer, .. } = self.rules;
        let proposal = Proposal { time_us: clock(), proposer, seen_height, envelopes };
        let bundle = Bundle { log, incarnation, number, cut, forced, carried, proposal };
        Next::Append(bundle.encode())
    }

    /// Envelopes for one record.
    fn take(&mut self, limits: &Limits, now_ms: u64) -> Vec<Bytes> {
        let is_away = self.unread.is_some() || !self.ready.is_empty();
        let lost_ms = self.rules.lost_ms;
        self.outbox.resend(|sent_ms| !is_away && now_ms.saturating_sub(*sent_ms) >= lost_ms);
        // What no record takes, in front of what one does.
        loop {
            let (mut filling, mut bytes) = (Filling::default(), OVERHEAD_BYTES);
            let most = self.record_bytes_max;
            let taken = self.outbox.take(now_ms, |envelope| {
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

    fn give_all_up(&mut self, not_sent: impl Fn() -> Error, not_known: impl Fn() -> Error) {
        let with_cause = |(envelope, sent): (Bytes, Option<u64>)| match sent {
            None => (envelope, not_sent()),
            Some(_) => (envelope, not_known()),
        };
        self.given_up.extend(self.outbox.give_up().map(with_cause));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Cuts, Marker};

    /// It has read the marker, the first record of an empty topic.
    fn mailbox(incarnation: u8) -> Mailbox {
        let rules = Rules {
            incarnation: [incarnation; 16],
            proposer: [incarnation; 32],
            limits: Limits::default(),
            topic: "orders".to_owned(),
            cut_ms: 30,
            away_ms: 5_000,
            lost_ms: 20_000,
        };
        let cuts = Cuts::of(&rules.limits);
        let marker = Marker { log: [9; 16], ledger_id: [1; 16], cuts };
        Mailbox::new(rules, 0, Some(Position::behind(&marker, &marker.encode())))
    }

    fn appended(mailbox: &mut Mailbox, now_ms: u64) -> Option<Bytes> {
        match mailbox.next(now_ms, || 7) {
            Next::Append(record) => Some(record),
            Next::Wait | Next::WaitMs(_) => None,
        }
    }

    fn bundle(record: &Bytes) -> Bundle {
        match Record::decode(record).unwrap() {
            Record::Bundle(bundle) => bundle,
            Record::Marker(_) => panic!("a marker"),
        }
    }

    /// Reads a record, and delivers what it has ended.
    fn read(mailbox: &mut Mailbox, offset: u64, record: &Bytes, now_ms: u64) {
        let stepped = mailbox.read(offset, record).unwrap().expect("it was not read before");
        stepped.cut.into_iter().for_each(|(delivery, _)| mailbox.deliver(delivery));
        mailbox.look_at_open(now_ms);
    }

    #[test]
    fn a_lone_envelope_asks_for_the_end_of_its_batch_and_is_delivered_once() {
        let mut mailbox = mailbox(1);
        let envelope = Bytes::from_static(b"a");
        assert_eq!(mailbox.next(0, || 7), Next::Wait);
        mailbox.submit(envelope.clone(), 0).unwrap();
        let record = appended(&mut mailbox, 0).unwrap();
        let bundle = bundle(&record);
        assert_eq!((bundle.cut, bundle.proposal.time_us), (1, 7));
        assert_eq!(bundle.proposal.envelopes, [envelope]);
        read(&mut mailbox, 1, &record, 0);
        assert!(mailbox.read(1, &record).unwrap().is_none(), "it was read before");
        assert_eq!(mailbox.poll().unwrap().sequence, 1);
        assert!(mailbox.poll().is_none());
        assert!(appended(&mut mailbox, 30_000).is_none(), "it waits for nothing any more");
    }

    #[test]
    fn a_batch_of_others_is_ended_after_a_while_and_what_is_lost_is_sent_again() {
        let (mut first, mut second) = (mailbox(1), mailbox(2));
        // One that has two batches to execute asks for no end.
        first.asked = 2;
        first.submit(Bytes::from_static(b"a"), 0).unwrap();
        let mut record = bundle(&appended(&mut first, 0).unwrap());
        record.cut = 0;
        let record = record.encode();
        read(&mut second, 1, &record, 100);
        assert_eq!(second.next(110, || 7), Next::WaitMs(20));
        let end = bundle(&appended(&mut second, 130).unwrap());
        assert_eq!((end.cut, end.proposal.envelopes.len()), (1, 0));
        assert!(appended(&mut second, 500).is_none(), "it has asked");
        assert!(appended(&mut first, 19_999).is_none());
        assert_eq!(bundle(&appended(&mut first, 20_000).unwrap()).proposal.envelopes, ["a"]);
    }

    #[test]
    fn while_brokers_are_away_clients_are_told_what_is_known() {
        let mut mailbox = mailbox(1);
        mailbox.submit(Bytes::from_static(b"sent"), 0).unwrap();
        appended(&mut mailbox, 0).unwrap();
        mailbox.cannot_append("refused".to_owned(), 1_000);
        mailbox.submit(Bytes::from_static(b"unsent"), 1_000).unwrap();
        assert!(mailbox.given_up(5_999).is_empty());
        let given_up = mailbox.given_up(6_000);
        let codes: Vec<_> = given_up.iter().map(|(_, why)| why.code()).collect();
        let known = SqlState::CANNOT_CONNECT_NOW;
        assert_eq!(codes, [SqlState::TRANSACTION_RESOLUTION_UNKNOWN, known]);
        let refused = mailbox.submit(Bytes::from_static(b"later"), 6_000);
        assert!(matches!(refused, Err(Refused::Closed(why)) if why.code() == known));
        mailbox.can_append();
        mailbox.submit(Bytes::from_static(b"later"), 6_000).unwrap();
    }

    #[test]
    fn a_record_that_is_too_large_is_split_until_an_envelope_is_given_up() {
        let mut mailbox = mailbox(1);
        for text in [&b"one"[..], b"two"] {
            mailbox.submit(Bytes::from_static(text).repeat(100).into(), 0).unwrap();
        }
        let record = appended(&mut mailbox, 0).unwrap();
        assert_eq!(bundle(&record).proposal.envelopes.len(), 2);
        mailbox.too_large(&record);
        let record = appended(&mut mailbox, 0).unwrap();
        assert_eq!(bundle(&record).proposal.envelopes.len(), 1);
        mailbox.too_large(&record);
        let given_up = mailbox.given_up(0);
        assert_eq!(given_up.len(), 1);
        assert_eq!(given_up[0].1.code(), SqlState::PROGRAM_LIMIT_EXCEEDED);
    }
}
