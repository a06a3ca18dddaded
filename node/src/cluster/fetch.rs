//! A member without a ledger, or one too far behind, copies the ledger of another member.
//!
//! ```text
//! joining/copy      what another member has: newest checkpoint, headers, blocks     1 copied
//! joining/ledger    the same, every record checked and executed                     2 restored
//! joining/DONE      marks that the ledger is complete and may be installed          3
//! orders/ results/ checkpoints/ …-headers/ raft/ …                                  4 moved here
//! ```
//!
//! 1. The copy is a [backup](ledger::backup) over the network. It can be resumed at any byte. Each
//!    checkpoint's groups are compared with the digests in its manifest, and each record with its
//!    checksum and with the chain, which ends in the hash that the other member named at first.
//!    That one member is not trusted: its ledger must lead to the newest
//!    [certificate](super::vouched) that any of the members has. Blocks above the certified
//!    one are left to Raft.
//! 2. The copy is restored as any backup is: a checkpoint is used only if the ledger vouches for
//!    it, and the blocks after it are executed and their results compared.
//! 3. From here on the former contents of this folder are ignored, except for the votes in Raft
//!    that this member has given. A folder that was empty may have lost such votes: so Raft asks
//!    the other members before this one votes again.
//! 4. The orderer's own state comes with the ledger: Raft's internal entries, so that the log of
//!    orders is the cluster's again, or the position in a topic.
//!
//! After a crash the work is resumed or done again.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use cluster::Peers;
use ledger::backup::{self, Head};
use ledger::hash::{hash_from_hex, to_hex};
use ledger::votes::vouched::Word;
use ledger::{BlockReader, Files, Hash, LedgerId, LogError, RealFiles, Said};
use tokio::runtime::Runtime;
use tracing::{info, warn};
use types::{Error, SqlState};

use super::orderers::Kind;
use super::remote::{FOLDERS, Heads, RemoteFiles};
use super::vouched;
use crate::cli;
use crate::{folders, restore};

pub const JOINING: &str = "joining";
const DONE: &str = "DONE";
const CLEARED: &str = "CLEARED";
const OWN: &str = "own.json";
/// How often others are asked that do not answer.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// Whether a ledger was taken, and the start that puts it into place was cut short.
pub fn is_half_done(data: &Path) -> bool {
    data.join(JOINING).join(DONE).exists()
}

/// Makes sure that the folder has a ledger which the others can go on with. If it was taken now:
/// the block up to which it was executed, and the digest of the state after that.
pub fn complete(
    data: &Path,
    files: &Arc<dyn Files>,
    peers: Peers,
    own: u64,
    kind: Kind,
    ledger_id: LedgerId,
) -> Result<Option<(u64, Hash)>> {
    let joining = data.join(JOINING);
    if is_half_done(data) {
        install(data, files, &joining, kind)?;
        return Ok(None);
    }
    let (next, is_whole) = next_block(files)?;
    if next.is_some() && !kind.members_send_blocks() {
        return Ok(None);
    }
    if next.is_none() {
        // From here on, whatever comes between: this member may have known more.
        kind.forget(files)?;
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let (runtime, peers) = (Arc::new(runtime?), Arc::new(peers));
    let (mut reported, mut passed_over) = (false, BTreeSet::new());
    loop {
        let all = found(&peers, own, &runtime);
        if let Some(next) = next {
            // One of those that have its next block will send it.
            let is_far = !all.is_empty() && all.iter().all(|(_, heads)| heads.first > next);
            if !is_far {
                return Ok(None);
            }
            warn!(next, "the other members have pruned what this one lacks: it begins anew");
            if !is_whole {
                // After what cannot be read there may be more, which is given up here.
                kind.forget(files)?;
            }
        }
        if all.iter().all(|(remote, _)| passed_over.contains(&remote.from)) {
            passed_over.clear();
        }
        let next = all.into_iter().find(|(remote, _)| !passed_over.contains(&remote.from));
        if let Some((remote, heads)) = next {
            match fetch(&joining, &remote, own, ledger_id) {
                Ok(executed) => {
                    install(data, files, &joining, kind)?;
                    return Ok(Some(executed));
                }
                Err(error) => {
                    let (from, height) = (remote.from, heads.height);
                    warn!(from, height, "the ledger was not taken, tried again: {error:#}");
                    // Another one first, if there is one.
                    passed_over.insert(from);
                }
            }
        } else if !std::mem::replace(&mut reported, true) {
            info!("waits for another member to take the ledger from; is this one added?");
        }
        std::thread::sleep(ASK_EVERY);
    }
}

pub fn has_ledger(files: &Arc<dyn Files>) -> Result<bool> {
    Ok(!files.list("orders")?.is_empty())
}

/// The block after the last one, `None` where there is no ledger; and whether nothing of it was
/// unreadable. What is wrong with one is for the start to say.
fn next_block(files: &Arc<dyn Files>) -> Result<(Option<u64>, bool)> {
    if !has_ledger(files)? {
        return Ok((None, false));
    }
    let Ok(mut reader) = BlockReader::open_at(Arc::clone(files), u64::MAX) else {
        return Ok((Some(u64::MAX), false));
    };
    let is_whole = loop {
        match reader.next() {
            Ok(Some(_)) => {}
            Ok(None) | Err(LogError::TornTail(_)) => break true,
            Err(_) => break false,
        }
    };
    Ok((Some(reader.next_height()), is_whole))
}

/// The others that answer, the one that is furthest first.
fn found(peers: &Arc<Peers>, own: u64, runtime: &Arc<Runtime>) -> Vec<(RemoteFiles, Heads)> {
    let members = peers.members().now().0;
    let remote = |from| {
        let (peers, runtime) = (Arc::clone(peers), Arc::clone(runtime));
        RemoteFiles { from, peers, runtime }
    };
    let others: Vec<_> = members.into_keys().filter(|id| *id != own).map(remote).collect();
    let asked = others.iter().map(RemoteFiles::ask_heads);
    let heads = runtime.block_on(async { futures::future::join_all(asked).await });
    let answered = others.into_iter().zip(heads);
    let mut found: Vec<_> = answered.filter_map(|(files, heads)| Some((files, heads?))).collect();
    found.sort_by_key(|(_, heads)| std::cmp::Reverse(heads.height));
    found
}

fn fetch(
    joining: &Path,
    remote: &RemoteFiles,
    own: u64,
    ledger_id: LedgerId,
) -> Result<(u64, Hash)> {
    folders::create_private(joining)?;
    let (copy, ledger) = (joining.join("copy"), joining.join("ledger"));
    let words = remote.runtime.block_on(vouched::ask_all(&remote.peers, own));
    let taken = {
        let target = RealFiles::open(&copy)?;
        let mut head = || head_of(&remote.heads().map_err(unreadable)?);
        backup::take(remote, &target, &mut head, &mut |_| Ok(()))?
    };
    if ledger.exists() {
        fs::remove_dir_all(&ledger)?;
    }
    let last = match vouch(&copy, &taken, remote, &words, (own, ledger_id)) {
        Ok(last) => last,
        Err(error) => {
            // None of it is gone on with.
            fs::remove_dir_all(&copy)?;
            return Err(error);
        }
    };
    let (archive, to_block, to_time) = (Vec::new(), Some(last), None);
    let arguments = cli::Restore { from: copy, archive, data: ledger.clone(), to_block, to_time };
    let executed = restore::make(&arguments)?.taken;
    let own = remote.own_up_to(last)?;
    fs::write(joining.join(OWN), &own)?;
    fs::File::open(joining.join(OWN))?.sync_all()?;
    fs::File::create(joining.join(DONE))?.sync_all()?;
    fs::File::open(joining)?.sync_all()?;
    info!(from = remote.from, height = last, bytes = taken.bytes, "took the ledger");
    Ok((executed.height, executed.digest))
}

/// The last block that is believed of what was taken.
fn vouch(
    copy: &Path,
    taken: &backup::Taken,
    remote: &RemoteFiles,
    words: &[Word],
    (own, ledger_id): (u64, LedgerId),
) -> Result<u64> {
    let files: Arc<dyn Files> = Arc::new(RealFiles::open(copy)?);
    let mut known = remote.peers.members().now();
    known.0.remove(&own);
    let head = &taken.head;
    let certified = vouched::certified(&files, head.height, words, &known, ledger_id)?;
    // A checkpoint above it would be of no use.
    let has_checkpoint = |height| taken.checkpoints.iter().any(|it| *it <= height);
    let can_end = |said: &Said| taken.first_block == 0 || has_checkpoint(said.height);
    if let Some(said) = certified.filter(can_end) {
        return Ok(said.height);
    }
    let last = (head.height, &*to_hex(&head.order_hash));
    let compared = vouched::compare_with_others(&remote.peers, own, remote.from, last);
    remote.runtime.block_on(compared)?;
    Ok(head.height)
}

fn head_of(heads: &Heads) -> types::Result<Head> {
    let hash = |text: &str| hash_from_hex(text).map_err(|_| unreadable_head(text));
    Ok(Head {
        height: heads.height,
        hash: hash(&heads.hash)?,
        order_hash: hash(&heads.order_hash)?,
    })
}

fn unreadable(error: std::io::Error) -> Error {
    Error::new(SqlState::IO_ERROR, format!("a member does not tell its head: {error}"))
}

fn unreadable_head(text: &str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, format!("a member names {text:?} as a hash"))
}

/// Goes on where an earlier run of it stopped.
fn install(data: &Path, files: &Arc<dyn Files>, joining: &Path, kind: Kind) -> Result<()> {
    let (ledger, cleared) = (joining.join("ledger"), joining.join(CLEARED));
    if !cleared.exists() {
        for folder in FOLDERS.map(|name| data.join(name)).iter().filter(|path| path.exists()) {
            fs::remove_dir_all(folder)?;
        }
        fs::File::create(&cleared)?.sync_all()?;
        fs::File::open(joining)?.sync_all()?;
    }
    for name in FOLDERS {
        let from = ledger.join(name);
        if from.exists() {
            fs::rename(&from, data.join(name))?;
        }
    }
    fs::File::open(data)?.sync_all()?;
    let own = joining.join(OWN);
    let bytes = fs::read(&own).with_context(|| own.display().to_string())?;
    kind.begin_behind(files, &bytes)?;
    // The mark goes first: half of the rest would be nothing to install from.
    fs::remove_file(joining.join(DONE))?;
    fs::File::open(joining)?.sync_all()?;
    fs::remove_dir_all(joining)?;
    Ok(())
}
