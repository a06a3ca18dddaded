//! What a schema change means for the stored tables.

use std::sync::Arc;

use storage::Store;
use types::{Error, Height, IndexSchema, Result, SqlState, Stamp, TableId, TableSchema, Value};

use crate::ddl::{ColumnSource, StoreChange};
use crate::sequence::Sequence;

/// Carry out one change on the newest state. Readers of older heights keep the tables they had.
pub fn apply_change(change: &StoreChange, store: &Store, height: Height) -> Result<()> {
    match change {
        StoreChange::CreateTable(schema) => {
            store.create_table(Arc::new(schema.clone()));
        }
        StoreChange::DropTable(id) => store.drop_table(*id),
        StoreChange::Truncate(id) => {
            store.truncate(*id)?;
        }
        StoreChange::Describe(schema) => {
            store.alter_table(Arc::new(schema.clone()))?;
        }
        StoreChange::SetLayout { table, layout } => store.set_layout(*table, *layout),
        StoreChange::CreateIndex { table, index, schema } => {
            let place = usize::from(*index) - 1;
            with_indexes(store, *table, |indexes| {
                indexes.truncate(place);
                indexes.push(schema.clone());
            })?;
        }
        StoreChange::DropIndex { table, index } => {
            let place = usize::from(*index) - 1;
            with_indexes(store, *table, |indexes| indexes[place].dropped = true)?;
        }
        StoreChange::Rebuild { schema, columns, .. } => {
            let (mut rows, mut failure) = (0, None);
            store.rebuild(Arc::new(schema.clone()), &mut |old| {
                rows += 1;
                let value = |source| value_of(source, old, rows - 1);
                let value = |source| {
                    value(source).unwrap_or_else(|error| {
                        failure.get_or_insert(error);
                        Value::Null
                    })
                };
                columns.iter().map(value).collect()
            })?;
            failure.map_or(Ok(()), Err)?;
            for source in columns {
                if let ColumnSource::Counted(sequence) = source {
                    take_all(sequence, rows, store, height)?;
                }
            }
        }
    }
    Ok(())
}

/// Of the row at a place in key order.
fn value_of(source: &ColumnSource, old: &[Value], place: u64) -> Result<Value> {
    Ok(match source {
        ColumnSource::Old(column) => old[usize::from(*column)].clone(),
        ColumnSource::Constant(value) => value.clone(),
        // It does not ask for the time.
        ColumnSource::Computed(value) => value.eval(&[], old, 0)?,
        ColumnSource::Counted(sequence) => {
            let value = sequence.all_values().value(place);
            value.map(Value::Int).ok_or_else(|| sequence.at_end())?
        }
    })
}

/// So many values of a new sequence are in a table.
fn take_all(sequence: &Sequence, rows: u64, store: &Store, height: Height) -> Result<()> {
    let Some(last) = rows.checked_sub(1) else { return Ok(()) };
    let last = sequence.all_values().value(last).ok_or_else(|| sequence.at_end())?;
    let row = vec![Value::Int(sequence.epoch), Value::Int(last), Value::Bool(true)];
    store.add_to_new(sequence.id, row, Stamp::new(height, 0))
}

fn with_indexes(
    store: &Store,
    id: TableId,
    change: impl FnOnce(&mut Vec<IndexSchema>),
) -> Result<()> {
    let table = store.table(id).ok_or_else(|| {
        Error::new(SqlState::UNDEFINED_TABLE, format!("table {} does not exist", id.0))
    })?;
    let mut schema = TableSchema::clone(table.schema());
    change(&mut schema.indexes);
    store.alter_table(Arc::new(schema))?;
    Ok(())
}
