//! What a schema change means for the stored tables.

use std::sync::Arc;

use storage::Store;
use types::{Error, IndexSchema, Result, SqlState, TableId, TableSchema, Value};

use crate::ddl::{ColumnSource, StoreChange};

/// Carry out one change on the newest state. Readers of older heights keep the tables they had.
pub fn apply_change(change: &StoreChange, store: &Store) -> Result<()> {
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
            store.rebuild(Arc::new(schema.clone()), &mut |old| {
                columns.iter().map(|source| value_of(source, old)).collect()
            })?;
        }
    }
    Ok(())
}

fn value_of(source: &ColumnSource, old: &[Value]) -> Value {
    match source {
        ColumnSource::Old(column) => old[usize::from(*column)].clone(),
        ColumnSource::Constant(value) => value.clone(),
    }
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
