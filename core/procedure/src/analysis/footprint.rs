//! Which tables and columns a procedure may touch, and how.

use std::collections::{BTreeMap, BTreeSet};

use types::{ColumnId, IndexId, TableId};

use super::commands::CommandFacts;
use super::visit;
use crate::query::Query;
use crate::step::{Block, Step};

/// What may happen to one table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableFootprint {
    /// Columns whose values the program sees.
    pub reads: BTreeSet<ColumnId>,
    /// Columns that commands change.
    pub writes: BTreeSet<ColumnId>,
    /// Columns that commands look at on their own.
    pub command_reads: BTreeSet<ColumnId>,
    /// A step asks whether a row is there, and no more (`update`, `insert`, `delete` ask too).
    pub existence: bool,
    pub inserts: bool,
    pub deletes: bool,
    /// Indexes of which ranges are scanned; 0 is the primary key.
    pub scans: BTreeSet<IndexId>,
}

impl TableFootprint {
    pub fn is_written(&self) -> bool {
        self.inserts || self.deletes || !self.writes.is_empty()
    }
}

/// By table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Footprint {
    pub tables: BTreeMap<TableId, TableFootprint>,
}

impl Footprint {
    pub(super) fn of(steps: &[&Step]) -> Self {
        let mut footprint = Footprint::default();
        steps.iter().for_each(|step| footprint.add(step));
        footprint
    }

    pub fn of_block(block: &Block) -> Self {
        Footprint::of(&visit::numbered(block))
    }

    pub fn is_read_only(&self) -> bool {
        !self.tables.values().any(TableFootprint::is_written)
    }

    fn table(&mut self, table: TableId) -> &mut TableFootprint {
        self.tables.entry(table).or_default()
    }

    fn add(&mut self, step: &Step) {
        match step {
            Step::Read { table, columns, .. } => {
                self.table(*table).reads.extend(columns);
            }
            Step::Exists { table, .. } => self.table(*table).existence = true,
            Step::Update { table, code, .. } => {
                let facts = CommandFacts::of(code);
                let table = self.table(*table);
                table.existence = true;
                table.writes.extend(facts.assignments.iter().map(|(column, _)| *column));
                table.command_reads.extend(facts.reads.iter().chain(&facts.checked));
            }
            Step::Insert { table, .. } => {
                let table = self.table(*table);
                table.existence = true;
                table.inserts = true;
            }
            Step::Delete { table, .. } => {
                let table = self.table(*table);
                table.existence = true;
                table.deletes = true;
            }
            Step::Fetch { query, .. } | Step::EmitQuery { query } | Step::ForRows { query, .. } => {
                visit::each_query(query, &mut |q| self.add_query(q))
            }
            _ => {}
        }
    }

    fn add_query(&mut self, query: &Query) {
        match query {
            Query::Get { table, columns, .. } => self.table(*table).reads.extend(columns),
            Query::Scan { table, index, columns, .. } => {
                let table = self.table(*table);
                table.reads.extend(columns);
                table.scans.insert(*index);
            }
            _ => {}
        }
    }
}
