//! System tables beside users' tables, small and grown: the answers are PostgreSQL's, and the same.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::Node;

const TABLES: &str = r"
    CREATE TABLE measured
        (id int PRIMARY KEY, s smallint, x numeric, m numeric(12,2), f float8, name text);
    INSERT INTO measured VALUES (1, 2, 1.5, 1.50, 1.5, 'a'), (2, 0, 2, 2.00, '-0', 'b\'),
        (3, NULL, NULL, NULL, NULL, NULL), (4, 5, 1.25, 33.00, 0, 'a%c');
    CREATE TABLE other (id int PRIMARY KEY, s smallint);
    INSERT INTO other VALUES (1, 2), (2, NULL), (3, 4);";

/// Queries with PostgreSQL 15's answers, or the code of its error.
const QUERIES: &[(&str, &[&str])] = &[
    (
        "SELECT id, 100 / s FROM measured, pg_namespace
            WHERE nspname = 'public' AND s <> 0 AND 100 / s > 20 ORDER BY id",
        &["1|50"],
    ),
    (
        r"SELECT id FROM measured, pg_namespace WHERE nspname = 'public' AND name LIKE '%\'",
        &["22025"],
    ),
    (
        "SELECT sum(x), sum(m), avg(m), max(x) FROM measured, pg_namespace
            WHERE nspname = 'public'",
        &["4.75|36.50|12.1666666666666667|2"],
    ),
    (
        "SELECT coalesce(x, 1), coalesce(m, 1) FROM measured, pg_namespace
            WHERE nspname = 'public' ORDER BY id",
        &["1.5|1.50", "2|2.00", "1|1", "1.25|33.00"],
    ),
    (
        "SELECT 33 FROM pg_namespace WHERE nspname = 'public'
            UNION ALL SELECT x FROM measured WHERE id < 3 ORDER BY 1",
        &["1.5", "2", "33"],
    ),
    (
        "SELECT a.id, b.id FROM pg_namespace JOIN measured a ON nspname = 'public'
            LEFT JOIN other b ON a.s IN (SELECT c.s FROM other c WHERE c.id <> b.id)
            ORDER BY 1, 2",
        &["1|2", "1|3", "2|NULL", "3|NULL", "4|NULL"],
    ),
    (
        "SELECT count(*) FROM measured a, pg_namespace
            WHERE nspname = 'public' AND NOT (a.s IN (SELECT s FROM other) AND a.id > 0)",
        &["0"],
    ),
];

async fn answer(client: &Client, text: &str) -> Vec<String> {
    let messages = match client.simple_query(text).await {
        Ok(messages) => messages,
        Err(error) => return vec![error.code().map(|code| code.code().to_owned()).unwrap()],
    };
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            let values = (0..row.len()).map(|place| row.get(place).unwrap_or("NULL"));
            Some(values.collect::<Vec<_>>().join("|"))
        }
        _ => None,
    };
    messages.iter().filter_map(row).collect()
}

fn on_a_node(test: impl AsyncFnOnce(Client)) {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&folder.path().join("data"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async { test(node.connect().await).await });
}

#[test]
fn answers_do_not_depend_on_how_large_tables_are() {
    on_a_node(async |client| {
        client.batch_execute(TABLES).await.unwrap();
        for (text, expected) in QUERIES {
            assert_eq!(answer(&client, text).await, *expected, "small: {text}");
        }
        // A table counts by the places that its rows have had.
        for first in [1, 10_001, 20_001] {
            let rows =
                format!("SELECT n + 1000 FROM generate_series({first}, {}) n", first + 9_999);
            client.batch_execute(&format!("INSERT INTO measured (id) {rows}")).await.unwrap();
        }
        client.batch_execute("DELETE FROM measured WHERE id > 1000").await.unwrap();
        let (mut columnar, explain) =
            (0, async |text: &str| answer(&client, &format!("EXPLAIN {text}")).await.join("\n"));
        for (text, expected) in QUERIES {
            assert_eq!(answer(&client, text).await, *expected, "large: {text}");
            columnar += usize::from(explain(text).await.contains("DataFusion"));
        }
        assert!(!cfg!(feature = "analytics") || columnar >= 2, "{columnar}");
    });
}

#[test]
fn declared_types_of_system_tables_are_what_clients_send() {
    on_a_node(async |client| {
        let text = "SELECT typname::text FROM pg_type WHERE oid = $1";
        for declared in [Type::OID, Type::REGTYPE] {
            let statement =
                client.prepare_typed(text, std::slice::from_ref(&declared)).await.unwrap();
            assert_eq!(statement.params(), [declared]);
            let row = client.query_one(&statement, &[&Oid(23)]).await.unwrap();
            assert_eq!(row.get::<_, &str>(0), "int4");
        }
        let text = "SELECT oid FROM pg_type WHERE typname = $1";
        let statement = client.prepare_typed(text, &[Type::NAME]).await.unwrap();
        assert_eq!(statement.params(), [Type::NAME]);
        let row = client.query_one(&statement, &[&"text"]).await.unwrap();
        assert_eq!(row.get::<_, u32>(0), 25);
        let text = "SELECT count(*) FROM pg_type WHERE oid = ANY ($1)";
        let statement = client.prepare_typed(text, &[Type::OID_ARRAY]).await.unwrap();
        assert_eq!(statement.params(), [Type::OID_ARRAY]);
        let row = client.query_one(&statement, &[&vec![23u32, 25]]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), 2);
    });
}

/// The number of an object, of whichever kind.
#[derive(Debug)]
struct Oid(u32);

impl tokio_postgres::types::ToSql for Oid {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut tokio_postgres::types::private::BytesMut,
    ) -> Result<tokio_postgres::types::IsNull, Box<dyn std::error::Error + Sync + Send>> {
        self.0.to_sql(&Type::OID, out)
    }

    fn accepts(of: &Type) -> bool {
        [Type::OID, Type::REGTYPE].contains(of)
    }

    tokio_postgres::types::to_sql_checked!();
}
