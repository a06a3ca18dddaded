//! GRANT and REVOKE of privileges, of objects and of those to come.

use identity::{Kind, Privileges};
use sqlparser::ast;
use sqlparser::keywords::Keyword as K;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use crate::syntax::names::fold;
use crate::syntax::roles::{RoleSpec, granted_by, spec, specs};
use crate::syntax::words::{routine, word};

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
    Domain,
    Collation,
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
            Owned::Domain => "ALTER DOMAIN",
            Owned::Collation => "ALTER COLLATION",
            Owned::Database => "ALTER DATABASE",
        }
    }
}

fn fault(what: impl Into<String>) -> ParserError {
    ParserError::ParserError(what.into())
}

/// After GRANT or REVOKE.
pub(crate) fn grant(parser: &mut Parser<'_>, grants: bool) -> Read<GrantStatement> {
    read_on(parser, grants, target)
}

/// After ALTER DEFAULT PRIVILEGES.
pub(crate) fn default_privileges(parser: &mut Parser<'_>) -> Read<DefaultPrivileges> {
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
