//! Transactions that run beside each other come to what they come to one after the other.

use bytes::Bytes;
use chainify::dialect::Dialect;
use chainify::{Database, Organisation, Terms};
use ledger::MemoryFiles;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::chain::{TIME_US, envelope, proposal};
use crate::servers::{Server, mariadb, postgres};

const ROWS: u64 = 40;

/// With a second unique index, a foreign key, a check: what makes order matter between other rows.
fn tables(dialect: Dialect) -> String {
    let (text, engine) = match dialect {
        Dialect::Postgres => ("varchar(20)", ""),
        Dialect::MariaDb => {
            ("varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin", " ENGINE = InnoDB")
        }
    };
    let rows: Vec<String> =
        (1..=ROWS).map(|id| format!("({id}, 100, 'name {id}', {})", id % 5)).collect();
    format!(
        "CREATE TABLE accounts (id bigint PRIMARY KEY, balance numeric(12,2) NOT NULL \
         CHECK (balance >= 0), name {text} UNIQUE, region int){engine}; \
         CREATE TABLE transfers (id bigint PRIMARY KEY, from_id bigint NOT NULL, \
         amount numeric(12,2) NOT NULL, FOREIGN KEY (from_id) REFERENCES accounts (id)){engine}; \
         INSERT INTO accounts (id, balance, name, region) VALUES {}",
        rows.join(", ")
    )
}

fn statement() -> impl Strategy<Value = String> {
    let id = || 1..=ROWS + 3;
    let cents = 0..15_000u64;
    let name = (0..8u64).prop_map(|at| format!("'name {}'", at * 5));
    prop_oneof![
        8 => (id(), cents.clone()).prop_map(|(id, cents)| format!(
            "UPDATE accounts SET balance = balance - {}.{:02} WHERE id = {id}", cents / 100, cents % 100
        )),
        8 => (id(), cents).prop_map(|(id, cents)| format!(
            "UPDATE accounts SET balance = balance + {}.{:02} WHERE id = {id}", cents / 100, cents % 100
        )),
        3 => (1..200u64, id()).prop_map(|(id, from)| format!(
            "INSERT INTO transfers (id, from_id, amount) VALUES ({id}, {from}, {from})"
        )),
        2 => (id(), id()).prop_map(|(to, from)| format!(
            "UPDATE accounts SET balance = (SELECT balance FROM accounts a WHERE a.id = {from}) \
             WHERE id = {to}"
        )),
        2 => (id(), name.clone()).prop_map(|(id, name)| format!(
            "UPDATE accounts SET name = {name} WHERE id = {id}"
        )),
        1 => (id(), name.clone()).prop_map(|(id, name)| format!(
            "INSERT INTO accounts (id, balance, name, region) VALUES ({id}, 1, {name}, 2)"
        )),
        1 => id().prop_map(|id| format!("DELETE FROM accounts WHERE id = {id}")),
        1 => (1..200u64).prop_map(|id| format!("DELETE FROM transfers WHERE id = {id}")),
        1 => (0..6u64).prop_map(|region| format!(
            "UPDATE accounts SET balance = balance * 2 WHERE region = {region} AND balance < 1000"
        )),
        1 => (id(), 0..6u64).prop_map(|(id, region)| format!(
            "UPDATE accounts SET region = {region} WHERE id >= {id} AND id <= {}", id + 4
        )),
        1 => name.prop_map(|name| format!("DELETE FROM accounts WHERE name = {name}")),
    ]
}

fn block(runner: &mut TestRunner, first: &mut u64) -> Vec<Bytes> {
    let transactions = prop::collection::vec(prop::collection::vec(statement(), 1..4), 60);
    let drawn = transactions.new_tree(runner).unwrap().current();
    let one = |statements: &Vec<String>| {
        *first += 1;
        envelope(*first, &statements.iter().map(|it| &**it).collect::<Vec<_>>())
    };
    drawn.iter().map(one).collect()
}

/// Its terms, with the rows that it has.
async fn chained(server: &Server, connections: usize) -> Organisation {
    let url = server.database(&tables(server.dialect())).await;
    let mut database = Database::connect(&url).await.unwrap();
    let names = ["accounts".to_owned(), "transfers".to_owned()];
    let schema = database.inspect(&names).await.unwrap().schema;
    let first_root = database.state_root(&schema).await.unwrap();
    let terms = Terms {
        ledger_id: crate::chain::LEDGER,
        time_us: TIME_US,
        schema,
        first_root,
        checkpoint_blocks: 4,
        members: String::new(),
        votes: 1,
        agreement: Default::default(),
    };
    let files = std::sync::Arc::new(MemoryFiles::new());
    let mut organisation = Organisation::create(files, &url, &terms).await.unwrap();
    organisation.set_connections(connections);
    organisation
}

/// The same random blocks, by one connection and by four of each system: one result for all.
#[tokio::test(flavor = "multi_thread")]
async fn effects_are_those_of_one_after_the_other() {
    let mut organisations = Vec::new();
    for server in [postgres(), mariadb()] {
        for connections in [1, 4] {
            organisations.push(chained(server, connections).await);
        }
    }
    let (mut runner, mut first) = (TestRunner::deterministic(), 0);
    for height in 1..=8 {
        let envelopes = block(&mut runner, &mut first);
        let mut results = Vec::new();
        for organisation in &mut organisations {
            let batch = organisation.order(proposal(height, envelopes.clone())).unwrap();
            let executed = organisation.execute(&batch).await.unwrap();
            organisation.agree(&executed).await.unwrap();
            results.push((executed.result, executed.net));
        }
        let failed = results[0].0.outcomes().iter().filter(|it| it[..] == [0]).count();
        assert!((5..50).contains(&failed), "{failed} of 60 have failed");
        for other in &results[1..] {
            assert_eq!(other.1, results[0].1, "block {height}");
            assert_eq!(other.0, results[0].0, "block {height}");
        }
    }
}

/// Transfers between many accounts, by stages over four connections and one after the other, block
/// by block in turn. `TALLY_CHAINIFY_DURABLE=1 cargo test -p chainify --test it -- --ignored
/// --nocapture stages_over_serial`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn stages_over_serial() {
    const BLOCKS: u64 = 7;
    const TRANSACTIONS: u64 = 500;
    for server in [postgres(), mariadb()] {
        let mut organisations = [chained(server, 1).await, chained(server, 4).await];
        for organisation in &mut organisations {
            let more = match server.dialect() {
                Dialect::Postgres => {
                    "INSERT INTO accounts (id, balance) SELECT id, 100 FROM \
                     generate_series(1000, 20999) id"
                }
                Dialect::MariaDb => {
                    "INSERT INTO accounts (id, balance) SELECT seq, 100 FROM seq_1000_to_20999"
                }
            };
            organisation.database.run(more).await.unwrap();
        }
        let mut times = [Vec::new(), Vec::new()];
        for height in 1..=BLOCKS {
            let pay = |at: u64| {
                let drawn = (height * TRANSACTIONS + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
                let (from, to) = (1000 + drawn % 20_000, 1000 + (drawn / 20_000) % 20_000);
                envelope(
                    height * TRANSACTIONS + at,
                    &[
                        &format!("UPDATE accounts SET balance = balance - 1 WHERE id = {from}"),
                        &format!("UPDATE accounts SET balance = balance + 1 WHERE id = {to}"),
                    ],
                )
            };
            let envelopes: Vec<Bytes> = (0..TRANSACTIONS).map(pay).collect();
            let mut results = Vec::new();
            for (organisation, times) in organisations.iter_mut().zip(&mut times) {
                let batch = organisation.order(proposal(height, envelopes.clone())).unwrap();
                let began = std::time::Instant::now();
                let executed = organisation.execute(&batch).await.unwrap();
                times.push(began.elapsed().as_secs_f64());
                organisation.agree(&executed).await.unwrap();
                results.push(executed.result.header().effects_root);
            }
            assert_eq!(results[0], results[1]);
        }
        let median = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let [serial, stages] = times.each_mut().map(median);
        let ratio = serial / stages;
        println!(
            "{:?}: {TRANSACTIONS} transfers a block: serial {serial:.3} s, stages over 4 \
             connections {stages:.3} s, {ratio:.2} times",
            server.dialect()
        );
    }
}
