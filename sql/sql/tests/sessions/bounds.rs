//! What a program may raise and how long it may run, inside blocks and outside.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ::types::SqlState;

use engine::RetentionSettings;
use kit::pool::Pool;
use sql::session::SessionMemory;

use super::{Client, Node, block_on, code};
use crate::promises::Promise;

pub const TIMED_OUT: Promise =
    Promise::new("a statement ends behind its timeout", Duration::from_millis(100)).times(5.0);

/// What takes hours, in every operator that has a loop of its own.
const ENDLESS: [&str; 14] = [
    "SELECT count(*) FROM t a, t b, t c, t d",
    "SELECT count(*) FROM t a JOIN t b ON a.v = b.v JOIN t c ON c.v = b.v JOIN t d ON d.v = c.v",
    "SELECT count(*) FROM generate_series(1, 100000000000) n WHERE n < 0",
    "SELECT id FROM t a WHERE v = (SELECT count(*) FROM t b, t c, t d, t e)",
    "SELECT turn()",
    "SELECT a.id FROM t a, t b, t c, t d ORDER BY a.id + b.id + c.id + d.id LIMIT 1",
    "SELECT id FROM t a WHERE v = (SELECT count(*) FROM t b, t c, t d WHERE b.id <> a.id)",
    "SELECT id FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b, t c WHERE b.v + c.v = a.id + 5000)
         AND (SELECT max(b.id + c.id) FROM t b, t c WHERE b.id <> a.id) < 0",
    "SELECT count(*) FROM t a, LATERAL (SELECT b.id FROM t b, t c, t d WHERE b.id <> a.id) x",
    "SELECT a.v FROM t a, t b, t c, t d EXCEPT SELECT 1",
    "SELECT 0 INTERSECT ALL SELECT a.v FROM t a, t b, t c, t d",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n FROM r) SELECT count(*) FROM r",
    "WITH RECURSIVE r AS (SELECT 0 AS n UNION SELECT (n + 1) % 7 FROM r, t a, t b, t c)
         SELECT max(n) FROM r",
    "SELECT a.v, count(*) FROM t a, t b, t c, t d GROUP BY CUBE (a.v, b.v)",
];

async fn prepare_endless(client: &mut Client) {
    client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
    client.run("INSERT INTO t SELECT n, 1 FROM generate_series(1, 1000) n").await.unwrap();
    let turn = "CREATE FUNCTION turn() RETURNS int LANGUAGE plpgsql AS
                $$ BEGIN LOOP NULL; END LOOP; RETURN 1; END $$";
    client.run(turn).await.unwrap();
}

/// Outside a transaction, and inside one that has written the table it scans.
#[test]
fn whatever_a_session_runs_can_be_ended_by_a_timeout_and_by_its_client() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        prepare_endless(&mut client).await;
        for begun in ["", "BEGIN", "BEGIN; UPDATE t SET v = 1 WHERE id < 10"] {
            for endless in ENDLESS {
                client.run(begun).await.unwrap();
                client.run("SET statement_timeout = 30").await.unwrap();
                let started = Instant::now();
                let error = client.run(endless).await.unwrap_err();
                // The one that gathers its rows may come to that bound first.
                let sorts = endless.contains("ORDER BY") && error.code() == SqlState(*b"54000");
                assert!(sorts || error.code() == SqlState::QUERY_CANCELED, "{endless}: {error}");
                assert!(sorts || error.message().ends_with("statement timeout"));
                println!("{begun} {endless}");
                TIMED_OUT.hold(started.elapsed() - Duration::from_millis(30));
                client.run("ROLLBACK").await.unwrap();
                client.run("SET statement_timeout = 0").await.unwrap();

                client.run(begun).await.unwrap();
                client.interrupt.store(true, Ordering::Relaxed);
                let error = client.run(endless).await.unwrap_err();
                assert!(error.message().ends_with("user request"), "{endless}: {error}");
                client.interrupt.store(false, Ordering::Relaxed);
                client.run("ROLLBACK").await.unwrap();
            }
        }
        node.verify();
    });
}

/// Much work or memory in one expression, in every way there is: `V` is a long text.
const BOMBS: [&str; 24] = [
    "length(translate(V, V, ''))",
    "length(translate(V, repeat('b', 2000000) || V, V))",
    "length(trim(both V from V))",
    "length(rtrim(V, repeat('bc', 1000000)))",
    "(V || 'b') LIKE ('%' || repeat('a', 1000000) || '%c')",
    "V ILIKE repeat('%a', 1000000) || 'b'",
    "V LIKE repeat('%_', 1000000) || 'b'",
    "length(replace(V, 'a', 'aa'))",
    "length(repeat(V, 3))",
    "length(repeat(repeat(repeat(repeat('a', 1000), 1000), 50), 1))",
    "length(lpad('', 60000000, V))",
    "length(rpad('', 60000000, 'ä'))",
    "position(repeat('a', 1000000) || 'b' in V)",
    "length(split_part(V, 'a', 1900000))",
    "length(reverse(upper(lower(initcap(V)))))",
    "length(encode(sha256(decode(repeat('ab', 1000000), 'hex')), 'hex'))",
    "length(concat_ws(V, 'a', 'b', 'c'))",
    "length(V || V || V)",
    "left(V, -1) = right(V, -1)",
    "substring(V from 2) < substring(V from 3)",
    "cardinality(array_cat(ARRAY[V, V], ARRAY[V]))",
    "array_position(ARRAY[V, V], V || 'b')",
    "V = ANY(ARRAY[V || 'a', V || 'b'])",
    "ascii(V::bytea::text)",
];

/// Those that a block is given too, since in a build for tests its budget lasts long.
const BOMBS_IN_BLOCKS: [usize; 3] = [0, 5, 16];

/// A thousand of them at once take long: a block refuses them, and elsewhere a timeout ends them.
#[test]
fn no_expression_takes_long_in_a_block_or_cannot_be_ended_outside() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v text)").await.unwrap();
        client.run("INSERT INTO t SELECT n, 'v' FROM generate_series(1, 1000) n").await.unwrap();
        client.run("SET ledger.transaction_units_max = 10000000").await.unwrap();
        for (place, bomb) in BOMBS.iter().enumerate() {
            let bomb = bomb.replace('V', "repeat('a', 2000000 + length(v))");
            if BOMBS_IN_BLOCKS.contains(&place) {
                let update = format!("UPDATE t SET v = left(({bomb})::text, 10)");
                let error = client.run(&update).await.map(drop).unwrap_err();
                assert_eq!(error.code(), SqlState::STATEMENT_TOO_COMPLEX, "{bomb}: {error}");
                assert!(error.fields().hint.is_some());
            }
            client.run("SET statement_timeout = 50").await.unwrap();
            let started = Instant::now();
            let error = client.run(&format!("SELECT ({bomb})::text FROM t")).await;
            let error = error.map(drop).unwrap_err();
            let ended = [SqlState::QUERY_CANCELED, SqlState::PROGRAM_LIMIT_EXCEEDED];
            assert!(ended.contains(&error.code()), "{bomb}: {error}");
            println!("{bomb}");
            TIMED_OUT.hold(started.elapsed().saturating_sub(Duration::from_millis(50)));
            client.run("SET statement_timeout = 0").await.unwrap();
        }
        assert_eq!(client.number("SELECT count(*) FROM t WHERE v = 'v'").await, 1000);
        node.verify();
    });
}

/// Rows with long values are bounded by their bytes.
#[test]
fn memory_is_bounded_in_blocks_and_outside() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v text)").await.unwrap();
        let long = "SELECT n, repeat('x', 40000000) FROM generate_series(1, 300) n";
        let error = client.run(&format!("INSERT INTO t {long}")).await.map(drop).unwrap_err();
        let bounds = [SqlState::STATEMENT_TOO_COMPLEX, SqlState::PROGRAM_LIMIT_EXCEEDED];
        assert!(bounds.contains(&error.code()), "{error}");
        assert!(error.fields().hint.is_some());
        for query in [
            long.to_owned(),
            format!("SELECT array_agg(v) FROM ({long}) x (n, v)"),
            format!("SELECT n FROM ({long}) x (n, v) ORDER BY v || n::text"),
            format!("SELECT count(*) FROM (SELECT DISTINCT n, v FROM ({long}) x (n, v)) y"),
            format!(
                "SELECT v, count(*) FROM (SELECT n, v || n::text FROM ({long}) z (n, v)) x (n, v) GROUP BY v"
            ),
        ] {
            let error = client.run(&query).await.map(drop).unwrap_err();
            assert_eq!(error.code(), SqlState::OUT_OF_MEMORY, "{query}: {error}");
            assert!(error.fields().detail.as_deref().unwrap_or("").contains("query_memory"));
        }
        client.run("SET tally.query_memory = '64kB'").await.unwrap();
        let small = "SELECT repeat('x', 1000) FROM generate_series(1, 100) n";
        assert_eq!(code(client.run(small).await), SqlState::OUT_OF_MEMORY);
        client.run("RESET tally.query_memory").await.unwrap();
        client.run(small).await.unwrap();
        assert_eq!(client.number("SELECT count(*) FROM t").await, 0);
        node.verify();
    });
}

/// A timeout is no business of a block: whether a transaction is in it must not depend on a clock.
#[test]
fn a_timeout_does_not_reach_into_a_block() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        prepare_endless(&mut client).await;
        client.run("SET statement_timeout = 10").await.unwrap();
        let slow = "UPDATE t SET v = v + 1 WHERE v < (SELECT count(*) FROM t b)";
        // On a loaded machine it may be withdrawn before the sequencer has woken.
        while let Err(error) = client.run(slow).await {
            assert_eq!(error.code(), SqlState::QUERY_CANCELED, "{error}");
        }
        client.run("SET statement_timeout = 0").await.unwrap();
        assert_eq!(client.number("SELECT sum(v) FROM t").await, 2000);
        node.verify();
    });
}

/// What waits behind a slow block is in no block yet: its client can have it back, and its key.
#[test]
fn a_statement_that_waits_for_a_block_can_be_given_up() {
    block_on(async {
        for protocol in ["serial", "harmony", "2pl", "silo"] {
            let node = Node::new(protocol);
            let mut client = node.session();
            prepare_endless(&mut client).await;
            client.run("CREATE TABLE u (id int PRIMARY KEY)").await.unwrap();
            let mut busy = node.session();
            let slow = "INSERT INTO u SELECT 7 + count(*)
                FROM t a, t b, generate_series(1, 2) n";
            let slow = tokio::spawn(async move { busy.run(slow).await.map(drop) });
            // A schema change waits for the block that is open, under every protocol.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let mut withdrawn = 0;
            for id in 0.. {
                if slow.is_finished() {
                    break;
                }
                client.run("SET statement_timeout = 20").await.unwrap();
                client.run(&format!("SET tally.transaction_key = 'k{id}'")).await.unwrap();
                let waits = format!("CREATE TABLE w{id} (id int PRIMARY KEY)");
                match client.run(&waits).await.map(drop) {
                    Ok(()) => {}
                    Err(error) => {
                        assert_eq!(error.code(), SqlState::QUERY_CANCELED, "{error}");
                        withdrawn += 1;
                        client.run("SET statement_timeout = 0").await.unwrap();
                        let kept = client.run("SHOW tally.transaction_key").await.unwrap();
                        assert_eq!(kept[0][0].as_text(), Some(&*format!("k{id}")));
                        let gone = client.run(&format!("SELECT * FROM w{id}")).await;
                        assert_eq!(code(gone), SqlState::UNDEFINED_TABLE);
                    }
                }
            }
            client.run("SET statement_timeout = 0").await.unwrap();
            slow.await.unwrap().unwrap();
            assert!(withdrawn > 0, "{protocol}");
            client.run("INSERT INTO u VALUES (1)").await.unwrap();
            node.verify();
        }
    });
}

/// What sessions hold together is bounded: results that are not read, open transactions, COPY,
/// statements that were prepared.
#[test]
fn what_all_sessions_hold_is_bounded() {
    block_on(async {
        let memory = SessionMemory {
            pool: Pool::new(40 << 20),
            statements_max: 20,
            statement_bytes_max: 20_000,
            cached_statements_max: 10,
        };
        let pool = Arc::clone(&memory.pool);
        let node = Node::with("serial", Arc::new(|| 0), RetentionSettings::default(), memory);
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v text)").await.unwrap();
        let rows =
            |count| format!("SELECT n, repeat('x', 100000) FROM generate_series(1, {count}) n");
        let mut held = Vec::new();
        let refused = loop {
            match held.len() % 2 {
                0 => client.run("BEGIN").await.unwrap(),
                _ => client.run("ROLLBACK").await.unwrap(),
            };
            match client.answer(&rows(50)).await {
                Ok(answer) => held.push(answer),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.code(), SqlState::OUT_OF_MEMORY);
        assert!(refused.fields().hint.as_deref().unwrap().contains("session_memory_bytes_max"));
        assert!((6..9).contains(&held.len()), "{}", held.len());
        client.run("ROLLBACK").await.unwrap();
        assert!(pool.leased_bytes() >= 30 << 20);
        let mut other = node.session();
        other.run("INSERT INTO t VALUES (1, 'v')").await.unwrap();
        assert_eq!(other.number("SELECT count(*) FROM t").await, 1);
        held.clear();
        assert_eq!(pool.leased_bytes(), 0);

        // What a transaction has written, too, until it ends.
        client.run("BEGIN").await.unwrap();
        client
            .run(&format!("INSERT INTO t SELECT n + 10, v FROM ({}) x (n, v)", rows(60)))
            .await
            .unwrap();
        assert!(pool.leased_bytes() > 5 << 20);
        let more = format!("INSERT INTO t SELECT n + 1000, v FROM ({}) x (n, v)", rows(200));
        assert_eq!(code(client.run(&more).await), SqlState::OUT_OF_MEMORY);
        client.run("ROLLBACK").await.unwrap();
        assert_eq!(pool.leased_bytes(), 0);

        let prepare = |n| format!("PREPARE p{n} AS SELECT 1");
        for n in 0..20 {
            client.run(&prepare(n)).await.unwrap();
        }
        assert_eq!(code(client.run(&prepare(20)).await), SqlState::OUT_OF_MEMORY);
        client.run("DEALLOCATE ALL").await.unwrap();
        let long = format!("PREPARE p AS SELECT '{}'", "x".repeat(20_000));
        assert_eq!(code(client.run(&long).await), SqlState::OUT_OF_MEMORY);
        // Many short tokens are what takes memory.
        let many = format!("SELECT 1 IN (1{})", ",1".repeat(100_000));
        assert_eq!(code(client.run(&many).await), SqlState::OUT_OF_MEMORY);
        assert_eq!(pool.leased_bytes(), 0);
        node.verify();
    });
}

/// What a transaction has read is required at its COMMIT, and until then remembered.
#[test]
fn what_transactions_have_read_is_bounded() {
    block_on(async {
        for protocol in ["serial", "2pl"] {
            let memory = SessionMemory { pool: Pool::new(4 << 20), ..SessionMemory::default() };
            let pool = Arc::clone(&memory.pool);
            let node = Node::with(protocol, Arc::new(|| 0), RetentionSettings::default(), memory);
            let mut client = node.session();
            let function = "CREATE FUNCTION found(n int) RETURNS bigint LANGUAGE plpgsql AS $$
                 DECLARE c bigint := 0; v bigint;
                 BEGIN FOR i IN 1..n LOOP
                     SELECT count(*) INTO v FROM t WHERE id = i; c := c + v;
                 END LOOP; RETURN c; END $$";
            for text in
                ["CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (7)", function]
            {
                client.run(text).await.unwrap();
            }
            let much = "SELECT found(60000)";
            // Who requires nothing remembers nothing.
            for begin in ["SELECT 1", "BEGIN READ ONLY"] {
                client.run(begin).await.unwrap();
                assert_eq!(client.number(much).await, 1, "{protocol}");
                assert_eq!(client.number(much).await, 1, "{protocol}");
                client.run("ROLLBACK").await.unwrap();
            }
            assert_eq!(pool.leased_bytes(), 0);
            client.run("BEGIN").await.unwrap();
            assert_eq!(client.number("SELECT found(5000)").await, 1);
            client.run("SAVEPOINT s").await.unwrap();
            let refused = client.run(much).await.unwrap_err();
            assert_eq!(refused.code(), SqlState::OUT_OF_MEMORY, "{protocol}: {refused}");
            let hint = refused.fields().hint.clone().unwrap();
            assert!(hint.contains("session_memory_bytes_max"), "{hint}");
            assert!(pool.leased_bytes() > 1 << 19 && pool.leased_bytes() <= 4 << 20);
            client.run("ROLLBACK").await.unwrap();
            assert_eq!(pool.leased_bytes(), 0, "{protocol}");
            // As much as there is room for commits.
            client.run("BEGIN").await.unwrap();
            assert_eq!(client.number("SELECT found(5000)").await, 1);
            client.run("INSERT INTO t SELECT count(*) + 100000 FROM t").await.unwrap();
            client.run("COMMIT").await.unwrap();
            assert_eq!(client.number("SELECT count(*) FROM t").await, 2);
            assert_eq!(pool.leased_bytes(), 0, "{protocol}");
            node.verify();
        }
    });
}

/// What a transaction may take is the ledger's to say, under every protocol and in replays, from
/// the block after the change on.
#[test]
fn the_ledgers_parameters_bound_transactions() {
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            client.run("CREATE TABLE t (id int PRIMARY KEY, v int, w text)").await.unwrap();
            let fill = "INSERT INTO t SELECT n, 1, '' FROM generate_series(1, 400) n";
            client.run(fill).await.unwrap();
            let much = "UPDATE t SET v = 1 WHERE v < (SELECT count(*) FROM t b, t c)";
            let long = "UPDATE t SET w = repeat('x', 10000) WHERE id > 250";
            let number = |what: &str| format!("SET ledger.transaction_{what}");
            for begun in ["", "BEGIN"] {
                for (parameter, low, high, statement, expected) in [
                    ("units_max", 100_000, 50_000_000, much, SqlState::STATEMENT_TOO_COMPLEX),
                    ("bytes_max", 1 << 20, 1 << 30, long, SqlState::PROGRAM_LIMIT_EXCEEDED),
                ] {
                    client.run(&format!("{} = {low}", number(parameter))).await.unwrap();
                    client.run(begun).await.unwrap();
                    let error = client.run(statement).await.unwrap_err();
                    assert_eq!(error.code(), expected, "{protocol}, {begun}: {error}");
                    let hint = error.fields().hint.clone().unwrap_or_default();
                    assert!(hint.contains(&format!("ledger.transaction_{parameter}")), "{hint}");
                    client.run("ROLLBACK").await.unwrap();
                    client.run(&format!("{} = {high}", number(parameter))).await.unwrap();
                    client.run(statement).await.unwrap();
                }
            }
            let shown = client.run("SHOW ledger.transaction_units_max").await.unwrap();
            assert_eq!(shown[0][0].as_text(), Some("50000000"));
            node.verify();
        }
    });
}

/// Queries in a transaction that writes, and the least that they take: what a subquery reads for
/// each row around it, both sides of a comparison of sets, all rows of all frames, each turn of a
/// recursion, each set of groups.
const REPEATED: [(&str, u64); 9] = [
    ("SELECT id, (SELECT count(*) FROM t b WHERE b.v <> a.v) FROM t a", 115_600),
    ("SELECT id, 0 FROM t a WHERE NOT EXISTS (SELECT 1 FROM t b WHERE b.v = a.v + 1000)", 115_600),
    (
        "SELECT a.id, x.n FROM t a, LATERAL (SELECT count(*) AS n FROM t b WHERE b.v > a.v) x",
        115_600,
    ),
    ("(SELECT a.id, 0 FROM t a, t b) EXCEPT SELECT id, 1 FROM t", 115_600),
    ("SELECT id, 0 FROM t INTERSECT SELECT a.id, 0 FROM t a, t b", 115_600),
    (
        "SELECT id, count(v) OVER (ORDER BY id ROWS BETWEEN 170 PRECEDING AND 169 FOLLOWING)
             + count(id) OVER (ORDER BY id ROWS BETWEEN 169 PRECEDING AND 170 FOLLOWING) FROM t",
        150_000,
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 60000)
             SELECT n, 0 FROM r WHERE n < 3",
        120_000,
    ),
    (
        "SELECT a.id, count(*) FROM t a, t b GROUP BY GROUPING SETS ((a.id), (a.id)) LIMIT 340",
        231_200,
    ),
    ("SELECT a.id, length(string_agg('x', '' ORDER BY b.id)) FROM t a, t b GROUP BY a.id", 115_600),
];

/// The same on all replicas, to the last unit.
#[test]
fn what_a_query_reads_again_is_paid_for_again() {
    const LOW: u64 = 100_000;
    async fn fits(client: &mut Client, units: u64, query: &str) -> bool {
        client.run(&format!("SET ledger.transaction_units_max = {units}")).await.unwrap();
        let inserted = client.run(&format!("INSERT INTO s {query}")).await;
        match &inserted {
            Ok(_) => drop(client.run("DELETE FROM s").await.unwrap()),
            Err(error) => {
                assert_eq!(error.code(), SqlState::STATEMENT_TOO_COMPLEX, "{query}: {error}");
            }
        }
        inserted.is_ok()
    }
    block_on(async {
        let mut needed = Vec::new();
        for protocol in super::protocols().step_by(5) {
            let node = Node::new(protocol);
            let mut client = node.session();
            client.run("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
            client.run("CREATE TABLE s (id int PRIMARY KEY, n bigint)").await.unwrap();
            client.run("INSERT INTO t SELECT n, n FROM generate_series(1, 340) n").await.unwrap();
            for (place, (query, least)) in REPEATED.into_iter().enumerate() {
                if place == needed.len() {
                    let (mut low, mut high) = (LOW, 2_000_000);
                    while high - low > 1 {
                        let middle = (low + high) / 2;
                        match fits(&mut client, middle, query).await {
                            true => high = middle,
                            false => low = middle,
                        }
                    }
                    println!("{query}: {high} units");
                    assert!(high >= least, "{query}: {high} units");
                    needed.push(high);
                }
                for (units, expected) in [(needed[place] - 1, false), (needed[place], true)] {
                    let fitted = fits(&mut client, units, query).await;
                    assert_eq!(fitted, expected, "{protocol}, {query}: {units} units");
                }
            }
            node.verify();
        }
    });
}

/// The worst that a fuzzer has found: powers of numerics, each of which was paid for as a step.
#[test]
fn numerics_are_paid_for_by_what_they_take() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v numeric)").await.unwrap();
        client.run("INSERT INTO t SELECT n, 1 FROM generate_series(1, 500) n").await.unwrap();
        client.run("SET ledger.transaction_units_max = 100000").await.unwrap();
        let of_ten = |call| format!("UPDATE t SET v = {}", [call; 10].join(" + "));
        client.run(&of_ten("abs(v)")).await.unwrap();
        let refused = client.run(&of_ten("power(v, 3)")).await;
        assert_eq!(code(refused), SqlState::STATEMENT_TOO_COMPLEX);
        node.verify();
    });
}

/// A number of 60,000 digits is squared in a moment, and so it is paid for by its digits.
#[test]
fn long_numerics_are_paid_for_by_their_digits() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v numeric)").await.unwrap();
        client.run("INSERT INTO t VALUES (1, 1e60000 + 7), (2, 7)").await.unwrap();
        client.run("SET ledger.transaction_units_max = 100000").await.unwrap();
        for (expression, fits) in [
            ("v + 1", true),
            ("v * 3", true),
            ("v * v", false),
            ("v * 1e-1 * v", false),
            ("(v + 0.5) % (v - 1)", false),
            ("v / (v + 1.5)", false),
            ("div(v * 1e100, v - 1)", false),
            ("sqrt(v)", false),
            ("power(v, 2)", false),
            ("v + length(v::text)", false),
            ("v + least(v::float8, 1)::numeric", false),
        ] {
            let update = |id| format!("UPDATE t SET v = v + 0 * ({expression}) WHERE id = {id}");
            client.run(&update(2)).await.unwrap_or_else(|e| panic!("{expression}: {e:?}"));
            match client.run(&update(1)).await {
                Ok(_) => assert!(fits, "{expression}"),
                Err(error) => {
                    assert!(!fits, "{expression}: {error:?}");
                    assert_eq!(error.code(), SqlState::STATEMENT_TOO_COMPLEX, "{expression}");
                }
            }
        }
        node.verify();
    });
}

/// Each row's UNIQUE check scans an index of the table that the statement has written so far; were
/// that a look at every row written, the first protocol alone would take an hour.
#[test]
fn a_statement_may_check_and_write_many_rows() {
    block_on(async {
        for (number, protocol) in super::protocols().enumerate() {
            let rows = if number == 0 { 10_000 } else { 1_500 };
            let node = Node::new(protocol);
            let mut client = node.session();
            client.run("CREATE TABLE u (id int PRIMARY KEY, v int UNIQUE)").await.unwrap();
            let fill = format!("INSERT INTO u SELECT n, n FROM generate_series(1, {rows}) n");
            client.run(&fill).await.unwrap();
            client.run("UPDATE u SET v = v + 100000").await.unwrap();
            let again = client.run("UPDATE u SET v = 7 WHERE id > 1000").await;
            assert_eq!(code(again), SqlState::UNIQUE_VIOLATION);
            assert_eq!(client.number("SELECT max(v) FROM u").await, 100_000 + rows);
            node.verify();
        }
    });
}

/// A statement without an end leaves the runtime's workers to the others.
#[test]
fn long_queries_do_not_hold_up_other_sessions() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        prepare_endless(&mut client).await;
        let mut flags = Vec::new();
        let mut running = Vec::new();
        // More than there are workers.
        for _ in 0..4 {
            let mut busy = node.session();
            flags.push(busy.interrupt.clone());
            running.push(tokio::spawn(async move { code(busy.run(ENDLESS[0]).await) }));
        }
        let watchdog = flags.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(20));
            watchdog.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
        });
        let point =
            tokio::spawn(async move { client.number("SELECT v FROM t WHERE id = 1").await });
        assert_eq!(point.await.unwrap(), 1);
        assert!(running.iter().all(|task| !task.is_finished()));
        flags.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
        for task in running {
            assert_eq!(task.await.unwrap(), SqlState::QUERY_CANCELED);
        }
    });
}

/// However long the message that a program raises, the block holds it and the replicas agree.
#[test]
fn a_raised_message_is_cut_before_it_is_recorded() {
    block_on(async {
        for protocol in super::protocols() {
            let node = Node::new(protocol);
            let mut client = node.session();
            client.run("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
            client
                .run(
                    "CREATE PROCEDURE shout(n int) LANGUAGE plpgsql AS $$ BEGIN
                     INSERT INTO t VALUES (n);
                     RAISE EXCEPTION '%', repeat('é', n) USING HINT = repeat('x', n); END $$",
                )
                .await
                .unwrap();
            for length in [10, 20_000] {
                let said = client.run(&format!("CALL shout({length})")).await.unwrap_err();
                assert_eq!(said.message().len(), if length == 10 { 20 } else { 4095 });
                assert!(said.fields().hint.as_ref().unwrap().len() <= 4096);
            }
            node.verify();
        }
    });
}
