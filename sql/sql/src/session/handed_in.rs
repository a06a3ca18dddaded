//! What an envelope that a client hands in may not bear: statements about databases.
//!
//! A record that a database was made names its ledger, and no replica can look whether there is
//! one: the node that has made it says so, in an envelope of its own. Hence no envelope that a
//! client hands in may bear such a statement, nor one that drops or renames a database, whose
//! sessions the node keeps out while that is recorded. `tally_submit_signed` is the only way in
//! which a client brings an envelope.

use engine::Body;
use types::{Error, Result, SqlState};

use crate::syntax::ddl::Ddl;
use crate::syntax::parse::parse;
use crate::syntax::parsed::Body as ParsedBody;

/// # Errors
/// 42501: it says which databases there are.
pub(super) fn check_leaves_databases(body: &Body) -> Result<()> {
    let tag = match body {
        Body::Schema { text } => tag_of_database(text),
        Body::Interactive { transaction, .. } => {
            transaction.writes.iter().find_map(|(write, _)| match write {
                Body::Schema { text } => tag_of_database(text),
                _ => None,
            })
        }
        _ => None,
    };
    tag.map_or(Ok(()), |tag| {
        let what = format!("{tag} in an envelope of a client");
        Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what).with_hint(
            "Send the statement by a session: its node does what is recorded of a database.",
        ))
    })
}

/// What cannot be read is refused where it is to run.
fn tag_of_database(text: &str) -> Option<&'static str> {
    parse(text).ok()?.iter().find_map(|statement| match &statement.body {
        ParsedBody::Ddl(ddl) => match &**ddl {
            Ddl::Database(statement) => Some(statement.tag()),
            _ => None,
        },
        _ => None,
    })
}
