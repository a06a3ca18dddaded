//! The `tally` program from outside: processes, signals, ports, exit codes.

mod acknowledged;
#[cfg(feature = "analytics")]
mod analysis;
mod authentication;
mod backups;
mod catalogs;
mod checkpoints;
mod clocks;
mod clusters;
mod console;
mod databases;
mod disasters;
mod endorsed;
mod errors;
mod export;
mod failover;
mod functions;
mod interrupts;
mod isolation;
mod joining;
mod layouts;
mod locks;
mod lockstep;
mod log_schemes;
mod losses;
mod memory;
mod mixed;
mod mixed_sizes;
mod neighbours;
mod observers;
mod organisations;
mod pages;
mod promises;
mod proofs;
mod protocols;
mod reported;
mod roles;
mod rotation;
mod shared_state;
mod skips;
mod tools;
mod undecided;
mod versions;
mod votes;

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn tally(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tally"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    tally(arguments).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A node on ports of the system's choice; killed when dropped.
struct Node {
    child: Child,
    ready: Value,
}

impl Node {
    fn start(data: &Path) -> Node {
        // As small as they can be, so that a test's ledger has several.
        let segments = ["--set", "segment_bytes_max=65536"];
        let blocks = ["--set", "block_bytes_max=65536"];
        Node::start_with(tally(&[]), data, &[segments, blocks].concat())
    }

    /// With a command line that so far has the program alone.
    fn start_with(command: Command, data: &Path, settings: &[&str]) -> Node {
        Node::start_logging(command, data, settings, Stdio::null())
    }

    /// The same, with a place for what it logs.
    fn start_logging(
        mut command: Command,
        data: &Path,
        settings: &[&str],
        log: impl Into<Stdio>,
    ) -> Node {
        // Folders that tests make are open to all; those that a node makes are not.
        if data.is_dir() {
            std::fs::set_permissions(data, Permissions::from_mode(0o700)).unwrap();
        }
        let mut child = command
            .args(["--output", "json", "serve", "--data", path(data)])
            .args(["--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"])
            .args(settings)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let ready = serde_json::from_str(&line).unwrap_or_default();
        Node { child, ready }
    }

    fn fetch(&self, path: &str) -> String {
        let address = self.ready["http_listen"].as_str().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// By the socket in the data folder.
    async fn connect_locally(&self, data: &Path) -> tokio_postgres::Client {
        let address = self.ready["listen"].as_str().unwrap();
        let (host, port) = (data.display(), address.rsplit(':').next().unwrap());
        let config = format!("host={host} port={port} user=tally dbname=tally");
        let (client, connection) =
            tokio_postgres::connect(&config, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    async fn connect(&self) -> tokio_postgres::Client {
        self.connect_by_task().await.0
    }

    /// With the task that holds the socket: aborting it is what a crash of the client is. A member
    /// that has not caught up within its time says that it cannot now, and is asked again.
    async fn connect_by_task(&self) -> (tokio_postgres::Client, tokio::task::JoinHandle<()>) {
        let address = self.ready["listen"].as_str().unwrap();
        let url = format!("postgresql://tally@{address}/tally");
        let began = std::time::Instant::now();
        loop {
            match tokio_postgres::connect(&url, tokio_postgres::NoTls).await {
                Ok((client, connection)) => {
                    return (client, tokio::spawn(async { _ = connection.await }));
                }
                Err(error) => {
                    let is_late =
                        error.code() == Some(&tokio_postgres::error::SqlState::CANNOT_CONNECT_NOW);
                    assert!(is_late && began.elapsed().as_secs() < 60, "{error:?}");
                }
            }
        }
    }

    fn signal(&mut self, signal: rustix::process::Signal) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_node_starts_answers_probes_and_stops_cleanly() {
    use rustix::process::Signal;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for signal in [Signal::TERM, Signal::INT] {
        let mut node = Node::start(&data);
        assert_eq!(node.ready["ready"], true);
        assert!(node.fetch("/readyz").contains(" 200 "));
        assert!(node.fetch("/metrics").contains("tally_blocks_total 0"));
        assert_eq!(node.signal(signal), Some(0));
    }
    let verified = run(&["--output", "json", "verify", path(&data)]);
    assert_eq!(verified.status.code(), Some(0));
    assert_eq!(json(&verified)["verdict"]["kind"], "sound");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&data).unwrap());
    assert_eq!(mode & 0o777, 0o700, "others cannot read a ledger");
}

#[tokio::test]
async fn local_clients_come_in_by_the_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::TERM] {
        let mut node = Node::start(folder.path());
        let client = node.connect_locally(folder.path()).await;
        client.simple_query("SELECT 1").await.unwrap();
        drop(client);
        node.signal(signal);
    }
    let verified = run(&["verify", path(folder.path())]);
    assert_eq!(verified.status.code(), Some(0));
    let left = std::fs::read_dir(folder.path()).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.contains("PGSQL")).count(), 1, "only the killed one's");
}

#[test]
fn a_killed_node_starts_again_on_the_same_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(folder.path());
    // A second node on the same folder is refused, and so are all that would read it.
    let second = run(&["serve", "--data", path(folder.path()), "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(1));
    assert_eq!(run(&["verify", path(folder.path())]).status.code(), Some(1));
    assert_eq!(node.signal(rustix::process::Signal::KILL), None);
    let before = json(&run(&["--output", "json", "verify", path(folder.path())]));
    drop(Node::start(folder.path()));
    let after = json(&run(&["--output", "json", "verify", path(folder.path())]));
    assert_eq!(before["head"], after["head"]);
}

#[test]
fn receipts_go_through_files_and_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    drop(Node::start(&data));
    let file = folder.path().join("genesis.receipt");
    let take = ["receipt", "--data", path(&data), "--height", "0", "--index", "0", "--out"];
    assert!(run(&[&take[..], &[path(&file)]].concat()).status.success());
    let verified = json(&run(&["--output", "json", "verify", path(&data)]));
    let hash = verified["head"].as_str().unwrap();
    let check = |hash: &str| run(&["receipt", "verify", path(&file), "--head", hash]);
    assert_eq!(check(hash).status.code(), Some(0));
    let other = format!("{}{}", if hash.starts_with('0') { "1" } else { "0" }, &hash[1..]);
    assert_eq!(check(&other).status.code(), Some(1));
    assert_eq!(check("nonsense").status.code(), Some(2));
}

/// Flips a bit of the last record of a stream's one segment, and verifies. With the mark after it,
/// by which a stopped log vouches for it, or without, as a crash leaves it.
fn verify_with_a_damaged_end(data: &Path, stream: &str, marked: bool) -> (Option<i32>, Value) {
    let segment = std::fs::read_dir(data.join(stream)).unwrap().next().unwrap().unwrap().path();
    let whole = std::fs::read(&segment).unwrap();
    let mark = whole.windows(4).rposition(|bytes| bytes == b"TRST").expect("it was stopped");
    let mut bytes = whole[..mark].to_vec();
    let last = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    bytes[last] ^= 1;
    bytes.extend_from_slice(&whole[mark..]);
    if !marked {
        bytes[mark..].fill(0);
    }
    std::fs::write(&segment, bytes).unwrap();
    let found = run(&["--output", "json", "verify", path(data)]);
    std::fs::write(&segment, whole).unwrap();
    (found.status.code(), json(&found))
}

#[test]
fn damage_has_exit_codes_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    assert_eq!(run(&["verify", path(data)]).status.code(), Some(1));
    let mut node = Node::start(data);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        node.connect().await.batch_execute("CREATE TABLE t (id bigint PRIMARY KEY)").await.unwrap();
    });
    assert_eq!(node.signal(rustix::process::Signal::TERM), Some(0));
    let whole = json(&run(&["--output", "json", "verify", path(data)]));
    assert_eq!(
        (&whole["results_torn"], &whole["results_missing"]),
        (&Value::Null, &Value::from(0))
    );

    let (code, damaged) = verify_with_a_damaged_end(data, "orders", true);
    assert_eq!((code, damaged["verdict"]["kind"].as_str()), (Some(4), Some("damaged")));
    let (code, torn) = verify_with_a_damaged_end(data, "orders", false);
    assert_eq!((code, torn["verdict"]["kind"].as_str()), (Some(3), Some("torn_tail")));
    assert_eq!(torn["height"], 0);
    // What a result says is computed again.
    let (code, again) = verify_with_a_damaged_end(data, "results", false);
    assert_eq!((code, again["verdict"]["kind"].as_str()), (Some(0), Some("sound")));
    assert_eq!((&again["head"], &again["results_missing"]), (&whole["head"], &Value::from(1)));
    assert!(again["results_torn"].as_str().unwrap().contains("(results/"), "{again}");
    std::fs::remove_dir_all(data.join("results")).unwrap();
    let again = json(&run(&["--output", "json", "verify", path(data)]));
    assert_eq!((&again["head"], &again["results_missing"]), (&whole["head"], &Value::from(2)));
    drop(Node::start(data));
    let again = json(&run(&["--output", "json", "verify", path(data)]));
    assert_eq!((&again["head"], &again["results_missing"]), (&whole["head"], &Value::from(0)));
}

#[test]
fn a_wrong_configuration_is_a_usage_error_that_says_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tally.toml");
    assert!(run(&["config", "init", path(&file)]).status.success());
    assert!(!run(&["config", "init", path(&file)]).status.success());
    // Without a name it is the file that a node finds.
    let data = folder.path().join("data");
    assert!(run(&["config", "init", "--data", path(&data)]).status.success());
    let found = run(&["--output", "json", "config", "check", "--data", path(&data)]);
    assert_eq!(json(&found)["file"], path(&data.join("tally.toml")));
    let check = || run(&["config", "check", "--config", path(&file)]);
    assert_eq!(check().status.code(), Some(0));
    std::fs::write(&file, "max_conections = 7").unwrap();
    let wrong = check();
    assert_eq!(wrong.status.code(), Some(2));
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(said.contains("did you mean `max_connections`?"), "{said}");
    let shown = tally(&["--output", "json", "config", "show", "--workers", "3"])
        .env("TALLY_MAX_CONNECTIONS", "9")
        .output()
        .unwrap();
    let shown = json(&shown);
    assert_eq!(shown["max_connections"]["source"], "TALLY_MAX_CONNECTIONS");
    assert_eq!(shown["workers"]["value"], 3);
    assert_eq!(run(&["no-such-command"]).status.code(), Some(2));
}
