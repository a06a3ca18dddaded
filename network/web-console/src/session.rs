//! Sessions: what a login leaves, a connection to the node's own PostgreSQL port.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::{Value as Json, json};
use tokio::sync::Semaphore;
use tokio_postgres::error::{DbError, ErrorPosition};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, SimpleQueryMessage};

use crate::SqlAddress;

const SESSIONS_MAX: usize = 32;
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
const CONNECT_WITHIN: Duration = Duration::from_secs(8);
/// Statements of a session that wait for the one before.
const WAITING_MAX: usize = 16;
const NOTICES_MAX: usize = 100;
/// The bound on a statement: an answer of the second port has 15 seconds.
pub const STATEMENT_MS_MAX: u64 = 10_000;

/// What a login asks for.
pub struct Wanted {
    pub user: String,
    /// `None` where the node has none.
    pub password: Option<String>,
    /// Without, statements that write are refused until the session says otherwise.
    pub writes: bool,
}

pub struct Session {
    pub user: String,
    pub writes: bool,
    pub client: Client,
    pub notices: Arc<Mutex<Vec<Json>>>,
    /// Held by the statement that runs. Whether a block of the past is set that has to be reset.
    pub turn: tokio::sync::Mutex<Past>,
    pub waiting: Semaphore,
    pub reading: tokio::sync::Mutex<()>,
    used: Mutex<Instant>,
}

#[derive(Default)]
pub struct Past {
    pub is_set: bool,
    /// Of statements that were prepared by name.
    pub names: u64,
}

/// By the cookie's value.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<String, Arc<Session>>>);

impl Sessions {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session, which is idle from now on.
    pub fn used(&self, id: &str) -> Option<Arc<Session>> {
        let session = self.all().get(id).cloned()?;
        let mut used = session.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.elapsed() > IDLE_MAX || session.client.is_closed() {
            drop(used);
            self.end(id);
            return None;
        }
        *used = Instant::now();
        drop(used);
        Some(session)
    }

    /// Ends those that are idle.
    pub fn end_idle(&self) {
        let is_used = |session: &Session| session.last_used().elapsed() <= IDLE_MAX;
        self.all().retain(|_, it| is_used(it) && !it.client.is_closed());
    }

    pub fn end(&self, id: &str) {
        self.all().remove(id);
    }

    pub fn give_up(&self, session: &Arc<Session>) {
        self.all().retain(|_, other| !Arc::ptr_eq(other, session));
    }

    /// The one that has been idle longest makes room.
    pub async fn open(
        &self,
        sql_address: &SqlAddress,
        id: [u8; 32],
        wanted: Wanted,
    ) -> Result<(String, Arc<Session>), Json> {
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let connecting = tokio::time::timeout(CONNECT_WITHIN, connect(sql_address, wanted));
        let session = connecting.await.map_err(|_| fault("the node does not answer"))??;
        let session = Arc::new(session);
        let mut all = self.all();
        if all.len() >= SESSIONS_MAX {
            let oldest = all.iter().min_by_key(|(_, session)| session.last_used());
            let oldest = oldest.map(|(id, _)| id.clone());
            oldest.map(|id| all.remove(&id));
        }
        all.insert(id.clone(), session.clone());
        Ok((id, session))
    }
}

impl Session {
    fn last_used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the user may read every table, now.
    pub async fn reads_all(&self) -> Result<bool, tokio_postgres::Error> {
        let _turn = self.turn.lock().await;
        let asked = "SELECT pg_has_role('pg_read_all_data', 'USAGE')";
        let answer = self.client.simple_query(asked).await?;
        Ok(answer.iter().any(
            |message| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("t")),
        ))
    }

    pub fn take_notices(&self) -> Vec<Json> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn connect(sql_address: &SqlAddress, wanted: Wanted) -> Result<Session, Json> {
    let mut config = Config::new();
    config.user(&wanted.user).dbname("tally").application_name("tally console");
    match sql_address {
        SqlAddress::Socket(folder, port) => config.host_path(folder).port(*port),
        SqlAddress::Tcp(address) => config.host(address.ip().to_string()).port(address.port()),
    };
    if let Some(password) = &wanted.password {
        config.password(password);
    }
    let (client, mut connection) = config.connect(NoTls).await.map_err(|it| shown_error(&it))?;
    let notices = Arc::<Mutex<Vec<Json>>>::default();
    let kept = notices.clone();
    tokio::spawn(async move {
        let mut messages = futures::stream::poll_fn(|context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            let AsyncMessage::Notice(notice) = message else { continue };
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() < NOTICES_MAX {
                kept.push(shown_fields(&notice));
            }
        }
    });
    let read_only = if wanted.writes { "off" } else { "on" };
    let settings = format!(
        "SET default_transaction_read_only = {read_only}; \
         SET statement_timeout = {STATEMENT_MS_MAX}"
    );
    client.batch_execute(&settings).await.map_err(|error| shown_error(&error))?;
    Ok(Session {
        user: wanted.user,
        writes: wanted.writes,
        client,
        notices,
        turn: tokio::sync::Mutex::default(),
        waiting: Semaphore::new(WAITING_MAX),
        reading: tokio::sync::Mutex::default(),
        used: Mutex::new(Instant::now()),
    })
}

pub fn fault(message: &str) -> Json {
    json!({"message": message})
}

/// As a node told it, or why it could not.
pub fn shown_error(error: &tokio_postgres::Error) -> Json {
    match error.as_db_error() {
        Some(error) => shown_fields(error),
        None => json!({"code": "08006", "message": error.to_string()}),
    }
}

fn shown_fields(error: &DbError) -> Json {
    let position = match error.position() {
        Some(ErrorPosition::Original(position)) => Some(*position),
        _ => None,
    };
    json!({
        "severity": error.severity(), "code": error.code().code(), "message": error.message(),
        "detail": error.detail(), "hint": error.hint(), "position": position,
    })
}
