//! Retention of past blocks: which can be read (time travel), within what memory limit.
//!
//! ```text
//!   block ──► publish ──► here: note it, retain what the policy names ──► collect
//!                          │
//!         retained         ▼            since the last collection
//!   ──●────────●────────●──┬────────●────┬────────────► newest
//!     │        named       └ by rules    └ every block can be read
//!     └ the oldest is released first when undo memory exceeds its limit
//! ```
//!
//! A block is *readable* if it is retained, by a rule of the [`Policy`] or by a name, or if it is
//! newer than the last collection (which runs every few blocks). Versions that no readable block
//! sees are dropped. A retained block therefore costs one version for each row that changed between
//! it and the next readable block, however often the row changed (`storage`, module `sweep`).
//!
//! *Names survive a restart, versions do not.* A name is stored on disk ([`names`]) and has an
//! owner; only the owner can remove it. Versions exist in memory alone. Recovery begins with a
//! checkpoint and recreates the versions of the blocks that it executes after it, and retains the
//! named ones among these. An older named block is listed as lost, and a query for it fails with
//! the reason.
//!
//! *Overlapping blocks.* Not every height is then a state of the serial order ([`states`]). One
//! that is not is neither retained nor shown to readers; a rule retains the next one instead.
//!
//! # The limit
//!
//! The limit `undo_bytes_max` applies to undo versions, index entries that only older snapshots
//! see, and dropped tables that are still read. While they exceed it, and the next collections
//! would not change that, snapshots are given up one by one: first the oldest block that only rules
//! retain, as long as there is one (before the last few of these, an older name or session's
//! snapshot); then the oldest named block or session's snapshot. These two kinds are kept until at
//! least [`LEASE_BLOCKS_MIN`] further blocks have been published. A reader of a block that was
//! given up gets the error *snapshot too old*, never a wrong row; a name stays listed as lost. So
//! undo memory is bounded by the limit plus what the youngest blocks write, and no writer waits.
//!
//! # Times
//!
//! A block's time is in its header and never decreases. *The block at a time* is the newest block
//! at or before that time. It is known for retained blocks, each kept with the time of the block
//! after it, and for the newest [`RECENT_BLOCKS`].

mod names;
mod policy;
mod states;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use kit::sync::lock;
use replica::Head;
use storage::{Snapshot, Store, StoreUsage};
use types::{Error, Height, Result, SqlState};

use names::Found;
use states::States;

pub use names::PinFolder;
pub use policy::{Every, Policy, Rule};

/// Blocks whose hashes and times are known whether they are retained or not.
pub const RECENT_BLOCKS: usize = 1024;

/// A session's snapshot is not given up before so many blocks have come.
pub const LEASE_BLOCKS_MIN: Height = 64;
const _: () = assert!(LEASE_BLOCKS_MIN < RECENT_BLOCKS as Height, "it is known while it is read");

/// A transaction that a client left open does not cost the last so many blocks of the rules: they
/// would be given up in vain, one after the other, while it lasts.
const RULE_BLOCKS_MIN: usize = 8;

/// So much of a collection's time goes into giving up.
const GIVEN_UP_AT_ONCE_MAX: usize = 64;

/// Named blocks, lost ones included.
pub const NAMES_MAX: usize = 256;

/// Those of one owner.
pub const NAMES_OF_ONE_MAX: usize = 64;

#[derive(Clone, Debug, Default)]
pub struct RetentionSettings {
    pub policy: Policy,
    /// 0: any.
    pub undo_bytes_max: u64,
    /// `None`: names are not written down.
    pub pins: Option<PinFolder>,
}

pub struct Retention {
    store: Arc<Store>,
    policy: Policy,
    undo_bytes_max: u64,
    /// Held while a name comes or goes, which takes the disk's time: blocks do not wait for it.
    pins: Mutex<Option<PinFolder>>,
    inner: Mutex<Inner>,
    /// Heights may be in doubt.
    overlaps: AtomicBool,
    /// A height is published, or in doubt no more.
    decided: Condvar,
}

/// A block that can be read, or a name for one that could.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    pub head: Head,
    /// Of the block after it; `None` for the newest.
    pub next_time_us: Option<i64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedPin {
    pub name: String,
    /// Who may give it up.
    pub owner: String,
    pub block: Known,
    /// Why its versions are not there any more.
    pub lost: Option<Lost>,
    file: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// They took too much of it.
    Memory,
    /// The node began with a checkpoint of a later block.
    Restart,
}

/// What the past takes, for metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    pub undo_bytes: u64,
    /// Pinned heights, of sessions, rules, names and the engine's own readers, each counted.
    pub snapshots: usize,
    /// Of these, retained by rules and names.
    pub retained: usize,
    pub oldest_height: Option<Height>,
    /// From the oldest one's block to the newest, as far as that one's time is known.
    pub oldest_age_us: u64,
    /// Snapshots given up for memory so far.
    pub given_up: u64,
}

struct Inner {
    newest: Head,
    /// Ascending, the newest included.
    recent: VecDeque<Head>,
    retained: BTreeMap<Height, Known>,
    /// What each rule retains, ascending.
    by_rule: Vec<VecDeque<Height>>,
    /// Rules that are to retain the next height that is safe.
    due: BTreeSet<usize>,
    states: States,
    names: BTreeMap<String, NamedPin>,
    given_up: u64,
}

impl Inner {
    fn is_retained(&self, height: Height) -> bool {
        self.is_named(height) || self.by_rule.iter().any(|heights| heights.contains(&height))
    }

    fn is_named(&self, height: Height) -> bool {
        self.names.values().any(|pin| pin.lost.is_none() && pin.block.head.height == height)
    }

    fn known(&self, height: Height) -> Option<Known> {
        if let Some(known) = self.retained.get(&height) {
            return Some(*known);
        }
        let first = self.recent.front()?.height;
        let place = usize::try_from(height.checked_sub(first)?).ok()?;
        let next_time_us = self.recent.get(place + 1).map(|next| next.time_us);
        Some(Known { head: *self.recent.get(place)?, next_time_us })
    }
}

impl Retention {
    /// `newest` is published. Of the blocks that have names the store retains those that it can.
    pub fn new(store: Arc<Store>, settings: RetentionSettings, newest: Head) -> Retention {
        let RetentionSettings { policy, undo_bytes_max, pins } = settings;
        let mut inner = Inner {
            newest,
            recent: VecDeque::from([newest]),
            retained: BTreeMap::new(),
            by_rule: vec![VecDeque::new(); policy.rules.len()],
            due: BTreeSet::new(),
            states: States::default(),
            names: BTreeMap::new(),
            given_up: 0,
        };
        let retained = store.retained();
        for Found { file, head, owner, name } in pins.iter().flat_map(|pins| pins.found.clone()) {
            let block = Known { head, next_time_us: None };
            let is_there = retained.contains(&head.height);
            if is_there {
                inner.retained.insert(head.height, block);
            }
            let lost = (!is_there).then_some(Lost::Restart);
            let pin = NamedPin { name: name.clone(), owner, block, lost, file: Some(file) };
            inner.names.insert(name, pin);
        }
        let (pins, inner) = (Mutex::new(pins), Mutex::new(inner));
        let (overlaps, decided) = (AtomicBool::new(false), Condvar::new());
        Retention { store, policy, undo_bytes_max, pins, inner, overlaps, decided }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Whether blocks overlap after the next one that is published: told before it is.
    pub(crate) fn set_overlaps(&self, overlaps: bool) {
        self.overlaps.store(overlaps, Ordering::SeqCst);
    }

    /// The newest state, as a lease, for a session that must see all that was answered before.
    /// Where blocks overlap this may wait for one that is under way, or two.
    ///
    /// # Errors
    /// The engine has stopped, and what was to be waited for will not come.
    pub fn newest(&self) -> Result<Snapshot> {
        if !self.overlaps.load(Ordering::SeqCst) {
            let lease = self.store.lease();
            if !self.overlaps.load(Ordering::SeqCst) {
                return Ok(lease);
            }
        }
        let mut inner = self.inner();
        loop {
            let lease = self.store.lease();
            let height = lease.height();
            while inner.states.is_in_doubt(height) {
                inner = self.wait(inner)?;
            }
            if inner.states.is_safe(height) {
                return Ok(lease);
            }
            inner.states.want_rest();
            while inner.newest.height == height {
                inner = self.wait(inner)?;
            }
        }
    }

    /// The same, if there is nothing to wait for.
    pub fn newest_at_once(&self) -> Option<Snapshot> {
        if self.overlaps.load(Ordering::SeqCst) {
            let inner = self.inner();
            return inner.states.is_safe(inner.newest.height).then(|| self.store.lease());
        }
        let lease = self.store.lease();
        (!self.overlaps.load(Ordering::SeqCst)).then_some(lease)
    }

    fn wait<'a>(&self, inner: MutexGuard<'a, Inner>) -> Result<MutexGuard<'a, Inner>> {
        if inner.states.has_ended() {
            let height = inner.newest.height;
            let what = "the node has stopped before it was known whether its newest block is safe";
            return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
                .with_detail(format!("Transactions may come that precede some of block {height}."))
                .with_hint("Read an older block, or restart the node, which recovers."));
        }
        Ok(self.decided.wait(inner).unwrap_or_else(|e| e.into_inner()))
    }

    /// The block after the newest one is finished. `reorders_previous`: one of its transactions
    /// precedes one of the newest block.
    pub(crate) fn finished(&self, reorders_previous: bool) {
        let mut inner = self.inner();
        inner.states.finished(reorders_previous);
        self.retain_due(&mut inner);
        drop(inner);
        self.decided.notify_all();
    }

    /// Whether no batch is to be cut before all that is under way is published.
    pub(crate) fn is_rest_wanted(&self) -> bool {
        self.overlaps.load(Ordering::SeqCst) && self.inner().states.is_rest_wanted()
    }

    /// Nothing more is published.
    pub(crate) fn end(&self) {
        self.inner().states.end();
        self.decided.notify_all();
    }

    /// A block comes, and nothing was collected since the one before. A reader that sees it
    /// published finds out its hash and its time. `safe`: nothing that comes will precede any of
    /// it.
    pub fn block(&self, head: Head, safe: bool, publish: impl FnOnce()) {
        let mut inner = self.inner();
        publish();
        inner.states.published(head.height, safe);
        self.note(&mut inner, head);
        drop(inner);
        if self.overlaps.load(Ordering::SeqCst) {
            self.decided.notify_all();
        }
    }

    fn note(&self, inner: &mut Inner, head: Head) {
        let before = std::mem::replace(&mut inner.newest, head);
        assert_eq!(head.height, before.height + 1, "a block is found by its place");
        if let Some(known) = inner.retained.get_mut(&before.height) {
            known.next_time_us = Some(head.time_us);
        }
        inner.recent.push_back(head);
        if inner.recent.len() > RECENT_BLOCKS {
            inner.recent.pop_front();
            let oldest = inner.recent[0].height;
            inner.states.forget_below(oldest);
        }
        for (place, rule) in self.policy.rules.iter().enumerate() {
            let wanted = match rule.every {
                Every::Blocks(count) => head.height.is_multiple_of(count).then_some(head.height),
                Every::Time(us) => {
                    let begins = before.time_us.div_euclid(us) < head.time_us.div_euclid(us);
                    begins.then_some(before.height)
                }
            };
            match wanted {
                Some(height) if inner.states.is_safe(height) => {
                    self.retain_by(inner, place, height);
                }
                Some(_) => drop(inner.due.insert(place)),
                None => {}
            }
        }
        self.retain_due(inner);
    }

    /// The newest height in the place of those that were not safe.
    fn retain_due(&self, inner: &mut Inner) {
        let newest = inner.newest.height;
        if inner.states.is_safe(newest) {
            for place in std::mem::take(&mut inner.due) {
                self.retain_by(inner, place, newest);
            }
        }
    }

    fn retain_by(&self, inner: &mut Inner, place: usize, height: Height) {
        if inner.by_rule[place].back() == Some(&height) || !self.retain(inner, height) {
            return;
        }
        let before = inner.by_rule[place].back();
        debug_assert!(before.is_none_or(|before| *before < height), "ascending");
        inner.by_rule[place].push_back(height);
        while inner.by_rule[place].len() > self.policy.rules[place].keep as usize
            && let Some(oldest) = inner.by_rule[place].pop_front()
        {
            self.release_unused(inner, oldest);
        }
    }

    fn retain(&self, inner: &mut Inner, height: Height) -> bool {
        let Some(known) = inner.known(height) else { return false };
        let retained = self.store.retain(height);
        if retained {
            inner.retained.insert(height, known);
        }
        retained
    }

    fn release_unused(&self, inner: &mut Inner, height: Height) {
        if !inner.is_retained(height) {
            self.store.release(height);
            inner.retained.remove(&height);
        }
    }

    /// Frees what is not read any more, and gives something up if that does not do.
    pub fn collect(&self) -> Memory {
        self.store.collect();
        let mut usage = self.store.usage();
        for _ in 0..GIVEN_UP_AT_ONCE_MAX {
            if !self.passes_limit(&usage) || !self.give_up() {
                break;
            }
            self.store.collect();
            usage = self.store.usage();
        }
        let inner = self.inner();
        let oldest = usage.oldest_snapshot.and_then(|height| inner.known(height));
        let age_us = oldest.map_or(0, |known| inner.newest.time_us - known.head.time_us);
        Memory {
            undo_bytes: usage.past_bytes(),
            snapshots: usage.snapshots,
            retained: usage.snapshots_retained,
            oldest_height: usage.oldest_snapshot,
            oldest_age_us: age_us.unsigned_abs(),
            given_up: inner.given_up,
        }
    }

    /// Whether versions take too much, without those that the next collections will look at.
    fn passes_limit(&self, usage: &StoreUsage) -> bool {
        let stays = usage.past_bytes().saturating_sub(usage.undo_unswept_bytes);
        self.undo_bytes_max > 0 && stays > self.undo_bytes_max
    }

    /// The oldest block that only rules retain; else the oldest of names and sessions, and so
    /// before the last few of the rules if it is older than these. Whether there was any.
    fn give_up(&self) -> bool {
        let mut inner = self.inner();
        let by_rule: BTreeSet<Height> = inner.by_rule.iter().flatten().copied().collect();
        let mut by_rule_alone = by_rule.into_iter().filter(|height| !inner.is_named(*height));
        let oldest = by_rule_alone.next();
        let is_much = by_rule_alone.nth(RULE_BLOCKS_MIN - 1).is_some();
        let limit = inner.newest.height.saturating_sub(LEASE_BLOCKS_MIN);
        let ended = match oldest {
            Some(_) if is_much => None,
            Some(height) => self.store.end_oldest_leases(limit.min(height)),
            None => self.store.end_oldest_leases(limit),
        };
        let Some(height) = ended.or(oldest) else { return false };
        forget(&mut inner, height);
        if ended.is_none() {
            self.store.release(height);
        }
        inner.given_up += 1;
        true
    }

    /// Retains a block under a name: one that can still be read, by all or by `reader` alone; the
    /// reader's or else the newest, if none is given. The name is durable when it returns.
    pub fn pin(
        &self,
        name: &str,
        owner: &str,
        block: Option<Height>,
        reader: Option<(&Snapshot, Head)>,
    ) -> Result<Known> {
        let mut pins = lock(&self.pins);
        let known = self.take_name(name, owner, block, reader)?;
        let Some(folder) = &mut *pins else { return Ok(known) };
        let kept = folder.keep(known.head, owner, name);
        let mut inner = self.inner();
        match (kept, inner.names.get_mut(name)) {
            (Ok(file), Some(pin)) => pin.file = Some(file),
            (Ok(_), None) => {}
            (Err(error), _) => {
                inner.names.remove(name);
                self.release_unused(&mut inner, known.head.height);
                return Err(error);
            }
        }
        Ok(known)
    }

    fn take_name(
        &self,
        name: &str,
        owner: &str,
        block: Option<Height>,
        reader: Option<(&Snapshot, Head)>,
    ) -> Result<Known> {
        let mut inner = self.inner();
        if let Some(pin) = inner.names.get(name) {
            let height = pin.block.head.height;
            let what = format!("the name \"{name}\" is taken: it pins block {height}");
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, what)
                .with_hint("Choose another name, or give this one up: SELECT tally_unpin(name)."));
        }
        if inner.names.len() >= NAMES_MAX {
            let what = format!("{NAMES_MAX} blocks are pinned by name, which is the most");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
                .with_hint("Unpin some: SELECT tally_unpin(name)."));
        }
        if inner.names.values().filter(|pin| pin.owner == owner).count() >= NAMES_OF_ONE_MAX {
            let what =
                format!("\"{owner}\" has pinned {NAMES_OF_ONE_MAX} blocks, the most for one");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
                .with_hint("Unpin some: SELECT tally_unpin(name)."));
        }
        let own = reader.map(|(_, head)| head.height);
        let height = match block.or(own) {
            Some(height) => height,
            None => self.newest_safe(&inner, inner.newest.height),
        };
        if !inner.states.is_safe(height) {
            return Err(reordered(height));
        }
        let by_reader = reader.filter(|(snapshot, head)| {
            head.height == height && self.store.retain_snapshot(snapshot)
        });
        if let Some((_, head)) = by_reader {
            let known = inner.known(height).unwrap_or(Known { head, next_time_us: None });
            inner.retained.insert(height, known);
        } else if !self.retain(&mut inner, height) {
            return Err(self.unreadable(&inner, height));
        }
        let block = inner.retained[&height];
        let (name, owner) = (name.to_owned(), owner.to_owned());
        let pin = NamedPin { name: name.clone(), owner, block, lost: None, file: None };
        inner.names.insert(name, pin);
        Ok(block)
    }

    /// Whether there was such a name. `owner`: whose it has to be; `None`: of any owner.
    pub fn unpin(&self, name: &str, owner: Option<&str>) -> Result<bool> {
        let pins = lock(&self.pins);
        let Some(pin) = self.inner().names.get(name).cloned() else { return Ok(false) };
        if owner.is_some_and(|owner| owner != pin.owner) {
            let what = format!("must be owner of the pin \"{name}\"");
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what)
                .with_detail(format!("It is \"{}\"'s.", pin.owner)));
        }
        if let (Some(folder), Some(file)) = (&*pins, pin.file) {
            folder.forget(file)?;
        }
        let mut inner = self.inner();
        inner.names.remove(name);
        self.release_unused(&mut inner, pin.block.head.height);
        Ok(true)
    }

    /// By name.
    pub fn named(&self) -> Vec<NamedPin> {
        let inner = self.inner();
        let shown = |pin: &NamedPin| {
            let block = inner.known(pin.block.head.height).unwrap_or(pin.block);
            NamedPin { block, ..pin.clone() }
        };
        inner.names.values().map(shown).collect()
    }

    /// Ascending.
    pub fn retained(&self) -> Vec<Known> {
        self.inner().retained.values().copied().collect()
    }

    /// A block's hash and time, if it is retained or recent.
    pub fn head_of(&self, height: Height) -> Option<Head> {
        self.inner().known(height).map(|known| known.head)
    }

    /// The state at a block, as a lease.
    pub fn snapshot_at(&self, height: Height) -> Result<Snapshot> {
        if self.overlaps.load(Ordering::SeqCst) {
            let mut inner = self.inner();
            while inner.states.is_in_doubt(height) {
                inner = self.wait(inner)?;
            }
        }
        if !self.inner().states.is_safe(height) {
            return Err(reordered(height));
        }
        self.store.lease_at(height).ok_or_else(|| self.unreadable(&self.inner(), height))
    }

    /// The newest safe height of those whose times are known, up to one of them.
    fn newest_safe(&self, inner: &Inner, height: Height) -> Height {
        let first = inner.recent.front().map_or(height, |head| head.height);
        (first..=height).rev().find(|height| inner.states.is_safe(*height)).unwrap_or(height)
    }

    /// The newest block at or before a time.
    pub fn block_at(&self, time_us: i64) -> Result<Height> {
        let inner = self.inner();
        if time_us >= inner.newest.time_us {
            return Ok(self.newest_safe(&inner, inner.newest.height));
        }
        let recent = inner.recent.partition_point(|head| head.time_us <= time_us);
        if let Some(found) = recent.checked_sub(1).and_then(|place| inner.recent.get(place)) {
            return Ok(self.newest_safe(&inner, found.height));
        }
        let is_it = |known: &&Known| {
            known.head.time_us <= time_us && known.next_time_us.is_some_and(|next| time_us < next)
        };
        // Of blocks with one time the last is the newest before the time.
        if let Some(known) = inner.retained.values().rev().find(is_it) {
            return Ok(known.head.height);
        }
        let time = time_text(time_us);
        let error = no_longer_readable(format!("the block at {time} can no longer be read"));
        let below = inner.retained.values().rev().find(|known| known.head.time_us <= time_us);
        let above = inner.retained.values().find(|known| known.head.time_us > time_us);
        Err(self.near(&inner, error, below, above))
    }

    fn unreadable(&self, inner: &Inner, height: Height) -> Error {
        let newest = inner.newest;
        if height > newest.height {
            let what = format!("block {height} is not there yet");
            return Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
                .with_detail(format!("The newest block is {}.", newest.height));
        }
        let error = no_longer_readable(format!("block {height} can no longer be read"));
        let below = inner.retained.range(..height).next_back().map(|(_, known)| known);
        let above = inner.retained.range(height..).next().map(|(_, known)| known);
        let error = self.near(inner, error, below, above);
        let named = inner.names.values().filter(|pin| pin.block.head.height == height);
        match named.filter_map(|pin| Some((&pin.name, pin.lost?))).next() {
            Some((name, Lost::Memory)) => error.with_hint(format!(
                "It was pinned as \"{name}\" and given up, since undo memory had passed \
                 undo_bytes_max."
            )),
            Some((name, Lost::Restart)) => error.with_hint(format!(
                "It was pinned as \"{name}\", but the node has been started since, from a \
                 checkpoint of a later block. `tally restore --to-block {height}` makes a ledger \
                 that ends there."
            )),
            None => error,
        }
    }

    fn near(
        &self,
        inner: &Inner,
        error: Error,
        below: Option<&Known>,
        above: Option<&Known>,
    ) -> Error {
        let say =
            |known: &Known| format!("{} ({})", known.head.height, time_text(known.head.time_us));
        let near: Vec<String> = below.into_iter().chain(above).map(say).collect();
        let newest = inner.newest.height;
        let detail = match (inner.retained.values().next(), &near[..]) {
            (Some(oldest), [_, ..]) => format!(
                "The oldest retained block is {}; near the one asked for: {}. The newest is \
                 {newest}.",
                say(oldest),
                near.join(" and ")
            ),
            _ => format!("No block is retained. The newest is {newest}."),
        };
        error.with_detail(detail).with_hint(
            "Which blocks stay readable is set by snapshot_retention; SELECT tally_pin('name') \
             keeps one.",
        )
    }
}

/// A height that is not retained any more, by whatever retained it.
fn forget(inner: &mut Inner, height: Height) {
    inner.retained.remove(&height);
    inner.by_rule.iter_mut().for_each(|heights| heights.retain(|at| *at != height));
    for pin in inner.names.values_mut().filter(|pin| pin.block.head.height == height) {
        pin.lost.get_or_insert(Lost::Memory);
    }
}

fn reordered(height: Height) -> Error {
    let what = format!("block {height} is no state between transactions");
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
        .with_detail(format!("Transactions of block {} precede some of it.", height + 1))
        .with_hint("Read the block before it, or behind it.")
}

fn time_text(time_us: i64) -> String {
    let mut text = Vec::new();
    types::datetime::write_timestamptz(time_us, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn no_longer_readable(what: String) -> Error {
    Error::new(SqlState::SNAPSHOT_TOO_OLD, what)
}

#[cfg(test)]
mod tests;
