//! A planned query, and its runs.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ParamValues, Result as DataFusionResult, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::simplify_expressions::SimplifyExpressions;
use datafusion::optimizer::{Optimizer, OptimizerContext};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{ExecutionPlan, displayable, execute_stream};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use procedure::Column;
use sql::analytical_engine::{AnalyticalPlan, Execution, Row, RowBatches};
use storage::Snapshot;
use types::{DataType, Result, Value};

use crate::faults::in_sql;
use crate::interrupt::interruptible;
use crate::rows::{Shown, pieces};
use crate::running::{Output, Unwanted};
use crate::shared::Shared;
use crate::sql_types::{now, scalar};
use crate::table::Reading;

/// The placeholder of the time that a run takes for now.
pub(crate) const NOW: &str = "now";

/// An optimised plan, of no snapshot yet.
pub(crate) struct Plan {
    pub(crate) shared: Arc<Shared>,
    pub(crate) logical: LogicalPlan,
    pub(crate) columns: Vec<Column>,
    pub(crate) shown: Vec<Shown>,
    pub(crate) parameters: Vec<DataType>,
    pub(crate) reads_tables: bool,
    /// It has placeholders.
    pub(crate) open: bool,
    /// [`repeats_names`] says so.
    pub(crate) repeats_names: bool,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.logical.display_indent())
    }
}

impl AnalyticalPlan for Plan {
    fn engine(&self, _: &Snapshot) -> &'static str {
        "DataFusion"
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn parameters(&self) -> &[DataType] {
        &self.parameters
    }

    fn reads_tables(&self) -> bool {
        self.reads_tables
    }

    fn run(self: Arc<Self>, execution: Execution) -> RowBatches {
        let shared = self.shared.clone();
        let limits = execution.limits.clone();
        shared.threads.rows(limits, |output| async move {
            match self.stream(execution, &output).await {
                Ok(sent) => sent,
                Err(error) => output.send(Err(error)).await,
            }
        })
    }

    fn explain(
        self: Arc<Self>,
        execution: Execution,
        analyze: bool,
    ) -> BoxFuture<'static, Result<Vec<String>>> {
        let shared = self.shared.clone();
        let limits = execution.limits.clone();
        // As rows of one text each, so that a run can be canceled here, too.
        let mut lines = shared.threads.rows(limits, |output| async move {
            let lines = self.explained(execution, analyze, &output).await;
            let row = |line: &String| -> Row { [Value::text(line)].into() };
            output.send(lines.map(|lines| lines.iter().map(row).collect())).await
        });
        async move {
            let mut all = Vec::new();
            while let Some(rows) = lines.next().await {
                let rows = rows?;
                let texts = rows.iter().flat_map(|row| row.iter()).filter_map(Value::as_text);
                all.extend(texts.map(str::to_owned));
            }
            Ok(all)
        }
        .boxed()
    }
}

impl Plan {
    /// `Ok(Err(_))`: the rows are not taken.
    async fn stream(
        &self,
        execution: Execution,
        output: &Output,
    ) -> Result<std::result::Result<(), Unwanted>> {
        let (plan, state) = self.physical(execution, output).await?;
        let mut batches = execute_stream(plan, state.task_ctx()).map_err(in_sql)?;
        while let Some(batch) = batches.next().await {
            let batch = batch.map_err(in_sql)?;
            for piece in pieces(&batch, &self.shown)? {
                if output.send(Ok(piece?)).await.is_err() {
                    return Ok(Err(Unwanted));
                }
            }
        }
        Ok(Ok(()))
    }

    async fn explained(
        &self,
        execution: Execution,
        analyze: bool,
        output: &Output,
    ) -> Result<Vec<String>> {
        let began = Instant::now();
        let height = execution.snapshot.height();
        let (plan, state) = self.physical(execution, output).await?;
        let planned = began.elapsed();
        let mut lines = vec![format!("Snapshot: block {height}")];
        let mut rows = 0;
        if analyze {
            let mut batches = execute_stream(plan.clone(), state.task_ctx()).map_err(in_sql)?;
            while let Some(batch) = batches.next().await {
                rows += batch.map_err(in_sql)?.num_rows();
            }
        }
        let shown = match analyze {
            true => DisplayableExecutionPlan::with_metrics(&*plan).indent(false).to_string(),
            false => displayable(&*plan).indent(false).to_string(),
        };
        lines.extend(shown.lines().map(str::to_owned));
        if analyze {
            let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
            lines.push(format!("Rows: {rows}"));
            lines.push(format!("Planning: {:.3} ms", ms(planned)));
            lines.push(format!("Elapsed: {:.3} ms", ms(began.elapsed())));
        }
        Ok(lines)
    }

    /// The operators, over the run's snapshot and with its parameters in place.
    async fn physical(
        &self,
        execution: Execution,
        output: &Output,
    ) -> Result<(Arc<dyn ExecutionPlan>, SessionState)> {
        let Execution { snapshot, parameters, now_us, settings, .. } = execution;
        let logical = match self.open {
            false => self.logical.clone(),
            true => self.closed(&parameters, now_us)?,
        };
        let mut state = match self.repeats_names {
            false => self.shared.state.clone(),
            true => self.shared.still_state.clone(),
        };
        let (images, ended) = (self.shared.images.clone(), output.ended().clone());
        let reading = Reading { images, snapshot, ended, settings, now_us };
        state.config_mut().set_extension(Arc::new(reading));
        let plan = state.query_planner().create_physical_plan(&logical, &state).await;
        let plan = interruptible(plan.map_err(in_sql)?, output.ended()).map_err(in_sql)?;
        Ok((plan, state))
    }

    /// The plan with values in the place of its placeholders, and constants computed.
    fn closed(&self, parameters: &[Value], now_us: i64) -> Result<LogicalPlan> {
        let mut values = vec![(NOW.to_owned(), ScalarAndMetadata::from(now(now_us)))];
        for (place, (value, data_type)) in parameters.iter().zip(&self.parameters).enumerate() {
            let value: ScalarValue = scalar(value, data_type)?;
            values.push(((place + 1).to_string(), value.into()));
        }
        let values = ParamValues::Map(values.into_iter().collect());
        let plan = self.logical.clone().replace_params_with_values(&values).map_err(in_sql)?;
        let simplify = Optimizer::with_rules(vec![Arc::new(SimplifyExpressions::new())]);
        simplify.optimize(plan, &OptimizerContext::new(), |_, _| ()).map_err(in_sql)
    }
}

/// Whether rows anywhere have two columns of one name, of whatever tables.
pub(crate) fn repeats_names(plan: &LogicalPlan) -> DataFusionResult<bool> {
    let mut repeats = false;
    plan.apply_with_subqueries(|node| {
        let mut names: Vec<_> = node.schema().fields().iter().map(|field| field.name()).collect();
        names.sort_unstable();
        repeats |= names.windows(2).any(|two| two[0] == two[1]);
        Ok(if repeats { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(repeats)
}
