//! What an orderer hands over: batches, numbered, with the evidence for their place.
//!
//! ```text
//! proposal     [ time_us: zigzag | proposer: 32 | seen_height: varint
//!              | count: varint, envelopes: string each ]
//! certificate  [ kind: 1 | evidence: string ]
//! ```
//!
//! A proposal is what orderers carry that keep their own log (an entry of Raft, a record of Kafka);
//! a certificate is what a node may keep beside its batch, outside of every hash.

use bytes::{BufMut, Bytes};
use types::codec::{decode_bytes, decode_i64, decode_u64, encode_bytes, encode_i64, encode_u64};
use types::{Height, Result};

use crate::wire::{corrupt, finish, i64_bytes, string_bytes, take, u64_bytes};

/// Which node cut a batch; zeros where a ledger has one node.
pub type Proposer = [u8; 32];

/// A batch before it has a height: what every replica fills its order header from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proposal {
    /// Block time, in microseconds since 2000-01-01 00:00:00 UTC.
    pub time_us: i64,
    pub proposer: Proposer,
    /// What its node had released when it cut the batch.
    pub seen_height: Height,
    /// May be empty: a block for what earlier ones deferred.
    pub envelopes: Vec<Bytes>,
}

impl Proposal {
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.encoded_bytes());
        self.encode_into(&mut out);
        out.into()
    }

    pub fn encoded_bytes(&self) -> usize {
        let envelopes = self.envelopes.iter().map(|envelope| string_bytes(envelope.len()));
        i64_bytes(self.time_us)
            + 32
            + u64_bytes(self.seen_height)
            + u64_bytes(self.envelopes.len() as u64)
            + envelopes.sum::<usize>()
    }

    /// Appends its bytes.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        encode_i64(self.time_us, out);
        out.put_slice(&self.proposer);
        encode_u64(self.seen_height, out);
        encode_u64(self.envelopes.len() as u64, out);
        for envelope in &self.envelopes {
            encode_bytes(envelope, out);
        }
    }

    /// Shares the bytes with its envelopes, into which it does not look.
    pub fn decode(bytes: &Bytes) -> Result<Proposal> {
        let mut rest = &bytes[..];
        let time_us = decode_i64(&mut rest)?;
        let proposer = take(&mut rest)?;
        let seen_height = decode_u64(&mut rest)?;
        let count = decode_u64(&mut rest)?;
        let envelopes: Result<Vec<Bytes>> =
            (0..count).map(|_| Ok(bytes.slice_ref(decode_bytes(&mut rest)?))).collect();
        let proposal = Proposal { time_us, proposer, seen_height, envelopes: envelopes? };
        finish(rest)?;
        Ok(proposal)
    }
}

/// Whose evidence a certificate holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum CertificateKind {
    /// The node's own word, and no evidence.
    Solo = 0,
    Raft = 1,
    Kafka = 2,
    CometBft = 3,
    /// Of a simulation.
    Model = 255,
}

impl CertificateKind {
    const ALL: [CertificateKind; 5] =
        [Self::Solo, Self::Raft, Self::Kafka, Self::CometBft, Self::Model];
}

/// The orderer's own evidence that a batch has its place: Raft's term and index, Kafka's offset,
/// CometBFT's commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certificate {
    pub kind: CertificateKind,
    pub evidence: Bytes,
}

impl Certificate {
    pub fn solo() -> Self {
        Certificate { kind: CertificateKind::Solo, evidence: Bytes::new() }
    }

    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(1 + string_bytes(self.evidence.len()));
        out.put_u8(self.kind as u8);
        encode_bytes(&self.evidence, &mut out);
        out.into()
    }

    pub fn decode(bytes: &Bytes) -> Result<Certificate> {
        let mut rest = &bytes[..];
        let [number] = take(&mut rest)?;
        let kind = CertificateKind::ALL.into_iter().find(|kind| *kind as u8 == number);
        let kind = kind.ok_or_else(|| corrupt("an unknown kind of certificate"))?;
        let evidence = bytes.slice_ref(decode_bytes(&mut rest)?);
        finish(rest)?;
        if kind == CertificateKind::Solo && !evidence.is_empty() {
            return Err(corrupt("evidence of a lone node"));
        }
        Ok(Certificate { kind, evidence })
    }
}

/// One entry of the order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Counts from 1 without a gap; what [`crate::Orderer::resume`] is told.
    pub sequence: u64,
    /// `None`: an entry of the orderer's own (a new leader, a change of members). It has no height.
    pub content: Option<Proposal>,
    pub certificate: Certificate,
}
