//! AS OF, pins and histories, while others write.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use ::types::{Height, SqlState, Stamp, TableId, Value};
use engine::RetentionSettings;
use storage::Snapshot;

use super::{Client, Node, Row, block_on, code, protocols};

const SECOND_US: i64 = 1_000_000;

fn retaining(protocol: &str, policy: &str) -> Node {
    retaining_within(protocol, policy, 0)
}

/// Each block comes a second after the one before.
fn retaining_within(protocol: &str, policy: &str, undo_bytes_max: u64) -> Node {
    let policy = policy.parse().unwrap();
    let seconds = AtomicI64::new(0);
    let clock = Arc::new(move || seconds.fetch_add(1, Ordering::Relaxed) * SECOND_US);
    Node::retaining(protocol, clock, RetentionSettings { policy, undo_bytes_max, pins: None })
}

fn head(node: &Node) -> Height {
    node.database.engine.head().height
}

async fn run(client: &mut Client, text: &str) -> Vec<Row> {
    client.run(text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

type Dump = Vec<(TableId, Vec<u8>, Stamp, Vec<u8>)>;

/// Every row of a snapshot, with the stamp of its last change.
fn dump(snapshot: &Snapshot) -> Dump {
    let mut rows = Vec::new();
    for table in snapshot.catalog().tables() {
        table.each_row(snapshot.height(), &mut |key, slot, stamp| {
            let mut image = Vec::new();
            let read = table.append_image(slot, snapshot.height(), &mut image);
            assert_eq!(read, Ok(Some(stamp)));
            rows.push((table.id(), key.to_vec(), stamp, image));
            ControlFlow::Continue(())
        });
    }
    snapshot.check().unwrap();
    rows
}

#[test]
fn a_statement_reads_the_rows_and_the_schema_of_a_block() {
    block_on(async {
        let node = retaining("serial", "every 1 block keep 1000");
        let mut client = node.session();
        run(&mut client, "CREATE TABLE earlier (id int PRIMARY KEY)").await;
        let create = head(&node) + 1;
        run(&mut client, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
        run(&mut client, "INSERT INTO t VALUES (1, 10), (2, 20)").await;
        let first = head(&node);
        run(&mut client, "UPDATE t SET v = v + 1 WHERE id = 1").await;
        run(&mut client, "ALTER TABLE t ADD COLUMN w text").await;
        run(&mut client, "DELETE FROM t WHERE id = 2").await;
        run(&mut client, "CREATE TABLE u (id int PRIMARY KEY)").await;
        let last = head(&node);
        for filler in 0..20 {
            run(&mut client, &format!("INSERT INTO u VALUES ({filler})")).await;
        }
        let old =
            run(&mut client, &format!("SELECT * FROM t AS OF BLOCK {first} ORDER BY id")).await;
        let row = |id, v| -> Row { [Value::Int(id), Value::Int(v)].into() };
        assert_eq!(old, [row(1, 10), row(2, 20)]);
        let join = format!(
            "SELECT a.v + b.v FROM t AS OF BLOCK {first} a, t AS OF BLOCK {first} b \
             WHERE a.id = 1 AND b.id = 2"
        );
        // Where a clause stands before an alias, the alias is the table's.
        assert_eq!(run(&mut client, &join).await[0][0], Value::Int(30));
        let middle = first + 1;
        let sum = format!("SELECT sum(v) FROM t AS OF BLOCK {middle}");
        assert_eq!(run(&mut client, &sum).await[0][0], Value::Int(31));
        let missing = client.run(&format!("SELECT * FROM u AS OF BLOCK {first}")).await;
        let missing = missing.unwrap_err();
        assert_eq!(missing.code(), SqlState::UNDEFINED_TABLE);
        let detail = missing.fields().detail.clone().unwrap();
        assert!(detail.contains(&format!("schema of block {first}")), "{detail}");
        let unborn = client.run(&format!("SELECT * FROM t AS OF BLOCK {}", create - 1)).await;
        assert_eq!(code(unborn), SqlState::UNDEFINED_TABLE);
        let column = client.run(&format!("SELECT w FROM t AS OF BLOCK {first}")).await;
        assert_eq!(code(column), SqlState::UNDEFINED_COLUMN);
        let future = client.run("SELECT * FROM t AS OF BLOCK 1000000").await;
        assert_eq!(code(future), SqlState::INVALID_PARAMETER_VALUE);
        for refused in [
            format!("INSERT INTO u SELECT id + 100 FROM t AS OF BLOCK {last}"),
            format!(
                "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS \
                 'SELECT count(*) FROM t AS OF BLOCK {last}'"
            ),
        ] {
            let refused = client.run(&refused).await;
            assert_eq!(code(refused), SqlState::FEATURE_NOT_SUPPORTED);
        }
        node.verify();
    });
}

#[test]
fn a_time_names_the_newest_block_at_or_before_it_and_now_is_its_time() {
    block_on(async {
        let node = retaining("serial", "every 1 block keep 1000");
        let mut client = node.session();
        run(&mut client, "CREATE TABLE t (id int PRIMARY KEY)").await;
        for id in 0..20 {
            run(&mut client, &format!("INSERT INTO t VALUES ({id})")).await;
        }
        let newest = head(&node) as i64;
        for block in 2..newest {
            let time = node.database.engine.retention().head_of(block as u64).unwrap().time_us;
            let seconds = time / SECOND_US;
            for fraction in [0, 5, 9] {
                let text = format!("2000-01-01 00:00:{seconds:02}.{fraction}+00");
                let query = format!("SELECT count(*), now() FROM t AS OF TIMESTAMP '{text}'");
                let expected: Row = [Value::Int(block - 1), Value::Timestamptz(time)].into();
                assert_eq!(run(&mut client, &query).await, [expected], "{query}");
            }
        }
        let before = client.run("SELECT 1 FROM t AS OF TIMESTAMP '1999-01-01 00:00+00'").await;
        assert_eq!(code(before), SqlState::SNAPSHOT_TOO_OLD);
        node.verify();
    });
}

#[test]
fn a_block_that_is_no_longer_readable_is_refused_and_its_neighbours_are_named() {
    block_on(async {
        let node = retaining("harmony", "every 10 blocks keep 3");
        let mut client = node.session();
        run(&mut client, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
        run(&mut client, "INSERT INTO t VALUES (1, 0)").await;
        while head(&node) < 57 {
            run(&mut client, "UPDATE t SET v = v + 1 WHERE id = 1").await;
        }
        let gone = client.run("SELECT v FROM t AS OF BLOCK 37").await.unwrap_err();
        assert_eq!(gone.code(), SqlState::SNAPSHOT_TOO_OLD);
        let detail = gone.fields().detail.clone().unwrap();
        for expected in ["oldest retained block is 30", "30 (", "40 ("] {
            assert!(detail.contains(expected), "{detail}");
        }
        for block in [30, 40, 50] {
            let query = format!("SELECT v FROM t AS OF BLOCK {block}");
            assert_eq!(client.number(&query).await, block - 2);
        }
        node.verify();
    });
}

#[test]
fn sessions_and_transactions_can_be_put_into_the_past() {
    block_on(async {
        let node = retaining("serial", "every 1 block keep 1000");
        let mut client = node.session();
        run(&mut client, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
        run(&mut client, "INSERT INTO t VALUES (1, 0)").await;
        let first = head(&node);
        for _ in 0..20 {
            run(&mut client, "UPDATE t SET v = v + 1 WHERE id = 1").await;
        }
        let query = "SELECT v FROM t WHERE id = 1";
        run(&mut client, &format!("BEGIN READ ONLY AS OF BLOCK {}", first + 3)).await;
        assert_eq!(client.number(query).await, 3);
        let snapshot = run(&mut client, "SELECT * FROM tally_snapshot()").await;
        assert_eq!(snapshot[0][0], Value::Int(first as i64 + 3));
        let other = client.run(&format!("SELECT v FROM t AS OF BLOCK {first}")).await;
        assert_eq!(code(other), SqlState::ACTIVE_SQL_TRANSACTION);
        run(&mut client, "ROLLBACK").await;
        let writes = client.run(&format!("BEGIN READ WRITE AS OF BLOCK {first}")).await;
        assert_eq!(code(writes), SqlState::FEATURE_NOT_SUPPORTED);

        run(&mut client, &format!("SET tally.as_of_block = {first}")).await;
        assert_eq!(client.number(query).await, 0);
        assert_eq!(client.number(&format!("SELECT v FROM t AS OF BLOCK {}", first + 5)).await, 5);
        run(&mut client, "BEGIN").await;
        assert_eq!(client.number(query).await, 0);
        let write = client.run("UPDATE t SET v = 9").await;
        assert_eq!(code(write), SqlState::READ_ONLY_SQL_TRANSACTION);
        run(&mut client, "ROLLBACK").await;
        for write in ["UPDATE t SET v = 9", "CREATE TABLE u (a int)", "TRUNCATE t"] {
            assert_eq!(code(client.run(write).await), SqlState::READ_ONLY_SQL_TRANSACTION);
        }
        run(&mut client, "RESET tally.as_of_block").await;
        assert_eq!(client.number(query).await, 20);
        let soon = client.run("SET tally.as_of_block = 100000").await;
        assert_eq!(code(soon), SqlState::INVALID_PARAMETER_VALUE);
        run(&mut client, "BEGIN").await;
        let inside = client.run(&format!("SET tally.as_of_block = {first}")).await;
        assert_eq!(code(inside), SqlState::ACTIVE_SQL_TRANSACTION);
        run(&mut client, "ROLLBACK").await;
        node.verify();
    });
}

#[test]
fn a_result_says_its_block_and_repeats() {
    block_on(async {
        let node = retaining("harmony", "none");
        let mut client = node.session();
        run(&mut client, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
        run(&mut client, "INSERT INTO t VALUES (1, 0)").await;
        run(&mut client, "SET tally.report_snapshot = on").await;
        client.session.settings.take_changes();
        let pinned = client.number("SELECT tally_pin('before')").await as u64;
        let notices = client.session.take_notices();
        assert!(notices[0].content.message().contains("restart"), "{notices:?}");
        let query = "SELECT v, now() FROM t";
        let shown = run(&mut client, query).await;
        let changes = client.session.settings.take_changes();
        let [(name, value)] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!(name, "tally.last_snapshot_block");
        let (block, hash) = value.split_once(' ').unwrap();
        assert_eq!(block.parse(), Ok(pinned));
        let same = run(&mut client, "SHOW tally.last_snapshot_block").await;
        assert_eq!(same[0][0], Value::from(value.as_str()));
        for _ in 0..40 {
            run(&mut client, "UPDATE t SET v = v + 1 WHERE id = 1").await;
        }
        let again = format!("{query} AS OF BLOCK {block}");
        assert_eq!(run(&mut client, &again).await, shown);
        let pins = run(&mut client, "SELECT * FROM tally_pins()").await;
        assert_eq!(pins[0][0], Value::text("before"));
        assert_eq!(pins[0][2], Value::from(hash));
        assert_eq!(pins[0][4], Value::text("readable"));
        let taken = client.run("SELECT tally_pin('before')").await;
        assert_eq!(code(taken), SqlState::DUPLICATE_OBJECT);
        run(&mut client, "BEGIN READ ONLY").await;
        for pinning in ["SELECT tally_pin('own')", "SELECT tally_unpin('before')"] {
            let refused = client.run(pinning).await;
            assert_eq!(code(refused), SqlState::READ_ONLY_SQL_TRANSACTION);
            run(&mut client, "ROLLBACK; BEGIN READ ONLY").await;
        }
        run(&mut client, "ROLLBACK; BEGIN").await;
        let own = run(&mut client, query).await;
        let mut other = node.session();
        for _ in 0..20 {
            run(&mut other, "UPDATE t SET v = v + 1 WHERE id = 1").await;
        }
        let of_transaction = client.number("SELECT tally_pin('own')").await;
        run(&mut client, "COMMIT").await;
        for _ in 0..20 {
            run(&mut other, "UPDATE t SET v = v + 1 WHERE id = 1").await;
        }
        let own_again = format!("{query} AS OF BLOCK {of_transaction}");
        assert_eq!(run(&mut client, &own_again).await, own);
        run(&mut other, "CREATE USER bob").await;
        let mut foreign = node.session_of("bob");
        let refused = foreign.run("SELECT tally_unpin('before')").await;
        assert_eq!(code(refused), SqlState::INSUFFICIENT_PRIVILEGE);
        let refused = foreign.run("SELECT tally_pin('bobs')").await;
        assert_eq!(code(refused), SqlState::INSUFFICIENT_PRIVILEGE);
        let refused = foreign.run("SET ledger.protocol = 'serial'").await;
        assert_eq!(code(refused), SqlState::INSUFFICIENT_PRIVILEGE);
        assert_eq!(pins[0][5], Value::text("tally"));
        assert_eq!(run(&mut client, "SELECT tally_unpin('before')").await[0][0], Value::Bool(true));
        assert_eq!(
            run(&mut client, "SELECT tally_unpin('before')").await[0][0],
            Value::Bool(false)
        );
        for _ in 0..10 {
            run(&mut client, "UPDATE t SET v = v + 1 WHERE id = 1").await;
        }
        assert_eq!(code(client.run(&again).await), SqlState::SNAPSHOT_TOO_OLD);
        // The hash is the one that the ledger has.
        let recorded = std::cell::Cell::new(false);
        node.replayed(&mut |store| recorded.set(recorded.get() || store.newest() == pinned));
        assert!(recorded.get());
        node.verify();
    });
}

#[test]
fn a_history_shows_the_versions_that_are_held_newest_first() {
    block_on(async {
        let node = retaining("serial", "every 1 block keep 1000");
        let mut client = node.session();
        let create = "CREATE TABLE t (a int, b text, v int, PRIMARY KEY (a, b))";
        run(&mut client, create).await;
        run(&mut client, "INSERT INTO t VALUES (1, 'x', 0), (1, 'y', 100)").await;
        let inserted = head(&node) as i64;
        for _ in 0..12 {
            run(&mut client, "UPDATE t SET v = v + 1 WHERE a = 1 AND b = 'x'").await;
        }
        run(&mut client, "DELETE FROM t WHERE b = 'x'").await;
        run(&mut client, "INSERT INTO t VALUES (1, 'x', 77)").await;
        let history = run(&mut client, "SELECT * FROM tally_history('t', 1, 'x')").await;
        let blocks: Vec<i64> = history.iter().map(|row| row[0].as_int().unwrap()).collect();
        assert_eq!(blocks, (inserted..inserted + 15).rev().collect::<Vec<_>>());
        let values: Vec<Value> = history.iter().map(|row| row[6].clone()).collect();
        let mut expected = vec![Value::Int(77), Value::Null];
        expected.extend((0..=12).rev().map(Value::Int));
        assert_eq!(values, expected);
        let deleted: Vec<bool> = history.iter().map(|row| row[3] == Value::Bool(true)).collect();
        assert_eq!(deleted.iter().position(|is| *is), Some(1));
        assert_eq!(deleted.iter().filter(|is| **is).count(), 1);
        let notice = client.session.take_notices().remove(0);
        assert!(notice.content.message().contains("complete from block"), "{notice:?}");
        let earlier =
            format!("SELECT * FROM tally_history('t', 1, 'x') AS OF BLOCK {}", inserted + 3);
        assert_eq!(run(&mut client, &earlier).await.len(), 4);
        assert_eq!(run(&mut client, "SELECT * FROM tally_history('t', 9, 'x')").await.len(), 0);
        for (wrong, expected) in [
            ("SELECT * FROM tally_history('t', 1)", "42883"),
            ("SELECT * FROM tally_history('nothing', 1)", "42P01"),
            ("SELECT * FROM tally_history('t', 'x', 1)", "22P02"),
        ] {
            assert_eq!(code(client.run(wrong).await).as_str(), expected, "{wrong}");
        }
        node.verify();
    });
}

#[test]
fn undo_memory_stays_within_its_limit_and_who_reads_the_past_is_told() {
    block_on(async {
        let limit = 4 << 20;
        let node = retaining_within("harmony", "every 10 blocks keep 1000", limit);
        let mut client = node.session();
        run(&mut client, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
        run(&mut client, "INSERT INTO t SELECT n, 0 FROM generate_series(1, 500) n").await;
        let sum = "SELECT sum(v), count(*) FROM t";
        // Each reads its own block, so none of the versions between is free.
        let mut open: Vec<(Client, Vec<Row>)> = Vec::new();
        let (mut reported, mut read_write_reported) = (0, 0);
        let mut random = kit::random::Random::new(7);
        for round in 0..400 {
            run(&mut client, "UPDATE t SET v = v + 1").await;
            let bytes = node.database.engine.store().usage().undo_bytes;
            assert!(bytes < 2 * limit, "{bytes} in round {round}");
            let mut reader = node.session();
            let begin = if round % 2 == 0 { "BEGIN READ ONLY" } else { "BEGIN" };
            run(&mut reader, begin).await;
            let shown = run(&mut reader, sum).await;
            open.push((reader, shown));
            let asked = random.below(open.len() as u64) as usize;
            let (reader, shown) = &mut open[asked];
            match reader.run(sum).await {
                Ok(rows) => assert_eq!(rows, *shown),
                Err(error) => {
                    assert_eq!(error.message(), "snapshot too old");
                    assert!(error.fields().detail.is_some() && error.fields().hint.is_some());
                    read_write_reported +=
                        i32::from(error.code() == SqlState::SERIALIZATION_FAILURE);
                    reported += 1;
                    assert_ne!(code(reader.run(sum).await), SqlState::SNAPSHOT_TOO_OLD, "failed");
                    let (mut reader, _) = open.remove(asked);
                    run(&mut reader, "ROLLBACK").await;
                    assert_eq!(run(&mut reader, sum).await.len(), 1);
                }
            }
        }
        assert!(
            read_write_reported > 0 && reported > read_write_reported,
            "{reported}, {read_write_reported}"
        );
        node.verify();
    });
}

/// The protocols' own replay, by one worker, block by block: an engine that has never had a reader.
#[test]
fn a_snapshot_is_the_replay_up_to_its_block_row_for_row_under_every_protocol() {
    for protocol in protocols() {
        block_on(async {
            let node = retaining(protocol, "every 3 blocks keep 1000");
            let mut client = node.session();
            run(&mut client, "CREATE TABLE t (id int PRIMARY KEY, v int, s text)").await;
            run(&mut client, "CREATE INDEX by_v ON t (v)").await;
            run(&mut client, "INSERT INTO t SELECT n, 0, 'a' FROM generate_series(1, 40) n").await;
            let done = Arc::new(AtomicBool::new(false));
            let writers = (0..3).map(|writer| {
                let mut client = node.session();
                tokio::spawn(async move { write(&mut client, writer).await })
            });
            let writers: Vec<_> = writers.collect();
            let mut reader = node.session();
            let mut seen = BTreeMap::<Height, (Dump, Vec<Row>)>::new();
            let store = Arc::clone(node.database.engine.store());
            while !done.load(Ordering::Acquire) {
                done.store(writers.iter().all(|writer| writer.is_finished()), Ordering::Release);
                for height in store.retained() {
                    let snapshot = store.lease_at(height).unwrap();
                    let text = format!("SELECT * FROM t AS OF BLOCK {height} ORDER BY v, id");
                    let rows = reader.run(&text).await.unwrap_or_default();
                    let now = (dump(&snapshot), rows);
                    let before = seen.entry(height).or_insert_with(|| now.clone());
                    assert!(*before == now, "{protocol}: block {height} is not what it was");
                }
                tokio::task::yield_now().await;
            }
            for writer in writers {
                writer.await.unwrap();
            }
            assert!(seen.len() > 5, "{protocol}: {}", seen.len());
            let mut compared = 0;
            node.replayed(&mut |store| {
                if let Some((expected, _)) = seen.get(&store.newest()) {
                    assert!(dump(&store.snapshot()) == *expected, "{protocol}: {}", store.newest());
                    compared += 1;
                }
            });
            assert_eq!(compared, seen.len());
        });
    }
}

/// Updates, deletes, inserts, moves in the index; what fails by conflict has done nothing.
async fn write(client: &mut Client, writer: i64) {
    for turn in 0..30 {
        let id = (turn * 7 + writer * 13) % 40 + 1;
        let text = match turn % 4 {
            0 => format!("DELETE FROM t WHERE id = {id}"),
            1 => format!("INSERT INTO t VALUES ({}, {turn}, 'new')", 100 + writer * 100 + turn),
            2 => format!("UPDATE t SET v = v + {turn}, s = s || 'x' WHERE id < {id}"),
            _ => format!("UPDATE t SET v = v - 1 WHERE v > {}", turn / 2),
        };
        if let Err(error) = client.run(&text).await {
            assert_eq!(error.code(), SqlState::SERIALIZATION_FAILURE, "{text}: {error}");
        }
    }
}
