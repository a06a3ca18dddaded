//! The versions that one block makes, before any of them is stored.
//!
//! ```text
//!   shard of records                          transaction 9 sees
//!   version   0     1     2     3     4       ┌ record ─ before ─ own ┐
//!   writer    T2    T5    T5    T9    T9      │   x        1       3  │
//!   record    x     x     y     x     z       │   z        ─       4  │
//!   before    ─  ◄─ 0     ─     1     ─       └ y        2       ─    ┘
//!   state     set   set   set   —     —
//! ```
//!
//! Placeholders are laid in block order, each knowing the one before it on its record. A
//! transaction gets a list of *sights*: for each record that it may touch and that has a version,
//! the last placeholder before it; and its own placeholder, if it may write. The lists are all that
//! the execution looks things up in.
//!
//! A state is set once, by its writer, after everything before it on the record was set.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use concurrency::accesses::KeyAccess;
use concurrency::install::Patch;
use concurrency::ordered_locks::queues::{LockId, Requests};
use procedure::access::Row;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use types::{Key, TableId};

/// What a transaction made of a record.
#[derive(Debug)]
pub enum State {
    /// Nothing: it ended in an error, or did not come to it.
    Unchanged,
    /// The stored row, but for these columns.
    Patch(Patch),
    Row(Row),
    Deleted,
    /// Not of one record: rows added under hidden ids.
    Added(TableId, Vec<(Key, Row)>),
}

#[derive(Debug)]
pub struct Version {
    /// Who writes it.
    pub at: u32,
    /// Which of its declared keys this is; [`ADDED`]: rows of a table under hidden ids.
    key: u32,
    /// On the same record.
    before: u32,
    pub state: OnceLock<State>,
}

const ADDED: u32 = u32::MAX;
const NONE: u32 = u32::MAX;

/// One record as one transaction sees it.
#[derive(Clone, Copy, Debug)]
struct Sight {
    id: LockId,
    /// The last version before it.
    before: u32,
    /// Its own placeholder.
    own: u32,
}

/// One worker's records.
#[derive(Debug, Default)]
pub struct Shard {
    versions: Vec<Version>,
    /// The last version of each record.
    last: Vec<u32>,
    sights: Vec<Sight>,
    /// Place `i`, counted from the segment's first, has `sights[first[i]..first[i + 1]]`.
    first: Vec<u32>,
}

/// More than these are ordered for search.
const LINEAR_MAX: usize = 16;

/// The end of a record's versions while they are laid.
struct Tail {
    last: u32,
    /// The last to see the record, and where its sight is.
    seen_by: u32,
    sight: u32,
}

/// Lays the placeholders of one worker's share of the records.
struct Layer<'a> {
    requests: &'a Requests,
    tails: FxHashMap<LockId, Tail>,
    shard: Shard,
}

impl Shard {
    /// For the transactions of `segment`, in their order.
    pub fn lay(requests: &Requests, segment: Range<u32>, number: usize, shards: usize) -> Shard {
        let shard = Shard { first: vec![0], ..Shard::default() };
        let mut layer = Layer { requests, tails: FxHashMap::default(), shard };
        for at in segment {
            let start = layer.shard.sights.len();
            if let Some(accesses) = requests.declared[at as usize].accesses() {
                for (key, access) in (0..).zip(&accesses.keys) {
                    let id = LockId::of_key(access);
                    if id.shard(shards) == number {
                        layer.touch(at, id, access.writes.then_some(key));
                    }
                }
                for range in &accesses.ranges {
                    requests.points.each(range, |id| {
                        if id.shard(shards) == number {
                            layer.touch(at, id, None);
                        }
                    });
                }
                for &table in &accesses.appends {
                    let id = LockId::of_append(table, at);
                    if id.shard(shards) == number {
                        layer.touch(at, id, Some(ADDED));
                    }
                }
            }
            let shard = &mut layer.shard;
            if shard.sights.len() - start > LINEAR_MAX {
                shard.sights[start..].sort_unstable_by_key(|sight| sight.id);
            }
            shard.first.push(shard.sights.len() as u32);
        }
        let Layer { tails, mut shard, .. } = layer;
        shard.last = tails.into_values().map(|tail| tail.last).collect();
        shard
    }

    fn sights_of(&self, place: u32) -> &[Sight] {
        let [first, end] = [place, place + 1].map(|place| self.first[place as usize] as usize);
        &self.sights[first..end]
    }

    /// From the writer of each version to those who see it.
    fn edges(&self, start: u32) -> Vec<(u32, u32)> {
        let mut edges = Vec::new();
        for place in 0..self.first.len() as u32 - 1 {
            let before = self.sights_of(place).iter().filter_map(|s| self.version(s.before));
            edges.extend(before.map(|version| (version.at - start, place)));
        }
        debug_assert!(edges.iter().all(|(writer, reader)| writer < reader), "no cycle");
        edges
    }

    /// The last versions of all records.
    pub fn last(&self) -> impl Iterator<Item = &Version> {
        self.last.iter().filter_map(|&version| self.version(version))
    }

    fn version(&self, number: u32) -> Option<&Version> {
        self.versions.get(number as usize)
    }

    /// A version and those before it on its record.
    pub fn back_from<'s>(&'s self, version: &'s Version) -> impl Iterator<Item = &'s Version> {
        std::iter::successors(Some(version), |version| self.version(version.before))
    }
}

impl Layer<'_> {
    /// `at` may touch the record; `writes`: which of its declared keys it may write.
    fn touch(&mut self, at: u32, id: LockId, writes: Option<u32>) {
        let known = self.tails.get_mut(&id);
        let (before, sight) = match &known {
            Some(tail) if tail.seen_by == at => (NONE, Some(tail.sight)),
            Some(tail) => (tail.last, None),
            None => (NONE, None),
        };
        if let Some(sight) = sight {
            if let Some(key) = writes {
                self.write_again(at, id, key, sight);
            }
            return;
        }
        if writes.is_none() && before == NONE {
            return;
        }
        let own = writes.map_or(NONE, |key| self.shard.place(at, key, before));
        let sight = self.shard.see(Sight { id, before, own });
        let last = if own == NONE { before } else { own };
        self.tails.insert(id, Tail { last, seen_by: at, sight });
    }

    /// The transaction has seen the record before: to read it, by a repetition, or because two of
    /// its keys have one id.
    fn write_again(&mut self, at: u32, id: LockId, key: u32, sight: u32) {
        let Sight { before, own, .. } = self.shard.sights[sight as usize];
        let start = self.shard.first.last().copied().unwrap_or(0) as usize;
        let is_it = |sight: &Sight| match self.shard.version(sight.own) {
            Some(version) => sight.id == id && self.key(version) == self.key_of(at, key),
            None => false,
        };
        if self.shard.sights[start..].iter().any(is_it) {
            return;
        }
        let Some(tail) = self.tails.get_mut(&id) else {
            return;
        };
        let placed = self.shard.place(at, key, tail.last);
        tail.last = placed;
        match own {
            NONE => self.shard.sights[sight as usize].own = placed,
            _ => {
                self.shard.see(Sight { id, before, own: placed });
            }
        }
    }

    fn key_of(&self, at: u32, key: u32) -> Option<&KeyAccess> {
        self.requests.declared[at as usize].accesses()?.keys.get(key as usize)
    }

    fn key(&self, version: &Version) -> Option<&KeyAccess> {
        self.key_of(version.at, version.key)
    }
}

impl Shard {
    fn place(&mut self, at: u32, key: u32, before: u32) -> u32 {
        let number = self.versions.len() as u32;
        debug_assert!(
            self.version(before).is_none_or(|before| before.at <= at),
            "versions of a record lie in block order"
        );
        self.versions.push(Version { at, key, before, state: OnceLock::new() });
        number
    }

    fn see(&mut self, sight: Sight) -> u32 {
        self.sights.push(sight);
        self.sights.len() as u32 - 1
    }
}

/// All versions of a segment.
pub struct Versions {
    pub requests: Arc<Requests>,
    pub shards: Vec<Shard>,
    pub segment: Range<u32>,
}

impl Versions {
    /// The key that a version is of; `None`: rows under hidden ids.
    pub fn key(&self, version: &Version) -> Option<&KeyAccess> {
        self.requests.declared[version.at as usize].accesses()?.keys.get(version.key as usize)
    }

    fn sights(&self, at: u32, id: LockId) -> (&Shard, impl Iterator<Item = &Sight>) {
        let shard = &self.shards[id.shard(self.shards.len())];
        let sights = shard.sights_of(at - self.segment.start);
        let first = match sights.len() {
            0..=LINEAR_MAX => 0,
            _ => sights.partition_point(|sight| sight.id < id),
        };
        let sorted = sights.len() > LINEAR_MAX;
        let rest = sights[first..].iter().take_while(move |sight| !sorted || sight.id == id);
        (shard, rest.filter(move |sight| sight.id == id))
    }

    fn is_of(&self, version: &Version, access: &KeyAccess) -> bool {
        self.key(version).is_some_and(|key| key.table == access.table && key.key == access.key)
    }

    /// What transaction `at` finds of a record: the last version before it in which there is
    /// something. `None`: what is stored.
    pub fn before(&self, at: u32, access: &KeyAccess) -> Option<&Version> {
        let (shard, mut sights) = self.sights(at, LockId::of_key(access));
        let last = shard.version(sights.next()?.before)?;
        shard.back_from(last).find(|version| {
            self.is_of(version, access) && !matches!(version.made(), State::Unchanged)
        })
    }

    /// Whether any record that it may touch has a version before it.
    pub fn any_before(&self, at: u32) -> bool {
        let place = at - self.segment.start;
        self.shards.iter().any(|shard| shard.sights_of(place).iter().any(|s| s.before != NONE))
    }

    /// Who must have run before whom, as places in the segment.
    pub fn edges(&self) -> Vec<Vec<(u32, u32)>> {
        self.shards.iter().map(|shard| shard.edges(self.segment.start)).collect()
    }

    /// Its own placeholder.
    pub fn own(&self, at: u32, access: &KeyAccess) -> Option<&Version> {
        let (shard, sights) = self.sights(at, LockId::of_key(access));
        let mut own = sights.filter_map(|sight| shard.version(sight.own));
        own.find(|version| self.is_of(version, access))
    }

    /// Its placeholder for rows that it adds to a table under hidden ids.
    pub fn own_added(&self, at: u32, table: TableId) -> Option<&Version> {
        let (shard, sights) = self.sights(at, LockId::of_append(table, at));
        let mut own = sights.filter_map(|sight| shard.version(sight.own));
        own.find(|version| version.key == ADDED)
    }

    /// All of its placeholders.
    pub fn all_own(&self, at: u32) -> impl Iterator<Item = &Version> {
        let place = at - self.segment.start;
        self.shards.iter().flat_map(move |shard| {
            shard.sights_of(place).iter().filter_map(|sight| shard.version(sight.own))
        })
    }

    /// Versions before it, of one table or of rows added to any: the last of each record that it
    /// sees, in which there is something.
    pub fn all_before(&self, at: u32, table: TableId) -> impl Iterator<Item = &Version> {
        let place = at - self.segment.start;
        self.shards.iter().flat_map(move |shard| {
            let lasts = shard.sights_of(place).iter().filter_map(|s| shard.version(s.before));
            lasts.flat_map(move |last| {
                let mut met: SmallVec<[&Key; 1]> = SmallVec::new();
                shard.back_from(last).filter(move |version| {
                    let of = self.key(version);
                    let of_table = of.is_none_or(|access| access.table == table);
                    let fresh = of.is_none_or(|access| !met.contains(&&access.key));
                    let made = fresh && !matches!(version.made(), State::Unchanged);
                    if made && let Some(access) = of {
                        met.push(&access.key);
                    }
                    of_table && made
                })
            })
        })
    }
}

impl Version {
    /// What its writer made, who has run.
    pub fn made(&self) -> &State {
        self.state.get().expect("whoever reads a version waits for its writer")
    }
}
