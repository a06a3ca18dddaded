//! What operators are told by commands, where a wrong word sends them the wrong way.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::clusters::{TestCluster, free_ports};
use super::*;

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// The line of a member in `tally cluster status`.
fn reported_by(cluster: &TestCluster, node: usize) -> String {
    let shown = run(&["cluster", "status", "--folder", path(&cluster.all())]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let line = shown.lines().find(|line| line.starts_with(&format!("{} ", node + 1)));
    line.unwrap_or_else(|| panic!("{shown}")).to_owned()
}

/// What is told of a member whose second port says that it starts, as it does while the ledger is
/// read, which takes no time here.
fn as_of_starting(cluster: &TestCluster, node: usize) -> String {
    let settings = std::fs::read_to_string(cluster.data(node).join("tally.toml")).unwrap();
    let settings: toml::Table = settings.parse().unwrap();
    let listener = std::net::TcpListener::bind(settings["http_listen"].as_str().unwrap()).unwrap();
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = [0; 1024];
        let _ = stream.read(&mut asked).unwrap();
        let answer = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\nstarting\n";
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let told = reported_by(cluster, node);
    answers.join().unwrap();
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn status_tells_a_dead_a_frozen_and_a_starting_member_apart() {
    let mut cluster = TestCluster::start(3);
    let client = cluster.connect(0).await;
    client.batch_execute("CREATE TABLE notes (id bigint PRIMARY KEY)").await.unwrap();
    for id in 0..20i64 {
        client.execute("INSERT INTO notes VALUES ($1)", &[&id]).await.unwrap();
    }
    cluster.settle();
    let height = cluster.status()["members"][0]["height"].as_u64().unwrap();
    assert!(height > 20);
    cluster.nodes[1].take().unwrap().signal(Signal::KILL);
    let frozen = cluster.nodes[2].as_ref().unwrap();
    send(&frozen.child, Signal::STOP);
    let (dead, away) = (reported_by(&cluster, 1), reported_by(&cluster, 2));
    send(&frozen.child, Signal::CONT);
    assert!(dead.contains("down: nothing listens"), "{dead}");
    let starting = as_of_starting(&cluster, 1);
    assert!(starting.contains("starting: it reads its ledger"), "{starting}");
    assert!(away.contains("unreachable") && away.contains("frozen, or cut off"), "{away}");

    // Alone it cannot become ready: it has what it had, and waits for the others to confirm what it
    // has not executed.
    cluster.stop();
    let mut alone = tally(&["serve", "--data", path(&cluster.data(1)), "--listen", "127.0.0.1:0"])
        .args(["--http-listen", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut heights = BTreeSet::new();
    while heights.is_empty() || Instant::now() + Duration::from_secs(28) < deadline {
        assert!(Instant::now() < deadline, "it tells nothing");
        let status = cluster.status();
        let (reported, standing) = (&status["members"][1], &status["members"][1]["standing"]);
        let entries = |name: &str| standing[name].as_u64().unwrap();
        let height = reported["height"].as_u64();
        heights.extend(height.map(|height| height + entries("entries") - entries("committed")));
    }
    send(&alone, Signal::KILL);
    alone.wait().unwrap();
    assert!(heights.iter().all(|reported| *reported + 1 >= height), "{heights:?} of {height}");
}

#[test]
fn each_line_of_cluster_up_names_its_node() {
    let folder = tempfile::tempdir().unwrap();
    let (all, port) = (folder.path().join("all"), free_ports(9).to_string());
    let init = ["cluster", "init", "--folder", path(&all), "--nodes", "3", "--port", &port];
    assert_eq!(run(&init).status.code(), Some(0));
    let mut up = tally(&["cluster", "up", "--folder", path(&all)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = BTreeMap::new();
    let mut lines = BufReader::new(up.stdout.take().unwrap()).lines();
    while ready.len() < 3 {
        let line = lines.next().expect("three nodes").unwrap();
        let (name, rest) = line.split_once("  ").unwrap_or_else(|| panic!("no name: {line}"));
        ready.insert(name.to_owned(), rest.to_owned());
    }
    assert_eq!(ready.keys().collect::<Vec<_>>(), ["node-1", "node-2", "node-3"]);
    send(&up, Signal::TERM);
    // Until all of them have ended, so that what they say at last is passed on.
    assert!(lines.all(|line| line.unwrap().starts_with("node-")));
    let mut said = String::new();
    up.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(up.wait().unwrap().code(), Some(0), "{said}");
    let unnamed = said.lines().find(|line| !line.starts_with("node-"));
    assert_eq!(unnamed, None);
    assert!(said.contains("node-1  ") && said.contains("node-3  "), "{said}");
}

#[test]
fn a_restore_that_fails_leaves_the_folder_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (data, new) = (folder.path().join("data"), folder.path().join("new"));
    assert_eq!(Node::start(&data).signal(Signal::TERM), Some(0));
    let restore = |more: &[&str]| {
        let from = ["restore", "--from", path(&data), "--data", path(&new)];
        run(&[&from[..], more].concat())
    };
    let failing: [&[&str]; 3] = [
        &["--to-block", "1000000"],
        &["--to-time", "1999-01-01 00:00:00+00"],
        &["--to-time", "yesterday or so"],
    ];
    for to in failing {
        assert_eq!(restore(to).status.code(), Some(1), "{to:?}");
        assert!(!new.exists(), "{to:?}");
    }
    std::fs::create_dir(&new).unwrap();
    for to in failing {
        assert_eq!(restore(to).status.code(), Some(1), "{to:?}");
        assert_eq!(std::fs::read_dir(&new).unwrap().count(), 0, "{to:?}");
    }
    let whole = restore(&[]);
    assert_eq!(whole.status.code(), Some(0), "{whole:?}");
}

/// As `tally config show | head` does it.
#[test]
fn a_reader_that_has_seen_enough_ends_a_command_in_silence() {
    for arguments in [&["config", "show"][..], &["config", "show", "--output", "json"], &["help"]] {
        let mut child =
            tally(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Before it has begun to write, or while it does.
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let code = child.wait().unwrap().code();
        assert_eq!((code, &*said), (Some(0), ""), "{arguments:?}");
    }
}
