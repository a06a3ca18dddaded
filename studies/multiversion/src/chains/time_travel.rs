//! Time-travel storage (section 5.4.2): the newest row in the main table, overwritten in place;
//! each update copies the row before it to a table beside. Indexes never move. (HANA keeps the
//! oldest row in the main table; that variant is not built, there or here.)

use concurrency::test_mode;
use kit::sync::Spin;
use kit::sync::atomic::{AtomicU64, Ordering, fence};
use types::Stamp;

use super::{
    BEGIN, Chains, Head, Latched, Mark, NewVersion, RowAt, STAMP, Seen, Show, Sight, V_BEGIN,
    V_NEXT, V_ROW, copy_row, read_version, store_header,
};
use crate::clock::Timestamp;
use crate::layout::Layout;
use crate::mutant::{Mutant, mutated};
use crate::pool::{Full, Pool, Unit};

pub struct TimeTravel {
    pool: Pool,
}

fn link_to(unit: Unit) -> u64 {
    u64::from(unit.0) + 1
}

fn unit_of(link: u64) -> Unit {
    Unit((link - 1) as u32)
}

/// What stands in a head, copied without a lock.
pub(super) struct Master {
    pub(super) mark: Mark,
    pub(super) stamp: Stamp,
    pub(super) chain: u64,
}

/// The row in a head.
pub(super) fn master_row<'a>(layout: &Layout, head: Head<'a>) -> &'a [AtomicU64] {
    &head.0[head.0.len() - layout.words..]
}

/// Copies what stands in a head, once no worker is writing it.
#[inline]
pub(super) fn read_master(layout: &Layout, head: Head<'_>, row: &mut Vec<u64>) -> Master {
    let mut spin = Spin::new();
    loop {
        let mark = Mark(head.0[BEGIN].load(Ordering::Acquire));
        if mark.is_dead() {
            return Master { mark, stamp: Stamp::default(), chain: 0 };
        }
        if mark != Mark::BUSY {
            let stamp = Stamp(head.0[STAMP].load(Ordering::Relaxed));
            let chain = head.chain();
            test_mode::pause();
            copy_row(master_row(layout, head), row);
            fence(Ordering::Acquire);
            if head.0[BEGIN].load(Ordering::Relaxed) == mark.0 || mutated(Mutant::TornRead) {
                return Master { mark, stamp, chain };
            }
        }
        spin.wait();
    }
}

/// Overwrites what stands in a head, its chain apart, which must already lead to what was there.
pub(super) fn write_master(head: Head<'_>, new: &NewVersion<'_>, write: impl FnOnce()) {
    head.0[BEGIN].store(Mark::BUSY.0, Ordering::Relaxed);
    fence(Ordering::Release);
    write();
    head.0[STAMP].store(new.stamp.0, Ordering::Relaxed);
    head.0[BEGIN].store(new.mark().0, Ordering::SeqCst);
}

impl TimeTravel {
    pub fn new(layout: &Layout, spaces: usize) -> TimeTravel {
        TimeTravel { pool: Pool::new(V_ROW + layout.words, spaces) }
    }

    fn row(&self, unit: Unit) -> &[AtomicU64] {
        &self.pool.words(unit)[V_ROW..]
    }

    fn walk(&self, head: Head<'_>, master: &Master, tuple: u32, at: Timestamp) -> Option<Seen<'_>> {
        let (mut link, mut passed, mut end) = (master.chain, 1, master.mark.begin());
        while link != 0 {
            let unit = unit_of(link);
            let version = read_version(self.pool.words(unit), tuple)?;
            if version.mark.begin() <= at {
                return (at < version.end).then_some(Seen {
                    mark: version.mark,
                    end: version.end,
                    end_order: version.ender,
                    stamp: version.stamp,
                    unit: Some(unit),
                    row: RowAt::Version(self.row(unit)),
                    passed,
                });
            }
            end = version.mark.begin();
            passed += 1;
            link = version.next;
        }
        Some(Seen::absent(head, end))
    }

    /// Puts the row of the head at the beginning of the chain.
    fn save(
        &self,
        layout: &Layout,
        latched: &Latched<'_>,
        new: &NewVersion<'_>,
        worker: usize,
    ) -> Result<(), Full> {
        let head = latched.0;
        let unit = self.pool.take(worker)?;
        let words = self.pool.words(unit);
        let row = &words[V_ROW..];
        for (to, from) in row.iter().zip(master_row(layout, head)) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        if new.image.is_some() {
            layout.share(row, new.changed, worker)?;
        }
        let load = |at: usize| head.0[at].load(Ordering::Relaxed);
        let end = if mutated(Mutant::EndNotSet) { Timestamp::INFINITY } else { new.at };
        let tuple = u64::from(new.tuple);
        let header = [load(BEGIN), end.0, head.chain(), tuple, new.order.0, load(STAMP)];
        store_header(words, header);
        latched.set_chain(link_to(unit));
        Ok(())
    }
}

impl Chains for TimeTravel {
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
            match self.walk(head, &master, tuple, at) {
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
        write_master(head, new, || match new.image {
            Some(image) => layout.store_changed(image, new.changed, master_row(layout, head)),
            None => master_row(layout, head).iter().for_each(|w| w.store(0, Ordering::Relaxed)),
        });
        Ok(())
    }

    fn prune(&self, layout: &Layout, latched: &Latched<'_>, tuple: u32, sight: &Sight) -> usize {
        let (mut link, mut before, mut freed) = (latched.0.chain(), None::<Unit>, 0);
        while link != 0 {
            let unit = unit_of(link);
            let words = self.pool.words(unit);
            let Some(version) = read_version(words, tuple) else { break };
            if sight.is_garbage(version.mark.begin(), version.end)
                || mutated(Mutant::CollectsVisible)
            {
                match before {
                    None => latched.set_chain(version.next),
                    Some(before) => {
                        self.pool.words(before)[V_NEXT].store(version.next, Ordering::Release);
                    }
                }
                layout.release(|i| words[V_ROW + i].load(Ordering::Relaxed));
                words[V_BEGIN].store(Mark::FREE.0, Ordering::Release);
                self.pool.give(unit);
                freed += 1;
            } else {
                before = Some(unit);
            }
            link = version.next;
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
            let unit = unit_of(link);
            let Some(version) = read_version(self.pool.words(unit), tuple) else { return };
            copy_row(self.row(unit), &mut row);
            show(Some(unit), version.mark, &row);
            link = version.next;
        }
    }

    fn restamp(&self, latched: &Latched<'_>, _: u32, stamp: Stamp) {
        latched.0.0[STAMP].store(stamp.0, Ordering::Relaxed);
    }

    fn bury(&self, layout: &Layout, latched: &Latched<'_>) {
        let row = master_row(layout, latched.0);
        layout.release(|i| row[i].load(Ordering::Relaxed));
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
