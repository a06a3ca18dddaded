//! Words of a statement that sqlparser has no keyword for, and names as they stand beside them.

use sqlparser::ast;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Whether a token is this word, in any case and without quotes.
pub(crate) fn is_word(token: &TokenWithSpan, name: &str) -> bool {
    matches!(&token.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name))
}

/// Whether these words come first.
pub(crate) fn begins(tokens: &[TokenWithSpan], words: &[&str]) -> bool {
    tokens.len() >= words.len()
        && tokens.iter().zip(words).all(|(token, word)| is_word(token, word))
}

/// Takes the next word if it is one of these, without quotes.
pub(crate) fn word<'w>(parser: &mut Parser<'_>, words: &[&'w str]) -> Option<&'w str> {
    let Token::Word(next) = parser.peek_token().token else { return None };
    let known = |word: &&&str| next.value.eq_ignore_ascii_case(word);
    let word = words.iter().find(known).filter(|_| next.quote_style.is_none())?;
    parser.next_token();
    Some(word)
}

/// Routines are known by their names alone.
pub(crate) fn routine(parser: &mut Parser<'_>) -> Result<ast::ObjectName, ParserError> {
    let name = parser.parse_object_name(false)?;
    if parser.consume_token(&Token::LParen) {
        let mut depth = 1;
        while depth > 0 {
            match parser.next_token().token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                Token::EOF => {
                    return Err(ParserError::ParserError("Expected: ), found: EOF".to_owned()));
                }
                _ => {}
            }
        }
    }
    Ok(name)
}
