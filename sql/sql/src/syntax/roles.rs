//! CREATE, ALTER and DROP ROLE, USER and GROUP, and GRANT and REVOKE of roles.
//!
//! A statement has one text that it is recorded by, which is not the client's: a password in it is
//! replaced by its verifier before anything is ordered.

use std::fmt;

use sqlparser::ast::Ident;
use sqlparser::keywords::Keyword as K;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use types::{Error, Result, SqlState};

use crate::syntax::names::{fold, quoted};
use crate::syntax::words::word;

type Read<T> = Result<T, ParserError>;

#[derive(Clone, Debug, PartialEq)]
pub enum RoleStatement {
    Create { name: String, options: RoleOptions },
    Alter { role: RoleSpec, options: RoleOptions },
    Rename { name: String, to: String },
    Drop { names: Vec<RoleSpec>, if_exists: bool },
    Grant { roles: Vec<String>, to: Vec<RoleSpec>, admin: bool },
    Revoke { roles: Vec<String>, from: Vec<RoleSpec>, admin_only: bool },
}

/// A role as a statement names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleSpec {
    Name(String),
    CurrentUser,
    SessionUser,
}

/// `None`: the statement does not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoleOptions {
    pub superuser: Option<bool>,
    pub inherits: Option<bool>,
    pub creates_roles: Option<bool>,
    pub creates_databases: Option<bool>,
    pub logs_in: Option<bool>,
    pub replicates: Option<bool>,
    pub bypasses_row_security: Option<bool>,
    /// `Some(None)`: PASSWORD NULL.
    pub password: Option<Option<Secret>>,
    pub valid_until: Option<String>,
    pub in_roles: Vec<RoleSpec>,
    pub members: Vec<RoleSpec>,
    pub admins: Vec<RoleSpec>,
}

/// A password, or its verifier: shown where a statement is recorded and nowhere else.
#[derive(Clone, PartialEq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// What a verifier begins with, whatever the password was.
const VERIFIER: &str = "SCRAM-SHA-256$";

impl Secret {
    pub fn is_verifier(&self) -> bool {
        let parts: Vec<&str> = self.0.split(['$', ':']).collect();
        let is_base64 = |text: &str| {
            let known = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
            !text.is_empty() && text.len() <= 128 && text.chars().all(known)
        };
        self.0.starts_with(VERIFIER)
            && matches!(&parts[..], [_, iterations, keys @ ..] if keys.len() == 3
                && iterations.parse::<u32>().is_ok_and(|count| count > 0)
                && keys.iter().all(|key| is_base64(key)))
    }
}

impl RoleStatement {
    pub fn tag(&self) -> &'static str {
        match self {
            RoleStatement::Create { .. } => "CREATE ROLE",
            RoleStatement::Alter { .. } | RoleStatement::Rename { .. } => "ALTER ROLE",
            RoleStatement::Drop { .. } => "DROP ROLE",
            RoleStatement::Grant { .. } => "GRANT ROLE",
            RoleStatement::Revoke { .. } => "REVOKE ROLE",
        }
    }

    /// The password that it brings, if that is not its verifier.
    pub fn password(&mut self) -> Option<&mut Secret> {
        let (RoleStatement::Create { options, .. } | RoleStatement::Alter { options, .. }) = self
        else {
            return None;
        };
        let secret = options.password.as_mut()?.as_mut()?;
        (!secret.is_verifier()).then_some(secret)
    }
}

/// Whether a text may bring a password, so that no error may quote it.
pub(crate) fn may_hold_secret(text: &str) -> bool {
    let has = |word: &str| {
        let mut windows = text.as_bytes().windows(word.len());
        windows.any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
    };
    has("password") && (has("role") || has("user") || has("group"))
}

/// The same error without what it quotes.
pub(crate) fn without_secret(error: Error) -> Error {
    let code = error.code();
    let what = match code {
        SqlState::SYNTAX_ERROR => "syntax error in a statement that may hold a password",
        _ => "a statement that may hold a password is refused",
    };
    let plain = Error::new(code, what);
    match error.fields().position {
        Some(position) => plain.with_position(position),
        None => plain,
    }
}

/// Whether GRANT or REVOKE is of roles: those of privileges say ON.
pub(crate) fn grants_roles(tokens: &[TokenWithSpan]) -> bool {
    let is = |token: &TokenWithSpan, keywords: &[K]| {
        matches!(&token.token, Token::Word(word)
            if word.quote_style.is_none() && keywords.contains(&word.keyword))
    };
    let before = tokens.iter().take_while(|token| !is(token, &[K::TO, K::FROM]));
    is(&tokens[0], &[K::GRANT, K::REVOKE])
        && !before.clone().any(|token| is(token, &[K::ON]))
        && before.count() > 1
}

/// After CREATE ROLE, USER or GROUP; a USER logs in unless it says otherwise.
pub(crate) fn create(parser: &mut Parser<'_>, logs_in: bool) -> Read<RoleStatement> {
    let name = role_name(parser)?;
    let _ = parser.parse_keyword(K::WITH);
    let mut options = options(parser, true)?;
    options.logs_in = options.logs_in.or(logs_in.then_some(true));
    Ok(RoleStatement::Create { name, options })
}

/// After ALTER ROLE, USER or GROUP.
pub(crate) fn alter(parser: &mut Parser<'_>, is_group: bool) -> Read<RoleStatement> {
    let role = spec(parser)?;
    if parser.parse_keywords(&[K::RENAME, K::TO]) {
        let RoleSpec::Name(name) = role else {
            return Err(expected(parser, "a role's name before RENAME"));
        };
        return Ok(RoleStatement::Rename { name, to: role_name(parser)? });
    }
    if is_group {
        let adds = word(parser, &["add", "drop"]).ok_or_else(|| expected(parser, "ADD or DROP"))?;
        word(parser, &["user"]).ok_or_else(|| expected(parser, "USER"))?;
        let RoleSpec::Name(name) = role else {
            return Err(expected(parser, "a group's name"));
        };
        let (roles, members) = (vec![name], specs(parser)?);
        return Ok(match adds {
            "add" => RoleStatement::Grant { roles, to: members, admin: false },
            _ => RoleStatement::Revoke { roles, from: members, admin_only: false },
        });
    }
    let _ = parser.parse_keyword(K::WITH);
    Ok(RoleStatement::Alter { role, options: options(parser, false)? })
}

/// After DROP ROLE, USER or GROUP.
pub(crate) fn drop_roles(parser: &mut Parser<'_>) -> Read<RoleStatement> {
    let if_exists = parser.parse_keywords(&[K::IF, K::EXISTS]);
    Ok(RoleStatement::Drop { names: specs(parser)?, if_exists })
}

/// After GRANT, where it is of roles.
pub(crate) fn grant(parser: &mut Parser<'_>) -> Read<RoleStatement> {
    let roles = names(parser)?;
    parser.expect_keyword_is(K::TO)?;
    let to = specs(parser)?;
    let admin = parser.parse_keyword(K::WITH);
    if admin {
        word(parser, &["admin"]).ok_or_else(|| expected(parser, "ADMIN OPTION"))?;
        word(parser, &["option"]).ok_or_else(|| expected(parser, "OPTION"))?;
    }
    granted_by(parser)?;
    Ok(RoleStatement::Grant { roles, to, admin })
}

/// After REVOKE, where it is of roles.
pub(crate) fn revoke(parser: &mut Parser<'_>) -> Read<RoleStatement> {
    let admin_only = word(parser, &["admin"]).is_some();
    if admin_only {
        word(parser, &["option"]).ok_or_else(|| expected(parser, "OPTION FOR"))?;
        parser.expect_keyword_is(K::FOR)?;
    }
    let roles = names(parser)?;
    parser.expect_keyword_is(K::FROM)?;
    let from = specs(parser)?;
    granted_by(parser)?;
    let _ = parser.parse_one_of_keywords(&[K::CASCADE, K::RESTRICT]);
    Ok(RoleStatement::Revoke { roles, from, admin_only })
}

/// Who gives is who asks; saying so is allowed.
pub(crate) fn granted_by(parser: &mut Parser<'_>) -> Read<()> {
    if word(parser, &["granted"]).is_none() {
        return Ok(());
    }
    parser.expect_keyword_is(K::BY)?;
    match spec(parser)? {
        RoleSpec::CurrentUser => Ok(()),
        _ => Err(ParserError::ParserError("grantor must be current user".into())),
    }
}

fn options(parser: &mut Parser<'_>, creates: bool) -> Read<RoleOptions> {
    let mut options = RoleOptions::default();
    loop {
        let flag = |parser: &mut Parser<'_>, words: [&'static str; 2]| {
            word(parser, &words).map(|word| word == words[0])
        };
        let flags: [(&mut Option<bool>, [&str; 2]); 7] = [
            (&mut options.superuser, ["superuser", "nosuperuser"]),
            (&mut options.inherits, ["inherit", "noinherit"]),
            (&mut options.creates_roles, ["createrole", "nocreaterole"]),
            (&mut options.creates_databases, ["createdb", "nocreatedb"]),
            (&mut options.logs_in, ["login", "nologin"]),
            (&mut options.replicates, ["replication", "noreplication"]),
            (&mut options.bypasses_row_security, ["bypassrls", "nobypassrls"]),
        ];
        let mut known = false;
        for (place, words) in flags {
            if let Some(said) = flag(parser, words) {
                once(place, said)?;
                known = true;
                break;
            }
        }
        if !known && !other_option(parser, &mut options, creates)? {
            return Ok(options);
        }
    }
}

/// `false`: there is no further one.
fn other_option(parser: &mut Parser<'_>, options: &mut RoleOptions, creates: bool) -> Read<bool> {
    match word(
        parser,
        &["encrypted", "password", "connection", "valid", "in", "role", "user", "admin", "sysid"],
    ) {
        Some("encrypted") => {
            word(parser, &["password"]).ok_or_else(|| expected(parser, "PASSWORD"))?;
            password(parser, options)?;
        }
        Some("password") => password(parser, options)?,
        Some("connection") => {
            word(parser, &["limit"]).ok_or_else(|| expected(parser, "LIMIT"))?;
            let none = parser.consume_token(&Token::Minus);
            if parser.parse_literal_uint()? != 1 || !none {
                let what = "Expected: CONNECTION LIMIT -1, since a role's connections are not \
                            limited";
                return Err(ParserError::ParserError(what.into()));
            }
        }
        Some("valid") => {
            word(parser, &["until"]).ok_or_else(|| expected(parser, "UNTIL"))?;
            once(&mut options.valid_until, parser.parse_literal_string()?)?;
        }
        Some("in") if creates => {
            word(parser, &["role", "group"]).ok_or_else(|| expected(parser, "ROLE"))?;
            options.in_roles.extend(specs(parser)?);
        }
        Some("role" | "user") if creates => options.members.extend(specs(parser)?),
        Some("admin") if creates => options.admins.extend(specs(parser)?),
        // A number of its own is for the ledger to give.
        Some("sysid") if creates => drop(parser.parse_literal_uint()?),
        Some(other) => return Err(expected(parser, &format!("no {} here", other.to_uppercase()))),
        None => return Ok(false),
    }
    Ok(true)
}

fn once<T>(place: &mut Option<T>, said: T) -> Read<()> {
    match place.replace(said) {
        None => Ok(()),
        Some(_) => Err(ParserError::ParserError("conflicting or redundant options".into())),
    }
}

fn password(parser: &mut Parser<'_>, options: &mut RoleOptions) -> Read<()> {
    let said = match parser.parse_keyword(K::NULL) {
        true => None,
        false => match parser.next_token().token {
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => {
                Some(Secret(text))
            }
            Token::DollarQuotedString(text) => Some(Secret(text.value)),
            _ => return Err(ParserError::ParserError("Expected: a password".into())),
        },
    };
    once(&mut options.password, said.filter(|secret| !secret.0.is_empty()))
}

fn expected(parser: &mut Parser<'_>, what: &str) -> ParserError {
    match parser.peek_token().token {
        Token::EOF => ParserError::ParserError(format!("Expected: {what}, found: EOF")),
        _ => ParserError::ParserError(format!("Expected: {what}")),
    }
}

fn role_name(parser: &mut Parser<'_>) -> Read<String> {
    Ok(fold(&parser.parse_identifier()?))
}

fn names(parser: &mut Parser<'_>) -> Read<Vec<String>> {
    parser.parse_comma_separated(role_name)
}

pub(crate) fn spec(parser: &mut Parser<'_>) -> Read<RoleSpec> {
    Ok(match word(parser, &["current_user", "current_role", "user", "session_user"]) {
        Some("session_user") => RoleSpec::SessionUser,
        Some(_) => RoleSpec::CurrentUser,
        None => RoleSpec::Name(role_name(parser)?),
    })
}

pub(crate) fn specs(parser: &mut Parser<'_>) -> Read<Vec<RoleSpec>> {
    parser.parse_comma_separated(|parser| {
        let _ = parser.parse_keyword(K::GROUP);
        spec(parser)
    })
}

impl RoleSpec {
    pub fn of(name: &Ident) -> RoleSpec {
        let is = |word: &str| name.quote_style.is_none() && name.value.eq_ignore_ascii_case(word);
        if is("session_user") {
            return RoleSpec::SessionUser;
        }
        match is("current_user") || is("current_role") || is("user") {
            true => RoleSpec::CurrentUser,
            false => RoleSpec::Name(fold(name)),
        }
    }
}

impl fmt::Display for RoleSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RoleSpec::Name(name) => f.write_str(&quoted(name)),
            RoleSpec::CurrentUser => f.write_str("CURRENT_USER"),
            RoleSpec::SessionUser => f.write_str("SESSION_USER"),
        }
    }
}

fn list<T: fmt::Display>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn quoted_list(names: &[String]) -> String {
    names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for RoleStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RoleStatement::Create { name, options } => {
                write!(f, "CREATE ROLE {}{options}", quoted(name))
            }
            RoleStatement::Alter { role, options } => write!(f, "ALTER ROLE {role}{options}"),
            RoleStatement::Rename { name, to } => {
                write!(f, "ALTER ROLE {} RENAME TO {}", quoted(name), quoted(to))
            }
            RoleStatement::Drop { names, if_exists } => {
                let if_exists = if *if_exists { "IF EXISTS " } else { "" };
                write!(f, "DROP ROLE {if_exists}{}", list(names))
            }
            RoleStatement::Grant { roles, to, admin } => {
                let admin = if *admin { " WITH ADMIN OPTION" } else { "" };
                write!(f, "GRANT {} TO {}{admin}", quoted_list(roles), list(to))
            }
            RoleStatement::Revoke { roles, from, admin_only } => {
                let admin = if *admin_only { "ADMIN OPTION FOR " } else { "" };
                write!(f, "REVOKE {admin}{} FROM {}", quoted_list(roles), list(from))
            }
        }
    }
}

impl fmt::Display for RoleOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
        for (said, word) in [
            (self.superuser, "SUPERUSER"),
            (self.inherits, "INHERIT"),
            (self.creates_roles, "CREATEROLE"),
            (self.creates_databases, "CREATEDB"),
            (self.logs_in, "LOGIN"),
            (self.replicates, "REPLICATION"),
            (self.bypasses_row_security, "BYPASSRLS"),
        ] {
            match said {
                Some(true) => write!(f, " {word}")?,
                Some(false) => write!(f, " NO{word}")?,
                None => {}
            }
        }
        match &self.password {
            Some(Some(secret)) => write!(f, " PASSWORD {}", text(&secret.0))?,
            Some(None) => f.write_str(" PASSWORD NULL")?,
            None => {}
        }
        if let Some(until) = &self.valid_until {
            write!(f, " VALID UNTIL {}", text(until))?;
        }
        for (specs, words) in
            [(&self.in_roles, "IN ROLE"), (&self.members, "ROLE"), (&self.admins, "ADMIN")]
        {
            if !specs.is_empty() {
                write!(f, " {words} {}", list(specs))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::ddl::Ddl;
    use crate::syntax::parse::parse;
    use crate::syntax::parsed::Body;

    fn read(text: &str) -> RoleStatement {
        match parse(text).unwrap().remove(0).body {
            Body::Ddl(ddl) => match *ddl {
                Ddl::Role(statement) => *statement,
                other => panic!("{text}: {other:?}"),
            },
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn what_is_recorded_is_read_again_as_the_same() {
        for text in [
            "CREATE ROLE ada",
            "create user \"Ada \"\"B\"\"; --\" with superuser noinherit createrole nocreatedb",
            "CREATE GROUP g NOLOGIN USER a, current_user ADMIN b",
            "CREATE ROLE r REPLICATION BYPASSRLS VALID UNTIL 'infinity' IN ROLE a, b SYSID 7",
            "CREATE ROLE p ENCRYPTED PASSWORD 'it''s' CONNECTION LIMIT -1",
            "ALTER ROLE p PASSWORD NULL",
            "ALTER USER session_user WITH LOGIN",
            "ALTER ROLE \"select\" RENAME TO \"user\"",
            "ALTER GROUP g ADD USER a, b",
            "ALTER GROUP g DROP USER a",
            "DROP ROLE IF EXISTS a, \"B\"",
            "DROP USER current_role",
            "GRANT a, b TO c, CURRENT_USER WITH ADMIN OPTION",
            "GRANT a TO GROUP c GRANTED BY CURRENT_USER",
            "REVOKE ADMIN OPTION FOR a FROM b CASCADE",
            "REVOKE a FROM b RESTRICT",
        ] {
            let statement = read(text);
            assert_eq!(read(&statement.to_string()), statement, "{text}: {statement}");
        }
    }

    #[test]
    fn no_error_quotes_a_password() {
        for text in [
            "CREATE ROLE a PASSWORD 'hunter2' 'hunter2'",
            "CREATE ROLE a PASSWORD 'hunter2' PASSWORD 'hunter2'",
            "ALTER USER a PASSWORD 'hunter2' SUPER",
            "ALTER USER a PASSWORD hunter2",
            "CREATE ROLE a PASSWORD 'hunter2",
            "CREATE ROLE a CONNECTION LIMIT 3 PASSWORD 'hunter2'",
            "CREATE ROLE a ADMIN PASSWORD 'hunter2'",
        ] {
            let error = parse(text).unwrap_err();
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
        let statement = read("CREATE ROLE a PASSWORD 'hunter2'");
        assert!(!format!("{statement:?}").contains("hunter2"));
    }

    #[test]
    fn verifiers_are_told_from_passwords() {
        let verifier = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
            WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
            wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        assert!(Secret(verifier.to_owned()).is_verifier());
        for text in ["secret", "SCRAM-SHA-256$", "SCRAM-SHA-256$0:a$b:c", "SCRAM-SHA-256$1:a$b"] {
            assert!(!Secret(text.to_owned()).is_verifier(), "{text}");
        }
    }
}
