//! Foreign keys at a statement's end, under every protocol and in both kinds of transactions.

use types::SqlState;

use super::{Client, Node, block_on, code};

const TABLES: &str = "CREATE TABLE e (id int PRIMARY KEY, boss int REFERENCES e);
    CREATE TABLE top (id int PRIMARY KEY);
    CREATE TABLE a (id int PRIMARY KEY, t int REFERENCES top ON DELETE CASCADE);
    CREATE TABLE b (id int PRIMARY KEY, t int REFERENCES top ON DELETE CASCADE,
                    a int REFERENCES a);
    CREATE TABLE x (id int PRIMARY KEY, y int);
    CREATE TABLE y (id int PRIMARY KEY, x int REFERENCES x);
    ALTER TABLE x ADD FOREIGN KEY (y) REFERENCES y";

/// Statements, and whether they violate a key.
const STATEMENTS: [(&str, bool); 14] = [
    ("INSERT INTO e VALUES (4, 3), (3, NULL), (5, 5)", false),
    ("INSERT INTO e VALUES (6, 7)", true),
    ("UPDATE e SET id = id + 10, boss = boss + 10", false),
    ("DELETE FROM e WHERE id = 13", true),
    ("DELETE FROM e WHERE id IN (13, 14)", false),
    ("INSERT INTO top VALUES (1), (2)", false),
    ("INSERT INTO a VALUES (1, 1), (2, 2)", false),
    ("INSERT INTO b VALUES (1, 1, 1), (2, 2, 1)", false),
    ("DELETE FROM top WHERE id = 1", true),
    ("DELETE FROM top", false),
    ("WITH n AS (INSERT INTO x VALUES (1, 1)) INSERT INTO y VALUES (1, 1)", false),
    ("INSERT INTO e VALUES (1, 2), (2, 3), (3, 1)", false),
    ("TRUNCATE x, y", false),
    ("DELETE FROM e", false),
];

async fn run(client: &mut Client, savepoints: bool, text: &str) -> SqlState {
    if savepoints {
        client.run("SAVEPOINT s").await.unwrap();
    }
    let code = code(client.run(text).await);
    if savepoints {
        let end = if code == SqlState(*b"00000") { "RELEASE s" } else { "ROLLBACK TO s" };
        client.run(end).await.unwrap();
    }
    code
}

#[test]
fn keys_are_judged_when_the_statement_has_changed_everything() {
    block_on(async {
        for protocol in super::protocols() {
            for interactive in [false, true] {
                let node = Node::new(protocol);
                let mut client = node.session();
                for table in TABLES.split(';') {
                    client.run(table).await.unwrap();
                }
                if interactive {
                    client.run("BEGIN").await.unwrap();
                }
                for (text, violates) in STATEMENTS {
                    let expected = if violates { *b"23503" } else { *b"00000" };
                    let got = run(&mut client, interactive, text).await;
                    assert_eq!(got, SqlState(expected), "{protocol} {interactive}: {text}");
                }
                if interactive {
                    client.run("COMMIT").await.unwrap();
                }
                for table in ["e", "top", "a", "b", "x", "y"] {
                    let count = client.number(&format!("SELECT count(*) FROM {table}")).await;
                    assert_eq!(count, 0, "{protocol} {interactive}: {table}");
                }
                node.verify();
            }
        }
    });
}

/// As a statement of its own does.
#[test]
fn truncate_in_a_transaction_takes_tables_in_any_order() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        for table in TABLES.split(';') {
            client.run(table).await.unwrap();
        }
        let fill = "INSERT INTO top VALUES (1); INSERT INTO a VALUES (1, 1);
            INSERT INTO b VALUES (1, 1, 1); INSERT INTO e VALUES (1, 2), (2, 1)";
        for (text, expected) in [
            ("TRUNCATE top, a, b", "00000"),
            ("TRUNCATE b, a, top", "00000"),
            ("TRUNCATE top CASCADE", "00000"),
            ("TRUNCATE top", "0A000"),
            ("TRUNCATE top, a", "0A000"),
            ("TRUNCATE e", "00000"),
        ] {
            client.run("BEGIN").await.unwrap();
            client.run(fill).await.unwrap();
            assert_eq!(code(client.run(text).await).as_str(), expected, "{text}");
            if expected == "00000" && text != "TRUNCATE e" {
                assert_eq!(client.number("SELECT count(*) FROM b").await, 0);
            }
            client.run("ROLLBACK").await.unwrap();
            client.run(fill).await.unwrap();
            assert_eq!(code(client.run(text).await).as_str(), expected, "{text}");
            client.run("TRUNCATE top, a, b, e").await.unwrap();
        }
        node.verify();
    });
}
