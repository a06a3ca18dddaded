//! Claims about Fabric and Fabric++, and their options against the serial replay.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use concurrency::{Interactive, Outcome, Protocol, RowRequirement, Work, WorkerPool};
use kit::random::Random;
use oracle::programs::{Builder, Operation, TABLE, fill, random_work, schemas};
use oracle::session::{Session, random_script};
use oracle::{Twin, rows};
use types::{Key, Stamp, Value};

fn protocol(text: &str) -> Arc<dyn Protocol> {
    protocols::by_name(text).unwrap()
}

fn program(operations: &[(Operation, i64)]) -> Arc<Work> {
    let mut builder = Builder::default();
    operations.iter().for_each(|&(operation, key)| builder.push(operation, key, 3));
    builder.finish()
}

/// Which transactions of a block ended well.
fn committed(protocol: &Arc<dyn Protocol>, twin: &mut Twin, block: Vec<Arc<Work>>) -> Vec<bool> {
    let outcome = twin.run(protocol, &WorkerPool::new(2), block).unwrap();
    outcome.outcomes.iter().map(Outcome::is_committed).collect()
}

/// What is ordered of a program that is simulated now, and what its client was told.
fn endorsed(twin: &Twin, operations: &[(Operation, i64)]) -> (Session, Arc<Work>) {
    let mut builder = Builder::default();
    operations.iter().for_each(|&(operation, key)| builder.push(operation, key, 3));
    Session::endorse(&twin.subject, &builder.procedure()).expect("a program that ends well")
}

/// Which transactions of a block ended well, where all were endorsed.
fn valid(
    protocol: &Arc<dyn Protocol>,
    twin: &mut Twin,
    endorsed: Vec<(Session, Arc<Work>)>,
) -> Vec<bool> {
    let (sessions, works): (Vec<_>, _) = endorsed.into_iter().unzip();
    let sessions = (0..).zip(sessions).collect();
    let outcome = twin.run_with_sessions(protocol, &WorkerPool::new(2), works, sessions);
    outcome.unwrap().outcomes.iter().map(Outcome::is_committed).collect()
}

fn twin(protocol: &Arc<dyn Protocol>, rows: u64) -> Twin {
    let mut twin = Twin::new(&schemas());
    twin.run(protocol, &WorkerPool::new(2), fill(rows)).unwrap();
    twin
}

/// With so many idle blocks behind the rows that what lags finds them.
fn settled(protocol: &Arc<dyn Protocol>, rows: u64) -> Twin {
    let mut twin = twin(protocol, rows);
    for _ in 0..6 {
        committed(protocol, &mut twin, vec![program(&[(Operation::Exists, 4)])]);
    }
    twin
}

/// However stale endorsements are, and however blocks are cut: what is valid saw what it would
/// have seen at its place.
#[test]
fn every_option_equals_the_serial_replay() {
    let options = [
        "fabric:lag=1",
        "fabric:lag=2:spread=3",
        "fabric_pp:lag=1",
        "fabric_pp:lag=1:spread=2",
        "fabric_pp:lag=3:early_abort=off",
        "fabric_pp:reordering=off",
        "fabric_pp:spread=1:reordering=off:early_abort=off",
        "fabric_pp:early_abort=off",
        "fabric_pp:unique_keys=7",
        "fabric_pp:transactions=3:budget=0",
        "fabric_pp:spread=2:unique_keys=12:budget=2",
    ];
    for text in options {
        let (protocol, pool) = (protocol(text), WorkerPool::new(3));
        for seed in 0..25 {
            let mut random = Random::new(seed);
            let keys = [2, 5, 12, 40][random.below(4) as usize];
            let mut twin = Twin::new(&schemas());
            twin.run(&protocol, &pool, fill(keys / 2 + 1)).unwrap();
            let mut open = VecDeque::new();
            for _ in 0..8 {
                open.push_back(Session::hold(&twin.subject, random_script(&mut random, keys)));
                let (mut block, mut sessions) = (Vec::new(), BTreeMap::new());
                for _ in 0..1 + random.below(12) {
                    if random.chance(4)
                        && let Some((session, commit)) = open.pop_front()
                    {
                        sessions.insert(block.len() as u32, session);
                        block.push(commit);
                    }
                    block.push(random_work(&mut random, keys, 5));
                }
                let outcome = twin.run_with_sessions(&protocol, &pool, block, sessions);
                if let Err(divergence) = outcome {
                    panic!("{text}, seed {seed}: {divergence}");
                }
            }
        }
    }
}

/// Sharma 2020, Tables 3.1 and 3.2: one writer ahead of three readers leaves one of four valid, in
/// Fabric; Fabric++ puts the readers first.
#[test]
fn a_writer_ahead_of_three_readers_spoils_them_unless_reordered() {
    let block = || {
        let reader = |key| program(&[(Operation::Read, 0), (Operation::BlindSet, key)]);
        vec![program(&[(Operation::BlindSet, 0)]), reader(1), reader(2), reader(3)]
    };
    let run = |text| {
        let protocol = protocol(text);
        committed(&protocol, &mut twin(&protocol, 5), block())
    };
    assert_eq!(run("fabric"), [true, false, false, false]);
    assert_eq!(run("fabric_pp:reordering=off"), [true, false, false, false]);
    assert_eq!(run("fabric_pp"), [true; 4]);
}

/// Sharma 2020, 3.5.1: two writes of one key make no edge. A write that looks at the row is a read.
#[test]
fn blind_writes_of_one_row_are_all_valid_and_increments_are_not() {
    for text in ["fabric", "fabric_pp"] {
        let protocol = protocol(text);
        let mut twin = twin(&protocol, 5);
        let blind = (0..4).map(|_| program(&[(Operation::BlindSet, 0)])).collect();
        assert_eq!(committed(&protocol, &mut twin, blind), [true; 4], "{text}");
        let adds = (0..4).map(|_| program(&[(Operation::Add, 0)])).collect();
        let valid = committed(&protocol, &mut twin, adds);
        assert_eq!(valid.iter().filter(|&&valid| valid).count(), 1, "{text}");
    }
}

/// Fabric's range queries are executed again at validation: a row that came into the range, or
/// left it, makes the reader invalid; a row beside it does not.
#[test]
fn phantoms_make_a_range_reader_invalid() {
    let protocol = protocol("fabric");
    for (change, valid) in [
        ((Operation::Insert, 2), false),
        ((Operation::Delete, 1), false),
        ((Operation::BlindSet, 1), false),
        ((Operation::Insert, 90), true),
    ] {
        let mut twin = twin(&protocol, 2);
        let block = vec![program(&[change]), program(&[(Operation::SumRange, 0)])];
        assert_eq!(committed(&protocol, &mut twin, block), [true, valid], "{change:?}");
    }
}

/// What was endorsed before another block came in is stale if that block wrote what it read, and
/// only then; it stays so as long as the lag reaches back behind the write.
#[test]
fn lag_makes_the_staleness_between_blocks_visible() {
    for text in ["fabric:lag=2", "fabric_pp:lag=2", "fabric_pp:lag=2:early_abort=off"] {
        let protocol = protocol(text);
        let mut twin = twin(&protocol, 5);
        let idle = || vec![program(&[(Operation::Exists, 4)])];
        (0..3).for_each(|_| drop(committed(&protocol, &mut twin, idle())));
        committed(&protocol, &mut twin, vec![program(&[(Operation::BlindSet, 0)])]);
        let readers = || vec![program(&[(Operation::Read, 0)]), program(&[(Operation::Read, 1)])];
        assert_eq!(committed(&protocol, &mut twin, readers()), [false, true], "{text}");
        assert_eq!(committed(&protocol, &mut twin, readers()), [false, true], "{text}");
        assert_eq!(committed(&protocol, &mut twin, readers()), [true, true], "{text}");
    }
}

/// Sharma 2020, 3.5.2: a doomed transaction that takes part in the reordering can take a sound one
/// with it. Early abort drops it first.
#[test]
fn early_abort_saves_those_whom_a_stale_transaction_would_take_along() {
    // The second reads row 0, which was written since, and is on a cycle with the first.
    let block = || {
        let cross = |read, write| [(Operation::Read, read), (Operation::BlindSet, write)];
        vec![program(&cross(2, 1)), program(&[&cross(1, 2)[..], &[(Operation::Read, 0)]].concat())]
    };
    let run = |text| {
        let protocol = protocol(text);
        let mut twin = twin(&protocol, 5);
        committed(&protocol, &mut twin, vec![program(&[(Operation::Exists, 4)])]);
        committed(&protocol, &mut twin, vec![program(&[(Operation::BlindSet, 0)])]);
        committed(&protocol, &mut twin, block())
    };
    assert_eq!(run("fabric_pp:lag=1:early_abort=off"), [false, false]);
    assert_eq!(run("fabric_pp:lag=1"), [true, false]);
}

/// A batch takes the batches before it for blocks that came in since the simulation.
#[test]
fn a_block_of_many_keys_is_cut_into_batches_that_are_reordered_one_by_one() {
    let block = || {
        vec![
            program(&[(Operation::BlindSet, 0)]),
            program(&[(Operation::Read, 0)]),
            program(&[(Operation::BlindSet, 1)]),
            program(&[(Operation::Read, 0)]),
        ]
    };
    let run = |text| {
        let protocol = protocol(text);
        committed(&protocol, &mut twin(&protocol, 5), block())
    };
    assert_eq!(run("fabric_pp"), [true; 4]);
    assert_eq!(run("fabric_pp:unique_keys=1"), [true, true, true, false]);
}

/// What others have simulated is validated as it was read: Tables 3.1 and 3.2 of the thesis again,
/// with transactions that were endorsed before their block.
#[test]
fn what_others_simulated_is_validated_in_the_order_of_the_protocol() {
    let run = |text| {
        let protocol = protocol(text);
        let mut twin = twin(&protocol, 5);
        let reader = |key| [(Operation::Read, 0), (Operation::BlindSet, key)];
        let writer = endorsed(&twin, &[(Operation::BlindSet, 0)]);
        let readers = [1, 2, 3].map(|key| endorsed(&twin, &reader(key)));
        let block = std::iter::once(writer).chain(readers).collect();
        valid(&protocol, &mut twin, block)
    };
    assert_eq!(run("fabric"), [true, false, false, false]);
    for text in ["fabric_pp:reordering=off", "fabric_pp:reordering=off:early_abort=off"] {
        assert_eq!(run(text), [true, false, false, false], "{text}");
    }
    for text in ["fabric_pp", "fabric_pp:early_abort=off"] {
        assert_eq!(run(text), [true; 4], "{text}");
    }
}

/// However far behind the block's own simulations are: those of others are as old as they are.
#[test]
fn what_others_simulated_lags_by_nothing_but_its_own_age() {
    for text in ["fabric:lag=3", "fabric_pp:lag=3:spread=2", "fabric_pp:lag=3:early_abort=off"] {
        let protocol = protocol(text);
        let mut twin = settled(&protocol, 5);
        let read = [(Operation::Read, 0), (Operation::BlindSet, 1)];
        let before = endorsed(&twin, &read);
        committed(&protocol, &mut twin, vec![program(&[(Operation::Touch, 0)])]);
        let after = endorsed(&twin, &read);
        assert_eq!(valid(&protocol, &mut twin, vec![before, after]), [false, true], "{text}");
    }
}

/// Sharma 2020, 3.5.2, of transactions that were endorsed: one that was overtaken takes no other
/// along, unless early aborts are off.
#[test]
fn an_endorsed_transaction_that_was_overtaken_takes_no_other_along() {
    let run = |text| {
        let protocol = protocol(text);
        let mut twin = twin(&protocol, 5);
        let cross = |read, write| [(Operation::Read, read), (Operation::BlindSet, write)];
        let more = [&cross(1, 2)[..], &[(Operation::Read, 0)]].concat();
        let overtaken = endorsed(&twin, &more);
        committed(&protocol, &mut twin, vec![program(&[(Operation::BlindSet, 0)])]);
        let current = endorsed(&twin, &cross(2, 1));
        valid(&protocol, &mut twin, vec![current, overtaken])
    };
    assert_eq!(run("fabric_pp:early_abort=off"), [false, false]);
    assert_eq!(run("fabric_pp"), [true, false]);
}

/// Who claims to have read what there never was is dropped, and not those who have read less.
#[test]
fn a_version_that_never_was_takes_no_honest_reader_along() {
    for text in ["fabric_pp", "fabric_pp:lag=1", "fabric_pp:early_abort=off", "fabric"] {
        let protocol = protocol(text);
        let mut twin = settled(&protocol, 5);
        let stamp = Some(Stamp::new(99, 0));
        let rows = vec![RowRequirement { table: TABLE, key: Key::from_int(0), stamp }];
        let liar = Interactive { now_us: 0, rows, ranges: Vec::new(), writes: Vec::new() };
        let (session, honest) = endorsed(&twin, &[(Operation::Read, 0)]);
        let block =
            vec![Arc::new(Work::Interactive(liar)), honest, program(&[(Operation::Read, 0)])];
        let sessions = BTreeMap::from([(1, session)]);
        let outcome = twin.run_with_sessions(&protocol, &WorkerPool::new(1), block, sessions);
        let ended: Vec<_> = outcome.unwrap().outcomes.iter().map(Outcome::is_committed).collect();
        assert_eq!(ended, [false, true, true], "{text}");
    }
}

/// A blind write of the value that was there already is one: another may come between.
#[test]
fn a_blind_write_of_what_was_there_is_written() {
    for text in ["fabric", "fabric_pp", "serial", "harmony"] {
        let protocol = protocol(text);
        let mut twin = twin(&protocol, 2);
        // Row 0 holds 3.
        let same = endorsed(&twin, &[(Operation::BlindSet, 0)]);
        let mut other = Builder::default();
        other.push(Operation::BlindSet, 0, 8);
        committed(&protocol, &mut twin, vec![other.finish()]);
        assert_eq!(valid(&protocol, &mut twin, vec![same]), [true], "{text}");
        assert_eq!(rows(&twin.subject, TABLE)[0].2[1], Value::Int(3), "{text}");
    }
}

/// The paper's baseline: no block is validated while a simulation holds the state, and outcomes are
/// those of versions.
#[test]
fn the_lock_of_the_state_keeps_validation_from_simulations() {
    let run = |text, is_kept: bool| {
        let protocol = protocol(text);
        let mut twin = twin(&protocol, 5);
        let store = Arc::clone(&twin.subject);
        let block = || vec![program(&[(Operation::Add, 0)]), program(&[(Operation::Read, 0)])];
        let held = store.lock_shared();
        std::thread::scope(|threads| {
            let block = threads.spawn(|| committed(&protocol, &mut twin, block()));
            if is_kept {
                std::thread::sleep(std::time::Duration::from_millis(50));
                assert!(!block.is_finished(), "{text}");
                assert_eq!(store.newest(), 1, "{text}");
                drop(held);
            }
            block.join().unwrap()
        })
    };
    assert_eq!(run("fabric", false), [true, false]);
    assert_eq!(run("fabric:lock=state", true), [true, false]);
}
