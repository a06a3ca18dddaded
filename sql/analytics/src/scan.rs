//! The leaf of every plan: images of row groups, as batches.

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::stream;
use snapshot::{ImageWork, TableScan};
use types::{ColumnId, Layout};

use crate::runtime_filter::{RuntimeFilter, is_dynamic};
use crate::statistics::estimate;

/// Reads columns of some groups of a table. Partition `p` of `n` has every `n`-th group from the
/// `p`-th on, so that the newest rows, which lie together, are shared out.
pub(crate) struct ImageScan {
    scan: Arc<TableScan>,
    columns: Vec<ColumnId>,
    schema: SchemaRef,
    groups: Arc<[usize]>,
    limit: Option<usize>,
    /// That operators above make while they run.
    filters: Arc<[Arc<dyn PhysicalExpr>]>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// Of the whole, once it was asked for.
    statistics: OnceLock<Arc<Statistics>>,
}

/// What a partition's reading came to.
#[derive(Clone)]
struct Counts {
    rows: Count,
    built_bytes: Count,
    patched_bytes: Count,
    reused_bytes: Count,
    patched_rows: Count,
}

impl Counts {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Counts {
        let count = |name| MetricBuilder::new(metrics).counter(name, partition);
        Counts {
            rows: MetricBuilder::new(metrics).output_rows(partition),
            built_bytes: count("image_built_bytes"),
            patched_bytes: count("image_patched_bytes"),
            reused_bytes: count("image_reused_bytes"),
            patched_rows: count("image_patched_rows"),
        }
    }

    fn add(&self, work: &ImageWork) {
        self.built_bytes.add(work.built_bytes as usize);
        self.patched_bytes.add(work.patched_bytes as usize);
        self.reused_bytes.add(work.reused_bytes as usize);
        self.patched_rows.add(work.patched_rows as usize);
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
        ImageScan {
            scan,
            columns,
            schema,
            groups,
            limit,
            filters: Arc::new([]),
            properties,
            metrics,
            statistics: OnceLock::new(),
        }
    }

    /// The same with other filters.
    fn with_filters(&self, filters: Arc<[Arc<dyn PhysicalExpr>]>) -> ImageScan {
        ImageScan {
            scan: self.scan.clone(),
            columns: self.columns.clone(),
            schema: self.schema.clone(),
            groups: self.groups.clone(),
            limit: self.limit,
            filters,
            properties: self.properties.clone(),
            metrics: ExecutionPlanMetricsSet::new(),
            statistics: self.statistics.clone(),
        }
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
        if self.scan.layout() == Layout::Column {
            write!(f, ", layout=column")?;
        }
        self.limit.map_or(Ok(()), |limit| write!(f, ", limit={limit}"))?;
        self.filters.iter().try_for_each(|filter| write!(f, ", while it runs: {filter}"))
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
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut recursion = TreeNodeRecursion::Continue;
        for filter in &*self.filters {
            recursion = recursion.visit_sibling(|| visit(filter))?;
        }
        Ok(recursion)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    /// Another run has other filters.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.with_filters(Arc::new([]))))
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        asked: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let filters = asked.parent_filters.iter().map(|asked| &asked.filter);
        let filters = filters.filter(|filter| is_dynamic(filter, &self.schema)).cloned();
        let filters: Arc<[_]> = self.filters.iter().cloned().chain(filters).collect();
        let answer = FilterPushdownPropagation::all_unsupported(asked);
        // So many rows are so many of all, not of those that pass.
        Ok(match self.limit.is_some() || filters.len() == self.filters.len() {
            true => answer,
            false => answer.with_updated_node(Arc::new(self.with_filters(filters))),
        })
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (scan, groups) = (self.scan.clone(), self.groups.clone());
        let (columns, schema) = (self.columns.clone(), self.schema.clone());
        let partitions = self.partitions();
        let mut mine = (partition..groups.len()).step_by(partitions);
        let counts = Counts::new(&self.metrics, partition);
        let mut left = self.limit.unwrap_or(usize::MAX);
        let mut read = move || -> Result<Option<RecordBatch>> {
            while left > 0
                && let Some(place) = mine.next()
            {
                // While operators look at this batch, the next ones' changed rows come from memory.
                let next = |ahead| groups.get(place + ahead * partitions).copied();
                scan.prefetch([1, 2, 3].map(next));
                let batch = batch(&scan, groups[place], &columns, &schema, &counts)?;
                if batch.num_rows() > 0 {
                    let batch = batch.slice(0, left.min(batch.num_rows()));
                    left -= batch.num_rows();
                    counts.rows.add(batch.num_rows());
                    return Ok(Some(batch));
                }
            }
            Ok(None)
        };
        let batch_rows = context.session_config().batch_size();
        let mut runtime_filter = RuntimeFilter::new(&self.filters, self.schema.clone(), batch_rows);
        let mut next = move || loop {
            match read()? {
                None => return runtime_filter.finish(),
                Some(batch) => match runtime_filter.push(batch)? {
                    None => {}
                    some => return Ok(some),
                },
            }
        };
        let batches = std::iter::from_fn(move || next().transpose());
        let schema = self.schema.clone();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let of_table = self.statistics.get_or_init(|| {
            Arc::new(estimate(&self.scan, &self.columns, &self.schema, &self.groups))
        });
        let Some(_) = partition else { return Ok(of_table.clone()) };
        let mut statistics = Statistics::clone(of_table);
        statistics.num_rows = statistics.num_rows.map(|rows| rows.div_ceil(self.partitions()));
        Ok(Arc::new(statistics))
    }
}
