//! Each transaction of a ledger, proven to somebody who has only a block's hash.

use std::sync::Arc;

use bytes::Bytes;
use ledger::block::{Block, BlockSeal};
use ledger::hash::to_hex;
use ledger::{Files, LogOptions, LogReader, LogWriter, RealFiles};
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

/// Writes the ledger anew with the one byte string `was` turned into `is` in the block at `height`,
/// all roots, hashes and checksums made to fit.
fn forge(data: &Path, to: &Path, height: u64, was: &[u8], is: &[u8]) {
    let mut reader = LogReader::open(Arc::new(RealFiles::read_only(data).unwrap())).unwrap();
    let mut begun = LogReader::open(Arc::new(RealFiles::open(to).unwrap())).unwrap();
    assert!(begun.next_block().unwrap().is_none());
    let mut log = LogWriter::resume(begun, LogOptions::default()).unwrap();
    let (mut previous_hash, mut forged) = (None, 0);
    while let Some(encoded) = reader.next_block().unwrap() {
        let Block { header, mut transactions, mut outcomes } = encoded.decode().unwrap();
        if header.height == height {
            for part in transactions.iter_mut().chain(&mut outcomes) {
                let place = part.windows(was.len()).position(|window| window == was);
                let Some(place) = place else { continue };
                let mut bytes = part.to_vec();
                bytes[place..place + was.len()].copy_from_slice(is);
                *part = Bytes::from(bytes);
                forged += 1;
            }
        }
        let seal = BlockSeal {
            ledger_id: header.ledger_id,
            height: header.height,
            previous_hash: previous_hash.unwrap_or(header.previous_hash),
            time_us: header.time_us,
            snapshot_height: header.snapshot_height,
            parameters_hash: header.parameters_hash,
            effects_root: header.effects_root,
        };
        let block = Block::seal(seal, transactions, outcomes).unwrap();
        previous_hash = Some(block.header.hash());
        log.append(&[block.encode().unwrap()]).unwrap();
    }
    assert_eq!(forged, 1);
}

/// Whoever can recompute every hash still cannot make the transactions give other results.
#[test]
fn forged_blocks_are_found_by_running_them_and_the_rows_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    make_ledger(&data);
    let verdict = |name: &str, height: u64, was: &[u8], is: &[u8]| {
        let forged = folder.path().join(name);
        forge(&data, &forged, height, was, is);
        let found = run(&["--output", "json", "verify", path(&forged)]);
        let code = found.status.code();
        (code, json(&found)["verdict"].take())
    };
    // The block of the first INSERT: another value, with the same outcome.
    let (code, found) = verdict("value", 2, b"two", b"toe");
    assert_eq!(code, Some(4), "{found:#}");
    let place = (found["kind"].as_str(), found["height"].as_u64(), found["transaction"].as_u64());
    assert_eq!(place, (Some("differs"), Some(2), Some(0)));
    assert_eq!(found["changes"][1]["table"], "notes");
    assert_eq!(found["changes"][1]["key"], "(2)");
    let detail = found["detail"].as_str().unwrap();
    assert!(detail.contains("inserted notes (2) by transaction 0"), "{detail}");
    // An outcome that was not: the refused INSERT.
    let (code, found) = verdict("outcome", 9, b"23505", b"23514");
    assert_eq!(code, Some(4), "{found:#}");
    let detail = found["detail"].as_str().unwrap();
    assert!(detail.starts_with("block 9, transaction 0: the outcome of `INSERT"), "{detail}");
    assert!(
        detail.contains("expected rejected, 23514") && detail.contains("found rejected, 23505")
    );
    // Nothing changed is nothing found.
    assert_eq!(verdict("same", 2, b"two", b"two").0, Some(0));
}
