//! Each transaction of a ledger, proven to somebody who has only a block's hash.

use std::sync::Arc;

use ledger::hash::to_hex;
use ledger::{Files, LogReader, RealFiles};
use rustix::process::Signal;

use super::*;

/// A program that shares no line with this one.
fn check_chain(arguments: &[&str]) -> Option<i32> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/check_chain.py");
    let mut command = Command::new("python3");
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.arg(script).args(arguments).status().unwrap().code()
}

const STATEMENTS: [&str; 8] = [
    "CREATE TABLE notes (id bigint PRIMARY KEY, note text)",
    "INSERT INTO notes VALUES (1, 'one'), (2, 'two')",
    "UPDATE notes SET note = note || '!' WHERE id = 1",
    "BEGIN; INSERT INTO notes VALUES (3, 'three'); DELETE FROM notes WHERE id = 2; COMMIT",
    "SET ledger.protocol = 'serial'",
    "CREATE FUNCTION add(n bigint) RETURNS bigint LANGUAGE plpgsql AS $$
     BEGIN INSERT INTO notes VALUES (n, 'added'); RETURN n; END; $$",
    "SELECT add(4)",
    "DELETE FROM notes WHERE id = 4",
];

/// A ledger of all kinds of transactions, one of them rejected. Returns its blocks' hashes and
/// sizes.
fn make_ledger(data: &Path) -> Vec<(String, usize)> {
    let mut node = Node::start(data);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = node.connect().await;
        for text in STATEMENTS {
            client.batch_execute(text).await.unwrap();
        }
        let twice = "INSERT INTO notes VALUES (1, 'again')";
        let refused = client.batch_execute(twice).await.unwrap_err();
        assert_eq!(refused.code().unwrap().code(), "23505");
        // Together, so that some block has several.
        let ids: Vec<i64> = (100..116).collect();
        let text = "INSERT INTO notes VALUES ($1, 'many')";
        let statement = client.prepare(text).await.unwrap();
        let parameters: Vec<[&(dyn tokio_postgres::types::ToSql + Sync); 1]> =
            ids.iter().map(|id| [id as _]).collect();
        let many = parameters.iter().map(|p| client.execute(&statement, p));
        futures::future::try_join_all(many).await.unwrap();
    });
    assert_eq!(node.signal(Signal::TERM), Some(0));
    let files: Arc<dyn Files> = Arc::new(RealFiles::read_only(data).unwrap());
    let mut reader = LogReader::open(files).unwrap();
    let mut blocks = Vec::new();
    while let Some(encoded) = reader.next_block().unwrap() {
        let block = encoded.decode().unwrap();
        blocks.push((to_hex(&encoded.hash()), block.transactions.len()));
    }
    blocks
}

#[test]
fn a_reader_written_from_the_page_reads_transactions_and_outcomes() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let script = format!("{root}clients/read_transaction.py");
    let vectors = format!("{root}docs/vectors/transactions.json");
    let read = Command::new("python3").args([&script, "vectors", &vectors]).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
}

#[test]
fn every_transaction_has_a_receipt_that_two_programs_accept() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let blocks = make_ledger(&data);
    let (head, _) = blocks.last().unwrap();
    assert_eq!(check_chain(&["chain", path(&data), "--head", head]), Some(0));
    let wrong = &blocks[0].0;
    assert_eq!(check_chain(&["chain", path(&data), "--head", wrong]), Some(1));

    let file = folder.path().join("receipt");
    let file = path(&file);
    let mut receipts = 0;
    for (height, (hash, transactions)) in blocks.iter().enumerate() {
        for index in 0..*transactions {
            let (height, index) = (height.to_string(), index.to_string());
            let place = ["--height", &height, "--index", &index, "--out", file];
            let taken = run(&[&["receipt", "--data", path(&data)], &place[..]].concat());
            assert!(taken.status.success(), "block {height}, transaction {index}");
            let ours = |hash: &str| {
                let done = run(&["receipt", "verify", file, "--block-hash", hash]);
                done.status.code()
            };
            let theirs = |hash: &str| check_chain(&["receipt", file, hash]);
            assert_eq!((ours(hash), theirs(hash)), (Some(0), Some(0)));
            let other = &blocks[(receipts + 1) % blocks.len()].0;
            if other != hash {
                assert_eq!((ours(other), theirs(other)), (Some(1), Some(1)));
            }
            receipts += 1;
        }
    }
    assert!(receipts >= STATEMENTS.len() + 17, "{receipts} receipts");
}
