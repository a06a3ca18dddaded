//! Ids from the server: unique, alike on every replica, never given twice, and no reason for two
//! inserts to conflict.

use std::collections::BTreeSet;

use ::types::{SqlState, Value};
use concurrency::{Load, Outcome, Statement};
use engine::{Body, ParameterTypes};
use futures::future::join_all;
use kit::random::Random;
use procedure::sequences::{Run, argument};

use super::chance::check_recoveries;
use super::{Client, Node, Row, block_on, code};

const SCHEMA: [&str; 6] = [
    "CREATE TABLE orders (id bigserial PRIMARY KEY, v int NOT NULL)",
    "CREATE TABLE items (id int GENERATED ALWAYS AS IDENTITY (START WITH 100 INCREMENT BY 5)
         PRIMARY KEY, of bigint REFERENCES orders, n int)",
    "CREATE TABLE notes (a smallserial, b serial, t text)",
    "CREATE SEQUENCE codes MINVALUE 10 MAXVALUE 100000 CACHE 7",
    // Values in a loop, in a branch that only data decide, and in what is answered.
    "CREATE PROCEDURE buy(a int, n int) LANGUAGE plpgsql AS $$
     DECLARE o bigint; c bigint;
     BEGIN
         INSERT INTO orders (v) VALUES (a) RETURNING id INTO o;
         FOR i IN 1..n LOOP
             CONTINUE WHEN i % 3 = 0;
             INSERT INTO items (of, n) VALUES (o, i);
         END LOOP;
         SELECT count(*) INTO c FROM items WHERE of = o;
         IF c % 2 = 0 THEN
             INSERT INTO notes (t) VALUES ('even ' || nextval('codes'));
         END IF;
     END $$",
    "CREATE PROCEDURE note(t text) LANGUAGE plpgsql AS $$
     BEGIN INSERT INTO notes (t) VALUES (t), (t); END $$",
];

async fn prepared_for(node: &Node) -> Client {
    let mut client = node.session();
    for text in SCHEMA {
        client.run(text).await.unwrap();
    }
    client
}

fn numbers(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row[0].as_int().unwrap()).collect()
}

/// No two are equal.
fn check_distinct(what: &str, ids: &[i64]) {
    let distinct: BTreeSet<i64> = ids.iter().copied().collect();
    assert_eq!(distinct.len(), ids.len(), "{what}: {ids:?}");
}

/// What one client does; the ids of its orders that it was told.
async fn work(mut client: Client, number: i64) -> Vec<i64> {
    let mut reported = Vec::new();
    for turn in 0..6 {
        let one = format!("INSERT INTO orders (v) VALUES ({number}) RETURNING id");
        // By itself no insert meets another, whatever the protocol.
        reported.extend(numbers(&client.run(&one).await.unwrap()));
        let two = format!("INSERT INTO orders (v) VALUES ({number}), ({turn}) RETURNING id");
        reported.extend(numbers(&client.run(&two).await.unwrap()));
        client.run(&format!("CALL note('{number}')")).await.unwrap();
        client.run("INSERT INTO notes (t) SELECT 'x' FROM generate_series(1, 3) g").await.unwrap();
        // What reads other's rows may fail.
        let _ = client.run(&format!("CALL buy({number}, {turn})")).await;
    }
    reported
}

#[test]
fn ids_are_distinct_under_every_protocol_and_on_any_number_of_workers() {
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let mut client = prepared_for(&node).await;
            let clients = (0..5).map(|number| work(node.session(), number));
            let reported: Vec<i64> = join_all(clients).await.into_iter().flatten().collect();
            check_distinct(protocol, &reported);
            let stored: BTreeSet<i64> =
                numbers(&client.run("SELECT id FROM orders").await.unwrap()).into_iter().collect();
            assert!(reported.iter().all(|id| stored.contains(id)), "{protocol}");
            for (column, table) in [("a", "notes"), ("b", "notes"), ("id", "items")] {
                let all = client.run(&format!("SELECT {column} FROM {table}")).await.unwrap();
                check_distinct(protocol, &numbers(&all));
            }
            let items = numbers(&client.run("SELECT id FROM items").await.unwrap());
            assert!(items.iter().all(|id| *id >= 100 && id % 5 == 0), "{protocol}: {items:?}");
            check_recoveries(&node, protocol);
            node.verify();
        }
    });
}

#[test]
fn values_come_in_order_and_sessions_know_their_own() {
    block_on(async {
        let node = Node::new("harmony");
        let mut one = prepared_for(&node).await;
        let mut other = node.session();
        let undefined = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
        assert_eq!(code(one.run("SELECT currval('codes')").await), undefined);
        assert_eq!(code(one.run("SELECT lastval()").await), undefined);
        assert_eq!(one.number("SELECT nextval('codes')").await, 10);
        assert_eq!(other.number("SELECT nextval('public.codes')").await, 11);
        let both =
            one.run("SELECT nextval('codes'), nextval('\"codes\"'::regclass)").await.unwrap();
        assert_eq!(both[0][..], [Value::Int(12), Value::Int(13)]);
        assert_eq!(one.number("SELECT currval('codes')").await, 13);
        assert_eq!(other.number("SELECT currval('codes')").await, 11);
        let ids =
            one.run("INSERT INTO orders (v) VALUES (1), (2), (3) RETURNING id").await.unwrap();
        assert_eq!(numbers(&ids), [1, 2, 3]);
        assert_eq!(one.number("SELECT lastval()").await, 3);
        assert_eq!(one.number("SELECT currval(pg_get_serial_sequence('orders', 'id'))").await, 3);
        // The id of the parent, for its child.
        one.run("INSERT INTO items (of, n) VALUES (currval('orders_id_seq'), 7)").await.unwrap();
        assert_eq!(one.number("SELECT of FROM items WHERE id = 100").await, 3);
        let many = one.run("SELECT nextval('codes') FROM generate_series(1, 100) g").await.unwrap();
        assert_eq!(numbers(&many), (14..114).collect::<Vec<_>>());
        one.run("DISCARD ALL").await.unwrap();
        assert_eq!(code(one.run("SELECT currval('codes')").await), undefined);
        // As an argument a value is one before the call is ordered.
        one.run("CALL note('n' || nextval('codes'))").await.unwrap();
        let noted = one.run("SELECT t FROM notes").await.unwrap();
        assert_eq!(noted.iter().map(|row| row[0].to_string()).collect::<Vec<_>>(), ["n114"; 2]);
        node.verify();
    });
}

#[test]
fn what_a_node_took_is_gone_after_a_crash_and_nothing_comes_twice() {
    block_on(async {
        for protocol in ["serial", "harmony", "quecc", "aria", "2pl", "silo"] {
            let mut node = Node::new(protocol);
            let mut client = prepared_for(&node).await;
            let mut reported = Vec::new();
            for seed in 0..4 {
                for n in 0..20 {
                    let text = format!("INSERT INTO orders (v) VALUES ({n}) RETURNING id");
                    reported.extend(numbers(&client.run(&text).await.unwrap()));
                    reported.push(-client.number("SELECT nextval('codes')").await);
                }
                node = node.crashed(&mut Random::new(seed));
                client = node.session();
            }
            check_distinct(protocol, &reported);
            let last = client.run("SELECT last_value, is_called FROM orders_id_seq").await.unwrap();
            assert!(last[0][0].as_int() >= reported.iter().max().copied(), "{protocol}");
            assert_eq!(last[0][1], Value::Bool(true));
            node.verify();
        }
    });
}

#[test]
fn a_value_may_be_set_and_a_sequence_restarted() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = prepared_for(&node).await;
        assert_eq!(client.number("SELECT nextval('codes')").await, 10);
        assert_eq!(client.number("SELECT setval('codes', 50)").await, 50);
        assert_eq!(client.number("SELECT currval('codes')").await, 50);
        assert_eq!(client.number("SELECT nextval('codes')").await, 51);
        assert_eq!(client.number("SELECT setval('codes', 60, false)").await, 60);
        assert_eq!(client.number("SELECT nextval('codes')").await, 60);
        let beyond = client.run("SELECT setval('codes', 1)").await;
        assert_eq!(code(beyond), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        client.run("INSERT INTO orders (id, v) VALUES (500, 1)").await.unwrap();
        let reset = "SELECT setval(pg_get_serial_sequence('\"orders\"','id'), \
                     coalesce(max(\"id\"), 1), max(\"id\") IS NOT null) FROM \"orders\"";
        assert_eq!(client.number(reset).await, 500);
        assert_eq!(client.number("INSERT INTO orders (v) VALUES (1) RETURNING id").await, 501);
        client.run("ALTER SEQUENCE codes RESTART").await.unwrap();
        assert_eq!(client.number("SELECT nextval('codes')").await, 10);
        client.run("ALTER SEQUENCE codes RESTART WITH 77 INCREMENT BY -2").await.unwrap();
        assert_eq!(client.number("SELECT nextval('codes')").await, 77);
        assert_eq!(client.number("SELECT nextval('codes')").await, 75);
        client.run("TRUNCATE orders, items RESTART IDENTITY").await.unwrap();
        assert_eq!(client.number("INSERT INTO orders (v) VALUES (1) RETURNING id").await, 1);
        let shown = client.run("SELECT * FROM codes").await.unwrap();
        assert_eq!(shown[0].len(), 3);
        check_recoveries(&node, "harmony");
        node.verify();
    });
}

#[test]
fn a_sequence_ends_at_its_bound_or_begins_again() {
    block_on(async {
        let node = Node::new("silo");
        let mut client = node.session();
        client.run("CREATE SEQUENCE few MAXVALUE 3").await.unwrap();
        client.run("CREATE SEQUENCE around MINVALUE -1 MAXVALUE 1 CYCLE").await.unwrap();
        client.run("CREATE SEQUENCE down INCREMENT -1").await.unwrap();
        for expected in [1, 2, 3] {
            assert_eq!(client.number("SELECT nextval('few')").await, expected);
        }
        let over = client.run("SELECT nextval('few')").await.unwrap_err();
        assert_eq!(over.code().as_str(), "2200H");
        assert_eq!(over.message(), "nextval: reached maximum value of sequence \"few\" (3)");
        let mut around = Vec::new();
        for _ in 0..7 {
            around.push(client.number("SELECT nextval('around')").await);
        }
        assert_eq!(around, [-1, 0, 1, -1, 0, 1, -1]);
        assert_eq!(client.number("SELECT nextval('down')").await, -1);
        assert_eq!(client.number("SELECT nextval('down')").await, -2);
        for (text, expected) in [
            ("CREATE SEQUENCE x INCREMENT 0", "INCREMENT must not be zero"),
            (
                "CREATE SEQUENCE x MINVALUE 5 MAXVALUE 4",
                "MINVALUE (5) must be less than MAXVALUE (4)",
            ),
            ("CREATE SEQUENCE x START 0", "START value (0) cannot be less than MINVALUE (1)"),
            ("CREATE SEQUENCE x AS text", "sequence type must be smallint, integer, or bigint"),
            ("CREATE SEQUENCE x CACHE 0", "CACHE (0) must be greater than zero"),
        ] {
            assert_eq!(client.run(text).await.unwrap_err().message(), expected, "{text}");
        }
        node.verify();
    });
}

#[test]
fn identity_columns_say_who_gives_their_values() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        client.run("CREATE TABLE a (id int GENERATED ALWAYS AS IDENTITY, v int)").await.unwrap();
        client
            .run("CREATE TABLE d (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, v int)")
            .await
            .unwrap();
        let always = SqlState::GENERATED_ALWAYS;
        assert_eq!(code(client.run("INSERT INTO a VALUES (7, 1)").await), always);
        assert_eq!(code(client.run("INSERT INTO a (id) SELECT 7").await), always);
        assert_eq!(code(client.run("UPDATE a SET id = 7").await), always);
        client.run("INSERT INTO a VALUES (DEFAULT, 1)").await.unwrap();
        client.run("INSERT INTO a (v) SELECT 2").await.unwrap();
        client.run("INSERT INTO a (id, v) OVERRIDING SYSTEM VALUE VALUES (70, 3)").await.unwrap();
        client.run("INSERT INTO d OVERRIDING USER VALUE VALUES (90, 1), (91, 2)").await.unwrap();
        client.run("INSERT INTO d VALUES (30, 3)").await.unwrap();
        client.run("INSERT INTO d DEFAULT VALUES").await.unwrap();
        let ids = |rows: Vec<Row>| numbers(&rows);
        assert_eq!(ids(client.run("SELECT id FROM a ORDER BY id").await.unwrap()), [1, 2, 70]);
        assert_eq!(ids(client.run("SELECT id FROM d ORDER BY id").await.unwrap()), [1, 2, 3, 30]);
        client
            .run("ALTER TABLE a ALTER COLUMN id SET GENERATED BY DEFAULT RESTART WITH 200")
            .await
            .unwrap();
        client.run("INSERT INTO a VALUES (8, 8)").await.unwrap();
        assert_eq!(client.number("INSERT INTO a (v) VALUES (9) RETURNING id").await, 200);
        client.run("ALTER TABLE a ALTER id DROP IDENTITY").await.unwrap();
        assert_eq!(code(client.run("SELECT nextval('a_id_seq')").await), SqlState::UNDEFINED_TABLE);
        let null = client.run("INSERT INTO a (v) VALUES (1)").await;
        assert_eq!(code(null), SqlState::NOT_NULL_VIOLATION);
        client
            .run("ALTER TABLE a ALTER id ADD GENERATED ALWAYS AS IDENTITY (START 300)")
            .await
            .unwrap();
        assert_eq!(client.number("INSERT INTO a (v) VALUES (9) RETURNING id").await, 300);
        node.verify();
    });
}

#[test]
fn what_owns_a_sequence_takes_it_along() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = prepared_for(&node).await;
        let there = |name: &str| format!("SELECT nextval('{name}')");
        let gone = SqlState::UNDEFINED_TABLE;
        let depends = SqlState::DEPENDENT_OBJECTS_STILL_EXIST;
        assert_eq!(code(client.run("DROP SEQUENCE orders_id_seq").await), depends);
        assert_eq!(code(client.run("DROP SEQUENCE items_id_seq CASCADE").await), depends);
        client.run("ALTER TABLE notes DROP COLUMN a").await.unwrap();
        assert_eq!(code(client.run(&there("notes_a_seq")).await), gone);
        client.run("DROP TABLE items").await.unwrap();
        assert_eq!(code(client.run(&there("items_id_seq")).await), gone);
        client.run("ALTER SEQUENCE codes OWNED BY notes.t").await.unwrap();
        client.run("ALTER SEQUENCE codes RENAME TO marks").await.unwrap();
        assert_eq!(client.number(&there("marks")).await, 10);
        client.run("CREATE TABLE codes (a int)").await.unwrap();
        let taken = client.run("CREATE SEQUENCE codes").await;
        assert_eq!(code(taken), SqlState::DUPLICATE_TABLE);
        client.run("CREATE SEQUENCE IF NOT EXISTS marks").await.unwrap();
        client.run("DROP TABLE notes").await.unwrap();
        assert_eq!(code(client.run(&there("marks")).await), gone);
        client.run("DROP SEQUENCE IF EXISTS marks").await.unwrap();
        client.run("DROP SEQUENCE orders_id_seq CASCADE").await.unwrap();
        let null = client.run("INSERT INTO orders (v) VALUES (1)").await;
        assert_eq!(code(null), SqlState::NOT_NULL_VIOLATION);
        check_recoveries(&node, "harmony");
        node.verify();
    });
}

#[test]
fn a_serial_column_that_comes_later_numbers_the_rows() {
    block_on(async {
        for protocol in ["harmony", "2pl"] {
            let node = Node::new(protocol);
            let mut client = node.session();
            client.run("CREATE TABLE t (k text PRIMARY KEY)").await.unwrap();
            client.run("INSERT INTO t VALUES ('b'), ('a'), ('c')").await.unwrap();
            client.run("ALTER TABLE t ADD COLUMN id serial").await.unwrap();
            let ids = client.run("SELECT id FROM t ORDER BY k").await.unwrap();
            assert_eq!(numbers(&ids), [1, 2, 3]);
            assert_eq!(client.number("INSERT INTO t VALUES ('d') RETURNING id").await, 4);
            client.run("ALTER TABLE t ADD n bigint GENERATED ALWAYS AS IDENTITY").await.unwrap();
            assert_eq!(client.number("INSERT INTO t VALUES ('e') RETURNING n").await, 5);
            check_recoveries(&node, protocol);
            node.verify();
        }
    });
}

#[test]
fn an_open_transaction_takes_values_that_nothing_gives_back() {
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let (mut one, mut other) = (prepared_for(&node).await, node.session());
            let insert = "INSERT INTO orders (v) VALUES (1) RETURNING id";
            one.run("BEGIN").await.unwrap();
            other.run("BEGIN").await.unwrap();
            assert_eq!(one.number(insert).await, 1);
            assert_eq!(other.number(insert).await, 2);
            one.run("SAVEPOINT a").await.unwrap();
            assert_eq!(one.number(insert).await, 3);
            one.run("ROLLBACK TO a").await.unwrap();
            assert_eq!(one.number(insert).await, 4);
            assert_eq!(one.number("SELECT lastval()").await, 4);
            // How many, only the rows tell; those of the other transaction are not among them.
            let text = "INSERT INTO items (of, n) SELECT id, g FROM orders, unnest(ARRAY[7, 8]) g
                        WHERE id >= 4 RETURNING id";
            assert_eq!(numbers(&one.run(text).await.unwrap()), [100, 105]);
            assert_eq!(one.number("SELECT currval('items_id_seq')").await, 105);
            assert_eq!(one.number("SELECT setval('codes', 20)").await, 20);
            other.run("COMMIT").await.unwrap();
            one.run("COMMIT").await.unwrap();
            one.run("BEGIN").await.unwrap();
            assert_eq!(one.number(insert).await, 5);
            one.run("ROLLBACK").await.unwrap();
            assert_eq!(one.number(insert).await, 6, "{protocol}");
            assert_eq!(one.number("SELECT nextval('codes')").await, 21);
            let ids = numbers(&one.run("SELECT id FROM orders ORDER BY id").await.unwrap());
            assert_eq!(ids, [1, 2, 4, 6], "{protocol}");
            one.run("BEGIN READ ONLY").await.unwrap();
            let read_only = SqlState::READ_ONLY_SQL_TRANSACTION;
            assert_eq!(code(one.run("SELECT nextval('codes')").await), read_only);
            one.run("ROLLBACK").await.unwrap();
            node.verify();
        }
    });
}

#[test]
fn rows_that_are_copied_in_are_numbered() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = prepared_for(&node).await;
        client.run("COPY notes (t) FROM STDIN").await.unwrap();
        client.session.copy_data(b"x\ny\nz\n").await.unwrap();
        client.session.copy_done().await.unwrap();
        let ids = client.run("SELECT b FROM notes ORDER BY b").await.unwrap();
        assert_eq!(numbers(&ids), [1, 2, 3]);
        assert_eq!(client.number("SELECT currval('notes_b_seq')").await, 3);
        let text = "INSERT INTO orders (id, v) VALUES (2, 1)
                    ON CONFLICT (id) DO UPDATE SET v = 9 RETURNING id";
        assert_eq!(client.number(text).await, 2);
        let text = "INSERT INTO orders (v) VALUES (1), (1) ON CONFLICT DO NOTHING RETURNING id";
        assert_eq!(numbers(&client.run(text).await.unwrap()), [1]);
        node.verify();
    });
}

#[test]
fn generated_columns_follow_from_their_row() {
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            let text = "CREATE TABLE g (id serial PRIMARY KEY, a int, b int,
                        c int GENERATED ALWAYS AS (a * 10 + coalesce(b, 0)) STORED,
                        t text GENERATED ALWAYS AS ('n' || a::text) STORED UNIQUE)";
            client.run(text).await.unwrap();
            let rows = "INSERT INTO g (a, b) VALUES (1, 2), (3, NULL) RETURNING c";
            assert_eq!(numbers(&client.run(rows).await.unwrap()), [12, 30], "{protocol}");
            client.run("INSERT INTO g VALUES (DEFAULT, 5, 5, DEFAULT)").await.unwrap();
            client.run("UPDATE g SET a = a + 1 WHERE id = 1").await.unwrap();
            client.run("UPDATE g SET b = b + 1, a = a + 10 WHERE b > 4").await.unwrap();
            client.run("UPDATE g SET c = DEFAULT").await.unwrap();
            let upsert = "INSERT INTO g (id, a) VALUES (2, 4) ON CONFLICT (id)
                          DO UPDATE SET a = excluded.a + 1";
            client.run(upsert).await.unwrap();
            let found = numbers(&client.run("SELECT c FROM g ORDER BY id").await.unwrap());
            assert_eq!(found, [22, 50, 156], "{protocol}");
            let texts = client.run("SELECT t FROM g ORDER BY id").await.unwrap();
            let texts: Vec<_> = texts.iter().map(|row| row[0].to_string()).collect();
            assert_eq!(texts, ["n2", "n5", "n15"]);
            let always = SqlState::GENERATED_ALWAYS;
            assert_eq!(code(client.run("INSERT INTO g VALUES (9, 1, 1, 1)").await), always);
            assert_eq!(code(client.run("UPDATE g SET c = 1").await), always);
            let taken = client.run("UPDATE g SET a = 15 WHERE id = 1").await;
            assert_eq!(code(taken), SqlState::UNIQUE_VIOLATION);
            client.run("ALTER TABLE g ADD d int GENERATED ALWAYS AS (a - 1) STORED").await.unwrap();
            let found = numbers(&client.run("SELECT d FROM g ORDER BY id").await.unwrap());
            assert_eq!(found, [1, 4, 14]);
            let depends = SqlState::DEPENDENT_OBJECTS_STILL_EXIST;
            assert_eq!(code(client.run("ALTER TABLE g DROP COLUMN a").await), depends);
            for (text, expected) in [
                ("CREATE TABLE x (a int, b int GENERATED ALWAYS AS (random()) STORED)", "42P17"),
                ("CREATE TABLE x (a int, b date GENERATED ALWAYS AS (now()) STORED)", "42P17"),
                (
                    "CREATE TABLE x (a int, b int GENERATED ALWAYS AS (a) STORED,
                     c int GENERATED ALWAYS AS (b) STORED)",
                    "42P17",
                ),
            ] {
                assert_eq!(code(client.run(text).await).as_str(), expected, "{text}");
            }
            check_recoveries(&node, protocol);
            node.verify();
        }
    });
}

#[test]
fn a_sequence_of_an_open_transaction_is_its_own_until_it_commits() {
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let (mut client, mut other) = (node.session(), node.session());
            let insert = "INSERT INTO t (v) VALUES (1) RETURNING id";
            client.run("BEGIN").await.unwrap();
            client.run("CREATE TABLE t (id serial PRIMARY KEY, v int)").await.unwrap();
            let two = client.run("INSERT INTO t (v) VALUES (1), (2) RETURNING id").await.unwrap();
            assert_eq!(numbers(&two), [1, 2], "{protocol}");
            let some = "INSERT INTO t (v) SELECT g FROM generate_series(1, 3) g RETURNING id";
            assert_eq!(numbers(&client.run(some).await.unwrap()), [3, 4, 5], "{protocol}");
            assert_eq!(client.number("SELECT nextval('t_id_seq')").await, 6);
            assert_eq!(client.number("SELECT currval('t_id_seq')").await, 6);
            assert_eq!(client.number("SELECT setval('t_id_seq', 20)").await, 20);
            assert_eq!(client.number(insert).await, 21);
            client.run("SAVEPOINT a").await.unwrap();
            assert_eq!(client.number(insert).await, 22);
            client.run("ROLLBACK TO a").await.unwrap();
            assert_eq!(client.number(insert).await, 22);
            client.run("COPY t (v) FROM STDIN").await.unwrap();
            client.session.copy_data(b"7\n8\n").await.unwrap();
            client.session.copy_done().await.unwrap();
            client.run("COMMIT").await.unwrap();
            assert_eq!(other.number(insert).await, 25, "{protocol}");
            let ids = numbers(&other.run("SELECT id FROM t ORDER BY id").await.unwrap());
            assert_eq!(ids, [1, 2, 3, 4, 5, 21, 22, 23, 24, 25], "{protocol}");

            client.run("BEGIN").await.unwrap();
            client.run("CREATE SEQUENCE s START 7").await.unwrap();
            assert_eq!(client.number("SELECT nextval('s')").await, 7);
            client.run("ROLLBACK").await.unwrap();
            other.run("CREATE SEQUENCE q START 9").await.unwrap();
            let undefined = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
            assert_eq!(code(client.run("SELECT currval('q')").await), undefined, "another");
            assert_eq!(client.number("SELECT nextval('q')").await, 9);
            client.run("BEGIN").await.unwrap();
            client.run("ALTER SEQUENCE q RESTART WITH 100").await.unwrap();
            assert_eq!(client.number("SELECT nextval('q')").await, 100);
            assert_eq!(other.number("SELECT nextval('q')").await, 10);
            client.run("TRUNCATE t RESTART IDENTITY").await.unwrap();
            assert_eq!(client.number(insert).await, 1);
            client.run("COMMIT").await.unwrap();
            assert_eq!(other.number("SELECT nextval('q')").await, 101, "{protocol}");
            assert_eq!(other.number(insert).await, 2, "{protocol}");
            check_recoveries(&node, protocol);
            node.verify();
        }
    });
}

#[test]
fn a_serial_column_numbers_what_its_transaction_has_written_too() {
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            client.run("CREATE TABLE k (n text PRIMARY KEY, v int)").await.unwrap();
            client.run("INSERT INTO k VALUES ('b', 10), ('a', 20)").await.unwrap();
            client.run("BEGIN").await.unwrap();
            client.run("INSERT INTO k VALUES ('c', 30)").await.unwrap();
            client.run("UPDATE k SET v = v + 1 WHERE n = 'b'").await.unwrap();
            client.run("ALTER TABLE k ADD id serial").await.unwrap();
            let double = "ALTER TABLE k ADD w int GENERATED ALWAYS AS (v * 2) STORED";
            client.run(double).await.unwrap();
            let ids = "SELECT id FROM k ORDER BY n";
            let seen = numbers(&client.run(ids).await.unwrap());
            check_distinct(protocol, &seen);
            let next = client.number("INSERT INTO k (n, v) VALUES ('d', 1) RETURNING id").await;
            assert!(seen.iter().all(|id| *id < next), "{protocol}: {seen:?}, {next}");
            client.run("COMMIT").await.unwrap();
            let stored = numbers(&client.run(ids).await.unwrap());
            assert_eq!(stored, [seen, vec![next]].concat(), "{protocol}");
            let doubled = numbers(&client.run("SELECT w FROM k ORDER BY n").await.unwrap());
            assert_eq!(doubled, [40, 22, 60, 2], "{protocol}");
            client.run("BEGIN").await.unwrap();
            let by_zero = "ALTER TABLE k ADD z int GENERATED ALWAYS AS (1 / (v - 1)) STORED";
            assert_eq!(code(client.run(by_zero).await), SqlState::DIVISION_BY_ZERO);
            client.run("ROLLBACK").await.unwrap();
            assert_eq!(code(client.run(by_zero).await), SqlState::DIVISION_BY_ZERO);
            check_recoveries(&node, protocol);
            node.verify();
        }
    });
}

#[test]
fn values_stand_beside_what_acts_on_the_session() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = prepared_for(&node).await;
        let text = "SELECT nextval('codes'), pg_try_advisory_lock(nextval('codes'))";
        assert_eq!(client.run(text).await.unwrap()[0][1], Value::Bool(true));
        assert_eq!(client.number("SELECT nextval('codes')").await, 12);
        client.run("DISCARD SEQUENCES").await.unwrap();
        let undefined = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
        assert_eq!(code(client.run("SELECT currval('codes')").await), undefined);
        assert_eq!(code(client.run("SELECT lastval()").await), undefined);
        node.verify();
    });
}

/// Values go to the sequence that they were taken from, whatever has its name by then.
#[test]
fn values_of_a_sequence_that_was_made_again_or_renamed_are_not_taken_for_those_of_another() {
    let changes = [
        "DROP SEQUENCE s; CREATE SEQUENCE s START 100",
        "ALTER SEQUENCE s RENAME TO old; CREATE SEQUENCE s START 100",
    ];
    // What takes a value, and how many arguments it has beside.
    let insert =
        || Body::statement("INSERT INTO t VALUES (nextval('s'))", ParameterTypes::default(), []);
    let call = || Body::call("take", []);
    let load = || Body::load("COPY t (k) FROM STDIN", vec![[Value::Int(7)].into()]);
    let with = |body: Body, values: &Value| match body {
        Body::Statement(Statement { procedure, .. }) => {
            Body::Statement(Statement { procedure, arguments: [values.clone()].into() })
        }
        Body::Call(Statement { procedure, .. }) => {
            Body::Call(Statement { procedure, arguments: [values.clone()].into() })
        }
        Body::Load(Load { procedure, rows, .. }) => {
            let with = |row: Box<[Value]>| [&row[..], std::slice::from_ref(values)].concat().into();
            Body::load(procedure, rows.into_iter().map(with).collect())
        }
        other => other,
    };
    block_on(async {
        for protocol in super::protocols() {
            for change in changes {
                let node = Node::new(protocol);
                let mut client = node.session();
                for statement in [
                    "CREATE SEQUENCE s",
                    "CREATE TABLE t (id bigint PRIMARY KEY DEFAULT nextval('s'), k int)",
                    "CREATE PROCEDURE take() LANGUAGE plpgsql AS $$ BEGIN \
                     INSERT INTO t VALUES (nextval('s')); END $$",
                ] {
                    client.run(statement).await.unwrap();
                }
                let schema = node.database.schema.of(&node.database.engine.store().snapshot());
                let sequence = schema.catalog.sequences().find(|s| s.name == "s").unwrap().id;
                let brought = |first| argument(sequence, &[Run { first, step: 1, count: 1 }]);
                for (place, body) in [insert(), call(), load()].into_iter().enumerate() {
                    let body = with(body, &brought(place as i64 + 1));
                    let done = node.submit(body).await.unwrap().unwrap();
                    assert!(done.outcome.is_committed(), "{protocol}: {:?}", done.outcome);
                }
                client.run("ALTER TABLE t ALTER id DROP DEFAULT").await.unwrap();
                client.run("DROP PROCEDURE take()").await.unwrap();
                client.run(change).await.unwrap();
                client.run("ALTER TABLE t ALTER id SET DEFAULT nextval('s')").await.unwrap();
                client
                    .run(
                        "CREATE PROCEDURE take() LANGUAGE plpgsql AS $$ BEGIN \
                         INSERT INTO t VALUES (nextval('s')); END $$",
                    )
                    .await
                    .unwrap();
                for body in [insert(), call(), load()] {
                    let done = node.submit(with(body, &brought(50))).await.unwrap().unwrap();
                    let Outcome::Retry(error) = &done.outcome else {
                        panic!("{protocol}: {change}: {:?}", done.outcome);
                    };
                    assert_eq!(error.code(), SqlState::SERIALIZATION_FAILURE);
                }
                client.run("INSERT INTO t VALUES (nextval('s')); CALL take()").await.unwrap();
                let ids = numbers(&client.run("SELECT id FROM t ORDER BY id").await.unwrap());
                assert_eq!(ids, [1, 2, 3, 100, 101], "{protocol}: {change}");
                node.verify();
            }
        }
    });
}
