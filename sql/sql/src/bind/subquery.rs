//! Subqueries in expressions. One that refers to nothing outside becomes steps that come before the
//! statement's own, and the expression sees its result in a register; any other is run for each row
//! ([`applied`](super::applied)).

use procedure::query::{Aggregate, AggregateFunction};
use procedure::{BinaryOp, Expr, Query, Reg, Step};
use sqlparser::ast;
use types::{DataType, Error, Result, SqlState, Value};

use super::applied::Subquery;
use super::binder::{Binder, Typed};
use super::operators::negated_if;
use super::quantified::{Compared, Quantifier};
use super::scope::Scope;
use super::state::Gives;
use crate::syntax::exprs::is_row;

impl Binder<'_> {
    pub(super) fn of_expression(&mut self, scope: &Scope, query: &ast::Query) -> Result<Subquery> {
        let has_rows = self.applied.is_some();
        self.subquery(scope, query, has_rows)
    }

    /// A subquery that gives one value.
    pub(super) fn scalar_subquery(&mut self, scope: &Scope, query: &ast::Query) -> Result<Typed> {
        let Subquery { bound, given } = self.of_expression(scope, query)?;
        let [column] = bound.columns.as_slice() else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "subquery must return only one column"));
        };
        let (data_type, collated) = (column.data_type.clone(), bound.collation(0));
        let value = match given {
            Some(given) => self.apply(bound.query, given, Gives::Value, data_type),
            None => self.value_of(bound.query, data_type),
        }?;
        Ok(Typed { collated, ..value })
    }

    /// Steps before this statement's, and a register.
    pub(super) fn value_of(&mut self, query: Query, data_type: DataType) -> Result<Typed> {
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
            query,
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
        let Subquery { bound, given } = self.of_expression(scope, query)?;
        if let Some(given) = given {
            return self.apply(bound.query, given, Gives::Exists, DataType::Bool);
        }
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
        if is_row(expr) {
            let any = (Compared::By(BinaryOp::Equal), Quantifier::Any);
            let found = self.quantified_rows(scope, expr, any, query)?;
            return Ok(negated_if(negated, found));
        }
        let Subquery { bound, given } = self.of_expression(scope, query)?;
        let [column] = bound.columns.as_slice() else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "subquery has too many columns"));
        };
        let array = self.gather((bound.query, given), &column.data_type.clone())?;
        let input = self.expression(scope, expr)?;
        let found = self.equals_any(input, array)?;
        Ok(negated_if(negated, found))
    }

    /// `ARRAY(SELECT …)`.
    pub(super) fn array_subquery(&mut self, scope: &Scope, query: &ast::Query) -> Result<Typed> {
        let Subquery { bound, given } = self.of_expression(scope, query)?;
        let [column] = bound.columns.as_slice() else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "subquery must return only one column"));
        };
        self.gather((bound.query, given), &column.data_type.clone())
    }

    /// The one column of a query as an array; an empty one where it has no rows.
    fn gather(
        &mut self,
        (query, given): (Query, Option<Vec<(Reg, Expr)>>),
        element: &DataType,
    ) -> Result<Typed> {
        let data_type = DataType::Array(Box::new(element.without_modifier()));
        let gathered = Query::Aggregate {
            input: Box::new(query),
            groups: [].into(),
            sets: [].into(),
            aggregates: [Aggregate {
                function: AggregateFunction::ArrayAgg,
                input: Some(Expr::Column(0)),
                distinct: false,
                filter: None,
                separator: None,
                order: Box::default(),
                result: data_type.clone(),
            }]
            .into(),
        };
        let empty = Expr::Const(Value::array(Vec::new()));
        if let Some(given) = given {
            let array = self.apply(gathered, given, Gives::Value, data_type.clone())?;
            return Ok(Typed::new(Expr::Coalesce([array.expr, empty].into()), data_type));
        }
        let (array, found) = (self.register()?, self.register()?);
        self.steps.push(Step::Fetch {
            query: gathered,
            outputs: [array].into(),
            found,
            strict: false,
        });
        let array = Expr::Coalesce([Expr::Reg(array), empty].into());
        Ok(Typed::new(self.let_value(array)?, data_type))
    }
}

/// Of rows of truths the one that decides, as one row.
pub(super) fn verdict(compared: Query, quantifier: Quantifier) -> Query {
    let truth = || Expr::Column(0);
    let decides = match quantifier {
        Quantifier::Any => truth(),
        Quantifier::All => Expr::negated(truth()),
    };
    let any = |input| Aggregate {
        function: AggregateFunction::BoolOr,
        input: Some(input),
        distinct: false,
        filter: None,
        separator: None,
        order: Box::default(),
        result: DataType::Bool,
    };
    let found = Query::Aggregate {
        input: Box::new(compared),
        groups: [].into(),
        sets: [].into(),
        aggregates: [any(decides), any(Expr::is_null(truth(), false))].into(),
    };
    let constant = |truth| Expr::Const(Value::Bool(truth));
    let is_decided = quantifier == Quantifier::Any;
    let whens =
        [(Expr::Column(0), constant(is_decided)), (Expr::Column(1), Expr::Const(Value::Null))];
    let otherwise = Box::new(constant(!is_decided));
    let verdict = Expr::Case { whens: whens.into(), otherwise };
    Query::Project { input: Box::new(found), expressions: [verdict].into() }
}
