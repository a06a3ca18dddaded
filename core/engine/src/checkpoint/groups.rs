//! How a checkpoint cuts a table into groups of neighbouring rows. The cut depends on the rows
//! alone, not on the history that led to them, so two nodes with the same state write the same
//! groups and agree on the digest.

use std::ops::ControlFlow;

use ledger::Hash;
use ledger::checkpoint::{StateParts, begins_group};
use ledger::merkle::{MerkleBuilder, leaf_hash};
use replica::Boundary;
use storage::{Slot, Snapshot, Table};
use types::{Height, Result};

use super::past::{self, internal};

/// Neighbouring rows that are visible at one height.
#[derive(Default)]
pub struct RowGroup {
    pub first: Vec<u8>,
    pub last: Vec<u8>,
    pub slots: Vec<Slot>,
    /// The block that changed one of the rows last.
    pub changed: Height,
}

impl RowGroup {
    pub fn rows(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The group's bytes, in place of what `out` held.
    pub fn encode(&self, table: &Table, at: Height, out: &mut Vec<u8>) -> Result<()> {
        debug_assert!(!self.slots.is_empty() && self.first <= self.last, "a group has rows");
        const STAMP: usize = 8;
        const FRAME: usize = STAMP + 4;
        out.clear();
        for &slot in &self.slots {
            let start = out.len();
            out.extend_from_slice(&[0; FRAME]);
            let Some(stamp) = table.append_image(slot, at, out)? else {
                return Err(internal("a row went from under its snapshot"));
            };
            let length = u32::try_from(out.len() - start - FRAME)
                .map_err(|_| internal("a row of more than four gigabytes"))?;
            out[start..start + STAMP].copy_from_slice(&stamp.0.to_be_bytes());
            out[start + STAMP..start + FRAME].copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }
}

/// Calls `visit` for the groups of a table, in key order.
pub fn each_group(
    table: &Table,
    at: Height,
    visit: &mut dyn FnMut(&RowGroup) -> Result<()>,
) -> Result<()> {
    let mut group = RowGroup::default();
    let mut result = Ok(());
    table.each_row(at, &mut |key, slot, stamp| {
        debug_assert!(stamp.height() <= at, "a snapshot shows nothing that came later");
        debug_assert!(group.slots.is_empty() || group.last[..] < *key, "rows come in key order");
        if !group.slots.is_empty() && begins_group(key, group.rows()) {
            result = visit(&group);
            if result.is_err() {
                return ControlFlow::Break(());
            }
            group.slots.clear();
            group.changed = 0;
        }
        if group.slots.is_empty() {
            key.clone_into(&mut group.first);
        }
        key.clone_into(&mut group.last);
        group.slots.push(slot);
        group.changed = group.changed.max(stamp.height());
        ControlFlow::Continue(())
    });
    result?;
    if group.slots.is_empty() { Ok(()) } else { visit(&group) }
}

/// The digest of a state that is in memory.
pub fn digest(snapshot: &Snapshot, boundary: &Boundary, schema: &[u8]) -> Result<Hash> {
    let mut bytes = Vec::new();
    let mut tables = Vec::new();
    for table in snapshot.catalog().tables() {
        let mut tree = MerkleBuilder::new();
        let mut rows = 0;
        each_group(table, snapshot.height(), &mut |group| {
            group.encode(table, snapshot.height(), &mut bytes)?;
            tree.push_hash(leaf_hash(&bytes));
            rows += u64::from(group.rows());
            Ok(())
        })?;
        tables.push((table.id(), rows, tree.root()));
    }
    let past = past::roots(snapshot, boundary.past.from())?;
    let Boundary { parameters, carried, .. } = boundary;
    StateParts { parameters, schema, carried, tables, past }.digest()
}
