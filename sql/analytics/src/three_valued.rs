//! IN over a subquery, and comparisons with ANY or ALL of one: true, false or NULL.
//!
//! ```text
//!   x IN (SELECT c …)  =  found OR (NULL AND (c_null OR (x IS NULL AND some)))
//!
//!   found   EXISTS (… WHERE c = x)         c_null   EXISTS (… WHERE c IS NULL)
//!   some    EXISTS (…)                     x NOT IN (…)  =  NOT x IN (…)
//! ```
//!
//! DataFusion makes a join of IN whose answer is true or false. That suffices where NULL and false
//! mean the same: in WHERE, HAVING and ON, below nothing but AND and OR. There IN stays as it is,
//! and so does an uncorrelated NOT IN that is a condition of its own, for which DataFusion has a
//! join that knows of NULL. Below NOT, only falsehood counts, and nothing of it is NULL either:
//!
//! ```text
//!   NOT x IN (…)  ▶  NOT found AND NOT c_null AND (x IS NOT NULL OR NOT some)
//! ```
//!
//! These are three anti joins. Everywhere else the first line is written out. What cannot be NULL
//! is left out of both. A subquery that is one row, whatever it reads, is compared as a value.
//!
//! *Cost.* At most three joins with the subquery, of which that for `found` goes by a hash table,
//! and the others end at the first row where the subquery asks nothing of the outer row.
//!
//! An EXISTS which this produces where DataFusion accepts none is turned into a mark join by
//! [`marks`](crate::marks).

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{JoinType, Subquery};
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, lit,
};
use types::Error;

use crate::faults::raise;
use crate::variable_scale::VARIABLE_SCALE;

/// What a subquery's column is called where it is compared.
const VALUE: &str = "in:value";

/// The plan with each of them as what it means in its place.
pub(crate) fn three_valued(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(node).data()
}

fn node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Filter(filter) if has_subquery(&filter.predicate) => {
            let schema = filter.input.schema().clone();
            let place = Place { schema: &schema, joins: true };
            let predicate = place.conditions(filter.predicate)?;
            let filter = Filter::try_new(predicate, filter.input)?;
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        }
        LogicalPlan::Join(mut join) if join.filter.as_ref().is_some_and(asks_elsewhere) => {
            let condition = join.filter.take().unwrap_or_else(|| lit(true));
            let schema = merge_schema(&[&*join.left, &*join.right]);
            if join.join_type != JoinType::Inner {
                let place = Place { schema: &schema, joins: false };
                join.filter = Some(place.conditions(condition)?);
                return Ok(Transformed::yes(LogicalPlan::Join(join)));
            }
            // As if WHERE said it, where more is possible.
            let conditions = split_conjunction_owned(condition);
            let (above, within): (Vec<Expr>, Vec<Expr>) =
                conditions.into_iter().partition(asks_elsewhere);
            join.filter = conjunction(within);
            let place = Place { schema: &schema, joins: true };
            let above = place.conditions(conjunction(above).unwrap_or_else(|| lit(true)))?;
            let filter = Filter::try_new(above, Arc::new(LogicalPlan::Join(join)))?;
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        }
        plan => anywhere(plan),
    }
}

/// Where NULL is an answer of its own.
fn anywhere(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut has_one = false;
    plan.apply_expressions(|expr| {
        has_one |= has_subquery(expr);
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !has_one {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    let place = Place { schema: &schema, joins: false };
    let names = NamePreserver::new(&plan);
    let plan = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        place.exact(expr).map(|expr| Transformed::yes(name.restore(expr)))
    })?;
    plan.data.recompute_schema().map(Transformed::yes)
}

pub(crate) fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| {
        let is_one = matches!(
            expr,
            Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::Exists(_)
                | Expr::ScalarSubquery(_)
        );
        Ok(is_one)
    };
    expr.exists(is_one).unwrap_or(true)
}

/// Whether a condition of ON says something of a subquery, or of a query around this one.
fn asks_elsewhere(expr: &Expr) -> bool {
    has_subquery(expr) || expr.contains_outer()
}

/// Where an expression stands.
struct Place<'a> {
    schema: &'a DFSchema,
    /// DataFusion makes joins of what is a condition here.
    joins: bool,
}

/// Operators of a subquery that is asked up to three times: what lies in it was asked three times
/// before, and so on.
const COPIED_MAX: usize = 300;

/// `x = ANY (subquery)`, or with another operator.
struct Member {
    x: Expr,
    op: Operator,
    subquery: Subquery,
}

/// The member that an expression is, or whose opposite it is.
fn member(expr: &Expr) -> Option<(Member, bool)> {
    Some(match expr {
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let (x, op, subquery) = ((**expr).clone(), Operator::Eq, subquery.clone());
            (Member { x, op, subquery }, *negated)
        }
        Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
            let (x, subquery) = ((**expr).clone(), subquery.clone());
            match quantifier {
                SetQuantifier::Any => (Member { x, op: *op, subquery }, false),
                SetQuantifier::All => (Member { x, op: op.negate()?, subquery }, true),
            }
        }
        _ => return None,
    })
}

impl Place<'_> {
    /// Conditions that all have to be true.
    fn conditions(&self, expr: Expr) -> Result<Expr> {
        let conditions = split_conjunction_owned(expr).into_iter();
        let conditions = conditions.map(|condition| match member(&condition) {
            Some((member, true)) if self.is_anti_join(&member)? => Ok(member.plain(true)),
            _ => match condition {
                Expr::Not(within) => match member(&within) {
                    Some((member, false)) if self.is_anti_join(&member)? => Ok(member.plain(true)),
                    _ => self.holds(*within, false),
                },
                condition => self.holds(condition, true),
            },
        });
        let conditions = conditions.collect::<Result<Vec<Expr>>>()?;
        Ok(conjunction(conditions).unwrap_or_else(|| lit(true)))
    }

    /// What is true where the expression has that truth value, and otherwise anything else.
    fn holds(&self, expr: Expr, truth: bool) -> Result<Expr> {
        let of = |expr: Expr| if truth { expr } else { Expr::Not(Box::new(expr)) };
        if !has_subquery(&expr) {
            return Ok(of(expr));
        }
        match (member(&expr), expr) {
            (Some((member, negated)), _) if negated == truth => self.is_not_found(member),
            (Some((member, _)), _) => self.is_found(member),
            (
                _,
                Expr::BinaryExpr(BinaryExpr {
                    left,
                    op: op @ (Operator::And | Operator::Or),
                    right,
                }),
            ) => {
                let (left, right) = (self.holds(*left, truth)?, self.holds(*right, truth)?);
                let both = (op == Operator::And) == truth;
                Ok(if both { left.and(right) } else { left.or(right) })
            }
            (_, Expr::Not(within)) => self.holds(*within, !truth),
            (_, expr) => self.exact(expr).map(of),
        }
    }

    /// The expression, NULL where it is.
    fn exact(&self, expr: Expr) -> Result<Expr> {
        let exact = |expr: Expr| match member(&expr) {
            Some((member, negated)) => {
                let exact = self.exact_member(member)?;
                let exact = if negated { Expr::Not(Box::new(exact)) } else { exact };
                Ok(Transformed::yes(exact))
            }
            None => Ok(Transformed::no(expr)),
        };
        expr.transform_up(exact).data()
    }

    fn exact_member(&self, member: Member) -> Result<Expr> {
        if let Some(compared) = member.as_value() {
            return Ok(compared);
        }
        member.check_size()?;
        let unknown = self.unknown(&member)?;
        let found = self.found(member)?;
        let null = Expr::Literal(ScalarValue::Boolean(None), None);
        Ok(match unknown.into_iter().reduce(Expr::or) {
            Some(unknown) => found.or(null.and(unknown)),
            None => found,
        })
    }

    fn is_found(&self, member: Member) -> Result<Expr> {
        match member.as_value() {
            Some(compared) => Ok(compared),
            None if self.joins && member.is_plain(self.schema)? => Ok(member.plain(false)),
            None => self.found(member),
        }
    }

    fn is_not_found(&self, member: Member) -> Result<Expr> {
        if let Some(compared) = member.as_value() {
            return Ok(Expr::Not(Box::new(compared)));
        }
        let not = |expr: Expr| match expr {
            Expr::Exists(Exists { subquery, negated }) => {
                Expr::Exists(Exists { subquery, negated: !negated })
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => match *right {
                Expr::Exists(Exists { subquery, negated }) => {
                    let none = Expr::Exists(Exists { subquery, negated: !negated });
                    Expr::Not(left).or(none)
                }
                right => Expr::Not(Box::new(left.and(right))),
            },
            expr => Expr::Not(Box::new(expr)),
        };
        member.check_size()?;
        let unknown = self.unknown(&member)?;
        let all = std::iter::once(self.found(member)?).chain(unknown).map(not);
        Ok(conjunction(all).unwrap_or_else(|| lit(true)))
    }

    /// Whether NOT IN as a condition of its own may be DataFusion's join: one by one column.
    fn is_anti_join(&self, member: &Member) -> Result<bool> {
        let is_uncorrelated = member.subquery.subquery.all_out_ref_exprs().is_empty();
        let has_column = !member.x.column_refs().is_empty() && !member.x.contains_outer();
        let is_one = self.joins && is_uncorrelated && has_column && !member.is_one_row();
        Ok(is_one && member.is_plain(self.schema)?)
    }

    fn found(&self, member: Member) -> Result<Expr> {
        let (x, c) = (self.seen_within(member.x)?, column(&member.subquery));
        // Not a name of the rows outside, which a subquery over the same table would have.
        let plan = LogicalPlan::clone(&member.subquery.subquery);
        let plan = LogicalPlanBuilder::from(plan).project([c.alias(VALUE)])?.build()?;
        let subquery = Subquery { subquery: Arc::new(plan), ..member.subquery };
        let (c, op) = (Box::new(Expr::Column(Column::new_unqualified(VALUE))), swapped(member.op)?);
        exists(&subquery, Some(Expr::BinaryExpr(BinaryExpr::new(c, op, x.into()))))
    }

    /// What makes an answer NULL that is not true, one by one.
    fn unknown(&self, member: &Member) -> Result<Vec<Expr>> {
        let mut unknown = Vec::new();
        let c = column(&member.subquery);
        if c.nullable(member.subquery.subquery.schema())? {
            unknown.push(exists(&member.subquery, Some(c.is_null()))?);
        }
        if member.x.nullable(self.schema)? {
            let some = exists(&member.subquery, None)?;
            unknown.push(member.x.clone().is_null().and(some));
        }
        Ok(unknown)
    }

    /// The expression as a subquery below sees it.
    fn seen_within(&self, expr: Expr) -> Result<Expr> {
        if has_subquery(&expr) {
            let what = "a subquery on the left side of IN, ANY or ALL in this place";
            return Err(raise(Error::unsupported(what)));
        }
        let outer = |expr: Expr| match expr {
            Expr::Column(column) => {
                let field = Arc::clone(self.schema.field_from_column(&column)?);
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
            }
            expr => Ok(Transformed::no(expr)),
        };
        expr.transform_up(outer).data()
    }
}

impl Member {
    /// As DataFusion's planner would have it.
    fn plain(self, negated: bool) -> Expr {
        Expr::InSubquery(InSubquery::new(Box::new(self.x), self.subquery, negated))
    }

    /// Whether a join may find it by its hash.
    fn is_plain(&self, schema: &DFSchema) -> Result<bool> {
        let of = [
            self.x.get_type(schema)?,
            column(&self.subquery).get_type(self.subquery.subquery.schema())?,
        ];
        Ok(self.op == Operator::Eq && !of.contains(&VARIABLE_SCALE) && !has_subquery(&self.x))
    }

    /// # Errors
    /// It is too large to be asked several times.
    fn check_size(&self) -> Result<()> {
        let mut count = 0;
        self.subquery.subquery.apply_with_subqueries(|_| {
            count += 1;
            Ok(match count > COPIED_MAX {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        })?;
        match count > COPIED_MAX {
            true => Err(raise(
                Error::unsupported("IN, ANY or ALL of so many subqueries within each other")
                    .with_hint("Use EXISTS, or IN as a condition of its own."),
            )),
            false => Ok(()),
        }
    }

    /// Aggregates of all rows are one row, of none, too.
    fn is_one_row(&self) -> bool {
        let mut plan = &*self.subquery.subquery;
        loop {
            plan = match plan {
                LogicalPlan::Projection(projection) => &projection.input,
                LogicalPlan::SubqueryAlias(alias) => &alias.input,
                LogicalPlan::Aggregate(aggregate) => return aggregate.group_expr.is_empty(),
                _ => return false,
            };
        }
    }

    fn as_value(&self) -> Option<Expr> {
        let value = Expr::ScalarSubquery(self.subquery.clone());
        let (x, value) = (Box::new(self.x.clone()), Box::new(value));
        self.is_one_row().then(|| Expr::BinaryExpr(BinaryExpr::new(x, self.op, value)))
    }
}

/// The operator with its sides changed.
fn swapped(op: Operator) -> Result<Operator> {
    op.swap().ok_or_else(|| raise(Error::unsupported(format_args!("{op} ANY of a subquery"))))
}

fn column(subquery: &Subquery) -> Expr {
    Expr::Column(Column::from(subquery.subquery.schema().qualified_field(0)))
}

/// EXISTS of the subquery's rows, or of those that a condition holds for.
fn exists(subquery: &Subquery, condition: Option<Expr>) -> Result<Expr> {
    let plan = LogicalPlan::clone(&subquery.subquery);
    if !plan.all_out_ref_exprs().is_empty() && has_limit(&plan) {
        return Err(raise(Error::unsupported("LIMIT in a subquery of each row")));
    }
    let mut plan = LogicalPlanBuilder::from(plan);
    if let Some(condition) = condition {
        plan = plan.filter(condition)?;
    }
    let outer_ref_columns = plan.plan().all_out_ref_exprs();
    // The first row says all.
    if outer_ref_columns.is_empty() {
        plan = plan.limit(0, Some(1))?;
    }
    let (subquery, spans) = (Arc::new(plan.build()?), subquery.spans.clone());
    let subquery = Subquery { subquery, outer_ref_columns, spans };
    Ok(Expr::Exists(Exists { subquery, negated: false }))
}

/// Taken out of EXISTS by DataFusion, whatever stands above it.
fn has_limit(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Limit(_)) || plan.inputs().into_iter().any(has_limit)
}
