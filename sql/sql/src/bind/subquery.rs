//! Subqueries in expressions: they become steps that come before the statement's own, and the
//! expression sees their result in a register. A subquery that refers to the outer query is not
//! supported.

use procedure::{Expr, Step};
use sqlparser::ast;
use types::{DataType, Error, Result, SqlState, Value};

use super::binder::{Binder, Typed};
use super::operators::negated_if;
use super::scope::Scope;

impl Binder<'_> {
    /// A subquery that gives one value: steps before this statement's, and a register.
    pub(super) fn scalar_subquery(&mut self, scope: &Scope, query: &ast::Query) -> Result<Typed> {
        let bound = self.subquery(scope, query)?;
        let [column] = bound.columns.as_slice() else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "subquery must return only one column"));
        };
        let data_type = column.data_type.clone();
        let (row, count, value) = (self.register()?, self.register()?, self.register()?);
        let first_only = Step::Require {
            condition: Expr::equal(Expr::Reg(count), Expr::Const(Value::Int(0))),
            error: procedure::OnError::new(
                SqlState::CARDINALITY_VIOLATION,
                "more than one row returned by a subquery used as an expression",
            ),
        };
        let carried =
            |register, initial, next| procedure::step::Carried { register, initial, next };
        self.steps.push(Step::ForRows {
            query: bound.query,
            row: [row].into(),
            body: [first_only].into(),
            carried: [
                carried(count, Expr::Const(Value::Int(0)), Expr::Const(Value::Int(1))),
                carried(value, Expr::Const(Value::Null), Expr::Reg(row)),
            ]
            .into(),
        });
        Ok(Typed::new(Expr::Reg(value), data_type))
    }

    pub(super) fn exists_subquery(&mut self, scope: &Scope, query: &ast::Query) -> Result<Typed> {
        let bound = self.subquery(scope, query)?;
        let found = self.register()?;
        self.steps.push(Step::Fetch {
            query: bound.query,
            outputs: [].into(),
            found,
            strict: false,
        });
        Ok(Typed::new(Expr::Reg(found), DataType::Bool))
    }

    /// The subquery's values are gathered into an array first.
    pub(super) fn in_subquery(
        &mut self,
        scope: &Scope,
        expr: &ast::Expr,
        query: &ast::Query,
        negated: bool,
    ) -> Result<Typed> {
        if let ast::Expr::Tuple(_) = expr {
            return Err(Error::unsupported("rows IN a subquery"));
        }
        let bound = self.subquery(scope, query)?;
        let [column] = bound.columns.as_slice() else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "subquery has too many columns"));
        };
        let array = self.gather(bound.query, &column.data_type.clone())?;
        let input = self.expression(scope, expr)?;
        let found = self.equals_any(input, array)?;
        Ok(negated_if(negated, found))
    }

    /// The one column of a query as an array; an empty one where it has no rows.
    pub(super) fn gather(&mut self, query: procedure::Query, element: &DataType) -> Result<Typed> {
        let data_type = DataType::Array(Box::new(element.without_modifier()));
        let gathered = procedure::Query::Aggregate {
            input: Box::new(query),
            groups: [].into(),
            aggregates: [procedure::query::Aggregate {
                function: procedure::query::AggregateFunction::ArrayAgg,
                input: Some(Expr::Column(0)),
                distinct: false,
                filter: None,
                result: data_type.clone(),
            }]
            .into(),
        };
        let (array, found) = (self.register()?, self.register()?);
        self.steps.push(Step::Fetch {
            query: gathered,
            outputs: [array].into(),
            found,
            strict: false,
        });
        let empty = Expr::Const(Value::array(Vec::new()));
        let array = Expr::Coalesce([Expr::Reg(array), empty].into());
        Ok(Typed::new(self.let_value(array)?, data_type))
    }

    pub(super) fn subquery(
        &mut self,
        scope: &Scope,
        query: &ast::Query,
    ) -> Result<super::state::BoundQuery> {
        self.enclosing.push(scope.clone());
        let aggregates = std::mem::take(&mut self.aggregates);
        let bound = self.query(query);
        self.aggregates = aggregates;
        self.enclosing.pop();
        bound
    }
}
