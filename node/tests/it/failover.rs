//! Sessions that move from one node of a cluster to another.

use std::process::Output;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio_postgres::{Client, NoTls};

use super::clusters::TestCluster;
use super::promises::Promise;
use super::*;

const GIVEN_UP: Promise =
    Promise::new("a session is refused behind tally.catch_up_timeout", Duration::from_millis(100));

const TABLE: &str = "CREATE TABLE notes (id bigint PRIMARY KEY)";

impl TestCluster {
    fn port(&self, node: usize) -> String {
        let listen = self.nodes[node].as_ref().unwrap().ready["listen"].as_str().unwrap();
        listen.rsplit(':').next().unwrap().to_owned()
    }

    pub fn freeze(&self, node: usize, signal: Signal) {
        let pid = Pid::from_child(&self.nodes[node].as_ref().unwrap().child);
        kill_process(pid, signal).unwrap();
    }

    /// With settings, as drivers and psql send them.
    pub async fn connect_with(
        &self,
        node: usize,
        options: &str,
    ) -> Result<Client, tokio_postgres::Error> {
        let config =
            format!("host=127.0.0.1 port={} user=tally options='{options}'", self.port(node));
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    fn kill(&mut self, node: usize) {
        self.nodes[node].take().unwrap().signal(Signal::KILL);
    }
}

async fn number(client: &Client, text: &str) -> i64 {
    let rows = client.simple_query(text).await.unwrap();
    let value = rows.iter().find_map(|row| match row {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    value.unwrap().parse().unwrap()
}

fn code(error: &tokio_postgres::Error) -> String {
    error.code().map(|code| code.code().to_owned()).unwrap_or_default()
}

/// A node that was behind for a while shows nothing older than what its client has seen.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_finds_its_past_on_another_node() {
    let mut cluster = TestCluster::start(3);
    let writer = cluster.connect(cluster.leader()).await;
    writer.batch_execute(TABLE).await.unwrap();
    cluster.settle();
    let leader = cluster.leader();
    let behind = (leader + 1) % 3;
    let pooled = cluster.connect(behind).await;
    let newest = cluster
        .connect_with(behind, "-c tally.linearizable_reads=on -c tally.catch_up_timeout=3s")
        .await
        .unwrap();
    let as_it_is = cluster.connect_with(behind, "-c tally.catch_up_timeout=0").await.unwrap();
    let mut stale = 0;
    for id in 0..8 {
        // It hears of nothing meanwhile, and is asked as soon as it is there again.
        cluster.freeze(behind, Signal::STOP);
        for more in 0..20 {
            let text = format!("INSERT INTO notes VALUES ({})", 20 * id + more);
            writer.batch_execute(&text).await.unwrap();
        }
        let seen = number(&writer, "SHOW tally.seen_height").await;
        let expected = 20 * (id + 1);
        let count = "SELECT count(*) FROM notes";
        let thaw = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            cluster.freeze(behind, Signal::CONT);
        };
        let asked = async {
            match id % 4 {
                0 => number(&cluster.connect(behind).await, count).await,
                1 => {
                    let text = format!("SET tally.seen_height = {seen}");
                    pooled.batch_execute(&text).await.unwrap();
                    number(&pooled, count).await
                }
                2 => number(&newest, count).await,
                // Extended: the wait comes before the statement is bound.
                _ => newest.query_one(count, &[]).await.unwrap().get(0),
            }
        };
        let old = number(&as_it_is, count);
        let (old, found, ()) = tokio::join!(old, asked, thaw);
        assert_eq!(found, expected, "round {id}");
        stale += u32::from(old < expected);
    }
    assert!(stale > 0, "the node was never behind, and nothing was tried");
    let seen = number(&pooled, "SHOW tally.seen_height").await;
    assert!(seen <= number(&writer, "SHOW tally.seen_height").await);

    writer.batch_execute("SET tally.catch_up_timeout = 200").await.unwrap();
    let ahead = writer.batch_execute("SET tally.seen_height = 1000000").await.unwrap_err();
    assert_eq!(code(&ahead), "55000", "{ahead:?}");
    let wrong = writer.batch_execute("SET tally.seen_height = 'x'").await.unwrap_err();
    assert_eq!(code(&wrong), "22023");

    for node in (0..3).filter(|node| *node != behind) {
        cluster.kill(node);
    }
    let began = Instant::now();
    let refused =
        cluster.connect_with(behind, "-c tally.catch_up_timeout=500ms").await.unwrap_err();
    assert_eq!(code(&refused), "57P03", "no majority says what was ordered: {refused:?}");
    GIVEN_UP.hold(began.elapsed() - Duration::from_millis(500));
    let waits = newest.batch_execute("SELECT 1").await.unwrap_err();
    assert_eq!(code(&waits), "55000");
    assert_eq!(number(&pooled, "SELECT count(*) FROM notes").await, 160);
}

fn psql(ports: &[String], attributes: &str, text: &str) -> Output {
    let hosts = vec!["127.0.0.1"; ports.len()].join(",");
    let target = format!(
        "host={hosts} port={} user=tally dbname=tally target_session_attrs={attributes} \
         connect_timeout=5 options='-c tally.catch_up_timeout=500ms'",
        ports.join(",")
    );
    let mut psql = Command::new("psql");
    psql.args(["-X", "-A", "-t", &target, "-c", text]).env("LC_ALL", "C");
    psql.output().expect("psql is installed")
}

/// A node that has not caught up within its time passes a client on: asked again until one has.
fn answered(ports: &[String], attributes: &str, text: &str) -> Output {
    let began = Instant::now();
    loop {
        let output = psql(ports, attributes, text);
        if output.status.success() || began.elapsed() > Duration::from_secs(20) {
            return output;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_know_all_nodes_go_to_one_that_writes() {
    let mut cluster = TestCluster::start(3);
    cluster.connect(0).await.batch_execute(TABLE).await.unwrap();
    let ports: Vec<String> = (0..3).map(|node| cluster.port(node)).collect();
    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).trim().to_owned();
    for attributes in ["any", "read-write", "primary", "prefer-standby"] {
        let shown = answered(&ports, attributes, "SHOW transaction_read_only");
        assert_eq!(said(&shown), "off", "{attributes}: {shown:?}");
        assert_eq!(said(&answered(&ports, attributes, "SHOW in_hot_standby")), "off");
    }
    for attributes in ["read-only", "standby"] {
        assert!(!psql(&ports, attributes, "SELECT 1").status.success(), "{attributes}");
    }
    let leader = cluster.leader();
    cluster.kill(leader);
    let rest: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
    // The dead one first.
    let order = [&ports[leader], &ports[rest[0]], &ports[rest[1]]].map(String::clone);
    let written = answered(&order, "read-write", "INSERT INTO notes VALUES (1) RETURNING id");
    assert!(said(&written).starts_with('1'), "{written:?}");
    let read = answered(&order, "any", "SELECT id FROM notes");
    assert_eq!(said(&read), "1", "{read:?}");
    // A node that has lost the others is passed over, as the ones that are gone.
    cluster.kill(rest[1]);
    let alone = psql(&order, "read-write", "SELECT 1");
    assert!(!alone.status.success());
    let why = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(why.contains("has not caught up with the others"), "{why}");
    cluster.nodes[leader] = Some(Node::start(&cluster.data(leader)));
    let last = [ports[rest[0]].clone(), ports[rest[1]].clone(), cluster.port(leader)];
    let read = answered(&last, "primary", "SELECT id FROM notes");
    assert_eq!(said(&read), "1", "{read:?}");
}

/// Whatever the leader's death cuts off: what is asked again at another node runs once.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_runs_once_whichever_node_is_asked() {
    let mut cluster = TestCluster::start(3);
    let client = cluster.connect(0).await;
    client.batch_execute(TABLE).await.unwrap();
    client.batch_execute("CREATE TABLE sums (id int PRIMARY KEY, n bigint)").await.unwrap();
    client.batch_execute("INSERT INTO sums VALUES (1, 0)").await.unwrap();
    let (mut known, mut unknown) = (0, 0);
    for round in 0..6 {
        let leader = cluster.leader();
        let client = cluster.connect(leader).await;
        let send = |round: i32| {
            format!(
                "SET tally.transaction_key = 'key {round}';
                 UPDATE sums SET n = n + 1 WHERE id = 1"
            )
        };
        let text = send(round);
        let first = tokio::spawn(async move { client.batch_execute(&text).await });
        tokio::time::sleep(Duration::from_micros(700 * round as u64)).await;
        cluster.kill(leader);
        let first = first.await.unwrap();
        let other = cluster.connect((leader + 1) % 3).await;
        let asked = format!("SELECT * FROM tally_outcome('key {round}')");
        let outcome = other.query_opt(&asked, &[]).await.unwrap();
        let before = outcome.map(|row| (row.get::<_, String>(0), row.get::<_, i64>(2)));
        if first.is_ok() {
            assert_eq!(before.as_ref().map(|it| &*it.0), Some("committed"), "acknowledged: lost");
        }
        match before {
            Some(_) => known += 1,
            None => unknown += 1,
        }
        // Asked again, in any case, at both nodes that are left.
        for node in [1, 2] {
            let other = cluster.connect((leader + node) % 3).await;
            let again = other.batch_execute(&send(round)).await;
            let runs = before.is_none() && node == 1;
            match again {
                Ok(()) => assert!(runs, "round {round}: it ran again"),
                Err(error) => assert_eq!((code(&error).as_str(), runs), ("22023", false)),
            }
            let row = other.query_one(&asked, &[]).await.unwrap();
            let now = (row.get::<_, String>(0), row.get::<_, i64>(2));
            assert_eq!(now.0, "committed");
            assert!(before.as_ref().is_none_or(|before| *before == now), "the first answer");
        }
        let sum: i64 = other.query_one("SELECT n FROM sums", &[]).await.unwrap().get(0);
        assert_eq!(sum, i64::from(round) + 1);
        cluster.nodes[leader] = Some(Node::start(&cluster.data(leader)));
    }
    eprintln!("{known} had been ordered, {unknown} had not");
    cluster.settle();
    cluster.stop();
    let heads = cluster.verify();
    assert!(heads.iter().all(|head| *head == heads[0]), "{heads:?}");
}
