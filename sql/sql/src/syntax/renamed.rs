//! Texts of a schema's expressions, under another name of a column.

use sqlparser::ast;
use types::Result;

use crate::syntax::names::fold;
use crate::syntax::parse::parse_expression;
use crate::syntax::walk;

/// The text of a condition over one table, with another name for one of its columns.
pub(crate) fn with_column_renamed(text: &str, old: &str, new: &str) -> Result<String> {
    let mut condition = parse_expression(text)?;
    let _ = walk::change_expressions(&mut condition, |expr| {
        let name = match expr {
            ast::Expr::Identifier(name) => Some(name),
            ast::Expr::CompoundIdentifier(names) => names.last_mut(),
            _ => None,
        };
        if let Some(name) = name.filter(|name| fold(name) == old) {
            *name = match parse_expression(new) {
                Ok(ast::Expr::Identifier(plain)) if fold(&plain) == new => plain,
                _ => ast::Ident::with_quote('"', new),
            };
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    Ok(condition.to_string())
}
