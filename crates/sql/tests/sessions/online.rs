//! Transactions that run as they arrive: what clients are told, and what the ledger holds of it.

use engine::transaction::StatementText;
use engine::{Body, ParameterTypes, Transaction};
use procedure::ProgramResult;
use types::{Height, Value};

use super::deferral::{completions, gated};
use super::{Client, Node, block_on};
use concurrency::Outcome;

fn online() -> impl Iterator<Item = &'static str> {
    let entries = protocols::ALL.iter().map(|entry| entry.info);
    entries.filter(|info| info.interactive).map(|info| info.name)
}

/// A place in the ledger, and the number that was answered there.
type Told = ((Height, u32), Option<i64>);

/// Many statements in one block; how each ended, in the order of the ledger.
async fn in_one_block(
    node: &Node,
    gate: &std::sync::Mutex<()>,
    texts: impl Iterator<Item = String>,
) -> Vec<Told> {
    let held = gate.lock().unwrap();
    let submit = |text: String| {
        let (types, arguments) = (ParameterTypes::default(), Vec::new());
        let body = Body::Statement(StatementText { text, types, arguments });
        node.database.engine.submit(&Transaction { user: "tally".into(), body }, None).unwrap()
    };
    let answers: Vec<_> = texts.map(submit).collect();
    drop(held);
    let number = |result: &ProgramResult| result.rows.first().and_then(|row| row[0].as_int());
    let told = completions(answers).await.into_iter().map(|completion| {
        let answer = match &completion.outcome {
            Outcome::Committed(result) => number(result),
            other => panic!("{other:?}"),
        };
        ((completion.height, completion.index), answer)
    });
    let mut told: Vec<Told> = told.collect();
    told.sort();
    told
}

async fn numbers(client: &mut Client, query: &str) -> Vec<i64> {
    let rows = client.run(query).await.unwrap();
    rows.iter().filter_map(|row| row[0].as_int()).collect()
}

/// Whoever was told the n-th value of a counter stands n-th in the ledger, and so do the rows that
/// have no other order than that of their insertion. Executed again one by one, the ledger gives
/// the same.
#[test]
fn a_block_is_sealed_in_the_order_that_its_clients_were_told() {
    block_on(async {
        for protocol in online() {
            let (node, gate) = gated("serial");
            let mut client = node.session();
            client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
            client.run("CREATE TABLE log (v int)").await.unwrap();
            client.run("INSERT INTO t VALUES (1, 0), (2, 0)").await.unwrap();
            client.run(&format!("SET ledger.protocol = '{protocol}'")).await.unwrap();
            for round in 0..3 {
                let counted = (0..60).map(|n| match n % 3 {
                    0 => "UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v".to_owned(),
                    1 => format!("INSERT INTO log SELECT v * 1000 + {n} FROM t WHERE id = 2"),
                    _ => format!("UPDATE t SET v = v + {} WHERE id = 2", n % 2),
                });
                let told = in_one_block(&node, &gate, counted).await;
                let values: Vec<i64> = told.iter().filter_map(|(_, value)| *value).collect();
                let expected: Vec<i64> = (round * 20 + 1..=round * 20 + 20).collect();
                assert_eq!(values, expected, "{protocol}");
            }
            let logged = numbers(&mut client, "SELECT v / 1000 FROM log").await;
            assert_eq!(logged.len(), 60, "{protocol}");
            assert!(logged.is_sorted(), "{protocol}: {logged:?}");
            assert_eq!(client.number("SELECT v FROM t WHERE id = 1").await, 60);
            node.verify();
        }
    });
}

/// Of those who insert one key, one gets it, and the others are told which constraint they broke;
/// the ledger says the same when it is executed again.
#[test]
fn one_of_many_gets_a_key_or_a_unique_value() {
    block_on(async {
        for protocol in online() {
            let (node, gate) = gated(protocol);
            let mut client = node.session();
            client.run("CREATE TABLE u (id int PRIMARY KEY, v int UNIQUE)").await.unwrap();
            let held = gate.lock().unwrap();
            let text = |n: i64| format!("INSERT INTO u VALUES ({}, {})", n % 7, n % 5);
            let submit = |n| {
                let (types, arguments) = (ParameterTypes::default(), Vec::<Value>::new());
                let body = Body::Statement(StatementText { text: text(n), types, arguments });
                let transaction = Transaction { user: "tally".into(), body };
                node.database.engine.submit(&transaction, None).unwrap()
            };
            let answers: Vec<_> = (0..70).map(submit).collect();
            drop(held);
            let ended = completions(answers).await;
            let committed = ended.iter().filter(|c| c.outcome.is_committed()).count() as i64;
            assert!((1..=5).contains(&committed), "{protocol}: {committed}");
            let is_violation = |outcome: &Outcome| matches!(outcome, Outcome::Rejected(error) if error.code().as_str() == "23505");
            let others = ended.iter().filter(|c| !c.outcome.is_committed());
            assert!(others.clone().all(|c| is_violation(&c.outcome)), "{protocol}");
            assert_eq!(client.number("SELECT count(*) FROM u").await, committed);
            assert_eq!(client.number("SELECT count(DISTINCT v) FROM u").await, committed);
            node.verify();
        }
    });
}
