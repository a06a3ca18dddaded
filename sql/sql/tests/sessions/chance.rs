//! Random values: drawn from the transaction's seed, so alike on every replica, and seldom twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::types::{SqlState, Value};
use concurrency::Outcome;
use engine::checkpoint::State;
use engine::transaction::Asked;
use engine::{
    Body, Language, Numbering, ParameterTypes, Recovery, ReplayBy, Replica, Request, Submitter,
    recover_by,
};
use order::{Submission, View};
use sql::session::schema::Schema;
use storage::Store;

use super::{Client, Node, Row, Submitted, block_on, code};

const SCHEMA: [&str; 6] = [
    "CREATE TABLE coins (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
         side float8 DEFAULT random(), of int)",
    "CREATE TABLE hot (id int PRIMARY KEY, v bigint, r float8, at uuid)",
    "CREATE TABLE lines (id uuid PRIMARY KEY DEFAULT uuidv7(), n int)",
    "INSERT INTO hot SELECT g, g, random(), uuidv4() FROM generate_series(1, 8) AS g",
    // Draws before and after a decision on data, in loops that end early, into keys.
    "CREATE PROCEDURE play(a int, b int) LANGUAGE plpgsql AS $$
     DECLARE first bigint; stake float8 := random(); line uuid;
     BEGIN
         SELECT v INTO first FROM hot WHERE id = a;
         IF first % 2 = 0 THEN
             INSERT INTO coins (of) VALUES (a);
             stake := stake + random();
         END IF;
         FOR i IN 1..3 LOOP
             EXIT WHEN random() < 0.2;
             CONTINUE WHEN first % 3 = i % 3;
             INSERT INTO lines (n) VALUES (i) RETURNING id INTO line;
         END LOOP;
         UPDATE hot SET v = v + 1, r = stake, at = gen_random_uuid() WHERE id = b;
     END $$",
    "CREATE PROCEDURE hit(a int) LANGUAGE plpgsql AS $$
     BEGIN UPDATE hot SET v = v + random(1, 6) WHERE id = a; END $$",
];

fn statement(text: &str) -> Body {
    let text = text.to_owned();
    Body::statement(text, ParameterTypes::default(), [])
}

fn call(procedure: &str, arguments: &[i64]) -> Body {
    let arguments = arguments.iter().copied().map(Value::Int).collect::<Vec<_>>();
    Body::call(procedure, arguments)
}

/// Some transactions that draw, many of them on the same rows.
fn transactions(round: i64) -> Vec<Body> {
    let mut bodies = Vec::new();
    for n in 0..6 {
        let (a, b) = ((round * 5 + n * 3) % 8 + 1, (n % 2) + 1);
        bodies.extend([
            call("play", &[a, b]),
            call("hit", &[b]),
            statement("INSERT INTO coins (of) VALUES (1), (2)"),
            statement("UPDATE hot SET r = random() WHERE id <= 2 AND random() < 0.5"),
            statement(&format!("UPDATE hot SET at = uuidv4() WHERE id = {a}")),
        ]);
    }
    bodies.extend([
        statement("INSERT INTO lines (n) SELECT v % 100 FROM hot WHERE random() < 0.5"),
        statement("DELETE FROM coins WHERE of = 1 AND random() < 0.3"),
        Body::load("COPY lines (n) FROM STDIN", (0..5).map(|n| [Value::Int(n)].into()).collect()),
    ]);
    bodies
}

fn submit(node: &Node, seed: [u8; 16], body: &Body) -> Submitted {
    let submitter = Submitter { principal: "tally", role: None, key: None, seed };
    node.database.engine.submit(submitter, &Asked::from(body), None).unwrap()
}

async fn prepared_for(node: &Node) -> Client {
    let mut client = node.session();
    for text in SCHEMA {
        client.run(text).await.unwrap();
    }
    client
}

#[test]
fn every_replica_draws_the_same_under_every_protocol_and_on_any_number_of_workers() {
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let mut client = prepared_for(&node).await;
            let mut seeds = 0u64;
            for round in 0..3 {
                let mut waiting = Vec::new();
                for body in transactions(round) {
                    seeds += 1;
                    let mut seed = [1; 16];
                    seed[..8].copy_from_slice(&seeds.to_be_bytes());
                    waiting.push(submit(&node, seed, &body));
                }
                for answer in waiting {
                    answer.await.unwrap().unwrap();
                }
            }
            let drawn = client.run("SELECT id FROM coins").await.unwrap();
            assert!(drawn.len() > 10, "{protocol}: {}", drawn.len());
            check_recoveries(&node, protocol);
            node.verify();
        }
    });
}

/// In pieces, or one by one, a ledger is brought back to what its blocks drew.
pub fn check_recoveries(node: &Node, protocol: &str) {
    node.database.engine.stop();
    let make = |_: &Arc<Store>| -> Arc<dyn Language> { Arc::new(Schema::new()) };
    let states = [ReplayBy::Protocol, ReplayBy::Pacman, ReplayBy::Serial].map(|replay| {
        let files = Arc::new(node.files.clone());
        let way = Recovery { workers: 3, replay, ..Recovery::default() };
        let again = recover_by(files, &make, &way, &mut |_| ());
        let again = again.unwrap_or_else(|fault| panic!("{protocol}: {fault}"));
        State::of(&again.replica).and_then(|state| state.digest()).unwrap()
    });
    assert!(states.iter().all(|state| *state == states[0]), "{protocol}");
}

fn texts(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| row[0].to_string()).collect()
}

#[test]
fn sessions_draw_apart_and_returning_shows_what_is_stored() {
    block_on(async {
        let node = Node::new("harmony");
        let mut one = prepared_for(&node).await;
        let mut other = node.session();
        let insert = "INSERT INTO coins (of) VALUES (7), (7), (7) RETURNING id, side";
        let mut shown = one.run(insert).await.unwrap();
        shown.extend(other.run(insert).await.unwrap());
        shown
            .extend(one.run("INSERT INTO coins (of) VALUES (7) RETURNING id, side").await.unwrap());
        let mut stored = one.run("SELECT id, side FROM coins").await.unwrap();
        shown.sort_by_key(|row| row[0].to_string());
        stored.sort_by_key(|row| row[0].to_string());
        assert_eq!(shown, stored);
        for column in 0..2 {
            let values: BTreeSet<String> = shown.iter().map(|r| r[column].to_string()).collect();
            assert_eq!(values.len(), 7);
        }
        node.verify();
    });
}

#[test]
fn an_interactive_transaction_commits_what_it_was_shown() {
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let mut client = prepared_for(&node).await;
            let insert = "INSERT INTO coins (of) VALUES (1) RETURNING id";
            client.run("BEGIN").await.unwrap();
            let mut shown = texts(&client.run(insert).await.unwrap());
            client.run("SELECT random() FROM hot").await.unwrap();
            client.run("UPDATE hot SET r = random() WHERE id < 4").await.unwrap();
            let rolls = texts(&client.run("SELECT r FROM hot WHERE id < 4").await.unwrap());
            client.run("SAVEPOINT s").await.unwrap();
            client.run(insert).await.unwrap();
            client.run("ROLLBACK TO s").await.unwrap();
            shown.extend(texts(&client.run(insert).await.unwrap()));
            client.run("CALL play(1, 2)").await.unwrap();
            shown.extend(texts(&client.run(insert).await.unwrap()));
            client.run("COMMIT").await.unwrap();
            let stored = client.run("SELECT id FROM coins WHERE of = 1").await.unwrap();
            let stored: BTreeSet<String> = texts(&stored).into_iter().collect();
            assert!(shown.iter().all(|id| stored.contains(id)), "{protocol}");
            assert_eq!(shown.iter().collect::<BTreeSet<_>>().len(), 3);
            let kept = client.run("SELECT r FROM hot WHERE id < 4 AND id <> 2").await.unwrap();
            assert_eq!(texts(&kept), [rolls[0].clone(), rolls[2].clone()], "{protocol}");
            node.verify();
        }
    });
}

#[test]
fn version_7_ascends_within_a_transaction() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = prepared_for(&node).await;
        let insert = "INSERT INTO lines (n) SELECT g FROM generate_series(1, 3) AS g RETURNING id";
        client.run("BEGIN").await.unwrap();
        let mut ids = texts(&client.run(insert).await.unwrap());
        ids.extend(texts(
            &client.run("INSERT INTO lines (n) VALUES (4), (5) RETURNING id").await.unwrap(),
        ));
        ids.extend(texts(&client.run(insert).await.unwrap()));
        client.run("COMMIT").await.unwrap();
        assert_eq!(ids.len(), 8);
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        assert!(ids.iter().all(|id| id.as_bytes()[14] == b'7'), "{ids:?}");
        node.verify();
    });
}

#[test]
fn a_value_is_drawn_for_each_row_and_each_call() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = prepared_for(&node).await;
        let mut column = async |text: &str| -> Vec<String> {
            texts(&client.run(text).await.unwrap_or_else(|error| panic!("{text}: {error:?}")))
        };
        let is_set = |all: &[String]| all.iter().collect::<BTreeSet<_>>().len() == all.len();
        let many = "FROM generate_series(1, 1000) AS g";
        assert!(is_set(&column(&format!("SELECT random() {many}")).await));
        // Sorted by what is shown.
        let sorted = column(&format!("SELECT random(1, 1000000) AS r {many} ORDER BY r")).await;
        let numbers: Vec<i64> = sorted.iter().map(|text| text.parse().unwrap()).collect();
        assert!(numbers.is_sorted() && numbers[0] < numbers[999]);
        let sorted = column(&format!("SELECT random(1, 1000000) {many} ORDER BY 1 DESC")).await;
        let numbers: Vec<i64> = sorted.iter().map(|text| text.parse().unwrap()).collect();
        assert!(numbers.is_sorted_by(|a, b| a >= b) && numbers[0] > numbers[999]);
        let shuffled = column(&format!("SELECT g {many} ORDER BY random()")).await;
        assert!(is_set(&shuffled) && !shuffled.is_sorted_by_key(|n| n.parse::<i64>().unwrap()));
        let half = column(&format!("SELECT g {many} WHERE random() < 0.5")).await.len();
        assert!((400..600).contains(&half), "{half}");
        // Of pairs, not of one side.
        let pairs = "FROM generate_series(1, 40) AS a JOIN generate_series(1, 40) AS b ON true";
        let some = column(&format!("SELECT a || '-' || b {pairs} WHERE random() < 0.5")).await;
        let firsts: BTreeSet<&str> = some.iter().filter_map(|s| s.split('-').next()).collect();
        assert!((600..1000).contains(&some.len()) && firsts.len() == 40);
        let counted = format!("SELECT count(DISTINCT random()) {many}");
        assert_eq!(column(&counted).await, ["1000"]);
        assert_eq!(column("SELECT random() = random()").await, ["f"]);
        assert_eq!(column("SELECT nullif(random(), 2) < 1").await, ["t"]);
        let dice = column(&format!("SELECT DISTINCT random(1, 6) AS r {many} ORDER BY r")).await;
        assert_eq!(dice, ["1", "2", "3", "4", "5", "6"]);
        let cents = column(&format!("SELECT random(0, 0.10) {many}")).await;
        assert!(cents.iter().all(|c| c.len() == 4) && cents.contains(&"0.10".to_owned()));
        assert_ne!(column("SELECT random()").await, column("SELECT random()").await);
        node.verify();
    });
}

#[test]
fn drawn_arguments_are_values_in_the_ledger() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = prepared_for(&node).await;
        client
            .run("CREATE FUNCTION id_of(a float8) RETURNS float8 LANGUAGE sql AS $$ SELECT a $$")
            .await
            .unwrap();
        let one = client.run("SELECT id_of(random())").await.unwrap();
        let other = client.run("SELECT id_of(random())").await.unwrap();
        assert_ne!(one, other);
        client.run("CALL hit(random(1, 8))").await.unwrap();
        client.run("PREPARE p AS INSERT INTO hot VALUES ($1, 0, random())").await.unwrap();
        client.run("EXECUTE p (random(100, 999))").await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM hot WHERE id >= 100").await, 1);
        node.verify();
    });
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = prepared_for(&node).await;
        for (text, expected) in [
            ("SELECT setseed(0.5)", "0A000"),
            ("SELECT uuid_generate_v1()", "0A000"),
            ("SELECT random(2, 1)", "22023"),
            ("SELECT random('a')", "42883"),
            ("CREATE TABLE c (a float8 CHECK (a < random()))", "0A000"),
            ("SELECT a.id FROM hot a LEFT JOIN hot b ON random() < 0.5", "0A000"),
        ] {
            assert_eq!(code(client.run(text).await).as_str(), expected, "{text}");
        }
        // Of another node's making: it draws, and has nothing to draw from.
        let unseeded = submit(&node, [0; 16], &call("hit", &[1])).await.unwrap().unwrap();
        let engine::Completion { outcome, .. } = unseeded;
        let why = format!("{outcome:?}");
        assert!(why.contains("without a seed"), "{why}");
        node.verify();
    });
}

/// A replica that blocks are given by hand.
struct Hand {
    replica: Replica,
    numbering: Numbering,
}

impl Hand {
    fn new(protocol: &str, workers: usize) -> Hand {
        let node = Node::new(protocol);
        node.database.engine.stop();
        let replayed = super::read(&node.files, &Arc::new(Schema::new()), workers);
        let mut hand = Hand { replica: replayed.replica, numbering: Numbering::new([7; 16]) };
        for text in SCHEMA {
            let body = match text.starts_with("INSERT") {
                true => statement(text),
                false => Body::Schema { text: text.to_owned() },
            };
            assert!(hand.block(vec![body])[0].is_committed(), "{text}");
        }
        hand
    }

    fn block(&mut self, bodies: Vec<Body>) -> Vec<Outcome> {
        let mut requests = Vec::with_capacity(bodies.len());
        for body in &bodies {
            self.numbering.seed[..8].copy_from_slice(&(self.numbering.next + 1).to_be_bytes());
            requests.push(self.numbering.request("tally", 0, body).unwrap());
        }
        self.execute(requests)
    }

    fn execute(&mut self, requests: Vec<Request>) -> Vec<Outcome> {
        let executed = self.replica.execute(0, requests).unwrap();
        self.replica.publish();
        executed.decided.iter().map(|settled| settled.outcome.clone()).collect()
    }
}

#[test]
fn replicas_of_one_two_and_eight_workers_come_to_one_head() {
    for info in protocols::infos().filter(|info| info.deterministic) {
        let heads = [1, 2, 8].map(|workers| {
            let mut hand = Hand::new(info.name, workers);
            for round in 0..4 {
                let outcomes = hand.block(transactions(round));
                let committed = outcomes.iter().filter(|outcome| outcome.is_committed()).count();
                assert!(committed > 0, "{}: {outcomes:?}", info.name);
            }
            hand.replica.head().hash
        });
        assert!(heads.iter().all(|head| *head == heads[0]), "{}", info.name);
    }
}

#[test]
fn a_setting_that_the_ledger_does_not_know_is_refused_on_every_replica() {
    let bodies = [
        statement("INSERT INTO hot VALUES (100, 0, 0)"),
        call("hit", &[1]),
        Body::Schema { text: "CREATE TABLE u (id int PRIMARY KEY)".into() },
        Body::Parameter { name: "protocol".into(), value: "silo".into() },
    ];
    let heads = ["serial", "serial", "harmony"].map(|protocol| {
        let mut hand = Hand::new(protocol, 2);
        for name in ["TimeZone", "nothing"] {
            let requests = bodies.iter().enumerate().map(|(number, body)| {
                let sequence = hand.numbering.next + number as u64;
                let view = View {
                    ledger_id: [7; 16],
                    principal: "tally",
                    submission: Submission::Sequence { submitter: [0; 16], sequence },
                    expires_us: 1_000_000,
                    seen_height: 0,
                    settings: vec![(name, "Europe/Berlin")],
                    seed: [1; 16],
                    request: &body.to_request(),
                    signatures: Vec::new(),
                    approvals: Vec::new(),
                };
                Request::of_bytes(view.encode().unwrap())
            });
            let requests = requests.collect();
            hand.numbering.next += bodies.len() as u64;
            for outcome in hand.execute(requests) {
                let Outcome::Rejected(error) = outcome else { panic!("{outcome:?}") };
                assert_eq!(error.code(), SqlState::UNDEFINED_OBJECT, "{name}");
            }
        }
        hand.replica.head().hash
    });
    assert_eq!(heads[0], heads[1]);
}
