//! What memory a node takes, and what it refuses to take.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::interrupts::ANSWERED;
use crate::{Node, tally};

fn on_a_node(settings: &[&str], test: impl AsyncFnOnce(Client)) {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start_with(tally(&[]), &folder.path().join("data"), settings);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async { test(node.connect().await).await });
}

/// Bytes of a part of the server, or of a table's.
async fn memory(client: &Client, part: &str) -> i64 {
    let query = "SELECT sum(bytes)::bigint FROM tally_memory WHERE part = $1";
    client.query_one(query, &[&part]).await.unwrap().get(0)
}

#[test]
fn a_row_that_is_overwritten_again_and_again_takes_no_more_memory() {
    on_a_node(&[], async |client| {
        client.batch_execute("CREATE TABLE hot (a int PRIMARY KEY, b text)").await.unwrap();
        client.batch_execute("INSERT INTO hot VALUES (1, '')").await.unwrap();
        let update = "UPDATE hot SET b = repeat('x', $1) || 'end' WHERE a = 1";
        let update = client.prepare(update).await.unwrap();
        let mut strings = Vec::new();
        for round in 0..4 {
            for length in 0..400 {
                client.execute(&update, &[&(20 + length % 60)]).await.unwrap();
            }
            let free = memory(&client, "free for strings").await;
            assert!(round == 0 || free > 0, "some have been left");
            strings.push(free + memory(&client, "rows").await);
        }
        assert!(strings[3] <= strings[0] + 4096, "{strings:?}");
        let [process, program, allocated, rows] = [
            memory(&client, "process").await,
            memory(&client, "program").await,
            memory(&client, "allocated").await,
            memory(&client, "rows").await,
        ];
        assert!(process > program + rows && program > 0, "{process} {program} {rows}");
        assert!((1 << 20..process).contains(&allocated), "{allocated} of {process}");
        let name = "SELECT DISTINCT name FROM tally_memory WHERE name IS NOT NULL";
        assert_eq!(client.query_one(name, &[]).await.unwrap().get::<_, &str>(0), "hot");
    });
}

/// Bytes of rows are inserted until the node refuses; how many rows.
async fn fill(client: &Client, first: i32) -> i32 {
    for batch in 0..200 {
        let from = first + batch * 1000;
        let insert = format!(
            "INSERT INTO big SELECT n, repeat('x', 1000) FROM generate_series({from}, {}) n",
            from + 999
        );
        if let Err(error) = client.execute(&*insert, &[]).await {
            let error = error.as_db_error().unwrap();
            assert_eq!(error.code().code(), "53200", "{error}");
            assert!(error.hint().unwrap().contains("memory_bytes_max"), "{error:?}");
            return batch * 1000;
        }
    }
    panic!("the node took 200 MB")
}

#[test]
fn tables_stay_within_their_memory_and_go_on_when_there_is_room() {
    let settings = ["--set", "memory_bytes_max=40000000", "--set", "snapshot_retention="];
    on_a_node(&settings, async |client| {
        client.batch_execute("CREATE TABLE big (a int PRIMARY KEY, b text)").await.unwrap();
        client.batch_execute("CREATE TABLE small (a int PRIMARY KEY)").await.unwrap();
        let rows = fill(&client, 0).await;
        assert!((20_000..150_000).contains(&rows), "{rows}");
        let count = client.query_one("SELECT count(*) FROM big", &[]).await.unwrap();
        assert_eq!(count.get::<_, i64>(0), i64::from(rows));
        let refused = client.execute("INSERT INTO small VALUES (1)", &[]).await.unwrap_err();
        assert_eq!(refused.code().unwrap().code(), "53200");
        client.execute("DELETE FROM big WHERE a % 2 = 0", &[]).await.unwrap();
        // Places are free when a block after has been collected, which is not at once.
        let mut inserted = false;
        for row in (1..200).step_by(2) {
            let delete = format!("DELETE FROM big WHERE a = {row}");
            client.batch_execute(&delete).await.unwrap();
            inserted = client.batch_execute("INSERT INTO small VALUES (1)").await.is_ok();
            if inserted {
                break;
            }
        }
        assert!(inserted, "half of the rows are gone");
        assert!(fill(&client, 1_000_000).await > 1000);
        client.batch_execute("DROP TABLE big").await.unwrap();
        // A reader may see it for a moment still.
        let until = Instant::now() + Duration::from_secs(10);
        while let Err(error) = client.execute("INSERT INTO small VALUES (2)", &[]).await {
            assert!(Instant::now() < until, "{error:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn tables_that_come_and_go_leave_nothing_but_what_snapshots_show() {
    let settings = ["--set", "snapshot_retention=every 5 blocks keep 2"];
    on_a_node(&settings, async |client| {
        let mut dropped = Vec::new();
        for round in 0..60 {
            for text in [
                "CREATE TABLE passing (a int PRIMARY KEY, b text)",
                "INSERT INTO passing SELECT n, repeat('x', 1000) FROM generate_series(1, 500) n",
                "DROP TABLE passing",
            ] {
                client.batch_execute(text).await.unwrap();
            }
            if round % 10 == 9 {
                dropped.push(memory(&client, "dropped tables").await);
            }
        }
        assert!(dropped.iter().all(|bytes| *bytes < 20_000_000), "{dropped:?}");
        assert!(dropped.iter().any(|bytes| *bytes > 500_000), "{dropped:?}");
        client.batch_execute("CREATE TABLE stays (a int PRIMARY KEY)").await.unwrap();
        for row in 0..40 {
            client.execute("INSERT INTO stays VALUES ($1)", &[&row]).await.unwrap();
        }
        eventually("no snapshot shows them", async || {
            client.batch_execute("UPDATE stays SET a = a + 100").await.unwrap();
            memory(&client, "dropped tables").await == 0
        })
        .await;
    });
}

/// A session of which the test sees every byte.
fn raw_session(node: &Node) -> TcpStream {
    let mut stream = TcpStream::connect(node.ready["listen"].as_str().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let body = b"\0\x03\0\0user\0tally\0database\0tally\0\0";
    stream.write_all(&(body.len() as u32 + 4).to_be_bytes()).unwrap();
    stream.write_all(body).unwrap();
    while next_message(&mut stream).0 != b'Z' {}
    stream
}

fn next_message(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut header = [0; 5];
    stream.read_exact(&mut header).unwrap();
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]);
    let mut body = vec![0; length as usize - 4];
    stream.read_exact(&mut body).unwrap();
    (header[0], body)
}

fn send(stream: &mut TcpStream, kind: u8, body: &[u8]) {
    let length = (body.len() as u32 + 4).to_be_bytes();
    stream.write_all(&[&[kind], &length[..], body].concat()).unwrap();
}

/// Polls until it is so, or a minute is over.
async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..600 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{what}");
}

#[test]
fn clients_that_do_not_read_their_results_take_no_more_than_the_sessions_memory() {
    const BYTES_MAX: i64 = 200_000_000;
    let folder = tempfile::tempdir().unwrap();
    let setting = format!("session_memory_bytes_max={BYTES_MAX}");
    let data = folder.path().join("data");
    let node = Node::start_with(tally(&[]), &data, &["--set", &setting]);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = node.connect().await;
        // What a first query brings into memory is none of the sessions'.
        let warm = "SELECT n, repeat('x', 1000) FROM generate_series(1, 20000) n";
        for _ in 0..2 {
            client.simple_query(warm).await.unwrap();
        }
        let before = memory(&client, "process").await;
        let query = "SELECT n, repeat('x', 1000) FROM generate_series(1, 100000) n\0";
        let slow = |_| {
            let mut stream = raw_session(&node);
            send(&mut stream, b'Q', query.as_bytes());
            stream
        };
        let (mut answered, mut refused) = (0, 0);
        // One after another: together each may be refused for the sake of the others.
        let mut streams: Vec<TcpStream> = Vec::new();
        for number in 0..20 {
            streams.push(slow(number));
            match next_message(&mut streams[number]) {
                (b'T', _) => answered += 1,
                (b'E', error) => {
                    let error = String::from_utf8_lossy(&error).into_owned();
                    assert!(error.contains("C53200"), "{error}");
                    assert!(error.contains("session_memory_bytes_max"), "{error}");
                    refused += 1;
                }
                (kind, _) => panic!("{}", char::from(kind)),
            }
            let asked = Instant::now();
            client.simple_query("SELECT 1").await.unwrap();
            ANSWERED.hold(asked.elapsed());
            let grown = memory(&client, "process").await - before;
            assert!(grown < BYTES_MAX / 4 * 5, "{grown} bytes, {answered} answered");
        }
        assert!((1..=2).contains(&answered) && answered + refused == 20, "{answered} {refused}");
        assert!(memory(&client, "sessions").await > BYTES_MAX / 3);
        let metrics = node.fetch("/metrics");
        assert!(metrics.contains("\ntally_session_memory_max_bytes 200000000"), "{metrics}");
        drop(streams);
        // Buffers of sessions that live stay with them.
        let is_given_back = async || memory(&client, "sessions").await < 1 << 20;
        eventually("the memory is given back", is_given_back).await;
    });
}
