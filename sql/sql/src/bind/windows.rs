//! Window functions: calls with OVER, in a select list and in ORDER BY.
//!
//! Each call becomes the placeholder `Column(FIRST_WINDOW + n)`. All of them are made after FROM,
//! or after groups and HAVING where there are some, and before DISTINCT, ORDER BY and LIMIT.

use procedure::query::{Frame, FrameBound, FrameUnit, Limits, SortKey, WindowCall, WindowFunction};
use procedure::{BinaryOp, Expr};
use sqlparser::ast;
use types::arithmetic::ArithmeticOp;
use types::cast::CastContext;
use types::{DataType, Error, Result, SqlState};

use super::aggregates::aggregate_function;
use super::binder::{Binder, Typed};
use super::collated::Collated;
use super::operators::ordered;
use super::placeholders::{FIRST_GROUPING, FIRST_WINDOW};
use super::refused;
use super::scope::Scope;
use super::shape::sort_key;
use super::sort_keys::{distinct_by, text_of_key};
use super::state::{Place, Windows};
use crate::syntax::names::fold;

const IN_DEFINITIONS: &str = "in window definitions";

const WINDOWING_ERROR: SqlState = SqlState(*b"42P20");

fn function_of(name: &str) -> Option<WindowFunction> {
    Some(match name {
        "row_number" => WindowFunction::RowNumber,
        "rank" => WindowFunction::Rank,
        "dense_rank" => WindowFunction::DenseRank,
        "percent_rank" => WindowFunction::PercentRank,
        "cume_dist" => WindowFunction::CumeDist,
        "ntile" => WindowFunction::Ntile,
        "lag" => WindowFunction::Lag,
        "lead" => WindowFunction::Lead,
        "first_value" => WindowFunction::FirstValue,
        "last_value" => WindowFunction::LastValue,
        "nth_value" => WindowFunction::NthValue,
        _ => return aggregate_function(name).map(WindowFunction::Aggregate),
    })
}

/// Whether a call of it has no meaning without OVER.
pub(super) fn needs_over(name: &str) -> bool {
    function_of(name).is_some_and(|f| !matches!(f, WindowFunction::Aggregate(_)))
}

impl Windows {
    pub fn named(select: &ast::Select) -> Result<Windows> {
        let mut windows = Windows::default();
        for ast::NamedWindowDefinition(name, definition) in &select.named_window {
            let name = fold(name);
            if windows.named.iter().any(|(known, _)| *known == name) {
                let what = format!("window \"{name}\" is already defined");
                return Err(Error::new(WINDOWING_ERROR, what));
            }
            let spec = match definition {
                ast::NamedWindowExpr::NamedWindow(other) => windows.find(other)?.clone(),
                ast::NamedWindowExpr::WindowSpec(spec) => windows.inherited(spec)?,
            };
            windows.named.push((name, spec));
        }
        Ok(windows)
    }

    fn find(&self, name: &ast::Ident) -> Result<&ast::WindowSpec> {
        let name = fold(name);
        let found = self.named.iter().find(|(known, _)| *known == name);
        found.map(|(_, spec)| spec).ok_or_else(|| {
            let what = format!("window \"{name}\" does not exist");
            Error::new(SqlState::UNDEFINED_OBJECT, what)
        })
    }

    /// A window that adds to one that has a name.
    fn inherited(&self, spec: &ast::WindowSpec) -> Result<ast::WindowSpec> {
        let Some(name) = &spec.window_name else { return Ok(spec.clone()) };
        let base = self.find(name)?;
        let wrong = |what: String| Err(Error::new(WINDOWING_ERROR, what));
        let name = fold(name);
        if !spec.partition_by.is_empty() {
            return wrong(format!("cannot override PARTITION BY clause of window \"{name}\""));
        }
        if !spec.order_by.is_empty() && !base.order_by.is_empty() {
            return wrong(format!("cannot override ORDER BY clause of window \"{name}\""));
        }
        if base.window_frame.is_some() {
            let what = format!("cannot copy window \"{name}\" because it has a frame clause");
            return wrong(what);
        }
        let order = if spec.order_by.is_empty() { &base.order_by } else { &spec.order_by };
        Ok(ast::WindowSpec {
            window_name: None,
            partition_by: base.partition_by.clone(),
            order_by: order.clone(),
            window_frame: spec.window_frame.clone(),
        })
    }
}

impl Binder<'_> {
    /// A call with OVER: its placeholder.
    pub(super) fn window_call(
        &mut self,
        scope: &Scope,
        name: &str,
        call: &ast::Function,
        over: &ast::WindowType,
    ) -> Result<Typed> {
        let Some(function) = function_of(name) else {
            return Err(refused::not_there_yet(name).unwrap_or_else(|| {
                let what = "is not a window function nor an aggregate function";
                let what = format!("OVER specified, but {name} {what}");
                Error::new(SqlState::WRONG_OBJECT_TYPE, what)
            }));
        };
        let windows = match self.windows.take() {
            Some(windows) if self.aggregates.place == Place::Allowed => windows,
            windows => {
                self.windows = windows;
                return Err(self.no_window_here());
            }
        };
        let around = std::mem::replace(&mut self.within_window, true);
        let calls = self.row_calls.take();
        let bound = self.window_parts(scope, (name, function), call, (over, &windows));
        self.row_calls = calls;
        self.within_window = around;
        let windows = self.windows.insert(windows);
        let (made, extreme) = bound?;
        let data_type = made.result.clone();
        let known = windows.calls.iter().position(|call| *call == made);
        let place = known.unwrap_or(windows.calls.len());
        if known.is_none() {
            windows.calls.push(made);
        }
        if place >= usize::from(FIRST_GROUPING - FIRST_WINDOW) {
            return Err(crate::syntax::depth::too_deep());
        }
        let value = Expr::Column(FIRST_WINDOW + place as u16);
        Ok(match extreme {
            Some(collated) => text_of_key(value, collated),
            None => Typed::new(value, data_type),
        })
    }

    fn no_window_here(&self) -> Error {
        let what = match self.aggregates.place {
            _ if self.clause == IN_DEFINITIONS => {
                format!("window functions are not allowed {IN_DEFINITIONS}")
            }
            _ if self.within_window => "window function calls cannot be nested".to_owned(),
            Place::Inside => {
                let what = "aggregate function calls cannot contain window function calls";
                return Error::new(SqlState::GROUPING_ERROR, what);
            }
            Place::GroupBy => "window functions are not allowed in GROUP BY".to_owned(),
            _ => format!("window functions are not allowed {}", self.clause),
        };
        Error::new(WINDOWING_ERROR, what)
    }

    fn window_parts(
        &mut self,
        scope: &Scope,
        (name, function): (&str, WindowFunction),
        call: &ast::Function,
        (over, windows): (&ast::WindowType, &Windows),
    ) -> Result<(WindowCall, Option<Collated>)> {
        let ast::FunctionArguments::List(list) = &call.args else {
            return Err(does_not_exist(name, &[]));
        };
        let is_aggregate = matches!(function, WindowFunction::Aggregate(_));
        if is_aggregate && !list.clauses.is_empty() {
            let what = "aggregate ORDER BY is not implemented for window functions";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        if !list.clauses.is_empty()
            || !call.within_group.is_empty()
            || call.null_treatment.is_some()
        {
            return Err(Error::unsupported("this clause in a call with OVER"));
        }
        let spec = match over {
            ast::WindowType::NamedWindow(name) => windows.find(name)?.clone(),
            ast::WindowType::WindowSpec(spec) => windows.inherited(spec)?,
        };
        let mut extreme = None;
        let (arguments, filter, result) = match function {
            WindowFunction::Aggregate(aggregate) => {
                let (made, json, by_key) =
                    self.aggregate_parts(scope, name, aggregate, call, list)?;
                extreme = by_key;
                if json.is_some() {
                    return Err(Error::unsupported(format_args!("{name}() with OVER")));
                }
                if made.distinct {
                    let what = "DISTINCT is not implemented for window functions";
                    return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
                }
                let arguments = made.input.into_iter().chain(made.separator).collect();
                (arguments, made.filter, made.result)
            }
            _ if call.filter.is_some() => {
                let what = "FILTER is not implemented for non-aggregate window functions";
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
            }
            function => {
                let mut bound = Vec::with_capacity(list.args.len());
                for argument in &list.args {
                    bound.push(self.argument(scope, argument)?);
                }
                let (arguments, result) = self.window_arguments(name, function, bound)?;
                (arguments, None, result)
            }
        };
        let define = |binder: &mut Self| binder.window_keys(scope, &spec);
        let (partition, keys) = self.within(IN_DEFINITIONS, define)?;
        let frame = self.frame(spec.window_frame.as_ref(), &keys)?;
        let order = keys.into_iter().map(|(key, _)| key).collect();
        let made = WindowCall { function, arguments, filter, partition, order, frame, result };
        Ok((made, extreme))
    }

    fn window_keys(
        &mut self,
        scope: &Scope,
        spec: &ast::WindowSpec,
    ) -> Result<(Box<[Expr]>, Vec<(SortKey, DataType)>)> {
        let mut partition = Vec::with_capacity(spec.partition_by.len());
        for expr in &spec.partition_by {
            let typed = self.expression(scope, expr)?;
            let typed = self.resolved(typed)?;
            distinct_by(&typed)?;
            partition.push(typed.expr);
        }
        let mut order = Vec::with_capacity(spec.order_by.len());
        for item in &spec.order_by {
            let typed = self.expression(scope, &item.expr)?;
            let typed = self.resolved(typed)?;
            ordered(&typed.data_type)?;
            let data_type = typed.data_type.clone();
            order.push((sort_key(self.sorted_by(typed)?, &item.options), data_type));
        }
        Ok((partition.into(), order))
    }

    /// Their types, and the call's.
    fn window_arguments(
        &mut self,
        name: &str,
        function: WindowFunction,
        bound: Vec<Typed>,
    ) -> Result<(Box<[Expr]>, DataType)> {
        use WindowFunction as W;
        let types: Vec<DataType> = bound.iter().map(|typed| typed.data_type.clone()).collect();
        let mut bound = bound.into_iter();
        let mut next = || bound.next().unwrap_or_else(Typed::null);
        match (function, types.len()) {
            (W::RowNumber | W::Rank | W::DenseRank, 0) => Ok((Box::default(), DataType::Int8)),
            (W::PercentRank | W::CumeDist, 0) => Ok((Box::default(), DataType::Float8)),
            (W::Ntile, 1) => {
                let parts = self.coerce(next(), &DataType::Int4, CastContext::Implicit)?;
                Ok(([parts].into(), DataType::Int4))
            }
            (W::FirstValue | W::LastValue, 1) | (W::Lag | W::Lead, 1) => {
                let value = self.resolved(next())?;
                Ok(([value.expr].into(), value.data_type))
            }
            (W::NthValue | W::Lag | W::Lead, 2) => {
                let value = self.resolved(next())?;
                let number = self.coerce(next(), &DataType::Int4, CastContext::Implicit)?;
                Ok(([value.expr, number].into(), value.data_type))
            }
            (W::Lag | W::Lead, 3) => {
                let (value, number, missing) = (next(), next(), next());
                let number = self.coerce(number, &DataType::Int4, CastContext::Implicit)?;
                let unified = self.unify(vec![value, missing], name);
                let (both, data_type) = unified.map_err(|error| match error.code() {
                    SqlState::DATATYPE_MISMATCH => does_not_exist(name, &types),
                    _ => error,
                })?;
                match <[Expr; 2]>::try_from(both) {
                    Ok([value, missing]) => Ok(([value, number, missing].into(), data_type)),
                    Err(_) => Err(does_not_exist(name, &types)),
                }
            }
            _ => Err(does_not_exist(name, &types)),
        }
    }

    fn frame(
        &mut self,
        frame: Option<&ast::WindowFrame>,
        order: &[(SortKey, DataType)],
    ) -> Result<Frame> {
        use ast::WindowFrameBound as B;
        let Some(frame) = frame else {
            let (start, end) = (FrameBound::First, FrameBound::Current);
            return Ok(Frame { unit: FrameUnit::Range, start, end, limits: None });
        };
        let end = frame.end_bound.as_ref().unwrap_or(&B::CurrentRow);
        let wrong = match (&frame.start_bound, end) {
            (B::Following(None), _) => "frame start cannot be UNBOUNDED FOLLOWING",
            (_, B::Preceding(None)) => "frame end cannot be UNBOUNDED PRECEDING",
            (B::CurrentRow, B::Preceding(_)) => {
                "frame starting from current row cannot have preceding rows"
            }
            (B::Following(_), B::Preceding(_) | B::CurrentRow) => {
                "frame starting from following row cannot have preceding rows"
            }
            _ => "",
        };
        if !wrong.is_empty() {
            return Err(Error::new(WINDOWING_ERROR, wrong));
        }
        let unit = match frame.units {
            ast::WindowFrameUnits::Rows => FrameUnit::Rows,
            ast::WindowFrameUnits::Groups => FrameUnit::Groups,
            ast::WindowFrameUnits::Range => FrameUnit::Range,
        };
        if unit == FrameUnit::Groups && order.is_empty() {
            let what = "GROUPS mode requires an ORDER BY clause";
            return Err(Error::new(WINDOWING_ERROR, what));
        }
        let mut limits = None;
        let mut bound = |binder: &mut Self, bound: &ast::WindowFrameBound, is_start: bool| {
            let (distance, precedes) = match bound {
                B::CurrentRow => return Ok(FrameBound::Current),
                B::Preceding(None) => return Ok(FrameBound::First),
                B::Following(None) => return Ok(FrameBound::Last),
                B::Preceding(Some(distance)) => (distance, true),
                B::Following(Some(distance)) => (distance, false),
            };
            let distance = match unit {
                FrameUnit::Range => {
                    let given = binder.frame_distance(distance, "RANGE")?;
                    let far = Far { precedes, is_start };
                    binder.limit(order, given, far, &mut limits)?
                }
                unit => {
                    let shown = if unit == FrameUnit::Rows { "ROWS" } else { "GROUPS" };
                    let given = binder.frame_distance(distance, shown)?;
                    binder.coerce(given, &DataType::Int8, CastContext::Implicit)?
                }
            };
            Ok::<_, Error>(match precedes {
                true => FrameBound::Preceding(distance),
                false => FrameBound::Following(distance),
            })
        };
        let (start, end) = (bound(self, &frame.start_bound, true)?, bound(self, end, false)?);
        Ok(Frame { unit, start, end, limits })
    }

    fn frame_distance(&mut self, distance: &ast::Expr, shown: &str) -> Result<Typed> {
        self.bare_expression(distance).map_err(|error| match error.code() {
            SqlState::UNDEFINED_COLUMN | SqlState::UNDEFINED_TABLE => Error::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!("argument of {shown} must not contain variables"),
            ),
            _ => error,
        })
    }

    /// Adds how far a frame goes by value, and gives the distance.
    fn limit(
        &mut self,
        order: &[(SortKey, DataType)],
        distance: Typed,
        far: Far,
        limits: &mut Option<Box<Limits>>,
    ) -> Result<Expr> {
        let [(key, key_type)] = order else {
            let what = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            return Err(Error::new(WINDOWING_ERROR, what));
        };
        let (value_type, distance_type) = reckoned(key_type, &distance.data_type)?;
        let distance = self.coerce(distance, &distance_type, CastContext::Implicit)?;
        let key_typed = Typed::new(key.expr.clone(), key_type.clone());
        let value = self.coerce(key_typed, &value_type, CastContext::Implicit)?;
        let limits = limits.get_or_insert_with(|| {
            let (value, descending) = (value.clone(), key.descending);
            Box::new(Limits { value, start: None, end: None, descending })
        });
        // Preceding rows have smaller values in a rising order, and larger ones in a falling one.
        let (op, arithmetic) = match far.precedes == key.descending {
            true => (BinaryOp::Add, ArithmeticOp::Add),
            false => (BinaryOp::Subtract, ArithmeticOp::Sub),
        };
        let value = Typed::new(value, value_type.clone());
        let by = Typed::new(distance.clone(), distance_type);
        let moved = self.arithmetic(op, arithmetic, value, by)?;
        let limit = self.coerce(moved, &value_type, CastContext::Implicit)?;
        match far.is_start {
            true => limits.start = Some(limit),
            false => limits.end = Some(limit),
        }
        Ok(distance)
    }
}

/// Which end of a frame, and on which side of its row.
#[derive(Clone, Copy)]
struct Far {
    precedes: bool,
    is_start: bool,
}

/// In which type a distance is added to what rows are ordered by, and the distance's own.
fn reckoned(key: &DataType, distance: &DataType) -> Result<(DataType, DataType)> {
    use DataType as T;
    let is_integer = |data_type: &T| matches!(data_type, T::Int2 | T::Int4 | T::Int8);
    let is_number = |data_type: &T| is_integer(data_type) || *data_type == T::Unknown;
    let is_interval = matches!(distance, T::Interval(_) | T::Unknown);
    let numeric = T::Numeric(None);
    let refused = |what: String, hint: Option<&'static str>| {
        let error = Error::new(SqlState::FEATURE_NOT_SUPPORTED, what);
        Err(match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        })
    };
    match key {
        // Beyond the largest integer there are others.
        key if is_integer(key) && is_number(distance) => Ok((numeric.clone(), numeric)),
        T::Numeric(_) if is_number(distance) || matches!(distance, T::Numeric(_)) => {
            Ok((numeric.clone(), numeric))
        }
        T::Float4 | T::Float8
            if is_number(distance) || matches!(distance, T::Numeric(_) | T::Float4 | T::Float8) =>
        {
            Ok((T::Float8, T::Float8))
        }
        T::Date | T::Timestamp(_) if is_interval => Ok((T::Timestamp(None), T::INTERVAL)),
        T::Timestamptz(_) if is_interval => Ok((T::Timestamptz(None), T::INTERVAL)),
        T::Interval(_) if is_interval => Ok((T::INTERVAL, T::INTERVAL)),
        T::Int2
        | T::Int4
        | T::Int8
        | T::Numeric(_)
        | T::Float4
        | T::Float8
        | T::Date
        | T::Timestamp(_)
        | T::Timestamptz(_)
        | T::Interval(_) => {
            let what = format!(
                "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {} and \
                 offset type {}",
                key.without_modifier(),
                distance.without_modifier()
            );
            refused(what, Some("Cast the offset value to an appropriate type."))
        }
        key => {
            let what = format!(
                "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {}",
                key.without_modifier()
            );
            refused(what, None)
        }
    }
}

fn does_not_exist(name: &str, types: &[DataType]) -> Error {
    let types: Vec<String> = types.iter().map(ToString::to_string).collect();
    let what = format!("function {name}({}) does not exist", types.join(", "));
    Error::new(SqlState::UNDEFINED_FUNCTION, what).with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}
