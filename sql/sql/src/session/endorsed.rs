//! Endorsed transactions, as every replica validates them.
//!
//! *Idea.* What was simulated before it was ordered is not run again. The replica asks whether
//! those have endorsed it whose word counts, and makes a program of what it reads and writes:
//! *require these versions, then write these rows*. That is what the COMMIT of an interactive
//! transaction is too, so every protocol runs it beside anything else, and a serial replay comes
//! to the same.
//!
//! ```text
//!   proposal ──► compiled, not run ──► may the principal do this?   whose policies does it touch?
//!                                  └─► what it can change: tables, columns    ≥ the write set
//!   endorsements ──────────────────► nodes of whom the tables' policies name
//!   reads ─────────────────────────► required as they were, by version; ranges by their seal
//!   writes ────────────────────────► INSERT, UPDATE, DELETE of one row each, by its key
//! ```
//!
//! *What a wrong write set cannot do.* It is within what the program of the proposal could
//! change, which its principal may run; beyond that it is believed for the sake of its endorsers,
//! so a table that neither has a policy nor is in a ledger that has one takes none. Its rows are
//! written by statements, so that types, NOT NULL, CHECK, unique keys, foreign keys and their
//! actions are asked again, and indexes, effects, state tree and history follow as from any
//! other.
//!
//! *How it ends.* 42T01: too few have endorsed it. 42501: it writes what the proposal cannot.
//! 40001: a version, a range or the schema is another by now, or a row cannot be written any more.
//! Values that no row of the table may have end in the table's own error.
//!
//! *Departures from Fabric.* A row that is changed without being looked at has to be there,
//! whatever its version. Rows are written one by one in the order of their first change: a
//! transaction whose rows are only allowed together (two unique values that are swapped, a key that
//! others refer to and that changes) cannot be endorsed. A schema change since the simulation ends
//! it, whatever it touches.
//!
//! *Bounds.* The envelope's size; so many statements to compile ([`lowered`](super::lowered)); the
//! run is metered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use concurrency::{Interactive, Load, Statement, Work};
use engine::transaction::{RowChange, RowWrite};
use procedure::analysis::visit::numbered;
use procedure::{Procedure, Step};
use types::{ColumnId, Error, Result, SqlState, TableId};

use super::last_changes::schema_changed;
use crate::schema::catalog::{Catalog, Table};

/// What a program can change, whatever it meets.
#[derive(Default, Debug)]
pub(super) struct Reach(BTreeMap<TableId, Changes>);

#[derive(Default, Debug)]
struct Changes {
    inserts: bool,
    deletes: bool,
    columns: BTreeSet<ColumnId>,
}

impl Reach {
    /// Tables that it can write to.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        self.0.keys().copied()
    }

    pub fn of(work: &Work) -> Reach {
        let mut reach = Reach::default();
        reach.add_work(work);
        reach
    }

    fn add_work(&mut self, work: &Work) {
        match work {
            Work::Statement(Statement { procedure, .. }) => self.add(procedure),
            Work::Load(load) => Load::procedures(load).for_each(|one| self.add(one)),
            Work::Interactive(Interactive { writes, .. }) => {
                writes.iter().for_each(|(write, _)| self.add_work(write));
            }
            Work::Void(_) => {}
        }
    }

    fn add(&mut self, procedure: &Procedure) {
        for step in numbered(&procedure.body) {
            match step {
                Step::Insert { table, .. } => self.0.entry(*table).or_default().inserts = true,
                Step::Delete { table, .. } => self.0.entry(*table).or_default().deletes = true,
                Step::Update { table, code, .. } => {
                    let columns = code.assignments.iter().map(|(column, _)| *column);
                    self.0.entry(*table).or_default().columns.extend(columns);
                }
                _ => {}
            }
        }
    }

    fn has(&self, write: &RowWrite) -> bool {
        let Some(changes) = self.0.get(&write.table) else { return false };
        match &write.change {
            RowChange::Insert(_) => changes.inserts,
            RowChange::Delete { .. } => changes.deletes,
            RowChange::Update { columns, .. } => {
                // A row that was deleted and inserted again.
                changes.inserts && changes.deletes
                    || columns.iter().all(|(column, _)| changes.columns.contains(column))
            }
        }
    }

    /// # Errors
    /// 42501: a row is changed in a way in which the program changes none.
    pub fn check(&self, catalog: &Catalog, writes: &[RowWrite]) -> Result<()> {
        let Some(write) = writes.iter().find(|write| !self.has(write)) else { return Ok(()) };
        let name = table_of(catalog, write.table)?.name().to_owned();
        let what = format!("an endorsed transaction changes table \"{name}\" beyond its proposal");
        Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what)
            .with_detail("No way through the program that was proposed makes such a change.")
            .with_table(name))
    }
}

pub(super) fn table_of(catalog: &Catalog, table: TableId) -> Result<&Arc<Table>> {
    catalog.table_by_id(table).ok_or_else(schema_changed)
}
