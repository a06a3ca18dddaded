//! A member of a cluster whose folder was emptied, put back from a copy, or damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use tokio_postgres::Client;

use super::clusters::{TestCluster, free_ports, ids};
use super::joining::start;
use super::*;

const TABLE: &str = "CREATE TABLE notes (id bigint PRIMARY KEY)";
const ROWS: i64 = 50;

async fn insert(client: &Client, ids: std::ops::Range<i64>) {
    for id in ids {
        client.execute("INSERT INTO notes VALUES ($1)", &[&id]).await.unwrap();
    }
}

/// As `cp -a` does.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

/// Keys and settings stay.
fn empty(data: &Path) {
    for entry in std::fs::read_dir(data).unwrap() {
        let path = entry.unwrap().path();
        match path.file_name().unwrap().to_str().unwrap() {
            "cluster" | "tally.toml" => {}
            _ if path.is_dir() => std::fs::remove_dir_all(&path).unwrap(),
            _ => std::fs::remove_file(&path).unwrap(),
        }
    }
}

/// The leader comes first.
async fn three_with_the_table() -> (TestCluster, [usize; 3]) {
    let cluster = TestCluster::start(3);
    cluster.connect(0).await.batch_execute(TABLE).await.unwrap();
    cluster.settle();
    let leader = cluster.leader();
    (cluster, [leader, (leader + 1) % 3, (leader + 2) % 3])
}

/// Leader and one follower acknowledge, while the other one is frozen; then the leader dies, and
/// the follower forgets.
async fn two_that_lack_it_outvote_nothing(forget: impl Fn(&Path, &Path)) {
    let (mut cluster, [leader, loser, away]) = three_with_the_table().await;
    let old = cluster.all().join("old");
    cluster.nodes[loser].take().unwrap().signal(Signal::TERM);
    copy(&cluster.data(loser), &old);
    cluster.nodes[loser] = Some(Node::start(&cluster.data(loser)));
    cluster.settle();
    cluster.freeze(away, Signal::STOP);
    insert(&cluster.connect(leader).await, 0..ROWS).await;
    for node in [leader, loser] {
        cluster.nodes[node].take().unwrap().signal(Signal::KILL);
    }
    forget(&cluster.data(loser), &old);
    cluster.freeze(away, Signal::CONT);
    cluster.nodes[loser] = Some(Node::start(&cluster.data(loser)));
    let writer = cluster.connect_with(away, "-c tally.catch_up_timeout=0").await.unwrap();
    let written = tokio::spawn(async move {
        writer.execute("INSERT INTO notes VALUES (1000)", &[]).await.is_ok()
    });
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(!written.is_finished(), "two that lack the rows have ordered without them");
    let status = run(&["cluster", "status", "--folder", path(&cluster.all())]);
    assert_eq!(status.status.code(), Some(1));
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(said.contains(&format!("no answer yet from {}", leader + 1)), "{said}");
    cluster.nodes[leader] = Some(Node::start(&cluster.data(leader)));
    assert!(written.await.unwrap());
    cluster.settle();
    let expected: BTreeSet<i64> = (0..ROWS).chain([1000]).collect();
    for node in 0..3 {
        assert_eq!(ids(&cluster.connect(node).await).await, expected, "node {node}");
    }
    // It counts again.
    cluster.nodes[away].take().unwrap().signal(Signal::KILL);
    insert(&cluster.connect(loser).await, 2000..2010).await;
    cluster.nodes[away] = Some(Node::start(&cluster.data(away)));
    cluster.settle();
    cluster.stop();
    let heads = cluster.verify();
    assert!(heads.iter().all(|head| *head == heads[0]), "{heads:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_member_outvotes_nothing() {
    two_that_lack_it_outvote_nothing(|data, _| empty(data)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_copy_outvotes_nothing() {
    let put_back = |data: &Path, old: &Path| {
        std::fs::remove_dir_all(data).unwrap();
        std::fs::rename(old, data).unwrap();
    };
    two_that_lack_it_outvote_nothing(put_back).await;
}

/// The message leads to the command, and the command to a member that takes part again.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_member_takes_the_ledger_anew() {
    let mut cluster = TestCluster::start(3);
    let client = cluster.connect(0).await;
    client.batch_execute(TABLE).await.unwrap();
    insert(&client, 0..ROWS).await;
    cluster.settle();
    let data = cluster.data(2);
    let refused = run(&["cluster", "rejoin", "--data", path(&data)]);
    assert_eq!(refused.status.code(), Some(1), "its node runs");
    cluster.nodes[2].take().unwrap().signal(Signal::KILL);
    let orders = std::fs::read_dir(data.join("orders")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&orders).unwrap();
    bytes[1500] ^= 1;
    std::fs::write(&orders, bytes).unwrap();
    let refused = run(&["serve", "--data", path(&data), "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("tally cluster rejoin"), "{said}");
    assert!(!said.contains("from a copy"), "{said}");
    let aside = run(&["--output", "json", "cluster", "rejoin", "--data", path(&data)]);
    assert_eq!(aside.status.code(), Some(0), "{aside:?}");
    let aside = json(&aside)["set_aside"].as_str().unwrap().to_owned();
    assert!(Path::new(&aside).join("orders").is_dir());
    let client = cluster.connect(0).await;
    insert(&client, 100..110).await;
    cluster.nodes[2] = Some(Node::start(&data));
    cluster.settle();
    cluster.nodes[1].take().unwrap().signal(Signal::KILL);
    insert(&cluster.connect(2).await, 200..210).await;
    cluster.nodes[1] = Some(Node::start(&cluster.data(1)));
    cluster.settle();
    cluster.stop();
    let heads = cluster.verify();
    assert!(heads.iter().all(|head| *head == heads[0]), "{heads:?}");
}

/// All files of a folder, by their paths.
fn contents(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            contents(&path, found);
        } else if let Ok(bytes) = std::fs::read(&path) {
            found.insert(path, bytes);
        }
    }
}

/// As a file system that is set back to an earlier state: no file becomes another one.
fn set_back(folder: &Path, before: &BTreeMap<PathBuf, Vec<u8>>) {
    let mut now = BTreeMap::new();
    contents(folder, &mut now);
    now.keys().filter(|path| !before.contains_key(*path)).for_each(|path| {
        std::fs::remove_file(path).unwrap();
    });
    for (path, bytes) in before {
        std::fs::write(path, bytes).unwrap();
    }
}

/// What no member can see happens all the same: both ledgers are named, by block and hashes.
#[tokio::test(flavor = "multi_thread")]
async fn ledgers_that_have_parted_are_named() {
    let (mut cluster, [leader, loser, away]) = three_with_the_table().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    cluster.freeze(loser, Signal::STOP);
    let mut before = BTreeMap::new();
    contents(&cluster.data(loser), &mut before);
    cluster.freeze(loser, Signal::CONT);
    // One that was only frozen would find the others' votes in its sockets.
    cluster.nodes[away].take().unwrap().signal(Signal::KILL);
    insert(&cluster.connect(leader).await, 0..ROWS).await;
    // What it has no result of it would give up for the others'.
    tokio::time::sleep(Duration::from_secs(2)).await;
    for node in [leader, loser] {
        cluster.nodes[node].take().unwrap().signal(Signal::KILL);
    }
    set_back(&cluster.data(loser), &before);
    for node in [away, loser] {
        cluster.nodes[node] = Some(Node::start(&cluster.data(node)));
    }
    insert(&cluster.connect(away).await, 1000..1010).await;
    cluster.nodes[leader] = Some(Node::start(&cluster.data(leader)));
    let mut said = String::new();
    for _ in 0..100 {
        let status = run(&["cluster", "status", "--folder", path(&cluster.all())]);
        said = String::from_utf8_lossy(&status.stdout).into_owned();
        if said.matches("has forked").count() >= 4 {
            assert_eq!(status.status.code(), Some(1), "{said}");
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let named = |member: usize| {
        let line = format!("forked     member {}: the ledger has forked", member + 1);
        said.contains(&line) && said.contains(&format!("at member {}", member + 1))
    };
    assert!([leader, loser, away].into_iter().all(named), "{said}");
    assert!(!said.contains("of its term"), "{said}");
    let ready = cluster.nodes[leader].as_ref().unwrap().fetch("/readyz");
    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("has forked"), "{ready}");
    let ready = cluster.nodes[away].as_ref().unwrap().fetch("/readyz");
    assert!(ready.starts_with("HTTP/1.1 200") && ready.contains("has forked"), "{ready}");
    // Its owner decides which of them goes on.
    cluster.nodes[leader].take().unwrap().signal(Signal::KILL);
    let data = cluster.data(leader);
    // Each is sound for itself. A folder on which a node runs is not read.
    let member = (away + 1).to_string();
    let compared = run(&["--output", "json", "verify", path(&data), "--peer", &member]);
    assert_eq!(compared.status.code(), Some(1), "{compared:?}");
    let found = json(&compared);
    assert_eq!(found["verdict"]["kind"], "sound");
    let (here, there) = (&found["peer"]["fork"]["here"], &found["peer"]["fork"]["there"]);
    for hash in [here, there] {
        assert!(said.contains(hash.as_str().unwrap()), "{found:#} {said}");
    }
    assert_ne!(here, there);
    let text = run(&["verify", path(&data), "--peer", &member]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains(&format!("at member {member}")), "{text}");
    let aside = run(&["cluster", "rejoin", "--data", path(&data)]);
    assert_eq!(aside.status.code(), Some(0), "{aside:?}");
    cluster.nodes[leader] = Some(Node::start(&data));
    cluster.settle();
    assert_eq!(ids(&cluster.connect(leader).await).await, (1000..1010).collect());
}

async fn shown(client: &Client, name: &str) -> String {
    let rows = client.simple_query(&format!("SHOW {name}")).await.unwrap();
    let value = rows.iter().find_map(|row| match row {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    value.unwrap()
}

/// Until the ledger names so many members.
async fn members(client: &Client, count: usize) {
    for _ in 0..300 {
        if shown(client, "ledger.members").await.split(", ").count() == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the members are {}", shown(client, "ledger.members").await);
}

/// A cluster with rows, none of whose nodes runs.
async fn stopped_with_rows() -> TestCluster {
    let mut cluster = TestCluster::start(3);
    let client = cluster.connect(0).await;
    client.batch_execute(TABLE).await.unwrap();
    insert(&client, 0..ROWS).await;
    cluster.settle();
    cluster.stop();
    cluster
}

/// Two of three are gone for good: the third goes on, and others join it.
#[tokio::test(flavor = "multi_thread")]
async fn a_survivor_goes_on_alone_by_its_owners_word() {
    let mut cluster = stopped_with_rows().await;
    let (data, all) = (cluster.data(0), cluster.all());
    let recover = ["--output", "json", "cluster", "recover", "--data", path(&data)];
    let refused = run(&recover);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("would go on alone behind block"), "{said}");
    let recovered = run(&[&recover[..], &["--yes"]].concat());
    assert_eq!(recovered.status.code(), Some(0), "{recovered:?}");
    assert_eq!(json(&recovered)["removed"], serde_json::json!([2, 3]));
    cluster.nodes[0] = Some(start(&data));
    let client = cluster.connect(0).await;
    members(&client, 1).await;
    assert_eq!(ids(&client).await.len() as i64, ROWS);
    insert(&client, 100..110).await;
    // One of the others comes back: it is none of them any more.
    cluster.nodes[1] = Some(start(&cluster.data(1)));
    insert(&client, 110..120).await;
    cluster.nodes[1].take().unwrap().signal(Signal::KILL);
    let port = free_ports(3).to_string();
    let added = run(&["cluster", "add", "--folder", path(&all), "--port", &port]);
    assert_eq!(added.status.code(), Some(0), "{added:?}");
    cluster.nodes.push(Some(start(&cluster.data(3))));
    insert(&cluster.connect(3).await, 200..210).await;
    assert_eq!(ids(&client).await.len() as i64, ROWS + 30);
    // Again after a restart.
    for node in [0, 3] {
        cluster.nodes[node].take().unwrap().signal(Signal::KILL);
    }
    for node in [0, 3] {
        cluster.nodes[node] = Some(start(&cluster.data(node)));
    }
    insert(&cluster.connect(0).await, 300..310).await;
}

/// All folders are gone, and there is a backup.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_goes_on_as_a_new_cluster() {
    let cluster = stopped_with_rows().await;
    let (all, backup) = (cluster.all(), cluster.all().join("backup"));
    let taken = run(&["backup", "--data", path(&cluster.data(2)), "--to", path(&backup)]);
    assert_eq!(taken.status.code(), Some(0), "{taken:?}");
    for node in 0..3 {
        std::fs::remove_dir_all(cluster.data(node)).unwrap();
    }
    let data = all.join("node-4");
    let restored = run(&["restore", "--from", path(&backup), "--data", path(&data)]);
    assert_eq!(restored.status.code(), Some(0), "{restored:?}");
    let alone = run(&["serve", "--data", path(&data), "--listen", "127.0.0.1:0"]);
    let said = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(said.contains("tally cluster recover"), "{said}");
    let port = free_ports(3).to_string();
    let recover = ["cluster", "recover", "--data", path(&data), "--port", &port, "--yes"];
    let recovered = run(&recover);
    assert_eq!(recovered.status.code(), Some(0), "{recovered:?}");
    let mut node = start(&data);
    let client = node.connect().await;
    members(&client, 1).await;
    assert!(shown(&client, "ledger.members").await.starts_with("4 "));
    assert_eq!(ids(&client).await.len() as i64, ROWS);
    insert(&client, 100..110).await;
    assert_eq!(node.signal(Signal::TERM), Some(0));
    let verified = run(&["verify", path(&data)]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
}
