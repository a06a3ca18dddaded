//! Several nodes keep one ledger, as processes.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio_postgres::Client;

use super::promises::Promise;
use super::*;

/// A follower stands for election after 900 to 1200 ms, and a vote may be split (docs/cluster.md).
const AWAY: Promise =
    Promise::new("writes go on behind a leader's death", Duration::from_secs(2)).times(2.0);

pub struct TestCluster {
    folder: tempfile::TempDir,
    /// What `init` said.
    pub made: Value,
    pub nodes: Vec<Option<Node>>,
}

impl TestCluster {
    pub fn start(nodes: u16) -> TestCluster {
        TestCluster::start_with(nodes, &[])
    }

    pub fn start_with(nodes: u16, more: &[&str]) -> TestCluster {
        TestCluster::start_by(nodes, more, Node::start)
    }

    /// `start`: of the node in a folder.
    pub fn start_by(nodes: u16, more: &[&str], start: impl Fn(&Path) -> Node) -> TestCluster {
        let folder = tempfile::tempdir().unwrap();
        let (path_of, port) = (folder.path().join("all"), free_ports(3 * nodes).to_string());
        let count = nodes.to_string();
        let init = ["--output", "json", "cluster", "init", "--folder", path(&path_of), "--nodes"];
        let made = run(&[&init[..], &[&*count, "--port", &port], more].concat());
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        let mut cluster = TestCluster { folder, made: json(&made), nodes: Vec::new() };
        cluster.nodes = (0..nodes.into()).map(|node| Some(start(&cluster.data(node)))).collect();
        cluster
    }

    pub fn all(&self) -> PathBuf {
        self.folder.path().join("all")
    }

    pub fn data(&self, node: usize) -> PathBuf {
        self.all().join(format!("node-{}", node + 1))
    }

    pub async fn connect(&self, node: usize) -> Client {
        self.nodes[node].as_ref().unwrap().connect().await
    }

    pub fn status(&self) -> Value {
        json(&run(&["--output", "json", "cluster", "status", "--folder", path(&self.all())]))
    }

    pub fn leader(&self) -> usize {
        for _ in 0..100 {
            let leader = self.status()["leader"].as_u64();
            let up = leader.map(|id| id as usize - 1).filter(|node| self.nodes[*node].is_some());
            if let Some(leader) = up {
                return leader;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("no node leads: {}", self.status());
    }

    /// Until all nodes have come to the same.
    pub fn settle(&self) {
        for _ in 0..300 {
            let status = self.status();
            let members = status["members"].as_array().unwrap();
            let heads: BTreeSet<&str> =
                members.iter().filter_map(|it| it["head"].as_str()).collect();
            if heads.len() == 1 && members.iter().all(|member| member["head"].is_string()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the nodes do not come to the same: {:#}", self.status());
    }

    /// Until those that run have come to the same.
    pub fn settle_up(&self) {
        let up = self.nodes.iter().flatten().count();
        for _ in 0..300 {
            let status = self.status();
            let members = status["members"].as_array().unwrap();
            let heads: Vec<&str> = members.iter().filter_map(|it| it["head"].as_str()).collect();
            if heads.len() == up && heads.iter().all(|head| *head == heads[0]) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the nodes do not come to the same: {:#}", self.status());
    }

    pub fn stop(&mut self) {
        let nodes: Vec<Node> = self.nodes.iter_mut().filter_map(Option::take).collect();
        let stops = nodes.into_iter().map(|mut node| {
            std::thread::spawn(move || assert_eq!(node.signal(Signal::TERM), Some(0)))
        });
        stops.collect::<Vec<_>>().into_iter().for_each(|stop| stop.join().unwrap());
    }

    /// The heads that an execution of each folder gives.
    pub fn verify(&self) -> Vec<String> {
        let verify = |node| {
            let done = run(&["--output", "json", "verify", path(&self.data(node))]);
            let found = json(&done);
            assert_eq!(done.status.code(), Some(0), "{found:#}");
            found["head"].as_str().unwrap().to_owned()
        };
        (0..self.nodes.len()).map(verify).collect()
    }
}

/// The first of so many ports in a row that are free.
pub fn free_ports(count: u16) -> u16 {
    // Tests that run beside each other look in other places.
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let apart = 60 * CALLS.fetch_add(1, Ordering::SeqCst);
    let from = 20_000 + (std::process::id() % 9_000) as u16 + apart;
    let free = |port: &u16| {
        let bound: Vec<_> =
            (*port..port + count).map(|it| TcpListener::bind(("127.0.0.1", it))).collect();
        bound.iter().all(Result::is_ok)
    };
    (from..32_000).step_by(count.into()).find(free).unwrap()
}

/// Inserts until it is told to stop or its node is gone; what was acknowledged.
async fn load(client: Client, from: i64, ends: Arc<AtomicBool>) -> (Vec<i64>, Duration) {
    let (mut acknowledged, mut slowest) = (Vec::new(), Duration::ZERO);
    for id in from.. {
        if ends.load(Ordering::SeqCst) {
            break;
        }
        let began = Instant::now();
        match client.execute("INSERT INTO notes VALUES ($1)", &[&id]).await {
            Ok(_) => acknowledged.push(id),
            Err(_) if client.is_closed() => break,
            Err(error) => panic!("{error:?}"),
        }
        slowest = slowest.max(began.elapsed());
    }
    (acknowledged, slowest)
}

pub async fn ids(client: &Client) -> BTreeSet<i64> {
    let rows = client.query("SELECT id FROM notes", &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_outlives_its_leader() {
    let mut cluster = TestCluster::start(3);
    let client = cluster.connect(1).await;
    client.batch_execute("CREATE TABLE notes (id bigint PRIMARY KEY)").await.unwrap();
    client.execute("INSERT INTO notes VALUES (-1)", &[]).await.unwrap();
    assert_eq!(ids(&client).await, BTreeSet::from([-1]), "a session sees its own past");
    cluster.settle();
    let refused = client.batch_execute("SET ledger.protocol = 'silo'").await.unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("0A000"));
    let ends = Arc::new(AtomicBool::new(false));
    let mut loads = Vec::new();
    for node in 0..3 {
        let client = cluster.connect(node).await;
        loads.push(tokio::spawn(load(client, node as i64 * 1_000_000, Arc::clone(&ends))));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let leader = cluster.leader();
    cluster.nodes[leader].take().unwrap().signal(Signal::KILL);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let again = Node::start(&cluster.data(leader));
    cluster.nodes[leader] = Some(again);
    tokio::time::sleep(Duration::from_millis(500)).await;
    ends.store(true, Ordering::SeqCst);
    let mut acknowledged = BTreeSet::from([-1]);
    for (node, load) in loads.into_iter().enumerate() {
        let (ids, slowest) = load.await.unwrap();
        assert!(!ids.is_empty());
        if node != leader {
            AWAY.hold(slowest);
        }
        acknowledged.extend(ids);
    }
    assert_ne!(cluster.leader(), leader);
    cluster.settle();
    for node in 0..3 {
        let there = ids(&cluster.connect(node).await).await;
        let lost: Vec<_> = acknowledged.difference(&there).collect();
        assert!(lost.is_empty(), "node {node} has lost {lost:?}");
    }
    cluster.stop();
    let heads = cluster.verify();
    assert!(heads.iter().all(|head| *head == heads[0]), "{heads:?}");
}

/// Without a majority nothing is ordered, and readers go on; a member's folder is its node's alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_minority_waits() {
    let mut cluster = TestCluster::start(3);
    let client = cluster.connect(0).await;
    client.batch_execute("CREATE TABLE notes (id bigint PRIMARY KEY)").await.unwrap();
    cluster.settle();
    for node in [1, 2] {
        cluster.nodes[node].take().unwrap().signal(Signal::KILL);
    }
    let text = "INSERT INTO notes VALUES (1)";
    let insert = tokio::spawn(async move { client.execute(text, &[]).await });
    let reader = cluster.connect_with(0, "-c tally.catch_up_timeout=0").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!insert.is_finished(), "acknowledged by one of three");
    assert!(ids(&reader).await.is_empty());
    let status = run(&["cluster", "status", "--folder", path(&cluster.all())]);
    assert_eq!(status.status.code(), Some(1));
    cluster.nodes[1] = Some(Node::start(&cluster.data(1)));
    insert.await.unwrap().unwrap();
    assert_eq!(ids(&reader).await, BTreeSet::from([1]));
    cluster.nodes[2] = Some(Node::start(&cluster.data(2)));
    cluster.settle();
    cluster.stop();
    let checkpoint = run(&["checkpoint", "--data", path(&cluster.data(0))]);
    assert_eq!(checkpoint.status.code(), Some(1), "no member adds to the ledger alone");
    std::fs::remove_dir_all(cluster.data(0).join("cluster")).unwrap();
    let alone = run(&["serve", "--data", path(&cluster.data(0)), "--listen", "127.0.0.1:0"]);
    assert_eq!(alone.status.code(), Some(1));
    let said = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(said.contains("that of a cluster, ordered by raft"), "{said}");
}

#[test]
fn a_cluster_is_made_once_and_with_a_protocol_that_it_can_run() {
    let folder = tempfile::tempdir().unwrap();
    let all = folder.path().join("all");
    let init = |more: &[&str]| {
        run(&[&["cluster", "init", "--folder", path(&all), "--nodes", "2"], more].concat())
    };
    let refused = init(&["--protocol", "2pl"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("cannot run a ledger of several nodes"), "{said}");
    assert_eq!(init(&["--protocol", "aria"]).status.code(), Some(0));
    assert_eq!(init(&[]).status.code(), Some(1));
}
