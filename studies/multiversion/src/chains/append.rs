//! Append-only storage (section 5.4.1): every version is a whole row in the table's own space.
//!
//! *Newest first* the chain's head moves with every update and readers of the present find it at
//! once; *oldest first* the head stays and readers walk past everything that is not collected yet.
//! Chains are singly linked, so oldest first only whole prefixes and newest first any version can
//! be taken out by a transaction that walks along.

use kit::sync::Spin;
use kit::sync::atomic::{AtomicU64, Ordering};
use types::Stamp;

use super::{
    BEGIN, Chains, Head, Latched, Mark, NewVersion, RowAt, Seen, Show, Sight, V_BEGIN, V_END,
    V_ENDER, V_NEXT, V_ROW, V_STAMP, Version, copy_row, read_version, store_header, store_row,
};
use crate::clock::Timestamp;
use crate::layout::Layout;
use crate::mutant::{Mutant, mutated};
use crate::pool::{Full, Pool, Unit};

/// Which version a chain begins with.
pub trait Direction: Send + Sync {
    const NEWEST_FIRST: bool;
}

pub struct NewestFirst;
pub struct OldestFirst;

impl Direction for NewestFirst {
    const NEWEST_FIRST: bool = true;
}

impl Direction for OldestFirst {
    const NEWEST_FIRST: bool = false;
}

pub struct Append<D> {
    pool: Pool,
    direction: std::marker::PhantomData<D>,
}

fn link_to(unit: Unit) -> u64 {
    u64::from(unit.0) + 1
}

fn unit_of(link: u64) -> Unit {
    Unit((link - 1) as u32)
}

impl<D: Direction> Append<D> {
    pub fn new(layout: &Layout, spaces: usize) -> Append<D> {
        let pool = Pool::new(V_ROW + layout.words, spaces);
        Append { pool, direction: std::marker::PhantomData }
    }

    fn row(&self, unit: Unit) -> &[AtomicU64] {
        &self.pool.words(unit)[V_ROW..]
    }

    /// A version as a pointer to it shows it; `None` if it is not there (any more) at that time.
    pub fn visible_at(&self, unit: Unit, tuple: u32, at: Timestamp) -> Option<Seen<'_>> {
        let version = read_version(self.pool.words(unit), tuple)?;
        let is_visible = version.mark.begin() <= at && at < version.end;
        is_visible.then(|| self.seen(unit, &version, 0))
    }

    /// The tuple that a version belongs to.
    pub fn tuple_of(&self, unit: Unit) -> u32 {
        let words = self.pool.words(unit);
        words.get(super::V_TUPLE).map_or(u32::MAX, |word| word.load(Ordering::Acquire) as u32)
    }

    fn seen(&self, unit: Unit, version: &Version, passed: u32) -> Seen<'_> {
        Seen {
            mark: version.mark,
            end: version.end,
            end_order: version.ender,
            stamp: version.stamp,
            unit: Some(unit),
            row: RowAt::Version(self.row(unit)),
            passed,
        }
    }

    /// `Err`: a version changed hands; begin again.
    fn walk(&self, head: Head<'_>, tuple: u32, at: Timestamp) -> Result<Seen<'_>, ()> {
        let newest = head.newest();
        if newest.is_dead() {
            return Ok(Seen::dead(newest));
        }
        let (mut link, mut passed, mut end) = (head.chain(), 0, Timestamp::INFINITY);
        while link != 0 {
            let unit = unit_of(link);
            let version = read_version(self.pool.words(unit), tuple).ok_or(())?;
            let begin = version.mark.begin();
            if begin <= at && at < version.end {
                return Ok(self.seen(unit, &version, passed));
            }
            if begin > at {
                end = begin;
                if !D::NEWEST_FIRST {
                    break;
                }
            } else if D::NEWEST_FIRST || version.next == 0 {
                // Its end is in the past, and its follower not linked yet.
                return Err(());
            }
            passed += 1;
            link = version.next;
        }
        Ok(Seen::absent(head, end))
    }

    fn free(&self, layout: &Layout, unit: Unit) {
        let row = self.row(unit);
        layout.release(|i| row[i].load(Ordering::Relaxed));
        self.pool.words(unit)[V_BEGIN].store(Mark::FREE.0, Ordering::Release);
        self.pool.give(unit);
    }
}

impl<D: Direction> Chains for Append<D> {
    fn row_words_in_head(_: &Layout) -> usize {
        0
    }

    #[inline]
    fn visible<'a>(
        &'a self,
        _: &Layout,
        head: Head<'a>,
        tuple: u32,
        at: Timestamp,
        _: &mut Vec<u64>,
    ) -> Seen<'a> {
        let mut spin = Spin::new();
        loop {
            match self.walk(head, tuple, at) {
                Ok(seen) => return seen,
                Err(()) => spin.wait(),
            }
        }
    }

    fn prefetch(&self, head: Head<'_>) {
        if let link @ 1.. = head.chain() {
            self.pool.prefetch(unit_of(link));
        }
    }

    fn prepare(
        &self,
        layout: &Layout,
        new: &NewVersion<'_>,
        worker: usize,
    ) -> Result<Option<Unit>, Full> {
        let unit = self.pool.take(worker)?;
        let words = self.pool.words(unit);
        let (tuple, end) = (u64::from(new.tuple), Timestamp::INFINITY.0);
        let header = [Mark::PENDING.0, end, 0, tuple, end, new.stamp.0];
        store_header(words, header);
        let row = &words[V_ROW..];
        match new.image {
            None => row.iter().for_each(|word| word.store(0, Ordering::Relaxed)),
            Some(image) => {
                store_row(image, row);
                layout.share(row, new.changed, worker)?;
            }
        }
        Ok(Some(unit))
    }

    fn unprepare(&self, layout: &Layout, unit: Unit) {
        self.free(layout, unit);
    }

    fn install(
        &self,
        _: &Layout,
        latched: &Latched<'_>,
        new: &NewVersion<'_>,
        prepared: Option<Unit>,
        _: usize,
    ) -> Result<(), Full> {
        let unit = prepared.expect("append-only storage prepares every version");
        let head = latched.0;
        let words = self.pool.words(unit);
        let next = if D::NEWEST_FIRST { head.chain() } else { 0 };
        let end = Timestamp::INFINITY.0;
        let tuple = u64::from(new.tuple);
        store_header(words, [new.mark().0, end, next, tuple, end, new.stamp.0]);
        if let Some(base) = new.base {
            let base = self.pool.words(base);
            if !D::NEWEST_FIRST {
                base[V_NEXT].store(link_to(unit), Ordering::Release);
            }
            base[V_ENDER].store(new.order.0, Ordering::Relaxed);
            if !mutated(Mutant::EndNotSet) {
                base[V_END].store(new.at.0, Ordering::Release);
            }
        } else {
            head.set_first(new);
        }
        if D::NEWEST_FIRST || new.base.is_none() {
            latched.set_chain(link_to(unit));
        }
        head.0[BEGIN].store(new.mark().0, Ordering::SeqCst);
        Ok(())
    }

    fn prune(&self, layout: &Layout, latched: &Latched<'_>, tuple: u32, sight: &Sight) -> usize {
        let (mut link, mut before, mut freed) = (latched.0.chain(), None::<Unit>, 0);
        while link != 0 {
            let unit = unit_of(link);
            let Some(version) = read_version(self.pool.words(unit), tuple) else { break };
            let ended = version.end != Timestamp::INFINITY;
            let garbage = ended && sight.is_garbage(version.mark.begin(), version.end);
            if garbage || ended && mutated(Mutant::CollectsVisible) {
                match before {
                    None => latched.set_chain(version.next),
                    Some(before) => {
                        self.pool.words(before)[V_NEXT].store(version.next, Ordering::Release);
                    }
                }
                self.free(layout, unit);
                freed += 1;
            } else {
                before = Some(unit);
            }
            link = version.next;
        }
        freed
    }

    fn has_older(&self, latched: &Latched<'_>) -> bool {
        match latched.0.chain() {
            0 => false,
            link => self.pool.words(unit_of(link))[V_NEXT].load(Ordering::Relaxed) != 0,
        }
    }

    fn each(&self, _: &Layout, latched: &Latched<'_>, tuple: u32, show: &mut Show<'_>) {
        let (mut link, mut row) = (latched.0.chain(), Vec::new());
        while link != 0 {
            let unit = unit_of(link);
            let Some(version) = read_version(self.pool.words(unit), tuple) else { return };
            copy_row(self.row(unit), &mut row);
            show(Some(unit), version.mark, &row);
            link = version.next;
        }
    }

    fn restamp(&self, latched: &Latched<'_>, tuple: u32, stamp: Stamp) {
        let newest = Timestamp(Timestamp::INFINITY.0 - 1);
        if let Ok(Seen { unit: Some(unit), .. }) = self.walk(latched.0, tuple, newest) {
            self.pool.words(unit)[V_STAMP].store(stamp.0, Ordering::Relaxed);
        }
    }

    fn bury(&self, layout: &Layout, latched: &Latched<'_>) {
        if let link @ 1.. = latched.0.chain() {
            latched.set_chain(0);
            self.free(layout, unit_of(link));
        }
    }

    fn versions(&self) -> usize {
        self.pool.units_in_use()
    }

    fn is_crowded(&self) -> bool {
        self.pool.is_crowded()
    }

    fn bytes(&self) -> usize {
        self.pool.bytes()
    }
}
