//! Positions that are known only when the whole block has run.
//!
//! A protocol that runs transactions as they arrive finds their serial order while they commit, so
//! the positions in its stamps are provisional: numbers that were drawn, with gaps where a draw
//! came to nothing. When all are done, every row that the block wrote gets the position that its
//! writer has in the order. A row under a hidden row id gets another key with it, since the id
//! names the position.
//!
//! Readers at published heights may go on meanwhile: what changes is above their heights, and a
//! stamp's height stays what it was. No worker of the block may be at work.

use std::collections::BTreeSet;
use std::sync::Arc;

use kit::sync::atomic::Ordering;
use types::{Height, Key, Position, Stamp, TableId, Value};

use crate::block::BlockWrites;
use crate::header::StampWord;
use crate::layout::STAMP;
use crate::slot::Slot;
use crate::store::Catalog;
use crate::table::Table;
use crate::undo::GarbageKind;

/// Records ahead of which memory is fetched.
const AHEAD: usize = 8;

impl BlockWrites {
    /// Puts `positions[p]` in the place of position p, in every stamp of this block and in every
    /// hidden row id that it gave. `positions` names each position at most once. `Err`: an id is
    /// that of a row which no transaction of this block has added, and the block is of no use.
    pub fn renumber(&mut self, catalog: &Catalog, positions: &[Position]) -> Result<(), String> {
        let height = self.height();
        let mut moves: Vec<(Arc<Table>, Slot, Key)> = Vec::new();
        for arena in self.arenas() {
            let mut cached: Option<(TableId, &Arc<Table>)> = None;
            for (at, touched) in arena.touched.iter().enumerate() {
                if cached.is_none_or(|(id, _)| id != touched.table) {
                    cached = catalog.table(touched.table).map(|table| (touched.table, table));
                }
                let Some((_, table)) = cached else { continue };
                if let Some(next) = arena.touched.get(at + AHEAD)
                    && next.table == touched.table
                {
                    table.prefetch_slot(next.slot);
                }
                table.renumber_stamp(touched.slot, height, positions);
                if table.schema().hidden_row_id && touched.before == 0 {
                    let key = renumbered(&table.key(touched.slot), height, positions);
                    moves.extend(key.map(|key| (Arc::clone(table), touched.slot, key)));
                }
            }
        }
        self.forget_left_entries(catalog, &moves);
        // All leave before one arrives: a new key may be another row's old one.
        for (table, slot, _) in &moves {
            table.unlink(*slot);
        }
        for (table, slot, key) in &moves {
            if table.find(key.as_bytes()).is_some() {
                let id = table.id().0;
                return Err(format!("a new row's hidden id is another row's in table {id}"));
            }
            table.link_under(*slot, key);
        }
        Ok(())
    }
}

impl BlockWrites {
    /// Entries of secondary indexes that rows which move have left within the block. They have the
    /// old id, under which they would not be found again; and no reader comes to them, for the rows
    /// are new.
    fn forget_left_entries(&mut self, catalog: &Catalog, moves: &[(Arc<Table>, Slot, Key)]) {
        if moves.is_empty() || self.arenas().iter().all(|arena| arena.garbage.is_empty()) {
            return;
        }
        let moving: BTreeSet<(TableId, Slot)> =
            moves.iter().map(|(table, slot, _)| (table.id(), *slot)).collect();
        for arena in self.arenas() {
            arena.garbage.retain(|left| match &left.what {
                GarbageKind::Entry(index, entry) if moving.contains(&(left.table, left.slot)) => {
                    let table = catalog.table(left.table);
                    if let Some(index) = table.and_then(|table| table.secondary(*index)) {
                        index.entries.remove_of(entry.as_bytes(), left.slot);
                    }
                    false
                }
                _ => true,
            });
        }
    }
}

/// The hidden row id with the position put right; `None`: it is right, or of another block.
fn renumbered(key: &Key, height: Height, positions: &[Position]) -> Option<Key> {
    let id: &[u8; 16] = key.as_bytes().try_into().ok()?;
    let (block, rest) = id.split_first_chunk::<8>()?;
    let (position, ordinal) = rest.split_first_chunk::<4>()?;
    let position = Position::from_be_bytes(*position);
    let right = *positions.get(position as usize)?;
    if u64::from_be_bytes(*block) != height || right == position {
        return None;
    }
    let ordinal = u32::from_be_bytes(ordinal.try_into().ok()?);
    Some(Key::from(&Stamp::new(height, right).row_id(ordinal)[..]))
}

impl Table {
    fn renumber_stamp(&self, slot: Slot, height: Height, positions: &[Position]) {
        let Some(record) = self.records.record(slot) else { return };
        let old = StampWord(record[STAMP].load(Ordering::Relaxed));
        if old.height() != height {
            return;
        }
        let position = positions[old.stamp().position() as usize];
        let new = StampWord::new(Stamp::new(height, position), old.state());
        record[STAMP].store(new.0, Ordering::Release);
    }

    /// Puts a record that [`Table::unlink`] has taken out of the indexes under another row id.
    fn link_under(&self, slot: Slot, key: &Key) {
        let id = <[u8; 16]>::try_from(key.as_bytes()).expect("a hidden row id");
        let [column] = self.schema().primary_key[..] else { return };
        let column = self.records.layout.column(column);
        let cell = column.encode(&Value::Uuid(id), &self.records.heap);
        if let Some(payload) = self.records.payload(slot) {
            column.store(cell, payload);
        }
        self.link_again(slot, key.as_bytes());
    }
}
