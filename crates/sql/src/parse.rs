//! Text to statements.
//!
//! The text is cut into tokens once; semicolons cut it into statements, so that every statement
//! keeps its own source text (what the ledger records, and what positions in errors count from).
//! sqlparser does the grammar, but for one precedence (module `precedence`). A few things are
//! recognised before it, because its PostgreSQL dialect reads them differently or not at all:
//! CREATE/DROP PROCEDURE (the same grammar as FUNCTION), AS OF (module `as_of`), VACUUM and ANALYZE
//! with their many options (accepted without effect), ABORT, and switches of COPY that say `on`.

use std::sync::Arc;

use kit::pool::Lease;
use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Whitespace};
use types::{Error, Result, SqlState};

use crate::as_of::{self, AsOf};
use crate::clauses::settle;
use crate::copy::CopyOptions;
use crate::ddl::Ddl;
use crate::depth;
use crate::dialect::Ledger;
use crate::place::{Source, Start};
use crate::precedence::mend;
use crate::sequence_syntax;
use crate::size;

/// One statement of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    pub text: String,
    pub(crate) body: Body,
    /// The largest n of a `$n` in it.
    pub(crate) placeholders: usize,
    /// The block that it reads, if its text says so.
    pub as_of: Option<AsOf>,
    pub(crate) cover: Cover,
    /// Where it stands in what the client sent; `None`: it is not the client's own text.
    pub(crate) start: Option<Start>,
}

/// What covers a statement's tree in the memory of all sessions, where it is large. It is no part
/// of what the statement says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cover {
    _lease: Option<Arc<Lease>>,
}

impl From<Lease> for Cover {
    fn from(lease: Lease) -> Cover {
        Cover { _lease: Some(Arc::new(lease)) }
    }
}

impl PartialEq for Cover {
    fn eq(&self, _: &Cover) -> bool {
        true
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Body {
    Statement(Box<ast::Statement>),
    CreateRoutine {
        procedure: bool,
        definition: Box<ast::CreateFunction>,
    },
    DropRoutine {
        procedure: bool,
        definition: ast::DropFunction,
    },
    /// Accepted without effect; the command tag.
    Nothing(&'static str),
    Rollback,
    /// What sqlparser has no tree for.
    Ddl(Box<Ddl>),
    Empty,
}

impl Parsed {
    /// The query of a SELECT, or of a COPY that writes what a query finds.
    pub fn query(&self) -> Option<&ast::Query> {
        let Body::Statement(statement) = &self.body else { return None };
        match &**statement {
            ast::Statement::Query(query) => Some(query),
            ast::Statement::Copy { source: ast::CopySource::Query(query), to: true, .. } => {
                Some(query)
            }
            _ => None,
        }
    }

    /// The statement that an EXPLAIN is of, and whether it is to run.
    pub(crate) fn explained(&self) -> Result<Option<(Parsed, bool)>> {
        let Body::Statement(statement) = &self.body else { return Ok(None) };
        let ast::Statement::Explain { statement, analyze, options, format, .. } = &**statement
        else {
            return Ok(None);
        };
        if format.is_some() {
            return Err(Error::unsupported("EXPLAIN in another format than text"));
        }
        let mut analyze = *analyze;
        for option in options.iter().flatten() {
            analyze |= explain_option(option)?;
        }
        let body = Body::Statement(statement.clone());
        let text = statement.to_string();
        let Parsed { placeholders, as_of, .. } = *self;
        let cover = self.cover.clone();
        Ok(Some((Parsed { text, body, placeholders, as_of, cover, start: None }, analyze)))
    }

    /// How a COPY that writes what a query finds writes it.
    pub(crate) fn copy_options(&self) -> Result<Option<CopyOptions>> {
        let Body::Statement(statement) = &self.body else { return Ok(None) };
        match &**statement {
            ast::Statement::Copy { to: true, options, legacy_options, .. } => {
                CopyOptions::from_ast(options, legacy_options).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Whether the text had no statement in it.
    pub fn is_empty(&self) -> bool {
        self.body == Body::Empty
    }

    pub(crate) fn source(&self) -> Option<Source<'_>> {
        self.start.map(|start| Source { text: &self.text, start })
    }

    pub(crate) fn is_execute(&self) -> bool {
        matches!(&self.body, Body::Statement(s) if matches!(**s, ast::Statement::Execute { .. }))
    }

    /// What is kept to be run later reads what is newest then.
    pub(crate) fn reads_newest(&self) -> Result<()> {
        match self.as_of {
            None => Ok(()),
            Some(_) => Err(Error::unsupported("AS OF in what is stored")
                .with_hint("It can stand in statements that a client sends.")),
        }
    }

    fn is_prepare(body: &Body) -> bool {
        matches!(body, Body::Statement(s) if matches!(**s, ast::Statement::Prepare { .. }))
    }
}

/// Whether an option of EXPLAIN asks for a run.
fn explain_option(option: &ast::UtilityOption) -> Result<bool> {
    const WITHOUT_EFFECT: &[&str] = &["buffers", "costs", "summary", "timing", "verbose"];
    let value = option.arg.as_ref().map(|arg| arg.to_string().to_ascii_lowercase());
    let off = matches!(value.as_deref(), Some("off" | "false" | "0"));
    match option.name.value.to_ascii_lowercase().as_str() {
        "analyze" => Ok(!off),
        "format" if matches!(value.as_deref(), Some("text" | "'text'")) => Ok(false),
        name if off || WITHOUT_EFFECT.contains(&name) => Ok(false),
        _ => Err(Error::unsupported(format_args!("EXPLAIN ({option})"))),
    }
}

/// Cuts `sql` into statements. A text without any gives one empty statement.
pub fn parse(sql: &str) -> Result<Vec<Parsed>> {
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
        drop_deferrable(&mut statement);
        bare_fetch(&mut statement);
        sequence_syntax::order_identity_options(&mut statement);
        let overriding = sequence_syntax::take_overriding(&mut statement);
        depth::check_tokens(&statement)?;
        let mut body = parse_statement(sql, &statement)?;
        match &mut body {
            Body::Statement(tree) => {
                depth::check_tree(&statement, tree)?;
                mend(tree);
                settle(tree)?;
                if let Some(which) = overriding {
                    sequence_syntax::note_overriding(tree, which);
                }
            }
            Body::CreateRoutine { definition, .. } => {
                depth::check_tree(&statement, definition)?;
                mend(definition);
            }
            _ => {}
        }
        // The parameters in PREPARE are those of the statement that it prepares.
        let placeholders = match Parsed::is_prepare(&body) {
            true => 0,
            false => placeholders(&statement),
        };
        let (text, cover) = (text.to_owned(), Cover::default());
        parsed.push(Parsed { text, body, placeholders, as_of, cover, start });
    }
    if parsed.is_empty() {
        let (text, body, cover) = (String::new(), Body::Empty, Cover::default());
        parsed.push(Parsed { text, body, placeholders: 0, as_of: None, cover, start: None });
    }
    Ok(parsed)
}

/// The tokens of a text, without blanks and comments.
fn tokens_of(sql: &str) -> Result<Vec<TokenWithSpan>> {
    size::check_text(sql)?;
    let tokens = Tokenizer::new(&Ledger::for_tokens(0), sql)
        .tokenize_with_location()
        .map_err(|e| syntax_error(sql, &e.message, Some(e.location)))?;
    let tokens = as_sqlparser_reads(sql, tokens)?;
    size::check_tokens(tokens.len())?;
    Ok(tokens)
}

/// Where sqlparser reads PostgreSQL wrongly or not at all: strings that continue on another line
/// are one, strings side by side are an error (not an alias), and TRIM's `FROM` may follow its
/// direction.
fn as_sqlparser_reads(sql: &str, tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let mut read: Vec<TokenWithSpan> = Vec::new();
    // Whether a line ended since the last token.
    let mut line_ended = false;
    for token in tokens {
        match &token.token {
            Token::Whitespace(space) => {
                line_ended |= matches!(space, Whitespace::Newline);
                line_ended |= matches!(space, Whitespace::SingleLineComment { .. });
                continue;
            }
            Token::EOF => continue,
            _ => {}
        }
        let before = read.last_mut();
        let (before, end) = before.map(|before| (&mut before.token, &mut before.span.end)).unzip();
        match (before, &token.token) {
            (
                Some(Token::SingleQuotedString(start) | Token::EscapedStringLiteral(start)),
                Token::SingleQuotedString(rest),
            ) => {
                if !line_ended {
                    let message = format!("syntax error at or near \"{}\"", token.token);
                    return Err(syntax_error(sql, &message, Some(token.span.start)));
                }
                start.push_str(rest);
                end.into_iter().for_each(|end| *end = token.span.end);
                continue;
            }
            (Some(Token::Word(direction)), Token::Word(word))
                if word.keyword == Keyword::FROM
                    && direction.quote_style.is_none()
                    && matches!(
                        direction.keyword,
                        Keyword::LEADING | Keyword::TRAILING | Keyword::BOTH
                    ) =>
            {
                continue;
            }
            _ => {}
        }
        line_ended = false;
        read.push(token);
    }
    Ok(read)
}

/// Takes `[NOT] DEFERRABLE` out of what begins a transaction or sets its modes: the grammar does
/// not know it, and it changes nothing. Every snapshot is a block's end, which no later commit
/// makes unsafe, so there is nothing to wait for.
fn drop_deferrable(tokens: &mut Vec<TokenWithSpan>) {
    let is = |place: usize, keyword: Keyword| {
        tokens.get(place).is_some_and(|token| {
            matches!(&token.token, Token::Word(word)
                if word.quote_style.is_none() && word.keyword == keyword)
        })
    };
    let has = |keyword| (0..tokens.len()).any(|place| is(place, keyword));
    let sets_modes = is(0, Keyword::BEGIN)
        || is(0, Keyword::START)
        || is(0, Keyword::SET) && has(Keyword::TRANSACTION);
    if !sets_modes {
        return;
    }
    let is_comma = |place: usize| tokens.get(place).is_some_and(|t| t.token == Token::Comma);
    let mut dropped = vec![false; tokens.len()];
    for last in (1..tokens.len()).filter(|&place| is(place, Keyword::DEFERRABLE)) {
        let first = if is(last - 1, Keyword::NOT) { last - 1 } else { last };
        let mode = match (is_comma(first - 1), is_comma(last + 1)) {
            (true, _) => first - 1..=last,
            (false, true) => first..=last + 1,
            (false, false) => first..=last,
        };
        dropped[mode].fill(true);
    }
    let mut dropped = dropped.into_iter();
    tokens.retain(|_| dropped.next() == Some(false));
}

/// Takes the parentheses out of `FETCH FIRST (n) ROWS`, which the grammar does not know.
fn bare_fetch(tokens: &mut Vec<TokenWithSpan>) {
    let is_word = |token: &TokenWithSpan, words: &[&str]| {
        matches!(&token.token, Token::Word(word) if word.quote_style.is_none()
            && words.iter().any(|known| word.value.eq_ignore_ascii_case(known)))
    };
    let mut place = 0;
    while let Some([fetch, first, open, _, close, rows]) =
        tokens.get(place..).and_then(<[_]>::first_chunk)
    {
        if is_word(fetch, &["fetch"])
            && is_word(first, &["first", "next"])
            && open.token == Token::LParen
            && close.token == Token::RParen
            && is_word(rows, &["row", "rows"])
        {
            tokens.remove(place + 4);
            tokens.remove(place + 2);
        }
        place += 1;
    }
}

/// Parses a text that must be exactly one expression, such as a PL/pgSQL condition.
pub fn parse_expression(sql: &str) -> Result<ast::Expr> {
    let tokens = tokens_of(sql)?;
    depth::check_tokens(&tokens)?;
    let dialect = Ledger::for_tokens(tokens.len());
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens.clone());
    let mut expression = parser.parse_expr().map_err(|e| parser_error(sql, e))?;
    depth::check_tree(&tokens, &expression)?;
    mend(&mut expression);
    expect_end(sql, &mut parser)?;
    Ok(expression)
}

/// The text behind the first AS outside of parentheses.
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

fn parse_statement(sql: &str, tokens: &[TokenWithSpan]) -> Result<Body> {
    let words: Vec<Keyword> = tokens
        .iter()
        .take(4)
        .map(|t| match &t.token {
            Token::Word(word) if word.quote_style.is_none() => word.keyword,
            _ => Keyword::NoKeyword,
        })
        .collect();
    if let Some(name) = unknown_to_sqlparser(tokens) {
        return Err(Error::unsupported(name));
    }
    let dialect = Ledger::for_tokens(tokens.len());
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens.to_vec());
    let skip = |parser: &mut Parser<'_>, n: usize| (0..n).for_each(|_| drop(parser.next_token()));
    let body = match words.as_slice() {
        [Keyword::VACUUM, ..] => return Ok(Body::Nothing("VACUUM")),
        [Keyword::ANALYZE, ..] => return Ok(Body::Nothing("ANALYZE")),
        [Keyword::ABORT, ..] => return Ok(Body::Rollback),
        [Keyword::CREATE, Keyword::PROCEDURE, ..] => {
            skip(&mut parser, 2);
            create_routine(&mut parser, true, false)
        }
        [Keyword::CREATE, Keyword::OR, Keyword::REPLACE, Keyword::PROCEDURE] => {
            skip(&mut parser, 4);
            create_routine(&mut parser, true, true)
        }
        [Keyword::DROP, Keyword::PROCEDURE, ..] => drop_routine(&tokens_as_function(tokens)),
        [Keyword::CREATE, Keyword::SEQUENCE, ..] => {
            skip(&mut parser, 2);
            sequence_syntax::create(&mut parser).map(|ddl| Body::Ddl(Box::new(ddl)))
        }
        [Keyword::ALTER, Keyword::SEQUENCE, ..] => {
            skip(&mut parser, 2);
            sequence_syntax::alter(&mut parser).map(|ddl| Body::Ddl(Box::new(ddl)))
        }
        [Keyword::ALTER, Keyword::TABLE, ..] => {
            let mut first = Parser::new(&dialect).with_tokens_with_locations(tokens.to_vec());
            match sequence_syntax::alter_identity(&mut first) {
                Ok(Some(ddl)) => {
                    expect_end(sql, &mut first)?;
                    return Ok(Body::Ddl(Box::new(ddl)));
                }
                _ => parser.parse_statement().map(classify),
            }
        }
        [Keyword::COPY, ..] => {
            parser = parser.with_tokens_with_locations(switches_as_booleans(tokens));
            parser.parse_statement().map(classify)
        }
        _ => parser.parse_statement().map(classify),
    };
    let body = body.map_err(|e| parser_error(sql, e))?;
    if !matches!(body, Body::DropRoutine { procedure: true, .. }) {
        expect_end(sql, &mut parser)?;
    }
    Ok(body)
}

/// Statements of PostgreSQL that sqlparser takes for no statement at all.
fn unknown_to_sqlparser(tokens: &[TokenWithSpan]) -> Option<&'static str> {
    const NAMES: &[&str] = &[
        "CHECKPOINT",
        "CLUSTER",
        "DO",
        "IMPORT",
        "MOVE",
        "REASSIGN",
        "REFRESH",
        "REINDEX",
        "SECURITY",
        "TABLE",
    ];
    let first = match &tokens.first()?.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.as_str(),
        _ => return None,
    };
    NAMES.iter().copied().find(|name| name.eq_ignore_ascii_case(first))
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

/// The same tokens with the second word replaced by FUNCTION.
fn tokens_as_function(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut tokens = tokens.to_vec();
    if let Some(token) = tokens.get_mut(1) {
        token.token = Token::make_keyword("FUNCTION");
    }
    tokens
}

/// COPY's `(FREEZE on)` as `(FREEZE true)`.
fn switches_as_booleans(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut tokens = tokens.to_vec();
    let mut after_option = false;
    for token in &mut tokens {
        let Token::Word(word) = &token.token else {
            after_option = false;
            continue;
        };
        let is = |text: &str| word.value.eq_ignore_ascii_case(text);
        let switch = match word.quote_style {
            None if after_option && is("on") => Some("TRUE"),
            None if after_option && is("off") => Some("FALSE"),
            _ => None,
        };
        after_option = is("freeze") || is("header");
        if let Some(switch) = switch {
            token.token = Token::make_keyword(switch);
        }
    }
    tokens
}

fn expect_end(sql: &str, parser: &mut Parser<'_>) -> Result<()> {
    let next = parser.next_token();
    match next.token {
        Token::EOF => Ok(()),
        token => Err(syntax_error(
            sql,
            &format!("syntax error at or near \"{token}\""),
            Some(next.span.start),
        )),
    }
}

fn parser_error(sql: &str, error: ParserError) -> Error {
    match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => {
            let (message, location) = split_location(&message);
            syntax_error(sql, &postgresql_wording(message), location)
        }
        ParserError::RecursionLimitExceeded => depth::too_deep(),
    }
}

/// `Expected: x, found: y` reads better the way PostgreSQL says it.
fn postgresql_wording(message: &str) -> String {
    match message.split_once(", found: ") {
        Some((_, "EOF")) => "syntax error at end of input".to_owned(),
        Some((expected, found)) => format!(
            "syntax error at or near \"{found}\": {}",
            expected.replacen("Expected:", "expected", 1)
        ),
        None => format!("syntax error: {message}"),
    }
}

/// sqlparser writes positions into its messages: ` at Line: 1, Column: 8`.
fn split_location(message: &str) -> (&str, Option<Location>) {
    let Some((head, tail)) = message.rsplit_once(" at Line: ") else {
        return (message, None);
    };
    let location = tail.split_once(", Column: ").and_then(|(line, column)| {
        Some(Location { line: line.parse().ok()?, column: column.parse().ok()? })
    });
    (head, location)
}

fn syntax_error(sql: &str, message: &str, location: Option<Location>) -> Error {
    let error = Error::new(SqlState::SYNTAX_ERROR, message);
    match location {
        Some(location) if location.line > 0 => {
            let offset = Place::start_of(sql).offset(location);
            let characters = sql[..offset].chars().count();
            error.with_position(u32::try_from(characters + 1).unwrap_or(u32::MAX))
        }
        _ => error,
    }
}

/// A place in a text that only moves on, since sqlparser counts lines and columns in characters.
struct Place<'s> {
    sql: &'s str,
    rest: std::str::Chars<'s>,
    line: u64,
    column: u64,
    characters: u32,
}

impl<'s> Place<'s> {
    fn start_of(sql: &'s str) -> Self {
        Place { sql, rest: sql.chars(), line: 1, column: 1, characters: 0 }
    }

    /// Moves on to `location`; its byte offset.
    fn offset(&mut self, location: Location) -> usize {
        while (self.line, self.column) < (location.line, location.column) {
            let next = self.rest.next();
            self.characters += u32::from(next.is_some());
            match next {
                None => break,
                Some('\n') => (self.line, self.column) = (self.line + 1, 1),
                Some(_) => self.column += 1,
            }
        }
        self.sql.len() - self.rest.as_str().len()
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
        for text in ["do $$ begin null; end $$", "CHECKPOINT", "reindex table t", "TABLE t"] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.code(), SqlState::FEATURE_NOT_SUPPORTED, "{error}");
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
