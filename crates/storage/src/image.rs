//! Row images as the ledger hashes them, straight from a record's words: no values are made on the
//! way, which is most of what sealing a change would otherwise cost.

use kit::sync::atomic::{AtomicU64, Ordering};
use types::row::{NULL_LENGTH, encode_field};
use types::{DataType, Result};

use crate::heap::length;
use crate::layout::Cell;
use crate::table::Table;

impl Table {
    /// Appends the encoding [`types::row::encode_row`] of a payload.
    pub(crate) fn encode_image(&self, payload: &[AtomicU64], out: &mut Vec<u8>) -> Result<()> {
        let heap = &self.records.heap;
        let columns = self.records.layout.columns.iter().zip(&self.schema().columns);
        for (column, declared) in columns.filter(|(_, declared)| !declared.dropped) {
            let cell = column.cell(|i| payload[i].load(Ordering::Relaxed));
            let Cell { null, words } = cell;
            match &declared.data_type {
                _ if null => out.extend_from_slice(&NULL_LENGTH.to_be_bytes()),
                DataType::Text | DataType::Varchar(_) => {
                    out.extend_from_slice(&(length(words) as u32).to_be_bytes());
                    heap.with_bytes(words, |bytes| out.extend_from_slice(bytes));
                }
                DataType::Int8 | DataType::Timestamp | DataType::Timestamptz => {
                    out.extend_from_slice(&8u32.to_be_bytes());
                    out.extend_from_slice(&words[0].to_be_bytes());
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
