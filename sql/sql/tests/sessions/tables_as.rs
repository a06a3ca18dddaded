//! CREATE TABLE AS, DO and what else is made of several statements: whole, or not at all.

use ::types::{SqlState, Value};

use super::{Node, block_on, code, protocols};

#[test]
fn a_table_and_its_rows_are_made_together_under_every_protocol() {
    block_on(async {
        for protocol in protocols() {
            let node = Node::new(protocol);
            let (mut client, mut other) = (node.session(), node.session());
            client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
            client.run("INSERT INTO t SELECT n, n % 3 FROM generate_series(1, 9) n").await.unwrap();
            let twice = "CREATE TABLE copy AS SELECT id, v * 2 AS twice FROM t WHERE v > $1";
            client.run_typed(twice, &[], &[Value::Int(0)]).await.unwrap();
            assert_eq!(client.number("SELECT sum(twice) FROM copy").await, 18, "{protocol}");
            let fails = client.run("CREATE TABLE no AS SELECT 1 / (id - 5) AS q FROM t").await;
            assert_eq!(code(fails).as_str(), "22012");
            let missing = client.run("SELECT * FROM no").await;
            assert_eq!(code(missing), SqlState::UNDEFINED_TABLE);
            // Others see it when it is committed, and never if it is not.
            client.run("BEGIN; INSERT INTO t VALUES (10, 7)").await.unwrap();
            client.run("SELECT id, v INTO big FROM t WHERE v > 5").await.unwrap();
            client.run("CREATE TABLE drawn AS SELECT random() AS r, id FROM t").await.unwrap();
            assert_eq!(client.number("SELECT count(*) FROM big").await, 1, "{protocol}");
            let unseen = other.run("SELECT * FROM big").await;
            assert_eq!(code(unseen), SqlState::UNDEFINED_TABLE);
            client
                .run("SAVEPOINT s; CREATE TABLE gone AS SELECT 1 AS x; ROLLBACK TO s")
                .await
                .unwrap();
            client.run("COMMIT").await.unwrap();
            assert_eq!(other.number("SELECT v FROM big").await, 7, "{protocol}");
            assert_eq!(other.number("SELECT count(r) FROM drawn").await, 10, "{protocol}");
            client.run("BEGIN; CREATE TABLE gone AS SELECT * FROM t; ROLLBACK").await.unwrap();
            let missing = other.run("SELECT * FROM gone").await;
            assert_eq!(code(missing), SqlState::UNDEFINED_TABLE);
            client.run("CREATE TABLE IF NOT EXISTS big AS SELECT 1").await.unwrap();
            let notices = client.session.take_notices();
            assert!(
                notices
                    .iter()
                    .map(|notice| notice.content.code().as_str().to_owned())
                    .eq(["42P07"])
            );
            node.verify();
        }
    });
}

#[test]
fn a_block_without_a_name_is_a_transaction_under_every_protocol() {
    block_on(async {
        for protocol in protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
            let fill =
                "DO $$ BEGIN FOR i IN 1..4 LOOP INSERT INTO t VALUES (i, i * i); END LOOP; END $$";
            client.run(fill).await.unwrap();
            let fails = "DO $$ BEGIN DELETE FROM t; RAISE EXCEPTION 'no'; END $$";
            assert_eq!(code(client.run(fails).await).as_str(), "P0001");
            assert_eq!(client.number("SELECT sum(v) FROM t").await, 30, "{protocol}");
            client.run("BEGIN; DO $$ BEGIN UPDATE t SET v = 0 WHERE id < 3; END $$").await.unwrap();
            assert_eq!(client.number("SELECT sum(v) FROM t").await, 25, "{protocol}");
            client.run("COMMIT; DO $$ BEGIN PERFORM 1; END $$").await.unwrap();
            assert_eq!(client.number("SELECT sum(v) FROM t").await, 25, "{protocol}");
            node.verify();
        }
    });
}
