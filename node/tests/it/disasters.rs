//! What can befall a data folder: kills, full disks, missing and foreign files, no rights.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use tokio_postgres::error::DbError;
use tokio_postgres::{Client, Error};

use super::*;

async fn insert(client: &Client, id: i64, bytes: usize) -> Result<u64, Error> {
    let note = "x".repeat(bytes);
    let text = "INSERT INTO notes VALUES ($1, $2)";
    client.execute(text, &[&id, &note]).await
}

async fn create(client: &Client) {
    let text = "CREATE TABLE notes (id bigint PRIMARY KEY, note text)";
    client.batch_execute(text).await.unwrap();
}

async fn count(client: &Client) -> i64 {
    let row = client.query_one("SELECT count(*) FROM notes", &[]).await;
    row.unwrap().get(0)
}

/// A ledger of a few segments, left by a kill.
fn several_segments(data: &Path) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut node = Node::start(data);
    runtime.block_on(async {
        let client = node.connect().await;
        create(&client).await;
        for id in 0..30 {
            insert(&client, id, 10_000).await.unwrap();
        }
    });
    node.signal(Signal::KILL);
    assert!(segments(data).len() >= 4);
    assert_eq!(verify(data).status.code(), Some(0));
}

fn segments(data: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data.join("orders")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn verify(data: &Path) -> Output {
    run(&["--output", "json", "verify", path(data)])
}

fn serve(data: &Path) -> Output {
    let ports = ["--listen", "127.0.0.1:0", "--http-listen", ""];
    run(&[&["serve", "--data", path(data)], &ports[..]].concat())
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The program under a limit to the size of files; a write beyond it fails as on a full disk.
fn with_files_up_to(bytes: u64) -> Command {
    let mut command = Command::new("sh");
    // The shell counts in blocks of 512 bytes. Without the trap, the signal would end the node.
    let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", bytes / 512);
    command.args(["-c", &script, env!("CARGO_BIN_EXE_tally")]);
    command.stdin(Stdio::null());
    command
}

#[test]
fn a_full_disk_stops_the_node_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // The first mebibyte of zeros does not fit; with more room the node begins after all.
    let mut node = Node::start_with(with_files_up_to(40 << 10), folder.path(), &[]);
    assert_eq!(node.ready, Value::Null);
    node = Node::start_with(with_files_up_to(1_500 << 10), folder.path(), &[]);
    let mut acknowledged = 0;
    let said: DbError = runtime.block_on(async {
        let client = node.connect().await;
        create(&client).await;
        let failed = loop {
            match insert(&client, acknowledged, 65_000).await {
                Ok(_) => acknowledged += 1,
                Err(error) => break error,
            }
            assert!(acknowledged < 100, "the limit is never met");
        };
        // What comes later is in no block, and what was durable can still be read.
        let again = insert(&client, 1_000, 1).await.unwrap_err();
        let again = again.as_db_error().unwrap();
        assert_eq!(again.code().code(), "25006");
        assert!(again.detail().unwrap().contains("in no block"), "{again:?}");
        assert!(again.hint().unwrap().contains("Make room"), "{again:?}");
        assert_eq!(count(&client).await, acknowledged);
        failed.as_db_error().unwrap().clone()
    });
    assert_eq!(said.code().code(), "53100", "{said}");
    assert_eq!(said.message(), "the ledger cannot be written");
    assert!(said.detail().unwrap().contains(".tally"), "{said:?}");
    assert!(said.hint().unwrap().contains("restart"), "{said:?}");
    let probed = node.fetch("/readyz");
    assert!(probed.contains(" 503 ") && probed.contains("reads only: 53100"), "{probed}");
    assert!(node.fetch("/metrics").contains("tally_read_only 1.0"));
    assert!(node.fetch("/livez").contains(" 200 "));
    assert_eq!(node.signal(Signal::TERM), Some(1), "not a clean stop");

    // The write may have left a part of itself.
    assert!(matches!(verify(folder.path()).status.code(), Some(0 | 3)));
    node = Node::start(folder.path());
    runtime.block_on(async {
        let client = node.connect().await;
        let found = count(&client).await;
        assert!((acknowledged..=acknowledged + 1).contains(&found), "{found}");
        insert(&client, 1_000, 1).await.unwrap();
    });
    assert_eq!(node.signal(Signal::TERM), Some(0));
    assert_eq!(verify(folder.path()).status.code(), Some(0));
}

#[test]
fn a_second_node_on_a_folder_is_told_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let _node = Node::start(folder.path());
    let second = serve(folder.path());
    assert_eq!(second.status.code(), Some(1));
    let said = complaint(&second);
    assert!(said.contains("the data folder is in use by another process"), "{said}");
}

/// Where `verify` must see it, and that a node must not start on it.
fn assert_damaged(data: &Path, file: &Path) {
    let found = verify(data);
    assert_eq!(found.status.code(), Some(4), "{}", complaint(&found));
    let detail = json(&found)["verdict"]["detail"].to_string();
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(detail.contains(name), "{detail}");
    let refused = serve(data);
    assert_eq!(refused.status.code(), Some(1));
    assert!(complaint(&refused).contains("restore the folder from a copy"));
    assert!(!data.join("quarantine").exists(), "nothing was changed");
}

#[test]
fn missing_foreign_and_strange_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (data, other) = (folder.path().join("data"), folder.path().join("other"));
    several_segments(&data);
    several_segments(&other);
    let (ours, theirs) = (segments(&data), segments(&other));
    let whole = std::fs::read(&ours[1]).unwrap();

    std::fs::remove_file(&ours[1]).unwrap();
    assert_damaged(&data, &ours[1]);
    std::fs::copy(&theirs[1], &ours[1]).unwrap();
    assert_damaged(&data, &ours[1]);
    std::fs::write(&ours[1], &whole[..whole.len() / 2]).unwrap();
    assert_damaged(&data, &ours[1]);
    std::fs::write(&ours[1], &whole).unwrap();

    // The one before says that it was there.
    let [.., before, newest] = &ours[..] else { panic!("several segments") };
    let bytes = std::fs::read(newest).unwrap();
    std::fs::remove_file(newest).unwrap();
    assert_damaged(&data, before);
    std::fs::write(newest, bytes).unwrap();

    let stranger = data.join("orders/notes.txt");
    std::fs::write(&stranger, "not a segment").unwrap();
    assert_damaged(&data, &stranger);
    std::fs::remove_file(&stranger).unwrap();

    let first = std::fs::read(&ours[0]).unwrap();
    std::fs::remove_file(&ours[0]).unwrap();
    assert_damaged(&data, &ours[0]);
    std::fs::write(&ours[0], first).unwrap();

    // The lock is the operating system's; its file only carries it.
    std::fs::remove_file(data.join("LOCK")).unwrap();
    assert_eq!(verify(&data).status.code(), Some(0));
}

#[test]
fn no_ledger_is_not_a_sound_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let absent = verify(&folder.path().join("absent"));
    assert_eq!(absent.status.code(), Some(1));
    let empty = verify(folder.path());
    assert_eq!(empty.status.code(), Some(1));
    let said = complaint(&empty);
    assert!(said.contains("holds no ledger"), "{said}");
}
