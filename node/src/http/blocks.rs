//! Blocks for people, from the files of the ledger that this node has open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use engine::describe::describe_outcome;
use engine::transaction::outcome::Reported;
use engine::{Body, Transaction};
use ledger::hash::to_hex;
use ledger::{Batch, BlockResult, Files, Lookup, Stream};
use order::{Envelope, Submission};
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use types::{Stamp, Value};

use super::changes;
use super::cut::cut;
use crate::observed::Observed;

/// Statements of one transaction, and rows of one load.
const PARTS_MAX: usize = 100;
/// How far back a hash is looked for.
const FIND_WITHIN: Duration = Duration::from_secs(5);
/// After so many transactions a search ends with the block …
const FOUND_MAX: usize = 100;
/// … of which so many more are shown at most.
const IN_A_BLOCK_MAX: usize = 1_000;

/// Where records lie, as it was found out so far.
#[derive(Default)]
pub struct Places(Mutex<Option<Lookups>>);

struct Lookups {
    orders: Lookup,
    results: Lookup,
}

/// A block as far as it is written.
pub(super) struct Written {
    pub(super) batch: Batch,
    bytes: usize,
    /// Not executed yet, or not written.
    pub(super) result: Option<BlockResult>,
}

pub(super) struct Reader<'a> {
    files: &'a Arc<dyn Files>,
    first: u64,
    pub(super) head: u64,
    /// Given back for the next reader.
    lookups: Option<Lookups>,
    places: &'a Places,
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        *self.places.0.lock() = self.lookups.take();
    }
}

impl<'a> Reader<'a> {
    pub(super) fn of(observed: &'a Observed, places: &'a Places) -> Result<Reader<'a>> {
        let engine = observed.engine().context("the node is starting")?;
        let files = &observed.folder.get().context("the node is starting")?.files;
        let head = engine.head().height;
        // Results are gathered in memory for a while.
        engine.written()?;
        let first = ledger::first_block(&**files)?;
        Ok(Reader { files, first, head, lookups: places.0.lock().take(), places })
    }

    pub(super) fn block(&mut self, height: u64) -> Result<Option<Written>> {
        if height < self.first || height > self.head {
            return Ok(None);
        }
        let lookups = self.lookups.get_or_insert_with(|| Lookups {
            orders: Lookup::new(Stream::Orders),
            results: Lookup::new(Stream::Results),
        });
        let Some(order) = lookups.orders.record(&**self.files, height)? else { return Ok(None) };
        let batch = Batch::of(&order)?;
        let bytes = batch.envelopes().iter().map(|envelope| envelope.len()).sum();
        let result = lookups.results.record(&**self.files, height)?;
        let result = result.map(|result| BlockResult::of(&result)).transpose()?;
        Ok(Some(Written { batch, bytes, result }))
    }

    pub(super) fn downwards(&self, below: Option<u64>) -> impl Iterator<Item = u64> + use<> {
        let end = below.unwrap_or(u64::MAX).min(self.head + 1);
        (self.first..end).rev()
    }
}

pub fn list(
    observed: &Observed,
    places: &Places,
    below: Option<u64>,
    count: usize,
) -> Result<Json> {
    let mut reader = Reader::of(observed, places)?;
    let mut blocks = Vec::new();
    for height in reader.downwards(below).take(count) {
        blocks.extend(reader.block(height)?.map(|block| block.summary()));
    }
    Ok(json!({"first": reader.first, "head": reader.head, "blocks": blocks}))
}

pub fn one(
    observed: &Observed,
    places: &Places,
    height: u64,
    from: usize,
    count: usize,
) -> Result<Option<Json>> {
    let mut reader = Reader::of(observed, places)?;
    let Some(block) = reader.block(height)? else { return Ok(None) };
    let envelopes = block.batch.envelopes().iter().enumerate().skip(from).take(count);
    let transactions: Vec<Json> = envelopes
        .map(|(index, envelope)| {
            let outcome = block.result.as_ref().and_then(|result| result.outcomes().get(index));
            let carried =
                block.result.as_ref().map_or(0, |result| result.header().carried_count) as usize;
            let mut shown = transaction(envelope);
            shown["index"] = json!(index);
            shown["position"] = json!(carried + index);
            shown["outcome"] = outcome.map_or(Json::Null, |outcome| shown_outcome(outcome));
            if shown["outcome"]["kind"] == RETRY {
                let place = Stamp::new(height, (carried + index) as u32);
                shown["changed"] = changes::why_refused(observed, envelope, place);
            }
            shown
        })
        .collect();
    let mut page = block.summary();
    page["transactions"] = json!(transactions);
    page["first"] = json!(reader.first);
    page["last"] = json!(reader.head);
    let header = block.batch.header();
    page["order"] = json!({
        "previous": to_hex(&header.previous_order_hash),
        "proposer": to_hex(&header.proposer),
        "seen_height": header.seen_height,
        "envelopes_root": to_hex(&header.envelopes_root),
    });
    if let Some(result) = &block.result {
        let header = result.header();
        page["result"] = json!({
            "previous": to_hex(&header.previous_result_hash),
            "snapshot_height": header.snapshot_height,
            "outcomes_root": to_hex(&header.outcomes_root),
            "effects_root": to_hex(&header.effects_root),
            "state_root": to_hex(&header.state_root),
            "reorderings": header.reorderings,
        });
        let carried = result.carried().iter().take(PARTS_MAX).enumerate();
        let carried = carried.map(|(position, it)| {
            json!({
                "height": it.height, "index": it.index, "position": position,
                "outcome": shown_outcome(&it.outcome),
            })
        });
        page["decided"] = carried.collect();
    }
    Ok(Some(page))
}

/// The newest block that has this hash itself, or a transaction with it.
pub fn find(observed: &Observed, places: &Places, hash: &str) -> Result<Json> {
    let mut reader = Reader::of(observed, places)?;
    let began = Instant::now();
    let mut looked_down_to = reader.head;
    for height in reader.downwards(None) {
        if began.elapsed() > FIND_WITHIN {
            break;
        }
        let Some(block) = reader.block(height)? else { continue };
        looked_down_to = height;
        let result = block.result.as_ref().map(|result| to_hex(&result.hash()));
        if result.as_deref() == Some(hash) || to_hex(&block.batch.hash()) == hash {
            return Ok(json!({"height": height}));
        }
        for (index, envelope) in block.batch.envelopes().iter().enumerate() {
            let id = order::envelope::id_of_encoded(envelope);
            if id.is_ok_and(|id| to_hex(&id) == hash) {
                return Ok(json!({"height": height, "index": index}));
            }
        }
    }
    Ok(json!({"looked_down_to": looked_down_to, "first": reader.first}))
}

/// Transactions by user, procedure or text; a name that holds for it wholly, or a part of the text.
pub fn search(
    observed: &Observed,
    places: &Places,
    text: &str,
    below: Option<u64>,
) -> Result<Json> {
    let mut reader = Reader::of(observed, places)?;
    let began = Instant::now();
    let mut looked_down_to = below.unwrap_or(u64::MAX).min(reader.head + 1);
    let mut found = Vec::new();
    for height in reader.downwards(below) {
        // Whole blocks, so that the next search goes on below.
        if began.elapsed() > FIND_WITHIN || found.len() >= FOUND_MAX {
            break;
        }
        looked_down_to = height;
        let Some(block) = reader.block(height)? else { continue };
        for (index, envelope) in block.batch.envelopes().iter().enumerate().rev() {
            if !is_about(envelope, text) {
                continue;
            }
            let outcome = block.result.as_ref().and_then(|result| result.outcomes().get(index));
            let shown = transaction(envelope);
            found.push(json!({
                "height": height, "index": index, "time_us": block.batch.header().time_us,
                "user": shown["user"], "kind": shown["kind"], "text": shown["statements"][0]["text"],
                "outcome": outcome.map_or(Json::Null, |outcome| shown_outcome(outcome)),
            }));
            if found.len() >= IN_A_BLOCK_MAX + FOUND_MAX {
                break;
            }
        }
    }
    Ok(json!({"found": found, "looked_down_to": looked_down_to, "first": reader.first}))
}

fn is_about(envelope: &bytes::Bytes, text: &str) -> bool {
    let Ok(envelope) = Envelope::decode(envelope) else { return false };
    let Ok(transaction) = Transaction::of(&envelope) else { return false };
    &*transaction.user == text || says(&transaction.body, text)
}

fn says(body: &Body, text: &str) -> bool {
    match body {
        Body::Call(it) => it.procedure == text,
        Body::Statement(it) => it.procedure.text.contains(text),
        Body::Load(it) => it.procedure.contains(text),
        Body::Schema { text: it } => it.contains(text),
        Body::Parameter { name, .. } => name == text,
        Body::Interactive { transaction, .. } => {
            transaction.writes.iter().any(|(write, _)| says(write, text))
        }
        Body::Endorsed(endorsed) => says(&endorsed.proposal, text),
        Body::Checkpoint { .. } | Body::Skip { .. } => false,
    }
}

impl Written {
    fn summary(&self) -> Json {
        let header = self.batch.header();
        let mut summary = json!({
            "height": header.height,
            "time_us": header.time_us,
            "order_hash": to_hex(&self.batch.hash()),
            "count": header.envelope_count,
            "bytes": self.bytes,
        });
        if let Some(result) = &self.result {
            let mut kinds = [COMMITTED, REJECTED, RETRY, DEFERRED, REPEAT].map(|kind| (kind, 0));
            for outcome in result.outcomes() {
                let kind = kind_of(outcome);
                kinds.iter_mut().filter(|it| it.0 == kind).for_each(|it| it.1 += 1);
            }
            summary["hash"] = json!(to_hex(&result.hash()));
            summary["effects"] = json!(result.header().effect_count);
            summary["carried"] = json!(result.header().carried_count);
            summary["reorderings"] = json!(result.header().reorderings);
            summary["snapshot_height"] = json!(result.header().snapshot_height);
            for (kind, count) in kinds {
                summary[kind] = json!(count);
            }
        }
        summary
    }
}

pub(super) const COMMITTED: &str = "committed";
pub(super) const REJECTED: &str = "rejected";
pub(super) const RETRY: &str = "retry";
pub(super) const DEFERRED: &str = "deferred";
pub(super) const REPEAT: &str = "repeat";

pub(super) fn kind_of(outcome: &[u8]) -> &'static str {
    match Reported::decode(outcome) {
        Ok(Reported::Committed { .. }) => COMMITTED,
        Ok(Reported::Rejected(_)) => REJECTED,
        Ok(Reported::Retry(_)) => RETRY,
        Ok(Reported::Deferred) => DEFERRED,
        Ok(Reported::Repeat(_)) => REPEAT,
        Err(_) => "none",
    }
}

fn shown_outcome(outcome: &[u8]) -> Json {
    let kind = kind_of(outcome);
    let text = if outcome.is_empty() { "none".to_owned() } else { describe_outcome(outcome) };
    json!({"kind": kind, "text": text})
}

pub(super) fn transaction(bytes: &bytes::Bytes) -> Json {
    let decoded = Envelope::decode_with_id(bytes);
    let read = decoded.and_then(|(envelope, id)| Ok((Transaction::of(&envelope)?, envelope, id)));
    // Genesis, or what this program cannot read.
    let Ok((transaction, envelope, id)) = read else {
        return json!({"kind": "other", "statements": [{"text": format!("{} bytes", bytes.len())}]});
    };
    let kind = match &transaction.body {
        Body::Interactive { .. } => "transaction",
        Body::Statement(_) => "statement",
        Body::Call(_) => "call",
        Body::Load(_) => "load",
        Body::Schema { .. } => "schema",
        Body::Parameter { .. } => "parameter",
        Body::Checkpoint { .. } => "checkpoint",
        Body::Skip { .. } => "skip",
        Body::Endorsed(_) => "endorsed",
    };
    let asked = match &transaction.body {
        Body::Endorsed(endorsed) => &endorsed.proposal,
        body => body,
    };
    let statements: Vec<Json> = match asked {
        Body::Interactive { transaction, .. } => {
            let writes = transaction.writes.iter().take(PARTS_MAX);
            writes.map(|(write, _)| statement(write)).collect()
        }
        asked => vec![statement(asked)],
    };
    let mut shown = json!({
        "kind": kind,
        "id": to_hex(&id),
        "user": transaction.user,
        "settings": transaction.settings,
        "statements": statements,
        "seen_height": envelope.seen_height,
        "signatures": envelope.signatures.iter().map(|it| to_hex(&it.key_id)).collect::<Vec<_>>(),
        "approvals": envelope.approvals.iter().map(|it| to_hex(&it.key_id)).collect::<Vec<_>>(),
    });
    match &envelope.submission {
        Submission::Key(key) => shown["key"] = json!(key),
        Submission::Sequence { sequence, .. } => shown["sequence"] = json!(sequence),
    }
    if let Body::Interactive { transaction, .. } = &transaction.body {
        shown["requirements"] = json!({
            "rows": transaction.rows.len(), "ranges": transaction.ranges.len(),
            "writes": transaction.writes.len(),
        });
    }
    if let Body::Endorsed(endorsed) = &transaction.body {
        shown["requirements"] = json!({
            "rows": endorsed.rows.len(), "ranges": endorsed.ranges.len(),
            "writes": endorsed.writes.len(),
        });
    }
    shown
}

fn statement(body: &Body) -> Json {
    match body {
        Body::Statement(it) => {
            json!({"text": cut(&it.procedure.text), "arguments": values(&it.arguments)})
        }
        Body::Call(it) => {
            json!({"text": format!("CALL {}", it.procedure), "arguments": values(&it.arguments)})
        }
        Body::Load(it) => {
            let text = format!("{} ({} rows)", cut(&it.procedure), it.rows.len());
            let first = it.rows.first().map(|row| values(row));
            json!({"text": text, "arguments": first.unwrap_or(Json::Null)})
        }
        Body::Schema { text } => json!({"text": cut(text)}),
        Body::Parameter { name, value } => {
            json!({"text": format!("SET ledger.{name} = '{}'", cut(value))})
        }
        Body::Interactive { .. }
        | Body::Checkpoint { .. }
        | Body::Skip { .. }
        | Body::Endorsed(_) => {
            json!({"text": body.describe()})
        }
    }
}

fn values(values: &[Value]) -> Json {
    values.iter().take(PARTS_MAX).map(|value| cut(&value.to_string())).collect()
}
