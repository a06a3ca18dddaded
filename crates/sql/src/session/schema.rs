//! The schema as the engine sees it: compiles ledger transactions, applies schema changes.
//!
//! Two catalogs are at hand. *Next* is what the block in execution sees. Sessions compile against
//! the one that came with their snapshot: it travels in the store's catalog, so that nobody reads
//! new data under an old schema or the other way round. A program compiled under an older version
//! is compiled again by the sequencer, so a race costs time and never correctness.
//!
//! What a transaction compiles to depends on its envelope (text, parameter types, user, settings,
//! seed) and the catalog, on nothing of the session that sent it: `current_user` is the
//! transaction's, random values are drawn from its seed, the other session functions answer the
//! same everywhere. No setting changes what a transaction means so far, so one that names any is
//! refused.
//!
//! *Schema changes in between.* A statement that was bound before one and runs after it is compiled
//! again; where its arguments no longer fit, it ends in 40001. So does an interactive transaction
//! that began before, whatever it touched: its requirements are keys, stamps and ranges of that
//! schema, and mean nothing under another.

use std::hash::BuildHasher;
use std::sync::Arc;

use arc_swap::ArcSwap;
use concurrency::{Load, Moment, NoRecord, Overlay, Statement, Work};
use engine::transaction::{StatementText, refuse_settings};
use engine::{Body, Language, ObjectChange, ParameterTypes, SchemaChange, Transaction};
use hashbrown::HashTable;
use parking_lot::Mutex;
use procedure::draws::Draws;
use procedure::{Column, Frame, Procedure, run};
use rustc_hash::FxBuildHasher;
use storage::{LATEST, Snapshot, Store};
use types::codec::{decode_str, encode_str};
use types::{DataType, Error, Height, Result, SqlState, Stop, Value};

use crate::bind::bind_in_session;
use crate::catalog::Catalog;
use crate::ddl::{Ddl, StoreChange, Validation};
use crate::parse::parse;
use crate::session::apply_store::apply_change;
use crate::session::sequences::Stocks;
use crate::statement::{Bound, SessionInfo, Statement as BoundStatement};

/// A catalog and how many schema changes came before it.
#[derive(Debug)]
pub struct Versioned {
    pub catalog: Arc<Catalog>,
    pub version: u64,
    /// The changes that the catalog is the sum of, in order: all but TRUNCATE, which concerns it
    /// only where sequences begin again.
    statements: Vec<Arc<str>>,
}

pub struct Schema {
    genesis: Arc<Versioned>,
    next: ArcSwap<Versioned>,
    compiled: Mutex<Compiled>,
    /// What this node has taken out of sequences.
    pub(super) stocks: Stocks,
}

/// Programs for one version of the catalog.
#[derive(Default)]
struct Compiled {
    version: u64,
    programs: HashTable<Program>,
}

struct Program {
    user: String,
    text: String,
    types: ParameterTypes,
    bound: Arc<Bound>,
}

/// Texts with literals in them would otherwise fill the memory.
const COMPILED_MAX: usize = 4096;

fn hash_of(user: &str, text: &str, types: &ParameterTypes) -> u64 {
    FxBuildHasher.hash_one((user, text, types))
}

impl Default for Schema {
    fn default() -> Self {
        Schema::new()
    }
}

impl Schema {
    pub fn new() -> Schema {
        let catalog = Arc::new(Catalog::genesis());
        let genesis = Arc::new(Versioned { catalog, version: 0, statements: Vec::new() });
        let next = ArcSwap::from(Arc::clone(&genesis));
        Schema { next, genesis, compiled: Mutex::default(), stocks: Stocks::default() }
    }

    /// What a reader of this snapshot compiles against.
    pub fn of(&self, snapshot: &Snapshot) -> Arc<Versioned> {
        let annotation = snapshot.catalog().annotation().cloned();
        let versioned = annotation.and_then(|annotation| annotation.downcast().ok());
        versioned.unwrap_or_else(|| Arc::clone(&self.genesis))
    }

    /// Makes a catalog what the next block sees.
    fn install(&self, next: Versioned, store: &Store) {
        let next = Arc::new(next);
        store.annotate(next.clone());
        self.next.store(next);
    }

    fn compile_text(&self, user: &str, text: &str, types: &ParameterTypes) -> Result<Arc<Bound>> {
        let next = self.next.load();
        let hash = hash_of(user, text, types);
        {
            let mut compiled = self.compiled.lock();
            if compiled.version != next.version {
                *compiled = Compiled { version: next.version, ..Compiled::default() };
            }
            let is_it = |p: &Program| p.text == text && p.user == user && p.types == *types;
            if let Some(program) = compiled.programs.find(hash, is_it) {
                return Ok(Arc::clone(&program.bound));
            }
        }
        let bound = Arc::new(compile_for_ledger(&next.catalog, user, text, types)?);
        let program = Program {
            user: user.to_owned(),
            text: text.to_owned(),
            types: types.clone(),
            bound: Arc::clone(&bound),
        };
        let mut compiled = self.compiled.lock();
        if compiled.programs.len() >= COMPILED_MAX {
            compiled.programs.clear();
        }
        compiled.programs.insert_unique(hash, program, |p| hash_of(&p.user, &p.text, &p.types));
        Ok(bound)
    }

    /// `draws`: what the transaction's programs have left to draw from.
    fn compile_body(&self, user: &str, body: Body, draws: &mut Draws) -> Result<Work> {
        match body {
            Body::Statement(Statement { procedure: StatementText { text, types }, arguments }) => {
                let bound = self.compile_text(user, &text, &types)?;
                let procedure = procedure_of(&bound)?;
                check_arguments(&procedure, &arguments)?;
                let arguments = draws.arguments(&procedure, arguments)?;
                Ok(Work::Statement(Statement { procedure, arguments }))
            }
            Body::Call(Statement { procedure: name, arguments }) => {
                let next = self.next.load();
                let routine = next.catalog.routine(&name).ok_or_else(|| {
                    let what = format!("procedure {name} does not exist");
                    Error::new(SqlState::UNDEFINED_FUNCTION, what)
                })?;
                let procedure = Arc::clone(&routine.procedure);
                check_arguments(&procedure, &arguments)?;
                let arguments = draws.arguments(&procedure, arguments)?;
                Ok(Work::Statement(Statement { procedure, arguments }))
            }
            Body::Load(Load { procedure: text, rows }) => {
                let bound = self.compile_text(user, &text, &ParameterTypes::default())?;
                let BoundStatement::CopyIn { row, .. } = &bound.statement else {
                    return Err(not_a_write(&text));
                };
                rows.iter().try_for_each(|values| check_arguments(row, values))?;
                let rows = rows.into_iter().map(|values| draws.arguments(row, values));
                let rows = rows.collect::<Result<_>>()?;
                Ok(Work::Load(Load { procedure: Arc::clone(row), rows }))
            }
            Body::Interactive { schema_version, .. }
                if schema_version != self.next.load().version =>
            {
                Err(schema_changed())
            }
            Body::Interactive { transaction, .. } => {
                let compiled = transaction.try_map(|write| self.compile_body(user, write, draws));
                compiled.map(Work::Interactive)
            }
            Body::Schema { text } | Body::Parameter { name: text, .. } => Err(not_a_write(&text)),
            Body::Checkpoint { .. } => Err(not_a_write("checkpoint")),
        }
    }
}

/// The one way a text is compiled for the ledger, by the session that sends it and by every
/// replica.
fn compile_for_ledger(
    catalog: &Catalog,
    user: &str,
    text: &str,
    types: &ParameterTypes,
) -> Result<Bound> {
    let info = SessionInfo { user: user.to_owned(), ..SessionInfo::default() };
    let parsed = parse(text)?;
    let [parsed] = parsed.as_slice() else {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "a transaction holds one statement"));
    };
    parsed.reads_newest()?;
    bind_in_session(catalog, &info, parsed, &types.declared())
}

/// Arguments were read by the types that the sender's schema gave them. Their number is the
/// program's to check, but for what a transaction brings along of sequences.
fn check_arguments(procedure: &Procedure, arguments: &[Value]) -> Result<()> {
    let is_it = |(parameter, value): (&Column, _)| is_of(value, &parameter.data_type);
    let asked = procedure.visible_parameters().len();
    let brought = arguments.get(asked..).map_or(0, <[_]>::len);
    let same = procedure.sequences.len() == brought || procedure.sequences.is_empty();
    match same && procedure.parameters.iter().zip(arguments).all(is_it) {
        true => Ok(()),
        false => Err(schema_changed()),
    }
}

/// Whether a value is of the kind that values of a type have.
pub fn is_of(value: &Value, data_type: &DataType) -> bool {
    match (value, data_type) {
        (Value::Null, _) | (_, DataType::Unknown | DataType::Void) => true,
        // An object may come by its name.
        (Value::Text(_), DataType::System(system)) if system.is_object() => true,
        (value, DataType::System(system)) => is_of(value, &system.storage()),
        (Value::Int(_), data_type) => data_type.is_integer(),
        (Value::Text(_), data_type) => data_type.is_string(),
        (Value::Array(values), DataType::Array(element)) => {
            values.iter().all(|value| is_of(value, element))
        }
        (value, data_type) => value.data_type_hint() == data_type.without_modifier(),
    }
}

fn schema_changed() -> Error {
    Error::serialization("The schema was changed since.")
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
    fn compile(&self, transaction: Transaction) -> Result<Work> {
        let Transaction { user, settings, seed, body } = transaction;
        refuse_settings(settings.iter().map(|(name, _)| name.as_str()))?;
        let mut draws = Draws::new(seed);
        let work = self.compile_body(&user, body, &mut draws)?;
        match draws.lanes() > 0 && seed == [0; 16] {
            // It drew nothing under the schema that it was sent under.
            true => Err(Error::serialization(
                "The transaction draws random values and came without a seed.",
            )),
            false => Ok(work),
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
        let before = store.catalog();
        let moment = Moment { height, position: 0, now_us: time_us };
        if let Err(error) = carry_out(&changes, &validations, store, moment) {
            store.put_back(before);
            return Err(error);
        }
        let version = current.version + 1;
        let mut statements = current.statements.clone();
        if !matches!(ddl, Ddl::Truncate { restart_identity: false, .. }) {
            statements.push(text.into());
        }
        let catalog = Arc::new(catalog);
        self.install(Versioned { catalog, version, statements }, store);
        // The schema is the sum of its statements, so the statement is the change's image.
        let name = format!("schema {version}");
        let object = ObjectChange { name, before: None, after: Some(text.to_owned()) };
        Ok(SchemaChange { tag: ddl.tag().to_owned(), objects: vec![object] })
    }

    /// The version and the statements, each with its length. Applied to no rows they give the same
    /// catalog, since what they make of a catalog does not depend on rows.
    fn schema_image(&self, snapshot: &Snapshot) -> Result<Vec<u8>> {
        let versioned = self.of(snapshot);
        let mut image = versioned.version.to_be_bytes().to_vec();
        for text in &versioned.statements {
            encode_str(text, &mut image);
        }
        Ok(image)
    }

    fn restore(&self, schema_image: &[u8], store: &Arc<Store>) -> Result<()> {
        let Some((version, mut texts)) = schema_image.split_first_chunk() else {
            return Err(Error::new(SqlState::DATA_CORRUPTED, "the schema has no version"));
        };
        while !texts.is_empty() {
            let text = decode_str(&mut texts)?;
            self.apply(text, store, 0, 0)?;
        }
        let Versioned { catalog, statements, .. } = &*self.next.load_full();
        let (catalog, statements) = (catalog.clone(), statements.clone());
        let version = u64::from_be_bytes(*version);
        self.install(Versioned { catalog, version, statements }, store);
        Ok(())
    }
}

fn parse_ddl(catalog: &Catalog, text: &str) -> Result<Ddl> {
    match compile_for_ledger(catalog, "", text, &ParameterTypes::default())?.statement {
        BoundStatement::Ddl(ddl) => Ok(ddl),
        _ => Err(Error::new(SqlState::SYNTAX_ERROR, "not a schema change")),
    }
}

/// Makes the changes and, between them, the validations. After an error some changes are made.
fn carry_out(
    changes: &[StoreChange],
    validations: &[Validation],
    store: &Arc<Store>,
    moment: Moment,
) -> Result<()> {
    let mut validations = validations.iter().peekable();
    for made in 0..=changes.len() {
        while let Some(validation) = validations.next_if(|next| next.after == made) {
            if emits_rows(&validation.query, store, moment)? {
                return Err(validation.error.clone());
            }
        }
        changes.get(made).map_or(Ok(()), |change| apply_change(change, store, moment.height))?;
    }
    Ok(())
}

/// Run a validation query on the newest state.
fn emits_rows(query: &Procedure, store: &Arc<Store>, moment: Moment) -> Result<bool> {
    let mut overlay = Overlay::new(store.catalog(), LATEST, moment, NoRecord);
    match run(query, &[], &mut Frame::default(), &mut overlay) {
        Ok(result) => Ok(!result.rows.is_empty()),
        Err(Stop::Rejected(error) | Stop::Retry(error)) => Err(error),
        Err(Stop::Halt(why)) => Err(Error::new(SqlState::INTERNAL_ERROR, why)),
    }
}
