//! Schema changes between what a client was told and what its block does.

use ::types::{SqlState, Value};

use super::{Node, block_on, code, protocols};

/// A reader between two blocks sees the one or the other, never data of one under the schema of
/// the other.
#[test]
fn schema_and_data_of_a_snapshot_belong_together() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
        client.run("INSERT INTO t VALUES (1)").await.unwrap();
        let before = node.database.engine.store().snapshot();
        let database = node.database.clone();
        let reader = tokio::task::spawn_blocking(move || {
            let mut pairs = 0;
            loop {
                let snapshot = database.engine.store().snapshot();
                let versioned = database.schema.of(&snapshot);
                let bound = versioned.catalog.table("t").unwrap();
                let stored = snapshot.table(bound.id()).unwrap();
                assert_eq!(bound.schema.columns.len(), stored.schema().columns.len());
                pairs += 1;
                if stored.schema().columns.len() == 21 {
                    return pairs;
                }
            }
        });
        for column in 0..20 {
            client.run(&format!("ALTER TABLE t ADD COLUMN c{column} int")).await.unwrap();
        }
        assert!(reader.await.unwrap() > 0);
        assert_eq!(node.database.schema.of(&before).version, 1);
        assert_eq!(client.run("SELECT * FROM t").await.unwrap()[0].len(), 21);
        node.verify();
    });
}

#[test]
fn a_prepared_statement_keeps_the_result_that_it_was_described_with() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
        client.run("INSERT INTO t VALUES (1)").await.unwrap();
        let mut prepare = |text: &str| {
            let parsed = client.session.parse(text).unwrap().remove(0);
            client.session.prepare(parsed, &[]).unwrap()
        };
        let (all, one) = (prepare("SELECT * FROM t"), prepare("SELECT id FROM t"));
        client.run("ALTER TABLE t ADD COLUMN more int").await.unwrap();
        let answer = client.session.execute(&all, &[]).await;
        assert_eq!(code(answer), SqlState::FEATURE_NOT_SUPPORTED);
        assert!(client.session.execute(&one, &[]).await.is_ok());
    });
}

/// A transaction that began before a schema change cannot be told what its reads mean after it.
#[test]
fn a_transaction_that_a_schema_change_overtakes_is_not_serializable() {
    let changes = [
        "ALTER TABLE t ADD PRIMARY KEY (id)",
        "ALTER TABLE t ADD COLUMN more int",
        "ALTER TABLE t DROP COLUMN other",
        "CREATE INDEX ON t (other)",
        "DROP TABLE t",
        "DROP TABLE t; CREATE TABLE t (id int, other int)",
        "TRUNCATE t",
    ];
    block_on(async {
        for protocol in protocols() {
            let node = Node::new(protocol);
            let (mut client, mut other) = (node.session(), node.session());
            for change in changes {
                other.run("DROP TABLE IF EXISTS t").await.unwrap();
                other.run("CREATE TABLE t (id int, other int)").await.unwrap();
                other.run("CREATE TABLE IF NOT EXISTS log (id int PRIMARY KEY)").await.unwrap();
                other.run("INSERT INTO t VALUES (1, 2), (2, 1)").await.unwrap();
                client.run("BEGIN").await.unwrap();
                assert_eq!(client.number("SELECT other FROM t WHERE id = 1").await, 2);
                assert_eq!(client.number("SELECT count(*) FROM t WHERE id > 1").await, 1);
                client.run("INSERT INTO log SELECT count(*) + 10 FROM log").await.unwrap();
                if let Err(error) = other.run(change).await {
                    panic!("{change}: {error}");
                }
                let end = client.run("COMMIT").await;
                assert_eq!(code(end), SqlState::SERIALIZATION_FAILURE, "{change}");
            }
            assert_eq!(client.number("SELECT count(*) FROM log").await, 0);
            node.verify();
        }
    });
}

/// One that has read nothing of what a schema change has changed commits after it.
#[test]
fn a_transaction_is_told_of_the_changes_that_it_rests_on_alone() {
    let work = ["SELECT v FROM t WHERE id = 1", "INSERT INTO u VALUES (7)", "SELECT * FROM seen"];
    // What is changed, and whether it commits.
    let changes = [
        ("CREATE TABLE more (id int)", true),
        ("CREATE INDEX ON other (v)", true),
        ("DROP TABLE other", true),
        ("ALTER TABLE u ADD COLUMN v int DEFAULT 3", true),
        ("ALTER TABLE t ALTER COLUMN v SET DEFAULT 5", true),
        ("CREATE TABLE child (id int PRIMARY KEY REFERENCES t)", true),
        ("CREATE VIEW seen_too AS SELECT id FROM other", true),
        ("TRUNCATE other", true),
        ("CREATE INDEX ON t (v)", false),
        ("ALTER TABLE t RENAME TO t2", false),
        ("TRUNCATE t", false),
        ("CREATE OR REPLACE VIEW seen AS SELECT 2 AS v", false),
        ("DROP VIEW seen", false),
        ("ALTER TABLE u RENAME TO u2", false),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$", false),
    ];
    block_on(async {
        for protocol in ["serial", "quecc", "silo"] {
            for (change, commits) in changes {
                let node = Node::new(protocol);
                let (mut client, mut other) = (node.session(), node.session());
                for statement in [
                    "CREATE TABLE t (id int PRIMARY KEY, v int)",
                    "CREATE TABLE u (id int PRIMARY KEY)",
                    "CREATE TABLE other (id int PRIMARY KEY, v int)",
                    "CREATE VIEW seen AS SELECT 1 AS v",
                    "INSERT INTO t VALUES (1, 1)",
                ] {
                    other.run(statement).await.unwrap();
                }
                client.run("BEGIN").await.unwrap();
                for statement in work {
                    client.run(statement).await.unwrap();
                }
                other.run(change).await.unwrap();
                let end = client.run("COMMIT").await;
                assert_eq!(end.is_ok(), commits, "{protocol}: {change}: {end:?}");
                if !commits {
                    assert_eq!(code(end), SqlState::SERIALIZATION_FAILURE);
                }
                node.verify();
            }
        }
    });
}

/// That something was not there is an answer as well.
#[test]
fn a_transaction_that_was_told_of_an_error_rests_on_the_whole_schema() {
    block_on(async {
        let node = Node::new("harmony");
        let (mut client, mut other) = (node.session(), node.session());
        other.run("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
        client.run("BEGIN").await.unwrap();
        client.run("SAVEPOINT s").await.unwrap();
        assert_eq!(code(client.run("SELECT * FROM u").await), SqlState::UNDEFINED_TABLE);
        client.run("ROLLBACK TO s").await.unwrap();
        client.run("INSERT INTO t VALUES (1)").await.unwrap();
        other.run("CREATE TABLE u (id int PRIMARY KEY)").await.unwrap();
        assert_eq!(code(client.run("COMMIT").await), SqlState::SERIALIZATION_FAILURE);
        node.verify();
    });
}

/// The last of several changes fails: none has happened.
#[test]
fn a_schema_change_happens_whole_or_not_at_all() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int, v int)").await.unwrap();
        client.run("INSERT INTO t VALUES (1, 1), (1, 2)").await.unwrap();
        let change = "ALTER TABLE t ADD COLUMN more int DEFAULT 5, ADD PRIMARY KEY (id)";
        assert_eq!(code(client.run(change).await), SqlState::UNIQUE_VIOLATION);
        client.run("INSERT INTO t VALUES (3, 3)").await.unwrap();
        let stored = node.database.engine.store().tables();
        assert_eq!(stored[0].schema().visible_columns().count(), 2);
        assert_eq!(client.number("SELECT sum(v) FROM t").await, 6);
        node.verify();
    });
}

/// Arguments that were read by the types of one schema mean nothing under another.
#[test]
fn arguments_that_no_longer_fit_are_not_serializable() {
    block_on(async {
        let node = Node::new("serial");
        let (mut client, mut other) = (node.session(), node.session());
        client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
        let recreate = "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v text)";
        let text = "INSERT INTO t VALUES ($1, $2)";
        let body = |id| {
            let arguments = [Value::Int(id), Value::Int(2)];
            engine::Body::statement(text, engine::ParameterTypes::default(), arguments)
        };
        let first = node.submit(body(1)).await.unwrap().unwrap();
        assert!(first.outcome.is_committed());
        other.run(recreate).await.unwrap();
        let second = node.submit(body(2)).await.unwrap().unwrap();
        assert!(matches!(second.outcome, concurrency::Outcome::Retry(_)), "{:?}", second.outcome);
        node.verify();
    });
}

/// Each operation of an ALTER TABLE finds the table, its rows and its indexes as the one before has
/// left them.
#[test]
fn operations_of_one_statement_see_what_those_before_them_did() {
    let set_up = "CREATE TABLE t (id int PRIMARY KEY, v int, w int, x int);
         INSERT INTO t VALUES (1, 10, 5, NULL), (2, 20, 5, 1);
         CREATE TABLE bare (a int, b int); INSERT INTO bare VALUES (1, 1), (2, 1)";
    // Each of them fails in an operation that is not the first; none of it may stay.
    let refused = [
        ("ALTER TABLE t ADD COLUMN c int DEFAULT 5, ADD UNIQUE (c)", "23505"),
        ("ALTER TABLE t ADD COLUMN c int DEFAULT 5, ADD CHECK (c > v)", "23514"),
        ("ALTER TABLE t ADD COLUMN c int, ALTER COLUMN c SET NOT NULL", "23502"),
        ("ALTER TABLE t ADD COLUMN c int DEFAULT 7, ADD FOREIGN KEY (c) REFERENCES t", "23503"),
        ("ALTER TABLE t DROP COLUMN v, ADD COLUMN v int DEFAULT 5, ADD UNIQUE (v)", "23505"),
        ("ALTER TABLE t ADD UNIQUE (v), ADD UNIQUE (v, id), ADD UNIQUE (w)", "23505"),
        ("ALTER TABLE t DROP COLUMN w, ALTER COLUMN x SET NOT NULL", "23502"),
        ("ALTER TABLE bare ADD PRIMARY KEY (a), ADD UNIQUE (b)", "23505"),
        ("ALTER TABLE bare ADD PRIMARY KEY (a), ADD CHECK (b > a)", "23514"),
    ];
    let taken = [
        "ALTER TABLE t ADD COLUMN c int DEFAULT 5, ADD CHECK (c < v)",
        "ALTER TABLE t ADD UNIQUE (v), ADD CHECK (v >= 10), ALTER COLUMN w SET NOT NULL",
        "ALTER TABLE t ADD COLUMN d int, ADD UNIQUE (d), ADD FOREIGN KEY (d) REFERENCES t",
        "ALTER TABLE bare ADD PRIMARY KEY (a), ADD UNIQUE (b, a), ADD CHECK (a > 0)",
    ];
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run(set_up).await.unwrap();
        let rows = "SELECT count(*) FROM t WHERE v >= 10 AND w = 5";
        for (change, expected) in refused {
            assert_eq!(code(client.run(change).await).as_str(), expected, "{change}");
            assert_eq!(client.run("SELECT * FROM t").await.unwrap()[0].len(), 4, "{change}");
            assert_eq!(client.number(rows).await, 2, "{change}");
        }
        for change in taken {
            if let Err(error) = client.run(change).await {
                panic!("{change}: {error}");
            }
            assert_eq!(client.number(rows).await, 2, "{change}");
        }
        let again = client.run("INSERT INTO t (id, v, w) VALUES (3, 10, 5)").await;
        assert_eq!(code(again), SqlState::UNIQUE_VIOLATION);
        node.verify();
    });
}

/// Rows that follow their parents, and rows written anew as another type, alike when they are run
/// again.
#[test]
fn keys_change_with_their_parents_and_with_their_types_under_every_protocol() {
    block_on(async {
        for protocol in protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            for text in [
                "CREATE TABLE p (id int PRIMARY KEY, v int)",
                "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON UPDATE CASCADE)",
                "INSERT INTO p SELECT n, n FROM generate_series(1, 4) n",
                "INSERT INTO c SELECT n, n % 4 + 1 FROM generate_series(1, 12) n",
                "UPDATE p SET id = id + 10 WHERE id > 2",
                "BEGIN; UPDATE p SET id = 100 WHERE id = 1; SET CONSTRAINTS ALL IMMEDIATE; COMMIT",
            ] {
                client.run(text).await.unwrap_or_else(|error| panic!("{protocol} {text}: {error}"));
            }
            assert_eq!(client.number("SELECT sum(p) FROM c").await, 3 * (100 + 2 + 13 + 14));
            client.run("BEGIN; ALTER TABLE c ALTER p TYPE bigint").await.unwrap();
            client.run("INSERT INTO c VALUES (13, 2); COMMIT").await.unwrap();
            for (text, expected) in [
                ("ALTER TABLE c ALTER p TYPE int USING p + 1", "23503"),
                ("ALTER TABLE c ALTER p TYPE text", "42804"),
                ("ALTER TABLE c ALTER id TYPE int USING 1", "23505"),
                ("ALTER TABLE c ALTER id TYPE int USING 100 / (id - 5)", "22012"),
            ] {
                assert_eq!(code(client.run(text).await).as_str(), expected, "{protocol} {text}");
            }
            client.run("ALTER TABLE c ALTER id TYPE text USING 'n' || id").await.unwrap();
            let found = "SELECT p::int FROM c WHERE id = 'n13'";
            assert_eq!(client.number(found).await, 2, "{protocol}");
            client.run("ALTER INDEX c_pkey RENAME TO c_key").await.unwrap();
            client.run("ALTER TABLE c RENAME CONSTRAINT c_p_fkey TO up").await.unwrap();
            let twice = client.run("INSERT INTO c VALUES ('n13', 2)").await.unwrap_err();
            assert_eq!(twice.fields().constraint.as_deref(), Some("c_key"), "{protocol}");
            node.verify();
        }
    });
}

/// A dump makes routines before the tables that they name.
#[test]
fn a_routine_may_come_before_what_it_names() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        let counts = |name: &str, language: &str, table: &str| match language {
            "sql" => format!(
                "CREATE FUNCTION {name}() RETURNS bigint LANGUAGE sql \
                 AS 'SELECT count(*) FROM {table}'"
            ),
            _ => format!(
                "CREATE FUNCTION {name}() RETURNS bigint LANGUAGE plpgsql AS $$ \
                 DECLARE found bigint; BEGIN SELECT count(*) INTO found FROM {table}; \
                 RETURN found; END $$"
            ),
        };
        for language in ["sql", "plpgsql"] {
            let early = counts(&format!("f_{language}"), language, "later");
            let error = client.run(&early).await.unwrap_err();
            assert_eq!(error.code(), SqlState::UNDEFINED_TABLE);
            assert!(error.fields().hint.as_ref().unwrap().contains("check_function_bodies"));
        }
        assert_eq!(
            code(client.run("SET check_function_bodies = perhaps").await),
            SqlState::INVALID_PARAMETER_VALUE
        );
        client.run("SET check_function_bodies = false").await.unwrap();
        for language in ["sql", "plpgsql"] {
            let name = format!("f_{language}");
            client.run(&counts(&name, language, "later")).await.unwrap();
            client.run("BEGIN").await.unwrap();
            client.run(&counts(&format!("{name}_too"), language, "later")).await.unwrap();
            client.run("COMMIT").await.unwrap();
            let wrong = client.run(&counts("g", language, "later ORDER")).await;
            assert_eq!(code(wrong), SqlState::SYNTAX_ERROR);
            let call = format!("SELECT {name}()");
            assert_eq!(code(client.run(&call).await), SqlState::UNDEFINED_TABLE);
        }
        client.run("CREATE TABLE later (id int PRIMARY KEY)").await.unwrap();
        client.run("INSERT INTO later VALUES (1), (2)").await.unwrap();
        for name in ["f_sql", "f_sql_too", "f_plpgsql", "f_plpgsql_too"] {
            assert_eq!(client.number(&format!("SELECT {name}()")).await, 2, "{name}");
        }
        node.verify();
    });
}

/// PostgreSQL has a view's `*` stand for what there was when the view was made.
#[test]
fn a_view_reads_the_columns_that_it_was_made_over() {
    block_on(async {
        let node = Node::new("harmony");
        let mut client = node.session();
        for text in [
            "CREATE TABLE q (a int PRIMARY KEY); CREATE TABLE r (a int, c int)",
            "INSERT INTO q VALUES (1); INSERT INTO r VALUES (1, 7)",
            "CREATE VIEW star AS SELECT * FROM q",
            "CREATE VIEW named AS SELECT q.*, 1 AS k FROM q",
            "CREATE VIEW both AS SELECT 'x' AS s, * FROM q UNION ALL SELECT 'y', 2",
            "CREATE VIEW natural AS SELECT * FROM q NATURAL JOIN r",
            "CREATE VIEW own (z) AS WITH w AS (SELECT * FROM q AS o) SELECT * FROM w",
            "ALTER TABLE q ADD COLUMN c int DEFAULT 5, ADD COLUMN k int",
        ] {
            client.run(text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
        }
        for (view, columns, rows) in
            [("star", 1, 1), ("named", 2, 1), ("both", 2, 2), ("natural", 2, 1), ("own", 1, 1)]
        {
            let found = client.run(&format!("SELECT * FROM {view}")).await.unwrap();
            assert_eq!((found[0].len(), found.len()), (columns, rows), "{view}");
        }
        // One that is made anew reads what there is by now.
        client.run("CREATE OR REPLACE VIEW star AS SELECT * FROM q").await.unwrap();
        assert_eq!(client.run("SELECT * FROM star").await.unwrap()[0].len(), 3);
        node.verify();
    });
}
