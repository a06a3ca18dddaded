//! What the tables hold.

use crate::fixtures::{NULL, Server};

#[test]
fn numbers_of_objects_follow_from_the_schema_and_stay_when_others_go() {
    let before = Server::new("CREATE TABLE a (x int PRIMARY KEY); CREATE TABLE b (y int UNIQUE)");
    let after = Server::new(
        "CREATE TABLE a (x int PRIMARY KEY); CREATE TABLE b (y int UNIQUE); DROP TABLE a",
    );
    let query = "SELECT oid FROM pg_class WHERE relname IN ('b', 'b_y_key')
        UNION SELECT oid FROM pg_constraint WHERE conrelid = 'b'::regclass ORDER BY 1";
    let numbers = before.ask(query, &[]).unwrap().rows;
    assert_eq!(numbers.len(), 3);
    assert_eq!(numbers, after.ask(query, &[]).unwrap().rows);
}

#[test]
fn every_number_that_a_table_holds_of_another_object_is_there() {
    let server = Server::new(include_str!("../fixtures/schema.sql"));
    for (table, column, of) in [
        ("pg_class", "relnamespace", "pg_namespace"),
        ("pg_attribute", "attrelid", "pg_class"),
        ("pg_attribute", "atttypid", "pg_type"),
        ("pg_attribute", "attcollation", "pg_collation"),
        ("pg_index", "indexrelid", "pg_class"),
        ("pg_index", "indrelid", "pg_class"),
        ("pg_constraint", "conrelid", "pg_class"),
        ("pg_constraint", "conindid", "pg_class"),
        ("pg_constraint", "confrelid", "pg_class"),
        ("pg_proc", "prorettype", "pg_type"),
        ("pg_proc", "prolang", "pg_language"),
        ("pg_type", "typelem", "pg_type"),
        ("pg_type", "typarray", "pg_type"),
        ("pg_type", "typinput", "pg_proc"),
        ("pg_type", "typrelid", "pg_class"),
        ("pg_opclass", "opcfamily", "pg_opfamily"),
    ] {
        let query = format!(
            "SELECT DISTINCT {column}::oid FROM {table} WHERE {column} <> 0
             AND {column} NOT IN (SELECT oid FROM {of})"
        );
        let missing = server.ask(&query, &[]).unwrap().rows;
        assert!(missing.is_empty(), "{table}.{column}: {missing:?}");
    }
}

#[test]
fn every_system_relation_can_be_read_and_describes_itself() {
    let server = Server::new(include_str!("../fixtures/schema.sql"));
    let relations = "SELECT c.oid::regclass::text, c.relnatts FROM pg_class c WHERE c.oid < 16384";
    let relations = server.ask(relations, &[]).unwrap().rows;
    assert!(relations.len() > 200);
    for relation in relations {
        let table = server.ask(&format!("SELECT * FROM {}", relation[0]), &[]);
        let table = table.unwrap_or_else(|error| panic!("{}: {error:?}", relation[0]));
        assert_eq!(table.columns.len().to_string(), relation[1], "{}", relation[0]);
    }
}

#[test]
fn an_unknown_name_is_an_error_or_null_as_its_spelling_says() {
    let server = Server::new("CREATE TABLE a (x int)");
    let error = server.ask("SELECT 'b'::regclass", &[]).unwrap_err();
    assert_eq!(error.code(), types::SqlState::UNDEFINED_TABLE);
    assert_eq!(server.ask("SELECT to_regclass('b')", &[]).unwrap().rows, [[NULL]]);
    assert_eq!(server.ask("SELECT to_regclass('public.A')", &[]).unwrap().rows, [["a"]]);
}

#[test]
fn a_query_over_users_tables_is_left_to_others() {
    for (text, ours) in [
        ("SELECT * FROM pg_class", true),
        ("SELECT 1 FROM a", false),
        ("SELECT 1 FROM a, pg_class", false),
        ("WITH a AS (SELECT oid FROM pg_type) SELECT * FROM a", true),
        ("SELECT (SELECT count(*) FROM a) FROM pg_class", false),
        ("SELECT current_schemas(true)", true),
        ("SELECT x FROM generate_series(1, 3) x", true),
    ] {
        assert_eq!(pgcatalog::system_query(text).unwrap().is_some(), ours, "{text}");
    }
}

#[test]
fn parameters_take_the_types_of_what_they_are_compared_with() {
    let server = Server::new("CREATE TABLE a (x int)");
    let text = "SELECT typname FROM pg_type WHERE oid = $1 AND typname = ANY ($2) LIMIT $3";
    let types: Vec<String> =
        server.prepare(text).unwrap().parameters.iter().map(|t| t.to_string()).collect();
    assert_eq!(types, ["oid", "name[]", "bigint"]);
    let found = server.ask(text, &[Some("23"), Some("{int4,int8}"), Some("5")]).unwrap();
    assert_eq!(found.rows, [["int4"]]);
}

#[test]
fn what_is_no_query_is_an_error_and_never_a_panic() {
    let server = Server::new("CREATE TABLE a (x int)");
    let deep = |n: usize| format!("SELECT {}1{}", "(".repeat(n), ")".repeat(n));
    let long = |n: usize| format!("SELECT 1 FROM pg_type WHERE {}true", "oid = 1 OR ".repeat(n));
    for text in [deep(20), long(90), long(2_000)] {
        assert!(server.ask(&text, &[]).is_ok(), "{text}");
    }
    for text in [deep(400), long(20_000)] {
        assert!(server.ask(&text, &[]).is_err(), "{}", &text[..60]);
    }
    for text in [
        "SELECT sum() FROM pg_type",
        "SELECT sum() OVER () FROM pg_type",
        "SELECT nullif() FROM pg_type",
        "SELECT nullif(1) FROM pg_type",
        "SELECT nothing FROM pg_type",
        "SELECT t.nothing FROM pg_type t",
        "SELECT oid FROM pg_type, pg_class",
        "SELECT 1 FROM pg_nothing",
        "SELECT (SELECT oid FROM pg_type)",
        "SELECT 1 / 0 FROM pg_type",
        "SELECT 1 UNION SELECT 1, 2",
        "SELECT 'x' ~ '('",
        "SELECT generate_series(1, 10000000000)",
        "SELECT oid[1] FROM pg_type",
        "SELECT (oid).x FROM pg_type",
        "VALUES (1), (1, 2)",
    ] {
        assert!(server.ask(text, &[]).is_err(), "{text}");
    }
}

#[test]
fn joins_that_keep_rows_keep_them() {
    let server = Server::new("CREATE TABLE a (x int)");
    for (text, rows) in [
        ("l LEFT JOIN r ON l.n = r.n", [["1", NULL], ["2", "2"], ["3", "3"]].as_slice()),
        ("l RIGHT JOIN r ON l.n = r.n", &[["2", "2"], ["3", "3"], [NULL, "4"]]),
        ("l FULL JOIN r ON l.n = r.n", &[["1", NULL], ["2", "2"], ["3", "3"], [NULL, "4"]]),
        ("l JOIN r ON l.n + 1 = r.n", &[["1", "2"], ["2", "3"], ["3", "4"]]),
        ("l LEFT JOIN r ON l.n = r.n AND l.n > 2", &[["1", NULL], ["2", NULL], ["3", "3"]]),
        ("l LEFT JOIN r ON l.n = r.n WHERE r.n IS NULL", &[["1", NULL]]),
        ("l, LATERAL (SELECT l.n * 10) r(n) WHERE l.n > 2", &[["3", "30"]]),
    ] {
        let query = format!(
            "WITH l AS (SELECT n FROM generate_series(1, 3) n),
             r AS (SELECT n FROM generate_series(2, 4) n)
             SELECT l.n, r.n FROM {text} ORDER BY 1, 2"
        );
        assert_eq!(server.ask(&query, &[]).unwrap().rows, rows, "{text}");
    }
}

#[test]
fn groups_windows_and_sets_are_as_in_postgresql() {
    let server = Server::new("CREATE TABLE a (x int)");
    for (text, rows) in [
        (
            "SELECT n % 2, count(*), sum(n), string_agg(n::text, ',' ORDER BY n DESC)
          FROM generate_series(1, 5) n GROUP BY 1 HAVING count(*) > 2",
            [["1", "3", "9", "5,3,1"]],
        ),
        (
            "SELECT count(*), max(n), array_agg(n), bool_and(n > 1) FROM generate_series(1, 0) n",
            [["0", NULL, NULL, NULL]],
        ),
        (
            "SELECT * FROM (
                 SELECT n, row_number() OVER (PARTITION BY n % 2 ORDER BY n DESC), n % 2,
                        count(*) OVER (PARTITION BY n % 2) FROM generate_series(1, 5) n
             ) s(a, b, c, d) WHERE a = 5",
            [["5", "1", "1", "3"]],
        ),
        (
            "SELECT unnest(ARRAY[1, 2]), generate_series(7, 9), 'x', NULL LIMIT 1 OFFSET 2",
            [[NULL, "9", "x", NULL]],
        ),
    ] {
        assert_eq!(server.ask(text, &[]).unwrap().rows, rows, "{text}");
    }
}

#[test]
fn like_is_the_servers_own() {
    let server = Server::new("CREATE TABLE a (x int)");
    let truth = |condition: &str| {
        let table = server.ask(&format!("SELECT {condition} FROM pg_namespace LIMIT 1"), &[]);
        table.map(|table| table.rows[0][0].clone())
    };
    for condition in [
        "'a_b' LIKE 'a\\_b'",
        "'a%b' LIKE 'a!%b' ESCAPE '!'",
        "'A.B' ILIKE 'a.%'",
        "NOT 'axb' LIKE 'a.b'",
        "E'a\\nb' LIKE 'a%b'",
        "'b' ~~* ANY (ARRAY['A', 'B'])",
    ] {
        assert_eq!(truth(condition).unwrap(), "t", "{condition}");
    }
    let error = truth("'a' LIKE 'a\\'").unwrap_err();
    assert_eq!(error.code(), types::SqlState(*b"22025"));
}

#[test]
fn what_is_put_into_a_text_is_written_as_it_is_shown() {
    let server = Server::new("CREATE TABLE a (x int)");
    for (text, expected) in [
        ("SELECT format('%s %s', true, 1 > 2)", "t f"),
        ("SELECT format('%L', false)", "'f'"),
        ("SELECT format('%s|%s', 1.50, NULL)", "1.50|"),
        ("SELECT format('%I.%s', 'A b', 'pg_class'::regclass)", "\"A b\".pg_class"),
        ("SELECT array_to_string(NULL || ARRAY['a', 'b'], ',')", "a,b"),
        ("SELECT (ARRAY[1, 2] || NULL::int[])[2]", "2"),
    ] {
        assert_eq!(server.ask(text, &[]).unwrap().rows, [[expected]], "{text}");
    }
}

#[test]
fn only_constraints_are_listed_as_constraints() {
    let server = Server::new(
        "CREATE TABLE t (a int PRIMARY KEY, b int UNIQUE, c int, d int);
         CREATE UNIQUE INDEX t_c_idx ON t (c);
         CREATE UNIQUE INDEX t_d_idx ON t (d);
         ALTER TABLE t ADD CONSTRAINT t_d_key UNIQUE USING INDEX t_d_idx",
    );
    let rows = |query: &str| server.ask(query, &[]).unwrap().rows;
    let constraints = "SELECT conname, contype FROM pg_constraint WHERE contype IN ('p', 'u')
        ORDER BY conname";
    assert_eq!(rows(constraints), [["t_b_key", "u"], ["t_d_key", "u"], ["t_pkey", "p"]]);
    let tables = "SELECT constraint_name FROM information_schema.table_constraints
        WHERE constraint_type = 'UNIQUE' ORDER BY 1";
    assert_eq!(rows(tables), [["t_b_key"], ["t_d_key"]]);
    let indexes = "SELECT relname, indisunique FROM pg_index JOIN pg_class c ON c.oid = indexrelid
        WHERE relname LIKE 't%' ORDER BY 1";
    let unique = ["t_b_key", "t_c_idx", "t_d_key", "t_pkey"].map(|name| [name, "t"]);
    assert_eq!(rows(indexes), unique);
}

#[test]
fn a_view_depends_on_what_it_reads_and_names_its_columns() {
    let server = Server::new(
        "CREATE TABLE t (a int PRIMARY KEY, b int);
         CREATE VIEW a_view (x, y) AS SELECT a, b + 1 FROM t;
         CREATE VIEW b_view (z) AS SELECT * FROM a_view",
    );
    let rows = |query: &str| server.ask(query, &[]).unwrap().rows;
    let reads = "SELECT r.ev_class::regclass::text, d.refobjid::regclass::text, d.deptype
        FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
        WHERE d.classid = 'pg_rewrite'::regclass ORDER BY 1, 2";
    assert_eq!(
        rows(reads),
        [
            ["a_view", "a_view", "i"],
            ["a_view", "t", "n"],
            ["b_view", "a_view", "n"],
            ["b_view", "b_view", "i"],
        ]
    );
    let text = |view: &str| rows(&format!("SELECT pg_get_viewdef('{view}'::regclass)"));
    assert_eq!(text("a_view"), [[" SELECT a AS \"x\", b + 1 AS \"y\" FROM t;"]]);
    assert_eq!(text("b_view"), [[" SELECT * FROM (SELECT * FROM a_view) AS b_view (z);"]]);
}

#[test]
fn types_without_values_are_refused_by_name() {
    let server = Server::new("CREATE TABLE t (a int)");
    let error = server.ask("SELECT '16/B374D848'::pg_lsn", &[]).unwrap_err();
    assert_eq!(error.code(), types::SqlState::FEATURE_NOT_SUPPORTED);
    assert_eq!(error.message(), "type pg_lsn is not supported");
    // Intervals have some.
    let longer = server.ask("SELECT '1 day'::interval > '23 hours'::interval", &[]).unwrap();
    assert_eq!(longer.rows, [["t"]]);
    let error = server.ask("SELECT CAST('nonsense' AS interval)", &[]).unwrap_err();
    assert_eq!(error.message(), "invalid input syntax for type interval: \"nonsense\"");
    assert_eq!(server.ask("SELECT NULL::interval", &[]).unwrap().rows, [[NULL]]);
}
