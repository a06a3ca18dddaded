//! Queries that a session gives to the columnar engine, the
//! [`AnalyticalEngine`](crate::plan::analytical_engine::AnalyticalEngine): which ones, and on which
//! snapshot they run.
//!
//! *Snapshot.* Outside a transaction: the newest durable block's, as for every query. Inside one:
//! the transaction's own, unless it has written, since the analytical engine would not see those
//! writes.
//!
//! *Consequence.* The analytical engine's reads are not recorded in the transaction's footprint
//! (its read set), so COMMIT cannot validate them; after such a query the transaction may not write
//! any more. So a transaction that may still write runs a query on the row executor if it can.

use std::ops::ControlFlow;
use std::sync::Arc;

use futures::stream::StreamExt;
use identity::{Closure, Privileges, RoleId};
use sqlparser::ast;
use types::{DataType, Error, Result, SqlState, Value, Zone};

use super::answer::{Answer, Tag};
use super::guard::aside;
use super::prepared::{Action, Prepared};
use super::versioned::Versioned;
use super::{Session, View};
use crate::bind::statement::{Bound, Program};
use crate::bind::would_differ;
use crate::copy::{CopyFormatter, CopyOptions};
use crate::plan::analytical_engine::{AnalyticalPlan, Execution, Limits, QueryRequest, RowBatches};
use crate::plan::router::{self, Reason};
use crate::schema::catalog::Catalog;
use crate::schema::collations::Collation;
use crate::settings::Executor;
use crate::settings::session_info::SessionInfo;
use crate::syntax::names::{is_no_catalog, object_name};
use crate::syntax::parsed::Parsed;
use crate::syntax::walk;
use procedure::{Interrupt, Output};

/// Queries that a session may have begun and not fetched to their end. Each holds memory that
/// all sessions share.
const RUNS_MAX: usize = 16;

fn too_many_runs() -> Error {
    let what = format!("a session can have at most {RUNS_MAX} unfinished queries over much data");
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what)
        .with_hint("Fetch the open portals to their end or close them, or end the transaction.")
}

/// Whether a user may read what a query names, which its engine asks of no one.
///
/// # Errors
/// 42501.
fn may_read(catalog: &Catalog, info: &SessionInfo, query: &ast::Query) -> Result<()> {
    let roles = catalog.roles();
    let role = roles.find(info.current_user()).map_or(RoleId(0), |role| role.id);
    match roles.is_superuser(role) {
        true => Ok(()),
        // One that is no role any more has the privileges of PUBLIC.
        false => check_reads(catalog, &roles.closure(role), query, 0),
    }
}

/// Views are read with their owners' privileges. A name that WITH gives hides no table that the
/// user may not read: such a query names it otherwise.
fn check_reads(
    catalog: &Catalog,
    closure: &Closure,
    query: &ast::Query,
    depth: usize,
) -> Result<()> {
    let read = walk::relations(query, |name| {
        let check = || -> Result<()> {
            let Ok(key) = object_name(name) else { return Ok(()) };
            let Some(object) = catalog.relation_object(&key) else { return Ok(()) };
            catalog.check_usage(closure, &key)?;
            let may = match catalog.find_table(&key) {
                // Which columns it reads is the engine's to find out.
                Some(table) => table.schema.visible_columns().all(|(column, _)| {
                    let may = catalog.column_privileges(closure, table.id(), column);
                    may.contains(Privileges::SELECT)
                }),
                None => catalog.privileges(closure, &object).contains(Privileges::SELECT),
            };
            if !may {
                return Err(catalog.denied(&object));
            }
            match catalog.view(&key) {
                Some(view) if depth < VIEWS_DEPTH_MAX => {
                    let owner = catalog.owner(&object);
                    match catalog.roles().is_superuser(owner) {
                        true => Ok(()),
                        false => {
                            let owner = catalog.roles().closure(owner);
                            check_reads(catalog, &owner, &view.query, depth + 1)
                        }
                    }
                }
                _ => Ok(()),
            }
        };
        match check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    });
    match read {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Whether a query could compare texts otherwise than by their bytes.
fn is_collated(catalog: &Catalog, query: &ast::Query, depth: usize) -> bool {
    let by_locale = |collation: &Collation| collation.locale.is_some();
    let named = walk::relations(query, |name| {
        let key = object_name(name).unwrap_or_default();
        let found = match (catalog.find_table(&key), catalog.view(&key)) {
            (Some(table), _) => table.collations.values().any(|it| by_locale(it)),
            (None, Some(view)) => {
                depth >= VIEWS_DEPTH_MAX || is_collated(catalog, &view.query, depth + 1)
            }
            (None, None) => false,
        };
        match found {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    named.is_break() || catalog.names_collation(query, by_locale)
}

fn analytical(
    plan: Arc<dyn AnalyticalPlan>,
    reason: Reason,
    parsed: &Parsed,
) -> Result<Bound<Action>> {
    let copy = parsed.copy_options()?;
    Ok(Bound {
        parameters: plan.parameters().to_vec(),
        output: Output::Rows(plan.columns().to_vec()),
        statement: Action::Analytical { plan, reason, copy },
        session_dependent: true,
        zone_dependent: true,
        zoned: Vec::new(),
        by_clocks: false,
    })
}

/// Views on views that can be made are fewer.
const VIEWS_DEPTH_MAX: usize = 32;

impl Session {
    /// Binds for the analytical engine what the row executor has refused.
    pub(super) fn bind_refused(
        &self,
        versioned: &Versioned,
        parsed: &Parsed,
        declared: &[Option<DataType>],
        refusal: Error,
    ) -> Result<Bound<Action>> {
        let in_zone = || self.is_about_times(versioned, parsed);
        if !router::is_refusal(&refusal) || !self.info.zone.is_utc() && in_zone() {
            return Err(refusal);
        }
        let plan = match self.plan(versioned, parsed, declared, false) {
            None => return Err(refusal),
            Some(Ok(plan)) => plan,
            Some(Err(error)) if error.code() == SqlState::INSUFFICIENT_PRIVILEGE => {
                return Err(error);
            }
            Some(Err(_)) if would_differ(&refusal) => return Err(refusal),
            // Its words for a fault that both found are better known.
            Some(Err(error))
                if !is_no_catalog(&refusal)
                    && (error.code() == refusal.code()
                        || error.code() == SqlState::FEATURE_NOT_SUPPORTED) =>
            {
                return Err(refusal);
            }
            Some(Err(error)) => return Err(error),
        };
        analytical(plan, Reason::Refused(refusal.message().to_owned()), parsed)
    }

    /// What `tally.executor` gives to the analytical engine, although the row executor could run
    /// it.
    pub(super) fn for_columns(
        &self,
        versioned: &Versioned,
        parsed: &Parsed,
        declared: &[Option<DataType>],
        bound: Bound<Action>,
    ) -> Result<Bound<Action>> {
        let only_reads = match &bound.statement {
            Action::Program(Program::Procedure(procedure)) => procedure.read_only,
            Action::Program(Program::CopyOut { .. }) => true,
            _ => false,
        };
        let locks = parsed.query().is_none_or(|query| !query.locks.is_empty());
        let in_zone = || self.is_about_times(versioned, parsed);
        if !only_reads || locks || !self.info.zone.is_utc() && in_zone() {
            return Ok(bound);
        }
        match self.plan(versioned, parsed, declared, false) {
            None => Ok(bound),
            Some(plan) => analytical(plan?, Reason::Asked, parsed),
        }
    }

    /// Whether a query could convert moments, which an analytical engine does in UTC: it names a
    /// table that has some, a view, or what takes them apart.
    fn is_about_times(&self, versioned: &Versioned, parsed: &Parsed) -> bool {
        const WORDS: [&str; 8] = [
            "current_date",
            "localtime",
            "date_trunc",
            "date_part",
            "extract(",
            "::date",
            "timetz",
            "time with time zone",
        ];
        let text = parsed.text.to_ascii_lowercase();
        let Some(query) = parsed.query() else { return true };
        let (catalog, mut is_of_none) = (&versioned.catalog, true);
        let named = walk::relations(query, |name| {
            is_of_none = false;
            let name = object_name(name).unwrap_or_default();
            let has_times = catalog.find_table(&name).map(|table| {
                let mut columns = table.schema.columns.iter();
                columns.any(|column| matches!(column.data_type, DataType::Timestamptz(_)))
            });
            match has_times.unwrap_or_else(|| catalog.view(&name).is_some()) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        named.is_break()
            || WORDS.iter().any(|word| text.contains(word))
            || is_of_none && text.contains("timestamp")
    }

    /// `None` where there is no analytical engine, or nothing that it could be asked.
    fn plan(
        &self,
        versioned: &Versioned,
        parsed: &Parsed,
        parameter_types: &[Option<DataType>],
        agreeing: bool,
    ) -> Option<Result<Arc<dyn AnalyticalPlan>>> {
        let analytical_engine = self.database.analytical_engine.as_ref()?;
        let query = parsed.query()?;
        // It compares texts by their bytes.
        if is_collated(&versioned.catalog, query, 0) {
            return None;
        }
        if let Err(error) = may_read(&versioned.catalog, &self.info, query) {
            return Some(Err(error));
        }
        let is_whole = matches!(parsed.copy_options(), Ok(None));
        let text = if is_whole { parsed.text.clone() } else { query.to_string() };
        let request = QueryRequest {
            catalog: &versioned.catalog,
            version: versioned.version,
            info: &self.info,
            settings: &self.settings,
            text: &text,
            query,
            parameter_types,
            interrupt: Some(Arc::clone(&self.guard) as Arc<dyn Interrupt>),
            agreeing,
            system: None,
        };
        // Planning takes milliseconds.
        Some(aside(false, || analytical_engine.prepare(&request)))
    }

    /// The analytical engine's plan of a query that the row executor could run, if the query is
    /// broad and this is no transaction that may still write.
    pub(super) fn broad(
        &self,
        prepared: &Prepared,
        parameters: &[Value],
        view: &View,
    ) -> Option<(Arc<dyn AnalyticalPlan>, Reason)> {
        if prepared.scanned.is_empty()
            || prepared.temporary
            || self.database.analytical_engine.is_none()
            || self.executor == Executor::Rows
        {
            return None;
        }
        let snapshot = match &self.transaction {
            Some(transaction) if transaction.only_reads() => transaction.snapshot(),
            Some(_) => return None,
            None => view.snapshot.as_ref()?,
        };
        let rows = router::rows(snapshot, &prepared.scanned);
        let is_broad = match prepared.outgrown_at {
            Some(rows_min) => rows >= rows_min,
            None => rows >= router::BROAD_ROWS_MIN && router::are_agreed(parameters),
        };
        if !is_broad {
            return None;
        }
        let plan = match prepared.broad.get() {
            Some(plan) => plan,
            None => {
                let plan = self.plan_broad(prepared, &view.versioned).ok()?;
                prepared.broad.get_or_init(|| plan)
            }
        };
        plan.clone().map(|plan| (plan, Reason::Broad(rows)))
    }

    /// Only where the client cannot tell who answers: the same values, and the same types. What has
    /// [outgrown](router::outgrown_at) the row executor is the analytical engine's if the types are
    /// the same.
    ///
    /// # Errors
    /// The planning was ended, so that there is no knowing.
    fn plan_broad(
        &self,
        prepared: &Prepared,
        versioned: &Versioned,
    ) -> Result<Option<Arc<dyn AnalyticalPlan>>> {
        let bound = &prepared.bound;
        let Action::Program(
            Program::Procedure(procedure) | Program::CopyOut { query: procedure, .. },
        ) = &bound.statement
        else {
            return Ok(None);
        };
        let Output::Rows(columns) = &bound.output else {
            return Ok(None);
        };
        let is_strict = prepared.outgrown_at.is_none();
        if bound.session_dependent
            || !self.info.zone.is_utc()
            || is_strict && !router::is_agreed(&versioned.catalog, procedure)
        {
            return Ok(None);
        }
        let declared: Vec<_> = bound.parameters.iter().cloned().map(Some).collect();
        let plan = match self.plan(versioned, &prepared.parsed, &declared, is_strict) {
            Some(Err(error)) if error.code() == SqlState::QUERY_CANCELED => return Err(error),
            planned => planned.and_then(Result::ok),
        };
        Ok(plan.filter(|plan| plan.columns() == columns && plan.parameters() == bound.parameters))
    }

    pub(super) fn analyze(
        &mut self,
        plan: Arc<dyn AnalyticalPlan>,
        copy: Option<&CopyOptions>,
        parameters: &[Value],
        view: View,
    ) -> Result<Answer> {
        if Arc::strong_count(&self.running.runs) > RUNS_MAX {
            return Err(too_many_runs());
        }
        let execution = self.execution(&*plan, parameters, view, plan.reads_tables())?;
        let rows = self.counted(Arc::clone(&plan).run(execution));
        Ok(streamed(&*plan, copy, rows, &self.info.zone))
    }

    /// The analytical engine's answer to a query that the row executor could run. `None` also where
    /// it fails within its [first rows](router::hold_back), which are held back: what the two
    /// compute in another order may be an error for one alone, and the row executor's word counts.
    pub(super) async fn answer_broad(
        &mut self,
        prepared: &Prepared,
        copy: Option<&CopyOptions>,
        parameters: &[Value],
        view: &View,
    ) -> Result<Option<Answer>> {
        let Some((plan, _)) = self.broad(prepared, parameters, view) else {
            return Ok(None);
        };
        if Arc::strong_count(&self.running.runs) > RUNS_MAX {
            return Err(too_many_runs());
        }
        let execution = self.execution(&*plan, parameters, view.clone(), plan.reads_tables())?;
        let rows = self.counted(Arc::clone(&plan).run(execution));
        let Ok(rows) = router::hold_back(rows).await else {
            return Ok(None);
        };
        Ok(Some(streamed(&*plan, copy, rows, &self.info.zone)))
    }

    /// Rows that count as a run until they are all fetched, or given up.
    fn counted(&self, rows: RowBatches) -> RowBatches {
        let run = Arc::clone(&self.running.runs);
        rows.inspect(move |_| _ = &run).boxed()
    }

    /// `reads_tables`: whether this run will, not whether it could.
    pub(super) fn execution(
        &mut self,
        plan: &dyn AnalyticalPlan,
        parameters: &[Value],
        view: View,
        reads_tables: bool,
    ) -> Result<Execution> {
        super::programs::check_kinds(plan.parameters(), parameters)?;
        let (snapshot, head) = match (&mut self.transaction, view.snapshot) {
            (Some(transaction), _) => transaction.read_aside(reads_tables)?,
            (None, Some(snapshot)) => {
                let head = self.head_of(&snapshot)?;
                (snapshot, head)
            }
            (None, None) => {
                return Err(Error::new(SqlState::INTERNAL_ERROR, "a query without a snapshot"));
            }
        };
        let limits = Limits {
            timeout: self.settings.statement_timeout(),
            fetch_timeout: self.settings.fetch_timeout(),
            canceled: self.guard.canceled().clone(),
            memory: Some(Arc::clone(self.guard.pool())),
        };
        if reads_tables {
            self.has_read(head);
        }
        let now_us = head.time_us;
        let mut settings = self.settings.clone();
        settings.cursors = self.cursors.seen();
        Ok(Execution { snapshot, parameters: parameters.into(), settings, now_us, limits })
    }
}

fn streamed(
    plan: &dyn AnalyticalPlan,
    copy: Option<&CopyOptions>,
    rows: RowBatches,
    zone: &Zone,
) -> Answer {
    let columns = plan.columns();
    match copy {
        None => Answer::Stream { rows, tag: Tag::Select },
        Some(options) => {
            let formatter = CopyFormatter::new(options, columns, zone);
            Answer::CopyOut { columns: columns.len(), rows, formatter }
        }
    }
}
