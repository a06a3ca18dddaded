//! Where DataFusion's own answer would be another than PostgreSQL's, or than the row executor's.

use types::{SqlState, Value};

use super::{Client, Node, block_on, roomy};

fn with_values(test: impl AsyncFnOnce(Client)) {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = node.session();
        client
            .run(
                "CREATE TABLE v (id int PRIMARY KEY, x numeric(10,1), f float8, at timestamp,
                                 day date, name text, small int, long numeric(28,25));
                 INSERT INTO v VALUES
                   (1, 2.7, 2.5, '2026-01-01 10:20:59.75', '2026-01-31', 'abcdef', 7, 1.5),
                   (2, -2.5, 1.0, '2026-02-01 00:00:00', '2026-02-01', 'abc', -2147483648, 2.5)",
            )
            .await;
        client.by_columns().await;
        test(client).await;
    });
}

#[test]
fn casts_and_fields_are_the_fast_paths() {
    with_values(async |mut client| {
        for (query, lines) in [
            ("SELECT x::int FROM v ORDER BY id", &["3", "-3"][..]),
            ("SELECT sum(x::int) FROM v", &["0"]),
            ("SELECT f::int FROM v ORDER BY id", &["2", "1"]),
            (
                "SELECT at::text FROM v ORDER BY id",
                &["2026-01-01 10:20:59.75", "2026-02-01 00:00:00"],
            ),
            ("SELECT f::text, day::text FROM v WHERE id = 2", &["1,2026-02-01"]),
            ("SELECT name::varchar(3) FROM v WHERE id = 1", &["abc"]),
            ("SELECT name || at FROM v WHERE id = 2", &["abc2026-02-01 00:00:00"]),
            ("SELECT concat(f, name) FROM v WHERE id = 2", &["1abc"]),
            ("SELECT ' 7'::int + 1, 'yes'::boolean", &["8,t"]),
            ("SELECT id::bigint, id::numeric(5,2) FROM v ORDER BY v.id", &["1,1.00", "2,2.00"]),
            ("SELECT extract(second FROM at) FROM v ORDER BY id", &["59.750000", "0.000000"]),
            ("SELECT count(*) FROM v WHERE extract(second FROM at) > 59.5", &["1"]),
            (
                "SELECT extract(century FROM day), extract(year FROM day) FROM v WHERE id = 1",
                &["21,2026"],
            ),
            ("SELECT date_part('milliseconds', at) FROM v WHERE id = 1", &["59750"]),
            ("SELECT date_trunc('month', at) FROM v WHERE id = 1", &["2026-01-01 00:00:00"]),
            ("SELECT day FROM v WHERE day = '2026-01-31'::date", &["2026-01-31"]),
            ("SELECT -id, -x FROM v ORDER BY id", &["-1,-2.7", "-2,2.5"]),
            ("SELECT round(x, 0), round(avg(x) OVER (), 2) FROM v WHERE id = 1", &["3,2.70"]),
            ("SELECT avg(long) FROM v", &["2.0000000000000000000000000"]),
            ("SELECT small / 2.0 + 1 FROM v WHERE id = 1", &["4.5000000000000000"]),
            (
                "SELECT sum(id / x), avg(id) * 2 FROM v",
                &["-0.42962962962962962963,3.0000000000000000"],
            ),
            ("SELECT count(*) FROM v WHERE -0.0::float8 = f - f", &["2"]),
            ("SELECT interval '1 month' = interval '30 days'", &["t"]),
            ("SELECT nullif(x / 1, 2.7), x / 1 IN (2.7) FROM v WHERE id = 1", &["NULL,t"]),
            ("SELECT count(DISTINCT x / x) FROM v", &["1"]),
            (
                "SELECT abs(x), round(x * x * x, 1), count(*) FROM v GROUP BY 1, 2 ORDER BY 1",
                &["2.5,-15.6,1", "2.7,19.7,1"],
            ),
        ] {
            let reported = client.run(query).await;
            assert!(reported.by_analytical_engine, "{query}");
            assert_eq!(reported.lines(), lines, "{query}");
        }
    });
}

/// A cast out of a comparison would leave another question.
#[test]
fn a_cast_that_narrows_is_made_before_it_is_compared() {
    with_values(async |mut client| {
        for (query, line) in [
            ("SELECT count(*) FROM v WHERE x::numeric(10,0) = 3", "1"),
            ("SELECT count(*) FROM v WHERE x::numeric(10,0) > 2.8", "1"),
            ("SELECT count(*) FROM v WHERE (x * 1.00)::numeric(10,1) = -2.5", "1"),
            ("SELECT count(*) FROM v WHERE id::numeric(1,0) < 2", "1"),
        ] {
            assert_eq!(client.lines(query).await, [line], "{query}");
        }
        let narrow = "SELECT count(*) FROM v WHERE small::numeric(3,0) = 7";
        assert_eq!(client.code(narrow).await, SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
    });
}

#[test]
fn floats_are_equal_and_sorted_as_in_postgresql() {
    with_values(async |mut client| {
        client.run("CREATE TABLE g (id int PRIMARY KEY, f float8)").await;
        client.run("INSERT INTO g VALUES (1, 'NaN'), (2, 0.0), (3, 5), (4, NULL)").await;
        // The double next to 0.1, and the one after it.
        client.run("INSERT INTO g VALUES (5, 0.1), (6, 0.10000000000000002)").await;
        for (query, lines) in [
            (
                "SELECT id FROM g WHERE id < 5 ORDER BY -f DESC NULLS LAST",
                &["1", "2", "3", "4"][..],
            ),
            (
                "SELECT count(DISTINCT f) FROM (SELECT f FROM g UNION ALL SELECT -f FROM g) x",
                &["8"],
            ),
            ("SELECT CASE -f WHEN 0 THEN 'zero' ELSE 'other' END FROM g WHERE id = 2", &["zero"]),
            ("SELECT CASE f WHEN -0.0::float8 THEN 'zero' END FROM g WHERE id = 2", &["zero"]),
            ("SELECT count(*) FROM g WHERE -f IN (0, 7)", &["1"]),
            ("SELECT count(*) FROM g WHERE -f BETWEEN 0 AND 0.5", &["1"]),
            ("SELECT count(*) FROM g WHERE -f IN (-'NaN'::float8)", &["1"]),
            // As a number they differ, as floats they do not.
            ("SELECT id FROM g WHERE f = 0.1000000000000000055511151231257827", &["5"]),
            ("SELECT id FROM g WHERE f > 0.10000000000000000555 ORDER BY id", &["1", "3", "6"]),
            ("SELECT id FROM g WHERE f IN (0.1000000000000000055511151231257827)", &["5"]),
            ("SELECT id FROM g WHERE 0.10000000000000001665 <= f AND f < 1", &["6"]),
        ] {
            assert_eq!(client.lines(query).await, lines, "{query}");
        }
    });
}

/// BETWEEN and nullif are written out where their operand is short.
#[test]
fn long_operands_are_compared_like_short_ones() {
    with_values(async |mut client| {
        let long = |operand: &str, more: &str| format!("({operand}{})", more.repeat(40));
        for (operand, line) in [
            // -0, which is no less than 0; numerics of variable scale.
            (long("-(f - f)", " + (f - f) * -1"), "2"),
            (long("x / 1", " + 0.0 * x"), "0"),
            (long("x / x - 1", " + (x - x)"), "2"),
        ] {
            let query = format!("SELECT count(*) FROM v WHERE {operand} BETWEEN 0 AND 0.000");
            assert_eq!(client.lines(&query).await, [line], "{query}");
        }
        let nullif = format!("SELECT nullif({}, 2.7) FROM v", long("x / 1", " + 0.0 * x"));
        assert_eq!(client.code(&nullif).await, SqlState::FEATURE_NOT_SUPPORTED);
        let span = "SELECT interval '1 month' IN (interval '30 days')";
        assert_eq!(client.lines(span).await, ["t"]);
    });
}

#[test]
fn what_leaves_its_range_is_refused() {
    with_values(async |mut client| {
        client.run("CREATE TABLE n (id int PRIMARY KEY, big numeric)").await;
        client.run("INSERT INTO n VALUES (1, 9000000000000000000000000000)").await;
        client.run("INSERT INTO n VALUES (2, 9000000000000000000000000000)").await;
        for (query, code) in [
            ("SELECT sum(big) FROM n", "22003"),
            ("SELECT sum(big) OVER () FROM n", "22003"),
            ("SELECT sum(DISTINCT big + id) FROM n", "22003"),
            ("SELECT -small FROM v", "22003"),
            ("SELECT (x * 1000000000)::int FROM v", "22003"),
            ("SELECT name::int FROM v", "22P02"),
            ("SELECT f * '1e308'::float8 * 10 FROM v", "22003"),
            ("SELECT f / (f - f) FROM v", "22012"),
            ("SELECT sqrt(-f) FROM v", "2201F"),
            ("SELECT count(*) FROM v GROUP BY x / 3", "0A000"),
            ("SELECT DISTINCT x / 3 FROM v", "0A000"),
            ("SELECT x * 1e2 FROM v", "0A000"),
            ("SELECT -id AS id FROM v ORDER BY id + 0", "0A000"),
        ] {
            assert_eq!(client.code(query).await.as_str(), code, "{query}");
        }
    });
}

#[test]
fn functions_that_mean_something_else_are_not_known() {
    with_values(async |mut client| {
        for (query, code) in [
            ("SELECT to_char(day, 'YYYY-MM') FROM v", "42883"),
            ("SELECT arrow_cast(id, 'Utf8') FROM v", "42883"),
            ("SELECT version() FROM v", "42883"),
            ("SELECT uuid() FROM v", "42883"),
            ("SELECT approx_distinct(id) FROM v", "42883"),
        ] {
            assert_eq!(client.code(query).await.as_str(), code, "{query}");
        }
    });
}

#[test]
fn no_answer_changes_when_its_table_grows() {
    with_values(async |mut client| {
        client.by_router().await;
        client
            .run(
                "CREATE TABLE t (id int PRIMARY KEY, amount numeric(10,2), free numeric,
                                 code char(5), f float8)",
            )
            .await;
        let fill = "INSERT INTO t SELECT n, n % 7 + 0.75, 1.50, 'ab', -0.0 FROM";
        client.run(&format!("{fill} generate_series(1, 9) n")).await;
        let mut before = Vec::new();
        for (select, condition) in [
            ("sum(amount), min(amount), max(id), count(*)", "amount > 0.5"),
            ("sum(amount * (1 - amount))", "true"),
            ("amount * 0, 0.000 * amount, free * 0.0", "true"),
            ("count(*)", "amount > 0.12345678901"),
            ("count(*)", "code = 'ab   '"),
            ("amount * 1.1, amount + 0.5, free, -id", "true"),
            ("avg(amount), avg(id), sum(amount::int)", "true"),
            ("count(*)", "f = 0"),
        ] {
            let query = format!("SELECT {select} FROM t WHERE id < 10 AND {condition}");
            before.push((client.lines(&query).await, query));
        }
        client.run(&format!("{fill} generate_series(10, 30000) n")).await;
        let mut moved = 0;
        for (lines, query) in before {
            let reported = client.run(&query).await;
            assert_eq!(reported.lines(), lines, "{query}");
            moved += usize::from(reported.by_analytical_engine);
        }
        assert!(moved > 0, "all stayed");
    });
}

/// 1/3 has more digits than an image has room for. A table may grow at any time, and what is asked
/// of it must not fail then.
#[test]
fn a_number_of_any_scale_leaves_its_queries_to_the_fast_path() {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = node.session();
        client.run("CREATE TABLE f (id int PRIMARY KEY, n numeric)").await;
        client.run("INSERT INTO f SELECT n, 1.0 / 3 FROM generate_series(1, 30000) n").await;
        for (query, by_analytical_engine) in [
            ("SELECT count(*) FROM f WHERE n > 0.1", false),
            ("SELECT count(*) FROM f WHERE n = $1", false),
            ("SELECT count(*) FROM f WHERE id > 0", true),
        ] {
            let third = Value::Numeric("0.33333333333333333333".parse().expect("a number"));
            let parameters = if query.contains('$') { vec![third] } else { Vec::new() };
            let reported = client.tell(query, &parameters).await.expect("an answer");
            assert_eq!(
                (reported.lines(), reported.by_analytical_engine),
                (vec!["30000".to_owned()], by_analytical_engine)
            );
        }
        let ranks = "SELECT rank() OVER (ORDER BY n) FROM f";
        let reported = client.run(ranks).await;
        assert_eq!((reported.rows.len(), reported.by_analytical_engine), (30_000, false));
        // What only the analytical engine may run has nowhere else to go.
        client.by_columns().await;
        let windowed = client.error(ranks).await;
        assert_eq!(windowed.code(), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        assert!(windowed.fields().hint.is_some());
    });
}

/// DataFusion drops sorts, and whole answers, by what it is told of a table's columns.
#[test]
fn what_is_known_of_some_groups_is_not_taken_for_all() {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = node.session();
        client.by_columns().await;
        client.run("CREATE TABLE t (id int PRIMARY KEY, a int, b int)").await;
        let fill = "INSERT INTO t SELECT n, n, n + 5000 FROM generate_series(1, 8192) n";
        client.run(fill).await;
        assert_eq!(client.lines(&format!("SELECT max(a), max(b) FROM t")).await, ["8192,13192"]);
        // Of the first group the bounds are known now, of the second not.
        let shuffled = "INSERT INTO t SELECT n, 8500 + n * 7919 % 500, 1
                        FROM generate_series(9001, 11000) n";
        client.run(shuffled).await;
        let sorted = client.lines(&format!("SELECT a FROM t WHERE a >= 8192 ORDER BY a")).await;
        assert_eq!(sorted.len(), 2001);
        assert!(sorted.is_sorted(), "{sorted:?}");
        let groups = format!("SELECT a, count(*) FROM t WHERE a >= 8192 GROUP BY a");
        assert_eq!(client.lines(&groups).await.len(), 501);
        let distinct = "SELECT count(DISTINCT a), count(DISTINCT b) FROM t WHERE a > b";
        assert_eq!(client.lines(distinct).await, ["500,1"]);
    });
}

#[test]
fn no_aggregate_loses_rows_to_what_another_has_found() {
    block_on(async {
        let node = Node::new(&roomy());
        let mut client = node.session();
        client.by_columns().await;
        client.run("CREATE TABLE t (id int PRIMARY KEY, a int, b int)").await;
        let fill = "INSERT INTO t SELECT n, n, CASE WHEN n > 15000 THEN n END
                    FROM generate_series(1, 20000) n";
        client.run(fill).await;
        for (query, line) in [
            ("SELECT min(a), max(id + 1) FROM t", "1,20001"),
            ("SELECT min(id), max(-a), max(a * 2) FROM t", "1,-1,40000"),
            ("SELECT min(a), max(b) FROM t", "1,20000"),
            ("SELECT min(a), max(a) FILTER (WHERE b > 19000) FROM t", "1,20000"),
        ] {
            assert_eq!(client.lines(query).await, [line], "{query}");
        }
    });
}
