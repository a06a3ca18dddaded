//! Sessions: a client's statements on their way to a snapshot or into a block.
//!
//! ```text
//!                       ┌ reads only ─────► newest durable snapshot, on the caller's thread
//!   statement outside   │
//!   a transaction ──────┼ writes ─────────► one ledger transaction (statement, call, load)
//!                       └ schema change ──► one ledger transaction, which runs by itself
//!   BEGIN … COMMIT ───────────────────────► snapshot + overlay, lowered at COMMIT
//! ```
//!
//! Schema changes between BEGIN and COMMIT are the transaction's own until then.
//!
//! Where sessions lock, a transaction's statements read the newest state ([`locking`]).
//!
//! Queries over much data, and those that the binder does not know, go to an analytical engine
//! ([`router`](crate::plan::router)).
//!
//! A session waits for its answer before it sends the next request, and is answered only when its
//! block is durable and published: the snapshot that it reads next holds what it was acknowledged.

mod analysis;
mod answer;
mod approve;
mod blocks;
mod calls;
mod caught_up;
mod chance;
pub mod changes;
mod commands;
mod compared;
mod compiled;
mod copy_in;
mod copying;
mod cursors;
mod databases;
mod decided;
mod deferring;
mod endorse;
mod endorsed;
mod explained;
mod feeding;
mod fetching;
pub mod gathering;
mod guard;
mod handed_in;
mod keyed;
mod last_changes;
pub mod ledger_proofs;
mod lifted;
mod lock_clauses;
mod locked_subqueries;
mod locking;
mod lowered;
mod materialized;
mod named;
mod new_views;
mod parameters;
mod parts;
mod past;
mod prepared;
mod preparing;
mod programs;
mod proofs;
mod release;
mod roles;
mod row_locks;
pub mod schema;
mod sequence_caches;
mod sequences;
pub mod shared_state;
mod side_effects;
mod signed;
mod table_as;
mod temporaries;
mod temporary;
mod touched;
pub mod transaction;
pub mod versioned;
mod zoned;

use std::net::SocketAddr;
use std::sync::Arc;

use concurrency::Outcome;
use engine::transaction::Asked;
use engine::{Body, Engine};
use kit::pool::Pool;
use procedure::{Notice, NoticeLevel};
use storage::Snapshot;
use types::{DataType, Error, Result, SqlState, Value};

use crate::bind::is_missing;
use crate::compile::compile_routine;
use crate::ddl::skipped::WARNING;
use crate::plan::analytical_engine::AnalyticalEngine;
use crate::settings::session_info::SessionInfo;
use crate::settings::{Executor, Settings};
use crate::syntax::ddl::Ddl;
use crate::syntax::parse::parse;
use crate::syntax::parsed::{Cover, Parsed};
use crate::syntax::path::SearchPath;
use crate::syntax::size;
use answer::plain;
pub use answer::{Answer, Tag};
use chance::NO_SEED;
use changes::SchemaText;
use copy_in::CopyIn;
use cursors::Cursors;
use guard::{Guard, SHORT_TEXT_BYTES};
pub use guard::{Signal, aside};
use parts::{Running, Seen, Shared, Statements};
pub use prepared::{Action, Literals, Prepared, Source, statement_bytes};
use schema::Schema;
use sequence_caches::Drawn;
use shared_state::SharedState;
use shared_state::activity::State;
use temporaries::Temporaries;
use transaction::OpenTransaction;
use versioned::Versioned;

/// A database: an engine and the schema it runs under.
pub struct Database {
    pub engine: Arc<Engine>,
    pub schema: Arc<Schema>,
    /// Who runs queries over much data; without one they are refused, or run row by row.
    pub analytical_engine: Option<Arc<dyn AnalyticalEngine>>,
    pub memory: SessionMemory,
    /// What its sessions share beside the ledger.
    pub shared_state: Arc<SharedState>,
}

/// What sessions may hold.
#[derive(Clone, Debug)]
pub struct SessionMemory {
    /// All of them together: rows that wait for their clients, what transactions have written, data
    /// of COPY, statements.
    pub pool: Arc<Pool>,
    /// Statements that one has prepared by name.
    pub statements_max: usize,
    /// What these may take, by estimate.
    pub statement_bytes_max: usize,
    /// Statements that one keeps bound for the next time that their text comes.
    pub cached_statements_max: usize,
}

impl Default for SessionMemory {
    fn default() -> Self {
        SessionMemory {
            pool: Pool::unbounded(),
            statements_max: 10_000,
            statement_bytes_max: 64 << 20,
            cached_statements_max: 512,
        }
    }
}

/// What a statement reads: a schema, and the data that belongs to it.
#[derive(Clone)]
struct View {
    versioned: Arc<Versioned>,
    /// `None`: the open transaction's.
    snapshot: Option<Arc<Snapshot>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    Idle,
    InTransaction,
    Failed,
}

pub struct Session {
    database: Arc<Database>,
    info: SessionInfo,
    pub settings: Settings,
    /// The setting that its path was made of.
    path_set: String,
    /// For which the statements that it keeps are bound.
    executor: Executor,
    transaction: Option<Box<OpenTransaction>>,
    /// An error ended the transaction's usefulness; only its end is accepted.
    failed: bool,
    statements: Statements,
    cursors: Cursors,
    copy: Option<CopyIn>,
    guard: Arc<Guard>,
    running: Running,
    seen: Seen,
    drawn: Drawn,
    shared: Shared,
    temporaries: Temporaries,
}

impl Session {
    pub fn new(database: Arc<Database>, info: SessionInfo, signal: impl Into<Signal>) -> Session {
        let guard = Arc::new(Guard::new(signal.into(), Arc::clone(&database.memory.pool)));
        let shared_state = Arc::clone(&database.shared_state);
        let locks = database.engine.locks();
        locks.join_cycles();
        shared_state.advisory.join(locks.cycles());
        Session {
            shared: Shared::new(&shared_state, &info),
            database,
            info,
            settings: Settings::default(),
            path_set: String::new(),
            executor: Executor::default(),
            transaction: None,
            failed: false,
            statements: Statements::new(&guard),
            cursors: Cursors::new(guard.lease()),
            copy: None,
            running: Running::new(&guard),
            temporaries: Temporaries::new(&guard),
            guard,
            seen: Seen::default(),
            drawn: Drawn::default(),
        }
    }

    /// Those that matter enough for what `client_min_messages` says; INFO always does.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        let mut notices = std::mem::take(&mut self.running.notices);
        if !notices.is_empty() {
            let least = self.settings.least_notice();
            notices.retain(|notice| {
                notice.level == NoticeLevel::Info
                    || least.is_some_and(|least| notice.level >= least)
            });
        }
        notices
    }

    /// Tells the client something with the answer.
    fn tell(&mut self, content: Error) {
        self.running.notices.push(Notice { level: NoticeLevel::Notice, content });
    }

    pub fn status(&self) -> Status {
        match &self.transaction {
            None => Status::Idle,
            Some(t) if t.implicit => Status::Idle,
            Some(_) if self.failed => Status::Failed,
            Some(_) => Status::InTransaction,
        }
    }

    /// Where its client connects from; `None`: by the socket's file.
    pub fn is_from(&mut self, client: Option<SocketAddr>) {
        self.shared.present.activity.is_from(client);
    }

    /// Shows others that no statement runs.
    fn show_rest(&self) {
        let activity = &self.shared.present.activity;
        if self.settings.has_changes() {
            activity.calls_itself(self.settings.application());
        }
        let state = match self.status() {
            Status::Idle => State::Idle,
            Status::InTransaction => State::InTransaction,
            Status::Failed => State::Failed,
        };
        activity.end(state);
    }

    pub fn parse(&self, sql: &str) -> Result<Vec<Parsed>> {
        if sql.len() <= SHORT_TEXT_BYTES {
            return parse(sql);
        }
        self.guard.start(self.settings.statement_timeout(), self.settings.query_memory());
        let mut lease = self.guard.lease();
        lease.cover(size::memory_of(sql))?;
        let cover = Cover::from(lease);
        let text = (sql.to_owned(), cover.clone());
        let mut parsed = self.guard.apart(text, |(text, _)| parse(&text))?;
        parsed.iter_mut().for_each(|parsed| parsed.cover = cover.clone());
        Ok(parsed)
    }

    /// The type that a client names by a number, where users made it.
    pub fn type_of_oid(&self, oid: u32) -> Option<DataType> {
        if oid < crate::schema::collations::FIRST_USER {
            return None;
        }
        self.view().versioned.catalog.type_of_oid(oid)
    }

    /// What was bound in another time zone, for another executor or by another path is bound again.
    fn follow_settings(&mut self) {
        if self.info.zone != *self.settings.zone() {
            self.info.zone = self.settings.zone().clone();
            self.forget_bound();
        }
        let (role, authorized) = (self.settings.role(), self.settings.session_authorization());
        if self.info.role.as_deref() != role || self.info.authorized.as_deref() != authorized {
            self.info.role = role.map(str::to_owned);
            self.info.authorized = authorized.map(str::to_owned);
            self.path_set.clear();
            self.forget_bound();
        }
        if self.executor != self.settings.executor() {
            self.executor = self.settings.executor();
            self.forget_bound();
        }
        if self.path_set != self.settings.search_path() {
            self.path_set = self.settings.search_path().to_owned();
            self.info.path = SearchPath::of_setting(&self.path_set, self.info.current_user());
            self.forget_bound();
        }
    }

    pub async fn execute(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
    ) -> Result<Answer> {
        self.execute_shown(prepared, parameters, None).await
    }

    /// The same with the literals that stood in its text.
    pub async fn execute_lifted(
        &mut self,
        prepared: &Arc<Prepared>,
        literals: &Literals,
    ) -> Result<Answer> {
        self.execute_shown(prepared, literals, Some(Arc::clone(literals))).await
    }

    async fn execute_shown(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        literals: Option<Literals>,
    ) -> Result<Answer> {
        self.shared.present.activity.begin(prepared, literals);
        let answered = self.execute_within(prepared, parameters).await;
        self.show_rest();
        answered.map_err(|error| self.beyond_routines(error))
    }

    /// The same as a part of another statement, which others go on to see.
    pub(super) async fn execute_within(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
    ) -> Result<Answer> {
        self.guard.start(self.settings.statement_timeout(), self.settings.query_memory());
        let view = match self.view_of(prepared.parsed.as_of) {
            Err(error) if prepared.bound.statement.reads() => return Err(error),
            view => view.unwrap_or_else(|_| self.newest_schema()),
        };
        self.follow_settings();
        let same_zone = !prepared.bound.zone_dependent || prepared.zone == self.info.zone;
        let same_role = *prepared.role == *self.info.current_user();
        let is_current = same_zone && same_role && prepared.version == view.versioned.version;
        // EXECUTE and FETCH look after what they name.
        if is_current || prepared.parsed.names_what_it_answers() {
            return self.run(prepared, parameters, view).await;
        }
        // The client has been told the types: they stay what they were.
        let given: Vec<_> = prepared.bound.parameters.iter().cloned().map(Some).collect();
        let again = self.bind(&view.versioned, prepared.parsed.clone(), &given, true)?;
        if again.bound.output != prepared.bound.output {
            return Err(Error::changed_result_type(
                "The schema was changed since: prepare the statement again.",
            ));
        }
        self.run(&Arc::new(again), parameters, view).await
    }

    async fn run(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        view: View,
    ) -> Result<Answer> {
        self.running.answered = None;
        let action = &prepared.bound.statement;
        if self.failed && !action.ends_failed() {
            return Err(aborted());
        }
        self.running.version = view.versioned.ledger().version;
        match prepared.temporary {
            true => Box::pin(self.run_temporary(prepared, parameters, view)).await,
            false => self.run_action(prepared, parameters, view).await,
        }
    }

    async fn run_action(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: &[Value],
        view: View,
    ) -> Result<Answer> {
        let action = &prepared.bound.statement;
        let text = &prepared.parsed.text;
        match action {
            Action::Ddl(ddl) if prepared.temporary => self.change_temporary(ddl).await,
            Action::Program(program) => {
                self.answer_program(program, prepared, parameters, view).await
            }
            Action::Ddl(Ddl::Database(statement)) => self.change_databases(statement).await,
            Action::Ddl(ddl @ (Ddl::CreateMaterialized { .. } | Ddl::Refresh { .. })) => {
                Box::pin(self.materialize(ddl, text)).await
            }
            Action::Ddl(ddl) => self.change_schema(ddl, text).await,
            Action::Command(command) => self.run_command(command, prepared, parameters).await,
            Action::Analytical { plan, copy, .. } => {
                copy.iter().try_for_each(|options| self.check_copy(options))?;
                self.analyze(plan.clone(), copy.as_ref(), parameters, view)
            }
            Action::Explained { prepared, options } => {
                self.explain(prepared, options, parameters, view).await
            }
            Action::Declare { declaration, query } => {
                self.declare((declaration, text), query, parameters, view).await
            }
        }
    }

    async fn change_schema(&mut self, ddl: &Ddl, text: &str) -> Result<Answer> {
        let tag = ddl.tag();
        let recorded = match self.about_own_database(ddl, text)? {
            None => self.without_password(ddl)?,
            own => own,
        };
        let (ddl, text) = match &recorded {
            Some((ddl, text)) => (ddl, text.as_str()),
            None => (ddl, text),
        };
        if let Ddl::Truncate { names, restart_identity: false, cascade } = ddl
            && self.transaction.is_some()
        {
            return self.truncate_in_transaction(names, *cascade).await;
        }
        if let Ddl::CreateView(create) = ddl {
            self.check_new_view(create)?;
        }
        if let Ddl::CreateMaterialized { create, .. } = ddl {
            self.check_view(&create.query.to_string())?;
        }
        if let Ddl::CreateRoutine { function, .. } = ddl
            && self.settings.check_function_bodies()
        {
            let catalog = &self.view().versioned.catalog;
            aside(false, || compile_routine(catalog, function, None)).map_err(hint_of_unchecked)?;
        }
        let skipped = ddl.skipped(&self.view().versioned.catalog);
        for notice in skipped {
            match notice.code() {
                WARNING => self.warn(notice),
                _ => self.tell(notice),
            }
        }
        let before = Arc::clone(&self.view().versioned.catalog);
        if let Some(transaction) = &mut self.transaction {
            let party = self.info.party();
            transaction.writes_as(party.role)?;
            let change = SchemaText { party, signers: &[], approvers: &[], ddl, text };
            transaction.change_schema(change, self.database.engine.store())?;
            self.check_pending(&before)?;
            return Ok(plain(tag));
        }
        self.check_may_write_alone()?;
        let schema = Body::Schema { text: text.to_owned() };
        let completion = self.submit(&Asked::from(&schema), None, NO_SEED).await?;
        match completion.outcome {
            Outcome::Committed(_) => Ok(plain(tag)),
            Outcome::Rejected(error) | Outcome::Retry(error) => Err(error),
        }
    }

    fn now_us(&self) -> i64 {
        match &self.transaction {
            Some(transaction) => transaction.now_us(),
            None => self.database.engine.head().time_us,
        }
    }
}

fn aborted() -> Error {
    let what = "current transaction is aborted, commands ignored until end of transaction block";
    Error::new(SqlState::IN_FAILED_SQL_TRANSACTION, what)
}

fn hint_of_unchecked(error: Error) -> Error {
    match is_missing(&error) && error.fields().hint.is_none() {
        true => error.with_hint(
            "SET check_function_bodies = off makes a routine before what it names is there.",
        ),
        false => error,
    }
}
