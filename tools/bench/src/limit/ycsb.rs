//! YCSB's reads of whole rows and its blind writes of one field.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use storage::{Store, Table, UndoArena};
use types::{ColumnId, Key, Stamp, Value};

use super::{ByHand, array, table};

pub(super) struct Ycsb {
    rows: Arc<Table>,
    fields: Vec<ColumnId>,
    read: Vec<Value>,
}

impl Ycsb {
    pub(super) fn new(store: &Store) -> Result<Ycsb> {
        let rows = table(store, "usertable")?;
        let fields: Vec<ColumnId> = (1..rows.schema().columns.len() as ColumnId).collect();
        let read = vec![Value::Null; fields.len()];
        Ok(Ycsb { rows, fields, read })
    }
}

impl ByHand for Ycsb {
    fn run(
        &mut self,
        procedure: usize,
        arguments: &[Value],
        stamp: Stamp,
        undo: &mut UndoArena,
    ) -> Result<bool> {
        if procedure != 0 {
            bail!("of YCSB only reads and blind writes are written by hand");
        }
        for key in array(arguments, 0)? {
            let key = Key::from_int(key.as_int().context("a key")?);
            let slot = self.rows.find(key.as_bytes()).context("a row")?;
            let read = self.rows.read_exclusive(slot, &self.fields, &mut self.read);
            std::hint::black_box((read.context("a row")?, &self.read));
        }
        let content = arguments.get(2).context("a content")?;
        for key in array(arguments, 1)? {
            let key = Key::from_int(key.as_int().context("a key")?);
            let slot = self.rows.find(key.as_bytes()).context("a row")?;
            let field = std::iter::once((self.fields[0], content));
            self.rows.update_each(slot, field, stamp, undo);
        }
        Ok(true)
    }
}
