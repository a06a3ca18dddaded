//! What executing a block gave, against what the block says.
//!
//! Comparing takes hashing each row that the block changed, which nothing of the next block waits
//! for. So where there are several workers, it is done by a thread of its own while the next block
//! is executed; the images stay readable as long as the block's effects live.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use kit::sync::lock;
use ledger::hash::to_hex;
use ledger::{Batch, BlockResult, ResultSeal};
use replica::describe::describe_outcome;
use replica::{Body, Repeat};
use types::Height;

use super::{Fault, Mismatch};

/// Blocks that may wait to be compared.
const BEHIND_MAX: usize = 2;

/// A recorded block, and what executing it gave.
pub(super) struct Pair {
    pub batch: Batch,
    pub result: BlockResult,
    pub again: Repeat,
}

/// Where blocks are compared.
pub(super) enum Comparer<'a> {
    AtOnce,
    Behind { to: SyncSender<Task>, fault: &'a Mutex<Option<Fault>> },
}

/// What a comparer that is behind has to do.
pub(super) enum Task {
    Compare(Box<Pair>),
    /// Drop it: all before are compared.
    Tell(SyncSender<()>),
}

impl<'a> Comparer<'a> {
    /// The other end is for [`compare_all`].
    pub fn behind(fault: &'a Mutex<Option<Fault>>) -> (Comparer<'a>, Receiver<Task>) {
        let (to, from) = sync_channel(BEHIND_MAX);
        (Comparer::Behind { to, fault }, from)
    }

    /// An error may be that of an earlier block.
    pub fn take(&self, pair: Pair) -> Result<(), Fault> {
        match self {
            Comparer::AtOnce => compare(pair),
            Comparer::Behind { .. } => self.send(Task::Compare(Box::new(pair))),
        }
    }

    /// Returns when all that it took is compared.
    pub fn wait(&self) -> Result<(), Fault> {
        let Comparer::Behind { fault, .. } = self else { return Ok(()) };
        let (to, done) = sync_channel(0);
        self.send(Task::Tell(to))?;
        // Nothing is ever sent: the other end is dropped, also by one that ends at a fault.
        let _ = done.recv();
        lock(fault).take().map_or(Ok(()), Err)
    }

    fn send(&self, task: Task) -> Result<(), Fault> {
        let Comparer::Behind { to, fault } = self else { return Ok(()) };
        // It has ended, which it does at a fault only.
        to.send(task).map_err(|_| lock(fault).take().unwrap_or(Fault::Empty))
    }
}

/// Compares what comes, up to the first fault.
pub(super) fn compare_all(from: Receiver<Task>, fault: &Mutex<Option<Fault>>) {
    for task in from {
        let compared = match task {
            Task::Compare(pair) => compare(*pair),
            Task::Tell(to) => {
                drop(to);
                Ok(())
            }
        };
        if let Err(found) = compared {
            *lock(fault) = Some(found);
            return;
        }
    }
}

fn compare(pair: Pair) -> Result<(), Fault> {
    let Pair { batch, result, again } = pair;
    compare_orders(&batch, &again)?;
    compare_outcomes(&batch, &result, &again)?;
    let height = batch.height();
    let roots = again.roots();
    let (effects, state_root) = roots.map_err(|error| Fault::Halt(height, error.into()))?;
    let theirs = result.header();
    if effects.root != theirs.effects_root {
        return Err(Fault::Mismatch(Mismatch {
            height,
            transaction: (batch.envelopes().len() == 1).then_some(0),
            what: "the effects root".into(),
            expected: to_hex(&theirs.effects_root),
            found: to_hex(&effects.root),
            changes: again.effects.rows(),
        }));
    }
    if state_root != theirs.state_root {
        let (expected, found) = (to_hex(&theirs.state_root), to_hex(&state_root));
        return Err(mismatch(height, "the state root", &expected, found));
    }
    let recorded = || (result.outcomes().to_vec(), result.carried().to_vec());
    let (outcomes, carried) = again.outcomes.unwrap_or_else(recorded);
    let ours =
        BlockResult::seal(ResultSeal { effects, state_root, ..again.seal }, outcomes, carried);
    let ours = ours.map_err(|error| Fault::Halt(height, error.into()))?;
    match ours.header() == theirs {
        true => Ok(()),
        false => {
            let (expected, found) = (format!("{theirs:?}"), format!("{:?}", ours.header()));
            Err(mismatch(height, "the result header", &expected, found))
        }
    }
}

fn compare_orders(batch: &Batch, again: &Repeat) -> Result<(), Fault> {
    let (theirs, ours) = (batch.header(), &again.order);
    let height = theirs.height;
    for (what, ours, theirs) in [
        ("the parameters", ours.parameters_hash, theirs.parameters_hash),
        ("the previous block's order hash", ours.previous_order_hash, theirs.previous_order_hash),
    ] {
        if ours != theirs {
            return Err(mismatch(height, what, &to_hex(&theirs), to_hex(&ours)));
        }
    }
    match ours == theirs {
        true => Ok(()),
        false => {
            Err(mismatch(height, "the order header", &format!("{theirs:?}"), format!("{ours:?}")))
        }
    }
}

fn compare_outcomes(batch: &Batch, result: &BlockResult, again: &Repeat) -> Result<(), Fault> {
    let outcomes = again.outcomes.iter().flat_map(|(own, _)| own);
    for (index, (recorded, found)) in result.outcomes().iter().zip(outcomes).enumerate() {
        if recorded == found {
            continue;
        }
        let position = again.carried_in + index;
        let mut changes = again.effects.rows();
        changes.retain(|row| row.transaction == Some(position));
        return Err(Fault::Mismatch(Mismatch {
            height: batch.height(),
            transaction: Some(index),
            what: outcome_of(&batch.envelopes()[index]),
            expected: describe_outcome(recorded),
            found: describe_outcome(found),
            changes,
        }));
    }
    Ok(())
}

fn outcome_of(envelope: &[u8]) -> String {
    let body = order::View::read(envelope).and_then(|view| Body::from_request(view.request));
    match body {
        Ok(body) => format!("the outcome of `{}`", body.describe()),
        Err(_) => "the outcome".into(),
    }
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
