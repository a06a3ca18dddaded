//! Schema changes within transactions, beside rows.

mod model;
mod random;

use std::ops::Bound;
use std::sync::Arc;

use ::types::{Height, SqlState, Stamp, TableId, TableSchema, Value};
use storage::{LATEST, Store};

use super::{Client, Node, block_on, code};

/// What a store holds: schemas, keys, stamps, rows.
type Dump = Vec<(TableId, Arc<TableSchema>, Vec<(Vec<u8>, Stamp, Vec<Value>)>)>;

fn dump(store: &Store) -> Dump {
    let tables = store.tables().into_iter().map(|table| {
        let columns: Vec<_> = (0..table.schema().columns.len() as u16).collect();
        let mut rows = Vec::new();
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        table.scan(0, low, high, false, LATEST, &columns, &mut |key, stamp, row| {
            // What a dropped column holds is told by no image.
            let schema = table.schema().columns.iter();
            let values = row.iter().zip(schema).filter(|(_, column)| !column.dropped);
            rows.push((key.to_vec(), stamp, values.map(|(value, _)| value.clone()).collect()));
            std::ops::ControlFlow::Continue(())
        });
        (table.id(), Arc::clone(table.schema()), rows)
    });
    tables.collect()
}

/// Stops; every executor of the ledger comes to the same rows.
fn verify(node: Node) {
    let live = dump(node.database.engine.store());
    let mut replayed = Dump::new();
    node.replayed(&mut |store| replayed = dump(store));
    assert_eq!(live, replayed);
    node.verify();
}

async fn all(client: &mut Client, statements: &str) {
    for statement in statements.split(';').filter(|statement| !statement.trim().is_empty()) {
        if let Err(error) = client.run(statement).await {
            panic!("{statement}: {error}");
        }
    }
}

fn height(node: &Node) -> Height {
    node.database.engine.head().height
}

#[test]
fn others_see_all_of_a_migration_or_nothing() {
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let (mut client, mut other) = (node.session(), node.session());
            all(
                &mut other,
                "CREATE TABLE old (id int PRIMARY KEY, v int);
                INSERT INTO old VALUES (1, 10), (2, 20)",
            )
            .await;
            let before = height(&node);
            all(
                &mut client,
                "BEGIN; CREATE TABLE t (id int PRIMARY KEY, v int);
                INSERT INTO t VALUES (1, 1), (2, 2);
                CREATE UNIQUE INDEX t_v ON t (v);
                ALTER TABLE t ADD COLUMN w int DEFAULT 7;
                INSERT INTO t VALUES (3, 3, 3);
                UPDATE t SET w = w + 1 WHERE v = 2;
                UPDATE old SET v = v + 1 WHERE id = 1;
                ALTER TABLE old ADD COLUMN w int DEFAULT 5;
                UPDATE old SET w = v WHERE id = 1;
                DELETE FROM old WHERE id = 2;
                CREATE VIEW both_of AS SELECT t.id, old.w FROM t JOIN old ON t.id = old.id",
            )
            .await;
            assert_eq!(client.number("SELECT sum(w) FROM t").await, 18, "{protocol}");
            assert_eq!(client.number("SELECT w FROM t WHERE v = 2").await, 8);
            assert_eq!(client.number("SELECT w FROM both_of").await, 11);
            let twice = client.run("SAVEPOINT s; INSERT INTO t VALUES (4, 3, 0)").await;
            assert_eq!(code(twice), SqlState::UNIQUE_VIOLATION);
            client.run("ROLLBACK TO s").await.unwrap();
            assert_eq!(code(other.run("SELECT * FROM t").await), SqlState::UNDEFINED_TABLE);
            assert_eq!(other.run("SELECT * FROM old").await.unwrap()[0].len(), 2);
            assert_eq!(height(&node), before, "{protocol}");
            client.run("COMMIT").await.unwrap();
            assert_eq!(height(&node), before + 1, "{protocol}: one block");
            assert_eq!(other.number("SELECT sum(w) FROM t").await, 18);
            assert_eq!(other.number("SELECT sum(w) FROM old").await, 11);
            assert_eq!(other.number("SELECT w FROM both_of").await, 11);
            let taken = other.run("INSERT INTO t VALUES (4, 3, 0)").await;
            assert_eq!(code(taken), SqlState::UNIQUE_VIOLATION);
            all(&mut other, "INSERT INTO t VALUES (4, 4, 0); DROP VIEW both_of; DROP TABLE t")
                .await;
            verify(node);
        }
    });
}

#[test]
fn what_is_rolled_back_has_not_been() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        all(&mut client, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)")
            .await;
        let before = height(&node);
        let work = "BEGIN; ALTER TABLE t RENAME TO u; ALTER TABLE u DROP COLUMN v;
            CREATE TABLE t (a int); INSERT INTO t VALUES (5);
            CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (6); END $$";
        for statement in client.session.parse(work).unwrap() {
            client.run(&statement.text).await.unwrap();
        }
        client.run("CALL p()").await.unwrap();
        assert_eq!(client.number("SELECT sum(a) FROM t").await, 11);
        assert_eq!(client.run("SELECT * FROM u").await.unwrap()[0].len(), 1);
        client.run("ROLLBACK").await.unwrap();
        assert_eq!(height(&node), before);
        assert_eq!(client.number("SELECT v FROM t WHERE id = 1").await, 1);
        assert_eq!(code(client.run("SELECT * FROM u").await), SqlState::UNDEFINED_TABLE);
        assert_eq!(code(client.run("CALL p()").await), SqlState::UNDEFINED_FUNCTION);
        // The number of the table that was not made is free again.
        all(&mut client, "BEGIN; CREATE TABLE w (a int); INSERT INTO w VALUES (1); COMMIT").await;
        assert_eq!(client.number("SELECT a FROM w").await, 1);
        verify(node);
    });
}

#[test]
fn savepoints_hold_the_schema_as_well() {
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            all(
                &mut client,
                "CREATE TABLE t (id int PRIMARY KEY, v int);
                INSERT INTO t VALUES (1, 1), (2, 2); BEGIN; UPDATE t SET v = 5 WHERE id = 1;
                SAVEPOINT a; ALTER TABLE t DROP COLUMN v; ALTER TABLE t ADD COLUMN w int DEFAULT 3;
                INSERT INTO t VALUES (3, 3); SAVEPOINT b; DROP TABLE t",
            )
            .await;
            assert_eq!(code(client.run("SELECT * FROM t").await), SqlState::UNDEFINED_TABLE);
            client.run("ROLLBACK TO b").await.unwrap();
            assert_eq!(client.number("SELECT sum(w) FROM t").await, 9);
            client.run("ROLLBACK TO a").await.unwrap();
            assert_eq!(client.number("SELECT sum(v) FROM t").await, 7);
            all(&mut client, "ALTER TABLE t ADD COLUMN x int DEFAULT 1; COMMIT").await;
            assert_eq!(client.number("SELECT sum(v + x) FROM t").await, 9, "{protocol}");
            verify(node);
        }
    });
}

/// What the transaction has not looked at may change until COMMIT, and a change that the data no
/// longer allows undoes all of it.
#[test]
fn a_migration_commits_if_what_it_saw_is_so() {
    // What the transaction does after BEGIN, what another does then, and whether it commits.
    let cases = [
        ("ALTER TABLE t ADD COLUMN w int DEFAULT 1", "INSERT INTO t VALUES (9, 9)", true),
        (
            "ALTER TABLE t ADD COLUMN w int DEFAULT 1; SELECT count(*) FROM t",
            "INSERT INTO t VALUES (9, 9)",
            false,
        ),
        (
            "ALTER TABLE t ADD COLUMN w int DEFAULT 1; UPDATE t SET w = v",
            "UPDATE t SET v = 7 WHERE id = 2",
            true,
        ),
        ("CREATE UNIQUE INDEX i ON t (v)", "INSERT INTO t VALUES (9, 1)", false),
        ("CREATE UNIQUE INDEX i ON t (v)", "INSERT INTO t VALUES (9, 9)", true),
        (
            "CREATE INDEX i ON t (v); SELECT id FROM t WHERE v = 1",
            "UPDATE t SET v = 7 WHERE id = 2",
            false,
        ),
        (
            "SAVEPOINT s; CREATE INDEX i ON t (v); SELECT id FROM t WHERE v = 1; ROLLBACK TO s;
            INSERT INTO u VALUES (1)",
            "UPDATE t SET v = 7 WHERE id = 1",
            false,
        ),
        (
            "SELECT v FROM t WHERE id = 1; ALTER TABLE t DROP COLUMN v",
            "UPDATE t SET v = 7 WHERE id = 1",
            false,
        ),
        ("SELECT v FROM t WHERE id = 1; DROP TABLE t", "UPDATE t SET v = 7 WHERE id = 2", true),
        (
            "CREATE TABLE n (id int); INSERT INTO n SELECT id FROM t; SELECT count(*) FROM n",
            "INSERT INTO t VALUES (9, 9)",
            false,
        ),
        ("CREATE TABLE n (id int)", "CREATE TABLE n (id int)", false),
        ("CREATE TABLE n (id int)", "CREATE TABLE m (id int)", false),
    ];
    block_on(async {
        // Where sessions lock, the other would wait.
        for protocol in super::protocols().filter(|protocol| *protocol != "2pl") {
            for (work, meanwhile, commits) in cases {
                let node = Node::new(protocol);
                let (mut client, mut other) = (node.session(), node.session());
                all(
                    &mut other,
                    "CREATE TABLE t (id int PRIMARY KEY, v int);
                    CREATE TABLE u (id int PRIMARY KEY); INSERT INTO t VALUES (1, 1), (2, 2)",
                )
                .await;
                client.run("BEGIN").await.unwrap();
                all(&mut client, work).await;
                all(&mut other, meanwhile).await;
                let before = dump(node.database.engine.store());
                let end = client.run("COMMIT").await;
                assert_eq!(end.is_ok(), commits, "{protocol}: {work}; {meanwhile}: {end:?}");
                if !commits {
                    assert_eq!(code(end), SqlState::SERIALIZATION_FAILURE);
                    assert!(dump(node.database.engine.store()) == before, "{protocol}: {work}");
                }
                verify(node);
            }
        }
    });
}

/// Rows that the transaction has written come under the new key as it has left them.
#[test]
fn a_key_is_made_of_what_the_transaction_has_left() {
    block_on(async {
        let node = Node::new("quecc");
        let mut client = node.session();
        all(
            &mut client,
            "CREATE TABLE t (a int, b int);
            INSERT INTO t VALUES (1, 1), (1, 2), (2, 3), (3, 4); BEGIN",
        )
        .await;
        client.run("SAVEPOINT s").await.unwrap();
        let twice = client.run("ALTER TABLE t ADD PRIMARY KEY (a)").await;
        assert_eq!(code(twice), SqlState::UNIQUE_VIOLATION);
        all(
            &mut client,
            "ROLLBACK TO s; DELETE FROM t WHERE b = 2; UPDATE t SET a = 9 WHERE b = 3;
            INSERT INTO t VALUES (2, 5); SAVEPOINT s; INSERT INTO t VALUES (9, 6)",
        )
        .await;
        let twice = client.run("ALTER TABLE t ADD PRIMARY KEY (a)").await;
        assert_eq!(code(twice), SqlState::UNIQUE_VIOLATION);
        all(
            &mut client,
            "ROLLBACK TO s; ALTER TABLE t ADD PRIMARY KEY (a);
            UPDATE t SET b = 7 WHERE a = 3; DELETE FROM t WHERE a = 1",
        )
        .await;
        let shown = |rows: Vec<super::Row>| -> Vec<Vec<i64>> {
            rows.iter().map(|row| row.iter().filter_map(Value::as_int).collect()).collect()
        };
        let expected = [[2, 5], [3, 7], [9, 3]];
        assert_eq!(shown(client.run("SELECT a, b FROM t ORDER BY a").await.unwrap()), expected);
        client.run("COMMIT").await.unwrap();
        assert_eq!(shown(client.run("SELECT a, b FROM t ORDER BY a").await.unwrap()), expected);
        verify(node);
    });
}

/// Changes that touch no row are paid for as well: each takes a look at all of the catalog.
#[test]
fn changes_without_rows_are_paid_for_too() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
        client.run("BEGIN").await.unwrap();
        let mut made = 0;
        let error = loop {
            match client.run("COMMENT ON TABLE t IS 'one of many'").await {
                Ok(_) => made += 1,
                Err(error) => break error,
            }
            assert!(made < 10_000, "no payment was made");
        };
        assert_eq!(error.code(), SqlState::STATEMENT_TOO_COMPLEX, "{error}");
        assert!(made > 1_000, "{made}");
        client.run("ROLLBACK").await.unwrap();
        verify(node);
    });
}

/// A request with many changes pays for all of them, in its session and in its block.
#[test]
fn changes_of_one_transaction_are_paid_for_together() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        all(
            &mut client,
            "CREATE TABLE t (id int PRIMARY KEY, v int); BEGIN;
            INSERT INTO t SELECT n, n FROM generate_series(1, 20000) AS s(n); COMMIT",
        )
        .await;
        client.run("BEGIN").await.unwrap();
        let mut made = 0;
        let error = loop {
            let change = format!("ALTER TABLE t ADD COLUMN c{made} int DEFAULT {made}");
            match client.run(&change).await {
                Ok(_) => made += 1,
                Err(error) => break error,
            }
            assert!(made < 200, "no payment was made");
        };
        let limits = [SqlState::STATEMENT_TOO_COMPLEX, SqlState::PROGRAM_LIMIT_EXCEEDED];
        assert!(limits.contains(&error.code()), "{error}");
        assert!(
            error.fields().hint.as_deref().is_some_and(|hint| hint.contains("outside")),
            "{error}"
        );
        assert!(made > 10, "{made}");
        client.run("ROLLBACK").await.unwrap();
        assert_eq!(client.run("SELECT * FROM t WHERE id = 1").await.unwrap()[0].len(), 2);
        verify(node);
    });
}
