//! Row images: what a result holds where no serial order explains its block.
//!
//! *Idea.* A ledger carries commands, because running them again in the block's order gives the
//! same rows. Snapshot isolation has no such order: two transactions that each read what the other
//! writes both commit. So where the protocol promises no more than that, the outcome of every
//! transaction stands in the ledger with the rows that it left; executing the block again puts
//! those rows, and holds the effects root against them.
//!
//! ```text
//!   live     envelopes ─► protocol ─► outcomes, net changes ─► images + outcomes ─► sealed
//!   again                             images ─► rows ─► effects root = the recorded one?
//! ```
//!
//! *Which rows.* The net changes of the block, as in its effects: a row that several transactions
//! wrote stands with the one that wrote last, and a row that is gone, which has no writer any more,
//! with the first of the block. An image is the one that the effects hash, so a proof of a row
//! covers it.
//!
//! *What is not checked.* Outcomes: nothing was run that could tell them again. The header covers
//! them nevertheless.
//!
//! *Schema and parameter changes.* A batch that holds one runs as a whole one by one, and has no
//! images: rows alone do not tell what such a change does, and running it again does.
//!
//! *Cost.* Bytes: every row changed stands in the ledger. The result cannot be computed again, so
//! it is on stable storage before anything is released, as the order is.

use std::collections::BTreeMap;

use bytes::Bytes;
use concurrency::{Isolation, ProtocolInfo};
use ledger::BlockResult;
use storage::{BlockWrites, Changes, LATEST, Store};
use types::key::primary_key;
use types::row::decode_row;
use types::{Error, Key, Position, Result, SqlState, Stamp, TableSchema};

use crate::transaction::RowImage;
use crate::transaction::outcome::{imaged, split_images};

/// Whether rows that are the same have the same images under both.
pub fn same_images(one: &TableSchema, other: &TableSchema) -> bool {
    let of = |schema: &TableSchema| -> Vec<_> {
        schema.columns.iter().map(|column| (column.data_type.clone(), column.dropped)).collect()
    };
    of(one) == of(other)
}

/// Whether blocks of a protocol hold row images.
pub(crate) fn are_kept(protocol: &ProtocolInfo) -> bool {
    protocol.isolation == Isolation::Snapshot && !protocol.deterministic
}

/// The outcomes of a block, each with the rows that its transaction left.
pub(crate) fn attach(outcomes: Vec<Bytes>, changes: &Changes) -> Result<Vec<Bytes>> {
    let mut images = by_writer(changes)?;
    let attached = (0..)
        .zip(outcomes)
        .map(|(position, outcome)| imaged(&images.remove(&position).unwrap_or_default(), &outcome));
    let attached = attached.collect();
    assert!(images.is_empty(), "each image has a transaction to stand with");
    Ok(attached)
}

fn by_writer(changes: &Changes) -> Result<BTreeMap<Position, Vec<RowImage>>> {
    let mut images: BTreeMap<Position, Vec<RowImage>> = BTreeMap::new();
    for change in changes.touched() {
        let (table, mut image) = (change.table(), Vec::new());
        let (writer, image) = match change.after_image(&mut image)? {
            Some(stamp) => (stamp.position(), RowImage::Row { table, image: image.into() }),
            None => (0, RowImage::Gone { table, key: change.key().clone() }),
        };
        images.entry(writer).or_default().push(image);
    }
    Ok(images)
}

/// Puts what a recorded result says that its transactions left.
pub(crate) fn apply(recorded: &BlockResult, store: &Store, writes: &mut BlockWrites) -> Result<()> {
    let height = recorded.height();
    for (position, outcome) in (0..).zip(recorded.outcomes()) {
        for image in split_images(outcome)?.0 {
            put(image, Stamp::new(height, position), store, writes)?;
        }
    }
    Ok(())
}

fn put(image: RowImage, stamp: Stamp, store: &Store, writes: &mut BlockWrites) -> Result<()> {
    let (RowImage::Row { table, .. } | RowImage::Gone { table, .. }) = &image;
    let table = store.table(*table).ok_or_else(|| corrupt("a row of no table"))?;
    let live = |key: &Key| {
        let slot = table.find(key.as_bytes());
        slot.filter(|slot| table.stamp(*slot, LATEST).is_some())
    };
    let undo = writes.arena(0);
    match image {
        RowImage::Row { image, .. } => {
            let row = decode_row(&table.schema().columns, &image)?;
            let key = primary_key(table.schema(), &row)?;
            table.insert(key.as_bytes(), &row, stamp, undo);
        }
        RowImage::Gone { key, .. } => {
            let slot = live(&key).ok_or_else(|| corrupt("a row is gone that was not there"))?;
            table.delete(slot, stamp, undo);
        }
    }
    Ok(())
}

fn corrupt(what: &str) -> Error {
    let message = format!("invalid row images of a block: {what}");
    Error::new(SqlState::DATA_CORRUPTED, message)
}
