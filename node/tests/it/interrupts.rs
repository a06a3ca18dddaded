//! Long statements over the wire: ended by their client or by a timeout, and in no other's way.

use std::time::Duration;

use tokio_postgres::error::SqlState;

use super::promises::Promise;
use super::*;

pub const CANCELLED: Promise =
    Promise::new("a statement ends behind a cancel request", Duration::from_millis(100)).times(5.0);
pub const TIMED_OUT: Promise =
    Promise::new("a statement ends behind its timeout", Duration::from_millis(100)).times(5.0);
const STOPPED: Promise =
    Promise::new("a node ends behind SIGTERM", Duration::from_millis(100)).times(5.0);
pub const ANSWERED: Promise =
    Promise::new("a session is answered beside long statements", Duration::from_millis(50))
        .times(5.0);

const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000000000) n WHERE n < 0";

#[test]
fn long_statements_can_be_ended_and_hold_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path());
    let run = async {
        let client = node.connect().await;
        client.batch_execute("SET statement_timeout = '50ms'").await.unwrap();
        let began = std::time::Instant::now();
        let error = client.simple_query(ENDLESS).await.unwrap_err();
        TIMED_OUT.hold(began.elapsed() - Duration::from_millis(50));
        assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
        assert!(error.as_db_error().unwrap().message().ends_with("statement timeout"));
        // The session goes on.
        client.batch_execute("SET statement_timeout = 0; SELECT 1").await.unwrap();

        // More of them than the node has workers.
        let mut tokens = Vec::new();
        let mut running = Vec::new();
        for _ in 0..6 {
            let busy = node.connect().await;
            tokens.push(busy.cancel_token());
            running.push(tokio::spawn(async move { busy.simple_query(ENDLESS).await }));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        let asked = std::time::Instant::now();
        client.simple_query("SELECT 1").await.unwrap();
        ANSWERED.hold(asked.elapsed());
        assert!(running.iter().all(|task| !task.is_finished()));
        for token in tokens {
            token.cancel_query(tokio_postgres::NoTls).await.unwrap();
        }
        for task in running {
            let error = task.await.unwrap().unwrap_err();
            assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
        }
    };
    let run = async { tokio::time::timeout(Duration::from_secs(60), run).await };
    let ended = tokio::runtime::Runtime::new().unwrap().block_on(run);
    assert!(ended.is_ok(), "sessions wait for those that are busy");
}

/// What takes long in one call, by a value that differs from row to row so that it is computed.
const WORST: [&str; 12] = [
    "SELECT sum(length(translate(repeat('abc', 20000000 + n), 'ab', 'x'))) FROM s",
    "SELECT count(*) FROM s WHERE repeat('ab', 20000000 + n) LIKE '%a%b%c'",
    "SELECT sum(length(trim(both repeat('ab', 9999999) from repeat('ab', 20000000 + n)))) FROM s",
    "SELECT sum(length(replace(repeat('a', 20000000 + n), 'a', 'bb'))) FROM s",
    "SELECT sum(length(lpad('', 50000000 + n, 'é'))) FROM s",
    "SELECT sum(length(encode(repeat('a', 20000000 + n)::bytea, 'hex'))) FROM s",
    "SELECT sum(length(split_part(repeat('a,', 20000000 + n), ',', 19999999))) FROM s",
    "SELECT sum(cardinality(('{' || repeat('1,', 1900000 + n) || '1}')::int[])) FROM s",
    "SELECT n % 1000 FROM generate_series(1, 700000) n ORDER BY n % 1000, -n",
    "SELECT count(*) FROM generate_series(1, 100000) a JOIN generate_series(1, 100000) b
     ON a % 9 = b % 9",
    "SELECT count(*) FROM pg_type a, pg_type b, pg_type c, pg_type d",
    "SELECT a.typname || b.typname || c.typname FROM pg_type a, pg_type b, pg_type c ORDER BY 1",
];

#[test]
fn one_call_or_operator_on_large_values_can_be_ended() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path());
    let run = async {
        let client = node.connect().await;
        client.batch_execute("CREATE TABLE s (n int PRIMARY KEY)").await.unwrap();
        let fill = "INSERT INTO s SELECT n FROM generate_series(1, 500) n";
        client.batch_execute(fill).await.unwrap();
        let long = format!("SELECT 1 IN (1{})", ", 1".repeat(160_000));
        for statement in WORST.into_iter().chain([long.as_str()]) {
            let busy = node.connect().await;
            let token = busy.cancel_token();
            let text = statement.to_owned();
            let running = tokio::spawn(async move {
                let ended = busy.simple_query(&text).await.map(drop);
                (ended, std::time::Instant::now())
            });
            tokio::time::sleep(Duration::from_millis(300)).await;
            let asked = std::time::Instant::now();
            token.cancel_query(tokio_postgres::NoTls).await.unwrap();
            let (ended, at) = running.await.unwrap();
            let shown = &statement[..statement.len().min(60)];
            println!("{shown}");
            CANCELLED.hold(at.saturating_duration_since(asked));
            if let Err(error) = ended {
                let code = error.code().map(SqlState::code);
                assert!(matches!(code, Some("57014" | "53200" | "54000")), "{shown}: {error:?}");
            }
        }
    };
    let run = async { tokio::time::timeout(Duration::from_secs(240), run).await };
    let ended = tokio::runtime::Runtime::new().unwrap().block_on(run);
    assert!(ended.is_ok(), "a statement did not end");
}

/// SIGTERM ends whatever sessions do for their clients, at once and not after the grace period.
#[test]
fn a_stop_waits_for_no_client_and_for_no_query() {
    let folder = tempfile::tempdir().unwrap();
    let settings = ["--set", "stop_wait_ms_max=60000"];
    let mut node = Node::start_with(tally(&[]), folder.path(), &settings);
    let run = async {
        let setup = node.connect().await;
        let table = "CREATE TABLE t (id int PRIMARY KEY)";
        setup.batch_execute(table).await.unwrap();
        let mut running = Vec::new();
        for statement in [ENDLESS, WORST[9], WORST[10], WORST[11]] {
            let busy = node.connect().await;
            running.push(tokio::spawn(async move { busy.simple_query(statement).await.map(drop) }));
        }
        let in_transaction = node.connect().await;
        in_transaction.batch_execute("BEGIN; INSERT INTO t VALUES (1)").await.unwrap();
        let copying = node.connect().await;
        let sink = copying.copy_in::<_, bytes::Bytes>("COPY t FROM STDIN").await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let asked = std::time::Instant::now();
        let pid = rustix::process::Pid::from_child(&node.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        for task in running {
            let error = task.await.unwrap().unwrap_err();
            assert_eq!(error.code(), Some(&SqlState::ADMIN_SHUTDOWN), "{error:?}");
        }
        let status = tokio::task::block_in_place(|| node.child.wait()).unwrap();
        assert_eq!(status.code(), Some(0));
        STOPPED.hold(asked.elapsed());
        drop((in_transaction, sink));
    };
    let run = async { tokio::time::timeout(Duration::from_secs(100), run).await };
    let ended = tokio::runtime::Runtime::new().unwrap().block_on(run);
    assert!(ended.is_ok(), "the node did not stop");
}
