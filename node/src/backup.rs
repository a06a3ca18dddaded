//! `tally backup`: a copy of the ledger that grows with it.
//!
//! This process copies, beside the node if one is running: it asks the node, on its second port,
//! which block is durable, and reads the files up to there. The node writes on and keeps nothing
//! for it; where a checkpoint or a segment goes meanwhile, the copy looks again
//! ([`ledger::backup`]).

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use ledger::backup::{self, Extent, Head, Taken};
use ledger::hash::{hash_from_hex, to_hex};
use ledger::{BlockReader, Files, LogError, RealFiles, Recorded, first_block, read_block};
use serde_json::{Value as Json, json};
use types::SqlState;
use types::printable::printable;

use crate::cli::{self, Exit, Output};
use crate::config::Settings;
use crate::configure;
use crate::databases::folders::folder_of;
use crate::folders;
use crate::http;
use crate::progress::Progress;

pub fn run(arguments: &cli::Backup, output: Output) -> Result<Exit> {
    match (&arguments.verify, &arguments.to) {
        (Some(folder), _) => verify(folder, output),
        (None, Some(to)) => {
            let mut settings = configure::resolve(&arguments.node.settings())?.settings;
            if let Some(database) = &arguments.database {
                settings.data = folder_of(&settings.data, database)?;
            }
            take(&settings, to, output)
        }
        (None, None) => bail!("--to or --verify is needed"),
    }
}

fn take(settings: &Settings, to: &Path, output: Output) -> Result<Exit> {
    let data = &settings.data;
    ensure!(data.is_dir(), "there is no folder {}", data.display());
    let taken = if folders::is_in_use(data)? {
        let address = node_address(settings)?;
        let source: Arc<dyn Files> = Arc::new(RealFiles::beside(data)?);
        copy(&*source, to, &mut || head_of_node(address, &source))
    } else {
        let source = folders::open(data)?;
        let head = head_of_files(&source)?;
        copy(&*source, to, &mut || Ok(head))
    };
    let taken = taken.with_context(|| format!("no backup to {}", to.display()))?;
    match output {
        Output::Text => print!("{}", text(&taken)),
        Output::Json => println!("{}", taken_json(&taken)),
    }
    Ok(Exit::Ok)
}

fn copy(
    source: &dyn Files,
    to: &Path,
    head: &mut dyn FnMut() -> types::Result<Head>,
) -> Result<Taken> {
    let target = RealFiles::open(to)?;
    let step = Progress::begin("copying what is new");
    let taken = backup::take(source, &target, head, &mut |extent| advance(&step, extent))?;
    step.end(&format!("{} bytes", taken.extent.bytes_copied));
    Ok(taken)
}

pub fn advance(step: &Progress, extent: &Extent) -> types::Result<()> {
    let done = extent.bytes_checked + extent.bytes_copied;
    step.advance(done as f64 / extent.bytes_total.max(1) as f64);
    step.note(&format!("{} MB copied", extent.bytes_copied >> 20));
    Ok(())
}

/// Where the node that uses a folder answers.
pub fn node_address(settings: &Settings) -> Result<SocketAddr> {
    settings
        .http_listen
        .filter(|address| address.port() != 0)
        .context("a node is running, and its `http_listen` is not known: give --http-listen")
}

/// The newest block that the node has on disk. It may be another folder's node.
fn head_of_node(address: SocketAddr, source: &Arc<dyn Files>) -> types::Result<Head> {
    let failed = |what: String| {
        let hint = "Somebody uses the folder: is it a node, and is --http-listen its second port?";
        folders::refused(what).with_hint(hint)
    };
    let mut reader = BlockReader::open(Arc::clone(source))?;
    // Which ledger it is says its first block.
    _ = reader.next();
    let ledger = reader.ledger_id().map(|id| to_hex(&id)).unwrap_or_default();
    let answer = http::get(address, &format!("/head?ledger={ledger}"), None)
        .map_err(|error| failed(format!("no node answers on {address}: {error}")))?;
    let node: Json = serde_json::from_str(&answer.body).unwrap_or_default();
    let hash = node["head"].as_str().map(hash_from_hex);
    let (Some(height), Some(Ok(hash))) = (node["height"].as_u64(), hash) else {
        return Err(failed(format!("the node on {address} says: {}", answer.body.trim())));
    };
    match head_at(source, height)? {
        Some(head) if head.hash == hash => Ok(head),
        _ => Err(failed(format!("the node on {address} has another ledger"))),
    }
}

/// A block whose order and result are in the files; or the last one that was pruned.
fn head_at(files: &Arc<dyn Files>, height: u64) -> types::Result<Option<Head>> {
    if height < first_block(&**files)? {
        let reader = BlockReader::open(Arc::clone(files))?;
        let pruned = reader.pruned().filter(|last| last.order.height == height);
        return Ok(pruned.map(|last| Head {
            height,
            hash: last.result.hash(),
            order_hash: last.order.hash(),
        }));
    }
    let Some(Recorded { batch, result: Some(result) }) = read_block(&**files, height)? else {
        return Ok(None);
    };
    Ok(Some(Head { height, hash: result.hash(), order_hash: batch.hash() }))
}

/// The last whole block of a folder that no node runs on. What a killed node wrote may be in the
/// page cache alone: it is synced first.
fn head_of_files(files: &Arc<dyn Files>) -> Result<Head> {
    let mut reader = BlockReader::open_at(Arc::clone(files), u64::MAX)?;
    let torn = loop {
        match reader.next() {
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(LogError::TornTail(tail)) => break Some(tail),
            Err(error) => return Err(error.into()),
        }
    };
    folders::tell_end(&**files, reader.next_height(), torn.as_ref())?;
    let height = reader.next_height().checked_sub(1).context("the folder holds no ledger")?;
    refuse_without_results(&reader)?;
    if let Some((path, _)) = reader.end() {
        files.open(path)?.sync()?;
    }
    head_at(files, height)?.context("the ledger ends before its end")
}

/// Blocks that were acknowledged would not be in the backup.
fn refuse_without_results(reader: &BlockReader) -> Result<()> {
    let (first, end) = (reader.next_result(), reader.next_height());
    if first >= end {
        return Ok(());
    }
    let what = format!("the results of blocks {first} to {} are not on disk", end - 1);
    let hint = "Executing the blocks again gives them: tally checkpoint, or start the node.";
    Err(folders::refused(what).with_hint(hint).into())
}

fn verify(folder: &Path, output: Output) -> Result<Exit> {
    let files = RealFiles::read_only(folder)?;
    ensure!(backup::is_backup(&files)?, "{} is no backup", folder.display());
    let step = Progress::begin("comparing digests");
    let verified = match backup::verify(&files, &mut |extent| advance(&step, extent)) {
        Err(error) if error.code() == SqlState::DATA_CORRUPTED => {
            eprintln!("tally: {error}");
            return Ok(Exit::Damaged);
        }
        verified => verified?,
    };
    step.end("every byte is as it was written");
    let Head { height, hash, .. } = verified.manifest.head;
    let (files, bytes) = (verified.manifest.entries.len(), verified.bytes);
    let first = verified.manifest.first_block();
    match output {
        Output::Text => {
            for name in &verified.unfinished {
                let name = printable(name);
                println!("unfinished    {name}: an interrupted run; the backup before it counts");
            }
            println!(
                "height        {height}\nhead          {}\nfirst block   {first}\n\
                 files         {files}\nbytes         {bytes}",
                to_hex(&hash)
            );
        }
        Output::Json => println!(
            "{}",
            json!({
                "height": height, "head": to_hex(&hash), "first_block": first,
                "files": files, "bytes": bytes, "unfinished": verified.unfinished,
            })
        ),
    }
    Ok(Exit::Ok)
}

fn taken_json(taken: &Taken) -> Json {
    let Taken { head, first_block, checkpoints, files, bytes, extent } = taken;
    json!({
        "height": head.height,
        "head": to_hex(&head.hash),
        "first_block": first_block,
        "checkpoints": checkpoints,
        "files": files,
        "bytes": bytes,
        "bytes_copied": extent.bytes_copied,
        "bytes_checked": extent.bytes_checked,
        "files_repaired": extent.files_repaired,
        "begun_again": extent.begun_again,
    })
}

fn text(taken: &Taken) -> String {
    let Taken { head, first_block, checkpoints, files, bytes, extent } = taken;
    let checkpoints: Vec<String> = checkpoints.iter().map(u64::to_string).collect();
    let mut text = format!(
        "height        {}\nhead          {}\nfirst block   {first_block}\ncheckpoints   {}\n\
         files         {files}, {bytes} bytes\ncopied        {} bytes\nchecked       {} bytes\n",
        head.height,
        to_hex(&head.hash),
        checkpoints.join(", "),
        extent.bytes_copied,
        extent.bytes_checked,
    );
    if extent.files_repaired > 0 {
        text += &format!("repaired      {} files that were damaged\n", extent.files_repaired);
    }
    text
}
