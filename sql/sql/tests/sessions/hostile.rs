//! Statements that are short and come to much.

use std::time::{Duration, Instant};

use ::types::SqlState;

use super::bounds::TIMED_OUT;
use super::{Node, block_on};

/// A sign that is neither letter nor digit is read by every scanner of a text.
#[test]
fn signs_beyond_ascii_are_read() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
        for sign in
            ["\u{a0}", "\u{2003}", "\u{200b}", "\u{feff}", "\u{b7}", "\u{fffd}", "\u{1f980}"]
        {
            for text in [
                format!("SELECT 1{sign}"),
                format!("UPDATE t SET v = 1{sign} WHERE id = 1"),
                format!("DELETE FROM t WHERE id = 1{sign}"),
                format!("INSERT INTO t VALUES (1, 2{sign})"),
                format!("SELECT v FROM t WHERE id = 7{sign}"),
                format!("{sign}SELECT 1"),
                format!("DO $$ BEGIN{sign} END $$"),
            ] {
                let error = client.run(&text).await.map(drop).unwrap_err();
                assert_eq!(error.code(), SqlState::SYNTAX_ERROR, "{text:?}: {error}");
            }
            // It is a name, as in PostgreSQL.
            assert_eq!(client.number(&format!("SELECT 1 {sign}")).await, 1);
        }
        node.verify();
    });
}

/// Common table expressions each with twice the rows of the one before; `first` is the lowest.
fn doubled(first: &str, levels: usize) -> String {
    let each = |n: usize| {
        let below = n - 1;
        format!(", a{n} AS (SELECT x FROM a{below} UNION ALL SELECT x FROM a{below})")
    };
    let parts: String = (1..=levels).map(each).collect();
    format!("WITH a0 AS ({first}){parts} SELECT count(*) FROM a{levels}")
}

const ONE: &str = "SELECT 1 AS x";
const OF_TABLE: &str = "SELECT v AS x FROM t WHERE id = 1";

#[test]
fn what_doubles_is_answered_wherever_it_stands() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
        client.run("CREATE TABLE n (n bigint PRIMARY KEY)").await.unwrap();
        client.run("INSERT INTO t VALUES (1, 7), (2, 8)").await.unwrap();
        for (first, levels) in [(ONE, 3), (ONE, 14), (OF_TABLE, 3), (OF_TABLE, 14)] {
            let query = doubled(first, levels);
            assert_eq!(client.number(&query).await, 1 << levels, "{query}");
        }
        let query = doubled(OF_TABLE, 12);
        client.run(&format!("EXPLAIN {query}")).await.unwrap();
        client.run(&format!("PREPARE p AS {query}")).await.unwrap();
        assert_eq!(client.number("EXECUTE p").await, 4096);
        client.run("BEGIN").await.unwrap();
        client.run(&format!("DECLARE c CURSOR FOR {query}")).await.unwrap();
        assert_eq!(client.number("FETCH c").await, 4096);
        client.run("COMMIT").await.unwrap();
        client.run(&format!("INSERT INTO n {query}")).await.unwrap();
        assert_eq!(client.number("SELECT n FROM n").await, 4096);
        client.run(&format!("CREATE VIEW w AS {query}")).await.unwrap();
        assert_eq!(client.number("SELECT count FROM w").await, 4096);
        let function = "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS";
        client.run(&format!("{function} $$ {query} $$")).await.unwrap();
        assert_eq!(client.number("SELECT f()").await, 4096);
        client.run("ALTER TABLE t ADD COLUMN w int").await.unwrap();
        assert_eq!(client.number("SELECT f()").await, 4096);
        // A part that is read where nothing else is, and one that shadows another.
        let shadowed = "WITH a AS (SELECT v AS x FROM t), b AS (WITH a AS (SELECT 1 AS x) \
                        SELECT x FROM a) SELECT sum(a.x + b.x)::bigint FROM a, b";
        assert_eq!(client.number(shadowed).await, 17);
        node.verify();
    });
}

/// What would take hours is given up, and what a block would be held up by is refused.
#[test]
fn what_doubles_too_often_ends_soon() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
        client.run("INSERT INTO t VALUES (1, 7)").await.unwrap();
        client.run("SET ledger.transaction_units_max = 1000000").await.unwrap();
        client.run("SET statement_timeout = 300").await.unwrap();
        let mut case = "v".to_owned();
        for _ in 0..20 {
            case = format!("CASE ({case}) WHEN 1 THEN 1 WHEN 2 THEN 2 ELSE 3 END");
        }
        for text in [
            doubled(ONE, 40),
            doubled(OF_TABLE, 60),
            format!("INSERT INTO t {}", doubled(ONE, 40).replace("count(*)", "count(*) + 1, 1")),
            format!("SELECT {case} FROM t"),
            format!("ALTER TABLE t ADD CHECK ({case} > 0)"),
            format!("CREATE FUNCTION f(v int) RETURNS int LANGUAGE sql AS $$ SELECT {case} $$"),
        ] {
            let begun = Instant::now();
            let error = client.run(&text).await.map(drop).unwrap_err();
            let ended = [
                SqlState::QUERY_CANCELED,
                SqlState::STATEMENT_TOO_COMPLEX,
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                SqlState::OUT_OF_MEMORY,
            ];
            assert!(ended.contains(&error.code()), "{text}: {error}");
            println!("{} {}", error.code(), &text[..text.len().min(60)]);
            // What a block is given ends by its count, which no clock has a part in.
            if error.code() == SqlState::QUERY_CANCELED {
                TIMED_OUT.hold(begun.elapsed().saturating_sub(Duration::from_millis(300)));
            }
        }
        client.run("SET statement_timeout = 0").await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM t").await, 1);
        node.verify();
    });
}

/// PostgreSQL has no rows to give there either.
#[test]
fn calls_that_give_rows_are_refused_where_one_row_is_at_hand() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
        let of_aggregate = "aggregate function calls cannot contain set-returning function calls";
        for (text, message) in [
            ("VALUES (1, generate_series(1, 2))", "not allowed in VALUES"),
            ("SELECT 1 LIMIT generate_series(1, 3)", "not allowed in LIMIT"),
            ("SELECT 1 OFFSET generate_series(1, 3)", "not allowed in OFFSET"),
            ("SELECT 1 FROM t WHERE unnest(array[true])", "not allowed in WHERE"),
            ("SELECT count(*) FROM t HAVING unnest(array[true])", "not allowed in HAVING"),
            ("SELECT 1 FROM t a JOIN t b ON unnest(array[true])", "not allowed in JOIN conditions"),
            ("SELECT count(generate_series(1, 2)) FROM t", of_aggregate),
            ("SELECT CASE WHEN true THEN generate_series(1, 2) END", "not allowed in CASE"),
            ("SELECT coalesce(generate_series(1, 2), 1)", "not allowed in COALESCE"),
            ("INSERT INTO t VALUES (1, 1) RETURNING generate_series(1, 2)", "in RETURNING"),
            ("DELETE FROM t RETURNING unnest(array[1])", "not allowed in RETURNING"),
            ("UPDATE t SET v = generate_series(1, 2)", "set-returning functions are not allowed"),
            (
                "INSERT INTO t VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET v = unnest(array[1])",
                "set-returning functions are not allowed",
            ),
            ("CREATE TABLE u (a int CHECK (generate_series(1, 2) > 0))", "in check constraints"),
            ("CREATE TABLE u (a int DEFAULT generate_series(1, 2))", "in DEFAULT expressions"),
        ] {
            let error = client.run(text).await.map(drop).unwrap_err();
            assert_eq!(error.code(), SqlState::FEATURE_NOT_SUPPORTED, "{text}: {error}");
            assert!(error.message().contains(message), "{text}: {error}");
        }
        node.verify();
    });
}

/// Names that both sides show are looked for among all of them, once for each join.
#[test]
fn wide_tables_are_joined_by_all_their_names() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        let columns: String = (0..400).map(|n| format!(", c{n} int")).collect();
        client.run(&format!("CREATE TABLE t (id int PRIMARY KEY{columns})")).await.unwrap();
        let joins: String = (1..10).map(|n| format!(" NATURAL JOIN t x{n}")).collect();
        let started = Instant::now();
        let rows = client.run(&format!("SELECT * FROM t x0{joins}")).await.unwrap();
        assert!(rows.is_empty());
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
        node.verify();
    });
}

/// What looks a row up among those that it keeps pays for that, beside what made the row.
#[test]
fn rows_that_are_kept_and_looked_up_are_paid_for() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v bigint)").await.unwrap();
        client.run("SET ledger.transaction_units_max = 100000").await.unwrap();
        for (query, fits) in [
            ("SELECT 1, count(g) FROM generate_series(1, 20000) g", true),
            ("SELECT 2, count(DISTINCT g) FROM generate_series(1, 20000) g", false),
            (
                "SELECT 3, count(*) FROM (SELECT DISTINCT g FROM generate_series(1, 20000) g) q",
                false,
            ),
            (
                "SELECT 4, count(*) FROM (SELECT g FROM generate_series(1, 20000) g GROUP BY g) q",
                false,
            ),
            (
                "SELECT 5, sum(r) FROM (SELECT rank() OVER (ORDER BY g) r
                     FROM generate_series(1, 12000) g) q",
                false,
            ),
            (
                "SELECT 6, count(*) FROM (SELECT g FROM generate_series(1, 12000) g
                     UNION SELECT g FROM generate_series(1, 12000) g) q",
                false,
            ),
        ] {
            let inserted = client.run(&format!("INSERT INTO t {query}")).await;
            assert_eq!(inserted.is_ok(), fits, "{query}");
            if let Err(error) = inserted {
                assert_eq!(error.code(), SqlState::STATEMENT_TOO_COMPLEX, "{query}: {error}");
            }
        }
        node.verify();
    });
}
