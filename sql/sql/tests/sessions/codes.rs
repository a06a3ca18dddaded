//! Errors by the code that clients look for, and columns of what functions about the past answer.

use types::Value;

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
