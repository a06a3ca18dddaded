//! Sessions: the PostgreSQL front on one side, SQL on the other.
//!
//! `pgfront` knows nothing of SQL and `sql` nothing of the protocol; this is the adapter between
//! the two vocabularies, and it decides nothing but who may come in, and to which database.

mod copy_out;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use pgfront::auth::{SCRAM_ITERATIONS, SCRAM_ITERATIONS_MIN};
use pgfront::{
    Authentication, Backends, Bounds, ColumnDescription, Format, Listener, Notice, NoticeSeverity,
    Notification, Options, Peer, Prepared, Response, SessionOptions, Tag, TransactionStatus,
    Verifier,
};
use procedure::{NoticeLevel, Output};
use sql::Command;
use sql::SessionInfo;
use sql::session::{self, Action, Answer, Signal, Source, Status, shared_state};
use sql::syntax::path::SearchPath;
use tokio::sync::watch;
use tracing::warn;
use types::version::SERVER_VERSION;
use types::{DataType, Error, SqlState, Value, Zone};

use crate::config::{Settings, TlsUse};
use crate::database::statement_bytes_max;
use crate::databases::{Databases, Place, Target};
use crate::http::Guard;
use crate::metrics::{GaugeGuard, Metrics};
use crate::reload::{self, Reloadable, SharedUsers};
use crate::secrets;
use crate::users::Users;

/// What the front needs that can be wrong: read before the ledger is, so that a fault shows at
/// once.
pub struct Front {
    users: SharedUsers,
    options: Options,
}

impl Front {
    pub fn prepare(settings: &Settings) -> Result<Front> {
        secrets::check_modes(settings)?;
        let users = SharedUsers::new(Users::read(settings.password_file.as_deref())?);
        warn_of_open_listeners(settings);
        Ok(Front { users, options: options(settings)? })
    }

    /// What SIGHUP has read again.
    pub fn reloadable(&self, settings: &Settings, guard: Arc<Guard>) -> Reloadable {
        let (users, tls) = (self.users.clone(), self.options.tls.clone());
        Reloadable { settings: settings.clone(), users, tls, guard }
    }

    /// Makes up salts for strangers by `secret`.
    pub fn keep_secret(&mut self, secret: [u8; 32]) {
        self.options.mock_secret = Some(secret);
    }

    /// Admits sessions until `stop` becomes true, then waits for running statements as long as the
    /// settings allow.
    pub async fn serve(
        self,
        databases: Arc<Databases>,
        metrics: Arc<Metrics>,
        listeners: Vec<Listener>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<()> {
        let memory = Arc::clone(&databases.own().memory.pool);
        let options = Options { memory, ..self.options };
        let client_listener = Arc::new(ClientListener { databases, users: self.users, metrics });
        let stopped = async move {
            // An error means that no caller is left that could ask for a stop: stop.
            let _ = stop.wait_for(|stop| *stop).await;
        };
        pgfront::serve(listeners, client_listener, options, stopped)
            .await
            .context("cannot serve sessions")
    }
}

fn options(settings: &Settings) -> Result<Options> {
    Ok(Options {
        max_connections: settings.max_connections as usize,
        reserved_connections: settings.reserved_connections as usize,
        tls: reload::tls(settings)?,
        tls_required: settings.tls == TlsUse::Require,
        client_certificates: settings.tls_client_certificate.into(),
        failed_logins_per_minute_max: settings.failed_logins_per_minute_max,
        shutdown_grace: Duration::from_millis(settings.stop_wait_ms_max),
        server_version: SERVER_VERSION.to_owned(),
        bounds: Bounds {
            statements_max: settings.session_statements_max as usize,
            portals_max: settings.session_portals_max as usize,
            bytes_max: statement_bytes_max(settings),
        },
        ..Options::default()
    })
}

/// What an operator should know of who can come in.
fn warn_of_open_listeners(settings: &Settings) {
    if settings.password_file.is_none() {
        warn!(
            "TRUST: there is no password_file, so every user of this machine is admitted under any \
             name, the owner's too, and what it writes is in the ledger under that name for ever"
        );
    }
    if !settings.listen.ip().is_loopback() && settings.tls == TlsUse::Offer {
        warn!(
            "others than this machine can connect without TLS, and what they send and read can be \
             read on the way: set tls = require"
        );
    }
}

/// Where sessions come in.
struct ClientListener {
    databases: Arc<Databases>,
    users: SharedUsers,
    metrics: Arc<Metrics>,
}

impl pgfront::Database for ClientListener {
    type Session = Session;
    type Target = Target;

    async fn target(&self, user: &str, database: &str) -> Result<Target, Error> {
        self.databases.target(database, user).await
    }

    /// A role with a password in the ledger proves it, whatever else there is.
    fn authentication(&self, target: &Target, user: &str, peer: Peer) -> Authentication {
        let database = match target {
            Target::Other(running) => &running.database,
            // Who there is shows before what there is not.
            Target::Own | Target::Missing => self.databases.own(),
        };
        let users = self.users.now();
        let roles = roles_of(database);
        let Some(role) = roles.find(user) else { return users.authentication(user, peer) };
        let Some(verifier) = &role.verifier else { return users.authentication(user, peer) };
        let now_us = database.engine.now_us();
        let ended = role.valid_until_us.is_some_and(|until_us| until_us <= now_us);
        match verifier.parse() {
            Ok(verifier) if !ended => Authentication::ScramSha256(verifier),
            _ => users.unknown(),
        }
    }

    /// Of the node's own ledger: no place is kept free for those of the others.
    fn is_operator(&self, target: &Target, user: &str) -> bool {
        let roles = roles_of(self.databases.own());
        let is_superuser = || roles.find(user).is_some_and(|role| role.attributes.superuser);
        matches!(target, Target::Own) && is_superuser()
    }

    async fn open_session(
        &self,
        target: Target,
        options: SessionOptions,
    ) -> Result<Session, Error> {
        let (database, place) = match target {
            Target::Own => (Arc::clone(self.databases.own()), None),
            Target::Other(running) => {
                let place = self.databases.enter(running, &options.database)?;
                (Arc::clone(place.database()), Some(place))
            }
            Target::Missing => {
                let message = format!("database \"{}\" does not exist", options.database);
                return Err(Error::new(SqlState::INVALID_CATALOG_NAME, message).with_hint(
                    "The node's own is \"tally\"; CREATE DATABASE, sent to that, makes others.",
                ));
            }
        };
        database.schema.newest().catalog.check_connects(&options.user)?;
        let info = SessionInfo {
            user: options.user,
            role: None,
            authorized: None,
            database: options.database,
            backend_pid: options.process_id,
            server_version: SERVER_VERSION.to_owned(),
            zone: Zone::default(),
            reads_here: true,
            path: SearchPath::default(),
        };
        let (raised, withdraw) = (options.cancel.flag(), options.cancel.withdraw());
        let signals = &database.shared_state.signals;
        _ = signals.get_or_init(|| Arc::new(Ends(options.backends.clone())));
        _ = database.shared_state.passwords.get_or_init(|| Arc::new(Verifiers));
        let mut inner = session::Session::new(database, info, Signal { raised, withdraw });
        inner.is_from(match options.peer {
            Peer::Tcp(address) => Some(address),
            Peer::Unix => None,
        });
        if !options.application_name.is_empty() {
            inner.settings.set("application_name", Some(&options.application_name))?;
        }
        for (name, value) in &options.settings {
            inner.settings.set(name, Some(value))?;
        }
        inner.arrive().await?;
        let metrics = place.as_ref().map_or(&self.metrics, |place| place.metrics());
        let _counted = metrics.sessions.hold();
        Ok(Session { inner, _counted, _place: place })
    }
}

fn roles_of(database: &session::Database) -> Arc<sql::Roles> {
    Arc::clone(database.schema.newest().catalog.roles())
}

/// Makes verifiers of passwords that are set by statements.
struct Verifiers;

impl shared_state::Passwords for Verifiers {
    fn verifier(&self, password: &str) -> Result<String, Error> {
        let iterations = match cfg!(debug_assertions) {
            // What is not optimised takes seconds.
            true => SCRAM_ITERATIONS_MIN,
            false => SCRAM_ITERATIONS,
        };
        Verifier::from_password(password, iterations).map(|verifier| verifier.to_text())
    }
}

/// Ends sessions for one another.
struct Ends(Backends);

impl shared_state::Signals for Ends {
    fn cancel(&self, process: i32) -> bool {
        self.0.cancel(process)
    }

    fn terminate(&self, process: i32) -> bool {
        self.0.terminate(process)
    }
}

/// A bound statement, and the arguments that stood in its text.
struct Statement {
    prepared: Arc<session::Prepared>,
    literals: session::Literals,
}

struct Session {
    inner: session::Session,
    _counted: GaugeGuard,
    /// Last, as a database is left when nothing of the session is there any more.
    _place: Option<Place>,
}

impl pgfront::Session for Session {
    type Parsed = Source;
    type Statement = Statement;

    fn wants_to_catch_up(&self) -> bool {
        self.inner.wants_to_catch_up()
    }

    async fn catch_up(&mut self) -> Result<(), Error> {
        self.inner.catch_up().await
    }

    fn type_of_oid(&self, oid: u32) -> Option<DataType> {
        self.inner.type_of_oid(oid)
    }

    fn parse(&mut self, text: &str) -> Result<Vec<Source>, Error> {
        self.inner.read(text)
    }

    fn prepare(
        &mut self,
        source: Source,
        parameter_types: &[Option<DataType>],
    ) -> Result<Arc<Prepared<Self::Statement>>, Error> {
        let (prepared, literals) = self.inner.prepare_source(source, parameter_types)?;
        let columns = match &prepared.bound.output {
            Output::Rows(columns) => Some(described(columns, &prepared.origins)),
            Output::Tag => None,
        };
        // The client wrote its literals itself: to it they are no parameters.
        let parameters = match literals.is_empty() {
            true => prepared.bound.parameters.clone(),
            false => Vec::new(),
        };
        let format = match &prepared.bound.statement {
            Action::Command(Command::Fetch { name, .. }) => self.inner.cursor(name).map(format_of),
            _ => None,
        };
        let mut prepared = Prepared::new(parameters, columns, Statement { prepared, literals });
        prepared.format = format.unwrap_or(prepared.format);
        Ok(Arc::new(prepared))
    }

    async fn execute(
        &mut self,
        prepared: &Arc<Prepared<Self::Statement>>,
        parameters: &[Value],
    ) -> Result<Response, Error> {
        let Statement { prepared, literals } = &prepared.body;
        let answer = match literals.is_empty() {
            true => self.inner.execute(prepared, parameters).await?,
            false => self.inner.execute_lifted(prepared, literals).await?,
        };
        Ok(response(answer))
    }

    fn begin_implicit_block(&mut self) -> Result<(), Error> {
        self.inner.begin_implicit_block()
    }

    async fn end_implicit_block(&mut self, commit: bool) -> Result<(), Error> {
        self.inner.end_implicit_block(commit).await
    }

    async fn copy_in_data(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.inner.copy_data(bytes).await
    }

    async fn copy_in_done(&mut self) -> Result<Response, Error> {
        self.inner.copy_done().await.map(response)
    }

    fn copy_in_fail(&mut self, _: &Error) {
        self.inner.copy_failed();
    }

    fn statement_failed(&mut self) {
        self.inner.statement_failed();
    }

    fn transaction_status(&self) -> TransactionStatus {
        match self.inner.status() {
            Status::Idle => TransactionStatus::Idle,
            Status::InTransaction => TransactionStatus::Block,
            Status::Failed => TransactionStatus::Failed,
        }
    }

    fn patience(&self) -> Option<Duration> {
        let in_transaction = self.inner.status() != Status::Idle;
        self.inner.settings.idle_timeout(in_transaction)
    }

    fn take_notices(&mut self) -> Vec<Notice> {
        let notice = |notice: procedure::Notice| Notice {
            severity: match notice.level {
                NoticeLevel::Debug => NoticeSeverity::Debug,
                NoticeLevel::Log => NoticeSeverity::Log,
                NoticeLevel::Info => NoticeSeverity::Info,
                NoticeLevel::Notice => NoticeSeverity::Notice,
                NoticeLevel::Warning => NoticeSeverity::Warning,
            },
            content: notice.content,
        };
        self.inner.take_notices().into_iter().map(notice).collect()
    }

    async fn notified(&mut self) {
        match self.inner.status() {
            Status::Idle => self.inner.listener().inbox().filled().await,
            _ => std::future::pending().await,
        }
    }

    fn take_notifications(&mut self) -> Vec<Notification> {
        let notification = |sent: shared_state::channels::Notification| Notification {
            process_id: sent.process,
            channel: sent.note.channel,
            payload: sent.note.payload,
        };
        self.inner.take_notifications().into_iter().map(notification).collect()
    }

    fn cursor(&self, name: &str) -> Option<(Vec<ColumnDescription>, Format)> {
        let cursor = self.inner.cursor(name)?;
        match &cursor.0.bound.output {
            Output::Rows(columns) => {
                Some((described(columns, &cursor.0.origins), format_of(cursor)))
            }
            Output::Tag => None,
        }
    }

    fn close_cursor(&mut self, name: &str) {
        self.inner.close_cursor(name);
    }

    fn zone(&self) -> Zone {
        self.inner.settings.zone().clone()
    }

    fn take_parameter_changes(&mut self) -> Vec<(String, String)> {
        self.inner.settings.take_changes()
    }
}

fn format_of((_, is_binary): (&Arc<session::Prepared>, bool)) -> Format {
    format_in(is_binary)
}

fn format_in(is_binary: bool) -> Format {
    if is_binary { Format::Binary } else { Format::Text }
}

fn described(
    columns: &[procedure::step::Column],
    origins: &[Option<sql::Origin>],
) -> Vec<ColumnDescription> {
    let origins = origins.iter().copied().chain(std::iter::repeat(None));
    let described = columns.iter().zip(origins).map(|(column, origin)| {
        let plain = ColumnDescription::expression(&column.name, column.data_type.clone());
        match origin {
            None => plain,
            Some((table, column)) => ColumnDescription {
                table_oid: pgcatalog::oid::table(table),
                attribute_number: i16::try_from(column + 1).unwrap_or_default(),
                ..plain
            },
        }
    });
    described.collect()
}

fn response(answer: Answer) -> Response {
    match answer {
        Answer::Rows { rows, tag: done, lease } => Response::Rows { rows, tag: tag(done), lease },
        Answer::Stream { rows, tag: done } => Response::Stream { rows, tag: tag(done) },
        Answer::Tag(done) => Response::Tag(tag(done)),
        Answer::Deallocated { name, tag: done } => Response::Deallocate { name, tag: tag(done) },
        Answer::CopyIn { columns, is_binary } => {
            Response::CopyIn { columns, format: format_in(is_binary) }
        }
        Answer::CopyOut { columns, rows, formatter } => {
            let format = format_in(formatter.is_binary());
            Response::CopyOut { columns, format, chunks: copy_out::chunks(rows, formatter) }
        }
    }
}

fn tag(done: session::Tag) -> Tag {
    match done {
        session::Tag::Select => Tag::Select,
        session::Tag::Counted(verb, count) => match verb.as_str() {
            "INSERT" | "INSERT 0" => Tag::Insert(count),
            "UPDATE" => Tag::Update(count),
            "DELETE" => Tag::Delete(count),
            "COPY" => Tag::Copy(count),
            // PostgreSQL's says no number.
            "REFRESH MATERIALIZED VIEW" => verb.into(),
            _ => format!("{verb} {count}").into(),
        },
        session::Tag::Plain(text) => text.into(),
    }
}
