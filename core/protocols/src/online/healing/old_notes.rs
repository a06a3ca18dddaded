//! What the run that is being corrected had read, and which of it is still to come.
//!
//! A step that runs again asks, for each row that it writes, whether a later step had looked at
//! that row. A transaction may have thousands of both, so nothing goes over the notes for each:
//! where each row and gap stands for the last time is written down when it is first asked for.
//!
//! *Cost.* A hash-table entry a note, once a correction, of those with more than a few notes; then
//! a look-up for each write and for each gap that its entry lies in.

use std::cell::OnceCell;

use procedure::healing::Notes;
use rustc_hash::FxHashMap;
use storage::Slot;
use types::TableId;

use crate::online::gaps::Gap;
use crate::online::reads::Reads;

/// So many notes are gone through.
const FEW: usize = 16;

#[derive(Default)]
pub struct OldNotes {
    reads: Reads,
    last: OnceCell<Last>,
}

/// By row and by gap, where it stands for the last time.
struct Last {
    rows: FxHashMap<(TableId, Slot), usize>,
    gaps: FxHashMap<Gap, usize>,
}

impl OldNotes {
    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    /// Take what was read in exchange for what was kept of the run before.
    pub fn swap(&mut self, reads: &mut Reads) {
        std::mem::swap(reads, &mut self.reads);
        self.last.take();
    }

    /// Whether the row, if there is one, or one of the gaps is noted from `next` on.
    pub fn has(&self, next: Notes, row: (TableId, Option<Slot>), gaps: &[Gap]) -> bool {
        let Reads { rows, gaps: noted, .. } = &self.reads;
        let next = (next.rows as usize, next.gaps as usize);
        if rows.len() + noted.len() <= FEW {
            let has_row = rows[next.0..].iter().any(|seen| (seen.table, Some(seen.slot)) == row);
            return has_row || noted[next.1..].iter().any(|(gap, _)| gaps.contains(gap));
        }
        let last = self.last.get_or_init(|| Last::of(&self.reads));
        let is_ahead = |place: Option<&usize>, next: usize| {
            looked_up();
            place.is_some_and(|place| *place >= next)
        };
        let place = row.1.and_then(|slot| last.rows.get(&(row.0, slot)));
        is_ahead(place, next.0) || gaps.iter().any(|gap| is_ahead(last.gaps.get(gap), next.1))
    }
}

impl Last {
    fn of(reads: &Reads) -> Last {
        let rows = reads.rows.iter().zip(0..).map(|(row, at)| ((row.table, row.slot), at));
        let gaps = reads.gaps.iter().zip(0..).map(|((gap, _), at)| (*gap, at));
        Last {
            rows: rows.inspect(|_| looked_up()).collect(),
            gaps: gaps.inspect(|_| looked_up()).collect(),
        }
    }
}

#[cfg(not(test))]
fn looked_up() {}

#[cfg(test)]
use tests::looked_up;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use types::{Position, Stamp};

    use super::*;
    use crate::online::gaps::Gaps;
    use crate::online::reads::RowSeen;

    thread_local! {
        static LOOK_UPS: Cell<usize> = const { Cell::new(0) };
    }

    pub fn looked_up() {
        LOOK_UPS.set(LOOK_UPS.get() + 1);
    }

    const TABLE: TableId = TableId(1);

    /// That many rows and gaps were read, each of them twice, one after another.
    fn notes(count: usize) -> OldNotes {
        let gaps = Gaps::default();
        let mut reads = Reads::default();
        for at in (0..count).flat_map(|at| [at, at]) {
            let (slot, stamp) = (Slot(at as u32), Stamp::new(1, at as Position));
            reads.rows.push(RowSeen { table: TABLE, slot, stamp, value: true });
            let gap = gap(at);
            reads.gaps.push((gap, gaps.look(gap)));
        }
        let mut old = OldNotes::default();
        old.swap(&mut reads);
        old
    }

    fn gap(at: usize) -> Gap {
        Gaps::of_key(TABLE, &(at as u64).to_be_bytes())
    }

    fn next(rows: usize, gaps: usize) -> Notes {
        Notes { rows: rows as u32, gaps: gaps as u32, writes: 0 }
    }

    #[test]
    fn what_is_noted_for_the_last_time_is_not_noted_later() {
        for count in [3, 100] {
            let old = notes(count);
            let has_row =
                |at: u32, from| old.has(next(from, 2 * count), (TABLE, Some(Slot(at))), &[]);
            let has_gap =
                |at: usize, from| old.has(next(2 * count, from), (TABLE, None), &[gap(at)]);
            for (at, from) in [(2, 0), (2, 4), (2, 5), (0, 1)] {
                assert!(has_row(at, from) && has_gap(at as usize, from), "{at} from {from}");
            }
            for (at, from) in [(2, 6), (0, 2), (count as u32, 0)] {
                assert!(!has_row(at, from), "{at} from {from}");
            }
            assert!(!has_gap(2, 2 * count) && !old.has(next(0, 0), (TABLE, None), &[]));
            assert!(!old.has(next(0, 0), (TableId(2), Some(Slot(1))), &[]), "of another table");
        }
    }

    #[test]
    fn what_was_read_before_is_forgotten() {
        let mut old = notes(100);
        assert!(old.has(next(0, 0), (TABLE, Some(Slot(50))), &[]));
        old.swap(&mut Reads::default());
        assert!(!old.has(next(0, 0), (TABLE, Some(Slot(50))), &[]));
    }

    /// Ten thousand rows and gaps, and as many writes that each lie in six gaps.
    #[test]
    fn notes_times_writes_are_not_looked_up() {
        const COUNT: usize = 5_000;
        let old = notes(COUNT);
        let gaps: Vec<Gap> = (COUNT..COUNT + 6).map(gap).collect();
        LOOK_UPS.take();
        for write in 0..2 * COUNT {
            let row = (TABLE, Some(Slot((COUNT + write) as u32)));
            old.has(next(0, 0), row, &gaps);
        }
        let (of_notes, of_writes) = (4 * COUNT, 2 * COUNT * 7);
        assert!(LOOK_UPS.take() <= of_notes + of_writes);
    }
}
