//! Dates, times and intervals: literals, functions of them, and what a session's clocks mean.
//!
//! Programs compute in UTC ([`types::zone`]). What is another value where clocks show another time
//! is computed here where all of it is constant, and refused elsewhere.

use procedure::{Expr, Function};
use sqlparser::ast;
use types::cast::CastContext;
use types::interval::Fields;
use types::moments::{Operator, operator};
use types::{DataType, Error, Result, SqlState, Value, Zone};

use super::binder::{Binder, Typed, fold};
use super::clocks::shows_zone;
use super::scope::Scope;
use crate::settings::zones;

impl Binder<'_> {
    /// `INTERVAL '1 day'`, with fields after it or none.
    pub(super) fn interval_literal(
        &mut self,
        scope: &Scope,
        interval: &ast::Interval,
    ) -> Result<Typed> {
        let to = DataType::Interval(fields_of(interval)?);
        let is_text = matches!(&*interval.value, ast::Expr::Value(value)
            if value.value.clone().into_string().is_some());
        if !is_text {
            let what = format!("syntax error at or near \"{}\"", interval.value);
            return Err(Error::new(SqlState::SYNTAX_ERROR, what)
                .with_hint("An interval's text is a literal, as in INTERVAL '1 day'."));
        }
        let text = self.expression(scope, &interval.value)?;
        let expr = self.coerce(text, &to, CastContext::Explicit)?;
        Ok(Typed::new(expr, to))
    }

    /// An operator of which a side is a date, a time or an interval; `None` where none is.
    pub(super) fn moment_arithmetic(
        &mut self,
        op: (procedure::BinaryOp, types::arithmetic::ArithmeticOp),
        left: &Typed,
        right: &Typed,
    ) -> Result<Option<Typed>> {
        let Some(found) = operator(op.1, &left.data_type, &right.data_type) else {
            return Ok(None);
        };
        let Operator { left: l, right: r, result } = found?;
        let left = self.coerce(left.clone(), &l, CastContext::Implicit)?;
        let right = self.coerce(right.clone(), &r, CastContext::Implicit)?;
        let sides = [(&left, &l), (&right, &r)];
        let moves = sides.iter().any(|(_, t)| matches!(t, DataType::Interval(_)));
        if result == DataType::Timestamptz(None) && moves {
            let by = sides.iter().find(|(_, t)| matches!(t, DataType::Interval(_)));
            // Hours are as long everywhere.
            let by_hours = matches!(by, Some((Expr::Const(Value::Interval(by)), _))
                if by.months == 0 && by.days == 0);
            let by_null = matches!(by, Some((Expr::Const(Value::Null), _)));
            if !by_hours && !by_null && !self.in_view {
                if let Some(moved) = self.moved_here(op.1, &left, &right)? {
                    return Ok(Some(Typed::new(Expr::Const(moved), result)));
                }
                let what = "adding days or months to a timestamp with time zone";
                if let Some(rules) = self.session_rules(what)? {
                    let (moment, by) = match l {
                        DataType::Interval(_) => (right, left),
                        _ => (left, right),
                    };
                    let by = match op.1 {
                        types::arithmetic::ArithmeticOp::Sub => negated(by),
                        _ => by,
                    };
                    return Ok(Some(Typed::new(self.move_by_clocks(&rules, moment, by), result)));
                }
            }
        }
        let expr = Expr::Binary {
            op: op.0,
            left: Box::new(left),
            right: Box::new(right),
            result: result.clone(),
        };
        Ok(Some(Typed::new(fold(expr), result)))
    }

    /// A constant moment moved by a constant interval, as the session's clocks show it.
    fn moved_here(
        &mut self,
        op: types::arithmetic::ArithmeticOp,
        left: &Expr,
        right: &Expr,
    ) -> Result<Option<Value>> {
        let (Expr::Const(left), Expr::Const(right)) = (left, right) else { return Ok(None) };
        let (us, by) = match (left, right) {
            (Value::Timestamptz(us), Value::Interval(by))
            | (Value::Interval(by), Value::Timestamptz(us)) => (*us, *by),
            _ => return Ok(None),
        };
        let by = match op {
            types::arithmetic::ArithmeticOp::Sub => by.negated()?,
            _ => by,
        };
        self.zone_dependent = true;
        self.session.zone.moved(us, by).map(|us| Some(Value::Timestamptz(us)))
    }

    /// # Errors
    /// 0A000: the session has another text for values of the type than programs have.
    pub(super) fn needs_plain_text(&mut self, from: &DataType) -> Result<()> {
        match Zone::matters(from, &DataType::Text) {
            true => self.needs_plain(from, &DataType::Text, format_args!("{from} as text")),
            false => Ok(()),
        }
    }

    /// A moment as the text that the session shows; others as they are.
    ///
    /// # Errors
    /// As [`needs_plain_text`](Binder::needs_plain_text).
    pub(super) fn moment_as_text(&mut self, input: Typed) -> Result<Typed> {
        if matches!(input.data_type, DataType::Timestamptz(_)) {
            let text = self.coerce(input, &DataType::Text, CastContext::Explicit)?;
            return Ok(Typed::new(text, DataType::Text));
        }
        self.needs_plain_text(&input.data_type)?;
        Ok(input)
    }

    pub(super) fn datetime_function(
        &mut self,
        name: &str,
        arguments: &[Typed],
    ) -> Result<Option<Typed>> {
        use DataType as T;
        match (name, arguments.len()) {
            ("date_part" | "extract" | "date_trunc", 2) => self.part_of_time(name, arguments),
            ("date_trunc", 3) => self.truncated_at_place(arguments).map(Some),
            ("to_char", 2) => self.time_to_char(arguments),
            ("make_date", 3) => {
                let types = [T::Int4, T::Int4, T::Int4];
                self.call(Function::MakeDate, &types, arguments, T::Date).map(Some)
            }
            ("make_time", 3) => {
                let types = [T::Int4, T::Int4, T::Float8];
                self.call(Function::MakeTime, &types, arguments, T::Time(None)).map(Some)
            }
            ("make_interval", 0..=7) => self.make_interval(arguments).map(Some),
            ("make_timestamp" | "make_timestamptz", 6) => {
                self.make_timestamp(name, arguments).map(Some)
            }
            ("to_timestamp", 1)
                if arguments[0].data_type.is_number() || arguments[0].data_type == T::Unknown =>
            {
                self.call(Function::ToTimestamp, &[T::Float8], arguments, T::Timestamptz(None))
                    .map(Some)
            }
            ("age", 1 | 2) => self.age(arguments),
            ("justify_days" | "justify_hours" | "justify_interval", 1) => {
                let function = match name {
                    "justify_days" => Function::JustifyDays,
                    "justify_hours" => Function::JustifyHours,
                    _ => Function::JustifyInterval,
                };
                self.call_fitting(function, &[T::INTERVAL], arguments, T::INTERVAL)
            }
            ("date_bin", 3) => {
                let moment = match common_moment(&arguments[1..]) {
                    Some(moment) => moment,
                    None => return Ok(None),
                };
                let types = [T::INTERVAL, moment.clone(), moment.clone()];
                self.call_fitting(Function::DateBin, &types, arguments, moment)
            }
            ("timezone", 2) => self.at_time_zone(&arguments[0], &arguments[1]).map(Some),
            ("isfinite", 1)
                if arguments[0].data_type.is_datetime()
                    || matches!(arguments[0].data_type, T::Interval(_)) =>
            {
                let present = fold(Expr::is_null(arguments[0].expr.clone(), true));
                let null = Expr::Const(Value::Null);
                let expr = Expr::Case {
                    whens: [(present.clone(), present)].into(),
                    otherwise: Box::new(null),
                };
                Ok(Some(Typed::new(expr, T::Bool)))
            }
            ("current_time" | "localtime" | "current_timestamp" | "localtimestamp", 1) => {
                self.current_time(name, &arguments[0]).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// EXTRACT, `date_part`, `date_trunc`.
    fn part_of_time(&mut self, name: &str, arguments: &[Typed]) -> Result<Option<Typed>> {
        use DataType as T;
        let function = match name {
            "date_part" => Function::DatePart,
            "extract" => Function::Extract,
            _ => Function::DateTrunc,
        };
        let moment = match &arguments[1].data_type {
            T::Unknown => T::Timestamp(None),
            T::Date if function == Function::DateTrunc => T::Timestamptz(None),
            T::Time(_) if function == Function::DateTrunc => T::INTERVAL,
            t @ (T::Interval(_) | T::Time(_)) => t.without_modifier(),
            t @ T::Timetz(_) if function != Function::DateTrunc => t.without_modifier(),
            t if t.is_datetime() => t.without_modifier(),
            _ => return Ok(None),
        };
        let is_epoch =
            matches!(&arguments[0].expr, Expr::Const(field) if field.as_text() == Some("epoch"));
        if moment == T::Timestamptz(None) && !is_epoch {
            return self.part_of_moment(function, name, arguments).map(Some);
        }
        let result = match function {
            Function::DatePart => T::Float8,
            Function::Extract => T::Numeric(None),
            _ => moment.clone(),
        };
        self.call(function, &[T::Text, moment], arguments, result).map(Some)
    }

    /// The same of a timestamp with a time zone, as the session's clocks show it.
    fn part_of_moment(
        &mut self,
        function: Function,
        name: &str,
        arguments: &[Typed],
    ) -> Result<Typed> {
        use DataType as T;
        let what = format_args!("{name} of a timestamp with time zone");
        let field = match &arguments[0].expr {
            Expr::Const(field) => field.as_text().map(str::to_ascii_lowercase),
            _ => None,
        };
        let rules = match field {
            // The shown time has no offset any more.
            Some(field) if !field.starts_with("timezone") => self.session_rules(what)?,
            _ => self.needs_utc(what).map(|()| None)?,
        };
        let Some(rules) = rules else {
            let result = match function {
                Function::DatePart => T::Float8,
                Function::Extract => T::Numeric(None),
                _ => T::Timestamptz(None),
            };
            return self.call(function, &[T::Text, T::Timestamptz(None)], arguments, result);
        };
        let moment =
            self.coerce(arguments[1].clone(), &T::Timestamptz(None), CastContext::Assignment)?;
        if function == Function::DateTrunc {
            return self.truncated_by_clocks(&rules, &arguments[0], moment);
        }
        let shown = self.shown_by_clocks(&rules, moment);
        let result = match function {
            Function::DatePart => T::Float8,
            _ => T::Numeric(None),
        };
        self.call(function, &[T::Text, T::Timestamp(None)], &[arguments[0].clone(), shown], result)
    }

    /// `date_trunc('day', moment, 'Europe/Berlin')`.
    fn truncated_at_place(&mut self, arguments: &[Typed]) -> Result<Typed> {
        use DataType as T;
        let [field, moment, zone] = arguments else {
            return Err(Error::new(SqlState::INTERNAL_ERROR, "three arguments"));
        };
        let Expr::Const(Value::Text(name)) = &zone.expr else {
            return Err(Error::unsupported("date_trunc in a computed zone"));
        };
        let place = place_named(name)?;
        let input = self.coerce(moment.clone(), &T::Timestamptz(None), CastContext::Assignment)?;
        if place.is_utc() {
            let given = [field.clone(), Typed::new(input, T::Timestamptz(None))];
            let types = [T::Text, T::Timestamptz(None)];
            return self.call(Function::DateTrunc, &types, &given, T::Timestamptz(None));
        }
        match self.rules_of(&place) {
            Some(rules) => self.truncated_by_clocks(&rules, field, input),
            None => Err(Error::unsupported("date_trunc in a time zone, in what is recorded")),
        }
    }

    fn time_to_char(&mut self, arguments: &[Typed]) -> Result<Option<Typed>> {
        use DataType as T;
        let moment = match &arguments[0].data_type {
            T::Date => T::Timestamptz(None),
            T::Interval(_) | T::Time(_) => T::INTERVAL,
            known @ (T::Timestamp(_) | T::Timestamptz(_)) => known.without_modifier(),
            _ => return Ok(None),
        };
        if moment != T::Timestamptz(None) {
            return self.call(Function::ToChar, &[moment, T::Text], arguments, T::Text).map(Some);
        }
        let what = "to_char of a timestamp with time zone";
        let rules = match &arguments[1].expr {
            Expr::Const(Value::Text(format)) if !shows_zone(format) => self.session_rules(what)?,
            _ => self.needs_utc(what).map(|()| None)?,
        };
        let mut given = arguments.to_vec();
        let mut of = T::Timestamptz(None);
        if let Some(rules) = rules {
            let moment = self.coerce(given[0].clone(), &of, CastContext::Assignment)?;
            given[0] = self.shown_by_clocks(&rules, moment);
            of = T::Timestamp(None);
        }
        self.call(Function::ToChar, &[of, T::Text], &given, T::Text).map(Some)
    }

    fn make_interval(&mut self, arguments: &[Typed]) -> Result<Typed> {
        use DataType as T;
        let types = [T::Int4, T::Int4, T::Int4, T::Int4, T::Int4, T::Int4, T::Float8];
        let mut given = arguments.to_vec();
        given.resize(types.len(), Typed::new(Expr::Const(Value::Int(0)), T::Int4));
        self.call(Function::MakeInterval, &types, &given, T::INTERVAL)
    }

    fn make_timestamp(&mut self, name: &str, arguments: &[Typed]) -> Result<Typed> {
        use DataType as T;
        let days = [T::Int4, T::Int4, T::Int4];
        let date = self.call(Function::MakeDate, &days, &arguments[..3], T::Date)?;
        let clock = [T::Int4, T::Int4, T::Float8];
        let time = self.call(Function::MakeTime, &clock, &arguments[3..], T::Time(None))?;
        let types = [T::Date, T::Time(None)];
        let made = self.call(Function::MakeTimestamp, &types, &[date, time], T::Timestamp(None))?;
        if name == "make_timestamp" {
            return Ok(made);
        }
        let made = Typed::new(fold(made.expr), made.data_type);
        let expr = self.coerce(made, &T::Timestamptz(None), CastContext::Implicit)?;
        Ok(Typed::new(expr, T::Timestamptz(None)))
    }

    /// From the second moment to the first, or from the first to today's midnight.
    fn age(&mut self, arguments: &[Typed]) -> Result<Option<Typed>> {
        use DataType as T;
        let Some(moment) = common_moment(arguments) else { return Ok(None) };
        let mut given = arguments.to_vec();
        if given.len() == 1 {
            let now = Typed::new(Expr::Now, T::Timestamptz(None));
            let today = self.coerce(now, &T::Date, CastContext::Explicit)?;
            let today = self.coerce(Typed::new(today, T::Date), &moment, CastContext::Implicit)?;
            given.insert(0, Typed::new(today, moment.clone()));
        }
        let is_moment = |typed: &Typed| matches!(typed.data_type, T::Timestamptz(_));
        if moment == T::Timestamptz(None) && given.iter().any(is_moment) {
            for given in &mut given {
                let expr = self.coerce(given.clone(), &moment, CastContext::Implicit)?;
                *given = Typed::new(expr, moment.clone());
            }
            let shown = self.shown_here(&given, "age() of a timestamp with time zone")?;
            let types = [shown[0].data_type.clone(), shown[1].data_type.clone()];
            return self.call_fitting(Function::Age, &types, &shown, T::INTERVAL);
        }
        let types = [moment.clone(), moment];
        self.call_fitting(Function::Age, &types, &given, T::INTERVAL)
    }

    /// `current_time(3)` and its like: digits of a second that are kept.
    fn current_time(&mut self, name: &str, digits: &Typed) -> Result<Typed> {
        use DataType as T;
        let digits = match &digits.expr {
            Expr::Const(Value::Int(digits)) => u8::try_from(*digits).ok(),
            _ => None,
        };
        let Some(digits) = digits else {
            let what = format!("syntax error in the precision of {name}");
            return Err(Error::new(SqlState::SYNTAX_ERROR, what));
        };
        let Some(now) = self.niladic(name)? else {
            return Err(Error::new(SqlState::INTERNAL_ERROR, "a clock without a time"));
        };
        let to = match now.data_type {
            T::Time(_) => T::Time(Some(digits.min(6))),
            T::Timetz(_) => T::Timetz(Some(digits.min(6))),
            T::Timestamp(_) => T::Timestamp(Some(digits.min(6))),
            _ => T::Timestamptz(Some(digits.min(6))),
        };
        let expr = self.coerce(now, &to, CastContext::Explicit)?;
        Ok(Typed::new(expr, to.without_modifier()))
    }

    /// `moment AT TIME ZONE zone`: the zone is an interval, or a name; what is recorded takes the
    /// names of those with one offset.
    pub(super) fn at_time_zone(&mut self, zone: &Typed, moment: &Typed) -> Result<Typed> {
        use DataType as T;
        let (input, result) = match &moment.data_type {
            T::Timestamp(_) => (T::Timestamp(None), T::Timestamptz(None)),
            T::Timestamptz(_) | T::Date | T::Unknown => (T::Timestamptz(None), T::Timestamp(None)),
            T::Time(_) | T::Timetz(_) => (T::Timetz(None), T::Timetz(None)),
            other => {
                let what = format!(
                    "function pg_catalog.timezone({}, {other}) does not exist",
                    zone.data_type
                );
                return Err(Error::new(SqlState::UNDEFINED_FUNCTION, what).with_hint(
                    "No function matches the given name and argument types. You might need to add \
                     explicit type casts.",
                ));
            }
        };
        let zone = match &zone.data_type {
            T::Interval(_) => zone.clone(),
            _ => {
                let Expr::Const(Value::Text(name)) = &zone.expr else {
                    return Err(Error::unsupported("AT TIME ZONE with a computed zone"));
                };
                let place = place_named(name)?;
                let Some(ahead_s) = place.fixed_ahead_s() else {
                    return self.at_place(&place, moment, (&input, &result));
                };
                let ahead = types::Interval::new(0, 0, ahead_s * types::interval::SECOND_US);
                Typed::new(Expr::Const(ahead.into()), T::INTERVAL)
            }
        };
        self.call(Function::AtTimeZone, &[T::INTERVAL, input], &[zone, moment.clone()], result)
    }

    /// `(a, b) OVERLAPS (c, d)`: a second end may be how long the span is.
    pub(super) fn overlaps(
        &mut self,
        scope: &Scope,
        left: &ast::Expr,
        right: &ast::Expr,
    ) -> Result<Typed> {
        use DataType as T;
        let wrong = || {
            let what = "wrong number of parameters on a side of OVERLAPS expression";
            Error::new(SqlState::SYNTAX_ERROR, what)
        };
        let mut ends = Vec::with_capacity(4);
        for side in [left, right] {
            let ast::Expr::Tuple(parts) = side else { return Err(wrong()) };
            let [from, to] = parts.as_slice() else { return Err(wrong()) };
            let (from, to) = (self.expression(scope, from)?, self.expression(scope, to)?);
            let to = match to.data_type {
                T::Interval(_) => {
                    let again = Typed::new(self.again(&from.expr)?, from.data_type.clone());
                    let op = (procedure::BinaryOp::Add, types::arithmetic::ArithmeticOp::Add);
                    self.moment_arithmetic(op, &again, &to)?.ok_or_else(wrong)?
                }
                _ => to,
            };
            ends.extend([from, to]);
        }
        let clock = ends.iter().find_map(|end| match &end.data_type {
            clock @ (T::Time(_) | T::Timetz(_)) => Some(clock.without_modifier()),
            _ => None,
        });
        let Some(moment) = clock.or_else(|| common_moment(&ends)) else {
            let types: Vec<String> = ends.iter().map(|end| end.data_type.to_string()).collect();
            let what = format!("function pg_catalog.overlaps({}) does not exist", types.join(", "));
            return Err(Error::new(SqlState::UNDEFINED_FUNCTION, what));
        };
        let types = [moment.clone(), moment.clone(), moment.clone(), moment];
        self.call(Function::Overlaps, &types, &ends, T::Bool)
    }
}

/// An interval the other way.
fn negated(interval: Expr) -> Expr {
    let none = Box::new(Expr::Const(types::Interval::new(0, 0, 0).into()));
    let (op, result) = (procedure::BinaryOp::Subtract, DataType::INTERVAL);
    fold(Expr::Binary { op, left: none, right: Box::new(interval), result })
}

/// A timestamp with a time zone where one is, or where all are dates.
fn common_moment(of: &[Typed]) -> Option<DataType> {
    use DataType as T;
    let is = |wanted: &T| of.iter().any(|typed| typed.data_type.without_modifier() == *wanted);
    let known = |typed: &Typed| typed.data_type.is_datetime() || typed.data_type == T::Unknown;
    if !of.iter().all(known) {
        return None;
    }
    Some(match (is(&T::Timestamptz(None)), is(&T::Timestamp(None))) {
        (true, _) => T::Timestamptz(None),
        (_, true) => T::Timestamp(None),
        _ => T::Timestamptz(None),
    })
}

/// As SQL names one, where a number is no zone and hours count westward.
fn place_named(name: &str) -> Result<Zone> {
    zones::find_at(name).map_err(|error| match error.code() {
        SqlState::INVALID_PARAMETER_VALUE => unknown_zone(name),
        _ => error,
    })
}

fn unknown_zone(name: &str) -> Error {
    let what = format!("time zone \"{name}\" not recognized");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
}

/// The fields that stand after an interval's text.
fn fields_of(interval: &ast::Interval) -> Result<Fields> {
    let named = |field: &Option<ast::DateTimeField>| {
        field.as_ref().map(|field| field.to_string().to_ascii_lowercase())
    };
    let range = match (named(&interval.leading_field), named(&interval.last_field)) {
        (None, _) => String::new(),
        (Some(only), None) => only,
        (Some(first), Some(last)) => format!("{first} to {last}"),
    };
    let digits = interval.fractional_seconds_precision.or(interval.leading_precision);
    let digits = digits.map(|digits| u32::try_from(digits).unwrap_or(u32::MAX));
    Fields::of(&range, digits)
}

/// Names of the parameters of what is usually called by them.
fn parameters_of(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "make_interval" => &["years", "months", "weeks", "days", "hours", "mins", "secs"],
        "make_date" => &["year", "month", "day"],
        "make_time" => &["hour", "min", "sec"],
        "make_timestamp" | "make_timestamptz" => &["year", "month", "mday", "hour", "min", "sec"],
        _ => return None,
    })
}

/// Arguments in their order, where some are named and the function is one that has names for them;
/// `None` stands for one that is left out.
pub(super) fn by_name<'a>(
    call: &str,
    arguments: &'a [ast::FunctionArg],
) -> Option<Result<Vec<Option<&'a ast::Expr>>>> {
    use ast::{FunctionArg as A, FunctionArgExpr as E};
    let is_named = |argument: &A| !matches!(argument, A::Unnamed(_));
    if !arguments.iter().any(is_named) {
        return None;
    }
    let parameters = parameters_of(call)?;
    let missing = || {
        let what = format!("function {call} with these argument names does not exist");
        Error::new(SqlState::UNDEFINED_FUNCTION, what)
            .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
    };
    let mut places: Vec<Option<&ast::Expr>> = vec![None; parameters.len()];
    let mut named = false;
    for (place, argument) in arguments.iter().enumerate() {
        let (place, expr) = match argument {
            A::Unnamed(E::Expr(expr)) if !named => (Some(place), expr),
            A::Named { name, arg: E::Expr(expr), .. } => {
                named = true;
                let name = crate::syntax::names::fold(name);
                (parameters.iter().position(|known| *known == name), expr)
            }
            A::ExprNamed { name: ast::Expr::Identifier(name), arg: E::Expr(expr), .. } => {
                named = true;
                let name = crate::syntax::names::fold(name);
                (parameters.iter().position(|known| *known == name), expr)
            }
            _ => return Some(Err(missing())),
        };
        match place.and_then(|place| places.get_mut(place)) {
            Some(free) if free.is_none() => *free = Some(expr),
            _ => return Some(Err(missing())),
        }
    }
    let may_be_left_out = call == "make_interval";
    match !may_be_left_out && places.iter().any(Option::is_none) {
        true => Some(Err(missing())),
        false => Some(Ok(places)),
    }
}
