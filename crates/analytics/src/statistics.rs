//! What a plan is chosen by: how many rows a table has, and between which values its columns lie.
//!
//! All of it is an estimate: rows come and go, and of the groups' zones only some are looked at. It
//! says which side of a join is the smaller one and what a filter leaves, so it may decide about
//! how long a query takes, never about what it answers.

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use snapshot::{TableScan, Zone};
use storage::GROUP_ROWS;
use types::{ColumnId, TableSchema};

use crate::zones::{Bound, high, low, scalar};

/// Groups whose zones are looked at, over the whole table: some microseconds' worth.
const ZONES_MAX: usize = 64;

/// Of some columns of some groups.
pub(crate) fn estimate(
    scan: &TableScan,
    columns: &[ColumnId],
    schema: &SchemaRef,
    groups: &[usize],
) -> Statistics {
    let rows = (scan.table().usage().records as usize).min(groups.len() * GROUP_ROWS);
    let step = groups.len().div_ceil(ZONES_MAX).max(1);
    let looked_at = || groups.iter().step_by(step).chain(groups.last());
    let column = |(id, of): (&ColumnId, &DataType)| {
        let zones = looked_at().map(|group| scan.zone(*group, *id));
        let zone = zones.filter(|zone| *zone != Zone::Unknown).reduce(Zone::or);
        let bound = |pick: fn(Zone) -> Option<Bound>| -> Precision<ScalarValue> {
            let value = zone.and_then(pick).and_then(|bound| scalar(Some(bound), of));
            value.filter(|value| !value.is_null()).map_or(Precision::Absent, Precision::Inexact)
        };
        let table = scan.table().schema();
        ColumnStatistics {
            null_count: match table.columns[usize::from(*id)].nullable {
                true => Precision::Absent,
                false => Precision::Exact(0),
            },
            distinct_count: match is_key(table, *id) {
                true => Precision::Inexact(rows),
                false => Precision::Absent,
            },
            min_value: bound(low),
            max_value: bound(high),
            ..ColumnStatistics::new_unknown()
        }
    };
    let types = schema.fields().iter().map(|field| field.data_type());
    Statistics {
        num_rows: Precision::Inexact(rows),
        total_byte_size: Precision::Absent,
        column_statistics: columns.iter().zip(types).map(column).collect(),
    }
}

/// Whether a column is one of a key's. Taken for a key of its own: of joins by several columns only
/// the one of most values is asked about, and a whole key, which they mostly are by, has more than
/// each of its columns.
fn is_key(table: &TableSchema, id: ColumnId) -> bool {
    let unique = table.indexes.iter().filter(|index| index.unique && !index.dropped);
    let mut keys = unique.map(|index| &index.columns).chain([&table.primary_key]);
    keys.any(|columns| columns.contains(&id))
}
