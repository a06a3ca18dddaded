//! A block of the ledger: what was ordered, and what it came to in a database.
//!
//! ```text
//! order header  ─ envelopes root ─ statements of each transaction
//! result header ─ outcomes root  ─ one byte each: 0 failed, 1 succeeded, 2 refused unexecuted
//!               ├ effects root   ─ net changes of rows, by table and key
//!               └ state root     ─ all rows of all tables, where the block is a checkpoint's
//! ```
//!
//! Both are the ledger's own records. Why a transaction failed is no part of it: systems tell that
//! in words of their own.

use std::collections::BTreeMap;

use bytes::Bytes;
use ledger::effects::{Effect, EffectsBuilder};
use ledger::{Batch, BlockResult, Hash, ResultSeal, ZERO_HASH};
use types::{Error, Height, Result, SqlState, TableId};

use crate::canonical::row_name;
use crate::database::{Change, Entry};
use crate::schema::Schema;

/// Of the meaning of blocks: canonical forms, statements that are taken.
pub const EXECUTOR: u32 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Failed = 0,
    Succeeded = 1,
    Refused = 2,
}

impl Outcome {
    pub fn encode(self) -> Bytes {
        Bytes::from_static(match self {
            Outcome::Failed => &[0],
            Outcome::Succeeded => &[1],
            Outcome::Refused => &[2],
        })
    }

    pub fn decode(bytes: &[u8]) -> Option<Outcome> {
        match bytes {
            [0] => Some(Outcome::Failed),
            [1] => Some(Outcome::Succeeded),
            [2] => Some(Outcome::Refused),
            _ => None,
        }
    }
}

/// What a block came to in one row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Net {
    pub table: u32,
    pub key: String,
    pub before: Option<Hash>,
    pub after: Option<Hash>,
    /// Who changed it outside of the ledger's transactions.
    pub outsider: Option<String>,
}

/// What entries come to, which are those of one block by table, key and serial. A row that is as it
/// was before is none.
pub fn net(height: Height, entries: &[Entry]) -> Result<Vec<Net>> {
    let block = format!("{height}:");
    let is_ours = |place: &String| place.starts_with(&block);
    let mut rows: BTreeMap<(u32, &str), Net> = BTreeMap::new();
    for entry in entries {
        let outsider = (!entry.place.as_ref().is_some_and(is_ours)).then(|| entry.writer.clone());
        match rows.get_mut(&(entry.table, &*entry.key)) {
            None => {
                let (table, key) = (entry.table, entry.key.clone());
                let net = Net { table, key, before: entry.before, after: entry.after, outsider };
                rows.insert((entry.table, &entry.key), net);
            }
            Some(net) => {
                if net.after != entry.before {
                    return Err(unconnected(entry));
                }
                net.after = entry.after;
                net.outsider = net.outsider.take().or(outsider);
            }
        }
        check(entry)?;
    }
    Ok(rows.into_values().filter(|net| net.before != net.after).collect())
}

/// Rows that a block has changed otherwise in two databases, for people.
pub fn differences(schema: &Schema, own: &[Net], theirs: &[Net]) -> Vec<String> {
    let by_row = |all: &[Net]| -> BTreeMap<(u32, String), Net> {
        all.iter().map(|net| ((net.table, net.key.clone()), net.clone())).collect()
    };
    let (mut own, theirs) = (by_row(own), by_row(theirs));
    let name = |net: &Net| match schema.by_number(net.table) {
        Some(table) => row_name(table, &net.key),
        None => format!("table {} {:?}", net.table, net.key),
    };
    let mut rows = Vec::new();
    for (row, theirs) in &theirs {
        let how = match own.remove(row) {
            None => "is unchanged here",
            Some(own) if own.before != theirs.before => "was another row before the block",
            Some(own) if own.after != theirs.after => match own.outsider {
                Some(user) => {
                    rows.push(format!("{} was also changed by user {user}", name(theirs)));
                    continue;
                }
                None => "came to other values",
            },
            Some(_) => continue,
        };
        rows.push(format!("{} {how}", name(theirs)));
    }
    for own in own.values() {
        rows.push(match &own.outsider {
            Some(user) => format!("{} was changed by user {user}", name(own)),
            None => format!("{} is changed here alone", name(own)),
        });
    }
    rows
}

fn check(entry: &Entry) -> Result<()> {
    let images = (entry.before.is_some(), entry.after.is_some());
    let fits = match entry.kind {
        Change::Inserted => images == (false, true),
        Change::Updated => images == (true, true),
        Change::Deleted => images == (true, false),
    };
    match fits {
        true => Ok(()),
        false => Err(unconnected(entry)),
    }
}

/// Something wrote around the triggers, or into the digest table.
fn unconnected(entry: &Entry) -> Error {
    let what = "the digest table does not tell how a row came to be what it is";
    let detail = format!(
        "Row {:?} of table {} was changed around the triggers, or the digest table was edited; \
         the change behind it was made by database user {}.",
        entry.key, entry.table, entry.writer
    );
    Error::new(SqlState::DATA_CORRUPTED, what).with_detail(detail)
}

/// The result of a batch.
pub fn result(
    batch: &Batch,
    previous: Hash,
    outcomes: &[Outcome],
    net: &[Net],
    state_root: Option<Hash>,
) -> Result<BlockResult> {
    let mut effects = EffectsBuilder::new();
    for Net { table, key, before, after, .. } in net {
        effects.push(&Effect {
            table: TableId(*table),
            key: key.as_bytes(),
            before: *before,
            after: *after,
            previous_height: 0,
        })?;
    }
    let seal = ResultSeal {
        ledger_id: batch.header().ledger_id,
        height: batch.height(),
        previous_result_hash: previous,
        order_hash: batch.hash(),
        snapshot_height: batch.height() - 1,
        executor: EXECUTOR,
        effects: effects.digest(),
        reorderings: 0,
        carried_root: ZERO_HASH,
        state_root: state_root.unwrap_or(ZERO_HASH),
    };
    BlockResult::seal(seal, outcomes.iter().map(|it| it.encode()).collect(), Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(serial: u64, before: Option<u8>, after: Option<u8>) -> Entry {
        let kind = match (before, after) {
            (None, _) => Change::Inserted,
            (_, None) => Change::Deleted,
            _ => Change::Updated,
        };
        let hash = |byte: u8| [byte; 32];
        Entry {
            sequence: serial,
            table: 1,
            key: "1:7".to_owned(),
            serial,
            kind,
            before: before.map(hash),
            after: after.map(hash),
            place: Some("3:0".to_owned()),
            writer: "chain".to_owned(),
        }
    }

    #[test]
    fn versions_of_a_row_come_to_one_change() {
        let all = [entry(0, None, Some(1)), entry(1, Some(1), Some(2))];
        let rows = net(3, &all).unwrap();
        assert_eq!((rows.len(), rows[0].before, rows[0].after), (1, None, Some([2; 32])));
        let gone = [entry(0, None, Some(1)), entry(1, Some(1), None)];
        assert_eq!(net(3, &gone).unwrap(), []);
        let back = [entry(0, Some(1), None), entry(1, None, Some(1))];
        assert_eq!(net(3, &back).unwrap(), []);
    }

    #[test]
    fn what_is_left_out_of_the_digest_table_is_found() {
        let hole = [entry(0, None, Some(1)), entry(1, Some(2), Some(3))];
        let error = net(3, &hole).unwrap_err();
        assert!(error.fields().detail.clone().unwrap().contains("1:7"), "{error:?}");
        let mut no_image = entry(0, None, Some(1));
        no_image.after = None;
        assert!(net(3, &[no_image]).is_err());
    }

    #[test]
    fn another_session_is_named() {
        let mut other = entry(1, Some(1), Some(2));
        other.place = None;
        other.writer = "ann".to_owned();
        let rows = net(3, &[entry(0, None, Some(1)), other]).unwrap();
        assert_eq!(rows[0].outsider.as_deref(), Some("ann"));
    }
}
