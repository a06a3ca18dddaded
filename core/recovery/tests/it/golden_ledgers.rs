//! Ledgers of executor 1 that are checked in, executed again by what this program does today. A
//! difference means that the meaning of a block has changed: that takes a new number, under which
//! the old ledgers are what they were (see `engine::limits`).
//!
//! Where outcomes may change still, as nothing is published under this number, the ledgers are made
//! anew: `GOLDEN=renew cargo test -p recovery golden_ledgers`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::transaction::outcome::Reported;
use engine::{Body, EXECUTOR, ParameterTypes, replay};
use ledger::hash::to_hex;
use ledger::{BlockResult, Files, LogOptions, MemoryFiles, Stream};
use types::Value;

use crate::ledgered::{Ledgered, blocks_of, digest_of, language};

/// Every protocol that replicas can run, and one of those that record the order which they took.
fn golden() -> impl Iterator<Item = &'static str> {
    let all = protocols::ALL.iter().map(|entry| entry.info);
    all.filter(|info| info.deterministic || info.name == "silo").map(|info| info.name)
}

/// Statements in a block.
const GROUP: usize = 5;

fn folder(protocol: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(protocol)
}

fn body(text: String) -> Body {
    if let Some(call) = text.strip_prefix("CALL ") {
        let (name, arguments) = call.trim_end_matches(')').split_once('(').unwrap();
        let arguments = arguments.split(", ").filter(|text| !text.is_empty());
        let value = |text: &str| text.parse().map_or(Value::Null, Value::Int);
        return Body::call(name, arguments.map(value).collect::<Vec<_>>());
    }
    let first = text.split_whitespace().next().unwrap_or_default();
    match ["CREATE", "ALTER", "DROP", "TRUNCATE"].contains(&first) {
        true => Body::Schema { text },
        false => Body::statement(text, ParameterTypes::default(), []),
    }
}

/// One of the script, and one of what has no text in it.
fn bodies() -> Vec<Body> {
    let script = include_str!("../golden/script.sql");
    let statements = script.lines().map(|line| body(line.trim_end_matches(';').to_owned()));
    let mut bodies: Vec<Body> = statements.collect();
    let row = |id: i64| [Value::Int(id), Value::Text("loaded".into())].into();
    bodies.push(Body::load("COPY tags FROM STDIN", (1000..1020).map(row).collect()));
    bodies.push(Body::load("COPY tags FROM STDIN", vec![row(1000)]));
    bodies.push(Body::call("pay", [Value::Int(10), Value::Int(11), Value::Int(3)]));
    bodies.push(Body::call("pay", [Value::Int(10)]));
    let update = "UPDATE accounts SET cents = cents + $1 WHERE id = $2";
    let arguments = [Value::Int(5), Value::Int(2)];
    bodies.push(Body::statement(update, ParameterTypes::default(), arguments));
    bodies.push(Body::Parameter { name: "attempts_max".into(), value: "7".into() });
    bodies.push(Body::Parameter { name: "executor".into(), value: (EXECUTOR + 1).to_string() });
    bodies.push(Body::Parameter { name: "nosuch".into(), value: "7".into() });
    bodies.push(Body::Parameter { name: "state_root".into(), value: "0".into() });
    bodies.push(Body::Checkpoint { height: 3, digest: [3; 32] });
    bodies.push(body("INSERT INTO tags VALUES (2, 'last')".to_owned()));
    bodies
}

fn make(protocol: &str) -> MemoryFiles {
    let files = MemoryFiles::new();
    let mut ledger = Ledgered::new(Arc::new(files.clone()), protocol, 1, &[]);
    let mut bodies = bodies().into_iter().peekable();
    while bodies.peek().is_some() {
        ledger.block(bodies.by_ref().take(GROUP).collect());
    }
    ledger.log.orders.rest().unwrap();
    ledger.log.results.rest().unwrap();
    files
}

fn stored(protocol: &str) -> MemoryFiles {
    let files = MemoryFiles::new();
    for stream in Stream::ALL {
        let folder = folder(protocol).join(stream.folder());
        for entry in std::fs::read_dir(folder).expect("a golden ledger") {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            files.plant(&format!("{stream}/{name}"), std::fs::read(entry.path()).unwrap());
        }
    }
    files
}

fn store(files: &MemoryFiles, protocol: &str) {
    let root = folder(protocol);
    let _ = std::fs::remove_dir_all(&root);
    for path in files.paths() {
        let to = root.join(&path);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, files.contents(&path).unwrap()).unwrap();
    }
    let own: Arc<dyn Files> = Arc::new(files.clone());
    let replayed = replay(own, &language, 1, &mut |_| ()).unwrap();
    std::fs::write(root.join("digest"), to_hex(&digest_of(&replayed.replica)) + "\n").unwrap();
}

#[test]
fn ledgers_of_old_give_what_they_gave() {
    assert!(LogOptions::default().sync);
    assert!(golden().count() >= 12);
    for protocol in golden() {
        if std::env::var_os("GOLDEN").is_some() {
            store(&make(protocol), protocol);
        }
        let own: Arc<dyn Files> = Arc::new(stored(protocol));
        let replayed = replay(Arc::clone(&own), &language, 2, &mut |_| ());
        let replayed = replayed.unwrap_or_else(|fault| {
            panic!("{protocol}: executor {EXECUTOR} does not give what it gave: {fault}")
        });
        assert!(replayed.unrecorded.is_empty() && replayed.torn_tail.is_none(), "{protocol}");
        let digest = std::fs::read_to_string(folder(protocol).join("digest")).unwrap();
        assert_eq!(to_hex(&digest_of(&replayed.replica)), digest.trim(), "{protocol}");

        let (mut committed, mut codes) = (0, std::collections::BTreeSet::new());
        for block in blocks_of(&own).iter().skip(1) {
            let result = BlockResult::of(block.result.as_ref().unwrap()).unwrap();
            for outcome in result.outcomes() {
                match Reported::decode(outcome).unwrap() {
                    Reported::Committed { .. } => committed += 1,
                    Reported::Rejected(it) => drop(codes.insert(it.code)),
                    _ => {}
                }
            }
        }
        assert!(committed >= 42, "{protocol}: {committed} of {} are committed", bodies().len());
        assert!(codes.len() >= 9, "{protocol}: {codes:?}");
    }
}
