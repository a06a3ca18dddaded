//! Checkpoints that the ledger vouches for.
//!
//! ```text
//!   blocks   … 100 │ 101 … 104 │ 105: "the state after block 100 has digest d" │ 106 …
//!   files            checkpoint of 100 is being written ┘ durable
//! ```
//!
//! When a checkpoint is durable, its digest is ordered like any transaction. So the chain of orders
//! commits to it: a checkpoint whose rows were changed, with all hashes of its own files computed
//! again, has another digest than the ledger says, and a start does not begin with it. To make the
//! ledger say so as well takes another chain, with another head; and a verification that executes
//! the ledger finds that the state is not the one that is claimed.
//!
//! *What holds.* A start of a node begins with a vouched checkpoint, or with genesis. One that is
//! not vouched for, since a crash came before its digest was ordered, is passed over. Only where
//! blocks were pruned and no vouched one holds it is begun with, which is said.
//!
//! *Cost*: a block for each checkpoint, and a look at the orders after it at a start.

use std::collections::BTreeMap;
use std::sync::Arc;

use ledger::{Batch, Files, Hash, LogError, LogReader, Stream};
use order::View;
use replica::Body;
use types::Height;

/// A digest, and the block that it was ordered in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vouched {
    pub digest: Hash,
    pub by: Height,
}

/// The first thing that the ledger says about the state after a block. `None`: nothing. Damage
/// ends the search, and is for the reader that follows to tell.
pub fn vouched_at(files: &Arc<dyn Files>, height: Height) -> Result<Option<Vouched>, LogError> {
    let mut found = None;
    each(files, height, &mut |of, vouched| {
        if of == height {
            found = Some(vouched);
        }
        found.is_some()
    })?;
    Ok(found)
}

/// All that the ledger says about states, from a block on: by height.
pub fn vouched_from(
    files: &Arc<dyn Files>,
    from: Height,
) -> Result<BTreeMap<Height, Vec<Vouched>>, LogError> {
    let mut all = BTreeMap::<Height, Vec<Vouched>>::new();
    each(files, from, &mut |of, vouched| {
        all.entry(of).or_default().push(vouched);
        false
    })?;
    Ok(all)
}

/// Calls `enough` for what blocks after a height say.
fn each(
    files: &Arc<dyn Files>,
    from: Height,
    enough: &mut dyn FnMut(Height, Vouched) -> bool,
) -> Result<(), LogError> {
    let mut reader = match LogReader::open_at(Arc::clone(files), Stream::Orders, from) {
        Err(LogError::TornTail(_) | LogError::Damage(_)) => return Ok(()),
        opened => opened?,
    };
    loop {
        let record = match reader.next_record() {
            Ok(Some(record)) => record,
            Err(LogError::Io(error)) => return Err(error.into()),
            Ok(None) | Err(LogError::TornTail(_) | LogError::Damage(_)) => return Ok(()),
        };
        let Ok(batch) = Batch::of(&record) else { return Ok(()) };
        for envelope in batch.envelopes() {
            let Some((height, digest)) = said_in(envelope) else { continue };
            let by = batch.height();
            if height < by && enough(height, Vouched { digest, by }) {
                return Ok(());
            }
        }
    }
}

fn said_in(envelope: &[u8]) -> Option<(Height, Hash)> {
    let view = View::read(envelope).ok()?;
    if !Body::is_checkpoint(view.request) {
        return None;
    }
    match Body::from_request(view.request) {
        Ok(Body::Checkpoint { height, digest }) => Some((height, digest)),
        _ => None,
    }
}
