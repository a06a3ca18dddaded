//! Members of a cluster vote on results: certificates, receipts that need no head, and the node
//! that came to something else.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio_postgres::Client;

use super::clusters::{TestCluster, free_ports};
use super::joining::start;
use super::promises::Promise;
use super::*;

/// Some tens of milliseconds (docs/cluster.md): votes are cast each 50 ms, then synced and sent.
const FOUND: Promise =
    Promise::new("a member that differs takes no writes any more", Duration::from_millis(100))
        .times(8.0);

/// Until a report of every node that is asked for says so.
fn until(cluster: &TestCluster, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let status = cluster.status();
        if holds(&status) {
            return status;
        }
        let late = began.elapsed() > Duration::from_secs(30);
        assert!(!late, "{what} does not come about: {status:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// How long it takes from now on until a node says that it differs.
fn until_diverged(node: &Node) -> Duration {
    let began = Instant::now();
    while !node.fetch("/metrics").contains("tally_diverged 1.0") {
        assert!(began.elapsed() < Duration::from_secs(30), "it does not come about");
        std::thread::sleep(Duration::from_millis(2));
    }
    began.elapsed()
}

fn certified(status: &Value, node: usize) -> Option<(u64, String)> {
    let certified = status["members"][node]["votes"]["certified"].as_array()?;
    Some((certified[0].as_u64()?, certified[1].as_str()?.to_owned()))
}

/// The newest block is certified at these nodes.
pub fn all_certified(cluster: &TestCluster, nodes: &[usize]) -> (u64, String) {
    let holds = |status: &Value| {
        let members = status["members"].as_array().unwrap();
        let newest = members.iter().filter_map(|it| it["height"].as_u64()).max();
        nodes.iter().all(|node| certified(status, *node).map(|it| it.0) == newest)
    };
    let status = until(cluster, "a certificate of the newest block", holds);
    certified(&status, nodes[0]).unwrap()
}

async fn accounts(client: &Client) {
    let text = "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint)";
    client.batch_execute(text).await.unwrap();
    let text = "INSERT INTO accounts SELECT g, 100 FROM generate_series(1, 10) g";
    client.batch_execute(text).await.unwrap();
}

fn receipt_of(data: &Path, height: u64, out: &Path) -> Value {
    let height = height.to_string();
    let taken = run(&[
        "--output",
        "json",
        "receipt",
        "--data",
        path(data),
        "--height",
        &height,
        "--index",
        "0",
        "--out",
        path(out),
    ]);
    assert_eq!(taken.status.code(), Some(0), "{taken:?}");
    json(&taken)
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_are_proven_by_the_founding_members() {
    let mut cluster = TestCluster::start_with(3, &["--votes", "2"]);
    let client = cluster.connect(0).await;
    accounts(&client).await;
    all_certified(&cluster, &[0, 1, 2]);
    // One is away, and gets the certificates that it has missed.
    cluster.nodes[2].take().unwrap().signal(Signal::KILL);
    let update = "UPDATE accounts SET balance = balance + 1 WHERE id = 1";
    for _ in 0..5 {
        cluster.connect(0).await.execute(update, &[]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    all_certified(&cluster, &[0, 1]);
    cluster.nodes[2] = Some(Node::start(&cluster.data(2)));
    let (height, _) = all_certified(&cluster, &[0, 1, 2]);
    let page = cluster.nodes[2].as_ref().unwrap().fetch("/metrics");
    assert!(page.contains(&format!("tally_certified_height {height}.0")), "{page}");
    assert!(page.contains("tally_diverged 0.0"), "{page}");
    // Certificates may come before the blocks.
    cluster.settle();
    cluster.stop();

    let first_block = cluster.made["first_block"].as_str().unwrap().to_owned();
    let file = cluster.all().join("receipt.json");
    for node in 0..3 {
        let receipt = receipt_of(&cluster.data(node), height - 2, &file);
        assert_eq!(receipt["certified"]["members"], 3, "{receipt}");
        let check = |by: &[&str]| run(&[&["receipt", "verify", path(&file)], by].concat());
        assert_eq!(check(&["--first-block", &first_block]).status.code(), Some(0));
        let other = format!("00{}", &first_block[2..]);
        assert_eq!(check(&["--first-block", &other]).status.code(), Some(1));
        let head = receipt["head"].as_str().unwrap();
        assert_eq!(check(&["--head", head]).status.code(), Some(0));
        let elsewhere = cluster.data((node + 1) % 3);
        assert_eq!(check(&["--data", path(&elsewhere)]).status.code(), Some(0));
        let verified = json(&run(&["--output", "json", "verify", path(&cluster.data(node))]));
        assert_eq!(verified["certified"]["last"], height, "{verified:#}");
        let python = Command::new("python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../clients/check_chain.py"))
            .args(["certified", path(&file), &first_block])
            .output()
            .unwrap();
        assert_eq!(python.status.code(), Some(0), "{python:?}");
    }
    // A forged certificate is found by those who founded the ledger.
    let kept = cluster.data(0).join("votes/certificates");
    let mut bytes = std::fs::read(&kept).unwrap();
    let record = (91 + 2 * 72) + 4;
    assert_eq!((bytes.len() - 68) % record, 0);
    let last = bytes.len() - record;
    bytes[last + 30] ^= 1;
    let crc = crc32fast::hash(&bytes[last..last + record - 4]).to_be_bytes();
    bytes[last + record - 4..].copy_from_slice(&crc);
    std::fs::write(&kept, bytes).unwrap();
    let found = run(&["--output", "json", "verify", path(&cluster.data(0))]);
    assert_eq!(found.status.code(), Some(4), "{found:?}");
    let said = json(&found)["verdict"]["detail"].as_str().unwrap().to_owned();
    assert!(said.contains("is not its own"), "{said}");
}

/// Two founders are replaced one by one, the second by its death. The first block proves what the
/// last ones certify, also to a node that came late and has none of the first certificates.
#[tokio::test(flavor = "multi_thread")]
async fn electors_follow_the_members() {
    let mut cluster = TestCluster::as_configured_with(3, &["--votes", "2"]);
    let client = cluster.connect(0).await;
    accounts(&client).await;
    all_certified(&cluster, &[0, 1, 2]);
    let electors = |cluster: &TestCluster| -> Vec<u64> {
        let status = cluster.status();
        let ids = status["members"][0]["votes"]["electors"].as_array().cloned();
        ids.into_iter().flatten().filter_map(|id| id.as_u64()).collect()
    };
    let all = cluster.all();
    let change = |cluster: &TestCluster, change: &[&str], then: &[u64]| {
        let changed = run(&[&["cluster"], change, &["--folder", path(&all)]].concat());
        assert_eq!(changed.status.code(), Some(0), "{changed:?}");
        // Another block certifies who follows.
        let began = Instant::now();
        while electors(cluster) != then {
            let late = began.elapsed() > Duration::from_secs(30);
            assert!(!late, "{then:?} do not vote: {:#}", cluster.status());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let update = "UPDATE accounts SET balance = balance + 1 WHERE id = 1";
    let writes = tokio::spawn({
        let client = cluster.connect(0).await;
        async move {
            loop {
                client.execute(update, &[]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
    for id in [4, 5] {
        let port = free_ports(3).to_string();
        let then: Vec<u64> = (1..=id).collect();
        change(&cluster, &["add", "--port", &port], &then);
        let data = cluster.all().join(format!("node-{id}"));
        cluster.nodes.push(Some(start(&data)));
    }
    cluster.nodes[2].take().unwrap().signal(Signal::KILL);
    change(&cluster, &["remove", "--member", "3"], &[1, 2, 4, 5]);
    cluster.nodes[1].take().unwrap().signal(Signal::TERM);
    change(&cluster, &["remove", "--member", "2"], &[1, 4, 5]);
    writes.abort();
    // Of members 1, 4 and 5.
    let (height, _) = all_certified(&cluster, &[0, 1, 2]);
    let ask = format!("SELECT tally_head_proof({})", height - 3);
    let row = client.query_one(&ask, &[]).await.unwrap();
    let proof = cluster.all().join("proof.json");
    std::fs::write(&proof, row.get::<_, String>(0)).unwrap();
    cluster.stop();

    let first_block = cluster.made["first_block"].as_str().unwrap().to_owned();
    let file = cluster.all().join("receipt.json");
    for node in ["node-1", "node-4", "node-5"] {
        let data = cluster.all().join(node);
        let receipt = receipt_of(&data, height, &file);
        assert_eq!(receipt["certified"]["members"], 3, "{receipt}");
        let verify = |hash: &str| {
            run(&["receipt", "verify", path(&file), "--first-block", hash]).status.code()
        };
        assert_eq!(verify(&first_block), Some(0));
        assert_eq!(verify(&format!("00{}", &first_block[2..])), Some(1));
        let verified = run(&["--output", "json", "verify", path(&data)]);
        assert_eq!(verified.status.code(), Some(0), "{verified:?}");
        assert_eq!(json(&verified)["certified"]["last"], height);
        let python = |script: &str, arguments: &[&str]| {
            let clients = concat!(env!("CARGO_MANIFEST_DIR"), "/../clients/");
            let script = format!("{clients}{script}");
            let done = Command::new("python3").arg(script).args(arguments).output().unwrap();
            assert_eq!(done.status.code(), Some(0), "{done:?}");
        };
        python("check_chain.py", &["certified", path(&file), &first_block]);
        // The same of any other proof.
        let certified = run(&["proof", "certify", path(&proof), "--data", path(&data)]);
        assert_eq!(certified.status.code(), Some(0), "{certified:?}");
        std::fs::write(&file, certified.stdout).unwrap();
        let verify = |hash: &str| {
            run(&["proof", "verify", path(&file), "--first-block", hash]).status.code()
        };
        assert_eq!(verify(&first_block), Some(0));
        assert_eq!(verify(&"00".repeat(32)), Some(1));
        python("check_proof.py", &[path(&file), &format!("first:{first_block}")]);
    }
}

/// Memory of one node is changed behind the ledger's back; the others go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_memory_was_changed_is_found_and_stops() {
    let mut cluster = TestCluster::start(3);
    let client = cluster.connect(0).await;
    accounts(&client).await;
    cluster.settle();
    let tampered = (cluster.leader() + 1) % 3;
    cluster.nodes[tampered].take().unwrap().signal(Signal::TERM);
    let mut command = tally(&[]);
    command.env("TEST_TAMPERS_ON", "a needle");
    cluster.nodes[tampered] = Some(Node::start_with(command, &cluster.data(tampered), &[]));
    let honest = (tampered + 1) % 3;
    let client = cluster.connect(honest).await;
    client.batch_execute("CREATE TABLE needles (a text PRIMARY KEY)").await.unwrap();
    client.batch_execute("INSERT INTO needles VALUES ('a needle')").await.unwrap();
    // Nothing has come of it yet; now the row is read and written.
    client.batch_execute("UPDATE accounts SET balance = balance * 2").await.unwrap();
    FOUND.hold(until_diverged(cluster.nodes[tampered].as_ref().unwrap()));
    let status =
        until(&cluster, "a halt", |status| status["members"][tampered]["halted"].is_string());
    let member = &status["members"][tampered];
    let halted = member["halted"].as_str().unwrap();
    assert!(halted.contains("another result of block"), "{halted}");
    let why = member["votes"]["diverged"].as_str().unwrap();
    for part in ["Here it is", "was signed by members", "tally verify"] {
        assert!(why.contains(part), "{why}");
    }
    for node in 0..3 {
        let diverged = status["members"][node]["votes"]["diverged"].is_string();
        assert_eq!(diverged, node == tampered, "{status:#}");
    }
    let page = cluster.nodes[tampered].as_ref().unwrap().fetch("/metrics");
    assert!(page.contains("tally_diverged 1.0"), "{page}");
    let shown = run(&["cluster", "status", "--folder", path(&cluster.all())]);
    assert_eq!(shown.status.code(), Some(1), "{shown:?}");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains(&format!("diverged   member {}: ", tampered + 1)), "{shown}");
    // It takes no writes any more, and tells why; the others do.
    let stopped = cluster.connect(tampered).await;
    let refused = stopped.execute("DELETE FROM needles", &[]).await.unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("25006"), "{refused:?}");
    client.execute("DELETE FROM needles", &[]).await.unwrap();
    let nodes: Vec<_> = cluster.nodes.iter_mut().filter_map(Option::take).collect();
    for (node, mut process) in nodes.into_iter().enumerate() {
        let code = process.signal(Signal::TERM);
        assert_eq!(code == Some(0), node != tampered, "node {node} ends with {code:?}");
    }
    // What it has written down is not what executing its orders gives.
    let found = run(&["--output", "json", "verify", path(&cluster.data(tampered))]);
    assert_eq!(found.status.code(), Some(4), "{found:?}");
}

#[test]
fn a_rule_by_which_two_results_could_be_certified_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let all = folder.path().join("all");
    let init = |more: &[&str]| {
        run(&[&["cluster", "init", "--folder", path(&all), "--nodes", "4"], more].concat())
    };
    for (more, why) in [
        (&["--votes", "2"][..], "Take at least 3 votes."),
        (&["--votes", "5"], "cannot come from 4 members"),
        (&["--votes", "3", "--liars", "2"], "Take at least 4 votes."),
    ] {
        let refused = init(more);
        assert_eq!(refused.status.code(), Some(1), "{more:?}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(init(&["--votes", "4", "--liars", "2"]).status.code(), Some(0));
}
