//! The schema as the engine sees it: compiles ledger transactions, applies schema changes.
//!
//! Two catalogs are at hand. *Next* is what the block in execution sees; sessions compile against
//! *published*, which follows when the block is durable. A program compiled under an older version
//! is compiled again by the sequencer, so a race costs time and never correctness.
//!
//! What a transaction compiles to depends on its text, its user and the catalog, on nothing of the
//! session that sent it: `current_user` is the transaction's, the other session functions answer
//! the same everywhere.

use std::sync::Arc;

use arc_swap::ArcSwap;
use concurrency::{Expectation, Interactive, Load, Moment, NoRecord, Overlay, Statement, Work};
use engine::transaction::{InteractiveText, StatementText};
use engine::{Body, Language, ObjectChange, SchemaChange, Transaction};
use parking_lot::Mutex;
use procedure::{Frame, Procedure, run};
use rustc_hash::FxHashMap;
use storage::{LATEST, Store};
use types::{Error, Height, Result, SqlState, Stop};

use crate::bind::bind_in_session;
use crate::catalog::Catalog;
use crate::ddl::Ddl;
use crate::parse::parse;
use crate::session::apply_store::apply_change;
use crate::statement::{Bound, SessionInfo, Statement as BoundStatement};

/// A catalog and how many schema changes came before it.
#[derive(Debug)]
pub struct Versioned {
    pub catalog: Catalog,
    pub version: u64,
}

pub struct Schema {
    next: ArcSwap<Versioned>,
    published: ArcSwap<Versioned>,
    compiled: Mutex<Compiled>,
}

/// Programs by (user, text), for one version of the catalog.
#[derive(Default)]
struct Compiled {
    version: u64,
    programs: FxHashMap<(String, String), Arc<Bound>>,
}

/// Texts with literals in them would otherwise fill the memory.
const COMPILED_MAX: usize = 4096;

impl Default for Schema {
    fn default() -> Self {
        Schema::new()
    }
}

impl Schema {
    pub fn new() -> Schema {
        let genesis = Arc::new(Versioned { catalog: Catalog::genesis(), version: 0 });
        Schema {
            next: ArcSwap::from(Arc::clone(&genesis)),
            published: ArcSwap::from(genesis),
            compiled: Mutex::default(),
        }
    }

    /// What sessions compile against: the catalog of the last durable block.
    pub fn published(&self) -> Arc<Versioned> {
        self.published.load_full()
    }

    fn compile_text(&self, user: &str, statement: &StatementText) -> Result<Arc<Bound>> {
        let next = self.next.load();
        let key = (user.to_owned(), statement.text.clone());
        {
            let mut compiled = self.compiled.lock();
            if compiled.version != next.version {
                *compiled = Compiled { version: next.version, ..Compiled::default() };
            }
            if let Some(bound) = compiled.programs.get(&key) {
                return Ok(Arc::clone(bound));
            }
        }
        let bound = Arc::new(compile_for_ledger(&next.catalog, user, &statement.text)?);
        let mut compiled = self.compiled.lock();
        if compiled.programs.len() >= COMPILED_MAX {
            compiled.programs.clear();
        }
        compiled.programs.insert(key, Arc::clone(&bound));
        Ok(bound)
    }

    fn compile_body(&self, user: &str, body: &Body) -> Result<Work> {
        match body {
            Body::Statement(statement) => {
                let bound = self.compile_text(user, statement)?;
                let procedure = procedure_of(&bound)?;
                let arguments = statement.arguments.as_slice().into();
                Ok(Work::Statement(Statement { procedure, arguments }))
            }
            Body::Call { procedure, arguments } => {
                let next = self.next.load();
                let routine = next.catalog.routine(procedure).ok_or_else(|| {
                    Error::new(
                        SqlState::UNDEFINED_FUNCTION,
                        format!("procedure {procedure} does not exist"),
                    )
                })?;
                let arguments = arguments.as_slice().into();
                let procedure = Arc::clone(&routine.procedure);
                Ok(Work::Statement(Statement { procedure, arguments }))
            }
            Body::Load { text, rows } => {
                let statement = StatementText { text: text.clone(), arguments: Vec::new() };
                let bound = self.compile_text(user, &statement)?;
                match &bound.statement {
                    BoundStatement::CopyIn { row, .. } => {
                        let procedure = Arc::clone(row);
                        Ok(Work::Load(Load { procedure, rows: rows.clone() }))
                    }
                    _ => Err(not_a_write(text)),
                }
            }
            Body::Interactive(interactive) => {
                self.compile_interactive(user, interactive).map(Work::Interactive)
            }
            Body::Schema { text } | Body::Parameter { name: text, .. } => Err(not_a_write(text)),
        }
    }

    fn compile_interactive(&self, user: &str, text: &InteractiveText) -> Result<Interactive> {
        let writes = text.writes.iter().map(|write| {
            let expected =
                Expectation { count: write.expected_count, rows: write.expected_rows.clone() };
            Ok((self.compile_body(user, &write.body)?, expected))
        });
        Ok(Interactive {
            now_us: text.now_us,
            rows: text.rows.clone(),
            ranges: text.ranges.clone(),
            writes: writes.collect::<Result<_>>()?,
        })
    }
}

/// The one way a text is compiled for the ledger, by the session that sends it and by every
/// replica.
pub fn compile_for_ledger(catalog: &Catalog, user: &str, text: &str) -> Result<Bound> {
    let info = SessionInfo { user: user.to_owned(), ..SessionInfo::default() };
    let parsed = parse(text)?;
    let [parsed] = parsed.as_slice() else {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "a transaction holds one statement"));
    };
    bind_in_session(catalog, &info, parsed, &[])
}

/// The program of a bound statement that may stand in the ledger as text.
pub fn procedure_of(bound: &Bound) -> Result<Arc<Procedure>> {
    match &bound.statement {
        BoundStatement::Procedure(procedure) => Ok(Arc::clone(procedure)),
        _ => Err(not_a_write("statement")),
    }
}

fn not_a_write(text: &str) -> Error {
    Error::new(SqlState::WRONG_OBJECT_TYPE, "not a statement that a block can hold")
        .with_detail(text.to_owned())
}

impl Language for Schema {
    fn compile(&self, transaction: &Transaction) -> Result<Work> {
        self.compile_body(&transaction.user, &transaction.body)
    }

    fn publish(&self) {
        let next = self.next.load();
        if next.version != self.published.load().version {
            self.published.store(Arc::clone(&next));
        }
    }

    fn schema_version(&self) -> u64 {
        self.next.load().version
    }

    fn apply(
        &self,
        text: &str,
        store: &Arc<Store>,
        height: Height,
        time_us: i64,
    ) -> Result<SchemaChange> {
        let current = self.next.load_full();
        let ddl = parse_ddl(&current.catalog, text)?;
        let (catalog, changes, validations) = current.catalog.apply(&ddl)?;
        for validation in &validations {
            if emits_rows(&validation.query, store, height, time_us)? {
                return Err(validation.error.clone());
            }
        }
        for change in &changes {
            apply_change(change, store)?;
        }
        let version = current.version + 1;
        self.next.store(Arc::new(Versioned { catalog, version }));
        // The schema is the sum of its statements, so the statement is the change's image.
        let name = format!("schema {version}");
        let object = ObjectChange { name, before: None, after: Some(text.to_owned()) };
        Ok(SchemaChange { tag: ddl.tag().to_owned(), objects: vec![object] })
    }
}

fn parse_ddl(catalog: &Catalog, text: &str) -> Result<Ddl> {
    match compile_for_ledger(catalog, "", text)?.statement {
        BoundStatement::Ddl(ddl) => Ok(ddl),
        _ => Err(Error::new(SqlState::SYNTAX_ERROR, "not a schema change")),
    }
}

/// Run a validation query on the newest state, which is the one before this block.
fn emits_rows(query: &Procedure, store: &Arc<Store>, height: Height, time_us: i64) -> Result<bool> {
    let moment = Moment { height, position: 0, now_us: time_us };
    let mut overlay = Overlay::new(store.catalog(), LATEST, moment, NoRecord);
    match run(query, &[], &mut Frame::default(), &mut overlay) {
        Ok(result) => Ok(!result.rows.is_empty()),
        Err(Stop::Rejected(error) | Stop::Retry(error)) => Err(error),
        Err(Stop::Halt(why)) => Err(Error::new(SqlState::INTERNAL_ERROR, why)),
    }
}
