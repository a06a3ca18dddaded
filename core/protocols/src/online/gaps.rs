//! Gaps: what is not there has no record to hang a lock on, so it gets a word of its own.
//!
//! A transaction that looked for a key in vain, or counted the rows of a range, has read that
//! something is *absent*; a transaction that makes a row come, go or move in an index changes that.
//! Both meet at words that stand for keys and for their prefixes, hashed over one table of words:
//!
//! ```text
//!   key  w=7 d=3 o=91      8 bytes each           range  w=7 d=3, all orders
//!   ├ whole key            ◄ point look-ups       └ watches  (7, 3), the longest prefix that
//!   ├ prefix of 24 bytes                             all its keys share
//!   ├ prefix of 16 bytes   ◄──────────────────────── met here
//!   ├ prefix of  8 bytes   ◄ ranges within w=7
//!   └ prefix of  0 bytes   ◄ ranges over the whole index
//! ```
//!
//! A transaction that *changes* a row enters the words of all prefixes of all its index entries;
//! one that *watches* a range looks at one word. Prefixes are cut every eight bytes, the size of an
//! encoded integer.
//!
//! ```text
//! 63                    32 31            16 15             0
//! [      changes: 32      |  watchers: 16  |  changers: 16 ]
//! ```
//!
//! * *changes* counts those who have made a change and left;
//! * *changers* are between entering and leaving: before the serial order is drawn they say that
//!   they will change something, and when they leave it is done or given up;
//! * *watchers* hold the gap still until they end (locking protocols); optimistic ones note
//!   *changes* instead, and later look whether it moved and whether a changer is inside.
//!
//! Changers do not hinder each other, nor do watchers: the word is a lock with two parties. Only
//! a transaction that inserts at one *key* must be alone there.
//!
//! *Why not the leaves of the index,* as Silo does: there a key is in the index before its
//! transaction commits, so that the leaf's version can speak for it. Here nothing of a transaction
//! is in the store before it commits, and one mechanism serves point look-ups, ranges, secondary
//! indexes and protocols that lock.
//!
//! *Invariant.* Between entering and leaving of a changer no transaction that looks at the word
//! takes the gap for unchanged. Two keys with one word make a conflict that is none, never the
//! reverse.
//!
//! *Cost.* A compare-and-swap for each prefix of each entry that comes or goes; nothing for
//! updates that move no entry.

use std::ops::Bound;

use kit::sync::atomic::{AtomicU64, Ordering};
use procedure::access::Range;
use types::{IndexId, Key, TableId};

/// Where prefixes end.
const CUTS: [usize; 5] = [0, 8, 16, 24, 32];

/// Stands beside the cuts for whole keys.
const WHOLE: usize = usize::MAX;

const GAPS_LOG2: u32 = if cfg!(shuttle) { 2 } else { 13 };

const CHANGER: u64 = 1;
const CHANGERS: u64 = (1 << 16) - 1;
const WATCHER: u64 = 1 << 16;
const WATCHERS: u64 = CHANGERS << 16;
const CHANGE: u64 = 1 << 32;

/// Names a word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Gap(u32);

impl Gap {
    /// Below [`Gaps::COUNT`].
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

/// How often a gap had been changed at the time of a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen(u32);

pub struct Gaps {
    words: Box<[AtomicU64]>,
}

impl Default for Gaps {
    fn default() -> Gaps {
        Gaps { words: (0..Gaps::COUNT).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Gaps {
    pub const COUNT: usize = 1 << GAPS_LOG2;

    /// The gap of one primary key.
    pub fn of_key(table: TableId, key: &[u8]) -> Gap {
        gap(table, 0, WHOLE, key)
    }

    /// The gap that a reader of a range has to watch.
    pub fn of_range(range: &Range) -> Gap {
        let (low, high) = (bytes(&range.low), bytes(&range.high));
        let shared = low.iter().zip(high).take_while(|(low, high)| low == high).count();
        let cut = CUTS.into_iter().rev().find(|&cut| cut <= shared).unwrap_or(0);
        gap(range.table, range.index, cut, &low[..cut])
    }

    /// The gap of a whole index.
    pub fn of_index(table: TableId, index: IndexId) -> Gap {
        gap(table, index, 0, &[])
    }

    /// The gaps that an entry of an index lies in.
    pub fn of_entry(table: TableId, index: IndexId, entry: &[u8]) -> impl Iterator<Item = Gap> {
        let cuts = CUTS.into_iter().take_while(|&cut| cut <= entry.len());
        cuts.map(move |cut| gap(table, index, cut, &entry[..cut]))
    }

    pub fn look(&self, gap: Gap) -> Seen {
        Seen((self.word(gap).load(Ordering::Acquire) >> 32) as u32)
    }

    /// Whether nothing came or went since that look, nor is about to. `inside`: the caller is
    /// itself one of the changers.
    pub fn holds(&self, gap: Gap, seen: Seen, inside: bool) -> bool {
        let word = self.word(gap).load(Ordering::Acquire);
        (word >> 32) as u32 == seen.0 && word & CHANGERS == u64::from(inside)
    }

    /// Enter to change something; `alone`: only where no other changer is. False while others
    /// watch; `watching`: the caller is one of them.
    pub fn enter(&self, gap: Gap, alone: bool, watching: bool) -> bool {
        let may = |word: u64| {
            let watched = word & WATCHERS > u64::from(watching) * WATCHER;
            let crowded = alone && word & CHANGERS > 0;
            !watched && !crowded
        };
        self.update(gap, |word| may(word).then_some(word + CHANGER))
    }

    /// Leave; `changed`: the change was made.
    pub fn leave(&self, gap: Gap, changed: bool) {
        let by = u64::from(changed) * CHANGE;
        self.word(gap).fetch_add(by.wrapping_sub(CHANGER), Ordering::AcqRel);
    }

    /// Hold a gap still. False while a changer is inside; `inside`: other than the caller.
    pub fn watch(&self, gap: Gap, inside: bool) -> bool {
        let may = |word: u64| word & CHANGERS == u64::from(inside);
        self.update(gap, |word| may(word).then_some(word + WATCHER))
    }

    pub fn unwatch(&self, gap: Gap) {
        self.word(gap).fetch_sub(WATCHER, Ordering::AcqRel);
    }

    fn update(&self, gap: Gap, next: impl Fn(u64) -> Option<u64>) -> bool {
        self.word(gap).fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).is_ok()
    }

    fn word(&self, gap: Gap) -> &AtomicU64 {
        &self.words[gap.number()]
    }
}

fn bytes(bound: &Bound<Key>) -> &[u8] {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => key.as_bytes(),
        Bound::Unbounded => &[],
    }
}

fn gap(table: TableId, index: IndexId, cut: usize, bytes: &[u8]) -> Gap {
    let mix = |state: u64, word: u64| {
        let product = u128::from(state ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        (product as u64) ^ (product >> 64) as u64
    };
    let mut state = mix(u64::from(table.0) << 16 | u64::from(index), cut as u64);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = mix(state, u64::from_be_bytes(word));
    }
    Gap((state >> (64 - GAPS_LOG2)) as u32)
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const TABLE: TableId = TableId(3);

    fn key(parts: &[i64]) -> Key {
        let mut key = Key::default();
        parts.iter().for_each(|&part| key.0.extend_from_slice(Key::from_int(part).as_bytes()));
        key
    }

    fn range(low: Bound<Key>, high: Bound<Key>) -> Range {
        Range { table: TABLE, index: 0, low, high, reverse: false }
    }

    /// Whatever lies in a range has the range's gap among its own.
    #[test]
    fn an_entry_of_a_range_is_in_the_gap_that_is_watched() {
        let entry = key(&[7, 3, 91]);
        let gaps: Vec<Gap> = Gaps::of_entry(TABLE, 0, entry.as_bytes()).collect();
        let inclusive = |parts: &[i64]| Bound::Included(key(parts));
        let ranges = [
            range(Bound::Unbounded, Bound::Unbounded),
            range(inclusive(&[7]), inclusive(&[7])),
            range(inclusive(&[7, 3]), inclusive(&[7, 3])),
            range(inclusive(&[7, 3, 90]), Bound::Excluded(key(&[7, 3, 95]))),
            range(inclusive(&[7, 3, 91]), inclusive(&[7, 3, 91])),
            range(Bound::Excluded(key(&[6])), Bound::Unbounded),
            range(inclusive(&[6]), inclusive(&[8])),
        ];
        for range in ranges {
            assert!(gaps.contains(&Gaps::of_range(&range)), "{range:?}");
        }
        let other = range(inclusive(&[7, 4]), inclusive(&[7, 4]));
        assert!(!gaps.contains(&Gaps::of_range(&other)));
    }

    #[test]
    fn a_change_shows_from_entering_to_long_after_leaving() {
        let (gaps, gap) = (Gaps::default(), Gaps::of_key(TABLE, b"k"));
        let seen = gaps.look(gap);
        assert!(gaps.enter(gap, true, false) && !gaps.enter(gap, true, false));
        assert!(!gaps.holds(gap, seen, false) && gaps.holds(gap, seen, true));
        gaps.leave(gap, false);
        assert!(gaps.holds(gap, seen, false));
        assert!(gaps.enter(gap, false, false) && gaps.enter(gap, false, false));
        assert!(!gaps.holds(gap, seen, true));
        gaps.leave(gap, true);
        gaps.leave(gap, false);
        assert!(!gaps.holds(gap, seen, false));
    }

    #[test]
    fn changers_and_watchers_exclude_each_other_but_for_oneself() {
        let (gaps, gap) = (Gaps::default(), Gaps::of_key(TABLE, b"k"));
        assert!(gaps.watch(gap, false) && gaps.watch(gap, false));
        assert!(!gaps.enter(gap, false, true));
        gaps.unwatch(gap);
        assert!(!gaps.enter(gap, false, false) && gaps.enter(gap, false, true));
        assert!(!gaps.watch(gap, false) && gaps.watch(gap, true));
    }
}
