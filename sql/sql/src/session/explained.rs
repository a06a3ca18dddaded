//! EXPLAIN and EXPLAIN ANALYZE: which executor runs a statement and why, its plan, and with ANALYZE
//! what the run measured.

use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt;
use types::{Error, Result, Value};

use super::answer::{Answer, Tag};
use super::prepared::{Action, Prepared};
use super::{Session, View};
use crate::bind::statement::Program;
use crate::plan::analytical_engine::AnalyticalPlan;
use crate::plan::explain::Explained;
use crate::plan::router::{self, Reason};
use crate::settings::Executor;
use crate::syntax::explain::ExplainOptions;

impl Session {
    pub(super) async fn explain(
        &mut self,
        prepared: &Arc<Prepared>,
        options: &ExplainOptions,
        parameters: &[Value],
        view: View,
    ) -> Result<Answer> {
        let analyze = options.analyze;
        let explained = match &prepared.bound.statement {
            Action::Analytical { plan, reason, .. } => {
                self.explain_analytical(plan.clone(), reason, analyze, parameters, view).await?
            }
            Action::Program(
                Program::Procedure(procedure)
                | Program::Call { procedure, .. }
                | Program::CopyOut { query: procedure, .. },
            ) => match self.broad(prepared, parameters, &view) {
                Some((plan, reason)) => {
                    self.explain_analytical(plan, &reason, analyze, parameters, view).await?
                }
                None => {
                    let lines = crate::plan::explain::lines(&view.versioned.catalog, procedure);
                    let reason = self.why_fast(prepared, &view);
                    let measured = match analyze {
                        true => Some(self.measured(prepared, parameters, view).await?),
                        false => None,
                    };
                    Explained { engine: "fast path".into(), reason, lines, measured }
                }
            },
            _ => return Err(Error::unsupported("EXPLAIN of this statement")),
        };
        Ok(Answer::explained(&options.rows(&explained)))
    }

    fn why_fast(&self, prepared: &Prepared, view: &View) -> String {
        if self.executor == Executor::Rows {
            return Reason::Asked.to_string();
        }
        if prepared.temporary {
            return "because it reads temporary tables".into();
        }
        if prepared.scanned.is_empty() {
            return "because it reads no table without two bounds".into();
        }
        let snapshot = match &self.transaction {
            Some(transaction) if !transaction.only_reads() => {
                return "because the transaction may still write, and has to keep what it read"
                    .into();
            }
            Some(transaction) => Some(transaction.snapshot()),
            None => view.snapshot.as_deref(),
        };
        let rows = snapshot.map_or(0, |snapshot| router::rows(snapshot, &prepared.scanned));
        let few = prepared.outgrown_at.unwrap_or(router::BROAD_ROWS_MIN);
        match (rows < few, &self.database.analytical_engine) {
            (true, _) => format!("because the tables that it reads whole are small: {rows} rows"),
            (false, None) => "because there is no other".into(),
            (false, Some(_)) => {
                "because DataFusion might answer in other digits or types, or not at all".into()
            }
        }
    }

    async fn explain_analytical(
        &mut self,
        plan: Arc<dyn AnalyticalPlan>,
        reason: &Reason,
        analyze: bool,
        parameters: &[Value],
        view: View,
    ) -> Result<Explained> {
        let reads_tables = analyze && plan.reads_tables();
        let execution = self.execution(&*plan, parameters, view, reads_tables)?;
        let (engine, reason) = (plan.engine(&execution.snapshot).to_owned(), reason.to_string());
        // It measures itself.
        let lines = plan.explain(execution, analyze).await?;
        Ok(Explained { engine, reason, lines, measured: None })
    }

    /// Runs a statement, as PostgreSQL does: one that writes has written. Its rows, and how many
    /// milliseconds it took.
    async fn measured(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        view: View,
    ) -> Result<(u64, f64)> {
        let began = Instant::now();
        let answer = Box::pin(self.run(prepared, parameters, view)).await?;
        let rows = match answer {
            Answer::Rows { rows, .. } => rows.len() as u64,
            Answer::Tag(Tag::Counted(_, rows)) => rows,
            Answer::Stream { mut rows, .. } | Answer::CopyOut { mut rows, .. } => {
                let mut count = 0;
                while let Some(batch) = rows.next().await {
                    count += batch?.len() as u64;
                }
                count
            }
            _ => 0,
        };
        Ok((rows, began.elapsed().as_secs_f64() * 1e3))
    }
}
