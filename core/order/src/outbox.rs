//! What a node has accepted for the order and not seen delivered: an outbox, resent until
//! acknowledged, as of any client of a log with at-least-once delivery.
//!
//! ```text
//! admit ─► unsent ── take ──► sent ── delivered ──► gone
//!             ▲                │
//!             └──── resend ────┘   another leader, a refused message, no answer for a while
//! ```
//!
//! A value without clocks: `S` is what its owner marks a sent envelope with, be it a time, a tick
//! or the number of a message, and it is the owner that says whose mark is too old.
//!
//! **Invariants.** An envelope is held once for each time that it was admitted, and each delivery
//! of it takes away one of them, the oldest. What is taken leaves in the order in which it was
//! admitted. Count and bytes are what [`Limits`] allow. `tried` says that the order may have come
//! to hold an envelope: it is never taken back.
//!
//! **Cost.** Envelopes are found by their bytes: hashing those is a tenth of what their id costs,
//! a SHA-256. One lookup for each envelope that is delivered, of any node, and none while nothing
//! waits; then logarithms of what waits.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use bytes::Bytes;

use crate::orderer::{Limits, Refused};
use crate::proposal::Delivery;

/// See the module.
pub struct Outbox<S> {
    /// By number, which counts what was ever admitted.
    waiting: BTreeMap<u64, Waiting<S>>,
    /// Those of them that are to be sent.
    unsent: BTreeSet<u64>,
    held: HashMap<Bytes, Held>,
    bytes: usize,
    admitted: u64,
}

struct Waiting<S> {
    envelope: Bytes,
    /// Of the last time that it was sent, unless that was in vain.
    sent: Option<S>,
}

#[derive(Default)]
struct Held {
    /// Of its copies, the oldest first.
    numbers: VecDeque<u64>,
    tried: bool,
}

/// What is sent in one message.
#[derive(Default)]
pub struct Taken {
    pub envelopes: Vec<Bytes>,
    /// Some may have arrived before.
    pub repeats: bool,
}

impl<S> Default for Outbox<S> {
    fn default() -> Self {
        Outbox {
            waiting: BTreeMap::new(),
            unsent: BTreeSet::new(),
            held: HashMap::new(),
            bytes: 0,
            admitted: 0,
        }
    }
}

impl<S> Outbox<S> {
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn admit(&mut self, envelope: Bytes, limits: &Limits) -> Result<(), Refused> {
        limits.admit(envelope.len(), self.waiting.len(), self.bytes)?;
        self.admitted += 1;
        self.bytes += envelope.len();
        self.unsent.insert(self.admitted);
        self.held.entry(envelope.clone()).or_default().numbers.push_back(self.admitted);
        self.waiting.insert(self.admitted, Waiting { envelope, sent: None });
        debug_assert!(self.waiting.len() <= limits.queued_max, "so many may wait");
        Ok(())
    }

    /// The next envelope that [`Outbox::take`] offers.
    pub fn next(&self) -> Option<&Bytes> {
        self.unsent.first().map(|number| &self.waiting[number].envelope)
    }

    /// What is to be sent, up to the first one that `fits` refuses.
    pub fn take(&mut self, mark: S, mut fits: impl FnMut(&Bytes) -> bool) -> Taken
    where
        S: Clone,
    {
        let mut taken = Taken::default();
        while let Some(number) = self.unsent.first().copied() {
            let waiting = self.waiting.get_mut(&number).expect("what is unsent waits");
            if !fits(&waiting.envelope) {
                break;
            }
            self.unsent.remove(&number);
            taken.repeats |= waiting.sent.replace(mark.clone()).is_some();
            taken.envelopes.push(waiting.envelope.clone());
        }
        debug_assert!(self.unsent.len() <= self.waiting.len(), "what is unsent waits");
        taken
    }

    /// The order may come to hold this envelope from now on.
    pub fn tries(&mut self, envelope: &Bytes) {
        if let Some(held) = self.held.get_mut(envelope) {
            held.tried = true;
        }
    }

    /// What was sent with such a mark is sent again, and may arrive twice.
    pub fn resend(&mut self, is_due: impl Fn(&S) -> bool) {
        let due = |waiting: &Waiting<S>| waiting.sent.as_ref().is_some_and(&is_due);
        let due = self.waiting.iter().filter(|(_, waiting)| due(waiting));
        self.unsent.extend(due.map(|(number, _)| *number));
    }

    /// All is sent again, where what was sent before arrives nowhere.
    pub fn resend_all(&mut self) {
        self.waiting.values_mut().for_each(|waiting| waiting.sent = None);
        self.unsent.extend(self.waiting.keys());
    }

    /// These were not taken in by the message's receiver.
    pub fn refused(&mut self, envelopes: &[Bytes]) {
        let held = envelopes.iter().filter_map(|envelope| self.held.get(envelope));
        for number in held.flat_map(|held| &held.numbers) {
            let waiting = self.waiting.get_mut(number).expect("what is held waits");
            waiting.sent = None;
            self.unsent.insert(*number);
        }
    }

    /// These are not waited for any longer; one copy of each.
    pub fn delivered(&mut self, delivery: &Delivery) {
        for envelope in delivery.content.iter().flat_map(|content| &content.envelopes) {
            if self.is_empty() {
                return;
            }
            self.remove(envelope);
        }
    }

    /// Waits for one copy less. Whether there was one.
    pub fn remove(&mut self, envelope: &Bytes) -> bool {
        let Some(held) = self.held.get_mut(envelope) else { return false };
        let number = held.numbers.pop_front().expect("a number for each copy");
        if held.numbers.is_empty() {
            self.held.remove(envelope);
        }
        let waiting = self.waiting.remove(&number).expect("what is held waits");
        debug_assert_eq!(waiting.envelope, envelope, "numbers name their envelope");
        self.unsent.remove(&number);
        self.bytes -= waiting.envelope.len();
        debug_assert!(!self.is_empty() || self.bytes == 0 && self.held.is_empty());
        true
    }

    /// How often it waits for this envelope.
    pub fn copies(&self, envelope: &Bytes) -> usize {
        self.held.get(envelope).map_or(0, |held| held.numbers.len())
    }

    /// Waits for one copy less. Whether the order will never hold it: it was tried nowhere, and is
    /// not one of several, of which any may stand for all.
    pub fn withdraw(&mut self, envelope: &Bytes) -> bool {
        let never = |held: &Held| held.numbers.len() == 1 && !held.tried;
        let never = self.held.get(envelope).is_some_and(never);
        self.remove(envelope) && never
    }

    /// Gives all up: each envelope in its order, with its mark.
    pub fn give_up(&mut self) -> impl Iterator<Item = (Bytes, Option<S>)> + use<S> {
        let given_up =
            std::mem::replace(self, Outbox { admitted: self.admitted, ..Outbox::default() });
        given_up.waiting.into_values().map(|waiting| (waiting.envelope, waiting.sent))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use bytes::Bytes;
    use kit::random::Random;

    use super::Outbox;
    use crate::orderer::{Limits, Refused};
    use crate::proposal::{Certificate, CertificateKind, Delivery, Proposal};

    const NO_LIMITS: Limits = Limits {
        transactions_max: usize::MAX,
        bytes_max: usize::MAX,
        block_bytes_max: usize::MAX,
        outcome_bytes_max: 0,
        queued_max: usize::MAX,
        queued_bytes_max: usize::MAX,
    };

    fn envelope(name: u64) -> Bytes {
        Bytes::from(vec![b'e'; 1 + name as usize])
    }

    fn outbox(names: &[u64]) -> Outbox<u64> {
        let mut outbox = Outbox::default();
        for name in names {
            outbox.admit(envelope(*name), &NO_LIMITS).unwrap();
        }
        outbox
    }

    fn delivery(names: &[u64]) -> Delivery {
        let envelopes = names.iter().map(|name| envelope(*name)).collect();
        let content = Proposal { time_us: 0, proposer: [0; 32], seen_height: 0, envelopes };
        let certificate = Certificate { kind: CertificateKind::Model, evidence: Bytes::new() };
        Delivery { sequence: 1, content: Some(content), certificate }
    }

    fn names(envelopes: &[Bytes]) -> Vec<u64> {
        envelopes.iter().map(|envelope| envelope.len() as u64 - 1).collect()
    }

    #[test]
    fn what_was_sent_again_says_so_and_what_was_refused_does_not() {
        let mut outbox = outbox(&[1, 2, 3]);
        let first = outbox.take(7, |_| true);
        assert_eq!((names(&first.envelopes), first.repeats), (vec![1, 2, 3], false));
        assert_eq!(outbox.next(), None);
        outbox.refused(&[envelope(2)]);
        let refused = outbox.take(8, |_| true);
        assert_eq!((names(&refused.envelopes), refused.repeats), (vec![2], false));
        outbox.resend(|mark| *mark == 7);
        let again = outbox.take(9, |_| true);
        assert_eq!((names(&again.envelopes), again.repeats), (vec![1, 3], true));
        outbox.resend_all();
        let elsewhere = outbox.take(10, |_| true);
        assert_eq!((names(&elsewhere.envelopes), elsewhere.repeats), (vec![1, 2, 3], false));
    }

    #[test]
    fn a_copy_is_waited_for_until_it_is_delivered_too() {
        let mut outbox = outbox(&[5, 5]);
        outbox.delivered(&delivery(&[4, 5]));
        assert_eq!((outbox.len(), outbox.next()), (1, Some(&envelope(5))));
        outbox.delivered(&delivery(&[5, 5]));
        assert!(outbox.is_empty());
    }

    #[test]
    fn what_was_tried_or_has_a_copy_may_still_be_ordered() {
        let mut outbox = outbox(&[1, 2, 3, 3]);
        outbox.tries(&envelope(2));
        let withdrawn = [1, 2, 3, 3, 4].map(|name| outbox.withdraw(&envelope(name)));
        assert_eq!(withdrawn, [true, false, false, true, false]);
        assert!(outbox.is_empty());
    }

    #[test]
    fn what_waits_is_bounded_by_count_and_bytes() {
        let limits = Limits { queued_max: 2, queued_bytes_max: 12, ..NO_LIMITS };
        let mut outbox = Outbox::<u64>::default();
        outbox.admit(envelope(9), &limits).unwrap();
        assert_eq!(outbox.admit(envelope(2), &limits), Err(Refused::Full));
        outbox.admit(envelope(1), &limits).unwrap();
        assert_eq!(outbox.admit(envelope(0), &limits), Err(Refused::Full));
        outbox.delivered(&delivery(&[9]));
        outbox.admit(envelope(5), &limits).unwrap();
        let given_up: Vec<_> = outbox.give_up().map(|(envelope, _)| envelope).collect();
        assert_eq!(names(&given_up), [1, 5]);
        outbox.admit(envelope(9), &limits).unwrap();
    }

    /// Against a list that is searched from its front.
    #[test]
    fn any_calls_come_to_what_a_list_comes_to() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let mut outbox = Outbox::default();
            let mut list: VecDeque<(u64, Option<u64>, bool)> = VecDeque::new();
            for step in 0..200 {
                let name = random.below(6);
                match random.below(6) {
                    0 | 1 => {
                        outbox.admit(envelope(name), &NO_LIMITS).unwrap();
                        list.push_back((name, None, true));
                    }
                    2 => {
                        let room = random.below(4) as usize;
                        let mut left = room;
                        let fits =
                            |_: &Bytes| left.checked_sub(1).map(|less| left = less).is_some();
                        let taken = outbox.take(step, fits);
                        let due = list.iter_mut().filter(|(_, _, is_due)| *is_due).take(room);
                        let due = due.map(|one| {
                            let again = one.1.replace(step).is_some();
                            one.2 = false;
                            (one.0, again)
                        });
                        let (sent, again): (Vec<_>, Vec<_>) = due.unzip();
                        assert_eq!(names(&taken.envelopes), sent, "seed {seed}");
                        assert_eq!(taken.repeats, again.contains(&true), "seed {seed}");
                    }
                    3 => {
                        outbox.resend(|mark| mark % 3 == 0);
                        let due =
                            list.iter_mut().filter(|it| it.1.is_some_and(|mark| mark % 3 == 0));
                        due.for_each(|it| it.2 = true);
                    }
                    4 => {
                        outbox.refused(&[envelope(name)]);
                        let of_it = list.iter_mut().filter(|it| it.0 == name);
                        of_it.for_each(|it| (it.1, it.2) = (None, true));
                    }
                    _ => {
                        outbox.delivered(&delivery(&[name]));
                        let place = list.iter().position(|it| it.0 == name);
                        place.and_then(|place| list.remove(place));
                    }
                }
                assert_eq!(outbox.len(), list.len());
                let bytes: u64 = list.iter().map(|it| it.0 + 1).sum();
                assert_eq!(outbox.bytes as u64, bytes);
            }
        }
    }
}
