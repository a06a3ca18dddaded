//! The node under test: the program `tally` that lies beside this one, as a child process.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use crate::demo::pgbench::Target;
use node::config::Settings;
use node::http::{self, Answer};
use node::memory::{self, Resident};
use node::secrets;

const ANSWER_WITHIN: Duration = Duration::from_secs(5);
const READY_WITHIN: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(5);

pub struct NodeProcess {
    child: Child,
    folder: PathBuf,
    http_port: u16,
    settings: Vec<String>,
    pub target: Target,
}

/// How far the ledger has come.
pub struct LedgerSize {
    pub blocks: u64,
    pub bytes: u64,
}

impl NodeProcess {
    /// Starts a node on two free ports and waits until it is ready.
    pub fn start(folder: &Path) -> Result<NodeProcess> {
        NodeProcess::start_with(folder, &[])
    }

    /// With settings, each as `--set` takes them.
    pub fn start_with(folder: &Path, settings: &[&str]) -> Result<NodeProcess> {
        let (port, http_port) = (free_port()?, free_port()?);
        let mut node = NodeProcess {
            child: spawn(folder, port, http_port, settings)?,
            settings: settings.iter().map(|setting| setting.to_string()).collect(),
            folder: folder.to_owned(),
            http_port,
            target: Target::local(port),
        };
        node.wait_until_ready()?;
        Ok(node)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn data_folder(folder: &Path) -> PathBuf {
        folder.join("data")
    }

    pub fn http_address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.http_port).into()
    }

    /// SIGKILL: the node learns nothing of it.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts it again on the same folder and ports.
    pub fn restart(&mut self) -> Result<()> {
        self.launch()?;
        self.wait_until_ready()
    }

    /// Starts it again, and does not wait until it has recovered.
    pub fn launch(&mut self) -> Result<()> {
        self.child = spawn(&self.folder, self.target.port, self.http_port, &self.settings)?;
        Ok(())
    }

    /// SIGTERM, without waiting for the end.
    pub fn terminate(&self) -> Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        Ok(())
    }

    /// SIGTERM, and the exit code must be 0.
    pub fn stop(mut self) -> Result<()> {
        self.stop_again()
    }

    /// The same for a node that is to be started again.
    pub fn stop_again(&mut self) -> Result<()> {
        self.terminate()?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the node did not stop cleanly: {status}\n{}", self.log_tail());
        }
        Ok(())
    }

    /// Blocks by the node's own metrics, bytes by the file system.
    pub fn ledger(&self) -> Result<LedgerSize> {
        let page = self.fetch("/metrics")?;
        let blocks = page
            .body
            .lines()
            .find_map(|line| line.strip_prefix("tally_blocks_total "))
            .and_then(|text| text.parse().ok())
            .context("/metrics has no tally_blocks_total")?;
        Ok(LedgerSize { blocks, bytes: folder_bytes(&Self::data_folder(&self.folder))? })
    }

    pub fn resident(&self) -> Result<Resident> {
        memory::resident_of(self.child.id()).context("the node's memory cannot be read")
    }

    fn fetch(&self, path: &str) -> Result<Answer> {
        Ok(http::get(self.http_address(), path, Some(ANSWER_WITHIN))?)
    }

    /// Has the node change something.
    pub fn post(&self, path: &str) -> Result<Answer> {
        let data = Self::data_folder(&self.folder);
        let settings = Settings { data, ..Settings::defaults().map_err(|fault| anyhow!(fault))? };
        Ok(http::post(self.http_address(), path, &secrets::token_of_node(&settings)?)?)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let began = Instant::now();
        loop {
            if self.fetch("/readyz").is_ok_and(|answer| answer.is_ok) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the node ended ({status}):\n{}", self.log_tail());
            }
            if began.elapsed() > READY_WITHIN {
                bail!("the node is not ready after {READY_WITHIN:?}:\n{}", self.log_tail());
            }
            std::thread::sleep(POLL);
        }
    }

    fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(self.folder.join("node.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(folder: &Path, port: u16, http_port: u16, settings: &[impl AsRef<str>]) -> Result<Child> {
    let log_path = folder.join("node.log");
    let log = File::options().create(true).append(true).open(log_path)?;
    tally()?
        .arg("serve")
        .arg("--data")
        .arg(NodeProcess::data_folder(folder))
        .arg(format!("--listen=127.0.0.1:{port}"))
        .arg(format!("--http-listen=127.0.0.1:{http_port}"))
        .args(settings.iter().flat_map(|setting| ["--set", setting.as_ref()]))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .context("cannot start the node")
}

/// The program under test, with none of the settings that the caller's environment may hold.
pub fn tally() -> Result<Command> {
    let mut command = Command::new(program()?);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TALLY_") {
            command.env_remove(name);
        }
    }
    Ok(command)
}

fn program() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    // Cargo puts the programs of tests a folder deeper.
    let folder = own.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    let path = folder.unwrap_or(Path::new("")).join(node::PROGRAM);
    if !path.is_file() {
        let what = format!("there is no {}, the program that tools are for", path.display());
        let hint = "Build it in the same target folder: cargo build --package node.";
        return Err(node::folders::refused(what).with_hint(hint).into());
    }
    Ok(path)
}

/// What a run of `tally` gave.
pub struct Finished {
    pub success: bool,
    /// None if a signal ended it.
    pub code: Option<i32>,
    /// Standard output, or standard error if there is none.
    pub output: String,
    /// The output, if it is JSON.
    pub json: serde_json::Value,
}

pub fn run_tally(arguments: &[&str]) -> Result<Finished> {
    let done = tally()?.args(arguments).output()?;
    let text = if done.stdout.is_empty() { &done.stderr } else { &done.stdout };
    let output = String::from_utf8_lossy(text).trim().to_owned();
    Ok(Finished {
        success: done.status.success(),
        code: done.status.code(),
        json: serde_json::from_str(&output).unwrap_or_default(),
        output,
    })
}

/// Starts a command of `tally` that says nothing, and does not wait for it.
pub fn spawn_tally(arguments: &[&str]) -> Result<Child> {
    let mut command = tally()?;
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("cannot start `tally`")
}

/// As an argument of `tally`.
pub fn path(path: &Path) -> Result<&str> {
    path.to_str().context("the temporary folder's name is not UTF-8")
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { folder_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}
