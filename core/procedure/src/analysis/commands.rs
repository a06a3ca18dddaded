//! What a command does to the row it meets, and whether two commands may trade places.
//!
//! The literature calls updates that may be applied in any order *commutative* (O'Neil's escrow,
//! 1986), those that ignore what they overwrite *blind* (Thomas), and Harmony (SIGMOD 2023)
//! reorders and coalesces both kinds. The class of a column's assignment is read off its
//! expression:
//!
//! | Assignment | Class | Two of them |
//! |---|---|---|
//! | `c = input` | set | the later one wins, the earlier need not run |
//! | `c = c + input`, `c = c + i - j`, … | add | commute and coalesce into one |
//! | anything else that reads the row | general | in order |
//!
//! Only exact arithmetic counts as `add`: integers, and decimals that no modifier rounds. A float
//! sum depends on its order. An integer sum may leave its type's range on one order's way and not
//! on another's; a protocol that reorders must check the range of the sum, or fall back to the
//! order.

use types::{ColumnId, DataType, Value};

use super::visit::reads_row;
use crate::access::CommandCode;
use crate::expr::{BinaryOp, Expr};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CommandClass {
    /// Independent of the row.
    Set,
    /// Adds to its own column what is independent of the row.
    Add,
    General,
}

/// A command as its code alone tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandFacts {
    /// The weakest of the assignments' classes.
    pub class: CommandClass,
    pub assignments: Box<[(ColumnId, CommandClass)]>,
    /// Columns whose old values matter, those that an `Add` adds to excepted; ascending.
    pub reads: Box<[ColumnId]>,
    /// Columns that checks look at after the assignments; ascending.
    pub checked: Box<[ColumnId]>,
}

impl CommandFacts {
    pub fn of(code: &CommandCode) -> Self {
        let mut reads = Vec::new();
        let mut assignments = Vec::with_capacity(code.assignments.len());
        for (column, expr) in &code.assignments {
            let class = class_of(*column, expr);
            if class == CommandClass::General {
                reads.extend(expr.columns());
            }
            assignments.push((*column, class));
        }
        let mut checked = Vec::new();
        for check in &code.checks {
            checked.extend(check.condition.columns());
        }
        let classes = assignments.iter().map(|(_, class)| *class);
        CommandFacts {
            class: classes.max().unwrap_or(CommandClass::Set),
            assignments: assignments.into(),
            reads: ascending(reads),
            checked: ascending(checked),
        }
    }

    /// Whether the two, applied to one row, give the same row in both orders.
    pub fn commutes_with(&self, other: &CommandFacts) -> bool {
        self.leaves_alone(other) && other.leaves_alone(self)
    }

    /// Nothing that this writes matters to `other`, but sums to which both add.
    fn leaves_alone(&self, other: &CommandFacts) -> bool {
        self.assignments.iter().all(|(column, class)| {
            let shared = other.assignments.iter().find(|(c, _)| c == column);
            let may_share = shared.is_none_or(|(_, theirs)| {
                *class == CommandClass::Add && *theirs == CommandClass::Add
            });
            may_share && !other.reads.contains(column) && !other.checked.contains(column)
        })
    }
}

fn ascending(mut columns: Vec<ColumnId>) -> Box<[ColumnId]> {
    columns.sort_unstable();
    columns.dedup();
    columns.into()
}

fn class_of(column: ColumnId, expr: &Expr) -> CommandClass {
    if !reads_row(expr) {
        return CommandClass::Set;
    }
    let is_sum = match expr {
        // An assignment cast between integers checks the range and changes nothing.
        Expr::Cast { input, to, .. } if to.is_integer() => {
            is_sum(column, input, &|result, _| result.is_integer())
        }
        Expr::Cast { input, to: DataType::Numeric(Some((_, scale))), explicit: false } => {
            is_sum(column, input, &|_, amount| {
                scale_of(amount).is_some_and(|digits| digits <= *scale)
            })
        }
        other => is_sum(column, other, &|result, _| {
            result.is_integer() || matches!(result, DataType::Numeric(_))
        }),
    };
    match is_sum {
        true => CommandClass::Add,
        false => CommandClass::General,
    }
}

/// Whether `expr` is the column, plus and minus amounts that do not depend on the row. `is_exact`
/// judges each addition by the type of its sum and by its amount.
fn is_sum(column: ColumnId, expr: &Expr, is_exact: &dyn Fn(&DataType, &Expr) -> bool) -> bool {
    let Expr::Binary { op, left, right, result } = expr else {
        return is_column(expr, column);
    };
    let (rest, amount) = match op {
        BinaryOp::Add if reads_row(right) => (right, left),
        BinaryOp::Add | BinaryOp::Subtract => (left, right),
        _ => return false,
    };
    !reads_row(amount) && is_exact(result, amount) && is_sum(column, rest, is_exact)
}

/// The column itself, perhaps as a wider number.
fn is_column(expr: &Expr, column: ColumnId) -> bool {
    match expr {
        Expr::Column(c) => *c == column,
        Expr::Cast { input, to, .. } => {
            (to.is_integer() || *to == DataType::Numeric(None)) && is_column(input, column)
        }
        _ => false,
    }
}

/// The most digits after the point that the value can have, if that is known.
fn scale_of(expr: &Expr) -> Option<u16> {
    match expr {
        Expr::Const(Value::Int(_)) => Some(0),
        Expr::Const(Value::Numeric(number)) if number.is_finite() => {
            u16::try_from(number.normalize().scale()).ok()
        }
        Expr::Cast { to, .. } if to.is_integer() => Some(0),
        Expr::Cast { to: DataType::Numeric(Some((_, scale))), .. } => Some(*scale),
        Expr::Cast { input, to: DataType::Numeric(None), .. } => scale_of(input),
        Expr::Unary { input, .. } => scale_of(input),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Reg;

    fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
        Expr::Binary { op, left: Box::new(left), right: Box::new(right), result: DataType::Int8 }
    }

    fn command(assignments: Vec<(ColumnId, Expr)>) -> CommandFacts {
        CommandFacts::of(&CommandCode::new(assignments.into(), Box::default()))
    }

    fn add(column: ColumnId) -> CommandFacts {
        let sum = binary(BinaryOp::Add, Expr::Column(column), Expr::Reg(Reg(0)));
        command(vec![(column, sum)])
    }

    #[test]
    fn classes_follow_from_expressions() {
        let input = || Expr::Reg(Reg(0));
        let column = || Expr::Column(1);
        let class = |expr| command(vec![(1, expr)]).class;
        assert_eq!(class(input()), CommandClass::Set);
        assert_eq!(class(binary(BinaryOp::Add, column(), input())), CommandClass::Add);
        assert_eq!(class(binary(BinaryOp::Add, input(), column())), CommandClass::Add);
        assert_eq!(class(binary(BinaryOp::Subtract, column(), input())), CommandClass::Add);
        assert_eq!(class(binary(BinaryOp::Subtract, input(), column())), CommandClass::General);
        assert_eq!(class(binary(BinaryOp::Multiply, column(), input())), CommandClass::General);
        assert_eq!(class(binary(BinaryOp::Add, column(), column())), CommandClass::General);
        assert_eq!(class(Expr::Column(2)), CommandClass::General);
    }

    #[test]
    fn sums_commute_and_settings_do_not() {
        let set = command(vec![(1, Expr::Reg(Reg(0)))]);
        let copy = command(vec![(2, Expr::Column(1))]);
        assert!(add(1).commutes_with(&add(1)));
        assert!(add(1).commutes_with(&add(2)));
        assert!(!set.commutes_with(&set));
        assert!(!add(1).commutes_with(&set));
        assert!(!add(1).commutes_with(&copy));
        assert!(add(3).commutes_with(&copy));
    }

    #[test]
    fn a_decimal_sum_is_exact_when_its_amount_fits_the_scale() {
        let sum = |digits| {
            let amount = Expr::Cast {
                input: Box::new(Expr::Reg(Reg(0))),
                to: DataType::Numeric(Some((12, digits))),
                explicit: false,
            };
            let sum = Expr::Binary {
                op: BinaryOp::Add,
                left: Box::new(Expr::Column(1)),
                right: Box::new(amount),
                result: DataType::Numeric(None),
            };
            let assigned = Expr::Cast {
                input: Box::new(sum),
                to: DataType::Numeric(Some((12, 2))),
                explicit: false,
            };
            command(vec![(1, assigned)]).class
        };
        assert_eq!(sum(2), CommandClass::Add);
        assert_eq!(sum(3), CommandClass::General);
    }
}
