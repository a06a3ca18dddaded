//! Aggregate calls, and the rule that everything else must be grouped.
//!
//! While a select list is bound, an aggregate call becomes the placeholder `Column(FIRST + n)`,
//! where n is its place in the list of calls. Afterwards each expression is rewritten over the
//! aggregated row: a subexpression equal to a grouping expression becomes that group's column, a
//! placeholder becomes the aggregate's, and any column left over is an error.

use super::state::{Aggregates, Place};
use procedure::query::{Aggregate, AggregateFunction, SortKey};
use procedure::{BinaryOp, Expr, JsonFunction};
use sqlparser::ast;
use types::cast::CastContext;
use types::{DataType, Error, Result, SqlState, SystemType};

use super::binder::{Binder, Typed};
use super::collated::Collated;
use super::json::json_of_gathered;
use super::operators::{comparable, ordered};
use super::placeholders::{FIRST_AGGREGATE, is_applied, is_grouping, is_window};
use super::scope::Scope;
use super::shape::sort_key;
use super::sort_keys::text_of_key;

pub(super) fn aggregate_function(name: &str) -> Option<AggregateFunction> {
    Some(match name {
        "count" => AggregateFunction::Count,
        "sum" => AggregateFunction::Sum,
        "avg" => AggregateFunction::Avg,
        "min" => AggregateFunction::Min,
        "max" => AggregateFunction::Max,
        "bool_and" | "every" => AggregateFunction::BoolAnd,
        "bool_or" => AggregateFunction::BoolOr,
        // JSON is made of what has been gathered.
        "array_agg" | "json_agg" | "jsonb_agg" | "json_object_agg" | "jsonb_object_agg" => {
            AggregateFunction::ArrayAgg
        }
        "string_agg" => AggregateFunction::StringAgg,
        "var_pop" => AggregateFunction::VarPop,
        "var_samp" | "variance" => AggregateFunction::VarSamp,
        "stddev_pop" => AggregateFunction::StddevPop,
        "stddev_samp" | "stddev" => AggregateFunction::StddevSamp,
        "bit_and" => AggregateFunction::BitAnd,
        "bit_or" => AggregateFunction::BitOr,
        "bit_xor" => AggregateFunction::BitXor,
        _ => return None,
    })
}

impl Aggregates {
    /// Whether an argument of an aggregate is being bound.
    pub fn is_inside(&self) -> bool {
        self.place == Place::Inside
    }
}

impl Binder<'_> {
    /// Binds a call of an aggregate and gives its placeholder.
    pub(super) fn aggregate_call(
        &mut self,
        scope: &Scope,
        name: &str,
        function: AggregateFunction,
        call: &ast::Function,
    ) -> Result<Typed> {
        self.check_place()?;
        let ast::FunctionArguments::List(list) = &call.args else {
            return Err(Error::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("function {name}() does not exist"),
            ));
        };
        if !call.within_group.is_empty() {
            return Err(Error::unsupported("WITHIN GROUP"));
        }
        let place = std::mem::replace(&mut self.aggregates.place, Place::Inside);
        let bound = self.aggregate_parts(scope, name, function, call, list);
        self.aggregates.place = place;
        let (aggregate, json, extreme) = bound?;
        let data_type = aggregate.result.clone();
        let known = self.aggregates.calls.iter().position(|c| *c == aggregate);
        let n = known.unwrap_or(self.aggregates.calls.len());
        if known.is_none() {
            self.aggregates.calls.push(aggregate);
        }
        let gathered = Typed::new(Expr::Column(FIRST_AGGREGATE + n as u16), data_type);
        Ok(match (json, extreme) {
            (Some(function), _) => json_of_gathered(name, function, gathered.expr),
            (None, Some(collated)) => text_of_key(gathered.expr, collated),
            (None, None) => gathered,
        })
    }

    fn check_place(&self) -> Result<()> {
        let elsewhere = format!("aggregate functions are not allowed {}", self.clause);
        let message = match self.aggregates.place {
            Place::Allowed => return Ok(()),
            Place::Inside => "aggregate function calls cannot be nested",
            Place::Where => "aggregate functions are not allowed in WHERE",
            Place::GroupBy => "aggregate functions are not allowed in GROUP BY",
            Place::JoinCondition => "aggregate functions are not allowed in JOIN conditions",
            Place::Elsewhere => &elsewhere,
        };
        Err(Error::new(SqlState::GROUPING_ERROR, message))
    }

    /// Beside the call, what is made of its value: JSON, or the text of the least or the greatest
    /// key, which is compared as the texts were.
    pub(super) fn aggregate_parts(
        &mut self,
        scope: &Scope,
        name: &str,
        function: AggregateFunction,
        call: &ast::Function,
        list: &ast::FunctionArgumentList,
    ) -> Result<(Aggregate, Option<JsonFunction>, Option<Collated>)> {
        let distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
        let arguments = self.aggregate_arguments(scope, list)?;
        let filter = match &call.filter {
            None => None,
            Some(filter) => {
                let filter = self.expression(scope, filter)?;
                Some(self.boolean(filter, "FILTER")?)
            }
        };
        let (arguments, json) = self.json_gathered(name, arguments)?;
        let collated = Collated::of_all(arguments.as_deref().unwrap_or_default())?;
        let mut typed = self.aggregate_types(name, function, arguments)?;
        if distinct && let Some(input) = &typed.input {
            comparable(&input.data_type)?;
            collated.check_equality()?;
        }
        let extreme = typed.take_extremes_by(function, &collated)?.then(|| collated.clone());
        let order = self.aggregate_order(scope, list)?;
        let sorts = sorts(function, typed.input.as_ref().map(|input| &input.data_type));
        let mut made = Aggregate {
            function,
            input: typed.input.map(|input| input.expr),
            separator: typed.separator,
            distinct,
            filter,
            order,
            result: typed.result,
        };
        if self.is_of_outer(&made) {
            // SQL has it aggregate the rows of the outer query.
            return Err(Error::unsupported(
                "an aggregate of the outer query's columns alone, in a subquery",
            ));
        }
        if distinct {
            order_of_distinct(&mut made)?;
        }
        if !sorts {
            made.order = Box::default();
        }
        Ok((made, json, extreme))
    }

    /// Whether it reads columns of queries around the one at hand and none of its own, itself or by
    /// subqueries in its arguments.
    fn is_of_outer(&self, aggregate: &Aggregate) -> bool {
        let (mut own, mut outer) = (false, false);
        for expr in aggregate.exprs() {
            outer |= self.reads_outside(expr);
            for column in expr.columns() {
                match self.applied.as_ref().and_then(|applied| applied.of(column)) {
                    Some(applied) => {
                        own |= !applied.needs().is_empty();
                        outer |= self.refers_outside(&applied.query);
                    }
                    None => own = true,
                }
            }
        }
        outer && !own
    }

    /// None: `*`.
    fn aggregate_arguments(
        &mut self,
        scope: &Scope,
        list: &ast::FunctionArgumentList,
    ) -> Result<Option<Vec<Typed>>> {
        use ast::{FunctionArg, FunctionArgExpr};
        if let [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] = list.args.as_slice() {
            if list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct) {
                let what = "syntax error at or near \"*\"";
                let hint = "Name the columns that are to be distinct.";
                return Err(Error::new(SqlState::SYNTAX_ERROR, what).with_hint(hint));
            }
            return Ok(None);
        }
        let mut arguments = Vec::with_capacity(list.args.len());
        for argument in &list.args {
            arguments.push(self.argument(scope, argument)?);
        }
        Ok(Some(arguments))
    }

    /// ORDER BY among the arguments. A number is no place of one.
    fn aggregate_order(
        &mut self,
        scope: &Scope,
        list: &ast::FunctionArgumentList,
    ) -> Result<Box<[SortKey]>> {
        let mut keys = Vec::new();
        for clause in &list.clauses {
            let ast::FunctionArgumentClause::OrderBy(order) = clause else {
                return Err(Error::unsupported(format_args!("{clause} in an aggregate")));
            };
            for item in order {
                let typed = self.expression(scope, &item.expr)?;
                let typed = self.resolved(typed)?;
                ordered(&typed.data_type)?;
                keys.push(sort_key(self.sorted_by(typed)?, &item.options));
            }
        }
        Ok(keys.into())
    }

    /// PostgreSQL's result types: sums and averages are wider than what they add up.
    fn aggregate_types(
        &mut self,
        name: &str,
        function: AggregateFunction,
        arguments: Option<Vec<Typed>>,
    ) -> Result<TypedAggregate> {
        use AggregateFunction::*;
        use DataType as T;
        let arguments = match arguments {
            None if function == Count => {
                return Ok(TypedAggregate { input: None, separator: None, result: T::Int8 });
            }
            arguments => arguments.unwrap_or_default(),
        };
        let types: Vec<T> = arguments.iter().map(|argument| argument.data_type.clone()).collect();
        let not_for_types = || not_for_types(name, &types);
        if function == StringAgg {
            return self.string_agg(arguments)?.ok_or_else(not_for_types);
        }
        let Ok([input]) = <[Typed; 1]>::try_from(arguments) else { return Err(not_for_types()) };
        let input = self.resolved(input)?;
        let result = match (function, &input.data_type) {
            (Count, _) => T::Int8,
            (Sum, T::Int2 | T::Int4) => T::Int8,
            (Sum | Avg, T::Int2 | T::Int4 | T::Int8 | T::Numeric(_)) => T::Numeric(None),
            (Sum, T::Float4) => T::Float4,
            (Sum | Avg, T::Float8) | (Avg, T::Float4) => T::Float8,
            (Sum | Avg, T::Interval(_) | T::Time(_)) => T::INTERVAL,
            (Min | Max, T::Bool | T::Uuid | T::Void | T::Json | T::Jsonb | T::Record(_)) => {
                return Err(not_for_types());
            }
            (Min | Max, T::Varchar(_) | T::System(SystemType::Name | SystemType::Char)) => T::Text,
            (Min | Max, t) => t.without_modifier(),
            (BoolAnd | BoolOr, T::Bool) => T::Bool,
            (VarPop | VarSamp | StddevPop | StddevSamp, t) if t.is_float() => T::Float8,
            (VarPop | VarSamp | StddevPop | StddevSamp, t) if t.is_number() => T::Numeric(None),
            (BitAnd | BitOr | BitXor, t) if t.is_integer() => t.clone(),
            (ArrayAgg, t) if t.array_oid() != 0 => T::Array(Box::new(t.without_modifier())),
            _ => return Err(not_for_types()),
        };
        let kept = match (function, &input.data_type) {
            (Sum | Avg, T::Time(_)) => T::INTERVAL,
            (Avg, T::Float4) => T::Float8,
            (VarPop | VarSamp | StddevPop | StddevSamp, _) => result.clone(),
            (_, kept) => kept.clone(),
        };
        let expr = self.coerce(input, &kept, CastContext::Implicit)?;
        Ok(TypedAggregate { input: Some(Typed::new(expr, kept)), separator: None, result })
    }

    /// Of two texts or two byte strings; `None`: of others.
    fn string_agg(&mut self, arguments: Vec<Typed>) -> Result<Option<TypedAggregate>> {
        use DataType as T;
        let Ok([value, separator]) = <[Typed; 2]>::try_from(arguments) else { return Ok(None) };
        let of_bytes = [&value, &separator].iter().any(|it| it.data_type == T::Bytea);
        let result = if of_bytes { T::Bytea } else { T::Text };
        let fits = |it: &Typed| match &it.data_type {
            T::Unknown => true,
            data_type if of_bytes => *data_type == T::Bytea,
            data_type => data_type.stored().is_string(),
        };
        if !fits(&value) || !fits(&separator) {
            return Ok(None);
        }
        let value = self.coerce(value, &result, CastContext::Implicit)?;
        let separator = self.coerce(separator, &result, CastContext::Implicit)?;
        let input = Some(Typed::new(value, result.clone()));
        Ok(Some(TypedAggregate { input, separator: Some(separator), result }))
    }
}

struct TypedAggregate {
    input: Option<Typed>,
    separator: Option<Expr>,
    result: DataType,
}

impl TypedAggregate {
    /// The least text by a collation is that of the least key. Whether it takes keys.
    fn take_extremes_by(&mut self, function: AggregateFunction, by: &Collated) -> Result<bool> {
        if !matches!(function, AggregateFunction::Min | AggregateFunction::Max) {
            return Ok(false);
        }
        let Some(collation) = by.order(BinaryOp::Less)? else { return Ok(false) };
        let Some(input) = self.input.take_if(|input| input.data_type.is_string()) else {
            return Ok(false);
        };
        by.check_equality()?;
        self.input = Some(Typed::new(collation.key_of(input.expr), DataType::Bytea));
        self.result = DataType::Bytea;
        Ok(true)
    }
}

pub(super) fn not_for_types(name: &str, types: &[DataType]) -> Error {
    let types: Vec<String> = types.iter().map(ToString::to_string).collect();
    let what = format!("function {name}({}) does not exist", types.join(", "));
    Error::new(SqlState::UNDEFINED_FUNCTION, what).with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

/// Whether the order of values shows in the result.
fn sorts(function: AggregateFunction, input: Option<&DataType>) -> bool {
    match function {
        AggregateFunction::ArrayAgg | AggregateFunction::StringAgg => true,
        AggregateFunction::Sum
        | AggregateFunction::Avg
        | AggregateFunction::VarPop
        | AggregateFunction::VarSamp
        | AggregateFunction::StddevPop
        | AggregateFunction::StddevSamp => input.is_some_and(DataType::is_float),
        _ => false,
    }
}

/// What is distinct is sorted by all that it is distinct in: first as ORDER BY says, which knows
/// nothing else.
fn order_of_distinct(made: &mut Aggregate) -> Result<()> {
    let arguments: Vec<Expr> = made.input.iter().chain(&made.separator).cloned().collect();
    if made.order.iter().any(|key| !arguments.contains(&key.expr)) {
        let what =
            "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
        return Err(Error::new(SqlState::INVALID_COLUMN_REFERENCE, what));
    }
    let mut order = std::mem::take(&mut made.order).into_vec();
    for expr in arguments {
        if !order.iter().any(|key| key.expr == expr) {
            order.push(SortKey { expr, descending: false, nulls_first: false });
        }
    }
    made.order = order.into();
    Ok(())
}

/// Rewrites `expr` from the row before grouping to the one after: groups, then aggregates.
pub(super) fn over_groups(expr: &mut Expr, groups: &[Expr], scope: &Scope) -> Result<()> {
    let mut ungrouped = None;
    expr.rewrite(&mut |e| {
        if let Some(group) = groups.iter().position(|g| g == e) {
            *e = Expr::Column(group as u16);
            return true;
        }
        match e {
            Expr::Column(c) if *c >= FIRST_AGGREGATE => {
                *c = *c - FIRST_AGGREGATE + groups.len() as u16;
                true
            }
            Expr::Column(c) if is_applied(*c) || is_window(*c) || is_grouping(*c) => true,
            Expr::Column(c) => {
                ungrouped.get_or_insert(*c);
                true
            }
            _ => false,
        }
    });
    match ungrouped {
        None => Ok(()),
        Some(column) => Err(Error::new(
            SqlState::GROUPING_ERROR,
            format!(
                "column \"{}\" must appear in the GROUP BY clause or be used in an aggregate function",
                scope.describe(column)
            ),
        )),
    }
}
