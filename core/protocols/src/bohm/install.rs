//! Installs a segment's result: the last version of each record becomes the stored row.

use std::sync::Arc;

use concurrency::install::{Resolved, resolve};
use concurrency::{PendingWrite, Prefetching, RecordId, WriteState};
use smallvec::SmallVec;
use storage::{Catalog, LATEST, UndoArena};
use types::{Height, Key, Stamp, Stop, TableId, Value};

use super::mutant::Mutant;
use super::versions::{Shard, State, Version, Versions};

/// Records whose lines of memory are asked for at a time.
const FETCHED_TOGETHER: usize = 32;

/// Store one worker's records.
pub fn install(
    versions: &Versions,
    shard: &Shard,
    height: Height,
    catalog: &Arc<Catalog>,
    undo: &mut UndoArena,
    mutant: Option<Mutant>,
) -> Result<(), Stop> {
    let mut scratch = Vec::new();
    let mut prefetching = Prefetching::new(Arc::clone(catalog), versions.segment.len());
    let lasts: Vec<&Version> = shard.last().collect();
    for group in lasts.chunks(FETCHED_TOGETHER) {
        let keys = group.iter().filter_map(|version| versions.key(version));
        prefetching.fetch_keys(keys);
        for last in group {
            let mut newest_first: Vec<&Version> = shard.back_from(last).collect();
            if mutant == Some(Mutant::FirstVersionStays) {
                newest_first.reverse();
            }
            install_record(versions, &newest_first, height, catalog, undo, &mut scratch)?;
        }
    }
    Ok(())
}

/// The newest state among the versions of one record; absent keys may share an id, so there may be
/// more than one key.
fn install_record(
    versions: &Versions,
    newest_first: &[&Version],
    height: Height,
    catalog: &Catalog,
    undo: &mut UndoArena,
    scratch: &mut Vec<Value>,
) -> Result<(), Stop> {
    let mut done: SmallVec<[&Key; 1]> = SmallVec::new();
    for version in newest_first {
        let stamp = Stamp::new(height, version.at);
        match (version.made(), versions.key(version)) {
            (State::Unchanged, _) => {}
            (State::Added(table, rows), _) => {
                for (key, row) in rows {
                    let row = Resolved::Insert(row.clone());
                    store(catalog, *table, key, row, stamp, undo)?;
                }
            }
            (state, Some(access)) if !done.contains(&&access.key) => {
                done.push(&access.key);
                let resolved = resolved(catalog, access.table, &access.key, state, scratch)?;
                store(catalog, access.table, &access.key, resolved, stamp, undo)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// A state as a change of what is stored.
fn resolved(
    catalog: &Catalog,
    table: TableId,
    key: &Key,
    state: &State,
    scratch: &mut Vec<Value>,
) -> Result<Resolved, Stop> {
    let of_table = catalog.table(table).ok_or_else(gone)?;
    let slot = of_table.find(key.as_bytes());
    let slot = slot.filter(|&slot| of_table.stamp(slot, LATEST).is_some());
    let state = match (state, slot) {
        (State::Patch(patch), Some(slot)) => return Ok(Resolved::Patch(slot, patch.clone())),
        (State::Row(row), _) => WriteState::Put(row.clone()),
        (State::Deleted, _) => WriteState::Delete,
        _ => return Err(Stop::Halt("a patch of a row that is not there".to_owned())),
    };
    let record = RecordId::of(slot, key);
    let existed = slot.is_some();
    let write = PendingWrite { table, record, slot, key: key.clone(), existed, state };
    resolve(of_table, &write, 0, scratch)
}

fn store(
    catalog: &Catalog,
    table: TableId,
    key: &Key,
    resolved: Resolved,
    stamp: Stamp,
    undo: &mut UndoArena,
) -> Result<(), Stop> {
    let table = catalog.table(table).ok_or_else(gone)?;
    resolved.install(table, key, stamp, undo);
    Ok(())
}

fn gone() -> Stop {
    Stop::Halt("a table vanished within a block".to_owned())
}
