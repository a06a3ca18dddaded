//! Temporary tables: a session's own, beside the ledger, under every protocol.

use std::sync::Arc;

use ::types::{SqlState, Value};
use engine::RetentionSettings;
use kit::pool::Pool;
use sql::session::SessionMemory;

use super::{Client, Node, block_on, code, protocols};

async fn run(client: &mut Client, text: &str) {
    client.run(text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
}

fn height(node: &Node) -> u64 {
    node.database.engine.head().height
}

#[test]
fn a_session_has_tables_that_no_block_knows_of() {
    block_on(async {
        for protocol in protocols() {
            let node = Node::new(protocol);
            let (mut client, mut other) = (node.session(), node.session());
            run(&mut client, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
            run(&mut client, "INSERT INTO t SELECT n, n * 10 FROM generate_series(1, 5) n").await;
            let before = height(&node);
            run(&mut client, "CREATE TEMP TABLE x (id serial PRIMARY KEY, v int, w text)").await;
            run(&mut client, "INSERT INTO x (v, w) VALUES (1, 'a'), (2, 'b'), (3, 'c')").await;
            run(&mut client, "UPDATE x SET v = v + 10 WHERE id > 1").await;
            run(&mut client, "DELETE FROM x WHERE w = 'a'").await;
            assert_eq!(client.number("SELECT sum(v) FROM x").await, 25, "{protocol}");
            assert_eq!(client.number("SELECT max(id) FROM pg_temp.x").await, 3);
            let joined = "SELECT sum(t.v) FROM t JOIN x ON x.id = t.id";
            assert_eq!(client.number(joined).await, 50, "{protocol}");
            // None of it was ordered, and none of it is seen elsewhere.
            assert_eq!(height(&node), before, "{protocol}");
            let unseen = other.run("SELECT * FROM x").await;
            assert_eq!(code(unseen), SqlState::UNDEFINED_TABLE);
            run(&mut other, "CREATE TEMP TABLE x (n int); INSERT INTO x VALUES (7)").await;
            assert_eq!(other.number("SELECT n FROM x").await, 7);
            assert_eq!(client.number("SELECT count(*) FROM x").await, 2);
            node.verify();
        }
    });
}

#[test]
fn a_temporary_table_hides_another_one_of_its_name() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        run(&mut client, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
        run(&mut client, "INSERT INTO t VALUES (1, 1)").await;
        run(
            &mut client,
            "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT sum(v) FROM t'",
        )
        .await;
        run(&mut client, "CREATE VIEW seen AS SELECT v FROM t").await;
        assert_eq!(client.number("SELECT v FROM t").await, 1);
        run(&mut client, "CREATE TEMPORARY TABLE t (v int); INSERT INTO t VALUES (50)").await;
        assert_eq!(client.number("SELECT v FROM t").await, 50);
        assert_eq!(client.number("SELECT v FROM public.t").await, 1);
        // What all share means what it means to all.
        assert_eq!(client.number("SELECT f()").await, 1);
        assert_eq!(client.number("SELECT v FROM seen").await, 1);
        run(&mut client, "INSERT INTO public.t VALUES (2, 2)").await;
        run(&mut client, "DROP TABLE t").await;
        assert_eq!(client.number("SELECT sum(v) FROM t").await, 3);
        run(&mut client, "SET search_path = public, pg_temp").await;
        run(&mut client, "CREATE TEMP TABLE t (v int); INSERT INTO pg_temp.t VALUES (8)").await;
        assert_eq!(client.number("SELECT sum(v) FROM t").await, 3);
        assert_eq!(client.number("SELECT sum(v) FROM pg_temp.t").await, 8);
        run(&mut client, "SET search_path = pg_temp, public; CREATE TABLE u (a int)").await;
        run(&mut client, "CREATE TABLE pg_temp.w (a int); DISCARD TEMP").await;
        assert_eq!(code(client.run("SELECT * FROM u").await), SqlState::UNDEFINED_TABLE);
        run(&mut client, "CREATE TABLE pg_temp.w (a int)").await;
        node.verify();
    });
}

#[test]
fn transactions_and_savepoints_take_them_back() {
    block_on(async {
        for protocol in protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            run(&mut client, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
            run(&mut client, "CREATE TEMP TABLE x (id int PRIMARY KEY)").await;
            run(&mut client, "BEGIN; INSERT INTO x VALUES (1); INSERT INTO t VALUES (1, 1)").await;
            run(&mut client, "SAVEPOINT s; INSERT INTO x VALUES (2); CREATE TEMP TABLE y (a int)")
                .await;
            run(&mut client, "INSERT INTO y VALUES (1); ALTER TABLE x ADD COLUMN c int DEFAULT 4")
                .await;
            assert_eq!(client.number("SELECT sum(c) FROM x").await, 8, "{protocol}");
            run(&mut client, "ROLLBACK TO s").await;
            let gone = client.run("SELECT * FROM y").await;
            assert_eq!(code(gone), SqlState::UNDEFINED_TABLE);
            run(&mut client, "ROLLBACK TO s; INSERT INTO x VALUES (3); COMMIT").await;
            assert_eq!(client.number("SELECT sum(id) FROM x").await, 4, "{protocol}");
            assert_eq!(client.number("SELECT count(*) FROM t").await, 1, "{protocol}");
            run(&mut client, "BEGIN; DELETE FROM x; DROP TABLE x; ROLLBACK").await;
            assert_eq!(client.number("SELECT count(*) FROM x").await, 2, "{protocol}");
            run(&mut client, "BEGIN; TRUNCATE x; INSERT INTO x VALUES (9)").await;
            assert_eq!(client.number("SELECT sum(id) FROM x").await, 9, "{protocol}");
            run(&mut client, "COMMIT").await;
            assert_eq!(client.number("SELECT sum(id) FROM x").await, 9, "{protocol}");
            // A statement that fails leaves nothing.
            let twice = client.run("INSERT INTO x VALUES (10), (9)").await;
            assert_eq!(code(twice), SqlState::UNIQUE_VIOLATION);
            assert_eq!(client.number("SELECT count(*) FROM x").await, 1, "{protocol}");
            // Those of a transaction that only reads may be written.
            run(&mut client, "BEGIN READ ONLY; INSERT INTO x VALUES (11); COMMIT").await;
            assert_eq!(client.number("SELECT count(*) FROM x").await, 2, "{protocol}");
            node.verify();
        }
    });
}

#[test]
fn what_was_read_of_the_ledger_still_holds_when_it_is_recorded() {
    block_on(async {
        for protocol in protocols().filter(|protocol| *protocol != "2pl") {
            let node = Node::new(protocol);
            let (mut client, mut other) = (node.session(), node.session());
            run(&mut client, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
            run(&mut client, "CREATE TABLE log (id int PRIMARY KEY, v int)").await;
            run(&mut client, "INSERT INTO t VALUES (1, 10), (2, 20)").await;
            run(&mut client, "CREATE TEMP TABLE x (id int PRIMARY KEY, v int)").await;
            // Through the table of the session a value of the ledger comes into it again.
            run(&mut client, "BEGIN; INSERT INTO x SELECT id, v FROM t").await;
            run(&mut client, "INSERT INTO log SELECT id, v + 1 FROM x").await;
            run(&mut other, "UPDATE t SET v = 99 WHERE id = 1").await;
            let late = client.run("COMMIT").await;
            assert_eq!(code(late), SqlState::SERIALIZATION_FAILURE, "{protocol}");
            assert_eq!(client.number("SELECT count(*) FROM x").await, 0, "{protocol}");
            run(&mut client, "BEGIN; INSERT INTO x SELECT id, v FROM t").await;
            run(&mut client, "INSERT INTO log SELECT id, v + 1 FROM x; COMMIT").await;
            assert_eq!(client.number("SELECT sum(v) FROM log").await, 121, "{protocol}");
            node.verify();
        }
    });
}

#[test]
fn the_ledger_is_asked_for_statements_with_their_rows() {
    block_on(async {
        for protocol in protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            run(&mut client, "CREATE TABLE t (id int PRIMARY KEY, v numeric, w text)").await;
            run(&mut client, "CREATE TEMP TABLE x (id int, v numeric(9, 2), w varchar(5))").await;
            run(&mut client, "INSERT INTO t SELECT * FROM x").await;
            run(&mut client, "INSERT INTO x VALUES (1, 1.5, 'a'), (2, NULL, 'b'), (3, 3, NULL)")
                .await;
            let put = "INSERT INTO t SELECT id + $1, v, w FROM x RETURNING id";
            let rows = client.run_typed(put, &[], &[Value::Int(10)]).await.unwrap();
            assert_eq!(rows.len(), 3, "{protocol}");
            run(&mut client, "UPDATE t SET w = n.w || '!' FROM x AS n WHERE n.id = t.id - 10")
                .await;
            let seen = client.run("SELECT w FROM t ORDER BY id").await.unwrap();
            let shown: Vec<_> = seen.iter().map(|row| row[0].as_text()).collect();
            assert_eq!(shown, [Some("a!"), Some("b!"), None], "{protocol}");
            run(&mut client, "DELETE FROM t USING x WHERE t.id = x.id + 10 AND x.v IS NULL").await;
            run(&mut client, "DELETE FROM t WHERE id IN (SELECT id + 10 FROM x WHERE v > 2)").await;
            assert_eq!(client.number("SELECT sum(id) FROM t").await, 11, "{protocol}");
            let merge = "MERGE INTO t USING x ON t.id = x.id + 10 \
                         WHEN MATCHED THEN UPDATE SET w = 'm' \
                         WHEN NOT MATCHED THEN INSERT VALUES (x.id + 10, x.v, x.w)";
            run(&mut client, merge).await;
            assert_eq!(client.number("SELECT sum(id) FROM t").await, 36, "{protocol}");
            let upsert = "INSERT INTO t SELECT id + 10, v, 'u' FROM x \
                          ON CONFLICT (id) DO UPDATE SET w = excluded.w";
            run(&mut client, &format!("BEGIN; {upsert}; COMMIT")).await;
            let marked = "SELECT count(*) FROM t WHERE w = 'u'";
            assert_eq!(client.number(marked).await, 3, "{protocol}");
            let (rows, with) = ("INSERT INTO t SELECT id + 20, v, w FROM d", "x RETURNING *");
            let both = client.run(&format!("WITH d AS (DELETE FROM {with}) {rows}")).await;
            assert_eq!(code(both), SqlState::FEATURE_NOT_SUPPORTED);
            node.verify();
        }
    });
}

#[test]
fn what_is_made_of_them_ends_when_it_is_said_to() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        run(&mut client, "CREATE TEMP TABLE d (a int) ON COMMIT DELETE ROWS").await;
        run(&mut client, "CREATE TEMP TABLE p (a int) ON COMMIT PRESERVE ROWS").await;
        run(&mut client, "BEGIN; CREATE TEMP TABLE g (a serial) ON COMMIT DROP").await;
        run(&mut client, "INSERT INTO d VALUES (1); INSERT INTO p VALUES (1)").await;
        run(&mut client, "INSERT INTO g DEFAULT VALUES").await;
        assert_eq!(client.number("SELECT count(*) FROM d, p, g").await, 1);
        run(&mut client, "COMMIT").await;
        assert_eq!(client.number("SELECT count(*) FROM d").await, 0);
        assert_eq!(client.number("SELECT count(*) FROM p").await, 1);
        assert_eq!(code(client.run("SELECT * FROM g").await), SqlState::UNDEFINED_TABLE);
        run(&mut client, "BEGIN; DISCARD TEMP; ROLLBACK").await;
        assert_eq!(client.number("SELECT count(*) FROM p").await, 1);
        run(&mut client, "DISCARD TEMP").await;
        assert_eq!(code(client.run("SELECT * FROM p").await), SqlState::UNDEFINED_TABLE);
        run(&mut client, "CREATE TEMP TABLE p (a int); CREATE TEMP VIEW v AS SELECT a FROM p")
            .await;
        run(&mut client, "INSERT INTO p VALUES (4); CREATE VIEW w AS SELECT a + 1 AS b FROM v")
            .await;
        assert_eq!(client.number("SELECT b FROM w").await, 5);
        run(&mut client, "DISCARD ALL").await;
        assert_eq!(code(client.run("SELECT * FROM w").await), SqlState::UNDEFINED_TABLE);
        node.verify();
    });
}

#[test]
fn tables_of_queries_constraints_indexes_and_sequences_are_as_elsewhere() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        run(&mut client, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
        run(&mut client, "INSERT INTO t VALUES (1, 10), (2, 20)").await;
        run(&mut client, "CREATE TEMP TABLE q AS SELECT id, v * 2 AS twice FROM t").await;
        run(&mut client, "SELECT id INTO TEMP r FROM q WHERE twice > 20").await;
        assert_eq!(client.number("SELECT sum(twice) FROM q JOIN r USING (id)").await, 40);
        run(&mut client, "CREATE TEMP TABLE IF NOT EXISTS q (x int)").await;
        run(
            &mut client,
            "CREATE TEMP TABLE c (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \
             n int UNIQUE CHECK (n > 0) DEFAULT 5, p int REFERENCES c)",
        )
        .await;
        run(&mut client, "CREATE INDEX by_p ON c (p); INSERT INTO c DEFAULT VALUES").await;
        for (wrong, expected) in [
            ("INSERT INTO c (n) VALUES (5)", "23505"),
            ("INSERT INTO c (n) VALUES (0)", "23514"),
            ("INSERT INTO c (n, p) VALUES (7, 70)", "23503"),
            ("CREATE TEMP TABLE e (a int REFERENCES t)", "42P16"),
            ("ALTER TABLE t ADD FOREIGN KEY (v) REFERENCES c", "42P16"),
            ("CREATE TABLE e (a int REFERENCES c)", "42P16"),
            ("CREATE TABLE e (a int) ON COMMIT DROP", "42P16"),
            ("CREATE TEMP TABLE public.e (a int)", "42P16"),
            ("DROP TABLE c, t", "0A000"),
            ("DROP TABLE nope", "42P01"),
            ("CREATE TEMP TABLE c (a int)", "42P07"),
            ("INSERT INTO t VALUES (9, nextval('c_id_seq'))", "0A000"),
            ("DO $$ BEGIN DELETE FROM c; END $$", "0A000"),
            ("CREATE FUNCTION g() RETURNS int LANGUAGE sql AS 'SELECT n FROM c'", "0A000"),
        ] {
            assert_eq!(code(client.run(wrong).await).as_str(), expected, "{wrong}");
        }
        run(&mut client, "INSERT INTO c (n, p) VALUES (6, 1), (7, 1)").await;
        assert_eq!(client.number("SELECT count(*) FROM c WHERE p = 1").await, 2);
        assert!(client.number("SELECT currval('c_id_seq')").await > 1);
        let next = client.number("SELECT nextval('c_id_seq')").await;
        assert_eq!(client.number("SELECT nextval('c_id_seq')").await, next + 1);
        run(&mut client, "CREATE TEMP SEQUENCE free START 5").await;
        assert_eq!(client.number("SELECT nextval('free')").await, 5);
        run(&mut client, "BEGIN; SELECT setval('free', 50); ROLLBACK").await;
        assert_eq!(client.number("SELECT nextval('pg_temp.free')").await, 6);
        // Rows without a key are in the order in which they came, over many transactions.
        run(&mut client, "CREATE TEMP TABLE plain (n int)").await;
        for n in 0..50 {
            run(&mut client, &format!("INSERT INTO plain VALUES ({n})")).await;
        }
        let rows = client.run("SELECT n FROM plain").await.unwrap();
        let rows: Vec<_> = rows.iter().map(|row| row[0].as_int().unwrap()).collect();
        assert_eq!(rows, (0..50).collect::<Vec<_>>());
        // The ledger's schema changes beneath.
        run(&mut client, "ALTER TABLE t ADD COLUMN more int DEFAULT 3").await;
        assert_eq!(client.number("SELECT sum(more) FROM t JOIN q USING (id)").await, 6);
        node.verify();
    });
}

#[test]
fn they_are_bounded_and_what_is_deleted_is_given_back() {
    block_on(async {
        let memory = SessionMemory { pool: Pool::new(1 << 30), ..SessionMemory::default() };
        let pool = Arc::clone(&memory.pool);
        let clock: engine::Clock = Arc::new(|| 0);
        let node = Node::with("harmony", clock, RetentionSettings::default(), memory);
        let mut client = node.session();
        run(&mut client, "CREATE TEMP TABLE x (id int PRIMARY KEY, w text)").await;
        let fill = "INSERT INTO x SELECT n, repeat('x', 1000) FROM generate_series(1, 1000) n";
        run(&mut client, fill).await;
        let held = pool.leased_bytes();
        assert!(held > 1_000_000, "{held}");
        for _ in 0..60 {
            run(&mut client, "UPDATE x SET w = w || 'y'").await;
            run(&mut client, "DELETE FROM x").await;
            run(&mut client, fill).await;
        }
        let after = pool.leased_bytes();
        assert!(after < 3 * held, "{held} bytes became {after}");
        run(&mut client, "SET tally.temporary_memory = '2MB'").await;
        let more =
            "INSERT INTO x SELECT n + 2000, repeat('x', 1000) FROM generate_series(1, 2000) n";
        assert_eq!(code(client.run(more).await), SqlState::OUT_OF_MEMORY);
        assert_eq!(client.number("SELECT count(*) FROM x").await, 1000);
        run(&mut client, "DROP TABLE x").await;
        assert!(pool.leased_bytes() < held / 2, "{}", pool.leased_bytes());
        node.verify();
    });
}

#[test]
fn what_is_ordered_is_bound_without_them() {
    block_on(async {
        for protocol in protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            run(&mut client, "CREATE TABLE t (id bigint); CREATE TABLE log (v text)").await;
            run(
                &mut client,
                "CREATE FUNCTION f(p text) RETURNS void LANGUAGE sql \
                 AS 'INSERT INTO log VALUES (p)'",
            )
            .await;
            run(&mut client, "CREATE TEMP TABLE x (id serial, a int)").await;
            let named = "pg_get_serial_sequence('x', 'id')";
            assert_eq!(client.run(&format!("SELECT {named}")).await.unwrap().len(), 1);
            for (wrong, expected) in [
                (format!("INSERT INTO log VALUES ({named})"), "42P01"),
                (format!("INSERT INTO log SELECT {named} FROM t"), "42P01"),
                (format!("CREATE TABLE made AS SELECT {named} AS v"), "0A000"),
                (format!("SELECT f({named})"), "42P01"),
                ("INSERT INTO t VALUES (nextval($$x_id_seq$$))".into(), "0A000"),
                ("INSERT INTO t VALUES (nextval(E'x_id_seq'))".into(), "0A000"),
                ("CREATE SEQUENCE s OWNED BY x.a".into(), "55000"),
                ("ALTER SEQUENCE x_id_seq OWNED BY t.id".into(), "55000"),
            ] {
                let found = client.run(&wrong).await;
                assert_eq!(code(found).as_str(), expected, "{protocol}: {wrong}");
                let found = client.run(&format!("BEGIN; {wrong}; COMMIT")).await;
                assert_eq!(code(found).as_str(), expected, "{protocol}: BEGIN; {wrong}");
                run(&mut client, "ROLLBACK").await;
            }
            assert_eq!(client.number("SELECT nextval($$x_id_seq$$)").await, 1);
            assert_eq!(client.number("SELECT nextval(E'x_id_seq')").await, 2);
            run(&mut client, "INSERT INTO log VALUES ('a')").await;
            assert_eq!(client.number("SELECT count(*) FROM log").await, 1, "{protocol}");
            node.verify();
        }
    });
}

#[test]
fn a_change_of_them_changes_nothing_else() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        run(&mut client, "CREATE TABLE t (id int); INSERT INTO t VALUES (1); CREATE ROLE r").await;
        run(&mut client, "CREATE TEMP TABLE x (id int); INSERT INTO x VALUES (1)").await;
        for wrong in [
            "TRUNCATE x, t",
            "TRUNCATE t, x",
            "BEGIN; TRUNCATE x, t",
            "GRANT SELECT ON x, t TO r",
            "GRANT SELECT (id) ON x, t TO r",
            "REVOKE ALL ON x, t FROM tally",
        ] {
            assert_eq!(code(client.run(wrong).await), SqlState::FEATURE_NOT_SUPPORTED, "{wrong}");
            run(&mut client, "ROLLBACK").await;
            assert_eq!(client.number("SELECT count(*) FROM x, t").await, 1, "{wrong}");
        }
        run(&mut client, "GRANT SELECT ON x TO r; COMMENT ON TABLE x IS 'mine'").await;
        run(&mut client, "TRUNCATE x").await;
        assert_eq!(client.number("SELECT count(*) FROM x").await, 0);
        node.verify();
    });
}

#[test]
fn objects_and_indexes_count_as_rows_do() {
    block_on(async {
        let memory = SessionMemory { pool: Pool::new(1 << 30), ..SessionMemory::default() };
        let pool = Arc::clone(&memory.pool);
        let clock: engine::Clock = Arc::new(|| 0);
        let node = Node::with("harmony", clock, RetentionSettings::default(), memory);
        let mut client = node.session();
        run(&mut client, "SET tally.temporary_memory = '4MB'").await;
        let literal = "x".repeat(100_000);
        let view = |n: usize| format!("CREATE TEMP VIEW v{n} AS SELECT '{literal}' AS a");
        for begin in ["", "BEGIN; "] {
            let mut made = 0;
            run(&mut client, begin).await;
            let refused = loop {
                match client.run(&view(made)).await {
                    Ok(_) => made += 1,
                    Err(error) => break error,
                }
                assert!(made < 50, "views are not bounded");
            };
            assert_eq!(refused.code(), SqlState::OUT_OF_MEMORY);
            assert!(made > 3, "{made}");
            assert!(pool.leased_bytes() > 300_000, "{}", pool.leased_bytes());
            run(&mut client, "ROLLBACK").await;
            run(&mut client, "DISCARD TEMP").await;
        }
        run(&mut client, "CREATE TEMP TABLE x (id int PRIMARY KEY, w text)").await;
        let rows = "INSERT INTO x SELECT n, n || repeat('x', 500) FROM generate_series(1, 4000) n";
        run(&mut client, rows).await;
        run(&mut client, "SET tally.temporary_memory = '2MB'").await;
        for wrong in [
            "CREATE INDEX by_w ON x (w)",
            "ALTER TABLE x ADD COLUMN more text DEFAULT repeat('y', 1000)",
        ] {
            assert_eq!(code(client.run(wrong).await), SqlState::OUT_OF_MEMORY, "{wrong}");
        }
        // What gives back is never refused.
        run(&mut client, "SET tally.temporary_memory = '1MB'; DELETE FROM x WHERE id = 1").await;
        assert_eq!(client.number("SELECT count(*) FROM x").await, 3999);
        run(&mut client, "TRUNCATE x").await;
        run(&mut client, "CREATE INDEX by_w ON x (w); DROP TABLE x").await;
        node.verify();
    });
}

#[test]
fn rows_of_the_ledger_are_locked_beside_them() {
    block_on(async {
        for protocol in ["harmony", "quecc", "serial", "silo", "aria"] {
            let node = Node::new(protocol);
            let (mut client, mut other) = (node.session(), node.session());
            run(&mut client, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
            run(&mut client, "INSERT INTO t VALUES (1, 1), (2, 2)").await;
            run(&mut client, "CREATE TEMP TABLE x (id int); INSERT INTO x VALUES (1)").await;
            run(&mut client, "BEGIN; SELECT * FROM x FOR UPDATE").await;
            assert_eq!(node.database.engine.locks().held(), 0, "{protocol}");
            let both = "SELECT t.v FROM t JOIN x ON x.id = t.id FOR UPDATE";
            assert_eq!(client.number(both).await, 1, "{protocol}");
            let taken = other.run("SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT").await;
            assert_eq!(code(taken), SqlState::LOCK_NOT_AVAILABLE, "{protocol}");
            run(&mut other, "SELECT v FROM t WHERE id = 2 FOR UPDATE NOWAIT").await;
            run(&mut client, "COMMIT").await;
            run(&mut other, "SELECT v FROM t WHERE id = 1 FOR UPDATE NOWAIT").await;
            node.verify();
        }
    });
}

#[test]
fn serial_columns_of_them_count_where_nothing_else_is_written() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        run(&mut client, "CREATE SEQUENCE s").await;
        run(&mut client, "CREATE TEMP TABLE x (id serial, v int)").await;
        run(&mut client, "BEGIN READ ONLY; INSERT INTO x (v) VALUES (1), (2)").await;
        run(&mut client, "SELECT setval('x_id_seq', 10); INSERT INTO x (v) VALUES (3)").await;
        run(&mut client, "COMMIT").await;
        assert_eq!(client.number("SELECT max(id) FROM x").await, 11);
        for wrong in ["SELECT nextval('s')", "SELECT setval('s', 4)"] {
            run(&mut client, "BEGIN READ ONLY").await;
            let refused = code(client.run(wrong).await);
            assert_eq!(refused, SqlState::READ_ONLY_SQL_TRANSACTION, "{wrong}");
            run(&mut client, "ROLLBACK").await;
        }
        node.verify();
    });
}

#[test]
fn what_the_ledger_has_taken_stays_though_it_is_not_acknowledged() {
    block_on(async {
        let node = Node::new("harmony");
        // No member will ever sign.
        let (_, unsigned) = tokio::sync::watch::channel(0);
        assert!(node.database.shared_state.certified.set(unsigned).is_ok());
        let mut client = node.session();
        run(&mut client, "CREATE TABLE t (id int); CREATE TEMP TABLE x (id int)").await;
        run(&mut client, "SET tally.acknowledge = 'certified'").await;
        run(&mut client, "BEGIN; INSERT INTO t VALUES (1); INSERT INTO x VALUES (1)").await;
        let answered = client.run("COMMIT").await;
        assert!(answered.is_err(), "{answered:?}");
        assert_eq!(client.number("SELECT count(*) FROM t").await, 1);
        assert_eq!(client.number("SELECT count(*) FROM x").await, 1);
        node.verify();
    });
}

#[test]
fn the_first_of_a_session_may_be_any_and_views_are_looked_at() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        run(&mut client, "CREATE TEMP SEQUENCE first START 7").await;
        assert_eq!(client.number("SELECT nextval('first')").await, 7);
        run(&mut client, "CREATE ROLE ada; REVOKE TEMPORARY ON DATABASE tally FROM PUBLIC").await;
        let mut ada = node.session();
        run(&mut ada, "SET ROLE ada").await;
        let denied = ada.run("CREATE TEMP TABLE own (a int)").await;
        assert_eq!(code(denied), SqlState::INSUFFICIENT_PRIVILEGE);
        run(&mut client, "GRANT TEMPORARY ON DATABASE tally TO ada").await;
        run(&mut ada, "CREATE TEMP TABLE own (a int)").await;
        run(&mut client, "CREATE TABLE z (a int)").await;
        for (view, expected) in [
            ("CREATE TEMP VIEW v AS SELECT nope FROM z", "42703"),
            ("CREATE TEMP VIEW v AS INSERT INTO z VALUES (1) RETURNING *", "42601"),
            ("CREATE VIEW v AS INSERT INTO z VALUES (1) RETURNING *", "42601"),
        ] {
            assert_eq!(code(client.run(view).await).as_str(), expected, "{view}");
        }
        run(&mut client, "CREATE TEMP VIEW v AS SELECT a FROM z").await;
        assert_eq!(client.number("SELECT count(*) FROM v").await, 0);
        node.verify();
    });
}

/// A WITH hides a table from queries, and not what a statement changes.
#[test]
fn what_is_changed_is_no_with() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        run(&mut client, "CREATE TABLE t (id int PRIMARY KEY); CREATE SCHEMA s").await;
        run(&mut client, "CREATE TABLE s.t (id int PRIMARY KEY); CREATE TEMP TABLE t (id int)")
            .await;
        let with = "WITH t AS (SELECT 1 AS id)";
        for (path, table) in [("public", "pg_temp.t"), ("s, public, pg_temp", "s.t")] {
            run(&mut client, &format!("SET search_path = {path}")).await;
            run(&mut client, &format!("{with} INSERT INTO t SELECT id FROM t")).await;
            let set = format!("{with} UPDATE t SET id = 2 FROM t AS w WHERE t.id = w.id");
            run(&mut client, &set).await;
            assert_eq!(client.number(&format!("SELECT id FROM {table}")).await, 2, "{path}");
            run(&mut client, &format!("{with} DELETE FROM t WHERE id > (SELECT id FROM t)")).await;
            assert_eq!(client.number(&format!("SELECT count(*) FROM {table}")).await, 0, "{path}");
        }
        assert_eq!(client.number("SELECT count(*) FROM public.t").await, 0);
        node.verify();
    });
}
