//! Nodes whose ledger CometBFT orders, with the real program as the child of each.

#[path = "../orderers/mod.rs"]
mod orderers;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use orderers::{Load, TestCluster, init};

fn program() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let named = std::env::var_os("COMETBFT").map(PathBuf::from);
    let program = named.unwrap_or_else(|| root.join("target/clients/cometbft-v0.39.4/cometbft"));
    assert!(program.is_file(), "no CometBFT at {}: scripts/cometbft fetch", program.display());
    program
}

fn cluster(nodes: u16) -> TestCluster {
    let program = format!("cometbft={}", program().display());
    TestCluster::new(nodes, &["--order", "cometbft", "--set", &program])
}

fn comet_height(cluster: &TestCluster, node: usize) -> u64 {
    let status = cluster.status();
    let height = status["members"][node]["standing"]["height"].as_u64();
    height.unwrap_or_else(|| panic!("{status:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn four_validators_bear_one_that_stops_and_one_that_begins_again() {
    let mut cluster = cluster(4);
    cluster.start();
    let client = cluster.node(1).connect().await;
    client.batch_execute("CREATE TABLE notes (id bigint PRIMARY KEY)").await.unwrap();
    let loads: Vec<Load> =
        (0..4).map(|node| Load::start(cluster.node(node), node as i64 * 1_000_000)).collect();
    for load in &loads {
        load.until_more(10).await;
    }

    // One is killed, and its CometBFT ends with it; the others go on.
    cluster.kill(3);
    loads[0].until_more(10).await;
    cluster.start_one(3, &[]);
    let again = Load::start(cluster.node(3), 7_000_000);
    again.until_more(5).await;

    // One has lost all but its keys, and is sent every block.
    cluster.nodes[1].take().unwrap().end(Signal::TERM);
    cluster.empty(1);
    cluster.start_one(1, &[]);
    let scratch = Load::start(cluster.node(1), 8_000_000);
    scratch.until_more(5).await;

    let mut acknowledged = BTreeSet::new();
    for load in loads.into_iter().chain([again, scratch]) {
        acknowledged.extend(load.end().await);
    }
    cluster.settle_certified();
    // The last results get a block of their own; after that none comes.
    let mut heights = vec![comet_height(&cluster, 0)];
    while heights.len() < 10 && !heights.ends_with(&[heights[heights.len() - 1]; 3]) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        heights.push(comet_height(&cluster, 0));
    }
    assert!(heights.len() < 10, "an idle ledger makes blocks: {heights:?}");
    for node in 0..4 {
        let there = cluster.ids(node).await;
        let lost: Vec<_> = acknowledged.difference(&there).collect();
        assert!(lost.is_empty(), "node {node} has lost {lost:?}");
        assert!(cluster.node(node).fetch("/readyz").contains("\r\n\r\nready"));
    }
    assert!(cluster.node(0).fetch("/metrics").contains("tally_cometbft_hindered 0"));
    cluster.stop();
    cluster.verify();
}

/// Two of four are too few to order; what is asked meanwhile ends, and the node says why.
#[tokio::test(flavor = "multi_thread")]
async fn half_of_the_validators_order_nothing_and_say_so() {
    let mut cluster = cluster(4);
    cluster.start();
    let client = cluster.node(0).connect().await;
    client.batch_execute("CREATE TABLE notes (id bigint PRIMARY KEY)").await.unwrap();
    client.batch_execute("SET statement_timeout = '8s'").await.unwrap();
    cluster.kill(2);
    cluster.kill(3);
    let refused = client.execute("INSERT INTO notes VALUES (1)", &[]).await.unwrap_err();
    assert!(refused.as_db_error().is_some(), "{refused:?}");
    let pending = tokio::spawn(async move {
        _ = client.execute("INSERT INTO notes VALUES (2)", &[]).await;
        client
    });
    cluster.node(0).until_page("/readyz", "CometBFT has ordered nothing of what waits here");
    cluster.start_one(2, &[]);
    let client = pending.await.unwrap();
    let since = std::time::Instant::now();
    while client.execute("INSERT INTO notes VALUES (3)", &[]).await.is_err() {
        assert!(since.elapsed() < orderers::PATIENCE, "{}", cluster.node(0).says());
    }
    cluster.start_one(3, &[]);
    cluster.settle();
    cluster.stop();
    cluster.verify();
}

/// What it says of itself.
fn member(cluster: &TestCluster, node: usize) -> Value {
    let status = cluster.status();
    let found = orderers::members_of(&status).find(|(of, _)| *of == node);
    found.map(|(_, says)| says.clone()).unwrap_or_default()
}

/// With as few of the others as are needed besides, blocks come: so its word counts.
async fn counts(cluster: &mut TestCluster, without: usize, load: &Load) {
    cluster.kill(without);
    load.until_more(10).await;
    cluster.start_one(without, &[]);
    cluster.settle();
}

/// Five validators need four, and four of them three.
#[tokio::test(flavor = "multi_thread")]
async fn validators_follow_the_members() {
    let mut cluster = cluster(4);
    cluster.start();
    let client = cluster.node(1).connect().await;
    client.batch_execute("CREATE TABLE notes (id bigint PRIMARY KEY)").await.unwrap();
    let load = Load::start(cluster.node(1), 0);
    load.until_more(10).await;

    // One is added. It begins with the first block, and is sent all others.
    let fifth = cluster.add();
    cluster.settle_certified();
    assert_eq!(member(&cluster, fifth)["votes"]["needed"], 4, "{:#}", cluster.status());
    counts(&mut cluster, 3, &load).await;

    // Another key, on a node that goes on.
    let next_key = cluster.data(2).join("cluster/next-key.pem");
    let old_key = std::fs::read(cluster.data(2).join("cluster/key.pem")).unwrap();
    cluster.change("rotate", 2);
    let replaced = || !next_key.exists();
    orderers::until("the key to be replaced", replaced, || cluster.node(2).says());
    assert_ne!(std::fs::read(cluster.data(2).join("cluster/key.pem")).unwrap(), old_key);
    counts(&mut cluster, 3, &load).await;
    // It goes on with it after a start.
    cluster.nodes[2].take().unwrap().end(Signal::TERM);
    cluster.start_one(2, &[]);
    counts(&mut cluster, fifth, &load).await;

    // A founder is removed. Of the four that are left three are enough.
    cluster.change("remove", 0);
    load.until_more(10).await;
    cluster.nodes[0].take().unwrap().end(Signal::TERM);
    counts(&mut cluster, 3, &load).await;
    // None of them is left without the others: the newcomer's blocks come from those who are there.
    cluster.nodes[fifth].take().unwrap().end(Signal::TERM);
    cluster.empty(fifth);
    cluster.start_one(fifth, &[]);
    let scratch = Load::start(cluster.node(fifth), 1_000_000);
    scratch.until_more(10).await;
    counts(&mut cluster, 2, &load).await;

    let mut acknowledged = load.end().await;
    acknowledged.extend(scratch.end().await);
    cluster.settle_certified();
    for node in 1..=fifth {
        let there = cluster.ids(node).await;
        let lost: Vec<_> = acknowledged.difference(&there).collect();
        assert!(lost.is_empty(), "node {node} has lost {lost:?}");
    }
    // The first block proves what came of it, although its first founder is gone.
    let height = member(&cluster, 1)["height"].as_u64().unwrap();
    let ask = format!("SELECT tally_head_proof({})", height - 1);
    let head: String = client.query_one(&ask, &[]).await.unwrap().get(0);
    cluster.stop();
    cluster.verify_of(1..=fifth);
    cluster.prove(1..=fifth, (height, &head), 4);
}

/// Its memory was changed behind the ledger's back: what it comes to is another result.
#[tokio::test(flavor = "multi_thread")]
async fn a_validator_whose_results_lie_is_named_and_the_others_go_on() {
    let mut cluster = cluster(4);
    cluster.start();
    let client = cluster.node(0).connect().await;
    let rows = "CREATE TABLE accounts (id int PRIMARY KEY, balance int);
                CREATE TABLE needles (a text PRIMARY KEY)";
    client.batch_execute(rows).await.unwrap();
    client.batch_execute("INSERT INTO accounts VALUES (1, 10), (2, 20)").await.unwrap();
    cluster.settle();
    cluster.nodes[3].take().unwrap().end(Signal::TERM);
    cluster.start_tampered(3, "a needle");
    // It takes part again.
    cluster.node(3).connect().await.execute("DELETE FROM needles", &[]).await.unwrap();
    client.batch_execute("INSERT INTO needles VALUES ('a needle')").await.unwrap();
    for _ in 0..5 {
        client.batch_execute("UPDATE accounts SET balance = balance * 2").await.unwrap();
    }
    // By the result that it has signed, or, where it was told before it had signed, by its own
    // word.
    let named = "SELECT count(*) FROM tally_cluster WHERE member = 4
                 AND (deviating_height IS NOT NULL OR trouble LIKE '%another result of block%')";
    for node in 0..3 {
        let (other, since) = (cluster.node(node).connect().await, std::time::Instant::now());
        while other.query_one(named, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            assert!(since.elapsed() < orderers::PATIENCE, "{:#}", cluster.status());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    assert!(member(&cluster, 3)["votes"]["diverged"].is_string(), "{:#}", cluster.status());
    let stopped = cluster.node(3).connect().await;
    let refused = stopped.execute("DELETE FROM needles", &[]).await.unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("25006"), "{refused:?}");
    client.execute("DELETE FROM needles", &[]).await.unwrap();
}

#[test]
fn a_program_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--order", "cometbft", "--set", "cometbft=/no/such/program"];
    let made = init(&folder.path().join("all"), 1, &arguments);
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert_eq!(made.status.code(), Some(1), "{said}");
    assert!(said.contains("there is no CometBFT: /no/such/program"), "{said}");
    assert!(said.contains("go install"), "{said}");
}
