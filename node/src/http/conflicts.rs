//! What conflicts, for people: of the newest blocks, what became of their transactions, which
//! statements were told to try again and for which rows, which rows changed in most of the blocks,
//! and how the blocks were run.
//!
//! Everything is read from the ledger's files and the versions of rows that are held; nothing is
//! counted while transactions run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use engine::Transaction;
use ledger::Parameters;
use order::Envelope;
use serde_json::{Value as Json, json};
use storage::{Slot, Snapshot};
use types::{Height, Stamp, TableId};

use super::blocks::{self, COMMITTED, DEFERRED, Places, REJECTED, RETRY, Reader, Written, kind_of};
use super::changes::{each_changed_meanwhile, shown_key};
use crate::observed::Observed;

/// For the blocks, and again for the rows.
const WITHIN: Duration = Duration::from_secs(2);
/// Different statements, and rows, that are counted.
const COUNTED_MAX: usize = 10_000;
const SHOWN_MAX: usize = 15;
const STRIDE: u64 = 4096;
const RULE_BYTES_MAX: usize = 100;

/// What became of the transactions with the same text.
#[derive(Default)]
struct Outcomes {
    committed: u64,
    rejected: u64,
    retry: u64,
    deferred: u64,
}

impl Outcomes {
    fn count(&mut self, kind: &str) {
        let count = match kind {
            COMMITTED => &mut self.committed,
            REJECTED => &mut self.rejected,
            RETRY => &mut self.retry,
            DEFERRED => &mut self.deferred,
            _ => return,
        };
        *count += 1;
    }

    fn conflicts(&self) -> u64 {
        self.retry + self.deferred
    }

    fn all(&self) -> u64 {
        self.conflicts() + self.committed + self.rejected
    }

    fn shown(&self) -> Json {
        json!({
            "committed": self.committed, "rejected": self.rejected,
            "retry": self.retry, "deferred": self.deferred,
        })
    }
}

/// How blocks were run.
#[derive(Default)]
struct Ways {
    /// On the state of the block before.
    in_turn: u64,
    /// Prepared while blocks before them were under way.
    ahead: u64,
    /// With transactions whose place in the serial order is another than in the block.
    reordered: u64,
    /// With transactions of earlier blocks.
    carried: u64,
    empty: u64,
}

#[derive(Default)]
struct Seen {
    outcomes: Outcomes,
    ways: Ways,
    kinds: BTreeMap<String, u64>,
    by_text: BTreeMap<String, Outcomes>,
    /// Rows for which transactions were refused.
    refused: BTreeMap<(TableId, Vec<u8>), u64>,
    blocks: u64,
    lowest: Height,
}

pub fn of_newest(observed: &Observed, places: &Places, blocks: usize) -> Result<Json> {
    let engine = observed.engine().context("the node is starting")?;
    let store = engine.store();
    let snapshot = store.lease();
    let mut reader = Reader::of(observed, places)?;
    let until = Instant::now() + WITHIN;
    let head = reader.head;
    let mut seen = Seen { lowest: head + 1, ..Seen::default() };
    for height in reader.downwards(None).take(blocks) {
        if Instant::now() > until {
            break;
        }
        seen.lowest = height;
        if let Some(block) = reader.block(height)? {
            seen.block(&block, &snapshot);
        }
    }
    drop(reader);
    let (busiest, in_time) = busiest(&snapshot, seen.lowest);
    snapshot.check()?;
    let mut page = seen.shown(&snapshot);
    page["to"] = json!(head);
    page["busiest"] = json!(busiest);
    page["in_time"] = json!(in_time);
    page["held_from"] = json!(store.complete_from());
    page["rules"] = rules(&engine.parameters());
    Ok(page)
}

/// Parameters of the ledger, which every replica follows; but for lists of keys and the like.
fn rules(parameters: &Parameters) -> Json {
    let protocol = ("protocol", parameters.protocol.as_str());
    let others = parameters.others.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let all = std::iter::once(protocol).chain(others);
    json!(all.filter(|(_, value)| value.len() <= RULE_BYTES_MAX).collect::<Vec<_>>())
}

impl Seen {
    fn block(&mut self, block: &Written, snapshot: &Snapshot) {
        let Some(result) = &block.result else { return };
        self.blocks += 1;
        let (height, header) = (block.batch.header().height, result.header());
        let is_empty = block.batch.envelopes().is_empty() && header.carried_count == 0;
        let ways = &mut self.ways;
        ways.empty += u64::from(is_empty);
        ways.reordered += u64::from(header.reorderings > 0);
        ways.carried += u64::from(header.carried_count > 0);
        let in_turn = header.snapshot_height + 1 >= height;
        ways.in_turn += u64::from(in_turn && !is_empty);
        ways.ahead += u64::from(!in_turn && !is_empty);
        for (index, envelope) in block.batch.envelopes().iter().enumerate() {
            let kind = result.outcomes().get(index).map_or("none", |outcome| kind_of(outcome));
            self.outcomes.count(kind);
            let shown = blocks::transaction(envelope);
            let of = shown["kind"].as_str().unwrap_or_default().to_owned();
            *self.kinds.entry(of).or_default() += 1;
            let text = shown["statements"][0]["text"].as_str().unwrap_or_default();
            let is_known = self.by_text.contains_key(text);
            if (is_known || self.by_text.len() < COUNTED_MAX) && shown["kind"] != "other" {
                self.by_text.entry(text.to_owned()).or_default().count(kind);
            }
            let position = header.carried_count as usize + index;
            if kind == RETRY
                && let Ok(position) = u32::try_from(position)
                && let Ok(envelope) = Envelope::decode(envelope)
                && let Ok(transaction) = Transaction::of(&envelope)
            {
                let place = Stamp::new(height, position);
                each_changed_meanwhile(snapshot, &transaction.body, place, &mut |table, key, _| {
                    if self.refused.len() < COUNTED_MAX {
                        *self.refused.entry((table.id(), key.to_vec())).or_default() += 1;
                    }
                });
            }
        }
    }

    fn shown(&self, snapshot: &Snapshot) -> Json {
        let mut statements: Vec<_> = self.by_text.iter().collect();
        statements.sort_by_key(|(_, it)| std::cmp::Reverse((it.conflicts(), it.all())));
        let statements = statements.into_iter().take(SHOWN_MAX).map(|(text, outcomes)| {
            let mut shown = outcomes.shown();
            shown["text"] = json!(text);
            shown
        });
        let mut refused: Vec<_> = self.refused.iter().collect();
        refused.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let refused = refused.into_iter().take(SHOWN_MAX).filter_map(|((table, key), count)| {
            let schema = snapshot.table(*table)?.schema();
            Some(json!({
                "table": schema.name, "key": shown_key(schema, key), "count": count,
                "keyed": !schema.hidden_row_id,
            }))
        });
        let Ways { in_turn, ahead, reordered, carried, empty } = self.ways;
        json!({
            "from": self.lowest, "blocks": self.blocks,
            "outcomes": self.outcomes.shown(), "kinds": self.kinds,
            "statements": statements.collect::<Vec<Json>>(),
            "refused": refused.collect::<Vec<Json>>(),
            "ways": {
                "in_turn": in_turn, "ahead": ahead, "reordered": reordered,
                "carried": carried, "empty": empty,
            },
        })
    }
}

/// The rows that most blocks from this one on have changed, by the versions that are held.
/// Whether there was time for all rows.
fn busiest(snapshot: &Snapshot, from: Height) -> (Vec<Json>, bool) {
    let (at, until) = (snapshot.height(), Instant::now() + WITHIN);
    let mut most: Vec<(usize, TableId, Slot)> = Vec::new();
    let mut in_time = true;
    'tables: for table in snapshot.catalog().tables() {
        for slot in 0..table.slots() {
            if slot % STRIDE == 0 && Instant::now() > until {
                in_time = false;
                break 'tables;
            }
            let slot = Slot(slot as u32);
            if table.stamp(slot, at).is_some_and(|stamp| stamp.height() < from) {
                continue;
            }
            let versions = table.history(slot, at);
            let changes = versions.iter().filter(|(stamp, _)| stamp.height() >= from).count();
            if changes > 1 {
                most.push((changes, table.id(), slot));
            }
            if most.len() > 2 * SHOWN_MAX {
                most.sort_by_key(|it| std::cmp::Reverse(it.0));
                most.truncate(SHOWN_MAX);
            }
        }
    }
    most.sort_by_key(|it| std::cmp::Reverse(it.0));
    most.truncate(SHOWN_MAX);
    let shown = most.into_iter().filter_map(|(changes, id, slot)| {
        let table = snapshot.table(id)?;
        let schema = table.schema();
        let key = shown_key(schema, table.key(slot).as_bytes());
        let keyed = !schema.hidden_row_id;
        Some(json!({"table": schema.name, "key": key, "changes": changes, "keyed": keyed}))
    });
    (shown.collect(), in_time)
}
