//! MERGE's actions that sqlparser does not know, as some that it does.
//!
//! `DO NOTHING` and `INSERT DEFAULT VALUES` come to stand in the tree as changes of columns whose
//! names no text can hold.

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The column that DO NOTHING changes.
pub(crate) const NOTHING: &str = "\0nothing";
/// The column that INSERT DEFAULT VALUES fills.
pub(crate) const DEFAULTS: &str = "\0defaults";

fn is(token: Option<&TokenWithSpan>, word: &str) -> bool {
    matches!(token.map(|token| &token.token), Some(Token::Word(known))
        if known.quote_style.is_none() && known.value.eq_ignore_ascii_case(word))
}

/// Rewrites those actions of a MERGE.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| is(Some(token), "merge")) {
        return;
    }
    let mut rewritten = Vec::with_capacity(tokens.len());
    let (mut place, mut is_matched) = (0, true);
    while let Some(token) = tokens.get(place) {
        let follows = |words: &[&str]| {
            words.iter().enumerate().all(|(n, word)| is(tokens.get(place + n), word))
        };
        if follows(&["when", "matched"]) || follows(&["when", "not"]) {
            is_matched = follows(&["when", "matched"]);
        }
        let (taken, action) = if follows(&["then", "do", "nothing"]) {
            (3, if is_matched { update(NOTHING) } else { insert(NOTHING) })
        } else if follows(&["then", "insert", "default", "values"]) {
            (4, insert(DEFAULTS))
        } else {
            (1, Vec::new())
        };
        rewritten.push(token.clone());
        rewritten.extend(action.into_iter().map(|new| TokenWithSpan::new(new, token.span)));
        place += taken;
    }
    *tokens = rewritten;
}

/// The text of a tree as a person would write it.
pub(crate) fn shown(text: &str) -> String {
    let update = format!("UPDATE SET \"{NOTHING}\" = NULL");
    let insert = |column: &str| format!("INSERT (\"{column}\") VALUES (NULL)");
    text.replace(&update, "DO NOTHING")
        .replace(&insert(NOTHING), "DO NOTHING")
        .replace(&insert(DEFAULTS), "INSERT DEFAULT VALUES")
}

fn update(column: &str) -> Vec<Token> {
    vec![
        Token::make_keyword("UPDATE"),
        Token::make_keyword("SET"),
        Token::make_word(column, Some('"')),
        Token::Eq,
        Token::make_keyword("NULL"),
    ]
}

fn insert(column: &str) -> Vec<Token> {
    vec![
        Token::make_keyword("INSERT"),
        Token::LParen,
        Token::make_word(column, Some('"')),
        Token::RParen,
        Token::make_keyword("VALUES"),
        Token::LParen,
        Token::make_keyword("NULL"),
        Token::RParen,
    ]
}
