//! What can be said of an expression by its form alone.

use sqlparser::ast;
use types::{Error, Result};

use super::names::fold;

/// Whether it is a row that is spelled out.
pub fn is_row(expr: &ast::Expr) -> bool {
    match expr {
        ast::Expr::Nested(inner) => is_row(inner),
        ast::Expr::Tuple(_) => true,
        ast::Expr::Function(call) => is_row_call(call),
        _ => false,
    }
}

/// `ROW(…)`, with or without fields.
pub fn is_row_call(call: &ast::Function) -> bool {
    let is_row =
        |name: &ast::Ident| name.quote_style.is_none() && name.value.eq_ignore_ascii_case("row");
    let [ast::ObjectNamePart::Identifier(name)] = call.name.0.as_slice() else { return false };
    call.over.is_none() && is_row(name)
}

/// The relation that an expression names as a whole, or could.
pub fn named_alone(expr: &ast::Expr) -> Option<String> {
    match expr {
        ast::Expr::Nested(inner) => named_alone(inner),
        ast::Expr::Identifier(name) => Some(fold(name)),
        _ => None,
    }
}

/// The expression of an argument that has neither a name nor a star.
///
/// # Errors
/// 0A000: it has one.
pub fn positional(arg: &ast::FunctionArg) -> Result<&ast::Expr> {
    match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Ok(expr),
        other => Err(Error::unsupported(format_args!("the argument {other}"))),
    }
}
