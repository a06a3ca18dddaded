//! Row logs: what is written comes back, by every way; nothing that was acknowledged is lost.

use std::sync::Arc;

use concurrency::{Block, Work, WorkerPool};
use kit::random::Random;
use ledger::memory_files::Failure;
use ledger::{Files, MemoryFiles};
use oracle::StoredRow;
use recovery::schemes::Scheme;
use recovery::schemes::recover;
use recovery::schemes::streams::{Loggers, RowLog};
use storage::{Changes, Store};

fn empty() -> Arc<Store> {
    let store = Arc::new(Store::new());
    crate::several::schemas().into_iter().for_each(|schema| drop(store.create_table(schema)));
    store
}

/// Runs a block. Garbage is collected in between, so that places are given to other keys.
fn run(store: &Arc<Store>, transactions: Vec<Arc<Work>>) -> Changes {
    let height = store.newest() + 1;
    let block = Block::new(height, height as i64, transactions);
    let protocol = protocols::by_name("serial").unwrap();
    oracle::run_block(&protocol, &WorkerPool::new(1), store, &block).unwrap().1
}

fn state(store: &Store) -> Vec<Vec<StoredRow>> {
    store.tables().iter().map(|table| oracle::rows(store, table.id())).collect()
}

fn open(files: &MemoryFiles) -> Arc<dyn Files> {
    Arc::new(files.clone())
}

#[test]
fn every_way_back_ends_in_the_state_that_was_logged() {
    for seed in 0..40 {
        for scheme in Scheme::ALL {
            let files = MemoryFiles::new();
            let mut loggers =
                Loggers::create(&open(&files), scheme, 1 + seed as usize % 3).unwrap();
            let store = empty();
            for works in crate::several::blocks(&mut Random::new(seed)) {
                loggers.append(&run(&store, works)).unwrap();
                store.collect();
            }
            let log = Arc::new(RowLog::read(&open(&files), scheme).unwrap());
            assert_eq!(log.height, Some(store.newest()));
            for way in recover::ALL.iter().filter(|way| way.reads(scheme)) {
                for workers in [1, 2, 8] {
                    let again = empty();
                    way.recover(&log, &again, &WorkerPool::new(workers)).unwrap();
                    assert!(state(&again) == state(&store), "{}, seed {seed}", way.name);
                }
            }
        }
    }
}

/// The power goes at any operation; what comes back is the state after some epoch, and not before
/// one that was acknowledged.
#[test]
fn an_epoch_counts_when_every_logger_has_it() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let blocks = crate::several::blocks(&mut random);
        let files = MemoryFiles::new();
        let mut loggers = Loggers::create(&open(&files), Scheme::Logical, 3).unwrap();
        let store = empty();
        let mut states = vec![state(&store)];
        files.fail_at(Some(Failure::PowerOff(files.operations() + random.below(60))));
        let mut acknowledged = 0;
        for works in blocks {
            let changes = run(&store, works);
            states.push(state(&store));
            if loggers.append(&changes).is_err() {
                assert!(loggers.append(&changes).is_err(), "a log that failed goes on");
                break;
            }
            acknowledged = store.newest();
        }
        for _ in 0..8 {
            let disk = files.crash(&mut random);
            let log = Arc::new(RowLog::read(&open(&disk), Scheme::Logical).unwrap());
            let height = log.height.unwrap_or(0);
            assert!(height >= acknowledged, "seed {seed}: epoch {acknowledged} is lost");
            let again = empty();
            recover::by_name("llr-p").unwrap().recover(&log, &again, &WorkerPool::new(2)).unwrap();
            assert!(state(&again) == states[height as usize], "seed {seed}, epoch {height}");
        }
    }
}

#[test]
fn a_flipped_bit_in_an_epoch_that_counts_is_damage() {
    let files = MemoryFiles::new();
    let mut loggers = Loggers::create(&open(&files), Scheme::Physical, 2).unwrap();
    let store = empty();
    for works in crate::several::blocks(&mut Random::new(1)) {
        loggers.append(&run(&store, works)).unwrap();
    }
    let whole = files.contents("stream-1.log").unwrap();
    for at in (0..whole.len()).step_by(7) {
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        files.plant("stream-1.log", damaged);
        assert!(RowLog::read(&open(&files), Scheme::Physical).is_err(), "byte {at}");
    }
}

#[test]
fn no_bytes_make_a_decoder_panic() {
    let mut random = Random::new(5);
    for _ in 0..20_000 {
        let length = random.below(40) as usize;
        let bytes: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
        for scheme in Scheme::ALL {
            let mut rest = &bytes[..];
            while !rest.is_empty() && scheme.decode(&mut rest).is_ok() {}
        }
    }
}
