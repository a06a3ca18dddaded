//! A transaction that was simulated before it was ordered: what was asked, what it read, with
//! versions, and what it writes.
//!
//! *Idea.* Endorsers run a call on a snapshot each for itself. Where they come to the same, all
//! that they have come to is ordered, and no replica runs the call again: it checks that what was
//! read is as it was, and writes. Those who have endorsed it say so by approvals, which are over
//! the whole envelope: its ledger, principal, number, expiry, the block that it was simulated on
//! (its seen height), and this body. So a body with other reads or writes bears none of them.
//!
//! ```text
//! endorsed      proposal: a request of kind 1, 2, 3, 4 or 7 | schema: varint | now: zigzag
//!               | rows: varint × row read | ranges: varint × range read
//!               | writes: varint × write | result: 32
//! row read      table: varint, key: bytes, stamp: varint, 0 if there was no row
//! range read    range, 2 × rows + stopped: varint, SHA-256 of its rows: 32
//! write         table: varint, kind: 1
//!   0 insert    values of all columns that users see
//!   1 update    key: values, changes: varint × (column: varint, value)
//!   2 delete    key: values
//! ```
//!
//! A row of a range is hashed as: length of its key (8 bytes), key, stamp (8 bytes). The *result*
//! is the SHA-256 of what the simulation answered: its count and rows as an outcome has them.
//!
//! What an interactive transaction's client was shown stands twice: in the proposal, as what it
//! asks for, and among what endorsers have read.
//!
//! *Bounds.* A body is read in one pass over its bytes; no list is longer than its bytes, and a
//! proposal holds no other proposal.

use concurrency::{RangeDigest, RangeRequirement, RowRequirement};
use ledger::Hash;
use procedure::ProgramResult;
use types::codec::{decode_i64, decode_u64, decode_value, encode_i64, encode_u64, encode_value};
use types::{ColumnId, Result, TableId, Value};

use super::parts::{
    corrupt, decode_array, decode_byte, decode_list, decode_range, decode_row_read, decode_table,
    decode_values, encode_range, encode_row_read, encode_rows, encode_values,
};

/// What endorsers have come to. The proposal is a statement, a call, a load, or the COMMIT of an
/// interactive transaction that changes no schema.
#[derive(Clone, PartialEq, Debug)]
pub struct Endorsed<P> {
    pub proposal: P,
    /// Schema changes before the block that it was simulated on.
    pub schema_version: u64,
    /// What `now()` was: that block's time; in an interactive transaction, the time of the block
    /// that it began on.
    pub now_us: i64,
    /// Sorted by table and key, none twice.
    pub rows: Vec<RowRequirement>,
    /// Each with its seal.
    pub ranges: Vec<RangeRequirement>,
    /// In the order in which the rows were first written to.
    pub writes: Vec<RowWrite>,
    /// Of what was answered: [`result_hash`].
    pub result: Hash,
}

/// What becomes of one row.
#[derive(Clone, PartialEq, Debug)]
pub struct RowWrite {
    pub table: TableId,
    pub change: RowChange,
}

#[derive(Clone, PartialEq, Debug)]
pub enum RowChange {
    /// All columns that users see, in their order.
    Insert(Vec<Value>),
    /// The columns that have other values, ascending.
    Update {
        key: Vec<Value>,
        columns: Vec<(ColumnId, Value)>,
    },
    Delete {
        key: Vec<Value>,
    },
}

/// What a simulation answered.
pub fn result_hash(result: &ProgramResult) -> Hash {
    let mut bytes = Vec::new();
    encode_u64(result.count, &mut bytes);
    encode_rows(&result.rows, &mut bytes);
    ledger::merkle::leaf_hash(&bytes)
}

impl<P> Endorsed<P> {
    pub(super) fn encode(&self, proposal: impl Fn(&P, &mut Vec<u8>), out: &mut Vec<u8>) {
        proposal(&self.proposal, out);
        encode_u64(self.schema_version, out);
        encode_i64(self.now_us, out);
        encode_u64(self.rows.len() as u64, out);
        self.rows.iter().for_each(|row| encode_row_read(row, out));
        encode_u64(self.ranges.len() as u64, out);
        for RangeRequirement { range, digest, seal } in &self.ranges {
            encode_range(range, out);
            encode_u64(digest.rows << 1 | u64::from(digest.stopped), out);
            out.extend_from_slice(seal.as_deref().unwrap_or(&[0; 32]));
        }
        encode_u64(self.writes.len() as u64, out);
        self.writes.iter().for_each(|write| write.encode(out));
        out.extend_from_slice(&self.result);
    }

    pub(super) fn decode(
        input: &mut &[u8],
        proposal: impl Fn(&mut &[u8]) -> Result<P>,
    ) -> Result<Endorsed<P>> {
        Ok(Endorsed {
            proposal: proposal(input)?,
            schema_version: decode_u64(input)?,
            now_us: decode_i64(input)?,
            rows: decode_list(input, decode_row_read)?,
            ranges: decode_list(input, |input| {
                let (range, rows) = (decode_range(input)?, decode_u64(input)?);
                let digest = RangeDigest::from_parts(rows >> 1, rows & 1 == 1, [0; 2]);
                Ok(RangeRequirement { range, digest, seal: Some(Box::new(decode_array(input)?)) })
            })?,
            writes: decode_list(input, RowWrite::decode)?,
            result: decode_array(input)?,
        })
    }
}

impl RowWrite {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_u64(u64::from(self.table.0), out);
        match &self.change {
            RowChange::Insert(values) => {
                out.push(0);
                encode_values(values, out);
            }
            RowChange::Update { key, columns } => {
                out.push(1);
                encode_values(key, out);
                encode_u64(columns.len() as u64, out);
                for (column, value) in columns {
                    encode_u64(u64::from(*column), out);
                    encode_value(value, out);
                }
            }
            RowChange::Delete { key } => {
                out.push(2);
                encode_values(key, out);
            }
        }
    }

    fn decode(input: &mut &[u8]) -> Result<RowWrite> {
        let table = decode_table(input)?;
        let change = match decode_byte(input)? {
            0 => RowChange::Insert(decode_values(input)?),
            1 => RowChange::Update {
                key: decode_values(input)?,
                columns: decode_list(input, |input| {
                    let column = ColumnId::try_from(decode_u64(input)?);
                    let column = column.map_err(|_| corrupt("a column number"))?;
                    Ok((column, decode_value(input)?))
                })?,
            },
            2 => RowChange::Delete { key: decode_values(input)? },
            _ => return Err(corrupt("a row's change of unknown kind")),
        };
        Ok(RowWrite { table, change })
    }
}
