//! A leader's orders before they are written, and where they cannot be.

use bytes::Bytes;
use ledger::memory_files::MANNERS;
use ledger::{BlockReader, BlockWriter, Genesis, LogOptions, MemoryFiles, Parameters};
use openraft::CommittedLeaderId;
use order::Proposal;

use super::*;

fn open(files: &MemoryFiles) -> Store {
    let files: Arc<dyn Files> = Arc::new(files.clone());
    let mut reader = BlockReader::open(Arc::clone(&files)).unwrap();
    while let Ok(Some(_)) = reader.next() {}
    let BlockWriter { orders, .. } = BlockWriter::resume(reader, LogOptions::default()).unwrap();
    Store::open(files, orders).unwrap()
}

fn id(term: u64, index: u64) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(term, 1), index)
}

fn blank(term: u64, index: u64) -> Entry<Types> {
    Entry { log_id: id(term, index), payload: EntryPayload::Blank }
}

fn draft(index: u64) -> Entry<Types> {
    let envelopes = vec![Bytes::from(vec![index as u8; 40])];
    let proposal = Proposal { time_us: index as i64, proposer: [7; 32], seen_height: 0, envelopes };
    let payload = EntryPayload::Normal(Draft::new(1, [9; 32], proposal));
    Entry { log_id: id(1, index), payload }
}

/// A store with an entry that begins a term.
fn led() -> (MemoryFiles, Store) {
    let files = MemoryFiles::new();
    let genesis = Genesis {
        ledger_id: *b"a raft cluster 1",
        time_us: 0,
        parameters: Parameters::new("calvin"),
        executor: 1,
    };
    BlockWriter::begin(Arc::new(files.clone()), &genesis, LogOptions::default()).unwrap();
    let store = open(&files);
    append(&store, [blank(1, 0)]).unwrap();
    (files, store)
}

fn append<const N: usize>(store: &Store, entries: [Entry<Types>; N]) -> io::Result<()> {
    store.kept().append(entries.into_iter())
}

#[test]
fn orders_are_read_before_a_sync_writes_them() {
    let (files, store) = led();
    let before = files.operations();
    append(&store, [draft(1), draft(2)]).unwrap();
    assert_eq!(files.operations(), before, "nothing stands before the messages");
    assert_eq!((store.height(), store.entries()), (2, 3));
    let entries = [1, 2].map(|index| store.entry(index).unwrap().unwrap());
    assert!(entries.iter().zip([1, 2]).all(|(entry, index)| *entry == draft(index)));
    let hashes = [1, 2].map(|height| store.hash_of(height).unwrap());
    assert_eq!((open(&files.copy()).height(), open(&files.copy()).entries()), (0, 1));
    // Where memory has no room for it, what was not written is when it is asked for.
    store.kept().recent.clear();
    store.kept().recent_bytes = 0;
    assert_eq!(store.entry(2).unwrap().unwrap(), draft(2));
    store.sync_up_to(1).unwrap();
    let again = open(&files.copy());
    assert_eq!([1, 2].map(|height| again.hash_of(height).unwrap()), hashes);
    // Before one of Raft's own, which has another file, all is on the disk.
    append(&store, [draft(3), blank(2, 4)]).unwrap();
    let again = open(&files.copy());
    assert_eq!((again.height(), again.entries()), (3, 5));
}

#[test]
fn a_disk_that_fails_is_told_at_the_sync_and_what_is_there_is_gone_on_from() {
    for (what, manner) in MANNERS {
        for at in 0..2 {
            let (files, store) = led();
            append(&store, [draft(1)]).unwrap();
            store.sync().unwrap();
            files.fail_at(Some(manner(files.operations() + at)));
            append(&store, [draft(2), draft(3)]).unwrap();
            if store.sync().is_ok() {
                assert!(!files.has_failed(), "{what} at {at} was not told");
                continue;
            }
            let first = store.failure().unwrap();
            let again = store.sync().expect_err("what is closed stays so").to_string();
            let refused = append(&store, [draft(4)]).expect_err("it takes nothing in").to_string();
            assert_eq!([&again, &refused], [&first; 2], "{what} at {at}: the first cause");
            assert!(store.sync_up_to(3).is_err(), "{what} at {at}");
            assert_eq!(store.height(), 3, "{what} at {at}");
            files.fail_at(None);
            store.reopen().unwrap();
            assert_eq!(store.failure(), None);
            let there = store.height();
            assert!((1..=3).contains(&there), "{what} at {at}: {there} blocks");
            append(&store, [draft(there + 1)]).unwrap();
            store.sync().unwrap();
            assert_eq!(open(&files.copy()).height(), there + 1, "{what} at {at}");
        }
    }
}
