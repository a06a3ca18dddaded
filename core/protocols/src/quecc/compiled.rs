//! A procedure's fragment plan, compiled once and cached for all blocks that call the procedure.

use std::sync::Arc;

use procedure::Query;
use procedure::analysis::{Abortable, Analysis, Footprint, KeyPlan, visit};
use procedure::step::{Procedure, Step};
use types::TableId;

use super::cutter::Cutter;
use super::modes::Modes;
use super::program::Program;

/// What is kept of a procedure from block to block.
pub struct Compiled {
    /// Keeps the address taken by which it is found.
    pub procedure: Arc<Procedure>,
    pub keys: KeyPlan,
    pub written: Box<[TableId]>,
    /// Tables of whose keys it knows no more, at some step, than the first column.
    pub by_lead: Box<[TableId]>,
    pub footprint: Footprint,
    pub is_read_only: bool,
    pub program: Option<Program>,
}

impl Compiled {
    /// Its calls run in one piece, but for those that give some loop no turns.
    pub fn is_whole(&self, modes: Modes) -> bool {
        if modes.snapshot_reads && self.is_read_only {
            return false;
        }
        let program = self.program.as_ref().filter(|program| modes.may_cut(program));
        program.is_none_or(|program| program.parts.iter().any(|part| part.must_be_empty))
    }

    /// A program that looks at rows while it is planned.
    pub fn steady_program(&self) -> Option<&Program> {
        self.program.as_ref().filter(|program| program.is_steady())
    }

    /// A call that is cut may be rolled back behind some of its fragments.
    pub fn may_be_undone(&self) -> bool {
        self.program.as_ref().is_some_and(|program| program.abortable != Abortable::Never)
    }

    pub fn of(procedure: &Arc<Procedure>) -> Compiled {
        let analysis = Analysis::of(procedure);
        let tables = analysis.footprint.tables.iter();
        let written = tables.filter(|(_, table)| table.is_written()).map(|(id, _)| *id);
        Compiled {
            by_lead: by_lead(procedure, &analysis.keys),
            written: written.collect(),
            is_read_only: analysis.footprint.is_read_only(),
            program: Cutter::new(procedure, &analysis.footprint).program(&analysis),
            keys: analysis.keys,
            footprint: analysis.footprint,
            procedure: Arc::clone(procedure),
        }
    }
}

fn by_lead(procedure: &Procedure, keys: &KeyPlan) -> Box<[TableId]> {
    let mut tables = Vec::new();
    for (id, step) in (0..).zip(visit::numbered(&procedure.body)) {
        if keys.unplanned.contains(&id) {
            tables.extend(visit::row_access(step).map(|(table, _)| table));
        }
        if let Step::Fetch { query, .. } | Step::EmitQuery { query } | Step::ForRows { query, .. } =
            step
        {
            visit::each_query(query, &mut |query| match query {
                Query::Get { table, .. } | Query::Scan { table, .. } => tables.push(*table),
                _ => {}
            });
        }
    }
    tables.sort_unstable();
    tables.dedup();
    tables.into()
}
