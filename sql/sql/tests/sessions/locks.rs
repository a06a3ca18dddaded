//! Transactions that lock, under `2pl`: who waits for whom, and what ends a wait.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kit::random::Random;
use types::{Result, SqlState};

use super::{Client, Node, block_on, code};

/// A table of ten rows, all 100, with an index on the value.
async fn a_node() -> Node {
    let node = Node::new("2pl");
    let mut client = node.session();
    for statement in [
        "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL)",
        "CREATE INDEX ON t (v)",
        "CREATE TABLE log (id int PRIMARY KEY, v int)",
        "CREATE PROCEDURE raise(i int) LANGUAGE plpgsql AS $$ BEGIN
             UPDATE t SET v = v + 1 WHERE id = i;
         END $$",
        "INSERT INTO t SELECT g, 100 FROM generate_series(1, 10) AS g(g)",
    ] {
        client.run(statement).await.unwrap();
    }
    node
}

/// Whether it is not over after a while.
async fn waits<T>(future: &mut (impl Future<Output = T> + Unpin)) -> bool {
    tokio::time::timeout(Duration::from_millis(60), future).await.is_err()
}

/// A client in a transaction that has run a statement.
async fn begun(node: &Node, statement: &str) -> Client {
    let mut client = node.session();
    client.run("BEGIN").await.unwrap();
    client.run(statement).await.unwrap();
    client
}

fn nothing_is_locked(node: &Node) {
    assert_eq!(node.database.engine.locks().held(), 0);
}

#[test]
fn who_waits_for_a_row_sees_what_its_holder_made_of_it() {
    block_on(async {
        let node = a_node().await;
        let mut a = begun(&node, "UPDATE t SET v = v + 1 WHERE id = 1").await;
        let mut b = begun(&node, "SELECT v FROM t WHERE id = 2").await;
        {
            let mut reading = pin!(b.number("SELECT v FROM t WHERE id = 1"));
            assert!(waits(&mut reading).await);
            a.run("COMMIT").await.unwrap();
            assert_eq!(reading.await, 101);
        }
        assert_eq!(b.number("UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v").await, 102);
        b.run("COMMIT").await.unwrap();
        nothing_is_locked(&node);
        node.verify();
    });
}

/// Whichever of the two the cycle is closed by.
#[test]
fn a_cycle_through_rows_and_advisory_locks_is_told() {
    let (row, number) = ("UPDATE t SET v = 1 WHERE id = 1", "SELECT pg_advisory_xact_lock(7)");
    block_on(async {
        let node = a_node().await;
        for (first, second) in [(row, number), (number, row)] {
            let mut a = begun(&node, first).await;
            let mut b = begun(&node, second).await;
            {
                let mut waiting = pin!(a.run(second));
                assert!(waits(&mut waiting).await);
                let error = b.run(first).await.unwrap_err();
                assert_eq!(error.code(), SqlState::DEADLOCK_DETECTED, "{first}: {error}");
                let detail = error.fields().detail.clone().unwrap();
                assert_eq!(detail.lines().count(), 2, "{detail}");
                assert!(detail.contains("ExclusiveLock on a row"), "{detail}");
                assert!(detail.contains("ExclusiveLock on advisory lock"), "{detail}");
                b.run("ROLLBACK").await.unwrap();
                waiting.await.unwrap();
            }
            a.run("COMMIT").await.unwrap();
        }
        nothing_is_locked(&node);
        node.verify();
    });
}

/// No session waits for ever, whatever locks are taken in which order.
#[test]
fn sessions_that_lock_rows_and_numbers_at_random_all_come_to_an_end() {
    block_on(async {
        let node = a_node().await;
        let refused = Arc::new(AtomicU64::new(0));
        let tasks = (0..6).map(|seed| {
            let (mut client, refused) = (node.session(), Arc::clone(&refused));
            tokio::spawn(async move {
                let mut random = Random::new(seed);
                for _ in 0..25 {
                    client.run("BEGIN").await.unwrap();
                    for _ in 0..4 {
                        let number = 1 + random.below(3);
                        let statement = match random.below(3) {
                            0 => format!("UPDATE t SET v = v + 1 WHERE id = {number}"),
                            1 => format!("SELECT pg_advisory_xact_lock({number})"),
                            _ => format!("SELECT pg_advisory_xact_lock_shared({number})"),
                        };
                        if let Err(error) = client.run(&statement).await {
                            assert_eq!(error.code(), SqlState::DEADLOCK_DETECTED, "{error}");
                            refused.fetch_add(1, Ordering::Relaxed);
                            break;
                        }
                    }
                    let ended = client.run("COMMIT").await;
                    assert!(ended.is_ok(), "{ended:?}");
                }
            })
        });
        let all = futures::future::join_all(tasks);
        let ended = tokio::time::timeout(Duration::from_secs(120), all).await;
        ended.expect("some wait for ever").into_iter().for_each(|task| task.unwrap());
        assert!(refused.load(Ordering::Relaxed) > 0);
        nothing_is_locked(&node);
        node.verify();
    });
}

#[test]
fn one_of_a_cycle_is_told_and_the_other_commits() {
    block_on(async {
        let node = a_node().await;
        let mut a = begun(&node, "UPDATE t SET v = 1 WHERE id = 1").await;
        let mut b = begun(&node, "UPDATE t SET v = 2 WHERE id = 2").await;
        {
            let mut updating = pin!(a.run("UPDATE t SET v = 1 WHERE id = 2"));
            assert!(waits(&mut updating).await);
            let error = b.run("UPDATE t SET v = 2 WHERE id = 1").await.unwrap_err();
            assert_eq!(error.code(), SqlState::DEADLOCK_DETECTED);
            let detail = error.fields().detail.clone().unwrap();
            assert_eq!(
                detail.matches("waits for ExclusiveLock on a row of relation \"t\"").count(),
                2
            );
            // Its locks went with its failure.
            updating.await.unwrap();
        }
        a.run("COMMIT").await.unwrap();
        b.run("ROLLBACK").await.unwrap();
        assert_eq!(b.number("SELECT sum(v) FROM t").await, 802);
        node.verify();
    });
}

#[test]
fn two_that_read_a_row_cannot_both_write_it() {
    block_on(async {
        let node = a_node().await;
        let mut a = begun(&node, "SELECT v FROM t WHERE id = 1").await;
        let mut b = begun(&node, "SELECT v FROM t WHERE id = 1").await;
        {
            let mut updating = pin!(a.run("UPDATE t SET v = v + 1 WHERE id = 1"));
            assert!(waits(&mut updating).await);
            let second = b.run("UPDATE t SET v = v + 1 WHERE id = 1").await;
            assert_eq!(code(second), SqlState::DEADLOCK_DETECTED);
            updating.await.unwrap();
        }
        a.run("COMMIT").await.unwrap();
        assert_eq!(code(b.run("SELECT 1").await), SqlState::IN_FAILED_SQL_TRANSACTION);
        b.run("COMMIT").await.unwrap();
        node.verify();
    });
}

#[test]
fn a_wait_ends_by_a_timeout_or_a_cancel_request() {
    block_on(async {
        let node = a_node().await;
        let mut a = begun(&node, "UPDATE t SET v = 0 WHERE id = 1").await;
        let mut b = node.session();
        b.run("SET lock_timeout = '20ms'; SET deadlock_timeout = '2s'").await.unwrap();
        for statement in ["UPDATE t SET v = 1 WHERE id = 1", "CALL raise(1)"] {
            let error = b.run(statement).await.unwrap_err();
            assert_eq!(error.code(), SqlState::LOCK_NOT_AVAILABLE);
            assert_eq!(error.message(), "canceling statement due to lock timeout");
        }
        b.run("SET lock_timeout = 0; SET statement_timeout = '20ms'; BEGIN").await.unwrap();
        let timed_out = b.run("SELECT v FROM t WHERE id = 1").await;
        assert_eq!(code(timed_out), SqlState::QUERY_CANCELED);
        b.run("ROLLBACK; SET statement_timeout = 0; BEGIN").await.unwrap();
        let interrupt = Arc::clone(&b.interrupt);
        {
            let mut reading = pin!(b.run("SELECT v FROM t WHERE id = 1"));
            assert!(waits(&mut reading).await);
            interrupt.store(true, Ordering::Relaxed);
            assert_eq!(code(reading.await), SqlState::QUERY_CANCELED);
        }
        interrupt.store(false, Ordering::Relaxed);
        b.run("ROLLBACK").await.unwrap();
        a.run("COMMIT").await.unwrap();
        assert_eq!(b.number("SELECT v FROM t WHERE id = 1").await, 0);
        nothing_is_locked(&node);
        node.verify();
    });
}

#[test]
fn nothing_enters_a_range_that_was_read() {
    block_on(async {
        for (range, enters, elsewhere) in [
            (
                "id BETWEEN 20 AND 30",
                "INSERT INTO t VALUES (25, 0)",
                "INSERT INTO t VALUES (31, 0)",
            ),
            ("v > 500", "UPDATE t SET v = 501 WHERE id = 3", "UPDATE t SET v = 400 WHERE id = 3"),
            ("v = 100 AND id > 5", "DELETE FROM t WHERE id = 7", "INSERT INTO t VALUES (40, 1)"),
        ] {
            let node = a_node().await;
            let count = format!("SELECT count(*) FROM t WHERE {range}");
            let mut a = begun(&node, &count).await;
            let before = a.number(&count).await;
            let mut b = node.session();
            b.run(elsewhere).await.unwrap();
            {
                let mut entering = pin!(b.run(enters));
                assert!(waits(&mut entering).await, "{enters}");
                assert_eq!(a.number(&count).await, before, "{range}");
                a.run("INSERT INTO log VALUES (1, 1); COMMIT").await.unwrap();
                entering.await.unwrap();
            }
            assert_ne!(a.number(&count).await, before, "{range}");
            nothing_is_locked(&node);
            node.verify();
        }
    });
}

#[test]
fn what_is_not_of_a_transaction_respects_locks() {
    block_on(async {
        let node = a_node().await;
        for statement in ["UPDATE t SET v = v + 1 WHERE id = 1", "CALL raise(1)"] {
            let mut a = begun(&node, "SELECT v FROM t WHERE id = 1").await;
            let before = a.number("SELECT v FROM t WHERE id = 1").await;
            let mut b = node.session();
            b.run("CALL raise(2)").await.unwrap();
            {
                let mut raising = pin!(b.run(statement));
                assert!(waits(&mut raising).await, "{statement}");
                let twice = format!("UPDATE t SET v = {before} * 2 WHERE id = 1");
                a.run(&twice).await.unwrap();
                // A query of its own reads the newest block and waits for nothing.
                assert_eq!(node.session().number("SELECT v FROM t WHERE id = 1").await, before);
                a.run("COMMIT").await.unwrap();
                raising.await.unwrap();
            }
            assert_eq!(b.number("SELECT v FROM t WHERE id = 1").await, before * 2 + 1);
        }
        nothing_is_locked(&node);
        node.verify();
    });
}

#[test]
fn select_says_how_it_locks() {
    block_on(async {
        let node = a_node().await;
        let mut a = begun(&node, "SELECT v FROM t WHERE id = 1 FOR UPDATE").await;
        a.run("SELECT v FROM t WHERE id = 2 FOR SHARE").await.unwrap();
        let mut b = begun(&node, "SELECT v FROM t WHERE id = 2 FOR SHARE NOWAIT").await;
        let busy = b.run("SELECT v FROM t WHERE id = 1 FOR SHARE NOWAIT").await.unwrap_err();
        assert_eq!(busy.code(), SqlState::LOCK_NOT_AVAILABLE);
        assert_eq!(busy.message(), "could not obtain lock on row in relation \"t\"");
        b.run("ROLLBACK; BEGIN").await.unwrap();
        let exclusive = b.run("SELECT v FROM t WHERE id = 2 FOR UPDATE NOWAIT").await;
        assert_eq!(code(exclusive), SqlState::LOCK_NOT_AVAILABLE);
        b.run("ROLLBACK; BEGIN READ ONLY").await.unwrap();
        assert_eq!(b.number("SELECT v FROM t WHERE id = 1").await, 100);
        b.run("COMMIT").await.unwrap();
        a.run("COMMIT").await.unwrap();
        for (statement, protocol) in [
            ("SELECT v FROM (SELECT v FROM t FOR UPDATE NOWAIT) AS u", "2pl"),
            ("BEGIN READ ONLY; SELECT v FROM t FOR UPDATE NOWAIT", "silo"),
        ] {
            b.run(&format!("SET ledger.protocol = '{protocol}'")).await.unwrap();
            let refused = b.run(statement).await;
            assert_eq!(code(refused), SqlState::FEATURE_NOT_SUPPORTED, "{statement}");
        }
        b.run("ROLLBACK").await.unwrap();
        node.verify();
    });
}

#[test]
fn one_table_of_a_query_is_locked_and_tables_whole() {
    block_on(async {
        let node = a_node().await;
        let mut a = node.session();
        a.run("CREATE TABLE u (id int PRIMARY KEY, t int); INSERT INTO u VALUES (1, 1)")
            .await
            .unwrap();
        a.run("BEGIN; SELECT x.v FROM t x JOIN u ON u.t = x.id FOR UPDATE OF u").await.unwrap();
        let mut b = begun(&node, "SELECT v FROM t WHERE id = 1 FOR SHARE NOWAIT").await;
        let busy = b.run("SELECT * FROM u WHERE id = 1 FOR SHARE NOWAIT").await;
        assert_eq!(code(busy), SqlState::LOCK_NOT_AVAILABLE);
        b.run("ROLLBACK").await.unwrap();
        a.run("COMMIT").await.unwrap();
        let unknown = a.run("SELECT * FROM t FOR UPDATE OF x").await;
        assert_eq!(code(unknown), SqlState::UNDEFINED_TABLE);
        assert_eq!(code(a.run("LOCK TABLE t").await), SqlState::NO_ACTIVE_SQL_TRANSACTION);
        a.run("BEGIN; LOCK TABLE t, u IN SHARE MODE").await.unwrap();
        b.run("BEGIN; LOCK u IN ROW EXCLUSIVE MODE; SELECT * FROM u").await.unwrap();
        let busy = b.run("LOCK TABLE t NOWAIT").await;
        assert_eq!(code(busy), SqlState::LOCK_NOT_AVAILABLE);
        b.run("ROLLBACK; BEGIN; SET LOCAL lock_timeout = 1").await.unwrap();
        let busy = b.run("UPDATE t SET v = v + 1 WHERE id = 2 RETURNING v").await;
        assert_eq!(code(busy), SqlState::LOCK_NOT_AVAILABLE);
        b.run("ROLLBACK").await.unwrap();
        a.run("COMMIT").await.unwrap();
        // A queue is served in turn: who comes second waits and finds the next one.
        b.run("BEGIN; LOCK TABLE t; UPDATE t SET v = 0 WHERE id = 2; COMMIT").await.unwrap();
        let next = "UPDATE u SET t = 0 WHERE id = (SELECT id FROM u WHERE t > 0 ORDER BY id \
                    LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id";
        assert_eq!(b.number(next).await, 1);
        assert!(b.run(next).await.unwrap().is_empty());
        node.verify();
    });
}

#[test]
fn locks_stay_behind_a_savepoint_and_go_with_the_session() {
    block_on(async {
        let node = a_node().await;
        let mut a = begun(&node, "SAVEPOINT s").await;
        a.run("UPDATE t SET v = 0 WHERE id = 1; ROLLBACK TO s").await.unwrap();
        let mut failed = begun(&node, "SELECT 1").await;
        let wrong = "SELECT v / (id - 2) FROM t WHERE id = 2 FOR UPDATE";
        assert_eq!(code(failed.run(wrong).await), SqlState::DIVISION_BY_ZERO);
        let mut b = begun(&node, "UPDATE t SET v = 5 WHERE id = 2").await;
        let mut c = node.session();
        {
            let mut updating = pin!(b.run("UPDATE t SET v = 5 WHERE id = 1"));
            assert!(waits(&mut updating).await);
            let mut reading = pin!(c.run("UPDATE t SET v = v + 1 WHERE id = 1"));
            assert!(waits(&mut reading).await);
            // One is killed while it holds locks, the other while it waits.
            drop(a);
            updating.await.unwrap();
            assert!(waits(&mut reading).await);
        }
        b.run("COMMIT").await.unwrap();
        drop(b);
        nothing_is_locked(&node);
        assert_eq!(c.number("SELECT v FROM t WHERE id = 1").await, 5);
        node.verify();
    });
}

/// Each statement sees what was committed before it, and writes of its own.
#[test]
fn statements_run_on_the_newest_state_with_what_they_wrote() {
    block_on(async {
        let node = a_node().await;
        let mut a = begun(&node, "UPDATE t SET v = v + 1 WHERE id = 1").await;
        a.run("INSERT INTO t VALUES (50, 7)").await.unwrap();
        let mut b = node.session();
        b.run("INSERT INTO t VALUES (60, 8)").await.unwrap();
        b.run("UPDATE t SET v = 9 WHERE id = 2").await.unwrap();
        assert_eq!(a.number("SELECT sum(v) FROM t").await, 800 + 101 + 9 + 7 + 8);
        a.run("SAVEPOINT s; DELETE FROM t WHERE id = 60; ROLLBACK TO s").await.unwrap();
        a.run("UPDATE t SET v = v + 1 WHERE v < 100").await.unwrap();
        a.run("COMMIT").await.unwrap();
        assert_eq!(a.number("SELECT sum(v) FROM t").await, 800 + 101 + 10 + 8 + 9);
        node.verify();
    });
}

/// Thousands of rows are one lock for each index, and no other session reads or writes any of them.
#[test]
fn a_statement_that_writes_very_much_locks_the_table() {
    block_on(async {
        let node = a_node().await;
        let fill = "INSERT INTO t SELECT g, 1 FROM generate_series(11, 6000) AS g(g)";
        let mut a = begun(&node, fill).await;
        assert_eq!(node.database.engine.locks().held(), 2);
        let mut b = node.session();
        b.run("INSERT INTO log VALUES (1, 1); BEGIN; SET lock_timeout = '20ms'").await.unwrap();
        b.run("SAVEPOINT s").await.unwrap();
        for statement in
            ["INSERT INTO t VALUES (7000, 1)", "SELECT 1 FROM t WHERE v = 7", "DELETE FROM t"]
        {
            let ended = code(b.run(statement).await);
            assert_eq!(ended, SqlState::LOCK_NOT_AVAILABLE, "{statement}");
            b.run("ROLLBACK TO s").await.unwrap();
        }
        // Many small statements afterwards ask for nothing new.
        a.run("UPDATE t SET v = 2 WHERE id = 7; DELETE FROM t WHERE id = 5999").await.unwrap();
        assert_eq!(node.database.engine.locks().held(), 2);
        a.run("COMMIT").await.unwrap();
        assert_eq!(b.number("SELECT count(*) FROM t").await, 5999);
        b.run("COMMIT").await.unwrap();
        nothing_is_locked(&node);
        node.verify();
    });
}

/// A transaction of before the ledger came to `2pl` respects no lock: who has read what it changes
/// is reported so at COMMIT, having written or not.
#[test]
fn what_respects_no_lock_costs_a_failure_and_no_anomaly() {
    block_on(async {
        for write in ["SELECT 1", "INSERT INTO log VALUES (1, 1)"] {
            let node = a_node().await;
            let mut a = node.session();
            a.run("SET ledger.protocol = 'silo'").await.unwrap();
            let mut old = begun(&node, "UPDATE t SET v = 0 WHERE id = 1").await;
            old.run("UPDATE t SET v = 0 WHERE id = 2").await.unwrap();
            a.run("SET ledger.protocol = '2pl'; BEGIN").await.unwrap();
            assert_eq!(a.number("SELECT v FROM t WHERE id = 1").await, 100);
            old.run("COMMIT").await.unwrap();
            assert_eq!(a.number("SELECT v FROM t WHERE id = 2").await, 0);
            a.run(write).await.unwrap();
            assert_eq!(code(a.run("COMMIT").await), SqlState::SERIALIZATION_FAILURE, "{write}");
            // A row that was written is gone: that is told at once.
            a.run("SET ledger.protocol = 'silo'").await.unwrap();
            old.run("BEGIN; DELETE FROM t WHERE id = 3").await.unwrap();
            a.run("SET ledger.protocol = '2pl'; BEGIN").await.unwrap();
            a.run("UPDATE t SET v = 0 WHERE id = 3").await.unwrap();
            old.run("COMMIT").await.unwrap();
            let failed = a.run("SELECT v FROM t WHERE id = 4").await;
            assert_eq!(code(failed), SqlState::SERIALIZATION_FAILURE);
            nothing_is_locked(&node);
            node.verify();
        }
    });
}

/// Two that write where they have read wait for each other's end, not for each other: of clients
/// with one statement in each transaction no session is told of a deadlock.
#[test]
fn transactions_of_one_statement_do_not_meet_in_a_deadlock() {
    const STATEMENTS: [&str; 4] = [
        "UPDATE t SET v = v + 1 WHERE id % 2 = 0",
        "UPDATE t SET v = v + 1 WHERE id IN (9, 2, 5)",
        "INSERT INTO log SELECT count(*), 0 FROM log",
        "DELETE FROM log WHERE id = (SELECT max(id) FROM log)",
    ];
    block_on(async {
        let node = a_node().await;
        let setup = "CREATE TABLE u (id int PRIMARY KEY, v int UNIQUE)";
        node.session().run(setup).await.unwrap();
        // With rows enough that a statement always meets one: what it touches stays the same.
        let fill = "INSERT INTO log SELECT g, 0 FROM generate_series(0, 199) AS g(g)";
        node.session().run(fill).await.unwrap();
        let tasks = (0..6).map(|number: u64| {
            let mut client = node.session();
            tokio::spawn(async move {
                let mut random = Random::new(number);
                for round in 0..30 {
                    let id = number * 100 + round;
                    let statement = match random.below(6) {
                        at @ 0..4 => STATEMENTS[at as usize].to_owned(),
                        _ => format!("INSERT INTO u VALUES ({id}, {})", random.below(40)),
                    };
                    client.run("BEGIN").await.unwrap();
                    if let Err(error) = client.run(&statement).await {
                        let is_taken = error.code() == SqlState::UNIQUE_VIOLATION;
                        assert!(is_taken, "{statement}: {error} {:?}", error.fields().detail);
                    }
                    client.run("COMMIT").await.unwrap();
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        nothing_is_locked(&node);
        node.verify();
    });
}

const ACCOUNTS: u64 = 6;

/// A transfer between hot rows by statements, with a note of it; some are given up by the client.
async fn transfer(client: &mut Client, random: &mut Random, note: u64) -> Result<bool> {
    let (from, to) = (1 + random.below(ACCOUNTS), 1 + random.below(ACCOUNTS));
    let amount = random.below(5);
    client.run("BEGIN").await?;
    let lock = if random.chance(2) { " FOR UPDATE" } else { "" };
    let query = format!("SELECT v FROM t WHERE id = {from}{lock}");
    let value = client.run(&query).await?[0][0].as_int().unwrap();
    let new = value - amount as i64;
    client.run(&format!("UPDATE t SET v = {new} WHERE id = {from}")).await?;
    client.run(&format!("UPDATE t SET v = v + {amount} WHERE id = {to}")).await?;
    client.run(&format!("INSERT INTO log VALUES ({note}, {amount})")).await?;
    match random.below(6) {
        0 => {
            let hot = client.run("SELECT sum(v) FROM t WHERE id BETWEEN 1 AND 6").await?;
            assert_eq!(hot[0][0].as_int(), Some(600));
        }
        1 => drop(client.run("DELETE FROM log WHERE v = 0").await?),
        _ => {}
    }
    let keeps = !random.chance(8);
    client.run(if keeps { "COMMIT" } else { "ROLLBACK" }).await?;
    Ok(keeps)
}

/// Hot rows, ranges, inserts and deletes by many clients: a deadlock is the only failure, nothing
/// is lost, and the ledger says the same when it is executed again.
#[test]
fn transfers_never_meet_a_serialization_failure() {
    const CLIENTS: u64 = 8;
    const TRANSFERS: u64 = 25;
    block_on(async {
        let node = a_node().await;
        let deadlocks = Arc::new(AtomicU64::new(0));
        let tasks = (0..CLIENTS).map(|number| {
            let (mut client, deadlocks) = (node.session(), Arc::clone(&deadlocks));
            tokio::spawn(async move {
                let mut random = Random::new(number);
                let mut committed = 0;
                for round in 0..TRANSFERS {
                    loop {
                        let note = number * 1000 + round;
                        match transfer(&mut client, &mut random, note).await {
                            Ok(kept) => {
                                committed += u64::from(kept);
                                break;
                            }
                            Err(error) => {
                                assert_eq!(error.code(), SqlState::DEADLOCK_DETECTED, "{error}");
                                deadlocks.fetch_add(1, Ordering::Relaxed);
                                client.run("ROLLBACK").await.unwrap();
                            }
                        }
                    }
                    let id = 7 + random.below(3);
                    let alone = match random.below(3) {
                        0 => "UPDATE t SET v = v WHERE id < 5".to_owned(),
                        1 => format!("CALL raise({id})"),
                        _ => format!("UPDATE t SET v = 100 WHERE id = {id}"),
                    };
                    while let Err(error) = client.run(&alone).await {
                        assert_eq!(error.code(), SqlState::DEADLOCK_DETECTED, "{error}");
                    }
                }
                committed
            })
        });
        let mut committed = 0;
        for task in tasks.collect::<Vec<_>>() {
            committed += task.await.unwrap();
        }
        assert!(committed >= CLIENTS * TRANSFERS / 2);
        nothing_is_locked(&node);
        let hot = "SELECT sum(v) FROM t WHERE id <= 6";
        assert_eq!(node.session().number(hot).await, 600);
        node.verify();
    });
}
