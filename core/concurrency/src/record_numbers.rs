//! Numbers for the records that a block touches, dense enough to index arrays by.
//!
//! *Idea.* Optimistic protocols ask for each record of a block: who reads it, who writes it? A hash
//! table keyed by record costs a hash and a cache miss for each access. But an access to a record
//! has just brought its header into the cache, and there is a word in it that belongs to the
//! protocol. The first to touch a record in a block claims a number and leaves it there; from then
//! on all that is to be known of the record lies in flat arrays at that number.
//!
//! ```text
//! protocol word 0 of a record
//! 63                          26 25                    0
//! [    height of the block: 38  |      number: 26       ]
//!
//! word of an older block ──compare-and-swap──► [ this block | next free number ]
//! ```
//!
//! Keys without a visible row have no word (and what is left of a deleted row must not count, see
//! [`RecordId`]); they go through a small hash table. So do all records of a store without protocol
//! words.
//!
//! *Invariants.* One numbering for each block height: within it, a record has one number, and no
//! two records share one, but for absent keys that share a `RecordId`. Any protocol that uses word
//! 0 keeps the block height in its upper 38 bits, so that what another protocol left is of the
//! past. Which record has which number depends on the timing of the workers, so numbers must not
//! reach a result: minima, maxima and sets over records do not depend on them.
//!
//! *Cost.* A compare-and-swap for the first touch of a record, a load for the others. Workers take
//! free numbers in spans, so at most [`SPAN`] for each of them are left unused.

use kit::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;
use storage::{Catalog, Table};
use types::{Height, TableId};

use crate::pending::RecordId;

const NUMBER_BITS: u32 = 26;
const NUMBERS_MAX: u32 = 1 << NUMBER_BITS;
/// Numbers that a worker takes at a time.
pub const SPAN: u32 = 64;
const ABSENT_SHARDS: usize = 16;

const _: () = assert!(storage::HEIGHT_MAX.leading_zeros() == NUMBER_BITS);

/// The numbers of one block.
pub struct RecordNumbers {
    height: Height,
    catalog: Arc<Catalog>,
    /// First number that no worker has taken.
    next: AtomicU32,
    absent: [Mutex<FxHashMap<(TableId, RecordId), u32>>; ABSENT_SHARDS],
}

impl RecordNumbers {
    pub fn new(height: Height, catalog: Arc<Catalog>) -> RecordNumbers {
        debug_assert!(height <= storage::HEIGHT_MAX, "it has 38 bits of a word");
        RecordNumbers { height, catalog, next: AtomicU32::new(0), absent: Default::default() }
    }

    /// For one worker; any number of them may be at work.
    pub fn counter(&self) -> Counter<'_> {
        Counter { numbers: self, free: 0..0, table: None }
    }

    /// All numbers are below this one.
    pub fn end(&self) -> u32 {
        self.next.load(Ordering::Relaxed)
    }
}

/// Gives records their numbers.
pub struct Counter<'a> {
    numbers: &'a RecordNumbers,
    free: Range<u32>,
    /// Of the last record: most come from the same one.
    table: Option<(TableId, &'a Table)>,
}

impl<'a> Counter<'a> {
    #[inline]
    pub fn number(&mut self, table: TableId, record: RecordId) -> u32 {
        let word = record.slot().and_then(|slot| self.table(table)?.protocol_word(slot, 0));
        match word {
            Some(word) => self.claim(word),
            None => self.look_up(table, record),
        }
    }

    #[inline]
    fn table(&mut self, id: TableId) -> Option<&'a Table> {
        match self.table {
            Some((last, table)) if last == id => Some(table),
            _ => {
                let table = self.numbers.catalog.table(id)?;
                self.table = Some((id, table));
                Some(table)
            }
        }
    }

    #[inline]
    fn claim(&mut self, word: &AtomicU64) -> u32 {
        let height = self.numbers.height;
        let number = |word: u64| (word as u32) & (NUMBERS_MAX - 1);
        let found = word.load(Ordering::Relaxed);
        if found >> NUMBER_BITS == height {
            return number(found);
        }
        let own = self.next_free();
        let claim = height << NUMBER_BITS | u64::from(own);
        // Nothing else is published by it: the arrays are made when all workers are done.
        match word.compare_exchange(found, claim, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                self.free.start += 1;
                own
            }
            // Another worker was faster; a word of this block is not written again.
            Err(theirs) => {
                debug_assert_eq!(theirs >> NUMBER_BITS, height, "blocks number one by one");
                number(theirs)
            }
        }
    }

    /// The number that the next record will have, if it is this worker's to give.
    fn next_free(&mut self) -> u32 {
        if self.free.is_empty() {
            let first = self.numbers.next.fetch_add(SPAN, Ordering::Relaxed);
            assert!(first <= NUMBERS_MAX - SPAN, "a block of more than {NUMBERS_MAX} records");
            self.free = first..first + SPAN;
        }
        self.free.start
    }

    #[cold]
    fn look_up(&mut self, table: TableId, record: RecordId) -> u32 {
        let shard = &self.numbers.absent[(record.0 >> 1) as usize % ABSENT_SHARDS];
        let mut known = shard.lock().unwrap_or_else(|e| e.into_inner());
        *known.entry((table, record)).or_insert_with(|| {
            let own = self.next_free();
            self.free.start += 1;
            own
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use storage::Store;
    use types::{ColumnSchema, DataType, Key, Stamp, TableSchema, Value};

    use super::*;

    const TABLE: TableId = TableId(1);
    const ROWS: i64 = 200;

    fn store() -> Store {
        let store = Store::new();
        let column = ColumnSchema::new("id", DataType::Int8);
        store.create_table(Arc::new(TableSchema {
            id: TABLE,
            name: "t".into(),
            columns: vec![column],
            primary_key: vec![0],
            indexes: Vec::new(),
            hidden_row_id: false,
        }));
        let mut writes = store.begin_block(1, 1);
        let table = store.table(TABLE).unwrap();
        for id in 0..ROWS {
            let (key, row) = (Key::from_int(id), [Value::Int(id)]);
            table.insert(key.as_bytes(), &row, Stamp::new(1, 0), writes.arena(0));
        }
        store.finish_unread(writes);
        store.publish(1);
        store
    }

    /// Every second key is absent.
    fn records(store: &Store) -> Vec<RecordId> {
        let table = store.table(TABLE).unwrap();
        let keys = (0..ROWS * 2).map(Key::from_int);
        keys.map(|key| RecordId::of(table.find(key.as_bytes()), &key)).collect()
    }

    #[test]
    fn workers_agree_on_numbers_that_no_two_records_share() {
        let store = store();
        let records = records(&store);
        // The words of the first block are the past of the second.
        for height in [2, 3] {
            let numbers = RecordNumbers::new(height, store.catalog());
            let seen: Vec<BTreeMap<RecordId, u32>> = std::thread::scope(|scope| {
                let workers: Vec<_> = (0..4)
                    .map(|worker| {
                        let (numbers, records) = (&numbers, &records);
                        scope.spawn(move || {
                            let mut counter = numbers.counter();
                            let turned = records.iter().cycle().skip(worker * 97);
                            turned
                                .take(records.len() * 2)
                                .map(|&record| (record, counter.number(TABLE, record)))
                                .collect()
                        })
                    })
                    .collect();
                workers.into_iter().map(|w| w.join().expect("no worker panics")).collect()
            });
            assert!(seen.windows(2).all(|two| two[0] == two[1]));
            let distinct: BTreeSet<u32> = seen[0].values().copied().collect();
            assert_eq!(distinct.len(), records.len());
            assert!(distinct.iter().all(|&number| number < numbers.end()));
            assert!(numbers.end() as usize <= records.len() + 4 * SPAN as usize);
        }
    }
}
