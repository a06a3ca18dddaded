//! What COMMIT requires of the time since BEGIN.

use types::{SqlState, Value};

use super::{Node, block_on, code};

/// Statements run again at COMMIT. One that would come to another row than in its session, and
/// would answer the same, is refused if the session has seen that row.
#[test]
fn commit_changes_nothing_that_the_session_has_seen_unchanged() {
    const TABLES: [&str; 6] = [
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "CREATE TABLE u (id int PRIMARY KEY, target int)",
        "CREATE PROCEDURE hit() LANGUAGE plpgsql AS $$ BEGIN
             UPDATE t SET v = v + 1 WHERE id = (SELECT target FROM u WHERE id = 1);
         END $$",
        "INSERT INTO t VALUES (1, 0), (2, 0)",
        "INSERT INTO u VALUES (1, 1)",
        "INSERT INTO u VALUES (2, 0)",
    ];
    const HIT: &str = "UPDATE t SET v = v + 1 WHERE id = (SELECT target FROM u WHERE id = 1)";
    const ELSEWHERE: &str = "UPDATE u SET target = 2 WHERE id = 1";
    const COUNT: &str = "UPDATE t SET v = v + 1 WHERE id = 1";
    let cases = [
        (HIT, "SELECT v FROM t WHERE id = 2", ELSEWHERE, false),
        (HIT, "SELECT target FROM u WHERE id = 2", ELSEWHERE, true),
        ("CALL hit()", "SELECT v FROM t WHERE id = 2", ELSEWHERE, false),
        ("CALL hit()", "SELECT target FROM u WHERE id = 2", ELSEWHERE, true),
        // A hot counter that is not looked at.
        (COUNT, "SELECT v FROM t WHERE id = 2", COUNT, true),
        (COUNT, "SELECT v FROM t WHERE id = 1", COUNT, false),
    ];
    block_on(async {
        // Where sessions lock, the change would wait for the COMMIT.
        for protocol in super::protocols().filter(|protocol| *protocol != "2pl") {
            for (write, look, change, commits) in cases {
                let node = Node::new(protocol);
                let (mut client, mut other) = (node.session(), node.session());
                for statement in TABLES {
                    other.run(statement).await.unwrap();
                }
                client.run("BEGIN").await.unwrap();
                client.run(write).await.unwrap();
                client.number(look).await;
                other.run(change).await.unwrap();
                let end = client.run("COMMIT").await;
                assert_eq!(end.is_ok(), commits, "{protocol}: {write}; {look}");
                if !commits {
                    assert_eq!(code(end), SqlState::SERIALIZATION_FAILURE);
                }
                node.verify();
            }
        }
    });
}

/// An update command that fails does so at its statement, not at COMMIT; a savepoint saves the
/// rest.
#[test]
fn an_update_that_fails_is_told_of_at_once() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v int CHECK (v >= 0))").await.unwrap();
        client.run("INSERT INTO t VALUES (1, 5), (2, 5)").await.unwrap();
        client.run("BEGIN").await.unwrap();
        client.run("UPDATE t SET v = v - 3 WHERE id = 1").await.unwrap();
        client.run("SAVEPOINT s").await.unwrap();
        let failed = client.run("UPDATE t SET v = v - 3 WHERE id = 1").await;
        assert_eq!(code(failed), SqlState::CHECK_VIOLATION);
        client.run("ROLLBACK TO s").await.unwrap();
        let failed = client.run("UPDATE t SET v = v / 0 WHERE id = 2").await;
        assert_eq!(code(failed), SqlState::DIVISION_BY_ZERO);
        client.run("ROLLBACK TO s").await.unwrap();
        client.run("COMMIT").await.unwrap();
        assert_eq!(client.number("SELECT sum(v) FROM t").await, 7);
        node.verify();
    });
}

/// What was read without a note of it cannot be required at COMMIT.
#[test]
fn a_transaction_that_has_read_as_a_reader_may_not_begin_to_write() {
    block_on(async {
        let node = Node::new("silo");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
        client.run("INSERT INTO t VALUES (1, 5)").await.unwrap();

        client.run("BEGIN READ ONLY DEFERRABLE").await.unwrap();
        client.run("SET TRANSACTION READ WRITE").await.unwrap();
        client.run("UPDATE t SET v = v + 1").await.unwrap();
        client.run("COMMIT").await.unwrap();

        client.run("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await.unwrap();
        assert_eq!(client.number("SELECT v FROM t").await, 6);
        let late = client.run("SET transaction_read_only = off").await;
        assert_eq!(code(late), SqlState::ACTIVE_SQL_TRANSACTION);
        client.run("ROLLBACK").await.unwrap();

        client.run("SET default_transaction_read_only = yes").await.unwrap();
        for writes in [
            "UPDATE t SET v = 0",
            "CREATE TABLE other (k bigint PRIMARY KEY)",
            "DROP TABLE t",
            "TRUNCATE t",
            "SET ledger.block_requests_max = 7",
        ] {
            let refused = client.run(writes).await;
            assert_eq!(code(refused), SqlState::READ_ONLY_SQL_TRANSACTION, "{writes}");
        }
        client.run("RESET default_transaction_read_only").await.unwrap();
        assert_eq!(client.number("SELECT v FROM t").await, 6);
        node.verify();
    });
}

/// READ ONLY may come late; what has been written still requires what is read from then on.
#[test]
fn a_writer_that_turns_reader_is_validated() {
    block_on(async {
        let node = Node::new("silo");
        let (mut client, mut other) = (node.session(), node.session());
        client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
        client.run("INSERT INTO t VALUES (1, 5), (2, 5)").await.unwrap();
        client.run("BEGIN").await.unwrap();
        client.run("UPDATE t SET v = 0 WHERE id = 1").await.unwrap();
        client.run("SET TRANSACTION READ ONLY").await.unwrap();
        let refused = client.run("SAVEPOINT s; UPDATE t SET v = 1 WHERE id = 1").await;
        assert_eq!(code(refused), SqlState::READ_ONLY_SQL_TRANSACTION);
        client.run("ROLLBACK TO s").await.unwrap();
        assert_eq!(client.number("SELECT v FROM t WHERE id = 2").await, 5);
        other.run("UPDATE t SET v = 6 WHERE id = 2").await.unwrap();
        assert_eq!(code(client.run("COMMIT").await), SqlState::SERIALIZATION_FAILURE);
        node.verify();
    });
}

/// READ ONLY that is set after a savepoint ends with it, and what was read meanwhile is required
/// like anything else.
#[test]
fn a_savepoint_takes_read_only_back() {
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let (mut client, mut other) = (node.session(), node.session());
            client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
            client.run("INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)").await.unwrap();
            for (begin, end) in [
                ("", "ROLLBACK TO s"),
                ("", "RELEASE s"),
                ("", "SAVEPOINT s; ROLLBACK TO s; RELEASE s; RELEASE s"),
                ("UPDATE t SET v = v WHERE id = 1", "ROLLBACK TO s"),
                ("SELECT v FROM t WHERE id = 1", "RELEASE s"),
            ] {
                for set in ["SET TRANSACTION READ ONLY", "SET transaction_read_only = on"] {
                    client.run(&format!("BEGIN; {begin}; SAVEPOINT s; {set}")).await.unwrap();
                    let refused = client.run("SAVEPOINT q; UPDATE t SET v = 9").await;
                    assert_eq!(code(refused), SqlState::READ_ONLY_SQL_TRANSACTION);
                    client.run("ROLLBACK TO q").await.unwrap();
                    let refused = client.run("SET TRANSACTION READ WRITE").await;
                    assert_eq!(code(refused), SqlState::ACTIVE_SQL_TRANSACTION);
                    client.run("ROLLBACK TO q; RELEASE q").await.unwrap();
                    client.run(end).await.unwrap();
                    let shown = client.run("SHOW transaction_read_only").await.unwrap();
                    assert_eq!(shown[0][0], Value::text("off"), "{begin}; {set}; {end}");
                    client.run("UPDATE t SET v = v + 1 WHERE id = 1; COMMIT").await.unwrap();
                }
            }
            assert_eq!(client.number("SELECT v FROM t WHERE id = 1").await, 10, "{protocol}");

            client.run("BEGIN; SAVEPOINT s; SET TRANSACTION READ ONLY").await.unwrap();
            assert_eq!(client.number("SELECT v FROM t WHERE id = 2").await, 0);
            client.run("ROLLBACK TO s; UPDATE t SET v = 1 WHERE id = 3").await.unwrap();
            other.run("SET lock_timeout = '10ms'").await.unwrap();
            let changed = other.run("UPDATE t SET v = 7 WHERE id = 2").await.is_ok();
            assert_eq!(client.run("COMMIT").await.is_ok(), !changed, "{protocol}");
            node.verify();
        }
    });
}
