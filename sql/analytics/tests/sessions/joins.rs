//! JOIN with USING and NATURAL JOIN by PostgreSQL's answers, and what is refused.

use types::SqlState;

use super::{Node, block_on, roomy};

const TABLES: &str = "
    CREATE TABLE t (id int PRIMARY KEY, a int, b int);
    INSERT INTO t VALUES (1, 1, 10), (2, 2, 20), (3, NULL, 30);
    CREATE TABLE u (id int PRIMARY KEY, a int, c text);
    INSERT INTO u VALUES (1, 2, 'x'), (2, 3, 'y'), (3, NULL, 'z');";

/// Queries, names of their columns, and rows, as PostgreSQL 15 answers.
const QUERIES: &[(&str, &str, &[&str])] = &[
    (
        "SELECT * FROM t RIGHT JOIN u USING (a) ORDER BY c",
        "a,id,b,id,c",
        &["2,2,20,1,x", "3,NULL,NULL,2,y", "NULL,NULL,NULL,3,z"],
    ),
    (
        "SELECT * FROM t LEFT JOIN u USING (a) ORDER BY b",
        "a,id,b,id,c",
        &["1,1,10,NULL,NULL", "2,2,20,1,x", "NULL,3,30,NULL,NULL"],
    ),
    (
        "SELECT * FROM t FULL JOIN u USING (a) ORDER BY b, c",
        "a,id,b,id,c",
        &[
            "1,1,10,NULL,NULL",
            "2,2,20,1,x",
            "NULL,3,30,NULL,NULL",
            "3,NULL,NULL,2,y",
            "NULL,NULL,NULL,3,z",
        ],
    ),
    (
        "SELECT a, t.a, u.a FROM t FULL JOIN u USING (a) ORDER BY b, c",
        "a,a,a",
        &["1,1,NULL", "2,2,2", "NULL,NULL,NULL", "3,NULL,3", "NULL,NULL,NULL"],
    ),
    (
        "SELECT a + 1, count(*) FROM t FULL JOIN u USING (a) GROUP BY a ORDER BY a",
        "?column?,count",
        &["2,1", "3,1", "4,1", "NULL,2"],
    ),
    (
        "SELECT a, b, c FROM t RIGHT JOIN u USING (id, a) WHERE a > 1 OR a IS NULL ORDER BY id",
        "a,b,c",
        &["2,NULL,x", "3,NULL,y", "NULL,NULL,z"],
    ),
    ("SELECT * FROM t NATURAL JOIN u", "id,a,b,c", &[]),
    (
        "SELECT k FROM (SELECT a AS k FROM t) x FULL JOIN (SELECT id::bigint AS k FROM u) y
             USING (k) ORDER BY k",
        "k",
        &["1", "2", "3", "NULL"],
    ),
    // Rows with two columns of one name.
    (
        "SELECT t.id, u.id FROM t CROSS JOIN u
             WHERE t.id IN (SELECT a FROM u w WHERE w.c <> 'z') ORDER BY 1, 2",
        "id,id",
        &["2,1", "2,2", "2,3", "3,1", "3,2", "3,3"],
    ),
    (
        "SELECT id, EXISTS (SELECT 1 FROM u WHERE u.a = t.a),
             EXISTS (SELECT 1 FROM u WHERE u.a > t.a) FROM t ORDER BY id",
        "id,exists,exists",
        &["1,f,t", "2,t,t", "3,f,f"],
    ),
    (
        "SELECT * FROM t NATURAL RIGHT JOIN u ORDER BY c",
        "id,a,b,c",
        &["1,2,NULL,x", "2,3,NULL,y", "3,NULL,NULL,z"],
    ),
    (
        "SELECT * FROM t NATURAL FULL JOIN u ORDER BY id, b, c",
        "id,a,b,c",
        &[
            "1,1,10,NULL",
            "1,2,NULL,x",
            "2,2,20,NULL",
            "2,3,NULL,y",
            "3,NULL,30,NULL",
            "3,NULL,NULL,z",
        ],
    ),
    (
        "SELECT a, v.d FROM t JOIN u USING (a) FULL JOIN (SELECT a, b AS d FROM t) v
            USING (a) ORDER BY a, d",
        "a,d",
        &["1,10", "2,20", "NULL,30"],
    ),
    (
        "SELECT j.a, j.c FROM (t RIGHT JOIN u USING (a)) j ORDER BY c",
        "a,c",
        &["2,x", "3,y", "NULL,z"],
    ),
    ("SELECT t.*, u.* FROM t JOIN u USING (a)", "id,a,b,id,a,c", &["2,2,20,1,2,x"]),
    (
        "WITH v AS (SELECT * FROM t RIGHT JOIN u USING (a)) SELECT v.a FROM v ORDER BY v.c",
        "a",
        &["2", "3", "NULL"],
    ),
    (
        "SELECT * FROM t, u FULL JOIN (SELECT 2 AS a, 5 AS e) w USING (a)
            WHERE t.id = 1 ORDER BY c",
        "id,a,b,a,id,c,e",
        &["1,1,10,2,1,x,5", "1,1,10,3,2,y,NULL", "1,1,10,NULL,3,z,NULL"],
    ),
    ("SELECT max(a) FROM t RIGHT JOIN u USING (a) HAVING max(a) > 2", "max", &["3"]),
    (
        "SELECT a FROM t RIGHT JOIN u USING (a) UNION ALL
            SELECT a FROM t FULL JOIN u USING (a) ORDER BY 1",
        "a",
        &["1", "2", "2", "3", "3", "NULL", "NULL", "NULL"],
    ),
];

#[test]
fn columns_that_a_join_merges_are_those_of_postgresql() {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = node.session();
        client.run(TABLES).await;
        for executor in ["rows", "columns"] {
            client.run(&format!("SET tally.executor = {executor}")).await;
            for (text, names, rows) in QUERIES {
                let reported = client.run(text).await;
                let shown: Vec<&str> = reported.columns.iter().map(|(name, _)| &**name).collect();
                assert_eq!(shown.join(","), *names, "{text}");
                assert_eq!(reported.lines(), *rows, "{text}");
                assert_eq!(reported.by_analytical_engine, executor == "columns", "{text}");
            }
        }
    });
}

/// Each is looked at once, or this would take days.
#[test]
fn queries_with_names_may_lie_deep_within_each_other() {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = node.session();
        client.run(TABLES).await;
        let mut text = "SELECT t.b FROM t JOIN u USING (a)".to_owned();
        for _ in 0..30 {
            text = format!("WITH c AS ({text}) SELECT b FROM c");
        }
        assert_eq!(client.lines(&text).await, ["20"]);
        client.by_columns().await;
        assert_eq!(client.lines(&text).await, ["20"]);
    });
}

#[test]
fn what_would_be_left_out_of_account_is_refused() {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = node.session();
        client.run(TABLES).await;
        client.by_columns().await;
        for text in [
            "SELECT id FROM t TABLESAMPLE BERNOULLI (0)",
            "SELECT rank() OVER (ORDER BY x.id) FROM (SELECT id FROM t FOR UPDATE) x",
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5 LIMIT 3)
                SELECT * FROM r",
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r
                WHERE n < 5 ORDER BY 1)
                SELECT * FROM r",
            "SELECT id FROM t WHERE (a, b) NOT IN (SELECT a, id FROM u WHERE u.id = t.id)",
            "SELECT id FROM t WHERE a NOT IN (SELECT a FROM u WHERE u.id > t.id
                ORDER BY id LIMIT 1)",
            "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id > t.id OFFSET 1)",
            "SELECT a / 2 FROM t RIGHT JOIN (SELECT 1.5 AS a) x USING (a)",
        ] {
            assert_eq!(client.code(text).await, SqlState::FEATURE_NOT_SUPPORTED, "{text}");
        }
    });
}

#[test]
fn a_time_at_a_zone_is_what_clocks_show_there() {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = node.session();
        client.run("CREATE TABLE seen (id int PRIMARY KEY, at timestamptz, shown timestamp)").await;
        client
            .run("INSERT INTO seen VALUES (1, '2020-01-31 12:00:00+00', '2020-06-01 12:00:00')")
            .await;
        let reported = client
            .run(
                "SELECT at AT TIME ZONE 'America/New_York', shown AT TIME ZONE 'Europe/Berlin'
                FROM seen",
            )
            .await;
        let head = "timezone timestamp without time zone,timezone timestamp with time zone";
        assert_eq!(reported.head(), head);
        assert_eq!(reported.lines(), ["2020-01-31 07:00:00,2020-06-01 10:00:00+00"]);
        // CET is an abbreviation to PostgreSQL, and has no summer.
        for unknown in ["Nowhere/City", "CET"] {
            let unknown = format!("SELECT at AT TIME ZONE '{unknown}' FROM seen");
            assert_eq!(client.code(&unknown).await.as_str(), "22023");
        }
    });
}
