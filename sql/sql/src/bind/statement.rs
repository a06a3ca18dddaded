//! The result of binding: a statement that has been checked against a catalog and compiled, with
//! the types of its parameters and of its columns.

use std::sync::Arc;

use procedure::{Expr, Output, Procedure};
use types::{ColumnId, DataType, Error, Result, TableId, Value};

use crate::copy::CopyOptions;
use crate::schema::sequence::Sequence;
use crate::syntax::ddl::Ddl;
use crate::syntax::parsed::Direction;
use crate::syntax::table_as::TableAs;

/// A statement that has been checked against a catalog and compiled.
#[derive(Clone, Debug)]
pub struct Bound<S = Statement> {
    pub statement: S,
    /// Types of `$1`…, as given by the client or inferred.
    pub parameters: Vec<DataType>,
    pub output: Output,
    /// Holds answers that are one session's own ([`SessionInfo`](crate::SessionInfo)), so no other
    /// may share the plan.
    pub session_dependent: bool,
    /// Is another thing in a session of another time zone.
    pub zone_dependent: bool,
    /// The constants that make it so, where the zone is not UTC.
    pub zoned: Vec<ZonedConstant>,
    /// Converts times by the clocks of a place, as this node's time zone database has them.
    pub by_clocks: bool,
}

/// A constant that the session's zone has converted.
#[derive(Clone, Debug, PartialEq)]
pub struct ZonedConstant {
    pub given: Value,
    pub to: DataType,
    pub value: Value,
}

impl<S> Bound<S> {
    /// The same, of what a statement is taken for.
    pub(crate) fn map<T>(self, statement: impl FnOnce(S) -> T) -> Bound<T> {
        let Bound { statement: given, parameters, output, session_dependent, .. } = self;
        let (zone_dependent, by_clocks, zoned) = (self.zone_dependent, self.by_clocks, self.zoned);
        let statement = statement(given);
        Bound { statement, parameters, output, session_dependent, zone_dependent, zoned, by_clocks }
    }

    /// # Errors
    /// 0A000: a column's values could not be told, since no client knows their type.
    pub(crate) fn check_columns(&self) -> Result<()> {
        let Output::Rows(columns) = &self.output else { return Ok(()) };
        for column in columns {
            if let DataType::Array(element) = &column.data_type
                && matches!(**element, DataType::Array(_))
            {
                return Err(Error::unsupported("an array of more than one dimension"));
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub enum Statement {
    Program(Program),
    Ddl(Ddl),
    Command(Command),
}

/// What runs over the data, as the statement's parameters have it.
#[derive(Clone, Debug)]
pub enum Program {
    /// SELECT and DML: a program whose arguments are the parameters.
    Procedure(Arc<Procedure>),
    /// `CALL p(…)`, `SELECT f(…)`, `SELECT * FROM f(…)`: the arguments, constants and parameters
    /// (`Reg(i)` is `$i+1`) under pure operators, are evaluated by the session, so that the ledger
    /// records a name and values. Where [`Bound::output`] has rows and the procedure's output has
    /// none (a function that returns void), the client gets one row with one empty value.
    Call {
        procedure: Arc<Procedure>,
        arguments: Vec<Expr>,
        /// First word of the command tag: `CALL` or `SELECT`.
        tag: &'static str,
    },
    /// `SELECT setval(…), …`: the query yields a value, and whether it was taken, for each of them.
    SetValues {
        sequences: Vec<Arc<Sequence>>,
        query: Arc<Procedure>,
    },
    /// `row` inserts one row: its parameters are the listed columns' values. `at_end` looks at each
    /// again when all are there.
    CopyIn {
        table: TableId,
        columns: Vec<ColumnId>,
        row: Arc<Procedure>,
        at_end: Option<Arc<Procedure>>,
        options: CopyOptions,
    },
    CopyOut {
        query: Arc<Procedure>,
        options: CopyOptions,
    },
    /// A question about the past, or about which of it is kept.
    Past(PastQuery),
    /// The lines of EXPLAIN, one row each.
    Explain(Vec<String>),
    /// Calls of functions that act on the session, one after the other, and a row of values over
    /// the parameters and their results.
    SessionCalls {
        calls: Vec<SessionCall>,
        row: Vec<Expr>,
    },
}

/// What is said to the session.
#[derive(Clone, Debug)]
pub enum Command {
    CreateTableAs(Arc<TableAs>),
    LockTable(TableLock),
    Begin(TransactionModes),
    /// `SET TRANSACTION` within a block.
    SetTransaction(TransactionModes),
    /// `SET SESSION CHARACTERISTICS AS TRANSACTION`.
    SetSessionCharacteristics(TransactionModes),
    Commit,
    Rollback,
    /// COMMIT or ROLLBACK, and the beginning of another transaction of the same kind.
    Chain {
        commits: bool,
    },
    /// Those that are called so; none: all.
    SetConstraints {
        names: Vec<String>,
        deferred: bool,
    },
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    /// `value` is `None` for `SET x TO DEFAULT`.
    Set {
        name: String,
        value: Option<String>,
        local: bool,
    },
    /// `SHOW name`; `all` for every setting.
    Show(String),
    /// `RESET name`; `None` is `RESET ALL`.
    Reset(Option<String>),
    Discard(Discarded),
    Listen(String),
    /// `None`: UNLISTEN *.
    Unlisten(Option<String>),
    Notify {
        channel: String,
        payload: String,
    },
    /// SQL-level PREPARE; `text` is the statement after AS.
    Prepare {
        name: String,
        types: Vec<Option<DataType>>,
        text: String,
    },
    /// Arguments may not use parameters.
    Execute {
        name: String,
        arguments: Vec<Expr>,
    },
    /// FETCH, or MOVE, whose rows are only counted.
    Fetch {
        name: String,
        direction: Direction,
        moves: bool,
    },
    /// `None`: CLOSE ALL.
    CloseCursor(Option<String>),
    /// `None`: DEALLOCATE ALL.
    Deallocate(Option<String>),
    /// Accepted and without effect (VACUUM, ANALYZE, LOCK-free hints); the command tag.
    Nothing(&'static str),
    /// Text without a statement.
    Empty,
}

/// LOCK TABLE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableLock {
    pub tables: Vec<TableId>,
    /// Against reads and writes of others, or their writes alone; `None`: the mode concerns
    /// schema changes, which wait for no session.
    pub exclusive: Option<bool>,
    pub nowait: bool,
}

/// What DISCARD forgets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discarded {
    All,
    Plans,
    Sequences,
    Temporary,
}

/// What BEGIN may ask for; `None` where it says nothing. Every level runs as SERIALIZABLE.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TransactionModes {
    pub isolation: Option<Isolation>,
    pub read_only: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

/// What is asked about the past. Arguments are values when the statement runs.
#[derive(Clone, Debug)]
pub enum PastQuery {
    /// A name, and a block or NULL for the newest.
    Pin {
        name: Expr,
        block: Option<Expr>,
    },
    Unpin {
        name: Expr,
    },
    Pins,
    Snapshot,
    /// Blocks that the ledger records as skipped.
    Skips,
    /// What a key of the session's user has come to.
    Outcome {
        key: Expr,
    },
    /// The values of the primary key.
    History {
        table: TableId,
        key: Vec<Expr>,
    },
    Proof(ProofQuery),
    /// A transaction that its user has signed.
    SubmitSigned {
        envelope: Expr,
    },
    /// A transaction that this node is to approve.
    Approve {
        envelope: Expr,
    },
    /// A transaction that is to be simulated, for others to endorse what it comes to.
    Propose {
        envelope: Expr,
    },
    /// Some columns of what it answers.
    Columns {
        of: Box<PastQuery>,
        places: Vec<usize>,
    },
}

/// What is to be proven. Arguments are values when the statement runs.
#[derive(Clone, Debug)]
pub enum ProofQuery {
    LastCommit,
    Receipt {
        block: Expr,
        index: Expr,
    },
    /// Rows of a table, by values of its primary key's columns.
    Rows {
        table: TableId,
        which: WhichRows,
        key: Vec<Expr>,
    },
    Head {
        block: Expr,
    },
    SignedHead,
    VerifierKey,
    Consistency {
        old: Expr,
        new: Expr,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhichRows {
    /// The one with this key.
    One,
    /// That there is none with this key.
    None,
    /// From one value of the first column to another, or to either end.
    Between,
    /// Those whose key begins so.
    Beginning,
}

/// How long a lock is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    Session = 0,
    Transaction = 1,
}

/// What a session does when it is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionFunction {
    AdvisoryLock { exclusive: bool, level: Level, waits: bool },
    AdvisoryUnlock { exclusive: bool },
    AdvisoryUnlockAll,
    CancelBackend,
    TerminateBackend,
    ClockTimestamp,
    StatementTimestamp,
    TimeOfDay,
    ListeningChannels,
    Notify,
    NotificationQueueUsage,
    SetConfig,
    Sleep,
}

/// A call; its arguments are over the parameters and the results of the calls before it.
#[derive(Clone, PartialEq, Debug)]
pub struct SessionCall {
    pub function: SessionFunction,
    pub arguments: Vec<Expr>,
}
