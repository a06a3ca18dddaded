use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use kit::random::Random;
use procedure::ProgramResult;
use storage::Store;
use types::{ColumnSchema, DataType, IndexSchema, TableSchema};

use super::lines::tests::look_ups;
use super::*;
use crate::overlay::covers;
use crate::pending::RecordId;
use crate::simulation::Reads;

/// Rows (a, b) with a key on a and an index on b.
pub(crate) fn store() -> Store {
    let store = Store::new();
    let column = |name: &str| ColumnSchema::new(name, DataType::Int8);
    let index = IndexSchema { name: "i".into(), columns: vec![1], unique: false, dropped: false };
    store.create_table(Arc::new(TableSchema {
        id: TableId(1),
        name: "t".into(),
        columns: vec![column("a"), column("b")],
        primary_key: vec![0],
        indexes: vec![index],
        hidden_row_id: false,
    }));
    store
}

fn put(a: i64, b: i64) -> PendingWrite {
    let key = Key::from_int(a);
    PendingWrite {
        table: TableId(1),
        record: RecordId::of(None, &key),
        slot: None,
        key,
        existed: false,
        state: WriteState::Put([Value::Int(a), Value::Int(b)].into()),
    }
}

fn transaction(ranges: Vec<Range>, writes: Vec<PendingWrite>) -> Simulated {
    let reads = Reads { rows: Vec::new(), ranges };
    Simulated { run: Ok(ProgramResult::default()), reads, writes }
}

fn range(index: IndexId, low: Bound<i64>, high: Bound<i64>) -> Range {
    let key = Key::from_int;
    Range { table: TableId(1), index, low: low.map(key), high: high.map(key), reverse: false }
}

/// Every pair, one by one.
fn pairs(simulated: &[Simulated], catalog: &Catalog) -> BTreeSet<(usize, usize)> {
    let table = catalog.table(TableId(1)).unwrap();
    let mut pairs = BTreeSet::new();
    for (reader, of_reader) in simulated.iter().enumerate() {
        for range in &of_reader.reads.ranges {
            for (writer, of_writer) in simulated.iter().enumerate().filter(|(w, _)| *w != reader) {
                let touches = of_writer.writes.iter().any(|write| {
                    let WriteState::Put(row) = &write.state else { return false };
                    let entry = index_key(table, range.index, &write.key, |c| &row[usize::from(c)]);
                    covers(range, entry.unwrap().as_bytes())
                });
                if touches {
                    pairs.insert((writer, reader));
                }
            }
        }
    }
    pairs
}

fn in_order<'s>(simulated: &'s [Simulated], catalog: &'s Catalog) -> WritesInOrder<'s> {
    let all = simulated.iter().enumerate();
    WritesInOrder::new(catalog, all.flat_map(|(tid, s)| s.writes.iter().map(move |w| (tid, w))))
}

#[test]
fn edges_are_those_of_all_pairs_one_by_one() {
    let store = store();
    let catalog = store.catalog();
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let bound = |random: &mut Random| {
            let at = random.below(20) as i64;
            [Bound::Included(at), Bound::Excluded(at), Bound::Unbounded][random.below(3) as usize]
        };
        let simulated: Vec<Simulated> = (0..6)
            .map(|tid| {
                let ranges = (0..random.below(4)).map(|_| {
                    let (low, high) = (bound(&mut random), bound(&mut random));
                    range(random.below(2) as IndexId, low, high)
                });
                let ranges = ranges.collect();
                let writes = 0..random.below(4);
                let writes =
                    writes.map(|at| put(tid + 6 * at as i64 % 20, random.below(20) as i64));
                transaction(ranges, writes.collect())
            })
            .collect();
        let expected = pairs(&simulated, &catalog);
        let writes = in_order(&simulated, &catalog);
        let (mut all, mut outermost) = (BTreeSet::new(), BTreeSet::new());
        let readers = || simulated.iter().enumerate().map(|(tid, s)| (tid, &*s.reads.ranges));
        for_all(&writes, readers(), |writer, reader| {
            all.insert((writer, reader));
        });
        assert_eq!(all, expected, "seed {seed}");
        for (reader, ranges) in readers() {
            let touching = writes.touching(ranges.iter(), reader).into_iter();
            let writers: BTreeSet<usize> = touching.map(|(writer, _)| writer).collect();
            let of_reader =
                expected.iter().filter(|(_, r)| *r == reader).map(|(writer, _)| *writer);
            assert_eq!(writers, of_reader.collect(), "seed {seed}");
        }
        for_each(&simulated, &catalog, (0, 1), |writer, reader| {
            outermost.insert((writer, reader));
        });
        assert!(outermost.is_subset(&expected), "seed {seed}");
        for tid in 0..simulated.len() {
            let writers = |of: &BTreeSet<(usize, usize)>| {
                of.iter().filter(|(_, r)| *r == tid).map(|(w, _)| *w).min().filter(|w| *w < tid)
            };
            assert_eq!(writers(&outermost), writers(&expected), "seed {seed}");
            let readers = |of: &BTreeSet<(usize, usize)>| {
                let readers = of.iter().filter(|(w, _)| *w == tid).map(|(_, r)| *r);
                (readers.clone().min(), readers.max())
            };
            assert_eq!(readers(&outermost), readers(&expected), "seed {seed}");
        }
    }
}

/// 200 transactions that have read the whole table 500 times each, and write 100 rows each: two
/// billion pairs of a range and a write.
#[test]
fn ranges_times_writes_are_not_looked_up() {
    const TRANSACTIONS: usize = 200;
    const RANGES: usize = 500;
    const WRITES: usize = 100;
    let store = store();
    let catalog = store.catalog();
    let simulated: Vec<Simulated> = (0..TRANSACTIONS)
        .map(|tid| {
            let every = range(0, Bound::Unbounded, Bound::Unbounded);
            let writes = (0..WRITES).map(|at| put((at * TRANSACTIONS + tid) as i64, 0));
            transaction(vec![every; RANGES], writes.collect())
        })
        .collect();
    let (ranges, rows) = (TRANSACTIONS * RANGES, TRANSACTIONS * WRITES);
    let depth = rows.ilog2() as usize + 1;
    look_ups();
    let mut edges = 0;
    for_each(&simulated, &catalog, (0, 1), |_, _| edges += 1);
    assert!(edges >= 2 * (TRANSACTIONS - 1));
    let of_outermost = look_ups() as usize;
    assert!(of_outermost <= 2 * ranges * 2 * depth, "{of_outermost}");

    let writes = in_order(&simulated, &catalog);
    let mut pairs = 0;
    let readers = simulated.iter().enumerate().map(|(tid, s)| (tid, &*s.reads.ranges));
    for_all(&writes, readers, |_, _| pairs += 1);
    assert_eq!(pairs, TRANSACTIONS * (TRANSACTIONS - 1));
    let of_all = look_ups() as usize;
    assert!(of_all <= 3 * TRANSACTIONS * TRANSACTIONS * 2 * depth, "{of_all}");

    for (tid, simulated) in simulated.iter().enumerate() {
        let touching = writes.touching(simulated.reads.ranges.iter(), tid);
        assert_eq!(touching.len(), rows - WRITES);
    }
    assert_eq!(look_ups() as usize, TRANSACTIONS * rows);
}
