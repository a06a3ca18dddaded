//! Writes that a cluster cannot decide, and what a node says of itself meanwhile.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio_postgres::{Client, NoTls};

use super::clusters::TestCluster;
use super::interrupts::{CANCELLED, TIMED_OUT};
use super::*;

/// How an insert ended: SQLSTATE, DETAIL and HINT, and after how long.
async fn refused(client: &Client, id: i32) -> (String, String, String, Duration) {
    let began = Instant::now();
    let text = format!("INSERT INTO notes VALUES ({id})");
    let error = client.batch_execute(&text).await.unwrap_err();
    let error = error.as_db_error().unwrap_or_else(|| panic!("{error:?}"));
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    (error.code().code().to_owned(), text(error.detail()), text(error.hint()), began.elapsed())
}

async fn fetch_until(node: &Node, path: &str, wanted: &str) {
    let began = Instant::now();
    let mut said = node.fetch(path);
    while !said.contains(wanted) {
        assert!(began.elapsed() < Duration::from_secs(20), "no {wanted:?} in {said}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        said = node.fetch(path);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_without_a_majority_end_and_the_node_says_that_it_cannot_write() {
    let mut cluster = TestCluster::start(3);
    cluster
        .connect(0)
        .await
        .batch_execute("CREATE TABLE notes (id int PRIMARY KEY)")
        .await
        .unwrap();
    cluster.settle();
    let leader = cluster.leader();
    let client = cluster.connect(leader).await;
    fetch_until(cluster.nodes[leader].as_ref().unwrap(), "/readyz", " 200 ").await;
    let others: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
    for node in &others {
        cluster.nodes[*node].take().unwrap().signal(Signal::KILL);
    }
    // The first of them are drafted, so they may be ordered when the others are back.
    client.batch_execute("SET tally.transaction_key = 'it''s one'").await.unwrap();
    client.batch_execute("SET statement_timeout = '400ms'").await.unwrap();
    let (code, detail, hint, took) = refused(&client, 1).await;
    assert_eq!(code, "08007", "{detail}");
    assert!(detail.contains("Its key is \"it's one\"") && detail.contains("timeout"), "{detail}");
    assert!(hint.contains("SELECT * FROM tally_outcome('it''s one')"), "{hint}");
    TIMED_OUT.hold(took - Duration::from_millis(400));
    client
        .batch_execute("SET statement_timeout = 0; SET tally.commit_timeout = '1s'")
        .await
        .unwrap();
    let (code, detail, hint, took) = refused(&client, 2).await;
    assert_eq!(code, "08007", "{detail}");
    assert!(detail.contains("It has no key") && hint.contains("Look for its effects"), "{detail}");
    TIMED_OUT.hold(took - Duration::from_millis(1000));
    client.batch_execute("SET tally.commit_timeout = 0").await.unwrap();
    let cancel = client.cancel_token();
    let canceled = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.cancel_query(NoTls).await
    });
    let (code, _, _, took) = refused(&client, 3).await;
    canceled.await.unwrap().unwrap();
    assert!(code == "08007" || code == "57014", "{code}");
    CANCELLED.hold(took - Duration::from_millis(300));
    // After two drafts all that comes waits, and can be taken back.
    client.batch_execute("SET tally.transaction_key = 'kept'").await.unwrap();
    client.batch_execute("SET statement_timeout = '400ms'").await.unwrap();
    let (code, ..) = refused(&client, 4).await;
    assert_eq!(code, "57014", "it is in no block");
    client
        .batch_execute("SET statement_timeout = 0; SET tally.commit_timeout = '1s'")
        .await
        .unwrap();
    let (code, detail, ..) = refused(&client, 5).await;
    assert_eq!(code, "55000", "{detail}");
    assert!(detail.contains("It is in no block."), "{detail}");

    let node = cluster.nodes[leader].as_ref().unwrap();
    fetch_until(node, "/readyz", " 503 ").await;
    assert!(node.fetch("/readyz").contains("nothing can be written, reads go on"));
    let page = node.fetch("/metrics");
    assert!(page.contains("tally_read_only 1.0"), "{page}");
    assert!(page.contains("tally_raft_leads") && page.contains("tally_raft_lag_blocks 0.0"));
    let began = dials(&page);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let dialled = dials(&node.fetch("/metrics")) - began;
    assert!((2..=40).contains(&dialled), "{dialled} dials in two seconds");
    let shown = run(&["cluster", "status", "--folder", path(&cluster.all())]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert_eq!(shown.matches("nothing listens").count(), 2, "{shown}");
    assert!(shown.contains("cut off") && !shown.contains("leader "), "{shown}");
    for node in others {
        cluster.nodes[node] = Some(Node::start(&cluster.data(node)));
    }
    let node = cluster.nodes[leader].as_ref().unwrap();
    fetch_until(node, "/readyz", " 200 ").await;
    assert!(node.fetch("/metrics").contains("tally_read_only 0.0"));
    client.batch_execute("SET tally.commit_timeout = '30s'").await.unwrap();
    let kept = client.batch_execute("INSERT INTO notes VALUES (6)").await;
    kept.unwrap();

    let rows = client.query("SELECT id FROM notes WHERE id IN (4, 5)", &[]).await.unwrap();
    assert!(rows.is_empty(), "what was taken back is in no block");
    let reported = client.query("SELECT * FROM tally_outcome('it''s one')", &[]).await.unwrap();
    let found = client.query("SELECT id FROM notes WHERE id = 1", &[]).await.unwrap();
    assert_eq!(reported.len(), found.len(), "the outcome is known by its key");
    cluster.settle();
}

fn dials(page: &str) -> u64 {
    let line = page.lines().find(|line| line.starts_with("tally_raft_dials_total"));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap()
}

/// A reader that has seen enough ends a command, and nothing panics.
#[test]
fn a_closed_pipe_ends_what_prints() {
    let folder = tempfile::tempdir().unwrap();
    let data = path(folder.path()).to_owned();
    drop(Node::start(folder.path()));
    for command in
        [&["config", "show"][..], &["verify", &data], &["config", "show", "--data", &data]]
    {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tally"))
            .args(command)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!said.contains("panicked"), "{command:?}: {said}");
        assert_eq!(ended.status.code(), Some(0), "{command:?}: {said}");
    }
}

#[test]
fn a_node_whose_log_has_no_reader_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (reader, log) = std::io::pipe().unwrap();
    drop(reader);
    let mut node = Node::start_logging(tally(&[]), folder.path(), &[], log);
    assert_eq!(node.ready["ready"], true);
    assert!(node.fetch("/readyz").contains(" 200 "));
    assert_eq!(node.signal(Signal::TERM), Some(0));
}
