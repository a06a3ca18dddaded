//! Transactions that run as they arrive: what clients are told, and what the ledger holds of it.

use engine::transaction::outcome::split_images;
use engine::{Body, ParameterTypes};
use procedure::ProgramResult;
use types::{Height, Value};

use super::deferral::{completions, gated};
use super::{Client, Node, Row, block_on};
use concurrency::{Isolation, Outcome, ProtocolInfo};

/// Those that name a serial order.
fn online() -> impl Iterator<Item = &'static str> {
    let serializable = |info: &&ProtocolInfo| info.isolation == Isolation::Serializable;
    multiversion::register();
    let infos = protocols::infos().filter(|info| !info.deterministic);
    infos.filter(serializable).map(|info| info.name)
}

/// A place in the ledger, and the number that was answered there.
type Reported = ((Height, u32), Option<i64>);

/// Many statements in one block; how each ended, in the order of the ledger.
async fn in_one_block(
    node: &Node,
    gate: &std::sync::Mutex<()>,
    texts: impl Iterator<Item = String>,
) -> Vec<Reported> {
    let held = gate.lock().unwrap();
    let submit = |text: String| node.submit(Body::statement(text, ParameterTypes::default(), []));
    let answers: Vec<_> = texts.map(submit).collect();
    drop(held);
    let number = |result: &ProgramResult| result.rows.first().and_then(|row| row[0].as_int());
    let reported = completions(answers).await.into_iter().map(|completion| {
        let answer = match &completion.outcome {
            Outcome::Committed(result) => number(result),
            other => panic!("{other:?}"),
        };
        ((completion.origin.height, completion.origin.index), answer)
    });
    let mut reported: Vec<Reported> = reported.collect();
    reported.sort();
    reported
}

async fn numbers(client: &mut Client, query: &str) -> Vec<i64> {
    let rows = client.run(query).await.unwrap();
    rows.iter().filter_map(|row| row[0].as_int()).collect()
}

/// A client that was told the n-th value of a counter stands n-th in the ledger, and so do the rows
/// that have no other order than that of their insertion. Executed again one by one, the ledger
/// gives the same.
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
                let reported = in_one_block(&node, &gate, counted).await;
                let values: Vec<i64> = reported.iter().filter_map(|(_, value)| *value).collect();
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

/// Rows without a key of their own, inserted and moved in an index within one block: where they
/// were is forgotten, also when they come there again.
#[test]
fn an_entry_that_a_new_row_has_left_does_not_come_back() {
    block_on(async {
        for protocol in online() {
            let (node, gate) = gated("serial");
            let mut client = node.session();
            client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
            client.run("CREATE TABLE h (v int)").await.unwrap();
            client.run("CREATE INDEX ON h (v)").await.unwrap();
            client.run("INSERT INTO t VALUES (1, 0)").await.unwrap();
            client.run(&format!("SET ledger.protocol = '{protocol}'")).await.unwrap();
            let texts = (0..60).map(|n| match n % 3 {
                0 => "SELECT v FROM t WHERE id = 1".to_owned(),
                1 => format!("INSERT INTO h VALUES ({n})"),
                _ => "UPDATE h SET v = v + 1000 WHERE v < 1000".to_owned(),
            });
            in_one_block(&node, &gate, texts).await;
            client.run("UPDATE h SET v = v + 1000 WHERE v < 1000").await.unwrap();
            client.run("UPDATE h SET v = v - 1000").await.unwrap();
            let found = numbers(&mut client, "SELECT v FROM h WHERE v BETWEEN 0 AND 999").await;
            assert_eq!(found.len(), 20, "{protocol}: {found:?}");
            client.run("DELETE FROM h WHERE v BETWEEN 0 AND 999").await.unwrap();
            assert_eq!(client.number("SELECT count(*) FROM h").await, 0, "{protocol}");
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
            let submit = |n| node.submit(Body::statement(text(n), ParameterTypes::default(), []));
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

/// Rules of the multi-version study, and ways to keep tables.
const STUDIED: [(&str, &str); 10] = [
    ("mvto", ""),
    ("mvto", ":storage=delta:gc=vacuum:index=primary_key:log.storage=oldest_first:log.gc=none"),
    ("mvocc", ""),
    ("mvocc", ":system=hekaton"),
    ("mv2pl", ":storage=time_travel:gc=transaction"),
    ("mv2pl", ":system=oracle"),
    ("ssi", ":system=postgres"),
    ("ssn", ":storage=delta"),
    ("si", ""),
    ("si", ":storage=newest_first:index=physical:strings=copied"),
];

const SCRIPT: &[&str] = &[
    "CREATE TABLE parent (id int PRIMARY KEY, name text UNIQUE)",
    "CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent, v numeric)",
    "CREATE INDEX child_parent ON child (parent)",
    "CREATE TABLE log (what text)",
    "INSERT INTO parent SELECT n, 'a name that is longer than a word: ' || n
     FROM generate_series(1, 20) n",
    "INSERT INTO child SELECT n, n % 20 + 1, n * 1.5 FROM generate_series(1, 60) n",
    "UPDATE child SET v = v + 1, parent = 3 WHERE parent = 2",
    "DELETE FROM child WHERE parent = 5",
    "DELETE FROM parent WHERE id = 5",
    "UPDATE parent SET id = 105 WHERE id = 20 AND NOT EXISTS
     (SELECT 1 FROM child WHERE parent = 20)",
    "INSERT INTO parent VALUES (6, 'again') ON CONFLICT (id) DO UPDATE SET name = 'again'",
    "INSERT INTO log SELECT name FROM parent WHERE id < 4 ORDER BY id DESC",
    "BEGIN; UPDATE child SET v = 0 WHERE id = 7; SAVEPOINT s; DELETE FROM log;
     ROLLBACK TO s; INSERT INTO log SELECT 'v ' || sum(v) FROM child; COMMIT",
];

const REFUSED: &[(&str, &str)] = &[
    ("INSERT INTO parent VALUES (1, 'new')", "23505"),
    ("INSERT INTO parent VALUES (1000, 'again')", "23505"),
    ("INSERT INTO child VALUES (1000, 999, 0)", "23503"),
    ("DELETE FROM parent WHERE id = 3", "23503"),
    ("SELECT 1 / (id - id) FROM parent", "22012"),
];

/// What the script leaves.
async fn dump(client: &mut Client) -> Vec<Vec<Row>> {
    let mut all = Vec::new();
    for query in [
        "SELECT * FROM parent ORDER BY id",
        "SELECT * FROM child WHERE parent BETWEEN 2 AND 4 ORDER BY parent, id",
        "SELECT count(*), sum(v) FROM child",
        "SELECT * FROM log",
    ] {
        all.push(client.run(query).await.unwrap());
    }
    all
}

async fn run_script(protocol: &str, resting: &str) -> Vec<Vec<Row>> {
    let node = Node::new(protocol);
    let mut client = node.session();
    for (number, statement) in SCRIPT.iter().enumerate() {
        // Another client's block in between: tables are loaded again after it.
        let now = if number % 5 == 4 { resting } else { protocol };
        client.run(&format!("SET ledger.protocol = '{now}'")).await.unwrap();
        client.run(statement).await.unwrap_or_else(|e| panic!("{protocol}: {statement}: {e}"));
    }
    for (statement, code) in REFUSED {
        let answer = client.run(statement).await;
        assert_eq!(super::code(answer).as_str(), *code, "{protocol}: {statement}");
    }
    let dumped = dump(&mut client).await;
    node.verify();
    dumped
}

#[test]
fn each_rule_of_the_study_gives_the_same_sql_the_same_answers_and_is_verified() {
    block_on(async {
        let expected = run_script("serial", "serial").await;
        for (rule, kept) in STUDIED {
            let protocol = format!("{rule}{kept}");
            assert_eq!(run_script(&protocol, "serial").await, expected, "{protocol}");
        }
    });
}

#[test]
fn what_does_not_go_together_is_refused_by_name_with_a_hint() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        for (text, named) in [
            ("mvto:storage=delta:gc=cooperative", "gc=cooperative does not go with storage=delta"),
            ("mvto:t.storage=delta:t.index=physical", "table \"t\": index=physical does not go"),
            ("mvto:system=hekaton", "system=hekaton does not go with mvto"),
            ("mvocc:system=db2", "invalid value \"db2\" of \"system\""),
            ("si:spaces=99", "invalid value \"99\" of \"spaces\""),
            ("ssn:pages=1", "a table has no option \"pages\""),
        ] {
            let error = client.run(&format!("SET ledger.protocol = '{text}'")).await.unwrap_err();
            assert_eq!(error.code().as_str(), "22023", "{text}");
            assert!(error.message().contains(named), "{text}: {}", error.message());
        }
        let error = client.run("CREATE TABLE t (a int) WITH (storage = delta)").await.unwrap_err();
        assert_eq!(error.code().as_str(), "0A000");
        let hint = error.fields().hint.clone().unwrap();
        assert!(hint.contains("SET ledger.protocol = 'mvto:TABLE.storage=delta'"), "{hint}");
        client.run("SET ledger.protocol = 'mvto:t.storage=delta'").await.unwrap();
        let shown = client.run("SHOW ledger.protocol").await.unwrap();
        assert_eq!(shown[0][0], Value::text("mvto:t.storage=delta"));
        node.verify();
    });
}

/// A block of snapshot isolation could not be run again in some order and be sure of the same
/// rows, so they stand in it; and unique values stay so.
#[test]
fn blocks_of_plain_snapshot_isolation_hold_row_images() {
    block_on(async {
        let (node, gate) = gated("si");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
        client.run("CREATE TABLE u (id int PRIMARY KEY, v int UNIQUE)").await.unwrap();
        client.run("INSERT INTO t SELECT n, 1 FROM generate_series(0, 99) n").await.unwrap();
        // A client that finds enough of the others takes one away: a skew, if two do so at once.
        let statements = (0..400).map(|n| match n % 4 {
            0 => format!("INSERT INTO u VALUES ({n}, {n} / 4)"),
            1 => format!("DELETE FROM t WHERE id = {} AND id > 90", n % 100),
            _ => {
                format!("UPDATE t SET v = 0 WHERE id = {} AND (SELECT sum(v) FROM t) > 50", n % 90)
            }
        });
        in_one_block(&node, &gate, statements).await;
        assert_eq!(client.number("SELECT count(DISTINCT v) FROM u").await, 100);
        let left = client.number("SELECT sum(v) FROM t").await;
        let (mut imaged, mut images) = (0, 0);
        for outcome in node.outcomes() {
            if let Ok((rows, _)) = split_images(&outcome) {
                imaged += 1;
                images += rows.len() as i64;
            }
        }
        // The statements of the block, and the INSERT and the two SELECTs of this session.
        assert!(imaged >= 401, "{imaged}");
        let changed = 100 + 100 + 9 + (100 - left);
        assert!((changed - 20..=changed + 20).contains(&images), "{images} of about {changed}");
        node.verify();
    });
}

#[test]
fn of_many_who_want_one_unique_value_one_gets_it_under_plain_snapshot_isolation() {
    block_on(async {
        let (node, gate) = gated("si");
        let mut client = node.session();
        client.run("CREATE TABLE u (id int PRIMARY KEY, v int UNIQUE)").await.unwrap();
        for round in 0..3 {
            let held = gate.lock().unwrap();
            let submit = |n: i64| {
                let text = format!("INSERT INTO u VALUES ({}, {round})", round * 1000 + n);
                node.submit(Body::statement(text, ParameterTypes::default(), []))
            };
            let answers: Vec<_> = (0..200).map(submit).collect();
            drop(held);
            let ended = completions(answers).await;
            assert_eq!(ended.iter().filter(|c| c.outcome.is_committed()).count(), 1);
        }
        node.verify();
    });
}
