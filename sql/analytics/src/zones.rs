//! Which row groups a filter can find anything in, by the zones of their images.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use snapshot::{TableScan, Zone};
use types::ColumnId;

/// The zones of all groups of a scan.
struct Zones<'a> {
    scan: &'a TableScan,
    columns: &'a [ColumnId],
    schema: &'a SchemaRef,
}

/// The groups that may hold rows which the filter lets through; all of them, where it says nothing
/// about zones.
pub(crate) fn possible_groups(
    scan: &TableScan,
    columns: &[ColumnId],
    schema: &SchemaRef,
    filter: Option<&Arc<dyn PhysicalExpr>>,
) -> Result<Vec<usize>> {
    let all = 0..scan.groups();
    let Some(filter) = filter else { return Ok(all.collect()) };
    let builder = PruningPredicateBuilder::new().with_file_schema(schema.clone());
    let Ok(predicate) = builder.try_build(filter.clone()) else { return Ok(all.collect()) };
    if predicate.always_true() {
        return Ok(all.collect());
    }
    let possible = predicate.prune(&Zones { scan, columns, schema })?;
    Ok(all.zip(possible).filter_map(|(group, possible)| possible.then_some(group)).collect())
}

impl Zones<'_> {
    fn bounds(&self, column: &Column, pick: fn(Zone) -> Option<Bound>) -> Option<ArrayRef> {
        let place = self.schema.index_of(&column.name).ok()?;
        let data_type = self.schema.field(place).data_type();
        let groups = 0..self.scan.groups();
        let bounds = groups.map(|group| {
            let bound = pick(self.scan.zone(group, self.columns[place]));
            scalar(bound, data_type)
        });
        let bounds: Option<Vec<ScalarValue>> = bounds.collect();
        ScalarValue::iter_to_array(bounds?).ok()
    }
}

pub(crate) enum Bound {
    Int(i64),
    Decimal(i128),
    Float(f64),
}

pub(crate) fn low(zone: Zone) -> Option<Bound> {
    match zone {
        Zone::Int(low, _) => Some(Bound::Int(low)),
        Zone::Decimal(low, _) => Some(Bound::Decimal(low)),
        Zone::Float(low, _) => Some(Bound::Float(low)),
        Zone::Unknown | Zone::Empty => None,
    }
}

pub(crate) fn high(zone: Zone) -> Option<Bound> {
    match zone {
        Zone::Int(_, high) => Some(Bound::Int(high)),
        Zone::Decimal(_, high) => Some(Bound::Decimal(high)),
        Zone::Float(_, high) => Some(Bound::Float(high)),
        Zone::Unknown | Zone::Empty => None,
    }
}

/// A bound in the column's type, NULL if it is not known; `None` for a type that has no zones.
pub(crate) fn scalar(bound: Option<Bound>, data_type: &DataType) -> Option<ScalarValue> {
    let int = match &bound {
        Some(Bound::Int(int)) => Some(*int),
        _ => None,
    };
    let narrow = int.and_then(|int| i32::try_from(int).ok());
    Some(match data_type {
        DataType::Int16 => ScalarValue::Int16(int.and_then(|int| i16::try_from(int).ok())),
        DataType::Int32 => ScalarValue::Int32(narrow),
        DataType::Int64 => ScalarValue::Int64(int),
        DataType::Date32 => ScalarValue::Date32(narrow),
        DataType::Timestamp(_, zone) => ScalarValue::TimestampMicrosecond(int, zone.clone()),
        DataType::Float64 => ScalarValue::Float64(match bound {
            Some(Bound::Float(float)) => Some(float),
            _ => None,
        }),
        DataType::Decimal128(precision, scale) => {
            let units = match bound {
                Some(Bound::Decimal(units)) => Some(units),
                _ => None,
            };
            ScalarValue::Decimal128(units, *precision, *scale)
        }
        _ => return None,
    })
}

impl PruningStatistics for Zones<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, low)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, high)
    }

    fn num_containers(&self) -> usize {
        self.scan.groups()
    }

    fn null_counts(&self, _: &Column) -> Option<ArrayRef> {
        None
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        None
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
