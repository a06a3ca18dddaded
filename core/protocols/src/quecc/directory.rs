//! What planners must know of a whole block before they plan its transactions: the compiled
//! procedures, the tables that may be written, and to which queue each record goes.

use std::sync::Arc;

use concurrency::{Block, Work};
use procedure::analysis::{KeyPlan, TableFootprint};
use procedure::step::Procedure;
use rustc_hash::FxHashMap;
use storage::{Catalog, Table};
use types::key::decode_column;
use types::{ColumnId, DataType, TableId};

use super::compiled::Compiled;
use super::modes::Modes;
use super::mutant::Mutant;
use super::program::Steady;
use super::queues::route;

/// Of so many transactions one may have to run in one piece, or what may be rolled back is not cut
/// beside it. One in one piece then waits for as many queues as it has records, and keeps the
/// images of all that it writes; TPC-C's orders take a quarter longer so.
const WHOLES_EACH: usize = 32;

/// The procedures of a block.
#[derive(Default)]
pub struct Directory {
    pub compiled: Vec<Arc<Compiled>>,
    /// By position, for statements.
    pub of: Vec<u32>,
    /// Addresses are compared, never followed; `compiled` keeps them taken.
    by_address: FxHashMap<usize, u32>,
    /// By table: some transaction of the block may write it.
    written: Vec<bool>,
    /// Of those in `compiled`, whose calls run in one piece.
    is_whole: Vec<bool>,
    /// Of those, which do for no other reason than that cutting them costs more.
    is_held_back: Vec<bool>,
    /// Of those, which are called by loads and sessions.
    within_others: Vec<bool>,
    /// By table: of some access to it no more is known in advance than so many of the key's first
    /// columns, so that the routes of all are by those. 0: all are known.
    by_lead: Vec<u8>,
    /// Too many transactions run in one piece to cut what may be rolled back, and all routes are by
    /// the first column, which those in one piece share.
    pub is_crowded: bool,
}

impl Directory {
    pub fn new(
        block: &Block,
        modes: Modes,
        catalog: &Catalog,
        compile: &mut dyn FnMut(&Arc<Procedure>) -> Arc<Compiled>,
    ) -> Self {
        let mut directory = Directory::default();
        for work in &block.transactions {
            let id = directory.add(work, compile);
            directory.of.push(id);
        }
        let changes = Changes::of(&directory.compiled, modes);
        for compiled in &directory.compiled {
            let steady = compiled.steady_program();
            let is_whole = compiled.is_whole(modes)
                || steady.is_some_and(|program| !changes.leave(&program.steady, catalog));
            let is_held_back = !is_whole && steady.is_some() && !modes.always_cuts;
            directory.is_whole.push(is_whole || is_held_back);
            directory.is_held_back.push(is_held_back);
        }
        let mut by_lead = Vec::new();
        for (id, compiled) in directory.compiled.iter().enumerate() {
            let is_other = directory.is_whole[id] || directory.within_others[id];
            match compiled.steady_program().filter(|_| !is_other) {
                Some(program) => by_lead.extend(program.by_lead()),
                None => by_lead.extend(compiled.by_lead.iter().map(|table| (*table, 1))),
            }
        }
        for (table, columns) in by_lead {
            let known = place(&mut directory.by_lead, table);
            *known = if *known == 0 { columns } else { columns.min(*known) };
        }
        // Loads, and what sessions have run, are whole.
        let is_whole = |id: &&u32| directory.is_whole.get(**id as usize).copied().unwrap_or(true);
        let wholes = directory.of.iter().filter(is_whole).count();
        directory.is_crowded = !modes.always_cuts && wholes * WHOLES_EACH > directory.of.len();
        directory
    }

    fn add(
        &mut self,
        work: &Work,
        compile: &mut dyn FnMut(&Arc<Procedure>) -> Arc<Compiled>,
    ) -> u32 {
        match work {
            Work::Statement(statement) => self.enter(&statement.procedure, compile),
            Work::Load(load) => {
                for procedure in load.procedures() {
                    let id = self.enter(procedure, compile);
                    self.within_others[id as usize] = true;
                }
                u32::MAX
            }
            Work::Interactive(transaction) => {
                for (write, _) in &transaction.writes {
                    let id = self.add(write, compile);
                    if let Some(within) = self.within_others.get_mut(id as usize) {
                        *within = true;
                    }
                }
                u32::MAX
            }
            Work::Void(_) => u32::MAX,
        }
    }

    fn enter(
        &mut self,
        procedure: &Arc<Procedure>,
        compile: &mut dyn FnMut(&Arc<Procedure>) -> Arc<Compiled>,
    ) -> u32 {
        let address = Arc::as_ptr(procedure) as usize;
        if let Some(last) = self.of.last().filter(|last| **last != u32::MAX)
            && Arc::as_ptr(&self.compiled[*last as usize].procedure) as usize == address
        {
            return *last;
        }
        if let Some(known) = self.by_address.get(&address) {
            return *known;
        }
        let id = self.compiled.len() as u32;
        let compiled = compile(procedure);
        compiled.written.iter().for_each(|table| *place(&mut self.written, *table) = true);
        self.compiled.push(compiled);
        self.within_others.push(false);
        let before = self.by_address.insert(address, id);
        assert!(before.is_none(), "a procedure is entered once");
        id
    }

    pub fn is_written(&self, table: TableId) -> bool {
        self.written.get(table.0 as usize).copied().unwrap_or(false)
    }

    /// Where the record of a key is queued in this block. All of its accesses agree in that.
    #[inline]
    pub fn route_of(&self, table: &Table, key: &[u8]) -> Option<u32> {
        match self.columns_of(table) {
            0 => Some(route(key)),
            columns => Some(route(lead_of(table, columns, key)?)),
        }
    }

    /// How many columns of its keys say where its records are queued; 0: all.
    #[inline]
    pub fn columns_of(&self, table: &Table) -> usize {
        match self.is_crowded {
            true => 1,
            false => self.by_lead.get(table.id().0 as usize).copied().unwrap_or(0).into(),
        }
    }

    /// No call of it is cut.
    pub fn is_whole(&self, compiled: u32) -> bool {
        self.is_whole[compiled as usize]
    }

    /// A call could be cut.
    pub fn is_held_back(&self, compiled: u32) -> bool {
        self.is_held_back[compiled as usize]
    }

    pub fn keys_of(&self, procedure: &Arc<Procedure>) -> Option<&KeyPlan> {
        let id = self.by_address.get(&(Arc::as_ptr(procedure) as usize))?;
        Some(&self.compiled[*id as usize].keys)
    }
}

/// What the transactions of a block may change.
struct Changes<'c> {
    tables: FxHashMap<TableId, Vec<&'c TableFootprint>>,
    modes: Modes,
}

impl<'c> Changes<'c> {
    fn of(compiled: &'c [Arc<Compiled>], modes: Modes) -> Self {
        let mut tables: FxHashMap<TableId, Vec<&TableFootprint>> = FxHashMap::default();
        if compiled.iter().any(|compiled| compiled.steady_program().is_some()) {
            let footprints = compiled.iter().flat_map(|compiled| &compiled.footprint.tables);
            for (table, footprint) in footprints.filter(|(_, table)| table.is_written()) {
                tables.entry(*table).or_default().push(footprint);
            }
        }
        Changes { tables, modes }
    }

    /// Whether what is read while planning stays as it is for the whole of the block. Where the
    /// block before may still be running, nothing is known to.
    fn leave(&self, steady: &[Steady], catalog: &Catalog) -> bool {
        if self.modes.mutant == Some(Mutant::UnsteadyReads) {
            return true;
        }
        !self.modes.pipelined && steady.iter().all(|steady| self.leave_one(steady, catalog))
    }

    fn leave_one(&self, steady: &Steady, catalog: &Catalog) -> bool {
        let Some(changes) = self.tables.get(&steady.table) else { return true };
        let Some(table) = catalog.table(steady.table) else { return false };
        let index = steady.index.and_then(|index| usize::from(index).checked_sub(1));
        let indexed: &[ColumnId] = match index.map(|index| table.schema().indexes.get(index)) {
            Some(Some(index)) => &index.columns,
            Some(None) => return false,
            None => &[],
        };
        changes.iter().all(|changes| {
            let mut columns = steady.columns.iter().chain(indexed);
            let is_row = changes.inserts || changes.deletes;
            !is_row && !columns.any(|column| changes.writes.contains(column))
        })
    }
}

fn place<T: Default>(tables: &mut Vec<T>, table: TableId) -> &mut T {
    let place = table.0 as usize;
    tables.resize_with(tables.len().max(place + 1), T::default);
    &mut tables[place]
}

/// A key's first columns.
fn lead_of<'k>(table: &Table, columns: usize, key: &'k [u8]) -> Option<&'k [u8]> {
    let schema = table.schema();
    if columns >= schema.primary_key.len() {
        return Some(key);
    }
    let mut rest = key;
    for column in &schema.primary_key[..columns] {
        match &schema.columns[usize::from(*column)].data_type {
            DataType::Int2 | DataType::Int4 | DataType::Int8 => rest = rest.get(8..)?,
            other => {
                decode_column(other, false, &mut rest).ok()?;
            }
        }
    }
    key.get(..key.len() - rest.len())
}
