//! What becomes of envelopes (submitted transactions) at a node of Raft, as a state machine without
//! I/O.
//!
//! ```text
//!  submit ─► outbox ─┬─ this node leads ─────────► inbox ─ cut ─► a draft for Raft's log
//!                    └─ another one does ─ unsent ─► its inbox
//!  delivered ─► they are gone from the outbox
//! ```
//!
//! There are no threads, clocks, sockets or Raft in it: [`crate::Node`] tells it the time, which
//! node leads in which term, and how far the log is. Times are milliseconds of any monotonic clock,
//! except the time of a draft.
//!
//! **A regime** is a term and its leader. When it changes, each node sends its whole outbox again.
//! So the inbox can be emptied: all that was in it is still in the outbox of the node that took it.
//!
//! **How large a draft is.** What waits when it may be made: one alone goes at once, and beside a
//! block that is executed others gather. A leader whose operator asks for full blocks, as other
//! systems' orderers make them, lets one wait for that, up to a time; for a change of schema or
//! parameters, which stands alone, it does not.
//!
//! **Invariants.** Outbox and inbox are bounded in count and bytes. At most [`AHEAD_MAX`] drafts
//! are ahead of the last released (executed) block. After an envelope that may change parameters,
//! nothing is drafted until its block was released. An envelope is marked as tried before it leaves
//! for another node or goes into a draft; from then on it can no longer be withdrawn for certain.

use std::collections::{HashSet, VecDeque};

use bytes::Bytes;
use ledger::ZERO_HASH;
use order::{Delivery, Filling, Limits, Outbox, Proposal, Proposer, Refused, Released, Taken};
use types::{Error, Height};

use crate::draft::Draft;
use crate::gathering::{Gathering, Verdict, Waiting};

/// Blocks that a leader has drafted and not released: one is executed while another is ordered, and
/// what comes meanwhile [gathers](crate::gathering) for the next.
const AHEAD_MAX: u64 = 2;
const FORWARD_BYTES_MAX: usize = 1 << 20;

/// What does not change while a node runs.
#[derive(Clone)]
pub(crate) struct Rules {
    pub id: u64,
    pub proposer: Proposer,
    /// How many there are when it starts.
    pub members: usize,
    pub limits: Limits,
    /// An envelope that was forwarded is sent again after so long.
    pub patience_ms: u64,
    /// A draft waits for so long to be full.
    pub fill_ms: u64,
    /// Whether nothing may be drafted after an envelope before it was executed.
    pub is_barrier: fn(&[u8]) -> bool,
}

/// A term, and who leads in it.
pub(crate) type Regime = (u64, Option<u64>);

/// See the module.
pub(crate) struct Mailbox {
    rules: Rules,
    /// Marked with when it was sent last. It is tried once it was sent to another node, or drafted.
    outbox: Outbox<u64>,
    /// What a leader is to order.
    inbox: VecDeque<Bytes>,
    /// Submitted since the inbox has taken what was there.
    untaken: usize,
    /// Since when something has waited in it, if it is known.
    filling_since: Option<u64>,
    /// Something in it waits for nothing.
    urgent: bool,
    nudged: bool,
    closed: Option<Error>,
    released: Released,
    /// Nothing is drafted before this block was released.
    barrier: Height,
    drafts: usize,
    gathering: Gathering,
    /// The pump of a leader is woken when so many wait.
    wanted: usize,
    /// And at this time.
    looks_at_us: Option<u64>,
    /// What the outbox was sent in.
    regime: Regime,
    /// Index of the next entry to be delivered.
    next: u64,
}

impl Mailbox {
    /// Goes on after so many entries.
    pub fn new(rules: Rules, after: u64) -> Mailbox {
        let released = Released {
            height: 0,
            result_hash: ZERO_HASH,
            parameters_hash: ZERO_HASH,
            names_seen: false,
            carried: 0,
        };
        Mailbox {
            rules,
            outbox: Outbox::default(),
            inbox: VecDeque::new(),
            untaken: 0,
            filling_since: None,
            urgent: false,
            nudged: false,
            closed: None,
            released,
            barrier: Height::MAX,
            drafts: 0,
            gathering: Gathering::default(),
            wanted: 0,
            looks_at_us: None,
            regime: (0, None),
            next: after,
        }
    }

    /// Whether the pump has something to do for it.
    pub fn submit(&mut self, envelope: Bytes) -> Result<bool, Refused> {
        match &self.closed {
            Some(why) => Err(Refused::Closed(why.clone())),
            None => {
                self.outbox.admit(envelope, &self.rules.limits)?;
                self.untaken += 1;
                Ok(self.has_come())
            }
        }
    }

    /// Whether as much waits as the pump is to be woken for.
    pub fn has_come(&self) -> bool {
        self.waiting() >= self.wanted
    }

    /// Envelopes that a leader has in no draft, as far as it knows: [`Mailbox::cut`] counts them.
    fn waiting(&self) -> usize {
        self.inbox.len() + self.untaken
    }

    fn waits(&self) -> bool {
        !self.inbox.is_empty() || self.outbox.next().is_some()
    }

    /// What was judged beside a block says nothing after it: whatever comes next is looked at.
    fn looks_at_next(&mut self) {
        (self.wanted, self.looks_at_us) = (0, None);
    }

    /// When the pump is to look again at what waits, if nothing comes.
    pub fn takes_look(&mut self) -> Option<u64> {
        self.looks_at_us.take()
    }

    /// See [`order::Orderer::withdraw`].
    pub fn withdraw(&mut self, envelope: &Bytes) -> bool {
        let is_last = self.outbox.copies(envelope) == 1;
        let never = self.outbox.withdraw(envelope);
        if is_last {
            self.inbox.retain(|waiting| waiting != envelope);
        }
        never
    }

    pub fn nudge(&mut self) {
        self.nudged = true;
    }

    /// Whether it was nudged since this was asked.
    pub fn takes_nudge(&mut self) -> bool {
        std::mem::take(&mut self.nudged)
    }

    pub fn close(&mut self, why: Error) {
        self.closed.get_or_insert(why);
    }

    /// Whether there may be something to draft, which waited for it.
    pub fn released(&mut self, released: Released, now_us: u64) -> bool {
        assert!(released.height >= self.released.height, "released blocks stay so");
        self.released = released;
        self.gathering.released(now_us, self.waiting());
        self.looks_at_next();
        let waits = self.waits();
        let leads = self.regime.1 == Some(self.rules.id);
        leads && (waits || self.nudged || released.carried > 0)
    }

    /// Index of the entry that is to be delivered next.
    pub fn next(&self) -> u64 {
        self.next
    }

    pub fn resume(&mut self, after: u64) {
        self.next = after;
    }

    pub fn delivered(&mut self, delivery: &Delivery) {
        assert_eq!(delivery.sequence, self.next + 1, "deliveries count up without a gap");
        self.next = delivery.sequence;
        self.outbox.delivered(delivery);
    }

    /// Everything is sent again if another leader is to order it.
    pub fn enter(&mut self, regime: Regime) {
        if self.regime == regime {
            return;
        }
        self.regime = regime;
        self.looks_at_next();
        self.gathering.begin();
        // Until the pump has taken in what is to be ordered again.
        self.untaken = 0;
        self.inbox.clear();
        self.barrier = Height::MAX;
        self.outbox.resend_all();
    }

    /// Takes in what another node has sent, as far as there is room: how many. A node that does not
    /// lead takes none.
    pub fn take_forwarded(&mut self, envelopes: Vec<Bytes>) -> usize {
        let Rules { id, members, limits, .. } = &self.rules;
        let most = limits.queued_max.saturating_mul(*members);
        let bytes_max = limits.queued_bytes_max.saturating_mul(*members);
        if self.regime.1 != Some(*id) {
            return 0;
        }
        let mut bytes: usize = self.inbox.iter().map(Bytes::len).sum();
        let mut taken = 0;
        for envelope in envelopes {
            bytes = bytes.saturating_add(envelope.len());
            let room = self.inbox.len() < most && (bytes <= bytes_max || self.inbox.is_empty());
            if !room || envelope.len() > limits.room_bytes() {
                break;
            }
            self.urgent |= self.is_urgent(&envelope);
            self.inbox.push_back(envelope);
            taken += 1;
        }
        taken
    }

    /// A leader takes what lies in its own outbox, but not what waits for a draft already. What is
    /// [taken back](Mailbox::withdraw) meanwhile must not come to it any more, so all is one step.
    pub fn take_own(&mut self, now_ms: u64) {
        self.untaken = 0;
        loop {
            let Taken { mut envelopes, repeats } = self.due(now_ms);
            if envelopes.is_empty() {
                return;
            }
            if repeats {
                let waiting: HashSet<&Bytes> = self.inbox.iter().collect();
                envelopes.retain(|envelope| !waiting.contains(envelope));
            }
            self.urgent |= envelopes.iter().any(|envelope| self.is_urgent(envelope));
            self.inbox.extend(envelopes);
        }
    }

    /// What is to be sent to another node, and may be ordered from now on.
    pub fn unsent(&mut self, now_ms: u64) -> Vec<Bytes> {
        self.untaken = 0;
        let unsent = self.due(now_ms).envelopes;
        unsent.iter().for_each(|envelope| self.outbox.tries(envelope));
        unsent
    }

    /// What another node has not taken in of it.
    pub fn refused(&mut self, left: &[Bytes]) {
        self.outbox.refused(left);
    }

    /// What lies in the outbox and was not sent in this regime, or is waited for too long, as much
    /// as a message takes.
    fn due(&mut self, now_ms: u64) -> Taken {
        let patience_ms = self.rules.patience_ms;
        self.outbox.resend(|sent_ms| now_ms.saturating_sub(*sent_ms) >= patience_ms);
        let mut bytes = 0;
        self.outbox.take(now_ms, |envelope| {
            let is_first = bytes == 0;
            bytes += envelope.len();
            bytes <= FORWARD_BYTES_MAX || is_first
        })
    }

    /// All that a log of this height holds may change what later blocks are executed under.
    pub fn set_barrier(&mut self, height: Height) {
        if self.barrier == Height::MAX && self.drafts == 0 {
            self.barrier = height;
        }
    }

    /// A draft of what waits, for a log of this height, if this node may make one. Its time is
    /// asked for when there is one.
    pub fn cut(
        &mut self,
        term: u64,
        height: Height,
        now_us: u64,
        time_us: impl FnOnce() -> i64,
    ) -> Option<Draft> {
        self.looks_at_next();
        match self.inbox.is_empty() {
            true => (self.filling_since, self.urgent) = (None, false),
            false => drop(self.filling_since.get_or_insert(now_us / 1_000)),
        }
        let ahead = height.saturating_sub(self.released.height).max(self.drafts as u64);
        if ahead >= AHEAD_MAX || self.released.height < self.barrier {
            return None;
        }
        // A block beside one that is under way would carry nothing more.
        let deferred = self.released.carried > 0 && ahead == 0;
        if !deferred && !self.nudged && !self.is_due(now_us, ahead > 0) {
            return None;
        }
        self.nudged = false;
        let limits = &self.rules.limits;
        let mut filling = Filling::beside(self.released.carried, limits);
        let mut envelopes = Vec::new();
        let mut stops = false;
        assert!(self.drafts < AHEAD_MAX as usize, "so many drafts are under way at most");
        while let Some(envelope) =
            self.inbox.pop_front_if(|envelope| filling.takes(envelope.len(), limits))
        {
            stops |= (self.rules.is_barrier)(&envelope);
            self.outbox.tries(&envelope);
            envelopes.push(envelope);
        }
        // What is left has waited no less for it.
        self.filling_since = self.filling_since.filter(|_| !self.inbox.is_empty());
        self.urgent = self.urgent && self.inbox.iter().any(|envelope| self.is_urgent(envelope));
        let Released { height, parameters_hash, names_seen, .. } = self.released;
        let seen_height = if names_seen { height } else { 0 };
        let proposer = self.rules.proposer;
        self.drafts += 1;
        self.gathering.drafted(now_us, envelopes.len());
        let proposal = Proposal { time_us: time_us(), proposer, seen_height, envelopes };
        if stops {
            // Of the block that this will be, or a later one: until the draft has its height,
            // nothing follows it.
            self.barrier = Height::MAX;
        }
        Some(Draft::new(term, parameters_hash, proposal))
    }

    /// Whether what waits is drafted. If not, it is known when the pump looks again.
    fn is_due(&mut self, now_us: u64, beside: bool) -> bool {
        if self.rules.fill_ms > 0 {
            let left_ms = self.filled_in(now_us / 1_000);
            self.looks_at_us = left_ms.map(|ms| now_us.saturating_add(ms.saturating_mul(1_000)));
            return left_ms == Some(0);
        }
        let waiting = Waiting { envelopes: self.inbox.len(), is_full: self.is_full() };
        match self.gathering.judge(now_us, waiting, beside) {
            Verdict::Now => true,
            Verdict::Later { wanted, at_us } => {
                (self.wanted, self.looks_at_us) = (wanted, at_us);
                false
            }
        }
    }

    /// Whether what waits fills a block.
    fn is_full(&self) -> bool {
        let limits = &self.rules.limits;
        let mut filling = Filling::beside(self.released.carried, limits);
        self.inbox.len() >= limits.transactions_max
            || !self.inbox.iter().all(|envelope| filling.takes(envelope.len(), limits))
    }

    /// In how many milliseconds a draft that waits to be full is made as it is; `None`: none waits.
    fn filled_in(&self, now_ms: u64) -> Option<u64> {
        let since = self.filling_since?;
        let left = since.saturating_add(self.rules.fill_ms).saturating_sub(now_ms);
        Some(if self.urgent || self.is_full() { 0 } else { left })
    }

    /// Whether a draft of it waits for nothing.
    fn is_urgent(&self, envelope: &[u8]) -> bool {
        self.rules.fill_ms > 0 && (self.rules.is_barrier)(envelope)
    }

    /// What was drafted is in the log, or will never be. Whether something may have waited for it.
    pub fn drafted(&mut self) -> bool {
        assert!(self.drafts > 0, "each draft ends once");
        self.drafts -= 1;
        self.looks_at_next();
        self.waits() || self.nudged || self.released.carried > 0
    }
}

#[cfg(test)]
mod tests {
    use order::{Certificate, CertificateKind};

    use super::*;

    fn mailbox(members: usize) -> Mailbox {
        let limits = Limits { queued_max: 4, ..Limits::default() };
        let is_barrier = |envelope: &[u8]| envelope.first() == Some(&b'!');
        let (id, proposer, patience_ms, fill_ms) = (1, [7; 32], 5_000, 0);
        Mailbox::new(Rules { id, proposer, members, limits, patience_ms, fill_ms, is_barrier }, 0)
    }

    /// It leads in a term, and has released all of its log.
    fn leader() -> Mailbox {
        let mut mailbox = mailbox(3);
        mailbox.enter((1, Some(1)));
        mailbox.set_barrier(0);
        mailbox
    }

    fn envelope(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn released(mailbox: &mut Mailbox, height: Height) -> bool {
        mailbox.released(Released { height, ..mailbox.released }, 0)
    }

    fn texts(draft: &Draft) -> Vec<String> {
        let envelopes = &draft.0.as_ref().unwrap().proposal.envelopes;
        envelopes.iter().map(|it| String::from_utf8(it.to_vec()).unwrap()).collect()
    }

    #[test]
    fn a_leader_drafts_its_own_and_what_others_sent_and_no_more_than_two_ahead() {
        let mut mailbox = leader();
        mailbox.submit(envelope("own")).unwrap();
        mailbox.take_own(0);
        assert_eq!(mailbox.take_forwarded(vec![envelope("theirs")]), 1);
        assert_eq!(texts(&mailbox.cut(1, 0, 0, || 9).unwrap()), ["own", "theirs"]);
        assert!(mailbox.cut(1, 0, 0, || 9).is_none(), "nothing waits");
        mailbox.nudge();
        assert!(texts(&mailbox.cut(1, 0, 0, || 9).unwrap()).is_empty());
        mailbox.nudge();
        assert!(mailbox.cut(1, 0, 0, || 9).is_none(), "two are under way");
        mailbox.drafted();
        assert!(mailbox.cut(1, 2, 0, || 9).is_none(), "two are in the log and not released");
        released(&mut mailbox, 1);
        assert!(mailbox.cut(1, 2, 0, || 9).is_some());
    }

    #[test]
    fn what_comes_beside_a_draft_waits_for_its_block_and_for_those_whom_it_answers() {
        let mut mailbox = leader();
        assert_eq!(mailbox.take_forwarded(vec![envelope("a"), envelope("b")]), 2);
        assert_eq!(texts(&mailbox.cut(1, 0, 0, || 9).unwrap()), ["a", "b"]);
        mailbox.drafted();
        mailbox.take_forwarded(vec![envelope("c")]);
        assert!(mailbox.cut(1, 1, 0, || 9).is_none(), "half as much");
        mailbox.take_forwarded(vec![envelope("d")]);
        assert!(mailbox.cut(1, 1, 0, || 9).is_none(), "its block is due");
        assert!(mailbox.takes_look().is_some());
        assert!(released(&mut mailbox, 1), "it waits for that");
        assert!(mailbox.cut(1, 1, 0, || 9).is_none(), "they are about to come back");
        assert!(!mailbox.submit(envelope("e")).unwrap(), "the pump need not look yet");
        assert!(mailbox.submit(envelope("f")).unwrap());
        mailbox.take_own(0);
        assert_eq!(texts(&mailbox.cut(1, 1, 0, || 9).unwrap()), ["c", "d", "e", "f"]);
        mailbox.drafted();
        mailbox.take_forwarded((0..4).map(|_| envelope("g")).collect());
        assert!(mailbox.cut(1, 2, 0, || 9).is_none());
        let at_us = mailbox.takes_look().unwrap();
        assert!(mailbox.cut(1, 2, at_us, || 9).is_some(), "it takes longer than most");
    }

    /// What was wanted beside a block is not what is waited for when it has gone.
    #[test]
    fn fewer_who_come_back_than_were_answered_are_looked_at() {
        let mut mailbox = leader();
        mailbox.take_forwarded(vec![envelope("a"), envelope("b")]);
        mailbox.cut(1, 0, 0, || 9).unwrap();
        assert!(mailbox.cut(1, 0, 0, || 9).is_none(), "nothing waits");
        assert!(!mailbox.drafted());
        assert!(!released(&mut mailbox, 1), "nothing waits");
        assert!(mailbox.submit(envelope("c")).unwrap(), "it has the pump look");
        mailbox.take_own(0);
        assert!(mailbox.cut(1, 1, 0, || 9).is_none(), "the other is about to come back");
        let at_us = mailbox.takes_look().expect("not for ever");
        assert!(mailbox.cut(1, 1, at_us, || 9).is_some());
    }

    /// Whatever is in the outbox counts, however many messages it is.
    #[test]
    fn large_envelopes_are_taken_in_together_and_fill_a_block() {
        let mut mailbox = mailbox(3);
        mailbox.rules.limits = Limits { block_bytes_max: 1 << 20, ..Limits::default() };
        mailbox.enter((1, Some(1)));
        mailbox.set_barrier(0);
        let large = |n: u8| Bytes::from(vec![n; 300 << 10]);
        mailbox.take_forwarded(vec![envelope("a")]);
        mailbox.cut(1, 0, 0, || 9).unwrap();
        for n in 0..8 {
            mailbox.submit(large(n)).unwrap();
        }
        mailbox.take_own(0);
        assert_eq!(mailbox.inbox.len(), 8);
        assert!(mailbox.cut(1, 0, 0, || 9).is_some(), "beside the other");
    }

    #[test]
    fn a_block_that_carries_has_one_follow_it_and_not_two() {
        let mut mailbox = leader();
        mailbox.released(Released { carried: 1, ..mailbox.released }, 0);
        mailbox.take_forwarded(vec![envelope("a")]);
        assert_eq!(texts(&mailbox.cut(1, 0, 0, || 9).unwrap()), ["a"]);
        assert!(mailbox.cut(1, 0, 0, || 9).is_none(), "it would be empty");
    }

    #[test]
    fn a_draft_waits_to_be_full_where_that_is_asked_for_and_no_longer_than_it_may() {
        let mut mailbox = leader();
        (mailbox.rules.fill_ms, mailbox.rules.limits.transactions_max) = (100, 3);
        let take = |mailbox: &mut Mailbox, texts: &[&str]| {
            mailbox.take_forwarded(texts.iter().map(|text| envelope(text)).collect());
        };
        assert!(mailbox.cut(1, 0, 7_000, || 9).is_none() && mailbox.filled_in(7).is_none());
        take(&mut mailbox, &["a"]);
        assert!(mailbox.cut(1, 0, 10_000, || 9).is_none());
        take(&mut mailbox, &["b"]);
        assert!(mailbox.cut(1, 0, 60_000, || 9).is_none());
        assert_eq!(mailbox.filled_in(60), Some(50), "since the first of them");
        assert_eq!(texts(&mailbox.cut(1, 0, 110_000, || 9).unwrap()), ["a", "b"]);
        assert!(mailbox.filled_in(110).is_none());
        mailbox.drafted();
        released(&mut mailbox, 1);
        take(&mut mailbox, &["c", "d", "e", "f"]);
        assert_eq!(texts(&mailbox.cut(1, 1, 110_000, || 9).unwrap()), ["c", "d", "e"], "full");
        mailbox.drafted();
        released(&mut mailbox, 2);
        assert!(mailbox.cut(1, 2, 190_000, || 9).is_none());
        assert_eq!(mailbox.filled_in(200), Some(10), "it waits since it came");
        mailbox.nudge();
        assert_eq!(texts(&mailbox.cut(1, 2, 112_000, || 9).unwrap()), ["f"], "it is asked for");
        mailbox.drafted();
        released(&mut mailbox, 3);
        take(&mut mailbox, &["g", "!"]);
        assert_eq!(texts(&mailbox.cut(1, 3, 113_000, || 9).unwrap()), ["g", "!"], "a change");
        mailbox.drafted();
        released(&mut mailbox, 4);
        mailbox.set_barrier(4);
        take(&mut mailbox, &["h"]);
        assert!(mailbox.cut(1, 4, 114_000, || 9).is_none(), "what follows a change waits again");
        // As full as it can be by its bytes.
        mailbox.rules.limits.bytes_max = 8;
        take(&mut mailbox, &["a longer one"]);
        assert_eq!(texts(&mailbox.cut(1, 4, 115_000, || 9).unwrap()), ["h"]);
        mailbox.rules.fill_ms = u64::MAX;
        assert!(mailbox.filled_in(116).is_some_and(|ms| ms > 1_000_000));
    }

    #[test]
    fn nothing_follows_a_change_before_it_was_released() {
        let mut mailbox = leader();
        mailbox.submit(envelope("!")).unwrap();
        mailbox.take_own(0);
        mailbox.cut(1, 0, 0, || 0).unwrap();
        mailbox.nudge();
        mailbox.set_barrier(0);
        assert!(mailbox.cut(1, 0, 0, || 0).is_none(), "it has no height yet");
        mailbox.drafted();
        mailbox.set_barrier(1);
        assert!(mailbox.cut(1, 1, 0, || 0).is_none(), "it was not released");
        released(&mut mailbox, 1);
        assert!(mailbox.cut(1, 1, 0, || 0).is_some());
    }

    #[test]
    fn another_leader_is_sent_everything_again() {
        let mut mailbox = mailbox(3);
        mailbox.enter((1, Some(2)));
        mailbox.submit(envelope("a")).unwrap();
        assert_eq!(mailbox.unsent(0), [envelope("a")]);
        assert!(mailbox.unsent(4_999).is_empty());
        assert_eq!(mailbox.unsent(5_000), [envelope("a")], "no answer for so long");
        mailbox.enter((2, Some(3)));
        assert_eq!(mailbox.unsent(5_001), [envelope("a")]);
        mailbox.refused(&[envelope("a")]);
        assert_eq!(mailbox.unsent(5_002), [envelope("a")]);
        let content = Proposal {
            time_us: 0,
            proposer: [7; 32],
            seen_height: 0,
            envelopes: vec![envelope("a")],
        };
        let certificate = Certificate { kind: CertificateKind::Raft, evidence: Bytes::new() };
        mailbox.delivered(&Delivery { sequence: 1, content: Some(content), certificate });
        mailbox.enter((3, Some(2)));
        assert!(mailbox.unsent(6_000).is_empty(), "it was delivered");
    }

    #[test]
    fn what_waits_for_a_draft_is_not_taken_twice_and_can_be_taken_back() {
        let mut mailbox = leader();
        mailbox.submit(envelope("a")).unwrap();
        mailbox.take_own(0);
        mailbox.take_own(5_000);
        assert!(mailbox.withdraw(&envelope("a")), "it was in no draft");
        mailbox.nudge();
        assert!(texts(&mailbox.cut(1, 0, 0, || 0).unwrap()).is_empty());
        mailbox.submit(envelope("b")).unwrap();
        mailbox.take_own(0);
        mailbox.take_own(5_000);
        let late_us = 5_000_000;
        assert_eq!(texts(&mailbox.cut(1, 0, late_us, || 0).unwrap()), ["b"]);
        assert!(!mailbox.withdraw(&envelope("b")), "a draft holds it");
    }

    #[test]
    fn an_inbox_is_bounded_and_that_of_a_follower_takes_nothing() {
        let mut mailbox = mailbox(2);
        let all = || vec![envelope("x"); 10];
        assert_eq!(mailbox.take_forwarded(all()), 0);
        mailbox.enter((1, Some(2)));
        assert_eq!(mailbox.take_forwarded(all()), 0);
        mailbox.enter((2, Some(1)));
        assert_eq!(mailbox.take_forwarded(all()), 8);
        assert_eq!(mailbox.take_forwarded(all()), 0);
    }
}
