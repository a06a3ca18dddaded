//! Nodes whose ledger a topic orders, over a real broker that is killed and started again.

#[path = "../../../network/order-kafka/tests/broker/broker.rs"]
mod broker;
#[path = "../orderers/mod.rs"]
mod orderers;

use std::collections::BTreeSet;

use rustix::process::Signal;

use broker::Broker;
use orderers::{Load, TestCluster, init, tally};

/// Of `tally cluster init`.
fn by_topic(broker: &Broker, topic: &str) -> Vec<String> {
    let brokers = format!("kafka_brokers={}", broker.address());
    let topic = format!("kafka_topic={topic}");
    let all = ["--order", "kafka", "--set", &brokers, "--set", &topic];
    all.map(str::to_owned).to_vec()
}

fn cluster(broker: &Broker, topic: &str, nodes: u16) -> TestCluster {
    let arguments = by_topic(broker, topic);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    TestCluster::new(nodes, &arguments)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_while_nodes_and_the_broker_are_killed() {
    let mut broker = Broker::start("nodes-killed");
    let mut cluster = cluster(&broker, "bank", 3);
    cluster.start();
    let client = cluster.node(1).connect().await;
    client.batch_execute("CREATE TABLE notes (id bigint PRIMARY KEY)").await.unwrap();
    let loads: Vec<Load> =
        (0..3).map(|node| Load::start(cluster.node(node), node as i64 * 1_000_000)).collect();
    for load in &loads {
        load.until_more(20).await;
    }

    // A node is killed, and the others go on meanwhile.
    cluster.kill(2);
    loads[0].until_more(20).await;
    loads[1].until_more(20).await;
    cluster.start_one(2, &[]);
    let again = Load::start(cluster.node(2), 7_000_000);
    again.until_more(20).await;

    // The broker is killed, and says nothing for longer than clients are let wait.
    broker.kill();
    cluster.node(0).until_page("/readyz", "nothing can be written, reads go on");
    assert!(cluster.node(0).fetch("/readyz").contains("the brokers of topic"));
    assert!(cluster.node(0).fetch("/metrics").contains("tally_kafka_away 1"));
    let refused = client.execute("INSERT INTO notes VALUES (-1)", &[]).await.unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("57P03"), "{refused:?}");
    let read = client.query_one("SELECT count(*) FROM notes", &[]).await.unwrap();
    assert!(read.get::<_, i64>(0) > 0, "reads go on");
    broker.start_again();
    for load in loads[..2].iter().chain([&again]) {
        load.until_more(20).await;
    }
    cluster.node(0).until_page("/readyz", "\r\n\r\nready");

    let mut acknowledged = BTreeSet::new();
    for load in loads.into_iter().chain([again]) {
        acknowledged.extend(load.end().await);
    }
    cluster.settle_certified();
    let status = cluster.status();
    for member in status["members"].as_array().unwrap() {
        assert_eq!(member["standing"]["orderer"], "kafka", "{member:#}");
        assert_eq!(member["standing"]["topic"], "bank", "{member:#}");
        assert_eq!(member["standing"]["cut"], member["height"], "{member:#}");
    }

    // One that has lost all takes the ledger from the others, and goes on in the topic.
    cluster.nodes[1].take().unwrap().end(Signal::TERM);
    cluster.empty(1);
    cluster.start_one(1, &[]);
    let client = cluster.node(1).connect().await;
    client.execute("INSERT INTO notes VALUES (-2)", &[]).await.unwrap();
    acknowledged.insert(-2);
    cluster.settle();
    for node in 0..3 {
        let there = cluster.ids(node).await;
        let lost: Vec<_> = acknowledged.difference(&there).collect();
        assert!(lost.is_empty(), "node {node} has lost {lost:?}");
    }
    cluster.stop();
    cluster.verify();
}

/// Votes are on results and say nothing of who ordered: what the topic orders is certified by the
/// members, also by one that came later, a member that comes to something else is named by the
/// others, and the first block alone proves receipts and heads of every folder.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_topic_orders_is_certified_and_proven_by_the_first_block() {
    let broker = Broker::start("nodes-proven");
    let mut cluster = cluster(&broker, "bank", 3);
    cluster.start();
    let client = cluster.node(0).connect().await;
    let rows = "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint);
                CREATE TABLE needles (a text PRIMARY KEY)";
    client.batch_execute(rows).await.unwrap();
    client.batch_execute("INSERT INTO accounts VALUES (1, 10), (2, 20)").await.unwrap();
    cluster.settle_certified();

    // A fourth member votes, once those before have certified who follows.
    cluster.add();
    let electors = || {
        let status = cluster.status();
        let all = orderers::members_of(&status).map(|(_, says)| &says["votes"]["electors"]);
        all.map(|electors| electors.as_array().map_or(0, Vec::len)).collect::<Vec<_>>()
    };
    let follow = || electors() == [4; 4];
    let since = std::time::Instant::now();
    while !follow() {
        let late = since.elapsed() > orderers::PATIENCE;
        assert!(!late, "the fourth does not vote: {:#}", cluster.status());
        client.batch_execute("UPDATE accounts SET balance = balance + 1").await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
    }
    cluster.settle_certified();

    // Memory of one is changed behind the ledger's back. Three of four go on, and certify.
    cluster.nodes[2].take().unwrap().end(Signal::TERM);
    cluster.start_tampered(2, "a needle");
    cluster.node(2).connect().await.execute("DELETE FROM needles", &[]).await.unwrap();
    client.batch_execute("INSERT INTO needles VALUES ('a needle')").await.unwrap();
    client.batch_execute("UPDATE accounts SET balance = balance * 2").await.unwrap();
    cluster.node(2).until_page("/metrics", "tally_diverged 1.0");
    let refused = cluster.node(2).connect().await.execute("DELETE FROM needles", &[]).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("25006"), "{refused:?}");
    client.batch_execute("DELETE FROM needles").await.unwrap();
    cluster.kill(2);
    cluster.settle_certified();
    let status = cluster.status();
    let height = status["members"][0]["height"].as_u64().unwrap();
    let ask = format!("SELECT tally_head_proof({})", height - 1);
    let head: String = client.query_one(&ask, &[]).await.unwrap().get(0);
    cluster.stop();
    cluster.verify_of([0, 1, 3]);
    cluster.prove([0, 1, 3], (height, &head), 4);
}

/// A member that is added begins in the topic where the one that it took the ledger from stands.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_is_added_and_one_begins_again() {
    let broker = Broker::start("nodes-added");
    let mut cluster = cluster(&broker, "bank", 1);
    cluster.start();
    let client = cluster.node(0).connect().await;
    client.batch_execute("CREATE TABLE notes (id bigint PRIMARY KEY)").await.unwrap();
    for id in 0..100_i64 {
        client.execute("INSERT INTO notes VALUES ($1)", &[&id]).await.unwrap();
    }
    let (all, port) = (cluster.all(), "19950");
    let added = ["cluster", "add", "--folder", all.to_str().unwrap(), "--port", port];
    let added = tally(&added);
    assert_eq!(added.status.code(), Some(0), "{added:?}");
    cluster.nodes.push(None);
    cluster.start_one(1, &[]);
    let other = cluster.node(1).connect().await;
    other.execute("INSERT INTO notes VALUES (-1)", &[]).await.unwrap();
    assert_eq!(cluster.ids(1).await.len(), 101);
    cluster.settle();
    // Killed, it goes on where it was, and cuts the same blocks again.
    cluster.kill(1);
    for id in 100..300_i64 {
        client.execute("INSERT INTO notes VALUES ($1)", &[&id]).await.unwrap();
    }
    cluster.start_one(1, &[]);
    assert_eq!(cluster.ids(1).await.len(), 301, "a session sees what was acknowledged");
    cluster.settle();
    cluster.stop();
    cluster.verify();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_not_the_ledgers_is_named() {
    let mut broker = Broker::start("nodes-topics");
    let mut bank = cluster(&broker, "bank", 1);
    bank.start();
    let client = bank.node(0).connect().await;
    client.batch_execute("CREATE TABLE notes (id bigint PRIMARY KEY)").await.unwrap();

    // A second ledger has no place in it.
    let folder = tempfile::tempdir().unwrap();
    let shop = by_topic(&broker, "bank");
    let shop: Vec<&str> = shop.iter().map(String::as_str).collect();
    let refused = init(&folder.path().join("all"), 1, &shop);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("it is the topic of ledger"), "{said}");
    assert!(said.contains("Name another topic"), "{said}");
    assert!(!folder.path().join("all").exists(), "nothing was made");
    let unset = init(&folder.path().join("all"), 1, &["--order", "kafka"]);
    let said = String::from_utf8_lossy(&unset.stderr).into_owned();
    assert!(said.contains("no brokers are set") && said.contains("--set kafka_brokers="), "{said}");

    // Nor do its nodes go on in another one's.
    let mut shop = cluster(&broker, "shop", 1);
    shop.start_one(0, &["--set", "kafka_topic=bank"]);
    shop.node(0).until_page("/readyz", "cannot order this ledger: it is the topic of ledger");
    assert!(shop.node(0).fetch("/readyz").contains("See `kafka_brokers` and `kafka_topic`"));

    // A topic that is gone with its broker's data ends the order, and no reads.
    broker.kill();
    broker.start_anew();
    bank.node(0).until_page("/readyz", "there is no such topic any more");
    assert!(bank.node(0).fetch("/readyz").contains("Nothing that was answered is lost"));
    let refused = client.execute("INSERT INTO notes VALUES (1)", &[]).await.unwrap_err();
    assert!(refused.as_db_error().is_some(), "{refused:?}");
    client.query("SELECT id FROM notes", &[]).await.unwrap();
    let status = bank.status();
    assert!(status["members"][0]["standing"]["stopped"].is_string(), "{status:#}");
    let all = bank.all();
    let status = tally(&["cluster", "status", "--folder", all.to_str().unwrap()]);
    assert_eq!(status.status.code(), Some(1), "{status:?}");
}
