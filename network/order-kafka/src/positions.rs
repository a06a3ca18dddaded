//! How far this node has read the topic, stored beside its ledger.
//!
//! ```text
//! kafka/positions   [ slot: 4096 ] × 16, used in turn
//! slot              [ crc: 4 | length: 4 | count: 8 | position ]      numbers big-endian
//! ```
//!
//! **Not synced when written.** A position only says where to begin to read; the ledger's orders
//! are what is durable. The records after a position are cut into the same batches again, and those
//! that the ledger already has are compared with it and skipped. So a position that a crash lost
//! costs only more reading. A position that is ahead of the ledger is not used; some older ones are
//! kept for that case. A new slot is written every [`EVERY`] batches.

use std::io;
use std::sync::Arc;

use bytes::BufMut;
use ledger::files::{read_all, write_new};
use ledger::{Files, StorageFile};

use crate::cutter::Position;

/// Batches between two positions.
pub const EVERY: u64 = 64;

const FOLDER: &str = "kafka";
const PATH: &str = "kafka/positions";
const SLOTS: u64 = 16;
const SLOT_BYTES: usize = 4096;
const HEAD_BYTES: usize = 16;

/// See the module.
pub struct Positions {
    file: Box<dyn StorageFile>,
    count: u64,
    kept: Vec<Position>,
}

impl Positions {
    pub fn open(files: &Arc<dyn Files>) -> io::Result<Positions> {
        if !files.list(FOLDER)?.iter().any(|name| PATH.ends_with(&**name)) {
            write_new(&**files, FOLDER, PATH, &[0; SLOT_BYTES * SLOTS as usize])?;
        }
        let file = files.open(PATH)?;
        let bytes = read_all(&*file)?;
        let mut found: Vec<(u64, Position)> = bytes.chunks(SLOT_BYTES).filter_map(slot).collect();
        found.sort_by_key(|(count, _)| *count);
        let count = found.last().map_or(0, |(count, _)| *count);
        let kept = found.into_iter().map(|(_, position)| position).collect();
        Ok(Positions { file, count, kept })
    }

    /// The one to begin at, so as to come to the batch after this one. `None`: with the topic.
    pub fn up_to(&self, sequence: u64) -> Option<&Position> {
        let usable = self.kept.iter().filter(|position| position.sequence <= sequence);
        usable.max_by_key(|position| position.sequence)
    }

    /// Kept soon.
    pub fn put(&mut self, position: &Position) -> io::Result<()> {
        let encoded = position.encode();
        let mut rest = Vec::with_capacity(HEAD_BYTES + encoded.len());
        rest.put_u32(encoded.len() as u32);
        rest.put_u64(self.count + 1);
        rest.put_slice(&encoded);
        let mut bytes = crc32fast::hash(&rest).to_be_bytes().to_vec();
        bytes.put_slice(&rest);
        if bytes.len() > SLOT_BYTES {
            return Err(io::Error::other("a position in the topic is too long"));
        }
        let slot = self.count % SLOTS;
        self.file.write_at(&bytes, slot * SLOT_BYTES as u64)?;
        self.count += 1;
        if self.kept.len() as u64 >= SLOTS {
            self.kept.remove(0);
        }
        self.kept.push(position.clone());
        Ok(())
    }

    /// Makes sure of them.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

fn slot(bytes: &[u8]) -> Option<(u64, Position)> {
    let (crc, rest) = bytes.split_first_chunk::<4>()?;
    let (length, _) = rest.split_first_chunk::<4>()?;
    let rest = rest.get(..4 + 8 + u32::from_be_bytes(*length) as usize)?;
    if crc32fast::hash(rest) != u32::from_be_bytes(*crc) {
        return None;
    }
    let (count, position) = rest[4..].split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*count), Position::decode(position).ok()?))
}

/// Has a folder's node begin at this position, in the ledger of another member.
pub fn begin_behind(files: &Arc<dyn Files>, position: &[u8]) -> io::Result<()> {
    let mut positions = Positions::open(files)?;
    if !position.is_empty() {
        positions.put(&Position::decode(position).map_err(io::Error::other)?)?;
    }
    positions.sync()
}

#[cfg(test)]
mod tests {
    use kit::random::Random;
    use ledger::MemoryFiles;

    use super::*;
    use crate::record::{Cuts, Marker};

    fn position(sequence: u64) -> Position {
        let (transactions_max, bytes_max, block_bytes_max, outcome_bytes_max) = (1, 2, 3, 4);
        let cuts = Cuts { transactions_max, bytes_max, block_bytes_max, outcome_bytes_max };
        let marker = Marker { log: [7; 16], ledger_id: [8; 16], cuts };
        let mut position = Position::behind(&marker, b"marker");
        (position.sequence, position.next) = (sequence, 3 * sequence);
        position
    }

    /// The newest that is not beyond the ledger, whatever a crash took.
    #[test]
    fn a_position_is_never_beyond_the_ledger() {
        let mut random = Random::new(1);
        for _ in 0..50 {
            let memory = MemoryFiles::new();
            let files: Arc<dyn Files> = Arc::new(memory.clone());
            let mut positions = Positions::open(&files).unwrap();
            assert_eq!(positions.up_to(u64::MAX), None);
            let last = 1 + random.below(40);
            for sequence in 1..=last {
                positions.put(&position(sequence)).unwrap();
                if random.chance(4) {
                    positions.sync().unwrap();
                }
            }
            let begun = Positions::open(&files).unwrap();
            assert_eq!(begun.up_to(last), Some(&position(last)));
            assert_eq!(
                begun.up_to(last - 1),
                Some(&position(last - 1)).filter(|it| it.sequence > 0)
            );
            let left: Arc<dyn Files> = Arc::new(memory.crash(&mut random));
            let head = random.below(last + 1);
            let found = Positions::open(&left).unwrap().up_to(head).cloned();
            assert!(found.is_none_or(|it| it.sequence <= head && it == position(it.sequence)));
        }
    }
}
