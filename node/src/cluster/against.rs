//! `tally verify --peer`: are a folder's orders those of another member, or of another folder?
//!
//! Both ledgers may be sound, each for itself, and have parted. Orders are compared up to the last
//! block that both have a result of: those above are not agreed on yet.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use cluster::{Members, Peers, Plan};
use ledger::hash::to_hex;
use ledger::{BlockReader, Files, LogError, Stream, read_record};
use tokio::runtime::Runtime;

use super::forks::Halving;
use super::remote;
use crate::folders;

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Comparison {
    /// As it is called in messages.
    pub peer: String,
    /// The blocks that both have; none if both ends are `None`.
    pub first: u64,
    pub last: Option<u64>,
    pub fork: Option<Parted>,
}

/// The first block that the other one has another order of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parted {
    pub height: u64,
    pub here: String,
    pub there: String,
}

/// Where the other orders are.
enum Other {
    Folder(Arc<dyn Files>),
    Member(u64, Peers, Runtime),
}

/// `peer`: the number or the address of a member, or a ledger's folder.
pub fn compare(data: &Path, peer: &str) -> Result<Comparison> {
    let own = folders::open(data)?;
    let (other, peer) = other(data, peer)?;
    let ((first, newest), (its_first, its_newest)) = (span(&own)?, other.span()?);
    let (first, last) = (first.max(its_first), newest.min(its_newest));
    let mut comparison = Comparison { peer, first, last: None, fork: None };
    if first > last {
        return Ok(comparison);
    }
    comparison.last = Some(last);
    let both = |height| Ok::<_, anyhow::Error>((order(&own, height)?, other.order(height)?));
    let is_same = |height| both(height).map(|(here, there)| here == there);
    if is_same(last)? {
        return Ok(comparison);
    }
    let mut halving = Halving::new(first, last);
    while let Some(middle) = halving.middle() {
        halving.reported(middle, is_same(middle)?);
    }
    let (here, there) = both(halving.differs)?;
    comparison.fork = Some(Parted { height: halving.differs, here, there });
    Ok(comparison)
}

fn other(data: &Path, peer: &str) -> Result<(Other, String)> {
    let folder = Path::new(peer);
    if folder.is_dir() {
        let files = folders::open(folder).with_context(|| format!("cannot read {peer}"))?;
        return Ok((Other::Folder(files), peer.to_owned()));
    }
    let plan = Plan::read(data).context("cannot read what cluster this folder is of")?;
    let (plan, secrets) = plan
        .with_context(|| format!("{peer} is no folder, and {} is of no cluster", data.display()))?;
    let is_it = |id: u64, address: &str| peer == id.to_string() || peer == address;
    let found = plan.members.iter().find(|member| is_it(member.id, &member.address));
    let member = found.with_context(|| {
        let all = plan.members.iter().map(|member| format!("{} {}", member.id, member.address));
        format!("{peer} is neither a folder nor a member: {}", all.collect::<Vec<_>>().join(", "))
    })?;
    ensure!(member.id != secrets.id, "the folder is that of member {peer} itself");
    let peers = Peers::new(&plan, &secrets, Arc::new(Members::new(plan.membership()?)))?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    Ok((Other::Member(member.id, peers, runtime?), format!("member {}", member.id)))
}

impl Other {
    fn span(&self) -> Result<(u64, u64)> {
        match self {
            Other::Folder(files) => span(files),
            Other::Member(member, peers, runtime) => {
                let answer = runtime.block_on(remote::ask_span(peers, *member));
                let (newest, first) = answer.with_context(|| unheard(*member))?;
                Ok((first, newest))
            }
        }
    }

    fn order(&self, height: u64) -> Result<String> {
        match self {
            Other::Folder(files) => order(files, height),
            Other::Member(member, peers, runtime) => {
                let answer = runtime.block_on(remote::ask_order(peers, *member, height));
                answer.with_context(|| unheard(*member))
            }
        }
    }
}

fn unheard(member: u64) -> String {
    format!("member {member} does not tell its orders")
}

/// The oldest block, and the newest that has a result.
fn span(files: &Arc<dyn Files>) -> Result<(u64, u64)> {
    let first = BlockReader::open(Arc::clone(files))?.first_height();
    // The last segment of orders may hold none but such as have none yet.
    for from in [u64::MAX, first] {
        let mut reader = BlockReader::open_at(Arc::clone(files), from)?;
        let mut newest = None;
        loop {
            match reader.next() {
                Ok(Some(recorded)) if recorded.result.is_some() => {
                    newest = Some(recorded.batch.height());
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(LogError::TornTail(_)) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(newest) = newest {
            return Ok((first, newest));
        }
    }
    anyhow::bail!("there is no block with a result")
}

/// The hash of a block's order.
fn order(files: &Arc<dyn Files>, height: u64) -> Result<String> {
    let record = read_record(&**files, Stream::Orders, height)?;
    let record = record.with_context(|| format!("block {height} is not there"))?;
    Ok(to_hex(&record.hash()))
}
