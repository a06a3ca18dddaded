//! What queries answer, by columns and row by row.

use types::SqlState;

use super::{Client, Node, block_on, roomy};

async fn shop(client: &mut Client) {
    client
        .run(
            "CREATE TABLE customer (id int PRIMARY KEY, name varchar(20) NOT NULL, city text);
             CREATE TABLE sale (id bigint PRIMARY KEY, customer int NOT NULL, day date NOT NULL,
                                amount numeric(10,2), pieces int);
             INSERT INTO customer VALUES (1, 'ada', 'Paris'), (2, 'bob', NULL), (3, 'eve', 'Rome');
             INSERT INTO sale VALUES (1, 1, '2026-01-31', 10.50, 3), (2, 1, '2026-02-01', 20.25, 1),
                                     (3, 2, '2026-02-03', 5.00, NULL), (4, 3, '2026-03-01', NULL, 7)",
        )
        .await;
}

fn in_shop(test: impl AsyncFnOnce(Client)) {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = node.session();
        shop(&mut client).await;
        test(client).await;
    });
}

#[test]
fn common_table_expressions_windows_and_correlated_subqueries_are_answered() {
    in_shop(async |mut client| {
        let query = "WITH spent AS (SELECT customer, sum(amount) FROM sale GROUP BY customer)
                     SELECT name, spent.sum FROM spent JOIN customer ON id = customer
                     ORDER BY spent.sum DESC";
        let reported = client.run(query).await;
        assert_eq!(reported.head(), "name character varying(20),sum numeric");
        assert_eq!(reported.lines(), ["eve,NULL", "ada,30.75", "bob,5.00"]);
        let window = "SELECT id, row_number() OVER (PARTITION BY customer ORDER BY day DESC) AS n,
                             sum(pieces) OVER (ORDER BY id ROWS 1 PRECEDING)
                      FROM sale ORDER BY id";
        let reported = client.run(window).await;
        assert_eq!(reported.head(), "id bigint,n bigint,sum bigint");
        assert_eq!(reported.lines(), ["1,2,3", "2,1,4", "3,1,1", "4,1,7"]);
        let correlated = "SELECT name FROM customer c WHERE EXISTS
                          (SELECT 1 FROM sale s WHERE s.customer = c.id AND s.pieces > 2)
                          ORDER BY name";
        assert_eq!(client.lines(correlated).await, ["ada", "eve"]);
        let last = "SELECT name, (SELECT max(day) FROM sale s WHERE s.customer = c.id)
                    FROM customer c ORDER BY 1";
        let expected = ["ada,2026-02-01", "bob,2026-02-03", "eve,2026-03-01"];
        assert_eq!(client.lines(last).await, expected);
        let sets = "SELECT customer FROM sale INTERSECT SELECT id FROM customer WHERE city IS NULL";
        assert_eq!(client.lines(sets).await, ["2"]);
    });
}

#[test]
fn parameters_take_their_types_from_where_they_stand() {
    in_shop(async |mut client| {
        let query = "WITH s AS (SELECT * FROM sale WHERE day >= $1 AND amount > $2)
                     SELECT count(*), $3 FROM s";
        let source = client.session.read(query).expect("a query").remove(0);
        let (prepared, _) = client.session.prepare_source(source, &[]).expect("a plan");
        let types: Vec<String> =
            prepared.bound.parameters.iter().map(|data_type| data_type.to_string()).collect();
        assert_eq!(types, ["date", "numeric", "text"]);
        let parameters = prepared.bound.parameters.iter().zip(["2026-02-01", "5.005", "x"]);
        let parameters: Vec<types::Value> = parameters
            .map(|(data_type, text)| types::Value::read_text(data_type, text).expect("a value"))
            .collect();
        let reported = client.tell(query, &parameters).await.expect("a count");
        assert_eq!(reported.lines(), ["1,x"]);
    });
}

#[test]
fn now_is_the_blocks_time_and_not_that_of_the_plan() {
    in_shop(async |mut client| {
        let now = "WITH x AS (SELECT 1) SELECT now() = current_timestamp, current_date FROM x";
        assert_eq!(client.lines(now).await, ["t,2026-03-01"]);
    });
}

#[test]
fn a_random_value_is_drawn_for_each_row_by_either_engine() {
    in_shop(async |mut client| {
        let each = "SELECT count(DISTINCT r) = count(*), min(r) >= 0 AND max(r) < 1 FROM
                    (SELECT random() AS r, rank() OVER (ORDER BY id) FROM sale) AS s";
        let reported = client.run(each).await;
        assert!(!reported.by_analytical_engine);
        assert_eq!(reported.lines(), ["t,t"]);
        client.by_columns().await;
        let reported = client.run(each).await;
        assert!(reported.by_analytical_engine);
        assert_eq!(reported.lines(), ["t,t"]);
        let ids = "SELECT count(DISTINCT gen_random_uuid()) = count(*), count(*) > 1 FROM
                   (SELECT rank() OVER (ORDER BY id) FROM sale) AS s";
        assert_eq!(client.lines(ids).await, ["t,t"]);
        let again = "SELECT random() FROM (SELECT rank() OVER (ORDER BY id) FROM sale) AS s";
        assert_ne!(client.lines(again).await, client.lines(again).await);
        client.by_router().await;
        let reported = client.run("SELECT id, random() < 1 FROM sale WHERE random() < 2").await;
        assert!(!reported.by_analytical_engine);
        assert!(reported.lines().iter().all(|line| line.ends_with(",t")));
    });
}

#[test]
fn views_are_read_by_either_engine() {
    in_shop(async |mut client| {
        let view = "CREATE VIEW ranked (customer, place) AS
                    SELECT customer, rank() OVER (ORDER BY sum(pieces) DESC NULLS LAST), sum(amount)
                    FROM sale GROUP BY customer";
        client.run(view).await;
        for by_analytical_engine in [true, false] {
            match by_analytical_engine {
                true => client.by_columns().await,
                false => client.by_router().await,
            }
            let reported = client.run("SELECT * FROM ranked WHERE place < 3 ORDER BY place").await;
            assert_eq!(reported.by_analytical_engine, by_analytical_engine);
            assert_eq!(reported.head(), "customer integer,place bigint,sum numeric");
            assert_eq!(reported.lines(), ["3,1,NULL", "1,2,30.75"]);
        }
        client.run("CREATE VIEW paris AS SELECT id, name FROM customer WHERE city = 'Paris'").await;
        assert!(!client.run("SELECT * FROM paris").await.by_analytical_engine);
        let both = "SELECT name, place FROM paris LEFT JOIN ranked ON customer = id";
        assert_eq!(client.lines(both).await, ["ada,2"]);
        let wrong = "CREATE VIEW wrong AS SELECT rank() OVER (ORDER BY nothing) FROM sale";
        assert_eq!(client.code(wrong).await, SqlState::UNDEFINED_COLUMN);
        assert_eq!(client.code("DROP TABLE sale").await.as_str(), "2BP01");
        client.run("DROP TABLE sale CASCADE").await;
        assert_eq!(client.code("SELECT * FROM ranked").await, SqlState::UNDEFINED_TABLE);
    });
}

#[test]
fn numbers_have_the_types_and_the_digits_that_they_have_in_postgresql() {
    in_shop(async |mut client| {
        client.by_columns().await;
        for (query, head, line) in [
            (
                "SELECT 7 / 2, -7 / 2, 7 % 3",
                "?column? integer,?column? integer,?column? integer",
                "3,-3,1",
            ),
            ("SELECT 7.0 / 2", "?column? numeric", "3.5000000000000000"),
            ("SELECT 1 / 3.0", "?column? numeric", "0.33333333333333333333"),
            ("SELECT 100000 / 3.0", "?column? numeric", "33333.333333333333"),
            ("SELECT 1.10 * 2.5, 1.10 + 2", "?column? numeric,?column? numeric", "2.750,3.10"),
            (
                "SELECT sum(pieces), avg(pieces) FROM sale",
                "sum bigint,avg numeric",
                "11,3.6666666666666667",
            ),
            (
                "SELECT sum(id), avg(id) FROM sale",
                "sum numeric,avg numeric",
                "10,2.5000000000000000",
            ),
            (
                "SELECT sum(amount), avg(amount), max(amount) FROM sale",
                "sum numeric,avg numeric,max numeric",
                "35.75,11.9166666666666667,20.25",
            ),
            ("SELECT count(*), count(amount) FROM sale", "count bigint,count bigint", "4,3"),
            (
                "SELECT sum(DISTINCT customer), avg(DISTINCT customer) FROM sale",
                "sum bigint,avg numeric",
                "6,2.0000000000000000",
            ),
            (
                "SELECT date '2026-03-01' - date '2026-02-01', date '2026-03-01' + 1",
                "?column? integer,?column? date",
                "28,2026-03-02",
            ),
            (
                "SELECT date '2026-01-31' + interval '1 month'",
                "?column? timestamp without time zone",
                "2026-02-28 00:00:00",
            ),
            (
                "SELECT count(*) FROM sale WHERE day < date '2026-03-01' - interval '26 days'",
                "count bigint",
                "2",
            ),
            (
                "SELECT 2147483648, 1, 1.5, 'x'",
                "?column? bigint,?column? integer,?column? numeric,?column? text",
                "2147483648,1,1.5,x",
            ),
        ] {
            let reported = client.run(query).await;
            assert!(reported.by_analytical_engine, "{query}");
            assert_eq!(reported.head(), head, "{query}");
            assert_eq!(reported.lines(), [line], "{query}");
        }
    });
}

#[test]
fn faults_have_postgresqls_codes() {
    in_shop(async |mut client| {
        for (query, code) in [
            ("SELECT nothing, rank() OVER () FROM sale", "42703"),
            ("SELECT s.nothing, rank() OVER () FROM sale s", "42703"),
            ("SELECT x.id, rank() OVER () FROM sale s", "42P01"),
            ("SELECT rank() OVER () FROM nowhere", "42P01"),
            ("SELECT id, rank() OVER () FROM sale, customer", "42702"),
            ("SELECT id, day, sum(pieces) OVER () FROM sale GROUP BY id % 2", "42803"),
            ("SELECT no_such(id), rank() OVER () FROM sale", "42883"),
            ("SELECT 1 / (id - id), rank() OVER () FROM sale", "22012"),
            ("SELECT amount / 0, rank() OVER () FROM sale", "22012"),
            ("SELECT 2147483647 + pieces, rank() OVER () FROM sale", "22003"),
            ("SELECT 'x'::int, rank() OVER () FROM sale", "22P02"),
            ("SELECT (SELECT id FROM customer), rank() OVER () FROM sale", "21000"),
        ] {
            assert_eq!(client.code(query).await.as_str(), code, "{query}");
        }
    });
}

#[test]
fn nulls_and_text_sort_as_in_postgresql() {
    in_shop(async |mut client| {
        client.by_columns().await;
        let ascending = "SELECT city FROM customer ORDER BY city";
        assert_eq!(client.lines(ascending).await, ["Paris", "Rome", "NULL"]);
        let descending = "SELECT city FROM customer ORDER BY city DESC";
        assert_eq!(client.lines(descending).await, ["NULL", "Rome", "Paris"]);
        let bytes = "SELECT * FROM (VALUES ('b'), ('B'), ('é'), ('a')) v(s) ORDER BY s";
        assert_eq!(client.lines(bytes).await, ["B", "a", "b", "é"]);
    });
}

#[test]
fn a_filter_on_a_key_reads_its_rows_and_no_images() {
    in_shop(async |mut client| {
        client.by_columns().await;
        let explain = async |client: &mut Client, query: &str| {
            client.lines(&format!("EXPLAIN {query}")).await.join("\n")
        };
        let by_key = "SELECT day, rank() OVER (ORDER BY id) FROM sale WHERE id = 2";
        let plan = explain(&mut client, by_key).await;
        assert!(plan.contains("KeyScan: sale as of block"), "{plan}");
        assert!(plan.contains("by primary key, rows=1"), "{plan}");
        assert_eq!(client.lines(by_key).await, ["2026-02-01,1"]);
        let by_range = "SELECT id, rank() OVER (ORDER BY id) FROM sale WHERE id > 1 AND id < 4";
        let plan = explain(&mut client, by_range).await;
        assert!(plan.contains("by primary key, rows="), "{plan}");
        assert_eq!(client.lines(by_range).await, ["2,1", "3,2"]);
        client.run("CREATE INDEX by_customer ON sale (customer, day)").await;
        let by_index = "SELECT id, rank() OVER (ORDER BY id) FROM sale
                        WHERE customer = 1 AND day >= date '2026-02-01'";
        let plan = explain(&mut client, by_index).await;
        assert!(plan.contains("by index by_customer, rows=2"), "{plan}");
        assert_eq!(client.lines(by_index).await, ["2,1"]);
        let scan = "SELECT id, rank() OVER (ORDER BY id) FROM sale WHERE pieces = 7";
        assert!(explain(&mut client, scan).await.contains("ImageScan"));
        // With a parameter, the plan is made before the key is known.
        let parameter = "SELECT name, rank() OVER (ORDER BY id) FROM customer WHERE id = $1";
        let reported = client.tell(parameter, &[types::Value::Int(3)]).await.expect("a row");
        assert_eq!(reported.lines(), ["eve,1"]);
    });
}

#[test]
fn joins_sets_and_groups_are_the_same_by_columns_and_row_by_row() {
    in_shop(async |mut client| {
        for (query, lines) in [
            ("SELECT name, day FROM customer FULL JOIN sale ON sale.id = customer.id ORDER BY day",
             &["ada,2026-01-31", "bob,2026-02-01", "eve,2026-02-03", "NULL,2026-03-01"][..]),
            ("SELECT customer, pieces, count(*) FROM sale GROUP BY GROUPING SETS ((customer), ())
              , pieces HAVING count(*) > 0 ORDER BY 1, 2", &["1,1,1", "1,3,1", "2,NULL,1", "3,7,1", "NULL,1,1", "NULL,3,1", "NULL,7,1", "NULL,NULL,1"]),
            ("SELECT id FROM customer EXCEPT SELECT customer FROM sale WHERE pieces > 2", &["2"]),
            ("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4)
              SELECT sum(i), count(*) FROM n", &["10,4"]),
            ("SELECT c.name, s.id FROM customer c,
              LATERAL (SELECT id FROM sale WHERE customer = c.id AND pieces > 2) s ORDER BY 2",
             &["ada,1", "eve,4"]),
            ("SELECT extract(year FROM day), count(*) FILTER (WHERE pieces > 1), rank() OVER (ORDER BY 1)
              FROM sale GROUP BY 1", &["2026,2,1"]),
            ("SELECT string_agg(name, '+' ORDER BY name DESC), max(id) OVER () FROM customer GROUP BY id HAVING id = 1",
             &["ada,1"]),
            ("SELECT id, id, sum(pieces), sum(pieces), rank() OVER (ORDER BY id) FROM sale GROUP BY id ORDER BY id LIMIT 1",
             &["1,1,3,3,1"]),
            ("SELECT i, rank() OVER (ORDER BY i DESC) FROM generate_series(1, 3) i ORDER BY i LIMIT 2 OFFSET 1",
             &["2,2", "3,1"]),
        ] {
            client.by_columns().await;
            let reported = client.run(query).await;
            assert!(reported.by_analytical_engine, "{query}");
            assert_eq!(reported.lines(), lines, "{query}");
            client.by_router().await;
            assert_eq!(client.lines(query).await, lines, "{query}");
        }
    });
}

/// WITH keeps the strings where they stand: none becomes a parameter.
#[test]
fn a_string_is_read_as_what_it_is_compared_with() {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = node.session();
        client
            .run(
                r"CREATE TABLE v (id int PRIMARY KEY, code char(5), h bytea, u uuid, d date, b bool,
                                  n numeric, t text);
                  INSERT INTO v VALUES
                    (1, 'ab', '\xdead', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '2026-03-01', true,
                     1.5, 'ab'),
                    (2, 'cd', '\x00', 'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '2026-03-02', false,
                     2, 'cd   ')",
            )
            .await;
        let ones = [
            "code = 'ab   '",
            "'ab ' = code",
            "code IN ('ab  ', 'x')",
            "code BETWEEN 'aa' AND 'ab     '",
            "code IS NOT DISTINCT FROM 'ab  '",
            "CASE code WHEN 'ab  ' THEN true ELSE false END",
            r"h = '\xDEAD'",
            r"h IN ('\xdead')",
            "u = '{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}'",
            "u IN ('a0eebc999c0b4ef8bb6d6bb9bd380a11')",
            "d = ' 2026-03-01 '",
            "d NOT IN ('2026-03-02')",
            "b = 'yes'",
            "id = ' 1'",
            "id IN ('1')",
            "n = '1.500000000000'",
            "n > '0.00000000001' AND n < '1.99999999999'",
            "t = 'ab'",
            "t <> 'cd   '",
        ];
        for condition in ones {
            let query = format!(
                "WITH w AS (SELECT * FROM v) SELECT id, rank() OVER () FROM w WHERE {condition}"
            );
            assert_eq!(client.lines(&query).await, ["1,1"], "{query}");
        }
        for (condition, code) in [
            ("id = 'one'", SqlState::INVALID_TEXT_REPRESENTATION),
            ("u = 'x'", SqlState::INVALID_TEXT_REPRESENTATION),
            ("b IN ('maybe')", SqlState::INVALID_TEXT_REPRESENTATION),
        ] {
            let query = format!(
                "WITH w AS (SELECT * FROM v) SELECT id, rank() OVER () FROM w WHERE {condition}"
            );
            assert_eq!(client.code(&query).await, code, "{query}");
        }
    });
}

async fn plan(client: &mut Client, query: &str) -> String {
    client.lines(&format!("EXPLAIN {query}")).await.join("\n")
}

/// FROM names tables next to one another that have nothing to be joined by.
#[test]
fn tables_are_joined_by_what_where_says_beside_a_subquery() {
    in_shop(async |mut client| {
        client.run("CREATE TABLE day (name text PRIMARY KEY, of int)").await;
        client.run("INSERT INTO day VALUES ('first', 1), ('other', 2), ('third', 3)").await;
        for (subquery, lines) in [
            (
                "NOT EXISTS (SELECT 1 FROM sale o WHERE o.customer = s.customer AND o.id > s.id)",
                &["first,ada,2", "other,bob,3", "third,eve,4"][..],
            ),
            (
                "EXISTS (SELECT 1 FROM sale o WHERE o.customer = s.customer AND o.id > s.id)",
                &["first,ada,1"],
            ),
            (
                "s.amount > (SELECT avg(amount) FROM sale o WHERE o.customer = s.customer)",
                &["first,ada,2"],
            ),
        ] {
            let query = format!(
                "SELECT day.name, c.name, s.id FROM day, sale s, customer c
                 WHERE s.customer = c.id AND day.of = c.id AND {subquery} ORDER BY s.id"
            );
            assert_eq!(client.lines(&query).await, lines, "{query}");
            client.by_columns().await;
            assert_eq!(client.lines(&query).await, lines, "{query}");
            let plan = plan(&mut client, &query).await;
            assert!(plan.starts_with("Router: DataFusion"), "{plan}");
            assert!(!plan.contains("CrossJoin"), "{plan}");
            client.by_router().await;
        }
    });
}

/// A join's keys are asked for where the other side is read.
#[test]
fn few_keys_of_one_side_are_sought_in_the_other() {
    in_shop(async |mut client| {
        client.run("CREATE TABLE line (sale int, place int, PRIMARY KEY (sale, place))").await;
        let fill = "INSERT INTO line SELECT n % 10000, n FROM generate_series(1, 40000) n";
        client.run(fill).await;
        client.by_columns().await;
        let query = "WITH s AS (SELECT id::int AS id, pieces FROM sale WHERE pieces > 2)
                     SELECT count(*), min(place), max(place), sum(pieces)
                     FROM s JOIN line ON line.sale = s.id";
        let explain = format!("EXPLAIN ANALYZE {query}");
        assert_eq!(client.lines(query).await, ["8,1,30004,40"]);
        let plan = client.lines(&explain).await;
        let scan = plan.iter().find(|line| line.contains("ImageScan: line")).expect("a scan");
        assert!(scan.contains("while it runs: DynamicFilter"), "{scan}");
        assert!(plan.iter().any(|line| line.contains("input_rows=8,")), "{plan:#?}");
    });
}

/// The tables of Unicode are the executor's, and one character becomes one.
#[test]
fn letters_have_the_cases_that_they_have_in_blocks() {
    in_shop(async |mut client| {
        client.run("INSERT INTO customer VALUES (9, 'Straße ΟΔΟΣ', NULL)").await;
        let cases = "upper(name), lower(name), initcap(name)";
        let of_rows = format!("SELECT {cases} FROM customer WHERE id = 9");
        assert_eq!(client.lines(&of_rows).await, ["STRAßE ΟΔΟΣ,straße οδοσ,Straße Οδοσ"]);
        let of_columns = format!("SELECT {cases}, row_number() OVER () FROM customer WHERE id = 9");
        assert_eq!(client.lines(&of_columns).await, ["STRAßE ΟΔΟΣ,straße οδοσ,Straße Οδοσ,1"]);
        for (pattern, matches) in [("strAßE οδ%", 1), ("STRASSE%", 0), ("%ΟΔΟς", 0)] {
            let query = format!(
                "SELECT id, row_number() OVER () FROM customer WHERE name ILIKE '{pattern}'"
            );
            assert_eq!(client.lines(&query).await.len(), matches, "{pattern}");
        }
    });
}
