//! System catalogs, from a client's side of the wire.

use tokio_postgres::types::{FromSql, Oid, Type};

use crate::Node;

fn on_a_node(test: impl AsyncFnOnce(tokio_postgres::Client)) {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&folder.path().join("data"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async { test(node.connect().await).await });
}

#[test]
fn catalogs_have_the_types_that_drivers_decode_by() {
    on_a_node(async |client| {
        let query = "SELECT oid, typname, typtype, typlen FROM pg_catalog.pg_type WHERE oid = $1";
        let statement = client.prepare(query).await.unwrap();
        assert_eq!(statement.params(), [Type::OID]);
        let types: Vec<Type> = statement.columns().iter().map(|c| c.type_().clone()).collect();
        assert_eq!(types, [Type::OID, Type::NAME, Type::CHAR, Type::INT2]);
        let number: Oid = 20;
        let row = client.query_one(&statement, &[&number]).await.unwrap();
        assert_eq!(row.get::<_, Oid>(0), 20);
        assert_eq!(row.get::<_, &str>(1), "int8");
        assert_eq!(row.get::<_, i8>(2), b'b' as i8);
        assert_eq!(row.get::<_, i16>(3), 8);
        let by_name = client.prepare_typed("SELECT $1::regtype::oid", &[Type::TEXT]).await.unwrap();
        let row = client.query_one(&by_name, &[&"bigint"]).await.unwrap();
        assert_eq!(row.get::<_, Oid>(0), 20);
    });
}

#[test]
fn a_schema_change_shows_at_once_and_a_session_sees_itself() {
    on_a_node(async |client| {
        client.batch_execute("CREATE TABLE seen (a int PRIMARY KEY, b text)").await.unwrap();
        let query = "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
            WHERE attrelid = 'seen'::regclass AND attnum > 0 ORDER BY attnum";
        let rows = client.query(query, &[]).await.unwrap();
        let columns: Vec<(&str, &str)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(columns, [("a", "integer"), ("b", "text")]);
        client.batch_execute("ALTER TABLE seen ADD COLUMN c uuid").await.unwrap();
        assert_eq!(client.query(query, &[]).await.unwrap().len(), 3);
        let own = "SELECT usename, state FROM pg_stat_activity WHERE pid = pg_backend_pid()";
        let own = client.query_one(own, &[]).await.unwrap();
        assert_eq!((own.get(0), own.get(1)), ("tally", "active"));
    });
}

#[test]
fn catalogs_can_be_read_in_a_transaction_that_has_written() {
    on_a_node(async |mut client| {
        client.batch_execute("CREATE TABLE written (a int PRIMARY KEY)").await.unwrap();
        let transaction = client.transaction().await.unwrap();
        transaction.execute("INSERT INTO written VALUES (1)", &[]).await.unwrap();
        let query = "SELECT relkind FROM pg_class WHERE relname = 'written'";
        let row = transaction.query_one(query, &[]).await.unwrap();
        assert_eq!(row.get::<_, i8>(0), b'r' as i8);
        transaction.commit().await.unwrap();
    });
}

/// A value's bytes, whatever its type.
struct Raw(Vec<u8>);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Raw, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Raw(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

#[test]
fn objects_are_numbers_in_binary_and_names_in_text() {
    on_a_node(async |client| {
        let text = "SELECT 'pg_class'::regclass, ARRAY['int4'::regtype], indkey
            FROM pg_index RIGHT JOIN pg_class c ON indrelid = c.oid AND indisprimary
            WHERE relname = 'numbered'";
        client.batch_execute("CREATE TABLE numbered (a int, b int PRIMARY KEY)").await.unwrap();
        let row = client.query_one(text, &[]).await.unwrap();
        // pg_class is 1259, int4 23; vectors count from 0.
        assert_eq!(row.get::<_, Raw>(0).0, 1259u32.to_be_bytes());
        let array: [u32; 7] = [1, 0, 2206, 1, 1, 4, 23];
        assert_eq!(row.get::<_, Raw>(1).0, array.map(u32::to_be_bytes).concat());
        let vector: [u32; 6] = [1, 0, 21, 1, 0, 2];
        let vector = [vector.map(u32::to_be_bytes).concat(), vec![0, 2]].concat();
        assert_eq!(row.get::<_, Raw>(2).0, vector);
        let messages = client.simple_query(text).await.unwrap();
        let row = messages.into_iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let row = row.unwrap();
        assert_eq!([row.get(0), row.get(1)], [Some("pg_class"), Some("{integer}")]);
    });
}

fn code(error: &tokio_postgres::Error) -> &str {
    error.code().map_or("", |code| code.code())
}

#[test]
fn a_setting_that_changed_shows_where_the_same_text_asked_before() {
    on_a_node(async |client| {
        let query = "SELECT current_setting('application_name')
            FROM pg_database WHERE datname = current_database()";
        let statement = client.prepare(query).await.unwrap();
        for name in ["one", "another"] {
            client.batch_execute(&format!("SET application_name = '{name}'")).await.unwrap();
            let row = client.query_one(&statement, &[]).await.unwrap();
            assert_eq!(row.get::<_, &str>(0), name);
            let own = "SELECT application_name FROM pg_stat_activity";
            assert_eq!(client.query_one(own, &[]).await.unwrap().get::<_, &str>(0), name);
        }
    });
}

#[test]
fn sessions_see_what_others_do_and_of_other_users_no_more_than_that_they_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&folder.path().join("data"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (owner, sleeper, idler) =
            (node.connect().await, node.connect().await, node.connect().await);
        owner.batch_execute("CREATE TABLE t (a int PRIMARY KEY); CREATE USER eve").await.unwrap();
        idler.batch_execute("SET application_name = 'idler'; BEGIN").await.unwrap();
        idler.batch_execute("INSERT INTO t VALUES (1)").await.unwrap();
        let cancel = sleeper.cancel_token();
        let asleep =
            tokio::spawn(async move { sleeper.batch_execute("SELECT pg_sleep(60)").await });
        let sleeps = "SELECT state, query_start IS NOT NULL, xact_start IS NOT NULL,
            client_addr IS NOT NULL, datname FROM pg_stat_activity
            WHERE query = 'SELECT pg_sleep(60)'";
        let row = loop {
            if let Some(row) = owner.query_opt(sleeps, &[]).await.unwrap() {
                break row;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        };
        assert_eq!(row.get::<_, &str>(0), "active");
        assert!((1..4).all(|column| row.get::<_, bool>(column)), "{row:?}");
        assert_eq!(row.get::<_, &str>(4), "tally");
        let idles = "SELECT state, query, xact_start < state_change FROM pg_stat_activity
            WHERE application_name = 'idler'";
        let row = owner.query_one(idles, &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), "idle in transaction");
        assert_eq!(row.get::<_, &str>(1), "INSERT INTO t VALUES (1)");
        assert!(row.get::<_, bool>(2));
        idler.batch_execute("nonsense").await.unwrap_err();
        idler.batch_execute("SELECT 1").await.unwrap_err();
        let row = owner.query_one(idles, &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), "idle in transaction (aborted)");
        // Another user.
        owner.batch_execute("SET ROLE eve").await.unwrap();
        let hidden = "SELECT count(*), count(state), min(query), max(query) FROM pg_stat_activity
            WHERE pid <> pg_backend_pid()";
        let row = owner.query_one(hidden, &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (2, 0));
        assert_eq!(row.get::<_, &str>(2), "<insufficient privilege>");
        assert_eq!(row.get::<_, &str>(3), "<insufficient privilege>");
        owner.batch_execute("RESET ROLE").await.unwrap();
        cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
        asleep.await.unwrap().unwrap_err();
        drop(idler);
        loop {
            let row = owner.query_one("SELECT count(*) FROM pg_stat_activity", &[]).await.unwrap();
            if row.get::<_, i64>(0) == 1 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn a_product_of_catalogs_is_refused_before_it_fills_memory() {
    on_a_node(async |client| {
        let product = "SELECT * FROM pg_proc a, pg_proc b, pg_proc c";
        let error = client.query(product, &[]).await.unwrap_err();
        assert_eq!(code(&error), "54000", "{error:?}");
        let row = client.query_one("SELECT count(*) > 9 FROM pg_proc", &[]).await.unwrap();
        assert!(row.get::<_, bool>(0));
    });
}

#[cfg(feature = "analytics")]
#[test]
fn windows_over_no_table_are_left_to_whoever_knows_them() {
    on_a_node(async |client| {
        let query = "WITH v AS (VALUES (1), (2), (4))
            SELECT sum(column1) OVER (ORDER BY column1 ROWS 1 PRECEDING)::int8,
                count(*) FILTER (WHERE column1 > 1) OVER (),
                lag(column1) OVER (ORDER BY column1)
            FROM v ORDER BY column1";
        let rows = client.query(query, &[]).await.unwrap();
        let rows: Vec<(i64, i64, Option<i32>)> =
            rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
        assert_eq!(rows, [(1, 2, None), (3, 2, Some(1)), (6, 2, Some(2))]);
        // A name that is a function's as well.
        client.batch_execute("CREATE TABLE version (a int PRIMARY KEY)").await.unwrap();
        client.batch_execute("INSERT INTO version VALUES (7)").await.unwrap();
        let query = "SELECT a, rank() OVER (ORDER BY a) FROM version";
        let row = client.query_one(query, &[]).await.unwrap();
        assert_eq!((row.get::<_, i32>(0), row.get::<_, i64>(1)), (7, 1));
    });
}

#[test]
fn what_nests_too_deeply_is_refused_and_the_node_goes_on() {
    on_a_node(async |client| {
        let chain = |term: &str, between: &str, count| vec![term; count].join(between);
        let nested = |open: &str, inner: &str, close: &str, count: usize| {
            format!("{}{inner}{}", open.repeat(count), close.repeat(count))
        };
        for count in [90, 190, 400, 20_000] {
            let texts = [
                chain("1", "+", count),
                chain("true", " AND ", count),
                nested("(", "1", ")", count),
                nested("CASE WHEN true THEN ", "1", " END", count),
                nested("(SELECT ", "1", ")", count),
            ];
            for text in texts {
                for text in [format!("SELECT {text}"), format!("SELECT rank() OVER (), {text}")] {
                    let answer = client.simple_query(&text).await;
                    if let Err(error) = answer {
                        let known = ["54001", "54000", "42601", "0A000"].contains(&code(&error));
                        assert!(known, "{error:?} to {}", &text[..text.len().min(80)]);
                    } else {
                        assert!(count <= 400, "{}", &text[..80]);
                    }
                }
            }
        }
        // Each of these compares twice what is below it.
        let between = nested("(", "1", " BETWEEN 0 AND 2)::int", 14);
        let text = format!("SELECT rank() OVER (), {between}");
        let known = ["54001", "42601", "0A000", "42846"];
        if let Err(error) = client.simple_query(&text).await {
            assert!(known.contains(&code(&error)), "{error:?}");
        }
        client.simple_query("SELECT 1").await.unwrap();
    });
}
