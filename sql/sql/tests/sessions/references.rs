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

/// MERGE and rows that go with others of their table, judged at the statement's end.
#[test]
fn merge_and_cascades_within_a_table_end_well() {
    const STATEMENTS: [(&str, &str); 22] = [
        (
            "MERGE INTO e USING (VALUES (4, 3), (3, NULL), (5, 5)) s (i, b) ON id = i
          WHEN NOT MATCHED THEN INSERT VALUES (i, b)",
            "00000",
        ),
        (
            "MERGE INTO e USING (VALUES (6, 7)) s (i, b) ON id = i
          WHEN NOT MATCHED THEN INSERT VALUES (i, b)",
            "23503",
        ),
        (
            "MERGE INTO e USING (VALUES (4, 9), (9, 4)) s (i, b) ON id = i
          WHEN MATCHED THEN UPDATE SET boss = b
          WHEN NOT MATCHED THEN INSERT VALUES (i, b)",
            "00000",
        ),
        ("MERGE INTO e USING (VALUES (9)) s (i) ON id = i WHEN MATCHED THEN DELETE", "23503"),
        ("MERGE INTO e USING (VALUES (9), (4)) s (i) ON id = i WHEN MATCHED THEN DELETE", "00000"),
        (
            "MERGE INTO e USING (VALUES (3), (5)) s (i) ON id = i
          WHEN MATCHED AND i = 3 THEN UPDATE SET id = 13, boss = 15
          WHEN MATCHED THEN UPDATE SET id = 15, boss = 13",
            "00000",
        ),
        (
            "MERGE INTO e USING (VALUES (13, 1)) s (i, z) ON id = i
          WHEN MATCHED AND z = 0 THEN UPDATE SET boss = 1 / z
          WHEN MATCHED THEN UPDATE SET boss = i",
            "00000",
        ),
        (
            "MERGE INTO e USING (SELECT id AS i FROM e) s ON id = i WHEN MATCHED THEN DELETE",
            "00000",
        ),
        (
            "MERGE INTO g USING (VALUES ('a'), ('b')) s (t) ON name = t
          WHEN NOT MATCHED THEN INSERT (name, up) VALUES (t, CASE t WHEN 'a' THEN 2 ELSE 1 END)",
            "00000",
        ),
        (
            "MERGE INTO g USING (VALUES ('c')) s (t) ON name = t
          WHEN NOT MATCHED THEN INSERT (name, up) VALUES (t, 17)",
            "23503",
        ),
        ("DELETE FROM g WHERE shout = 'a!' AND double_up = 4", "23503"),
        ("DELETE FROM g", "00000"),
        ("INSERT INTO tree SELECT n, nullif(n / 2, 0) FROM generate_series(1, 200) n", "00000"),
        ("DELETE FROM tree WHERE id = 3", "00000"),
        ("INSERT INTO leaf VALUES (1, 8), (2, 5)", "00000"),
        ("DELETE FROM tree WHERE id = 4", "23503"),
        ("DELETE FROM leaf WHERE id = 1", "00000"),
        ("DELETE FROM tree WHERE id IN (4, 8)", "00000"),
        (
            "INSERT INTO tree VALUES (301, 302), (302, 303), (303, 301), (304, 304), (305, 304)",
            "00000",
        ),
        ("DELETE FROM tree WHERE id IN (302, 304)", "00000"),
        ("DELETE FROM leaf", "00000"),
        ("DELETE FROM forest", "00000"),
    ];
    block_on(async {
        for protocol in super::protocols() {
            for interactive in [false, true] {
                let node = Node::new(protocol);
                let mut client = node.session();
                for table in [
                    "CREATE TABLE e (id int PRIMARY KEY, boss int REFERENCES e)",
                    "CREATE TABLE g (id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, name text,
                        up int REFERENCES g, double_up int GENERATED ALWAYS AS (up * 2) STORED,
                        shout text GENERATED ALWAYS AS (name || '!') STORED)",
                    "CREATE TABLE forest (id int PRIMARY KEY)",
                    "CREATE TABLE tree (id int PRIMARY KEY,
                        up int REFERENCES tree ON DELETE CASCADE,
                        forest int DEFAULT 1 REFERENCES forest ON DELETE CASCADE)",
                    "CREATE TABLE leaf (id int PRIMARY KEY, of int REFERENCES tree)",
                    "INSERT INTO forest VALUES (1)",
                ] {
                    client.run(table).await.unwrap();
                }
                if interactive {
                    client.run("BEGIN").await.unwrap();
                }
                for (text, expected) in STATEMENTS {
                    let got = run(&mut client, interactive, text).await;
                    assert_eq!(got.as_str(), expected, "{protocol} {interactive}: {text}");
                    if text.ends_with("id = 3") {
                        // 3, 6 and 7, 12 to 15, … 96 to 127, and 192 to 200.
                        assert_eq!(client.number("SELECT count(*) FROM tree").await, 200 - 63 - 9);
                    }
                    if text.ends_with("(302, 304)") {
                        assert_eq!(client.number("SELECT max(id) FROM tree").await, 191);
                    }
                }
                if interactive {
                    client.run("COMMIT").await.unwrap();
                }
                for table in ["e", "g", "tree", "leaf"] {
                    let count = client.number(&format!("SELECT count(*) FROM {table}")).await;
                    assert_eq!(count, 0, "{protocol} {interactive}: {table}");
                }
                node.verify();
            }
        }
    });
}

const CYCLES: &str = "CREATE TABLE tree (id int PRIMARY KEY,
                        up int REFERENCES tree ON UPDATE CASCADE ON DELETE CASCADE);
    CREATE TABLE dept (id int PRIMARY KEY, head int);
    CREATE TABLE emp (id int PRIMARY KEY,
                      dept int REFERENCES dept ON UPDATE CASCADE ON DELETE CASCADE,
                      boss int REFERENCES emp ON UPDATE CASCADE ON DELETE CASCADE);
    ALTER TABLE dept ADD FOREIGN KEY (head) REFERENCES emp
        ON UPDATE CASCADE ON DELETE CASCADE;
    CREATE TABLE pay (emp int REFERENCES emp ON UPDATE CASCADE)";

/// Statements that go in cycles, and what is left behind them: PostgreSQL's answers.
const IN_CYCLES: [(&str, &str, &str); 8] = [
    ("UPDATE tree SET id = id + 100", "00000", "SELECT sum(id - up) FROM tree WHERE up < id"),
    ("UPDATE tree SET id = 7, up = 9 WHERE id = 101", "23503", "SELECT count(*) FROM tree"),
    ("DELETE FROM tree WHERE id = 120", "00000", "SELECT count(*) FROM tree"),
    ("UPDATE dept SET id = id + 10", "00000", "SELECT sum(dept) FROM emp"),
    ("UPDATE emp SET id = id * 10", "00000", "SELECT sum(boss) FROM emp"),
    ("DELETE FROM emp WHERE id = 10", "23503", "SELECT count(*) FROM emp"),
    ("DELETE FROM pay", "00000", "SELECT sum(head) FROM dept"),
    ("DELETE FROM emp WHERE id = 10", "00000", "SELECT count(*) FROM emp"),
];

#[test]
fn actions_that_come_back_to_a_table_end_under_every_protocol() {
    block_on(async {
        for protocol in super::protocols() {
            for interactive in [false, true] {
                let node = Node::new(protocol);
                let mut client = node.session();
                for table in CYCLES.split(';') {
                    client.run(table).await.unwrap();
                }
                for text in [
                    "INSERT INTO tree SELECT i, i % 40 + 1 FROM generate_series(1, 40) i",
                    "INSERT INTO dept VALUES (1, NULL), (2, NULL), (3, NULL)",
                    "INSERT INTO emp VALUES (1, 1, NULL), (2, 1, 1), (3, 2, 2), (4, 3, 4)",
                    "UPDATE dept SET head = id",
                    "INSERT INTO pay VALUES (3)",
                ] {
                    client.run(text).await.unwrap();
                }
                if interactive {
                    client.run("BEGIN").await.unwrap();
                }
                let mut left = Vec::new();
                for (text, expected, asked) in &IN_CYCLES {
                    let got = run(&mut client, interactive, text).await;
                    assert_eq!(got.as_str(), *expected, "{protocol} {interactive}: {text}");
                    left.push(client.number(asked).await);
                }
                if interactive {
                    client.run("COMMIT").await.unwrap();
                }
                assert_eq!(left, [39, 40, 0, 47, 70, 4, 60, 0], "{protocol}");
                node.verify();
            }
        }
    });
}

/// A list of rows is gone through level by level, and each level is paid for.
#[test]
fn long_lists_end_by_what_a_transaction_may_do() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client
            .run(
                "CREATE TABLE list (id int PRIMARY KEY, next int REFERENCES list
                  ON DELETE CASCADE ON UPDATE CASCADE)",
            )
            .await
            .unwrap();
        let rows = "INSERT INTO list SELECT i, i + 1 FROM generate_series(1, 1999) i
                    UNION ALL SELECT 2000, NULL";
        client.run(rows).await.unwrap();
        client.run("UPDATE list SET id = -id WHERE id <= 1000").await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM list WHERE next < 0").await, 999);
        client.run("SET ledger.transaction_units_max = 100000").await.unwrap();
        let error = client.run("DELETE FROM list WHERE id = 2000").await.unwrap_err();
        assert_eq!(error.code(), SqlState::STATEMENT_TOO_COMPLEX);
        client.run("SET ledger.transaction_units_max = 100000000").await.unwrap();
        client.run("DELETE FROM list WHERE id = 2000").await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM list").await, 0);
        node.verify();
    });
}

/// A default that is drawn is drawn for each row that it is set in, however the actions come back.
#[test]
fn drawn_defaults_are_set_in_cycles_under_every_protocol() {
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            for text in [
                "CREATE SEQUENCE turns",
                "CREATE TABLE d (id int PRIMARY KEY,
                 up int DEFAULT nextval('turns') REFERENCES d ON UPDATE SET DEFAULT)",
                "INSERT INTO d VALUES (1, 1), (2, 1), (3, 2), (10, 10), (11, 10)",
                "UPDATE d SET id = 100 WHERE id = 10",
            ] {
                client.run(text).await.unwrap_or_else(|e| panic!("{protocol}: {text}: {e:?}"));
            }
            let of = |what: &str| format!("SELECT {what}(up) FROM d WHERE id IN (11, 100)");
            for (what, expected) in [("min", 1), ("max", 2), ("count", 2)] {
                assert_eq!(client.number(&of(what)).await, expected, "{protocol}");
            }
            // Two rows get values that follow, of which one is no row's.
            let refused = client.run("UPDATE d SET id = 12 WHERE id = 1").await;
            assert_eq!(code(refused).as_str(), "23503", "{protocol}");
            assert_eq!(client.number("SELECT count(*) FROM d WHERE id = 12").await, 0);
            for text in [
                "CREATE TABLE chance (id int PRIMARY KEY,
                 up int DEFAULT 1 + floor(random()) REFERENCES chance ON UPDATE SET DEFAULT)",
                "INSERT INTO chance VALUES (1, NULL), (2, 2), (3, 2), (4, 3)",
                "UPDATE chance SET id = id + 10 WHERE id > 1",
            ] {
                client.run(text).await.unwrap_or_else(|e| panic!("{protocol}: {text}: {e:?}"));
            }
            assert_eq!(client.number("SELECT sum(up) FROM chance WHERE id > 11").await, 3);
            let refused = client.run("UPDATE chance SET id = 5 WHERE id = 1").await;
            assert_eq!(code(refused).as_str(), "23503", "{protocol}");
            // What is drawn is a key that others follow.
            for text in [
                "CREATE SEQUENCE keys START 8",
                "CREATE TABLE chained (id int PRIMARY KEY, up int UNIQUE DEFAULT nextval('keys')
                 REFERENCES chained ON UPDATE SET DEFAULT,
                 above int REFERENCES chained (up) ON UPDATE CASCADE)",
                "INSERT INTO chained VALUES (1, NULL, NULL), (7, 1, 1), (8, 7, 1), (9, NULL, 7)",
                "UPDATE chained SET id = 6 WHERE id = 7",
            ] {
                client.run(text).await.unwrap_or_else(|e| panic!("{protocol}: {text}: {e:?}"));
            }
            assert_eq!(client.number("SELECT up FROM chained WHERE id = 8").await, 8);
            assert_eq!(client.number("SELECT above FROM chained WHERE id = 9").await, 8);
            assert_eq!(client.number("SELECT nextval('keys')").await, 9, "{protocol}");
            node.verify();
        }
    });
}
