//! Values of expressions.

use procedure::Meter;
use procedure::like::like;
use types::{DataType, Error, Result, SqlState, SystemType, Value};

use super::cast::Names;
use super::plan::*;
use super::run::{Env, Run, check_text_bytes, internal};
use super::values::{compared, compared_rows, is_row_null, truth};

const LONG_BYTES: usize = 64 << 10;

impl Run<'_> {
    pub fn values(&self, exprs: &[Expr], env: &Env<'_>) -> Result<Vec<Value>> {
        exprs.iter().map(|expr| self.eval(expr, env)).collect()
    }

    /// Whether a condition is true: neither false nor unknown.
    pub fn holds(&self, condition: &Expr, env: &Env<'_>) -> Result<bool> {
        Ok(self.eval(condition, env)?.as_bool() == Some(true))
    }

    pub fn all_hold(&self, conditions: &[&Expr], env: &Env<'_>) -> Result<bool> {
        for condition in conditions {
            if !self.holds(condition, env)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub fn eval(&self, expr: &Expr, env: &Env<'_>) -> Result<Value> {
        match expr {
            Expr::Value(value) => Ok(value.clone()),
            Expr::Column { level, place } => {
                let mut at = env;
                for _ in 0..*level {
                    at = at.outer.ok_or_else(|| internal("a query around this one is missing"))?;
                }
                Ok(at.row.get(*place).cloned().unwrap_or_default())
            }
            Expr::Parameter(number) => {
                self.parameters.get(*number).cloned().ok_or_else(|| missing_parameter(*number))
            }
            Expr::Cast { input, from, to } => self.names().cast(&self.eval(input, env)?, from, to),
            Expr::Call { function, arguments, types } => {
                let values = self.values(arguments, env)?;
                if function.strict && values.iter().any(Value::is_null) {
                    return Ok(Value::Null);
                }
                self.brief((function.eval)(self.around, &values, types))
            }
            Expr::Fast { call, arguments } => {
                let values = self.values(arguments, env)?;
                self.brief(call.eval(&[], &values, self.session.now_us))
            }
            Expr::Arithmetic { op, sides, result } => {
                let (left, right) = self.sides(sides, env)?;
                match left.is_null() || right.is_null() {
                    true => Ok(Value::Null),
                    false => types::arithmetic::arithmetic(*op, &left, &right, result),
                }
            }
            Expr::Concat(sides) => match self.sides(sides, env)? {
                // An array that is not there is one without elements.
                (Value::Null, array @ Value::Array(_)) | (array @ Value::Array(_), Value::Null) => {
                    Ok(array)
                }
                (left, right) => self.brief(types::arithmetic::concat(&left, &right)),
            },
            Expr::Compare { op, sides } => {
                let (left, right) = self.sides(sides, env)?;
                Ok(truth(compared(*op, &left, &right)))
            }
            Expr::Match { kind, negated, sides } => {
                let (text, pattern) = self.sides(sides, env)?;
                Ok(truth(self.matches(*kind, *negated, &text, &pattern)?))
            }
            Expr::And(list) => self.all(list, env, false),
            Expr::Or(list) => self.all(list, env, true),
            Expr::Not(input) => Ok(truth(self.eval(input, env)?.as_bool().map(|truth| !truth))),
            Expr::IsNull { input, negated } => {
                Ok(Value::Bool(self.eval(input, env)?.is_null() != *negated))
            }
            Expr::IsRowNull { input, negated } => {
                Ok(Value::Bool(is_row_null(&self.eval(input, env)?, *negated)))
            }
            Expr::IsTruth { input, truth, negated } => {
                Ok(Value::Bool((self.eval(input, env)?.as_bool() == *truth) != *negated))
            }
            Expr::Case { whens, otherwise } => {
                for (condition, result) in whens {
                    if self.holds(condition, env)? {
                        return self.eval(result, env);
                    }
                }
                self.eval(otherwise, env)
            }
            Expr::Coalesce(list) => self.coalesce(list, env),
            _ => self.eval_rows(expr, env),
        }
    }

    fn eval_rows(&self, expr: &Expr, env: &Env<'_>) -> Result<Value> {
        match expr {
            Expr::Quantified { op, all, input, array } => {
                let (input, array) = (self.eval(input, env)?, self.eval(array, env)?);
                self.quantified(*op, *all, &input, &array)
            }
            Expr::Array(list) => self.brief(self.values(list, env).map(Value::from)),
            Expr::Given(number) => {
                Ok(self.given.borrow().get(*number).cloned().unwrap_or_default())
            }
            Expr::Once { number, value, body } => {
                let value = self.eval(value, env)?;
                let around = self.give(*number, value);
                let result = self.eval(body, env);
                self.give(*number, around);
                result
            }
            Expr::WholeRow { present, fields } => match self.eval(present, env)? {
                Value::Null => Ok(Value::Null),
                _ => self.values(fields, env).map(Value::from),
            },
            Expr::CompareRows { op, sides } => {
                let (left, right) = self.sides(sides, env)?;
                Ok(truth(compared_rows(*op, &left, &right)))
            }
            Expr::Element { array, index, origin } => {
                let (array, index) = (self.eval(array, env)?, self.eval(index, env)?);
                if let (Some(name), Some(index)) = (array.as_text(), index.as_int()) {
                    let place = usize::try_from(index.saturating_sub(*origin)).ok();
                    let character = place.and_then(|place| name.chars().nth(place));
                    return Ok(Value::from(character.map(String::from).unwrap_or_default()));
                }
                let (Some(elements), Some(index)) = (array.as_array(), index.as_int()) else {
                    return Ok(Value::Null);
                };
                let place = usize::try_from(index.saturating_sub(*origin)).ok();
                Ok(place.and_then(|place| elements.get(place)).cloned().unwrap_or_default())
            }
            Expr::Field { input, place } => {
                let input = self.eval(input, env)?;
                let fields = input.as_array().unwrap_or(&[]);
                Ok(fields.get(*place).cloned().unwrap_or_default())
            }
            Expr::Subquery { kind, query, cached } => {
                if let Some(cached) = cached
                    && let Some(value) = &self.cached.borrow()[*cached]
                {
                    return Ok(value.clone());
                }
                let value = self.subquery(*kind, query, env)?;
                if let Some(cached) = cached {
                    self.cached.borrow_mut()[*cached] = Some(value.clone());
                }
                Ok(value)
            }
            _ => Err(internal("an expression that nobody evaluates")),
        }
    }

    /// Sets the operand of that number, and tells what it was: what is within a body may have
    /// one of the same number.
    fn give(&self, number: usize, value: Value) -> Value {
        let mut given = self.given.borrow_mut();
        if given.len() <= number {
            given.resize(number + 1, Value::Null);
        }
        std::mem::replace(&mut given[number], value)
    }

    /// A long value takes as long as many steps, and may not be any longer than elsewhere.
    fn brief(&self, value: Result<Value>) -> Result<Value> {
        match value {
            Ok(value) if value.weight() > LONG_BYTES => {
                check_text_bytes(value.weight())?;
                self.check().map(|()| value)
            }
            value => value,
        }
    }

    fn sides(&self, sides: &[Expr; 2], env: &Env<'_>) -> Result<(Value, Value)> {
        Ok((self.eval(&sides[0], env)?, self.eval(&sides[1], env)?))
    }

    /// AND, whose decisive value is false, and OR, whose decisive value is true.
    fn all(&self, list: &[Expr], env: &Env<'_>, decisive: bool) -> Result<Value> {
        let mut unknown = false;
        for expr in list {
            match self.eval(expr, env)?.as_bool() {
                Some(truth) if truth == decisive => return Ok(Value::Bool(decisive)),
                Some(_) => {}
                None => unknown = true,
            }
        }
        Ok(if unknown { Value::Null } else { Value::Bool(!decisive) })
    }

    fn coalesce(&self, list: &[Expr], env: &Env<'_>) -> Result<Value> {
        for expr in list {
            let value = self.eval(expr, env)?;
            if !value.is_null() {
                return Ok(value);
            }
        }
        Ok(Value::Null)
    }

    fn subquery(&self, kind: SubqueryKind, query: &Query, env: &Env<'_>) -> Result<Value> {
        let rows = self.query(query, Some(env))?;
        match kind {
            SubqueryKind::Exists => Ok(Value::Bool(!rows.is_empty())),
            SubqueryKind::Scalar if rows.len() > 1 => Err(Error::new(
                SqlState(*b"21000"),
                "more than one row returned by a subquery used as an expression",
            )),
            SubqueryKind::Scalar => {
                Ok(rows.into_iter().next().map_or(Value::Null, |row| row[0].clone()))
            }
            SubqueryKind::Array => {
                let values = rows.into_iter().map(|row| match &*row {
                    [only] => only.clone(),
                    row => Value::array(row),
                });
                Ok(Value::from(values.collect::<Vec<_>>()))
            }
        }
    }

    fn quantified(&self, op: Quantifier, all: bool, input: &Value, array: &Value) -> Result<Value> {
        let Some(elements) = array.as_array() else {
            return Ok(Value::Null);
        };
        let mut unknown = false;
        for element in elements {
            self.step()?;
            let truth = match op {
                Quantifier::Compare(op) => compared(op, input, element),
                Quantifier::Rows(op) => compared_rows(op, input, element),
                Quantifier::Match { kind, negated } => {
                    self.matches(kind, negated, input, element)?
                }
            };
            match truth {
                Some(truth) if truth != all => return Ok(Value::Bool(truth)),
                Some(_) => {}
                None => unknown = true,
            }
        }
        Ok(if unknown { Value::Null } else { Value::Bool(all) })
    }

    fn matches(
        &self,
        kind: MatchKind,
        negated: bool,
        text: &Value,
        pattern: &Value,
    ) -> Result<Option<bool>> {
        let (Some(text), Some(pattern)) = (text.as_text(), pattern.as_text()) else {
            return Ok(None);
        };
        let matches = match kind {
            MatchKind::Like { any_case } => {
                like(text, pattern, Some('\\'), any_case, &Meter::of_expression())?
            }
            MatchKind::Regex { any_case } => self.regex(pattern, any_case, text)?.is_match(text),
        };
        Ok(Some(matches != negated))
    }
}

fn missing_parameter(number: usize) -> Error {
    Error::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter ${}", number + 1))
}

impl Names<'_> {
    /// Numbers that stand for names get the names, for a client to read.
    ///
    /// # Errors
    /// 54000 for a value whose text is too long.
    pub fn name_objects(&self, value: &mut Value, data_type: &DataType) -> Result<()> {
        match data_type {
            DataType::System(system) if system.is_object() && !value.is_null() => {
                let name = Value::text(self.text(value, data_type)?);
                *value = Value::array([std::mem::take(value), name]);
            }
            DataType::Array(element) => {
                let is_named = |system: &SystemType| {
                    system.is_object() || matches!(system, SystemType::Record)
                };
                let is_changed = match &**element {
                    DataType::System(system) => is_named(system),
                    DataType::Array(_) => true,
                    _ => false,
                };
                if is_changed && let Some(elements) = value.as_array() {
                    let mut elements = elements.to_vec();
                    elements.iter_mut().try_for_each(|value| self.name_objects(value, element))?;
                    *value = Value::from(elements);
                    // Each level is quoted when it is shown.
                    value.made_text(data_type)?;
                }
            }
            DataType::System(SystemType::Record) if value.as_array().is_some() => {
                let text = super::cast::record_text(value.as_array().unwrap_or_default())?;
                check_text_bytes(text.len())?;
                *value = Value::text(text);
            }
            _ => {}
        }
        Ok(())
    }
}
