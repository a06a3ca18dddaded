//! Recovery of several consecutive blocks at once, without running their protocol.
//!
//! | Way | What produces the rows | Requires |
//! |---|---|---|
//! | rows | the newest row images in the row logs | frames of every logger |
//! | pieces | PACMAN, pipelined, all workers | a protocol whose serial order is the block's |
//! | serial | one transaction after another | the same |
//!
//! All three end with a check of every block's effects root against its header: for each key, the
//! rows before, the rows after and the heights of change must be those that the ledger recorded.
//! The header's other inputs to execution, the parameters and the snapshot, are checked first. With
//! row logs the check comes before anything is written, so that a bad log costs no more than
//! reading it; with replay it comes afterwards. *Outcomes* are not recomputed. Their root shows
//! that the recorded ones are the ledger's; that execution produces them is shown by executing the
//! block, as `verify` does.
//!
//! *Ad-hoc transactions.* The thesis logs their rows, since it has no program to run again. Here
//! the ledger holds a program for each: a statement's text, or the one that a client's COMMIT was
//! lowered to. They are replayed as commands like any other (a node that [logs rows](Entry) does so
//! for other reasons). But a text that occurs once is a program that is analysed for one use, so a
//! part ends before it would hold more than [`PROGRAMS_MAX`] programs, and its next block is
//! executed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use concurrency::{Block as ProtocolBlock, Work, WorkerPool};
use kit::sync::lock;
use ledger::chain::check_effects;
use ledger::effects::EffectsBuilder;
use ledger::{BlockResult, EffectsDigest};
use recovery::log::{Commit, Entry, LoggedBlock};
use recovery::replay::{BlockChanges, Task, pipelined, serial};
use recovery::schemes::Scheme;
use recovery::schemes::checked;
use replica::Halt;
use replica::effects::row_digest;
use replica::transaction::is_committed;
use types::{Height, Position};

use crate::client::Replica;

use super::ahead::Item;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReplayMethod {
    Rows(Scheme),
    Pieces,
    Serial,
}

/// Bytes of blocks, or of rows, that are taken together.
const BYTES_MAX: u64 = 32 << 20;
const BLOCKS_MAX: usize = 4096;
/// Programs of one part. More of them are statements that came once, which analysis would cost more
/// than it saves.
pub(super) const PROGRAMS_MAX: usize = 256;

/// Blocks that go the same way.
#[derive(Default)]
pub(super) struct Part {
    pub items: Vec<Item>,
    bytes: u64,
}

/// Why a part has not become a state.
pub(super) enum Refusal {
    /// The store is as it was.
    Untouched(String),
    /// The store is of no use any more.
    Spoilt(String),
}

impl From<Halt> for Refusal {
    fn from(halt: Halt) -> Refusal {
        Refusal::Spoilt(halt.0)
    }
}

impl Part {
    pub fn push(&mut self, item: Item) {
        let frames = item.frames.iter().flatten();
        let rows: usize = frames.map(|frame| frame.records.len()).sum();
        self.bytes += item.bytes.max(rows as u64);
        self.items.push(item);
    }

    pub fn is_full(&self) -> bool {
        self.bytes >= BYTES_MAX || self.items.len() >= BLOCKS_MAX
    }

    /// Brings a replica after the part's last block.
    pub fn apply(&mut self, method: ReplayMethod, replica: &mut Replica) -> Result<(), Refusal> {
        let (Some(first), Some(last)) = (self.items.first(), self.items.last()) else {
            return Ok(());
        };
        for item in &self.items {
            let result = result_of(item).map_err(Refusal::Untouched)?;
            let follows = replica.check_follows(item.batch.header(), result.header());
            follows.map_err(Refusal::Untouched)?;
        }
        let heights = (first.batch.height(), last.batch.height());
        match method {
            ReplayMethod::Rows(scheme) => self.apply_rows(scheme, heights, replica)?,
            ReplayMethod::Pieces => self.replay(&pipelined::STRATEGY, heights.0, replica)?,
            ReplayMethod::Serial => self.replay(&serial::STRATEGY, heights.0, replica)?,
        }
        for item in &mut self.items {
            let requests = std::mem::take(&mut item.requests);
            let result = result_of(item).map_err(Refusal::Spoilt)?;
            replica.skip(item.batch.header(), result, requests)?;
        }
        Ok(())
    }

    fn apply_rows(
        &mut self,
        scheme: Scheme,
        heights: (Height, Height),
        replica: &Replica,
    ) -> Result<(), Refusal> {
        let (store, pool) = (replica.store(), replica.pool());
        let frames = self.items.iter_mut().flat_map(|item| item.frames.take()).flatten().collect();
        let rows = checked::Part::read(scheme, heights, frames, store, pool);
        let rows = rows.map_err(|error| Refusal::Untouched(error.to_string()))?;
        for (item, effects) in self.items.iter().zip(&rows.effects) {
            compare_digest(item, effects).map_err(Refusal::Untouched)?;
        }
        rows.install(store, pool).map_err(|error| Refusal::Spoilt(error.to_string()))
    }

    fn replay(
        &self,
        strategy: &recovery::replay::Strategy,
        first: Height,
        replica: &Replica,
    ) -> Result<(), Refusal> {
        let changes = BlockChanges::default();
        let log = self.items.iter().map(|item| logged(item, replica));
        let log = log.collect::<Result<Vec<LoggedBlock>, _>>().map_err(Refusal::Untouched)?;
        let task = Task { changes: Some(Arc::clone(&changes)), ..Task::new(log) };
        let (store, pool) = (replica.store(), replica.pool());
        (strategy.replay)(&task, store, pool).map_err(Refusal::Spoilt)?;
        let digests = digests(&changes, first, self.items.len(), pool).map_err(Refusal::Spoilt)?;
        for (item, effects) in self.items.iter().zip(&digests) {
            compare_digest(item, effects).map_err(Refusal::Spoilt)?;
        }
        Ok(())
    }
}

/// A block as it was committed, by its own order.
fn logged(item: &Item, replica: &Replica) -> Result<LoggedBlock, String> {
    let transactions = item.requests.iter().map(|request| replica.program(request)).collect();
    let (height, time_us) = (item.batch.height(), item.batch.header().time_us);
    let committed = |(_, outcome): &(Position, &bytes::Bytes)| is_committed(outcome);
    let commit = |(position, _)| Commit { position, entry: Entry::Command };
    let outcomes = (0..).zip(result_of(item)?.outcomes());
    let commits = outcomes.filter(committed).map(commit).collect();
    Ok(LoggedBlock { block: Arc::new(ProtocolBlock::new(height, time_us, transactions)), commits })
}

fn result_of(item: &Item) -> Result<&BlockResult, String> {
    let missing = || format!("block {} has no result", item.batch.height());
    item.result.as_ref().ok_or_else(missing)
}

/// The programs that a block's transactions call, by address.
pub(super) fn programs(item: &Item, known: &mut BTreeSet<usize>) {
    for request in &item.requests {
        if let Some(compiled) = &request.compiled {
            programs_of(&compiled.work, known);
        }
    }
}

fn programs_of(work: &Work, known: &mut BTreeSet<usize>) {
    match work {
        Work::Statement(statement) => {
            known.insert(Arc::as_ptr(&statement.procedure).addr());
        }
        Work::Load(load) => {
            known.extend(load.procedures().map(|procedure| Arc::as_ptr(procedure).addr()));
        }
        Work::Interactive(interactive) => {
            interactive.writes.iter().for_each(|(write, _)| programs_of(write, known));
        }
        Work::Void(_) => {}
    }
}

/// The effects of some blocks, told by all workers.
fn digests(
    found: &BlockChanges,
    first: Height,
    blocks: usize,
    pool: &WorkerPool,
) -> Result<Vec<EffectsDigest>, String> {
    let changes = Arc::new(std::mem::take(&mut *lock(found)));
    let found = Arc::new(Mutex::new(vec![EffectsBuilder::new().digest(); blocks]));
    let (next, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(None)));
    let (own, result, failure) = (Arc::clone(&changes), Arc::clone(&found), Arc::clone(&failed));
    pool.run(move |_| {
        while let Some(changes) = own.get(next.fetch_add(1, Ordering::Relaxed)) {
            match row_digest(changes) {
                Ok(digest) => lock(&result)[(changes.height() - first) as usize] = digest,
                Err(error) => *lock(&failure) = Some(error.to_string()),
            }
        }
    });
    match lock(&failed).take() {
        Some(error) => Err(error),
        None => Ok(std::mem::take(&mut *lock(&found))),
    }
}

fn compare_digest(item: &Item, found: &EffectsDigest) -> Result<(), String> {
    check_effects(result_of(item)?.header(), found).map_err(|fault| fault.to_string())
}
