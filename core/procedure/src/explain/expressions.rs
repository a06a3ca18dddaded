//! Expressions as SQL would write them, with as few parentheses as they need.

use types::{DataType, Value};

use super::Namer;
use crate::draws::written;
use crate::expr::{BinaryOp, Expr, UnaryOp};
use crate::functions::{Function, JsonFunction, RegexFunction};

/// How tightly an operator binds, in PostgreSQL's order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Or,
    And,
    Not,
    Is,
    Comparison,
    Like,
    Other,
    Sum,
    Product,
    Sign,
    Atom,
}

impl Namer<'_> {
    /// `row` names what `Column(i)` stands for.
    pub(super) fn expr(&self, expr: &Expr, row: &[String]) -> String {
        self.bound(expr, row).0
    }

    pub(super) fn list(&self, exprs: &[Expr], row: &[String]) -> String {
        let texts: Vec<String> = exprs.iter().map(|expr| self.expr(expr, row)).collect();
        texts.join(", ")
    }

    /// In parentheses, unless it binds more tightly than what is around it.
    fn inner(&self, expr: &Expr, row: &[String], around: Binding) -> String {
        let (text, binding) = self.bound(expr, row);
        match binding > around {
            true => text,
            false => format!("({text})"),
        }
    }

    fn bound(&self, expr: &Expr, row: &[String]) -> (String, Binding) {
        let atom = |text: String| (text, Binding::Atom);
        match expr {
            Expr::Const(value) => atom(literal(value)),
            Expr::Reg(register) => atom(self.register(*register).to_string()),
            Expr::Column(column) => atom(match row.get(usize::from(*column)) {
                Some(name) if !name.is_empty() => name.clone(),
                _ => format!("column {column}"),
            }),
            Expr::Now => atom("now()".to_string()),
            Expr::Unary { op, input } => {
                let (sign, binding) = match op {
                    UnaryOp::Negate => ("-", Binding::Sign),
                    UnaryOp::BitNot => ("~", Binding::Sign),
                    UnaryOp::Not => ("not ", Binding::Not),
                };
                (format!("{sign}{}", self.inner(input, row, binding)), binding)
            }
            Expr::Binary { op, left, right, .. } => self.binary(*op, left, right, row),
            Expr::And(list) => (self.joined(list, row, " and ", Binding::And), Binding::And),
            Expr::Or(list) => (self.joined(list, row, " or ", Binding::Or), Binding::Or),
            Expr::IsNull { input, negated } => {
                let test = if *negated { "is not null" } else { "is null" };
                (format!("{} {test}", self.inner(input, row, Binding::Is)), Binding::Is)
            }
            Expr::Case { whens, otherwise } => {
                let mut text = "case".to_string();
                for (when, then) in whens {
                    text +=
                        &format!(" when {} then {}", self.expr(when, row), self.expr(then, row));
                }
                atom(format!("{text} else {} end", self.expr(otherwise, row)))
            }
            Expr::Coalesce(list) => atom(format!("coalesce({})", self.list(list, row))),
            Expr::Cast { input, to, .. } => {
                atom(format!("{}::{to}", self.inner(input, row, Binding::Sign)))
            }
            Expr::InList { .. } | Expr::AnyEqual { .. } | Expr::Like { .. } => {
                self.membership(expr, row)
            }
            Expr::Array(list) => atom(format!("array[{}]", self.list(list, row))),
            Expr::Element { array, index } => {
                let array = self.inner(array, row, Binding::Sign);
                atom(format!("{array}[{}]", self.expr(index, row)))
            }
            Expr::Call { function, arguments, .. } if function.draws() => {
                let arguments = self.list(written(*function, arguments), row);
                atom(format!("{}({arguments})", function_name(*function)))
            }
            Expr::Call { function: Function::Json(of), arguments, result } => {
                self.json(*of, arguments, result, row)
            }
            Expr::Call { function, arguments, .. } => {
                atom(format!("{}({})", function_name(*function), self.list(arguments, row)))
            }
        }
    }

    /// By its operator, or by the name that PostgreSQL has for it.
    fn json(
        &self,
        function: JsonFunction,
        arguments: &[Expr],
        result: &DataType,
        row: &[String],
    ) -> (String, Binding) {
        match (function.sign(result), arguments) {
            (Some(sign), [left, right]) => {
                let left = self.inner(left, row, Binding::Other);
                let right = self.inner(right, row, Binding::Sign);
                (format!("{left} {sign} {right}"), Binding::Other)
            }
            _ => {
                let list = self.list(arguments, row);
                (format!("{}({list})", function.name(result)), Binding::Sign)
            }
        }
    }

    /// `in`, `= any`, `like`.
    fn membership(&self, expr: &Expr, row: &[String]) -> (String, Binding) {
        match expr {
            Expr::InList { input, list, negated } => {
                let not = if *negated { "not " } else { "" };
                let input = self.inner(input, row, Binding::Like);
                (format!("{input} {not}in ({})", self.list(list, row)), Binding::Like)
            }
            Expr::AnyEqual { input, array } => {
                let input = self.inner(input, row, Binding::Comparison);
                (format!("{input} = any ({})", self.expr(array, row)), Binding::Comparison)
            }
            Expr::Like { input, pattern, case_insensitive, negated, .. } => {
                let not = if *negated { "not " } else { "" };
                let like = if *case_insensitive { "ilike" } else { "like" };
                let input = self.inner(input, row, Binding::Like);
                let pattern = self.inner(pattern, row, Binding::Like);
                (format!("{input} {not}{like} {pattern}"), Binding::Like)
            }
            other => self.bound(other, row),
        }
    }

    fn joined(&self, list: &[Expr], row: &[String], word: &str, binding: Binding) -> String {
        let texts: Vec<String> = list.iter().map(|expr| self.inner(expr, row, binding)).collect();
        texts.join(word)
    }

    fn binary(&self, op: BinaryOp, left: &Expr, right: &Expr, row: &[String]) -> (String, Binding) {
        if let (BinaryOp::IsDistinctFrom, Expr::Const(Value::Bool(truth))) = (op, right) {
            let left = self.inner(left, row, Binding::Other);
            return (format!("{left} is not {truth}"), Binding::Is);
        }
        let (sign, binding) = match op {
            BinaryOp::Add => ("+", Binding::Sum),
            BinaryOp::Subtract => ("-", Binding::Sum),
            BinaryOp::Multiply => ("*", Binding::Product),
            BinaryOp::Divide => ("/", Binding::Product),
            BinaryOp::Modulo => ("%", Binding::Product),
            BinaryOp::Concat => ("||", Binding::Other),
            BinaryOp::BitAnd => ("&", Binding::Other),
            BinaryOp::BitOr => ("|", Binding::Other),
            BinaryOp::BitXor => ("#", Binding::Other),
            BinaryOp::ShiftLeft => ("<<", Binding::Other),
            BinaryOp::ShiftRight => (">>", Binding::Other),
            BinaryOp::Equal => ("=", Binding::Comparison),
            BinaryOp::NotEqual => ("<>", Binding::Comparison),
            BinaryOp::Less => ("<", Binding::Comparison),
            BinaryOp::LessOrEqual => ("<=", Binding::Comparison),
            BinaryOp::Greater => (">", Binding::Comparison),
            BinaryOp::GreaterOrEqual => (">=", Binding::Comparison),
            BinaryOp::IsDistinctFrom => ("is distinct from", Binding::Is),
            BinaryOp::IsNotDistinctFrom => ("is not distinct from", Binding::Is),
        };
        // `a - b - c` needs none on the left; on the right they always matter.
        let (left_text, left_binding) = self.bound(left, row);
        let chains = matches!(binding, Binding::Sum | Binding::Product | Binding::Other);
        let left = match left_binding > binding || (chains && left_binding == binding) {
            true => left_text,
            false => format!("({left_text})"),
        };
        let right = self.inner(right, row, binding);
        (format!("{left} {sign} {right}"), binding)
    }
}

/// A value as a literal.
pub(super) fn literal(value: &Value) -> String {
    match value {
        Value::Null => "null".to_string(),
        Value::Bool(true) => "true".to_string(),
        Value::Bool(false) => "false".to_string(),
        Value::Numeric(number) if !number.is_finite() => format!("'{number}'::numeric"),
        Value::Float(x) if !x.is_finite() => format!("'{value}'::double precision"),
        Value::Int(_) | Value::Float(_) | Value::Numeric(_) => {
            value.to_text(&value.data_type_hint())
        }
        other => {
            let text = other.to_text(&other.data_type_hint());
            format!("'{}'", text.replace('\'', "''"))
        }
    }
}

/// `ArrayLength` is `array_length`.
fn function_name(function: Function) -> String {
    let mut name = String::new();
    let shown = match function {
        Function::Regex(RegexFunction::Matches { .. }) => "RegexpMatches".to_owned(),
        Function::Regex(of) => format!("Regexp{of:?}"),
        other => format!("{other:?}"),
    };
    for c in shown.chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}
