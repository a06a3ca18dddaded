//! CREATE COLLATION, ALTER COLLATION, DROP COLLATION; and COLLATE behind the type that ALTER COLUMN
//! gives, which sqlparser does not read.

use sqlparser::ast;
use sqlparser::keywords::Keyword as K;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::syntax::words::{begins, is_word, word};

type Read<T> = Result<T, ParserError>;

/// What a statement says of a collation.
#[derive(Clone, Debug, PartialEq)]
pub enum CollationStatement {
    Create {
        name: ast::ObjectName,
        if_not_exists: bool,
        like: CollationSource,
    },
    Rename {
        name: ast::ObjectName,
        to: ast::Ident,
    },
    SetSchema {
        name: ast::ObjectName,
        schema: ast::Ident,
    },
    /// Of its version: there is one.
    Refresh {
        name: ast::ObjectName,
    },
    Drop {
        names: Vec<ast::ObjectName>,
        if_exists: bool,
        cascade: bool,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum CollationSource {
    /// FROM.
    Another(ast::ObjectName),
    /// Attributes in lower case, and their values.
    Attributes(Vec<(String, String)>),
}

impl CollationStatement {
    pub fn tag(&self) -> &'static str {
        match self {
            CollationStatement::Create { .. } => "CREATE COLLATION",
            CollationStatement::Drop { .. } => "DROP COLLATION",
            _ => "ALTER COLLATION",
        }
    }
}

fn name(parser: &mut Parser<'_>) -> Read<ast::ObjectName> {
    parser.parse_object_name(false)
}

/// After CREATE COLLATION.
pub(crate) fn create(parser: &mut Parser<'_>) -> Read<CollationStatement> {
    let if_not_exists = parser.parse_keywords(&[K::IF, K::NOT, K::EXISTS]);
    let made = name(parser)?;
    let like = match parser.parse_keyword(K::FROM) {
        true => CollationSource::Another(name(parser)?),
        false => {
            parser.expect_token(&Token::LParen)?;
            let attributes = parser.parse_comma_separated(attribute)?;
            parser.expect_token(&Token::RParen)?;
            CollationSource::Attributes(attributes)
        }
    };
    Ok(CollationStatement::Create { name: made, if_not_exists, like })
}

fn attribute(parser: &mut Parser<'_>) -> Read<(String, String)> {
    let key = parser.parse_identifier()?;
    if !parser.consume_token(&Token::Eq) {
        return Ok((key.value.to_ascii_lowercase(), "true".to_owned()));
    }
    let value = match parser.next_token().token {
        Token::Word(word) => word.value,
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => text,
        Token::Number(digits, _) => digits,
        _ => return Err(ParserError::ParserError("Expected: a value".to_owned())),
    };
    Ok((key.value.to_ascii_lowercase(), value))
}

/// After ALTER COLLATION.
pub(crate) fn alter(parser: &mut Parser<'_>) -> Read<CollationStatement> {
    let name = name(parser)?;
    if parser.parse_keywords(&[K::RENAME, K::TO]) {
        return Ok(CollationStatement::Rename { name, to: parser.parse_identifier()? });
    }
    if parser.parse_keywords(&[K::SET, K::SCHEMA]) {
        return Ok(CollationStatement::SetSchema { name, schema: parser.parse_identifier()? });
    }
    match word(parser, &["refresh"]).and_then(|_| word(parser, &["version"])) {
        Some(_) => Ok(CollationStatement::Refresh { name }),
        None => Err(ParserError::ParserError("Expected: RENAME TO or SET SCHEMA".to_owned())),
    }
}

/// After DROP COLLATION.
pub(crate) fn dropped(parser: &mut Parser<'_>) -> Read<CollationStatement> {
    let if_exists = parser.parse_keywords(&[K::IF, K::EXISTS]);
    let names = parser.parse_comma_separated(name)?;
    let cascade = parser.parse_one_of_keywords(&[K::CASCADE, K::RESTRICT]) == Some(K::CASCADE);
    Ok(CollationStatement::Drop { names, if_exists, cascade })
}

/// What no name begins with: the collation behind it is the column's.
const OF_COLUMN: &str = "\0column";

/// `ALTER c TYPE t COLLATE x [USING e]` as `ALTER c TYPE t USING (e COLLATE "\0column".x)`.
pub(crate) fn collate_columns(tokens: &mut Vec<TokenWithSpan>) {
    if !begins(tokens, &["alter", "table"]) {
        return;
    }
    let mut from = 2;
    while let Some((column, collate)) = collated_type(tokens, from) {
        let ends = |at: &usize| matches!(tokens[*at].token, Token::Comma | Token::EOF);
        let end = outside(tokens, collate).find(ends).unwrap_or(tokens.len());
        let using = outside(tokens, collate).find(|at| is_word(&tokens[*at], "using"));
        let using = using.filter(|using| *using < end);
        let place = tokens[collate].clone();
        let at_place = |token: Token| TokenWithSpan { token, ..place.clone() };
        let named: Vec<TokenWithSpan> = tokens[collate + 1..using.unwrap_or(end)].to_vec();
        let value = match using {
            Some(using) => tokens[using + 1..end].to_vec(),
            None => vec![tokens[column].clone()],
        };
        let mark =
            Word { value: OF_COLUMN.to_owned(), quote_style: Some('"'), keyword: K::NoKeyword };
        let mut spelt = vec![at_place(Token::make_keyword("USING")), at_place(Token::LParen)];
        spelt.extend([at_place(Token::LParen)]);
        spelt.extend(value);
        spelt.extend([
            at_place(Token::RParen),
            at_place(Token::make_keyword("COLLATE")),
            at_place(Token::Word(mark)),
            at_place(Token::Period),
        ]);
        spelt.extend(named);
        spelt.push(at_place(Token::RParen));
        from = collate + spelt.len();
        tokens.splice(collate..end, spelt);
    }
}

/// Places of tokens from one on, but those in parentheses.
fn outside(tokens: &[TokenWithSpan], from: usize) -> impl Iterator<Item = usize> {
    let mut depth = 0usize;
    (from..tokens.len()).filter(move |at| {
        match tokens[*at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    })
}

/// Of the next change of a column's type that says COLLATE: the column's name, and the word.
fn collated_type(tokens: &[TokenWithSpan], from: usize) -> Option<(usize, usize)> {
    let mut column = None;
    for at in outside(tokens, from) {
        let token = &tokens[at];
        if is_word(token, "alter") {
            let named = usize::from(tokens.get(at + 1).is_some_and(|it| is_word(it, "column")));
            let name = at + 1 + named;
            let set = [&["set", "data", "type"][..], &["type"]];
            let rest = tokens.get(name + 1..).unwrap_or_default();
            column = set.iter().any(|words| begins(rest, words)).then_some(name);
        } else if is_word(token, "using") || token.token == Token::Comma {
            column = None;
        } else if is_word(token, "collate")
            && let Some(column) = column.filter(|column| *column < at)
        {
            return Some((column, at));
        }
    }
    None
}

/// The value of USING and the collation of the column, where it was written so.
pub(crate) fn column_collation(using: &ast::Expr) -> Option<(&ast::Expr, ast::ObjectName)> {
    let ast::Expr::Nested(inner) = using else { return None };
    let ast::Expr::Collate { expr, collation } = &**inner else { return None };
    let ast::Expr::Nested(value) = &**expr else { return None };
    unmarked(collation).map(|name| (&**value, name))
}

/// A collation's name without the mark that it is a column's; `None`: it has none.
pub(crate) fn unmarked(name: &ast::ObjectName) -> Option<ast::ObjectName> {
    let (first, rest) = name.0.split_first()?;
    let is_mark = first.as_ident().is_some_and(|mark| mark.value == OF_COLUMN);
    is_mark.then(|| ast::ObjectName(rest.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::tokens::tokens_of;

    fn spelt(text: &str) -> String {
        let mut tokens = tokens_of(text).unwrap();
        collate_columns(&mut tokens);
        let texts: Vec<String> = tokens.iter().map(|it| it.token.to_string()).collect();
        texts.join(" ").replace(" EOF", "").replace("\"\0column\"", "@")
    }

    #[test]
    fn a_column_s_collation_stands_in_using() {
        for (text, meant) in [
            (
                "ALTER TABLE t ALTER c TYPE varchar(9) COLLATE \"C\"",
                "ALTER TABLE t ALTER c TYPE varchar ( 9 ) USING ( ( c ) COLLATE @ . \"C\" )",
            ),
            (
                "ALTER TABLE t ALTER COLUMN \"c\" SET DATA TYPE text COLLATE s.x USING (a || b), \
                 ALTER d TYPE text COLLATE \"C\"",
                "ALTER TABLE t ALTER COLUMN \"c\" SET DATA TYPE text \
                 USING ( ( ( a || b ) ) COLLATE @ . s . x ) , \
                 ALTER d TYPE text USING ( ( d ) COLLATE @ . \"C\" )",
            ),
            (
                "ALTER TABLE t ALTER c TYPE text USING c COLLATE \"C\"",
                "ALTER TABLE t ALTER c TYPE text USING c COLLATE \"C\"",
            ),
            ("ALTER TABLE t ADD c text COLLATE \"C\"", "ALTER TABLE t ADD c text COLLATE \"C\""),
        ] {
            assert_eq!(spelt(text), meant);
        }
    }
}
