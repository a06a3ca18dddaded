//! A cursor over the tokens of a body, and the way to sqlparser for what lies between two of them.
//!
//! PL/pgSQL is a shell around SQL: its own statements are recognised by their first words, and
//! whatever is SQL in them reaches from one known word to the next (`IF … THEN`). So the cursor
//! cuts such a stretch out and sqlparser parses it. A stretch ends at a word that is not inside
//! parentheses and not between CASE and END.

use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Span, Token, TokenWithSpan, Tokenizer, Word};
use types::{Error, Result, SqlState};

use super::syntax::Expr;
use crate::schema::catalog::Catalog;
use crate::syntax::assigned::assign_whole;
use crate::syntax::clauses::normalize;
use crate::syntax::depth::check_tokens;
use crate::syntax::dialect::Ledger;
use crate::syntax::path::SearchPath;
use crate::syntax::walk::Tree;

/// The token that stands for `..`, which SQL does not have.
const RANGE: &str = "..";

/// How deep expressions, queries and blocks may nest.
pub const NESTING_MAX: usize = 50;

/// Which of the variables that every statement sets a body ever looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reads {
    pub found: bool,
    pub row_count: bool,
}

pub struct Tokens<'a> {
    tokens: Vec<TokenWithSpan>,
    at: usize,
    /// By which names are settled.
    path: (&'a SearchPath, &'a Catalog),
}

impl<'a> Tokens<'a> {
    /// `parameters` are the names that `$1`, `$2`… stand for.
    pub fn new(
        body: &str,
        parameters: &[String],
        path: (&'a SearchPath, &'a Catalog),
    ) -> Result<Self> {
        crate::syntax::size::check_text(body)?;
        let tokens = Tokenizer::new(&Ledger::for_tokens(0), body)
            .tokenize_with_location()
            .map_err(|error| Error::new(SqlState::SYNTAX_ERROR, error.to_string()))?;
        let tokens = tokens
            .into_iter()
            .filter(|token| !matches!(token.token, Token::Whitespace(_)))
            .map(|token| without_placeholder(token, parameters))
            .collect::<Result<_>>()?;
        let mut tokens = with_ranges(tokens);
        crate::syntax::tokens::spell_isnull(&mut tokens);
        Ok(Tokens { tokens, at: 0, path })
    }

    pub fn reads(&self) -> Reads {
        let mentions = |word| self.tokens.iter().any(|token| is_word(&token.token, word));
        Reads { found: mentions("found"), row_count: mentions("row_count") }
    }

    /// The line of the next token, counted from the first line of the body.
    pub fn line(&self) -> u64 {
        let token = self.tokens.get(self.at).or(self.tokens.last());
        token.map_or(1, |token| token.span.start.line)
    }

    pub fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    pub fn peek_at(&self, offset: usize) -> &Token {
        let token = self.tokens.get(self.at + offset);
        token.map_or(&Token::EOF, |token| &token.token)
    }

    pub fn at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    pub fn advance(&mut self) {
        self.at += 1;
    }

    pub fn next_is(&self, token: &Token) -> bool {
        self.peek() == token
    }

    /// Step over `token` if it is next.
    pub fn take(&mut self, token: &Token) -> bool {
        let found = self.next_is(token);
        self.at += usize::from(found);
        found
    }

    pub fn expect(&mut self, token: &Token) -> Result<()> {
        if self.take(token) { Ok(()) } else { Err(self.unexpected()) }
    }

    pub fn next_is_word(&self, word: &str) -> bool {
        is_word(self.peek(), word)
    }

    /// Step over the unquoted `word` if it is next.
    pub fn take_word(&mut self, word: &str) -> bool {
        let found = self.next_is_word(word);
        self.at += usize::from(found);
        found
    }

    pub fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.unexpected()) }
    }

    pub fn expect_semicolon(&mut self) -> Result<()> {
        self.expect(&Token::SemiColon)
    }

    pub fn name(&mut self) -> Result<String> {
        match self.peek() {
            Token::Word(word) => {
                let name = folded(word);
                self.advance();
                Ok(name)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// `name` or `name.name…`.
    pub fn path(&mut self) -> Result<Vec<String>> {
        let mut path = vec![self.name()?];
        while self.take(&Token::Period) {
            path.push(self.name()?);
        }
        Ok(path)
    }

    pub fn take_range(&mut self) -> bool {
        let found = is_range(self.peek());
        self.at += usize::from(found);
        found
    }

    /// How many tokens lie before the first one that `stop` accepts, outside parentheses and CASE.
    pub fn distance(&self, stop: impl Fn(&Token) -> bool) -> Option<usize> {
        let mut depth = 0_u32;
        for (offset, token) in self.tokens[self.at.min(self.tokens.len())..].iter().enumerate() {
            let token = &token.token;
            if depth == 0 && stop(token) {
                return Some(offset);
            }
            match token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
                Token::Word(_) if is_word(token, "case") => depth += 1,
                Token::Word(_) if is_word(token, "end") => depth = depth.saturating_sub(1),
                Token::SemiColon => return None,
                _ => {}
            }
        }
        None
    }

    /// Cut out what lies before the first token that `stop` accepts; that token is next.
    pub fn until(&mut self, stop: impl Fn(&Token) -> bool) -> Result<Tokens<'a>> {
        let Some(length) = self.distance(&stop) else {
            let end = self.distance(|token| *token == Token::SemiColon);
            self.at += end.unwrap_or(self.tokens.len() - self.at.min(self.tokens.len()));
            return Err(self.unexpected());
        };
        let tokens = self.tokens[self.at..self.at + length].to_vec();
        self.at += length;
        if tokens.is_empty() {
            return Err(self.unexpected());
        }
        Ok(Tokens { tokens, at: 0, path: self.path })
    }

    pub fn until_word(&mut self, word: &str) -> Result<Tokens<'a>> {
        self.until(|token| is_word(token, word))
    }

    /// Cut out what is left before the end of the statement, and step over the semicolon.
    pub fn until_semicolon(&mut self) -> Result<Tokens<'a>> {
        let tokens = self.until(|token| *token == Token::SemiColon)?;
        self.advance();
        Ok(tokens)
    }

    /// Remove the next `length` tokens.
    pub fn remove(&mut self, length: usize) -> Tokens<'a> {
        let tokens = self.tokens.drain(self.at..self.at + length).collect();
        Tokens { tokens, at: 0, path: self.path }
    }

    pub fn prepend_word(&mut self, word: &str) {
        let span = self.tokens.first().map_or(Span::empty(), |token| token.span);
        let token = Token::make_word(word, None);
        self.tokens.insert(0, TokenWithSpan::new(token, span));
    }

    pub fn rewind(&mut self) {
        self.at = 0;
    }

    pub fn skip(&mut self, tokens: usize) {
        self.at += tokens;
    }

    /// Parse all that is left as one expression.
    pub fn expression(self) -> Result<Expr> {
        self.parse(|parser| parser.parse_expr().map(Box::new))
    }

    pub fn data_type(self) -> Result<ast::DataType> {
        let (path, catalog) = self.path;
        let mut data_type = self.parse(|parser| parser.parse_data_type())?;
        path.resolve_type(catalog, &mut data_type);
        Ok(data_type)
    }

    pub fn statement(mut self) -> Result<ast::Statement> {
        let mut tokens = self.tokens.split_off(self.at.min(self.tokens.len()));
        assign_whole(&mut tokens);
        self.tokens.append(&mut tokens);
        self.parse(|parser| parser.parse_statement())
    }

    pub fn query(self) -> Result<Box<ast::Query>> {
        self.parse(|parser| parser.parse_query())
    }

    /// Expressions between commas.
    pub fn expressions(self) -> Result<Vec<Expr>> {
        let one = |parser: &mut Parser<'_>| parser.parse_expr().map(Box::new);
        self.parse(|parser| parser.parse_comma_separated(one))
    }

    fn parse<T: Tree>(
        self,
        parse: impl FnOnce(&mut Parser<'_>) -> Result<T, ParserError>,
    ) -> Result<T> {
        let line = self.line();
        if let Some(token) = self.tokens[self.at..].iter().find(|token| is_range(&token.token)) {
            return Err(syntax_error_near(&token.token, line));
        }
        let dialect = Ledger::for_tokens(self.tokens.len() - self.at.min(self.tokens.len()));
        let mut parser = Parser::new(&dialect)
            .with_recursion_limit(NESTING_MAX)
            .with_tokens_with_locations(self.tokens[self.at..].to_vec());
        check_tokens(&self.tokens[self.at..])?;
        let mut parsed = parse(&mut parser).map_err(|error| not_sql(error, line))?;
        normalize(&mut parsed)?;
        let (path, catalog) = self.path;
        path.resolve_part(catalog, &mut parsed)?;
        match parser.peek_token().token {
            Token::EOF => Ok(parsed),
            token => Err(syntax_error_near(&token, line)),
        }
    }

    pub fn unexpected(&self) -> Error {
        syntax_error_near(self.peek(), self.line())
    }
}

pub fn syntax_error_near(token: &Token, line: u64) -> Error {
    let message = match token {
        Token::EOF => "syntax error at end of input".to_string(),
        token => format!("syntax error at or near \"{token}\""),
    };
    at_line(Error::new(SqlState::SYNTAX_ERROR, message), line)
}

/// Say where in the body an error lies, unless it has other things to say.
pub fn at_line(error: Error, line: u64) -> Error {
    if error.fields().detail.is_some() {
        return error;
    }
    error.with_detail(format!("In line {line} of the body."))
}

fn not_sql(error: ParserError, line: u64) -> Error {
    let error = match error {
        ParserError::RecursionLimitExceeded => {
            Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "the expression is nested too deeply")
        }
        ParserError::ParserError(text) | ParserError::TokenizerError(text) => {
            // The parser counts lines of the stretch as those of the body: its own words do.
            Error::new(SqlState::SYNTAX_ERROR, format!("syntax error: {text}"))
        }
    };
    at_line(error, line)
}

pub fn is_word(token: &Token, expected: &str) -> bool {
    matches!(token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected))
}

pub fn is_range(token: &Token) -> bool {
    matches!(token, Token::CustomBinaryOperator(operator) if operator == RANGE)
}

pub fn folded(word: &Word) -> String {
    match word.quote_style {
        Some(_) => word.value.clone(),
        None => word.value.to_ascii_lowercase(),
    }
}

/// `$1` is the parameter's variable under another name.
fn without_placeholder(token: TokenWithSpan, parameters: &[String]) -> Result<TokenWithSpan> {
    let Token::Placeholder(placeholder) = &token.token else {
        return Ok(token);
    };
    let number = placeholder.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
    let name = number.and_then(|number| parameters.get(number.checked_sub(1)?));
    let Some(name) = name else {
        let message = format!("there is no parameter {placeholder}");
        let error = Error::new(SqlState::UNDEFINED_PARAMETER, message);
        return Err(at_line(error, token.span.start.line));
    };
    let word = Word { value: name.clone(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
    Ok(TokenWithSpan::new(Token::Word(word), token.span))
}

/// SQL's tokenizer reads `1..n` as `1.` `.` `n` and `1..5` as `1.` `.5`: put `..` in where it was
/// meant.
fn with_ranges(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut result: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let before = match &token.token {
            Token::Period => Some(None),
            Token::Number(digits, _) => {
                digits.strip_suffix('.').map(|digits| Some(digits.to_string()))
            }
            _ => None,
        };
        let after = match tokens.peek().map(|next| &next.token) {
            Some(Token::Period) => Some(None),
            Some(Token::Number(digits, _)) => {
                digits.strip_prefix('.').map(|digits| Some(digits.to_string()))
            }
            _ => None,
        };
        let (Some(before), Some(after)) = (before, after) else {
            result.push(token);
            continue;
        };
        let span = token.span;
        let number = |digits| TokenWithSpan::new(Token::Number(digits, false), span);
        result.extend(before.map(number));
        let range = Token::CustomBinaryOperator(RANGE.to_string());
        result.push(TokenWithSpan::new(range, span));
        result.extend(after.map(number));
        tokens.next();
    }
    result
}
