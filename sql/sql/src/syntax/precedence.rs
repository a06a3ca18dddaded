//! Which operators bind more tightly, where sqlparser has another view of it than PostgreSQL.
//!
//! *Before an operand.* A sign binds more tightly than `^`, other operators less tightly than `+`,
//! and NOT takes all that follows it up to AND and OR, EXISTS or not:
//!
//! ```text
//!                             sqlparser                      PostgreSQL
//!   - i ^ 2                   - (i ^ 2)                      (- i) ^ 2
//!   ~ i - j                   (~ i) - j                      ~ (i - j)
//!   NOT EXISTS (q) IS NULL    (NOT EXISTS (q)) IS NULL       NOT (EXISTS (q) IS NULL)
//! ```
//!
//! *Comparisons in a row.* `a < b = c` has no meaning, nor has `a LIKE b LIKE c`, nor
//! `a IS DISTINCT FROM b IS NULL`.
//!
//! *The right side of `IS [NOT] DISTINCT FROM`.* To sqlparser it is all that follows, where
//! PostgreSQL ends it at AND and OR. A chain of them would nest as deeply as it is long:
//!
//! ```text
//!   x AND a IS DISTINCT FROM b OR c
//!   sqlparser      x AND (a IS DISTINCT FROM (b OR c))
//!   PostgreSQL    (x AND (a IS DISTINCT FROM b)) OR c
//! ```

use sqlparser::ast::{self, BinaryOperator as Op, CastKind, Expr, UnaryOperator};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// More than `^`, AT TIME ZONE and COLLATE, less than `[` and `::`.
const SIGN: u8 = 125;
/// What operators have that have no precedence of their own.
const OTHER: u8 = 70;
const BETWEEN: u8 = 60;
pub(crate) const IS: u8 = 40;
const NOT: u8 = 30;

/// Stands before the lower bound of `BETWEEN SYMMETRIC`.
pub(crate) const SYMMETRIC: &str = "SYMMETRIC";

/// An operator that stands before its operand; `None`: there is none here.
pub(crate) fn prefix(parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
    let (op, precedence) = match &parser.peek_token_ref().token {
        Token::Minus => (UnaryOperator::Minus, SIGN),
        Token::Plus => (UnaryOperator::Plus, SIGN),
        Token::Tilde => (UnaryOperator::BitwiseNot, OTHER),
        Token::AtSign => (UnaryOperator::PGAbs, OTHER),
        Token::PGSquareRoot => (UnaryOperator::PGSquareRoot, OTHER),
        Token::PGCubeRoot => (UnaryOperator::PGCubeRoot, OTHER),
        Token::Word(word) if word.keyword == Keyword::NOT && word.quote_style.is_none() => {
            (UnaryOperator::Not, NOT)
        }
        _ => return typed_literal(parser),
    };
    parser.advance_token();
    let operand = parser.parse_subexpr(precedence);
    Some(operand.map(|operand| match (op, operand) {
        (UnaryOperator::Not, Expr::Exists { subquery, negated: false }) => {
            Expr::Exists { subquery, negated: true }
        }
        (op, operand) => Expr::UnaryOp { op, expr: Box::new(operand) },
    }))
}

/// `inet '::1'`, `public.mood 'sad'` and `interval(2) '1.234'` as conversions: sqlparser reads no
/// literal of a type that it has no word for, and drops a literal's precision.
fn typed_literal(parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
    let token = |at: usize| &parser.peek_nth_token_ref(at).token;
    let Token::Word(word) = token(0) else { return None };
    let mut at = 1;
    if word.keyword == Keyword::INTERVAL && word.quote_style.is_none() {
        let is_precise = matches!((token(1), token(2)), (Token::LParen, Token::Number(..)));
        if !is_precise || *token(3) != Token::RParen {
            return None;
        }
        at = 4;
    } else if word.keyword == Keyword::NoKeyword || word.quote_style.is_some() {
        while *token(at) == Token::Period && matches!(token(at + 1), Token::Word(_)) {
            at += 2;
        }
    } else {
        return None;
    }
    matches!(token(at), Token::SingleQuotedString(_)).then(|| {
        let data_type = parser.parse_data_type()?;
        Ok(Expr::Cast {
            kind: CastKind::DoubleColon,
            expr: Box::new(Expr::Value(parser.parse_value()?)),
            data_type,
            array: false,
            format: None,
        })
    })
}

fn is_word(token: &Token, text: &str) -> bool {
    matches!(token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
}

/// What stands after an operand and is read otherwise than by sqlparser; `None`: nothing does.
pub(crate) fn infix(parser: &mut Parser<'_>, left: &Expr) -> Option<Result<Expr, ParserError>> {
    distinct_from(parser, left).or_else(|| between(parser, left))
}

fn distinct_from(parser: &mut Parser<'_>, left: &Expr) -> Option<Result<Expr, ParserError>> {
    use Keyword as K;
    let negated = parser.parse_keywords(&[K::IS, K::NOT, K::DISTINCT, K::FROM]);
    if !negated && !parser.parse_keywords(&[K::IS, K::DISTINCT, K::FROM]) {
        return None;
    }
    let right = parser.parse_subexpr(IS).map(Box::new);
    let left = Box::new(left.clone());
    Some(right.map(|right| match negated {
        true => Expr::IsNotDistinctFrom(left, right),
        false => Expr::IsDistinctFrom(left, right),
    }))
}

/// `a BETWEEN SYMMETRIC b AND c`, whose lower bound becomes `SYMMETRIC b`.
fn between(parser: &mut Parser<'_>, left: &Expr) -> Option<Result<Expr, ParserError>> {
    let next = |n| &parser.peek_nth_token_ref(n).token;
    let negated = is_word(next(0), "not");
    let between = usize::from(negated);
    if !is_word(next(between), "between") {
        return None;
    }
    let symmetric = is_word(next(between + 1), SYMMETRIC);
    if !symmetric && !is_word(next(between + 1), "asymmetric") {
        return None;
    }
    (0..between + 2).for_each(|_| parser.advance_token());
    Some(between_bounds(parser, symmetric).map(|(low, high)| Expr::Between {
        expr: Box::new(left.clone()),
        negated,
        low: Box::new(low),
        high: Box::new(high),
    }))
}

fn between_bounds(parser: &mut Parser<'_>, symmetric: bool) -> Result<(Expr, Expr), ParserError> {
    let low = parser.parse_subexpr(BETWEEN)?;
    parser.expect_keyword_is(Keyword::AND)?;
    let high = parser.parse_subexpr(BETWEEN)?;
    let low = match symmetric {
        true => Expr::Prefixed { prefix: ast::Ident::new(SYMMETRIC), value: Box::new(low) },
        false => low,
    };
    Ok((low, high))
}

/// # Errors
/// The operator that follows `left` has no meaning behind the one that `left` is of.
pub(crate) fn refuse_chain(parser: &Parser<'_>, left: &Expr) -> Result<(), ParserError> {
    let token = &parser.peek_token_ref().token;
    let is_chain = match left {
        Expr::BinaryOp { op, .. } if is_comparison(op) => matches!(
            token,
            Token::Eq | Token::Neq | Token::Lt | Token::LtEq | Token::Gt | Token::GtEq
        ),
        Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) => {
            ["is", "isnull", "notnull"].iter().any(|word| is_word(token, word))
        }
        Expr::Like { .. } | Expr::ILike { .. } | Expr::SimilarTo { .. } | Expr::Between { .. } => {
            let words = [Keyword::LIKE, Keyword::ILIKE, Keyword::SIMILAR, Keyword::BETWEEN];
            let next = |n| match &parser.peek_nth_token_ref(n).token {
                Token::Word(word) => word.keyword,
                _ => Keyword::NoKeyword,
            };
            words.contains(&next(usize::from(next(0) == Keyword::NOT)))
        }
        _ => false,
    };
    match is_chain {
        false => Ok(()),
        true => parser.expected_ref("an expression that ends here", parser.peek_token_ref()),
    }
}

fn is_comparison(op: &Op) -> bool {
    matches!(op, Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq)
}

#[cfg(test)]
mod tests {
    use crate::syntax::parse::parse_expression;

    #[test]
    fn operators_before_an_operand_bind_as_in_postgresql() {
        for (text, meant) in [
            ("- i ^ 2", "(- i) ^ 2"),
            ("+ i ^ 2", "(+ i) ^ 2"),
            ("2 ^ - i ^ 2", "(2 ^ (- i)) ^ 2"),
            ("- i * 2", "(- i) * 2"),
            ("- - i", "-(- i)"),
            ("- i::int", "- (i::int)"),
            ("- i[1]", "- (i[1])"),
            ("a - - b ^ c", "a - ((- b) ^ c)"),
            ("~ i - j", "~ (i - j)"),
            ("~ i * j ^ k", "~ (i * (j ^ k))"),
            ("~ i & j", "(~ i) & j"),
            ("~ i = j", "(~ i) = j"),
            ("@ i - j", "@ (i - j)"),
            ("@ - i ^ 2", "@ ((- i) ^ 2)"),
            ("|/ i + j", "|/ (i + j)"),
            ("NOT EXISTS (SELECT 1) IS NULL", "NOT (EXISTS (SELECT 1) IS NULL)"),
            ("NOT EXISTS (SELECT 1) > x AND y", "(NOT (EXISTS (SELECT 1) > x)) AND y"),
            ("NOT EXISTS (SELECT 1) OR x", "(NOT EXISTS (SELECT 1)) OR x"),
            ("NOT a = b", "NOT (a = b)"),
            ("NOT NOT a IS NULL", "NOT (NOT (a IS NULL))"),
            ("a + b << c", "(a + b) << c"),
            ("a < b IS NULL", "(a < b) IS NULL"),
            ("a || b = c", "(a || b) = c"),
        ] {
            assert_eq!(shape(text), shape(meant), "{text}");
        }
    }

    #[test]
    fn comparisons_do_not_chain() {
        for text in [
            "i < j = b",
            "a = b = c",
            "a <> b >= c AND d",
            "x OR NOT a < b <= c",
            "a LIKE b LIKE c",
            "a NOT LIKE b NOT ILIKE c",
            "a BETWEEN 1 AND 2 LIKE b",
            "a IS DISTINCT FROM b IS DISTINCT FROM c",
            "a IS NOT DISTINCT FROM b IS NULL",
        ] {
            assert_eq!(parse_expression(text).unwrap_err().code().as_str(), "42601", "{text}");
        }
        for text in
            ["(i < j) = b", "a = ANY (b) = c", "a IN (1) = b", "a IS NULL = b", "a = b OR c = d"]
        {
            assert!(parse_expression(text).is_ok(), "{text}");
        }
    }

    /// A text that was made of a tree is read as that tree.
    #[test]
    fn what_is_written_is_read_again() {
        for text in
            ["- i ^ 2", "(- i) ^ 2", "- (i ^ 2)", "~ (i - j) - k", "NOT EXISTS (SELECT 1) IS NULL"]
        {
            let parsed = parse_expression(text).unwrap();
            assert_eq!(shape(&parsed.to_string()), shape(text), "{text}");
        }
    }

    #[test]
    fn is_distinct_from_ends_at_and_and_or() {
        for (text, meant) in [
            ("a IS DISTINCT FROM b OR c", "(a IS DISTINCT FROM b) OR c"),
            ("a IS NOT DISTINCT FROM b AND c", "(a IS NOT DISTINCT FROM b) AND c"),
            ("x AND a IS DISTINCT FROM b OR c", "(x AND (a IS DISTINCT FROM b)) OR c"),
            ("x OR a IS DISTINCT FROM b AND c", "x OR ((a IS DISTINCT FROM b) AND c)"),
            ("NOT a IS DISTINCT FROM b OR c", "(NOT (a IS DISTINCT FROM b)) OR c"),
            (
                "x AND NOT a IS DISTINCT FROM b AND d OR c",
                "((x AND (NOT (a IS DISTINCT FROM b))) AND d) OR c",
            ),
            (
                "a IS DISTINCT FROM b AND c IS DISTINCT FROM d OR e",
                "((a IS DISTINCT FROM b) AND (c IS DISTINCT FROM d)) OR e",
            ),
            (
                "a IS DISTINCT FROM b OR c IS DISTINCT FROM d OR e",
                "((a IS DISTINCT FROM b) OR (c IS DISTINCT FROM d)) OR e",
            ),
            // These were right, and stay.
            ("a IS DISTINCT FROM b = c", "a IS DISTINCT FROM (b = c)"),
            ("a IS DISTINCT FROM (b OR c)", "a IS DISTINCT FROM (b OR c)"),
            ("NOT (a OR b) AND c", "(NOT (a OR b)) AND c"),
            ("a AND (b OR c)", "a AND (b OR c)"),
        ] {
            assert_eq!(shape(text), shape(meant), "{text}");
        }
    }

    /// The tree, with or without parentheses in the text.
    fn shape(text: &str) -> String {
        fn written(expr: &super::Expr) -> String {
            use super::Expr as E;
            match expr {
                E::Nested(inner) => written(inner),
                E::IsNull(inner) => format!("({} IS NULL)", written(inner)),
                E::Exists { negated: true, .. } => "(NOT (EXISTS))".to_owned(),
                E::Exists { negated: false, .. } => "(EXISTS)".to_owned(),
                E::Cast { expr, .. } => format!("({}::)", written(expr)),
                E::CompoundFieldAccess { root, .. } => format!("({}[])", written(root)),
                E::BinaryOp { left, op, right } => {
                    format!("({} {op} {})", written(left), written(right))
                }
                E::IsDistinctFrom(left, right) => {
                    format!("({} <> {})", written(left), written(right))
                }
                E::IsNotDistinctFrom(left, right) => {
                    format!("({} == {})", written(left), written(right))
                }
                E::UnaryOp { op, expr } => format!("({op} {})", written(expr)),
                other => other.to_string(),
            }
        }
        written(&parse_expression(text).unwrap())
    }
}
