//! Users' tables in a query over system tables: read whole, once for each run, and from memory.
//!
//! Such a query may join, correlate and repeat as it likes, so a table is read into rows with
//! lookups, as a system table is. That is for tables of a size that people put beside a catalog:
//! what a run reads is [bounded](ROWS_MAX), and larger tables are for the engine over columns,
//! where there is one and it knows the query.

use std::ops::{Bound, ControlFlow};
use std::rc::Rc;
use std::sync::Arc;

use types::{ColumnId, Error, Result, SqlState, TableId};

use super::run::Run;
use crate::world::{Contents, Row};

pub use super::run::ROWS_MAX;

impl Run<'_> {
    /// A table's rows, in the order of its primary key.
    pub fn user_table(&self, id: TableId, columns: &[ColumnId]) -> Result<Rc<Contents>> {
        if let Some(contents) = self.users.read.borrow().get(&id) {
            return Ok(Rc::clone(contents));
        }
        let found = self.users.snapshot.and_then(|snapshot| {
            let table = snapshot.table(id)?;
            Some((Arc::clone(table), snapshot))
        });
        let (table, snapshot) = found.ok_or_else(|| {
            Error::new(SqlState::UNDEFINED_TABLE, "a table of the query does not exist")
                .with_detail("It was not there yet in the block that is read.")
        })?;
        let (mut rows, mut stopped): (Vec<Row>, Result<()>) = (Vec::new(), Ok(()));
        let (all, height) = (Bound::Unbounded, snapshot.height());
        table.scan(0, all, all, false, height, columns, &mut |_, _, values| {
            let counted = self.step().and_then(|()| self.users.count(values));
            stopped = counted.and_then(|()| self.cover_all());
            match &stopped {
                Ok(()) => {
                    rows.push(values.into());
                    ControlFlow::Continue(())
                }
                Err(_) => ControlFlow::Break(()),
            }
        });
        stopped?;
        snapshot.check()?;
        let contents = Rc::new(Contents::new(rows));
        self.users.read.borrow_mut().insert(id, Rc::clone(&contents));
        Ok(contents)
    }
}
