//! A column: values in place, who wrote them, what they were before, and its snapshots.
//!
//! ```text
//!   values   [ 5  0  2  0  7  1 ]    an area, written in place
//!   stamps   [ 3  0  3  0  4  2 ]    an area: the commit that wrote the value
//!   chains   versions, newest first (module `chains`)
//!   waiting  requests of queries for which the column is not frozen yet
//!   newest   the last frozen state, kept until there is a newer one
//! ```
//!
//! A frozen column holds both areas as they were **and the chains**: the current column goes on
//! with empty ones. They go when the last reader of that state does, unless it is the newest.

use std::sync::Arc as Counted;

use arc_swap::ArcSwap;
use kit::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use kit::sync::{Arc, Mutex};
use types::Result;

use crate::Timestamp;
use crate::area::{Area, Frozen, ZONE_ROWS};
use crate::chains::Chains;
use crate::lock::{InstallLock, lock};
use crate::mutant::{Mutant, Mutants};
use crate::snapshot::{Request, Waiting};

pub struct Column<A: Area> {
    pub(crate) values: A,
    pub(crate) stamps: A,
    pub(crate) chains: ArcSwap<Chains>,
    pub(crate) lock: InstallLock,
    has_waiting: AtomicBool,
    waiting: Mutex<Vec<Waiting<A>>>,
    newest: Mutex<Option<Arc<FrozenColumn<A>>>>,
    /// Something was installed since the newest frozen state.
    installed: AtomicBool,
    alive: Arc<AtomicUsize>,
    mutants: Mutants,
}

/// A column as it was, for readers only.
pub struct FrozenColumn<A: Area> {
    values: A::Frozen,
    stamps: A::Frozen,
    chains: Counted<Chains>,
    alive: Arc<AtomicUsize>,
}

impl<A: Area> Column<A> {
    pub(crate) fn new(rows: usize, mutants: Mutants) -> Result<Self> {
        Ok(Column {
            values: A::new(rows)?,
            stamps: A::new(rows)?,
            chains: ArcSwap::from_pointee(Chains::new(rows)),
            lock: InstallLock::default(),
            has_waiting: AtomicBool::new(false),
            waiting: Mutex::new(Vec::new()),
            newest: Mutex::new(None),
            installed: AtomicBool::new(false),
            alive: Arc::new(AtomicUsize::new(0)),
            mutants,
        })
    }

    pub fn rows(&self) -> usize {
        self.values.rows()
    }

    /// Frozen states that can still be read, the newest included.
    pub fn frozen_alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }

    /// Versions in the chains of the current state.
    pub fn versions(&self) -> usize {
        self.chains.load().versions()
    }

    /// A value and the commit that wrote it. The value first: a commit stamps a row before it
    /// changes it, so a stamp that is read later is never too old for the value.
    pub fn read(&self, row: usize) -> (i64, Timestamp) {
        let value = self.values.load(row);
        (value, self.stamps.load(row))
    }

    /// One write of a commit; under a shared lock, or where there is neither a freezer nor another
    /// writer.
    pub fn install(&self, row: usize, value: i64, timestamp: Timestamp) {
        let (old_value, old_timestamp) = self.read(row);
        if self.mutants.has(Mutant::StampsAfterTheValue) {
            self.values.store(row, value);
            self.chains.load().push(row, old_value, old_timestamp);
            self.stamps.store(row, timestamp);
        } else {
            self.chains.load().push(row, old_value, old_timestamp);
            self.stamps.store(row, timestamp);
            self.values.store(row, value);
        }
        self.installed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_waiting(&self) -> bool {
        self.has_waiting.load(Ordering::Acquire)
    }

    /// Called where commits are ordered, so that no commit is between its order and this.
    pub(crate) fn wait_for_freeze(&self, request: Waiting<A>) {
        let mut waiting = lock(&self.waiting);
        waiting.retain(|(request, _)| request.strong_count() > 0);
        waiting.push(request);
        self.has_waiting.store(true, Ordering::Release);
    }

    /// Freezes the column for every request that waits for it. What cannot be frozen is an error
    /// of those who asked, not of the commit that happens to come by.
    pub(crate) fn materialise(&self) {
        let _exclusive = self.lock.exclusive();
        let waiting = self.take_waiting();
        let waiting: Vec<(Arc<Request<A>>, usize)> = waiting
            .into_iter()
            .filter_map(|(request, at)| Some((request.upgrade()?, at)))
            .collect();
        if waiting.is_empty() {
            return;
        }
        let frozen = self.freeze();
        for (request, at) in waiting {
            request.fill(at, frozen.clone());
        }
    }

    /// List and flag together: a request may come at any time, and its flag must stay.
    fn take_waiting(&self) -> Vec<Waiting<A>> {
        let mut waiting = lock(&self.waiting);
        let taken = std::mem::take(&mut *waiting);
        if self.mutants.has(Mutant::LosesTheFlagOfANewRequest) {
            drop(waiting);
        }
        self.has_waiting.store(false, Ordering::Release);
        taken
    }

    /// Under the exclusive lock. A column in which nothing was installed is frozen already.
    fn freeze(&self) -> Result<Arc<FrozenColumn<A>>> {
        let mut newest = lock(&self.newest);
        let is_stale = self.installed.load(Ordering::Relaxed);
        if let Some(frozen) = &*newest
            && (!is_stale || self.mutants.has(Mutant::SharesStaleSnapshots))
        {
            return Ok(frozen.clone());
        }
        let (values, stamps) = (self.values.freeze()?, self.stamps.freeze()?);
        let mut chains = self.chains.swap(Counted::new(Chains::new(self.rows())));
        if self.mutants.has(Mutant::DropsChains) {
            chains = Counted::new(Chains::new(self.rows()));
        }
        self.installed.store(false, Ordering::Relaxed);
        self.alive.fetch_add(1, Ordering::SeqCst);
        let alive = self.alive.clone();
        let frozen = Arc::new(FrozenColumn { values, stamps, chains, alive });
        *newest = Some(frozen.clone());
        Ok(frozen)
    }
}

impl<A: Area> FrozenColumn<A> {
    pub fn values(&self) -> &A::Frozen {
        &self.values
    }

    /// The row as of an older commit, not older than the frozen state before this one: what the
    /// chains were handed over for.
    pub fn read_at(&self, row: usize, at: Timestamp) -> Option<i64> {
        let (zone, place) = (row / ZONE_ROWS, row % ZONE_ROWS);
        match self.stamps.zone(zone)[place] <= at {
            true => Some(self.values.zone(zone)[place]),
            false => self.chains.read(row, at),
        }
    }
}

impl<A: Area> Drop for FrozenColumn<A> {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}
