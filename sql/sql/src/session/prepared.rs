//! A statement as a session has bound it.

use std::sync::{Arc, OnceLock};

use engine::ParameterTypes;
use procedure::{Column, Output};
use types::{TableId, Value, Zone};

use super::keyed::Keyed;
use super::lock_clauses::Locking;
use crate::bind::origins::Origin;
use crate::bind::statement::{Bound, Command, Program, Statement};
use crate::copy::CopyOptions;
use crate::plan::analytical_engine::AnalyticalPlan;
use crate::plan::router::Reason;
use crate::syntax::ddl::Ddl;
use crate::syntax::explain::ExplainOptions;
use crate::syntax::parsed::{Declaration, Parsed};

/// What a session does with a statement.
#[derive(Clone, Debug)]
pub enum Action {
    Program(Program),
    Ddl(Ddl),
    Command(Command),
    /// A query that only an analytical engine answers, or what COPY makes of its rows.
    Analytical {
        plan: Arc<dyn AnalyticalPlan>,
        reason: Reason,
        copy: Option<CopyOptions>,
    },
    /// EXPLAIN in a session, which knows who would run the statement.
    Explained {
        prepared: Arc<Prepared>,
        options: ExplainOptions,
    },
    /// The query's rows stay in the session, for FETCH.
    Declare {
        declaration: Declaration,
        query: Arc<Prepared>,
    },
}

impl Action {
    /// Whether it shows anything of a snapshot.
    pub(super) fn reads(&self) -> bool {
        match self {
            Action::Program(program) => matches!(
                program,
                Program::Procedure(_)
                    | Program::Call { .. }
                    | Program::CopyOut { .. }
                    | Program::Explain(_)
                    | Program::Past(_)
            ),
            Action::Analytical { .. } | Action::Explained { .. } | Action::Declare { .. } => true,
            Action::Ddl(_) | Action::Command(_) => false,
        }
    }

    /// Whether the ledger is asked for it as a statement.
    pub(super) fn writes(&self) -> bool {
        match self {
            Action::Program(Program::Procedure(procedure)) => !procedure.read_only,
            Action::Program(Program::CopyIn { .. }) => true,
            _ => false,
        }
    }

    /// Whether the ledger is asked for a call of a routine.
    pub(super) fn calls(&self) -> bool {
        matches!(self,
            Action::Program(Program::Call { procedure, .. }) if !procedure.read_only)
    }

    /// Whether the ledger is asked for it.
    pub(super) fn is_ordered(&self) -> bool {
        self.writes() || self.calls() || matches!(self, Action::Ddl(_))
    }

    /// Whether AS OF can stand in it.
    pub(super) fn may_say_as_of(&self) -> bool {
        match self {
            Action::Program(Program::Procedure(procedure) | Program::Call { procedure, .. }) => {
                procedure.read_only
            }
            Action::Command(Command::Begin(_) | Command::Prepare { .. }) => true,
            other => other.reads(),
        }
    }

    /// Whether it leads out of a transaction that has failed.
    pub(super) fn ends_failed(&self) -> bool {
        let Action::Command(command) = self else { return false };
        matches!(
            command,
            Command::Commit | Command::Rollback | Command::Chain { .. } | Command::RollbackTo(_)
        )
    }
}

impl From<Statement> for Action {
    fn from(statement: Statement) -> Action {
        match statement {
            Statement::Program(program) => Action::Program(program),
            Statement::Ddl(ddl) => Action::Ddl(ddl),
            Statement::Command(command) => Action::Command(command),
        }
    }
}

/// A statement that a session has bound, and what it was bound under.
#[derive(Debug)]
pub struct Prepared {
    pub parsed: Parsed,
    pub bound: Bound<Action>,
    pub(super) types: ParameterTypes,
    pub(super) version: u64,
    pub(super) zone: Zone,
    /// Whose privileges it was bound with.
    pub(super) role: Arc<str>,
    /// The tables' columns that its own are, if any.
    pub origins: Box<[Option<Origin>]>,
    /// Tables whose size decides who runs it ([`router`](crate::plan::router)); most statements
    /// have none.
    pub(super) scanned: Box<[TableId]>,
    /// How many rows of them are the analytical engine's, who need not agree in all digits.
    pub(super) outgrown_at: Option<u64>,
    pub(super) locking: Locking,
    /// What locks its rows, once that was wanted; `None` in it: nothing does.
    pub(super) keyed: OnceLock<Option<Arc<Keyed>>>,
    /// The analytical engine's plan, once it was wanted; `None` in it: the row executor stays.
    pub(super) broad: OnceLock<Option<Arc<dyn AnalyticalPlan>>>,
    /// It names what is the session's own.
    pub(super) temporary: bool,
    /// It may break a key that can wait.
    pub(super) may_defer: bool,
}

impl Prepared {
    pub(super) fn explaining(
        parsed: Parsed,
        types: ParameterTypes,
        of: Prepared,
        options: ExplainOptions,
    ) -> Prepared {
        let column = Column { name: "QUERY PLAN".into(), data_type: options.data_type() };
        let output = Output::Rows(vec![column]);
        Prepared::around(parsed, types, output, of, |prepared| Action::Explained {
            prepared,
            options,
        })
    }

    pub(super) fn declaring(
        parsed: Parsed,
        types: ParameterTypes,
        declaration: Declaration,
        of: Prepared,
    ) -> Prepared {
        Prepared::around(parsed, types, Output::Tag, of, |query| Action::Declare {
            declaration,
            query,
        })
    }

    /// A statement that has another one in it, with its parameters.
    fn around(
        parsed: Parsed,
        types: ParameterTypes,
        output: Output,
        of: Prepared,
        statement: impl FnOnce(Arc<Prepared>) -> Action,
    ) -> Prepared {
        let (version, parameters) = (of.version, of.bound.parameters.clone());
        let role = Arc::clone(&of.role);
        let (zone, zone_dependent) = (of.zone.clone(), of.bound.zone_dependent);
        let locking = Locking::default();
        let statement = statement(Arc::new(of));
        let session_dependent = true;
        let bound = Bound {
            statement,
            parameters,
            output,
            session_dependent,
            zone_dependent,
            zoned: Vec::new(),
            by_clocks: false,
        };
        let (scanned, origins) = (Box::default(), Box::default());
        let (keyed, broad) = (OnceLock::new(), OnceLock::new());
        // The statement within is asked.
        let temporary = false;
        Prepared {
            temporary,
            may_defer: false,
            parsed,
            bound,
            types,
            version,
            zone,
            role,
            origins,
            scanned,
            outgrown_at: None,
            locking,
            keyed,
            broad,
        }
    }
}

/// What a statement takes that is kept, by estimate.
pub fn statement_bytes(text_bytes: usize) -> usize {
    const STATEMENT_BYTES: usize = 1 << 10;
    const BYTES_PER_TEXT_BYTE: usize = 32;
    STATEMENT_BYTES + BYTES_PER_TEXT_BYTE * text_bytes
}

/// A text without its literals, under one schema.
pub(super) struct Lifted {
    pub version: u64,
    /// `None`: it does not bind without them.
    pub prepared: Option<Arc<Prepared>>,
}

/// Literals that stood in a statement's text, and are given to it as parameters.
pub type Literals = Arc<[Value]>;

/// A statement on its way to being bound.
pub enum Source {
    Parsed(Parsed),
    /// A text that has been bound before, as it stands.
    Known(String),
    /// What is left of it without its literals, and these.
    Lifted(Arc<Prepared>, Literals),
}
