//! Classifies a database's errors: the statement's own fault (the same everywhere), a conflict (try
//! again), or the database's or connection's.

use types::{Error, SqlState};

/// Why a database did not do what it was told.
#[derive(Debug)]
pub enum Trouble {
    /// The statement is at fault: it will be on every other database.
    Refused(String),
    /// Others were in the way: it may do it the next time.
    Again(String),
    /// The database, its connection or this one's rights are.
    Sick(String),
}

impl Trouble {
    pub fn into_error(self, name: &str) -> Error {
        match self {
            Trouble::Refused(detail) => {
                let what = format!("{name} has refused a statement");
                Error::new(SqlState::SYNTAX_ERROR, what).with_detail(detail)
            }
            Trouble::Again(detail) => {
                let what = format!("rows of {name} are locked by other sessions");
                Error::new(SqlState::SERIALIZATION_FAILURE, what).with_detail(detail).with_hint(
                    "Look for sessions that hold locks on chained tables, and end them: \
                     pg_stat_activity in PostgreSQL, SHOW PROCESSLIST in MariaDB.",
                )
            }
            Trouble::Sick(detail) => {
                let what = format!("{name} cannot be used at present");
                let error = Error::new(SqlState::TRANSACTION_RESOLUTION_UNKNOWN, what);
                error.with_detail(detail).with_hint(
                    "What it has done stands in its own tables: the block goes on from there when \
                     it is back.",
                )
            }
        }
    }
}

/// A URL as it may be shown.
pub(super) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "a database".to_owned() };
    let rest = rest.split('?').next().unwrap_or_default();
    match rest.rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{host}")
        }
        None => format!("{scheme}://{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let shown = without_password("postgresql://ann:s@cret@h:5432/db?password=x");
        assert_eq!(shown, "postgresql://ann@h:5432/db");
        assert_eq!(without_password("mysql://h/db"), "mysql://h/db");
    }
}
