//! The format of records in the Kafka topic.
//!
//! ```text
//! marker  [ 0 | log: 16 | ledger_id: 16
//!         | transactions_max, bytes_max, block_bytes_max, outcome_bytes_max: varint each ]
//! bundle  [ 1 | log: 16 | incarnation: 16 | number: varint | cut: varint | forced: 1
//!         | carried: varint | proposal ]
//! ```
//!
//! The marker is the first record of a topic and says what the topic is of; `log` is drawn with it,
//! so a topic that was deleted and made anew under the same name is another log. A bundle holds
//! envelopes of one node, in a proposal that says its clock, its name and what it had released.
//! `incarnation` is drawn at each start of a node and `number` counts within it: a bundle that a
//! retry put into the topic twice bears the same pair. `cut` is the number of the batch that ends
//! after this record, if that is the open one; 0: none. A bundle without envelopes is a
//! time-to-cut message. A `forced` one cuts a batch even if nothing is in it.

use bytes::{BufMut, Bytes};
use order::{Limits, Proposal};
use types::codec::{decode_u64, encode_u64};
use types::{Error, Result, SqlState};

/// A draw of 16 bytes.
pub type Drawn = [u8; 16];

const MARKER: u8 = 0;
const BUNDLE: u8 = 1;
/// What a bundle has beside its proposal, and a proposal beside its envelopes, at most.
pub(crate) const OVERHEAD_BYTES: usize = 128;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    Marker(Marker),
    Bundle(Bundle),
}

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marker {
    pub log: Drawn,
    pub ledger_id: [u8; 16],
    pub cuts: Cuts,
}

/// What bounds batches: the same for all, whatever the settings of a node are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cuts {
    pub transactions_max: u64,
    pub bytes_max: u64,
    pub block_bytes_max: u64,
    pub outcome_bytes_max: u64,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bundle {
    pub log: Drawn,
    pub incarnation: Drawn,
    pub number: u64,
    pub cut: u64,
    pub forced: bool,
    /// Transactions that earlier blocks had deferred, as its node knew.
    pub carried: u64,
    pub proposal: Proposal,
}

impl Cuts {
    pub fn of(limits: &Limits) -> Cuts {
        Cuts {
            transactions_max: limits.transactions_max as u64,
            bytes_max: limits.bytes_max as u64,
            block_bytes_max: limits.block_bytes_max as u64,
            outcome_bytes_max: limits.outcome_bytes_max as u64,
        }
    }

    /// As they bound a batch.
    pub(crate) fn limits(&self) -> Limits {
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Limits {
            transactions_max: size(self.transactions_max),
            bytes_max: size(self.bytes_max),
            block_bytes_max: size(self.block_bytes_max),
            outcome_bytes_max: size(self.outcome_bytes_max),
            ..Limits::default()
        }
    }

    pub(crate) fn encode(&self, out: &mut impl BufMut) {
        let Cuts { transactions_max, bytes_max, block_bytes_max, outcome_bytes_max } = *self;
        for number in [transactions_max, bytes_max, block_bytes_max, outcome_bytes_max] {
            encode_u64(number, out);
        }
    }

    pub(crate) fn decode(rest: &mut &[u8]) -> Result<Cuts> {
        Ok(Cuts {
            transactions_max: decode_u64(rest)?,
            bytes_max: decode_u64(rest)?,
            block_bytes_max: decode_u64(rest)?,
            outcome_bytes_max: decode_u64(rest)?,
        })
    }
}

impl Marker {
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(OVERHEAD_BYTES);
        out.put_u8(MARKER);
        out.put_slice(&self.log);
        out.put_slice(&self.ledger_id);
        self.cuts.encode(&mut out);
        out.into()
    }
}

impl Bundle {
    pub fn encode(&self) -> Bytes {
        let proposal = self.proposal.encode();
        let mut out = Vec::with_capacity(OVERHEAD_BYTES + proposal.len());
        out.put_u8(BUNDLE);
        out.put_slice(&self.log);
        out.put_slice(&self.incarnation);
        encode_u64(self.number, &mut out);
        encode_u64(self.cut, &mut out);
        out.put_u8(self.forced.into());
        encode_u64(self.carried, &mut out);
        out.put_slice(&proposal);
        out.into()
    }
}

impl Record {
    /// Shares the bytes with its envelopes.
    pub fn decode(bytes: &Bytes) -> Result<Record> {
        let mut rest = &bytes[..];
        let [kind] = take(&mut rest)?;
        let log = take(&mut rest)?;
        match kind {
            MARKER => {
                let (ledger_id, cuts) = (take(&mut rest)?, Cuts::decode(&mut rest)?);
                if !rest.is_empty() {
                    return Err(invalid("a marker is too long"));
                }
                Ok(Record::Marker(Marker { log, ledger_id, cuts }))
            }
            BUNDLE => {
                let (incarnation, number) = (take(&mut rest)?, decode_u64(&mut rest)?);
                let cut = decode_u64(&mut rest)?;
                let forced = match take(&mut rest)? {
                    [0] => false,
                    [1] => true,
                    _ => return Err(invalid("a flag is neither set nor clear")),
                };
                let carried = decode_u64(&mut rest)?;
                let proposal = Proposal::decode(&bytes.slice_ref(rest))?;
                let bundle = Bundle { log, incarnation, number, cut, forced, carried, proposal };
                Ok(Record::Bundle(bundle))
            }
            _ => Err(invalid("a record of an unknown kind")),
        }
    }
}

pub(crate) fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    let (head, tail) = rest.split_first_chunk().ok_or_else(|| invalid("a record is cut"))?;
    *rest = tail;
    Ok(*head)
}

fn invalid(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("invalid record of the topic: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts() -> Cuts {
        Cuts { transactions_max: 5, bytes_max: 1 << 40, block_bytes_max: 7, outcome_bytes_max: 0 }
    }

    #[test]
    fn records_are_what_they_were_written_as() {
        let marker = Marker { log: [1; 16], ledger_id: [2; 16], cuts: cuts() };
        assert_eq!(Record::decode(&marker.encode()).unwrap(), Record::Marker(marker));
        let envelopes = vec![Bytes::from_static(b"one"), Bytes::new()];
        let proposal = Proposal { time_us: -5, proposer: [3; 32], seen_height: 9, envelopes };
        let (log, incarnation, number, cut, carried) = ([1; 16], [4; 16], 300, 7, 2);
        let bundle = Bundle { log, incarnation, number, cut, forced: true, carried, proposal };
        let bytes = bundle.encode();
        assert_eq!(Record::decode(&bytes).unwrap(), Record::Bundle(bundle));
        for length in 0..bytes.len() {
            assert!(Record::decode(&bytes.slice(..length)).is_err(), "{length} bytes");
        }
        let longer = [&marker.encode()[..], b"x"].concat();
        assert!(Record::decode(&longer.into()).is_err());
        assert!(Record::decode(&Bytes::from_static(&[7; 60])).is_err());
    }
}
