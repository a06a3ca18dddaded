//! Advisory locks: numbers that sessions lock by agreement among themselves.
//!
//! ```text
//!   number ─► holders  session, how often in each mode and on each level
//!             queue    sessions that wait, in the order in which they will be granted
//! ```
//!
//! *Counted.* A lock is held until it was given back as often as it was taken: on the level of the
//! session by `pg_advisory_unlock`, on that of the transaction by the transaction's end.
//!
//! *Fair.* A request stands after those that wait and conflict with it, so that a stream of shared
//! locks does not starve an exclusive one; but a holder that wants more stands before all that
//! wait, since most of them wait for it.
//!
//! *Deadlocks.* Edges lead from a session that waits to the holders that conflict with it and to
//! those before it in the queue that do. A request whose wait would close a cycle is refused with
//! 40P01, so there never is one: new edges come with a request that begins to wait, where this is
//! looked at, or lead to a session that was granted something and waits for nothing.
//!
//! *Invariants.* Of two sessions that hold one number both are shared. A session waits for one
//! number at most, and what waits conflicts with a holder or with what is before it. Locks are
//! bounded by [`Bounds`].
//!
//! Row locks (protocol `2pl`) have a table of their own; a cycle through both is refused as well
//! ([`engine::locks::cycles`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use engine::locks::{Cycles, Waits};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time;
use types::{Error, Result, SqlState};

use crate::bind::Level;

/// How often a waiter looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(20);

/// One number of 64 bits, or two of 32, which are others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AdvisoryKey {
    Whole(i64),
    Pair(i32, i32),
}

impl AdvisoryKey {
    /// As `pg_locks` shows it: `classid`, `objid`, `objsubid`.
    pub fn parts(self) -> (u32, u32, i16) {
        match self {
            AdvisoryKey::Whole(number) => ((number >> 32) as u32, number as u32, 1),
            AdvisoryKey::Pair(class, object) => (class as u32, object as u32, 2),
        }
    }
}

impl fmt::Display for AdvisoryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (class, object, sub) = self.parts();
        write!(f, "advisory lock [{class},{object},{sub}]")
    }
}

/// A lock as it is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    pub key: AdvisoryKey,
    pub exclusive: bool,
    pub level: Level,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OwnerId(u64);

#[derive(Clone, Copy, Debug)]
struct Holder {
    owner: OwnerId,
    /// By level.
    exclusive: [u32; 2],
    shared: [u32; 2],
}

impl Holder {
    fn is_exclusive(&self) -> bool {
        self.exclusive != [0, 0]
    }

    fn is_shared(&self) -> bool {
        self.shared != [0, 0]
    }

    fn count(&mut self, exclusive: bool, level: Level) -> &mut u32 {
        let counts = if exclusive { &mut self.exclusive } else { &mut self.shared };
        &mut counts[level as usize]
    }
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    owner: OwnerId,
    wanted: Wanted,
}

#[derive(Debug, Default)]
struct Entry {
    holders: Vec<Holder>,
    queue: VecDeque<Waiter>,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = if self.exclusive { "ExclusiveLock" } else { "ShareLock" };
        write!(f, "{mode} on {}", self.key)
    }
}

impl Entry {
    fn holder(&mut self, owner: OwnerId) -> Option<&mut Holder> {
        self.holders.iter_mut().find(|holder| holder.owner == owner)
    }

    /// Who has to let go, or be granted and let go, before a request at this place is granted.
    fn blockers(&self, owner: OwnerId, exclusive: bool, place: usize) -> Vec<OwnerId> {
        let conflicts = |theirs: bool| theirs || exclusive;
        let holders = self.holders.iter().filter(|h| conflicts(h.is_exclusive()));
        let ahead = self.queue.iter().take(place).filter(|w| conflicts(w.wanted.exclusive));
        let all = holders.map(|h| h.owner).chain(ahead.map(|w| w.owner));
        all.filter(|other| *other != owner).collect()
    }
}

#[derive(Debug, Default)]
struct Owner {
    process: i32,
    held: BTreeSet<AdvisoryKey>,
    waits: Option<AdvisoryKey>,
}

/// How many numbers may be locked.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub of_owner: usize,
    pub in_all: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { of_owner: 1 << 14, in_all: 1 << 18 }
    }
}

/// The locks as a value: who holds what, who waits for whom.
#[derive(Debug, Default)]
pub struct Table {
    entries: BTreeMap<AdvisoryKey, Entry>,
    owners: BTreeMap<OwnerId, Owner>,
    last_owner: u64,
    held: usize,
    bounds: Bounds,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    Granted,
    Waits,
    /// It would have to wait, and does not.
    Busy,
    /// The cycle that waiting would close, from the requester on.
    Deadlock(Vec<OwnerId>),
    /// A bound is reached.
    Full,
}

/// A lock, or a wait for one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shown {
    pub process: i32,
    pub key: AdvisoryKey,
    pub exclusive: bool,
    pub granted: bool,
}

impl Table {
    pub fn with_bounds(bounds: Bounds) -> Table {
        Table { bounds, ..Table::default() }
    }

    pub fn enter(&mut self, process: i32) -> OwnerId {
        self.last_owner += 1;
        let id = OwnerId(self.last_owner);
        self.owners.insert(id, Owner { process, ..Owner::default() });
        id
    }

    /// An owner that does not wait asks for a lock.
    pub fn request(&mut self, owner: OwnerId, wanted: Wanted, may_wait: bool) -> Answer {
        let Wanted { key, exclusive, .. } = wanted;
        let entry = self.entries.entry(key).or_default();
        let own = entry.holder(owner).copied();
        let has = own.is_some_and(|own| own.is_exclusive() || !exclusive);
        let place = if own.is_some() { 0 } else { entry.queue.len() };
        let is_free = has || entry.blockers(owner, exclusive, place).is_empty();
        if own.is_none() && self.is_full(owner) {
            self.tidy(key);
            return Answer::Full;
        }
        if is_free {
            self.grant(owner, wanted);
            return Answer::Granted;
        }
        if !may_wait {
            return Answer::Busy;
        }
        let entry = self.entries.entry(key).or_default();
        entry.queue.insert(place, Waiter { owner, wanted });
        self.wait_for(owner, Some(key));
        match self.cycle(owner) {
            None => Answer::Waits,
            Some(cycle) => {
                // As before it came, so no wait is granted by its leaving.
                self.leave_queue(owner);
                Answer::Deadlock(cycle)
            }
        }
    }

    /// Gives back a lock that was taken once; `None`: it is not held.
    pub fn release(&mut self, owner: OwnerId, wanted: Wanted) -> Option<Vec<OwnerId>> {
        let Wanted { key, exclusive, level } = wanted;
        let holder = self.entries.get_mut(&key)?.holder(owner)?;
        let count = holder.count(exclusive, level);
        *count = count.checked_sub(1)?;
        Some(self.grant_waiting(owner, key))
    }

    /// Gives back all that an owner has taken on a level.
    pub fn release_level(&mut self, owner: OwnerId, level: Level) -> Vec<OwnerId> {
        let keys = self.owners.get(&owner).map(|owner| owner.held.clone()).unwrap_or_default();
        let mut granted = Vec::new();
        for key in keys {
            let holder = self.entries.get_mut(&key).and_then(|entry| entry.holder(owner));
            if let Some(holder) = holder {
                *holder.count(true, level) = 0;
                *holder.count(false, level) = 0;
                granted.extend(self.grant_waiting(owner, key));
            }
        }
        granted
    }

    /// The owner waits no more; those that got what they waited for since.
    pub fn give_up(&mut self, owner: OwnerId) -> Vec<OwnerId> {
        match self.leave_queue(owner) {
            Some(key) => self.grant_waiters(key),
            None => Vec::new(),
        }
    }

    pub fn leave(&mut self, owner: OwnerId) -> Vec<OwnerId> {
        let mut granted = self.give_up(owner);
        for level in [Level::Transaction, Level::Session] {
            granted.extend(self.release_level(owner, level));
        }
        self.owners.remove(&owner);
        granted
    }

    pub fn process(&self, owner: OwnerId) -> i32 {
        self.owners.get(&owner).map_or(0, |owner| owner.process)
    }

    /// What an owner waits for.
    pub fn awaited(&self, owner: OwnerId) -> Option<Wanted> {
        let key = self.owners.get(&owner)?.waits?;
        let waiter = self.entries.get(&key)?.queue.iter().find(|waiter| waiter.owner == owner);
        waiter.map(|waiter| waiter.wanted)
    }

    pub fn shown(&self) -> Vec<Shown> {
        let mut shown = Vec::new();
        for (&key, Entry { holders, queue }) in &self.entries {
            let mut show = |owner, exclusive, granted| {
                shown.push(Shown { process: self.process(owner), key, exclusive, granted });
            };
            for holder in holders {
                if holder.is_exclusive() {
                    show(holder.owner, true, true);
                }
                if holder.is_shared() {
                    show(holder.owner, false, true);
                }
            }
            queue.iter().for_each(|waiter| show(waiter.owner, waiter.wanted.exclusive, false));
        }
        shown
    }

    fn is_full(&self, owner: OwnerId) -> bool {
        let own = self.owners.get(&owner).map_or(usize::MAX, |owner| owner.held.len());
        own >= self.bounds.of_owner || self.held >= self.bounds.in_all
    }

    fn wait_for(&mut self, owner: OwnerId, key: Option<AdvisoryKey>) {
        if let Some(owner) = self.owners.get_mut(&owner) {
            owner.waits = key;
        }
    }

    fn grant(&mut self, owner: OwnerId, wanted: Wanted) {
        let Wanted { key, exclusive, level } = wanted;
        let entry = self.entries.entry(key).or_default();
        if entry.holder(owner).is_none() {
            entry.holders.push(Holder { owner, exclusive: [0; 2], shared: [0; 2] });
            self.held += 1;
        }
        if let Some(holder) = entry.holder(owner) {
            let count = holder.count(exclusive, level);
            *count = count.saturating_add(1);
        }
        if let Some(owner) = self.owners.get_mut(&owner) {
            owner.held.insert(key);
        }
    }

    /// An owner has given something back.
    fn grant_waiting(&mut self, owner: OwnerId, key: AdvisoryKey) -> Vec<OwnerId> {
        let Some(entry) = self.entries.get_mut(&key) else { return Vec::new() };
        let is_held = |holder: &Holder| holder.is_exclusive() || holder.is_shared();
        let before = entry.holders.len();
        entry.holders.retain(|holder| holder.owner != owner || is_held(holder));
        if entry.holders.len() < before {
            self.held -= 1;
            if let Some(owner) = self.owners.get_mut(&owner) {
                owner.held.remove(&key);
            }
        }
        self.grant_waiters(key)
    }

    fn grant_waiters(&mut self, key: AdvisoryKey) -> Vec<OwnerId> {
        let mut granted = Vec::new();
        let mut place = 0;
        while let Some(entry) = self.entries.get_mut(&key)
            && let Some(&Waiter { owner, wanted }) = entry.queue.get(place)
        {
            if entry.blockers(owner, wanted.exclusive, place).is_empty() {
                entry.queue.remove(place);
                self.wait_for(owner, None);
                self.grant(owner, wanted);
                granted.push(owner);
            } else {
                place += 1;
            }
        }
        self.tidy(key);
        granted
    }

    fn leave_queue(&mut self, owner: OwnerId) -> Option<AdvisoryKey> {
        let key = self.owners.get_mut(&owner)?.waits.take()?;
        let entry = self.entries.get_mut(&key)?;
        entry.queue.retain(|waiter| waiter.owner != owner);
        self.tidy(key);
        Some(key)
    }

    fn tidy(&mut self, key: AdvisoryKey) {
        let is_idle = |entry: &Entry| entry.holders.is_empty() && entry.queue.is_empty();
        if self.entries.get(&key).is_some_and(is_idle) {
            self.entries.remove(&key);
        }
    }

    /// Processes that one waits for.
    fn blockers_of(&self, process: i32) -> Vec<i32> {
        let own = self.owners.iter().filter(|(_, owner)| owner.process == process);
        own.flat_map(|(id, _)| self.waits_for(*id)).map(|owner| self.process(owner)).collect()
    }

    /// Those that an owner waits for.
    fn waits_for(&self, owner: OwnerId) -> Vec<OwnerId> {
        let Some(wanted) = self.awaited(owner) else { return Vec::new() };
        let Some(entry) = self.entries.get(&wanted.key) else { return Vec::new() };
        let place = entry.queue.iter().position(|waiter| waiter.owner == owner);
        entry.blockers(owner, wanted.exclusive, place.unwrap_or(0))
    }

    /// The cycle of waits that an owner is in.
    fn cycle(&self, owner: OwnerId) -> Option<Vec<OwnerId>> {
        let mut came_from: HashMap<OwnerId, OwnerId> = HashMap::new();
        let mut open = VecDeque::from([owner]);
        while let Some(at) = open.pop_front() {
            for next in self.waits_for(at) {
                if next == owner {
                    let mut cycle = vec![at];
                    while let Some(&before) = cycle.last().and_then(|last| came_from.get(last)) {
                        cycle.push(before);
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                came_from.entry(next).or_insert_with(|| {
                    open.push_back(next);
                    at
                });
            }
        }
        None
    }
}

#[derive(Debug, Default)]
struct State {
    table: Table,
    wakers: HashMap<OwnerId, oneshot::Sender<()>>,
}

impl State {
    fn wake(&mut self, granted: &[OwnerId]) {
        for owner in granted {
            if let Some(waker) = self.wakers.remove(owner) {
                _ = waker.send(());
            }
        }
    }
}

/// The advisory locks of a node.
#[derive(Debug, Default)]
pub struct AdvisoryLocks {
    state: Mutex<State>,
}

impl Waits for AdvisoryLocks {
    fn blockers(&self, process: i32) -> Vec<i32> {
        self.state.lock().table.blockers_of(process)
    }

    fn awaited(&self, process: i32) -> Option<String> {
        let state = self.state.lock();
        let mut own = state.table.owners.iter().filter(|(_, owner)| owner.process == process);
        own.find_map(|(id, _)| state.table.awaited(*id)).map(|wanted| wanted.to_string())
    }
}

impl AdvisoryLocks {
    /// Cycles through the locks that have joined there are found, too.
    pub fn join(self: &Arc<Self>, cycles: &Cycles) {
        let own: Weak<Self> = Arc::downgrade(self);
        cycles.join(own);
    }

    pub fn shown(&self) -> Vec<Shown> {
        self.state.lock().table.shown()
    }

    /// For a session, whose number is told to others.
    pub fn owner(self: &Arc<Self>, process: i32) -> AdvisoryOwner {
        let id = self.state.lock().table.enter(process);
        AdvisoryOwner { locks: Arc::clone(self), id, process }
    }
}

/// A session's locks, which go with it.
#[derive(Debug)]
pub struct AdvisoryOwner {
    locks: Arc<AdvisoryLocks>,
    id: OwnerId,
    process: i32,
}

impl Drop for AdvisoryOwner {
    fn drop(&mut self) {
        let mut state = self.locks.state.lock();
        state.wakers.remove(&self.id);
        let granted = state.table.leave(self.id);
        state.wake(&granted);
    }
}

/// Ends a wait that is given up, be it by dropping it.
struct Wait<'a>(&'a AdvisoryOwner);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut state = self.0.locks.state.lock();
        state.wakers.remove(&self.0.id);
        let granted = state.table.give_up(self.0.id);
        state.wake(&granted);
    }
}

impl AdvisoryOwner {
    /// Whether it got the lock without waiting.
    pub fn try_lock(&self, wanted: Wanted) -> Result<bool> {
        match self.locks.state.lock().table.request(self.id, wanted, false) {
            Answer::Granted => Ok(true),
            Answer::Full => Err(full()),
            _ => Ok(false),
        }
    }

    /// `cycles`: of all locks that sessions wait for; `check`: why a wait has to end.
    pub async fn lock(
        &self,
        wanted: Wanted,
        cycles: &Cycles,
        lock_timeout: Option<Duration>,
        check: &(dyn Fn() -> Result<()> + Sync),
    ) -> Result<()> {
        if self.try_lock(wanted)? {
            return Ok(());
        }
        let Some((mut granted, _wait)) = self.begin_wait(wanted, cycles)? else { return Ok(()) };
        let since = Instant::now();
        loop {
            let left = lock_timeout.map(|most| most.saturating_sub(since.elapsed()));
            let look = left.map_or(LOOK, |left| left.min(LOOK));
            if let Ok(Ok(())) = time::timeout(look, &mut granted).await {
                return Ok(());
            }
            check()?;
            if left.is_some_and(|left| left.is_zero()) {
                let what = "canceling statement due to lock timeout";
                return Err(Error::new(SqlState::LOCK_NOT_AVAILABLE, what));
            }
        }
    }

    /// `None`: the lock is free meanwhile.
    fn begin_wait(
        &self,
        wanted: Wanted,
        cycles: &Cycles,
    ) -> Result<Option<(oneshot::Receiver<()>, Wait<'_>)>> {
        let turn = cycles.turn();
        let (waker, granted) = oneshot::channel();
        {
            let mut state = self.locks.state.lock();
            match state.table.request(self.id, wanted, true) {
                Answer::Granted => return Ok(None),
                Answer::Full => return Err(full()),
                Answer::Deadlock(cycle) => return Err(deadlock(&state.table, wanted, &cycle)),
                Answer::Waits | Answer::Busy => _ = state.wakers.insert(self.id, waker),
            }
        }
        let wait = Wait(self);
        match turn.refusal(self.process) {
            Some(refusal) => Err(refusal),
            None => Ok(Some((granted, wait))),
        }
    }

    /// False: the lock is not held on that level.
    pub fn unlock(&self, wanted: Wanted) -> bool {
        let mut state = self.locks.state.lock();
        let granted = state.table.release(self.id, wanted);
        state.wake(granted.as_deref().unwrap_or_default());
        granted.is_some()
    }

    pub fn unlock_all(&self, level: Level) {
        let mut state = self.locks.state.lock();
        let granted = state.table.release_level(self.id, level);
        state.wake(&granted);
    }
}

fn full() -> Error {
    Error::new(SqlState::OUT_OF_MEMORY, "there are too many advisory locks")
        .with_hint("Unlock those that are no longer needed.")
}

fn deadlock(table: &Table, wanted: Wanted, cycle: &[OwnerId]) -> Error {
    let next = cycle.iter().cycle().skip(1);
    let lines = cycle.iter().zip(next).enumerate().map(|(place, (&owner, &by))| {
        // The requester waits no more.
        let awaited = if place == 0 { Some(wanted) } else { table.awaited(owner) };
        let awaited = awaited.unwrap_or(wanted);
        let (process, by) = (table.process(owner), table.process(by));
        format!("Process {process} waits for {awaited}; blocked by process {by}.")
    });
    Error::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
        .with_detail(lines.collect::<Vec<_>>().join("\n"))
        .with_hint("Take locks in the same order everywhere, or try again.")
}

#[cfg(test)]
mod tests;
