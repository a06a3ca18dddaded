//! A table, as DataFusion sees tables.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraint, Constraints, Result, ToDFSchema};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use snapshot::{Images, TableScan};
use sql::settings::Settings;
use storage::Snapshot;
use types::{ColumnId, Error, SqlState, TableSchema};

use crate::faults::raise;
use crate::interrupt::{Ended, check};
use crate::lookup::key_scan;
use crate::scan::ImageScan;
use crate::sql_types::field;
use crate::zones::possible_groups;

/// A table without its dropped and hidden columns: as of a snapshot, or of the one that a query
/// brings when it runs.
pub struct SnapshotTable {
    table: Arc<TableSchema>,
    scan: Option<Arc<TableScan>>,
    columns: Vec<ColumnId>,
    schema: SchemaRef,
    constraints: Constraints,
}

/// What a query reads, among the extensions of its session's configuration.
pub(crate) struct Reading {
    pub(crate) images: Arc<Images>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) ended: Ended,
    pub(crate) settings: Settings,
    pub(crate) now_us: i64,
}

impl SnapshotTable {
    pub fn new(scan: TableScan) -> SnapshotTable {
        let table = scan.table().schema().clone();
        SnapshotTable { scan: Some(Arc::new(scan)), ..SnapshotTable::unbound(table) }
    }

    /// A table of whatever snapshot the query brings.
    pub(crate) fn unbound(table: Arc<TableSchema>) -> SnapshotTable {
        let columns: Vec<ColumnId> = table.visible_columns().map(|(id, _)| id).collect();
        let place = |id: &ColumnId| columns.iter().position(|column| column == id);
        let key: Option<Vec<usize>> = table.primary_key.iter().map(place).collect();
        let key = key.filter(|key| !key.is_empty()).map(Constraint::PrimaryKey);
        let fields = columns.iter().map(|&id| {
            let column = &table.columns[usize::from(id)];
            field(&column.name, &column.data_type, column.nullable)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let constraints = Constraints::new_unverified(key.into_iter().collect());
        SnapshotTable { table, scan: None, columns, schema, constraints }
    }

    /// The table of the query's snapshot.
    fn bound(&self, session: &dyn Session) -> Result<Arc<TableScan>> {
        if let Some(scan) = &self.scan {
            return Ok(scan.clone());
        }
        let reading = session.config().get_extension::<Reading>();
        // A run that has ended plans no further.
        reading.as_ref().map_or(Ok(()), |reading| check(&reading.ended))?;
        let scan = reading.and_then(|r| r.images.scan(r.snapshot.clone(), self.table.id));
        scan.map(Arc::new).ok_or_else(|| {
            let message = format!("relation \"{}\" does not exist", self.table.name);
            let error = Error::new(SqlState::UNDEFINED_TABLE, message);
            raise(error.with_detail("It was not there yet in the block that is read."))
        })
    }
}

impl fmt::Debug for SnapshotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.table.name;
        match &self.scan {
            Some(scan) => write!(f, "SnapshotTable({name} as of block {})", scan.height()),
            None => write!(f, "SnapshotTable({name})"),
        }
    }
}

#[async_trait]
impl TableProvider for SnapshotTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The primary key, so that grouping by it makes the other columns known.
    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = self.bound(session)?;
        let (columns, schema) = match projection {
            Some(places) => (
                places.iter().map(|&place| self.columns[place]).collect(),
                Arc::new(self.schema.project(places)?),
            ),
            None => (self.columns.clone(), self.schema.clone()),
        };
        if let Some(found) = key_scan(&scan, filters, &columns, &schema)? {
            return Ok(Arc::new(found));
        }
        let predicate = match conjunction(filters.iter().cloned()) {
            None => None,
            Some(filter) => {
                let schema = self.schema.clone().to_dfschema()?;
                Some(session.create_physical_expr(filter, &schema)?)
            }
        };
        let groups = possible_groups(&scan, &self.columns, &self.schema, predicate.as_ref())?;
        let partitions = session.config().target_partitions();
        Ok(Arc::new(ImageScan::new(scan, columns, schema, groups, limit, partitions)))
    }

    /// Zones leave out groups, never rows: filters look at the rows again.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }
}
