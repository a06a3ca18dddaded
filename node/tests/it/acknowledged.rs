//! What a session is told of its transactions: `tally.acknowledge`.

use rustix::process::Signal;
use tokio_postgres::Client;

use super::clusters::TestCluster;
use super::*;

async fn inserted(client: &Client, id: i32) -> Result<(), (String, String, String)> {
    let insert = format!("INSERT INTO notes VALUES ({id})");
    let Err(error) = client.batch_execute(&insert).await else { return Ok(()) };
    let error = error.as_db_error().unwrap_or_else(|| panic!("{error:?}"));
    let detail = error.detail().unwrap_or_default().to_owned();
    Err((error.code().code().to_owned(), error.message().to_owned(), detail))
}

async fn shown(client: &Client, name: &str) -> i64 {
    let row = client.query_one(&format!("SHOW {name}"), &[]).await.unwrap();
    row.get::<_, &str>(0).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_answers_when_most_have_it_or_when_it_is_certified() {
    let mut cluster = TestCluster::start(3);
    let leader = cluster.leader();
    let others = [(leader + 1) % 3, (leader + 2) % 3];
    let client = cluster.connect(leader).await;
    client.batch_execute("CREATE TABLE notes (id int PRIMARY KEY)").await.unwrap();
    client.batch_execute("SET tally.acknowledge = 'CERTIFIED'").await.unwrap();
    for id in 0..5 {
        inserted(&client, id).await.unwrap();
        let height = shown(&client, "tally.seen_height").await;
        let votes = cluster.status()["members"][leader]["votes"].clone();
        let certified = votes["certified"][0].as_i64();
        assert!(certified >= Some(height), "block {height} was acknowledged: {votes}");
    }
    let refused = inserted(&client, 0).await.unwrap_err();
    assert_eq!(refused.0, "23505", "what is in no state waits for no certificate");

    // By the default rule all three have to sign.
    cluster.nodes[others[0]].take().unwrap().signal(Signal::KILL);
    client
        .batch_execute("SET tally.commit_timeout = '700ms'; SET tally.transaction_key = 'one'")
        .await
        .unwrap();
    let (code, message, detail) = inserted(&client, 10).await.unwrap_err();
    let height = shown(&client, "tally.seen_height").await;
    assert_eq!(code, "08007", "{message}");
    let what = format!("the transaction is in block {height}, whose result is not certified");
    assert_eq!(message, what);
    assert!(detail.contains("Its key is \"one\"") && detail.contains("within 700 ms"), "{detail}");
    let outcome = client.query_one("SELECT * FROM tally_outcome('one')", &[]).await.unwrap();
    assert_eq!(outcome.get::<_, &str>(0), "committed");
    assert_eq!(inserted(&client, 10).await.unwrap_err().0, "23505", "it was, and stays");
    client.batch_execute("SET statement_timeout = '400ms'").await.unwrap();
    let (code, _, detail) = inserted(&client, 11).await.unwrap_err();
    assert_eq!(code, "08007");
    assert!(detail.contains("It has no key") && detail.contains("statement timeout"), "{detail}");
    client.batch_execute("SET statement_timeout = 0").await.unwrap();
    for (way, id) in [("quorum", 12), ("local", 13)] {
        client.batch_execute(&format!("SET tally.acknowledge = {way}")).await.unwrap();
        inserted(&client, id).await.unwrap();
    }

    // The leader's own disk has it, and no one is told that it is committed.
    cluster.nodes[others[1]].take().unwrap().signal(Signal::KILL);
    let (code, ..) = inserted(&client, 14).await.unwrap_err();
    assert_eq!(code, "08007");
    for node in others {
        cluster.nodes[node] = Some(Node::start(&cluster.data(node)));
    }
    let client = cluster.connect(leader).await;
    client.batch_execute("SET tally.acknowledge = certified").await.unwrap();
    inserted(&client, 15).await.unwrap();
    cluster.settle();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_node_certifies_nothing_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path());
    let client = node.connect().await;
    client.batch_execute("CREATE TABLE notes (id int PRIMARY KEY)").await.unwrap();
    for (way, id) in [("local", 1), ("quorum", 2)] {
        client.batch_execute(&format!("SET tally.acknowledge = {way}")).await.unwrap();
        inserted(&client, id).await.unwrap();
    }
    client.batch_execute("SET tally.acknowledge = certified").await.unwrap();
    let (code, message, detail) = inserted(&client, 3).await.unwrap_err();
    assert_eq!(code, "55000");
    assert!(message.contains("certified by none") && detail.contains("in no block"), "{message}");
    client.batch_execute("RESET tally.acknowledge").await.unwrap();
    inserted(&client, 3).await.unwrap();
    let unknown = client.batch_execute("SET tally.acknowledge = 'soon'").await.unwrap_err();
    assert_eq!(unknown.code().map(|code| code.code()), Some("22023"));
    let members = client.query("SELECT * FROM tally_cluster", &[]).await.unwrap();
    assert!(members.is_empty(), "a lone node has no members");
}
