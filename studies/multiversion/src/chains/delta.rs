//! Delta storage (section 5.4.3): the newest row in the main table, overwritten in place; each
//! update keeps what the columns that it changed held before. An older row is put together from
//! the newest and the deltas on the way to it.
//!
//! ```text
//! delta   begin | end | next | tuple | order | stamp | cells | column, null | word | word | …
//! ```
//!
//! A deletion changes no column: the row stays where it is until another takes its place. Taking a
//! delta out of the *middle* of a chain hands its cells on to the older one, unless that has its
//! own for the column; so interval collection serves deltas too.

use kit::sync::Spin;
use kit::sync::atomic::{AtomicU64, Ordering, fence};
use smallvec::SmallVec;
use types::{ColumnId, Stamp};

use super::time_travel::{Master, master_row, read_master, write_master};
use super::{
    BEGIN, Chains, Head, Latched, Mark, NewVersion, RowAt, STAMP, Seen, Show, Sight, V_BEGIN,
    V_NEXT, V_ROW, Version, copy_row, read_version, store_header,
};
use crate::clock::Timestamp;
use crate::layout::{Cell, Layout};
use crate::mutant::{Mutant, mutated};
use crate::pool::{Classes, Full, Piece, Unit};

const CELLS: usize = V_ROW;
const CELL_WORDS: usize = 3;
const NULL_BIT: u64 = 1 << 16;

pub struct Delta {
    pieces: Classes,
}

type Cells = SmallVec<[(ColumnId, Cell); 4]>;

impl Delta {
    pub fn new(spaces: usize) -> Delta {
        Delta { pieces: Classes::new(spaces) }
    }

    /// A delta with its cells; `None` if it changed hands.
    #[inline]
    fn read(&self, link: u64, tuple: u32) -> Option<(Version, Cells)> {
        let words = self.pieces.words(Piece(link));
        let version = read_version(words, tuple)?;
        let cells = cells_of(words);
        fence(Ordering::Acquire);
        let same = words[V_BEGIN].load(Ordering::Relaxed) == version.mark.0;
        same.then_some((version, cells))
    }

    fn walk(
        &self,
        layout: &Layout,
        (head, master): (Head<'_>, &Master),
        tuple: u32,
        at: Timestamp,
        row: &mut [u64],
    ) -> Option<Seen<'_>> {
        let (mut link, mut passed, mut end) = (master.chain, 1, master.mark.begin());
        while link != 0 {
            let (version, cells) = self.read(link, tuple)?;
            cells.iter().for_each(|(column, cell)| layout.set(*column, *cell, row));
            let mark = version.mark;
            if mark.begin() <= at {
                let (end, end_order, stamp) = (version.end, version.ender, version.stamp);
                let row = RowAt::Copied;
                let seen = Seen { mark, end, end_order, stamp, unit: None, row, passed };
                return (at < end).then_some(seen);
            }
            end = mark.begin();
            passed += 1;
            link = version.next;
        }
        Some(Seen::absent(head, end))
    }

    fn write(
        &self,
        header: [u64; V_ROW],
        cells: &[(ColumnId, Cell)],
        worker: usize,
    ) -> Result<Piece, Full> {
        let piece = self.pieces.take(CELLS + 1 + cells.len() * CELL_WORDS, worker)?;
        let words = self.pieces.words(piece);
        words[CELLS].store(cells.len() as u64, Ordering::Relaxed);
        let places = words[CELLS + 1..].chunks_exact(CELL_WORDS);
        for ((column, cell), place) in cells.iter().zip(places) {
            let null = if cell.null { NULL_BIT } else { 0 };
            place[0].store(u64::from(*column) | null, Ordering::Relaxed);
            place[1].store(cell.words[0], Ordering::Relaxed);
            place[2].store(cell.words[1], Ordering::Relaxed);
        }
        store_header(words, header);
        Ok(piece)
    }

    fn free(&self, piece: Piece) {
        self.pieces.words(piece)[V_BEGIN].store(Mark::FREE.0, Ordering::Release);
        self.pieces.give(piece);
    }

    /// What the changed columns hold now, at the beginning of the chain.
    fn save(
        &self,
        layout: &Layout,
        latched: &Latched<'_>,
        new: &NewVersion<'_>,
        worker: usize,
    ) -> Result<(), Full> {
        let head = latched.0;
        let row = master_row(layout, head);
        let load = |i: usize| row[i].load(Ordering::Relaxed);
        let changed = new.changed.iter().filter(|_| new.image.is_some());
        let cells: Cells = changed.map(|c| (c, layout.cell(c, load))).collect();
        let word = |at: usize| head.0[at].load(Ordering::Relaxed);
        let end = if mutated(Mutant::EndNotSet) { Timestamp::INFINITY } else { new.at };
        let tuple = u64::from(new.tuple);
        let header = [word(BEGIN), end.0, head.chain(), tuple, new.order.0, word(STAMP)];
        latched.set_chain(self.write(header, &cells, worker)?.0);
        Ok(())
    }

    /// Takes a delta out. What it knew of columns, the older one must know then.
    fn take_out(
        &self,
        layout: &Layout,
        latched: &Latched<'_>,
        before: Option<Piece>,
        (piece, version, cells): (Piece, &Version, Cells),
        tuple: u32,
    ) -> Option<u64> {
        let mut next = version.next;
        if next != 0 {
            let (older, mut merged) = self.read(next, tuple)?;
            let known = merged.len();
            let mut spared = Cells::new();
            for (column, cell) in cells {
                let is_known = merged[..known].iter().any(|(known, _)| *known == column);
                let taker = if is_known { &mut spared } else { &mut merged };
                taker.push((column, cell));
            }
            let end = older.end.0;
            let (ender, stamp) = (older.ender.0, older.stamp.0);
            let header = [older.mark.0, end, older.next, u64::from(tuple), ender, stamp];
            let old = Piece(next);
            next = self.write(header, &merged, 0).ok()?.0;
            self.relink(latched, before, next);
            self.free(old);
            spared.into_iter().for_each(|(column, cell)| layout.release_cell(column, cell));
        } else {
            self.relink(latched, before, 0);
            cells.into_iter().for_each(|(column, cell)| layout.release_cell(column, cell));
        }
        self.free(piece);
        Some(next)
    }

    fn relink(&self, latched: &Latched<'_>, before: Option<Piece>, next: u64) {
        match before {
            None => latched.set_chain(next),
            Some(before) => self.pieces.words(before)[V_NEXT].store(next, Ordering::Release),
        }
    }

    /// Frees everything from a link on.
    fn cut(&self, layout: &Layout, mut link: u64, tuple: u32) -> usize {
        let mut freed = 0;
        while link != 0 {
            let Some((version, cells)) = self.read(link, tuple) else { break };
            cells.into_iter().for_each(|(column, cell)| layout.release_cell(column, cell));
            self.free(Piece(link));
            freed += 1;
            link = version.next;
        }
        freed
    }
}

fn cells_of(words: &[AtomicU64]) -> Cells {
    let Some((count, places)) = words.get(CELLS..).and_then(<[AtomicU64]>::split_first) else {
        return Cells::new();
    };
    let count = count.load(Ordering::Relaxed) as usize;
    let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
    let cell = |place: &[AtomicU64]| {
        let column = load(&place[0]);
        let words = [load(&place[1]), load(&place[2])];
        (column as ColumnId, Cell { null: column & NULL_BIT != 0, words })
    };
    places.chunks_exact(CELL_WORDS).take(count).map(cell).collect()
}

impl Chains for Delta {
    fn row_words_in_head(layout: &Layout) -> usize {
        layout.words
    }

    #[inline]
    fn visible<'a>(
        &'a self,
        layout: &Layout,
        head: Head<'a>,
        tuple: u32,
        at: Timestamp,
        copy: &mut Vec<u64>,
    ) -> Seen<'a> {
        let mut spin = Spin::new();
        loop {
            let master = read_master(layout, head, copy);
            if master.mark.is_dead() || master.mark.begin() <= at {
                let (end, unit, row) = (Timestamp::INFINITY, None, RowAt::Copied);
                let Master { mark, stamp, .. } = master;
                return Seen { mark, end, end_order: end, stamp, unit, row, passed: 0 };
            }
            match self.walk(layout, (head, &master), tuple, at, copy) {
                Some(seen) => return seen,
                None => spin.wait(),
            }
        }
    }

    fn prepare(&self, _: &Layout, _: &NewVersion<'_>, _: usize) -> Result<Option<Unit>, Full> {
        Ok(None)
    }

    fn unprepare(&self, _: &Layout, _: Unit) {}

    fn install(
        &self,
        layout: &Layout,
        latched: &Latched<'_>,
        new: &NewVersion<'_>,
        _: Option<Unit>,
        worker: usize,
    ) -> Result<(), Full> {
        let head = latched.0;
        if head.newest() != Mark::ABSENT {
            self.save(layout, latched, new, worker)?;
        } else {
            head.set_first(new);
        }
        write_master(head, new, || {
            if let Some(image) = new.image {
                layout.store_changed(image, new.changed, master_row(layout, head));
            }
        });
        Ok(())
    }

    fn prune(&self, layout: &Layout, latched: &Latched<'_>, tuple: u32, sight: &Sight) -> usize {
        let (mut link, mut before, mut freed) = (latched.0.chain(), None::<Piece>, 0);
        while link != 0 {
            let Some((version, cells)) = self.read(link, tuple) else { break };
            let piece = Piece(link);
            if version.end <= sight.horizon || mutated(Mutant::CollectsVisible) {
                // Whatever follows is older still.
                self.relink(latched, before, 0);
                return freed + self.cut(layout, link, tuple);
            }
            if sight.is_garbage(version.mark.begin(), version.end) {
                let taken = (piece, &version, cells);
                let Some(next) = self.take_out(layout, latched, before, taken, tuple) else {
                    break;
                };
                freed += 1;
                link = next;
            } else {
                before = Some(piece);
                link = version.next;
            }
        }
        freed
    }

    fn has_older(&self, latched: &Latched<'_>) -> bool {
        latched.0.chain() != 0
    }

    fn each(&self, layout: &Layout, latched: &Latched<'_>, tuple: u32, show: &mut Show<'_>) {
        let mut row = Vec::new();
        let head = latched.0;
        copy_row(master_row(layout, head), &mut row);
        show(None, head.newest(), &row);
        let mut link = head.chain();
        while link != 0 {
            let Some((version, cells)) = self.read(link, tuple) else { return };
            cells.iter().for_each(|(column, cell)| layout.set(*column, *cell, &mut row));
            show(None, version.mark, &row);
            link = version.next;
        }
    }

    fn restamp(&self, latched: &Latched<'_>, _: u32, stamp: Stamp) {
        latched.0.0[STAMP].store(stamp.0, Ordering::Relaxed);
    }

    fn bury(&self, layout: &Layout, latched: &Latched<'_>) {
        let row = master_row(layout, latched.0);
        layout.release(|i| row[i].load(Ordering::Relaxed));
        row.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    fn versions(&self) -> usize {
        self.pieces.units_in_use()
    }

    fn is_crowded(&self) -> bool {
        self.pieces.is_crowded()
    }

    fn bytes(&self) -> usize {
        self.pieces.bytes()
    }
}
