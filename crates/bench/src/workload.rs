//! Workloads as the bench meets them: by name, and their conditions on a store.

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::str::FromStr;

use storage::Store;
use types::{Error, Result, SqlState, Value};
use workloads::{Entry, State};

/// A workload by its name, without its settings.
#[derive(Clone, Copy)]
pub struct Workload(&'static Entry);

impl Workload {
    pub fn entry(self) -> &'static Entry {
        self.0
    }

    pub fn name(self) -> &'static str {
        self.0.name
    }
}

impl PartialEq for Workload {
    fn eq(&self, other: &Workload) -> bool {
        self.name() == other.name()
    }
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        workloads::by_name(name).map(Workload).ok_or_else(|| {
            let names: Vec<_> = workloads::ALL.iter().map(|entry| entry.name).collect();
            format!("unknown workload; there are: {}", names.join(", "))
        })
    }
}

/// Where the programs of a run come from.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Programs {
    /// Compiled from the workload's SQL, as a client's calls are.
    #[default]
    Sql,
    /// Made by the IR's builder.
    Ir,
}

/// The newest state of a store, for [`workloads::Workload::check`].
pub struct Newest<'a>(pub &'a Store);

impl State for Newest<'_> {
    fn each_row(
        &self,
        table: &str,
        columns: &[&str],
        visit: &mut dyn FnMut(&[Value]),
    ) -> Result<()> {
        let unknown = |what: &str| Error::new(SqlState::UNDEFINED_TABLE, format!("no {what}"));
        let tables = self.0.tables();
        let named = tables.iter().find(|known| known.schema().name == table);
        let table = named.ok_or_else(|| unknown(table))?;
        let columns =
            columns.iter().map(|name| table.schema().column(name).ok_or_else(|| unknown(name)));
        let columns: Vec<_> = columns.collect::<Result<_>>()?;
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        table.scan(0, low, high, false, storage::LATEST, &columns, &mut |_, _, row| {
            visit(row);
            ControlFlow::Continue(())
        });
        Ok(())
    }
}
