//! Domains and collations in blocks: alike on every replica, and by every way back.

use ::types::SqlState;
use engine::transaction::Asked;
use engine::{Body, ParameterTypes, Submitter};

use super::chance::check_recoveries;
use super::{Node, block_on, code};

const SCHEMA: [&str; 9] = [
    "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    "CREATE DOMAIN word AS text NOT NULL COLLATE \"sv-x-icu\" CHECK (VALUE < 'öl')",
    "CREATE DOMAIN amount AS int DEFAULT 1 CHECK (VALUE > 0)",
    "CREATE DOMAIN little AS amount CHECK (VALUE < 50)",
    "CREATE TABLE p (id int PRIMARY KEY, w word, n little, plain text,
         low boolean GENERATED ALWAYS AS (plain < 'ä' COLLATE \"sv-x-icu\") STORED)",
    "CREATE INDEX p_w ON p (w)",
    "CREATE TABLE q (id int PRIMARY KEY, name text COLLATE ci)",
    "INSERT INTO p (id, w, plain) SELECT g, 'w' || g, 'w' || g FROM generate_series(1, 8) AS g",
    "INSERT INTO q VALUES (1, 'Ada'), (2, 'ADA'), (3, 'Bob')",
];

fn statement(text: &str) -> Body {
    Body::statement(text.to_owned(), ParameterTypes::default(), [])
}

fn transactions(round: i64) -> Vec<Body> {
    let letters = ["ä", "z", "å", "ö", "Z", "a"];
    let mut bodies = Vec::new();
    for n in 0..8 {
        let (a, letter) = ((round * 3 + n) % 8 + 1, letters[((round + n) % 6) as usize]);
        bodies.extend([
            statement(&format!("UPDATE p SET w = '{letter}{n}', plain = w WHERE id = {a}")),
            statement(&format!("UPDATE p SET n = n + 17 WHERE w > 'z' AND id <> {a}")),
            statement(&format!("UPDATE q SET name = '{letter}' || id WHERE name = 'bOB'")),
        ]);
    }
    bodies
}

#[test]
fn every_protocol_comes_to_the_same_rows_and_to_them_again() {
    block_on(async {
        let mut refused_by_a_rule = false;
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            for text in SCHEMA {
                client.run(text).await.unwrap();
            }
            for round in 0..3 {
                let submit = |body: Body| {
                    let submitter =
                        Submitter { principal: "tally", role: None, key: None, seed: [1; 16] };
                    node.database.engine.submit(submitter, &Asked::from(&body), None).unwrap()
                };
                let waiting: Vec<_> = transactions(round).into_iter().map(submit).collect();
                for answer in waiting {
                    answer.await.unwrap().ok();
                }
            }
            let sorted = client.run("SELECT w FROM p ORDER BY w, id").await.unwrap();
            let within = client.run("SELECT w FROM p ORDER BY w COLLATE \"sv-x-icu\", id").await;
            assert_eq!(sorted, within.unwrap(), "{protocol}");
            let broken = "SELECT count(*) FROM p WHERE n NOT BETWEEN 1 AND 49 OR w >= 'öl'";
            assert_eq!(client.number(broken).await, 0, "{protocol}");
            let odd = "SELECT count(*) FROM p WHERE low <> (plain < 'ä' COLLATE \"sv-x-icu\")";
            assert_eq!(client.number(odd).await, 0, "{protocol}");
            let one = "UPDATE p SET n = 49 WHERE id = 1";
            client.run(one).await.unwrap();
            let refused = code(client.run("UPDATE p SET n = n + 1 WHERE id = 1").await);
            refused_by_a_rule |= refused == SqlState::CHECK_VIOLATION;
            check_recoveries(&node, protocol);
            node.verify();
        }
        assert!(refused_by_a_rule);
    });
}

/// An index is ordered by bytes: it answers equality, and no order of a language.
#[test]
fn no_index_gives_the_order_of_a_language() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        for text in [
            "CREATE TABLE t (w text COLLATE \"sv-x-icu\" PRIMARY KEY)",
            "INSERT INTO t VALUES ('ö'), ('z'), ('ä'), ('å'), ('Z'), ('a')",
        ] {
            client.run(text).await.unwrap();
        }
        let texts = |rows: Vec<super::Row>| -> String {
            rows.iter().map(|row| row[0].as_text().unwrap_or_default().to_owned()).collect()
        };
        for (query, answer) in [
            ("SELECT w FROM t ORDER BY w", "azZåäö"),
            ("SELECT w FROM t ORDER BY w LIMIT 3", "azZ"),
            ("SELECT w FROM t WHERE w > 'Z' ORDER BY w", "åäö"),
            ("SELECT w FROM t WHERE w = 'ä'", "ä"),
            ("SELECT max(w) FROM t", "ö"),
            ("SELECT min(w COLLATE \"C\") FROM t", "Z"),
            ("SELECT w FROM t ORDER BY w COLLATE \"C\"", "Zazäåö"),
        ] {
            assert_eq!(texts(client.run(query).await.unwrap()), answer, "{query}");
        }
        node.verify();
    });
}

/// Keys under collations that take texts for the same would have to be compared by weights.
#[test]
fn what_would_need_equal_weights_is_refused() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        for text in &SCHEMA[..1] {
            client.run(text).await.unwrap();
        }
        client.run("CREATE TABLE t (x text COLLATE ci, y int)").await.unwrap();
        for text in [
            "CREATE TABLE u (x text COLLATE ci PRIMARY KEY)",
            "CREATE TABLE u (x text COLLATE ci UNIQUE)",
            "CREATE UNIQUE INDEX ON t (x)",
            "ALTER TABLE t ADD UNIQUE (x)",
            "SELECT x FROM t GROUP BY x",
            "SELECT DISTINCT x FROM t",
            "SELECT count(DISTINCT x) FROM t",
            "SELECT x FROM t UNION SELECT x FROM t",
            "SELECT x FROM t WHERE x IN ('a', 'b')",
            "SELECT x FROM t WHERE x = ANY (ARRAY['a', 'b'])",
            "SELECT rank() OVER (PARTITION BY x) FROM t",
            "SELECT min(x) FROM t",
            "CREATE UNIQUE INDEX ON t (x DESC)",
            "CREATE UNIQUE INDEX ON t (x) WHERE y > 0",
            "CREATE UNIQUE INDEX ON t (lower(x))",
            "SELECT x ~ 'a' FROM t",
            "SELECT x SIMILAR TO 'a' FROM t",
            "SELECT regexp_replace(x, 'a', 'b') FROM t",
            "SELECT * FROM t, regexp_matches(x, 'a')",
            "SELECT position('a' IN x) FROM t",
            "SELECT strpos(x, 'a') FROM t",
            "SELECT replace(x, 'a', 'b') FROM t",
            "SELECT split_part(x, 'a', 1) FROM t",
        ] {
            let refused = code(client.run(text).await);
            assert_eq!(refused, SqlState::FEATURE_NOT_SUPPORTED, "{text}");
        }
        client.run("CREATE INDEX ON t (x)").await.unwrap();
        client.run("INSERT INTO t VALUES ('A', 1), ('a', 2), ('b', 3)").await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM t WHERE x = 'a'").await, 2);
    });
}

/// What is stored has the rules in it that a domain had when it was made.
#[test]
fn rules_that_definitions_cast_to_stay() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        for text in [
            "CREATE DOMAIN small AS int CHECK (VALUE < 10)",
            "CREATE DOMAIN smaller AS small",
            "CREATE TABLE t (x int DEFAULT 5::small, CONSTRAINT is_small CHECK (x::smaller > 0))",
        ] {
            client.run(text).await.unwrap();
        }
        let refused = SqlState::FEATURE_NOT_SUPPORTED;
        for text in [
            "ALTER DOMAIN small ADD CHECK (VALUE > -5)",
            "ALTER DOMAIN small DROP CONSTRAINT small_check",
            "ALTER DOMAIN smaller SET NOT NULL",
            "CREATE DOMAIN other AS int CHECK (VALUE::small > 0)",
            "CREATE TABLE u (at timestamptz, x int DEFAULT extract(day FROM now())::int::small)",
        ] {
            assert_eq!(code(client.run(text).await), refused, "{text}");
        }
        client.run("ALTER TABLE t DROP CONSTRAINT is_small").await.unwrap();
        client.run("CREATE INDEX by_small ON t ((x::small)) WHERE x::smaller > 1").await.unwrap();
        assert_eq!(code(client.run("ALTER DOMAIN small SET NOT NULL").await), refused);
        client.run("DROP INDEX by_small").await.unwrap();
        client.run("ALTER DOMAIN small ADD CHECK (VALUE > -5)").await.unwrap();
        client.run("INSERT INTO t VALUES (DEFAULT)").await.unwrap();
        assert_eq!(client.number("SELECT x FROM t").await, 5);
        client.run("DROP DOMAIN small CASCADE").await.unwrap();
        client.run("INSERT INTO t VALUES (DEFAULT)").await.unwrap();
        assert_eq!(client.number("SELECT sum(x) FROM t").await, 10);
    });
}
