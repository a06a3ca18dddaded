//! Entries of secondary indexes: the encoded indexed columns, then the primary key.

use smallvec::SmallVec;
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
    encode_key(
        columns
            .iter()
            .zip(values)
            .map(|(c, value)| (&c.data_type, c.nullable, value)),
        &mut key,
    );
    key
}

fn encode_key<'a>(columns: impl Iterator<Item = (&'a DataType, bool, &'a Value)>, key: &mut Key) {
    for (_, _, value) in columns {
        match value {
            Value::Null => key.0.push(1),
            Value::Int(i) => {
                key.0.push(0);
                key.0
                    .extend_from_slice(&((*i as u64) ^ (1 << 63)).to_be_bytes());
            }
            Value::Text(text) => {
                key.0.push(0);
                key.0.extend_from_slice(text.as_bytes());
                key.0.push(0);
            }
            other => {
                key.0.extend_from_slice(format!("{other:?}").as_bytes());
                key.0.push(0);
            }
        }
    }
}
