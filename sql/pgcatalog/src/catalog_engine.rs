//! System catalogs at the seam between sessions and analytical engines.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use futures::future::{BoxFuture, FutureExt, ready};
use futures::stream::{StreamExt, once};
use kit::pool::Lease;
use kit::sync::lock;
use procedure::{Column, Interrupt};
use sql::analytical_engine::{
    AnalyticalEngine, AnalyticalPlan, Execution, Limits, QueryRequest, RowBatches, SystemTables,
    held,
};
use sql::router::{BROAD_ROWS_MIN, hold_back, is_refusal, rows};
use sql::session::aside;
use sql::settings::Settings;
use sql::{Catalog, SessionInfo};
use sqlparser::ast;
use storage::Snapshot;
use types::{DataType, Error, Result, SqlState};

use crate::agreement::{are_alike, serves_as};
use crate::memory::Memory;
use crate::query::{About, Prepared, about};
use crate::relation;
use crate::world::{Databases, Locks, Members, Row, Session, Sessions, World};

/// Rows of users' tables beyond which only the other engine reads them, where there is one and it
/// knows the query.
const ROWS_MAX: usize = 200_000;

/// Search paths for which the newest schema is kept as system tables show it.
const PATHS_MAX: usize = 4;

/// Answers queries over system catalogs, and leaves the others to another engine.
pub struct CatalogEngine {
    others: Option<Arc<dyn AnalyticalEngine>>,
    memory: Memory,
    locks: Locks,
    members: Members,
    sessions: Sessions,
    databases: Databases,
    /// The newest version of the schema that was asked about, by search path.
    world: Mutex<Vec<(u64, Arc<World>)>>,
}

impl CatalogEngine {
    pub fn new(
        memory: Memory,
        (locks, members, databases): (Locks, Members, Databases),
        others: Option<Arc<dyn AnalyticalEngine>>,
    ) -> CatalogEngine {
        let (sessions, world) = (Sessions::default(), Mutex::default());
        CatalogEngine { others, memory, locks, members, databases, sessions, world }
    }

    /// Shows what these do.
    pub fn with_sessions(self, sessions: Sessions) -> CatalogEngine {
        CatalogEngine { sessions, ..self }
    }

    fn world(&self, request: &QueryRequest<'_>) -> Arc<World> {
        let mut kept = lock(&self.world);
        let is_it = |(version, world): &&(u64, Arc<World>)| {
            *version == request.version && world.path == request.info.path
        };
        match kept.iter().find(is_it) {
            Some((_, world)) => Arc::clone(world),
            None => {
                let (catalog, path) = (Arc::clone(request.catalog), request.info.path.clone());
                let world = Arc::new(World::on_path(catalog, path));
                // Those of sessions with a schema of their own leave the ledger's where it is.
                let is_own = |version: u64| version >> 63 == 1;
                kept.retain(|(version, _)| {
                    *version == request.version || is_own(*version) != is_own(request.version)
                });
                kept.truncate(PATHS_MAX - 1);
                kept.push((request.version, Arc::clone(&world)));
                world
            }
        }
    }

    fn session(&self, request: &QueryRequest<'_>) -> Session {
        Session {
            user: request.info.session_user().to_owned(),
            role: request.info.current_user().to_owned(),
            database: request.info.database.clone(),
            backend_pid: request.info.backend_pid,
            server_version: request.info.server_version.clone(),
            sessions: self.sessions.clone(),
            memory: Some(self.memory.clone()),
            locks: self.locks.clone(),
            members: self.members.clone(),
            databases: self.databases.clone(),
            ..Session::default()
        }
    }
}

impl AnalyticalEngine for CatalogEngine {
    fn prepare(&self, request: &QueryRequest<'_>) -> Result<Arc<dyn AnalyticalPlan>> {
        let about = about(request.query, request.catalog);
        if !about.system {
            check_casts(request.query)?;
        }
        match about {
            About { system: true, tables: true } => self.prepare_mixed(request),
            About { system: false, tables: true } => match &self.others {
                Some(others) => others.prepare(request),
                None => Err(no_engine()),
            },
            about => match (self.prepare_own(request), &self.others) {
                (Ok(plan), _) => Ok(Arc::new(plan)),
                // Without any table, it may be the other's as well.
                (Err(error), Some(others)) if !about.system && is_refusal(&error) => {
                    others.prepare(request).map_err(|_| error)
                }
                (Err(error), _) => Err(error),
            },
        }
    }
}

impl CatalogEngine {
    fn prepare_own(&self, request: &QueryRequest<'_>) -> Result<SystemPlan> {
        let interrupt = request.interrupt.as_deref();
        let (world, types) = (self.world(request), request.parameter_types);
        let prepared = Prepared::new(world, request.info, request.query, types, interrupt)?;
        Ok(SystemPlan { prepared, session: self.session(request) })
    }

    /// System tables beside users': by the interpreter, by the other engine over the rows that this
    /// side has, or by either, as large as users' tables are when it runs.
    fn prepare_mixed(&self, request: &QueryRequest<'_>) -> Result<Arc<dyn AnalyticalPlan>> {
        let own = self.prepare_own(request);
        let Some(others) = self.others.clone() else {
            return own.map(|plan| Arc::new(plan) as Arc<dyn AnalyticalPlan>);
        };
        let system = Tables { world: self.world(request), session: self.session(request) };
        let question = Question {
            others,
            system: Arc::new(system),
            catalog: Arc::clone(request.catalog),
            version: request.version,
            info: request.info.clone(),
            settings: request.settings.clone(),
            text: request.text.to_owned(),
            query: request.query.clone(),
            interrupt: request.interrupt.clone(),
        };
        match own {
            Ok(own) => {
                Ok(Arc::new(MixedPlan { own: Arc::new(own), question, columnar: OnceLock::new() }))
            }
            Err(error) if is_refusal(&error) => question
                .ask(request.parameter_types, request.agreeing)
                .map_err(|other| refused_by_both(error, other)),
            Err(error) => Err(error),
        }
    }
}

/// Types whose values are text here, as far as catalogs need them: neither checked nor compared as
/// PostgreSQL does.
const AS_TEXT: [&str; 10] = [
    "cidr", "float4", "inet", "json", "jsonb", "macaddr", "macaddr8", "real", "tsquery", "tsvector",
];

/// # Errors
/// 0A000: a query that is not about catalogs makes a value of such a type.
fn check_casts(query: &ast::Query) -> Result<()> {
    struct Search;
    impl ast::Visitor for Search {
        type Break = Error;

        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Error> {
            let to = match expr {
                ast::Expr::Cast { data_type, .. } => data_type,
                ast::Expr::TypedString(typed) => &typed.data_type,
                _ => return ControlFlow::Continue(()),
            };
            let name = to.to_string().to_ascii_lowercase();
            match AS_TEXT.contains(&name.trim_end_matches("[]")) {
                true => ControlFlow::Break(
                    Error::unsupported(format_args!("the type {name}"))
                        .with_hint("Keep such values as text, or numbers as double precision."),
                ),
                false => ControlFlow::Continue(()),
            }
        }
    }
    match sql::walk::read(query, &mut Search) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// What is said where neither engine runs a query over tables of both.
fn refused_by_both(own: Error, other: Error) -> Error {
    let is_unknown =
        [SqlState::FEATURE_NOT_SUPPORTED, SqlState::UNDEFINED_FUNCTION].contains(&own.code());
    match is_refusal(&other) {
        false => other,
        true if !is_unknown => own,
        true => own.with_hint(
            "What only system catalogs know and what only queries over much data know cannot meet \
             in one query: put one of them into a query of its own.",
        ),
    }
}

/// A query over tables of both as the other engine is asked, which may be later.
struct Question {
    others: Arc<dyn AnalyticalEngine>,
    system: Arc<dyn SystemTables>,
    catalog: Arc<Catalog>,
    version: u64,
    info: SessionInfo,
    settings: Settings,
    text: String,
    query: ast::Query,
    interrupt: Option<Arc<dyn Interrupt>>,
}

impl Question {
    fn ask(
        &self,
        parameter_types: &[Option<DataType>],
        agreeing: bool,
    ) -> Result<Arc<dyn AnalyticalPlan>> {
        self.others.prepare(&QueryRequest {
            catalog: &self.catalog,
            version: self.version,
            info: &self.info,
            settings: &self.settings,
            text: &self.text,
            query: &self.query,
            parameter_types,
            interrupt: self.interrupt.clone(),
            agreeing,
            system: Some(Arc::clone(&self.system)),
        })
    }
}

fn no_engine() -> Error {
    Error::unsupported("this query without an analytical engine")
        .with_hint("Build it with its feature `analytics`: make run-analytics.")
}

/// The session with what a run has newer.
fn session_now(session: &Session, settings: &Settings, now_us: i64) -> Session {
    let cursors = settings.cursors.clone();
    let settings = settings.show_all().into_iter();
    let settings = settings.map(|(name, value)| (name.into_owned(), value)).collect();
    Session { now_us, settings, cursors, ..session.clone() }
}

/// System tables for the other engine.
struct Tables {
    world: Arc<World>,
    session: Session,
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tables")
    }
}

impl SystemTables for Tables {
    fn find(&self, schema: Option<&str>, name: &str) -> Option<(usize, Vec<Column>)> {
        let place = relation::place(schema.unwrap_or("pg_catalog"), name)?;
        let columns = relation::all()[place].columns.iter().map(|column| Column {
            name: column.name.to_owned(),
            data_type: column.data_type.clone(),
        });
        Some((place, columns.collect()))
    }

    fn rows(&self, place: usize, settings: &Settings, now_us: i64) -> Result<Vec<Row>> {
        let session = session_now(&self.session, settings, now_us);
        Ok(self.world.contents(place, &session)?.rows.clone())
    }
}

#[derive(Debug)]
struct SystemPlan {
    prepared: Prepared,
    session: Session,
}

impl SystemPlan {
    fn rows(&self, execution: &Execution) -> Result<(Vec<Row>, Option<Lease>)> {
        let session = session_now(&self.session, &execution.settings, execution.now_us);
        let interrupt = Arc::new(Until::of(&execution.limits));
        let (parameters, snapshot) = (&execution.parameters, Some(&*execution.snapshot));
        let memory = execution.limits.memory.as_ref();
        aside(false, || self.prepared.run(session, parameters, snapshot, memory, interrupt))
    }
}

/// A query over tables of both.
///
/// | Users' rows | who runs it |
/// |---|---|
/// | fewer than [`BROAD_ROWS_MIN`] | the interpreter |
/// | at most [`ROWS_MAX`] | the other engine, if its [answers are these](are_alike) |
/// | more | the other engine, which alone can |
///
/// Where both can, an error of the other engine's first rows is taken back, and the
/// interpreter's word counts.
struct MixedPlan {
    own: Arc<SystemPlan>,
    question: Question,
    /// The other engine's, if its rows can stand for ours; planned for the first large run, since
    /// planning takes longer than a small run.
    columnar: OnceLock<Option<Columnar>>,
}

/// The other engine's plan of a query that this one runs, too.
#[derive(Clone)]
struct Columnar {
    plan: Arc<dyn AnalyticalPlan>,
    is_alike: bool,
}

impl fmt::Debug for MixedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MixedPlan").field("own", &self.own).finish_non_exhaustive()
    }
}

impl MixedPlan {
    fn rows(&self, snapshot: &Snapshot) -> u64 {
        rows(snapshot, &self.own.prepared.tables)
    }

    /// Whether so many rows may be read one by one.
    fn may_read(rows: u64) -> bool {
        usize::try_from(rows).is_ok_and(|rows| rows <= ROWS_MAX)
    }

    /// The other engine's plan, if it is its turn.
    fn columnar_of(&self, rows: u64) -> Option<Arc<dyn AnalyticalPlan>> {
        if rows < BROAD_ROWS_MIN {
            return None;
        }
        let Columnar { plan, is_alike } = self.columnar()?;
        (is_alike || !MixedPlan::may_read(rows)).then_some(plan)
    }

    /// Who runs it.
    fn plan(&self, snapshot: &Snapshot) -> Arc<dyn AnalyticalPlan> {
        let columnar = self.columnar_of(self.rows(snapshot));
        columnar.unwrap_or_else(|| Arc::clone(&self.own) as Arc<dyn AnalyticalPlan>)
    }

    fn columnar(&self) -> Option<Columnar> {
        if let Some(planned) = self.columnar.get() {
            return planned.clone();
        }
        let prepared = &self.own.prepared;
        let types: Vec<_> = prepared.parameters.iter().cloned().map(Some).collect();
        match aside(false, || self.question.ask(&types, true)) {
            // The next run may ask again.
            Err(error) if error.code() == SqlState::QUERY_CANCELED => None,
            planned => {
                let serving = planned.ok().filter(|plan| serves_as(&**plan, prepared));
                let serving = serving.map(|plan| {
                    let is_alike = are_alike(&self.question.query, plan.columns(), prepared);
                    Columnar { plan, is_alike }
                });
                self.columnar.get_or_init(|| serving).clone()
            }
        }
    }
}

/// The same run for another engine.
fn again(execution: &Execution) -> Execution {
    Execution {
        snapshot: Arc::clone(&execution.snapshot),
        parameters: execution.parameters.clone(),
        settings: execution.settings.clone(),
        now_us: execution.now_us,
        limits: execution.limits.clone(),
    }
}

impl AnalyticalPlan for MixedPlan {
    fn engine(&self, snapshot: &Snapshot) -> &'static str {
        self.plan(snapshot).engine(snapshot)
    }

    fn columns(&self) -> &[Column] {
        &self.own.prepared.columns
    }

    fn parameters(&self) -> &[DataType] {
        &self.own.prepared.parameters
    }

    fn reads_tables(&self) -> bool {
        self.own.reads_tables()
    }

    fn run(self: Arc<Self>, execution: Execution) -> RowBatches {
        let rows = self.rows(&execution.snapshot);
        let own = Arc::clone(&self.own);
        match self.columnar_of(rows) {
            None => own.run(execution),
            Some(columnar) if !MixedPlan::may_read(rows) => columnar.run(execution),
            Some(columnar) => {
                let (mut again, began) = (again(&execution), Instant::now());
                let rows = async move {
                    hold_back(columnar.run(execution)).await.unwrap_or_else(|_| {
                        let left = again.limits.timeout;
                        again.limits.timeout =
                            left.map(|left| left.saturating_sub(began.elapsed()));
                        own.run(again)
                    })
                };
                once(rows).flatten().boxed()
            }
        }
    }

    fn explain(
        self: Arc<Self>,
        execution: Execution,
        analyze: bool,
    ) -> BoxFuture<'static, Result<Vec<String>>> {
        self.plan(&execution.snapshot).explain(execution, analyze)
    }
}

/// What ends an evaluation that takes too long, or that no client waits for any more.
struct Until {
    end: Option<Instant>,
    canceled: Arc<AtomicBool>,
}

impl Until {
    fn of(limits: &Limits) -> Until {
        let end = limits.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Until { end, canceled: Arc::clone(&limits.canceled) }
    }
}

impl Interrupt for Until {
    fn check(&self) -> Result<()> {
        let why = if self.canceled.load(Ordering::Relaxed) {
            "canceling statement due to user request"
        } else if self.end.is_some_and(|end| Instant::now() >= end) {
            "canceling statement due to statement timeout"
        } else {
            return Ok(());
        };
        Err(Error::new(SqlState::QUERY_CANCELED, why))
    }
}

impl AnalyticalPlan for SystemPlan {
    fn engine(&self, _: &Snapshot) -> &'static str {
        "system catalogs"
    }

    fn columns(&self) -> &[Column] {
        &self.prepared.columns
    }

    fn parameters(&self) -> &[DataType] {
        &self.prepared.parameters
    }

    /// A catalog is part of the schema.
    fn reads_tables(&self) -> bool {
        !self.prepared.tables.is_empty()
    }

    fn run(self: Arc<Self>, execution: Execution) -> RowBatches {
        let answered = async move {
            match self.rows(&execution) {
                Ok((rows, lease)) => held(rows, lease),
                Err(error) => once(ready(Err(error))).boxed(),
            }
        };
        once(answered).flatten().boxed()
    }

    fn explain(
        self: Arc<Self>,
        execution: Execution,
        analyze: bool,
    ) -> BoxFuture<'static, Result<Vec<String>>> {
        let mut lines = vec![match self.prepared.tables.len() {
            0 => "System catalogs, evaluated row by row".to_owned(),
            count => {
                let height = execution.snapshot.height();
                format!(
                    "System catalogs beside {count} of users' tables, as of block {height}, \
                         evaluated row by row"
                )
            }
        }];
        if analyze {
            match self.rows(&execution) {
                Ok((rows, _)) => lines.push(format!("  rows: {}", rows.len())),
                Err(error) => return ready(Err(error)).boxed(),
            }
        }
        ready(Ok(lines)).boxed()
    }
}
