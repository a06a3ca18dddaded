//! From syntax to plan: functions of one row, of groups, of windows, of sets; and subqueries.

use sqlparser::ast;
use types::{DataType, Error, Result, SqlState, SystemType, Value};

use super::bind::{Binder, direction, settled};
use super::expression::{array_of, negate, quantifier};
use super::functions;
use super::plan::*;
use super::refused::{FROM_HINT, sets_not_allowed};
use super::scope::parts;
use super::signature::Takes;
use super::{Typed, matched, sets};

impl Binder<'_> {
    pub fn arguments(&mut self, arguments: &[ast::FunctionArg]) -> Result<Vec<Typed>> {
        let mut bound = Vec::new();
        for argument in arguments {
            let (ast::FunctionArg::Unnamed(arg)
            | ast::FunctionArg::Named { arg, .. }
            | ast::FunctionArg::ExprNamed { arg, .. }) = argument;
            match arg {
                ast::FunctionArgExpr::Expr(expr) => bound.push(self.expr(expr)?),
                // As in count(*).
                ast::FunctionArgExpr::Wildcard => {}
                other => return Err(Error::unsupported(other)),
            }
        }
        Ok(bound)
    }

    pub fn function_call(&mut self, function: &ast::Function) -> Result<Typed> {
        let name = parts(&function.name).pop().unwrap_or_default();
        let (list, clauses, distinct) = match &function.args {
            ast::FunctionArguments::None => (&[][..], &[][..], false),
            ast::FunctionArguments::List(list) => {
                let distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
                (&list.args[..], &list.clauses[..], distinct)
            }
            ast::FunctionArguments::Subquery(query) if name == "array" => {
                return self.array_of(query);
            }
            ast::FunctionArguments::Subquery(query) => {
                let argument = self.scalar_subquery(query)?;
                return self.call(&name, vec![argument]);
            }
        };
        if let Some(over) = &function.over {
            if distinct {
                return Err(Error::unsupported("DISTINCT for window functions"));
            }
            return self.window(&name, function, list, over);
        }
        let star = list.is_empty()
            || matches!(list, [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)]);
        if let Some(kind) =
            aggregate_kind(&name).filter(|kind| !star || *kind == AggregateKind::Count)
        {
            let order = clauses.iter().find_map(|clause| match clause {
                ast::FunctionArgumentClause::OrderBy(order) => Some(order.as_slice()),
                _ => None,
            });
            let filter = function.filter.as_deref();
            let around = self.scope().aggregates.len();
            let sets_around = self.scope().sets.len();
            let aggregate = self.aggregate(kind, list, distinct, order.unwrap_or(&[]), filter)?;
            if self.scope().sets.len() > sets_around {
                let what = "aggregate function calls cannot contain set-returning function calls";
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what).with_hint(FROM_HINT));
            }
            // Only a window's may be over others': it comes after the groups.
            if self.scope().aggregates.len() > around {
                let message = "aggregate function calls cannot be nested";
                return Err(Error::new(SqlState::GROUPING_ERROR, message));
            }
            let place = self.scope().place();
            let data_type = aggregate_type(&aggregate)?;
            self.scope().aggregates.push(Aggregate { place, ..aggregate });
            return Ok(Typed::new(Expr::Column { level: 0, place }, data_type));
        }
        let around = self.scope().sets.len();
        let arguments = self.arguments(list)?;
        if sets::find(&name).is_some() {
            // Rows for each row of another call would be one call after the other.
            if self.scope().sets.len() > around {
                return Err(sets_not_allowed("in the arguments of others"));
            }
            let (call, columns) = self.set_call(&name, arguments)?;
            let place = self.scope().place();
            self.scope().sets.push(SetCall { place, ..call });
            let expr = Expr::Column { level: 0, place };
            return Ok(match <[Column; 1]>::try_from(columns) {
                Ok([only]) => {
                    let value = Expr::Field { input: Box::new(expr), place: 0 };
                    Typed::new(value, only.data_type)
                }
                Err(_) => Typed {
                    fields: sets::find(&name).map_or(&[], |set| (set.fields)()),
                    ..Typed::new(expr, DataType::System(SystemType::Record))
                },
            });
        }
        if name == "coalesce" && self.scope().sets.len() > around {
            return Err(sets_not_allowed("in COALESCE"));
        }
        self.call(&name, arguments)
    }

    fn aggregate(
        &mut self,
        kind: AggregateKind,
        list: &[ast::FunctionArg],
        distinct: bool,
        order: &[ast::OrderByExpr],
        filter: Option<&ast::Expr>,
    ) -> Result<Aggregate> {
        let arguments = self.arguments(list)?;
        let types = aggregated(kind, &arguments)?;
        let mut coerced = Vec::new();
        for (argument, to) in arguments.into_iter().zip(&types) {
            coerced.push(self.coerce(argument, to)?);
        }
        let mut by = Vec::new();
        for order in order {
            by.push((self.expr(&order.expr)?.expr, direction(order)));
        }
        let filter = filter.map(|filter| self.condition(filter, "FILTER")).transpose()?;
        Ok(Aggregate { place: 0, kind, arguments: coerced, types, distinct, filter, order: by })
    }

    fn window(
        &mut self,
        name: &str,
        function: &ast::Function,
        list: &[ast::FunctionArg],
        over: &ast::WindowType,
    ) -> Result<Typed> {
        let ast::WindowType::WindowSpec(spec) = over else {
            return Err(Error::unsupported("a named window"));
        };
        if spec.window_frame.is_some() || function.filter.is_some() {
            return Err(Error::unsupported(format_args!("{function} over catalogs")));
        }
        let around = self.scope().sets.len();
        let (kind, data_type) = match (name, aggregate_kind(name)) {
            ("row_number", _) => (WindowKind::RowNumber, DataType::Int8),
            ("rank", _) => (WindowKind::Rank, DataType::Int8),
            ("dense_rank", _) => (WindowKind::DenseRank, DataType::Int8),
            (_, Some(kind)) if spec.order_by.is_empty() => {
                let aggregate = self.aggregate(kind, list, false, &[], None)?;
                let data_type = aggregate_type(&aggregate)?;
                (WindowKind::Aggregate(aggregate), data_type)
            }
            _ => return Err(Error::unsupported(format_args!("{name}() OVER ({spec})"))),
        };
        let mut partition = Vec::new();
        for expr in &spec.partition_by {
            partition.push(self.expr(expr)?.expr);
        }
        let mut order = Vec::new();
        for by in &spec.order_by {
            order.push((self.expr(&by.expr)?.expr, direction(by)));
        }
        if self.scope().sets.len() > around {
            let what = "window function calls cannot contain set-returning function calls";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what).with_hint(FROM_HINT));
        }
        let place = self.scope().place();
        self.scope().windows.push(Window { place, kind, partition, order });
        Ok(Typed::new(Expr::Column { level: 0, place }, data_type))
    }

    pub fn set_call(
        &mut self,
        name: &str,
        arguments: Vec<Typed>,
    ) -> Result<(SetCall, Vec<Column>)> {
        let function = sets::find(name).ok_or_else(|| undefined(name, &arguments))?;
        let arguments = match name {
            "generate_series" => self.series(arguments)?,
            _ => arguments,
        };
        let (arguments, types) = self.typed_arguments(arguments, function.takes)?;
        let columns = sets::columns(function, &types);
        Ok((SetCall { place: 0, function, arguments, types }, columns))
    }

    /// A series of integers or of numerics, of the widest of its types.
    fn series(&mut self, arguments: Vec<Typed>) -> Result<Vec<Typed>> {
        if !(2..=3).contains(&arguments.len()) {
            return Err(undefined("generate_series", &arguments));
        }
        let types = arguments.iter().map(|argument| argument.data_type.without_modifier());
        let common = types
            .fold(DataType::Unknown, |common, t| matched(&common, &t).unwrap_or(DataType::Text));
        let common = match common {
            DataType::Unknown | DataType::Int2 => DataType::Int4,
            common @ (DataType::Int4 | DataType::Int8 | DataType::Numeric(_)) => common,
            other if other.is_datetime() => {
                return Err(Error::unsupported("generate_series() of times over catalogs"));
            }
            _ => return Err(undefined("generate_series", &arguments)),
        };
        arguments.into_iter().map(|argument| self.cast(argument, &common)).collect()
    }

    fn typed_arguments(
        &mut self,
        arguments: Vec<Typed>,
        takes: &[Takes],
    ) -> Result<(Vec<Expr>, Vec<DataType>)> {
        let (mut exprs, mut types) = (Vec::new(), Vec::new());
        for (place, argument) in arguments.into_iter().enumerate() {
            let takes = takes.get(place).or(takes.last()).copied();
            let to = takes.and_then(Takes::data_type);
            let to = to.unwrap_or_else(|| settled(&argument.data_type));
            exprs.push(self.coerce(argument, &to)?);
            types.push(to);
        }
        Ok((exprs, types))
    }

    /// A function of one row, by name.
    pub fn call(&mut self, name: &str, arguments: Vec<Typed>) -> Result<Typed> {
        match name {
            "nullif" if arguments.len() == 2 => {
                let (mut exprs, data_type) = self.unify(arguments)?;
                let other = exprs.pop().unwrap_or(Expr::null());
                let first = exprs.pop().unwrap_or(Expr::null());
                let data_type = settled(&data_type);
                return self.once(Typed::new(first, data_type.clone()), |_, first| {
                    let sides = Box::new([first.expr.clone(), other]);
                    let same = Expr::Compare { op: CompareOp::Equal, sides };
                    let whens = vec![(same, Expr::null())];
                    let otherwise = Box::new(first.expr);
                    Ok(Typed::new(Expr::Case { whens, otherwise }, data_type))
                });
            }
            "coalesce" | "greatest" | "least" => {
                let (exprs, data_type) = self.unify(arguments)?;
                return Ok(Typed::new(conditional(name, exprs), settled(&data_type)));
            }
            "row" => return Ok(Typed::row(arguments)),
            // A type's name as a function is a cast.
            "oid" | "text" | "name" | "int4" | "int8" | "int2" | "bool" | "regclass"
            | "regtype"
                if arguments.len() == 1 =>
            {
                let to = crate::relation::internal_type(name).unwrap_or(DataType::Text);
                let argument = arguments.into_iter().next().unwrap_or(Typed::literal(Value::Null));
                return self.cast(argument, &to);
            }
            _ => {}
        }
        if let Some(typed) = super::fast::call(name, &arguments) {
            return Ok(typed);
        }
        let Some(function) = functions::find(name, arguments.len()) else {
            return Err(undefined(name, &arguments));
        };
        let (arguments, types) = self.typed_arguments(arguments, function.takes)?;
        let data_type = functions::result_type(function, &types);
        let expr = Expr::Call { function, arguments, types };
        Ok(Typed::new(expr, data_type))
    }

    /// Functions that SQL gives a grammar of their own.
    pub fn spelled_function(&mut self, expr: &ast::Expr) -> Result<Typed> {
        use ast::Expr as E;
        let (name, arguments): (&str, Vec<&ast::Expr>) = match expr {
            E::Substring { expr, substring_from, substring_for, .. } => {
                let from = substring_from.as_deref();
                let length = substring_for.as_deref();
                ("substring", [Some(&**expr), from, length].into_iter().flatten().collect())
            }
            E::Position { expr, r#in } => ("strpos", vec![r#in, expr]),
            E::Extract { field, expr, .. } => {
                let input = self.expr(expr)?;
                return super::fast::extract(&field.to_string().to_lowercase(), input);
            }
            E::Ceil { expr, .. } => ("ceil", vec![expr]),
            E::Floor { expr, .. } => ("floor", vec![expr]),
            E::Trim { trim_where, trim_what, expr, .. } => {
                let name = match trim_where {
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                    _ => "btrim",
                };
                let what = trim_what.as_deref();
                (name, [Some(&**expr), what].into_iter().flatten().collect())
            }
            other => return Err(Error::unsupported(other)),
        };
        let arguments = arguments.into_iter().map(|argument| self.expr(argument));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        self.call(name, arguments)
    }

    /// A subquery and the place where its value is kept, if that is the same for all rows.
    pub fn subquery(&mut self, query: &ast::Query) -> Result<(Query, Option<usize>)> {
        let before = std::mem::replace(&mut self.reach, usize::MAX);
        let depth = self.scopes.len();
        let bound = self.query(query)?;
        let uses_outer = self.reach < depth;
        self.reach = self.reach.min(before);
        // Within a recursive step, what a common table expression holds changes as well.
        if uses_outer || !self.ctes.is_empty() {
            return Ok((bound, None));
        }
        self.cached += 1;
        Ok((bound, Some(self.cached - 1)))
    }

    fn scalar_subquery(&mut self, query: &ast::Query) -> Result<Typed> {
        let (query, cached) = self.subquery(query)?;
        let [column] = query.columns.as_slice() else {
            return Err(one_column());
        };
        let data_type = column.data_type.clone();
        let query = Box::new(query);
        Ok(Typed::new(Expr::Subquery { kind: SubqueryKind::Scalar, query, cached }, data_type))
    }

    fn array_of(&mut self, query: &ast::Query) -> Result<Typed> {
        let (query, cached) = self.subquery(query)?;
        let [column] = query.columns.as_slice() else {
            return Err(one_column());
        };
        let data_type = array_of(column.data_type.clone())?;
        let query = Box::new(query);
        Ok(Typed::new(Expr::Subquery { kind: SubqueryKind::Array, query, cached }, data_type))
    }

    /// IN, ANY, ALL, EXISTS and subqueries that are values.
    pub fn over_rows(&mut self, expr: &ast::Expr) -> Result<Typed> {
        use ast::Expr as E;
        match expr {
            E::Subquery(query) => self.scalar_subquery(query),
            E::Exists { subquery, negated } => {
                let (query, cached) = self.subquery(subquery)?;
                let query = Box::new(query);
                let exists = Expr::Subquery { kind: SubqueryKind::Exists, query, cached };
                Ok(Typed::bool(negate(exists, *negated)))
            }
            E::InSubquery { expr, subquery, negated } => {
                let input = self.expr(expr)?;
                let op = Quantifier::Compare(CompareOp::Equal);
                let found = self.quantified_query(op, false, input, subquery)?;
                Ok(Typed::bool(negate(found, *negated)))
            }
            E::InList { expr, list, negated } => {
                let input = self.expr(expr)?;
                // One alone may be looked up.
                if let [item] = list.as_slice() {
                    let item = self.expr(item)?;
                    let found = self.compare(CompareOp::Equal, input, item)?;
                    return Ok(Typed::bool(negate(found, *negated)));
                }
                self.once(input, |binder, input| {
                    let mut equal = Vec::new();
                    for item in list {
                        let item = binder.expr(item)?;
                        equal.push(binder.compare(CompareOp::Equal, input.clone(), item)?);
                    }
                    Ok(Typed::bool(negate(Expr::Or(equal), *negated)))
                })
            }
            E::AnyOp { left, compare_op, right, .. } => {
                self.quantified(left, compare_op, right, false)
            }
            E::AllOp { left, compare_op, right } => self.quantified(left, compare_op, right, true),
            other => Err(Error::unsupported(other)),
        }
    }

    fn quantified(
        &mut self,
        left: &ast::Expr,
        op: &ast::BinaryOperator,
        right: &ast::Expr,
        all: bool,
    ) -> Result<Typed> {
        let Some(op) = quantifier(op)? else {
            return Err(Error::unsupported(format_args!("{left} {op} ANY")));
        };
        let mut right = right;
        while let ast::Expr::Nested(inner) = right {
            right = inner;
        }
        let input = self.expr(left)?;
        if let ast::Expr::Subquery(query) = right {
            return Ok(Typed::bool(self.quantified_query(op, all, input, query)?));
        }
        let array = self.expr(right)?;
        let element = match &array.data_type {
            DataType::Array(element) => (**element).clone(),
            DataType::System(SystemType::Int2Vector) => DataType::Int2,
            DataType::System(SystemType::OidVector | SystemType::AnyArray) => {
                input.data_type.clone()
            }
            _ => settled(&input.data_type.without_modifier()),
        };
        let to = match &array.data_type {
            DataType::Unknown => DataType::Array(Box::new(element.clone())),
            known => known.clone(),
        };
        let array = Box::new(self.coerce(array, &to)?);
        let input = self.side(op, input, &element)?;
        Ok(Typed::bool(Expr::Quantified { op, all, input: Box::new(input), array }))
    }
}

fn conditional(name: &str, exprs: Vec<Expr>) -> Expr {
    match name {
        "coalesce" => Expr::Coalesce(exprs),
        name => {
            let function = functions::find(name, exprs.len());
            match function {
                Some(function) => Expr::Call { function, arguments: exprs, types: Vec::new() },
                None => Expr::null(),
            }
        }
    }
}

fn aggregate_kind(name: &str) -> Option<AggregateKind> {
    Some(match name {
        "count" => AggregateKind::Count,
        "min" => AggregateKind::Min,
        "max" => AggregateKind::Max,
        "sum" => AggregateKind::Sum,
        "avg" => AggregateKind::Avg,
        "bool_and" | "every" => AggregateKind::And,
        "bool_or" => AggregateKind::Or,
        "string_agg" => AggregateKind::Strings,
        "array_agg" => AggregateKind::Array,
        "json_agg" | "jsonb_agg" => AggregateKind::Json,
        _ => return None,
    })
}

/// The types that an aggregate takes its arguments as.
///
/// # Errors
/// 42883 for what it is not defined for.
fn aggregated(kind: AggregateKind, arguments: &[Typed]) -> Result<Vec<DataType>> {
    use AggregateKind as A;
    const FLOAT4: DataType = DataType::System(SystemType::Float4);
    let types: Vec<DataType> = arguments.iter().map(|a| settled(&a.data_type)).collect();
    let is_text = |t: &DataType| t.stored().is_string();
    let fits = match (kind, types.as_slice()) {
        (A::Count, [] | [_]) | (A::Array | A::Json, [_]) => true,
        (A::Min | A::Max, [of]) => {
            use SystemType::{NodeTree, Record, Xid};
            let unordered = |s: &SystemType| matches!(s, NodeTree | Record | Xid);
            !matches!(of, DataType::Bool | DataType::Uuid | DataType::Bytea)
                && !matches!(of, DataType::Json | DataType::Jsonb)
                && !matches!(of, DataType::System(system) if unordered(system))
        }
        (A::Sum | A::Avg, [of]) => of.is_number() || *of == FLOAT4,
        (A::And | A::Or, [of]) => *of == DataType::Bool,
        (A::Strings, [of, separator]) => is_text(of) && is_text(separator),
        _ => false,
    };
    if !fits {
        let name = format!("{kind:?}").to_lowercase();
        return Err(undefined(&name, arguments));
    }
    let as_text = |t: DataType| match t {
        DataType::Varchar(_) | DataType::System(SystemType::Name | SystemType::Char) => {
            DataType::Text
        }
        other => other,
    };
    Ok(match kind {
        A::Min | A::Max | A::Strings => types.into_iter().map(as_text).collect(),
        _ => types,
    })
}

fn aggregate_type(aggregate: &Aggregate) -> Result<DataType> {
    use AggregateKind as A;
    let of = aggregate.types.first().cloned().unwrap_or(DataType::Unknown);
    Ok(match aggregate.kind {
        A::Count => DataType::Int8,
        A::Min | A::Max => match of {
            DataType::Char(_) => of,
            of => of.without_modifier(),
        },
        A::Sum => match of {
            DataType::Int2 | DataType::Int4 => DataType::Int8,
            DataType::Int8 => DataType::Numeric(None),
            other => other.without_modifier(),
        },
        A::Avg if of.stored() == DataType::Float8 => DataType::Float8,
        A::Avg => DataType::Numeric(None),
        A::And | A::Or => DataType::Bool,
        A::Strings => DataType::Text,
        A::Array => array_of(of)?,
        A::Json => DataType::Json,
    })
}

fn one_column() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "subquery must return only one column")
}

fn undefined(name: &str, arguments: &[Typed]) -> Error {
    if let Some(error) = sql::bind::machine_dependent(name) {
        return error;
    }
    if matches!(name, "nextval" | "currval" | "setval") {
        // It is there, but not for catalogs.
        return Error::unsupported(format_args!("function {name}() over catalogs"));
    }
    let types: Vec<String> = arguments.iter().map(|a| a.data_type.to_string()).collect();
    Error::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("function {name}({}) does not exist", types.join(", ")),
    )
    .with_hint(
        "No function matches the given name and argument types. You might need to add explicit \
         type casts. Beside system catalogs there are the functions that PostgreSQL's tools use.",
    )
}
