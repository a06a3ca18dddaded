//! Functions that give rows: in FROM, and in a select list.
//!
//! In FROM a call is a relation. Where its arguments name columns of relations before it, it is
//! made anew for each of their rows, with LATERAL or without. In a select list each call becomes
//! the placeholder `Column(FIRST_CALLED + n)`, and the calls together a relation after the others:
//! all side by side, as PostgreSQL has it.

use procedure::query::RowFunction;
use procedure::{Column, Expr, Function, JsonRows, Query};
use sqlparser::ast;
use types::cast::CastContext;
use types::{DataType, Error, Result, SqlState, Value};

use super::binder::{Binder, Typed, fold};
use super::placeholders::{FIRST_CALLED, is_called};
use super::records::record_of;
use super::row_calls::each_input;
use super::scope::Scope;
use super::state::Windows;
use super::system::as_array;
use crate::syntax::exprs::positional;

pub(super) fn gives_rows(name: &str) -> bool {
    json_rows(name).is_some()
        || matches!(name, "unnest" | "generate_series" | "generate_subscripts" | "string_to_table")
        || matches!(name, "regexp_matches" | "regexp_split_to_table")
}

/// The functions that give parts of JSON.
pub(super) fn json_rows(name: &str) -> Option<JsonRows> {
    let base = name.strip_prefix("jsonb_").or_else(|| name.strip_prefix("json_"))?;
    Some(match base {
        "array_elements" => JsonRows::Elements,
        "array_elements_text" => JsonRows::ElementTexts,
        "each" => JsonRows::Members,
        "each_text" => JsonRows::MemberTexts,
        "object_keys" => JsonRows::Keys,
        "to_record" => JsonRows::Record,
        "to_recordset" => JsonRows::Records,
        _ => return None,
    })
}

impl Binder<'_> {
    /// Binds a call; its rows have one column.
    pub(super) fn row_function(
        &mut self,
        scope: &Scope,
        name: &str,
        arguments: &[&ast::Expr],
    ) -> Result<(Query, DataType)> {
        let mut bound = Vec::with_capacity(arguments.len());
        for argument in arguments {
            bound.push(self.expression(scope, argument)?);
        }
        let types: Vec<DataType> = bound.iter().map(|b| b.data_type.clone()).collect();
        if !gives_rows(name) || self.system.is_some_and(|system| system.is_own(name, &types)) {
            let rows = self.system_rows(name, &bound, true)?;
            let (query, columns) = rows.ok_or_else(|| does_not_exist(name, &bound))?;
            return Ok(match <[Column; 1]>::try_from(columns) {
                Ok([only]) => (query, only.data_type),
                Err(columns) => (query, record_of(&columns)),
            });
        }
        if let Some(of) = json_rows(name) {
            if matches!(of, JsonRows::Record | JsonRows::Records) {
                let what =
                    "function returning record called in context that cannot accept type record";
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
            }
            let (query, columns) = self.rows_of_json(name, of, bound)?;
            return match <[Column; 1]>::try_from(columns) {
                Ok([only]) => Ok((query, only.data_type)),
                Err(_) => Err(Error::unsupported(format_args!("{name}() in a select list"))
                    .with_hint(FROM_HINT)),
            };
        }
        for array in &mut bound {
            array.data_type = as_array(&array.data_type);
        }
        match (name, bound.as_slice()) {
            ("unnest", [Typed { data_type: DataType::Array(element), expr, .. }]) => {
                Ok((called(RowFunction::Elements, [expr.clone()]), (**element).clone()))
            }
            ("generate_series", [first, last, step])
                if [first, last].iter().any(|bound| bound.data_type.is_datetime())
                    || matches!(step.data_type, DataType::Interval(_)) =>
            {
                self.series_of_moments([first, last], step)
            }
            ("generate_series", [_, _] | [_, _, _]) => self.series(bound),
            ("generate_subscripts", [Typed { data_type: DataType::Array(_), .. }, ..]) => {
                self.subscripts(bound)
            }
            ("string_to_table", [_, _] | [_, _, _]) => self.parts(bound),
            ("regexp_matches" | "regexp_split_to_table", given) => {
                self.regex_rows(name, given)?.ok_or_else(|| does_not_exist(name, &bound))
            }
            _ => Err(does_not_exist(name, &bound)),
        }
    }

    fn series(&mut self, bounds: Vec<Typed>) -> Result<(Query, DataType)> {
        let wide = bounds.iter().any(|b| b.data_type == DataType::Int8);
        let data_type = if wide { DataType::Int8 } else { DataType::Int4 };
        let mut inputs = Vec::with_capacity(3);
        if bounds.iter().any(|b| !b.data_type.is_number() && b.data_type != DataType::Unknown) {
            return Err(does_not_exist("generate_series", &bounds));
        }
        for bound in bounds {
            if !bound.data_type.is_integer() && bound.data_type != DataType::Unknown {
                return Err(Error::unsupported(format_args!(
                    "generate_series over {} with this step",
                    bound.data_type
                )));
            }
            inputs.push(self.coerce(bound, &data_type, CastContext::Implicit)?);
        }
        inputs.resize(3, Expr::Const(Value::Int(1)));
        Ok((called(RowFunction::Integers, inputs), data_type))
    }

    /// Dates count as midnights with a time zone.
    fn series_of_moments(
        &mut self,
        bounds: [&Typed; 2],
        step: &Typed,
    ) -> Result<(Query, DataType)> {
        let is = |wanted: DataType| {
            bounds.iter().any(|bound| bound.data_type.without_modifier() == wanted)
        };
        let other =
            |bound: &Typed| !bound.data_type.is_datetime() && bound.data_type != DataType::Unknown;
        let is_step = matches!(step.data_type, DataType::Interval(_) | DataType::Unknown);
        let missing = || {
            let given = [bounds[0].clone(), bounds[1].clone(), step.clone()];
            does_not_exist("generate_series", &given)
        };
        let data_type = match (is(DataType::Timestamptz(None)), is(DataType::Timestamp(None))) {
            _ if bounds.iter().any(|bound| other(bound)) || !is_step => return Err(missing()),
            (false, true) => DataType::Timestamp(None),
            (true, _) => DataType::Timestamptz(None),
            _ if is(DataType::Date) => DataType::Timestamptz(None),
            _ => return Err(missing()),
        };
        let mut inputs = Vec::with_capacity(3);
        for bound in bounds {
            inputs.push(self.coerce(bound.clone(), &data_type, CastContext::Implicit)?);
        }
        let step = self.coerce(step.clone(), &DataType::INTERVAL, CastContext::Implicit)?;
        let by_hours = matches!(&step, Expr::Const(Value::Interval(by))
            if by.months == 0 && by.days == 0);
        if data_type == DataType::Timestamptz(None) && !by_hours {
            self.needs_utc("a series of timestamps with time zone by days or months")?;
        }
        inputs.push(step);
        Ok((called(RowFunction::Moments, inputs), data_type))
    }

    /// The places of an array's elements.
    fn subscripts(&mut self, bound: Vec<Typed>) -> Result<(Query, DataType)> {
        let mut bound = bound.into_iter();
        let (Some(array), Some(dimension), reverse) = (bound.next(), bound.next(), bound.next())
        else {
            return Err(does_not_exist("generate_subscripts", &[]));
        };
        let dimension = self.coerce(dimension, &DataType::Int4, CastContext::Implicit)?;
        let arguments = [array.expr, dimension].into();
        let length =
            Expr::Call { function: Function::ArrayLength, arguments, result: DataType::Int4 };
        let one = || Expr::Const(Value::Int(1));
        let reverse = match reverse {
            None => Expr::Const(Value::Bool(false)),
            Some(reverse) => self.coerce(reverse, &DataType::Bool, CastContext::Implicit)?,
        };
        let inputs = match reverse {
            Expr::Const(Value::Bool(false)) => [one(), length, one()],
            Expr::Const(Value::Bool(true)) => [length, one(), Expr::Const(Value::Int(-1))],
            _ => return Err(Error::unsupported("generate_subscripts() in a computed direction")),
        };
        Ok((called(RowFunction::Integers, inputs), DataType::Int4))
    }

    /// Elements or members of JSON, and the columns that they are.
    pub(super) fn rows_of_json(
        &mut self,
        name: &str,
        of: JsonRows,
        bound: Vec<Typed>,
    ) -> Result<(Query, Vec<Column>)> {
        let json = match name.starts_with("jsonb_") {
            true => DataType::Jsonb,
            false => DataType::Json,
        };
        let [value] = bound.as_slice() else { return Err(does_not_exist(name, &bound)) };
        if value.data_type != json && value.data_type != DataType::Unknown {
            return Err(does_not_exist(name, &bound));
        }
        let value = self.coerce(value.clone(), &json, CastContext::Implicit)?;
        let column = |name: &str, data_type| Column { name: name.to_owned(), data_type };
        let columns = match of {
            JsonRows::Elements | JsonRows::Record | JsonRows::Records => {
                vec![column("value", json)]
            }
            JsonRows::ElementTexts => vec![column("value", DataType::Text)],
            JsonRows::Members => vec![column("key", DataType::Text), column("value", json)],
            JsonRows::MemberTexts => {
                vec![column("key", DataType::Text), column("value", DataType::Text)]
            }
            JsonRows::Keys => vec![column(name, DataType::Text)],
        };
        Ok((called(RowFunction::Json(of), [value]), columns))
    }

    fn parts(&mut self, bound: Vec<Typed>) -> Result<(Query, DataType)> {
        let mut inputs = Vec::with_capacity(3);
        for text in bound {
            if !text.data_type.is_string() && text.data_type != DataType::Unknown {
                return Err(does_not_exist("string_to_table", &[text]));
            }
            inputs.push(self.coerce(text, &DataType::Text, CastContext::Implicit)?);
        }
        inputs.resize(3, Expr::Const(Value::Null));
        Ok((called(RowFunction::Parts, inputs), DataType::Text))
    }

    /// A call in a select list: its placeholder.
    pub(super) fn rows_in_select_list(
        &mut self,
        scope: &Scope,
        name: &str,
        call: &ast::Function,
    ) -> Result<Typed> {
        let ast::FunctionArguments::List(list) = &call.args else {
            return Err(does_not_exist(name, &[]));
        };
        let arguments = list.args.iter().map(positional).collect::<Result<Vec<_>>>()?;
        if self.aggregates.is_inside() {
            let what = "aggregate function calls cannot contain set-returning function calls";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what).with_hint(FROM_HINT));
        }
        if self.within_window {
            let what = "window function calls cannot contain set-returning function calls";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what).with_hint(FROM_HINT));
        }
        if self.row_calls.is_none() {
            return Err(not_allowed(self.clause));
        }
        // Rows for each row of another call would be one call after the other.
        let calls = self.row_calls.take();
        let bound = self.within("in the arguments of others", |binder| {
            binder.row_function(scope, name, &arguments)
        });
        self.row_calls = calls;
        let (query, data_type) = bound?;
        let calls = self.row_calls.get_or_insert_default();
        let place = FIRST_CALLED + calls.len() as u16;
        calls.push(query);
        Ok(Typed::new(Expr::Column(place), data_type))
    }
}

/// Calls in a select list that would not be made for each row, or not for each group.
pub(super) fn check_calls(
    outputs: &[Expr],
    calls: &[Query],
    (grouped, windows): (bool, Option<&Windows>),
) -> Result<()> {
    if calls.is_empty() {
        return Ok(());
    }
    let mut draws = false;
    for call in calls {
        each_input(&mut call.clone(), &mut |input| draws |= input.draws());
    }
    if draws {
        return Err(Error::unsupported("drawing a value for a set-returning function"));
    }
    if grouped {
        return Err(Error::unsupported("a set-returning function beside groups"));
    }
    if windows.is_some_and(|windows| !windows.calls.is_empty()) {
        return Err(Error::unsupported("a set-returning function beside window functions"));
    }
    let is_called = |expr: &Expr| expr.columns().into_iter().any(is_called);
    for output in outputs {
        let mut conditional = None;
        output.any(&mut |expr| {
            match expr {
                Expr::Case { .. } if is_called(expr) => conditional = Some("in CASE"),
                Expr::Coalesce(_) if is_called(expr) => conditional = Some("in COALESCE"),
                _ => {}
            }
            conditional.is_some()
        });
        if let Some(place) = conditional {
            return Err(not_allowed(place));
        }
    }
    Ok(())
}

fn not_allowed(place: &str) -> Error {
    let what = match place {
        IN_FROM => "set-returning functions must appear at top level of FROM".to_owned(),
        place => format!("set-returning functions are not allowed {place}"),
    };
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, what).with_hint(FROM_HINT)
}

/// Where arguments of a call in FROM stand.
pub(super) const IN_FROM: &str = "in functions in FROM";

const FROM_HINT: &str =
    "You might be able to move the set-returning function into a LATERAL FROM item.";

fn called(function: RowFunction, inputs: impl IntoIterator<Item = Expr>) -> Query {
    Query::Call { function, inputs: inputs.into_iter().map(fold).collect() }
}

fn does_not_exist(name: &str, arguments: &[Typed]) -> Error {
    let types: Vec<String> = arguments.iter().map(|a| a.data_type.to_string()).collect();
    Error::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("function {name}({}) does not exist", types.join(", ")),
    )
    .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}
