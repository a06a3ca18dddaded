//! Every protocol on a live ledger: chosen by SQL, under contention, killed and recovered.

use concurrency::ProtocolInfo;
use rustix::process::Signal;
use tokio_postgres::Client;

use super::{Node, path, run};

const CLIENTS: i64 = 6;
const ROUNDS: i64 = 15;

/// Increments of one row; returns how often the client was told to try again.
async fn increment(client: Client) -> u64 {
    let mut retries = 0;
    for _ in 0..ROUNDS {
        while let Err(error) = client.batch_execute("UPDATE hot SET n = n + 1 WHERE id = 1").await {
            let code = error.code().map(|code| code.code().to_owned());
            assert_eq!(code.as_deref(), Some("40001"), "{error}");
            retries += 1;
        }
    }
    retries
}

/// A protocol that puts transactions off retries them itself: of that clients hear nothing.
fn tells_clients(info: &ProtocolInfo) -> bool {
    info.may_retry && info.name != "aria"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_is_chosen_on_a_live_ledger_contended_killed_and_recovered() {
    multiversion::register();
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(folder.path());
    let client = node.connect().await;
    client
        .batch_execute(
            "CREATE TABLE hot (id int PRIMARY KEY, n int); INSERT INTO hot VALUES (1, 0)",
        )
        .await
        .unwrap();
    drop(client);
    for (done, info) in (1..).zip(::protocols::infos()) {
        let protocol = info.name;
        let admin = node.connect().await;
        admin.batch_execute(&format!("SET ledger.protocol = '{protocol}'")).await.unwrap();
        let mut tasks = Vec::new();
        for _ in 0..CLIENTS {
            tasks.push(tokio::spawn(increment(node.connect().await)));
        }
        for task in tasks {
            let retries = task.await.unwrap();
            assert!(retries == 0 || tells_clients(info), "{protocol}: {retries} retries");
        }
        node.signal(Signal::KILL);
        node = Node::start(folder.path());
        let client = node.connect().await;
        let row = client.query_one("SELECT n FROM hot WHERE id = 1", &[]).await.unwrap();
        assert_eq!(i64::from(row.get::<_, i32>(0)), CLIENTS * ROUNDS * done, "{protocol}");
        let row = client.query_one("SHOW ledger.protocol", &[]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), protocol);
    }
    node.signal(Signal::TERM);
    assert_eq!(run(&["verify", path(folder.path())]).status.code(), Some(0));
}
