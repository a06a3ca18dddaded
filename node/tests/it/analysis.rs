//! Queries over much data, from a client's side of the wire.

use std::time::{Duration, Instant};

use futures::StreamExt;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::Node;
use crate::interrupts::CANCELLED;

const ROWS: i64 = 50_000;

async fn filled(node: &Node) -> Client {
    let client = node.connect().await;
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, v bigint, s text)").await.unwrap();
    let fill = "INSERT INTO t SELECT n, n % 100, 'row' FROM generate_series($1::int, $2::int) n";
    for part in 0..5 {
        let (first, last) = (part * 10_000 + 1, (part + 1) * 10_000);
        client.execute(fill, &[&first, &last]).await.unwrap();
    }
    client
}

fn on_a_node(test: impl AsyncFnOnce(Node, Client)) {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start_with(crate::tally(&[]), &folder.path().join("data"), &[]);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = filled(&node).await;
        test(node, client).await;
    });
}

#[test]
fn a_prepared_query_is_described_and_its_rows_come_as_they_are_fetched() {
    on_a_node(async |_, mut client| {
        let query = "SELECT id, sum(v) OVER (ORDER BY id) AS total FROM t WHERE v < $1 ORDER BY id";
        let statement = client.prepare(query).await.unwrap();
        assert_eq!(statement.params(), [Type::INT8]);
        let types: Vec<Type> = statement.columns().iter().map(|c| c.type_().clone()).collect();
        assert_eq!(types, [Type::INT4, Type::NUMERIC]);
        let rows = client.query(&statement, &[&1i64]).await.unwrap();
        assert_eq!(rows.len(), 500);
        // A portal that is fetched in pieces, and left before its end.
        let transaction = client.build_transaction().read_only(true).start().await.unwrap();
        let portal = transaction.bind(&statement, &[&100i64]).await.unwrap();
        let first = transaction.query_portal(&portal, 10).await.unwrap();
        assert_eq!(
            first.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(),
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
        );
        let next = transaction.query_portal(&portal, 5_000).await.unwrap();
        assert_eq!(next.len(), 5_000);
        assert_eq!(next[0].get::<_, i32>(0), 11);
        drop(portal);
        transaction.commit().await.unwrap();
    });
}

#[test]
fn a_result_that_nobody_reads_to_its_end_is_not_made() {
    on_a_node(async |_, client| {
        let endless = "SELECT a.id, b.id FROM t a CROSS JOIN t b";
        let began = Instant::now();
        let rows = client.query_raw(endless, std::iter::empty::<i32>()).await.unwrap();
        let some = std::pin::pin!(rows).take(20_000).count().await;
        assert_eq!(some, 20_000);
        assert!(began.elapsed() < Duration::from_secs(60));
    });
}

#[test]
fn a_cancel_request_ends_a_query_in_the_middle() {
    on_a_node(async |_, client| {
        let token = client.cancel_token();
        let cancel = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let asked = Instant::now();
            token.cancel_query(tokio_postgres::NoTls).await.unwrap();
            asked
        });
        let endless = "SELECT count(*) FROM t a, t b, t c WHERE a.v + b.v + c.v < 0";
        let error = client.query(endless, &[]).await.unwrap_err();
        let ended = Instant::now();
        assert_eq!(error.code().map(|code| code.code()), Some("57014"));
        CANCELLED.hold(ended.saturating_duration_since(cancel.await.unwrap()));
        let count: i64 = client.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get(0);
        assert_eq!(count, ROWS);
    });
}

fn running(node: &Node) -> u64 {
    let page = node.fetch("/metrics");
    let line = page.lines().find_map(|line| line.strip_prefix("tally_analytical_queries "));
    line.and_then(|count| count.parse::<f64>().ok()).expect("a count of queries") as u64
}

async fn until_running(node: &Node, count: u64) {
    let began = Instant::now();
    while running(node) != count {
        assert!(began.elapsed() < Duration::from_secs(10), "{} run, not {count}", running(node));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_client_that_is_gone_ends_its_query_and_explanation() {
    on_a_node(async |node, _| {
        let endless = "SELECT count(*) FROM t a, t b, t c WHERE a.v + b.v + c.v < 0";
        for text in [endless, &format!("EXPLAIN ANALYZE {endless}")] {
            let (client, socket) = node.connect_by_task().await;
            tokio::select! {
                answer = client.simple_query(text) => panic!("{answer:?}"),
                () = until_running(&node, 1) => {}
            }
            socket.abort();
            until_running(&node, 0).await;
        }
    });
}

#[test]
fn a_portal_that_is_forgotten_gives_its_memory_back() {
    on_a_node(async |node, mut client| {
        client.batch_execute("SET tally.fetch_timeout = '300ms'").await.unwrap();
        let transaction = client.build_transaction().read_only(true).start().await.unwrap();
        let portal = transaction.bind("SELECT a.id, b.id FROM t a, t b", &[]).await.unwrap();
        assert_eq!(transaction.query_portal(&portal, 10).await.unwrap().len(), 10);
        assert_eq!(running(&node), 1);
        until_running(&node, 0).await;
        let error = loop {
            match transaction.query_portal(&portal, 10_000).await {
                Ok(rows) => assert!(!rows.is_empty()),
                Err(error) => break error,
            }
        };
        assert_eq!(error.code().map(|code| code.code()), Some("57014"));
        assert!(error.as_db_error().unwrap().hint().unwrap().contains("tally.fetch_timeout"));
    });
}

#[test]
fn what_images_cost_is_on_the_page_of_metrics() {
    on_a_node(async |node, client| {
        let count = |name: &str| {
            let page = node.fetch("/metrics");
            let line = page.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("no {name}: {page}")).trim().parse::<f64>().unwrap()
        };
        for (built, reused) in [(true, false), (false, true)] {
            let before = ["tally_image_built_bytes_total ", "tally_image_reused_bytes_total "];
            let before = before.map(|name| (name, count(name)));
            client.simple_query("SELECT sum(v) FROM t WHERE v > 7").await.unwrap();
            let grown = before.map(|(name, before)| count(name) > before);
            assert_eq!(grown, [built, reused]);
        }
        client.simple_query("UPDATE t SET v = 8 WHERE id = 5").await.unwrap();
        client.simple_query("SELECT sum(v) FROM t WHERE v > 7").await.unwrap();
        assert!(count("tally_image_patched_bytes_total ") > 0.0);
        assert!(count("tally_image_bytes ") > 0.0);
        assert_eq!(count("tally_image_scans_total "), 3.0);
        assert_eq!(count("tally_image_evictions_total "), 0.0);
    });
}

#[test]
fn copy_writes_what_a_query_finds() {
    on_a_node(async |_, client| {
        let copy = "COPY (SELECT v, count(*), NULL AS n, min(s) || ',' AS s,
                                 rank() OVER (ORDER BY v)
                          FROM t WHERE v < 3 GROUP BY v ORDER BY v)
                    TO STDOUT WITH (FORMAT csv, HEADER, DELIMITER ',', NULL '-')";
        let stream = client.copy_out(copy).await.unwrap();
        let bytes: Vec<u8> =
            stream.map(|chunk| chunk.unwrap().to_vec()).collect::<Vec<_>>().await.concat();
        let expected =
            "v,count,n,s,rank\n0,500,-,\"row,\",1\n1,500,-,\"row,\",2\n2,500,-,\"row,\",3\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        let whole = client.copy_out("COPY t TO STDOUT").await.unwrap();
        let lines = whole
            .map(|chunk| chunk.unwrap().iter().filter(|byte| **byte == b'\n').count())
            .fold(0, |sum, lines| async move { sum + lines })
            .await;
        assert_eq!(lines as i64, ROWS);
    });
}

#[test]
fn explain_says_who_runs_a_query_and_why() {
    on_a_node(async |_, client| {
        let explain = async |text: &str| {
            let rows = client.simple_query(text).await.unwrap();
            let lines = rows.iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        let fast = explain("EXPLAIN SELECT v FROM t WHERE id = 5").await;
        assert!(fast.starts_with("Router: fast path, because"), "{fast}");
        let broad = explain("EXPLAIN ANALYZE SELECT sum(v) FROM t WHERE v > 7").await;
        assert!(broad.starts_with("Router: DataFusion, because it reads whole tables"), "{broad}");
        for part in ["ImageScan: t as of block", "groups=", "image_built_bytes=", "Elapsed: "] {
            assert!(broad.contains(part), "{part}: {broad}");
        }
        let again = explain("EXPLAIN ANALYZE SELECT sum(v) FROM t WHERE v > 7").await;
        assert!(again.contains("image_built_bytes=0"), "{again}");
        let refused = explain("EXPLAIN SELECT corr(v, v) FROM t WHERE id = 5").await;
        assert!(refused.contains("because the fast path says:"), "{refused}");
        assert!(refused.contains("KeyScan: t as of block"), "{refused}");
        let ranked = "EXPLAIN SELECT rank() OVER (ORDER BY v) FROM t WHERE id = 5";
        let fast = explain(ranked).await;
        assert!(fast.starts_with("Router: fast path, because it reads no table"), "{fast}");
        client.batch_execute("SET tally.executor = columns").await.unwrap();
        let asked = explain(ranked).await;
        assert!(asked.starts_with("Router: DataFusion, because tally.executor says so"), "{asked}");
        assert!(asked.contains("KeyScan: t as of block"), "{asked}");
        client.batch_execute("SET tally.executor = rows").await.unwrap();
        let rows = explain("EXPLAIN SELECT sum(v) FROM t WHERE v > 7").await;
        assert!(rows.starts_with("Router: fast path, because tally.executor says so"), "{rows}");
    });
}
