//! SELECT … FOR UPDATE and FOR SHARE where the protocol itself locks nothing: who waits for whom, who
//! passes whom over, and that a queue hands out each job once.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kit::random::Random;
use types::{SqlState, Value};

use super::{Client, Node, block_on, code, protocols};

const PROTOCOLS: [&str; 5] = ["harmony", "quecc", "serial", "silo", "aria"];

async fn a_node(protocol: &str) -> Node {
    let node = Node::new(protocol);
    let mut client = node.session();
    for statement in [
        "CREATE TABLE jobs (id int PRIMARY KEY, state text NOT NULL, owner int)",
        "CREATE INDEX ON jobs (state)",
        "CREATE TABLE keyless (v int)",
        "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL)",
        "INSERT INTO jobs SELECT g, 'ready' FROM generate_series(1, 60) AS g(g)",
        "INSERT INTO keyless VALUES (1), (2)",
        "INSERT INTO t SELECT g, 100 FROM generate_series(1, 4) AS g(g)",
    ] {
        client.run(statement).await.unwrap();
    }
    node
}

async fn waits<T>(future: &mut (impl Future<Output = T> + Unpin)) -> bool {
    tokio::time::timeout(Duration::from_millis(60), future).await.is_err()
}

async fn begun(node: &Node, statement: &str) -> Client {
    let mut client = node.session();
    client.run("BEGIN").await.unwrap();
    client.run(statement).await.unwrap();
    client
}

fn nothing_is_locked(node: &Node) {
    assert_eq!(node.database.engine.locks().held(), 0);
}

fn numbers(rows: &[super::Row]) -> Vec<i64> {
    rows.iter().map(|row| row[0].as_int().expect("a number")).collect()
}

#[test]
fn who_waits_for_a_row_sees_what_its_holder_made_of_it() {
    block_on(async {
        for protocol in PROTOCOLS {
            let node = a_node(protocol).await;
            let mut a = begun(&node, "SELECT v FROM t WHERE id = 1 FOR UPDATE").await;
            let mut b = begun(&node, "SELECT v FROM t WHERE id = 2 FOR UPDATE").await;
            a.run("UPDATE t SET v = v + 1 WHERE id = 1").await.unwrap();
            {
                let mut reading = pin!(b.number("SELECT v FROM t WHERE id = 1 FOR UPDATE"));
                assert!(waits(&mut reading).await, "{protocol}");
                a.run("COMMIT").await.unwrap();
                assert_eq!(reading.await, 101, "{protocol}");
            }
            b.run("UPDATE t SET v = v + 1 WHERE id IN (1, 2)").await.unwrap();
            b.run("COMMIT").await.unwrap();
            assert_eq!(b.number("SELECT sum(v) FROM t").await, 403);
            nothing_is_locked(&node);
            node.verify();
        }
    });
}

/// By each of the ways that workers take jobs: none ends in an error, and none gets a job twice.
#[test]
fn a_queue_hands_out_each_job_once() {
    const TAKE: &str = "SELECT id FROM jobs WHERE state = 'ready' ORDER BY id LIMIT 1 \
                        FOR UPDATE SKIP LOCKED";
    const AT_ONCE: &str = "UPDATE jobs SET state = 'done', owner = 1 WHERE id = (SELECT id FROM \
                           jobs WHERE state = 'ready' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) \
                           RETURNING id";
    const BY_NAME: &str = "WITH next AS (SELECT id FROM jobs WHERE state = 'ready' LIMIT 2 \
                           FOR UPDATE SKIP LOCKED) UPDATE jobs SET state = 'done', owner = 2 \
                           FROM next WHERE jobs.id = next.id RETURNING jobs.id";
    block_on(async {
        for protocol in PROTOCOLS {
            let node = a_node(protocol).await;
            let taken = Arc::new(Mutex::new(Vec::new()));
            let workers = (0..6).map(|worker| {
                let (mut client, taken) = (node.session(), Arc::clone(&taken));
                tokio::spawn(async move {
                    loop {
                        let ids = match worker % 3 {
                            0 => {
                                client.run("BEGIN").await.unwrap();
                                let ids = numbers(&client.run(TAKE).await.unwrap());
                                tokio::time::sleep(Duration::from_millis(1)).await;
                                for id in &ids {
                                    let done = format!(
                                        "UPDATE jobs SET state = 'done', owner = {worker} \
                                         WHERE id = {id}"
                                    );
                                    client.run(&done).await.unwrap();
                                }
                                client.run("COMMIT").await.unwrap();
                                ids
                            }
                            1 => numbers(&client.run(AT_ONCE).await.unwrap()),
                            _ => {
                                client.run("BEGIN").await.unwrap();
                                let ids = numbers(&client.run(BY_NAME).await.unwrap());
                                tokio::time::sleep(Duration::from_millis(1)).await;
                                client.run("COMMIT").await.unwrap();
                                ids
                            }
                        };
                        if ids.is_empty() {
                            return;
                        }
                        taken.lock().unwrap().extend(ids);
                    }
                })
            });
            for worker in futures::future::join_all(workers).await {
                worker.expect("no worker meets an error");
            }
            let taken = std::mem::take(&mut *taken.lock().unwrap());
            let different: BTreeSet<_> = taken.iter().copied().collect();
            assert_eq!((taken.len(), different.len()), (60, 60), "{protocol}: {taken:?}");
            nothing_is_locked(&node);
            node.verify();
        }
    });
}

#[test]
fn rows_that_others_have_locked_are_passed_over_or_refused() {
    block_on(async {
        let node = a_node("harmony").await;
        let ready = "SELECT id FROM jobs WHERE state = 'ready' ORDER BY id LIMIT 2";
        let mut a = begun(&node, &format!("{ready} FOR UPDATE")).await;
        let mut b = node.session();
        b.run("BEGIN").await.unwrap();
        let others = b.run(&format!("{ready} FOR UPDATE SKIP LOCKED")).await.unwrap();
        assert_eq!(numbers(&others), [3, 4]);
        // A transaction's own are no obstacle to it, and another look finds them again.
        let own = b.run(&format!("{ready} FOR UPDATE SKIP LOCKED")).await.unwrap();
        assert_eq!(numbers(&own), [3, 4]);
        let mut c = node.session();
        let alone = c.run(&format!("{ready} FOR SHARE SKIP LOCKED")).await.unwrap();
        assert_eq!(numbers(&alone), [5, 6], "outside of a transaction, too");
        let busy = c.run("SELECT 1 FROM jobs WHERE id = 1 FOR UPDATE NOWAIT").await.unwrap_err();
        assert_eq!(busy.code(), SqlState::LOCK_NOT_AVAILABLE);
        assert_eq!(busy.message(), "could not obtain lock on row in relation \"jobs\"");
        c.run("SET lock_timeout = '30ms'").await.unwrap();
        let late = c.run("SELECT 1 FROM jobs WHERE id = 3 FOR SHARE").await;
        assert_eq!(code(late), SqlState::LOCK_NOT_AVAILABLE);
        // What is not asked for by a clause is neither locked nor held up.
        assert_eq!(c.number("SELECT count(*) FROM jobs").await, 60);
        a.run("ROLLBACK").await.unwrap();
        assert_eq!(c.number("SELECT id FROM jobs WHERE id = 1 FOR UPDATE NOWAIT").await, 1);
        b.run("COMMIT").await.unwrap();
        nothing_is_locked(&node);
        node.verify();
    });
}

#[test]
fn shared_locks_keep_out_those_who_want_to_change() {
    block_on(async {
        let node = a_node("silo").await;
        let mut a = begun(&node, "SELECT v FROM t WHERE id = 1 FOR SHARE").await;
        let mut b = begun(&node, "SELECT v FROM t WHERE id = 1 FOR SHARE NOWAIT").await;
        let mut c = node.session();
        c.run("BEGIN").await.unwrap();
        {
            let mut updating = pin!(c.run("SELECT v FROM t WHERE id = 1 FOR UPDATE"));
            assert!(waits(&mut updating).await);
            a.run("COMMIT").await.unwrap();
            assert!(waits(&mut updating).await);
            b.run("ROLLBACK").await.unwrap();
            updating.await.unwrap();
        }
        c.run("COMMIT").await.unwrap();
        nothing_is_locked(&node);
        node.verify();
    });
}

#[test]
fn what_is_locked_are_rows_of_tables_by_name() {
    block_on(async {
        let node = a_node("harmony").await;
        let mut a = node.session();
        a.run("CREATE VIEW v AS SELECT * FROM t").await.unwrap();
        a.run("CREATE TABLE two (a text, b numeric, PRIMARY KEY (a, b))").await.unwrap();
        a.run("INSERT INTO two VALUES ('x', 1.50), ('x', 2)").await.unwrap();
        let locks = |statement: &'static str, count: usize| {
            let node = &node;
            async move {
                let mut client = begun(node, statement).await;
                assert_eq!(node.database.engine.locks().held(), count, "{statement}");
                client.run("ROLLBACK").await.unwrap();
                nothing_is_locked(node);
            }
        };
        locks("SELECT * FROM t FOR UPDATE", 4).await;
        locks("SELECT v FROM t WHERE v > 1000 FOR UPDATE", 0).await;
        locks("SELECT v FROM t ORDER BY id DESC LIMIT 1 OFFSET 1 FOR UPDATE", 1).await;
        locks("SELECT keyless.* FROM keyless FOR UPDATE", 2).await;
        locks("SELECT a FROM two WHERE b = 1.5 FOR UPDATE", 1).await;
        locks("SELECT x.v FROM t x JOIN jobs j ON j.id = x.id FOR UPDATE", 8).await;
        locks("SELECT x.v FROM t x JOIN jobs j ON j.id = x.id FOR UPDATE OF x", 4).await;
        locks("SELECT 1 FROM t LEFT JOIN jobs j ON j.id = t.id + 58 FOR SHARE", 4 + 2).await;
        locks("SELECT 1 FROM t, (SELECT 1) AS d FOR UPDATE", 4).await;
        locks("SELECT * FROM v FOR UPDATE", 0).await;
        locks("WITH t AS (SELECT 1 AS id) SELECT * FROM t FOR UPDATE", 0).await;
        // Row ids stay hidden.
        let rows = a.run("SELECT k.*, * FROM keyless k FOR UPDATE").await.unwrap();
        assert_eq!(rows[0].len(), 2);
        for (statement, clause) in [
            ("SELECT DISTINCT v FROM t FOR UPDATE", "UPDATE is not allowed with DISTINCT clause"),
            ("SELECT v FROM t GROUP BY v FOR SHARE", "SHARE is not allowed with GROUP BY clause"),
            (
                "SELECT v FROM t UNION SELECT id FROM t FOR UPDATE",
                "UPDATE is not allowed with UNION/INTERSECT/EXCEPT",
            ),
            ("SELECT count(*) FROM t FOR UPDATE", "UPDATE is not allowed with aggregate functions"),
        ] {
            let error = a.run(statement).await.unwrap_err();
            assert_eq!(error.code(), SqlState::FEATURE_NOT_SUPPORTED, "{statement}");
            assert_eq!(error.message(), format!("FOR {clause}"), "{statement}");
        }
        node.verify();
    });
}

/// The row was promised to the one who locked it, and another way led to it.
#[test]
fn a_change_by_another_way_is_still_found_at_commit() {
    block_on(async {
        for clause in ["FOR UPDATE", "FOR UPDATE SKIP LOCKED"] {
            let node = a_node("harmony").await;
            let mut a = begun(&node, &format!("SELECT v FROM t WHERE id = 1 {clause}")).await;
            let mut b = node.session();
            b.run("UPDATE t SET v = 7 WHERE id = 2").await.unwrap();
            a.run("UPDATE t SET v = v + 1 WHERE id = 1").await.unwrap();
            a.run("COMMIT").await.expect("the other row is of no concern");
            a.run("BEGIN").await.unwrap();
            a.run(&format!("SELECT v FROM t WHERE id = 1 {clause}")).await.unwrap();
            b.run("UPDATE t SET v = 9 WHERE id = 1").await.unwrap();
            a.run("UPDATE t SET v = 1 WHERE id = 1").await.unwrap();
            assert_eq!(code(a.run("COMMIT").await), SqlState::SERIALIZATION_FAILURE, "{clause}");
            assert_eq!(a.number("SELECT v FROM t WHERE id = 1").await, 9);
            nothing_is_locked(&node);
            node.verify();
        }
    });
}

/// What was passed over may go, come, or change; what was answered may not.
#[test]
fn commit_asks_only_for_rows_that_skip_locked_has_answered() {
    block_on(async {
        let node = a_node("harmony").await;
        let take = "SELECT id FROM jobs WHERE state = 'ready' ORDER BY id LIMIT 1";
        let mut a = begun(&node, &format!("{take} FOR UPDATE SKIP LOCKED")).await;
        a.run("UPDATE jobs SET state = 'done' WHERE id = 1").await.unwrap();
        let mut b = node.session();
        b.run("DELETE FROM jobs WHERE id = 3; INSERT INTO jobs VALUES (0, 'ready')").await.unwrap();
        a.run("COMMIT").await.unwrap();
        // Without SKIP LOCKED the same is a statement about all of them.
        let mut a = begun(&node, &format!("{take} FOR UPDATE")).await;
        a.run("UPDATE jobs SET state = 'done' WHERE id = 0").await.unwrap();
        b.run("INSERT INTO jobs VALUES (-1, 'ready')").await.unwrap();
        assert_eq!(code(a.run("COMMIT").await), SqlState::SERIALIZATION_FAILURE);
        node.verify();
    });
}

#[test]
fn a_cycle_is_told_and_failed_transactions_let_go() {
    block_on(async {
        let node = a_node("quecc").await;
        let mut a = begun(&node, "SELECT 1 FROM t WHERE id = 1 FOR UPDATE").await;
        let mut b = begun(&node, "SELECT 1 FROM t WHERE id = 2 FOR UPDATE").await;
        {
            let mut waiting = pin!(a.run("SELECT 1 FROM t WHERE id = 2 FOR UPDATE"));
            assert!(waits(&mut waiting).await);
            let cycle = b.run("SELECT 1 FROM t WHERE id = 1 FOR UPDATE").await;
            assert_eq!(code(cycle), SqlState::DEADLOCK_DETECTED);
            waiting.await.expect("the one that failed has let go");
        }
        a.run("COMMIT").await.unwrap();
        b.run("ROLLBACK").await.unwrap();
        let mut c = begun(&node, "SAVEPOINT s").await;
        c.run("SELECT 1 FROM t WHERE id = 3 FOR UPDATE; ROLLBACK TO s").await.unwrap();
        let busy = b.run("SELECT 1 FROM t WHERE id = 3 FOR UPDATE NOWAIT").await;
        assert_eq!(code(busy), SqlState::LOCK_NOT_AVAILABLE, "held behind the savepoint");
        drop(c);
        nothing_is_locked(&node);
        node.verify();
    });
}

/// A statement that writes is recorded with the rows that it got, whatever replicas would find.
#[test]
fn queries_that_lock_within_a_statement_that_writes_are_run_first() {
    block_on(async {
        let node = a_node("harmony").await;
        let mut a = begun(&node, "SELECT id FROM jobs WHERE id = 1 FOR UPDATE").await;
        let mut b = node.session();
        let free = "(SELECT id FROM jobs WHERE state = 'ready' ORDER BY id LIMIT 2 \
                    FOR UPDATE SKIP LOCKED)";
        let deleted = b.run(&format!("DELETE FROM jobs WHERE id IN {free} RETURNING id")).await;
        assert_eq!(numbers(&deleted.unwrap()), [2, 3]);
        let copied = format!(
            "WITH free (n) AS {free} INSERT INTO t SELECT n + 100, n FROM free RETURNING v"
        );
        assert_eq!(numbers(&b.run(&copied).await.unwrap()), [4, 5]);
        let typed = b
            .run_typed(
                "UPDATE jobs SET owner = $2 WHERE id = (SELECT id FROM jobs WHERE state = $1 \
                 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, owner",
                &[],
                &[Value::from("ready"), Value::Int(9)],
            )
            .await
            .unwrap();
        assert_eq!(typed[0][..], [Value::Int(4), Value::Int(9)]);
        let none = b.run(&format!("DELETE FROM jobs WHERE id > 100 AND id IN {free}")).await;
        assert!(none.unwrap().is_empty());
        b.run("UPDATE jobs SET state = 'done' WHERE id <> 1").await.unwrap();
        let update = format!("UPDATE jobs SET owner = 1 WHERE id IN {free} RETURNING id");
        assert!(b.run(&update).await.unwrap().is_empty(), "the only one is locked");
        a.run("ROLLBACK").await.unwrap();
        assert_eq!(b.run(&update).await.unwrap().len(), 1);
        // A query that needs what is around it is part of the statement.
        b.run("UPDATE t SET v = (SELECT j.id FROM jobs j WHERE j.id = 7 FOR UPDATE) WHERE id = 1")
            .await
            .unwrap();
        assert_eq!(b.number("SELECT v FROM t WHERE id = 1").await, 7);
        nothing_is_locked(&node);
        node.verify();
    });
}

/// Transfers that lock both accounts first, in any order and under each protocol: nothing is lost,
/// and nothing fails but for cycles.
#[test]
fn transfers_that_lock_first_fail_by_deadlock_alone() {
    block_on(async {
        for protocol in protocols() {
            if protocol == "2pl" {
                continue;
            }
            let node = a_node(protocol).await;
            let tasks = (0..4).map(|seed| {
                let mut client = node.session();
                tokio::spawn(async move {
                    let mut random = Random::new(seed);
                    for _ in 0..8 {
                        let (from, to) = (1 + random.below(4), 1 + random.below(4));
                        client.run("BEGIN").await.unwrap();
                        let lock = format!(
                            "SELECT v FROM t WHERE id = {from} FOR UPDATE; \
                             SELECT v FROM t WHERE id = {to} FOR UPDATE"
                        );
                        if let Err(error) = client.run(&lock).await {
                            assert_eq!(error.code(), SqlState::DEADLOCK_DETECTED, "{error}");
                            client.run("ROLLBACK").await.unwrap();
                            continue;
                        }
                        let move_one = format!(
                            "UPDATE t SET v = v - 1 WHERE id = {from}; \
                             UPDATE t SET v = v + 1 WHERE id = {to}"
                        );
                        client.run(&move_one).await.unwrap();
                        client.run("COMMIT").await.unwrap_or_else(|e| panic!("{protocol}: {e}"));
                    }
                })
            });
            for task in futures::future::join_all(tasks).await {
                task.unwrap();
            }
            let mut client = node.session();
            assert_eq!(client.number("SELECT sum(v) FROM t").await, 400, "{protocol}");
            nothing_is_locked(&node);
            node.verify();
        }
    });
}
