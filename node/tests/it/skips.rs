//! A block that no start survives, from outside: reads only, `tally skip`, what says so afterwards.

use std::path::Path;
use std::sync::Arc;

use engine::{Watchdog, WatchdogSettings};
use ledger::{Batch, Files, LogReader, RealFiles, Stream};
use rustix::process::Signal;
use tempfile::TempDir;
use types::Height;

use crate::{Node, json, path, run, tally};

/// A ledger of a table with a row and of these statements, as a node leaves it that never ran its
/// blocks.
async fn ordered_alone(data: &Path, statements: &[&str]) {
    let mut node = Node::start(data);
    let client = node.connect().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY)").await.unwrap();
    client.batch_execute("INSERT INTO t VALUES (1)").await.unwrap();
    for statement in statements {
        client.batch_execute(statement).await.unwrap();
    }
    assert_eq!(node.signal(Signal::TERM), Some(0));
    std::fs::remove_dir_all(data.join("results")).unwrap();
}

/// Leaves what a start, or a node, does that dies in the last block: once it is called.
fn died_in_last(data: &Path) -> Height {
    let files: Arc<dyn Files> = Arc::new(RealFiles::open(data).unwrap());
    let mut reader = LogReader::open(files.clone(), Stream::Orders).unwrap();
    let records = std::iter::from_fn(|| reader.next_record().unwrap());
    let last = Batch::of(&records.last().unwrap()).unwrap();
    let watchdog = Watchdog::open(files, WatchdogSettings::default()).unwrap();
    watchdog.begin(last.height(), last.hash()).died("it panicked: index out of bounds");
    last.height()
}

#[tokio::test]
async fn a_block_that_fails_twice_is_stopped_before_and_skipped() {
    let data = TempDir::new().unwrap();
    let data = data.path();
    let poison = ["SET tally.transaction_key = 'poison'", "INSERT INTO t VALUES (2)"];
    ordered_alone(data, &poison).await;

    let height = died_in_last(data);
    let skip = |height: Height, more: &[&str]| {
        let height = height.to_string();
        let reported =
            ["skip", &height, "--data", path(data), "--owner", "tally", "--reason", "a panic"];
        run(&[&["--output", "json"], &reported[..], more].concat())
    };
    let refused = skip(height, &["--yes"]);
    assert_eq!(refused.status.code(), Some(1), "one death is none");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("nothing to skip"));
    // It has executed every block.
    assert_eq!(died_in_last(data), height);
    assert_eq!(died_in_last(data), height);

    let mut node = Node::start(data);
    let client = node.connect().await;
    let rows = client.query("SELECT a FROM t", &[]).await.unwrap();
    assert_eq!(rows.len(), 1, "the state before the block");
    let error = client.batch_execute("INSERT INTO t VALUES (3)").await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.code().code(), "25006");
    assert!(error.detail().unwrap().contains(&format!("block {height} ")), "{error:?}");
    assert!(error.hint().unwrap().contains(&format!("tally skip {height}")), "{error:?}");
    let ready = node.fetch("/readyz");
    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("index out of bounds"), "{ready}");
    let metrics = node.fetch("/metrics");
    assert!(metrics.contains(&format!("tally_failing_block_height {height}.0")));
    assert!(metrics.contains("tally_read_only 1.0"));
    node.signal(Signal::TERM);

    let other = skip(height - 1, &["--yes"]);
    let reported = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(reported.contains(&format!("block {height} is the one")), "{reported}");
    let shown = skip(height, &[]);
    let reported = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert_eq!(shown.status.code(), Some(1));
    assert!(
        reported.contains("--yes") && reported.contains("INSERT INTO t VALUES ($1) with (2)"),
        "{reported}"
    );
    let done = skip(height, &["--yes"]);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(json(&done)["by"], height + 1);

    let mut node = Node::start(data);
    let client = node.connect().await;
    let rows = client.query("SELECT * FROM tally_skips()", &[]).await.unwrap();
    assert_eq!(
        (rows[0].get::<_, i64>(0), rows[0].get::<_, i64>(1)),
        (height as i64, height as i64)
    );
    assert_eq!((rows[0].get::<_, &str>(2), rows[0].get::<_, &str>(3)), ("tally", "a panic"));
    let rows = client.query("SELECT * FROM tally_outcome('poison')", &[]).await.unwrap();
    assert_eq!((rows[0].get::<_, &str>(0), rows[0].get::<_, &str>(1)), ("rejected", "XXT01"));
    client.batch_execute("INSERT INTO t VALUES (3)").await.unwrap();
    let rows = client.query("SELECT a FROM t ORDER BY a", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), [1, 3]);
    assert_eq!(node.signal(Signal::TERM), Some(0));

    let verified = run(&["--output", "json", "verify", path(data)]);
    assert_eq!(verified.status.code(), Some(0));
    let skips = json(&verified)["skips"].clone();
    assert_eq!((&skips[0]["first"], &skips[0]["owner"]), (&height.into(), &"tally".into()));
    let text = run(&["verify", path(data)]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains(&format!("skipped       blocks {height} to {height} by tally")),
        "{text}"
    );
    // By a checkpoint, too.
    let checkpoint = run(&["checkpoint", "--data", path(data)]);
    assert_eq!(checkpoint.status.code(), Some(0));
    let node = Node::start(data);
    let client = node.connect().await;
    assert_eq!(client.query("SELECT * FROM tally_skips()", &[]).await.unwrap().len(), 1);
}

/// An abort, as for want of memory or of stack, says nothing before it.
#[tokio::test]
async fn a_block_that_ends_two_starts_at_once_is_stopped_before() {
    let data = TempDir::new().unwrap();
    let data = data.path();
    let aborting = || {
        let mut command = tally(&[]);
        command.env("TEST_ABORTS_ON", "poison");
        command
    };
    let mut node = Node::start_with(aborting(), data, &[]);
    let client = node.connect().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b text)").await.unwrap();
    client.batch_execute("INSERT INTO t VALUES (1, 'good')").await.unwrap();
    assert!(client.batch_execute("INSERT INTO t VALUES (2, 'poison')").await.is_err());
    assert_eq!(node.child.wait().unwrap().code(), None, "it aborted");
    for start in 1..=2 {
        let mut node = Node::start_with(aborting(), data, &[]);
        assert_eq!(node.child.wait().unwrap().code(), None, "start {start} comes to the block");
    }
    let mut node = Node::start_with(aborting(), data, &[]);
    let client = node.connect().await;
    let rows = client.query("SELECT a FROM t", &[]).await.unwrap();
    assert_eq!(rows.len(), 1, "the state before the block");
    let error = client.batch_execute("INSERT INTO t VALUES (3, 'good')").await.unwrap_err();
    let detail = error.as_db_error().unwrap().detail().unwrap().to_owned();
    assert!(detail.contains("2 attempts died") && detail.contains("poison"), "{detail}");
    assert_eq!(node.signal(Signal::TERM), Some(1), "it had to stop writing");

    // A program that can run it has nothing to fear.
    let mut node = Node::start(data);
    let client = node.connect().await;
    assert!(client.batch_execute("INSERT INTO t VALUES (3, 'good')").await.is_err());
    node.signal(Signal::TERM);
    std::fs::remove_dir_all(data.join("deaths")).unwrap();
    let mut node = Node::start(data);
    let client = node.connect().await;
    let rows = client.query("SELECT a FROM t", &[]).await.unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(node.signal(Signal::TERM), Some(0));
    assert!(std::fs::read_dir(data.join("deaths")).map_or(true, |left| left.count() == 0));
    let verified = run(&["--output", "json", "verify", path(data)]);
    assert_eq!(verified.status.code(), Some(0));
}

/// What was asked for is a block, or a time, between a skipped block and the one that skips it.
#[tokio::test]
async fn a_restore_does_not_end_within_what_is_skipped() {
    let data = TempDir::new().unwrap();
    let data = data.path();
    ordered_alone(data, &["INSERT INTO t VALUES (2)"]).await;
    let height = died_in_last(data);
    died_in_last(data);
    let reported = height.to_string();
    let skip = ["skip", &reported, "--data", path(data), "--owner", "tally", "--reason", "a panic"];
    assert_eq!(run(&[&skip[..], &["--yes"]].concat()).status.code(), Some(0));
    let mut node = Node::start(data);
    let client = node.connect().await;
    client.batch_execute("INSERT INTO t VALUES (4)").await.unwrap();
    assert_eq!(node.signal(Signal::TERM), Some(0));

    let backup = TempDir::new().unwrap();
    let taken = run(&["backup", "--data", path(data), "--to", path(backup.path())]);
    assert_eq!(taken.status.code(), Some(0), "{}", String::from_utf8_lossy(&taken.stderr));
    let time_us = {
        let files: Arc<dyn Files> = Arc::new(RealFiles::open(data).unwrap());
        let block = ledger::read_block(&*files, height).unwrap().unwrap();
        Batch::of(&block.batch).unwrap().header().time_us
    };
    let time = types::Value::Timestamptz(time_us).to_text(&types::DataType::Timestamptz(None));
    for from in [data, backup.path()] {
        let restore = |until: [&str; 2]| {
            let to = TempDir::new().unwrap();
            let more = ["restore", "--from", path(from), "--data", path(to.path())];
            (run(&[&["--output", "json"], &more[..], &until].concat()), to)
        };
        let (refused, _) = restore(["--to-block", &reported]);
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{why}");
        assert!(why.contains(&format!("block {} or block {}", height - 1, height + 1)), "{why}");
        let by = (height + 1).to_string();
        let before = (height - 1).to_string();
        for (until, end) in [
            (["--to-time", time.as_str()], height - 1),
            (["--to-block", before.as_str()], height - 1),
            (["--to-block", by.as_str()], height + 1),
        ] {
            let (restored, to) = restore(until);
            let why = String::from_utf8_lossy(&restored.stderr).into_owned();
            assert_eq!(restored.status.code(), Some(0), "{until:?}: {why}");
            assert_eq!(json(&restored)["height"], end, "{until:?}");
            let verified = run(&["--output", "json", "verify", path(to.path())]);
            assert_eq!(verified.status.code(), Some(0));
            let skips = json(&verified)["skips"].as_array().map_or(0, Vec::len);
            assert_eq!(skips as u64, u64::from(end > height), "{until:?}");
        }
    }
}
