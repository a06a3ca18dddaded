//! What a leader has Raft carry: a batch before it has a height.
//!
//! ```text
//! draft  [ term: 8 | parameters_hash: 32 | proposal ]        numbers big-endian
//! void   [ ]                                                 an entry without content
//! ```

use std::fmt;
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use ledger::{Batch, Hash};
use order::Proposal;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use types::{Error, Result, SqlState};

const HEAD_BYTES: usize = 8 + 32;

/// See the module. Clones share what it holds.
#[derive(Clone, PartialEq, Eq)]
pub struct Draft(pub(crate) Option<Arc<Content>>);

#[derive(PartialEq, Eq)]
pub(crate) struct Content {
    /// The term that it was drafted in, and the only one that it counts in.
    pub term: u64,
    /// Of the ledger's parameters that its block is executed under.
    pub parameters_hash: Hash,
    pub proposal: Proposal,
}

impl Draft {
    pub(crate) fn new(term: u64, parameters_hash: Hash, proposal: Proposal) -> Draft {
        Draft(Some(Arc::new(Content { term, parameters_hash, proposal })))
    }

    pub(crate) fn void() -> Draft {
        Draft(None)
    }

    /// As it reads back from the order record that it became.
    pub(crate) fn of_batch(term: u64, batch: &Batch) -> Draft {
        let header = batch.header();
        let proposal = Proposal {
            time_us: header.time_us,
            proposer: header.proposer,
            seen_height: header.seen_height,
            envelopes: batch.envelopes().to_vec(),
        };
        Draft::new(term, header.parameters_hash, proposal)
    }

    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.encoded_bytes());
        self.encode_into(&mut out);
        out.into()
    }

    pub(crate) fn encoded_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |content| HEAD_BYTES + content.proposal.encoded_bytes())
    }

    /// Appends its bytes: a leader does so for each follower, and copies them once for each.
    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        let Some(content) = &self.0 else { return };
        out.put_u64(content.term);
        out.put_slice(&content.parameters_hash);
        content.proposal.encode_into(out);
    }

    pub fn decode(bytes: &Bytes) -> Result<Draft> {
        if bytes.is_empty() {
            return Ok(Draft::void());
        }
        let Some((head, _)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
            return Err(Error::new(SqlState::DATA_CORRUPTED, "a draft is cut"));
        };
        let (mut term, mut parameters_hash) = ([0; 8], [0; 32]);
        term.copy_from_slice(&head[..8]);
        parameters_hash.copy_from_slice(&head[8..]);
        let proposal = Proposal::decode(&bytes.slice(HEAD_BYTES..))?;
        Ok(Draft::new(u64::from_be_bytes(term), parameters_hash, proposal))
    }

    pub(crate) fn bytes(&self) -> usize {
        let envelopes = self.0.iter().flat_map(|content| &content.proposal.envelopes);
        HEAD_BYTES + envelopes.map(|envelope| envelope.len() + 4).sum::<usize>()
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(content) => {
                let count = content.proposal.envelopes.len();
                write!(f, "draft of term {} with {count} envelopes", content.term)
            }
            None => f.write_str("void draft"),
        }
    }
}

/// Openraft asks for it; messages carry the bytes as they are ([`crate::wire`]).
impl Serialize for Draft {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.encode())
    }
}

impl<'de> Deserialize<'de> for Draft {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Draft, D::Error> {
        let bytes = Vec::<u8>::deserialize(deserializer)?;
        Draft::decode(&bytes.into()).map_err(serde::de::Error::custom)
    }
}
