//! The members of a cluster, as SQL and the metrics show them.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::clusters::TestCluster;
use super::*;

const COLUMNS: &str = "member, is_own, role, term, height, lag_blocks, lag_seconds = 0, \
                       voted_height, certified_height, deviating_height, \
                       abs(clock_offset_seconds) < 5, heard_seconds < 10, trouble IS NULL";

/// A line for each member.
fn psql(node: &Node, text: &str) -> Vec<String> {
    let listen = node.ready["listen"].as_str().unwrap();
    let target = format!("postgresql://tally@{listen}/tally");
    let done = Command::new("psql")
        .args(["-X", "-A", "-t", &target, "-c", text])
        .output()
        .expect("psql is installed");
    assert!(done.status.success(), "{done:?}");
    String::from_utf8_lossy(&done.stdout).lines().map(str::to_owned).collect()
}

/// Asked again until it is so, since members are asked each second.
fn until(node: &Node, text: &str, expected: &[String]) {
    let began = Instant::now();
    loop {
        let found = psql(node, text);
        if found == expected {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{found:#?}, and not {expected:#?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_and_the_metrics_tell_of_each_member() {
    let mut cluster = TestCluster::start(3);
    let leader = cluster.leader();
    let client = cluster.connect(leader).await;
    client.batch_execute("CREATE TABLE notes (id int PRIMARY KEY)").await.unwrap();
    cluster.settle();
    let query = format!("SELECT {COLUMNS} FROM tally_cluster ORDER BY member");
    let (height, term) = {
        let member = &cluster.status()["members"][leader];
        (member["height"].clone(), member["standing"]["term"].clone())
    };
    let row = |asked: usize, member: usize| {
        let (number, own) = (member + 1, if asked == member { "t" } else { "f" });
        let role = if member == leader { "leader" } else { "follower" };
        format!("{number}|{own}|{role}|{term}|{height}|0|t|{height}|{height}||t|t|t")
    };
    for asked in 0..3 {
        let rows: Vec<String> = (0..3).map(|member| row(asked, member)).collect();
        until(cluster.nodes[asked].as_ref().unwrap(), &query, &rows);
    }
    let node = cluster.nodes[leader].as_ref().unwrap();
    let addresses = "SELECT count(DISTINCT address) FROM tally_cluster \
                     WHERE address LIKE '127.0.0.1:%'";
    assert_eq!(psql(node, addresses), ["3"]);
    let page = node.fetch("/metrics");
    for member in 1..=3_usize {
        for line in [
            format!("tally_member_answers{{member=\"{member}\"}} 1.0"),
            format!("tally_member_height{{member=\"{member}\"}} {height}.0"),
            format!("tally_member_lag_blocks{{member=\"{member}\"}} 0.0"),
            format!("tally_member_lag_seconds{{member=\"{member}\"}} 0.0"),
            format!("tally_member_voted_height{{member=\"{member}\"}} {height}.0"),
            format!("tally_member_deviating_height{{member=\"{member}\"}} 0.0"),
        ] {
            assert!(page.lines().any(|it| it == line), "{line} is not in\n{page}");
        }
        let offset = format!("tally_member_clock_offset_seconds{{member=\"{member}\"}} ");
        assert!(page.contains(&offset), "{page}");
    }

    // One that is gone stays in the view with what it told last, and falls behind.
    let gone = (leader + 1) % 3;
    cluster.nodes[gone].take().unwrap().signal(Signal::KILL);
    tokio::time::sleep(Duration::from_millis(1200)).await;
    for id in 0..4 {
        client.batch_execute(&format!("INSERT INTO notes VALUES ({id})")).await.unwrap();
    }
    let node = cluster.nodes[leader].as_ref().unwrap();
    let silent = format!(
        "SELECT role, height, lag_blocks, lag_seconds > 0.5, trouble IS NOT NULL \
         FROM tally_cluster WHERE member = {}",
        gone + 1
    );
    until(node, &silent, &[format!("silent|{height}|4|t|t")]);
    let answers = format!("tally_member_answers{{member=\"{}\"}} 0.0", gone + 1);
    assert!(node.fetch("/metrics").contains(&answers));
    cluster.nodes[gone] = Some(Node::start(&cluster.data(gone)));
    let behind = "SELECT max(lag_blocks), count(*) FILTER (WHERE role = 'silent') \
                  FROM tally_cluster";
    until(cluster.nodes[leader].as_ref().unwrap(), behind, &["0|0".to_owned()]);
}
