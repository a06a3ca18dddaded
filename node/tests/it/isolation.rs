//! Adya's anomalies between sessions of a real client, step by step, under every protocol.
//!
//! What is expected is not written down but worked out: the transactions that committed must have
//! been told, and must have left behind, what *some* order of them brings about one at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::{Client, SimpleQueryMessage};

use super::promises::Promise;
use super::{Node, path, run, tally};

const SENT_AWAY: Promise =
    Promise::new("a session ends behind its idle timeout", Duration::from_millis(100));

/// Transactions by number, each statement in its turn. The table holds (1, 10) and (2, 20).
struct Script {
    name: &'static str,
    steps: &'static [(usize, &'static str)],
}

const ALL: &str = "SELECT id, value FROM test ORDER BY id";
const THIRDS: &str = "SELECT id, value FROM test WHERE value % 3 = 0 ORDER BY id";
const ONE: &str = "SELECT value FROM test WHERE id = 1";
const TWO: &str = "SELECT value FROM test WHERE id = 2";

/// As Kleppmann's Hermitage arranges them, and some of our own.
const SCRIPTS: &[Script] = &[
    Script {
        name: "G0, dirty writes",
        steps: &[
            (0, "UPDATE test SET value = 11 WHERE id = 1"),
            (1, "UPDATE test SET value = 12 WHERE id = 1"),
            (0, "UPDATE test SET value = 21 WHERE id = 2"),
            (0, "COMMIT"),
            (1, "UPDATE test SET value = 22 WHERE id = 2"),
            (1, "COMMIT"),
        ],
    },
    Script {
        name: "G1a, aborted reads",
        steps: &[
            (0, "UPDATE test SET value = 101 WHERE id = 1"),
            (1, ALL),
            (0, "ROLLBACK"),
            (1, ALL),
            (1, "UPDATE test SET value = 21 WHERE id = 2"),
            (1, "COMMIT"),
        ],
    },
    Script {
        name: "G1b, intermediate reads",
        steps: &[
            (0, "UPDATE test SET value = 101 WHERE id = 1"),
            (1, ALL),
            (0, "UPDATE test SET value = 11 WHERE id = 1"),
            (0, "COMMIT"),
            (1, ALL),
            (1, "COMMIT"),
        ],
    },
    Script {
        name: "G1c, circular information flow",
        steps: &[
            (0, "UPDATE test SET value = 11 WHERE id = 1"),
            (1, "UPDATE test SET value = 22 WHERE id = 2"),
            (0, TWO),
            (1, ONE),
            (0, "COMMIT"),
            (1, "COMMIT"),
        ],
    },
    Script {
        name: "OTV, an observed transaction vanishes",
        steps: &[
            (0, "UPDATE test SET value = 11 WHERE id = 1"),
            (0, "UPDATE test SET value = 19 WHERE id = 2"),
            (1, "UPDATE test SET value = 12 WHERE id = 1"),
            (0, "COMMIT"),
            (2, ONE),
            (1, "UPDATE test SET value = 18 WHERE id = 2"),
            (2, TWO),
            (1, "COMMIT"),
            (2, TWO),
            (2, ONE),
            (2, "COMMIT"),
        ],
    },
    Script {
        name: "PMP, predicates see many states",
        steps: &[
            (0, "SELECT id FROM test WHERE value = 30"),
            (1, "INSERT INTO test VALUES (3, 30)"),
            (1, "COMMIT"),
            (0, THIRDS),
            (0, "UPDATE test SET value = 0 WHERE id = 2"),
            (0, "COMMIT"),
        ],
    },
    Script {
        name: "PMP, a write's predicate",
        steps: &[
            (0, "UPDATE test SET value = value + 10"),
            (1, "DELETE FROM test WHERE value = 20"),
            (0, "COMMIT"),
            (1, ALL),
            (1, "COMMIT"),
        ],
    },
    Script {
        name: "P4, lost update",
        steps: &[
            (0, ONE),
            (1, ONE),
            (0, "UPDATE test SET value = 11 WHERE id = 1"),
            (1, "UPDATE test SET value = 12 WHERE id = 1"),
            (0, "COMMIT"),
            (1, "COMMIT"),
        ],
    },
    Script {
        name: "G-single, read skew",
        steps: &[
            (0, ONE),
            (1, ONE),
            (1, TWO),
            (1, "UPDATE test SET value = 12 WHERE id = 1"),
            (1, "UPDATE test SET value = 18 WHERE id = 2"),
            (1, "COMMIT"),
            (0, TWO),
            (0, "COMMIT"),
        ],
    },
    Script {
        name: "G-single, read skew and a write by predicate",
        steps: &[
            (0, ONE),
            (1, ALL),
            (1, "UPDATE test SET value = 12 WHERE id = 1"),
            (1, "UPDATE test SET value = 18 WHERE id = 2"),
            (1, "COMMIT"),
            (0, "DELETE FROM test WHERE value = 20"),
            (0, "COMMIT"),
        ],
    },
    Script {
        name: "G2-item, write skew",
        steps: &[
            (0, ALL),
            (1, ALL),
            (0, "UPDATE test SET value = 11 WHERE id = 1"),
            (1, "UPDATE test SET value = 21 WHERE id = 2"),
            (0, "COMMIT"),
            (1, "COMMIT"),
        ],
    },
    Script {
        name: "G2, write skew by phantoms",
        steps: &[
            (0, THIRDS),
            (1, THIRDS),
            (0, "INSERT INTO test VALUES (3, 30)"),
            (1, "INSERT INTO test VALUES (4, 42)"),
            (0, "COMMIT"),
            (1, "COMMIT"),
        ],
    },
    Script {
        name: "G2 by a reader, Fekete, O'Neil and O'Neil",
        steps: &[
            (0, ALL),
            (1, "UPDATE test SET value = value + 5 WHERE id = 2"),
            (1, "COMMIT"),
            (2, ALL),
            (2, "COMMIT"),
            (0, "UPDATE test SET value = 0 WHERE id = 1"),
            (0, "COMMIT"),
        ],
    },
    Script {
        name: "two get one key",
        steps: &[
            (0, "INSERT INTO test VALUES (3, 1)"),
            (1, "INSERT INTO test VALUES (3, 2)"),
            (0, "COMMIT"),
            (1, "COMMIT"),
        ],
    },
    Script {
        name: "a savepoint forgets writes and no reads",
        steps: &[
            (0, "SAVEPOINT s"),
            (0, "UPDATE test SET value = 7 WHERE id = 1 RETURNING value"),
            (0, "ROLLBACK TO s"),
            (0, TWO),
            (1, "UPDATE test SET value = 9 WHERE id = 2"),
            (1, "COMMIT"),
            (0, "UPDATE test SET value = 8 WHERE id = 1"),
            (0, "COMMIT"),
        ],
    },
];

/// What one transaction was told, by statement.
type Reported = Vec<Vec<String>>;

/// What each transaction that committed was told, and the rows in the end.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Story {
    reported: BTreeMap<usize, Reported>,
    rows: Vec<String>,
}

async fn ask(client: &Client, text: &str) -> Result<Vec<String>, String> {
    let answer = client.simple_query(text).await;
    let messages = answer.map_err(|error| match error.code() {
        Some(code) => code.code().to_owned(),
        None => panic!("{text}: {error}"),
    })?;
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let cells = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
            Some(cells.collect::<Vec<_>>().join(" "))
        }
        _ => None,
    });
    Ok(rows.collect())
}

/// A node's clients: one for each transaction of a script, and one beside them.
struct Stage {
    clients: Vec<Arc<Client>>,
    beside: Client,
}

impl Stage {
    async fn reset(&self) {
        let text = "DELETE FROM test; INSERT INTO test VALUES (1, 10), (2, 20)";
        self.beside.batch_execute(text).await.unwrap();
    }

    async fn rows(&self) -> Vec<String> {
        ask(&self.beside, ALL).await.unwrap()
    }

    /// Step by step, as the script says; one that waits for another transaction is waited for no
    /// longer than `patience`, and then the others go on. `Err` of a transaction: how it failed.
    async fn side_by_side(&self, script: &Script, level: &str, patience: Duration) -> Story {
        self.reset().await;
        let mut begun = BTreeSet::new();
        let mut steps = Vec::new();
        for &(transaction, text) in script.steps {
            let client = Arc::clone(&self.clients[transaction]);
            if begun.insert(transaction) {
                ask(&client, &format!("BEGIN ISOLATION LEVEL {level}")).await.unwrap();
            }
            let mut step = tokio::spawn(async move { ask(&client, text).await });
            let at_once = tokio::time::timeout(patience, &mut step).await.ok();
            steps.push((transaction, text, at_once, step));
        }
        let mut reported: BTreeMap<usize, Result<Reported, String>> = BTreeMap::new();
        for (transaction, text, at_once, step) in steps {
            let answer = match at_once {
                Some(answer) => answer.unwrap(),
                None => step.await.unwrap(),
            };
            match (answer, reported.entry(transaction).or_insert(Ok(Vec::new()))) {
                (Ok(_), so_far @ Ok(_)) if text == "ROLLBACK" => *so_far = Err("none".into()),
                (Ok(rows), Ok(so_far)) => so_far.push(rows),
                (Err(code), so_far @ Ok(_)) => *so_far = Err(code),
                (_, Err(_)) => {}
            }
        }
        for (transaction, reported) in &reported {
            let code = reported.as_ref().err();
            let is_expected = code
                .is_none_or(|code| ["none", "40001", "40P01", "23505"].contains(&code.as_str()));
            assert!(is_expected, "{}: transaction {transaction} ended with {code:?}", script.name);
        }
        let committed =
            reported.into_iter().filter_map(|(at, reported)| Some((at, reported.ok()?)));
        Story { reported: committed.collect(), rows: self.rows().await }
    }

    /// One transaction after the other.
    async fn one_by_one(&self, script: &Script, order: &[usize]) -> Option<Story> {
        self.reset().await;
        let mut story = Story { reported: BTreeMap::new(), rows: Vec::new() };
        for &transaction in order {
            let client = &self.clients[transaction];
            ask(client, "BEGIN").await.unwrap();
            let mut reported = Vec::new();
            for (_, text) in script.steps.iter().filter(|(of, _)| *of == transaction) {
                match ask(client, text).await {
                    Ok(rows) => reported.push(rows),
                    // In this order it would not have committed.
                    Err(_) => {
                        ask(client, "ROLLBACK").await.unwrap();
                        return None;
                    }
                }
            }
            story.reported.insert(transaction, reported);
        }
        story.rows = self.rows().await;
        Some(story)
    }

    /// Every story that some order of these transactions tells.
    async fn serial(&self, script: &Script, transactions: &[usize]) -> BTreeSet<Story> {
        let mut stories = BTreeSet::new();
        for order in orders(transactions) {
            stories.extend(self.one_by_one(script, &order).await);
        }
        stories
    }
}

fn orders(of: &[usize]) -> Vec<Vec<usize>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let led_by = |&first: &usize| {
        let rest: Vec<usize> = of.iter().copied().filter(|&other| other != first).collect();
        orders(&rest).into_iter().map(move |order| [vec![first], order].concat())
    };
    of.iter().flat_map(led_by).collect()
}

#[tokio::test]
async fn sessions_see_no_anomaly_at_any_level_under_any_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start_with(tally(&[]), folder.path(), &[]);
    let clients = [node.connect().await, node.connect().await, node.connect().await];
    let stage = Stage { clients: clients.map(Arc::new).into(), beside: node.connect().await };
    let create = "CREATE TABLE test (id int PRIMARY KEY, value int)";
    stage.beside.batch_execute(create).await.unwrap();
    let levels = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
    let mut serial: BTreeMap<(&str, Vec<usize>), BTreeSet<Story>> = BTreeMap::new();
    for entry in ::protocols::ALL {
        let protocol = entry.info.name;
        let choose = format!("SET ledger.protocol = '{protocol}'");
        stage.beside.batch_execute(&choose).await.unwrap();
        // What a level asks for does not depend on the protocol.
        let asked = if protocol == "silo" { &levels[..] } else { &levels[3..] };
        for (script, level) in SCRIPTS.iter().flat_map(|s| asked.iter().map(move |l| (s, l))) {
            // Elsewhere no statement waits.
            let patience = if protocol == "2pl" { 100 } else { 60_000 };
            let patience = Duration::from_millis(patience);
            let story = stage.side_by_side(script, level, patience).await;
            assert!(!story.reported.is_empty(), "{protocol}, {}: no client committed", script.name);
            let committed: Vec<usize> = story.reported.keys().copied().collect();
            let key = (script.name, committed.clone());
            if !serial.contains_key(&key) {
                serial.insert(key.clone(), stage.serial(script, &committed).await);
            }
            let is_serial = serial[&key].contains(&story);
            assert!(is_serial, "{protocol}, {level}, {}: {story:?}", script.name);
        }
    }
    drop(stage);
    drop(node);
    assert_eq!(run(&["verify", path(folder.path())]).status.code(), Some(0));
}

/// A client that leaves a transaction open is sent away, as it asked for, and no other has waited.
#[tokio::test]
async fn a_client_that_sleeps_in_a_transaction_hurts_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path());
    let (sleeper, other) = (node.connect().await, node.connect().await);
    other.batch_execute("CREATE TABLE test (id int PRIMARY KEY, value int)").await.unwrap();
    other.batch_execute("INSERT INTO test VALUES (1, 10)").await.unwrap();
    sleeper
        .batch_execute(
            "SET idle_in_transaction_session_timeout = '300ms';
             BEGIN; UPDATE test SET value = 0 WHERE id = 1",
        )
        .await
        .unwrap();
    let began = Instant::now();
    other.batch_execute("UPDATE test SET value = value + 1 WHERE id = 1").await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), async {
        while !sleeper.is_closed() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("the session ends");
    SENT_AWAY.hold(began.elapsed().saturating_sub(Duration::from_millis(300)));
    assert!(sleeper.batch_execute("COMMIT").await.is_err());
    let row = other.query_one("SELECT value FROM test WHERE id = 1", &[]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 11);
}
