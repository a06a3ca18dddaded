//! Digests that triggers compute, against this test's own reckoning from the rows.

use chainify::Database;
use chainify::database::Change;
use chainify::dialect::Dialect;
use chainify::stretches::Range;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestRunner};

use crate::random::{Model, Step, image, key_text, reported, row, steps, table};
use crate::servers::{Server, mariadb, postgres, traces};

/// Runs steps, each as a transaction; the model and the database come to the same.
async fn compare(server: &Server, steps: &[Step]) {
    let dialect = server.dialect();
    let url = server.database(table(dialect)).await;
    let mut database = Database::connect(&url).await.unwrap();
    let schema = database.inspect(&["things".to_owned()]).await.unwrap().schema;
    database.install(&schema, [7; 16]).await.unwrap();
    let mut model = Model::default();
    for (index, step) in (0..).zip(steps) {
        let sql = step.sql(dialect);
        let done = database.execute(1, index, std::slice::from_ref(&sql)).await.unwrap();
        assert_eq!(done.succeeded, model.step(step), "{sql}: {}", done.detail);
    }
    let entries = database.entries().await.unwrap();
    assert_eq!(reported(&entries), model.sorted());
    assert!(
        entries.iter().all(|entry| entry.place.as_ref().is_some_and(|it| it.starts_with("1:")))
    );
    let mut images = Vec::new();
    database
        .images(&schema.tables[0], &Range::default(), |key, hash| images.push((key, hash)))
        .await
        .unwrap();
    let mut expected: Vec<_> =
        model.rows.iter().map(|(key, row)| (key_text(key), image(key, row))).collect();
    expected.sort();
    assert_eq!(images, expected);
    assert!(database.finish(1, &entries).await.unwrap());
    assert_eq!((database.height().await.unwrap(), database.entries().await.unwrap()), (1, vec![]));
    database.uninstall().await.unwrap();
}

fn random(server: &'static Server) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config =
        Config { cases: 20, max_shrink_iters: 30, failure_persistence: None, ..Config::default() };
    let tested = TestRunner::new(config).run(&steps(), |steps| {
        runtime.block_on(compare(server, &steps));
        Ok(())
    });
    tested.unwrap();
}

#[test]
fn triggers_of_postgresql_compute_what_rows_come_to() {
    random(postgres());
}

#[test]
fn triggers_of_mariadb_compute_what_rows_come_to() {
    random(mariadb());
}

/// Many rows at once, in both systems: the same digest of all, which is this test's own.
/// `TALLY_CHAINIFY_ROWS` says how many.
#[tokio::test]
async fn both_systems_have_the_same_digest_of_many_rows() {
    let most = std::env::var("TALLY_CHAINIFY_ROWS").map_or(2000, |text| text.parse().unwrap());
    let mut runner = TestRunner::deterministic();
    let (mut rows, mut model) = (Vec::new(), Vec::new());
    for id in 0..most {
        let row = row().new_tree(&mut runner).unwrap().current();
        let key = (id, format!("p{}", id % 7));
        model.push((key_text(&key), image(&key, &row)));
        rows.push((key, row));
    }
    model.sort();
    let mut roots = Vec::new();
    for server in [postgres(), mariadb()] {
        let dialect = server.dialect();
        let url = server.database(table(dialect)).await;
        let mut database = Database::connect(&url).await.unwrap();
        let schema = database.inspect(&["things".to_owned()]).await.unwrap().schema;
        for some in rows.chunks(200) {
            let texts: Vec<String> = some.iter().map(|(key, row)| row.canonical(key)).collect();
            let inserted = dialect.insert(&schema.tables[0], &texts).unwrap();
            assert_eq!(database.run(&inserted).await.unwrap(), texts.len() as u64);
        }
        let mut images = Vec::with_capacity(model.len());
        database
            .images(&schema.tables[0], &Range::default(), |key, hash| images.push((key, hash)))
            .await
            .unwrap();
        let first = images.iter().zip(&model).position(|(there, here)| there != here);
        let row = |at: usize| rows.iter().find(|(key, _)| key_text(key) == model[at].0);
        assert_eq!(first.map(row), None, "{dialect:?}");
        assert_eq!(images.len(), model.len(), "{dialect:?}");
        roots.push(database.state_root(&schema).await.unwrap());
    }
    assert_eq!(roots[0], roots[1]);
}

#[tokio::test]
async fn uninstalling_leaves_no_trace() {
    for (server, dialect) in [(postgres(), Dialect::Postgres), (mariadb(), Dialect::MariaDb)] {
        let url = server.database(table(dialect)).await;
        let mut database = Database::connect(&url).await.unwrap();
        let before = traces(&mut database).await;
        let schema = database.inspect(&["things".to_owned()]).await.unwrap().schema;
        database.install(&schema, [7; 16]).await.unwrap();
        database.checkpoint(0, &schema, &Default::default()).await.unwrap();
        assert_ne!(traces(&mut database).await, before);
        let twice = database.install(&schema, [8; 16]).await.unwrap_err();
        assert!(twice.message().contains("chained already"), "{twice:?}");
        database.uninstall().await.unwrap();
        assert_eq!(traces(&mut database).await, before, "{dialect:?}");
        database.uninstall().await.unwrap();
        assert_eq!(database.ledger().await.unwrap(), None);
    }
}

fn reported_by(error: &types::Error) -> String {
    format!("{} {}", error.message(), error.fields().detail.as_deref().unwrap_or_default())
}

#[tokio::test]
async fn what_has_no_canonical_form_is_refused_by_name() {
    let postgres_columns = [
        ("c double precision", "floating point"),
        ("c numeric", "precision and a scale"),
        ("c numeric(70,2)", "precision and a scale"),
        ("c char(3)", "pad"),
        ("c timestamptz", "time zone"),
        ("c jsonb", "no canonical form"),
        ("c integer[]", "no canonical form"),
        ("c serial", "nextval"),
        ("c integer GENERATED ALWAYS AS IDENTITY", "numbered by the database"),
        ("c integer GENERATED ALWAYS AS (1) STORED", "generated"),
        ("c timestamp DEFAULT now()", "default now"),
        ("c text, PRIMARY KEY (id, c)", "no bounded length"),
        ("\"C\" integer", "\"C\""),
    ];
    let mariadb_columns = [
        ("c double", "floating point"),
        ("c int unsigned", "unsigned"),
        ("c char(3)", "pad"),
        ("c timestamp", "time zone"),
        ("c tinyint", "PostgreSQL has none"),
        ("c enum('a')", "no canonical form"),
        ("c json", "longtext"),
        ("c int DEFAULT (1 + uuid_short())", "default"),
        ("c varchar(5) CHARACTER SET latin1", "utf8mb4"),
        (
            "c varchar(5) CHARACTER SET utf8mb4 NOT NULL, PRIMARY KEY (id, c)",
            "differ in their bytes",
        ),
        ("c datetime DEFAULT CURRENT_TIMESTAMP", "default"),
    ];
    for (server, cases) in [(postgres(), &postgres_columns[..]), (mariadb(), &mariadb_columns)] {
        for (column, why) in cases {
            let key = if column.contains("PRIMARY KEY") { "NOT NULL" } else { "PRIMARY KEY" };
            let url = server.database(&format!("CREATE TABLE t (id bigint {key}, {column})")).await;
            let mut database = Database::connect(&url).await.unwrap();
            let inspected = database.inspect(&["t".to_owned()]).await;
            // JSON is LONGTEXT with a check in MariaDB, and text is text.
            if *why == "longtext" {
                assert!(inspected.is_ok(), "{inspected:?}");
                continue;
            }
            let error = inspected.expect_err(column);
            let reported = reported_by(&error);
            assert!(reported.contains(why), "{column}: {reported}");
        }
    }
}

#[tokio::test]
async fn tables_that_cannot_be_chained_are_refused_by_name() {
    let cases = [
        (postgres(), "CREATE TABLE t (id int)", "no primary key"),
        (postgres(), "CREATE UNLOGGED TABLE t (id int PRIMARY KEY)", "unlogged"),
        (postgres(), "CREATE VIEW t AS SELECT 1 AS id", "no ordinary table"),
        (
            postgres(),
            "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u () INHERITS (t)",
            "inherits",
        ),
        (
            postgres(),
            "CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t ENABLE ROW LEVEL SECURITY",
            "row-level",
        ),
        (
            postgres(),
            "CREATE TABLE u (id int PRIMARY KEY); CREATE TABLE t (id int PRIMARY KEY REFERENCES u)",
            "\"u\", which is not",
        ),
        (
            postgres(),
            "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int REFERENCES t)",
            "\"u\", which is not",
        ),
        (mariadb(), "CREATE TABLE t (id int)", "no primary key"),
        (mariadb(), "CREATE TABLE t (id int PRIMARY KEY) ENGINE = MyISAM", "InnoDB"),
        (
            mariadb(),
            "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2",
            "partitioned",
        ),
        (
            mariadb(),
            "CREATE TABLE t (id int PRIMARY KEY, up int, FOREIGN KEY (up) REFERENCES t (id) ON DELETE CASCADE)",
            "fires no triggers",
        ),
        (
            mariadb(),
            "CREATE TABLE t (id int PRIMARY KEY); CREATE TRIGGER mine BEFORE INSERT ON t FOR EACH ROW SET NEW.id = 1",
            "\"mine\"",
        ),
    ];
    for (server, tables, why) in cases {
        let url = server.database(tables).await;
        let mut database = Database::connect(&url).await.unwrap();
        let error = database.inspect(&["t".to_owned()]).await.expect_err(tables);
        let reported = reported_by(&error);
        assert!(reported.contains(why), "{tables}: {reported}");
        let error = database.inspect(&["none".to_owned()]).await.unwrap_err();
        assert!(error.message().contains("\"none\" does not exist"), "{error:?}");
    }
}

/// TRUNCATE, triggers that are turned off for a session, and another session's statements.
#[tokio::test]
async fn what_other_sessions_do_is_refused_or_told() {
    let url = postgres().database(table(Dialect::Postgres)).await;
    let mut database = Database::connect(&url).await.unwrap();
    let schema = database.inspect(&["things".to_owned()]).await.unwrap().schema;
    database.install(&schema, [7; 16]).await.unwrap();
    let mut other = Database::connect(&url).await.unwrap();
    let error = other.run("TRUNCATE things").await.unwrap_err();
    assert!(format!("{error:?}").contains("chained and cannot be truncated"), "{error:?}");
    other.run("SET session_replication_role = replica").await.unwrap();
    other.run("INSERT INTO things (id, part, small) VALUES (1, 'a', 2)").await.unwrap();
    let entries = database.entries().await.unwrap();
    let entry = &entries[0];
    assert_eq!((entries.len(), entry.kind, entry.place.as_deref()), (1, Change::Inserted, None));
    assert_eq!((&*entry.writer, &*entry.key), ("tally", "1:11:a"));
    let name = chainify::canonical::row_name(&schema.tables[0], &entry.key);
    assert_eq!(name, "things (id = 1, part = a)");
}
