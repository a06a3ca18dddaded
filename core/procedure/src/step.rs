//! Steps: the instructions of a procedure.
//!
//! Control flow is structured (no jumps but out of a loop or of the procedure), and registers are
//! single-assignment: each is written by exactly one step, once per run of the block that holds the
//! step. Where paths meet, [`Phi`]s copy the value of the path taken; a loop carries registers from
//! one turn to the next, and a step that leaves a turn early (`Exit`, `Continue`) brings the values
//! along, as an edge to a basic block with parameters would.
//!
//! ```text
//!   acc := 0                          ForRange i from 1 to n
//!   FOR i IN 1..n LOOP                  carried  r5 = 0, next r6
//!     EXIT WHEN acc > 100;      ⇒       If r5 > 100 then Exit [r5]
//!     acc := acc + i;                   Let r6 = r5 + i
//!   END LOOP;                         ⋯ from here on, acc is r5
//! ```

use std::sync::Arc;

use types::{ColumnId, DataType, Error, SqlState, TableId};

use crate::access::CommandCode;
use crate::expr::{Expr, Reg};
use crate::query::Query;

pub type Block = Box<[Step]>;

/// `out` becomes the value of `then` or of `otherwise`, whichever path ran.
#[derive(Clone, PartialEq, Debug)]
pub struct Phi {
    pub out: Reg,
    pub then: Expr,
    pub otherwise: Expr,
}

/// `register` is `initial` on the first turn and `next` (evaluated at the end of a turn, all
/// carried registers at once) afterwards; when the loop has ended it holds the last value.
#[derive(Clone, PartialEq, Debug)]
pub struct Carried {
    pub register: Reg,
    pub initial: Expr,
    pub next: Expr,
}

/// Keys have one expression for each column of the primary key, in key order, which yields a value
/// of the column's type (casts are part of it). A key with a NULL in it finds no row.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    Let {
        out: Reg,
        value: Expr,
    },
    /// Value read by primary key; the outputs are NULL where there is no row.
    Read {
        table: TableId,
        key: Box<[Expr]>,
        columns: Box<[ColumnId]>,
        /// First of `columns.len()` consecutive registers, so that a read fills the frame in place.
        out: Reg,
        /// Boolean: the row is there.
        found: Reg,
    },
    /// Existence read by primary key (foreign keys).
    Exists {
        table: TableId,
        key: Box<[Expr]>,
        found: Reg,
    },
    /// Update by command. `inputs` become the command's inputs.
    Update {
        table: TableId,
        key: Box<[Expr]>,
        code: Arc<CommandCode>,
        inputs: Box<[Expr]>,
        found: Reg,
    },
    /// Insert a whole row; `values` are in column order. `inserted` is false when the key is taken.
    Insert {
        table: TableId,
        /// The columns of the primary key, in key order.
        key: Box<[ColumnId]>,
        /// The interpreter adds the hidden last column, which `values` lack.
        hidden_row_id: bool,
        values: Box<[Expr]>,
        inserted: Reg,
    },
    Delete {
        table: TableId,
        key: Box<[Expr]>,
        /// Columns of the table that may hold long values.
        long: Box<[ColumnId]>,
        found: Reg,
    },
    /// First row of a query into registers; NULLs where there is none. `strict`: none is P0002,
    /// more than one P0003.
    Fetch {
        query: Query,
        outputs: Box<[Reg]>,
        found: Reg,
        strict: bool,
    },
    /// The body once for each row of the query. All rows are read before the first turn, so that
    /// the body's writes do not feed the query.
    ForRows {
        query: Query,
        row: Box<[Reg]>,
        body: Block,
        carried: Box<[Carried]>,
    },
    /// The body for each integer from `first` to `last`, counting by `step` (upwards; downwards
    /// when `reverse`). Evaluated once, on entry; `step` must be positive.
    ForRange {
        register: Reg,
        first: Expr,
        last: Expr,
        step: Expr,
        reverse: bool,
        body: Block,
        carried: Box<[Carried]>,
    },
    /// The body for each element of an array.
    ForEach {
        register: Reg,
        array: Expr,
        body: Block,
        carried: Box<[Carried]>,
    },
    /// The body while `condition`, which sees carried registers.
    While {
        condition: Expr,
        body: Block,
        carried: Box<[Carried]>,
    },
    If {
        condition: Expr,
        then: Block,
        otherwise: Block,
        phis: Box<[Phi]>,
    },
    /// The condition must be true, or the transaction is rejected with `error`.
    Require {
        condition: Expr,
        error: OnError,
    },
    Raise {
        error: OnError,
    },
    /// One row of the result.
    Emit {
        values: Box<[Expr]>,
    },
    /// All rows of a query as result.
    EmitQuery {
        query: Query,
    },
    /// Add to the number of rows that the command tag reports.
    CountRows {
        by: Expr,
    },
    /// Leave a loop: `depth` 0 is the innermost around this step, 1 the next one out. `values`
    /// become that loop's carried registers, in their order.
    Exit {
        depth: u16,
        values: Box<[Expr]>,
    },
    /// Go on with the next turn of a loop; `depth` and `values` as in `Exit`.
    Continue {
        depth: u16,
        values: Box<[Expr]>,
    },
    /// Tells the client something, whatever becomes of the transaction. No ledger records it.
    Notice {
        level: NoticeLevel,
        notice: OnError,
    },
    /// The procedure ends here.
    Return,
}

/// How much a notice matters, from the least on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NoticeLevel {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
}

/// What a run has to tell its client.
#[derive(Clone, PartialEq, Debug)]
pub struct Notice {
    pub level: NoticeLevel,
    pub content: Error,
}

/// An error whose texts may hold values: each `%` of the message is replaced by the next of the
/// `arguments`, and `%%` by `%`; without arguments the message stands as it is.
#[derive(Clone, PartialEq, Debug)]
pub struct OnError {
    pub error: Error,
    pub arguments: Box<[Expr]>,
    /// Overrides `error`'s code (`RAISE … USING ERRCODE = expression`).
    pub code: Option<Expr>,
    pub detail: Option<Expr>,
    pub hint: Option<Expr>,
}

impl OnError {
    pub fn new(code: SqlState, message: &str) -> Self {
        OnError::from(Error::new(code, message))
    }
}

impl From<Error> for OnError {
    fn from(error: Error) -> Self {
        OnError { error, arguments: Box::default(), code: None, detail: None, hint: None }
    }
}

/// A result column.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    pub name: String,
    pub data_type: DataType,
}

/// What a client gets back.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// Rows, as of SELECT or RETURNING.
    Rows(Vec<Column>),
    /// Nothing but a command tag.
    Tag,
}

/// A compiled program: a stored procedure, a function or one statement.
#[derive(Debug)]
pub struct Procedure {
    /// The procedure's name, or the statement's text.
    pub name: String,
    pub parameters: Vec<Column>,
    /// Registers 0.. hold the arguments; the frame has this many in all.
    pub registers: u16,
    /// Source names of registers, in ascending order, for people who read the program: a variable
    /// has several registers over its life, a temporary has none.
    pub register_names: Box<[(Reg, Box<str>)]>,
    pub body: Block,
    pub output: Output,
    /// First word(s) of the command tag: `SELECT`, `INSERT 0`, `UPDATE`, `CALL`.
    pub tag: String,
    /// Writes nothing, whatever its arguments.
    pub read_only: bool,
    /// The last two parameters are what its random values are drawn from (see [`draws`]).
    ///
    /// [`draws`]: crate::draws
    pub draws: bool,
    /// What it needs of sequences; each has a parameter that holds it, before those two.
    pub sequences: Box<[SequenceUse]>,
}

/// That a program needs something of a sequence, which its transaction brings along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceUse {
    /// That of the sequence's state; 0: the one that the session took from last.
    pub sequence: TableId,
    pub need: SequenceNeed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SequenceNeed {
    Values {
        /// How many a run takes at most; `None`: only the data tell.
        most: Option<u64>,
        /// A run that ends well takes that many, whatever the data are.
        takes_all: bool,
    },
    /// The value that the session took last.
    Current,
}
