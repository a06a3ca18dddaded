//! Real disks: one that is full, and one that its kernel has made read-only, under a node with
//! clients of PostgreSQL's protocol.
//!
//! A small ext4 in a file, mounted by a loop device, is filled up and emptied again, and aborted as
//! the kernel does with a file system whose device fails. That needs root and the tools; where they
//! are missing it is skipped, and said so.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use tokio::runtime::Runtime;
use tokio_postgres::Client;
use tokio_postgres::error::DbError;

use super::kills::{start_node, verify};
use crate::node_process::NodeProcess;
use node::cli::Exit;
use node::http;

const DISK_BYTES: u64 = 24 << 20;
const SEGMENT_BYTES: u64 = 1 << 20;
const NOTE_BYTES: usize = 60_000;
/// More of them than the disk holds.
const NOTES_MAX: i64 = 1_000;

#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Why nothing was mounted.
    pub skipped: Option<String>,
    pub full_disks: u64,
    pub failed_checkpoints: u64,
    pub read_only_disks: u64,
    /// Transactions that were answered before a disk failed, and found again.
    pub kept: u64,
}

impl Report {
    pub fn summary(&self) -> String {
        let Report { skipped, full_disks, failed_checkpoints, read_only_disks, kept } = self;
        match skipped {
            Some(why) => format!("skipped: {why}"),
            None => format!(
                "{full_disks} full, {failed_checkpoints} too full for a checkpoint, \
                 {read_only_disks} read-only; {kept} rows kept"
            ),
        }
    }
}

pub fn run(folder: &Path, report: &mut Report) -> Result<()> {
    let runtime = Runtime::new()?;
    for (name, is_full) in [("full", true), ("read-only", false)] {
        let folder = folder.join(name);
        let data = NodeProcess::data_folder(&folder);
        let disk = match Disk::mount(folder.join("disk"), data, DISK_BYTES) {
            Ok(disk) => disk,
            Err(error) => {
                report.skipped = Some(format!("no disk can be mounted: {error:#}"));
                return Ok(());
            }
        };
        let outcome = match is_full {
            true => runtime.block_on(full(&disk, &folder, report)),
            false => runtime.block_on(read_only(&disk, &folder, report)),
        };
        outcome.with_context(|| format!("on a {name} disk"))?;
    }
    Ok(())
}

/// A file system for a node's data folder alone; its log lies elsewhere.
pub struct Disk {
    image: PathBuf,
    mounted: PathBuf,
}

impl Disk {
    pub fn mount(image: PathBuf, mounted: PathBuf, bytes: u64) -> Result<Disk> {
        ensure!(rustix::process::geteuid().is_root(), "only root may");
        std::fs::create_dir_all(&mounted)?;
        File::create(&image)?.set_len(bytes)?;
        command("mkfs.ext4", &["-q", "-F", "-m", "0"], &[&image])?;
        command("mount", &["-o", "loop"], &[&image, &mounted])?;
        Ok(Disk { image, mounted })
    }

    /// As the kernel does when the device fails.
    fn abort(&self) -> Result<()> {
        command("mount", &["-o", "remount,abort"], &[&self.mounted])
    }

    /// Off and on again, as after a restart of the machine.
    fn restart(&self) -> Result<()> {
        command("umount", &[], &[&self.mounted])?;
        command("mount", &["-o", "loop"], &[&self.image, &self.mounted])
    }

    /// Takes all the room that is left, or gives it back.
    pub fn fill(&self, full: bool) -> Result<()> {
        let ballast = self.mounted.join("ballast");
        if !full {
            return Ok(std::fs::remove_file(ballast)?);
        }
        let mut file = File::create(ballast)?;
        let filled = std::io::copy(&mut std::io::repeat(0x55), &mut file);
        ensure!(filled.is_err_and(|e| e.kind() == std::io::ErrorKind::StorageFull), "not full");
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = command("umount", &[], &[&self.mounted]);
    }
}

fn command(name: &str, options: &[&str], paths: &[&Path]) -> Result<()> {
    let done = Command::new(name).args(options).args(paths).output();
    let done = done.with_context(|| format!("cannot run {name}"))?;
    if !done.status.success() {
        bail!("{name}: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(())
}

async fn insert(client: &Client, id: i64, bytes: usize) -> Result<u64, tokio_postgres::Error> {
    let note = "x".repeat(bytes);
    client.execute("INSERT INTO notes VALUES ($1, $2)", &[&id, &note]).await
}

async fn count(client: &Client) -> Result<i64> {
    Ok(client.query_one("SELECT count(*) FROM notes", &[]).await?.try_get(0)?)
}

/// Inserts until the disk has had enough. Returns how many were answered, and what was said then.
async fn insert_until_refused(client: &Client, first: i64) -> Result<(i64, DbError)> {
    for id in first..NOTES_MAX {
        if let Err(error) = insert(client, id, NOTE_BYTES).await {
            let said = error.as_db_error().context("the connection was lost")?.clone();
            return Ok((id, said));
        }
    }
    bail!("the disk takes everything")
}

/// Reads go on, writes are told why not, and probes and metrics show it.
async fn serves_reads(node: &NodeProcess, client: &Client, notes: i64) -> Result<()> {
    for client in [client, &node.target.connect().await?] {
        ensure!(count(client).await? == notes, "{} rows of {notes} are read", count(client).await?);
        client.batch_execute("BEGIN; SELECT count(*) FROM notes; COMMIT").await?;
        let refused = insert(client, -1, 1).await.err().context("a write was taken")?;
        let said = refused.as_db_error().context("the connection was lost")?;
        ensure!(said.code().code() == "25006", "a later write is told {said:?}");
        ensure!(said.hint().is_some_and(|hint| hint.contains("restart")), "{said:?}");
    }
    let probe = http::get(node.http_address(), "/readyz", None)?;
    ensure!(!probe.is_ok && probe.body.contains("reads only"), "/readyz: {}", probe.body);
    let metrics = http::get(node.http_address(), "/metrics", None)?;
    ensure!(metrics.body.contains("tally_read_only 1"), "/metrics does not show it");
    Ok(())
}

/// A sound disk again: nothing that was answered is missing, and what comes next is taken.
async fn goes_on(folder: &Path, node: &mut NodeProcess, notes: i64) -> Result<()> {
    node.restart()?;
    let client = node.target.connect().await?;
    let found = count(&client).await?;
    // The one that failed may have reached the disk.
    ensure!((notes..=notes + 1).contains(&found), "{found} rows of {notes} are there");
    insert(&client, NOTES_MAX, 1).await?;
    node.stop_again()?;
    let verified = verify(&NodeProcess::data_folder(folder))?;
    ensure!(verified.code == Some(Exit::Ok as i32), "verify: {}", verified.output);
    Ok(())
}

async fn full(disk: &Disk, folder: &Path, report: &mut Report) -> Result<()> {
    let mut node = start_node(folder, SEGMENT_BYTES, "")?;
    let client = node.target.connect().await?;
    client.batch_execute("CREATE TABLE notes (id bigint PRIMARY KEY, note text)").await?;
    for id in 0..10 {
        insert(&client, id, NOTE_BYTES).await?;
    }
    // The log has room of its own already, a checkpoint has not.
    disk.fill(true)?;
    let asked = node.post("/checkpoint")?;
    ensure!(!asked.is_ok && asked.body.contains("53100"), "a checkpoint: {}", asked.body);
    let metrics = http::get(node.http_address(), "/metrics", None)?;
    ensure!(metrics.body.contains("tally_checkpoint_failures_total 1"), "it is not counted");
    let standing = http::get(node.http_address(), "/checkpoint", None)?;
    ensure!(standing.body.contains("53100"), "/checkpoint: {}", standing.body);
    insert(&client, 10, 10).await.context("a checkpoint's failure stopped writes")?;
    report.failed_checkpoints += 1;

    client.batch_execute("SET tally.commit_timeout = '2s'").await?;
    let (notes, said) = insert_until_refused(&client, 11).await?;
    ensure!(said.code().code() == "08007", "the write that found no room is told {said:?}");
    ensure!(said.detail().is_some() && said.hint().is_some(), "{said:?}");
    let next = insert(&client, NOTES_MAX - 1, 1).await.err().context("a write on a full disk")?;
    let is_reported = next.as_db_error().is_some_and(|it| it.message().contains("disk is full"));
    ensure!(is_reported, "{next:?}");
    ensure!(count(&client).await? == notes, "reads do not go on");
    let probed = http::get(node.http_address(), "/readyz", None)?;
    ensure!(!probed.is_ok && probed.body.contains("disk is full"), "/readyz: {}", probed.body);
    disk.fill(false)?;
    // Without a restart; the one that waited is written then.
    for waited in 0.. {
        match insert(&client, NOTES_MAX - 1, 1).await {
            Ok(_) => break,
            Err(error) if waited == 100 => return Err(error).context("there is room"),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    client.batch_execute(&format!("DELETE FROM notes WHERE id = {}", NOTES_MAX - 1)).await?;
    drop(client);
    node.kill()?;
    goes_on(folder, &mut node, notes).await?;
    report.full_disks += 1;
    report.kept += notes as u64;
    Ok(())
}

async fn read_only(disk: &Disk, folder: &Path, report: &mut Report) -> Result<()> {
    let mut node = start_node(folder, SEGMENT_BYTES, "")?;
    let client = node.target.connect().await?;
    client.batch_execute("CREATE TABLE notes (id bigint PRIMARY KEY, note text)").await?;
    for id in 0..5 {
        insert(&client, id, NOTE_BYTES).await?;
    }
    disk.abort()?;
    let (notes, said) = insert_until_refused(&client, 5).await?;
    // The write that failed may have been one of the node's own; the next is told what it met.
    let is_own = said.code().code() == "58030";
    let is_after =
        said.code().code() == "25006" && said.detail().is_some_and(|it| it.contains("58030"));
    ensure!(is_own || is_after, "the write that failed is told {said:?}");
    serves_reads(&node, &client, notes).await?;
    drop(client);
    node.kill()?;
    // A disk that stays so is refused at the start, and the reason is said.
    let refused = node.restart().err().context("a node starts on a read-only disk")?;
    ensure!(format!("{refused:#}").contains("Read-only"), "{refused:#}");
    disk.restart()?;
    goes_on(folder, &mut node, notes).await?;
    report.read_only_disks += 1;
    report.kept += notes as u64;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_what_was_skipped() {
        let report = Report { skipped: Some("only root may".to_owned()), ..Report::default() };
        assert_eq!(report.summary(), "skipped: only root may");
    }
}
