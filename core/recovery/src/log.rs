//! What is replayed: blocks of the ledger, the order in which their transactions committed, and
//! rows in the place of transactions that cannot be run again.
//!
//! *One schema for a log.* Its blocks are replayed together, under the store's newest catalog, so
//! there is no place in it for a block that changes the schema. Such a block is alone by the
//! engine's rules; it ends the log before it, and the next log begins after it:
//!
//! ```text
//!   ledger    1 2 3   4 CREATE INDEX   5 6      replay 1..3, apply 4, replay 5..6
//! ```
//!
//! *One block after the other.* The commits of a block come before those of the next one. Where
//! transactions [come before ones](BlockOutcome::inter_block_reorderings) of the block before, that
//! is not so, and their block is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use concurrency::{Block, BlockOutcome, Protocol, Work};
use procedure::Row;
use procedure::step::Procedure;
use rustc_hash::FxHashMap;
use storage::Catalog;
use types::{Error, Height, Key, Position, SqlState, TableId, Value};

use crate::analysis::Subject;

/// A block of the ledger, as its protocol left it.
#[derive(Clone)]
pub struct LoggedBlock {
    pub block: Arc<Block>,
    /// In the serial order that the protocol claimed; who was rejected or deferred is not there.
    pub commits: Vec<Commit>,
}

#[derive(Clone)]
pub struct Commit {
    /// In the block; it is in the stamps of what the transaction writes.
    pub position: Position,
    pub entry: Entry,
}

#[derive(Clone)]
pub enum Entry {
    /// Run the block's transaction again.
    Command,
    /// Put back what it wrote: it was ad hoc, and logged row by row.
    Rows(Vec<RowWrite>),
}

/// A row as a transaction left it.
#[derive(Clone, PartialEq, Debug)]
pub struct RowWrite {
    pub table: TableId,
    pub key: Key,
    /// `None`: it is gone.
    pub row: Option<Row>,
}

impl LoggedBlock {
    /// Every committed transaction by its command. `protocol` has just finished the block.
    ///
    /// # Errors
    /// Transactions of the block come before some of the block before.
    pub fn new(
        block: Arc<Block>,
        outcome: &BlockOutcome,
        protocol: &dyn Protocol,
    ) -> Result<LoggedBlock, Error> {
        if let Some((late, early)) = outcome.inter_block_reorderings.first() {
            let (height, name) = (block.height, protocol.info().name);
            let message = format!("block {height} overlaps the one before and cannot be logged");
            let detail = format!("Its transaction {late} comes before transaction {early} there.");
            let hint = format!("Prepare blocks of \"{name}\" one behind, or replay them by it.");
            let error = Error::new(SqlState::FEATURE_NOT_SUPPORTED, message);
            return Err(error.with_detail(detail).with_hint(hint));
        }
        let committed = |position: &&Position| {
            outcome.outcomes.get(**position as usize).is_some_and(|o| o.is_committed())
        };
        let order = outcome.serial_order.iter().filter(committed);
        let commits = order.map(|&position| Commit { position, entry: Entry::Command });
        Ok(LoggedBlock { commits: commits.collect(), block })
    }

    pub fn work(&self, commit: &Commit) -> &Arc<Work> {
        &self.block.transactions[commit.position as usize]
    }
}

/// The heights of a log, first and last; `None`: it is empty. Every block from `newest` on must be
/// there: one that is not may have changed the schema.
pub(crate) fn heights(
    log: &[LoggedBlock],
    newest: Height,
) -> Result<Option<(Height, Height)>, String> {
    let mut before = newest;
    for logged in log {
        let height = logged.block.height;
        if height != before + 1 {
            return Err(format!(
                "block {height} cannot be replayed right behind block {before}: a log is cut \
                 where the schema changes"
            ));
        }
        before = height;
    }
    Ok((!log.is_empty()).then_some((newest + 1, before)))
}

/// Procedures by address and by whether they are run apart: the log keeps them alive.
pub(crate) type Known = FxHashMap<(usize, bool), usize>;

/// What the analysis has to know of a log, and where its procedures stand there.
pub(crate) fn subject(log: &[LoggedBlock], catalog: &Catalog) -> (Subject, Known) {
    let mut subject = Subject {
        tables: catalog.tables().map(|t| (t.id(), Arc::clone(t.schema()))).collect(),
        ..Subject::default()
    };
    let mut known = Known::default();
    let mut together = BTreeSet::new();
    for logged in log {
        for commit in &logged.commits {
            if let Entry::Rows(rows) = &commit.entry {
                subject.written_ad_hoc.extend(rows.iter().map(|row| row.table));
                continue;
            }
            let work = logged.work(commit);
            let apart = is_apart(work);
            let mut members = BTreeMap::new();
            each_part(work, &mut |procedure, _| {
                let next = subject.procedures.len();
                let at = *known.entry((Arc::as_ptr(procedure).addr(), apart)).or_insert(next);
                if at == next {
                    subject.procedures.push((Arc::clone(procedure), apart));
                }
                members.insert(at, ());
            });
            if members.len() > 1 {
                together.insert(members.into_keys().collect::<Vec<usize>>());
            }
        }
    }
    subject.together = together.into_iter().collect();
    (subject, known)
}

/// One call, whose pieces may be run apart.
pub(crate) fn is_apart(work: &Work) -> bool {
    matches!(work, Work::Statement(_))
}

/// The calls that a transaction consists of, in order. What an interactive transaction requires is
/// not asked again, and what a load looks at when its rows are there may be left out: it has
/// committed.
pub(crate) fn each_part<'w>(
    work: &'w Work,
    visit: &mut dyn FnMut(&'w Arc<Procedure>, &'w [Value]),
) {
    match work {
        Work::Statement(statement) => visit(&statement.procedure, &statement.arguments),
        Work::Load(load) => load.calls().for_each(|(procedure, row)| visit(procedure, row)),
        Work::Interactive(interactive) => {
            interactive.writes.iter().for_each(|(write, _)| each_part(write, visit));
        }
        Work::Void(_) => {}
    }
}
