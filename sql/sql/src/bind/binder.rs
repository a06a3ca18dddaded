//! The binder's state: what names and parameters mean, which registers are taken, and the steps
//! that the statement has become so far.

use std::fmt;
use std::sync::Arc;

use identity::Closure;
use procedure::{Expr, Function, Interrupt, Reg, Step};
use sqlparser::ast::{self, Spanned};
use sqlparser::tokenizer::Span;
use types::cast::{CastContext, cast, cast_context, common_type};
use types::interval::Style;
use types::{DataType, EnumType, Error, Result, SqlState, Value, Zone};

use super::collated::Collated;
use super::digits::{as_digits, padded};
use super::scope::Variable;
use super::system::{System, is_of_system};
use super::volatility::converts_stably;
use crate::bind::statement::ZonedConstant;
use crate::schema::catalog::{Catalog, Table, ViewUses};
use crate::schema::user_types::labels_of;
use crate::settings::session_info::SessionInfo;
use crate::syntax::names::object_name;
use crate::syntax::place::Source;

/// A bound expression and its type.
#[derive(Clone, PartialEq, Debug)]
pub struct Typed {
    pub expr: Expr,
    pub data_type: DataType,
    /// By which its texts are compared.
    pub collated: Collated,
}

impl Typed {
    pub fn new(expr: Expr, data_type: DataType) -> Typed {
        Typed { expr, data_type, collated: Collated::Default }
    }

    pub fn null() -> Typed {
        Typed::new(Expr::Const(Value::Null), DataType::Unknown)
    }
}

/// Binds one statement, or the statements of one routine.
///
/// Registers 0… hold the parameters `$1`…; further ones are handed out as steps need them. A
/// subquery in an expression becomes steps that come before the one which uses the expression, so
/// `steps` may grow while an expression is bound.
pub struct Binder<'a> {
    pub catalog: &'a Catalog,
    pub session: &'a SessionInfo,
    /// Types of `$1`…; `None` until something says.
    pub parameters: Vec<Option<DataType>>,
    /// A routine's variables; of two with the same name the later one counts.
    pub variables: Vec<Variable>,
    /// Whether a name that could be a column or a variable is an error, as in PL/pgSQL, or the
    /// column, as in SQL functions.
    pub strict_variables: bool,
    pub next_register: u16,
    pub steps: Vec<Step>,
    /// Something bound depends on the session, so the result is of no use to others.
    pub session_dependent: bool,
    /// Something bound is not immutable: see [`volatility`](super::volatility).
    pub stable: bool,
    /// Something bound is another thing in another time zone.
    pub zone_dependent: bool,
    /// Expressions have the rules of a place's clocks in them.
    pub by_clocks: bool,
    /// The constants that the zone has converted, where it is not UTC.
    pub(crate) zoned: Vec<ZonedConstant>,
    /// What the schema holds is bound, whose constants are UTC's.
    pub(super) in_view: bool,
    /// The client's text, where what is bound is of it.
    pub(crate) source: Option<Source<'a>>,
    /// The queries around the one at hand that it may refer to, the innermost last.
    pub(super) enclosing: Vec<super::state::Enclosing>,
    /// Subqueries that are run for each row of the query at hand; `None` where none can be.
    pub(super) applied: Option<super::state::Applications>,
    pub(super) aggregates: super::state::Aggregates,
    pub(super) ctes: Vec<super::state::CommonTable>,
    /// Recursive queries so far.
    pub(super) recursions: u16,
    /// FROM of the SELECT at hand has the rows that came last to one.
    pub(super) reads_itself: bool,
    /// Calls with OVER of the select list at hand; `None` where there can be none.
    pub(super) windows: Option<super::state::Windows>,
    /// A part of one is being bound.
    pub(super) within_window: bool,
    /// Changes that are deferred, in a statement of several parts.
    pub(super) late: Option<super::state::Late>,
    /// Parameters that were compared with a `char(n)` before anything else gave them a type.
    pub(super) char_parameters: Vec<usize>,
    /// What waits for the end of the statement at hand.
    pub(super) end_checks: Option<super::state::EndChecks>,
    /// When the rows that point at one that gets another key do.
    pub(super) following: super::state::Following,
    /// Calls that give rows, of the select list at hand; `None` where there can be none.
    pub(super) row_calls: Option<Vec<procedure::Query>>,
    /// Where a call would stand that gives rows and may not, for the error.
    pub(crate) clause: &'static str,
    pub(super) depth: u16,
    pub(super) view_uses: ViewUses,
    /// The next select list leaves untyped literals as they are, for a UNION to decide.
    pub(super) keep_unknown: bool,
    /// Calls that act on the session, so far; `None` where there can be none.
    pub(super) session_calls: Option<Vec<super::SessionCall>>,
    /// Calls that draw random values, so far.
    drawn: i64,
    /// Expressions and queries that were bound, so far; copies count as often as they are made.
    bound: usize,
    /// What they may come to.
    bound_max: usize,
    /// What they may come to whatever the text, and the schema, add.
    bound_limit: usize,
    /// The materialized view whose rows are being written.
    pub(super) refreshing: Option<types::TableId>,
    /// Whose privileges what is bound has to have; `None`: nothing is asked for.
    pub(crate) checked: Option<Arc<Closure>>,
    /// The first thing that it has not.
    pub(super) denied: Option<Error>,
    /// What a session's statement is given up by. Replicas bind without one: how a definition ends
    /// must follow from its text.
    pub(crate) interrupt: Option<&'a dyn Interrupt>,
    /// System catalogs, where a query may read them.
    pub(super) system: Option<&'a dyn System>,
}

/// How deep expressions and queries may nest; each level costs stack.
const DEPTH_MAX: u16 = 200;

/// What a statement may come to. Some constructs bind or copy an operand twice (`BETWEEN`,
/// `NULLIF`, `CASE x WHEN`), so that nested ones come to more than the text shows.
const BOUND_MAX: usize = 2 * crate::syntax::size::TOKENS_MAX;

/// What any text may come to, and what each of its bytes may add.
const BOUND_MIN: usize = 20_000;
const BOUND_PER_BYTE: usize = 16;

/// How often a long binding asks whether it should go on.
const BOUND_BETWEEN_CHECKS: usize = 1024;

impl<'a> Binder<'a> {
    pub fn new(
        catalog: &'a Catalog,
        session: &'a SessionInfo,
        parameters: Vec<Option<DataType>>,
    ) -> Binder<'a> {
        let next_register = u16::try_from(parameters.len()).unwrap_or(u16::MAX);
        Binder {
            catalog,
            session,
            parameters,
            variables: Vec::new(),
            strict_variables: false,
            next_register,
            steps: Vec::new(),
            session_dependent: false,
            stable: false,
            zone_dependent: false,
            by_clocks: false,
            zoned: Vec::new(),
            in_view: false,
            source: None,
            enclosing: Vec::new(),
            applied: None,
            windows: None,
            within_window: false,
            aggregates: super::state::Aggregates::default(),
            ctes: Vec::new(),
            recursions: 0,
            reads_itself: false,
            late: None,
            char_parameters: Vec::new(),
            end_checks: None,
            following: super::state::Following::default(),
            row_calls: None,
            clause: "here",
            depth: 0,
            view_uses: ViewUses::default(),
            keep_unknown: false,
            session_calls: None,
            drawn: 0,
            bound: 0,
            bound_max: BOUND_MAX,
            bound_limit: BOUND_MAX,
            refreshing: None,
            checked: None,
            denied: None,
            interrupt: None,
            system: None,
        }
    }

    /// A text of so many bytes may come to no more than what such texts need: a short one that
    /// doubles itself ends soon.
    pub(crate) fn bound_by_text(&mut self, bytes: usize) {
        let max = BOUND_PER_BYTE.saturating_mul(bytes).saturating_add(BOUND_MIN);
        self.bound_max = max.min(self.bound_limit);
    }

    /// It may come to no more than so many expressions.
    pub(super) fn bound_to(&mut self, expressions: usize) {
        self.bound_limit = self.bound_limit.min(expressions);
        self.bound_max = self.bound_max.min(expressions);
    }

    /// Counts what is not of the statement's own text, but of a table's definition.
    pub(super) fn count_of_schema(&mut self, expressions: usize) -> Result<()> {
        self.bound_max = self.bound_max.saturating_add(expressions).min(self.bound_limit);
        self.count(expressions)
    }

    /// What a view's text adds to the statement's.
    pub(super) fn add_text(&mut self, bytes: usize) {
        let more = BOUND_PER_BYTE.saturating_mul(bytes);
        self.bound_max = self.bound_max.saturating_add(more).min(self.bound_limit);
    }

    /// An error that is about a part of the text, with its place.
    pub(super) fn at(&self, part: Span, error: Error) -> Error {
        match &self.source {
            Some(source) => source.locate(error, part),
            None => error,
        }
    }

    /// The table of that name.
    pub(super) fn table(&self, name: &ast::ObjectName) -> Result<Arc<Table>> {
        let found = object_name(name).and_then(|name| {
            let table = self.catalog.table(&name)?;
            self.check_usage(&name)?;
            Ok(table)
        });
        found.cloned().map_err(|error| self.at(name.span(), error))
    }

    /// What a statement changes the rows of.
    pub(super) fn changed_table(&self, name: &ast::ObjectName) -> Result<Arc<Table>> {
        let table = self.table(name)?;
        match self.refreshing == Some(table.id()) {
            true => Ok(table),
            false => {
                table.check_changes().map(|()| table).map_err(|error| self.at(name.span(), error))
            }
        }
    }

    /// A register that no step has written yet.
    pub fn register(&mut self) -> Result<Reg> {
        let register = Reg(self.next_register);
        self.next_register = self.next_register.checked_add(1).ok_or_else(|| {
            Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "the statement needs too many registers")
        })?;
        Ok(register)
    }

    pub fn registers(&mut self, count: usize) -> Result<Vec<Reg>> {
        (0..count).map(|_| self.register()).collect()
    }

    /// Adds a step that computes `value` once, unless it is as cheap to look at again.
    pub fn let_value(&mut self, value: Expr) -> Result<Expr> {
        if matches!(value, Expr::Const(_) | Expr::Reg(_)) {
            return Ok(value);
        }
        let out = self.register()?;
        self.steps.push(Step::Let { out, value });
        Ok(Expr::Reg(out))
    }

    /// A call that draws a random value, another one than any other call.
    pub(super) fn draw(&mut self, function: Function, given: Vec<Expr>, result: DataType) -> Expr {
        self.drawn += 1;
        let arguments = given.into_iter().chain([procedure::draws::mark(self.drawn)]).collect();
        Expr::Call { function, arguments, result }
    }

    /// The same for the calls in an expression that was bound elsewhere.
    pub(super) fn drawn_anew(&mut self, mut expr: Expr) -> Expr {
        expr.rewrite(&mut |expr| {
            if let Expr::Call { function, arguments, .. } = expr
                && function.draws()
                && let Some(mark) = arguments.last_mut()
            {
                self.drawn += 1;
                *mark = procedure::draws::mark(self.drawn);
            }
            false
        });
        expr
    }

    /// What `build` adds to `steps`, as a block of its own.
    pub fn block(
        &mut self,
        build: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<procedure::Block> {
        let outside = std::mem::take(&mut self.steps);
        let built = build(self);
        let inside = std::mem::replace(&mut self.steps, outside);
        built?;
        Ok(inside.into())
    }

    /// Binds what is no select list.
    pub(super) fn within<T>(
        &mut self,
        clause: &'static str,
        bind: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let around = std::mem::replace(&mut self.clause, clause);
        let bound = bind(self);
        self.clause = around;
        bound
    }

    pub(super) fn nested<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.count(1)?;
        self.depth += 1;
        let bound = match self.depth <= DEPTH_MAX {
            true => bind(self),
            false => Err(crate::syntax::depth::too_deep()),
        };
        self.depth -= 1;
        bound
    }

    pub(super) fn count(&mut self, expressions: usize) -> Result<()> {
        let before = self.bound / BOUND_BETWEEN_CHECKS;
        self.bound = self.bound.saturating_add(expressions);
        if self.bound > self.bound_max {
            let max = self.bound_max;
            let what = "the statement is too complex";
            return Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, what)
                .with_detail(format!("It comes to more than {max} expressions."))
                .with_hint("Compute in a subquery what several expressions need."));
        }
        match self.interrupt {
            Some(interrupt) if self.bound / BOUND_BETWEEN_CHECKS > before => interrupt.check(),
            _ => Ok(()),
        }
    }

    /// Another copy of an expression.
    pub(super) fn again(&mut self, expr: &Expr) -> Result<Expr> {
        let mut size = 0;
        expr.any(&mut |_| {
            size += 1;
            false
        });
        self.count(size)?;
        Ok(expr.clone())
    }

    /// The parameter's number, if `typed` is one that has no type yet.
    pub(super) fn untyped_parameter(&self, typed: &Typed) -> Option<usize> {
        match &typed.expr {
            Expr::Reg(register) if typed.data_type == DataType::Unknown => {
                let number = usize::from(register.0);
                (number < self.parameters.len()).then_some(number)
            }
            _ => None,
        }
    }

    /// Makes `typed` an expression of type `to`, as far as `context` allows.
    pub fn coerce(&mut self, typed: Typed, to: &DataType, context: CastContext) -> Result<Expr> {
        let explicit = context == CastContext::Explicit;
        if let Some(number) = self.untyped_parameter(&typed) {
            let bare = match to {
                DataType::Unknown => DataType::Text,
                DataType::Char(_) => DataType::Text,
                other => other.without_modifier(),
            };
            let known = self.parameters[number].get_or_insert(bare).clone();
            return self.convert(typed.expr, &known, to, explicit);
        }
        if typed.data_type == DataType::Unknown {
            return match typed.expr {
                Expr::Const(value) => {
                    let value = match to {
                        DataType::Unknown => value,
                        to if self.system.is_some() && is_of_system(to) => {
                            return self.convert(
                                Expr::Const(value),
                                &DataType::Unknown,
                                to,
                                explicit,
                            );
                        }
                        _ if Zone::matters(&DataType::Unknown, to) => {
                            return self.convert_constant(&value, to, explicit);
                        }
                        _ => cast(&value, to, explicit)?,
                    };
                    Ok(Expr::Const(value))
                }
                expr => self.convert(expr, &DataType::Unknown, to, explicit),
            };
        }
        match cast_context(&typed.data_type, to) {
            Some(needed) if needed <= context => {
                self.convert(typed.expr, &typed.data_type, to, explicit).map(fold)
            }
            Some(_) => Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!("cannot convert type {} to {to} here", typed.data_type),
            )
            .with_hint("You will need to rewrite or cast the expression.")),
            None => Err(Error::new(
                SqlState::CANNOT_COERCE,
                format!("cannot cast type {} to {to}", typed.data_type),
            )),
        }
    }

    /// A conversion, of moments as the session's clocks show them. Where they are not UTC's, only
    /// what can be converted here and now is: no program has zones.
    fn convert(
        &mut self,
        expr: Expr,
        from: &DataType,
        to: &DataType,
        explicit: bool,
    ) -> Result<Expr> {
        self.stable |= converts_stably(from, to);
        if let (DataType::Array(element), true) = (from, to.is_string())
            && matches!(**element, DataType::Record(_))
        {
            return Err(Error::unsupported("an array of rows as text"));
        }
        if let (DataType::Record(_), true) = (from, to.is_string()) {
            let text = self.row_as_text(Typed::new(expr, from.clone()))?;
            return Ok(converted(text, &DataType::Text, to, explicit));
        }
        if let Some(converted) = self.system_conversion(&expr, from, to)? {
            return Ok(converted);
        }
        let as_texts = network_as_text(expr, from, to);
        let (expr, from) = (as_texts.expr, &as_texts.data_type);
        // A position is no number to convert: it is shown first.
        let shown = as_labels(expr, from, to);
        let shown = as_digits(shown, to);
        let (expr, from) = (shown.expr, &shown.data_type);
        match expr {
            expr if !Zone::matters(from, to) => Ok(converted(expr, from, to, explicit)),
            Expr::Const(value) => self.convert_constant(&value, to, explicit),
            expr => {
                if let Some(between) = self.converted_by_clocks(&expr, (from, to))? {
                    return Ok(converted(between.expr, &between.data_type, to, explicit));
                }
                self.needs_plain(from, to, format_args!("a conversion from {from} to {to}"))?;
                Ok(converted(expr, from, to, explicit))
            }
        }
    }

    fn convert_constant(&mut self, value: &Value, to: &DataType, explicit: bool) -> Result<Expr> {
        let says_itself = match value {
            Value::Null => true,
            // The standard's style alone reads a sign in another way.
            Value::Text(text) if matches!(to, DataType::Interval(_)) => {
                let style = self.session.zone.style();
                style != Style::SqlStandard || !text.trim_start().starts_with('-')
            }
            Value::Text(text) if matches!(to, DataType::Timetz(_)) => {
                types::clock::read_zoned(text, None, None).is_ok()
            }
            Value::Text(text) => Value::says_offset(text),
            _ => false,
        };
        if self.in_view {
            return cast(value, to, explicit).map(Expr::Const);
        }
        self.zone_dependent |= !says_itself;
        let converted = self.session.zone.cast(value, to, explicit)?;
        if !says_itself && !self.session.zone.is_utc() {
            let (given, value) = (value.clone(), converted.clone());
            self.zoned.push(ZonedConstant { given, to: to.clone(), value });
        }
        Ok(Expr::Const(converted))
    }

    /// Between a type and text, or another type of time.
    ///
    /// # Errors
    /// 0A000: of intervals the session has another style, of others it has other clocks.
    pub(super) fn needs_plain(
        &mut self,
        from: &DataType,
        to: &DataType,
        what: impl fmt::Display,
    ) -> Result<()> {
        let is_interval = |t: &DataType| match t {
            DataType::Array(element) => matches!(**element, DataType::Interval(_)),
            other => matches!(other, DataType::Interval(_)),
        };
        if !is_interval(from) && !is_interval(to) {
            return self.needs_utc(what);
        }
        self.zone_dependent = true;
        match self.session.zone.style() {
            Style::Postgres => Ok(()),
            _ => Err(Error::unsupported(format_args!("{what} in this interval style"))
                .with_hint("SET intervalstyle = 'postgres' for it, or convert in the client.")),
        }
    }

    /// # Errors
    /// 0A000: the session's clocks show another time than UTC.
    pub(super) fn needs_utc(&mut self, what: impl fmt::Display) -> Result<()> {
        self.zone_dependent = true;
        match self.session.zone.is_utc() {
            true => Ok(()),
            false => Err(Error::unsupported(format_args!(
                "{what} in the time zone {}",
                self.session.zone.name()
            ))
            .with_hint("SET TIME ZONE 'UTC' for it, or convert in the client.")),
        }
    }

    /// An expression that is to be stored in a column.
    pub fn assign(&mut self, typed: Typed, column: &str, to: &DataType) -> Result<Expr> {
        let from = typed.data_type.clone();
        self.coerce(typed, to, CastContext::Assignment).map_err(|error| match error.code() {
            SqlState::DATATYPE_MISMATCH | SqlState::CANNOT_COERCE => Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!("column \"{column}\" is of type {to} but expression is of type {from}"),
            )
            .with_hint("You will need to rewrite or cast the expression."),
            _ => error,
        })
    }

    /// A condition.
    pub fn boolean(&mut self, typed: Typed, place: &str) -> Result<Expr> {
        if !matches!(typed.data_type, DataType::Bool | DataType::Unknown) {
            return Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!("argument of {place} must be type boolean, not type {}", typed.data_type),
            ));
        }
        self.coerce(typed, &DataType::Bool, CastContext::Implicit)
    }

    /// A value that leaves the statement: what has no type is text.
    pub fn resolved(&mut self, typed: Typed) -> Result<Typed> {
        match typed.data_type {
            DataType::Unknown => {
                let expr = self.coerce(typed, &DataType::Text, CastContext::Implicit)?;
                Ok(Typed::new(expr, DataType::Text))
            }
            DataType::Record(_) => self.resolved_row(typed),
            _ => Ok(typed),
        }
    }

    /// The type in which all of `inputs` meet, and the inputs in it. `what` is for the error.
    pub fn unify(&mut self, inputs: Vec<Typed>, what: &str) -> Result<(Vec<Expr>, DataType)> {
        let inputs = inputs.into_iter().map(|input| self.resolved_row(input));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        Collated::of_all(&inputs)?;
        let mut common = inputs.first().map_or(DataType::Unknown, |i| i.data_type.clone());
        for input in inputs.iter().skip(1) {
            common = common_type(&common, &input.data_type).ok_or_else(|| {
                Error::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!("{what} types {common} and {} cannot be matched", input.data_type),
                )
            })?;
        }
        if common == DataType::Unknown && !inputs.is_empty() {
            common = DataType::Text;
        }
        let exprs = inputs
            .into_iter()
            .map(|input| self.coerce(input, &common, CastContext::Implicit))
            .collect::<Result<_>>()?;
        Ok((exprs, common))
    }

    /// Types of the parameters, once all is bound.
    pub fn parameter_types(&self) -> Vec<DataType> {
        let types = self.parameters.iter().cloned();
        types.map(|t| t.unwrap_or(DataType::Text)).collect()
    }
}

/// What is or has positions of an enum's labels as those labels, unless it stays what it is.
fn as_labels(expr: Expr, from: &DataType, to: &DataType) -> Typed {
    let Some(of) = from.enum_type().filter(|_| from != to && *to != DataType::Unknown) else {
        return Typed::new(expr, from.clone());
    };
    labels(expr, from, of)
}

/// Positions of an enum's labels as those labels.
pub(super) fn labels(expr: Expr, from: &DataType, of: &EnumType) -> Typed {
    let result = match from {
        DataType::Array(_) => DataType::Array(Box::new(DataType::Text)),
        _ => DataType::Text,
    };
    let arguments = [expr, Expr::Const(labels_of(of))].into();
    let function = Function::EnumLabel;
    let shown = Expr::Call { function, arguments, result: result.clone() };
    Typed::new(fold(shown), result)
}

/// The type of addresses whose values these are, or whose arrays.
pub(super) fn network_of(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::Array(element) => Some(&**element).filter(|element| element.is_network()),
        other => Some(other).filter(|other| other.is_network()),
    }
}

/// Addresses as they are converted to texts. The text of an array has its elements as clients are
/// shown them.
fn network_as_text(expr: Expr, from: &DataType, to: &DataType) -> Typed {
    let texts = DataType::Array(Box::new(DataType::Text));
    match (from, to) {
        (DataType::Array(of), DataType::Array(to)) if of.is_network() && to.is_string() => {
            Typed::new(network_text(expr, false, texts.clone()), texts)
        }
        (DataType::Array(of), to) if of.is_network() && to.is_string() => {
            Typed::new(as_shown(expr, from), texts)
        }
        (from, to) if from.is_network() && to.is_string() => {
            Typed::new(network_text(expr, false, DataType::Text), DataType::Text)
        }
        (from, _) => Typed::new(expr, from.clone()),
    }
}

pub(super) fn network_text(address: Expr, shown: bool, result: DataType) -> Expr {
    let arguments = [address, Expr::Const(Value::Bool(shown))].into();
    fold(Expr::Call { function: Function::NetworkText, arguments, result })
}

/// A value, or each of an array, as clients are shown it: of an enum its label, of `char(n)` all
/// its blanks, an address without the length of its network, if that is the whole address and the
/// type is a host's.
pub(super) fn as_shown(value: Expr, data_type: &DataType) -> Expr {
    match data_type {
        DataType::Char(length) => return padded(value, *length),
        DataType::Float4 => {
            return as_digits(Typed::new(value, data_type.clone()), &DataType::Text).expr;
        }
        _ => {}
    }
    if let Some(of) = data_type.enum_type() {
        return labels(value, data_type, of).expr;
    }
    let Some(of) = network_of(data_type) else { return value };
    let result = match data_type {
        DataType::Array(_) => DataType::Array(Box::new(DataType::Text)),
        _ => DataType::Text,
    };
    network_text(value, *of == DataType::Inet, result)
}

/// `expr` as a value of `to`: a cast where the values of the two types differ.
fn converted(expr: Expr, from: &DataType, to: &DataType, explicit: bool) -> Expr {
    use DataType as T;
    let same_values = match (from, to) {
        _ if from == to => true,
        (_, T::Unknown) => true,
        (T::Int2, T::Int4 | T::Int8) | (T::Int4, T::Int8) => true,
        (a, T::Text | T::Varchar(None)) => a.is_string(),
        (T::Numeric(_), T::Numeric(None)) | (T::Float4, T::Float8) => true,
        (T::Timestamp(_), T::Timestamp(None)) | (T::Timestamptz(_), T::Timestamptz(None)) => true,
        (T::Time(_), T::Time(None)) | (T::Timetz(_), T::Timetz(None)) => true,
        (T::Interval(_), to) if *to == T::INTERVAL => true,
        (T::Array(a), T::Array(b)) => same_values_in_arrays(a, b),
        (T::Record(_), T::Record(_)) => true,
        _ => false,
    };
    match same_values {
        true => expr,
        false => Expr::Cast { input: Box::new(expr), to: to.clone(), explicit },
    }
}

fn same_values_in_arrays(from: &DataType, to: &DataType) -> bool {
    use DataType as T;
    match (from, to) {
        (T::Int2, T::Int4 | T::Int8) | (T::Int4, T::Int8) => true,
        (a, T::Text | T::Varchar(None)) => a.is_string(),
        (a, b) => a == b,
    }
}

/// See [`Expr::folded`].
pub fn fold(expr: Expr) -> Expr {
    expr.folded()
}
