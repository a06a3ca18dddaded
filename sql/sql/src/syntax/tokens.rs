//! Tokens as sqlparser has to be given them, where it reads PostgreSQL wrongly or not at all.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Whitespace};
use types::{Error, Result};

use crate::syntax::dialect::Ledger;
use crate::syntax::errors::syntax_error;
use crate::syntax::size;
use crate::syntax::words::begins;

/// The tokens of a text, without blanks and comments.
pub(crate) fn tokens_of(sql: &str) -> Result<Vec<TokenWithSpan>> {
    size::check_text(sql)?;
    let tokens = Tokenizer::new(&Ledger::for_tokens(0), sql)
        .tokenize_with_location()
        .map_err(|e| syntax_error(sql, &e.message, Some(e.location)))?;
    let mut tokens = as_sqlparser_reads(sql, tokens)?;
    spell_isnull(&mut tokens);
    size::check_tokens(tokens.len())?;
    Ok(tokens)
}

/// `a ISNULL` is `a IS NULL`. A function may be called so, and what AS names.
pub(crate) fn spell_isnull(tokens: &mut Vec<TokenWithSpan>) {
    let ends_operand = |token: &Token| match token {
        Token::Word(word) => word.keyword != Keyword::AS,
        Token::RParen | Token::RBracket | Token::Number(..) | Token::Placeholder(_) => true,
        other => matches!(other, Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_)),
    };
    let is_it = |at: usize| {
        let is_call = tokens.get(at + 1).is_some_and(|next| next.token == Token::LParen);
        at > 0
            && begins(&tokens[at..], &["isnull"])
            && !is_call
            && ends_operand(&tokens[at - 1].token)
    };
    if !(0..tokens.len()).any(is_it) {
        return;
    }
    let spelt = (0..tokens.len()).flat_map(|at| {
        let TokenWithSpan { token, span } = &tokens[at];
        let words = if is_it(at) { &["IS", "NULL"][..] } else { &[] };
        let kept = words.is_empty().then(|| token.clone());
        let tokens = words.iter().map(|word| Token::make_keyword(word)).chain(kept);
        tokens.map(|token| TokenWithSpan { token, span: *span }).collect::<Vec<_>>()
    });
    *tokens = spelt.collect();
}

/// Where sqlparser reads PostgreSQL wrongly or not at all: strings that continue on another line
/// are one, strings side by side are an error (not an alias), so is a number with a word right
/// after it, and TRIM's `FROM` may follow its direction.
fn as_sqlparser_reads(sql: &str, tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let mut read: Vec<TokenWithSpan> = Vec::new();
    // Whether a line ended since the last token.
    let mut line_ended = false;
    for token in tokens {
        match &token.token {
            Token::Whitespace(space) => {
                line_ended |= matches!(space, Whitespace::Newline);
                line_ended |= matches!(space, Whitespace::SingleLineComment { .. });
                continue;
            }
            Token::EOF => continue,
            _ => {}
        }
        // A suffix that some dialects know, and PostgreSQL does not.
        if let Token::Number(digits, true) = &token.token {
            return Err(junk(sql, &format!("{digits}L"), token.span.start));
        }
        let before = read.last_mut();
        let (before, end) = before.map(|before| (&mut before.token, &mut before.span.end)).unzip();
        match (before, &token.token) {
            (
                Some(Token::SingleQuotedString(start) | Token::EscapedStringLiteral(start)),
                Token::SingleQuotedString(rest),
            ) => {
                if !line_ended {
                    let message = format!("syntax error at or near \"{}\"", token.token);
                    return Err(syntax_error(sql, &message, Some(token.span.start)));
                }
                start.push_str(rest);
                end.into_iter().for_each(|end| *end = token.span.end);
                continue;
            }
            (Some(Token::Number(digits, _)), Token::Word(word))
                if word.quote_style.is_none()
                    && end.as_deref().is_some_and(|end| *end == token.span.start) =>
            {
                return Err(junk(sql, &format!("{digits}{}", word.value), token.span.start));
            }
            (Some(Token::Word(direction)), Token::Word(word))
                if word.keyword == Keyword::FROM
                    && direction.quote_style.is_none()
                    && matches!(
                        direction.keyword,
                        Keyword::LEADING | Keyword::TRAILING | Keyword::BOTH
                    ) =>
            {
                continue;
            }
            _ => {}
        }
        line_ended = false;
        read.push(token);
    }
    Ok(read)
}

fn junk(sql: &str, shown: &str, at: Location) -> Error {
    let message = format!("trailing junk after numeric literal at or near \"{shown}\"");
    syntax_error(sql, &message, Some(at))
}

/// Takes `[NOT] DEFERRABLE` out of what begins a transaction or sets its modes: the grammar does
/// not know it, and it changes nothing. Every snapshot is a block's end, which no later commit
/// makes unsafe, so there is nothing to wait for.
pub(crate) fn drop_deferrable(tokens: &mut Vec<TokenWithSpan>) {
    let is = |place: usize, keyword: Keyword| {
        tokens.get(place).is_some_and(|token| {
            matches!(&token.token, Token::Word(word)
                if word.quote_style.is_none() && word.keyword == keyword)
        })
    };
    let has = |keyword| (0..tokens.len()).any(|place| is(place, keyword));
    let sets_modes = is(0, Keyword::BEGIN)
        || is(0, Keyword::START)
        || is(0, Keyword::SET) && has(Keyword::TRANSACTION);
    if !sets_modes {
        return;
    }
    let is_comma = |place: usize| tokens.get(place).is_some_and(|t| t.token == Token::Comma);
    let mut dropped = vec![false; tokens.len()];
    for last in (1..tokens.len()).filter(|&place| is(place, Keyword::DEFERRABLE)) {
        let first = if is(last - 1, Keyword::NOT) { last - 1 } else { last };
        let mode = match (is_comma(first - 1), is_comma(last + 1)) {
            (true, _) => first - 1..=last,
            (false, true) => first..=last + 1,
            (false, false) => first..=last,
        };
        dropped[mode].fill(true);
    }
    let mut dropped = dropped.into_iter();
    tokens.retain(|_| dropped.next() == Some(false));
}

/// Takes the parentheses out of `FETCH FIRST (n) ROWS`, which the grammar does not know; what is
/// more than a number in them is a LIMIT.
pub(crate) fn bare_fetch(tokens: &mut Vec<TokenWithSpan>) {
    let is_word = |token: &TokenWithSpan, words: &[&str]| {
        matches!(&token.token, Token::Word(word) if word.quote_style.is_none()
            && words.iter().any(|known| word.value.eq_ignore_ascii_case(known)))
    };
    let mut place = 0;
    while let Some([fetch, first, open, _, close, rows]) =
        tokens.get(place..).and_then(<[_]>::first_chunk)
    {
        if is_word(fetch, &["fetch"])
            && is_word(first, &["first", "next"])
            && open.token == Token::LParen
            && close.token == Token::RParen
            && is_word(rows, &["row", "rows"])
        {
            tokens.remove(place + 4);
            tokens.remove(place + 2);
        }
        place += 1;
    }
    let mut place = 0;
    while let Some([fetch, first, open]) = tokens.get(place..).and_then(<[_]>::first_chunk) {
        let begins = is_word(fetch, &["fetch"])
            && is_word(first, &["first", "next"])
            && open.token == Token::LParen;
        if begins
            && let Some(close) = closing(tokens, place + 2)
            && let Some([rows, only]) = tokens.get(close + 1..).and_then(<[_]>::first_chunk)
            && is_word(rows, &["row", "rows"])
            && is_word(only, &["only"])
        {
            tokens.drain(close + 1..close + 3);
            tokens.remove(place + 1);
            tokens[place].token = Token::make_keyword("LIMIT");
        }
        place += 1;
    }
}

/// How far a number of rows goes: many that never end would each be read to the text's end.
const ROWS_TOKENS_MAX: usize = 256;

/// Where the parenthesis is closed that opens at a place.
pub(crate) fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0;
    let length = tokens[open..].iter().take(ROWS_TOKENS_MAX).position(|it| {
        depth += match it.token {
            Token::LParen => 1,
            Token::RParen => -1,
            _ => 0,
        };
        depth == 0
    });
    length.map(|length| open + length)
}

/// The same tokens with the second word replaced by FUNCTION.
pub(crate) fn tokens_as_function(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut tokens = tokens.to_vec();
    if let Some(token) = tokens.get_mut(1) {
        token.token = Token::make_keyword("FUNCTION");
    }
    tokens
}

/// The first token, and one word for all after it.
pub(crate) fn named_in_one(tokens: &[TokenWithSpan], name: &str) -> Vec<TokenWithSpan> {
    let mut tokens = tokens.get(..2).unwrap_or_default().to_vec();
    if let Some(token) = tokens.last_mut() {
        token.token = Token::make_word(name, None);
    }
    tokens
}

/// The same tokens without what stands in the first parentheses.
pub(crate) fn without_arguments(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let place = |token: &Token| tokens.iter().position(|t| t.token == *token);
    match (place(&Token::LParen), place(&Token::RParen)) {
        (Some(open), Some(close)) if open < close => {
            [&tokens[..open], &tokens[close + 1..]].concat()
        }
        _ => tokens.to_vec(),
    }
}

/// COPY's `(FREEZE on)` as `(FREEZE true)`.
pub(crate) fn switches_as_booleans(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut tokens = tokens.to_vec();
    let mut after_option = false;
    for token in &mut tokens {
        let Token::Word(word) = &token.token else {
            after_option = false;
            continue;
        };
        let is = |text: &str| word.value.eq_ignore_ascii_case(text);
        let switch = match word.quote_style {
            None if after_option && is("on") => Some("TRUE"),
            None if after_option && is("off") => Some("FALSE"),
            _ => None,
        };
        after_option = is("freeze") || is("header");
        if let Some(switch) = switch {
            token.token = Token::make_keyword(switch);
        }
    }
    tokens
}

/// Takes the word out of `FROM ONLY t`: no table has others below it.
pub(crate) fn drop_only(tokens: &mut Vec<TokenWithSpan>) {
    let keyword = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    };
    let mut place = 0;
    while let Some([before, only, _]) = tokens.get(place..).and_then(<[_]>::first_chunk) {
        let may_be =
            matches!(keyword(before), Some(Keyword::FROM | Keyword::JOIN | Keyword::UPDATE));
        if may_be && keyword(only) == Some(Keyword::ONLY) {
            tokens.remove(place + 1);
        }
        place += 1;
    }
}

/// `OPERATOR(pg_catalog.=) ANY` as `= ANY`, which is all that the grammar knows before ANY and ALL.
pub(crate) fn plain_operators(tokens: &mut Vec<TokenWithSpan>) {
    let is = |token: &TokenWithSpan, words: &[&str]| {
        matches!(&token.token, Token::Word(word) if word.quote_style.is_none()
            && words.iter().any(|known| word.value.eq_ignore_ascii_case(known)))
    };
    let mut place = 0;
    while let Some([operator, open, schema, point, _, close, any]) =
        tokens.get(place..).and_then(<[_]>::first_chunk)
    {
        if is(operator, &["operator"])
            && open.token == Token::LParen
            && is(schema, &["pg_catalog"])
            && point.token == Token::Period
            && close.token == Token::RParen
            && is(any, &["any", "all", "some"])
        {
            tokens.remove(place + 5);
            tokens.drain(place..place + 4);
        }
        place += 1;
    }
}

#[cfg(test)]
mod tests {
    use crate::syntax::parse::parse;

    fn same(text: &str, plain: &str) {
        assert_eq!(parse(text).unwrap()[0].body, parse(plain).unwrap()[0].body, "{text}");
    }

    #[test]
    fn a_word_right_behind_a_number_is_junk() {
        for junk in ["a", "_", "\u{a0}", "\u{200b}", "\u{2003}FROM", "é", "L", "OR"] {
            let error = parse(&format!("SELECT 1{junk}")).unwrap_err();
            assert_eq!(error.code(), types::SqlState::SYNTAX_ERROR, "{junk:?}");
            assert!(error.message().contains(&format!("\"1{junk}\"")), "{error:?}");
        }
        for text in ["SELECT 1 a", "SELECT 1\"a\"", "SELECT 1e5", "SELECT 1.5, 1", "SELECT 'a'b"] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_says_nothing_more_is_taken_out() {
        same("SELECT a FROM ONLY t JOIN only u ON true", "SELECT a FROM t JOIN u ON true");
        same("UPDATE ONLY t SET a = 1", "UPDATE t SET a = 1");
        same("DELETE FROM ONLY public.t", "DELETE FROM public.t");
        same(
            "SELECT 1 WHERE a OPERATOR(pg_catalog.=) ANY (ARRAY[1])",
            "SELECT 1 WHERE a = ANY (ARRAY[1])",
        );
        same("SELECT a ~~ 'x%', a !~~* 'y'", "SELECT a LIKE 'x%', a NOT ILIKE 'y'");
        for text in ["ALTER VIEW v OWNER TO ada", "alter schema public owner to \"Ada\""] {
            let body = &parse(text).unwrap()[0].body;
            let crate::syntax::parsed::Body::Ddl(ddl) = body else { panic!("{text}: {body:?}") };
            assert!(matches!(**ddl, crate::syntax::ddl::Ddl::ChangeOwner { .. }), "{text}");
        }
    }
}
