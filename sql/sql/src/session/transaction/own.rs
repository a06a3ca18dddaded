//! Temporary tables within a transaction: changes of their schema and rows, undone by ROLLBACK like
//! any others, but never sent to the ledger.

use std::sync::Arc;

use concurrency::Work;
use identity::Actor;
use procedure::ProgramResult;
use sqlparser::ast::{Ident, ObjectName, OnCommit};
use storage::Store;
use types::{Error, Result, TableId};

use super::OpenTransaction;
use crate::ddl::StoreChange;
use crate::schema::catalog::Catalog;
use crate::session::changes::apply_all;
use crate::session::guard::{aside, error_of};
use crate::session::temporaries::{Kept, Leaving, check_bytes};
use crate::syntax::ddl::Ddl;
use crate::syntax::names::{bare, schema_of};

impl OpenTransaction {
    /// Runs a change of what is the session's own.
    pub(in crate::session) fn change_temporary(
        &mut self,
        (actor, ddl): (Actor, &Ddl),
        schema: Arc<str>,
        store: &Store,
        bytes_max: u64,
    ) -> Result<()> {
        let below = &self.versioned.catalog;
        let before = match &self.temporary.objects {
            Some(objects) => below.with_temporary_of(objects),
            None => below.with_room(schema, self.temporary.next),
        };
        let (after, changes, validations) = before.apply_as(actor, ddl)?;
        after.check_temporary_change(&before)?;
        if let Some(table) = changes.iter().map(StoreChange::table).find(|id| !id.is_temporary()) {
            let name = before.table_by_id(table).map_or("", |table| table.name());
            return Err(Error::unsupported(format_args!(
                "a change of temporary objects together with the table \"{name}\""
            ))
            .with_hint("Change what is temporary by a statement of its own."));
        }
        let bytes = after.temporary_bytes();
        check_bytes(bytes, before.temporary_bytes(), bytes_max)?;
        self.objects_lease.cover(bytes)?;
        let next = after.next_temporary();
        self.queried = true;
        let only_reads = self.only_reads();
        (self.overlay.recorder.enabled, self.overlay.recorder.off) = (!only_reads, only_reads);
        let (overlay, frame) = (&mut self.overlay, &mut self.frame);
        let made =
            aside(false, || apply_all(&changes, &validations, (overlay, store), Some(frame)));
        (self.overlay.recorder.enabled, self.overlay.recorder.off) = (false, false);
        self.check()?;
        made.map_err(error_of)?;
        (self.temporary.objects, self.temporary.next) = (Some(Arc::new(after)), next);
        Ok(())
    }

    /// `None`: it has changed nothing of the session's.
    pub(in crate::session) fn take_temporary(&mut self, found: &Kept) -> Result<Option<Leaving>> {
        let objects = self.temporary.objects.take();
        let same_objects = match (&objects, &found.objects) {
            (None, None) => true,
            (Some(own), Some(found)) => Arc::ptr_eq(own, found),
            _ => false,
        };
        let mut writes = self.overlay.take_temporary_writes();
        if same_objects && writes.is_empty() {
            return Ok(None);
        }
        let mut objects = objects;
        let mut tables = self.overlay.catalog().only(TableId::is_temporary);
        let next = self.temporary.next;
        if let Some(own) = &objects {
            let ends = own.temporary().map(|own| own.on_commit.clone()).unwrap_or_default();
            let ends: Vec<_> =
                ends.into_iter().filter(|(id, _)| own.table_by_id(*id).is_some()).collect();
            for (id, end) in ends {
                match end {
                    OnCommit::PreserveRows => {}
                    // It has none but those of this transaction.
                    OnCommit::DeleteRows => writes.retain(|write| write.table != id),
                    OnCommit::Drop => {
                        let Some(own) = &objects else { break };
                        objects = Some(Arc::new(own.without_temporary(id)?));
                    }
                }
            }
        }
        if let Some(own) = &objects {
            let is_there =
                |id: TableId| own.table_by_id(id).is_some() || own.sequence_by_id(id).is_some();
            tables = tables.only(is_there);
            writes.retain(|write| is_there(write.table));
        }
        let objects = objects.filter(|own| own.has_temporary());
        let tables = objects.as_ref().map(|_| Arc::new(tables));
        let newest = found.row_ids.0.max(self.overlay.moment().height);
        let row_ids = (newest, self.overlay.row_ids());
        let (kept, now_us) = (Kept { objects, tables, next, row_ids }, self.now_us());
        Ok(Some(Leaving { kept, writes, now_us }))
    }

    /// Runs a statement that writes to the session's tables. What it reads of the ledger is
    /// required at COMMIT as what a query reads: it does not run again.
    pub(in crate::session) fn write_temporary(&mut self, work: &Work) -> Result<ProgramResult> {
        self.query_by(work, true).0
    }
}

impl Catalog {
    /// Without one of a session's tables, and what depends on it.
    fn without_temporary(&self, id: TableId) -> Result<Catalog> {
        let Some(table) = self.table_by_id(id) else { return Ok(self.clone()) };
        let mut catalog = self.clone();
        let (names, if_exists, cascade) = (vec![object_of(table.key())], true, true);
        let ddl = Ddl::DropTables { names, if_exists, cascade };
        catalog = catalog.apply(&ddl)?.0;
        Ok(catalog)
    }
}

/// A key as a name in a tree.
fn object_of(key: &str) -> ObjectName {
    let schema = schema_of(key);
    let parts = [schema, bare(key)].map(|part| Ident::with_quote('"', part));
    ObjectName::from(parts.to_vec())
}
