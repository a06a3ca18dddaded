//! The statements about who owns what and may do what, as parts of the schema's language: GRANT and
//! REVOKE by [`grants`](super::grants), ALTER … OWNER TO, DROP OWNED and REASSIGN OWNED here.

use sqlparser::keywords::Keyword as K;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::TokenWithSpan;

use crate::syntax::ddl::Ddl;
use crate::syntax::grants::{Owned, default_privileges, grant};
use crate::syntax::roles::{spec, specs};
use crate::syntax::words::{is_word, routine, word};

type Read<T> = Result<T, ParserError>;

/// Whether a statement of these first words, that grants no role, is read here.
pub(crate) fn are_of_privileges(words: &[K], tokens: &[TokenWithSpan]) -> bool {
    match words {
        [K::GRANT | K::REVOKE, ..]
        | [K::ALTER, K::DEFAULT, K::PRIVILEGES, ..]
        | [K::DROP, K::OWNED, K::BY, ..] => true,
        // sqlparser has no keyword for it.
        [_, K::OWNED, K::BY, ..] => tokens.first().is_some_and(|first| is_word(first, "reassign")),
        _ => false,
    }
}

/// A statement that [`are_of_privileges`] has told.
pub(crate) fn statement(words: &[K], parser: &mut Parser<'_>) -> Read<Ddl> {
    let before = if let [K::GRANT | K::REVOKE, ..] = words { 1 } else { 3 };
    (0..before).for_each(|_| drop(parser.next_token()));
    match words.first() {
        Some(kind @ (K::GRANT | K::REVOKE)) => {
            let statement = grant(parser, *kind == K::GRANT)?;
            Ok(Ddl::Grant(Box::new(statement)))
        }
        Some(K::ALTER) => Ok(Ddl::DefaultPrivileges(Box::new(default_privileges(parser)?))),
        Some(K::DROP) => drop_owned(parser),
        _ => reassign_owned(parser),
    }
}

/// After DROP OWNED BY.
fn drop_owned(parser: &mut Parser<'_>) -> Read<Ddl> {
    let roles = specs(parser)?;
    let cascade = parser.parse_one_of_keywords(&[K::CASCADE, K::RESTRICT]) == Some(K::CASCADE);
    Ok(Ddl::DropOwned { roles, cascade })
}

/// After REASSIGN OWNED BY.
fn reassign_owned(parser: &mut Parser<'_>) -> Read<Ddl> {
    let roles = specs(parser)?;
    parser.expect_keyword_is(K::TO)?;
    Ok(Ddl::ReassignOwned { roles, to: spec(parser)? })
}

/// `ALTER kind [IF EXISTS] name OWNER TO role`.
///
/// `None`: it says something else.
pub(crate) fn changed_owner(
    tokens: &[TokenWithSpan],
    parser: &mut Parser<'_>,
) -> Option<Read<Ddl>> {
    let is = is_word;
    let [alter, _, .., owner, to, _] = tokens else { return None };
    if !(is(alter, "alter") && is(owner, "owner") && is(to, "to")) {
        return None;
    }
    let words = [
        "table",
        "view",
        "sequence",
        "function",
        "procedure",
        "routine",
        "schema",
        "type",
        "domain",
        "collation",
        "database",
    ];
    let kind = tokens.get(1).and_then(|kind| words.into_iter().find(|word| is(kind, word)))?;
    (0..2).for_each(|_| drop(parser.next_token()));
    let owned = match kind {
        "table" => Owned::Table,
        "view" => Owned::View,
        "sequence" => Owned::Sequence,
        "schema" => Owned::Schema,
        "type" => Owned::Type,
        "domain" => Owned::Domain,
        "collation" => Owned::Collation,
        "database" => Owned::Database,
        _ => Owned::Routine,
    };
    Some(behind_kind(parser, owned))
}

fn behind_kind(parser: &mut Parser<'_>, owned: Owned) -> Read<Ddl> {
    let if_exists = parser.parse_keywords(&[K::IF, K::EXISTS]);
    let _ = parser.parse_keyword(K::ONLY);
    let name = routine(parser)?;
    word(parser, &["owner"])
        .ok_or_else(|| ParserError::ParserError("Expected: OWNER TO".to_owned()))?;
    parser.expect_keyword_is(K::TO)?;
    Ok(Ddl::ChangeOwner { owned, if_exists, name, role: spec(parser)? })
}
