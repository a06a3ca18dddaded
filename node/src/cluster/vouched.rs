//! Whether a ledger copied from one member is the cluster's ledger, by what the other members say.
//!
//! ```text
//! before   every member   your newest certificate? ──► of block c
//! then     one member     its ledger, up to head h ──► its result of block c is the certified one?
//!          the others     your order of block h?       only where nothing is certified
//! ```
//!
//! Blocks above the certified one are not taken from the copy: Raft sends them, as to any member
//! that was away. With nothing certified, a member with another order of block h refutes the copy.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use bytes::Bytes;
use cluster::{Membership, Peers};
use ledger::votes::counting::wire;
use ledger::votes::vouched::Word;
use ledger::{Electors, Files, LedgerId, Said, hash::to_hex};
use order::Network;
use tracing::warn;

use crate::cluster::remote::ask_order;
use crate::receipts;

/// What a member is asked that answers at once.
const PATIENCE: Duration = Duration::from_secs(2);
const SUCCESSIONS_MAX: usize = 4096;

/// The newest certificates of the members that answer.
pub async fn ask_all(peers: &Peers, own: u64) -> Vec<Word> {
    let others = peers.members().now().0.into_keys().filter(|id| *id != own);
    let words = others.map(async |member| word_of(peers, member).await);
    futures::future::join_all(words).await.into_iter().flatten().collect()
}

/// `None`: it does not answer, or has none.
async fn word_of(peers: &Peers, member: u64) -> Option<Word> {
    let call = async |request: Bytes| {
        tokio::time::timeout(PATIENCE, peers.call(member, request)).await.ok()?.ok()
    };
    let height = wire::read_certified(&call(wire::votes(0, &[])).await?).ok()?;
    let newest = call(wire::wanted(height.checked_sub(1)?)).await?;
    let certificate = wire::read_certificates(newest).ok()?.into_iter().next()?;
    let mut successions = Vec::new();
    while successions.len() < SUCCESSIONS_MAX {
        let known = wire::successions_wanted(successions.len() as u64);
        let more = wire::read_successions(call(known).await?).ok()?;
        if more.is_empty() {
            break;
        }
        successions.extend(more);
    }
    Some(Word { certificate, successions })
}

/// The newest block of what was taken that is certified, if any is.
///
/// # Errors
///
/// Where what was taken is not what is certified, or ends before it.
pub fn certified(
    files: &Arc<dyn Files>,
    height: u64,
    words: &[Word],
    known: &Membership,
    ledger_id: LedgerId,
) -> Result<Option<Said>> {
    let first = match receipts::genesis(files)? {
        Some(genesis) => Electors::of(genesis.ledger_id, &genesis.parameters)?,
        None => None,
    };
    let voters = known.0.iter().filter(|(_, known)| !known.observes);
    let keys = voters.map(|(id, known)| (*id, known.key)).collect();
    let holds = |word: &&Word| word.is_vouched_for(ledger_id, first.as_ref(), &keys);
    let newest = words.iter().filter(holds).map(|word| word.certificate.said);
    let Some(said) = newest.max_by_key(|said| said.height) else { return Ok(None) };
    if said.height > height {
        bail!("it ends with block {height}, and block {} is certified", said.height);
    }
    let Some(hash) = receipts::head_at(files, said.height)? else {
        bail!("it has no result of block {}, which is certified", said.height);
    };
    if hash != said.result_hash {
        let (here, there) = (to_hex(&hash), to_hex(&said.result_hash));
        bail!("its result of block {} is {here}, and {there} is certified", said.height);
    }
    Ok(Some(said))
}

/// Where nothing is certified: no other member that answers has another order of the last block.
pub async fn compare_with_others(
    peers: &Peers,
    own: u64,
    from: u64,
    (height, order_hash): (u64, &str),
) -> Result<()> {
    let all = peers.members().now().0;
    let others = all.keys().copied().filter(|id| ![own, from].contains(id));
    let asked = others.map(async |member| (member, ask_order(peers, member, height).await));
    let answers = futures::future::join_all(asked).await;
    let mut same = 1;
    for (member, answer) in answers {
        match answer {
            Ok(theirs) if theirs == order_hash => same += 1,
            Ok(_) => bail!("member {member} has another order of block {height}"),
            Err(_) => {}
        }
    }
    if 2 * same <= all.len() {
        let of = all.len();
        warn!(height, same, of, "nothing is certified, and fewer than half vouch for this ledger");
    }
    Ok(())
}
