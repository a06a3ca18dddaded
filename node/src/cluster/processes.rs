//! `tally cluster up`: all nodes of a folder as processes of this machine, for trying.

use std::fmt::Arguments;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cluster::Plan;
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use super::folders::{node_folder, node_folders};
use crate::cli::Exit;
use crate::output::{put_error, put_or_leave};

/// Of one line that a node says.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Until a signal comes; then all of them stop. One that ends by itself is said, and the others go
/// on.
pub fn up(folder: &Path) -> Result<Exit> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let (mut children, mut passing) = (Vec::new(), Vec::new());
    let folders = node_folders(folder)?;
    check(&folders)?;
    for data in folders {
        let mut command = Command::new(&program);
        command.arg("serve").arg("--data").arg(&data).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.context("cannot start a node")?;
        let name = data.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        if let Some(lines) = child.stdout.take() {
            passing.push(pass_on(name.clone(), lines, |text| put_or_leave(text))?);
        }
        if let Some(lines) = child.stderr.take() {
            passing.push(pass_on(name, lines, |text| put_error(text, true))?);
        }
        children.push((data.clone(), child));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let failed = runtime.block_on(watch(&mut children))?;
    for (_, child) in &children {
        terminate(child);
    }
    for (_, child) in &mut children {
        child.wait()?;
    }
    // The last words of a node say why it ended.
    for passing in passing {
        let _ = passing.join();
    }
    if failed {
        bail!("all nodes have ended");
    }
    Ok(Exit::Ok)
}

/// Each folder is that of the member of its name, in one cluster: one that was put in the place of
/// another would start, and take part as what it is.
fn check(folders: &[PathBuf]) -> Result<()> {
    let mut ledger = None;
    for data in folders {
        let Some((plan, secrets)) = Plan::read(data)? else {
            bail!("{} is in no cluster", data.display());
        };
        let (id, shown) = (secrets.id, data.display());
        let ours = ledger.get_or_insert_with(|| plan.ledger_id.clone());
        ensure!(plan.ledger_id == *ours, "{shown} is of another cluster: {}", plan.ledger_id);
        let number = u16::try_from(id).map(|id| node_folder(Path::new(""), id));
        let is_own = number.is_ok_and(|name| data.file_name() == Some(name.as_os_str()));
        ensure!(is_own, "{shown} holds the node of member {id}: it lies in another's place");
    }
    Ok(())
}

/// What a node says, each line under its name, until it ends.
fn pass_on(
    name: String,
    lines: impl Read + Send + 'static,
    put: impl Fn(Arguments<'_>) + Send + 'static,
) -> Result<JoinHandle<()>> {
    let passing = move || {
        let mut lines = BufReader::new(lines);
        let mut line = Vec::new();
        loop {
            line.clear();
            // One without an end is cut, not gathered.
            let read = lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) {
                return;
            }
            put(format_args!("{name}  {}", String::from_utf8_lossy(&line).trim_end()));
        }
    };
    Ok(std::thread::Builder::new().name("lines".into()).spawn(passing)?)
}

/// Whether the nodes ended without having been asked.
async fn watch(children: &mut Vec<(PathBuf, Child)>) -> Result<bool> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    while !children.is_empty() {
        tokio::select! {
            _ = terminate.recv() => return Ok(false),
            _ = interrupt.recv() => return Ok(false),
            () = tokio::time::sleep(Duration::from_millis(200)) => {}
        }
        children.retain_mut(|(data, child)| match child.try_wait() {
            Ok(Some(status)) => {
                eprintln!("tally: the node of {} has ended: {status}", data.display());
                false
            }
            _ => true,
        });
    }
    Ok(true)
}

fn terminate(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, Signal::TERM);
    }
}
