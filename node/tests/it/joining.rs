//! Members that come, go, and lack what the others have pruned.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio_postgres::Client;

use super::clusters::{TestCluster, free_ports};
use super::promises::Promise;
use super::*;

const UNDISTURBED: Promise =
    Promise::new("a write is answered while a member joins", Duration::from_millis(500));

const TABLE: &str = "CREATE TABLE notes (id bigint PRIMARY KEY, text text)";

/// On the ports that its own configuration names, where `tally cluster add` asks it.
pub fn start(data: &Path) -> Node {
    let segments = ["--set", "segment_bytes_max=65536", "--set", "block_bytes_max=65536"];
    let mut child = tally(&["--output", "json", "serve", "--data", path(data)])
        .args(segments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Node { child, ready: serde_json::from_str(&line).unwrap_or_default() }
}

impl TestCluster {
    /// The nodes of a new cluster, as they stand in their folders.
    pub fn as_configured(nodes: u16) -> TestCluster {
        TestCluster::as_configured_with(nodes, &[])
    }

    pub fn as_configured_with(nodes: u16, more: &[&str]) -> TestCluster {
        let mut cluster = TestCluster::start_with(nodes, more);
        for node in 0..usize::from(nodes) {
            cluster.nodes[node].take().unwrap().signal(Signal::TERM);
        }
        cluster.nodes = (0..nodes.into()).map(|node| Some(start(&cluster.data(node)))).collect();
        cluster
    }
}

async fn insert(client: &Client, ids: std::ops::Range<i64>) {
    for id in ids {
        let text = format!("INSERT INTO notes VALUES ({id}, repeat('x', 200))");
        client.batch_execute(&text).await.unwrap();
    }
}

async fn count(client: &Client) -> i64 {
    client.query_one("SELECT count(*) FROM notes", &[]).await.unwrap().get(0)
}

/// How long the slowest write took.
async fn load(client: Client, from: i64, ends: Arc<AtomicBool>) -> Duration {
    let mut slowest = Duration::ZERO;
    for id in from.. {
        if ends.load(Ordering::SeqCst) {
            break;
        }
        let began = Instant::now();
        insert(&client, id..id + 1).await;
        slowest = slowest.max(began.elapsed());
    }
    slowest
}

/// With a member of three down, the other two are needed, and none of them is removed unawares.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_without_which_nothing_is_ordered_is_not_removed() {
    let mut cluster = TestCluster::as_configured_with(3, &["--votes", "2"]);
    let client = cluster.connect(0).await;
    client.batch_execute(TABLE).await.unwrap();
    cluster.settle();
    cluster.nodes[2].take().unwrap().signal(Signal::KILL);
    insert(&client, 0..10).await;
    let all = cluster.all();
    let refused = run(&["cluster", "remove", "--folder", path(&all), "--member", "2"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("nothing is ordered any more: of the 2 that stay, 1 answer"), "{said}");
    // The one that is down may go.
    let removed = run(&["cluster", "remove", "--folder", path(&all), "--member", "3"]);
    assert_eq!(removed.status.code(), Some(0), "{removed:?}");
    insert(&client, 10..20).await;
    assert_eq!(count(&client).await, 20);
    cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_is_added_under_load_and_another_one_removed() {
    let mut cluster = TestCluster::as_configured(3);
    let client = cluster.connect(0).await;
    client.batch_execute(TABLE).await.unwrap();
    insert(&client, 0..200).await;
    let ends = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn(load(cluster.connect(1).await, 1_000_000, Arc::clone(&ends)));
    let all = cluster.all();
    let port = free_ports(3).to_string();
    let add = ["--output", "json", "cluster", "add", "--folder", path(&all), "--port", &port];
    let added = run(&add);
    assert_eq!(added.status.code(), Some(0), "{added:?}");
    assert_eq!(json(&added)["member"], 4);
    cluster.nodes.push(Some(start(&cluster.data(3))));
    let newcomer = cluster.connect(3).await;
    assert!(count(&newcomer).await >= 200);
    // Learner first, then voter: three of four are a majority only if it votes.
    let voting = || cluster.status()["members"].as_array().unwrap().len() == 4;
    assert!(voting(), "{:#}", cluster.status());
    insert(&newcomer, 200..210).await;
    ends.store(true, Ordering::SeqCst);
    let slowest = load.await.unwrap();
    UNDISTURBED.hold(slowest);
    cluster.settle();
    tokio::time::sleep(Duration::from_secs(1)).await;

    let leader = cluster.leader();
    cluster.nodes[leader].take().unwrap().signal(Signal::KILL);
    let other = if leader == 3 { 0 } else { 3 };
    insert(&cluster.connect(other).await, 300..310).await;
    cluster.nodes[leader] = Some(start(&cluster.data(leader)));
    cluster.settle();

    // The leader itself goes.
    let leader = cluster.leader();
    let id = (leader + 1).to_string();
    let remove = ["cluster", "remove", "--folder", path(&all), "--member", &id];
    // A founder too: the other three say who votes from now on.
    let removed = run(&remove);
    assert_eq!(removed.status.code(), Some(0), "{removed:?}");
    let shown = run(&["cluster", "status", "--folder", path(&all)]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(!shown.contains("nothing more will be certified"), "{shown}");
    let left: Vec<usize> = (0..4).filter(|node| *node != leader).collect();
    let client = cluster.connect(left[0]).await;
    insert(&client, 400..410).await;
    let refused = run(&remove);
    assert_eq!(refused.status.code(), Some(1), "it is no member any more");
    // The others do not answer it, not even what they are.
    let mut alone = None;
    for _ in 0..100 {
        let asked = run(&["cluster", "status", "--folder", path(&cluster.data(leader))]);
        alone = asked.status.code();
        if alone == Some(1) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(alone, Some(1));
    let ready = cluster.nodes[leader].as_ref().unwrap().fetch("/readyz");
    assert!(ready.contains(" 503 ") && ready.contains("it was removed"), "{ready}");
    cluster.nodes[leader].take().unwrap().signal(Signal::KILL);
    // Two of three.
    cluster.nodes[left[1]].take().unwrap().signal(Signal::KILL);
    insert(&cluster.connect(left[2]).await, 500..510).await;
    cluster.nodes[left[1]] = Some(start(&cluster.data(left[1])));
    let expected = count(&cluster.connect(left[0]).await).await;
    for node in left {
        assert_eq!(count(&cluster.connect(node).await).await, expected);
    }
    cluster.settle();

    // The others refuse the keys of the first folder from now on: the second one's will do.
    if leader != 0 {
        // Of three all have to say it.
        let remove = ["cluster", "remove", "--folder", path(&all), "--member", "1"];
        let refused = run(&remove);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("no result is certified any more"), "{said}");
        let removed = run(&[&remove[..], &["--yes"]].concat());
        assert_eq!(removed.status.code(), Some(0), "{removed:?}");
        cluster.nodes[0].take().unwrap().signal(Signal::KILL);
        cluster.settle();
        assert_eq!(cluster.status()["members"].as_array().unwrap().len(), 2);
    }
    cluster.stop();
    let heads: BTreeSet<String> = cluster.verify().into_iter().collect();
    assert!(heads.len() <= 3, "those that were removed have earlier ones: {heads:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_lacks_what_was_pruned_takes_the_ledger_anew() {
    let mut cluster = TestCluster::as_configured(3);
    let client = cluster.connect(0).await;
    client.batch_execute(TABLE).await.unwrap();
    insert(&client, 0..20).await;
    cluster.settle();
    let away = (cluster.leader() + 1) % 3;
    cluster.freeze(away, Signal::STOP);
    let mut frozen = cluster.nodes[away].take().unwrap();
    let rest: Vec<usize> = (0..3).filter(|node| *node != away).collect();
    let client = cluster.connect(rest[0]).await;
    insert(&client, 20..500).await;
    for node in &rest {
        let data = cluster.data(*node);
        let refused = run(&["prune", "--data", path(&data), "--to-block", "400"]);
        assert_eq!(refused.status.code(), Some(1), "it may be sending them");
        let taken = run(&["checkpoint", "--data", path(&data)]);
        assert_eq!(taken.status.code(), Some(0), "{taken:?}");
    }
    insert(&client, 500..600).await;
    drop(client);
    cluster.stop();
    for node in &rest {
        let data = cluster.data(*node);
        let pruned =
            run(&["--output", "json", "prune", "--data", path(&data), "--to-block", "400"]);
        assert_eq!(pruned.status.code(), Some(0), "{pruned:?}");
        assert!(json(&pruned)["first_block"].as_u64().unwrap() > 30, "{:#}", json(&pruned));
    }
    for node in &rest {
        cluster.nodes[*node] = Some(start(&cluster.data(*node)));
    }
    insert(&cluster.connect(rest[1]).await, 600..620).await;
    // It runs, and says why it goes no further.
    rustix::process::kill_process(rustix::process::Pid::from_child(&frozen.child), Signal::CONT)
        .unwrap();
    let says =
        || cluster.status()["members"][away]["standing"]["stopped"].as_str().map(str::to_owned);
    let mut said = None;
    for _ in 0..200 {
        said = says();
        if said.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(said.is_some_and(|said| said.contains("restart it")), "{:#}", cluster.status());
    insert(&cluster.connect(rest[0]).await, 620..630).await;
    frozen.signal(Signal::KILL);
    cluster.nodes[away] = Some(start(&cluster.data(away)));
    assert_eq!(count(&cluster.connect(away).await).await, 630);
    insert(&cluster.connect(away).await, 630..640).await;
    // One of those that were pruned is not needed: the one that was away votes.
    cluster.nodes[rest[0]].take().unwrap().signal(Signal::KILL);
    insert(&cluster.connect(away).await, 640..650).await;
    cluster.nodes[rest[0]] = Some(start(&cluster.data(rest[0])));
    cluster.settle();
    cluster.stop();
    let heads = cluster.verify();
    assert!(heads.iter().all(|head| *head == heads[0]), "{heads:?}");
}

/// What it has executed when it takes the ledger it does not execute again when it starts.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_joins_executes_the_ledger_once() {
    let cluster = TestCluster::as_configured(3);
    let client = cluster.connect(0).await;
    client.batch_execute(TABLE).await.unwrap();
    insert(&client, 0..100).await;
    let (all, port) = (cluster.all(), free_ports(3).to_string());
    let added = run(&["cluster", "add", "--folder", path(&all), "--port", &port]);
    assert_eq!(added.status.code(), Some(0), "{added:?}");
    let log = all.join("log");
    let kept = std::fs::File::create(&log).unwrap();
    let mut joins = Node::start_logging(tally(&[]), &cluster.data(3), &[], kept);
    assert_eq!(count(&joins.connect().await).await, 100);
    joins.signal(Signal::TERM);
    let said = std::fs::read_to_string(&log).unwrap();
    let executed = |line: &&str| line.contains("executed=") && !line.contains("executed=0 ");
    assert_eq!(said.lines().filter(executed).count(), 1, "{said}");
    assert!(said.contains("took the ledger") && !said.contains("does not hold"), "{said}");
}

/// Whole folders, each of which would do in its own place.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_in_the_place_of_another_one_is_refused() {
    let mut cluster = TestCluster::start(3);
    cluster.connect(0).await.batch_execute(TABLE).await.unwrap();
    cluster.settle();
    cluster.nodes[2].take().unwrap().signal(Signal::KILL);
    let (all, place) = (cluster.all(), cluster.data(2));
    let plan = std::fs::read_to_string(cluster.data(0).join("cluster/plan.toml")).unwrap();
    let address = plan.lines().find_map(|line| line.strip_prefix("address = \"127.0.0.1:"));
    let port: u16 = address.unwrap().trim_end_matches('"').parse().unwrap();
    let (other, port) = (all.join("other"), (port - 2).to_string());
    let init = ["cluster", "init", "--folder", path(&other), "--nodes", "3", "--port", &port];
    assert_eq!(run(&init).status.code(), Some(0));
    let alone = all.join("alone");
    drop(Node::start(&alone));
    let refused = |data: &Path, why: &str| {
        let begun = run(&["serve", "--data", path(data), "--listen", "127.0.0.1:0"]);
        let said = String::from_utf8_lossy(&begun.stderr).into_owned();
        assert_eq!(begun.status.code(), Some(1), "{said}");
        assert!(said.contains(why) && said.contains("place of another"), "{said}");
        assert!(begun.stdout.is_empty(), "{begun:?}");
    };
    // Nothing lies beside it, but others answer where it looks for its members.
    refused(&other_place(&other, &all), "are no members of it");
    let own = all.join("own");
    std::fs::rename(&place, &own).unwrap();
    for (from, why) in [
        (other.join("node-2"), "beside it of that with"),
        (cluster.data(1), "beside it is the same"),
        (alone, "this folder is of no cluster"),
    ] {
        let copied = Command::new("cp").arg("-a").arg(&from).arg(&place).status();
        assert!(copied.unwrap().success());
        refused(&place, why);
        std::fs::remove_dir_all(&place).unwrap();
    }
    std::fs::rename(&own, &place).unwrap();
    cluster.nodes[2] = Some(Node::start(&place));
    cluster.settle();
}

fn other_place(other: &Path, all: &Path) -> std::path::PathBuf {
    let place = all.join("elsewhere");
    std::fs::rename(other.join("node-3"), &place).unwrap();
    place
}

/// As [`start`], with its log in a file, and not waited for.
fn start_logged(data: &Path, log: &Path) -> Child {
    let mut command = tally(&["--output", "json", "serve", "--data", path(data)]);
    command.stdout(Stdio::piped()).stderr(std::fs::File::create(log).unwrap()).spawn().unwrap()
}

/// Once it has said so.
fn ready(mut child: Child) -> Node {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ready = serde_json::from_str(&line).unwrap_or_default();
    Node { child, ready }
}

/// What a log says, as soon as it has these words.
fn said(log: &Path, words: &str) -> String {
    let began = Instant::now();
    loop {
        let said = std::fs::read_to_string(log).unwrap();
        if said.contains(words) {
            return said;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{words}: {said}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Member 3 goes on alone, against the others, with more blocks than they have: a joiner asks it
/// first, and believes the certificate instead.
#[tokio::test(flavor = "multi_thread")]
async fn a_joiner_takes_nothing_from_a_donor_that_lies() {
    let mut cluster = TestCluster::as_configured_with(3, &["--votes", "2", "--liars", "0"]);
    let client = cluster.connect(0).await;
    client.batch_execute(TABLE).await.unwrap();
    insert(&client, 0..20).await;
    cluster.settle();
    let (all, liar) = (cluster.all(), cluster.data(2));
    cluster.nodes[2].take().unwrap().signal(Signal::TERM);
    let recovered = run(&["cluster", "recover", "--data", path(&liar), "--yes"]);
    assert_eq!(recovered.status.code(), Some(0), "{recovered:?}");
    insert(&client, 20..40).await;
    votes::all_certified(&cluster, &[0, 1]);

    // Both ledgers name the fourth.
    let port = free_ports(3).to_string();
    let added = run(&["cluster", "add", "--folder", path(&all), "--port", &port]);
    assert_eq!(added.status.code(), Some(0), "{added:?}");
    let shown = async |client: &Client| {
        client.query_one("SHOW ledger.members", &[]).await.unwrap().get::<_, String>(0)
    };
    let named = shown(&client).await;
    let fourth = named.split(", ").find(|member| member.starts_with("4 ")).unwrap();
    let log = all.join("alone.log");
    let mut alone = ready(start_logged(&liar, &log));
    let reported = alone.connect().await;
    insert(&reported, 1_000..1_200).await;
    let both = format!("SET ledger.members = '{}, {fourth}'", shown(&reported).await);
    reported.batch_execute(&both).await.unwrap();
    // From then on it answers the fourth.
    said(&log, &fourth[..20]);

    let (data, log) = (cluster.data(3), all.join("joiner.log"));
    let joiner = start_logged(&data, &log);
    let refused = said(&log, "the ledger was not taken");
    // The third leads the fourth too, by its own log and with a higher term, all the time.
    cluster.nodes.push(Some(ready(joiner)));
    let refused = refused.lines().find(|line| line.contains("the ledger was not taken")).unwrap();
    assert!(refused.contains("from=3") && refused.contains("is certified"), "{refused}");
    assert_eq!(count(&cluster.connect(3).await).await, 40);
    insert(&cluster.connect(3).await, 40..50).await;
    votes::all_certified(&cluster, &[0, 1, 3]);
    assert_eq!(count(&client).await, 50);
    alone.signal(Signal::KILL);
}
