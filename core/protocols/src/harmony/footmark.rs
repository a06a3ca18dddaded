//! What a write leaves to the question whether it touches a range, once its block is finished: no
//! code, and of rows the indexed columns only.
//!
//! The row at the key may have been in the range before the write, or be in it afterwards. Before:
//! the store knows, since the snapshot is readable still. After: a put row has its place in each
//! index; an update is taken to touch an index when it assigns one of its columns, whatever its
//! value.

use concurrency::overlay::{covers, index_columns, index_key};
use concurrency::{PendingWrite, WriteState};
use procedure::access::Range;
use storage::{Catalog, LATEST, Table};
use types::{ColumnId, Height, Key, TableId, TableSchema, Value};

pub struct Footmark {
    pub table: TableId,
    pub key: Key,
    /// The row was there before its transaction.
    pub existed: bool,
    pub after: After,
}

/// The row after the write.
pub enum After {
    Gone,
    /// Put, with these values in indexed columns, which ascend.
    Put(Box<[(ColumnId, Value)]>),
    /// Updated, with new values in these indexed columns, which ascend.
    Updated(Box<[ColumnId]>),
}

impl Footmark {
    pub fn of(write: &PendingWrite, catalog: &Catalog) -> Footmark {
        let schema = catalog.table(write.table).map(|table| &**table.schema());
        Footmark {
            table: write.table,
            key: write.key.clone(),
            existed: write.existed,
            after: match &write.state {
                WriteState::Delete => After::Gone,
                WriteState::Put(row) => {
                    let values = (0..).zip(row).filter(|(column, _)| is_indexed(schema, *column));
                    After::Put(values.map(|(column, value)| (column, value.clone())).collect())
                }
                WriteState::Commands(commands) => {
                    let assigned = commands.iter().flat_map(|c| &c.code.assignments);
                    let columns = assigned.map(|(column, _)| *column);
                    let mut columns: Vec<ColumnId> =
                        columns.filter(|column| is_indexed(schema, *column)).collect();
                    columns.sort_unstable();
                    columns.dedup();
                    After::Updated(columns.into())
                }
            },
        }
    }

    /// A row came or went.
    pub fn changes_existence(&self) -> bool {
        self.existed == matches!(self.after, After::Gone)
    }

    fn is_in_after(&self, table: &Table, range: &Range, columns: &[ColumnId]) -> bool {
        let values = match &self.after {
            After::Gone => return false,
            After::Updated(assigned) => return assigned.iter().any(|c| columns.contains(c)),
            After::Put(values) => values,
        };
        let value = |column| {
            let at = values.binary_search_by_key(&column, |(c, _)| *c).ok()?;
            Some(&values[at].1)
        };
        if columns.iter().any(|&column| value(column).is_none()) {
            return true;
        }
        let key = index_key(table, range.index, &self.key, |column| {
            value(column).unwrap_or(&Value::Null)
        });
        key.map_or(true, |key| covers(range, key.as_bytes()))
    }
}

fn is_indexed(schema: Option<&TableSchema>, column: ColumnId) -> bool {
    schema.is_some_and(|schema| schema.indexes.iter().any(|i| i.columns.contains(&column)))
}

/// Whether writes touch ranges, where a block has been installed since the snapshot.
pub struct Touching<'a> {
    pub catalog: &'a Catalog,
    /// The snapshot's height.
    pub before: Height,
}

impl Touching<'_> {
    /// Whether the row of `write` lies in `range` before or after it; "yes" where that cannot be
    /// known.
    pub fn may_touch(&self, range: &Range, write: &Footmark) -> bool {
        let Some(table) = self.catalog.table(range.table).filter(|_| range.table == write.table)
        else {
            return false;
        };
        if range.index == 0 {
            return covers(range, write.key.as_bytes());
        }
        if usize::from(range.index) > table.schema().indexes.len() {
            return true;
        }
        let columns = index_columns(table, range.index);
        write.is_in_after(table, range, &columns)
            || write.existed && self.was_in(table, range, &write.key, &columns)
    }

    /// Whether the row was in the range at the snapshot or is now. What it was between the two is
    /// tested as the after-image of the command that made it so.
    fn was_in(&self, table: &Table, range: &Range, key: &Key, columns: &[ColumnId]) -> bool {
        let mut values = vec![Value::Null; columns.len()];
        [self.before, LATEST].into_iter().any(|at| {
            let slot = table.find(key.as_bytes());
            let stamp = slot.and_then(|slot| table.read(slot, at, columns, &mut values));
            stamp.is_some()
                && index_key(table, range.index, key, |column| {
                    let at = columns.iter().position(|&c| c == column);
                    &values[at.expect("an index column")]
                })
                .map_or(true, |key| covers(range, key.as_bytes()))
        })
    }
}
