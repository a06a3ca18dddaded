//! Members whose clocks are wrong.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use tokio_postgres::Client;

use super::clusters::TestCluster;
use super::*;

/// Of what a wrong clock leads to.
const PATIENCE: Duration = Duration::from_secs(20);

fn clock_file(data: &Path) -> PathBuf {
    data.with_extension("clock")
}

/// With a clock that the test sets.
fn start(data: &Path) -> Node {
    let mut command = tally(&[]);
    command.env("TEST_CLOCK_FILE", clock_file(data));
    let mut options = std::fs::File::options();
    let log = options.create(true).append(true).open(data.with_extension("log")).unwrap();
    Node::start_logging(command, data, &[], log)
}

fn set_clock(cluster: &TestCluster, node: usize, ahead_s: i64) {
    // At once: half of a number would be another time.
    let made = cluster.all().join("clock");
    std::fs::write(&made, ahead_s.to_string()).unwrap();
    std::fs::rename(made, clock_file(&cluster.data(node))).unwrap();
}

/// By how many seconds the time of a new block is wrong.
async fn off_s(client: &Client, id: i64) -> i64 {
    let insert = "INSERT INTO notes VALUES ($1, now()) RETURNING extract(epoch FROM at)::bigint";
    let row = client.query_one(insert, &[&id]).await.unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    row.get::<_, i64>(0) - now.cast_signed()
}

async fn until(what: &str, so: impl Fn() -> bool, reported: impl Fn() -> String) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}: {}", reported());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn offset_s(node: &Node) -> f64 {
    let page = node.fetch("/metrics");
    let line = page.lines().find(|line| line.starts_with("tally_clock_offset_seconds "));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_go_on_at_the_right_time_whatever_a_leaders_clock_says() {
    let mut cluster = TestCluster::start_by(3, &[], start);
    let table = "CREATE TABLE notes (id bigint PRIMARY KEY, at timestamptz)";
    cluster.connect(0).await.batch_execute(table).await.unwrap();
    let mut id = 0;
    for ahead_s in [600, -600] {
        cluster.settle();
        let leader = cluster.leader();
        let (other, own) = ((leader + 1) % 3, cluster.connect(leader).await);
        let client = cluster.connect(other).await;
        set_clock(&cluster, leader, ahead_s);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(6) {
            id += 1;
            let wrong = off_s(&client, id).await;
            assert!((-5..=5).contains(&wrong), "{ahead_s} s: a block is {wrong} s from the truth");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let way = if ahead_s > 0 { "ahead of" } else { "behind" };
        let said = format!("s {way} those of most members: set it right");
        let node = cluster.nodes[leader].as_ref().unwrap();
        until("another one leads", || cluster.leader() != leader, || cluster.status().to_string())
            .await;
        until("/readyz", || node.fetch("/readyz").contains(&said), || node.fetch("/readyz")).await;
        assert!((offset_s(node) - ahead_s as f64).abs() < 5.0, "{}", offset_s(node));
        assert!(offset_s(cluster.nodes[other].as_ref().unwrap()).abs() < 5.0);
        let shown = run(&["cluster", "status", "--folder", path(&cluster.all())]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains(&said), "{shown}");
        let log = std::fs::read_to_string(cluster.data(leader).with_extension("log")).unwrap();
        assert!(log.contains(&said), "{log}");
        // What it measures for its own sessions is wrong too.
        let refused = own.batch_execute("INSERT INTO notes VALUES (-1)").await.unwrap_err();
        assert_eq!(refused.code().map(|code| code.code()), Some("55000"), "{refused:?}");

        set_clock(&cluster, leader, 0);
        until("it is well", || node.fetch("/readyz").contains(" 200 "), || node.fetch("/readyz"))
            .await;
        id += 1;
        assert!(off_s(&own, id).await.abs() <= 5);
    }

    // One that begins with a wrong clock, and cannot know by itself.
    let wrong = (cluster.leader() + 1) % 3;
    cluster.nodes[wrong].take().unwrap().signal(Signal::KILL);
    set_clock(&cluster, wrong, 600);
    cluster.nodes[wrong] = Some(start(&cluster.data(wrong)));
    let client = cluster.connect(wrong).await;
    id += 1;
    assert!(off_s(&client, id).await.abs() <= 5);
    let leader = cluster.leader();
    assert_ne!(leader, wrong);
    cluster.nodes[leader].take().unwrap().signal(Signal::KILL);
    let last = 3 - leader - wrong;
    let client = cluster.connect(last).await;
    id += 1;
    assert!(off_s(&client, id).await.abs() <= 5, "of two clocks the one ahead does not lead");
    cluster.nodes[leader] = Some(start(&cluster.data(leader)));
    cluster.settle();
    cluster.stop();
    let heads = cluster.verify();
    assert!(heads.iter().all(|head| *head == heads[0]), "{heads:?}");
}
