//! `tally prune`: old blocks go, after they were archived if that is wanted; their headers stay.
//!
//! A folder has one writer, so where a node runs it is the node that prunes. It does so for a
//! process that can write its folder, not for one that reaches its second port: the request is a
//! file below `requests/`, with a name that cannot be guessed, and the port is only told that name.
//!
//! ```text
//! tally prune    archive: copy, sync, read back ─► requests/5f…: {"to_block": 900} ─► POST /prune?5f…
//! the node                                          reads it, removes it, prunes, answers
//! ```
//!
//! A node can also do it by itself, after each new checkpoint ([`watch`]).

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kit::sync::lock;
use ledger::backup::{self, Extent};
use ledger::hash::to_hex;
use ledger::prune::{Pruned, closed_up_to};
use ledger::{Files, Header, RealFiles, checkpoint, first_block, first_record, read_record};
use serde_json::{Value as Json, json};
use tracing::{error, info};
use types::{Error, SqlState};

use crate::backup::{advance, node_address};
use crate::cli::{self, Exit, Output};
use crate::configure;
use crate::folders;
use crate::http;
use crate::observed::{Observed, Phase};
use crate::progress::Progress;
use crate::secrets;

const REQUESTS: &str = "requests";

pub fn run(arguments: &cli::Prune, output: Output) -> Result<Exit> {
    let settings = configure::resolve(&arguments.node.settings())?.settings;
    let data = &settings.data;
    ensure!(data.is_dir(), "there is no folder {}", data.display());
    let archive = arguments.archive.as_deref().or(settings.prune_archive.as_deref());
    let to_block = arguments.to_block;
    let pruned = if folders::is_in_use(data)? {
        let address = node_address(&settings)?;
        let source = RealFiles::beside(data)?;
        let last = last_to_go(&source, to_block)?;
        with_bar(archive, |archive, report| copy_to_archive(&source, archive, last, report))?;
        let token = secrets::token_of_node(&settings)?;
        ask_node(address, data, &token, last.unwrap_or(0))?
    } else {
        let files = folders::open_to_write(data)?;
        let pruned =
            with_bar(archive, |archive, report| prune(&*files, to_block, archive, report))?;
        pruned_json(&pruned)
    };
    match output {
        Output::Text => print!("{}", text(&pruned, to_block)),
        Output::Json => println!("{pruned}"),
    }
    Ok(Exit::Ok)
}

fn with_bar<T>(
    archive: Option<&Path>,
    work: impl FnOnce(Option<&Path>, backup::Report<'_>) -> Result<T>,
) -> Result<T> {
    let label = if archive.is_some() { "archiving, and pruning" } else { "pruning" };
    let step = Progress::begin(label);
    let done = work(archive, &mut |extent: &Extent| advance(&step, extent))?;
    step.end("");
    Ok(done)
}

/// Archives and prunes a folder as its only writer.
pub fn prune(
    files: &dyn Files,
    to_block: u64,
    archive: Option<&Path>,
    report: backup::Report<'_>,
) -> Result<Pruned> {
    let checkpoint = oldest_checkpoint(files)?;
    let last = closed_up_to(files, to_block.min(checkpoint))?.last().map(|segment| segment.last);
    copy_to_archive(files, archive, last, report)?;
    Ok(ledger::prune::prune(files, last.unwrap_or(0), checkpoint)?)
}

/// The last block that goes with its whole segment, if any does.
fn last_to_go(files: &dyn Files, to_block: u64) -> Result<Option<u64>> {
    let checkpoint = oldest_checkpoint(files)?;
    Ok(closed_up_to(files, to_block.min(checkpoint))?.last().map(|segment| segment.last))
}

/// Returns when the blocks up to `last` are in the archive, on stable storage, and were read back.
fn copy_to_archive(
    files: &dyn Files,
    archive: Option<&Path>,
    last: Option<u64>,
    report: backup::Report<'_>,
) -> Result<()> {
    let (Some(folder), Some(last)) = (archive, last) else {
        return Ok(());
    };
    let failed = || format!("nothing was pruned, since {} cannot be written", folder.display());
    let target = RealFiles::open(folder).with_context(failed)?;
    backup::archive(files, &target, last, report).with_context(failed)?;
    Ok(())
}

/// The oldest checkpoint that holds, of a block that no power cut takes back.
fn oldest_checkpoint(files: &dyn Files) -> Result<u64> {
    let segments = closed_up_to(files, u64::MAX)?;
    let newest_segment = match segments.last() {
        Some(last) => last.last + 1,
        None => first_block(files)?,
    };
    for height in checkpoint::heights(files)? {
        let holds = checkpoint::read_manifest(files, height).and_then(|manifest| {
            engine::checkpoint::check(files, &manifest)?;
            let durable = manifest.durable_below > height || height < newest_segment;
            Ok(durable && is_in_ledger(files, &manifest)?)
        });
        match holds {
            Ok(true) => return Ok(height),
            Err(error) if error.code() == SqlState::IO_ERROR && exists(files, height)? => {
                return Err(error.into());
            }
            Ok(false) | Err(_) => {}
        }
    }
    let hint = "Take one: tally checkpoint.";
    Err(folders::refused("there is no checkpoint that holds").with_hint(hint).into())
}

/// A checkpoint that is not there any more when it was to be read is no error.
fn exists(files: &dyn Files, height: u64) -> Result<bool> {
    Ok(checkpoint::heights(files)?.contains(&height))
}

fn is_in_ledger(files: &dyn Files, manifest: &checkpoint::Manifest) -> types::Result<bool> {
    Ok(has_header(files, &manifest.order)? && has_header(files, &manifest.result)?)
}

/// Whether a header is that of a record in the ledger, or of one that was pruned.
fn has_header<H: Header>(files: &dyn Files, header: &H) -> types::Result<bool> {
    let height = header.height();
    if height >= first_record(files, H::STREAM)? {
        let record = read_record(files, H::STREAM, height)?;
        return Ok(record.is_some_and(|record| record.hash() == header.hash()));
    }
    let pieces = ledger::headers::pieces(files, H::STREAM);
    let pieces = pieces.map_err(|error| Error::new(SqlState::IO_ERROR, error.to_string()))?;
    let Some(piece) = pieces.into_iter().rfind(|first| *first <= height) else {
        return Ok(false);
    };
    let piece = ledger::headers::read_piece::<H>(files, piece)?;
    Ok(piece.header(height) == Some(header))
}

/// Completes what a crash cut short. `checkpoint` is the height of one that holds, if any does.
pub fn complete(files: &dyn Files, checkpoint: Option<u64>) {
    match ledger::prune::complete(files, checkpoint) {
        Ok(Pruned { segments: 0, .. }) => {}
        Ok(Pruned { first_block, segments, .. }) => {
            info!(first_block, segments, "a prune that was interrupted is complete");
        }
        Err(error) => error!(%error, "an interrupted prune cannot be completed now"),
    }
}

fn ask_node(address: SocketAddr, data: &Path, token: &str, to_block: u64) -> Result<Json> {
    let name = to_hex(&secrets::random::<16>()?);
    let folder = data.join(REQUESTS);
    let path = folder.join(&name);
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&path, json!({"to_block": to_block}).to_string()))
        .with_context(|| format!("cannot ask the node by {}", path.display()))?;
    let answer = http::post(address, &format!("/prune?{name}"), token);
    // The node has removed it, if it is the one that uses this folder.
    let was_left = std::fs::remove_file(&path).is_ok();
    let answer = answer.with_context(|| format!("the node does not answer on {address}"))?;
    if was_left {
        bail!("the node on {address} uses another folder than {}", data.display());
    }
    if !answer.is_ok {
        bail!("the node pruned nothing: {}", answer.body.trim());
    }
    serde_json::from_str(&answer.body).context("the node's answer is no JSON")
}

/// Does what a file below `requests/` asks for. `None` if there is no such file.
pub fn by_request(observed: &Observed, name: &str) -> Option<Result<Pruned>> {
    let folder = observed.folder.get()?;
    let is_name = name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let path = folder.path.join(REQUESTS).join(name);
    let text = is_name.then(|| std::fs::read(&path).ok()).flatten()?;
    std::fs::remove_file(&path).ok()?;
    let to_block = serde_json::from_slice::<Json>(&text).ok()?["to_block"].as_u64()?;
    Some(by_node(observed, to_block))
}

/// Of callers that have not waited for a node which has ended.
pub fn forget_requests(data: &Path) {
    let _ = std::fs::remove_dir_all(data.join(REQUESTS));
}

fn by_node(observed: &Observed, to_block: u64) -> Result<Pruned> {
    let folder = observed.folder.get().context("the node is starting")?;
    let _alone = lock(&folder.pruning);
    let archive = folder.archive.as_deref();
    goes_on(observed)?;
    ensure!(
        !crate::cluster::is_of_member(&folder.path),
        "nothing was pruned: a member of a cluster is pruned while its node is stopped, as it may \
         be sending blocks to others"
    );
    let pruned = prune(&*folder.files, to_block, archive, &mut |_| goes_on(observed))?;
    let Pruned { first_block, segments, bytes } = pruned;
    observed.metrics.first_block.set(first_block);
    observed.metrics.pruned_bytes.add(bytes);
    info!(first_block, segments, bytes, "old blocks were pruned");
    Ok(pruned)
}

/// A node that stops does not wait for an archive, and one whose disk has failed removes nothing.
fn goes_on(observed: &Observed) -> types::Result<()> {
    let why = match observed.phase() {
        Phase::Ready => return Ok(()),
        Phase::Starting => "the node is starting",
        Phase::Stopping => "the node is stopping",
        Phase::Halted => "the node serves reads only",
    };
    Err(folders::refused(why).with_hint("Prune again when the node is ready."))
}

/// Prunes after each new checkpoint, if the settings say so, until the task is dropped.
pub async fn watch(observed: Arc<Observed>, keep_blocks: u64) {
    const POLL: Duration = Duration::from_secs(1);
    if keep_blocks == 0 {
        return;
    }
    let mut seen = None;
    loop {
        tokio::time::sleep(POLL).await;
        let Some(engine) = observed.engine() else { continue };
        let newest = engine.checkpoint_standing().height;
        let to_block = engine.head().height.checked_sub(keep_blocks);
        let (Some(to_block), true) = (to_block, newest != seen) else { continue };
        seen = newest;
        let observed = observed.clone();
        let done = tokio::task::spawn_blocking(move || by_node(&observed, to_block));
        if let Ok(Err(error)) = done.await {
            error!("old blocks stay, since they cannot be pruned: {error:#}");
        }
    }
}

pub fn pruned_json(pruned: &Pruned) -> Json {
    let Pruned { first_block, segments, bytes } = pruned;
    json!({"first_block": first_block, "segments": segments, "bytes": bytes})
}

fn text(pruned: &Json, to_block: u64) -> String {
    let number = |name: &str| pruned[name].as_u64().unwrap_or(0);
    let first = number("first_block");
    let mut text = format!(
        "first block   {first}\npruned        {} segments\nfreed         {} bytes\n",
        number("segments"),
        number("bytes"),
    );
    if first <= to_block {
        text += &format!(
            "blocks {first} to {to_block} stay: segments go as a whole, none above the oldest \
             checkpoint, and never the newest\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_not_ready_prunes_nothing() {
        let observed = Observed::default();
        let refusal = |observed: &Observed| goes_on(observed).map_err(|error| error.to_string());
        assert!(refusal(&observed).unwrap_err().contains("starting"));
        observed.enter(Phase::Ready);
        assert_eq!(refusal(&observed), Ok(()));
        observed.enter(Phase::Stopping);
        assert!(refusal(&observed).unwrap_err().contains("stopping"));
    }
}
