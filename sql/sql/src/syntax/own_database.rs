//! Statements that name the database they run in (ALTER DATABASE, COMMENT ON DATABASE): the ledger
//! records them under one fixed name, since each node may call its database differently.

use sqlparser::keywords::Keyword as K;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use types::Result;

use crate::syntax::errors::Place;
use crate::syntax::names::fold;
use crate::syntax::tokens::tokens_of;

/// The text with another name for a database: of each name in the list after the word DATABASE.
///
/// # Errors
/// 42601: it is no text of SQL.
pub(crate) fn renamed(text: &str, name: &str, to: &str) -> Result<String> {
    let tokens = tokens_of(text)?;
    let is_word = |token: &TokenWithSpan| {
        matches!(&token.token, Token::Word(word)
            if word.quote_style.is_none() && word.keyword == K::DATABASE)
    };
    let mut renamed = String::with_capacity(text.len());
    let (mut place, mut done) = (Place::start_of(text), 0);
    let first = tokens.iter().position(is_word).map_or(tokens.len(), |place| place + 1);
    let list = tokens.iter().skip(first).take_while(|token| {
        let is_name = matches!(&token.token, Token::Word(word)
            if word.quote_style.is_some() || word.keyword == K::NoKeyword);
        is_name || token.token == Token::Comma
    });
    for token in list {
        let Token::Word(word) = &token.token else { continue };
        if fold(&word.clone().into_ident(token.span)) == name {
            let (begin, end) = (place.offset(token.span.start), place.offset(token.span.end));
            renamed.push_str(&text[done..begin]);
            renamed.push_str(to);
            done = end;
        }
    }
    renamed.push_str(&text[done..]);
    Ok(renamed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_renamed_where_it_is_meant() {
        for (text, expected) in [
            (
                "GRANT ALL ON DATABASE shop, \"shop\", other TO shop",
                "GRANT ALL ON DATABASE tally, tally, other TO shop",
            ),
            (
                "ALTER DATABASE /* shop */ Shop OWNER TO shop",
                "ALTER DATABASE /* shop */ tally OWNER TO shop",
            ),
            ("COMMENT ON DATABASE shop IS 'shop'", "COMMENT ON DATABASE tally IS 'shop'"),
        ] {
            assert_eq!(renamed(text, "shop", "tally").unwrap(), expected);
        }
    }
}
