//! CREATE, ALTER and DROP ORGANISATION.
//!
//! ```text
//! CREATE ORGANISATION name KEY 'hex'
//! ALTER ORGANISATION name ADD USER role [WITH CLIENT SIGNATURE]
//!                         ALTER USER role { WITH | WITHOUT } CLIENT SIGNATURE
//!                         DROP USER role
//!                         ADD KEY 'hex' FOR { USER role | NODE name }
//!                         REVOKE KEY 'hex'
//!                         ROTATE KEY 'hex'
//! DROP ORGANISATION [IF EXISTS] name
//! ```

use identity::KeyId;
use sqlparser::keywords::Keyword as K;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use types::Result;

use crate::syntax::dialect::Ledger;
use crate::syntax::errors::parser_error;
use crate::syntax::names::fold;
use crate::syntax::words::word;

type Read<T> = std::result::Result<T, ParserError>;

#[derive(Clone, Debug, PartialEq)]
pub enum OrganisationStatement {
    Create { name: String, root: KeyId },
    Alter { name: String, change: OrganisationChange },
    Drop { name: String, if_exists: bool },
}

#[derive(Clone, Debug, PartialEq)]
pub enum OrganisationChange {
    AddUser { role: String, client_signature: bool },
    AlterUser { role: String, client_signature: bool },
    DropUser { role: String },
    AddUserKey { key: KeyId, role: String },
    AddNodeKey { key: KeyId, node: String },
    RevokeKey { key: KeyId },
    RotateKey { key: KeyId },
}

impl OrganisationStatement {
    pub fn tag(&self) -> &'static str {
        match self {
            OrganisationStatement::Create { .. } => "CREATE ORGANISATION",
            OrganisationStatement::Alter { .. } => "ALTER ORGANISATION",
            OrganisationStatement::Drop { .. } => "DROP ORGANISATION",
        }
    }
}

/// `None`: the statement is none of these, by its first two words.
pub(crate) fn read(sql: &str, tokens: &[TokenWithSpan]) -> Option<Result<OrganisationStatement>> {
    let [first, second, ..] = tokens else { return None };
    let (Token::Word(verb), Token::Word(kind)) = (&first.token, &second.token) else { return None };
    let words = ["organisation", "organization"];
    let is_it = words.iter().any(|known| kind.value.eq_ignore_ascii_case(known));
    if !is_it || !matches!(verb.keyword, K::CREATE | K::ALTER | K::DROP) {
        return None;
    }
    let dialect = Ledger::for_tokens(tokens.len());
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens.to_vec());
    (0..2).for_each(|_| drop(parser.next_token()));
    let statement = statement(&mut parser, verb.keyword).and_then(|statement| {
        match parser.next_token().token {
            Token::EOF => Ok(statement),
            _ => Err(expected("the end of the statement")),
        }
    });
    Some(statement.map_err(|error| parser_error(sql, error)))
}

fn statement(parser: &mut Parser<'_>, verb: K) -> Read<OrganisationStatement> {
    if verb == K::DROP {
        let if_exists = parser.parse_keywords(&[K::IF, K::EXISTS]);
        return Ok(OrganisationStatement::Drop { name: name(parser)?, if_exists });
    }
    let name = name(parser)?;
    if verb == K::CREATE {
        expect(parser, "key")?;
        return Ok(OrganisationStatement::Create { name, root: key(parser)? });
    }
    let what = word(parser, &["add", "alter", "drop", "revoke", "rotate"]);
    let change = match what {
        Some("add") => match word(parser, &["user", "key"]) {
            Some("user") => {
                let role = self::name(parser)?;
                let client_signature = word(parser, &["with"]).is_some();
                if client_signature {
                    client_signature_words(parser)?;
                }
                OrganisationChange::AddUser { role, client_signature }
            }
            Some(_) => added_key(parser)?,
            None => return Err(expected("USER or KEY")),
        },
        Some("alter") => {
            expect(parser, "user")?;
            let role = self::name(parser)?;
            let how = word(parser, &["with", "without"]);
            let how = how.ok_or_else(|| expected("WITH or WITHOUT CLIENT SIGNATURE"))?;
            client_signature_words(parser)?;
            OrganisationChange::AlterUser { role, client_signature: how == "with" }
        }
        Some("drop") => {
            expect(parser, "user")?;
            OrganisationChange::DropUser { role: self::name(parser)? }
        }
        Some("revoke") => {
            expect(parser, "key")?;
            OrganisationChange::RevokeKey { key: key(parser)? }
        }
        Some(_) => {
            expect(parser, "key")?;
            OrganisationChange::RotateKey { key: key(parser)? }
        }
        None => return Err(expected("ADD, ALTER, DROP, REVOKE or ROTATE")),
    };
    Ok(OrganisationStatement::Alter { name, change })
}

fn added_key(parser: &mut Parser<'_>) -> Read<OrganisationChange> {
    let key = key(parser)?;
    parser.expect_keyword_is(K::FOR)?;
    match word(parser, &["user", "node"]) {
        Some("user") => Ok(OrganisationChange::AddUserKey { key, role: name(parser)? }),
        Some(_) => Ok(OrganisationChange::AddNodeKey { key, node: name(parser)? }),
        None => Err(expected("USER or NODE")),
    }
}

fn client_signature_words(parser: &mut Parser<'_>) -> Read<()> {
    expect(parser, "client")?;
    expect(parser, "signature")
}

fn expect(parser: &mut Parser<'_>, wanted: &'static str) -> Read<()> {
    word(parser, &[wanted]).map(drop).ok_or_else(|| expected(&wanted.to_uppercase()))
}

fn expected(what: &str) -> ParserError {
    ParserError::ParserError(format!("Expected: {what}"))
}

fn name(parser: &mut Parser<'_>) -> Read<String> {
    Ok(fold(&parser.parse_identifier()?))
}

/// 64 digits; a text of another kind is not quoted, since it may be a private key.
fn key(parser: &mut Parser<'_>) -> Read<KeyId> {
    let Token::SingleQuotedString(text) = parser.next_token().token else {
        return Err(expected("a key"));
    };
    let digits = text.as_bytes();
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let mut key = [0; 32];
    let known = digits.len() == 64
        && key.iter_mut().zip(digits.chunks(2)).all(|(byte, pair)| {
            let both = digit(pair[0]).zip(digit(pair[1]));
            both.map(|(high, low)| *byte = high << 4 | low).is_some()
        });
    match known {
        true => Ok(key),
        false => Err(expected("an ed25519 public key, in 64 hexadecimal digits")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::ddl::Ddl;
    use crate::syntax::parse::parse;
    use crate::syntax::parsed::Body;

    fn read(text: &str) -> Result<OrganisationStatement> {
        match parse(text)?.remove(0).body {
            Body::Ddl(ddl) => match *ddl {
                Ddl::Organisation(statement) => Ok(*statement),
                other => panic!("{text}: {other:?}"),
            },
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn statements_say_what_they_say() {
        use OrganisationChange as C;
        let hex = "0a".repeat(32);
        let key = [10; 32];
        let created = read(&format!("create organization \"Bank A\" key '{hex}'")).unwrap();
        assert_eq!(created, OrganisationStatement::Create { name: "Bank A".into(), root: key });
        let role = || "ada".to_owned();
        for (text, change) in [
            ("ADD USER ada", C::AddUser { role: role(), client_signature: false }),
            (
                "ADD USER Ada WITH CLIENT SIGNATURE",
                C::AddUser { role: role(), client_signature: true },
            ),
            (
                "ALTER USER ada WITHOUT CLIENT SIGNATURE",
                C::AlterUser { role: role(), client_signature: false },
            ),
            ("DROP USER ada", C::DropUser { role: role() }),
            ("ADD KEY '@' FOR USER ada", C::AddUserKey { key, role: role() }),
            ("ADD KEY '@' FOR NODE n1", C::AddNodeKey { key, node: "n1".into() }),
            ("REVOKE KEY '@'", C::RevokeKey { key }),
            ("ROTATE KEY '@'", C::RotateKey { key }),
        ] {
            let text = format!("ALTER ORGANISATION bank_a {}", text.replace('@', &hex));
            let name = "bank_a".to_owned();
            assert_eq!(read(&text).unwrap(), OrganisationStatement::Alter { name, change });
        }
        let dropped = OrganisationStatement::Drop { name: "b".into(), if_exists: true };
        assert_eq!(read("DROP ORGANISATION IF EXISTS b").unwrap(), dropped);
    }

    #[test]
    fn what_may_be_a_secret_is_not_quoted() {
        for text in [
            "CREATE ORGANISATION a KEY 'hunter2'",
            "CREATE ORGANISATION a KEY hunter2",
            "ALTER ORGANISATION a ADD KEY 'hunter2hunter2' FOR USER b",
            "ALTER ORGANISATION a ROTATE KEY",
            "ALTER ORGANISATION a ADD",
            "ALTER ORGANISATION a ALTER USER b CLIENT SIGNATURE",
            "CREATE ORGANISATION a",
            "DROP ORGANISATION a b",
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.code().as_str(), "42601", "{text}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
