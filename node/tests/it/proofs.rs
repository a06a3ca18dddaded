//! Each transaction of a ledger, proven to a checker that has only a head.

use std::sync::Arc;

use bytes::Bytes;
use ledger::hash::to_hex;
use ledger::{
    Batch, Block, BlockReader, BlockResult, BlockWriter, EffectsDigest, Files, LogOptions,
    OrderSeal, RealFiles, ResultSeal,
};
use rustix::process::Signal;

use super::*;

/// A program that shares no line with this one.
fn check_chain(arguments: &[&str]) -> Option<i32> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../clients/check_chain.py");
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

/// A ledger of all kinds of transactions, one of them rejected. Returns its heads and the
/// sizes of its blocks.
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
    contend(&node);
    assert_eq!(node.signal(Signal::TERM), Some(0));
    let blocks = blocks(data).into_iter();
    blocks.map(|block| (to_hex(&block.hash()), block.batch.envelopes().len())).collect()
}

/// Increments of one row side by side, under a protocol that defers those that meet each other.
fn contend(node: &Node) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = node.connect().await;
        client.batch_execute("SET ledger.protocol = 'aria'").await.unwrap();
        let mut tasks = Vec::new();
        for _ in 0..8 {
            let client = node.connect().await;
            tasks.push(tokio::spawn(async move {
                for _ in 0..6 {
                    let text = "UPDATE notes SET note = note || '.' WHERE id = 3";
                    assert_eq!(client.execute(text, &[]).await.unwrap(), 1);
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
}

fn blocks(data: &Path) -> Vec<Block> {
    let files: Arc<dyn Files> = Arc::new(RealFiles::read_only(data).unwrap());
    let mut reader = BlockReader::open(files).unwrap();
    let mut blocks = Vec::new();
    while let Some(recorded) = reader.next().unwrap() {
        let batch = Batch::of(&recorded.batch).unwrap();
        let result = BlockResult::of(&recorded.result.unwrap()).unwrap();
        blocks.push(Block { batch, result });
    }
    blocks
}

#[test]
fn a_reader_written_from_the_page_reads_transactions_and_outcomes() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
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
    let (mut receipts, mut deferred) = (0, 0);
    let mut last_deferred = None;
    for (ordered, (_, transactions)) in blocks.iter().enumerate() {
        for index in 0..*transactions {
            let height = ordered;
            let (height, index) = (height.to_string(), index.to_string());
            let place = ["--height", &height, "--index", &index, "--out", file];
            let take = ["--output", "json", "receipt", "--data", path(&data)];
            let taken = run(&[&take[..], &place].concat());
            assert!(taken.status.success(), "block {height}, transaction {index}");
            // The block that decided it.
            let reported = json(&taken);
            let decided = reported["decided"].as_u64().unwrap() as usize;
            assert!(decided >= ordered);
            if decided > ordered {
                deferred += 1;
                last_deferred = Some((decided, reported));
            }
            let hash = &blocks[decided].0;
            let ours = |hash: &str| {
                let done = run(&["receipt", "verify", file, "--head", hash]);
                done.status.code()
            };
            let theirs = |hash: &str| check_chain(&["receipt", file, hash]);
            assert_eq!((ours(hash), theirs(hash)), (Some(0), Some(0)));
            let other = &blocks[(receipts + 1) % blocks.len()].0;
            if other != hash && receipts % 4 == 0 {
                assert_eq!((ours(other), theirs(other)), (Some(1), Some(1)));
            }
            receipts += 1;
        }
    }
    assert!(receipts >= STATEMENTS.len() + 17 + 48, "{receipts} receipts");
    assert!(deferred > 0, "no transaction was deferred");
    // Those that a block was handed stand before its own.
    let (decided, reported) = last_deferred.unwrap();
    let height = decided.to_string();
    let at = |position: usize| {
        let place = ["--height", &height, "--position", &position.to_string()];
        let take = ["--output", "json", "receipt", "--data", path(&data)];
        let taken = run(&[&take[..], &place].concat());
        taken.status.success().then(|| json(&taken))
    };
    let all = (0..).map_while(at);
    let handed: Vec<Value> =
        all.take_while(|it| it["height"].as_u64() != Some(decided as u64)).collect();
    assert!(handed.contains(&reported), "{reported:#} is not among {handed:#?}");
}

/// Writes the ledger anew with the one byte string `was` turned into `is` in the block at `height`,
/// all hashes and checksums made to fit, and all roots but that of the effects: what came of it
/// stays what it was.
fn forge(data: &Path, to: &Path, height: u64, was: &[u8], is: &[u8]) {
    let files: Arc<dyn Files> = Arc::new(RealFiles::open(to).unwrap());
    let reader = {
        let mut reader = BlockReader::open(files).unwrap();
        assert!(reader.next().unwrap().is_none());
        reader
    };
    let mut log = BlockWriter::resume(reader, LogOptions::default()).unwrap();
    let mut forged = 0;
    for block in blocks(data) {
        let (order, header) = (block.batch.header(), block.result.header());
        let mut envelopes = block.batch.envelopes().to_vec();
        let mut outcomes = block.result.outcomes().to_vec();
        if order.height == height {
            for part in envelopes.iter_mut().chain(&mut outcomes) {
                let place = part.windows(was.len()).position(|window| window == was);
                let Some(place) = place else { continue };
                let mut bytes = part.to_vec();
                bytes[place..place + was.len()].copy_from_slice(is);
                *part = Bytes::from(bytes);
                forged += 1;
            }
        }
        let seal = OrderSeal {
            ledger_id: order.ledger_id,
            height: order.height,
            previous_order_hash: log.head_order_hash(),
            time_us: order.time_us,
            proposer: order.proposer,
            parameters_hash: order.parameters_hash,
            seen_height: order.seen_height,
        };
        let batch = Batch::seal(seal, envelopes).unwrap();
        let seal = ResultSeal {
            ledger_id: order.ledger_id,
            height: order.height,
            previous_result_hash: log.head_hash(),
            order_hash: batch.hash(),
            snapshot_height: header.snapshot_height,
            executor: header.executor,
            effects: EffectsDigest { count: header.effect_count, root: header.effects_root },
            reorderings: header.reorderings,
            carried_root: header.carried_root,
            state_root: header.state_root,
        };
        let carried = block.result.carried().to_vec();
        let result = BlockResult::seal(seal, outcomes, carried).unwrap();
        log.append_order(&[batch.encode().unwrap()]).unwrap();
        log.append_results(&[result.encode().unwrap()]).unwrap();
    }
    assert_eq!(forged, 1);
}

/// A request and what came of it have to fit. Which alteration is found by what is a test of
/// `recovery`, `adversary`: an owner that also runs what it altered is found by another head alone.
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

/// A client that has nothing but the node's key, or a head, checks what it was told in SQL, by this
/// program and by one that shares no line with it.
#[test]
fn what_a_running_node_proves_holds_for_two_programs() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let node = Node::start(&data);
    let file = folder.path().join("proof");
    let theirs = |trust: &str| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../clients/check_proof.py");
        let done = Command::new("python3").arg(script).arg(&file).arg(trust).output().unwrap();
        (done.status.code(), String::from_utf8(done.stdout).unwrap())
    };
    let ours = |flag: &str, trust: &str| {
        let done = run(&["proof", "verify", path(&file), flag, trust]);
        (done.status.code(), String::from_utf8(done.stdout).unwrap())
    };
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = node.connect().await;
        let ask = async |text: &str| -> Result<String, tokio_postgres::Error> {
            let rows = client.query(text, &[]).await?;
            Ok(rows[0].get::<_, String>(0))
        };
        let code = async |text: &str| {
            let error = ask(text).await.unwrap_err();
            let error = error.as_db_error().unwrap();
            (error.code().code().to_owned(), error.hint().unwrap_or_default().to_owned())
        };
        let setup =
            "CREATE TABLE notes (owner bigint, id bigint, note text, PRIMARY KEY (owner, id))";
        client.batch_execute(setup).await.unwrap();
        let (state, hint) = code("SELECT tally_row_proof('notes', 1, 1)").await;
        assert_eq!((&*state, &*hint), ("55000", "SET ledger.state_root = 1"));
        client.batch_execute("SET ledger.state_root = 1").await.unwrap();
        let old = ask("SELECT tally_signed_head()").await.unwrap();
        let insert =
            "INSERT INTO notes SELECT n / 10, n, 'note ' || n FROM generate_series(1, 99) n";
        client.batch_execute(insert).await.unwrap();
        let reported = client.query_one("SELECT * FROM tally_last_commit()", &[]).await.unwrap();
        let (block, index): (i64, i64) = (reported.get("block"), reported.get("index"));
        let head: String = reported.get("head");
        let key = ask("SELECT tally_verifier_key()").await.unwrap();
        let printed = run(&["proof", "key", "--data", path(&data)]);
        assert_eq!(String::from_utf8(printed.stdout).unwrap().trim_end(), key);

        let row = "SELECT tally_row_proof('notes', 4, 42)";
        for (text, rows) in [
            (row, 1),
            ("SELECT tally_absence_proof('notes', 4, 52)", 0),
            ("SELECT tally_range_proof('notes', 3, 4)", 20),
            ("SELECT tally_range_proof('notes', NULL, 0)", 9),
            ("SELECT tally_prefix_proof('notes', 9)", 10),
            ("SELECT tally_prefix_proof('notes')", 99),
        ] {
            let proof = ask(text).await.unwrap();
            std::fs::write(&file, &proof).unwrap();
            let (exit, says) = ours("--key", &key);
            assert_eq!(exit, Some(0), "{text}");
            assert_eq!(theirs(&key), (exit, says.clone()), "{text}");
            assert_eq!(says.split(' ').count() - 4, rows, "{text}: {says}");
            // Of the newest block, which is the one that the client was told of.
            assert_eq!(ours("--head", &head), (exit, says));
            let wrong = "00".repeat(32);
            assert_eq!((ours("--head", &wrong).0, theirs(&wrong).0), (Some(1), Some(1)));
        }
        let receipt = ask(&format!("SELECT tally_receipt({block}, {index})")).await.unwrap();
        let header = ask(&format!("SELECT tally_head_proof({block})")).await.unwrap();
        for proof in [receipt, header] {
            std::fs::write(&file, &proof).unwrap();
            assert_eq!(theirs(&key).0, Some(0), "{proof}");
            assert_eq!(ours("--key", &key), theirs(&key));
            assert_eq!(ours("--head", &head), theirs(&head));
        }
        let size = |head: &str| head.lines().nth(1).unwrap().to_owned();
        let new = ask("SELECT tally_signed_head()").await.unwrap();
        let (old, new) = (size(&old), size(&new));
        let text = format!("SELECT tally_consistency_proof({old}, {new})");
        std::fs::write(&file, ask(&text).await.unwrap()).unwrap();
        let (exit, says) = theirs(&key);
        assert_eq!((exit, &says), (Some(0), &ours("--key", &key).1));
        assert!(says.starts_with(&format!("consistency {old}:")), "{says}");
        assert!(says.contains(&format!(" {new}:")), "{says}");

        assert_eq!(code("SELECT tally_row_proof('notes', 4, 52)").await.0, "P0002");
        assert_eq!(code("SELECT tally_absence_proof('notes', 4, 42)").await.0, "21000");
        assert_eq!(code("SELECT tally_receipt(99999, 0)").await.0, "22023");
        assert_eq!(code("SELECT tally_consistency_proof(1, 99999)").await.0, "22023");
        assert_eq!(code("SELECT tally_row_proof('notes', 4)").await.0, "42883");
        assert_eq!(code("SELECT tally_range_proof('notes', 4, 3)").await.0, "22023");
        // While rows change, what is answered holds.
        let writer = node.connect().await;
        let writing = tokio::spawn(async move {
            for _ in 0..40 {
                let text = "UPDATE notes SET note = note || '.' WHERE owner = 4";
                writer.execute(text, &[]).await.unwrap();
            }
        });
        let mut lengths = std::collections::BTreeSet::new();
        for _ in 0..10 {
            std::fs::write(&file, ask(row).await.unwrap()).unwrap();
            let (exit, says) = ours("--key", &key);
            assert_eq!(exit, Some(0));
            lengths.insert(says.len());
        }
        writing.await.unwrap();
        std::fs::write(&file, ask(row).await.unwrap()).unwrap();
        lengths.insert(ours("--key", &key).1.len());
        assert!(lengths.len() > 1, "no proof was of a changed row");
    });
    let mode = std::fs::metadata(data.join("node-key")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}
