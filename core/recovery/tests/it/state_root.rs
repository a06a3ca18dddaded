//! The root that result headers name is that of the rows in the store, whatever brought them there.

use std::ops::ControlFlow;
use std::sync::Arc;

use engine::checkpoint::State;
use engine::{Body, ParameterTypes, Recovery, ReplayBy, Replica, replay};
use kit::random::Random;
use ledger::{BlockResult, Files, Hash, MemoryFiles, ZERO_HASH, row_image_hash};
use proofs::TreeKey;
use recovery::schemes::Scheme;
use state_tree::{StateTree, Value};
use storage::LATEST;

use crate::ledgered::{
    Ledgered, blocks_of, calls, digest_of, executing, folders, language, recovered, workload,
};

/// One of each kind that a ledger can run under, and all that are nodes' choices.
const PROTOCOLS: [&str; 16] = [
    "serial",
    "calvin",
    "bohm",
    "block_stm",
    "conflict_graph",
    "rbc",
    "harmony",
    "harmony:inter_block=on",
    "aria",
    "aria:fallback=off",
    "quecc",
    "quecc:planning=pipelined",
    "fabric",
    "silo",
    "2pl",
    "si",
];

fn schema(text: &str) -> Body {
    Body::Schema { text: text.into() }
}

fn statement(text: &str) -> Body {
    Body::statement(text, ParameterTypes::default(), [])
}

fn parameter(value: u64) -> Body {
    Body::Parameter { name: "state_root".into(), value: value.to_string() }
}

/// From the store alone, row by row.
fn root_of_rows(replica: &Replica) -> Hash {
    let mut rows = Vec::new();
    for table in replica.store().tables() {
        table.each_row(LATEST, &mut |key, slot, stamp| {
            let mut image = Vec::new();
            table.append_image(slot, LATEST, &mut image).unwrap();
            let value = Value { image: row_image_hash(&image), height: stamp.height() };
            rows.push((TreeKey::new(table.id().0, key), value));
            ControlFlow::Continue(())
        });
    }
    rows.sort_unstable_by_key(|(key, _)| *key);
    StateTree::load(rows, 1).root()
}

fn check(ledger: &Ledgered, about: &str) {
    let named = ledger.replica.result_header().state_root;
    assert_ne!(named, ZERO_HASH, "{about}");
    assert_eq!(named, root_of_rows(&ledger.replica), "{about}");
}

/// Calls; tables that come, go, and are written anew, among calls and alone; keys of all lengths.
fn changing(ledger: &mut Ledgered, seed: u64) {
    let about = format!("{:?}", ledger.replica.parameters().protocol);
    let random = &mut Random::new(seed);
    let workload = workload("smallbank", &[("rows", 300)]);
    ledger.load(&*workload);
    check(ledger, &about);
    ledger.block(vec![schema("CREATE TABLE t (id text PRIMARY KEY, v bigint, note text)")]);
    let changes = [
        "ALTER TABLE t ADD COLUMN more bigint DEFAULT 7",
        "CREATE INDEX notes ON t (note)",
        "ALTER TABLE t DROP COLUMN note",
        "ALTER TABLE t RENAME COLUMN v TO w",
        "ALTER TABLE t RENAME COLUMN w TO v",
        "TRUNCATE t",
        "CREATE TABLE u (id bigint PRIMARY KEY)",
        "DROP TABLE u",
        "ALTER TABLE t ALTER COLUMN v TYPE numeric",
    ];
    let mut calls = calls(&*workload);
    for change in changes {
        let mut bodies: Vec<Body> = calls.by_ref().take(random.below(60) as usize).collect();
        for _ in 0..random.below(12) {
            let id = random.below(8);
            let text = match random.below(3) {
                0 => format!("DELETE FROM t WHERE id = repeat('k', {})", id * 50),
                1 => format!("UPDATE t SET v = v + 1 WHERE id = repeat('k', {})", id * 50),
                _ => format!("INSERT INTO t (id, v) VALUES (repeat('k', {}), 1)", id * 50),
            };
            let at = random.below(bodies.len() as u64 + 1) as usize;
            bodies.insert(at, statement(&text));
        }
        let mut alone = Vec::new();
        match random.chance(2) {
            true => alone.push(schema(change)),
            false => bodies.insert(bodies.len() / 2, schema(change)),
        }
        for block in [bodies, alone] {
            ledger.block(block);
            check(ledger, &format!("{about}, seed {seed}, {change}"));
        }
    }
    ledger.block(calls.take(600).collect());
    check(ledger, &about);
}

/// The state, the head and the root after the ledger is read again, by all ways.
#[test]
fn headers_name_the_root_of_the_rows() {
    kit::parallel::for_each((0..).zip(PROTOCOLS), |(seed, protocol)| {
        let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
        let (rows, _) = folders(Scheme::Logical, 2);
        let workers = [1, 2, 8][seed as usize % 3];
        let own_rows = std::slice::from_ref(&rows);
        let mut ledger = Ledgered::new(Arc::clone(&files), protocol, workers, own_rows);
        changing(&mut ledger, seed);
        ledger.end_row_logs();
        let (head, digest) = (ledger.replica.head(), digest_of(&ledger.replica));
        for workers in [1, 2, 8] {
            let replayed = replay(Arc::clone(&files), &language, workers, &mut |_| ()).unwrap();
            assert_eq!(replayed.replica.head(), head, "{protocol}, {workers} workers");
            assert_eq!(digest_of(&replayed.replica), digest, "{protocol}");
        }
        let by = |replay| Recovery { workers: 2, replay, ..Recovery::default() };
        let by_rows = Recovery { rows: Some(rows.clone()), ..by(ReplayBy::Protocol) };
        for way in [executing(8), by(ReplayBy::Pacman), by(ReplayBy::Serial), by_rows] {
            let mut again = recovered(&files, &way).unwrap().replica;
            assert_eq!(again.head(), head, "{protocol}, {:?}", way.replay);
            // It goes on with the tree that it has come to.
            let executed = again.execute(head.time_us, Vec::new()).unwrap();
            assert_eq!(executed.result.header().state_root, root_of_rows(&again), "{protocol}");
        }
    });
}

/// A start from a checkpoint has the root of those that executed everything, and goes on as they
/// do.
#[test]
fn a_checkpoint_is_held_against_the_root() {
    for protocol in ["serial", "harmony:inter_block=on", "silo", "si"] {
        let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
        let mut ledger = Ledgered::new(Arc::clone(&files), protocol, 2, &[]);
        changing(&mut ledger, 5);
        ledger.checkpoint();
        ledger.block(vec![statement("INSERT INTO t (id, v) VALUES ('behind', 1)")]);
        check(&ledger, protocol);
        let started = recovered(&files, &executing(2)).unwrap();
        assert!(started.checkpoint.is_some() && started.passed_over.is_empty(), "{protocol}");
        assert_eq!(started.replica.head(), ledger.replica.head(), "{protocol}");
        let state = State::of(&ledger.replica).unwrap();
        let again = State::of(&started.replica).unwrap();
        assert_eq!(state.digest().unwrap(), again.digest().unwrap(), "{protocol}");
    }
}

/// The parameter holds from the next block on, and can be changed at any time.
#[test]
fn the_root_is_named_where_the_ledger_says_so() {
    let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
    let mut ledger = Ledgered::new(Arc::clone(&files), "harmony", 2, &[]);
    let workload = workload("smallbank", &[("rows", 20)]);
    ledger.load(&*workload);
    let mut expected = Vec::new();
    for value in [1, 0, 0, 1, 1, 0, 1] {
        let before = ledger.replica.limits().state_root;
        ledger.block(vec![statement("UPDATE savings SET balance = 1"), parameter(value)]);
        expected.push(before);
        ledger.run(&*workload, 1, 10);
        expected.push(value == 1);
        if value == 1 {
            check(&ledger, "on");
        }
    }
    let head = ledger.replica.head();
    let roots = blocks_of(&files).into_iter().map(|block| {
        BlockResult::of(&block.result.unwrap()).unwrap().header().state_root != ZERO_HASH
    });
    let roots: Vec<bool> = roots.collect();
    assert_eq!(roots[roots.len() - expected.len()..], expected);
    assert!(!roots[0], "genesis names none");
    for workers in [1, 2] {
        assert_eq!(recovered(&files, &executing(workers)).unwrap().replica.head(), head);
    }
}
