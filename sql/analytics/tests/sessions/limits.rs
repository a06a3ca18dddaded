//! What ends a query before its time.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use analytics::AnalyticsOptions;
use futures::StreamExt;
use sql::analytical_engine::RowBatches;
use sql::session::Answer;
use types::{Error, SqlState};

use super::{Client, Node, block_on, roomy};

/// Hours of work, of whatever kind the operators above it are.
const ENDLESS: &[&str] = &[
    "SELECT count(*) FROM t a, t b, t c WHERE a.v + b.v + c.v < 0",
    "SELECT a.id FROM t a, t b, t c ORDER BY a.v + b.v, c.v",
    "SELECT a.v % 7, count(DISTINCT b.v + c.v) FROM t a CROSS JOIN t b CROSS JOIN t c GROUP BY 1",
];

async fn filled(node: &Node) -> Client {
    let mut client = node.session();
    client.run("CREATE TABLE t (id int PRIMARY KEY, v bigint)").await;
    client.run("INSERT INTO t SELECT n, n % 1000 FROM generate_series(1, 30000) n").await;
    client
}

#[test]
fn a_timeout_and_a_cancel_end_a_join_a_sort_and_a_grouping_at_once() {
    block_on(async {
        let node = Node::new(&AnalyticsOptions { query_bytes_max: 1 << 32, ..roomy() });
        let mut client = filled(&node).await;
        for query in ENDLESS {
            client.run("SET statement_timeout = '150ms'").await;
            let began = Instant::now();
            assert_eq!(client.code(query).await, SqlState::QUERY_CANCELED, "{query}");
            assert!(began.elapsed() < Duration::from_secs(3), "{query}: {:?}", began.elapsed());
            client.run("SET statement_timeout = 0").await;
            let interrupt = client.interrupt.clone();
            let cancel = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(150));
                interrupt.store(true, Ordering::Relaxed);
            });
            let began = Instant::now();
            assert_eq!(client.code(query).await, SqlState::QUERY_CANCELED, "{query}");
            assert!(began.elapsed() < Duration::from_secs(3), "{query}: {:?}", began.elapsed());
            cancel.join().expect("a cancel");
            client.interrupt.store(false, Ordering::Relaxed);
        }
        assert_eq!(client.lines("SELECT count(*) FROM t WHERE v >= 0").await, ["30000"]);
    });
}

#[test]
fn a_query_beyond_its_memory_is_refused_with_what_to_do() {
    block_on(async {
        let node = Node::new(&AnalyticsOptions { query_bytes_max: 1 << 20, ..roomy() });
        let mut client = filled(&node).await;
        let refused = client.error("SELECT DISTINCT a.id, b.id FROM t a, t b").await;
        assert_eq!(refused.code(), SqlState::OUT_OF_MEMORY);
        let hint = refused.fields().hint.clone().unwrap_or_default();
        assert!(hint.contains("analytics_spill_folder"), "{hint}");
        assert_eq!(client.lines("SELECT count(*) FROM t WHERE v >= 0").await, ["30000"]);
    });
}

/// Portals whose client fetched a row of each and went for a coffee.
async fn begin_to_fetch(client: &mut Client, query: &str) -> Result<RowBatches, Error> {
    let source = client.session.read(query)?.remove(0);
    let (prepared, literals) = client.session.prepare_source(source, &[])?;
    let Answer::Stream { mut rows, .. } = client.session.execute(&prepared, &literals).await?
    else {
        panic!("not the analytical engine's: {query}");
    };
    rows.next().await.expect("rows")?;
    Ok(rows)
}

#[test]
fn rows_that_nobody_fetches_give_their_memory_back_and_say_why() {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = filled(&node).await;
        client.run("SET tally.fetch_timeout = '200ms'").await;
        let mut rows = begin_to_fetch(&mut client, "SELECT a.id, b.id FROM t a, t b").await?;
        // A client that fetches now and then has all the time that it takes.
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(80)).await;
            rows.next().await.expect("rows")?;
        }
        assert_eq!(node.analytics.usage().running, 1);
        let began = Instant::now();
        while node.analytics.usage().running > 0 {
            assert!(began.elapsed() < Duration::from_secs(10), "it runs for nobody");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let error = loop {
            match rows.next().await.expect("an error") {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(error.code(), SqlState::QUERY_CANCELED);
        assert!(error.fields().hint.as_deref().unwrap_or_default().contains("fetch_timeout"));
        assert!(rows.next().await.is_none());
        Ok::<_, Error>(())
    })
    .expect("queries that run");
}

#[test]
fn a_session_has_a_bounded_number_of_unfinished_queries() {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = filled(&node).await;
        let endless = "SELECT a.id, b.id FROM t a, t b";
        let mut open = Vec::new();
        let refused = loop {
            match begin_to_fetch(&mut client, endless).await {
                Ok(rows) => open.push(rows),
                Err(error) => break error,
            }
            assert!(open.len() < 100);
        };
        assert_eq!(refused.code(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        assert!(refused.fields().hint.is_some());
        // The others' queries go on, and its own, when one was closed.
        assert_eq!(node.session().lines("SELECT count(*) FROM t WHERE v >= 0").await, ["30000"]);
        open.pop();
        assert!(begin_to_fetch(&mut client, endless).await.is_ok());
    });
}

#[test]
fn a_timeout_and_a_cancel_end_the_planning() {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = filled(&node).await;
        client.run("CREATE VIEW v0 AS SELECT id, v FROM t").await;
        for level in 1..=8 {
            let below = level - 1;
            let view = format!(
                "CREATE VIEW v{level} AS SELECT a.id, rank() OVER (ORDER BY b.v) AS v
                 FROM v{below} a JOIN v{below} b ON a.id = b.id"
            );
            client.run(&view).await;
        }
        // Some five hundred windows over as many joins take seconds to plan.
        let vast = "SELECT * FROM v8";
        client.run("SET statement_timeout = '50ms'").await;
        let began = Instant::now();
        assert_eq!(client.code(vast).await, SqlState::QUERY_CANCELED);
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        client.run("SET statement_timeout = 0").await;
        client.interrupt.store(true, Ordering::Relaxed);
        assert_eq!(client.code(vast).await, SqlState::QUERY_CANCELED);
        client.interrupt.store(false, Ordering::Relaxed);
    });
}
