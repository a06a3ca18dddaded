//! The temporary objects and rows that a session keeps from one transaction to the next, and the
//! memory that they may take. [`temporary`](super::temporary) says how statements use them.

use std::sync::Arc;

use concurrency::install::Installer;
use concurrency::{PendingWrite, WriteState};
use kit::pool::Lease;
use parking_lot::Mutex;
use storage::{Catalog as Tables, Store};
use types::{Error, Height, Result, SqlState, Stamp, TableId, Value};

use super::guard::{Guard, SHORT_TEXT_BYTES, aside, error_of};
use super::versioned::Versioned;
use crate::schema::catalog::Catalog;
use crate::settings::TEMPORARY_MEMORY;

/// What a session keeps from one transaction to the next.
pub(super) struct Temporaries {
    /// Where rows are, as soon as there is a table.
    store: Option<Arc<Store>>,
    pub kept: Kept,
    /// Of the transaction whose COMMIT is on its way.
    pub leaving: Option<Leaving>,
    /// Covers them.
    lease: Lease,
    /// The catalog that was laid together last, and of what.
    laid: Mutex<Option<Laid>>,
}

/// As a transaction finds it, and leaves it.
#[derive(Clone)]
pub struct Kept {
    /// `None`: there is no object.
    pub objects: Option<Arc<Catalog>>,
    pub tables: Option<Arc<Tables>>,
    /// The number of the next table: none is given twice.
    pub next: TableId,
    /// The highest block that a transaction came after, and how many hidden row ids were given.
    pub row_ids: (Height, u32),
}

impl Kept {
    /// Hidden row ids that a transaction of a height counts on from. No two rows get the same: the
    /// count begins anew where all heights before were lower, before it comes to its end.
    pub fn row_ids_given(&self, height: Height) -> u32 {
        let (newest, given) = self.row_ids;
        if given > u32::MAX / 2 && height > newest { 0 } else { given }
    }
}

struct Laid {
    below: Arc<Versioned>,
    objects: Arc<Catalog>,
    whole: Arc<Versioned>,
}

/// What a transaction leaves behind when it commits.
pub struct Leaving {
    pub kept: Kept,
    pub writes: Vec<PendingWrite>,
    pub now_us: i64,
}

impl Temporaries {
    pub fn new(guard: &Guard) -> Temporaries {
        let kept =
            Kept { objects: None, tables: None, next: TableId::FIRST_TEMPORARY, row_ids: (0, 0) };
        Temporaries {
            store: None,
            kept,
            leaving: None,
            lease: guard.lease(),
            laid: Mutex::default(),
        }
    }

    pub fn store(&mut self) -> Arc<Store> {
        Arc::clone(self.store.get_or_insert_default())
    }

    /// What rows and objects take.
    fn bytes(&self) -> u64 {
        let rows = self.store.as_ref().map_or(0, |store| store.current_bytes());
        rows + objects_bytes(self.kept.objects.as_ref())
    }

    /// All of it is gone; numbers that were given are not given again.
    pub fn forget(&mut self) {
        self.store = None;
        (self.kept.objects, self.kept.tables) = (None, None);
        self.lease.shrink(0);
        *self.laid.lock() = None;
    }

    /// A schema of the ledger with these objects over it.
    pub fn over(&self, below: Arc<Versioned>, objects: Option<&Arc<Catalog>>) -> Arc<Versioned> {
        let Some(objects) = objects else { return below };
        let mut laid = self.laid.lock();
        if let Some(laid) = &*laid
            && Arc::ptr_eq(&laid.below, &below)
            && Arc::ptr_eq(&laid.objects, objects)
        {
            return Arc::clone(&laid.whole);
        }
        let whole = Arc::new(below.with_temporary_of(objects));
        let (objects, made) = (Arc::clone(objects), Arc::clone(&whole));
        *laid = Some(Laid { below, objects, whole });
        made
    }

    /// # Errors
    /// 53200: the rows would take more than the session may have.
    pub fn check(&mut self, leaving: &Leaving, bytes_max: u64) -> Result<()> {
        let weight = |write: &PendingWrite| match &write.state {
            WriteState::Put(row) => row.iter().map(Value::weight).sum::<usize>() as u64,
            WriteState::Delete | WriteState::Commands(_) => 0,
        };
        let more: u64 = leaving.writes.iter().map(weight).sum();
        let made = bytes_beside(leaving.kept.tables.as_ref(), self.kept.tables.as_ref());
        let gone = bytes_beside(self.kept.tables.as_ref(), leaving.kept.tables.as_ref());
        let rows = self.store.as_ref().map_or(0, |store| store.current_bytes());
        let rows = (rows + more + made).saturating_sub(gone);
        let bytes = rows + objects_bytes(leaving.kept.objects.as_ref());
        check_bytes(bytes, self.bytes(), bytes_max)?;
        Ok(self.lease.cover(bytes)?)
    }

    pub fn install(&mut self, leaving: Leaving) -> Result<()> {
        let Leaving { kept, writes, now_us } = leaving;
        self.kept = kept;
        let Some(tables) = &self.kept.tables else {
            self.forget();
            return Ok(());
        };
        let (tables, store) = (Arc::clone(tables), self.store());
        store.install(Arc::clone(&tables));
        if !writes.is_empty() {
            let mut block = store.begin_block(0, 1);
            let mut installer = Installer::new(tables);
            let stamp = Stamp::new(0, 0);
            let installed = installer.install(&writes, now_us, stamp, block.arena(0));
            store.finish_unread(block);
            installed.map_err(error_of)?;
        }
        store.collect();
        let bytes = self.bytes();
        self.lease.cover_anyway(bytes);
        self.lease.shrink(bytes);
        Ok(())
    }
}

/// What tables take that another catalog does not have as they are.
fn bytes_beside(tables: Option<&Arc<Tables>>, other: Option<&Arc<Tables>>) -> u64 {
    let Some(tables) = tables else { return 0 };
    let is_new = |id: TableId| {
        let known = other.and_then(|other| other.table(id));
        !matches!((tables.table(id), known), (Some(own), Some(known)) if Arc::ptr_eq(own, known))
    };
    let side_effects = tables.only(is_new);
    if side_effects.tables().next().is_none() {
        return 0;
    }
    // A store counts what its tables take.
    let store = Store::default();
    store.install(Arc::new(side_effects));
    store.current_bytes()
}

fn objects_bytes(objects: Option<&Arc<Catalog>>) -> u64 {
    objects.map_or(0, |objects| objects.temporary_bytes())
}

/// # Errors
/// 53200: it is more than a session may have, and more than before.
pub(super) fn check_bytes(bytes: u64, before: u64, bytes_max: u64) -> Result<()> {
    match bytes <= bytes_max || bytes <= before {
        true => Ok(()),
        false => Err(Error::new(SqlState::OUT_OF_MEMORY, "too much data in temporary tables")
            .with_detail(format!(
                "By the setting {TEMPORARY_MEMORY} those of a session may take {bytes_max} \
                     bytes."
            ))
            .with_hint("Empty some with TRUNCATE, DROP them, or raise the setting.")),
    }
}

impl Drop for Temporaries {
    /// Rows are as many allocations as they are, to be given back one by one.
    fn drop(&mut self) {
        let (store, kept) = (std::mem::take(&mut self.store), self.kept.tables.take());
        aside(self.lease.bytes() < SHORT_TEXT_BYTES as u64, || drop((store, kept)));
    }
}
