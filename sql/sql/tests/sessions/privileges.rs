//! Privileges of tables and routines: every replica decides, where a transaction stands.

use engine::Body;
use types::{SqlState, Value};

use super::roles::{Blocks, ddl, statement};
use super::{Node, block_on, code};

const ADD: &str = "CREATE PROCEDURE add(a int) LANGUAGE plpgsql AS \
                   $$ BEGIN IF a > 0 THEN INSERT INTO t VALUES (a); END IF; END $$";

fn call(name: &str, id: i64) -> Body {
    Body::call(name, [Value::Int(id)])
}

fn insert(id: u32) -> Body {
    statement(&format!("INSERT INTO t VALUES ({id})"))
}

#[test]
fn replicas_decide_who_may_do_what_where_it_stands() {
    for protocol in ["serial", "harmony", "aria", "silo", "2pl"] {
        let heads = [1, 2, 8].map(|workers| {
            let mut blocks = Blocks::new(protocol, workers);
            let ended = blocks.block(&[
                ("tally", None, ddl("CREATE ROLE own LOGIN")),
                ("tally", None, ddl("CREATE ROLE guest LOGIN")),
                ("own", None, ddl("CREATE TABLE t (id int PRIMARY KEY)")),
                ("tally", None, ddl("GRANT CREATE ON SCHEMA public TO own")),
                ("own", None, ddl("CREATE TABLE t (id int PRIMARY KEY)")),
                ("own", None, ddl(ADD)),
                (
                    "own",
                    None,
                    ddl(&ADD
                        .replace("add", "add_as")
                        .replace("LANGUAGE", "SECURITY DEFINER LANGUAGE")),
                ),
                ("guest", None, ddl("DROP TABLE t")),
                ("guest", None, ddl("GRANT INSERT ON t TO guest")),
            ]);
            let expected = ["ok", "ok", "42501", "ok", "ok", "ok", "ok", "42501", "42501"];
            assert_eq!(ended, expected, "{protocol}");
            let ended = blocks.block(&[
                ("own", None, insert(1)),
                ("guest", None, insert(2)),
                ("guest", None, call("add", 3)),
                ("guest", None, call("add", 0)),
                ("guest", None, call("add_as", 4)),
                ("tally", Some("guest"), insert(5)),
                ("tally", None, insert(6)),
                ("guest", None, statement("DELETE FROM t")),
            ]);
            let expected = ["ok", "42501", "42501", "ok", "ok", "42501", "ok", "42501"];
            assert_eq!(ended, expected, "{protocol}");
            // Granted and revoked within a block.
            let ended = blocks.block(&[
                ("guest", None, insert(10)),
                ("own", None, ddl("GRANT INSERT ON t TO guest")),
                ("guest", None, insert(11)),
                ("guest", None, call("add", 12)),
                ("own", None, ddl("REVOKE ALL ON t FROM guest")),
                ("guest", None, insert(13)),
                ("guest", None, call("add", 14)),
                ("own", None, ddl("REVOKE EXECUTE ON PROCEDURE add_as FROM PUBLIC")),
                ("guest", None, call("add_as", 15)),
                ("own", None, call("add_as", 16)),
            ]);
            let expected = ["42501", "ok", "ok", "ok", "ok", "42501", "42501", "ok", "42501", "ok"];
            assert_eq!(ended, expected, "{protocol}");
            blocks.replica.head().hash
        });
        assert!(heads.iter().all(|head| *head == heads[0]), "{protocol}");
    }
}

/// What was allowed when a transaction ran may be forbidden when it commits.
#[test]
fn a_transaction_commits_with_the_privileges_that_there_are() {
    block_on(async {
        for protocol in ["harmony", "2pl"] {
            let node = Node::new(protocol);
            let mut tally = node.session();
            let text = "CREATE TABLE t (id int PRIMARY KEY); CREATE USER ada; \
                        GRANT SELECT, INSERT ON t TO ada";
            tally.run(text).await.unwrap();
            let mut ada = node.session_of("ada");
            ada.run("BEGIN; INSERT INTO t VALUES (1)").await.unwrap();
            tally.run("REVOKE INSERT ON t FROM ada").await.unwrap();
            assert_eq!(code(ada.run("COMMIT").await), SqlState::SERIALIZATION_FAILURE);
            let refused = ada.run("INSERT INTO t VALUES (1)").await;
            assert_eq!(code(refused), SqlState::INSUFFICIENT_PRIVILEGE);
            assert_eq!(ada.number("SELECT count(*) FROM t").await, 0);
            // What was prepared is looked at again.
            tally.run("GRANT INSERT ON t TO ada").await.unwrap();
            ada.run("PREPARE put AS INSERT INTO t VALUES ($1)").await.unwrap();
            ada.run("EXECUTE put (1)").await.unwrap();
            tally.run("REVOKE ALL ON t FROM ada").await.unwrap();
            let refused = ada.run("EXECUTE put (2)").await;
            assert_eq!(code(refused), SqlState::INSUFFICIENT_PRIVILEGE);
            tally.run("SET ROLE ada").await.unwrap();
            let refused = tally.run("SELECT * FROM t").await;
            assert_eq!(code(refused), SqlState::INSUFFICIENT_PRIVILEGE);
            tally.run("RESET ROLE").await.unwrap();
            assert_eq!(tally.number("SELECT count(*) FROM t").await, 1);
            for (text, expected) in [
                ("SELECT * FROM tally_history('t', 1)", "42501"),
                ("COPY t TO STDOUT", "42501"),
                ("LOCK TABLE t", "42501"),
                (
                    "MERGE INTO t USING (SELECT 1 AS a) AS s ON t.id = s.a WHEN MATCHED THEN DELETE",
                    "42501",
                ),
                ("CREATE VIEW v AS SELECT * FROM t", "42501"),
                ("CREATE ROLE x", "42501"),
                ("ALTER TABLE t ADD COLUMN v int", "42501"),
                ("DO $$ BEGIN DELETE FROM t; END $$", "42501"),
            ] {
                assert_eq!(code(ada.run(text).await).as_str(), expected, "{text}");
            }
            // A session outlives its role, and has what all have.
            tally
                .run("REVOKE ALL ON t FROM ada; GRANT SELECT, INSERT ON t TO PUBLIC")
                .await
                .unwrap();
            tally.run("DROP ROLE ada; CREATE TABLE other (id int PRIMARY KEY)").await.unwrap();
            assert_eq!(ada.number("SELECT count(*) FROM t").await, 1);
            let refused = ada.run("SELECT * FROM other").await;
            assert_eq!(code(refused), SqlState::INSUFFICIENT_PRIVILEGE);
            let refused = ada.run("INSERT INTO t VALUES (9)").await;
            assert_eq!(code(refused), SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
            node.verify();
        }
    });
}
