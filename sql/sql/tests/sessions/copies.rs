//! COPY into a ledger, whole and in blocks.

use ::types::SqlState;

use super::{Client, Node, block_on, code};

async fn copy(client: &mut Client, copy: &str, data: &str) -> Result<u64, types::Error> {
    client.answer(copy).await?;
    for piece in data.as_bytes().chunks(10) {
        if let Err(error) = client.session.copy_data(piece).await {
            client.session.copy_failed();
            return Err(error);
        }
    }
    match client.session.copy_done().await? {
        sql::session::Answer::Tag(sql::session::Tag::Counted(_, rows)) => Ok(rows),
        _ => panic!("COPY answers something else"),
    }
}

fn rows_of(count: u64, row: impl Fn(u64) -> String) -> String {
    (0..count).map(row).collect()
}

fn rows(numbers: std::ops::Range<i64>) -> String {
    numbers.map(|n| format!("{n}\n")).collect()
}

#[test]
fn a_copy_is_one_transaction_unless_a_setting_cuts_it() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (a int PRIMARY KEY, s serial)").await.unwrap();
        let head = |node: &Node| node.database.engine.head().height;
        let before = head(&node);
        assert_eq!(copy(&mut client, "COPY t (a) FROM STDIN", &rows(0..25)).await, Ok(25));
        assert!(head(&node) <= before + 2, "all rows, and at most the sequence's values");

        client.run("SET tally.copy_rows_per_block = 10").await.unwrap();
        let before = head(&node);
        assert_eq!(copy(&mut client, "COPY t (a) FROM STDIN", &rows(100..125)).await, Ok(25));
        assert!(head(&node) >= before + 3);
        assert_eq!(client.number("SELECT count(DISTINCT s) FROM t").await, 50);

        // What came before the row that fails is there, and the error says so.
        let data = rows(200..215) + "100\n" + &rows(215..240);
        let error = copy(&mut client, "COPY t (a) FROM STDIN", &data).await.unwrap_err();
        assert_eq!(error.code().as_str(), "23505");
        assert!(error.fields().detail.as_ref().unwrap().contains("The first 10 rows"), "{error}");
        assert_eq!(client.number("SELECT count(*) FROM t WHERE a >= 200").await, 10);
        let data = rows(300..315) + "nonsense\n";
        let error = copy(&mut client, "COPY t (a) FROM STDIN", &data).await.unwrap_err();
        assert_eq!(error.code().as_str(), "22P02");
        assert!(error.fields().detail.as_ref().unwrap().contains("The first 10 rows"), "{error}");

        // A transaction stays whole.
        client.run("BEGIN").await.unwrap();
        assert_eq!(copy(&mut client, "COPY t (a) FROM STDIN", &rows(400..425)).await, Ok(25));
        client.run("ROLLBACK").await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM t WHERE a >= 400").await, 0);
        for wrong in ["many", "-1", "1.5"] {
            let set = format!("SET tally.copy_rows_per_block = '{wrong}'");
            assert_eq!(code(client.run(&set).await).as_str(), "22023");
        }
        node.verify();
    });
}

/// What `pgbench -i` loads at once: a ledger's own bound allows a scale of 10, and not of 11.
#[test]
fn a_load_of_pgbench_fits_a_transaction_up_to_a_scale_of_10() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        let (part, rows_of_ten) = (200, 1_000_000 / 200);
        let own = procedure::UNITS_MAX / part;
        client.run(&format!("SET ledger.transaction_units_max = {own}")).await.unwrap();
        let table = "CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int,
                     filler char(84))";
        client.run(table).await.unwrap();
        for (rows, fits) in [(rows_of_ten * 11 / 10, false), (rows_of_ten, true)] {
            let data = rows_of(rows, |n| format!("{n}\t{}\t0\t\n", n / 1000));
            client.run("BEGIN").await.unwrap();
            client.run("TRUNCATE pgbench_accounts").await.unwrap();
            let copied = copy(&mut client, "COPY pgbench_accounts FROM STDIN", &data).await;
            let done = match copied {
                Ok(_) => client.run("COMMIT").await.map(drop),
                Err(error) => Err(error),
            };
            let expected = if fits { "00000" } else { "54001" };
            assert_eq!(code(done).as_str(), expected, "{rows} of {part} parts");
            client.run("ROLLBACK").await.unwrap();
        }
        node.verify();
    });
}

/// What a transaction writes is paid for by what it takes, and others go on writing after it.
#[test]
fn no_transaction_holds_up_the_others_for_long() {
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let (mut client, mut other) = (node.session(), node.session());
            client.run("CREATE TABLE t (id int PRIMARY KEY, v text)").await.unwrap();
            client.run("CREATE TABLE n (id int PRIMARY KEY, v int)").await.unwrap();
            client.run("INSERT INTO n SELECT i, 0 FROM generate_series(1, 1000) i").await.unwrap();
            client.run("SET ledger.transaction_units_max = 100000").await.unwrap();
            // Of a command only the program knows what it writes.
            let constant = format!(
                "DO $$ BEGIN FOR i IN 1..1000 LOOP UPDATE t SET v = '{}' WHERE id = i;
                END LOOP; END $$",
                "x".repeat(1000)
            );
            for (text, expected) in [
                (
                    "DO $$ DECLARE i int := 0; BEGIN LOOP i := i + 1;
                    INSERT INTO t VALUES (i, 'x'); END LOOP; END $$",
                    "54001",
                ),
                ("UPDATE n SET v = a.v FROM n a, n b WHERE a.v + b.v = 0", "54001"),
                ("UPDATE n SET v = a.v FROM n a JOIN n b ON a.v = b.v WHERE n.id = 1", "54001"),
                (
                    "INSERT INTO t SELECT i, repeat('x', 400000) FROM generate_series(1, 3) i",
                    "54001",
                ),
                ("INSERT INTO t SELECT i, '' FROM generate_series(1, 3000) i", "54001"),
                ("INSERT INTO t SELECT i, '' FROM generate_series(1, 1500) i", "00000"),
                ("UPDATE t SET v = 'y' WHERE id > 0", "00000"),
                ("UPDATE t SET v = repeat('y', 1000) WHERE id > 0", "54001"),
                (&constant, "54001"),
                ("DELETE FROM t", "00000"),
            ] {
                for alone in [true, false] {
                    let begin = if alone { "" } else { "BEGIN" };
                    client.run(begin).await.unwrap();
                    let ended = client.run(text).await;
                    if let Err(error) = &ended {
                        let hint = error.fields().hint.clone().unwrap_or_default();
                        assert!(hint.contains("ledger.transaction_units_max"), "{text}: {error:?}");
                    }
                    assert_eq!(code(ended).as_str(), expected, "{protocol} {alone}: {text}");
                    if !alone {
                        client.run("ROLLBACK").await.unwrap();
                    }
                    other.run("UPDATE n SET v = 0 WHERE id = 1").await.unwrap();
                    if alone && expected == "00000" {
                        break;
                    }
                }
            }
            let many = rows(0..4000).replace('\n', "\tx\n");
            let refused = copy(&mut client, "COPY t FROM STDIN", &many).await.unwrap_err();
            assert_eq!(refused.code(), SqlState::STATEMENT_TOO_COMPLEX);
            let hint = refused.fields().hint.clone().unwrap();
            assert!(hint.contains("tally.copy_rows_per_block"), "{hint}");
            other.run("UPDATE n SET v = 0 WHERE id = 1").await.unwrap();
            client.run("SET tally.copy_rows_per_block = 1000").await.unwrap();
            assert_eq!(copy(&mut client, "COPY t FROM STDIN", &many).await, Ok(4000), "{protocol}");
            node.verify();
        }
    });
}

/// Rows may come before those that they need, from the same COPY, or the same block of one.
#[test]
fn a_copy_may_refer_to_what_comes_later() {
    const TABLES: [&str; 11] = [
        "CREATE TABLE e (id int PRIMARY KEY, boss int REFERENCES e)",
        "CREATE TABLE f (id bigserial PRIMARY KEY, code text UNIQUE, up text REFERENCES f (code))",
        "CREATE TABLE g (id int, a int DEFAULT 1, up_a int DEFAULT 1, up int, PRIMARY KEY (a, id),
            FOREIGN KEY (up_a, up) REFERENCES g (a, id))",
        "CREATE TABLE h (id int PRIMARY KEY, up int REFERENCES h, top int REFERENCES e)",
        // Known only when the row is written.
        "CREATE TABLE i (id int PRIMARY KEY, up int DEFAULT 2 + floor(random()) REFERENCES i)",
        "CREATE TABLE j (id int PRIMARY KEY,
            up int GENERATED ALWAYS AS (id % 3 + 1) STORED REFERENCES j)",
        "CREATE SEQUENCE turns MAXVALUE 3 CYCLE",
        "CREATE TABLE k (id bigint PRIMARY KEY, up bigint DEFAULT nextval('turns') REFERENCES k)",
        "CREATE TABLE l (id int DEFAULT 7 + floor(random()) PRIMARY KEY, up int REFERENCES l)",
        "CREATE TABLE m (code text UNIQUE, up text GENERATED ALWAYS AS (lower(code)) STORED
            REFERENCES m (code))",
        "CREATE TABLE n (id int PRIMARY KEY, up uuid DEFAULT gen_random_uuid(), own uuid UNIQUE,
            FOREIGN KEY (up) REFERENCES n (own))",
    ];
    const COPIES: [(&str, &str, &str); 23] = [
        ("e", "1\t2\n2\t3\n3\t1\n4\t\\N\n5\t5\n", "00000"),
        ("e", "6\t5\n7\t8\n", "23503"),
        ("e", "6\t7\n7\t6\n6\t7\n", "23505"),
        ("f (code, up)", "x\ty\ny\t\\N\n", "00000"),
        ("f (code, up)", "z\tx\nv\tw\n", "23503"),
        ("f (code)", "u\n", "00000"),
        ("g (id, up)", "1\t2\n2\t1\n", "00000"),
        ("g (id, up_a, up)", "3\t1\t4\n4\t2\t3\n", "23503"),
        ("g (id, a, up_a, up)", "5\t2\t2\t6\n6\t2\t\\N\t9\n", "00000"),
        ("h", "1\t2\t1\n2\t1\t1\n", "00000"),
        ("h", "3\t4\t1\n4\t3\t6\n", "23503"),
        ("i (id)", "1\n3\n", "23503"),
        ("i (id)", "1\n2\n3\n", "00000"),
        ("j (id)", "1\n3\n", "23503"),
        ("j (id)", "4\n1\n2\n3\n", "00000"),
        ("k (id)", "3\n1\n2\n", "00000"),
        ("k (id, up)", "4\t5\n", "23503"),
        ("l (up)", "7\n", "00000"),
        ("l", "8\t9\n9\t8\n", "00000"),
        ("m (code)", "A\na\n", "00000"),
        ("m (code)", "B\nC\nb\n", "23503"),
        ("n (id)", "1\n", "23503"),
        ("n (id, up)", "1\t\\N\n", "00000"),
    ];
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            for table in TABLES {
                client.run(table).await.unwrap();
            }
            for begun in [true, false] {
                client.run(if begun { "BEGIN" } else { "" }).await.unwrap();
                for (table, data, expected) in COPIES {
                    if begun {
                        client.run("SAVEPOINT s").await.unwrap();
                    }
                    let ended = copy(&mut client, &format!("COPY {table} FROM STDIN"), data).await;
                    let got = code(ended);
                    assert_eq!(got.as_str(), expected, "{protocol} {begun}: {table} {data:?}");
                    if begun && expected != "00000" {
                        client.run("ROLLBACK TO s").await.unwrap();
                    }
                }
                if begun {
                    client.run("COMMIT").await.unwrap();
                }
                for (table, rows) in [
                    ("h", 2),
                    ("e", 5),
                    ("f", 3),
                    ("g", 4),
                    ("i", 3),
                    ("j", 4),
                    ("k", 3),
                    ("l", 3),
                    ("m", 2),
                    ("n", 1),
                ] {
                    let count = client.number(&format!("SELECT count(*) FROM {table}")).await;
                    assert_eq!(count, rows, "{protocol} {begun}: {table}");
                    client.run(&format!("DELETE FROM {table}")).await.unwrap();
                }
            }
            client.run("SET tally.copy_rows_per_block = 2").await.unwrap();
            let pairs = "1\t2\n2\t1\n3\t4\n4\t3\n5\t1\n";
            assert_eq!(copy(&mut client, "COPY e FROM STDIN", pairs).await, Ok(5), "{protocol}");
            let refused = copy(&mut client, "COPY e FROM STDIN", "6\t8\n7\t6\n8\t6\n").await;
            let refused = refused.unwrap_err();
            assert_eq!(refused.code(), SqlState::FOREIGN_KEY_VIOLATION);
            let detail = refused.fields().detail.clone().unwrap();
            assert_eq!(detail, "Key (boss)=(8) is not present in table \"e\".");
            node.verify();
        }
    });
}
