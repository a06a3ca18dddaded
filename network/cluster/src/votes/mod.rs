//! A member votes on results: one thread signs and counts, and one task for each other member
//! sends.
//!
//! What is signed, kept and counted is defined in [`ledger::votes`]; here it gets threads and
//! messages.
//!
//! ```text
//! sequencer ─ block ─► inbox ─┐                        ┌─► outbox ─► a task for each member
//! members ─── votes ─► inbox ─┼─► the thread: Signer, ─┼─► votes/certificates
//! tasks ── certificates ► …  ─┘   Tally                └─► the node: halt, if it has diverged
//! ```
//!
//! *Bounds.* The sequencer leaves a height and a hash in an inbox and never waits. All that is left
//! for the thread is bounded: per member as many votes and certificates as one message holds, and
//! as many blocks as the tally keeps.
//!
//! **The electorate** follows the ledger's members. When a block changes it, the former electors
//! certify that block. This certificate is kept as the [succession](ledger::votes::succession) to
//! the new electors, whose votes count from there on. A node that lacks it asks others for it.
//!
//! **A node that was away** asks for the certificates that follow its last one before it adds newer
//! ones, so that its file has no gap where another member's has none. It does not wait for members
//! that cannot be reached.

mod fetching;
pub mod heard;
mod inbox;
mod keys;
mod shared;
mod voter;
mod voters;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use ledger::votes::counting::{Found, Signer, Tally};
use ledger::votes::{KeptCertificates, Vote};
use ledger::{Electors, Files, Parameters};
use tracing::info;

use crate::Own;
use keys::OwnKeys;
use voter::Voter;
use voters::Voters;

pub use inbox::Block;
pub use shared::Votes;

/// Starts the thread.
///
/// # Errors
/// What this node has signed or kept cannot be read.
pub fn start(
    files: &Arc<dyn Files>,
    electors: Electors,
    (me, own): (u64, &Arc<Own>),
    parameters: &Arc<Parameters>,
) -> io::Result<(Arc<Votes>, JoinHandle<()>)> {
    let mut voters = Voters::new(electors.ledger_id);
    voters.follow(parameters);
    let mut signer = Signer::open(files, electors.ledger_id, me)?;
    let (kept, cut) = KeptCertificates::open(files, &electors)?;
    if cut > 0 {
        info!(bytes = cut, "the end of votes/certificates could not be read and was cut off");
    }
    let mut own_keys = OwnKeys::new(me, own);
    let named = own_keys.choose(kept.all().electors(), voters.newest())?;
    signer.use_keys(named.unwrap_or_default());
    let mut tally = Tally::new(kept.all().electors().clone(), kept.all().last());
    voters.newest().into_iter().for_each(|next| tally.expect(next.clone()));
    let signed: VecDeque<Vote> = signer.again().into_iter().collect();
    let found: Vec<Found> = signed.iter().flat_map(|vote| tally.count(*vote)).collect();
    let votes = Arc::new(Votes::new(me, kept, signed));
    let mut voter = Voter::new(Arc::clone(&votes), signer, tally, voters, own_keys);
    voter.found(found);
    voter.tell();
    let thread = std::thread::Builder::new().name("votes".into()).spawn(move || voter.run())?;
    Ok((votes, thread))
}
