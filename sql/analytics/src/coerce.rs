//! A plan in which numerics of [variable scale](crate::variable_scale) meet others.
//!
//! | where | becomes |
//! |---|---|
//! | CASE, coalesce, greatest, least with one of them | all bring their own |
//! | `a IN (b, c)`, `CASE a WHEN b` | comparisons as the row executor makes them |
//! | an operator whose operand has become one | the row executor's |
//! | a decimal that is compared with a float | the float that the row executor makes of it |
//! | `a IN (b, c)`, `a BETWEEN b AND c` | of what equal values [have in common](comparable) |
//! | ORDER BY, of a window too | by what equal values [have in common](crate::comparable) |
//! | GROUP BY, DISTINCT, PARTITION BY, UNION | refused |
//!
//! It goes from the leaves to the root: what a query is made of decides about what it is.

use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{
    InList, ScalarFunction, WindowFunction, WindowFunctionParams,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, Operator, SortExpr,
};
use procedure::BinaryOp;
use types::Error;

use crate::arithmetic::{WITHIN, float_of};
use crate::call::operator;
use crate::faults::raise;
use crate::variable_scale::VARIABLE_SCALE;
use crate::{comparable, own};

/// The plan with every number among its like.
pub(crate) fn coerced(plan: LogicalPlan, agreeing: bool) -> Result<LogicalPlan> {
    let node = |plan: LogicalPlan| {
        let schema = merge_schema(&plan.inputs());
        let names = NamePreserver::new(&plan);
        let expr = |expr: Expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|expr| rewritten(expr, &schema, agreeing))?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        };
        let mut plan = plan.map_expressions(expr)?.data;
        if let LogicalPlan::Sort(sort) = &mut plan {
            sort_by_common(&mut sort.expr, &schema)?;
        }
        let plan = plan.recompute_schema()?;
        refuse_groups(&plan)?;
        Ok(Transformed::yes(plan))
    };
    plan.transform_up_with_subqueries(node).data()
}

fn rewritten(expr: Expr, schema: &DFSchema, agreeing: bool) -> Result<Transformed<Expr>> {
    let type_of = |expr: &Expr| expr.get_type(schema).ok();
    let is_free = |expr: &Expr| type_of(expr) == Some(VARIABLE_SCALE);
    Ok(match expr {
        Expr::Case(case) => Transformed::yes(Expr::Case(cased(case, schema, agreeing))),
        Expr::ScalarFunction(mut call)
            if matches!(call.func.name(), "coalesce" | "greatest" | "least") =>
        {
            unify(call.args.iter_mut().collect(), schema, agreeing);
            Transformed::yes(Expr::ScalarFunction(call))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            let op = checked_operator(func.name()).filter(|_| args.iter().any(is_free));
            match (op, &args[..]) {
                // Its operand was one of decimals.
                (None, [operand]) if func.name() == WITHIN && is_free(operand) => {
                    Transformed::yes(operand.clone())
                }
                (Some(op), [left, right]) => {
                    Transformed::yes(fast(op, left.clone(), right.clone())?)
                }
                _ => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
            }
        }
        Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) => match fast_operator(op) {
            Some(op) if is_free(&left) || is_free(&right) => {
                Transformed::yes(fast(op, *left, *right)?)
            }
            known => {
                if known.is_some() {
                    as_floats(&mut [&mut left, &mut right], schema);
                }
                Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
            }
        },
        Expr::InList(list) if is_free(&list.expr) || list.list.iter().any(is_free) => {
            Transformed::yes(any_of(list)?)
        }
        Expr::InList(mut list) => {
            let operands = std::iter::once(&mut *list.expr).chain(&mut list.list);
            compare_by_common(&mut operands.collect::<Vec<_>>(), schema);
            Transformed::yes(Expr::InList(list))
        }
        Expr::Between(mut between) => {
            let Between { expr, low, high, .. } = &mut between;
            compare_by_common(&mut [expr, low, high], schema);
            Transformed::yes(Expr::Between(between))
        }
        Expr::AggregateFunction(mut call)
            if call.func.name() == "count" && call.params.distinct =>
        {
            for arg in &mut call.params.args {
                let data_type = arg.get_type(schema)?;
                *arg = comparable::of(std::mem::take(arg), &data_type);
            }
            Transformed::yes(Expr::AggregateFunction(call))
        }
        Expr::WindowFunction(mut window) => {
            order_window(&mut window, schema)?;
            Transformed::yes(Expr::WindowFunction(window))
        }
        other => Transformed::no(other),
    })
}

fn fast_operator(op: Operator) -> Option<BinaryOp> {
    Some(match op {
        Operator::Plus => BinaryOp::Add,
        Operator::Minus => BinaryOp::Subtract,
        Operator::Multiply => BinaryOp::Multiply,
        Operator::Divide => BinaryOp::Divide,
        Operator::Modulo => BinaryOp::Modulo,
        Operator::Eq => BinaryOp::Equal,
        Operator::NotEq => BinaryOp::NotEqual,
        Operator::Lt => BinaryOp::Less,
        Operator::LtEq => BinaryOp::LessOrEqual,
        Operator::Gt => BinaryOp::Greater,
        Operator::GtEq => BinaryOp::GreaterOrEqual,
        _ => return None,
    })
}

/// Where one of them is a float, all exact numbers become floats. Whether one is.
fn as_floats(operands: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let types = operands.iter().map(|operand| operand.get_type(schema).ok());
    let types: Vec<Option<ArrowType>> = types.collect();
    let is_one = types.contains(&Some(ArrowType::Float64));
    for (operand, of) in operands.iter_mut().zip(types).filter(|_| is_one) {
        if of.is_some_and(|of| digits(&of).is_some()) {
            **operand = float_of(operand);
        }
    }
    is_one
}

/// Operands of one comparison with many, each of which stands in it once.
fn compare_by_common(operands: &mut [&mut Expr], schema: &DFSchema) {
    if !as_floats(operands, schema) {
        unify(operands.iter_mut().map(|operand| &mut **operand).collect(), schema, false);
    }
    for operand in operands {
        if let Ok(of) = operand.get_type(schema) {
            **operand = comparable::of(std::mem::take(*operand), &of);
        }
    }
}

/// What was planned for integers.
fn checked_operator(name: &str) -> Option<BinaryOp> {
    Some(match name {
        "checked_add" => BinaryOp::Add,
        "checked_subtract" => BinaryOp::Subtract,
        "checked_multiply" => BinaryOp::Multiply,
        "checked_divide" => BinaryOp::Divide,
        _ => return None,
    })
}

fn fast(op: BinaryOp, left: Expr, right: Expr) -> Result<Expr> {
    operator(op, left, right).ok_or_else(|| raise(Error::unsupported("this operator")))
}

fn cased(mut case: Case, schema: &DFSchema, agreeing: bool) -> Case {
    if let Some(subject) = &case.expr {
        // To Arrow a float is equal to another of the same bits.
        let own_ways = [VARIABLE_SCALE, ArrowType::Float64];
        let is_free = |expr: &Expr| expr.get_type(schema).is_ok_and(|of| own_ways.contains(&of));
        if is_free(subject) || case.when_then_expr.iter().any(|(when, _)| is_free(when)) {
            let subject = subject.clone();
            for (when, _) in &mut case.when_then_expr {
                if let Some(equal) = operator(BinaryOp::Equal, *subject.clone(), *when.clone()) {
                    **when = equal;
                }
            }
            case.expr = None;
        }
    }
    let thens = case.when_then_expr.iter_mut().map(|(_, then)| &mut **then);
    unify(thens.chain(case.else_expr.as_deref_mut()).collect(), schema, agreeing);
    case
}

/// Digits after the point of a type's numbers, if it is one of exact numbers.
fn digits(data_type: &ArrowType) -> Option<i8> {
    match data_type {
        ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64 => Some(0),
        ArrowType::Decimal128(_, scale) => Some(*scale),
        // As no type has.
        free if *free == VARIABLE_SCALE => Some(i8::MAX),
        _ => None,
    }
}

/// Numbers of different digits that one expression may answer with bring their own. Where no other
/// engine answers, those of known digits rather have the most that one has, and can be grouped by.
fn unify(branches: Vec<&mut Expr>, schema: &DFSchema, agreeing: bool) {
    let types = branches.iter().map(|branch| branch.get_type(schema));
    let types: Result<Vec<ArrowType>> = types.collect();
    let Ok(types) = types else { return };
    let known = types.iter().filter(|data_type| !data_type.is_null());
    let all: Option<Vec<i8>> = known.clone().map(digits).collect();
    let differ = all.is_some_and(|all| all.windows(2).any(|pair| pair[0] != pair[1]));
    let differ = differ && (agreeing || types.contains(&VARIABLE_SCALE));
    let Some(free) = own::function("free").filter(|_| differ) else { return };
    for (branch, data_type) in branches.into_iter().zip(&types) {
        if *data_type != VARIABLE_SCALE {
            *branch = free.call(vec![std::mem::take(branch)]);
        }
    }
}

fn any_of(list: InList) -> Result<Expr> {
    let InList { expr, list, negated } = list;
    let equals = list.into_iter().map(|item| fast(BinaryOp::Equal, (*expr).clone(), item));
    let any = equals.reduce(|any, equal| Ok(any?.or(equal?)));
    let any = any.unwrap_or_else(|| Ok(Expr::Literal(ScalarValue::Boolean(Some(false)), None)))?;
    Ok(if negated { Expr::Not(Box::new(any)) } else { any })
}

fn sort_by_common(keys: &mut [SortExpr], schema: &DFSchema) -> Result<()> {
    for key in keys {
        let data_type = key.expr.get_type(schema)?;
        key.expr = comparable::of(std::mem::take(&mut key.expr), &data_type);
    }
    Ok(())
}

fn order_window(window: &mut WindowFunction, schema: &DFSchema) -> Result<()> {
    let WindowFunctionParams { order_by, partition_by, .. } = &mut window.params;
    if partition_by.iter().any(|expr| expr.get_type(schema).ok() == Some(VARIABLE_SCALE)) {
        return Err(ungrouped("PARTITION BY"));
    }
    // RANGE with an offset counts in the key's own type.
    for key in order_by {
        if key.expr.get_type(schema)? == VARIABLE_SCALE {
            key.expr = comparable::of(std::mem::take(&mut key.expr), &VARIABLE_SCALE);
        }
    }
    Ok(())
}

fn ungrouped(what: &str) -> datafusion::common::DataFusionError {
    let error = Error::unsupported(format_args!("{what} of a quotient in this query"));
    raise(error.with_hint("Cast it to numeric(p, s)."))
}

/// Rows that differ in the digits of equal numbers alone would stay apart.
fn refuse_groups(plan: &LogicalPlan) -> Result<()> {
    let has_free =
        |schema: &DFSchema| schema.fields().iter().any(|f| *f.data_type() == VARIABLE_SCALE);
    match plan {
        LogicalPlan::Aggregate(aggregate) => {
            let schema = aggregate.input.schema();
            let is_free = |expr: &Expr| expr.get_type(schema).ok() == Some(VARIABLE_SCALE);
            match aggregate.group_expr.iter().any(is_free) {
                true => Err(ungrouped("GROUP BY")),
                false => Ok(()),
            }
        }
        LogicalPlan::Distinct(distinct) if has_free(distinct.input().schema()) => {
            Err(ungrouped("DISTINCT"))
        }
        _ => Ok(()),
    }
}
