//! Syntax errors as PostgreSQL words them, and the place in the text that they name.

use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Location, TokenWithSpan};
use types::{Error, SqlState};

use crate::syntax::depth;

pub(crate) fn unexpected(sql: &str, token: &TokenWithSpan) -> Error {
    let message = format!("syntax error at or near \"{}\"", token.token);
    syntax_error(sql, &message, Some(token.span.start))
}

pub(crate) fn parser_error(sql: &str, error: ParserError) -> Error {
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
        // Our own, which say it as PostgreSQL does.
        None if message.starts_with(char::is_lowercase) => message.to_owned(),
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

pub(crate) fn syntax_error(sql: &str, message: &str, location: Option<Location>) -> Error {
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
pub(crate) struct Place<'s> {
    sql: &'s str,
    rest: std::str::Chars<'s>,
    line: u64,
    column: u64,
    pub characters: u32,
}

impl<'s> Place<'s> {
    pub fn start_of(sql: &'s str) -> Self {
        Place { sql, rest: sql.chars(), line: 1, column: 1, characters: 0 }
    }

    /// Moves on to `location`; its byte offset.
    pub fn offset(&mut self, location: Location) -> usize {
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
