//! Operators by what they are called.

use procedure::BinaryOp;
use sqlparser::ast;

/// `OPERATOR(pg_catalog.~)` is `~`.
pub(super) fn spelled_out(op: &ast::BinaryOperator) -> Option<ast::BinaryOperator> {
    use ast::BinaryOperator as B;
    let B::PGCustomBinaryOperator(names) = op else { return None };
    Some(match names.last()?.as_str() {
        "=" => B::Eq,
        "<>" | "!=" => B::NotEq,
        "<" => B::Lt,
        "<=" => B::LtEq,
        ">" => B::Gt,
        ">=" => B::GtEq,
        "+" => B::Plus,
        "-" => B::Minus,
        "*" => B::Multiply,
        "/" => B::Divide,
        "%" => B::Modulo,
        "||" => B::StringConcat,
        "~" => B::PGRegexMatch,
        "~*" => B::PGRegexIMatch,
        "!~" => B::PGRegexNotMatch,
        "!~*" => B::PGRegexNotIMatch,
        "~~" => B::PGLikeMatch,
        "~~*" => B::PGILikeMatch,
        "!~~" => B::PGNotLikeMatch,
        "!~~*" => B::PGNotILikeMatch,
        "@>" => B::AtArrow,
        "<@" => B::ArrowAt,
        "&&" => B::PGOverlap,
        _ => return None,
    })
}

/// The name of an operator of regular expressions.
pub(super) fn regex_operator(op: &ast::BinaryOperator) -> Option<&'static str> {
    use ast::BinaryOperator as B;
    Some(match op {
        B::PGRegexMatch => "~",
        B::PGRegexIMatch => "~*",
        B::PGRegexNotMatch => "!~",
        B::PGRegexNotIMatch => "!~*",
        _ => return None,
    })
}

/// The comparison that an operator is; `None`: it is none.
pub(super) fn comparison_by(op: &ast::BinaryOperator) -> Option<BinaryOp> {
    use ast::BinaryOperator as B;
    Some(match op {
        B::Eq => BinaryOp::Equal,
        B::NotEq => BinaryOp::NotEqual,
        B::Lt => BinaryOp::Less,
        B::LtEq => BinaryOp::LessOrEqual,
        B::Gt => BinaryOp::Greater,
        B::GtEq => BinaryOp::GreaterOrEqual,
        _ => return None,
    })
}
