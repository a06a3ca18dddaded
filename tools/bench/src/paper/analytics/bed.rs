//! A loaded store with its analytical side, asked as sessions ask it.

use std::sync::Arc;

use analytics::datafusion::arrow::array::RecordBatch;
use analytics::datafusion::prelude::SessionContext;
use analytics::{Analytics, AnalyticsOptions, Query};
use anyhow::{Context, Result};
use futures::TryStreamExt;
use procedure::Column;
use sql::SessionInfo;
use sql::analytical_engine::{AnalyticalEngine, Execution, Limits, QueryRequest, Row};
use sql::session::schema::Schema;
use sql::settings::Settings;
use storage::{Snapshot, Store};
use tokio::runtime::Runtime;
use workloads::analytical::Analytical;

use crate::answers::{Answer, Answerer};
use crate::bed::Source;

const IMAGE_BYTES_MAX: u64 = 8 << 30;
const QUERY_BYTES_MAX: usize = 4 << 30;
const THREADS: usize = 2;

pub(super) struct AnalyticalBed {
    store: Arc<Store>,
    analytics: Analytics,
    /// Of those that ask; queries have threads of their own.
    runtime: Runtime,
}

/// All rows of a query.
pub(super) struct Rows {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

impl AnalyticalBed {
    /// `threads` run a query.
    pub fn new(store: &Arc<Store>, threads: usize) -> Result<AnalyticalBed> {
        let options = AnalyticsOptions {
            threads,
            image_bytes_max: IMAGE_BYTES_MAX,
            query_bytes_max: QUERY_BYTES_MAX,
            spill_folder: None,
        };
        let analytics = Analytics::new(Arc::clone(store), &options)?;
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(threads).build()?;
        Ok(AnalyticalBed { store: Arc::clone(store), analytics, runtime })
    }

    /// A query's rows, on a snapshot of its own.
    pub fn run(&self, text: &str) -> Result<Rows> {
        let snapshot = Arc::new(self.store.snapshot());
        let versioned = Schema::new().of(&snapshot);
        let parsed = sql::parse(text)?.pop().context("no statement")?;
        let plan = self.analytics.prepare(&QueryRequest {
            catalog: &versioned.catalog,
            version: versioned.version,
            info: &SessionInfo::default(),
            settings: &Settings::default(),
            text,
            query: parsed.query().context("not a query")?,
            parameter_types: &[],
            interrupt: None,
            agreeing: false,
            system: None,
        })?;
        let columns = plan.columns().to_vec();
        let execution = Execution {
            snapshot,
            parameters: [].into(),
            settings: Settings::default(),
            now_us: 0,
            limits: Limits::default(),
        };
        let batches = self.runtime.block_on(plan.run(execution).try_collect::<Vec<_>>())?;
        Ok(Rows { columns, rows: batches.into_iter().flatten().collect() })
    }

    /// A table's rows as the images give them.
    pub fn batches(&self, table: &storage::Table) -> Result<Vec<RecordBatch>> {
        let snapshot: Arc<Snapshot> = Arc::new(self.store.snapshot());
        let tables = [(table.schema().name.to_string(), table.id())];
        let text = format!("SELECT * FROM {}", table.schema().name);
        let query = Query { snapshot, tables: &tables, text: &text };
        Ok(self.runtime.block_on(self.analytics.run(&query))?.batches)
    }

    /// The number of rows that another context of DataFusion's gives.
    pub fn count_in(&self, context: &SessionContext, text: &str) -> Result<usize> {
        let batches = self.runtime.block_on(async { context.sql(text).await?.collect().await })?;
        Ok(batches.iter().map(RecordBatch::num_rows).sum())
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }
}

impl Rows {
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// As a client would see them.
    pub fn answer(&self) -> Answer {
        let cell = |(value, column): (&types::Value, &Column)| {
            (!value.is_null()).then(|| value.to_text(&column.data_type))
        };
        let row = |row: &Row| row.iter().zip(&self.columns).map(cell).collect();
        Answer {
            columns: self.columns.iter().map(|column| column.name.clone()).collect(),
            rows: self.rows.iter().map(row).collect(),
        }
    }
}

/// The engine without sessions, which has to be loaded before it is asked.
#[derive(Default)]
pub struct InProcess(Option<AnalyticalBed>);

impl Answerer for InProcess {
    fn name(&self) -> String {
        "tally".to_owned()
    }

    fn load(&mut self, workload: &Analytical) -> Result<()> {
        let source = Source::of(&workload.schema, &workload.fills)?;
        self.0 = Some(AnalyticalBed::new(source.store(), THREADS)?);
        Ok(())
    }

    fn ask(&mut self, query: &str) -> Result<Answer> {
        let bed = self.0.as_ref().context("nothing was loaded")?;
        Ok(bed.run(query)?.answer())
    }
}
