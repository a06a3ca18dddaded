//! Policies, and the approvals that they ask for.

use ::types::Error;
use engine::{Body, ParameterTypes};

use super::signed::{
    ADA, BOB, EVE, OK, OTHER_ROOT, ROOT, Said, founded, judge, outcome, public, put, said, schema,
    submit,
};
use super::{Client, Node, block_on, code};

/// Of nodes of the two banks.
pub(super) const NODE_A: u8 = 20;
pub(super) const NODE_B: u8 = 21;

pub(super) fn node_keys() -> [(u8, String); 2] {
    let add = |bank: &str, seed| {
        format!("ALTER ORGANISATION {bank} ADD KEY '{}' FOR NODE more", public(seed))
    };
    [(ROOT, add("bank_a", NODE_A)), (OTHER_ROOT, add("bank_b", NODE_B))]
}

/// Two banks that have to agree on what is written to `t`.
async fn agreeing() -> Node {
    let node = founded().await;
    let mut client = node.session();
    for (sequence, (root, text)) in (200..).zip(node_keys()) {
        assert_eq!(outcome(&mut client, &said("tally", root, sequence, schema(text))).await, OK);
    }
    client.run("ALTER TABLE t SET APPROVAL POLICY 'and(BANK_B, bank_a)'").await.unwrap();
    node
}

async fn refused(client: &mut Client, text: &str) -> Error {
    let refused = client.run(text).await.unwrap_err();
    assert_eq!(refused.code().as_str(), "42T01", "{text}: {refused}");
    refused
}

pub(super) fn detail(error: &Error) -> &str {
    error.fields().detail.as_deref().unwrap_or_default()
}

fn statement(text: &str) -> Body {
    Body::statement(text, ParameterTypes::default(), [])
}

#[test]
fn a_policy_is_set_by_an_owner_and_names_what_there_is() {
    block_on(async {
        let node = founded().await;
        let mut client = node.session();
        client
            .run(
                "CREATE USER pat; CREATE USER sam; CREATE ROLE tellers; GRANT tellers TO eve; \
                 GRANT CREATE ON SCHEMA public TO pat; CREATE VIEW v AS SELECT 1 AS one; \
                 CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            )
            .await
            .unwrap();
        let (mut pat, mut sam) = (node.session_of("pat"), node.session_of("sam"));
        pat.run("CREATE TABLE own (id int PRIMARY KEY)").await.unwrap();
        let deep = format!("{}bank_a{}", "OR(".repeat(9), ")".repeat(9));
        for (session, of, policy, expected) in [
            (0, "TABLE t", "OUTOF(2, bank_a, bank_b, bank_b.tellers)", OK),
            (0, "FUNCTION f()", "bank_a.ada", OK),
            (0, "DATABASE tally", "OR(bank_a, bank_b)", OK),
            (0, "TABLE t", "bank_c", "42704"),
            (0, "TABLE t", "bank_a.nothing", "42704"),
            (0, "TABLE t", "bank_a.tellers", "55000"),
            (0, "TABLE t", "bank_a.tellers' FORCE --", OK),
            (0, "TABLE t", "bank_c' FORCE --", OK),
            (0, "TABLE t", "AND(bank_a", "42601"),
            (0, "TABLE t", "OUTOF(3, bank_a, bank_b)", "22023"),
            (0, "TABLE t", &deep, "54001"),
            (0, "TABLE t", &format!("{} ", "bank_a".repeat(400)), "54000"),
            (0, "TABLE v", "bank_a", "42809"),
            (0, "TABLE nothing", "bank_a", "42P01"),
            (0, "TABLE IF EXISTS nothing", "bank_a", OK),
            (0, "PROCEDURE nothing", "bank_a", "42883"),
            (0, "DATABASE other", "bank_a", "3D000"),
            (1, "TABLE own", "bank_a", OK),
            (1, "TABLE t", "bank_a", "42501"),
            (1, "FUNCTION f", "bank_a", "42501"),
            (1, "DATABASE tally", "bank_a", "42501"),
            (2, "TABLE own", "bank_a", "42501"),
        ] {
            let text = format!("ALTER {of} SET APPROVAL POLICY '{policy}'");
            let session = [&mut client, &mut pat, &mut sam].into_iter().nth(session).unwrap();
            // Nothing of it stays, so that the next one is asked for nothing.
            session.run("BEGIN").await.unwrap();
            assert_eq!(code(session.run(&text).await).as_str(), expected, "{text}");
            session.run("ROLLBACK").await.unwrap();
        }
        let refused = client.run("ALTER TABLE t SET APPROVAL POLICY 'bank_a.tellers'").await;
        let refused = refused.unwrap_err();
        let hint = refused.fields().hint.clone().unwrap();
        assert!(hint.starts_with("FORCE sets it nevertheless"), "{refused:?}");
        assert!(detail(&refused).contains("bank_a.tellers is missing"), "{refused:?}");
        for of in ["TABLE t", "FUNCTION f", "DATABASE tally"] {
            let text = format!("ALTER {of} DROP APPROVAL POLICY");
            assert_eq!(code(client.run(&text).await).as_str(), "42704", "{text}");
        }
        client.run("GRANT tally_set_parameters TO pat").await.unwrap();
        pat.run("ALTER DATABASE tally SET APPROVAL POLICY 'bank_c' FORCE").await.unwrap();
        node.verify();
    });
}

#[test]
fn what_writes_to_a_table_with_a_policy_bears_its_approvals() {
    block_on(async {
        let node = agreeing().await;
        let mut client = node.session();
        let error = refused(&mut client, "INSERT INTO t VALUES (1)").await;
        assert_eq!(error.message(), "the transaction lacks approvals that table \"t\" asks for");
        let expected = "The policy is AND(bank_a, bank_b): bank_a and bank_b are missing.";
        assert_eq!(detail(&error), expected);
        assert_eq!(error.fields().table.as_deref(), Some("t"));
        let lacking = said("ada", ADA, 1, put(1)).by(&[NODE_A]);
        let error = submit(&mut client, &lacking.bytes()).await.unwrap_err();
        assert_eq!(detail(&error), "The policy is AND(bank_a, bank_b): bank_b is missing.");
        for (why, approvers, expected) in [
            ("the same twice", &[NODE_A, NODE_A][..], "42T01"),
            ("users are not their banks", &[NODE_A, EVE], "42T01"),
            ("no one's key", &[NODE_A, 99], "42T01"),
            ("both", &[NODE_B, NODE_A], OK),
        ] {
            let said = said("ada", ADA, 1, put(1)).by(approvers);
            assert_eq!(outcome(&mut client, &said).await, expected, "{why}");
        }
        let roots = said("ada", ADA, 2, put(2)).by(&[ROOT, OTHER_ROOT, 99]);
        assert_eq!(outcome(&mut client, &roots).await, OK, "what is beside them does no harm");
        // The user's own root key has signed; the user's own node has not looked.
        assert_eq!(outcome(&mut client, &said("ada", ROOT, 3, put(3)).by(&[NODE_B])).await, OK);
        // An approval alone is no signature.
        let unsigned = |principal| Said { seeds: vec![], ..said(principal, 0, 700, put(4)) };
        let both = [NODE_A, NODE_B];
        assert_eq!(outcome(&mut client, &unsigned("ada").by(&both)).await, "28000");
        // A session's own user need not sign.
        assert_eq!(outcome(&mut client, &unsigned("tally").by(&[NODE_A])).await, "42T01");
        assert_eq!(outcome(&mut client, &unsigned("tally").by(&both)).await, OK);
        let mut ada = node.session_of("ada");
        let own = Said { seeds: vec![], ..said("ada", 0, 5, put(5)) };
        assert_eq!(outcome(&mut ada, &own.by(&both)).await, OK, "her node signs");
        let mut bob = node.session_of("bob");
        assert_eq!(outcome(&mut bob, &unsigned("bob").by(&both)).await, "28000");
        let many: Vec<u8> = (100..117).collect();
        assert_eq!(outcome(&mut client, &said("ada", ADA, 9, put(4)).by(&many)).await, "54000");
        assert_eq!(client.number("SELECT count(*) FROM t").await, 5);
        node.verify();
    });
}

#[test]
fn every_way_of_writing_asks_for_them() {
    block_on(async {
        let node = founded().await;
        let mut client = node.session();
        client
            .run(
                "CREATE TABLE parent (id int PRIMARY KEY); \
                 CREATE TABLE child (id int PRIMARY KEY, of int REFERENCES parent ON DELETE CASCADE); \
                 CREATE TABLE free (id int PRIMARY KEY); INSERT INTO parent VALUES (1); \
                 INSERT INTO child VALUES (1, 1); \
                 CREATE PROCEDURE put(i int, really boolean) LANGUAGE plpgsql AS $$ BEGIN \
                 IF really THEN INSERT INTO child VALUES (i, 1); END IF; END $$; \
                 CREATE FUNCTION look() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM child'; \
                 CREATE FUNCTION free(i int) RETURNS int LANGUAGE sql AS \
                 'INSERT INTO free VALUES (i) RETURNING id'; \
                 ALTER FUNCTION free SET APPROVAL POLICY 'bank_b'; \
                 ALTER TABLE child SET APPROVAL POLICY 'OR(bank_a, bank_b)'",
            )
            .await
            .unwrap();
        for text in [
            "INSERT INTO child VALUES (2, 1)",
            "INSERT INTO child SELECT 2, 1",
            "INSERT INTO child VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET of = 1",
            "UPDATE child SET of = 1",
            "UPDATE child SET of = 1 WHERE false",
            "DELETE FROM child",
            "MERGE INTO child USING free ON child.id = free.id WHEN MATCHED THEN DELETE",
            "WITH gone AS (DELETE FROM child RETURNING id) SELECT * FROM gone",
            "DELETE FROM parent",
            "CALL put(2, true)",
            "CALL put(2, false)",
            "DO $$ BEGIN DELETE FROM child; END $$",
            "SELECT free(1)",
            "SELECT * FROM free(1)",
            "BEGIN; INSERT INTO child VALUES (2, 1); COMMIT",
            "BEGIN; SELECT free(1); COMMIT",
            "BEGIN; CREATE TABLE beside (id int); INSERT INTO child VALUES (2, 1); COMMIT",
            "TRUNCATE child",
            "TRUNCATE parent CASCADE",
            "BEGIN; TRUNCATE child; COMMIT",
        ] {
            refused(&mut client, text).await;
            let _ = client.run("ROLLBACK").await;
        }
        assert_eq!(
            detail(&refused(&mut client, "SELECT free(1)").await),
            "The policy is bank_b: bank_b is missing."
        );
        for text in [
            "INSERT INTO free VALUES (1)",
            "UPDATE parent SET id = 1",
            "SELECT count(*) FROM child",
            "SELECT look()",
            "BEGIN; SELECT count(*) FROM child; INSERT INTO free VALUES (2); COMMIT",
            "GRANT SELECT ON child TO ada",
            "COMMENT ON TABLE child IS 'of parents'",
        ] {
            client.run(text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        let copied = client.session.parse("COPY child FROM STDIN").unwrap().remove(0);
        assert!(
            client.session.prepare(copied, &[]).is_ok(),
            "its rows are refused with their block"
        );
        assert_eq!(client.number("SELECT count(*) FROM child").await, 1);
        node.verify();
    });
}

#[test]
fn what_has_a_policy_is_changed_under_it() {
    block_on(async {
        let node = agreeing().await;
        let mut client = node.session();
        client
            .run(
                "CREATE SCHEMA s; CREATE TABLE s.t (id int PRIMARY KEY); \
                 CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'; \
                 ALTER FUNCTION f SET APPROVAL POLICY 'bank_b'; \
                 ALTER TABLE s.t SET APPROVAL POLICY 'bank_b'",
            )
            .await
            .unwrap();
        for text in [
            "ALTER TABLE t ADD COLUMN v int",
            "ALTER TABLE t ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY",
            "ALTER TABLE t RENAME TO other",
            "CREATE UNIQUE INDEX ON t (id)",
            "DROP TABLE t",
            "DROP SCHEMA s CASCADE",
            "ALTER TABLE t DROP APPROVAL POLICY",
            "ALTER TABLE t SET APPROVAL POLICY 'bank_a'",
            "ALTER FUNCTION f DROP APPROVAL POLICY",
            "CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 2'",
            "DROP FUNCTION f",
            "BEGIN; ALTER TABLE t ADD COLUMN v int; COMMIT",
        ] {
            assert_eq!(code(client.run(text).await).as_str(), "42T01", "{text}");
            let _ = client.run("ROLLBACK").await;
        }
        for (sequence, (text, approvers, expected)) in (300..).zip([
            ("ALTER TABLE t ADD COLUMN v int", &[NODE_A][..], "42T01"),
            ("ALTER TABLE t ADD COLUMN v int", &[NODE_A, NODE_B], OK),
            ("CREATE TABLE u (id int REFERENCES t)", &[], OK),
            ("DROP SCHEMA s CASCADE", &[NODE_A], "42T01"),
            ("DROP SCHEMA s CASCADE", &[NODE_B], OK),
            ("ALTER TABLE t SET APPROVAL POLICY 'bank_a'", &[NODE_A, NODE_B], OK),
            ("ALTER TABLE t DROP APPROVAL POLICY", &[NODE_B], "42T01"),
            ("ALTER TABLE t DROP APPROVAL POLICY", &[NODE_A], OK),
            ("DROP FUNCTION f", &[NODE_B], OK),
        ]) {
            let said = Said { seeds: vec![], ..said("tally", 0, sequence, schema(text)) };
            assert_eq!(outcome(&mut client, &said.by(approvers)).await, expected, "{text}");
        }
        client.run("INSERT INTO t VALUES (1)").await.unwrap();
        node.verify();
    });
}

#[test]
fn the_ledgers_policy_is_asked_for_everything_but_what_is_one_banks_own() {
    block_on(async {
        let node = founded().await;
        let mut client = node.session();
        for (sequence, (root, text)) in (200..).zip(node_keys()) {
            let said = said("tally", root, sequence, schema(text));
            assert_eq!(outcome(&mut client, &said).await, OK);
        }
        let policy = "ALTER DATABASE tally SET APPROVAL POLICY 'OR(bank_a, bank_b)'";
        client.run(policy).await.unwrap();
        for text in [
            "INSERT INTO t VALUES (1)",
            "CREATE TABLE u (id int)",
            "CREATE USER eva",
            "SET ledger.transaction_units_max = 100000",
            "SET ledger.protocol = 'serial'",
            "ALTER DATABASE tally DROP APPROVAL POLICY",
            "BEGIN; INSERT INTO t VALUES (1); COMMIT",
            "BEGIN; CREATE TABLE u (id int); COMMIT",
            "CREATE ORGANISATION bank_c KEY '0a'",
        ] {
            let code = code(client.run(text).await);
            let expected = if text.contains("'0a'") { "42601" } else { "42T01" };
            assert_eq!(code.as_str(), expected, "{text}");
            let _ = client.run("ROLLBACK").await;
        }
        let of_ledger = refused(&mut client, "INSERT INTO t VALUES (1)").await;
        assert!(of_ledger.message().ends_with("that the ledger asks for"), "{of_ledger}");
        assert_eq!(of_ledger.fields().table, None);
        let mut sequence = 300;
        let mut say = |body: Body, approvers: &[u8]| {
            sequence += 1;
            Said { seeds: vec![], ..said("tally", 0, sequence, body) }.by(approvers)
        };
        let parameter = |value: &str| Body::Parameter {
            name: "transaction_units_max".into(),
            value: value.into(),
        };
        for (said, expected) in [
            (say(put(1), &[NODE_A]), OK),
            (say(schema("CREATE TABLE u (id int)"), &[NODE_B]), OK),
            (say(parameter("1000000"), &[]), "42T01"),
            (say(parameter("1000000"), &[NODE_B]), OK),
        ] {
            assert_eq!(outcome(&mut client, &said).await, expected, "{:?}", said.body);
        }
        // A key that is lost is revoked by its bank alone.
        let revoke = format!("ALTER ORGANISATION bank_b REVOKE KEY '{}'", public(NODE_B));
        let revoke = said("tally", OTHER_ROOT, 400, schema(revoke));
        assert_eq!(outcome(&mut client, &revoke).await, OK);
        assert_eq!(outcome(&mut client, &say(put(2), &[NODE_B])).await, "42T01");
        assert_eq!(outcome(&mut client, &say(put(2), &[OTHER_ROOT])).await, OK);
        node.verify();
    });
}

#[test]
fn what_a_policy_names_stays_able_to_approve() {
    block_on(async {
        let node = founded().await;
        let mut client = node.session();
        client
            .run(
                "CREATE ROLE tellers; GRANT tellers TO eve; CREATE USER pat; \
                 ALTER TABLE t SET APPROVAL POLICY 'AND(bank_a, OR(bank_b.tellers, bank_b.eve))'",
            )
            .await
            .unwrap();
        for text in [
            "DROP ROLE tellers",
            "ALTER ROLE tellers RENAME TO clerks",
            "REVOKE tellers FROM eve",
            "ALTER ROLE eve NOLOGIN",
            "ALTER ROLE eve RENAME TO eva",
        ] {
            let refused = client.run(text).await.unwrap_err();
            assert_eq!(refused.code().as_str(), "2BP01", "{text}: {refused}");
            assert!(detail(&refused).contains("policy of table \"t\" names it"), "{refused:?}");
        }
        let leave =
            said("tally", OTHER_ROOT, 500, schema("ALTER ORGANISATION bank_b DROP USER eve"));
        assert_eq!(outcome(&mut client, &leave).await, "2BP01");
        client.run("DROP ROLE pat; CREATE ROLE others; DROP ROLE others").await.unwrap();
        for (sequence, (approvers, expected)) in
            (1..).zip([(&[ROOT, EVE][..], OK), (&[ROOT, OTHER_ROOT], OK), (&[ROOT, BOB], "42T01")])
        {
            let said = said("ada", ADA, sequence, put(sequence as i64)).by(approvers);
            assert_eq!(outcome(&mut client, &said).await, expected, "{approvers:?}");
        }
        assert_eq!(client.number("SELECT sum(id) FROM t").await, 3);
        node.verify();
    });
}

/// Under every protocol and on any number of workers.
#[test]
fn a_block_judges_approvals_where_they_stand() {
    let policy = "ALTER TABLE t SET APPROVAL POLICY 'AND(bank_a, bank_b)'";
    let both = [NODE_A, NODE_B];
    let mut before = node_keys().to_vec();
    before.push((ROOT, policy.to_owned()));
    let ada = |sequence, id| said("ada", ADA, sequence, put(id)).by(&both);
    let wrong = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = ada(1, 1).bytes();
        change(&mut bytes);
        bytes
    };
    let revoke = format!("ALTER ORGANISATION bank_b REVOKE KEY '{}'", public(NODE_B));
    // Approvals of one transaction beside another.
    let taken = {
        let (mine, theirs) = (ada(1, 1).bytes(), ada(77, 1).bytes());
        let tail = 2 * (32 + 1 + 64) + 1;
        [&mine[..mine.len() - tail], &theirs[theirs.len() - tail..]].concat()
    };
    let own = |body| Said { seeds: vec![], ..said("tally", 0, 600, body) };
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (ada(1, 1).by(&[]).bytes(), "42T01"),
        (ada(1, 1).by(&[NODE_A]).bytes(), "42T01"),
        (ada(1, 1).by(&[NODE_A, 99]).bytes(), "42T01"),
        (ada(1, 1).by(&[NODE_A, EVE]).bytes(), "42T01"),
        (wrong(&|bytes| *bytes.last_mut().unwrap() ^= 1), "28000"),
        (taken, "28000"),
        (Said { expires_us: -1, ..ada(1, 1) }.bytes(), "57014"),
        (Said { ledger_id: [8; 16], ..ada(1, 1) }.bytes(), "08P01"),
        // None of them has used the number up.
        (ada(1, 1).bytes(), OK),
        (ada(1, 2).bytes(), "08P01"),
        (own(statement("UPDATE t SET id = id WHERE id = 7")).bytes(), "42T01"),
        (said("ada", ADA, 2, statement("SELECT 1")).bytes(), OK),
        (own(schema("TRUNCATE t")).bytes(), "42T01"),
        (own(schema("TRUNCATE t")).by(&both).bytes(), OK),
        (ada(3, 3).bytes(), OK),
        (said("tally", OTHER_ROOT, 601, schema(revoke)).bytes(), OK),
        (ada(4, 4).bytes(), "42T01"),
        (said("ada", ADA, 5, put(5)).by(&[NODE_A, OTHER_ROOT]).bytes(), OK),
        (said("tally", ROOT, 602, schema("ALTER TABLE t DROP APPROVAL POLICY")).bytes(), "42T01"),
        (
            said("tally", ROOT, 603, schema("ALTER TABLE t DROP APPROVAL POLICY"))
                .by(&[OTHER_ROOT])
                .bytes(),
            OK,
        ),
        // By the policies before the block, so that its number stays.
        (said("ada", ADA, 6, put(6)).bytes(), "42T01"),
    ];
    judge(&before, &cases);
}
