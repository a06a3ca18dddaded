//! What a node does for the databases that its ledger makes: their folders, and who is in them.

use std::any::Any;
use std::path::PathBuf;

use futures::future::BoxFuture;
use types::{Error, Result};

use crate::syntax::databases::MadeLedger;

/// What a node comes to, be it waited for or not.
pub type Answered<T> = BoxFuture<'static, Result<T>>;

/// A database that is yet to be made.
#[derive(Clone, Debug)]
pub struct NewDatabase {
    pub name: String,
    /// The superuser that its ledger begins with.
    pub superuser: String,
    /// The node's usual one, if it is not said.
    pub protocol: Option<String>,
    /// What its first block runs, as the superuser.
    pub statements: Vec<String>,
}

/// A database that is not there any more, and where its folder is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedAside {
    pub ledger: [u8; 16],
    pub folder: PathBuf,
}

/// What it took to do as the record says.
#[derive(Debug, Default)]
pub struct Reconciled {
    pub moved: Vec<MovedAside>,
    /// Databases that cannot be opened, by their ledgers' numbers.
    pub failed: Vec<([u8; 16], Error)>,
}

/// A database, as all sessions of its node see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownDatabase {
    pub number: u32,
    pub name: String,
    /// A role of the ledger that it was made in.
    pub owner: String,
}

/// Those of a node, of which a ledger has the names. Only sessions of that ledger have it.
pub trait Databases: Send + Sync {
    /// Makes a ledger, of which there is no record so far: what is not recorded by the next start
    /// is removed.
    ///
    /// # Errors
    /// 53400: the node has as many databases as it may. 22023: there is no such protocol.
    fn make(&self, new: NewDatabase) -> Answered<MadeLedger>;

    /// A ledger that was made and is refused a record.
    fn forget(&self, made: MadeLedger);

    /// Does what the newest durable record says: opens what is new, and moves aside what is gone.
    fn reconcile(&self) -> Answered<Reconciled>;

    /// Waits for a database's sessions to leave, or ends them; none comes in until the answer is
    /// dropped.
    ///
    /// # Errors
    /// 55006: some stay.
    fn keep_out(&self, ledger: [u8; 16], name: &str, force: bool) -> Answered<Box<dyn Any + Send>>;
}
