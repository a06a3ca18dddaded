//! What ends a query before its time.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use analytics::AnalyticsOptions;
use types::SqlState;

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
