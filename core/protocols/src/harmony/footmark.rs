//! What a write leaves to the question whether it touches a range, once its block is finished: no
//! code, and of rows the indexed columns only.
//!
//! The row at the key may have been in the range before the write, or be in it afterwards. Before:
//! the store knows, since the snapshot is readable still. After: a put row has its place in each
//! index; an update is taken to touch an index when it assigns one of its columns, whatever its
//! value.

use concurrency::overlay::{index_columns, index_key};
use concurrency::phantoms::lines::Line;
use concurrency::{PendingWrite, WriteState};
use smallvec::SmallVec;
use storage::{Catalog, LATEST, Table};
use types::{ColumnId, Height, IndexId, Key, TableId, TableSchema, Value};

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
}

fn is_indexed(schema: Option<&TableSchema>, column: ColumnId) -> bool {
    schema.is_some_and(|schema| schema.indexes.iter().any(|i| i.columns.contains(&column)))
}

/// Where writes stand in an index, once a block has been installed since the snapshot: at the
/// places that their rows had at the snapshot, have now, and take by the write. What a row was
/// between the two is told as the after-image of the command that made it so.
pub struct Places<'a> {
    pub catalog: &'a Catalog,
    /// The snapshot's height.
    pub before: Height,
}

impl Places<'_> {
    /// The places of writes of a table in one of its indexes.
    pub fn line<'w, T: Copy>(
        &self,
        (table, index): (TableId, IndexId),
        writes: impl Iterator<Item = (&'w Footmark, T)>,
    ) -> Line<T> {
        let mut line = Line::default();
        let Some(of_table) = self.catalog.table(table) else {
            return line;
        };
        let known = usize::from(index) <= of_table.schema().indexes.len();
        let columns = if known { index_columns(of_table, index) } else { Vec::new() };
        for (footmark, write) in writes.filter(|(footmark, _)| footmark.table == table) {
            let place = match known {
                true => self.places(of_table, index, footmark, &columns),
                false => None,
            };
            match place {
                Some(keys) => keys.into_iter().for_each(|key| line.add(key, write)),
                None => line.add_anywhere(write),
            }
        }
        line.sort();
        line
    }

    /// `None`: that cannot be known.
    fn places(
        &self,
        table: &Table,
        index: IndexId,
        write: &Footmark,
        columns: &[ColumnId],
    ) -> Option<SmallVec<[Key; 3]>> {
        let mut places = SmallVec::new();
        if index == 0 {
            places.push(write.key.clone());
            return Some(places);
        }
        match &write.after {
            After::Gone => {}
            After::Updated(assigned) => {
                if assigned.iter().any(|column| columns.contains(column)) {
                    return None;
                }
            }
            After::Put(values) => {
                let value = |column| {
                    let at = values.binary_search_by_key(&column, |(c, _)| *c).ok()?;
                    Some(&values[at].1)
                };
                if columns.iter().any(|&column| value(column).is_none()) {
                    return None;
                }
                let place = |column| value(column).unwrap_or(&Value::Null);
                places.push(index_key(table, index, &write.key, place).ok()?);
            }
        }
        if write.existed {
            let mut values = vec![Value::Null; columns.len()];
            for at in [self.before, LATEST] {
                let slot = table.find(write.key.as_bytes());
                let stamp = slot.and_then(|slot| table.read(slot, at, columns, &mut values));
                if stamp.is_some() {
                    let place = |column| {
                        let at = columns.iter().position(|&c| c == column);
                        &values[at.expect("an index column")]
                    };
                    places.push(index_key(table, index, &write.key, place).ok()?);
                }
            }
        }
        places.sort_unstable();
        places.dedup();
        Some(places)
    }
}
