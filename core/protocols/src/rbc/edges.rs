//! Which transactions read and which write the records that a block writes.
//!
//! Records that no transaction writes make no edge, nor do questions whether a record is there that
//! stays where it is; so both are left out, which leaves little of a block without conflicts. All
//! lists are by TID.

use concurrency::{RecordId, Simulated, phantoms};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use storage::Catalog;
use types::{Position, TableId};

use super::mutant::Mutant;

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

impl Record {
    /// Readers of what a writer of this record changes, the latest first.
    fn readers_of(&self, writer: Touch) -> impl Iterator<Item = Position> + '_ {
        let touched = move |reader: &&Touch| !reader.existence || writer.existence;
        self.readers.iter().rev().filter(touched).map(|reader| reader.tid)
    }
}

#[derive(Default)]
struct Writer {
    /// Places in `Edges::records`.
    records: SmallVec<[(u32, Touch); 8]>,
    /// Readers of ranges that it writes into.
    range_readers: Vec<Position>,
}

pub struct Edges {
    records: Vec<Record>,
    writers: Vec<Writer>,
}

impl Edges {
    pub fn of(simulated: &[Simulated], catalog: &Catalog, mutant: Option<Mutant>) -> Edges {
        let mut places: FxHashMap<(TableId, RecordId), u32> = FxHashMap::default();
        let mut records: Vec<Record> = Vec::new();
        let mut writers: Vec<Writer> = Vec::with_capacity(simulated.len());
        for (tid, simulated) in (0..).zip(simulated) {
            let mut writer = Writer::default();
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
                writer.records.push((place, touch));
            }
            writers.push(writer);
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
        if mutant != Some(Mutant::NoRangeEdges) {
            phantoms::for_each(simulated, catalog, (0, 1), |writer, reader| {
                writers[writer].range_readers.push(reader as Position);
            });
        }
        let ascend = |touches: &[Touch]| touches.is_sorted_by_key(|touch| touch.tid);
        debug_assert!(records.iter().all(|r| ascend(&r.writers) && ascend(&r.readers)), "by TID");
        Edges { records, writers }
    }

    /// Those that write a record which `tid` writes.
    pub fn rivals(&self, tid: Position) -> impl Iterator<Item = Position> + '_ {
        let records = self.writers[tid as usize].records.iter();
        records
            .flat_map(|(place, _)| self.records[*place as usize].writers.iter())
            .map(|rival| rival.tid)
            .filter(move |rival| *rival != tid)
    }

    /// Those that read the before-image of something that `tid` writes, down to TID `least`.
    pub fn readers(&self, tid: Position, least: Position) -> impl Iterator<Item = Position> + '_ {
        let writer = &self.writers[tid as usize];
        let of_records = writer.records.iter().flat_map(move |&(place, touch)| {
            let readers = self.records[place as usize].readers_of(touch);
            readers.take_while(move |reader| *reader >= least)
        });
        let of_ranges = writer.range_readers.iter().copied();
        of_records
            .chain(of_ranges.filter(move |reader| *reader >= least))
            .filter(move |reader| *reader != tid)
    }
}
