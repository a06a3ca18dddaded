//! AS OF: the block that a statement reads instead of the newest.
//!
//! ```sql
//! SELECT * FROM accounts AS OF BLOCK 1200 WHERE id = 7;
//! SELECT * FROM accounts a AS OF TIMESTAMP '2026-03-01 12:00+00' JOIN owners o ON …;
//! SELECT * FROM accounts FOR SYSTEM_TIME AS OF TIMESTAMP '2026-03-01 12:00+00';
//! BEGIN READ ONLY AS OF BLOCK 1200;
//! ```
//!
//! A statement reads one snapshot, so the clause is the statement's, wherever in it it stands:
//! tables without one are read at the same block, and two clauses must say the same. It is taken
//! out of the tokens before the parser sees them, since the grammar knows some of it for single
//! tables only.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use types::datetime::read_timestamptz;
use types::{Error, Height, Result, SqlState};

/// Where in the ledger's history a statement reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsOf {
    Block(Height),
    /// The newest block at or before so many microseconds since 2000.
    Time(i64),
}

/// Takes the clauses out of one statement's tokens.
pub(crate) fn take(tokens: &[TokenWithSpan]) -> Result<(Vec<TokenWithSpan>, Option<AsOf>)> {
    let (mut rest, mut found) = (Vec::with_capacity(tokens.len()), None);
    let mut at = 0;
    while at < tokens.len() {
        let Some((length, as_of)) = clause(&tokens[at..])? else {
            rest.push(tokens[at].clone());
            at += 1;
            continue;
        };
        if found.is_some_and(|other| other != as_of) {
            return Err(Error::unsupported("a statement that reads two blocks").with_hint(
                "Every AS OF in a statement must name the same block; run a statement for each.",
            ));
        }
        found = Some(as_of);
        at += length;
    }
    Ok((rest, found))
}

/// The clause that `tokens` begin with, if any, and how many of them it is.
fn clause(tokens: &[TokenWithSpan]) -> Result<Option<(usize, AsOf)>> {
    let token = |at: usize| tokens.get(at).map(|token| &token.token);
    let is = |at: usize, keyword: Keyword| {
        matches!(token(at), Some(Token::Word(word))
            if word.keyword == keyword && word.quote_style.is_none())
    };
    let is_period = is(0, Keyword::FOR) && is(1, Keyword::SYSTEM_TIME);
    let at = if is_period { 2 } else { 0 };
    if !(is(at, Keyword::AS) && is(at + 1, Keyword::OF)) {
        return Ok(None);
    }
    Ok(if is(at + 2, Keyword::BLOCK) {
        Some((at + 4, block(token(at + 3))?))
    } else if is(at + 2, Keyword::TIMESTAMP) {
        Some((at + 4, time(token(at + 3))?))
    } else if is(at + 2, Keyword::SYSTEM) && is(at + 3, Keyword::TIME) {
        Some((at + 5, time(token(at + 4))?))
    } else if is_period {
        Some((at + 3, time(token(at + 2))?))
    } else {
        None
    })
}

fn block(token: Option<&Token>) -> Result<AsOf> {
    match token {
        Some(Token::Number(digits, _)) => digits
            .parse()
            .map(AsOf::Block)
            .map_err(|_| wanted("AS OF BLOCK needs a block's number")),
        _ => Err(wanted("AS OF BLOCK needs a block's number")),
    }
}

fn time(token: Option<&Token>) -> Result<AsOf> {
    match token {
        Some(Token::SingleQuotedString(text)) => read_timestamptz(text).map(AsOf::Time),
        _ => Err(wanted("AS OF TIMESTAMP needs a time in quotes")),
    }
}

fn wanted(what: &str) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, what).with_hint(
        "It is no place for a parameter or an expression: SET tally.as_of_block takes a value \
         for the statements that follow.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse::parse;

    fn as_of(sql: &str) -> Option<AsOf> {
        parse(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).remove(0).as_of
    }

    #[test]
    fn the_clause_may_stand_wherever_a_table_does() {
        let at = |block| Some(AsOf::Block(block));
        for (sql, expected) in [
            ("SELECT * FROM t", None),
            ("SELECT * FROM t AS OF BLOCK 12", at(12)),
            ("SELECT * FROM t AS OF BLOCK 12 WHERE a = 1 ORDER BY a", at(12)),
            ("select * from t as /* x */ of\nblock 0", at(0)),
            ("SELECT * FROM t x AS OF BLOCK 5 JOIN u AS OF BLOCK 5 ON x.a = u.a", at(5)),
            ("SELECT (SELECT max(a) FROM t AS OF BLOCK 3)", at(3)),
            (
                "SELECT * FROM t AS OF TIMESTAMP '2000-01-01 00:00:01+00'",
                Some(AsOf::Time(1_000_000)),
            ),
            (
                "SELECT * FROM t AS OF SYSTEM TIME '2000-01-01 00:00:01+00'",
                Some(AsOf::Time(1_000_000)),
            ),
            (
                "SELECT * FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '2000-01-01 00:00:00.5+00' x",
                Some(AsOf::Time(500_000)),
            ),
            ("BEGIN READ ONLY AS OF BLOCK 7", at(7)),
            ("COPY (SELECT * FROM t AS OF BLOCK 7) TO STDOUT", at(7)),
            ("SELECT 'AS OF BLOCK 3', a AS of, b AS block FROM t", None),
        ] {
            assert_eq!(as_of(sql), expected, "{sql}");
        }
    }

    #[test]
    fn a_clause_that_says_too_little_or_too_much_is_refused() {
        for (sql, code) in [
            ("SELECT * FROM t AS OF BLOCK", SqlState::SYNTAX_ERROR),
            ("SELECT * FROM t AS OF BLOCK $1", SqlState::SYNTAX_ERROR),
            ("SELECT * FROM t AS OF BLOCK -1", SqlState::SYNTAX_ERROR),
            ("SELECT * FROM t AS OF BLOCK 1.5", SqlState::SYNTAX_ERROR),
            ("SELECT * FROM t AS OF TIMESTAMP now()", SqlState::SYNTAX_ERROR),
            ("SELECT * FROM t AS OF TIMESTAMP 'soon'", SqlState::INVALID_DATETIME_FORMAT),
            ("SELECT * FROM t AS OF BLOCK 1, u AS OF BLOCK 2", SqlState::FEATURE_NOT_SUPPORTED),
        ] {
            let error = parse(sql).unwrap_err();
            assert_eq!(error.code(), code, "{sql}: {error}");
        }
    }

    #[test]
    fn its_number_is_not_lifted_out() {
        assert_eq!(
            crate::syntax::normalise::normalise("SELECT * FROM t AS OF BLOCK 12 WHERE a = 3"),
            None
        );
    }
}
