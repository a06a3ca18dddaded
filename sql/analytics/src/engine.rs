//! The analytical engine of a node: DataFusion with the node's threads, memory pool and images, and
//! how a query runs on it.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList,
    MemorySchemaProvider,
};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::AggregateUDF;
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use parking_lot::Mutex;
use snapshot::{ImageUsage, Images};
use sql::analytical_engine::{AnalyticalEngine, AnalyticalPlan, QueryRequest};
use storage::{Snapshot, Store};
use types::TableId;

use crate::arithmetic::Arithmetic;
use crate::cache::{Asked, PlanCache};
use crate::exact::{Exact, Function};
use crate::literals::Literals;
use crate::prepare::prepare;
use crate::running::{Threads, on_deep_stack};
use crate::shared::Shared;
use crate::table::SnapshotTable;

/// Rows of a join's smaller side that one thread collects for all, so that the larger side does
/// not go from thread to thread row by row: the fewer threads wait for it, the more.
const COLLECTED_ROWS: usize = 8 << 20;
const COLLECTED_ROWS_MIN: usize = 128 << 10;
/// Such a row, where its size is known and their number is not.
const COLLECTED_ROW_BYTES: usize = 64;

/// What analytical queries may use.
#[derive(Clone, Debug)]
pub struct AnalyticsOptions {
    /// Threads of a query, and of all together.
    pub threads: usize,
    /// Columnar images of all tables.
    pub image_bytes_max: u64,
    /// What operators of all queries hold: hash tables, sorts, windows.
    pub query_bytes_max: usize,
    /// Where operators spill to; `None`: a query that needs more is refused.
    pub spill_folder: Option<PathBuf>,
}

/// For metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnalyticsUsage {
    pub images: ImageUsage,
    /// Queries that run, or that wait for their rows to be fetched.
    pub running: usize,
    /// What operators of all queries hold.
    pub query_bytes: usize,
}

/// The analytical side of a store.
pub struct Analytics {
    shared: Arc<Shared>,
    plans: Mutex<PlanCache>,
    pool: Arc<FairSpillPool>,
}

/// A query's tables: the names that it may use.
pub struct Query<'a> {
    pub snapshot: Arc<Snapshot>,
    pub tables: &'a [(String, TableId)],
    pub text: &'a str,
}

/// All rows of a query, and how they were found.
pub struct Answer {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
    pub plan: Arc<dyn ExecutionPlan>,
}

impl Answer {
    /// The operators, one a line, children below and further right.
    pub fn plan_text(&self) -> String {
        displayable(&*self.plan).indent(false).to_string()
    }
}

impl Analytics {
    pub fn new(store: Arc<Store>, options: &AnalyticsOptions) -> Result<Analytics> {
        let pool = Arc::new(FairSpillPool::new(options.query_bytes_max));
        let spills = match &options.spill_folder {
            Some(folder) => DiskManagerMode::Directories(vec![folder.clone()]),
            None => DiskManagerMode::Disabled,
        };
        let environment = RuntimeEnvBuilder::new()
            .with_memory_pool(pool.clone())
            .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(spills));
        let mut config = SessionConfig::new()
            .with_target_partitions(options.threads)
            .with_default_catalog_and_schema("tally", "public")
            .with_information_schema(false);
        let execution = &mut config.options_mut().execution;
        execution.time_zone = Some("UTC".to_owned());
        // It refuses a UNION whose sides are of two types of text: planned, the column has no type
        // of SQL's any more, and run, it has the first one's.
        execution.skip_physical_aggregate_schema_check = true;
        let collected_rows = (COLLECTED_ROWS / options.threads.max(2)).max(COLLECTED_ROWS_MIN);
        let optimizer = &mut config.options_mut().optimizer;
        // Its filter knows the smallest and largest of plain columns so far, and drops rows that
        // other aggregates of the same query still wait for: an expression's, or a column's that
        // has been NULL so far.
        optimizer.enable_aggregate_dynamic_filter_pushdown = false;
        optimizer.hash_join_single_partition_threshold_rows = collected_rows;
        optimizer.hash_join_single_partition_threshold = collected_rows * COLLECTED_ROW_BYTES;
        let mut state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(environment.build_arc()?)
            .with_default_features()
            .build();
        for function in [Function::Sum, Function::Avg] {
            state.register_udaf(Arc::new(AggregateUDF::new_from_impl(Exact::new(function))))?;
        }
        let rules = state.physical_optimizers().iter();
        let still = rules.filter(|rule| !rule.name().starts_with("FilterPushdown")).cloned();
        let still = still.collect::<Vec<_>>();
        debug_assert_eq!(still.len() + 2, state.physical_optimizers().len());
        let mut still_state = SessionStateBuilder::new_from_existing(state.clone())
            .with_physical_optimizer_rules(still)
            .build();
        still_state.config_mut().options_mut().optimizer.enable_dynamic_filter_pushdown = false;
        let behind = |first: Arithmetic| -> Vec<Arc<dyn ExprPlanner>> {
            let first: [Arc<dyn ExprPlanner>; 2] = [Arc::new(Literals), Arc::new(first)];
            first.into_iter().chain(state.expr_planners().iter().cloned()).collect()
        };
        let operators = behind(Arithmetic::default());
        let agreeing_operators = behind(Arithmetic::agreeing());
        let threads = Threads::new(options.threads).map_err(DataFusionError::IoError)?;
        let images = Arc::new(Images::new(store.clone(), options.image_bytes_max));
        let copies: Weak<Images> = Arc::downgrade(&images);
        store.keep_copies(copies);
        let shared =
            Arc::new(Shared { images, state, still_state, operators, agreeing_operators, threads });
        Ok(Analytics { shared, plans: Mutex::default(), pool })
    }

    pub fn usage(&self) -> AnalyticsUsage {
        let (images, running) = (self.shared.images.usage(), self.shared.threads.running());
        AnalyticsUsage { images, running, query_bytes: self.pool.reserved() }
    }

    /// Runs a query in DataFusion's own SQL to its end, on the caller's runtime.
    pub async fn run(&self, query: &Query<'_>) -> Result<Answer> {
        // Names are each query's own.
        let catalog = MemoryCatalogProvider::new();
        catalog.register_schema("public", Arc::new(MemorySchemaProvider::new()))?;
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog("tally".to_owned(), Arc::new(catalog));
        let state = SessionStateBuilder::new_from_existing(self.shared.state.clone())
            .with_catalog_list(Arc::new(catalogs))
            .build();
        let context = SessionContext::new_with_state(state);
        for (name, id) in query.tables {
            if let Some(scan) = self.shared.images.scan(query.snapshot.clone(), *id) {
                context.register_table(name.as_str(), Arc::new(SnapshotTable::new(scan)))?;
            }
        }
        let plan = context.sql(query.text).await?.create_physical_plan().await?;
        let schema = plan.schema();
        let batches = datafusion::physical_plan::collect(plan.clone(), context.task_ctx()).await?;
        Ok(Answer { schema, batches, plan })
    }
}

impl AnalyticalEngine for Analytics {
    fn prepare(&self, request: &QueryRequest<'_>) -> types::Result<Arc<dyn AnalyticalPlan>> {
        let asked = Asked {
            text: request.text.to_owned(),
            version: request.version,
            agreeing: request.agreeing,
            parameter_types: request.parameter_types.to_vec(),
        };
        // What system tables say may be of one session alone.
        let is_shared = request.system.is_none();
        if let Some(plan) = self.plans.lock().find(&asked).filter(|_| is_shared) {
            return Ok(plan);
        }
        let plan = Arc::new(on_deep_stack(|| prepare(&self.shared, request))?);
        if is_shared {
            self.plans.lock().keep(asked, plan.clone());
        }
        Ok(plan)
    }
}
