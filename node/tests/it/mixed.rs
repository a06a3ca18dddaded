//! System tables beside tables of users, from a client's side of the wire, against PostgreSQL's
//! answers (`sql/pgcatalog/tests/fixtures/mixed.*`); and what tools ask a session besides
//! (`sessions.*`).

use std::collections::BTreeMap;

use futures::StreamExt;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::Node;

const SCHEMA: &str = include_str!("../../../sql/pgcatalog/tests/fixtures/schema.sql");
const ROWS: &str = include_str!("../../../sql/pgcatalog/tests/fixtures/mixed.sql");
const QUERIES: &str = include_str!("../../../sql/pgcatalog/tests/fixtures/mixed.queries");
const ANSWERS: &str = include_str!("../../../sql/pgcatalog/tests/fixtures/mixed.answers");
const JOINS_ROWS: &str = include_str!("../../../sql/pgcatalog/tests/fixtures/mixed_joins.sql");
const JOINS_QUERIES: &str =
    include_str!("../../../sql/pgcatalog/tests/fixtures/mixed_joins.queries");
const JOINS_ANSWERS: &str =
    include_str!("../../../sql/pgcatalog/tests/fixtures/mixed_joins.answers");
const REFUSED_QUERIES: &str =
    include_str!("../../../sql/pgcatalog/tests/fixtures/mixed_refused.queries");
const REFUSED_ANSWERS: &str =
    include_str!("../../../sql/pgcatalog/tests/fixtures/mixed_refused.answers");
const SESSIONS_ROWS: &str = include_str!("../../../sql/pgcatalog/tests/fixtures/sessions.sql");
const SESSIONS_QUERIES: &str =
    include_str!("../../../sql/pgcatalog/tests/fixtures/sessions.queries");
const SESSIONS_ANSWERS: &str =
    include_str!("../../../sql/pgcatalog/tests/fixtures/sessions.answers");
const NULL: &str = "<null>";

fn on_a_node(test: impl AsyncFnOnce(&Node, Client)) {
    on_a_node_with(ROWS, test);
}

fn on_a_node_with(rows: &str, test: impl AsyncFnOnce(&Node, Client)) {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&folder.path().join("data"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = node.connect().await;
        client.batch_execute(SCHEMA).await.unwrap();
        client.batch_execute(rows).await.unwrap();
        test(&node, client).await;
    });
}

/// Blocks of a file by their titles.
fn blocks(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("\n-- ").skip(1).filter_map(|block| block.split_once('\n'))
}

/// A statement with its parameters, as SQL alone.
fn statement(block: &str) -> (Option<String>, String) {
    let (notes, lines): (Vec<&str>, Vec<&str>) =
        block.lines().partition(|line| line.starts_with("--$"));
    let text = lines.join("\n").trim().trim_end_matches(';').to_owned();
    if notes.is_empty() {
        return (None, text);
    }
    let values = notes.iter().filter_map(|note| note.split_once(" = "));
    let values: Vec<String> = values.map(|(_, value)| format!("'{value}'")).collect();
    (Some(format!("PREPARE q AS {text}")), format!("EXECUTE q({})", values.join(", ")))
}

/// What a client sees, as `psql --no-align` prints it.
async fn shown(client: &Client, text: &str) -> Result<String, tokio_postgres::Error> {
    let mut lines = Vec::new();
    for message in client.simple_query(text).await? {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                let names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
                lines.push(names.join("|"));
            }
            SimpleQueryMessage::Row(row) => {
                let values = (0..row.len()).map(|place| row.get(place).unwrap_or(NULL));
                lines.push(values.collect::<Vec<_>>().join("|"));
            }
            _ => {}
        }
    }
    Ok(lines.join("\n"))
}

/// Those of the queries that are not answered as PostgreSQL answers them.
/// What a node without analytics refuses by name.
const NEED_ANALYTICS: [&str; 1] = ["Metabase, by week"];

async fn wrong(node: &Node, queries: &str, answers: &str) -> Vec<String> {
    let expected: BTreeMap<&str, &str> = blocks(answers).collect();
    let mut wrong = Vec::new();
    for (title, block) in blocks(queries) {
        // No statement sees what an earlier one has set.
        let client = node.connect().await;
        let (prepare, text) = statement(block);
        if let Some(prepare) = &prepare {
            client.batch_execute(prepare).await.unwrap();
        }
        let is = shown(&client, &text).await.unwrap_or_else(|error| match error.code() {
            Some(code) => format!("ERROR:  {}", code.code()),
            None => format!("{error:?}"),
        });
        let mut both = [is, expected[title].trim_end().to_owned()].map(|answer| {
            answer.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>()
        });
        if !text.contains("ORDER BY") {
            both.iter_mut().for_each(|lines| lines.sort());
        }
        let is_refused = both[0] == ["ERROR:  0A000"] && NEED_ANALYTICS.contains(&title);
        if both[0] != both[1] && (cfg!(feature = "analytics") || !is_refused) {
            wrong.push(format!("{title}:\n{:#?}\nshould be\n{:#?}", both[0], both[1]));
        }
    }
    wrong
}

async fn router(client: &Client, text: &str) -> String {
    shown(client, &format!("EXPLAIN {text}")).await.unwrap()
}

#[test]
fn queries_over_both_are_answered_as_postgresql_does() {
    on_a_node(async |node, client| {
        let wrong = wrong(node, QUERIES, ANSWERS).await;
        assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
        let explained = router(&client, "SELECT relname FROM pg_class, customer").await;
        assert!(explained.contains("Router: system catalogs, because"), "{explained}");
        assert!(explained.contains("1 of users' tables, as of block"), "{explained}");
    });
}

#[test]
fn joins_rows_and_views_are_as_postgresql_has_them() {
    on_a_node_with(&format!("{ROWS}{JOINS_ROWS}"), async |node, _| {
        let wrong = wrong(node, JOINS_QUERIES, JOINS_ANSWERS).await;
        assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
    });
}

#[test]
fn what_postgresql_refuses_is_refused_with_its_code() {
    on_a_node_with(&format!("{ROWS}{JOINS_ROWS}"), async |node, _| {
        let wrong = wrong(node, REFUSED_QUERIES, REFUSED_ANSWERS).await;
        assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
    });
}

#[test]
fn a_set_operation_over_many_rows_ends_soon_or_when_it_has_to() {
    on_a_node(async |_, client| {
        let series = |from: u32| format!("SELECT generate_series({from}, {})", from + 300_000);
        let text = format!(
            "SELECT count(*) FROM ({} INTERSECT {} FROM pg_namespace WHERE nspname = 'public') x",
            series(1),
            series(200_000)
        );
        client.batch_execute("SET statement_timeout = '60s'").await.unwrap();
        assert_eq!(client.query_one(&text, &[]).await.unwrap().get::<_, i64>(0), 100_002);
        client.batch_execute("SET statement_timeout = '20ms'").await.unwrap();
        let error = client.simple_query(&text).await.unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some("57014"));
    });
}

#[test]
fn long_texts_that_a_query_makes_are_counted() {
    on_a_node(async |_, client| {
        let text = "SELECT repeat(a.name, 200000) FROM my_types a, pg_type t ORDER BY 1 LIMIT 1";
        let error = client.simple_query(text).await.unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some("54000"));
    });
}

#[test]
fn a_condition_follows_its_columns_to_other_names() {
    on_a_node(async |_, client| {
        let make = "CREATE TABLE marked (id int PRIMARY KEY, level int CHECK (level >= 0))";
        client.batch_execute(make).await.unwrap();
        let change = "ALTER TABLE marked RENAME COLUMN level TO \"Level of it\"";
        client.batch_execute(change).await.unwrap();
        let text = "SELECT pg_get_constraintdef(oid) FROM pg_constraint
            WHERE contype = 'c' AND conrelid = 'marked'::regclass";
        let row = client.query_one(text, &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), "CHECK ((\"Level of it\" >= 0))");
        client.batch_execute("ALTER TABLE marked RENAME \"Level of it\" TO l").await.unwrap();
        let row = client.query_one(text, &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), "CHECK ((l >= 0))");
    });
}

#[test]
fn a_condition_whose_text_cannot_be_read_again_keeps_it() {
    on_a_node(async |_, client| {
        client.batch_execute("CREATE TABLE signs (a int CHECK (- -a > 0))").await.unwrap();
        client.batch_execute("ALTER TABLE signs RENAME a TO b").await.unwrap();
        client.batch_execute("INSERT INTO signs (b) VALUES (1)").await.unwrap();
        let error = client.batch_execute("INSERT INTO signs (b) VALUES (-1)").await.unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some("23514"));
    });
}

#[test]
fn a_view_of_a_union_with_null_has_its_column() {
    on_a_node(async |_, client| {
        let view = "CREATE VIEW w6 AS SELECT id FROM my_types JOIN customer ON customer.name =
            my_types.name UNION ALL SELECT NULL";
        client.batch_execute(view).await.unwrap();
        let text = "SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute
            WHERE attrelid = 'w6'::regclass";
        let row = client.query_one(text, &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), "id bigint");
        let rows = client.query("SELECT id FROM w6, pg_namespace LIMIT 1", &[]).await.unwrap();
        assert_eq!(rows[0].get::<_, Option<i64>>(0), None);
    });
}

#[test]
fn parameters_of_a_union_take_the_other_sides_type() {
    on_a_node(async |_, client| {
        let text = "SELECT oid FROM pg_namespace WHERE nspname = 'public' UNION SELECT $1
            ORDER BY 1";
        let statement = client.prepare(text).await.unwrap();
        assert_eq!(statement.params(), [Type::OID]);
        let rows = client.query(&statement, &[&7u32]).await.unwrap();
        let numbers: Vec<u32> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(numbers, [7, 2200]);
    });
}

#[test]
fn the_schema_is_a_columns_or_variables_name_before_it_is_a_function() {
    on_a_node(async |_, client| {
        let make = "CREATE TABLE cc (current_schema text, id int);
            INSERT INTO cc VALUES ('mine', 1), ('public', 5);
            UPDATE cc SET id = 2 WHERE current_schema = 'mine';
            CREATE PROCEDURE raise_of(current_schema int) LANGUAGE plpgsql AS $$
            BEGIN
                UPDATE customer SET balance = balance + current_schema WHERE id = 2;
            END $$;
            CALL raise_of(7)";
        client.batch_execute(make).await.unwrap();
        for (text, answer) in [
            ("SELECT current_schema", "current_schema\npublic"),
            ("SELECT Current_Schema AS s FROM customer WHERE id = 1", "s\npublic"),
            ("SELECT current_schema, id FROM cc WHERE id = 2", "current_schema|id\nmine|2"),
            (
                "SELECT current_schema FROM cc, pg_namespace WHERE nspname = 'public' AND id = 2",
                "current_schema\nmine",
            ),
            ("SELECT nspname FROM pg_namespace WHERE nspname = current_schema", "nspname\npublic"),
            ("SELECT balance FROM customer WHERE id = 2", "balance\n7.00"),
        ] {
            assert_eq!(shown(&client, text).await.unwrap(), answer, "{text}");
        }
        for text in
            ["SELECT \"current_schema\" FROM customer", "SELECT \"current_schema\" FROM pg_class"]
        {
            let error = client.simple_query(text).await.unwrap_err();
            assert_eq!(error.code().map(|code| code.code()), Some("42703"), "{text}");
        }
    });
}

#[test]
fn locks_and_samples_are_refused() {
    on_a_node(async |_, client| {
        for text in [
            "SELECT id FROM customer, pg_namespace FOR UPDATE",
            "SELECT id INTO copied FROM customer, pg_namespace",
            "SELECT id FROM customer TABLESAMPLE BERNOULLI (0), pg_namespace",
            "SELECT id FROM customer TABLESAMPLE BERNOULLI (0)",
            "SELECT id FROM customer, pg_namespace FETCH FIRST ROW WITH TIES",
        ] {
            let error = client.simple_query(text).await.unwrap_err();
            assert_eq!(error.code().map(|code| code.code()), Some("0A000"), "{text}");
        }
    });
}

#[test]
fn what_tools_send_about_sessions_and_over_tables_is_answered_as_postgresql_does() {
    on_a_node_with(SESSIONS_ROWS, async |node, _| {
        let wrong = wrong(node, SESSIONS_QUERIES, SESSIONS_ANSWERS).await;
        assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
    });
}

#[cfg(feature = "analytics")]
#[test]
fn they_are_answered_alike_by_the_engine_over_columns() {
    on_a_node(async |node, client| {
        // A table counts by the places that its rows have had.
        for (table, columns) in [
            ("customer", "(id, name) SELECT n + 1000, 'filler'"),
            ("my_types", "(name) SELECT 'filler ' || n"),
            ("wanted", "(relation, attribute) SELECT 'filler', n::text"),
        ] {
            for first in [1, 10_001, 20_001] {
                let rows = format!("FROM generate_series({first}, {}) n", first + 9_999);
                let fill = format!("INSERT INTO {table} {columns} {rows}");
                client.batch_execute(&fill).await.unwrap();
            }
        }
        for fillers in ["customer WHERE id > 1000", "my_types WHERE name LIKE 'filler %'"] {
            client.batch_execute(&format!("DELETE FROM {fillers}")).await.unwrap();
        }
        client.batch_execute("DELETE FROM wanted WHERE relation = 'filler'").await.unwrap();
        let mut columnar = 0;
        for (_, block) in blocks(QUERIES).filter(|(_, block)| !block.contains("--$")) {
            let explained = router(&client, &statement(block).1).await;
            columnar += usize::from(explained.contains("Router: DataFusion, because"));
        }
        assert!(columnar >= 15, "{columnar}");
        let wrong = wrong(node, QUERIES, ANSWERS).await;
        assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
    });
}

#[test]
fn a_large_table_is_read_piece_by_piece() {
    on_a_node(async |_, client| {
        for first in (0..21).map(|part| part * 10_000 + 1) {
            let fill = format!(
                "INSERT INTO my_types (name) SELECT 'n' || n FROM generate_series({first}, {}) n",
                first + 9_999
            );
            client.batch_execute(&fill).await.unwrap();
        }
        // Only system catalogs know this function.
        let text = "SELECT count(*) FROM my_types, pg_class c
            WHERE c.relname = 'my_types' AND pg_table_is_visible(c.oid)";
        let count: i64 = client.query_one(text, &[]).await.unwrap().get(0);
        assert!(count > 210_000, "{count}");
        // Rows as values, which no other engine has.
        let text = "SELECT count(row(c.oid, 1)) FROM my_types, pg_class c
            WHERE c.relname = 'my_types'";
        let rows: i64 = client.query_one(text, &[]).await.unwrap().get(0);
        assert_eq!(rows, count);
    });
}

#[test]
fn columns_have_the_types_that_postgresql_gives_them() {
    on_a_node(async |_, client| {
        let text = "SELECT t.oid, t.typname, t.typtype, t.typlen, t.oid::regtype, x.n, x.note,
                t.typname || x.name, count(*) OVER ()
            FROM pg_type t JOIN my_types x ON x.name = t.typname
            WHERE x.n < $1 AND t.oid = $2 AND t.typname = $3";
        let statement = client.prepare(text).await.unwrap();
        assert_eq!(statement.params(), [Type::INT4, Type::OID, Type::NAME]);
        let types: Vec<Type> = statement.columns().iter().map(|c| c.type_().clone()).collect();
        let expected = [
            Type::OID,
            Type::NAME,
            Type::CHAR,
            Type::INT2,
            Type::REGTYPE,
            Type::INT4,
            Type::VARCHAR,
            Type::TEXT,
            Type::INT8,
        ];
        assert_eq!(types, expected);
        let rows = client.query(&statement, &[&100i32, &23u32, &"int4"]).await.unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].get::<_, u32>(0), 23);
        assert_eq!(rows[0].get::<_, &str>(1), "int4");
        assert_eq!(rows[0].get::<_, i32>(5), 7);
        assert_eq!(rows[0].get::<_, i64>(8), 1);
    });
}

#[test]
fn they_are_read_by_portals_by_copy_and_in_transactions_that_only_read() {
    on_a_node(async |_, mut client| {
        let text = "SELECT c.id, k.relname FROM customer c, pg_class k
            WHERE k.relname LIKE 'pg_a%' ORDER BY 1, 2";
        let all = client.query(text, &[]).await.unwrap();
        let transaction = client.build_transaction().read_only(true).start().await.unwrap();
        let portal = transaction.bind(text, &[]).await.unwrap();
        let mut fetched = Vec::new();
        loop {
            let rows = transaction.query_portal(&portal, 7).await.unwrap();
            fetched.extend(rows.iter().map(|row| row.get::<_, String>(1)));
            if rows.len() < 7 {
                break;
            }
        }
        let all: Vec<String> = all.iter().map(|row| row.get(1)).collect();
        assert_eq!(fetched, all);
        drop(portal);
        transaction.commit().await.unwrap();
        let copy = format!("COPY ({}) TO STDOUT", text.replace("pg_a%", "pg_am"));
        let rows = client.copy_out(&copy).await.unwrap();
        let rows: Vec<_> = rows.map(|bytes| bytes.unwrap().to_vec()).collect().await;
        assert_eq!(rows.concat(), b"1\tpg_am\n2\tpg_am\n3\tpg_am\n4\tpg_am\n");
    });
}

#[test]
fn rows_and_schema_are_those_of_one_moment() {
    on_a_node(async |node, client| {
        let text = "SELECT (SELECT count(*) FROM customer), count(*) FROM pg_attribute
            WHERE attrelid = 'customer'::regclass AND attnum > 0";
        let seen = async |client: &Client| {
            let row = client.query_one(text, &[]).await.unwrap();
            (row.get::<_, i64>(0), row.get::<_, i64>(1))
        };
        let other = node.connect().await;
        other.batch_execute("BEGIN READ ONLY").await.unwrap();
        assert_eq!(seen(&other).await, (4, 9));
        client.batch_execute("ALTER TABLE customer ADD COLUMN more int").await.unwrap();
        client.batch_execute("INSERT INTO customer (id, name) VALUES (9, 'new')").await.unwrap();
        assert_eq!(seen(&client).await, (5, 10));
        assert_eq!(seen(&other).await, (4, 9), "a transaction reads the block that it began on");
        other.batch_execute("COMMIT").await.unwrap();
        assert_eq!(seen(&other).await, (5, 10));
    });
}

#[test]
fn what_cannot_be_is_refused_with_words_that_help() {
    on_a_node(async |_, client| {
        let refused = async |text: &str| {
            let error = client.batch_execute(text).await.unwrap_err();
            let error = error.as_db_error().unwrap_or_else(|| panic!("{error:?}")).clone();
            (error.code().code().to_owned(), error.hint().unwrap_or_default().to_owned())
        };
        for text in [
            "INSERT INTO my_types SELECT typname, 1 FROM pg_type",
            "UPDATE my_types SET n = (SELECT count(*) FROM pg_class)",
            "DELETE FROM my_types WHERE name IN (SELECT typname FROM pg_catalog.pg_type)",
        ] {
            let (code, hint) = refused(text).await;
            assert_eq!(code, "0A000", "{text}");
            assert!(hint.contains("has to follow from the ledger alone"), "{text}: {hint}");
        }
        for (text, code) in [
            ("SELECT c.name, count(*) FROM customer c, pg_namespace", "42803"),
            ("SELECT nothing FROM customer, pg_class", "42703"),
            ("SELECT 1 FROM nothing, pg_class", "42P01"),
            ("SELECT 'nothing'::regclass FROM customer, pg_class", "42P01"),
        ] {
            assert_eq!(refused(text).await.0, code, "{text}");
        }
    });
}
