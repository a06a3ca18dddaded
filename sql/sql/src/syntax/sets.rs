//! Queries in parentheses where the grammar expects something else.
//!
//! `((SELECT 1) UNION (SELECT 2))` is an expression's subquery, of which the grammar reads the
//! first half as the whole; as the table of another query it reads all of it. `EXPLAIN (SELECT 1)`
//! is read as a list of options, so that it is given one that says nothing.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::syntax::words::begins;

fn keyword(token: Option<&TokenWithSpan>) -> Keyword {
    match token.map(|it| &it.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

fn is_open(token: Option<&TokenWithSpan>) -> bool {
    token.is_some_and(|it| it.token == Token::LParen)
}

/// Whether what stands after a parenthesis, and others, is a query.
fn is_query(tokens: &[TokenWithSpan]) -> bool {
    let first = tokens.iter().find(|it| it.token != Token::LParen);
    matches!(keyword(first), Keyword::SELECT | Keyword::VALUES | Keyword::WITH)
}

/// `EXPLAIN (SELECT 1)`.
pub(crate) fn explain_query(tokens: &mut Vec<TokenWithSpan>) {
    if begins(tokens, &["explain"]) && is_open(tokens.get(1)) && is_query(&tokens[1..]) {
        let span = tokens[0].span;
        let option = [Token::LParen, Token::make_keyword("COSTS"), Token::RParen];
        tokens.splice(1..1, option.map(|token| TokenWithSpan { token, span }));
    }
}

/// `((SELECT 1) UNION (SELECT 2))` where an expression may stand is
/// `(SELECT * FROM ((SELECT 1) UNION (SELECT 2)) AS sets)`.
pub(crate) fn wrap_sets(tokens: &mut Vec<TokenWithSpan>) {
    let is_set = |token: Option<&TokenWithSpan>| {
        matches!(keyword(token), Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT)
    };
    if !tokens.iter().any(|it| is_set(Some(it))) {
        return;
    }
    // Parentheses that are open, and whether what begins behind one is another pair with a query in
    // it and a set behind it.
    let mut open: Vec<(usize, bool)> = Vec::new();
    let mut wrapped = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => open.push((at, false)),
            Token::RParen => {
                let Some((begin, has_sets)) = open.pop() else { return };
                if has_sets && takes_expression(tokens, begin) {
                    wrapped.push((begin, at));
                }
                if let Some((around, has_sets)) = open.last_mut()
                    && *around + 1 == begin
                {
                    *has_sets = is_set(tokens.get(at + 1)) && is_query(&tokens[begin..]);
                }
            }
            _ => {}
        }
    }
    if wrapped.is_empty() {
        return;
    }
    let mut added: Vec<(usize, &[&str])> = Vec::new();
    for (begin, end) in wrapped {
        added.push((begin, &["(", "SELECT", "*", "FROM"]));
        added.push((end, &[")", "AS", "sets"]));
    }
    insert(tokens, added);
}

/// Elsewhere the grammar reads sets by itself, and a query's own parentheses are no expression.
fn takes_expression(tokens: &[TokenWithSpan], open: usize) -> bool {
    let Some(before) = tokens[..open].iter().rposition(|it| it.token != Token::LParen) else {
        return false;
    };
    match &tokens[before].token {
        // Within other parentheses: a function's, or those of IN, which take queries as well.
        Token::Word(word) if before + 1 < open => !matches!(
            word.keyword,
            Keyword::AS
                | Keyword::FROM
                | Keyword::JOIN
                | Keyword::UNION
                | Keyword::INTERSECT
                | Keyword::EXCEPT
                | Keyword::EXPLAIN
        ),
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::SELECT
                | Keyword::WHERE
                | Keyword::HAVING
                | Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::WHEN
                | Keyword::THEN
                | Keyword::ELSE
                | Keyword::CASE
                | Keyword::BETWEEN
                | Keyword::RETURNING
        ),
        Token::RParen | Token::SemiColon => false,
        _ => true,
    }
}

/// Puts words in front of tokens, by their places.
fn insert(tokens: &mut Vec<TokenWithSpan>, mut added: Vec<(usize, &[&str])>) {
    added.sort_by_key(|(place, _)| *place);
    let mut added = added.into_iter().peekable();
    let mut all = Vec::with_capacity(2 * tokens.len());
    for (place, token) in std::mem::take(tokens).into_iter().enumerate() {
        let span = token.span;
        while let Some((_, words)) = added.next_if(|(before, _)| *before == place) {
            all.extend(words.iter().map(|word| TokenWithSpan { token: spelt(word), span }));
        }
        all.push(token);
    }
    *tokens = all;
}

fn spelt(word: &str) -> Token {
    match word {
        "(" => Token::LParen,
        ")" => Token::RParen,
        "*" => Token::Mul,
        "sets" => Token::make_word(word, Some('"')),
        keyword => Token::make_keyword(keyword),
    }
}
