//! Ledgers with and without row logs: each way from the files back to a state, and what happens
//! when a row log is not what it should be.

use std::sync::Arc;

use engine::{Body, Fault, ParameterTypes, Recovery, ReplayBy, ReplayCounts, RowFolders};
use ledger::{Batch, BlockResult, Files, MemoryFiles, OrderHeader, ResultHeader};
use recovery::schemes::Scheme;
use recovery::schemes::row_logs::{RowLogOptions, RowLoggers};

use crate::ledgered::{
    Ledgered, begin, blocks_of, digest_of, folders, folders_of, recovered, workload,
};

/// Protocols with their block's order and without it, with memory of blocks before and without.
const PROTOCOLS: [&str; 5] = ["calvin", "bohm", "harmony", "quecc", "fabric:lag=2"];

fn small(name: &str) -> &'static [(&'static str, u64)] {
    match name {
        "tpcc" => &[("customers", 20), ("items", 60)],
        "ycsb" => &[("rows", 300)],
        _ => &[("rows", 50)],
    }
}

fn by(replay: ReplayBy, workers: usize) -> Recovery {
    Recovery { workers, replay, ..Recovery::default() }
}

fn by_rows(rows: RowFolders, workers: usize) -> Recovery {
    Recovery { workers, rows: Some(rows), ..Recovery::default() }
}

#[test]
fn every_way_back_ends_in_the_state_of_re_execution_under_every_workload() {
    for name in ["smallbank", "ycsb", "tpcc"] {
        for protocol in PROTOCOLS {
            let workload = workload(name, small(name));
            let rows = Scheme::ALL.map(|scheme| folders(scheme, 2).0);
            let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
            let mut ledger = Ledgered::new(Arc::clone(&files), protocol, 2, &rows);
            ledger.load(&*workload);
            if protocol != "fabric:lag=2" {
                ledger.checkpoint();
            }
            ledger.run(&*workload, 6, 40);
            ledger.block(vec![Body::Schema { text: "CREATE TABLE later (k int)".into() }]);
            ledger.run(&*workload, 6, 40);
            ledger.end_row_logs();
            let digest = digest_of(&ledger.replica);
            let mut ways = vec![by_rows(rows[0].clone(), 1), by_rows(rows[1].clone(), 3)];
            for replay in [ReplayBy::Protocol, ReplayBy::Pacman, ReplayBy::Serial] {
                ways.extend([by(replay, 1), by(replay, 3)]);
            }
            for way in ways {
                let about = format!("{name}, {protocol}, {:?}", way.replay);
                let again = recovered(&files, &way).unwrap_or_else(|e| panic!("{about}: {e}"));
                assert_eq!(digest_of(&again.replica), digest, "{about}");
                assert_eq!(again.replica.head().hash, ledger.replica.head().hash, "{about}");
                check_counts(protocol, &way, again.counts, &about);
            }
        }
    }
}

/// What was asked for is what was done, where it can be.
fn check_counts(protocol: &str, asked: &Recovery, done: ReplayCounts, about: &str) {
    let ordered = ["calvin", "bohm"].contains(&protocol);
    let resumes = protocol != "fabric:lag=2";
    let expected = match asked.replay {
        ReplayBy::Protocol if resumes && asked.rows.is_some() => done.by_rows,
        ReplayBy::Pacman if ordered => done.by_pieces,
        ReplayBy::Serial if ordered => done.serially,
        _ => done.executed,
    };
    assert!(expected >= 12, "{about}: {done:?}");
    assert!(expected == done.executed || done.executed == 1, "{about}: {done:?}");
}

/// A ledger with row logs of two loggers after a checkpoint, and one schema change among them.
fn with_row_logs(scheme: Scheme) -> (Ledgered, Vec<MemoryFiles>) {
    let workload = workload("smallbank", small("smallbank"));
    let (rows, row_files) = folders(scheme, 2);
    let mut ledger = Ledgered::new(Arc::new(MemoryFiles::new()), "harmony", 1, &[rows]);
    ledger.load(&*workload);
    ledger.checkpoint();
    ledger.run(&*workload, 4, 10);
    ledger.block(vec![Body::Schema { text: "CREATE TABLE later (k int)".into() }]);
    ledger.run(&*workload, 4, 10);
    ledger.end_row_logs();
    (ledger, row_files)
}

fn copy_of(files: &MemoryFiles) -> MemoryFiles {
    let copy = MemoryFiles::new();
    for path in files.paths() {
        copy.plant(&path, files.contents(&path).unwrap());
    }
    copy
}

/// Damages a copy of the row logs, and recovers with it.
fn recover_with(
    ledger: &Ledgered,
    scheme: Scheme,
    row_files: &[MemoryFiles],
    damage: &dyn Fn(&[MemoryFiles]),
) -> (ReplayCounts, Vec<String>) {
    let copies: Vec<MemoryFiles> = row_files.iter().map(copy_of).collect();
    damage(&copies);
    let way = by_rows(folders_of(scheme, &copies), 2);
    let again = recovered(&ledger.files, &way).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(digest_of(&again.replica), digest_of(&ledger.replica));
    assert_eq!(again.replica.head().hash, ledger.replica.head().hash);
    (again.counts, again.notes)
}

#[test]
fn a_damaged_row_log_costs_execution_and_no_row() {
    for scheme in Scheme::ALL {
        let (ledger, row_files) = with_row_logs(scheme);
        let (ways, notes) = recover_with(&ledger, scheme, &row_files, &|_| ());
        assert_eq!((ways.by_rows, ways.executed), (8, 1));
        assert!(notes.is_empty(), "{notes:?}");
        for path in row_files[1].paths() {
            let whole = row_files[1].contents(&path).unwrap();
            for at in (0..whole.len()).step_by(whole.len() / 30 + 1) {
                let (ways, notes) = recover_with(&ledger, scheme, &row_files, &|files| {
                    let mut bytes = whole.clone();
                    bytes[at] ^= 16;
                    files[1].plant(&path, bytes);
                });
                assert!(ways.executed > 1 && notes.len() == 1, "{path}, byte {at}: {notes:?}");
            }
            for length in (0..whole.len()).step_by(whole.len() / 12 + 1) {
                let (ways, notes) = recover_with(&ledger, scheme, &row_files, &|files| {
                    files[1].plant(&path, whole[..length].to_vec());
                });
                assert!(ways.executed > 1 && notes.len() == 1, "{path}, {length} bytes: {notes:?}");
            }
        }
    }
}

#[test]
fn a_row_log_that_is_missing_or_is_anothers_is_passed_over_and_said() {
    let (ledger, row_files) = with_row_logs(Scheme::Logical);
    let (stranger, foreign) = with_row_logs(Scheme::Logical);
    drop(stranger);
    let empty = |files: &MemoryFiles| {
        files.paths().iter().for_each(|path| files.remove(path).unwrap());
    };
    let (ways, notes) =
        recover_with(&ledger, Scheme::Logical, &row_files, &|files| empty(&files[0]));
    assert_eq!((ways.by_rows, ways.executed), (0, 9));
    assert!(notes[0].contains("no row log"), "{notes:?}");
    // Both loggers with the rows of one: whole frames, and not all rows.
    let (ways, notes) = recover_with(&ledger, Scheme::Logical, &row_files, &|files| {
        empty(&files[0]);
        for path in files[1].paths() {
            files[0].plant(&path, files[1].contents(&path).unwrap());
        }
    });
    assert_eq!((ways.by_rows, ways.executed), (0, 9));
    assert!(notes[0].contains("not the ledger's"), "{notes:?}");
    // The same calls make the same rows, so another ledger's are as good if they are the same.
    let (ways, _) = recover_with(&ledger, Scheme::Logical, &row_files, &|files| {
        empty(&files[0]);
        for path in foreign[0].paths() {
            files[0].plant(&path, foreign[0].contents(&path).unwrap());
        }
    });
    assert_eq!((ways.by_rows, ways.executed), (8, 1));
}

/// Checksums can be made without an execution; an effects root cannot.
#[test]
fn rows_that_were_changed_under_a_right_checksum_are_found_out() {
    let (ledger, row_files) = with_row_logs(Scheme::Logical);
    let path = &row_files[0].paths()[0];
    let whole = row_files[0].contents(path).unwrap();
    let length = u32::from_be_bytes(*whole.first_chunk().unwrap()) as usize;
    let mut found_out = 0;
    for at in (24..24 + length).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        let check = crc32fast::hash(&bytes[8..24 + length]);
        bytes[4..8].copy_from_slice(&check.to_be_bytes());
        let copies: Vec<MemoryFiles> = row_files.iter().map(copy_of).collect();
        copies[0].plant(path, bytes);
        let way = by_rows(folders_of(Scheme::Logical, &copies), 1);
        let again = recovered(&ledger.files, &way).unwrap();
        if again.counts.by_rows == 0 {
            found_out += 1;
            assert_eq!(digest_of(&again.replica), digest_of(&ledger.replica), "byte {at}");
        } else {
            // The place of the writer in its block, which no root covers.
            assert_eq!(again.counts.by_rows, 8);
        }
    }
    assert!(found_out * 10 > length / 3 * 9, "{found_out} of {length} bytes");
}

/// A row log that ends before the ledger does gives what it has; execution gives the rest.
#[test]
fn a_row_log_that_is_behind_the_ledger_is_used_as_far_as_it_goes() {
    let workload = workload("smallbank", small("smallbank"));
    let (rows, _) = folders(Scheme::Logical, 2);
    let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
    let mut ledger = Ledgered::new(Arc::clone(&files), "harmony", 1, std::slice::from_ref(&rows));
    ledger.load(&*workload);
    ledger.checkpoint();
    ledger.run(&*workload, 5, 10);
    ledger.end_row_logs();
    ledger.run(&*workload, 3, 10);
    let again = recovered(&files, &by_rows(rows, 2)).unwrap();
    assert_eq!((again.counts.by_rows, again.counts.executed), (5, 3));
    assert!(again.notes[0].contains("ends before"), "{:?}", again.notes);
    assert_eq!(digest_of(&again.replica), digest_of(&ledger.replica));
}

#[test]
fn a_part_of_many_blocks_replays_as_one_and_each_of_its_effects_roots_is_compared() {
    let workload = workload("smallbank", small("smallbank"));
    let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
    let mut ledger = Ledgered::new(Arc::clone(&files), "serial", 1, &[]);
    ledger.load(&*workload);
    ledger.run(&*workload, 60, 7);
    for replay in [ReplayBy::Pacman, ReplayBy::Serial] {
        let again = recovered(&files, &by(replay, 2)).unwrap();
        assert!(again.counts.by_pieces + again.counts.serially >= 60 && again.notes.is_empty());
        assert_eq!(digest_of(&again.replica), digest_of(&ledger.replica));
    }
}

/// A power cut leaves the frame of a block and not the block; one of its transactions is tried
/// again alone, and changes the same rows from another place.
#[test]
fn a_frame_of_a_block_that_the_ledger_has_lost_is_refused() {
    let row = |id: i64| {
        let rows = vec![[types::Value::Int(id), types::Value::Int(1)].into()];
        Body::load("COPY t (id, v) FROM STDIN", rows)
    };
    let build = |bodies: Vec<Body>, rows: &[RowFolders]| {
        let mut ledger = Ledgered::new(Arc::new(MemoryFiles::new()), "serial", 1, rows);
        let text = "CREATE TABLE t (id bigint PRIMARY KEY, v bigint)".into();
        ledger.block(vec![Body::Schema { text }]);
        ledger.block(vec![row(1)]);
        ledger.block(bodies);
        ledger.end_row_logs();
        ledger
    };
    for scheme in Scheme::ALL {
        let (rows, files) = folders(scheme, 1);
        // Lost: the first one is refused, a duplicate key; the client tries the second one again.
        drop(build(vec![row(1), row(99)], std::slice::from_ref(&rows)));
        let ledger = build(vec![row(99)], &[]);
        let again = recovered(&ledger.files, &by_rows(rows.clone(), 1)).unwrap();
        assert_eq!((again.counts.by_rows, again.counts.executed), (1, 2));
        assert!(again.notes[0].contains("another block"), "{:?}", again.notes);
        assert_eq!(digest_of(&again.replica), digest_of(&ledger.replica));
        // Going on with these logs cuts off what the ledger does not have.
        let bytes = |path| files[0].contents(path).unwrap().len();
        let path = files[0].paths().pop().unwrap();
        let (last, whole) = (again.replica.head().height, bytes(&path));
        let resume =
            |next| drop(RowLoggers::resume(&rows, next, RowLogOptions::default()).unwrap());
        resume(last + 1);
        assert_eq!(bytes(&path), whole);
        resume(last);
        assert!(bytes(&path) < whole);
    }
}

/// Whatever a header says is held against what execution would say, in each of the ways.
#[test]
fn a_header_that_execution_would_refuse_is_refused_by_every_way() {
    let mut ledger = Ledgered::new(Arc::new(MemoryFiles::new()), "serial", 1, &[]);
    let text = "CREATE TABLE t (id bigint PRIMARY KEY, v bigint)".into();
    ledger.block(vec![Body::Schema { text }]);
    let rows = vec![[types::Value::Int(1), types::Value::Int(1)].into()];
    ledger.block(vec![Body::load("COPY t (id, v) FROM STDIN", rows)]);
    let forge: [fn(&mut OrderHeader, &mut ResultHeader); 2] =
        [|_, result| result.snapshot_height -= 1, |order, _| order.parameters_hash[0] ^= 1];
    for forge in forge {
        let files: Arc<dyn Files> = Arc::new(MemoryFiles::new());
        let mut log = begin(&files, "serial");
        for block in &blocks_of(&ledger.files)[1..] {
            let batch = Batch::of(&block.batch).unwrap();
            let result = BlockResult::of(block.result.as_ref().unwrap()).unwrap();
            let (mut order, mut header) = (batch.header().clone(), result.header().clone());
            if order.height == 2 {
                forge(&mut order, &mut header);
            }
            let batch = Batch::unchecked(order, batch.envelopes().to_vec());
            header.order_hash = batch.hash();
            let (outcomes, carried) = (result.outcomes().to_vec(), result.carried().to_vec());
            let result = BlockResult::unchecked(header, outcomes, carried);
            log.append_order(&[batch.encode().unwrap()]).unwrap();
            log.append_results(&[result.encode().unwrap()]).unwrap();
        }
        for replay in [ReplayBy::Protocol, ReplayBy::Pacman, ReplayBy::Serial] {
            let fault = recovered(&files, &by(replay, 1)).err();
            assert!(matches!(fault, Some(Fault::Mismatch(_))), "{replay:?}: {fault:?}");
        }
    }
}

fn statement(text: String) -> Body {
    Body::statement(text, ParameterTypes::default(), [])
}

/// Where no serial order explains what runs at once, a block with a change of the schema, which has
/// no row images, must be equal to a serial one all the same.
#[test]
fn a_schema_change_among_rows_is_told_again_under_snapshot_isolation() {
    let mut ledger = Ledgered::new(Arc::new(MemoryFiles::new()), "si", 2, &[]);
    let text = "CREATE TABLE t (id bigint PRIMARY KEY, v bigint)".into();
    ledger.block(vec![Body::Schema { text }]);
    let insert = |id| statement(format!("INSERT INTO t VALUES ({id}, {id})"));
    ledger.block((0..40).map(insert).collect());
    // Each reads what the others write, and there are enough of them for two workers.
    let sum = "(SELECT sum(v) % 1000007 + 1 FROM t)";
    let update = |id| statement(format!("UPDATE t SET v = {sum} WHERE id = {id}"));
    for block in 0..5 {
        let mut bodies: Vec<Body> = (0..600).map(|at| update(at % 40)).collect();
        let text = format!("CREATE TABLE later_{block} (k int)");
        bodies.insert(590, Body::Schema { text });
        ledger.block(bodies);
        ledger.block((0..600).map(|at| update(at % 40)).collect());
    }
    let again = recovered(&ledger.files, &by(ReplayBy::Protocol, 1)).unwrap();
    assert_eq!(digest_of(&again.replica), digest_of(&ledger.replica));
    assert_eq!(again.replica.head().hash, ledger.replica.head().hash);
}

#[test]
fn a_block_of_very_many_programs_is_executed_and_those_behind_it_are_replayed() {
    let mut ledger = Ledgered::new(Arc::new(MemoryFiles::new()), "serial", 1, &[]);
    let text = "CREATE TABLE t (id bigint PRIMARY KEY, v bigint)".into();
    ledger.block(vec![Body::Schema { text }]);
    let insert = |id: i64, value: i64| statement(format!("INSERT INTO t VALUES ({id}, {value})"));
    ledger.block((0..300).map(|id| insert(id, id)).collect());
    for id in 300..305 {
        ledger.block(vec![insert(id, 0)]);
    }
    for (replay, workers) in [(ReplayBy::Pacman, 2), (ReplayBy::Serial, 1)] {
        let again = recovered(&ledger.files, &by(replay, workers)).unwrap();
        let ReplayCounts { executed, by_pieces, serially, .. } = again.counts;
        assert_eq!((executed, by_pieces + serially), (2, 5), "{:?}", again.notes);
        assert_eq!(digest_of(&again.replica), digest_of(&ledger.replica));
    }
}
