//! A small schema, and rows of it.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use storage::Table;
use types::{
    ColumnId, ColumnSchema, DataType, Height, IndexId, IndexSchema, Key, Stamp, TableId,
    TableSchema, Value,
};

pub fn column(name: &str, data_type: DataType, nullable: bool) -> ColumnSchema {
    ColumnSchema::new(name, data_type).nullable(nullable)
}

pub fn index(name: &str, columns: &[ColumnId]) -> IndexSchema {
    IndexSchema { name: name.to_owned(), columns: columns.to_vec(), unique: false, dropped: false }
}

/// `(id text primary key, amount bigint, note text, index on amount, index on (note, amount))`.
pub fn notes(id: u32) -> Arc<TableSchema> {
    Arc::new(TableSchema {
        id: TableId(id),
        name: "notes".to_owned(),
        columns: vec![
            column("id", DataType::Text, false),
            column("amount", DataType::Int8, false),
            column("note", DataType::Text, true),
        ],
        primary_key: vec![0],
        indexes: vec![index("by_amount", &[1]), index("by_note", &[2, 1])],
        hidden_row_id: false,
    })
}

/// `(id bigint primary key, balance bigint)`.
pub fn accounts(id: u32) -> Arc<TableSchema> {
    Arc::new(TableSchema {
        id: TableId(id),
        name: "accounts".to_owned(),
        columns: vec![
            column("id", DataType::Int8, false),
            column("balance", DataType::Int8, false),
        ],
        primary_key: vec![0],
        indexes: vec![],
        hidden_row_id: false,
    })
}

pub fn encode(schema: &TableSchema, columns: &[ColumnId], row: &[Value]) -> Key {
    let mut key = Key::default();
    let parts = columns.iter().map(|&id| {
        let column = &schema.columns[usize::from(id)];
        (&column.data_type, column.nullable, &row[usize::from(id)])
    });
    types::key::encode_key(parts, &mut key).expect("a row of its own schema");
    key
}

pub fn primary_key(schema: &TableSchema, row: &[Value]) -> Key {
    encode(schema, &schema.primary_key, row)
}

pub type Scanned = Vec<(Key, Stamp, Vec<Value>)>;

/// All columns of what a scan visits, at most `limit` rows.
pub fn scan(
    table: &Table,
    index: IndexId,
    (low, high): (Bound<&[u8]>, Bound<&[u8]>),
    reverse: bool,
    at: Height,
    limit: usize,
) -> Scanned {
    let columns: Vec<ColumnId> = (0..table.schema().columns.len() as ColumnId).collect();
    let mut rows = Scanned::new();
    table.scan(index, low, high, reverse, at, &columns, &mut |key, stamp, values| {
        rows.push((Key::from(key), stamp, values.to_vec()));
        if rows.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    rows
}

pub const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);
