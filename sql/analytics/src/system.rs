//! System tables beside users' own, as DataFusion sees them.
//!
//! Their rows are made by the side that knows the schema ([`SystemTables`]) when a run's operators
//! are, since some of them depend on the session's settings. They are few, so each scan has all of
//! them in one batch. Columns that hold arrays are there, but a plan that [reads
//! one](check_columns) is refused: some of them count from 0, and such a query is another engine's.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan, TableType};
use datafusion::physical_plan::ExecutionPlan;
use procedure::Column;
use sql::analytical_engine::{Row, SystemTables};
use types::{DataType, Error, SqlState, Value};

use crate::faults::raise;
use crate::interrupt::check;
use crate::rows::column;
use crate::sql_types::{OPAQUE, field, is_opaque, sql_type, stored_as};
use crate::table::Reading;

/// A table by its number.
pub(crate) struct SystemTable {
    tables: Arc<dyn SystemTables>,
    number: usize,
    columns: Vec<Column>,
    schema: SchemaRef,
}

impl SystemTable {
    pub(crate) fn new(
        tables: Arc<dyn SystemTables>,
        number: usize,
        columns: Vec<Column>,
    ) -> SystemTable {
        let fields = columns.iter().map(|column| field(&column.name, &column.data_type, true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        SystemTable { tables, number, columns, schema }
    }
}

impl fmt::Debug for SystemTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SystemTable({})", self.number)
    }
}

/// # Errors
/// 0A000 for a plan that reads a column which has no values here.
pub(crate) fn check_columns(plan: &LogicalPlan) -> Result<()> {
    let scan = |plan: &LogicalPlan| {
        if let LogicalPlan::TableScan(TableScan { projected_schema, table_name, .. }) = plan {
            let mut fields = projected_schema.fields().iter();
            let opaque = |field: &FieldRef| {
                *field.data_type() == OPAQUE || sql_type(field).is_ok_and(|t| is_opaque(&t))
            };
            if let Some(field) = fields.find(|field| opaque(field)) {
                let what = format!("the column {}.{} beside much data", table_name, field.name());
                return Err(raise(Error::unsupported(what)));
            }
        }
        Ok(TreeNodeRecursion::Continue)
    };
    plan.apply_with_subqueries(scan).map(|_| ())
}

/// One column of all rows.
fn array(rows: &[Row], place: usize, data_type: &DataType) -> Result<ArrayRef> {
    let arrow = stored_as(data_type);
    let values: Vec<Value> = rows.iter().map(|row| row[place].clone()).collect();
    column(&values, &data_type.stored(), &arrow).map_err(raise)
}

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let reading = session.config().get_extension::<Reading>();
        let reading = reading.ok_or_else(|| {
            raise(Error::new(SqlState::INTERNAL_ERROR, "a system table outside of a run"))
        })?;
        check(&reading.ended)?;
        let rows = self.tables.rows(self.number, &reading.settings, reading.now_us);
        let rows = rows.map_err(raise)?;
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let places = projection.unwrap_or(&all);
        let arrays =
            places.iter().map(|&place| array(&rows, place, &self.columns[place].data_type));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let schema = Arc::new(self.schema.project(places)?);
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?;
        Ok(MemorySourceConfig::try_new_exec(&[vec![batch]], schema, None)?)
    }
}
