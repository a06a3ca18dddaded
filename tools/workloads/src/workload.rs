//! What every workload is: tables, procedures, rows, calls, and what must hold afterwards.

use procedure::Procedure;
use procedure::build::Tables;
use types::{Result, Value};

use crate::settings::{Reader, Setting, Settings};

/// A workload's name, its settings, and how to make one.
pub struct Entry {
    pub name: &'static str,
    pub about: &'static str,
    pub settings: &'static [Setting],
    /// Reads the settings, and refuses what makes no sense.
    pub read: fn(&Reader<'_>) -> Result<Box<dyn Workload>>,
}

impl Entry {
    pub fn make(&self, settings: &Settings) -> Result<Box<dyn Workload>> {
        (self.read)(&Reader::new(self.settings, settings)?)
    }

    /// Whether there is a setting of this name.
    pub fn has(&self, setting: &str) -> bool {
        self.settings.iter().any(|known| known.name == setting)
    }
}

/// A workload with its settings fixed.
pub trait Workload: Send + Sync {
    /// SQL that makes the tables, indexes and procedures.
    fn schema(&self) -> String;

    /// The procedures that calls name, by their place here.
    fn procedures(&self) -> Vec<&'static str>;

    /// The same procedures, in the same order, made by the IR's builder and not from SQL.
    fn programs(&self, tables: &Tables) -> Result<Vec<Procedure>>;

    /// The rows to load, table by table.
    fn fills(&self) -> Vec<Fill>;

    /// Draws calls without end; the same seed gives the same calls.
    fn calls(&self, seed: u64) -> Box<dyn Iterator<Item = Call> + Send>;

    /// What must hold of the state after any serializable run; the error says what does not.
    fn check(&self, _state: &dyn State) -> Result<()> {
        Ok(())
    }
}

/// A call of one of the workload's procedures.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// Index into [`Workload::procedures`].
    pub procedure: usize,
    pub arguments: Box<[Value]>,
}

pub type Row = Box<[Value]>;

/// How to fill a table: rows come in groups (an order and its lines), each made by its number.
pub struct Fill {
    /// The COPY statement that takes them.
    pub copy: String,
    groups: u64,
    make: MakeGroup,
}

/// Appends the rows of a group.
type MakeGroup = Box<dyn Fn(u64, &mut Vec<Row>) + Send + Sync>;

impl Fill {
    /// `make` appends the rows of the group of a number in `0..groups`.
    pub fn groups(
        table: &str,
        groups: u64,
        make: impl Fn(u64, &mut Vec<Row>) + Send + Sync + 'static,
    ) -> Fill {
        Fill { copy: format!("COPY {table} FROM STDIN"), groups, make: Box::new(make) }
    }

    /// `make` gives the row of a number in `1..=rows`.
    pub fn rows(table: &str, rows: u64, make: impl Fn(u64) -> Row + Send + Sync + 'static) -> Fill {
        Fill::groups(table, rows, move |group, out| out.push(make(group + 1)))
    }

    /// All rows, in batches of about `rows` (a group is not torn apart).
    pub fn batches(&self, rows: usize) -> impl Iterator<Item = Vec<Row>> + '_ {
        let mut group = 0;
        std::iter::from_fn(move || {
            let mut batch = Vec::new();
            while group < self.groups && batch.len() < rows {
                (self.make)(group, &mut batch);
                group += 1;
            }
            (!batch.is_empty()).then_some(batch)
        })
    }
}

/// A state to be checked.
pub trait State {
    /// Gives `columns` of all rows of a table to `visit`.
    fn each_row(
        &self,
        table: &str,
        columns: &[&str],
        visit: &mut dyn FnMut(&[Value]),
    ) -> Result<()>;
}
