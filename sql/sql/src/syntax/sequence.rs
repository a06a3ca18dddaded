//! CREATE SEQUENCE and ALTER SEQUENCE, whose options come in any order, what sqlparser does not
//! know of identity columns, and calls that name a sequence.

use sqlparser::ast;
use sqlparser::keywords::Keyword as K;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::syntax::ddl::{AlterIdentity, AlterSequence, Ddl, SequenceOptions};
use crate::syntax::names::{PG_TEMP, fold, function_name};

type Read<T> = Result<T, ParserError>;

/// After CREATE SEQUENCE.
pub(crate) fn create(parser: &mut Parser<'_>) -> Read<Ddl> {
    let if_not_exists = parser.parse_keywords(&[K::IF, K::NOT, K::EXISTS]);
    let name = parser.parse_object_name(false)?;
    Ok(Ddl::CreateSequence { name, if_not_exists, options: options(parser)? })
}

/// After CREATE TEMP SEQUENCE: of the session alone, as its schema says.
pub(crate) fn create_temporary(parser: &mut Parser<'_>) -> Read<Ddl> {
    let mut made = create(parser)?;
    if let Ddl::CreateSequence { name, .. } = &mut made {
        match name.0.as_slice() {
            [_] => name.0.insert(0, ast::ObjectNamePart::Identifier(ast::Ident::new(PG_TEMP))),
            [schema, _] if schema.as_ident().is_some_and(|schema| fold(schema) == PG_TEMP) => {}
            _ => {
                let what = "cannot create temporary relation in non-temporary schema";
                return Err(ParserError::ParserError(what.to_owned()));
            }
        }
    }
    Ok(made)
}

/// After ALTER SEQUENCE.
pub(crate) fn alter(parser: &mut Parser<'_>) -> Read<Ddl> {
    let if_exists = parser.parse_keywords(&[K::IF, K::EXISTS]);
    let name = parser.parse_object_name(false)?;
    let change = if parser.parse_keywords(&[K::RENAME, K::TO]) {
        AlterSequence::Rename(parser.parse_identifier()?)
    } else if parser.parse_keywords(&[K::OWNER, K::TO]) {
        parser.parse_identifier()?;
        AlterSequence::Options(SequenceOptions::default())
    } else {
        AlterSequence::Options(options(parser)?)
    };
    Ok(Ddl::AlterSequence { name, if_exists, change })
}

fn options(parser: &mut Parser<'_>) -> Read<SequenceOptions> {
    let mut options = SequenceOptions::default();
    while option(parser, &mut options)? {}
    Ok(options)
}

/// `false`: there is no further one.
fn option(parser: &mut Parser<'_>, options: &mut SequenceOptions) -> Read<bool> {
    if parser.parse_keyword(K::AS) {
        options.data_type = Some(parser.parse_data_type()?);
    } else if parser.parse_keyword(K::INCREMENT) {
        let _ = parser.parse_keyword(K::BY);
        options.increment = Some(number(parser)?);
    } else if parser.parse_keyword(K::MINVALUE) {
        options.min = Some(Some(number(parser)?));
    } else if parser.parse_keyword(K::MAXVALUE) {
        options.max = Some(Some(number(parser)?));
    } else if parser.parse_keywords(&[K::NO, K::MINVALUE]) {
        options.min = Some(None);
    } else if parser.parse_keywords(&[K::NO, K::MAXVALUE]) {
        options.max = Some(None);
    } else if parser.parse_keywords(&[K::NO, K::CYCLE]) {
        options.cycles = Some(false);
    } else if parser.parse_keyword(K::CYCLE) {
        options.cycles = Some(true);
    } else if parser.parse_keyword(K::START) {
        let _ = parser.parse_keyword(K::WITH);
        options.start = Some(number(parser)?);
    } else if parser.parse_keyword(K::RESTART) {
        let with = parser.parse_keyword(K::WITH);
        let given = with || matches!(parser.peek_token().token, Token::Number(..) | Token::Minus);
        options.restart = Some(if given { Some(number(parser)?) } else { None });
    } else if parser.parse_keyword(K::CACHE) {
        options.cache = Some(number(parser)?);
    } else if parser.parse_keywords(&[K::OWNED, K::BY]) {
        let owner = parser.parse_object_name(false)?;
        let none = owner.to_string().eq_ignore_ascii_case("none");
        options.owned_by = Some((!none).then_some(owner));
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn number(parser: &mut Parser<'_>) -> Read<i64> {
    let minus = parser.consume_token(&Token::Minus);
    if !minus {
        let _ = parser.consume_token(&Token::Plus);
    }
    let token = parser.next_token();
    let digits = match &token.token {
        Token::Number(digits, _) => digits.replace('_', ""),
        other => {
            return Err(ParserError::ParserError(format!("Expected: a number, found: {other}")));
        }
    };
    let text = if minus { format!("-{digits}") } else { digits };
    text.parse().map_err(|_| ParserError::ParserError(format!("{text} is no 64-bit number")))
}

/// `ALTER TABLE t ALTER c`, where what follows concerns its identity and nothing else does.
pub(crate) fn alter_identity(parser: &mut Parser<'_>) -> Read<Option<Ddl>> {
    if !parser.parse_keywords(&[K::ALTER, K::TABLE]) {
        return Ok(None);
    }
    let if_exists = parser.parse_keywords(&[K::IF, K::EXISTS]);
    let _ = parser.parse_keyword(K::ONLY);
    let table = parser.parse_object_name(false)?;
    if !parser.parse_keyword(K::ALTER) {
        return Ok(None);
    }
    let _ = parser.parse_keyword(K::COLUMN);
    let column = parser.parse_identifier()?;
    let change = if parser.parse_keywords(&[K::DROP, K::IDENTITY]) {
        AlterIdentity::Drop { if_exists: parser.parse_keywords(&[K::IF, K::EXISTS]) }
    } else {
        let mut options = SequenceOptions::default();
        let mut always = None;
        let mut any = false;
        loop {
            if parser.parse_keywords(&[K::SET, K::GENERATED, K::ALWAYS]) {
                always = Some(true);
            } else if parser.parse_keywords(&[K::SET, K::GENERATED, K::BY, K::DEFAULT]) {
                always = Some(false);
            } else if parser.peek_keyword(K::RESTART) {
                option(parser, &mut options)?;
            } else if parser.parse_keyword(K::SET) {
                if !option(parser, &mut options)? {
                    return Ok(None);
                }
            } else {
                break;
            }
            any = true;
        }
        if !any {
            return Ok(None);
        }
        AlterIdentity::Set { always, options }
    };
    Ok(Some(Ddl::AlterIdentity { table, if_exists, column, change }))
}

/// Puts the options of `IDENTITY (…)` into the one order that sqlparser takes.
pub(crate) fn order_identity_options(tokens: &mut Vec<TokenWithSpan>) {
    const ORDER: [K; 6] = [K::INCREMENT, K::MINVALUE, K::MAXVALUE, K::START, K::CACHE, K::CYCLE];
    let keyword = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => K::NoKeyword,
    };
    if !tokens.first().is_some_and(|first| matches!(keyword(first), K::CREATE | K::ALTER)) {
        return;
    }
    let mut at = 0;
    while at + 1 < tokens.len() {
        at += 1;
        if keyword(&tokens[at - 1]) != K::IDENTITY || tokens[at].token != Token::LParen {
            continue;
        }
        let inside = tokens[at + 1..].iter().position(|token| token.token == Token::RParen);
        let Some(length) = inside else { return };
        let mut options: Vec<Vec<TokenWithSpan>> = Vec::new();
        let mut negated = false;
        for token in tokens.drain(at + 1..at + 1 + length) {
            let word = keyword(&token);
            let begins = matches!(word, K::NO | K::SEQUENCE) || ORDER.contains(&word) && !negated;
            match options.last_mut() {
                Some(option) if !begins => option.push(token),
                _ => options.push(vec![token]),
            }
            negated = word == K::NO;
        }
        let rank = |option: &Vec<TokenWithSpan>| {
            let named = option.iter().map(keyword).find(|word| *word != K::NO);
            ORDER.iter().position(|word| Some(*word) == named).unwrap_or(ORDER.len())
        };
        // A sequence is named after its column.
        options.retain(|option| option.first().map(keyword) != Some(K::SEQUENCE));
        options.sort_by_key(rank);
        let ordered: Vec<_> = options.into_iter().flatten().collect();
        tokens.splice(at + 1..at + 1, ordered);
    }
}

/// OVERRIDING, which sqlparser does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Overriding {
    System,
    User,
}

/// Takes `OVERRIDING { SYSTEM | USER } VALUE` out of an INSERT.
pub(crate) fn take_overriding(tokens: &mut Vec<TokenWithSpan>) -> Option<Overriding> {
    let is = |token: &TokenWithSpan, name: &str| {
        matches!(&token.token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name))
    };
    if !tokens.first().is_some_and(|first| is(first, "insert") || is(first, "with")) {
        return None;
    }
    let found = tokens.windows(3).position(|three| {
        is(&three[0], "overriding")
            && (is(&three[1], "system") || is(&three[1], "user"))
            && is(&three[2], "value")
    })?;
    let which =
        if is(&tokens[found + 1], "system") { Overriding::System } else { Overriding::User };
    tokens.drain(found..found + 3);
    Some(which)
}

/// Notes it in the tree, in fields that PostgreSQL's grammar has no use for.
pub(crate) fn note_overriding(statement: &mut ast::Statement, which: Overriding) {
    if let ast::Statement::Insert(insert) = statement {
        match which {
            Overriding::System => insert.overwrite = true,
            Overriding::User => insert.ignore = true,
        }
    }
}

/// What was noted.
pub(crate) fn overriding(insert: &ast::Insert) -> Option<Overriding> {
    match (insert.overwrite, insert.ignore) {
        (true, _) => Some(Overriding::System),
        (_, true) => Some(Overriding::User),
        _ => None,
    }
}

/// Whether a call's first argument names a sequence.
fn takes_sequence(call: &ast::Function) -> bool {
    const NAMES: [&str; 3] = ["nextval", "currval", "setval"];
    function_name(&call.name).is_ok_and(|name| NAMES.contains(&name.as_str()))
}

/// The text that names a sequence in a call of its functions.
pub(crate) fn sequence_text(call: &mut ast::Function) -> Option<&mut String> {
    if !takes_sequence(call) {
        return None;
    }
    let ast::FunctionArguments::List(list) = &mut call.args else { return None };
    let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument)) = list.args.first_mut()?
    else {
        return None;
    };
    let mut argument = argument;
    while let ast::Expr::Cast { expr, .. } | ast::Expr::Nested(expr) = argument {
        argument = expr;
    }
    match argument {
        ast::Expr::Value(value) => match &mut value.value {
            ast::Value::SingleQuotedString(text)
            | ast::Value::EscapedStringLiteral(text)
            | ast::Value::UnicodeStringLiteral(text) => Some(text),
            ast::Value::DollarQuotedString(text) => Some(&mut text.value),
            _ => None,
        },
        _ => None,
    }
}

/// What names a sequence in a call of its functions: a text, as a regclass or not.
pub(crate) fn named_by<'e>(call: &ast::Function, argument: &'e ast::Expr) -> &'e ast::Expr {
    let is_one = takes_sequence(call);
    match argument {
        ast::Expr::Cast { expr, data_type, .. } if is_one => {
            let is_regclass = data_type.to_string().eq_ignore_ascii_case("regclass");
            if is_regclass { expr } else { argument }
        }
        _ => argument,
    }
}
