//! What the orderer does with endorsed transactions before it reorders them: cut them into batches,
//! drop those that read an older version than others did, and number the keys.

use std::hash::Hash;
use std::ops::Range;

use concurrency::endorsement::Endorsed;
use concurrency::phantoms::WritesInOrder;
use concurrency::{PendingWrite, RecordId};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use storage::Catalog;
use types::{Stamp, TableId};

use super::mutant::Mutant;

type Record = (TableId, RecordId);

/// How large a batch may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub transactions: usize,
    /// Records that they read or write.
    pub unique_keys: usize,
}

/// Cut transactions that access some keys each into batches within the limits, in their order. One
/// that is beyond the limits by itself gets a batch of its own.
pub fn cut<K, I>(accesses: impl Iterator<Item = I>, limits: Limits) -> Vec<Range<usize>>
where
    K: Hash + Eq,
    I: Iterator<Item = K>,
{
    let mut batches = Vec::new();
    let (mut begin, mut end) = (0, 0);
    let mut keys = FxHashSet::default();
    for accesses in accesses {
        let accesses: SmallVec<[K; 16]> = accesses.collect();
        let fresh = |keys: &FxHashSet<K>| accesses.iter().filter(|k| !keys.contains(k)).count();
        let is_full = end - begin >= limits.transactions
            || keys.len() + accesses.len() > limits.unique_keys
                && keys.len() + fresh(&keys) > limits.unique_keys;
        if end > begin && is_full {
            batches.push(begin..end);
            begin = end;
            keys.clear();
        }
        keys.extend(accesses);
        end += 1;
    }
    if end > begin {
        batches.push(begin..end);
    }
    batches
}

/// Cut a block. Most blocks are small enough for one batch, which is seen without a set of keys.
pub fn cut_block(endorsed: &[Endorsed], limits: Limits) -> Vec<Range<usize>> {
    let accesses = |e: &Endorsed| e.reads.rows.len() + e.reads.absent.len() + e.writes.len();
    if endorsed.len() <= limits.transactions
        && endorsed.iter().map(accesses).sum::<usize>() <= limits.unique_keys
    {
        return Vec::from_iter((!endorsed.is_empty()).then_some(0..endorsed.len()));
    }
    cut(endorsed.iter().map(records), limits)
}

fn records(endorsed: &Endorsed) -> impl Iterator<Item = Record> + '_ {
    let reads = &endorsed.reads;
    let rows = reads.rows.iter().map(|read| (read.table, read.record));
    let absent = reads.absent.iter().map(|read| (read.table, read.record));
    rows.chain(absent).chain(endorsed.writes.iter().map(|write| (write.table, write.record)))
}

/// Those who read an older version of a row than another transaction of the batch did: a block is
/// committed as a whole, so the newer version was there before all of them, and the older is gone.
pub fn readers_of_older_versions<'e>(
    batch: impl Iterator<Item = &'e Endorsed> + Clone,
) -> impl Iterator<Item = bool> {
    let mut newest: FxHashMap<Record, Stamp> = FxHashMap::default();
    let value_reads = |e: &'e Endorsed| e.reads.rows.iter().filter(|read| read.value);
    for read in batch.clone().flat_map(value_reads) {
        let seen = newest.entry((read.table, read.record)).or_default();
        *seen = (*seen).max(read.stamp);
    }
    batch.map(move |e| value_reads(e).any(|read| newest[&(read.table, read.record)] > read.stamp))
}

/// The keys of a transaction, as the reordering takes them.
pub type Keys = SmallVec<[u32; 8]>;

/// What the transactions of a batch read and write, as numbers. A record that is written has two:
///
/// ```text
///   2i      its value             read by value reads           written by every write
///   2i + 1  whether it is there   read by row counts, inserts   written by inserts and deletes
/// ```
///
/// There is no conflict on a record that is not written, so it has none. A range read reads the
/// values of all written records that may touch the range.
pub struct KeySets {
    pub reads: Vec<Keys>,
    pub writes: Vec<Keys>,
}

impl KeySets {
    pub fn of(batch: &[&Endorsed], catalog: &Catalog, mutant: Option<Mutant>) -> KeySets {
        let mut numbers: FxHashMap<Record, u32> = FxHashMap::default();
        let writes = batch.iter().map(|endorsed| {
            let mut keys = Keys::new();
            for write in endorsed.writes.iter().filter(|write| !write.is_void()) {
                let fresh = numbers.len() as u32;
                let number = *numbers.entry((write.table, write.record)).or_insert(fresh);
                keys.push(2 * number);
                if write.changes_existence() {
                    keys.push(2 * number + 1);
                }
            }
            keys
        });
        let writes = writes.collect();
        let number = |table, record| numbers.get(&(table, record)).copied();
        let ignores_existence = mutant == Some(Mutant::NoExistenceEdges);
        let reads = batch.iter().map(|endorsed| {
            let rows = endorsed.reads.rows.iter().filter_map(|read| {
                let number = number(read.table, read.record)?;
                match read.value {
                    true => Some(2 * number),
                    false => (!ignores_existence).then_some(2 * number + 1),
                }
            });
            let absent = endorsed.reads.absent.iter().filter(|_| !ignores_existence);
            let absent = absent.filter_map(|r| Some(2 * number(r.table, r.record)? + 1));
            rows.chain(absent).collect()
        });
        let mut sets = KeySets { reads: reads.collect(), writes };
        debug_assert_eq!(sets.reads.len(), sets.writes.len(), "of each transaction");
        if mutant != Some(Mutant::NoRangeEdges) {
            sets.add_ranges(batch, catalog, |write| number(write.table, write.record));
        }
        if mutant == Some(Mutant::NoEdgesOfErrors) {
            let errors = sets.reads.iter_mut().zip(batch).filter(|(_, e)| e.run.is_err());
            errors.for_each(|(reads, _)| reads.clear());
        }
        sets
    }

    fn add_ranges(
        &mut self,
        batch: &[&Endorsed],
        catalog: &Catalog,
        number: impl Fn(&PendingWrite) -> Option<u32>,
    ) {
        if batch.iter().all(|endorsed| endorsed.reads.ranges.is_empty()) {
            return;
        }
        let writes = batch.iter().enumerate().flat_map(|(writer, endorsed)| {
            endorsed.writes.iter().filter(|w| !w.is_void()).map(move |write| (writer, write))
        });
        let writes = WritesInOrder::new(catalog, writes);
        for (reader, (endorsed, reads)) in batch.iter().zip(&mut self.reads).enumerate() {
            let ranges = endorsed.reads.ranges.iter().map(|required| &required.range);
            let others = writes.touching(ranges, reader).into_iter();
            reads.extend(others.filter_map(|(_, write)| Some(2 * number(write)?)));
            reads.sort_unstable();
            reads.dedup();
        }
    }
}

#[cfg(test)]
mod tests {
    use concurrency::endorsement::{ReadSet, RowVersion};
    use procedure::ProgramResult;

    use super::*;

    /// Sharma 2020, 3.5.1: a batch is cut by transactions, and by the distinct keys they access.
    #[test]
    fn a_batch_is_cut_by_transactions_and_by_unique_keys() {
        let batches = |accesses: &[&[u32]], transactions, unique_keys| {
            cut(accesses.iter().map(|a| a.iter()), Limits { transactions, unique_keys })
        };
        let accesses: [&[u32]; 5] = [&[1, 2], &[2, 1], &[1, 3], &[4, 5, 6, 7], &[1]];
        assert_eq!(batches(&accesses, 10, 100), vec![0..5]);
        assert_eq!(batches(&accesses, 2, 100), [0..2, 2..4, 4..5]);
        assert_eq!(batches(&accesses, 10, 2), [0..2, 2..3, 3..4, 4..5]);
        assert_eq!(batches(&accesses, 10, 3), [0..3, 3..4, 4..5]);
        assert!(batches(&[], 10, 3).is_empty());
    }

    /// Sharma 2020, 3.5.2: T6 read version 1 and T7 version 2 of one key, so T6 is doomed; the same
    /// when T7 comes first.
    #[test]
    fn whoever_read_an_older_version_than_another_is_dropped() {
        let reader = |versions: &[(u64, u64)]| {
            let row = |&(record, height): &(u64, u64)| RowVersion {
                table: TableId(1),
                record: RecordId(record),
                stamp: Stamp::new(height, 0),
                value: true,
            };
            let reads = ReadSet { rows: versions.iter().map(row).collect(), ..ReadSet::default() };
            Endorsed { run: Ok(ProgramResult::default()), reads, writes: Vec::new() }
        };
        let (six, seven) = (reader(&[(2, 1)]), reader(&[(2, 2), (4, 1)]));
        let other = reader(&[(4, 1), (6, 1)]);
        let doomed = |batch: [&Endorsed; 3]| -> Vec<bool> {
            readers_of_older_versions(batch.into_iter()).collect()
        };
        assert_eq!(doomed([&six, &seven, &other]), [true, false, false]);
        assert_eq!(doomed([&other, &seven, &six]), [false, false, true]);
    }
}
