//! Expressions over registers and the columns of one row.

use types::{DataType, Value};

use crate::functions::Function;

/// A single-assignment register of a procedure's frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reg(pub u16);

/// Pure: no expression touches data, the clock or chance.
#[derive(Clone, PartialEq, Debug)]
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
