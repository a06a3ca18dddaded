//! Foreign keys that wait for COMMIT.

use ::types::{SqlState, Value};
use concurrency::{Expectation, Interactive};
use engine::transaction::SchemaSeen;
use engine::{Body, ParameterTypes};

use super::signed::{OK, Said, founded, outcome, said};
use super::{Client, Node, block_on, code, protocols};

const TABLES: &str = "CREATE TABLE p (id int PRIMARY KEY); \
    CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p DEFERRABLE INITIALLY DEFERRED, \
    q int CONSTRAINT q_key REFERENCES p DEFERRABLE)";

async fn run(client: &mut Client, text: &str) {
    client.run(text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
}

#[test]
fn a_deferred_key_is_looked_at_when_its_transaction_commits() {
    block_on(async {
        for protocol in protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            run(&mut client, TABLES).await;
            run(&mut client, "BEGIN; INSERT INTO c VALUES (1, 10), (2, 20)").await;
            run(&mut client, "INSERT INTO p VALUES (10); INSERT INTO p VALUES (20); COMMIT").await;
            assert_eq!(client.number("SELECT count(*) FROM c").await, 2, "{protocol}");
            run(&mut client, "BEGIN; INSERT INTO c VALUES (3, 30)").await;
            let error = client.run("COMMIT").await.unwrap_err();
            assert_eq!(error.code(), SqlState::FOREIGN_KEY_VIOLATION, "{protocol}");
            assert_eq!(
                error.message(),
                "insert or update on table \"c\" violates foreign key constraint \"c_p_fkey\""
            );
            let detail = error.fields().detail.as_deref();
            assert_eq!(detail, Some("Key (p)=(30) is not present in table \"p\"."));
            // The parent's side: it may go, and come again.
            run(&mut client, "BEGIN; DELETE FROM p WHERE id = 10; INSERT INTO p VALUES (10)").await;
            run(&mut client, "COMMIT; BEGIN; DELETE FROM p WHERE id = 10").await;
            let left = client.run("COMMIT").await;
            assert_eq!(code(left), SqlState::FOREIGN_KEY_VIOLATION, "{protocol}");
            run(&mut client, "BEGIN; UPDATE p SET id = 11 WHERE id = 10").await;
            run(&mut client, "UPDATE c SET p = 11 WHERE p = 10; COMMIT").await;
            assert_eq!(client.number("SELECT sum(p) FROM c").await, 31, "{protocol}");
            // What is a transaction by itself ends with its statement.
            let alone = client.run("INSERT INTO c VALUES (4, 40)").await;
            assert_eq!(code(alone), SqlState::FOREIGN_KEY_VIOLATION, "{protocol}");
            node.verify();
        }
    });
}

#[test]
fn set_constraints_says_when() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        run(&mut client, TABLES).await;
        let at_once = client.run("BEGIN; INSERT INTO c VALUES (1, NULL, 5)").await;
        assert_eq!(code(at_once), SqlState::FOREIGN_KEY_VIOLATION);
        run(&mut client, "ROLLBACK; BEGIN; SET CONSTRAINTS q_key DEFERRED").await;
        run(&mut client, "INSERT INTO c VALUES (1, NULL, 5); SAVEPOINT s").await;
        let now = client.run("SET CONSTRAINTS ALL IMMEDIATE").await;
        assert_eq!(code(now), SqlState::FOREIGN_KEY_VIOLATION);
        run(&mut client, "ROLLBACK TO s; INSERT INTO p VALUES (5)").await;
        run(&mut client, "SET CONSTRAINTS ALL IMMEDIATE").await;
        let at_once = client.run("INSERT INTO c VALUES (2, 6)").await;
        assert_eq!(code(at_once), SqlState::FOREIGN_KEY_VIOLATION);
        run(&mut client, "ROLLBACK TO s; SET CONSTRAINTS c_p_fkey, public.q_key DEFERRED").await;
        run(&mut client, "INSERT INTO c VALUES (2, 6, 5); INSERT INTO p VALUES (5), (6); COMMIT")
            .await;
        assert_eq!(client.number("SELECT count(*) FROM c").await, 2);
        for (wrong, expected) in [
            ("SET CONSTRAINTS nope DEFERRED", "42704"),
            ("SET CONSTRAINTS plain_p_fkey DEFERRED", "42809"),
        ] {
            run(&mut client, "CREATE TABLE IF NOT EXISTS plain (p int REFERENCES p)").await;
            assert_eq!(code(client.run(wrong).await).as_str(), expected, "{wrong}");
        }
        // Outside of a transaction it is told to have no effect.
        client.session.take_notices();
        run(&mut client, "SET CONSTRAINTS ALL DEFERRED").await;
        assert_eq!(client.session.take_notices().len(), 1);
        // With arguments, values that are drawn, and rows that are answered.
        run(&mut client, "BEGIN; SET CONSTRAINTS ALL DEFERRED").await;
        let put = "INSERT INTO c VALUES ($1, $2, (random() * 0)::int + 77) RETURNING q";
        let rows = client.run_typed(put, &[], &[Value::Int(7), Value::Int(70)]).await.unwrap();
        assert_eq!(rows[0][0].as_int(), Some(77));
        run(&mut client, "INSERT INTO p VALUES (70), (77); COMMIT").await;
        // Temporary tables, too.
        run(&mut client, "CREATE TEMP TABLE tp (id int PRIMARY KEY)").await;
        let child = "CREATE TEMP TABLE tc (p int REFERENCES tp DEFERRABLE INITIALLY DEFERRED)";
        run(&mut client, child).await;
        run(&mut client, "BEGIN; INSERT INTO tc VALUES (1); INSERT INTO tp VALUES (1); COMMIT")
            .await;
        run(&mut client, "BEGIN; INSERT INTO tc VALUES (2)").await;
        assert_eq!(code(client.run("COMMIT").await), SqlState::FOREIGN_KEY_VIOLATION);
        assert_eq!(client.number("SELECT count(*) FROM tc").await, 1);
        node.verify();
    });
}

#[test]
fn a_key_that_was_broken_is_looked_at_on_the_newest_state() {
    block_on(async {
        for protocol in protocols().filter(|protocol| *protocol != "2pl") {
            let node = Node::new(protocol);
            let (mut client, mut other) = (node.session(), node.session());
            run(&mut client, TABLES).await;
            run(&mut client, "INSERT INTO p VALUES (1)").await;
            run(&mut client, "BEGIN; INSERT INTO c VALUES (1, 2); UPDATE c SET p = 1").await;
            run(&mut other, "DELETE FROM p").await;
            let late = client.run("COMMIT").await;
            assert_eq!(code(late), SqlState::SERIALIZATION_FAILURE, "{protocol}");
            assert_eq!(other.number("SELECT count(*) FROM c").await, 0, "{protocol}");
            node.verify();
        }
    });
}

/// Envelopes are worded by clients: none leaves a key broken.
#[test]
fn an_envelope_defers_nothing_that_it_does_not_look_at() {
    block_on(async {
        let node = founded().await;
        let mut client = node.session();
        run(&mut client, TABLES).await;
        let version = node.database.schema.newest().version;
        let put = |id: i64| {
            let text = format!("INSERT INTO c VALUES ({id}, 10)");
            format!("SET CONSTRAINTS \"public\".\"c_p_fkey\" DEFERRED; {text}")
        };
        let look = || "SELECT tally_check_constraint('c_p_fkey')".to_owned();
        let parent = || "INSERT INTO p VALUES (10)".to_owned();
        let alone = |text: String| Body::statement(text, ParameterTypes::default(), []);
        let together = |texts: &[String]| {
            let expected = |text: &str| Expectation {
                count: u64::from(!text.starts_with("SELECT")),
                rows: Vec::new(),
            };
            let writes = texts.iter().map(|text| (alone(text.clone()), expected(text)));
            let (rows, ranges) = Default::default();
            let transaction = Interactive { now_us: 0, rows, ranges, writes: writes.collect() };
            Body::Interactive { seen: SchemaSeen { version, whole: false }, transaction }
        };
        let other_words = put(2).replacen("SET ", "set ", 1);
        for (sequence, (body, expected)) in (3000..).zip([
            (alone(put(1)), "42809"),
            (alone(other_words.clone()), "42601"),
            (together(&[put(3)]), "42809"),
            (together(&[other_words, look()]), "42601"),
            (together(&[put(4), look(), put(5)]), "42809"),
            (together(&[put(6), look().replace("c_p", "\"c_p")]), "42809"),
            (together(&[put(7), look()]), "40001"),
            (together(&[put(8), parent(), look()]), OK),
        ]) {
            let own = Said { seeds: vec![], ..said("tally", 0, sequence, body) };
            assert_eq!(outcome(&mut client, &own).await, expected, "{:?}", own.body);
        }
        assert_eq!(client.number("SELECT sum(id) FROM c").await, 8);
        node.verify();
    });
}

#[test]
fn a_schema_change_does_not_lose_sight_of_a_key_that_waits() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        run(&mut client, TABLES).await;
        for change in [
            "ALTER TABLE c RENAME CONSTRAINT c_p_fkey TO other",
            "ALTER TABLE c DROP CONSTRAINT c_p_fkey",
            "ALTER TABLE c RENAME TO d",
            "DROP TABLE c",
        ] {
            run(&mut client, "BEGIN; INSERT INTO c VALUES (1, 10)").await;
            match client.run(change).await {
                // PostgreSQL lets a table be renamed, and looks at the key all the same.
                Ok(_) => assert_eq!(change, "ALTER TABLE c RENAME TO d"),
                lost => assert_eq!(code(lost).as_str(), "55006", "{change}"),
            }
            let left = client.run("COMMIT").await;
            assert!(left.is_err() || client.number("SELECT count(*) FROM c").await == 0);
            let _ = client.run("ROLLBACK").await;
        }
        // What does not touch it goes on.
        run(&mut client, "BEGIN; INSERT INTO c VALUES (1, 10); ALTER TABLE c ADD COLUMN r int")
            .await;
        run(&mut client, "CREATE TABLE e (id int); INSERT INTO p VALUES (10); COMMIT").await;
        assert_eq!(client.number("SELECT count(*) FROM c").await, 1);
        node.verify();
    });
}

#[test]
fn keys_of_one_name_wait_each_for_itself() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        run(&mut client, "CREATE TABLE p (id int PRIMARY KEY); CREATE SCHEMA s1; CREATE SCHEMA s2")
            .await;
        for schema in ["s1", "s2"] {
            let key = "CONSTRAINT kk REFERENCES p DEFERRABLE INITIALLY DEFERRED";
            run(&mut client, &format!("CREATE TABLE {schema}.t (id int PRIMARY KEY, p int {key})"))
                .await;
        }
        // Also where the session has objects of its own.
        for (id, own) in [(1, "SELECT 1"), (2, "CREATE TEMP TABLE own (id int)")] {
            run(&mut client, own).await;
            run(&mut client, &format!("BEGIN; INSERT INTO s2.t VALUES ({id}, {id})")).await;
            run(&mut client, &format!("INSERT INTO p VALUES ({id}); COMMIT")).await;
        }
        let late = client.run("BEGIN; INSERT INTO s2.t VALUES (3, 3); COMMIT").await.unwrap_err();
        assert_eq!(late.code(), SqlState::FOREIGN_KEY_VIOLATION);
        let _ = client.run("ROLLBACK").await;
        // A key whose old rows were never looked at does not wait.
        run(&mut client, "ALTER TABLE s1.t DROP CONSTRAINT kk; INSERT INTO s1.t VALUES (1, 99)")
            .await;
        let late = "ALTER TABLE s1.t ADD CONSTRAINT kk FOREIGN KEY (p) REFERENCES p \
             DEFERRABLE INITIALLY DEFERRED NOT VALID";
        run(&mut client, late).await;
        run(&mut client, "INSERT INTO p VALUES (5); BEGIN; INSERT INTO s1.t VALUES (2, 5); COMMIT")
            .await;
        node.verify();
    });
}
