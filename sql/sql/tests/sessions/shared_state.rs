//! What sessions share beside the ledger, and what acts on the session alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use types::{DataType, SqlState, Value};

use crate::sessions::{Client, Node, block_on, code};

const LONG: Duration = Duration::from_secs(20);

async fn truth(client: &mut Client, sql: &str) -> bool {
    client.run(sql).await.unwrap()[0][0].as_bool().unwrap()
}

fn reported(client: &mut Client) -> Vec<String> {
    let notifications = client.session.take_notifications().into_iter();
    notifications
        .map(|reported| format!("{} {}", reported.note.channel, reported.note.payload))
        .collect()
}

#[test]
fn advisory_locks_last_as_long_as_their_level_says() {
    block_on(async {
        let node = Node::new("serial");
        let (mut a, mut b) = (node.session(), node.session());
        a.run("SELECT pg_advisory_lock(1), pg_advisory_lock(1)").await.unwrap();
        assert!(!truth(&mut b, "SELECT pg_try_advisory_lock_shared(1)").await);
        assert!(truth(&mut b, "SELECT pg_try_advisory_lock(0, 1)").await, "another number");
        assert!(truth(&mut a, "SELECT pg_advisory_unlock(1)").await);
        assert!(!truth(&mut b, "SELECT pg_try_advisory_lock(1)").await, "counted");
        assert!(truth(&mut a, "SELECT pg_advisory_unlock(1)").await);
        assert!(!truth(&mut a, "SELECT pg_advisory_unlock(1)").await);
        let warned = a.session.take_notices();
        assert_eq!(warned[0].content.message(), "you don't own a lock of type ExclusiveLock");

        // Outside of a transaction the statement is the transaction.
        a.run("SELECT pg_advisory_xact_lock(2)").await.unwrap();
        assert!(truth(&mut b, "SELECT pg_try_advisory_lock(2)").await);
        a.run("BEGIN; SELECT pg_advisory_xact_lock(3); SAVEPOINT s").await.unwrap();
        a.run("SELECT pg_advisory_xact_lock(4); SELECT pg_advisory_lock(5)").await.unwrap();
        assert!(!truth(&mut b, "SELECT pg_try_advisory_lock(4)").await);
        a.run("ROLLBACK TO s").await.unwrap();
        assert!(truth(&mut b, "SELECT pg_try_advisory_lock(4)").await, "taken after the savepoint");
        assert!(!truth(&mut b, "SELECT pg_try_advisory_lock(3)").await);
        a.run("ROLLBACK").await.unwrap();
        assert!(truth(&mut b, "SELECT pg_try_advisory_lock(3)").await);
        assert!(!truth(&mut b, "SELECT pg_try_advisory_lock(5)").await, "the session's own");
        a.run("SELECT pg_advisory_unlock_all()").await.unwrap();
        assert!(truth(&mut b, "SELECT pg_try_advisory_lock(5)").await);
        drop(b);
        assert!(truth(&mut a, "SELECT pg_try_advisory_lock(3)").await, "its holder is gone");
        let rows = a.run("SELECT pg_advisory_lock(NULL)").await.unwrap();
        assert_eq!(rows[0][0], Value::Null);
        node.verify();
    });
}

#[test]
fn a_wait_for_an_advisory_lock_ends_by_grant_timeout_cancel_or_deadlock() {
    block_on(async {
        let node = Node::new("serial");
        let (mut a, mut b) = (node.session(), node.session());
        a.run("SELECT pg_advisory_lock(1)").await.unwrap();
        b.run("SELECT pg_advisory_lock(2); SET lock_timeout = 50").await.unwrap();
        let timed_out = code(b.run("SELECT pg_advisory_lock(1)").await);
        assert_eq!(timed_out, SqlState::LOCK_NOT_AVAILABLE);
        b.run("RESET lock_timeout; SET statement_timeout = 50").await.unwrap();
        assert_eq!(code(b.run("SELECT pg_advisory_lock(1)").await), SqlState::QUERY_CANCELED);
        b.run("RESET statement_timeout").await.unwrap();
        let interrupt = b.interrupt.clone();
        let cancel = async {
            sleep(Duration::from_millis(50)).await;
            interrupt.store(true, Ordering::Release);
        };
        let (canceled, ()) = tokio::join!(b.run("SELECT pg_advisory_lock(1)"), cancel);
        assert_eq!(code(canceled), SqlState::QUERY_CANCELED);
        b.interrupt.store(false, Ordering::Release);

        let waiting = tokio::spawn(async move {
            b.run("SELECT pg_advisory_lock(1)").await.unwrap();
            b
        });
        let locks = &node.database.shared_state.advisory;
        while !locks.shown().iter().any(|shown| !shown.granted) {
            sleep(Duration::from_millis(1)).await;
        }
        let refused = a.run("SELECT pg_advisory_lock(2)").await.unwrap_err();
        assert_eq!(refused.code(), SqlState::DEADLOCK_DETECTED);
        assert!(refused.fields().detail.as_deref().unwrap().contains("advisory lock [0,2,1]"));
        a.run("SELECT pg_advisory_unlock_all()").await.unwrap();
        timeout(LONG, waiting).await.expect("it was granted").unwrap();
        assert!(node.database.shared_state.advisory.shown().is_empty());
        node.verify();
    });
}

#[test]
fn notifications_are_told_at_commit_once_and_outside_of_transactions() {
    block_on(async {
        let node = Node::new("serial");
        let (mut a, mut b) = (node.session(), node.session());
        a.run("CREATE TABLE t (a int PRIMARY KEY)").await.unwrap();
        a.run("LISTEN News; BEGIN; LISTEN other; ROLLBACK").await.unwrap();
        let channels = a.run("SELECT * FROM pg_listening_channels()").await.unwrap();
        assert_eq!(channels, [[Value::text("news")].into()] as [Box<[Value]>; 1]);
        b.run("BEGIN; NOTIFY news, 'one'; SELECT pg_notify('news', 'two')").await.unwrap();
        b.run("NOTIFY news, 'one'; SAVEPOINT s; NOTIFY news, 'three'").await.unwrap();
        b.run("ROLLBACK TO s; INSERT INTO t VALUES (1); NOTIFY other").await.unwrap();
        assert!(reported(&mut a).is_empty());
        b.run("COMMIT").await.unwrap();
        a.run("BEGIN").await.unwrap();
        assert!(reported(&mut a).is_empty(), "within a transaction it is not told");
        a.run("COMMIT").await.unwrap();
        timeout(LONG, a.session.listener().inbox().filled()).await.expect("it is there");
        assert_eq!(reported(&mut a), ["news one", "news two"]);
        b.run("BEGIN; NOTIFY news; ROLLBACK").await.unwrap();
        assert_eq!(
            code(b.run("BEGIN; NOTIFY news; INSERT INTO t VALUES (1)").await).as_str(),
            "23505"
        );
        b.run("COMMIT; NOTIFY news, 'alone'").await.unwrap();
        assert_eq!(reported(&mut a), ["news alone"]);
        a.run("UNLISTEN *; NOTIFY news").await.unwrap();
        assert!(reported(&mut a).is_empty());
        let usage = a.run("SELECT pg_notification_queue_usage()").await.unwrap();
        assert_eq!(usage[0][0], Value::Float(0.0));
        let long = "SELECT pg_notify('news', repeat('x', 8000))";
        assert_eq!(code(a.run(long).await), SqlState::INVALID_PARAMETER_VALUE);
        node.verify();
    });
}

#[test]
fn scripts_that_reset_a_session_do_what_they_say() {
    block_on(async {
        let node = Node::new("serial");
        let (mut a, mut b) = (node.session(), node.session());
        let reset = "SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL;";
        for reset in [reset, "DISCARD ALL"] {
            a.run("SELECT pg_advisory_lock(1); LISTEN x; SET application_name = 'app'")
                .await
                .unwrap();
            a.run(reset).await.unwrap();
            assert!(truth(&mut b, "SELECT pg_try_advisory_lock(1)").await);
            b.run("SELECT pg_advisory_unlock_all()").await.unwrap();
            assert!(a.run("SELECT pg_listening_channels()").await.unwrap().is_empty());
            assert_eq!(a.run("SHOW application_name").await.unwrap()[0][0], Value::text(""));
        }
        a.run("DISCARD PLANS; DISCARD TEMP; DISCARD SEQUENCES").await.unwrap();
        assert_eq!(code(a.run("BEGIN; DISCARD ALL").await), SqlState::ACTIVE_SQL_TRANSACTION);
        a.run("ROLLBACK").await.unwrap();
        assert_eq!(code(a.run("CLOSE c").await), SqlState::INVALID_CURSOR_NAME);
        node.verify();
    });
}

#[test]
fn settings_that_change_nothing_are_kept_and_others_refused_by_name() {
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        for accepted in [
            "SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE",
            "SET ROLE NONE",
            "SET ROLE tally",
            "RESET ROLE",
            "SET SESSION AUTHORIZATION DEFAULT",
            "SET work_mem = '64MB'",
            "SET session_replication_role = origin",
            "SET transform_null_equals TO off",
            "CREATE SCHEMA IF NOT EXISTS public",
            "CREATE EXTENSION IF NOT EXISTS \"uuid-ossp\"",
            "CREATE EXTENSION IF NOT EXISTS plpgsql",
        ] {
            client.run(accepted).await.unwrap_or_else(|error| panic!("{accepted}: {error}"));
        }
        for (refused, state) in [
            ("SET ROLE other", "22023"),
            ("SET SESSION AUTHORIZATION other", "22023"),
            ("SET session_replication_role = replica", "0A000"),
            ("SET transform_null_equals = 1", "0A000"),
            ("CREATE EXTENSION IF NOT EXISTS citext", "0A000"),
            ("CREATE SCHEMA public", "42P06"),
            ("SET nope = 1", "42704"),
            ("SHOW app.nope", "42704"),
        ] {
            assert_eq!(code(client.run(refused).await).as_str(), state, "{refused}");
        }
        let set = "SELECT set_config('search_path', '', false)";
        assert_eq!(client.run(set).await.unwrap()[0][0], Value::text(""));
        assert_eq!(client.run("SHOW search_path").await.unwrap()[0][0], Value::text(""));
        let local = "BEGIN; SELECT set_config('app.user', 'ada', true); SET LOCAL work_mem = '1MB'";
        client.run(local).await.unwrap();
        assert_eq!(client.run("SHOW app.user").await.unwrap()[0][0], Value::text("ada"));
        client.run("COMMIT").await.unwrap();
        assert_eq!(client.run("SHOW work_mem").await.unwrap()[0][0], Value::text("64MB"));
        assert_eq!(code(client.run("SHOW app.user").await), SqlState::UNDEFINED_OBJECT);
        let text = |value: &str| Value::text(value);
        let types = [Some(DataType::Text), Some(DataType::Text)];
        let values = [text("app.user"), text("eve")];
        let set = client.run_typed("SELECT set_config($1, $2, false)", &types, &values).await;
        assert_eq!(set.unwrap()[0][0], text("eve"));
        let long = format!("SET app.long = '{}'", "x".repeat(300 << 10));
        assert_eq!(code(client.run(&long).await), SqlState::PROGRAM_LIMIT_EXCEEDED);
        node.verify();
    });
}

#[test]
fn the_sessions_clock_moves_and_a_sleep_ends_when_it_is_cancelled() {
    block_on(async {
        let ticks = AtomicI64::new(0);
        let clock = Arc::new(move || ticks.fetch_add(1, Ordering::Relaxed));
        let node = Node::with_clock("serial", clock);
        let mut client = node.session();
        client.run("CREATE TABLE t (a timestamptz)").await.unwrap();
        client.run("BEGIN").await.unwrap();
        let clocks = "SELECT clock_timestamp(), pg_sleep(0.001), clock_timestamp(), now(), \
                      statement_timestamp()";
        let first = client.run(clocks).await.unwrap().remove(0);
        let second = client.run(clocks).await.unwrap().remove(0);
        let us = |value: &Value| match value {
            Value::Timestamptz(us) => *us,
            other => panic!("{other:?}"),
        };
        assert!(us(&first[0]) < us(&first[2]) && us(&first[2]) < us(&second[0]));
        assert_eq!(first[3], second[3], "a transaction has one now()");
        assert!(us(&first[4]) <= us(&first[0]) && us(&first[4]) < us(&second[4]));
        // What a block runs has the block's time.
        client.run("INSERT INTO t SELECT clock_timestamp(); COMMIT").await.unwrap();
        let interrupt = client.interrupt.clone();
        let cancel = async {
            sleep(Duration::from_millis(50)).await;
            interrupt.store(true, Ordering::Release);
        };
        let (slept, ()) = tokio::join!(timeout(LONG, client.run("SELECT pg_sleep(600)")), cancel);
        assert_eq!(code(slept.expect("it ended")), SqlState::QUERY_CANCELED);
        client.interrupt.store(false, Ordering::Release);
        assert!(!truth(&mut client, "SELECT pg_cancel_backend(4711)").await, "there is none");
        assert_eq!(client.session.take_notices()[0].content.code().as_str(), "01000");
        node.verify();
    });
}
