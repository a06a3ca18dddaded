//! Log schemes and ways of replay as an operator meets them: settings, kills, damage.

use rustix::process::Signal;

use super::*;

fn ask(node: &Node, text: &str) -> String {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = node.connect().await;
        client.query_one(text, &[]).await.unwrap().get(0)
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

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, v int)";
const SUM: &str = "SELECT sum(v)::text FROM t";

fn set(settings: &[&str]) -> Vec<String> {
    settings.iter().flat_map(|setting| ["--set".to_owned(), (*setting).to_owned()]).collect()
}

fn start(data: &Path, settings: &[String]) -> Node {
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    Node::start_with(tally(&[]), data, &settings)
}

fn verifies(data: &Path) -> bool {
    run(&["--output", "json", "verify", path(data)]).status.success()
}

#[test]
fn rows_are_logged_in_several_folders_and_a_kill_or_damage_there_loses_nothing() {
    for scheme in ["logical", "physical"] {
        let folder = tempfile::tempdir().unwrap();
        let (data, other) = (folder.path().join("data"), folder.path().join("other"));
        let folders = format!("log_folders={}, {}", path(&data.join("rows")), path(&other));
        let settings = set(&[&format!("log_scheme={scheme}"), &folders]);
        let mut node = start(&data, &settings);
        assert_eq!(ask(&node, "SHOW log_scheme"), scheme);
        execute(&node, &[TABLE, "INSERT INTO t VALUES (1, 1), (2, 2)"]);
        execute(&node, &["UPDATE t SET v = v + 10", "DELETE FROM t WHERE id = 1"]);
        node.signal(Signal::KILL);
        let mut node = start(&data, &settings);
        assert_eq!(ask(&node, SUM), "12");
        execute(&node, &["UPDATE t SET v = v + 100"]);
        node.signal(Signal::KILL);

        let logs = || std::fs::read_dir(&other).unwrap().map(|entry| entry.unwrap().path());
        let logs: Vec<_> = logs().filter(|path| path.extension().is_some()).collect();
        assert_eq!(logs.len(), 2, "a file for each start: {logs:?}");
        for log in &logs {
            let mut bytes = std::fs::read(log).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            std::fs::write(log, bytes).unwrap();
        }
        let mut node = start(&data, &settings);
        assert_eq!(ask(&node, SUM), "112");
        assert_eq!(node.signal(Signal::TERM), Some(0));
        assert!(verifies(&data));
        let mut node = start(&data, &set(&["log_scheme=command"]));
        assert_eq!(ask(&node, SUM), "112", "the ledger is whole without row logs");
        assert_eq!(node.signal(Signal::TERM), Some(0));
    }
}

#[test]
fn pieces_and_one_after_another_replay_what_was_executed() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut node = start(&data, &set(&["protocol=calvin"]));
    execute(&node, &[TABLE, "INSERT INTO t VALUES (1, 1), (2, 2)"]);
    execute(&node, &["UPDATE t SET v = v + 10", "BEGIN; UPDATE t SET v = v * 2; COMMIT"]);
    node.signal(Signal::KILL);
    for replay in ["pacman", "serial", "protocol"] {
        let mut node = start(&data, &set(&[&format!("recovery_replay={replay}")]));
        assert_eq!(ask(&node, SUM), "46", "{replay}");
        node.signal(Signal::KILL);
    }
    assert!(verifies(&data));
}

#[test]
fn nothing_is_logged_until_a_checkpoint_or_a_clean_stop() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let settings = set(&["log_scheme=none"]);
    let mut node = start(&data, &settings);
    assert_eq!(ask(&node, "SHOW log_scheme"), "none");
    execute(&node, &[TABLE, "INSERT INTO t VALUES (1, 1)"]);
    assert_eq!(node.signal(Signal::TERM), Some(0));
    let mut node = start(&data, &settings);
    execute(&node, &["UPDATE t SET v = 2"]);
    assert_eq!(ask(&node, SUM), "2");
    node.signal(Signal::KILL);
    let mut node = start(&data, &settings);
    assert_eq!(ask(&node, SUM), "1", "what was not written is gone, and nothing else");
    assert_eq!(node.signal(Signal::TERM), Some(0));
    assert!(verifies(&data));
}
