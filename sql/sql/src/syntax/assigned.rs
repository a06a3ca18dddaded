//! Elements of arrays that are assigned, and types that are spelled `integer ARRAY`: as sqlparser
//! reads them.
//!
//! `SET a[i] = x` is `SET a = "a with its element i x"`, a call of a function that no text can
//! name.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// What the call is named by, which is no name of SQL text.
pub(crate) const SET_ELEMENT: &str = "\u{1}set element";

fn keyword(token: &TokenWithSpan) -> Keyword {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// Where the bracket or parenthesis closes that stands at `open`.
fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.token {
            Token::LBracket | Token::LParen => depth += 1,
            Token::RBracket | Token::RParen => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Writes assignments of elements after SET as assignments of whole arrays.
pub(crate) fn assign_whole(tokens: &mut Vec<TokenWithSpan>) {
    let (mut at, mut assigns) = (0, false);
    while at + 2 < tokens.len() {
        // A comma before the first SET divides no assignments.
        assigns |= keyword(&tokens[at]) == Keyword::SET;
        let begins =
            keyword(&tokens[at]) == Keyword::SET || assigns && tokens[at].token == Token::Comma;
        let is_one = begins
            && matches!(tokens[at + 1].token, Token::Word(_))
            && tokens[at + 2].token == Token::LBracket;
        at += 1;
        if !is_one {
            continue;
        }
        let Some(close) = closing(tokens, at + 1) else { return };
        if tokens.get(close + 1).is_none_or(|next| next.token != Token::Eq) {
            continue;
        }
        let index = tokens[at + 2..close].to_vec();
        if index.iter().any(|token| token.token == Token::Colon) {
            continue;
        }
        let end = end_of_value(tokens, close + 2);
        let value = tokens[close + 2..end].to_vec();
        let span = tokens[at].span;
        let token = |token| TokenWithSpan { token, span };
        let name = tokens[at].clone();
        let mut whole = vec![
            name.clone(),
            token(Token::Eq),
            token(Token::make_word(SET_ELEMENT, Some('"'))),
            token(Token::LParen),
            name,
            token(Token::Comma),
            token(Token::LParen),
        ];
        whole.extend(index);
        whole.extend([Token::RParen, Token::Comma, Token::LParen].map(token));
        whole.extend(value);
        whole.extend([Token::RParen, Token::RParen].map(token));
        let length = whole.len();
        tokens.splice(at..end, whole);
        at += length - 1;
    }
}

/// Where a value of SET ends: at a comma, or where what follows begins.
fn end_of_value(tokens: &[TokenWithSpan], from: usize) -> usize {
    let mut at = from;
    while at < tokens.len() {
        match tokens[at].token {
            Token::LParen | Token::LBracket => match closing(tokens, at) {
                Some(close) => at = close,
                None => return tokens.len(),
            },
            Token::Comma | Token::RParen => return at,
            _ if matches!(keyword(&tokens[at]), Keyword::WHERE | Keyword::RETURNING) => return at,
            _ if keyword(&tokens[at]) == Keyword::FROM && !is_distinct_from(tokens, at) => {
                return at;
            }
            _ => {}
        }
        at += 1;
    }
    at
}

fn is_distinct_from(tokens: &[TokenWithSpan], at: usize) -> bool {
    at > 0 && keyword(&tokens[at - 1]) == Keyword::DISTINCT
}

/// `integer ARRAY` and `integer ARRAY[3]` are `integer[]`, in statements that declare columns.
pub(crate) fn spell_arrays(tokens: &mut Vec<TokenWithSpan>) {
    let declares = matches!(
        tokens.get(..2).map(|two| [keyword(&two[0]), keyword(&two[1])]),
        Some([Keyword::CREATE | Keyword::ALTER, Keyword::TABLE])
    );
    let mut at = 1;
    while declares && at < tokens.len() {
        let behind_type = match &tokens[at - 1].token {
            Token::RParen => true,
            Token::Word(word) => !matches!(
                word.keyword,
                Keyword::DEFAULT
                    | Keyword::IN
                    | Keyword::ANY
                    | Keyword::ALL
                    | Keyword::AND
                    | Keyword::OR
                    | Keyword::NOT
                    | Keyword::THEN
                    | Keyword::ELSE
                    | Keyword::WHEN
                    | Keyword::USING
            ),
            _ => false,
        };
        if behind_type && keyword(&tokens[at]) == Keyword::ARRAY {
            let span = tokens[at].span;
            let brackets = [Token::LBracket, Token::RBracket];
            let brackets = brackets.map(|token| TokenWithSpan { token, span });
            let end = match tokens.get(at + 1).map(|next| &next.token) {
                Some(Token::LBracket) => closing(tokens, at + 1).map_or(at + 1, |close| close + 1),
                _ => at + 1,
            };
            tokens.splice(at..end, brackets);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use crate::syntax::parse::parse;

    fn same(text: &str, plain: &str) {
        assert_eq!(parse(text).unwrap()[0].body, parse(plain).unwrap()[0].body, "{text}");
    }

    #[test]
    fn a_list_of_a_query_assigns_nothing() {
        let comparison = "SELECT a, b[0] = 1 AND (SELECT 2) = c AS d FROM t";
        assert_eq!(parse(comparison).unwrap()[0].query().unwrap().to_string(), comparison);
    }

    #[test]
    fn types_may_be_spelled_with_a_word() {
        same("CREATE TABLE t (a integer ARRAY, b text)", "CREATE TABLE t (a integer[], b text)");
        same("CREATE TABLE t (a varchar(3) ARRAY[4])", "CREATE TABLE t (a varchar(3)[])");
        same(
            "CREATE TABLE t (a int[] DEFAULT ARRAY[1])",
            "CREATE TABLE t (a int[] DEFAULT ARRAY[1])",
        );
    }
}
