//! Nodes whose ledger CometBFT orders, with the real program as the child of each.

#[path = "../orderers/mod.rs"]
mod orderers;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use orderers::{Load, Trial, init};

fn program() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let named = std::env::var_os("COMETBFT").map(PathBuf::from);
    let program = named.unwrap_or_else(|| root.join("target/clients/cometbft-v0.39.4/cometbft"));
    assert!(program.is_file(), "no CometBFT at {}: scripts/cometbft fetch", program.display());
    program
}

fn trial(nodes: u16) -> Trial {
    let program = format!("cometbft={}", program().display());
    Trial::new(nodes, &["--order", "cometbft", "--set", &program])
}

fn comet_height(trial: &Trial, node: usize) -> u64 {
    let status = trial.status();
    let height = status["members"][node]["standing"]["height"].as_u64();
    height.unwrap_or_else(|| panic!("{status:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn four_validators_bear_one_that_stops_and_one_that_begins_again() {
    let mut trial = trial(4);
    trial.start();
    let client = trial.node(1).connect().await;
    client.batch_execute("CREATE TABLE notes (id bigint PRIMARY KEY)").await.unwrap();
    let loads: Vec<Load> =
        (0..4).map(|node| Load::start(trial.node(node), node as i64 * 1_000_000)).collect();
    for load in &loads {
        load.until_more(10).await;
    }

    // One is killed, and its CometBFT ends with it; the others go on.
    trial.kill(3);
    loads[0].until_more(10).await;
    trial.start_one(3, &[]);
    let again = Load::start(trial.node(3), 7_000_000);
    again.until_more(5).await;

    // One has lost all but its keys, and is sent every block.
    trial.nodes[1].take().unwrap().end(Signal::TERM);
    trial.empty(1);
    trial.start_one(1, &[]);
    let scratch = Load::start(trial.node(1), 8_000_000);
    scratch.until_more(5).await;

    let mut acknowledged = BTreeSet::new();
    for load in loads.into_iter().chain([again, scratch]) {
        acknowledged.extend(load.end().await);
    }
    trial.settle_certified();
    // The last results get a block of their own; behind that none comes.
    let mut heights = vec![comet_height(&trial, 0)];
    while heights.len() < 10 && !heights.ends_with(&[heights[heights.len() - 1]; 3]) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        heights.push(comet_height(&trial, 0));
    }
    assert!(heights.len() < 10, "an idle ledger makes blocks: {heights:?}");
    for node in 0..4 {
        let there = trial.ids(node).await;
        let lost: Vec<_> = acknowledged.difference(&there).collect();
        assert!(lost.is_empty(), "node {node} has lost {lost:?}");
        assert!(trial.node(node).fetch("/readyz").contains("\r\n\r\nready"));
    }
    assert!(trial.node(0).fetch("/metrics").contains("tally_cometbft_hindered 0"));
    trial.stop();
    trial.verify();
}

/// Two of four are too few to order; what is asked meanwhile ends, and the node says why.
#[tokio::test(flavor = "multi_thread")]
async fn half_of_the_validators_order_nothing_and_say_so() {
    let mut trial = trial(4);
    trial.start();
    let client = trial.node(0).connect().await;
    client.batch_execute("CREATE TABLE notes (id bigint PRIMARY KEY)").await.unwrap();
    client.batch_execute("SET statement_timeout = '8s'").await.unwrap();
    trial.kill(2);
    trial.kill(3);
    let refused = client.execute("INSERT INTO notes VALUES (1)", &[]).await.unwrap_err();
    assert!(refused.as_db_error().is_some(), "{refused:?}");
    let pending = tokio::spawn(async move {
        _ = client.execute("INSERT INTO notes VALUES (2)", &[]).await;
        client
    });
    trial.node(0).until_page("/readyz", "CometBFT has ordered nothing of what waits here");
    trial.start_one(2, &[]);
    let client = pending.await.unwrap();
    let since = std::time::Instant::now();
    while client.execute("INSERT INTO notes VALUES (3)", &[]).await.is_err() {
        assert!(since.elapsed() < orderers::PATIENCE, "{}", trial.node(0).says());
    }
    trial.start_one(3, &[]);
    trial.settle();
    trial.stop();
    trial.verify();
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
