//! What a program may raise and how long it may run, inside blocks and outside.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ::types::SqlState;

use super::{Client, Node, block_on, code};

/// What takes hours, in every operator that has a loop of its own.
const ENDLESS: [&str; 6] = [
    "SELECT count(*) FROM t a, t b, t c, t d",
    "SELECT count(*) FROM t a JOIN t b ON a.v = b.v JOIN t c ON c.v = b.v JOIN t d ON d.v = c.v",
    "SELECT count(*) FROM generate_series(1, 100000000000) n WHERE n < 0",
    "SELECT id FROM t a WHERE v = (SELECT count(*) FROM t b, t c, t d, t e)",
    "SELECT turn()",
    "SELECT a.id FROM t a, t b, t c, t d ORDER BY a.id + b.id + c.id + d.id LIMIT 1",
];

async fn prepare_endless(client: &mut Client) {
    client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
    client.run("INSERT INTO t SELECT n, 1 FROM generate_series(1, 1000) n").await.unwrap();
    let turn = "CREATE FUNCTION turn() RETURNS int LANGUAGE plpgsql AS
                $$ BEGIN LOOP NULL; END LOOP; RETURN 1; END $$";
    client.run(turn).await.unwrap();
}

/// Outside a transaction, and inside one that has written the table it scans.
#[test]
fn whatever_a_session_runs_can_be_ended_by_a_timeout_and_by_its_client() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        prepare_endless(&mut client).await;
        for begun in ["", "BEGIN", "BEGIN; UPDATE t SET v = 1 WHERE id < 10"] {
            for endless in ENDLESS {
                client.run(begun).await.unwrap();
                client.run("SET statement_timeout = 30").await.unwrap();
                let started = Instant::now();
                let error = client.run(endless).await.unwrap_err();
                // The one that gathers its rows may come to that bound first.
                let sorts = endless.contains("ORDER BY") && error.code() == SqlState(*b"54000");
                assert!(sorts || error.code() == SqlState::QUERY_CANCELED, "{endless}: {error}");
                assert!(sorts || error.message().ends_with("statement timeout"));
                assert!(started.elapsed() < Duration::from_secs(10), "{endless}");
                client.run("ROLLBACK").await.unwrap();
                client.run("SET statement_timeout = 0").await.unwrap();

                client.run(begun).await.unwrap();
                client.interrupt.store(true, Ordering::Relaxed);
                let error = client.run(endless).await.unwrap_err();
                assert!(error.message().ends_with("user request"), "{endless}: {error}");
                client.interrupt.store(false, Ordering::Relaxed);
                client.run("ROLLBACK").await.unwrap();
            }
        }
        node.verify();
    });
}

/// A timeout is no business of a block: whether a transaction is in it must not depend on a clock.
#[test]
fn a_timeout_does_not_reach_into_a_block() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        prepare_endless(&mut client).await;
        client.run("SET statement_timeout = 1").await.unwrap();
        client.run("UPDATE t SET v = v + 1 WHERE v < (SELECT count(*) FROM t b)").await.unwrap();
        client.run("SET statement_timeout = 0").await.unwrap();
        assert_eq!(client.number("SELECT sum(v) FROM t").await, 2000);
        node.verify();
    });
}

/// Each row's UNIQUE check scans an index of the table that the statement has written so far; were
/// that a look at every row written, this would take hours.
#[test]
fn a_statement_may_check_and_write_many_rows() {
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            client.run("CREATE TABLE u (id int PRIMARY KEY, v int UNIQUE)").await.unwrap();
            let fill = "INSERT INTO u SELECT n, n FROM generate_series(1, 10000) n";
            client.run(fill).await.unwrap();
            client.run("UPDATE u SET v = v + 100000").await.unwrap();
            let again = client.run("UPDATE u SET v = 7 WHERE id > 9000").await;
            assert_eq!(code(again), SqlState::UNIQUE_VIOLATION);
            assert_eq!(client.number("SELECT max(v) FROM u").await, 110_000);
            node.verify();
        }
    });
}

/// A statement without an end leaves the runtime's workers to the others.
#[test]
fn long_queries_do_not_hold_up_other_sessions() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        prepare_endless(&mut client).await;
        let mut flags = Vec::new();
        let mut running = Vec::new();
        // More than there are workers.
        for _ in 0..4 {
            let mut busy = node.session();
            flags.push(busy.interrupt.clone());
            running.push(tokio::spawn(async move { code(busy.run(ENDLESS[0]).await) }));
        }
        let watchdog = flags.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(20));
            watchdog.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
        });
        let point =
            tokio::spawn(async move { client.number("SELECT v FROM t WHERE id = 1").await });
        assert_eq!(point.await.unwrap(), 1);
        assert!(running.iter().all(|task| !task.is_finished()));
        flags.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
        for task in running {
            assert_eq!(task.await.unwrap(), SqlState::QUERY_CANCELED);
        }
    });
}

/// However long the message that a program raises, the block holds it and the replicas agree.
#[test]
fn a_raised_message_is_cut_before_it_is_recorded() {
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            client.run("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
            client
                .run(
                    "CREATE PROCEDURE shout(n int) LANGUAGE plpgsql AS $$ BEGIN
                     INSERT INTO t VALUES (n);
                     RAISE EXCEPTION '%', repeat('é', n) USING HINT = repeat('x', n); END $$",
                )
                .await
                .unwrap();
            for length in [10, 20_000] {
                let said = client.run(&format!("CALL shout({length})")).await.unwrap_err();
                assert_eq!(said.message().len(), if length == 10 { 20 } else { 4095 });
                assert!(said.fields().hint.as_ref().unwrap().len() <= 4096);
            }
            node.verify();
        }
    });
}
