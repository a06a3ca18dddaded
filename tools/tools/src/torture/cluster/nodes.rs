//! The nodes of a cluster as processes of this machine.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::blows::Blow;
use crate::demo::pgbench::Target;
use crate::node_process::{run_tally, tally};
use crate::torture::mounts::Disk;
use node::CLOCK_FILE;
use node::http;

const READY_WITHIN: Duration = Duration::from_secs(120);
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
const SAME_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);
/// For clients, for probes, for other nodes.
const PORTS: u16 = 3;
/// Each of them under those that the system gives to clients by itself.
const PORTS_FROM: u16 = 20_000;
const PORTS_TO: u16 = 32_000;
/// Of a node's data folder, where it has a file system of its own.
const DISK_BYTES: u64 = 384 << 20;

/// What cannot be done to them here, and why.
#[derive(Default)]
struct Skipped {
    disks: Option<String>,
    clocks: Option<String>,
}

pub struct Nodes {
    folder: PathBuf,
    port: u16,
    children: Vec<Option<Child>>,
    /// By node, or none at all. They go when the nodes have.
    disks: Vec<Disk>,
    skipped: Skipped,
}

impl Nodes {
    pub fn start(folder: &Path, count: u16) -> Result<Nodes> {
        let port = free_ports(PORTS * count)?;
        let (text, nodes) = (text_of(folder)?, count.to_string());
        let port_text = port.to_string();
        let made = run_tally(&[
            "cluster", "init", "--folder", text, "--nodes", &nodes, "--port", &port_text,
        ])?;
        ensure!(made.success, "no cluster could be made: {}", made.output);
        let mut children = Vec::new();
        children.resize_with(count.into(), || None);
        let mut skipped = Skipped::default();
        if !cfg!(debug_assertions) {
            skipped.clocks = Some("only a debug build's clock can be set".to_owned());
        }
        let folder = folder.to_owned();
        let mut nodes = Nodes { folder, port, children, disks: Vec::new(), skipped };
        nodes.skipped.disks = nodes.mount()?;
        (0..count.into()).try_for_each(|node| nodes.launch(node))?;
        nodes.wait_until_ready()?;
        Ok(nodes)
    }

    /// Gives each folder a file system of its own, or leaves all as they are and says why.
    fn mount(&mut self) -> Result<Option<String>> {
        let made = |node: usize| self.folder.join(format!("made-{}", node + 1));
        let mut mounted = Ok(Vec::new());
        for node in 0..self.count() {
            fs::rename(self.data(node), made(node))?;
            let image = self.folder.join(format!("disk-of-node-{}", node + 1));
            if let Ok(disks) = &mut mounted {
                match Disk::mount(image, self.data(node), DISK_BYTES) {
                    Ok(disk) => disks.push(disk),
                    Err(error) => mounted = Err(error),
                }
            }
        }
        for node in 0..self.count() {
            copy_contents(&made(node), &self.data(node))?;
            fs::remove_dir_all(made(node))?;
        }
        match mounted {
            Ok(disks) => self.disks = disks,
            Err(error) => return Ok(Some(format!("no disk can be mounted: {error:#}"))),
        }
        Ok(None)
    }

    /// Takes all the room on a node's disk, or gives it back.
    pub fn fill(&self, node: usize, full: bool) -> Result<()> {
        self.disks[node].fill(full)
    }

    /// Whether a node says that its disk is full.
    pub fn says_full(&self, node: usize) -> bool {
        let probed = http::get(http_address(self.port, node), "/readyz", Some(ANSWER_WITHIN));
        probed.is_ok_and(|it| !it.is_ok && it.body.contains("disk is full"))
    }

    fn clock_file(&self, node: usize) -> PathBuf {
        self.folder.join(format!("clock-of-node-{}", node + 1))
    }

    /// By so many seconds a node's clock is ahead of this machine's from now on.
    pub fn set_clock(&self, node: usize, ahead_s: i64) -> Result<()> {
        // At once: half of a number would be another time.
        let made = self.folder.join("clock");
        fs::write(&made, ahead_s.to_string())?;
        Ok(fs::rename(made, self.clock_file(node))?)
    }

    /// Why a blow cannot be struck here.
    pub fn skipped(&self, blow: Blow) -> Option<String> {
        match blow {
            _ if blow.fills() => self.skipped.disks.clone(),
            _ if blow.clock_s().is_some() => self.skipped.clocks.clone(),
            _ => None,
        }
    }

    pub fn count(&self) -> usize {
        self.children.len()
    }

    pub fn target(&self, node: usize) -> Target {
        Target::local(self.port + PORTS * node as u16)
    }

    fn data(&self, node: usize) -> PathBuf {
        self.folder.join(format!("node-{}", node + 1))
    }

    pub fn launch(&mut self, node: usize) -> Result<()> {
        let path = self.folder.join(format!("node-{}.log", node + 1));
        let log = File::options().create(true).append(true).open(path)?;
        let mut child = tally()?;
        child.arg("serve").arg("--data").arg(self.data(node));
        child.env(CLOCK_FILE, self.clock_file(node));
        let child = child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        self.children[node] = Some(child.context("cannot start a node")?);
        Ok(())
    }

    /// SIGKILL.
    pub fn kill(&mut self, node: usize) -> Result<()> {
        if let Some(mut child) = self.children[node].take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    fn copy_of(&self, node: usize) -> PathBuf {
        self.folder.join(format!("copy-of-node-{}", node + 1))
    }

    /// Keeps a copy of the folder of a node that runs, of one moment.
    pub fn copy(&mut self, node: usize) -> Result<()> {
        let (from, to) = (self.data(node), self.copy_of(node));
        if to.exists() {
            fs::remove_dir_all(&to)?;
        }
        fs::create_dir(&to)?;
        self.freeze(node)?;
        let copied = copy_contents(&from, &to);
        self.thaw(node)?;
        copied
    }

    /// Puts the copy in the place of the folder of a node that does not run.
    pub fn put_back(&self, node: usize) -> Result<()> {
        clear(&self.data(node), |_| false)?;
        copy_contents(&self.copy_of(node), &self.data(node))
    }

    /// Removes all but keys and settings of a node that does not run.
    pub fn empty(&self, node: usize) -> Result<()> {
        clear(&self.data(node), |name| matches!(name, "cluster" | "tally.toml"))
    }

    pub fn freeze(&self, node: usize) -> Result<()> {
        self.signal(node, Signal::STOP)
    }

    pub fn thaw(&self, node: usize) -> Result<()> {
        self.signal(node, Signal::CONT)
    }

    fn signal(&self, node: usize, signal: Signal) -> Result<()> {
        if let Some(child) = &self.children[node] {
            kill_process(Pid::from_child(child), signal)?;
        }
        Ok(())
    }

    /// All that run.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let began = Instant::now();
        for node in 0..self.count() {
            let Some(child) = &mut self.children[node] else { continue };
            let address = http_address(self.port, node);
            while !http::get(address, "/readyz", Some(ANSWER_WITHIN)).is_ok_and(|it| it.is_ok) {
                if let Some(status) = child.try_wait()? {
                    bail!("node {} ended by itself: {status}", node + 1);
                }
                ensure!(began.elapsed() < READY_WITHIN, "node {} is not ready", node + 1);
                std::thread::sleep(POLL);
            }
        }
        Ok(())
    }

    fn status(&self) -> Result<serde_json::Value> {
        let folder = text_of(&self.folder)?;
        Ok(run_tally(&["--output", "json", "cluster", "status", "--folder", folder])?.json)
    }

    /// The one that leads.
    pub fn leader(&self) -> Result<usize> {
        let began = Instant::now();
        while began.elapsed() < SAME_WITHIN {
            if let Some(id) = self.status()?["leader"].as_u64() {
                return Ok(id as usize - 1);
            }
            std::thread::sleep(POLL);
        }
        bail!("no node leads")
    }

    /// Until all have come to the same: height and head.
    pub fn agree(&self) -> Result<(u64, String)> {
        let began = Instant::now();
        loop {
            let status = self.status()?;
            let members = status["members"].as_array().cloned().unwrap_or_default();
            let first = members.first().map(|member| member["head"].clone());
            let same = members.iter().all(|it| Some(&it["head"]) == first.as_ref());
            if let (true, Some(head)) = (same, first.as_ref().and_then(|head| head.as_str())) {
                return Ok((members[0]["height"].as_u64().unwrap_or(0), head.to_owned()));
            }
            ensure!(began.elapsed() < SAME_WITHIN, "the nodes do not come to the same: {status}");
            std::thread::sleep(POLL);
        }
    }

    /// SIGTERM of all, each of which has to end well.
    pub fn stop(&mut self) -> Result<()> {
        for node in 0..self.count() {
            self.signal(node, Signal::TERM)?;
        }
        for (node, child) in self.children.iter_mut().enumerate() {
            if let Some(mut child) = child.take() {
                let status = child.wait()?;
                ensure!(status.success(), "node {} did not stop cleanly: {status}", node + 1);
            }
        }
        Ok(())
    }

    /// The head that an execution of the folder gives.
    pub fn verify(&self, node: usize) -> Result<String> {
        let found = run_tally(&["--output", "json", "verify", text_of(&self.data(node))?])?;
        ensure!(found.success, "verify of node {}: {}", node + 1, found.output);
        let head = found.json["head"].as_str();
        head.map(str::to_owned).context("verify names no head")
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for mut child in self.children.iter_mut().filter_map(Option::take) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn http_address(port: u16, node: usize) -> SocketAddr {
    ([127, 0, 0, 1], port + PORTS * node as u16 + 1).into()
}

/// Into a folder that is there, which may be another file system's.
fn copy_contents(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status()?;
    ensure!(copied.success(), "{} cannot be copied", from.display());
    Ok(())
}

/// The folder stays: it may be where a file system is mounted.
fn clear(folder: &Path, stays: impl Fn(&str) -> bool) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match path.is_dir() {
            _ if stays(name) => {}
            true => fs::remove_dir_all(&path)?,
            false => fs::remove_file(&path)?,
        }
    }
    Ok(())
}

fn text_of(path: &Path) -> Result<&str> {
    path.to_str().context("the folder's name is not UTF-8")
}

/// The first of so many in a row that are free.
fn free_ports(count: u16) -> Result<u16> {
    let from = PORTS_FROM + (std::process::id() % 9_000) as u16;
    let free = |port: &u16| {
        let bound: Vec<_> =
            (*port..port + count).map(|it| TcpListener::bind(("127.0.0.1", it))).collect();
        bound.iter().all(Result::is_ok)
    };
    let found = (from..PORTS_TO).step_by(count.into()).find(free);
    found.context("no ports are free")
}
