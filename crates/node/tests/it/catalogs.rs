//! System catalogs, from a client's side of the wire.

use tokio_postgres::types::{Oid, Type};

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
