//! Where in a client's text an error lies.
//!
//! The grammar keeps the line and the column of names and values; clients count characters, from
//! the beginning of all that they sent, and show a caret there. A statement knows where it stands
//! in its text, so a line and a column become a place only once there is an error to tell of.
//!
//! Nothing of this is recorded: the ledger holds an error's code and words.

use sqlparser::tokenizer::{Location, Span};
use types::Error;

/// Where a statement's text begins in what the client sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Start {
    pub location: Location,
    /// Characters before it.
    pub characters: u32,
}

/// A statement's text, by which its places are found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub text: &'a str,
    pub start: Start,
}

impl Source<'_> {
    /// The error with its place, unless it has one already.
    pub fn locate(&self, error: Error, span: Span) -> Error {
        self.set(error, || self.characters(span.start))
    }

    /// The error at the first sign after `span`: an operator, whose own place is not kept.
    pub fn locate_behind(&self, error: Error, span: Span) -> Error {
        self.set(error, || {
            let end = self.characters(span.end)?;
            let rest = self.text.chars().skip(end);
            Some(end + rest.take_while(|c| c.is_whitespace() || *c == ')').count())
        })
    }

    fn set(&self, error: Error, place: impl FnOnce() -> Option<usize>) -> Error {
        if error.fields().position.is_some() {
            return error;
        }
        let place = place().and_then(|characters| u32::try_from(characters + 1).ok());
        match place {
            Some(place) => error.with_position(self.start.characters.saturating_add(place)),
            None => error,
        }
    }

    /// Characters of the text before a location; `None` for one that is nowhere in it.
    fn characters(&self, location: Location) -> Option<usize> {
        let Location { mut line, mut column } = self.start.location;
        if (location.line, location.column) < (line, column) {
            return None;
        }
        let before = self.text.chars().take_while(|c| {
            let is_before = (line, column) < (location.line, location.column);
            (line, column) = if *c == '\n' { (line + 1, 1) } else { (line, column + 1) };
            is_before
        });
        let characters = before.count();
        ((line, column) >= (location.line, location.column)).then_some(characters)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Catalog, bind, parse};

    /// The place of the error of the last statement, and what stands there.
    fn found(sql: &str) -> Option<String> {
        let parsed = parse(sql).unwrap().pop().unwrap();
        let error = bind(&catalog(), &parsed, &[]).unwrap_err();
        let place = error.fields().position? as usize - 1;
        Some(sql.chars().skip(place).take_while(|c| !c.is_whitespace()).collect())
    }

    fn catalog() -> Catalog {
        let text = "CREATE TABLE t (a int PRIMARY KEY, v text)";
        let parsed = parse(text).unwrap().remove(0);
        match bind(&Catalog::genesis(), &parsed, &[]).unwrap().statement {
            crate::Statement::Ddl(ddl) => Catalog::genesis().apply(&ddl).unwrap().0,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn errors_of_names_and_types_have_a_place() {
        for (sql, place) in [
            ("SELECT a, nope FROM t", "nope"),
            ("SELECT 'é';\n SELECT 'ü', t.nope FROM t", "t.nope"),
            ("SELECT a\n  FROM nope", "nope"),
            ("SELECT 1 WHERE nope(1)", "nope(1)"),
            ("SELECT a FROM t WHERE (a = 1) + 'x'::text", "+"),
            ("SELECT a FROM t WHERE v = 1", "="),
            ("SELECT 1, 'x'::int", "'x'::int"),
            ("SELECT a FROM t ORDER BY nope", "nope"),
            ("INSERT INTO nope VALUES (1)", "nope"),
            ("INSERT INTO t (a, nope) VALUES (1, 2)", "nope)"),
            ("INSERT INTO t VALUES (1, 'a'), ('x', 'b')", "'x',"),
            ("UPDATE t SET nope = 1", "nope"),
            ("UPDATE t SET a = 'x'", "'x'"),
            ("DELETE FROM t WHERE\n nope = 1", "nope"),
            ("SELECT (SELECT nope FROM t)", "nope"),
        ] {
            assert_eq!(found(sql).as_deref(), Some(place), "{sql}");
        }
    }

    /// Its text is not what the client sent.
    #[test]
    fn what_is_wrong_with_a_view_has_no_place() {
        let mut catalog = catalog();
        for text in ["CREATE VIEW w AS SELECT v FROM t", "CREATE VIEW x AS SELECT v FROM w"] {
            let parsed = parse(text).unwrap().remove(0);
            match bind(&catalog, &parsed, &[]).unwrap().statement {
                crate::Statement::Ddl(ddl) => catalog = catalog.apply(&ddl).unwrap().0,
                other => panic!("{other:?}"),
            }
        }
        let parsed = parse("SELECT nope FROM x").unwrap().remove(0);
        assert_eq!(bind(&catalog, &parsed, &[]).unwrap_err().fields().position, Some(8));
    }
}
