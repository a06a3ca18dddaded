//! Organisations of a chain as processes of `tally chainify run`, and what they say.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bench::over_databases::ChainLoad;
use kit::sync::lock;
use serde_json::Value;

use super::{processor, transactions};
use crate::node_process::{path, run_tally, tally};

const READY_WITHIN: Duration = Duration::from_secs(60);

/// A line, who said it from 1 on, and when.
pub type Line = (Instant, usize, String);

pub struct Organisations {
    folder: PathBuf,
    running: Vec<Child>,
    said: Arc<Mutex<Vec<Line>>>,
}

impl Drop for Organisations {
    fn drop(&mut self) {
        self.stop();
    }
}

/// `tally chainify …`, which must succeed.
pub fn chainify(arguments: &[&str]) -> Result<Value> {
    let all = [&["--output", "json", "chainify"], arguments].concat();
    let done = run_tally(&all)?;
    if !done.success {
        bail!("tally chainify {}: {}", arguments.first().unwrap_or(&""), done.output);
    }
    Ok(done.json)
}

/// Puts digest tables and triggers into databases.
pub fn chain(folder: &Path, urls: &[String], votes: usize, load: &ChainLoad) -> Result<()> {
    let (tables, votes) = (transactions::TABLES.join(","), votes.to_string());
    let listen = format!("127.0.0.1:{}", ports(urls.len())?);
    let blocks = load.checkpoint_blocks.to_string();
    let policies = transactions::TABLES.map(|table| format!("{table}=all"));
    let mut arguments = vec!["init", "--folder", path(folder)?, "--tables", &tables];
    arguments.extend(["--votes", &votes, "--checkpoint-blocks", &blocks, "--listen", &listen]);
    if load.agreed {
        policies.iter().for_each(|policy| arguments.extend(["--agree", policy]));
    }
    urls.iter().for_each(|url| arguments.extend(["--database", url]));
    chainify(&arguments).map(|_| ())
}

/// So many in a row.
fn ports(count: usize) -> Result<u16> {
    for _ in 0..100 {
        let first = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let last = u16::try_from(usize::from(first) + count - 1);
        let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if last.is_ok_and(|last| (first..=last).all(is_free)) {
            return Ok(first);
        }
    }
    bail!("no {count} ports in a row are free")
}

impl Organisations {
    pub fn start(
        folder: &Path,
        count: usize,
        connections: u32,
        block_transactions: u64,
    ) -> Result<Organisations> {
        let said = Arc::default();
        let (connections, block) = (connections.to_string(), block_transactions.to_string());
        let mut all = Organisations { folder: folder.to_owned(), running: Vec::new(), said };
        for number in 1..=count {
            let mut command = tally()?;
            command.args(["chainify", "run", "--connections", &connections]);
            command.args(["--block-transactions", &block, "--check", transactions::CHECK]);
            command.arg("--folder").arg(all.folder_of(number));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            let mut child = command.spawn().context("cannot start `tally`")?;
            if let Some(errors) = child.stderr.take() {
                let said = Arc::clone(&all.said);
                std::thread::spawn(move || listen(errors, number, &said));
            }
            all.running.push(child);
        }
        all.wait_until_ready()?;
        Ok(all)
    }

    pub fn folder_of(&self, number: usize) -> PathBuf {
        self.folder.join(number.to_string())
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let (began, folder) = (Instant::now(), self.folder_of(1));
        loop {
            if run_tally(&["chainify", "status", "--folder", path(&folder)?])?.success {
                return Ok(());
            }
            for child in &mut self.running {
                if let Some(status) = child.try_wait()? {
                    bail!("an organisation ended ({status}): {:?}", lock(&self.said));
                }
            }
            if began.elapsed() > READY_WITHIN {
                bail!("an organisation does not answer: {:?}", lock(&self.said));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// SIGKILL.
    pub fn kill(&mut self, number: usize) {
        if let Some(child) = self.running.get_mut(number - 1) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub fn stop(&mut self) {
        for number in 1..=self.running.len() {
            self.kill(number);
        }
    }

    pub fn said(&self) -> Vec<Line> {
        lock(&self.said).clone()
    }

    /// Processor time of all that are running, in seconds.
    pub fn processor_s(&self) -> f64 {
        self.running.iter().map(|child| processor::of_one(child.id())).sum()
    }

    /// Whether each ledger holds, and those that are as far have one head. Why not.
    pub fn unsound(&self) -> Result<Option<String>> {
        let mut heads = Vec::new();
        for number in 1..=self.running.len() {
            let folder = self.folder_of(number);
            let arguments = ["--output", "json", "chainify", "verify", "--folder", path(&folder)?];
            let found = run_tally(&arguments)?;
            if found.json["head"].is_null() {
                let why = format!("the ledger of organisation {number} does not hold");
                return Ok(Some(format!("{why}: {}", found.output)));
            }
            heads.push((found.json["agreed"].as_u64(), found.json["head"].clone()));
        }
        let last = heads.iter().map(|(agreed, _)| *agreed).max().flatten();
        let mut ahead = heads.iter().filter(|(agreed, _)| *agreed == last).map(|(_, head)| head);
        let first = ahead.next();
        let is_one = ahead.all(|head| Some(head) == first);
        Ok((!is_one).then(|| "the organisations' ledgers have two heads".to_owned()))
    }
}

fn listen(errors: impl Read, number: usize, said: &Mutex<Vec<Line>>) {
    for line in BufReader::new(errors).lines().map_while(Result::ok) {
        lock(said).push((Instant::now(), number, line));
    }
}
