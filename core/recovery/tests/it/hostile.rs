//! Row logs as an adversary, or a rotten disk, would leave them.

use std::sync::Arc;

use concurrency::{Block, WorkerPool};
use kit::mutation::mutate;
use kit::random::Random;
use ledger::{Files, MemoryFiles};
use recovery::schemes::Scheme;
use recovery::schemes::streams::{Loggers, RowLog};
use storage::Store;

fn written(scheme: Scheme) -> MemoryFiles {
    let files = MemoryFiles::new();
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    let mut loggers = Loggers::create(&shared, scheme, 2).unwrap();
    let store = Arc::new(Store::new());
    crate::several::schemas().into_iter().for_each(|schema| drop(store.create_table(schema)));
    let protocol = protocols::by_name("serial").unwrap();
    let pool = WorkerPool::new(1);
    for transactions in crate::several::blocks(&mut Random::new(1)) {
        let height = store.newest() + 1;
        let block = Block::new(height, height as i64, transactions);
        let (_, changes) = oracle::run_block(&protocol, &pool, &store, &block).unwrap();
        loggers.append(&changes).unwrap();
    }
    files
}

/// All records of some bytes, or none.
fn decode(scheme: Scheme, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let before = bytes.len();
        match scheme.decode(&mut bytes) {
            Ok(record) => assert!(record.key.as_bytes().len() < before && bytes.len() < before),
            Err(_) => return false,
        }
    }
    true
}

#[test]
fn records_never_panic_and_take_no_more_than_there_is() {
    for scheme in Scheme::ALL {
        let shared: Arc<dyn Files> = Arc::new(written(scheme));
        let log = RowLog::read(&shared, scheme).unwrap();
        let samples: Vec<Vec<u8>> = log.frames.into_iter().map(|frame| frame.records).collect();
        assert!(samples.iter().all(|sample| decode(scheme, sample)));
        let mut random = Random::new(2);
        let mut accepted = 0;
        for round in 0..20_000 {
            let mut bytes = samples[round % samples.len()].clone();
            mutate(&mut bytes, &samples, &mut random);
            accepted += u64::from(decode(scheme, &bytes));
        }
        assert!(accepted > 20, "{accepted} accepted");
    }
}

/// Every frame stands under a checksum, so a changed log is the same log or a shorter one, or is
/// refused.
#[test]
fn changed_streams_are_refused_or_give_what_was_written() {
    for scheme in Scheme::ALL {
        let files = written(scheme);
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        let whole = RowLog::read(&shared, scheme).unwrap();
        let mut random = Random::new(3);
        let (mut refused, mut same) = (0, 0);
        for path in files.paths() {
            let sample = files.contents(&path).unwrap();
            for _ in 0..800 {
                let mut bytes = sample.clone();
                mutate(&mut bytes, &[], &mut random);
                files.plant(&path, bytes);
                match RowLog::read(&shared, scheme) {
                    Err(_) => refused += 1,
                    Ok(log) => {
                        assert!(log.height <= whole.height);
                        assert!(log.frames.iter().all(|frame| whole.frames.contains(frame)));
                        same += 1;
                    }
                }
            }
            files.plant(&path, sample);
        }
        assert!(refused > 100 && same > 20, "{refused} refused, {same} the same");
    }
}
