//! Filters that follow an index: few rows, read from their records and not from images.
//!
//! A filter that fixes the first columns of an index, or bounds its first column from both sides,
//! names a range of the index's entries. The range is read when the query is planned, and gives up
//! where it holds more than [`ROWS_MAX`] rows: from there on, images are faster. So a plan that
//! shows a `KeyScan` knows how many rows it has. A filter looks at the rows again, so a range may
//! be wider than its filter.

use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, ScalarValue, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::stream;
use snapshot::TableScan;
use types::key::{encode_column, upper_bound_of_prefix};
use types::numeric::Numeric;
use types::{ColumnId, DataType, IndexId, Key, TableSchema, Value};

use crate::faults::raise;
use crate::sql_types::{EPOCH_DAYS, EPOCH_US, scalar};

/// More rows are read faster from images.
const ROWS_MAX: usize = 1_024;

/// What filters say of one column, as keys hold it.
#[derive(Clone, Default)]
struct Said {
    equal: Option<Value>,
    low: Option<Value>,
    high: Option<Value>,
}

/// A range of an index.
struct Range {
    index: IndexId,
    low: Key,
    high: Option<Key>,
    /// Columns that are fixed or bounded.
    columns: usize,
}

/// The rows that filters name by an index, if there is such an index and they are few.
pub(crate) fn key_scan(
    scan: &TableScan,
    filters: &[Expr],
    columns: &[ColumnId],
    schema: &SchemaRef,
) -> Result<Option<KeyScan>> {
    let table = scan.table().schema();
    let said = said(table, filters);
    let secondary = table.indexes.iter().enumerate().filter(|(_, index)| !index.dropped);
    let secondary = secondary.map(|(place, index)| (place as IndexId + 1, &index.columns));
    let primary = (!table.hidden_row_id).then_some((0, &table.primary_key));
    let ranges = primary.into_iter().chain(secondary);
    let ranges = ranges.filter_map(|(index, columns)| range(table, &said, index, columns));
    let Some(range) = ranges.max_by_key(|range| (range.columns, range.index == 0)) else {
        return Ok(None);
    };
    let mut values: Vec<Vec<Value>> = vec![Vec::new(); columns.len()];
    let mut rows = 0;
    let high = range.high.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(key.as_bytes()));
    let low = Bound::Included(range.low.as_bytes());
    let mut visit = |_: &[u8], _, row: &[Value]| {
        rows += 1;
        if rows > ROWS_MAX {
            return ControlFlow::Break(());
        }
        values.iter_mut().zip(row).for_each(|(column, value)| column.push(value.clone()));
        ControlFlow::Continue(())
    };
    scan.table().scan(range.index, low, high, false, scan.height(), columns, &mut visit);
    scan.check().map_err(raise)?;
    if rows > ROWS_MAX {
        return Ok(None);
    }
    let arrays =
        columns.iter().zip(&values).zip(schema.fields()).map(|((id, values), field)| match values
            .is_empty()
        {
            true => Ok(new_empty_array(field.data_type())),
            false => array(values, &table.columns[usize::from(*id)].data_type),
        });
    let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?;
    let index = match range.index {
        0 => "primary key".to_owned(),
        index => format!("index {}", table.indexes[usize::from(index) - 1].name),
    };
    let name = format!("{} as of block {}, by {index}", table.name, scan.height());
    Ok(Some(KeyScan::new(name, batch)))
}

fn array(values: &[Value], data_type: &DataType) -> Result<ArrayRef> {
    let scalars = values.iter().map(|value| scalar(value, data_type));
    let scalars = scalars.collect::<types::Result<Vec<ScalarValue>>>().map_err(raise)?;
    ScalarValue::iter_to_array(scalars)
}

/// By column: what the filters, all of which hold, say of it.
fn said(table: &TableSchema, filters: &[Expr]) -> Vec<Said> {
    let mut said = vec![Said::default(); table.columns.len()];
    for filter in filters {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else { continue };
        let (name, op, literal) = match (&**left, &**right) {
            (Expr::Column(column), Expr::Literal(literal, _)) => (&column.name, Some(*op), literal),
            (Expr::Literal(literal, _), Expr::Column(column)) => (&column.name, op.swap(), literal),
            _ => continue,
        };
        let Some((id, column)) = table.visible_columns().find(|(_, c)| c.name == *name) else {
            continue;
        };
        let Some(value) = key_value(literal, &column.data_type) else { continue };
        let said = &mut said[usize::from(id)];
        match op {
            Some(Operator::Eq) => said.equal = Some(value),
            Some(Operator::Gt | Operator::GtEq) => said.low = Some(value),
            Some(Operator::Lt | Operator::LtEq) => said.high = Some(value),
            _ => {}
        }
    }
    said
}

/// A literal as a value of a column's type; `None` where keys have another order or equality.
fn key_value(literal: &ScalarValue, data_type: &DataType) -> Option<Value> {
    use ScalarValue as S;
    Some(match (literal, data_type) {
        (S::Int16(Some(int)), DataType::Int2) => Value::Int((*int).into()),
        (S::Int32(Some(int)), DataType::Int4) => Value::Int((*int).into()),
        (S::Int64(Some(int)), DataType::Int8) => Value::Int(*int),
        (S::Utf8(Some(text)) | S::Utf8View(Some(text)), DataType::Text | DataType::Varchar(_)) => {
            Value::text(text)
        }
        (S::Date32(Some(days)), DataType::Date) => Value::Date(days.checked_sub(EPOCH_DAYS)?),
        (S::TimestampMicrosecond(Some(us), None), DataType::Timestamp(_)) => {
            Value::Timestamp(us.checked_sub(EPOCH_US)?)
        }
        (S::TimestampMicrosecond(Some(us), Some(_)), DataType::Timestamptz(_)) => {
            Value::Timestamptz(us.checked_sub(EPOCH_US)?)
        }
        (S::Decimal128(Some(units), _, scale), DataType::Numeric(_)) => {
            Value::Numeric(Numeric::from_units(*units, u8::try_from(*scale).ok()?))
        }
        (S::FixedSizeBinary(16, Some(bytes)), DataType::Uuid) => {
            Value::Uuid(bytes.as_slice().try_into().ok()?)
        }
        (S::Boolean(Some(bool)), DataType::Bool) => Value::Bool(*bool),
        _ => return None,
    })
}

/// The entries of an index that the filters leave, if they leave out any.
fn range(
    table: &TableSchema,
    said: &[Said],
    index: IndexId,
    columns: &[ColumnId],
) -> Option<Range> {
    let encode = |key: &Key, id: ColumnId, value: &Value| {
        let column = &table.columns[usize::from(id)];
        let mut longer = key.clone();
        // A primary key's columns are never NULL, and have no byte that says so.
        let nullable = index != 0 && column.nullable;
        encode_column(&column.data_type, nullable, value, &mut longer).ok()?;
        Some(longer)
    };
    let mut prefix = Key::default();
    let mut fixed = 0;
    for &id in columns {
        let said = &said[usize::from(id)];
        if let Some(value) = &said.equal {
            prefix = encode(&prefix, id, value)?;
            fixed += 1;
            continue;
        }
        if let (Some(low), Some(high)) = (&said.low, &said.high) {
            let high = upper_bound_of_prefix(encode(&prefix, id, high)?.as_bytes());
            let low = encode(&prefix, id, low)?;
            return Some(Range { index, low, high, columns: fixed + 1 });
        }
        break;
    }
    let high = upper_bound_of_prefix(prefix.as_bytes());
    (fixed > 0).then_some(Range { index, low: prefix, high, columns: fixed })
}

/// Rows that were found by an index.
pub(crate) struct KeyScan {
    name: String,
    batch: RecordBatch,
    properties: Arc<PlanProperties>,
}

impl KeyScan {
    fn new(name: String, batch: RecordBatch) -> KeyScan {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(batch.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        KeyScan { name, batch, properties: Arc::new(properties) }
    }
}

impl fmt::Debug for KeyScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for KeyScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyScan: {}, rows={}", self.name, self.batch.num_rows())
    }
}

impl ExecutionPlan for KeyScan {
    fn name(&self) -> &str {
        "KeyScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batch = (self.batch.num_rows() > 0).then(|| Ok(self.batch.clone()));
        let schema = self.batch.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batch))))
    }

    fn partition_statistics(&self, _: Option<usize>) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.batch.schema());
        statistics.num_rows = Precision::Exact(self.batch.num_rows());
        Ok(Arc::new(statistics))
    }
}
