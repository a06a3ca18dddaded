//! Ranges of an index as bounds of its encoded keys, and the entry that a row has in an index.

use std::ops::Bound;

use procedure::access::Range;
use storage::Table;
use types::key::{encode_key, upper_bound_of_prefix};
use types::{ColumnId, Error, Key, SqlState, Stop, Value};

/// A range that was read before a schema change may name an index that is no more.
pub(super) fn check_index(table: &Table, index: types::IndexId) -> Result<(), Stop> {
    let Some(place) = usize::from(index).checked_sub(1) else {
        return Ok(());
    };
    let schema = table.schema();
    match schema.indexes.get(place) {
        Some(index) if !index.dropped => Ok(()),
        _ => Err(Error::new(
            SqlState::UNDEFINED_OBJECT,
            format!("index {index} of table \"{}\" does not exist", schema.name),
        )
        .with_hint("The index was dropped while the statement was on its way.")
        .into()),
    }
}

/// The bounds of a range, whose keys are prefixes, as plain byte-string bounds. `None`: an empty
/// range.
pub fn byte_bounds(range: &Range) -> Option<(Bound<Key>, Bound<Key>)> {
    let low = match &range.low {
        Bound::Excluded(prefix) => Bound::Included(upper_bound_of_prefix(prefix.as_bytes())?),
        other => other.clone(),
    };
    let high = match &range.high {
        Bound::Included(prefix) => match upper_bound_of_prefix(prefix.as_bytes()) {
            Some(end) => Bound::Excluded(end),
            None => Bound::Unbounded,
        },
        other => other.clone(),
    };
    Some((low, high))
}

/// Whether an index key lies in a range.
pub fn covers(range: &Range, key: &[u8]) -> bool {
    let starts_with = |prefix: &Key| key.starts_with(prefix.as_bytes());
    let low = match &range.low {
        Bound::Unbounded => true,
        Bound::Included(low) => key >= low.as_bytes(),
        Bound::Excluded(low) => key >= low.as_bytes() && !starts_with(low),
    };
    let high = match &range.high {
        Bound::Unbounded => true,
        Bound::Included(high) => key <= high.as_bytes() || starts_with(high),
        Bound::Excluded(high) => key < high.as_bytes(),
    };
    low && high
}

/// Where the keys of a range lie among sorted ones.
pub fn place_in<T>(sorted: &[(Key, T)], range: &Range) -> std::ops::Range<usize> {
    let Some((low, high)) = byte_bounds(range) else {
        return 0..0;
    };
    let first = match &low {
        Bound::Unbounded => 0,
        Bound::Included(low) => sorted.partition_point(|(key, _)| key < low),
        Bound::Excluded(low) => sorted.partition_point(|(key, _)| key <= low),
    };
    let end = match &high {
        Bound::Unbounded => sorted.len(),
        Bound::Included(high) => sorted.partition_point(|(key, _)| key <= high),
        Bound::Excluded(high) => sorted.partition_point(|(key, _)| key < high),
    };
    first..end.max(first)
}

/// Columns that an index entry is made of, the primary key (which ends every entry) apart.
pub fn index_columns(table: &Table, index: types::IndexId) -> Vec<ColumnId> {
    match index {
        0 => Vec::new(),
        n => table.schema().indexes[usize::from(n) - 1].columns.clone(),
    }
}

/// The entry that a row has in an index.
pub fn index_key<'v>(
    table: &Table,
    index: types::IndexId,
    primary: &Key,
    value: impl Fn(ColumnId) -> &'v Value,
) -> Result<Key, Stop> {
    if index == 0 {
        return Ok(primary.clone());
    }
    let schema = table.schema();
    let mut key = Key::default();
    let columns = &schema.indexes[usize::from(index) - 1].columns;
    encode_key(
        columns.iter().map(|&c| {
            let column = &schema.columns[usize::from(c)];
            (&column.data_type, column.nullable, value(c))
        }),
        &mut key,
    )?;
    key.0.extend_from_slice(primary.as_bytes());
    Ok(key)
}
