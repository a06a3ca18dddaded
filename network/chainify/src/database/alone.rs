//! Transactions that are none of the ledger's: what a database does by itself, to compare with.

use types::Result;

use super::{Database, Trouble};
use crate::dialect::Isolation;

/// How one has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alone {
    Committed,
    /// By a constraint, say: its end.
    Refused,
    /// Others were in its way, or it could not be serialized: to be sent again.
    Again,
}

impl Database {
    /// Runs one by the way that those of the ledger take, without what belongs to the ledger.
    pub async fn alone(&mut self, statements: &[String], isolation: Isolation) -> Result<Alone> {
        let begin = self.dialect().begin_alone(isolation);
        match self.link.transaction(&begin, statements, "").await {
            Ok(()) => Ok(Alone::Committed),
            Err(Trouble::Refused(_)) => Ok(Alone::Refused),
            Err(Trouble::Again(_)) => Ok(Alone::Again),
            Err(trouble) => Err(trouble.into_error(self.link.name())),
        }
    }
}
