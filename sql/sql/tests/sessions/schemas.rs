//! Schemas and search paths of sessions: what a name means follows its session into the ledger.

use ::types::{SqlState, Value};

use super::{Node, block_on, code, protocols};

#[test]
fn a_path_goes_along_into_the_ledger_under_every_protocol() {
    block_on(async {
        for protocol in protocols() {
            let node = Node::new(protocol);
            let (mut client, mut other) = (node.session(), node.session());
            client.run("CREATE SCHEMA a; CREATE SCHEMA b").await.unwrap();
            client.run("SET search_path TO a, public").await.unwrap();
            client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
            client.run("CREATE TABLE public.u (id int PRIMARY KEY, v int)").await.unwrap();
            client
                .run("INSERT INTO t VALUES (1, 10); INSERT INTO u VALUES (1, 100)")
                .await
                .unwrap();
            // The other session has the usual path.
            assert_eq!(code(other.run("SELECT * FROM t").await), SqlState::UNDEFINED_TABLE);
            assert_eq!(other.number("SELECT a.t.v FROM a.t").await, 10, "{protocol}");
            other.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
            other.run("INSERT INTO t VALUES (1, 1000)").await.unwrap();
            assert_eq!(client.number("SELECT v FROM t").await, 10, "{protocol}");
            assert_eq!(other.number("SELECT v FROM t").await, 1000, "{protocol}");
            // The same text, bound before, means another table by another path.
            let add = "UPDATE t SET v = v + $1";
            client.run_typed(add, &[], &[Value::Int(1)]).await.unwrap();
            client.run("SET search_path TO public").await.unwrap();
            client.run_typed(add, &[], &[Value::Int(1)]).await.unwrap();
            assert_eq!(other.number("SELECT v FROM a.t").await, 11, "{protocol}");
            assert_eq!(other.number("SELECT v FROM t").await, 1001, "{protocol}");
            // In a transaction, with the schema changed in it.
            client.run("BEGIN; SET LOCAL search_path TO b").await.unwrap();
            client.run("CREATE TABLE t (id serial PRIMARY KEY, v int)").await.unwrap();
            client.run("INSERT INTO t (v) VALUES (5), (6)").await.unwrap();
            assert_eq!(client.number("SELECT sum(v) FROM t").await, 11, "{protocol}");
            client.run("COMMIT").await.unwrap();
            assert_eq!(client.number("SELECT v FROM t").await, 1001, "{protocol}");
            assert_eq!(other.number("SELECT max(id) FROM b.t").await, 2, "{protocol}");
            client.run("SET search_path TO b").await.unwrap();
            client.run("CREATE TABLE made AS SELECT v + 1 AS v FROM t").await.unwrap();
            assert_eq!(other.number("SELECT sum(v) FROM b.made").await, 13, "{protocol}");
            assert_eq!(code(client.run("SELECT * FROM u").await), SqlState::UNDEFINED_TABLE);
            assert_eq!(code(client.run("DELETE FROM u").await), SqlState::UNDEFINED_TABLE);
            client.run("DROP TABLE IF EXISTS u").await.unwrap();
            assert_eq!(other.number("SELECT v FROM u").await, 100, "{protocol}");
            client.run("SET search_path TO ''").await.unwrap();
            let nowhere = client.run("CREATE TABLE n (id int PRIMARY KEY)").await;
            assert_eq!(code(nowhere), SqlState::INVALID_SCHEMA_NAME);
            node.verify();
        }
    });
}

#[test]
fn routines_and_views_keep_the_path_that_they_were_made_by() {
    block_on(async {
        let node = Node::new("serial");
        let (mut client, mut other) = (node.session(), node.session());
        client.run("CREATE SCHEMA a; SET search_path TO a").await.unwrap();
        client
            .run("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 2)")
            .await
            .unwrap();
        client.run("CREATE VIEW w AS SELECT v * 10 AS v FROM t").await.unwrap();
        client
            .run(
                "CREATE PROCEDURE add(n int) LANGUAGE plpgsql AS $$ BEGIN \
                  UPDATE t SET v = v + n; END $$",
            )
            .await
            .unwrap();
        client
            .run("CREATE FUNCTION top() RETURNS int LANGUAGE sql AS 'SELECT max(v) FROM t'")
            .await
            .unwrap();
        client.run("CALL add(5); DO $$ BEGIN UPDATE t SET v = v + 1; END $$").await.unwrap();
        other
            .run("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)")
            .await
            .unwrap();
        other.run("CALL a.add(1)").await.unwrap();
        assert_eq!(other.number("SELECT v FROM a.w").await, 90);
        assert_eq!(client.number("SELECT v FROM w").await, 90);
        assert_eq!(other.number("SELECT a.top()").await, 9);
        assert_eq!(other.number("SELECT v FROM t").await, 0);
        assert_eq!(code(other.run("CALL add(1)").await), SqlState::UNDEFINED_FUNCTION);
        // Compiled again after every change of the schema, by the same path.
        other.run("CREATE TABLE more (id int PRIMARY KEY)").await.unwrap();
        other.run("CALL a.add(1)").await.unwrap();
        assert_eq!(other.number("SELECT v FROM a.t").await, 10);
        client.run("DROP SCHEMA a CASCADE").await.unwrap();
        assert_eq!(code(other.run("CALL a.add(1)").await), SqlState::UNDEFINED_FUNCTION);
        node.verify();
    });
}

#[test]
fn the_user_s_own_schema_comes_first() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
        client
            .run("CREATE SCHEMA tally; CREATE TABLE t (id int PRIMARY KEY, mine int)")
            .await
            .unwrap();
        client.run("INSERT INTO t VALUES (1, 7)").await.unwrap();
        assert_eq!(client.number("SELECT mine FROM tally.t").await, 7);
        assert_eq!(client.number("SELECT count(*) FROM public.t").await, 0);
        node.verify();
    });
}
