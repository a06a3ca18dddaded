//! Tables of layout column, from a client's side of the wire.

use rustix::process::Signal;

use super::*;

const RELOPTIONS: &str = "SELECT relname, array_to_string(reloptions, ', ') FROM pg_class
     WHERE relname IN ('laid_out', 'changed', 'plain') ORDER BY relname";

async fn options(node: &Node) -> Vec<(String, Option<String>)> {
    let rows = node.connect().await.query(RELOPTIONS, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn verified(data: &Path) -> Value {
    let verified = run(&["--output", "json", "verify", path(data)]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
    json(&verified)
}

#[test]
fn a_layout_is_part_of_the_schema_and_outlasts_restarts_checkpoints_and_backups() {
    let folder = tempfile::tempdir().unwrap();
    let (data, backup) = (folder.path().join("data"), folder.path().join("backup"));
    let (data, backup) = (data.as_path(), backup.as_path());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut node = Node::start(data);
    runtime.block_on(async {
        let client = node.connect().await;
        let create = "CREATE TABLE laid_out (id int PRIMARY KEY, v int) WITH (layout = column);
             CREATE TABLE changed (id int PRIMARY KEY) WITH (fillfactor = 70);
             CREATE TABLE plain (id int PRIMARY KEY) WITH (layout = column);
             INSERT INTO laid_out VALUES (1, 1), (2, 2);
             ALTER TABLE changed SET (layout = 'column');
             ALTER TABLE plain SET (layout = row);
             UPDATE laid_out SET v = 7 WHERE id = 1";
        for text in create.split(';') {
            client.batch_execute(text).await.unwrap();
        }
        let diagonal = "ALTER TABLE laid_out SET (layout = diagonal)";
        let refused = client.batch_execute(diagonal).await.unwrap_err();
        let refused = refused.as_db_error().unwrap();
        assert_eq!(refused.code().code(), "22023");
        assert!(refused.hint().unwrap().contains("\"column\""), "{refused:?}");
        for text in [
            "ALTER TABLE laid_out ADD COLUMN w bigint DEFAULT 5",
            "TRUNCATE changed",
            "ALTER TABLE laid_out ALTER COLUMN v SET NOT NULL",
        ] {
            client.batch_execute(text).await.unwrap();
        }
    });
    let column = || Some("layout=column".to_owned());
    let expected = [("changed", column()), ("laid_out", column()), ("plain", None)];
    let expected = expected.map(|(name, option)| (name.to_owned(), option)).to_vec();
    assert_eq!(runtime.block_on(options(&node)), expected);
    node.signal(Signal::KILL);

    let mut node = Node::start(data);
    assert_eq!(runtime.block_on(options(&node)), expected, "by replay");
    assert_eq!(node.signal(Signal::TERM), Some(0));
    assert!(run(&["checkpoint", "--data", path(data)]).status.success());
    let mut node = Node::start(data);
    assert_eq!(runtime.block_on(options(&node)), expected, "from a checkpoint");
    assert_eq!(node.signal(Signal::TERM), Some(0));
    assert_eq!(verified(data)["verdict"]["kind"], "sound");

    assert!(run(&["backup", "--data", path(data), "--to", path(backup)]).status.success());
    let restored = folder.path().join("restored");
    let restore = ["restore", "--from", path(backup), "--data", path(&restored)];
    let outcome = run(&restore);
    assert!(outcome.status.success(), "{outcome:?}");
    let node = Node::start(&restored);
    assert_eq!(runtime.block_on(options(&node)), expected, "from a backup");
    let sum = runtime.block_on(async {
        let client = node.connect().await;
        let row = client.query_one("SELECT sum(v)::bigint, sum(w)::bigint FROM laid_out", &[]);
        let row = row.await.unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    });
    assert_eq!(sum, (9, 10));
}

#[cfg(feature = "analytics")]
#[test]
fn columns_that_were_read_once_are_current_when_they_are_read_again() {
    use std::time::{Duration, Instant};

    const ROWS: i64 = 50_000;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let explain = async |node: &Node| {
        let client = node.connect().await;
        let rows = client.query("EXPLAIN ANALYZE SELECT sum(v) FROM t WHERE v > -1", &[]);
        let rows = rows.await.unwrap();
        rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n")
    };
    let kept = |node: &Node| {
        let page = node.fetch("/metrics");
        let line = page.lines().find_map(|line| line.strip_prefix("tally_image_kept_rows_total "));
        line.unwrap_or_else(|| panic!("no count of kept rows: {page}")).parse::<f64>().unwrap()
    };
    let mut node = Node::start(&data);
    runtime.block_on(async {
        let client = node.connect().await;
        let create = "CREATE TABLE t (id int PRIMARY KEY, v bigint) WITH (layout = column)";
        client.batch_execute(create).await.unwrap();
        let fill = format!("INSERT INTO t SELECT n, 1 FROM generate_series(1, {ROWS}) n");
        client.batch_execute(&fill).await.unwrap();
    });
    for round in 1..=2 {
        let mut expected = ROWS + 1_000 * (round - 1);
        let first = runtime.block_on(explain(&node));
        assert!(first.contains("layout=column"), "{first}");
        assert!(!first.contains("image_built_bytes=0"), "nothing was read yet: {first}");
        for update in 0..10 {
            runtime.block_on(async {
                let client = node.connect().await;
                let text = format!("UPDATE t SET v = v + 1 WHERE id % 500 = {update}");
                client.batch_execute(&text).await.unwrap();
                expected += 100;
                let sum = "SELECT sum(v)::bigint FROM t WHERE v > -1";
                assert_eq!(client.query_one(sum, &[]).await.unwrap().get::<_, i64>(0), expected);
            });
        }
        runtime.block_on(explain(&node));
        std::thread::sleep(Duration::from_millis(50));
        let before = kept(&node);
        runtime.block_on(async {
            let client = node.connect().await;
            client.batch_execute("UPDATE t SET v = v WHERE id <= 100").await.unwrap();
        });
        // No query comes, and yet the columns are brought to the last block.
        let began = Instant::now();
        while kept(&node) < before + 100.0 {
            assert!(began.elapsed() < Duration::from_secs(30), "{} kept", kept(&node) - before);
            std::thread::sleep(Duration::from_millis(5));
        }
        let current = runtime.block_on(explain(&node));
        assert!(current.contains("image_patched_rows=0"), "{current}");
        assert!(current.contains("image_patched_bytes=0"), "{current}");
        assert!(current.contains("image_built_bytes=0"), "{current}");
        assert_eq!(node.signal(Signal::TERM), Some(0));
        assert_eq!(verified(&data)["verdict"]["kind"], "sound");
        node = Node::start(&data);
    }
}
