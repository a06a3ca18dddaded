//! Nodes of a cluster as processes, whatever orders their ledger. Every wait has an end.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

/// Of anything that must happen.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// How long a client waits for one answer.
const ANSWER_TIME: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(100);

pub fn tally(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// One of the scripts of the repository.
fn python(script: &str, arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    Command::new("python3").arg(root.join(script)).args(arguments).output().unwrap()
}

/// Killed when dropped.
pub struct Node {
    child: Child,
    ready: Value,
    log: PathBuf,
}

impl Node {
    fn start(data: &Path, more: &[&str]) -> Node {
        Node::start_with(Command::new(env!("CARGO_BIN_EXE_tally")), data, more)
    }

    fn start_with(mut command: Command, data: &Path, more: &[&str]) -> Node {
        let log = data.with_extension("log");
        let mut options = File::options();
        let stderr = options.create(true).append(true).open(&log).unwrap();
        command.args(["--output", "json", "serve", "--data", data.to_str().unwrap()]);
        command.args(more);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn();
        let mut child = child.unwrap();
        let stdout = child.stdout.take().unwrap();
        let (teller, reported) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(stdout).read_line(&mut line);
            let _ = teller.send(line);
        });
        let mut node = Node { child, ready: Value::Null, log };
        let line = reported.recv_timeout(PATIENCE).unwrap_or_default();
        node.ready = serde_json::from_str(&line).unwrap_or_default();
        assert!(node.ready["ready"] == true, "{} did not start: {}", data.display(), node.says());
        node
    }

    /// The end of its log.
    pub fn says(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    pub fn fetch(&self, path: &str) -> String {
        let address = self.ready["http_listen"].as_str().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(ANSWER_TIME)).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Until a page of the second port says this.
    pub fn until_page(&self, path: &str, part: &str) {
        let what = format!("{path} to say {part:?}");
        until(&what, || self.fetch(path).contains(part), || self.fetch(path) + &self.says());
    }

    /// A node that has to catch up refuses sessions after some seconds.
    pub async fn connect(&self) -> Client {
        let (address, since) = (self.ready["listen"].as_str().unwrap(), Instant::now());
        loop {
            match connect(address).await {
                Ok(client) => return client,
                Err(error) => {
                    assert!(since.elapsed() < PATIENCE, "{error}: {}", self.says());
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    pub fn end(&mut self, signal: Signal) -> Option<i32> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, signal).unwrap();
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(PAUSE / 10);
        }
        panic!("it does not end at {signal:?}: {}", self.says());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn connect(address: &str) -> Result<Client, String> {
    let url = format!("postgresql://tally@{address}/tally");
    let connecting = tokio_postgres::connect(&url, tokio_postgres::NoTls);
    let connected = tokio::time::timeout(ANSWER_TIME, connecting).await;
    let connected = connected.map_err(|_| "no session within seconds".to_owned())?;
    let (client, connection) = connected.map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    Ok(client)
}

/// Until it is so; else the test fails with what is told.
pub fn until(what: &str, so: impl Fn() -> bool, reported: impl Fn() -> String) {
    let since = Instant::now();
    while !so() {
        assert!(since.elapsed() < PATIENCE, "waited in vain for {what}: {}", reported());
        std::thread::sleep(PAUSE);
    }
}

/// What each member says of itself, with the place of its node.
pub fn members_of(status: &Value) -> impl Iterator<Item = (usize, &Value)> {
    let ids = status["ids"].as_array().unwrap_or_else(|| panic!("{status:#}")).iter();
    let nodes = ids.map(|id| id.as_u64().unwrap() as usize - 1);
    nodes.zip(status["members"].as_array().unwrap())
}

/// The folders of a cluster, and those of its nodes that run.
pub struct TestCluster {
    folder: tempfile::TempDir,
    /// The hash of its order header, which proves all that follows.
    first_block: String,
    pub nodes: Vec<Option<Node>>,
}

impl TestCluster {
    pub fn new(nodes: u16, more: &[&str]) -> TestCluster {
        let folder = tempfile::tempdir().unwrap();
        let made = init(&folder.path().join("all"), nodes, more);
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        let first_block = json(&made)["first_block"].as_str().unwrap().to_owned();
        TestCluster { folder, first_block, nodes: (0..nodes).map(|_| None).collect() }
    }

    pub fn all(&self) -> PathBuf {
        self.folder.path().join("all")
    }

    pub fn data(&self, node: usize) -> PathBuf {
        self.all().join(format!("node-{}", node + 1))
    }

    /// All at once, as founders wait for each other.
    pub fn start(&mut self) {
        let folders: Vec<PathBuf> = (0..self.nodes.len()).map(|node| self.data(node)).collect();
        let starts =
            folders.into_iter().map(|data| std::thread::spawn(move || Node::start(&data, &[])));
        let starts: Vec<_> = starts.collect();
        self.nodes = starts.into_iter().map(|start| Some(start.join().unwrap())).collect();
    }

    pub fn start_one(&mut self, node: usize, more: &[&str]) {
        self.nodes[node] = Some(Node::start(&self.data(node), more));
    }

    /// Of which a row is changed in memory, behind the ledger's back, when this text comes.
    #[allow(dead_code)]
    pub fn start_tampered(&mut self, node: usize, text: &str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
        command.env("TEST_TAMPERS_ON", text);
        self.nodes[node] = Some(Node::start_with(command, &self.data(node), &[]));
    }

    /// Makes a folder for the next member, whom the ledger names from then on, and starts it.
    #[allow(dead_code)]
    pub fn add(&mut self) -> usize {
        let (all, port) = (self.all(), free_ports(4).to_string());
        let all = all.to_str().unwrap();
        let added = ["--output", "json", "cluster", "add", "--folder", all, "--port", &port];
        let added = tally(&added);
        assert_eq!(added.status.code(), Some(0), "{added:?}");
        let node = self.nodes.len();
        assert_eq!(json(&added)["member"], node as u64 + 1);
        self.nodes.push(None);
        self.start_one(node, &[]);
        node
    }

    /// `remove` or `rotate` of a member.
    #[allow(dead_code)]
    pub fn change(&self, how: &str, node: usize) {
        let (all, id) = (self.all(), (node + 1).to_string());
        let all = all.to_str().unwrap();
        let done = tally(&["cluster", how, "--folder", all, "--member", &id]);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
    }

    pub fn node(&self, node: usize) -> &Node {
        self.nodes[node].as_ref().unwrap()
    }

    pub fn kill(&mut self, node: usize) {
        self.nodes[node].take().unwrap().end(Signal::KILL);
    }

    /// All that its node made of what `init` left, but for the keys and the settings.
    pub fn empty(&self, node: usize) {
        for entry in std::fs::read_dir(self.data(node)).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with("cluster") || path.ends_with("tally.toml") {
                continue;
            }
            match path.is_dir() {
                true => std::fs::remove_dir_all(path).unwrap(),
                false => std::fs::remove_file(path).unwrap(),
            }
        }
    }

    pub fn status(&self) -> Value {
        let all = self.all();
        json(&tally(&["--output", "json", "cluster", "status", "--folder", all.to_str().unwrap()]))
    }

    /// What those say that run.
    fn running<'a>(&self, status: &'a Value) -> Vec<&'a Value> {
        let runs = |node: &usize| self.nodes[*node].is_some();
        members_of(status).filter(|(node, _)| runs(node)).map(|(_, says)| says).collect()
    }

    /// Until all nodes that run have come to the same.
    pub fn settle(&self) {
        let is_settled = || {
            let status = self.status();
            let members = self.running(&status);
            let heads: BTreeSet<&str> =
                members.iter().filter_map(|it| it["head"].as_str()).collect();
            heads.len() == 1 && members.iter().all(|it| it["head"].is_string())
        };
        until("the nodes to come to the same", is_settled, || format!("{:#}", self.status()));
    }

    /// And until they have certified it, where enough of them vote.
    pub fn settle_certified(&self) {
        self.settle();
        let is_certified = || {
            let status = self.status();
            self.running(&status).iter().all(|it| it["votes"]["certified"][0] == it["height"])
        };
        until("a certificate", is_certified, || format!("{:#}", self.status()));
    }

    pub fn stop(&mut self) {
        let nodes: Vec<Node> = self.nodes.iter_mut().filter_map(Option::take).collect();
        let stops = nodes.into_iter().map(|mut node| {
            std::thread::spawn(move || {
                assert_eq!(node.end(Signal::TERM), Some(0), "{}", node.says());
            })
        });
        stops.collect::<Vec<_>>().into_iter().for_each(|stop| stop.join().unwrap());
    }

    /// Each folder's blocks are sound, and come to one head.
    pub fn verify(&self) {
        self.verify_of(0..self.nodes.len());
    }

    pub fn verify_of(&self, nodes: impl IntoIterator<Item = usize>) {
        let verify = |node| {
            let data = self.data(node);
            let done = tally(&["--output", "json", "verify", data.to_str().unwrap()]);
            let found = json(&done);
            assert_eq!(done.status.code(), Some(0), "{found:#}");
            assert_eq!(found["unconfirmed"], 0, "{found:#}");
            found["head"].as_str().unwrap().to_owned()
        };
        let heads: BTreeSet<String> = nodes.into_iter().map(verify).collect();
        assert_eq!(heads.len(), 1, "{heads:?}");
    }

    /// Of folders on which no node runs: the first block proves, by votes of `members`, a receipt
    /// of this block to our program and to Python's, and what `tally_head_proof()` said to all five
    /// verifiers. Another first block proves nothing.
    pub fn prove(&self, nodes: impl IntoIterator<Item = usize>, told: (u64, &str), members: u64) {
        let file = self.proof_file();
        let (name, first) = (file.to_str().unwrap(), &*self.first_block);
        let other = format!("{}{}", if first.starts_with('0') { '1' } else { '0' }, &first[1..]);
        for node in nodes {
            let data = self.data(node);
            let data = data.to_str().unwrap();
            let receipt = self.receipt(node, told.0).unwrap();
            assert_eq!(self.certifiers(node, told.0), members);
            self.check_receipt(&receipt, first, None);
            self.check_receipt(&receipt, &other, Some("first block"));
            std::fs::write(&file, told.1).unwrap();
            let certified = tally(&["proof", "certify", name, "--data", data]);
            assert_eq!(certified.status.code(), Some(0), "{certified:?}");
            std::fs::write(&file, certified.stdout).unwrap();
            for (hash, code, verifiers_code) in [(first, 0, 0), (&*other, 1, 3)] {
                let checked = tally(&["proof", "verify", name, "--first-block", hash]);
                assert_eq!(checked.status.code(), Some(code), "{checked:?}");
                let said = String::from_utf8_lossy(&checked.stderr);
                let refused = said.contains("it leads to another first block");
                assert_eq!(refused, code == 1, "{said}");
                let trust = format!("first:{hash}");
                let theirs = python("tests/clients/verifiers", &["check", name, &trust]);
                assert_eq!(theirs.status.code(), Some(verifiers_code), "{theirs:?}");
            }
        }
    }

    fn proof_file(&self) -> PathBuf {
        self.all().join("proof.json")
    }

    /// Of the first transaction of a block, with a certificate where the folder has one.
    fn receipt(&self, node: usize, height: u64) -> Option<Value> {
        let (told, file) = (self.told_receipt(node, height), self.proof_file());
        let is_there = told.status.code() == Some(0);
        is_there.then(|| serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap())
    }

    /// How many members there are whose votes certify it.
    fn certifiers(&self, node: usize, height: u64) -> u64 {
        let told = json(&self.told_receipt(node, height));
        told["certified"]["members"].as_u64().unwrap_or_else(|| panic!("{told:#}"))
    }

    fn told_receipt(&self, node: usize, height: u64) -> Output {
        let (data, file, height) = (self.data(node), self.proof_file(), height.to_string());
        let (data, file) = (data.to_str().unwrap(), file.to_str().unwrap());
        let receipt = ["--output", "json", "receipt", "--data", data, "--index", "0"];
        tally(&[&receipt[..], &["--height", &height, "--out", file]].concat())
    }

    /// By our program and by Python's. `refused`: parts of why, one of which each of them says.
    fn check_receipt(&self, receipt: &Value, first_block: &str, refused: Option<&str>) {
        let file = self.proof_file();
        std::fs::write(&file, receipt.to_string()).unwrap();
        let name = file.to_str().unwrap();
        let ours = tally(&["receipt", "verify", name, "--first-block", first_block]);
        let theirs = python("clients/check_chain.py", &["certified", name, first_block]);
        for checked in [ours, theirs] {
            let said = String::from_utf8_lossy(&checked.stderr);
            let code = i32::from(refused.is_some());
            assert_eq!(checked.status.code(), Some(code), "{checked:?}");
            let is_why = |why: &str| why.split('|').any(|part| said.contains(part));
            assert!(refused.is_none_or(is_why) && !said.contains("Traceback"), "{said}");
        }
    }

    pub async fn ids(&self, node: usize) -> BTreeSet<i64> {
        let client = self.node(node).connect().await;
        let rows = client.query("SELECT id FROM notes", &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

pub fn init(folder: &Path, nodes: u16, more: &[&str]) -> Output {
    let (port, count) = (free_ports(4 * nodes).to_string(), nodes.to_string());
    let folder = folder.to_str().unwrap();
    let init = ["--output", "json", "cluster", "init", "--folder", folder, "--nodes", &count];
    tally(&[&init[..], &["--port", &port], more].concat())
}

/// The first of so many ports in a row that are free.
fn free_ports(count: u16) -> u16 {
    // Tests that run beside each other look in other places.
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let apart = 60 * CALLS.fetch_add(1, Ordering::SeqCst);
    let from = 11_000 + (std::process::id() % 7_000) as u16 + apart;
    let free = |port: &u16| {
        let bound: Vec<_> =
            (*port..port + count).map(|it| TcpListener::bind(("127.0.0.1", it))).collect();
        bound.iter().all(Result::is_ok)
    };
    (from..19_900).step_by(count.into()).find(free).unwrap()
}

/// A client of one node, which inserts numbers of its own until it is told to stop.
pub struct Load {
    ends: Arc<AtomicBool>,
    /// Answers so far.
    pub count: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<BTreeSet<i64>>,
}

impl Load {
    /// `from`: its first number. What has no answer may be in the ledger, or not.
    pub fn start(node: &Node, from: i64) -> Load {
        let (ends, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let address = node.ready["listen"].as_str().unwrap().to_owned();
        let task = tokio::spawn(insert(address, from, Arc::clone(&ends), Arc::clone(&count)));
        Load { ends, count, task }
    }

    /// What was acknowledged.
    pub async fn end(self) -> BTreeSet<i64> {
        self.ends.store(true, Ordering::SeqCst);
        tokio::time::timeout(2 * ANSWER_TIME, self.task).await.expect("a client hangs").unwrap()
    }

    /// Until it was answered some times more.
    pub async fn until_more(&self, more: u64) {
        let (since, wanted) = (Instant::now(), self.count.load(Ordering::SeqCst) + more);
        while self.count.load(Ordering::SeqCst) < wanted {
            assert!(since.elapsed() < PATIENCE, "a client has no answers any more");
            tokio::time::sleep(PAUSE / 10).await;
        }
    }
}

async fn insert(
    address: String,
    from: i64,
    ends: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
) -> BTreeSet<i64> {
    let mut acknowledged = BTreeSet::new();
    let mut id = from;
    while !ends.load(Ordering::SeqCst) {
        // Its node may be gone, for good as well.
        let Ok(client) = connect(&address).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        while !client.is_closed() && !ends.load(Ordering::SeqCst) {
            let row: [&(dyn ToSql + Sync); 1] = [&id];
            let inserted = client.execute("INSERT INTO notes VALUES ($1)", &row);
            match tokio::time::timeout(ANSWER_TIME, inserted).await {
                Ok(Ok(_)) => {
                    acknowledged.insert(id);
                    count.fetch_add(1, Ordering::SeqCst);
                }
                Ok(Err(_)) => tokio::time::sleep(PAUSE / 10).await,
                Err(_) => panic!("no answer within {ANSWER_TIME:?}, nor an error"),
            }
            id += 1;
        }
    }
    acknowledged
}
