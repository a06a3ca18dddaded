//! A record: the canonical bytes of a batch or of a result, with what a log needs to know of them.

use bytes::Bytes;
use types::{Error, Height, Result, SqlState};

use crate::hash::{Hash, TAG_ORDER, TAG_RESULT};
use crate::header::{
    LedgerId, ORDER_HEADER_BYTES, OrderHeader, RESULT_HEADER_BYTES, ResultHeader, hash_of_encoded,
};
use crate::stream::Stream;
use crate::wire::Cursor;

/// Upper bound of an encoded batch, and of an encoded result. Far above what block cutting
/// produces; it keeps a record's length in 32 bits and a reader's memory bounded.
pub const RECORD_BYTES_MAX: usize = 1 << 30;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub(crate) stream: Stream,
    pub(crate) height: Height,
    pub(crate) hash: Hash,
    pub(crate) previous_hash: Hash,
    pub(crate) order_hash: Hash,
    pub(crate) ledger_id: LedgerId,
    pub(crate) payload: Bytes,
}

impl Record {
    /// Takes bytes that came from elsewhere. Reads the header only; [`crate::Batch::of`] and
    /// [`crate::BlockResult::of`] check the rest.
    pub fn from_payload(stream: Stream, payload: Bytes) -> Result<Record> {
        match stream {
            Stream::Orders => Record::of_order(payload),
            Stream::Results => Record::of_result(payload),
        }
    }

    fn of_order(payload: Bytes) -> Result<Record> {
        let encoded: [u8; ORDER_HEADER_BYTES] = Cursor::new("batch", &payload).array()?;
        let header = OrderHeader::decode(&encoded)?;
        check_size(header.height, payload.len())?;
        let hash = hash_of_encoded(TAG_ORDER, &encoded);
        Ok(Record {
            stream: Stream::Orders,
            height: header.height,
            hash,
            previous_hash: header.previous_order_hash,
            order_hash: hash,
            ledger_id: header.ledger_id,
            payload,
        })
    }

    fn of_result(payload: Bytes) -> Result<Record> {
        let encoded: [u8; RESULT_HEADER_BYTES] = Cursor::new("block result", &payload).array()?;
        let header = ResultHeader::decode(&encoded)?;
        check_size(header.height, payload.len())?;
        Ok(Record {
            stream: Stream::Results,
            height: header.height,
            hash: hash_of_encoded(TAG_RESULT, &encoded),
            previous_hash: header.previous_result_hash,
            order_hash: header.order_hash,
            ledger_id: header.ledger_id,
            payload,
        })
    }

    pub fn stream(&self) -> Stream {
        self.stream
    }

    pub fn height(&self) -> Height {
        self.height
    }

    /// The order hash of a batch, the result hash of a result.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The hash of the record before in the same stream.
    pub fn previous_hash(&self) -> Hash {
        self.previous_hash
    }

    /// The order that this is, or that it is the result of.
    pub fn order_hash(&self) -> Hash {
        self.order_hash
    }

    pub fn ledger_id(&self) -> LedgerId {
        self.ledger_id
    }

    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    pub(crate) fn expect(&self, stream: Stream) -> Result<()> {
        if self.stream == stream {
            return Ok(());
        }
        let what = format!("a record of {} was taken for one of {stream}", self.stream);
        Err(Error::new(SqlState::INTERNAL_ERROR, what))
    }
}

pub(crate) fn check_size(height: Height, size: usize) -> Result<()> {
    if size > RECORD_BYTES_MAX { Err(too_large(height, size)) } else { Ok(()) }
}

pub(crate) fn too_large(height: Height, size: usize) -> Error {
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "block is too large")
        .with_detail(format!("Block {height} has a size of {size}."))
}
