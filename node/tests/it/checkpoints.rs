//! Checkpoints as an operator meets them.

use rustix::process::Signal;

use super::*;

fn sum(node: &Node) -> i64 {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = node.connect().await;
        client.query_one("SELECT sum(v)::bigint FROM t", &[]).await.unwrap().get(0)
    })
}

fn execute(node: &Node, statements: &[&str]) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = node.connect().await;
        for text in statements {
            client.batch_execute(text).await.unwrap();
        }
    });
}

fn ask_node(node: &Node, data: &Path) -> Value {
    let address = node.ready["http_listen"].as_str().unwrap();
    let arguments = ["--output", "json", "checkpoint", "--data", path(data)];
    let asked = run(&[&arguments[..], &["--http-listen", address]].concat());
    assert!(asked.status.success(), "{asked:?}");
    json(&asked)
}

fn verify(data: &Path, more: &[&str]) -> (Option<i32>, Value) {
    let verified = run(&[&["--output", "json", "verify", path(data)], more].concat());
    (verified.status.code(), json(&verified))
}

#[test]
fn a_checkpoint_is_taken_begun_with_verified_and_when_damaged_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut node = Node::start(&data);
    execute(&node, &["CREATE TABLE t (id int PRIMARY KEY, v int)"]);
    execute(&node, &["INSERT INTO t VALUES (1, 1), (2, 2)", "UPDATE t SET v = v + 10"]);
    let taken = ask_node(&node, &data);
    assert_eq!((taken["height"].as_u64(), taken["rows"].as_u64()), (Some(3), Some(2)));
    assert!(node.fetch("/metrics").contains("tally_checkpoint_height 3.0"));
    assert!(node.fetch("/checkpoint").contains("\"in_progress\":false"));
    execute(&node, &["UPDATE t SET v = v + 100 WHERE id = 2"]);
    node.signal(Signal::KILL);

    let mut node = Node::start(&data);
    assert_eq!(sum(&node), 123);
    assert!(node.fetch("/metrics").contains("tally_checkpoint_height 3.0"));
    assert_eq!(node.signal(Signal::TERM), Some(0));
    let (code, verified) = verify(&data, &[]);
    assert_eq!((code, &verified["checkpoints"][0]["holds"]), (Some(0), &Value::Bool(true)));
    assert_eq!(verified["blocks"], 5, "one names the checkpoint's digest");
    let (code, quick) = verify(&data, &["--from-checkpoint"]);
    assert_eq!((code, quick["from_checkpoint"].as_u64()), (Some(0), Some(3)));
    assert_eq!((quick["blocks"].as_u64(), &quick["height"]), (Some(2), &verified["height"]));

    let pack = data.join("checkpoints/00000000000000000003.pack");
    let mut bytes = std::fs::read(&pack).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&pack, bytes).unwrap();
    let (code, verified) = verify(&data, &[]);
    assert_eq!((code, &verified["checkpoints"][0]["holds"]), (Some(1), &Value::Bool(false)));
    assert_eq!(verified["verdict"]["kind"], "sound");
    let mut node = Node::start(&data);
    assert_eq!(sum(&node), 123, "from genesis");
    assert_eq!(node.signal(Signal::TERM), Some(0));

    let offline = run(&["--output", "json", "checkpoint", "--data", path(&data)]);
    assert!(offline.status.success(), "{offline:?}");
    assert_eq!(json(&offline)["height"], 5);
    let (code, verified) = verify(&data, &[]);
    assert_eq!((code, verified["checkpoints"].as_array().map(Vec::len)), (Some(0), Some(1)));
}

/// The versions of a block are memory; a start makes those again that it executes.
#[test]
fn a_pin_outlasts_a_restart_as_far_as_the_start_comes_by_its_block() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let node = Node::start(&data);
    let (before, young, old) = runtime.block_on(async {
        let client = node.connect().await;
        let create = "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 10)";
        client.batch_execute(create).await.unwrap();
        let old: i64 = client.query_one("SELECT tally_pin('old')", &[]).await.unwrap().get(0);
        client.batch_execute("UPDATE t SET v = 20").await.unwrap();
        ask_node(&node, &data);
        client.batch_execute("UPDATE t SET v = 30").await.unwrap();
        let young: i64 = client.query_one("SELECT tally_pin('young')", &[]).await.unwrap().get(0);
        client.batch_execute("ALTER TABLE t ADD COLUMN w int DEFAULT 5").await.unwrap();
        for v in 40..60 {
            client.batch_execute(&format!("UPDATE t SET v = {v}")).await.unwrap();
        }
        let as_of = format!("SELECT * FROM t AS OF BLOCK {young}");
        (client.query_one(&as_of, &[]).await.unwrap().get::<_, i32>(1), young, old)
    });
    assert_eq!(before, 30);
    drop(node);
    let node = Node::start(&data);
    runtime.block_on(async {
        let client = node.connect().await;
        let as_of = format!("SELECT * FROM t AS OF BLOCK {young}");
        let row = client.query_one(&as_of, &[]).await.unwrap();
        assert_eq!((row.len(), row.get::<_, i32>(1)), (2, 30), "under the schema of that block");
        let as_of = format!("SELECT * FROM t AS OF BLOCK {old}");
        let lost = client.query(&as_of, &[]).await.unwrap_err();
        let lost = lost.as_db_error().unwrap();
        assert_eq!(lost.code().code(), "72000");
        assert!(lost.hint().unwrap().contains(&format!("--to-block {old}")), "{lost:?}");
        let states = client.query("SELECT * FROM tally_pins()", &[]).await.unwrap();
        let states = states.iter().map(|row| (row.get("name"), row.get("state")));
        assert_eq!(states.collect::<Vec<(&str, &str)>>(), [("old", "lost"), ("young", "readable")]);
        for name in ["old", "young"] {
            client.execute(&format!("SELECT tally_unpin('{name}')"), &[]).await.unwrap();
        }
    });
    drop(node);
    let node = Node::start(&data);
    runtime.block_on(async {
        let client = node.connect().await;
        let left = client.query("SELECT * FROM tally_pins()", &[]).await.unwrap();
        assert!(left.is_empty(), "what was given up stays given up");
    });
}

#[test]
fn checkpoints_come_by_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let every = ["--set", "checkpoint_interval_blocks=5"];
    let mut node = Node::start_with(tally(&[]), &data, &every);
    execute(&node, &["CREATE TABLE t (id int PRIMARY KEY, v int)"]);
    execute(&node, &["INSERT INTO t VALUES (1, 1)"]);
    let began = std::time::Instant::now();
    while node.fetch("/metrics").contains("tally_checkpoint_height 0.0") {
        assert!(began.elapsed().as_secs() < 60);
        execute(&node, &["UPDATE t SET v = v + 1"]);
    }
    node.signal(Signal::KILL);
    let (code, verified) = verify(&data, &["--from-checkpoint"]);
    assert_eq!(code, Some(0), "{verified}");
    assert!(verified["from_checkpoint"].as_u64() >= Some(5));

    // As a crash leaves one between its file's making and its writing.
    let head = verified["height"].as_u64().unwrap();
    let manifest = |height: u64| data.join(format!("checkpoints/{height:020}.manifest"));
    std::fs::write(manifest(head), []).unwrap();
    for more in [&[][..], &["--from-checkpoint"]] {
        let (code, verified) = verify(&data, more);
        assert_eq!(code, Some(0), "{verified}");
        let last = verified["checkpoints"].as_array().unwrap().last().unwrap();
        let found = (&last["height"], &last["holds"], &last["unfinished"]);
        assert_eq!(found, (&head.into(), &Value::Bool(false), &Value::Bool(true)));
    }
    // The ledger says what this one's digest is.
    std::fs::write(manifest(5), []).unwrap();
    let (code, verified) = verify(&data, &[]);
    assert_eq!(code, Some(1), "{verified}");
}

#[test]
fn a_ledger_is_restored_as_it_was_at_a_block_and_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let (data, block, time) =
        (folder.path().join("data"), folder.path().join("block"), folder.path().join("time"));
    let mut node = Node::start(&data);
    execute(&node, &["CREATE TABLE t (id int PRIMARY KEY, v int)"]);
    execute(&node, &["INSERT INTO t VALUES (1, 1)", "UPDATE t SET v = 2", "UPDATE t SET v = 3"]);
    assert_eq!(node.signal(Signal::TERM), Some(0));
    let restore = |to: &Path, until: &[&str]| {
        run(&[&["--output", "json", "restore", "--from", path(&data), "--data", path(to)], until]
            .concat())
    };
    let restored = restore(&block, &["--to-block", "3"]);
    assert!(restored.status.success(), "{restored:?}");
    assert_eq!(json(&restored)["height"], 3);
    let (code, verified) = verify(&block, &[]);
    assert_eq!((code, &verified["head"]), (Some(0), &json(&restored)["head"]));
    assert_eq!(verified["checkpoints"][0]["height"], 3);
    let node = Node::start(&block);
    assert_eq!(sum(&node), 2);
    drop(node);
    assert!(!restore(&block, &[]).status.success(), "the folder is not empty");
    assert!(!restore(&folder.path().join("x"), &["--to-block", "9"]).status.success());
    assert!(!restore(&folder.path().join("y"), &["--to-time", "2001-01-01"]).status.success());
    let restored = restore(&time, &["--to-time", "2100-01-01 00:00:00+00"]);
    assert!(restored.status.success(), "{restored:?}");
    let node = Node::start(&time);
    assert_eq!(sum(&node), 3);
}

/// Also where the next block reads snapshots before the newest, and without traffic.
#[test]
fn a_checkpoint_is_taken_behind_any_block() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let lagging = ["--set", "protocol=fabric:lag=2"];
    let mut node = Node::start_with(tally(&[]), &data, &lagging);
    execute(&node, &["CREATE TABLE t (id int PRIMARY KEY, v int)"]);
    execute(&node, &["INSERT INTO t VALUES (1, 1)"]);
    ask_node(&node, &data);
    execute(&node, &["INSERT INTO t VALUES (2, 1)"]);
    assert_eq!(node.signal(Signal::TERM), Some(0));
    let asked = run(&["checkpoint", "--data", path(&data)]);
    assert!(asked.status.success(), "{asked:?}");
    let (code, verified) = verify(&data, &[]);
    assert_eq!(code, Some(0), "{verified}");
    assert_eq!(verified["checkpoints"].as_array().map(Vec::len), Some(2), "{verified}");
}

/// A session sees what it was told, before and after a start, and the ledger verifies.
#[test]
fn blocks_that_overlap_run_a_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for protocol in ["harmony:inter_block=on", "quecc:planning=pipelined"] {
        let mut node = Node::start(&data);
        let set = format!("SET ledger.protocol = '{protocol}'");
        let create = "CREATE TABLE IF NOT EXISTS t (id int PRIMARY KEY, v int)";
        execute(&node, &[&set, create, "DELETE FROM t", "INSERT INTO t VALUES (1, 0)"]);
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let client = node.connect().await;
            for expected in 1..50 {
                client.execute("UPDATE t SET v = v + 1", &[]).await.unwrap();
                let row = client.query_one("SELECT v FROM t", &[]).await.unwrap();
                assert_eq!(row.get::<_, i32>(0), expected, "{protocol}");
            }
        });
        assert_eq!(node.signal(Signal::TERM), Some(0));
    }
    let (code, verified) = verify(&data, &[]);
    assert_eq!(code, Some(0), "{verified}");
}

#[test]
fn a_folder_whose_segments_are_gone_is_damaged_and_not_new() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut node = Node::start(&data);
    execute(&node, &["CREATE TABLE t (id int PRIMARY KEY, v int)"]);
    ask_node(&node, &data);
    assert_eq!(node.signal(Signal::TERM), Some(0));
    std::fs::rename(data.join("orders"), data.join("elsewhere")).unwrap();
    let refused = |why: &str| {
        let nowhere = ["--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"];
        let started = run(&[&["serve", "--data", path(&data)], &nowhere[..]].concat());
        let reported = String::from_utf8_lossy(&started.stderr).into_owned();
        assert!(!started.status.success() && reported.contains(why), "{reported}");
    };
    refused("there are results, and no orders");
    std::fs::rename(data.join("results"), data.join("results elsewhere")).unwrap();
    refused("the ledger ends here");
    assert!(!data.join("orders").exists());
    let (code, verified) = verify(&data, &["--from-checkpoint"]);
    assert_eq!((code, &verified["verdict"]["kind"]), (Some(4), &Value::from("damaged")));
    std::fs::rename(data.join("elsewhere"), data.join("orders")).unwrap();
    std::fs::rename(data.join("results elsewhere"), data.join("results")).unwrap();
    let mut node = Node::start(&data);
    assert_eq!(node.signal(Signal::TERM), Some(0));
}
