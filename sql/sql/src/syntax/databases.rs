//! CREATE, ALTER and DROP DATABASE.
//!
//! ```text
//! CREATE DATABASE name [[WITH] option [=] value …]
//! ALTER DATABASE name RENAME TO name
//! DROP DATABASE [IF EXISTS] name [[WITH] (FORCE)]
//! ```
//!
//! What is recorded of CREATE DATABASE ends in `LEDGER 'hex' GENESIS 'hex'`, which the node that
//! was asked has added: which ledger it has made for it.

use std::fmt;

use sqlparser::keywords::Keyword as K;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use types::{Error, Result, SqlState};

use crate::syntax::dialect::Ledger;
use crate::syntax::errors::parser_error;
use crate::syntax::names::{fold, quoted};
use crate::syntax::roles::{RoleSpec, spec};
use crate::syntax::words::word;

type Read<T> = std::result::Result<T, ParserError>;

#[derive(Clone, Debug, PartialEq)]
pub enum DatabaseStatement {
    Create { name: String, options: DatabaseOptions, made: Option<MadeLedger> },
    Rename { name: String, to: String },
    Drop { name: String, if_exists: bool, force: bool },
}

/// The ledger that is a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadeLedger {
    pub id: [u8; 16],
    /// The hash of its first block's result.
    pub genesis: [u8; 32],
}

/// What a new database is to be: `None` where the statement does not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DatabaseOptions {
    pub owner: Option<RoleSpec>,
    pub template: Option<String>,
    pub protocol: Option<String>,
}

impl DatabaseStatement {
    pub fn tag(&self) -> &'static str {
        match self {
            DatabaseStatement::Create { .. } => "CREATE DATABASE",
            DatabaseStatement::Rename { .. } => "ALTER DATABASE",
            DatabaseStatement::Drop { .. } => "DROP DATABASE",
        }
    }
}

/// `None`: the statement is none of these.
pub(crate) fn read(sql: &str, tokens: &[TokenWithSpan]) -> Option<Result<DatabaseStatement>> {
    let word_at = |place: usize| match tokens.get(place).map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    };
    let verb = word_at(0).filter(|verb| matches!(verb, K::CREATE | K::ALTER | K::DROP))?;
    if word_at(1) != Some(K::DATABASE) {
        return None;
    }
    let renames = || (word_at(3), word_at(4)) == (Some(K::RENAME), Some(K::TO));
    if verb == K::ALTER && !renames() {
        let change = tokens.get(3)?.token.to_string().to_uppercase();
        if change == "OWNER" {
            return None;
        }
        let what = format!("ALTER DATABASE … {change}");
        return Some(Err(Error::unsupported(what)
            .with_hint("A session is given its settings by the DSN: options=-c name=value.")));
    }
    let dialect = Ledger::for_tokens(tokens.len());
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens.to_vec());
    (0..2).for_each(|_| drop(parser.next_token()));
    let mut refused = None;
    let statement = match verb {
        K::CREATE => create(&mut parser, &mut refused),
        K::DROP => drop_database(&mut parser),
        _ => rename(&mut parser),
    };
    let statement = statement.and_then(|statement| match parser.peek_token().token {
        Token::EOF => Ok(statement),
        other => Err(fault(format!("Expected: the end of the statement, found: {other}"))),
    });
    Some(match refused {
        Some(error) => Err(error),
        None => statement.map_err(|error| parser_error(sql, error)),
    })
}

fn fault(what: impl Into<String>) -> ParserError {
    ParserError::ParserError(what.into())
}

fn rename(parser: &mut Parser<'_>) -> Read<DatabaseStatement> {
    let name = fold(&parser.parse_identifier()?);
    parser.expect_keywords(&[K::RENAME, K::TO])?;
    Ok(DatabaseStatement::Rename { name, to: fold(&parser.parse_identifier()?) })
}

fn drop_database(parser: &mut Parser<'_>) -> Read<DatabaseStatement> {
    let if_exists = parser.parse_keywords(&[K::IF, K::EXISTS]);
    let name = fold(&parser.parse_identifier()?);
    let _ = parser.parse_keyword(K::WITH);
    let force = parser.consume_token(&Token::LParen);
    if force {
        loop {
            word(parser, &["force"]).ok_or_else(|| fault("Expected: FORCE"))?;
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parser.expect_token(&Token::RParen)?;
    }
    Ok(DatabaseStatement::Drop { name, if_exists, force })
}

/// What an option is given: a word, a text or a number; `None`: DEFAULT.
#[derive(Clone, Debug)]
struct Said {
    text: Option<String>,
    spec: Option<RoleSpec>,
}

impl Said {
    fn read(parser: &mut Parser<'_>) -> Read<Said> {
        let _ = parser.consume_token(&Token::Eq);
        if parser.parse_keyword(K::DEFAULT) {
            return Ok(Said { text: None, spec: None });
        }
        let minus = if parser.consume_token(&Token::Minus) { "-" } else { "" };
        let quoted = match parser.peek_token().token {
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => Some(text),
            Token::Number(text, _) => Some(format!("{minus}{text}")),
            _ => None,
        };
        if let Some(text) = quoted {
            parser.next_token();
            return Ok(Said { text: Some(text), spec: None });
        }
        let spec = spec(parser)?;
        let text = match &spec {
            RoleSpec::Name(name) => name.clone(),
            other => other.to_string(),
        };
        Ok(Said { text: Some(text), spec: Some(spec) })
    }

    fn role(self) -> Option<RoleSpec> {
        self.spec.or_else(|| self.text.map(RoleSpec::Name))
    }

    /// As PostgreSQL reads a boolean option; without a value it is on.
    fn is_on(&self) -> bool {
        let text = self.text.as_deref().unwrap_or("true").to_ascii_lowercase();
        matches!(text.as_str(), "true" | "on" | "yes" | "1" | "t" | "y")
    }
}

const OPTIONS: &[&str] = &[
    "owner",
    "template",
    "encoding",
    "strategy",
    "locale",
    "lc_collate",
    "lc_ctype",
    "icu_locale",
    "builtin_locale",
    "icu_rules",
    "locale_provider",
    "collation_version",
    "tablespace",
    "allow_connections",
    "connection",
    "connection_limit",
    "is_template",
    "oid",
    "protocol",
    "ledger",
    "genesis",
];

fn create(parser: &mut Parser<'_>, refused: &mut Option<Error>) -> Read<DatabaseStatement> {
    let name = fold(&parser.parse_identifier()?);
    let _ = parser.parse_keyword(K::WITH);
    let mut options = DatabaseOptions::default();
    let (mut id, mut genesis) = (None, None);
    let mut seen = Vec::new();
    while let Some(option) = word(parser, OPTIONS) {
        if option == "connection" {
            word(parser, &["limit"]).ok_or_else(|| fault("Expected: LIMIT"))?;
        }
        let said = Said::read(parser)?;
        if seen.contains(&option) {
            return Err(fault("conflicting or redundant options"));
        }
        seen.push(option);
        match option {
            "owner" => options.owner = said.role(),
            "template" => options.template = said.text,
            "protocol" => options.protocol = said.text.map(|text| text.to_ascii_lowercase()),
            "ledger" => id = Some(bytes(&said)?),
            "genesis" => genesis = Some(bytes(&said)?),
            other => {
                if let Err(error) = check_option(other, &said) {
                    refused.get_or_insert(error);
                }
            }
        }
    }
    let made = match (id, genesis) {
        (None, None) => None,
        (Some(id), Some(genesis)) => Some(MadeLedger { id, genesis }),
        _ => return Err(fault("Expected: LEDGER and GENESIS")),
    };
    Ok(DatabaseStatement::Create { name, options, made })
}

fn bytes<const BYTES: usize>(said: &Said) -> Read<[u8; BYTES]> {
    let text = said.text.as_deref().unwrap_or_default();
    let digit = |place: usize| {
        let pair = text.get(2 * place..2 * place + 2)?;
        let is_hex = pair.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u8::from_str_radix(pair, 16).ok()).flatten()
    };
    let mut bytes = [0; BYTES];
    let wrong = || fault(format!("Expected: {} hexadecimal digits", 2 * BYTES));
    if text.len() != 2 * BYTES {
        return Err(wrong());
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = digit(place).ok_or_else(wrong)?;
    }
    Ok(bytes)
}

/// Options that change nothing are taken where they say what is so anyway.
///
/// # Errors
/// 0A000: they ask for what no database of a ledger is; 42704, 22023: for what there is not.
fn check_option(option: &str, said: &Said) -> Result<()> {
    let Some(text) = said.text.as_deref() else { return Ok(()) };
    let lower = text.to_ascii_lowercase();
    let is = |all: &[&str]| all.contains(&lower.as_str());
    let refused = |hint: &str| {
        let what = format!("{} = '{text}' of a database", option.to_ascii_uppercase());
        Err(Error::unsupported(what).with_hint(hint))
    };
    match option {
        "encoding" if is(&["utf8", "utf-8", "utf_8", "unicode", "6"]) => Ok(()),
        "encoding" => {
            refused("The texts of a ledger are UTF8; clients may speak another encoding.")
        }
        "locale" | "lc_collate" | "builtin_locale" if is(C_LOCALES) => Ok(()),
        "lc_ctype" if is(C_LOCALES) || is_utf8(&lower) => Ok(()),
        "locale" | "lc_collate" | "lc_ctype" | "builtin_locale" | "icu_locale" | "icu_rules" => {
            refused("Text is ordered by its bytes, on every node and for ever: LC_COLLATE 'C'.")
        }
        "locale_provider" if is(&["libc", "builtin"]) => Ok(()),
        "locale_provider" => refused("Text is ordered by its bytes: LOCALE_PROVIDER libc."),
        "strategy" if is(&["wal_log", "file_copy"]) => Ok(()),
        "strategy" => {
            let what = format!("invalid create database strategy \"{text}\"");
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
                .with_hint("Valid strategies are \"wal_log\", and \"file_copy\"."))
        }
        "tablespace" if text == "pg_default" => Ok(()),
        "tablespace" => {
            let what = format!("tablespace \"{text}\" does not exist");
            Err(Error::new(SqlState::UNDEFINED_OBJECT, what))
        }
        "connection" | "connection_limit" if text == "-1" => Ok(()),
        "connection" | "connection_limit" => refused("The node's are: max_connections."),
        "allow_connections" if said.is_on() => Ok(()),
        "allow_connections" => refused("REVOKE CONNECT ON DATABASE … FROM PUBLIC, within it."),
        "is_template" if !said.is_on() => Ok(()),
        "is_template" => refused("A ledger is not copied into another one."),
        _ => Ok(()),
    }
}

const C_LOCALES: &[&str] = &["c", "posix", "c.utf-8", "c.utf8", "ucs_basic"];

/// Upper and lower case are Unicode's, as in every locale of UTF-8.
fn is_utf8(locale: &str) -> bool {
    locale.ends_with(".utf-8") || locale.ends_with(".utf8")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for MadeLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LEDGER '{}' GENESIS '{}'", hex(&self.id), hex(&self.genesis))
    }
}

/// As it is recorded.
impl fmt::Display for DatabaseStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DatabaseStatement::Create { name, options, made } => {
                write!(f, "CREATE DATABASE {}", quoted(name))?;
                if let Some(owner) = &options.owner {
                    write!(f, " OWNER {owner}")?;
                }
                if let Some(template) = &options.template {
                    write!(f, " TEMPLATE {}", quoted(template))?;
                }
                if let Some(protocol) = &options.protocol {
                    write!(f, " PROTOCOL {}", quoted(protocol))?;
                }
                made.iter().try_for_each(|made| write!(f, " {made}"))
            }
            DatabaseStatement::Rename { name, to } => {
                write!(f, "ALTER DATABASE {} RENAME TO {}", quoted(name), quoted(to))
            }
            DatabaseStatement::Drop { name, if_exists, force } => {
                let if_exists = if *if_exists { "IF EXISTS " } else { "" };
                let force = if *force { " WITH (FORCE)" } else { "" };
                write!(f, "DROP DATABASE {if_exists}{}{force}", quoted(name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::ddl::Ddl;
    use crate::syntax::parse::parse;
    use crate::syntax::parsed::Body;

    fn read(text: &str) -> Result<DatabaseStatement> {
        Ok(match parse(text)?.remove(0).body {
            Body::Ddl(ddl) => match *ddl {
                Ddl::Database(statement) => *statement,
                other => panic!("{text}: {other:?}"),
            },
            other => panic!("{text}: {other:?}"),
        })
    }

    /// As Django, SQLAlchemy, Sequelize, Rails, `createdb` and `dropdb` send them.
    #[test]
    fn what_clients_send_is_taken() {
        let made = format!("LEDGER '{}' GENESIS '{}'", "0a".repeat(16), "f0".repeat(32));
        for text in [
            "CREATE DATABASE \"test_shop\" ",
            "CREATE DATABASE a WITH ENCODING 'UTF8' TEMPLATE \"template0\"",
            "CREATE DATABASE a ENCODING 'utf8' TEMPLATE template1",
            "create database \"A b\" with owner = ada lc_collate = 'C' lc_ctype 'en_US.UTF-8'",
            "CREATE DATABASE a OWNER current_user TEMPLATE = DEFAULT ENCODING = unicode",
            "CREATE DATABASE a STRATEGY file_copy LOCALE 'C' TABLESPACE pg_default",
            "CREATE DATABASE a CONNECTION LIMIT = -1 IS_TEMPLATE false ALLOW_CONNECTIONS true",
            "CREATE DATABASE a WITH PROTOCOL = fabric_pp",
            &format!("CREATE DATABASE a {made}"),
            "ALTER DATABASE a RENAME TO \"B\"",
            "DROP DATABASE IF EXISTS \"a\"",
            "drop database a with (force)",
            "DROP DATABASE a (FORCE)",
        ] {
            let statement = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(read(&statement.to_string()).unwrap(), statement, "{text}: {statement}");
        }
    }

    #[test]
    fn what_no_database_of_a_ledger_is_is_refused_by_name() {
        for (text, code) in [
            ("CREATE DATABASE a ENCODING 'LATIN1'", "0A000"),
            ("CREATE DATABASE a LC_COLLATE 'de_DE.UTF-8'", "0A000"),
            ("CREATE DATABASE a LC_CTYPE 'de_DE.ISO8859-1'", "0A000"),
            ("CREATE DATABASE a LOCALE_PROVIDER icu ICU_LOCALE 'de'", "0A000"),
            ("CREATE DATABASE a STRATEGY fast", "22023"),
            ("CREATE DATABASE a TABLESPACE fast", "42704"),
            ("CREATE DATABASE a CONNECTION LIMIT 5", "0A000"),
            ("CREATE DATABASE a ALLOW_CONNECTIONS false", "0A000"),
            ("CREATE DATABASE a IS_TEMPLATE true", "0A000"),
            ("ALTER DATABASE a SET timezone TO 'UTC'", "0A000"),
            ("ALTER DATABASE a CONNECTION LIMIT 5", "0A000"),
            ("CREATE DATABASE a OWNER ada OWNER eve", "42601"),
            ("CREATE DATABASE a LEDGER '00' GENESIS '00'", "42601"),
            ("CREATE DATABASE", "42601"),
            ("CREATE DATABASE a b", "42601"),
            ("DROP DATABASE a CASCADE", "42601"),
            ("DROP DATABASE a WITH (NOW)", "42601"),
            ("DROP DATABASE a, b", "42601"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.code().as_str(), code, "{text}: {error}");
        }
    }
}
