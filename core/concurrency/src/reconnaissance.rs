//! Reconnaissance: what a transaction will touch, found by running it beforehand.
//!
//! *Idea.* Where keys depend on reads (Calvin's "dependent transactions"), the transaction first
//! runs on a snapshot and its writes are thrown away; what it touched is the prediction. At its
//! turn every access is checked against the prediction before it happens. The first one that is
//! not covered ends the run: nothing was installed, so it can run again under whatever protects
//! all that it may touch.
//!
//! Both are the same wrapper around a transaction's [`Overlay`], which notes accesses or checks
//! them.
//!
//! *Deterministic.* Up to the first uncovered access, all that the transaction saw was covered,
//! hence as the serial order has it; so whether, and where, a prediction fails does not depend on
//! threads.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use procedure::access::{Access, Command, Range, Row};
use procedure::{Frame, ProgramResult};
use storage::Catalog;
use types::{ColumnId, Height, IndexId, Key, Position, Stamp, Stop, TableId, Value};

use crate::accesses::{Accesses, KEYS_MAX, KeyAccess};
use crate::footprint::{NoRecord, Recorder};
use crate::overlay::{Moment, Overlay, byte_bounds};
use crate::pending::RecordId;
use crate::protocol::Block;
use crate::work::Work;

/// Runs transactions on a snapshot to see what they touch.
pub struct Scout {
    overlay: Overlay<NoRecord>,
    frame: Frame,
}

impl Scout {
    pub fn new(catalog: Arc<Catalog>, at: Height) -> Scout {
        let nowhere = Moment { height: 0, position: 0, now_us: 0 };
        Scout { overlay: Overlay::new(catalog, at, nowhere, NoRecord), frame: Frame::default() }
    }

    /// `None`: it touches more than can be told.
    pub fn predict(&mut self, block: &Block, position: Position) -> Option<Accesses> {
        let work = &block.transactions[position as usize];
        let now_us = work.now_us(block.time_us);
        self.overlay.restart(Moment { height: block.height, position, now_us });
        let mut accesses = Accesses::default();
        let watch = Watch::Note(&mut accesses);
        let mut observed =
            Observed { overlay: &mut self.overlay, watch, row_id: None, uncovered: false };
        // How it ends does not matter: a run on another state may end elsewhere.
        self.frame.meter().set_budget(block.budget);
        let _ = work.run(&mut self.frame, &mut observed);
        (!observed.uncovered).then_some(accesses)
    }
}

/// What a transaction may touch, ordered for look-ups.
#[derive(Debug)]
pub struct Held {
    /// The stronger of two accesses to one record comes last and stays.
    keys: Vec<(TableId, RecordId, bool)>,
    /// By where they begin; each with the farthest end of its index so far.
    ranges: Vec<HeldRange>,
    appends: Vec<TableId>,
}

impl Held {
    pub fn new(accesses: &Accesses) -> Held {
        let keys = accesses.keys.iter().map(|key| (key.table, key.record, key.writes));
        let mut keys: Vec<_> = keys.collect();
        keys.sort_unstable();
        Held { keys, ranges: held_ranges(&accesses.ranges), appends: accesses.appends.to_vec() }
    }

    fn covers_key(&self, table: TableId, key: &Key, writes: bool) -> bool {
        let wanted = (table, RecordId::of(None, key), writes);
        let at = self.keys.partition_point(|held| *held < wanted);
        self.keys.get(at).is_some_and(|held| (held.0, held.1) == (wanted.0, wanted.1))
    }

    fn covers_range(&self, range: &Range) -> bool {
        // Only an empty range has no bounds.
        let Some(wanted) = HeldRange::of(range) else { return true };
        let at = self.ranges.partition_point(|held| held.start() <= wanted.start());
        let before = at.checked_sub(1).map(|last| &self.ranges[last]);
        before.is_some_and(|held| {
            let is_same = (held.table, held.index) == (wanted.table, wanted.index);
            is_same && held.reaches(&wanted.high)
        })
    }
}

/// A range by its bounds as bytes: from `low` on, and below `high` if there is an end.
#[derive(Debug)]
struct HeldRange {
    table: TableId,
    index: IndexId,
    low: Key,
    high: Option<Key>,
}

impl HeldRange {
    fn of(range: &Range) -> Option<HeldRange> {
        let (low, high) = byte_bounds(range)?;
        let low = match low {
            Bound::Unbounded => Key::default(),
            Bound::Included(low) => low,
            Bound::Excluded(low) => after(low),
        };
        let high = match high {
            Bound::Unbounded => None,
            Bound::Included(high) => Some(after(high)),
            Bound::Excluded(high) => Some(high),
        };
        Some(HeldRange { table: range.table, index: range.index, low, high })
    }

    fn start(&self) -> (TableId, IndexId, &Key) {
        (self.table, self.index, &self.low)
    }

    fn reaches(&self, high: &Option<Key>) -> bool {
        match (&self.high, high) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(high)) => high <= own,
        }
    }
}

/// The key right after another.
fn after(mut key: Key) -> Key {
    key.0.push(0);
    key
}

fn held_ranges(ranges: &[Range]) -> Vec<HeldRange> {
    let mut held: Vec<HeldRange> = ranges.iter().filter_map(HeldRange::of).collect();
    held.sort_unstable_by(|a, b| a.start().cmp(&b.start()));
    for at in 1..held.len() {
        let (before, rest) = held.split_at_mut(at);
        let (last, next) = (&before[at - 1], &mut rest[0]);
        if (last.table, last.index) == (next.table, next.index) && last.reaches(&next.high) {
            next.high = last.high.clone();
        }
    }
    debug_assert!(held.is_sorted_by(|a, b| a.start() <= b.start()), "what look-ups rely on");
    held
}

/// Run `work` over `overlay`, each access checked before it happens. `None`: one was not covered by
/// `held`, so that the run means nothing.
pub fn run_checked<R: Recorder>(
    work: &Work,
    held: &Held,
    frame: &mut Frame,
    overlay: &mut Overlay<R>,
) -> Option<Result<ProgramResult, Stop>> {
    let watch = Watch::Check(held);
    let mut observed = Observed { overlay, watch, row_id: None, uncovered: false };
    let run = work.run(frame, &mut observed);
    (!observed.uncovered).then_some(run)
}

enum Watch<'a> {
    Note(&'a mut Accesses),
    Check(&'a Held),
}

/// An overlay whose accesses are noted, or checked.
struct Observed<'a, R> {
    overlay: &'a mut Overlay<R>,
    watch: Watch<'a>,
    /// Given out last.
    row_id: Option<[u8; 16]>,
    /// The run was ended by the watch.
    uncovered: bool,
}

impl<R: Recorder> Observed<'_, R> {
    fn touch(&mut self, table: TableId, key: &Key, writes: bool) -> Result<(), Stop> {
        let allowed = match &mut self.watch {
            Watch::Note(accesses) => {
                accesses.keys.push(KeyAccess::new(table, key.clone(), writes));
                accesses.keys.len() <= KEYS_MAX
            }
            Watch::Check(held) => held.covers_key(table, key, writes),
        };
        self.end_unless(allowed)
    }

    fn touch_range(&mut self, range: &Range) -> Result<(), Stop> {
        let allowed = match &mut self.watch {
            Watch::Note(accesses) => {
                accesses.ranges.push(range.clone());
                accesses.ranges.len() <= KEYS_MAX
            }
            Watch::Check(held) => held.covers_range(range),
        };
        self.end_unless(allowed)
    }

    fn touch_append(&mut self, table: TableId) -> Result<(), Stop> {
        let allowed = match &mut self.watch {
            Watch::Note(accesses) => {
                accesses.append(table);
                true
            }
            Watch::Check(held) => held.appends.contains(&table),
        };
        self.end_unless(allowed)
    }

    fn end_unless(&mut self, allowed: bool) -> Result<(), Stop> {
        if allowed {
            return Ok(());
        }
        self.uncovered = true;
        // It is not shown: a caller that asks for the run is told that there is none.
        Err(Stop::Halt("an access that was not foretold".to_owned()))
    }
}

impl<R: Recorder> Access for Observed<'_, R> {
    fn read(
        &mut self,
        table: TableId,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        self.touch(table, key, false)?;
        self.overlay.read(table, key, columns, out)
    }

    fn exists(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        self.touch(table, key, false)?;
        self.overlay.exists(table, key)
    }

    fn update(&mut self, table: TableId, key: &Key, command: Command) -> Result<bool, Stop> {
        self.touch(table, key, true)?;
        self.overlay.update(table, key, command)
    }

    fn insert(&mut self, table: TableId, key: Key, row: Row) -> Result<bool, Stop> {
        match self.row_id {
            Some(id) if key.as_bytes() == id => {
                self.touch_append(table)?;
                // Later steps may come back to the row by its key.
                if let Watch::Note(_) = self.watch {
                    self.touch(table, &key, true)?;
                }
            }
            _ => self.touch(table, &key, true)?,
        }
        self.overlay.insert(table, key, row)
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        self.touch(table, key, true)?;
        self.overlay.delete(table, key)
    }

    fn scan<V>(&mut self, range: &Range, columns: &[ColumnId], visit: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        self.touch_range(range)?;
        self.overlay.scan(range, columns, visit)
    }

    fn take_passed_over(&mut self) -> u64 {
        self.overlay.take_passed_over()
    }

    fn next_row_id(&mut self) -> [u8; 16] {
        let id = self.overlay.next_row_id();
        self.row_id = Some(id);
        id
    }

    fn now_us(&self) -> i64 {
        self.overlay.now_us()
    }

    fn prefetch(&mut self, table: TableId, key: &Key) {
        self.overlay.prefetch(table, key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against every range that was held, one by one.
    #[test]
    fn a_range_is_covered_by_one_that_begins_before_it_and_ends_after_it() {
        let key = |number: u8| Key([number].as_slice().into());
        let range = |index, low: u8, high: u8| Range {
            table: TableId(1),
            index,
            low: Bound::Included(key(low)),
            high: Bound::Excluded(key(high)),
            reverse: false,
        };
        let ranges = [(0, 1, 9), (0, 2, 4), (0, 3, 5), (1, 0, 3), (1, 2, 7), (0, 10, 12)];
        let held = ranges.map(|(index, low, high)| range(index, low, high));
        let accesses = Accesses { ranges: held.to_vec(), ..Accesses::default() };
        let held = Held::new(&accesses);
        for index in 0..3 {
            for (low, high) in (0..14).flat_map(|low| (low + 1..14).map(move |high| (low, high))) {
                let is_in = |&(i, l, h): &(IndexId, u8, u8)| i == index && l <= low && high <= h;
                let expected = ranges.iter().any(is_in);
                assert_eq!(held.covers_range(&range(index, low, high)), expected, "{low} {high}");
            }
            let open = Range { high: Bound::Unbounded, ..range(index, 1, 2) };
            assert!(!held.covers_range(&open));
        }
        let every = Range { low: Bound::Unbounded, high: Bound::Unbounded, ..range(0, 0, 0) };
        let accesses = Accesses { ranges: vec![range(0, 3, 4), every], ..Accesses::default() };
        assert!(Held::new(&accesses).covers_range(&range(0, 200, 255)));
    }
}
