//! The block's records in the order of their keys, for those who look for all of a range.
//!
//! Records are filed when a scan asks for them: a block without scans pays nothing, and one with
//! scans for each record once. A scan of the primary key then looks at the records of its range.
//! One of another index looks at all of its table's, for what entries they have depends on who
//! reads; and a range may be as wide as its table, and end at its first row. So a block's scans may
//! look at so many records as are proportionate to its transactions. Beyond, the block has been
//! [looked at enough](Looks::are_spent): it is run again from its start, one transaction after
//! another.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use concurrency::overlay::byte_bounds;
use procedure::access::Range;
use rustc_hash::FxHashMap;
use types::{Key, TableId};

/// Records that scans may look at for each transaction of the block, and beside.
const LOOKS_EACH: u64 = 1_024;
const LOOKS_MIN: u64 = 1 << 16;

#[derive(Default)]
pub struct InOrder(Mutex<Filed>);

#[derive(Default)]
struct Filed {
    /// The records below this number are filed.
    end: u32,
    tables: FxHashMap<TableId, BTreeMap<Key, u32>>,
}

/// What the scans of a block have left of the records that they may look at.
pub struct Looks {
    made: AtomicU64,
    most: u64,
}

impl Looks {
    pub fn of(transactions: usize) -> Looks {
        Looks { made: AtomicU64::new(0), most: LOOKS_MIN + LOOKS_EACH * transactions as u64 }
    }

    fn spend(&self, looks: u64) {
        self.made.fetch_add(looks, Ordering::Relaxed);
    }

    pub fn are_spent(&self) -> bool {
        self.made.load(Ordering::Relaxed) > self.most
    }

    #[cfg(test)]
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }
}

impl InOrder {
    /// The records of which some version may lie in a range, by their numbers. `None`: looks are
    /// spent. `record` has a record's table and key, and `count` how many have a number so far.
    pub fn numbers_of<'m>(
        &self,
        record: impl Fn(u32) -> Option<(TableId, &'m Key)>,
        count: impl Fn() -> u32,
        range: &Range,
        looks: &Looks,
    ) -> Option<Vec<u32>> {
        if looks.are_spent() {
            return None;
        }
        let mut filed = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Another worker may be about to put a record into its place: those from there on wait for
        // the next scan, and this one looks at them as they are.
        while let Some((table, key)) = record(filed.end) {
            let number = filed.end;
            let before = filed.tables.entry(table).or_default().insert(key.clone(), number);
            assert!(before.is_none(), "no record has two numbers");
            filed.end += 1;
        }
        let bounds = match range.index {
            0 => byte_bounds(range).filter(|(low, high)| !is_empty(low, high)),
            _ => Some((Bound::Unbounded, Bound::Unbounded)),
        };
        let of_table = filed.tables.get(&range.table).zip(bounds);
        let within = of_table.into_iter().flat_map(|(table, bounds)| table.range(bounds));
        let mut numbers: Vec<u32> = within.map(|(_, number)| *number).collect();
        let coming = filed.end..count();
        drop(filed);
        looks.spend((numbers.len() + coming.len()) as u64);
        let is_of_table = |number: &u32| record(*number).is_some_and(|(it, _)| it == range.table);
        numbers.extend(coming.filter(is_of_table));
        Some(numbers)
    }
}

/// Nothing can lie between the bounds. A map does not take those.
fn is_empty(low: &Bound<Key>, high: &Bound<Key>) -> bool {
    match (low, high) {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Excluded(low) | Bound::Included(low), Bound::Excluded(high))
        | (Bound::Excluded(low), Bound::Included(high)) => low >= high,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use kit::random::Random;

    use super::super::memory::{Change, Memory, Place, Room, Written};
    use super::super::scheduler::Version;
    use super::*;

    const TABLE: TableId = TableId(1);

    /// For a block of so many transactions.
    fn memory(transactions: usize) -> Memory {
        Memory::new(Arc::default(), 1, transactions, Room::default())
    }

    fn write(memory: &Memory, transaction: u32, table: TableId, numbers: &[i64]) {
        let written = numbers.iter().map(|number| {
            let key = Key::from_int(*number);
            Written { place: Place::Key(table, key.clone()), key, change: Change::Delete }
        });
        memory
            .write(Version { transaction, incarnation: 0 }, &[], written.collect(), None)
            .unwrap();
    }

    fn range(index: u16, low: Bound<i64>, high: Bound<i64>) -> Range {
        let [low, high] = [low, high].map(|bound| bound.map(Key::from_int));
        Range { table: TABLE, index, low, high, reverse: false }
    }

    fn met(memory: &Memory, range: &Range) -> BTreeSet<Key> {
        let records = memory.records_of(range).expect("looks are left");
        let met: BTreeSet<Key> = records.iter().map(|record| record.key.clone()).collect();
        assert_eq!(met.len(), records.len(), "each once");
        met
    }

    #[test]
    fn a_range_meets_the_records_that_it_covers_whatever_was_asked_before() {
        let mut random = Random::new(7);
        let memory = memory(10_000);
        let mut all = BTreeSet::new();
        for round in 0..60 {
            let numbers: Vec<i64> = (0..5).map(|_| random.below(40) as i64).collect();
            write(&memory, round, TABLE, &numbers);
            write(&memory, round, TableId(2), &[0, 1, 2]);
            all.extend(numbers);
            for _ in 0..10 {
                let mut bound = || {
                    let number = random.below(42) as i64 - 1;
                    match random.below(3) {
                        0 => Bound::Included(number),
                        1 => Bound::Excluded(number),
                        _ => Bound::Unbounded,
                    }
                };
                let range = range(0, bound(), bound());
                let covered = all.iter().map(|number| Key::from_int(*number));
                let covered =
                    covered.filter(|key| concurrency::overlay::covers(&range, key.as_bytes()));
                assert_eq!(met(&memory, &range), covered.collect(), "{range:?}");
            }
            let every = range(1, Bound::Included(3), Bound::Included(4));
            assert_eq!(met(&memory, &every).len(), all.len(), "entries are not known here");
        }
    }

    const TRANSACTIONS: usize = 200;
    const RANGES: usize = 500;
    const WRITES: usize = 100;

    fn written() -> Memory {
        let memory = memory(TRANSACTIONS);
        for transaction in 0..TRANSACTIONS {
            let first = transaction * WRITES;
            let numbers: Vec<i64> = (first..first + WRITES).map(|number| number as i64).collect();
            write(&memory, transaction as u32, TABLE, &numbers);
        }
        memory
    }

    /// 200 transactions that read 500 ranges of a row each, and write 100 rows each: two billion
    /// pairs of a range and a record.
    #[test]
    fn ranges_times_records_are_not_looked_at() {
        let memory = written();
        for number in 0..(TRANSACTIONS * RANGES) as i64 {
            let range = range(0, Bound::Included(number), Bound::Included(number));
            assert!(memory.records_of(&range).is_some());
        }
        assert_eq!(memory.looks.made(), (TRANSACTIONS * WRITES) as u64);
    }

    /// The same ranges, each as wide as the table, or of an index.
    #[test]
    fn looks_at_records_end() {
        for index in [0, 1] {
            let memory = written();
            let every = range(index, Bound::Unbounded, Bound::Unbounded);
            let scans = (0..TRANSACTIONS * RANGES)
                .take_while(|_| memory.records_of(&every).is_some())
                .count();
            assert!(memory.looks.are_spent() && scans > 1);
            let most = Looks::of(TRANSACTIONS).most + (TRANSACTIONS * WRITES) as u64;
            assert!(memory.looks.made() <= most, "after {scans} scans");
        }
    }
}
