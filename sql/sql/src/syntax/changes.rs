//! Queries that change data, in their body or in a part of WITH, and what they change it to.

use sqlparser::ast;

/// The data-modifying statement after a WITH.
pub(crate) fn modifying(query: &ast::Query) -> Option<&ast::Statement> {
    use ast::SetExpr as E;
    match &*query.body {
        E::Insert(statement)
        | E::Update(statement)
        | E::Delete(statement)
        | E::Merge(statement) => Some(statement),
        _ => None,
    }
}

/// Whether a part of WITH changes data.
pub(crate) fn names_changes(query: &ast::Query) -> bool {
    let parts = query.with.iter().flat_map(|with| &with.cte_tables);
    parts.into_iter().any(|part| modifying(&part.query).is_some())
}

/// Whether a value is the word DEFAULT.
pub(crate) fn is_default(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// The row of `VALUES` with one row.
pub(crate) fn single_row(query: &ast::Query) -> Option<&[ast::Expr]> {
    match &*query.body {
        ast::SetExpr::Values(values) if is_plain(query) => match values.rows.as_slice() {
            [row] => Some(&row.content),
            _ => None,
        },
        _ => None,
    }
}

/// How many columns an INSERT without a list of them gives values for, as far as its text tells.
pub(crate) fn given_columns(source: Option<&ast::Query>) -> usize {
    let Some(source) = source else { return 0 };
    let names_all = |items: &[ast::SelectItem]| {
        use ast::SelectItem as Item;
        let is_one = |it: &Item| matches!(it, Item::UnnamedExpr(_) | Item::ExprWithAlias { .. });
        items.iter().all(is_one)
    };
    match &*source.body {
        ast::SetExpr::Values(values) => values.rows.first().map_or(0, |row| row.content.len()),
        ast::SetExpr::Select(select) if names_all(&select.projection) => select.projection.len(),
        _ => usize::MAX,
    }
}

pub(crate) fn is_plain(query: &ast::Query) -> bool {
    query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
}
