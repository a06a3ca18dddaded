//! UPDATE … FROM, DELETE … USING and MERGE, many at once, on the same rows.

use ::types::Value;
use concurrency::Outcome;
use engine::{Body, ParameterTypes};

use super::{Node, block_on, protocols};

const ACCOUNTS: i64 = 6;

/// Money moves, and each move is taken from a list that shrinks.
const STATEMENTS: [&str; 5] = [
    "UPDATE account a SET v = a.v + m.v
     FROM (VALUES ($1::int, -3), ($2::int, 3)) AS m(id, v) WHERE m.id = a.id AND $1 <> $2",
    "UPDATE account a SET seen = a.seen + 1, last = o.id FROM account o
     WHERE a.id IN ($1, $2) AND o.v >= a.v",
    "DELETE FROM move m USING account a WHERE a.id = m.account AND a.id = $1 AND m.id < $2 * 4",
    "INSERT INTO move SELECT n, $1 FROM generate_series($2::int * 4, $2::int * 4 + 3) n
     ON CONFLICT DO NOTHING",
    "MERGE INTO move m USING unnest(ARRAY[$1::int, $2 + 40, 99], ARRAY[1, $2::int]) AS v(id, account)
     ON m.id = v.id WHEN MATCHED AND m.account = v.account THEN DELETE
     WHEN MATCHED THEN UPDATE SET account = v.account
     WHEN NOT MATCHED AND v.account > 0 THEN INSERT VALUES (v.id, v.account)",
];

#[test]
fn joined_changes_are_serial_under_every_protocol_and_on_any_number_of_workers() {
    block_on(async {
        for protocol in protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            for text in [
                "CREATE TABLE account (id int PRIMARY KEY, v bigint, seen int, last int)",
                "CREATE TABLE move (id int PRIMARY KEY, account int)",
                "CREATE INDEX ON move (account)",
                "INSERT INTO account SELECT n, 100, 0, 0 FROM generate_series(1, 6) n",
            ] {
                client.run(text).await.unwrap();
            }
            let mut waiting = Vec::new();
            for n in 0..100i64 {
                let text = STATEMENTS[(n % 5) as usize].to_owned();
                let (a, b) = (n / 5 % ACCOUNTS + 1, n * 7 % 11 % ACCOUNTS + 1);
                let arguments = [Value::Int(a), Value::Int(b)];
                let body = Body::statement(text, ParameterTypes::default(), arguments);
                waiting.push(node.submit(body));
            }
            let mut looked = 0;
            for (n, answer) in waiting.into_iter().enumerate() {
                match answer.await.unwrap().unwrap().outcome {
                    Outcome::Committed(_) => looked += i64::from(n % 5 == 1),
                    // Some protocols leave it to the client to ask again.
                    Outcome::Retry(_) => {}
                    Outcome::Rejected(error) => panic!("{protocol}: {error}"),
                }
            }
            assert_eq!(
                client.number("SELECT sum(v)::bigint FROM account").await,
                600,
                "{protocol}"
            );
            // Each met one row or two, however many matched.
            let seen = client.number("SELECT sum(seen) FROM account").await;
            assert!((looked..=2 * looked).contains(&seen), "{protocol}: {seen} of {looked}");
            let tells_clients = ["rbc", "fabric", "fabric_pp"].contains(&protocol);
            assert!(tells_clients || looked == 20, "{protocol}: {looked}");
            let wrong = "SELECT count(*) FROM account WHERE last = 0 AND seen > 0";
            assert_eq!(client.number(wrong).await, 0, "{protocol}");
            node.verify();
        }
    });
}

/// The first source row by its key, whatever the protocol reads ahead.
#[test]
fn a_row_is_changed_once_by_the_first_that_matches() {
    block_on(async {
        for protocol in protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            for text in [
                "CREATE TABLE t (id int PRIMARY KEY, v int)",
                "CREATE TABLE s (id int PRIMARY KEY, t int, v int)",
                "INSERT INTO t VALUES (1, 0), (2, 0)",
                "INSERT INTO s VALUES (9, 1, 9), (3, 1, 3), (5, 2, 5), (4, 1, 4), (6, 2, 6)",
            ] {
                client.run(text).await.unwrap();
            }
            let update =
                "UPDATE t SET v = t.v * 10 + s.v FROM s WHERE s.t = t.id RETURNING t.id, t.v";
            let shown = client.run(update).await.unwrap();
            let expected: [&[Value]; 2] =
                [&[Value::Int(1), Value::Int(3)], &[Value::Int(2), Value::Int(5)]];
            assert!(shown.iter().map(|row| &row[..]).eq(expected), "{protocol}: {shown:?}");
            client.run("BEGIN; INSERT INTO s VALUES (1, 2, 1)").await.unwrap();
            client.run(update).await.unwrap();
            client.run("DELETE FROM s USING t WHERE t.id = s.t AND t.v > 50").await.unwrap();
            client.run("COMMIT").await.unwrap();
            assert_eq!(client.number("SELECT v FROM t WHERE id = 2").await, 51, "{protocol}");
            assert_eq!(client.number("SELECT count(*) FROM s").await, 3, "{protocol}");
            node.verify();
        }
    });
}

/// What a part of WITH shows follows from what was there before, whatever runs beside it.
#[test]
fn parts_of_one_statement_see_the_same_rows_under_every_protocol() {
    block_on(async {
        for protocol in protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            for text in [
                "CREATE TABLE queue (id int PRIMARY KEY, v int)",
                "CREATE TABLE taken (id int PRIMARY KEY, v int, left_over bigint)",
                "INSERT INTO queue SELECT n, n * n FROM generate_series(1, 60) n",
            ] {
                client.run(text).await.unwrap();
            }
            let mut waiting = Vec::new();
            for n in 0..20i64 {
                let text = "WITH next AS (DELETE FROM queue WHERE id % 20 = $1 RETURNING *),
                                 rest AS (SELECT count(*) AS n FROM queue)
                            INSERT INTO taken SELECT next.id, next.v, rest.n FROM next, rest";
                let arguments = [Value::Int(n)];
                let types = ParameterTypes::default();
                waiting.push(node.submit(Body::statement(text.to_owned(), types, arguments)));
            }
            for answer in waiting {
                let outcome = answer.await.unwrap().unwrap().outcome;
                assert!(!matches!(outcome, Outcome::Rejected(_)), "{protocol}: {outcome:?}");
            }
            let moved = client.number("SELECT count(*) FROM taken").await;
            assert_eq!(client.number("SELECT count(*) FROM queue").await, 60 - moved, "{protocol}");
            // Each saw the queue as the ones before had left it.
            let seen = client.run("SELECT DISTINCT left_over FROM taken ORDER BY 1 DESC").await;
            let seen: Vec<_> = seen.unwrap().iter().map(|row| row[0].as_int()).collect();
            let expected = (0..moved / 3).map(|n| Some(60 - 3 * n));
            assert!(expected.eq(seen.iter().copied()), "{protocol}: {seen:?}");
            node.verify();
        }
    });
}
