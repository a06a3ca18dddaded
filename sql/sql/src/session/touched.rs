//! What a transaction touches that may have an approval policy.
//!
//! Told by its program and not by its run: a table counts as touched if any way through the program
//! writes to it. What is only read needs no approval.

use std::collections::BTreeSet;

use concurrency::{Interactive, Load, Statement, Work};
use engine::Body;
use identity::Agreed;
use procedure::analysis::visit::numbered;
use procedure::{Procedure, Step};
use types::{Result, TableId};

use super::endorsed::Reach;
use crate::schema::catalog::{Catalog, Commented};

/// Beside the ledger, of which every transaction is one.
#[derive(Default, Debug)]
pub(super) struct Touched {
    /// Called by name, in the order of their names.
    routines: BTreeSet<String>,
    /// Written to.
    tables: BTreeSet<TableId>,
}

impl Touched {
    /// What a transaction names; the tables are known when it is compiled.
    pub fn by_name(body: &Body) -> Touched {
        let called = |body: &Body| match body {
            Body::Call(Statement { procedure, .. }) => Some(procedure.clone()),
            _ => None,
        };
        let routines = match body {
            Body::Interactive { transaction, .. } => {
                transaction.writes.iter().filter_map(|(write, _)| called(write)).collect()
            }
            body => called(body).into_iter().collect(),
        };
        Touched { routines, tables: BTreeSet::new() }
    }

    pub fn by_reach(&mut self, reach: &Reach) {
        self.tables.extend(reach.tables());
    }

    pub fn by_program(&mut self, work: &Work) {
        match work {
            Work::Statement(Statement { procedure, .. }) => self.by_procedure(procedure),
            Work::Load(load) => Load::procedures(load).for_each(|one| self.by_procedure(one)),
            Work::Interactive(Interactive { writes, .. }) => {
                writes.iter().for_each(|(write, _)| self.by_program(write));
            }
            Work::Void(_) => {}
        }
    }

    fn by_procedure(&mut self, procedure: &Procedure) {
        if procedure.read_only {
            return;
        }
        for step in numbered(&procedure.body) {
            if let Step::Insert { table, .. }
            | Step::Update { table, .. }
            | Step::Delete { table, .. } = step
            {
                self.tables.insert(*table);
            }
        }
    }

    /// Of several policies that are not met the ledger's is told first, then those of routines,
    /// then those of tables.
    ///
    /// # Errors
    /// 42T01: which one, and what is missing.
    pub fn check(&self, catalog: &Catalog, agreed: &Agreed<'_>) -> Result<()> {
        catalog.check_approved(self.objects(), agreed)
    }

    /// Whether there is nothing to be told.
    pub fn is_agreed(&self, catalog: &Catalog, agreed: &Agreed<'_>) -> bool {
        catalog.are_approved(self.objects(), agreed)
    }

    fn objects(&self) -> impl Iterator<Item = Commented> {
        let routines = self.routines.iter().cloned().map(Commented::Routine);
        let tables = self.tables.iter().copied().map(Commented::Table);
        [Commented::Database].into_iter().chain(routines).chain(tables)
    }
}
