//! Where a query that WITH RECURSIVE names may refer to itself, as PostgreSQL has it.

use std::ops::ControlFlow;

use sqlparser::ast;
use types::{Error, Result, SqlState};

use super::changes::modifying;
use super::names::fold;
use crate::syntax::walk::{self, Tree};

const INVALID_RECURSION: SqlState = SqlState(*b"42P19");

/// What a reference to itself may not stand in.
#[derive(Clone, Copy)]
enum Within {
    Nothing,
    /// A part of which this is said.
    A(&'static str),
}

struct References<'n> {
    name: &'n str,
    count: usize,
}

/// Names of the queries of one WITH that a query refers to, in any way.
pub(crate) fn references(query: &ast::Query, name: &str) -> bool {
    let mut references = References { name, count: 0 };
    // An error stands for a reference, too.
    references.query(query, Within::A("")).is_err() || references.count > 0
}

/// A recursive query's non-recursive term, its recursive one, and whether duplicates are kept.
///
/// # Errors
/// 42P19 where it is not of this form, 0A000 for what stands around it.
pub(crate) fn terms<'q>(
    name: &str,
    query: &'q ast::Query,
) -> Result<(&'q ast::SetExpr, &'q ast::SetExpr, bool)> {
    let invalid = |what: String| Err(Error::new(INVALID_RECURSION, what));
    if modifying(query).is_some() {
        return invalid(format!(
            "recursive query \"{name}\" must not contain data-modifying statements"
        ));
    }
    let ast::SetExpr::SetOperation { op: ast::SetOperator::Union, set_quantifier, left, right } =
        &*query.body
    else {
        return invalid(format!(
            "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] \
             recursive-term"
        ));
    };
    let all = match set_quantifier {
        ast::SetQuantifier::All => true,
        ast::SetQuantifier::None | ast::SetQuantifier::Distinct => false,
        other => return Err(Error::unsupported(format_args!("UNION {other}"))),
    };
    let mut references = References { name, count: 0 };
    references.set(left, Within::A("its non-recursive term"))?;
    references.set(right, Within::Nothing)?;
    for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
        references.query(&cte.query, Within::A("a subquery"))?;
    }
    let limited = match &query.limit_clause {
        Some(ast::LimitClause::LimitOffset { offset: Some(_), .. }) => Some("OFFSET"),
        Some(_) => Some("LIMIT"),
        None => query.fetch.as_ref().map(|_| "LIMIT"),
    };
    let around = match (query.order_by.is_some(), limited, query.locks.is_empty()) {
        (true, ..) => "ORDER BY",
        (_, Some(limited), _) => limited,
        (.., false) => "FOR UPDATE/SHARE",
        _ => return Ok((left, right, all)),
    };
    Err(Error::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("{around} in a recursive query is not implemented"),
    ))
}

impl References<'_> {
    fn query(&mut self, query: &ast::Query, within: Within) -> Result<()> {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            if fold(&cte.alias.name) == self.name {
                // From here on the name means another.
                return Ok(());
            }
            self.query(&cte.query, within)?;
        }
        self.set(&query.body, within)?;
        self.subqueries(&query.order_by)?;
        self.subqueries(&query.limit_clause)
    }

    fn set(&mut self, body: &ast::SetExpr, within: Within) -> Result<()> {
        match body {
            ast::SetExpr::Select(select) => self.select(select, within),
            ast::SetExpr::Query(query) => self.query(query, within),
            ast::SetExpr::SetOperation { op, set_quantifier, left, right } => {
                let all = *set_quantifier == ast::SetQuantifier::All;
                let (of_left, of_right) = match (op, all) {
                    (ast::SetOperator::Intersect, true) => {
                        (Within::A("INTERSECT"), Within::A("INTERSECT"))
                    }
                    (ast::SetOperator::Except, true) => (Within::A("EXCEPT"), Within::A("EXCEPT")),
                    (ast::SetOperator::Except, false) => (within, Within::A("EXCEPT")),
                    _ => (within, within),
                };
                let first = |of| if let Within::A(_) = within { within } else { of };
                self.set(left, first(of_left))?;
                self.set(right, first(of_right))
            }
            ast::SetExpr::Table(table) => match table.table_name.as_deref() {
                Some(name) if name.to_ascii_lowercase() == self.name => self.refer(within),
                _ => Ok(()),
            },
            other => self.subqueries(other),
        }
    }

    fn select(&mut self, select: &ast::Select, within: Within) -> Result<()> {
        for table in &select.from {
            self.joined(table, within)?;
        }
        self.subqueries(&select.projection)?;
        self.subqueries(&select.selection)?;
        self.subqueries(&select.group_by)?;
        self.subqueries(&select.having)?;
        self.subqueries(&select.distinct)
    }

    fn joined(&mut self, table: &ast::TableWithJoins, within: Within) -> Result<()> {
        use ast::JoinOperator as J;
        const OUTER: Within = Within::A("an outer join");
        // Whatever keeps rows without a match makes the other side's NULL.
        let from_right = table.joins.iter().rposition(|join| {
            matches!(join.join_operator, J::Right(_) | J::RightOuter(_) | J::FullOuter(_))
        });
        let of_left = |place: usize| match from_right {
            Some(last) if place <= last => OUTER,
            _ => within,
        };
        self.factor(&table.relation, of_left(0))?;
        for (place, join) in table.joins.iter().enumerate() {
            let of_right = match join.join_operator {
                J::Left(_) | J::LeftOuter(_) | J::FullOuter(_) => OUTER,
                _ => of_left(place + 1),
            };
            self.factor(&join.relation, of_right)?;
            self.subqueries(&join.join_operator)?;
        }
        Ok(())
    }

    fn factor(&mut self, factor: &ast::TableFactor, within: Within) -> Result<()> {
        match factor {
            ast::TableFactor::Table { name, args: None, .. } => match name.0.as_slice() {
                [ast::ObjectNamePart::Identifier(ident)] if fold(ident) == self.name => {
                    self.refer(within)
                }
                _ => Ok(()),
            },
            ast::TableFactor::Derived { subquery, .. } => self.query(subquery, within),
            ast::TableFactor::NestedJoin { table_with_joins, .. } => {
                self.joined(table_with_joins, within)
            }
            other => self.subqueries(other),
        }
    }

    /// Those of expressions.
    fn subqueries(&mut self, part: &dyn Tree) -> Result<()> {
        struct Find<'r, 'n>(&'r mut References<'n>, usize);
        impl ast::Visitor for Find<'_, '_> {
            type Break = Error;

            fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<Error> {
                self.1 += 1;
                // What is within it is looked at from there.
                match self.1 {
                    1 => match self.0.query(query, Within::A("a subquery")) {
                        Ok(()) => ControlFlow::Continue(()),
                        Err(error) => ControlFlow::Break(error),
                    },
                    _ => ControlFlow::Continue(()),
                }
            }

            fn post_visit_query(&mut self, _: &ast::Query) -> ControlFlow<Error> {
                self.1 -= 1;
                ControlFlow::Continue(())
            }
        }
        match walk::read(part, &mut Find(self, 0)) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    fn refer(&mut self, within: Within) -> Result<()> {
        let Within::A(part) = within else {
            self.count += 1;
            return match self.count {
                1 => Ok(()),
                _ => Err(self.wrong("must not appear more than once".into())),
            };
        };
        Err(self.wrong(format!("must not appear within {part}")))
    }

    fn wrong(&self, what: String) -> Error {
        let what = format!("recursive reference to query \"{}\" {what}", self.name);
        Error::new(INVALID_RECURSION, what)
    }
}
