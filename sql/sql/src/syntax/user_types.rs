//! CREATE TYPE … AS ENUM, ALTER TYPE, DROP TYPE: sqlparser reads labels as identifiers, and not all
//! of what ALTER TYPE says.
//!
//! There is no CREATE TYPE IF NOT EXISTS, so migrations say it by a block. A block that says this
//! and nothing else is read as that ([`create_unless_there`]), since no program changes the schema:
//!
//! ```text
//! DO $$ BEGIN CREATE TYPE t AS ENUM (…); EXCEPTION WHEN duplicate_object THEN NULL; END $$
//! DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_type WHERE typname = 't') THEN
//!   CREATE TYPE t AS ENUM (…); END IF; END $$
//! ```

use sqlparser::ast;
use sqlparser::keywords::Keyword as K;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use types::enums::LabelPlace;

use crate::syntax::dialect::Ledger;
use crate::syntax::names::fold;
use crate::syntax::tokens::tokens_of;
use crate::syntax::words::{is_word, word};

type Read<T> = Result<T, ParserError>;

/// What a statement says of a type.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeStatement {
    CreateEnum {
        name: ast::ObjectName,
        labels: Vec<String>,
        /// Of a block that says so.
        if_not_exists: bool,
    },
    AddLabel {
        name: ast::ObjectName,
        label: String,
        place: LabelPlace,
        if_not_exists: bool,
    },
    RenameLabel {
        name: ast::ObjectName,
        label: String,
        to: String,
    },
    Rename {
        name: ast::ObjectName,
        to: ast::Ident,
    },
    SetSchema {
        name: ast::ObjectName,
        schema: ast::Ident,
    },
    Drop {
        names: Vec<ast::ObjectName>,
        if_exists: bool,
        cascade: bool,
    },
}

impl TypeStatement {
    pub fn tag(&self) -> &'static str {
        match self {
            TypeStatement::CreateEnum { if_not_exists: true, .. } => "DO",
            TypeStatement::CreateEnum { .. } => "CREATE TYPE",
            TypeStatement::Drop { .. } => "DROP TYPE",
            _ => "ALTER TYPE",
        }
    }
}

/// After CREATE TYPE; `None`: it is to be no enum.
pub(crate) fn create(parser: &mut Parser<'_>) -> Read<Option<TypeStatement>> {
    let name = parser.parse_object_name(false)?;
    if !parser.parse_keywords(&[K::AS, K::ENUM]) {
        return Ok(None);
    }
    parser.expect_token(&Token::LParen)?;
    let labels = match parser.consume_token(&Token::RParen) {
        true => Vec::new(),
        false => {
            let labels = parser.parse_comma_separated(label)?;
            parser.expect_token(&Token::RParen)?;
            labels
        }
    };
    Ok(Some(TypeStatement::CreateEnum { name, labels, if_not_exists: false }))
}

fn label(parser: &mut Parser<'_>) -> Read<String> {
    parser.parse_literal_string()
}

/// After ALTER TYPE; `None`: it says something else.
pub(crate) fn alter(parser: &mut Parser<'_>) -> Read<Option<TypeStatement>> {
    let name = parser.parse_object_name(false)?;
    if parser.parse_keyword(K::ADD) {
        if word(parser, &["value"]).is_none() {
            return Ok(None);
        }
        let if_not_exists = parser.parse_keywords(&[K::IF, K::NOT, K::EXISTS]);
        let added = label(parser)?;
        let place = match word(parser, &["before", "after"]) {
            None => LabelPlace::Last,
            Some("before") => LabelPlace::Before(label(parser)?),
            Some(_) => LabelPlace::After(label(parser)?),
        };
        return Ok(Some(TypeStatement::AddLabel { name, label: added, place, if_not_exists }));
    }
    if parser.parse_keywords(&[K::SET, K::SCHEMA]) {
        return Ok(Some(TypeStatement::SetSchema { name, schema: parser.parse_identifier()? }));
    }
    if !parser.parse_keyword(K::RENAME) {
        return Ok(None);
    }
    if parser.parse_keyword(K::TO) {
        return Ok(Some(TypeStatement::Rename { name, to: parser.parse_identifier()? }));
    }
    if word(parser, &["value"]).is_none() {
        return Ok(None);
    }
    let renamed = label(parser)?;
    parser.expect_keyword_is(K::TO)?;
    Ok(Some(TypeStatement::RenameLabel { name, label: renamed, to: label(parser)? }))
}

/// After DROP TYPE.
pub(crate) fn dropped(parser: &mut Parser<'_>) -> Read<TypeStatement> {
    let if_exists = parser.parse_keywords(&[K::IF, K::EXISTS]);
    let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
    let cascade = parser.parse_one_of_keywords(&[K::CASCADE, K::RESTRICT]) == Some(K::CASCADE);
    Ok(TypeStatement::Drop { names, if_exists, cascade })
}

/// What a block says that makes a type unless it is there; `None`: it says something else.
pub(crate) fn create_unless_there(body: &str) -> Option<TypeStatement> {
    let tokens = tokens_of(body).ok()?;
    let rest = behind(&tokens, &["begin"])?;
    let (asked, rest) = match behind(rest, &["if", "not", "exists"]) {
        None => (None, rest),
        Some(rest) => {
            let then = rest.iter().position(|token| is_word(token, "then"))?;
            (Some(asked_name(&rest[..then])?), &rest[then + 1..])
        }
    };
    let create = behind(rest, &["create", "type"])?;
    let end = create.iter().position(|token| token.token == Token::SemiColon)?;
    let handled = match (&asked, &create[end + 1..]) {
        (Some(_), rest) => {
            let rest = behind(rest, &["end", "if"])?;
            behind_semicolon(rest)?
        }
        (None, rest) => {
            let rest = behind(rest, &["exception", "when", "duplicate_object", "then"])?;
            match behind(rest, &["null"]) {
                Some(rest) => behind_semicolon(rest)?,
                None => rest,
            }
        }
    };
    let rest = behind(handled, &["end"])?;
    if !matches!(rest, [] | [TokenWithSpan { token: Token::SemiColon, .. }]) {
        return None;
    }
    let dialect = Ledger::for_tokens(end);
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(create[..end].to_vec());
    let Ok(Some(TypeStatement::CreateEnum { name, labels, .. })) = self::create(&mut parser) else {
        return None;
    };
    let made = name.0.last().and_then(|part| part.as_ident()).map(fold)?;
    let is_it = asked.is_none_or(|asked| asked == made);
    let is_whole = parser.peek_token_ref().token == Token::EOF;
    (is_it && is_whole).then_some(TypeStatement::CreateEnum { name, labels, if_not_exists: true })
}

/// The name in `(SELECT … FROM pg_type WHERE typname = 'name')`.
fn asked_name(tokens: &[TokenWithSpan]) -> Option<String> {
    let [open, select, _, from, rest @ .., close] = tokens else { return None };
    let is_query = open.token == Token::LParen
        && is_word(select, "select")
        && is_word(from, "from")
        && close.token == Token::RParen;
    let rest = match rest {
        [schema, point, rest @ ..]
            if is_word(schema, "pg_catalog") && point.token == Token::Period =>
        {
            rest
        }
        rest => rest,
    };
    let [types, condition, column, equals, name] = rest else { return None };
    let is_asked = is_word(types, "pg_type")
        && is_word(condition, "where")
        && is_word(column, "typname")
        && equals.token == Token::Eq;
    match &name.token {
        Token::SingleQuotedString(name) if is_query && is_asked => Some(name.clone()),
        _ => None,
    }
}

fn behind<'t>(tokens: &'t [TokenWithSpan], words: &[&str]) -> Option<&'t [TokenWithSpan]> {
    let rest = tokens.get(words.len()..)?;
    tokens.iter().zip(words).all(|(token, word)| is_word(token, word)).then_some(rest)
}

fn behind_semicolon(tokens: &[TokenWithSpan]) -> Option<&[TokenWithSpan]> {
    let (first, rest) = tokens.split_first()?;
    (first.token == Token::SemiColon).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_make_a_type_unless_it_is_there() {
        let made = |body: &str| match create_unless_there(body) {
            Some(TypeStatement::CreateEnum { labels, if_not_exists: true, .. }) => labels,
            _ => Vec::new(),
        };
        for body in [
            "BEGIN CREATE TYPE t AS ENUM ('a', 'b'); EXCEPTION WHEN duplicate_object THEN null; END",
            "begin create type public.t as enum ('a','b'); exception when duplicate_object then end;",
            "BEGIN IF NOT EXISTS (SELECT 1 FROM pg_type WHERE typname = 't') THEN \
             CREATE TYPE t AS ENUM ('a', 'b'); END IF; END;",
        ] {
            assert_eq!(made(body), ["a", "b"], "{body}");
        }
        for body in [
            "BEGIN CREATE TYPE t AS ENUM ('a'); END",
            "BEGIN CREATE TYPE t AS ENUM ('a'); EXCEPTION WHEN OTHERS THEN NULL; END",
            "BEGIN CREATE TYPE t AS ENUM ('a'); DROP TABLE x; EXCEPTION WHEN duplicate_object THEN \
             NULL; END",
            "BEGIN IF NOT EXISTS (SELECT 1 FROM pg_type WHERE typname = 'u') THEN \
             CREATE TYPE t AS ENUM ('a'); END IF; END",
        ] {
            assert!(create_unless_there(body).is_none(), "{body}");
        }
    }
}
