//! Transactions that are none of the ledger's: what a database does by itself, to compare with.

use types::{Error, Result, SqlState};

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

    /// Whether a function of this database, which gets the statements as a JSON list, agrees.
    pub async fn agrees(&mut self, function: &str, statements: &[String]) -> Result<bool> {
        let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '.';
        if function.is_empty() || !function.chars().all(is_name) {
            let what = format!("\"{function}\" is no name of a function");
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
        }
        let list = serde_json::Value::from(statements).to_string();
        let text = self.dialect().text(&list);
        let rows = self.rows(&format!("SELECT {function}({text})")).await?;
        Ok(rows.first().and_then(|row| row.first()).is_some_and(super::is_true))
    }
}
