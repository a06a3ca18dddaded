//! A table of a snapshot, as DataFusion sees tables.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraint, Constraints, Result, ToDFSchema};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use snapshot::TableScan;
use types::ColumnId;

use crate::scan::ImageScan;
use crate::zones::possible_groups;

/// A table as of a snapshot, without its dropped and hidden columns.
pub struct SnapshotTable {
    scan: Arc<TableScan>,
    columns: Vec<ColumnId>,
    schema: SchemaRef,
    constraints: Constraints,
}

impl SnapshotTable {
    pub fn new(scan: TableScan) -> SnapshotTable {
        let table = scan.table().schema().clone();
        let hidden = |id: &ColumnId| table.hidden_row_id && table.primary_key.contains(id);
        let all = (0..).zip(&table.columns).filter(|(_, column)| !column.dropped);
        let columns: Vec<ColumnId> = all.map(|(id, _)| id).filter(|id| !hidden(id)).collect();
        let place = |id: &ColumnId| columns.iter().position(|column| column == id);
        let key: Option<Vec<usize>> = table.primary_key.iter().map(place).collect();
        let key = key.filter(|key| !key.is_empty()).map(Constraint::PrimaryKey);
        let schema = scan.schema(&columns);
        let constraints = Constraints::new_unverified(key.into_iter().collect());
        SnapshotTable { scan: Arc::new(scan), columns, schema, constraints }
    }
}

impl fmt::Debug for SnapshotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.scan.table().schema().name;
        write!(f, "SnapshotTable({name} as of block {})", self.scan.height())
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
        let predicate = match conjunction(filters.iter().cloned()) {
            None => None,
            Some(filter) => {
                let schema = self.schema.clone().to_dfschema()?;
                Some(session.create_physical_expr(filter, &schema)?)
            }
        };
        let groups = possible_groups(&self.scan, &self.columns, &self.schema, predicate.as_ref())?;
        let columns = match projection {
            Some(places) => places.iter().map(|&place| self.columns[place]).collect(),
            None => self.columns.clone(),
        };
        let partitions = session.config().target_partitions();
        Ok(Arc::new(ImageScan::new(self.scan.clone(), columns, groups, limit, partitions)))
    }

    /// Zones leave out groups, never rows: whoever filters looks at the rows again.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }
}
