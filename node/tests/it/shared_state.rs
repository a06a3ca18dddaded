//! What sessions of a running node share beside the ledger, and what clients ask when they connect.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::poll_fn;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{sleep, timeout};
use tokio_postgres::error::ErrorPosition;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::Node;

const LONG: Duration = Duration::from_secs(20);

/// A client, and the notifications that it is told.
async fn listener(node: &Node) -> (Client, UnboundedReceiver<(String, String)>) {
    let address = node.ready["listen"].as_str().unwrap();
    let url = format!("postgresql://tally@{address}/tally");
    let (client, mut connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let (teller, reported) = unbounded_channel();
    tokio::spawn(async move {
        let mut messages = poll_fn(move |context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(reported) = message {
                _ = teller.send((reported.channel().to_owned(), reported.payload().to_owned()));
            }
        }
    });
    (client, reported)
}

#[tokio::test]
async fn sessions_tell_and_end_one_another() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path());
    let (client, mut reported) = listener(&node).await;
    let other = node.connect().await;
    client.batch_execute("LISTEN news").await.unwrap();
    // The client waits for nothing when it is told.
    other.batch_execute("BEGIN; NOTIFY news, 'one'; NOTIFY news, 'two'; COMMIT").await.unwrap();
    for payload in ["one", "two"] {
        let heard = timeout(LONG, reported.recv()).await.expect("it is told").unwrap();
        assert_eq!(heard, ("news".to_owned(), payload.to_owned()));
    }
    client.batch_execute("SELECT pg_advisory_lock(7, -1)").await.unwrap();
    let locks = "SELECT pid, classid, objid, objsubid, mode FROM pg_locks
                 WHERE locktype = 'advisory' AND granted";
    let lock = other.query_one(locks, &[]).await.unwrap();
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    assert_eq!((lock.get::<_, i32>(0), lock.get::<_, u32>(1)), (pid, 7));
    assert_eq!((lock.get::<_, u32>(2), lock.get::<_, i16>(3)), (u32::MAX, 2));

    let cancel = async {
        sleep(Duration::from_millis(200)).await;
        other.query_one("SELECT pg_cancel_backend($1)", &[&pid]).await.unwrap().get::<_, bool>(0)
    };
    let (slept, canceled) = tokio::join!(client.batch_execute("SELECT pg_sleep(600)"), cancel);
    assert_eq!(slept.unwrap_err().code().unwrap().code(), "57014");
    assert!(canceled);
    client.batch_execute("SELECT 1").await.unwrap();
    let ended = other.query_one("SELECT pg_terminate_backend($1, 5000)", &[&pid]).await.unwrap();
    assert!(ended.get::<_, bool>(0));
    assert!(client.batch_execute("SELECT 1").await.is_err());
    assert!(other.query(locks, &[]).await.unwrap().is_empty(), "its locks are gone");
}

#[tokio::test]
async fn clients_are_told_where_columns_come_from_and_where_errors_are() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path());
    let client = node.connect().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b text)").await.unwrap();
    let oid = client.query_one("SELECT 't'::regclass::oid", &[]).await.unwrap().get::<_, u32>(0);
    let statement = client.prepare("SELECT b, a + 1, a AS x FROM t").await.unwrap();
    let origins = statement.columns().iter().map(|c| (c.table_oid(), c.column_id()));
    let origins: Vec<_> = origins.collect();
    assert_eq!(origins, [(Some(oid), Some(2)), (None, None), (Some(oid), Some(1))]);
    let attribute = "SELECT attnum FROM pg_attribute WHERE attrelid = $1 AND attname = 'b'";
    let number = client.query_one(attribute, &[&oid]).await.unwrap().get::<_, i16>(0);
    assert_eq!(number, 2);

    for (sql, place) in [("SELECT 'é', nope FROM t", 13), ("SELECT 1;\nSELECT a FROM nope", 25)] {
        let error = client.batch_execute(sql).await.unwrap_err();
        let at = error.as_db_error().unwrap().position().cloned();
        assert_eq!(at, Some(ErrorPosition::Original(place)), "{sql}");
    }
    client.batch_execute("COMMENT ON TABLE t IS 'ours'").await.unwrap();
    client.batch_execute("COMMENT ON COLUMN t.b IS 'second'").await.unwrap();
    let comments = "SELECT obj_description($1, 'pg_class'), col_description($1, 2),
                    col_description($1, 1), (SELECT count(*) FROM pg_description)";
    let comments = client.query_one(comments, &[&oid]).await.unwrap();
    assert_eq!(comments.get::<_, Option<&str>>(0), Some("ours"));
    assert_eq!(comments.get::<_, Option<&str>>(1), Some("second"));
    assert_eq!((comments.get::<_, Option<&str>>(2), comments.get::<_, i64>(3)), (None, 2));

    // Text without a statement is no statement.
    assert_eq!(client.execute("", &[]).await.unwrap(), 0);
    client.batch_execute(" ; ").await.unwrap();
}

#[tokio::test]
async fn the_one_database_has_the_names_that_tools_ask_for() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path());
    node.connect().await.batch_execute("CREATE USER ada").await.unwrap();
    let address = node.ready["listen"].as_str().unwrap();
    for (user, database) in [("ada", "ada"), ("ada", "postgres"), ("tally", "template1")] {
        let url = format!("postgresql://{user}@{address}/{database}");
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let shown = client.query_one("SELECT current_database()", &[]).await.unwrap();
        assert_eq!(shown.get::<_, String>(0), database);
    }
    let url = format!("postgresql://ada@{address}/other");
    let refused = tokio_postgres::connect(&url, NoTls).await.err().unwrap();
    assert_eq!(refused.code().unwrap().code(), "3D000");
}

/// What a client of another encoding sends is what others read, and the other way round.
#[tokio::test]
async fn clients_speak_the_encoding_that_they_set() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path());
    let client = node.connect().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b text)").await.unwrap();
    client.batch_execute("INSERT INTO t VALUES (1, 'grün'), (2, '5 €')").await.unwrap();
    for (encoding, _) in sql::settings::CLIENT_ENCODINGS {
        client.batch_execute(&format!("SET client_encoding = '{encoding}'")).await.unwrap();
        let known = pgfront::encoding::Encoding::named(encoding).is_some();
        assert_eq!(known, !["UTF8", "SQL_ASCII"].contains(encoding), "{encoding}");
    }
    let refused = client.batch_execute("SET client_encoding = 'EUC_JP'").await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "22023");
    client.batch_execute("SET client_encoding = 'latin1'").await.unwrap();
    let numbers = "SELECT a FROM t WHERE b = 'gr' || chr(252) || 'n'";
    assert_eq!(client.query_one(numbers, &[]).await.unwrap().get::<_, i32>(0), 1);
    let euro = client.query("SELECT b FROM t WHERE a = 2", &[]).await.unwrap_err();
    assert_eq!(euro.code().unwrap().code(), "22P05");
    client.batch_execute("RESET client_encoding").await.unwrap();
    let euro = client.query_one("SELECT b FROM t WHERE a = 2", &[]).await.unwrap();
    assert_eq!(euro.get::<_, &str>(0), "5 €");
}
