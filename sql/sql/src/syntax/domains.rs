//! CREATE DOMAIN, ALTER DOMAIN, DROP DOMAIN.

use sqlparser::ast;
use sqlparser::keywords::Keyword as K;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use crate::syntax::precedence::IS;
use crate::syntax::words::word;

type Read<T> = Result<T, ParserError>;

/// What a statement says of a domain.
#[derive(Clone, Debug, PartialEq)]
pub enum DomainStatement {
    Create(Box<CreateDomain>),
    Alter { name: ast::ObjectName, change: DomainChange },
    Drop { names: Vec<ast::ObjectName>, if_exists: bool, cascade: bool },
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateDomain {
    pub name: ast::ObjectName,
    pub data_type: ast::DataType,
    pub collation: Option<ast::ObjectName>,
    pub default: Option<ast::Expr>,
    pub not_null: bool,
    pub checks: Vec<DomainCheck>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DomainCheck {
    pub name: Option<ast::Ident>,
    pub condition: ast::Expr,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DomainChange {
    SetDefault(Option<ast::Expr>),
    SetNotNull(bool),
    Add { check: DomainCheck, not_valid: bool },
    DropConstraint { name: ast::Ident, if_exists: bool },
    RenameConstraint { name: ast::Ident, to: ast::Ident },
    Validate(ast::Ident),
    Rename(ast::Ident),
    SetSchema(ast::Ident),
}

impl DomainChange {
    /// Whether values satisfy it that did not, or the other way round.
    pub fn is_of_rules(&self) -> bool {
        use DomainChange as C;
        matches!(self, C::SetNotNull(_) | C::Add { .. } | C::DropConstraint { .. })
    }
}

impl DomainStatement {
    pub fn tag(&self) -> &'static str {
        match self {
            DomainStatement::Create(_) => "CREATE DOMAIN",
            DomainStatement::Alter { .. } => "ALTER DOMAIN",
            DomainStatement::Drop { .. } => "DROP DOMAIN",
        }
    }
}

fn fault<T>(what: &str) -> Read<T> {
    Err(ParserError::ParserError(what.to_owned()))
}

fn name(parser: &mut Parser<'_>) -> Read<ast::ObjectName> {
    parser.parse_object_name(false)
}

/// After CREATE DOMAIN.
pub(crate) fn create(parser: &mut Parser<'_>) -> Read<DomainStatement> {
    let made = name(parser)?;
    let _ = parser.parse_keyword(K::AS);
    let data_type = parser.parse_data_type()?;
    let mut created = CreateDomain {
        name: made,
        data_type,
        collation: None,
        default: None,
        not_null: false,
        checks: Vec::new(),
    };
    let mut is_null = false;
    loop {
        let named = match parser.parse_keyword(K::CONSTRAINT) {
            true => Some(parser.parse_identifier()?),
            false => None,
        };
        if parser.parse_keyword(K::COLLATE) {
            created.collation = Some(name(parser)?);
        } else if parser.parse_keyword(K::DEFAULT) {
            if created.default.is_some() {
                return fault("multiple default expressions");
            }
            // NOT NULL behind it is the domain's.
            created.default = Some(parser.parse_subexpr(IS)?);
        } else if parser.parse_keywords(&[K::NOT, K::NULL]) {
            created.not_null = true;
        } else if parser.parse_keyword(K::NULL) {
            is_null = true;
        } else if parser.parse_keyword(K::CHECK) {
            created.checks.push(DomainCheck { name: named, condition: condition(parser)? });
        } else if named.is_some() {
            return fault("Expected: CHECK or NOT NULL");
        } else {
            break;
        }
        if is_null && created.not_null {
            return fault("conflicting NULL/NOT NULL constraints");
        }
    }
    Ok(DomainStatement::Create(Box::new(created)))
}

fn condition(parser: &mut Parser<'_>) -> Read<ast::Expr> {
    parser.expect_token(&Token::LParen)?;
    let condition = parser.parse_expr()?;
    parser.expect_token(&Token::RParen)?;
    Ok(condition)
}

/// After ALTER DOMAIN.
pub(crate) fn alter(parser: &mut Parser<'_>) -> Read<DomainStatement> {
    let name = name(parser)?;
    let change = change(parser)?;
    Ok(DomainStatement::Alter { name, change })
}

fn change(parser: &mut Parser<'_>) -> Read<DomainChange> {
    if parser.parse_keywords(&[K::SET, K::DEFAULT]) {
        return Ok(DomainChange::SetDefault(Some(parser.parse_expr()?)));
    }
    if parser.parse_keywords(&[K::DROP, K::DEFAULT]) {
        return Ok(DomainChange::SetDefault(None));
    }
    if parser.parse_keywords(&[K::SET, K::NOT, K::NULL]) {
        return Ok(DomainChange::SetNotNull(true));
    }
    if parser.parse_keywords(&[K::DROP, K::NOT, K::NULL]) {
        return Ok(DomainChange::SetNotNull(false));
    }
    if parser.parse_keywords(&[K::SET, K::SCHEMA]) {
        return Ok(DomainChange::SetSchema(parser.parse_identifier()?));
    }
    if parser.parse_keyword(K::ADD) {
        let name = match parser.parse_keyword(K::CONSTRAINT) {
            true => Some(parser.parse_identifier()?),
            false => None,
        };
        parser.expect_keyword_is(K::CHECK)?;
        let check = DomainCheck { name, condition: condition(parser)? };
        let not_valid = parser.parse_keyword(K::NOT);
        if not_valid && word(parser, &["valid"]).is_none() {
            return fault("Expected: VALID");
        }
        return Ok(DomainChange::Add { check, not_valid });
    }
    if parser.parse_keywords(&[K::DROP, K::CONSTRAINT]) {
        let if_exists = parser.parse_keywords(&[K::IF, K::EXISTS]);
        let name = parser.parse_identifier()?;
        let _ = parser.parse_one_of_keywords(&[K::CASCADE, K::RESTRICT]);
        return Ok(DomainChange::DropConstraint { name, if_exists });
    }
    if parser.parse_keywords(&[K::RENAME, K::CONSTRAINT]) {
        let name = parser.parse_identifier()?;
        parser.expect_keyword_is(K::TO)?;
        return Ok(DomainChange::RenameConstraint { name, to: parser.parse_identifier()? });
    }
    if parser.parse_keywords(&[K::RENAME, K::TO]) {
        return Ok(DomainChange::Rename(parser.parse_identifier()?));
    }
    if word(parser, &["validate"]).is_some() {
        parser.expect_keyword_is(K::CONSTRAINT)?;
        return Ok(DomainChange::Validate(parser.parse_identifier()?));
    }
    fault("Expected: what is to change of the domain")
}

/// After DROP DOMAIN.
pub(crate) fn dropped(parser: &mut Parser<'_>) -> Read<DomainStatement> {
    let if_exists = parser.parse_keywords(&[K::IF, K::EXISTS]);
    let names = parser.parse_comma_separated(name)?;
    let cascade = parser.parse_one_of_keywords(&[K::CASCADE, K::RESTRICT]) == Some(K::CASCADE);
    Ok(DomainStatement::Drop { names, if_exists, cascade })
}
