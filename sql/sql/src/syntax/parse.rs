//! Text to statements.
//!
//! The text is cut into tokens once; semicolons cut it into statements, so that every statement
//! keeps its own source text (what the ledger records, and what positions in errors count from).
//! sqlparser does the grammar, but for some precedences (module `precedence`). Some things are
//! recognised before it, because its PostgreSQL dialect reads them differently or not at all:
//! CREATE/DROP PROCEDURE (the same grammar as FUNCTION), AS OF (module `as_of`), cursors (module
//! `cursor`), VACUUM and ANALYZE with their many options (accepted without effect), ABORT,
//! switches of COPY that say `on`, and what module `tokens` rewrites.

use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use types::{Error, Result, SqlState};

use crate::copy;
use crate::syntax::as_of;
use crate::syntax::clauses::normalize;
use crate::syntax::collations;
use crate::syntax::cursor;
use crate::syntax::databases;
use crate::syntax::ddl::Ddl;
use crate::syntax::depth;
use crate::syntax::dialect::Ledger;
use crate::syntax::domains;
use crate::syntax::errors::{Place, parser_error, unexpected};
use crate::syntax::materialized;
use crate::syntax::merge;
use crate::syntax::names::fold;
use crate::syntax::organisations;
use crate::syntax::owned;
use crate::syntax::parsed::{Body, Cover, Parsed};
use crate::syntax::place::Start;
use crate::syntax::policies;
use crate::syntax::rewrites;
use crate::syntax::roles;
use crate::syntax::sequence;
use crate::syntax::table_as::{self, Definition};
use crate::syntax::tokens::{self, tokens_of};
use crate::syntax::user_types;
use crate::syntax::walk::Tree;

/// Cuts `sql` into statements. A text without any gives one empty statement.
pub fn parse(sql: &str) -> Result<Vec<Parsed>> {
    parse_all(sql).map_err(|error| match roles::may_hold_secret(sql) {
        true => roles::without_secret(error),
        false => error,
    })
}

fn parse_all(sql: &str) -> Result<Vec<Parsed>> {
    let tokens = tokens_of(sql)?;
    let mut place = Place::start_of(sql);
    let mut parsed = Vec::new();
    for statement in tokens.split(|t| t.token == Token::SemiColon) {
        let (Some(first), Some(last)) = (statement.first(), statement.last()) else {
            continue;
        };
        let begin = place.offset(first.span.start);
        let (location, characters) = (first.span.start, place.characters);
        let start = Some(Start { location, characters });
        let text = &sql[begin..place.offset(last.span.end)];
        let (mut statement, as_of) = as_of::take(statement)?;
        // What is read again looks for the ends of parentheses.
        depth::check_tokens(&statement)?;
        rewrites::rewrite(&mut statement);
        sequence::order_identity_options(&mut statement);
        let overriding = sequence::take_overriding(&mut statement);
        let taken = table_as::take(&mut statement);
        merge::rewrite(&mut statement);
        depth::check_tokens(&statement)?;
        let mut body = parse_statement(sql, &statement)?;
        let mut made = None;
        match &mut body {
            Body::Statement(tree) => {
                depth::check_tree(&statement, tree)?;
                made = Definition::of(tree, taken)?;
                match &mut made {
                    Some(definition) => normalize(&mut *definition.query)?,
                    None => normalize(tree)?,
                }
                if let Some(which) = overriding {
                    sequence::note_overriding(tree, which);
                }
            }
            Body::Declare { query, .. } => {
                query.as_of = as_of;
                query.placeholders = placeholders(&statement);
                if let Body::Statement(tree) = &mut query.body {
                    finish(&statement, tree)?;
                }
            }
            Body::CreateRoutine { definition, .. } => {
                depth::check_tree(&statement, definition)?;
            }
            Body::Ddl(ddl) => finish_query(&statement, ddl)?,
            _ => {}
        }
        if let Some(definition) = made {
            body = Body::TableAs(Box::new(definition));
        }
        // The parameters in PREPARE are those of the statement that it prepares.
        let placeholders = match Parsed::is_prepare(&body) {
            true => 0,
            false => placeholders(&statement),
        };
        let (text, cover) = (text.to_owned(), Cover::default());
        parsed.push(Parsed { text, body, placeholders, as_of, cover, has_path: false, start });
    }
    if parsed.is_empty() {
        let (text, body, cover) = (String::new(), Body::Empty, Cover::default());
        let has_path = false;
        let nothing =
            Parsed { text, body, placeholders: 0, as_of: None, cover, has_path, start: None };
        parsed.push(nothing);
    }
    Ok(parsed)
}

/// What is done to every tree.
fn finish(tokens: &[TokenWithSpan], tree: &mut dyn Tree) -> Result<()> {
    depth::check_tree(tokens, tree)?;
    normalize(tree)
}

/// The same to the query that a schema keeps.
fn finish_query(tokens: &[TokenWithSpan], ddl: &mut Ddl) -> Result<()> {
    match ddl {
        Ddl::CreateMaterialized { create, .. } => finish(tokens, &mut *create.query),
        _ => Ok(()),
    }
}

/// Parses a text that must be exactly one expression, such as a PL/pgSQL condition.
pub fn parse_expression(sql: &str) -> Result<ast::Expr> {
    let tokens = tokens_of(sql)?;
    depth::check_tokens(&tokens)?;
    let dialect = Ledger::for_tokens(tokens.len());
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens.clone());
    let mut expression = parser.parse_expr().map_err(|e| parser_error(sql, e))?;
    depth::check_tree(&tokens, &mut expression)?;
    expect_end(sql, &mut parser)?;
    Ok(expression)
}

/// A name as SQL text has it, a schema before it or not.
pub(crate) fn name_in(text: &str) -> Result<ast::ObjectName> {
    let wrong = || {
        let what = format!("invalid name syntax: \"{text}\"");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
    };
    match parse_expression(text) {
        Ok(ast::Expr::Identifier(name)) => Ok(ast::ObjectName::from(vec![name])),
        Ok(ast::Expr::CompoundIdentifier(parts)) => Ok(ast::ObjectName::from(parts)),
        _ => Err(wrong()),
    }
}

/// The text after the first AS outside of parentheses.
pub(crate) fn text_after_as(sql: &str) -> Option<String> {
    let mut depth = 0;
    for token in tokens_of(sql).ok()? {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Word(word) if depth == 0 && word.keyword == Keyword::AS => {
                let end = Place::start_of(sql).offset(token.span.end);
                return Some(sql[end..].trim().to_owned());
            }
            _ => {}
        }
    }
    None
}

/// Parses a text as one query; `None` if it is something else.
pub(crate) fn parse_query(sql: &str) -> Result<Option<Box<ast::Query>>> {
    let mut parsed = parse(sql)?;
    parsed.iter().try_for_each(Parsed::reads_newest)?;
    Ok(match parsed.pop().map(|p| p.body) {
        Some(Body::Statement(statement)) => match *statement {
            ast::Statement::Query(query) => Some(query),
            _ => None,
        },
        _ => None,
    })
}

pub(crate) fn parse_statement(sql: &str, tokens: &[TokenWithSpan]) -> Result<Body> {
    let words: Vec<Keyword> = tokens.iter().take(4).map(keyword).collect();
    if let Some(name) = unknown_to_sqlparser(tokens) {
        return Err(Error::unsupported(name));
    }
    two_phases(tokens)?;
    if let Some(read) = cursor::read(sql, tokens, parse_statement) {
        return read;
    }
    if let Some(read) = organisations::read(sql, tokens) {
        return read.map(|it| Body::Ddl(Box::new(Ddl::Organisation(Box::new(it)))));
    }
    if let Some(read) = policies::read(sql, tokens) {
        return read.map(|it| Body::Ddl(Box::new(Ddl::ApprovalPolicy(Box::new(it)))));
    }
    if let Some(read) = databases::read(sql, tokens) {
        return read.map(|it| Body::Ddl(Box::new(Ddl::Database(Box::new(it)))));
    }
    match words.as_slice() {
        [Keyword::VACUUM, ..] => return Ok(Body::Nothing("VACUUM")),
        [Keyword::ANALYZE, ..] => return Ok(Body::Nothing("ANALYZE")),
        [Keyword::ABORT, ..] => return Ok(Body::Rollback),
        [Keyword::DO, ..] => return do_block(sql, tokens),
        _ => {}
    }
    let dialect = Ledger::for_tokens(tokens.len());
    let parser_of = |tokens| Parser::new(&dialect).with_tokens_with_locations(tokens);
    let mut parser = parser_of(as_sqlparser_reads(&words, tokens));
    let read = own_grammar(&words, tokens, &mut parser).or_else(|| {
        let mut first = parser_of(tokens.to_vec());
        let altered = altered(&words, &mut first)?;
        parser = first;
        Some(Ok(altered))
    });
    let read = read.unwrap_or_else(|| parser.parse_statement().map(classify));
    let body = read.map_err(|error| match rewrites::conflicts_by_expression(tokens) {
        false => parser_error(sql, error),
        true => Error::unsupported("ON CONFLICT with an expression, a collation or a condition")
            .with_hint("Name the columns of a unique index, or say ON CONSTRAINT and its name."),
    })?;
    if let Body::Statement(statement) = &body
        && let ast::Statement::Copy { to, target, .. } = &**statement
    {
        copy::check_target(*to, target)?;
    }
    if !matches!(body, Body::DropRoutine { procedure: true, .. }) {
        expect_end(sql, &mut parser)?;
    }
    Ok(body)
}

fn keyword(token: &TokenWithSpan) -> Keyword {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// Where sqlparser reads a statement in other words only.
fn as_sqlparser_reads(words: &[Keyword], tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    match words {
        [Keyword::RESET, Keyword::SESSION, Keyword::AUTHORIZATION] => {
            tokens::named_in_one(tokens, "session_authorization")
        }
        // Routines are known by their names alone.
        [Keyword::COMMENT, Keyword::ON, Keyword::FUNCTION | Keyword::PROCEDURE, ..] => {
            tokens::without_arguments(tokens)
        }
        [Keyword::COPY, ..] => tokens::switches_as_booleans(tokens),
        _ => tokens.to_vec(),
    }
}

type Read = std::result::Result<Body, ParserError>;

fn of_ddl(ddl: Ddl) -> Body {
    Body::Ddl(Box::new(ddl))
}

fn of_type(statement: user_types::TypeStatement) -> Body {
    of_ddl(Ddl::Type(Box::new(statement)))
}

fn skip(parser: &mut Parser<'_>, tokens: usize) {
    (0..tokens).for_each(|_| drop(parser.next_token()));
}

/// What sqlparser reads otherwise, or not at all; `None`: it reads the statement.
fn own_grammar(
    words: &[Keyword],
    tokens: &[TokenWithSpan],
    parser: &mut Parser<'_>,
) -> Option<Read> {
    if let [Keyword::ALTER, ..] = words
        && let Some(changed) = owned::changed_owner(tokens, parser)
    {
        return Some(changed.map(of_ddl));
    }
    Some(match words {
        [Keyword::CREATE, Keyword::PROCEDURE, ..] => {
            skip(parser, 2);
            create_routine(parser, true, false)
        }
        [Keyword::CREATE, Keyword::OR, Keyword::REPLACE, Keyword::PROCEDURE] => {
            skip(parser, 4);
            create_routine(parser, true, true)
        }
        [Keyword::DROP, Keyword::PROCEDURE, ..] => {
            drop_routine(&tokens::tokens_as_function(tokens))
        }
        [Keyword::CREATE, Keyword::SEQUENCE, ..] => {
            skip(parser, 2);
            sequence::create(parser).map(of_ddl)
        }
        [Keyword::CREATE, Keyword::TEMP | Keyword::TEMPORARY, Keyword::SEQUENCE, ..] => {
            skip(parser, 3);
            sequence::create_temporary(parser).map(of_ddl)
        }
        [Keyword::ALTER, Keyword::SEQUENCE, ..] => {
            skip(parser, 2);
            sequence::alter(parser).map(of_ddl)
        }
        [Keyword::CREATE, Keyword::MATERIALIZED, ..] => materialized::create(parser).map(of_ddl),
        [Keyword::REFRESH, ..] => materialized::refresh(parser),
        [Keyword::DROP, Keyword::TYPE, ..] => {
            skip(parser, 2);
            user_types::dropped(parser).map(of_type)
        }
        [verb @ (Keyword::CREATE | Keyword::ALTER | Keyword::DROP), Keyword::DOMAIN, ..] => {
            skip(parser, 2);
            let read = match verb {
                Keyword::CREATE => domains::create(parser),
                Keyword::ALTER => domains::alter(parser),
                _ => domains::dropped(parser),
            };
            read.map(|statement| of_ddl(Ddl::Domain(Box::new(statement))))
        }
        [verb @ (Keyword::CREATE | Keyword::ALTER | Keyword::DROP), Keyword::COLLATION, ..] => {
            skip(parser, 2);
            let read = match verb {
                Keyword::CREATE => collations::create(parser),
                Keyword::ALTER => collations::alter(parser),
                _ => collations::dropped(parser),
            };
            read.map(|statement| of_ddl(Ddl::Collation(Box::new(statement))))
        }
        [Keyword::COMMENT, Keyword::ON, Keyword::CONSTRAINT, ..] => {
            skip(parser, 3);
            comment_on_constraint(parser).map(of_ddl)
        }
        [Keyword::SET, ..] if rewrites::sets_constraints(tokens) => {
            skip(parser, 2);
            rewrites::set_constraints(parser)
                .map(|(names, deferred)| Body::SetConstraints { names, deferred })
        }
        _ => return of_roles(words, tokens, parser),
    })
}

/// Roles and privileges.
fn of_roles(words: &[Keyword], tokens: &[TokenWithSpan], parser: &mut Parser<'_>) -> Option<Read> {
    Some(match words {
        [Keyword::CREATE, kind @ (Keyword::ROLE | Keyword::USER | Keyword::GROUP), ..] => {
            skip(parser, 2);
            roles::create(parser, *kind == Keyword::USER).map(of_role)
        }
        [Keyword::ALTER, kind @ (Keyword::ROLE | Keyword::USER | Keyword::GROUP), ..] => {
            skip(parser, 2);
            roles::alter(parser, *kind == Keyword::GROUP).map(of_role)
        }
        [Keyword::DROP, Keyword::ROLE | Keyword::USER | Keyword::GROUP, ..] => {
            skip(parser, 2);
            roles::drop_roles(parser).map(of_role)
        }
        [Keyword::GRANT, ..] if roles::grants_roles(tokens) => {
            skip(parser, 1);
            roles::grant(parser).map(of_role)
        }
        [Keyword::REVOKE, ..] if roles::grants_roles(tokens) => {
            skip(parser, 1);
            roles::revoke(parser).map(of_role)
        }
        words if owned::are_of_privileges(words, tokens) => {
            owned::statement(words, parser).map(of_ddl)
        }
        _ => return None,
    })
}

/// What else ALTER of a table, an index or a view does; `None`: sqlparser knows.
fn altered(words: &[Keyword], parser: &mut Parser<'_>) -> Option<Body> {
    let read = match words {
        [Keyword::ALTER, Keyword::TABLE, ..] => sequence::alter_identity(parser),
        [Keyword::ALTER, Keyword::INDEX | Keyword::VIEW, ..] => rewrites::renaming(parser),
        [verb @ (Keyword::CREATE | Keyword::ALTER), Keyword::TYPE, ..] => {
            skip(parser, 2);
            let read = match verb {
                Keyword::CREATE => user_types::create(parser),
                _ => user_types::alter(parser),
            };
            return read.ok().flatten().map(of_type);
        }
        _ => return None,
    };
    read.ok().flatten().map(of_ddl)
}

/// `DO [LANGUAGE name] body`, or the other way round.
fn do_block(sql: &str, tokens: &[TokenWithSpan]) -> Result<Body> {
    let (mut language, mut body) = (None, None);
    let mut rest = tokens.get(1..).unwrap_or_default();
    while let [token, more @ ..] = rest {
        rest = more;
        match &token.token {
            Token::Word(word) if word.keyword == Keyword::LANGUAGE && language.is_none() => {
                let [name, more @ ..] = rest else { break };
                rest = more;
                language = match &name.token {
                    Token::Word(word) => Some(fold(&word.clone().into_ident(name.span))),
                    Token::SingleQuotedString(name) => Some(name.to_ascii_lowercase()),
                    _ => return Err(unexpected(sql, name)),
                };
            }
            Token::SingleQuotedString(text) if body.is_none() => body = Some(text.clone()),
            Token::EscapedStringLiteral(text) if body.is_none() => body = Some(text.clone()),
            Token::DollarQuotedString(text) if body.is_none() => body = Some(text.value.clone()),
            _ => return Err(unexpected(sql, token)),
        }
    }
    let body = body.ok_or_else(|| Error::new(SqlState::SYNTAX_ERROR, "no inline code specified"));
    let (language, body) = (language.unwrap_or_else(|| "plpgsql".into()), body?);
    match user_types::create_unless_there(&body).filter(|_| language == "plpgsql") {
        Some(statement) => Ok(of_type(statement)),
        None => Ok(Body::Do { language, body }),
    }
}

/// PREPARE TRANSACTION and its kin fail as where PostgreSQL has them switched off.
fn two_phases(tokens: &[TokenWithSpan]) -> Result<()> {
    let word = |at: usize| match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
        _ => String::new(),
    };
    let (Some(Token::SingleQuotedString(name)), 3) =
        (tokens.get(2).map(|token| &token.token), tokens.len())
    else {
        return Ok(());
    };
    match (word(0).as_str(), word(1).as_str()) {
        ("prepare", "transaction") => {
            let what = "prepared transactions are disabled";
            Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what)
                .with_hint("A transaction of a ledger ends in one step: use COMMIT."))
        }
        ("commit" | "rollback", "prepared") => Err(Error::new(
            SqlState::UNDEFINED_OBJECT,
            format!("prepared transaction with identifier \"{name}\" does not exist"),
        )),
        _ => Ok(()),
    }
}

/// Statements of PostgreSQL that sqlparser takes for no statement at all.
fn unknown_to_sqlparser(tokens: &[TokenWithSpan]) -> Option<&'static str> {
    const NAMES: &[&str] = &["CHECKPOINT", "CLUSTER", "IMPORT", "REINDEX", "SECURITY"];
    let word = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    };
    let current_of = [Keyword::WHERE, Keyword::CURRENT, Keyword::OF].map(Some);
    let writes = [Keyword::UPDATE, Keyword::DELETE].map(Some).contains(&word(tokens.first()?));
    if writes
        && tokens.windows(3).any(|three| current_of.iter().copied().eq(three.iter().map(word)))
    {
        return Some("WHERE CURRENT OF");
    }
    let first = match &tokens.first()?.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.as_str(),
        _ => return None,
    };
    NAMES.iter().copied().find(|name| name.eq_ignore_ascii_case(first))
}

fn of_role(statement: roles::RoleStatement) -> Body {
    Body::Ddl(Box::new(Ddl::Role(Box::new(statement))))
}

fn classify(statement: ast::Statement) -> Body {
    match statement {
        ast::Statement::CreateFunction(definition) => {
            Body::CreateRoutine { procedure: false, definition: Box::new(definition) }
        }
        ast::Statement::DropFunction(definition) => {
            Body::DropRoutine { procedure: false, definition }
        }
        other => Body::Statement(Box::new(other)),
    }
}

fn create_routine(
    parser: &mut Parser<'_>,
    procedure: bool,
    or_replace: bool,
) -> std::result::Result<Body, ParserError> {
    match parser.parse_create_function(false, or_replace, false)? {
        ast::Statement::CreateFunction(definition) => {
            Ok(Body::CreateRoutine { procedure, definition: Box::new(definition) })
        }
        _ => Err(ParserError::ParserError("malformed CREATE PROCEDURE".into())),
    }
}

fn drop_routine(tokens: &[TokenWithSpan]) -> std::result::Result<Body, ParserError> {
    let dialect = Ledger::for_tokens(tokens.len());
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens.to_vec());
    let statement = parser.parse_statement()?;
    parser.expect_token(&Token::EOF)?;
    match statement {
        ast::Statement::DropFunction(definition) => {
            Ok(Body::DropRoutine { procedure: true, definition })
        }
        _ => Err(ParserError::ParserError("malformed DROP PROCEDURE".into())),
    }
}

/// More parameters than the protocol can number are no parameters.
fn placeholders(tokens: &[TokenWithSpan]) -> usize {
    let number = |t: &TokenWithSpan| match &t.token {
        Token::Placeholder(name) => name.strip_prefix('$')?.parse::<u16>().ok(),
        _ => None,
    };
    usize::from(tokens.iter().filter_map(number).max().unwrap_or(0))
}

/// `name ON table IS text`.
fn comment_on_constraint(parser: &mut Parser<'_>) -> std::result::Result<Ddl, ParserError> {
    let name = parser.parse_identifier()?;
    parser.expect_keyword_is(Keyword::ON)?;
    let table = parser.parse_object_name(false)?;
    parser.expect_keyword_is(Keyword::IS)?;
    let text = match parser.parse_keyword(Keyword::NULL) {
        true => None,
        false => Some(parser.parse_literal_string()?),
    };
    Ok(Ddl::CommentOnConstraint { name, table, text })
}

fn expect_end(sql: &str, parser: &mut Parser<'_>) -> Result<()> {
    let next = parser.next_token();
    match next.token {
        Token::EOF => Ok(()),
        _ => Err(unexpected(sql, &next)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_keep_their_text() {
        let parsed = parse("SELECT 1 ; -- one\n  SELECT ';' ;;\nCALL p($1)").unwrap();
        let texts: Vec<&str> = parsed.iter().map(|p| p.text.as_str()).collect();
        assert_eq!(texts, ["SELECT 1", "SELECT ';'", "CALL p($1)"]);
        assert_eq!(parse(" ; ").unwrap()[0].body, Body::Empty);
    }

    #[test]
    fn syntax_errors_have_positions() {
        let error = parse("SELECT 1;\nSELEKT 2").unwrap_err();
        assert_eq!(error.code(), SqlState::SYNTAX_ERROR);
        assert_eq!(error.fields().position, Some(11), "{error}");
        let error = parse("SELECT 'é' FROM").unwrap_err();
        assert_eq!(error.message(), "syntax error at end of input");
        assert!(parse("SELECT 'open").is_err());
    }

    #[test]
    fn strings_continue_on_the_next_line_only() {
        assert_eq!(
            parse("SELECT 'a'\n -- b\n'c'").unwrap()[0].body,
            parse("SELECT 'ac'").unwrap()[0].body
        );
        assert_eq!(parse("SELECT 'a'\n'c'; SELECT 1").unwrap()[0].text, "SELECT 'a'\n'c'");
        let error = parse("SELECT 'a' 'b'").unwrap_err();
        assert_eq!(error.fields().position, Some(12), "{error}");
        assert!(parse("SELECT trim(BOTH FROM x), trim(trailing from ' a '), 'a', 'b'").is_ok());
    }

    #[test]
    fn deferrable_changes_nothing() {
        let modes = [
            ("BEGIN DEFERRABLE", "BEGIN"),
            (
                "begin isolation level serializable, read only, deferrable",
                "BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY",
            ),
            ("START TRANSACTION NOT DEFERRABLE, READ ONLY", "START TRANSACTION READ ONLY"),
            (
                "START TRANSACTION READ ONLY NOT DEFERRABLE READ WRITE",
                "START TRANSACTION READ ONLY READ WRITE",
            ),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY DEFERRABLE",
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
            ),
        ];
        for (text, without) in modes {
            assert_eq!(parse(text).unwrap()[0].body, parse(without).unwrap()[0].body, "{text}");
        }
        assert!(parse("SELECT 1 deferrable").is_ok());
    }

    #[test]
    fn what_the_grammar_does_not_know_is_refused_by_name() {
        for text in ["CHECKPOINT", "reindex table t", "SECURITY LABEL ON t IS 1"] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.code(), SqlState::FEATURE_NOT_SUPPORTED, "{error}");
        }
    }

    #[test]
    fn transactions_of_two_phases_are_switched_off() {
        for (text, code) in [
            ("PREPARE TRANSACTION 'a'", "55000"),
            ("commit prepared 'a'", "42704"),
            ("ROLLBACK PREPARED 'a'", "42704"),
            ("COMMIT PREPARED a", "42601"),
        ] {
            assert_eq!(parse(text).unwrap_err().code().as_str(), code, "{text}");
        }
    }

    #[test]
    fn procedures_parse_as_functions_do() {
        let text = "CREATE OR REPLACE PROCEDURE p(a int, b text DEFAULT 'x') LANGUAGE plpgsql AS $$ BEGIN NULL; END $$";
        let parsed = parse(text).unwrap();
        assert!(matches!(
            &parsed[0].body,
            Body::CreateRoutine { procedure: true, definition } if definition.or_replace
        ));
        assert!(matches!(
            parse("drop procedure if exists p(int)").unwrap()[0].body,
            Body::DropRoutine { procedure: true, .. }
        ));
    }

    #[test]
    fn what_has_no_effect_is_accepted_with_any_options() {
        for (text, tag) in [
            ("vacuum analyze pgbench_branches", "VACUUM"),
            ("VACUUM (FULL, VERBOSE) t", "VACUUM"),
            ("analyze t", "ANALYZE"),
        ] {
            assert_eq!(parse(text).unwrap()[0].body, Body::Nothing(tag));
        }
    }
}
