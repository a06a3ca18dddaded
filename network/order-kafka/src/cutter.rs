//! Cuts the topic's records into batches. Every node does so alike.
//!
//! ```text
//! offset   0        1       2       3       4        5       6        7
//! record   marker   a1 a2   a1 a2   b1 →1   time →1  c1      →2       a3 a4 →3
//!                     │   a copy    │       too late │         │        │
//! batch               └──────── 1 ──┘                └──── 2 ──┘        3
//!
//! a1   an envelope of node a          →1   a request to end batch 1
//! ```
//!
//! A batch ends at a record that asks for this batch's end by its number, when it is full, or
//! before a record that no longer fits. So a batch is a whole number of records, and it is
//! determined by the records alone. A request to end a batch that has already ended has no effect,
//! so several nodes may ask for the same end.
//!
//! **A batch's time** is the latest that its records bear, and never before that of the previous
//! batch. Its proposer is the node that wrote its first record.
//!
//! **Duplicates.** A record bears its node's incarnation (drawn at each start of the node) and a
//! number that counts within that incarnation. It is void if a record of that incarnation with this
//! number or a higher one came before. Only the incarnations heard from last are remembered. A
//! duplicate from a forgotten incarnation is accepted, which is harmless: the ledger runs no
//! envelope twice ([`order::Submissions`]).
//!
//! **Void records.** A record that cannot be decoded, belongs to another log, or would not fit even
//! into an empty batch is skipped, by all nodes alike.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes};
use order::{Certificate, CertificateKind, Delivery, Filling, Limits, Proposal};
use types::codec::{decode_i64, decode_u64, encode_i64, encode_u64};
use types::{Error, Result, SqlState};

use crate::record::{Bundle, Cuts, Drawn, Marker, Record, take};

/// Incarnations of nodes that are known.
const INCARNATIONS_MAX: usize = 64;

/// Where batches end: all that the rest of the order follows from, beside the records after it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Position {
    pub log: Drawn,
    pub cuts: Cuts,
    /// Offset of the next record.
    pub next: u64,
    /// Checksum of the record before it.
    pub last_crc: u32,
    /// The last batch.
    pub sequence: u64,
    pub time_us: i64,
    /// The last number of each incarnation, the one that was heard last at the end.
    pub incarnations: VecDeque<(Drawn, u64)>,
}

impl Position {
    /// After the marker, which is the first record.
    pub fn behind(marker: &Marker, bytes: &[u8]) -> Position {
        Position {
            log: marker.log,
            cuts: marker.cuts,
            next: 1,
            last_crc: crc32fast::hash(bytes),
            sequence: 0,
            time_us: i64::MIN,
            incarnations: VecDeque::new(),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_slice(&self.log);
        self.cuts.encode(&mut out);
        encode_u64(self.next, &mut out);
        out.put_u32(self.last_crc);
        encode_u64(self.sequence, &mut out);
        encode_i64(self.time_us, &mut out);
        for (incarnation, number) in &self.incarnations {
            out.put_slice(incarnation);
            encode_u64(*number, &mut out);
        }
        out
    }

    pub fn decode(mut rest: &[u8]) -> Result<Position> {
        let rest = &mut rest;
        let mut position = Position {
            log: take(rest)?,
            cuts: Cuts::decode(rest)?,
            next: decode_u64(rest)?,
            last_crc: u32::from_be_bytes(take(rest)?),
            sequence: decode_u64(rest)?,
            time_us: decode_i64(rest)?,
            incarnations: VecDeque::new(),
        };
        while !rest.is_empty() {
            position.incarnations.push_back((take(rest)?, decode_u64(rest)?));
        }
        Ok(position)
    }
}

/// Whether a record came before; if not, it has come now.
fn is_copy(incarnations: &mut VecDeque<(Drawn, u64)>, incarnation: &Drawn, number: u64) -> bool {
    let place = incarnations.iter().position(|(known, _)| known == incarnation);
    let last = place.and_then(|place| incarnations.remove(place)).map(|(_, last)| last);
    incarnations.push_back((*incarnation, last.map_or(number, |last| last.max(number))));
    if incarnations.len() > INCARNATIONS_MAX {
        incarnations.pop_front();
    }
    debug_assert!(
        incarnations.len() <= INCARNATIONS_MAX
            && incarnations.back().is_some_and(|(known, _)| known == incarnation)
    );
    last.is_some_and(|last| number <= last)
}

/// A batch that is not cut yet.
#[derive(Clone, Debug)]
struct Open {
    first: u64,
    filling: Filling,
    proposal: Proposal,
    incarnations: Vec<Drawn>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Cutter {
    at: Position,
    limits: Limits,
    open: Option<Open>,
}

/// What came of a record.
#[derive(Default, Debug)]
pub struct Stepped {
    /// Batches that ended, each with the position after it.
    pub cut: Vec<(Delivery, Position)>,
    /// Why the record says nothing, if that is strange.
    pub void: Option<&'static str>,
}

impl Cutter {
    pub fn at(position: Position) -> Cutter {
        let limits = position.cuts.limits();
        Cutter { at: position, limits, open: None }
    }

    /// Of the next record.
    pub fn offset(&self) -> u64 {
        self.at.next
    }

    /// Of the record before it.
    pub fn last_crc(&self) -> u32 {
        self.at.last_crc
    }

    pub fn log(&self) -> Drawn {
        self.at.log
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The last batch that was cut.
    pub fn sequence(&self) -> u64 {
        self.at.sequence
    }

    /// Whether a batch is open, and whether a record of this incarnation is in it.
    pub fn open(&self, incarnation: &Drawn) -> (bool, bool) {
        let open = self.open.as_ref();
        (open.is_some(), open.is_some_and(|open| open.incarnations.contains(incarnation)))
    }

    /// Takes the next record.
    ///
    /// # Errors
    ///
    /// Where it is not the next one.
    pub fn step(&mut self, offset: u64, bytes: &Bytes) -> Result<Stepped> {
        if offset != self.at.next {
            let what = format!("record {offset} of the topic follows record {}", self.at.next);
            return Err(Error::new(SqlState::DATA_CORRUPTED, what));
        }
        let mut stepped = Stepped::default();
        match Record::decode(bytes) {
            Ok(Record::Bundle(bundle)) => self.bundle(bundle, &mut stepped),
            // Nodes that start together may each write one; the first is that of the topic.
            Ok(Record::Marker(_)) => {}
            Err(_) => stepped.void = Some("it cannot be read"),
        }
        debug_assert!(stepped.cut.is_sorted_by_key(|(delivery, _)| delivery.sequence));
        self.at.next = offset + 1;
        self.at.last_crc = crc32fast::hash(bytes);
        // What ended after this record.
        if let Some((delivery, position)) = stepped.cut.last_mut()
            && delivery.sequence == self.at.sequence
            && self.open.is_none()
        {
            *position = self.at.clone();
        }
        Ok(stepped)
    }

    fn bundle(&mut self, bundle: Bundle, stepped: &mut Stepped) {
        let Bundle { log, incarnation, number, cut, forced, carried, proposal } = bundle;
        if log != self.at.log {
            stepped.void = Some("it is of another log");
            return;
        }
        let carried = usize::try_from(carried).unwrap_or(usize::MAX);
        let mut alone = Filling::default();
        if !fits(&mut alone, &proposal, &self.limits) {
            stepped.void = Some("it holds more than a batch does");
            return;
        }
        // A batch that ends before this record knows nothing of it.
        let mut incarnations = self.at.incarnations.clone();
        if is_copy(&mut incarnations, &incarnation, number) {
            self.at.incarnations = incarnations;
            return;
        }
        if !proposal.envelopes.is_empty() {
            self.add(incarnation, carried, proposal, alone, stepped);
        } else if cut == self.at.sequence + 1 {
            self.touch(&proposal, forced);
        }
        self.at.incarnations = incarnations;
        let is_full = |open: &Open| !{ open.filling }.takes(0, &self.limits);
        // Of the batch that it is in: a node that begins between the two sees no other.
        if cut == self.at.sequence + 1 || self.open.as_ref().is_some_and(is_full) {
            self.cut(self.at.next + 1, stepped);
        }
    }

    /// Puts envelopes into the open batch, or into the next one.
    fn add(
        &mut self,
        incarnation: Drawn,
        carried: usize,
        proposal: Proposal,
        alone: Filling,
        stepped: &mut Stepped,
    ) {
        if let Some(open) = &mut self.open {
            let mut filling = open.filling;
            if fits(&mut filling, &proposal, &self.limits) {
                open.filling = filling;
                open.take(proposal, incarnation);
                return;
            }
            self.cut(self.at.next, stepped);
        }
        let mut filling = Filling::beside(carried, &self.limits);
        if !fits(&mut filling, &proposal, &self.limits) {
            filling = alone;
        }
        self.open =
            Some(Open { first: self.at.next, filling, proposal, incarnations: vec![incarnation] });
    }

    /// A time-to-cut message of the open batch bears its time, too.
    fn touch(&mut self, proposal: &Proposal, forced: bool) {
        match &mut self.open {
            Some(open) => open.proposal.time_us = open.proposal.time_us.max(proposal.time_us),
            None if forced => {
                let (first, filling) = (self.at.next, Filling::default());
                let (proposal, incarnations) = (proposal.clone(), Vec::new());
                self.open = Some(Open { first, filling, proposal, incarnations });
            }
            None => {}
        }
    }

    /// Ends the open batch, if there is one, before a record.
    fn cut(&mut self, end: u64, stepped: &mut Stepped) {
        let Some(Open { first, mut proposal, .. }) = self.open.take() else { return };
        proposal.time_us = proposal.time_us.max(self.at.time_us);
        self.at.time_us = proposal.time_us;
        self.at.sequence += 1;
        let mut evidence = Vec::with_capacity(32);
        evidence.put_slice(&self.at.log);
        evidence.put_u64(first);
        evidence.put_u64(end);
        let certificate = Certificate { kind: CertificateKind::Kafka, evidence: evidence.into() };
        let sequence = self.at.sequence;
        let delivery = Delivery { sequence, content: Some(proposal), certificate };
        stepped.cut.push((delivery, self.at.clone()));
    }
}

impl Open {
    fn take(&mut self, more: Proposal, incarnation: Drawn) {
        let proposal = &mut self.proposal;
        proposal.time_us = proposal.time_us.max(more.time_us);
        proposal.seen_height = proposal.seen_height.max(more.seen_height);
        proposal.envelopes.extend(more.envelopes);
        if !self.incarnations.contains(&incarnation) {
            self.incarnations.push(incarnation);
        }
    }
}

fn fits(filling: &mut Filling, proposal: &Proposal, limits: &Limits) -> bool {
    proposal.envelopes.iter().all(|envelope| filling.takes(envelope.len(), limits))
}
