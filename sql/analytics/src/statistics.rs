//! What a plan is chosen by: how many rows a table has, and between which values its columns lie.
//!
//! How many rows there are is an estimate, and decides how long a query takes, never what it
//! answers. Bounds are given only where they are true: DataFusion takes a column whose bounds and
//! condition leave one value for a constant that needs no sort, and one that they leave nothing for
//! a column without rows. So all groups must be known, and large tables have no bounds.

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use snapshot::{TableScan, Zone};
use storage::GROUP_ROWS;
use types::{ColumnId, TableSchema};

use crate::zones::{Bound, high, low, scalar};

/// Groups whose zones are looked at: a tenth of a microsecond each, for each column.
const ZONES_MAX: usize = 1 << 13;

/// Of some columns of some groups.
pub(crate) fn estimate(
    scan: &TableScan,
    columns: &[ColumnId],
    schema: &SchemaRef,
    groups: &[usize],
) -> Statistics {
    let rows = (scan.table().usage().records as usize).min(groups.len() * GROUP_ROWS);
    let column = |(id, of): (&ColumnId, &DataType)| {
        let mut zones = groups.iter().map(|group| scan.zone(*group, *id));
        let known = |all: Zone, zone| Some(all.or(zone)).filter(|all| *all != Zone::Unknown);
        let zone = match groups.len() <= ZONES_MAX {
            true => zones.try_fold(Zone::Empty, known),
            false => None,
        };
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
