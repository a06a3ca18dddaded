//! GRANT and REVOKE of privileges, of objects and of those to come, and ALTER … OWNER TO.

use identity::{Kind, Privileges};
use sqlparser::ast;
use sqlparser::keywords::Keyword as K;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::syntax::ddl::Ddl;
use crate::syntax::names::fold;
use crate::syntax::roles::{RoleSpec, granted_by, spec, specs, word};

type Read<T> = Result<T, ParserError>;

#[derive(Clone, Debug, PartialEq)]
pub struct GrantStatement<On = GrantTarget> {
    /// Else it revokes.
    pub grants: bool,
    pub what: GrantedPrivileges,
    pub on: On,
    pub grantees: Vec<GranteeSpec>,
    /// WITH GRANT OPTION, GRANT OPTION FOR.
    pub option: bool,
    pub cascade: bool,
}

/// ALTER DEFAULT PRIVILEGES: what objects have that are yet to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultPrivileges {
    /// Whose objects; its own, where none is named.
    pub roles: Vec<RoleSpec>,
    /// Where; everywhere, if none is named.
    pub schemas: Vec<String>,
    pub statement: GrantStatement<Kind>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum GrantedPrivileges {
    /// Of these columns, if any are named.
    All(Vec<String>),
    /// Each with its columns.
    Some(Vec<(Privileges, Vec<String>)>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum GrantTarget {
    /// Tables, views, and sequences as far as they are named so.
    Tables(Vec<ast::ObjectName>),
    Sequences(Vec<ast::ObjectName>),
    Routines(Vec<ast::ObjectName>),
    Schemas(Vec<String>),
    Databases(Vec<String>),
    AllTables(Vec<String>),
    AllSequences(Vec<String>),
    AllRoutines(Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum GranteeSpec {
    Public,
    Role(RoleSpec),
}

/// What ALTER … OWNER TO is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owned {
    Table,
    View,
    Sequence,
    Routine,
    Schema,
    Type,
    Database,
}

impl Owned {
    pub fn tag(self) -> &'static str {
        match self {
            Owned::Table => "ALTER TABLE",
            Owned::View => "ALTER VIEW",
            Owned::Sequence => "ALTER SEQUENCE",
            Owned::Routine => "ALTER FUNCTION",
            Owned::Schema => "ALTER SCHEMA",
            Owned::Type => "ALTER TYPE",
            Owned::Database => "ALTER DATABASE",
        }
    }
}

pub(crate) fn is_word(token: &TokenWithSpan, name: &str) -> bool {
    matches!(&token.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name))
}

fn fault(what: impl Into<String>) -> ParserError {
    ParserError::ParserError(what.into())
}

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
            let statement = read_on(parser, *kind == K::GRANT, target)?;
            Ok(Ddl::Grant(Box::new(statement)))
        }
        Some(K::ALTER) => Ok(Ddl::DefaultPrivileges(Box::new(read_defaults(parser)?))),
        Some(K::DROP) => drop_owned(parser),
        _ => reassign_owned(parser),
    }
}

/// After ALTER DEFAULT PRIVILEGES.
fn read_defaults(parser: &mut Parser<'_>) -> Read<DefaultPrivileges> {
    let (mut roles, mut schemas) = (Vec::new(), Vec::new());
    loop {
        if parser.parse_keyword(K::FOR) {
            word(parser, &["role", "user"]).ok_or_else(|| fault("Expected: ROLE"))?;
            roles.extend(specs(parser)?);
        } else if parser.parse_keyword(K::IN) {
            parser.expect_keyword_is(K::SCHEMA)?;
            schemas.extend(identifiers(parser)?);
        } else {
            break;
        }
    }
    let grants = word(parser, &["grant", "revoke"])
        .ok_or_else(|| fault("Expected: GRANT or REVOKE"))?
        == "grant";
    let statement = read_on(parser, grants, kind_of_new)?;
    Ok(DefaultPrivileges { roles, schemas, statement })
}

fn kind_of_new(parser: &mut Parser<'_>) -> Read<Kind> {
    match word(parser, &["tables", "sequences", "functions", "routines", "schemas", "types"]) {
        Some("tables") => Ok(Kind::Table),
        Some("sequences") => Ok(Kind::Sequence),
        Some("functions" | "routines") => Ok(Kind::Routine),
        Some("schemas") => Ok(Kind::Schema),
        Some(_) => Err(fault("no types can be made, and so none with default privileges")),
        None => Err(fault("Expected: TABLES, SEQUENCES, FUNCTIONS or SCHEMAS")),
    }
}

fn read_on<On>(
    parser: &mut Parser<'_>,
    grants: bool,
    target: impl FnOnce(&mut Parser<'_>) -> Read<On>,
) -> Read<GrantStatement<On>> {
    let mut option = false;
    if !grants && parser.parse_keyword(K::GRANT) {
        word(parser, &["option"]).ok_or_else(|| fault("Expected: OPTION FOR"))?;
        parser.expect_keyword_is(K::FOR)?;
        option = true;
    }
    let what = privileges(parser)?;
    parser.expect_keyword_is(K::ON)?;
    let on = target(parser)?;
    parser.expect_keyword_is(if grants { K::TO } else { K::FROM })?;
    let grantees = parser.parse_comma_separated(grantee)?;
    let mut cascade = false;
    if grants {
        option = parser.parse_keyword(K::WITH);
        if option {
            parser.expect_keyword_is(K::GRANT)?;
            word(parser, &["option"]).ok_or_else(|| fault("Expected: OPTION"))?;
        }
        granted_by(parser)?;
    } else {
        granted_by(parser)?;
        cascade = parser.parse_one_of_keywords(&[K::CASCADE, K::RESTRICT]) == Some(K::CASCADE);
    }
    Ok(GrantStatement { grants, what, on, grantees, option, cascade })
}

fn grantee(parser: &mut Parser<'_>) -> Read<GranteeSpec> {
    let _ = parser.parse_keyword(K::GROUP);
    Ok(match spec(parser)? {
        RoleSpec::Name(name) if name == "public" => GranteeSpec::Public,
        role => GranteeSpec::Role(role),
    })
}

fn privileges(parser: &mut Parser<'_>) -> Read<GrantedPrivileges> {
    if word(parser, &["all"]).is_some() {
        let _ = word(parser, &["privileges"]);
        return Ok(GrantedPrivileges::All(columns(parser)?));
    }
    let one = |parser: &mut Parser<'_>| {
        let token = parser.next_token();
        let Token::Word(name) = &token.token else {
            return Err(fault(format!("Expected: a privilege, found: {token}")));
        };
        let privilege = Privileges::named(&name.value).filter(|_| name.quote_style.is_none());
        let privilege = privilege.ok_or_else(|| {
            fault(format!("unrecognized privilege type \"{}\"", name.value.to_lowercase()))
        })?;
        Ok((privilege, columns(parser)?))
    };
    Ok(GrantedPrivileges::Some(parser.parse_comma_separated(one)?))
}

fn columns(parser: &mut Parser<'_>) -> Read<Vec<String>> {
    if !parser.consume_token(&Token::LParen) {
        return Ok(Vec::new());
    }
    let names = parser.parse_comma_separated(|parser| parser.parse_identifier())?;
    parser.expect_token(&Token::RParen)?;
    Ok(names.iter().map(fold).collect())
}

fn target(parser: &mut Parser<'_>) -> Read<GrantTarget> {
    use GrantTarget as T;
    const WORDS: [&str; 8] =
        ["all", "table", "sequence", "function", "procedure", "routine", "schema", "database"];
    match word(parser, &WORDS) {
        Some("all") => {
            let of = ["tables", "sequences", "functions", "procedures", "routines"];
            let of = word(parser, &of).ok_or_else(|| fault("Expected: TABLES IN SCHEMA"))?;
            parser.expect_keyword_is(K::IN)?;
            parser.expect_keyword_is(K::SCHEMA)?;
            let schemas = identifiers(parser)?;
            Ok(match of {
                "tables" => T::AllTables(schemas),
                "sequences" => T::AllSequences(schemas),
                _ => T::AllRoutines(schemas),
            })
        }
        Some("sequence") => Ok(T::Sequences(objects(parser)?)),
        Some("function" | "procedure" | "routine") => {
            Ok(T::Routines(parser.parse_comma_separated(routine)?))
        }
        Some("schema") => Ok(T::Schemas(identifiers(parser)?)),
        Some("database") => Ok(T::Databases(identifiers(parser)?)),
        _ => Ok(T::Tables(objects(parser)?)),
    }
}

fn objects(parser: &mut Parser<'_>) -> Read<Vec<ast::ObjectName>> {
    parser.parse_comma_separated(|parser| parser.parse_object_name(false))
}

fn identifiers(parser: &mut Parser<'_>) -> Read<Vec<String>> {
    let names = parser.parse_comma_separated(|parser| parser.parse_identifier())?;
    Ok(names.iter().map(fold).collect())
}

/// Routines are known by their names alone.
pub(crate) fn routine(parser: &mut Parser<'_>) -> Read<ast::ObjectName> {
    let name = parser.parse_object_name(false)?;
    if parser.consume_token(&Token::LParen) {
        let mut depth = 1;
        while depth > 0 {
            match parser.next_token().token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                Token::EOF => return Err(fault("Expected: ), found: EOF")),
                _ => {}
            }
        }
    }
    Ok(name)
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
        "database" => Owned::Database,
        _ => Owned::Routine,
    };
    Some(behind_kind(parser, owned))
}

fn behind_kind(parser: &mut Parser<'_>, owned: Owned) -> Read<Ddl> {
    let if_exists = parser.parse_keywords(&[K::IF, K::EXISTS]);
    let _ = parser.parse_keyword(K::ONLY);
    let name = routine(parser)?;
    word(parser, &["owner"]).ok_or_else(|| fault("Expected: OWNER TO"))?;
    parser.expect_keyword_is(K::TO)?;
    Ok(Ddl::ChangeOwner { owned, if_exists, name, role: spec(parser)? })
}
