//! System catalogs at the seam between sessions and analytical engines.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures::future::{BoxFuture, FutureExt, ready};
use futures::stream::{StreamExt, once};
use procedure::Column;
use sql::analyst::{Analyst, AnalyticalPlan, Execution, Limits, QueryRequest, RowBatches};
use sql::router::is_refusal;
use sql::session::aside;
use types::{DataType, Error, Result, SqlState};

use crate::query::{About, Prepared, about};
use crate::world::{Activity, Row, Session, World};

/// Answers queries over system catalogs, and leaves the others to another engine.
pub struct SystemAnalyst {
    others: Option<Arc<dyn Analyst>>,
    /// Users that may log in, the owner of everything first.
    roles: Vec<String>,
    /// The newest version of the schema that somebody asked about.
    world: Mutex<Option<(u64, Arc<World>)>>,
}

impl SystemAnalyst {
    pub fn new(roles: Vec<String>, others: Option<Arc<dyn Analyst>>) -> SystemAnalyst {
        SystemAnalyst { others, roles, world: Mutex::default() }
    }

    fn world(&self, request: &QueryRequest<'_>) -> Arc<World> {
        let mut kept = self.world.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match &*kept {
            Some((version, world)) if *version == request.version => Arc::clone(world),
            _ => {
                let world = Arc::new(World::new(Arc::clone(request.catalog)));
                *kept = Some((request.version, Arc::clone(&world)));
                world
            }
        }
    }

    fn session(&self, request: &QueryRequest<'_>) -> Session {
        // A session knows of no others.
        let own = Activity {
            pid: request.info.backend_pid,
            user: request.info.user.clone(),
            application: String::new(),
            state: "active".to_owned(),
            query: request.text.to_owned(),
        };
        Session {
            user: request.info.user.clone(),
            database: request.info.database.clone(),
            backend_pid: request.info.backend_pid,
            server_version: request.info.server_version.clone(),
            roles: self.roles.clone(),
            activity: vec![own],
            ..Session::default()
        }
    }
}

impl Analyst for SystemAnalyst {
    fn prepare(&self, request: &QueryRequest<'_>) -> Result<Arc<dyn AnalyticalPlan>> {
        let about = about(request.query);
        if about != About::Tables {
            let world = self.world(request);
            match (Prepared::new(world, request.query, request.parameter_types), &self.others) {
                (Ok(prepared), _) => {
                    return Ok(Arc::new(SystemPlan { prepared, session: self.session(request) }));
                }
                // Without a table of anybody's, it may be the other's as well.
                (Err(error), Some(others)) if about == About::Nothing && is_refusal(&error) => {
                    return others.prepare(request).map_err(|_| error);
                }
                (Err(error), _) => return Err(error),
            }
        }
        match &self.others {
            Some(others) => others.prepare(request),
            None => Err(Error::unsupported("this query without an analytical engine")
                .with_hint("The server was built without its feature `analytics`.")),
        }
    }
}

#[derive(Debug)]
struct SystemPlan {
    prepared: Prepared,
    session: Session,
}

impl SystemPlan {
    fn rows(&self, execution: &Execution) -> Result<Vec<Row>> {
        let settings = execution.settings.show_all().into_iter();
        let settings: Vec<(String, String)> =
            settings.map(|(name, value)| (name.to_owned(), value)).collect();
        let now_us = execution.now_us;
        let mut session = Session { now_us, settings, ..self.session.clone() };
        let application = session.settings.iter().find(|(name, _)| name == "application_name");
        let application = application.map(|(_, value)| value.clone()).unwrap_or_default();
        session.activity.iter_mut().for_each(|own| own.application.clone_from(&application));
        let interrupted = deadline(&execution.limits);
        aside(false, || self.prepared.run(&session, &execution.parameters, &interrupted))
    }
}

/// What ends an evaluation that takes too long, or that nobody waits for any more.
fn deadline(limits: &Limits) -> impl Fn() -> Result<()> + use<> {
    let end = limits.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let canceled = Arc::clone(&limits.canceled);
    move || {
        let why = if canceled.load(std::sync::atomic::Ordering::Relaxed) {
            "canceling statement due to user request"
        } else if end.is_some_and(|end| Instant::now() >= end) {
            "canceling statement due to statement timeout"
        } else {
            return Ok(());
        };
        Err(Error::new(SqlState::QUERY_CANCELED, why))
    }
}

impl AnalyticalPlan for SystemPlan {
    fn columns(&self) -> &[Column] {
        &self.prepared.columns
    }

    fn parameters(&self) -> &[DataType] {
        &self.prepared.parameters
    }

    /// A catalog is part of the schema.
    fn reads_tables(&self) -> bool {
        false
    }

    fn run(self: Arc<Self>, execution: Execution) -> RowBatches {
        once(async move { self.rows(&execution) }).boxed()
    }

    fn explain(
        self: Arc<Self>,
        execution: Execution,
        analyze: bool,
    ) -> BoxFuture<'static, Result<Vec<String>>> {
        let mut lines = vec!["System catalogs, evaluated row by row".to_owned()];
        if analyze {
            match self.rows(&execution) {
                Ok(rows) => lines.push(format!("  rows: {}", rows.len())),
                Err(error) => return ready(Err(error)).boxed(),
            }
        }
        ready(Ok(lines)).boxed()
    }
}
