//! WITH RECURSIVE: queries that refer to themselves, and to those that stand after them.

use procedure::{Column, Query};
use sqlparser::ast;
use types::cast::common_type;
use types::{DataType, Error, Result, SqlState};

use super::binder::Binder;
use super::state::{BoundQuery, CommonTable};
use crate::syntax::names::fold;
use crate::syntax::recursion::{references, terms};

impl Binder<'_> {
    /// A query that WITH names, its columns as that calls them.
    pub(super) fn common_query(&mut self, with: &ast::With, cte: &ast::Cte) -> Result<BoundQuery> {
        if is_recursive(with, cte) {
            return self.recursive_query(cte);
        }
        let mut bound = self.query(&cte.query)?;
        name_columns(&mut bound.columns, &cte.alias)?;
        Ok(bound)
    }

    fn recursive_query(&mut self, cte: &ast::Cte) -> Result<BoundQuery> {
        let name = fold(&cte.alias.name);
        let (start, step, all) = terms(&name, &cte.query)?;
        let outer_ctes = self.ctes.len();
        self.common_tables(&cte.query)?;
        let BoundQuery { query: start, mut columns, collated } =
            self.nested(|binder| binder.set_expression(start, &[]))?;
        name_columns(&mut columns, &cte.alias)?;
        let (number, width) = (self.recursions, start.width());
        self.recursions = number.checked_add(1).ok_or_else(crate::syntax::depth::too_deep)?;
        let came_last = Query::CameLast { number, width };
        let bound =
            BoundQuery { query: came_last, columns: columns.clone(), collated: collated.clone() };
        self.ctes.push(CommonTable { name: name.clone(), bound, weight: 1, is_itself: true });
        let step = self.union_side(step, &[]);
        self.ctes.truncate(outer_ctes);
        let step = step?;
        check_types(&name, &columns, &step.columns)?;
        let step = self.converted_columns(step, &columns)?;
        let query = Query::Recursive { number, all, start: Box::new(start), step: Box::new(step) };
        Ok(BoundQuery { query, columns, collated })
    }
}

/// The non-recursive term's types are those of the whole.
fn check_types(name: &str, columns: &[Column], step: &[Column]) -> Result<()> {
    if columns.len() != step.len() {
        let what = "each UNION query must have the same number of columns";
        return Err(Error::new(SqlState::SYNTAX_ERROR, what));
    }
    for (place, (column, step)) in columns.iter().zip(step).enumerate() {
        let (own, other) = (&column.data_type, &step.data_type);
        let overall = common_type(own, other).ok_or_else(|| {
            let what = format!("UNION types {own} and {other} cannot be matched");
            Error::new(SqlState::DATATYPE_MISMATCH, what)
        })?;
        if overall != *own && overall != DataType::Unknown {
            let what = format!(
                "recursive query \"{name}\" column {} has type {own} in non-recursive term but type \
                 {overall} overall",
                place + 1
            );
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, what)
                .with_hint("Cast the output of the non-recursive term to the correct type."));
        }
    }
    Ok(())
}

/// Aggregates over rows that came last.
pub(super) fn in_step() -> Error {
    let what = "aggregate functions are not allowed in a recursive query's recursive term";
    Error::new(SqlState(*b"42P19"), what)
}

pub(super) fn is_recursive(with: &ast::With, cte: &ast::Cte) -> bool {
    with.recursive && references(&cte.query, &fold(&cte.alias.name))
}

/// `AS name (a, b)`.
pub(super) fn name_columns(columns: &mut [Column], alias: &ast::TableAlias) -> Result<()> {
    if alias.columns.len() > columns.len() {
        let what = format!(
            "WITH query \"{}\" has {} columns available but {} columns specified",
            fold(&alias.name),
            columns.len(),
            alias.columns.len()
        );
        return Err(Error::new(SqlState::INVALID_COLUMN_REFERENCE, what));
    }
    for (column, name) in columns.iter_mut().zip(&alias.columns) {
        column.name = fold(&name.name);
    }
    Ok(())
}

pub(super) fn check_names(with: &ast::With) -> Result<()> {
    for (place, cte) in with.cte_tables.iter().enumerate() {
        let name = fold(&cte.alias.name);
        if with.cte_tables[..place].iter().any(|other| fold(&other.alias.name) == name) {
            let what = format!("WITH query name \"{name}\" specified more than once");
            return Err(Error::new(SqlState(*b"42712"), what));
        }
    }
    Ok(())
}

/// The queries of a WITH, those that others refer to before these.
///
/// # Errors
/// 0A000 where two refer to each other.
pub(super) fn in_order(with: &ast::With) -> Result<Vec<&ast::Cte>> {
    let mut left: Vec<&ast::Cte> = with.cte_tables.iter().collect();
    if !with.recursive {
        return Ok(left);
    }
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let needs_none = |cte: &&ast::Cte| {
            let others = left.iter().filter(|other| other.alias.name != cte.alias.name);
            !others.into_iter().any(|other| references(&cte.query, &fold(&other.alias.name)))
        };
        let Some(place) = left.iter().position(needs_none) else {
            let what = "mutual recursion between WITH items is not implemented";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        };
        ordered.push(left.remove(place));
    }
    Ok(ordered)
}
