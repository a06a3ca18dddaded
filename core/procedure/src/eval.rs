//! Evaluating expressions: SQL's three-valued logic over registers and one row.
//!
//! Constants, registers and columns are looked at in place ([`Expr::eval_ref`]), so comparing a
//! column with an argument clones nothing. Integer sums, the body of most update commands, are done
//! before any dispatch on types.
//!
//! Logic is evaluated left to right and stops when the answer is known. An error in an operand that
//! is not reached does not happen; which operands are reached follows from values alone, so every
//! replica agrees.

use std::borrow::Cow;
use std::cmp::Ordering;

use smallvec::SmallVec;
use types::arithmetic::{
    ArithmeticOp, BitOp, arithmetic, bit_not, bit_op, check_made_bytes, concat, neg,
};
use types::cast::cast;
use types::compare::{compare, equal};
use types::numeric::{Numeric, work};
use types::text::read_array_by;
use types::{ColumnId, DataType, Error, Result, SqlState, Value};

use crate::access::{Command, CommandCode};
use crate::expr::{BinaryOp, Expr, UnaryOp};
use crate::functions;
use crate::like::like;
use crate::meter::{Budget, EXPRESSION_UNITS_MAX, Meter};
use crate::whole::{Walk, compared, integers, number_of_one, truth_of_one};

/// What an operator on numerics costs beside its evaluation.
const NUMERIC_UNITS: u64 = 4;

/// What an expression may see, and who pays for it.
#[derive(Clone, Copy)]
struct Sight<'a, 'm> {
    registers: &'a [Value],
    row: &'a [Value],
    now_us: i64,
    meter: &'m Meter,
}

impl Expr {
    /// A value that is there already: a constant, a register, a column or an element of an array
    /// that is one of these.
    #[inline(always)]
    pub fn in_place<'a>(&'a self, registers: &'a [Value], row: &'a [Value]) -> Option<&'a Value> {
        match self {
            Expr::Reg(register) => registers.get(usize::from(register.0)),
            Expr::Column(column) => row.get(usize::from(*column)),
            Expr::Const(value) => Some(value),
            Expr::Element { array, index } => element_in_place(array, index, registers, row),
            _ => None,
        }
    }

    /// The same where it is looked for within another: compiled once.
    #[inline(never)]
    fn nested_in_place<'a>(
        &'a self,
        registers: &'a [Value],
        row: &'a [Value],
    ) -> Option<&'a Value> {
        self.in_place(registers, row)
    }

    /// The value of this expression, where no run pays for it: see [`meter`](crate::meter).
    #[inline]
    pub fn eval(&self, registers: &[Value], row: &[Value], now_us: i64) -> Result<Value> {
        match self.in_place(registers, row) {
            Some(value) => Ok(value.copied()),
            None => self.compute_unpaid(registers, row, now_us),
        }
    }

    #[inline(never)]
    fn compute_unpaid(&self, registers: &[Value], row: &[Value], now_us: i64) -> Result<Value> {
        if let Some(number) = number_of_one(self, registers, row) {
            return Ok(Value::Int(number));
        }
        let mut walk = Walk::new(registers, row);
        match walk.value(self) {
            Some(value) if walk.units <= EXPRESSION_UNITS_MAX => Ok(value),
            _ => self.compute_generally(registers, row, now_us, &Meter::of_expression()),
        }
    }

    /// The value of this expression, paid for by `meter`.
    ///
    /// A number or a truth value in a register, which most are, is copied by the caller itself.
    #[inline(always)]
    pub fn eval_metered(
        &self,
        registers: &[Value],
        row: &[Value],
        now_us: i64,
        meter: &Meter,
    ) -> Result<Value> {
        if let Expr::Reg(register) = self {
            match registers.get(usize::from(register.0)) {
                Some(Value::Int(number)) => return Ok(Value::Int(*number)),
                Some(Value::Bool(truth)) => return Ok(Value::Bool(*truth)),
                _ => {}
            }
        }
        self.eval_any(registers, row, now_us, meter)
    }

    #[inline(never)]
    fn eval_any(
        &self,
        registers: &[Value],
        row: &[Value],
        now_us: i64,
        meter: &Meter,
    ) -> Result<Value> {
        match self.in_place(registers, row) {
            Some(value) => Ok(value.copied()),
            None => self.compute(registers, row, now_us, meter),
        }
    }

    fn compute(
        &self,
        registers: &[Value],
        row: &[Value],
        now_us: i64,
        meter: &Meter,
    ) -> Result<Value> {
        if let Some(number) = number_of_one(self, registers, row) {
            meter.spend(1)?;
            return Ok(Value::Int(number));
        }
        let mut walk = Walk::new(registers, row);
        if let Some(value) = walk.value(self) {
            meter.spend(walk.units)?;
            return Ok(value);
        }
        self.compute_generally(registers, row, now_us, meter)
    }

    /// Of any type.
    pub(crate) fn compute_generally(
        &self,
        registers: &[Value],
        row: &[Value],
        now_us: i64,
        meter: &Meter,
    ) -> Result<Value> {
        let sight = Sight { registers, row, now_us, meter };
        sight.eval(self)
    }

    /// Like [`Expr::eval`], but borrows where the value is already there.
    pub fn eval_ref<'a>(
        &'a self,
        registers: &'a [Value],
        row: &'a [Value],
        now_us: i64,
    ) -> Result<Cow<'a, Value>> {
        if let Some(value) = self.in_place(registers, row) {
            return Ok(Cow::Borrowed(value));
        }
        let sight = Sight { registers, row, now_us, meter: &Meter::of_expression() };
        sight.look(self)
    }

    pub(crate) fn eval_ref_metered<'a>(
        &'a self,
        registers: &'a [Value],
        row: &'a [Value],
        now_us: i64,
        meter: &Meter,
    ) -> Result<Cow<'a, Value>> {
        let sight = Sight { registers, row, now_us, meter };
        sight.look(self)
    }

    /// The value of a condition; `None` is SQL's unknown.
    pub fn eval_truth(
        &self,
        registers: &[Value],
        row: &[Value],
        now_us: i64,
    ) -> Result<Option<bool>> {
        if let Some(value) = self.in_place(registers, row) {
            return Ok(value.as_bool());
        }
        if let Some(truth) = truth_of_one(self, registers, row) {
            return Ok(Some(truth));
        }
        let mut walk = Walk::new(registers, row);
        match walk.truth(self) {
            Some(truth) if walk.units <= EXPRESSION_UNITS_MAX => Ok(Some(truth)),
            _ => self.truth_generally(registers, row, now_us, &Meter::of_expression()),
        }
    }

    /// The same, paid for by `meter`.
    #[inline(always)]
    pub fn eval_truth_metered(
        &self,
        registers: &[Value],
        row: &[Value],
        now_us: i64,
        meter: &Meter,
    ) -> Result<Option<bool>> {
        if let Expr::Reg(register) = self
            && let Some(Value::Bool(truth)) = registers.get(usize::from(register.0))
        {
            return Ok(Some(*truth));
        }
        self.any_truth(registers, row, now_us, meter)
    }

    #[inline(never)]
    fn any_truth(
        &self,
        registers: &[Value],
        row: &[Value],
        now_us: i64,
        meter: &Meter,
    ) -> Result<Option<bool>> {
        if let Some(truth) = truth_of_one(self, registers, row) {
            meter.spend(1)?;
            return Ok(Some(truth));
        }
        if let Some(value) = self.in_place(registers, row) {
            return Ok(value.as_bool());
        }
        let mut walk = Walk::new(registers, row);
        if let Some(truth) = walk.truth(self) {
            meter.spend(walk.units)?;
            return Ok(Some(truth));
        }
        self.truth_generally(registers, row, now_us, meter)
    }

    /// Of operands of any type.
    pub(crate) fn truth_generally(
        &self,
        registers: &[Value],
        row: &[Value],
        now_us: i64,
        meter: &Meter,
    ) -> Result<Option<bool>> {
        let sight = Sight { registers, row, now_us, meter };
        sight.truth(self)
    }

    /// Evaluates what is made of constants alone, if that is soon done and its value short. What
    /// fails is left to fail when it is reached.
    pub fn folded(self) -> Expr {
        const UNITS_MAX: u64 = 64;
        let children = self.children();
        if children.is_empty() || !children.iter().all(|child| matches!(child, Expr::Const(_))) {
            return self;
        }
        // It says more than its value.
        if self.takes_nulls_for_values() {
            return self;
        }
        let meter = Meter::new(UNITS_MAX + children.len() as u64, None);
        match self.compute(&[], &[], 0, &meter) {
            Ok(value) => Expr::Const(value),
            Err(_) => self,
        }
    }

    /// Whether NULL, where it stands in a bound, is looked for.
    pub(crate) fn takes_nulls_for_values(&self) -> bool {
        matches!(self, Expr::Call { function: crate::Function::NullsAlike, .. })
    }

    /// Whether its text bounds the time that it takes, whatever values it meets: it works on the
    /// insides of no text, byte string or array that only a run knows.
    pub fn is_brief(&self) -> bool {
        !self.any(&mut |expr| match expr {
            Expr::Like { .. } | Expr::Array(_) | Expr::AnyEqual { .. } => true,
            Expr::Binary { op, left, right, .. } => {
                *op == BinaryOp::Concat || left.says_jsonb() || right.says_jsonb()
            }
            Expr::Call { function, .. } => !function.is_brief(),
            Expr::Cast { to, .. } => {
                matches!(to, DataType::Array(_) | DataType::Json | DataType::Jsonb)
            }
            _ => false,
        })
    }
}

impl Command {
    pub fn apply(&self, row: &mut [Value], now_us: i64) -> Result<()> {
        self.code.apply(&self.inputs, row, now_us, self.allowance)
    }
}

impl CommandCode {
    /// Runs the command on a row: every assignment sees the row as it was, every check as it is
    /// then. On an error the row may be half changed; the caller discards it.
    pub fn apply(
        &self,
        inputs: &[Value],
        row: &mut [Value],
        now_us: i64,
        allowance: Budget,
    ) -> Result<()> {
        match &*self.assignments {
            _ if !self.is_brief() => {
                return self.apply_metered(inputs, row, now_us, &Meter::of_command(allowance));
            }
            [(column, expression)] => {
                let value = expression.eval(inputs, row, now_us)?;
                *place(row, *column)? = value;
            }
            assignments => {
                let mut values: SmallVec<[Value; 4]> = SmallVec::with_capacity(assignments.len());
                for (_, expression) in assignments {
                    values.push(expression.eval(inputs, row, now_us)?);
                }
                for ((column, _), value) in assignments.iter().zip(values) {
                    *place(row, *column)? = value;
                }
            }
        }
        self.check(inputs, row, now_us)
    }

    /// The same, paid for by `meter`, the new values too.
    pub(crate) fn apply_metered(
        &self,
        inputs: &[Value],
        row: &mut [Value],
        now_us: i64,
        meter: &Meter,
    ) -> Result<()> {
        let mut values: SmallVec<[Value; 4]> = SmallVec::with_capacity(self.assignments.len());
        for (_, expression) in &self.assignments {
            values.push(expression.eval_metered(inputs, row, now_us, meter)?);
        }
        meter.hold_row(&values)?;
        for ((column, _), value) in self.assignments.iter().zip(values) {
            *place(row, *column)? = value;
        }
        for check in &self.checks {
            if check.condition.eval_truth_metered(inputs, row, now_us, meter)? == Some(false) {
                return Err(check.error.clone());
            }
        }
        Ok(())
    }

    /// Looks at the row that the command has made.
    pub fn check(&self, inputs: &[Value], row: &[Value], now_us: i64) -> Result<()> {
        for check in &self.checks {
            if check.condition.eval_truth(inputs, row, now_us)? == Some(false) {
                return Err(check.error.clone());
            }
        }
        Ok(())
    }
}

/// Nearly always it is a loop's turn that picks from an argument.
#[inline(never)]
fn element_in_place<'a>(
    array: &'a Expr,
    index: &'a Expr,
    registers: &'a [Value],
    row: &'a [Value],
) -> Option<&'a Value> {
    let (array, index) = match (array, index) {
        (Expr::Reg(array), Expr::Reg(index)) => {
            (registers.get(usize::from(array.0))?, registers.get(usize::from(index.0))?)
        }
        _ => (array.nested_in_place(registers, row)?, index.nested_in_place(registers, row)?),
    };
    let (elements, index) = (array.as_array()?, index.as_int()?);
    elements.get(usize::try_from(index.checked_sub(1)?).ok()?)
}

fn place(row: &mut [Value], column: ColumnId) -> Result<&mut Value> {
    row.get_mut(usize::from(column))
        .ok_or_else(|| malformed("a command assigns to a column that is not there"))
}

fn malformed(message: &str) -> Error {
    Error::new(SqlState::INTERNAL_ERROR, message)
}

impl<'a> Sight<'a, '_> {
    fn look(self, expression: &'a Expr) -> Result<Cow<'a, Value>> {
        if let Some(value) = expression.in_place(self.registers, self.row) {
            return Ok(Cow::Borrowed(value));
        }
        match expression {
            Expr::Reg(_) => Err(malformed("no such register")),
            Expr::Column(_) => Err(malformed("no such column")),
            _ => self.eval(expression).map(Cow::Owned),
        }
    }

    fn eval(self, expression: &'a Expr) -> Result<Value> {
        self.meter.spend(1)?;
        match expression {
            Expr::Const(_) | Expr::Reg(_) | Expr::Column(_) => {
                self.look(expression).map(Cow::into_owned)
            }
            Expr::Now => Ok(Value::Timestamptz(self.now_us)),
            Expr::Unary { op, input } => self.unary(*op, input),
            Expr::Binary { op, left, right, result } => self.binary(*op, left, right, result),
            Expr::And(_)
            | Expr::Or(_)
            | Expr::IsNull { .. }
            | Expr::InList { .. }
            | Expr::AnyEqual { .. }
            | Expr::Like { .. } => Ok(Value::from(self.truth(expression)?)),
            Expr::Case { whens, otherwise } => {
                for (condition, value) in whens {
                    if self.truth(condition)? == Some(true) {
                        return self.eval(value);
                    }
                }
                self.eval(otherwise)
            }
            Expr::Coalesce(inputs) => {
                for input in inputs {
                    let value = self.look(input)?;
                    if !value.is_null() {
                        return Ok(value.into_owned());
                    }
                }
                Ok(Value::Null)
            }
            Expr::Cast { input, to, explicit } => self.cast(input, to, *explicit),
            Expr::Array(elements) => {
                let mut values = Vec::with_capacity(elements.len());
                let mut weight = 0;
                for element in elements {
                    let value = self.eval(element)?;
                    weight += value.weight();
                    self.meter.spend_bytes(value.weight())?;
                    check_made_bytes(weight)?;
                    values.push(value);
                }
                Ok(Value::from(values))
            }
            Expr::Element { array, index } => self.element(array, index),
            Expr::Call { function, arguments, result } => {
                let mut values: SmallVec<[Cow<'_, Value>; 4]> = SmallVec::new();
                for argument in arguments {
                    values.push(self.look(argument)?);
                }
                functions::call(*function, &values, result, self.meter)
            }
        }
    }

    fn truth(self, expression: &'a Expr) -> Result<Option<bool>> {
        self.meter.spend(1)?;
        match expression {
            Expr::And(conditions) => self.connective(conditions, false),
            Expr::Or(conditions) => self.connective(conditions, true),
            Expr::IsNull { input, negated } => Ok(Some(self.look(input)?.is_null() != *negated)),
            Expr::InList { input, list, negated } => {
                let input = self.look(input)?;
                self.meter.spend_elements(list.len(), &input)?;
                let mut answer = Some(false);
                for item in list {
                    match equal(&input, &*self.look(item)?) {
                        Some(true) => {
                            answer = Some(true);
                            break;
                        }
                        Some(false) => {}
                        None => answer = None,
                    }
                }
                Ok(answer.map(|found| found != *negated))
            }
            Expr::AnyEqual { input, array } => {
                let (input, array) = (self.look(input)?, self.look(array)?);
                let Some(elements) = array.as_array() else { return Ok(None) };
                self.meter.spend_elements(elements.len(), &input)?;
                Ok(any_equal(&input, elements))
            }
            Expr::Like { input, pattern, escape, case_insensitive, negated } => {
                let (input, pattern) = (self.look(input)?, self.look(pattern)?);
                let (Some(text), Some(pattern)) = (input.as_text(), pattern.as_text()) else {
                    return Ok(None);
                };
                let matches = like(text, pattern, *escape, *case_insensitive, self.meter)?;
                Ok(Some(matches != *negated))
            }
            Expr::Binary { op, left, right, .. } if op.is_comparison() => {
                let in_place = |side: &'a Expr| side.in_place(self.registers, self.row);
                if let (Some(left), Some(right)) = (in_place(left), in_place(right)) {
                    return self.comparison(*op, left, right);
                }
                let (left, right) = (self.look(left)?, self.look(right)?);
                self.comparison(*op, &left, &right)
            }
            Expr::Unary { op: UnaryOp::Not, input } => Ok(self.truth(input)?.map(|truth| !truth)),
            _ => Ok(self.look(expression)?.as_bool()),
        }
    }

    /// AND (`decisive` is false) and OR (true).
    fn connective(self, conditions: &'a [Expr], decisive: bool) -> Result<Option<bool>> {
        let mut answer = Some(!decisive);
        for condition in conditions {
            match self.truth(condition)? {
                Some(truth) if truth == decisive => return Ok(Some(decisive)),
                Some(_) => {}
                None => answer = None,
            }
        }
        Ok(answer)
    }

    fn unary(self, op: UnaryOp, input: &'a Expr) -> Result<Value> {
        match op {
            UnaryOp::Not => Ok(Value::from(self.truth(input)?.map(|truth| !truth))),
            UnaryOp::Negate => {
                let value = self.look(input)?;
                neg(&value, &value.data_type_hint())
            }
            UnaryOp::BitNot => bit_not(&*self.look(input)?),
        }
    }

    fn binary(
        self,
        op: BinaryOp,
        left: &'a Expr,
        right: &'a Expr,
        result: &DataType,
    ) -> Result<Value> {
        let in_place = |side: &'a Expr| side.in_place(self.registers, self.row);
        if let (Some(Value::Int(a)), Some(Value::Int(b))) = (in_place(left), in_place(right))
            && let Some(number) = integers(op, *a, *b, result)
        {
            return Ok(Value::Int(number));
        }
        let (left, right) = (self.look(left)?, self.look(right)?);
        if let (Value::Int(a), Value::Int(b)) = (&*left, &*right)
            && let Some(number) = integers(op, *a, *b, result)
        {
            return Ok(Value::Int(number));
        }
        let numbers = |op| {
            if matches!(result, DataType::Numeric(_)) {
                let long = match (&*left, &*right) {
                    (Value::Numeric(a), Value::Numeric(b)) => work::of_operator(op, a, b),
                    (Value::Numeric(a), _) => work::of_operator(op, a, &Numeric::ONE),
                    (_, Value::Numeric(b)) => work::of_operator(op, &Numeric::ONE, b),
                    _ => 0,
                };
                self.meter.spend(NUMERIC_UNITS + long)?;
            }
            arithmetic(op, &left, &right, result)
        };
        let bits = |op| bit_op(op, &left, &right, result);
        match op {
            BinaryOp::Add => numbers(ArithmeticOp::Add),
            BinaryOp::Subtract => numbers(ArithmeticOp::Sub),
            BinaryOp::Multiply => numbers(ArithmeticOp::Mul),
            BinaryOp::Divide => numbers(ArithmeticOp::Div),
            BinaryOp::Modulo => numbers(ArithmeticOp::Mod),
            BinaryOp::Concat => {
                self.meter.spend_bytes(left.weight().saturating_add(right.weight()))?;
                concat(&left, &right)
            }
            BinaryOp::BitAnd => bits(BitOp::And),
            BinaryOp::BitOr => bits(BitOp::Or),
            BinaryOp::BitXor => bits(BitOp::Xor),
            BinaryOp::ShiftLeft => bits(BitOp::ShiftLeft),
            BinaryOp::ShiftRight => bits(BitOp::ShiftRight),
            _ => Ok(Value::from(self.comparison(op, &left, &right)?)),
        }
    }

    /// Long values are paid for by the shorter one's length: the other's rest is not looked at.
    fn comparison(self, op: BinaryOp, left: &Value, right: &Value) -> Result<Option<bool>> {
        match (left, right) {
            (Value::Numeric(left), Value::Numeric(right)) => {
                self.meter.spend(work::of_alignment(left, right))?;
            }
            (Value::Numeric(number), Value::Float(_))
            | (Value::Float(_), Value::Numeric(number)) => {
                self.meter.spend(work::of_digits(number))?;
            }
            // Of both a key is made.
            (Value::Jsonb(left), Value::Jsonb(right)) => {
                self.meter.spend_characters(left.as_str().len() + right.as_str().len())?;
            }
            _ => {}
        }
        if has_insides(left) && has_insides(right) {
            self.meter.spend_bytes(left.weight().min(right.weight()) / 4)?;
        }
        Ok(comparison(op, left, right))
    }

    fn cast(self, input: &'a Expr, to: &DataType, explicit: bool) -> Result<Value> {
        let value = self.look(input)?;
        if has_insides(&value) {
            self.meter.spend_bytes(value.weight())?;
        }
        match (&*value, to) {
            (Value::Numeric(number), to) if *to != DataType::Numeric(None) => {
                self.meter.spend(work::of_digits(number))?;
            }
            (Value::Text(text), DataType::Numeric(_)) => {
                self.meter.spend(work::of_text(text.len()))?;
            }
            // It is read one by one, sorted, and made again.
            (Value::Text(text), DataType::Json | DataType::Jsonb) => {
                self.meter.spend(work::of_text(text.len()))?;
                self.meter.spend_characters(2 * text.len())?;
            }
            _ => {}
        }
        if let (Value::Text(text), DataType::Array(element)) = (&*value, to) {
            let elements = read_array_by(element, text, &mut || self.meter.check())?;
            return Ok(Value::from(elements));
        }
        cast_value(value, to, explicit)
    }

    fn element(self, array: &'a Expr, index: &'a Expr) -> Result<Value> {
        let (array, index) = (self.look(array)?, self.look(index)?);
        let (Some(elements), Some(index)) = (array.as_array(), index.as_int()) else {
            return Ok(Value::Null);
        };
        let place = index.checked_sub(1).and_then(|i| usize::try_from(i).ok());
        let element = place.and_then(|place| elements.get(place));
        Ok(element.cloned().unwrap_or_default())
    }
}

/// Values that a cast would leave as they are pass it unlooked at, which is nearly all.
fn cast_value(value: Cow<'_, Value>, to: &DataType, explicit: bool) -> Result<Value> {
    let unchanged = matches!(
        (&*value, to),
        (Value::Int(_), DataType::Int8)
            | (Value::Text(_), DataType::Text | DataType::Varchar(None))
            | (Value::Numeric(_), DataType::Numeric(None))
            | (Value::Jsonb(_), DataType::Jsonb)
            | (Value::Null, _)
    ) || matches!((&*value, to), (Value::Int(n), DataType::Int4) if i32::try_from(*n).is_ok());
    match unchanged {
        true => Ok(value.into_owned()),
        false => cast(&value, to, explicit),
    }
}

fn has_insides(value: &Value) -> bool {
    matches!(value, Value::Text(_) | Value::Bytes(_) | Value::Array(_) | Value::Jsonb(_))
}

fn any_equal(input: &Value, elements: &[Value]) -> Option<bool> {
    let mut answer = Some(false);
    for element in elements {
        match equal(input, element) {
            Some(true) => return Some(true),
            Some(false) => {}
            None => answer = None,
        }
    }
    answer
}

fn comparison(op: BinaryOp, left: &Value, right: &Value) -> Option<bool> {
    let ordering = match (left, right) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        _ => compare(left, right),
    };
    match op {
        BinaryOp::IsDistinctFrom => Some(!same(ordering, left, right)),
        BinaryOp::IsNotDistinctFrom => Some(same(ordering, left, right)),
        _ => compared(op, ordering?),
    }
}

fn same(ordering: Option<Ordering>, left: &Value, right: &Value) -> bool {
    match ordering {
        Some(ordering) => ordering.is_eq(),
        None => left.is_null() && right.is_null(),
    }
}
