//! Entries of secondary indexes: the encoded indexed columns, then the primary key.

use smallvec::SmallVec;
use types::key::encode_column;
use types::{ColumnId, DataType, Key, Value};

use crate::heap::Heap;
use crate::layout::Layout;

/// An indexed column, as its encoding needs it.
pub(crate) struct EntryColumn {
    pub(crate) id: ColumnId,
    pub(crate) data_type: DataType,
    pub(crate) nullable: bool,
}

/// The entry of a row whose payload words `load` gives.
pub(crate) fn of_payload(
    columns: &[EntryColumn],
    layout: &Layout,
    heap: &Heap,
    load: impl Fn(usize) -> u64,
    primary_key: &[u8],
) -> Key {
    let values: SmallVec<[Value; 4]> = columns
        .iter()
        .map(|c| {
            let column = layout.column(c.id);
            column.decode(column.cell(&load), heap)
        })
        .collect();
    let mut entry = encode(columns, &values);
    entry.0.extend_from_slice(primary_key);
    entry
}

/// The encoded columns alone: what an entry starts with.
pub(crate) fn encode(columns: &[EntryColumn], values: &[Value]) -> Key {
    let mut key = Key::default();
    for (column, value) in columns.iter().zip(values) {
        // A NULL where the schema has none is for the steps that check constraints to refuse; an
        // index must not stumble over it.
        let nullable = column.nullable || value.is_null();
        encode_column(&column.data_type, nullable, value, &mut key)
            .expect("a stored column decodes to a value of its own type");
    }
    key
}
