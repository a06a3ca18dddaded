//! Who reads what each transaction of a block writes, and who writes the same.
//!
//! Records that no transaction writes make no edge, nor do questions whether a record is there that
//! stays where it is; so both are left out, which leaves little of a block without conflicts.
//!
//! *Cost.* A record with few readers costs its writers a step each. The readers of any other one
//! are a row of bits, a 64th of a word for each transaction of the block, and so are those of a
//! transaction: many rows that many read cost what it cost to read them, and a question about the
//! readers of one transaction costs a row, however many records made them.

use concurrency::phantoms::{WritesInOrder, for_all};
use concurrency::{RecordId, Simulated};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use storage::Catalog;
use types::{Position, TableId};

use super::mutant::Mutant;

/// More readers of a record are a row of bits.
const LIST_MAX: usize = 64;

/// One access to a record.
#[derive(Clone, Copy)]
struct Touch {
    tid: Position,
    /// Of a reader: it asked only whether the row is there. Of a writer: it changes just that.
    existence: bool,
}

#[derive(Default)]
struct Record {
    writers: SmallVec<[Touch; 2]>,
    readers: SmallVec<[Touch; 2]>,
    /// A writer makes the row come or go.
    changes: bool,
}

/// Some transactions of a block.
#[derive(Clone, Default)]
pub struct Bits(Box<[u64]>);

impl Bits {
    /// None of so many; all of those beyond are no members either.
    pub fn none(count: usize) -> Bits {
        Bits(vec![0; count.div_ceil(64)].into())
    }

    pub fn insert(&mut self, tid: Position) {
        self.0[tid as usize / 64] |= 1 << (tid % 64);
    }

    pub fn remove(&mut self, tid: Position) {
        self.0[tid as usize / 64] &= !(1 << (tid % 64));
    }

    pub fn contains(&self, tid: Position) -> bool {
        let word = self.0.get(tid as usize / 64).copied().unwrap_or(0);
        word >> (tid % 64) & 1 == 1
    }

    /// The first of its words from `word` on with a member that is among `others` too; `None`: none
    /// has one.
    pub fn common_word(&self, others: &Bits, word: usize) -> Option<usize> {
        let mut words = self.0.iter().zip(&others.0).skip(word);
        let found = words.position(|(a, b)| {
            #[cfg(test)]
            tests::looked();
            a & b != 0
        });
        found.map(|after| word + after)
    }

    fn insert_all(&mut self, others: &Bits) {
        self.0.iter_mut().zip(&others.0).for_each(|(word, others)| *word |= others);
    }

    /// Those of them that are among `others` too, from `least` on, ascending.
    pub fn both<'b>(
        &'b self,
        others: &'b Bits,
        least: Position,
    ) -> impl Iterator<Item = Position> + 'b {
        let first = least as usize / 64;
        let words = self.0.iter().zip(&others.0).zip(0..).skip(first);
        words.flat_map(move |((a, b), at): ((&u64, &u64), u32)| {
            let mut word = a & b;
            if at as usize == first {
                word &= u64::MAX << (least % 64);
            }
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(at * 64 + bit)
            })
        })
    }
}

pub struct Edges {
    /// For each written record its writers.
    writers: Vec<SmallVec<[Touch; 2]>>,
    /// For each transaction places in `writers`.
    written: Vec<SmallVec<[u32; 8]>>,
    /// For each transaction the others that read what it writes; empty: none.
    readers: Vec<Bits>,
}

impl Edges {
    pub fn of(simulated: &[Simulated], catalog: &Catalog, mutant: Option<Mutant>) -> Edges {
        let count = simulated.len();
        let mut places: FxHashMap<(TableId, RecordId), u32> = FxHashMap::default();
        let mut records: Vec<Record> = Vec::new();
        let mut written = Vec::with_capacity(count);
        for (tid, simulated) in (0..).zip(simulated) {
            let mut places_of_one = SmallVec::new();
            for write in simulated.writes.iter().filter(|write| !write.is_void()) {
                let next = records.len() as u32;
                let place = *places.entry((write.table, write.record)).or_insert(next);
                if place == next {
                    records.push(Record::default());
                }
                let touch = Touch { tid, existence: write.changes_existence() };
                let record = &mut records[place as usize];
                record.writers.push(touch);
                record.changes |= touch.existence;
                places_of_one.push(place);
            }
            written.push(places_of_one);
        }
        for (tid, simulated) in (0..).zip(simulated) {
            for read in &simulated.reads.rows {
                let Some(&place) = places.get(&(read.table, read.record)) else {
                    continue;
                };
                let record = &mut records[place as usize];
                let existence = !read.value;
                if !existence || record.changes && mutant != Some(Mutant::NoExistenceEdges) {
                    record.readers.push(Touch { tid, existence });
                }
            }
        }
        let mut readers = Readers { count, of: vec![Bits::default(); count] };
        records.iter().for_each(|record| readers.add_record(record));
        if mutant != Some(Mutant::NoRangeEdges) {
            readers.add_ranges(simulated, catalog);
        }
        let writers = records.into_iter().map(|record| record.writers).collect();
        Edges { writers, written, readers: readers.of }
    }

    /// Those that write a record which `tid` writes.
    pub fn rivals(&self, tid: Position) -> impl Iterator<Item = Position> + '_ {
        let records = self.written[tid as usize].iter();
        records
            .flat_map(|place| self.writers[*place as usize].iter())
            .map(|rival| rival.tid)
            .filter(move |rival| *rival != tid)
    }

    /// Those that read the before-image of something that `tid` writes.
    pub fn readers(&self, tid: Position) -> &Bits {
        &self.readers[tid as usize]
    }
}

/// The readers of each transaction's writes while they are gathered.
struct Readers {
    count: usize,
    of: Vec<Bits>,
}

impl Readers {
    fn of(&mut self, writer: Position) -> &mut Bits {
        let row = &mut self.of[writer as usize];
        if row.0.is_empty() {
            *row = Bits::none(self.count);
        }
        row
    }

    fn add(&mut self, writer: Position, reader: Position) {
        if writer != reader {
            self.of(writer).insert(reader);
        }
    }

    fn add_record(&mut self, record: &Record) {
        if record.readers.len() <= LIST_MAX {
            for writer in &record.writers {
                let touched = |reader: &&Touch| !reader.existence || writer.existence;
                let readers = record.readers.iter().filter(touched);
                readers.for_each(|reader| self.add(writer.tid, reader.tid));
            }
            return;
        }
        let (mut of_value, mut all) = (Bits::none(self.count), Bits::none(self.count));
        for reader in &record.readers {
            all.insert(reader.tid);
            if !reader.existence {
                of_value.insert(reader.tid);
            }
        }
        for writer in &record.writers {
            let row = self.of(writer.tid);
            row.insert_all(if writer.existence { &all } else { &of_value });
            row.remove(writer.tid);
        }
    }

    /// Readers of ranges that others write into.
    fn add_ranges(&mut self, simulated: &[Simulated], catalog: &Catalog) {
        if simulated.iter().all(|s| s.reads.ranges.is_empty()) {
            return;
        }
        let writes = (0..).zip(simulated);
        let writes =
            writes.flat_map(|(writer, s)| s.writes.iter().map(move |write| (writer, write)));
        let writes = WritesInOrder::new(catalog, writes);
        let readers = (0..).zip(simulated).map(|(reader, s)| (reader, &*s.reads.ranges));
        for_all(&writes, readers, |writer, reader| {
            self.add(writer as Position, reader as Position);
        });
    }
}

#[cfg(test)]
pub mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static LOOKED: Cell<usize> = const { Cell::new(0) };
    }

    pub fn looked() {
        LOOKED.set(LOOKED.get() + 1);
    }

    /// Words that were looked at for common ones since this was last asked.
    pub fn words_looked_at() -> usize {
        LOOKED.take()
    }

    /// Of transactions that write a record each, and who reads it.
    pub fn edges_of(readers: impl IntoIterator<Item = Bits>) -> Edges {
        let readers: Vec<Bits> = readers.into_iter().collect();
        let written = vec![SmallVec::new(); readers.len()];
        Edges { writers: Vec::new(), written, readers }
    }

    #[test]
    fn common_members_come_from_the_least_on() {
        let of = |members: &[Position]| {
            let mut bits = Bits::none(200);
            members.iter().for_each(|tid| bits.insert(*tid));
            bits
        };
        let (a, b) = (of(&[0, 5, 63, 64, 130, 199]), of(&[5, 63, 64, 131, 199]));
        let both = |least| a.both(&b, least).collect::<Vec<_>>();
        assert_eq!(both(0), [5, 63, 64, 199]);
        assert_eq!(both(6), [63, 64, 199]);
        assert_eq!(both(64), [64, 199]);
        assert_eq!(both(199), [199]);
        assert!(Bits::default().both(&b, 3).next().is_none());
        assert!(!Bits::default().contains(100) && a.contains(130));
        let word = |from| a.common_word(&b, from);
        assert_eq!([0, 1, 2, 3, 4].map(word), [Some(0), Some(1), Some(3), Some(3), None]);
    }
}
