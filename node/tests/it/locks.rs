//! Transactions that lock, by real clients: what others see of it, and what ends a wait.

use std::time::Duration;

use tokio_postgres::{Client, NoTls};

use super::{Node, path, run};

const RAISE: &str = "UPDATE test SET value = value + 1 WHERE id = 1";

/// Modes and whether they are granted, until a session waits.
async fn locks(client: &Client) -> Vec<(String, bool)> {
    let query = "SELECT mode, granted FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
        WHERE relname = 'test' ORDER BY granted DESC";
    loop {
        let rows = client.query(query, &[]).await.unwrap();
        let locks: Vec<_> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        if locks.iter().any(|(_, granted)| !granted) {
            return locks;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_is_shown_and_ends_by_a_cancel_request_or_with_the_holder() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path());
    let (holder, other) = (node.connect().await, node.connect().await);
    let begin = "CREATE TABLE test (id int PRIMARY KEY, value int);
        INSERT INTO test VALUES (1, 10);
        SET ledger.protocol = '2pl'";
    holder.batch_execute(begin).await.unwrap();
    holder.batch_execute(&format!("BEGIN; {RAISE}")).await.unwrap();
    let waiter = node.connect().await;
    let cancel = waiter.cancel_token();
    let waiting = tokio::spawn(async move { waiter.batch_execute(RAISE).await });
    let exclusive = |granted| ("ExclusiveLock".to_owned(), granted);
    assert_eq!(locks(&other).await, [exclusive(true), exclusive(false)]);
    cancel.cancel_query(NoTls).await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.code().map(|code| code.code()), Some("57014"), "{error}");
    let waiter = node.connect().await;
    let waiting = tokio::spawn(async move { waiter.batch_execute(RAISE).await });
    locks(&other).await;
    // What it has written goes with its locks.
    drop(holder);
    waiting.await.unwrap().unwrap();
    let row = other.query_one("SELECT value FROM test", &[]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 11);
    let held = other.query_one("SELECT count(*) FROM pg_locks", &[]).await.unwrap();
    assert_eq!(held.get::<_, i64>(0), 0);
    drop(other);
    drop(node);
    assert_eq!(run(&["verify", path(folder.path())]).status.code(), Some(0));
}
