//! Row images as the ledger hashes them, straight from a record's words: no values are made on the
//! way, which is most of what sealing a change would otherwise cost.

use kit::sync::atomic::{AtomicU64, Ordering};
use types::row::{NULL_LENGTH, encode_field};
use types::{DataType, Result};

use crate::heap::{INLINE_BYTES, View, length};
use crate::layout::Cell;
use crate::table::Table;

/// A short string after its length, zeros after it: a view with its length turned around.
#[inline]
fn inline_field([low, high]: View) -> Option<[u8; 16]> {
    let length = low as u32;
    let turned = low >> 32 << 32 | u64::from(length.swap_bytes());
    let field = (u128::from(turned) | u128::from(high) << 64).to_le_bytes();
    (length as usize <= INLINE_BYTES).then_some(field)
}

impl Table {
    /// Appends the encoding [`types::row::encode_row`] of a payload.
    pub(crate) fn encode_image(&self, payload: &[AtomicU64], out: &mut Vec<u8>) -> Result<()> {
        let heap = &self.records.heap;
        out.reserve(payload.len() * 16);
        let columns = self.records.layout.columns.iter().zip(&self.schema().columns);
        for (column, declared) in columns.filter(|(_, declared)| !declared.dropped) {
            let cell = column.cell(|i| payload[i].load(Ordering::Relaxed));
            let Cell { null, words } = cell;
            match &declared.data_type {
                _ if null => out.extend_from_slice(&NULL_LENGTH.to_be_bytes()),
                DataType::Text | DataType::Varchar(_) | DataType::Json => {
                    let end = out.len() + 4 + length(words);
                    match inline_field(words) {
                        // One store of a fixed size is cheaper than a copy of just the bytes.
                        Some(field) => {
                            out.extend_from_slice(&field);
                            out.truncate(end);
                        }
                        None => {
                            out.extend_from_slice(&(length(words) as u32).to_be_bytes());
                            heap.with_bytes(words, |bytes| out.extend_from_slice(bytes));
                        }
                    }
                }
                DataType::Int8
                | DataType::Timestamp(_)
                | DataType::Timestamptz(_)
                | DataType::Time(_) => {
                    let field = 8u128 << 64 | u128::from(words[0]);
                    out.extend_from_slice(&field.to_be_bytes()[4..]);
                }
                DataType::Int4 => {
                    out.extend_from_slice(&4u32.to_be_bytes());
                    out.extend_from_slice(&(words[0] as u32).to_be_bytes());
                }
                _ => encode_field(declared, &column.decode(cell, heap), out)?,
            }
        }
        Ok(())
    }
}
