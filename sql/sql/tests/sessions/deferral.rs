//! Transactions that a protocol defers to later blocks.

use std::sync::{Arc, Mutex};

use concurrency::Outcome;
use engine::{Body, Completion, ParameterTypes};
use types::Value;

use super::{Node, Submitted as Answer, block_on, code};

/// A node whose next block does not begin before the gate is opened.
pub fn gated(protocol: &str) -> (Node, Arc<Mutex<()>>) {
    let gate = Arc::new(Mutex::new(()));
    let clock = Arc::clone(&gate);
    let node = Node::with_clock(
        protocol,
        Arc::new(move || {
            // Clients ask for the time as well, and must not wait for it.
            if std::thread::current().name() == Some("sequencer") {
                drop(clock.lock().unwrap());
            }
            0
        }),
    );
    (node, gate)
}

async fn counter(node: &Node) {
    let mut client = node.session();
    client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
    client.run("INSERT INTO t VALUES (1, 0)").await.unwrap();
}

/// Submitted at once, without waiting for answers.
fn increments(node: &Node, count: u32) -> Vec<Answer> {
    let body = |n| {
        let text = "UPDATE t SET v = v + $1 WHERE id = 1";
        Body::statement(text, ParameterTypes::default(), [Value::Int(n)])
    };
    (0..count).map(|_| node.submit(body(1))).collect()
}

pub async fn completions(answers: Vec<Answer>) -> Vec<Completion> {
    let mut completions = Vec::new();
    for answer in answers {
        completions.push(answer.await.unwrap().unwrap());
    }
    completions
}

/// Writers of one row: each block lets one through, and none hears of it.
#[test]
fn what_is_put_off_commits_in_order_in_the_blocks_after() {
    block_on(async {
        let (node, gate) = gated("aria");
        counter(&node).await;
        let held = gate.lock().unwrap();
        let answers = increments(&node, 40);
        drop(held);
        let completions = completions(answers).await;
        assert!(completions.iter().all(|c| c.outcome.is_committed()));
        for pair in completions.windows(2) {
            assert_eq!(pair[0].height + 1, pair[1].height, "one a block, in order of arrival");
        }
        // They were ordered once, together but for the first few: that is where receipts find them.
        assert!(
            completions
                .iter()
                .rev()
                .take(38)
                .all(|c| c.origin.height == completions[39].origin.height)
        );
        assert!(completions.windows(2).all(|pair| pair[0].origin < pair[1].origin));
        assert_eq!(node.session().number("SELECT v FROM t WHERE id = 1").await, 40);
        node.verify();
    });
}

#[test]
fn a_node_that_stops_finishes_what_is_put_off() {
    block_on(async {
        let (node, gate) = gated("aria");
        counter(&node).await;
        let held = gate.lock().unwrap();
        let answers = increments(&node, 20);
        let engine = Arc::clone(&node.database.engine);
        let stop = std::thread::spawn(move || engine.stop());
        drop(held);
        stop.join().unwrap();
        assert!(completions(answers).await.iter().all(|c| c.outcome.is_committed()));
        node.verify();
    });
}

/// A block of calls that ran as they arrived holds its own envelopes and no others.
#[test]
fn no_protocol_that_runs_calls_as_they_arrive_takes_what_is_put_off() {
    block_on(async {
        let (node, gate) = gated("aria");
        counter(&node).await;
        let held = gate.lock().unwrap();
        let answers = increments(&node, 10);
        let (name, value) = ("protocol".to_owned(), "silo".to_owned());
        let change = node.submit(Body::Parameter { name, value });
        drop(held);
        let Outcome::Rejected(refused) = change.await.unwrap().unwrap().outcome else {
            panic!("the protocol was changed")
        };
        assert_eq!(refused.code(), types::SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
        assert!(completions(answers).await.iter().all(|c| c.outcome.is_committed()));
        node.session().run("SET ledger.protocol = 'silo'").await.unwrap();
        increments(&node, 3).pop().unwrap().await.unwrap().unwrap();
        node.verify();
    });
}

#[test]
fn a_transaction_is_put_off_a_bounded_number_of_times() {
    block_on(async {
        let (node, gate) = gated("aria");
        counter(&node).await;
        let held = gate.lock().unwrap();
        // The parameter `attempts_max` is 100.
        let count = 130;
        let answers = increments(&node, count);
        drop(held);
        let completions = completions(answers).await;
        let given_up = completions.iter().filter(|c| matches!(c.outcome, Outcome::Retry(_)));
        let given_up = given_up.count() as u32;
        // All but the first few entered the second block together.
        assert!((28..=29).contains(&given_up), "{given_up}");
        let last = completions.last().unwrap();
        assert!(matches!(last.outcome, Outcome::Retry(_)));
        let sum = node.session().number("SELECT v FROM t WHERE id = 1").await;
        assert_eq!(sum, i64::from(count - given_up));
        node.verify();
    });
}

/// Sessions, as clients see them: no error, no lost update, and each reads what it wrote.
#[test]
fn sessions_on_one_row_see_neither_errors_nor_old_values() {
    const SESSIONS: i64 = 8;
    const ROUNDS: i64 = 30;
    block_on(async {
        let node = Node::new("aria");
        counter(&node).await;
        let mut tasks = Vec::new();
        for session in 0..SESSIONS {
            let mut client = node.session();
            tasks.push(tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let id = 10 + session;
                    client.run("UPDATE t SET v = v + 1 WHERE id = 1").await.unwrap();
                    let insert =
                        format!("INSERT INTO t VALUES ({id}, (SELECT v FROM t WHERE id = 1))");
                    client.run(&insert).await.unwrap();
                    let own = client.number(&format!("SELECT v FROM t WHERE id = {id}")).await;
                    assert!(own > round, "its own increments are there");
                    client.run(&format!("DELETE FROM t WHERE id = {id}")).await.unwrap();
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(node.session().number("SELECT v FROM t WHERE id = 1").await, SESSIONS * ROUNDS);
        node.verify();
    });
}

/// A client that was shown a row which has changed since must know.
#[test]
fn a_stale_interactive_commit_is_told_to_retry() {
    block_on(async {
        let node = Node::new("aria");
        counter(&node).await;
        let (mut one, mut other) = (node.session(), node.session());
        one.run("BEGIN").await.unwrap();
        let v = one.number("SELECT v FROM t WHERE id = 1").await;
        other.run("UPDATE t SET v = v + 1 WHERE id = 1").await.unwrap();
        one.run(&format!("UPDATE t SET v = {} WHERE id = 1", v + 1)).await.unwrap();
        assert_eq!(code(one.run("COMMIT").await), types::SqlState::SERIALIZATION_FAILURE);
        node.verify();
    });
}

/// The baseline leaves trying again to its clients.
#[test]
fn losers_under_rbc_are_told_to_retry_in_their_own_block() {
    block_on(async {
        let (node, gate) = gated("rbc");
        counter(&node).await;
        let held = gate.lock().unwrap();
        let answers = increments(&node, 20);
        drop(held);
        let completions = completions(answers).await;
        let committed = completions.iter().filter(|c| c.outcome.is_committed()).count() as i64;
        assert!((1..=2).contains(&committed), "one of each of the two blocks");
        assert_eq!(node.session().number("SELECT v FROM t WHERE id = 1").await, committed);
        node.verify();
    });
}
