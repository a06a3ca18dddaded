//! The state of a running node that its second port (metrics, status, console) shows, and the few
//! things that port may change.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use engine::Engine;
use ledger::Files;
use web_console::SqlAddress;

use crate::cluster::{Forks, Rotation};
use crate::config::Settings;
use crate::metrics::Metrics;

/// A node's phase, as probes see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Phase {
    Starting = 0,
    Ready = 1,
    Stopping = 2,
    /// The engine serves reads only; the node waits to be restarted.
    Halted = 3,
}

/// What the second port shows.
#[derive(Default)]
pub struct Observed {
    phase: AtomicU8,
    /// Set as soon as there is one.
    engine: OnceLock<Arc<Engine>>,
    pub folder: OnceLock<Folder>,
    /// Members of the cluster whose ledger has parted from this one's.
    pub forks: OnceLock<Arc<Forks>>,
    /// How this member's key is replaced.
    pub rotation: OnceLock<Arc<Rotation>>,
    /// How this process reaches its own PostgreSQL port; set when sessions are admitted.
    pub sql_address: OnceLock<SqlAddress>,
    /// Finds the engine of a database by its ledger's number in hexadecimal digits.
    pub databases: OnceLock<Box<dyn Fn(&str) -> Option<Arc<Engine>> + Send + Sync>>,
    /// Whether there is a password file.
    pub has_passwords: OnceLock<bool>,
    /// The ledger's owner, for whom members are changed.
    pub owner: OnceLock<String>,
    pub metrics: Arc<Metrics>,
}

impl Observed {
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// From now on, a halt of the engine shows.
    pub fn watch(&self, engine: Arc<Engine>) {
        let _ = self.engine.set(engine);
    }

    pub fn engine(&self) -> Option<&Arc<Engine>> {
        self.engine.get()
    }

    /// The engine of a database by its ledger's number; of the node's own where there is none.
    pub fn engine_of(&self, ledger: Option<&str>) -> Option<Arc<Engine>> {
        let other = ledger.and_then(|ledger| self.databases.get()?(ledger));
        other.or_else(|| self.engine().cloned())
    }

    pub fn phase(&self) -> Phase {
        if self.engine.get().is_some_and(|engine| engine.is_halted()) {
            return Phase::Halted;
        }
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Stopping,
        }
    }
}

/// A data folder that a node has open.
pub struct Folder {
    pub path: PathBuf,
    pub files: Arc<dyn Files>,
    /// Where blocks are copied to before they go, by each way of pruning.
    pub archive: Option<PathBuf>,
    /// Held while blocks are pruned.
    pub pruning: Mutex<()>,
}

impl Folder {
    pub fn new(settings: &Settings, files: Arc<dyn Files>) -> Folder {
        let path = settings.data.clone();
        let archive = settings.prune_archive.clone();
        Folder { path, files, archive, pruning: Mutex::default() }
    }
}
