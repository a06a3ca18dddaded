//! Roles as ledger state: who a transaction is of, and what every replica refuses it for.

use concurrency::Outcome;
use engine::transaction::ROLE;
use engine::{Body, ParameterTypes, Replica, Request};
use order::{Submission, View};
use std::sync::Arc;

use super::{Client, Node, Schema, block_on, code};
use types::{SqlState, Value};

async fn run(client: &mut Client, text: &str) -> Vec<super::Row> {
    client.run(text).await.unwrap_or_else(|error| panic!("{text}: {error}"))
}

async fn refused(client: &mut Client, text: &str, expected: &str) {
    let error = client.run(text).await.expect_err(text);
    assert_eq!(format!("{}: {}", error.code(), error.message()), expected, "{text}");
}

#[test]
fn roles_are_made_and_dropped_in_postgresqls_words() {
    block_on(async {
        let node = Node::new("harmony");
        let mut tally = node.session();
        run(&mut tally, "CREATE USER ada CREATEROLE; CREATE ROLE staff; CREATE USER bob").await;
        run(&mut tally, "CREATE USER root SUPERUSER; GRANT staff TO bob WITH ADMIN OPTION").await;
        run(&mut tally, "CREATE USER carl NOINHERIT IN ROLE staff").await;
        let (mut ada, mut bob) = (node.session_of("ada"), node.session_of("bob"));
        for (text, expected) in [
            ("CREATE ROLE ada", "42710: role \"ada\" already exists"),
            ("CREATE ROLE pg_x", "42939: role name \"pg_x\" is reserved"),
            ("CREATE ROLE \"none\"", "42939: role name \"none\" is reserved"),
            ("CREATE ROLE x SUPERUSER", "42501: must be superuser to create superusers"),
            ("CREATE ROLE x REPLICATION", "42501: must be superuser to create replication users"),
            ("CREATE ROLE x IN ROLE y", "42704: role \"y\" does not exist"),
            ("CREATE ROLE x IN ROLE root", "42501: must be superuser to alter superusers"),
            (
                "ALTER ROLE root NOLOGIN",
                "42501: must be superuser to alter superuser roles or change superuser attribute",
            ),
            ("ALTER ROLE bob BYPASSRLS", "42501: must be superuser to change bypassrls attribute"),
            ("ALTER ROLE y LOGIN", "42704: role \"y\" does not exist"),
            ("DROP ROLE root", "42501: must be superuser to drop superusers"),
            ("DROP ROLE ada", "55006: current user cannot be dropped"),
            ("DROP ROLE y", "42704: role \"y\" does not exist"),
            ("DROP ROLE current_user", "22023: cannot use special role specifier in DROP ROLE"),
            ("GRANT bob TO staff", "0LP01: role \"bob\" is a member of role \"staff\""),
            ("GRANT staff TO staff", "0LP01: role \"staff\" is a member of role \"staff\""),
            ("GRANT root TO bob", "42501: must be superuser to alter superusers"),
            ("GRANT public TO bob", "42704: role \"public\" does not exist"),
            ("ALTER ROLE ada RENAME TO bea", "0A000: to rename the session user is not supported"),
            ("CREATE ROLE x LOGIN NOLOGIN", "42601: conflicting or redundant options"),
        ] {
            refused(&mut ada, text, expected).await;
        }
        for (text, expected) in [
            ("CREATE ROLE x", "42501: permission denied to create role"),
            ("DROP ROLE staff", "42501: permission denied to drop role"),
            ("ALTER ROLE staff LOGIN", "42501: permission denied"),
            ("ALTER ROLE staff RENAME TO x", "42501: permission denied to rename role"),
            ("GRANT ada TO bob", "42501: must have admin option on role \"ada\""),
        ] {
            refused(&mut bob, text, expected).await;
        }
        // What an administrator of a role may, and what a role may of itself.
        run(&mut bob, "GRANT staff TO ada; REVOKE staff FROM ada; ALTER ROLE bob PASSWORD NULL")
            .await;
        refused(&mut tally, "DROP ROLE tally", "55006: current user cannot be dropped").await;
        refused(
            &mut tally,
            "DROP ROLE pg_read_all_data",
            "2BP01: cannot drop role pg_read_all_data because it is required by the database \
             system",
        )
        .await;
        let kept = tally.run("ALTER ROLE tally NOSUPERUSER").await;
        assert_eq!(code(kept), SqlState::INSUFFICIENT_PRIVILEGE);
        run(&mut tally, "ALTER ROLE bob RENAME TO \"Bob; DROP ROLE ada --\"").await;
        run(&mut tally, "DROP ROLE \"Bob; DROP ROLE ada --\", carl, staff, ada").await;
        refused(
            &mut bob,
            "BEGIN; CREATE TABLE t (id int); COMMIT",
            "28000: role \"bob\" does not exist",
        )
        .await;
        node.verify();
    });
}

#[test]
fn a_session_acts_as_what_it_is_a_member_of() {
    block_on(async {
        let node = Node::new("harmony");
        let mut tally = node.session();
        let text = "CREATE ROLE staff; CREATE USER ada IN ROLE staff; CREATE ROLE other; \
                    CREATE TABLE seen (id int PRIMARY KEY, who text, of text); \
                    GRANT INSERT ON seen TO staff";
        run(&mut tally, text).await;
        let mut ada = node.session_of("ada");
        let say = async |client: &mut Client, text: &str| {
            run(client, text).await;
            let row = &run(client, "SELECT current_user, session_user").await[0];
            let role = run(client, "SHOW role").await;
            let text = |value: &Value| value.as_text().unwrap().to_owned();
            format!("{} {} {}", text(&row[0]), text(&row[1]), text(&role[0][0]))
        };
        assert_eq!(say(&mut ada, "SET ROLE staff").await, "staff ada staff");
        assert_eq!(say(&mut ada, "RESET ROLE").await, "ada ada none");
        assert_eq!(say(&mut ada, "SET ROLE staff; SET ROLE NONE").await, "ada ada none");
        assert_eq!(say(&mut ada, "BEGIN; SET LOCAL ROLE staff").await, "staff ada staff");
        assert_eq!(say(&mut ada, "ROLLBACK").await, "ada ada none");
        for (text, expected) in [
            ("SET ROLE other", "42501: permission denied to set role \"other\""),
            ("SET ROLE nothing", "22023: role \"nothing\" does not exist"),
            (
                "SET SESSION AUTHORIZATION staff",
                "42501: permission denied to set session authorization",
            ),
        ] {
            refused(&mut ada, text, expected).await;
        }
        assert_eq!(say(&mut tally, "SET SESSION AUTHORIZATION ada").await, "ada ada none");
        refused(&mut tally, "SET ROLE other", "42501: permission denied to set role \"other\"")
            .await;
        assert_eq!(say(&mut tally, "SET ROLE staff").await, "staff ada staff");
        assert_eq!(say(&mut tally, "RESET SESSION AUTHORIZATION").await, "tally tally none");

        // What a block computes is what the session was told.
        let insert =
            |id: u32| format!("INSERT INTO seen VALUES ({id}, current_user, session_user)");
        run(&mut tally, &format!("SET ROLE staff; {}; RESET ROLE", insert(1))).await;
        let both = format!("BEGIN; {}; SET ROLE staff; {}", insert(2), insert(3));
        refused(
            &mut tally,
            &both,
            "0A000: a transaction that writes as several roles is not supported",
        )
        .await;
        run(&mut tally, "ROLLBACK").await;
        let block = format!("BEGIN; SET ROLE staff; {}; RESET ROLE; COMMIT", insert(4));
        run(&mut tally, &block).await;
        let rows = run(&mut tally, "SELECT who, of FROM seen ORDER BY id").await;
        let rows: Vec<_> = rows.iter().map(|row| row[0].as_text().unwrap().to_owned()).collect();
        assert_eq!(rows, ["staff", "staff"]);
        // A membership that is gone counts for nothing.
        run(&mut ada, "SET ROLE staff").await;
        run(&mut tally, "REVOKE staff FROM ada").await;
        let refusal = ada.run(&insert(5)).await;
        assert_eq!(code(refusal), SqlState::INSUFFICIENT_PRIVILEGE);
        node.verify();
    });
}

#[test]
fn passwords_reach_no_envelope() {
    block_on(async {
        let node = Node::new("serial");
        let mut tally = node.session();
        // A session without a node makes no verifier, and no replica takes a password.
        let bare = tally.run("CREATE ROLE a PASSWORD 'hunter2'").await;
        assert_eq!(code(bare), SqlState::FEATURE_NOT_SUPPORTED);
        let text = "CREATE ROLE a PASSWORD 'hunter2'".to_owned();
        let sent = node.submit(Body::Schema { text }).await.unwrap().unwrap();
        let why = format!("{:?}", sent.outcome);
        assert!(why.contains("22023") && !why.contains("hunter2"), "{why}");

        struct Fixed;
        impl sql::session::shared_state::Passwords for Fixed {
            fn verifier(&self, _: &str) -> types::Result<String> {
                Ok("SCRAM-SHA-256$4096:c2FsdA==$a2V5:a2V5".to_owned())
            }
        }
        _ = node.database.shared_state.passwords.set(Arc::new(Fixed));
        run(&mut tally, "CREATE USER b ENCRYPTED PASSWORD 'correct horse'").await;
        run(&mut tally, "BEGIN; ALTER USER b PASSWORD 'battery staple'; COMMIT").await;
        let newest = node.database.schema.newest();
        let role = newest.catalog.roles().find("b").unwrap();
        assert!(role.verifier.as_deref().unwrap().starts_with("SCRAM-SHA-256$4096:"));
        node.database.engine.stop();
        let mut bytes = Vec::new();
        for path in node.files.paths() {
            use ledger::Files;
            let file = node.files.open(&path).unwrap();
            let mut read = vec![0; file.size().unwrap() as usize];
            file.read_at(&mut read, 0).unwrap();
            bytes.extend(read);
        }
        let holds = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(holds("SCRAM-SHA-256$4096:"));
        assert!(!holds("correct horse") && !holds("battery staple"));
        node.verify();
    });
}

/// A replica that is given blocks of requests of any principal.
pub(super) struct Blocks {
    pub(super) replica: Replica,
    next: u64,
}

impl Blocks {
    pub(super) fn new(protocol: &str, workers: usize) -> Blocks {
        let node = Node::new(protocol);
        node.database.engine.stop();
        let replayed = super::read(&node.files, &Arc::new(Schema::new()), workers);
        Blocks { replica: replayed.replica, next: 0 }
    }

    /// How each ended: `ok`, or its code.
    pub(super) fn block(&mut self, asked: &[(&str, Option<&str>, Body)]) -> Vec<String> {
        let requests = asked.iter().map(|(principal, role, body)| {
            let sequence = self.next;
            self.next += 1;
            let view = View {
                ledger_id: [7; 16],
                principal,
                submission: Submission::Sequence { submitter: [0; 16], sequence },
                expires_us: 1_000_000,
                seen_height: 0,
                settings: role.iter().map(|role| (ROLE, *role)).collect(),
                seed: [0; 16],
                request: &body.to_request(),
                signatures: Vec::new(),
                approvals: Vec::new(),
            };
            Request::of_bytes(view.encode().unwrap())
        });
        let requests = requests.collect();
        let executed = self.replica.execute(0, requests).unwrap();
        self.replica.publish();
        let ended = executed.decided.iter().map(|settled| match &settled.outcome {
            Outcome::Committed(_) => "ok".to_owned(),
            Outcome::Rejected(error) | Outcome::Retry(error) => error.code().to_string(),
        });
        ended.collect()
    }
}

pub(super) fn ddl(text: &str) -> Body {
    Body::Schema { text: text.to_owned() }
}

fn set(name: &str, value: &str) -> Body {
    Body::Parameter { name: name.to_owned(), value: value.to_owned() }
}

pub(super) fn statement(text: &str) -> Body {
    Body::statement(text, ParameterTypes::default(), [])
}

/// No node's word counts for more than what the ledger says of the principal that it names.
#[test]
fn replicas_decide_who_may_ask_where_the_request_stands() {
    for protocol in ["serial", "harmony", "aria", "silo", "2pl"] {
        let heads = [1, 2, 8].map(|workers| {
            let mut blocks = Blocks::new(protocol, workers);
            let ended = blocks.block(&[
                ("tally", None, ddl("CREATE TABLE t (id int PRIMARY KEY, who text)")),
                ("tally", None, ddl("CREATE ROLE ada LOGIN")),
                ("tally", None, ddl("CREATE ROLE ops LOGIN SUPERUSER")),
                ("eve", None, ddl("CREATE TABLE e (id int)")),
                ("ada", Some("ops"), ddl("CREATE TABLE e (id int)")),
                ("ada", None, ddl("CREATE ROLE eve LOGIN SUPERUSER")),
                ("ops", None, ddl("GRANT INSERT ON t TO ada")),
            ]);
            let expected = ["ok", "ok", "ok", "28000", "42501", "42501", "ok"];
            assert_eq!(ended, expected, "{protocol}");
            let insert = |id: u32| statement(&format!("INSERT INTO t VALUES ({id}, current_user)"));
            let ended = blocks.block(&[
                ("eve", None, insert(1)),
                ("ada", Some("ops"), insert(2)),
                ("ops", Some("ada"), insert(3)),
            ]);
            assert_eq!(ended, ["28000", "42501", "ok"], "{protocol}");
            // Parameters, in the order of the block.
            let ended = blocks.block(&[
                ("ada", None, set("attempts_max", "7")),
                ("ops", None, set("attempts_max", "8")),
                ("ops", None, ddl("GRANT tally_set_parameters TO ada")),
                ("ada", None, set("attempts_max", "9")),
                ("ada", None, set("members", "x")),
                ("ops", None, ddl("REVOKE tally_set_parameters FROM ada")),
                ("ada", None, set("attempts_max", "10")),
            ]);
            let expected = ["42501", "ok", "ok", "ok", "42501", "ok", "42501"];
            assert_eq!(ended, expected, "{protocol}");
            assert_eq!(blocks.replica.limits().attempts_max, 9, "{protocol}");
            // One that is dropped, or barred, has nothing committed after that in its block.
            let ended = blocks.block(&[
                ("ops", None, insert(4)),
                ("tally", None, ddl("ALTER ROLE ops NOLOGIN")),
                ("ops", None, insert(5)),
                ("tally", Some("ops"), insert(6)),
                ("tally", None, ddl("DROP ROLE ops")),
                ("ops", None, insert(7)),
                ("tally", Some("ops"), insert(8)),
                ("tally", None, ddl("CREATE ROLE ops LOGIN")),
                ("ops", None, ddl("CREATE ROLE more")),
            ]);
            let expected = ["ok", "ok", "28000", "ok", "ok", "28000", "42704", "ok", "42501"];
            assert_eq!(ended, expected, "{protocol}");
            blocks.replica.head().hash
        });
        assert!(heads.iter().all(|head| *head == heads[0]), "{protocol}");
    }
}

/// A routine that decides by its caller would take each for the superuser.
#[test]
fn a_routine_knows_no_session_and_a_block_knows_its_own() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        run(&mut client, "CREATE TABLE seen (who text PRIMARY KEY); CREATE USER ada").await;
        run(&mut client, "GRANT INSERT ON seen TO ada").await;
        for name in ["current_user", "session_user", "current_database()"] {
            let routine = format!(
                "CREATE FUNCTION f() RETURNS text LANGUAGE plpgsql AS \
                 $$ BEGIN IF {name} = 'tally' THEN RETURN 'may'; END IF; RETURN 'no'; END $$"
            );
            assert_eq!(code(client.run(&routine).await).as_str(), "0A000", "{name}");
        }
        let mut ada = node.session_of("ada");
        ada.run("DO $$ BEGIN INSERT INTO seen VALUES (current_user); END $$").await.unwrap();
        assert_eq!(run(&mut client, "SELECT who FROM seen").await[0][0], Value::from("ada"));
        node.verify();
    });
}
