//! The lock table as a value: who holds what, who waits for whom.
//!
//! ```text
//!   (table, index) ─► keys    key ─► (owner, mode) …
//!                     ranges  interval, owner, mode
//!   queue             ticket ─► owner, claim, tickets that it stands after
//! ```
//!
//! *Fair.* A request that conflicts with one that waits stands after it, even where it could be
//! granted, so writers do not starve. But it does not stand after one that waits for the requester
//! itself: a holder that wants more passes those that wait for it to end.
//!
//! *Deadlocks.* Edges lead from a waiter to the holders of what it wants and to those that it
//! stands after. A request whose holders lead back to it is refused, so the graph has no cycle: a
//! cycle would need an edge that came last, and edges come when a request begins to wait, where
//! this is looked at, or when a lock is granted to an owner, who then waits for nothing.
//!
//! *Invariants.* Locks of two owners on places that overlap are both shared. An owner waits for one
//! claim at most. Owners and their locks are bounded by [`Bounds`].
//!
//! *Cost.* A key: a search of a tree, and a look at each range held on its line. A release looks at
//! each waiter once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use concurrency::claims::{Claim, Place, is_below};
use types::{IndexId, Key, TableId};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OwnerId(pub u64);

type Line = (TableId, IndexId);

#[derive(Clone, Copy, Debug)]
struct Grant {
    owner: OwnerId,
    exclusive: bool,
}

#[derive(Debug, Default)]
struct Held {
    keys: BTreeMap<Key, Vec<Grant>>,
    ranges: Vec<(Grant, Place)>,
}

#[derive(Debug)]
struct Owner {
    process: i32,
    keys: Vec<(Line, Key)>,
    /// Lines on which it holds ranges.
    lines: Vec<Line>,
    count: usize,
    /// Its ticket in the queue.
    waits: Option<u64>,
}

#[derive(Debug)]
struct Waiter {
    owner: OwnerId,
    claim: Claim,
    behind: Vec<u64>,
}

/// How many locks there may be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub of_owner: usize,
    pub in_all: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { of_owner: 1 << 19, in_all: 1 << 21 }
    }
}

#[derive(Debug, Default)]
pub struct LockTable {
    lines: HashMap<Line, Held>,
    owners: BTreeMap<OwnerId, Owner>,
    queue: BTreeMap<u64, Waiter>,
    tickets: u64,
    held: usize,
    bounds: Bounds,
}

/// A process that waits, for what, and one that it waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blocked {
    pub process: i32,
    pub claim: Claim,
    pub by: i32,
}

/// Locks of a process on a table, or one that it waits for there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Shown {
    pub process: i32,
    pub table: TableId,
    pub exclusive: bool,
    pub granted: bool,
}

/// What a request comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The owner held it already.
    Had,
    Granted,
    Waits,
    /// It would have to wait, and does not.
    Busy,
    /// The cycle that waiting would close.
    Deadlock(Vec<Blocked>),
    /// A bound is reached.
    Full,
}

impl LockTable {
    pub fn with_bounds(bounds: Bounds) -> LockTable {
        LockTable { bounds, ..LockTable::default() }
    }

    pub fn enter(&mut self, owner: OwnerId, process: i32) {
        let (keys, lines) = Default::default();
        self.owners.insert(owner, Owner { process, keys, lines, count: 0, waits: None });
    }

    /// An owner that does not wait asks for a lock.
    pub fn request(&mut self, owner: OwnerId, claim: &Claim, may_wait: bool) -> Answer {
        debug_assert!(!self.waits(owner), "an owner waits for one lock at a time");
        if self.has(owner, claim) {
            return Answer::Had;
        }
        let count = self.owners.get(&owner).map_or(usize::MAX, |owner| owner.count);
        if count >= self.bounds.of_owner || self.held >= self.bounds.in_all {
            return Answer::Full;
        }
        let holders = self.holders(owner, claim);
        let behind = self.ahead_of(owner, claim);
        if holders.is_empty() && behind.is_empty() {
            self.grant(owner, claim);
            return Answer::Granted;
        }
        if !may_wait {
            return Answer::Busy;
        }
        for holder in holders {
            if let Some(path) = self.path(holder, owner) {
                return Answer::Deadlock(self.cycle(owner, claim, holder, &path));
            }
        }
        self.enqueue(owner, claim.clone(), behind);
        Answer::Waits
    }

    fn enqueue(&mut self, owner: OwnerId, claim: Claim, behind: Vec<u64>) {
        let ticket = self.tickets;
        debug_assert!(behind.iter().all(|ahead| *ahead < ticket), "it waits for older ones");
        self.tickets += 1;
        self.queue.insert(ticket, Waiter { owner, claim, behind });
        if let Some(owner) = self.owners.get_mut(&owner) {
            owner.waits = Some(ticket);
        }
    }

    /// An owner waits no more; those who got what they waited for since.
    pub fn give_up(&mut self, owner: OwnerId) -> Vec<OwnerId> {
        let ticket = self.owners.get_mut(&owner).and_then(|owner| owner.waits.take());
        match ticket {
            Some(ticket) => {
                self.queue.remove(&ticket);
                self.grant_waiters()
            }
            None => Vec::new(),
        }
    }

    /// An owner lets go of everything; those who got what they waited for by that.
    pub fn leave(&mut self, owner: OwnerId) -> Vec<OwnerId> {
        let Some(gone) = self.owners.remove(&owner) else { return Vec::new() };
        if let Some(ticket) = gone.waits {
            self.queue.remove(&ticket);
        }
        for (line, key) in gone.keys {
            let Some(held) = self.lines.get_mut(&line) else { continue };
            if let Some(grants) = held.keys.get_mut(&key) {
                grants.retain(|grant| grant.owner != owner);
                if grants.is_empty() {
                    held.keys.remove(&key);
                }
            }
            self.drop_if_free(line);
        }
        for line in gone.lines {
            let Some(held) = self.lines.get_mut(&line) else { continue };
            held.ranges.retain(|(grant, _)| grant.owner != owner);
            self.drop_if_free(line);
        }
        assert!(self.held >= gone.count, "what an owner holds is held");
        self.held -= gone.count;
        let is_empty = self.held == 0 && self.lines.is_empty() && self.queue.is_empty();
        assert!(is_empty || !self.owners.is_empty(), "what is held has an owner");
        self.grant_waiters()
    }

    fn drop_if_free(&mut self, line: Line) {
        if self.lines.get(&line).is_some_and(|held| held.keys.is_empty() && held.ranges.is_empty())
        {
            self.lines.remove(&line);
        }
    }

    pub fn waits(&self, owner: OwnerId) -> bool {
        self.owners.get(&owner).is_some_and(|owner| owner.waits.is_some())
    }

    /// Locks that are held.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Who has locks of which kind on which table, and who waits for one.
    pub fn shown(&self) -> BTreeSet<Shown> {
        let of = |owner: &OwnerId, table, exclusive, granted| {
            let process = self.owners.get(owner)?.process;
            Some(Shown { process, table, exclusive, granted })
        };
        let held = self.lines.iter().flat_map(|((table, _), held)| {
            let grants = held.keys.values().flatten();
            let grants = grants.chain(held.ranges.iter().map(|(grant, _)| grant));
            grants.filter_map(move |grant| of(&grant.owner, *table, grant.exclusive, true))
        });
        let waiting = self.queue.values().filter_map(|waiter| {
            let Claim { table, exclusive, .. } = waiter.claim;
            of(&waiter.owner, table, exclusive, false)
        });
        held.chain(waiting).collect()
    }

    /// Whether what an owner holds covers a claim.
    pub fn has(&self, owner: OwnerId, claim: &Claim) -> bool {
        let Some(held) = self.lines.get(&(claim.table, claim.index)) else { return false };
        let enough = |grant: &Grant| grant.owner == owner && (grant.exclusive || !claim.exclusive);
        let as_key = match &claim.place {
            Place::Key(key) => held.keys.get(key).is_some_and(|grants| grants.iter().any(enough)),
            Place::Range(..) => false,
        };
        as_key
            || held
                .ranges
                .iter()
                .any(|(grant, range)| enough(grant) && contains(range, &claim.place))
    }

    /// Rows of a table that a claim of this owner would have to wait for.
    pub fn taken_from(&self, owner: OwnerId, table: TableId, exclusive: bool) -> BTreeSet<Key> {
        let against = |other: OwnerId, is: bool| other != owner && (is || exclusive);
        let held = self.lines.get(&(table, 0)).into_iter().flat_map(|held| &held.keys);
        let held = held.filter(|(_, grants)| grants.iter().any(|g| against(g.owner, g.exclusive)));
        let awaited = self.queue.values().filter(|waiter| {
            waiter.claim.table == table && against(waiter.owner, waiter.claim.exclusive)
        });
        let awaited = awaited.filter_map(|waiter| match &waiter.claim.place {
            Place::Key(key) if waiter.claim.index == 0 => Some(key),
            _ => None,
        });
        held.map(|(key, _)| key).chain(awaited).cloned().collect()
    }

    /// Other owners whose locks conflict with a claim.
    fn holders(&self, owner: OwnerId, claim: &Claim) -> Vec<OwnerId> {
        let Some(held) = self.lines.get(&(claim.table, claim.index)) else { return Vec::new() };
        let against = |grant: &Grant| grant.owner != owner && (grant.exclusive || claim.exclusive);
        let keys = keys_in(&held.keys, &claim.place).flatten().filter(|grant| against(grant));
        let ranges = held.ranges.iter();
        let ranges = ranges.filter(|(grant, range)| against(grant) && overlap(range, &claim.place));
        let mut all: Vec<_> = keys.chain(ranges.map(|(grant, _)| grant)).map(|g| g.owner).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Tickets of waiters that a new request stands after.
    fn ahead_of(&self, owner: OwnerId, claim: &Claim) -> Vec<u64> {
        let ahead = self.queue.iter().filter(|(_, waiter)| {
            conflict(&waiter.claim, claim)
                && waiter.owner != owner
                && self.path(waiter.owner, owner).is_none()
        });
        ahead.map(|(ticket, _)| *ticket).collect()
    }

    /// Those that an owner waits for.
    fn blockers(&self, owner: OwnerId) -> Vec<OwnerId> {
        let ticket = self.owners.get(&owner).and_then(|owner| owner.waits);
        let Some(waiter) = ticket.and_then(|ticket| self.queue.get(&ticket)) else {
            return Vec::new();
        };
        let mut all = self.holders(owner, &waiter.claim);
        let behind = waiter.behind.iter().filter_map(|ticket| self.queue.get(ticket));
        all.extend(behind.map(|waiter| waiter.owner));
        all
    }

    fn of_process(&self, process: i32) -> impl Iterator<Item = (OwnerId, &Owner)> {
        let owners = self.owners.iter().filter(move |(_, owner)| owner.process == process);
        owners.map(|(id, owner)| (*id, owner))
    }

    /// Processes that one waits for.
    pub fn blockers_of(&self, process: i32) -> Vec<i32> {
        let blockers = self.of_process(process).flat_map(|(owner, _)| self.blockers(owner));
        blockers.filter_map(|owner| Some(self.owners.get(&owner)?.process)).collect()
    }

    /// What a process waits for.
    pub fn awaited(&self, process: i32) -> Option<&Claim> {
        let ticket = self.of_process(process).find_map(|(_, owner)| owner.waits)?;
        self.queue.get(&ticket).map(|waiter| &waiter.claim)
    }

    /// Owners from one to another, along what they wait for.
    fn path(&self, from: OwnerId, to: OwnerId) -> Option<Vec<OwnerId>> {
        let mut came_from = BTreeMap::from([(from, from)]);
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if at == to {
                return Some(traced(&came_from, from, to));
            }
            for next in self.blockers(at) {
                if let std::collections::btree_map::Entry::Vacant(fresh) = came_from.entry(next) {
                    fresh.insert(at);
                    open.push(next);
                }
            }
        }
        None
    }

    fn cycle(
        &self,
        owner: OwnerId,
        claim: &Claim,
        holder: OwnerId,
        path: &[OwnerId],
    ) -> Vec<Blocked> {
        let process = |owner: &OwnerId| self.owners.get(owner).map_or(0, |owner| owner.process);
        let first =
            Blocked { process: process(&owner), claim: claim.clone(), by: process(&holder) };
        let others = path.windows(2).filter_map(|pair| {
            let ticket = self.owners.get(&pair[0])?.waits?;
            let claim = self.queue.get(&ticket)?.claim.clone();
            Some(Blocked { process: process(&pair[0]), claim, by: process(&pair[1]) })
        });
        std::iter::once(first).chain(others).collect()
    }

    fn grant(&mut self, owner: OwnerId, claim: &Claim) {
        debug_assert!(self.holders(owner, claim).is_empty(), "no two hold what conflicts");
        let line = (claim.table, claim.index);
        let grant = Grant { owner, exclusive: claim.exclusive };
        let held = self.lines.entry(line).or_default();
        let Some(owned) = self.owners.get_mut(&owner) else { return };
        match &claim.place {
            Place::Key(key) => {
                let grants = held.keys.entry(key.clone()).or_default();
                if let Some(weaker) = grants.iter_mut().find(|grant| grant.owner == owner) {
                    weaker.exclusive = true;
                    return;
                }
                grants.push(grant);
                owned.keys.push((line, key.clone()));
            }
            range => {
                held.ranges.push((grant, range.clone()));
                if !owned.lines.contains(&line) {
                    owned.lines.push(line);
                }
            }
        }
        owned.count += 1;
        self.held += 1;
    }

    fn grant_waiters(&mut self) -> Vec<OwnerId> {
        let mut granted = Vec::new();
        let tickets: Vec<u64> = self.queue.keys().copied().collect();
        for ticket in tickets {
            let Some(Waiter { owner, claim, behind }) = self.queue.get(&ticket) else { continue };
            let stands = behind.iter().any(|ahead| self.queue.contains_key(ahead));
            if stands || !self.holders(*owner, claim).is_empty() {
                continue;
            }
            let Some(Waiter { owner, claim, .. }) = self.queue.remove(&ticket) else { continue };
            if let Some(owner) = self.owners.get_mut(&owner) {
                owner.waits = None;
            }
            self.grant(owner, &claim);
            granted.push(owner);
        }
        granted
    }
}

fn traced(came_from: &BTreeMap<OwnerId, OwnerId>, from: OwnerId, to: OwnerId) -> Vec<OwnerId> {
    let mut path = vec![to];
    let mut at = to;
    while at != from
        && let Some(&before) = came_from.get(&at)
    {
        path.push(before);
        at = before;
    }
    path.reverse();
    path
}

fn keys_in<'h>(
    keys: &'h BTreeMap<Key, Vec<Grant>>,
    place: &Place,
) -> impl Iterator<Item = &'h Vec<Grant>> {
    let bounds = match place {
        Place::Key(key) => (Bound::Included(key.clone()), Bound::Included(key.clone())),
        Place::Range(low, high) => (low.clone(), high.clone()),
    };
    // A tree panics at an interval that is none.
    let some = is_below(&bounds.0, &bounds.1);
    some.then(|| keys.range(bounds)).into_iter().flatten().map(|(_, grants)| grants)
}

fn conflict(a: &Claim, b: &Claim) -> bool {
    (a.exclusive || b.exclusive)
        && (a.table, a.index) == (b.table, b.index)
        && overlap(&a.place, &b.place)
}

pub fn overlap(a: &Place, b: &Place) -> bool {
    match (a, b) {
        (Place::Key(a), Place::Key(b)) => a == b,
        (Place::Key(key), Place::Range(low, high)) | (Place::Range(low, high), Place::Key(key)) => {
            let key = Bound::Included(key.clone());
            is_below(low, &key) && is_below(&key, high)
        }
        (Place::Range(low, high), Place::Range(other_low, other_high)) => {
            is_below(low, other_high) && is_below(other_low, high)
        }
    }
}

fn contains(range: &Place, inner: &Place) -> bool {
    match (range, inner) {
        (Place::Range(low, high), Place::Range(inner_low, inner_high)) => {
            reaches(low, inner_low, |outer, inner| outer <= inner, |outer, inner| outer < inner)
                && reaches(
                    high,
                    inner_high,
                    |outer, inner| outer >= inner,
                    |outer, inner| outer > inner,
                )
        }
        (_, Place::Key(_)) => overlap(range, inner),
        (Place::Key(_), Place::Range(..)) => false,
    }
}

/// Whether a bound of an interval is as far out as another.
fn reaches(
    outer: &Bound<Key>,
    inner: &Bound<Key>,
    as_far: impl Fn(&Key, &Key) -> bool,
    farther: impl Fn(&Key, &Key) -> bool,
) -> bool {
    match (outer, inner) {
        (Bound::Unbounded, _) => true,
        (_, Bound::Unbounded) => false,
        (Bound::Excluded(outer), Bound::Included(inner)) => farther(outer, inner),
        (
            Bound::Included(outer) | Bound::Excluded(outer),
            Bound::Included(inner) | Bound::Excluded(inner),
        ) => as_far(outer, inner),
    }
}
