//! The databases of a node besides its own ledger. Each is a ledger with a folder, an engine, a
//! chain and roles of its own.
//!
//! ```text
//!   DATA/                      the node's own ledger, which registers the others;
//!                              clients call it tally, postgres or template1
//!   DATA/databases/ID/         a database, by its ledger's id; the file DATABASE has its name
//!   DATA/databases/making-ID/  being created, not registered yet
//!   DATA/dropped/NAME-ID/      dropped; still the complete folder of a ledger
//! ```
//!
//! The registry is part of the schema of the node's own ledger. The schema of the newest durable
//! block says which databases exist; folders and open engines are derived from it.
//! [`Databases::reconcile`] is the only code that makes folders and engines agree with the
//! registry. It runs at a start, after each change of the registry, and when a client asks for a
//! database that is registered but not open.
//!
//! *Crash safety.* The process may die at any point. The next start removes a folder that was
//! being created and was not registered, gives a registered one its final name, and moves one that
//! is no longer registered to `dropped/`.
//!
//! *Bounds.* At most `databases_max` databases exist at a time. The limits on the memory of tables
//! and on sessions hold for all of them together; each has threads and caches of its own.

pub mod folders;
mod making;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use engine::Engine;
use ledger::LedgerId;
use ledger::hash::to_hex;
use parking_lot::Mutex;
use sql::Catalog;
use sql::databases::{DatabaseEntry, MadeLedger};
use sql::names::DATABASES;
use sql::session;
use sql::session::shared_state::databases::{
    self as shared_state, Answered, NewDatabase, Reconciled, ShownDatabase,
};
use tracing::{error, info};
use types::{Error, Result, SqlState};

use crate::config::Settings;
use crate::database::opening::{self, Together};
use crate::metrics::Metrics;
use folders::Folders;

const OBJECT_IN_USE: SqlState = SqlState(*b"55006");
const CONFIGURATION_LIMIT_EXCEEDED: SqlState = SqlState(*b"53400");
/// How long sessions are waited for that are leaving, as PostgreSQL does.
const LEAVE_WAIT: Duration = Duration::from_secs(5);
/// How long after an attempt to open a database the next one is made.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// How long a client waits for another one's turn, and how often it looks.
const TURN_PATIENCE: Duration = Duration::from_secs(5);
const TURN_LOOK: Duration = Duration::from_millis(10);
const LEAVE_POLL: Duration = Duration::from_millis(20);

pub struct Databases {
    own: Arc<session::Database>,
    settings: Settings,
    together: Together,
    folders: Folders,
    running: Mutex<BTreeMap<LedgerId, Arc<Running>>>,
    /// Held by the one that makes, opens or moves.
    turn: Mutex<()>,
    /// Which could not be opened, and when that was found.
    failed: Mutex<(Instant, BTreeSet<LedgerId>)>,
}

/// A database that is open.
pub struct Running {
    pub database: Arc<session::Database>,
    pub metrics: Arc<Metrics>,
    name: Mutex<String>,
    presence: Mutex<Presence>,
}

#[derive(Default)]
struct Presence {
    sessions: usize,
    /// How many keep new sessions out.
    exclusions: usize,
}

/// A session's place in a database, for as long as it lives.
pub struct Place(Arc<Running>);

impl Place {
    pub fn database(&self) -> &Arc<session::Database> {
        &self.0.database
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.presence.lock().sessions -= 1;
    }
}

/// Keeps sessions out.
struct Exclusion(Arc<Running>);

impl Drop for Exclusion {
    fn drop(&mut self) {
        self.0.presence.lock().exclusions -= 1;
    }
}

/// What a client asks for.
pub enum Target {
    /// The node's own ledger.
    Own,
    Other(Arc<Running>),
    Missing,
}

impl Databases {
    /// Opens what is registered. One that cannot be opened keeps the others from nothing.
    pub fn start(
        own: Arc<session::Database>,
        settings: &Settings,
        together: Together,
    ) -> Arc<Databases> {
        let databases = Arc::new(Databases {
            folders: Folders::of(&settings.data),
            own,
            settings: settings.clone(),
            together,
            running: Mutex::default(),
            turn: Mutex::default(),
            failed: Mutex::new((Instant::now(), BTreeSet::new())),
        });
        let node = Arc::downgrade(&databases);
        databases.introduce(&databases.own);
        if !databases.own.engine.is_in_cluster() {
            let reconciled = databases.clean().and_then(|()| databases.reconcile());
            if let Err(error) = reconciled {
                error!(%error, "databases cannot be opened");
            }
            _ = databases.own.shared_state.databases.set(Arc::new(OfNode(node)));
        }
        databases
    }

    pub fn own(&self) -> &Arc<session::Database> {
        &self.own
    }

    /// Has a database's sessions know of the others.
    fn introduce(self: &Arc<Self>, database: &session::Database) {
        let node = Arc::downgrade(self);
        let shown = move || node.upgrade().map(|node| node.shown()).unwrap_or_default();
        _ = database.shared_state.neighbours.set(Box::new(shown));
    }

    /// The schema after the newest durable block.
    fn catalog(&self) -> Result<Arc<Catalog>> {
        let newest = self.own.engine.newest()?;
        Ok(Arc::clone(&self.own.schema.of(&newest).catalog))
    }

    /// All that are registered, by their ledger's number.
    fn registered(&self) -> Result<BTreeMap<LedgerId, String>> {
        let catalog = self.catalog()?;
        let all = catalog.databases();
        Ok(all.map(|(name, entry)| (entry.ledger.id, name.to_owned())).collect())
    }

    /// Whether what is not registered may go: a ledger that stops before its last block may have
    /// registered it there.
    fn knows_all(&self) -> bool {
        !self.own.engine.is_halted()
    }

    /// What a process that has died was making.
    fn clean(&self) -> Result<()> {
        match self.knows_all() {
            true => self.folders.remove_unfinished(&self.registered()?).map_err(io_error),
            false => Ok(()),
        }
    }

    /// What a client asks for by this name.
    ///
    /// # Errors
    /// 57P03: it cannot be opened; the log says why. 0A000: the node is one of a cluster.
    pub async fn target(self: &Arc<Self>, name: &str, user: &str) -> Result<Target> {
        if DATABASES.contains(&name) {
            return Ok(Target::Own);
        }
        let entry = self.catalog()?.database(name).cloned();
        match entry {
            Some(entry) => self.wake(entry.ledger.id, name).await.map(Target::Other),
            // Where clients are told no name they take the user's.
            None if name == user => Ok(Target::Own),
            None => Ok(Target::Missing),
        }
    }

    fn running(&self, ledger: &LedgerId) -> Option<Arc<Running>> {
        self.running.lock().get(ledger).cloned()
    }

    /// What those count that are open, by name.
    pub fn metrics(&self) -> Vec<(String, Arc<Metrics>)> {
        let running = self.running.lock();
        running.values().map(|one| (one.name.lock().clone(), Arc::clone(&one.metrics))).collect()
    }

    /// The engine of one that is open, by its ledger's number in hexadecimal digits.
    pub fn engine_of(&self, ledger: &str) -> Option<Arc<Engine>> {
        let running = self.running(&folders::ledger_of(ledger)?)?;
        Some(Arc::clone(&running.database.engine))
    }

    /// One that is registered, opened if it was not. Strangers ask as well, so it is tried once in
    /// a while, by one at a time.
    async fn wake(self: &Arc<Self>, ledger: LedgerId, name: &str) -> Result<Arc<Running>> {
        if let Some(running) = self.running(&ledger) {
            return Ok(running);
        }
        if self.own.engine.is_in_cluster() {
            return Err(Error::unsupported(format_args!("database \"{name}\" in a cluster"))
                .with_hint("Serve its folder by a node of its own."));
        }
        // What is made, opened or moved now may be this one.
        let since = Instant::now();
        while self.turn.is_locked() && since.elapsed() < TURN_PATIENCE {
            tokio::time::sleep(TURN_LOOK).await;
            if let Some(running) = self.running(&ledger) {
                return Ok(running);
            }
        }
        let has_just_failed = {
            let failed = self.failed.lock();
            failed.0.elapsed() < RETRY_PAUSE && failed.1.contains(&ledger)
        };
        if !has_just_failed && !self.turn.is_locked() {
            let node = Arc::clone(self);
            let reconciled = tokio::task::spawn_blocking(move || node.reconcile()).await;
            if let Ok(Err(error)) = reconciled {
                error!(%error, "databases cannot be opened");
            }
        }
        self.running(&ledger).ok_or_else(|| {
            let what = format!("database \"{name}\" cannot be opened now");
            Error::new(SqlState::CANNOT_CONNECT_NOW, what).with_hint("The node's log says why.")
        })
    }

    /// A place for a session.
    ///
    /// # Errors
    /// 55006: it is about to be dropped or renamed; 3D000: it was.
    pub fn enter(&self, running: Arc<Running>, name: &str) -> Result<Place> {
        let all = self.running.lock();
        if !all.values().any(|known| Arc::ptr_eq(known, &running)) {
            let what = format!("database \"{name}\" does not exist");
            return Err(Error::new(SqlState::INVALID_CATALOG_NAME, what));
        }
        let mut presence = running.presence.lock();
        if presence.exclusions > 0 {
            let what = format!("database \"{name}\" is being dropped or renamed");
            return Err(Error::new(OBJECT_IN_USE, what));
        }
        presence.sessions += 1;
        drop((presence, all));
        Ok(Place(running))
    }

    /// Stops all engines but that of the node's own ledger.
    pub fn stop(&self) {
        let _turn = self.turn.lock();
        let running = std::mem::take(&mut *self.running.lock());
        running.into_values().for_each(|one| one.database.engine.stop());
    }

    /// Does what the newest durable record says.
    fn reconcile(self: &Arc<Self>) -> Result<Reconciled> {
        let _turn = self.turn.lock();
        let registered = self.registered()?;
        let gone: Vec<(LedgerId, Arc<Running>)> = {
            let mut running = self.running.lock();
            let is_gone = |id: &LedgerId, _: &mut Arc<Running>| !registered.contains_key(id);
            running.extract_if(.., is_gone).collect()
        };
        gone.into_iter().for_each(|(_, one)| one.database.engine.stop());
        let moved = match self.knows_all() {
            true => self.folders.move_gone(&registered).map_err(io_error)?,
            false => Vec::new(),
        };
        let mut failed = Vec::new();
        for (ledger, name) in &registered {
            if let Some(running) = self.running(ledger) {
                let mut known = running.name.lock();
                if *known != *name {
                    self.folders.write_name(ledger, name).map_err(io_error)?;
                    name.clone_into(&mut known);
                }
                continue;
            }
            match self.open(ledger, name) {
                Ok(running) => _ = self.running.lock().insert(*ledger, Arc::new(running)),
                Err(error) => {
                    error!(database = name, "a database does not open: {error:#}");
                    let what = format!("database \"{name}\" cannot be opened");
                    let code = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
                    let why = Error::new(code, what).with_detail(format!("{error:#}"));
                    failed.push((*ledger, why));
                }
            }
        }
        *self.failed.lock() = (Instant::now(), failed.iter().map(|(ledger, _)| *ledger).collect());
        Ok(Reconciled { moved, failed })
    }

    fn open(self: &Arc<Self>, ledger: &LedgerId, name: &str) -> anyhow::Result<Running> {
        let data = self.folders.complete_rename(ledger, name)?;
        let settings = making::settings_in(&self.settings, data);
        let files = crate::folders::open_to_write(&settings.data)?;
        let metrics: Arc<Metrics> = Arc::default();
        let opened = opening::open(files, &settings, Arc::clone(&metrics), &self.together)?;
        let (mut database, _) = opened;
        database.memory = self.own.memory.clone();
        let height = database.engine.head().height;
        info!(database = name, ledger = to_hex(ledger), height, "a database is open");
        self.introduce(&database);
        Ok(Running {
            database: Arc::new(database),
            metrics,
            name: Mutex::new(name.to_owned()),
            presence: Mutex::default(),
        })
    }

    fn make(&self, new: &NewDatabase) -> Result<MadeLedger> {
        let _turn = self.turn.lock();
        let max = self.settings.databases_max as usize;
        if self.folders.all().map_err(io_error)?.len() >= max {
            let what = format!("a node has at most {max} databases beside its own");
            return Err(Error::new(CONFIGURATION_LIMIT_EXCEEDED, what)
                .with_hint("DROP DATABASE what is not used, or raise databases_max."));
        }
        making::make(&self.settings, &self.folders, new)
    }

    /// What all sessions of the node see in `pg_database`.
    fn shown(&self) -> Vec<ShownDatabase> {
        let Ok(catalog) = self.catalog() else { return Vec::new() };
        let shown = |(name, entry): (&str, &DatabaseEntry)| ShownDatabase {
            number: entry.number,
            name: name.to_owned(),
            owner: catalog.roles().name(entry.owner).to_owned(),
        };
        catalog.databases().map(shown).collect()
    }

    async fn keep_out(
        &self,
        running: Arc<Running>,
        name: String,
        force: bool,
    ) -> Result<Box<dyn Any + Send>> {
        running.presence.lock().exclusions += 1;
        let exclusion = Exclusion(Arc::clone(&running));
        let began = Instant::now();
        loop {
            let sessions = running.presence.lock().sessions;
            if sessions == 0 {
                return Ok(Box::new(exclusion));
            }
            if began.elapsed() > LEAVE_WAIT {
                let what = format!("database \"{name}\" is being accessed by other users");
                let detail = match sessions {
                    1 => "There is 1 other session using the database.".to_owned(),
                    more => format!("There are {more} other sessions using the database."),
                };
                return Err(Error::new(OBJECT_IN_USE, what).with_detail(detail));
            }
            if force && let Some(signals) = self.own.shared_state.signals.get() {
                let all = running.database.shared_state.processes();
                all.into_iter().for_each(|process| _ = signals.terminate(process));
            }
            tokio::time::sleep(LEAVE_POLL).await;
        }
    }
}

fn io_error(error: std::io::Error) -> Error {
    Error::new(ledger::files::sqlstate_of(&error), error.to_string())
}

/// What sessions of the node's own ledger ask the node.
struct OfNode(Weak<Databases>);

impl OfNode {
    fn node(&self) -> Result<Arc<Databases>> {
        self.0.upgrade().ok_or_else(|| {
            Error::new(SqlState::ADMIN_SHUTDOWN, "the database system is shutting down")
        })
    }

    /// Runs to its end, whether its client waits or not.
    fn aside<T: Send + 'static>(
        &self,
        run: impl FnOnce(Arc<Databases>) -> Result<T> + Send + 'static,
    ) -> Answered<T> {
        let node = self.node();
        let task = node.map(|node| tokio::task::spawn_blocking(move || run(node)));
        Box::pin(async move {
            let ended = task?.await;
            ended.unwrap_or_else(|_| {
                let what = "the node could not do what the database needs";
                Err(Error::new(SqlState::INTERNAL_ERROR, what))
            })
        })
    }
}

impl shared_state::Databases for OfNode {
    fn make(&self, new: NewDatabase) -> Answered<MadeLedger> {
        self.aside(move |node| node.make(&new))
    }

    fn forget(&self, made: MadeLedger) {
        drop(self.aside(move |node| {
            let _turn = node.turn.lock();
            node.folders.forget(&made.id).map_err(io_error)
        }));
    }

    fn reconcile(&self) -> Answered<Reconciled> {
        self.aside(|node| node.reconcile())
    }

    fn keep_out(&self, ledger: LedgerId, name: &str, force: bool) -> Answered<Box<dyn Any + Send>> {
        let (node, name) = (self.node(), name.to_owned());
        Box::pin(async move {
            let node = node?;
            match node.running(&ledger) {
                Some(running) => node.keep_out(running, name, force).await,
                // It could not be opened, so none is in it.
                None => Ok(Box::new(()) as Box<dyn Any + Send>),
            }
        })
    }
}
