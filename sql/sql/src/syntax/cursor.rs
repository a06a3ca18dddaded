//! The grammar of cursors: DECLARE, FETCH, MOVE and CLOSE.
//!
//! ```text
//! DECLARE name { BINARY | [NO] SCROLL | ASENSITIVE | INSENSITIVE }* CURSOR
//!     [ { WITH | WITHOUT } HOLD ] FOR query
//! { FETCH | MOVE } [ direction ] [ FROM | IN ] name
//! CLOSE { name | ALL }
//! ```
//!
//! sqlparser knows some of it, but neither options in any order nor a direction without FROM.
//! What stands after FOR is a statement by itself, with a text of its own.

use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use types::{Error, Result, SqlState};

use crate::syntax::errors::{Place, syntax_error};
use crate::syntax::parsed::{ALL, Body, Cover, Declaration, Direction, Parsed};
use crate::syntax::place::Start;

/// A statement about cursors, as its own words say it.
enum CursorSyntax {
    /// The query begins with token `query`.
    Declare {
        declaration: Declaration,
        query: usize,
    },
    Fetch {
        name: String,
        direction: Direction,
        moves: bool,
    },
    /// `None`: ALL.
    Close(Option<String>),
}

/// Parses the tokens of one statement of a text.
type Parse = fn(&str, &[TokenWithSpan]) -> Result<Body>;

/// Reads a statement that begins with one of the four words; `None`: it is another statement.
///
/// `parse` is the parser of statements, for the one after FOR.
pub(crate) fn read(sql: &str, tokens: &[TokenWithSpan], parse: Parse) -> Option<Result<Body>> {
    let read = syntax(tokens)?.and_then(|read| body_of(sql, tokens, read, parse));
    Some(read.map_err(|fault| error_of(sql, tokens, fault)))
}

fn syntax(tokens: &[TokenWithSpan]) -> Option<Read<CursorSyntax>> {
    let mut reader = Reader { tokens, at: 1 };
    let first = word(tokens.first()?)?;
    let is = |what: &str| first.eq_ignore_ascii_case(what);
    Some(match () {
        () if is("declare") => reader.declare(),
        () if is("fetch") => reader.fetch(false),
        () if is("move") => reader.fetch(true),
        () if is("close") => reader.close(),
        () => return None,
    })
}

/// What stops the reading.
enum Fault {
    /// At this token; after the last one the text ends too early.
    Syntax(usize),
    Refused(Error),
}

type Read<T> = std::result::Result<T, Fault>;

struct Reader<'a> {
    tokens: &'a [TokenWithSpan],
    at: usize,
}

/// A word that is not quoted.
fn word(token: &TokenWithSpan) -> Option<&str> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(&word.value),
        _ => None,
    }
}

impl Reader<'_> {
    fn is(&self, what: &str) -> bool {
        let token = self.tokens.get(self.at).and_then(word);
        token.is_some_and(|token| token.eq_ignore_ascii_case(what))
    }

    fn take(&mut self, what: &str) -> bool {
        let is = self.is(what);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, what: &str) -> Read<()> {
        match self.take(what) {
            true => Ok(()),
            false => Err(Fault::Syntax(self.at)),
        }
    }

    fn name(&mut self) -> Read<String> {
        match self.tokens.get(self.at).map(|token| &token.token) {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(match word.quote_style {
                    Some(_) => word.value.clone(),
                    None => word.value.to_lowercase(),
                })
            }
            _ => Err(Fault::Syntax(self.at)),
        }
    }

    fn end<T>(&self, read: T) -> Read<T> {
        match self.at == self.tokens.len() {
            true => Ok(read),
            false => Err(Fault::Syntax(self.at)),
        }
    }

    /// A number as PostgreSQL's grammar has it here, with its sign, if there is one.
    fn number(&mut self) -> Read<Option<i64>> {
        let start = self.at;
        let sign = match self.tokens.get(self.at).map(|token| &token.token) {
            Some(Token::Minus) => -1,
            Some(Token::Plus) => 1,
            _ => 0,
        };
        self.at += usize::from(sign != 0);
        let number = match self.tokens.get(self.at).map(|token| &token.token) {
            Some(Token::Number(digits, _)) => digits.parse::<i32>().ok(),
            _ if sign == 0 => return Ok(None),
            _ => None,
        };
        let number = number.ok_or(Fault::Syntax(start))?;
        self.at += 1;
        Ok(Some(i64::from(number) * if sign == 0 { 1 } else { sign }))
    }

    fn declare(&mut self) -> Read<CursorSyntax> {
        let name = self.name()?;
        let (mut binary, mut scroll, mut sensitive) = (false, None, None);
        loop {
            let option = self.at;
            if self.take("binary") {
                binary = true;
            } else if self.take("scroll") {
                set(&mut scroll, true, "SCROLL and NO SCROLL")?;
            } else if self.take("no") {
                self.expect("scroll")?;
                set(&mut scroll, false, "SCROLL and NO SCROLL")?;
            } else if self.take("asensitive") {
                set(&mut sensitive, true, "INSENSITIVE and ASENSITIVE")?;
            } else if self.take("insensitive") {
                set(&mut sensitive, false, "INSENSITIVE and ASENSITIVE")?;
            }
            if self.at == option {
                break;
            }
        }
        self.expect("cursor")?;
        let hold = self.take("with");
        if hold || self.take("without") {
            self.expect("hold")?;
        }
        self.expect("for")?;
        let declaration = Declaration { name, scroll, hold, binary };
        Ok(CursorSyntax::Declare { declaration, query: self.at })
    }

    fn fetch(&mut self, moves: bool) -> Read<CursorSyntax> {
        let alone = self.at + 1 == self.tokens.len();
        let direction = if alone { Direction::Forward(1) } else { self.direction()? };
        let _ = self.take("from") || self.take("in");
        let name = self.name()?;
        self.end(CursorSyntax::Fetch { name, direction, moves })
    }

    fn direction(&mut self) -> Read<Direction> {
        if let Some(count) = self.number()? {
            return Ok(forward(count));
        }
        let start = self.at;
        self.at += 1;
        let word = self.tokens.get(start).and_then(word).unwrap_or_default().to_lowercase();
        Ok(match word.as_str() {
            "next" => Direction::Forward(1),
            "prior" => Direction::Backward(1),
            "first" => Direction::Absolute(1),
            "last" => Direction::Absolute(-1),
            "all" => Direction::Forward(ALL),
            "absolute" => Direction::Absolute(self.number()?.ok_or(Fault::Syntax(self.at))?),
            "relative" => match self.number()?.ok_or(Fault::Syntax(self.at))? {
                0 => Direction::Forward(0),
                count => Direction::Relative(count),
            },
            "forward" if self.take("all") => Direction::Forward(ALL),
            "backward" if self.take("all") => Direction::Backward(ALL),
            "forward" => forward(self.number()?.unwrap_or(1)),
            "backward" => forward(-self.number()?.unwrap_or(1)),
            _ => {
                self.at = start;
                Direction::Forward(1)
            }
        })
    }

    fn close(&mut self) -> Read<CursorSyntax> {
        let all = self.is("all") && self.at + 1 == self.tokens.len();
        let name = self.name()?;
        self.end(CursorSyntax::Close((!all).then_some(name)))
    }
}

fn forward(count: i64) -> Direction {
    match count < 0 {
        true => Direction::Backward(count.unsigned_abs()),
        false => Direction::Forward(count.unsigned_abs()),
    }
}

fn set(option: &mut Option<bool>, value: bool, both: &str) -> Read<()> {
    if option.is_some_and(|other| other != value) {
        return Err(invalid(&format!("cannot specify both {both}")));
    }
    *option = Some(value);
    Ok(())
}

fn invalid(message: &str) -> Fault {
    Fault::Refused(Error::new(SqlState::INVALID_CURSOR_DEFINITION, message))
}

/// A statement about cursors; the query of DECLARE is one by itself.
fn body_of(sql: &str, tokens: &[TokenWithSpan], read: CursorSyntax, parse: Parse) -> Read<Body> {
    let (declaration, at) = match read {
        CursorSyntax::Declare { declaration, query } => (declaration, query),
        CursorSyntax::Fetch { name, direction, moves } => {
            return Ok(Body::Fetch { name, direction, moves });
        }
        CursorSyntax::Close(name) => return Ok(Body::CloseCursor(name)),
    };
    let (Some(first), Some(last)) = (tokens.get(at), tokens.last()) else {
        return Err(Fault::Syntax(at));
    };
    let begins_query = match &first.token {
        Token::LParen => true,
        Token::Word(word) => {
            matches!(word.keyword, Keyword::SELECT | Keyword::VALUES | Keyword::WITH)
        }
        _ => false,
    };
    if !begins_query {
        return Err(Fault::Syntax(at));
    }
    let body = parse(sql, &tokens[at..]).map_err(Fault::Refused)?;
    match &body {
        Body::Statement(statement) => match &**statement {
            ast::Statement::Query(query) if !writes(&query.body) => {
                check_query(&declaration, query).map_err(Fault::Refused)?;
            }
            _ => return Err(Fault::Syntax(at)),
        },
        _ => return Err(Fault::Syntax(at)),
    }
    let (mut place, location) = (Place::start_of(sql), first.span.start);
    let begin = place.offset(location);
    let start = Some(Start { location, characters: place.characters });
    let text = sql[begin..place.offset(last.span.end)].to_owned();
    let (cover, as_of) = (Cover::default(), None);
    let has_path = false;
    let query = Parsed { text, body, placeholders: 0, as_of, cover, has_path, start };
    let query = Box::new(query);
    Ok(Body::Declare { declaration, query })
}

fn error_of(sql: &str, tokens: &[TokenWithSpan], fault: Fault) -> Error {
    match fault {
        Fault::Refused(error) => error,
        Fault::Syntax(at) => match tokens.get(at) {
            Some(TokenWithSpan { token, span }) => {
                let message = format!("syntax error at or near \"{token}\"");
                syntax_error(sql, &message, Some(span.start))
            }
            None => syntax_error(
                sql,
                "syntax error at end of input",
                tokens.last().map(|token| token.span.end),
            ),
        },
    }
}

/// # Errors
/// What PostgreSQL says of a query that no cursor of this kind can be over.
fn check_query(declaration: &Declaration, query: &ast::Query) -> Result<()> {
    let tables = query.with.iter().flat_map(|with| &with.cte_tables);
    if tables.map(|table| &*table.query.body).any(writes) {
        let what = "DECLARE CURSOR must not contain data-modifying statements in WITH";
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
    }
    let Some(lock) = query.locks.first() else { return Ok(()) };
    let lock = match lock.lock_type {
        ast::LockType::Share => "FOR SHARE",
        ast::LockType::Update => "FOR UPDATE",
    };
    let (what, detail) = match declaration {
        Declaration { hold: true, .. } => {
            (format!("DECLARE CURSOR WITH HOLD ... {lock}"), "Holdable cursors must be READ ONLY.")
        }
        Declaration { scroll: Some(true), .. } => {
            (format!("DECLARE SCROLL CURSOR ... {lock}"), "Scrollable cursors must be READ ONLY.")
        }
        _ => return Ok(()),
    };
    let message = format!("{what} is not supported");
    Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_detail(detail))
}

/// Whether it is no query.
fn writes(body: &ast::SetExpr) -> bool {
    use ast::SetExpr as S;
    matches!(body, S::Insert(_) | S::Update(_) | S::Delete(_) | S::Merge(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse::parse;

    fn direction(text: &str) -> (Direction, String) {
        let [fetched, moved] =
            [("FETCH", false), ("MOVE", true)].map(|(word, moving)| {
                match &parse(&format!("{word} {text}")).unwrap()[0].body {
                    Body::Fetch { name, direction, moves } if *moves == moving => {
                        (*direction, name.clone())
                    }
                    other => panic!("{text}: {other:?}"),
                }
            });
        assert_eq!(fetched, moved);
        fetched
    }

    #[test]
    fn every_direction_is_read() {
        use Direction::{Absolute, Backward, Forward, Relative};
        for (text, expected) in [
            ("c", Forward(1)),
            ("from c", Forward(1)),
            ("IN c", Forward(1)),
            ("next c", Forward(1)),
            ("NEXT FROM c", Forward(1)),
            ("PRIOR IN c", Backward(1)),
            ("FIRST c", Absolute(1)),
            ("LAST FROM c", Absolute(-1)),
            ("ABSOLUTE -3 c", Absolute(-3)),
            ("ABSOLUTE 0 FROM c", Absolute(0)),
            ("RELATIVE 2 c", Relative(2)),
            ("RELATIVE 0 c", Forward(0)),
            ("RELATIVE - 2 c", Relative(-2)),
            ("5 c", Forward(5)),
            ("+5 IN c", Forward(5)),
            ("-5 c", Backward(5)),
            ("0 c", Forward(0)),
            ("ALL c", Forward(ALL)),
            ("FORWARD c", Forward(1)),
            ("FORWARD 7 c", Forward(7)),
            ("FORWARD -7 c", Backward(7)),
            ("FORWARD ALL FROM c", Forward(ALL)),
            ("BACKWARD c", Backward(1)),
            ("BACKWARD 7 c", Backward(7)),
            ("BACKWARD -7 c", Forward(7)),
            ("BACKWARD ALL c", Backward(ALL)),
        ] {
            assert_eq!(direction(text), (expected, "c".to_owned()), "{text}");
        }
        assert_eq!(direction("NEXT FROM \"A b\"").1, "A b");
        assert_eq!(direction("next"), (Forward(1), "next".to_owned()));
        for text in ["FETCH", "FETCH 1 2 c", "FETCH ABSOLUTE c", "MOVE 1.5 c", "FETCH c d"] {
            assert_eq!(parse(text).unwrap_err().code(), SqlState::SYNTAX_ERROR, "{text}");
        }
        assert_eq!(parse("FETCH 9999999999 c").unwrap_err().fields().position, Some(7));
    }

    #[test]
    fn declarations_have_their_options_in_any_order() {
        let read = |text: &str| match parse(text).map(|mut parsed| parsed.remove(0).body) {
            Ok(Body::Declare { declaration, query }) => Ok((declaration, query.text.clone())),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err((error.code().to_string(), error.fields().position)),
        };
        let text = "DECLARE \"C\" NO SCROLL BINARY INSENSITIVE CURSOR WITH HOLD FOR VALUES (1)";
        let (declaration, query) = read(text).unwrap();
        let expected =
            Declaration { name: "C".into(), scroll: Some(false), hold: true, binary: true };
        assert_eq!((declaration, query.as_str()), (expected, "VALUES (1)"));
        let (declaration, _) = read("DECLARE c CURSOR WITHOUT HOLD FOR SELECT 1").unwrap();
        let plain = Declaration { name: "c".into(), scroll: None, hold: false, binary: false };
        assert_eq!(declaration, plain);
        for (text, code) in [
            ("DECLARE c SCROLL NO SCROLL CURSOR FOR SELECT 1", "42P11"),
            ("DECLARE c ASENSITIVE INSENSITIVE CURSOR FOR SELECT 1", "42P11"),
            ("DECLARE c CURSOR FOR INSERT INTO t VALUES (1)", "42601"),
            ("DECLARE c CURSOR FOR WITH a AS (SELECT 1) INSERT INTO t SELECT 1", "42601"),
            ("DECLARE c CURSOR FOR", "42601"),
            ("DECLARE c CURSOR", "42601"),
            ("DECLARE c CURSOR WITH HOLD FOR SELECT a FROM t FOR UPDATE", "0A000"),
            ("DECLARE c SCROLL CURSOR FOR SELECT a FROM t FOR SHARE", "0A000"),
        ] {
            assert_eq!(read(text).unwrap_err().0, code, "{text}");
        }
        let misplaced = read("SELECT 'é'; DECLARE c CURSOR HOLD").unwrap_err();
        assert_eq!(misplaced, ("42601".to_owned(), Some(30)));
    }
}
