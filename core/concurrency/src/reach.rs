//! Which rows the writing statements of an open transaction may write when COMMIT re-executes them.
//!
//! *Why.* A session's writing statements run twice: once to answer the client, and again at COMMIT
//! on a newer state. There they may write other rows: an UPDATE that matched nothing may match now.
//! If a later query of the transaction reads such a row, what the statements read has to be
//! validated as well ([`Footprint`](crate::footprint::Footprint)); else it need not be. So for each
//! row and range that a query reads it is asked whether COMMIT may write it.
//!
//! *How.* A superset of the rows follows from the program and its arguments alone, by the
//! [key plan](KeyPlan):
//!
//! ```text
//!   all keys follow from the arguments   these rows         UPDATE t … WHERE id = $1
//!   some key depends on data             the whole table    UPDATE t … WHERE id = (SELECT …)
//! ```
//!
//! *Cost.* A statement is only remembered; its key plan is computed when a later query reads
//! something, so never in a transaction that only writes.

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
