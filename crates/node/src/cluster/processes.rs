//! `tally cluster up`: all nodes of a folder as processes of this machine, for trying.

use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use super::folders::node_folders;
use crate::cli::Exit;

/// Until a signal comes; then all of them stop. One that ends by itself is said, and the others go
/// on.
pub fn up(folder: &Path) -> Result<Exit> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut children = Vec::new();
    for data in node_folders(folder)? {
        let child = Command::new(&program).arg("serve").arg("--data").arg(&data).spawn();
        children.push((data.clone(), child.context("cannot start a node")?));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let failed = runtime.block_on(watch(&mut children))?;
    for (_, child) in &children {
        terminate(child);
    }
    for (_, child) in &mut children {
        child.wait()?;
    }
    if failed {
        bail!("all nodes have ended");
    }
    Ok(Exit::Ok)
}

/// Whether the nodes ended without having been asked.
async fn watch(children: &mut Vec<(std::path::PathBuf, Child)>) -> Result<bool> {
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
