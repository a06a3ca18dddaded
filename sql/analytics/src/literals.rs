//! Typing of string literals: a literal takes the type of what it is compared with.
//!
//! In PostgreSQL `'…'` has an unknown type until its context gives it one, and it is then parsed by
//! that type's input function: `'\xdead'` is two bytes beside a `bytea`, `' 7'` is a number beside
//! an `integer`, and `'ab  '` loses its trailing blanks beside a `char(4)`, whose values are stored
//! without them. To DataFusion it is a string, for which Arrow may or may not have a cast, by rules
//! of its own.
//!
//! *How.* Comparison operators are handled while they are planned, one by one ([`ExprPlanner`]);
//! IN lists, BETWEEN, CASE and IS DISTINCT FROM are found in the finished plan.
//!
//! *Left as they are*: comparisons with a string that a cast has explicitly made `text`, and
//! literals that are not compared with anything.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, Case, InList};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::sql::sqlparser::ast::BinaryOperator as Op;
use snapshot::units;
use types::{DataType, Value};

use crate::faults::{raise, too_long};
use crate::sql_types::{scalar, sql_type};

/// Reads the strings of comparisons.
#[derive(Debug)]
pub(crate) struct Literals;

impl ExprPlanner for Literals {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if matches!(expr.op, Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq) {
            both(&mut expr.left, &mut expr.right, schema)?;
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// Reads those that are not an operator's.
pub(crate) fn read_literals(plan: LogicalPlan) -> Result<LogicalPlan> {
    let read = plan.transform_up_with_subqueries(|plan| {
        let schema = merge_schema(&plan.inputs());
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let read = expr.transform_up(|mut expr| {
                read_in(&mut expr, &schema)?;
                Ok(Transformed::yes(expr))
            });
            Ok(read?.update_data(|expr| name.restore(expr)))
        })
    });
    Ok(read?.data)
}

fn read_in(expr: &mut Expr, schema: &DFSchema) -> Result<()> {
    match expr {
        Expr::InList(InList { expr, list, .. }) => {
            list.iter_mut().try_for_each(|item| one(item, expr, schema))
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            one(low, expr, schema)?;
            one(high, expr, schema)
        }
        Expr::Case(Case { expr: Some(expr), when_then_expr, .. }) => {
            when_then_expr.iter_mut().try_for_each(|(when, _)| one(when, expr, schema))
        }
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::IsDistinctFrom | Operator::IsNotDistinctFrom,
            right,
        }) => both(left, right, schema),
        _ => Ok(()),
    }
}

fn both(left: &mut Expr, right: &mut Expr, schema: &DFSchema) -> Result<()> {
    one(left, right, schema)?;
    one(right, left, schema)
}

/// Digits of Arrow's numbers.
const DIGITS_MAX: u8 = 38;

/// A string beside something that has a type.
fn one(literal: &mut Expr, beside: &Expr, schema: &DFSchema) -> Result<()> {
    let (Some(text), None) = (string(literal), string(beside)) else { return Ok(()) };
    let Ok((_, field)) = beside.to_field(schema) else { return Ok(()) };
    let Ok(data_type) = sql_type(&field) else { return Ok(()) };
    let read = match data_type.without_modifier() {
        DataType::Text | DataType::Varchar(_) | DataType::Array(_) => return Ok(()),
        DataType::Char(_) => ScalarValue::Utf8View(Some(text.trim_end_matches(' ').to_owned())),
        data_type => match Value::read_text(&data_type, text).map_err(raise)? {
            // With all its digits: the scale of what it is compared with is not its own.
            Value::Numeric(number) => {
                let scale = u8::try_from(number.scale()).ok().filter(|scale| *scale <= DIGITS_MAX);
                let fit = scale.and_then(|scale| Some((units(&number, scale).ok()?, scale as i8)));
                let (units, scale) = fit.ok_or_else(|| raise(too_long()))?;
                ScalarValue::Decimal128(Some(units), DIGITS_MAX, scale)
            }
            value => scalar(&value, &data_type).map_err(raise)?,
        },
    };
    *literal = Expr::Literal(read, None);
    Ok(())
}

fn string(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(
            ScalarValue::Utf8(Some(text))
            | ScalarValue::Utf8View(Some(text))
            | ScalarValue::LargeUtf8(Some(text)),
            _,
        ) => Some(text),
        _ => None,
    }
}
