//! Queries that change data, in their body or in a part of WITH.

use sqlparser::ast;

/// The data-modifying statement behind a WITH.
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
