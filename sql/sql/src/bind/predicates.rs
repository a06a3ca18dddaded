//! Tests that have a syntax of their own: IS, BETWEEN, IN, LIKE, ANY and ALL.

use procedure::{BinaryOp, Expr};
use sqlparser::ast;
use types::arithmetic::no_operator;
use types::cast::CastContext;
use types::{DataType, Error, Result, SqlState, Value};

use super::binder::{Binder, Typed, fold};
use super::collated::Collated;
use super::operators::{compared_in, negated_if};
use super::quantified::{Compared, Quantifier, all_of};
use super::scope::Scope;
use crate::syntax::precedence::SYMMETRIC;

impl Binder<'_> {
    /// What is none of them goes on to syntax that stands for a function.
    pub(super) fn predicate(&mut self, scope: &Scope, expr: &ast::Expr) -> Result<Typed> {
        use ast::Expr as E;
        match expr {
            E::IsNull(e) => self.null_test(scope, e, false),
            E::IsNotNull(e) => self.null_test(scope, e, true),
            E::IsTrue(e) => self.truth_test(scope, e, Some(true), false),
            E::IsNotTrue(e) => self.truth_test(scope, e, Some(true), true),
            E::IsFalse(e) => self.truth_test(scope, e, Some(false), false),
            E::IsNotFalse(e) => self.truth_test(scope, e, Some(false), true),
            E::IsUnknown(e) => self.truth_test(scope, e, None, false),
            E::IsNotUnknown(e) => self.truth_test(scope, e, None, true),
            E::IsDistinctFrom(a, b) => self.compared(scope, a, BinaryOp::IsDistinctFrom, b),
            E::IsNotDistinctFrom(a, b) => self.compared(scope, a, BinaryOp::IsNotDistinctFrom, b),
            E::Between { expr, negated, low, high } => {
                self.between(scope, expr, *negated, low, high)
            }
            E::InList { expr, list, negated } => self.in_list(scope, expr, list, *negated),
            E::InSubquery { expr, subquery, negated } => {
                self.in_subquery(scope, expr, subquery, *negated)
            }
            E::Exists { subquery, negated } => {
                let found = self.exists_subquery(scope, subquery)?;
                Ok(negated_if(*negated, found))
            }
            E::AnyOp { left, compare_op: ast::BinaryOperator::Eq, right, .. } => {
                self.any_equal(scope, left, right)
            }
            E::AllOp { left, compare_op: ast::BinaryOperator::NotEq, right }
                if !is_subquery(right) =>
            {
                let any = self.any_equal(scope, left, right)?;
                Ok(negated_if(true, any))
            }
            E::AnyOp { left, compare_op, right, .. } => {
                let compared = Compared::by(compare_op)?;
                self.quantified(scope, left, (compared, Quantifier::Any), right)
            }
            E::AllOp { left, compare_op, right } => {
                let compared = Compared::by(compare_op)?;
                self.quantified(scope, left, (compared, Quantifier::All), right)
            }
            E::Like { negated, any, expr, pattern, escape_char } => {
                let how = (false, *negated, escape(escape_char.as_ref())?);
                self.like_any(scope, expr, pattern, *any, how)
            }
            E::ILike { negated, any, expr, pattern, escape_char } => {
                let how = (true, *negated, escape(escape_char.as_ref())?);
                self.like_any(scope, expr, pattern, *any, how)
            }
            E::SimilarTo { negated, expr, pattern, escape_char } => {
                self.similar_to(scope, (expr, pattern), escape_char.as_ref(), *negated)
            }
            _ => self.function_syntax(scope, expr),
        }
    }

    fn null_test(&mut self, scope: &Scope, expr: &ast::Expr, negated: bool) -> Result<Typed> {
        if let Some(test) = self.row_is_null(scope, expr, negated)? {
            return Ok(Typed::new(test, DataType::Bool));
        }
        let typed = self.expression(scope, expr)?;
        let typed = self.resolved(typed)?;
        let test = match &typed.data_type {
            DataType::Record(_) => {
                let fields = self.fields_of(typed)?;
                self.are_null(fields, negated)?
            }
            _ => fold(Expr::is_null(typed.expr, negated)),
        };
        Ok(Typed::new(test, DataType::Bool))
    }

    fn truth_test(
        &mut self,
        scope: &Scope,
        expr: &ast::Expr,
        truth: Option<bool>,
        negated: bool,
    ) -> Result<Typed> {
        let typed = self.expression(scope, expr)?;
        let expr = self.boolean(typed, "IS TRUE")?;
        let op = match negated {
            true => BinaryOp::IsDistinctFrom,
            false => BinaryOp::IsNotDistinctFrom,
        };
        let expr = Expr::Binary {
            op,
            left: Box::new(expr),
            right: Box::new(Expr::Const(Value::from(truth))),
            result: DataType::Bool,
        };
        Ok(Typed::new(fold(expr), DataType::Bool))
    }

    fn between(
        &mut self,
        scope: &Scope,
        expr: &ast::Expr,
        negated: bool,
        low: &ast::Expr,
        high: &ast::Expr,
    ) -> Result<Typed> {
        if let ast::Expr::Prefixed { prefix, value } = low
            && prefix.value == SYMMETRIC
        {
            let sides = [
                self.between(scope, expr, false, value, high)?.expr,
                self.between(scope, expr, false, high, value)?.expr,
            ];
            let either = Typed::new(fold(Expr::Or(sides.into())), DataType::Bool);
            return Ok(negated_if(negated, either));
        }
        let (above, below) = match negated {
            false => (BinaryOp::GreaterOrEqual, BinaryOp::LessOrEqual),
            true => (BinaryOp::Less, BinaryOp::Greater),
        };
        let above = self.compared(scope, expr, above, low)?.expr;
        let below = self.compared(scope, expr, below, high)?.expr;
        let parts = [above, below].into();
        let expr = match negated {
            false => Expr::And(parts),
            true => Expr::Or(parts),
        };
        Ok(Typed::new(fold(expr), DataType::Bool))
    }

    fn in_list(
        &mut self,
        scope: &Scope,
        expr: &ast::Expr,
        list: &[ast::Expr],
        negated: bool,
    ) -> Result<Typed> {
        if let Some(found) = self.row_in_list(scope, expr, list, negated)? {
            return Ok(found);
        }
        let mut inputs = vec![self.expression(scope, expr)?];
        for item in list {
            let item = self.expression(scope, item)?;
            inputs.push(self.resolved_row(item)?);
        }
        let blank_padded = inputs.iter().any(|i| matches!(i.data_type, DataType::Char(_)));
        let mut common = inputs[0].data_type.clone();
        for input in &inputs[1..] {
            common = compared_in(&common, &input.data_type)
                .ok_or_else(|| no_operator(&common, "=", &input.data_type))?;
        }
        if common == DataType::Unknown {
            common = DataType::Text;
        }
        Collated::of_all(&inputs)?.check_equality()?;
        let mut exprs = Vec::with_capacity(inputs.len());
        for input in inputs {
            exprs.push(self.comparand(input, &common, blank_padded)?);
        }
        let input = Box::new(exprs.remove(0));
        let expr = Expr::InList { input, list: exprs.into(), negated };
        Ok(Typed::new(fold(expr), DataType::Bool))
    }

    fn any_equal(&mut self, scope: &Scope, left: &ast::Expr, right: &ast::Expr) -> Result<Typed> {
        if let ast::Expr::Subquery(query) = right {
            return self.in_subquery(scope, left, query, false);
        }
        let input = self.expression(scope, left)?;
        let array = self.expression(scope, right)?;
        self.equals_any(input, array)
    }

    fn like_any(
        &mut self,
        scope: &Scope,
        expr: &ast::Expr,
        pattern: &ast::Expr,
        any: bool,
        (case_insensitive, negated, escape): (bool, bool, Option<char>),
    ) -> Result<Typed> {
        let compared = Compared::Like { case_insensitive, negated, escape };
        if any {
            return self.quantified(scope, expr, (compared, Quantifier::Any), pattern);
        }
        if let Some(all) = all_of(pattern)? {
            return self.quantified(scope, expr, (compared, Quantifier::All), &all);
        }
        let (expr, pattern) = (self.expression(scope, expr)?, self.expression(scope, pattern)?);
        self.like(expr, pattern, (case_insensitive, negated, escape))
    }

    pub(super) fn like(
        &mut self,
        input: Typed,
        pattern: Typed,
        (case_insensitive, negated, escape): (bool, bool, Option<char>),
    ) -> Result<Typed> {
        input.collated.with(&pattern.collated)?.check_patterns("LIKE")?;
        let input = self.with_blanks(input);
        let mut text = |side: Typed| {
            let side = self.stored(side);
            if !side.data_type.is_string() && side.data_type != DataType::Unknown {
                return Err(no_operator(&side.data_type, "~~", &DataType::Text));
            }
            self.coerce(side, &DataType::Text, CastContext::Implicit).map(Box::new)
        };
        let (input, pattern) = (text(input)?, text(pattern)?);
        let expr = Expr::Like { input, pattern, escape, case_insensitive, negated };
        Ok(Typed::new(fold(expr), DataType::Bool))
    }
}

fn escape(escape: Option<&ast::ValueWithSpan>) -> Result<Option<char>> {
    match escape.map(|e| &e.value) {
        None => Ok(Some('\\')),
        Some(ast::Value::SingleQuotedString(text)) => {
            let mut characters = text.chars();
            match (characters.next(), characters.next()) {
                (first, None) => Ok(first),
                _ => Err(Error::new(SqlState(*b"22019"), "invalid escape string")
                    .with_hint("Escape string must be empty or one character.")),
            }
        }
        Some(_) => Err(Error::unsupported("ESCAPE with anything but a literal")),
    }
}

fn is_subquery(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Subquery(_))
}
