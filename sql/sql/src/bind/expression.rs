//! Expressions: from syntax to typed, pure IR.

use std::sync::Arc;

use procedure::{BinaryOp, Expr, UnaryOp};
use sqlparser::ast::{self, Spanned};
use types::arithmetic::ArithmeticOp;
use types::cast::CastContext;
use types::{DataType, Error, Result, SqlState, Value};

use super::aggregates::aggregate_function;
use super::applied::is_not_true;
use super::arrays::are_arrays;
use super::binder::{Binder, Typed, fold};
use super::collated::Collated;
use super::moments::by_name;
use super::operator_names::{comparison_by, regex_operator, spelled_out};
use super::operators::{elements_without_blanks, without_blanks};
use super::refused;
use super::row_functions::gives_rows;
use super::scope::Scope;
use super::state::Place;
use super::system::as_array;
use super::windows::needs_over;
use crate::schema::collations::is_collatable;
use crate::schema::domains::{Domain, checked};
use crate::syntax::exprs::is_row;
use crate::syntax::names::fold as fold_name;
use crate::syntax::sequence::named_by;

impl Binder<'_> {
    /// Binds an expression over the columns in `scope`.
    pub fn expression(&mut self, scope: &Scope, expr: &ast::Expr) -> Result<Typed> {
        let bound = self.nested(|binder| binder.expression_inner(scope, expr));
        bound.map_err(|error| match (expr, &self.source) {
            (ast::Expr::BinaryOp { left, .. }, Some(source)) => {
                source.locate_behind(error, left.span())
            }
            _ => self.at(expr.span(), error),
        })
    }

    /// An expression without a row in sight, such as a PL/pgSQL right-hand side.
    pub fn bare_expression(&mut self, expr: &ast::Expr) -> Result<Typed> {
        self.expression(&Scope::default(), expr)
    }

    pub(super) fn condition(
        &mut self,
        scope: &Scope,
        expr: &ast::Expr,
        place: Place,
        name: &str,
    ) -> Result<Expr> {
        let outside = std::mem::replace(&mut self.aggregates.place, place);
        let clause = match name {
            "WHERE" => "in WHERE",
            "HAVING" => "in HAVING",
            "JOIN/ON" => "in JOIN conditions",
            _ => self.clause,
        };
        // A select list that is being bound may have them, and its HAVING not.
        let row_calls = self.row_calls.take();
        let bound = self.within(clause, |binder| binder.expression(scope, expr));
        self.row_calls = row_calls;
        self.aggregates.place = outside;
        self.boolean(bound?, name)
    }

    fn expression_inner(&mut self, scope: &Scope, expr: &ast::Expr) -> Result<Typed> {
        use ast::Expr as E;
        match expr {
            E::Nested(inner) => self.expression(scope, inner),
            E::Value(value) => self.literal(&value.value),
            E::Identifier(ident) => self.identifier(scope, ident),
            E::CompoundIdentifier(parts) => {
                let parts: Vec<String> = parts.iter().map(fold_name).collect();
                self.qualified_column(scope, &parts)
            }
            E::Interval(interval) => self.interval_literal(scope, interval),
            E::TypedString(typed) => {
                if let Some(domain) = self.catalog.domain_named(&typed.data_type).cloned() {
                    let text = self.literal(&typed.value.value)?;
                    let expr = self.coerce(text, &domain.base, CastContext::Explicit)?;
                    return self.as_domain(Typed::new(expr, domain.base.clone()), &domain);
                }
                let to = self.type_named(&typed.data_type)?;
                let text = self.literal(&typed.value.value)?;
                let expr = self.coerce(text, &to, CastContext::Explicit)?;
                Ok(Typed::new(expr, to))
            }
            E::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr,
                data_type: to,
                format: None,
                ..
            } => self.cast(scope, expr, to),
            E::UnaryOp { op, expr } => self.unary(scope, *op, expr),
            E::BinaryOp { left, op, right } => self.binary(scope, left, op, right),
            E::Case { operand, conditions, else_result, .. } => {
                self.case(scope, operand.as_deref(), conditions, else_result.as_deref())
            }
            E::Subquery(query) => self.scalar_subquery(scope, query),
            E::Array(array) => self.array(scope, &array.elem),
            E::CompoundFieldAccess { root, access_chain } => {
                self.subscript(scope, root, access_chain)
            }
            E::Collate { expr, collation } => self.collated(scope, expr, collation),
            expr if is_row(expr) => {
                let items = self.row_items(scope, expr)?.unwrap_or_default();
                self.row_value(items)
            }
            E::Function(call) => self.function_call(scope, call),
            E::QualifiedWildcard(name, _) => self.row_named(scope, name),
            _ => self.predicate(scope, expr),
        }
    }

    pub(super) fn literal(&mut self, value: &ast::Value) -> Result<Typed> {
        use ast::Value as V;
        Ok(match value {
            V::Number(digits, _) => number(digits)?,
            V::SingleQuotedString(s) | V::EscapedStringLiteral(s) | V::UnicodeStringLiteral(s) => {
                Typed::new(Expr::Const(Value::text(s)), DataType::Unknown)
            }
            V::DollarQuotedString(s) => {
                Typed::new(Expr::Const(Value::text(&s.value)), DataType::Unknown)
            }
            V::Boolean(b) => Typed::new(Expr::Const(Value::Bool(*b)), DataType::Bool),
            V::Null => Typed::null(),
            V::Placeholder(name) => self.parameter(name)?,
            other => return Err(Error::unsupported(format_args!("the literal {other}"))),
        })
    }

    fn parameter(&mut self, name: &str) -> Result<Typed> {
        let number = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
        let place = number.and_then(|n| n.checked_sub(1));
        match place.and_then(|place| Some((place, self.parameters.get(place)?))) {
            Some((place, data_type)) => {
                let register = procedure::Reg(place as u16);
                let data_type = data_type.clone().unwrap_or(DataType::Unknown);
                let value = Expr::Reg(register);
                let value = match &data_type {
                    _ if !self.char_parameters.contains(&place) => value,
                    DataType::Text => without_blanks(value),
                    DataType::Array(_) => elements_without_blanks(value),
                    _ => value,
                };
                Ok(Typed::new(value, data_type))
            }
            None => Err(Error::new(
                SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter {name}"),
            )),
        }
    }

    fn cast(&mut self, scope: &Scope, expr: &ast::Expr, to: &ast::DataType) -> Result<Typed> {
        if let Some(domain) = self.catalog.domain_named(to).cloned() {
            let value = self.cast_to(scope, expr, domain.base.clone())?;
            return self.as_domain(value, &domain);
        }
        let to = match self.type_named(to) {
            Ok(to) => to,
            // Names of catalog objects, which clients cast in harmless ways.
            Err(_) if to.to_string().eq_ignore_ascii_case("name") => DataType::Text,
            Err(error)
                if self.system.is_none() && to.to_string().eq_ignore_ascii_case("bpchar") =>
            {
                return self.blank_padded(scope, expr, error);
            }
            Err(error) => return Err(error),
        };
        self.cast_to(scope, expr, to)
    }

    /// A value of a domain, or an error.
    fn as_domain(&mut self, value: Typed, domain: &Arc<Domain>) -> Result<Typed> {
        if value.expr.draws() {
            return Err(Error::unsupported("a random value, or a sequence's next, as a domain's"));
        }
        let rules = self.catalog.rules_of(domain);
        let expr = checked(rules, &value.expr, |expr| self.again(expr))?;
        let collated = match (&value.collated, &domain.collation) {
            (Collated::Default, Some(collation)) => Collated::Implicit(Arc::clone(collation)),
            _ => value.collated,
        };
        Ok(Typed { collated, ..Typed::new(expr, value.data_type) })
    }

    fn cast_to(&mut self, scope: &Scope, expr: &ast::Expr, to: DataType) -> Result<Typed> {
        // A literal need not fit numeric on its way to a float.
        let typed = match (&to, number_text(expr)) {
            (DataType::Float8, Some(digits)) => {
                Typed::new(Expr::Const(Value::text(digits)), DataType::Unknown)
            }
            (DataType::Array(_), _) if is_empty_array(expr) => {
                Typed::new(Expr::Const(Value::text("{}")), DataType::Unknown)
            }
            _ => self.expression(scope, expr)?,
        };
        // What counts from 0 goes on to.
        if self.system.is_some() && as_array(&typed.data_type) == to {
            return Ok(typed);
        }
        let collated = match is_collatable(&to) {
            true => typed.collated.clone(),
            false => Collated::Default,
        };
        let expr = self.coerce(typed, &to, CastContext::Explicit)?;
        Ok(Typed { collated, ..Typed::new(expr, to) })
    }

    /// PostgreSQL writes constants so that stand beside a `char(n)`, which gives them their length.
    /// Blanks at their end say nothing.
    fn blank_padded(&mut self, scope: &Scope, expr: &ast::Expr, refused: Error) -> Result<Typed> {
        let typed = self.expression(scope, expr)?;
        match (&typed.data_type, &typed.expr) {
            (DataType::Unknown, Expr::Const(value)) if value.as_text().is_some() => {
                let text = value.as_text().unwrap_or_default().trim_end_matches(' ');
                Ok(Typed::new(Expr::Const(Value::text(text)), DataType::Unknown))
            }
            (DataType::Unknown | DataType::Char(_), _) => Ok(typed),
            _ => Err(refused.with_hint("Name the length, as in character(8), or use text.")),
        }
    }

    fn unary(&mut self, scope: &Scope, op: ast::UnaryOperator, expr: &ast::Expr) -> Result<Typed> {
        use ast::UnaryOperator as U;
        // The smallest integers have no positive counterpart: read the sign with the digits.
        if let (U::Minus, ast::Expr::Value(value)) = (op, expr)
            && let ast::Value::Number(digits, _) = &value.value
        {
            return number(&format!("-{digits}"));
        }
        let typed = self.expression(scope, expr)?;
        let unary = |op, expr| fold(Expr::Unary { op, input: Box::new(expr) });
        match op {
            U::Not | U::BangNot => {
                let expr = self.boolean(typed, "NOT")?;
                Ok(Typed::new(unary(UnaryOp::Not, expr), DataType::Bool))
            }
            U::Plus | U::Minus if typed.data_type.is_number() => {
                let data_type = typed.data_type.without_modifier();
                let expr = match (op, &data_type) {
                    (U::Plus, _) => typed.expr,
                    // Subtraction knows its type, and with it where the integers end.
                    (_, t) if t.is_integer() => fold(Expr::Binary {
                        op: BinaryOp::Subtract,
                        left: Box::new(Expr::Const(Value::Int(0))),
                        right: Box::new(typed.expr),
                        result: data_type.clone(),
                    }),
                    _ => unary(UnaryOp::Negate, typed.expr),
                };
                Ok(Typed::new(expr, data_type))
            }
            U::Minus if matches!(typed.data_type, DataType::Interval(_)) => {
                Ok(Typed::new(unary(UnaryOp::Negate, typed.expr), DataType::INTERVAL))
            }
            U::BitwiseNot if typed.data_type.is_integer() => {
                Ok(Typed::new(unary(UnaryOp::BitNot, typed.expr), typed.data_type))
            }
            U::PGAbs => self.call_by_name("abs", vec![typed]),
            U::PGSquareRoot => self.call_by_name("sqrt", vec![typed]),
            _ => Err(Error::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("operator does not exist: {op} {}", typed.data_type),
            )
            .with_hint("You might need to add an explicit type cast.")),
        }
    }

    fn binary(
        &mut self,
        scope: &Scope,
        left: &ast::Expr,
        op: &ast::BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Typed> {
        use ast::BinaryOperator as B;
        let named = spelled_out(op);
        let op = named.as_ref().unwrap_or(op);
        if matches!(op, B::And | B::Or) {
            return self.connective(scope, op, left, right);
        }
        if matches!(op, B::Overlaps) {
            return self.overlaps(scope, left, right);
        }
        if let Some(op) = comparison_by(op) {
            return self.compared(scope, left, op, right);
        }
        let l = self.expression(scope, left)?;
        let r = self.expression(scope, right)?;
        if let Some(typed) = self.json_operator(op, &l, &r)? {
            return Ok(typed);
        }
        match op {
            B::Plus => self.arithmetic(BinaryOp::Add, ArithmeticOp::Add, l, r),
            B::Minus => self.arithmetic(BinaryOp::Subtract, ArithmeticOp::Sub, l, r),
            B::Multiply => self.arithmetic(BinaryOp::Multiply, ArithmeticOp::Mul, l, r),
            B::Divide => self.arithmetic(BinaryOp::Divide, ArithmeticOp::Div, l, r),
            B::Modulo => self.arithmetic(BinaryOp::Modulo, ArithmeticOp::Mod, l, r),
            B::PGExp => self.call_by_name("power", vec![l, r]),
            B::StringConcat => self.concat(l, r),
            B::BitwiseAnd => self.bits(BinaryOp::BitAnd, op, l, r),
            B::BitwiseOr => self.bits(BinaryOp::BitOr, op, l, r),
            B::PGBitwiseXor => self.bits(BinaryOp::BitXor, op, l, r),
            B::PGBitwiseShiftLeft => self.bits(BinaryOp::ShiftLeft, op, l, r),
            B::PGBitwiseShiftRight => self.bits(BinaryOp::ShiftRight, op, l, r),
            B::PGLikeMatch => self.like(l, r, (false, false, Some('\\'))),
            B::PGNotLikeMatch => self.like(l, r, (false, true, Some('\\'))),
            B::PGILikeMatch => self.like(l, r, (true, false, Some('\\'))),
            B::PGNotILikeMatch => self.like(l, r, (true, true, Some('\\'))),
            B::AtArrow | B::ArrowAt | B::PGOverlap if are_arrays(&l, &r) => {
                self.array_operator(op, l, r)
            }
            op => match regex_operator(op) {
                Some(operator) => self.regex(operator, l, r),
                None => self.system_operator(&op.to_string(), vec![l, r]),
            },
        }
    }

    /// An operator that only system catalogs have.
    fn system_operator(&mut self, op: &str, sides: Vec<Typed>) -> Result<Typed> {
        match self.system_call(&format!("operator {op}"), &sides)? {
            Some(call) => Ok(call),
            None => Err(Error::unsupported(format_args!("operator {op}"))),
        }
    }

    /// `a AND b AND c` as one list, so that evaluation and planning see the conjuncts side by side.
    fn connective(
        &mut self,
        scope: &Scope,
        op: &ast::BinaryOperator,
        left: &ast::Expr,
        right: &ast::Expr,
    ) -> Result<Typed> {
        let is_and = matches!(op, ast::BinaryOperator::And);
        let place = if is_and { "AND" } else { "OR" };
        let mut parts = Vec::new();
        for side in [left, right] {
            let typed = self.expression(scope, side)?;
            match self.boolean(typed, place)? {
                Expr::And(inner) if is_and => parts.extend(inner),
                Expr::Or(inner) if !is_and => parts.extend(inner),
                expr => parts.push(expr),
            }
        }
        let expr = match is_and {
            true => Expr::And(parts.into()),
            false => Expr::Or(parts.into()),
        };
        Ok(Typed::new(expr, DataType::Bool))
    }

    fn case(
        &mut self,
        scope: &Scope,
        operand: Option<&ast::Expr>,
        arms: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Result<Typed> {
        let mut conditions = Vec::with_capacity(arms.len());
        let mut results = Vec::with_capacity(arms.len() + 1);
        for arm in arms {
            let first = self.count_applied();
            let condition = match operand {
                Some(operand) => self.compared(scope, operand, BinaryOp::Equal, &arm.condition)?,
                None => self.expression(scope, &arm.condition)?,
            };
            let condition = self.boolean(condition, "CASE/WHEN")?;
            self.guard_behind(first, &conditions, None)?;
            let first = self.count_applied();
            results.push(self.expression(scope, &arm.result)?);
            self.guard_behind(first, &conditions, Some(&condition))?;
            conditions.push(condition);
        }
        let first = self.count_applied();
        results.push(match otherwise {
            Some(otherwise) => self.expression(scope, otherwise)?,
            None => Typed::null(),
        });
        self.guard_behind(first, &conditions, None)?;
        let collated = Collated::of_all(&results)?;
        let (mut results, data_type) = self.unify(results, "CASE")?;
        let otherwise = Box::new(results.pop().unwrap_or(Expr::Const(Value::Null)));
        let whens = conditions.into_iter().zip(results).collect();
        let case = Typed::new(Expr::Case { whens, otherwise }, data_type);
        Ok(Typed { collated, ..case })
    }

    /// A part of CASE is looked at where no condition before it is true, and its own is.
    fn guard_behind(&mut self, first: usize, before: &[Expr], own: Option<&Expr>) -> Result<()> {
        if self.count_applied() > first {
            let mut conditions = Vec::with_capacity(before.len() + 1);
            for condition in before {
                conditions.push(is_not_true(&self.again(condition)?));
            }
            conditions.extend(own.cloned());
            self.guard_applied(first, &conditions);
        }
        Ok(())
    }

    fn function_call(&mut self, scope: &Scope, call: &ast::Function) -> Result<Typed> {
        let name = self.called_name(&call.name)?;
        if let Some(over) = &call.over {
            return self.window_call(scope, &name, call, over);
        }
        if needs_over(&name) {
            let what = format!("window function {name} requires an OVER clause");
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what));
        }
        if name == "grouping" {
            return self.grouping_call(scope, call);
        }
        if let Some(function) = aggregate_function(&name) {
            return self.aggregate_call(scope, &name, function, call);
        }
        if gives_rows(&name) || self.system.is_some_and(|system| system.gives_rows(&name)) {
            return self.rows_in_select_list(scope, &name, call);
        }
        if call.filter.is_some() {
            if let Some(error) = refused::not_there_yet(&name) {
                return Err(error);
            }
            return Err(Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("FILTER specified, but {name} is not an aggregate function"),
            ));
        }
        if let (ast::FunctionArguments::Subquery(query), "array") = (&call.args, name.as_str()) {
            return self.array_subquery(scope, query);
        }
        let arguments = self.call_arguments(scope, call)?;
        self.call_by_name(&name, arguments)
    }

    pub(super) fn call_arguments(
        &mut self,
        scope: &Scope,
        call: &ast::Function,
    ) -> Result<Vec<Typed>> {
        use ast::{FunctionArg, FunctionArgExpr};
        let name = call.name.to_string().to_ascii_lowercase();
        let list = match &call.args {
            ast::FunctionArguments::None => return Ok(Vec::new()),
            ast::FunctionArguments::List(list) => list,
            ast::FunctionArguments::Subquery(_) => {
                return Err(Error::unsupported("a subquery as the argument list"));
            }
        };
        if let Some(given) = by_name(&name, &list.args) {
            let zero = || Typed::new(Expr::Const(Value::Int(0)), DataType::Int4);
            let bind = |given: Option<&ast::Expr>| match given {
                Some(expr) => self.expression(scope, expr),
                None => Ok(zero()),
            };
            return given?.into_iter().map(bind).collect();
        }
        let mut bound = Vec::with_capacity(list.args.len());
        for argument in &list.args {
            bound.push(match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                    self.expression(scope, named_by(call, expr))?
                }
                FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => {
                    self.row_named(scope, name)?
                }
                FunctionArg::Unnamed(_) => {
                    return Err(Error::new(
                        SqlState::WRONG_OBJECT_TYPE,
                        format!("{}(*) specified, but it is not an aggregate function", call.name),
                    ));
                }
                _ => {
                    return Err(Error::unsupported("named arguments")
                        .with_hint("Give the arguments in their order."));
                }
            });
        }
        Ok(bound)
    }
}

fn is_empty_array(expr: &ast::Expr) -> bool {
    match expr {
        ast::Expr::Nested(inner) => is_empty_array(inner),
        ast::Expr::Array(array) => array.elem.is_empty(),
        _ => false,
    }
}

fn number_text(expr: &ast::Expr) -> Option<String> {
    match expr {
        ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(digits, _), .. }) => {
            Some(digits.replace('_', ""))
        }
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => {
            number_text(expr).map(|digits| format!("-{digits}"))
        }
        ast::Expr::Nested(inner) => number_text(inner),
        _ => None,
    }
}

/// A number as PostgreSQL types it: the narrowest of integer, bigint, numeric.
fn number(digits: &str) -> Result<Typed> {
    let plain = digits.replace('_', "");
    if let Ok(i) = plain.parse::<i64>() {
        let data_type = match i32::try_from(i) {
            Ok(_) => DataType::Int4,
            Err(_) => DataType::Int8,
        };
        return Ok(Typed::new(Expr::Const(Value::Int(i)), data_type));
    }
    match types::numeric::parse(&plain)? {
        Some(d) => Ok(Typed::new(Expr::Const(Value::Numeric(d)), DataType::Numeric(None))),
        None => Err(Error::new(SqlState::SYNTAX_ERROR, format!("invalid number \"{digits}\""))),
    }
}
