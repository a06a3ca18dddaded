//! What planners must know of a whole block before they plan its transactions: the compiled
//! procedures, the tables that may be written, and to which queue each record goes.

use std::sync::Arc;

use concurrency::{Block, Work};
use procedure::analysis::KeyPlan;
use procedure::step::Procedure;
use rustc_hash::FxHashMap;
use storage::Table;
use types::key::decode_column;
use types::{DataType, TableId};

use super::compiled::Compiled;
use super::modes::Modes;
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
    /// By table: of some access to it no more is known in advance than the key's first column, so
    /// that the routes of all are by that.
    by_lead: Vec<bool>,
    /// Too many transactions run in one piece to cut what may be rolled back, and all routes are by
    /// the first column, which those in one piece share.
    pub is_crowded: bool,
}

impl Directory {
    pub fn new(
        block: &Block,
        modes: Modes,
        compile: &mut dyn FnMut(&Arc<Procedure>) -> Arc<Compiled>,
    ) -> Self {
        let mut directory = Directory::default();
        for work in &block.transactions {
            let id = directory.add(work, compile);
            directory.of.push(id);
        }
        let is_whole: Vec<bool> =
            directory.compiled.iter().map(|compiled| compiled.is_whole(modes)).collect();
        // Loads, and what sessions have run, are whole.
        let is_whole = |id: &&u32| is_whole.get(**id as usize).copied().unwrap_or(true);
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
                    self.enter(procedure, compile);
                }
                u32::MAX
            }
            Work::Interactive(transaction) => {
                for (write, _) in &transaction.writes {
                    self.add(write, compile);
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
        compiled.written.iter().for_each(|table| mark(&mut self.written, *table));
        compiled.by_lead.iter().for_each(|table| mark(&mut self.by_lead, *table));
        self.compiled.push(compiled);
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
        match self.is_crowded || self.by_lead.get(table.id().0 as usize) == Some(&true) {
            true => Some(route(lead_of(table, key)?)),
            false => Some(route(key)),
        }
    }

    pub fn keys_of(&self, procedure: &Arc<Procedure>) -> Option<&KeyPlan> {
        let id = self.by_address.get(&(Arc::as_ptr(procedure) as usize))?;
        Some(&self.compiled[*id as usize].keys)
    }
}

fn mark(tables: &mut Vec<bool>, table: TableId) {
    let place = table.0 as usize;
    tables.resize(tables.len().max(place + 1), false);
    tables[place] = true;
}

/// A key's first column.
fn lead_of<'k>(table: &Table, key: &'k [u8]) -> Option<&'k [u8]> {
    let schema = table.schema();
    let [first, _, ..] = &*schema.primary_key else { return Some(key) };
    let data_type = &schema.columns[usize::from(*first)].data_type;
    let length = match data_type {
        DataType::Int2 | DataType::Int4 | DataType::Int8 => 8,
        other => {
            let mut rest = key;
            decode_column(other, false, &mut rest).ok()?;
            key.len() - rest.len()
        }
    };
    debug_assert!(length <= key.len(), "a key begins with its first column");
    key.get(..length)
}
