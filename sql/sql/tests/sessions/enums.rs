//! Enum types and arrays in blocks: alike on every replica, by every way back, and forgeries.

use ::types::enums::LABEL_STEP;
use ::types::{SqlState, Value};
use concurrency::Outcome;
use engine::transaction::Asked;
use engine::{Body, ParameterTypes, Submitter};

use super::chance::check_recoveries;
use super::{Node, block_on, code};

const SCHEMA: [&str; 7] = [
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "ALTER TYPE mood ADD VALUE 'awful' BEFORE 'sad'",
    "CREATE TABLE p (id int PRIMARY KEY, m mood DEFAULT 'ok', tags text[] DEFAULT '{}', past mood[],
         level text GENERATED ALWAYS AS (CASE WHEN m < 'ok' THEN 'low' ELSE 'high' END) STORED,
         CHECK (m <> 'awful' OR tags = '{}'))",
    "CREATE INDEX p_m ON p (m, tags)",
    "CREATE TABLE counts (m mood PRIMARY KEY, n int NOT NULL)",
    "INSERT INTO p SELECT g FROM generate_series(1, 8) AS g",
    "CREATE PROCEDURE feel(a int, new mood, tag text) LANGUAGE plpgsql AS $$
     DECLARE old mood; was mood[];
     BEGIN
         SELECT m, past INTO old, was FROM p WHERE id = a;
         IF old < new THEN was[1] := old; END IF;
         UPDATE p SET m = new, past = was || new, tags[1] = tag WHERE id = a;
         INSERT INTO counts VALUES (new, 1) ON CONFLICT (m) DO UPDATE SET n = counts.n + 1;
     END $$",
];

fn statement(text: &str) -> Body {
    Body::statement(text.to_owned(), ParameterTypes::default(), [])
}

fn transactions(round: i64) -> Vec<Body> {
    let mut bodies = Vec::new();
    for n in 0..8 {
        let (a, place) = ((round * 3 + n) % 8 + 1, (round + n) % 3 + 1);
        let arguments =
            vec![Value::Int(a), Value::Int(place * LABEL_STEP), Value::text(format!("t{n}"))];
        bodies.extend([
            Body::call("feel", arguments),
            statement(&format!(
                "UPDATE p SET tags = tags || m::text WHERE m > 'sad' AND id <> {a}"
            )),
            statement(&format!("UPDATE p SET past = enum_range(NULL, m) WHERE id = {a}")),
        ]);
    }
    bodies.push(statement("UPDATE p SET m = 'awful' WHERE id = 1"));
    bodies
}

#[test]
fn every_protocol_comes_to_the_same_rows_and_to_them_again() {
    block_on(async {
        let (mut complete, mut filled) = (false, false);
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            for text in SCHEMA {
                client.run(text).await.unwrap();
            }
            let mut refused = 0;
            for round in 0..3 {
                let submit = |body: Body| {
                    let submitter =
                        Submitter { principal: "tally", role: None, key: None, seed: [1; 16] };
                    node.database.engine.submit(submitter, &Asked::from(&body), None).unwrap()
                };
                let waiting: Vec<_> = transactions(round).into_iter().map(submit).collect();
                for answer in waiting {
                    refused += usize::from(answer.await.unwrap().is_err());
                }
            }
            // The check's.
            assert!(refused <= 3, "{protocol}: {refused}");
            client.run("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'").await.unwrap();
            let counts = "SELECT m::text FROM counts ORDER BY counts.m";
            let counts = client.run(counts).await.unwrap();
            let counts: Vec<String> = counts.iter().map(|row| row[0].to_string()).collect();
            // Some protocols turn away what conflicts.
            let all = ["blue", "ok", "happy"];
            assert!(counts.iter().all(|label| all.contains(&label.as_str())), "{protocol}");
            complete |= counts == all;
            let odd = "SELECT count(*) FROM p WHERE (level = 'low') <> (m < 'ok')";
            assert_eq!(client.number(odd).await, 0, "{protocol}");
            let full = "SELECT count(*) FROM p WHERE cardinality(tags) > 3 AND past @> '{blue}'";
            filled |= client.number(full).await >= 1;
            check_recoveries(&node, protocol);
            node.verify();
        }
        assert!(complete && filled, "under one protocol at least");
    });
}

/// What no client of a session can send: a number that is no label's.
#[test]
fn an_argument_that_is_no_label_is_refused() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        for text in SCHEMA {
            client.run(text).await.unwrap();
        }
        for mood in [7, 2 * LABEL_STEP, 9 * LABEL_STEP] {
            let arguments = vec![Value::Int(1), Value::Int(mood), Value::text("x")];
            let submitter = Submitter { principal: "tally", role: None, key: None, seed: [1; 16] };
            let body = Body::call("feel", arguments);
            let answer = node.database.engine.submit(submitter, &Asked::from(&body), None).unwrap();
            let outcome = answer.await.unwrap().unwrap().outcome;
            let rejected = !matches!(outcome, Outcome::Committed(_));
            assert_eq!(rejected, mood != 2 * LABEL_STEP, "{mood}");
        }
        assert_eq!(client.number("SELECT count(*) FROM counts").await, 1);
        node.verify();
    });
}

#[test]
fn types_are_of_their_transaction_and_cannot_go_while_they_are_used() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        client.run("BEGIN").await.unwrap();
        client.run("CREATE TYPE t AS ENUM ('a', 'b')").await.unwrap();
        client.run("CREATE TABLE x (id int PRIMARY KEY, v t, w t[])").await.unwrap();
        client.run("INSERT INTO x VALUES (1, 'b', '{a,b}')").await.unwrap();
        client.run("ROLLBACK").await.unwrap();
        assert_eq!(code(client.run("SELECT 'a'::t").await), SqlState::UNDEFINED_OBJECT);
        client.run("BEGIN").await.unwrap();
        client.run("CREATE TYPE t AS ENUM ('a', 'b')").await.unwrap();
        client.run("CREATE TABLE x (id int PRIMARY KEY, v t, w t[])").await.unwrap();
        client.run("INSERT INTO x VALUES (1, 'b', '{a,b}')").await.unwrap();
        client.run("COMMIT").await.unwrap();
        let used = code(client.run("DROP TYPE t").await);
        assert_eq!(used, SqlState::DEPENDENT_OBJECTS_STILL_EXIST);
        let shown = client.run("SELECT v::text, w::text FROM x WHERE v > 'a'").await.unwrap();
        assert_eq!(shown[0][..], [Value::text("b"), Value::text("{a,b}")]);
        client.run("DROP TABLE x").await.unwrap();
        client.run("DROP TYPE t").await.unwrap();
        node.verify();
    });
}
