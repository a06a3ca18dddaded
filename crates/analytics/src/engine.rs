//! What all analytical queries of a node share: threads, memory, images; and how one runs.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use snapshot::{ImageUsage, Images};
use storage::{Snapshot, Store};
use types::TableId;

use crate::table::SnapshotTable;

/// What analytical queries may use.
#[derive(Clone, Debug)]
pub struct AnalyticsOptions {
    /// Threads of a query.
    pub threads: usize,
    /// Columnar images of all tables.
    pub image_bytes_max: u64,
    /// What operators of all queries hold: hash tables, sorts, windows.
    pub query_bytes_max: usize,
    /// Where operators spill to; `None`: a query that needs more is refused.
    pub spill_folder: Option<PathBuf>,
}

/// The analytical side of a store.
pub struct Analytics {
    images: Arc<Images>,
    environment: Arc<RuntimeEnv>,
    config: SessionConfig,
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
            .with_memory_pool(pool)
            .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(spills));
        let config = SessionConfig::new()
            .with_target_partitions(options.threads)
            .with_default_catalog_and_schema("tally", "public")
            .with_information_schema(false);
        Ok(Analytics {
            images: Arc::new(Images::new(store, options.image_bytes_max)),
            environment: environment.build_arc()?,
            config,
        })
    }

    pub fn image_usage(&self) -> ImageUsage {
        self.images.usage()
    }

    /// Runs a query to its end, on the caller's runtime.
    pub async fn run(&self, query: &Query<'_>) -> Result<Answer> {
        let state = SessionStateBuilder::new()
            .with_config(self.config.clone())
            .with_runtime_env(self.environment.clone())
            .with_default_features()
            .build();
        let context = SessionContext::new_with_state(state);
        for (name, id) in query.tables {
            if let Some(scan) = self.images.scan(query.snapshot.clone(), *id) {
                context.register_table(name.as_str(), Arc::new(SnapshotTable::new(scan)))?;
            }
        }
        let plan = context.sql(query.text).await?.create_physical_plan().await?;
        let schema = plan.schema();
        let batches = datafusion::physical_plan::collect(plan.clone(), context.task_ctx()).await?;
        Ok(Answer { schema, batches, plan })
    }
}
