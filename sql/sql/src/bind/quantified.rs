//! ANY and ALL: comparisons with each row of a subquery, or each element of an array.

use procedure::query::RowFunction;
use procedure::{BinaryOp, Expr, Query, Reg};
use sqlparser::ast;
use types::cast::CastContext;
use types::{DataType, Error, Result, SqlState, Value};

use super::applied::Subquery;
use super::binder::{Binder, Typed};
use super::operator_names::{comparison_by, regex_operator, spelled_out};
use super::scope::Scope;
use super::state::Gives;
use super::subquery::verdict;
use super::system::as_array;
use crate::syntax::exprs::positional;
use crate::syntax::names::function_name;

/// Of which rows a comparison has to be true.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantifier {
    Any,
    All,
}

/// A comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Compared {
    By(BinaryOp),
    Like {
        case_insensitive: bool,
        negated: bool,
        escape: Option<char>,
    },
    /// By an operator of regular expressions.
    Regex(&'static str),
}

impl Compared {
    /// # Errors
    /// 0A000 for an operator that is none of comparison.
    pub fn by(op: &ast::BinaryOperator) -> Result<Compared> {
        use ast::BinaryOperator as B;
        let like = |case_insensitive, negated| {
            let escape = Some('\\');
            Compared::Like { case_insensitive, negated, escape }
        };
        let named = spelled_out(op);
        let op = named.as_ref().unwrap_or(op);
        if let Some(op) = comparison_by(op) {
            return Ok(Compared::By(op));
        }
        Ok(match op {
            B::PGLikeMatch => like(false, false),
            B::PGNotLikeMatch => like(false, true),
            B::PGILikeMatch => like(true, false),
            B::PGNotILikeMatch => like(true, true),
            other => match regex_operator(other) {
                Some(operator) => Compared::Regex(operator),
                None => return Err(Error::unsupported(format_args!("{other} ANY or ALL"))),
            },
        })
    }
}

/// `ALL (…)` after LIKE, which is read as a call.
pub(super) fn all_of(pattern: &ast::Expr) -> Result<Option<ast::Expr>> {
    let ast::Expr::Function(call) = pattern else { return Ok(None) };
    if function_name(&call.name)? != "all" {
        return Ok(None);
    }
    match &call.args {
        ast::FunctionArguments::Subquery(query) => Ok(Some(ast::Expr::Subquery(query.clone()))),
        ast::FunctionArguments::List(list) => match list.args.as_slice() {
            [only] => Ok(Some(positional(only)?.clone())),
            _ => Ok(None),
        },
        ast::FunctionArguments::None => Ok(None),
    }
}

impl Binder<'_> {
    /// `x op ANY (…)` and `x op ALL (…)`.
    pub(super) fn quantified(
        &mut self,
        scope: &Scope,
        left: &ast::Expr,
        (compared, quantifier): (Compared, Quantifier),
        right: &ast::Expr,
    ) -> Result<Typed> {
        let right = match right {
            ast::Expr::Nested(inner) => inner,
            right => right,
        };
        match right {
            ast::Expr::Subquery(query) => {
                self.quantified_rows(scope, left, (compared, quantifier), query)
            }
            ast::Expr::Array(array) if !array.elem.is_empty() => {
                let left = self.expression(scope, left)?;
                let mut elements = Vec::with_capacity(array.elem.len());
                for element in &array.elem {
                    elements.push(self.expression(scope, element)?);
                }
                self.compared_each(&left, (compared, quantifier), elements)
            }
            right => {
                let left = self.expression(scope, left)?;
                let array = self.expression(scope, right)?;
                self.quantified_elements(left, (compared, quantifier), array)
            }
        }
    }

    /// Elements that are known one by one.
    fn compared_each(
        &mut self,
        left: &Typed,
        (compared, quantifier): (Compared, Quantifier),
        elements: Vec<Typed>,
    ) -> Result<Typed> {
        let mut truths = Vec::with_capacity(elements.len());
        for element in elements {
            let side = Typed { expr: self.again(&left.expr)?, ..left.clone() };
            truths.push(self.compare(compared, side, element)?.expr);
        }
        let none = Expr::Const(Value::Bool(quantifier == Quantifier::All));
        let truth = match quantifier {
            _ if truths.is_empty() => none,
            Quantifier::Any if truths.len() == 1 => truths.remove(0),
            Quantifier::Any => Expr::Or(truths.into()),
            Quantifier::All => Expr::all(truths).unwrap_or(none),
        };
        Ok(Typed::new(truth, DataType::Bool))
    }

    fn quantified_elements(
        &mut self,
        left: Typed,
        quantified: (Compared, Quantifier),
        array: Typed,
    ) -> Result<Typed> {
        let array = Typed { data_type: as_array(&array.data_type), ..array };
        let element = match (&array.data_type, &left.data_type) {
            (DataType::Array(element), _) => (**element).clone(),
            (DataType::Unknown, DataType::Unknown) => DataType::Text,
            (DataType::Unknown, other) => other.without_modifier(),
            _ => {
                let what = "op ANY/ALL (array) requires array on right side";
                return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what));
            }
        };
        let to = DataType::Array(Box::new(element.clone()));
        let array = self.coerce(array, &to, CastContext::Implicit)?;
        match &array {
            Expr::Const(Value::Null) => return Ok(Typed::new(array, DataType::Bool)),
            Expr::Const(Value::Array(elements)) => {
                let typed = |value: &Value| Typed::new(Expr::Const(value.clone()), element.clone());
                let elements = elements.iter().map(typed).collect();
                return self.compared_each(&left, quantified, elements);
            }
            _ => {}
        }
        let is_unknown = Expr::is_null(self.again(&array)?, false);
        let mut given = Vec::new();
        let array = match array.columns().is_empty() {
            true => array,
            false => Expr::Reg(self.given(&mut given, array)?),
        };
        let elements = Query::Call { function: RowFunction::Elements, inputs: [array].into() };
        let side = self.side(&mut given, left)?;
        let other = Typed::new(Expr::Column(0), element);
        let truth = self.compare(quantified.0, side, other)?.expr;
        let compared = Query::Project { input: Box::new(elements), expressions: [truth].into() };
        let truth = self.decided(compared, quantified.1, (given, false))?;
        // An array that is NULL has no elements, and is unknown all the same.
        let whens = [(is_unknown, Expr::Const(Value::Null))].into();
        let expr = Expr::Case { whens, otherwise: Box::new(truth.expr) };
        Ok(Typed::new(expr, DataType::Bool))
    }

    /// `(x, y) IN (SELECT …)` and its kin: unknown where no row decides it and one is unknown.
    pub(super) fn quantified_rows(
        &mut self,
        scope: &Scope,
        left: &ast::Expr,
        (compared, quantifier): (Compared, Quantifier),
        query: &ast::Query,
    ) -> Result<Typed> {
        let Subquery { bound, given } = self.of_expression(scope, query)?;
        let sides = match self.row_items(scope, left)? {
            Some(items) => items,
            None => vec![self.expression(scope, left)?],
        };
        if sides.len() != bound.columns.len() {
            let few = if sides.len() < bound.columns.len() { "many" } else { "few" };
            let what = format!("subquery has too {few} columns");
            return Err(Error::new(SqlState::SYNTAX_ERROR, what));
        }
        let is_correlated = given.is_some();
        let mut given = given.unwrap_or_default();
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for (place, (side, column)) in sides.into_iter().zip(&bound.columns).enumerate() {
            own.push(self.side(&mut given, side)?);
            others.push(Typed::new(Expr::Column(place as u16), column.data_type.clone()));
        }
        let truth = match (compared, own.len()) {
            (compared, 1) => self.compare(compared, own.remove(0), others.remove(0))?,
            (Compared::By(op), _) => self.fields_compared(own, op, others)?,
            _ => return Err(Error::unsupported("patterns for rows")),
        };
        let input = Box::new(bound.query);
        let rows = Query::Project { input, expressions: [truth.expr].into() };
        self.decided(rows, quantifier, (given, is_correlated))
    }

    /// What is compared with rows that are not its own: of its own row a register holds it.
    fn side(&mut self, given: &mut Vec<(Reg, Expr)>, side: Typed) -> Result<Typed> {
        match side.expr.columns().is_empty() {
            true => Ok(side),
            false => {
                let register = self.given(given, side.expr)?;
                Ok(Typed::new(Expr::Reg(register), side.data_type))
            }
        }
    }

    fn given(&mut self, given: &mut Vec<(Reg, Expr)>, value: Expr) -> Result<Reg> {
        let register = self.register()?;
        given.push((register, value));
        Ok(register)
    }

    fn decided(
        &mut self,
        compared: Query,
        quantifier: Quantifier,
        (given, is_correlated): (Vec<(Reg, Expr)>, bool),
    ) -> Result<Typed> {
        let query = verdict(compared, quantifier);
        match given.is_empty() && !is_correlated && !self.refers_outside(&query) {
            true => self.value_of(query, DataType::Bool),
            false => self.apply(query, given, Gives::Value, DataType::Bool),
        }
    }

    fn compare(&mut self, compared: Compared, left: Typed, right: Typed) -> Result<Typed> {
        match compared {
            Compared::By(op) => self.comparison(op, left, right),
            Compared::Like { case_insensitive, negated, escape } => {
                self.like(left, right, (case_insensitive, negated, escape))
            }
            Compared::Regex(operator) => self.regex(operator, left, right),
        }
    }
}
