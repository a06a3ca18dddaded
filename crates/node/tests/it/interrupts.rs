//! Long statements over the wire: ended by their client or by a timeout, and in nobody's way.

use std::time::Duration;

use tokio_postgres::error::SqlState;

use super::*;

const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000000000) n WHERE n < 0";

#[test]
fn long_statements_can_be_ended_and_hold_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path());
    let run = async {
        let client = node.connect().await;
        client.batch_execute("SET statement_timeout = '50ms'").await.unwrap();
        let error = client.simple_query(ENDLESS).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
        assert!(error.as_db_error().unwrap().message().ends_with("statement timeout"));
        // The session goes on.
        client.batch_execute("SET statement_timeout = 0; SELECT 1").await.unwrap();

        // More of them than the node has workers.
        let mut tokens = Vec::new();
        let mut running = Vec::new();
        for _ in 0..6 {
            let busy = node.connect().await;
            tokens.push(busy.cancel_token());
            running.push(tokio::spawn(async move { busy.simple_query(ENDLESS).await }));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        client.simple_query("SELECT 1").await.unwrap();
        assert!(running.iter().all(|task| !task.is_finished()));
        for token in tokens {
            token.cancel_query(tokio_postgres::NoTls).await.unwrap();
        }
        for task in running {
            let error = task.await.unwrap().unwrap_err();
            assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
        }
    };
    let run = async { tokio::time::timeout(Duration::from_secs(60), run).await };
    let ended = tokio::runtime::Runtime::new().unwrap().block_on(run);
    assert!(ended.is_ok(), "sessions wait for those that are busy");
}
