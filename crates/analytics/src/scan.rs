//! The leaf of every plan: images of row groups, as batches.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::stream;
use snapshot::{ImageWork, TableScan};
use storage::GROUP_ROWS;
use types::ColumnId;

/// Reads columns of some groups of a table. Partition `p` of `n` has every `n`-th group from the
/// `p`-th on, so that the newest rows, which lie together, are shared out.
pub(crate) struct ImageScan {
    scan: Arc<TableScan>,
    columns: Vec<ColumnId>,
    schema: SchemaRef,
    groups: Arc<[usize]>,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// What a partition's reading came to.
#[derive(Clone)]
struct Counts {
    rows: Count,
    built_bytes: Count,
    patched_bytes: Count,
    reused_bytes: Count,
}

impl Counts {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Counts {
        let count = |name| MetricBuilder::new(metrics).counter(name, partition);
        Counts {
            rows: MetricBuilder::new(metrics).output_rows(partition),
            built_bytes: count("image_built_bytes"),
            patched_bytes: count("image_patched_bytes"),
            reused_bytes: count("image_reused_bytes"),
        }
    }

    fn add(&self, work: &ImageWork) {
        self.built_bytes.add(work.built_bytes as usize);
        self.patched_bytes.add(work.patched_bytes as usize);
        self.reused_bytes.add(work.reused_bytes as usize);
    }
}

impl ImageScan {
    pub(crate) fn new(
        scan: Arc<TableScan>,
        columns: Vec<ColumnId>,
        schema: SchemaRef,
        groups: Vec<usize>,
        limit: Option<usize>,
        partitions: usize,
    ) -> ImageScan {
        let partitions = partitions.clamp(1, groups.len().max(1));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let (groups, properties) = (groups.into(), Arc::new(properties));
        let metrics = ExecutionPlanMetricsSet::new();
        ImageScan { scan, columns, schema, groups, limit, properties, metrics }
    }

    fn partitions(&self) -> usize {
        self.properties.partitioning.partition_count()
    }
}

/// The rows of a group that exist.
fn batch(
    scan: &TableScan,
    group: usize,
    columns: &[ColumnId],
    schema: &SchemaRef,
    counts: &Counts,
) -> Result<RecordBatch> {
    let read = scan.read(group, columns);
    let read = read.map_err(|error| DataFusionError::External(Box::new(error)))?;
    counts.add(&read.work);
    Ok(read.into_batch(schema.clone())?)
}

impl fmt::Debug for ImageScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for ImageScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, height) = (self.scan.groups(), self.scan.height());
        let name = &self.scan.table().schema().name;
        write!(f, "ImageScan: {name} as of block {height}, groups={} of {all}", self.groups.len())?;
        let names = self.schema.fields().iter().map(|field| field.name().as_str());
        write!(f, ", columns=[{}]", names.collect::<Vec<_>>().join(", "))?;
        self.limit.map_or(Ok(()), |limit| write!(f, ", limit={limit}"))
    }
}

impl ExecutionPlan for ImageScan {
    fn name(&self) -> &str {
        "ImageScan"
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

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (scan, groups) = (self.scan.clone(), self.groups.clone());
        let (columns, schema) = (self.columns.clone(), self.schema.clone());
        let mine = (partition..groups.len()).step_by(self.partitions());
        let counts = Counts::new(&self.metrics, partition);
        let mut left = self.limit.unwrap_or(usize::MAX);
        let batches = mine.filter_map(move |place| {
            if left == 0 {
                return None;
            }
            match batch(&scan, groups[place], &columns, &schema, &counts) {
                Ok(batch) if batch.num_rows() == 0 => None,
                Ok(batch) => {
                    let batch = batch.slice(0, left.min(batch.num_rows()));
                    left -= batch.num_rows();
                    counts.rows.add(batch.num_rows());
                    Some(Ok(batch))
                }
                Err(error) => Some(Err(error)),
            }
        });
        let schema = self.schema.clone();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let groups = match partition {
            None => self.groups.len(),
            Some(_) => self.groups.len().div_ceil(self.partitions()),
        };
        let rows = self.scan.table().usage().records as usize;
        let mut statistics = Statistics::new_unknown(&self.schema);
        statistics.num_rows = Precision::Inexact(rows.min(groups * GROUP_ROWS));
        Ok(Arc::new(statistics))
    }
}
