//! What is small as text and large as a plan or as a value, and calls where none can be.

use std::time::{Duration, Instant};

use super::fixtures::Server;

fn server() -> Server {
    Server::new("CREATE TABLE t (id int PRIMARY KEY, v text)")
}

/// The SQLSTATE of a statement's error.
fn code(server: &Server, text: &str) -> String {
    match server.ask(text, &[]) {
        Ok(_) => "00000".to_owned(),
        Err(error) => error.code().to_string(),
    }
}

fn nested(open: &str, inner: &str, close: &str, levels: usize) -> String {
    format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
}

/// Each level doubles the quotes of those below when it is shown.
#[test]
fn nested_values_end_where_their_text_becomes_too_long() {
    let server = server();
    let begun = Instant::now();
    for (open, close, levels, expected) in [
        ("array[", "]", 1, "00000"),
        ("array[", "]", 2, "0A000"),
        ("array[", "]", 35, "0A000"),
        ("row(", ", 1)", 12, "00000"),
        ("row(", ", 1)", 40, "54001"),
        ("(1, ", ")", 40, "54001"),
        ("array[row(1, ", ")]", 20, "54001"),
        ("quote_literal(", ")", 10, "00000"),
        ("quote_literal(", ")", 40, "54000"),
        ("quote_ident(", ")", 40, "54000"),
        ("format('%L', ", ")", 40, "54000"),
        ("json_build_object('a', ", ")", 40, "00000"),
        ("row(", ", 1)::text", 40, "54000"),
        ("array_to_string(array[", "], ',')", 20, "00000"),
        ("replace(", "::name, 'a', 'aaaaaaaaaa')", 40, "00000"),
    ] {
        let text =
            format!("SELECT {} FROM pg_class LIMIT 1", nested(open, "'a'' \"'", close, levels));
        assert_eq!(code(&server, &text), expected, "{open} {levels}");
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

/// Thirty levels are no more than 400 bytes of text.
#[test]
fn nested_quotes_end_soon() {
    let server = server();
    for (open, expected) in [
        ("quote_literal(", "54000"),
        ("quote_ident(", "54000"),
        ("format('%L', ", "54000"),
        ("format('%I', ", "54000"),
    ] {
        let begun = Instant::now();
        let text = format!("SELECT {}", nested(open, r#"E'\'\\"'"#, ")", 30));
        assert_eq!(code(&server, &text), expected, "{open}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{open} {:?}", begun.elapsed());
    }
    let shown = |text: &str| server.ask(text, &[]).unwrap().rows[0][0].to_string();
    assert_eq!(shown("SELECT quote_literal('')"), "''");
    assert_eq!(shown("SELECT quote_literal('a''é''')"), "'a''é'''");
    assert_eq!(shown(r"SELECT quote_literal(E'\\x''')"), r"E'\\x'''");
    assert_eq!(shown(r#"SELECT quote_ident('é"''b')"#), r#""é""'b""#);
}

/// A few short views come to more than could be held, and a long text to more than is read.
#[test]
fn what_a_statement_comes_to_is_bounded() {
    let all = vec!["relpages"; 4_000].join(", ");
    let server = Server::new(&format!(
        "CREATE TABLE t (id int PRIMARY KEY, v text);
         CREATE VIEW wide AS SELECT coalesce({all}) AS n FROM pg_class",
    ));
    let begun = Instant::now();
    server.bind("SELECT n FROM wide").unwrap();
    let many = vec!["SELECT n FROM wide"; 60].join(" UNION ALL ");
    assert_eq!(server.bind(&many).err().unwrap().code().as_str(), "54001");
    let list = vec!["1"; 210_000].join(", ");
    let long = format!("SELECT relname FROM pg_class WHERE oid IN ({list})");
    assert_eq!(code(&server, &long), "54001");
    let stars = vec!["*"; 5_000].join(", ");
    assert_eq!(code(&server, &format!("SELECT {stars} FROM pg_class, pg_attribute")), "54001");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

/// What looks at an operand several times copies it, which ends where it comes to too much.
#[test]
fn operands_are_copied_so_often_and_no_more() {
    let server = server();
    let begun = Instant::now();
    for (open, inner, close, expected) in [
        ("nullif(", "relname", ", 'x')", "pg_class"),
        ("(", "true", " BETWEEN false AND true)", "t"),
        ("(", "true", " IN (true, false))", "t"),
        ("(", "true", " NOT IN (false, NULL, true) IS NULL)", "f"),
        ("CASE ", "1", " WHEN 1 THEN 1 WHEN 2 THEN 2 ELSE 3 END", "1"),
        ("CASE WHEN false THEN 'a' ELSE ", "relname", " END", "pg_class"),
        ("coalesce(nullif(", "relname", ", 'x'), 'y')", "pg_class"),
    ] {
        // Parentheses, and two calls a level, reach the bound on nesting sooner.
        let deep = if open == "(" || open.starts_with("coalesce") { 20 } else { 40 };
        for levels in [2, 6, deep] {
            let expr = nested(open, inner, close, levels);
            let text = format!("SELECT {expr} FROM pg_class WHERE relname = 'pg_class'");
            match server.ask(&text, &[]) {
                Ok(answer) => assert_eq!(answer.rows[0][0], expected, "{open} {levels}"),
                Err(error) => {
                    assert_eq!(error.code().as_str(), "54001", "{open} {levels}: {error}");
                    assert!(levels > 6, "{open} {levels}: {error}");
                }
            }
        }
    }
    // One operand within another, and one text twice.
    let grouped = "SELECT nullif(lower(relname), nullif(upper(relname), 'X')), \
                   lower(relname) BETWEEN nullif(lower('A'), 'b') AND nullif(lower('Z'), 'b'), \
                   CASE lower(relname) WHEN nullif(lower('B'), 'c') THEN 'b' \
                   WHEN nullif(lower('PG_CLASS'), 'c') THEN 'pg' END \
                   FROM pg_class WHERE relname = 'pg_class' \
                   GROUP BY nullif(lower(relname), nullif(upper(relname), 'X')), relname \
                   ORDER BY nullif(lower(relname), nullif(upper(relname), 'X'))";
    assert_eq!(server.ask(grouped, &[]).unwrap().rows, [["pg_class", "t", "pg"]]);
    let rows = "SELECT ((nullif(1, 2), nullif('a', 'b')) IN ((1, 'b'), (1, 'a'))) FROM pg_class";
    assert_eq!(server.ask(rows, &[]).unwrap().rows[0][0], "t");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn sets_and_aggregates_are_refused_where_there_is_no_row() {
    let server = server();
    for (text, expected, message) in [
        ("VALUES (1, generate_series(1, 2))", "0A000", "not allowed in VALUES"),
        ("VALUES (1, count(*))", "42803", "not allowed in VALUES"),
        ("VALUES (row_number() OVER ())", "42P20", "not allowed in VALUES"),
        ("SELECT 1 LIMIT generate_series(1, 3)", "0A000", "not allowed in LIMIT"),
        ("SELECT 1 OFFSET generate_series(1, 3)", "0A000", "not allowed in OFFSET"),
        ("SELECT 1 LIMIT count(*)", "42803", "not allowed in LIMIT"),
        ("VALUES (1) LIMIT max(1)", "42803", "not allowed in LIMIT"),
        ("SELECT 1 UNION SELECT 2 LIMIT unnest(array[1])", "0A000", "not allowed in LIMIT"),
        ("SELECT 1 WHERE generate_series(1, 3) = 1", "0A000", "not allowed in WHERE"),
        ("SELECT count(*) HAVING generate_series(1, 3) = 1", "0A000", "not allowed in HAVING"),
        ("SELECT CASE WHEN true THEN generate_series(1, 3) END", "0A000", "not allowed in CASE"),
        ("SELECT coalesce(generate_series(1, 3), 1)", "0A000", "not allowed in COALESCE"),
        ("SELECT count(generate_series(1, 3))", "0A000", "cannot contain set-returning"),
        ("SELECT sum(unnest(array[1])) OVER ()", "0A000", "cannot contain set-returning"),
        ("SELECT 1 FROM pg_class a JOIN pg_class b ON unnest(array[true])", "0A000", "JOIN"),
        ("SELECT 1 FROM generate_series(1, generate_series(1, 2))", "0A000", "top level of FROM"),
        ("SELECT 1 FROM generate_series(1, count(*))", "42803", "functions in FROM"),
        ("SELECT generate_series(1, generate_series(1, 2))", "0A000", "not allowed"),
        ("SELECT unnest(array[1, 2]), count(*) FROM pg_class GROUP BY 1", "0A000", "beside groups"),
        ("WITH a AS (VALUES (unnest(array[1]))) SELECT * FROM a", "0A000", "in VALUES"),
        (
            "SELECT (SELECT column1 FROM (VALUES (unnest(array[1]))) v) FROM pg_class",
            "0A000",
            "in VALUES",
        ),
        ("SELECT 1 FROM pg_class LIMIT (SELECT generate_series(3, 3))", "00000", ""),
        ("SELECT generate_series(1, 3) ORDER BY 1", "00000", ""),
    ] {
        match server.ask(text, &[]) {
            Ok(_) => assert_eq!(expected, "00000", "{text}"),
            Err(error) => {
                assert_eq!(error.code().to_string(), expected, "{text}: {error}");
                assert!(error.message().contains(message), "{text}: {error}");
            }
        }
    }
}

/// VALUES and LIMIT see the rows of the queries around them.
#[test]
fn values_and_limit_see_what_is_around_them() {
    let server = server();
    let text = "SELECT relname, (SELECT column1 FROM (VALUES (c.relname)) v), \
                (SELECT attname FROM pg_attribute a WHERE a.attrelid = c.oid AND attnum > 0 \
                 ORDER BY attnum OFFSET c.relnatts - c.relnatts LIMIT 1) \
                FROM pg_class c WHERE relname = 'pg_class'";
    let answer = server.ask(text, &[]).unwrap();
    assert_eq!(answer.rows, [["pg_class", "pg_class", "oid"]]);
}

#[test]
fn common_tables_that_double_are_evaluated_once() {
    let server = server();
    let each = |n: usize| {
        let below = n - 1;
        format!(", a{n} AS (SELECT x FROM a{below} UNION ALL SELECT x FROM a{below})")
    };
    let parts: String = (1..=10).map(each).collect();
    let text = format!(
        "WITH a0 AS (SELECT relname AS x FROM pg_class WHERE relname = 'pg_class'){parts} \
         SELECT count(*) FROM a10"
    );
    assert_eq!(server.ask(&text, &[]).unwrap().rows[0][0], "1024");
}

#[test]
fn rows_are_written_as_postgresql_writes_them() {
    let server = server();
    for (row, expected) in [
        ("row(1, 'two', null, '')", "(1,two,,\"\")"),
        ("row('a b', 'a,b', '(', ')', 'a''b')", "(\"a b\",\"a,b\",\"(\",\")\",a'b)"),
        (r#"row('x"y', 'x\y')"#, r#"("x""y","x\\y")"#),
        ("row(array[1, 2], true, 1.50)", "(\"{1,2}\",t,1.50)"),
        (
            "row(date '2020-01-02', timestamp '2020-01-02 03:04:05')",
            "(2020-01-02,\"2020-01-02 03:04:05\")",
        ),
        ("row(1, 2)::text", "(1,2)"),
        ("row('a b', null)::text || '!'", "(\"a b\",)!"),
    ] {
        let answer = server.ask(&format!("SELECT {row}"), &[]).unwrap();
        assert_eq!(answer.rows[0][0], expected, "{row}");
    }
}

/// What depends on the machine is refused for that, and not for being unknown.
#[test]
fn functions_that_no_engine_has_say_why() {
    let server = server();
    for call in ["exp(1)", "ln(2)", "log(100.0::float8)", "log10(2)", "sin(1.0::float8)"] {
        let error = server.ask(&format!("SELECT {call}"), &[]).unwrap_err();
        assert_eq!(error.code().as_str(), "0A000", "{call}: {error}");
        let detail = error.fields().detail.clone().unwrap_or_default();
        assert!(detail.contains("differ between machines"), "{call}: {detail}");
    }
    assert_eq!(code(&server, "SELECT no_such_function(1)"), "42883");
    for call in ["nextval('nope')", "currval('nope')"] {
        assert_eq!(code(&server, &format!("SELECT {call}")), "42P01", "{call}");
    }
}
