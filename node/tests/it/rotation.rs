//! A member's key is replaced while the cluster runs.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio_postgres::Client;

use super::clusters::TestCluster;
use super::joining::start;
use super::votes::all_certified;
use super::*;

const KEY: &str = "cluster/key.pem";
const NEXT_KEY: &str = "cluster/next-key.pem";

fn rotate(cluster: &TestCluster) -> Output {
    run(&["cluster", "rotate", "--folder", path(&cluster.all()), "--member", "2"])
}

async fn key_of_two(client: &Client) -> String {
    let members: String = client.query_one("SHOW ledger.members", &[]).await.unwrap().get(0);
    let two = members.split(", ").find(|member| member.starts_with("2 ")).unwrap();
    two.split(' ').nth(1).unwrap().to_owned()
}

async fn note(client: &Client, id: i64) {
    client.execute("INSERT INTO notes VALUES ($1)", &[&id]).await.unwrap();
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Three of three votes are needed, so that those before say who follows by the old key, and those
/// who follow vote by the new one. The node is killed in the middle.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_replaced_over_a_kill_and_the_old_one_is_none_any_more() {
    let mut cluster = TestCluster::as_configured_with(3, &[]);
    let client = cluster.connect(0).await;
    client.batch_execute("CREATE TABLE notes (id bigint PRIMARY KEY)").await.unwrap();
    let (data, before) = (cluster.data(1), key_of_two(&client).await);
    let old_key = std::fs::read(data.join(KEY)).unwrap();
    let done = rotate(&cluster);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    cluster.nodes[1].take().unwrap().signal(Signal::KILL);
    assert_ne!(key_of_two(&client).await, before);
    for id in 0..5 {
        note(&client, id).await;
    }
    cluster.nodes[1] = Some(start(&data));
    note(&cluster.connect(1).await, 5).await;
    all_certified(&cluster, &[0, 1, 2]);
    until("the old key is gone", || !data.join(NEXT_KEY).exists());
    let new_key = std::fs::read(data.join(KEY)).unwrap();
    assert_ne!(new_key, old_key);

    // The old one in its place: neither the node nor the others take it.
    cluster.nodes[1].take().unwrap().signal(Signal::TERM);
    std::fs::write(data.join(KEY), &old_key).unwrap();
    let refused = run(&["serve", "--data", path(&data)]);
    assert_ne!(refused.status.code(), Some(0));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("the key of this folder is not that of"), "{said}");
    std::fs::write(data.join(KEY), &new_key).unwrap();
    cluster.nodes[1] = Some(start(&data));
    note(&client, 6).await;
    let (height, _) = all_certified(&cluster, &[0, 1, 2]);
    for member in cluster.status()["members"].as_array().unwrap() {
        for (other, heard) in member["votes"]["members"].as_object().unwrap() {
            let lies = (heard["refused"].as_u64(), heard["contradicting"].as_u64());
            assert_eq!(lies, (Some(0), Some(0)), "member {other}");
        }
    }
    cluster.stop();
    let (first_block, height) = (cluster.made["first_block"].as_str().unwrap(), height.to_string());
    let file = cluster.all().join("receipt.json");
    let taken = ["receipt", "--data", path(&data), "--height", &height, "--index", "0"];
    let taken = run(&[&taken[..], &["--out", path(&file)]].concat());
    assert_eq!(taken.status.code(), Some(0), "{taken:?}");
    let receipt: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(receipt["certified"]["successions"].as_array().unwrap().len(), 1);
    let verified = run(&["receipt", "verify", path(&file), "--first-block", first_block]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
}

/// A key was drawn and the ledger cannot name it: the old one is in use, and the next try takes the
/// key that is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_drawn_and_not_named_waits_for_the_next_try() {
    let mut cluster = TestCluster::as_configured_with(3, &["--votes", "2"]);
    let client = cluster.connect(1).await;
    client.batch_execute("CREATE TABLE notes (id bigint PRIMARY KEY)").await.unwrap();
    let (data, before) = (cluster.data(1), key_of_two(&client).await);
    for node in [0, 2] {
        cluster.nodes[node].take().unwrap().signal(Signal::KILL);
    }
    let done = rotate(&cluster);
    assert_ne!(done.status.code(), Some(0), "{done:?}");
    let drawn = std::fs::read(data.join(NEXT_KEY)).unwrap();
    cluster.nodes[1].take().unwrap().signal(Signal::KILL);
    for node in 0..3 {
        cluster.nodes[node] = Some(start(&cluster.data(node)));
    }
    let client = cluster.connect(1).await;
    note(&client, 1).await;
    // What it had drafted may have been ordered after all.
    if key_of_two(&client).await == before {
        let done = rotate(&cluster);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
    }
    note(&client, 2).await;
    until("the old key is gone", || !data.join(NEXT_KEY).exists());
    assert_eq!(std::fs::read(data.join(KEY)).unwrap(), drawn);
    all_certified(&cluster, &[0, 1, 2]);
}
