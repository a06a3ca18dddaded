//! A loaded store with its analytical side.

use std::sync::Arc;

use analytics::datafusion::arrow::array::RecordBatch;
use analytics::datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use analytics::datafusion::prelude::SessionContext;
use analytics::{Analytics, AnalyticsOptions, Query};
use anyhow::{Context, Result};
use storage::Store;
use tokio::runtime::Runtime;
use types::TableId;
use workloads::analytical::Analytical;

use crate::answers::{Answer, Answerer};
use crate::bed::Source;

const IMAGE_BYTES_MAX: u64 = 8 << 30;
const QUERY_BYTES_MAX: usize = 4 << 30;
const THREADS: usize = 2;

pub(crate) struct AnalyticalBed {
    pub store: Arc<Store>,
    analytics: Analytics,
    tables: Vec<(String, TableId)>,
    runtime: Runtime,
}

impl AnalyticalBed {
    /// `threads` run a query. With one, that is the thread that asks.
    pub fn new(store: Arc<Store>, threads: usize) -> Result<AnalyticalBed> {
        let options = AnalyticsOptions {
            threads,
            image_bytes_max: IMAGE_BYTES_MAX,
            query_bytes_max: QUERY_BYTES_MAX,
            spill_folder: None,
        };
        let named = |table: &Arc<storage::Table>| (table.schema().name.to_string(), table.id());
        let tables = store.tables().iter().map(named).collect();
        let runtime = match threads {
            1 => tokio::runtime::Builder::new_current_thread().build()?,
            _ => tokio::runtime::Builder::new_multi_thread().worker_threads(threads).build()?,
        };
        let analytics = Analytics::new(Arc::clone(&store), &options)?;
        Ok(AnalyticalBed { store, analytics, tables, runtime })
    }

    /// A query's rows, on a snapshot of its own.
    pub fn run(&self, text: &str) -> Result<Vec<RecordBatch>> {
        let snapshot = Arc::new(self.store.snapshot());
        let query = Query { snapshot, tables: &self.tables, text };
        Ok(self.runtime.block_on(self.analytics.run(&query))?.batches)
    }

    /// The same in another context of DataFusion's.
    pub fn run_in(&self, context: &SessionContext, text: &str) -> Result<Vec<RecordBatch>> {
        Ok(self.runtime.block_on(async { context.sql(text).await?.collect().await })?)
    }

    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().map(|(name, _)| name.as_str())
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
        self.0 = Some(AnalyticalBed::new(source.store().clone(), THREADS)?);
        Ok(())
    }

    fn ask(&mut self, query: &str) -> Result<Answer> {
        let bed = self.0.as_ref().context("nothing was loaded")?;
        answer(&bed.run(query)?)
    }
}

/// The cells as DataFusion writes them.
pub(crate) fn answer(batches: &[RecordBatch]) -> Result<Answer> {
    let options = FormatOptions::default();
    let mut answer = Answer::default();
    for batch in batches {
        let schema = batch.schema();
        answer.columns = schema.fields().iter().map(|field| field.name().clone()).collect();
        let columns = batch.columns().iter();
        let formatters = columns.map(|column| ArrayFormatter::try_new(column, &options));
        let formatters = formatters.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let cells = formatters.iter().zip(batch.columns());
            let cell = cells.map(|(cells, column)| {
                (!column.is_null(row)).then(|| cells.value(row).to_string())
            });
            answer.rows.push(cell.collect());
        }
    }
    Ok(answer)
}
