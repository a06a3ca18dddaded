//! Tokens as sqlparser reads them, and short statements that it does not read.

use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::syntax::assigned;
use crate::syntax::collations;
use crate::syntax::ddl::{Ddl, Renamed};
use crate::syntax::sets;
use crate::syntax::tokens;
use crate::syntax::words::begins;

type Read<T> = Result<T, ParserError>;

/// Takes out or writes otherwise what the grammar does not know.
pub(crate) fn rewrite(statement: &mut Vec<TokenWithSpan>) {
    tokens::drop_deferrable(statement);
    tokens::bare_fetch(statement);
    tokens::drop_only(statement);
    tokens::plain_operators(statement);
    drop_concurrently(statement);
    drop_unlogged(statement);
    alter_as_table(statement);
    collations::collate_columns(statement);
    spell_table(statement);
    reset_zone(statement);
    list_queries(statement);
    sets::explain_query(statement);
    sets::wrap_sets(statement);
    frame_texts(statement);
    assigned::spell_arrays(statement);
    assigned::assign_whole(statement);
    let may_lock = statement
        .iter()
        .any(|it| matches!(&it.token, Token::Word(word) if word.keyword == Keyword::FOR));
    if may_lock {
        drop_key_locks(statement);
        put_locks_last(statement);
        drop_locks_of_nothing(statement);
    }
}

/// Nothing waits for an index to go, so CONCURRENTLY says nothing.
fn drop_concurrently(tokens: &mut Vec<TokenWithSpan>) {
    if begins(tokens, &["drop", "index", "concurrently"]) {
        tokens.remove(2);
    }
}

/// Every table is logged: UNLOGGED asks for less than there is.
fn drop_unlogged(tokens: &mut Vec<TokenWithSpan>) {
    if begins(tokens, &["create", "unlogged", "table"]) {
        tokens.remove(1);
    }
}

/// Materialized views are tables, which ALTER TABLE may name as well.
fn alter_as_table(tokens: &mut Vec<TokenWithSpan>) {
    if begins(tokens, &["alter", "materialized", "view"]) {
        tokens.remove(1);
        tokens[1].token = Token::make_keyword("TABLE");
    }
}

/// `TABLE t` is `SELECT * FROM t`, wherever a query may begin.
fn spell_table(tokens: &mut Vec<TokenWithSpan>) {
    let is_insert = begins(tokens, &["insert"]);
    let keyword = |token: &Token| match token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    // Elsewhere AS gives a name, and `table` may be one.
    let defines = begins(tokens, &["create"]) || begins(tokens, &["prepare"]);
    let body_as = tokens.iter().position(|it| keyword(&it.token) == Keyword::AS);
    let body_as = body_as.filter(|_| defines);
    let mut depth = 0usize;
    let mut spelt_at = Vec::new();
    for at in (0..tokens.len()).rev() {
        match &tokens[at].token {
            Token::RParen => depth += 1,
            Token::LParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        if keyword(&tokens[at].token) != Keyword::TABLE || at + 1 == tokens.len() {
            continue;
        }
        let before = at.checked_sub(1).map(|before| &tokens[before].token);
        let begins_query = match before {
            None | Some(Token::LParen) => true,
            Some(token) => {
                let follows = [
                    Keyword::UNION,
                    Keyword::EXCEPT,
                    Keyword::INTERSECT,
                    Keyword::ALL,
                    Keyword::DISTINCT,
                ];
                follows.contains(&keyword(token))
                    || is_insert && depth == 0 && keyword(token) != Keyword::AS
                    || body_as.is_some_and(|body| body + 1 == at)
            }
        };
        if begins_query {
            spelt_at.push(at);
        }
    }
    if spelt_at.is_empty() {
        return;
    }
    let mut all = Vec::with_capacity(tokens.len() + 2 * spelt_at.len());
    for (at, token) in std::mem::take(tokens).into_iter().enumerate() {
        if spelt_at.last() != Some(&at) {
            all.push(token);
            continue;
        }
        spelt_at.pop();
        let span = token.span;
        let spelt = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
        all.extend(spelt.map(|token| TokenWithSpan { token, span }));
    }
    *tokens = all;
}

/// `RESET TIME ZONE` is `RESET timezone`.
fn reset_zone(tokens: &mut Vec<TokenWithSpan>) {
    if begins(tokens, &["reset", "time", "zone"]) {
        tokens.remove(1);
        tokens[1].token = Token::make_word("timezone", None);
    }
}

/// `IN ((SELECT 1), 2)` is a list; the grammar takes what begins with a query for one, so that a
/// first element which is one stands in `coalesce`.
fn list_queries(tokens: &mut Vec<TokenWithSpan>) {
    let is = |token: &Token, keyword: Keyword| match token {
        Token::Word(word) => word.keyword == keyword,
        _ => false,
    };
    // By the places before which they stand.
    let mut added: Vec<(usize, Token)> = Vec::new();
    let mut at = 0;
    while at + 3 < tokens.len() {
        let is_list = is(&tokens[at].token, Keyword::IN)
            && tokens[at + 1].token == Token::LParen
            && tokens[at + 2].token == Token::LParen
            && is(&tokens[at + 3].token, Keyword::SELECT);
        at += 1;
        if !is_list {
            continue;
        }
        let Some(end) = tokens::closing(tokens, at + 1) else { continue };
        if tokens.get(end + 1).is_some_and(|next| next.token == Token::Comma) {
            added.push((at + 1, Token::make_word("coalesce", None)));
            added.push((at + 1, Token::LParen));
            added.push((end, Token::RParen));
        }
    }
    if added.is_empty() {
        return;
    }
    added.sort_by_key(|(place, _)| *place);
    let mut added = added.into_iter().peekable();
    let mut all = Vec::with_capacity(tokens.len() + added.len());
    for (place, token) in std::mem::take(tokens).into_iter().enumerate() {
        while let Some((_, added)) = added.next_if(|(before, _)| *before == place) {
            all.push(TokenWithSpan { token: added, span: token.span });
        }
        all.push(token);
    }
    *tokens = all;
}

/// `RANGE '1' PRECEDING` has a text of which what rows are ordered by says the type; the grammar
/// takes it for an interval's.
fn frame_texts(tokens: &mut Vec<TokenWithSpan>) {
    for at in (1..tokens.len().saturating_sub(1)).rev() {
        let is = |place: usize, words: &[&str]| {
            words.iter().any(|word| begins(&tokens[place..], std::slice::from_ref(word)))
        };
        if matches!(tokens[at].token, Token::SingleQuotedString(_))
            && is(at + 1, &["preceding", "following"])
            && is(at - 1, &["rows", "range", "groups", "between", "and"])
        {
            let (text, span) = (tokens[at].clone(), tokens[at].span);
            let parenthesis = |token: Token| TokenWithSpan { token, span };
            let spelt = [parenthesis(Token::LParen), text, parenthesis(Token::RParen)];
            tokens.splice(at..=at, spelt);
        }
    }
}

/// `FOR NO KEY UPDATE` and `FOR KEY SHARE` are weaker, which a lock of a whole row is not: it is
/// what comes nearest.
fn drop_key_locks(tokens: &mut Vec<TokenWithSpan>) {
    let weaker = |tokens: &[TokenWithSpan]| match tokens {
        _ if begins(tokens, &["for", "no", "key", "update"]) => 2,
        _ if begins(tokens, &["for", "key", "share"]) => 1,
        _ => 0,
    };
    let mut at = 0;
    while at < tokens.len() {
        let words = weaker(&tokens[at..]);
        tokens.drain(at + 1..at + 1 + words);
        at += 1;
    }
}

/// `SELECT 1 FOR UPDATE` reads no rows that it could lock.
fn drop_locks_of_nothing(tokens: &mut Vec<TokenWithSpan>) {
    let says = |word: &str| (0..tokens.len()).any(|at| begins(&tokens[at..], &[word]));
    let is_alone = says("select") && !["from", "values", "group"].into_iter().any(says);
    let end = tokens.len().saturating_sub(2);
    if is_alone && end > 0 && locks_at(&tokens[end..]) == 2 {
        tokens.truncate(end);
    }
}

/// `FOR UPDATE LIMIT 1` is `LIMIT 1 FOR UPDATE`: PostgreSQL takes the clauses in either order.
fn put_locks_last(tokens: &mut [TokenWithSpan]) {
    let mut at = 0;
    while at < tokens.len() {
        let locks = locks_at(&tokens[at..]);
        let is_early = |rest: &[TokenWithSpan]| {
            [["limit"], ["offset"], ["fetch"]].iter().any(|word| begins(rest, word))
        };
        if locks > 0 && is_early(&tokens[at + locks..]) {
            let end = at + locks + rest_of_query(&tokens[at + locks..]);
            tokens[at..end].rotate_left(locks);
            at = end;
        } else {
            at += locks.max(1);
        }
    }
}

/// Tokens of the locking clauses that begin here.
fn locks_at(tokens: &[TokenWithSpan]) -> usize {
    let mut end = 0;
    while begins(&tokens[end..], &["for", "update"]) || begins(&tokens[end..], &["for", "share"]) {
        end += 2;
        if begins(&tokens[end..], &["of"]) {
            let is_name = |token: &Token| {
                matches!(token, Token::Word(word) if word.quote_style.is_some()
                    || !matches!(word.keyword, Keyword::NOWAIT | Keyword::SKIP | Keyword::LIMIT
                        | Keyword::OFFSET | Keyword::FETCH | Keyword::FOR))
                    || matches!(token, Token::Comma | Token::Period)
            };
            end += 1 + tokens[end + 1..].iter().take_while(|it| is_name(&it.token)).count();
        }
        if begins(&tokens[end..], &["nowait"]) {
            end += 1;
        } else if begins(&tokens[end..], &["skip", "locked"]) {
            end += 2;
        }
    }
    end
}

/// Tokens up to the end of a query.
fn rest_of_query(tokens: &[TokenWithSpan]) -> usize {
    let mut depth = 0;
    let ends = tokens.iter().position(|it| {
        match it.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return true,
            Token::RParen => depth -= 1,
            _ => {}
        }
        false
    });
    ends.unwrap_or(tokens.len())
}

/// Whether a statement is SET CONSTRAINTS.
pub(crate) fn sets_constraints(tokens: &[TokenWithSpan]) -> bool {
    begins(tokens, &["set", "constraints"])
}

/// Whether ON CONFLICT names what an index is made of by more than its columns' names.
pub(crate) fn conflicts_by_expression(tokens: &[TokenWithSpan]) -> bool {
    let is = |at: usize, text: &str| tokens.get(at..).is_some_and(|rest| begins(rest, &[text]));
    let opens = |at: &usize| {
        is(*at, "on")
            && is(at + 1, "conflict")
            && tokens.get(at + 2).is_some_and(|token| token.token == Token::LParen)
    };
    let Some(at) = (0..tokens.len()).find(opens) else { return false };
    let list = &tokens[at + 3..];
    let is_name = |token: &&TokenWithSpan| matches!(token.token, Token::Word(_) | Token::Comma);
    let names = list.iter().take_while(is_name).count();
    let separated = list[..names].chunks(2).all(|pair| {
        let word = matches!(pair[0].token, Token::Word(_));
        word && pair.get(1).is_none_or(|comma| comma.token == Token::Comma)
    });
    let closes = list.get(names).is_some_and(|token| token.token == Token::RParen);
    !separated || !closes || is(at + 4 + names, "where")
}

/// `ALTER INDEX | VIEW [IF EXISTS] name RENAME TO name`; `None`: it says something else.
pub(crate) fn renaming(parser: &mut Parser<'_>) -> Read<Option<Ddl>> {
    parser.expect_keyword(Keyword::ALTER)?;
    let what = match parser.parse_keyword(Keyword::INDEX) {
        true => Renamed::Index,
        false => {
            parser.expect_keyword(Keyword::VIEW)?;
            Renamed::View
        }
    };
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = parser.parse_object_name(false)?;
    if !parser.parse_keywords(&[Keyword::RENAME, Keyword::TO]) {
        return Ok(None);
    }
    let to = parser.parse_identifier()?;
    Ok(Some(Ddl::Rename { what, name, to, if_exists }))
}

/// What follows SET CONSTRAINTS: names, or none for all of them, and whether they are to wait.
pub(crate) fn set_constraints(parser: &mut Parser<'_>) -> Read<(Vec<ast::ObjectName>, bool)> {
    let names = match parser.parse_keyword(Keyword::ALL) {
        true => Vec::new(),
        false => parser.parse_comma_separated(|parser| parser.parse_object_name(false))?,
    };
    match parser.parse_one_of_keywords(&[Keyword::DEFERRED, Keyword::IMMEDIATE]) {
        Some(word) => Ok((names, word == Keyword::DEFERRED)),
        None => parser.expected("DEFERRED or IMMEDIATE", parser.peek_token()),
    }
}

#[cfg(test)]
mod tests {
    use crate::syntax::parse::parse;

    /// Each is read as the one after it.
    #[test]
    fn spellings_of_one_statement_are_one_tree() {
        for (text, plain) in [
            ("TABLE t", "SELECT * FROM t"),
            ("CREATE UNLOGGED TABLE t (a int)", "CREATE TABLE t (a int)"),
            ("SELECT a FROM t FOR NO KEY UPDATE", "SELECT a FROM t FOR UPDATE"),
            ("SELECT a FROM t FOR KEY SHARE OF t", "SELECT a FROM t FOR SHARE OF t"),
            ("SELECT a FROM t FOR UPDATE LIMIT 1", "SELECT a FROM t LIMIT 1 FOR UPDATE"),
            ("SELECT 1 FOR UPDATE", "SELECT 1"),
            ("SELECT 1 FETCH FIRST (1 + 1) ROWS ONLY", "SELECT 1 LIMIT (1 + 1)"),
            (
                "SELECT 1 OFFSET 2 ROWS FETCH NEXT (n(3)) ROW ONLY",
                "SELECT 1 OFFSET 2 ROWS LIMIT (n(3))",
            ),
            (
                "UPDATE t SET a = 1 WHERE a = (SELECT a FROM t FOR NO KEY UPDATE OF t, \"u\" \
                 SKIP LOCKED LIMIT (1) OFFSET 2) AND b = (2)",
                "UPDATE t SET a = 1 WHERE a = (SELECT a FROM t LIMIT (1) OFFSET 2 FOR UPDATE OF t, \
                 \"u\" SKIP LOCKED) AND b = (2)",
            ),
            (
                "SELECT 1 FROM t, u FOR UPDATE OF t FOR SHARE OF u NOWAIT FETCH FIRST ROW ONLY",
                "SELECT 1 FROM t, u FETCH FIRST ROW ONLY FOR UPDATE OF t FOR SHARE OF u NOWAIT",
            ),
        ] {
            let [read, expected] = [text, plain].map(|text| parse(text).map_err(|e| e.to_string()));
            match (read, expected) {
                (Ok(read), Ok(expected)) => assert_eq!(read[0].body, expected[0].body, "{text}"),
                (read, expected) => assert_eq!(read.map(drop), expected.map(drop), "{text}"),
            }
        }
    }
}
