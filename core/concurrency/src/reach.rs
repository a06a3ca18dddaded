//! What the writing statements of a session may write when they run again.
//!
//! COMMIT runs them on a newer state, where they may come to other rows: an UPDATE that found none
//! may find one, a key that was read may be another one. A superset of all rows that they can come
//! to follows from the program and its arguments alone, by the [key plan](KeyPlan):
//!
//! ```text
//!   keys follow from the arguments     those rows      UPDATE t … WHERE id = $1
//!   some key needs data                whole tables    UPDATE t … WHERE id = (SELECT …)
//! ```
//!
//! *Cost.* A statement is only noted; it is planned when something is read behind it.

use std::collections::BTreeSet;
use std::sync::Arc;

use procedure::analysis::{AccessMode, Footprint, KeyPlan};
use procedure::step::Procedure;
use types::{Key, TableId, Value};

use crate::work::Work;

#[derive(Clone, Debug, Default)]
pub struct Reach {
    unplanned: Vec<(Arc<Procedure>, Box<[Value]>)>,
    rows: BTreeSet<(TableId, Key)>,
    tables: BTreeSet<TableId>,
}

impl Reach {
    pub fn add(&mut self, work: &Work) {
        match work {
            Work::Statement(call) => {
                self.unplanned.push((Arc::clone(&call.procedure), call.arguments.clone()));
            }
            // It may hold many rows, and its table is the most that a query can look at.
            Work::Load(load) => load.procedures().for_each(|program| self.add_tables(program)),
            Work::Interactive(transaction) => {
                transaction.writes.iter().for_each(|(write, _)| self.add(write));
            }
            Work::Void(_) => {}
        }
    }

    pub fn clear(&mut self) {
        self.unplanned.clear();
        self.rows.clear();
        self.tables.clear();
    }

    pub fn has_row(&mut self, table: TableId, key: &Key) -> bool {
        self.plan();
        self.tables.contains(&table)
            || !self.rows.is_empty() && self.rows.contains(&(table, key.clone()))
    }

    pub fn has_row_of(&mut self, table: TableId) -> bool {
        self.plan();
        let mut from = self.rows.range((table, Key::default())..);
        self.tables.contains(&table) || from.next().is_some_and(|(of, _)| *of == table)
    }

    fn plan(&mut self) {
        for (procedure, arguments) in std::mem::take(&mut self.unplanned) {
            let plan = KeyPlan::of(&procedure);
            let planned = plan.is_complete().then(|| plan.keys(&arguments).ok()).flatten();
            let Some(planned) = planned else {
                self.add_tables(&procedure);
                continue;
            };
            let written = planned.into_iter().filter(|key| key.mode == AccessMode::Write);
            self.rows.extend(written.map(|key| (key.table, key.key)));
            self.tables.extend(&plan.appends);
        }
    }

    fn add_tables(&mut self, procedure: &Procedure) {
        let tables = Footprint::of_block(&procedure.body).tables.into_iter();
        self.tables.extend(tables.filter(|(_, t)| t.is_written()).map(|(table, _)| table));
    }
}
