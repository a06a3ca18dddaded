//! Members that execute what the others order, and have no say in it.

use rustix::process::Signal;

use super::clusters::{TestCluster, free_ports};
use super::joining::start;
use super::*;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observer_serves_what_the_others_order() {
    let mut cluster = TestCluster::as_configured(3);
    let client = cluster.connect(0).await;
    let table = "CREATE TABLE notes (id bigint PRIMARY KEY); INSERT INTO notes VALUES (1), (2)";
    client.batch_execute(table).await.unwrap();
    let (all, port) = (cluster.all(), free_ports(3).to_string());
    let add = ["cluster", "add", "--folder", path(&all), "--port", &port, "--observer"];
    let added = run(&add);
    assert!(said(&added).contains("observer 4 is added"), "{added:?}");
    cluster.nodes.push(Some(start(&cluster.data(3))));
    let observer = cluster.connect(3).await;
    let count = "SELECT count(*) FROM notes";
    assert_eq!(observer.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 2);
    observer.batch_execute("INSERT INTO notes VALUES (3)").await.unwrap();
    cluster.settle();
    let status = cluster.status();
    assert!(status["members"][3]["votes"]["signed"].is_null(), "{status:#}");
    let roles = "SELECT string_agg(role, ' ') FROM tally_cluster WHERE member = 4 OR is_own";
    let roles: String = observer.query_one(roles, &[]).await.unwrap().get(0);
    assert_eq!(roles, "observer");
    let shown = said(&run(&["cluster", "status", "--folder", path(&all)]));
    assert!(
        shown.lines().any(|line| line.starts_with('4') && line.contains("observer")),
        "{shown}"
    );

    // Two of the three that order are most of them, with it or without it.
    let leader = cluster.leader();
    cluster.nodes[leader].take().unwrap().signal(Signal::KILL);
    observer.batch_execute("INSERT INTO notes VALUES (4)").await.unwrap();
    cluster.nodes[3].take().unwrap().signal(Signal::KILL);
    let next = cluster.leader();
    let last = 3 - leader - next;
    let client = cluster.connect(last).await;
    client.batch_execute("INSERT INTO notes VALUES (5)").await.unwrap();

    // One of the three and the observer are half of all, and most of none.
    cluster.nodes[3] = Some(start(&cluster.data(3)));
    cluster.settle_up();
    let reader = cluster.connect_with(3, "-c tally.catch_up_timeout=0").await.unwrap();
    cluster.nodes[next].take().unwrap().signal(Signal::KILL);
    client.batch_execute("SET tally.commit_timeout = '2s'").await.unwrap();
    let refused = client.batch_execute("INSERT INTO notes VALUES (6)").await.unwrap_err();
    let code = refused.code().map(|code| code.code().to_owned()).unwrap_or_default();
    assert!(["08007", "55000"].contains(&&*code), "{refused:?}");
    assert_eq!(reader.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 5);
    let status = run(&["cluster", "status", "--folder", path(&all)]);
    assert_eq!(status.status.code(), Some(1), "{}", said(&status));
    for node in [leader, next] {
        cluster.nodes[node] = Some(start(&cluster.data(node)));
    }
    let client = cluster.connect(last).await;
    client.batch_execute("INSERT INTO notes VALUES (7)").await.unwrap();
    assert_ne!(cluster.leader(), 3);

    // It is one for good, and goes as any member does.
    let named = client.query_one("SHOW ledger.members", &[]).await.unwrap();
    let named = named.get::<_, &str>(0).replace(" observer", "");
    let change = format!("SET ledger.members = '{named}'");
    let refused = client.batch_execute(&change).await.unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("22023"), "{refused:?}");
    cluster.settle();
    let removed = run(&["cluster", "remove", "--folder", path(&all), "--member", "4"]);
    assert_eq!(removed.status.code(), Some(0), "{removed:?}");
    cluster.nodes[3].take().unwrap().signal(Signal::KILL);
    client.batch_execute("INSERT INTO notes VALUES (8)").await.unwrap();
    assert_eq!(cluster.status()["members"].as_array().unwrap().len(), 3);
    cluster.settle();
    cluster.nodes.truncate(3);
    cluster.stop();
    let heads = cluster.verify();
    assert!(heads.iter().all(|head| *head == heads[0]), "{heads:?}");
}
