//! A cluster under test, and what each of its nodes was given so far.

use std::collections::BTreeSet;

use bytes::Bytes;
use types::{Error, Origin};

use super::Harness;
use crate::envelope::{Envelope, Submission, View};
use crate::orderer::{Limits, Refused};
use crate::proposal::{Delivery, Proposal};
use crate::submissions::{Admission, Remembered, Submissions};

/// How long something that must happen may take.
const PASSES_MAX: usize = 3000;
/// Deliveries of one poll: beyond them an orderer makes them up.
const DELIVERIES_MAX: usize = 10_000;

const LEDGER: [u8; 16] = *b"conformance test";
const EXPIRES_US: i64 = 1 << 40;

pub type Outcome<T = ()> = Result<T, String>;

pub struct Bed<'h> {
    pub harness: &'h mut dyn Harness,
    pub limits: Limits,
    pub now_us: i64,
    pub clock_us_max: i64,
    /// By node; what lies after a restart is cut off, as the node is given it again.
    pub given: Vec<Vec<Delivery>>,
    numbers: u64,
}

impl<'h> Bed<'h> {
    pub fn new(harness: &'h mut dyn Harness) -> Self {
        let limits = Limits::default();
        Bed { harness, limits, now_us: 0, clock_us_max: 0, given: Vec::new(), numbers: 0 }
    }

    pub fn start(&mut self, limits: Limits) {
        self.limits = limits;
        self.harness.start(limits);
        self.now_us = 1_000_000;
        self.clock_us_max = self.now_us;
        self.given = vec![Vec::new(); self.harness.nodes()];
    }

    /// An envelope that there was not yet, of about this size.
    pub fn envelope(&mut self, bytes: usize) -> Bytes {
        self.numbers += 1;
        let overhead = envelope(self.numbers, 0).len() + 2;
        envelope(self.numbers, bytes.saturating_sub(overhead))
    }

    pub fn submit(&mut self, node: usize, envelope: &Bytes) -> Outcome {
        let refused = self.harness.submit(node, envelope.clone());
        refused.map_err(|refused| format!("node {node} refuses an envelope: {refused:?}"))
    }

    /// As many fresh envelopes, accepted by the node.
    pub fn submit_some(&mut self, node: usize, count: usize) -> Outcome<Vec<Bytes>> {
        let envelopes: Vec<Bytes> = (0..count).map(|_| self.envelope(100)).collect();
        envelopes.iter().try_for_each(|envelope| self.submit(node, envelope))?;
        Ok(envelopes)
    }

    /// Lets time pass, and takes what every node is given.
    pub fn pass(&mut self) -> Outcome {
        self.harness.pass();
        self.now_us += 1000;
        self.clock_us_max = self.clock_us_max.max(self.now_us);
        (0..self.given.len()).try_for_each(|node| self.poll(node))
    }

    pub fn poll(&mut self, node: usize) -> Outcome {
        for _ in 0..DELIVERIES_MAX {
            let Some(delivery) = self.harness.poll(node, self.now_us) else {
                return Ok(());
            };
            self.check(node, &delivery).map_err(|what| format!("node {node}: {what}"))?;
            self.given[node].push(delivery);
        }
        Err(format!("node {node} is given deliveries without end"))
    }

    fn check(&self, node: usize, delivery: &Delivery) -> Outcome {
        let place = self.given[node].len();
        if delivery.sequence != place as u64 + 1 {
            return Err(format!("delivery {} follows {place}", delivery.sequence));
        }
        if let Some(proposal) = &delivery.content {
            self.check_batch(node, proposal)?;
        }
        let same = |other: &Vec<Delivery>| other.get(place).is_none_or(|given| given == delivery);
        if self.given.iter().all(same) {
            return Ok(());
        }
        Err(format!("delivery {} is another one at another node", delivery.sequence))
    }

    fn check_batch(&self, node: usize, proposal: &Proposal) -> Outcome {
        let (time_us, before_us) = (proposal.time_us, self.time_us(node));
        if time_us < before_us {
            return Err(format!("time runs back from {before_us} to {time_us}"));
        }
        if time_us > self.clock_us_max {
            return Err(format!("a batch bears {time_us}, which no clock has shown"));
        }
        let Limits { transactions_max, bytes_max, block_bytes_max, outcome_bytes_max, .. } =
            self.limits;
        let count = proposal.envelopes.len();
        let bytes: usize = proposal.envelopes.iter().map(Bytes::len).sum();
        if count > transactions_max || (count > 1 && bytes > bytes_max) {
            return Err(format!("a batch has {count} envelopes and {bytes} bytes"));
        }
        if bytes + count * outcome_bytes_max > block_bytes_max {
            return Err(format!("{count} envelopes of {bytes} bytes leave outcomes no room"));
        }
        Ok(())
    }

    /// Of the last batch that the node was given.
    pub fn time_us(&self, node: usize) -> i64 {
        time_us(&self.given[node])
    }

    /// What the node was given, without numbers and batches.
    pub fn envelopes(&self, node: usize) -> Vec<Bytes> {
        let proposals = self.given[node].iter().filter_map(|delivery| delivery.content.as_ref());
        proposals.flat_map(|proposal| proposal.envelopes.iter().cloned()).collect()
    }

    /// Passes until it is so, on every node.
    pub fn until(&mut self, what: &str, so: impl Fn(&Bed<'_>, usize) -> bool) -> Outcome {
        for _ in 0..PASSES_MAX {
            self.pass()?;
            if (0..self.given.len()).all(|node| so(self, node)) {
                return Ok(());
            }
        }
        Err(format!("not within {PASSES_MAX} passes: {what}"))
    }

    /// Until every node was given all of these.
    pub fn until_given(&mut self, envelopes: &[Bytes]) -> Outcome {
        let wanted: BTreeSet<&Bytes> = envelopes.iter().collect();
        self.until("every envelope that was accepted is delivered everywhere", |bed, node| {
            let given = bed.envelopes(node);
            let given: BTreeSet<&Bytes> = given.iter().collect();
            wanted.is_subset(&given)
        })
    }

    /// Stops and starts the node, which was given `after` deliveries for good.
    pub fn restart(&mut self, node: usize, after: usize) -> Outcome {
        self.harness.restart(node);
        self.given[node].truncate(after);
        let time_us = self.time_us(node);
        let resumed = self.harness.resume(node, after as u64, time_us);
        resumed.map_err(|error| format!("node {node} does not resume: {}", error.message()))
    }

    /// What the ledger of a node runs of what it was given, in order; each envelope at most once.
    pub fn runs(&self, node: usize) -> Outcome<Vec<Bytes>> {
        let mut submissions = Submissions::new(
            LEDGER,
            Remembered { expiry_us_max: i64::MAX, ..Remembered::default() },
        );
        let mut runs = Vec::new();
        for delivery in &self.given[node] {
            let Some(proposal) = &delivery.content else {
                continue;
            };
            submissions.advance(proposal.time_us);
            for (index, bytes) in proposal.envelopes.iter().enumerate() {
                let read = |error: Error| error.message().to_owned();
                let (envelope, id) = Envelope::decode_with_id(bytes).map_err(read)?;
                let place = Origin { height: delivery.sequence, index: index as u32 };
                if submissions.admit(&envelope, &id, place) == Admission::Run {
                    runs.push(bytes.clone());
                }
            }
        }
        Ok(runs)
    }
}

pub fn time_us(given: &[Delivery]) -> i64 {
    let last = given.iter().rev().find_map(|delivery| delivery.content.as_ref());
    last.map_or(i64::MIN, |proposal| proposal.time_us)
}

fn envelope(number: u64, request_bytes: usize) -> Bytes {
    let view = View {
        ledger_id: LEDGER,
        principal: "conformance",
        submission: Submission::Sequence { submitter: [1; 16], sequence: number },
        expires_us: EXPIRES_US,
        seen_height: 0,
        settings: Vec::new(),
        seed: [0; 16],
        request: &vec![0; request_bytes],
        signatures: Vec::new(),
        approvals: Vec::new(),
    };
    view.encode().unwrap_or_default()
}

/// The refusal of an envelope that is not accepted.
pub fn refusal(bed: &mut Bed<'_>, node: usize, envelope: &Bytes) -> Outcome<Refused> {
    match bed.harness.submit(node, envelope.clone()) {
        Ok(()) => Err(format!("node {node} takes an envelope of {} bytes", envelope.len())),
        Err(refused) => Ok(refused),
    }
}
