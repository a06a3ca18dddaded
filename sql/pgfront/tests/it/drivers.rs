//! Real clients: tokio-postgres, and psql and pgbench where they are installed.

use std::process::{Command, Output};

use futures::future::try_join_all;
use futures::{SinkExt, StreamExt, TryStreamExt, pin_mut};
use pgfront::{Listener, Options};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::TestServer;

async fn connect(server: &TestServer, more: &str) -> Result<Client, tokio_postgres::Error> {
    let port = server.address.port();
    let config = format!("host=127.0.0.1 port={port} user=bench {more}");
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// As libpq does it: the folder as host, the port as part of the file's name. The file that a
/// killed server left is replaced, that of a running one is not.
#[tokio::test]
async fn a_folder_is_a_host_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = 5460;
    let path = folder.path().join(format!(".s.PGSQL.{port}"));
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a file that nobody removes"));
    let listener = Listener::unix(folder.path(), port).expect("a left file is replaced");
    let nowhere = "127.0.0.1:0".parse().expect("an address");
    let server = TestServer::on(listener, nowhere, Options::default());
    assert!(Listener::unix(folder.path(), port).is_err(), "a running server's file is kept");

    // `prefer` asks for TLS first, and takes no for an answer.
    let host = folder.path().display();
    let config = format!("host={host} port={port} user=bench sslmode=prefer");
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.expect("a client");
    tokio::spawn(connection);
    let row = client.query_one("echo int4", &[&7i32]).await.expect("a row");
    assert_eq!(row.get::<_, i32>(0), 7);
    assert!(path.exists(), "who was refused has not removed it");
    drop(client);
    server.stop().await;
    assert!(!path.exists(), "the file goes with its server");
}

#[tokio::test]
async fn values_travel_in_binary() {
    let server = TestServer::start().await;
    let client = connect(&server, "").await.expect("a client");
    let statement = client
        .prepare("echo int2 int4 int8 float8 bool text bytea text")
        .await
        .expect("a statement");
    let row = client
        .query_one(
            &statement,
            &[&-2i16, &i32::MIN, &i64::MAX, &0.1f64, &true, &"häß", &&b"\0\xff"[..], &None::<&str>],
        )
        .await
        .expect("a row");
    assert_eq!(row.get::<_, i16>(0), -2);
    assert_eq!(row.get::<_, i32>(1), i32::MIN);
    assert_eq!(row.get::<_, i64>(2), i64::MAX);
    assert_eq!(row.get::<_, f64>(3), 0.1);
    assert!(row.get::<_, bool>(4));
    assert_eq!(row.get::<_, &str>(5), "häß");
    assert_eq!(row.get::<_, &[u8]>(6), b"\0\xff");
    assert_eq!(row.get::<_, Option<&str>>(7), None);
}

#[tokio::test]
async fn many_queries_in_flight() {
    let server = TestServer::start().await;
    let client = connect(&server, "").await.expect("a client");
    let statement = client.prepare("echo int8").await.expect("a statement");
    let queries = (0..200i64).map(|n| {
        let (client, statement) = (&client, &statement);
        async move {
            let row = client.query_one(statement, &[&n]).await?;
            Ok::<_, tokio_postgres::Error>(row.get::<_, i64>(0) == n)
        }
    });
    let answers = try_join_all(queries).await.expect("all rows");
    assert!(answers.into_iter().all(|right| right));
}

#[tokio::test]
async fn portals_and_transactions() {
    let server = TestServer::start().await;
    let mut client = connect(&server, "").await.expect("a client");
    // Its own verbs are upper case and carry more words.
    let transaction = client.transaction().await.expect("a block");
    let portal = transaction.bind("rows 5", &[]).await.expect("a portal");
    let mut fetched = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 2).await.expect("rows");
        if rows.is_empty() {
            break;
        }
        fetched.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
    }
    assert_eq!(fetched, [1, 2, 3, 4, 5]);
    transaction.rollback().await.expect("an end");
    let messages = client.simple_query("rows 2").await.expect("rows");
    assert!(matches!(messages.last(), Some(SimpleQueryMessage::CommandComplete(2))));
}

#[tokio::test]
async fn rows_that_are_made_as_they_are_fetched() {
    let server = TestServer::start().await;
    let mut client = connect(&server, "").await.expect("a client");
    let messages = client.simple_query("stream 10").await.expect("rows");
    assert!(matches!(messages.last(), Some(SimpleQueryMessage::CommandComplete(10))));
    let transaction = client.transaction().await.expect("a block");
    let portal = transaction.bind("stream endless", &[]).await.expect("a portal");
    for (count, last) in [(2, 2), (5, 7), (3, 10)] {
        let rows = transaction.query_portal(&portal, count).await.expect("rows");
        assert_eq!(rows.len(), count as usize);
        assert_eq!(rows[rows.len() - 1].get::<_, i32>(0), last);
    }
    transaction.rollback().await.expect("an end");
    let error = client.query("stream fault", &[]).await.expect_err("a fault in the middle");
    assert_eq!(error.code().map(|code| code.code()), Some("23505"));
    assert_eq!(client.query("stream 4", &[]).await.expect("rows").len(), 4);
}

#[tokio::test]
async fn copy_in_and_out() {
    let server = TestServer::start().await;
    let client = connect(&server, "").await.expect("a client");
    let sink = client.copy_in("copy in").await.expect("a sink");
    pin_mut!(sink);
    for _ in 0..100 {
        let lines = bytes::Bytes::from("1\tline\n".repeat(1000));
        sink.send(lines).await.expect("room");
    }
    assert_eq!(sink.finish().await.expect("an end"), 100_000);
    let lines = client.copy_out("copy out 1000").await.expect("a stream");
    let chunks: Vec<_> = lines.try_collect().await.expect("lines");
    assert_eq!(chunks.concat().iter().filter(|b| **b == b'\n').count(), 1000);
    // Dropping the sink is CopyFail.
    let sink = client.copy_in::<_, bytes::Bytes>("copy in").await;
    drop(sink.expect("a sink"));
    assert_eq!(client.query("rows 1", &[]).await.expect("a row").len(), 1);
    // A stream that is not read to its end does not spoil what follows.
    let mut lines = Box::pin(client.copy_out("copy out 50000").await.expect("a stream"));
    lines.next().await.expect("a line").expect("no error");
    drop(lines);
    assert_eq!(client.query("rows 1", &[]).await.expect("a row").len(), 1);
}

#[tokio::test]
async fn errors_have_all_their_fields() {
    let server = TestServer::start().await;
    let client = connect(&server, "").await.expect("a client");
    let error = client.execute("fail", &[]).await.expect_err("an error");
    let error = error.as_db_error().expect("the server's error");
    assert_eq!(*error.code(), SqlState::UNIQUE_VIOLATION);
    assert_eq!(error.severity(), "ERROR");
    assert_eq!(error.message(), "duplicate key");
    assert_eq!(error.detail(), Some("Key (id)=(1) already exists."));
    assert_eq!(error.hint(), Some("Try another."));
    assert_eq!(error.table(), Some("accounts"));
    assert_eq!(error.column(), Some("id"));
    assert_eq!(error.constraint(), Some("accounts_pkey"));
    let position = tokio_postgres::error::ErrorPosition::Original(3);
    assert_eq!(error.position(), Some(&position));
}

#[tokio::test]
async fn a_cancel_request_interrupts_a_waiting_statement() {
    let server = TestServer::start().await;
    let client = connect(&server, "").await.expect("a client");
    let token = client.cancel_token();
    let cancel = async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        token.cancel_query(NoTls).await
    };
    let (waited, cancelled) = futures::join!(client.simple_query("wait"), cancel);
    cancelled.expect("a request");
    let error = waited.expect_err("an interruption");
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
    // What comes while nothing runs cancels nothing.
    token.cancel_query(NoTls).await.expect("a request");
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    client.simple_query("nap").await.expect("a whole nap");
}

#[tokio::test]
async fn passwords_are_checked() {
    let server = TestServer::start().await;
    let right = format!("user=alice password={}", crate::fake::ALICE_PASSWORD);
    connect(&server, &right).await.expect("the right password");
    for user in ["alice", "mallory"] {
        let wrong = format!("user={user} password=wrong");
        let error = connect(&server, &wrong).await.expect_err("a refusal");
        assert_eq!(error.code(), Some(&SqlState::INVALID_PASSWORD));
        let message = error.as_db_error().expect("a report").message().to_owned();
        let expected = format!("password authentication failed for user \"{user}\"");
        assert_eq!(message, expected);
    }
}

/// Runs a program against the server. Where it is not installed the test fails: `make test` sees to
/// it that it is.
async fn program(server: &TestServer, name: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(name);
    let port = server.address.port().to_string();
    command
        .args(["-h", "127.0.0.1", "-p", &port, "-U", "bench"])
        .args(arguments)
        .env("PGOPTIONS", "-c work_mem=1MB")
        .env("PGSSLMODE", "prefer");
    let ran = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic");
    ran.unwrap_or_else(|error| panic!("{name}, which this test needs, does not run: {error}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_is_content() {
    let server = TestServer::start().await;
    let script = ["-d", "x", "-qAt", "-c", "rows 2", "-c", "copy out 2", "-c", "who"];
    let output = program(&server, "psql", &script).await;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    let expected = "1\n2\n1\tline\n2\tline\nbench|[(\"work_mem\", \"1MB\")]|f\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn pgbench_is_content() {
    let server = TestServer::start().await;
    let script = std::env::temp_dir().join(format!("pgfront-{}.sql", std::process::id()));
    let statements = "select x where aid = :aid;\nbegin;\nadd :aid;\ncommit;\n";
    std::fs::write(&script, statements).expect("a script");
    let path = script.to_string_lossy().into_owned();
    for mode in ["simple", "extended", "prepared"] {
        let arguments = ["-n", "-M", mode, "-D", "aid=1", "-c2", "-t20", "-f", &path, "x"];
        let output = program(&server, "pgbench", &arguments).await;
        let report = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(report.contains("processed: 40/40"), "{mode}: {report}{errors}");
    }
    std::fs::remove_file(script).expect("the script");
}
