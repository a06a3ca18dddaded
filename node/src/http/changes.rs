//! What a block changed, for people: rows before it and after it.
//!
//! A ledger in which transactions are logged says what was asked for, not what came of it. What
//! came of it stands in the versions of rows that the store holds for snapshots: of a block that
//! can still be read, and whose predecessor can, all of it; of others, what nothing has
//! overwritten since. Nothing is kept for this page.
//!
//! *Invariant.* What is shown as the row after a block bears that block's stamp; what is shown as
//! the row before it was read in a snapshot of the block below. A page that cannot have both says
//! so.
//!
//! Cost: a look at the stamp of each row of each table, [`WITHIN`] together.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use engine::{Body, Transaction};
use order::Envelope;
use serde_json::{Value as Json, json};
use storage::{Slot, Snapshot, Table};
use types::key::decode_key;
use types::{Height, Stamp, TableSchema, Value};

use super::cut::cut;
use crate::observed::Observed;

const WITHIN: Duration = Duration::from_secs(2);
/// Rows that are shown.
const ROWS_MAX: usize = 300;
/// Rows of a refused transaction that are named.
const NAMED_MAX: usize = 20;
/// Rows of it that are looked at.
const LOOKED_AT_MAX: usize = 10_000;
/// Rows between two looks at the time.
const STRIDE: u64 = 4096;

type Row = Vec<Value>;

/// A row that a block changed, and what it was, if that is known.
struct Change {
    position: u32,
    /// `None`: it was deleted.
    after: Option<Row>,
    before: Option<Option<Row>>,
}

/// The transactions that did it have these places in the block.
pub fn of_block(observed: &Observed, height: Height, places: &Range<u32>) -> Result<Option<Json>> {
    let store = observed.engine().context("the node is starting")?.store();
    let newest = store.lease();
    if height == 0 || height > newest.height() {
        return Ok(None);
    }
    let (before, after) = (store.lease_at(height - 1), store.lease_at(height));
    let is_whole = before.is_some() && after.is_some();
    let after = after.unwrap_or(newest);
    let until = Instant::now() + WITHIN;
    let (mut rows, mut more, mut in_time) = (Vec::new(), 0u64, true);
    for table in after.catalog().tables() {
        let older = before.as_ref().and_then(|snapshot| same_table(snapshot, table));
        in_time &= each_changed(table, &after, height, until, &mut |slot, stamp, row| {
            if !places.contains(&stamp.position()) {
                return;
            }
            let was = older.map(|at| {
                let mut was = Vec::new();
                table.read_row(slot, at, &mut was).map(|_| was)
            });
            if row.is_none() && was == Some(None) {
                return; // It came and went within the block.
            }
            if rows.len() >= ROWS_MAX {
                more += 1;
                return;
            }
            let change = Change { position: stamp.position(), after: row, before: was };
            rows.push((stamp.position(), change.shown(table, slot)));
        });
    }
    after.check()?;
    before.as_ref().map_or(Ok(()), Snapshot::check)?;
    rows.sort_by_key(|(position, _)| *position);
    let rows: Vec<Json> = rows.into_iter().map(|(_, row)| row).collect();
    Ok(Some(json!({
        "height": height, "whole": is_whole, "in_time": in_time, "rows": rows, "more": more,
    })))
}

/// The height at which a table of the same records can be read in an older snapshot.
fn same_table(older: &Snapshot, table: &Table) -> Option<Height> {
    let known = older.table(table.id())?;
    std::ptr::eq(&**known, table).then(|| older.height())
}

/// Every row that the block changed, as it then was. Whether there was time for all.
fn each_changed(
    table: &Table,
    seen: &Snapshot,
    height: Height,
    until: Instant,
    visit: &mut dyn FnMut(Slot, Stamp, Option<Row>),
) -> bool {
    let at = seen.height();
    for slot in 0..table.slots() {
        if slot % STRIDE == 0 && Instant::now() > until {
            return false;
        }
        let slot = Slot(slot as u32);
        // Most were last changed before.
        if table.stamp(slot, at).is_some_and(|stamp| stamp.height() < height) {
            continue;
        }
        let versions = table.history(slot, at).into_iter();
        let made = versions.skip_while(|(stamp, _)| stamp.height() > height).next();
        if let Some((stamp, row)) = made.filter(|(stamp, _)| stamp.height() == height) {
            visit(slot, stamp, row);
        }
    }
    true
}

impl Change {
    fn shown(&self, table: &Table, slot: Slot) -> Json {
        let schema = table.schema();
        let (after, before) = (self.after.as_ref(), self.before.as_ref());
        let known = after.or(before.and_then(Option::as_ref));
        let columns: Vec<&str> =
            schema.visible_columns().map(|(_, column)| column.name.as_str()).collect();
        json!({
            "table": schema.name,
            "key": match known {
                Some(row) => key_of(schema, row),
                None => shown_key(schema, table.key(slot).as_bytes()),
            },
            "keyed": !schema.hidden_row_id,
            "position": self.position,
            "columns": columns,
            "after": after.map(|row| shown_row(schema, row)),
            "before_known": before.is_some(),
            "before": before.and_then(Option::as_ref).map(|row| shown_row(schema, row)),
        })
    }
}

fn shown_row(schema: &TableSchema, row: &[Value]) -> Json {
    schema.visible_columns().map(|(id, _)| shown_value(schema, usize::from(id), row)).collect()
}

fn key_of(schema: &TableSchema, row: &[Value]) -> Json {
    schema.primary_key.iter().map(|&id| shown_value(schema, usize::from(id), row)).collect()
}

/// Null is NULL.
fn shown_value(schema: &TableSchema, column: usize, row: &[Value]) -> Json {
    match (row.get(column), schema.columns.get(column)) {
        (Some(Value::Null) | None, _) | (_, None) => Json::Null,
        (Some(value), Some(column)) => json!(cut(&value.to_text(&column.data_type))),
    }
}

/// The values of an encoded key.
pub fn shown_key(schema: &TableSchema, key: &[u8]) -> Json {
    let columns =
        || schema.primary_key.iter().filter_map(|&id| schema.columns.get(usize::from(id)));
    let values = decode_key(columns().map(|it| (&it.data_type, it.nullable)), key);
    let values = values.unwrap_or_default();
    let shown = values.iter().zip(columns()).map(|(value, it)| cut(&value.to_text(&it.data_type)));
    shown.collect::<Vec<String>>().into()
}

/// Rows that a refused transaction had read, and that another had changed by its turn. Empty where
/// the versions that show it are gone, or where it was a range.
pub fn why_refused(observed: &Observed, envelope: &Bytes, place: Stamp) -> Json {
    let Some(engine) = observed.engine() else { return json!([]) };
    let Ok(envelope) = Envelope::decode(envelope) else { return json!([]) };
    let Ok(transaction) = Transaction::of(&envelope) else { return json!([]) };
    let snapshot = engine.store().lease();
    let mut named = Vec::new();
    each_changed_meanwhile(&snapshot, &transaction.body, place, &mut |table, key, by| {
        if named.len() < NAMED_MAX {
            named.push(json!({
                "table": table.schema().name, "key": shown_key(table.schema(), key),
                "height": by.height(), "position": by.position(),
            }));
        }
    });
    if snapshot.check().is_ok() { json!(named) } else { json!([]) }
}

/// The rows that a transaction rests on and that were others by its turn, each with the stamp of
/// its last change before that.
pub fn each_changed_meanwhile(
    snapshot: &Snapshot,
    body: &Body,
    place: Stamp,
    visit: &mut dyn FnMut(&Table, &[u8], Stamp),
) {
    let required = match body {
        Body::Interactive { transaction, .. } => &transaction.rows,
        Body::Endorsed(endorsed) => &endorsed.rows,
        _ => return,
    };
    for required in required.iter().take(LOOKED_AT_MAX) {
        let Some(table) = snapshot.table(required.table) else { continue };
        let Some(slot) = table.find(required.key.as_bytes()) else { continue };
        let versions = table.history(slot, snapshot.height()).into_iter();
        let Some((stamp, row)) = versions.skip_while(|(stamp, _)| *stamp >= place).next() else {
            continue;
        };
        let is_as_read = match required.stamp {
            Some(read) => read == stamp,
            None => row.is_none(),
        };
        if !is_as_read {
            visit(table, required.key.as_bytes(), stamp);
        }
    }
}
