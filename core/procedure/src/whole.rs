//! What is made of whole numbers: a walk that knows no other types.
//!
//! Sums, choices and comparisons of integers are most of what programs compute, and each node of
//! them costs [`eval`](crate::eval) a look at who pays, at what is borrowed and at every type. Here
//! a node is a machine word. Where the walk meets anything else, NULL or an overflow, it comes back
//! with nothing, and the expression is evaluated as any other, to its value or to its error.
//!
//! What its nodes cost is counted as `eval` counts it, to the unit, and paid for at the end.

use std::cmp::Ordering;

use types::{DataType, Value};

use crate::expr::{BinaryOp, Expr, UnaryOp};

/// What an expression may see, and what its nodes have cost.
pub(crate) struct Walk<'a> {
    registers: &'a [Value],
    row: &'a [Value],
    pub(crate) units: u64,
}

impl<'a> Walk<'a> {
    #[inline]
    pub(crate) fn new(registers: &'a [Value], row: &'a [Value]) -> Self {
        Walk { registers, row, units: 0 }
    }

    /// The value of an expression that is more than a value in its place.
    pub(crate) fn value(&mut self, expression: &'a Expr) -> Option<Value> {
        match expression {
            Expr::Binary { op, left, right, .. } if op.is_comparison() => {
                self.units += 1;
                self.comparison(*op, left, right).map(Value::Bool)
            }
            Expr::Case { whens, otherwise } => {
                self.units += 1;
                let chosen = self.chosen(whens, otherwise)?;
                match chosen.in_place(self.registers, self.row) {
                    Some(value) => {
                        self.units += 1;
                        Some(value.copied())
                    }
                    None => self.value(chosen),
                }
            }
            _ => self.number(expression).map(Value::Int),
        }
    }

    /// A condition that is true or false.
    pub(crate) fn truth(&mut self, condition: &'a Expr) -> Option<bool> {
        self.units += 1;
        match condition {
            Expr::And(conditions) => self.connective(conditions, false),
            Expr::Or(conditions) => self.connective(conditions, true),
            Expr::IsNull { input, negated } => {
                Some(input.in_place(self.registers, self.row)?.is_null() != *negated)
            }
            Expr::Binary { op, left, right, .. } if op.is_comparison() => {
                self.comparison(*op, left, right)
            }
            Expr::Unary { op: UnaryOp::Not, input } => self.truth(input).map(|truth| !truth),
            Expr::Reg(_) | Expr::Column(_) | Expr::Const(_) => {
                condition.in_place(self.registers, self.row)?.as_bool()
            }
            _ => None,
        }
    }

    fn connective(&mut self, conditions: &'a [Expr], decisive: bool) -> Option<bool> {
        for condition in conditions {
            if self.truth(condition)? == decisive {
                return Some(decisive);
            }
        }
        Some(!decisive)
    }

    #[inline]
    fn comparison(&mut self, op: BinaryOp, left: &'a Expr, right: &'a Expr) -> Option<bool> {
        let (left, right) = (self.operand(left)?, self.operand(right)?);
        compared(op, left.cmp(&right))
    }

    fn number(&mut self, expression: &'a Expr) -> Option<i64> {
        self.units += 1;
        match expression {
            Expr::Binary { op, left, right, result } => {
                integers(*op, self.operand(left)?, self.operand(right)?, result)
            }
            Expr::Case { whens, otherwise } => {
                let chosen = self.chosen(whens, otherwise)?;
                match chosen.in_place(self.registers, self.row) {
                    Some(value) => {
                        self.units += 1;
                        value.as_int()
                    }
                    None => self.number(chosen),
                }
            }
            Expr::Cast { input, to, .. } => {
                let number = self.operand(input)?;
                match to {
                    DataType::Int8 => Some(number),
                    DataType::Int4 => i32::try_from(number).is_ok().then_some(number),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// What a CASE comes to, not yet evaluated.
    fn chosen(&mut self, whens: &'a [(Expr, Expr)], otherwise: &'a Expr) -> Option<&'a Expr> {
        for (condition, value) in whens {
            if self.truth(condition)? {
                return Some(value);
            }
        }
        Some(otherwise)
    }

    /// One that is there already costs nothing.
    #[inline]
    fn operand(&mut self, expression: &'a Expr) -> Option<i64> {
        match expression {
            Expr::Reg(register) => self.registers.get(usize::from(register.0))?.as_int(),
            Expr::Column(column) => self.row.get(usize::from(*column))?.as_int(),
            Expr::Const(value) => value.as_int(),
            Expr::Element { .. } => expression.in_place(self.registers, self.row)?.as_int(),
            _ => self.number(expression),
        }
    }
}

/// Two operands that are there already.
#[inline]
fn in_place(left: &Expr, right: &Expr, registers: &[Value], row: &[Value]) -> Option<(i64, i64)> {
    let left = left.in_place(registers, row)?.as_int()?;
    Some((left, right.in_place(registers, row)?.as_int()?))
}

/// What is computed by one node, which costs one unit, from what is there already: no walk is begun
/// for it.
#[inline]
pub(crate) fn number_of_one(expression: &Expr, registers: &[Value], row: &[Value]) -> Option<i64> {
    let Expr::Binary { op, left, right, result } = expression else { return None };
    let (left, right) = in_place(left, right, registers, row)?;
    integers(*op, left, right, result)
}

/// The same of a condition.
#[inline]
pub(crate) fn truth_of_one(condition: &Expr, registers: &[Value], row: &[Value]) -> Option<bool> {
    match condition {
        Expr::Binary { op, left, right, .. } => {
            let (left, right) = in_place(left, right, registers, row)?;
            compared(*op, left.cmp(&right))
        }
        Expr::IsNull { input, negated } => {
            Some(input.in_place(registers, row)?.is_null() != *negated)
        }
        _ => None,
    }
}

/// Sums and products of integers. `None`: anything else, and an overflow, which goes the long way,
/// to its error.
#[inline]
pub(crate) fn integers(op: BinaryOp, a: i64, b: i64, result: &DataType) -> Option<i64> {
    let number = match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Subtract => a.checked_sub(b),
        BinaryOp::Multiply => a.checked_mul(b),
        _ => None,
    }?;
    match result {
        DataType::Int8 => Some(number),
        DataType::Int4 => i32::try_from(number).is_ok().then_some(number),
        _ => None,
    }
}

/// What a comparison of two values that have an order comes to.
#[inline]
pub(crate) fn compared(op: BinaryOp, ordering: Ordering) -> Option<bool> {
    match op {
        BinaryOp::Equal | BinaryOp::IsNotDistinctFrom => Some(ordering.is_eq()),
        BinaryOp::NotEqual | BinaryOp::IsDistinctFrom => Some(ordering.is_ne()),
        BinaryOp::Less => Some(ordering.is_lt()),
        BinaryOp::LessOrEqual => Some(ordering.is_le()),
        BinaryOp::Greater => Some(ordering.is_gt()),
        BinaryOp::GreaterOrEqual => Some(ordering.is_ge()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use kit::random::Random;

    use super::*;
    use crate::expr::Reg;
    use crate::meter::Meter;

    /// Of registers that hold numbers, NULL, a text, truth values and an array.
    fn draw(random: &mut Random, depth: u64) -> Expr {
        let part = |random: &mut Random| Box::new(draw(random, depth.saturating_sub(1)));
        let leaf = depth == 0 || random.below(4) == 0;
        match random.below(if leaf { 4 } else { 11 }) {
            0 => Expr::Const(Value::Int(random.below(12) as i64 - 2)),
            1 => Expr::Column(random.below(3) as u16),
            2 | 3 => Expr::Reg(Reg(random.below(8) as u16)),
            4..=6 => {
                let ops = [
                    BinaryOp::Add,
                    BinaryOp::Subtract,
                    BinaryOp::Multiply,
                    BinaryOp::Divide,
                    BinaryOp::Equal,
                    BinaryOp::NotEqual,
                    BinaryOp::Less,
                    BinaryOp::GreaterOrEqual,
                    BinaryOp::IsDistinctFrom,
                    BinaryOp::IsNotDistinctFrom,
                ];
                let op = ops[random.below(ops.len() as u64) as usize];
                let results = [DataType::Int4, DataType::Int8, DataType::Int2];
                let result = results[random.below(3) as usize].clone();
                let result = if op.is_comparison() { DataType::Bool } else { result };
                Expr::Binary { op, left: part(random), right: part(random), result }
            }
            7 => Expr::Case {
                whens: (0..1 + random.below(2)).map(|_| (*part(random), *part(random))).collect(),
                otherwise: part(random),
            },
            8 => match random.below(4) {
                0 => Expr::And([*part(random), *part(random)].into()),
                1 => Expr::Or([*part(random), *part(random)].into()),
                2 => Expr::IsNull { input: part(random), negated: random.below(2) == 0 },
                _ => Expr::Unary { op: UnaryOp::Not, input: part(random) },
            },
            9 => {
                let types = [DataType::Int4, DataType::Int8, DataType::Text];
                let to = types[random.below(3) as usize].clone();
                Expr::Cast { input: part(random), to, explicit: true }
            }
            _ => Expr::Element { array: Box::new(Expr::Reg(Reg(7))), index: part(random) },
        }
    }

    /// The walk either knows nothing, or what `eval` says at the same cost.
    #[test]
    fn it_says_what_evaluation_says_to_the_unit() {
        let numbers = |numbers: &[i64]| -> Vec<Value> {
            numbers.iter().map(|number| Value::Int(*number)).collect()
        };
        let mut registers = numbers(&[1, 7, i64::from(i32::MAX), i64::MAX]);
        registers.extend([
            Value::Null,
            Value::text("text"),
            Value::Bool(true),
            Value::array(numbers(&[3, 1, 4, 1, 5])),
        ]);
        let row = numbers(&[-3, 10, 4]);
        let (mut random, mut known) = (Random::new(3), [0; 4]);
        for _ in 0..50_000 {
            let expression = draw(&mut random, 4);
            if expression.in_place(&registers, &row).is_some() {
                continue;
            }
            let spent = |meter: &Meter| 1_000_000 - meter.left();
            let mut walk = Walk::new(&registers, &row);
            if let Some(value) = walk.value(&expression) {
                let meter = Meter::new(1_000_000, None);
                let whole = expression.compute_generally(&registers, &row, 0, &meter);
                assert_eq!(whole.expect("the walk has no errors"), value, "{expression:?}");
                assert_eq!(walk.units, spent(&meter), "{expression:?}");
                known[0] += 1;
            }
            if let Some(number) = number_of_one(&expression, &registers, &row) {
                let meter = Meter::new(1_000_000, None);
                let whole = expression.compute_generally(&registers, &row, 0, &meter);
                assert_eq!(whole.expect("no errors"), Value::Int(number), "{expression:?}");
                assert_eq!(spent(&meter), 1, "{expression:?}");
                known[2] += 1;
            }
            if let Some(truth) = truth_of_one(&expression, &registers, &row) {
                let meter = Meter::new(1_000_000, None);
                let whole = expression.truth_generally(&registers, &row, 0, &meter);
                assert_eq!(whole.expect("no errors"), Some(truth), "{expression:?}");
                assert_eq!(spent(&meter), 1, "{expression:?}");
                known[3] += 1;
            }
            let mut walk = Walk::new(&registers, &row);
            if let Some(truth) = walk.truth(&expression) {
                let meter = Meter::new(1_000_000, None);
                let whole = expression.truth_generally(&registers, &row, 0, &meter);
                assert_eq!(whole.expect("the walk has no errors"), Some(truth), "{expression:?}");
                assert_eq!(walk.units, spent(&meter), "{expression:?}");
                known[1] += 1;
            }
        }
        assert!(known.iter().all(|known| *known > 200), "{known:?}");
    }
}
