//! What executing a block gave, against what the block says.
//!
//! Comparing takes hashing each row that the block changed, which nothing of the next block waits
//! for. So where there are several workers, it is done by a thread of its own while the next block
//! is executed; the images stay readable as long as the block's effects live.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard};

use ledger::Block;
use types::Height;

use crate::describe::describe_outcome;
use crate::replica::Again;
use crate::transaction::{Transaction, encode_outcome};

use super::{Fault, Mismatch};

/// Blocks that may wait to be compared.
const BEHIND_MAX: usize = 2;

/// Where blocks are compared.
pub(super) enum Comparer<'a> {
    AtOnce,
    Behind { to: SyncSender<(Block, Again)>, fault: &'a Mutex<Option<Fault>> },
}

impl<'a> Comparer<'a> {
    /// The other end is for [`compare_all`].
    pub fn behind(fault: &'a Mutex<Option<Fault>>) -> (Comparer<'a>, Receiver<(Block, Again)>) {
        let (to, from) = sync_channel(BEHIND_MAX);
        (Comparer::Behind { to, fault }, from)
    }

    /// An error may be that of an earlier block.
    pub fn take(&self, block: Block, again: Again) -> Result<(), Fault> {
        match self {
            Comparer::AtOnce => compare(&block, &again),
            Comparer::Behind { to, fault } => match to.send((block, again)) {
                Ok(()) => Ok(()),
                // It has ended, which it does at a fault only.
                Err(_) => Err(lock(fault).take().unwrap_or(Fault::Empty)),
            },
        }
    }
}

/// Compares what comes, up to the first fault.
pub(super) fn compare_all(from: Receiver<(Block, Again)>, fault: &Mutex<Option<Fault>>) {
    for (block, again) in from {
        if let Err(found) = compare(&block, &again) {
            *lock(fault) = Some(found);
            return;
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

fn compare(block: &Block, again: &Again) -> Result<(), Fault> {
    let height = block.header.height;
    let told = again.outcomes.iter().flatten();
    for (index, (recorded, outcome)) in block.outcomes.iter().zip(told).enumerate() {
        let found = encode_outcome(outcome);
        if *recorded != found {
            let what = match Transaction::decode(&block.transactions[index]) {
                Ok(transaction) => format!("the outcome of `{}`", transaction.body.describe()),
                Err(_) => "the outcome".into(),
            };
            let (expected, found) = (describe_outcome(recorded), describe_outcome(&found));
            let mut changes = again.effects.rows();
            changes.retain(|row| row.transaction == Some(index));
            let transaction = Some(index);
            let fault = Mismatch { height, transaction, what, expected, found, changes };
            return Err(Fault::Mismatch(fault));
        }
    }
    let theirs = &block.header;
    let hex = |hash: &ledger::Hash| ledger::hash::to_hex(hash);
    let root = again.effects.root().map_err(|error| Fault::Halt(height, error.into()))?;
    if root != theirs.effects_root {
        let changes = again.effects.rows();
        return Err(Fault::Mismatch(Mismatch {
            height,
            transaction: only_transaction(block),
            what: "the effects root".into(),
            expected: hex(&theirs.effects_root),
            found: hex(&root),
            changes,
        }));
    }
    let ours = &again.header;
    for (what, ours, theirs) in [
        ("the parameters", ours.parameters_hash, theirs.parameters_hash),
        ("the previous block's hash", ours.previous_hash, theirs.previous_hash),
    ] {
        if ours != theirs {
            return Err(mismatch(height, what, &hex(&theirs), hex(&ours)));
        }
    }
    if ours == theirs {
        return Ok(());
    }
    Err(mismatch(height, "the header", &format!("{theirs:?}"), format!("{ours:?}")))
}

/// The transaction whose effects differ, where there is no choice.
fn only_transaction(block: &Block) -> Option<usize> {
    (block.transactions.len() == 1).then_some(0)
}

/// A difference that is the block's as a whole.
pub(super) fn mismatch(height: Height, what: &str, expected: &str, found: String) -> Fault {
    Fault::Mismatch(Mismatch {
        height,
        transaction: None,
        what: what.to_owned(),
        expected: expected.to_owned(),
        found,
        changes: Vec::new(),
    })
}
