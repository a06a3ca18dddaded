//! At most once: keys that clients name, and how long what is sent may wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ::types::{SqlState, Value};

use super::{Client, Node, block_on, code};

async fn outcome(client: &mut Client, key: &str) -> Option<(String, Value)> {
    let rows = client.run(&format!("SELECT * FROM tally_outcome('{key}')")).await.unwrap();
    let row = rows.into_iter().next()?;
    Some((row[0].to_string(), row[1].clone()))
}

async fn named(client: &mut Client, key: &str, text: &str) -> SqlState {
    client.run(&format!("SET tally.transaction_key = '{key}'")).await.unwrap();
    code(client.run(text).await)
}

const OK: SqlState = SqlState(*b"00000");

#[test]
fn a_key_names_one_transaction_and_tells_how_it_ended() {
    block_on(async {
        let node = Node::new("harmony");
        let (mut client, mut other) = (node.session(), node.session_of("other"));
        client.run("CREATE TABLE t (id int PRIMARY KEY); CREATE USER other").await.unwrap();
        assert_eq!(outcome(&mut client, "one").await, None);

        assert_eq!(named(&mut client, "one", "SELECT 1; INSERT INTO t VALUES (1)").await, OK);
        let committed = Some(("committed".to_owned(), Value::Null));
        assert_eq!(outcome(&mut client, "one").await, committed);
        assert_eq!(outcome(&mut other, "one").await, None, "another user's");
        assert_eq!(client.run("SHOW tally.transaction_key").await.unwrap()[0][0], Value::from(""));

        let used = SqlState::INVALID_PARAMETER_VALUE;
        assert_eq!(named(&mut client, "one", "INSERT INTO t VALUES (2)").await, used);
        assert_eq!(client.number("SELECT count(*) FROM t").await, 1);
        assert_eq!(outcome(&mut client, "one").await, committed);

        let twice = SqlState::UNIQUE_VIOLATION;
        assert_eq!(named(&mut client, "two", "INSERT INTO t VALUES (1)").await, twice);
        let rejected = Some(("rejected".to_owned(), Value::from(twice.as_str())));
        assert_eq!(outcome(&mut client, "two").await, rejected);

        let block = "BEGIN; INSERT INTO t VALUES (3); COMMIT";
        assert_eq!(named(&mut client, "three", block).await, OK);
        assert_eq!(outcome(&mut client, "three").await, committed);
        node.verify();
    });
}

/// A limit that is lowered, and a clock that is set back, must not shut the node's own clients out.
#[test]
fn what_a_node_sends_may_be_ordered_whatever_the_limit_and_the_clock() {
    block_on(async {
        let now_us = Arc::new(AtomicI64::new(100_000_000_000));
        let clock = Arc::clone(&now_us);
        let node = Node::with_clock("serial", Arc::new(move || clock.load(Ordering::Relaxed)));
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
        client.run("SET ledger.expiry_us_max = 1000000").await.unwrap();
        client.run("INSERT INTO t VALUES (1)").await.unwrap();
        assert_eq!(
            client.run("SHOW ledger.expiry_us_max").await.unwrap()[0][0].to_string(),
            "1000000"
        );
        now_us.store(0, Ordering::Relaxed);
        client.run("INSERT INTO t VALUES (2)").await.unwrap();
        client.run("SET ledger.expiry_us_max = 86400000000").await.unwrap();
        client.run("INSERT INTO t VALUES (3)").await.unwrap();
        let nothing = client.run("SHOW ledger.nothing").await;
        assert_eq!(code(nothing), SqlState::UNDEFINED_OBJECT);
        node.verify();
    });
}
