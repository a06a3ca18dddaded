//! What blocks made superfluous, until no reader sees it any more.
//!
//! ```text
//!   block ─► due ─► looked at ─┬► taken away
//!             ▲                └► parked, under the highest height whose reader sees it
//!             └──── that reader has gone ◄───┘
//! ```
//!
//! A snapshot that is retained for a while keeps one item here for each index entry, row and long
//! string that it alone sees. That may be as much as the versions it keeps, and stays as long, so
//! parked items lie packed: the keys of entries one after the other, and not each in memory of its
//! own between others that go sooner.

use std::collections::{BTreeMap, VecDeque};

use types::{Height, IndexId, Key, TableId};

use crate::heap::View;
use crate::pins::Readable;
use crate::slot::Slot;
use crate::undo::{Garbage, GarbageKind};

#[derive(Default)]
pub(crate) struct Superfluous {
    /// To be looked at, by the block that made it so.
    pub(crate) due: VecDeque<(Height, Vec<Garbage>)>,
    /// Looked at and still seen, by the highest height whose reader sees it.
    parked: BTreeMap<Height, Parked>,
    /// Items that blocks have made since the last collection.
    new: usize,
}

impl Superfluous {
    pub(crate) fn push(&mut self, height: Height, garbage: Vec<Garbage>) {
        self.new += garbage.len();
        self.due.push_back((height, garbage));
    }

    pub(crate) fn park(&mut self, witness: Height, item: Garbage) {
        self.parked.entry(witness).or_default().push(item);
    }

    /// What was parked for a reader who has gone is due.
    pub(crate) fn wake(&mut self, readable: &Readable) {
        let gone = self.parked.extract_if(.., |witness, _| !readable.contains(*witness));
        let woken: Vec<_> = gone.collect();
        for (witness, parked) in woken {
            self.due.push_front((witness, parked.unpacked()));
        }
    }

    /// Items that one collection looks at: more than come, so that none waits for ever.
    pub(crate) fn at_once(&mut self) -> usize {
        2 * std::mem::take(&mut self.new) + 1024
    }

    /// What parked items take.
    pub(crate) fn parked_bytes(&self) -> u64 {
        self.parked.values().map(Parked::bytes).sum()
    }
}

/// Items with the same witness.
#[derive(Default)]
struct Parked {
    items: Vec<Packed>,
    /// Of entries, in the order of the items.
    keys: Vec<u8>,
}

struct Packed {
    table: TableId,
    slot: Slot,
    incarnation: u64,
    what: PackedKind,
}

enum PackedKind {
    Record,
    /// And the length of its key.
    Entry(IndexId, u32),
    String(View),
}

impl Parked {
    fn push(&mut self, item: Garbage) {
        let Garbage { table, incarnation, slot, what } = item;
        let what = match what {
            GarbageKind::Record => PackedKind::Record,
            GarbageKind::String(view) => PackedKind::String(view),
            GarbageKind::Entry(index, key) => {
                let bytes = key.as_bytes();
                self.keys.extend_from_slice(bytes);
                PackedKind::Entry(index, u32::try_from(bytes.len()).expect("a key is short"))
            }
        };
        self.items.push(Packed { table, slot, incarnation, what });
    }

    fn unpacked(self) -> Vec<Garbage> {
        let mut keys = &self.keys[..];
        let unpack = |item: Packed| {
            let Packed { table, slot, incarnation, what } = item;
            let what = match what {
                PackedKind::Record => GarbageKind::Record,
                PackedKind::String(view) => GarbageKind::String(view),
                PackedKind::Entry(index, length) => {
                    let (key, rest) = keys.split_at(length as usize);
                    keys = rest;
                    GarbageKind::Entry(index, Key::from(key))
                }
            };
            Garbage { table, incarnation, slot, what }
        };
        self.items.into_iter().map(unpack).collect()
    }

    fn bytes(&self) -> u64 {
        (self.items.capacity() * size_of::<Packed>() + self.keys.capacity()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_parked_comes_back_as_it_was() {
        let mut superfluous = Superfluous::default();
        let kind = |n: u64| match n % 3 {
            0 => GarbageKind::Record,
            1 => GarbageKind::Entry(n as IndexId, Key::from(&vec![n as u8; n as usize * 7][..])),
            _ => GarbageKind::String([n, n + 1]),
        };
        let item = |n: u64| {
            let (table, slot) = (TableId(n as u32), Slot(n as u32 + 1));
            Garbage { table, incarnation: n + 2, slot, what: kind(n) }
        };
        (0..30).for_each(|n| superfluous.park(5 + n % 2, item(n)));
        assert!(superfluous.parked_bytes() > 7 * (1 + 4 + 7 + 10));
        superfluous.wake(&Readable::new([6], 9));
        superfluous.wake(&Readable::new([], 9));
        assert_eq!(superfluous.parked_bytes(), 0);
        for (witness, items) in &superfluous.due {
            let expected = (0..30).filter(|n| 5 + n % 2 == *witness).map(item);
            let shown = |items: Vec<Garbage>| format!("{items:?}");
            assert_eq!(shown(items.clone()), shown(expected.collect()));
        }
        assert_eq!(superfluous.due.len(), 2);
    }
}
