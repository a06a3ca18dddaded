//! Which transactions may ask the analytical engine, and what they see.

use types::SqlState;

use super::{Node, block_on, roomy};

const COUNT: &str = "SELECT id, count(*) OVER () FROM t LIMIT 1";

#[test]
fn a_transaction_asks_of_its_own_snapshot_until_it_writes() {
    block_on(async {
        let node = Node::new(&roomy());
        let (mut one, mut other) = (node.session(), node.session());
        one.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)").await;
        one.by_columns().await;
        one.run("BEGIN READ ONLY").await;
        other.run("INSERT INTO t VALUES (2)").await;
        assert_eq!(one.lines(COUNT).await, ["1,1"]);
        one.run("COMMIT; BEGIN; INSERT INTO t VALUES (3)").await;
        let refused = one.error(COUNT).await;
        assert_eq!(refused.code(), SqlState::FEATURE_NOT_SUPPORTED);
        assert!(refused.fields().hint.as_deref().is_some_and(|hint| hint.contains("READ ONLY")));
        one.run("ROLLBACK").await;
        assert_eq!(
            one.lines("SELECT max(n) FROM (SELECT count(*) OVER () AS n FROM t) x").await,
            ["2"]
        );
    });
}

#[test]
fn a_transaction_that_has_asked_does_not_write() {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)").await;
        client.by_columns().await;
        client.run("BEGIN").await;
        assert_eq!(client.lines(COUNT).await, ["1,1"]);
        let refused = client.error("INSERT INTO t VALUES (2)").await;
        assert_eq!(refused.code(), SqlState::FEATURE_NOT_SUPPORTED);
        client.run("ROLLBACK; INSERT INTO t VALUES (2)").await;
        // What was read row by row is in the footprint.
        client.by_router().await;
        client.run("BEGIN").await;
        assert_eq!(client.lines(COUNT).await, ["1,2"]);
        client.run("INSERT INTO t VALUES (3)").await;
        assert_eq!(client.lines(COUNT).await, ["1,3"]);
        client.run("COMMIT").await;
    });
}

#[test]
fn what_is_only_explained_is_not_read() {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)").await;
        client.by_columns().await;
        client.run("BEGIN").await;
        client.run(&format!("EXPLAIN {COUNT}")).await;
        client.run("INSERT INTO t VALUES (2)").await;
        client.run(&format!("EXPLAIN {COUNT}")).await;
        client.run("COMMIT; BEGIN").await;
        client.run(&format!("EXPLAIN ANALYZE {COUNT}")).await;
        let refused = client.error("INSERT INTO t VALUES (3)").await;
        assert_eq!(refused.code(), SqlState::FEATURE_NOT_SUPPORTED);
    });
}

#[test]
fn only_broad_queries_leave_the_fast_path() {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v bigint)").await;
        let fill = "INSERT INTO t SELECT n, n % 10 FROM generate_series(1, 30000) n";
        assert!(!client.run("SELECT sum(v) FROM t").await.by_analytical_engine);
        client.run(fill).await;
        let broad = client.run("SELECT count(*) FROM t WHERE v = 3").await;
        assert!(broad.by_analytical_engine);
        assert_eq!(broad.lines(), ["3000"]);
        assert!(!client.run("SELECT v FROM t WHERE id = 7").await.by_analytical_engine);
        let range = client.run("SELECT count(*) FROM t WHERE id BETWEEN 7 AND 70").await;
        assert!(!range.by_analytical_engine);
        assert_eq!(range.lines(), ["64"]);
        // A transaction that may still write keeps what it reads.
        client.run("BEGIN").await;
        assert!(!client.run("SELECT count(*) FROM t WHERE v = 4").await.by_analytical_engine);
        client.run("COMMIT; BEGIN READ ONLY").await;
        assert!(client.run("SELECT count(*) FROM t WHERE v = 5").await.by_analytical_engine);
    });
}

#[test]
fn a_query_beside_writers_sees_whole_transactions() {
    block_on(async {
        let node = Node::new(&roomy());
        let mut reader = node.session();
        reader.run("CREATE TABLE account (id int PRIMARY KEY, cents bigint NOT NULL)").await;
        reader.run("INSERT INTO account SELECT n, 1000 FROM generate_series(1, 5000) n").await;
        reader.by_columns().await;
        let writers: Vec<_> = (0..2i64)
            .map(|writer| {
                let mut client = node.session();
                tokio::spawn(async move {
                    let mut random = kit::random::Random::new(writer as u64);
                    for _ in 0..100 {
                        let (giver, taker) = (random.below(5_000) + 1, random.below(5_000) + 1);
                        let transfer = format!(
                            "UPDATE account SET cents = cents
                                 + CASE id WHEN {giver} THEN -7 ELSE 0 END
                                 + CASE id WHEN {taker} THEN 7 ELSE 0 END
                             WHERE id IN ({giver}, {taker})"
                        );
                        client.run(&transfer).await;
                    }
                })
            })
            .collect();
        let sums = "SELECT sum(cents), count(*), count(DISTINCT id) FROM
                    (SELECT id, cents, rank() OVER (ORDER BY id) FROM account) a";
        let mut runs = 0;
        while runs < 3 || writers.iter().any(|writer| !writer.is_finished()) {
            let reported = reader.run(sums).await;
            assert!(reported.by_analytical_engine);
            assert_eq!(reported.lines(), ["5000000,5000,5000"]);
            runs += 1;
        }
        for writer in writers {
            writer.await.expect("a writer");
        }
    });
}
