//! Elements of arrays that are assigned, and types that are spelled `integer ARRAY`: as sqlparser
//! reads them.
//!
//! `SET a[i] = x` is `SET a = "a with its element i x"`, a call of a function that no text can
//! name.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// What the call is named by, which is no name of SQL text.
pub(crate) const SET_ELEMENT: &str = "\u{1}set element";

/// What `SET a[i:j] = x` is written as a call of.
pub(crate) const SET_SLICE: &str = "\u{1}set slice";

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

/// Words and points of the name of what an UPDATE changes, and of another name for it.
const TARGET_TOKENS_MAX: usize = 16;
/// Elements that one SET assigns: each is a call around the one before.
const ELEMENTS_MAX: usize = 100;

/// Writes assignments of elements after SET as assignments of whole arrays.
pub(crate) fn assign_whole(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        at += 1;
        if !sets_columns(&tokens[..at]) {
            continue;
        }
        let end = end_of_assignments(tokens, at);
        if (at..end).any(|place| assigns_element(&tokens[place..end])) {
            let whole = whole_values(&tokens[at..end]);
            tokens.splice(at..end, whole);
        }
    }
}

/// Whether the last of these is the SET of an UPDATE, be it one of ON CONFLICT or MERGE. Other
/// words of that name set no columns.
fn sets_columns(tokens: &[TokenWithSpan]) -> bool {
    let Some((set, before)) = tokens.split_last() else { return false };
    if keyword(set) != Keyword::SET {
        return false;
    }
    let is_name = |token: &&TokenWithSpan| {
        keyword(token) != Keyword::UPDATE
            && matches!(token.token, Token::Word(_) | Token::Period | Token::Mul)
    };
    let target = before.iter().rev().take(TARGET_TOKENS_MAX).take_while(is_name).count();
    before.len() > target && keyword(&before[before.len() - target - 1]) == Keyword::UPDATE
}

/// `a[i] =`, or with more subscripts.
fn assigns_element(item: &[TokenWithSpan]) -> bool {
    let is_named = matches!(item, [name, open, ..] if matches!(name.token, Token::Word(_))
        && open.token == Token::LBracket);
    is_named && item.get(subscripts(item).1).is_some_and(|next| next.token == Token::Eq)
}

/// What stands in the brackets after a name, and where they end.
fn subscripts(item: &[TokenWithSpan]) -> (Vec<&[TokenWithSpan]>, usize) {
    let (mut found, mut at) = (Vec::new(), 1);
    while item.get(at).is_some_and(|token| token.token == Token::LBracket) {
        let Some(close) = closing(item, at) else { break };
        found.push(&item[at + 1..close]);
        at = close + 1;
    }
    (found, at)
}

fn end_of_assignments(tokens: &[TokenWithSpan], from: usize) -> usize {
    let mut end = end_of_value(tokens, from);
    while tokens.get(end).is_some_and(|token| token.token == Token::Comma) {
        end = end_of_value(tokens, end + 1);
    }
    end
}

/// The assignments of a SET. Those of several elements of one array are made one after the other.
fn whole_values(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let (mut items, mut at): (Vec<(Option<String>, Vec<TokenWithSpan>)>, _) = (Vec::new(), 0);
    let mut elements = 0;
    while at < tokens.len() {
        let end = end_of_value(tokens, at);
        let item = &tokens[at..end];
        at = end + 1;
        if !assigns_element(item) {
            items.push((None, item.to_vec()));
            continue;
        }
        elements += 1;
        if elements > ELEMENTS_MAX {
            // The grammar refuses it as it is.
            return tokens.to_vec();
        }
        let column = match &item[0].token {
            Token::Word(word) if word.quote_style.is_some() => word.value.clone(),
            other => other.to_string().to_lowercase(),
        };
        let before = items.iter().position(|(of, _)| of.as_ref() == Some(&column));
        // What the one before makes stands after `a =`.
        let array = match before {
            Some(before) => items[before].1.split_off(2),
            None => vec![item[0].clone()],
        };
        let whole = (Some(column), whole_value(item, array));
        match before {
            Some(before) => items[before] = whole,
            None => items.push(whole),
        }
    }
    let mut written: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for (_, item) in items {
        if let Some(before) = written.last() {
            written.push(TokenWithSpan { token: Token::Comma, span: before.span });
        }
        written.extend(item);
    }
    written
}

/// `a[i] = x` as `a = "set element"(array, (i), (x))`.
fn whole_value(item: &[TokenWithSpan], array: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let token = |token| TokenWithSpan { token, span: item[0].span };
    let (indexes, end) = subscripts(item);
    let is_slice = indexes.iter().any(|index| index.iter().any(|it| it.token == Token::Colon));
    let called = if is_slice { SET_SLICE } else { SET_ELEMENT };
    let mut whole = vec![item[0].clone(), token(Token::Eq)];
    whole.push(token(Token::make_word(called, Some('"'))));
    whole.push(token(Token::LParen));
    whole.extend(array);
    let parts = indexes.into_iter().filter(|_| !is_slice).chain([&item[end + 1..]]);
    for part in parts {
        whole.extend([Token::Comma, Token::LParen].map(token));
        whole.extend_from_slice(part);
        whole.push(token(Token::RParen));
    }
    whole.push(token(Token::RParen));
    whole
}

/// Where a value of SET ends: at a comma, or where what follows begins, which in MERGE is the next
/// WHEN that is none of a CASE.
fn end_of_value(tokens: &[TokenWithSpan], from: usize) -> usize {
    let (mut at, mut cases) = (from, 0usize);
    while at < tokens.len() {
        match tokens[at].token {
            Token::LParen | Token::LBracket => match closing(tokens, at) {
                Some(close) => at = close,
                None => return tokens.len(),
            },
            Token::Comma | Token::RParen => return at,
            // A name, whatever its word.
            _ if at > from && tokens[at - 1].token == Token::Period => {}
            _ => match keyword(&tokens[at]) {
                Keyword::WHERE | Keyword::RETURNING => return at,
                Keyword::FROM if !is_distinct_from(tokens, at) => return at,
                Keyword::CASE => cases += 1,
                Keyword::END => cases = cases.saturating_sub(1),
                Keyword::WHEN if cases == 0 => return at,
                _ => {}
            },
        }
        at += 1;
    }
    at
}

fn is_distinct_from(tokens: &[TokenWithSpan], at: usize) -> bool {
    at > 0 && keyword(&tokens[at - 1]) == Keyword::DISTINCT
}

/// `integer ARRAY` and `integer ARRAY[3]` are `integer[]`, where columns are declared.
pub(crate) fn spell_arrays(tokens: &mut Vec<TokenWithSpan>) {
    let begins: Vec<Keyword> = tokens.iter().take(4).map(keyword).collect();
    let declares = matches!(begins.first(), Some(Keyword::CREATE | Keyword::ALTER))
        && begins.contains(&Keyword::TABLE);
    let (mut at, mut depth) = (0, 0usize);
    while declares && at < tokens.len() {
        let (token, word) = (&tokens[at].token, keyword(&tokens[at]));
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            // What a table is filled with declares no columns.
            _ if word == Keyword::AS && depth == 0 => return,
            _ => {}
        }
        // After a column's name, or the word.
        let begins_type = match (token, word) {
            (Token::LParen | Token::Comma, _) if depth == 1 => at + 2,
            (_, Keyword::ADD | Keyword::COLUMN | Keyword::EXISTS) if depth == 0 => at + 2,
            (_, Keyword::TYPE) if depth == 0 => at + 1,
            _ => usize::MAX,
        };
        at += 1;
        let ends_type = end_of_type(tokens, begins_type);
        let is_array = tokens.get(ends_type).is_some_and(|it| keyword(it) == Keyword::ARRAY);
        if ends_type > begins_type && is_array {
            let span = tokens[ends_type].span;
            let brackets = [Token::LBracket, Token::RBracket];
            let brackets = brackets.map(|token| TokenWithSpan { token, span });
            let open = ends_type + 1;
            let end = match tokens.get(open).map(|next| &next.token) {
                Some(Token::LBracket) => closing(tokens, open).map_or(open, |close| close + 1),
                _ => open,
            };
            tokens.splice(ends_type..end, brackets);
        }
    }
}

/// Where the words of a type end, with their modifiers.
fn end_of_type(tokens: &[TokenWithSpan], from: usize) -> usize {
    use Keyword as K;
    let mut at = from;
    while let Some(token) = tokens.get(at) {
        let follows = matches!(
            keyword(token),
            K::ARRAY
                | K::CHECK
                | K::COLLATE
                | K::CONSTRAINT
                | K::DEFAULT
                | K::GENERATED
                | K::NOT
                | K::NULL
                | K::PRIMARY
                | K::REFERENCES
                | K::UNIQUE
                | K::USING
        );
        at = match token.token {
            Token::Word(_) | Token::Period if !follows => at + 1,
            Token::LParen if at > from => match closing(tokens, at) {
                Some(close) => close + 1,
                None => return at,
            },
            _ => return at,
        };
    }
    at
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

    fn shown(text: &str) -> String {
        format!("{:?}", parse(text).unwrap()[0].body)
    }

    #[test]
    fn elements_are_assigned_one_after_the_other() {
        same(
            "UPDATE t SET a[1] = 2, b = 3, A[4] = 5",
            "UPDATE t SET A = \"\u{1}set element\"(\"\u{1}set element\"(a, (1), (2)), (4), (5)), b = 3",
        );
    }

    /// Words after a point are names.
    #[test]
    fn a_value_goes_on_behind_names_that_are_words() {
        same(
            "UPDATE t SET a[1] = t.when + s.case, b = t.end WHERE c",
            "UPDATE t SET a = \"\u{1}set element\"(a, (1), (t.when + s.case)), b = t.end WHERE c",
        );
    }

    /// Only the SET of an UPDATE assigns.
    #[test]
    fn elements_are_compared_where_none_is_assigned() {
        for text in [
            "SELECT 1, a[1] = 2 AND (SELECT 3) = 4 AS x FROM t",
            "SELECT f(1, a[1] = 2), (3, a[4] = 5) FROM t",
            "UPDATE t SET b = 1 WHERE c IN (1, 2) AND f(3, a[1] = 2)",
            "SELECT set, a[1] = NULL FROM t",
        ] {
            assert!(!shown(text).contains("set element"), "{}", shown(text));
        }
    }
}
