//! Expressions over registers and the columns of one row.

use types::{DataType, Value};

use crate::functions::Function;

/// A single-assignment register of a procedure's frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reg(pub u16);

/// Pure: no expression touches data, the clock or chance. What is random is a function of a seed
/// and of its place in the program (see [`draws`](crate::draws)).
#[derive(Clone, Debug)]
pub enum Expr {
    Const(Value),
    Reg(Reg),
    /// Column of the row at hand: a command's row, a query's (joined) input row.
    Column(u16),
    /// The time of the block.
    Now,
    Unary {
        op: UnaryOp,
        input: Box<Expr>,
    },
    Binary {
        op: BinaryOp,
        left: Box<Expr>,
        right: Box<Expr>,
        result: DataType,
    },
    /// Three-valued; evaluation stops at the first false.
    And(Box<[Expr]>),
    /// Three-valued; evaluation stops at the first true.
    Or(Box<[Expr]>),
    IsNull {
        input: Box<Expr>,
        negated: bool,
    },
    Case {
        whens: Box<[(Expr, Expr)]>,
        otherwise: Box<Expr>,
    },
    Coalesce(Box<[Expr]>),
    /// `explicit`: CAST truncates where an assignment would be an error.
    Cast {
        input: Box<Expr>,
        to: DataType,
        explicit: bool,
    },
    InList {
        input: Box<Expr>,
        list: Box<[Expr]>,
        negated: bool,
    },
    /// `input = ANY (array)`.
    AnyEqual {
        input: Box<Expr>,
        array: Box<Expr>,
    },
    Like {
        input: Box<Expr>,
        pattern: Box<Expr>,
        escape: Option<char>,
        case_insensitive: bool,
        negated: bool,
    },
    Array(Box<[Expr]>),
    /// 1-based, NULL outside.
    Element {
        array: Box<Expr>,
        index: Box<Expr>,
    },
    Call {
        function: Function,
        arguments: Box<[Expr]>,
        result: DataType,
    },
}

/// Two that are equal compute the same to the last bit, so their constants are identical and not
/// only equal as SQL has it: `d + '1 mon'` is another than `d + '30 days'`.
impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        use Expr as E;
        match (self, other) {
            (E::Const(a), E::Const(b)) => a.is_identical(b),
            (E::Reg(a), E::Reg(b)) => a == b,
            (E::Column(a), E::Column(b)) => a == b,
            (E::Now, E::Now) => true,
            (E::Unary { op: a, input: x }, E::Unary { op: b, input: y }) => a == b && x == y,
            (
                E::Binary { op, left, right, result },
                E::Binary { op: b, left: l, right: r, result: t },
            ) => op == b && left == l && right == r && result == t,
            (E::And(a), E::And(b)) | (E::Or(a), E::Or(b)) => a == b,
            (E::Coalesce(a), E::Coalesce(b)) | (E::Array(a), E::Array(b)) => a == b,
            (E::IsNull { input: x, negated: a }, E::IsNull { input: y, negated: b }) => {
                a == b && x == y
            }
            (E::Case { whens: a, otherwise: x }, E::Case { whens: b, otherwise: y }) => {
                a == b && x == y
            }
            (
                E::Cast { input: x, to: a, explicit: e },
                E::Cast { input: y, to: b, explicit: f },
            ) => a == b && e == f && x == y,
            (
                E::InList { input: x, list: a, negated: n },
                E::InList { input: y, list: b, negated: m },
            ) => n == m && x == y && a == b,
            (E::AnyEqual { input: x, array: a }, E::AnyEqual { input: y, array: b }) => {
                x == y && a == b
            }
            (
                E::Like { input, pattern, escape, case_insensitive, negated },
                E::Like { input: x, pattern: p, escape: e, case_insensitive: c, negated: n },
            ) => {
                let same_way = escape == e && case_insensitive == c && negated == n;
                same_way && input == x && pattern == p
            }
            (E::Element { array: a, index: x }, E::Element { array: b, index: y }) => {
                a == b && x == y
            }
            (
                E::Call { function, arguments, result },
                E::Call { function: f, arguments: a, result: r },
            ) => function == f && result == r && arguments == a,
            _ => false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    Negate,
    Not,
    BitNot,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Concat,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    IsDistinctFrom,
    IsNotDistinctFrom,
}

impl BinaryOp {
    pub fn is_comparison(self) -> bool {
        use BinaryOp::*;
        matches!(
            self,
            Equal
                | NotEqual
                | Less
                | LessOrEqual
                | Greater
                | GreaterOrEqual
                | IsDistinctFrom
                | IsNotDistinctFrom
        )
    }
}

impl Expr {
    /// The expressions directly below this one.
    pub fn children(&self) -> Vec<&Expr> {
        match self {
            Expr::Const(_) | Expr::Reg(_) | Expr::Column(_) | Expr::Now => Vec::new(),
            Expr::Unary { input, .. } | Expr::IsNull { input, .. } | Expr::Cast { input, .. } => {
                vec![input]
            }
            Expr::Binary { left, right, .. } => vec![left, right],
            Expr::And(inputs) | Expr::Or(inputs) | Expr::Coalesce(inputs) | Expr::Array(inputs) => {
                inputs.iter().collect()
            }
            Expr::Case { whens, otherwise } => {
                let arms = whens.iter().flat_map(|(when, then)| [when, then]);
                arms.chain([&**otherwise]).collect()
            }
            Expr::InList { input, list, .. } => [&**input].into_iter().chain(list).collect(),
            Expr::AnyEqual { input, array } => vec![input, array],
            Expr::Like { input, pattern, .. } => vec![input, pattern],
            Expr::Element { array, index } => vec![array, index],
            Expr::Call { arguments, .. } => arguments.iter().collect(),
        }
    }

    /// The same, to be changed.
    pub fn children_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Expr::Const(_) | Expr::Reg(_) | Expr::Column(_) | Expr::Now => Vec::new(),
            Expr::Unary { input, .. } | Expr::IsNull { input, .. } | Expr::Cast { input, .. } => {
                vec![input]
            }
            Expr::Binary { left, right, .. } => vec![left, right],
            Expr::And(inputs) | Expr::Or(inputs) | Expr::Coalesce(inputs) | Expr::Array(inputs) => {
                inputs.iter_mut().collect()
            }
            Expr::Case { whens, otherwise } => {
                let arms = whens.iter_mut().flat_map(|(when, then)| [when, then]);
                arms.chain([&mut **otherwise]).collect()
            }
            Expr::InList { input, list, .. } => [&mut **input].into_iter().chain(list).collect(),
            Expr::AnyEqual { input, array } => vec![input, array],
            Expr::Like { input, pattern, .. } => vec![input, pattern],
            Expr::Element { array, index } => vec![array, index],
            Expr::Call { arguments, .. } => arguments.iter_mut().collect(),
        }
    }

    /// Calls `visit` for this expression and all below it, parents first.
    pub fn walk<'e>(&'e self, visit: &mut dyn FnMut(&'e Expr)) {
        visit(self);
        for child in self.children() {
            child.walk(visit);
        }
    }

    /// Gives every expression, parents first, to `replace`; where it returns true, what it left is
    /// not looked into.
    pub fn rewrite(&mut self, replace: &mut dyn FnMut(&mut Expr) -> bool) {
        if !replace(self) {
            for child in self.children_mut() {
                child.rewrite(replace);
            }
        }
    }

    /// Whether some expression in here satisfies `test`.
    pub fn any(&self, test: &mut dyn FnMut(&Expr) -> bool) -> bool {
        test(self) || self.children().into_iter().any(|child| child.any(test))
    }

    /// Replaces every `Column(c)` by `to(c)`.
    pub fn map_columns(&mut self, to: &mut dyn FnMut(u16) -> Expr) {
        self.rewrite(&mut |expression| match expression {
            Expr::Column(column) => {
                *expression = to(*column);
                true
            }
            _ => false,
        });
    }

    /// Replaces every `Reg(r)` by `to(r)`.
    pub fn map_registers(&mut self, to: &mut dyn FnMut(Reg) -> Expr) {
        self.rewrite(&mut |expression| match expression {
            Expr::Reg(register) => {
                *expression = to(*register);
                true
            }
            _ => false,
        });
    }

    /// The columns it uses, each as often as it stands there.
    pub fn columns(&self) -> Vec<u16> {
        let mut columns = Vec::new();
        self.walk(&mut |expression| {
            if let Expr::Column(column) = expression {
                columns.push(*column);
            }
        });
        columns
    }

    /// Conditions that must all hold, as one.
    pub fn all(mut conditions: Vec<Expr>) -> Option<Expr> {
        match conditions.len() {
            0 | 1 => conditions.pop(),
            _ => Some(Expr::And(conditions.into())),
        }
    }

    /// Whether it says itself that its value is a `jsonb`, of which comparing takes as long as its
    /// text is. Columns and registers do not.
    pub(crate) fn says_jsonb(&self) -> bool {
        match self {
            Expr::Const(value) => matches!(value, Value::Jsonb(_)),
            Expr::Cast { to, .. } => *to == DataType::Jsonb,
            Expr::Call { result, .. } => *result == DataType::Jsonb,
            _ => false,
        }
    }

    /// `left = right`.
    pub fn equal(left: Expr, right: Expr) -> Expr {
        Expr::Binary {
            op: BinaryOp::Equal,
            left: Box::new(left),
            right: Box::new(right),
            result: DataType::Bool,
        }
    }

    pub fn negated(input: Expr) -> Expr {
        Expr::Unary { op: UnaryOp::Not, input: Box::new(input) }
    }

    pub fn is_null(input: Expr, negated: bool) -> Expr {
        Expr::IsNull { input: Box::new(input), negated }
    }
}
