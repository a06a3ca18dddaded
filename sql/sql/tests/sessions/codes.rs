//! Errors by the code that clients look for, and columns of what functions about the past answer.

use types::{SqlState, Value};

use super::{Node, block_on, code};

#[test]
fn what_is_not_there_is_refused_by_its_own_code() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
        for (text, expected) in [
            ("SELECT nextval('nope')", "42P01"),
            ("SELECT currval('nope')", "42P01"),
            ("SELECT setval('nope', 1)", "42P01"),
            ("INSERT INTO t VALUES (nextval('nope'), 1)", "42P01"),
            ("SELECT nextval('t')", "42809"),
            ("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN END $$", "0A000"),
            ("INSERT INTO t VALUES (1, 1) ON CONFLICT (lower(id)) DO NOTHING", "0A000"),
            ("INSERT INTO t VALUES (1, 1) ON CONFLICT (v) DO NOTHING", "42P10"),
            ("INSERT INTO t(id, v) VALUES (1)", "42601"),
            ("SELECT 1 WHERE 1 < 2 = true", "42601"),
            ("SELECT nothing FROM tally_outcome('x')", "42703"),
            ("SELECT outcome FROM tally_outcome('x', 'y')", "42883"),
            ("SELECT a FROM nothing('x')", "42883"),
        ] {
            assert_eq!(code(client.run(text).await).as_str(), expected, "{text}");
        }
    });
}

#[test]
fn columns_of_functions_about_the_past_are_chosen_by_name() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
        client.run("SET tally.transaction_key = 'k'").await.unwrap();
        client.run("INSERT INTO t VALUES (1, 10)").await.unwrap();
        let all = client.run("SELECT * FROM tally_outcome('k')").await.unwrap();
        assert_eq!(all[0][0], Value::text("committed"));
        for (text, columns) in [
            ("SELECT outcome FROM tally_outcome('k')", &[0][..]),
            ("SELECT o.block AS b, outcome FROM tally_outcome('k') AS o", &[2, 0]),
            ("SELECT tally_outcome.index, block, index FROM tally_outcome('k')", &[3, 2, 3]),
        ] {
            let rows = client.run(text).await.unwrap();
            let expected: Vec<Value> = columns.iter().map(|&at| all[0][at].clone()).collect();
            assert_eq!((rows.len(), &*rows[0]), (1, &expected[..]), "{text}");
        }
        let rows = client.run("SELECT v, deleted FROM tally_history('t', 1)").await.unwrap();
        assert_eq!(*rows[0], [Value::Int(10), Value::Bool(false)]);
        let parameters = [Value::text("k")];
        let text = "SELECT outcome FROM tally_outcome($1)";
        let rows = client.run_typed(text, &[], &parameters).await.unwrap();
        assert_eq!(*rows[0], [Value::text("committed")]);
    });
}

/// What a node answers by itself is there, wherever it cannot stand.
#[test]
fn what_is_asked_for_alone_says_so() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v text)").await.unwrap();
        for text in [
            "SELECT length(tally_row_proof('t', 1))",
            "SELECT tally_row_proof('t', 1) IS NULL",
            "SELECT (tally_last_commit()).block",
            "SELECT * FROM t, tally_receipt(1, 0) r",
        ] {
            let error = client.run(text).await.map(drop).unwrap_err();
            assert_eq!(error.code(), SqlState::FEATURE_NOT_SUPPORTED, "{text}: {error}");
            assert!(error.fields().hint.is_some(), "{text}: {error}");
        }
        node.verify();
    });
}

/// In PostgreSQL too, a row that another part of the statement has inserted is not changed by it.
#[test]
fn rows_of_one_statement_are_not_changed_by_a_conflict_within_it() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
        let with = "WITH x AS (INSERT INTO t VALUES (9, 1) RETURNING id) INSERT INTO t
            SELECT id, 5 FROM x ON CONFLICT (id)";
        let error = client.run(&format!("{with} DO UPDATE SET v = 7")).await.map(drop).unwrap_err();
        assert_eq!(error.code(), SqlState::FEATURE_NOT_SUPPORTED, "{error}");
        assert_eq!(client.number("SELECT count(*) FROM t").await, 0);
        client.run(&format!("{with} DO NOTHING")).await.unwrap();
        client
            .run("WITH x AS (INSERT INTO t VALUES (8, 1) RETURNING id) UPDATE t SET v = 3")
            .await
            .unwrap();
        assert_eq!(client.number("SELECT v FROM t WHERE id = 8").await, 1);
        node.verify();
    });
}
