//! What a PL/pgSQL body says, before anything in it has a meaning.
//!
//! Expressions and embedded SQL are sqlparser's trees; names are folded to lower case unless
//! quoted.

use procedure::NoticeLevel;
use sqlparser::ast;
use types::SqlState;

/// Boxed, since sqlparser's tree is a large value.
pub type Expr = Box<ast::Expr>;

/// `[<<label>>] [DECLARE …] BEGIN … END`.
#[derive(Clone, Debug)]
pub struct Block {
    pub label: Option<String>,
    pub declarations: Vec<Declaration>,
    pub body: Vec<Node>,
}

#[derive(Clone, Debug)]
pub struct Declaration {
    pub line: u64,
    pub name: String,
    pub kind: DeclarationKind,
}

#[derive(Clone, Debug)]
pub enum DeclarationKind {
    Variable {
        type_name: TypeName,
        constant: bool,
        not_null: bool,
        default: Option<Expr>,
    },
    /// `name ALIAS FOR other`.
    Alias(String),
}

#[derive(Clone, Debug)]
pub enum TypeName {
    Sql(Box<ast::DataType>),
    /// `variable%TYPE` or `table.column%TYPE`.
    Like(Vec<String>),
    /// `table%ROWTYPE`.
    Row(String),
    Record,
}

/// A statement and the line of the body on which it starts.
#[derive(Clone, Debug)]
pub struct Node {
    pub line: u64,
    pub statement: Statement,
}

#[derive(Clone, Debug)]
pub enum Statement {
    Null,
    Block(Block),
    Assign {
        target: Target,
        value: Expr,
    },
    /// SELECT, INSERT, UPDATE, DELETE with or without INTO.
    Sql {
        statement: Box<ast::Statement>,
        into: Option<Into>,
    },
    Perform(Box<ast::Query>),
    If {
        branches: Vec<(Expr, Vec<Node>)>,
        otherwise: Vec<Node>,
    },
    Case {
        operand: Option<Expr>,
        branches: Vec<(Vec<Expr>, Vec<Node>)>,
        /// `None`: no ELSE, so that no match is an error (20000).
        otherwise: Option<Vec<Node>>,
    },
    Loop {
        label: Option<String>,
        kind: LoopKind,
        body: Vec<Node>,
    },
    Exit {
        label: Option<String>,
        when: Option<Expr>,
    },
    Continue {
        label: Option<String>,
        when: Option<Expr>,
    },
    Raise(Raise),
    Assert {
        condition: Expr,
        message: Option<Expr>,
    },
    Return(Option<Expr>),
    ReturnNext(Option<Expr>),
    ReturnQuery(Box<ast::Query>),
    /// `GET DIAGNOSTICS target = ROW_COUNT`.
    RowCount(Vec<Target>),
}

#[derive(Clone, Debug)]
pub enum LoopKind {
    Forever,
    While(Expr),
    Range { variable: String, reverse: bool, first: Expr, last: Expr, step: Option<Expr> },
    Rows { targets: Vec<Target>, statement: Box<ast::Statement> },
    Each { target: Target, array: Expr },
}

/// What is assigned to: `name`, `label.name` or `record.field`.
#[derive(Clone, PartialEq, Debug)]
pub struct Target(pub Vec<String>);

#[derive(Clone, Debug)]
pub struct Into {
    pub strict: bool,
    pub targets: Vec<Target>,
}

#[derive(Clone, Debug)]
pub struct Raise {
    /// `None`: EXCEPTION.
    pub level: Option<NoticeLevel>,
    /// With the text that stands for a missing message.
    pub condition: Option<(SqlState, String)>,
    pub format: Option<String>,
    pub arguments: Vec<Expr>,
    pub options: Vec<(RaiseOption, Expr)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RaiseOption {
    Message,
    Detail,
    Hint,
    ErrorCode,
    /// COLUMN, CONSTRAINT, DATATYPE, TABLE, SCHEMA: checked and forgotten.
    Other,
}
