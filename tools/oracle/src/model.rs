//! The specification a second time, on plain maps: slow, short, and without a line in common with
//! the overlays, folds and stores that the protocols share.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use concurrency::{Block, BlockOutcome, Outcome, Work};
use procedure::access::{Access, Command, Range, Row};
use procedure::testing::Memory;
use procedure::{Frame, Meter};
use storage::Store;
use types::{ColumnId, Key, Position, Stamp, Stop, TableId, TableSchema, Value};

use crate::NetChange;

pub struct Model {
    memory: Memory,
    tables: Vec<TableId>,
}

impl Model {
    pub fn new(schemas: &[Arc<TableSchema>]) -> Model {
        Model {
            memory: Memory::new(schemas.iter().cloned()),
            tables: schemas.iter().map(|schema| schema.id).collect(),
        }
    }

    /// Run a block in its claimed order. Which of several errors a rejected transaction names
    /// depends on when commands are evaluated, so only committed ones are compared in full.
    /// What the protocol has deferred is left out.
    pub fn run(
        &mut self,
        block: &Block,
        outcome: &BlockOutcome,
        is_deferred: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<NetChange>, String> {
        let before = self.memory.clone();
        for &position in &outcome.serial_order {
            if !is_deferred(position as usize) {
                self.run_one(block, outcome, position)?;
            }
        }
        Ok(self.changes_since(&before))
    }

    /// Run one transaction of a block, and compare how it ends.
    pub fn run_one(
        &mut self,
        block: &Block,
        outcome: &BlockOutcome,
        position: Position,
    ) -> Result<(), String> {
        let work = &block.transactions[position as usize];
        let mut memory = self.memory.clone();
        memory.stamp = Stamp::new(block.height, position);
        memory.now_us = work.now_us(block.time_us);
        let mut access =
            ModelAccess { memory, stamp: Stamp::new(block.height, position), row_ids: 0 };
        let run = work.run(&mut Frame::metered(Meter::of(block.budget)), &mut access);
        let agrees = match (&run, &outcome.outcomes[position as usize]) {
            (Ok(ours), Outcome::Committed(theirs)) => ours == theirs,
            (Err(_), Outcome::Rejected(_) | Outcome::Retry(_)) => true,
            _ => false,
        };
        if !agrees {
            return Err(format!(
                "transaction {position} of block {} ended as {:?}, on plain maps as {run:?}",
                block.height, outcome.outcomes[position as usize]
            ));
        }
        if run.is_ok() {
            self.memory = access.memory;
        }
        Ok(())
    }

    /// What is left to spend after a run that changes nothing here; `None`: it failed, or it wrote,
    /// since there is nothing that scans could pass over on plain maps.
    pub fn left_after(&self, work: &Work, stamp: Stamp) -> Option<u64> {
        // A stamp of its own: a row put in place of an equal one is a write.
        let mut access = ModelAccess { memory: self.memory.clone(), stamp, row_ids: 0 };
        access.memory.stamp = stamp;
        let mut frame = Frame::default();
        work.run(&mut frame, &mut access).ok()?;
        let wrote = self
            .tables
            .iter()
            .any(|&t| access.memory.stamped_rows(t) != self.memory.stamped_rows(t));
        (!wrote).then(|| frame.meter().left())
    }

    /// Rows that came, went or have another stamp.
    fn changes_since(&self, before: &Memory) -> Vec<NetChange> {
        let mut changes = Vec::new();
        for &table in &self.tables {
            let by_key = |memory: &Memory| -> BTreeMap<Key, (Stamp, Vec<Value>)> {
                let rows = memory.stamped_rows(table).into_iter();
                rows.map(|(key, stamp, row)| (key, (stamp, row))).collect()
            };
            let (was, is) = (by_key(before), by_key(&self.memory));
            let keys: BTreeSet<&Key> = was.keys().chain(is.keys()).collect();
            for key in keys.into_iter().filter(|&key| was.get(key) != is.get(key)) {
                let before = was.get(key).map(|(stamp, row)| (stamp.height(), row.clone()));
                let after = is.get(key).map(|(_, row)| row.clone());
                changes.push(NetChange { table, key: key.as_bytes().to_vec(), before, after });
            }
        }
        changes
    }

    pub fn compare(&self, store: &Store) -> Result<(), String> {
        for &table in &self.tables {
            let rows = crate::rows(store, table).into_iter();
            let stored: Vec<_> = rows.map(|(_, _, values)| values).collect();
            let ours = self.memory.rows(table);
            if ours != stored {
                return Err(format!("table {} holds {stored:?}, on plain maps {ours:?}", table.0));
            }
        }
        Ok(())
    }
}

/// Hidden row ids and stamps come from the position in the block.
struct ModelAccess {
    memory: Memory,
    stamp: Stamp,
    row_ids: u32,
}

impl Access for ModelAccess {
    fn read(
        &mut self,
        table: TableId,
        key: &Key,
        columns: &[ColumnId],
        out: &mut [Value],
    ) -> Result<Option<Stamp>, Stop> {
        self.memory.read(table, key, columns, out)
    }

    fn exists(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        self.memory.exists(table, key)
    }

    fn update(&mut self, table: TableId, key: &Key, command: Command) -> Result<bool, Stop> {
        self.memory.update(table, key, command)
    }

    fn insert(&mut self, table: TableId, key: Key, row: Row) -> Result<bool, Stop> {
        self.memory.insert(table, key, row)
    }

    fn delete(&mut self, table: TableId, key: &Key) -> Result<bool, Stop> {
        self.memory.delete(table, key)
    }

    fn scan<V>(&mut self, range: &Range, columns: &[ColumnId], visit: V) -> Result<(), Stop>
    where
        V: FnMut(&Key, Stamp, &[Value]) -> Result<ControlFlow<()>, Stop>,
    {
        self.memory.scan(range, columns, visit)
    }

    fn next_row_id(&mut self) -> [u8; 16] {
        // Not by `Stamp::row_id`, which it is compared with.
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.stamp.height().to_be_bytes());
        id[8..12].copy_from_slice(&self.stamp.position().to_be_bytes());
        id[12..].copy_from_slice(&self.row_ids.to_be_bytes());
        self.row_ids += 1;
        id
    }

    fn now_us(&self) -> i64 {
        self.memory.now_us
    }
}
